"""Search for the sentences that contain a phrase as a substring, ignoring case, in every script.

The text index is an SQLite FTS5 table with the tokenizer ``trigram``: for each sequence of three characters (trigram)
it lists the sentences that contain it.
"""

from __future__ import annotations

import operator
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice, product
from numbers import Integral

from phrasemate.errors import InputError
from phrasemate.index import row_codec, schema
from phrasemate.index.store import State, Store
from phrasemate.index.types import ALL_IDS, IdRange
from phrasemate.text.normalize import (
    APOSTROPHES,
    HYPHENS,
    composed,
    decomposed,
    plain,
    unseen_signs,
    visible,
    with_compatibles,
)

_TRIGRAM = 3
_WINDOWS = 8  # at most this many trigrams of a phrase are looked up with invisible characters inside them
_VARIED = 3  # at most this many apostrophes and hyphens of a phrase are looked up in each of their forms
_ALIKE = {alike[0]: alike for alike in (APOSTROPHES, HYPHENS)}
_LOOKED_UP = 64  # a longer phrase is looked up by its first 64 characters
_FREQUENT = 20_000  # a phrase of one or two characters with more occurrences is looked up by its continuations only
_TRIGRAMS = 32  # number of the most frequent continuations that are looked up then
_BEGINS = 3  # at most this many words of a phrase are looked up both with İ and with i at their beginning
_CAPITALS = {ord("i"): "İ", ord("ı"): "I"}  # in Turkish
_NOT_CHARACTERS = re.compile("[\ud800-\udfff\ufffe\uffff]")
# Letters whose lower and upper case were both in Unicode only from version 7 on: FTS5 does not know that they match.
_UNPAIRED = re.compile(
    "[\u037f\u0528-\u052f\u13a0-\u13fd\u1c80-\u1cbf\u2c2f\ua698-\ua69b\ua796-\ua79f\ua7ab-\ua7ff\uab70-\uabbf"
    "\U000104b0-\U000104d3\U00010570-\U00010595\U00010c80-\U00010cb2\U000118a0-\U000118bf\U00016e40-\U00016e5f\U0001e900-\U0001e921]"
)

_Plan = str | Sequence[int]  # a query in FTS5's syntax, or the ids of the sentences


class TextSearch:
    """Substring search that uses the trigram index when it is up to date, and otherwise reads all sentences.

    A damaged trigram index would silently miss sentences. So once per generation it is compared with the checksum that
    was stored with it. Trigrams find phrases of three characters or more. Shorter phrases are found as the beginnings
    of trigrams and in the last two characters of sentences.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reset()

    def reset(self) -> None:
        """Empty all caches; the next search fills them again."""
        self._checked: tuple[int, bool] = (-1, False)  # generation, usable
        self._planned: tuple[tuple[int, str], _Plan] = ((-1, ""), [])
        self._ends: tuple[int, dict[str, array[int]]] = (-1, {})
        self._unseen: tuple[int, list[str]] = (-1, [])

    def containing(self, phrase: str, limit: int) -> list[int]:
        """Return the ids of up to ``limit`` sentences that contain ``phrase``, ascending.

        Raises InputError for an empty phrase or a limit below 1, and IndexDamaged.
        """
        check(phrase, limit)
        with self._store.reading() as state:
            plan = self._plan(phrase, state)
            if isinstance(plan, str):
                is_complete = len(phrase) >= _TRIGRAM  # else frequent: reading all sentences soon finds enough
                rows = self._store.sentences(self._matching(plan)) if is_complete else self._store.all_sentences()
            else:
                rows = self._store.sentences(plan)
            small = lowered(phrase)
            return list(islice((row.id for row in rows if small in lowered(row.text)), limit))

    def candidates(self, phrase: str, ids: IdRange = ALL_IDS) -> list[int]:
        """Return the ids of the sentences that may contain ``phrase``, ascending; the caller compares the texts.

        Every sentence that contains the phrase, in upper or lower case, is among them (for straße also those with
        STRASSE). There is one exception: a phrase of one or two characters with more than 20,000 occurrences. For it
        only the sentences with one of its 32 most frequent continuations are returned.

        ``ids``: only ids of this range, and at most as many as its limit. Raises InputError for an empty phrase or a
        limit below 1, and IndexDamaged.
        """
        check(phrase, ids.limit)
        ids = IdRange(*map(operator.index, ids))  # SQLite would store NumPy's integers as bytes
        with self._store.reading() as state:
            plan = self._plan(phrase, state)
            if isinstance(plan, str):
                return list(self._matching(plan, ids))
            return list(plan[bisect_left(plan, ids.first) : bisect_left(plan, ids.before)][: ids.limit])

    def _plan(self, phrase: str, state: State) -> _Plan:
        """Plan the search for a phrase. The last plan is cached, as callers ask for one range of ids after another."""
        key = (state.generation, phrase)
        if self._planned[0] != key:
            self._planned = (key, self._build_plan(phrase, state))
        return self._planned[1]

    def _build_plan(self, phrase: str, state: State) -> _Plan:
        """Return a query of the text index; for rare short phrases or without a usable index, ids of sentences."""
        variants = list(chain.from_iterable(map(_varied, forms(plain(phrase)))))
        if "\0" in phrase or not self._usable(state.generation):
            small = [lowered(form) for form in variants]
            rows = self._store.all_sentences()
            return [row.id for row in rows if any(form in lowered(row.text) for form in small)]
        short = [_small(form) for form in variants if len(form) < _TRIGRAM]
        long = [form[:_LOOKED_UP] for form in variants if len(form) >= _TRIGRAM]
        unseen = self._unseen_signs(state)
        if not short:
            return f"{_any_of(long)} OR ({self._split_query(phrase, unseen)})" if unseen else _any_of(long)
        short += [form[0] + sign for form in short if len(form) > 1 for sign in unseen]
        trigrams = list(chain.from_iterable(map(self._trigrams, short)))
        if sum(count for _, count in trigrams) > _FREQUENT:
            trigrams.sort(key=lambda entry: (-entry[1], entry[0]))
            return _any_of([*(text for text, _ in trigrams[:_TRIGRAMS]), *long])
        sentences = set(self._matching(_any_of(long))) if long else set()
        return sorted(sentences.union(*(self._sentences_with(form) + self._ending(form, state) for form in short)))

    def _usable(self, generation: int) -> bool:
        """Tell whether the text index is of this generation. Raises IndexDamaged if its checksum does not match."""
        if self._checked[0] != generation:
            stamp = self._store.extra("words", generation=int, crc=int)
            fresh = stamp is not None and stamp["generation"] == generation
            if stamp is not None and fresh and stamp["crc"] != schema.words_checksum(self._store.connection):
                raise self._store.damaged("the text index does not match its checksum")
            self._checked = (generation, fresh)
        return self._checked[1]

    def _matching(self, query: str, ids: IdRange = ALL_IDS) -> Iterator[int]:
        """Yield the ids of the sentences that match a query in FTS5's syntax, ascending."""
        statement = (
            "SELECT rowid FROM words WHERE words MATCH CAST(? AS TEXT) AND rowid >= ? AND rowid < ? "
            "ORDER BY rowid LIMIT ?"
        )
        rows = self._store.connection.execute(statement, (row_codec.encode_text(query), *ids))
        return (identity for (identity,) in rows)

    def _unseen_signs(self, state: State) -> list[str]:
        """List the invisible characters, such as soft hyphens, with which a trigram of the index begins."""
        if self._unseen[0] != state.generation:
            self._unseen = (state.generation, [sign for sign in unseen_signs() if self._trigrams(sign)])
        return self._unseen[1]

    def _split_query(self, phrase: str, unseen: Sequence[str]) -> str:
        """Return a query for sentences with invisible characters, such as soft hyphens, within the phrase.

        The phrase is cut into windows of three characters. For each window a sentence must have its trigram, or a
        trigram that begins with its first or first two characters and an invisible character.
        """
        text = _small(composed(plain(phrase)))
        windows = [text[at : at + _TRIGRAM] for at in range(0, len(text) - _TRIGRAM + 1, _TRIGRAM)][:_WINDOWS]
        return " AND ".join(f"({_any_of(self._window_trigrams(window, unseen))})" for window in windows)

    def _window_trigrams(self, window: str, unseen: Sequence[str]) -> Iterator[str]:
        """Yield the trigrams that a sentence may have for one window of three characters; see `_split_query`."""
        for variant in _varied(window):
            yield variant
            for length, sign in product((1, 2), unseen):
                yield from (text for text, _ in self._trigrams(variant[:length] + sign))

    # -- phrases of one or two characters

    def _trigrams(self, start: str) -> list[tuple[str, int]]:
        """Return the trigrams of the index that begin with ``start``, each with the number of its sentences."""
        query = f"SELECT CAST(term AS BLOB), doc FROM {self._vocabulary('row')} {_BEGINNING}"
        return [
            (row_codec.decode_text(term), doc) for term, doc in self._store.connection.execute(query, _range(start))
        ]

    def _sentences_with(self, start: str) -> list[int]:
        """Return the ids of the sentences that have a trigram that begins with ``start``."""
        query = f"SELECT DISTINCT doc FROM {self._vocabulary('instance')} {_BEGINNING}"
        return [doc for (doc,) in self._store.connection.execute(query, _range(start))]

    def _vocabulary(self, kind: str) -> str:
        """Create a temporary ``fts5vocab`` table over the text index, and return its name.

        ``kind``: "row" for one row per trigram, "instance" for one row per occurrence. The table disappears when the
        transaction ends, so it is created for every query.
        """
        run, table = self._store.connection.execute, f"temp.words_{kind}"
        if self._store.readonly:
            run("PRAGMA query_only = OFF")  # a temporary table changes no file of the index
        try:
            run(f"CREATE VIRTUAL TABLE IF NOT EXISTS {table} USING fts5vocab('main', 'words', '{kind}')")
        finally:
            if self._store.readonly:
                run("PRAGMA query_only = ON")
        return table

    def _ending(self, end: str, state: State) -> list[int]:
        """Return the ids of the sentences with ``end`` within their last two characters, where no trigram begins."""
        if self._ends[0] != state.generation:
            self._ends = (state.generation, self._by_ending())
        return [identity for ending, ids in self._ends[1].items() if end in ending for identity in ids]

    def _by_ending(self) -> dict[str, array[int]]:
        """Group the ids of all sentences by their last two characters; this takes 8 bytes per sentence."""
        occurrences: dict[str, array[int]] = {}
        for identity, end in self._store.connection.execute(
            "SELECT id, CAST(substr(text, -2) AS BLOB) FROM sentences ORDER BY id"
        ):
            occurrences.setdefault(_small(row_codec.decode_text(end)), array("q")).append(identity)
        return occurrences


_BEGINNING = "WHERE term >= CAST(? AS TEXT) AND term < CAST(? AS TEXT)"


def _range(start: str) -> tuple[bytes, bytes]:
    """Return the bounds of the terms that begin with ``start``; the text index has U+FFFD for noncharacters."""
    first = row_codec.encode_text(_NOT_CHARACTERS.sub("\ufffd", start))
    return first, first + b"\xff"


def check(phrase: str, limit: int) -> None:
    """Raise InputError unless the phrase is a text with a visible character, and the limit a number from 1."""
    if not (isinstance(phrase, str) and visible(phrase) and isinstance(limit, Integral) and limit > 0):
        raise InputError(f"cannot look for {phrase!r} with a limit of {limit}; expected a text and at least 1")


def _any_of(texts: Iterable[str]) -> str:
    """Return a query in FTS5's syntax for the sentences that contain one of the texts."""
    return " OR ".join('"' + text.replace('"', '""') + '"' for text in texts)


def lowered(text: str) -> str:
    """Return plain text in lower case, with σ for ς: the end of a phrase may be within a longer word."""
    return plain(text).lower().replace("ς", "σ")


def _varied(form: str) -> Iterator[str]:
    """Yield the form with its apostrophes and hyphens in all ways to write them.

    From the fourth apostrophe or hyphen on the form is cut off.
    """
    pieces = [_ALIKE.get(character, character) for character in form]
    places = [at for at, piece in enumerate(pieces) if len(piece) > 1]
    pieces = pieces[: places[_VARIED]] if len(places) > _VARIED else pieces
    return map("".join, product(*pieces))


def _small(text: str) -> str:
    """Return the text in lower case, letter by letter as FTS5 folds it, with σ for ς."""
    return "".join(map(_letter, text))


@lru_cache(1 << 14)
def _letter(character: str) -> str:
    """Return the lower case of a character as FTS5 folds it: always a single character."""
    if _UNPAIRED.match(character):
        return character
    small = character.lower()
    return next(form for form in (small.casefold(), small, character) if len(form) == 1)


def forms(phrase: str) -> list[str]:
    """Return the spellings of a phrase in which a sentence may contain it.

    They differ by more than the case of single letters (STRASSE and straße, "file" and "ﬁle"), which FTS5 ignores by
    itself.
    """
    small = phrase.lower()
    variants = [phrase, small, phrase.upper(), phrase.casefold(), small.title(), small.capitalize(), *_turkish(phrase)]
    sharp = [form.replace("ss", "ß") for form in (small, phrase.casefold())]
    variants += [*sharp, *map(decomposed, sharp)]
    variants += [composed(phrase), decomposed(phrase), small.replace("i\u0307", "İ"), *with_compatibles(small)]
    return list({_small(form): form for form in variants}.values())


def _turkish(phrase: str) -> Iterator[str]:
    """Yield spellings of a phrase with the Turkish letters İ and ı, which FTS5 does not fold to i and I.

    In the first, every i and ı is a capital. In the others all, none or some of the first words begin with a capital.
    """
    small = phrase.replace("I", "ı") if "ı" in phrase else phrase
    small = small.replace("İ", "i").lower()
    yield small.translate(_CAPITALS)
    begins = [match.start() for match in islice(re.finditer(r"\b[iı]", small), _BEGINS)]
    for flags in product((False, True), repeat=len(begins)):
        capitals = {at for at, is_capital in zip(begins, flags, strict=True) if is_capital}
        yield "".join(c.translate(_CAPITALS) if at in capitals else c for at, c in enumerate(small))

"""Search for the sentences that contain a phrase: exact substrings, upper and lower case alike, in every script."""

from __future__ import annotations

import operator
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice, product

from phrasemate.errors import InputError
from phrasemate.index import row_codec, schema
from phrasemate.index.store import State, Store
from phrasemate.index.types import ALL_IDS, IdRange
from phrasemate.text.normalize import APOSTROPHES, HYPHENS, composed, decomposed, plain, unseen_signs, visible

_TRIGRAM = 3
_WINDOWS = 8  # trigrams of a phrase that are looked up with what is not seen between their characters
_VARIED = 3  # apostrophes and hyphens of a phrase that are looked up in each of their forms
_ALIKE = {alike[0]: alike for alike in (APOSTROPHES, HYPHENS)}
_LOOKED_UP = 64  # characters of a phrase that are looked up
_FREQUENT = 20_000  # occurrences of a phrase below three characters from which its sentences are not listed
_TRIGRAMS = 32  # of such a frequent phrase: its most frequent continuations stand for all
_BEGINS = 3  # words of a phrase that are looked for with İ and with i, each
_CAPITALS = {ord("i"): "İ", ord("ı"): "I"}
_NONE = re.compile("[\ud800-\udfff\ufffe\uffff]")
# Of pairs that came with Unicode 7 or later: the text index does not know which are alike.
_LATER = re.compile(
    "[\u037f\u0528-\u052f\u13a0-\u13fd\u1c80-\u1cbf\u2c2f\ua698-\ua69b\ua796-\ua79f\ua7ab-\ua7ff\uab70-\uabbf"
    "\U000104b0-\U000104d3\U00010570-\U00010595\U00010c80-\U00010cb2\U000118a0-\U000118bf\U00016e40-\U00016e5f\U0001e900-\U0001e921]"
)

_Plan = str | Sequence[int]  # a query of the text index, or the ids themselves


class TextSearch:
    """Finds substrings through the trigram index when it is intact, else by reading all sentences.

    The index is compared with the checksum of its stamp once per generation: a damaged one would miss sentences
    without a word. Three characters are the least that trigrams can find; shorter phrases are found as the beginnings
    of trigrams, and as the ends of sentences.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reset()

    def reset(self) -> None:
        """Forget all; the next look reads it again."""
        self._checked: tuple[int, bool] = (-1, False)  # generation, usable
        self._planned: tuple[tuple[int, str], _Plan] = ((-1, ""), [])
        self._ends: tuple[int, dict[str, array[int]]] = (-1, {})
        self._unseen: tuple[int, list[str]] = (-1, [])

    def containing(self, phrase: str, limit: int) -> list[int]:
        """Ids of up to ``limit`` sentences whose text contains ``phrase``, ascending.

        Raises InputError for an empty phrase, IndexDamaged.
        """
        check(phrase, limit)
        with self._store.reading() as state:
            plan = self._plan(phrase, state)
            if isinstance(plan, str):
                in_all = len(phrase) >= _TRIGRAM  # a shorter one is frequent: reading will soon have found it
                rows = self._store.sentences(self._matching(plan)) if in_all else self._store.all_sentences()
            else:
                rows = self._store.sentences(plan)
            small = lowered(phrase)
            return list(islice((row.id for row in rows if small in lowered(row.text)), limit))

    def candidates(self, phrase: str, ids: IdRange = ALL_IDS) -> list[int]:
        """Ids of sentences that may hold ``phrase``, ascending.

        Each sentence that contains it in any case is among them (for straße those with STRASSE too); the caller
        compares the texts. Of a phrase below three characters with more than 20,000 occurrences, those followed by
        its 32 most frequent continuations. Raises InputError for an empty phrase, IndexDamaged.
        """
        check(phrase, ids.limit)
        ids = IdRange(*map(operator.index, ids))  # SQLite takes NumPy's integers for bytes
        with self._store.reading() as state:
            plan = self._plan(phrase, state)
            if isinstance(plan, str):
                return list(self._matching(plan, ids))
            return list(plan[bisect_left(plan, ids.first) : bisect_left(plan, ids.before)][: ids.limit])

    def _plan(self, phrase: str, state: State) -> _Plan:
        """Plan the search for a phrase; the last plan is cached, since it is asked for piece by piece."""
        key = (state.generation, phrase)
        if self._planned[0] != key:
            self._planned = (key, self._made_plan(phrase, state))
        return self._planned[1]

    def _made_plan(self, phrase: str, state: State) -> _Plan:
        variants = list(chain.from_iterable(map(_varied, forms(plain(phrase)))))
        if "\0" in phrase or not self._usable(state.generation):
            small = [lowered(form) for form in variants]
            rows = self._store.all_sentences()
            return [row.id for row in rows if any(form in lowered(row.text) for form in small)]
        short = [_small(form) for form in variants if len(form) < _TRIGRAM]
        long = [form[:_LOOKED_UP] for form in variants if len(form) >= _TRIGRAM]
        unseen = self._unseen_signs(state)
        if not short:
            return f"{_any_of(long)} OR ({self._parted(phrase, unseen)})" if unseen else _any_of(long)
        short += [form[0] + sign for form in short if len(form) > 1 for sign in unseen]
        trigrams = list(chain.from_iterable(map(self._trigrams, short)))
        if sum(count for _, count in trigrams) > _FREQUENT:
            trigrams.sort(key=lambda entry: (-entry[1], entry[0]))
            return _any_of([*(text for text, _ in trigrams[:_TRIGRAMS]), *long])
        sentences = set(self._matching(_any_of(long))) if long else set()
        return sorted(sentences.union(*(self._instances(form) + self._ending(form, state) for form in short)))

    def _usable(self, generation: int) -> bool:
        if self._checked[0] != generation:
            stamp = self._store.extra("words", generation=int, crc=int)
            fresh = stamp is not None and stamp["generation"] == generation
            if stamp is not None and fresh and stamp["crc"] != schema.words_checksum(self._store.connection):
                raise self._store.damaged("the text index does not match its checksum")
            self._checked = (generation, fresh)
        return self._checked[1]

    def _matching(self, query: str, ids: IdRange = ALL_IDS) -> Iterator[int]:
        statement = (
            "SELECT rowid FROM words WHERE words MATCH CAST(? AS TEXT) AND rowid >= ? AND rowid < ? "
            "ORDER BY rowid LIMIT ?"
        )
        rows = self._store.connection.execute(statement, (row_codec.encode_text(query), *ids))
        return (identity for (identity,) in rows)

    def _unseen_signs(self, state: State) -> list[str]:
        """List the invisible characters that the texts hold (before two others: there are hardly texts without)."""
        if self._unseen[0] != state.generation:
            self._unseen = (state.generation, [sign for sign in unseen_signs() if self._trigrams(sign)])
        return self._unseen[1]

    def _parted(self, phrase: str, unseen: Sequence[str]) -> str:
        """A query of texts in which such characters may stand within the phrase, as soft hyphens do.

        Of three characters of the phrase, each text has the trigram, or one that begins with the first, or with the
        first two, and what is not seen after it.
        """
        text = _small(composed(plain(phrase)))
        windows = [text[at : at + _TRIGRAM] for at in range(0, len(text) - _TRIGRAM + 1, _TRIGRAM)][:_WINDOWS]
        return " AND ".join(f"({_any_of(self._parted_window(window, unseen))})" for window in windows)

    def _parted_window(self, window: str, unseen: Sequence[str]) -> Iterator[str]:
        for variant in _varied(window):
            yield variant
            for length, sign in product((1, 2), unseen):
                yield from (text for text, _ in self._trigrams(variant[:length] + sign))

    # -- phrases of one or two characters

    def _trigrams(self, start: str) -> list[tuple[str, int]]:
        """The trigrams that begin with ``start``, and in how many sentences each is."""
        query = f"SELECT CAST(term AS BLOB), doc FROM {self._vocabulary('row')} {_BEGINNING}"
        return [
            (row_codec.decode_text(term), doc) for term, doc in self._store.connection.execute(query, _range(start))
        ]

    def _instances(self, start: str) -> list[int]:
        query = f"SELECT DISTINCT doc FROM {self._vocabulary('instance')} {_BEGINNING}"
        return [doc for (doc,) in self._store.connection.execute(query, _range(start))]

    def _vocabulary(self, kind: str) -> str:
        """A view of what the text index holds. It is gone when the transaction ends, so it is made each time."""
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
        """Sentences whose last two characters hold ``end``: no trigram begins there."""
        if self._ends[0] != state.generation:
            self._ends = (state.generation, self._by_ending())
        return [identity for ending, ids in self._ends[1].items() if end in ending for identity in ids]

    def _by_ending(self) -> dict[str, array[int]]:
        """Ids by their last two characters: 8 bytes a sentence."""
        occurrences: dict[str, array[int]] = {}
        for identity, end in self._store.connection.execute(
            "SELECT id, CAST(substr(text, -2) AS BLOB) FROM sentences ORDER BY id"
        ):
            occurrences.setdefault(_small(row_codec.decode_text(end)), array("q")).append(identity)
        return occurrences


_BEGINNING = "WHERE term >= CAST(? AS TEXT) AND term < CAST(? AS TEXT)"


def _range(start: str) -> tuple[bytes, bytes]:
    """The terms that begin with it; the text index has U+FFFD for what is not a character."""
    first = row_codec.encode_text(_NONE.sub("\ufffd", start))
    return first, first + b"\xff"


def check(phrase: str, limit: int) -> None:
    """Raises InputError for a phrase of nothing that is seen, and for a limit below 1."""
    if not visible(phrase) or limit < 1:
        raise InputError(f"cannot look for {phrase!r} with a limit of {limit}; expected a text and at least 1")


def _any_of(texts: Iterable[str]) -> str:
    """A query of the text index: it holds one of these."""
    return " OR ".join('"' + text.replace('"', '""') + '"' for text in texts)


def lowered(text: str) -> str:
    """Plain text in lower case; the sigma at the end of a word is one within a longer word."""
    return plain(text).lower().replace("ς", "σ")


def _varied(form: str) -> Iterator[str]:
    """The form with each apostrophe and hyphen as each may be written; it ends where there are too many."""
    pieces = [_ALIKE.get(character, character) for character in form]
    places = [at for at, piece in enumerate(pieces) if len(piece) > 1]
    pieces = pieces[: places[_VARIED]] if len(places) > _VARIED else pieces
    return map("".join, product(*pieces))


def _small(text: str) -> str:
    """Small letters, character by character, as the text index has them: σ for ς, too."""
    return "".join(map(_letter, text))


@lru_cache(1 << 14)
def _letter(character: str) -> str:
    if _LATER.match(character):
        return character
    small = character.lower()
    return next(form for form in (small.casefold(), small, character) if len(form) == 1)


def forms(phrase: str) -> list[str]:
    """The phrase as it may be written; the text index itself takes each lower-case letter for its capital."""
    small = phrase.lower()
    variants = [phrase, small, phrase.upper(), phrase.casefold(), small.title(), small.capitalize(), *_turkish(phrase)]
    variants += [form.replace("ss", "ß") for form in (small, phrase.casefold())]
    variants += [composed(phrase), decomposed(phrase), small.replace("i\u0307", "İ")]
    return list({_small(form): form for form in variants}.values())


def _turkish(phrase: str) -> Iterator[str]:
    """Variants with İ and ı, letters of their own for the text index. All, none or some words have their capital."""
    small = phrase.replace("I", "ı") if "ı" in phrase else phrase
    small = small.replace("İ", "i").lower()
    yield small.translate(_CAPITALS)
    begins = [match.start() for match in islice(re.finditer(r"\b[iı]", small), _BEGINS)]
    for flags in product((False, True), repeat=len(begins)):
        capitals = {at for at, is_capital in zip(begins, flags, strict=True) if is_capital}
        yield "".join(c.translate(_CAPITALS) if at in capitals else c for at, c in enumerate(small))

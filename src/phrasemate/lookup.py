"""Look up words in the text of an index: words, their inflected forms, wildcards, regular expressions.

``lookup(index, "collateral")`` gives every place of the word, in order, with its neighbours counted.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from re import _constants as constants  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from phrasemate.concordance import Candidate, Column, Line, arranged
from phrasemate.errors import InputError
from phrasemate.index import BaseIndex
from phrasemate.index.store import SentenceRow
from phrasemate.index.types import Filters
from phrasemate.lexicon import bundled_lexicon, stemmed
from phrasemate.lexicon.locutions import general_words
from phrasemate.text import folded, words
from phrasemate.text.normalize import plain, visible, visible_places
from phrasemate.types import Hit, Phrase

WAYS = ("words", "forms", "regex")
ORDERS = ("text", "left", "right")
SIDES = ("text", "translation")  # of aligned text: the side in the index, and the other one
WINDOW, NEIGHBOURS = 4, 20  # words on each side of a match that are counted, and how many are listed
SAMPLE = 20  # translations from which their language is guessed
LINES, SECONDS = 1_000, 10.0  # lines that are kept, and time that is taken; all matches in that time are counted
CHARACTERS, REPEATS = 500, 2  # of a sentence that a regular expression is tried on, and unlimited repeats in it

Find = Callable[[str], Iterator[tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class Lookup:
    """Places of a text in an index.

    ``count`` are all matches, ``lines`` the first of them; ``whole`` is False where time ran out before the end.
    ``wordings`` are the matched wordings with their counts, ``before`` and ``after`` the words near them, ``documents``
    the documents, each most frequent first.

    >>> import phrasemate as pm
    >>> story = pm.Document.from_texts("story", ["She sat on the bench."])
    >>> with pm.Index.create("lookup", pm.load_model()) as index:
    ...     _ = index.add([story], lang="en")
    ...     result = lookup(index, "bench*")
    >>> result.count, result.wordings, result.lines[0].left
    (1, (('bench', 1),), 'She sat on the ')
    """

    query: str
    count: int
    sentences: int
    lines: tuple[Line, ...]
    wordings: tuple[tuple[str, int], ...]
    before: tuple[tuple[str, int], ...]
    after: tuple[tuple[str, int], ...]
    documents: tuple[tuple[str, int], ...]
    whole: bool = True

    def as_dict(self) -> dict[str, Any]:
        """Mapping for JSON."""
        lines = [
            {
                **{"document": line.hit.document, "line": line.hit.line, "language": line.hit.language},
                **{"before": line.left, "match": line.match, "after": line.right},
            }
            for line in self.lines
        ]
        numbers = {"count": self.count, "sentences": self.sentences, "whole": self.whole}
        names = ("wordings", "before", "after", "documents")
        counts = {name: [list(pair) for pair in getattr(self, name)] for name in names}
        return {"query": self.query, **numbers, **counts, "lines": lines}


def lookup(
    index: BaseIndex,
    query: str,
    way: str = "words",
    order: str = "text",
    most: int = 100,
    documents: Sequence[str] | None = None,
    languages: Sequence[str] | None = None,
    name: str = "",
    progress: Callable[[], object] = lambda: None,
    seconds: float = SECONDS,
    side: str = "text",
    near: str = "",
) -> Lookup:
    """Find every place of a text in an index, upper and lower case alike; what is not seen counts for nothing.

    The words around the matches are counted: up to four on each side, function words only directly beside a match.

    Args:
        index: Index to look in.
        query: Text to look for.
        way: "words" finds whole words, with ``*`` for any letters and ``?`` for one; "forms" finds inflected forms too;
            "regex" takes a regular expression without backward references and nested repeats.
        order: Order of the lines: "text", or by what stands "left" or "right".
        most: Lines at most.
        documents: Names of the documents to search, or folders, or patterns with ``*``; None for all.
        languages: Languages of the documents to search; None for all.
        name: Name of the index in the lines.
        progress: Called often; an exception that it raises ends the search.
        seconds: Time after which the rest of the index is left out.
        side: "text"; or "translation", to look in the other side of aligned text. The lines are then of that side, and
            the text of the index is their metadata "translation".
        near: Only matches with this word among the counted ones.

    Raises InputError for what cannot be looked up.
    """
    for value, values in ((way, WAYS), (order, ORDERS), (side, SIDES)):
        if value not in values:
            raise InputError(f"{value[:20]!r}: expected one of {', '.join(values)}")
    if not query.strip():
        raise InputError("the text to look up is empty")
    counts: dict[str, Counter[str]] = {name: Counter() for name in ("wordings", "before", "after", "documents")}
    lines: list[Line] = []
    total, hit_sentences, whole = 0, 0, True
    end = time.monotonic() + seconds
    with index.store.reading():
        infos = {info.id: info for info in index.documents()}
        filters = Filters(documents, languages)
        document_ids = set(infos) if filters.pass_all else set(index.documents_in(filters))
        text_language = next((infos[number].language for number in sorted(document_ids)), "")
        if side == "translation":
            text_language = _language_of_translations(index)
        find, fragment = _finder(query.strip(), way, text_language)
        function_words, beside = general_words(text_language), folded(near.strip())
        for number, row in enumerate(_rows(index, fragment, side)):
            if number % 64 == 0:
                progress()
                if time.monotonic() > end:
                    whole = False
                    break
            if row.document not in document_ids:
                continue
            info, matches = infos[row.document], 0
            for start, stop in find(row.text):
                before = _near(row.text[:start], -WINDOW, function_words)
                after = _near(row.text[stop:], WINDOW, function_words)
                if beside and beside not in (*before, *after):
                    continue
                matches += 1
                counts["wordings"][folded(row.text[start:stop])] += 1
                counts["documents"][info.name] += 1
                counts["before"].update(before)
                counts["after"].update(after)
                if len(lines) < LINES:
                    phrase = Phrase(row.text, start, stop)
                    language = text_language if side == "translation" else info.language
                    lines.append(Line(name, Hit(phrase, 1.0, info.name, row.line, language, -1, row.metadata)))
            total += matches
            hit_sentences += bool(matches)
    if order != "text":
        column = Column(name, (Candidate(query, 1.0, total, tuple(lines), 1.0),))
        lines = list(arranged(column, order).candidates[0].lines)
    top = {name: tuple(count.most_common(NEIGHBOURS)) for name, count in counts.items()}
    return Lookup(query, total, hit_sentences, tuple(lines[:most]), **top, whole=whole)


def _rows(index: BaseIndex, fragment: str, side: str) -> Iterator[SentenceRow]:
    """The sentences that may hold a fragment; of the other side, each translation once, with all its sentences."""
    if side == "text":
        yield from index.store.sentences(index.texts.candidates(fragment)) if fragment else index.store.all_sentences()
        return
    rows = index.store.translated_sentences(fragment)
    for _, unit in groupby(rows, key=lambda row: (row.document, row.line, row.metadata["translation"])):
        first, *rest = unit
        text = " ".join(row.text for row in (first, *rest))
        yield first._replace(text=first.metadata["translation"], metadata={**first.metadata, "translation": text})


def _language_of_translations(index: BaseIndex) -> str:
    """What most of the first translations seem to be written in; "" if that is not clear."""
    texts = [row.metadata["translation"] for row in islice(index.store.translated_sentences(), SAMPLE)]
    lexicon = bundled_lexicon()
    return lexicon.language_of(" ".join(texts)) if lexicon is not None and texts else ""


def _near(text: str, count: int, function_words: frozenset[str]) -> list[str]:
    """The words at the end (``count`` below 0) or at the beginning of a context, folded, each once.

    Of function words only the one that stands nearest to the match.
    """
    near = text[-160:] if count < 0 else text[:160]
    spans = words(near)
    beside = [folded(near[start:end]) for start, end in (spans[count:] if count < 0 else spans[:count])]
    nearest = -1 if count < 0 else 0
    content = [word for word in beside if word not in function_words]
    return list(dict.fromkeys([*beside[nearest:][:1], *content]))


def _finder(query: str, way: str, language: str) -> tuple[Find, str]:
    """What finds the matches in a sentence, and a text that every sentence with a match contains ("": unknown)."""
    if way == "regex":
        return _expression(query), ""
    query = plain(query)
    if not any(map(str.isalnum, query)):
        raise InputError(f"{query[:40]!r} has no letter or digit; give a word or several")
    if way == "forms" and not _unspaced(query):
        return _forms(query, language)
    parts = re.split(r"([*?]|\s+)", query)
    pattern = "".join({"*": r"\w*", "?": r"\w"}.get(p, r"\s+" if p.isspace() else re.escape(p)) for p in parts)
    expression = re.compile(rf"(?<!\w){pattern}(?!\w)", re.IGNORECASE)
    if not any(map(str.isspace, query)) and not query.isascii() and not words(query)[1:]:
        expression = re.compile(pattern, re.IGNORECASE) if _unspaced(query) else expression
    literal = max((part for part in parts if part not in ("*", "?") and part.strip()), key=len)
    return _spans(expression), literal


def _unspaced(text: str) -> bool:
    """Whether a text is in a script without spaces between words: Chinese, Japanese, Thai and the like."""
    return any("\u0e00" <= sign <= "\u0eff" or "\u3040" <= sign <= "\u9fff" or sign >= "\U00020000" for sign in text)


def _spans(expression: re.Pattern[str], comparable: Callable[[str], str] = plain) -> Find:
    """Finds matches in the text as it is compared; the places are those of the text as it is."""

    def find(text: str) -> Iterator[tuple[int, int]]:
        clean = comparable(text)
        places = None if len(clean) == len(text) else visible_places(text)
        for match in expression.finditer(clean):
            start, end = match.span()
            if end > start:
                yield (start, end) if places is None else (places[start], places[end - 1] + 1)

    return find


def _forms(query: str, language: str) -> tuple[Find, str]:
    """Finds words with the same stems as those of the query, one after the other."""
    stems = [stemmed(query[start:end], language or "en") for start, end in words(query)]
    beginnings = [_shared(folded(query[a:b]), stem) for (a, b), stem in zip(words(query), stems, strict=True)]
    size = len(stems)

    def find(text: str) -> Iterator[tuple[int, int]]:
        spans = words(text)
        forms = [plain(text[start:end]) for start, end in spans]
        for at in range(len(spans) - size + 1):
            window = spans[at : at + size]
            if all(
                folded(word).startswith(beginning) and stemmed(word, language or "en") == stem
                for word, beginning, stem in zip(forms[at : at + size], beginnings, stems, strict=True)
            ):
                yield window[0][0], window[-1][1]

    return find, max(beginnings, key=len)


def _shared(one: str, other: str) -> str:
    """The longest beginning that two words share."""
    length = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:length]


def _expression(query: str) -> Find:
    """A regular expression whose time is bounded: its repeats are not nested, and few are unlimited."""
    try:
        tree = parser.parse(query)
        expression = re.compile(query, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        raise InputError(f"not a regular expression: {error}") from None
    if _repeats(tree) > REPEATS:
        raise InputError(f"the regular expression has more than {REPEATS} of *, + and {{n,}}; use fewer")
    find = _spans(expression, visible)
    return lambda text: find(text[:CHARACTERS])


def _repeats(tree: Any, inside: bool = False) -> int:
    """Count the repeats without a small limit. Raises InputError for what may take exponential time."""
    total = 0
    for kind, value in tree:
        if kind in (constants.GROUPREF, constants.GROUPREF_EXISTS, constants.ASSERT, constants.ASSERT_NOT):
            raise InputError("the regular expression refers back or looks around; leave that out")
        if kind in (constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT):
            _, high, body = value
            if inside:
                raise InputError("the regular expression has a repeat within a repeat; leave one out")
            total += high > 20
            total += _repeats(body, high > 1)
        elif kind is constants.SUBPATTERN:
            total += _repeats(value[-1], inside)
        elif kind is constants.BRANCH:
            total += sum(_repeats(branch, inside) for branch in value[1])
        elif kind is constants.ATOMIC_GROUP:
            total += _repeats(value, inside)
    return total

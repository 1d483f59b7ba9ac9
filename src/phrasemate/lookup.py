"""Look up words in the text of an index: words, their inflected forms, wildcards, regular expressions.

``lookup(index, "collateral")`` gives every place of the word, in order, with its neighbours counted.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import groupby, islice, product
from typing import Any

import regex

from phrasemate.concordance import Candidate, Column, Line, arranged
from phrasemate.errors import InputError
from phrasemate.index import BaseIndex
from phrasemate.index.store import SentenceRow
from phrasemate.index.types import Filters
from phrasemate.lexicon import bundled_lexicon, stemmed
from phrasemate.lexicon.locutions import general_words
from phrasemate.text import folded, words
from phrasemate.text.languages import primary
from phrasemate.text.normalize import Alignment, composed, plain, visible
from phrasemate.types import Hit, Phrase, check_opened

WAYS = ("words", "forms", "regex")
ORDERS = ("text", "left", "right")
SIDES = ("text", "translation")  # of aligned text: the side in the index, and the other one
WINDOW, NEIGHBOURS = 4, 20  # words on each side of a match that are counted, and how many are listed
NEAR = 160  # characters on each side in which these words are
SAMPLE = 20  # translations from which their language is guessed
LINES, SECONDS = 1_000, 10.0  # lines that are kept, and time that is taken; all matches in that time are counted
WRITTEN_OUT = 100_000  # characters of a regular expression, each repeat such as {9} written out
TRIGRAM = 3  # characters that the text index finds fast
_LETTER = r"[\w\p{M}]"  # vowel signs of Indic scripts are marks
_UNSPACED = "\u0e00-\u0eff\u3040-\u9fff\U00020000-\U0010ffff"
_SPACED = f"(?:(?![{_UNSPACED}]){_LETTER})"

Find = Callable[[str], Iterator[tuple[int, int]]]


class _TimeOver(Exception):
    """The time for a look-up has run out."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """Result of a look-up: the places of a text in an index.

    ``count`` is the number of matches, ``lines`` are the first of them; ``whole`` is False if time ran out.
    ``wordings`` are the matched wordings with their counts, ``before`` and ``after`` the words near them, ``documents``
    the documents, each most frequent first. Upper and lower case count together, as the form that is most frequent.

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
    """Find every place of a text in an index, ignoring case and invisible characters.

    The words around the matches are counted: up to four on each side, function words only directly beside a match.

    Args:
        index: Index to look in.
        query: Text to look for.
        way: "words" finds whole words, with ``*`` for any letters and ``?`` for one; "forms" finds inflected forms too;
            "regex" takes a regular expression as the package regex knows it.
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
    check_opened(index, "an index, such as Index.open(path)")
    for value, values in ((way, WAYS), (order, ORDERS), (side, SIDES)):
        if value not in values:
            raise InputError(f"{value[:20]!r}: expected one of {', '.join(values)}")
    if not query.strip():
        raise InputError("the text to look up is empty")
    counts: dict[str, _Counts] = {name: _Counts() for name in ("wordings", "before", "after")}
    document_counts: Counter[str] = Counter()
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
        find, fragments = _finder(query.strip(), way, text_language, end)
        function_words, beside = frozenset(map(_key, general_words(text_language))), _key(near)
        try:
            for number, row in enumerate(_rows(index, fragments, side)):
                if number % 64 == 0:
                    progress()
                    _check(end)
                if row.document not in document_ids:
                    continue
                info, matches = infos[row.document], 0
                for start, stop in find(row.text):
                    _check(end)
                    before = _near(row.text[max(0, start - NEAR) : start], -WINDOW, function_words)
                    after = _near(row.text[stop : stop + NEAR], WINDOW, function_words)
                    if beside and beside not in (*before, *after):
                        continue
                    matches += 1
                    counts["wordings"].add({_key(row.text[start:stop]): row.text[start:stop]})
                    counts["before"].add(before)
                    counts["after"].add(after)
                    document_counts[info.name] += 1
                    if len(lines) < LINES:
                        phrase = Phrase(row.text, start, stop)
                        language = text_language if side == "translation" else info.language
                        lines.append(Line(name, Hit(phrase, 1.0, info.name, row.line, language, -1, row.metadata)))
                    total += 1
                    hit_sentences += matches == 1
        except _TimeOver:
            whole = False
    if order != "text":
        column = Column(name, (Candidate(query, 1.0, total, tuple(lines), 1.0),))
        lines = list(arranged(column, order).candidates[0].lines)
    top = {name: tuple(count.totals().most_common(NEIGHBOURS)) for name, count in counts.items()}
    top["documents"] = tuple(document_counts.most_common(NEIGHBOURS))
    return Lookup(query, total, hit_sentences, tuple(lines[:most]), **top, whole=whole)


class _Counts:
    """Counts wordings by their keys, and each of their forms."""

    def __init__(self) -> None:
        self._forms: dict[str, Counter[str]] = defaultdict(Counter)

    def add(self, forms: Mapping[str, str]) -> None:
        """Count forms, given by their keys."""
        for key, form in forms.items():
            self._forms[key][" ".join(composed(plain(form)).split())] += 1

    def totals(self) -> Counter[str]:
        """How often each wording was counted, as its most frequent form; of equal ones, one in small letters."""
        return Counter(
            {max(forms, key=lambda form: (forms[form], form)): forms.total() for forms in self._forms.values()}
        )


_I = re.compile("[iIİı]")


def _key(text: str) -> str:
    """Fold a wording; i, ı and their capitals are one letter, whose capital depends on the language."""
    return folded(text).replace("i\u0307", "i").replace("ı", "i")


def _check(end: float) -> None:
    if time.monotonic() > end:
        raise _TimeOver


def _rows(index: BaseIndex, fragments: Sequence[str], side: str) -> Iterator[SentenceRow]:
    """The sentences that may hold one of the fragments, all if there are none.

    Of the other side, each translation once, with all its sentences.
    """
    if side == "text":
        ids = (number for number, _ in groupby(merge(*map(index.texts.candidates, fragments))))  # each once
        yield from index.store.sentences(ids) if fragments else index.store.all_sentences()
        return
    rows = index.store.translated_sentences(_I.sub("%", fragments[0]) if len(fragments) > 1 else "".join(fragments))
    for _, unit in groupby(rows, key=lambda row: (row.document, row.line, row.metadata["translation"])):
        first, *rest = unit
        text = " ".join(row.text for row in (first, *rest))
        yield first._replace(text=first.metadata["translation"], metadata={**first.metadata, "translation": text})


def _language_of_translations(index: BaseIndex) -> str:
    """What most of the first translations seem to be written in; "" if that is not clear."""
    texts = [row.metadata["translation"] for row in islice(index.store.translated_sentences(), SAMPLE)]
    lexicon = bundled_lexicon()
    return lexicon.language_of(" ".join(texts)) if lexicon is not None and texts else ""


def _near(text: str, count: int, function_words: frozenset[str]) -> dict[str, str]:
    """The words at the end (``count`` below 0) or at the beginning of a context by their keys, each once.

    Of function words only the one that stands nearest to the match.
    """
    spans = words(text)
    forms = [text[start:end] for start, end in (spans[count:] if count < 0 else spans[:count])]
    beside = [(_key(form), form) for form in forms]
    nearest = -1 if count < 0 else 0
    content = [(key, form) for key, form in beside if key not in function_words]
    return dict([*beside[nearest:][:1], *content])


def _finder(query: str, way: str, language: str, end: float) -> tuple[Find, list[str]]:
    """What finds the matches in a sentence until ``end``, on the clock of `time.monotonic`.

    Besides, texts of which every sentence with a match contains one (none: unknown).
    """
    if way == "regex":
        return _spans(_expression(query), end, visible), []
    query = composed(plain(query))
    if not any(map(str.isalnum, query)):
        raise InputError(f"{query[:40]!r} has no letter or digit; give a word or several")
    if way == "forms" and not _unspaced(query):
        return _forms(query, language)
    parts = re.split(r"([*?]|\s+)", query)
    signs = {"*": f"{_LETTER if _unspaced(query) else _SPACED}*", "?": r"\w\p{M}*"}
    pattern = "".join(signs.get(p, r"\s+" if p.isspace() else regex.escape(p)) for p in parts)
    if _has_dotless_i(query, language):
        pattern = _I.sub("[iIİı]", pattern)
    before = "" if _unspaced(query[0]) else f"(?<!{_SPACED})"
    after = "" if _unspaced(query[-1]) else f"(?!{_SPACED})"
    full = regex.FULLCASE if "ss" in folded(query) else 0  # ß is ss; three times as slow
    expression = regex.compile(before + pattern + after, regex.IGNORECASE | full)
    literal = max((part for part in parts if part not in ("*", "?") and part.strip()), key=len)
    return _spans(expression, end, plain), _fragments(literal, language)


def _has_dotless_i(text: str, language: str) -> bool:
    """Whether it is in a language in which the capital of i is İ and that of ı is I."""
    return primary(language) in ("az", "tr") or "ı" in text or "İ" in text


def _fragments(literal: str, language: str) -> list[str]:
    """What a sentence with a literal text contains: in a language with ı a part with few i, with each of i and ı."""
    if not _has_dotless_i(literal, language):
        return [literal]
    longest = max(_I.split(literal), key=len)
    if len(longest) >= TRIGRAM:
        return [longest]
    parts = [literal[at : at + TRIGRAM] for at in range(max(1, len(literal) - TRIGRAM + 1))]
    part = min(parts, key=lambda part: len(_I.findall(part)))
    return ["".join(letters) for letters in product(*("iı" if _I.match(letter) else letter for letter in part))]


def _unspaced(text: str) -> bool:
    """Whether a text is in a script without spaces between words: Chinese, Japanese, Thai and the like."""
    return regex.search(f"[{_UNSPACED}]", text) is not None


def _spans(expression: regex.Pattern[str], end: float, comparable: Callable[[str], str]) -> Find:
    """Finds matches in the text as it is compared; the places are those of the text as it is."""

    def find(text: str) -> Iterator[tuple[int, int]]:
        alignment = Alignment(text, comparable)
        try:
            for match in expression.finditer(alignment.text, timeout=max(end - time.monotonic(), 0.001)):
                if match.end() > match.start() and (span := alignment.plain_span(*match.span())):
                    yield alignment.original(*span)
        except TimeoutError:
            raise _TimeOver from None

    return find


def _forms(query: str, language: str) -> tuple[Find, list[str]]:
    """Finds words with the same stems as those of the query, one after the other."""
    stems = [_key(stemmed(query[start:end], language or "en")) for start, end in words(query)]
    beginnings = [_shared(_key(query[a:b]), stem) for (a, b), stem in zip(words(query), stems, strict=True)]
    size = len(stems)

    def find(text: str) -> Iterator[tuple[int, int]]:
        spans = words(text)
        forms = [plain(text[start:end]) for start, end in spans]
        for at in range(len(spans) - size + 1):
            window = spans[at : at + size]
            if all(
                _key(word).startswith(beginning) and _key(stemmed(word, language or "en")) == stem
                for word, beginning, stem in zip(forms[at : at + size], beginnings, stems, strict=True)
            ):
                yield window[0][0], window[-1][1]

    return find, _fragments(max(beginnings, key=len), language)


def _shared(one: str, other: str) -> str:
    """The longest beginning that two words share."""
    length = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:length]


def _expression(query: str) -> regex.Pattern[str]:
    query = composed(query).replace("\n", " ")  # so that no comment ends within a number
    if _written_out(query) > WRITTEN_OUT:
        raise InputError("the regular expression repeats too often; use smaller numbers in {}")
    try:
        return regex.compile(query, regex.IGNORECASE)
    except (regex.error, OverflowError, RecursionError) as error:
        raise InputError(f"not a regular expression: {error}") from None


def _written_out(query: str) -> float:
    """The most characters that a regular expression has if each repeat such as {9} is written out, as is compiled."""
    counts = (re.sub(r"\D", "", count) for count in re.findall(r"\{([^,}]*)", query))
    return len(query) * math.prod(max(1.0, float(count or 1)) for count in counts)

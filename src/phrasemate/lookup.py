"""Look up words in the text of an index: words, their inflected forms, wildcards, regular expressions.

``lookup(index, "collateral")`` finds every occurrence of the word, in the order of the text, and counts the words near
it.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from heapq import merge
from itertools import chain, groupby, islice, product
from typing import Any
from unicodedata import combining, normalize

import regex

from phrasemate.concordance import Candidate, Column, Line, arranged
from phrasemate.errors import InputError
from phrasemate.index import BaseIndex
from phrasemate.index.store import SentenceRow
from phrasemate.index.types import Filters
from phrasemate.lexicon import bundled_lexicon, stemmed
from phrasemate.lexicon.forms import are_inflections
from phrasemate.lexicon.locutions import general_words
from phrasemate.lexicon.spelling import spellings
from phrasemate.text import folded, words
from phrasemate.text.japanese import KANA
from phrasemate.text.languages import primary
from phrasemate.text.normalize import Alignment, composed, plain, visible, without_compatibles
from phrasemate.types import Hit, Phrase, check_opened, check_progress, check_text, to_whole

WAYS = ("words", "forms", "regex")
ORDERS = ("text", "left", "right")
SIDES = ("text", "translation")  # of aligned text: the text of the index, and its translation
WINDOW = 4  # words on each side of a match that are counted
NEIGHBOURS = 20  # wordings and words near a match that a result lists
NEAR = 160  # characters on each side of a match in which these words are searched
SAMPLE = 20  # translations from which their language is guessed
LINES = 1_000  # maximum number of lines in memory; further matches are only counted
SECONDS = 10.0  # default time limit
WRITTEN_OUT = 100_000  # maximum length of a regular expression with repeats such as {9} written out
LETTERS = 64  # of a word that are compared with its stem, or from which a part with variants is chosen
VARIANTS = 8  # of a part of a text to look up in the full-text index, unless the part is as short as a trigram
TRIGRAM = 3  # length from which the full-text index lists all occurrences of a text, however frequent it is
_LETTER = r"[\w\p{M}]"  # letter or digit; vowel signs of Indic scripts are marks (M)
_UNSPACED = "\u0e00-\u0eff\u3040-\u9fff\U00020000-\U0010ffff"  # scripts without spaces between words
_SPACED = f"(?:(?![{_UNSPACED}]){_LETTER})"  # letter of another script

Find = Callable[[str], Iterator[tuple[int, int]]]  # yields the spans of the matches in a text


class _TimeOver(Exception):
    """Raised when the time limit of a look-up is exceeded."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """Result of a look-up: the occurrences of a text in an index.

    Wordings and words near a match are listed with their counts, most frequent first. Upper and lower case are counted
    together and listed in the most frequent form.

    Attributes:
        query: Text that was looked up.
        count: Number of matches.
        sentences: Number of sentences with a match.
        lines: The first matches.
        wordings: Matched wordings.
        before: Words before the matches.
        after: Words after the matches.
        documents: Names of documents with their numbers of matches, most matches first.
        whole: False if the time ran out before the whole index was searched.

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
        """Convert to a mapping for JSON."""
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
    how: str = "words",
    sort: str = "text",
    limit: int = 100,
    documents: Sequence[str] | None = None,
    languages: Sequence[str] | None = None,
    name: str = "",
    progress: Callable[[], object] = lambda: None,
    seconds: float = SECONDS,
    side: str = "text",
    near: str = "",
) -> Lookup:
    """Find every occurrence of a text in an index, ignoring case, ligatures, full width and invisible characters.

    The words near the matches are counted: up to four on each side, function words only directly beside a match.

    Args:
        index: Index to search.
        query: Text to look up.
        how: "words" finds whole words, with ``*`` for any letters and ``?`` for one letter. "forms" also finds
            inflected forms, and Chinese in traditional and simplified characters. "regex" takes a regular expression
            in the syntax of the package regex.
        sort: Order of the lines: "text", or by the words to the "left" or "right" of the match.
        limit: Maximum number of lines.
        documents: Names of the documents to search, or folders, or patterns with ``*``; None for all.
        languages: Languages of the documents to search; None for all.
        name: Name of the index in the lines.
        progress: Called regularly; an exception that it raises ends the search.
        seconds: Time limit; the part of the index that is not searched in time is ignored.
        side: "text"; or "translation", to search the translations in aligned text. The lines are then translations, and
            their metadata "translation" is the text of the index.
        near: Word that must be among the counted words near a match; "" for none.

    Raises InputError for an empty text, a text without a letter or digit, and an invalid regular expression. Raises it
    also for an unknown ``how``, ``sort`` or ``side``, a ``limit`` below 1, and an unknown document or language.
    """
    check_opened(index, "an index, such as Index.open(path)")
    for text in (query, near):
        check_text(text)
    limit = to_whole("limit", limit)
    check_progress(progress)
    for option, value, values in (("how", how, WAYS), ("sort", sort, ORDERS), ("side", side, SIDES)):
        if value not in values:
            raise InputError(f"{option} {repr(value)[:20]}; expected one of {', '.join(values)}")
    if not query.strip():
        raise InputError("the text to look up is empty")
    tally, whole = _Tally(name), True
    end = time.monotonic() + seconds
    with index.store.reading():
        infos = {info.id: info for info in index.documents()}
        filters = Filters(documents, languages)
        document_ids = set(infos) if filters.pass_all else set(index.documents_in(filters))
        tags = [infos[number].language for number in sorted(document_ids)] or [""]
        if side == "translation":
            tags = [_language_of_translations(index)]
        finders = {tag: _finder(query.strip(), how, tag, end) for tag in tags}
        function_words_of = {tag: frozenset(map(_key, general_words(tag))) for tag in finders}
        fragments, near_key = _united([fragments for _, fragments in finders.values()]), _key(near)
        try:
            for number, row in enumerate(_rows(index, fragments, side)):
                if number % 64 == 0:
                    progress()
                    _check_time(end)
                if row.document not in document_ids:
                    continue
                info = infos[row.document]
                language = tags[0] if side == "translation" else info.language
                (find, _), function_words = finders[language], function_words_of[language]
                for start, stop in find(row.text):
                    _check_time(end)
                    before = _near(row.text[max(0, start - NEAR) : start], -WINDOW, function_words)
                    after = _near(row.text[stop : stop + NEAR], WINDOW, function_words)
                    if not near_key or near_key in (*before, *after):
                        tally.add(row, (start, stop), info.name, language, before, after)
        except _TimeOver:
            whole = False
    lines = tally.lines
    if lines and sort != "text":
        candidate = Candidate(query, 1.0, tally.count, tuple(lines), 1.0, language=lines[0].hit.language)
        column = Column(name, (candidate,))
        lines = list(arranged(column, sort).candidates[0].lines)
    return Lookup(query, tally.count, tally.sentences, tuple(lines[:limit]), **tally.most_frequent(), whole=whole)


class _Tally:
    """The counts of a look-up while it runs, and its first lines; ``name`` of the index in the lines."""

    def __init__(self, name: str) -> None:
        self.count = self.sentences = 0
        self.lines: list[Line] = []
        self._name = name
        self._row: SentenceRow | None = None  # of the latest match
        self._documents: Counter[str] = Counter()
        self._wordings, self._before, self._after = _Counts(), _Counts(), _Counts()

    def add(
        self,
        row: SentenceRow,
        span: tuple[int, int],
        document: str,
        language: str,
        before: Mapping[str, str],
        after: Mapping[str, str],
    ) -> None:
        """Count a match.

        Args:
            row: Sentence of the match; the matches of a sentence follow one another.
            span: Span of the match in the sentence.
            document: Name of the document.
            language: Language of the sentence.
            before: Words before the match by their keys.
            after: Words after the match by their keys.
        """
        self.count += 1
        self.sentences += row is not self._row
        self._row = row
        wording = row.text[slice(*span)]
        self._wordings.add({_key(wording): wording})
        self._before.add(before)
        self._after.add(after)
        self._documents[document] += 1
        if len(self.lines) < LINES:
            hit = Hit(Phrase(row.text, *span), 1.0, document, row.line, language, -1, row.metadata)
            self.lines.append(Line(self._name, hit))

    def most_frequent(self) -> dict[str, tuple[tuple[str, int], ...]]:
        """Return the most frequent wordings, words before and after, and documents, by the fields of `Lookup`."""
        counts = {"wordings": self._wordings, "before": self._before, "after": self._after}
        top = {name: tuple(counter.totals().most_common(NEIGHBOURS)) for name, counter in counts.items()}
        return {**top, "documents": tuple(self._documents.most_common(NEIGHBOURS))}


class _Counts:
    """Counter of words that counts the forms with equal keys together."""

    def __init__(self) -> None:
        self._forms: dict[str, Counter[str]] = defaultdict(Counter)

    def add(self, forms: Mapping[str, str]) -> None:
        """Count each form under its key."""
        for key, form in forms.items():
            self._forms[key][" ".join(_compared(plain(form)).split())] += 1

    def totals(self) -> Counter[str]:
        """Return the count of each key under its most frequent form; of equal ones, the one in small letters."""
        return Counter(
            {max(forms, key=lambda form: (forms[form], form)): forms.total() for forms in self._forms.values()}
        )


_I = re.compile("[iIİı]")


def _key(text: str) -> str:
    """Fold a wording; i, ı, I and İ become one letter, as the capital of i depends on the language."""
    return folded(without_compatibles(text)).replace("ı", "i")


def _compared(text: str) -> str:
    """Compose the letters of a text, without ligatures and full-width letters."""
    return composed(without_compatibles(text))


def _check_time(end: float) -> None:
    """Raise _TimeOver after ``end``, on the clock of `time.monotonic`."""
    if time.monotonic() > end:
        raise _TimeOver


def _rows(index: BaseIndex, fragments: Sequence[str], side: str) -> Iterator[SentenceRow]:
    """Yield the sentences that may contain one of the fragments; all if there are no fragments.

    For the side "translation", each translation is yielded once, with all its sentences.
    """
    if side == "text":
        ids = (number for number, _ in groupby(merge(*map(index.texts.candidates, fragments))))  # without duplicates
        yield from index.store.sentences(ids) if fragments else index.store.all_sentences()
        return
    common = ("".join(set(letters)) for letters in zip(*fragments, strict=False))
    rows = index.store.translated_sentences("".join(letter if len(letter) == 1 else "%" for letter in common))
    for _, unit in groupby(rows, key=lambda row: (row.document, row.line, row.metadata["translation"])):
        first, *rest = unit
        text = " ".join(row.text for row in (first, *rest))
        yield first._replace(text=first.metadata["translation"], metadata={**first.metadata, "translation": text})


def _language_of_translations(index: BaseIndex) -> str:
    """Guess the language of the translations from the first of them; "" if it is not clear."""
    texts = [row.metadata["translation"] for row in islice(index.store.translated_sentences(), SAMPLE)]
    lexicon = bundled_lexicon()
    return lexicon.language_of(" ".join(texts)) if lexicon is not None and texts else ""


def _near(text: str, count: int, function_words: frozenset[str]) -> dict[str, str]:
    """Return the words of a context nearest to the match by their keys, each once.

    Only the word directly beside the match may be a function word.

    Args:
        text: Context before or after the match.
        count: Number of words at the beginning of the context; negative for its end.
        function_words: Keys of function words.
    """
    spans = words(text)
    forms = [text[start:end] for start, end in (spans[count:] if count < 0 else spans[:count])]
    keyed_forms = [(_key(form), form) for form in forms]
    nearest = -1 if count < 0 else 0
    content = [(key, form) for key, form in keyed_forms if key not in function_words]
    return dict([*keyed_forms[nearest:][:1], *content])


def _finder(query: str, way: str, language: str, end: float) -> tuple[Find, list[str]]:
    """Return a function that finds the matches in a sentence, and fragments to find the sentences.

    Every sentence with a match contains one of the fragments; without fragments, any sentence may have a match. After
    ``end``, on the clock of `time.monotonic`, the function raises _TimeOver.
    """
    if way == "regex":
        return _spans(_expression(query), end, visible, composed), []
    query = _compared(plain(query))
    if not any(map(str.isalnum, query)):
        raise InputError(f"{query[:40]!r} has no letter or digit; give a word or several")
    if way == "forms":
        return _unspaced_forms(query, language, end) if _unspaced(query) else _forms(query, language)
    return _literal(query, language, end)


def _literal(query: str, language: str, end: float) -> tuple[Find, list[str]]:
    """Return a function that finds whole words, with wildcards, and fragments to find these; see `_finder`."""
    parts = re.split(r"([*?]|\s+)", query)
    wildcards = {"*": f"{_LETTER if _unspaced(query) else _SPACED}*", "?": r"\w\p{M}*"}
    pattern = "".join(wildcards.get(part, r"\s+" if part.isspace() else regex.escape(part)) for part in parts)
    if _has_dotless_i(query, language):
        pattern = _I.sub("[iIİı]", pattern)
    before = "" if _unspaced(query[0]) else f"(?<!{_SPACED})"
    after = "" if _unspaced(query[-1]) else f"(?!{_SPACED})"
    full = regex.FULLCASE if "ss" in folded(query) else 0  # so that ss matches ß; three times as slow
    expression = regex.compile(before + pattern + after, regex.IGNORECASE | full)
    literal = max((part for part in parts if part not in ("*", "?") and part.strip()), key=len)
    dotless = _has_dotless_i(literal, language)
    return _spans(expression, end, plain, _compared), _fragments([_letters(letter, dotless) for letter in literal])


def _united(rows: Sequence[list[str]]) -> list[str]:
    """Unite the fragments of several finders; none if one has none, so that all sentences are read."""
    return list(dict.fromkeys(chain.from_iterable(rows))) if all(rows) else []


def _has_dotless_i(text: str, language: str) -> bool:
    """Return whether a text may be in a language with the letters ı and İ, from its language and letters."""
    return primary(language) in ("az", "tr") or "ı" in text or "İ" in text


def _letters(letter: str, dotless: bool) -> str:
    """Return the letters that a letter of a query matches, case aside; with ``dotless``, i matches ı, too."""
    return "iı" if dotless and _I.match(letter) else letter


def _fragments(text: Sequence[str]) -> list[str]:
    """Return fragments of a text; every sentence that matches the text contains at least one of them.

    They are the longest part that has few variants, in all of these. An empty text has no fragments.

    Args:
        text: Letters of the text, each with its variants, such as "aä".
    """
    if all(len(letters) == 1 for letters in text):
        return ["".join(text)] if text else []
    text, start = text[:LETTERS], 0
    parts = []
    for end in range(1, len(text) + 1):
        while end - start > TRIGRAM and math.prod(map(len, text[start:end])) > VARIANTS:
            start += 1
        parts.append(text[start:end])
    best = max(parts, key=lambda part: (len(part), -math.prod(map(len, part))))
    return list(map("".join, product(*best)))


def _unspaced(text: str) -> bool:
    """Return whether a text has a character of a script without spaces between words, such as Chinese or Thai."""
    return regex.search(f"[{_UNSPACED}]", text) is not None


def _spans(
    expression: regex.Pattern[str], end: float, comparable: Callable[[str], str], form: Callable[[str], str]
) -> Find:
    """Return a function that finds the matches of a regular expression in a text, with their spans in this text.

    Args:
        expression: Regular expression.
        end: Time limit, on the clock of `time.monotonic`.
        comparable: Removes invisible characters before a text is searched (`Alignment`).
        form: Composes its characters.
    """

    def find(text: str) -> Iterator[tuple[int, int]]:
        alignment = Alignment(text, comparable, form)
        try:
            for match in expression.finditer(alignment.text, timeout=max(end - time.monotonic(), 0.001)):
                if match.end() > match.start() and (span := alignment.plain_span(*match.span())):
                    yield alignment.original(*span)
        except TimeoutError:
            raise _TimeOver from None

    return find


def _unspaced_forms(query: str, language: str, end: float) -> tuple[Find, list[str]]:
    """Return a function that finds a text without spaces in each spelling, and fragments to find these.

    So 自行車 finds 自行车. In Japanese, inflected forms are found, too: 食べる finds 食べた. A query with kana is
    Japanese, whatever the language of the index.
    """
    language = "ja" if primary(language) == "ja" or KANA.search(query) else "zh"
    finders = [_literal(spelling, language, end) for spelling in spellings(folded(query), language)]
    finders += [_forms(query, language)] if language == "ja" else []

    def find(text: str) -> Iterator[tuple[int, int]]:
        last = 0
        spans = {span for find_spans, _ in finders for span in find_spans(text)}
        for start, stop in sorted(spans, key=lambda span: (span[0], -span[1])):
            if start >= last:
                yield start, stop
                last = stop

    return find, _united([fragments for _, fragments in finders])


def _forms(query: str, language: str) -> tuple[Find, list[str]]:
    """Return a function that finds consecutive inflected forms of the query's words, and fragments to find these.

    A form has the stem of the word (`are_inflections`), and contains what the word has in common with it (`_core`).
    """
    language = language or "en"
    query_words = [query[start:end] for start, end in words(query)]
    stems = [_key(stemmed(word, language)) for word in query_words]
    cores = [_core(_key(word), stem, language) for word, stem in zip(query_words, stems, strict=True)]
    patterns = [re.compile("".join(f"[{re.escape(letters)}]" for letters in core)) for core in cores]
    size = len(stems)

    @cache
    def is_form(form: str, place: int) -> bool:
        """Whether a word that matches the pattern of a word of the query is a form of it."""
        return _key(stemmed(form, language)) == stems[place] and are_inflections(
            folded(query_words[place]), folded(form), language
        )

    def find(text: str) -> Iterator[tuple[int, int]]:
        spans = words(text)
        forms = [_compared(plain(text[start:end])) for start, end in spans]
        for at in range(len(spans) - size + 1):
            window = spans[at : at + size]
            candidates = enumerate(zip(forms[at : at + size], patterns, strict=True))
            if all(pattern.search(_key(form)) and is_form(form, place) for place, (form, pattern) in candidates):
                yield window[0][0], window[-1][1]

    return find, _fragments(max(cores, key=len))


def _core(word: str, stem: str, language: str) -> list[str]:
    """Return the longest text that a word has in common with its stem, as letters with their variants.

    Diacritics are ignored, and the text need not be at the beginning: "l'ordinateur" and "ordin" share "ordin". The
    variants of a letter are those with which the word keeps its stem: "aä" for the first letter of German "apfel".

    Args:
        word: Word of the query, as `_key` folds it.
        stem: Its stem.
        language: Language of the word.
    """
    matcher = SequenceMatcher(None, _without_marks(word[:LETTERS]), _without_marks(stem[:LETTERS]), autojunk=False)
    match, dotless = matcher.find_longest_match(), _has_dotless_i(word, language)
    core = []
    for place, stem_letter in enumerate(stem[match.b : match.b + match.size], match.a):
        letter, before, after = word[place], word[:place], word[place + 1 :]
        marked_letters = _marked_letters().get(_without_marks(letter), "")
        variants = [sign for sign in marked_letters if _key(stemmed(before + sign + after, language)) == stem]
        letters = dict.fromkeys([*_letters(letter, dotless), stem_letter, *variants])
        core.append("".join(letters))
    return core


def _without_marks(text: str) -> str:
    """Replace each letter with diacritics by the letter without; the length stays the same."""
    pairs = ((letter, normalize("NFD", letter)) for letter in text)
    return "".join(parts[0] if all(map(combining, parts[1:])) else letter for letter, parts in pairs)


@cache
def _marked_letters() -> dict[str, str]:
    """Return the letter itself and all letters with diacritics, for each letter that has any, as `_key` folds them."""
    letters: dict[str, str] = {}
    for letter in map(chr, range(0xC0, 0x700)):  # Latin, Greek, Cyrillic and Arabic
        base = _without_marks(letter)
        if base != letter == _key(letter):
            letters[base] = letters.get(base, base) + letter
    return letters


def _expression(query: str) -> regex.Pattern[str]:
    """Compile a regular expression. Raises InputError for an invalid one, or one that is too long when written out."""
    query = composed(query).replace("\n", " ")  # a comment could end within a number of repeats, unseen by the check
    if _written_out(query) > WRITTEN_OUT:
        raise InputError("the regular expression repeats too often; use smaller numbers in {}")
    try:
        return regex.compile(query, regex.IGNORECASE)
    except (regex.error, OverflowError, RecursionError) as error:
        raise InputError(f"not a regular expression: {error}") from None


def _written_out(query: str) -> float:
    """Return an upper bound for the length of a regular expression with repeats such as {9} written out."""
    counts = (re.sub(r"\D", "", count) for count in re.findall(r"\{([^,}]*)", query))
    return len(query) * math.prod(max(1.0, float(count or 1)) for count in counts)

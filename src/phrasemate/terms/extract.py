"""The phrases of documents, ranked by how likely each is a term.

Every run of words is scored by the segmenter, also where it stands below the threshold: a run that is a phrase in one
sentence and cut in nine is a worse term than one that is a phrase in all ten. So is a long one: glossaries hold short
terms, and a long phrase mostly holds one that is the better entry. Measured by ``bench/terms.py``.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from phrasemate.encode import FrequentWords, Model
from phrasemate.encode.segmenter import JOINT
from phrasemate.terms.records import DocumentTerm, Occurrence, Progress, TermSettings
from phrasemate.text import words
from phrasemate.text.normalize import composed, plain
from phrasemate.types import Document, Phrase, Span

AT_ONCE = 256  # sentences between two calls of progress
MARKS = 8  # characters that may stand before the first word of a sentence


@dataclass(slots=True)
class Found:
    """A phrase while its occurrences are gathered: how often, their probabilities' sum and greatest, and where."""

    words: int
    count: int = 0
    total: float = 0.0
    greatest: float = 0.0
    places: list[Occurrence] = field(default_factory=list)

    @property
    def belief(self) -> float:
        return self.total / self.count


def wording(text: str) -> str:
    """What all spellings of a phrase share: its words, case-folded and composed, with one space between them."""
    whole = composed(text)
    return " ".join(_spelt(whole[start:end]) for start, end in words(whole))


def extract_terms(
    documents: Iterable[Document],
    model: Model,
    settings: TermSettings | None = None,
    progress: Progress = lambda what, done, total: None,
) -> list[DocumentTerm]:
    """The terms of documents (``phrasemate.read``), best first, without translations.

    ``progress`` is called with sentences done and their number; what it raises stops the work. All is held in memory,
    some 2 KB for each word. Raises what reading the documents raises.
    """
    settings = settings or TermSettings()
    found = find_phrases(documents, model, settings, progress)
    return [_term(each, score) for each, score in ranked(found, settings)]


def find_phrases(
    documents: Iterable[Document],
    model: Model,
    settings: TermSettings,
    progress: Progress = lambda what, done, total: None,
) -> dict[str, Found]:
    """Wording -> phrase, in order of first occurrence: all that pass the settings, in no ranking."""
    places: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)  # a sentence that comes again is read once
    order: dict[str, int] = {}
    for document in documents:
        order.setdefault(document.name, len(order))
        for sentence in document.sentences():
            places[sentence.text].append((document.name, sentence.line))
    found: dict[str, Found] = {}
    for text, spans in _segmented(list(places), model, settings, progress):
        for key, size, span in _uncut(text, spans):
            _note(found.setdefault(key, Found(size)), span, text, places[text])
    passing = {key: each for key, each in found.items() if _passes(each, settings)}
    for each in passing.values():
        each.places.sort(key=lambda place: (order[place.document], place.line))
    return passing


def ranked(found: Mapping[str, Found], settings: TermSettings) -> list[tuple[Found, float]]:
    """The best of the phrases with their scores; of equal ones the more frequent, then the earlier one first."""
    scores = SCORES[settings.ranking](found)
    order = sorted(found, key=lambda key: (-scores[key], -found[key].count))
    return [(found[key], scores[key]) for key in order[: settings.most]]


def _segmented(
    texts: Sequence[str], model: Model, settings: TermSettings, progress: Progress
) -> Iterator[tuple[str, list[Span]]]:
    """Each text with its runs of words and their probabilities."""
    counted = FrequentWords()
    for text in () if model.segmenter.contextual else texts:
        counted.update(text)
    frequent = counted.words()
    for at in range(0, len(texts), AT_ONCE):
        some = texts[at : at + AT_ONCE]
        spans = model.segment(some, frequent, threshold=0.0, max_words=settings.max_words, overlapping=True)
        yield from zip(some, spans, strict=True)
        progress("finding phrases", at + len(some), len(texts))


def _spelt(word: str) -> str:
    return composed(plain(word)).casefold()


def _uncut(text: str, spans: Sequence[Span]) -> Iterator[tuple[str, int, Span]]:
    """Wording and number of words of each span that no punctuation cuts, and that is whole words.

    A text that the encoder reads in stretches may be cut within a word.
    """
    cuts = words(text)
    first, last = ({pair[side]: at for at, pair in enumerate(cuts)} for side in (0, 1))
    folded = [_spelt(text[start:end]) for start, end in cuts]
    joined = [JOINT.fullmatch(text, one[1], other[0]) is not None for one, other in pairwise(cuts)]
    for span in spans:
        low, high = first.get(span.start), last.get(span.end)
        if low is not None and high is not None and all(joined[low:high]):
            yield " ".join(folded[low : high + 1]), high + 1 - low, span


def _note(each: Found, span: Span, text: str, places: Sequence[tuple[str, int]]) -> None:
    each.count += len(places)
    each.total += span.score * len(places)
    each.greatest = max(each.greatest, span.score)
    phrase = Phrase(text, span.start, span.end)
    each.places += [Occurrence(phrase, document, line, span.score) for document, line in places]


def _passes(each: Found, settings: TermSettings) -> bool:
    return each.greatest >= settings.belief and each.count >= settings.least


def _term(each: Found, score: float) -> DocumentTerm:
    variants = Counter(place.phrase.text for place in each.places)
    inside = Counter(place.phrase.text for place in each.places if not _begins(place.phrase))
    usual = (inside or variants).most_common(1)[0][0]
    return DocumentTerm(usual, score, each.count, each.belief, tuple(variants.most_common()), tuple(each.places))


def _begins(phrase: Phrase) -> bool:
    """Whether no word comes before it, so that its capital says nothing; a quotation mark or a dash may."""
    return phrase.start <= MARKS and not any(map(str.isalnum, phrase.context[: phrase.start]))


# -- rankings


def _termhood(found: Mapping[str, Found]) -> dict[str, float]:
    return {key: each.belief * math.log1p(each.count) / each.words for key, each in found.items()}


def _expected(found: Mapping[str, Found]) -> dict[str, float]:
    """How many of the occurrences are phrases, on average."""
    return {key: each.total for key, each in found.items()}


def _frequency(found: Mapping[str, Found]) -> dict[str, float]:
    return {key: float(each.count) for key, each in found.items()}


def _cvalue(found: Mapping[str, Found]) -> dict[str, float]:
    """Frantzi, Ananiadou and Mima 2000, section 2.2, with log2(n + 1), so that single words count, too.

    log2(n + 1) (f - mean f of the longer phrases that hold it), for a phrase of n words that comes f times.
    """
    longer: defaultdict[str, list[int]] = defaultdict(list)
    for key, each in found.items():
        parts = key.split(" ")
        ends = range(1, len(parts) + 1)
        for inside in {" ".join(parts[low:high]) for high in ends for low in range(high)} - {key}:
            longer[inside].append(each.count)
    scores = {}
    for key, each in found.items():
        nested = longer[key]
        own = each.count - (sum(nested) / len(nested) if nested else 0)
        scores[key] = math.log2(each.words + 1) * own
    return scores


SCORES: Mapping[str, Callable[[Mapping[str, Found]], dict[str, float]]] = {
    "cvalue": _cvalue,
    "expected": _expected,
    "frequency": _frequency,
    "termhood": _termhood,
}

"""From neighbours to mates: margins, filters, one-to-one pairs, and the threshold that suits known pairs.

Sentence vectors hardly tell "Dutch language package" from "Estonian language package". So the words of a pair are
compared, too, by the lexicon (`LexiconMatch`) or by vectors (`WordMatch`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, log, sqrt
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from phrasemate.align import TokenizedSentence
from phrasemate.align.neural import word_vectors
from phrasemate.encode import Model
from phrasemate.encode.pooling import unit
from phrasemate.errors import InputError
from phrasemate.lexicon import InducedLexicon
from phrasemate.lexicon.inflection import ENGLISH_FUNCTION_WORDS, stem
from phrasemate.mine.collection import CHECKS, Counts, Place
from phrasemate.mine.neighbours import ENGINES
from phrasemate.text import folded, words
from phrasemate.text.languages import primary
from phrasemate.text.normalize import plain
from phrasemate.types import PhrasePair, Run
from phrasemate.utils.arrays import Flags, Floats
from phrasemate.utils.margin import lead, margin_of, neighbour_pairs, neighbourhood

FLOORS = {
    "absolute": 0.0,
    "csls": 0.0,
    "distance": 0.0,
    "quarter": 0.0,
    "ratio": 1.0,
}  # below it a pair is nearer to others
THRESHOLDS = {
    ("quarter", "none"): (0.675, 0.0145),
    ("quarter", "words"): (0.91, 0.045),
    ("quarter", "reranker"): (1.64, 0.072),
    ("ratio", "none"): (1.046, 0.006),
}
"""Of a margin and of what looks at pairs again: the default for `USUAL` sentences, and its growth for e times as
many."""
REGRESSION_THRESHOLDS = {False: (-0.2, 1.0), True: (0.3, 1.0)}
"""The same of the log odds of `probabilities`, without the lexicon and with it."""
USUAL, SMALLEST = 20_000, 5_000  # below the smallest the threshold stays
WEIGHTS = {"words": 0.5, "reranker": 1.5, "scorer": 0.5}  # of a second look's scores beside the margin
DOUBT = 0.09  # so far below the threshold of the margin `quarter`, pairs are still looked at
RERANKED, LOOKED_AT, RISE = 1.6, 0.635, 0.23
"""At this threshold, the re-ranker looks at pairs with a margin `quarter` of 0.635 and more; for a threshold that is 1
higher, at those with 0.23 more. Most of what it lets pass below is wrong (decision 040)."""
CONTEST = 0.006
"""The re-ranker leaves pairs out that are further below the best pair of one of their sentences (decision 040)."""
MARGINS = ("auto", "regression", *FLOORS)
OURS = ("regression", "quarter")  # the others take the vectors as published
RERANK = ("none", "reranker", "words")


def usual_threshold(margin: str, look: str, source: int, target: int, lexicon: bool = False) -> float | None:
    """The default for collections of so many sentences; None where it was not measured (docs/how-to/mine-sentences.md).

    ``look``: what looks at pairs again, one of `RERANK`. ``lexicon``: whether the lexicon counts.

    The number of wrong pairs that reach a score by chance grows with the product of both sizes, and falls by the same
    factor with each step of the score. So the threshold grows with the logarithm of the product. Half as quickly where
    there are the more mates the more sentences there are; `THRESHOLDS` lie between that and always as many. Those of
    the regression are log odds.
    """
    threshold = REGRESSION_THRESHOLDS[lexicon] if margin == "regression" else THRESHOLDS.get((margin, look))
    if threshold is None:
        return None
    usual, growth = threshold
    value = usual + growth * log(max(SMALLEST, sqrt(source * target)) / USUAL)
    return 1 / (1 + exp(-value)) if margin == "regression" else value


class SentenceEncoder(Protocol):
    """Interface of a `phrasemate.Model`, as mining uses it."""

    @property
    def hash(self) -> str: ...

    @property
    def width(self) -> int: ...

    def encode_sentences(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(texts, width) float32, unit length."""


@dataclass(frozen=True, slots=True)
class Mining:
    """Settings of the mining.

    Args:
        k: Neighbours each way.
        margin, pairing: See `candidates` and `one_to_one`. ``margin="regression"`` scores by `probabilities`. "auto" is
            that, or `quarter` where pairs are looked at again. With both, `language_offset` is taken off the source
            vectors; the published margins take them as they are.
        threshold: The least score; None: what calibration says, or the default of the margins `regression`, `quarter`
            and `ratio` (`usual_threshold`).
        length_ratio, copies: See `length_deviations` and `is_copy`; None: no such filter.
        languages: Codes, or ""; with ``check``: see `checker`.
        engine: See `engine_for`.
        rerank: How promising pairs are looked at again: by the `reranker` that comes with the bundled encoder
            (`Attention`, its scores divided by the highest there can be), by `words` (`WordMatch`), or not.
        weight: How often its scores count beside the margin; None: as in `WEIGHTS`.
        lexicon: Whether words that the bundled lexicon knows as translations count (`LexiconMatch`), where it has both
            languages. Only in the regression. A language that is not given is recognised by a sample of sentences.
    """

    k: int = 4  # Artetxe and Schwenk (2019), section 4.1
    margin: str = "auto"
    threshold: float | None = None
    pairing: str = "greedy"
    length_ratio: float | None = 2.5
    copies: float | None = 0.75
    languages: tuple[str, str] = ("", "")
    check: str = "script"
    engine: str = "auto"
    rerank: str = "none"
    weight: float | None = None
    lexicon: bool = True

    def __post_init__(self) -> None:
        words = {"margin": MARGINS, "pairing": PAIRING, "check": CHECKS, "engine": ENGINES, "rerank": RERANK}
        for name, choices in words.items():
            if getattr(self, name) not in choices:
                raise InputError(f"{name} {getattr(self, name)!r}; expected one of {', '.join(choices)}")
        if self.margin == "regression" and self.rerank != "none":
            raise InputError(f"margin 'regression' and rerank {self.rerank!r}; nothing looks at its pairs again")
        if self.k < 1:
            raise InputError(f"k {self.k}; expected 1 or more neighbours")
        if self.length_ratio is not None and not self.length_ratio > 1:
            raise InputError(f"length ratio {self.length_ratio}; expected more than 1, or none")
        if self.copies is not None and not 0 < self.copies <= 1:
            raise InputError(f"copies {self.copies}; expected a share above 0 and up to 1, or none")


class Mate(NamedTuple):
    """A pair of sentences that translate each other, with all their places.

    ``cosine``: of the vectors that were compared, see `Mining`.

    >>> mate = Mate("Der Hund bellt.", "The dog barks.", 1.6, 0.9, (), ())
    >>> mate.source, mate.target
    ('Der Hund bellt.', 'The dog barks.')
    """

    source: str
    target: str
    score: float
    cosine: float
    source_places: tuple[Place, ...]
    target_places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Counts and seconds of a run.

    Args:
        candidates: Pairs of neighbours.
        unlike: Of these, dropped for their lengths.
        promising: Of the others, those with a high margin.
        copies: Of these, dropped; the others were looked at again as ``rerank`` says (one of `RERANK`, or "scorer").
        pairs: Chosen at the ``threshold``.
        recall: Of the searches both ways, on a sample, against exact search (1 for exact ones).
        lexicon: Languages in which the lexicon compared words; none if it did not.
        seconds: Of each stage of this run.
    """

    source: Counts
    target: Counts
    candidates: int
    unlike: int
    promising: int
    copies: int
    pairs: int
    threshold: float
    rerank: str
    calibration: Calibration | None
    engine: str
    recall: tuple[float, float]
    lexicon: tuple[str, ...]
    seconds: dict[str, float]


PAIRING = ("greedy", "mutual", "all")
Ids = NDArray[np.int32]

SLACK = 8  # characters added to both lengths: short sentences differ more
_GRAM = 3
_LEAST_KNOWN = 20  # pairs that a threshold is fitted to
_SURE = 0.5  # of the known pairs that must be above a threshold for it to tell how many mates there are


class Candidates(NamedTuple):
    """Pairs by score, highest first: (n,) numbers of source and target sentences, cosines, scores.

    ``length``: their `length_deviations`, 0 until they are known.
    """

    source: Ids
    target: Ids
    cosine: Floats
    score: Floats
    length: Floats

    def numbers(self) -> Iterator[tuple[int, int]]:
        """The numbers of both sentences of each pair."""
        return zip(self.source.tolist(), self.target.tolist(), strict=True)

    def with_scores(self, scores: Floats) -> Candidates:
        """With these scores (n,), in their order."""
        return self._replace(score=scores).only(np.argsort(-scores, kind="stable"))

    def only(self, mask: NDArray[np.bool_] | NDArray[np.int64] | slice) -> Candidates:
        return Candidates._make(column[mask] for column in self)


def candidates(forward: Run, backward: Run, how: str = "ratio", floor: float = -np.inf) -> Candidates:
    """Pairs of which one is among the neighbours of the other, scored by margin, those below ``floor`` left out.

    ``forward`` has the k nearest targets of each source sentence, ``backward`` the other way round. Artetxe and
    Schwenk (ACL 2019), section 3; equal scores in the order of the sentences. ``how``: a margin of `margin_of`.
    """
    forward_means, backward_means = (neighbourhood(run, run.ids.shape[1]) for run in (forward, backward))
    source, target, cosine = neighbour_pairs(forward, backward)
    score = margin_of(cosine, forward_means[source], backward_means[target], how)
    order = np.argsort(-score, kind="stable")
    order = order[: np.searchsorted(-score[order], -floor, "right")]
    pairs = Candidates(source.astype(np.int32), target.astype(np.int32), cosine, score, np.zeros_like(score))
    return pairs.only(order)


def contested(pairs: Candidates, gap: float) -> Candidates:
    """The pairs whose score is at most ``gap`` below the best pair of their source sentence and of their target."""
    best = np.full(len(pairs.score), -np.inf, np.float32)
    for side in (pairs.source, pairs.target):
        best_of_sentence = np.full(int(side.max(initial=-1)) + 1, -np.inf, np.float32)
        np.maximum.at(best_of_sentence, side, pairs.score)
        np.maximum(best, best_of_sentence[side], out=best)
    return pairs.only(best - pairs.score <= np.float32(gap))


def one_to_one(pairs: Candidates, pairing: str = "greedy") -> NDArray[np.int64]:
    """Choose pairs one to one, in their order. What is chosen at a higher floor is the beginning of it.

    `greedy`: the best pair first, then the best of those whose sentences are still free; `mutual`: pairs that are the
    best of both their sentences; `all`: every pair. Raises InputError for another word.
    """
    if pairing not in PAIRING:
        raise InputError(f"pairs {pairing!r}; expected one of {', '.join(PAIRING)}")
    numbers = np.arange(len(pairs.score))
    if pairing == "all" or not len(numbers):
        return numbers
    if pairing == "mutual":
        best_of_source, best_of_target = (np.unique(side, return_index=True)[1] for side in pairs[:2])
        return np.intersect1d(best_of_source, best_of_target)
    return _greedy(pairs)


def _greedy(pairs: Candidates) -> NDArray[np.int64]:
    sources, targets = bytearray(int(pairs.source.max()) + 1), bytearray(int(pairs.target.max()) + 1)
    pair_rows = []
    for number, (source, target) in enumerate(pairs.numbers()):
        if not sources[source] and not targets[target]:
            sources[source] = targets[target] = 1
            pair_rows.append(number)
    return np.array(pair_rows, np.int64)


def length_deviations(pairs: Candidates, source: NDArray[np.int32], target: NDArray[np.int32]) -> Floats:
    """(pairs,) by how much the lengths of two sentences differ, in characters: 0 if they do not, ln 2 for twice.

    What is usual between the two languages is taken off first: the median ratio of the pairs that are the best of
    both their sentences. ``source`` and ``target`` are the lengths of all sentences.
    """
    ratio = np.log((target[pairs.target] + SLACK) / (source[pairs.source] + SLACK))
    mutual = one_to_one(pairs, "mutual")
    usual = float(np.median(ratio[mutual])) if len(mutual) else 0.0
    return np.abs(ratio - usual).astype(np.float32)


FEATURES = ("margin", "lead", "length", "words")
REGRESSION = {
    False: (-54.493, (78.390, 14.474, -0.895)),
    True: (-54.224, (77.796, 8.017, -1.084, 37.283)),
}
"""Without the lexicon and with it: the bias and the weights of the features (`bench/mine.py --fit`)."""
AHEAD = 0.2  # how far a pair is ahead of the next one at most, for each of its sentences
WORDS = 0.1  # weight of the lexicon's score beside the margin


def pair_features(pairs: Candidates, match: Floats | None = None) -> Floats:
    """(pairs, 3) or (pairs, 4) `FEATURES` of pairs that are scored by the margin `quarter`.

    They are the margin, the `lead` of the cosine, and the `length_deviations`. With ``match`` (pairs,), the scores of a
    `LexiconMatch`, they are also the lead of the margin with `WORDS` of the match, less that of the cosine. A lead is
    how far a pair is above the best other pair of its source sentence, plus the same for the target, `AHEAD` at most
    for each.
    """

    def ahead(values: Floats) -> Floats:
        return lead(pairs.source, pairs.target, values, values - np.float32(AHEAD))

    columns = [pairs.score, ahead(pairs.cosine), pairs.length]
    if match is not None:
        columns.append(ahead(pairs.score + np.float32(WORDS) * match) - columns[1])
    return np.column_stack(columns)


def probabilities(features: Floats) -> Floats:
    """(pairs,) how likely pairs are to be mates, from their `pair_features`: a logistic regression.

    It was fitted to collections in which three or twenty of a hundred sentences have a mate. Where more have one, pairs
    are likelier than it says.
    """
    bias, weights = REGRESSION[features.shape[1] > FEATURES.index("words")]
    log_odds = features.astype(np.float64) @ np.array(weights) + bias
    values: Floats = (1 / (1 + np.exp(-log_odds))).astype(np.float32)
    return values


def is_copy(source: str, target: str, most: float) -> bool:
    """Whether two texts are nearly the same letters and digits.

    Dice coefficient of their sets of three characters, without case, spaces and punctuation; copies if above ``most``.
    """
    source_text, target_text = (_bare(text) for text in (source, target))
    if source_text == target_text:
        return True
    grams = {source_text[i : i + _GRAM] for i in range(len(source_text) - _GRAM + 1)}
    target_grams = {target_text[i : i + _GRAM] for i in range(len(target_text) - _GRAM + 1)}
    return 2 * len(grams & target_grams) > most * (len(grams) + len(target_grams))


def _bare(text: str) -> str:
    return "".join(filter(str.isalnum, plain(text).casefold()))


@dataclass(frozen=True, slots=True)
class Calibration:
    """A threshold fitted to known pairs, with the expected precision, recall and F1, from 0 to 1.

    ``known`` pairs were hidden, ``found`` of them are at or above the threshold; ``mates`` is an estimate of how many
    other mates there are in the collections.

    >>> calibration = Calibration(threshold=1.4, precision=0.9, recall=0.8, f1=0.85, known=100, found=80, mates=240)
    >>> f"{calibration.precision:.0%} of the pairs are expected to be right"
    '90% of the pairs are expected to be right'
    """

    threshold: float
    precision: float
    recall: float
    f1: float
    known: int
    found: int
    mates: int


def check_known(pairs: int) -> None:
    """Raises InputError for too few pairs to calibrate with."""
    if pairs < _LEAST_KNOWN:
        raise InputError(f"{pairs} pairs to calibrate with; expected {_LEAST_KNOWN} or more")


def calibrate(chosen: Candidates, pairs: Sequence[tuple[int, int]]) -> Calibration:
    """The threshold with the highest expected F1, from the pairs that were chosen and those that are known to be right.

    The known pairs D give the share r(t) of mates at or above t that are found. Other chosen pairs N(t) are right or
    wrong, nobody knows which. But at high thresholds nearly all are right. So the number of other mates is about
    M = min N(t) / r(t) over the thresholds with r(t) >= 0.5. With W(t) pairs of a sentence of D and a wrong mate,

        precision(t) = (M + D) r(t) / (N(t) + D r(t) + W(t)),  recall(t) = r(t).

    It stands on the known pairs being like the others. Raises InputError for fewer than 20 pairs, or if none is found.
    """
    check_known(len(pairs))
    right, is_touched = _recognised(chosen, pairs)
    recognitions = np.cumsum(right)  # D r(t), at each pair as the last that is taken
    if not len(recognitions) or not recognitions[-1]:
        raise InputError("none of the pairs to calibrate with was found; check that both languages are the right way")
    wrong, strangers = np.cumsum(is_touched & ~right), np.cumsum(~is_touched)
    recall = recognitions / len(pairs)
    sure = (recall >= min(_SURE, recall[-1])) & right
    mates = float((strangers[sure] / recall[sure]).min())
    total = np.maximum(strangers + recognitions + wrong, 1)
    precision = np.minimum((mates + len(pairs)) * recall / total, 1.0)
    last = np.append(np.diff(chosen.score) != 0, True)  # of equal scores, only the last is a threshold
    f1 = np.where(last, 2 * precision * recall / np.maximum(precision + recall, 1e-12), -1)
    best = int(np.argmax(f1))
    figures = float(precision[best]), float(recall[best]), float(f1[best])
    return Calibration(float(chosen.score[best]), *figures, len(pairs), int(recognitions[best]), round(mates))


def _recognised(chosen: Candidates, known_pairs: Sequence[tuple[int, int]]) -> tuple[Flags, Flags]:
    """Tell, for each chosen pair, whether it is a known one, and whether it has a sentence of one."""
    pairs = set(known_pairs)
    sources, targets = {s for s, _ in known_pairs}, {t for _, t in known_pairs}
    right = np.array([pair in pairs for pair in chosen.numbers()], bool)
    is_touched = np.array([s in sources or t in targets for s, t in chosen.numbers()], bool)
    return right, is_touched


_FORMS, _TEXTS = 100_000, 20_000  # forms and sentences whose stems are kept
_UNKNOWN = 0.5  # match of a word that the lexicon does not know, and of a sentence without words
_POWER = 0.25  # of a probability's share of the likeliest one's


class _Word(NamedTuple):
    """A word as English stems, each with a share up to 1, and whether the lexicon lists it."""

    stems: dict[str, float]
    is_listed: bool


class LexiconMatch:
    """Scores a pair of sentences by their words that the lexicon knows as translations of each other.

    A word is read as the English stems of its equivalents. A stem's share is its probability, divided by that of the
    likeliest one, to the power of 1/4. The match of a word is the highest share that it has in common with a word of
    the other sentence. A word that the lexicon does not know stands for itself; its match is 1/2 where the other
    sentence lacks it. Function words do not count. The score, from 0 to 1, is the mean match of the words, averaged
    over both sides; that of a side without words is 1/2.

    >>> from phrasemate.lexicon import bundled_lexicon
    >>> match = LexiconMatch(bundled_lexicon(), ("de", "en"))
    >>> scores = match.score([("Der Hund schläft.", "The dog sleeps."), ("Der Hund schläft.", "The door is open.")])
    >>> bool(scores[0] > scores[1])
    True
    """

    def __init__(self, lexicon: InducedLexicon, languages: tuple[str, str]) -> None:
        self.languages = languages
        self._lexicon = lexicon
        self._read = lru_cache(_TEXTS)(self._words_of)
        self._word = lru_cache(_FORMS)(self._stems)

    def score(self, pairs: Iterable[tuple[str, str]]) -> Floats:
        """(pairs,) float32."""
        sides = (tuple(map(self._read, pair, self.languages)) for pair in pairs)
        return np.array([(_match(source, target) + _match(target, source)) / 2 for source, target in sides], np.float32)

    def _words_of(self, text: str, language: str) -> list[_Word]:
        """The words of a text that are not function words."""
        forms = [folded(text[start:end]) for start, end in words(text)]
        return [word for form in forms if (word := self._word(form, language)) is not None]

    def _stems(self, form: str, language: str) -> _Word | None:
        """The English stems of a form; None for a function word."""
        if language == "en":
            return None if form in ENGLISH_FUNCTION_WORDS else _Word({stem(form, "en"): 1.0}, True)
        equivalents = self._lexicon.equivalents(form, language, "en")
        if not equivalents:
            return _Word({stem(form, "en"): 1.0}, False)
        likeliest = equivalents[0]
        if ENGLISH_FUNCTION_WORDS.issuperset(likeliest.text.split()):
            return None
        stems: dict[str, float] = {}
        for equivalent in equivalents:
            share = (equivalent.weight / likeliest.weight) ** _POWER
            for word in equivalent.text.split():
                if word not in ENGLISH_FUNCTION_WORDS:
                    name = stem(word, "en")
                    stems[name] = max(stems.get(name, 0.0), share)
        return _Word(stems, True)


def _match(side: Sequence[_Word], other: Sequence[_Word]) -> float:
    """The mean match of a side's words with those of the other."""
    shares: dict[str, float] = {}
    for word in other:
        for name, share in word.stems.items():
            shares[name] = max(shares.get(name, 0.0), share)
    matches = [
        max([min(word.stems[name], shares[name]) for name in word.stems.keys() & shares.keys()], default=0.0)
        or (0.0 if word.is_listed else _UNKNOWN)
        for word in side
    ]
    return sum(matches) / len(matches) if matches else _UNKNOWN


def lexicon_match(
    lexicon: InducedLexicon | None, languages: Sequence[str], samples: Sequence[Sequence[str]]
) -> LexiconMatch | None:
    """The comparison of words in two languages; None if the lexicon lacks one of them, or both are the same.

    ``languages``: of both sides, "" if unknown. ``samples``: sentences of both sides, which tell it then.
    """
    if lexicon is None:
        return None
    source, target = (
        primary(language) or _language_of(lexicon, sample) for language, sample in zip(languages, samples, strict=True)
    )
    if source == target or not {source, target} <= {"en", *lexicon.languages}:
        return None
    return LexiconMatch(lexicon, (source, target))


def _language_of(lexicon: InducedLexicon, texts: Sequence[str]) -> str:
    """The language of most of some texts; "" if that is not clear."""
    counts = Counter(lexicon.languages_of(texts))
    language, count = counts.most_common(1)[0] if counts else ("", 0)
    return language if 2 * count > counts.total() else ""


_CHUNK = 512  # sentences whose words are encoded together


class WordMatch:
    """Scores a pair of sentences by those of their words that match worst.

    A word's vector is that of the word as a phrase (its projection; without one, the mean of its tokens). Its match is
    the highest cosine with a word of the other sentence. The score is the mean match of the worst quarter of the words,
    averaged over both sides. 0 where a side has no word.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self.signature = f"words {model.hash}"

    def score(self, pairs: Sequence[PhrasePair]) -> Floats:
        """(pairs,) float32."""
        sources, targets = ([getattr(pair, side).text for pair in pairs] for side in ("source", "target"))
        source_vectors, target_vectors = self._vectors(sources), self._vectors(targets)
        return np.array(
            [low_quarter(source_vectors[a] @ target_vectors[b].T) for a, b in zip(sources, targets, strict=True)],
            np.float32,
        )

    def _vectors(self, texts: Sequence[str]) -> dict[str, Floats]:
        """(words, dim) unit vectors of each different text."""
        vectors_of: dict[str, Floats] = {}
        different = sorted(set(texts), key=len)
        for at in range(0, len(different), _CHUNK):
            block = different[at : at + _CHUNK]
            vectors = word_vectors(self._model, [TokenizedSentence.of(text) for text in block], None, "head")
            vectors_of |= zip(block, map(unit, vectors), strict=True)
        return vectors_of


def low_quarter(cosines: Floats) -> float:
    """(words, words) -> the mean of the lowest quarter of the best matches, averaged over both sides."""
    if not cosines.size:
        return 0.0
    sides = (np.sort(cosines.max(axis)) for axis in (0, 1))
    return float(np.mean([best[: max(1, len(best) // 4)].mean() for best in sides]))

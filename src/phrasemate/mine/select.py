"""Select translated sentence pairs (mates) from neighbours: margins, filters, one-to-one choice, and thresholds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.mine.collection import CHECKS, Counts, Place
from phrasemate.mine.neighbours import ENGINES
from phrasemate.text.normalize import plain
from phrasemate.types import Run, check_fields, check_language_pair
from phrasemate.utils.arrays import Flags, Floats
from phrasemate.utils.margin import lead, margin_of, neighbour_pairs, neighbourhood

FLOORS = {
    "absolute": 0.0,
    "csls": 0.0,
    "distance": 0.0,
    "quarter": 0.0,
    "ratio": 1.0,
}  # margin -> score below which the two sentences have nearer neighbours than each other
THRESHOLDS = {
    ("quarter", "none"): (0.675, 0.0145),
    ("quarter", "reranker"): (1.64, 0.072),
    ("ratio", "none"): (1.046, 0.006),
}
"""(Margin, kind of re-ranking) -> default threshold for `USUAL` sentences, and its increase for e times as many."""
REGRESSION_THRESHOLDS = {
    (False, "none"): (-0.1, 1.0),
    (True, "none"): (-0.1, 1.0),
    (False, "words"): (-0.2, 1.0),
    (True, "words"): (-0.2, 1.0),
}
"""(With lexicon, kind of re-ranking) -> default threshold, and its increase, for the log odds of `probabilities`."""
USUAL, SMALLEST = 20_000, 5_000  # sentences of the default threshold; smaller collections count as the smallest
WEIGHTS = {"reranker": 1.5, "scorer": 0.5}  # weight of the re-ranking scores; the margin's is 1
DOUBT = 0.09  # distance below the threshold of the margin `quarter` down to which pairs are re-ranked
RERANKED, LOOKED_AT, RISE = 1.6, 0.635, 0.23
"""At a threshold of 1.6, the re-ranker scores pairs with a margin `quarter` of at least 0.635. This minimum rises by
0.23 when the threshold rises by 1. Most pairs below it that would pass are wrong (decision 040)."""
CONTEST = 0.006
"""Pairs whose margin is further below the best pair of one of their sentences are not re-ranked (decision 040)."""
MARGINS = ("auto", "regression", *FLOORS)
OURS = ("regression", "quarter")  # margins that need `language_offset`; the published ones use the vectors unchanged
RERANK = ("auto", "none", "words", "reranker")


def usual_threshold(margin: str, look: str, source: int, target: int, lexicon: bool = False) -> float | None:
    """Return the default threshold for two collections; None if it was never measured (docs/how-to/mine-sentences.md).

    The number of wrong pairs that reach a score by chance grows with the product of both sizes. It falls by a constant
    factor with each step of the score. So for a constant number of mates, the threshold grows with the logarithm of
    the product. It grows half as fast if mates grow with the collections. `THRESHOLDS` are between both.

    Args:
        margin: Name of the margin, one of `MARGINS` but "auto".
        look: Kind of re-ranking, one of `RERANK` but "auto", or "scorer".
        source: Number of source sentences.
        target: Number of target sentences.
        lexicon: Whether the regression uses the lexicon.
    """
    threshold = REGRESSION_THRESHOLDS[lexicon, look] if margin == "regression" else THRESHOLDS.get((margin, look))
    if threshold is None:
        return None
    usual, growth = threshold
    value = usual + growth * _relative_size(source, target)
    return 1 / (1 + exp(-value)) if margin == "regression" else value


def least_promising(source: int, target: int) -> float:
    """Return the probability from which the words of a pair are compared by their vectors.

    It grows with the numbers of source and target sentences, as the default threshold does.
    """
    return 1 / (1 + exp(-PROMISING - _relative_size(source, target)))


def _relative_size(source: int, target: int) -> float:
    """Return the logarithm of the size of two collections, in sentences, relative to `USUAL`."""
    return log(max(SMALLEST, sqrt(source * target)) / USUAL)


class SentenceEncoder(Protocol):
    """Protocol of an encoder of sentences, such as `phrasemate.Model`; ``hash`` identifies its vectors."""

    @property
    def hash(self) -> str: ...

    @property
    def width(self) -> int: ...

    def encode_sentences(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode sentences: (texts, width) float32 of unit length."""


@dataclass(frozen=True, slots=True)
class Mining:
    """Settings of the mining.

    Args:
        k: Number of neighbours in each direction.
        margin: Score of a pair: "regression" (`probabilities`), or a margin of `candidates`. "auto" is "quarter" with
            the re-ranker or a scorer, else "regression". For these two, `language_offset` is subtracted from the source
            vectors.
        threshold: Minimum score. None takes it from the calibration, or the default of the margins "regression",
            "quarter" and "ratio" (`usual_threshold`).
        pairing: How pairs are chosen (`one_to_one`).
        length_ratio: Maximum deviation of a pair's length ratio from the usual one (`length_deviations`); None for no
            limit.
        copies: Similarity in letters above which a pair is dropped as a copy (`is_copy`); None for no limit.
        languages: Codes of both languages, "" if unknown.
        check: How the languages of sentences are checked (`checker`).
        engine: How neighbours are searched (`engine_for`).
        rerank: How promising pairs are scored again: "words" (`WordMatch`, for the margin "regression"), "reranker"
            (`Attention` with the re-ranker of the bundled encoder, its scores divided by their maximum), or "none".
            "auto" is "words" for the regression if the model has a trained head, else "none".
        weight: Weight of the second score, where the margin's is 1; None for that of `WEIGHTS`.
        lexicon: Whether the regression compares words by the bundled lexicon (`LexiconMatch`), if it has both
            languages. An unknown language is identified from a sample of sentences.

    Raises InputError for invalid values.
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
    rerank: str = "auto"
    weight: float | None = None
    lexicon: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        check_language_pair(self.languages)
        words = {"margin": MARGINS, "pairing": PAIRING, "check": CHECKS, "engine": ENGINES, "rerank": RERANK}
        for name, choices in words.items():
            if getattr(self, name) not in choices:
                raise InputError(f"{name} {getattr(self, name)!r}; expected one of {', '.join(choices)}")
        if self.margin == "regression" and self.rerank == "reranker":
            raise InputError("margin 'regression' and rerank 'reranker'; the re-ranker needs another margin")
        if self.margin not in ("auto", "regression") and self.rerank == "words":
            raise InputError(f"margin {self.margin!r} and rerank 'words'; it needs the margin 'regression'")
        if self.k < 1:
            raise InputError(f"k {self.k}; expected 1 or more neighbours")
        if self.length_ratio is not None and not self.length_ratio > 1:
            raise InputError(f"length ratio {self.length_ratio}; expected more than 1, or none")
        if self.copies is not None and not 0 < self.copies <= 1:
            raise InputError(f"copies {self.copies}; expected a share above 0 and up to 1, or none")


class Mate(NamedTuple):
    """Pair of sentences that are translations of each other, with all their places.

    ``cosine`` is that of the compared vectors, after the subtraction of `language_offset` if there was one.

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
    """Counts and times of a mining run.

    Args:
        source: Numbers of source sentences.
        target: Numbers of target sentences.
        candidates: Number of pairs of neighbours.
        unlike: Candidates dropped for their lengths.
        promising: Remaining candidates with a high enough margin.
        copies: Promising pairs dropped as copies; the others were re-ranked.
        pairs: Chosen pairs with a score of at least ``threshold``.
        threshold: Minimum score of a pair.
        rerank: Kind of re-ranking: one of `RERANK`, or "scorer".
        calibration: Calibration on known pairs; None without known pairs.
        engine: Engine of the search, "exact" or "approximate".
        recall: Recall of the search in each direction, on a sample, against exact search; 1 for exact search.
        lexicon: Both languages if the lexicon compared words, else empty.
        seconds: Time of each stage of this run.
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

SLACK = 8  # characters added to both lengths, as the ratio varies more for short sentences
_GRAM = 3  # characters of an n-gram
_LEAST_KNOWN = 20  # minimum number of known pairs for a calibration
_SURE = 0.5  # minimum share of known pairs above a threshold from which the number of mates is estimated


class Candidates(NamedTuple):
    """Candidate pairs as columns (n,), highest score first: sentence numbers, cosines, scores, length deviations.

    ``length`` (`length_deviations`) is 0 until it is computed.
    """

    source: Ids
    target: Ids
    cosine: Floats
    score: Floats
    length: Floats

    def numbers(self) -> Iterator[tuple[int, int]]:
        """Iterate over the pairs of sentence numbers."""
        return zip(self.source.tolist(), self.target.tolist(), strict=True)

    def with_scores(self, scores: Floats) -> Candidates:
        """Replace the scores, (n,), and sort the pairs by them; equal scores keep their order."""
        return self._replace(score=scores).only(np.argsort(-scores, kind="stable"))

    def only(self, mask: NDArray[np.bool_] | NDArray[np.int64] | slice) -> Candidates:
        """Select pairs by a mask, row numbers or a slice."""
        return Candidates._make(column[mask] for column in self)


def candidates(forward: Run, backward: Run, how: str = "ratio", floor: float = -np.inf) -> Candidates:
    """Score by margin all pairs in which one sentence is a neighbour of the other (Artetxe and Schwenk, ACL 2019).

    Pairs with equal scores are in the order of the sentences.

    Args:
        forward: The k nearest target sentences of each source sentence.
        backward: The k nearest source sentences of each target sentence.
        how: Name of the margin (`phrasemate.utils.margin.margin_of`).
        floor: Minimum score.
    """
    forward_means, backward_means = (neighbourhood(run, run.ids.shape[1]) for run in (forward, backward))
    source, target, cosine = neighbour_pairs(forward, backward)
    score = margin_of(cosine, forward_means[source], backward_means[target], how)
    order = np.argsort(-score, kind="stable")
    order = order[: np.searchsorted(-score[order], -floor, "right")]
    pairs = Candidates(source.astype(np.int32), target.astype(np.int32), cosine, score, np.zeros_like(score))
    return pairs.only(order)


def contested(pairs: Candidates, gap: float) -> Candidates:
    """Select the pairs whose score is at most ``gap`` below the best pair of each of their two sentences."""
    best = np.full(len(pairs.score), -np.inf, np.float32)
    for side in (pairs.source, pairs.target):
        best_of_sentence = np.full(int(side.max(initial=-1)) + 1, -np.inf, np.float32)
        np.maximum.at(best_of_sentence, side, pairs.score)
        np.maximum(best, best_of_sentence[side], out=best)
    return pairs.only(best - pairs.score <= np.float32(gap))


def one_to_one(pairs: Candidates, pairing: str = "greedy") -> NDArray[np.int64]:
    """Choose pairs in which no sentence is repeated; returns row numbers, ascending.

    A higher minimum score gives the first part of the same choice, because the pairs are sorted by score.

    Args:
        pairs: Candidate pairs, highest score first.
        pairing: "greedy": go through the pairs and take each whose sentences are both unused. "mutual": pairs that are
            the best of both their sentences. "all": every pair, also with repeated sentences.

    Raises InputError for another pairing.
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
    """Return how far each pair's length ratio is from the usual one: (pairs,) |log ratio - usual|, ln 2 for a factor 2.

    The usual log ratio is the median over the pairs that are the best of both their sentences. ``source`` and
    ``target`` are the lengths of all sentences in characters.
    """
    ratio = np.log((target[pairs.target] + SLACK) / (source[pairs.source] + SLACK))
    mutual = one_to_one(pairs, "mutual")
    usual = float(np.median(ratio[mutual])) if len(mutual) else 0.0
    return np.abs(ratio - usual).astype(np.float32)


REGRESSION = {
    (False, False): (-53.551, (77.394, 15.033, -1.677)),
    (True, False): (-52.927, (76.442, 9.144, -1.983, 34.165)),
    (False, True): (-59.498, (81.043, 7.422, -1.457, 4.687, 2.871)),
    (True, True): (-45.796, (60.921, 7.441, -1.726, 18.457, 4.342, 1.948)),
}
"""(With lexicon, with `match_features`) -> bias and weights of the features (`bench/mine.py --fit`)."""
AHEAD = 0.2  # maximum lead of a pair over the next one, for each of its sentences
WORDS = 0.1  # weight of the lexicon's score, where the margin's is 1
MATCH_AHEAD = 0.5  # maximum lead of the worst match of words
PROMISING = -4.0  # log odds, for `USUAL` sentences, from which the words of a pair are compared by their vectors


def pair_features(pairs: Candidates, match: Floats | None = None) -> Floats:
    """Compute the features of pairs scored by the margin `quarter`: (pairs, 3), or (pairs, 4) with ``match``.

    The features are the margin, the lead of the cosine, and the length deviation. The fourth is the lead of the sum
    margin + `WORDS` x match, minus the lead of the cosine. A lead is the distance to the best other pair of the source
    sentence plus that for the target sentence, each at most `AHEAD` (`lead`).

    ``match``: scores of `LexiconMatch`, (pairs,); None without a lexicon.
    """

    def ahead(values: Floats) -> Floats:
        return lead(pairs.source, pairs.target, values, values - np.float32(AHEAD))

    columns = [pairs.score, ahead(pairs.cosine), pairs.length]
    if match is not None:
        columns.append(ahead(pairs.score + np.float32(WORDS) * match) - columns[1])
    return np.column_stack(columns)


def match_features(pairs: Candidates, match: Floats) -> Floats:
    """Return scores of `WordMatch` (pairs,) with their lead over rival pairs, at most `MATCH_AHEAD`: (pairs, 2)."""
    return np.column_stack([match, lead(pairs.source, pairs.target, match, match - np.float32(MATCH_AHEAD))])


def probabilities(features: Floats, lexicon: bool, looked_at: bool = False) -> Floats:
    """Estimate the probability that a pair is correct by logistic regression, (pairs,).

    The weights were fitted to collections in which 3 or 20 percent of the sentences have a mate. The probabilities are
    too low if more sentences have one.

    Args:
        features: `pair_features`, followed by `match_features` if ``looked_at``, (pairs, features).
        lexicon: Whether the lexicon's score is among the features.
        looked_at: Whether `match_features` are among them.
    """
    bias, weights = REGRESSION[lexicon, looked_at]
    log_odds = features.astype(np.float64) @ np.array(weights) + bias
    values: Floats = (1 / (1 + np.exp(-log_odds))).astype(np.float32)
    return values


def is_copy(source: str, target: str, most: float) -> bool:
    """Whether two texts have nearly the same letters and digits.

    The Dice coefficient of their sets of character trigrams is compared with ``most``. Case, spaces and punctuation
    are ignored.
    """
    source_text, target_text = (_bare(text) for text in (source, target))
    if source_text == target_text:
        return True
    grams = {source_text[i : i + _GRAM] for i in range(len(source_text) - _GRAM + 1)}
    target_grams = {target_text[i : i + _GRAM] for i in range(len(target_text) - _GRAM + 1)}
    return 2 * len(grams & target_grams) > most * (len(grams) + len(target_grams))


def _bare(text: str) -> str:
    """Keep the letters and digits of a text, case-folded."""
    return "".join(filter(str.isalnum, plain(text).casefold()))


@dataclass(frozen=True, slots=True)
class Calibration:
    """Threshold fitted to known pairs, with the expected precision, recall and F1, from 0 to 1.

    ``known`` pairs were hidden in the collections, and ``found`` of them reach the threshold. ``mates`` is the
    estimated number of other mates in the collections.

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
    """Raise InputError for too few known pairs to calibrate with."""
    if pairs < _LEAST_KNOWN:
        raise InputError(f"{pairs} pairs to calibrate with; expected {_LEAST_KNOWN} or more")


def calibrate(chosen: Candidates, pairs: Sequence[tuple[int, int]]) -> Calibration:
    """Find the threshold with the highest expected F1, assuming that the known pairs are like the other mates.

    The D known pairs give r(t), the share of mates that are found at the threshold t. Of the N(t) chosen pairs without
    a known sentence, it is unknown which are right. At high thresholds nearly all of them are. So the number of other
    mates is about M = min N(t) / r(t), over the thresholds with r(t) >= 0.5. With W(t) chosen pairs that have a known
    sentence and a wrong mate,

        precision(t) = (M + D) r(t) / (N(t) + D r(t) + W(t)),  recall(t) = r(t).

    Args:
        chosen: Chosen pairs at the lowest threshold, highest score first.
        pairs: Sentence numbers of the known pairs.

    Raises InputError for fewer than 20 known pairs, or if none is found.
    """
    check_known(len(pairs))
    right, is_touched = _known_flags(chosen, pairs)
    known_counts = np.cumsum(right)  # D r(t), with the threshold at each pair's score
    if not len(known_counts) or not known_counts[-1]:
        raise InputError("none of the pairs to calibrate with was found; check that source and target are not swapped")
    wrong_counts, stranger_counts = np.cumsum(is_touched & ~right), np.cumsum(~is_touched)
    recall = known_counts / len(pairs)
    sure = (recall >= min(_SURE, recall[-1])) & right
    mates = float((stranger_counts[sure] / recall[sure]).min())
    total = np.maximum(stranger_counts + known_counts + wrong_counts, 1)
    precision = np.minimum((mates + len(pairs)) * recall / total, 1.0)
    last = np.append(np.diff(chosen.score) != 0, True)  # a threshold includes all pairs with an equal score
    f1 = np.where(last, 2 * precision * recall / np.maximum(precision + recall, 1e-12), -1)
    best = int(np.argmax(f1))
    figures = float(precision[best]), float(recall[best]), float(f1[best])
    return Calibration(float(chosen.score[best]), *figures, len(pairs), int(known_counts[best]), round(mates))


def _known_flags(chosen: Candidates, known_pairs: Sequence[tuple[int, int]]) -> tuple[Flags, Flags]:
    """Return (pairs,) whether each chosen pair is a known one, and whether it has a sentence of one."""
    pairs = set(known_pairs)
    sources, targets = {s for s, _ in known_pairs}, {t for _, t in known_pairs}
    right = np.array([pair in pairs for pair in chosen.numbers()], bool)
    is_touched = np.array([s in sources or t in targets for s, t in chosen.numbers()], bool)
    return right, is_touched

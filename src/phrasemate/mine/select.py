"""From neighbours to mates: margins, filters, one-to-one pairs, and the threshold that suits known pairs.

A second look compares the words of a pair (`WordMatch`). Sentence vectors hardly tell "Dutch language package" from
"Estonian language package"; word vectors do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from phrasemate.align import Worded
from phrasemate.align.neural import word_vectors
from phrasemate.encode import Model
from phrasemate.encode.pooling import unit
from phrasemate.errors import InputError
from phrasemate.mine.collection import CHECKS, Counts, Place
from phrasemate.rank import MARGINS, margin_of, neighbour_pairs, neighbourhood
from phrasemate.text.normalize import plain
from phrasemate.types import PhrasePair, Run
from phrasemate.utils.knn import ENGINES

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much is done, and of how much (0: not known)."""

FLOORS = {
    "absolute": 0.0,
    "csls": 0.0,
    "distance": 0.0,
    "quarter": 0.0,
    "ratio": 1.0,
}  # below it a pair is nearer to others
THRESHOLDS = {
    ("quarter", ""): (0.605, 0.025),
    ("quarter", "words"): (0.91, 0.045),
    ("quarter", "reranker"): (1.6, 0.06),
    ("ratio", ""): (1.125, 0.015),
}
"""Of a margin and what looks at pairs again: the default for `USUAL` sentences, and its growth for e times as many."""
USUAL, SMALLEST = 20_000, 5_000  # below the smallest the threshold stays
WEIGHTS = {"words": 0.5, "reranker": 1.5, "scorer": 0.5}  # of a second look's scores beside the margin
DOUBT = 0.065  # below the threshold without a second look, of the margin: from there on pairs are looked at again
RERANK = ("auto", "reranker", "words", "none")


def usual_threshold(margin: str, look: str, source: int, target: int) -> float | None:
    """The default for collections of so many sentences; None where it was not measured (docs/how-to/mine-sentences.md).

    The number of wrong pairs that reach a score by chance grows with the product of both sizes, and falls by the same
    factor with each step of the score. So the threshold grows with the logarithm of the product. Half as quickly where
    there are the more mates the more sentences there are; `THRESHOLDS` lie between that and always as many.
    """
    threshold = THRESHOLDS.get((margin, look.removeprefix("none")))
    if threshold is None:
        return None
    usual, growth = threshold
    return usual + growth * log(max(SMALLEST, sqrt(source * target)) / USUAL)


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
        margin, pairing: See `margin_of` and `one_to_one`.
        threshold: The least score; None: what calibration says, or the default of the margins `quarter` and `ratio`
            (`usual_threshold`).
        length_ratio, copies: See `length_filter` and `is_copy`; None: no such filter.
        languages: Codes, or ""; with ``check``: see `checker`.
        engine: See `engine_for`.
        rerank: How promising pairs are looked at again: by the `reranker` that comes with the bundled encoder
            (`Attention`, its scores divided by the highest there can be), by `words` (`WordMatch`), or not. `auto`: by
            the re-ranker where it belongs to the model, else by words where the model has them.
        weight: How often its scores count beside the margin; None: as in `WEIGHTS`.
    """

    k: int = 4  # Artetxe and Schwenk (2019), section 4.1
    margin: str = "quarter"
    threshold: float | None = None
    pairing: str = "greedy"
    length_ratio: float | None = 2.5
    copies: float | None = 0.75
    languages: tuple[str, str] = ("", "")
    check: str = "script"
    engine: str = "auto"
    rerank: str = "auto"
    weight: float | None = None

    def __post_init__(self) -> None:
        words = {"margin": MARGINS, "pairing": PAIRING, "check": CHECKS, "engine": ENGINES, "rerank": RERANK}
        for name, choices in words.items():
            if getattr(self, name) not in choices:
                raise InputError(f"{name} {getattr(self, name)!r}; expected one of {', '.join(choices)}")
        if self.k < 1:
            raise InputError(f"k {self.k}; expected 1 or more neighbours")
        if self.length_ratio is not None and not self.length_ratio > 1:
            raise InputError(f"length ratio {self.length_ratio}; expected more than 1, or none")
        if self.copies is not None and not 0 < self.copies <= 1:
            raise InputError(f"copies {self.copies}; expected a share above 0 and up to 1, or none")


class Mate(NamedTuple):
    """A sentence and its mate, with all places where each stands.

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
    seconds: dict[str, float]


PAIRING = ("greedy", "mutual", "all")
Ids = NDArray[np.int32]
Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]

SLACK = 8  # characters added to both lengths: short sentences differ more
_GRAM = 3
_LEAST_KNOWN = 20  # pairs that a threshold is fitted to
_SURE = 0.5  # of the known pairs that must be above a threshold for it to tell how many mates there are


class Candidates(NamedTuple):
    """Pairs by score, highest first: (n,) numbers of source and target sentences, cosines, scores."""

    source: Ids
    target: Ids
    cosine: Floats
    score: Floats

    def added(self, more: Floats) -> Candidates:
        """With ``more`` (n,) added to the scores, in the new order."""
        new_scores = self._replace(score=self.score + more)
        return new_scores.only(np.argsort(-new_scores.score, kind="stable"))

    def only(self, mask: NDArray[np.bool_] | NDArray[np.int64]) -> Candidates:
        return Candidates(self.source[mask], self.target[mask], self.cosine[mask], self.score[mask])


def candidates(forward: Run, backward: Run, how: str = "ratio", floor: float = -np.inf) -> Candidates:
    """Pairs of which one is among the neighbours of the other, scored by margin, those below ``floor`` left out.

    ``forward`` has the k nearest targets of each source sentence, ``backward`` the other way round. Artetxe and
    Schwenk (ACL 2019), section 3; equal scores in the order of the sentences.
    """
    forward_means, backward_means = (
        neighbourhood(forward, forward.ids.shape[1]),
        neighbourhood(backward, backward.ids.shape[1]),
    )
    source, target, cosine = neighbour_pairs(forward, backward)
    score = margin_of(cosine, forward_means[source], backward_means[target], how)
    order = np.argsort(-score, kind="stable")
    order = order[: np.searchsorted(-score[order], -floor, "right")]
    return Candidates(source[order].astype(np.int32), target[order].astype(np.int32), cosine[order], score[order])


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
    best = [np.zeros(len(numbers), bool), np.zeros(len(numbers), bool)]
    for flags, side in zip(best, (pairs.source, pairs.target), strict=True):
        flags[np.unique(side, return_index=True)[1]] = True
    if pairing == "mutual":
        return numbers[best[0] & best[1]]
    return _greedy(pairs)


def _greedy(pairs: Candidates) -> NDArray[np.int64]:
    sources, targets = bytearray(int(pairs.source.max()) + 1), bytearray(int(pairs.target.max()) + 1)
    pair_rows = []
    for number, (source, target) in enumerate(zip(pairs.source.tolist(), pairs.target.tolist(), strict=True)):
        if not sources[source] and not targets[target]:
            sources[source] = targets[target] = 1
            pair_rows.append(number)
    return np.array(pair_rows, np.int64)


def length_filter(pairs: Candidates, source: NDArray[np.int32], target: NDArray[np.int32], most: float) -> Flags:
    """Tell which pairs are no more than ``most`` times as long on one side as on the other, in characters.

    What is usual between the two languages is taken off first: the median ratio of the pairs that are the best of
    both their sentences. ``source`` and ``target`` are the lengths of all sentences.
    """
    ratio = np.log((target[pairs.target] + SLACK) / (source[pairs.source] + SLACK))
    mutual = one_to_one(pairs, "mutual")
    usual = float(np.median(ratio[mutual])) if len(mutual) else 0.0
    return np.abs(ratio - usual) <= np.log(most)  # type: ignore[no-any-return]


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
    """A threshold fitted to known pairs, and the precision, recall and F1 to expect with it, from 0 to 1.

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


def calibrate(chosen: Candidates, pairs: Sequence[tuple[int, int]]) -> Calibration:
    """The threshold with the highest expected F1, from the pairs that were chosen and those that are known to be right.

    The known pairs D give the share r(t) of mates at or above t that are found. Other chosen pairs N(t) are right or
    wrong, nobody knows which. But at high thresholds nearly all are right. So the number of other mates is about
    M = min N(t) / r(t) over the thresholds with r(t) >= 0.5. With W(t) pairs of a sentence of D and a wrong mate,

        precision(t) = (M + D) r(t) / (N(t) + D r(t) + W(t)),  recall(t) = r(t).

    It stands on the known pairs being like the others. Raises InputError for fewer than 20 pairs, or if none is found.
    """
    if len(pairs) < _LEAST_KNOWN:
        raise InputError(f"{len(pairs)} pairs to calibrate with; expected {_LEAST_KNOWN} or more")
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
    place_pairs = list(zip(chosen.source.tolist(), chosen.target.tolist(), strict=True))
    right = np.array([pair in pairs for pair in place_pairs], bool)
    is_touched = np.array([s in sources or t in targets for s, t in place_pairs], bool)
    return right, is_touched


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
            vectors = word_vectors(self._model, [Worded.of(text) for text in block], None, "head")
            vectors_of |= zip(block, map(unit, vectors), strict=True)
        return vectors_of


def low_quarter(cosines: Floats) -> float:
    """(words, words) -> the mean of the lowest quarter of the best matches, averaged over both sides."""
    if not cosines.size:
        return 0.0
    sides = (np.sort(cosines.max(axis)) for axis in (0, 1))
    return float(np.mean([best[: max(1, len(best) // 4)].mean() for best in sides]))

"""From neighbours to mates: margins, filters, one-to-one, and the threshold that suits pairs which are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.rank import margin_of, neighbourhood
from phrasemate.text.normalize import plain
from phrasemate.types import Run

PAIRING = ("greedy", "mutual", "all")
Ids = NDArray[np.int32]
Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]

SLACK = 8  # characters added to both lengths: short sentences differ more
_GRAM = 3
_LEAST_KNOWN = 20  # pairs that a threshold is fitted to
_SURE = 0.5  # of the known pairs that must be above a threshold for it to tell how many mates there are


class Candidates(NamedTuple):
    """Pairs by falling score: (n,) numbers of source and target sentences, cosines, scores."""

    source: Ids
    target: Ids
    cosine: Floats
    score: Floats

    def added(self, more: Floats) -> Candidates:
        """With ``more`` (n,) added to the scores, in the new order."""
        scored = self._replace(score=self.score + more)
        return scored.only(np.argsort(-scored.score, kind="stable"))

    def only(self, wanted: NDArray[np.bool_] | NDArray[np.int64]) -> Candidates:
        return Candidates(self.source[wanted], self.target[wanted], self.cosine[wanted], self.score[wanted])


def candidates(forward: Run, backward: Run, how: str = "ratio", floor: float = -np.inf) -> Candidates:
    """All pairs of which one is among the neighbours of the other, scored by margin, those below ``floor`` left out.

    ``forward`` has the k nearest targets of each source sentence, ``backward`` the other way round. Artetxe and
    Schwenk (ACL 2019), section 3; equal scores in the order of the sentences.
    """
    width = len(backward.ids)
    own, other = neighbourhood(forward, forward.ids.shape[1]), neighbourhood(backward, backward.ids.shape[1])
    rows = (np.repeat(np.arange(len(run.ids)), run.ids.shape[1]) for run in (forward, backward))
    there = next(rows) * width + forward.ids.ravel(), backward.ids.ravel() * width + next(rows)
    known = forward.ids.ravel() >= 0, backward.ids.ravel() >= 0
    keys = np.concatenate([key[good] for key, good in zip(there, known, strict=True)])
    cosines = np.concatenate([run.scores.ravel()[good] for run, good in zip((forward, backward), known, strict=True)])
    keys, first = np.unique(keys, return_index=True)
    source, target, cosine = keys // max(width, 1), keys % max(width, 1), cosines[first]
    score = margin_of(cosine, own[source], other[target], how)
    order = np.argsort(-score, kind="stable")
    order = order[: np.searchsorted(-score[order], -floor, "right")]
    return Candidates(source[order].astype(np.int32), target[order].astype(np.int32), cosine[order], score[order])


def one_to_one(pairs: Candidates, pairing: str = "greedy") -> NDArray[np.int64]:
    """Which pairs are chosen, in their order. What is chosen at a higher floor is the beginning of it.

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
    chosen = []
    for number, (source, target) in enumerate(zip(pairs.source.tolist(), pairs.target.tolist(), strict=True)):
        if not sources[source] and not targets[target]:
            sources[source] = targets[target] = 1
            chosen.append(number)
    return np.array(chosen, np.int64)


def length_filter(pairs: Candidates, source: NDArray[np.int32], target: NDArray[np.int32], most: float) -> Flags:
    """Which pairs are no more than ``most`` times as long on one side as on the other, in characters.

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
    one, other = (_bare(text) for text in (source, target))
    if one == other:
        return True
    grams = {one[i : i + _GRAM] for i in range(len(one) - _GRAM + 1)}
    others = {other[i : i + _GRAM] for i in range(len(other) - _GRAM + 1)}
    return 2 * len(grams & others) > most * (len(grams) + len(others))


def _bare(text: str) -> str:
    return "".join(filter(str.isalnum, plain(text).casefold()))


@dataclass(frozen=True, slots=True)
class Calibration:
    """A threshold fitted to known pairs, and what they let expect of it: shares from 0 to 1.

    ``known`` pairs were hidden, ``found`` of them are at or above the threshold; ``mates`` is an estimate of how many
    other mates there are in the collections.
    """

    threshold: float
    precision: float
    recall: float
    f1: float
    known: int
    found: int
    mates: int


def calibrate(chosen: Candidates, known: Sequence[tuple[int, int]]) -> Calibration:
    """The threshold with the highest expected F1, from the pairs that were chosen and those that are known to be right.

    The known pairs D give the share r(t) of mates at or above t that are found. Other chosen pairs N(t) are right or
    wrong, nobody knows which; but at high thresholds nearly all are right, so the number of other mates is about
    M = min N(t) / r(t) over the thresholds with r(t) >= 0.5. With W(t) pairs of a sentence of D and a wrong mate,

        precision(t) = (M + D) r(t) / (N(t) + D r(t) + W(t)),  recall(t) = r(t).

    It stands on the known pairs being like the others. Raises InputError for fewer than 20 pairs, or if none is found.
    """
    if len(known) < _LEAST_KNOWN:
        raise InputError(f"{len(known)} pairs to calibrate with; expected {_LEAST_KNOWN} or more")
    right, touched = _recognised(chosen, known)
    found = np.cumsum(right)  # D r(t), at each pair as the last that is taken
    if not len(found) or not found[-1]:
        raise InputError("none of the pairs to calibrate with was found; check that both languages are the right way")
    wrong, others = np.cumsum(touched & ~right), np.cumsum(~touched)
    recall = found / len(known)
    sure = (recall >= min(_SURE, recall[-1])) & right
    mates = float((others[sure] / recall[sure]).min())
    taken = np.maximum(others + found + wrong, 1)
    precision = np.minimum((mates + len(known)) * recall / taken, 1.0)
    last = np.append(np.diff(chosen.score) != 0, True)  # of equal scores, only the last is a threshold
    f1 = np.where(last, 2 * precision * recall / np.maximum(precision + recall, 1e-12), -1)
    best = int(np.argmax(f1))
    figures = float(precision[best]), float(recall[best]), float(f1[best])
    return Calibration(float(chosen.score[best]), *figures, len(known), int(found[best]), round(mates))


def _recognised(chosen: Candidates, known: Sequence[tuple[int, int]]) -> tuple[Flags, Flags]:
    """Of each chosen pair: is it a known one; has it a sentence of a known one."""
    pairs = set(known)
    sources, targets = {s for s, _ in known}, {t for _, t in known}
    both = list(zip(chosen.source.tolist(), chosen.target.tolist(), strict=True))
    right = np.array([pair in pairs for pair in both], bool)
    touched = np.array([s in sources or t in targets for s, t in both], bool)
    return right, touched

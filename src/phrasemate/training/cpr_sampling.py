"""CPR, the context-independent baseline of CCPR: a phrase's mate is the same phrase pair in another sentence pair.

A batch holds source sentences and, for each, the target sentence of another pair in which one of its phrases is
translated with the same words; all phrase pairs that both sentence pairs have in common are positives.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.training.phrase_pair_data import Example, PairFile

Wording = tuple[str, str]


class CprSampling:
    """Finds sentence pairs with a phrase pair in common: 16 bytes a phrase pair, in order of wording.

    ``held`` (rows, 2): (file, row) of what is not to be used.
    """

    def __init__(self, files: Sequence[PairFile], held: NDArray[np.int64], seed: int) -> None:
        self.files = files
        left_out = {(f, r) for f, r in held.tolist()}
        hashes: list[int] = []
        places: list[int] = []
        for number, file in enumerate(files):
            for row in range(len(file)):
                if (number, row) not in left_out:
                    own = {_hash(wording) for wording in _wordings(file[row])}
                    hashes += own
                    places += [number << 40 | row] * len(own)
        order = np.argsort(np.array(hashes, np.uint64), kind="stable")
        keys = np.array(hashes, np.uint64)[order]
        self._places = np.array(places, np.int64)[order]
        starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        counts = np.diff(np.concatenate([starts, [len(keys)]]))
        self._starts, self._counts = starts[counts > 1], counts[counts > 1]  # phrase pairs that occur again
        if not len(self._starts):
            raise InputError("no phrase pair occurs in two sentence pairs; give more text")

    def examples(self, count: int, draw: random.Random) -> list[Example]:
        """Crossed sentence pairs, each from a phrase pair drawn at random; the files come as they may."""
        found: list[Example] = []
        while len(found) < count:
            kind = draw.randrange(len(self._starts))
            start = int(self._starts[kind])
            a, b = (int(self._places[start + i]) for i in draw.sample(range(int(self._counts[kind])), 2))
            example = crossed(self._fetch(a), self._fetch(b))
            if example.pairs:  # two wordings may share a hash
                found.append(example)
        return found

    def _fetch(self, place: int) -> Example:
        return self.files[place >> 40][place & ((1 << 40) - 1)]


def crossed(left: Example, right: Example) -> Example:
    """The source of one and the target of the other, with the phrase pairs whose wording they share."""
    targets: dict[Wording, tuple[int, int]] = {}
    for wording, pair in zip(_wordings(right), right.pairs, strict=True):
        targets.setdefault(wording, pair[2:])
    sources: dict[Wording, tuple[int, int]] = {}
    for wording, pair in zip(_wordings(left), left.pairs, strict=True):
        if wording in targets:
            sources.setdefault(wording, pair[:2])
    return Example(left.source, right.target, [(*span, *targets[wording]) for wording, span in sources.items()])


def _wordings(example: Example) -> list[Wording]:
    return [(example.source[a:b].casefold(), example.target[c:d].casefold()) for a, b, c, d in example.pairs]


def _hash(wording: Wording) -> int:
    content = "\t".join(wording).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")

"""Bilingual lexicon induction: how often the nearest word of the other language is a translation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.utils.knn import csls_penalties, nearest
from phrasemate.vectors.lexicon import Lexicon
from phrasemate.vectors.word_vectors import WordVectors

NEIGHBOURS = 10  # k of CSLS (Conneau et al. 2018, section 2.3)


@dataclass(frozen=True, slots=True)
class Induction:
    """What came of it: ``words`` that were asked, ``missing`` ones without a vector (or whose translations all lack
    one); of those asked, in the order of the lexicon, whether the first was right by ``nearest`` neighbour and by
    ``csls`` (words,) bool.
    """

    words: tuple[str, ...]
    missing: int
    nearest: NDArray[np.bool_]
    csls: NDArray[np.bool_]

    def as_dict(self) -> dict[str, float]:
        """Counts and accuracies at 1: the share of right words among those asked."""
        return {
            "words": len(self.words),
            "missing": self.missing,
            "acc@1 nearest": float(self.nearest.mean()),
            "acc@1 csls": float(self.csls.mean()),
        }


def induce(source: WordVectors, target: WordVectors, lexicon: Lexicon, k: int = NEIGHBOURS) -> Induction:
    """Ask for each source word of the lexicon the nearest of all target words, by cosine and by CSLS.

    Right is any of its translations there. CSLS takes the hubs from all words of both sides. Raises InputError if the
    vectors differ in length, no pair of the lexicon has both, or ``k`` is below 1.
    """
    gold: dict[str, set[int]] = {}
    for word, translation in lexicon:
        gold.setdefault(word, set())
        if word in source.index and translation in target.index:
            gold[word].add(target.index[translation])
    words = tuple(word for word, right in gold.items() if right)
    if not words:
        raise InputError(
            f"none of the {len(lexicon):,} pairs of the lexicon has both its words among the vectors; "
            "check its languages, its columns and its case"
        )
    x, z = source.normalised().matrix, target.normalised().matrix
    asked = x[source.rows(words)]
    answers = (nearest(asked, z)[0], nearest(asked, z, penalties=csls_penalties(x, z, k))[0])
    right = [np.array([int(row[0]) in gold[word] for word, row in zip(words, rows, strict=True)]) for rows in answers]
    return Induction(words, len(gold) - len(words), *right)

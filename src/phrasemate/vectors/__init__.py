"""Word vectors: read them, distil them from an encoder, learn them from text, and map them into one space."""

from __future__ import annotations

from phrasemate.utils.knn import nearest, neighbour_means
from phrasemate.utils.margin import csls_penalties
from phrasemate.vectors.alignment import (
    METHODS,
    LearnedDictionary,
    MappedVectors,
    SelfLearning,
    map_supervised,
    map_unsupervised,
    procrustes,
    symmetric_maps,
)
from phrasemate.vectors.bilingual_lexicon import Induction, entries, induce, pair_rows, read_lexicon
from phrasemate.vectors.distill import DistilSettings, cover, distil, learn_projection, mean_states, project
from phrasemate.vectors.vocabulary import Sentences, tokens
from phrasemate.vectors.word_vectors import Projection, WordVectors, read_fasttext, write_fasttext

__all__ = [
    "METHODS",
    "DistilSettings",
    "Induction",
    "LearnedDictionary",
    "MappedVectors",
    "Projection",
    "SelfLearning",
    "Sentences",
    "WordVectors",
    "cover",
    "csls_penalties",
    "distil",
    "entries",
    "induce",
    "learn_projection",
    "map_supervised",
    "map_unsupervised",
    "mean_states",
    "nearest",
    "neighbour_means",
    "pair_rows",
    "procrustes",
    "project",
    "read_fasttext",
    "read_lexicon",
    "symmetric_maps",
    "tokens",
    "write_fasttext",
]

"""Static word vectors: read, distilled from an encoder or learnt from text; two languages mapped into one space."""

from __future__ import annotations

from phrasemate.utils.knn import csls_penalties, nearest, neighbour_means
from phrasemate.vectors.alignment import METHODS, Mapped, map_supervised, map_unsupervised
from phrasemate.vectors.distill import DistilSettings, distil, learn_projection, mean_states, project
from phrasemate.vectors.fasttext import read_fasttext, write_fasttext
from phrasemate.vectors.induction import Induction, induce
from phrasemate.vectors.lexicon import entries, pair_rows, read_lexicon
from phrasemate.vectors.oov import cover
from phrasemate.vectors.procrustes import procrustes, symmetric_maps
from phrasemate.vectors.vecmap import Learnt, SelfLearning
from phrasemate.vectors.vocabulary import Sentences, tokens
from phrasemate.vectors.word_vectors import Projection, WordVectors

__all__ = [
    "METHODS",
    "DistilSettings",
    "Induction",
    "Learnt",
    "Mapped",
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

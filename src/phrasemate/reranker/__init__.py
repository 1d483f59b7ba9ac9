"""A second look at sentence pairs: cross-attention over the encoder's token states, trained by ``train reranker``."""

from __future__ import annotations

from phrasemate.reranker.folder import Trained, bundled_reranker, load_reranker, save_reranker
from phrasemate.reranker.network import Network, Read
from phrasemate.reranker.scorer import Attention, both_ways, load_attention, mates

__all__ = [
    "Attention",
    "Network",
    "Read",
    "Trained",
    "both_ways",
    "bundled_reranker",
    "load_attention",
    "load_reranker",
    "mates",
    "save_reranker",
]

"""Turn text into vectors: models, pooling and segmentation, without torch."""

from __future__ import annotations

from phrasemate.encode.model import Model, TextPhrases, load_model
from phrasemate.encode.model_folder import bundled_folder
from phrasemate.encode.pooling import POOLINGS
from phrasemate.encode.segmenter import (
    FrequentWords,
    LearnedSegmenter,
    NgramSegmenter,
    Segmenter,
    SegmentOptions,
    Spans,
)

__all__ = [
    "POOLINGS",
    "FrequentWords",
    "LearnedSegmenter",
    "Model",
    "NgramSegmenter",
    "SegmentOptions",
    "Segmenter",
    "Spans",
    "TextPhrases",
    "bundled_folder",
    "load_model",
]

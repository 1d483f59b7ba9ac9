"""Turn text into vectors: models, pooling and segmentation, without torch."""

from __future__ import annotations

from phrasemate.encode.model import Extracted, Model, load_model
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
    "Extracted",
    "FrequentWords",
    "LearnedSegmenter",
    "Model",
    "NgramSegmenter",
    "SegmentOptions",
    "Segmenter",
    "Spans",
    "bundled_folder",
    "load_model",
]

"""Text -> vectors: the model folder, the torch-free runtime, pooling and segmentation."""

from __future__ import annotations

from phrasemate.encode.folder import bundled_folder
from phrasemate.encode.learned import LearnedSegmenter
from phrasemate.encode.model import Extracted, Model, load_model
from phrasemate.encode.pool import POOLINGS
from phrasemate.encode.segment import FrequentWords, NgramSegmenter, Segmenter, SegmentOptions, Spans

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

"""Text -> vectors: the model folder, the torch-free runtime, pooling and segmentation."""

from __future__ import annotations

from phrasemate.encode.folder import bundled_folder
from phrasemate.encode.model import POOLINGS, Extracted, Model, load_model
from phrasemate.encode.segment import FrequentWords, NgramSegmenter, Segmenter

__all__ = [
    "POOLINGS",
    "Extracted",
    "FrequentWords",
    "Model",
    "NgramSegmenter",
    "Segmenter",
    "bundled_folder",
    "load_model",
]

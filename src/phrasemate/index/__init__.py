"""Store texts with their phrases and phrase vectors on disk, and search them."""

from __future__ import annotations

from phrasemate.index.base import BaseIndex
from phrasemate.index.index import Index
from phrasemate.index.types import (
    AddReport,
    DocumentInfo,
    IndexSettings,
    IndexStats,
    ProgressEvent,
    TuneReport,
    VerifyReport,
)

__all__ = [
    "AddReport",
    "BaseIndex",
    "DocumentInfo",
    "Index",
    "IndexSettings",
    "IndexStats",
    "ProgressEvent",
    "TuneReport",
    "VerifyReport",
]

Settings = IndexSettings  # former name, still accepted

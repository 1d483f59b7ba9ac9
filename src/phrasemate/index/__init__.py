"""Keep plain text with its phrases and their vectors, and search it."""

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

Settings = IndexSettings  # the former name, which other modules have too

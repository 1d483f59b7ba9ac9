"""The index: plain text kept with its phrases and their vectors, and searched."""

from __future__ import annotations

from phrasemate.index.base import BaseIndex
from phrasemate.index.index import Index
from phrasemate.index.types import (
    AddReport,
    DocumentInfo,
    IndexStats,
    ProgressEvent,
    Settings,
    TuneReport,
    VerifyReport,
)

__all__ = [
    "AddReport",
    "BaseIndex",
    "DocumentInfo",
    "Index",
    "IndexStats",
    "ProgressEvent",
    "Settings",
    "TuneReport",
    "VerifyReport",
]

"""The index: plain text kept with its phrases and their vectors, and searched. docs/index.md explains it."""

from __future__ import annotations

from phrasemate.index.index import Index
from phrasemate.index.tuning import TuneReport
from phrasemate.index.types import AddReport, DocumentInfo, IndexStats, ProgressEvent, Settings, VerifyReport

__all__ = [
    "AddReport",
    "DocumentInfo",
    "Index",
    "IndexStats",
    "ProgressEvent",
    "Settings",
    "TuneReport",
    "VerifyReport",
]

"""Data sets of the WikiXPR form: phrase pairs, each phrase with sentences that it occurs in."""

from __future__ import annotations

from phrasemate.dataset.build import Report, build
from phrasemate.dataset.choose import Settings
from phrasemate.dataset.onepass import SentenceFiles
from phrasemate.dataset.records import SPLITS, ExamplePair, language_pairs, read, write
from phrasemate.dataset.run import Side, build_files
from phrasemate.dataset.texts import Reading

__all__ = [
    "SPLITS",
    "ExamplePair",
    "Reading",
    "Report",
    "SentenceFiles",
    "Settings",
    "Side",
    "build",
    "build_files",
    "language_pairs",
    "read",
    "write",
]

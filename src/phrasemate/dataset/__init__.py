"""Data sets of the WikiXPR form: phrase pairs, each phrase with sentences that it occurs in."""

from __future__ import annotations

from phrasemate.dataset.aho_corasick import SentenceFiles
from phrasemate.dataset.build import Reading, Report, Side, build, build_files
from phrasemate.dataset.split import Settings
from phrasemate.dataset.wikixpr import SPLITS, ExamplePair, import_wikixpr, language_pairs, languages_in, read, write

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
    "import_wikixpr",
    "language_pairs",
    "languages_in",
    "read",
    "write",
]

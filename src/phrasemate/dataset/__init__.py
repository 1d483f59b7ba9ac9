"""Data sets in the form of WikiXPR: phrase pairs, each phrase with sentences that contain it."""

from __future__ import annotations

from phrasemate.dataset.aho_corasick import SentenceFiles
from phrasemate.dataset.build import DatasetReport, Reading, Side, build, build_files
from phrasemate.dataset.split import DatasetSettings
from phrasemate.dataset.wikixpr import (
    SPLITS,
    ExamplePair,
    import_wikixpr,
    language_pairs,
    languages_in,
    read_dataset,
    write,
)

__all__ = [
    "SPLITS",
    "DatasetReport",
    "DatasetSettings",
    "ExamplePair",
    "Reading",
    "SentenceFiles",
    "Side",
    "build",
    "build_files",
    "import_wikixpr",
    "language_pairs",
    "languages_in",
    "read_dataset",
    "write",
]

# Former names, which other modules also use for classes of their own.
Report, Settings, read = DatasetReport, DatasetSettings, read_dataset

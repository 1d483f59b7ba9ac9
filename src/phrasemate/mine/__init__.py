"""Bitext mining: find sentences that are translations of each other in two collections that are not aligned.

>>> from phrasemate import load_model, read
>>> with mine(read("german/", lang="de"), read("english/", lang="en"), load_model()) as mates:  # doctest: +SKIP
...     write_mates("pairs.tsv", mates)
"""

from __future__ import annotations

from phrasemate.mine.collection import Counts, Place
from phrasemate.mine.mining import MiningResult, mine, write_mates
from phrasemate.mine.select import Calibration, Mate, Mining, Report, SentenceEncoder

__all__ = [
    "Calibration",
    "Counts",
    "Mate",
    "Mining",
    "MiningResult",
    "Place",
    "Report",
    "SentenceEncoder",
    "mine",
    "write_mates",
]

Mined = MiningResult  # the former name

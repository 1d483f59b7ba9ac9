"""Parallel text -> word links -> phrase pairs."""

from __future__ import annotations

from phrasemate.align.eflomal import EflomalAligner
from phrasemate.align.files import PhraseSettings, Report, align_files, pair_files, read_pairs
from phrasemate.align.links import SYMMETRISATIONS, Links, format_links, parse_links, read_links, symmetrise
from phrasemate.align.neural import METHODS, NeuralAligner
from phrasemate.align.pairs import BorderWords, PhraseFinder, consistent_boxes
from phrasemate.align.parallel import ParallelText
from phrasemate.align.types import Aligner, Worded

__all__ = [
    "METHODS",
    "SYMMETRISATIONS",
    "Aligner",
    "BorderWords",
    "EflomalAligner",
    "Links",
    "NeuralAligner",
    "ParallelText",
    "PhraseFinder",
    "PhraseSettings",
    "Report",
    "Worded",
    "align_files",
    "consistent_boxes",
    "format_links",
    "pair_files",
    "parse_links",
    "read_links",
    "read_pairs",
    "symmetrise",
]

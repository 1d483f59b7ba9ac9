"""Align the words of parallel text, and extract phrase pairs."""

from __future__ import annotations

from phrasemate.align.eflomal import EflomalAligner
from phrasemate.align.files import ParallelText, PhraseSettings, Report, align_files, pair_files, read_pairs
from phrasemate.align.neural import METHODS, NeuralAligner
from phrasemate.align.pairs import (
    Aligner,
    BorderWords,
    PhraseFinder,
    TokenizedSentence,
    consistent_boxes,
    format_links,
    parse_links,
    read_links,
)
from phrasemate.align.symmetrise import SYMMETRISATIONS, Links, symmetrise

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
    "TokenizedSentence",
    "align_files",
    "consistent_boxes",
    "format_links",
    "pair_files",
    "parse_links",
    "read_links",
    "read_pairs",
    "symmetrise",
]

Worded = TokenizedSentence  # the former name

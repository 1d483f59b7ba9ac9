"""Parallel text -> word links -> phrase pairs."""

from __future__ import annotations

from phrasemate.align.eflomal import EflomalAligner
from phrasemate.align.links import SYMMETRISATIONS, Links, format_links, parse_links, read_links, symmetrise
from phrasemate.align.neural import METHODS, NeuralAligner
from phrasemate.align.worded import Aligner, Worded

__all__ = [
    "METHODS",
    "SYMMETRISATIONS",
    "Aligner",
    "EflomalAligner",
    "Links",
    "NeuralAligner",
    "Worded",
    "format_links",
    "parse_links",
    "read_links",
    "symmetrise",
]

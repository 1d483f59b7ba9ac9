"""Text in: files, folders and standard input as documents; sentences and words; translation memories and term lists."""

from __future__ import annotations

from phrasemate.text.corpus import Corpus, read
from phrasemate.text.damage import Skipped
from phrasemate.text.formats.bilingual import read_bilingual, read_units, write_units
from phrasemate.text.formats.records import Side, Term, TermPair, Unit
from phrasemate.text.segmentation import folded, split_sentences, words
from phrasemate.text.terms import read_terms, write_pairs, write_terms

__all__ = [
    "Corpus",
    "Side",
    "Skipped",
    "Term",
    "TermPair",
    "Unit",
    "folded",
    "read",
    "read_bilingual",
    "read_terms",
    "read_units",
    "split_sentences",
    "words",
    "write_pairs",
    "write_terms",
    "write_units",
]

"""Text in: files, folders and standard input as documents; sentences and words; translation memories and term lists."""

from __future__ import annotations

from phrasemate.text.corpus import Corpus, read
from phrasemate.text.error_policy import Skipped
from phrasemate.text.formats.bilingual import read_bilingual, read_units, write_units
from phrasemate.text.formats.units import Side, Term, TermPair, Unit
from phrasemate.text.normalize import folded
from phrasemate.text.sentences import split_sentences, words
from phrasemate.text.term_lists import read_terms, write_pairs, write_terms

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

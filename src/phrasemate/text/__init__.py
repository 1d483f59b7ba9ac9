"""Read files and folders as documents; split sentences and words; read and write translation memories and terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from phrasemate.utils import lazy_names

__all__ = [
    "Corpus",
    "Side",
    "SkippedInput",
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

if TYPE_CHECKING:
    from phrasemate.text.corpus import Corpus, read
    from phrasemate.text.formats.bilingual import read_bilingual, read_units, write_units
    from phrasemate.text.formats.units import Side, Term, TermPair, Unit
    from phrasemate.text.normalize import folded
    from phrasemate.text.sentences import split_sentences, words
    from phrasemate.text.term_lists import read_terms, write_pairs, write_terms
    from phrasemate.text.text_file import SkippedInput

__getattr__ = lazy_names(
    __name__,
    {
        "corpus": "Corpus read",
        "text_file": "Skipped SkippedInput",
        "formats.bilingual": "read_bilingual read_units write_units",
        "formats.units": "Side Term TermPair Unit",
        "normalize": "folded",
        "sentences": "split_sentences words",
        "term_lists": "read_terms write_pairs write_terms",
    },
)

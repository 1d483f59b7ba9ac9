"""Read files and folders as documents; split sentences and words; read and write translation memories and terms."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "Corpus": "phrasemate.text.corpus",
    "Side": "phrasemate.text.formats.units",
    "Skipped": "phrasemate.text.error_policy",
    "Term": "phrasemate.text.formats.units",
    "TermPair": "phrasemate.text.formats.units",
    "Unit": "phrasemate.text.formats.units",
    "folded": "phrasemate.text.normalize",
    "read": "phrasemate.text.corpus",
    "read_bilingual": "phrasemate.text.formats.bilingual",
    "read_terms": "phrasemate.text.term_lists",
    "read_units": "phrasemate.text.formats.bilingual",
    "split_sentences": "phrasemate.text.sentences",
    "words": "phrasemate.text.sentences",
    "write_pairs": "phrasemate.text.term_lists",
    "write_terms": "phrasemate.text.term_lists",
    "write_units": "phrasemate.text.formats.bilingual",
}


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

if TYPE_CHECKING:
    from phrasemate.text.corpus import Corpus, read
    from phrasemate.text.error_policy import Skipped
    from phrasemate.text.formats.bilingual import read_bilingual, read_units, write_units
    from phrasemate.text.formats.units import Side, Term, TermPair, Unit
    from phrasemate.text.normalize import folded
    from phrasemate.text.sentences import split_sentences, words
    from phrasemate.text.term_lists import read_terms, write_pairs, write_terms


def __getattr__(name: str) -> Any:
    """Import an exported name when it is first used: most users of the package need few of its modules."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)

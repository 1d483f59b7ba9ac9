"""Dictionaries: equivalents of wordings from a user's own dictionaries and term bases, and from a bundled lexicon."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "Collocates": "phrasemate.lexicon.collocates",
    "Dictionary": "phrasemate.lexicon.dictionary",
    "Equivalent": "phrasemate.lexicon.wordings",
    "InducedLexicon": "phrasemate.lexicon.induced",
    "Lexicon": "phrasemate.lexicon.wordings",
    "bundled_collocates": "phrasemate.lexicon.collocates",
    "bundled_lexicon": "phrasemate.lexicon.induced",
    "open_dictionaries": "phrasemate.lexicon.dictionary",
    "stemmed": "phrasemate.lexicon.inflection",
    "stemmed_all": "phrasemate.lexicon.inflection",
    "without_function_words": "phrasemate.lexicon.inflection",
}

__all__ = [
    "Collocates",
    "Dictionary",
    "Equivalent",
    "InducedLexicon",
    "Lexicon",
    "bundled_collocates",
    "bundled_lexicon",
    "open_dictionaries",
    "stemmed",
    "stemmed_all",
    "without_function_words",
]

if TYPE_CHECKING:
    from phrasemate.lexicon.collocates import Collocates, bundled_collocates
    from phrasemate.lexicon.dictionary import Dictionary, open_dictionaries
    from phrasemate.lexicon.induced import InducedLexicon, bundled_lexicon
    from phrasemate.lexicon.inflection import stemmed, stemmed_all, without_function_words
    from phrasemate.lexicon.wordings import Equivalent, Lexicon


def __getattr__(name: str) -> Any:
    """Import an exported name when it is first used: most users of the package need few of its modules."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)

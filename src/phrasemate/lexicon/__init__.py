"""Dictionaries: equivalents of wordings from a user's own dictionaries and term bases, and from a bundled lexicon."""

from __future__ import annotations

from phrasemate.lexicon.bundled import bundled_lexicon
from phrasemate.lexicon.dictionary import Dictionary, open_dictionaries
from phrasemate.lexicon.induced import InducedLexicon
from phrasemate.lexicon.inflection import stemmed, stemmed_all, without_function_words
from phrasemate.lexicon.records import Equivalent, Lexicon

__all__ = [
    "Dictionary",
    "Equivalent",
    "InducedLexicon",
    "Lexicon",
    "bundled_lexicon",
    "open_dictionaries",
    "stemmed",
    "stemmed_all",
    "without_function_words",
]

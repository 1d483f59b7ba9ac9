"""Dictionaries of equivalents: a user's own dictionaries and term bases, and the bundled lexicon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from phrasemate.utils import lazy_names

__all__ = [
    "Collocates",
    "Dictionary",
    "DictionaryFolder",
    "Endings",
    "Equivalent",
    "InducedLexicon",
    "Lexicon",
    "SenseVectors",
    "SensesThroughEnglish",
    "bundled_collocates",
    "bundled_endings",
    "bundled_lexicon",
    "bundled_senses",
    "open_dictionaries",
    "stemmed",
    "stemmed_all",
    "without_function_words",
]

if TYPE_CHECKING:
    from phrasemate.lexicon.dictionary import Dictionary, DictionaryFolder, open_dictionaries
    from phrasemate.lexicon.endings import Endings, bundled_endings
    from phrasemate.lexicon.induced import InducedLexicon, bundled_lexicon
    from phrasemate.lexicon.inflection import stemmed, stemmed_all, without_function_words
    from phrasemate.lexicon.senses import (
        Collocates,
        SensesThroughEnglish,
        SenseVectors,
        bundled_collocates,
        bundled_senses,
    )
    from phrasemate.lexicon.wordings import Equivalent, Lexicon

__getattr__ = lazy_names(
    __name__,
    {
        "dictionary": "Dictionary DictionaryFolder open_dictionaries",
        "endings": "Endings bundled_endings",
        "induced": "InducedLexicon bundled_lexicon",
        "inflection": "stemmed stemmed_all without_function_words",
        "senses": "Collocates SensesThroughEnglish SenseVectors bundled_collocates bundled_senses",
        "wordings": "Equivalent Lexicon",
    },
)

"""Words that carry grammar rather than meaning, and a text without them.

The lists are those of the package stopwordsiso (MIT; 57 languages). It is optional: searching needs none.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from phrasemate.errors import InputError, MissingExtra
from phrasemate.text.normalize import composed, visible
from phrasemate.text.sentences import words


def stop_words(language: str) -> frozenset[str]:
    """The lower-cased stop-words of a language, such as "de".

    Raises InputError for a language without a list, MissingExtra where stopwordsiso is not installed.
    """
    try:
        import stopwordsiso
    except ImportError as error:
        raise MissingExtra("stopwordsiso", "train") from error
    if not stopwordsiso.has_lang(language):
        known = ", ".join(sorted(stopwordsiso.langs()))
        raise InputError(f"no stop-words of language {language!r}; there are lists for {known}")
    return frozenset(_plain(word) for word in stopwordsiso.stopwords(language))


def content_words(text: str, stop: AbstractSet[str] = frozenset()) -> list[str]:
    """The words of a text in order, lower-cased and composed (NFC), without those of ``stop``."""
    found = (_plain(text[start:end]) for start, end in words(text))
    return [word for word in found if word not in stop]


def _plain(word: str) -> str:
    return composed(visible(word).lower())

"""The order of words in a language's dictionary: ICU's collation.

icu4py has no binding of the collator, but it brings the library that holds it, with the rules of every language. It is
called here as its C interface is documented (``ucol_open``, ``ucol_getSortKey``). Where that library cannot be found,
words are ordered without accents and case, which is right for few languages.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from unicodedata import combining, normalize

from phrasemate.text.icu import Library

Key = Callable[[str], bytes]

_LOCALE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8})*")


@lru_cache(maxsize=64)
def collation(language: str = "") -> Key:
    """A function that gives a text's sort key (bytes that compare as the texts do) in ``language``, a tag as "sv".

    An unknown or empty tag gets the order of Unicode that holds for all languages. Safe in any thread.
    """
    library = _library()
    return _plain if library is None else library(language if _LOCALE.fullmatch(language) else "root")


def _plain(text: str) -> bytes:
    parts = (part for character in text.casefold() for part in normalize("NFKD", character))
    return "".join(part for part in parts if not combining(part)).encode("utf-8", "surrogatepass")


class _Icu:
    """The two functions that are needed of the C interface."""

    def __init__(self, library: Library) -> None:
        pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32
        self._open = library.function("ucol_open", pointer, text, ctypes.POINTER(ctypes.c_int))
        self._key = library.function("ucol_getSortKey", number, pointer, text, number, text, number)

    def __call__(self, language: str) -> Key:
        status = ctypes.c_int(0)
        collator = self._open(language.replace("-", "_").encode("ascii"), ctypes.byref(status))
        if status.value > 0 or not collator:  # below 0 are remarks, such as: this locale has the rules of another
            return _plain

        def key(text: str) -> bytes:
            units = text.encode("utf-16-le" if _LITTLE else "utf-16-be", "surrogatepass")
            size = self._key(collator, units, len(units) // 2, None, 0)
            made = ctypes.create_string_buffer(size)
            self._key(collator, units, len(units) // 2, made, size)
            return made.raw

        return key


_LITTLE = sys.byteorder == "little"


@lru_cache(maxsize=1)
def _library() -> _Icu | None:
    try:
        return _Icu(Library("libicui18n", "icuin"))
    except (ImportError, OSError, AttributeError):
        return None

"""What ICU knows of languages beyond what icu4py binds: abbreviations and likely subtags of CLDR, by ICU's C interface.

icu4py brings the libraries that hold it. Where they cannot be found, nothing is known.
"""

from __future__ import annotations

import ctypes
import re
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

_PLACES = ("../icu4py.libs", ".dylibs", "../icu4py.dylibs", ".")  # where wheels for Linux, macOS and Windows keep them
_TAG = re.compile(r"[A-Za-z]{2,8}(?:[-_][A-Za-z0-9]{1,8})*")
_LONGEST = 157  # bytes of a locale's name (ULOC_FULLNAME_CAPACITY)
_LITTLE = sys.byteorder == "little"


class Library:
    """One of ICU's libraries; ``name`` begins its file's name on Linux and macOS, ``windows`` that on Windows."""

    def __init__(self, name: str, windows: str) -> None:
        import icu4py.messageformat  # loads the libraries, and what they need, into the process
        from icu4py._version import icu_version_info

        home = Path(icu4py.messageformat.__file__).parent
        files = (
            file for place in _PLACES for start in (name, windows) for file in sorted((home / place).glob(f"{start}*"))
        )
        file = next(files, None)
        if file is None:
            raise OSError(f"no library {name} of icu4py")
        self._library, self.version = ctypes.CDLL(str(file)), str(icu_version_info[0])

    def function(self, name: str, result: Any, *arguments: Any) -> Any:
        """A function of the library, with the types of its result and arguments. Raises AttributeError."""
        function = getattr(self._library, f"{name}_{self.version}")
        function.restype, function.argtypes = result, arguments
        return function


class _Common:
    """The functions of the library of common things that are needed here."""

    def __init__(self) -> None:
        library = Library("libicuuc", "icuuc")
        pointer, status = ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)
        text, number = ctypes.c_char_p, ctypes.c_int32
        self.data = f"icudt{library.version}{'l' if _LITTLE else 'b'}-brkitr".encode("ascii")
        self.open = library.function("ures_openDirect", pointer, text, text, status)
        self.close = library.function("ures_close", None, pointer)
        self.part = library.function("ures_getByKey", pointer, pointer, text, pointer, status)
        self.size = library.function("ures_getSize", number, pointer)
        self.string = library.function(
            "ures_getStringByIndex", pointer, pointer, number, ctypes.POINTER(number), status
        )
        self.likely = library.function("uloc_addLikelySubtags", number, text, text, number, status)
        self.tag = library.function("uloc_toLanguageTag", number, text, text, number, ctypes.c_int8, status)


@lru_cache(maxsize=1)
def _common() -> _Common | None:
    try:
        return _Common()
    except (ImportError, OSError, AttributeError):
        return None


@lru_cache(maxsize=64)
def suppressions(language: str) -> frozenset[str]:
    """The abbreviations after which CLDR ends no sentence in a language such as "de", with their full stops."""
    if not _TAG.fullmatch(language) or (icu := _common()) is None:
        return frozenset()
    status = ctypes.c_int(0)
    resources = [icu.open(icu.data, language.encode("ascii"), ctypes.byref(status))]
    for key in (b"exceptions", b"SentenceBreak"):
        resources.append(icu.part(resources[-1], key, None, ctypes.byref(status)))
    entries = range(icu.size(resources[-1])) if status.value <= 0 else range(0)
    abbreviations = frozenset(_string(icu, resources[-1], number) for number in entries)
    for resource in filter(None, reversed(resources)):
        icu.close(resource)
    return abbreviations


def _string(icu: _Common, entries: Any, number: int) -> str:
    length, status = ctypes.c_int32(0), ctypes.c_int(0)
    place = icu.string(entries, number, ctypes.byref(length), ctypes.byref(status))
    return ctypes.string_at(place, 2 * length.value).decode("utf-16-le" if _LITTLE else "utf-16-be")


@lru_cache(maxsize=1 << 12)
def full_tag(tag: str) -> str:
    """A language tag with the script and the country that are likely for it: "zh-TW" is "zh-Hant-TW".

    The tag itself where nothing is known of it.
    """
    icu = _common()
    tag = tag.strip().replace("_", "-")
    if icu is None or len(tag) > _LONGEST - 20 or not _TAG.fullmatch(tag):
        return tag
    status, name = ctypes.c_int(0), ctypes.create_string_buffer(_LONGEST)
    icu.likely(tag.encode("ascii"), name, _LONGEST, ctypes.byref(status))
    whole = ctypes.create_string_buffer(_LONGEST)
    icu.tag(name.value, whole, _LONGEST, 1, ctypes.byref(status))
    return whole.value.decode("ascii") if status.value <= 0 and whole.value else tag

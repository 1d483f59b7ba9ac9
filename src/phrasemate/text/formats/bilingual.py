"""Texts in several languages: translation memories and documents in translation, read and written as units."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

from phrasemate import __version__
from phrasemate.errors import InputError, ReadError
from phrasemate.text.error_policy import Damage
from phrasemate.text.formats.tmx import TmxStream, TmxWriter
from phrasemate.text.formats.units import Unit, listed, speaks
from phrasemate.text.formats.xliff import XliffStream, XliffWriter
from phrasemate.text.formats.xml_writer import XmlFile
from phrasemate.text.text_file import TextFile

BILINGUAL: Mapping[str, str] = {
    ".mqxliff": "xliff",
    ".mxliff": "xliff",
    ".sdlxliff": "xliff",
    ".tmx": "tmx",
    ".xlf": "xliff",
    ".xliff": "xliff",
}
_LOOKED_AT = 1000  # units of which an error names the languages
_NAMED = 50
_BREAKABLE = re.compile("[^\\S\u00a0\u2007\u202f]+")
_BLANK_LINES = re.compile(r"\n{2,}")


def read_units(path: str | os.PathLike[str], encoding: str = "utf-8") -> Iterator[Unit]:
    """The units of a translation memory (.tmx) or a document in translation (.xlf, .xliff, .sdlxliff, .mqxliff,
    .mxliff; each also with .gz), as a stream: all languages, texts as they are, without inline markup.

    ``encoding`` other than UTF-8 overrules what the file says of itself. Raises ReadError.
    """
    path, format_ = Path(path), format_of(path)
    if not format_:
        raise ReadError(str(path), 0, f"no such format by its name; expected {', '.join(BILINGUAL)}", "rename it")
    packed = path.suffix.lower() == ".gz"
    return stream_units(TextFile(path, str(path), packed, encoding, Damage(skip=False)), format_)


def format_of(path: str | os.PathLike[str]) -> str:
    """Either "tmx" or "xliff", or nothing, by the name of a file."""
    path = Path(path)
    return BILINGUAL.get((path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower(), "")


def stream_units(file: TextFile, format_: str) -> Iterator[Unit]:
    """The units of a file of the format "tmx" or "xliff". Raises ReadError."""
    stream = TmxStream if format_ == "tmx" else XliffStream
    return stream(file.name, None if file.encoding == "utf-8" else "utf-8").read(file.blocks())


def chosen(units: Iterable[Unit], language: str, name: str) -> Iterator[tuple[Unit, int]]:
    """The sides of units (unit, number of the side) in one language and its varieties, or "*" for all.

    Without a language, all sides must be in the same one. Raises ReadError that lists the languages there are.
    """
    seen: dict[str, None] = {}
    rest = iter(units)
    given = False
    for unit in rest:
        seen.update(dict.fromkeys(side.language for side in unit.sides) if len(seen) < _NAMED else {})
        if not language and len(seen) > 1:
            ahead = (side.language for more in islice(rest, _LOOKED_AT) for side in more.sides)
            reason = f"texts in several languages ({listed(chain(seen, ahead))}); expected one"
            raise ReadError(name, unit.line, reason, "choose one with --lang")
        for at, side in enumerate(unit.sides):
            if speaks(side.language, language) or not language:
                given = True
                yield unit, at
    if not given and seen:
        reason = f"no text in {language!r}; the languages here are {listed(seen)}"
        raise ReadError(name, 0, reason, "choose one of them with --lang")


def read_bilingual(
    path: str | os.PathLike[str], source: str = "", target: str = "", encoding: str = "utf-8"
) -> Iterator[tuple[str, str]]:
    """Sentence pairs of a translation memory or a document in translation, as a stream; line breaks become spaces.

    ``source`` and ``target`` are languages (their varieties count too). Without them a unit's first side is the
    source and its second the target, and all units must have them in the same two languages. Units that lack a side,
    or text on one, are passed over. Raises ReadError, InputError for one language without the other.
    """
    if bool(source) != bool(target):
        raise InputError(f"languages {source!r} and {target!r}; expected both or none")
    given, seen, order = 0, dict[str, None](), dict[str, None]()  # languages: of text; as sides stand, empty ones too
    for unit in read_units(path, encoding):
        sides = [side for side in unit.sides if side.text.strip()]
        seen.update(dict.fromkeys(side.language for side in sides) if len(seen) < _NAMED else {})
        order.update(dict.fromkeys(side.language for side in unit.sides) if len(order) < _NAMED else {})
        if not source and len(seen) > 2:
            reason = f"texts in several languages ({listed(seen)}); expected two"
            raise ReadError(str(path), unit.line, reason, "choose two with --langs, source first")
        wanted = (source, target) if source else tuple(language for language in order if language in seen)
        found = [next((side for side in sides if speaks(side.language, one)), None) for one in wanted]
        if len(found) == 2 and found[0] is not None and found[1] is not None and found[0] is not found[1]:
            given += 1
            yield one_line(found[0].text), one_line(found[1].text)
    if not given:
        reason = f"no pair of texts in {source or 'one'!s} and {target or 'another language'}"
        languages = f"; the languages here are {listed(seen)}" if seen else ""
        raise ReadError(str(path), 0, reason + languages, "check the file, or choose two languages with --langs")


def one_line(text: str) -> str:
    """A segment on one line; no-break spaces stay, for they part no tokens."""
    return _BREAKABLE.sub(" ", text).strip(" ")


def paragraphs(text: str) -> str:
    """A segment with single line breaks as spaces, for they are layout; blank lines stay line breaks."""
    if "\n" not in text:
        return text
    text = "\n".join(line.strip() for line in text.strip().split("\n"))
    text = _BLANK_LINES.sub("\0", text)
    return text.replace("\n", " ").replace("\0", "\n")


def write_units(
    path: str | os.PathLike[str],
    units: Iterable[Unit],
    languages: tuple[str, str] | None = None,
    version: str = "",
) -> None:
    """Writes units as they come, by the name of the file: .tmx (1.4b), .xlf or .xliff (``version`` "1.2", the default,
    or "2.0").

    ``languages``: source and target; default: those of the first unit. XLIFF holds one source and one target side
    each, and of the metadata "name" (or "id", "tuid"), "note" and "state". TMX holds all. Characters that XML cannot
    hold become U+FFFD (XLIFF 2.0 has a place for control characters). The file appears when it is whole. Raises
    InputError if it cannot be written so.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (".tmx", ".xlf", ".xliff") or version not in (
        ("", "1.4") if suffix == ".tmx" else ("", "1.2", "2.0")
    ):
        raise InputError(f"{path}, version {version or 'any'}: expected .tmx (1.4), .xlf or .xliff (1.2 or 2.0)")
    held = iter(units)
    first = next(held, None)
    known: list[str] = list(languages or (side.language for side in (first.sides if first else ())))[:2]
    known += [""] * (2 - len(known))
    with XmlFile(path) as file:
        writer: Any
        if suffix == ".tmx":
            writer = TmxWriter(file, known[0], __version__)
        else:
            writer = XliffWriter(file, known, version or "1.2", path.stem)
        for unit in chain([first] if first else [], held):
            writer.write(unit)
        writer.finish()

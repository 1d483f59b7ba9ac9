"""Texts in several languages as translation units: readers of TMX and TTX (Trados), and the common functions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

from phrasemate import __version__
from phrasemate.errors import InputError, ReadError
from phrasemate.text.formats.codes import CodedStream, gap_of_content, gap_of_name, spaced, wider
from phrasemate.text.formats.localization import po_units
from phrasemate.text.formats.units import Side, Unit, flatten, listed
from phrasemate.text.formats.xliff import XliffStream, write_xliff
from phrasemate.text.formats.xml import COST, Attributes, XmlFile
from phrasemate.text.languages import speaks
from phrasemate.text.text_file import Damage, TextFile, suffix_of


class TtxStream(CodedStream[Unit]):
    """Units of a TTX document: source and target of each `Tu`, and untranslated text up to each outer tag.

    Metadata: "origin" and "match" (percent) of the translation.
    """

    format_name = "TTX"
    root = frozenset({"TRADOStag"})

    def __init__(self, name: str, encoding: str | None = None) -> None:
        super().__init__(name, encoding)
        self._languages = ("", "")
        self._unit: dict[str, str] | None = None
        self._sides: list[Side] = []
        self._spoken, self._line, self._in_text = "", 0, False

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag == "UserSettings":
            self._languages = attributes.get("SourceLanguage", ""), attributes.get("TargetLanguage", "")
        elif tag == "Raw":
            self._begin_text(self._languages[0])
        elif tag == "ut" and self._in_text:
            is_outer = attributes.get("Style") == "external" or attributes.get("Class") == "procinstr"
            if is_outer and self._unit is None:
                self._end_text()
            visible_text = attributes.get("DisplayText", "")
            self.begin_code(wider(gap_of_name(visible_text), gap_of_content(visible_text)))
        elif tag == "Tu":
            self._end_text()
            values = {"origin": attributes.get("Origin", ""), "match": attributes.get("MatchPercent", "")}
            self._unit = {key: value for key, value in values.items() if value}
            self.charge(COST + sum(map(len, self._unit.values())))
            self._sides, self._line = [], self.line
        elif tag == "Tuv":
            self._begin_text(attributes.get("Lang", ""))

    def end(self, tag: str) -> None:
        if tag == "ut" and self._in_text:
            self.end_code()
        elif tag == "Tuv" and self._unit is not None:
            self._sides.append(Side(spaced(self.coded()), self._spoken))
        elif tag == "Tu" and self._unit is not None:
            self.give(Unit(tuple(self._sides), self._unit, self._line))
            self._unit = None
            self._begin_text(self._languages[0])
        elif tag == "Raw":
            self._end_text()
            self._in_text = self.listening = False

    def _begin_text(self, language: str) -> None:
        self._spoken, self._in_text = language, True
        self.hear(COST + len(language))

    def _end_text(self) -> None:
        """Give the text outside units as a unit of its source language."""
        if (text := spaced(self.coded()).strip()) and self._unit is None:
            self.give(Unit((Side(text, self._languages[0]),), {}, self.line))
        self.settle()
        self.hear(0)


_CODES = frozenset({"bpt", "ept", "it", "ph", "sub", "ut"})  # they contain markup of the original, not text
_OF_UNIT = (
    *("tuid", "srclang", "segtype", "datatype", "usagecount", "lastusagedate", "creationtool", "creationtoolversion"),
    *("creationdate", "creationid", "changedate", "changeid", "o-encoding", "o-tmf"),
)
_OF_SIDE = tuple(name for name in _OF_UNIT if name not in ("tuid", "srclang", "segtype"))


class TmxStream(CodedStream[Unit]):
    """Units of a TMX translation memory, with every language.

    Metadata has the attributes of ``tu`` and ``tuv`` under their names, ``note`` under "note" and each ``prop`` under
    its type. A type that is also the name of an attribute gets "prop:" before it. Several values of one name are a
    list.
    """

    format_name = "TMX"
    root = frozenset({"tmx"})

    def __init__(self, name: str, encoding: str | None = None) -> None:
        super().__init__(name, encoding)
        self._line = 0
        self._key = self._text_of_side = self._spoken = ""
        self._unit: dict[str, Any] = {}
        self._side: dict[str, Any] | None = None
        self._sides: list[Side] = []
        self._inside = False

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag == "tu":
            self._unit, self._side, self._sides, self._inside = self._metadata(attributes), None, [], True
            self._line = self.line
        elif not self._inside:
            return
        elif tag == "tuv":
            self._side, self._text_of_side = self._metadata(attributes), ""
            self._spoken = self.language(attributes) or self._side.pop("lang", "")
        elif tag == "seg":
            self.hear(COST)
        elif tag in _CODES:
            pair = attributes.get("i", "") if tag in ("bpt", "ept") else ""
            self.begin_code(gap_of_name(attributes.get("type", "")), pair)
        elif tag in ("note", "prop"):
            self._key = _key(attributes.get("type", ""), self._side is not None) if tag == "prop" else "note"
            self.hear(COST + len(self._key))

    def end(self, tag: str) -> None:
        if not self._inside:
            return
        if tag == "seg":
            self._text_of_side, self.listening = spaced(self.coded()), False
        elif tag in _CODES:
            self.end_code()
        elif tag in ("note", "prop"):
            self.listening = False
            _add(self._unit if self._side is None else self._side, self._key, spaced(self.coded()).strip())
        elif tag == "tuv":
            if self._sides:  # each side repeats the metadata of the unit
                self.charge(sum(len("".join(value)) for value in self._unit.values()))
            self._sides.append(Side(self._text_of_side, self._spoken, self._side or {}))
            self._side = None
        elif tag == "tu":
            self._inside = False
            self.give(Unit(tuple(self._sides), self._unit, self._line))

    def _metadata(self, attributes: Attributes) -> dict[str, Any]:
        self.charge(COST + sum(map(len, attributes.values())))
        return {name: value for name, value in attributes.items() if name != "xml:lang"}


def _key(type_: str, of_side: bool) -> str:
    """Return the metadata key of a property, distinct from the names of attributes and notes."""
    names = _OF_SIDE if of_side else (*_OF_UNIT, "lang")
    return f"prop:{type_}" if type_ in names or type_ == "note" or not type_ else type_


def _add(metadata: dict[str, Any], key: str, value: str) -> None:
    if not value:
        return
    if key not in metadata:
        metadata[key] = value
    elif isinstance(metadata[key], list):
        metadata[key].append(value)
    else:
        metadata[key] = [metadata[key], value]


def _write_tmx(file: XmlFile, units: Iterable[Unit], source_language: str) -> None:
    """Write units, with every language, as TMX 1.4."""
    file.write('<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">\n')
    file.write(f'<header creationtool="phrasemate" creationtoolversion="{__version__}" segtype="sentence" ')
    file.write('o-tmf="phrasemate" adminlang="en" datatype="plaintext" ')
    file.write(f"srclang={file.attribute(source_language or '*all*')}/>\n<body>\n")
    for unit in units:
        file.write(f"<tu{_attributes(file, unit.metadata, _OF_UNIT)}>{_notes(file, unit.metadata, _OF_UNIT)}\n")
        for side in unit.sides:
            language = f" xml:lang={file.attribute(side.language or 'und')}"
            file.write(f"<tuv{language}{_attributes(file, side.metadata, _OF_SIDE)}>")
            file.write(_notes(file, side.metadata, _OF_SIDE))
            file.write(f"<seg>{file.text(side.text)}</seg></tuv>\n")
        file.write("</tu>\n")
    file.write("</body>\n</tmx>\n")


def _attributes(file: XmlFile, metadata: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return "".join(f" {name}={file.attribute(str(metadata[name]))}" for name in names if name in metadata)


def _notes(file: XmlFile, metadata: Mapping[str, Any], attributes: tuple[str, ...]) -> str:
    """Format the metadata that are not attributes as notes and properties."""
    notes = ""
    for key, text in flatten(metadata):
        if key == "note":
            notes += f"<note>{file.text(text)}</note>"
        elif key not in attributes:
            notes += f"<prop type={file.attribute(key.removeprefix('prop:'))}>{file.text(text)}</prop>"
    return notes


BILINGUAL: Mapping[str, str] = {
    ".mqxliff": "xliff",
    ".po": "po",
    ".pot": "po",
    ".mxliff": "xliff",
    ".sdlxliff": "xliff",
    ".tmx": "tmx",
    ".ttx": "ttx",
    ".xlf": "xliff",
    ".xliff": "xliff",
}
_VERSIONS = {
    ".tmx": ("", "1.4"),
    ".xlf": ("", "1.2", "2.0"),
    ".xliff": ("", "1.2", "2.0"),
}  # versions that can be written
_LOOKED_AT = 1000  # further units whose languages are named in an error
_NAMED = 50  # maximum number of languages to collect for an error
_BREAKABLE = re.compile("[^\\S\u00a0\u2007\u202f]+")
_BLANK_LINES = re.compile(r"\n{2,}")


def read_units(path: str | os.PathLike[str], encoding: str = "utf-8") -> Iterator[Unit]:
    """Read the units of a translation memory or bilingual document as a stream.

    Formats: .tmx, .ttx, .po, .pot, .xlf, .xliff, .sdlxliff, .mqxliff and .mxliff, each also with .gz. Units have all
    languages, and texts without inline markup. ``encoding`` other than UTF-8 overrides what the file declares. Raises
    ReadError.
    """
    path, format_, (_, is_gzip) = Path(path), format_of(path), suffix_of(path)
    if not format_:
        raise ReadError(str(path), 0, f"no such format by its name; expected {', '.join(BILINGUAL)}", "rename it")
    return stream_units(TextFile(path, str(path), is_gzip, encoding, Damage(skip=False)), format_)


def format_of(path: str | os.PathLike[str]) -> str:
    """Return the format of a file by its name: "po", "tmx", "ttx", "xliff", or "" for any other."""
    return BILINGUAL.get(suffix_of(path)[0], "")


_STREAMS: Mapping[str, type[CodedStream[Unit]]] = {"tmx": TmxStream, "ttx": TtxStream, "xliff": XliffStream}


def stream_units(file: TextFile, format_: str) -> Iterator[Unit]:
    """Yield the units of a file in the format "po", "tmx", "ttx" or "xliff". Raises ReadError."""
    if format_ == "po":
        return po_units(file)
    return _STREAMS[format_](file.name, None if file.encoding == "utf-8" else "utf-8").read(file.blocks())


def chosen(units: Iterable[Unit], language: str, name: str) -> Iterator[tuple[Unit, int]]:
    """Choose the sides in one language and its varieties ("*": all): yields (unit, number of the side).

    Without a language, all sides must be in the same one. Raises ReadError, which lists the languages of the file.
    """
    languages: dict[str, None] = {}
    rest = iter(units)
    is_match = False
    for unit in rest:
        languages.update(dict.fromkeys(side.language for side in unit.sides) if len(languages) < _NAMED else {})
        if not language and len(languages) > 1:
            ahead = (side.language for more in islice(rest, _LOOKED_AT) for side in more.sides)
            reason = f"texts in several languages ({listed(chain(languages, ahead))}); expected one"
            raise ReadError(name, unit.line, reason, "choose one with --lang")
        for at, side in enumerate(unit.sides):
            if speaks(side.language, language) or not language:
                is_match = True
                yield unit, at
    if not is_match and languages:
        reason = f"no text in {language!r}; the languages here are {listed(languages)}"
        raise ReadError(name, 0, reason, "choose one of them with --lang")


def read_bilingual(
    path: str | os.PathLike[str], source: str = "", target: str = "", encoding: str = "utf-8"
) -> Iterator[tuple[str, str]]:
    """Read sentence pairs of a translation memory or bilingual document as a stream; line breaks become spaces.

    Without languages, the first side of a unit is the source and the second the target, and all units must be in the
    same two languages. Units without text on both sides are skipped.

    Args:
        path: File in a format that `read_units` reads.
        source: Language of the source, including its varieties.
        target: Language of the target.
        encoding: Encoding of the file.

    Raises ReadError, InputError for one language without the other.
    """
    if bool(source) != bool(target):
        raise InputError(f"languages {source!r} and {target!r}; expected both or none")
    is_match = False
    held_languages: dict[str, None] = {}  # languages of sides with text
    order: dict[str, None] = {}  # languages of all sides, in their order
    for unit in read_units(path, encoding):
        sides = [side for side in unit.sides if side.text.strip()]
        held_languages.update(dict.fromkeys(side.language for side in sides) if len(held_languages) < _NAMED else {})
        order.update(dict.fromkeys(side.language for side in unit.sides) if len(order) < _NAMED else {})
        if not source and len(held_languages) > 2:
            reason = f"texts in several languages ({listed(held_languages)}); expected two"
            raise ReadError(str(path), unit.line, reason, "choose two with --langs, source first")
        pair = [source, target] if source else [language for language in order if language in held_languages]
        matches = [next((side for side in sides if speaks(side.language, language)), None) for language in pair]
        first, second = matches if len(matches) == 2 else (None, None)
        if first is not None and second is not None and first is not second:
            is_match = True
            yield one_line(first.text), one_line(second.text)
    if not is_match:
        reason = f"no pair of texts in {source or 'one'!s} and {target or 'another language'}"
        languages = f"; the languages here are {listed(held_languages)}" if held_languages else ""
        raise ReadError(str(path), 0, reason + languages, "check the file, or choose two languages with --langs")


def one_line(text: str) -> str:
    """Put a segment on one line; no-break spaces stay, because they do not separate tokens."""
    return _BREAKABLE.sub(" ", text).strip(" ")


def paragraphs(text: str) -> str:
    """Replace single line breaks of a segment, which are layout, by spaces; blank lines become line breaks."""
    if "\n" not in text:
        return text
    text = "\n".join(line.strip() for line in text.strip().split("\n"))
    text = _BLANK_LINES.sub("\0", text)
    return text.replace("\n", " ").replace("\0", "\n")


def write_units(
    path: str | os.PathLike[str], units: Iterable[Unit], languages: tuple[str, str] | None = None, version: str = ""
) -> None:
    """Write units in the format of the file's extension: .tmx, .xlf or .xliff.

    TMX keeps everything. XLIFF keeps one source and one target side, and the metadata "name" (or "id", "tuid"), "note"
    and "state". Characters that XML cannot hold become U+FFFD (XLIFF 2.0 can hold control characters). The file appears
    when it is complete.

    Args:
        path: File to write.
        units: Units, each with its sides.
        languages: Source and target; default: those of the first unit.
        version: "1.4" of TMX; "1.2" (default) or "2.0" of XLIFF.

    Raises InputError for another suffix or version, for units in other languages, or if the file cannot be written.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if version not in _VERSIONS.get(suffix, ()):
        raise InputError(f"{path}, version {version or 'any'}: expected .tmx (1.4), .xlf or .xliff (1.2 or 2.0)")
    stream = iter(units)
    first = next(stream, None)
    pair = [*(languages or (side.language for side in (first.sides if first else ()))), "", ""][:2]
    with XmlFile(path) as file:
        whole = chain([first] if first else [], stream)
        if suffix == ".tmx":
            _write_tmx(file, whole, pair[0])
        else:
            write_xliff(file, whole, pair, version or "1.2", path.stem)

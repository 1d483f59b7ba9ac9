"""TMX 1.4b, the exchange format of translation memories (and 1.1 to 1.4, which differ little)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from phrasemate.text.formats.codes import CodedStream, gap_of_name, spaced
from phrasemate.text.formats.units import Side, Unit
from phrasemate.text.formats.xml import Attributes
from phrasemate.text.formats.xml_writer import XmlFile

_CODES = frozenset({"bpt", "ept", "it", "ph", "sub", "ut"})  # what they hold is markup of the original, not text
_COST = 100  # characters that an element counts for, beside its text
_OF_UNIT = (
    *("tuid", "srclang", "segtype", "datatype", "usagecount", "lastusagedate", "creationtool", "creationtoolversion"),
    *("creationdate", "creationid", "changedate", "changeid", "o-encoding", "o-tmf"),
)
_OF_SIDE = tuple(name for name in _OF_UNIT if name not in ("tuid", "srclang", "segtype"))


class TmxStream(CodedStream[Unit]):
    """The units of a translation memory, with every language.

    Attributes of ``tu`` and ``tuv`` are metadata under their names, ``note`` under "note" and each ``prop`` under its
    type ("prop:" before it where that is the name of an attribute); a list where there are several.
    """

    what = "TMX"
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
            self._unit, self._side, self._sides, self._inside = self._kept(attributes), None, [], True
            self._line = self.line
        elif not self._inside:
            return
        elif tag == "tuv":
            self._side, self._text_of_side = self._kept(attributes), ""
            self._spoken = self.language(attributes) or self._side.pop("lang", "")
        elif tag == "seg":
            self._hear()
        elif tag in _CODES:
            self.begin_code(gap_of_name(attributes.get("type", "")))
        elif tag in ("note", "prop"):
            self._key = _key(attributes.get("type", ""), self._side is not None) if tag == "prop" else "note"
            self.charge(len(self._key))
            self._hear()

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
            if self._sides:  # what is said of the unit goes with each side
                self.charge(sum(len("".join(value)) for value in self._unit.values()))
            self._sides.append(Side(self._text_of_side, self._spoken, self._side or {}))
            self._side = None
        elif tag == "tu":
            self._inside = False
            self.give(Unit(tuple(self._sides), self._unit, self._line))

    def _hear(self) -> None:
        self.charge(_COST)
        self.hear()

    def _kept(self, attributes: Attributes) -> dict[str, Any]:
        self.charge(_COST + sum(map(len, attributes.values())))
        return {name: value for name, value in attributes.items() if name != "xml:lang"}


def _key(type_: str, of_side: bool) -> str:
    """The name of a property in the metadata; what an attribute there, or a note, has as its name is told from it."""
    taken = _OF_SIDE if of_side else (*_OF_UNIT, "lang")
    return f"prop:{type_}" if type_ in taken or type_ == "note" or not type_ else type_


def _add(metadata: dict[str, Any], key: str, value: str) -> None:
    if not value:
        return
    if key not in metadata:
        metadata[key] = value
    elif isinstance(metadata[key], list):
        metadata[key].append(value)
    else:
        metadata[key] = [metadata[key], value]


class TmxWriter:
    """Units into a TMX 1.4 file, one by one."""

    def __init__(self, file: XmlFile, source_language: str, version: str) -> None:
        self._file = file
        file.write('<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">\n')
        file.write(
            f'<header creationtool="phrasemate" creationtoolversion={file.attribute(version)} segtype="sentence" '
        )
        file.write('o-tmf="phrasemate" adminlang="en" datatype="plaintext" ')
        file.write(f"srclang={file.attribute(source_language or '*all*')}/>\n<body>\n")

    def write(self, unit: Unit) -> None:
        file = self._file
        file.write(f"<tu{self._attributes(unit.metadata, _OF_UNIT)}>{''.join(self._said(unit.metadata, _OF_UNIT))}\n")
        for side in unit.sides:
            language = f" xml:lang={file.attribute(side.language or 'und')}"
            file.write(f"<tuv{language}{self._attributes(side.metadata, _OF_SIDE)}>")
            file.write("".join(self._said(side.metadata, _OF_SIDE)))
            file.write(f"<seg>{file.text(side.text)}</seg></tuv>\n")
        file.write("</tu>\n")

    def finish(self) -> None:
        self._file.write("</body>\n</tmx>\n")

    def _attributes(self, metadata: Mapping[str, Any], names: tuple[str, ...]) -> str:
        return "".join(f" {name}={self._file.attribute(str(metadata[name]))}" for name in names if name in metadata)

    def _said(self, metadata: Mapping[str, Any], attributes: tuple[str, ...]) -> Iterator[str]:
        """Notes and properties: all that is no attribute."""
        for key, value in metadata.items():
            for each in value if isinstance(value, list | tuple) else [value]:
                text = self._file.text(str(each))
                if key == "note":
                    yield f"<note>{text}</note>"
                elif key not in attributes:
                    yield f"<prop type={self._file.attribute(key.removeprefix('prop:'))}>{text}</prop>"

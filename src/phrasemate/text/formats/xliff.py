"""Reader and writer of XLIFF: versions 1.2, with the dialects of SDL, memoQ and Phrase, and 2.0 to 2.2."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from phrasemate.errors import InputError
from phrasemate.text.formats.codes import CodedStream, gap_of_content, gap_of_id, gap_of_name, spaced, wider
from phrasemate.text.formats.units import Side, Unit, flatten
from phrasemate.text.formats.xml import COST, NAME, NAMES, Attributes, XmlFile

_OLD = frozenset({f"urn:oasis:names:tc:xliff:document:1.{minor}" for minor in (1, 2)})
_NEW = frozenset({f"urn:oasis:names:tc:xliff:document:2.{minor}" for minor in (0, 1, 2)})
_UNITS, _SIDES = frozenset({"trans-unit", "unit"}), frozenset({"seg-source", "source", "target"})
_HOLDERS = frozenset({"ignorable", "segment", "trans-unit"})
_CODES = frozenset({"bpt", "ept", "it", "ph"})  # in 1.2 they contain markup of the original, in 2.0 nothing
_DELETED = frozenset({"x-sdl-deleted", "x-sdl-feedback-deleted"})  # types of marks around text that Trados deleted
_PAIRS = frozenset({"g", "pc"})  # elements around text of the document
_HALVES = frozenset({"bpt", "bx", "ec", "ept", "ex", "sc"})  # opening or closing code around such text
_ALONE = frozenset({"bx", "ec", "ex", "sc", "x"})
_CONTENTS = ("disp", "dispEnd", "dispStart", "equiv", "equivEnd", "equivStart", "equiv-text")
_REFERENCES = ("dataRef", "dataRefEnd", "dataRefStart")
_SAYING = frozenset({*_CONTENTS, *_REFERENCES, "ctype", "subType"})  # attributes that describe a code
_SDL = "http://sdl.com/FileTypes/SdlXliff/1.0 "
_PHRASE = "http://www.memsource.com/mxlf/2.0 "
_SDL_TAG, _PHRASE_MARK = f"{_SDL}tag", f"{_PHRASE}mark"
_DEFINING = ("data", _SDL_TAG, _PHRASE_MARK)  # define original codes: in a unit of 2.0, an SDL file, a Phrase unit
# Codes in Phrase files are text: {1} and {1>bold<1}, which marks describe, and {b>bold<b}, which they do not.
_MARKED = re.compile(r"\{(\w{1,9})>|<(\w{1,9})\}|\{(\d{1,9})\}|\{([\^_])>|<([\^_])\}")
_CONTROL = re.compile("([\x01-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff])")
_STATES = {
    "1.2": frozenset(
        {"final", "needs-adaptation", "needs-l10n", "needs-review-adaptation", "needs-review-l10n", "new", "signed-off"}
        | {"needs-review-translation", "needs-translation", "translated"}
    ),
    "2.0": frozenset({"initial", "translated", "reviewed", "final"}),
}


class XliffStream(CodedStream[Unit]):
    """Segments of an XLIFF document as units: source first, then the target if there is one.

    Each ``segment`` of 2.0 gives a unit, and so does each segment of a unit of 1.2 with ``seg-source``, unless it has
    text outside its segments. Metadata: "file" (the original document), "id" and "name" of the unit, "segment", "note",
    "state" (of the target). Proposals (``alt-trans``, ``mtc:match``) are left out.
    """

    format_name = "XLIFF"
    root = frozenset({"xliff"})
    namespaces = _OLD | _NEW

    def __init__(self, name: str, encoding: str | None = None) -> None:
        super().__init__(name, encoding)
        self._defaults = self._languages = ("", "")  # source and target of the document, and of the file
        self._spoken: dict[str, str] = {}  # xml:lang of source and target of the segment
        self._file, self._line, self._uncut = "", 0, False
        self._unit: dict[str, Any] = {}
        self._notes: list[str] = []
        self._found: list[tuple[str, tuple[Side, ...]]] = []  # name and sides of each segment
        self._side = self._segment = self._state = ""
        self._held: dict[str, list[str]] = {}  # source, seg-source and target -> pieces of text
        self._cut: dict[str, dict[str, list[str]]] = {}  # the same, by the marked segments in it
        self._mark = (0, "")  # depth and name of the open mark of a segment
        self._deletion = 0  # depth of the open mark of deleted text
        self._gaps: dict[str, dict[str, str]] = {tag: {} for tag in _DEFINING}  # id of each defined code -> gap
        self._original = ""  # id of the code whose definition is open
        self._paired: list[str] = []  # gaps at the ends of the open paired codes

    def start(self, tag: str, attributes: Attributes) -> None:
        if self._side:
            self._inline(tag, attributes)
        elif tag in _SIDES and self.path[-2] in _HOLDERS and self._unit:
            self._begin_side(tag, attributes)
        elif tag in _UNITS:
            self._begin(attributes)
        elif tag in ("segment", "ignorable") and self._unit:
            self._segment, self._state = attributes.get("id", ""), attributes.get("state", "")
            self.charge(COST + len(self._segment) + len(self._state))
            self._held, self._cut, self._spoken = {}, {}, {}
        elif tag == "note" and self._unit and self.path[-2] in ("notes", "trans-unit"):
            self.hear(COST)
        elif tag in _DEFINING and (self._unit or tag == _SDL_TAG):
            self._original = attributes.get("id", "")
            self.hear(COST + len(self._original))
        elif self._original:
            self._described(tag, attributes)
        elif tag == "xliff":
            self._defaults = self._languages = attributes.get("srcLang", ""), attributes.get("trgLang", "")
        elif tag == "file":
            self._file = attributes.get("original") or attributes.get("id", "")
            self._gaps[_SDL_TAG].clear()
            if len(self._file) > NAME:
                reason = f"an original named by {len(self._file):,} characters; expected at most {NAME:,}"
                raise self.error(reason, "shorten it: it goes with each unit")
            source, target = attributes.get("source-language"), attributes.get("target-language")
            self._languages = source or self._defaults[0], target or self._defaults[1]

    def end(self, tag: str) -> None:
        if self._side:
            self._inline_end(tag)
        elif tag == "note" and self.listening:
            self.listening = False
            self._notes += [note] if (note := spaced(self.coded()).strip()) else []
        elif tag in _DEFINING:
            self._define(tag)
        elif tag == f"{_PHRASE}type" and self._original:
            self._gap = wider(self._gap, gap_of_name(self.coded()))
        elif tag == "segment" and self._unit:
            self._found.append((self._segment, self._sides(self._whole("source") or "", self._whole("target"))))
        elif tag == "trans-unit" and self._unit:
            self._found += self._segments()
        if tag in _UNITS and self._unit:
            self._conclude()

    def _begin(self, attributes: Attributes) -> None:
        self._line, self._state, self._found, self._notes = self.line, "", [], []
        self._held, self._cut, self._spoken, self._uncut = {}, {}, {}, False
        self._gaps["data"].clear()
        self._gaps[_PHRASE_MARK].clear()
        name = attributes.get("resname") or attributes.get("name") or ""
        self._unit = {"file": self._file, "id": attributes.get("id", ""), "name": name}
        self.charge(COST + sum(map(len, self._unit.values())))

    def _begin_side(self, tag: str, attributes: Attributes) -> None:
        self._side, self._held[tag], self._cut[tag], self._mark = tag, [], {}, (0, "")
        self._state = attributes.get("state", self._state)
        if language_tag := self.language(attributes):
            self._spoken["target" if tag == "target" else "source"] = language_tag
        self._paired.clear()
        self.hear(COST + len(self._state) + len(language_tag))

    def _inline(self, tag: str, attributes: Attributes) -> None:
        if self._deletion:
            return
        if tag == "mrk" and attributes.get("mtype") in _DELETED and self.listening:
            self._deletion, self.listening = len(self.path), False
        elif tag == "mrk" and attributes.get("mtype") == "seg":
            self._piece()
            self._uncut |= self._mark[0] > 0  # nested marks
            name = attributes.get("mid") or str(len(self._cut[self._side]) + 1)
            self.charge(len(name))
            self._mark = len(self.path), name
        elif self.listening and tag == "cp":
            self.add(_character(attributes.get("hex", "")))
        elif tag in _CODES or tag == "sub":
            self.begin_code(self._gap_of(attributes), _pair(tag, attributes))
        else:
            gap = self._gap_of(attributes)
            is_unknown = tag in _ALONE and not attributes.keys() & _SAYING
            self.leave_gap(gap, _pair(tag, attributes), is_unknown)
            if tag in _PAIRS:
                self._paired.append(gap)

    def _inline_end(self, tag: str) -> None:
        if self._deletion:
            if len(self.path) + 1 == self._deletion:
                self._deletion, self.listening = 0, True
        elif tag in _CODES or tag == "sub":
            self.end_code()
        elif tag in _PAIRS:
            self.leave_gap(self._paired.pop())
        elif len(self.path) + 1 == self._mark[0]:
            self._piece()
            self._mark = (0, "")
        elif tag == self._side and self.path[-1] in _HOLDERS:
            self._piece()
            self._side, self.listening = "", False

    def _gap_of(self, attributes: Attributes) -> str:
        """Return the gap of a code by its attributes."""
        gaps = [gap_of_name(attributes[name]) for name in ("ctype", "subType") if name in attributes]
        gaps += [gap_of_content(attributes[name]) for name in _CONTENTS if name in attributes]
        gaps += [self._gaps["data"].get(attributes[name], "") for name in _REFERENCES if name in attributes]
        name = attributes.get("id", "")
        return wider(*gaps, self._gaps[_SDL_TAG].get(name, gap_of_id(name)))

    def _described(self, tag: str, attributes: Attributes) -> None:
        """Read the elements within the definition of an original code, which describe it."""
        if tag == "cp":
            self.add(_character(attributes.get("hex", "")))
        elif tag.startswith(_SDL):
            self._gap = wider(self._gap, gap_of_name(attributes.get("name", "")))
            self._gap = wider(self._gap, gap_of_content(attributes.get("equiv-text", "")))
            self._gap = wider(self._gap, gap_of_name("space" if attributes.get("is-whitespace") == "true" else ""))

    def _define(self, tag: str) -> None:
        """Store the gap of an original code at the end of its definition."""
        self.listening = False
        gap = wider(self._gap, gap_of_content(self.coded()))
        if len(self._original) <= NAME and len(self._gaps[tag]) < NAMES:
            self._gaps[tag][self._original] = gap
        self._original, self._gap = "", ""
        if tag == _SDL_TAG:
            self.settle()

    def _piece(self) -> None:
        """Store the text since the last mark."""
        self.charge(COST)
        text, (depth, name) = self.coded(), self._mark
        self._held[self._side].append(text)
        if depth:
            self._cut[self._side].setdefault(name, []).append(text)
        elif self._side != "source" and spaced(text).strip():
            self._uncut = True

    def _whole(self, side: str) -> str | None:
        return "".join(self._held[side]) if side in self._held else None

    def _segments(self) -> Iterator[tuple[str, tuple[Side, ...]]]:
        """Yield the segments of a unit of 1.2, or the whole unit if it has none or has text outside them."""
        sources, targets = self._cut.get("seg-source", {}), self._cut.get("target", {})
        if not sources or self._uncut:
            source = self._whole("source") or self._whole("seg-source") or ""
            yield "", self._sides(source, self._whole("target"))
            return
        for name in sources | targets:
            target = "".join(targets[name]) if name in targets else None
            yield name, self._sides("".join(sources.get(name, [])), target)

    def _without_marks(self, text: str) -> str:
        """Replace the codes in a text of a Phrase file by gaps; text of other files stays as it is."""
        if _PHRASE.rstrip() not in self._uris.values():
            return text

        def gap(code: re.Match[str]) -> str:
            name = next(filter(None, code.groups()))
            return self._gaps[_PHRASE_MARK].get(name, code[0] if name.isdecimal() else "")

        return _MARKED.sub(gap, text)

    def _sides(self, source: str, target: str | None) -> tuple[Side, ...]:
        source, target = self._without_marks(source), self._without_marks(target) if target is not None else None
        sides: tuple[Side, ...] = (Side(spaced(source), self._spoken.get("source") or self._languages[0]),)
        if target is not None:
            language = self._spoken.get("target") or self._languages[1]
            sides += (Side(spaced(target), language, {"state": self._state} if self._state else {}),)
        return sides

    def _conclude(self) -> None:
        common = {key: value for key, value in self._unit.items() if value}
        note = self._notes[0] if len(self._notes) == 1 else self._notes
        notes: dict[str, Any] = {"note": note} if note else {}
        size = sum(map(len, common.values())) + sum(map(len, self._notes))
        self.charge(size * max(0, len(self._found) - 1))  # each segment repeats the metadata
        for segment, sides in self._found:
            self.ready.append(Unit(sides, common | ({"segment": segment} if segment else {}) | notes, self._line))
        self._unit = {}
        self.settle()


def _pair(tag: str, attributes: Attributes) -> str:
    """Return the id that an opening and a closing code share: its own in 1.2, that of the first in 2.0; else ""."""
    names = (attributes[name] for name in ("rid", "startRef", "id") if attributes.get(name))
    return next(names, "") if tag in _HALVES else ""


def _character(hexadecimal: str) -> str:
    """Return the character of a ``cp`` element, which XML cannot hold; U+FFFD if it is invalid."""
    try:
        code = int(hexadecimal, 16)
    except ValueError:
        return "\ufffd"
    return chr(code) if 0 < code < 0xD800 or 0xDFFF < code < 0x110000 else "\ufffd"


def write_xliff(file: XmlFile, units: Iterable[Unit], languages: Sequence[str], version: str, original: str) -> None:
    """Write units of two languages as XLIFF of version "1.2" or "2.0". Raises InputError for a unit in others."""
    source, target = (file.attribute(language or "und") for language in languages)
    name = file.attribute(original)
    if version == "1.2":
        file.write('<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">\n')
        file.write(f'<file original={name} datatype="plaintext" ')
        file.write(f'source-language={source} target-language={target} xml:space="preserve">\n<body>\n')
    else:
        file.write('<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" ')
        file.write(f"srcLang={source} trgLang={target}>\n")
        file.write(f'<file id="f1" original={name} xml:space="preserve">\n')
    for number, unit in enumerate(units, 1):
        unit_languages = [side.language for side in unit.sides]
        if not unit.sides or unit_languages != list(languages)[: len(unit.sides)]:
            listed_languages = ", ".join(language or "(none)" for language in unit_languages) or "no language"
            raise InputError(f"a unit in {listed_languages}; an XLIFF file has {' and '.join(languages)} throughout")
        (_write_old if version == "1.2" else _write_new)(file, unit, number)
    file.write("</body>\n</file>\n</xliff>\n" if version == "1.2" else "</file>\n</xliff>\n")


def _write_old(file: XmlFile, unit: Unit, number: int) -> None:
    """Write a unit of version 1.2."""
    name = _name(file, unit, "resname")
    file.write(f'<trans-unit id="{number}"{name}>\n<source>{file.text(unit.sides[0].text)}</source>\n')
    if len(unit.sides) == 2:
        file.write(f"<target{_state(unit.sides[1], '1.2')}>{file.text(unit.sides[1].text)}</target>\n")
    file.write("".join(f"<note>{file.text(note)}</note>\n" for note in _notes(unit)) + "</trans-unit>\n")


def _write_new(file: XmlFile, unit: Unit, number: int) -> None:
    """Write a unit of version 2.0."""
    notes = "".join(f"<note>{file.text(note)}</note>" for note in _notes(unit))
    notes = f"<notes>{notes}</notes>\n" if notes else ""
    file.write(f'<unit id="{number}"{_name(file, unit, "name")}>\n{notes}')
    source = _with_codes(file, unit.sides[0].text)
    file.write(f"<segment{_state(unit.sides[-1], '2.0')}>\n<source>{source}</source>\n")
    if len(unit.sides) == 2:
        file.write(f"<target>{_with_codes(file, unit.sides[1].text)}</target>\n")
    file.write("</segment>\n</unit>\n")


def _name(file: XmlFile, unit: Unit, attribute: str) -> str:
    """Format the name of a unit as an attribute; the id itself is a new number, because ids must be unique."""
    name = unit.metadata.get("name") or unit.metadata.get("id") or unit.metadata.get("tuid")
    return f" {attribute}={file.attribute(str(name))}" if name else ""


def _state(side: Side, version: str) -> str:
    state = side.metadata.get("state")
    return f' state="{state}"' if state in _STATES[version] else ""


def _notes(unit: Unit) -> list[str]:
    return [text for key, text in flatten(unit.metadata) if key == "note"]


def _with_codes(file: XmlFile, text: str) -> str:
    """Escape a text for XLIFF 2.0, which has an element for control characters."""
    pieces = enumerate(_CONTROL.split(text))
    return "".join(f'<cp hex="{ord(piece):04X}"/>' if at % 2 else file.text(piece) for at, piece in pieces)

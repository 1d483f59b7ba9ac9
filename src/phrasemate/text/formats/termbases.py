"""Term bases: TBX (version 3, ISO 30042:2019, both styles; version 2, MARTIF), and MultiTerm XML (read only)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator

from phrasemate.text.formats.codes import CodedStream, gap_of_name, spaced
from phrasemate.text.formats.units import Term, flatten
from phrasemate.text.formats.xml import COST, Attributes, XmlFile, XmlStream

_CORE = "urn:iso:std:iso:30042:ed-2"
_CONCEPTS, _SECTIONS = frozenset({"termEntry", "conceptEntry"}), frozenset({"langSet", "langSec"})
_DESIGNATIONS = frozenset({"tig", "ntig", "termSec"})
_NOTED = frozenset({"admin", "date", "descrip", "note", "ref", "termNote", "transac", "transacNote", "xref"})
_GROUPS = frozenset({"adminGrp", "descripGrp", "termNoteGrp", "transacGrp"})
_CODES = frozenset({"bpt", "ec", "ept", "it", "ph", "sc", "ut"})
# First characters, and invalid characters, of an id (NCName, XML 1.0, 5th edition).
_LETTERS = (
    "A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_BEGIN = re.compile(f"[{_LETTERS}]")
_NO_NAME = re.compile(rf"[^{_LETTERS}.0-9\u00b7\u0300-\u036f\u203f\u2040-]")

Noted = dict[str, list[str]]


class TbxStream(CodedStream[Term]):
    """Terms of a TBX term base, concept by concept; each term has the metadata of its concept, too."""

    format_name = "TBX"
    root = frozenset({"martif", "tbx"})
    namespaces = frozenset({_CORE, "urn:iso:std:iso:30042:ed:3.0", "iso.org/ns/tbx/2016"})

    def __init__(self, name: str, encoding: str | None = None) -> None:
        super().__init__(name, encoding)
        self._id = self._spoken = self._category = self._group = self._term = ""
        self._levels: list[Noted] = []  # metadata of the open concept, language section and term
        self._found: list[tuple[str, str, list[Noted]]] = []

    def start(self, tag: str, attributes: Attributes) -> None:
        if not self._levels:
            if tag in _CONCEPTS:
                self._id, self._levels, self._found = attributes.get("id", ""), [{}], []
                self._category, self._group, self._spoken, self._term = "", "", "", ""
                self.charge(len(self._id))
        elif tag in _CODES:
            self.begin_code(gap_of_name(attributes.get("type", "")))
        elif tag in _SECTIONS or tag in _DESIGNATIONS:
            self._enter(tag, attributes)
        elif not self._category and (tag == "term" or tag in _NOTED or " " in tag):
            self._category = attributes.get("type") or tag.rpartition(" ")[2]
            self._owner = len(self.path)
            self._target = attributes.get("target", "")
            self.hear(COST + len(self._target))

    def end(self, tag: str) -> None:
        if not self._levels:
            return
        if tag in _CODES:
            self.end_code()
            self.listening = self.listening and bool(self._category)
        elif self._category:
            if len(self.path) + 1 == self._owner:
                self._note(tag, spaced(self.coded()).strip())
        elif tag in _GROUPS:
            self._group = ""
        elif tag in _SECTIONS or tag in _DESIGNATIONS:
            self._leave(tag)
        elif tag in _CONCEPTS:
            self._conclude()

    def _enter(self, tag: str, attributes: Attributes) -> None:
        self.charge(COST)
        if tag in _SECTIONS:
            self._spoken = self.language(attributes)
            self.charge(len(self._spoken))
        self._levels[self._around(tag) :] = [{}]

    def _leave(self, tag: str) -> None:
        if tag in _DESIGNATIONS and self._term:
            self._found.append((self._term, self._spoken, list(self._levels)))
        self._term = ""
        self._spoken = "" if tag in _SECTIONS else self._spoken
        del self._levels[self._around(tag) :]

    def _around(self, tag: str) -> int:
        """Return the number of levels around a section or term, which may be outside a section."""
        return 1 if tag in _SECTIONS or _SECTIONS.isdisjoint(self.path) else 2

    def _note(self, tag: str, text: str) -> None:
        """Store the text of an element; in a group, later elements describe the first one ("definition.source")."""
        category, self._category, self.listening = self._category, "", False
        text = text or self._target
        if tag == "term":
            self._term = text
        elif text:
            key = f"{self._group}.{category}" if self._group else category
            self.charge(len(key))
            self._levels[-1].setdefault(key, []).append(text)
        if tag != "term" and self.path[-1] in _GROUPS and not self._group:
            self._group = category

    def _conclude(self) -> None:
        for text, language, levels in self._found:
            self.charge(COST * sum(len(texts) for level in levels for texts in level.values()))  # copied for each term
            term = _term(text, language, self._id, levels, str)
            self.charge(len(term.definition) + len(term.note))
            self.ready.append(term)
        self._levels, self._found = [], []
        self.settle()


def _term(text: str, language: str, concept: str, levels: list[Noted], category_of: Callable[[str], str]) -> Term:
    """Make a term with the notes of its levels, innermost first; ``category_of`` maps their names to categories."""
    notes: Noted = {}
    for level in reversed(levels):
        for name, texts in level.items():
            notes.setdefault(category_of(name), []).extend(texts)
    definition, note = "\n".join(notes.pop("definition", [])), "\n".join(notes.pop("note", []))
    contexts = tuple(notes.pop("context", []))
    metadata = {category: texts[0] if len(texts) == 1 else texts for category, texts in notes.items()}
    return Term(text, language, concept, definition, note, contexts, metadata)


def write_concepts(path: str | os.PathLike[str], concepts: Iterable[list[Term]], version: int = 2) -> None:
    """Write a TBX-Basic term base, concept by concept: version 3 (ISO 30042:2019) or 2 (MARTIF)."""
    names = _NAMES[version]
    identifiers: dict[str, int] = {}
    with XmlFile(path) as file:
        file.write(_HEADS[version])
        for number, terms in enumerate(concepts, 1):
            file.write(f"<{names['concept']} id={file.attribute(_identifier(terms, number, identifiers))}>\n")
            for tag in dict.fromkeys(term.language for term in terms):
                file.write(f"<{names['section']} xml:lang={file.attribute(tag or 'und')}>\n")
                for term in terms:
                    if term.language == tag:
                        file.write(f"<{names['term']}>" + "".join(_notes(file, term)) + f"</{names['term']}>\n")
                file.write(f"</{names['section']}>\n")
            file.write(f"</{names['concept']}>\n")
        file.write(f"</body></text>\n</{names['root']}>\n")


def _identifier(terms: list[Term], number: int, identifiers: dict[str, int]) -> str:
    """Make a unique id of a concept from the id of its terms, changed to a valid NCName.

    ``identifiers``: id in use -> number of concepts that asked for it.
    """
    identifier = next((term.id for term in terms if term.id), "") or f"c{number}"
    identifier = name = _NO_NAME.sub("_", identifier if _BEGIN.match(identifier) else f"c{identifier}")
    while name in identifiers:
        identifiers[identifier] += 1
        name = f"{identifier}-{identifiers[identifier]}"
    identifiers[name] = 1
    return name


def _notes(file: XmlFile, term: Term) -> Iterator[str]:
    """Yield the elements of a term in the order of the TBX-Basic schema."""
    yield f"<term>{file.text(term.text)}</term>"
    for category, value in flatten(term.metadata):
        if category in _TERM_NOTES:
            yield f'<termNote type="{category}">{file.text(value)}</termNote>'
    notes = [("definition", term.definition)] * bool(term.definition) + [("context", text) for text in term.contexts]
    for category, value in notes + [("subjectField", v) for c, v in flatten(term.metadata) if c == "subjectField"]:
        yield f'<descrip type="{category}">{file.text(value)}</descrip>'
    for category, value in flatten(term.metadata):
        if category == "source":
            yield f'<admin type="source">{file.text(value)}</admin>'
    if term.note:
        yield f"<note>{file.text(term.note)}</note>"


_TERM_NOTES = frozenset(
    {"administrativeStatus", "geographicalUsage", "grammaticalGender", "partOfSpeech", "termLocation", "termType"}
)
_NAMES = {
    2: {"root": "martif", "concept": "termEntry", "section": "langSet", "term": "tig"},
    3: {"root": "tbx", "concept": "conceptEntry", "section": "langSec", "term": "termSec"},
}
_SOURCE = "<fileDesc><sourceDesc><p>written by phrasemate</p></sourceDesc></fileDesc>"
_HEADS = {
    2: '<martif type="TBX-Basic" xml:lang="en">\n'
    f"<martifHeader>{_SOURCE}"
    '<encodingDesc><p type="XCSURI">http://www.ttt.org/oscarstandards/tbx/TBXBasicXCSV02.xcs</p></encodingDesc>'
    "</martifHeader>\n<text><body>\n",
    3: f'<tbx type="TBX-Basic" style="dca" xml:lang="en" xmlns="{_CORE}">\n'
    f"<tbxHeader>{_SOURCE}</tbxHeader>\n<text><body>\n",
}


_LEVELS = ("conceptGrp", "languageGrp", "termGrp")
_HEARD = frozenset({"concept", "term", "descrip"})


class MultiTermStream(XmlStream[Term]):
    """Terms of a MultiTerm term base, concept by concept; each has the fields of its concept, language and term.

    The fields "Definition", "Note" and "Context" become those of `Term`. All others are metadata under their names.
    """

    format_name = "MultiTerm XML"
    root = frozenset({"mtf"})

    def __init__(self, name: str, encoding: str | None = None) -> None:
        super().__init__(name, encoding)
        self._concept = self._language = self._field = ""
        self._terms: list[tuple[str, str, list[Noted]]] = []
        self._fields: list[Noted] = []  # fields of the open concept, language and term

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag in _LEVELS:
            self.charge(COST)
            self._fields.append({})
        elif tag == "language":
            self._language = attributes.get("lang") or attributes.get("type", "")
            self.charge(len(self._language))
        elif tag in _HEARD and self._fields:
            self._field = attributes.get("type", "")
            self.charge(COST + len(self._field))
            self.take_text()
            self.listening = True

    def end(self, tag: str) -> None:
        if tag in _HEARD and self._fields:
            text, self.listening = " ".join(self.take_text().split()), False
            if tag == "concept":
                self._concept = text
            elif tag == "term" and text:
                self._terms.append((text, self._language, list(self._fields)))
            elif text:
                self._fields[-1].setdefault(self._field, []).append(text)
        elif tag in _LEVELS:
            self._fields.pop()
            self._language = self._language if tag == "termGrp" else ""
            if not self._fields:
                self._conclude()

    def _conclude(self) -> None:
        for text, language, levels in self._terms:
            self.charge(COST * sum(len(texts) for level in levels for texts in level.values()))
            self.ready.append(_term(text, language, self._concept, levels, _category))
        self._concept, self._terms = "", []
        self.settle()


def _category(field: str) -> str:
    return field.lower() if field.lower() in ("context", "definition", "note") else field

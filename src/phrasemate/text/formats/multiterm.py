"""MultiTerm XML, the term bases that Trados MultiTerm exports."""

from __future__ import annotations

from phrasemate.text.formats.units import Term
from phrasemate.text.formats.xml import Attributes, XmlStream

_COST = 100  # characters that an element counts for, beside its text
_LEVELS = ("conceptGrp", "languageGrp", "termGrp")
_HEARD = frozenset({"concept", "term", "descrip"})


class MultiTermStream(XmlStream[Term]):
    """The terms of a term base, concept by concept; each has the fields of its concept, language and term.

    Fields called "Definition", "Note" and "Context" are these. All others are metadata under their names.
    """

    what = "MultiTerm XML"
    root = frozenset({"mtf"})

    def __init__(self, name: str, encoding: str | None = None) -> None:
        super().__init__(name, encoding)
        self._concept = self._language = self._field = ""
        self._terms: list[tuple[str, str, list[dict[str, list[str]]]]] = []
        self._fields: list[dict[str, list[str]]] = []  # of the concept, the language and the term that are open

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag in _LEVELS:
            self.charge(_COST)
            self._fields.append({})
        elif tag == "language":
            self._language = attributes.get("lang") or attributes.get("type", "")
            self.charge(len(self._language))
        elif tag in _HEARD and self._fields:
            self._field = attributes.get("type", "")
            self.charge(_COST + len(self._field))
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
            self.charge(_COST * sum(len(texts) for level in levels for texts in level.values()))
            self.ready.append(_term(text, language, self._concept, levels))
        self._concept, self._terms = "", []
        self.settle()


def _term(text: str, language: str, concept: str, levels: list[dict[str, list[str]]]) -> Term:
    fields: dict[str, list[str]] = {}
    for level in reversed(levels):
        for name, texts in level.items():
            fields.setdefault(name.lower() if name.lower() in ("context", "definition", "note") else name, []).extend(
                texts
            )
    definition, note = "\n".join(fields.pop("definition", [])), "\n".join(fields.pop("note", []))
    contexts = tuple(fields.pop("context", []))
    metadata = {name: texts[0] if len(texts) == 1 else texts for name, texts in fields.items()}
    return Term(text, language, concept, definition, note, contexts, metadata)

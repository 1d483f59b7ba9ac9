"""TTX, the documents in translation of Trados TagEditor."""

from __future__ import annotations

from phrasemate.text.formats.units import Side, Unit
from phrasemate.text.formats.xml import Attributes, CodedStream, gap_of_content, gap_of_name, spaced, wider

_COST = 100  # characters that an element counts for, beside its text


class TtxStream(CodedStream[Unit]):
    """The units of a document: source and target of each `Tu`, and what is not translated yet, up to an outer tag.

    Metadata: "origin" and "match" (percent) of the translation.
    """

    what = "TTX"
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
            self.charge(_COST + sum(map(len, self._unit.values())))
            self._sides, self._line = [], self.line
        elif tag == "Tuv":
            self._begin_text(attributes.get("Lang", ""))

    def end(self, tag: str) -> None:
        if tag == "ut" and self._in_text:
            self.end_code()
        elif tag == "Tuv" and self._unit is not None:
            self._sides.append(Side(self._heard_text(), self._spoken))
        elif tag == "Tu" and self._unit is not None:
            self.give(Unit(tuple(self._sides), self._unit, self._line))
            self._unit = None
            self._begin_text(self._languages[0])
        elif tag == "Raw":
            self._end_text()
            self._in_text = self.listening = False

    def _begin_text(self, language: str) -> None:
        self.charge(_COST + len(language))
        self._spoken, self._in_text = language, True
        self.hear()

    def _heard_text(self) -> str:
        return spaced(self.coded())

    def _end_text(self) -> None:
        """Gives what was heard outside of units."""
        if (text := self._heard_text().strip()) and self._unit is None:
            self.give(Unit((Side(text, self._languages[0]),), {}, self.line))
        self.settle()
        self.hear()

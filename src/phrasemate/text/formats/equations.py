"""Equations of Word (OMML) as linear text: "a/b", "x^2", "√(x)", "∑_(i=1)^(n)"."""

from __future__ import annotations

_SCRIPTS = {"sub": "_", "sup": "^"}
_PROPERTIES = {"naryPr": "∫", "dPr": "(", "radPr": "√"}


class Equation:
    """Gives the signs that the elements of an equation stand for, as they come, beside its text."""

    def __init__(self) -> None:
        self._sign = ""  # before the next text, if there is any within the element
        self._character: str | None = None
        self._ends: list[str] = []  # what closes the brackets that are open
        self._end = ""

    def start(self, name: str, value: str | None) -> str:
        """What stands where an element begins; ``value`` is its m:val."""
        if name == "den":
            return "/"
        if name in _SCRIPTS:
            self._sign = _SCRIPTS[name]
        elif name in _PROPERTIES:
            self._character, self._end = None, ")"
        elif name in ("begChr", "chr"):
            self._character = value or ""
        elif name == "endChr":
            self._end = value or ""
        elif name == "d":
            self._ends.append("")
        return ""

    def end(self, name: str) -> str:
        """What stands where it ends."""
        if name in _SCRIPTS:
            self._sign = ""
        elif name == "d":
            return self._ends.pop() if self._ends else ""
        elif name in _PROPERTIES:
            if name == "dPr" and self._ends:
                self._ends[-1] = self._end
            return _PROPERTIES[name] if self._character is None else self._character
        return ""

    def text(self, text: str) -> str:
        """A text with the sign before it."""
        sign, self._sign = (self._sign, "") if text else ("", self._sign)
        return sign + text

"""The plain records of dictionaries, and the protocol that every lexicon fulfils."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Equivalent(NamedTuple):
    """A wording that a dictionary gives for another one.

    ``text`` is the wording as the dictionary has it, ``language`` its language ("" if unknown). ``weight`` (above 0,
    at most 1) is the probability of this equivalent given the wording; a dictionary without probabilities has one
    divided by the rank. ``source`` names the dictionary.
    """

    text: str
    weight: float
    source: str
    language: str = ""


class Lexicon(Protocol):
    """Anything that knows equivalents of wordings."""

    name: str

    def equivalents(self, wording: str, lang: str = "", target: str = "") -> list[Equivalent]:
        """The equivalents of a wording, the best first; none if it is unknown.

        ``lang`` is the language of the wording, ``target`` that of the equivalents; "" stands for all languages.
        """
        ...

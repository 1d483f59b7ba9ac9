"""What the translators' formats hold: units with sides in several languages, and terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Side:
    """A text of a unit in one language (a tag such as "de" or "pt-BR", as the file has it)."""

    text: str
    language: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unit:
    """Texts that mean the same in different languages, as a translation memory has them; ``line`` counts from 1."""

    sides: tuple[Side, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    line: int = 0


@dataclass(frozen=True, slots=True)
class Term:
    """A word or phrase that names a concept in one language.

    ``id`` is that of the concept, which the terms of several languages share. ``contexts`` are sentences that hold
    the term; ``metadata`` has what else was said of it ("partOfSpeech", "subjectField", ...), strings or lists of them.
    """

    text: str
    language: str = ""
    id: str = ""
    definition: str = ""
    note: str = ""
    contexts: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TermPair:
    """A term and its equivalent, with how sure that is and what else there is to say of the pair."""

    source: Term
    target: Term
    score: float = 1.0
    metadata: Mapping[str, Any] = field(default_factory=dict)


def listed(languages: Iterable[str]) -> str:
    """Language tags for an error: at most fifty, each once, on one line, whatever they hold."""
    shown = {" ".join(language.split())[:30] or "(none)" for language in languages}
    return ", ".join(sorted(shown)[:50])


def speaks(tag: str, wanted: str) -> bool:
    """Whether a language tag is the wanted one or a variety of it: "en-GB" is "en", and all are "*".

    RFC 4647, section 3.3.1 (basic filtering); "_" is taken for "-".
    """
    tag, wanted = (text.strip().lower().replace("_", "-") for text in (tag, wanted))
    return wanted == "*" or tag == wanted or (wanted != "" and tag.startswith(wanted + "-"))

"""Data types of translation formats: units with sides in several languages, terms and term pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Paragraph = tuple[str, dict[str, Any]]  # text, metadata such as its page
Record = tuple[int, str, Mapping[str, Any]]  # line (from 1; 0: unknown), text, metadata
UNKNOWN = ("und-x-source", "und-x-target")  # tags of the two sides of a pair if neither language is known


@dataclass(frozen=True, slots=True)
class Side:
    """The text of a unit in one language. ``language`` is a tag such as "de" or "pt-BR", as in the file.

    >>> Side("Der Hund bellt.", "de").language
    'de'
    """

    text: str
    language: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Unit:
    """A translation unit: the same text in several languages. ``line`` counts from 1.

    >>> from phrasemate.text import read_units, write_units
    >>> unit = Unit((Side("Der Hund bellt.", "de"), Side("The dog barks.", "en")))
    >>> write_units("memory.tmx", [unit])
    >>> [side.text for unit in read_units("memory.tmx") for side in unit.sides]
    ['Der Hund bellt.', 'The dog barks.']
    """

    sides: tuple[Side, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    line: int = 0


@dataclass(frozen=True, slots=True)
class Term:
    """A word or phrase that names a concept in one language.

    ``id`` identifies the concept, which terms of several languages share. ``contexts`` are sentences that contain the
    term. ``metadata`` has other properties ("partOfSpeech", "subjectField", ...) as strings or lists of strings.

    >>> from phrasemate.text import read_terms, write_terms
    >>> write_terms("terms.tbx", [Term("Bremse", "de", "c1"), Term("brake", "en", "c1")])
    >>> [term.text for term in read_terms("terms.tbx", language="de")]
    ['Bremse']
    """

    text: str
    language: str = ""
    id: str = ""
    definition: str = ""
    note: str = ""
    contexts: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class TermPair:
    """A term and its equivalent, with metadata.

    ``score`` is their similarity, or None if a person chose the equivalent.

    >>> from phrasemate.text import write_pairs
    >>> write_pairs("pairs.tsv", [TermPair(Term("Bremse", "de"), Term("brake", "en"), 0.9)])
    """

    source: Term
    target: Term
    score: float | None = 1.0
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)


def pair_tags(source: str, target: str) -> tuple[str, str]:
    """Return the tags to write for the languages of a pair; if both are "", the tags `UNKNOWN`, which differ."""
    return (source, target) if source or target else UNKNOWN


def flatten(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the entries of metadata as (key, text), those of a list one by one."""
    for key, value in metadata.items():
        for item in value if isinstance(value, list | tuple) else [value]:
            yield key, str(item)


def listed(languages: Iterable[str]) -> str:
    """Format language tags for an error message: sorted, each once, cut to 30 characters, at most fifty."""
    tags = {" ".join(language.split())[:30] or "(none)" for language in languages}
    return ", ".join(sorted(tags)[:50])

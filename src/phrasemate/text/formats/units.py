"""Content of the translators' formats: units with sides in several languages, and terms."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from phrasemate.text.sentences import full_tag

_NO_LANGUAGE = ("mul", "und", "x", "zxx")
_SERBIAN = re.compile("^sh(?=-|$)")  # withdrawn, for Serbian in Latin letters (an alias of CLDR)
_NORWEGIAN = ("no", "nor")  # Bokmål and Nynorsk

Paragraph = tuple[str, dict[str, Any]]  # its text, and what is known of it, such as its page
Record = tuple[int, str, Mapping[str, Any]]  # the line (from 1) where a text stands, the text, and its metadata


@dataclass(frozen=True, slots=True)
class Side:
    """A text of a unit in one language (a tag such as "de" or "pt-BR", as the file has it).

    >>> Side("Der Hund bellt.", "de").language
    'de'
    """

    text: str
    language: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unit:
    """Texts that mean the same in different languages, as a translation memory has them; ``line`` counts from 1.

    >>> from phrasemate.text import read_units, write_units
    >>> unit = Unit((Side("Der Hund bellt.", "de"), Side("The dog barks.", "en")))
    >>> write_units("memory.tmx", [unit])
    >>> [side.text for unit in read_units("memory.tmx") for side in unit.sides]
    ['Der Hund bellt.', 'The dog barks.']
    """

    sides: tuple[Side, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    line: int = 0


@dataclass(frozen=True, slots=True)
class Term:
    """A word or phrase that names a concept in one language.

    ``id`` is that of the concept, which the terms of several languages share. ``contexts`` are sentences that hold
    the term; ``metadata`` has its other properties ("partOfSpeech", "subjectField", ...), strings or lists of them.

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
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TermPair:
    """A term and its equivalent, with other facts about the pair.

    ``score`` is their similarity; None where a person has chosen, and nothing was measured.

    >>> from phrasemate.text import write_pairs
    >>> write_pairs("pairs.tsv", [TermPair(Term("Bremse", "de"), Term("brake", "en"), 0.9)])
    """

    source: Term
    target: Term
    score: float | None = 1.0
    metadata: Mapping[str, Any] = field(default_factory=dict)


def flatten(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Give the entries of metadata as text; those of a list one by one, each with its key."""
    for key, value in metadata.items():
        for item in value if isinstance(value, list | tuple) else [value]:
            yield key, str(item)


def listed(languages: Iterable[str]) -> str:
    """Language tags for an error: at most fifty, each once, on one line, whatever they hold."""
    tags = {" ".join(language.split())[:30] or "(none)" for language in languages}
    return ", ".join(sorted(tags)[:50])


@lru_cache(maxsize=1 << 12)
def speaks(tag: str, expected: str) -> bool:
    """Whether a language tag is the wanted one or a variety of it: "en-GB" is "en", and all are "*".

    RFC 4647, section 3.3.1 (basic filtering), "_" taken for "-". Besides, other codes of a language are the same ("iw"
    is "he", "eng" is "en"), and Bokmål is Norwegian. A script that is likely need not be written: "zh-Hant-TW" is
    "zh-TW". So say the likely subtags of CLDR.
    """
    tag, expected = (_SERBIAN.sub("sr-latn", text.strip().lower().replace("_", "-")) for text in (tag, expected))
    if expected == "*" or tag == expected or (expected != "" and tag.startswith(expected + "-")):
        return True
    if not {tag.partition("-")[0], expected.partition("-")[0]}.isdisjoint(("", *_NO_LANGUAGE)):
        return False
    (language, script, rest), (wanted_language, wanted_script, wanted_rest) = map(_parts, (tag, expected))
    plain = "-" not in expected
    return (
        (language == wanted_language or (expected.partition("-")[0] in _NORWEGIAN and language == "nn"))
        and (script == wanted_script or plain)
        and rest[: len(wanted_rest)] == wanted_rest
    )


def _parts(tag: str) -> tuple[str, str, list[str]]:
    """The language of a tag, its script, written or likely, and what else is written: the country first."""
    language, *subtags = full_tag(tag).lower().split("-")
    script = subtags[0] if subtags and len(subtags[0]) == 4 else ""
    rest = [part for part in tag.split("-")[1:] if part != script]
    return "no" if language == "nb" else language, script, rest

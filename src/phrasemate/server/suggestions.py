"""What translation tools ask for: suggestions for a segment, and the interface of a translation memory's server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from phrasemate.glossary import Entry, Glossary
from phrasemate.search import Group, Result
from phrasemate.text import folded

QUALITIES = {"preferred": 100, "admitted": 95}  # of entries of the glossary; others are not suggested
WORST = 1  # quality, in percent, of what is suggested at all


def spoken(requested: str, languages: Sequence[str]) -> list[str]:
    """Those of an index's languages that a tag asks for: ``en_GB`` takes ``en``, and what is of no known language.

    An empty tag takes all.
    """
    tag = _tag(requested)
    exact = [language for language in languages if _tag(language) == tag]
    general = tag.partition("-")[0]
    alike = [language for language in languages if _tag(language).partition("-")[0] == general]
    return list(languages) if not tag else (exact or alike) + [language for language in languages if not language]


def _tag(language: str) -> str:
    return language.lower().replace("_", "-")


def suggested(result: Result, glossary: Glossary, languages: Sequence[str], k: int) -> dict[str, Any]:
    """The phrase of a result with its suggestions, for JSON: those of the glossary come first."""
    entries = [one for one in glossary.of(result.phrase.text) if one.status in QUALITIES]
    chosen = [_entry(one) for one in entries if not one.target_language or spoken(one.target_language, languages)]
    chosen.sort(key=lambda suggestion: -suggestion["quality"])
    texts = {folded(suggestion["text"]) for suggestion in chosen}
    groups = [_group(group) for group in result.groups if folded(group.text) not in texts]
    return {
        "phrase": result.phrase.text,
        "start": result.phrase.start,
        "end": result.phrase.end,
        "confidence": None if result.confidence is None else round(result.confidence, 4),
        "suggestions": [*chosen, *groups][:k],
    }


def units(text: str, answers: Sequence[dict[str, Any]], least: int) -> Iterator[dict[str, Any]]:
    """Suggestions as units of a translation memory, the best first.

    The quality of what translates a part of the text only is lowered to that part's share of its letters.
    """
    letters = max(sum(map(str.isalnum, text)), 1)
    rows = []
    for answer in answers:
        share = min(sum(map(str.isalnum, answer["phrase"])) / letters, 1)
        for suggestion in answer["suggestions"]:
            quality = max(int(share * suggestion["quality"]), WORST)
            rows.append({"source": answer["phrase"], "target": suggestion["text"], "quality": quality, "rank": quality})
    rows = [row for row in rows if row["quality"] >= least]
    return iter(sorted(rows, key=lambda row: -row["quality"]))


def _entry(entry: Entry) -> dict[str, Any]:
    place = {"document": entry.origin, "line": 0, "language": entry.target_language}
    return {
        **{"text": entry.target, "quality": QUALITIES[entry.status], "source": "glossary", "count": 0},
        **{"example": entry.example, "note": entry.note, **place},
    }


def _group(group: Group) -> dict[str, Any]:
    hit = group.hits[0] if group.hits else None
    fit = group.score if group.probability is None else group.probability
    place = {"document": "", "line": 0, "language": ""}
    if hit is not None:
        place = {"document": hit.document, "line": hit.line, "language": hit.language}
    quality = max(round(100 * min(max(fit, 0), 1)), WORST)
    return {
        **{"text": group.text, "quality": quality, "source": group.source or "index", "count": group.count},
        **{"example": hit.context if hit else "", "note": "", **place},
    }

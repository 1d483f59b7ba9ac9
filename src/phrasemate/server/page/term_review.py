"""The terms of a document as a person reviews them: a form of rows, and the file of what was kept."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phrasemate.errors import InputError
from phrasemate.text import Term, TermPair, folded, write_pairs
from phrasemate.text.formats.bilingual import write_units
from phrasemate.text.formats.units import Side, Unit

FILES = ("tsv", "xlsx", "tbx", "tmx")
FIELDS = ("term", "equivalent", "verdict", "count", "context", "evidence", "spoken", "score")  # of a row, as "term-0"
_VERDICTS = ("accepted", "rejected", "undecided")


@dataclass(frozen=True, slots=True)
class Row:
    """A term, the equivalent that was chosen or typed, and the verdict: "accepted", "rejected" or "undecided".

    ``context`` is a sentence of the document, ``evidence`` one of the index, ``spoken`` the equivalent's language,
    ``score`` its cosine if it is a candidate.
    """

    term: str
    equivalent: str = ""
    verdict: str = "undecided"
    count: str = ""
    context: str = ""
    evidence: str = ""
    spoken: str = ""
    score: str = ""


def rows_of(form: Mapping[str, Any], most: int) -> list[Row]:
    """The rows of a form that was sent, in their order. Raises InputError for what our page does not send."""
    rows = []
    for number in range(most):
        given = {name: form.get(f"{name}-{number}", "") for name in FIELDS}
        given["verdict"] = given["verdict"] or "undecided"
        if not all(isinstance(value, str) for value in given.values()):
            raise InputError(f"row {number}: a file, expected text")
        if given["verdict"] not in _VERDICTS:
            raise InputError(f"row {number}: the verdict {given['verdict'][:20]!r}; expected accepted or rejected")
        if not given["term"].strip():
            break
        rows.append(Row(**{name: value.strip() for name, value in given.items()}))
    return rows


def file_of(format_: str, rows: Sequence[Row], language: str = "", undecided: bool = False) -> bytes:
    """A term list of the accepted rows (and the undecided ones, if ``undecided``) as a file's bytes.

    A row without an equivalent stays in a list of terms and is left out of a translation memory. Raises InputError for
    another format, MissingExtra.
    """
    kept = [row for row in rows if row.verdict == "accepted" or (undecided and row.verdict == "undecided")]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"terms.{format_}"
        if format_ == "tmx":
            write_units(path, _units(kept, language), (language, ""))
        elif format_ in FILES:
            write_pairs(path, _pairs(kept, language))
        else:
            raise InputError(f"{format_[:20]!r} is no format here; expected one of {', '.join(FILES)}")
        return path.read_bytes()


def _pairs(rows: Sequence[Row], language: str) -> Iterator[TermPair]:
    for number, row in enumerate(rows, 1):
        evidence = row.evidence if _holds(row.evidence, row.equivalent) else ""  # or it was of another candidate
        source = Term(row.term, language, f"t{number}", contexts=(row.context,) if row.context else ())
        target = Term(row.equivalent, row.spoken, f"t{number}", contexts=(evidence,) if evidence else ())
        said = {"count": row.count, "verdict": row.verdict, "target_context": evidence}
        yield TermPair(source, target, _cosine(row.score), said)


def _cosine(score: str) -> float | None:
    """The cosine of a candidate; None for an equivalent that a person has typed."""
    return float(score) if re.fullmatch(r"-?[01]\.[0-9]{1,9}", score) else None


def _holds(sentence: str, phrase: str) -> bool:
    return bool(phrase) and folded(phrase) in folded(sentence)


def _units(rows: Sequence[Row], language: str) -> Iterator[Unit]:
    for row in rows:
        if row.equivalent:
            said = {name: text for name, text in (("context", row.context), ("verdict", row.verdict)) if text}
            yield Unit((Side(row.term, language), Side(row.equivalent, row.spoken)), said)

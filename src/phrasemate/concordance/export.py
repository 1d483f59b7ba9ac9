"""An answer as a file: a table or a workbook of its lines, a term base or a translation memory of its candidates."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from phrasemate.concordance.kwic import Candidate, Column
from phrasemate.errors import InputError
from phrasemate.text.formats.bilingual import write_units
from phrasemate.text.formats.tables import harmless, tsv_line
from phrasemate.text.formats.units import Side, Term, TermPair, Unit
from phrasemate.text.formats.xlsx import write_sheet
from phrasemate.text.term_lists import write_pairs
from phrasemate.utils.storage import NewFile

FORMATS = ("tsv", "xlsx", "tbx", "tmx")
_HEADER = ("phrase", "candidate", "score", "count", "index", "document", "line", "language", "left", "match", "right")
_CONTEXTS = 3  # sentences of a candidate that a term base keeps


def write(path: str | os.PathLike[str], phrase: str, columns: Sequence[Column], language: str = "") -> None:
    """Writes the answers for ``phrase``, by the name of the file: .tsv and .xlsx, .tbx or .tmx.

    Tables have a row for each line of the concordance, with its place and both contexts; text tables are `harmless`.
    A term base has the phrase, in ``language``, and its candidates as one concept, sentences as contexts; a translation
    memory a unit for each candidate, with score, count and its best sentence as properties. Raises InputError,
    MissingExtra.
    """
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix == "tsv":
        with NewFile(path) as file:
            for row in _rows(phrase, columns):
                file.write(tsv_line(map(harmless, row)) + "\n")
    elif suffix == "xlsx":
        write_sheet(path, _rows(phrase, columns), "concordance")
    elif suffix == "tbx":
        write_pairs(path, _pairs(phrase, columns, language))
    elif suffix == "tmx":
        write_units(path, _units(phrase, columns, language), (language, ""))
    else:
        raise InputError(f"{suffix[:20]!r} is no format of a concordance; expected one of {', '.join(FORMATS)}")


def _rows(phrase: str, columns: Sequence[Column]) -> Iterator[Sequence[str | int | float]]:
    yield _HEADER
    for candidate in _candidates(columns):
        for line in candidate.lines:
            facts = (phrase, candidate.text, round(line.hit.score, 4), candidate.count)
            place = (line.index, line.hit.document, line.hit.line, line.hit.language)
            yield *facts, *place, line.left, line.match, line.right


def _pairs(phrase: str, columns: Sequence[Column], language: str) -> Iterator[TermPair]:
    source = Term(phrase, language, "c1")
    for candidate in _candidates(columns):
        contexts = tuple(line.hit.context for line in candidate.lines[:_CONTEXTS])
        yield TermPair(source, Term(candidate.text, _language(candidate), "c1", contexts=contexts), candidate.score)


def _units(phrase: str, columns: Sequence[Column], language: str) -> Iterator[Unit]:
    for candidate in _candidates(columns):
        said = {"score": f"{candidate.score:.4f}", "count": str(candidate.count)}
        if candidate.lines:
            best = max(candidate.lines, key=lambda line: line.hit.score)  # they may be in another order
            said |= {"document": f"{best.hit.document}:{best.hit.line}", "context": best.hit.context}
        yield Unit((Side(phrase, language), Side(candidate.text, _language(candidate))), said)


def _candidates(columns: Iterable[Column]) -> Iterator[Candidate]:
    return (candidate for column in columns for candidate in column.candidates)


def _language(candidate: Candidate) -> str:
    return candidate.lines[0].hit.language if candidate.lines else ""

"""Mate retrieval: two files whose lines correspond; each sentence of the one asks for its own line of the other."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError, ReadError
from phrasemate.evaluate.metrics import Ranking, check_numbers
from phrasemate.rank import numbered
from phrasemate.text.normalize import composed
from phrasemate.types import Run

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


class SentenceSet(NamedTuple):
    """``pair`` such as de-en, and its sentences: sentence i of one language is the mate of i of the other."""

    pair: str
    queries: list[str]
    documents: list[str]
    paths: tuple[Path, Path]

    @property
    def languages(self) -> tuple[str, str]:
        """Of the queries and of the documents."""
        source, _, target = self.pair.partition("-")
        return source, target

    def candidates(self, scores: Floats) -> Floats:
        """The scores (n, n) with -inf where a document reads as the mate does without being it: no wrong answer.

        An accent may be a character of its own in the one and not in the other.
        """
        number = numbered(map(composed, self.documents))
        again = (number[:, None] == number) & ~np.eye(len(number), dtype=bool)
        return np.where(again, np.float32(-np.inf), scores)


def read_set(folder: Path, pair: str) -> SentenceSet:
    """PAIR.SOURCE and PAIR.TARGET of a folder, a sentence a line.

    Raises InputError for files that are absent, empty or differ in length, ReadError for a blank line or one that is
    not UTF-8.
    """
    paths = tuple(folder / f"{pair}.{language}" for language in pair.split("-"))
    if len(paths) != 2:
        raise InputError(f"pair {pair!r}; expected two languages such as de-en")
    queries, documents = (_lines(path) for path in paths)
    if len(queries) != len(documents):
        raise InputError(
            f"{paths[0]} has {len(queries)} lines and {paths[1].name} {len(documents)}; expected as many, mates in line"
        )
    return SentenceSet(pair, queries, documents, (paths[0], paths[1]))


def _lines(path: Path) -> list[str]:
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; expected the sentences of one language, one a line") from error
    except UnicodeDecodeError as error:
        raise ReadError(str(path), 0, f"not UTF-8 ({error.reason})", "convert it to UTF-8") from error
    lines = [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]
    blank = next((number for number, line in enumerate(lines, 1) if not line.strip()), 0)
    if blank:
        raise ReadError(str(path), blank, "a blank line", "expected a sentence a line")
    if not lines:
        raise ReadError(str(path), 0, "an empty file", "expected a sentence a line")
    return lines


def average_precisions(scores: Floats) -> Doubles:
    """(n,) of a matrix (n, n) in which document i is the one answer of query i: 1 / (rank + 1).

    With one answer a query, average precision is the reciprocal rank; where documents tie with the answer it is the
    expected one in a random order. Raises InputError for NaN among the scores.
    """
    check_numbers(scores)
    own = np.diag(scores)[:, None]
    higher, tied = (scores > own).sum(1).astype(np.float64), (scores == own).sum(1) - 1.0
    return Ranking(higher, tied).reciprocal()


def run_precisions(run: Run) -> Doubles:
    """(n,) the same of a ranking, in its order; 0 where it does not list the answer."""
    hits = run.ids == np.arange(len(run.ids))[:, None]
    found: Doubles = np.where(hits.any(1), 1 / (hits.argmax(1) + 1.0), 0.0)
    return found

"""Looking phrases up in text that is not their translation: is the first answer right?

A query is a phrase in its sentence; the collection holds English sentences, none of them the translation of a query's.
An answer is right if the phrase is linked to its wording anywhere in a large parallel text, or if a dictionary gives
it. Wordings are compared as lemmas, without articles and "to". Only queries for which the collection holds a right
wording count. ``bench/lookup_set.py`` makes queries and collections; docs/lookup.md explains them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError, MissingExtra, ReadError
from phrasemate.evaluate.data import json_lines
from phrasemate.evaluate.report import Table
from phrasemate.evaluate.significance import bootstrap, randomisation_test
from phrasemate.text import words
from phrasemate.types import Phrase

HALVES = ("dev", "test")
DEPTH = 10  # answers that are looked at
LEADING = frozenset({"a", "an", "the", "to"})
ENGLISH_FUNCTION_WORDS = frozenset(
    """
    a an the to of in on at by for from with as into onto upon about over under up down out off than and or
    but nor so if that this these those which who whom whose what when where why how there here not no i you
    he she it we they me him her us them my your his its our their mine yours be am is are was were been
    being have has had having do does did will would shall should can could may might must 's 't s t ll re
    ve d m one some any all each every just also too very then now
    """.split()  # noqa: SIM905
)


class LookupQuery(NamedTuple):
    """A phrase to look up.

    ``right``: wordings that are right, as `lemmas` has them. ``sense``: those with the meaning that the phrase has in
    its sentence; None where the phrase is not ambiguous. ``function_start``: whether it begins with a function word.
    """

    phrase: Phrase
    language: str
    domain: str
    right: frozenset[str]
    sense: frozenset[str] | None
    function_start: bool


class Ranks(NamedTuple):
    """Rank of the first right answer of each query, and of the first one of the right sense; 0: first, inf: none."""

    right: NDArray[np.float64]
    sense: NDArray[np.float64]  # NaN where the phrase is not ambiguous


def read_lookups(path: Path, half: str) -> list[LookupQuery]:
    """The queries of a half, "dev" or "test", of a file of ``bench/lookup_set.py``.

    Raises InputError for another half, ReadError for a line that is not a query.
    """
    if half not in HALVES:
        raise InputError(f"half {half!r}; expected {' or '.join(HALVES)}")
    fields = ("text", "start", "end", "language", "domain", "half", "right", "sense", "function_start")
    queries = []
    for number, row in enumerate(json_lines(path, fields), 1):
        try:
            phrase = Phrase(row["text"], row["start"], row["end"])
            sense = None if row["sense"] is None else frozenset(row["sense"])
            query = LookupQuery(
                phrase, row["language"], row["domain"], frozenset(row["right"]), sense, row["function_start"]
            )
        except (InputError, TypeError) as error:
            raise ReadError(str(path), number, str(error), "make it again with bench/lookup_set.py") from error
        if row["half"] == half:
            queries.append(query)
    return queries


def lemmas(wording: str) -> str:
    """Lemmas of an English wording, by which it is compared: no case, no punctuation, no articles and "to" before it.

    Lemmas are those of the package simplemma. Raises MissingExtra where it is not installed.
    """
    parts = [wording[start:end].casefold() for start, end in words(wording)]
    while len(parts) > 1 and parts[0] in LEADING:
        parts = parts[1:]
    return " ".join(map(_word, parts))


@lru_cache(1 << 18)
def lemma(word: str, language: str = "en") -> str:
    """The lemma of a word, case-folded. Raises MissingExtra where the package simplemma is not installed."""
    try:
        from simplemma import lemmatize
    except ImportError as error:
        raise MissingExtra("simplemma", "evaluate") from error
    return lemmatize(word, language).casefold()


def _word(word: str) -> str:
    """The lemma of a case-folded English word without a genitive's s."""
    return lemma(word.removesuffix("'s").removesuffix("’s"))


def answerable(queries: Sequence[LookupQuery], sentences: Iterable[str]) -> list[bool]:
    """Whether the sentences hold a right wording of each query, as whole words."""
    wordings = present({wording for query in queries for wording in query.right}, sentences)
    return [not query.right.isdisjoint(wordings) for query in queries]


def present(wordings: set[str], sentences: Iterable[str]) -> set[str]:
    """Those of the wordings, as `lemmas` has them, that stand in one of the sentences as whole words."""
    longest = max((wording.count(" ") + 1 for wording in wordings), default=0)
    subset: set[str] = set()
    for sentence in sentences:
        parts = [_word(sentence[start:end].casefold()) for start, end in words(sentence)]
        for start in range(len(parts)):
            ends = range(start + 1, min(start + longest, len(parts)) + 1)
            subset.update(wordings.intersection(" ".join(parts[start:end]) for end in ends))
    return subset


def ranks(queries: Sequence[LookupQuery], answers: Sequence[Sequence[str]]) -> Ranks:
    """Where the first right wording stands in each query's answers, best first; only the first `DEPTH` count."""
    right, sense = (np.full(len(queries), np.inf) for _ in range(2))
    for number, (query, wordings) in enumerate(zip(queries, answers, strict=True)):
        compared = [lemmas(wording) for wording in wordings[:DEPTH]]
        right[number] = _first(compared, query.right)
        sense[number] = np.nan if query.sense is None else _first(compared, query.sense)
    return Ranks(right, sense)


def _first(wordings: Sequence[str], right: frozenset[str]) -> float:
    return next((float(place) for place, wording in enumerate(wordings) if wording in right), np.inf)


def strata(query: LookupQuery) -> dict[str, str]:
    """What a query is counted under, beside all: its language, domain, length, kind."""
    length = len(words(query.phrase.text))
    return {
        "language": query.language,
        "domain": query.domain,
        "words": f"{min(length, 3)}{'+' if length > 2 else ''}",
        "kind": "ambiguous" if query.sense is not None else "one meaning",
        "begins with": "function word" if query.function_start else "content word",
    }


def lookup_tables(
    queries: Sequence[LookupQuery], systems: Mapping[str, Ranks], against: str, what: str, seed: int = 0
) -> list[Table]:
    """The table of all systems, and one of each system's right-first share by stratum; ``what`` names the collection.

    p: paired randomisation test of right first against the system ``against``.
    """
    first = {name: (ranks.right < 1).astype(float) for name, ranks in systems.items()}
    rows: list[tuple[Any, ...]] = []
    for name, ranks in systems.items():
        ambiguous = ~np.isnan(ranks.sense)
        p = None if name == against else randomisation_test(first[name], first[against], seed=seed)
        rows.append(
            (
                name,
                bootstrap(first[name], seed=seed),
                float((ranks.right < 5).mean()),
                float((1 / (ranks.right + 1)).mean()),
                bootstrap((ranks.sense[ambiguous] < 1).astype(float), seed=seed) if ambiguous.any() else None,
                p,
            )
        )
    header = ("system", "first", "first five", "MRR", "right sense first", "p")
    title = f"Look-ups: {len(queries):,} phrases, {what}"
    tables = [Table(f"lookup {what}", title, header, tuple(rows), f"[95 % bootstrap interval]; p: against {against}")]
    kinds = [strata(query) for query in queries]
    by_stratum: list[tuple[Any, ...]] = []
    for kind in kinds[0] if kinds else ():
        for value in sorted({row[kind] for row in kinds}):
            chosen = np.array([row[kind] == value for row in kinds])
            by_stratum.append(
                (f"{kind}: {value}", int(chosen.sum()), *(float(s[chosen].mean()) for s in first.values()))
            )
    tables.append(Table(f"strata {what}", f"Right first, {what}", ("phrases", "number", *first), tuple(by_stratum), ""))
    return tables

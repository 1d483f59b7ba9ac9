"""Measure matching of two term lists, French and English, through example sentences: precision and recall.

The terms are defined by acts of Canada. A term has one to four words, is the only one with its wording on its side, and
occurs in at least two sentences of its language. The text consists of sentences of the acts, and of the definitions.
The bundled model and lexicon were made without these acts. There are two settings:

together  All of the text on both sides. A rare term's sentences are then often each other's translations. apart     No
sentence is the translation of one on the other side, as it is for users.

Every second pair is in the dev half. There, settings are chosen and the weights of `phrasemate.match.WEIGHTS` fitted.

    python bench/match.py --setting together
    python bench/match.py --setting apart
    python bench/match.py --setting apart --fit
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import logistic, parser, report, table_rows
from numpy.typing import NDArray
from training_data import key
from translation_domains import LAW, pairs_of

from phrasemate import Document, Model, Phrase, load_model
from phrasemate.encode.pooling import by_examples
from phrasemate.evaluate.report import signature
from phrasemate.examples import ExampleIndex
from phrasemate.match import (
    THRESHOLDS,
    Candidates,
    MatchSettings,
    Occurrences,
    candidates,
    likely_pairs,
    measure_pairs,
    pooling_of,
    select,
    weigh_pairs,
)

LEAST = 2  # least sentences of a term
WORDS = 4  # most words of a term
_PLAIN = re.compile(r"[^\W\d_][^\d%$<>{}_\\()\[\]/\"=;|]{2,}")


class Pair(NamedTuple):
    """French term, its English equivalent, and sentences of both."""

    source: str
    target: str
    source_examples: list[Phrase]
    target_examples: list[Phrase]


def definitions(data: Path) -> Iterator[list[str]]:
    """Yield the rows of the table of defined terms: English and French term, English and French definition, file."""
    return table_rows(data / "terms_general" / "canada_law_defined_terms.en-fr.tsv.gz")


def listed(data: Path) -> list[tuple[str, str]]:
    """Return the defined terms (French, English), each pair once."""
    return [
        sides
        for sides in dict.fromkeys((french, english) for english, french, *_ in definitions(data))
        if all(_PLAIN.fullmatch(side) and len(side.split()) <= WORDS for side in sides)
    ]


def texts(data: Path, apart: bool) -> tuple[list[str], list[str]]:
    """Return the French and the English sentences, each once."""
    examples = ((french, english) for _, _, english, french, *_ in definitions(data))
    both = [*pairs_of(data, "fr", [LAW])[LAW], *examples]
    if not apart:
        return list(dict.fromkeys(french for french, _ in both)), list(dict.fromkeys(english for _, english in both))
    french_texts = {french: None for french, english in both if sha256(key(english).encode()).digest()[0] % 2}
    english_texts = {english: None for french, english in both if french not in french_texts}
    return list(french_texts), list(english_texts)


def drawn(data: Path, apart: bool, limit: int, seed: int) -> list[Pair]:
    """Return the pairs in random order, no wording twice on a side, with up to ``limit`` sentences of each term."""
    entries = listed(data)
    random.Random(seed).shuffle(entries)
    french, english = (ExampleIndex.build([Document.from_texts("text", side)]) for side in texts(data, apart))
    used: tuple[set[str], set[str]] = set(), set()
    pairs_drawn = []
    with french, english:
        for pair in entries:
            if any(side.casefold() in wordings for side, wordings in zip(pair, used, strict=True)):
                continue
            other = english.find(pair[1], limit, seed=seed)
            french_examples = french.find(pair[0], limit, seed=seed) if len(other) >= LEAST else []
            if len(french_examples) >= LEAST:
                pairs_drawn.append(Pair(*pair, french_examples, other))
                for side, wordings in zip(pair, used, strict=True):
                    wordings.add(side.casefold())
    return pairs_drawn


def judged(proposed: Candidates, settings: MatchSettings, gold: dict[int, int]) -> list[Any]:
    """Return the number of matches, precision and recall."""
    selected = select(proposed, settings)
    right = [gold.get(source) == target for source, target in zip(*map(np.ndarray.tolist, selected[:2]), strict=True)]
    return [len(right), float(np.mean(right)), sum(right) / len(gold)]


def selections() -> Iterator[tuple[str, str, MatchSettings]]:
    """Yield a name, a margin and settings of each selection; "scorer": without regard to the terms' other pairs."""
    for margin, thresholds in (
        ("csls", (0.0, 0.1, 0.2, 0.3)),
        ("scorer", (0.0, 0.3)),
        ("probability", (0.0, 0.2, 0.3, 0.4, 0.5, 0.6)),
    ):
        for least in thresholds:
            yield f"mutual, {margin} {least:g}", margin, MatchSettings(threshold=least, mutual=True)
    for margin in ("csls", "probability"):
        least = THRESHOLDS[margin]
        yield f"best, {margin} {least}", margin, MatchSettings(threshold=least)
        yield f"one to one, {margin} {least}", margin, MatchSettings(threshold=least, one_to_one=True)
        yield f"one to one, {margin}", margin, MatchSettings(threshold=-9, one_to_one=True)


def main() -> None:
    """Measure and print the table, or print the fitted weights."""
    options = parser(__doc__)
    options.add_argument("--setting", choices=("together", "apart"), default="together")
    options.add_argument("--half", choices=("dev", "test"), default="test")
    options.add_argument("--fit", action="store_true", help="print weights for the dev half instead of the tables")
    options.add_argument("--examples", type=int, default=8, help="most sentences of a term")
    args = options.parse_args()
    model = load_model(args.model, args.threads)
    half = "dev" if args.fit else args.half
    test = drawn(args.data, args.setting == "apart", args.examples, args.seed)[half == "test" :: 2]
    print(f"{len(test):,} pairs; {Counter(len(p.source.split()) for p in test)} French words")
    same = sum(pair.source.casefold() == pair.target.casefold() for pair in test)
    if args.fit:
        print(*fitted(model, test))
        return
    names = ("setting", "half", "examples", "seed")
    facts = signature(model, pairs=len(test), alike=same, **{name: getattr(args, name) for name in names})
    report(f"match_{args.setting}", *tested_lists(model, test), facts)


def occurrences(model: Model, side: Sequence[tuple[str, list[Phrase]]]) -> Occurrences:
    """Return the terms of a side with the vectors of their sentences."""
    counts = np.array([len(examples) for _, examples in side])
    vectors = model.encode([phrase for _, examples in side for phrase in examples])
    alone = model.encode([Phrase(term, 0, len(term)) for term, _ in side])
    return Occurrences([term for term, _ in side], counts, vectors, alone)


def some(side: Occurrences, numbers: NDArray[np.int64]) -> Occurrences:
    """Return the terms with these numbers."""
    parts = np.split(side.vectors, np.cumsum(side.counts)[:-1])
    vectors = np.concatenate([parts[number] for number in numbers])
    return Occurrences([side.terms[number] for number in numbers], side.counts[numbers], vectors, side.alone[numbers])


class Lists(NamedTuple):
    """Two lists of terms: the numbers of their pairs, their vectors, and the candidates by margin."""

    title: str
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    vectors: tuple[NDArray[np.float32], NDArray[np.float32]]
    by_margin: dict[str, Candidates]

    @property
    def gold(self) -> dict[int, int]:
        """Return the right target of each source term, by places in the lists."""
        place = {int(pair): number for number, pair in enumerate(self.columns)}
        return {number: place[int(pair)] for number, pair in enumerate(self.rows) if int(pair) in place}


def lists_of(model: Model, test: Sequence[Pair]) -> Iterator[Lists]:
    """Yield lists with all pairs, and lists in which only half the terms have a mate."""
    sides = [(p.source, p.source_examples) for p in test], [(p.target, p.target_examples) for p in test]
    bare, pooling = MatchSettings().bare, pooling_of(model)
    first, second = (by_examples(model, *map(list, zip(*side, strict=True)), pooling, bare=bare)[0] for side in sides)
    compared_terms = [occurrences(model, side) for side in sides]
    third = len(test) // 3
    for title, rows, columns in (
        ("all have a mate", np.arange(len(test)), np.arange(len(test))),
        ("half have none", np.arange(2 * third), np.arange(third, 3 * third)),
    ):
        vectors = first[rows], second[columns]
        by_margin = {"csls": candidates(*vectors)}
        if model.scorer is not None:
            source, target = (some(*part) for part in zip(compared_terms, (rows, columns), strict=True))
            by_margin["scorer"] = likely_pairs(source, target, model.scorer, ("fr", "en"))
            by_margin["probability"] = weigh_pairs(by_margin["scorer"], *vectors)
        yield Lists(title, rows, columns, vectors, by_margin)


def fitted(model: Model, dev: Sequence[Pair]) -> list[float]:
    """Return the constant and the weights of CSLS and of the lead.

    They come from a logistic regression over the scorer's pairs of both lists.
    """
    inputs, right = [], []
    for lists in lists_of(model, dev):
        pairs, gold = lists.by_margin["scorer"], lists.gold
        inputs.append(np.column_stack(measure_pairs(pairs, *lists.vectors)[1:]))
        right += [gold.get(one) == two for one, two in zip(pairs.sources.tolist(), pairs.targets.tolist(), strict=True)]
    weights, constant = logistic(np.concatenate(inputs), np.array(right))
    return [round(number, 2) for number in (constant, *weights.tolist())]


def tested_lists(model: Model, test: Sequence[Pair]) -> tuple[list[str], list[list[Any]]]:
    """Return the header and the rows of the table: every selection in both lists."""
    table = [
        [lists.title, name, *judged(lists.by_margin[margin], selection, lists.gold)]
        for lists in lists_of(model, test)
        for name, margin, selection in selections()
        if margin in lists.by_margin
    ]
    return ["lists", "selection", "matches", "P", "R"], table


if __name__ == "__main__":
    main()

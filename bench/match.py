"""Matching two term lists, German and English, through example sentences: how precise, how complete.

Terms: interface terms (LibreOffice, OpenStreetMap presets) of one to four words a side, none of those that the bundled
model was trained on, each wording once a side, each in two or more sentences of the text of its language. Two settings:

together  German sides of en-de, English sides of en-{de,fr,es,cs}, each by itself. A rare term's sentences are then
          often each other's translations, and the bundled model was trained on some of them.
apart     No sentence is the translation of one on the other side, and none was trained on: what users have.

    python bench/match.py --setting together
    python bench/match.py --setting apart --test 1000
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import parallel, parser, report, table_rows
from numpy.typing import NDArray
from training_data import LANGS, chosen, key, pairs, terms, tested

from phrasemate import Document, Model, Phrase, load_model
from phrasemate.encode.pooling import by_examples
from phrasemate.evaluate.report import signature
from phrasemate.examples import ExampleIndex
from phrasemate.match import Candidates, MatchSettings, Occurrences, candidates, likely_pairs, pooling_of, select

SOURCES = ("libreoffice_ui", "osm")
ENGLISH = ("de", "fr", "es", "cs")
TRAINED_TERMS, TRAINED_PAIRS = 40_000, 30_000  # of each language (training_data.py)
LEAST = 2  # sentences a term
_UNUSUAL = re.compile(r"[%$<>{}_\\()\[\]/\"=;|]")
_LETTERS = re.compile(r"[^\W\d_]{3}")


class Pair(NamedTuple):
    """A German term, its English equivalent, and sentences of both."""

    source: str
    target: str
    source_examples: list[Phrase]
    target_examples: list[Phrase]


def listed(data: Path) -> Iterator[tuple[str, str]]:
    """(German, English) interface terms, without marks of menus."""
    for english, german, source in table_rows(data / "terms" / "en-de.tsv.gz"):
        sides = [text.replace("~", "").strip().rstrip(" .:…") for text in (german, english)]
        plain = all(_LETTERS.search(side) and not _UNUSUAL.search(side) for side in sides)
        if source in SOURCES and plain and all(1 <= len(side.split()) <= 4 for side in sides):
            yield sides[0], sides[1]


def trained_terms(data: Path) -> set[tuple[str, str]]:
    """The German entries that the bundled model has seen, folded."""
    entries = list(terms(data, "de"))
    drawn = random.Random(0).sample(entries, min(TRAINED_TERMS, len(entries)))
    return {(german.casefold(), english.casefold()) for german, english in drawn}


def trained_sentences(data: Path) -> set[str]:
    """The German and English sentences that the bundled model has seen."""
    unwanted = tested(data)
    return {
        side
        for lang in LANGS
        for other, english in chosen(pairs(data, lang, unwanted), TRAINED_PAIRS, 0)
        for side in ((other, english) if lang == "de" else (english,))
    }


def texts(data: Path, apart: bool) -> tuple[list[str], list[str]]:
    """German and English sentences, each once."""
    trained = trained_sentences(data) if apart else set()
    both = [pair[:2] for pair in parallel(data, "de")]
    english = [pair.english for lang in ENGLISH for pair in parallel(data, lang)]
    if apart:
        both = [row for row in both if sha256(key(row[0]).encode()).digest()[0] % 2]
        mates = {key(row[0]) for row in both}
        english = [text for text in english if key(text) not in mates]
    german = [row[1] for row in both]
    return [list(dict.fromkeys(text for text in side if text not in trained)) for side in (german, english)]


def drawn(data: Path, apart: bool, most: int, limit: int, seed: int) -> list[Pair]:
    """Up to ``most`` pairs in random order, no wording twice on a side."""
    trained = trained_terms(data)
    entries = [pair for pair in dict.fromkeys(listed(data)) if tuple(map(str.casefold, pair)) not in trained]
    random.Random(seed).shuffle(entries)
    german, english = (ExampleIndex.build([Document.from_texts("text", side)]) for side in texts(data, apart))
    used: tuple[set[str], set[str]] = set(), set()
    pairs_drawn = []
    with german, english:
        for pair in entries:
            if len(pairs_drawn) == most:
                break
            if any(side.casefold() in wordings for side, wordings in zip(pair, used, strict=True)):
                continue
            other = english.find(pair[1], limit, seed=seed)
            german_examples = german.find(pair[0], limit, seed=seed) if len(other) >= LEAST else []
            if len(german_examples) >= LEAST:
                pairs_drawn.append(Pair(*pair, german_examples, other))
                for side, wordings in zip(pair, used, strict=True):
                    wordings.add(side.casefold())
    return pairs_drawn


def judged(proposed: Candidates, settings: MatchSettings, gold: dict[int, int], attested: Iterable[Any]) -> list[Any]:
    """Matches, precision, precision with what the term lists attest otherwise, recall."""
    selected = select(proposed, settings)
    pairs_ = list(zip(selected.sources.tolist(), selected.targets.tolist(), strict=True))
    right = [gold.get(source) == target for source, target in pairs_]
    fine = [hit or pair in attested for hit, pair in zip(right, pairs_, strict=True)]
    return [len(pairs_), float(np.mean(right)), float(np.mean(fine)), sum(right) / len(gold)]


def selections() -> Iterator[tuple[str, MatchSettings]]:
    """What is asked for, by name."""
    for margin, thresholds in (
        ("csls", (-9, 0.1, 0.2, 0.3)),
        ("ratio", (1.05, 1.15, 1.25)),
        ("probability", (0.0, 0.1, 0.2, 0.3, 0.4)),
    ):
        for least in thresholds:
            title = f"mutual, {margin} {least:g}" if least > -9 else "mutual"
            yield title, MatchSettings(margin=margin, threshold=least, mutual=True)
    for margin, least in (("csls", 0.2), ("probability", 0.3)):
        yield f"best, {margin} {least}", MatchSettings(margin=margin, threshold=least)
        yield f"one to one, {margin} {least}", MatchSettings(margin=margin, threshold=least, one_to_one=True)
        yield f"one to one, {margin}", MatchSettings(margin=margin, threshold=-9, one_to_one=True)


def main() -> None:
    """Print and write the tables."""
    options = parser(__doc__)
    options.add_argument("--setting", choices=("together", "apart"), default="together")
    options.add_argument("--test", type=int, default=2_000, help="pairs")
    options.add_argument("--examples", type=int, default=8, help="sentences a term")
    args = options.parse_args()
    model = load_model(args.model, args.threads)
    test = drawn(args.data, args.setting == "apart", args.test, args.examples, args.seed)
    print(f"{len(test):,} pairs; {Counter(len(p.source.split()) for p in test)} German words")
    same = sum(pair.source.casefold() == pair.target.casefold() for pair in test)
    facts = signature(model, setting=args.setting, test=len(test), alike=same, examples=args.examples, seed=args.seed)
    report(f"match_{args.setting}", *tested_lists(model, args.data, test), facts)


def occurrences(model: Model, side: Sequence[tuple[str, list[Phrase]]]) -> Occurrences:
    """Terms of a side with the vectors of their sentences."""
    counts = np.array([len(examples) for _, examples in side])
    vectors = model.encode([phrase for _, examples in side for phrase in examples])
    alone = model.encode([Phrase(term, 0, len(term)) for term, _ in side])
    return Occurrences([term for term, _ in side], counts, vectors, alone)


def some(side: Occurrences, numbers: NDArray[np.int64]) -> Occurrences:
    """Some of the terms."""
    parts = np.split(side.vectors, np.cumsum(side.counts)[:-1])
    vectors = np.concatenate([parts[number] for number in numbers])
    return Occurrences([side.terms[number] for number in numbers], side.counts[numbers], vectors, side.alone[numbers])


def tested_lists(model: Model, data: Path, test: Sequence[Pair]) -> tuple[list[str], list[list[Any]]]:
    """The held-out pairs with the settings that users get: all, and lists of which only half the terms have a mate."""
    settings = MatchSettings()
    first, second = (
        by_examples(model, *map(list, zip(*side, strict=True)), pooling_of(model), bare=settings.bare)[0]
        for side in ([(p.source, p.source_examples) for p in test], [(p.target, p.target_examples) for p in test])
    )
    compared = [occurrences(model, [(p.source, p.source_examples) for p in test])]
    compared.append(occurrences(model, [(p.target, p.target_examples) for p in test]))
    lists = set(listed(data))
    table: list[list[Any]] = []
    third = len(test) // 3
    for title, rows_, columns in (
        ("all have a mate", np.arange(len(test)), np.arange(len(test))),
        ("half have none", np.arange(2 * third), np.arange(third, 3 * third)),
    ):
        place = {int(pair): number for number, pair in enumerate(columns)}
        gold = {number: place[int(pair)] for number, pair in enumerate(rows_) if int(pair) in place}
        attested = {
            (i, j)
            for i, a in enumerate(rows_)
            for j, b in enumerate(columns)
            if (test[a].source, test[b].target) in lists
        }
        by_margin = {how: candidates(first[rows_], second[columns], how=how) for how in ("csls", "ratio")}
        if model.scorer is not None:
            sides = some(compared[0], rows_), some(compared[1], columns)
            by_margin["probability"] = likely_pairs(*sides, model.scorer, ("de", "en"))
        for name, selection in selections():
            if selection.margin not in by_margin:
                continue
            table.append([title, name, *judged(by_margin[selection.margin], selection, gold, attested)])
    return ["lists", "selection", "matches", "P", "P with other entries", "R"], table


if __name__ == "__main__":
    main()

"""Matching two term lists, German and English, through example sentences: which vectors, how precise, how complete.

Terms: interface terms (LibreOffice, OpenStreetMap presets) of one to four words a side, none of those that the bundled
model was trained on, each wording once a side, each in two or more sentences of the text of its language. Some are the
development set, on which settings are chosen, the others are held out. Two settings:

together  German sides of en-de, English sides of en-{de,fr,es,cs}, each by itself. A rare term's sentences are then
          often each other's translations, and the bundled model was trained on some of them.
apart     No sentence is the translation of one on the other side, and none was trained on: what users have.

    python bench/match.py --setting together
    python bench/match.py --setting apart --dev 500 --test 1000
    python bench/match.py --scale 20000
"""

from __future__ import annotations

import gzip
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from common import parser, report
from numpy.typing import NDArray
from training_data import LANGS, chosen, key, pairs, terms, tested

from phrasemate import Document, Model, Phrase, load_model
from phrasemate.encode.example_pooling import by_examples
from phrasemate.encode.pooling import pool_mean, token_rows, unit
from phrasemate.evaluate.report import signature
from phrasemate.examples import ExampleIndex
from phrasemate.match import Candidates, MatchSettings, assign, candidates, pooling_of, select

SOURCES = ("libreoffice_ui", "osm")
ENGLISH = ("de", "fr", "es", "cs")
TRAINED_TERMS, TRAINED_PAIRS = 40_000, 30_000  # of each language (bench/training_data.py)
LEAST = 2  # sentences a term
_UNUSUAL = re.compile(r"[%$<>{}_\\()\[\]/\"=;|]")
_LETTERS = re.compile(r"[^\W\d_]{3}")

Floats = NDArray[np.float32]


class Pair(NamedTuple):
    """A German term, its English equivalent, and sentences of both."""

    source: str
    target: str
    source_examples: list[Phrase]
    target_examples: list[Phrase]


def rows(path: Path) -> Iterator[list[str]]:
    """The rows of a table with tabs."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n").split("\t")


def listed(data: Path) -> Iterator[tuple[str, str]]:
    """(German, English) interface terms, without marks of menus."""
    for english, german, source in rows(data / "terms" / "en-de.tsv.gz"):
        sides = [text.replace("~", "").strip().rstrip(" .:…") for text in (german, english)]
        plain = all(_LETTERS.search(side) and not _UNUSUAL.search(side) for side in sides)
        if source in SOURCES and plain and all(1 <= len(side.split()) <= 4 for side in sides):
            yield sides[0], sides[1]


def trained_terms(data: Path) -> set[tuple[str, str]]:
    """The German entries that the bundled model has seen, folded."""
    found = list(terms(data, "de"))
    drawn = random.Random(0).sample(found, min(TRAINED_TERMS, len(found)))
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
    both = [row[:2] for row in rows(data / "parallel" / "en-de.tsv.gz")]
    english = [row[0] for lang in ENGLISH for row in rows(data / "parallel" / f"en-{lang}.tsv.gz")]
    if apart:
        both = [row for row in both if sha256(key(row[0]).encode()).digest()[0] % 2]
        mates = {key(row[0]) for row in both}
        english = [text for text in english if key(text) not in mates]
    german = [row[1] for row in both]
    return [list(dict.fromkeys(text for text in side if text not in trained)) for side in (german, english)]


def drawn(data: Path, apart: bool, most: int, limit: int, seed: int) -> list[Pair]:
    """Up to ``most`` pairs in random order, no wording twice on a side."""
    seen = trained_terms(data)
    wanted = [pair for pair in dict.fromkeys(listed(data)) if tuple(map(str.casefold, pair)) not in seen]
    random.Random(seed).shuffle(wanted)
    german, english = (ExampleIndex.build([Document.from_texts("text", side)]) for side in texts(data, apart))
    used: tuple[set[str], set[str]] = set(), set()
    found = []
    with german, english:
        for pair in wanted:
            if len(found) == most:
                break
            if any(side.casefold() in known for side, known in zip(pair, used, strict=True)):
                continue
            other = english.find(pair[1], limit, seed=seed)
            own = german.find(pair[0], limit, seed=seed) if len(other) >= LEAST else []
            if len(own) >= LEAST:
                found.append(Pair(*pair, own, other))
                for side, known in zip(pair, used, strict=True):
                    known.add(side.casefold())
    return found


def pooled(model: Model, items: Sequence[Phrase]) -> dict[str, Floats]:
    """(items, dim) for each pooling, from one pass of the encoder, as long as they come."""
    contexts = {item.context: None for item in items}
    place = {context: number for number, context in enumerate(contexts)}
    number = np.array([place[item.context] for item in items])
    starts, ends = np.array([(item.start, item.end) for item in items], np.int32).T
    pools: dict[str, Any] = {"mean": pool_mean, **({"head": model.head} if model.head else {})}
    found: dict[str, Any] = {name: [None] * len(items) for name in pools}
    for part, states in model.runtime.blocks(list(contexts)):
        own = np.flatnonzero((number >= part.start) & (number < part.stop))
        at = token_rows(states, number[own] - part.start, starts[own], ends[own])
        for name, pool in pools.items():
            for row, vector in zip(own.tolist(), pool(states.values, *at), strict=True):
                found[name][row] = vector
    return {name: np.array(vectors, np.float32) for name, vectors in found.items()}


def variants(
    model: Model, sides: Sequence[Sequence[tuple[str, Sequence[Phrase]]]]
) -> Iterator[tuple[str, list[Floats]]]:
    """Every representation of the terms of two sides: its name, and the vectors of both."""
    parts: list[dict[str, dict[Any, Floats]]] = []
    for side in sides:
        items = [item for _, examples in side for item in examples] + [Phrase(t, 0, len(t)) for t, _ in side]
        owner = np.repeat(np.arange(len(side)), [len(examples) for _, examples in side])
        rank = np.concatenate([np.arange(len(examples)) for _, examples in side])
        means: dict[str, dict[Any, Floats]] = {}
        for name, vectors in pooled(model, items).items():
            means[name] = {"bare": unit(vectors[len(owner) :])}
            for count in (1, 2, 4, max(len(examples) for _, examples in side)):
                sums = np.zeros((len(side), vectors.shape[1]), np.float32)
                np.add.at(sums, owner[rank < count], vectors[: len(owner)][rank < count])
                means[name][count] = unit(sums)
        parts.append(means)
    most = max(count for count in parts[0]["mean"] if count != "bare")
    for pooling in ("mean", "head", "mean+head"):
        names = [name for name in pooling.split("+") if name in parts[0]]
        for title, count, weight in (
            ("bare phrase", "bare", 0.0),
            ("examples", most, 0.0),
            *((f"examples, bare {weight:g}", most, weight) for weight in (0.75, 1.5, 3)),
            *((f"{count} of the examples, bare 1.5", count, 1.5) for count in (1, 2, 4)),
        ):
            vectors = []
            for means, side in zip(parts, sides, strict=True):
                numbers = [min(len(examples), most if count == "bare" else int(count)) for _, examples in side]
                share = (weight / np.sqrt(numbers)).astype(np.float32)[:, None]
                mixed = [unit(means[name][count] + share * means[name]["bare"]) for name in names]
                vectors.append(unit(np.concatenate(mixed, 1)))
            yield f"{pooling}, {title}", vectors


def at_least(right: NDArray[np.bool_], size: int, precision: float) -> float:
    """The recall that is reached with this precision; ``right`` by falling margin."""
    hits = np.cumsum(right)
    fine = np.flatnonzero(hits >= precision * np.arange(1, len(right) + 1))
    return float(hits[fine[-1]] / size) if len(fine) else 0.0


def measured(vectors: Sequence[Floats]) -> list[float]:
    """acc@1 both ways by cosine, mutual best: precision, recall, precision at recall .65, recall at precision .92."""
    size = len(vectors[0])
    cosines, gold = vectors[0] @ vectors[1].T, np.arange(size)
    found = candidates(vectors[0], vectors[1])
    mutual = found.only(found.mutual)
    order = np.argsort(-mutual.margins, kind="stable")
    right = (mutual.sources == mutual.targets)[order]
    enough = np.flatnonzero(np.cumsum(right) >= 0.65 * size)
    there = right[: enough[0] + 1].mean() if len(enough) else np.nan
    figures = [(cosines.argmax(1) == gold).mean(), (cosines.argmax(0) == gold).mean(), right.mean(), right.sum() / size]
    return [float(figure) for figure in (*figures, there, at_least(right, size, 0.92))]


def judged(found: Candidates, settings: MatchSettings, gold: dict[int, int], known: Iterable[Any]) -> list[Any]:
    """Matches, precision, precision with what the term lists attest otherwise, recall."""
    kept = select(found, settings)
    pairs_ = list(zip(kept.sources.tolist(), kept.targets.tolist(), strict=True))
    right = [gold.get(source) == target for source, target in pairs_]
    fine = [hit or pair in known for hit, pair in zip(right, pairs_, strict=True)]
    return [len(pairs_), float(np.mean(right)), float(np.mean(fine)), sum(right) / len(gold)]


def selections() -> Iterator[tuple[str, MatchSettings]]:
    """What is asked for, by name."""
    for margin, thresholds in (("csls", (-9, 0.1, 0.2, 0.3)), ("ratio", (1.05, 1.15, 1.25))):
        for least in thresholds:
            title = f"mutual, {margin} {least:g}" if least > -9 else "mutual"
            yield title, MatchSettings(margin=margin, threshold=least, mutual=True)
    yield "best, csls 0.2", MatchSettings(threshold=0.2)
    yield "one to one, csls 0.2", MatchSettings(threshold=0.2, one_to_one=True)
    yield "one to one", MatchSettings(threshold=-9, one_to_one=True)


def main() -> None:
    """Print and write the tables."""
    options = parser(__doc__)
    options.add_argument("--setting", choices=("together", "apart"), default="together")
    options.add_argument("--dev", type=int, default=1_000, help="pairs to choose settings on, as far as there are any")
    options.add_argument("--test", type=int, default=2_000, help="pairs that are held out")
    options.add_argument("--examples", type=int, default=8, help="sentences a term")
    options.add_argument("--scale", type=int, help="only: time and memory with as many random terms a side")
    args = options.parse_args()
    if args.scale:
        scale(args.scale, args.seed)
        return
    model = load_model(args.model, args.threads)
    found = drawn(args.data, args.setting == "apart", args.test + args.dev, args.examples, args.seed)
    test, dev = found[: args.test], found[args.test :][: args.dev]
    print(f"{len(found):,} pairs; {Counter(len(p.source.split()) for p in found)} German words; test {len(test):,}")
    same = sum(pair.source.casefold() == pair.target.casefold() for pair in test)
    facts = signature(
        model, setting=args.setting, dev=len(dev), test=len(test), alike=same, examples=args.examples, seed=args.seed
    )
    if dev:
        sides = [[(p.source, p.source_examples) for p in dev], [(p.target, p.target_examples) for p in dev]]
        header = ["vectors", "acc@1 ->", "acc@1 <-", "P mutual", "R mutual", "P at R .65", "R at P .92"]
        table = [[name, *measured(vectors)] for name, vectors in variants(model, sides)]
        report(f"match_{args.setting}_dev", header, table, facts)
    report(f"match_{args.setting}", *tested_lists(model, args.data, test), facts)


def tested_lists(model: Model, data: Path, test: Sequence[Pair]) -> tuple[list[str], list[list[Any]]]:
    """The held-out pairs with the settings that users get: all, and lists of which only half the terms have a mate."""
    settings = MatchSettings()
    first, second = (
        by_examples(model, *map(list, zip(*side, strict=True)), pooling_of(model), bare=settings.bare)[0]
        for side in ([(p.source, p.source_examples) for p in test], [(p.target, p.target_examples) for p in test])
    )
    lists = set(listed(data))
    table: list[list[Any]] = []
    third = len(test) // 3
    for title, rows_, columns in (
        ("all have a mate", np.arange(len(test)), np.arange(len(test))),
        ("half have none", np.arange(2 * third), np.arange(third, 3 * third)),
    ):
        place = {int(pair): number for number, pair in enumerate(columns)}
        gold = {number: place[int(pair)] for number, pair in enumerate(rows_) if int(pair) in place}
        known = {
            (i, j)
            for i, a in enumerate(rows_)
            for j, b in enumerate(columns)
            if (test[a].source, test[b].target) in lists
        }
        by_margin = {how: candidates(first[rows_], second[columns], how=how) for how in ("csls", "ratio")}
        for name, wanted in selections():
            table.append([title, name, *judged(by_margin[wanted.margin], wanted, gold, known)])
    return ["lists", "selection", "matches", "P", "P with other entries", "R"], table


def scale(size: int, seed: int) -> None:
    """Seconds of the processor, on whatever threads, and memory, without the encoder."""
    draw = np.random.default_rng(seed)
    source = draw.standard_normal((size, 576), np.float32)
    target = source + draw.standard_normal((size, 576), np.float32) + np.float32(0.5)
    vectors = unit(source), unit(target[draw.permutation(size)])
    table = []
    began = process_time()
    found = candidates(*vectors)
    table.append(["neighbours both ways, margins", len(found.sources), process_time() - began])
    began = process_time()
    taken = assign(found)
    table.append(["one to one", int(taken.sum()), process_time() - began])
    memory = getrusage(RUSAGE_SELF).ru_maxrss / 1024
    facts = signature(None, terms=f"{size} x {size}", dimensions=576, seed=seed, peak_mb=round(memory))
    report("match_scale", ["step", "pairs", "processor seconds"], table, facts)


if __name__ == "__main__":
    main()

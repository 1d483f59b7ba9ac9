"""Measure the terms of documents: average precision of rankings against a glossary.

The documents come from the distinct sentences of one source of the parallel texts, shuffled and cut into documents of
13,000 words (30 pages). Each document is in one language. The glossary has the strings of LibreOffice's interface in
that language, of one to six words, that do not end in a full stop, question mark or exclamation mark. A phrase of a
document is right if it is in the glossary (the same words, ignoring case). Average precision is over all right phrases
that occur in the document, proposed or not. English and German documents with even numbers were used for development.
The test consists of the others, and of French and Czech documents. p is that of the paired randomisation test over
documents.

The rankings are those of `phrasemate.terms`, all over the same proposed phrases. "n-grams" ranks the proposals of the
n-gram segmenter, by termhood (with the probabilities of the learned segmenter) and by frequency.

    python bench/terms.py
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import parser, report, table_rows

from phrasemate import Document, Model, load_model
from phrasemate.evaluate.metrics import randomisation_test
from phrasemate.evaluate.report import signature
from phrasemate.termhood import PhraseStatistics, describe, tokenizer_reference
from phrasemate.terms import SCORES, TermSettings, find_phrases, wording

WORDS = 13_000  # words of a document
SOURCES = {"libreoffice_help": 4, "gnome_help": 2, "debian_guide": 2, "mozilla_www": 2}  # most documents of each source
ALL = TermSettings(belief=0.0, most=None)
Statistics = Mapping[str, PhraseStatistics]


class Text(NamedTuple):
    """Document of the benchmark."""

    language: str
    source: str
    number: int
    sentences: list[str]


def column_of(language: str) -> tuple[str, int]:
    """Return the file of a language, and its column there."""
    return (f"en-{language}.tsv.gz", 1) if language != "en" else ("en-de.tsv.gz", 0)


def documents(data: Path, language: str) -> list[Text]:
    """Return the documents of a language."""
    name, column = column_of(language)
    pools: dict[str, dict[str, None]] = {source: {} for source in SOURCES}
    for row in table_rows(data / "parallel" / name):
        if row[2] in pools:
            pools[row[2]][row[column]] = None
    return [
        Text(language, source, number, cut)
        for source, pool in pools.items()
        for number, cut in enumerate(cuts(sorted(pool), SOURCES[source]))
    ]


def cuts(sentences: list[str], count: int) -> list[list[str]]:
    """Shuffle sentences and cut them into at most ``count`` documents of 13,000 words."""
    random.Random(1).shuffle(sentences)
    documents_cut, current, size = [], [], 0
    for sentence in sentences:
        current.append(sentence)
        size += len(sentence.split())
        if size >= WORDS:
            documents_cut.append(current)
            current, size = [], 0
    return documents_cut[:count]


def glossary(data: Path, language: str) -> set[str]:
    """Return the wordings of the glossary in a language."""
    name, column = column_of(language)
    cells = (
        row[column].replace("_", "").strip() for row in table_rows(data / "terms" / name) if row[2] == "libreoffice_ui"
    )
    wordings = {wording(cell) for cell in cells if cell[-1:] not in set(".?!")}
    return {key for key in wordings if key and len(key.split(" ")) <= ALL.max_words}


def average_precision(order: Sequence[str], gold: set[str]) -> float:
    """Return the average precision of a ranking."""
    right = np.array([key in gold for key in order], float)
    precision = np.cumsum(right) / np.arange(1, len(right) + 1)
    return float((precision * right).sum() / max(1, len(gold)))


def order_of(proposed: Statistics, scores: Mapping[str, float]) -> list[str]:
    """Rank phrases as `phrasemate.terms.rank_phrases` does: equal scores by frequency, then by place."""
    return sorted(proposed, key=lambda key: (-scores[key], -proposed[key].count))


def measure(text: Text, gold: set[str], model: Model) -> dict[str, float]:
    """Return the average precision of each ranking, and facts about the document."""
    started = time.perf_counter()
    everything = find_phrases([Document.from_texts(text.source, text.sentences)], model, ALL)
    seconds = time.perf_counter() - started
    describe(everything, text.language, tokenizer_reference(model.runtime.tokenizer), model.ngram.common)
    right = gold & set(everything)
    proposed = {key: item for key, item in everything.items() if item.greatest >= TermSettings().belief}
    ngrams = {wording(s[span.start : span.end]) for s in text.sentences for span in model.ngram(s)}
    alike = {key: item for key, item in everything.items() if key in ngrams}
    scores = {name: score(proposed) for name, score in SCORES.items()}
    figures = {name: average_precision(order_of(proposed, item), right) for name, item in scores.items()}
    for name in ("frequency", "termhood"):
        figures[f"n-grams, {name}"] = average_precision(order_of(alike, SCORES[name](alike)), right)
    several = {key: item for key, item in proposed.items() if item.words > 1}
    long = {key for key in right if " " in key}
    for name in ("frequency", "termhood"):
        figures[f"several words, {name}"] = average_precision(order_of(several, scores[name]), long)
    return figures | {"glossary": len(right), "proposed": len(proposed), "seconds": seconds}


def rankings(args: argparse.Namespace, model: Model) -> None:
    """Measure all documents and print the table and the comparisons."""
    results: dict[Any, dict[str, float]] = {}
    for language in ("en", "de", "fr", "cs"):
        gold = glossary(args.data, language)
        for text in documents(args.data, language):
            if language in ("fr", "cs") or text.number % 2:
                results[text[:3]] = measure(text, gold, model)
                print(*text[:3], {k: round(v, 3) for k, v in results[text[:3]].items()}, file=sys.stderr)
    names = list(next(iter(results.values())))
    groups: dict[str, list[Any]] = defaultdict(list)
    for key in results:
        groups[f"{key[0]} {key[1]}"].append(key)
    table = [
        [name, *(float(np.mean([results[key][name] for key in keys])) for keys in (*groups.values(), list(results)))]
        for name in names
    ]
    for name, base in COMPARED:
        pair = [[figures[which] for figures in results.values()] for which in (name, base)]
        better = sum(one > other for one, other in zip(*pair, strict=True))
        p = randomisation_test(*pair)
        print(f"{name} against {base}: better in {better} of {len(pair[0])} documents, p = {p:.2g}")
    facts = signature(model, part="test", documents=len(results), words=WORDS, test="paired randomisation")
    report("terms_test", ["ranking", *groups, "all"], table, facts)


COMPARED = [
    ("termhood", "frequency"),
    ("termhood", "n-grams, frequency"),
    ("termhood", "expected"),
    ("termhood", "cvalue"),
    ("several words, termhood", "several words, frequency"),
]


def main() -> None:
    args = parser(__doc__).parse_args()
    rankings(args, load_model(args.model, threads=args.threads))


if __name__ == "__main__":
    main()

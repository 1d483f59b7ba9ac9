"""The terms of a document: average precision of rankings against a glossary, and candidate translations.

Documents: the different sentences of one source of the parallel texts, shuffled, cut into documents of 13,000 words
(30 pages); each is read in one language by itself. Glossary: the strings of LibreOffice's interface in that language,
of one to six words, without a full stop, question or exclamation mark at the end. Right are the phrases of a document
that are in the glossary (same words, cases folded); average precision is over all of these that occur in it, proposed
or not. English and German documents of even number were looked at while choosing (``--part dev``); the test is made of
the others, and of French and Czech. A p-value is of the paired randomisation test over documents.

Rankings, all over the same proposed phrases: those of `phrasemate.terms`; "without p" (ln(1 + f) / n) and "without n"
(p ln(1 + f)), which are parts of termhood; and two that know how frequent words are elsewhere, from the scores that the
encoder's tokenizer gives to them: "weirdness" (ln(1 + f) times the mean of ln(share here / share elsewhere)) and
"tf-idf" (ln(1 + f) times the mean of -ln(share elsewhere)). "n-grams" ranks what the n-gram segmenter proposes by
termhood (p from the learned one) and by frequency.

Translations: the time for all, and terms of two German test documents that a dictionary or the glossary has: right is
one of the first k wordings that stands there for it. The index is one that is given, or made of English sentences of
other sources.

    python bench/terms.py --part dev
    python bench/terms.py --part test
    python bench/terms.py --part translations
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import parser, report

from phrasemate import Document, Index, Model, Searcher, load_model
from phrasemate.evaluate.report import signature
from phrasemate.evaluate.significance import randomisation_test
from phrasemate.terms import TermSettings, document_terms, extract_terms, translate_terms, wording
from phrasemate.terms.extract import SCORES, Found, find_phrases
from phrasemate.text import words

WORDS = 13_000
SOURCES = {"libreoffice_help": 4, "gnome_help": 2, "debian_guide": 2, "mozilla_www": 2}  # documents of each
ALL = TermSettings(belief=0.0, most=None)
Proposed = Mapping[str, Found]


class Text(NamedTuple):
    """A document of the benchmark."""

    language: str
    source: str
    number: int
    sentences: list[str]


def column_of(language: str) -> tuple[str, int]:
    """The file of a language, and its column there."""
    return (f"en-{language}.tsv.gz", 1) if language != "en" else ("en-de.tsv.gz", 0)


def rows(path: Path) -> Iterable[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n").split("\t")


def documents(data: Path, language: str) -> list[Text]:
    name, column = column_of(language)
    pools: dict[str, dict[str, None]] = {source: {} for source in SOURCES}
    for row in rows(data / "parallel" / name):
        if row[2] in pools:
            pools[row[2]][row[column]] = None
    return [
        Text(language, source, number, cut)
        for source, pool in pools.items()
        for number, cut in enumerate(cuts(sorted(pool), SOURCES[source]))
    ]


def cuts(sentences: list[str], count: int) -> list[list[str]]:
    """Shuffled, in at most ``count`` documents of 13,000 words."""
    random.Random(1).shuffle(sentences)
    found, current, size = [], [], 0
    for sentence in sentences:
        current.append(sentence)
        size += len(sentence.split())
        if size >= WORDS:
            found.append(current)
            current, size = [], 0
    return found[:count]


def glossary(data: Path, language: str) -> set[str]:
    name, column = column_of(language)
    cells = (row[column].replace("_", "").strip() for row in rows(data / "terms" / name) if row[2] == "libreoffice_ui")
    kept = {wording(cell) for cell in cells if cell[-1:] not in set(".?!")}
    return {key for key in kept if key and len(key.split(" ")) <= ALL.max_words}


def average_precision(order: Sequence[str], gold: set[str]) -> float:
    right = np.array([key in gold for key in order], float)
    precision = np.cumsum(right) / np.arange(1, len(right) + 1)
    return float((precision * right).sum() / max(1, len(gold)))


class Elsewhere:
    """How frequent words are in the text that the encoder's tokenizer was made of: a Unigram model of 100 languages."""

    def __init__(self, model: Model) -> None:
        self.tokenizer = model.runtime.tokenizer
        state = json.loads(self.tokenizer.to_str())
        self.scores = [score for _, score in state["model"]["vocab"]]

    def logs(self, found: Iterable[str]) -> dict[str, float]:
        """Ln of the share of each word."""
        asked = list(found)
        encoded = self.tokenizer.encode_batch(asked, add_special_tokens=False)
        return {word: sum(self.scores[i] for i in each.ids) for word, each in zip(asked, encoded, strict=True)}


def by_reference(found: Proposed, sentences: Sequence[str], elsewhere: Elsewhere) -> dict[str, dict[str, float]]:
    """The two rankings that know other text."""
    counts = Counter(wording(text[a:b]) for text in sentences for a, b in words(text))
    total = counts.total()
    logs = elsewhere.logs(counts)
    scores: dict[str, dict[str, float]] = {"weirdness": {}, "tf-idf": {}}
    for key, each in found.items():
        parts = key.split(" ")
        rare = np.mean([-logs.get(part, -20.0) for part in parts])
        here = np.mean([math.log(max(1, counts[part]) / total) for part in parts])
        scores["weirdness"][key] = math.log1p(each.count) * float(here + rare)
        scores["tf-idf"][key] = math.log1p(each.count) * float(rare)
    return scores


def order_of(found: Proposed, scores: Mapping[str, float]) -> list[str]:
    """As `phrasemate.terms.extract.ranked`: equal scores by frequency, then by place."""
    return sorted(found, key=lambda key: (-scores[key], -found[key].count))


def measure(text: Text, gold: set[str], model: Model, elsewhere: Elsewhere) -> dict[str, float]:
    """Average precision of each ranking, and what there is to know of the document."""
    started = time.perf_counter()
    everything = find_phrases([Document.from_texts(text.source, text.sentences)], model, ALL)
    seconds = time.perf_counter() - started
    right = gold & set(everything)
    proposed = {key: each for key, each in everything.items() if each.greatest >= TermSettings().belief}
    ngrams = {wording(s[span.start : span.end]) for s in text.sentences for span in model.ngram(s)}
    alike = {key: each for key, each in everything.items() if key in ngrams}
    scores = {name: score(proposed) for name, score in SCORES.items()}
    scores |= by_reference(proposed, text.sentences, elsewhere)
    scores["without p"] = {key: math.log1p(each.count) / each.words for key, each in proposed.items()}
    scores["without n"] = {key: math.log1p(each.count) * each.belief for key, each in proposed.items()}
    found = {name: average_precision(order_of(proposed, each), right) for name, each in scores.items()}
    for name in ("frequency", "termhood"):
        found[f"n-grams, {name}"] = average_precision(order_of(alike, SCORES[name](alike)), right)
    several = {key: each for key, each in proposed.items() if each.words > 1}
    long = {key for key in right if " " in key}
    for name in ("frequency", "termhood"):
        found[f"several words, {name}"] = average_precision(order_of(several, scores[name]), long)
    return found | {"glossary": len(right), "proposed": len(proposed), "seconds": seconds}


def rankings(args: argparse.Namespace, model: Model) -> None:
    elsewhere, results = Elsewhere(model), {}
    for language in ("en", "de") if args.part == "dev" else ("en", "de", "fr", "cs"):
        gold = glossary(args.data, language)
        for text in documents(args.data, language):
            chosen_by = language in ("en", "de") and text.number % 2 == 0
            if chosen_by == (args.part == "dev"):
                results[text[:3]] = measure(text, gold, model, elsewhere)
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
        pair = [[each[which] for each in results.values()] for which in (name, base)]
        better = sum(one > other for one, other in zip(*pair, strict=True))
        p = randomisation_test(*pair)
        print(f"{name} against {base}: better in {better} of {len(pair[0])} documents, p = {p:.2g}")
    facts = signature(model, part=args.part, documents=len(results), words=WORDS, test="paired randomisation")
    report(f"terms_{args.part}", ["ranking", *groups, "all"], table, facts)


COMPARED = [
    ("termhood", "frequency"),
    ("termhood", "n-grams, frequency"),
    ("termhood", "expected"),
    ("termhood", "cvalue"),
    ("termhood", "without p"),
    ("termhood", "without n"),
    ("termhood", "tf-idf"),
    ("several words, termhood", "several words, frequency"),
]


def translations(args: argparse.Namespace, model: Model) -> None:
    equivalents: defaultdict[str, set[str]] = defaultdict(set)
    for english, german, _ in rows(args.data / "terms" / "en-de.tsv.gz"):
        key = wording(english.replace("_", ""))
        equivalents[wording(german.replace("_", ""))] |= {key, key.removeprefix("to ")}
    texts = [
        text
        for text in documents(args.data, "de")
        if text.number == 1 and text.source in ("gnome_help", "debian_guide")
    ]
    with tempfile.TemporaryDirectory() as scratch:
        index = (args.index and Index.open(args.index, model, readonly=True)) or built(args, Path(scratch), model)
        searcher = Searcher(index, views=not args.quick)
        table = [row for text in texts for row in translated(text, searcher, equivalents)]
        stats = searcher.index.stats()
        facts = signature(model, quick=args.quick, index=f"{stats.sentences:,} sentences, {stats.phrases:,} phrases")
    report(
        "terms_translations",
        ["document", "terms", "occurrences", "first", "first 5", "seconds", "CPU seconds"],
        table,
        facts,
    )


def built(args: argparse.Namespace, folder: Path, model: Model) -> Index:
    """English sentences of other sources than the documents'."""
    other = {row[0] for row in rows(args.data / "parallel" / "en-de.tsv.gz") if row[2] in ("libreoffice_help", "ddtp")}
    sentences = sorted(other)
    random.Random(1).shuffle(sentences)
    index = Index.create(folder / "idx", model)
    index.add([Document.from_texts("other", sentences[: args.size])], lang="en")
    return index


def translated(text: Text, searcher: Searcher, equivalents: Mapping[str, set[str]]) -> list[list[Any]]:
    document = Document.from_texts(text.source, text.sentences)
    clocks = Clocks()
    whole = document_terms(document, searcher)
    table: list[list[Any]] = [[text.source, len(whole), "as a user asks", "", "", *clocks.read()]]
    terms = extract_terms([document], searcher.model, TermSettings(most=3000))
    known = [term for term in terms if wording(term.text) in equivalents][:500]
    for examples in (1, 2, 4, 8):
        clocks = Clocks()
        found = translate_terms(known, searcher, TermSettings(examples=examples))
        right = [[wording(group.text) in equivalents[wording(term.text)] for group in term.groups] for term in found]
        first, five = (float(np.mean([any(each[:k]) for each in right])) for k in (1, 5))
        table.append([text.source, len(known), examples, first, five, *clocks.read()])
    return table


class Clocks:
    """Seconds since it was made: that passed, and that this process computed."""

    def __init__(self) -> None:
        self.started = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self.started[0], time.process_time() - self.started[1]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--part", choices=("dev", "test", "translations"), default="test")
    options.add_argument("--index", type=Path, help="an index of English (default: one is made)")
    options.add_argument("--size", type=int, default=20_000, help="sentences of the index that is made")
    options.add_argument("--quick", action="store_true", help="translations without a second look at hits")
    args = options.parse_args()
    model = load_model(args.model, threads=args.threads)
    (translations if args.part == "translations" else rankings)(args, model)


if __name__ == "__main__":
    main()

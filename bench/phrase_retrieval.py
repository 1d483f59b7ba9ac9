"""Contextual phrase retrieval after CCPR, section 6.2: is the very gold span ranked first?

Query: a marked phrase in its sentence. Index: every span of one to six white-space words that begins and ends in a
letter or digit, of all target sentences of the set plus the gold spans, and of the distractor sentences. Exact search;
nothing is kept but the number of spans that beat the gold one.

    python bench/phrase_retrieval.py --pooling ends head
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from common import parser, report, signature

from phrasemate import Model, Phrase, load_model
from phrasemate.encode.pool import pool_ends, pool_mean, token_rows, unit
from phrasemate.evaluate import accuracy, mean_reciprocal_rank

SETS = ("de", "cs", "ro", "fr")
MAX_WORDS = 6


def distractors(data: Path, count: int) -> list[str]:
    """English sides of four corpora, lower-cased, as the protocol draws them."""
    found = set()
    for lang in ("de", "fr", "cs", "es"):
        with gzip.open(data / "parallel" / f"en-{lang}.tsv.gz", "rt", encoding="utf-8") as file:
            for _, line in zip(range(15_000), file, strict=False):
                text = line.split("\t")[0].lower()
                if 21 <= len(text) <= 199:
                    found.add(text)
    texts = sorted(found)
    random.Random(1).shuffle(texts)
    return texts[:count]


def spans(text: str) -> list[tuple[int, int]]:
    """Spans of one to six white-space words that begin and end in a letter or digit."""
    words, at = [], 0
    for word in text.split():
        at = text.index(word, at)
        words.append((at, at + len(word)))
        at += len(word)
    return [
        (words[i][0], words[j][1])
        for i in range(len(words))
        for j in range(i, min(i + MAX_WORDS, len(words)))
        if text[words[i][0]].isalnum() and text[words[j][1] - 1].isalnum()
    ]


def vectors(model: Model, texts: list[str], found: list[list[tuple[int, int]]], poolings: list[str]) -> Iterator[Any]:
    """Block by block: {pooling: (spans, dim)} of the spans of the texts."""
    pools = {"ends": pool_ends, "mean": pool_mean, "head": model.head}
    for part, states in model.runtime.blocks(texts):
        pairs = [
            token_rows(states, row, *np.array(each, np.int32).reshape(-1, 2).T) for row, each in enumerate(found[part])
        ]
        first, last = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
        yield {name: unit(pools[name](states.values, first, last)) for name in poolings}


class Set:
    """One set: its queries and gold vectors, and how many spans have beaten each gold span so far."""

    def __init__(self, data: Path, lang: str, model: Model, poolings: list[str]) -> None:
        with (data / "phrase_bench" / f"{lang}-en.jsonl").open(encoding="utf-8") as file:
            self.pairs = [json.loads(line) for line in file]
        sources = [Phrase(p["source"], p["start"], p["end"]) for p in self.pairs]
        golds = [Phrase(p["target"], p["target_start"], p["target_end"]) for p in self.pairs]
        self.queries = {name: model.encode(sources, pooling=name) for name in poolings}
        self.gold = {name: (self.queries[name] * model.encode(golds, pooling=name)).sum(1) for name in poolings}
        self.ranks = {name: np.zeros(len(self.pairs)) for name in poolings}

    def targets(self) -> tuple[list[str], list[list[tuple[int, int]]]]:
        """The target sentences (each once) and their spans less the gold ones."""
        gold: dict[str, set[tuple[int, int]]] = {}
        for p in self.pairs:
            gold.setdefault(p["target"], set()).add((p["target_start"], p["target_end"]))
        return list(gold), [sorted({*spans(text), *own}) for text, own in gold.items()]

    def count(self, block: dict[str, np.ndarray]) -> None:
        """Spans of a block that score higher; the same span again differs by rounding, hence the margin."""
        for name, found in block.items():
            self.ranks[name] += (self.queries[name] @ found.T > self.gold[name][:, None] + 1e-5).sum(1)


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--pooling", nargs="+", default=None, help="ends, mean, head (default: all that there are)")
    options.add_argument("--sentences", type=int, default=12_000, help="distractor sentences")
    args = options.parse_args()
    model = load_model(args.model, args.threads)
    poolings = args.pooling or ["mean", "ends", *(["head"] if model.head else [])]
    sets = {lang: Set(args.data, lang, model, poolings) for lang in SETS}
    for each in sets.values():
        for block in vectors(model, *each.targets(), poolings):
            each.count(block)
    texts, total = distractors(args.data, args.sentences), 0
    for at in range(0, len(texts), 1_000):
        part = texts[at : at + 1_000]
        found = [spans(text) for text in part]
        total += sum(map(len, found))
        for block in vectors(model, part, found, poolings):
            for each in sets.values():
                each.count(block)
    rows = [
        [name, measure, *(function(each.ranks[name]) for each in sets.values())]
        for name in poolings
        for measure, function in _MEASURES.items()
    ]
    report("phrase_retrieval", ["vectors", "measure", *SETS], rows, signature(model, distractor_spans=total))


_MEASURES = {"acc@1": accuracy, "acc@10": lambda ranks: accuracy(ranks, 10), "MRR": mean_reciprocal_rank}

if __name__ == "__main__":
    main()

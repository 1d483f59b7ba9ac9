"""What a search costs beside the least that finds anything: one pass of the encoder, FAISS, and the sentences.

Both answer the same marked queries from the same index with the same weights, in turns, by processor time. A turn asks
German sentences of the corpora, each with a phrase marked, first one by one and then all at once; another one begins
each turn. The script encodes each phrase in its context, asks the index's FAISS file for the nearest phrases and reads
their sentences. It proposes nothing, groups nothing and has no confidence.

    phrasemate index corpus/ -o idx --lang en
    python bench/search_cost.py --index idx --threads 1
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
from common import milliseconds, parser, report
from index import german

from phrasemate import Index, Searcher, load_model
from phrasemate.evaluate.report import signature
from phrasemate.index.faiss_search import read_faiss
from phrasemate.index.manifest import VECTORS_JSON, VectorsManifest
from phrasemate.query import parse_query
from phrasemate.utils.machine import load_faiss

QUERIES = 25  # of each turn, which no other turn asks: nothing is looked up twice
NEAREST = 32


class Script:
    """The least: encode, ask FAISS, read the sentences."""

    def __init__(self, folder: Path, model: Any, threads: int) -> None:
        manifest = VectorsManifest.read(folder / VECTORS_JSON)
        self._index, self._model, self._threads = read_faiss(folder / manifest.file), model, threads
        self._firsts = np.array([first for first, _ in manifest.runs])
        self._before = np.array([0, *accumulate(count for _, count in manifest.runs)])
        self._store = sqlite3.connect(f"file:{folder / 'store.sqlite'}?mode=ro", uri=True)

    def __call__(self, queries: list[str]) -> list[list[str]]:
        load_faiss(self._threads)
        vectors = self._model.encode([parse_query(query).phrases[0] for query in queries])
        rows = self._index.search(vectors, NEAREST)[1]
        runs = np.searchsorted(self._before, rows, "right") - 1
        return [
            [self._sentence(int(number)) for number in line] for line in self._firsts[runs] + rows - self._before[runs]
        ]

    def _sentence(self, phrase: int) -> str:
        query = "SELECT text FROM sentences WHERE first_phrase <= ? AND phrases > 0 ORDER BY first_phrase DESC LIMIT 1"
        return str(self._store.execute(query, (phrase,)).fetchone()[0])


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--index", type=Path, required=True, help="an index that is large enough for a FAISS file")
    options.add_argument("--rounds", type=int, default=5)
    args = options.parse_args()
    threads = args.threads or 1
    model = load_model(args.model, threads)
    with Index.open(args.index, model, readonly=True, threads=threads) as index:
        script = Script(args.index, model, threads)
        sentences = german(args.data, model, QUERIES * (args.rounds + 1), args.seed)
        systems: dict[str, Callable[[list[str]], Any]] = {
            "FAISS script": script,
            "quick search": Searcher(index, model, views=False).search_all,
            "search": Searcher(index, model).search_all,
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in systems}
        for turn in range(args.rounds + 1):
            queries = sentences[turn * QUERIES : (turn + 1) * QUERIES]
            order = [*systems][turn % len(systems) :] + [*systems][: turn % len(systems)]
            for name in order:
                search = systems[name]
                single = mean(milliseconds(partial(search, [query]), time.process_time) for query in queries)
                batch = milliseconds(partial(search, queries), time.process_time) / len(queries)
                if turn:  # the first warms up
                    times[name].append((single, batch))
        facts = index.stats()
    header = ["system", "ms a query, single", "ratio", "ms a query, batch", "ratio"]
    least = [median(column) for column in zip(*times["FAISS script"], strict=True)]
    rows = []
    for name, pairs in times.items():
        single, batch = (median(column) for column in zip(*pairs, strict=True))
        rows.append([name, single, single / least[0], batch, batch / least[1]])
    report("search_cost", header, rows, signature(model, phrases=facts.phrases, threads=threads, rounds=args.rounds))


if __name__ == "__main__":
    main()

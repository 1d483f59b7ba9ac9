"""The search file with FAISS's own factory, training and k-means beside ours: whole searches, encoding included.

One index is searched with several files in memory, in turns, by processor time: ours, and files that
``faiss.index_factory`` makes of the same vectors. All propose candidates by 4-bit codes of the same size, and 8-bit
vectors re-score them. Recall is that of vectors of German phrases against exact search of the index.

    python bench/stock_faiss.py --index idx --threads 1
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from common import parser, report
from index import german

from phrasemate import Index, Searcher, load_model
from phrasemate.evaluate.report import signature
from phrasemate.index import row_codec
from phrasemate.index.exact import scan
from phrasemate.index.faiss_build import Filling, training_size
from phrasemate.index.faiss_search import Asking, Faiss, Layout
from phrasemate.index.types import IndexSettings
from phrasemate.query import parse_query
from phrasemate.utils.machine import load_faiss

FILES = [  # name, factory string of FAISS ("": ours), inverted lists, candidates
    ("ours", "", 0, 128),
    ("stock", "PQ64x4fs", 0, 128),
    ("stock", "PQ64x4fs", 0, 384),
    ("ours, lists", "", 1024, 128),
    ("stock, lists", "IVF1024,PQ64x4fs", 1024, 384),
]
BLOCK = 16_384
HEADER = ["file", "factory", "candidates", "build s", "recall@1", "recall@10", "vectors ms", "search ms", "quick ms"]


def built(codes: Any, factory: str, lists: int, settings: IndexSettings) -> tuple[Any, float]:
    """A FAISS index of (n, dim) int8 vectors, and the processor seconds that it took."""
    faiss, start = load_faiss(), time.process_time()
    layout = Layout(lists, codes.shape[1] // 3)
    sample = row_codec.spread(codes, training_size(layout, settings))
    if factory:
        index: Any = faiss.index_factory(codes.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
        if lists:
            index.by_residual, index.cp.niter, index.cp.max_points_per_centroid = False, 10, 64
        index.train(row_codec.dequantise(sample))
    else:
        index = Filling.train(layout, sample)
    for at in range(0, len(codes), BLOCK):
        index.add(row_codec.dequantise(codes[at : at + BLOCK]))
    return (index if factory else index.finished()), time.process_time() - start


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--index", type=Path, required=True, help="an index that is large enough for a FAISS file")
    options.add_argument("--queries", type=int, default=200, help="of a turn (default: %(default)s)")
    options.add_argument("--rounds", type=int, default=3)
    args = options.parse_args()
    threads, settings = args.threads or 1, IndexSettings()
    load_faiss(threads)
    model = load_model(args.model, threads)
    queries = german(args.data, model, args.queries, args.seed)
    vectors = model.encode([parse_query(query).phrases[0] for query in queries])
    with Index.open(args.index, model, readonly=True, threads=threads) as index:
        index.search(vectors[:1], 1)
        present = index._view.faiss
        codes = np.array(present._codes)
        truth = exact(vectors, codes)
        engines = []
        for name, factory, lists, candidates in FILES:
            same = next((e for e in engines if e[1:3] == (factory, lists)), None)
            file, spent = (same[4], same[5]) if same else built(codes, factory, lists, settings)
            engine = Faiss(file, codes, present.manifest, settings, threads)
            engine.asking = Asking(settings.nprobe, 4.0, candidates)
            engines.append((name, factory, lists, candidates, file, spent, engine))
        full, quick = Searcher(index, model), Searcher(index, model, views=False)
        calls = {
            "vectors ms": lambda: index.search(vectors, 32),
            "search ms": lambda: full.search_all(queries),
            "quick ms": lambda: quick.search_all(queries),
        }
        times: dict[tuple[int, str], list[float]] = {}
        for turn in range(args.rounds + 1):
            for number, (*_, engine) in enumerate(engines):
                index._view.faiss = engine
                for kind, call in calls.items():
                    start = time.process_time()
                    call()
                    if turn:  # the first warms up
                        spent = 1000 * (time.process_time() - start) / len(queries)
                        times.setdefault((number, kind), []).append(spent)
        phrases = index.stats().phrases
    rows = []
    for number, (name, factory, lists, candidates, _, spent, engine) in enumerate(engines):
        scores = engine.search(vectors, 32)[1]
        recalls = [float((scores[:, :k] >= truth[:, k - 1 : k] - 1e-5).mean()) for k in (1, 10)]
        spents = [median(times[number, kind]) for kind in calls]
        rows.append([name, factory or Layout(lists, codes.shape[1] // 3).factory, candidates, spent, *recalls, *spents])
    facts = signature(model, phrases=phrases, threads=threads, queries=args.queries, rounds=args.rounds)
    report("stock_faiss", HEADER, rows, facts)


def exact(vectors: Any, codes: Any) -> Any:
    """(queries, 10) best scores of all phrases."""
    blocks = (
        (row_codec.dequantise(codes[at : at + BLOCK]), np.arange(at, min(at + BLOCK, len(codes))))
        for at in range(0, len(codes), BLOCK)
    )
    return scan(vectors, 10, blocks)[1]


if __name__ == "__main__":
    main()

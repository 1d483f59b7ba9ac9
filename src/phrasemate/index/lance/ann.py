"""Searching the vectors of an index of Lance tables: Lance proposes, the 8-bit codes decide."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from phrasemate.index import row_codec
from phrasemate.index.exact import Exact, Floats, Ids, best, scan
from phrasemate.index.lance.store import LanceStore, codes_of
from phrasemate.index.lance.tables import PHRASES, translate_errors
from phrasemate.index.store import State
from phrasemate.index.types import Settings
from phrasemate.utils.cpu import cores

_CANDIDATES = 256  # re-scored at least (docs/scale.md)
_PER_RESULT = 4
_PROBES = 64  # lists read for each query; more where these do not hold enough that pass a filter


class LanceView:
    """As `phrasemate.index.snapshot_search.View`.

    Up to ``Settings.exact_below`` phrases are held in memory and compared one by one. Of more, Lance's index proposes
    candidates; it compares the rows that are newer than the index by itself, so nothing is ever invisible. Without
    any index it reads all vectors for each query.
    """

    def __init__(self, store: LanceStore, settings: Settings, threads: int | None) -> None:
        self._store, self._settings = store, settings
        self._threads = threads or cores()
        self.reset()

    def reset(self) -> None:
        """Forget all; the next search reads it again."""
        self._held: tuple[int, Exact] | None = None  # generation, all vectors while they are few

    def search(self, state: State, vectors: Floats, k: int, documents: Ids | None, passing: int) -> tuple[Ids, Floats]:
        """The k best live phrases, of ``documents`` (ids) only if given; they hold ``passing`` phrases together."""
        if state.phrases <= self._settings.exact_below:
            return self._exact(state).search(vectors, k, documents)
        self._held = None
        if documents is not None and passing <= self._settings.exact_filtered:
            return scan(vectors, k, self._chosen(documents))
        where = None if documents is None else f"document IN ({', '.join(map(str, documents.tolist()))})"
        none = np.zeros((0, k), np.int64), np.zeros((0, k), np.float32)  # there may be no query
        with ThreadPoolExecutor(self._threads) as pool:
            found = [none, *pool.map(lambda vector: self._ask(vector, k, where), vectors)]
        return np.concatenate([ids for ids, _ in found]), np.concatenate([scores for _, scores in found])

    def _exact(self, state: State) -> Exact:
        if self._held is None or self._held[0] != state.generation:
            exact = Exact(self._store.dim, self._settings.block)
            exact.extend(self._store.vectors())
            if len(exact) != state.phrases:
                raise self._store.damaged(f"{len(exact)} phrases found, expected {state.phrases}")
            self._held = state.generation, exact
        return self._held[1]

    def _ask(self, vector: Floats, k: int, where: str | None) -> tuple[Ids, Floats]:
        """One query, (dim,) -> (1, k) ids and scores."""
        nearest = {
            "column": "vector",
            "q": vector.astype(np.float16),
            "k": max(k * _PER_RESULT, _CANDIDATES),
            "minimum_nprobes": _PROBES,
            "search_effort": 0.0,  # the least at first
            "metric": "cosine",
        }
        with translate_errors(self._store.path):
            table = self._store.table(PHRASES).to_table(
                columns=["key", "vector", "_distance"], nearest=nearest, filter=where, prefilter=where is not None
            )
        codes = codes_of(table["vector"], self._store.dim)
        ids = self._store.layout.ids(table["key"].to_numpy())
        scores = vector @ row_codec.dequantise(codes).T if len(codes) else np.zeros(0, np.float32)
        return best(ids[None], np.asarray(scores, np.float32)[None], k)

    def _chosen(self, documents: Ids) -> Iterator[tuple[Floats, Ids]]:
        """The vectors of some documents, block by block."""
        table, layout, size = self._store.table(PHRASES), self._store.layout, self._settings.block
        for stretch in (stretch for document in documents.tolist() for stretch in layout.stretches[document]):
            first = stretch.first_phrase - layout.dead_phrases.below(stretch.first_phrase)
            for start in range(0, stretch.phrases, size):
                count = min(size, stretch.phrases - start)
                with translate_errors(self._store.path):
                    found = table.take(list(range(first + start, first + start + count)), columns=["key", "vector"])
                ids = layout.ids(found["key"].to_numpy())
                if len(ids) != count or ids[0] != stretch.first_phrase + start:
                    raise self._store.damaged(f"the phrases of document {stretch.document} are not where they belong")
                yield row_codec.dequantise(codes_of(found["vector"], self._store.dim)), ids


def index_of(table: Any) -> dict[str, Any] | None:
    """Lance's index of the vectors, if there is one: its kind, the rows that it covers, its bytes."""
    for index in table.describe_indices():
        if "vector" in index.field_names:
            return {"kind": index.index_type, "rows": index.num_rows_indexed, "bytes": index.total_size_bytes}
    return None

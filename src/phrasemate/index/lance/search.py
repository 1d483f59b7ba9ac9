"""Search in an index of Lance tables: nearest vectors, and sentences that contain a text.

Lance's vector index proposes candidates, which are ranked by the cosines of their 8-bit codes. The text index is a
table of all texts in lower case with Lance's trigram index, built by ``optimize``. Its version and the number of
sentences that it covers are in the head (`Stamp`). Newer sentences are scanned, deleted ones are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import numpy as np

from phrasemate.errors import IndexMissing
from phrasemate.index import fulltext, row_codec
from phrasemate.index.exact import Exact, best, scan
from phrasemate.index.fulltext import check, forms, lowered
from phrasemate.index.lance.commit import Writer
from phrasemate.index.lance.records import WORDS_KEY, Head, Stamp
from phrasemate.index.lance.store import LanceStore, codes_of
from phrasemate.index.lance.tables import PHRASES, SENTENCES, WORDS, Tables, compact, schema, translate_errors
from phrasemate.index.store import State
from phrasemate.index.types import ALL_IDS, IdRange, IndexSettings, Scope
from phrasemate.utils.arrays import Floats, Ids
from phrasemate.utils.machine import cores

_CANDIDATES = 256  # minimum number of candidates of a query (results/log/scale.md)
_PER_RESULT = 4  # candidates per requested result
_PROBES = 64  # inverted lists read for a query; more if a filter leaves too few candidates in them


class LanceView:
    """Vector search in Lance tables; the counterpart of `phrasemate.index.snapshot_search.View`.

    Up to ``IndexSettings.exact_below`` phrases are held in memory and searched exactly. In a larger index Lance's
    vector index proposes candidates. Lance scans the rows that are newer than its index, so every phrase is found.
    Without a vector index, Lance reads all vectors for each query.
    """

    def __init__(self, store: LanceStore, settings: IndexSettings, threads: int | None) -> None:
        self._store, self._settings = store, settings
        self._threads = threads or cores()
        self.reset()

    def reset(self) -> None:
        """Drop the vectors in memory; the next search reads them again."""
        self._cached: tuple[int, Exact] | None = None  # generation, and all vectors of a small index

    def search(self, state: State, vectors: Floats, k: int, scope: Scope) -> tuple[Ids, Floats]:
        """Find the k nearest phrases of the documents in ``scope``: (queries, dim) -> (queries, k) ids and cosines."""
        documents = scope.documents
        if state.phrases <= self._settings.exact_below:
            return self._exact(state).search(vectors, k, documents)
        self._cached = None
        if documents is not None and scope.phrases <= self._settings.exact_filtered:
            return scan(vectors, k, self._vectors_of(documents))
        where = None if documents is None else f"document IN ({', '.join(map(str, documents.tolist()))})"
        no_rows = np.zeros((0, k), np.int64), np.zeros((0, k), np.float32)  # there may be no query
        with ThreadPoolExecutor(self._threads) as pool:
            results = [no_rows, *pool.map(lambda vector: self._search_one(vector, k, where), vectors)]
        return np.concatenate([ids for ids, _ in results]), np.concatenate([scores for _, scores in results])

    def _exact(self, state: State) -> Exact:
        """Return the exact search over all vectors, read once per generation."""
        if self._cached is None or self._cached[0] != state.generation:
            exact = Exact(self._store.dim, self._settings.block)
            exact.extend(block for block, _ in self._store.checked_vectors())
            if len(exact) != state.phrases:
                raise self._store.damaged(f"{len(exact)} phrases found, expected {state.phrases}")
            self._cached = state.generation, exact
        return self._cached[1]

    def _search_one(self, vector: Floats, k: int, where: str | None) -> tuple[Ids, Floats]:
        """Search for one query, (dim,) -> (1, k) ids and scores; ``where`` is a filter of Lance."""
        nearest = {
            "column": "vector",
            "q": vector.astype(np.float16),
            "k": max(k * _PER_RESULT, _CANDIDATES),
            "minimum_nprobes": _PROBES,
            "search_effort": 0.0,  # start with the minimum
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

    def _vectors_of(self, documents: Ids) -> Iterator[tuple[Floats, Ids]]:
        """Read the vectors and ids of some documents, block by block."""
        table, layout, size = self._store.table(PHRASES), self._store.layout, self._settings.block
        for stretch in (stretch for document in documents.tolist() for stretch in layout.stretches[document]):
            first = stretch.first_phrase - layout.dead_phrases.below(stretch.first_phrase)
            for start in range(0, stretch.phrases, size):
                count = min(size, stretch.phrases - start)
                with translate_errors(self._store.path):
                    rows = table.take(list(range(first + start, first + start + count)), columns=["key", "vector"])
                ids = layout.ids(rows["key"].to_numpy())
                if len(ids) != count or ids[0] != stretch.first_phrase + start:
                    raise self._store.damaged(f"the phrases of document {stretch.document} are not where they belong")
                yield row_codec.dequantise(codes_of(rows["vector"], self._store.dim)), ids


def index_of(table: Any) -> dict[str, Any] | None:
    """Describe Lance's vector index of a table: its kind, covered rows and bytes; None if there is none."""
    for index in table.describe_indices():
        if "vector" in index.field_names:
            return {"kind": index.index_type, "rows": index.num_rows_indexed, "bytes": index.total_size_bytes}
    return None


INDEX = "text_idx"  # name of the trigram index in Lance
_BATCH = 8192  # sentences read together
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def arrow_lowered(text: str) -> str:
    """Lower a text as in the table of the text index: U+0000 replaces lone surrogates, which Arrow cannot store."""
    return _LONE_SURROGATE.sub("\0", fulltext.lowered(text))


def condition(lowered_forms: Sequence[str]) -> str | None:
    """Write the filter of Lance for texts that contain one of the ``lowered_forms``; None if Lance cannot search them.

    Lance cannot search texts with U+0000 or lone surrogates, or texts that lower-casing would change.
    """
    if any("\0" in text or arrow_lowered(text) != text for text in lowered_forms):
        return None
    return " OR ".join("contains(text, '" + text.replace("'", "''") + "')" for text in lowered_forms)


def update(tables: Tables, writer: Writer) -> None:
    """Add new sentences to the text index and remove those of deleted documents; build it if there is none."""
    head, stamp = writer.head, Stamp.of(writer.head)
    if stamp is not None:
        try:
            stamp = stamp._replace(version=tables.go_back(WORDS, stamp.version))
        except IndexMissing:  # the table was removed, which loses nothing: it is derived from the sentences
            # versions of a new table start from 1, so the old version must leave the head first
            writer.put(WORDS_KEY, None)
            stamp = None
    if stamp is None:
        stamp = Stamp(tables.create_empty(WORDS, head.dim), 0)
    version, sentences, _ = stamp
    if head.next_sentence > sentences:
        version = tables.append(WORDS, tables.write(WORDS, _texts(tables, head, sentences)), version)
    with translate_errors(tables.place):
        table = tables.open(WORDS, version)
        if head.deleted and table.count_rows(dead_condition := f"document IN ({', '.join(map(str, head.deleted))})"):
            table.delete(dead_condition)
    table = tables.open(WORDS, compact(tables, WORDS))
    with translate_errors(tables.place):
        if any(index.name == INDEX for index in table.describe_indices()):
            table.optimize.optimize_indices()
        elif table.count_rows():
            table.create_scalar_index("text", "NGRAM", name=INDEX)
    writer.put(WORDS_KEY, Stamp(int(tables.open(WORDS).version), head.next_sentence)._asdict())


def _texts(tables: Tables, head: Head, first: int) -> Any:
    """Return an Arrow reader of text-index rows for the sentences from id ``first`` on."""
    import pyarrow as pa

    columns, sentences = schema(WORDS, head.dim), tables.open(SENTENCES, head.versions[SENTENCES])

    def batches() -> Iterator[Any]:
        for batch in sentences.to_batches(
            columns=["id", "document", "text"], filter=f"id >= {first}", batch_size=_BATCH, scan_in_order=True
        ):
            texts = [arrow_lowered(row_codec.decode_text(text)) for text in batch["text"].to_pylist()]
            yield pa.record_batch([batch["id"], batch["document"], pa.array(texts, pa.string())], schema=columns)

    return pa.RecordBatchReader.from_batches(columns, batches())


_SCAN_FIRST = 8192  # texts that are scanned before the index is used: a frequent text is found among them


class LanceTexts:
    """Substring search like `phrasemate.index.fulltext.TextSearch`, by Lance's trigram index.

    Lance compares the text of each sentence that its index proposes. For a text without three letters or digits in a
    row, it reads all sentences. Sentences that the index does not cover are scanned here. All sentences are scanned if
    ``optimize`` has built no index, or if the text has lone surrogates or U+0000.
    """

    def __init__(self, store: LanceStore) -> None:
        self._store = store
        self._cached: tuple[tuple[int, str], list[int]] = ((-1, ""), [])

    def containing(self, phrase: str, limit: int) -> list[int]:
        """Return the ids of up to ``limit`` sentences that contain ``phrase``, ignoring case, ascending."""
        check(phrase, limit)
        with self._store.reading():
            return list(islice(self._holding([lowered(phrase)]), limit))

    def candidates(self, phrase: str, ids: IdRange = ALL_IDS) -> list[int]:
        """Return the ids of sentences that contain ``phrase`` or another of its `forms`, ascending; case is ignored.

        ``ids``: range of ids, and the maximum number of results.
        """
        check(phrase, ids.limit)
        with self._store.reading() as state:
            key = (state.generation, phrase)
            if self._cached[0] != key:  # the last result is cached, since callers ask for it range by range
                lowered_forms = list(dict.fromkeys(lowered(form) for form in forms(phrase)))
                self._cached = key, list(self._holding(lowered_forms))
            return [identity for identity in self._cached[1] if ids.first <= identity < ids.before][: ids.limit]

    def _holding(self, lowered_forms: Sequence[str]) -> Iterator[int]:
        """Yield the ids of sentences that contain one of the forms, ascending."""
        words, query = self._store.words(), condition(lowered_forms)
        newer = None
        if words is not None and query is not None:
            newer = f"id >= {words[1]}"
            yield from self._search_indexed(lowered_forms, query)
        for batch in self._store.batches(SENTENCES, ["id", "text"], newer):
            for identity, text in zip(batch["id"].to_pylist(), batch["text"].to_pylist(), strict=True):
                lower = lowered(row_codec.decode_text(text))
                if any(form in lower for form in lowered_forms):
                    yield identity

    def _search_indexed(self, lowered_forms: Sequence[str], query: str) -> Iterator[int]:
        """Yield the ids of matching live sentences of the text index: scan the first ones, then use the trigrams."""
        dead = self._store.layout.dead_sentences
        with translate_errors(self._store.path):
            first = self._store.table(WORDS).head(_SCAN_FIRST, columns=["id", "text"])
        ids = first["id"].to_numpy()
        dead_flags = dead.contains(ids)
        for identity, text, is_dead in zip(ids.tolist(), first["text"].to_pylist(), dead_flags.tolist(), strict=True):
            if not is_dead and any(form in text for form in lowered_forms):
                yield identity
        if len(ids) < _SCAN_FIRST:
            return
        for batch in self._store.batches(WORDS, ["id"], f"id > {ids[-1]} AND ({query})"):
            batch_ids = batch["id"].to_numpy()
            yield from batch_ids[~dead.contains(batch_ids)].tolist()

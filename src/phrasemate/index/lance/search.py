"""Search in an index of Lance tables: nearest vectors, and sentences that contain a text.

Lance proposes vectors, the 8-bit codes decide. The text index is a table of all texts in lower case, with Lance's index
of trigrams. It is derived from the sentences and made by ``optimize``; the head says which version of it is in force
and how many sentences it knows (`Stamp`). Newer sentences are read one by one, deleted ones are passed over.
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

_CANDIDATES = 256  # re-scored at least (results/log/scale.md)
_PER_RESULT = 4
_PROBES = 64  # lists read for each query; more where these do not hold enough that pass a filter


class LanceView:
    """Vector search in Lance tables; the counterpart of `phrasemate.index.snapshot_search.View`.

    Up to ``IndexSettings.exact_below`` phrases are held in memory and compared one by one. Of more, Lance's index
    proposes candidates; it compares the rows that are newer than the index by itself, so nothing is ever invisible.
    Without any index it reads all vectors for each query.
    """

    def __init__(self, store: LanceStore, settings: IndexSettings, threads: int | None) -> None:
        self._store, self._settings = store, settings
        self._threads = threads or cores()
        self.reset()

    def reset(self) -> None:
        """Forget all; the next search reads it again."""
        self._held: tuple[int, Exact] | None = None  # generation, all vectors while they are few

    def search(self, state: State, vectors: Floats, k: int, scope: Scope) -> tuple[Ids, Floats]:
        """The k best live phrases of the documents that are searched."""
        documents = scope.documents
        if state.phrases <= self._settings.exact_below:
            return self._exact(state).search(vectors, k, documents)
        self._held = None
        if documents is not None and scope.phrases <= self._settings.exact_filtered:
            return scan(vectors, k, self._chosen(documents))
        where = None if documents is None else f"document IN ({', '.join(map(str, documents.tolist()))})"
        no_rows = np.zeros((0, k), np.int64), np.zeros((0, k), np.float32)  # there may be no query
        with ThreadPoolExecutor(self._threads) as pool:
            results = [no_rows, *pool.map(lambda vector: self._ask(vector, k, where), vectors)]
        return np.concatenate([ids for ids, _ in results]), np.concatenate([scores for _, scores in results])

    def _exact(self, state: State) -> Exact:
        if self._held is None or self._held[0] != state.generation:
            exact = Exact(self._store.dim, self._settings.block)
            exact.extend(block for block, _ in self._store.checked_vectors())
            if len(exact) != state.phrases:
                raise self._store.damaged(f"{len(exact)} phrases found, expected {state.phrases}")
            self._held = state.generation, exact
        return self._held[1]

    def _ask(self, vector: Floats, k: int, where: str | None) -> tuple[Ids, Floats]:
        """Search for one query, (dim,) -> (1, k) ids and scores."""
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
                    rows = table.take(list(range(first + start, first + start + count)), columns=["key", "vector"])
                ids = layout.ids(rows["key"].to_numpy())
                if len(ids) != count or ids[0] != stretch.first_phrase + start:
                    raise self._store.damaged(f"the phrases of document {stretch.document} are not where they belong")
                yield row_codec.dequantise(codes_of(rows["vector"], self._store.dim)), ids


def index_of(table: Any) -> dict[str, Any] | None:
    """Lance's index of the vectors, if there is one: its kind, the rows that it covers, its bytes."""
    for index in table.describe_indices():
        if "vector" in index.field_names:
            return {"kind": index.index_type, "rows": index.num_rows_indexed, "bytes": index.total_size_bytes}
    return None


INDEX = "text_idx"
_BATCH = 8192
_HALF = re.compile("[\ud800-\udfff]")


def arrow_lowered(text: str) -> str:
    """Lower a text as the table has it: half a character of UTF-16, which Arrow cannot hold, is U+0000."""
    return _HALF.sub("\0", fulltext.lowered(text))


def condition(small: Sequence[str]) -> str | None:
    """Filter of Lance for the texts that hold one of these, in lower case; None where it has no such filter."""
    if any("\0" in text or arrow_lowered(text) != text for text in small):
        return None
    return " OR ".join("contains(text, '" + text.replace("'", "''") + "')" for text in small)


def update(tables: Tables, writer: Writer) -> None:
    """Take new sentences into the text index, and those of deleted documents out; make it if there is none."""
    head, stamp = writer.head, Stamp.of(writer.head)
    if stamp is not None:
        try:
            stamp = stamp._replace(version=tables.go_back(WORDS, stamp.version))
        except IndexMissing:  # the table is derived, and somebody has removed it
            # a new one counts its versions from the first, so the old number must go before
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
    """A reader of the rows for the sentences from id ``first`` on."""
    import pyarrow as pa

    columns, sentences = schema(WORDS, head.dim), tables.open(SENTENCES, head.versions[SENTENCES])

    def batches() -> Iterator[Any]:
        for batch in sentences.to_batches(
            columns=["id", "document", "text"], filter=f"id >= {first}", batch_size=_BATCH, scan_in_order=True
        ):
            texts = [arrow_lowered(row_codec.decode_text(text)) for text in batch["text"].to_pylist()]
            yield pa.record_batch([batch["id"], batch["document"], pa.array(texts, pa.string())], schema=columns)

    return pa.RecordBatchReader.from_batches(columns, batches())


_FIRST = 8192  # texts that are read before the index is asked: what is frequent is found there


class LanceTexts:
    """Substring search as `phrasemate.index.fulltext.TextSearch`, by Lance's trigram index if ``optimize`` made one.

    Sentences that it does not know are read, and all of them where there is none, or where it cannot be asked (half a
    character of UTF-16, a zero). Lance compares the texts of what its index proposes, and reads all of them for what
    holds no three letters or digits.
    """

    def __init__(self, store: LanceStore) -> None:
        self._store = store
        self._held: tuple[tuple[int, str], list[int]] = ((-1, ""), [])

    def containing(self, phrase: str, limit: int) -> list[int]:
        """Ids of up to ``limit`` sentences whose text contains ``phrase``, upper and lower case alike, ascending."""
        check(phrase, limit)
        with self._store.reading():
            return list(islice(self._holding([lowered(phrase)]), limit))

    def candidates(self, phrase: str, ids: IdRange = ALL_IDS) -> list[int]:
        """Ids of sentences that hold ``phrase``, in any case, ascending."""
        check(phrase, ids.limit)
        with self._store.reading() as state:
            key = (state.generation, phrase)
            if self._held[0] != key:  # the last phrase is kept, since it is asked for piece by piece
                small = list(dict.fromkeys(lowered(form) for form in forms(phrase)))
                self._held = key, list(self._holding(small))
            return [identity for identity in self._held[1] if ids.first <= identity < ids.before][: ids.limit]

    def _holding(self, small: Sequence[str]) -> Iterator[int]:
        """The sentences whose text, in lower case, holds one of these."""
        words, query = self._store.words(), condition(small)
        newer = None
        if words is not None and query is not None:
            newer = f"id >= {words[1]}"
            yield from self._indexed(small, query)
        for batch in self._store.batches(SENTENCES, ["id", "text"], newer):
            for identity, text in zip(batch["id"].to_pylist(), batch["text"].to_pylist(), strict=True):
                lower = lowered(row_codec.decode_text(text))
                if any(form in lower for form in small):
                    yield identity

    def _indexed(self, small: Sequence[str], query: str) -> Iterator[int]:
        dead = self._store.layout.dead_sentences
        with translate_errors(self._store.path):
            first = self._store.table(WORDS).head(_FIRST, columns=["id", "text"])
        ids = first["id"].to_numpy()
        dead_flags = dead.contains(ids)
        for identity, text, is_dead in zip(ids.tolist(), first["text"].to_pylist(), dead_flags.tolist(), strict=True):
            if not is_dead and any(form in text for form in small):
                yield identity
        if len(ids) < _FIRST:
            return
        for batch in self._store.batches(WORDS, ["id"], f"id > {ids[-1]} AND ({query})"):
            batch_ids = batch["id"].to_numpy()
            yield from batch_ids[~dead.contains(batch_ids)].tolist()

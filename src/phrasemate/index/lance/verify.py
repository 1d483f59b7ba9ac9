"""What an index of Lance tables holds, without reading its sentences.

Every checksum, offset and count of an index of Lance tables, and Lance's index against exact search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import Any

import numpy as np

from phrasemate.errors import PhrasemateError
from phrasemate.index import row_codec
from phrasemate.index.exact import Floats, Ids, Runs, scan
from phrasemate.index.lance.ann import index_of
from phrasemate.index.lance.fulltext import arrow_lowered, condition
from phrasemate.index.lance.store import LanceStore, codes_of
from phrasemate.index.lance.tables import DATA, PHRASES, SENTENCES, WORDS, translate_errors
from phrasemate.index.store import State
from phrasemate.index.types import IndexStats, Settings, VerifyReport
from phrasemate.index.verify import check_parts, check_sentences


def statistics(store: LanceStore) -> IndexStats:
    """Raises IndexDamaged, IndexError_."""
    with store.reading() as state, translate_errors(store.path):
        head, documents = store.layout.head, list(store.documents())
        index = index_of(store.table(PHRASES))
        covered = min(index["rows"], state.phrases) if index else 0
        files = {f"{name}.lance": _bytes(store, name) for name in (*DATA, *([WORDS] if store.words() else []))}
        if index:
            files["vector index"] = index["bytes"]
        if store.words():
            files["text index"] = sum(each.total_size_bytes or 0 for each in store.table(WORDS).describe_indices())
        return IndexStats(
            path=store.path,
            model=head.model_name,
            model_hash=head.model_hash,
            dim=head.dim,
            generation=state.generation,
            segment=head.segment,
            documents=state.documents,
            incomplete=tuple(document.name for document in documents if not document.complete),
            languages=dict(Counter(document.language for document in documents)),
            sentences=state.sentences,
            phrases=state.phrases,
            deleted=len(store.layout.dead_phrases),
            engine=f"Lance {index['kind']}" if index else "exact",
            approximate=covered,
            exact=state.phrases - covered,
            files=files,
        )


def _bytes(store: LanceStore, name: str) -> int:
    """Of the files that hold the rows of a table."""
    fragments = [fragment.metadata.to_json() for fragment in store.table(name).get_fragments()]
    return sum(file["file_size_bytes"] or 0 for fragment in fragments for file in fragment["files"])


_QUERIES = 100
_DEPTH = 10
_LEAST_RECALL = 0.9  # of the first place
_ASKED, _LONG = 20, 12  # texts that the text index is asked for, and their characters
_ANEW = "remove words.lance, which is derived, and run: phrasemate index optimize"
_SHOWN = 20  # problems of one kind that are listed


def verify(store: LanceStore, view: Any, settings: Settings) -> VerifyReport:
    """Check everything within one snapshot; a problem in one part does not keep the others from being checked."""
    report = VerifyReport()
    parts: dict[str, Callable[[LanceStore, State, VerifyReport], None]] = {
        "sentences": check_sentences,
        "vectors": _vectors,
        "phrases": _keys,
        "text index": _words,
        "Lance": lambda store, state, report: _search(store, state, report, view, settings),
    }
    try:
        store.refresh()
        with store.reading() as state:
            report.checked.update({"generation": state.generation, "shards": store.layout.head.shards})
            report.checked["documents"] = state.documents
            check_parts(parts, store, state, report, lambda: translate_errors(store.path))
    except PhrasemateError as error:
        report.problems.append(str(error))
    return report


def _vectors(store: LanceStore, state: State, report: VerifyReport) -> None:
    count, wrong = 0, []
    for block, right in store.checked_vectors():
        count += sum(row.phrases for row in block)
        wrong += [row.id for row, intact in zip(block, right, strict=True) if not intact]
    report.problems.extend(
        f"the vectors of sentence {identity} do not match their checksum" for identity in wrong[:_SHOWN]
    )
    if count != state.phrases:
        report.problems.append(f"vectors: {count} found, expected {state.phrases}")
    report.checked["vectors"] = count


def _keys(store: LanceStore, state: State, report: VerifyReport) -> None:
    """Every live phrase once, in order, with the document of its shard."""
    last, seen = -1, 0
    for batch in store.batches(PHRASES, ["key"]):
        ids = store.layout.ids(batch["key"].to_numpy())
        if len(ids) and (ids[0] <= last or (np.diff(ids) <= 0).any()):
            report.problems.append(f"phrases: {int(ids[0])} to {int(ids[-1])} are out of order or doubled")
        dead = int(store.layout.dead_phrases.contains(ids).sum())
        if dead:
            report.problems.append(f"phrases: {dead} deleted ones between {int(ids[0])} and {int(ids[-1])}")
        seen, last = seen + len(ids), int(ids[-1]) if len(ids) else last
    if seen != state.phrases:
        report.problems.append(f"phrases: {seen} found, expected {state.phrases}")


def _words(store: LanceStore, state: State, report: VerifyReport) -> None:
    """The text index has every sentence that it should, as it is, and its trigrams find what reading finds."""
    known = store.words()
    report.checked["text index"] = "none"
    if known is None:
        return
    table, end = known
    sentences = store.batches(SENTENCES, ["id", "text"], f"id < {end}")
    expected = _texts(sentences, store.layout.dead_sentences, lambda text: arrow_lowered(row_codec.decode_text(text)))
    kept = _texts(store.batches(WORDS, ["id", "text"]), store.layout.dead_sentences, str)
    count, sample = 0, []
    for count, (right, found) in enumerate(zip_longest(expected, kept), 1):
        if right != found:
            number = (right or found or (0, ""))[0]
            report.problems.append(f"text index: sentence {number} is missing or altered; {_ANEW}")
            return
        if right and not (count - 1) % max(1, state.sentences // _ASKED):
            sample.append(right[1])
    for text in sample:
        where = condition([text[len(text) // 3 :][:_LONG]])
        if where is None:
            continue
        with translate_errors(store.path):
            answers = [table.count_rows(where), table.scanner(filter=where, use_scalar_index=False).count_rows()]
        if answers[0] != answers[1]:
            report.problems.append(f"text index: finds {answers[0]} of {answers[1]} sentences; {_ANEW}")
            return
    report.checked["text index"] = f"trigrams of {count:,} sentences"


def _texts(batches: Iterable[Any], dead: Runs, read: Callable[[Any], str]) -> Iterator[tuple[int, str]]:
    """Ids and texts of the live sentences."""
    for batch in batches:
        gone = dead.contains(batch["id"].to_numpy()).tolist()
        for identity, text, passed in zip(batch["id"].to_pylist(), batch["text"].to_pylist(), gone, strict=True):
            if not passed:
                yield identity, read(text)


def _search(store: LanceStore, state: State, report: VerifyReport, view: Any, settings: Settings) -> None:
    index = index_of(store.table(PHRASES))
    report.checked["vector index"] = f"{index['kind']} of {index['rows']:,}" if index else "none"
    if index is None or state.phrases <= settings.exact_below:
        return
    places = np.linspace(0, state.phrases - 1, _QUERIES).astype(int)
    sample = store.table(PHRASES).take(places.tolist(), columns=["vector"])
    queries = row_codec.dequantise(codes_of(sample["vector"], store.dim))

    def blocks() -> Iterator[tuple[Floats, Ids]]:
        for batch in store.batches(PHRASES, ["key", "vector"]):
            yield row_codec.dequantise(codes_of(batch["vector"], store.dim)), store.layout.ids(batch["key"].to_numpy())

    exact = scan(queries, _DEPTH, blocks())
    found = view.search(state, queries, _DEPTH, None, state.phrases)
    # a place counts as found if what stands there scores as well: equal sentences have equal vectors
    recall = [float((found[1][:, at] >= exact[1][:, at] - 0.01).mean()) for at in (0, _DEPTH - 1)]
    if recall[0] < _LEAST_RECALL:
        report.problems.append(
            f"Lance: recall@1 against exact search is {recall[0]:.2f}, expected {_LEAST_RECALL}; run: "
            f"phrasemate index optimize"
        )
    report.checked["recall@1"] = recall[0]

"""What an index of Lance tables holds, without reading its sentences."""

from __future__ import annotations

from collections import Counter

from phrasemate.cluster.store import LanceStore
from phrasemate.cluster.tables import DATA, PHRASES, WORDS, mapped
from phrasemate.cluster.view import index_of
from phrasemate.index.types import IndexStats


def statistics(store: LanceStore) -> IndexStats:
    """Raises IndexDamaged, IndexError_."""
    with store.reading() as state, mapped(store.path):
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

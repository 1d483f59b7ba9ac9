"""What an index holds, without reading its sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from phrasemate.errors import IndexError_
from phrasemate.index.building import VECTORS_JSON
from phrasemate.index.engine import Runs
from phrasemate.index.manifest import Manifest, VectorsManifest
from phrasemate.index.records import IndexStats
from phrasemate.index.store import Store


def statistics(store: Store, manifest: Manifest) -> IndexStats:
    """Raises IndexDamaged."""
    with store.reading() as state:
        documents = list(store.documents())
        dead = Runs(store.tombstones())
        try:
            vectors = VectorsManifest.read(store.path / VECTORS_JSON)
            covered = min(vectors.covered, state.next_phrase)
            approximate, engine = covered - dead.below(covered), f"FAISS {vectors.factory}"
        except IndexError_:  # absent, or to be mended by the next search
            approximate, engine = 0, "exact"
        return IndexStats(
            path=str(store.path),
            model=manifest.model_name,
            model_hash=manifest.model_hash,
            dim=manifest.dim,
            generation=state.generation,
            segment=manifest.segment,
            documents=state.documents,
            incomplete=tuple(document.name for document in documents if not document.complete),
            languages=dict(Counter(document.language for document in documents)),
            sentences=state.sentences,
            phrases=state.phrases,
            deleted=len(dead),
            engine=engine,
            approximate=approximate,
            exact=state.phrases - approximate,
            files=dict(_sizes(store.path)),
        )


def _sizes(folder: Path) -> Iterator[tuple[str, int]]:
    """Names and bytes of the files in it; one that a writer is just taking away is passed over."""
    for file in sorted(folder.iterdir()):
        with suppress(FileNotFoundError):
            if file.is_file():
                yield file.name, file.stat().st_size

"""What the tests of the cluster share: made-up documents, a way to make shards without Ray, and a worker that dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from phrasemate import errors
from phrasemate.errors import IndexMissing
from phrasemate.index import Index, IndexSettings
from phrasemate.index.exact import Runs
from phrasemate.index.lance.commit import create
from phrasemate.index.lance.records import Order, Recipe, Shard, ShardRows, commit_shard, make_shard, write_shard
from phrasemate.index.lance.store import LanceStore
from phrasemate.index.lance.tables import Tables, options_for, place_of
from phrasemate.index.ray import Driver, Worker
from phrasemate.types import Document

SETTINGS = IndexSettings(chunk=16, learn=100, exact_below=300, exact_filtered=400, train=1000, block=500)
CHUNKS = 2
TEXT = "the old bank on river was closed she sat and read a book he opened window because it hot red house"
WORDS = TEXT.split()


def documents(count: int = 5, seed: int = 0, sentences: int = 30) -> list[Document]:
    """The first ones end anywhere in a shard, the second one at a shard's end."""
    drawn = np.random.default_rng(seed)
    lengths = [sentences, 2 * CHUNKS * SETTINGS.chunk - sentences, *range(sentences, sentences + count)][:count]
    return [
        Document.from_texts(
            f"{seed}-{number}.txt", [" ".join(drawn.choice(WORDS, drawn.integers(2, 9))) + "." for _ in range(length)]
        )
        for number, length in enumerate(lengths)
    ]


class InProcess:
    """As `phrasemate.index.ray.Pool`, in this process; gives the shards back in an order that is not theirs."""

    def __init__(self, recipe: Recipe, model: Any, tables: Tables, stop_after: int | None = None) -> None:
        self.recipe, self.model, self.tables, self.stop_after = recipe, model, tables, stop_after
        self.made: list[int] = []
        self._held: list[Order] = []

    @property
    def full(self) -> bool:
        return len(self._held) == 3

    @property
    def idle(self) -> bool:
        return not self._held

    def give(self, order: Order) -> None:
        self._held.append(order)

    def take(self) -> tuple[Order, Shard]:
        if self.stop_after == len(self.made):
            raise KeyboardInterrupt
        order = self._held.pop()  # the last given comes first
        shard = write_shard(self.tables, order, make_shard(order, self.model, self.recipe))
        commit_shard(self.tables, shard)
        self.made.append(order.number)
        return order, shard

    def close(self) -> None: ...


def build_here(
    path: str | Path, documents: Sequence[Document], model: Any, lang: str = "en", stop_after: int | None = None
) -> InProcess:
    """As `phrasemate.index.ray.build`, without Ray and with any model."""
    place = place_of(path)
    tables = Tables(place, options_for(place))
    try:
        Index.open(path)
    except IndexMissing:
        create(tables, model, {})
    pools: list[InProcess] = []

    def makers(recipe: Recipe) -> InProcess:
        pools.append(InProcess(recipe, model, tables, stop_after))
        return pools[0]

    Driver(tables, SETTINGS, CHUNKS, lang, None).run(documents, makers)
    return pools[0]


def rows_of(index: Index) -> tuple[Any, ...]:
    """All that an index says of itself: documents, sentences with their phrases, vectors, what was deleted, counts."""
    with index.store.reading() as state:
        if isinstance(index.store, LanceStore):
            blocks = (block for block, _ in index.store.checked_vectors())
            dead = index.store.layout.dead_phrases
        else:
            blocks, dead = index.store.vectors(), Runs(index.store.tombstones())
        return (
            list(index.store.documents()),
            list(index.store.all_sentences()),
            [row for block in blocks for row in block],
            dead.ids(np.arange(len(dead))).tolist(),
            state._replace(generation=0),
        )


class Fragile(Worker):
    """Kills itself, once, where the file beside the index says: ``before 2`` is before the commit of shard 2."""

    def write(self, order: Order, shard_rows: ShardRows) -> Shard:
        shard = super().write(order, shard_rows)
        self._perhaps("before", order.number)
        return shard

    def commit(self, shard: Shard) -> None:
        super().commit(shard)
        self._perhaps("after", shard.number)

    def _perhaps(self, when: str, number: int) -> None:
        note = Path(f"{self.recipe.place}.{when}-{number}")
        if note.exists():
            note.unlink()
            os.kill(os.getpid(), signal.SIGKILL)


class Deadly(Worker):
    """Kills itself whenever it has to write shard 0."""

    def write(self, order: Order, shard_rows: ShardRows) -> Shard:
        if order.number == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().write(order, shard_rows)


class Faulty(Worker):
    """Raises an error when it has to write shard 1, once: while the file beside the index names its class."""

    def write(self, order: Order, shard_rows: ShardRows) -> Shard:
        note = Path(f"{self.recipe.place}.error")
        if order.number == 1 and note.exists():
            name = note.read_text("utf-8")
            note.unlink()
            raise getattr(errors, name, RuntimeError)("the disk hums")
        return super().write(order, shard_rows)


class Once:
    """A function that kills its process with SIGKILL, once: while the note is there, which it takes away."""

    def __init__(self, function: Callable[..., Any], note: Path) -> None:
        self.function, self.note = function, note

    def __call__(self, *arguments: Any) -> Any:
        with suppress(FileNotFoundError):
            self.note.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.function(*arguments)

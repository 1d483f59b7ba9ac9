"""The driver: cuts the input into shards, has workers make them, and takes what they committed into the index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import groupby, islice
from time import monotonic, perf_counter
from typing import Any, Protocol

from phrasemate.errors import IndexMissing, InputError
from phrasemate.index.ingest import Intake, Item, Task, sound, total_bytes
from phrasemate.index.lance.commit import Writer, create, read, staged
from phrasemate.index.lance.ids import Layout
from phrasemate.index.lance.records import Order, Piece, Recipe, Row, Shard
from phrasemate.index.lance.tables import Tables
from phrasemate.index.lance.uri import options_for, place_of
from phrasemate.index.ray.workers import Pool, Worker, connected
from phrasemate.index.store import check_model
from phrasemate.index.types import AddReport, IndexModel, Progress, ProgressEvent, Settings
from phrasemate.types import Document, check_language

CHUNKS = 16  # of 1,024 sentences in a shard: about a minute of one core, 25 MB of vectors
PUBLISH_SECONDS = 30.0  # between two commits of the index while shards come in


def build(
    path: str,
    documents: Iterable[Document],
    address: str,
    *,
    model: IndexModel | None = None,
    lang: str = "",
    workers: int | None = None,
    segment: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    chunks: int = CHUNKS,
    progress: Progress | None = None,
    worker: type[Worker] = Worker,
) -> AddReport:
    """Make or extend the index of Lance tables at ``path``, a folder or the URI of object storage, with Ray workers.

    The rows are those that ``Index.add`` would make. ``model`` and ``segment`` are for a new index, or must be those of
    the index. ``address`` as in `pool.connected`, ``workers``: default one for each CPU of the cluster; ``chunks`` of
    1,024 sentences make a shard. A run that was stopped is continued by the same call: shards that workers committed
    are kept. Raises ClusterError, MissingExtra, ModelMismatch, IndexLocked (another driver has taken over), InputError,
    ReadError, IndexError_ (the place cannot be used).
    """
    check_language(lang)
    place = place_of(path)
    tables = Tables(place, options_for(place))
    there = _fits(tables, model, segment or {})
    with connected(address, workers):
        if not there:
            from phrasemate.encode import load_model

            create(tables, model or load_model(threads=1), dict(segment or {}))
        driver = Driver(tables, settings or Settings(), chunks, lang, progress)
        return driver.run(documents, lambda recipe: Pool(recipe, workers, driver.committed, worker))


def _fits(tables: Tables, model: IndexModel | None, segment: Mapping[str, Any]) -> bool:
    """Whether there is an index; raises ModelMismatch or InputError for one that is not for what was given."""
    try:
        head = read(tables)[0]
    except IndexMissing:
        return False
    if model is not None:
        check_model(tables.place, head.manifest, model)
    if any(head.segment.get(name) != value for name, value in segment.items()):
        known = head.segment or "the settings of its model"
        instead = "make another" if head.next_document else "nothing is in it yet, so delete it, or make another"
        raise InputError(f"{tables.place}: was begun with {known}, not {dict(segment)}; {instead}")
    return True


class Makers(Protocol):
    """Those who make shards (`Pool`): orders are given while they are not full, and shards taken in any order."""

    @property
    def full(self) -> bool: ...
    @property
    def idle(self) -> bool: ...
    def give(self, order: Order) -> None: ...
    def take(self) -> tuple[Order, Shard]: ...
    def close(self) -> None: ...


class Driver:
    """One call of `build`. ``chunks`` of ``settings.chunk`` sentences make a shard."""

    def __init__(self, tables: Tables, settings: Settings, chunks: int, lang: str, progress: Progress | None) -> None:
        self._tables, self._settings, self._lang, self._progress = tables, settings, lang, progress
        self._per_shard = chunks
        self._writer = Writer(tables)
        layout = Layout.read(tables, self._writer.head)
        known = {document.name: document for document in layout.documents.values()}
        self._sizes = {document.id: (document.sentences, document.phrases) for document in layout.documents.values()}
        next_document = self._writer.head.next_document
        self._intake = Intake(known, next_document, lang, settings)
        self._counts = {"sentences": 0, "phrases": 0}
        self._encoder_seconds = 0.0
        self._ready: dict[int, Shard] = {}  # made, and some before them are not
        self._published = monotonic()

    def run(self, documents: Iterable[Document], makers: Callable[[Recipe], Makers]) -> AddReport:
        """Have all documents made into shards, and take these into the index."""
        begun = perf_counter()
        self._bytes_total = total_bytes(documents)
        recipe, stream = self._recipe(map(sound, documents))
        kept = {shard.key: shard for shard in staged(self._tables, self._writer.head.shards)}
        with closing(makers(recipe)) as pool:
            for order in self._orders(stream, recipe):
                if (shard := kept.get(order.key)) is not None and shard.is_of(order) and self._whole(shard):
                    self._made(order, shard)
                    continue
                while pool.full:
                    self._made(*pool.take())
                pool.give(order)
            while not pool.idle:
                self._made(*pool.take())
        self._publish()
        counts = self._intake.counts | self._counts
        seconds = perf_counter() - begun
        return AddReport(
            counts["added"],
            counts["replaced"],
            counts["unchanged"],
            counts["sentences"],
            counts["phrases"],
            seconds,
            self._encoder_seconds,
        )

    def _recipe(self, documents: Iterable[Document]) -> tuple[Recipe, Iterable[Document]]:
        """How shards are made, and the documents again after the frequent words were learned from some of them."""
        from phrasemate import __version__

        key, head = f"frequent {self._lang}", self._writer.head
        stored = head.extras.get(key)
        found, stream = self._intake.frequent(documents, stored)
        if found["sentences"] and found != stored:
            self._writer.put(key, found)
        words = frozenset(found["words"])
        recipe = Recipe(
            self._tables.place,
            self._tables.options,
            head.model_path,
            head.model_hash,
            head.dim,
            head.segment,
            words,
            __version__,
        )
        return recipe, stream

    def _orders(self, stream: Iterable[Document], recipe: Recipe) -> Iterator[Order]:
        """The input in shards: the same input from the same place on gives the same shards."""
        number, first = self._writer.head.shards, self._writer.head.next_sentence
        chunks = self._intake.chunks(stream)
        while held := list(islice(chunks, self._per_shard)):
            items = [item for chunk, _ in held for item in chunk]
            tasks = list({id(task): task for _, tasks in held for task in tasks}.values())
            pieces = _pieces(items, tasks)
            rows = tuple(tuple(_row(item) for item in chunk) for chunk, _ in held if chunk)
            key = Order.key_of(recipe.digest, number, first, pieces, [len(chunk) for chunk in rows])
            yield Order(number, key, first, pieces, rows, self._bytes_at(tasks[-1]))
            number, first = number + 1, first + len(items)

    def _bytes_at(self, task: Task) -> int:
        return self._intake.bytes_before + (0 if task.info.complete else task.document.consumed())

    def _made(self, order: Order, shard: Shard) -> None:
        self._ready[order.number] = shard
        self._counts["sentences"] += shard.sentences
        self._counts["phrases"] += shard.phrases
        self._encoder_seconds += shard.seconds
        if self._progress is not None:
            counts, name = self._counts, order.pieces[-1].name
            event = ProgressEvent(counts["sentences"], counts["phrases"], order.bytes_done, self._bytes_total, name)
            self._progress(event)
        if monotonic() - self._published > PUBLISH_SECONDS:
            self._publish()

    def _publish(self) -> None:
        """Take into the index what is made and follows it without a gap, so that ids ascend with the input."""
        shards: list[Shard] = []
        while (number := self._writer.head.shards + len(shards)) in self._ready:
            shards.append(self._ready.pop(number))
        if shards:
            self._writer.publish(shards, self._sizes)
        self._published = monotonic()

    def _whole(self, shard: Shard) -> bool:
        return all(self._tables.whole(name, fragments) for name, fragments in shard.fragments.items())

    def committed(self, order: Order) -> Shard | None:
        """The shard of an order if a worker has committed it."""
        found = (shard for shard in staged(self._tables, order.number) if shard.is_of(order))
        return next(found, None)


def _row(item: Item) -> Row:
    task, position, sentence = item
    return Row(task.info.id, position, sentence.line, sentence.text, sentence.metadata)


def _pieces(items: list[Item], tasks: list[Task]) -> tuple[Piece, ...]:
    """What a shard holds of each document, in their order."""
    spans = {key: [position for _, position, _ in group] for key, group in groupby(items, lambda item: id(item[0]))}
    pieces = []
    for task in tasks:
        own, info = spans.get(id(task), []), task.info
        first = own[0] if own else 0
        pieces.append(
            Piece(info.id, info.name, info.language, info.digest, first, len(own), info.complete, task.replaces)
        )
        task.replaces = None
    return tuple(pieces)

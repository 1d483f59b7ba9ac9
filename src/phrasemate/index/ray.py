"""Build an index of Lance tables on a Ray cluster: the driver, its workers, and the pool that replaces dead workers.

The driver cuts the input into shards, hands them to workers as orders, and takes what they committed into the index.
docs/how-to/many-machines.md explains it.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from itertools import groupby, islice
from time import monotonic, perf_counter
from typing import Any, NamedTuple

from phrasemate import errors
from phrasemate.errors import (
    ClusterError,
    IndexMissing,
    InputError,
    ModelMismatch,
    PhrasemateError,
    first_line,
    needs_extra,
)
from phrasemate.index.ingest import Intake, Item, Task, sound, total_bytes
from phrasemate.index.lance.commit import Writer, create, read, staged
from phrasemate.index.lance.records import (
    Order,
    Piece,
    Recipe,
    Row,
    Shard,
    ShardRows,
    commit_shard,
    make_shard,
    write_shard,
)
from phrasemate.index.lance.store import Layout
from phrasemate.index.lance.tables import Tables, options_for, place_of
from phrasemate.index.store import check_model
from phrasemate.index.types import AddReport, IndexModel, IndexSettings, Progress
from phrasemate.types import Document, check_language


class Failure(NamedTuple):
    """An error of phrasemate: the name of its class, and what it says. Not all of them travel."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: PhrasemateError) -> Failure:
        return cls(type(error).__name__, str(error))

    def error(self) -> PhrasemateError:
        """The error of this name, or ClusterError where it takes more than a message."""
        kind = getattr(errors, self.kind, ClusterError)
        simple = isinstance(kind, type) and issubclass(kind, PhrasemateError) and "__init__" not in vars(kind)
        return (kind if simple else ClusterError)(self.message)


class Worker:
    """Makes shards by one recipe, with one thread. The model is loaded with the first order."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.tables = Tables(recipe.place, recipe.options)
        self._model: IndexModel | None = None

    def pid(self) -> int:
        """The process that this worker is."""
        return os.getpid()

    def run(self, order: Order) -> Shard | Failure:
        """Make a shard and commit it."""
        try:
            shard_rows = make_shard(order, self.model(), self.recipe)
            shard = self.write(order, shard_rows)
            self.commit(shard)
        except PhrasemateError as error:
            return Failure.of(error)
        return shard

    def write(self, order: Order, shard_rows: ShardRows) -> Shard:
        return write_shard(self.tables, order, shard_rows)

    def commit(self, shard: Shard) -> None:
        commit_shard(self.tables, shard)

    def model(self) -> IndexModel:
        """Raises ModelMismatch if this machine has another model, or another phrasemate, than the driver."""
        if self._model is None:
            from phrasemate import __version__
            from phrasemate.encode import load_model

            encoder: IndexModel = load_model(self.recipe.model_path, threads=1)
            if (encoder.hash, __version__) != (self.recipe.model_hash, self.recipe.version):
                raise ModelMismatch(
                    f"a worker has phrasemate {__version__} and the model {encoder.hash[:12]}, the driver "
                    f"{self.recipe.version} and {self.recipe.model_hash[:12]}; install the same on all machines"
                )
            self._model = encoder
        return self._model


log = logging.getLogger("phrasemate.index")

TRIES = 4  # of a shard whose workers die
AHEAD = 2  # orders that a worker has: one in work, one waiting, so that it never waits for the driver
CONNECT_SECONDS = 5.0  # Ray itself waits for minutes
START_SECONDS = 30.0  # that all workers for which there are CPUs have to start; those that start later are taken then
_LOCAL_STORE = 100 << 20  # bytes; an order is about a megabyte


def ray() -> Any:
    """The package. Raises MissingExtra."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody unless the user says so
    with needs_extra("ray", "ray"):
        import ray as package
    return package


@contextmanager
def connected(address: str, workers: int | None = None) -> Iterator[None]:
    """Ray at an address: ``HOST:PORT``, ``auto`` (one that runs on this machine), or ``local``.

    ``local`` starts one on this machine for as long as it is needed, with ``workers`` CPUs. A connection that is there
    already is used and left as it is. Raises ClusterError if there is none.
    """
    is_ours = connect(address, workers)
    try:
        yield
    finally:
        if is_ours:
            ray().shutdown()


def connect(address: str, workers: int | None = None) -> bool:
    """Connect this process as `connected` does, until it ends; whether there was no connection. Raises ClusterError."""
    package = ray()
    if package.is_initialized():
        return False
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    options: dict[str, Any] = {}
    if address == "local":
        os.environ.setdefault("RAY_worker_niceness", "0")  # else they give way to all other programs
        options = {"num_cpus": workers, "object_store_memory": _LOCAL_STORE, "include_dashboard": False}
    else:
        _knock(address)
    try:
        package.init(address=address, **options, **quiet)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        reason = first_line(error)
        raise ClusterError(f"{address}: no Ray cluster ({reason}); start one with: ray start --head") from error
    return True


def _knock(address: str) -> None:
    """Raise ClusterError unless something answers there."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ClusterError(f"{address!r} is not an address of a Ray cluster; expected HOST:PORT, auto or local")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        reason = first_line(error)
        raise ClusterError(
            f"{address}: no Ray cluster answers there ({reason}); start one with: ray start --head --port {port}"
        ) from error


def cpus() -> int:
    """Number of CPUs of the cluster, in use or not. Raises ClusterError if there is none."""
    count = int(ray().cluster_resources().get("CPU", 0))
    if not count:
        raise ClusterError("the Ray cluster has no CPU to compute with; add a machine: ray start --address HEAD:PORT")
    return count


class _Job(NamedTuple):
    order: Order
    actor: Any
    tries: int


class Pool:
    """``workers`` actors, or as many as the cluster has CPUs. Orders are given while it is not full.

    Orders go to those that have started: Ray keeps the others waiting while there is no CPU for them, perhaps for ever.
    """

    def __init__(
        self,
        recipe: Recipe,
        workers: int | None,
        committed: Callable[[Order], Shard | None],
        kind: type[Worker] = Worker,
    ) -> None:
        self._ray, self._recipe, self._committed = ray(), recipe, committed
        self._remote = self._ray.remote(num_cpus=1, max_restarts=0)(kind)
        self._actors: list[Any] = []  # that have started
        self._starting: dict[Any, Any] = {}  # the others, by Ray's reference to a call that they answer then
        self._jobs: dict[Any, _Job] = {}  # by Ray's reference to what they give, in the order of giving
        self._found: list[tuple[Order, Shard]] = []
        available = cpus()
        for _ in range(count := workers or available):
            self._hire()
        self._admit(min(count, available), START_SECONDS)

    def _hire(self) -> None:
        actor = self._remote.remote(self._recipe)
        self._starting[actor.pid.remote()] = actor

    def _admit(self, count: int, seconds: float) -> None:
        """Take those that have started, up to a number, and wait so long for as many. One that failed will say so."""
        if waiting := list(self._starting):
            ready, _ = self._ray.wait(waiting, num_returns=min(count, len(waiting)), timeout=seconds)
            self._actors += [self._starting.pop(reference) for reference in ready]

    @property
    def full(self) -> bool:
        self._admit(len(self._starting), 0)
        return len(self._jobs) >= AHEAD * max(1, len(self._actors))

    @property
    def idle(self) -> bool:
        return not self._jobs and not self._found

    def give(self, order: Order, tries: int = 1) -> None:
        """Hand an order to the worker that has the fewest."""
        while not self._actors:
            self._admit(1, START_SECONDS)
            if not self._actors:
                log.warning("no worker has started so far: all CPUs of the Ray cluster are in use, or it has none now")
        busy = [job.actor for job in self._jobs.values()]
        actor = min(self._actors, key=busy.count)
        self._jobs[actor.run.remote(order)] = _Job(order, actor, tries)

    def take(self) -> tuple[Order, Shard]:
        """The next shard that is made. Raises ClusterError, or what a worker raised."""
        while not self._found:
            (ready, *_), _ = self._ray.wait(list(self._jobs), num_returns=1)
            job = self._jobs[ready]
            try:
                outcome = self._ray.get(ready)
            except self._ray.exceptions.RayTaskError as error:
                del self._jobs[ready]
                self._again(job, f"{type(error.cause).__name__}: {first_line(error.cause)}")
            except self._ray.exceptions.RayError as error:
                self._bury(job.actor, first_line(error))
            else:
                del self._jobs[ready]
                if not isinstance(outcome, Failure):
                    self._found.append((job.order, outcome))
                elif outcome.kind == "PhraseIndexError":  # storage that did not answer may do so next time
                    self._again(job, outcome.message)
                else:
                    raise outcome.error()
        return self._found.pop()

    def _bury(self, actor: Any, why: str) -> None:
        """Replace a worker that died. The order that it had in work is to blame; those that waited are not."""
        lost_tasks = [ready for ready, job in self._jobs.items() if job.actor is actor]
        with suppress(Exception):
            self._ray.kill(actor)
        self._actors.remove(actor)
        self._hire()
        has_blame = False
        for job in [self._jobs.pop(ready) for ready in lost_tasks]:
            if (shard := self._committed(job.order)) is not None:  # it died after its commit
                self._found.append((job.order, shard))
            elif has_blame:
                self.give(job.order, job.tries)
            else:
                has_blame = True
                self._again(job, why)

    def _again(self, job: _Job, why: str) -> None:
        if job.tries == TRIES:
            raise ClusterError(
                f"shard {job.order.number} ({job.order.pieces[0].name}) failed {TRIES} times, at last with: {why}; "
                f"what was made is kept, fix that and give the same command again"
            )
        log.warning("shard %d failed (%s); it is made again", job.order.number, why)
        self.give(job.order, job.tries + 1)

    def close(self) -> None:
        for actor in (*self._actors, *self._starting.values()):
            with suppress(Exception):
                self._ray.kill(actor)


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
    settings: IndexSettings | None = None,
    chunks: int = CHUNKS,
    progress: Progress | None = None,
    worker: type[Worker] = Worker,
) -> AddReport:
    """Build or extend the index of Lance tables at ``path`` with Ray workers.

    The rows are those that ``Index.add`` would make. A run that was stopped is continued by the same call: shards that
    workers committed are kept.

    Args:
        path: Folder or URI of object storage.
        documents: Documents to add.
        address: Address of the cluster, as in `pool.connected`.
        model: Model of a new index, or the one that the index has.
        lang: Language of the documents.
        workers: Workers at most; default: one for each CPU of the cluster.
        segment: How phrases are found in a new index, where that is not the model's own way.
        settings: Numbers that steer the index.
        chunks: Chunks of 1,024 sentences that make a shard.
        progress: Called after each shard.
        worker: Class of the workers.

    Raises ClusterError, MissingExtra, ModelMismatch, IndexLocked (another driver has taken over), InputError,
    ReadError, PhraseIndexError (the place cannot be used).

    >>> import phrasemate as pm
    >>> report = build("s3://bucket/idx", pm.read("corpus/"), "auto", lang="en")  # doctest: +SKIP
    """
    check_language(lang)
    place = place_of(path)
    tables = Tables(place, options_for(place))
    is_resumed = _fits(tables, model, segment or {})
    with connected(address, workers):
        if not is_resumed:
            from phrasemate.encode import load_model

            create(tables, model or load_model(threads=1), dict(segment or {}))
        driver = Driver(tables, settings or IndexSettings(), chunks, lang, progress)
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
        requirement = head.segment or "the settings of its model"
        instead = "make another" if head.next_document else "nothing is in it yet, so delete it, or make another"
        raise InputError(f"{tables.place}: was made with {requirement}, not {dict(segment)}; {instead}")
    return True


class Driver:
    """Run of one call of `build`. ``chunks`` of ``settings.chunk`` sentences make a shard."""

    def __init__(
        self, tables: Tables, settings: IndexSettings, chunks: int, lang: str, progress: Progress | None
    ) -> None:
        self._tables, self._lang, self._per_shard = tables, lang, chunks
        self._writer = Writer(tables)
        layout = Layout.read(tables, self._writer.head)
        existing = {document.name: document for document in layout.documents.values()}
        self._sizes = {document.id: (document.sentences, document.phrases) for document in layout.documents.values()}
        self._intake = Intake(existing, self._writer.head.next_document, lang, settings, progress)
        self._ready: dict[int, Shard] = {}  # made, and some before them are not
        self._published = monotonic()

    def run(self, documents: Iterable[Document], makers: Callable[[Recipe], Pool]) -> AddReport:
        """Have all documents made into shards, and take these into the index."""
        start = perf_counter()
        self._intake.bytes_total = total_bytes(documents)
        recipe, stream = self._recipe(map(sound, documents))
        commits = {shard.key: shard for shard in staged(self._tables, self._writer.head.shards)}
        with closing(makers(recipe)) as pool:
            for order in self._orders(stream, recipe):
                if (shard := commits.get(order.key)) is not None and shard.is_of(order) and self._whole(shard):
                    self._committed(order, shard)
                    continue
                while pool.full:
                    self._committed(*pool.take())
                pool.give(order)
            while not pool.idle:
                self._committed(*pool.take())
        self._publish()
        return self._intake.report(perf_counter() - start)

    def _recipe(self, documents: Iterable[Document]) -> tuple[Recipe, Iterable[Document]]:
        """Settings of the shards, and the documents again after the frequent words were learned from some of them."""
        from phrasemate import __version__

        key, head = f"frequent {self._lang}", self._writer.head
        record = head.extras.get(key)
        frequent_words, stream = self._intake.frequent(documents, record)
        if frequent_words["sentences"] and frequent_words != record:
            self._writer.put(key, frequent_words)
        words = frozenset(frequent_words["words"])
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
        while batch := list(islice(chunks, self._per_shard)):
            items = [item for chunk, _ in batch for item in chunk]
            tasks = list({id(task): task for _, tasks in batch for task in tasks}.values())
            pieces = _pieces(items, tasks)
            rows = tuple(tuple(_row(item) for item in chunk) for chunk, _ in batch if chunk)
            key = Order.key_of(recipe.digest, number, first, pieces, [len(chunk) for chunk in rows])
            yield Order(number, key, first, pieces, rows, self._intake.bytes_at(tasks[-1]))
            number, first = number + 1, first + len(items)

    def _committed(self, order: Order, shard: Shard) -> None:
        self._ready[order.number] = shard
        self._intake.count(shard.sentences, shard.phrases, shard.seconds)
        self._intake.tell(order.bytes_done, order.pieces[-1].name)
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
        commits = (shard for shard in staged(self._tables, order.number) if shard.is_of(order))
        return next(commits, None)


def _row(item: Item) -> Row:
    task, position, sentence = item
    return Row(task.info.id, position, sentence.line, sentence.text, sentence.metadata)


def _pieces(items: list[Item], tasks: list[Task]) -> tuple[Piece, ...]:
    """Pieces of documents in a shard, in their order."""
    spans = {key: [position for _, position, _ in group] for key, group in groupby(items, lambda item: id(item[0]))}
    pieces = []
    for task in tasks:
        task_spans, info = spans.get(id(task), []), task.info
        first = task_spans[0] if task_spans else 0
        pieces.append(
            Piece(info.id, info.name, info.language, info.digest, first, len(task_spans), info.complete, task.replaces)
        )
        task.replaces = None
    return tuple(pieces)

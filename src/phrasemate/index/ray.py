"""Build an index of Lance tables on a Ray cluster: the driver, its workers, and the pool that replaces dead workers.

The driver splits the input into shards and sends each to a worker as an order. The worker commits the shard to the
tables, and the driver adds it to the index. See docs/how-to/many-machines.md.
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
from phrasemate.types import Document, check_language, check_progress, to_settings


class Failure(NamedTuple):
    """Error of a worker as it is sent to the driver: class name and message. Exception objects may not unpickle."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: PhrasemateError) -> Failure:
        return cls(type(error).__name__, str(error))

    def error(self) -> PhrasemateError:
        """Rebuild the error; ClusterError if its class is unknown or takes more than a message."""
        kind = getattr(errors, self.kind, ClusterError)
        simple = isinstance(kind, type) and issubclass(kind, PhrasemateError) and "__init__" not in vars(kind)
        return (kind if simple else ClusterError)(self.message)


class Worker:
    """Ray actor that makes the shards of one run, on one thread. The first order loads the model."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.tables = Tables(recipe.place, recipe.options)
        self._model: IndexModel | None = None

    def pid(self) -> int:
        """Return the worker's process id."""
        return os.getpid()

    def run(self, order: Order) -> Shard | Failure:
        """Make a shard and commit it to the tables. An error of phrasemate is returned, not raised."""
        try:
            shard_rows = make_shard(order, self.model(), self.recipe)
            shard = self.write(order, shard_rows)
            self.commit(shard)
        except PhrasemateError as error:
            return Failure.of(error)
        return shard

    def write(self, order: Order, shard_rows: ShardRows) -> Shard:
        """Write the rows of a shard to the tables' files, not yet visible; tests override it."""
        return write_shard(self.tables, order, shard_rows)

    def commit(self, shard: Shard) -> None:
        """Commit a written shard; tests override it."""
        commit_shard(self.tables, shard)

    def model(self) -> IndexModel:
        """Return the model, loaded at the first call.

        Raises ModelMismatch if the model or the version of phrasemate differs from the driver's.
        """
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

TRIES = 4  # attempts at a shard before the build fails
AHEAD = 2  # orders that a worker has: one running and one queued, so that it never waits for the driver
CONNECT_SECONDS = 5.0  # timeout for the cluster's address; Ray itself waits for minutes
START_SECONDS = 30.0  # wait for all workers that have a CPU; workers that start later join the pool then
_LOCAL_STORE = 100 << 20  # bytes of Ray's object store on this machine; an order takes about a megabyte


def ray() -> Any:
    """Import the package Ray. Raises MissingExtra."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage reports unless the user asks for them
    with needs_extra("ray", "ray"):
        import ray as package
    return package


@contextmanager
def connected(address: str, workers: int | None = None) -> Iterator[None]:
    """Connect this process to a Ray cluster inside a ``with`` block.

    An existing connection is used, and stays open afterwards.

    Args:
        address: ``HOST:PORT``; ``auto``, for a cluster that runs on this machine; or ``local``, which starts one on
            this machine until the block ends.
        workers: CPUs of a ``local`` cluster; None for all.

    Raises ClusterError if no cluster answers at the address.
    """
    is_new = connect(address, workers)
    try:
        yield
    finally:
        if is_new:
            ray().shutdown()


def connect(address: str, workers: int | None = None) -> bool:
    """Connect this process to a Ray cluster until it exits, with the arguments of `connected`.

    Returns True for a new connection, False if there was one. Raises ClusterError if no cluster answers.
    """
    package = ray()
    if package.is_initialized():
        return False
    log_options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    options: dict[str, Any] = {}
    if address == "local":
        os.environ.setdefault("RAY_worker_niceness", "0")  # by default workers run at low priority
        options = {"num_cpus": workers, "object_store_memory": _LOCAL_STORE, "include_dashboard": False}
    else:
        _check_address(address)
    try:
        package.init(address=address, **options, **log_options)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        reason = first_line(error)
        raise ClusterError(f"{address}: no Ray cluster ({reason}); start one with: ray start --head") from error
    return True


def _check_address(address: str) -> None:
    """Raise ClusterError unless a server accepts connections at ``HOST:PORT``; ``auto`` always passes."""
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
    """Return the number of CPUs of the cluster, busy or idle. Raises ClusterError if it has none."""
    count = int(ray().cluster_resources().get("CPU", 0))
    if not count:
        raise ClusterError("the Ray cluster has no CPU to compute with; add a machine: ray start --address HEAD:PORT")
    return count


class _Job(NamedTuple):
    """An order that a worker has, and how many times it was sent to one."""

    order: Order
    actor: Any
    tries: int


class Pool:
    """Pool of workers on the cluster that replaces workers that die.

    Only workers that have started get orders: an actor without a free CPU waits in Ray, perhaps forever.

    Args:
        recipe: Settings of the shards.
        workers: Number of workers; None for one per CPU of the cluster.
        committed: Function that returns the shard of an order if a worker has committed it, else None.
        kind: Class of the workers.
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
        self._actors: list[Any] = []  # workers that have started
        self._starting: dict[Any, Any] = {}  # workers that have not, by the reference of their first call
        self._jobs: dict[Any, _Job] = {}  # by the reference of the result, oldest first
        self._results: list[tuple[Order, Shard]] = []
        available = cpus()
        for _ in range(count := workers or available):
            self._start_worker()
        self._collect_started(min(count, available), START_SECONDS)

    def _start_worker(self) -> None:
        actor = self._remote.remote(self._recipe)
        self._starting[actor.pid.remote()] = actor

    def _collect_started(self, count: int, seconds: float) -> None:
        """Move workers that have started into the pool: wait up to ``seconds`` for ``count`` of them.

        A worker that failed to start is moved, too: its first order reports the error.
        """
        if waiting := list(self._starting):
            ready, _ = self._ray.wait(waiting, num_returns=min(count, len(waiting)), timeout=seconds)
            self._actors += [self._starting.pop(reference) for reference in ready]

    @property
    def full(self) -> bool:
        """Whether every worker has as many orders as it may have; `take` a shard before the next order."""
        self._collect_started(len(self._starting), 0)
        return len(self._jobs) >= AHEAD * max(1, len(self._actors))

    @property
    def idle(self) -> bool:
        """Whether no order is open and every shard was taken."""
        return not self._jobs and not self._results

    def give(self, order: Order, tries: int = 1) -> None:
        """Send an order to the worker with the fewest orders; waits until a worker has started."""
        while not self._actors:
            self._collect_started(1, START_SECONDS)
            if not self._actors:
                log.warning("no worker has started so far: all CPUs of the Ray cluster are in use, or it has none now")
        busy = [job.actor for job in self._jobs.values()]
        actor = min(self._actors, key=busy.count)
        self._jobs[actor.run.remote(order)] = _Job(order, actor, tries)

    def take(self) -> tuple[Order, Shard]:
        """Wait for the next committed shard, and return it with its order.

        Raises ClusterError if a shard fails `TRIES` times, or the error that a worker returned.
        """
        while not self._results:
            (ready, *_), _ = self._ray.wait(list(self._jobs), num_returns=1)
            job = self._jobs[ready]
            try:
                outcome = self._ray.get(ready)
            except self._ray.exceptions.RayTaskError as error:
                del self._jobs[ready]
                self._retry(job, f"{type(error.cause).__name__}: {first_line(error.cause)}")
            except self._ray.exceptions.RayError as error:
                self._replace_worker(job.actor, first_line(error))
            else:
                del self._jobs[ready]
                if not isinstance(outcome, Failure):
                    self._results.append((job.order, outcome))
                elif outcome.kind == "PhraseIndexError":  # storage may answer at the next attempt
                    self._retry(job, outcome.message)
                else:
                    raise outcome.error()
        return self._results.pop()

    def _replace_worker(self, actor: Any, reason: str) -> None:
        """Replace a dead worker and send its orders again; only the order that it was running counts as failed."""
        lost_calls = [ready for ready, job in self._jobs.items() if job.actor is actor]
        with suppress(Exception):
            self._ray.kill(actor)
        self._actors.remove(actor)
        self._start_worker()
        is_blamed = False
        for job in [self._jobs.pop(ready) for ready in lost_calls]:
            if (shard := self._committed(job.order)) is not None:  # the worker died after the commit
                self._results.append((job.order, shard))
            elif is_blamed:
                self.give(job.order, job.tries)
            else:
                is_blamed = True
                self._retry(job, reason)

    def _retry(self, job: _Job, reason: str) -> None:
        """Send a failed order again. Raises ClusterError after `TRIES` attempts."""
        if job.tries == TRIES:
            raise ClusterError(
                f"shard {job.order.number} ({job.order.pieces[0].name}) failed {TRIES} times, at last with: {reason}; "
                f"finished shards are kept; fix the cause and give the same command again"
            )
        log.warning("shard %d failed (%s); trying again", job.order.number, reason)
        self.give(job.order, job.tries + 1)

    def close(self) -> None:
        """Stop all workers."""
        for actor in (*self._actors, *self._starting.values()):
            with suppress(Exception):
                self._ray.kill(actor)


CHUNKS = 16  # chunks of 1,024 sentences in a shard: about a minute of one core, 25 MB of vectors
PUBLISH_SECONDS = 30.0  # minimum time between two commits of the index during a build


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

    The rows equal those of ``Index.add``. To resume a stopped run, make the same call again: shards that workers
    committed are not computed again.

    Args:
        path: Folder or URI of object storage.
        documents: Documents to add.
        address: Address of the cluster, as in `connected`.
        model: Model of a new index (default: the bundled one); for an existing index, the model that it was built
            with.
        lang: Language of the documents.
        workers: Number of workers; default: one per CPU of the cluster.
        segment: Settings of the segmenter for a new index, if they differ from the model's.
        settings: Sizes and limits of the index.
        chunks: Chunks of ``settings.chunk`` sentences in a shard.
        progress: Called after each shard.
        worker: Class of the workers.

    Raises ClusterError, MissingExtra, ModelMismatch, IndexLocked (another driver has taken over), InputError,
    ReadError, PhraseIndexError (the folder or storage cannot be used).

    >>> import phrasemate as pm
    >>> report = build("s3://bucket/idx", pm.read("corpus/"), "auto", lang="en")  # doctest: +SKIP
    """
    check_language(lang)
    if progress is not None:
        check_progress(progress)
    place = place_of(path)
    tables = Tables(place, options_for(place))
    is_resumed = _check_existing(tables, model, segment or {})
    with connected(address, workers):
        if not is_resumed:
            from phrasemate.encode import load_model

            create(tables, model or load_model(threads=1), dict(segment or {}))
        driver = Driver(tables, to_settings(settings, IndexSettings), chunks, lang, progress)
        return driver.run(documents, lambda recipe: Pool(recipe, workers, driver.committed, worker))


def _check_existing(tables: Tables, model: IndexModel | None, segment: Mapping[str, Any]) -> bool:
    """Return whether the index exists. Raises ModelMismatch or InputError if its model or segmentation differs."""
    try:
        head = read(tables)[0]
    except IndexMissing:
        return False
    if model is not None:
        check_model(tables.place, head.manifest, model)
    if any(head.segment.get(name) != value for name, value in segment.items()):
        actual = head.segment or "the settings of its model"
        remedy = "make another" if head.next_document else "nothing is in it yet, so delete it, or make another"
        raise InputError(f"{tables.place}: was made with {actual}, not {dict(segment)}; {remedy}")
    return True


class Driver:
    """Driver of a build: makes orders from the documents, and adds committed shards to the index in order.

    Args:
        tables: Tables of the index.
        settings: Sizes and limits of the index.
        chunks: Chunks of ``settings.chunk`` sentences in a shard.
        lang: Language of the documents.
        progress: Called after each shard.
    """

    def __init__(
        self, tables: Tables, settings: IndexSettings, chunks: int, lang: str, progress: Progress | None
    ) -> None:
        self._tables, self._lang, self._chunks_per_shard = tables, lang, chunks
        self._writer = Writer(tables)
        layout = Layout.read(tables, self._writer.head)
        existing = {document.name: document for document in layout.documents.values()}
        self._sizes = {document.id: (document.sentences, document.phrases) for document in layout.documents.values()}
        self._intake = Intake(existing, self._writer.head.next_document, lang, settings, progress)
        self._ready: dict[int, Shard] = {}  # committed shards that wait for shards with lower numbers
        self._last_publish = monotonic()

    def run(self, documents: Iterable[Document], make_pool: Callable[[Recipe], Pool]) -> AddReport:
        """Make shards of all documents, add them to the index, and return the report.

        ``make_pool`` makes the pool of workers from the settings of the shards.
        """
        start = perf_counter()
        self._intake.bytes_total = total_bytes(documents)
        recipe, stream = self._recipe(map(sound, documents))
        commits = {shard.key: shard for shard in staged(self._tables, self._writer.head.shards)}
        with closing(make_pool(recipe)) as pool:
            for order in self._orders(stream, recipe):
                if (shard := commits.get(order.key)) is not None and shard.is_of(order) and self._has_files(shard):
                    self._receive(order, shard)
                    continue
                while pool.full:
                    self._receive(*pool.take())
                pool.give(order)
            while not pool.idle:
                self._receive(*pool.take())
        self._publish()
        return self._intake.report(perf_counter() - start)

    def _recipe(self, documents: Iterable[Document]) -> tuple[Recipe, Iterable[Document]]:
        """Return the settings of the shards, and the documents, all of them.

        The frequent words are learned from the first documents, unless the index has stored them.
        """
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
        """Split the input into shards; equal input after an equal index gives equal shards, so that runs resume."""
        number, first = self._writer.head.shards, self._writer.head.next_sentence
        chunks = self._intake.chunks(stream)
        while batch := list(islice(chunks, self._chunks_per_shard)):
            items = [item for chunk, _ in batch for item in chunk]
            tasks = list({id(task): task for _, tasks in batch for task in tasks}.values())
            pieces = _pieces(items, tasks)
            rows = tuple(tuple(_row(item) for item in chunk) for chunk, _ in batch if chunk)
            key = Order.key_of(recipe.digest, number, first, pieces, [len(chunk) for chunk in rows])
            yield Order(number, key, first, pieces, rows, self._intake.bytes_at(tasks[-1]))
            number, first = number + 1, first + len(items)

    def _receive(self, order: Order, shard: Shard) -> None:
        """Count a committed shard, and publish from time to time."""
        self._ready[order.number] = shard
        self._intake.count(shard.sentences, shard.phrases, shard.seconds)
        self._intake.tell(order.bytes_done, order.pieces[-1].name)
        if monotonic() - self._last_publish > PUBLISH_SECONDS:
            self._publish()

    def _publish(self) -> None:
        """Add to the index the shards that follow its last one without a gap, so that ids ascend with the input."""
        shards: list[Shard] = []
        while (number := self._writer.head.shards + len(shards)) in self._ready:
            shards.append(self._ready.pop(number))
        if shards:
            self._writer.publish(shards, self._sizes)
        self._last_publish = monotonic()

    def _has_files(self, shard: Shard) -> bool:
        """Whether all files of a shard exist."""
        return all(self._tables.whole(name, fragments) for name, fragments in shard.fragments.items())

    def committed(self, order: Order) -> Shard | None:
        """Return the shard of an order if a worker has committed it, else None."""
        commits = (shard for shard in staged(self._tables, order.number) if shard.is_of(order))
        return next(commits, None)


def _row(item: Item) -> Row:
    task, position, sentence = item
    return Row(task.info.id, position, sentence.line, sentence.text, sentence.metadata)


def _pieces(items: list[Item], tasks: list[Task]) -> tuple[Piece, ...]:
    """Return the pieces of documents that make up a shard, in order.

    Resets the ``replaces`` of each task, so that only its first piece replaces the old document.
    """
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

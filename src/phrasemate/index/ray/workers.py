"""Ray workers that make shards, and the pool that hands them orders and replaces those that die."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from phrasemate import errors
from phrasemate.errors import ClusterError, MissingExtra, ModelMismatch, PhrasemateError
from phrasemate.index.lance import shard as making
from phrasemate.index.lance.records import Order, Recipe, Shard
from phrasemate.index.lance.tables import Tables
from phrasemate.index.types import IndexModel


class Outcome(NamedTuple):
    """What came of an order: a shard, or an error of phrasemate by the name of its class and what it says."""

    shard: Shard | None
    kind: str = ""
    said: str = ""


class Worker:
    """Makes shards by one recipe, with one thread. The model is loaded with the first order."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.tables = Tables(recipe.place, recipe.options)
        self._model: IndexModel | None = None

    def pid(self) -> int:
        """The process that this worker is."""
        return os.getpid()

    def run(self, order: Order) -> Outcome:
        """Make a shard and commit it. What phrasemate raises comes back as a record, since not all of it travels."""
        try:
            made = making.make(order, self.model(), self.recipe)
            shard = self.write(order, made)
            self.commit(shard)
        except PhrasemateError as error:
            return Outcome(None, type(error).__name__, str(error))
        return Outcome(shard)

    def write(self, order: Order, made: making.Made) -> Shard:
        return making.write(self.tables, order, made)

    def commit(self, shard: Shard) -> None:
        making.commit(self.tables, shard)

    def model(self) -> IndexModel:
        """Raises ModelMismatch if this machine has another model, or another phrasemate, than the driver."""
        if self._model is None:
            from phrasemate import __version__
            from phrasemate.encode import load_model

            loaded: IndexModel = load_model(self.recipe.model_path, threads=1)
            if (loaded.hash, __version__) != (self.recipe.model_hash, self.recipe.version):
                raise ModelMismatch(
                    f"a worker has phrasemate {__version__} and the model {loaded.hash[:12]}, the driver "
                    f"{self.recipe.version} and {self.recipe.model_hash[:12]}; install the same on all machines"
                )
            self._model = loaded
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
    try:
        import ray as package
    except ImportError as error:
        raise MissingExtra("ray", "ray") from error
    return package


@contextmanager
def connected(address: str, workers: int | None = None) -> Iterator[None]:
    """Ray at an address: ``HOST:PORT``, ``auto`` (one that runs on this machine), or ``local``.

    ``local`` starts one on this machine for as long as it is needed, with ``workers`` CPUs. A connection that is there
    already is used and left as it is. Raises ClusterError if there is none.
    """
    package = ray()
    if package.is_initialized():
        yield
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    own: dict[str, Any] = {}
    if address == "local":
        os.environ.setdefault("RAY_worker_niceness", "0")  # else they give way to all other programs
        own = {"num_cpus": workers, "object_store_memory": _LOCAL_STORE, "include_dashboard": False}
    else:
        _knock(address)
    try:
        package.init(address=address, **own, **quiet)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise ClusterError(f"{address}: no Ray cluster ({_line(error)}); start one with: ray start --head") from error
    try:
        yield
    finally:
        package.shutdown()


def _knock(address: str) -> None:
    """Raise ClusterError unless something answers there."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ClusterError(f"{address!r} is no address of a Ray cluster; expected HOST:PORT, auto or local")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ClusterError(
            f"{address}: no Ray cluster answers there ({_line(error)}); start one with: ray start --head --port {port}"
        ) from error


def cpus() -> int:
    """How many CPUs the cluster has, in use or not. Raises ClusterError if there is none."""
    found = int(ray().cluster_resources().get("CPU", 0))
    if not found:
        raise ClusterError("the Ray cluster has no CPU to compute with; add a machine: ray start --address HEAD:PORT")
    return found


class _Job(NamedTuple):
    order: Order
    actor: Any
    tries: int


class Pool:
    """``workers`` actors, or as many as the cluster has CPUs.

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
        there = cpus()
        for _ in range(wanted := workers or there):
            self._hire()
        self._admit(min(wanted, there), START_SECONDS)

    def _hire(self) -> None:
        actor = self._remote.remote(self._recipe)
        self._starting[actor.pid.remote()] = actor

    def _admit(self, count: int, seconds: float) -> None:
        """Take those that have started, up to a number, and wait so long for as many. One that failed will say so."""
        if waiting := list(self._starting):
            ready, _ = self._ray.wait(waiting, num_returns=min(count, len(waiting)), timeout=seconds)
            self._actors += [self._starting.pop(each) for each in ready]

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
        held = [job.actor for job in self._jobs.values()]
        actor = min(self._actors, key=held.count)
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
                self._again(job, f"{type(error.cause).__name__}: {_line(error.cause)}")
            except self._ray.exceptions.RayError as error:
                self._bury(job.actor, _line(error))
            else:
                del self._jobs[ready]
                if outcome.kind == "IndexError_":  # storage that did not answer may do so next time
                    self._again(job, outcome.said)
                else:
                    self._found.append((job.order, _shard(outcome)))
        return self._found.pop()

    def _bury(self, actor: Any, why: str) -> None:
        """Replace a worker that died. The order that it had in work is to blame; those that waited are not."""
        lost = [ready for ready, job in self._jobs.items() if job.actor is actor]
        with suppress(Exception):
            self._ray.kill(actor)
        self._actors.remove(actor)
        self._hire()
        blamed = False
        for job in [self._jobs.pop(ready) for ready in lost]:
            if (shard := self._committed(job.order)) is not None:  # it died after its commit
                self._found.append((job.order, shard))
            elif blamed:
                self.give(job.order, job.tries)
            else:
                blamed = True
                self._again(job, why)

    def _again(self, job: _Job, why: str) -> None:
        if job.tries == TRIES:
            raise ClusterError(
                f"shard {job.order.number} ({job.order.pieces[0].name}) failed {TRIES} times, at last with: {why}; "
                f"what was made is kept, mend that and give the same command again"
            )
        log.warning("shard %d failed (%s); it is made again", job.order.number, why)
        self.give(job.order, job.tries + 1)

    def close(self) -> None:
        for actor in (*self._actors, *self._starting.values()):
            with suppress(Exception):
                self._ray.kill(actor)


def _shard(outcome: Outcome) -> Shard:
    if outcome.shard is None:
        kind = getattr(errors, outcome.kind, ClusterError)
        simple = isinstance(kind, type) and issubclass(kind, PhrasemateError) and "__init__" not in vars(kind)
        raise (kind if simple else ClusterError)(outcome.said)
    return outcome.shard


def _line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__

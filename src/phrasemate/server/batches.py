"""Work of many threads done together: a thread of its own takes what waits, all of a kind, and gives each its part.

Who comes alone waits for nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Condition, Thread
from typing import Any, NamedTuple

from phrasemate.errors import PhrasemateError
from phrasemate.server.cancellation import go_on


class _Job(NamedTuple):
    kind: Any  # jobs of equal kinds can be done together
    work: Callable[[list[Any]], Sequence[Any]]  # items -> a result for each
    items: Sequence[Any]
    size: int
    later: bool  # not the first slice of what somebody waits for
    result: Future[Sequence[Any]]


class Batches:
    """Runs jobs of up to ``most`` in size together; a larger one runs alone.

    ``calls`` and ``passes`` count jobs and runs.

    >>> Batches("squares", 8).do("square", lambda numbers: [n * n for n in numbers], [1, 2], 2)
    [1, 4]
    """

    def __init__(self, name: str, most: int) -> None:
        self._most = most
        self._jobs: deque[_Job] = deque()
        self._some, self._closed = Condition(), False
        self.calls = self.passes = 0
        Thread(target=self._run, name=name, daemon=True).start()

    def close(self) -> None:
        """End the thread; what waits is still done."""
        with self._some:
            self._closed = True
            self._some.notify_all()

    def do(
        self,
        kind: Any,
        work: Callable[[list[Any]], Sequence[Any]],
        items: Sequence[Any],
        size: int,
        later: bool = False,
    ) -> Any:
        """Have the thread do ``work`` on ``items``, with what others want of the same kind, and wait for it.

        Raises GivenUp if nobody waits for what we are asked for.
        """
        go_on()
        job = _Job(kind, work, items, size, later, Future())
        with self._some:
            if self._closed:
                raise PhrasemateError("the server is stopping")
            self.calls += 1
            self._jobs.append(job)
            self._some.notify()
        return job.result.result()

    def _run(self) -> None:
        while jobs := self._next():
            try:
                results = jobs[0].work([item for job in jobs for item in job.items])
                at = 0
                for job in jobs:
                    job.result.set_result(results[at : at + len(job.items)])
                    at += len(job.items)
            except BaseException as error:
                self._alone(jobs, error)

    def _alone(self, jobs: Sequence[_Job], error: BaseException) -> None:
        """Work on each by itself after one of several failed, or the others would fail with it."""
        for job in jobs:
            if job.result.done():
                continue
            try:
                job.result.set_result(job.work(list(job.items)) if len(jobs) > 1 else _fail(error))
            except BaseException as failure:
                job.result.set_exception(failure)

    def _next(self) -> list[_Job]:
        """The job that has waited longest, and those of its kind; none at the end.

        Every other time first slices have precedence: a query does not wait for a whole document, nor the other way.
        """
        with self._some:
            self._some.wait_for(lambda: self._jobs or self._closed)
            if not self._jobs:
                return []
            first = self._jobs[0]
            if self.passes % 2 == 0:
                first = next((job for job in self._jobs if not job.later), first)
            batch, rest, size = [first], deque[_Job](), first.size
            for job in self._jobs:
                if job is not first and job.kind == first.kind and size + job.size <= self._most:
                    batch.append(job)
                    size += job.size
                elif job is not first:
                    rest.append(job)
            self._jobs = rest
            self.passes += 1
        return batch


def _fail(error: BaseException) -> Any:
    raise error

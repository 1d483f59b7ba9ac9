"""bench/serve.py: what goes wrong is counted and not timed; rates are of the seconds that the answers took."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "bench"))
    import serve

    return serve


async def _answered(bench: Any, statuses: list[int]) -> Any:
    """The times of a user who gets these answers."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for status in statuses:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: 2\r\n\r\nok".encode())
        writer.close()

    times = bench.Times()
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        connection = bench.Connection(server.sockets[0].getsockname()[1], times)
        for status in statuses:
            assert await connection.ask("page", "/") == (b"ok" if status == 200 else b"")
        connection.close()
    return times


@pytest.mark.parametrize("statuses", [[200, 503, 200], [503, 500]])
def test_errors_are_not_answers(bench: Any, statuses: list[int]) -> None:
    rows = asyncio.run(_answered(bench, statuses)).rows(1, 2.0)
    right = statuses.count(200)
    wrong = len(statuses) - right
    assert [row[1:5] for row in rows] == [[kind, right, wrong, f"{right / 2:.1f}"] for kind in ("page", "all")]


def test_the_last_round_counts_in_the_seconds(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def user(port: int, sentences: Any, times: Any, until: float, *_: Any) -> None:
        await asyncio.sleep(until - time.perf_counter() + 0.1)

    async def metric(_: Any) -> dict[str, float]:
        return {"memory": 1.0, "passes": 0.0, "calls": 0.0}

    monkeypatch.setattr(bench, "one_user", user)
    monkeypatch.setattr(bench, "metric", metric)
    _, wall, facts = asyncio.run(bench.together([bench.Place(0, os.getpid())], 3, 0.05, iter(())))
    assert wall >= 0.15
    assert facts["calls_per_pass"] == 0

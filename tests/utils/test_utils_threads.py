from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import faiss
import numpy as np
import pytest

from phrasemate import load_model
from phrasemate.encode import runtime
from phrasemate.utils import machine
from phrasemate.utils.machine import load_faiss, single_blas

pytestmark = pytest.mark.slow


def blas_threads() -> list[int]:
    return [library.get_num_threads() for library in machine._blas()]


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    """BLAS has two threads at first, whatever the machine and the environment say."""
    before = [(library, library.get_num_threads()) for library in machine._blas()]
    for library, _ in before:
        machine._set_threads(library, 2)
    yield
    for library, count in before:
        machine._set_threads(library, count)


def test_blas_has_one_thread_inside_and_what_it_had_afterwards() -> None:
    with single_blas, single_blas:
        assert set(blas_threads()) == {1}
    assert set(blas_threads()) == {2}


def test_calls_that_overlap_in_several_threads_do_not_undo_each_other() -> None:
    everyone_inside, first_has_left = Barrier(2), Barrier(2)

    def first() -> None:
        with single_blas:
            everyone_inside.wait(10)
        first_has_left.wait(10)

    def second() -> list[int]:
        with single_blas:
            everyone_inside.wait(10)
            first_has_left.wait(10)
            return blas_threads()

    with ThreadPoolExecutor(2) as pool:
        leaving, staying = pool.submit(first), pool.submit(second)
        assert set(staying.result()) == {1}
        leaving.result()
        assert set(blas_threads()) == {2}


def test_threads_of_faiss_are_those_that_were_asked_for() -> None:
    before = faiss.omp_get_max_threads()
    try:
        assert load_faiss(3) is faiss
        assert faiss.omp_get_max_threads() == 3
        load_faiss()
        assert faiss.omp_get_max_threads() == 3
    finally:
        faiss.omp_set_num_threads(before)


WORK = """
import sys, tempfile, time
from pathlib import Path
from phrasemate import Document, Index, Searcher, load_model
from phrasemate.index import IndexSettings

texts = [f"{first} {second} and {first} {third} are in {third} {second} of the house"
         for first in ("one", "red", "old", "new") for second in ("bench", "paper", "river", "garden")
         for third in ("towns", "letters", "windows")]
queries = [text.replace(text.split()[1], f"[[{text.split()[1]}]]", 1) for text in texts]
threads = int(sys.argv[1])

def ticks():
    return {thread.name: sum(map(int, (thread / "stat").read_text().rpartition(")")[2].split()[11:13]))
            for thread in Path("/proc/self/task").iterdir()}

before = ticks()  # the import of numpy has used a thread of BLAS
model = load_model(threads=threads)
with tempfile.TemporaryDirectory() as folder:
    settings = IndexSettings(exact_below=200, train=1000)
    with Index.create(Path(folder) / "idx", model, threads=threads, settings=settings) as index:
        index.add([Document.from_texts("a", texts)], lang="en")
        index.optimize()
        assert index.stats().engine.startswith("FAISS")
        searcher = Searcher(index)
        for query in queries[:8]:
            searcher.search(query)
        searcher.search_all(queries)
        start = time.process_time()
        for _ in range(20):
            time.sleep(0.005)
        idle = time.process_time() - start
print(idle, *sorted((count - before.get(name, 0) for name, count in ticks().items()), reverse=True))
"""


def work(threads: int) -> tuple[float, list[int]]:
    """Processor time while nothing is asked, and of each thread, busiest first, in hundredths of a second."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "OPENBLAS_NUM"))}
    command = [sys.executable, "-c", WORK, str(threads)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    idle, *ticks = result.stdout.split()
    return float(idle), list(map(int, ticks))


LINUX = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts the ticks of each thread: Linux alone")


@LINUX
def test_one_thread_indexes_tunes_and_searches() -> None:
    """The caller waits while OpenVINO's only thread works; those of the tokenizer, BLAS and FAISS stay idle."""
    _, (first, second, *others) = work(1)
    assert sum(others) <= max(5, min(first, second) / 10)


@LINUX
def test_no_thread_spins_between_calls() -> None:
    idle, _ = work(2)
    assert idle < 0.02


def test_the_tokenizer_takes_no_more_threads_than_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has one for each core when it is given several texts at once."""
    model = load_model(threads=2)
    given_at_once = []

    class Counting:
        def encode_batch(self, texts: list[str], **options: Any) -> Any:
            given_at_once.append(len(texts))
            return tokenizer.encode_batch(texts, **options)

        def encode(self, text: str, **options: Any) -> Any:
            return tokenizer.encode(text, **options)

    tokenizer = model.runtime.tokenizer
    monkeypatch.setattr(model.runtime._tokenizer, "_library", Counting())
    states = []
    for cores in (2, 16):
        monkeypatch.setattr(runtime, "cores", lambda cores=cores: cores)
        states.append(next(model.token_states(["a bench", "a park"])).values)
    assert given_at_once == [2]
    assert np.array_equal(*states)


SPINNING = """
import time
import numpy as np
from phrasemate.utils.machine import load_faiss

faiss = load_faiss(4)
vectors = np.random.default_rng(0).normal(size=(20_000, 64)).astype(np.float32)
index = faiss.IndexFlatIP(64)
index.add(vectors)
index.search(vectors[:64], 4)
start = time.process_time()
for _ in range(20):
    time.sleep(0.005)
print(time.process_time() - start)
"""


def test_threads_of_faiss_sleep_between_calls() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
    result = subprocess.run(
        [sys.executable, "-c", SPINNING], env=environment, capture_output=True, text=True, check=True
    )
    assert float(result.stdout) < 0.02

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import faiss
import pytest

from phrasemate.utils import machine
from phrasemate.utils.machine import load_faiss, single_blas


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


ONE_THREAD = """
import os, time
from pathlib import Path
from phrasemate import Phrase, load_model
from phrasemate.index.exact import Exact, VectorRow

model = load_model(threads=1)
for words in range(2, 8):
    texts = [f"{' '.join(map(str, range(words)))} and {number}" for number in range(8)]
    vectors = model.encode([Phrase(text, 0, len(text)) for text in texts])
ticks = {thread.name: sum(map(int, (thread / "stat").read_text().rpartition(")")[2].split()[11:13]))
         for thread in Path("/proc/self/task").iterdir()}
print(*sorted(ticks.values(), reverse=True))
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts the ticks of each thread, which Linux tells")
def test_a_model_of_one_thread_computes_with_one() -> None:
    """The caller waits while OpenVINO's only thread works; the tokenizer's and NumPy's stay idle."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "OPENBLAS_NUM"))}
    result = subprocess.run([sys.executable, "-c", ONE_THREAD], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    _, busiest, *others = map(int, result.stdout.split())
    assert sum(others) <= max(5, busiest / 10)  # hundredths of a second


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

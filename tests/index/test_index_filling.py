"""Inverted lists that are trained and filled by looking at some of the centres only."""

from __future__ import annotations

import faiss
import numpy as np
import pytest

from phrasemate.index.approximate import Layout, inverted
from phrasemate.index.filling import adding, trained


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    drawn = np.random.default_rng(0)
    made = drawn.standard_normal((1500, 16))[drawn.integers(0, 1500, 45_000)] + 0.3 * drawn.standard_normal(
        (45_000, 16)
    )
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def test_nearly_all_vectors_are_in_the_list_of_their_nearest_centre(vectors: np.ndarray) -> None:
    index = trained(Layout(1024, 8), 16, vectors)
    before = inverted(index).quantizer.this
    with adding(index) as add:
        for part in np.array_split(vectors, 3):
            add(part)
    lists = inverted(index)
    assert index.ntotal == len(vectors)
    assert int(lists.quantizer.this) == int(before)  # the exact one is in its place again
    centres = lists.quantizer.reconstruct_n(0, 1024)
    nearest = (vectors @ centres.T).argmax(axis=1)
    held = np.empty(len(vectors), np.int64)
    for number in range(1024):
        size = lists.invlists.list_size(number)
        held[faiss.rev_swig_ptr(lists.invlists.get_ids(number), size)] = number
    assert (held == nearest).mean() > 0.95


def test_the_file_holds_the_exact_centres(vectors: np.ndarray, tmp_path) -> None:
    index = trained(Layout(1024, 8), 16, vectors)
    with adding(index) as add:
        add(vectors)
    faiss.write_index(index, str(tmp_path / "a.faiss"))
    again = faiss.read_index(str(tmp_path / "a.faiss"))
    assert isinstance(faiss.downcast_index(inverted(again).quantizer), faiss.IndexFlat)
    inverted(again).nprobe = inverted(index).nprobe = 8
    queries = vectors[::900]
    assert np.array_equal(again.search(queries, 5)[1], index.search(queries, 5)[1])

    plain = faiss.read_index(str(tmp_path / "a.faiss"))
    plain.reset()
    plain.add(vectors)
    inverted(plain).nprobe = 8
    itself = np.arange(len(vectors))[::900, None]
    found = [(each.search(queries, 20)[1] == itself).any(axis=1).mean() for each in (again, plain)]
    assert found[0] >= found[1] - 0.05


def test_few_lists_are_filled_by_comparing_with_all_centres(vectors: np.ndarray) -> None:
    index = trained(Layout(16, 8), 16, vectors[:2000])
    with adding(index) as add:
        assert add == index.add
        add(vectors[:2000])
    assert inverted(index).quantizer.ntotal == 16

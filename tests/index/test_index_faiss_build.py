"""FAISS indexes as they are trained and filled here; FAISS alone reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

from phrasemate.index import row_codec
from phrasemate.index.faiss_build import trained
from phrasemate.index.faiss_search import Layout, inverted


@pytest.fixture(scope="module")
def codes() -> np.ndarray:
    """9,000 vectors in 8 bits around 1,500 points, some of which have ten times as many as others."""
    drawn = np.random.default_rng(0)
    weights = drawn.choice([1.0, 10.0], 1500)
    points = drawn.standard_normal((1500, 16))[drawn.choice(1500, 9_000, p=weights / weights.sum())]
    return row_codec.quantise((points + 0.3 * drawn.standard_normal((9_000, 16))).astype(np.float32))


def filled(layout: Layout, codes: np.ndarray, pieces: int = 3) -> Any:
    index = trained(layout, codes)
    for part in np.array_split(codes, pieces):
        index.add(row_codec.dequantise(part))
    return index


def members(index: Any) -> list[np.ndarray]:
    lists = inverted(index)
    sizes = [lists.invlists.list_size(number) for number in range(lists.nlist)]
    return [
        faiss.rev_swig_ptr(lists.invlists.get_ids(number), size).copy() if size else np.zeros(0, np.int64)
        for number, size in enumerate(sizes)
    ]


@pytest.mark.parametrize("lists", [16, 300])
def test_each_vector_is_in_the_list_whose_centre_is_best(codes: np.ndarray, lists: int) -> None:
    index = filled(Layout(lists, 8), codes)
    assert index.ntotal == len(codes)
    centres = inverted(index).quantizer.reconstruct_n(0, lists)
    best = (row_codec.dequantise(codes) @ centres.T).argmax(axis=1)
    rows = np.empty(len(codes), np.int64)
    for number, ids in enumerate(members(index)):
        rows[ids] = number
    assert (rows == best).mean() > 0.9999


def test_codes_are_of_the_vectors_and_not_of_what_the_centres_leave(codes: np.ndarray) -> None:
    """Then the tables of a query are made once, and not for each list that it reads."""
    assert not inverted(filled(Layout(16, 8), codes)).by_residual


@pytest.mark.parametrize("layout", [Layout(0, 8), Layout(16, 8), Layout(16, 16), Layout(300, 4)])
def test_faiss_alone_reads_the_file(codes: np.ndarray, tmp_path: Path, layout: Layout) -> None:
    index = filled(layout, codes[:8000])
    faiss.write_index(index, str(tmp_path / "a.faiss"))
    again = faiss.read_index(str(tmp_path / "a.faiss"))
    queries = row_codec.dequantise(codes[:8000:100])
    for item in (index, again):
        if layout.lists:
            inverted(item).nprobe = layout.lists
    result = again.search(queries, 20)[1]
    assert np.array_equal(result, index.search(queries, 20)[1])
    exact = (queries @ row_codec.dequantise(codes[:8000]).T).argmax(axis=1)
    assert (result == exact[:, None]).any(axis=1).mean() > (0.9 if layout.parts >= 8 else 0.5)


@pytest.mark.parametrize("layout", [Layout(0, 8), Layout(16, 8)])
def test_what_is_added_later_is_as_if_it_had_been_there(codes: np.ndarray, tmp_path: Path, layout: Layout) -> None:
    vectors = row_codec.dequantise(codes)
    start = trained(layout, codes[:6000])
    start.add(vectors[:6000])
    faiss.write_index(start, str(tmp_path / "a.faiss"))
    more = faiss.read_index(str(tmp_path / "a.faiss"))
    more.add(vectors[6000:])
    faiss.write_index(more, str(tmp_path / "b.faiss"))

    whole = trained(layout, codes[:6000])
    whole.add(vectors)
    faiss.write_index(whole, str(tmp_path / "c.faiss"))
    assert (tmp_path / "b.faiss").read_bytes() == (tmp_path / "c.faiss").read_bytes()


@pytest.mark.parametrize("layout", [Layout(0, 4), Layout(64, 4)])
def test_fewer_vectors_than_codewords_or_lists(layout: Layout, capfd: pytest.CaptureFixture[str]) -> None:
    few = row_codec.quantise(np.random.default_rng(1).standard_normal((10, 8)).astype(np.float32))
    index = filled(layout, few, pieces=1)
    if layout.lists:
        inverted(index).nprobe = 64
    assert sorted(index.search(row_codec.dequantise(few), 10)[1][0].tolist()) == list(range(10))
    assert "WARNING" not in "".join(capfd.readouterr())

"""FAISS indexes that are trained, filled and packed here, and then need FAISS alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

from phrasemate.index import row_codec
from phrasemate.index.faiss_build import Coder, Filling, _centres, fitting, packed
from phrasemate.index.faiss_search import Layout, inverted


@pytest.fixture(scope="module")
def codes() -> np.ndarray:
    """45,000 vectors in 8 bits around 1,500 points, some of which have ten times as many as others."""
    drawn = np.random.default_rng(0)
    weights = drawn.choice([1.0, 10.0], 1500)
    points = drawn.standard_normal((1500, 16))[drawn.choice(1500, 45_000, p=weights / weights.sum())]
    return row_codec.quantise((points + 0.3 * drawn.standard_normal((45_000, 16))).astype(np.float32))


def filled(layout: Layout, codes: np.ndarray, pieces: int = 3) -> Any:
    filling = Filling.train(layout, codes)
    for part in np.array_split(codes, pieces):
        filling.add(row_codec.dequantise(part))
    return filling.finished()


def members(index: Any) -> list[np.ndarray]:
    lists = inverted(index)
    sizes = [lists.invlists.list_size(number) for number in range(lists.nlist)]
    return [
        faiss.rev_swig_ptr(lists.invlists.get_ids(number), size).copy() if size else np.zeros(0, np.int64)
        for number, size in enumerate(sizes)
    ]


@pytest.mark.parametrize("lists", [16, 1024])
def test_nearly_all_vectors_are_in_the_list_whose_centre_is_best(codes: np.ndarray, lists: int) -> None:
    index = filled(Layout(lists, 8), codes)
    assert index.ntotal == len(codes)
    centres = inverted(index).quantizer.reconstruct_n(0, lists)
    turned = faiss.downcast_VectorTransform(index.chain.at(0)).apply(row_codec.dequantise(codes))
    best = (turned @ centres.T).argmax(axis=1)
    rows = np.empty(len(codes), np.int64)
    for number, ids in enumerate(members(index)):
        rows[ids] = number
    assert (rows == best).mean() > (0.95 if lists == 1024 else 0.9999)


def test_of_many_centres_only_promising_ones_are_compared(codes: np.ndarray) -> None:
    many, few = filled(Layout(1024, 8), codes), filled(Layout(16, 8), codes)
    centres = faiss.downcast_index(inverted(many).quantizer)
    assert isinstance(centres, faiss.IndexRefineFlat)
    assert isinstance(faiss.downcast_index(inverted(few).quantizer), faiss.IndexFlatIP)
    queries = faiss.downcast_VectorTransform(many.chain.at(0)).apply(row_codec.dequantise(codes[::50]))
    result = centres.search(queries, 8)[1]
    best = np.argsort(-(queries @ centres.reconstruct_n(0, 1024).T), axis=1)[:, :8]
    shared = [len(np.intersect1d(a, b)) for a, b in zip(result, best, strict=True)]
    assert (result[:, 0] == best[:, 0]).mean() > 0.95
    assert np.mean(shared) > 0.85 * 8


def test_lists_come_out_about_equally_long(codes: np.ndarray) -> None:
    vectors = row_codec.dequantise(codes)

    def spread(centres: np.ndarray) -> float:
        sizes = np.bincount((vectors @ centres.T).argmax(axis=1), minlength=64)
        return float((sizes.astype(float) ** 2).sum() / sizes.sum() / sizes.mean())

    plain = faiss.Kmeans(16, 64, niter=10, spherical=True, max_points_per_centroid=1000, seed=1)
    plain.train(vectors)
    coder = fitting(codes, 8)
    ours = _centres(codes, 64, coder) @ coder.rotation
    assert spread(ours) < 1.1  # 1: all of the same length
    assert spread(ours) < spread(plain.centroids)


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
    assert (result == exact[:, None]).any(axis=1).mean() > (0.95 if layout.parts >= 8 else 0.6)


def test_the_codes_in_the_lists_are_the_coder_s(codes: np.ndarray) -> None:
    filling = Filling.train(Layout(16, 8), codes)
    filling.add(row_codec.dequantise(codes[:3000]))
    coder = filling._coder
    expected_codes = packed(coder.encode(coder.rotate(row_codec.dequantise(codes[:3000]))))
    index = filling.finished()
    lists = inverted(index)
    plain = faiss.ArrayInvertedLists(16, 4)
    lists.orig_invlists = plain
    lists.reconstruct_orig_invlists()
    lists.orig_invlists = None
    for number, ids in enumerate(members(index)):
        rows = faiss.rev_swig_ptr(plain.get_codes(number), 4 * len(ids)).reshape(-1, 4)
        assert np.array_equal(rows, expected_codes[ids])


@pytest.mark.parametrize("layout", [Layout(0, 8), Layout(16, 8)])
def test_going_on_is_as_if_it_had_never_stopped(codes: np.ndarray, tmp_path: Path, layout: Layout) -> None:
    vectors = row_codec.dequantise(codes[:9000])
    filling = Filling.train(layout, codes[:6000])
    filling.add(vectors[:6000])
    faiss.write_index(filling.finished(), str(tmp_path / "a.faiss"))
    more = Filling.of(faiss.read_index(str(tmp_path / "a.faiss")))
    more.add(vectors[6000:])
    faiss.write_index(more.finished(), str(tmp_path / "b.faiss"))

    whole = Filling.train(layout, codes[:6000])
    whole.add(vectors)
    faiss.write_index(whole.finished(), str(tmp_path / "c.faiss"))
    assert (tmp_path / "b.faiss").read_bytes() == (tmp_path / "c.faiss").read_bytes()


def test_fewer_vectors_than_lists_are_not_matter() -> None:
    few = row_codec.quantise(np.random.default_rng(1).standard_normal((40, 8)).astype(np.float32))
    index = filled(Layout(64, 4), few, pieces=1)
    inverted(index).nprobe = 64
    assert sorted(index.search(row_codec.dequantise(few), 40)[1][0].tolist()) == list(range(40))


def test_a_coder_is_fitted_block_by_block_as_at_once(codes: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    once = Coder.train(row_codec.dequantise(codes[:3000]), 8)
    monkeypatch.setattr("phrasemate.index.faiss_build._AT_ONCE", 700)
    blocks = fitting(codes[:3000], 8)
    assert np.abs(blocks.rotation @ once.rotation.T) == pytest.approx(np.eye(16), abs=1e-3)  # but for signs

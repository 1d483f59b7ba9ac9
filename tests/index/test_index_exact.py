from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import faiss
import numpy as np
import pytest
from index_fakes import SMALL, FakeModel, sentences

from phrasemate.errors import InputError
from phrasemate.index import Index, IndexSettings, faiss_build, row_codec
from phrasemate.index.exact import Exact, Runs, best, scan
from phrasemate.index.faiss_search import Layout
from phrasemate.index.manifest import VectorsManifest
from phrasemate.index.schema import write_lock
from phrasemate.index.store import VectorRow
from phrasemate.types import Document


def unit(count: int, dim: int = 16, seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def plainly(index: Index, query: np.ndarray, k: int, documents: set[int] | None = None) -> list[tuple[float, int]]:
    """A loop over all rows: the k best (score, phrase id)."""
    scored = []
    for block in index.store.vectors():
        for row in block:
            for at in range(row.phrases):
                codes = np.frombuffer(row.codes, np.int8)[at * 16 : at * 16 + 16].astype(float)
                if documents is None or row.document in documents:
                    scored.append((float(query @ codes / np.sqrt(codes @ codes)), row.first_phrase + at))
    return sorted(scored, key=lambda pair: (-round(pair[0], 5), pair[1]))[:k]


def fill(index: Index) -> None:
    index.add([Document.from_texts(f"en{at}", sentences(40, at, 5000)) for at in range(3)], lang="en")
    index.add([Document.from_texts("de", sentences(30, 8, 5000))], lang="de")


def matches(run: object, index: Index, queries: np.ndarray, k: int, documents: set[int] | None = None) -> None:
    for ids, scores, query in zip(run.ids, run.scores, queries, strict=True):
        expected = plainly(index, query, k, documents)
        assert scores.tolist() == pytest.approx([score for score, _ in expected], abs=1e-5)
        clear = expected[-1][0] + 1e-5  # which of equal scores is the last is left open
        assert {i for i, s in zip(ids.tolist(), scores, strict=True) if s > clear} == {
            i for s, i in expected if s > clear
        }


def test_best_breaks_ties_by_id_and_pads() -> None:
    ids, scores = best(np.array([[4, 2, 9]]), np.array([[0.5, 0.5, 0.7]], np.float32), 2)
    assert ids.tolist() == [[9, 2]]
    ids, scores = best(np.array([[4]]), np.array([[0.5]], np.float32), 3)
    assert ids.tolist() == [[4, -1, -1]]
    assert scores.tolist() == [[0.5, -np.inf, -np.inf]]


def test_best_sorts_as_a_stable_sort_does_whatever_the_scores() -> None:
    draw = np.random.default_rng(2)
    scores = draw.integers(-2, 3, (40, 9)).astype(np.float32) / 2  # many ties, of both signs
    scores[draw.random(scores.shape) < 0.2] = -0.0
    scores[draw.random(scores.shape) < 0.1] = np.inf
    scores[draw.random(scores.shape) < 0.1] = -np.inf
    scores[0] = [1e-45, -1e-45, 3e38, -3e38, 0, np.nan, 1, -1, -np.inf]
    columns = np.broadcast_to(np.arange(9), scores.shape)
    expected = np.argsort(-np.nan_to_num(scores, nan=-np.inf, posinf=np.inf, neginf=-np.inf), axis=1, kind="stable")
    assert best(columns, scores, 9)[0].tolist() == expected.tolist()
    assert best(columns, scores.astype(np.float64), 9)[0].tolist() == expected.tolist()
    mixed = draw.permutation(9)
    assert best(columns[:, mixed], scores[:, mixed], 9)[0].tolist() == expected.tolist()


def test_best_of_many_is_the_sorted_head() -> None:
    scores = np.random.default_rng(1).standard_normal((3, 1000)).astype(np.float32)
    ids = np.broadcast_to(np.arange(1000), scores.shape)
    assert best(ids, scores, 7)[0].tolist() == np.argsort(-scores, axis=1)[:, :7].tolist()


@pytest.mark.parametrize("k", [1, 7, 40, 900])
@pytest.mark.parametrize("sizes", [(1000,), (5, 0, 700, 1, 16, 17), (300, 300), ()])
@pytest.mark.parametrize("order", ["mixed", "rising", "falling", "equal"])
def test_scan_finds_what_sorting_all_scores_finds(k: int, sizes: tuple[int, ...], order: str) -> None:
    count = sum(sizes)
    scores = np.random.default_rng(3).integers(-9, 10, (3, count)).astype(np.float32)  # many ties
    if order == "equal":
        scores[:] = 0.5
    elif order != "mixed":  # every block is better than those before it, or worse
        scores = np.sort(scores, axis=1)[:, :: 1 if order == "rising" else -1]
    ends = np.cumsum([0, *sizes])
    blocks = [(scores.T[a:b], np.arange(a, b) + 10) for a, b in pairwise(ends)]
    ids, result = scan(np.eye(3, dtype=np.float32), k, blocks)  # so the scores are the numbers themselves
    by_score = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    assert ids[:, :count].tolist() == (by_score + 10).tolist()
    assert result[:, :count].tolist() == np.take_along_axis(scores, by_score, 1).tolist()
    assert (ids[:, count:] == -1).all()
    assert (result[:, count:] == -np.inf).all()


def test_scan_of_no_queries_or_of_nothing_that_can_be_compared() -> None:
    block = (unit(50), np.arange(50))
    assert scan(np.zeros((0, 16), np.float32), 5, [block])[0].shape == (0, 5)
    ids, scores = scan(np.full((1, 16), np.nan, np.float32), 5, [block])
    assert ids.tolist() == [[-1] * 5]
    assert (scores == -np.inf).all()


def test_runs_number_their_members() -> None:
    runs = Runs(np.array([[3, 2], [10, 3]], np.int64))  # 3 4 10 11 12
    assert len(runs) == 5
    assert runs.ids(np.array([[0, 1, 2, 4, -1]])).tolist() == [[3, 4, 10, 12, -1]]
    assert runs.contains(np.array([2, 3, 4, 5, 9, 10, 12, 13])).tolist() == [
        False,
        True,
        True,
        False,
        False,
        True,
        True,
        False,
    ]
    assert [runs.below(bound) for bound in (0, 4, 11, 99)] == [0, 1, 3, 5]
    assert not Runs(np.zeros((0, 2), np.int64)).contains(np.array([1])).any()


def test_exact_search_goes_through_blocks() -> None:
    engine = Exact(4, block=2)
    engine.extend(
        [[VectorRow(0, 7, 10, 1, bytes([1, 0, 0, 0])), VectorRow(1, 8, 20, 2, bytes([0, 2, 0, 0, 3, 3, 0, 0]))]]
    )
    assert (engine.ids.tolist(), engine.documents.tolist()) == ([10, 20, 21], [7, 8, 8])
    ids, scores = engine.search(np.array([[1, 0, 0, 0]], np.float32), 3)
    assert ids.tolist() == [[10, 21, 20]]
    assert scores[0].tolist() == pytest.approx([1, 3 / 18**0.5, 0])
    assert engine.search(np.array([[1, 0, 0, 0]], np.float32), 2, np.array([8]))[0].tolist() == [[21, 20]]
    engine.keep(engine.ids != 21)
    assert engine.search(np.array([[1, 0, 0, 0]], np.float32), 3)[0].tolist() == [[10, 20, -1]]


@pytest.mark.parametrize(
    ("count", "dim", "expected"),
    [
        (50_000, 128, "PQ64x4fs"),
        (50_000, 192, "PQ64x4fs"),
        (60_000, 25, "PQ25x4fs"),
        (1_000_000, 192, "IVF512,PQ64x4fs"),  # 2 ** 9 is below 1,000
        (10_000_000, 128, "IVF2048,PQ64x4fs"),
    ],
)
def test_factory(count: int, dim: int, expected: str) -> None:
    layout = Layout.of(count, dim, IndexSettings())
    assert layout.factory == expected
    assert Layout.parse(expected) == layout
    assert Layout.parse(f"OPQ{layout.parts},{expected}") == layout  # as earlier versions wrote it


def test_exact_search_equals_a_plain_loop(tmp_path, model: FakeModel) -> None:
    with Index.create(tmp_path / "idx", model) as index:
        fill(index)
        queries = unit(6)
        matches(index.search(queries, 8), index, queries, 8)
        matches(index.search(queries, 8, languages=["de"]), index, queries, 8, {3})
        matches(index.search(queries, 8, documents=["en2", "de"]), index, queries, 8, {2, 3})


@pytest.mark.parametrize("recipe", ["FAISS PQ8x4fs", "FAISS IVF16,PQ8x4fs"])
def test_faiss_finds_what_a_plain_loop_finds(tmp_path, model: FakeModel, recipe: str) -> None:
    settings = IndexSettings(
        chunk=32, learn=50, exact_below=300, ivf_from=400 if "IVF" in recipe else 10**9, exact_filtered=260, k_factor=64
    )
    with Index.create(tmp_path / "idx", model, settings=settings, threads=1) as index:
        fill(index)
        assert recipe in index.stats().engine
        queries = unit(12)
        run = index.search(queries, 5)
        first = [plainly(index, query, 1)[0] for query in queries]
        assert np.mean([ids[0] == identity for ids, (_, identity) in zip(run.ids, first, strict=True)]) > 0.8
        assert run.scores[:, 0].tolist() == pytest.approx([score for score, _ in first], abs=0.05)
        # few phrases pass: exact; many: FAISS asked for more until enough pass
        matches(index.search(queries, 5, languages=["de"]), index, queries, 5, {3})
        english = index.search(queries, 5, languages=["en"])
        assert {
            hit.language
            for ids, scores in zip(english.ids, english.scores, strict=True)
            for hit in index.hits(ids, scores)
        } == {"en"}
        assert (english.ids >= 0).all()


def rotated(layout: Layout, sample: np.ndarray) -> Any:
    """A FAISS index as earlier versions made it: vectors are rotated first, and centres have codes."""
    lists = f"IVF{layout.lists}(PQ8x4fs,RFlat)," if layout.lists else ""
    index = faiss.index_factory(16, f"RR16,{lists}PQ{layout.parts}x4fs", faiss.METRIC_INNER_PRODUCT)
    index.train(row_codec.dequantise(sample))
    return index


@pytest.mark.parametrize("lists", [False, True])
def test_a_file_of_an_earlier_version_answers_until_it_is_rebuilt(
    tmp_path, model: FakeModel, monkeypatch: pytest.MonkeyPatch, lists: bool
) -> None:
    settings = replace(SMALL, ivf_from=400 if lists else 10**9, k_factor=64)
    now = Layout.factory
    with monkeypatch.context() as before:
        before.setattr(faiss_build, "trained", rotated)
        before.setattr(Layout, "factory", property(lambda layout: f"OPQ8,{now.fget(layout)}"))
        with Index.create(tmp_path / "idx", model, settings=settings) as index:
            fill(index)
    with Index.open(tmp_path / "idx", model, settings=settings) as index:
        assert index.stats().engine == f"FAISS OPQ8,{'IVF32,' if lists else ''}PQ8x4fs"
        matches(index.search(queries := unit(12), 1), index, queries, 1)
        assert index.verify().ok
        index.add([Document.from_texts("more", sentences(60, 77, 5000))], lang="en")
        assert index.stats().engine.startswith("FAISS IVF" if lists else "FAISS PQ")
        matches(index.search(queries, 1), index, queries, 1)
        assert index.verify().ok


def test_a_single_result_is_chosen_from_many_candidates(tmp_path, model: FakeModel) -> None:
    with Index.create(tmp_path / "idx", model, settings=replace(SMALL, k_factor=1)) as index:
        fill(index)
        matches(index.search(queries := unit(40, seed=5), 1), index, queries, 1)
        assert index.stats().approximate > 300


def test_newer_and_deleted_phrases_are_seen_at_once(index: Index, model: FakeModel) -> None:
    fill(index)
    assert index.stats().exact == 0
    index.add([Document.from_texts("new", ["entirely fresh words", *sentences(3, 55)])], lang="en")
    assert 0 < index.stats().exact < 50
    query = model.extract(["fresh"])[0].vectors
    run = index.search(query, 1)
    (hit,) = index.hits(run.ids[0], run.scores[0])
    assert (hit.text, hit.document, hit.line, hit.start, hit.end) == ("fresh", "new", 1, 9, 14)
    index.delete("new")
    run = index.search(query, 5)
    assert all(hit.document != "new" for hit in index.hits(run.ids[0], run.scores[0]))
    assert index.hits([hit.phrase_id], [1.0]) == []
    dead = next(document for document in index.documents() if document.name == "en1")
    index.delete("en1")
    every = index.search(query, index.stats().phrases + 10)
    assert (every.ids[0] >= 0).sum() == index.stats().phrases
    assert dead.phrases > 0
    assert index.verify().ok


@pytest.mark.parametrize("bad", [np.zeros(16), np.zeros((1, 15)), np.full((1, 16), np.nan)])
def test_senseless_vectors_are_refused(index: Index, bad: np.ndarray) -> None:
    with pytest.raises(InputError, match=r"shape \(queries, 16\)"):
        index.search(bad, 3)


def test_unknown_filters_are_refused_by_name(index: Index) -> None:
    fill(index)
    with pytest.raises(InputError, match="no document 'nope'; it has 'de', 'en0'"):
        index.search(unit(1), 3, documents=["nope"])
    with pytest.raises(InputError, match="no language 'xx'"):
        index.search(unit(1), 3, languages=["xx"])
    with pytest.raises(InputError, match="expected 1 or more"):
        index.search(unit(1), 0)
    with pytest.raises(InputError, match="no phrase 99999"):
        index.hits([99999], [0.5])


def test_an_empty_index_answers_with_nothing(index: Index) -> None:
    run = index.search(unit(2), 3)
    assert run.ids.tolist() == [[-1] * 3] * 2
    assert index.hits(run.ids[0], run.scores[0]) == []
    assert index.verify().ok
    assert SMALL.exact_below == 300


def test_appending_extends_the_faiss_file_and_deleting_much_renews_it(index: Index) -> None:
    index.add([Document.from_texts("a", sentences(100, 1))], lang="en")
    first = VectorsManifest.read(index.path / "vectors.json")
    index.add([Document.from_texts("b", sentences(60, 2))], lang="en")
    second = VectorsManifest.read(index.path / "vectors.json")
    assert (first.trained, second.trained) == (first.rows, first.rows)
    assert (second.rows, second.runs) == (index.stats().phrases, [[0, second.rows]])
    index.delete("a")
    third = VectorsManifest.read(index.path / "vectors.json")
    assert (third.trained, third.rows, third.runs[0][0]) == (index.stats().phrases, index.stats().phrases, first.rows)
    assert {file.name for file in index.path.glob("vectors-*")} == {third.file, third.codes}
    assert index.verify().checked["recall@1"] > 0.9


def test_many_uncovered_phrases_make_a_search_build_the_file(index: Index, caplog: pytest.LogCaptureFixture) -> None:
    """As after an add that was killed before its end; while a writer is at work, the search is exact instead."""
    index.add([Document.from_texts("a", sentences(300, 1, 5000))], lang="en")
    assert index.stats().phrases > 1200
    for file in index.path.glob("vectors*"):
        file.unlink()
    queries = unit(4)
    with Index.open(index.path, index.model, settings=SMALL, threads=1) as reader, write_lock(index.path):
        matches(reader.search(queries, 5), reader, queries, 5)
        assert not (index.path / "vectors.json").exists()
    with Index.open(index.path, index.model, readonly=True, settings=SMALL, threads=1) as reader:
        matches(reader.search(queries, 5), reader, queries, 5)
        assert "open for reading only), searching exactly" in caplog.text
    with Index.open(index.path, index.model, settings=SMALL, threads=1) as reader:
        assert (reader.search(queries, 5).ids >= 0).all()
        assert "rebuilding the FAISS file" in caplog.text
        assert reader.stats().approximate == reader.stats().phrases

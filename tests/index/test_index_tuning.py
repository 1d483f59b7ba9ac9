"""What ``optimize(target_recall=...)`` chooses, keeps and says."""

from __future__ import annotations

import json
import multiprocessing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from index_fakes import SMALL, FakeModel, sentences
from typer.testing import CliRunner

from phrasemate.cli import app
from phrasemate.errors import IndexDamaged, InputError
from phrasemate.index import Index, faiss_search, row_codec, tuning
from phrasemate.index.exact import Runs, unpack
from phrasemate.index.faiss_search import Asking, Faiss, Layout
from phrasemate.index.manifest import VectorsManifest
from phrasemate.types import Document


@pytest.fixture(autouse=True, scope="module")
def fewer_queries():
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tuning, "_QUERIES", 200)
        yield


def filled(path: Path, settings=SMALL, count: int = 500) -> Index:
    index = Index.create(path, FakeModel(), settings=settings, threads=1)
    index.add([Document.from_texts(f"d{at}", sentences(count // 2, at, 3000)) for at in range(2)], lang="en")
    return index


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory, fewer_queries: None):
    """With inverted lists, though so few phrases are read faster without."""
    with pytest.MonkeyPatch.context() as patched, filled(tmp_path_factory.mktemp("tuned") / "idx") as index:
        patched.setattr(tuning, "_ALL_READ", 0)
        report = index.optimize(target_recall=0.9)
        assert "IVF" in report.engine
        index.search(np.zeros((1, 16)), 1)  # reads the file
        yield index, report


def test_the_recall_is_that_of_a_plain_comparison(tuned) -> None:
    """Of each query's best phrase outside its own sentence, among all that the search gives."""
    index, report = tuned
    vectors, owner = [], []
    for block in index.store.vectors():
        for row in block:
            vectors.append(np.frombuffer(row.codes, np.int8).reshape(-1, 16).astype(np.float64))
            owner += [row.first_phrase] * row.phrases
    every = np.concatenate(vectors)
    every /= np.linalg.norm(every, axis=1, keepdims=True)
    firsts = np.unique(owner)
    queries = np.array([np.flatnonzero(np.array(owner) == first)[0] for first in firsts[:100]])
    scores = every[queries] @ every.T
    scores[np.array(owner)[queries][:, None] == np.array(owner)[None, :]] = -2
    best = scores.max(axis=1)
    run = index.search(every[queries].astype(np.float32), 60)
    highest = np.where(np.array(owner)[np.maximum(run.ids, 0)] == firsts[:100, None], -2, run.scores).max(axis=1)
    assert (highest >= best - 1e-4).mean() >= 0.85
    assert report.recall_at_1 >= 0.9
    assert report.reached


@pytest.mark.slow
def test_lists_slack_and_candidates_are_chosen_together(tuned) -> None:
    """As by trying everything."""
    index, _ = tuned
    with index.store.reading():
        drawn = tuning._draw(index.store, 0, 1)
        answers = tuning._with_best_scores(drawn, (unpack(block, 16)[:2] for block in index.store.vectors()))
    engine = index._view.faiss
    costs = {}
    most = tuning._CANDIDATES[-1]
    for probes in (4, 6, 8, 12, 16):
        for slack in (*tuning._SLACKS, 4.0):
            ranks = tuning._ranks(engine, answers, Asking(probes, slack, most), most)
            enough = [c for c in tuning._CANDIDATES if (ranks < c).mean() >= 0.9]
            if enough:
                asking = Asking(probes, slack, enough[0])
                costs[asking] = tuning._cost(engine, answers, asking)
    chosen = tuning._calibrate(engine, answers, 0.9)
    assert len(set(costs.values())) > 10
    assert chosen.cost == pytest.approx(min(costs.values())) == pytest.approx(costs[chosen.asking])
    assert chosen.recall >= 0.9
    assert tuning._calibrate(engine, answers, 0.9, limit=chosen.cost) is None
    assert tuning._calibrate(engine, answers, 0.9, limit=chosen.cost + 1) == chosen
    out_of_reach = tuning._calibrate(engine, answers, 1.1)
    assert out_of_reach.asking == Asking(engine.nlist, 4.0, most)


def test_the_choice_is_kept_told_and_used_by_every_later_opening(tuned) -> None:
    index, report = tuned
    manifest = VectorsManifest.read(index.path / "vectors.json")
    assert manifest.tuned["recall_at_1"] == report.recall_at_1
    assert f"FAISS {manifest.factory}" == report.engine == index.stats().engine
    assert len(report.trials) == len({trial["layout"] for trial in report.trials}) > 1
    assert min(report.single_ms, report.batch_ms) > 0
    with Index.open(index.path, FakeModel(), readonly=True, threads=1) as reader:
        reader.search(np.eye(16, dtype=np.float32), 3)
        assert reader._view.faiss.asking == Asking(**manifest.asking)
        assert reader._view.faiss.asking.candidates == report.candidates
    assert index.verify().ok


def test_the_same_seed_makes_the_same_choice(tuned, tmp_path: Path) -> None:
    index, report = tuned
    with filled(tmp_path / "again") as again:
        other = again.optimize(target_recall=0.9)
        unlike = {"seconds": 0.0, "single_ms": 0.0, "batch_ms": 0.0}
        assert replace(other, **unlike) == replace(report, **unlike)
        name = VectorsManifest.read(index.path / "vectors.json").sha256
        assert VectorsManifest.read(again.path / "vectors.json").sha256 == name


@pytest.mark.slow
def test_what_is_added_later_keeps_the_choice(tmp_path: Path) -> None:
    with filled(tmp_path / "idx", count=300) as index:
        report = index.optimize(target_recall=0.8)
        before = VectorsManifest.read(index.path / "vectors.json")
        index.add([Document.from_texts("more", sentences(200, 7, 3000))], lang="en")
        extended = VectorsManifest.read(index.path / "vectors.json")
        assert extended.rows > before.rows
        index.add([Document.from_texts("much", sentences(2500, 8, 3000))], lang="en")  # grown fourfold: trained again
        renewed = VectorsManifest.read(index.path / "vectors.json")
        assert renewed.trained == renewed.rows > 4 * before.rows
        for later in (extended, renewed):
            assert (later.asking, later.tuned) == (before.asking, before.tuned)
        layouts = [Layout.parse(item.factory) for item in (before, renewed)]
        assert layouts[0].parts == layouts[1].parts
        assert report.engine == f"FAISS {before.factory}"
        index.optimize()
        assert VectorsManifest.read(index.path / "vectors.json").asking == before.asking


@pytest.mark.slow
def test_building_again_does_not_shorten_the_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often: 16 lists of the tuned index's phrases, so four times as many for four times the phrases."""
    monkeypatch.setattr("phrasemate.index.tuning._ALL_READ", 0)
    monkeypatch.setattr("phrasemate.index.faiss_search._SHORTEST", 1)
    with filled(tmp_path / "idx", count=300) as index:
        index.optimize(target_recall=0.8)
        before = VectorsManifest.read(index.path / "vectors.json")
        assert Layout.parse(before.factory).lists == 16
        index.add([Document.from_texts("much", sentences(900, 8, 3000))], lang="en")  # 300 and 900 sentences
        for _ in range(3):
            index.optimize()
            again = VectorsManifest.read(index.path / "vectors.json")
            assert again.rows == pytest.approx(4 * before.rows, rel=0.1)
            assert Layout.parse(again.factory).lists == 64
        replace(again, tuned={"phrases": before.rows}).write(index.path / "vectors.json")  # as it was kept before
        for _ in range(3):
            index.optimize()
            assert Layout.parse(VectorsManifest.read(index.path / "vectors.json").factory).lists == 64


def test_lists_stay_as_long_when_there_are_more_phrases() -> None:
    assert Layout(1024, 48).for_rows(8_000_000, 1_000_000) == Layout(8192, 48)  # 1024 x 8
    assert Layout(0, 48).for_rows(8_000_000, 1_000_000) == Layout(0, 48)
    assert Layout(32_768, 48).for_rows(15_000, 15_000) == Layout(64, 48)  # 50 lists would have 300 rows each
    assert Asking(8, 0.1, 48).fetch(100) == 150  # 48 for 32 results, 1.5 for each
    assert Asking(8, 0.1, 48).fetch(1) == 48


@pytest.mark.slow
def test_the_ten_best_may_be_wanted_not_the_best_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "_ALL_READ", 0)
    with filled(tmp_path / "idx") as index:
        one, ten = (index.optimize(target_recall=0.9, at=at) for at in (1, 10))
        assert ten.at == 10
        assert ten.recall_at_10 >= 0.895  # of hits that score alike some processors count one less at the end
        assert replace(ten, target=ten.recall_at_10).reached
        assert ten.recall_at_10 > one.recall_at_10
        assert not replace(ten, target=ten.recall_at_10 + 0.001).reached
        assert VectorsManifest.read(index.path / "vectors.json").tuned["at"] == 10
        with pytest.raises(InputError, match="recall@3: expected at 1 or 10"):
            index.optimize(target_recall=0.9, at=3)


def test_the_ranks_are_those_of_the_best_phrases() -> None:
    """Two best ones of scores .9 and .8: found as the third and the fifth candidate; then with the fourth left out."""

    class Engine:
        asking = Asking(1, 0.0, 8)
        runs = Runs(np.array([[0, 8]]))

        def propose(self, vectors: np.ndarray, count: int) -> np.ndarray:
            return np.array([[0, 1, 2, 3, 4, 5]])[:, :count]

        def products(self, vectors: np.ndarray, positions: np.ndarray) -> np.ndarray:
            return np.where(positions < 0, -np.inf, np.array([0.1, 0.2, 0.9, 0.3, 0.8, 0.4])[positions])

    query, ids = np.ones((1, 4), np.float32), np.array([3])
    answers = tuning._TuningQueries(query, ids, ids, np.array([[0.9, 0.8, 0.4]], np.float32), 2)
    assert tuning._ranks(Engine(), answers, Engine.asking, 6).tolist() == [[2, 4]]
    assert tuning._ranks(Engine(), answers._replace(end=ids + 1), Engine.asking, 6).tolist() == [[2, 3]]
    assert tuning._ranks(Engine(), answers._replace(at=1), Engine.asking, 6).tolist() == [[2]]
    assert tuning._ranks(Engine(), answers, Engine.asking, 3).tolist() == [[2, 3]]


def test_a_small_index_has_nothing_to_choose(tmp_path: Path) -> None:
    with Index.create(tmp_path / "idx", FakeModel(), settings=SMALL) as index:
        index.add([Document.from_texts("a", ["two words"])])
        report = index.optimize(target_recall=0.9)
        assert (report.engine, report.recall_at_1, report.trials) == ("exact", 1.0, ())


@pytest.mark.parametrize("target", [0, -1, 1.1, float("nan")])
def test_a_senseless_target_is_refused(tmp_path: Path, target: float) -> None:
    with Index.create(tmp_path / "idx", FakeModel()) as index, pytest.raises(InputError, match="target recall"):
        index.optimize(target_recall=target)


def test_a_seed_below_zero_is_refused(tmp_path: Path) -> None:
    with Index.create(tmp_path / "idx", FakeModel()) as index, pytest.raises(InputError, match="seed: -1; expected 0"):
        index.optimize(target_recall=0.9, seed=-1)


@pytest.mark.parametrize(
    "asking", [{"probes": 0, "slack": 0.1, "candidates": 3}, {"probes": "x", "slack": 0.1, "candidates": 3}, {"a": 1}]
)
def test_a_way_to_ask_that_no_tuning_gives_is_damage(tuned, asking: dict) -> None:
    manifest = VectorsManifest.read(tuned[0].path / "vectors.json")
    with pytest.raises(IndexDamaged, match=r"has (invalid|unknown) search settings"):
        Asking.of(replace(manifest, asking=asking), SMALL)


def test_few_lists_are_widened_until_enough_phrases_pass(tuned) -> None:
    """A filter that lets a few pass is not answered from the nearest lists alone."""
    faiss = tuned[0]._view.faiss
    narrow = replace(faiss.asking, probes=1, slack=0.0, candidates=8)
    wide, faiss.asking = faiss.asking, narrow
    try:
        rare = lambda ids: ids % 50 == 0  # noqa: E731
        ids, _ = faiss.search_where(np.eye(16, dtype=np.float32), 5, rare, 0.02)
    finally:
        faiss.asking = wide
    assert (ids >= 0).all()
    assert (ids % 50 == 0).all()


def test_lists_beyond_the_slack_are_read_before_an_answer_is_short(tuned) -> None:
    """Even if as many lists may be read as there are: an index that was tuned when it was larger."""
    faiss = tuned[0]._view.faiss
    wide, faiss.asking = faiss.asking, Asking(2 * faiss.nlist, 0.02, 32)
    try:
        near = faiss.search(np.eye(16, dtype=np.float32)[:1], 2000)[0]
        ids, _ = faiss.search_where(np.eye(16, dtype=np.float32)[:1], 2000, lambda ids: ids >= 0, 1.0)
    finally:
        faiss.asking = wide
    assert (near >= 0).sum() < 2000 == (ids >= 0).sum()


def test_more_threads_than_queries(tuned) -> None:
    engine = tuned[0]._view.faiss
    queries = row_codec.dequantise(np.random.default_rng(5).integers(-127, 128, (64, 16)).astype(np.int8))
    many = Faiss(engine.index, engine._codes, engine.manifest, SMALL, 70)
    assert np.array_equal(many.search(queries, 3)[0], engine.search(queries, 3)[0])


def test_candidates_of_one_query_are_compared_in_pieces(tuned, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = tuned[0]._view.faiss
    queries = np.eye(16, dtype=np.float32)[:3]
    positions = np.random.default_rng(6).integers(-1, engine.manifest.rows, (3, 1000))
    whole = engine.products(queries, positions)
    vectors = row_codec.dequantise(engine._codes)[positions]
    plain = np.where(positions < 0, -np.inf, np.einsum("qnd,qd->qn", vectors, queries))
    assert whole == pytest.approx(plain, abs=1e-5)
    sizes: list[int] = []
    take = np.take
    monkeypatch.setattr(faiss_search, "_NUMBERS_AT_ONCE", 70 * 16)
    monkeypatch.setattr(np, "take", lambda *args, **events: sizes.append(events["out"].size) or take(*args, **events))
    assert np.array_equal(engine.products(queries, positions), whole)
    assert max(sizes) <= 70 * 16


def test_a_batch_gives_what_single_queries_give(tuned) -> None:
    index, _ = tuned
    queries = np.random.default_rng(3).standard_normal((150, 16)).astype(np.float32)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    together = index.search(queries, 7)
    alone = [index.search(query[None], 7) for query in queries]
    same = [np.array_equal(ids, item.ids[0]) for ids, item in zip(together.ids, alone, strict=True)]
    assert np.mean(same) > 0.98  # equal 4-bit scores may be cut in either order
    assert together.scores[:, 0] == pytest.approx([entry.scores[0, 0] for entry in alone], abs=0.05)


def test_each_thread_answers_a_part_of_the_queries(tuned) -> None:
    """As one alone answers all."""
    engine = tuned[0]._view.faiss
    queries = row_codec.dequantise(np.random.default_rng(4).integers(-127, 128, (200, 16)).astype(np.int8))
    several = Faiss(engine.index, engine._codes, engine.manifest, SMALL, 3)
    assert engine._workers == 1
    assert np.array_equal(several.propose(queries, 40), engine.propose(queries, 40))
    for ours, theirs in zip(several.search(queries, 7), engine.search(queries, 7), strict=True):
        assert np.array_equal(ours, theirs)


def test_a_forked_process_has_threads_of_its_own(tuned) -> None:
    engine = tuned[0]._view.faiss
    queries = row_codec.dequantise(np.random.default_rng(5).integers(-127, 128, (200, 16)).astype(np.int8))
    several = Faiss(engine.index, engine._codes, engine.manifest, SMALL, 2)
    ids = several.search(queries, 7)[0]
    child = multiprocessing.get_context("fork").Process(target=_same, args=(several, queries, ids))
    child.start()
    child.join(30)
    child.kill()  # if it hangs
    child.join()
    assert child.exitcode == 0


def _same(engine: Faiss, queries: np.ndarray, expected_ids: np.ndarray) -> None:
    assert np.array_equal(engine.search(queries, 7)[0], expected_ids)


def test_no_queries_have_no_answers(tuned) -> None:
    assert tuned[0].search(np.zeros((0, 16)), 3).ids.shape == (0, 3)


def test_an_index_of_few_long_sentences_can_be_tuned(tmp_path: Path) -> None:
    """There are fewer sentences to ask for than a measurement takes where there are enough."""
    with Index.create(tmp_path / "idx", FakeModel(), settings=SMALL, threads=1) as index:
        words = [f"w{word}" for word in np.random.default_rng(1).integers(0, 300, 400)]
        index.add([Document.from_texts("a", [" ".join(words[at : at + 40]) for at in range(0, 400, 40)])])
        report = index.optimize(target_recall=0.5)
        assert (report.phrases, report.queries) == (10 * (40 + 39), 10)  # words and pairs of neighbours


@pytest.mark.slow
def test_the_command_says_what_was_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path / "idx").close()
    monkeypatch.setattr("phrasemate.index.index.IndexSettings", lambda: SMALL)
    command = ["index", "optimize", str(tmp_path / "idx"), "--target-recall", "0.9", "--threads", "1"]
    answer = CliRunner().invoke(app, [*command, "--json"])
    assert answer.exit_code == 0, answer.output
    facts = json.loads(answer.stdout)
    assert facts["recall_at_1"] >= 0.9
    assert facts["engine"].startswith("FAISS ")
    plain = CliRunner().invoke(app, command).stdout
    assert f"recall@1 {facts['recall_at_1']:.3f}" in plain
    assert "candidates" in plain

"""The folder of a re-ranker, its scorer, and lists re-ranked from both sides."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import encoders
import numpy as np
import pytest

from phrasemate.encode import Model
from phrasemate.encode.model_folder import bundled_folder, check_folder
from phrasemate.errors import InputError, ModelDamaged, ModelError, ModelMismatch, ModelUnsupported
from phrasemate.rank import run_of, whole
from phrasemate.reranker import (
    Attention,
    Network,
    TrainedReranker,
    both_ways,
    bundled_reranker,
    load_reranker,
    mates,
    save_reranker,
)
from phrasemate.types import PhrasePair

TEXTS = encoders.SENTENCES


@pytest.fixture
def trained(model: Model) -> TrainedReranker:
    draw = np.random.default_rng(5)
    project = draw.normal(size=(model.width, 8)).astype(np.float32)
    return TrainedReranker(Network.start(project, np.zeros(8)), model.hash, {}, "h" * 64)


@pytest.fixture
def folder(trained: TrainedReranker, tmp_path: Path) -> Path:
    save_reranker(trained.network, tmp_path, trained.encoder, {"lists": 7})
    return tmp_path


def pairs_of(texts: Sequence[tuple[str, str]]) -> list[PhrasePair]:
    return [PhrasePair(whole(one), whole(other)) for one, other in texts]


EVERY = [(one, other) for one in TEXTS for other in TEXTS]


def test_what_is_saved_is_loaded(folder: Path, trained: TrainedReranker) -> None:
    reranker = load_reranker(folder)
    assert (reranker.encoder, reranker.facts, len(reranker.hash)) == (trained.encoder, {"lists": 7}, 64)
    for name, array in trained.network.arrays.items():
        assert np.array_equal(reranker.network.arrays[name], array.astype(np.float16).astype(np.float32)), name


def test_the_bundled_one_goes_with_the_bundled_encoder() -> None:
    reranker = load_reranker()
    assert reranker.encoder == check_folder(bundled_folder())[1]
    assert sum(path.stat().st_size for path in bundled_reranker().iterdir()) < 3_000_000


def altered(folder: Path, **entries: Any) -> None:
    content = json.loads((folder / "config.json").read_text()) | entries
    (folder / "config.json").write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (lambda f: (f / "config.json").unlink(), ModelError, "no config.json; expected a folder that"),
        (lambda f: (f / "config.json").write_text("{"), ModelDamaged, "not readable as JSON"),
        (lambda f: (f / "config.json").write_text("[]"), ModelUnsupported, "not of the format 'phrasemate-reranker'"),
        (lambda f: altered(f, version=2), ModelUnsupported, "version 2, expected 1; upgrade phrasemate"),
        (lambda f: altered(f, version=0), ModelDamaged, "altered"),
        (lambda f: (f / "config.json").write_text(" " + (f / "config.json").read_text()), ModelDamaged, "altered"),
        (lambda f: (f / "weights.safetensors").unlink(), ModelDamaged, "cannot be read"),
        (lambda f: (f / "weights.safetensors").write_bytes(b"x" * 99), ModelDamaged, "another SHA-256"),
    ],
)
def test_a_bad_folder_is_one_clear_error(folder: Path, damage: Any, error: type[Exception], message: str) -> None:
    damage(folder)
    with pytest.raises(error, match=message) as caught:
        load_reranker(folder)
    assert "\n" not in str(caught.value)


def test_weights_of_another_shape_do_not_fit(folder: Path, trained: TrainedReranker) -> None:
    wrong = Network.start(np.eye(3), np.zeros(3))
    object.__setattr__(wrong, "arrays", wrong.arrays | {"weigh": np.zeros(7, np.float32)})
    save_reranker(wrong, folder, "e", {})
    with pytest.raises(ModelDamaged, match=r"do not fit \(weigh: float32 \(7,\); expected finite float32 \(3,\)\)"):
        load_reranker(folder)


def test_another_encoder_is_refused(model: Model, folder: Path, trained: TrainedReranker) -> None:
    Attention(model, load_reranker(folder))
    with pytest.raises(ModelMismatch, match="trained on the encoder another"):
        Attention(model, trained._replace(encoder="another"))


def test_scores_are_those_of_the_network(model: Model, trained: TrainedReranker) -> None:
    """All pairs at once as each pair alone, whatever is kept; states without the special tokens."""
    network = trained.network
    expected = []
    for one, other in EVERY:
        first, second = (
            network.read(next(model.token_states([text])).values[1:-1], model.encode_sentences([text])[0])
            for text in (one, other)
        )
        expected.append(network.scores(first, [second])[0])
    for limit in (0, 20, 10_000):
        attention = Attention(model, trained, limit)
        assert attention.score(pairs_of(EVERY)) == pytest.approx(expected, abs=1e-3)
        assert attention.score(pairs_of(EVERY[7:9])) == pytest.approx(expected[7:9], abs=1e-3)
        assert sum(len(read.tokens) for read in attention._cache.values()) <= limit
    assert attention.score([]).shape == (0,)


def test_long_lists_are_cut(model: Model, trained: TrainedReranker, monkeypatch: pytest.MonkeyPatch) -> None:
    whole_list = Attention(model, trained).score(pairs_of(EVERY))
    monkeypatch.setattr("phrasemate.reranker.TOGETHER", 12)
    assert Attention(model, trained).score(pairs_of(EVERY)) == pytest.approx(whole_list, rel=1e-5)


class Given:
    """Scores from a table; counts what it is asked."""

    def __init__(self, table: Any) -> None:
        self.table, self.requests = np.array(table, np.float32), list[tuple[str, str]]()

    def score(self, pairs: Sequence[PhrasePair]) -> Any:
        self.requests += [(pair.source.text, pair.target.text) for pair in pairs]
        return np.array([self.table[int(pair.source.text[1]), int(pair.target.text[1])] for pair in pairs])


QUERIES, DOCUMENTS = [whole(f"q{i}") for i in range(4)], [whole(f"d{i}") for i in range(4)]


def test_a_document_that_fits_another_query_better_is_put_behind() -> None:
    """Query 0 scores 4 with its own document, 5 with number 1, which scores 9 with query 1; k = 1."""
    scorer = Given([[4, 5, 0, 0], [0, 9, 0, 0], [0, 0, 3, 0], [0, 0, 0, 3]])
    values = np.array([[2, 3, 1, 0], [1, 3, 0, 0], [0, 1, 3, 2], [0, 1, 2, 3]], np.float32)
    run = both_ways(run_of(values), run_of(values.T), scorer, 2, QUERIES.__getitem__, DOCUMENTS.__getitem__, k=1)
    assert run.ids[0].tolist() == [0, 1, 2, 3]  # the last two were not looked at, and stay
    assert run.scores[0, :2].tolist() == [2 * 4 - 5 - 4, 2 * 5 - 5 - 9]  # 2 s - own - other
    assert (np.diff(run.scores, axis=1) <= 0).all()
    assert (run.scores[:, 1] > run.scores[:, 2]).all()
    assert run.ids[1:, 0].tolist() == [1, 2, 3]
    assert len(scorer.requests) == len(set(scorer.requests))  # each pair once, and always the query first
    assert all(one[0] == "q" and other[0] == "d" for one, other in scorer.requests)


def test_the_margins_are_those_of_a_loop() -> None:
    draw = np.random.default_rng(2)
    table, values = draw.normal(size=(4, 4)), draw.normal(size=(4, 4)).astype(np.float32)
    run = both_ways(run_of(values), run_of(values.T), Given(table), 4, QUERIES.__getitem__, DOCUMENTS.__getitem__, k=2)
    for query, (ids, scores) in enumerate(zip(run.ids, run.scores, strict=True)):
        for document, score in zip(ids, scores, strict=True):
            row_best, other = (np.sort(side)[-2:].mean() for side in (table[query], table[:, document]))
            assert score == pytest.approx(2 * table[query, document] - row_best - other, abs=1e-5)


def test_fewer_than_are_asked_for(model: Model, trained: TrainedReranker) -> None:
    """Three queries and five documents: all are re-ranked; a score of -inf is not a candidate."""
    values = np.zeros((3, 5), np.float32)
    values[0, 4] = -np.inf
    run = mates(Attention(model, trained), values, TEXTS[:3], TEXTS[1:], "mates")
    assert run.name == "mates"
    assert sorted(run.ids[0].tolist()) == [-1, 0, 1, 2, 3]
    assert run.ids[1, 0] == 0  # itself
    values[2] = -np.inf
    assert mates(Attention(model, trained), values, TEXTS[:3], TEXTS[1:]).ids[2].tolist() == [-1] * 5
    assert mates(Attention(model, trained), values[:, :0], TEXTS[:3], []).ids.shape == (3, 0)
    with pytest.raises(InputError, match="k 3 and n 2; expected no more neighbours"):
        both_ways(run_of(values), run_of(values.T), Given([[0]]), 2, QUERIES.__getitem__, DOCUMENTS.__getitem__, k=3)

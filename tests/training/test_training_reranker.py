"""The re-ranker's network in torch, and its training."""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "reranker"))

import encoders
import plain_reranker

from phrasemate.cli import app
from phrasemate.encode import Model, load_model
from phrasemate.encode.export.export import export_model
from phrasemate.encode.model_folder import HEADS, write_manifest
from phrasemate.errors import InputError
from phrasemate.reranker import load_reranker
from phrasemate.training.frozen_states import sentence_states
from phrasemate.training.reranker import Config, Reranker, RerankerTask, Tokens, first_network, lists, listwise_loss
from phrasemate.training.trainer import Trainer
from phrasemate.utils.margin import csls

WORDS = sorted({word.strip(".").lower() for text in encoders.SENTENCES for word in text.split()})
WIDTH, DIM = 6, 4


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Model:
    base = tmp_path_factory.mktemp("encoder")
    export_model(encoders.save_xlmr(base / "huggingface"), base / "model")
    draw = np.random.default_rng(1)
    heads = {name: draw.normal(size=(encoders.HIDDEN, 12)).astype(np.float32) for name in ("start", "end")}
    save_file(heads | {"bias": draw.normal(size=12).astype(np.float32)}, base / "model" / HEADS)
    write_manifest(base / "model")
    return load_model(base / "model", threads=1)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two language pairs; a mate has the words in another order."""
    draw = np.random.default_rng(3)
    for pair, parts in (("xx-yy", {"train": 30, "dev": 12}), ("xx-zz", {"train": 20})):
        for name, count in parts.items():
            rows = [draw.choice(WORDS, draw.integers(2, 6), replace=False).tolist() for _ in range(count)]
            lines = [" ".join(row) + "\t" + " ".join(reversed(row)) + "\n" for row in rows]
            (tmp_path / "data" / pair).mkdir(parents=True, exist_ok=True)
            (tmp_path / "data" / pair / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    return tmp_path / "data"


@pytest.fixture
def tables() -> dict[str, Any]:
    return {
        "data": {"pairs": ["xx-yy", "xx-zz"], "batch": 4, "candidates": 5},
        "optimizer": {"rate": 0.003},
        "loop": {"steps": 12, "warmup": 1, "log": 1, "evaluate": 4, "checkpoint": 3, "precision": "fp32"},
    }


def task_of(tables: dict[str, Any], data: Path, encoder: Model) -> RerankerTask:
    return RerankerTask(Config.of(tables), data, encoder, data.parent / "states")


def example(seed: int = 0) -> tuple[list[Any], list[list[Any]], Any]:
    """Two sentences, each with three others, all of different lengths, and cosines."""
    draw = np.random.default_rng(seed)
    first = [draw.normal(size=(n, WIDTH)).astype(np.float32) for n in (3, 5)]
    second = [[draw.normal(size=(n, WIDTH)).astype(np.float32) for n in row] for row in ((2, 6, 1), (4, 3, 7))]
    return first, second, draw.uniform(-1, 1, (2, 3)).astype(np.float32)


def padded(sentences: list[Any], longest: int, filling: float = 0.0) -> Tokens:
    states = torch.full((len(sentences), longest, WIDTH), filling)
    mask = torch.zeros(len(sentences), longest)
    for row, sentence in enumerate(sentences):
        states[row, : len(sentence)], mask[row, : len(sentence)] = torch.from_numpy(sentence), 1
    return Tokens(states, mask)


def scores(module: Reranker, seed: int = 0, more: int = 0, filling: float = 0.0) -> torch.Tensor:
    first, second, cosines = example(seed)
    rows = [padded(row, 7 + more, filling) for row in second]
    both = Tokens(torch.stack([row.states for row in rows]), torch.stack([row.mask for row in rows]))
    return module(padded(first, 5 + more, filling), both, torch.from_numpy(cosines))


def test_a_padded_batch_is_as_the_loops_and_as_numpy() -> None:
    network = plain_reranker.shaken(WIDTH, DIM)
    first, second, cosines = example()
    loops = [
        [plain_reranker.score(network, query_tokens, item, float(c)) for item, c in zip(row, cs, strict=True)]
        for query_tokens, row, cs in zip(first, second, cosines, strict=True)
    ]
    result = scores(Reranker(network)).detach().numpy()
    assert result == pytest.approx(np.array(loops), rel=1e-5)
    vector = np.zeros(WIDTH, np.float32)
    for query, row, expected_row, cs in zip(first, second, result, cosines, strict=True):
        plain = network.scores(network.read(query, vector), [network.read(entry, vector) for entry in row])
        assert plain + network.arrays["mix"][0] * cs == pytest.approx(expected_row, rel=1e-5)


def test_padding_changes_no_score_and_no_gradient() -> None:
    module = Reranker(plain_reranker.shaken(WIDTH, DIM))
    result, gradients = [], []
    for more, filling in ((0, 0.0), (4, 0.0), (2, 9.0)):
        module.zero_grad()
        expected_scores = scores(module, more=more, filling=filling)
        expected_scores.pow(2).sum().backward()
        result.append(expected_scores.detach())
        gradients.append({name: value.grad.clone() for name, value in module.weights.items()})
    for other, gradient in zip(result[1:], gradients[1:], strict=True):
        assert torch.allclose(result[0], other, rtol=1e-5)
        for name, value in gradients[0].items():
            assert torch.allclose(value, gradient[name], rtol=1e-3, atol=1e-4), name


def test_the_gradient_is_that_of_differences() -> None:
    module = Reranker(plain_reranker.shaken(WIDTH, DIM, seed=4)).double()
    first, second, cosines = example()
    rows = [padded(row, 7) for row in second]
    both = Tokens(torch.stack([row.states for row in rows]).double(), torch.stack([row.mask for row in rows]))
    query = padded(first, 5)
    expected_row = Tokens(query.states.double(), query.mask)
    names = list(module.weights)

    def forward(*values: torch.Tensor) -> torch.Tensor:
        expected_scores = torch.func.functional_call(
            module, {f"weights.{name}": value for name, value in zip(names, values, strict=True)},
            (expected_row, both, torch.from_numpy(cosines).double()),
        )  # fmt: skip
        return listwise_loss(expected_scores, torch.zeros_like(expected_scores, dtype=torch.bool))

    values = [module.weights[name].detach().clone().requires_grad_() for name in names]
    assert torch.autograd.gradcheck(forward, values)


def test_the_loss_leaves_out_what_is_not_negative() -> None:
    expected_scores = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 5.0]])
    ignored = torch.tensor([[False, True, False], [False, False, False]])
    one = -np.log(np.exp(1) / (np.exp(1) + np.exp(3)))
    other = -np.log(1 / (1 + 1 + np.exp(5)))
    assert listwise_loss(expected_scores, ignored).item() == pytest.approx((one + other) / 2, abs=1e-6)


@pytest.mark.parametrize("block", [12, 5, 1])
def test_lists_are_what_the_encoder_ranks_high(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    first, second = np.random.default_rng(0).normal(size=(2, 12, 5)).astype(np.float32)
    texts = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1])  # the last reads as number 1 does
    monkeypatch.setattr("phrasemate.utils.knn.BLOCK", 12 * block)
    result, ignored = lists(first, second, texts, 6)
    values = csls(first @ second.T, 1)
    for row in range(12):
        others = sorted((item for item in range(12) if item != row), key=lambda entry: -values[row, entry])[:5]
        assert result[row].tolist() == [row, *others]
        assert ignored[row].tolist() == [False, *(texts[element] == texts[row] for element in others)]


def test_states_are_kept_without_special_tokens(encoder: Model, tmp_path: Path) -> None:
    texts, events = list(encoders.SENTENCES), []
    expected_scores = sentence_states(encoder, texts, tmp_path, lambda *arguments: events.append(arguments))
    again = sentence_states(encoder, texts, tmp_path, lambda *item: events.append(item))
    assert events == [(0, 6), (6, 6)]  # computed once
    for number, text in enumerate(texts):
        states = next(encoder.token_states([text])).values[1:-1]
        assert expected_scores.tokens(number) == pytest.approx(states, abs=0.01)
        assert np.array_equal(expected_scores.tokens(number), again.tokens(number))
    assert expected_scores.vectors == pytest.approx(encoder.encode_sentences(texts), abs=1e-6)


@pytest.mark.parametrize("name", ["values", "bounds", "vectors"])
@pytest.mark.parametrize("damage", ["empty", "short", "altered", "gone"])
def test_states_that_are_not_whole_are_made_again(encoder: Model, tmp_path: Path, name: str, damage: str) -> None:
    texts = list(encoders.SENTENCES)
    whole = [array.copy() for array in sentence_states(encoder, texts, tmp_path)]
    path = next(tmp_path.glob(f"*.{name}.npy"))
    content = bytearray(path.read_bytes())
    content[-6] ^= 64
    path.write_bytes({"empty": b"", "short": content[:-8], "altered": bytes(content), "gone": b""}[damage])
    if damage == "gone":
        path.unlink()
    again = sentence_states(encoder, texts, tmp_path)
    assert all(np.array_equal(a, b) for a, b in zip(again, whole, strict=True))


def test_two_runs_that_share_their_states(encoder: Model, tmp_path: Path) -> None:
    texts, start = list(encoders.SENTENCES), threading.Barrier(2)

    def states_of(_: int) -> Any:
        start.wait()
        return sentence_states(encoder, texts, tmp_path)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(states_of, range(2))
    assert np.array_equal(first.values, second.values)
    assert sorted(path.suffix for path in tmp_path.iterdir() if path.suffix != ".lock") == [".npy"] * 3


def test_training_begins_with_the_phrase_projection(encoder: Model) -> None:
    assert encoder.head is not None
    start = first_network(encoder)
    assert np.array_equal(start.arrays["project"], encoder.head.start + encoder.head.end)
    other = first_network(encoder, 5).arrays["project"]
    assert other.T @ other == pytest.approx(np.eye(5), abs=1e-5)
    with pytest.raises(InputError, match=r"dim 99: .* expected 1 to 64"):
        first_network(encoder, 99)


def test_every_list_comes_once_in_a_pass(tables: dict[str, Any], data: Path, encoder: Model) -> None:
    """50 pairs, both sides asking: 100 lists of five, 25 steps of four; and a batch is of its number alone."""
    task = task_of(tables, data, encoder)
    assert task.facts()["lists"] == 100
    batches = [task.batch(number) for number in range(25)]
    assert {tuple(batch.cosines.shape) for batch in batches} == {(4, 5)}
    sums = torch.cat([(batch.first.states * batch.first.mask[..., None]).sum((1, 2)) for batch in batches])
    assert len(set(sums.tolist())) > 90  # a few sentences may have the same words
    other = task_of(tables, data, encoder).batch(7)
    assert torch.equal(other.second.states, batches[7].second.states)
    assert torch.equal(other.cosines, batches[7].cosines)


def lines(run: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "tokens/s"} for row in rows]


class Stop(Exception):
    pass


@pytest.mark.parametrize("stop", [1, 5])
def test_a_run_continues_exactly(tables: dict[str, Any], data: Path, encoder: Model, tmp_path: Path, stop: int) -> None:
    """The same losses and weights, dropout included."""

    def trainer(run: str) -> Trainer[Any]:
        task = task_of(tables, data, encoder)
        return Trainer(task, task.config.loop, tmp_path / run, task.facts())

    def interrupt(event: Any) -> None:
        if event.step == stop:
            raise Stop

    whole = trainer("whole")
    whole.run()
    with pytest.raises(Stop):
        trainer("parts").run(progress=interrupt)
    torch.manual_seed(99)
    second = trainer("parts")
    second.run()
    assert lines(tmp_path / "parts") == lines(tmp_path / "whole")
    for (name, a), b in zip(whole.task.module.named_parameters(), second.task.module.parameters(), strict=True):
        assert torch.equal(a, b), name


def test_it_learns(tables: dict[str, Any], data: Path, encoder: Model, tmp_path: Path) -> None:
    """The last pass over the lists against the first; 25 steps are one."""
    tables["loop"] |= {"steps": 125, "evaluate": 0, "checkpoint": 125}
    tables["optimizer"] = {"rate": 0.01}
    task = task_of(tables, data, encoder)
    Trainer(task, task.config.loop, tmp_path / "run", task.facts()).run()
    losses = [row["loss"] for row in lines(tmp_path / "run") if "loss" in row]
    assert np.mean(losses[-25:]) < 0.8 * np.mean(losses[:25])


@pytest.mark.parametrize(
    ("table", "changes", "message"),
    [
        ("data", {"pairs": []}, "0 pairs"),
        ("data", {"candidates": 1}, "candidates 1"),
        ("data", {"candidates": 25}, "12 pairs; expected 25 or more"),
        ("data", {"pairs": ["xx-zz"]}, "no dev.tsv in xx-zz"),
        ("data", {"pairs": ["xx-qq"]}, "xx-qq.train.tsv: no such file"),
        ("data", {"colour": 1}, "colour: unknown"),
        ("model", {"dropout": 1.0}, "dropout 1.0"),
        ("data", {"dev": -1}, "dev: -1; expected 0 or more"),
        ("optimizer", {"rate": -1.0}, "rate: -1.0; expected 0 or more"),
        ("optimizer", {"mix_rate": -1.0}, "mix_rate: -1.0; expected 0 or more"),
    ],
)
def test_wrong_settings_are_one_clear_error(
    tables: dict[str, Any], data: Path, encoder: Model, table: str, changes: dict[str, Any], message: str
) -> None:
    tables[table] = tables.get(table, {}) | changes
    with pytest.raises(InputError, match=message):
        task_of(tables, data, encoder)


def test_the_command(tables: dict[str, Any], data: Path, encoder: Model, tmp_path: Path) -> None:
    config = tmp_path / "reranker.toml"
    config.write_text('[data]\npairs = ["xx-yy"]\ncandidates = 5\nbatch = 2\n[loop]\nwarmup = 1\nprecision = "fp32"\n')
    expected_row = ["train", "reranker", str(config), "-o", str(tmp_path / "run"), "--data", str(data)]
    expected_row += ["--model", str(encoder.folder), "--set", "loop.steps=2", "--threads", "1", "--json"]
    result = CliRunner().invoke(app, expected_row)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout.splitlines()[-1])["finished"] is True
    reranker = load_reranker(tmp_path / "run" / "model")
    assert reranker.encoder == encoder.hash
    assert reranker.facts["data"]["pairs"] == ["xx-yy"]


def test_scores_are_not_rounded_to_half_precision() -> None:
    """At 40, bfloat16 has steps of a quarter."""
    module = Reranker(plain_reranker.shaken(WIDTH, DIM, seed=4))
    first, second, cosines = example()
    both = Tokens(*(torch.stack(item) for item in zip(*(padded(row, 7) for row in second), strict=True)))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        expected_scores = module(padded(first, 5), both, torch.from_numpy(cosines))
    assert expected_scores.dtype == torch.float32
    assert not torch.equal(expected_scores, expected_scores.bfloat16().float())

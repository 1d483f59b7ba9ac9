"""XPR in the training loop: exact resume, settings, held-out figures, model folders; and the command."""

from __future__ import annotations

import json
import math
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from example_data import settings, write_data, write_split
from typer.testing import CliRunner

from phrasemate import Phrase, load_model
from phrasemate.cli import app
from phrasemate.dataset.wikixpr import read_dataset
from phrasemate.encode.export.export import export_model
from phrasemate.errors import InputError, PhrasemateError, ReadError
from phrasemate.training.trainer import Trainer
from phrasemate.training.xpr import Config, XPRTask

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


def task(base: Path, folder: Path, tmp: Path, **changes: dict[str, Any]) -> XPRTask:
    return XPRTask(Config.of(settings(base, **changes)), folder, tmp / "states")


def trainer(base: Path, folder: Path, run: Path, **changes: dict[str, Any]) -> Trainer[Any]:
    result = task(base, folder, run.parent, **changes)
    return Trainer(result, result.loop, run, result.facts())


def lines(run: Path) -> list[dict[str, Any]]:
    """Metrics without the clock's."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "tokens/s"} for row in rows]


def losses(run: Path) -> list[float]:
    return [row["loss"] for row in lines(run) if "loss" in row]


class Stop(Exception):
    pass


RESUMED: list[dict[str, dict[str, Any]]] = [
    {},
    {"loss": {"negatives": "both", "queue": 7}, "model": {"frozen": 1, "kept": True, "dropout": 0.2}},
    {"loss": {"targets": "same"}, "loop": {"accumulate": 2}},
]


@pytest.mark.parametrize("changes", RESUMED, ids=["plain", "queue", "same"])
@pytest.mark.parametrize("stop", [1, 4])
def test_a_run_continues_exactly(
    base: Path, data: Path, tmp_path: Path, changes: dict[str, dict[str, Any]], stop: int
) -> None:
    """Same losses, same weights, same momentum encoder and queue as an undisturbed run."""
    whole = trainer(base, data, tmp_path / "whole", **changes)
    whole.run()

    def interrupt(event: Any) -> None:
        if event.step == stop:
            raise Stop

    with pytest.raises(Stop):
        trainer(base, data, tmp_path / "parts", **changes).run(progress=interrupt)
    torch.manual_seed(99)  # another process
    second = trainer(base, data, tmp_path / "parts", **changes)
    second.run()
    assert lines(tmp_path / "parts") == lines(tmp_path / "whole")
    assert [row["step"] for row in lines(tmp_path / "whole")] == [1, 2, 3, 4, 4, 5, 6, 6]
    for (name, a), b in zip(whole.task.module.named_parameters(), second.task.module.parameters(), strict=True):
        assert torch.equal(a, b), name
    result, expected = second.task.state(), whole.task.state()
    assert set(result) == set(expected)
    assert bool(result) == ("targets" not in changes.get("loss", {}))
    for name, value in expected.items():
        assert torch.equal(result[name], value), name


def test_the_memory_of_a_run_is_in_its_checkpoint(base: Path, data: Path, tmp_path: Path) -> None:
    changes: dict[str, dict[str, Any]] = {"loss": {"negatives": "queue", "queue": 8}}
    first = trainer(base, data, tmp_path / "run", **changes)
    first.run()
    second = trainer(base, data, tmp_path / "run", **changes)
    differing = [
        name for name, value in second.task.state().items() if not torch.equal(value, first.task.state()[name])
    ]
    assert {"queue/vectors", "queue/wordings", "queue/count"} < set(differing)
    second.run()
    assert all(torch.equal(value, first.task.state()[name]) for name, value in second.task.state().items())
    assert int(first.task.state()["queue/count"]) == 6 * 4


def test_training_learns(base: Path, data: Path, tmp_path: Path) -> None:
    changes: dict[str, dict[str, Any]] = {
        "loop": {"steps": 40, "evaluate": 0},
        "data": {"pairs": ["xx-en"]},
        "loss": {"temperature": 0.3},
    }
    trainer(base, data, tmp_path / "run", **changes).run()
    result = losses(tmp_path / "run")
    assert sum(result[-5:]) < 0.7 * sum(result[:5])


def test_kept_states_train_alike(base: Path, data: Path, tmp_path: Path) -> None:
    trainer(base, data, tmp_path / "plain", model={"frozen": 1}).run()
    trainer(base, data, tmp_path / "kept", model={"frozen": 1, "kept": True}).run()
    losses_with_memory, plain = losses(tmp_path / "kept"), losses(tmp_path / "plain")
    assert losses_with_memory[0] == pytest.approx(plain[0], rel=1e-3)  # half precision
    assert losses_with_memory == pytest.approx(plain, rel=5e-3)
    names = {path.name.rsplit("-", 1)[0] for path in (tmp_path / "states").glob("*.npy")}
    assert names == {"xx-en-train", "yy-en-train", "xx-en-dev", "yy-en-dev"}


SHORT = {"steps": 6, "stop": 4, "evaluate": 0}


def test_cached_gradients_train_alike(base: Path, data: Path, tmp_path: Path) -> None:
    trainer(base, data, tmp_path / "plain", loop=SHORT).run()
    trainer(base, data, tmp_path / "cached", loop=SHORT, optimizer={"cached": True, "chunk": 20}).run()
    assert losses(tmp_path / "cached") == pytest.approx(losses(tmp_path / "plain"), abs=1e-3)


def test_cached_gradients_have_the_same_dropout(base: Path, data: Path, tmp_path: Path) -> None:
    """The gradient of the very loss that was computed first, not of another draw."""
    results = []
    for cached in (False, True):
        result = task(base, data, tmp_path, model={"dropout": 0.3}, optimizer={"cached": cached})
        result.module.train()
        torch.manual_seed(1)
        result.backward(result.batch(0), nullcontext, 1.0)
        results.append([p.grad for p in result.module.parameters()])
    for plain, again in zip(*results, strict=True):
        assert plain is not None
        assert again is not None
        assert torch.allclose(plain, again, atol=1e-6)


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("data", {"examples": 0}),
    ("data", {"examples": 1}),
    ("data", {"pool": 1}),
    ("data", {"pairs": ["xx-en"]}),
    ("model", {"layer": 1}),
    ("model", {"frozen": 1}),
    ("model", {"projection": "tokens"}),
    ("model", {"projection": "none"}),
    ("model", {"start": "identity"}),
    ("loss", {"targets": "same"}),
    ("loss", {"targets": "stopped"}),
    ("loss", {"momentum": 0.0}),
    ("loss", {"temperature": 0.5}),
    ("loss", {"negatives": "queue"}),
    ("loss", {"negatives": "both"}),
    ("loss", {"same_wording": "ignored"}),
]


@pytest.mark.parametrize(("table", "change"), CHANGES, ids=[f"{k}={v}" for _, c in CHANGES for k, v in c.items()])
def test_every_setting_changes_the_losses(
    base: Path, data: Path, tmp_path: Path, plain_losses: list[float], table: str, change: dict[str, Any]
) -> None:
    trainer(base, data, tmp_path / "run", **{table: change}, loop=SHORT).run()
    assert losses(tmp_path / "run") != pytest.approx(plain_losses, abs=1e-4)


@pytest.fixture(scope="module")
def plain_losses(base: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    run = tmp_path_factory.mktemp("plain") / "run"
    trainer(base, data, run, loop=SHORT).run()
    return losses(run)


def test_without_momentum_is_momentum_0(base: Path, data: Path, tmp_path: Path) -> None:
    """A momentum encoder that follows at once is the same encoder without a gradient."""
    trainer(base, data, tmp_path / "stopped", loss={"targets": "stopped"}, loop=SHORT).run()
    trainer(base, data, tmp_path / "zero", loss={"momentum": 0.0}, loop=SHORT).run()
    assert losses(tmp_path / "stopped") == pytest.approx(losses(tmp_path / "zero"), abs=1e-5)


def test_epochs_and_warm_up_are_counted_out(base: Path, data: Path, tmp_path: Path) -> None:
    result = task(base, data, tmp_path, optimizer={"epochs": 100, "warmup": 0.01}, loop={"accumulate": 2})
    assert (result.loop.steps, result.loop.warmup) == (100 * (12 + 12) // (4 * 2), 3)
    assert result.schedule.train.shape == (600, 4, 2)
    rows = result.schedule.train[:6].reshape(-1, 2).tolist()
    assert max(rows.count(row) for row in rows) <= 2  # no pair again before all of its language have come


def test_languages_are_mixed_in_each_batch(base: Path, data: Path, tmp_path: Path) -> None:
    result = task(base, data, tmp_path, data={"batch": 12})
    assert {len(set(result.batch(i).sampled.file.tolist())) for i in range(4)} == {2}
    assert set(task(base, data, tmp_path, data={"pairs": ["yy-en"]}).batch(0).sampled.file.tolist()) == {0}


def test_held_out_accuracy_by_a_plain_loop(base: Path, data: Path, tmp_path: Path) -> None:
    """From the vectors of the exported model: by the text of the nearest, in both directions, averaged."""
    run = trainer(base, data, tmp_path / "run")
    run.run()
    result = json.loads((tmp_path / "run" / "model" / "training.json").read_text())["dev"]
    shares = {}
    for file, pair in enumerate(("xx-en", "yy-en")):
        vectors = run.task.held_out(file, nullcontext)
        pairs = read_dataset(data, pair, "dev")
        for side, name in ((0, "xx>en" if file == 0 else "yy>en"), (1, "en>xx" if file == 0 else "en>yy")):
            texts = [(p.target, p.source)[side].casefold() for p in pairs]
            right = 0
            for i, query in enumerate(vectors[side]):
                scores = [float(query @ candidate) for candidate in vectors[1 - side]]
                right += texts[scores.index(max(scores))] == texts[i]
            shares[name] = right / len(pairs)
    assert {name: result[name] for name in shares} == pytest.approx(shares)
    assert result["score"] == pytest.approx(sum(shares.values()) / 4)


def test_a_pair_of_languages_both_ways_round(base: Path, data: Path, tmp_path: Path) -> None:
    """All four directions have a figure, and acc@1 is their mean."""
    for source, pair in (("xx-en", "xx-en"), ("yy-en", "en-xx")):
        shutil.copytree(data / source, tmp_path / "data" / pair)
    report = task(base, tmp_path / "data", tmp_path).evaluate(nullcontext)
    names = ("en>xx", "xx>en", "xx>en (xx-en)", "en>xx (xx-en)")
    assert set(report) == {"score", "acc@1", *names}
    assert report["acc@1"] == report["score"] == pytest.approx(sum(report[name] for name in names) / 4)


@pytest.mark.parametrize("projection", ["pooled", "tokens"])
@pytest.mark.parametrize("keep", [True, False])
def test_the_exported_model_gives_the_same_vectors(
    base: Path, data: Path, tmp_path: Path, projection: str, keep: bool
) -> None:
    """mean, or the projection of it; the layer is the last of the folder. The int8 weights round a little."""
    model = {"projection": projection, "keep_head": keep, "layer": 1}
    run = trainer(
        base, data, tmp_path / "run", model=model, loop={"steps": 2}, data={"dev_examples": 1, "max_tokens": 60}
    )
    run.run()
    assert (tmp_path / "run" / "model" / "heads.safetensors").exists() == keep
    export_model(tmp_path / "run" / "model", tmp_path / "out", embedding_bits=8)
    exported = load_model(tmp_path / "out", threads=1)
    assert (exported.config["pooling"], exported.pooling) == ("mean", "head" if keep else "mean")
    assert (exported.config["depth"], exported.dim, exported.learned) == (1, 64, None)
    assert exported.config["signature"]["model"]["layer"] == 1
    pairs = read_dataset(data, "xx-en", "dev")
    phrases = [(p.source_examples or (Phrase(p.source, 0, len(p.source)),))[0] for p in pairs]
    vectors = exported.encode(phrases)
    expected = run.task.held_out(0, nullcontext)[0].numpy()
    assert (vectors * expected).sum(1).min() > 0.98
    if keep:  # without the projection a phrase is something else
        assert (exported.encode(phrases, pooling="mean") * expected).sum(1).max() < 0.9


def test_a_phrase_without_examples_is_reported(base: Path, data: Path, tmp_path: Path) -> None:
    assert task(base, data, tmp_path).remarks[0] == (
        "xx-en train: 2 of 24 phrases have no example sentence; each stands for itself"
    )
    assert task(base, data, tmp_path, data={"examples": 0}).remarks == []
    remarks = task(base, data, tmp_path, data={"dev_examples": 0}).remarks  # bare because it was asked for
    assert [item.split(":")[0] for item in remarks] == ["xx-en train", "yy-en train"]


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("data", {"pairs": ["zz-en"]}, "zz-en/train.jsonl: no such file; the pairs in .* are: xx-en, yy-en"),
    ("data", {"dev_pairs": ["zz-en"]}, "zz-en/dev.jsonl: no such file"),
    ("data", {"batch": 25}, "24 phrase pairs to train on; expected 25 or more, a batch"),
    ("data", {"batch": 1}, r"\[data\] batch: 1; expected 2 or more"),
    ("data", {"examples": -1}, r"\[data\] examples: -1; expected 0 or more"),
    ("data", {"sentences": 4}, r"\[data\] sentences: unknown; expected some of pairs, batch"),
    ("model", {"projection": "mean"}, r"\[model\] projection: 'mean'; expected pooled, tokens or none"),
    ("model", {"start": "zero"}, r"\[model\] start: 'zero'; expected random or identity"),
    ("model", {"frozen": 2}, "frozen 2, layer 2; expected 0 <= frozen < layer <= 2"),
    ("model", {"layer": 3}, "frozen 0, layer 3"),
    ("loss", {"temperature": 0.0}, "temperature must be above 0, and momentum from 0 to 1"),
    ("loss", {"momentum": 1.5}, "temperature must be above 0, and momentum from 0 to 1"),
    ("data", {"pool": -1}, r"\[data\] pool: -1; expected 0 or more"),
    ("data", {"dev": -1}, r"\[data\] dev: -1; expected 0 or more"),
    ("data", {"evenness": -1.0}, r"\[data\] evenness: -1.0; expected 0 or more"),
    ("optimizer", {"heads": -1.0}, r"\[optimizer\] heads: -1.0; expected 0 or more"),
    ("optimizer", {"epochs": math.nan}, r"\[optimizer\] epochs: nan; expected a finite number"),
    ("optimizer", {"warmup": 100.0}, r"\[optimizer\] warmup: 100.0; expected a share of the steps, 1 at most"),
    ("optimizer", {"chunk": 0}, r"\[optimizer\] chunk: 0; expected 1 or more"),
    ("loss", {"queue": 0, "negatives": "queue"}, r"\[loss\] queue: 0; expected 1 or more"),
]


@pytest.mark.parametrize(("table", "change", "expected"), WRONG, ids=[str(change) for _, change, _ in WRONG])
def test_what_is_wrong_is_named(
    base: Path, data: Path, tmp_path: Path, table: str, change: dict[str, Any], expected: str
) -> None:
    with pytest.raises(InputError, match=expected):
        task(base, data, tmp_path, **{table: change})


def test_unknown_tables_are_named(base: Path) -> None:
    with pytest.raises(InputError, match=r"\[lossy\]: unknown; expected data, model, loss, optimizer, loop"):
        Config.of({**settings(base), "lossy": {}})


@pytest.mark.parametrize("damage", ["truncated", "empty", "encoding", "offsets", "none"])
def test_damaged_data_is_one_error(base: Path, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "data"
    for split in ("train", "dev"):
        write_split(folder / "xx-en" / f"{split}.jsonl", 1)
    path = folder / "xx-en" / "train.jsonl"
    content = path.read_bytes()
    broken = {"truncated": content[:-40], "empty": b"", "encoding": content.replace(b"haus", b"h\xe4us")}
    broken |= {"offsets": content.replace(b'"start": 0, "end": 4', b'"start": 0, "end": 400')}
    if damage == "none":
        path.unlink()
    else:
        path.write_bytes(broken[damage])
        assert path.read_bytes() != content
    expected = ReadError if damage in ("truncated", "encoding", "offsets") else InputError
    with pytest.raises(expected) as caught:
        task(base, folder, tmp_path)
    assert isinstance(caught.value, PhrasemateError)
    assert "\n" not in str(caught.value)


def write_toml(path: Path, tables: dict[str, Any]) -> Path:
    rows = [
        f"[{name}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in table.items()) for name, table in tables.items()
    ]
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


def test_the_command_trains_and_its_model_searches(base: Path, data: Path, tmp_path: Path) -> None:
    config = write_toml(tmp_path / "small.toml", settings(base, model={"frozen": 1, "kept": True}))
    run, model = tmp_path / "run", tmp_path / "model"
    command = ["train", "xpr", str(config), "-o", str(run), "--data", str(data), "--device", "cpu"]
    part = CliRunner().invoke(app, [*command, "--minutes", "0", "--json"])
    assert part.exit_code == 0, part.output
    assert json.loads(part.stdout)["finished"] is False
    assert "states of xx-en train: " in part.stderr
    assert "xx-en train: 2 of 24 phrases have no example sentence; each stands for itself" in part.stderr
    assert len(list((run / "states").glob("*.npy"))) == 4
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "trained for 6 steps" in result.stdout
    assert "states of xx-en train: " not in result.stderr
    exported = CliRunner().invoke(app, ["model", "export", str(run / "model"), "-o", str(model)])
    assert exported.exit_code == 0, exported.output
    remarks = CliRunner().invoke(app, ["model", "info", str(model), "--json"])
    assert {"pooling": "head", "dim": 64, "depth": 2}.items() <= json.loads(remarks.stdout).items()
    loaded = load_model(model, threads=1)
    assert loaded.config["signature"]["phrase pairs"] == {
        "xx-en train": 12,
        "yy-en train": 12,
        "xx-en dev": 6,
        "yy-en dev": 6,
    }
    assert str(data) not in json.dumps(loaded.config)  # no path of the machine that trained it
    assert np.isfinite(loaded.encode([Phrase("the old bank", 8, 12)])).all()


def test_the_command_refuses_other_settings(base: Path, data: Path, tmp_path: Path) -> None:
    config = write_toml(tmp_path / "small.toml", settings(base))
    command = ["train", "xpr", str(config), "-o", str(tmp_path / "run"), "--data", str(data), "--minutes", "0"]
    assert CliRunner().invoke(app, command).exit_code == 0
    other = CliRunner().invoke(app, [*command, "--set", "loss.momentum=0.5"])
    assert other.exit_code == 1
    assert "started with other settings (loss.momentum 0.9, now 0.5)" in other.stderr


@pytest.mark.parametrize("name", ["xpr.toml", "xpr-small.toml"])
def test_the_configurations_of_the_repository(name: str) -> None:
    from phrasemate.training.config import SHIPPED, read_toml

    config = Config.of(read_toml(SHIPPED / name))
    if name == "xpr.toml":  # the paper's values, each the default
        assert (config.data.batch, config.data.examples, config.optimizer.encoder) == (256, 4, 2e-5)
        assert (config.loss.momentum, config.loss.temperature, config.optimizer.epochs) == (0.999, 0.06, 100)
        assert (config.loop_over(25_600).steps, config.loop_over(25_600).warmup) == (10_000, 100)

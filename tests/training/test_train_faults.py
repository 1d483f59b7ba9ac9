"""A run whose folder cannot be written any more stops with one error, and continues exactly when it can."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from pair_files import write_toml
from safetensors import SafetensorError
from typer.testing import CliRunner

from phrasemate.cli import app
from phrasemate.errors import CheckpointDamaged, InputError, ModelError
from phrasemate.training.ccpr import CCPRTask, Config
from phrasemate.training.config import facts_of
from phrasemate.training.hf_encoder import Backbone, Tokenizer
from phrasemate.training.trainer import Checkpoint, Trainer

pytestmark = pytest.mark.slow


def trainer(tables: dict[str, Any], pairs: Path, run: Path) -> Trainer[Any]:
    config = Config.of(tables)
    return Trainer(CCPRTask(config, pairs), config.loop, run, facts_of("ccpr", config))


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), SafetensorError("I/O error:\nNo space")])
def test_a_full_disk(
    tables: dict[str, Any], pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    trainer(tables, pairs, tmp_path / "whole").run()
    save, calls = Checkpoint.save, []

    def full(self: Checkpoint, *arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise error
        save(self, *arguments)

    monkeypatch.setattr(Checkpoint, "save", full)
    with pytest.raises(InputError, match=r"the run stopped .*No space.*continues from the last checkpoint") as caught:
        trainer(tables, pairs, tmp_path / "run").run()
    assert "\n" not in str(caught.value)
    trainer(tables, pairs, tmp_path / "run").run()
    weights = [(tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("whole", "run")]
    assert weights[0] == weights[1]
    assert not (tmp_path / "run" / "model.old").exists()


def test_curves_that_cannot_be_drawn_hide_nothing(
    tables: dict[str, Any], pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk: the result of a run is told, and so is why one stopped."""
    config, run = write_toml(tmp_path / "small.toml", tables), tmp_path / "run"
    (run / "curves.svg").mkdir(parents=True)
    command = ["train", "ccpr", str(config), "-o", str(run), "--data", str(pairs), "--device", "cpu"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "trained for 6 steps" in result.stdout
    assert "no curves: " in result.stderr

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Checkpoint, "save", full)
    stopped = CliRunner().invoke(app, command)
    assert stopped.exit_code == 1
    assert "run: the run stopped ([Errno 28] No space left on device); check free space" in stopped.stderr


def test_a_second_ctrl_c_says_where_the_run_continues(
    tables: dict[str, Any], pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is raised at once, so what has been done since the last checkpoint comes again."""
    one_step = Trainer._one_step

    def interrupted(self: Trainer[Any], batches: Any) -> Any:
        if self.step == 5:
            raise KeyboardInterrupt
        return one_step(self, batches)

    monkeypatch.setattr(Trainer, "_one_step", interrupted)
    config = write_toml(tmp_path / "small.toml", tables)
    command = ["train", "ccpr", str(config), "-o", str(tmp_path / "run"), "--data", str(pairs), "--device", "cpu"]
    for _ in range(2):
        stopped = CliRunner().invoke(app, command)
        assert stopped.exit_code == 130
        assert "stopped after step 5; the same command resumes from step 3" in stopped.stderr


def test_an_encoder_that_was_cut_short(base: Path, tmp_path: Path) -> None:
    for path in base.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ModelError, match="no encoder that transformers loads"):
        Backbone(tmp_path)


@pytest.mark.parametrize("weights", ["checkpoint", "checkpoint.old"])
def test_a_crash_while_a_checkpoint_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights: str
) -> None:
    checkpoint, tensors = Checkpoint(tmp_path / "checkpoint"), {"a": torch.zeros(2)}
    checkpoint.save(tensors, {"step": 1})
    (tmp_path / "checkpoint").rename(tmp_path / weights)  # .old: a crash between the two renames, before
    rename = Path.rename

    def crash(path: Path, target: Path) -> Path:
        if path.name == "checkpoint.part":
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", crash)
    monkeypatch.setattr("phrasemate.utils.storage._exchange", lambda *folders: False)  # as outside Linux
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(tensors, {"step": 2})
    assert checkpoint.exists()
    assert checkpoint.load()[1]["step"] == 1
    monkeypatch.undo()
    checkpoint.save(tensors, {"step": 3})
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    assert checkpoint.load()[1]["step"] == 3


def test_an_encoder_without_its_weights(base: Path, tmp_path: Path) -> None:
    config = json.loads((base / "config.json").read_text()) | {"model_type": "distilbert"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"no encoder that transformers loads \(Error no file named model.safetensors"):
        Backbone(tmp_path, dropout=0.1)


def test_a_tokenizer_is_saved_while_another_thread_cuts_texts(base: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer(base, 4)
    long = ["one two three four five six"]
    tokenizer.save(tmp_path / "tokenizer.json")
    assert len(tokenizer(long).ids) == 4
    assert len(tokenizer.uncut(long).ids) > 6
    assert json.loads((tmp_path / "tokenizer.json").read_text())["truncation"] is None
    assert len(tokenizer(long).ids) == 4


def test_two_at_once_in_one_folder(tables: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    def another(event: Any) -> None:
        with pytest.raises(InputError, match="run: another run is at work there"):
            trainer(tables, pairs, tmp_path / "run").run()

    tables["loop"].update(steps=2, warmup=0)
    first = trainer(tables, pairs, tmp_path / "run")
    first.run(progress=another)
    assert first.finished
    assert not list((tmp_path / "run").glob("*.lock"))


@pytest.mark.parametrize(
    "change",
    [
        *({"step": value} for value in (None, "four", 1e999, -1)),
        *({"best": value} for value in ("high", float("nan"))),
        *({"sums": value} for value in (5, {"loss": "high"}, ["loss"])),
        *({"seconds": value} for value in (-1, float("nan"))),
        *({"metrics": value} for value in (-5, "all")),
        {"evaluated": -1},
        {"stale": -1},
    ],
    ids=str,
)
def test_facts_of_a_checkpoint_that_make_no_sense(
    tables: dict[str, Any], pairs: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    trainer(tables, pairs, tmp_path / "run").run(minutes=0)
    checkpoint = Checkpoint(tmp_path / "run" / "checkpoint")
    tensors, facts = checkpoint.load()
    checkpoint.save(tensors, facts | change)
    with pytest.raises(CheckpointDamaged, match=r"checkpoint: not one of this run .* remove it to start again"):
        trainer(tables, pairs, tmp_path / "run").run()


def test_weights_that_a_checkpoint_lacks(tables: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    run = trainer(tables, pairs, tmp_path / "run")
    run.run(minutes=0)
    run.named.popitem()
    run._save()
    with pytest.raises(CheckpointDamaged, match=r"checkpoint: not one of this run .KeyError"):
        trainer(tables, pairs, tmp_path / "run").run()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nMore."), "CUDA out of memory"),
        (MemoryError("Unable to allocate 2. TiB for an array"), "Unable to allocate 2. TiB for an array"),
        (None, "can't allocate memory: you tried to allocate"),
    ],
)
def test_memory_that_is_short(
    tables: dict[str, Any], pairs: Path, tmp_path: Path, error: Exception | None, message: str
) -> None:
    run = trainer(tables, pairs, tmp_path / "run")

    def full(*_: Any) -> Any:
        if error is not None:
            raise error
        return torch.empty(1 << 50)  # more than any machine has

    run.task.backward = full
    with pytest.raises(InputError, match=rf"the run stopped \({message}.*; give a smaller data.batch") as caught:
        run.run()
    assert "\n" not in str(caught.value)


def test_memory_that_is_short_is_not_damage(
    tables: dict[str, Any], pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody should remove a checkpoint because a GPU was full when it was read."""
    trainer(tables, pairs, tmp_path / "run").run(minutes=0)

    def full(*_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    again = trainer(tables, pairs, tmp_path / "run")
    monkeypatch.setattr(again, "_load", full)
    with pytest.raises(InputError, match=r"the run stopped \(CUDA out of memory\)"):
        again.run()


def test_memory_that_is_short_before_the_first_step(tables: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    arguments = ["train", "ccpr", "ccpr-small", "-o", str(tmp_path / "run"), "--data", str(pairs), "--device", "cpu"]
    for name, value in (
        ("model.base", tables["model"]["base"]),
        ("model.frozen", 0),
        ("data.dev", 4),
        ("loss.dim", 1 << 40),
    ):
        arguments += ["--set", f"{name}={value}"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "error: not enough memory to begin (can't allocate memory: you tried to allocate" in result.stderr


def test_other_errors_of_a_step_are_none_of_memory(tables: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    run = trainer(tables, pairs, tmp_path / "run")

    def wrong(*_: Any) -> Any:
        raise RuntimeError("shapes")

    run.task.backward = wrong
    with pytest.raises(RuntimeError, match="shapes"):
        run.run()


def test_files_that_have_grown_are_another_run(tables: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    """Batches would be others."""

    def trainer_of() -> Trainer[Any]:
        task = CCPRTask(Config.of(tables), pairs)
        return Trainer(task, task.config.loop, tmp_path / "run", task.facts())

    trainer_of().run(minutes=0)
    path = pairs / "en-xx.jsonl"
    path.write_text(path.read_text() + path.read_text().splitlines()[0] + "\n")
    with pytest.raises(InputError, match=r"started with other settings \(lines.en-xx 40, now 41\)"):
        trainer_of().run()

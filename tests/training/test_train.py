"""The loop: exact resume, refusal of other settings, damage, learning rates; and the command."""

from __future__ import annotations

import json
import math
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from pair_files import write_toml
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

sys.path.append(str(Path(__file__).parents[1] / "utils"))

from unreliable_disk import UnreliableDisk

from phrasemate import load_model
from phrasemate.cli import app
from phrasemate.cli.train import workers_of
from phrasemate.errors import CheckpointDamaged, InputError, ReadError
from phrasemate.training import processes
from phrasemate.training.ccpr import CCPRTask, Config
from phrasemate.training.config import built, facts_of, overridden
from phrasemate.training.trainer import Checkpoint, LoopSettings, Trainer, learning_rate

pytestmark = pytest.mark.slow


def trainer(tables: dict[str, Any], pairs: Path, run: Path, workers: int = 0) -> Trainer[Any]:
    config = Config.of(tables)
    return Trainer(CCPRTask(config, pairs), config.loop, run, facts_of("ccpr", config), workers)


def lines(run: Path) -> list[dict[str, Any]]:
    """Metrics without the clock's."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "tokens/s"} for row in rows]


class Stop(Exception):
    pass


@pytest.mark.parametrize(("stop", "accumulate", "anchor"), [(1, 1, 0.0), (4, 2, 0.0), (5, 1, 2.0)])
def test_a_run_continues_exactly(
    tables: dict[str, Any], pairs: Path, tmp_path: Path, stop: int, accumulate: int, anchor: float
) -> None:
    """Same losses, same held-out figures, same weights as an undisturbed run."""
    tables["loop"]["accumulate"] = accumulate
    tables["model"]["head"] = "components"
    tables["loss"].update(anchor=anchor, lengths=1 + int(anchor))
    whole = trainer(tables, pairs, tmp_path / "whole")
    whole.run()

    def interrupt(event: Any) -> None:
        if event.step == stop:
            raise Stop

    with pytest.raises(Stop):
        trainer(tables, pairs, tmp_path / "parts").run(progress=interrupt)
    torch.manual_seed(99)  # another process
    second = trainer(tables, pairs, tmp_path / "parts")
    second.run()
    assert lines(tmp_path / "parts") == lines(tmp_path / "whole")
    assert [row["step"] for row in lines(tmp_path / "whole")] == [1, 2, 3, 4, 4, 5, 6, 6]
    for (name, a), b in zip(whole.task.module.named_parameters(), second.task.module.parameters(), strict=True):
        assert torch.equal(a, b), name


def test_processes_that_prepare_batches_change_nothing(tables: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    """Dropout included, and where a run is continued with another number of them."""
    tables["loop"].update(accumulate=2, stop=3)
    trainer(tables, pairs, tmp_path / "thread").run()
    trainer(tables, pairs, tmp_path / "processes", workers=2).run()
    assert lines(tmp_path / "processes") == lines(tmp_path / "thread")
    for folder in ("thread", "processes"):  # what one made, the other continues
        facts = json.loads((tmp_path / folder / "config.json").read_text())
        facts["loop"]["stop"] = tables["loop"]["stop"] = 0
        (tmp_path / folder / "config.json").write_text(json.dumps(facts))
        trainer(tables, pairs, tmp_path / folder, workers=2 * (folder == "thread")).run()
    assert lines(tmp_path / "processes") == lines(tmp_path / "thread")
    assert lines(tmp_path / "thread")[-1]["step"] == 6


@pytest.mark.parametrize(
    ("workers", "device", "core_count", "expected"),
    [
        (None, "cpu", 8, 0),
        (3, "cpu", 1, 3),
        (0, "cuda", 8, 0),
        (None, "cuda", 8, 7),
        (None, "cuda", 1, 0),
        (None, "cuda", 64, 16),
    ],
)
def test_a_graphics_card_gets_workers(
    workers: int | None, device: str, core_count: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phrasemate.cli.train.cores", lambda: core_count)
    assert workers_of(workers, device) == expected
    monkeypatch.setattr(processes, "_groups", [processes.Group(0, 4)])
    assert workers_of(None, "cuda") == {8: 1, 1: 0, 64: 15}[core_count]


def test_a_system_without_fork_has_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.fork")
    assert workers_of(None, "cuda") == 0
    with pytest.raises(InputError, match=r"--workers 2: this system has no fork"):
        workers_of(2, "cpu")


def test_an_error_while_processes_prepare_batches_names_file_and_line(
    tables: dict[str, Any], pairs: Path, tmp_path: Path
) -> None:
    run = trainer(tables, pairs, tmp_path / "run", workers=2)

    def unreadable(step: int) -> Any:
        raise ReadError("pairs.jsonl", 7 + step, "not JSON", "make it again")

    run._batches = unreadable  # type: ignore[method-assign]
    with pytest.raises(ReadError, match=r"pairs\.jsonl, line 7: not JSON; make it again") as info:
        run.run()
    assert (info.value.file, info.value.line, info.value.reason) == ("pairs.jsonl", 7, "not JSON")


def test_training_learns(tables: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    tables["loop"].update(steps=80, evaluate=0)
    tables["model"]["dropout"] = 0.0
    trainer(tables, pairs, tmp_path / "run").run()
    losses = [row["align"] for row in lines(tmp_path / "run") if "align" in row]
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])


def test_an_anchor_keeps_sentences_where_they_were(tables: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    tables["loop"].update(steps=30, evaluate=0)
    tables["model"].update(dropout=0.0)
    last = {}
    for weight in (1e-6, 100.0):
        tables["loss"]["anchor"] = weight
        trainer(tables, pairs, tmp_path / str(weight)).run()
        moved = [row["anchor"] for row in lines(tmp_path / str(weight)) if "anchor" in row]
        assert moved[0] < 1e-6  # nothing has moved before the first step
        last[weight] = moved[-1]
    assert last[100.0] < 0.5 * last[1e-6]


def test_a_power_cut_leaves_a_checkpoint_and_its_metrics(
    tables: dict[str, Any], pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables["loop"].update(steps=3, evaluate=0, checkpoint=1)
    (tmp_path / "run").mkdir()
    with monkeypatch.context() as patch:
        disk = UnreliableDisk(tmp_path / "run", patch)
        trainer(tables, pairs, tmp_path / "run").run(progress=lambda event: disk.promise(event.step))
    metrics, cuts = (tmp_path / "run" / "metrics.jsonl").read_bytes(), 0
    for place, step in disk.power_cuts(tmp_path / "cut"):
        if Checkpoint(place / "checkpoint").exists():
            facts = Checkpoint(place / "checkpoint").load()[1]
            assert facts["step"] >= step
            count = facts["metrics"]
            assert (place / "metrics.jsonl").read_bytes()[:count] == metrics[:count] != b""
            cuts += 1
        else:
            assert step == 0
    assert cuts > 50


def test_a_finished_run_does_nothing_more(tables: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    trainer(tables, pairs, tmp_path / "run").run()
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    again = trainer(tables, pairs, tmp_path / "run")
    again.run()
    assert again.step == 6
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before


def test_a_run_may_end_before_its_schedule(tables: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    trainer(tables, pairs, tmp_path / "whole").run()
    tables["loop"]["stop"] = 4
    part = trainer(tables, pairs, tmp_path / "part")
    part.run()
    assert part.step == 4
    assert lines(tmp_path / "part") == lines(tmp_path / "whole")[: len(lines(tmp_path / "part"))]
    assert json.loads((tmp_path / "part" / "model" / "training.json").read_text())["step"] == 4


def test_time_is_up(tables: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    stopped = trainer(tables, pairs, tmp_path / "run")
    stopped.run(minutes=0)
    assert stopped.step == 0
    assert (tmp_path / "run" / "checkpoint").is_dir()


def test_other_settings_are_refused_by_name(tables: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    trainer(tables, pairs, tmp_path / "run").run(minutes=0)
    tables["loop"]["steps"] = 7
    with pytest.raises(InputError, match=r"loop\.steps 6, now 7"):
        trainer(tables, pairs, tmp_path / "run").run()


@pytest.mark.parametrize("damage", ["truncated", "flipped", "facts", "empty"])
def test_a_damaged_checkpoint_is_one_error(tables: dict[str, Any], pairs: Path, tmp_path: Path, damage: str) -> None:
    trainer(tables, pairs, tmp_path / "run").run(minutes=0)
    tensors, facts = (tmp_path / "run" / "checkpoint" / name for name in ("state.safetensors", "state.json"))
    data = bytearray(tensors.read_bytes())
    if damage == "truncated":
        tensors.write_bytes(data[: len(data) // 2])
    elif damage == "flipped":
        data[len(data) // 2] ^= 1
        tensors.write_bytes(data)
    elif damage == "facts":
        facts.write_text("[]")
    else:
        facts.write_text("")
    with pytest.raises(CheckpointDamaged, match="remove it to start again"):
        trainer(tables, pairs, tmp_path / "run").run()


def test_a_checkpoint_that_was_being_replaced_is_found(tables: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    """A crash between the two renames leaves only the one before; the run continues from it."""
    with pytest.raises(Stop):
        trainer(tables, pairs, tmp_path / "run").run(progress=lambda e: _stop_at(e, 3))
    (tmp_path / "run" / "checkpoint").rename(tmp_path / "run" / "checkpoint.old")
    again = trainer(tables, pairs, tmp_path / "run")
    again.run(minutes=0)
    assert again.step == 3


def _stop_at(event: Any, step: int) -> None:
    if event.step == step:
        raise Stop


def test_cached_gradients_train_alike(tables: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    trainer(tables, pairs, tmp_path / "plain").run()
    tables["optimizer"]["cached"] = True
    trainer(tables, pairs, tmp_path / "cached").run()
    plain, cached = (lines(tmp_path / name) for name in ("plain", "cached"))
    assert [row.get("loss", 0) for row in cached] == pytest.approx([row.get("loss", 0) for row in plain], abs=1e-3)


def test_the_baseline_without_context_trains(tables: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    tables["data"]["positives"] = "elsewhere"
    trainer(tables, pairs, tmp_path / "run").run()
    assert len(lines(tmp_path / "run")) == 8


def test_learning_rates() -> None:
    settings = LoopSettings(steps=110, warmup=10)
    assert learning_rate(0, settings) == pytest.approx(0.1)
    assert learning_rate(9, settings) == pytest.approx(1.0)
    assert learning_rate(60, settings) == pytest.approx(0.5)
    assert learning_rate(35, settings) == pytest.approx((1 + math.cos(math.pi / 4)) / 2)
    assert learning_rate(35, LoopSettings(steps=110, warmup=10, schedule="linear")) == pytest.approx(0.75)


def test_settings_from_the_command_line() -> None:
    changed = overridden({"loop": {"steps": 1}}, ["loop.steps=5", "model.base=some/name", "loss.normalise=true"])
    assert changed == {"loop": {"steps": 5}, "model": {"base": "some/name"}, "loss": {"normalise": True}}
    with pytest.raises(InputError, match=r"TABLE\.KEY=VALUE"):
        overridden({}, ["steps=5"])


def test_the_command_trains_and_its_model_searches(tables: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    tables["model"]["head"] = "components"
    config = write_toml(tmp_path / "small.toml", tables)
    run, model = tmp_path / "run", tmp_path / "model"
    command = ["train", "ccpr", str(config), "-o", str(run), "--data", str(pairs), "--device", "cpu", "--workers", "1"]
    part = CliRunner().invoke(app, [*command, "--minutes", "0", "--json"])
    assert part.exit_code == 0, part.output
    assert json.loads(part.stdout)["finished"] is False
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "trained for 6 steps" in result.stdout
    exported = CliRunner().invoke(app, ["model", "export", str(run / "model"), "-o", str(model)])
    assert exported.exit_code == 0, exported.output
    loaded = load_model(model, threads=1)
    assert loaded.dim == 8
    assert loaded.config["signature"]["step"] == 6
    assert str(pairs) not in json.dumps(loaded.config)  # no path of the machine that trained it


def test_the_command_names_what_is_wrong(tables: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.toml").write_text("[data", "utf-8")
    cut = CliRunner().invoke(app, ["train", "ccpr", str(tmp_path / "cut.toml"), "-o", str(tmp_path / "run")])
    assert cut.exit_code == 1
    assert "not readable as TOML" in cut.stderr
    config = write_toml(tmp_path / "small.toml", tables)
    command = ["train", "ccpr", str(config), "-o", str(tmp_path / "run"), "--data", str(tmp_path / "pairs")]
    wrong = CliRunner().invoke(app, [*command, "--set", "loss.temperature=warm"])
    assert wrong.exit_code == 1
    assert "[loss] temperature: 'warm'" in wrong.stderr


def test_ctrl_c_waits_for_the_end_of_the_step(tables: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    """In the middle of a step it would leave weights and random states of no step in the checkpoint."""
    before = signal.getsignal(signal.SIGINT)
    trainer(tables, pairs, tmp_path / "whole").run()
    stopped = trainer(tables, pairs, tmp_path / "parts")
    backward, calls = stopped.task.backward, []

    def interrupted(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return backward(*arguments)

    stopped.task.backward = interrupted
    with pytest.raises(KeyboardInterrupt):
        stopped.run()
    assert (len(calls), stopped.step) == (2, 2)
    trainer(tables, pairs, tmp_path / "parts").run()
    assert lines(tmp_path / "parts") == lines(tmp_path / "whole")
    assert signal.getsignal(signal.SIGINT) is before


def test_settings_that_were_cut_short_are_one_error(tables: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    trainer(tables, pairs, tmp_path / "run").run(minutes=0)
    (tmp_path / "run" / "config.json").write_text('{"data": ')
    with pytest.raises(CheckpointDamaged, match=r"config\.json: not readable"):
        trainer(tables, pairs, tmp_path / "run").run()


def test_the_segmenter_has_a_rate_of_its_own(tables: dict[str, Any], pairs: Path) -> None:
    tables["optimizer"].update(encoder=1e-4, heads=2e-3, segmenter=5e-2)
    task = CCPRTask(Config.of(tables), pairs)
    named = {id(value): name for name, value in task.module.named_parameters()}
    groups = [({named[id(value)] for value in values}, rate) for values, rate in task.groups()]
    projection, segmenter = {"start.weight", "start.bias", "end.weight"}, {"start.weight", "end.weight", "bias"}
    assert groups[1:] == [(projection, 2e-3), ({f"segment_{name}" for name in segmenter}, 5e-2)]
    assert groups[0] == ({name for name in named.values() if name.startswith("backbone.")}, 1e-4)
    tables["optimizer"]["segmenter"] = 0.0
    assert [rate for _, rate in CCPRTask(Config.of(tables), pairs).groups()] == [1e-4, 2e-3, 2e-3]


@pytest.mark.parametrize(("stop", "checkpoint"), [(4, 3), (5, 2), (2, 100)])
def test_figures_of_several_steps_continue_exactly(
    tables: dict[str, Any], pairs: Path, tmp_path: Path, stop: int, checkpoint: int
) -> None:
    """A line is the mean of the steps since the one before, whatever lay between them."""
    tables["loop"].update(log=3, checkpoint=checkpoint)
    trainer(tables, pairs, tmp_path / "whole").run()
    part = trainer(tables, pairs, tmp_path / "parts")
    one_step, calls = part._one_step, []

    def interrupted(batches: Any) -> Any:
        calls.append(1)
        if len(calls) == stop:
            raise Stop
        return one_step(batches)

    part._one_step = interrupted
    with pytest.raises(Stop):
        part.run()
    trainer(tables, pairs, tmp_path / "parts").run()
    assert lines(tmp_path / "parts") == lines(tmp_path / "whole")
    assert [row["step"] for row in lines(tmp_path / "whole")] == [3, 4, 6, 6]


def test_ctrl_c_between_two_lines(tables: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    tables["loop"].update(log=3)
    trainer(tables, pairs, tmp_path / "whole").run()
    stopped = trainer(tables, pairs, tmp_path / "parts")
    one_step = stopped._one_step

    def interrupted(batches: Any) -> Any:
        if stopped.step == 4:
            signal.raise_signal(signal.SIGINT)
        return one_step(batches)

    stopped._one_step = interrupted
    with pytest.raises(KeyboardInterrupt):
        stopped.run()
    assert stopped.step == 5
    trainer(tables, pairs, tmp_path / "parts").run()
    assert lines(tmp_path / "parts") == lines(tmp_path / "whole")


LOOPS: list[tuple[dict[str, Any], str]] = [
    ({"steps": 0}, r"\[loop\] steps: 0; expected 1 or more"),
    ({"log": 0}, r"\[loop\] log: 0; expected 1 or more"),
    ({"checkpoint": 0}, r"\[loop\] checkpoint: 0; expected 1 or more"),
    ({"accumulate": 0}, r"\[loop\] accumulate: 0; expected 1 or more"),
    ({"warmup": -1}, r"\[loop\] warmup: -1; expected 0 or more"),
    ({"seed": -1}, r"\[loop\] seed: -1; expected 0 or more"),
    ({"clip": math.nan}, r"\[loop\] clip: nan; expected a finite number"),
    ({"schedule": "exponential"}, r"\[loop\] schedule: 'exponential'; expected cosine, linear or constant"),
    ({"precision": "fp16"}, r"\[loop\] precision: 'fp16'; expected bf16 or fp32"),
    ({"stop": 7}, r"\[loop\] stop: 7; expected at most steps, 6"),
]


@pytest.mark.parametrize(("change", "expected"), LOOPS, ids=[str(change) for change, _ in LOOPS])
def test_senseless_loops_are_refused(
    tables: dict[str, Any], pairs: Path, tmp_path: Path, change: dict[str, Any], expected: str
) -> None:
    tables["loop"].update(change)
    with pytest.raises(InputError, match=expected):
        trainer(tables, pairs, tmp_path / "run")
    assert not (tmp_path / "run").exists()


SENSELESS: list[tuple[str, dict[str, Any], str]] = [
    ("data", {"dev": 0}, r"\[data\] dev: 0; expected 1 or more"),
    ("data", {"neighbours": 0}, r"\[data\] neighbours: 0; expected 1 or more"),
    ("data", {"batch": 0}, r"\[data\] batch: 0; expected 1 or more"),
    ("data", {"positives": "here"}, r"\[data\] positives: 'here'; expected same or elsewhere"),
    ("model", {"head": "none"}, r"\[model\] head: 'none'; expected random, components or base"),
    ("loss", {"temperature": 0.0}, "temperature and plain_temperature must be above 0"),
    ("loss", {"negatives": "words"}, r"\[loss\] negatives: 'words'; expected phrases, linked or spans"),
    ("loss", {"dim": 0}, r"\[loss\] dim: 0; expected 1 or more"),
    ("optimizer", {"chunk": 0}, r"\[optimizer\] chunk: 0; expected 1 or more"),
]


@pytest.mark.parametrize(("table", "change", "expected"), SENSELESS, ids=[str(change) for _, change, _ in SENSELESS])
def test_senseless_settings_are_refused(
    tables: dict[str, Any], table: str, change: dict[str, Any], expected: str
) -> None:
    tables[table].update(change)
    with pytest.raises(InputError, match=expected):
        Config.of(tables)


def test_what_is_not_table_is_named(tables: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"loop: 3; expected a table \[loop\]"):
        overridden({**tables, "loop": 3}, ["loop.steps=5"])
    with pytest.raises(InputError, match=r"data: 3; expected a table \[data\]"):
        Config.of({**tables, "data": 3})


def test_another_base_of_the_same_name_is_refused(
    tables: dict[str, Any], base: Path, pairs: Path, tmp_path: Path
) -> None:
    """Layers that are not trained are in no checkpoint: going on would mix two encoders."""
    shutil.copytree(base, tmp_path / "elsewhere" / base.name)
    trainer(tables, pairs, tmp_path / "run").run(minutes=0)
    tables["model"]["base"] = str(tmp_path / "elsewhere" / base.name)
    trainer(tables, pairs, tmp_path / "run").run(minutes=0)  # the same, wherever it lies
    weights = tmp_path / "elsewhere" / base.name / "model.safetensors"
    tensors = load_file(weights)
    save_file({name: value + 0.01 for name, value in tensors.items()}, weights, {"format": "pt"})
    with pytest.raises(InputError, match=r"started with other settings \(weights '[0-9a-f]{12}', now"):
        trainer(tables, pairs, tmp_path / "run").run(minutes=0)
    record = json.loads((tmp_path / "run" / "config.json").read_text())
    del record["weights"]  # a run of before there was this fact
    (tmp_path / "run" / "config.json").write_text(json.dumps(record))
    trainer(tables, pairs, tmp_path / "run").run(minutes=0)


def test_a_run_that_diverges_stops_and_keeps_what_it_had(tables: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    run = trainer(tables, pairs, tmp_path / "run")
    backward = run.task.backward

    def diverging(*arguments: Any) -> Any:
        gradients = backward(*arguments)
        if run.step == 4:
            next(iter(run.named.values())).grad.fill_(math.nan)
        return gradients

    run.task.backward = diverging
    with pytest.raises(InputError, match=r"step 5: the gradient is nan \(loss .*\); give lower learning rates"):
        run.run()
    again = trainer(tables, pairs, tmp_path / "run")
    again.run(minutes=0)
    assert again.step == 3
    assert all(value.isfinite().all() for value in again.named.values())


def test_metrics_that_are_gone_do_not_come_back_as_zeros(tables: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    with pytest.raises(Stop):
        trainer(tables, pairs, tmp_path / "run").run(progress=lambda e: _stop_at(e, 3))
    (tmp_path / "run" / "metrics.jsonl").unlink()
    trainer(tables, pairs, tmp_path / "run").run()
    assert [row["step"] for row in lines(tmp_path / "run")] == [4, 4, 5, 6, 6]


def test_a_setting_that_is_missing_is_named() -> None:
    @dataclass
    class Part:
        base: str
        steps: int = 3

    assert built(Part, {"base": "x"}, "model") == Part("x", 3)
    with pytest.raises(InputError, match=r"^\[model\] base: missing; expected a value$"):
        built(Part, {"steps": 1}, "model")

"""When training ends before its last step, and which model it keeps; what is drawn of it; what else a loop does."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from phrasemate.errors import InputError
from phrasemate.evaluate.report import draw_curves
from phrasemate.training import processes
from phrasemate.training.trainer import LoopSettings, Trainer, _interrupts, chosen_device, learning_rate


class Scripted:
    """A task whose held-out scores are given."""

    def __init__(self, scores: list[float]) -> None:
        self.module = torch.nn.Linear(1, 1)
        self.scores = scores

    def groups(self) -> Any:
        return [(list(self.module.parameters()), 0.1)]

    def batch(self, number: int) -> int:
        return number

    def backward(self, batch: int, autocast: Any, scale: float) -> dict[str, float]:
        self.module(torch.ones(1, 1)).sum().backward()
        return {"loss": 0.0}

    def evaluate(self, autocast: Any) -> dict[str, float]:
        return {"score": self.scores.pop(0)}

    def save(self, folder: Path) -> None:
        (folder / "bias").write_text(str(self.module.bias.item()))


def scripted(scores: list[float], run: Path, workers: int = 0, **loop: Any) -> Trainer[Any]:
    settings = LoopSettings(steps=20, warmup=0, evaluate=2, log=1, checkpoint=1, precision="fp32", **loop)
    return Trainer(Scripted(scores), settings, run, {}, workers=workers)


@pytest.mark.parametrize("workers", [0, 1])
def test_the_batches_of_all_steps_come_once_and_end(tmp_path: Path, workers: int) -> None:
    run = scripted([], tmp_path, workers, accumulate=2)
    assert list(run._steps_ahead()) == [[2 * step, 2 * step + 1] for step in range(20)]


def test_who_stops_listening_to_a_run_is_no_fault_of_the_disk(tmp_path: Path) -> None:
    def closed(event: Any) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        scripted([1.0] * 10, tmp_path).run(progress=closed)


def test_the_first_process_alone_cuts_the_metrics_off_behind_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = scripted([1.0, 2.0], tmp_path)
    with pytest.raises(Stop):
        run.run(progress=lambda event: _stop_at(event.step, 3))
    log = tmp_path / "metrics.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole + b"after the checkpoint")
    with monkeypatch.context() as patch:
        patch.setattr(processes, "_groups", [processes.Group(1, 2)])
        second = scripted([], tmp_path)
    second._load(*second._checkpoint.load())
    assert (second.step, second.best) == (3, 1.0)
    assert log.read_bytes() == whole + b"after the checkpoint"
    first = scripted([], tmp_path)
    first._load(*first._checkpoint.load())
    assert log.read_bytes() == whole


def test_random_numbers_of_a_card_continue_from_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, calls = torch.arange(16, dtype=torch.uint8), list[tuple[list[int], str]]()
    monkeypatch.setattr("torch.cuda.get_rng_state", lambda device: state)
    monkeypatch.setattr("torch.cuda.set_rng_state", lambda value, device: calls.append((value.tolist(), str(device))))
    run = scripted([], tmp_path)
    run.device = torch.device("cuda")
    run._save()
    tensors, facts = run._checkpoint.load()
    run._load(tensors, facts)
    assert calls == [(list(range(16)), "cuda")]
    scripted([], tmp_path)._load(tensors, facts)  # on a processor, the state of the card is passed over
    assert len(calls) == 1


def test_a_loop_in_another_thread_leaves_ctrl_c_alone() -> None:
    def look() -> None:
        with _interrupts() as interrupts:
            handlers.append(signal.getsignal(signal.SIGINT))
            counts.append(len(interrupts))

    handlers: list[Any] = []
    counts: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    look()
    assert handlers[0] is before
    assert handlers[1] is not before
    assert signal.getsignal(signal.SIGINT) is before
    assert counts == [0, 0]


def test_a_device_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for name in ("cuda", "tpu"):
        with pytest.raises(InputError, match=f"device {name}: not there; expected auto, cpu, or cuda where there is"):
            chosen_device(name)
    assert chosen_device() == chosen_device("cpu") == "cpu"
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert chosen_device() == chosen_device("cuda") == "cuda"


def test_patience_ends_a_run_and_keeps_the_best_model(tmp_path: Path) -> None:
    """Scores at steps 2, 4, ...: the best at 6, then two that are not better."""
    run = scripted([1.0, 0.5, 2.0, 2.0, 1.9, 9.0], tmp_path, patience=2)
    run.run()
    assert (run.step, run.finished) == (10, True)
    assert json.loads((tmp_path / "model" / "training.json").read_text())["step"] == 6
    again = scripted([], tmp_path, patience=2)
    again.run()
    assert (again.step, again.finished) == (10, True)


def test_patience_survives_a_stop(tmp_path: Path) -> None:
    """One of the two vain evaluations lies before the stop."""
    first = scripted([2.0, 1.0], tmp_path, patience=2)
    with pytest.raises(Stop):
        first.run(progress=lambda event: _stop_at(event.step, 5))
    second = scripted([1.5, 9.0], tmp_path, patience=2)
    second.run()
    assert (second.step, second.stale) == (6, 2)


def test_a_constant_schedule_stays() -> None:
    settings = LoopSettings(steps=100, warmup=4, schedule="constant")
    assert [learning_rate(step, settings) for step in (0, 3, 4, 50, 99)] == [0.25, 1.0, 1.0, 1.0, 1.0]


def test_the_score_of_a_loss_is_not_drawn_as_a_share(tmp_path: Path) -> None:
    """Else its negative numbers would press the shares together."""
    pytest.importorskip("matplotlib")
    rows = [
        {"step": 1, "loss": 2.0, "dev loss": 3.0, "dev score": -3.0},
        {"step": 2, "dev loss": 1.0, "dev score": -1.0},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert draw_curves(tmp_path / "metrics.jsonl", tmp_path / "curves.svg")
    text = (tmp_path / "curves.svg").read_text()
    assert "<!-- dev loss -->" in text
    assert "<!-- dev score -->" not in text


class Stop(Exception):
    pass


def _stop_at(step: int, number: int) -> None:
    if step == number:
        raise Stop


def test_with_patience_the_last_model_is_kept_only_if_it_is_the_best(tmp_path: Path) -> None:
    scores = [0.0, 5.0, *[1.0] * 8]
    scripted(list(scores), tmp_path / "patient", patience=20).run()
    scripted(list(scores), tmp_path / "plain").run()
    steps = [
        json.loads((tmp_path / name / "model" / "training.json").read_text())["step"] for name in ("patient", "plain")
    ]
    assert steps == [4, 20]


def test_a_step_begins_only_if_it_and_the_evaluation_before_it_end_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = scripted([0.0] * 10, tmp_path)
    clock = [0.0]

    def slow(method: Callable[..., Any], seconds: float) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            clock[0] += seconds
            return method(*arguments)

        return call

    monkeypatch.setattr("phrasemate.training.trainer.time.monotonic", lambda: clock[0])
    monkeypatch.setattr(run.task, "backward", slow(run.task.backward, 10))
    monkeypatch.setattr(run.task, "evaluate", slow(run.task.evaluate, 30))
    run.run(minutes=2.5)  # six steps and two evaluations take 120 s; the third evaluation and a step would take 40 s
    assert (run.step, clock[0]) == (6, 120)
    run.run(minutes=0.5)  # less than an evaluation and a step
    assert (run.step, clock[0]) == (6, 120)


def test_a_run_from_before_there_was_patience_continues(tmp_path: Path) -> None:
    scripted([0.0] * 10, tmp_path).run(minutes=0)
    facts = json.loads((tmp_path / "config.json").read_text())
    del facts["loop"]["patience"]
    (tmp_path / "config.json").write_text(json.dumps(facts))
    assert scripted([0.0] * 10, tmp_path).run()["loss"] == 0.0
    with pytest.raises(InputError, match=r"loop\.patience 0, now 3"):
        scripted([], tmp_path, patience=3).run()

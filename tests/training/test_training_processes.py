"""Several processes train what one trains: gathered negatives, and batches of their own."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import several_processes
import torch
from example_data import settings, write_data
from pair_files import write_toml
from safetensors.torch import load_file
from typer.testing import CliRunner

from phrasemate.cli import app
from phrasemate.errors import InputError
from phrasemate.training import processes

pytestmark = pytest.mark.slow  # every run starts processes that load torch


def launch(*command: str) -> str:
    """What two processes of torchrun print."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([*launcher, *command], capture_output=True, text=True, env=environment, timeout=300)
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


def described(tables: dict[str, Any], base: Path, folder: Path) -> dict[str, dict[str, Any]]:
    """Runs without dropout, in whose sum of gradients a chunk, a batch or a process could be lost or counted twice."""
    ccpr = copy.deepcopy(tables)
    ccpr["model"]["dropout"] = 0.0
    ccpr["optimizer"]["chunk"] = 64  # five chunks or so of a batch
    apart = copy.deepcopy(ccpr)
    apart["loop"]["accumulate"] = 2
    xpr = {"model": {"dropout": 0.0}, "loss": {"negatives": "both", "queue": 7}, "loop": {"accumulate": 2}}
    write_data(folder / "xpr")
    return {
        "ccpr": {"method": "ccpr", "tables": ccpr, "data": str(folder / "pairs")},
        "apart": {"method": "ccpr", "tables": apart, "data": str(folder / "pairs")},
        "xpr": {"method": "xpr", "tables": settings(base, **xpr), "data": str(folder / "xpr")},
    }


def test_two_processes_train_what_one_does(tables: dict[str, Any], base: Path, pairs: Path, tmp_path: Path) -> None:
    runs = described(tables, base, tmp_path)
    files = []
    for name, run in runs.items():
        several_processes.train(run["method"], run["tables"], Path(run["data"]), tmp_path / f"one-{name}")
        files.append(tmp_path / f"{name}.json")
        files[-1].write_text(json.dumps(run | {"run": str(tmp_path / f"two-{name}")}))
    launch(str(Path(several_processes.__file__)), *map(str, files))
    for name in runs:
        one, two = (tmp_path / f"{count}-{name}" for count in ("one", "two"))
        first, second = (load_file(run / "checkpoint" / "state.safetensors") for run in (one, two))
        assert first.keys() == second.keys()
        start = load_file(base / "model.safetensors")
        moved = [key for key in first if (key.startswith("model/") and not _same(first[key], start, key))]
        assert moved
        for key, value in first.items():
            if not key.startswith("random/") and "key.bias" not in key:  # whose gradient is zero but for rounding
                assert torch.allclose(value.float(), second[key].float(), atol=2e-4), (name, key)
        rows = [[json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()] for run in (one, two)]
        assert len(rows[0]) == len(rows[1])  # the first process alone writes
        for row, other in zip(*rows, strict=True):
            for figure in set(row) - {"tokens/s"}:
                assert row[figure] == pytest.approx(other[figure], rel=2e-3, abs=2e-3), (name, figure)


def _same(value: torch.Tensor, start: dict[str, torch.Tensor], key: str) -> bool:
    name = key.partition("encoder.")[2]
    return name in start and bool(torch.equal(value, start[name]))


def test_the_command_under_torchrun(tables: dict[str, Any], pairs: Path, tmp_path: Path) -> None:
    config = write_toml(tmp_path / "ccpr.toml", tables)
    command = ["train", "ccpr", str(config), "-o", str(tmp_path / "run"), "--data", str(pairs), "--json"]
    output = launch("-m", "phrasemate", *command, "--device", "cpu")
    items = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assert [(item["step"], item["finished"]) for item in items] == [(6, True)]  # one of the two says it
    again = CliRunner().invoke(app, command)  # one process continues what two left: nothing
    assert json.loads(again.output.splitlines()[-1])["step"] == 6


def test_methods_of_one_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    outcome = CliRunner().invoke(
        app, ["train", "bicla", "bicla", "-o", str(tmp_path / "run"), "--data", "x", "--vectors", "y"]
    )
    assert outcome.exit_code == 1
    assert "bicla trains in one process, but 2 were started" in " ".join(outcome.stderr.split())


def test_processes_that_do_not_meet_are_one_error_and_each_has_its_card(monkeypatch: pytest.MonkeyPatch) -> None:
    cards: list[int] = []

    def refuse(backend: str) -> None:
        raise RuntimeError(f"no {backend}:\nconnection refused")

    monkeypatch.setattr("torch.cuda.set_device", cards.append)
    monkeypatch.setattr("torch.distributed.init_process_group", refuse)
    for name, value in (("WORLD_SIZE", "3"), ("RANK", "2"), ("LOCAL_RANK", "1")):
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=r"3 processes cannot connect \(no nccl: connection refused\)"):
        processes.join("cuda")
    assert cards == [1]
    with pytest.raises(InputError, match=r"3 processes cannot connect \(no gloo: connection refused\)"):
        processes.join("cpu")
    assert cards == [1]
    assert processes.group() == processes.Group(0, 1)


def test_a_gradient_that_another_process_has_alone_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three parameters, one has gradients here and there, one there alone, one nowhere."""
    both, absent, nowhere = (torch.nn.Parameter(torch.zeros(2)) for _ in range(3))
    both.grad = torch.tensor([1.0, 2.0])
    others = iter([torch.tensor([1.0, 1.0, 0.0]), torch.tensor([10.0, 20.0]), torch.tensor([3.0, 4.0])])

    def reduce(values: torch.Tensor, how: Any = torch.distributed.ReduceOp.SUM) -> None:
        other = next(others).to(values.dtype)
        values.copy_(torch.maximum(values, other) if how == torch.distributed.ReduceOp.MAX else values + other)

    monkeypatch.setattr("torch.distributed.all_reduce", reduce)
    monkeypatch.setattr(processes, "_groups", [processes.Group(0, 2)])
    processes.add_gradients([both, absent, nowhere], torch.device("cpu"))
    assert both.grad.tolist() == [11.0, 22.0]
    assert absent.grad is not None
    assert absent.grad.tolist() == [3.0, 4.0]
    assert nowhere.grad is None


def test_a_group_shares_out() -> None:
    shares = [list(processes.Group(rank, 3).numbers(7)) for rank in range(3)]
    assert shares == [[0, 3, 6], [1, 4], [2, 5]]
    assert processes.group() == processes.Group(0, 1)

"""Training loop of all methods: steps, learning rate schedule, checkpoints, metrics and the trained model.

A run resumed from a checkpoint continues exactly as an uninterrupted one. A run is a folder:

- ``config.json``: the settings
- ``metrics.jsonl``: a line for each logged step and each evaluation
- ``checkpoint/``: weights, optimizer and random states, with a SHA-256
- ``model/``: a Hugging Face folder with ``heads.safetensors`` and ``training.json``, written after the best evaluation
  so far and at the end of the run
"""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from phrasemate.errors import CheckpointDamaged, InputError, PhrasemateError
from phrasemate.training import processes
from phrasemate.training.config import at_least, expect
from phrasemate.utils.storage import (
    durable_folder,
    link_target,
    locked,
    sha256_of,
    swap_folder,
    sync,
    write_text,
)

TENSORS, FACTS = "state.safetensors", "state.json"


class Checkpoint:
    """Checkpoint in ``folder``, replaced atomically; between two renames, only ``folder.old`` exists."""

    def __init__(self, folder: Path) -> None:
        self.folder = link_target(folder)
        self._old = self.folder.with_name(self.folder.name + ".old")

    def exists(self) -> bool:
        """Whether there is a checkpoint, also if its replacement was interrupted."""
        return self.folder.is_dir() or self._old.is_dir()

    def save(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Write a checkpoint atomically; ``facts`` is JSON data."""
        partial = self.folder.with_name(self.folder.name + ".part")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        save_file({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, partial / TENSORS)
        content = {"facts": dict(facts), "tensors": sha256_of(partial / TENSORS)}
        text = json.dumps(content | {"seal": _seal(content)}, indent=1) + "\n"
        (partial / FACTS).write_text(text, encoding="utf-8")
        swap_folder(partial, self.folder, self._old)

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Load tensors, on the CPU, and facts. Raises CheckpointDamaged for an altered or unreadable checkpoint."""
        folder = self.folder if self.folder.is_dir() else self._old
        remedy = "remove it to start again"
        try:
            facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
            if "sha256" in facts:  # the older format, without a hash of the facts
                tensors = facts.pop("sha256")
            else:
                seal = facts.pop("seal")
                if seal != _seal(facts):
                    raise CheckpointDamaged(f"{folder / FACTS}: altered (another SHA-256); {remedy}")
                facts, tensors = dict(facts["facts"]), facts["tensors"]
            if tensors != sha256_of(folder / TENSORS):
                raise CheckpointDamaged(f"{folder / TENSORS}: altered (another SHA-256); {remedy}")
            return load_file(folder / TENSORS), facts
        except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError, SafetensorError) as error:
            raise CheckpointDamaged(f"{folder}: not a readable checkpoint ({error}); {remedy}") from error


def _seal(content: Mapping[str, Any]) -> str:
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


_ON_CPU = "DefaultCPUAllocator: "  # in torch's RuntimeError for a lack of memory on the CPU


def short_of_memory(error: BaseException) -> str:
    """Return the first line of an out-of-memory error; empty for other errors."""
    if isinstance(error, MemoryError):
        return " ".join(str(error).split()) or "out of memory"
    if isinstance(error, torch.OutOfMemoryError):
        reason = str(error) or "out of memory"
    elif isinstance(error, RuntimeError) and _ON_CPU in str(error):
        reason = str(error).partition(_ON_CPU)[2]
    else:
        return ""
    return reason.splitlines()[0].split(". ")[0].removesuffix(".")


@contextmanager
def faults_explained(writing: tuple[str, str], memory: tuple[str, str]) -> Iterator[None]:
    """Turn failed writes and a lack of memory into InputError.

    ``writing`` and ``memory`` are (event, remedy) for either, put around the reason in the message.
    """
    try:
        yield
    except BrokenPipeError:  # raised by the progress output
        raise
    except (OSError, SafetensorError) as error:
        raise InputError(f"{writing[0]} ({' '.join(str(error).split())}); {writing[1]}") from error
    except (RuntimeError, MemoryError) as error:
        explanation = short_of_memory(error)
        if not explanation:
            raise
        raise InputError(f"{memory[0]} ({explanation}); {memory[1]}") from error


@dataclass(frozen=True)
class LoopSettings:
    """Settings of the training loop; explained in `phrasemate/configs/ccpr.toml`. Raises InputError for invalid ones.

    Args:
        warmup: Steps of linear warm-up of the learning rate.
        schedule: "cosine" or "linear", both falling to zero at ``steps``, or "constant".
        stop: Last step (0: ``steps``), to end early and continue from the model in another run.
        clip: Largest norm of the gradient (0: no clipping).
        accumulate: Batches of a step.
        precision: "bf16" (autocast) or "fp32".
        log, evaluate, checkpoint: Intervals in steps (evaluate 0: at the end only).
        patience: Stop after this many evaluations without a better score, and keep the best model instead of the last
            one (0: never).
    """

    steps: int = 20_000
    warmup: int = 1_000
    schedule: str = "cosine"
    stop: int = 0
    clip: float = 1.0
    weight_decay: float = 0.01
    accumulate: int = 1
    precision: str = "bf16"
    log: int = 10
    evaluate: int = 500
    checkpoint: int = 100
    seed: int = 0
    patience: int = 0

    def __post_init__(self) -> None:
        expect("[loop] schedule", self.schedule, ("cosine", "linear", "constant"))
        expect("[loop] precision", self.precision, ("bf16", "fp32"))
        for name in ("steps", "accumulate", "log", "checkpoint"):
            at_least(f"[loop] {name}", getattr(self, name), 1)
        for name in ("warmup", "stop", "clip", "weight_decay", "evaluate", "seed", "patience"):
            at_least(f"[loop] {name}", getattr(self, name), 0)
        if self.seed >= 1 << 63:
            raise InputError(f"[loop] seed: {self.seed}; expected less than 2**63")

    @property
    def end(self) -> int:
        """Last step of the run."""
        return self.stop or self.steps


def learning_rate(step: int, settings: LoopSettings) -> float:
    """Compute the learning rate at a step, counted from 0, as a share of the highest rate."""
    if step < settings.warmup:
        return (step + 1) / settings.warmup
    share = (step - settings.warmup) / max(settings.steps - settings.warmup, 1)
    return {"cosine": (1 + math.cos(math.pi * share)) / 2, "linear": 1 - share, "constant": 1.0}[settings.schedule]


def rows_in_turn(number: int, count: int, size: int, seed: int) -> list[int]:
    """Return the rows of batch ``number``, ``count`` of ``size`` rows; each epoch is shuffled differently."""
    places = range(number * count, (number + 1) * count)
    return [int(_order(seed, place // size, size)[place % size]) for place in places]


@lru_cache(maxsize=4)
def _order(seed: int, epoch: int, size: int) -> NDArray[np.int64]:
    return np.random.default_rng((seed, epoch, size)).permutation(size)


B = TypeVar("B")
Metrics = dict[str, float]
NEWER = {"weights", "lines"}  # facts that older runs lack
NEWER_SETTINGS: dict[str, dict[str, Any]] = {
    "model": {"embeddings": "frozen", "intra": "tanh", "separate": False},
    "loss": {"directions": "mean", "balance": "batch"},
}  # settings that older runs lack, with the values that describe them


class Event(NamedTuple):
    """Progress of a run: ``step`` of ``steps``, latest logged ``metrics``, estimated ``remaining`` seconds."""

    step: int
    steps: int
    metrics: Metrics
    remaining: float


class Task(Protocol[B]):
    """Protocol of a training method with its data."""

    @property
    def module(self) -> nn.Module:
        """Module to train."""

    def groups(self) -> list[tuple[list[nn.Parameter], float]]:
        """Return groups of parameters with their highest learning rates."""

    def batch(self, number: int) -> B:
        """Make a batch, determined by its number and the settings alone."""

    def backward(self, batch: B, autocast: Callable[[], Any], scale: float) -> Metrics:
        """Add the gradients of ``scale`` times the loss; returns metrics to log, "tokens" for the throughput."""

    def evaluate(self, autocast: Callable[[], Any]) -> Metrics:
        """Compute metrics on held-out data; the best model is the one with the highest "score"."""

    def save(self, folder: Path) -> None:
        """Write the current model into an empty folder."""


@runtime_checkable
class StatefulTask(Protocol):
    """Protocol of a task with state besides its trained weights, such as a momentum encoder or a queue."""

    def stepped(self) -> None:
        """Update the state after a step of the optimizer."""

    def state(self) -> dict[str, Tensor]:
        """Return the state for checkpoints, as tensors that a resumed run restores in place."""


def chosen_device(name: str = "auto", threads: int | None = None) -> str:
    """Choose a device, "cpu" or "cuda", and set torch's threads on the CPU.

    ``name``: "auto" (cuda if available), "cpu" or "cuda". Raises InputError for a missing device.
    """
    if name not in ("auto", "cpu", "cuda") or (name == "cuda" and not torch.cuda.is_available()):
        raise InputError(f"device {name}: not there; expected auto, cpu, or cuda where there is one")
    if threads:
        torch.set_num_threads(threads)
    torch.backends.cuda.enable_cudnn_sdp(False)  # plans each new shape, which takes 50 ms
    return ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name


def autocast(device: str, precision: str) -> AbstractContextManager[Any]:
    """Return a context that computes in ``precision``, "bf16" or "fp32"."""
    return torch.autocast(device, torch.bfloat16) if precision == "bf16" else nullcontext()


class Trainer(Generic[B]):
    """Trainer of a task in a folder, from scratch or from the last checkpoint.

    ``facts``: settings of the run; if the folder was started with others, InputError is raised. ``workers``: processes
    that prepare batches in advance (0: one thread); the batches are the same.

    Of several training processes (`phrasemate.training.processes`), only the first writes files. If the number of
    batches of a step is a multiple of theirs, each computes its share of the batches, else a share of each batch.
    """

    def __init__(
        self, task: Task[B], settings: LoopSettings, folder: Path, facts: Mapping[str, Any], workers: int = 0
    ) -> None:
        if settings.stop > settings.steps:
            raise InputError(f"[loop] stop: {settings.stop}; expected at most steps, {settings.steps}")
        self.task, self.settings, self.folder, self.workers = task, settings, folder, workers
        self.named = {name: p for name, p in task.module.named_parameters() if p.requires_grad}
        self.device = next(task.module.parameters()).device
        self.optimizer = self._make_optimizer()
        self.facts = json.loads(json.dumps({**facts, "loop": asdict(settings)}))
        self.step, self.evaluated, self.best, self.seconds, self.stale = 0, 0, -math.inf, 0.0, 0
        self.saved = 0  # step of the last checkpoint
        self.last: Metrics = {}
        self._longest: dict[str, float] = {}  # seconds of the longest step, evaluation and checkpoint
        self._sums: Metrics = {}  # metrics of the steps since the last log line
        self._checkpoint = Checkpoint(folder / "checkpoint")
        self._group = processes.group()
        self._writes = self._group.rank == 0
        whole = settings.accumulate % self._group.size == 0 and not getattr(task, "ordered", False)
        self._apart = whole and self._group.size > 1  # each process computes whole batches

    @property
    def finished(self) -> bool:
        """Whether all steps are done, or ``patience`` is used up."""
        return self.step >= self.settings.end or 0 < self.settings.patience <= self.stale

    def run(self, minutes: float = math.inf, progress: Callable[[Event], None] = lambda _: None) -> Metrics:
        """Train to the end, or for at most ``minutes``; returns the last metrics.

        The limit includes evaluations and checkpoints: a step begins only if it and what follows it will end in time,
        as far as earlier ones tell. So the first step, evaluation and checkpoint of a run may exceed it.

        Resumes from the last checkpoint if there is one. Writes a checkpoint when time is up and on Ctrl-C, which is
        raised again after the current step, so that the checkpoint is consistent.

        Raises InputError if the folder cannot be written, memory is short, or another process trains in the folder.
        Raises CheckpointDamaged for a damaged checkpoint.
        """
        if not self._writes:
            return self._run(minutes, progress)
        event = f"{self.folder}: the run stopped"
        check = "check free space, memory and permissions, then give the command again"
        shrink = "give a smaller data.batch (for ccpr and xpr also a lower optimizer.chunk or optimizer.cached = true)"
        with faults_explained(
            (event, f"{check}: it continues from the last checkpoint"), (event, f"{shrink} and another folder")
        ):
            durable_folder(self.folder)
            refusal = f"{self.folder}: another run is at work there; wait for its end"
            with locked(self.folder / "train.lock", refusal):
                return self._run(minutes, progress)

    def _run(self, minutes: float, progress: Callable[[Event], None]) -> Metrics:
        if self._writes:
            self._open()
        processes.wait()
        if not self._writes:
            self._open()
        deadline = time.monotonic() + 60 * minutes
        self.task.module.train()
        with _interrupts() as interrupts:

            def over() -> bool:
                stop = bool(interrupts) or time.monotonic() + self._needed() >= deadline
                return processes.total([float(stop)], self.device, greatest=True)[0] > 0

            self._steps(over, progress)
            if self.step >= self.settings.end:
                self._evaluate_if_due()
            self._save()
        if interrupts:
            raise KeyboardInterrupt
        return self.last

    def _make_optimizer(self) -> torch.optim.Optimizer:
        groups: list[dict[str, Any]] = []
        for parameters, rate in self.task.groups():
            for decays in (True, False):  # no weight decay for biases and normalisation
                trained_group = [p for p in parameters if p.requires_grad and (p.ndim > 1) == decays]
                decay = self.settings.weight_decay if decays else 0.0
                groups.append({"params": trained_group, "lr": rate, "highest": rate, "weight_decay": decay})
        return torch.optim.AdamW([group for group in groups if group["params"]], fused=True)

    def _open(self) -> None:
        path = self.folder / "config.json"
        if path.exists():
            try:
                first_facts = dict(json.loads(path.read_text(encoding="utf-8")))
                first_facts["loop"] = {
                    **asdict(LoopSettings()),
                    **first_facts["loop"],
                }  # add settings newer than the run
                for table, settings in NEWER_SETTINGS.items():
                    defaults = {name: value for name, value in settings.items() if name in self.facts.get(table, {})}
                    if table in first_facts:
                        first_facts[table] = {**defaults, **first_facts[table]}
                for name in NEWER & self.facts.keys():
                    first_facts.setdefault(name, self.facts[name])
            except (ValueError, TypeError, KeyError) as error:
                raise CheckpointDamaged(f"{path}: not readable ({error}); give another folder") from error
            if first_facts != self.facts:
                wrong = ", ".join(_differences(first_facts, self.facts))
                raise InputError(f"{self.folder}: started with other settings ({wrong}); give another folder")
        else:
            write_text(path, json.dumps(self.facts, indent=1) + "\n")
        if self._checkpoint.exists():
            try:
                self._load(*self._checkpoint.load())
            except (KeyError, ValueError, TypeError, AttributeError, OverflowError, RuntimeError) as error:
                if short_of_memory(error):
                    raise
                reason = next(iter(str(error).splitlines()), "").split(". ")[0]
                raise CheckpointDamaged(
                    f"{self._checkpoint.folder}: not one of this run ({type(error).__name__}: {reason}); "
                    "remove it to start again"
                ) from error
        else:
            torch.manual_seed(self.settings.seed)
            if self._writes:
                (self.folder / "metrics.jsonl").unlink(missing_ok=True)

    def _needed(self) -> float:
        """Estimate the seconds of the next step, of an evaluation before it or at the end, and of the checkpoint."""
        evaluates = self._evaluation_is_due() or self.step + 1 == self.settings.end
        parts = ["step", "checkpoint", *(["evaluation"] if evaluates else [])]
        return sum(self._longest.get(part, 0.0) for part in parts)

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        """Note the longest time that a part of the work has taken."""
        start_time = time.monotonic()
        yield
        self._longest[part] = max(self._longest.get(part, 0.0), time.monotonic() - start_time)

    def _steps(self, over: Callable[[], bool], progress: Callable[[Event], None]) -> None:
        settings = self.settings
        with closing(self._steps_ahead()) as batches:
            while self.step < settings.end and not over():
                self._evaluate_if_due()
                if self.finished:
                    break
                start_time = time.perf_counter()
                with self._timed("step"):
                    metrics = self._one_step(next(batches))
                self.step += 1
                self.seconds += time.perf_counter() - start_time
                for name, value in (metrics | {"seconds": time.perf_counter() - start_time, "steps": 1}).items():
                    self._sums[name] = self._sums.get(name, 0.0) + value
                is_logged = self.step % settings.log == 0 or self.step == settings.end
                if is_logged:
                    self._log()
                if self.step % settings.checkpoint == 0:
                    self._save()
                if is_logged and self._writes:
                    remaining = self.seconds / self.step * (settings.end - self.step)
                    progress(Event(self.step, settings.end, self.last, remaining))

    def _steps_ahead(self) -> Generator[list[B], None, None]:
        """Yield the batches of each remaining step, prepared in advance by a thread or by processes."""
        steps = range(self.step, self.settings.end)
        if self.workers:
            loader = DataLoader(
                _Steps(self._batches),
                sampler=steps,
                batch_size=None,
                num_workers=self.workers,
                collate_fn=lambda batches: batches,
                worker_init_fn=_start_worker,
                multiprocessing_context="fork",  # to share memory
                generator=torch.Generator(),  # leaves torch's global random state unchanged
            )
            for item in loader:
                if isinstance(item, PhrasemateError):
                    raise item
                yield item
            return
        with ThreadPoolExecutor(1) as pool:
            ahead: Future[list[B]] = pool.submit(self._batches, steps.start)
            for step in steps:
                batches = ahead.result()
                ahead = pool.submit(self._batches, step + 1)
                yield batches

    def _batches(self, step: int) -> list[B]:
        if step >= self.settings.end:
            return []
        count = self.settings.accumulate
        numbers = self._group.numbers(count) if self._apart else range(count)
        return [self.task.batch(step * count + i) for i in numbers]

    def _one_step(self, batches: list[B]) -> Metrics:
        for group in self.optimizer.param_groups:
            group["lr"] = group["highest"] * learning_rate(self.step, self.settings)
        metrics: Metrics = {}
        count = self.settings.accumulate
        if self._group.size > 1:  # other dropout masks in each process, reproducible after a resume
            torch.manual_seed((self.settings.seed << 40) + (self.step << 10) + self._group.rank & (1 << 63) - 1)
        with processes.alone() if self._apart else nullcontext():
            for batch in batches:
                for name, value in self.task.backward(batch, self.autocast, 1 / count).items():
                    metrics[name] = metrics.get(name, 0.0) + (value if name == "tokens" else value / count)
        if self._apart:
            metrics = dict(zip(metrics, processes.total(list(metrics.values()), self.device), strict=True))
        processes.add_gradients(list(self.named.values()), self.device)
        norm = nn.utils.clip_grad_norm_(list(self.named.values()), self.settings.clip or math.inf)
        if not math.isfinite(norm):
            figures = ", ".join(f"{name} {value:g}" for name, value in metrics.items() if name != "tokens")
            raise InputError(
                f"step {self.step + 1}: the gradient is {float(norm)} ({figures}); give lower learning rates or more "
                f"warm-up, and another folder; {self.folder} is as it was at its last checkpoint"
            )
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if isinstance(self.task, StatefulTask):
            self.task.stepped()
        return metrics | {"norm": float(norm)}

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the autocast context of the settings' precision."""
        return autocast(self.device.type, self.settings.precision)

    def _log(self) -> None:
        sums, self._sums = self._sums, {}
        count, seconds = sums.pop("steps"), sums.pop("seconds")
        rate = {"tokens/s": sums.pop("tokens", 0.0) / seconds}
        self.last = {name: value / count for name, value in sums.items()} | rate
        self._write({"step": self.step, **self.last, "lr": learning_rate(self.step - 1, self.settings)})

    def _evaluation_is_due(self) -> bool:
        """Tell whether to evaluate: at the interval of the settings and at the end, once per step even after a stop."""
        is_due = self.step == self.settings.end
        is_due |= bool(self.settings.evaluate and self.step and self.step % self.settings.evaluate == 0)
        return is_due and self.evaluated != self.step

    def _evaluate_if_due(self) -> None:
        if not self._evaluation_is_due():
            return
        self.task.module.eval()
        with self._timed("evaluation"):
            metrics = self.task.evaluate(self.autocast)
        self.task.module.train()
        # All processes use the first one's score.
        metrics["score"] = processes.total([metrics["score"] if self._writes else 0.0], self.device)[0]
        self._write({"step": self.step, **{f"dev {name}": value for name, value in metrics.items()}})
        better = metrics["score"] > self.best
        self.stale = 0 if better else self.stale + 1
        if better or (self.step >= self.settings.end and not self.settings.patience):
            self.best = max(self.best, metrics["score"])
            self._export(metrics)
        self.evaluated = self.step

    def _export(self, metrics: Metrics) -> None:
        if not self._writes:
            return
        place = link_target(self.folder / "model")
        partial, old = (place.with_name(place.name + suffix) for suffix in (".part", ".old"))
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        self.task.save(partial)
        facts = {**self.facts, "step": self.step, "minutes": round(self.seconds / 60, 1), "dev": metrics}
        (partial / "training.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        swap_folder(partial, place, old)

    def _write(self, line: Mapping[str, Any]) -> None:
        if not self._writes:
            return
        rounded_line = {key: round(value, 5) if isinstance(value, float) else value for key, value in line.items()}
        with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(rounded_line) + "\n")

    def _save(self) -> None:
        if not self._writes:
            self.saved = self.step
            return
        tensors: dict[str, Tensor] = {f"model/{name}": p.detach() for name, p in self.named.items()}
        for name, parameter in self.named.items():
            for key, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer/{key}/{name}"] = value
        if isinstance(self.task, StatefulTask):
            tensors |= {f"task/{name}": value for name, value in self.task.state().items()}
        tensors["random/cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["random/cuda"] = torch.cuda.get_rng_state(self.device)
        log, lines = self.folder / "metrics.jsonl", 0
        if log.exists():
            sync(log)  # the checkpoint refers to its length
            lines = log.stat().st_size
        facts: dict[str, Any] = {"step": self.step, "evaluated": self.evaluated, "best": self.best, "stale": self.stale}
        facts |= {"seconds": self.seconds, "metrics": lines, "sums": self._sums}
        with self._timed("checkpoint"):
            self._checkpoint.save(tensors, facts)
        self.saved = self.step

    @torch.no_grad()
    def _load(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        for name, parameter in self.named.items():
            parameter.copy_(tensors[f"model/{name}"])
            keys = [key for key in tensors if key.startswith("optimizer/") and key.split("/", 2)[2] == name]
            if keys:
                state = {key.split("/", 2)[1]: tensors[key].to(self.device) for key in keys}
                self.optimizer.state[parameter] = state
        if isinstance(self.task, StatefulTask):
            for name, value in self.task.state().items():
                value.copy_(tensors[f"task/{name}"])
        torch.set_rng_state(tensors["random/cpu"])
        if "random/cuda" in tensors and self.device.type == "cuda":
            torch.cuda.set_rng_state(tensors["random/cuda"], self.device)
        self.step, self.evaluated = int(facts["step"]), int(facts["evaluated"])
        self.saved = self.step
        self.best, self.seconds = float(facts["best"]), float(facts["seconds"])
        self.stale = int(facts.get("stale", 0))
        self._sums = {name: float(value) for name, value in facts.get("sums", {}).items()}
        lines = int(facts["metrics"])
        if min(self.step, self.evaluated, self.stale, lines) < 0 or not 0 <= self.seconds < math.inf:
            raise ValueError(f"step {self.step}, {self.seconds} seconds, {lines} bytes of metrics")
        if math.isnan(self.best):
            raise ValueError("the best score is not a number")
        if not self._writes:
            return
        with (self.folder / "metrics.jsonl").open("ab") as file:
            file.truncate(min(file.tell(), lines))  # drop the lines written after the checkpoint


class _Steps(Dataset[Any]):
    """Dataset of the batches of each step; a PhrasemateError is returned, since DataLoader would change its type."""

    def __init__(self, prepare: Callable[[int], Any]) -> None:
        self.prepare = prepare

    def __getitem__(self, step: int) -> Any:
        try:
            return self.prepare(step)
        except PhrasemateError as error:
            return error


def _start_worker(_: int) -> None:
    """Ignore Ctrl-C, which the training process handles, and tokenize on one thread."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Collect the first Ctrl-C instead of raising it; the second one is raised. Only effective in the main thread."""
    signals: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, _: object) -> None:
        signals.append(number)
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield signals
    finally:
        signal.signal(signal.SIGINT, before)


def _differences(left: Mapping[str, Any], right: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key in sorted({*left, *right}):
        a, b = left.get(key), right.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            yield from _differences(a, b, f"{prefix}{key}.")
        elif a != b:
            yield f"{prefix}{key} {a!r}, now {b!r}"

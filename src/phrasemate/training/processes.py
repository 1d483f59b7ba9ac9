"""Several processes that train one model, as ``torchrun`` and ``accelerate launch`` start them: one for each device.

All hold the same weights. A step's batches are shared out where there is one for each process, and then each process
contrasts its own. Else all processes work on each batch. Each encodes some of its chunks, and all get the states of all
chunks. So the loss is that of the whole batch (gathered negatives). Either way a step is that of a single process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, distributed, nn

from phrasemate.errors import InputError

SIZE, RANK, LOCAL = "WORLD_SIZE", "RANK", "LOCAL_RANK"  # of the environment that launchers make


class Group(NamedTuple):
    """``rank`` of this process, from 0, of ``size`` that work together."""

    rank: int = 0
    size: int = 1

    def numbers(self, count: int) -> range:
        """Numbers of this process's share of so many things."""
        return range(self.rank, count, self.size)


_groups = [Group()]


def group() -> Group:
    """The processes that work together at the moment."""
    return _groups[-1]


def join(device: str) -> None:
    """Meet the other processes of the launcher, if there is one; of graphics cards each takes the next.

    Raises InputError where they cannot meet.
    """
    if int(os.environ.get(SIZE, "1")) == 1 or distributed.is_initialized():
        return
    if device == "cuda":
        torch.cuda.set_device(int(os.environ.get(LOCAL, "0")))
    try:
        distributed.init_process_group("nccl" if device == "cuda" else "gloo")
    except (RuntimeError, ValueError) as error:
        raise InputError(f"{os.environ[SIZE]} processes that do not meet ({' '.join(str(error).split())})") from error
    _groups.append(Group(distributed.get_rank(), distributed.get_world_size()))


def leave() -> None:
    """Part from the others."""
    if group().size > 1:
        _groups.pop()
        distributed.destroy_process_group()


def expect_one(method: str) -> None:
    """Raises InputError where a launcher started several processes for a method that takes one."""
    if int(os.environ.get(SIZE, "1")) > 1:
        raise InputError(f"{method} trains in one process, and {os.environ[SIZE]} were started; start it alone")


@contextmanager
def alone() -> Iterator[None]:
    """Within, this process works by itself, as on a batch of its own."""
    _groups.append(Group())
    try:
        yield
    finally:
        _groups.pop()


def wait() -> None:
    """Until all processes are here."""
    if group().size > 1:
        distributed.barrier()


def total(values: Sequence[float], device: torch.device, greatest: bool = False) -> list[float]:
    """The sums of numbers over the processes, or their maxima."""
    if group().size == 1:
        return list(values)
    numbers = torch.tensor(values, dtype=torch.float64, device=device)
    distributed.all_reduce(numbers, distributed.ReduceOp.MAX if greatest else distributed.ReduceOp.SUM)
    sums: list[float] = numbers.tolist()
    return sums


def exchange(outputs: Sequence[Tensor | None], device: torch.device) -> list[Tensor]:
    """(n, width) float32 of each chunk, where each process has those of its own `Group.numbers`."""
    if group().size == 1:
        return [output for output in outputs if output is not None]
    shapes = [size for output in outputs for size in (output.shape if output is not None else (0, 0))]
    sizes = [int(size) for size in total(shapes, device)]
    rows, width = sizes[::2], max(sizes[1::2], default=0)
    states = torch.zeros(sum(rows), width, device=device)
    parts = list(torch.split(states, rows))
    for part, output in zip(parts, outputs, strict=True):
        if output is not None:
            part.copy_(output)
    distributed.all_reduce(states)
    return [part.clone() for part in parts]


@torch.no_grad()
def add_gradients(parameters: Sequence[nn.Parameter], device: torch.device) -> None:
    """Give each parameter the sum of the processes' gradients; one without any stays so."""
    if group().size == 1:
        return
    gradient_counts = total([float(parameter.grad is not None) for parameter in parameters], device, greatest=True)
    for parameter, gradient_count in zip(parameters, gradient_counts, strict=True):
        if gradient_count:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            distributed.all_reduce(parameter.grad)

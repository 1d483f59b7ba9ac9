"""Train one model in several processes, one per device, as ``torchrun`` and ``accelerate launch`` start them.

All processes have the same weights. If a step has a batch for each process, each process works on its own batches.
Otherwise all processes share each batch: each encodes some of its chunks and receives the states of all chunks, so the
loss has the negatives of the whole batch. In both cases, a step has the result of a single process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, distributed, nn

from phrasemate.errors import InputError

SIZE, RANK, LOCAL = "WORLD_SIZE", "RANK", "LOCAL_RANK"  # environment variables that launchers set


class Group(NamedTuple):
    """Group of ``size`` processes that work together; ``rank`` is the number of this process, from 0."""

    rank: int = 0
    size: int = 1

    def numbers(self, count: int) -> range:
        """Return the numbers of the items, out of ``count``, that this process works on."""
        return range(self.rank, count, self.size)


_groups = [Group()]


def group() -> Group:
    """Return the current group of processes."""
    return _groups[-1]


def join(device: str) -> None:
    """Connect to the other processes of the launcher, if there is one; each process uses its own GPU.

    Raises InputError if the connection fails.
    """
    if int(os.environ.get(SIZE, "1")) == 1 or distributed.is_initialized():
        return
    if device == "cuda":
        torch.cuda.set_device(int(os.environ.get(LOCAL, "0")))
    try:
        distributed.init_process_group("nccl" if device == "cuda" else "gloo")
    except (RuntimeError, ValueError) as error:
        raise InputError(f"{os.environ[SIZE]} processes cannot connect ({' '.join(str(error).split())})") from error
    _groups.append(Group(distributed.get_rank(), distributed.get_world_size()))


def leave() -> None:
    """Disconnect from the other processes."""
    if group().size > 1:
        _groups.pop()
        distributed.destroy_process_group()


def expect_one(method: str) -> None:
    """Raise InputError if a launcher started several processes for a method that trains in one."""
    if int(os.environ.get(SIZE, "1")) > 1:
        raise InputError(f"{method} trains in one process, but {os.environ[SIZE]} were started; start only one")


@contextmanager
def alone() -> Iterator[None]:
    """Make this process work by itself during the block, for a batch that it does not share."""
    _groups.append(Group())
    try:
        yield
    finally:
        _groups.pop()


def wait() -> None:
    """Wait until all processes have called this function."""
    if group().size > 1:
        distributed.barrier()


def total(values: Sequence[float], device: torch.device, greatest: bool = False) -> list[float]:
    """Return the sums of each of the ``values`` over the processes, or with ``greatest`` the maxima."""
    if group().size == 1:
        return list(values)
    numbers = torch.tensor(values, dtype=torch.float64, device=device)
    distributed.all_reduce(numbers, distributed.ReduceOp.MAX if greatest else distributed.ReduceOp.SUM)
    sums: list[float] = numbers.tolist()
    return sums


def exchange(outputs: Sequence[Tensor | None], device: torch.device) -> list[Tensor]:
    """Return the outputs of all chunks, (n, width) float32 each, given those that this process has computed.

    ``outputs`` has None for the chunks of other processes (see `Group.numbers`).
    """
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
    """Replace the gradient of each parameter by the sum over the processes; None stays None if no process has one."""
    if group().size == 1:
        return
    gradient_counts = total([float(parameter.grad is not None) for parameter in parameters], device, greatest=True)
    for parameter, gradient_count in zip(parameters, gradient_counts, strict=True):
        if gradient_count:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            distributed.all_reduce(parameter.grad)

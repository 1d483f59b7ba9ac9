"""Gradients of a batch that does not fit into memory: chunks, and the cache of their outputs (GradCache).

A loss over all texts of a batch needs the gradients of all of them. `cached_backward` computes each chunk twice, and
only one chunk is in memory, so any number of negatives fits. It is section 3 of Gao et al., 2021, "Scaling Deep
Contrastive Learning Batch Size under Memory Limited Setup".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

if TYPE_CHECKING:
    from phrasemate.training.hf_encoder import Backbone, Batch

C = TypeVar("C")


def gathered(outputs: Sequence[Tensor], rows: Sequence[Tensor]) -> Tensor:
    """What was computed in chunks, in the order of the batch; ``rows``: the places of each chunk's."""
    states = torch.cat([item.float() for item in outputs])
    return torch.empty_like(states).index_copy(0, torch.cat(list(rows)), states)


def chunked_backward(
    backbone: Backbone,
    batch: Batch,
    tokens: int,
    objective: Callable[[Tensor], Tensor],
    autocast: Callable[[], Any] = nullcontext,
) -> Tensor:
    """Cached gradients: the loss and its gradients as `Backbone.states` gives them, with one chunk in memory.

    Each chunk is computed without a graph first; the objective's gradient with respect to the states is then carried
    through each chunk, computed again with the same dropout.
    """
    chunks = list(backbone.chunks(batch, tokens))
    rows = [chunk.rows for chunk in chunks]
    return cached_backward(
        backbone, chunks, lambda outputs: objective(gathered(outputs, rows)), backbone.device, autocast
    )


def cached_backward(
    compute: Callable[[C], Tensor],
    chunks: Sequence[C],
    objective: Callable[[Sequence[Tensor]], Tensor],
    device: torch.device,
    autocast: Callable[[], Any] = nullcontext,
) -> Tensor:
    """The same of anything that is computed chunk by chunk: the loss of ``objective([compute(c) for c in chunks])``."""
    randoms, outputs = [], []
    with torch.no_grad(), autocast():
        for chunk in chunks:
            randoms.append(_random_state(device))
            outputs.append(compute(chunk))
    for item in outputs:
        item.requires_grad_()
    loss = objective(outputs)
    loss.backward()  # type: ignore[no-untyped-call]
    for chunk, random, first in zip(chunks, randoms, outputs, strict=True):
        with _replayed(random, device), autocast():
            again = compute(chunk)
        again.backward(first.grad)  # type: ignore[no-untyped-call]
    return loss.detach()


def _random_state(device: torch.device) -> tuple[Tensor, Tensor | None]:
    return torch.get_rng_state(), torch.cuda.get_rng_state(device) if device.type == "cuda" else None


@contextmanager
def _replayed(state: tuple[Tensor, Tensor | None], device: torch.device) -> Iterator[None]:
    devices = [device] if state[1] is not None else []
    with torch.random.fork_rng(devices=devices):
        torch.set_rng_state(state[0])
        if state[1] is not None:
            torch.cuda.set_rng_state(state[1], device)
        yield

"""Gradients of a batch that does not fit into memory: chunks, and the cache of their outputs (GradCache).

A loss over all texts of a batch needs the gradients of all of them. `cached_backward` computes each chunk twice, and
only one chunk is in memory, so any number of negatives fits. It is section 3 of Gao et al., 2021, "Scaling Deep
Contrastive Learning Batch Size under Memory Limited Setup".

Where several processes train together (`phrasemate.training.processes`), each computes some of the chunks, and gets the
outputs of all of them for the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from phrasemate.training import processes

if TYPE_CHECKING:
    from phrasemate.training.hf_encoder import Backbone, Batch

C = TypeVar("C")


def gathered(outputs: Sequence[Tensor], rows: Sequence[Tensor]) -> Tensor:
    """Join what was computed in chunks, in the order of the batch; ``rows``: the places of each chunk's."""
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
    share = -(-len(batch.ids) // processes.group().size)  # or there would be fewer chunks than processes
    chunks = list(backbone.chunks(batch, min(tokens, share)))
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
    """Backpropagate ``objective([compute(c) for c in chunks])``, computed chunk by chunk; returns its value.

    Of several processes each adds a share to the gradients; `processes.add_gradients` makes them whole.
    """
    size, mine = processes.group().size, processes.group().numbers(len(chunks))
    randoms: dict[int, tuple[Tensor, Tensor | None]] = {}
    gradients: list[Tensor | None] = [None] * len(chunks)
    with torch.no_grad(), autocast():
        for number in mine:
            randoms[number] = _random_state(device)
            gradients[number] = compute(chunks[number])
        outputs = processes.exchange(gradients, device)
    for item in outputs:
        item.requires_grad_()
    loss = objective(outputs)
    (loss / size).backward()  # type: ignore[no-untyped-call]  # what all compute alike, each adds a part of
    for number in mine:
        with _replayed(randoms[number], device), autocast():
            again = compute(chunks[number])
        gradient = outputs[number].grad
        assert gradient is not None
        again.backward((gradient * size).to(again.dtype))  # type: ignore[no-untyped-call]
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

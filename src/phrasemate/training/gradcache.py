"""Gradient caching (GradCache): compute the gradients of a batch that does not fit into memory, chunk by chunk.

A contrastive loss needs the outputs of all texts of a batch. `cached_backward` computes each chunk twice, but keeps the
graph of one chunk at a time, so the number of negatives is not limited by memory. The method is section 3 of Gao et al.
2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup".

If several processes train together (`phrasemate.training.processes`), each computes some of the chunks, and receives
the outputs of all chunks for the loss.
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
    """Concatenate the outputs of chunks in the order of the batch; ``rows`` are the batch rows of each chunk."""
    states = torch.cat([item.float() for item in outputs])
    return torch.empty_like(states).index_copy(0, torch.cat(list(rows)), states)


def chunked_backward(
    backbone: Backbone,
    batch: Batch,
    tokens: int,
    objective: Callable[[Tensor], Tensor],
    autocast: Callable[[], Any] = nullcontext,
) -> Tensor:
    """Backpropagate a loss of a batch's token states through an encoder, with the graph of one chunk in memory.

    The loss and the gradients are those of ``objective(backbone.states(batch, tokens))``.

    Args:
        backbone: Encoder.
        batch: Tokenized texts.
        tokens: Maximum number of padded tokens in a chunk.
        objective: Function from the states (tokens, width) to the loss.
        autocast: Context manager in which the encoder runs.

    Returns the loss.
    """
    share = -(-len(batch.ids) // processes.group().size)  # so that each process has a chunk
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
    """Backpropagate ``objective([compute(c) for c in chunks])`` chunk by chunk, and return its value.

    All chunks are first computed without a graph. Then each chunk is computed again, with the same dropout, and the
    objective's gradient with respect to its output is backpropagated. With several processes, each computes a part of
    the gradients; `processes.add_gradients` sums them.
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
    (loss / size).backward()  # type: ignore[no-untyped-call]  # all compute this term, so each adds its share
    for number in mine:
        with _replayed(randoms[number], device), autocast():
            again = compute(chunks[number])
        gradient = outputs[number].grad
        assert gradient is not None
        again.backward((gradient * size).to(again.dtype))  # type: ignore[no-untyped-call]
    return loss.detach()


def _random_state(device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Return the states of the random number generators of the CPU and, if it is used, of the GPU."""
    return torch.get_rng_state(), torch.cuda.get_rng_state(device) if device.type == "cuda" else None


@contextmanager
def _replayed(state: tuple[Tensor, Tensor | None], device: torch.device) -> Iterator[None]:
    """Set the random number generators to an earlier state during the block."""
    devices = [device] if state[1] is not None else []
    with torch.random.fork_rng(devices=devices):
        torch.set_rng_state(state[0])
        if state[1] is not None:
            torch.cuda.set_rng_state(state[1], device)
        yield

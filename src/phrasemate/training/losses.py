"""Losses that several training methods share. All are computed in float32, whatever the encoder's precision."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class Contrast(NamedTuple):
    """Contrastive ``loss`` (scalar), and ``right``: the share of queries with their positive above all candidates."""

    loss: Tensor
    right: Tensor


def contrast(
    queries: Tensor,
    candidates: Tensor,
    positives: Tensor,
    temperature: float = 1.0,
    ignored: Tensor | None = None,
) -> Contrast:
    """Compute the contrastive loss: the mean over queries q of -log exp(q.p/T) / sum_c exp(q.c/T).

    The loss of CCPR (Li et al. 2024, eq. 2 and 3) has T = 1, with all pairs of the batch as candidates.

    Args:
        queries: Query vectors (n, dim). Without queries, the loss is zero.
        candidates: Candidate vectors (m, dim).
        positives: Row of the positive p of each query among the candidates, (n,).
        temperature: T.
        ignored: Mask (n, m) of candidates that are not negatives of a query; a positive is never ignored.
    """
    logits = (queries.float() / temperature) @ candidates.float().T  # (n, m)
    if ignored is not None:
        logits.masked_fill_(ignored.scatter(1, positives[:, None], False), -torch.inf)  # in place, to save memory
    loss = functional.cross_entropy(logits, positives, reduction="sum")
    with torch.no_grad():
        right = (logits >= logits.gather(1, positives[:, None])).sum(1) == 1
    count = max(len(queries), 1)
    return Contrast(loss / count, right.float().sum() / count)


def balanced_bce(logits: Tensor, positive: Tensor, texts: Tensor | None = None) -> Tensor:
    """Compute binary cross-entropy in which positives and negatives have the same total weight.

    It is the expectation of the loss of CCPR (eq. 6), which samples as many non-phrases as phrases.

    Args:
        logits: Logits of the spans (n,).
        positive: Mask of the spans that are phrases (n,). The loss is zero without positives or without negatives.
        texts: Number of the sentence of each span (n,), to balance each sentence by itself. The weight of a sentence is
            its number of positives, or zero without negatives. None balances all spans together.
    """
    losses = functional.binary_cross_entropy_with_logits(logits.float(), positive.float(), reduction="none")
    if texts is not None:
        count = int(texts.max()) + 1 if len(texts) else 1
        phrases = torch.bincount(texts[positive], minlength=count)
        negatives = torch.bincount(texts[~positive], minlength=count)
        share = phrases * (negatives > 0)  # weight of each sentence
        weights = torch.where(positive, 0.5 / phrases.clamp(min=1)[texts], 0.5 / negatives.clamp(min=1)[texts])
        return (losses * weights * share[texts]).sum() / share.sum().clamp(min=1)
    has_both = positive.any() & ~positive.all()
    weights = torch.where(positive, 0.5 / positive.sum().clamp(min=1), 0.5 / (~positive).sum().clamp(min=1))
    return (losses * weights).sum() * has_both


def span_means(states: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """Return the mean state of each span, (spans, width): of the rows ``first`` to ``last`` (spans,), both included."""
    lengths = last + 1 - first
    owner = torch.repeat_interleave(torch.arange(len(first), device=states.device), lengths)
    rows = torch.arange(len(owner), device=states.device) + (first - (lengths.cumsum(0) - lengths))[owner]
    sums = torch.zeros(len(first), states.shape[1], device=states.device).index_add(0, owner, states[rows].float())
    return sums / lengths[:, None]

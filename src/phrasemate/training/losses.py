"""Losses that the methods share. All compute in float32, whatever the encoder's precision."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class Contrast(NamedTuple):
    """``loss`` (scalar), ``right``: share of the queries whose positive beats all other candidates."""

    loss: Tensor
    right: Tensor


def contrast(
    queries: Tensor,
    candidates: Tensor,
    positives: Tensor,
    temperature: float = 1.0,
    ignored: Tensor | None = None,
) -> Contrast:
    """Softmax over the candidates: mean over queries q of -log exp(q.p/T) / sum_c exp(q.c/T).

    ``queries`` (n, dim), ``candidates`` (m, dim), ``positives`` (n,): which candidate is the query's own;
    ``ignored`` (n, m) bool: candidates that are not negatives of a query (its positive always counts). Zero without
    queries.
    CCPR (Li et al. 2024, eq. 2 and 3) is T = 1 with all pairs of the batch as candidates.
    """
    logits = (queries.float() / temperature) @ candidates.float().T  # (n, m)
    if ignored is not None:
        logits.masked_fill_(ignored.scatter(1, positives[:, None], False), -torch.inf)  # in place: they are large
    loss = functional.cross_entropy(logits, positives, reduction="sum")
    with torch.no_grad():
        right = (logits >= logits.gather(1, positives[:, None])).sum(1) == 1
    count = max(len(queries), 1)
    return Contrast(loss / count, right.float().sum() / count)


def balanced_bce(logits: Tensor, positive: Tensor, texts: Tensor | None = None) -> Tensor:
    """Binary cross-entropy in which positives and negatives weigh the same in all, however many there are.

    What CCPR (eq. 6) estimates by drawing as many non-phrases as phrases, without the noise of drawing.
    ``logits`` (n,), ``positive`` (n,) bool. Zero where one of the two kinds is absent. With ``texts`` (n,), the number
    of each span's sentence, it is balanced in each sentence; one weighs as much as it has positives, and one without
    either kind nothing.
    """
    losses = functional.binary_cross_entropy_with_logits(logits.float(), positive.float(), reduction="none")
    if texts is not None:
        count = int(texts.max()) + 1 if len(texts) else 1
        phrases = torch.bincount(texts[positive], minlength=count)
        negatives = torch.bincount(texts[~positive], minlength=count)
        share = phrases * (negatives > 0)  # of each sentence
        weights = torch.where(positive, 0.5 / phrases.clamp(min=1)[texts], 0.5 / negatives.clamp(min=1)[texts])
        return (losses * weights * share[texts]).sum() / share.sum().clamp(min=1)
    has_both = positive.any() & ~positive.all()
    weights = torch.where(positive, 0.5 / positive.sum().clamp(min=1), 0.5 / (~positive).sum().clamp(min=1))
    return (losses * weights).sum() * has_both


def span_means(states: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """(spans, width): the mean of the states of rows ``first`` to ``last``, both included."""
    lengths = last + 1 - first
    owner = torch.repeat_interleave(torch.arange(len(first), device=states.device), lengths)
    rows = torch.arange(len(owner), device=states.device) + (first - (lengths.cumsum(0) - lengths))[owner]
    sums = torch.zeros(len(first), states.shape[1], device=states.device).index_add(0, owner, states[rows].float())
    return sums / lengths[:, None]

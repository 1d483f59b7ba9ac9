"""Training side of the re-ranker: the network of `phrasemate.reranker.network` in torch, for padded batches.

The equations stand there; both give the same numbers, which a test holds. What is trained here: all of its arrays.
The loss is listwise: the mate of a sentence against what the encoder itself ranks high (a softmax over the list).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from phrasemate.reranker.network import Arrays, Network


class Tokens(NamedTuple):
    """``states`` (..., T, width) of sentences, ``mask`` (..., T): 1 for a token, 0 for padding."""

    states: Tensor
    mask: Tensor


class Reranker(nn.Module):
    """Scores of a sentence with each of several others; `start` it from the arrays of a `Network`.

    ``dropout``: of the projected states' numbers, in training.
    """

    def __init__(self, start: Network, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.weights = nn.ParameterDict(
            {name: nn.Parameter(torch.tensor(array)) for name, array in start.arrays.items()}
        )

    def network(self) -> Network:
        """As it is now, for use without torch."""
        arrays: Arrays = {name: np.array(value.detach().float().cpu().numpy()) for name, value in self.weights.items()}
        return Network(arrays)

    def forward(self, first: Tokens, second: Tokens, cosines: Tensor) -> Tensor:
        """(B, K) scores of B sentences (B, I, width), each with K others (B, K, J, width); ``cosines`` (B, K)."""
        w = self.weights
        x, y = self.projected(first)[:, None], self.projected(second)  # (B, 1, I, d), (B, K, J, d)
        mine, theirs = first.mask[:, None], second.mask  # (B, 1, I), (B, K, J)
        forth = self._crossed(x, y, mine, theirs)
        back = self._crossed(y, x, theirs, mine)
        match = (forth[0] + back[0]) / 2  # (B, K)
        bilinear = w["bilinear"] + w["bilinear"].T
        summed = torch.tanh(((forth[1] @ bilinear) * back[1]).sum(-1) / 2 + w["bilinear_bias"])  # eq. 5
        scores: Tensor = (torch.stack([cosines, match, summed], -1) * w["mix"]).sum(-1)  # @ rounds to bf16
        return scores

    def projected(self, tokens: Tokens) -> Tensor:
        """(..., T, d) of unit length; padding, of which there may be more than tokens, is 0 and costs nothing."""
        there = tokens.mask.bool()
        made: Tensor = self.dropout(tokens.states[there] @ self.weights["project"] + self.weights["project_bias"])
        placed: Tensor = made.new_zeros(*there.shape, made.shape[-1])
        placed[there] = functional.normalize(made, dim=-1)
        return placed

    def _crossed(self, own: Tensor, other: Tensor, mine: Tensor, theirs: Tensor) -> tuple[Tensor, Tensor]:
        """The weighted mean match (B, K) of a side's tokens, and its e (B, K, d), of unit length."""
        w = self.weights
        m = torch.tanh(own @ w["match"] @ other.transpose(-1, -2) + w["match_bias"])  # (B, K, I, J); eq. 1
        logits = (m * w["sharpness"].exp()).masked_fill(theirs[..., None, :] == 0, -torch.inf)
        alpha = logits.softmax(-1)  # eq. 2
        hbar = alpha @ other  # (B, K, I, d); eq. 3
        weight = ((own @ w["weigh"]) + torch.zeros_like(hbar[..., 0])).masked_fill(mine == 0, -torch.inf).softmax(-1)
        match = (weight * (own * hbar).sum(-1)).sum(-1)
        gamma = torch.tanh(hbar @ w["attend"] + w["attend_bias"]) * mine  # (B, K, I); eq. 4
        return match, functional.normalize((gamma[..., None] * hbar).sum(-2), dim=-1)


def listwise_loss(scores: Tensor, ignored: Tensor) -> Tensor:
    """Mean of -log softmax of the first column of ``scores`` (B, K); ``ignored`` (B, K): no negatives."""
    return -scores.masked_fill(ignored, -torch.inf).log_softmax(-1)[:, 0].mean()

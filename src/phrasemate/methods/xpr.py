"""XPR: Zheng et al. 2022, "Cross-Lingual Phrase Retrieval" (ACL): a phrase is what it is in its example sentences.

Representation (eq. 1, 2): encode m sentences that contain the phrase, each by itself; the mean of the states of the
phrase's tokens, then the mean over the sentences. XPCO (eq. 3, 4): of N phrase pairs, each phrase, projected and at
unit length, has to find its mate among the N phrases of the other language, which a momentum encoder has encoded; both
directions are added. Algorithm 1: draw pairs and sentences; encode with both encoders; a step of Adam on the one; the
other moves a thousandth of the way after it. MoCo (section 5.7): negatives from a queue of earlier steps.

Each piece is an option. Where the paper and its released code differ, the defaults are the paper's:

- The projection is applied to the phrase's vector; the code applies it to the token states (``place`` "tokens").
- One momentum update a step; the code makes one in each of the two directions.
- Negatives come from the batch; the code's MoCo adds a queue to it (``negatives`` "both"), one for both languages,
  begun with random vectors. Ours has one for each side, and begins empty.
- Without momentum, the code lets the gradient through the targets (``targets`` "same"); "stopped" does not.

Ours: a projection that begins as the identity (``start``), and pairs that share a wording, of which neither is a
negative of the other (``same_wording``).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from phrasemate.methods.backbone import gathered
from phrasemate.methods.config import expect
from phrasemate.methods.halves import Upper
from phrasemate.methods.kept import Inputs
from phrasemate.methods.losses import Contrast, contrast, span_means


@dataclass(frozen=True)
class Settings:
    """The loss; the defaults are the paper's, the temperature that of its released training script.

    ``targets``: what encodes the phrases that are searched: the "momentum" encoder; or, as ablations, the "same"
    encoder, or the same without a gradient ("stopped"). ``momentum`` is mu. ``negatives``: of the "batch" (XPCO), of
    the "queue" (MoCo), or of "both"; ``queue``: its length. ``same_wording``: whether a pair with a wording in common
    is a "negative" or "ignored".
    """

    temperature: float = 0.06
    targets: str = "momentum"
    momentum: float = 0.999
    negatives: str = "batch"
    queue: int = 1_024
    same_wording: str = "negative"

    def __post_init__(self) -> None:
        expect("[loss] targets", self.targets, ("momentum", "same", "stopped"))
        expect("[loss] negatives", self.negatives, ("batch", "queue", "both"))
        expect("[loss] same_wording", self.same_wording, ("negative", "ignored"))


class Projection(nn.Module):
    """The projection head: two linear layers with a ReLU between them, width -> ``inner`` x width -> width.

    ``place``: "pooled" projects a phrase's vector (paper), "tokens" each state before the mean (code). ``start``:
    "random", or "identity": as ReLU(x) - ReLU(-x) = x, two rows of the first layer for each number can pass it on
    unchanged, so that phrases are found before the first step.
    """

    def __init__(self, width: int, place: str = "pooled", inner: int = 4, start: str = "random") -> None:
        super().__init__()
        expect("[model] projection", place, ("pooled", "tokens"))
        expect("[model] start", start, ("random", "identity"))
        self.place = place
        self.inner, self.outer = nn.Linear(width, inner * width), nn.Linear(inner * width, width)
        if start == "identity":
            self._begin_as_identity(width)

    def forward(self, vectors: Tensor) -> Tensor:
        """(..., width) -> (..., width)."""
        made: Tensor = self.outer(functional.relu(self.inner(vectors)))
        return made

    @torch.no_grad()
    def _begin_as_identity(self, width: int) -> None:
        one = torch.eye(width)
        self.inner.weight[: 2 * width] = torch.cat([one, -one])
        self.inner.bias[: 2 * width] = 0
        self.outer.weight[:] = 0
        self.outer.weight[:, : 2 * width] = torch.cat([one, -one], 1)
        self.outer.bias[:] = 0

    def arrays(self) -> dict[str, Tensor]:
        """The two layers, named and shaped as `phrasemate.encode.heads` has them."""
        parts = {"inner": self.inner.weight.T, "inner_bias": self.inner.bias}
        parts |= {"outer": self.outer.weight.T, "outer_bias": self.outer.bias}
        return {f"{self.place}_{name}": value for name, value in parts.items()}


class PhraseEncoder(nn.Module):
    """f(.; theta): contexts of phrases -> unit vectors. What `halves` leaves below is no part of theta."""

    def __init__(self, upper: Upper, head: Projection | None = None) -> None:
        super().__init__()
        self.upper, self.head = upper, head

    def contexts(self, inputs: Inputs, projected: bool = True) -> Tensor:
        """Eq. 1: (texts, width), each the mean of the states of its phrase's tokens."""
        states, there = self.upper(inputs.states, inputs.mask, inputs.first, inputs.last)  # (texts, longest, width)
        if projected and self.head is not None and self.head.place == "tokens":
            states = self.head(states)
        kept = there[:, :, None]
        mean: Tensor = (states.float() * kept).sum(1) / kept.sum(1)
        return mean

    def phrases(self, contexts: Tensor, owner: Tensor, projected: bool = True) -> Tensor:
        """Eq. 2: (phrases, width) at unit length, each the mean of its contexts, projected.

        ``owner`` (contexts,) ascending: the phrase that each context is of.
        """
        counts = torch.bincount(owner)
        last = counts.cumsum(0) - 1
        vectors = span_means(contexts, last + 1 - counts, last)
        if projected and self.head is not None and self.head.place == "pooled":
            vectors = self.head(vectors)
        return functional.normalize(vectors, dim=1)

    def forward(
        self,
        inputs: Sequence[Inputs],
        owner: Tensor,
        projected: bool = True,
        autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> Tensor:
        """Both, of all pieces of a step; ``autocast`` is the precision of the encoder."""
        with autocast():
            found = [self.contexts(each, projected) for each in inputs]
        return self.phrases(gathered(found, [each.places for each in inputs]), owner, projected)


@torch.no_grad()
def momentum_update(slow: nn.Module, fast: nn.Module, momentum: float) -> None:
    """theta_m <- mu theta_m + (1 - mu) theta (algorithm 1)."""
    for old, new in zip(slow.parameters(), fast.parameters(), strict=True):
        old.mul_(momentum).add_(new, alpha=1 - momentum)


class Queue:
    """The momentum-encoded phrases of the latest ``size`` pairs, sources and targets apart (section 5.7; MoCo).

    ``vectors`` (2, size, dim), ``wordings`` (2, size), ``count`` (1,): how many pairs ever came in. The oldest are
    overwritten first.
    """

    def __init__(self, size: int, dim: int, device: torch.device) -> None:
        self.size = size
        self.vectors = torch.zeros(2, size, dim, device=device)
        self.wordings = torch.zeros(2, size, dtype=torch.int64, device=device)
        self.count = torch.zeros(1, dtype=torch.int64)

    @torch.no_grad()
    def push(self, keys: Tensor, wordings: Tensor) -> None:
        """``keys`` (2, N, dim), ``wordings`` (2, N): the oldest first; of more than ``size`` the last."""
        new = keys.shape[1]
        places = (int(self.count) + torch.arange(new))[-self.size :] % self.size
        self.vectors[:, places] = keys[:, -self.size :]
        self.wordings[:, places] = wordings[:, -self.size :]
        self.count += new

    def filled(self) -> tuple[Tensor, Tensor]:
        """(2, n, dim) vectors and (2, n) wordings of the n <= size pairs that are in it."""
        there = min(int(self.count), self.size)
        return self.vectors[:, :there], self.wordings[:, :there]


class XPR:
    """Algorithm 1: the two encoders and the loss of a step."""

    def __init__(self, encoder: PhraseEncoder, settings: Settings, width: int, device: torch.device) -> None:
        self.encoder, self.settings = encoder, settings
        self.slow = copy.deepcopy(encoder).requires_grad_(False) if settings.targets == "momentum" else None
        self.queue = None if settings.negatives == "batch" else Queue(settings.queue, width, device)

    @torch.no_grad()
    def keys(
        self, inputs: Sequence[Inputs], owner: Tensor, autocast: Callable[[], AbstractContextManager[Any]] = nullcontext
    ) -> Tensor | None:
        """(2N, width): the phrases as the momentum encoder has them; None without one."""
        if self.slow is None:
            return None
        self.slow.train(self.encoder.training)
        keys: Tensor = self.slow(inputs, owner, autocast=autocast)
        return keys

    def loss(self, own: Tensor, keys: Tensor | None, wordings: Tensor) -> Contrast:
        """Eq. 4: the sum of both directions; and how often, on average, the mate is found first.

        ``own`` and ``keys`` (2N, width): sources, then targets, by the encoder and by the momentum encoder.
        """
        if keys is None:
            keys = own if self.settings.targets == "same" else own.detach()
        queries, candidates = (x.reshape(2, -1, x.shape[1]) for x in (own, keys))  # (2, N, width)
        worded = wordings.reshape(2, -1)  # (2, N)
        found = [self._direction(queries[side], candidates, worded, 1 - side) for side in (0, 1)]
        if self.queue is not None:
            self.queue.push(candidates, worded)
        return Contrast(found[0].loss + found[1].loss, (found[0].right + found[1].right) / 2)

    def _direction(self, queries: Tensor, keys: Tensor, wordings: Tensor, other: int) -> Contrast:
        """Eq. 3: -log exp(p_i . q_i / T) / sum_j exp(p_i . q_j / T), the mean over the phrases p_i of one side.

        ``queries`` (N, width); ``keys`` (2, N, width), of which those of the side ``other`` are searched.
        """
        candidates, read = keys[other], wordings
        own = torch.arange(len(queries), device=queries.device)
        if self.queue is not None:
            vectors, older = self.queue.filled()
            candidates, read = torch.cat([candidates, vectors[other]]), torch.cat([read, older], 1)
        ignored = torch.zeros(len(own), len(candidates), dtype=torch.bool, device=own.device)
        if self.settings.negatives == "queue":
            ignored[:, : len(own)] = True  # of the batch a phrase's own mate alone
        if self.settings.same_wording == "ignored":
            ignored |= (wordings[:, :, None] == read[:, None, :]).any(0)
        return contrast(queries, candidates, own, self.settings.temperature, ignored)

    def stepped(self) -> None:
        """After a step of the optimizer: the momentum update."""
        if self.slow is not None:
            momentum_update(self.slow, self.encoder, self.settings.momentum)

    def state(self) -> dict[str, Tensor]:
        """What a run has to remember beside the trained weights."""
        found: dict[str, Tensor] = {}
        if self.slow is not None:
            found |= {f"slow/{name}": value for name, value in self.slow.named_parameters()}
        if self.queue is not None:
            found |= {f"queue/{name}": getattr(self.queue, name) for name in ("vectors", "wordings", "count")}
        return found

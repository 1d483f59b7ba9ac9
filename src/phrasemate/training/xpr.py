"""Train with XPR (Zheng et al. 2022, "Cross-Lingual Phrase Retrieval", ACL): represent phrases by example sentences.

The vector of a phrase (eq. 1, 2) is the mean of its tokens' states in each of m sentences, averaged over the sentences.
The loss XPCO (eq. 3, 4) is contrastive. Each of N phrases, projected to a unit vector, must find its translation among
the N phrases of the other language. These are encoded by a momentum encoder. The losses of both directions are added.

Algorithm 1: draw pairs and sentences, encode them with both encoders, update the encoder with Adam, and move the
momentum encoder towards it by a thousandth. MoCo (section 5.7) takes negatives from a queue of earlier steps.

Each part is an option. Where the paper and its released code differ, the defaults are the paper's:

- The projection is applied to the phrase's vector; the code applies it to the token states (``place`` "tokens").
- One momentum update a step; the code makes one in each of the two directions.
- Negatives come from the batch; the code's MoCo adds a queue (``negatives`` "both"), one for both languages, initially
  with random vectors. Here, each side has a queue, which is initially empty.
- Without momentum, the code backpropagates through the targets (``targets`` "same"); "stopped" does not.

Two options are not in the paper: a projection that is initially the identity (``start``), and pairs with equal phrases
that are not negatives of each other (``same_wording``).
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from phrasemate.dataset.wikixpr import language_pairs
from phrasemate.errors import InputError
from phrasemate.training import processes
from phrasemate.training.ccpr_data import Schedule
from phrasemate.training.config import check_least, configured, expect, facts_of
from phrasemate.training.example_data import ContextBatch, Contexts, read_contexts, sampled
from phrasemate.training.frozen_states import Feed, Inputs, Lower, Piece, TokenNumbers, Upper, WholeEncoder, halves
from phrasemate.training.gradcache import cached_backward, gathered
from phrasemate.training.hf_encoder import EMBEDDINGS, Backbone, Tokenizer, longest_text, save_encoder
from phrasemate.training.losses import Contrast, contrast, span_means
from phrasemate.training.trainer import LoopSettings, autocast
from phrasemate.types import Progress


@dataclass(frozen=True)
class Settings:
    """Settings of the loss; the defaults are the paper's, and the temperature that of its training script.

    Args:
        temperature: T of eq. 3.
        targets: Encoder of the candidates: "momentum", or, as ablations, the "same" encoder with or without ("stopped")
            a gradient.
        momentum: mu of algorithm 1.
        negatives: Source of the negatives: the "batch" (XPCO), the "queue" (MoCo) or "both".
        queue: Length of the queue.
        same_wording: Whether a pair that shares a phrase with the query's pair is a "negative" or "ignored".
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
    """Projection head: two linear layers with a ReLU between them, width to ``inner`` x width to width.

    Args:
        width: Width of the states.
        place: "pooled" projects the vector of a phrase (paper), "tokens" each state before the mean (code).
        inner: Width of the inner layer, as a multiple of ``width``.
        start: Initialisation: "random", or "identity", by ReLU(x) - ReLU(-x) = x, so that retrieval works before the
            first step.
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
        """Project vectors (..., width) to vectors (..., width)."""
        output: Tensor = self.outer(functional.relu(self.inner(vectors)))
        return output

    @torch.no_grad()
    def _begin_as_identity(self, width: int) -> None:
        """Initialise both layers so that together they are the identity."""
        identity = torch.eye(width)
        self.inner.weight[: 2 * width] = torch.cat([identity, -identity])
        self.inner.bias[: 2 * width] = 0
        self.outer.weight[:] = 0
        self.outer.weight[:, : 2 * width] = torch.cat([identity, -identity], 1)
        self.outer.bias[:] = 0

    def arrays(self) -> dict[str, Tensor]:
        """Return the arrays of both layers, with the names and shapes of `phrasemate.encode.heads`."""
        parts = {"inner": self.inner.weight.T, "inner_bias": self.inner.bias}
        parts |= {"outer": self.outer.weight.T, "outer_bias": self.outer.bias}
        return {f"{self.place}_{name}": value for name, value in parts.items()}


class PhraseEncoder(nn.Module):
    """Encoder f(.; theta) from contexts of phrases to unit vectors; the frozen layers below `halves` are not in it."""

    def __init__(self, upper: Upper | WholeEncoder, head: Projection | None = None) -> None:
        super().__init__()
        self.upper, self.head = upper, head

    def contexts(self, inputs: Inputs, projected: bool = True) -> Tensor:
        """Compute the vector of the phrase in each context, (texts, width): the mean of its tokens' states (eq. 1)."""
        states, valid = self.upper(inputs.states, inputs.mask, inputs.first, inputs.last)  # (texts, longest, width)
        if projected and self.head is not None and self.head.place == "tokens":
            states = self.head(states)
        mask = valid[:, :, None]
        mean: Tensor = (states.float() * mask).sum(1) / mask.sum(1)
        return mean

    def phrases(self, contexts: Tensor, owner: Tensor, projected: bool = True) -> Tensor:
        """Compute the unit vectors of phrases, (phrases, width): the mean over their contexts (eq. 2), projected.

        ``owner`` (contexts,) is the phrase of each context, ascending.
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
        """Compute the unit vectors of a step's phrases, (phrases, width); ``autocast`` sets the encoder's precision."""
        with autocast():
            states = [self.contexts(input_, projected) for input_ in inputs]
        return self.phrases(gathered(states, [input_.places for input_ in inputs]), owner, projected)


@torch.no_grad()
def momentum_update(slow: nn.Module, fast: nn.Module, momentum: float) -> None:
    """Update the momentum encoder: theta_m <- mu theta_m + (1 - mu) theta (algorithm 1)."""
    for old, new in zip(slow.parameters(), fast.parameters(), strict=True):
        if new.requires_grad:
            old.mul_(momentum).add_(new, alpha=1 - momentum)


class Queue:
    """Queue of the latest ``size`` pairs of momentum-encoded phrases, a side per language (section 5.7, MoCo).

    ``vectors`` (2, size, dim) and ``wordings`` (2, size) are the vectors and hashes of the phrases. ``count`` (1,) is
    the number of all pairs so far. New pairs overwrite the oldest ones.
    """

    def __init__(self, size: int, dim: int, device: torch.device) -> None:
        self.size = size
        self.vectors = torch.zeros(2, size, dim, device=device)
        self.wordings = torch.zeros(2, size, dtype=torch.int64, device=device)
        self.count = torch.zeros(1, dtype=torch.int64)

    @torch.no_grad()
    def push(self, keys: Tensor, wordings: Tensor) -> None:
        """Add N pairs, oldest first: ``keys`` (2, N, dim) and ``wordings`` (2, N); only the last ``size`` are kept."""
        new = keys.shape[1]
        places = (int(self.count) + torch.arange(new))[-self.size :] % self.size
        self.vectors[:, places] = keys[:, -self.size :]
        self.wordings[:, places] = wordings[:, -self.size :]
        self.count += new

    def filled(self) -> tuple[Tensor, Tensor]:
        """Return the vectors (2, n, dim) and wordings (2, n) of the n <= size pairs in the queue."""
        row_count = min(int(self.count), self.size)
        return self.vectors[:, :row_count], self.wordings[:, :row_count]


class XPR:
    """Method XPR (algorithm 1): the encoder, the momentum encoder, and the loss of a step."""

    def __init__(self, encoder: PhraseEncoder, settings: Settings, width: int, device: torch.device) -> None:
        self.encoder, self.settings = encoder, settings
        self.slow = copy.deepcopy(encoder).requires_grad_(False) if settings.targets == "momentum" else None
        self.queue = None if settings.negatives == "batch" else Queue(settings.queue, width, device)

    @torch.no_grad()
    def keys(
        self, inputs: Sequence[Inputs], owner: Tensor, autocast: Callable[[], AbstractContextManager[Any]] = nullcontext
    ) -> Tensor | None:
        """Encode the phrases with the momentum encoder, (2N, width); None without one."""
        if self.slow is None:
            return None
        self.slow.train(self.encoder.training)
        contexts: list[Tensor | None] = [None] * len(inputs)
        with autocast():
            for number in processes.group().numbers(len(inputs)):
                contexts[number] = self.slow.contexts(inputs[number])
        states = processes.exchange(contexts, owner.device)
        return self.slow.phrases(gathered(states, [input_.places for input_ in inputs]), owner)

    def loss(self, mates: Tensor, keys: Tensor | None, wordings: Tensor) -> Contrast:
        """Compute the loss of both directions (eq. 4), and their mean share of phrases nearest to their translation.

        ``mates`` and ``keys`` (2N, width) are the sources, then the targets, by encoder and momentum encoder.
        """
        if keys is None:
            keys = mates if self.settings.targets == "same" else mates.detach()
        queries, candidates = (x.reshape(2, -1, x.shape[1]) for x in (mates, keys))  # (2, N, width)
        sides = wordings.reshape(2, -1)  # (2, N)
        losses = [self._direction(queries[side], candidates, sides, 1 - side) for side in (0, 1)]
        if self.queue is not None:
            self.queue.push(candidates, sides)
        return Contrast(losses[0].loss + losses[1].loss, (losses[0].right + losses[1].right) / 2)

    def _direction(self, queries: Tensor, keys: Tensor, wordings: Tensor, other: int) -> Contrast:
        """Compute the loss of one direction (eq. 3): the mean over p_i of -log exp(p_i.q_i/T) / sum_j exp(p_i.q_j/T).

        ``queries`` (N, width) are the phrases p_i; ``keys`` (2, N, width) hold the phrases q_j on the side ``other``.
        """
        candidates, read = keys[other], wordings
        labels = torch.arange(len(queries), device=queries.device)
        if self.queue is not None:
            vectors, older = self.queue.filled()
            candidates, read = torch.cat([candidates, vectors[other]]), torch.cat([read, older], 1)
        ignore_mask = torch.zeros(len(labels), len(candidates), dtype=torch.bool, device=labels.device)
        if self.settings.negatives == "queue":
            ignore_mask[:, : len(labels)] = True  # no negatives from the batch; positives still count
        if self.settings.same_wording == "ignored":
            ignore_mask |= (wordings[:, :, None] == read[:, None, :]).any(0)
        return contrast(queries, candidates, labels, self.settings.temperature, ignore_mask)

    def stepped(self) -> None:
        """Update the momentum encoder after a step of the optimizer."""
        if self.slow is not None:
            momentum_update(self.slow, self.encoder, self.settings.momentum)

    def state(self) -> dict[str, Tensor]:
        """Return the state of a run other than the trained weights: the momentum encoder and the queue."""
        tensors: dict[str, Tensor] = {}
        if self.slow is not None:
            trained_names = {name for name, value in self.encoder.named_parameters() if value.requires_grad}
            tensors |= {f"slow/{name}": value for name, value in self.slow.named_parameters() if name in trained_names}
        if self.queue is not None:
            tensors |= {f"queue/{name}": getattr(self.queue, name) for name in ("vectors", "wordings", "count")}
        return tensors


DEV_PAIRS = 128  # held-out pairs that are encoded at once


@dataclass(frozen=True)
class DataSettings:
    """Settings of the training data, the table [data].

    Args:
        pairs: Language pairs of the data set, such as "de-en" (none: all). They are mixed in each batch.
        batch: Phrase pairs per step.
        examples: Sentences per phrase, drawn again for each step (0: the phrase is its own context).
        pool: Number of first sentences of a phrase from which they are drawn (0: all).
        max_tokens: Maximum number of tokens of a sentence; longer ones are cut to a window around the phrase.
        evenness: Exponent of a language pair's size, which gives its share of the batches.
        dev_pairs: Language pairs of the held-out phrases (none: those of the training).
        dev: Number of held-out phrase pairs of each language pair (0: all).
        dev_examples: Number of sentences of each held-out phrase (0: the phrase is its own context).
    """

    pairs: tuple[str, ...] = ()
    batch: int = 256
    examples: int = 4
    pool: int = 0
    max_tokens: int = 80
    evenness: float = 1.0
    dev_pairs: tuple[str, ...] = ()
    dev: int = 0
    dev_examples: int = 32


@dataclass(frozen=True)
class ModelSettings:
    """Settings of the encoder and of the projection, the table [model].

    Args:
        base: Hugging Face encoder, a folder or a name.
        layer: Layer that gives the states (0: the last); those above are removed.
        frozen: Number of lowest layers that are not trained.
        embeddings: Whether the token table is "trained" or "frozen".
        kept: Whether the states of the frozen layers are computed once and cached in files (BERT, RoBERTa, CamemBERT
            and XLM-R with frozen embeddings only).
        dropout: Dropout rate of the encoder.
        projection: "pooled", "tokens" or "none".
        inner, start: Width and initialisation of the projection; see `Projection`.
        keep_head: Whether the projection is also used in retrieval, not only in training.
    """

    base: str
    layer: int = 0
    frozen: int = 0
    embeddings: str = "frozen"
    kept: bool = False
    dropout: float = 0.1
    projection: str = "pooled"
    inner: int = 4
    start: str = "random"
    keep_head: bool = True


@dataclass(frozen=True)
class OptimizerSettings:
    """Learning rates and the computation of a step, the table [optimizer].

    Args:
        encoder, heads: Highest learning rates of the encoder and of the projection.
        epochs: Passes over the pairs (0: `loop.steps` is used).
        warmup: Share of the steps that is warm-up (0: `loop.warmup` is used).
        chunk: Maximum number of padded tokens that are computed at once.
        cached: Whether gradients are cached (`phrasemate.training.gradcache`), which saves memory.
    """

    encoder: float = 2e-5
    heads: float = 2e-5
    epochs: float = 0.0
    warmup: float = 0.0
    chunk: int = 16_384
    cached: bool = False


@dataclass(frozen=True)
class Config:
    """Tables of the configuration file."""

    data: DataSettings
    model: ModelSettings
    loss: Settings
    optimizer: OptimizerSettings
    loop: LoopSettings

    @classmethod
    def of(cls, tables: Mapping[str, Any]) -> Config:
        """Build the settings from the tables of a TOML file. Raises InputError for an invalid setting."""
        config = configured(cls, tables)
        expect("[model] projection", config.model.projection, ("pooled", "tokens", "none"))
        expect("[model] embeddings", config.model.embeddings, EMBEDDINGS)
        counts = ("examples", "pool", "evenness", "dev", "dev_examples")
        check_least(
            config,
            data={"batch": 2, "max_tokens": 3} | dict.fromkeys(counts, 0),
            model={"inner": 2},
            loss={"queue": 1},
            optimizer=dict.fromkeys(asdict(config.optimizer), 0) | {"chunk": 1},
        )
        if config.optimizer.warmup > 1:
            raise InputError(
                f"[optimizer] warmup: {config.optimizer.warmup}; expected a share of the steps, 1 at most (loop.warmup "
                "counts steps)"
            )
        if config.loss.temperature <= 0 or not 0 <= config.loss.momentum <= 1:
            raise InputError("[loss] temperature must be above 0, and momentum from 0 to 1")
        return config

    def loop_over(self, pairs: int) -> LoopSettings:
        """Return the settings of the loop, with ``epochs`` and ``warmup`` converted to steps for ``pairs`` pairs."""
        loop, step_pairs = self.loop, self.data.batch * self.loop.accumulate
        if self.optimizer.epochs:
            loop = replace(loop, steps=max(1, round(self.optimizer.epochs * pairs / step_pairs)))
        if self.optimizer.warmup:
            loop = replace(loop, warmup=max(1, round(self.optimizer.warmup * loop.steps)))
        return loop


class Batch(NamedTuple):
    """Contexts of a step, and the padded pieces of them that are encoded."""

    sampled: ContextBatch
    pieces: list[Piece]


class XPRTask:
    """Training with XPR as a `trainer.Task` and `trainer.StatefulTask`.

    ``loop`` has the settings of the loop, with epochs converted to steps. Raises InputError, ReadError or ModelError
    for an unusable configuration, data set or base model.

    Args:
        config: Settings.
        folder: Data set.
        cache: Folder of the cache of frozen states, used with ``model.kept``.
        device: Device of torch, such as "cuda".
        show: Called with the name of the stage, the amount that is done, and the total.
    """

    def __init__(
        self,
        config: Config,
        folder: Path,
        cache: Path,
        device: str = "cpu",
        show: Progress = lambda what, step, total: None,
    ) -> None:
        self.config = config
        base = config.model.base
        self.tokenizer = Tokenizer(base, min(config.data.max_tokens, longest_text(base)))
        self.train, self.dev = self._read(folder)
        counts = [contexts.pairs for contexts in self.train]
        if sum(counts) < config.data.batch:
            raise InputError(f"{sum(counts)} phrase pairs to train on; expected {config.data.batch} or more, a batch")
        self.loop = config.loop_over(sum(counts))
        batches = self.loop.steps * self.loop.accumulate
        names = [contexts.name for contexts in self.train]
        self.schedule = Schedule(
            counts, batches, config.data.batch, config.data.evenness, seed=self.loop.seed, names=names
        )
        lower = self._build(device)
        padding = int(self.backbone.encoder.config.pad_token_id or 0)
        precise = partial(autocast, device, self.loop.precision)
        self.feed = Feed([*self.train, *self.dev], lower, padding, config.optimizer.chunk, precise)
        if config.model.kept:
            self.feed.keep(cache, self.loop.precision, show)

    @property
    def remarks(self) -> list[str]:
        """Remarks on the data for the user."""
        data = self.config.data
        phrases = [*self.train, *(self.dev if data.dev_examples else ())] if data.examples else []
        return [
            f"{item.name}: {item.bare:,} of {2 * item.pairs:,} phrases have no example sentence; each stands for itself"
            for item in phrases
            if item.bare
        ]

    def _read(self, folder: Path) -> tuple[list[Contexts], list[Contexts]]:
        data = self.config.data
        pairs = data.pairs or tuple(language_pairs(folder))
        if not pairs:
            raise InputError(f"{folder}: no pair such as de-en/train.jsonl; make it with phrasemate dataset xpr")
        bare, few = not data.examples, data.dev_examples
        train = [read_contexts(folder, pair, "train", self.tokenizer, data.pool, bare=bare) for pair in pairs]
        dev = [
            read_contexts(folder, pair, "dev", self.tokenizer, few, data.dev, bare or not few)
            for pair in data.dev_pairs or pairs
        ]
        return train, dev

    def _build(self, device: str) -> Lower | TokenNumbers:
        model = self.config.model
        torch.manual_seed(self.loop.seed)
        self.backbone = Backbone(model.base, 0, model.dropout, model.embeddings)
        lower, upper = halves(self.backbone, model.frozen, model.layer)
        width = self.backbone.width
        head = None if model.projection == "none" else Projection(width, model.projection, model.inner, model.start)
        self.backbone.to(device)
        self.module = PhraseEncoder(upper, head).to(device)
        self.method = XPR(self.module, self.config.loss, width, torch.device(device))
        return lower

    def facts(self) -> dict[str, Any]:
        """List all settings but those of the loop as plain data; of the base only its name, wherever it lies."""
        counts = {file.name: file.pairs for file in self.feed.files}
        return {**facts_of("xpr", self.config), "pooling": "mean", "phrase pairs": counts}

    @property
    def ordered(self) -> bool:
        """Whether every process must see every batch: a queue remembers them."""
        return self.method.queue is not None

    def groups(self) -> list[tuple[list[nn.Parameter], float]]:
        """Return the parameters of the upper layers and of the projection, with their learning rates."""
        head = list(self.module.head.parameters()) if self.module.head is not None else []
        rates = self.config.optimizer
        return [(list(self.module.upper.parameters()), rates.encoder), (head, rates.heads)]

    def batch(self, number: int) -> Batch:
        """See `Task.batch`."""
        draw = random.Random(self.loop.seed * 1_000_003 + number)
        inputs = sampled(self.train, self.schedule.train[number].tolist(), self.config.data.examples or 1, draw)
        return Batch(inputs, self.feed.pieces(inputs))

    def backward(self, batch: Batch, autocast: Callable[[], Any], scale: float) -> dict[str, float]:
        """See `Task.backward`: encode with both encoders, XPCO, the gradient (algorithm 1)."""
        inputs = [self.feed.inputs(piece) for piece in batch.pieces]
        device = inputs[0].states.device
        owner, wordings = (torch.from_numpy(x).to(device) for x in (batch.sampled.owner, batch.sampled.wordings))
        keys = self.method.keys(inputs, owner, autocast)
        parts: dict[str, float] = {}

        def objective(states: Sequence[Tensor]) -> Tensor:
            queries = self.module.phrases(gathered(states, [input_.places for input_ in inputs]), owner)
            loss, right = self.method.loss(queries, keys, wordings)
            parts.update({"loss": float(loss.detach()), "acc@1": float(right)})
            return loss * scale

        if self.config.optimizer.cached or processes.group().size > 1:
            cached_backward(self.module.contexts, inputs, objective, device, autocast)
        else:
            with autocast():
                states = [self.module.contexts(input_) for input_ in inputs]
            objective(states).backward()  # type: ignore[no-untyped-call]
        return {"tokens": len(batch.sampled.ids), **parts}

    def stepped(self) -> None:
        """See `StatefulTask.stepped`: the momentum update (algorithm 1)."""
        self.method.stepped()

    def state(self) -> dict[str, Tensor]:
        """See `StatefulTask.state`: the momentum encoder and the queue."""
        return self.method.state()

    @torch.no_grad()
    def evaluate(self, autocast: Callable[[], Any]) -> dict[str, float]:
        """Held-out phrases as retrieval has them, each language pair by itself: acc@1 (eq. 5) in both directions.

        ``score`` and ``acc@1`` are the mean over language pairs of the mean of the directions; what reads as the mate
        is right. Of a data set that has a pair of languages both ways round, the second one's figures name it.
        """
        figures: dict[str, float] = {}
        scores = []
        for number, contexts in enumerate(self.dev):
            vectors = self.held_out(number, autocast)  # (2, pairs, width)
            wordings = torch.from_numpy(contexts.wordings).view(2, -1)
            rights = [_right(vectors[side], vectors[1 - side], wordings[1 - side]) for side in (0, 1)]
            pair = contexts.name.split()[0]
            source, _, target = pair.rpartition("-")
            for name, right in zip((f"{source}>{target}", f"{target}>{source}"), rights, strict=True):
                figures[f"{name} ({pair})" if name in figures else name] = right
            scores.append(sum(rights) / 2)
        return {"score": float(np.mean(scores)), "acc@1": float(np.mean(scores)), **figures}

    @torch.no_grad()
    def held_out(self, file: int, autocast: Callable[[], Any]) -> Tensor:
        """Encode the held-out phrases of a language pair as in retrieval, (2, pairs, width): sources and targets."""
        sums = []
        rows = [(len(self.train) + file, row) for row in range(self.dev[file].pairs)]
        for at in range(0, len(rows), DEV_PAIRS):
            pair_block = sampled(self.feed.files, rows[at : at + DEV_PAIRS], 0, None)
            inputs = [self.feed.inputs(piece) for piece in self.feed.pieces(pair_block)]
            owner = torch.from_numpy(pair_block.owner).to(inputs[0].states.device)
            vectors = self.module(inputs, owner, self.config.model.keep_head, autocast)
            sums.append(vectors.reshape(2, -1, vectors.shape[1]).cpu())
        return torch.cat(sums, 1)

    def save(self, folder: Path) -> None:
        """Write a Hugging Face folder, with ``heads.safetensors`` if the projection is used in retrieval."""
        head = self.module.head if self.config.model.keep_head else None
        arrays = None if head is None else head.arrays()
        save_encoder(self.backbone.encoder, self.tokenizer, self.config.model.base, folder, arrays)


def _right(queries: Tensor, candidates: Tensor, wordings: Tensor) -> float:
    """Return the share of queries with a nearest candidate that has the text of their translation."""
    best = torch.cat([(query_block @ candidates.T).argmax(1) for query_block in torch.split(queries, 1_024)])
    return float((wordings[best] == wordings).float().mean())

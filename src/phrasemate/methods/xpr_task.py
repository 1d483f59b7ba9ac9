"""XPR as something to train: its configuration, its data, its held-out figures, its model folder."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from phrasemate.dataset.records import language_pairs
from phrasemate.encode.folder import HEADS
from phrasemate.errors import InputError
from phrasemate.methods.backbone import Backbone, Tokenizer, cached_backward, gathered, longest_text, save_encoder
from phrasemate.methods.config import at_least, configured, expect, facts_of
from phrasemate.methods.contexts import Contexts, Sampled, read_contexts, sampled
from phrasemate.methods.examples import Schedule
from phrasemate.methods.halves import Lower, halves
from phrasemate.methods.kept import Feed, Piece, Progress
from phrasemate.methods.loop import LoopSettings
from phrasemate.methods.xpr import XPR, PhraseEncoder, Projection, Settings
from phrasemate.train import autocast
from phrasemate.utils.storage import save_arrays

DEV_PAIRS = 128  # encoded at once


@dataclass(frozen=True)
class DataSettings:
    """``pairs``: the language pairs of the data set, such as "de-en" (none: all that it has); several are mixed in each
    batch, drawn in proportion to their length to the power ``evenness``. ``batch``: phrase pairs a step; ``examples``:
    sentences a phrase, drawn anew whenever it comes (0: the bare phrase is its own context), of its first ``pool``
    ones (0: all). ``dev_pairs``: other pairs to measure on; ``dev``: their first so many phrase pairs (0: all), with
    the first ``dev_examples`` sentences of each.
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
    """``base``: a Hugging Face encoder, a folder or a name; ``layer``: whose states a phrase is made of (0: the last;
    those above are dropped); ``frozen``: how many of the lowest layers are not trained, nor is the token table;
    ``kept``: their states are computed once and kept in files. ``projection``: "pooled", "tokens" or "none", ``inner``
    and ``start``: see `Projection`; ``keep_head``: whether it is used in retrieval, or in training alone.
    """

    base: str
    layer: int = 0
    frozen: int = 0
    kept: bool = False
    dropout: float = 0.1
    projection: str = "pooled"
    inner: int = 4
    start: str = "random"
    keep_head: bool = True


@dataclass(frozen=True)
class OptimizerSettings:
    """``encoder`` and ``heads``: highest learning rates; ``epochs``: passes over the pairs (0: `loop.steps` counts),
    and ``warmup``, the share of the steps that is warm-up (0: `loop.warmup` counts); ``chunk``: padded tokens computed
    at once; ``cached``: cached gradients.
    """

    encoder: float = 2e-5
    heads: float = 2e-5
    epochs: float = 0.0
    warmup: float = 0.0
    chunk: int = 16_384
    cached: bool = False


@dataclass(frozen=True)
class Config:
    """The tables of the configuration file."""

    data: DataSettings
    model: ModelSettings
    loss: Settings
    optimizer: OptimizerSettings
    loop: LoopSettings

    @classmethod
    def of(cls, tables: Mapping[str, Any]) -> Config:
        """From the tables of a TOML file; raises InputError naming what is wrong."""
        made = configured(cls, tables)
        expect("[model] projection", made.model.projection, ("pooled", "tokens", "none"))
        for name, value, least in (
            ("[data] batch", made.data.batch, 2),
            ("[data] examples", made.data.examples, 0),
            ("[data] max_tokens", made.data.max_tokens, 3),
            ("[data] pool", made.data.pool, 0),
            ("[data] evenness", made.data.evenness, 0),
            ("[data] dev", made.data.dev, 0),
            ("[data] dev_examples", made.data.dev_examples, 0),
            ("[model] inner", made.model.inner, 2),
            ("[loss] queue", made.loss.queue, 1),
            *((f"[optimizer] {name}", value, 0) for name, value in asdict(made.optimizer).items()),
            ("[optimizer] chunk", made.optimizer.chunk, 1),
        ):
            at_least(name, value, least)
        if made.optimizer.warmup > 1:
            raise InputError(
                f"[optimizer] warmup: {made.optimizer.warmup}; expected a share of the steps, 1 at most (loop.warmup "
                "counts steps)"
            )
        if made.loss.temperature <= 0 or not 0 <= made.loss.momentum <= 1:
            raise InputError("[loss] temperature must be above 0, and momentum from 0 to 1")
        return made

    def loop_over(self, pairs: int) -> LoopSettings:
        """The loop, with ``epochs`` and ``warmup`` counted out for so many phrase pairs."""
        loop, each = self.loop, self.data.batch * self.loop.accumulate
        if self.optimizer.epochs:
            loop = replace(loop, steps=max(1, round(self.optimizer.epochs * pairs / each)))
        if self.optimizer.warmup:
            loop = replace(loop, warmup=max(1, round(self.optimizer.warmup * loop.steps)))
        return loop


class Batch(NamedTuple):
    """A step's contexts, and the same as the encoder takes them."""

    sampled: Sampled
    pieces: list[Piece]


class XPRTask:
    """See `phrasemate.train.Task` and `phrasemate.train.Remembering`. ``folder``: the data set; ``kept``: where the
    frozen layers' states are kept, if the configuration wants them kept.

    ``loop``: the loop's settings, counted out. Raises InputError, ReadError and ModelError for a configuration, data
    or a base that cannot be used.
    """

    def __init__(
        self,
        config: Config,
        folder: Path,
        kept: Path,
        device: str = "cpu",
        show: Progress = lambda what, done, total: None,
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
        self.schedule = Schedule(
            counts,
            batches,
            config.data.batch,
            config.data.evenness,
            neighbours=1,
            dev=0,
            seed=self.loop.seed,
            names=[contexts.name for contexts in self.train],
        )
        lower = self._build(device)
        padding = int(self.backbone.encoder.config.pad_token_id or 0)
        precise = partial(autocast, device, self.loop.precision)
        self.feed = Feed([*self.train, *self.dev], lower, padding, config.optimizer.chunk, precise)
        if config.model.kept:
            self.feed.keep(kept, self.loop.precision, show)

    @property
    def remarks(self) -> list[str]:
        """What a user should know of the data."""
        data = self.config.data
        asked = [*self.train, *(self.dev if data.dev_examples else ())] if data.examples else []
        return [_lacking(each) for each in asked if each.bare]

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

    def _build(self, device: str) -> Lower:
        model = self.config.model
        torch.manual_seed(self.loop.seed)
        self.backbone = Backbone(model.base, 0, model.dropout)
        lower, upper = halves(self.backbone, model.frozen, model.layer)
        width = self.backbone.width
        head = None if model.projection == "none" else Projection(width, model.projection, model.inner, model.start)
        self.backbone.to(device)
        self.module = PhraseEncoder(upper, head).to(device)
        self.method = XPR(self.module, self.config.loss, width, torch.device(device))
        return lower

    def facts(self) -> dict[str, Any]:
        """All settings as plain data, but those of the loop; of the base only its name, wherever it lies."""
        counts = {each.name: each.pairs for each in self.feed.files}
        return {**facts_of("xpr", self.config), "pooling": "mean", "phrase pairs": counts}

    def groups(self) -> list[tuple[list[nn.Parameter], float]]:
        """The upper layers' parameters and those of the projection."""
        head = list(self.module.head.parameters()) if self.module.head is not None else []
        rates = self.config.optimizer
        return [(list(self.module.upper.parameters()), rates.encoder), (head, rates.heads)]

    def batch(self, number: int) -> Batch:
        """See `Task.batch`."""
        draw = random.Random(self.loop.seed * 1_000_003 + number)
        found = sampled(self.train, self.schedule.train[number].tolist(), self.config.data.examples or 1, draw)
        return Batch(found, self.feed.pieces(found))

    def backward(self, batch: Batch, autocast: Callable[[], Any], scale: float) -> dict[str, float]:
        """See `Task.backward`: encode with both encoders, XPCO, the gradient (algorithm 1)."""
        inputs = [self.feed.inputs(piece) for piece in batch.pieces]
        device = inputs[0].states.device
        owner, wordings = (torch.from_numpy(x).to(device) for x in (batch.sampled.owner, batch.sampled.wordings))
        keys = self.method.keys(inputs, owner, autocast)
        parts: dict[str, float] = {}

        def objective(found: Sequence[Tensor]) -> Tensor:
            own = self.module.phrases(gathered(found, [each.places for each in inputs]), owner)
            loss, right = self.method.loss(own, keys, wordings)
            parts.update({"loss": float(loss.detach()), "acc@1": float(right)})
            return loss * scale

        if self.config.optimizer.cached:
            cached_backward(self.module.contexts, inputs, objective, device, autocast)
        else:
            with autocast():
                found = [self.module.contexts(each) for each in inputs]
            objective(found).backward()  # type: ignore[no-untyped-call]
        return {"tokens": len(batch.sampled.ids), **parts}

    def stepped(self) -> None:
        """See `Remembering.stepped`: the momentum update (algorithm 1)."""
        self.method.stepped()

    def state(self) -> dict[str, Tensor]:
        """See `Remembering.state`: the momentum encoder and the queue."""
        return self.method.state()

    @torch.no_grad()
    def evaluate(self, autocast: Callable[[], Any]) -> dict[str, float]:
        """Held-out phrases as retrieval has them, each language pair by itself: acc@1 (eq. 5) in both directions.

        ``score`` and ``acc@1`` are the mean over language pairs of the mean of the directions; what reads as the mate
        is right. Of a data set that has a pair of languages both ways round, the second one's figures name it.
        """
        found: dict[str, float] = {}
        scores = []
        for number, contexts in enumerate(self.dev):
            vectors = self.held_out(number, autocast)  # (2, pairs, width)
            wordings = torch.from_numpy(contexts.wordings).view(2, -1)
            rights = [_right(vectors[side], vectors[1 - side], wordings[1 - side]) for side in (0, 1)]
            pair = contexts.name.split()[0]
            source, _, target = pair.rpartition("-")
            for name, right in zip((f"{source}>{target}", f"{target}>{source}"), rights, strict=True):
                found[f"{name} ({pair})" if name in found else name] = right
            scores.append(sum(rights) / 2)
        return {"score": float(np.mean(scores)), "acc@1": float(np.mean(scores)), **found}

    @torch.no_grad()
    def held_out(self, file: int, autocast: Callable[[], Any]) -> Tensor:
        """(2, pairs, width): one language pair's held-out phrases as retrieval has them, sources and targets."""
        made = []
        rows = [(len(self.train) + file, row) for row in range(self.dev[file].pairs)]
        for at in range(0, len(rows), DEV_PAIRS):
            some = sampled(self.feed.files, rows[at : at + DEV_PAIRS], 0, None)
            inputs = [self.feed.inputs(piece) for piece in self.feed.pieces(some)]
            owner = torch.from_numpy(some.owner).to(inputs[0].states.device)
            vectors = self.module(inputs, owner, self.config.model.keep_head, autocast)
            made.append(vectors.reshape(2, -1, vectors.shape[1]).cpu())
        return torch.cat(made, 1)

    def save(self, folder: Path) -> None:
        """A Hugging Face folder; with ``heads.safetensors`` where a projection is kept for retrieval."""
        save_encoder(self.backbone.encoder, self.tokenizer, self.config.model.base, folder)
        if self.module.head is not None and self.config.model.keep_head:
            arrays = {name: x.detach().float().cpu().numpy() for name, x in self.module.head.arrays().items()}
            save_arrays(folder / HEADS, arrays)


def _lacking(contexts: Contexts) -> str:
    return (
        f"{contexts.name}: {contexts.bare:,} of {2 * contexts.pairs:,} phrases have no example sentence; "
        "each stands for itself"
    )


def _right(queries: Tensor, candidates: Tensor, wordings: Tensor) -> float:
    """The share of the queries whose nearest candidate reads as their own does."""
    best = torch.cat([(some @ candidates.T).argmax(1) for some in torch.split(queries, 1_024)])
    return float((wordings[best] == wordings).float().mean())

"""CCPR training: Li et al. 2024, "Cross-lingual Contextualized Phrase Retrieval", section 5, with extensions.

A phrase vector is a projection of the states of its two ends (eq. 1). A contrastive loss aligns the phrase pairs of a
batch (eq. 2-4). A linear layer on the same two ends classifies spans as phrases or not (eq. 5, 6). The losses are
summed (eq. 7).

All extensions are optional. Cosines with a temperature replace inner products, and the segmenter has a bias for each
length in words. All spans of the batch's sentences are negatives, since an index contains them too; each costs one
addition. A negative with the wording of the positive is left out. Further contrastive losses compare whole sentences,
and phrases as means of their tokens. An anchor loss keeps sentence vectors near their initial values.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from phrasemate.encode.heads import load_heads, principal_axes
from phrasemate.errors import InputError, ModelError
from phrasemate.training import processes
from phrasemate.training.ccpr_data import (
    Alteration,
    CrossContextSampling,
    Example,
    KnownPairs,
    PairFile,
    Schedule,
    SpanBatch,
    Spans,
    collate,
)
from phrasemate.training.config import at_least, check_least, configured, expect, facts_of
from phrasemate.training.gradcache import chunked_backward
from phrasemate.training.hf_encoder import EMBEDDINGS, Backbone, Batch, Tokenizer, longest_text, save_encoder
from phrasemate.training.losses import balanced_bce, contrast, span_means
from phrasemate.training.trainer import LoopSettings


@dataclass(frozen=True)
class Settings:
    """Settings of the loss; the defaults are the paper's.

    Args:
        dim: Dimension of phrase vectors.
        lengths: Segmenter biases for spans of 1, 2 ... words; longer spans use the last one (1: one bias, the paper).
        normalise: Whether to compare by cosine; else by inner product.
        temperature: Divisor of the similarities.
        negatives: The "phrases" of the batch; these and other "linked" phrases of the sentences (the paper's code, see
            `collate`); or all "spans" of the sentences.
        same_wording: Whether a candidate with the wording of the positive is "negative" or "ignored".
        segment: Weight of the segmentation loss (beta, eq. 7).
        sentence: Weight of the contrastive loss on sentences.
        mean: Weight of the contrastive loss on phrases as means of their token states.
        anchor: Weight of 1 - cosine between a text's sentence vector and the one before training, against forgetting.
        context: Weight of the sentence in a phrase vector (see `Model.span_vectors`), 0: none; needs ``normalise``.
        plain_temperature: Temperature of the losses ``sentence`` and ``mean``.
        directions: "mean" or "sum" of the losses of both directions (eq. 4).
        balance: Whether phrases and other spans have equal weight (eq. 6) in the "batch" or in each "sentence".
    """

    dim: int = 128
    lengths: int = 1
    normalise: bool = False
    temperature: float = 1.0
    negatives: str = "phrases"
    same_wording: str = "negative"
    segment: float = 1.0
    sentence: float = 0.0
    mean: float = 0.0
    anchor: float = 0.0
    context: float = 0.0
    plain_temperature: float = 0.05
    directions: str = "mean"
    balance: str = "batch"

    def __post_init__(self) -> None:
        expect("[loss] directions", self.directions, ("mean", "sum"))
        expect("[loss] balance", self.balance, ("batch", "sentence"))
        expect("[loss] negatives", self.negatives, ("phrases", "linked", "spans"))
        expect("[loss] same_wording", self.same_wording, ("negative", "ignored"))
        for name in ("dim", "lengths"):
            at_least(f"[loss] {name}", getattr(self, name), 1)
        for name in ("segment", "sentence", "mean", "anchor", "context"):
            at_least(f"[loss] {name}", getattr(self, name), 0)
        if not (self.temperature > 0 and self.plain_temperature > 0):
            raise InputError("[loss] temperature and plain_temperature must be above 0")
        if self.context and not self.normalise:
            raise InputError(f"[loss] context {self.context} without normalise; set normalise = true")


class PhraseModel(nn.Module):
    """Encoder with two linear heads on span ends: the projection W [H_start ; H_end] + b (eq. 1) and the segmenter (eq.
    5).

    Each token is projected once as a start and once as an end; a span costs one addition.
    """

    def __init__(self, backbone: Backbone, dim: int, lengths: int = 1) -> None:
        super().__init__()
        self.backbone = backbone
        self.start = nn.Linear(backbone.width, dim)
        self.end = nn.Linear(backbone.width, dim, bias=False)
        self.segment_start = nn.Linear(backbone.width, 1, bias=False)
        self.segment_end = nn.Linear(backbone.width, 1, bias=False)
        self.segment_bias = nn.Parameter(torch.zeros(lengths))

    def projections(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Project all tokens as span starts and as span ends: (tokens, dim) each."""
        return self.start(states), self.end(states)

    def segments(self, states: Tensor, first: Tensor, last: Tensor, length: Tensor) -> Tensor:
        """Compute segmenter logits of spans, (spans,), from token rows and lengths in words, (spans,) each."""
        logits: Tensor = (self.segment_start(states)[first] + self.segment_end(states)[last])[:, 0]
        return logits + self.segment_bias[length.clamp(max=len(self.segment_bias)) - 1]

    def heads(self) -> dict[str, Tensor]:
        """Return views of the heads with the names and shapes of ``heads.safetensors``."""
        return {
            "start": self.start.weight.T,
            "end": self.end.weight.T,
            "bias": self.start.bias,
            "segment_start": self.segment_start.weight[0],
            "segment_end": self.segment_end.weight[0],
            "segment_bias": self.segment_bias,
        }

    @torch.no_grad()
    def load_heads(self, heads: Mapping[str, Tensor]) -> None:
        """Load the output of `heads`; if it has fewer segmenter biases, the last one is repeated."""
        for name, layer in self.heads().items():
            values = heads[name]
            if name == "segment_bias":
                values = values[torch.arange(len(layer)).clamp(max=len(values) - 1)]
            layer.copy_(values)

    @torch.no_grad()
    def start_from_components(self, ends: Tensor) -> None:
        """Initialise the projection by the principal components of ``ends``, phrases' end states (phrases, 2 x width).

        Unlike a random projection, they retrieve well before any training. Raises InputError if ``dim`` exceeds
        2 x width or the number of phrases minus 1.
        """
        dim, most = self.start.out_features, min(ends.shape[1], len(ends) - 1)
        if dim > most:
            raise InputError(
                f"[loss] dim: {dim}; head 'components' takes at most {ends.shape[1]}, twice the encoder's width, and "
                f"less than there are phrases to begin with, {len(ends)}; give a smaller dim, more text or another head"
            )
        wide = ends.double().numpy()
        kernel, bias = principal_axes(wide.mean(0), wide.T @ wide / len(wide), dim)
        scale = 1 / (float(np.sqrt((kernel**2).mean())) * np.sqrt(len(kernel)))  # as large as a random one
        width = self.backbone.width
        self.start.weight.copy_(torch.from_numpy(kernel[:width].T * scale))
        self.end.weight.copy_(torch.from_numpy(kernel[width:].T * scale))
        self.start.bias.copy_(torch.from_numpy(bias * scale))


Projections = tuple[Tensor, Tensor]  # of `PhraseModel.projections`


def span_vectors(projections: Projections, first: Tensor, last: Tensor) -> Tensor:
    """Compute (spans, dim) span vectors, not normalised, from projections and the rows of first and last tokens."""
    starts, ends = projections
    return starts[first] + ends[last]


class CCPR:
    """Objective of CCPR: losses of a batch from its token states."""

    def __init__(self, model: PhraseModel, settings: Settings) -> None:
        self.model, self.settings = model, settings

    def __call__(self, states: Tensor, batch: SpanBatch, before: Tensor | None = None) -> dict[str, Tensor]:
        """Compute "loss" (eq. 7), its parts, and the share of phrases whose mate is the nearest candidate.

        Args:
            states: (tokens, width) states of ``batch.tokens``.
            batch: Batch.
            before: Sentence vectors of the texts `SpanBatch.anchored`, by the encoder before training.

        Raises InputError for an anchor loss without ``before``.
        """
        settings, device = self.settings, states.device
        sides = [on_device(device, side) for side in (batch.source, batch.target)]
        pairs = torch.from_numpy(batch.pairs).to(device)
        projections = self.model.projections(states)
        contexts = self.contexts(projections, batch.tokens) if settings.context else None
        align, right = self.alignment(projections, sides, pairs, batch.known_pairs, contexts)
        parts = {"align": align, "acc@1": right}
        total = align
        if settings.segment:
            parts["segment"] = self.segmentation(states, batch, sides)
            total = total + settings.segment * parts["segment"]
        if settings.sentence:
            parts["sentence"] = self.sentences(states, batch)
            total = total + settings.sentence * parts["sentence"]
        if settings.mean:
            parts["mean"] = self.means(states, sides, pairs)
            total = total + settings.mean * parts["mean"]
        if settings.anchor:
            if before is None:
                raise InputError(f"[loss] anchor {settings.anchor}, and no vectors of the encoder before training")
            anchor_vectors = self.sentence_vectors(states, batch.tokens)[batch.anchored()]
            parts["anchor"] = (1 - (anchor_vectors * before).sum(1)).mean()
            total = total + settings.anchor * parts["anchor"]
        return {"loss": total, **parts}

    def segmentation(self, states: Tensor, batch: SpanBatch, sides: list[dict[str, Tensor]]) -> Tensor:
        """Compute the segmentation loss (eq. 5, 6) over the spans of both sides; terms without context do not count."""
        in_first_half = [side["text"] % (len(batch.tokens) // 2) < batch.sentences for side in sides]
        spans = [
            (side["first"][at], side["last"][at], side["length"][at])
            for side, at in zip(sides, in_first_half, strict=True)
        ]
        logits = torch.cat([self.model.segments(states, *span) for span in spans])
        phrases, texts = (
            torch.cat([side[name][at] for side, at in zip(sides, in_first_half, strict=True)])
            for name in ("phrase", "text")
        )
        return balanced_bce(logits, phrases, texts if self.settings.balance == "sentence" else None)

    def alignment(
        self,
        projections: Projections,
        sides: list[dict[str, Tensor]],
        pairs: Tensor,
        known_pairs: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
        contexts: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Compute the alignment loss (eq. 2-4) of both directions, and the share of phrases whose mate is nearest.

        ``known_pairs``: as in `SpanBatch`. ``contexts``: output of `contexts`, if there is a context weight.
        """
        losses = []
        for side, other_side in ((0, 1), (1, 0)):
            query, rival = sides[side], sides[other_side]
            queries = self.vectors(projections, query, pairs[:, side], contexts)
            rows, positives = self._candidates(pairs[:, other_side], rival)
            candidates = self.vectors(projections, rival, rows, contexts)
            ignore_mask = None
            if self.settings.same_wording == "ignored":
                ignore_mask = rival["wording"][rows] == rival["wording"][pairs[:, other_side]][:, None]
            if known_pairs is not None and len(known_pairs[side]):
                shape = len(pairs), int(rival["wording"].max()) + 1
                right_too = torch.zeros(shape, dtype=torch.bool, device=queries.device)
                right_too[tuple(torch.from_numpy(known_pairs[side].T).to(queries.device))] = True
                right_too = right_too[:, rival["wording"][rows]]
                ignore_mask = right_too if ignore_mask is None else ignore_mask | right_too
            if self.settings.negatives == "linked":
                extra = query["extra"].nonzero()[:, 0]
                candidates = torch.cat([candidates, self.vectors(projections, query, extra, contexts)])
                ignore_mask = None if ignore_mask is None else functional.pad(ignore_mask, (0, len(extra)))
            losses.append(contrast(queries, candidates, positives, self.settings.temperature, ignore_mask))
        total = losses[0].loss + losses[1].loss
        right = (losses[0].right + losses[1].right) / 2
        return total if self.settings.directions == "sum" else total / 2, right

    def _candidates(self, positives: Tensor, side: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Select the candidate spans of a side; returns their indices, and the places of the positives among them."""
        if self.settings.negatives == "spans":
            return torch.arange(len(side["first"]), device=positives.device), positives
        extra = side["extra"].nonzero()[:, 0]  # none unless "linked"
        distinct, places = torch.unique(torch.cat([positives, extra]), return_inverse=True)
        return distinct, places[: len(positives)]

    def vectors(
        self, projections: Projections, side: dict[str, Tensor], spans: Tensor | slice, contexts: Tensor | None
    ) -> Tensor:
        """Compute (spans, dim) vectors of spans of a side; ``contexts`` (texts, dim) if there is a context weight."""
        vectors = span_vectors(projections, side["first"][spans], side["last"][spans])
        if not self.settings.normalise:
            return vectors
        vectors = functional.normalize(vectors, dim=1)
        if contexts is None:
            return vectors
        return functional.normalize(vectors + self.settings.context * contexts[side["text"][spans]], dim=1)

    def contexts(self, projections: Projections, tokens: Batch) -> Tensor:
        """Average the unit vectors of all tokens of each text, (texts, dim), as in `Model.span_vectors`."""
        token_projections = functional.normalize(projections[0] + projections[1], dim=1)
        bounds = torch.from_numpy(tokens.bounds).to(token_projections.device)
        before, after = tokens.edges
        first = torch.minimum(bounds[:-1] + before, bounds[1:] - 1)
        return span_means(token_projections, first, torch.maximum(bounds[1:] - after - 1, first))

    def sentences(self, states: Tensor, batch: SpanBatch) -> Tensor:
        """Compute the contrastive loss on parallel sentences, in both directions."""
        left, right = self.sentence_vectors(states, batch.tokens).chunk(2)
        return self._mutual(left[: batch.mates], right[: batch.mates])

    def sentence_vectors(self, states: Tensor, tokens: Batch) -> Tensor:
        """Compute (texts, width) unit sentence vectors: the mean of all token states, or a decoder's last state."""
        bounds = torch.from_numpy(tokens.bounds).to(states.device)
        if self.model.backbone.causal:
            return functional.normalize(states[bounds[1:] - 1].float(), dim=1)
        return functional.normalize(span_means(states, bounds[:-1], bounds[1:] - 1), dim=1)

    def means(self, states: Tensor, sides: list[dict[str, Tensor]], pairs: Tensor) -> Tensor:
        """Compute the contrastive loss on phrases as means of their token states (as in XPR), in both directions."""
        ends = [(side["first"][at], side["last"][at]) for side, at in zip(sides, pairs.T, strict=True)]
        return self._mutual(*(functional.normalize(span_means(states, *end), dim=1) for end in ends))

    def _mutual(self, left: Tensor, right: Tensor) -> Tensor:
        labels, temperature = torch.arange(len(left), device=left.device), self.settings.plain_temperature
        return (contrast(left, right, labels, temperature).loss + contrast(right, left, labels, temperature).loss) / 2


def on_device(device: torch.device, spans: Spans) -> dict[str, Tensor]:
    """Move the columns of spans to a device, as tensors."""
    return {name: torch.from_numpy(column).to(device) for name, column in spans._asdict().items()}


HEADS = ("random", "components", "base")
DEV_SENTENCES = 256  # held-out sentence pairs encoded at once
DEV_PHRASES = 3  # phrase pairs of a held-out sentence pair
FIGURES = ("score", "acc@1", "sentences", "f1", "longest")


@dataclass(frozen=True)
class DataSettings:
    """Training data, and the composition of batches (see `Schedule`, `Alteration`, `collate`).

    Args:
        files: Patterns of files written by ``phrasemate pairs``.
        batch: Sentence pairs of a batch.
        phrases: Phrase pairs of a batch.
        positives: "same": the mate is in the parallel sentence (CCPR). "elsewhere": the mate is in another sentence
            pair, so that the context is not informative (CPR, the paper's baseline).
        terms: Files of phrase pairs without sentences (dictionaries); each batch gets ``term_batch`` of them.
        citations: Files of dictionary entries with sentences that are not parallel; each batch gets
            ``citation_batch`` of them (see `phrasemate.training.ccpr_data`).
        others: Pairs that begin or end with a function word, for each sentence pair (see `collate`).
        crossed, senses, half_alone: Additional examples of each kind in a batch (see `phrasemate.training.ccpr_data`);
            ``senses`` counts ambiguous wordings, with two examples each.
        contrasts: Tables of wordings with two translations of different meaning, for ``senses``.
        known: Tables of equivalent wordings, one pair a line, which are never negatives of each other.
    """

    files: tuple[str, ...]
    batch: int = 64
    phrases: int = 64
    max_words: int = 6
    max_tokens: int = 128
    positives: str = "same"
    evenness: float = 1.0
    neighbours: int = 1
    dev: int = 64
    lower: float = 0.0
    plain: float = 0.0
    apart: float = 0.0
    terms: tuple[str, ...] = ()
    term_batch: int = 0
    citations: tuple[str, ...] = ()
    citation_batch: int = 0
    others: int = 0
    crossed: int = 0
    senses: int = 0
    half_alone: int = 0
    contrasts: tuple[str, ...] = ()
    known: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModelSettings:
    """Encoder and its trained parts.

    Args:
        base: Hugging Face encoder, a folder or a name.
        frozen: Number of lowest layers that are not trained.
        embeddings: Whether the token table is "trained" or "frozen".
        head: Initialisation of the heads: "random", "components" (principal components of phrases' end states), or
            "base", the heads in the base folder, the ``model/`` of an earlier run.
        attention: Implementation of transformers, "eager" or "sdpa" (empty: sdpa on a graphics card if available).
    """

    base: str
    frozen: int = 0
    embeddings: str = "frozen"
    dropout: float = 0.2
    head: str = "random"
    attention: str = ""


@dataclass(frozen=True)
class OptimizerSettings:
    """Highest learning rates, and how a step is computed.

    ``segmenter``: 0 for the rate of ``heads``. ``chunk``: padded tokens computed at once. ``cached``: whether to use
    gradient caching (`phrasemate.training.gradcache`).
    """

    encoder: float = 5e-5
    heads: float = 1e-3
    segmenter: float = 0.0
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
        """Make the settings from the tables of a TOML file; raises InputError naming what is wrong."""
        config = configured(cls, tables)
        data = config.data
        expect("[data] positives", data.positives, ("same", "elsewhere"))
        expect("[model] head", config.model.head, HEADS)
        expect("[model] embeddings", config.model.embeddings, EMBEDDINGS)
        counts = ["evenness", "lower", "plain", "apart", "term_batch", "citation_batch", "others"]
        counts += ["crossed", "senses", "half_alone"]
        check_least(
            config,
            data={"batch": 1, "phrases": 1, "max_words": 1, "max_tokens": 3, "neighbours": 1, "dev": 1}
            | dict.fromkeys(counts, 0),
            model={"frozen": 0, "dropout": 0},
            optimizer={"encoder": 0, "heads": 0, "segmenter": 0, "chunk": 1},
        )
        for files, size in (("terms", "term_batch"), ("citations", "citation_batch")):
            if bool(getattr(data, files)) != bool(getattr(data, size)):
                values = f"{files} {getattr(data, files)}, {size} {getattr(data, size)}"
                raise InputError(f"[data] {values}; expected both or neither")
            if getattr(data, files) and data.positives == "elsewhere":
                raise InputError(f'[data] {files} with positives "elsewhere"; they are entries, expected "same"')
        return config


class Entries:
    """Dictionary entries from files of phrase pairs, ``size`` for each batch."""

    def __init__(self, folder: Path, patterns: Sequence[str], size: int, config: Config) -> None:
        self.files = [PairFile(path) for path in _matching(folder, patterns)] if patterns else []
        lengths, names = [len(file) for file in self.files], [str(file.path) for file in self.files]
        batches, evenness, seed = config.loop.steps * config.loop.accumulate, config.data.evenness, config.loop.seed
        self._schedule = None
        if patterns:
            self._schedule = Schedule(lengths, batches, size, evenness, seed=seed, names=names)

    def batch(self, number: int) -> list[Example]:
        """Return the entries of a batch."""
        rows = [] if self._schedule is None else self._schedule.train[number].tolist()
        return [self.files[file][row] for file, row in rows]


class CCPRTask:
    """Training task of CCPR (see `trainer.Task`). ``folder``: base of relative file names."""

    def __init__(self, config: Config, folder: Path, device: str = "cpu") -> None:
        self.config, data = config, config.data
        paths = _matching(folder, data.files)
        stems = Counter([*(path.stem for path in paths), *FIGURES])
        self.names = [str(path.relative_to(folder)) if stems[path.stem] > 1 else path.stem for path in paths]
        self.files = [PairFile(path) for path in paths]
        batches, size = config.loop.steps * config.loop.accumulate, data.batch
        lengths = [len(file) for file in self.files]
        self.schedule = Schedule(
            lengths, batches, size, data.evenness, data.neighbours, data.dev, config.loop.seed, [str(p) for p in paths]
        )
        self.terms = Entries(folder, data.terms, data.term_batch, config)
        self.citations = Entries(folder, data.citations, data.citation_batch, config)
        self.elsewhere = None
        if data.positives == "elsewhere" or data.crossed or data.senses or data.half_alone:
            contrasts = _matching(folder, data.contrasts) if data.senses else ()
            cache = folder / "occurrences.npz"
            self.elsewhere = CrossContextSampling(self.files, self.schedule.dev, cache, contrasts)
        known_pairs = KnownPairs(_matching(folder, data.known), folder / "known.npz") if data.known else None
        base = config.model.base
        self.tokenizer = Tokenizer(base, min(data.max_tokens, longest_text(base)))
        self._collate = partial(
            collate,
            tokenizer=self.tokenizer,
            alteration=Alteration(data.lower, data.plain, data.apart),
            max_words=data.max_words,
            most=data.phrases,
            others=data.others,
            known_pairs=known_pairs,
            linked=config.loss.negatives == "linked",
        )
        if not any(len(batch.pairs) for _, batch in self._held_out()):
            held_out = f"the {len(self.schedule.dev)} held-out sentence pairs"
            raise InputError(f"{folder}: no phrase pair in {held_out}; make the files again with phrasemate pairs")
        torch.manual_seed(config.loop.seed)
        backbone = Backbone(base, config.model.frozen, config.model.dropout, config.model.embeddings)
        # "": transformers picks, sdpa first.
        attention = config.model.attention or ("" if device == "cuda" else "eager")
        try:
            if attention:
                backbone.encoder.set_attn_implementation(attention)
        except (ValueError, ImportError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"[model] attention: {attention!r}; expected eager or sdpa ({reason})") from error
        self.module = PhraseModel(backbone, config.loss.dim, config.loss.lengths)
        self.backbone, self.objective = backbone, CCPR(self.module, config.loss)
        if config.model.head == "components":
            self.module.start_from_components(self._ends())
        elif config.model.head == "base":
            self.module.load_heads(_heads(Path(config.model.base), backbone.width, config.loss.dim))
        self.before = copy.deepcopy(backbone).eval().requires_grad_(False) if config.loss.anchor else None
        for part in (self.module, self.before):
            if part is not None:
                part.to(device)

    def facts(self) -> dict[str, Any]:
        """Settings, and the number of lines of each file, since batches depend on it."""
        counts = {name: len(file) for name, file in zip(self.names, self.files, strict=True)}
        entries = {file.path.name: len(file) for file in self.terms.files + self.citations.files}
        return {**facts_of("ccpr", self.config), "lines": counts | entries}

    def groups(self) -> list[tuple[list[nn.Parameter], float]]:
        """See `Task.groups`: parameters of the encoder, the projection and the segmenter."""
        rates, inner = self.config.optimizer, set(self.backbone.parameters())
        heads = [(name, value) for name, value in self.module.named_parameters() if value not in inner]
        projection = [value for name, value in heads if not name.startswith("segment")]
        segmenter = [value for name, value in heads if name.startswith("segment")]
        encoder = list(self.backbone.parameters())
        return [(encoder, rates.encoder), (projection, rates.heads), (segmenter, rates.segmenter or rates.heads)]

    def batch(self, number: int) -> SpanBatch:
        """See `Task.batch`."""
        draw = random.Random(self.config.loop.seed * 1_000_003 + number)
        data = self.config.data
        if self.elsewhere is not None and data.positives == "elsewhere":
            return self._collate(self.elsewhere.crossed(data.batch, draw), draw=draw)
        examples = [self.files[f][r] for f, r in self.schedule.train[number].tolist()]
        terms, apart, contrasts = self.terms.batch(number), self.citations.batch(number), set[tuple[str, str]]()
        if self.elsewhere is not None:
            senses, contrasts = self.elsewhere.senses(data.senses, draw)
            apart += [*self.elsewhere.crossed(data.crossed, draw), *senses]
            apart += self.elsewhere.half_alone(data.half_alone, draw)
        return self._collate(examples, draw=draw, terms=terms, elsewhere=apart, opposed=contrasts)

    def backward(self, batch: SpanBatch, autocast: Callable[[], Any], scale: float) -> dict[str, float]:
        """See `Task.backward`."""
        parts: dict[str, Tensor] = {}
        chunk, before = self.config.optimizer.chunk, None
        if self.before is not None:
            anchors = batch.tokens.subset(batch.anchored())
            with torch.no_grad(), autocast():
                before = self.objective.sentence_vectors(self.before.states(anchors, chunk), anchors)

        def objective(states: Tensor) -> Tensor:
            parts.update(self.objective(states, batch, before))
            return parts["loss"] * scale

        if self.config.optimizer.cached or processes.group().size > 1:
            chunked_backward(self.backbone, batch.tokens, chunk, objective, autocast)
        else:
            with autocast():
                states = self.backbone.states(batch.tokens, chunk)
            objective(states).backward()  # type: ignore[no-untyped-call]
        return {"tokens": len(batch.tokens.ids), **{name: float(value.detach()) for name, value in parts.items()}}

    @torch.no_grad()
    def evaluate(self, autocast: Callable[[], Any]) -> dict[str, float]:
        """Evaluate on held-out sentence pairs, unaltered; candidates are all spans of all target sentences.

        Metrics: ``acc@1`` of source phrases over all files; its mean over files, ``score``; ``sentences``, acc@1 of
        sentences; ``f1`` of the segmenter at the threshold 0.5. Without ``normalise``, phrases are compared by inner
        product, and ``longest`` is the greatest length of a target span's vector.
        """
        to_units: Callable[[Tensor], Tensor] = partial(functional.normalize, dim=1)
        if not self.config.loss.normalise:
            to_units = Tensor.contiguous
        queries, golds, spans, owners, sentences, hits = [], [], [], [], [], np.zeros(3)
        offset, model, objective = 0, self.module, self.objective
        for rows, batch in self._held_out():
            with autocast():
                states = self.backbone.states(batch.tokens, self.config.optimizer.chunk)
            on = [on_device(states.device, side) for side in (batch.source, batch.target)]
            projections = model.projections(states)
            contexts = objective.contexts(projections, batch.tokens) if self.config.loss.context else None
            vectors = [to_units(objective.vectors(projections, side, slice(None), contexts)) for side in on]
            queries.append(vectors[0][batch.pairs[:, 0]])
            golds.append(torch.from_numpy(batch.pairs[:, 1]) + offset)
            owners.append(rows[batch.source.text[batch.pairs[:, 0]], 0])
            spans.append(vectors[1])
            offset += len(vectors[1])
            sentences.append(objective.sentence_vectors(states, batch.tokens).chunk(2))
            for side in on:
                predictions = model.segments(states, side["first"], side["last"], side["length"]) > 0
                counts = (predictions & side["phrase"]).sum(), predictions.sum(), side["phrase"].sum()
                hits += [float(count) for count in counts]
        right = _right(torch.cat(queries), torch.cat(spans), torch.cat(golds).to(states.device)).cpu().numpy()
        owner = np.concatenate(owners)
        left, other_side = (torch.cat(side) for side in zip(*sentences, strict=True))
        labels = torch.arange(len(left), device=left.device)
        mate_shares = [_right(*sides, labels).float().mean() for sides in ((left, other_side), (other_side, left))]
        by_file = {name: float(right[owner == i].mean()) for i, name in enumerate(self.names) if (owner == i).any()}
        longest = {} if self.config.loss.normalise else {"longest": float(torch.cat(spans).norm(dim=1).max())}
        return {
            **longest,
            "score": float(np.mean(list(by_file.values()))),
            "acc@1": float(right.mean()),
            "sentences": float((mate_shares[0] + mate_shares[1]) / 2),
            "f1": float(2 * hits[0] / max(hits[1] + hits[2], 1)),
            **by_file,
        }

    def _held_out(self) -> Iterator[tuple[NDArray[np.int64], SpanBatch]]:
        """Yield blocks of held-out rows (file, row) with their batches: unaltered, up to `DEV_PHRASES` phrase pairs
        each.
        """
        rows, draw, most = self.schedule.dev, random.Random(0), self.config.data.max_words
        for at in range(0, len(rows), DEV_SENTENCES):
            row_block = rows[at : at + DEV_SENTENCES]
            examples = [self.files[f][r] for f, r in row_block.tolist()]
            yield row_block, collate(examples, self.tokenizer, Alteration(), most, DEV_PHRASES, draw)

    def save(self, folder: Path) -> None:
        """See `Task.save`: a Hugging Face folder with ``heads.safetensors``."""
        save_encoder(self.backbone.encoder, self.tokenizer, self.config.model.base, folder, self.module.heads())

    @torch.no_grad()
    def _ends(self) -> Tensor:
        """Encode the end states (phrases, 2 x width) of phrases in 40 sentence pairs of each file, both sides."""
        rows = [(f, r) for f, file in enumerate(self.files) for r in range(0, len(file), max(len(file) // 40, 1))]
        self.module.eval()
        ends = []
        for at in range(0, len(rows), DEV_SENTENCES):
            examples = [self.files[f][r] for f, r in rows[at : at + DEV_SENTENCES]]
            batch = self._collate(examples, draw=random.Random(0))
            states = self.backbone.states(batch.tokens, self.config.optimizer.chunk)
            for side in (batch.source, batch.target):
                ends.append(torch.cat([states[side.first[side.phrase]], states[side.last[side.phrase]]], 1))
        return torch.cat(ends)


def _heads(folder: Path, width: int, dim: int) -> dict[str, Tensor]:
    path = folder / "heads.safetensors"
    if not path.is_file():
        raise InputError(f"{path}: not found; head 'base' takes the model/ of an earlier run as its base")
    arrays = load_heads(path, width, ModelError, "take the model/ of an earlier run as the base")
    tensors = {name: torch.from_numpy(np.array(value)) for name, value in arrays.items()}
    if tensors["bias"].shape != (dim,) or "segment_start" not in tensors:
        raise InputError(f"{path}: {len(tensors['bias'])} dimensions; expected {dim}, and a segmenter")
    return tensors


def _matching(folder: Path, names: Sequence[str]) -> list[Path]:
    try:
        paths = sorted({path for name in names for path in folder.glob(name)})
    except (ValueError, NotImplementedError) as error:
        raise InputError(f"{', '.join(names)}: {error}; expected patterns within {folder}, such as *.jsonl") from error
    if not paths:
        raise InputError(f"{folder}: nothing matches {', '.join(names)}; make it with phrasemate pairs")
    return paths


def _right(queries: Tensor, candidates: Tensor, positive: Tensor) -> Tensor:
    """Mark the queries whose positive is nearer than every other candidate, (queries,) bool; computed in blocks."""
    rights = []
    for query_block, places in zip(torch.split(queries, 512), torch.split(positive, 512), strict=True):
        scores = query_block @ candidates.T
        rights.append((scores >= scores.gather(1, places[:, None]) - 1e-6).sum(1) == 1)
    return torch.cat(rights)

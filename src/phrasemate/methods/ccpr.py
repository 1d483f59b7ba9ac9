"""CCPR: Li et al. 2024, "Cross-lingual Contextualized Phrase Retrieval", section 5; and what we add to it.

A phrase is its two ends, projected (eq. 1); phrase pairs of a batch are drawn together and all else apart (eq. 2-4);
from the same two ends a linear layer tells phrases from other spans (eq. 5, 6); the losses are summed (eq. 7).
Ours, each an option: a bias of the segmenter for each length in words; cosines with a temperature; every span of the
batch's sentences as a negative, not the other phrases alone (that is what the phrase has to beat in an index, and a
span costs one addition); spans with the positive's own wording left out of them; a contrast of whole sentences and one
of the means of phrases; an anchor that keeps sentence vectors where they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from phrasemate.encode.project import principal_axes
from phrasemate.errors import InputError
from phrasemate.methods.backbone import Backbone, Batch
from phrasemate.methods.config import at_least, expect
from phrasemate.methods.losses import balanced_bce, contrast, span_means
from phrasemate.methods.spans import SpanBatch, Spans


@dataclass(frozen=True)
class Settings:
    """What the loss is made of; the defaults are the paper's.

    ``lengths``: spans of 1, 2 ... so many words have a bias of their own in the segmenter, longer ones share the last
    (1: all share one, as in the paper). ``normalise`` and ``temperature``: cosines divided by it. ``negatives``:
    "phrases" of the batch, or all "spans" of its sentences. ``same_wording``: whether a candidate that reads as the
    positive does is "negative" or "ignored".
    ``segment``: weight of the segmentation loss (beta, eq. 7); ``sentence`` and ``mean``: weights of the contrasts of
    sentences and of phrases as means of their token states, both with ``plain_temperature``. ``anchor``: weight of
    1 - cosine between a text's sentence vector and the one that the encoder had before training: what the training text
    has little of is forgotten less.
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
    plain_temperature: float = 0.05

    def __post_init__(self) -> None:
        expect("[loss] negatives", self.negatives, ("phrases", "spans"))
        expect("[loss] same_wording", self.same_wording, ("negative", "ignored"))
        for name, least in (("dim", 1), ("lengths", 1), ("segment", 0), ("sentence", 0), ("mean", 0), ("anchor", 0)):
            at_least(f"[loss] {name}", getattr(self, name), least)
        if not (self.temperature > 0 and self.plain_temperature > 0):
            raise InputError("[loss] temperature and plain_temperature must be above 0")


class PhraseModel(nn.Module):
    """The encoder and its two linear layers: W [H_start ; H_end] + b (eq. 1) and the segmenter (eq. 5).

    Both take the two ends apart, so a token is projected once and a span is one addition.
    """

    def __init__(self, backbone: Backbone, dim: int, lengths: int = 1) -> None:
        super().__init__()
        self.backbone = backbone
        self.start = nn.Linear(backbone.width, dim)
        self.end = nn.Linear(backbone.width, dim, bias=False)
        self.segment_start = nn.Linear(backbone.width, 1, bias=False)
        self.segment_end = nn.Linear(backbone.width, 1, bias=False)
        self.segment_bias = nn.Parameter(torch.zeros(lengths))

    def phrases(self, states: Tensor, first: Tensor, last: Tensor) -> Tensor:
        """(spans, dim) vectors of the spans of token rows ``first`` to ``last``, not normalised."""
        vectors: Tensor = self.start(states)[first] + self.end(states)[last]
        return vectors

    def segments(self, states: Tensor, first: Tensor, last: Tensor, length: Tensor) -> Tensor:
        """(spans,) logits: is the span, of ``length`` words, a phrase?"""
        logits: Tensor = (self.segment_start(states)[first] + self.segment_end(states)[last])[:, 0]
        return logits + self.segment_bias[length.clamp(max=len(self.segment_bias)) - 1]

    def heads(self) -> dict[str, Tensor]:
        """Views of the linear layers, named and shaped as the model folder keeps them (``heads.safetensors``)."""
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
        """Take over what `heads` gave; of a segmenter with fewer lengths, the last bias for those that it lacks."""
        for name, own in self.heads().items():
            given = heads[name]
            if name == "segment_bias":
                given = given[torch.arange(len(own)).clamp(max=len(given) - 1)]
            own.copy_(given)

    @torch.no_grad()
    def start_from_components(self, ends: Tensor) -> None:
        """Begin the projection with the principal components of phrases' two ends, (phrases, 2 x width).

        They retrieve well before any training; a random projection has to be learnt first. Raises InputError for more
        dimensions than two ends have, or than so many phrases tell apart.
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


class Losses(NamedTuple):
    """``total`` (eq. 7) and its parts, and how often a phrase's mate beats every other candidate."""

    total: Tensor
    parts: dict[str, Tensor]


class CCPR:
    """The objective: token states of a batch -> losses."""

    def __init__(self, model: PhraseModel, settings: Settings) -> None:
        self.model, self.settings = model, settings

    def __call__(self, states: Tensor, batch: SpanBatch, before: Tensor | None = None) -> Losses:
        """``states`` (tokens, width) of ``batch.tokens``, with a gradient or not; ``before``: those of the encoder
        before training. Raises InputError where there is an anchor and they are not given.
        """
        settings, device = self.settings, states.device
        sides = [on_device(device, side) for side in (batch.source, batch.target)]
        pairs = torch.from_numpy(batch.pairs).to(device)
        align, right = self.alignment(states, sides, pairs)
        parts = {"align": align, "acc@1": right}
        total = align
        if settings.segment:
            parts["segment"] = self.segmentation(states, batch, sides)
            total = total + settings.segment * parts["segment"]
        if settings.sentence:
            parts["sentence"] = self.sentences(states, batch.tokens)
            total = total + settings.sentence * parts["sentence"]
        if settings.mean:
            parts["mean"] = self.means(states, sides, pairs)
            total = total + settings.mean * parts["mean"]
        if settings.anchor:
            if before is None:
                raise InputError(f"[loss] anchor {settings.anchor}, and no states of the encoder before training")
            cosines = (sentence_vectors(states, batch.tokens) * sentence_vectors(before, batch.tokens)).sum(1)
            parts["anchor"] = (1 - cosines).mean()
            total = total + settings.anchor * parts["anchor"]
        return Losses(total, {"loss": total, **parts})

    def segmentation(self, states: Tensor, batch: SpanBatch, sides: list[dict[str, Tensor]]) -> Tensor:
        """Eq. 5 and 6, over the spans of both sides; a bare term is no example of where phrases begin and end."""
        counted = [side["text"] % (len(batch.tokens) // 2) < batch.sentences for side in sides]
        spans = [
            (side["first"][at], side["last"][at], side["length"][at]) for side, at in zip(sides, counted, strict=True)
        ]
        logits = torch.cat([self.model.segments(states, *each) for each in spans])
        return balanced_bce(logits, torch.cat([side["phrase"][at] for side, at in zip(sides, counted, strict=True)]))

    def alignment(self, states: Tensor, sides: list[dict[str, Tensor]], pairs: Tensor) -> tuple[Tensor, Tensor]:
        """Eq. 2-4: both directions, averaged; and the share that is right."""
        found = []
        for side, other in ((0, 1), (1, 0)):
            own, rival = sides[side], sides[other]
            queries = self._vectors(states, own["first"][pairs[:, side]], own["last"][pairs[:, side]])
            chosen, positives = self._candidates(pairs[:, other], len(rival["first"]))
            candidates = self._vectors(states, rival["first"][chosen], rival["last"][chosen])
            ignored = None
            if self.settings.same_wording == "ignored":
                ignored = rival["wording"][chosen] == rival["wording"][pairs[:, other]][:, None]
            found.append(contrast(queries, candidates, positives, self.settings.temperature, ignored))
        return (found[0].loss + found[1].loss) / 2, (found[0].right + found[1].right) / 2

    def _candidates(self, positives: Tensor, spans: int) -> tuple[Tensor, Tensor]:
        """Which spans are candidates, and which of these are the positives."""
        if self.settings.negatives == "spans":
            return torch.arange(spans, device=positives.device), positives
        chosen, places = torch.unique(positives, return_inverse=True)
        return chosen, places

    def _vectors(self, states: Tensor, first: Tensor, last: Tensor) -> Tensor:
        vectors = self.model.phrases(states, first, last)
        return functional.normalize(vectors, dim=1) if self.settings.normalise else vectors

    def sentences(self, states: Tensor, tokens: Batch) -> Tensor:
        """Contrast of whole sentences, as the mean of all their token states, both directions."""
        return self._mutual(*sentence_vectors(states, tokens).chunk(2))

    def means(self, states: Tensor, sides: list[dict[str, Tensor]], pairs: Tensor) -> Tensor:
        """Contrast of phrases as means of their token states (how XPR represents them), both directions."""
        ends = [(side["first"][at], side["last"][at]) for side, at in zip(sides, pairs.T, strict=True)]
        return self._mutual(*(functional.normalize(span_means(states, *each), dim=1) for each in ends))

    def _mutual(self, left: Tensor, right: Tensor) -> Tensor:
        own, temperature = torch.arange(len(left), device=left.device), self.settings.plain_temperature
        return (contrast(left, right, own, temperature).loss + contrast(right, left, own, temperature).loss) / 2


def sentence_vectors(states: Tensor, tokens: Batch) -> Tensor:
    """(texts, width) unit vectors of the texts of a batch: the mean of all their token states."""
    bounds = torch.from_numpy(tokens.bounds).to(states.device)
    return functional.normalize(span_means(states, bounds[:-1], bounds[1:] - 1), dim=1)


def on_device(device: torch.device, spans: Spans) -> dict[str, Tensor]:
    """The columns of the spans as tensors."""
    return {name: torch.from_numpy(column).to(device) for name, column in spans._asdict().items()}

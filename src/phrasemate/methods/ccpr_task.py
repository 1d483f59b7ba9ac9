"""CCPR as something to train: its configuration, its data, its held-out figures, its model folder."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from phrasemate.encode.heads import load_heads
from phrasemate.errors import InputError, ModelError
from phrasemate.methods.backbone import Backbone, Tokenizer, chunked_backward, longest_text, save_encoder
from phrasemate.methods.ccpr import CCPR, PhraseModel, Settings, on_device, sentence_vectors
from phrasemate.methods.config import at_least, configured, expect, facts_of
from phrasemate.methods.elsewhere import Elsewhere
from phrasemate.methods.examples import Alteration, Example, PairFile, Schedule
from phrasemate.methods.loop import LoopSettings
from phrasemate.methods.spans import SpanBatch, collate
from phrasemate.utils.storage import save_arrays

HEADS = ("random", "components", "base")
DEV_SENTENCES = 256  # encoded at once
DEV_PHRASES = 3  # of a held-out sentence pair
FIGURES = ("score", "acc@1", "sentences", "f1")


@dataclass(frozen=True)
class DataSettings:
    """Where phrase pairs come from and how batches are drawn (see `Schedule`, `Alteration`, `collate`).

    ``positives``: "same": a phrase and its mate in the parallel sentence (CCPR); "elsewhere": a phrase and its mate in
    another sentence pair, so the context decides nothing (the paper's baseline CPR). ``terms``: files of phrase pairs
    without sentences (dictionaries), of which each batch gets ``term_batch``.
    ``others``: pairs with a function word at an end, of each sentence pair (see `collate`).
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
    others: int = 0


@dataclass(frozen=True)
class ModelSettings:
    """``base``: a Hugging Face encoder, a folder or a name; ``head``: begin with "random", "components" (of phrases'
    two ends), or "base": the heads that lie in the folder, an earlier run's ``model/``.
    """

    base: str
    frozen: int = 0
    dropout: float = 0.2
    head: str = "random"
    attention: str = ""


@dataclass(frozen=True)
class OptimizerSettings:
    """Highest learning rates (``segmenter``: 0 for that of ``heads``); ``chunk``: padded tokens computed at once;
    ``cached``: cached gradients.
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
        """From the tables of a TOML file; raises InputError naming what is wrong."""
        made = configured(cls, tables)
        data, optimizer = made.data, made.optimizer
        expect("[data] positives", data.positives, ("same", "elsewhere"))
        expect("[model] head", made.model.head, HEADS)
        for table, settings, least in (
            ("data", data, {"batch": 1, "phrases": 1, "max_words": 1, "max_tokens": 3, "neighbours": 1, "dev": 1}),
            ("data", data, {"evenness": 0, "lower": 0, "plain": 0, "apart": 0, "term_batch": 0, "others": 0}),
            ("model", made.model, {"frozen": 0, "dropout": 0}),
            ("optimizer", optimizer, {"encoder": 0, "heads": 0, "segmenter": 0, "chunk": 1}),
        ):
            for name, value in least.items():
                at_least(f"[{table}] {name}", getattr(settings, name), value)
        if bool(data.terms) != bool(data.term_batch):
            raise InputError(f"[data] terms {data.terms}, term_batch {data.term_batch}; expected both or neither")
        if data.terms and data.positives == "elsewhere":
            raise InputError('[data] terms with positives "elsewhere"; terms have no sentence, expected "same"')
        return made

    def facts(self) -> dict[str, Any]:
        """All settings as plain data, but those of the loop; of the base only its name, wherever it lies."""
        return facts_of("ccpr", self)


class CCPRTask:
    """See `phrasemate.train.Task`. ``folder``: what the names of files are relative to."""

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
        self.terms: list[PairFile] = []
        if data.term_batch:
            self.terms = [PairFile(path) for path in _matching(folder, data.terms)]
            self.term_schedule = Schedule(
                [len(file) for file in self.terms],
                batches,
                data.term_batch,
                data.evenness,
                neighbours=1,
                dev=0,
                seed=config.loop.seed,
                names=[str(file.path) for file in self.terms],
            )
        self.elsewhere = None
        if data.positives == "elsewhere":
            self.elsewhere = Elsewhere(self.files, self.schedule.dev, config.loop.seed)
        base = config.model.base
        self.tokenizer = Tokenizer(base, min(data.max_tokens, longest_text(base)))
        if not any(len(batch.pairs) for _, batch in self._held_out()):
            held = f"the {len(self.schedule.dev)} held-out sentence pairs"
            raise InputError(f"{folder}: no phrase pair in {held}; make the files again with phrasemate pairs")
        torch.manual_seed(config.loop.seed)
        backbone = Backbone(base, config.model.frozen, config.model.dropout)
        attention = config.model.attention or ("sdpa" if device == "cuda" else "eager")
        try:
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
        """The settings, and how many lines the files have: with more, batches would be others."""
        counts = {name: len(file) for name, file in zip(self.names, self.files, strict=True)}
        return {**self.config.facts(), "lines": counts | {file.path.name: len(file) for file in self.terms}}

    def groups(self) -> list[tuple[list[nn.Parameter], float]]:
        """The encoder's parameters, those of the projection and those of the segmenter."""
        rates, inner = self.config.optimizer, set(self.backbone.parameters())
        heads = [(name, value) for name, value in self.module.named_parameters() if value not in inner]
        projection = [value for name, value in heads if not name.startswith("segment")]
        segmenter = [value for name, value in heads if name.startswith("segment")]
        encoder = list(self.backbone.parameters())
        return [(encoder, rates.encoder), (projection, rates.heads), (segmenter, rates.segmenter or rates.heads)]

    def batch(self, number: int) -> SpanBatch:
        """See `Task.batch`."""
        draw = random.Random(self.config.loop.seed * 1_000_003 + number)
        if self.elsewhere is not None:
            return self._collated(self.elsewhere.examples(self.config.data.batch, draw), draw)
        examples = [self.files[f][r] for f, r in self.schedule.train[number].tolist()]
        terms = [self.terms[f][r] for f, r in self.term_schedule.train[number].tolist()] if self.terms else []
        return self._collated(examples, draw, terms)

    def _collated(self, examples: Sequence[Example], draw: random.Random, terms: Sequence[Example] = ()) -> SpanBatch:
        data = self.config.data
        alteration = Alteration(data.lower, data.plain, data.apart)
        return collate(examples, self.tokenizer, alteration, data.max_words, data.phrases, draw, terms, data.others)

    def backward(self, batch: SpanBatch, autocast: Callable[[], Any], scale: float) -> dict[str, float]:
        """See `Task.backward`."""
        parts: dict[str, Tensor] = {}
        chunk, before = self.config.optimizer.chunk, None
        if self.before is not None:
            with torch.no_grad(), autocast():
                before = self.before.states(batch.tokens, chunk)

        def objective(states: Tensor) -> Tensor:
            losses = self.objective(states, batch, before)
            parts.update(losses.parts)
            return losses.total * scale

        if self.config.optimizer.cached:
            chunked_backward(self.backbone, batch.tokens, chunk, objective, autocast)
        else:
            with autocast():
                states = self.backbone.states(batch.tokens, chunk)
            objective(states).backward()  # type: ignore[no-untyped-call]
        return {"tokens": len(batch.tokens.ids), **{name: float(value.detach()) for name, value in parts.items()}}

    @torch.no_grad()
    def evaluate(self, autocast: Callable[[], Any]) -> dict[str, float]:
        """Held-out sentence pairs, as they are: phrases against every span of all target sentences of all files.

        ``acc@1`` other language to English over all phrases and its mean over files (``score``); sentences' acc@1;
        ``f1``: the segmenter at 0.5.
        """
        queries, golds, spans, owners, sentences, hits = [], [], [], [], [], np.zeros(3)
        offset = 0
        for rows, batch in self._held_out():
            with autocast():
                states = self.backbone.states(batch.tokens, self.config.optimizer.chunk)
            on = [on_device(states.device, side) for side in (batch.source, batch.target)]
            model = self.module
            vectors = [functional.normalize(model.phrases(states, side["first"], side["last"]), dim=1) for side in on]
            queries.append(vectors[0][batch.pairs[:, 0]])
            golds.append(torch.from_numpy(batch.pairs[:, 1]) + offset)
            owners.append(rows[batch.source.text[batch.pairs[:, 0]], 0])
            spans.append(vectors[1])
            offset += len(vectors[1])
            sentences.append(sentence_vectors(states, batch.tokens).chunk(2))
            for side in on:
                found = model.segments(states, side["first"], side["last"], side["length"]) > 0
                hits += [float(x) for x in ((found & side["phrase"]).sum(), found.sum(), side["phrase"].sum())]
        right = _right(torch.cat(queries), torch.cat(spans), torch.cat(golds).to(states.device)).cpu().numpy()
        owner = np.concatenate(owners)
        left, other = (torch.cat(side) for side in zip(*sentences, strict=True))
        own = torch.arange(len(left), device=left.device)
        by_file = {name: float(right[owner == i].mean()) for i, name in enumerate(self.names) if (owner == i).any()}
        return {
            "score": float(np.mean(list(by_file.values()))),
            "acc@1": float(right.mean()),
            "sentences": float((_right(left, other, own).float().mean() + _right(other, left, own).float().mean()) / 2),
            "f1": float(2 * hits[0] / max(hits[1] + hits[2], 1)),
            **by_file,
        }

    def _held_out(self) -> Iterator[tuple[NDArray[np.int64], SpanBatch]]:
        """The held-out rows (file, row), some at a time, as they are, each with up to so many phrase pairs."""
        rows, draw, most = self.schedule.dev, random.Random(0), self.config.data.max_words
        for at in range(0, len(rows), DEV_SENTENCES):
            some = rows[at : at + DEV_SENTENCES]
            examples = [self.files[f][r] for f, r in some.tolist()]
            yield some, collate(examples, self.tokenizer, Alteration(), most, DEV_PHRASES, draw)

    def save(self, folder: Path) -> None:
        """A Hugging Face folder with ``heads.safetensors``."""
        save_encoder(self.backbone.encoder, self.tokenizer, self.config.model.base, folder)
        heads = {name: value.detach().float().cpu().numpy() for name, value in self.module.heads().items()}
        save_arrays(folder / "heads.safetensors", heads)

    @torch.no_grad()
    def _ends(self) -> Tensor:
        """(phrases, 2 x width): the two ends of phrases of 40 sentence pairs of each file, both sides."""
        rows = [(f, r) for f, file in enumerate(self.files) for r in range(0, len(file), max(len(file) // 40, 1))]
        self.module.eval()
        found = []
        for at in range(0, len(rows), DEV_SENTENCES):
            batch = self._collated([self.files[f][r] for f, r in rows[at : at + DEV_SENTENCES]], random.Random(0))
            states = self.backbone.states(batch.tokens, self.config.optimizer.chunk)
            for side in (batch.source, batch.target):
                found.append(torch.cat([states[side.first[side.phrase]], states[side.last[side.phrase]]], 1))
        return torch.cat(found)


def _heads(folder: Path, width: int, dim: int) -> dict[str, Tensor]:
    path = folder / "heads.safetensors"
    if not path.is_file():
        raise InputError(f"{path}: not found; head 'base' takes the model/ of an earlier run as its base")
    found = load_heads(path, width, ModelError, "take the model/ of an earlier run as the base")
    made = {name: torch.from_numpy(np.array(value)) for name, value in found.items()}
    if made["bias"].shape != (dim,) or "segment_start" not in made:
        raise InputError(f"{path}: {len(made['bias'])} dimensions; expected {dim}, and a segmenter")
    return made


def _matching(folder: Path, names: Sequence[str]) -> list[Path]:
    try:
        paths = sorted({path for name in names for path in folder.glob(name)})
    except (ValueError, NotImplementedError) as error:
        raise InputError(f"{', '.join(names)}: {error}; expected patterns within {folder}, such as *.jsonl") from error
    if not paths:
        raise InputError(f"{folder}: nothing matches {', '.join(names)}; make it with phrasemate pairs")
    return paths


def _right(queries: Tensor, candidates: Tensor, own: Tensor) -> Tensor:
    """(queries,) bool: no candidate but the query's own is as near as it; in blocks."""
    blocks = zip(torch.split(queries, 512), torch.split(own, 512), strict=True)
    return torch.cat([_beats(some @ candidates.T, places) for some, places in blocks])


def _beats(scores: Tensor, own: Tensor) -> Tensor:
    best: Tensor = (scores >= scores.gather(1, own[:, None]) - 1e-6).sum(1) == 1
    return best

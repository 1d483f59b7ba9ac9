"""Train the re-ranker: the network of `phrasemate.reranker` in torch, for padded batches.

`phrasemate.reranker` has the equations, and gives the same scores. All arrays of the network are trained. Each sentence
of a pair is a query. Its candidates are its translation and the sentences of the other language that the encoder ranks
highest. The loss is the cross-entropy of a softmax over this list. Sentences of both languages are queries, and each
step mixes language pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from phrasemate.align import ParallelText
from phrasemate.encode import Model
from phrasemate.encode.pooling import Head
from phrasemate.errors import InputError
from phrasemate.rank import numbered
from phrasemate.reranker import FIRST, NEIGHBOURS, Arrays, Network, save_reranker
from phrasemate.training.bicla import pad
from phrasemate.training.config import check_least, configured, facts_of
from phrasemate.training.frozen_states import SentenceStates, sentence_states
from phrasemate.training.trainer import LoopSettings, rows_in_turn
from phrasemate.types import Progress
from phrasemate.utils.arrays import Floats, Rows
from phrasemate.utils.knn import argsort_desc, blocks, nearest, topk
from phrasemate.utils.margin import csls_penalties


class Tokens(NamedTuple):
    """Token states of sentences, ``states`` (..., T, width), and ``mask`` (..., T): 1 for a token, 0 for padding."""

    states: Tensor
    mask: Tensor


class Reranker(nn.Module):
    """Re-ranker that scores a sentence with each of several candidates.

    Args:
        start: Network with the initial weights.
        dropout: Dropout rate of the projected states in training.
    """

    def __init__(self, start: Network, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.weights = nn.ParameterDict(
            {name: nn.Parameter(torch.tensor(array)) for name, array in start.arrays.items()}
        )

    def network(self) -> Network:
        """Return the network with the current weights, for use without torch."""
        arrays: Arrays = {name: np.array(value.detach().float().cpu().numpy()) for name, value in self.weights.items()}
        return Network(arrays)

    def forward(self, first: Tokens, second: Tokens, cosines: Tensor) -> Tensor:
        """Compute scores (B, K) of B sentences (B, I, width), each with K candidates (B, K, J, width).

        ``cosines`` (B, K) are those of the sentence vectors.
        """
        w = self.weights
        x, y = self.projected(first)[:, None], self.projected(second)  # (B, 1, I, d), (B, K, J, d)
        mine, right_mask = first.mask[:, None], second.mask  # (B, 1, I), (B, K, J)
        forth = self._crossed(x, y, mine, right_mask)
        back = self._crossed(y, x, right_mask, mine)
        match = (forth[0] + back[0]) / 2  # (B, K)
        bilinear = w["bilinear"] + w["bilinear"].T
        score_sum = torch.tanh(((forth[1] @ bilinear) * back[1]).sum(-1) / 2 + w["bilinear_bias"])  # eq. 5
        scores: Tensor = (torch.stack([cosines, match, score_sum], -1) * w["mix"]).sum(-1)  # @ would round to bf16
        return scores

    def projected(self, tokens: Tokens) -> Tensor:
        """Project states to unit vectors (..., T, d), 0 for padding; only tokens are computed."""
        mask = tokens.mask.bool()
        states: Tensor = self.dropout(tokens.states[mask] @ self.weights["project"] + self.weights["project_bias"])
        placement: Tensor = states.new_zeros(*mask.shape, states.shape[-1])
        placement[mask] = functional.normalize(states, dim=-1)
        return placement

    def _crossed(self, queries: Tensor, other: Tensor, mine: Tensor, theirs: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the weighted mean match of one side's tokens, (B, K), and its unit vector e, (B, K, d).

        ``mine`` and ``theirs`` are the masks of ``queries`` and ``other``.
        """
        w = self.weights
        m = torch.tanh(queries @ w["match"] @ other.transpose(-1, -2) + w["match_bias"])  # (B, K, I, J); eq. 1
        logits = (m * w["sharpness"].exp()).masked_fill(theirs[..., None, :] == 0, -torch.inf)
        alpha = logits.softmax(-1)  # eq. 2
        hbar = alpha @ other  # (B, K, I, d); eq. 3
        weights = queries @ w["weigh"] + torch.zeros_like(hbar[..., 0])
        weights = weights.masked_fill(mine == 0, -torch.inf).softmax(-1)
        match = (weights * (queries * hbar).sum(-1)).sum(-1)
        gamma = torch.tanh(hbar @ w["attend"] + w["attend_bias"]) * mine  # (B, K, I); eq. 4
        return match, functional.normalize((gamma[..., None] * hbar).sum(-2), dim=-1)


def listwise_loss(scores: Tensor, ignored: Tensor) -> Tensor:
    """Compute the mean of -log softmax of the first column of ``scores`` (B, K).

    ``ignored`` (B, K) marks candidates that are not negatives.
    """
    return -scores.masked_fill(ignored, -torch.inf).log_softmax(-1)[:, 0].mean()


SCORED = 32  # lists that are scored at once in the evaluation


@dataclass(frozen=True)
class DataSettings:
    """Settings of the training data, the table [data].

    Args:
        pairs: Language pairs; each has a file DATA/PAIR/train.tsv. A dev.tsv beside it is a held-out set.
        batch: Lists per step.
        candidates: Candidates per list: the translation, and sentences that the encoder ranks high.
        tokens: Maximum number of tokens of a sentence; further tokens are cut off.
        dev: Queries from each side of a dev.tsv (0: all).
    """

    pairs: tuple[str, ...]
    batch: int = 16
    candidates: int = 10
    tokens: int = 64
    dev: int = 0


@dataclass(frozen=True)
class ModelSettings:
    """Settings of the network, the table [model].

    Args:
        dim: Dimension of the projected states; 0 for that of the encoder's linear head.
        dropout: Dropout rate of the projected states.
    """

    dim: int = 0
    dropout: float = 0.1


@dataclass(frozen=True)
class OptimizerSettings:
    """Learning rates of AdamW: ``rate`` for matrices and vectors, ``mix_rate`` for scalars and mix weights."""

    rate: float = 3e-4
    mix_rate: float = 3e-3


@dataclass(frozen=True)
class Config:
    """Tables of the configuration file."""

    data: DataSettings
    model: ModelSettings
    optimizer: OptimizerSettings
    loop: LoopSettings

    @classmethod
    def of(cls, tables: Mapping[str, Any]) -> Config:
        """Build the settings from the tables of a TOML file. Raises InputError for an invalid setting."""
        config = configured(cls, tables)
        data = config.data
        counts = len(data.pairs), data.batch, data.candidates - 1, data.tokens
        if min(counts) < 1 or not 0 <= config.model.dropout < 1:
            raise InputError(
                f"[data] {len(data.pairs)} pairs, batch {data.batch}, candidates {data.candidates}, tokens "
                f"{data.tokens}, [model] dropout {config.model.dropout}; expected 1 or more of each, 2 candidates, "
                "dropout from 0 to below 1"
            )
        check_least(config, data={"dev": 0}, model={"dim": 0}, optimizer={"rate": 0, "mix_rate": 0})
        return config


class RankingQueries(NamedTuple):
    """Queries of one direction: ``lists`` (n, K) of ``documents``, with the translation first.

    ``ignored`` (n, K) marks candidates with the same text as the translation.
    """

    queries: SentenceStates
    documents: SentenceStates
    lists: Rows
    ignored: NDArray[np.bool_]


class HeldOutSide(NamedTuple):
    """One direction of a held-out set.

    Args:
        pair: Language pair.
        queries, documents: States of both sides.
        rows: Sentences of ``queries`` that are evaluated, (n,).
        ids: ``documents`` that the encoder ranks highest for each of them, (n, K).
        texts: Number of the text of each document, equal for equal texts.
    """

    pair: str
    queries: SentenceStates
    documents: SentenceStates
    rows: Rows
    ids: Rows
    texts: Rows


class Batch(NamedTuple):
    """Lists of a step: queries ``first`` (B, I, width), candidates ``second`` (B, K, J, width), ``cosines`` (B, K).

    ``ignored`` (B, K) marks candidates that are not negatives.
    """

    first: Tokens
    second: Tokens
    cosines: Tensor
    ignored: Tensor


class RerankerTask:
    """Training of a re-ranker as a `trainer.Task`.

    Args:
        config: Settings.
        data: Folder of the sentence pairs.
        model: Encoder, which is not trained.
        states: Folder of the cache of token states.
        device: Device of torch, such as "cuda".
        progress: Called with the name of the stage, the number of sentences that are done, and the total.
    """

    def __init__(
        self,
        config: Config,
        data: Path,
        model: Model,
        states: Path,
        device: str = "cpu",
        progress: Progress = lambda title, step, total: None,
    ) -> None:
        self.config, self._model, self._device = config, model, device
        self._train: list[RankingQueries] = []
        self._held: list[HeldOutSide] = []
        for pair in config.data.pairs:
            for queries, documents, texts in self._directions(data / pair / "train.tsv", states, progress):
                candidates = lists(queries.vectors, documents.vectors, texts, config.data.candidates)
                self._train.append(RankingQueries(queries, documents, *candidates))
            path = data / pair / "dev.tsv"
            if path.is_file():
                directions = self._directions(path, states, progress)
                self._held += [_held_out(pair, *direction, config.data.dev) for direction in directions]
        if not self._held:
            raise InputError(f"{data}: no dev.tsv in {', '.join(config.data.pairs)}; expected one or more to choose by")
        sizes = [len(item.lists) for item in self._train]
        self._places = np.array([(part, row) for part, size in enumerate(sizes) for row in range(size)])
        torch.manual_seed(config.loop.seed)
        self.module = Reranker(first_network(model, config.model.dim), config.model.dropout).to(device)

    def facts(self) -> dict[str, Any]:
        """Return the settings, the hash of the encoder and the number of lists."""
        return {**facts_of("reranker", self.config), "encoder": self._model.hash, "lists": len(self._places)}

    def groups(self) -> list[tuple[list[nn.Parameter], float]]:
        """Return the parameters in two groups, with their learning rates; scalars and mix weights learn faster."""
        few = {"sharpness", "mix", "match_bias", "attend_bias", "bilinear_bias"}
        named_weights = list(self.module.weights.items())
        rates = self.config.optimizer
        return [
            ([value for name, value in named_weights if name not in few], rates.rate),
            ([value for name, value in named_weights if name in few], rates.mix_rate),
        ]

    def batch(self, number: int) -> Batch:
        """Return the batch of a step (see `Task.batch`): passes over all lists of all pairs, each in a new order."""
        rows = rows_in_turn(number, self.config.data.batch, len(self._places), self.config.loop.seed)
        parts = [(self._train[part], row) for part, row in self._places[rows].tolist()]
        return self._padded(
            [(item.queries, row, item.documents, item.lists[row]) for item, row in parts],
            np.stack([item.ignored[row] for item, row in parts]),
        )

    def backward(self, batch: Batch, autocast: Callable[[], Any], scale: float) -> dict[str, float]:
        """Backpropagate the loss of a batch (see `Task.backward`).

        ``acc@1`` is the share of lists in which the translation has the highest score.
        """
        with autocast():
            scores = self.module(batch.first, batch.second, batch.cosines).float()
        loss = listwise_loss(scores, batch.ignored)
        (loss * scale).backward()  # type: ignore[no-untyped-call]
        right = (scores[:, :1] > scores[:, 1:].masked_fill(batch.ignored[:, 1:], -torch.inf)).all(1).float().mean()
        tokens = float(batch.first.mask.sum() + batch.second.mask.sum())
        return {"tokens": tokens, "loss": float(loss.detach()), "acc@1": float(right)}

    @torch.no_grad()
    def evaluate(self, autocast: Callable[[], Any]) -> dict[str, float]:
        """Return the MAP of each held-out set, with queries from both sides; ``score`` is their mean."""
        precisions: dict[str, list[float]] = {}
        for item in self._held:
            with autocast():
                scores = self._scored(item)
            precisions.setdefault(item.pair, []).append(_precision(item, scores))
        means = {pair: float(np.mean(values)) for pair, values in precisions.items()}
        return {"score": float(np.mean(list(means.values()))), **means}

    def save(self, folder: Path) -> None:
        """Write the re-ranker into a folder, for `load_reranker`."""
        save_reranker(self.module.network(), folder, self._model.hash, self.facts())

    def _scored(self, part_set: HeldOutSide) -> Floats:
        """Score the candidates of all queries of a held-out side, (n, K)."""
        scores = np.empty(part_set.ids.shape, np.float32)
        for at in range(0, len(scores), SCORED):
            part = slice(at, at + SCORED)
            queries = zip(part_set.rows[part].tolist(), part_set.ids[part], strict=True)
            batch = self._padded([(part_set.queries, row, part_set.documents, ids) for row, ids in queries])
            scores[part] = self.module(batch.first, batch.second, batch.cosines).float().cpu().numpy()
        return scores

    def _padded(
        self,
        queries: Sequence[tuple[SentenceStates, int, SentenceStates, Rows]],
        ignored: NDArray[np.bool_] | None = None,
    ) -> Batch:
        """Pad lists with the same number of candidates to a batch; by default, no candidate is ignored."""
        most = self.config.data.tokens
        first = _side_by_side([states.tokens(row)[:most] for states, row, _, _ in queries])
        count = len(queries[0][3])
        second = _side_by_side([documents.tokens(at)[:most] for _, _, documents, ids in queries for at in ids.tolist()])
        cosines = np.stack([documents.vectors[ids] @ states.vectors[row] for states, row, documents, ids in queries])
        no_mates = np.zeros(cosines.shape, np.bool_)
        return Batch(
            Tokens(*(item.to(self._device) for item in first)),
            Tokens(*(item.to(self._device).view(-1, count, *item.shape[1:]) for item in second)),
            torch.from_numpy(cosines).to(self._device),
            torch.from_numpy(no_mates if ignored is None else ignored).to(self._device),
        )

    def _directions(
        self, path: Path, states: Path, progress: Progress
    ) -> list[tuple[SentenceStates, SentenceStates, Rows]]:
        """Return queries, documents and the number of each document's text (equal for equal texts), per direction."""
        if not path.is_file():
            raise InputError(f"{path}: no such file; expected sentence pairs, the two languages separated by a tab")
        rows = [row for row in ParallelText(path) if all(row)]
        if len(rows) < self.config.data.candidates:
            raise InputError(
                f"{path}: {len(rows)} pairs; expected {self.config.data.candidates} or more, to make lists of"
            )
        sides = list(zip(*rows, strict=True))
        show = partial(progress, f"{path.parent.name} {path.stem}")
        first, second = (sentence_states(self._model, side, states, show) for side in sides)
        return [(first, second, numbered(sides[1])), (second, first, numbered(sides[0]))]


def first_network(model: Model, dim: int = 0) -> Network:
    """Return the initial network. Its projection is that of the encoder's linear head for phrases of one token.

    Without such a head, or for another ``dim``, the projection is ``dim`` random orthogonal directions. Raises
    InputError for a ``dim`` of 0 without a head, or above the encoder's width.
    """
    if isinstance(model.head, Head) and dim in (0, model.head.dim):
        return Network.start(model.head.start + model.head.end, model.head.bias)
    if not 0 < dim <= model.width:
        raise InputError(f"[model] dim {dim}: this encoder has no linear head; expected 1 to {model.width}")
    square = np.random.default_rng(0).normal(size=(model.width, model.width))
    return Network.start(np.linalg.qr(square)[0][:, :dim], np.zeros(dim, np.float32))


def lists(first: Floats, second: Floats, number: Rows, count: int) -> tuple[Rows, NDArray[np.bool_]]:
    """Return the candidates of each row of ``first`` (n, dim), (n, count), and a mask of those that are not negatives.

    The translation, which has the same row in ``second``, comes first. The rows of ``second`` with the highest CSLS
    follow. Candidates with the same text as the translation are not negatives; ``number`` (n,) is equal for equal
    texts.
    """
    ids = np.empty((len(first), min(count, len(second))), np.int64)
    penalties = csls_penalties(first, second, NEIGHBOURS)
    for part, values in blocks(first, second):
        values -= penalties
        values[np.arange(len(values)), np.arange(part.start, part.stop)] = np.inf
        ids[part] = topk(values, ids.shape[1])[0]
    same_text = number[ids] == number[:, None]
    same_text[:, 0] = False
    return ids, same_text


def _held_out(pair: str, queries: SentenceStates, documents: SentenceStates, texts: Rows, most: int) -> HeldOutSide:
    rows = np.unique(np.linspace(0, len(texts) - 1, most or len(texts)).astype(np.int64))
    penalties = csls_penalties(queries.vectors, documents.vectors, NEIGHBOURS)
    ids = nearest(queries.vectors[rows], documents.vectors, FIRST, penalties)[0]
    return HeldOutSide(pair, queries, documents, rows, ids, texts)


def _precision(held_out: HeldOutSide, scores: Floats) -> float:
    """Return the mean of 1 / rank of the first document with the text of the translation; 0 if the list has none."""
    ids = np.take_along_axis(held_out.ids, argsort_desc(scores), 1)
    hits = held_out.texts[ids] == held_out.texts[held_out.rows][:, None]
    return float(np.where(hits.any(1), 1 / (hits.argmax(1) + 1.0), 0.0).mean())


def _side_by_side(sentences: Sequence[NDArray[np.float16]]) -> Tokens:
    """Pad sentences to states (n, T, width) float32 and a mask (n, T); one without tokens gets a token of zeros."""
    values, lengths = pad(sentences)
    return Tokens(values, (torch.arange(values.shape[1]) < lengths.clamp(min=1)[:, None]).float())

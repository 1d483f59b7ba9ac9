"""BiCLA as something to train: its configuration, sentence pairs with negatives, held-out loss, folder.

Glavaš and Vulić (ECIR 2019), section 4.1: batches of micro-batches, each a true pair and K = 4 negatives, half of them
drawn at random and half the most similar to the first sentence by AGG (eq. 6), without its mate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from phrasemate.align import ParallelText
from phrasemate.baselines import sums
from phrasemate.errors import InputError
from phrasemate.methods.bicla import BiCLA, Padded, Settings, contrastive_loss, pad
from phrasemate.methods.bicla_folder import save_bicla
from phrasemate.methods.config import at_least, configured, facts_of
from phrasemate.methods.loop import LoopSettings
from phrasemate.rank import numbered
from phrasemate.text.stopwords import content_words, stop_words
from phrasemate.utils.knn import greatest
from phrasemate.vectors.neighbours import blocks
from phrasemate.vectors.words import WordVectors

DEV = 100  # held-out pairs that are scored at once
TRIES = 64  # draws for one random negative
COMMON = 10_000  # words of a language, the most frequent ones, whose principal components training begins with
SHRUNK = 0.1  # of the mean variance, added to every direction's

Rows = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class DataSettings:
    """``pair``: the two languages, source first: DATA/pair/train.tsv and dev.tsv, VECTORS/language.

    ``batch``: micro-batches of a step; ``negatives``: K of each, ``hard`` of them by AGG; ``words``: a sentence with
    fewer known words is left out; ``stop_words`` False: they count as words.
    """

    pair: str
    batch: int = 10
    negatives: int = 4
    hard: int = 2
    words: int = 3
    stop_words: bool = True


@dataclass(frozen=True)
class LossSettings:
    """eq. 7: ``margin`` is its eps, ``l2`` its lambda.

    ``shared``: every second sentence of a step is a negative of every first one but those that it is the mate of, or
    that read as the mate does; they count as much as the K negatives of the paper do.
    """

    margin: float = 1.0
    l2: float = 1e-4
    shared: bool = False


@dataclass(frozen=True)
class OptimizerSettings:
    """``rate``: of Adam; ``share``: how much of what training changes is kept, from 0 to 1: the rest of each weight is
    as training began (Wortsman et al. 2022, "Robust fine-tuning of zero-shot models", section 3).

    What is evaluated and saved is the model so averaged; training itself goes on with the whole change.
    """

    rate: float = 1e-4
    share: float = 1.0


@dataclass(frozen=True)
class Config:
    """The tables of the configuration file."""

    data: DataSettings
    model: Settings
    loss: LossSettings
    optimizer: OptimizerSettings
    loop: LoopSettings

    @classmethod
    def of(cls, tables: Mapping[str, Any]) -> Config:
        """From the tables of a TOML file; raises InputError naming what is wrong."""
        made = configured(cls, tables)
        data = made.data
        if data.batch < 1 or not 0 <= data.hard <= data.negatives or data.negatives < 1 or data.words < 1:
            raise InputError(
                f"[data] batch {data.batch}, negatives {data.negatives}, hard {data.hard}, words {data.words}; "
                "expected 1 or more of each, and hard from 0 to negatives"
            )
        if not 0 <= made.optimizer.share <= 1:
            raise InputError(f"[optimizer] share {made.optimizer.share}; expected 0 (as it began) to 1 (as trained)")
        for name, value in (
            ("[loss] margin", made.loss.margin),
            ("[loss] l2", made.loss.l2),
            ("[optimizer] rate", made.optimizer.rate),
        ):
            at_least(name, value, 0)
        return made

    def facts(self) -> dict[str, Any]:
        """All settings as plain data, but those of the loop."""
        return facts_of("bicla", self)


class Pairs(NamedTuple):
    """Sentence pairs as rows of their languages' matrices: ``first``, ``second``; ``hard`` (n, hard) negatives of each.

    ``group`` (n,): second sentences of the same words have the same number, and are no negatives of each other.
    ``sums``: (n, dim) each, the sums of both sides' word vectors, at unit length.
    """

    first: list[Rows]
    second: list[Rows]
    group: Rows
    hard: Rows
    sums: tuple[Floats, Floats]


class Batch(NamedTuple):
    """``pairs`` (m) first sentences, then m (1 + K) second ones: the mate of each and its negatives.

    ``mates`` (m, m (1 + K)): where a second sentence reads as the mate of a first one does.
    """

    sentences: Padded
    pairs: int
    mates: Tensor


class BiCLATask:
    """See `phrasemate.train.Task` and `phrasemate.train.Remembering`. ``data``: the folder of the sentence pairs;
    ``vectors``: of the word vectors.
    """

    def __init__(self, config: Config, data: Path, vectors: Path, device: str = "cpu") -> None:
        self.config = config
        self.languages = _languages(config.data.pair)
        self.spaces = [WordVectors.load(vectors / language) for language in self.languages]
        if self.spaces[0].dim != self.spaces[1].dim:
            dims = " and ".join(str(space.dim) for space in self.spaces)
            raise InputError(f"{vectors}: vectors of {dims} dimensions; expected those of one space")
        folder = data / config.data.pair
        self.train, self.dev = self._read(folder / "train.tsv"), self._read(folder / "dev.tsv")
        draw = np.random.default_rng(0)
        self._held = [_negatives(self.dev, row, config.data.negatives, draw) for row in range(len(self.dev.first))]
        torch.manual_seed(config.loop.seed)
        self.module = BiCLA(self.spaces[0].dim, config.model)
        if config.model.start in ("words", "mates"):
            metric = within(*self.train.sums) if config.model.start == "mates" else None
            self.module.begin_with(np.concatenate([space.matrix[:COMMON] for space in self.spaces]), metric)
        self.module.to(device)
        self._began = [parameter.detach().clone() for parameter in self.module.parameters()]

    def stepped(self) -> None:
        """See `Remembering.stepped`."""

    def state(self) -> dict[str, Tensor]:
        """See `Remembering.state`: the weights before training, which another machine may compute otherwise (the signs
        of principal components).
        """
        return {str(place): value for place, value in enumerate(self._began)} if self.config.optimizer.share < 1 else {}

    def facts(self) -> dict[str, Any]:
        """The settings, and which vectors they go with."""
        hashes = {name: space.facts.get("hash", "") for name, space in zip(self.languages, self.spaces, strict=True)}
        return {**self.config.facts(), "vectors": hashes, "pairs": [len(self.train.first), len(self.dev.first)]}

    def groups(self) -> list[tuple[list[nn.Parameter], float]]:
        """All parameters have one learning rate."""
        return [(list(self.module.parameters()), self.config.optimizer.rate)]

    def batch(self, number: int) -> Batch:
        """See `Task.batch`: pass after pass over the pairs, each in an order of its own."""
        data, size, seed = self.config.data, len(self.train.first), self.config.loop.seed
        places = np.arange(number * data.batch, (number + 1) * data.batch)
        rows = [int(_order(seed, int(place) // size, size)[place % size]) for place in places]
        draw = np.random.default_rng((seed, number))
        return self._batch(self.train, rows, [_negatives(self.train, row, data.negatives, draw) for row in rows])

    def backward(self, batch: Batch, autocast: Callable[[], Any], scale: float) -> dict[str, float]:
        """See `Task.backward`; ``loss`` is without the L2 term, ``acc@1`` the true pairs above all their negatives."""
        with autocast():
            scores = self._shared(batch) if self.config.loss.shared else self._scores(batch)
        negatives = scores[:, 1:].isfinite().sum() / len(scores)
        loss = contrastive_loss(scores, self.config.loss.margin) * self.config.data.negatives / negatives
        squares = torch.stack([parameter.square().sum() for parameter in self.module.parameters()]).sum()
        ((loss + self.config.loss.l2 * squares) * scale).backward()  # type: ignore[no-untyped-call]
        return {
            "tokens": float(batch.sentences.lengths.sum()),
            "loss": float(loss.detach()),
            "acc@1": float(_right(scores).mean()),
        }

    @torch.no_grad()
    def evaluate(self, autocast: Callable[[], Any]) -> dict[str, float]:
        """Loss and acc@1 on the held-out pairs, each with negatives that stay the same; ``score`` is -loss."""
        found = []
        with self.averaged(self.config.optimizer.share):
            for at in range(0, len(self.dev.first), DEV):
                rows = list(range(at, min(at + DEV, len(self.dev.first))))
                with autocast():
                    found.append(self._scores(self._batch(self.dev, rows, [self._held[row] for row in rows])).float())
        scores = torch.cat(found)
        loss = float(contrastive_loss(scores, self.config.loss.margin))
        return {"score": -loss, "loss": loss, "acc@1": float(_right(scores).mean())}

    def save(self, folder: Path) -> None:
        """See `load_bicla`."""
        with self.averaged(self.config.optimizer.share):
            save_bicla(self.module, folder, self.facts())

    @contextmanager
    def averaged(self, share: float) -> Iterator[None]:
        """The module with so much of what training has changed (`OptimizerSettings`), for as long as this lasts."""
        parameters = list(self.module.parameters())
        trained = [parameter.detach().clone() for parameter in parameters] if share < 1 else []
        for parameter, began in zip(parameters, self._began, strict=True):
            parameter.data.lerp_(began, 1 - share)
        try:
            yield
        finally:
            for parameter, whole in zip(parameters, trained, strict=False):
                parameter.data.copy_(whole)

    def _scores(self, batch: Batch) -> Tensor:
        """(m, 1 + K), the true pairs first."""
        times = 1 + self.config.data.negatives
        encoded = self.module.encode(batch.sentences)
        first, second = encoded.rows(0, batch.pairs).each(times), encoded.rows(batch.pairs, None)
        scores: Tensor = self.module(first, second)
        return scores.view(-1, times).float()

    def _shared(self, batch: Batch) -> Tensor:
        """(m, 1 + m (1 + K)), the true pairs first; -inf for what is no negative."""
        encoded = self.module.encode(batch.sentences)
        scores = self.module.all_pairs(encoded.rows(0, batch.pairs), encoded.rows(batch.pairs, None)).float()
        own = scores[:, :: 1 + self.config.data.negatives].diagonal()[:, None]  # (m, 1)
        return torch.cat([own, scores.masked_fill(batch.mates.to(scores.device), -torch.inf)], 1)

    def _batch(self, pairs: Pairs, rows: Sequence[int], negatives: Sequence[Sequence[int]]) -> Batch:
        left, right = (space.matrix for space in self.spaces)
        second = [number for row, others in zip(rows, negatives, strict=True) for number in (row, *others)]
        sentences = [left[pairs.first[row]] for row in rows] + [right[pairs.second[number]] for number in second]
        mates = pairs.group[list(rows)][:, None] == pairs.group[second]
        return Batch(pad(sentences), len(rows), torch.from_numpy(mates))

    def _read(self, path: Path) -> Pairs:
        data = self.config.data
        if not path.is_file():
            raise InputError(f"{path}: no such file; expected sentence pairs, the two languages separated by a tab")
        stop = [stop_words(language) if data.stop_words else frozenset() for language in self.languages]
        kept = []
        for texts in ParallelText(path):
            own = [content_words(text, each) for text, each in zip(texts, stop, strict=True)]
            rows = [space.rows(each) for space, each in zip(self.spaces, own, strict=True)]
            if min(map(len, rows)) >= data.words:
                kept.append((own, rows))
        if len(kept) <= data.negatives:
            raise InputError(
                f"{path}: {len(kept)} pairs with {data.words} known words or more on both sides; expected more than "
                f"{data.negatives}; give more text, other vectors, or a lower data.words"
            )
        group = numbered(tuple(own[1]) for own, _ in kept)
        first, second = (sums([own[side] for own, _ in kept], self.spaces[side]) for side in (0, 1))
        hard = hardest(first, second, group, data.hard)
        return Pairs([rows[0] for _, rows in kept], [rows[1] for _, rows in kept], group, hard, (first, second))


def within(first: Floats, second: Floats) -> Floats:
    """(dim, dim), symmetric: a row times it is a row of a space in which mates, (n, dim) each, are more alike.

    (S + .1 tr S / dim)^(-1/4), with S the mean of d d^T over the mates' differences d: directions in which mates differ
    count less (where none differ, it is the identity). It is the within-class covariance normalisation of Hatch,
    Kajarekar and Stolcke (2006, "Within-class covariance normalization for SVM-based speaker recognition"), half way:
    theirs is the power -1/2.
    """
    apart = (first - second).astype(np.float64)
    values, axes = np.linalg.eigh(apart.T @ apart / len(apart))
    if values.mean() <= 0:
        return np.eye(len(values), dtype=np.float32)
    metric: Floats = ((axes * (values + SHRUNK * values.mean()) ** -0.25) @ axes.T).astype(np.float32)
    return metric


def hardest(first: Floats, second: Floats, group: Rows, count: int) -> Rows:
    """(n, count) for each row of ``first`` the most similar of ``second``, (n, dim) both, best first.

    None of the row's own group, such as its mate. Raises InputError where fewer than ``count`` are left.
    """
    most = len(group) - int(np.bincount(group).max())
    if most < count:
        raise InputError(f"{most} pairs with another second sentence; expected {count} or more to take negatives from")
    found = np.empty((len(first), count), np.int64)
    for part, values in blocks(first, second):
        values[group[part][:, None] == group] = -np.inf
        found[part] = greatest(values, count)[0]
    return found


def _negatives(pairs: Pairs, row: int, count: int, draw: np.random.Generator) -> list[int]:
    """The hard negatives of a pair and random ones, no two alike."""
    chosen: list[int] = pairs.hard[row].tolist()
    own = pairs.group[row]
    for _ in range(TRIES * count):
        if len(chosen) == count:
            return chosen
        other = int(draw.integers(len(pairs.group)))
        if pairs.group[other] != own and other not in chosen:
            chosen.append(other)
    raise InputError(f"{len(pairs.group)} pairs: too few to draw {count} different negatives from; give more text")


@lru_cache(maxsize=4)
def _order(seed: int, turn: int, size: int) -> Rows:
    """The order of a pass over the pairs."""
    return np.random.default_rng((seed, turn, size)).permutation(size)


def _right(scores: Tensor) -> Tensor:
    """(m,) 1.0 where the true pair is above all its negatives."""
    return (scores[:, :1] > scores[:, 1:]).all(1).float()


def _languages(pair: str) -> tuple[str, str]:
    source, dash, target = pair.partition("-")
    if not (source and dash and target) or source == target:
        raise InputError(f"[data] pair: {pair!r}; expected two languages such as de-en")
    return source, target

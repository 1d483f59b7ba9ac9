"""BiCLA: the score of a sentence pair by cross-attention, read from word vectors of one multilingual space.

Glavaš and Vulić, "Zero-Shot Language Transfer for Cross-Lingual Sentence Retrieval Using Bidirectional Attention Model"
(ECIR 2019). One BiLSTM reads the word vectors of both sentences, so that h_i^1 and h_j^2 are of one space; then::

    m_ij = tanh(h_i^1 W h_j^2 + b)                            eq. 1, how well word i of the one and j of the other match
    alpha_ij = exp m_ij / sum_j' exp m_ij'                    eq. 2
    hbar_i^1 = sum_j alpha_ij h_j^2                           eq. 3, and hbar_j^2 likewise with a W and b of its own
    gamma_i = tanh(hbar_i . v + b),  e = sum_i gamma_i hbar_i eq. 4, of each sentence with its own v and b
    s = tanh(e^1 W_B e^2 + b_B)                               eq. 5
    J = sum over negatives of max(0, eps - s+ + s-) + lambda |Theta|^2     eq. 7 (eq. 6 and 8 are in rank.py)

Without the cross-attention (hbar = h) it is the paper's InAtt. Ours: a sentence without words is e = 0, so its score is
tanh(b_B). The sum of eq. 7 is divided by the number of true pairs. The paper does not say how long word vectors are and
how training begins: see `Settings`. As an option, eq. 5 is a cosine.

The released code differs from the paper. Each difference is an option: gamma of eq. 4 goes through a softmax over the
words of a sentence (``intra`` "softmax"). Weights begin as Xavier's, biases as .1 (``start`` "xavier"). Each side may
have a BiLSTM of its own (``separate``). The code sums over the 10 pairs of a step and halves the squares, so its lambda
of 1e-4 is 5e-6 here.

A trained BiCLA is a sealed folder without the word vectors, which are those of the languages that it is used with. Its
configuration says what it was trained with.

Training (section 4.1): a batch has true pairs with K = 4 negatives each. Half of them are drawn at random, half are the
most similar to the first sentence by AGG (eq. 6), without its mate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from phrasemate.align import ParallelText
from phrasemate.errors import InputError
from phrasemate.rank import numbered, sums
from phrasemate.text.sentences import content_words, stop_words
from phrasemate.training.config import built, check_least, configured, expect, facts_of
from phrasemate.training.trainer import LoopSettings, rows_in_turn
from phrasemate.utils.arrays import Floats, Rows
from phrasemate.utils.knn import blocks, topk
from phrasemate.utils.storage import CONFIG, Seal
from phrasemate.vectors.word_vectors import WordVectors

CHUNK = 4096  # sentences of a side whose states are held at once: 0.8 GB where they have 60 words
ENCODED = 256  # sentences that the BiLSTM reads at once
CELLS = 1 << 17  # word pairs of one query with a block of documents: so much stays in the processor's cache
STARTS = ("mates", "words", "identity", "random", "xavier")
INTRA = ("tanh", "softmax")
BIAS = 0.1  # of the released code, before training
OPEN, SHUT = 3.0, -3.0  # biases at which a gate lets all but 5 % through, or none but 5 %
REACH = 0.1  # of the projection that the BiLSTM may begin as: tanh is nearly linear then
MATCH = 0.5  # of a cosine of words, so that eq. 1 begins as a mean of all words that leans to the like ones
SCALE, SHIFT = 5.0, -1.5  # of a cosine, so that eq. 5 begins where tanh is neither flat nor of one sign
TINY = 1e-30  # instead of a sum over no words


@dataclass(frozen=True)
class Settings:
    """The layers, and how their weights begin.

    Args:
        hidden: H, of each direction.
        cross: False: InAtt.
        tied_cross: Both sentences share W and b of eq. 1.
        tied_intra: Both sentences share v and b of eq. 4.
        intra: gamma of eq. 4 is the "tanh" (paper), or its "softmax" over the words of a sentence (released code).
        separate: Each side has a BiLSTM of its own.
        scaled: Every word vector is brought to the length sqrt(dim).
        normalised: eq. 5 is tanh(c cos(e^1 W_B, e^2) + b_B) with a learnt c. As the paper has it, long sentences score
            higher with whatever query, which is unlearnt only for the lengths of the training text.
        start: "random": Xavier's uniform weights and torch's LSTM. "xavier": Xavier's weights everywhere, biases of .1,
            those of the LSTM 0 (released code). "identity": W and W_B begin as multiples of the identity, v and b of
            eq. 4 as 0 and 1: like words match, all words count alike, like sentences score high from the first step.
            "words": besides, the BiLSTM begins as a projection of each word onto principal components
            (`BiCLA.begin_with`), so that the first scores, normalised ones, are about as good as AGG's (eq. 6).
            "mates": as "words", in a metric in which the sums of true pairs' vectors are alike (`within`), and better.
    """

    hidden: int = 100  # the paper, section 4.1
    cross: bool = True
    tied_cross: bool = False
    tied_intra: bool = False
    intra: str = "tanh"
    separate: bool = False
    scaled: bool = True
    normalised: bool = False
    start: str = "identity"


class PaddedVectors(NamedTuple):
    """Word vectors of n sentences: ``values`` (n, T, dim), zero after a sentence's ``lengths`` (n,), on the CPU."""

    values: Tensor
    lengths: Tensor


class EncodedSentences(NamedTuple):
    """States of n sentences: ``states`` (n, T, 2H), zero where ``mask`` (n, T) is: 1 for a word, 0 for padding."""

    states: Tensor
    mask: Tensor

    def repeat(self, times: int) -> EncodedSentences:
        """Every sentence so many times, one after the other."""
        return EncodedSentences(self.states.repeat_interleave(times, 0), self.mask.repeat_interleave(times, 0))

    def rows(self, start: int, end: int | None) -> EncodedSentences:
        """Select sentences by their rows."""
        return EncodedSentences(self.states[start:end], self.mask[start:end])

    def apart(self) -> list[Tensor]:
        """(T_i, 2H) of each sentence, without padding."""
        lengths = self.mask.sum(1).int().tolist()
        return [row[:length] for row, length in zip(self.states, lengths, strict=True)]


def pad(sentences: Sequence[NDArray[np.floating]]) -> PaddedVectors:
    """Sentences (T_i, dim) of word vectors, side by side; T_i may be 0. Raises InputError for none."""
    if not sentences:
        raise InputError("no sentences to pad; expected one or more")
    lengths = np.array([len(item) for item in sentences])
    values = np.zeros((len(sentences), max(1, lengths.max()), sentences[0].shape[1]), np.float32)
    for row, sentence in zip(values, sentences, strict=True):
        row[: len(sentence)] = sentence
    return PaddedVectors(torch.from_numpy(values), torch.from_numpy(lengths))


class BiCLA(nn.Module):
    """The network for word vectors of ``dim`` dimensions; equations as in the docstring of the module."""

    def __init__(self, dim: int, settings: Settings) -> None:
        super().__init__()
        if settings.hidden < 1 or settings.start not in STARTS:
            starts = f"{', '.join(STARTS[:-1])} or {STARTS[-1]}"
            raise InputError(f"hidden {settings.hidden}, start {settings.start!r}; expected 1 or more, and {starts}")
        expect("[model] intra", settings.intra, INTRA)
        self.dim, self.settings = dim, settings
        width, cross, intra = 2 * settings.hidden, 2 - settings.tied_cross, 2 - settings.tied_intra
        self.encoder = nn.LSTM(dim, settings.hidden, batch_first=True, bidirectional=True)
        if settings.separate:
            self.second_encoder = nn.LSTM(dim, settings.hidden, batch_first=True, bidirectional=True)
        if settings.cross:
            self.match_weight = nn.Parameter(torch.empty(cross, width, width))  # W of eq. 1, of each sentence
            self.match_bias = nn.Parameter(torch.zeros(cross))
        self.sum_weight = nn.Parameter(torch.empty(intra, width))  # v of eq. 4
        self.sum_bias = nn.Parameter(torch.zeros(intra))
        self.score_weight = nn.Parameter(torch.empty(width, width))  # W_B of eq. 5
        self.score_bias = nn.Parameter(torch.tensor(SHIFT if settings.normalised else 0.0))
        if settings.normalised:
            self.score_scale = nn.Parameter(torch.tensor(SCALE))  # c
        self._begin()

    @torch.no_grad()
    def _begin(self) -> None:
        """Weights before training; those of the LSTM are torch's."""
        matches = [*self.match_weight] if self.settings.cross else []
        for matrix in (*matches, *self.sum_weight[:, None], self.score_weight):
            nn.init.xavier_uniform_(matrix)
        if self.settings.start == "xavier":
            for name, value in self.named_parameters():
                if "encoder" in name:
                    nn.init.xavier_uniform_(value) if value.ndim == 2 else nn.init.zeros_(value)
                elif name.endswith("bias"):
                    value.fill_(BIAS)
        elif self.settings.start != "random":
            self._like_matches_like(20, 10)  # sizes at which tanh is neither flat nor linear
            self.sum_weight.zero_()
            self.sum_bias.fill_(1.0)

    def _like_matches_like(self, words: float, sentences: float) -> None:
        """W of eq. 1 and W_B of eq. 5 as the identity, times ``words`` and ``sentences`` by their width."""
        width = len(self.score_weight)
        matches = [*self.match_weight] if self.settings.cross else []
        for matrix, size in (*((match, words) for match in matches), (self.score_weight, sentences)):
            matrix.copy_(torch.eye(width) * (size / width))

    @torch.no_grad()
    def begin_with(self, vectors: Floats, metric: Floats | None = None) -> None:
        """Let the BiLSTM begin as tanh of principal components of ``vectors`` (words, dim), without memory.

        The forward direction takes every other component, the backward one those between, 2H in all. Words are first
        multiplied by ``metric`` (dim, dim), which is symmetric. Where all components are taken, m_ij of eq. 1 begins as
        about tanh(.4 cos) of the two words. Raises InputError where there are fewer words or dimensions than 2H.
        """
        hidden_size = self.settings.hidden
        if min(vectors.shape) < 2 * hidden_size or vectors.shape[1:] != (self.dim,):
            shape = f"(words, {self.dim}), {2 * hidden_size} or more of either"
            raise InputError(
                f'start "{self.settings.start}" with word vectors of shape {vectors.shape}; expected {shape}'
            )
        normal = functional.normalize(torch.from_numpy(vectors), dim=1)
        start_matrix = torch.eye(self.dim) if metric is None else torch.from_numpy(metric)
        # Words stay as long as they are, on the mean.
        start_matrix = start_matrix / (normal @ start_matrix).square().sum(1).mean().sqrt()
        projection = normal @ start_matrix
        components = torch.linalg.eigh(projection.T @ projection).eigenvectors.flip(1)
        axes = components.T @ start_matrix  # (dim, dim), the longest axis first
        gates = torch.tensor([OPEN, SHUT, 0.0, OPEN]).repeat_interleave(hidden_size)  # input, forget, cell, output
        for first, direction in enumerate(("", "_reverse")):
            for encoder in [self.encoder, *([self.second_encoder] if self.settings.separate else [])]:
                weights = {name: getattr(encoder, f"{name}_l0{direction}") for name in _LSTM}
                for weight in weights.values():
                    weight.zero_()
                weights["bias_ih"].copy_(gates)
                weights["weight_ih"][2 * hidden_size : 3 * hidden_size] = REACH * axes[first : 2 * hidden_size : 2]
        self._like_matches_like(MATCH / REACH**2, 1 / REACH**2)

    def match(self, side: int) -> tuple[Tensor, Tensor]:
        """The W (2H, 2H) and b () of eq. 1, for the first sentence (0) or the second (1)."""
        side_row = min(side, len(self.match_bias) - 1)
        return self.match_weight[side_row], self.match_bias[side_row]

    def attention(self, side: int) -> tuple[Tensor, Tensor]:
        """The v (2H,) and b () of eq. 4."""
        side_row = min(side, len(self.sum_bias) - 1)
        return self.sum_weight[side_row], self.sum_bias[side_row]

    def encode(self, sentences: PaddedVectors, side: int = 0) -> EncodedSentences:
        """The BiLSTM, of first sentences (0) or second ones (1).

        Padding is never read: the backward direction begins at the last word.
        """
        encoder = self.second_encoder if side and self.settings.separate else self.encoder
        values, lengths = sentences.values.to(self.score_weight), sentences.lengths
        if self.settings.scaled:
            values = functional.normalize(values, dim=2) * self.dim**0.5
        sequence = pack_padded_sequence(values, lengths.clamp(min=1), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(encoder(sequence)[0], batch_first=True, total_length=values.shape[1])
        mask = (torch.arange(values.shape[1]) < lengths[:, None]).to(states)  # (n, T)
        return EncodedSentences(states * mask[:, :, None], mask)

    def forward(self, first: EncodedSentences, second: EncodedSentences) -> Tensor:
        """(n,) scores s of n pairs."""
        left, right = self._crossed(first, second, 0), self._crossed(second, first, 1)
        e1, e2 = self.summed(left, first.mask, 0), self.summed(right, second.mask, 1)  # (n, 2H)
        return torch.tanh(self.similar(e1 @ self.score_weight, e2))  # eq. 5

    def similar(self, left: Tensor, right: Tensor) -> Tensor:
        """(n,) what eq. 5 takes the tanh of: ``left`` (n or 1, 2H) is e^1 W_B, ``right`` (n, 2H) e^2."""
        products = (left * right).sum(1)
        if self.settings.normalised:
            products = self.score_scale * products / (left.norm(dim=1) * right.norm(dim=1)).clamp(min=TINY)
        return products + self.score_bias

    def all_pairs(self, first: EncodedSentences, second: EncodedSentences) -> Tensor:
        """(m, n) scores of m first sentences with each of n second ones: the same numbers as `forward`, quicker."""
        block = _Block(self, second)
        return torch.tanh(torch.stack([block.scores(query) for query in first.apart()]))

    def _crossed(self, sentence: EncodedSentences, other: EncodedSentences, side: int) -> Tensor:
        """(n, T, 2H) hbar: each word as a mean of the words of the other sentence."""
        if not self.settings.cross:
            return sentence.states
        weight, bias = self.match(side)
        m = torch.tanh(sentence.states @ weight @ other.states.transpose(1, 2) + bias)  # (n, T, other T); eq. 1
        powers = m.exp() * other.mask[:, None]  # m is in (-1, 1): no need to subtract its maximum
        alpha = powers / powers.sum(2, keepdim=True).clamp(min=TINY)  # eq. 2
        return alpha @ other.states  # eq. 3

    def summed(self, hbar: Tensor, mask: Tensor, side: int) -> Tensor:
        """(n, 2H) e: the words' weighted sum; the weights are a distribution with ``intra`` "softmax" alone."""
        weight, bias = self.attention(side)
        gamma = self.gamma(torch.tanh(hbar @ weight + bias), mask)  # (n, T); eq. 4
        return (gamma[:, :, None] * hbar).sum(1)

    def gamma(self, values: Tensor, mask: Tensor) -> Tensor:
        """(n, T) the weights of eq. 4 from their tanh, 0 for padding."""
        if self.settings.intra == "tanh":
            return values * mask
        powers = values.exp() * mask
        return powers / powers.sum(1, keepdim=True).clamp(min=TINY)


_LSTM = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def contrastive_loss(scores: Tensor, margin: float) -> Tensor:
    """The first term of eq. 7: ``scores`` (true pairs, 1 + K), the true pair's first; the mean over true pairs."""
    return (margin - scores[:, :1] + scores[:, 1:]).clamp(min=0).sum(1).mean()


@torch.inference_mode()
def score_matrix(
    model: BiCLA,
    queries: Sequence[Floats],
    documents: Sequence[Floats],
    chunk: int = CHUNK,
    cells: int = CELLS,
    progress: Callable[[int, int], None] = lambda step, total: None,
) -> Floats:
    """(queries, documents) float32 scores of every pair of sentences, (T_i, dim) word vectors each.

    These are the scores of eq. 5 before the tanh, which does not change their order but makes equals of all above 9.
    The BiLSTM reads each sentence once (beyond ``chunk`` sentences on both sides, once for every chunk of the other).
    A block has a query and as many documents of like length as make ``cells`` pairs of words. So only the answer grows
    with the number of pairs. ``progress`` (pairs done, of all). Raises InputError for vectors of another width.
    """
    wrong = next((item.shape for side in (queries, documents) for item in side if item.shape[1:] != (model.dim,)), None)
    if wrong is not None:
        raise InputError(f"word vectors of shape {wrong}; this BiCLA takes (words, {model.dim})")
    scores, pair_count = np.zeros((len(queries), len(documents)), np.float32), 0
    for rows in _by_length(queries, chunk):
        query_states = _states(model, [queries[row] for row in rows], 0)
        for columns in _by_length(documents, chunk):
            document_states = _states(model, [documents[column] for column in columns], 1)
            for start, end in _cuts(query_states, document_states, cells):
                block = _Block(model, _side_by_side(document_states[start:end]))
                for row, query in zip(rows, query_states, strict=True):
                    scores[row, columns[start:end]] = block.scores(query).cpu().numpy()
                pair_count += len(rows) * (end - start)
                progress(pair_count, scores.size)
    return scores


class _Block:
    """D documents, to be scored against one query after the other.

    No hbar is computed: with k_j = sum_i gamma_i alpha_ij, the sums of eq. 4 are e^1 = sum_j k_j h_j^2, and their
    hbar_i . v are sum_j alpha_ij (h_j^2 . v). So a pair of sentences costs what eq. 1 costs and little more.
    """

    def __init__(self, model: BiCLA, documents: EncodedSentences) -> None:
        self._model = model
        self._states, self._mask = documents  # (D, J, 2H), (D, J)
        weight, self._bias = model.attention(0)
        self._sums = torch.stack([self._mask, self._states @ weight], 2)  # (D, J, 2): of eq. 2, and of eq. 4
        self._scored = self._states @ model.score_weight  # (D, J, 2H); sum_j k_j of it is e^1 W_B
        if not model.settings.cross:
            self._own = model.summed(self._states, self._mask, 1)  # (D, 2H) e^2 of InAtt

    def scores(self, query: Tensor) -> Tensor:
        """(D,) of a query's states (I, 2H): what eq. 5 takes the tanh of."""
        left, e2 = self._crossed(query) if self._model.settings.cross else self._plain(query)
        return self._model.similar(left, e2)

    def _plain(self, query: Tensor) -> tuple[Tensor, Tensor]:
        """(1, 2H) e^1 W_B and (D, 2H) e^2 without cross-attention."""
        e1 = self._model.summed(query[None], query.new_ones(1, len(query)), 0)
        return e1 @ self._model.score_weight, self._own

    def _crossed(self, query: Tensor) -> tuple[Tensor, Tensor]:
        """(D, 2H) e^1 W_B and e^2."""
        forward, back = self._powers(query)  # (I, D, J) each: exp m of eq. 1, and of its other direction
        total, sums = (forward.transpose(0, 1) @ self._sums).unbind(2)  # (D, I)
        total = total.clamp(min=TINY)
        gamma = self._model.gamma(torch.tanh(sums / total + self._bias), torch.ones_like(total))  # (D, I)
        k = (gamma / total)[:, None] @ forward.transpose(0, 1)  # (D, 1, J)
        weight, bias = self._model.attention(1)
        total, sums = back.sum(0).clamp(min=TINY), torch.einsum("idj,i->dj", back, query @ weight)
        gamma = self._model.gamma(torch.tanh(sums / total + bias), self._mask) / total  # (D, J)
        e2 = (back.transpose(0, 1) @ gamma[:, :, None])[:, :, 0] @ query
        return (k @ self._scored)[:, 0], e2

    def _powers(self, query: Tensor) -> Tensor:
        """(2, I, D, J): exp tanh of eq. 1, both directions, but for a factor that eq. 2 cancels."""
        (w12, b12), (w21, b21) = self._model.match(0), self._model.match(1)
        attention = torch.cat([query @ w12, query @ w21.T])
        m = (attention @ self._states.flatten(0, 1).T).view(2, len(query), *self._mask.shape)
        m = m + torch.stack([b12, b21])[:, None, None, None]
        return torch.exp(2 * torch.sigmoid(2 * m))  # tanh x = 2 sigmoid(2 x) - 1, and sigmoid is six times as quick


def _by_length(sentences: Sequence[Floats], size: int) -> Iterator[NDArray[np.int64]]:
    """Places of the sentences, the short ones first, so many at once."""
    order = np.argsort([len(sentence) for sentence in sentences], kind="stable")
    yield from (order[at : at + size] for at in range(0, len(order), size))


def _states(model: BiCLA, sentences: Sequence[Floats], side: int) -> list[Tensor]:
    """(T_i, 2H) states of each sentence of a side."""
    states: list[Tensor] = []
    for at in range(0, len(sentences), ENCODED):
        states += [row.clone() for row in model.encode(pad(sentences[at : at + ENCODED]), side).apart()]
    return states


def _side_by_side(documents: Sequence[Tensor]) -> EncodedSentences:
    """(D, J, 2H) states with zeros after their ends, and where they are none."""
    states = nn.utils.rnn.pad_sequence([*documents], batch_first=True)
    lengths = torch.tensor([len(item) for item in documents], device=states.device)
    return EncodedSentences(states, (torch.arange(states.shape[1], device=states.device) < lengths[:, None]).to(states))


def _cuts(queries: Sequence[Tensor], documents: Sequence[Tensor], cells: int) -> Iterator[tuple[int, int]]:
    """Bounds of the blocks: pairs of words of the longest query with a block are at most ``cells``."""
    longest, start = max(1, *(len(item) for item in queries)), 0
    for end in range(1, len(documents) + 1):  # the last of a block is the longest
        if end == len(documents) or (end + 1 - start) * max(1, len(documents[end])) * longest > cells:
            yield start, end
            start = end


SEAL = Seal("phrasemate-bicla", 1, "phrasemate train bicla", "train it again, or copy it again")


class TrainedBiCLA(NamedTuple):
    """A model, the ``facts`` of its training, and the ``hash`` (64 hex digits) of its folder."""

    model: BiCLA
    facts: dict[str, Any]
    hash: str


def save_bicla(model: BiCLA, folder: Path, facts: Mapping[str, Any]) -> None:
    """Write a BiCLA model into an existing folder; ``facts`` (plain data) say what it was trained on."""
    tensors = {name: value.detach().float().cpu().contiguous() for name, value in model.state_dict().items()}
    content = {"dim": model.dim, "settings": asdict(model.settings), "facts": dict(facts)}
    SEAL.write(folder, save(tensors), content)


def folders_in(folder: Path) -> list[Path]:
    """The trained folders in a folder, itself and however deep, sorted. Raises InputError where it is not there."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; expected one with runs of 'phrasemate train bicla' in it")
    mark = f'"format": "{SEAL.format}"'
    configs = (path for path in folder.rglob(CONFIG) if not path.parent.name.endswith(".part"))
    return sorted(path.parent for path in configs if mark in path.read_text(encoding="utf-8", errors="replace"))


def load_bicla(folder: Path, device: str = "cpu") -> TrainedBiCLA:
    """Read a BiCLA model from its folder, every byte verified, ready to score with.

    Raises ModelError where there is none, ModelUnsupported for a foreign or newer format, ModelDamaged where something
    is missing or altered.
    """
    content, digest = SEAL.read(folder)
    try:
        weights = SEAL.weights(folder, content)
        model = BiCLA(int(content["dim"]), built(Settings, content["settings"], "settings"))
        model.load_state_dict(load(weights))
        return TrainedBiCLA(model.to(device).eval(), dict(content["facts"]), digest)
    except (KeyError, TypeError, ValueError, RuntimeError, SafetensorError, InputError) as error:
        raise SEAL.misfit(folder, error) from error


DEV = 100  # held-out pairs that are scored at once
TRIES = 64  # draws for one random negative
COMMON = 10_000  # words of a language, the most frequent ones, whose principal components training begins with
SHRUNK = 0.1  # of the mean variance, added to every direction's


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
    """The loss of eq. 7.

    Args:
        margin: eps of eq. 7.
        l2: lambda of eq. 7.
        shared: Every second sentence of a step is a negative of every first one, unless it is its mate or reads like
            its mate. All these count as much as the K negatives of the paper do.
    """

    margin: float = 1.0
    l2: float = 1e-4
    shared: bool = False


@dataclass(frozen=True)
class OptimizerSettings:
    """``rate``: of Adam; ``share``: how much of what training changes is kept, from 0 to 1: the rest of each weight is
    as training began (Wortsman et al. 2022, "Robust fine-tuning of zero-shot models", section 3).

    What is evaluated and saved is the model so averaged; training itself continues with the whole change.
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
        """Make the settings from the tables of a TOML file; raises InputError naming what is wrong."""
        config = configured(cls, tables)
        data = config.data
        if data.batch < 1 or not 0 <= data.hard <= data.negatives or data.negatives < 1 or data.words < 1:
            raise InputError(
                f"[data] batch {data.batch}, negatives {data.negatives}, hard {data.hard}, words {data.words}; "
                "expected 1 or more of each, and hard from 0 to negatives"
            )
        if not 0 <= config.optimizer.share <= 1:
            raise InputError(f"[optimizer] share {config.optimizer.share}; expected 0 (as it began) to 1 (as trained)")
        check_least(config, loss={"margin": 0, "l2": 0}, optimizer={"rate": 0})
        return config


class Pairs(NamedTuple):
    """Sentence pairs as rows of their languages' matrices: ``first``, ``second``; ``hard`` (n, hard) negatives of each.

    ``group`` (n,): second sentences of the same words have the same number, and are not negatives of each other.
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

    sentences: PaddedVectors
    pairs: int
    mates: Tensor


class BiCLATask:
    """See `trainer.Task` and `trainer.StatefulTask`. ``data``: the folder of the sentence pairs;
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
        """See `StatefulTask.stepped`."""

    def state(self) -> dict[str, Tensor]:
        """See `StatefulTask.state`: the weights before training, which another machine may compute otherwise (the signs
        of principal components).
        """
        return {str(place): value for place, value in enumerate(self._began)} if self.config.optimizer.share < 1 else {}

    def facts(self) -> dict[str, Any]:
        """The settings, and which vectors they go with."""
        hashes = {name: space.facts.get("hash", "") for name, space in zip(self.languages, self.spaces, strict=True)}
        return {
            **facts_of("bicla", self.config),
            "vectors": hashes,
            "pairs": [len(self.train.first), len(self.dev.first)],
        }

    def groups(self) -> list[tuple[list[nn.Parameter], float]]:
        """All parameters have one learning rate."""
        return [(list(self.module.parameters()), self.config.optimizer.rate)]

    def batch(self, number: int) -> Batch:
        """See `Task.batch`: pass after pass over the pairs, each in an order of its own."""
        data, seed = self.config.data, self.config.loop.seed
        rows = rows_in_turn(number, data.batch, len(self.train.first), seed)
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
        precisions = []
        with self.averaged(self.config.optimizer.share):
            for at in range(0, len(self.dev.first), DEV):
                rows = list(range(at, min(at + DEV, len(self.dev.first))))
                batch = self._batch(self.dev, rows, [self._held[row] for row in rows])
                with autocast():
                    precisions.append(self._scores(batch))
        scores = torch.cat(precisions)
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
        weights = [parameter.detach().clone() for parameter in parameters] if share < 1 else []
        for parameter, began in zip(parameters, self._began, strict=True):
            parameter.data.lerp_(began, 1 - share)
        try:
            yield
        finally:
            for parameter, whole in zip(parameters, weights, strict=False):
                parameter.data.copy_(whole)

    def _scores(self, batch: Batch) -> Tensor:
        """(m, 1 + K), the true pairs first."""
        times = 1 + self.config.data.negatives
        first, second = self._encoded(batch)
        scores: Tensor = self.module(first.repeat(times), second)
        return scores.view(-1, times).float()

    def _encoded(self, batch: Batch) -> tuple[EncodedSentences, EncodedSentences]:
        """The first sentences and the second ones."""
        values, lengths = batch.sentences
        if self.module.settings.separate:
            sides = slice(0, batch.pairs), slice(batch.pairs, None)
            first, second = (self.module.encode(PaddedVectors(values[s], lengths[s]), n) for n, s in enumerate(sides))
            return first, second
        encodings = self.module.encode(batch.sentences)
        return encodings.rows(0, batch.pairs), encodings.rows(batch.pairs, None)

    def _shared(self, batch: Batch) -> Tensor:
        """(m, 1 + m (1 + K)), the true pairs first; -inf for what is not a negative."""
        scores = self.module.all_pairs(*self._encoded(batch)).float()
        positive = scores[:, :: 1 + self.config.data.negatives].diagonal()[:, None]  # (m, 1)
        return torch.cat([positive, scores.masked_fill(batch.mates.to(scores.device), -torch.inf)], 1)

    def _batch(self, pairs: Pairs, rows: Sequence[int], negatives: Sequence[Sequence[int]]) -> Batch:
        left, right = (space.matrix for space in self.spaces)
        second = [
            number for row, negative_rows in zip(rows, negatives, strict=True) for number in (row, *negative_rows)
        ]
        sentences = [left[pairs.first[row]] for row in rows] + [right[pairs.second[number]] for number in second]
        mates = pairs.group[list(rows)][:, None] == pairs.group[second]
        return Batch(pad(sentences), len(rows), torch.from_numpy(mates))

    def _read(self, path: Path) -> Pairs:
        data = self.config.data
        if not path.is_file():
            raise InputError(f"{path}: no such file; expected sentence pairs, the two languages separated by a tab")
        stop = [stop_words(language) if data.stop_words else frozenset() for language in self.languages]
        numbers = []
        for texts in ParallelText(path):
            wordlists = [content_words(text, item) for text, item in zip(texts, stop, strict=True)]
            rows = [space.rows(item) for space, item in zip(self.spaces, wordlists, strict=True)]
            if min(map(len, rows)) >= data.words:
                numbers.append((wordlists, rows))
        if len(numbers) <= data.negatives:
            raise InputError(
                f"{path}: {len(numbers)} pairs with {data.words} known words or more on both sides; expected more than "
                f"{data.negatives}; give more text, other vectors, or a lower data.words"
            )
        group = numbered(tuple(wordlists[1]) for wordlists, _ in numbers)
        first, second = (sums([wordlists[side] for wordlists, _ in numbers], self.spaces[side]) for side in (0, 1))
        hard = hardest(first, second, group, data.hard)
        return Pairs([rows[0] for _, rows in numbers], [rows[1] for _, rows in numbers], group, hard, (first, second))


def within(first: Floats, second: Floats) -> Floats:
    """(dim, dim), symmetric: a row times it is a row of a space in which mates, (n, dim) each, are more alike.

    (S + .1 tr S / dim)^(-1/4), with S the mean of d d^T over the mates' differences d: directions in which mates differ
    count less. Where none differ, it is the identity. It is the within-class covariance normalisation of Hatch,
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
    rows = np.empty((len(first), count), np.int64)
    for part, values in blocks(first, second):
        values[group[part][:, None] == group] = -np.inf
        rows[part] = topk(values, count)[0]
    return rows


def _negatives(pairs: Pairs, row: int, count: int, draw: np.random.Generator) -> list[int]:
    """The hard negatives of a pair and random ones, no two alike."""
    hard_rows: list[int] = pairs.hard[row].tolist()
    group = pairs.group[row]
    for _ in range(TRIES * count):
        if len(hard_rows) == count:
            return hard_rows
        negative = int(draw.integers(len(pairs.group)))
        if pairs.group[negative] != group and negative not in hard_rows:
            hard_rows.append(negative)
    raise InputError(f"{len(pairs.group)} pairs: too few to draw {count} different negatives from; give more text")


def _right(scores: Tensor) -> Tensor:
    """(m,) 1.0 where the true pair is above all its negatives."""
    return (scores[:, :1] > scores[:, 1:]).all(1).float()


def _languages(pair: str) -> tuple[str, str]:
    source, dash, target = pair.partition("-")
    if not (source and dash and target) or source == target:
        raise InputError(f"[data] pair: {pair!r}; expected two languages such as de-en")
    return source, target

"""BiCLA: the score of a sentence pair by cross-attention, read from word vectors of one multilingual space.

Glavaš and Vulić, "Zero-Shot Language Transfer for Cross-Lingual Sentence Retrieval Using Bidirectional Attention Model"
(ECIR 2019). One BiLSTM reads the word vectors of both sentences, so that h_i^1 and h_j^2 are of one space; then::

    m_ij = tanh(h_i^1 W h_j^2 + b)                            eq. 1, how well word i of the one and j of the other match
    alpha_ij = exp m_ij / sum_j' exp m_ij'                    eq. 2
    hbar_i^1 = sum_j alpha_ij h_j^2                           eq. 3, and hbar_j^2 likewise with a W and b of its own
    gamma_i = tanh(hbar_i . v + b),  e = sum_i gamma_i hbar_i eq. 4, of each sentence with its own v and b
    s = tanh(e^1 W_B e^2 + b_B)                               eq. 5
    J = sum over negatives of max(0, eps - s+ + s-) + lambda |Theta|^2     eq. 7 (eq. 6 and 8 are in baselines.py)

Without the cross-attention (hbar = h) it is the paper's InAtt. Ours are: a sentence without words is e = 0, so its
score is tanh(b_B); the sum of eq. 7 is divided by the number of true pairs; what the paper does not say, how long
word vectors are and how training begins (`Settings`); and, as an option, a cosine in eq. 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from phrasemate.errors import InputError

Floats = NDArray[np.float32]
CHUNK = 4096  # sentences of a side whose states are held at once: 0.8 GB where they have 60 words
ENCODED = 256  # sentences that the BiLSTM reads at once
CELLS = 1 << 17  # word pairs of one query with a block of documents: so much stays in the processor's cache
STARTS = ("mates", "words", "identity", "random")
OPEN, SHUT = 3.0, -3.0  # biases at which a gate lets all but 5 % through, or none but 5 %
REACH = 0.1  # of the projection that the BiLSTM may begin as: tanh is nearly linear then
MATCH = 0.5  # of a cosine of words, so that eq. 1 begins as a mean of all words that leans to the like ones
SCALE, SHIFT = 5.0, -1.5  # of a cosine, so that eq. 5 begins where tanh is neither flat nor of one sign
TINY = 1e-30  # instead of a sum over no words


@dataclass(frozen=True)
class Settings:
    """``hidden``: H, of each direction; ``cross`` False: InAtt; ``tied_cross``, ``tied_intra``: both sentences share W
    and b of eq. 1, v and b of eq. 4.

    ``scaled``: every word vector is brought to the length sqrt(dim). ``normalised``: eq. 5 is tanh(c cos(e^1 W_B, e^2)
    + b_B) with a learnt c; as the paper has it, long sentences score higher than short ones with whatever query, which
    it can only unlearn for the lengths that it is trained on.

    ``start``: "random": Xavier's uniform weights; "identity": W and W_B begin as multiples of the identity, and v and b
    of eq. 4 as 0 and 1, so that like words match, all words count alike, and like sentences score high from the first
    step; "words": besides, the BiLSTM begins as a projection of each word by itself onto principal components
    (`BiCLA.begin_with`), so that the first scores, normalised ones, are about as good as AGG's (eq. 6); "mates": the
    same in a metric in which the sums of true pairs' word vectors are alike (`bicla_task.within`), and so better.
    """

    hidden: int = 100  # the paper, section 4.1
    cross: bool = True
    tied_cross: bool = False
    tied_intra: bool = False
    scaled: bool = True
    normalised: bool = False
    start: str = "identity"


class Padded(NamedTuple):
    """Word vectors of n sentences: ``values`` (n, T, dim), zero after a sentence's ``lengths`` (n,), on the CPU."""

    values: Tensor
    lengths: Tensor


class Encoded(NamedTuple):
    """States of n sentences: ``states`` (n, T, 2H), zero where ``mask`` (n, T) is: 1 for a word, 0 for padding."""

    states: Tensor
    mask: Tensor

    def each(self, times: int) -> Encoded:
        """Every sentence so many times, one after the other."""
        return Encoded(self.states.repeat_interleave(times, 0), self.mask.repeat_interleave(times, 0))

    def rows(self, start: int, end: int | None) -> Encoded:
        """Some of the sentences."""
        return Encoded(self.states[start:end], self.mask[start:end])

    def apart(self) -> list[Tensor]:
        """(T_i, 2H) of each sentence, without padding."""
        lengths = self.mask.sum(1).int().tolist()
        return [row[:length] for row, length in zip(self.states, lengths, strict=True)]


def pad(sentences: Sequence[Floats]) -> Padded:
    """Sentences (T_i, dim) of word vectors, side by side; T_i may be 0. Raises InputError for none."""
    if not sentences:
        raise InputError("no sentences to pad; expected one or more")
    lengths = np.array([len(each) for each in sentences])
    values = np.zeros((len(sentences), max(1, lengths.max()), sentences[0].shape[1]), np.float32)
    for row, each in zip(values, sentences, strict=True):
        row[: len(each)] = each
    return Padded(torch.from_numpy(values), torch.from_numpy(lengths))


class BiCLA(nn.Module):
    """The network for word vectors of ``dim`` dimensions; equations as in the docstring of the module."""

    def __init__(self, dim: int, settings: Settings) -> None:
        super().__init__()
        if settings.hidden < 1 or settings.start not in STARTS:
            starts = f"{', '.join(STARTS[:-1])} or {STARTS[-1]}"
            raise InputError(f"hidden {settings.hidden}, start {settings.start!r}; expected 1 or more, and {starts}")
        self.dim, self.settings = dim, settings
        width, cross, intra = 2 * settings.hidden, 2 - settings.tied_cross, 2 - settings.tied_intra
        self.encoder = nn.LSTM(dim, settings.hidden, batch_first=True, bidirectional=True)
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
        if self.settings.start != "random":
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
        hidden = self.settings.hidden
        if min(vectors.shape) < 2 * hidden or vectors.shape[1:] != (self.dim,):
            expected = f"(words, {self.dim}), {2 * hidden} or more of either"
            raise InputError(
                f'start "{self.settings.start}" with word vectors of shape {vectors.shape}; expected {expected}'
            )
        normal = functional.normalize(torch.from_numpy(vectors), dim=1)
        turned = torch.eye(self.dim) if metric is None else torch.from_numpy(metric)
        turned = turned / (normal @ turned).square().sum(1).mean().sqrt()  # words stay as long as they are, on the mean
        seen = normal @ turned
        axes = torch.linalg.eigh(seen.T @ seen).eigenvectors.flip(1).T @ turned  # (dim, dim), the longest axis first
        gates = torch.tensor([OPEN, SHUT, 0.0, OPEN]).repeat_interleave(hidden)  # input, forget, cell, output
        for first, direction in enumerate(("", "_reverse")):
            weights = {name: getattr(self.encoder, f"{name}_l0{direction}") for name in _LSTM}
            for weight in weights.values():
                weight.zero_()
            weights["bias_ih"].copy_(gates)
            weights["weight_ih"][2 * hidden : 3 * hidden] = REACH * axes[first : 2 * hidden : 2]
        self._like_matches_like(MATCH / REACH**2, 1 / REACH**2)

    def match(self, side: int) -> tuple[Tensor, Tensor]:
        """The W (2H, 2H) and b () of eq. 1, for the first sentence (0) or the second (1)."""
        which = min(side, len(self.match_bias) - 1)
        return self.match_weight[which], self.match_bias[which]

    def attention(self, side: int) -> tuple[Tensor, Tensor]:
        """The v (2H,) and b () of eq. 4."""
        which = min(side, len(self.sum_bias) - 1)
        return self.sum_weight[which], self.sum_bias[which]

    def encode(self, sentences: Padded) -> Encoded:
        """The BiLSTM. Padding is never read: the backward direction begins at the last word."""
        values, lengths = sentences.values.to(self.score_weight), sentences.lengths
        if self.settings.scaled:
            values = functional.normalize(values, dim=2) * self.dim**0.5
        packed = pack_padded_sequence(values, lengths.clamp(min=1), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.encoder(packed)[0], batch_first=True, total_length=values.shape[1])
        mask = (torch.arange(values.shape[1]) < lengths[:, None]).to(states)  # (n, T)
        return Encoded(states * mask[:, :, None], mask)

    def forward(self, first: Encoded, second: Encoded) -> Tensor:
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

    def all_pairs(self, first: Encoded, second: Encoded) -> Tensor:
        """(m, n) scores of m first sentences with each of n second ones: the same numbers as `forward`, quicker."""
        block = _Block(self, second)
        return torch.tanh(torch.stack([block.scores(query) for query in first.apart()]))

    def _crossed(self, own: Encoded, other: Encoded, side: int) -> Tensor:
        """(n, T, 2H) hbar: each word as a mean of the words of the other sentence."""
        if not self.settings.cross:
            return own.states
        weight, bias = self.match(side)
        m = torch.tanh(own.states @ weight @ other.states.transpose(1, 2) + bias)  # (n, T, other T); eq. 1
        powers = m.exp() * other.mask[:, None]  # m is in (-1, 1): no need to subtract its maximum
        alpha = powers / powers.sum(2, keepdim=True).clamp(min=TINY)  # eq. 2
        return alpha @ other.states  # eq. 3

    def summed(self, hbar: Tensor, mask: Tensor, side: int) -> Tensor:
        """(n, 2H) e: the words' weighted sum; the weights are no distribution."""
        weight, bias = self.attention(side)
        gamma = torch.tanh(hbar @ weight + bias) * mask  # (n, T); eq. 4
        return (gamma[:, :, None] * hbar).sum(1)


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
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Floats:
    """(queries, documents) float32 scores of every pair of sentences, (T_i, dim) word vectors each.

    These are the scores of eq. 5 before the tanh, which does not change their order but makes equals of all above 9.
    The BiLSTM reads each sentence once (beyond ``chunk`` sentences on both sides, once for every chunk of the other).
    The pairs are taken in blocks of a query and as many documents of like length as make ``cells`` pairs of words, so
    memory does not grow with their number, but for the answer. ``progress`` (pairs done, of all). Raises InputError for
    vectors of another width.
    """
    wrong = next((each.shape for side in (queries, documents) for each in side if each.shape[1:] != (model.dim,)), None)
    if wrong is not None:
        raise InputError(f"word vectors of shape {wrong}; this BiCLA takes (words, {model.dim})")
    found, done = np.zeros((len(queries), len(documents)), np.float32), 0
    for rows in _by_length(queries, chunk):
        asked = _states(model, [queries[row] for row in rows])
        for columns in _by_length(documents, chunk):
            held = _states(model, [documents[column] for column in columns])
            for start, end in _cuts(asked, held, cells):
                block = _Block(model, _side_by_side(held[start:end]))
                for row, query in zip(rows, asked, strict=True):
                    found[row, columns[start:end]] = block.scores(query).cpu().numpy()
                done += len(rows) * (end - start)
                progress(done, found.size)
    return found


class _Block:
    """D documents, to be scored against one query after the other.

    No hbar is computed: with k_j = sum_i gamma_i alpha_ij, the sums of eq. 4 are e^1 = sum_j k_j h_j^2, and their
    hbar_i . v are sum_j alpha_ij (h_j^2 . v). So a pair of sentences costs what eq. 1 costs and little more.
    """

    def __init__(self, model: BiCLA, held: Encoded) -> None:
        self._model = model
        self._states, self._mask = held  # (D, J, 2H), (D, J)
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
        there, back = self._powers(query)  # (I, D, J) each: exp m of eq. 1, and of its other direction
        total, sums = (there.transpose(0, 1) @ self._sums).unbind(2)  # (D, I)
        total = total.clamp(min=TINY)
        k = (torch.tanh(sums / total + self._bias) / total)[:, None] @ there.transpose(0, 1)  # (D, 1, J)
        weight, bias = self._model.attention(1)
        total, sums = back.sum(0).clamp(min=TINY), torch.einsum("idj,i->dj", back, query @ weight)
        gamma = torch.tanh(sums / total + bias) * self._mask / total  # (D, J)
        e2 = (back.transpose(0, 1) @ gamma[:, :, None])[:, :, 0] @ query
        return (k @ self._scored)[:, 0], e2

    def _powers(self, query: Tensor) -> Tensor:
        """(2, I, D, J): exp tanh of eq. 1, both directions, but for a factor that eq. 2 cancels."""
        (w12, b12), (w21, b21) = self._model.match(0), self._model.match(1)
        asked = torch.cat([query @ w12, query @ w21.T])
        m = (asked @ self._states.flatten(0, 1).T).view(2, len(query), *self._mask.shape)
        m = m + torch.stack([b12, b21])[:, None, None, None]
        return torch.exp(2 * torch.sigmoid(2 * m))  # tanh x = 2 sigmoid(2 x) - 1, and sigmoid is six times as quick


def _by_length(sentences: Sequence[Floats], size: int) -> Iterator[NDArray[np.int64]]:
    """Places of the sentences, the short ones first, so many at once."""
    order = np.argsort([len(each) for each in sentences], kind="stable")
    yield from (order[at : at + size] for at in range(0, len(order), size))


def _states(model: BiCLA, sentences: Sequence[Floats]) -> list[Tensor]:
    """(T_i, 2H) states of each sentence."""
    found: list[Tensor] = []
    for at in range(0, len(sentences), ENCODED):
        found += [row.clone() for row in model.encode(pad(sentences[at : at + ENCODED])).apart()]
    return found


def _side_by_side(held: Sequence[Tensor]) -> Encoded:
    """(D, J, 2H) states with zeros after their ends, and where they are none."""
    states = nn.utils.rnn.pad_sequence([*held], batch_first=True)
    lengths = torch.tensor([len(each) for each in held], device=states.device)
    return Encoded(states, (torch.arange(states.shape[1], device=states.device) < lengths[:, None]).to(states))


def _cuts(asked: Sequence[Tensor], held: Sequence[Tensor], cells: int) -> Iterator[tuple[int, int]]:
    """Where the blocks begin and end: pairs of words of the longest query with a block are at most ``cells``."""
    longest, start = max(1, *(len(each) for each in asked)), 0
    for end in range(1, len(held) + 1):  # the last of a block is the longest
        if end == len(held) or (end + 1 - start) * max(1, len(held[end])) * longest > cells:
            yield start, end
            start = end

"""BiCLA: a cross-attention model that scores sentence pairs, on word vectors of one multilingual space.

Glavaš and Vulić, "Zero-Shot Language Transfer for Cross-Lingual Sentence Retrieval Using Bidirectional Attention Model"
(ECIR 2019). One BiLSTM reads the word vectors of both sentences, so that h_i^1 and h_j^2 share a space; then::

    m_ij = tanh(h_i^1 W h_j^2 + b)                            eq. 1, how well words i and j of the two sentences match
    alpha_ij = exp m_ij / sum_j' exp m_ij'                    eq. 2
    hbar_i^1 = sum_j alpha_ij h_j^2                           eq. 3; likewise hbar_j^2, with another W and b
    gamma_i = tanh(hbar_i . v + b),  e = sum_i gamma_i hbar_i eq. 4, with another v and b for each sentence
    s = tanh(e^1 W_B e^2 + b_B)                               eq. 5
    J = sum over negatives of max(0, eps - s+ + s-) + lambda |Theta|^2     eq. 7 (eq. 6 and 8 are in rank.py)

Without the cross-attention (hbar = h) it is the paper's InAtt. The sum of eq. 7 is divided by the number of true pairs.
A sentence without words has e = 0, so the score is tanh(b_B). The paper does not specify the scaling of word vectors
and the initialisation; `Settings` has options for them, and one to replace eq. 5 by a cosine.

The paper's code differs from the paper; the differences are options. Gamma in eq. 4 is a softmax over the words of the
sentence (``intra`` "softmax"). Weights are initialised by Xavier's method and biases to 0.1 (``start`` "xavier"). Each
side may have its own BiLSTM (``separate``). The code sums over the 10 pairs of a step and halves the squares, so its
lambda of 1e-4 corresponds to 5e-6 here.

The folder of a trained BiCLA does not contain the word vectors. Its configuration records the training data.

Training (section 4.1): each true pair of a batch has K = 4 negatives. Half of them are random, half are the most
similar to the first sentence by AGG (eq. 6), except its mate.
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

CHUNK = 4096  # sentences of a side whose states are in memory at once: 0.8 GB at 60 words a sentence
ENCODED = 256  # sentences in a batch of the BiLSTM
CELLS = 1 << 17  # word pairs of a query with a block of documents, sized for the processor's cache
STARTS = ("mates", "words", "identity", "random", "xavier")
INTRA = ("tanh", "softmax")
BIAS = 0.1  # initial bias in the paper's code
OPEN, SHUT = 3.0, -3.0  # gate biases that let 95 % or 5 % through
REACH = 0.1  # scale of the initial projection, small enough for tanh to be nearly linear
MATCH = 0.5  # initial factor of words' cosines in eq. 1: almost uniform attention, with a preference for similar words
SCALE, SHIFT = 5.0, -1.5  # initial factor and bias of the cosine in eq. 5, where tanh is neither flat nor of one sign
TINY = 1e-30  # least divisor


@dataclass(frozen=True)
class Settings:
    """Architecture and initialisation of BiCLA.

    Args:
        hidden: Hidden size H of each direction.
        cross: Whether to use cross-attention; without, the model is InAtt.
        tied_cross: Whether both sentences share W and b of eq. 1.
        tied_intra: Whether both sentences share v and b of eq. 4.
        intra: gamma of eq. 4: "tanh" (paper), or "softmax" of the tanh over the words of a sentence (the paper's code).
        separate: Whether each side has its own BiLSTM.
        scaled: Whether word vectors are scaled to the length sqrt(dim).
        normalised: Whether eq. 5 is tanh(c cos(e^1 W_B, e^2) + b_B) with a learned c. In the paper's form, long
            sentences score higher with any query; training corrects this only for the lengths that it has seen.
        start: Initialisation. "random": Xavier's uniform weights, torch's LSTM. "xavier": Xavier's weights everywhere,
            biases 0.1, in the LSTM 0 (the paper's code). "identity": W and W_B are multiples of the identity, v and b
            of eq. 4 are 0 and 1. Then similar words match, all words count equally, and similar sentences score high
            from the first step. "words": also, the BiLSTM projects each word onto principal components
            (`BiCLA.begin_with`); initial normalised scores are about as good as AGG's (eq. 6). "mates": as "words", in
            a metric that makes the vector sums of true pairs similar (`within`), and better.
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
    """Word vectors of n sentences on the CPU: ``values`` (n, T, dim), zero-padded, and ``lengths`` (n,)."""

    values: Tensor
    lengths: Tensor


class EncodedSentences(NamedTuple):
    """States of n sentences: ``states`` (n, T, 2H), zero for padding, and ``mask`` (n, T), 1 for a word."""

    states: Tensor
    mask: Tensor

    def repeat(self, times: int) -> EncodedSentences:
        """Repeat each sentence, in consecutive rows."""
        return EncodedSentences(self.states.repeat_interleave(times, 0), self.mask.repeat_interleave(times, 0))

    def rows(self, start: int, end: int | None) -> EncodedSentences:
        """Select sentences by their rows."""
        return EncodedSentences(self.states[start:end], self.mask[start:end])

    def apart(self) -> list[Tensor]:
        """Split into (T_i, 2H) states of each sentence, without padding."""
        lengths = self.mask.sum(1).int().tolist()
        return [row[:length] for row, length in zip(self.states, lengths, strict=True)]


def pad(sentences: Sequence[NDArray[np.floating]]) -> PaddedVectors:
    """Pad sentences, (T_i, dim) word vectors each; T_i may be 0. Raises InputError for an empty list."""
    if not sentences:
        raise InputError("no sentences to pad; expected one or more")
    lengths = np.array([len(item) for item in sentences])
    values = np.zeros((len(sentences), max(1, lengths.max()), sentences[0].shape[1]), np.float32)
    for row, sentence in zip(values, sentences, strict=True):
        row[: len(sentence)] = sentence
    return PaddedVectors(torch.from_numpy(values), torch.from_numpy(lengths))


class BiCLA(nn.Module):
    """BiCLA network for word vectors of ``dim`` dimensions; equations: see the module."""

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
            self.match_weight = nn.Parameter(torch.empty(cross, width, width))  # W of eq. 1, one per side unless tied
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
        """Initialise the weights by ``settings.start``."""
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
        """Set W (eq. 1) to ``words`` / 2H times the identity, and W_B (eq. 5) to ``sentences`` / 2H times it."""
        width = len(self.score_weight)
        matches = [*self.match_weight] if self.settings.cross else []
        for matrix, size in (*((match, words) for match in matches), (self.score_weight, sentences)):
            matrix.copy_(torch.eye(width) * (size / width))

    @torch.no_grad()
    def begin_with(self, vectors: Floats, metric: Floats | None = None) -> None:
        """Initialise the BiLSTM as tanh of 2H principal components of ``vectors`` (words, dim), without memory.

        The components alternate between the forward and the backward direction. Word vectors are first multiplied by
        the symmetric ``metric`` (dim, dim). If 2H = dim, m_ij of eq. 1 is initially about tanh(0.4 cos) of the two
        words. Raises InputError for fewer words or dimensions than 2H.
        """
        hidden_size = self.settings.hidden
        if min(vectors.shape) < 2 * hidden_size or vectors.shape[1:] != (self.dim,):
            shape = f"(words, {self.dim}), {2 * hidden_size} or more of either"
            raise InputError(
                f'start "{self.settings.start}" with word vectors of shape {vectors.shape}; expected {shape}'
            )
        normal = functional.normalize(torch.from_numpy(vectors), dim=1)
        start_matrix = torch.eye(self.dim) if metric is None else torch.from_numpy(metric)
        # keep the mean length of words
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
        """Return W (2H, 2H) and b () of eq. 1 for side 0 (the first sentence) or 1 (the second)."""
        side_row = min(side, len(self.match_bias) - 1)
        return self.match_weight[side_row], self.match_bias[side_row]

    def attention(self, side: int) -> tuple[Tensor, Tensor]:
        """Return v (2H,) and b () of eq. 4 for a side."""
        side_row = min(side, len(self.sum_bias) - 1)
        return self.sum_weight[side_row], self.sum_bias[side_row]

    def encode(self, sentences: PaddedVectors, side: int = 0) -> EncodedSentences:
        """Run the BiLSTM on first (``side`` 0) or second (1) sentences; the backward direction skips the padding."""
        encoder = self.second_encoder if side and self.settings.separate else self.encoder
        values, lengths = sentences.values.to(self.score_weight), sentences.lengths
        if self.settings.scaled:
            values = functional.normalize(values, dim=2) * self.dim**0.5
        sequence = pack_padded_sequence(values, lengths.clamp(min=1), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(encoder(sequence)[0], batch_first=True, total_length=values.shape[1])
        mask = (torch.arange(values.shape[1]) < lengths[:, None]).to(states)  # (n, T)
        return EncodedSentences(states * mask[:, :, None], mask)

    def forward(self, first: EncodedSentences, second: EncodedSentences) -> Tensor:
        """Compute the scores s of n pairs, (n,)."""
        left, right = self._crossed(first, second, 0), self._crossed(second, first, 1)
        e1, e2 = self.summed(left, first.mask, 0), self.summed(right, second.mask, 1)  # (n, 2H)
        return torch.tanh(self.similar(e1 @ self.score_weight, e2))  # eq. 5

    def similar(self, left: Tensor, right: Tensor) -> Tensor:
        """Compute the argument of tanh in eq. 5, (n,): ``left`` (n or 1, 2H) is e^1 W_B, ``right`` (n, 2H) is e^2."""
        products = (left * right).sum(1)
        if self.settings.normalised:
            products = self.score_scale * products / (left.norm(dim=1) * right.norm(dim=1)).clamp(min=TINY)
        return products + self.score_bias

    def all_pairs(self, first: EncodedSentences, second: EncodedSentences) -> Tensor:
        """Compute (m, n) scores of m first sentences with each of n second ones, faster than by `forward`."""
        block = _Block(self, second)
        return torch.tanh(torch.stack([block.scores(query) for query in first.apart()]))

    def _crossed(self, sentence: EncodedSentences, other: EncodedSentences, side: int) -> Tensor:
        """Compute hbar of eq. 3, (n, T, 2H): for each word, a weighted mean of the words of the other sentence."""
        if not self.settings.cross:
            return sentence.states
        weight, bias = self.match(side)
        m = torch.tanh(sentence.states @ weight @ other.states.transpose(1, 2) + bias)  # (n, T, other T); eq. 1
        powers = m.exp() * other.mask[:, None]  # m is in (-1, 1), so exp cannot overflow
        alpha = powers / powers.sum(2, keepdim=True).clamp(min=TINY)  # eq. 2
        return alpha @ other.states  # eq. 3

    def summed(self, hbar: Tensor, mask: Tensor, side: int) -> Tensor:
        """Compute e of eq. 4, (n, 2H): the weighted sum of the words."""
        weight, bias = self.attention(side)
        gamma = self.gamma(torch.tanh(hbar @ weight + bias), mask)  # (n, T); eq. 4
        return (gamma[:, :, None] * hbar).sum(1)

    def gamma(self, values: Tensor, mask: Tensor) -> Tensor:
        """Compute gamma of eq. 4, (n, T), from the tanh in it; 0 for padding."""
        if self.settings.intra == "tanh":
            return values * mask
        powers = values.exp() * mask
        return powers / powers.sum(1, keepdim=True).clamp(min=TINY)


_LSTM = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def contrastive_loss(scores: Tensor, margin: float) -> Tensor:
    """Compute the first term of eq. 7, averaged over true pairs: ``scores`` (true pairs, 1 + K), true pair first."""
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
    """Score all pairs of queries and documents, (T_i, dim) word vectors each: (queries, documents) float32.

    The scores are those of eq. 5 before the tanh, which keeps the order but maps all scores above 9 to 1. The BiLSTM
    reads each sentence once, or if both sides exceed ``chunk`` sentences, once per chunk of the other side. A query is
    scored with blocks of documents of similar length, up to ``cells`` pairs of words. So apart from the result, memory
    does not grow with the number of pairs. ``progress``: called with the pairs scored so far and in total. Raises
    InputError for vectors of another dimension.
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
    """Block of D documents that queries are scored against, one at a time.

    The hbar are not computed. With k_j = sum_i gamma_i alpha_ij, eq. 4 becomes e^1 = sum_j k_j h_j^2, and hbar_i . v =
    sum_j alpha_ij (h_j^2 . v). So the cost of a pair of sentences is little more than that of eq. 1.
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
        """Compute the argument of tanh in eq. 5, (D,), for a query's states (I, 2H)."""
        left, e2 = self._crossed(query) if self._model.settings.cross else self._plain(query)
        return self._model.similar(left, e2)

    def _plain(self, query: Tensor) -> tuple[Tensor, Tensor]:
        """Compute e^1 W_B (1, 2H) and e^2 (D, 2H) without cross-attention."""
        e1 = self._model.summed(query[None], query.new_ones(1, len(query)), 0)
        return e1 @ self._model.score_weight, self._own

    def _crossed(self, query: Tensor) -> tuple[Tensor, Tensor]:
        """Compute e^1 W_B and e^2, (D, 2H) each."""
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
        """Compute exp m of eq. 1 for both directions, (2, I, D, J), up to a factor that eq. 2 cancels."""
        (w12, b12), (w21, b21) = self._model.match(0), self._model.match(1)
        attention = torch.cat([query @ w12, query @ w21.T])
        m = (attention @ self._states.flatten(0, 1).T).view(2, len(query), *self._mask.shape)
        m = m + torch.stack([b12, b21])[:, None, None, None]
        return torch.exp(2 * torch.sigmoid(2 * m))  # tanh x = 2 sigmoid(2 x) - 1, and sigmoid is six times as fast


def _by_length(sentences: Sequence[Floats], size: int) -> Iterator[NDArray[np.int64]]:
    """Yield indices of sentences, sorted by length, in chunks of ``size``."""
    order = np.argsort([len(sentence) for sentence in sentences], kind="stable")
    yield from (order[at : at + size] for at in range(0, len(order), size))


def _states(model: BiCLA, sentences: Sequence[Floats], side: int) -> list[Tensor]:
    """Encode the sentences of a side: (T_i, 2H) states each."""
    states: list[Tensor] = []
    for at in range(0, len(sentences), ENCODED):
        states += [row.clone() for row in model.encode(pad(sentences[at : at + ENCODED]), side).apart()]
    return states


def _side_by_side(documents: Sequence[Tensor]) -> EncodedSentences:
    """Pad the states of documents to (D, J, 2H)."""
    states = nn.utils.rnn.pad_sequence([*documents], batch_first=True)
    lengths = torch.tensor([len(item) for item in documents], device=states.device)
    return EncodedSentences(states, (torch.arange(states.shape[1], device=states.device) < lengths[:, None]).to(states))


def _cuts(queries: Sequence[Tensor], documents: Sequence[Tensor], cells: int) -> Iterator[tuple[int, int]]:
    """Yield bounds of blocks with at most ``cells`` pairs of words with the longest query."""
    longest, start = max(1, *(len(item) for item in queries)), 0
    for end in range(1, len(documents) + 1):  # documents are sorted by length
        if end == len(documents) or (end + 1 - start) * max(1, len(documents[end])) * longest > cells:
            yield start, end
            start = end


SEAL = Seal("phrasemate-bicla", 1, "phrasemate train bicla", "train it again, or copy it again")


class TrainedBiCLA(NamedTuple):
    """Trained model, the ``facts`` of its training, and the ``hash`` (64 hex digits) of its folder."""

    model: BiCLA
    facts: dict[str, Any]
    hash: str


def save_bicla(model: BiCLA, folder: Path, facts: Mapping[str, Any]) -> None:
    """Write a BiCLA model into an existing folder; ``facts``: JSON data on its training."""
    tensors = {name: value.detach().float().cpu().contiguous() for name, value in model.state_dict().items()}
    content = {"dim": model.dim, "settings": asdict(model.settings), "facts": dict(facts)}
    SEAL.write(folder, save(tensors), content)


def folders_in(folder: Path) -> list[Path]:
    """Find the folders of trained models in a folder, itself included, sorted. Raises InputError if it is missing."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; expected one with runs of 'phrasemate train bicla' in it")
    mark = f'"format": "{SEAL.format}"'
    configs = (path for path in folder.rglob(CONFIG) if not path.parent.name.endswith(".part"))
    return sorted(path.parent for path in configs if mark in path.read_text(encoding="utf-8", errors="replace"))


def load_bicla(folder: Path, device: str = "cpu") -> TrainedBiCLA:
    """Load a BiCLA model after verifying its files.

    Raises ModelError if there is no model, ModelUnsupported for a foreign or newer format, and ModelDamaged for missing
    or altered files.
    """
    content, digest = SEAL.read(folder)
    try:
        weights = SEAL.weights(folder, content)
        model = BiCLA(int(content["dim"]), built(Settings, content["settings"], "settings"))
        model.load_state_dict(load(weights))
        return TrainedBiCLA(model.to(device).eval(), dict(content["facts"]), digest)
    except (KeyError, TypeError, ValueError, RuntimeError, SafetensorError, InputError) as error:
        raise SEAL.misfit(folder, error) from error


DEV = 100  # held-out pairs scored at once
TRIES = 64  # attempts to draw a random negative
COMMON = 10_000  # most frequent words of a language, for the principal components of the initialisation
SHRUNK = 0.1  # shrinkage: share of the mean variance added to the variance of each direction


@dataclass(frozen=True)
class DataSettings:
    """Training data: sentence pairs in DATA/pair/train.tsv and dev.tsv, word vectors in VECTORS/language.

    Args:
        pair: The two languages, source first.
        batch: True pairs of a batch.
        negatives: Negatives of each pair, K.
        hard: How many of them are chosen by AGG.
        words: Least number of known words of a sentence; shorter ones are dropped.
        stop_words: Whether stop words are left out of the sentences.
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
        shared: Whether each second sentence of a batch is a negative of every first one, except its mate and sentences
            with the mate's wording. Together they have the weight of the paper's K negatives.
    """

    margin: float = 1.0
    l2: float = 1e-4
    shared: bool = False


@dataclass(frozen=True)
class OptimizerSettings:
    """Learning ``rate`` of Adam, and ``share``, the weight of the trained parameters in a mean with the initial ones.

    Only the evaluated and saved model is averaged; training continues with the trained parameters (Wortsman et al.
    2022, "Robust fine-tuning of zero-shot models", section 3). ``share`` 1: no averaging.
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
    """Sentence pairs: ``first`` and ``second`` are rows of the languages' matrices of word vectors for each sentence.

    ``group`` (n,): equal for second sentences of the same words, which are not negatives of each other. ``hard`` (n,
    hard): pairs whose second sentences are hard negatives. ``sums``: for each side, (n, dim) unit vectors, the sums of
    word vectors.
    """

    first: list[Rows]
    second: list[Rows]
    group: Rows
    hard: Rows
    sums: tuple[Floats, Floats]


class Batch(NamedTuple):
    """Batch of m true pairs with negatives.

    ``sentences``: m first sentences, then m (1 + K) second ones, the mate of each and its negatives. ``pairs``: m.
    ``mates`` (m, m (1 + K)): whether a second sentence has the wording of the first sentence's mate.
    """

    sentences: PaddedVectors
    pairs: int
    mates: Tensor


class BiCLATask:
    """Training task of BiCLA (see `trainer.Task`); ``data`` and ``vectors`` are folders (see `DataSettings`)."""

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
        """See `StatefulTask.state`: the initial weights, which may differ on another machine (signs of components)."""
        return {str(place): value for place, value in enumerate(self._began)} if self.config.optimizer.share < 1 else {}

    def facts(self) -> dict[str, Any]:
        """Settings, hashes of the word vectors and numbers of pairs."""
        hashes = {name: space.facts.get("hash", "") for name, space in zip(self.languages, self.spaces, strict=True)}
        return {
            **facts_of("bicla", self.config),
            "vectors": hashes,
            "pairs": [len(self.train.first), len(self.dev.first)],
        }

    def groups(self) -> list[tuple[list[nn.Parameter], float]]:
        """See `Task.groups`: all parameters have the same learning rate."""
        return [(list(self.module.parameters()), self.config.optimizer.rate)]

    def batch(self, number: int) -> Batch:
        """See `Task.batch`; each epoch is shuffled differently."""
        data, seed = self.config.data, self.config.loop.seed
        rows = rows_in_turn(number, data.batch, len(self.train.first), seed)
        draw = np.random.default_rng((seed, number))
        return self._batch(self.train, rows, [_negatives(self.train, row, data.negatives, draw) for row in rows])

    def backward(self, batch: Batch, autocast: Callable[[], Any], scale: float) -> dict[str, float]:
        """See `Task.backward`; ``loss`` has no L2 term, ``acc@1`` is the share of pairs above all their negatives."""
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
        """Compute loss and acc@1 on the held-out pairs, with fixed negatives; ``score`` is -loss."""
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
        """Average the module's weights with the initial ones (`OptimizerSettings`) inside the context."""
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
        """Score a batch: (m, 1 + K), true pairs first."""
        times = 1 + self.config.data.negatives
        first, second = self._encoded(batch)
        scores: Tensor = self.module(first.repeat(times), second)
        return scores.view(-1, times).float()

    def _encoded(self, batch: Batch) -> tuple[EncodedSentences, EncodedSentences]:
        """Encode the first and the second sentences of a batch."""
        values, lengths = batch.sentences
        if self.module.settings.separate:
            sides = slice(0, batch.pairs), slice(batch.pairs, None)
            first, second = (self.module.encode(PaddedVectors(values[s], lengths[s]), n) for n, s in enumerate(sides))
            return first, second
        encodings = self.module.encode(batch.sentences)
        return encodings.rows(0, batch.pairs), encodings.rows(batch.pairs, None)

    def _shared(self, batch: Batch) -> Tensor:
        """Score a batch with shared negatives: (m, 1 + m (1 + K)), true pairs first; -inf for second mates."""
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
    """Compute a symmetric (dim, dim) metric in which mates, rows of (n, dim) ``first`` and ``second``, are more
    similar.

    The metric (S + 0.1 tr S / dim)^(-1/4), where S is the mean of d d^T over the differences d of mates, reduces the
    directions in which mates differ. Without differences, it is the identity. With the exponent -1/2, this would be
    the normalisation of Hatch, Kajarekar and Stolcke (2006, "Within-class covariance normalization for SVM-based
    speaker recognition").
    """
    apart = (first - second).astype(np.float64)
    values, axes = np.linalg.eigh(apart.T @ apart / len(apart))
    if values.mean() <= 0:
        return np.eye(len(values), dtype=np.float32)
    metric: Floats = ((axes * (values + SHRUNK * values.mean()) ** -0.25) @ axes.T).astype(np.float32)
    return metric


def hardest(first: Floats, second: Floats, group: Rows, count: int) -> Rows:
    """Find the ``count`` rows of ``second`` most similar to each row of ``first``, both (n, dim): (n, count), best
    first.

    Rows of the same ``group`` (n,), such as the mate, are excluded. Raises InputError if fewer than ``count`` remain.
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
    """Return the hard negatives of a pair and random ones, ``count`` distinct rows in all."""
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
    """Mark the true pairs that score above all their negatives, (m,) 1.0 or 0.0."""
    return (scores[:, :1] > scores[:, 1:]).all(1).float()


def _languages(pair: str) -> tuple[str, str]:
    source, dash, target = pair.partition("-")
    if not (source and dash and target) or source == target:
        raise InputError(f"[data] pair: {pair!r}; expected two languages such as de-en")
    return source, target

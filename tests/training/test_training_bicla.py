"""BiCLA: every equation by hand, gradients, padding, blocks, the loss, the folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from phrasemate.errors import InputError, ModelDamaged, ModelError, ModelUnsupported
from phrasemate.training.bicla import BiCLA, Settings, contrastive_loss, load_bicla, pad, save_bicla, score_matrix

Floats = NDArray[np.float32]
VARIANTS = [
    Settings(hidden=3),
    Settings(hidden=3, cross=False),
    Settings(hidden=3, tied_cross=True, tied_intra=True),
    Settings(hidden=3, cross=False, tied_intra=True),
    Settings(hidden=3, scaled=False, start="random"),
    Settings(hidden=3, normalised=True),
    Settings(hidden=3, normalised=True, cross=False, start="words"),
    Settings(hidden=3, intra="softmax", separate=True, start="xavier"),
    Settings(hidden=3, intra="softmax", cross=False),
]


def network(settings: Settings, dim: int = 4, seed: int = 1) -> BiCLA:
    """With weights and biases large enough that every one of them matters."""
    torch.manual_seed(seed)
    model = BiCLA(dim, settings)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return model.eval()


def sentences(lengths: list[int], dim: int = 4, seed: int = 2) -> list[Floats]:
    draw = np.random.default_rng(seed)
    return [draw.normal(size=(length, dim)).astype(np.float32) for length in lengths]


def lstm(model: BiCLA, words: NDArray[np.float64], suffix: str, side: int) -> NDArray[np.float64]:
    """One direction, written out: input, forget, cell, output gate."""
    encoder = model.second_encoder if side and model.settings.separate else model.encoder
    parameters = {name: value.detach().double().numpy() for name, value in encoder.named_parameters()}
    size = model.settings.hidden
    h, c, states = np.zeros(size), np.zeros(size), []
    for x in words:
        gates = parameters[f"weight_ih_l0{suffix}"] @ x + parameters[f"bias_ih_l0{suffix}"]
        gates += parameters[f"weight_hh_l0{suffix}"] @ h + parameters[f"bias_hh_l0{suffix}"]
        i, f, o = (1 / (1 + np.exp(-gates[at * size : (at + 1) * size])) for at in (0, 1, 3))
        c = f * c + i * np.tanh(gates[2 * size : 3 * size])
        h = o * np.tanh(c)
        states.append(h)
    return np.array(states).reshape(-1, size)


def scaled(model: BiCLA, words: Floats) -> NDArray[np.float64]:
    """To the length sqrt(dim) of each word, where the model wants it."""
    long = [np.sqrt(word.size) / np.sqrt((word**2).sum()) if model.settings.scaled else 1.0 for word in words]
    return np.array([word.astype(np.float64) * times for word, times in zip(words, long, strict=True)])


def by_hand(model: BiCLA, first: Floats, second: Floats) -> float:
    """The score of one pair, word by word in plain loops, as the equations have it."""
    parameters = {name: value.detach().double().numpy() for name, value in model.named_parameters()}
    h1, h2 = (
        np.concatenate([lstm(model, words, "", side), lstm(model, words[::-1], "_reverse", side)[::-1]], 1)
        for side, words in enumerate((scaled(model, first), scaled(model, second)))
    )

    def side(own_states: NDArray[np.float64], other: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        h_bars, gammas = [], []
        v = parameters["sum_weight"][number % len(parameters["sum_weight"])]
        b_intra = parameters["sum_bias"][number % len(parameters["sum_bias"])]
        for h_i in own_states:
            h_bar = h_i
            if model.settings.cross:
                w = parameters["match_weight"][number % len(parameters["match_weight"])]
                b = parameters["match_bias"][number % len(parameters["match_bias"])]
                m = [np.tanh(h_i @ w @ h_j + b) for h_j in other]  # eq. 1
                alpha = [np.exp(item) / sum(np.exp(m)) for item in m]  # eq. 2
                h_bar = sum((a * h_j for a, h_j in zip(alpha, other, strict=True)), np.zeros(len(v)))  # eq. 3
            h_bars.append(h_bar)
            gammas.append(np.tanh(h_bar @ v + b_intra))
        if model.settings.intra == "softmax":
            gammas = [np.exp(gamma) / sum(np.exp(gammas)) for gamma in gammas]
        return sum((gamma * h_bar for gamma, h_bar in zip(gammas, h_bars, strict=True)), np.zeros(len(v)))  # eq. 4

    e1, e2 = side(h1, h2, 0), side(h2, h1, 1)
    product = e1 @ parameters["score_weight"] @ e2
    if model.settings.normalised:
        product *= parameters["score_scale"] / np.linalg.norm(e1 @ parameters["score_weight"]) / np.linalg.norm(e2)
    return float(np.tanh(product + parameters["score_bias"]))  # eq. 5


@pytest.mark.parametrize("settings", VARIANTS)
def test_a_forward_pass_by_hand(settings: Settings) -> None:
    """Two sentences of two and three words; all variants, InAtt among them."""
    model, (first, second) = network(settings), sentences([2, 3])
    answers = model(model.encode(pad([first])), model.encode(pad([second]), 1))
    assert answers.item() == pytest.approx(by_hand(model, first, second), abs=1e-5)
    matrix = score_matrix(model, [first], [second])
    assert np.tanh(matrix[0, 0]) == pytest.approx(by_hand(model, first, second), abs=1e-5)


def test_the_sides_differ_unless_tied() -> None:
    """Without ties, the score of (a, b) is not that of (b, a) under the transposed W_B; with both tied, it is."""
    first, second = sentences([3, 4])
    scores = {}
    for settings in (VARIANTS[0], VARIANTS[2]):
        model = network(settings)
        score = score_matrix(model, [first], [second])[0, 0]
        with torch.no_grad():
            model.score_weight.copy_(model.score_weight.T.clone())
        scores[settings] = score - score_matrix(model, [second], [first])[0, 0]
    assert abs(scores[VARIANTS[0]]) > 0.01
    assert abs(scores[VARIANTS[2]]) < 1e-5


def test_how_training_begins() -> None:
    """Identities: like sentences score high before the first step; random weights know nothing."""
    torch.manual_seed(0)
    model = BiCLA(16, Settings())
    assert torch.equal(model.match_weight[1].detach(), torch.eye(200) * 20 / 200)
    assert torch.equal(model.score_weight.detach(), torch.eye(200) * 10 / 200)
    assert (model.sum_bias.tolist(), model.match_bias.tolist()) == ([1.0, 1.0], [0.0, 0.0])
    assert not model.sum_weight.any()  # all words count alike
    assert BiCLA(16, Settings(start="random")).sum_weight.all()
    xavier = BiCLA(16, Settings(start="xavier"))
    assert {xavier.score_bias.item(), *xavier.match_bias.tolist(), *xavier.sum_bias.tolist()} == {np.float32(0.1)}
    assert not xavier.encoder.bias_ih_l0.any()
    most = (6 / (16 + 4 * 100)) ** 0.5  # of Glorot and Bengio's uniform weights
    assert most * 0.95 < xavier.encoder.weight_ih_l0.abs().max().item() <= most
    first = sentences([4] * 40, dim=16)
    second = [words[::-1] + 0.3 * np.random.default_rng(row).normal(size=(4, 16)) for row, words in enumerate(first)]
    right = {}
    for start in ("identity", "random"):
        scores = score_matrix(BiCLA(16, Settings(start=start)), first, [words.astype(np.float32) for words in second])
        right[start] = (scores.argmax(1) == np.arange(40)).mean()
    assert right["identity"] > 0.4
    assert right["random"] < 0.2


def test_the_bilstm_may_begin_as_a_projection_of_words() -> None:
    """Each word by itself, on principal components: every other one forwards, those between backwards."""
    vectors = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
    model = BiCLA(6, Settings(hidden=2, start="words"))
    model.begin_with(vectors)
    normal = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    axes = np.linalg.svd(normal)[2]  # (6, 6), the longest first
    word = normal[7]
    answers = model.encode(pad([word[None]])).states[0, 0].detach().numpy()  # (4,): two forwards, two backwards
    gate = 1 / (1 + np.exp(-3.0))
    expected = gate * np.tanh(gate * np.tanh(0.1 * np.sqrt(6) * axes[[0, 2, 1, 3]] @ word))
    assert np.abs(answers) == pytest.approx(np.abs(expected), abs=1e-5)  # an axis has no sign
    for weight, size in (*((match, 0.5) for match in model.match_weight.detach()), (model.score_weight.detach(), 1)):
        assert torch.allclose(weight, torch.eye(4) / 4 * 100 * size)  # the states are a tenth as long as the words
    with pytest.raises(InputError, match=r"shape \(3, 6\); expected \(words, 6\), 4 or more of either"):
        model.begin_with(vectors[:3])


def test_words_begin_to_match_by_their_cosine() -> None:
    """With all components: m_ij = tanh(g^4 cos / 2) but for the tanh of the states, g the open gate."""
    model = BiCLA(6, Settings(hidden=3, start="words"))
    model.begin_with(np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32))
    words = np.random.default_rng(1).normal(size=(2, 6)).astype(np.float32)
    states = model.encode(pad([words[:1], words[1:]])).states[:, 0].detach()  # each without the other's memory
    answers = torch.tanh(states[0] @ model.match(0)[0].detach() @ states[1]).item()
    gate = 1 / (1 + np.exp(-3.0))
    assert answers == pytest.approx(np.tanh(gate**4 / 2 * unit(words[0]) @ unit(words[1])), abs=0.01)
    assert abs(answers) > 0.05


def test_words_may_begin_in_a_metric() -> None:
    """Each word times the metric, which leaves the words of ``vectors`` as long as they are on the mean."""
    draw = np.random.default_rng(0)
    vectors, half = draw.normal(size=(50, 6)).astype(np.float32), draw.normal(size=(6, 6))
    metric = (np.eye(6) + 0.2 * half @ half.T).astype(np.float32)
    model = BiCLA(6, Settings(hidden=3, start="mates"))
    model.begin_with(vectors, metric)
    states = model.encode(pad([row[None] for row in vectors])).states[:, 0].detach().numpy()
    turned = np.stack([unit(row) for row in vectors]) @ metric
    turned /= np.sqrt((turned**2).sum(1).mean())
    gate = 1 / (1 + np.exp(-3.0))
    projected = np.arctanh(np.arctanh(states / gate) / gate) / 0.1  # (50, 6) on axes that are orthogonal
    assert projected @ projected.T == pytest.approx(6 * turned @ turned.T, abs=1e-3)


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def test_the_cosine_does_not_know_lengths() -> None:
    """A sentence said twice scores what it scores said once, but for the order in which the BiLSTM reads it."""
    model = BiCLA(16, Settings(hidden=4, start="words", normalised=True))
    model.begin_with(np.random.default_rng(1).normal(size=(40, 16)).astype(np.float32))
    first, second = sentences([4, 3], dim=16)
    once, twice = (score_matrix(model, [first], [np.tile(second, (n, 1))])[0, 0] for n in (1, 2))
    assert once == pytest.approx(twice, abs=0.1)
    assert abs(once) <= 5 + 1.5


def test_number_of_parameters() -> None:
    """BiLSTM, W and b of eq. 1 of both sides, v and b of eq. 4 of both, W_B and b_B: with H = 100, 300 dimensions."""
    both_lstms = 2 * 4 * (100 * 300 + 100 * 100 + 2 * 100)
    sizes = {name: p.numel() for name, p in BiCLA(300, Settings()).named_parameters()}
    assert sum(sizes.values()) == both_lstms + 2 * (200 * 200 + 1) + 2 * (200 + 1) + 200 * 200 + 1
    tied = sum(p.numel() for p in BiCLA(300, Settings(tied_cross=True, tied_intra=True)).parameters())
    assert tied == both_lstms + (200 * 200 + 1) + (200 + 1) + 200 * 200 + 1
    inatt = sum(p.numel() for p in BiCLA(300, Settings(cross=False)).parameters())
    assert inatt == both_lstms + 2 * (200 + 1) + 200 * 200 + 1


@pytest.mark.parametrize("settings", VARIANTS)
def test_gradients(settings: Settings) -> None:
    """Of every parameter, against differences, in double precision, with padded sentences among them."""
    whole = Whole(network(replace(settings, hidden=2), dim=3).double())
    pairs = pad(sentences([1, 3], dim=3)), pad(sentences([2, 1], dim=3, seed=3))
    names = [name for name, _ in whole.named_parameters()]

    def scores(*values: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(whole, dict(zip(names, values, strict=True)), pairs)

    values = tuple(parameter.detach().clone().requires_grad_() for parameter in whole.parameters())
    assert torch.autograd.gradcheck(scores, values, eps=1e-6, atol=1e-6, fast_mode=settings is not VARIANTS[0])


class Whole(torch.nn.Module):
    """Word vectors to scores."""

    def __init__(self, model: BiCLA) -> None:
        super().__init__()
        self.model = model

    def forward(self, first: object, second: object) -> torch.Tensor:
        return self.model(self.model.encode(first), self.model.encode(second, 1))  # type: ignore[arg-type]


@pytest.mark.parametrize("settings", VARIANTS)
def test_padding_changes_nothing(settings: Settings) -> None:
    """A sentence alone, beside a longer one, and with rubbish after its end: one score."""
    model, (short, long, other) = network(settings), sentences([2, 7, 3])
    alone = score_of(model, [short], [other])
    together = model(model.encode(pad([short, long])), model.encode(pad([other, long]), 1))[0].item()
    assert together == pytest.approx(alone, abs=1e-6)
    padded = pad([short, long])
    padded.values[0, 2:] = 99.0
    assert model(model.encode(padded), model.encode(pad([other, long]), 1))[0].item() == pytest.approx(alone, abs=1e-6)


def score_of(model: BiCLA, first: list[Floats], second: list[Floats]) -> float:
    return float(model(model.encode(pad(first)), model.encode(pad(second), 1)).item())


@pytest.mark.parametrize("settings", VARIANTS)
def test_all_pairs_at_once_are_the_pairs_one_by_one(settings: Settings) -> None:
    """The scores, and the gradients of their sum."""
    model, gradients = network(settings), []
    first, second = (pad(sentences(lengths, seed=len(lengths))) for lengths in ([3, 1, 0], [2, 5, 1, 4]))
    for together in (True, False):
        a, b = model.encode(first), model.encode(second, 1)
        if together:
            scores = model.all_pairs(a, b)
        else:
            scores = torch.stack([model(a.rows(row, row + 1).repeat(4), b) for row in range(3)])
        gradients.append((scores, torch.autograd.grad(scores.sum(), list(model.parameters()))))
    assert torch.allclose(gradients[0][0], gradients[1][0], atol=1e-6)
    for one, other in zip(gradients[0][1], gradients[1][1], strict=True):
        assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("settings", VARIANTS)
@pytest.mark.parametrize(("chunk", "cells"), [(4096, 1 << 17), (3, 40), (1, 1), (5, 1 << 17), (4096, 90)])
def test_blocks_change_nothing(settings: Settings, chunk: int, cells: int) -> None:
    """Every pair by itself against blocks of every size, the last partial one and sentences without words included."""
    model = network(settings)
    queries, documents = sentences([3, 1, 0, 6, 2]), sentences([2, 5, 1, 0, 9, 4, 3], seed=4)
    expected = [[score_of(model, [q], [d]) for d in documents] for q in queries]
    steps: list[tuple[int, int]] = []
    answers = score_matrix(model, queries, documents, chunk, cells, lambda result, total: steps.append((result, total)))
    assert answers.dtype == np.float32
    np.testing.assert_allclose(np.tanh(answers), expected, atol=2e-6)
    assert steps[-1] == (35, 35)
    assert [step for step, _ in steps] == sorted({outcome for outcome, _ in steps})


def test_a_sentence_without_words_has_the_score_of_the_bias() -> None:
    model = network(VARIANTS[0])
    answers = score_matrix(model, sentences([0, 3]), sentences([2, 0]))
    bias = model.score_bias.item()
    assert [answers[0, 0], answers[0, 1], answers[1, 1]] == pytest.approx([bias] * 3)
    assert answers[1, 0] != pytest.approx(bias, abs=1e-3)


def test_scores_far_from_zero_still_differ() -> None:
    """Where tanh is 1 to the last digit of float32, the order is that of its argument."""
    model = network(VARIANTS[0])
    with torch.no_grad():
        model.score_bias.fill_(30.0)
    answers = score_matrix(model, sentences([3]), sentences([2, 4, 5]))
    assert (np.tanh(answers) == 1).all()
    assert len(set(answers[0].tolist())) == 3


def test_nothing_to_score() -> None:
    model = network(VARIANTS[0])
    assert score_matrix(model, [], sentences([2])).shape == (0, 1)
    assert score_matrix(model, sentences([2]), []).shape == (1, 0)


def test_vectors_of_another_width() -> None:
    with pytest.raises(InputError, match=r"shape \(2, 5\); this BiCLA takes \(words, 4\)"):
        score_matrix(network(VARIANTS[0]), sentences([1]), sentences([3]) + sentences([2], dim=5))


def test_wrong_sizes() -> None:
    with pytest.raises(InputError, match="hidden 0"):
        BiCLA(4, Settings(hidden=0))
    with pytest.raises(InputError, match="identity, random or xavier"):
        BiCLA(4, Settings(start="zeros"))
    with pytest.raises(InputError, match="no sentences"):
        pad([])


def test_the_loss_by_arithmetic() -> None:
    """max(0, 1 - s+ + s-) over the negatives of each pair, the mean over pairs."""
    scores = torch.tensor([[0.9, 0.2, -0.5], [-0.1, 0.3, -0.4]])
    first = (1 - 0.9 + 0.2) + 0  # -0.5 is further away than the margin
    second = (1 + 0.1 + 0.3) + (1 + 0.1 - 0.4)
    assert contrastive_loss(scores, 1.0).item() == pytest.approx((first + second) / 2)
    assert contrastive_loss(scores, 0.0).item() == pytest.approx((0.1 + 0.3) / 2)


@pytest.mark.parametrize("settings", VARIANTS)
def test_the_folder(settings: Settings, tmp_path: Path) -> None:
    model, words = network(settings), sentences([2, 4])
    save_bicla(model, tmp_path, {"data": {"pair": "de-en"}})
    (tmp_path / "training.json").write_text("{}")  # the loop adds it
    loaded = load_bicla(tmp_path)
    np.testing.assert_array_equal(score_matrix(loaded.model, words, words), score_matrix(model, words, words))
    assert (loaded.facts, loaded.model.settings) == ({"data": {"pair": "de-en"}}, settings)
    assert loaded.hash == load_bicla(tmp_path).hash


@pytest.mark.parametrize(
    ("damage", "error", "says"),
    [
        ("no config", ModelError, "expected a folder that 'phrasemate train bicla' made"),
        ("no weights", ModelDamaged, "cannot be read"),
        ("truncated", ModelDamaged, "another SHA-256"),
        ("flipped", ModelDamaged, "another SHA-256"),
        ("cut config", ModelDamaged, "not readable as JSON"),
        ("changed config", ModelDamaged, "altered"),
        ("other size", ModelDamaged, "do not fit"),
        ("foreign", ModelUnsupported, "not of the format"),
        ("newer", ModelUnsupported, "upgrade phrasemate"),
        ("list", ModelUnsupported, "not of the format"),
    ],
)
def test_a_damaged_folder_is_one_error(damage: str, error: type[Exception], says: str, tmp_path: Path) -> None:
    save_bicla(network(VARIANTS[0]), tmp_path, {})
    config, weights = tmp_path / "config.json", tmp_path / "weights.safetensors"
    text, data = config.read_text(), bytearray(weights.read_bytes())
    changes = {
        "changed config": text.replace('"hidden": 3', '"hidden":  4'),
        "foreign": json.dumps({"format": "else"}),
        "newer": text.replace('"version": 1', '"version": 2'),
        "list": "[]",
        "cut config": text[: len(text) // 2],
        "other size": text.replace('"dim": 4', '"dim": 5'),
    }
    if damage == "no config":
        config.unlink()
    elif damage == "no weights":
        weights.unlink()
    elif damage == "truncated":
        weights.write_bytes(data[: len(data) // 2])
    elif damage == "flipped":
        data[len(data) // 2] ^= 1
        weights.write_bytes(data)
    else:
        config.write_text(changes[damage])
    with pytest.raises(error, match=says) as raises:
        load_bicla(tmp_path)
    assert "\n" not in str(raises.value)

"""XPR against its equations: plain loops, and algorithm 1 by hand."""

from __future__ import annotations

import math
from collections import deque
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import encoders
import pytest
import torch
from example_data import settings, write_data
from torch import Tensor, nn
from torch.nn import functional

from phrasemate.errors import InputError
from phrasemate.training.frozen_states import Inputs, TokenNumbers, halves
from phrasemate.training.hf_encoder import Backbone
from phrasemate.training.trainer import Trainer
from phrasemate.training.xpr import XPR, Config, PhraseEncoder, Projection, Queue, Settings, XPRTask, momentum_update

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return encoders.save_bert(tmp_path_factory.mktemp("bases") / "bert")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


def padded(texts: list[Tensor]) -> tuple[Tensor, Tensor]:
    ids = nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=1)
    lengths = torch.tensor([len(text) for text in texts])
    return ids, torch.arange(ids.shape[1]) < lengths[:, None]


@pytest.mark.parametrize(("frozen", "layer"), [(0, 0), (1, 2), (0, 1)])
@pytest.mark.parametrize("family", ["bert", "xlmr"])
def test_halves_give_the_states_of_transformers(base: Path, bert: Path, family: str, frozen: int, layer: int) -> None:
    """Every layer's states of the wanted tokens, of texts of unequal length, by the encoder itself one by one."""
    folder = base if family == "xlmr" else bert
    whole = Backbone(folder, dropout=0.0).eval().encoder
    lower, upper = halves(Backbone(folder, dropout=0.0).eval(), frozen, layer)
    texts = [torch.tensor([0, 9, 5, 12, 2]), torch.tensor([0, 7, 2]), torch.tensor([0, 4, 8, 15, 16, 23, 42, 2])]
    ends = [(1, 3), (1, 1), (4, 5)]
    ids, mask = padded(texts)
    first, last = torch.tensor(ends).T
    with torch.no_grad():
        states, kept_states = upper(lower(ids, mask), mask, first, last)
        for row, (text, (a, b)) in enumerate(zip(texts, ends, strict=True)):
            expected = whole(input_ids=text[None], output_hidden_states=True).hidden_states[layer or encoders.DEPTH][0]
            assert kept_states[row].sum() == b - a + 1
            assert torch.allclose(states[row][kept_states[row]], expected[a : b + 1], atol=1e-5)


def test_an_encoder_whose_token_table_is_trained_is_not_cut_and_its_lower_layers_stay(base: Path) -> None:
    backbone = Backbone(base, dropout=0.0, embeddings="trained").eval()
    lower, upper = halves(backbone, 1)
    assert isinstance(lower, TokenNumbers)
    trained = {name for name, value in backbone.encoder.named_parameters() if value.requires_grad}
    assert not any(name.startswith("encoder.layer.0.") for name in trained)
    assert {"embeddings.word_embeddings.weight", "encoder.layer.1.output.dense.bias"} <= trained
    ids, mask = padded([torch.tensor([0, 9, 5, 12, 2]), torch.tensor([0, 7, 2])])
    with torch.no_grad():
        states, valid = upper(lower(ids, mask), mask, torch.tensor([1, 1]), torch.tensor([3, 1]))
        expected = backbone.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
    assert torch.allclose(states[0], expected[0, 1:4], atol=1e-5)
    assert torch.allclose(states[1][valid[1]], expected[1, 1:2], atol=1e-5)


def test_senseless_halves_are_refused(base: Path) -> None:
    for frozen, layer in ((2, 0), (1, 1), (0, 3), (-1, 0)):
        with pytest.raises(InputError, match="expected 0 <= frozen < layer <= 2"):
            halves(Backbone(base), frozen, layer)


class Passing(nn.Module):
    """An encoder that gives what it gets, the phrase's tokens cut out: arithmetic without a network."""

    def forward(self, states: Tensor, mask: Tensor, first: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        return states, (torch.arange(states.shape[1]) >= first[:, None]) & (
            torch.arange(states.shape[1]) <= last[:, None]
        )


STATES = torch.tensor([[[1.0, 0], [3, 4], [5, 0]], [[8.0, 8], [0, 6], [9, 9]], [[0.0, 1], [0, 3], [2, 2]]])
INPUTS = Inputs(
    STATES,
    torch.ones(3, 3, dtype=torch.bool),
    torch.tensor([1, 1, 0]),
    torch.tensor([2, 1, 1]),
    torch.tensor([2, 0, 1]),
)
OWNER = torch.tensor([0, 0, 1])  # of the contexts in their order: row 1 of the states, row 2, row 0


def test_representation_by_arithmetic() -> None:
    encoder = PhraseEncoder(Passing())  # type: ignore[arg-type]
    means = [[(3 + 5) / 2, (4 + 0) / 2], [0, 6], [(0 + 0) / 2, (1 + 3) / 2]]  # eq. 1
    assert torch.equal(encoder.contexts(INPUTS), torch.tensor(means))
    # eq. 2: the first phrase has two contexts, (0, 6) and (0, 2), and the other one, (4, 2)
    expected = [[0, 1], [4 / math.sqrt(20), 2 / math.sqrt(20)]]
    assert torch.allclose(encoder([INPUTS], OWNER), torch.tensor(expected))
    halves_ = [Inputs(*(x[:1] for x in INPUTS)), Inputs(*(x[1:] for x in INPUTS))]  # in two pieces
    assert torch.allclose(encoder(halves_, OWNER), torch.tensor(expected))


def test_where_the_projection_is_applied() -> None:
    """Of the mean of the means (paper), or of each token's state (code): not the same, as it is not linear."""
    torch.manual_seed(0)
    head = Projection(2, "pooled", inner=3)

    def project(vector: Tensor) -> Tensor:
        hidden = torch.stack([row @ vector + b for row, b in zip(head.inner.weight, head.inner.bias, strict=True)])
        return head.outer.weight @ torch.clamp(hidden, min=0) + head.outer.bias

    pooled = PhraseEncoder(Passing(), head)  # type: ignore[arg-type]
    expected = [project(torch.tensor([0.0, 4])), project(torch.tensor([4.0, 2]))]
    expected = [x / x.norm() for x in expected]
    assert torch.allclose(pooled([INPUTS], OWNER), torch.stack(expected), atol=1e-6)
    head.place = "tokens"
    table = {row: [project(STATES[row][i]) for i in rows] for row, rows in {0: (1, 2), 1: (1,), 2: (0, 1)}.items()}
    means = {row: sum(result) / len(result) for row, result in table.items()}  # type: ignore[arg-type]
    both = [(means[1] + means[2]) / 2, means[0]]
    vectors = pooled([INPUTS], OWNER)
    assert torch.allclose(vectors, torch.stack([x / x.norm() for x in both]), atol=1e-6)
    assert not torch.allclose(vectors, torch.stack(expected), atol=1e-2)
    plain = PhraseEncoder(Passing())  # type: ignore[arg-type]
    assert torch.equal(pooled([INPUTS], OWNER, False), plain([INPUTS], OWNER))


def test_a_projection_may_begin_as_the_identity() -> None:
    vectors = torch.randn(5, 8)
    assert torch.allclose(Projection(8, start="identity")(vectors), vectors, atol=1e-6)
    assert Projection(8)(vectors).sub(vectors).abs().max() > 0.1
    assert Projection(8, inner=4).inner.out_features == 32


def plain_loss(
    queries: list[Tensor], keys: list[Tensor], queue: list[list[Tensor]], temperature: float, batch: bool
) -> float:
    """Eq. 3 and 4, and MoCo's, one number at a time: ``own``, ``keys``, ``queue`` of both sides."""
    total = 0.0
    for side in (0, 1):
        for i, query in enumerate(queries[side]):
            candidates = [k for j, k in enumerate(keys[1 - side]) if batch or j == i] + queue[1 - side]
            all_ = sum(math.exp(float(query @ candidate) / temperature) for candidate in candidates)
            total -= math.log(math.exp(float(query @ keys[1 - side][i]) / temperature) / all_) / len(queries[side])
    return total


def unit(*shape: int) -> Tensor:
    return functional.normalize(torch.randn(*shape), dim=-1)


@pytest.mark.parametrize("negatives", ["batch", "queue", "both"])
def test_the_loss_is_the_formula(negatives: str) -> None:
    torch.manual_seed(5)
    method = XPR(PhraseEncoder(nn.Linear(2, 2)), Settings(0.2, negatives=negatives, queue=6), 4, CPU)  # type: ignore[arg-type]
    waiting: list[list[Tensor]] = [[], []]
    for _ in range(4):
        queries, keys = unit(6, 4), unit(6, 4)
        loss = method.loss(queries, keys, torch.arange(6))
        sides = [list(x) for x in (queries[:3], queries[3:], keys[:3], keys[3:])]
        expected = plain_loss(sides[:2], sides[2:], waiting, 0.2, negatives != "queue")
        assert float(loss.loss) == pytest.approx(expected, rel=1e-5)
        if negatives != "batch":
            waiting = [(waiting[side] + sides[2 + side])[-6:] for side in (0, 1)]


def test_pairs_that_share_a_wording_are_not_negatives() -> None:
    torch.manual_seed(6)
    query_vectors, keys, wordings = unit(6, 4), unit(6, 4), torch.tensor([1, 2, 3, 4, 4, 5])  # two targets read alike
    encoder = PhraseEncoder(nn.Linear(2, 2))  # type: ignore[arg-type]
    loss = XPR(encoder, Settings(0.2, same_wording="ignored"), 4, CPU).loss(query_vectors, keys, wordings)
    expected = 0.0
    for queries, candidates in ((query_vectors[:3], keys[3:]), (query_vectors[3:], keys[:3])):
        for i, among in enumerate(([0, 2], [1, 2], [0, 1, 2])):
            scores = {j: math.exp(float(queries[i] @ candidates[j]) / 0.2) for j in among}
            expected -= math.log(scores[i] / sum(scores.values())) / 3
    assert float(loss.loss) == pytest.approx(expected, rel=1e-5)
    other = XPR(encoder, Settings(0.2), 4, CPU).loss(query_vectors, keys, wordings)
    assert float(other.loss) > expected + 0.01


def test_how_often_the_mate_is_first() -> None:
    queries = torch.tensor([[1.0, 0], [0, 1], [0, 1], [1, 0]])  # sources, then targets, in the wrong order
    method = XPR(PhraseEncoder(nn.Linear(2, 2)), Settings(), 2, CPU)  # type: ignore[arg-type]
    assert float(method.loss(queries, queries, torch.arange(4)).right) == 0
    assert float(method.loss(queries, queries[[2, 3, 0, 1]], torch.arange(4)).right) == 1


@pytest.mark.parametrize("sizes", [(3, 3, 3), (2, 5, 1, 4), (9, 2), (4, 12)])
def test_the_queue_holds_the_latest(sizes: tuple[int, ...]) -> None:
    queue, plain = Queue(7, 2, CPU), deque[int](maxlen=7)
    number = 0
    assert queue.filled()[0].shape == (2, 0, 2)
    for size in sizes:
        new = torch.arange(number, number + size)
        number += size
        queue.push(torch.stack([new, -new])[:, :, None].expand(2, size, 2).float(), torch.stack([new, 100 + new]))
        plain.extend(new.tolist())
        vectors, wordings = queue.filled()
        assert sorted(wordings[0].tolist()) == sorted(plain)
        assert torch.equal(wordings[1], wordings[0] + 100)
        assert torch.equal(vectors[0, :, 0], wordings[0].float())
        assert torch.equal(vectors[1, :, 1], -wordings[0].float())


def test_the_oldest_are_overwritten_first() -> None:
    queue = Queue(4, 1, CPU)
    for number in range(6):
        queue.push(torch.full((2, 1, 1), float(number)), torch.full((2, 1), number))
    assert queue.wordings[0].tolist() == [4, 5, 2, 3]


def test_the_momentum_update_is_the_formula() -> None:
    fast, slow = nn.Linear(3, 2), nn.Linear(3, 2)
    expected = [0.9 * old + (1 - 0.9) * new for old, new in zip(slow.parameters(), fast.parameters(), strict=True)]
    before = [new.clone() for new in fast.parameters()]
    momentum_update(slow, fast, 0.9)
    assert all(torch.allclose(a, b, atol=1e-7) for a, b in zip(slow.parameters(), expected, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(fast.parameters(), before, strict=True))


@pytest.mark.parametrize(("name", "value"), [("targets", "slow"), ("negatives", "none"), ("same_wording", "dropped")])
def test_unknown_choices_are_named(name: str, value: str) -> None:
    with pytest.raises(InputError, match=rf"\[loss\] {name}: '{value}'; expected "):
        Settings(**{name: value})


def task(base: Path, folder: Path, tmp: Path, **changes: dict[str, Any]) -> XPRTask:
    return XPRTask(Config.of(settings(base, **changes)), folder, tmp / "states")


def gradients(module: XPRTask, number: int = 0) -> dict[str, Tensor]:
    module.module.train()
    module.module.zero_grad()
    module.backward(module.batch(number), nullcontext, 1.0)
    return {name: p.grad.clone() for name, p in module.module.named_parameters() if p.grad is not None}


def test_no_gradient_through_the_momentum_encoder(base: Path, data: Path, tmp_path: Path) -> None:
    module = task(base, data, tmp_path)
    result = gradients(module)
    slow = module.method.slow
    assert slow is not None
    assert all(p.grad is None and not p.requires_grad for p in slow.parameters())
    assert set(result) == {name for name, _ in module.module.named_parameters()}
    # At the first step both encoders are equal: the targets are those of the same encoder without a gradient ...
    stopped = gradients(task(base, data, tmp_path, loss={"targets": "stopped"}))
    assert all(torch.allclose(result[name], stopped[name], atol=1e-7) for name in result)
    # ... and with one, the gradient is another.
    through = gradients(task(base, data, tmp_path, loss={"targets": "same"}))
    assert max(float((result[name] - through[name]).abs().max()) for name in result) > 1e-3


MU, RATE, EPSILON, TEMPERATURE = 0.9, 1e-3, 1e-3, 0.1


class Plain:
    """f(.; theta) without any of our code: an encoder of transformers, and four tensors for the projection."""

    def __init__(self, folder: Path, head: Projection) -> None:
        self.encoder = Backbone(folder, dropout=0.0).eval().encoder
        layers = {f"upper.{name}": p for name, p in self.encoder.encoder.named_parameters()}
        self.layers = {name.replace("upper.layer.", "upper.layers."): p for name, p in layers.items()}
        self.head = {f"head.{name}": p.detach().clone().requires_grad_() for name, p in head.named_parameters()}
        self.all = {**self.layers, **self.head}

    def phrase(self, contexts: list[tuple[list[int], int, int]]) -> Tensor:
        """Eq. 1 and 2, the projection, unit length."""
        means = []
        for ids, first, last in contexts:
            states = self.encoder(input_ids=torch.tensor([ids])).last_hidden_state[0]
            means.append(torch.stack([states[i] for i in range(first, last + 1)]).mean(0))
        x = torch.stack(means).mean(0)
        hidden = torch.clamp(self.head["head.inner.weight"] @ x + self.head["head.inner.bias"], min=0)
        module = self.head["head.outer.weight"] @ hidden + self.head["head.outer.bias"]
        return module / module.norm()


def by_hand(module: XPRTask, base: Path, steps: int) -> tuple[Plain, Plain]:
    """Algorithm 1 on the task's own batches: encode, XPCO, Adam (Kingma and Ba, algorithm 1), momentum update."""
    assert module.module.head is not None
    fast, slow = Plain(base, module.module.head), Plain(base, module.module.head)
    m = {name: torch.zeros_like(p) for name, p in fast.all.items()}
    v = {name: torch.zeros_like(p) for name, p in fast.all.items()}
    for step in range(steps):
        drawn = module.batch(step).sampled
        contexts: list[list[tuple[list[int], int, int]]] = [[] for _ in drawn.wordings]
        for i, owner in enumerate(drawn.owner):
            ids = drawn.ids[drawn.bounds[i] : drawn.bounds[i + 1]].tolist()
            contexts[owner].append((ids, int(drawn.first[i]), int(drawn.last[i])))
        count = len(contexts) // 2
        query_vectors = [fast.phrase(some) for some in contexts]
        with torch.no_grad():
            keys = [slow.phrase(some) for some in contexts]
        loss = torch.zeros(())
        for queries, candidates in ((query_vectors[:count], keys[count:]), (query_vectors[count:], keys[:count])):
            for i, query in enumerate(queries):
                scores = torch.stack([query @ candidate / TEMPERATURE for candidate in candidates])
                loss = loss - (scores[i] - torch.log(torch.exp(scores).sum())) / count
        for p in fast.all.values():
            p.grad = None
        loss.backward()  # type: ignore[no-untyped-call]
        rate = RATE * (1 - step / 4)  # linear decay from the first step of four
        with torch.no_grad():
            for name, p in fast.all.items():
                assert p.grad is not None
                m[name] = 0.9 * m[name] + 0.1 * p.grad
                v[name] = 0.999 * v[name] + 0.001 * p.grad**2
                first, second = m[name] / (1 - 0.9 ** (step + 1)), v[name] / (1 - 0.999 ** (step + 1))
                p -= rate * first / (second.sqrt() + EPSILON)
            for name, p in slow.all.items():
                p.copy_(MU * p + (1 - MU) * fast.all[name])
    return fast, slow


def test_two_steps_of_algorithm_1_by_hand(base: Path, data: Path, tmp_path: Path) -> None:
    """Every parameter of both encoders. The large epsilon keeps Adam from blowing up what is rounding alone."""
    result = task(
        base,
        data,
        tmp_path,
        data={"batch": 3},
        loss={"momentum": MU, "temperature": TEMPERATURE},
        optimizer={"encoder": RATE, "heads": RATE},
        loop={"steps": 4, "stop": 2, "warmup": 0, "clip": 0.0},
    )
    assert result.module.head is not None
    table = {name: p.detach().clone() for name, p in result.module.named_parameters()}
    fast, slow = by_hand(result, base, 2)
    trainer = Trainer(result, result.loop, tmp_path / "run", result.facts())
    for group in trainer.optimizer.param_groups:
        group["eps"] = EPSILON
    trainer.run()
    assert result.method.slow is not None
    for plain, module in ((fast, result.module), (slow, result.method.slow)):
        results = dict(module.named_parameters())
        assert set(results) == set(plain.all)
        for name, p in results.items():
            assert torch.allclose(p, plain.all[name], atol=2e-7, rtol=1e-5), name
    moved = {name: float((p.detach() - table[name]).abs().max()) for name, p in result.module.named_parameters()}
    assert sum(change > 1e-5 for change in moved.values()) > 0.8 * len(moved)

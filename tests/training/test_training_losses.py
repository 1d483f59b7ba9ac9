"""Formulas worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from phrasemate.training.losses import balanced_bce, contrast, span_means


def test_contrast_is_the_formula() -> None:
    queries = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    candidates = torch.tensor([[1.0, 1.0], [0.0, 1.0], [3.0, 0.0]])
    batch = contrast(queries, candidates, torch.tensor([0, 1]), temperature=0.5)
    first = -math.log(math.exp(2) / (math.exp(2) + math.exp(0) + math.exp(6)))
    second = -math.log(math.exp(4) / (math.exp(4) + math.exp(4) + math.exp(0)))
    assert batch.loss.item() == pytest.approx((first + second) / 2, rel=1e-5)
    assert batch.right.item() == 0  # the first is beaten, the second ties


def test_contrast_leaves_out_what_is_ignored_but_never_the_positive() -> None:
    queries, candidates = torch.tensor([[1.0]]), torch.tensor([[1.0], [5.0], [0.0]])
    ignored = torch.tensor([[True, True, False]])
    batch = contrast(queries, candidates, torch.tensor([0]), ignored=ignored)
    assert batch.loss.item() == pytest.approx(math.log(1 + math.exp(-1)), rel=1e-5)
    assert batch.right.item() == 1


def test_contrast_of_half_precision_computes_in_float32() -> None:
    queries = torch.eye(3, dtype=torch.bfloat16) * 40
    assert contrast(queries, queries, torch.arange(3)).loss.dtype == torch.float32


def test_balanced_bce_weighs_both_kinds_alike() -> None:
    logits, positive = torch.tensor([0.0, 2.0, -1.0, 0.0]), torch.tensor([True, False, False, False])
    negatives = [math.log(1 + math.exp(x)) for x in (2.0, -1.0, 0.0)]
    expected = 0.5 * math.log(2) + 0.5 * sum(negatives) / 3
    assert balanced_bce(logits, positive).item() == pytest.approx(expected, rel=1e-5)
    assert balanced_bce(logits, torch.zeros(4, dtype=torch.bool)).item() == 0


def test_balanced_bce_of_each_sentence() -> None:
    """Sentences 0 and 1 have a phrase and two, and weigh so; 2 has only a phrase, 3 none."""
    logits = torch.tensor([1.0, -2.0, 0.5, 0.3, 1.5, -0.7, 3.0, 4.0])
    positive = torch.tensor([True, False, False, True, True, False, True, False])
    texts = torch.tensor([0, 0, 0, 1, 1, 1, 2, 3])
    minus = [math.log(1 + math.exp(-x)) for x in logits.tolist()]  # of a phrase
    plus = [math.log(1 + math.exp(x)) for x in logits.tolist()]  # of another span
    first = 0.5 * minus[0] + 0.5 * (plus[1] + plus[2]) / 2
    second = 0.5 * (minus[3] + minus[4]) / 2 + 0.5 * plus[5]
    expected = (1 * first + 2 * second) / (1 + 2)
    assert balanced_bce(logits, positive, texts).item() == pytest.approx(expected, rel=1e-5)
    assert balanced_bce(logits[6:], positive[6:], texts[6:]).item() == 0


def test_span_means_are_those_of_a_plain_loop() -> None:
    states = torch.randn(12, 5)
    first, last = torch.tensor([0, 3, 11]), torch.tensor([4, 3, 11])
    expected = torch.stack([states[a : b + 1].mean(0) for a, b in zip(first.tolist(), last.tolist(), strict=True)])
    assert torch.allclose(span_means(states, first, last), expected, atol=1e-6)


def test_contrast_without_queries_is_zero() -> None:
    queries = torch.zeros(0, 2, requires_grad=True)
    batch = contrast(queries, torch.ones(3, 2), torch.zeros(0, dtype=torch.int64))
    assert (batch.loss.item(), batch.right.item()) == (0.0, 0.0)
    batch.loss.backward()

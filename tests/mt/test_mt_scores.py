"""Scores: sacrebleu's own figures and p, BERTScore by arithmetic, what became of hints."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phrasemate import Model
from phrasemate.errors import InputError
from phrasemate.mt.scores import METRICS, bert_scores, compare, corpus_statistics, hint_counts, metric

THINGS = [f"{a} {b}" for a in ("old", "red", "new") for b in ("car", "bus")]
REFERENCES = [f"The {thing} stood near the {place}." for thing in THINGS for place in ("river", "house")]
GOOD = [text.replace("stood", "was") for text in REFERENCES]
BAD = [text.replace("near the", "by") if number % 2 else text.lower() for number, text in enumerate(REFERENCES)]


def statistics(name: str, outputs: Sequence[str]) -> Any:
    return corpus_statistics(metric(name, "en"), outputs, REFERENCES)


@pytest.mark.parametrize("name", METRICS)
def test_scores_intervals_and_p_by_a_plain_loop_over_sacrebleu(name: str) -> None:
    samples = 120
    systems = {"good": [statistics(name, GOOD)], "bad": [statistics(name, BAD)]}
    compared = compare(name, systems, "good", "en", samples=samples)
    draws = np.random.default_rng(12_345).choice(12, size=(samples, 12), replace=True)
    resampled = {
        system: np.array([metric(name).corpus_score([texts[i] for i in row], [[REFERENCES[i] for i in row]]).score
                          for row in draws])
        for system, texts in (("good", GOOD), ("bad", BAD))
    }  # fmt: skip
    for system, texts in (("good", GOOD), ("bad", BAD)):
        assert compared[system].score == pytest.approx(metric(name).corpus_score(texts, [REFERENCES]).score)
        assert compared[system][1:3] == pytest.approx(np.quantile(resampled[system], [0.025, 0.975]))
    differences = resampled["bad"] - resampled["good"]
    observed = abs(compared["bad"].score - compared["good"].score)
    strayed = sum(abs(difference - differences.mean()) >= observed for difference in differences)
    assert compared["bad"].p == pytest.approx((1 + strayed) / (1 + samples))
    assert compared["good"].p is None


def test_the_draws_and_scores_are_those_of_sacrebleus_own_test() -> None:
    from sacrebleu.significance import PairedTest

    systems = {"good": [statistics("chrF", GOOD)], "bad": [statistics("chrF", BAD)]}
    named = [("good", GOOD), ("bad", BAD)]
    theirs = PairedTest(named, {"x": metric("chrF")}, [REFERENCES], test_type="bs", n_samples=1_000)()[1]
    _, row = compare("chrF", systems, "good", "en").values()
    bad = theirs["chrF2"][1]
    assert row.score == pytest.approx(bad.score)
    assert (row.high - row.low) / 2 == pytest.approx(bad.ci, rel=0.02)  # the same draws, quantiles cut otherwise


def test_the_mean_of_two_corpora() -> None:
    small = REFERENCES[:5]
    of_small = corpus_statistics(metric("chrF"), GOOD[:5], small)
    both = compare("chrF", {"good": [statistics("chrF", GOOD), of_small]}, "good")["good"].score
    alone = [metric("chrF").corpus_score(out, [ref]).score for out, ref in ((GOOD, REFERENCES), (GOOD[:5], small))]
    assert both == pytest.approx(sum(alone) / 2)


def test_the_same_translations_differ_by_nothing() -> None:
    compared = compare("chrF", {"a": [statistics("chrF", BAD)], "b": [statistics("chrF", BAD)]}, "a")
    assert compared["a"][:3] == compared["b"][:3]
    assert compared["b"].p == 1


def test_languages_without_spaces_have_their_own_tokens() -> None:
    assert "tok:zh" in _signature(metric("BLEU", "zh-Hant"))
    assert "tok:char" in _signature(metric("BLEU", "ja"))
    assert "tok:13a" in _signature(metric("BLEU", "de"))


def _signature(measure: Any) -> str:
    measure.corpus_score(["a"], [["a"]])
    return str(measure.get_signature())


def test_an_unknown_metric_and_unequal_lengths_are_refused() -> None:
    with pytest.raises(InputError, match="expected BLEU, chrF, TER"):
        metric("METEOR")
    with pytest.raises(InputError, match="1 translations and 12 references"):
        statistics("BLEU", ["one"])


class FakeStates:
    """Token states are given; the first and last of a text are special tokens, which nothing else resembles."""

    def __init__(self, **texts: list[list[float]]) -> None:
        self.texts = texts
        self.runtime = SimpleNamespace(opening=[1], closing=[2])

    def token_states(self, texts: Sequence[str], layer: int | None) -> Any:
        rows = [[[0, 0, 9], *self.texts.get(text, []), [0, 0, 9]] for text in texts]
        bounds = np.cumsum([0, *map(len, rows)])
        values = np.array([row for row in rows for row in row], np.float32)
        yield SimpleNamespace(values=values, bounds=bounds)


def test_bertscore_by_hand() -> None:
    # output: (1,0), (0,2) -> unit (1,0), (0,1); reference: (3,4) -> (.6,.8)
    model: Any = FakeStates(out=[[1, 0, 0], [0, 2, 0]], ref=[[3, 4, 0]])
    with pytest.raises(InputError, match="1 translations but 2 references; the numbers must be equal"):
        bert_scores(model, ["out"], ["ref", "out"])
    precision, recall, f1 = bert_scores(model, ["out", "", "out"], ["ref", "ref", "out"])
    p, r = (0.6 + 0.8) / 2, 0.8
    np.testing.assert_allclose(precision, [p, 0, 1], atol=1e-6)
    np.testing.assert_allclose(recall, [r, 0, 1], atol=1e-6)
    np.testing.assert_allclose(f1, [2 * p * r / (p + r), 0, 1], atol=1e-6)


def test_bertscore_of_the_real_model_prefers_what_means_the_same(model: Model) -> None:
    reference = ["The police closed the road."] * 3
    outputs = ["The police closed the road.", "The police shut the street.", "Coffee tastes best with milk."]
    precision, _, f1 = bert_scores(model, outputs, reference)
    assert f1[0] == pytest.approx(1, abs=1e-4)
    assert f1[0] > f1[1] > f1[2]
    swapped = bert_scores(model, reference, outputs)
    np.testing.assert_allclose(precision, swapped[1], atol=1e-5)  # precision one way is recall the other
    np.testing.assert_allclose(f1, swapped[2], atol=1e-5)


def record(translation: str, *hints: tuple[str, ...], phrases: int = 4) -> dict[str, Any]:
    results = [{"phrase": "x", "equivalents": [{"text": text} for text in texts]} for texts in hints]
    return {"translation": translation, "hints": results, "phrases": ["x"] * phrases}


def test_hints_are_counted() -> None:
    records = [
        record("The bench is old.", ("bench", "bank"), ("aged",), ("rain",)),
        record("A bank.", ("Bank",), phrases=1),
        record("Nothing here.", phrases=2),
    ]
    counts = hint_counts(records, ["The bank is aged.", "My bank.", "x"])
    sums = {"phrases": 4 + 1 + 2, "hinted": 3 + 1, "equivalents": 2 + 1 + 1 + 1}
    assert counts == sums | {"in_reference": 3, "in_output": 2, "both": 1}
    # in the reference: bank, aged, Bank; in the output: bench, Bank; one and the same in both: Bank
    counts = hint_counts([record("embankment", ("bank",))], ["bankrupt"])
    assert (counts["in_reference"], counts["in_output"]) == (0, 0)  # whole words only

"""The scorer of candidates: its formula, its file, and what is refused."""

from __future__ import annotations

import json
from math import exp, log
from pathlib import Path

import pytest

from phrasemate.encode.model_folder import SCORER
from phrasemate.encode.scoring import FEATURES, REASONS, CandidateScorer, load_scorer
from phrasemate.errors import ModelDamaged

WEIGHTS = tuple(0.1 * number for number in range(len(FEATURES)))


def test_the_probability_is_a_logistic_function_of_the_features() -> None:
    features = [[1.0] + [0.0] * (len(FEATURES) - 1), [0.0] * (len(FEATURES) - 1) + [2.0]]
    scorer = CandidateScorer(-0.5, WEIGHTS)
    last = 0.1 * (len(FEATURES) - 1)
    expected = [1 / (1 + exp(0.5 - 0.0)), 1 / (1 + exp(0.5 - 2 * last))]
    assert scorer.probabilities(features).tolist() == pytest.approx(expected)


def test_a_query_without_a_listed_candidate_has_weights_of_its_own(tmp_path: Path) -> None:
    unlisted = CandidateScorer(1.0, (0.0,) * len(FEATURES))
    scorer = CandidateScorer(0.0, (0.0,) * len(FEATURES), unlisted)
    neither, listed = [0.0] * len(FEATURES), [float(name == "listed") for name in FEATURES]
    assert scorer.probabilities([neither, neither]).tolist() == pytest.approx([1 / (1 + exp(-1))] * 2)
    assert scorer.probabilities([neither, listed]).tolist() == pytest.approx([0.5, 0.5])
    scorer.save(tmp_path, "abc", {})
    assert load_scorer(tmp_path, "abc") == scorer


def test_reasons_are_the_parts_of_the_log_odds_above_the_mean_candidate() -> None:
    assert sorted(name for names in REASONS.values() for name in names) == sorted(FEATURES)
    scorer = CandidateScorer(-0.5, WEIGHTS)
    first = [float(name in ("listed", "probability")) for name in FEATURES]
    second = [2.0 * (name == "same wording") for name in FEATURES]
    dictionary = 0.1 * FEATURES.index("listed") + 0.1 * FEATURES.index("probability")
    same = 2 * 0.1 * FEATURES.index("same wording")
    one, other = scorer.reasons([first, second], [0, 1])
    assert scorer.reasons([first, second], [1]) == [other]
    assert one == pytest.approx(dict.fromkeys(REASONS, 0.0) | {"dictionary": dictionary / 2, "same wording": -same / 2})
    assert other == pytest.approx({kind: -value for kind, value in one.items()})
    odds = [log(p / (1 - p)) for p in scorer.probabilities([first, second])]
    assert sum(one.values()) == pytest.approx(odds[0] - sum(odds) / 2)


def test_it_comes_back_from_its_file_for_its_own_model_alone(tmp_path: Path) -> None:
    scorer = CandidateScorer(0.25, WEIGHTS)
    assert load_scorer(tmp_path, "abc") is None
    scorer.save(tmp_path, "abc", {"queries": 3})
    assert load_scorer(tmp_path, "abc") == scorer
    assert load_scorer(tmp_path, "another model") is None


def test_a_file_with_other_features_is_passed_over(tmp_path: Path) -> None:
    CandidateScorer(0.0, WEIGHTS).save(tmp_path, "abc", {})
    record = json.loads((tmp_path / SCORER).read_text("utf-8"))
    record["weights"]["a feature of later"] = 1.0
    (tmp_path / SCORER).write_text(json.dumps(record), "utf-8")
    assert load_scorer(tmp_path, "abc") is None


def test_a_feature_of_later_counts_nothing_in_an_earlier_file(tmp_path: Path) -> None:
    CandidateScorer(0.5, WEIGHTS).save(tmp_path, "abc", {})
    record = json.loads((tmp_path / SCORER).read_text("utf-8"))
    del record["weights"][FEATURES[3]]
    (tmp_path / SCORER).write_text(json.dumps(record), "utf-8")
    assert load_scorer(tmp_path, "abc") == CandidateScorer(0.5, (*WEIGHTS[:3], 0.0, *WEIGHTS[4:]))


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"model": "abc", "bias": 0, "weights": []}', '{"model": "abc", "weights": {}}', "\udcff"]
)
def test_what_is_not_one_is_one_error(tmp_path: Path, text: str) -> None:
    (tmp_path / SCORER).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ModelDamaged, match="not a scorer file"):
        load_scorer(tmp_path, "abc")


def test_a_weight_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    CandidateScorer(float("inf"), WEIGHTS).save(tmp_path, "abc", {})
    with pytest.raises(ModelDamaged, match="not finite"):
        load_scorer(tmp_path, "abc")

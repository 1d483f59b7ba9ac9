"""The scorer of candidates: its formula, its file, and what is refused."""

from __future__ import annotations

import json
from itertools import permutations
from math import exp, log
from pathlib import Path

import numpy as np
import pytest

from phrasemate import load_model
from phrasemate.encode.model_folder import SCORER, bundled_folder
from phrasemate.encode.scoring import FEATURES, LEAST_LOG, REASONS, CandidateScorer, HiddenUnit, load_scorer
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
    assert scorer.reasons([first, second], [1]) == [pytest.approx(other)]
    assert one == pytest.approx(dict.fromkeys(REASONS, 0.0) | {"dictionary": dictionary / 2, "same wording": -same / 2})
    assert other == pytest.approx({kind: -value for kind, value in one.items()})
    odds = [log(p / (1 - p)) for p in scorer.probabilities([first, second])]
    assert sum(one.values()) == pytest.approx(odds[0] - sum(odds) / 2)


BOTH = HiddenUnit(3.0, -1.0, tuple(float(name in ("context", "listed")) for name in FEATURES))  # 3 max(0, a + b - 1)


def test_hidden_units_add_to_the_log_odds_where_they_are_above_zero() -> None:
    scorer = CandidateScorer(-0.5, (0.0,) * len(FEATURES), units=(BOTH,))
    neither, one = [0.0] * len(FEATURES), [float(name == "context") for name in FEATURES]
    both = [float(name in ("context", "listed")) for name in FEATURES]
    expected = [1 / (1 + exp(0.5)), 1 / (1 + exp(0.5)), 1 / (1 + exp(0.5 - 3 * (1 + 1 - 1)))]
    assert scorer.probabilities([neither, one, both]).tolist() == pytest.approx(expected)


def test_reasons_share_what_several_kinds_add_together() -> None:
    scorer = CandidateScorer(-0.5, WEIGHTS, units=(BOTH,))
    one = [float(name in ("context", "listed")) for name in FEATURES]
    other = [-value for value in one]  # so the mean candidate is 0, where the unit adds nothing
    reasons = scorer.reasons([one, other], [0, 1])
    alone = {"meaning in its sentence": 0.1 * FEATURES.index("context"), "dictionary": 0.1 * FEATURES.index("listed")}
    nothing = dict.fromkeys(REASONS, 0.0)
    assert reasons[0] == pytest.approx(nothing | {kind: value + 3 / 2 for kind, value in alone.items()})
    assert reasons[1] == pytest.approx(nothing | {kind: -value for kind, value in alone.items()})


def test_reasons_are_the_mean_over_all_orders_of_the_kinds() -> None:
    rng = np.random.default_rng(0)
    units = [HiddenUnit(*rng.normal(size=2).tolist(), tuple(rng.normal(size=len(FEATURES)))) for _ in range(4)]
    scorer = CandidateScorer(0.2, tuple(rng.normal(size=len(FEATURES))), units=tuple(units))
    table = rng.normal(size=(3, len(FEATURES)))
    expected = dict.fromkeys(REASONS, 0.0)
    for order in (orders := list(permutations(REASONS))):
        features = table.mean(0)
        for kind in order:
            before = scorer.log_odds(features[None])[0]
            features = np.where([name in REASONS[kind] for name in FEATURES], table[1], features)
            expected[kind] += (scorer.log_odds(features[None])[0] - before) / len(orders)
    assert scorer.reasons(table, [1])[0] == pytest.approx(expected)


def test_hidden_units_come_back_from_the_file(tmp_path: Path) -> None:
    scorer = CandidateScorer(0.25, WEIGHTS, CandidateScorer(1.0, WEIGHTS, units=(BOTH, BOTH)), (BOTH,))
    scorer.save(tmp_path, "abc", {})
    assert load_scorer(tmp_path, "abc") == scorer
    record = json.loads((tmp_path / SCORER).read_text("utf-8"))
    record["hidden"][0]["weights"]["a feature of later"] = 1.0
    (tmp_path / SCORER).write_text(json.dumps(record), "utf-8")
    assert load_scorer(tmp_path, "abc") is None


@pytest.mark.parametrize("hidden", [3, {"a": 1}, [1], [{}], [{"output": 1, "bias": 0, "weights": []}]])
def test_hidden_units_that_are_none_are_one_error(tmp_path: Path, hidden: object) -> None:
    CandidateScorer(0.0, WEIGHTS).save(tmp_path, "abc", {})
    record = json.loads((tmp_path / SCORER).read_text("utf-8"))
    (tmp_path / SCORER).write_text(json.dumps(record | {"hidden": hidden}), "utf-8")
    with pytest.raises(ModelDamaged, match="not a scorer file"):
        load_scorer(tmp_path, "abc")


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
    CandidateScorer(0.0, WEIGHTS, units=(BOTH._replace(output=float("nan")),)).save(tmp_path, "abc", {})
    with pytest.raises(ModelDamaged, match="not finite"):
        load_scorer(tmp_path, "abc")


def test_not_being_listed_tells_less_where_no_lexicon_has_the_languages() -> None:
    folder = bundled_folder()
    scorer = load_scorer(folder, load_model().hash)
    assert scorer is not None
    values = dict.fromkeys(FEATURES, 0.0) | dict.fromkeys(("context", "contexts", "type", "alone"), 0.6)
    values |= {"probability": LEAST_LOG, "composed": LEAST_LOG, "alike": 1, "covers function words": 1}
    unlisted, without_lexicon = ([*(values | {"no lexicon": number}).values()] for number in (0, 1))
    rare, usual = (float(scorer.probabilities([row])[0]) for row in (unlisted, without_lexicon))
    assert rare < usual / 3

"""How sure a search is: the formula, the fit, the file."""

from __future__ import annotations

import json
from math import exp, log
from pathlib import Path

import pytest

from phrasemate.encode.model_folder import CONFIDENCE, write_manifest
from phrasemate.encode.scoring import OTHERS, Confidence, features, load_confidence
from phrasemate.errors import InputError, ModelDamaged


def test_features_are_the_best_score_its_distance_to_the_next_ones_and_its_hits() -> None:
    assert features([[0.9, 0.8], [0.7], [0.5, 0.1]]) == pytest.approx((0.9, 0.9 - (0.7 + 0.5) / 2, log(2)))
    assert features([[0.8]]) == (0.8, 0.0, 0.0)
    many = [[0.9], *[[0.6]] * OTHERS, *[[0.1]] * 50]  # what comes after the next ten does not count
    assert features(many) == pytest.approx((0.9, 0.9 - 0.6, 0))
    with pytest.raises(InputError, match="no groups"):
        features([])


def test_the_probability_is_that_of_the_formula() -> None:
    fitted = Confidence(-3.0, (2.0, 5.0, 0.5))
    assert fitted.of([[0.9, 0.3, log(4)], [0.4, 0.0, 0.0]]) == pytest.approx(
        [1 / (1 + exp(-(-3 + 2 * 0.9 + 5 * 0.3 + 0.5 * log(4)))), 1 / (1 + exp(-(-3 + 2 * 0.4)))]
    )


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    confidence = Confidence(-1.5, (2.25, 1 / 3, 0.0))
    confidence.save(tmp_path, "abc", {"seed": 0})
    assert load_confidence(tmp_path, "abc") == confidence
    assert load_confidence(tmp_path, "another model") is None
    assert load_confidence(tmp_path / "none", "abc") is None
    views = Confidence(-1.5, (2.25, 1 / 3, 0.0), Confidence(0.5, (1.0, 0.0, 2.0)))
    views.save(tmp_path, "abc", {"seed": 0})
    assert load_confidence(tmp_path, "abc") == views


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[]", "null", '{"model": "abc", "bias": "x", "weights": [1, 2, 3]}', '{"model": "abc", "bias": 1}']
    + [
        json.dumps({"model": "abc", "bias": 1.0, "weights": weights})
        for weights in ([1], [1, 2, 3, 4], 5, [1, 2, None])
    ]
    + [
        '{"model": "abc", "bias": NaN, "weights": [1, 2, 3]}',
        '{"model": "abc", "bias": 1, "weights": [1, 2, Infinity]}',
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / CONFIDENCE).write_text(content)
    with pytest.raises(ModelDamaged, match=CONFIDENCE):
        load_confidence(tmp_path, "abc")


def test_bytes_that_are_not_text_are_named(tmp_path: Path) -> None:
    (tmp_path / CONFIDENCE).write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(ModelDamaged, match=CONFIDENCE):
        load_confidence(tmp_path, "abc")


def test_it_is_not_sealed(tmp_path: Path) -> None:
    """A model that is calibrated again is the same model: its indexes stay good."""
    (tmp_path / "config.json").write_text("{}")
    before = write_manifest(tmp_path)
    Confidence(-1.0, (1.0, 2.0, 3.0)).save(tmp_path, before, {})
    assert write_manifest(tmp_path) == before

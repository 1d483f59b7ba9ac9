"""From neighbours to pairs: candidates, one-to-one, filters and calibration, by hand and against plain loops."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from phrasemate.errors import InputError
from phrasemate.mine.select import (
    AHEAD,
    MATCH_AHEAD,
    REGRESSION,
    WORDS,
    Candidates,
    calibrate,
    candidates,
    contested,
    is_copy,
    length_deviations,
    match_features,
    one_to_one,
    pair_features,
    probabilities,
)
from phrasemate.rank import run_of
from phrasemate.types import Run
from phrasemate.utils.margin import margin


def pairs(*rows: tuple[int, int, float]) -> Candidates:
    """Pairs with their scores, in order."""
    source, target, score = zip(*rows, strict=True) if rows else ((), (), ())
    scores = np.array(score, np.float32)
    return Candidates(np.array(source, np.int32), np.array(target, np.int32), scores, scores, np.zeros_like(scores))


@pytest.mark.parametrize("how", ["absolute", "csls", "distance", "quarter", "ratio"])
def test_candidates_against_the_whole_matrix(how: str) -> None:
    cosines = np.random.default_rng(0).uniform(0.1, 1, (9, 14)).astype(np.float32)
    forward, backward = run_of(cosines, 3), run_of(cosines.T, 3)
    result = candidates(forward, backward, how)
    scores = margin(cosines, 3, how)
    expected = {
        (s, t)
        for s, t in product(range(9), range(14))
        if t in np.argsort(-cosines[s])[:3] or s in np.argsort(-cosines[:, t])[:3]
    }
    assert set(zip(result.source.tolist(), result.target.tolist(), strict=True)) == expected
    assert result.score == pytest.approx(scores[result.source, result.target], abs=1e-5)
    assert result.cosine == pytest.approx(cosines[result.source, result.target])
    assert (np.diff(result.score) <= 0).all()
    floor = float(np.median(result.score))
    assert candidates(forward, backward, how, floor).score.tolist() == result.score[result.score >= floor].tolist()


def test_neighbours_that_were_not_found() -> None:
    forward = Run(np.array([[1, -1]]), np.array([[0.9, -np.inf]], np.float32))
    backward = Run(np.array([[-1, -1], [0, -1]]), np.array([[-np.inf] * 2, [0.9, -np.inf]], np.float32))
    result = candidates(forward, backward)
    assert list(zip(result.source, result.target, strict=True)) == [(0, 1)]
    assert result.score.tolist() == pytest.approx([0.9 / ((0.9 + 0.9) / 2)])


def test_contested_pairs_are_near_the_best_of_both_sentences() -> None:
    some = pairs((0, 0, 0.75), (0, 1, 0.6875), (1, 1, 0.625), (1, 0, 0.5), (2, 2, 0.25))
    # below the best of its source or target: 0, 1/16 (source 0), 1/16 (target 1), 1/4 (target 0), 0
    rows = [(0, 0), (0, 1), (1, 1), (1, 0), (2, 2)]
    for gap, count in ((0.0, [0, 4]), (0.0625, [0, 1, 2, 4]), (0.25, [0, 1, 2, 3, 4])):
        near = contested(some, gap)
        assert list(zip(near.source.tolist(), near.target.tolist(), strict=True)) == [rows[place] for place in count]
    assert contested(pairs(), 0.0).score.tolist() == []


def test_the_features_of_pairs() -> None:
    """By hand: (0, 1) is (0.875 - 1) + (0.875 - 0.5) ahead by its cosine, of which 0.2 count at most."""
    rows = [(0, 0, 1.0), (0, 1, 0.875), (1, 1, 0.5), (2, 2, 0.25)]
    some = pairs(*rows)._replace(score=np.array([0.75, 0.5, 0.375, 0.25], np.float32), length=np.ones(4, np.float32))
    features = pair_features(some)
    leads = [0.125 + AHEAD, -0.125 + AHEAD, AHEAD - 0.375, 2 * AHEAD]
    assert features == pytest.approx(np.column_stack([some.score, leads, [1] * 4]), abs=1e-6)
    match = np.array([0.5, 1.0, 0.0, 1.0], np.float32)
    assert (AHEAD, WORDS) == (0.2, 0.1)  # the score with words: 0.8, 0.6, 0.375, 0.35
    with_words = pair_features(some, match)
    leads_with_words = [AHEAD + AHEAD, -0.2 + AHEAD, AHEAD - 0.225, 2 * AHEAD]
    assert with_words[:, :3].tolist() == features.tolist()
    assert with_words[:, 3] == pytest.approx(np.subtract(leads_with_words, leads), abs=1e-6)
    assert pair_features(pairs(), np.zeros(0, np.float32)).shape == (0, 4)


def test_the_match_of_words_and_its_lead() -> None:
    """The rivals of (0, 0) are (0, 1) and (1, 0); (2, 2) has none."""
    some = pairs((0, 0, 0.9), (0, 1, 0.8), (1, 0, 0.7), (2, 2, 0.6))
    features = match_features(some, np.array([0.8, 0.5, 0.7, 0.1], np.float32))
    assert features[:, 0] == pytest.approx([0.8, 0.5, 0.7, 0.1])
    expected = [0.3 + 0.1, -0.3 + MATCH_AHEAD, -0.1 + MATCH_AHEAD, 2 * MATCH_AHEAD]
    assert features[:, 1] == pytest.approx(expected, abs=1e-6)
    assert match_features(pairs(), np.zeros(0, np.float32)).shape == (0, 2)


@pytest.mark.parametrize(("lexicon", "looked_at", "width"), [(0, 0, 3), (1, 0, 4), (0, 1, 5), (1, 1, 6)])
def test_probabilities_are_a_logistic_regression_of_the_features(lexicon: int, looked_at: int, width: int) -> None:
    bias, weights = REGRESSION[bool(lexicon), bool(looked_at)]
    features = np.random.default_rng(0).uniform(0, 1, (4, width)).astype(np.float32)
    odds = [bias + sum(weight * value for weight, value in zip(weights, row, strict=True)) for row in features]
    values = probabilities(features, bool(lexicon), bool(looked_at))
    assert values == pytest.approx([1 / (1 + np.exp(-value)) for value in odds], rel=1e-4)


def test_one_to_one() -> None:
    some = pairs((0, 0, 0.9), (1, 0, 0.8), (0, 1, 0.7), (1, 1, 0.6), (2, 0, 0.5), (3, 3, 0.4))
    assert one_to_one(some, "greedy").tolist() == [0, 3, 5]
    assert one_to_one(some, "mutual").tolist() == [0, 5]  # (1, 1): 1 likes 0 better
    assert one_to_one(some, "all").tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(InputError, match="pairs 'first'; expected one of greedy, mutual, all"):
        one_to_one(some, "first")
    for pairing in ("greedy", "mutual", "all"):
        assert one_to_one(pairs(), pairing).tolist() == []


@pytest.mark.parametrize("pairing", ["greedy", "mutual", "all"])
def test_a_higher_floor_gives_the_beginning(pairing: str) -> None:
    draw = np.random.default_rng(1)
    every = sorted(((s, t, draw.random()) for s, t in product(range(8), range(8))), key=lambda row: -row[2])
    whole = one_to_one(pairs(*every), pairing).tolist()
    for count in range(1, 64):
        part = one_to_one(pairs(*every[:count]), pairing).tolist()
        assert part == whole[: len(part)] == [number for number in whole if number < count]


def test_lengths_are_seen_against_what_is_usual() -> None:
    # targets are usually twice as long (with the slack of 8): the fourth is as long as its source, the fifth 8 times
    source = np.array([12, 42, 92, 92, 12], np.int32)
    target = np.array([2 * 20 - 8, 2 * 50 - 8, 2 * 100 - 8, 92, 8 * 20 - 8], np.int32)
    some = pairs(*((n, n, 1 - n / 10) for n in range(5)))
    assert length_deviations(some, source, target) == pytest.approx([0, 0, 0, np.log(2), np.log(4)])
    assert length_deviations(pairs(), source, target).tolist() == []


@pytest.mark.parametrize(
    ("source", "target", "copy"),
    [
        ("LibreOffice 7.5", "libreoffice 7.5!", True),
        ("OK", "ok.", True),
        ("OK", "no", False),
        ("The quick brown fox", "The quick brown fax", True),  # 12 of 14 groups of three on each side: 24 / 28 > 0.75
        ("Der Hund schläft im Haus.", "The dog sleeps in the house.", False),
        ("Привет, мир", "Hello, world", False),
        ("东京是日本的首都", "東京は日本の首都です", False),
    ],
)
def test_copies(source: str, target: str, copy: bool) -> None:
    assert is_copy(source, target, 0.75) is copy
    assert is_copy(target, source, 0.75) is copy


def test_the_share_of_a_copy() -> None:
    # thequickbrownfox / thequickbrownfax: 14 groups each, 12 in common
    assert is_copy("The quick brown fox", "The quick brown fax", 2 * 12 / (14 + 14) - 0.001)
    assert not is_copy("The quick brown fox", "The quick brown fax", 2 * 12 / (14 + 14) + 0.001)


def test_calibration_by_hand() -> None:
    """40 known pairs; other pairs are right while scores are high, then nobody is."""
    known_pairs = [(n, n) for n in range(40)]
    rows = [(n, n, 1.0 - n / 1000) for n in range(30)]  # 30 known ones, from 1.0 down
    rows += [(100 + n, 100 + n, 0.9995 - n / 1000 / 2) for n in range(60)]  # twice as many others beside them
    rows += [(200 + n, 200 + n, 0.5 - n / 1000) for n in range(100)]  # far below: anything
    rows += [(30, 31, 0.45)]  # a sentence of a known pair with a wrong one
    chosen = pairs(*sorted(rows, key=lambda row: -row[2]))
    calibration = calibrate(chosen, known_pairs)
    assert (calibration.known, calibration.found, calibration.recall) == (40, 30, 30 / 40)
    # others over recall, at each known pair from half of them on: least at the first, where the others lag behind
    expected = min((sum(r[2] >= 1.0 - n / 1000 for r in rows[30:90])) / ((n + 1) / 40) for n in range(19, 30))
    assert calibration.mates == round(expected)
    others = sum(row[2] >= calibration.threshold - 1e-6 for row in rows[30:90])
    assert calibration.precision == pytest.approx(
        (calibration.mates + 40) * calibration.recall / (others + 30), abs=0.005
    )
    assert calibration.f1 == pytest.approx(
        2 * calibration.precision * calibration.recall / (calibration.precision + calibration.recall)
    )
    assert calibration.threshold == pytest.approx(1.0 - 29 / 1000)


def test_calibration_without_other_mates() -> None:
    known_pairs = [(n, n) for n in range(20)]
    rows = [(n, n, 1.0 - n / 100) for n in range(20)] + [(100 + n, 100 + n, 0.85 - n / 10000) for n in range(200)]
    calibration = calibrate(pairs(*sorted(rows, key=lambda row: -row[2])), known_pairs)
    assert calibration.mates == 0
    assert calibration.threshold == pytest.approx(1.0 - 15 / 100)  # 15 and the known pair that stands with the others
    assert calibration.precision == pytest.approx(20 * (16 / 20) / 17, abs=0.06)


def test_equal_scores_are_taken_together() -> None:
    known_pairs = [(n, n) for n in range(20)]
    rows = [(n, n, 0.9) for n in range(20)] + [(100 + n, 100 + n, 0.9) for n in range(10)]
    calibration = calibrate(pairs(*rows), known_pairs)
    assert (calibration.threshold, calibration.found) == (pytest.approx(0.9), 20)


def test_what_cannot_be_calibrated_with() -> None:
    with pytest.raises(InputError, match="3 pairs to calibrate with; expected 20 or more"):
        calibrate(pairs((0, 0, 1.0)), [(0, 0)] * 3)
    with pytest.raises(InputError, match="none of the pairs to calibrate with was found"):
        calibrate(pairs((0, 1, 1.0)), [(n, n) for n in range(20)])
    with pytest.raises(InputError, match="none of the pairs to calibrate with was found"):
        calibrate(pairs(), [(n, n) for n in range(20)])

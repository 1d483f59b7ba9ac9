"""Mappings: a rotation is found again, exactly by pairs, and without any from the vectors' own shape."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from spaces import clustered, rotation, two_languages

from phrasemate.errors import InputError
from phrasemate.vectors import (
    SelfLearning,
    WordVectors,
    induce,
    map_supervised,
    map_unsupervised,
    procrustes,
    symmetric_maps,
)
from phrasemate.vectors.alignment import _best_rows, _dictionary, initial_pairs, self_learn

QUICK = SelfLearning(vocabulary=400, initial=400, patience=4)


def test_procrustes_finds_a_rotation() -> None:
    x, turn = clustered(60, 12, 5), rotation(12, 3)
    result = procrustes(x, x @ turn)
    np.testing.assert_allclose(result, turn, atol=1e-5)
    np.testing.assert_allclose(result @ result.T, np.eye(12), atol=1e-5)
    order = np.random.default_rng(0).permutation(60)
    z = (x @ turn)[order]
    np.testing.assert_allclose(procrustes(x, z, order[:40], np.arange(40)), turn, atol=1e-5)


def test_symmetric_maps_of_zeros_are_refused() -> None:
    """A word that is alone is all zeros once it is centred; others may be so in their file."""
    zeros, others = WordVectors(["a", "b"], np.zeros((2, 3))), WordVectors(["x", "y", "z"], np.eye(3))
    with pytest.raises(InputError, match="all zeros, so nothing can be learnt"):
        map_supervised(WordVectors(["a"], np.eye(3)[:1]), others, [("a", "x")], "symmetric")
    with pytest.raises(InputError, match="all zeros, so nothing can be learnt"):
        map_unsupervised(zeros, others, replace(QUICK, patience=1))


def test_procrustes_is_the_best_of_all_rotations() -> None:
    x, z = clustered(40, 4, 3, 0), clustered(40, 4, 3, 1)
    best = ((x @ procrustes(x, z) - z) ** 2).sum()
    assert all(((x @ rotation(4, seed) - z) ** 2).sum() > best for seed in range(200))


@pytest.mark.parametrize("shapes", [((3, 4), (3, 5)), ((3, 4), (2, 4)), ((0, 4), (0, 4))])
def test_procrustes_of_what_does_not_correspond(shapes: tuple[tuple[int, int], tuple[int, int]]) -> None:
    with pytest.raises(InputError, match="expected one shape"):
        procrustes(*(np.ones(shape, np.float32) for shape in shapes))


def test_symmetric_maps_by_another_way() -> None:
    """The same from singular value decompositions of x and z themselves."""
    x, z = clustered(50, 6, 4, 0), clustered(50, 6, 4, 1)
    (px, dx, qx), (pz, dz, qz) = (np.linalg.svd(side.astype(np.float64), full_matrices=False) for side in (x, z))
    u, values, vt = np.linalg.svd((px @ qx).T @ (pz @ qz))  # (x (x'x)^-1/2)' z (z'z)^-1/2
    root_x, root_z = qx.T * dx @ qx, qz.T * dz @ qz  # (x'x)^1/2
    left = np.linalg.inv(root_x) @ u @ np.diag(values**0.5) @ u.T @ root_x @ u
    right = np.linalg.inv(root_z) @ vt.T @ np.diag(values**0.5) @ vt @ root_z @ vt.T
    maps = symmetric_maps(x, z)
    np.testing.assert_allclose(x @ maps[0] @ (z @ maps[1]).T, x @ left @ (z @ right).T, rtol=1e-3, atol=1e-3)


def test_supervised_mapping() -> None:
    source, target, lexicon = two_languages(300, 20, noise=0.0)
    mapped = map_supervised(source, target, lexicon[:100])
    np.testing.assert_allclose(np.linalg.norm(mapped.source.matrix, axis=1), 1, atol=1e-5)
    for word, translation in lexicon:
        np.testing.assert_allclose(mapped.source.get(word), mapped.target.get(translation), atol=1e-4)
    np.testing.assert_allclose(mapped.target.matrix, target.prepared().matrix)
    assert mapped.source.facts == {"mapping": "procrustes", "pairs": 100}
    symmetric = map_supervised(source, target, lexicon[:100], "symmetric")
    assert induce(symmetric.source, symmetric.target, lexicon[100:]).csls.mean() == 1


def test_the_beginning_sees_through_rotation_and_order() -> None:
    source, target, lexicon = two_languages(200, 20, noise=0.0)
    pairs = initial_pairs(source.prepared().matrix, target.prepared().matrix, SelfLearning(initial=200))
    assert len(pairs[0]) == len(pairs[1]) == 2 * 200
    right = dict(lexicon)
    results = [(source.words[a], target.words[b]) for a, b in zip(*pairs, strict=True)]
    assert sum(right[a] == b for a, b in results) == 400


@pytest.mark.parametrize("seed", [0, 1])
def test_unsupervised_mapping(seed: int) -> None:
    source, target, lexicon = two_languages(400, 30, noise=0.12, seed=seed)
    assert induce(source, target, lexicon).nearest.mean() < 0.02
    events: list[tuple[int, float, float]] = []
    mapped = map_unsupervised(
        source, target, replace(QUICK, seed=seed), progress=lambda *arguments: events.append(arguments)
    )
    assert mapped.learnt is not None
    assert induce(mapped.source, mapped.target, lexicon).csls.mean() > 0.9
    iterations, keeps, objectives = zip(*events, strict=True)
    assert iterations == tuple(range(1, mapped.learnt.iterations + 1))
    assert list(dict.fromkeys(keeps)) == [0.1, 0.2, 0.4, 0.8, 1.0]
    assert objectives[-1] == mapped.learnt.objective > objectives[0]


def test_the_same_seed_gives_the_same() -> None:
    source, target, _ = two_languages(150, 10, noise=0.1)
    first, again = (map_unsupervised(source, target, QUICK) for _ in range(2))
    np.testing.assert_array_equal(first.source.matrix, again.source.matrix)


def test_a_small_lexicon_is_enough_with_self_learning() -> None:
    source, target, lexicon = two_languages(400, 30, noise=0.2)
    alone = map_supervised(source, target, lexicon[:8])
    mapped = map_unsupervised(source, target, QUICK, lexicon[:8])
    pairs = lexicon[8:]
    assert induce(alone.source, alone.target, pairs).csls.mean() < 0.5
    assert induce(mapped.source, mapped.target, pairs).csls.mean() > 0.7


@pytest.mark.parametrize("number", [0, 10**9])
@pytest.mark.parametrize("block", [500, 10**9])
def test_a_dictionary_as_a_plain_loop(monkeypatch: pytest.MonkeyPatch, number: int, block: int) -> None:
    monkeypatch.setattr("phrasemate.vectors.alignment.HELD", number)
    monkeypatch.setattr("phrasemate.utils.knn.BLOCK", block)
    x, z, k = clustered(40, 5, 3, 0), clustered(70, 5, 3, 1), 4
    similar = [[float(a @ b) for b in z] for a in x]
    r_x = [sum(sorted(row, reverse=True)[:k]) / k for row in similar]
    r_z = [sum(sorted((row[j] for row in similar), reverse=True)[:k]) / k for j in range(70)]
    csls = np.array([[2 * similar[i][j] - r_x[i] - r_z[j] for j in range(70)] for i in range(40)])
    source, target, objective = _dictionary(x, z, 1.0, k, np.random.default_rng(0))
    assert source.tolist() == [*range(40), *(max(range(40), key=lambda i: csls[i, j]) for j in range(70))]
    assert target.tolist() == [*(max(range(70), key=lambda j: csls[i, j]) for i in range(40)), *range(70)]
    rows, columns = np.max(similar, axis=1), np.max(similar, axis=0)
    assert objective == pytest.approx((rows.mean() + columns.mean()) / 2, rel=1e-5)


def test_chance_hides_similarities() -> None:
    x = np.eye(200, dtype=np.float32)
    sizes = [_dictionary(x, x, keep, 1, np.random.default_rng(0))[1][:200] for keep in (0.1, 0.5, 1.0)]
    shares = [float((target == np.arange(200)).mean()) for target in sizes]
    assert shares == pytest.approx([0.1, 0.5, 1.0], abs=0.12)


@pytest.mark.parametrize("shape", [(1, 5), (7, 3), (64, 11), (101, 4)])
def test_best_rows(shape: tuple[int, int]) -> None:
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    assert _best_rows(values).tolist() == values.argmax(0).tolist()


def test_it_ends_in_any_case() -> None:
    draw = np.random.default_rng(0).standard_normal((50, 8)).astype(np.float32)
    pairs = (np.arange(50), np.arange(50))
    learnt = self_learn(draw, draw, pairs, SelfLearning(keep=1.0, patience=3))
    assert (learnt.iterations, learnt.objective) == (4, pytest.approx((draw**2).sum(1).mean(), rel=0.5))
    assert self_learn(draw, draw, pairs, SelfLearning(most=2)).iterations == 2


def test_saved(few: WordVectors, tmp_path: Path) -> None:
    other = replace(few, words=("the", "house", "size", "tokyo"), language="en")
    lexicon = [("das", "the"), ("haus", "house")]
    mapped = map_supervised(few, other, lexicon)
    mapped.save(tmp_path / "out")
    record = WordVectors.load(tmp_path / "out" / "target")
    assert (record.words, record.language, record.facts["mapping"]) == (other.words, "en", "procrustes")
    with pytest.raises(InputError, match="already exists"):
        mapped.save(tmp_path / "out")
    mapped.save(tmp_path / "out", force=True)
    few.save(tmp_path / "plain")
    mapped.save(tmp_path / "plain", force=True)  # nothing is left of what was there
    assert sorted(path.name for path in (tmp_path / "plain").iterdir()) == ["source", "target"]
    (tmp_path / "stopped.new").mkdir()  # what a stopped one has left
    mapped.save(tmp_path / "stopped")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "plain", "stopped"]


def test_what_cannot_be_mapped(few: WordVectors) -> None:
    with pytest.raises(InputError, match="none of the 1 pairs of the lexicon has a vector for both words"):
        map_supervised(few, few, [("das", "the")])
    with pytest.raises(InputError, match="vectors of 3 and of 2 dimensions"):
        map_unsupervised(few, few.using(few.matrix[:, :2]))
    with pytest.raises(InputError, match="method 'best'; expected procrustes or symmetric"):
        map_supervised(few, few, [("das", "das")], "best")
    with pytest.raises(InputError, match="1 and 1 words; expected at least two"):
        map_unsupervised(few.first(1), few.first(1))
    with pytest.raises(InputError, match="pairs of rows beyond the first 2 words"):
        self_learn(few.matrix, few.matrix, (np.array([0, 2]), np.array([0, 1])), SelfLearning(vocabulary=2))
    with pytest.raises(InputError, match="keep=0"):
        SelfLearning(keep=0)
    with pytest.raises(InputError, match="a seed from 0"):
        SelfLearning(seed=-1)

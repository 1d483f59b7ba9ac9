"""Score-aware codes against their formula and plain loops, and as FAISS holds them."""

from __future__ import annotations

import itertools

import faiss
import numpy as np
import pytest

from phrasemate.index.faiss_build import WORDS, Coder, _fitted, eta, packed


def unit(count: int, dim: int, seed: int = 0, decay: float = 0.5) -> np.ndarray:
    """Unit vectors whose components vary less and less, in no order."""
    draw = np.random.default_rng(seed)
    result = draw.standard_normal((count, dim)) * draw.permutation(np.arange(1, dim + 1) ** -decay)
    return (result / np.linalg.norm(result, axis=1, keepdims=True)).astype(np.float32)


def loss(vector: np.ndarray, decoding: np.ndarray) -> float:
    error = vector - decoding
    return float(error @ error + (eta(len(vector)) - 1) * (error @ vector) ** 2)


def test_the_weight_of_an_error_along_the_vector() -> None:
    assert eta(192) == pytest.approx(191 * 0.0289 / 0.9711)  # (d - 1) T^2 / (1 - T^2), T = .17
    assert eta(4) == 1.0  # never less than across it


def test_a_code_is_as_good_as_the_best_of_all_or_nearly() -> None:
    vectors = unit(400, 100, decay=0)
    words = Coder.train(vectors, 2).words  # of 50 dimensions each, so that eta is 3
    coder = Coder(np.eye(100, dtype=np.float32), words)
    decoding = coder.decode(coder.encode(vectors))
    every = [np.concatenate([words[0][a], words[1][b]]) for a, b in itertools.product(range(WORDS), repeat=2)]
    beyond = [loss(v, k) - min(loss(v, one) for one in every) for v, k in zip(vectors[:100], decoding, strict=False)]
    assert min(beyond) > -1e-5
    assert np.mean(np.array(beyond) < 1e-5) > 0.9


def test_encoding_lowers_the_loss_of_the_nearest_codewords_as_a_plain_loop_does() -> None:
    vectors = unit(3000, 192)
    coder = Coder.train(vectors, 48)
    rotated = coder.rotate(vectors[:20])
    codes = coder.encode(rotated)
    weight = eta(192) - 1
    for vector, code in zip(rotated, codes, strict=True):
        parts = vector.reshape(48, 4)
        plain = [int(np.square(coder.words[part] - parts[part]).sum(axis=1).argmin()) for part in range(48)]
        nearest = coder.decode(np.array([plain], np.uint8))[0]
        for _ in range(2):
            for part in range(48):
                rest = 1 - sum(coder.words[p][plain[p]] @ parts[p] for p in range(48) if p != part)
                costs = [
                    np.square(parts[part] - word).sum() + weight * (rest - word @ parts[part]) ** 2
                    for word in coder.words[part]
                ]
                plain[part] = int(np.argmin(costs))
        looped = coder.decode(np.array([plain], np.uint8))[0]
        result = coder.decode(code[None])[0]
        assert loss(vector, result) == pytest.approx(loss(vector, looped), abs=1e-4)
        assert loss(vector, result) < loss(vector, nearest)


def test_blocks_and_threads_change_nothing() -> None:
    vectors = unit(5000, 24)
    coder = Coder.train(vectors, 8)
    rotated = coder.rotate(vectors)
    codes = coder.encode(rotated, workers=2)
    assert codes.shape == (5000, 8)
    assert np.array_equal(codes[4000:4010], coder.encode(rotated[4000:4010]))
    assert coder.encode(rotated[:0]).shape == (0, 8)


@pytest.mark.parametrize(("dim", "parts"), [(192, 48), (96, 32), (15, 15)])
def test_the_rotation_keeps_products_and_deals_variances_evenly(dim: int, parts: int) -> None:
    vectors = unit(4000, dim)
    coder = Coder.train(vectors, parts)
    assert coder.rotation @ coder.rotation.T == pytest.approx(np.eye(dim), abs=1e-4)
    rotated = coder.rotate(vectors)
    assert rotated[:5] @ rotated[5:9].T == pytest.approx(vectors[:5] @ vectors[5:9].T, abs=1e-5)
    covariance = rotated.T @ rotated / len(rotated)
    assert covariance - np.diag(np.diag(covariance)) == pytest.approx(np.zeros((dim, dim)), abs=1e-5)
    products = np.log(np.diag(covariance)).reshape(parts, -1).sum(axis=1)
    if parts < dim:
        assert np.ptp(products) < np.ptp(np.log(np.sort(np.diag(covariance))).reshape(parts, -1).sum(axis=1)) / 4


def test_codewords_are_the_solution_of_the_normal_equations() -> None:
    vectors = unit(600, 12)
    coder = Coder.train(vectors, 4)
    rotated = coder.rotate(vectors)
    codes = coder.encode(rotated)
    rows = np.zeros((len(rotated), coder.words.size))
    for at, (vector, code) in enumerate(zip(rotated, codes, strict=True)):
        for part in range(4):
            rows[at, (part * WORDS + code[part]) * 3 + np.arange(3)] = vector[part * 3 : part * 3 + 3]
    more = eta(12) - 1
    counts = (rows != 0).sum(axis=0)
    left = np.diag(counts + 1e-3) + more * rows.T @ rows
    right = (1 + more) * rows.sum(axis=0) + 1e-3 * coder.words.ravel()
    result = _fitted(rotated, codes, coder.words)
    assert result.ravel() == pytest.approx(np.linalg.solve(left, right), abs=2e-3)
    before = sum(loss(v, k) for v, k in zip(rotated, coder.decode(codes), strict=True))
    after = sum(loss(v, k) for v, k in zip(rotated, Coder(coder.rotation, result).decode(codes), strict=True))
    assert after <= before + 1e-3


def test_faiss_encodes_what_is_decoded_as_the_same_codes() -> None:
    vectors = unit(3000, 24)
    coder = Coder.train(vectors, 8)
    codes = coder.encode(coder.rotate(vectors))
    plain = faiss.ProductQuantizer(24, 8, 4)
    faiss.copy_array_to_vector(coder.words.ravel(), plain.centroids)
    assert np.array_equal(plain.compute_codes(coder.decode(codes)), packed(codes))


def test_an_odd_number_of_parts_is_packed() -> None:
    assert packed(np.array([[1, 2, 3]], np.uint8)).tolist() == [[0x21, 0x03]]


def test_high_scores_keep_their_order_better_than_with_nearest_codewords() -> None:
    vectors, queries = unit(20_000, 96, decay=0.7), unit(300, 96, seed=1, decay=0.7)
    queries = (queries + vectors[:300]) / np.linalg.norm(queries + vectors[:300], axis=1, keepdims=True)
    coder = Coder.train(vectors[:6000], 24)
    plain = faiss.ProductQuantizer(96, 24, 4)
    plain.train(vectors[:6000])
    best = (queries @ vectors.T).argmax(axis=1)

    def recall(scores: np.ndarray) -> float:
        ahead = (scores > scores[np.arange(len(scores)), best][:, None]).sum(axis=1)
        return float((ahead < 8).mean())

    ours = recall(coder.rotate(queries) @ coder.decode(coder.encode(coder.rotate(vectors))).T)
    theirs = recall(queries @ plain.decode(plain.compute_codes(vectors)).T)
    assert ours > theirs + 0.02

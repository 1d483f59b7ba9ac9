"""Vectors of text alone: counts, information and reduction against plain loops."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

from phrasemate.errors import InputError, MissingExtra
from phrasemate.vectors import tokens
from phrasemate.vectors.ppmi import PPMISettings, _cooccurrences, _positive_information, train_ppmi


def topics(count: int = 400, seed: int = 0) -> list[str]:
    """Sentences of one of two topics, each with words of its own, and words of both."""
    draw = np.random.default_rng(seed)
    topic_words = (["cat", "dog", "cow", "pig", "hen"], ["red", "blue", "green", "pink", "grey"])
    lines = []
    for _ in range(count):
        words = [*draw.choice(topic_words[int(draw.integers(2))], 4), *draw.choice(["the", "and", "is"], 3)]
        lines.append(" ".join(draw.permutation(words)) + ".")
    return lines


def plain_counts(texts: list[str], index: dict[str, int], window: int) -> np.ndarray:
    counts = np.zeros((len(index), len(index)))
    for text in texts:
        words = [word for word, _, _ in tokens(text)]
        for i, left in enumerate(words):
            for j, right in enumerate(words):
                if 0 < abs(i - j) <= window and left in index and right in index:
                    counts[index[left], index[right]] += (window + 1 - abs(i - j)) / window
    return counts


@pytest.mark.parametrize("chunk", [3, 10**6])
@pytest.mark.parametrize("window", [1, 3])
def test_counts_as_a_plain_loop(monkeypatch: pytest.MonkeyPatch, chunk: int, window: int) -> None:
    monkeypatch.setattr("phrasemate.vectors.ppmi.CHUNK", chunk)
    texts = [*topics(20), "", "cat", "cat unknown cat dog"]
    index = {word: row for row, word in enumerate(["cat", "dog", "the", "red"])}
    vectors = _cooccurrences(texts, index, window, 0, lambda *_: None).toarray()
    np.testing.assert_allclose(vectors, plain_counts(texts, index, window), rtol=1e-6)


def test_information_as_a_plain_loop() -> None:
    settings = PPMISettings(smoothing=0.75, shift=1.5)
    index = {word: row for row, word in enumerate(["cat", "dog", "the", "red", "blue"])}
    counts = _cooccurrences(topics(30), index, 5, 0, lambda *_: None)
    dense = counts.toarray().astype(float)
    vectors = _positive_information(counts, settings).toarray()
    total, sums = dense.sum(), dense.sum(1)
    powers = sums**0.75
    for i in range(5):
        for j in range(5):
            p = dense[i, j] / total
            q = (sums[i] / total) * (powers[j] / powers.sum())
            expected = max(0.0, math.log(p / q) - math.log(1.5)) if p else 0.0
            assert vectors[i, j] == pytest.approx(expected, abs=1e-5)


def test_reduced_as_a_whole_decomposition() -> None:
    texts = topics()
    vectors = train_ppmi(texts, PPMISettings(dim=3, least=2))
    index = vectors.index
    matrix = _positive_information(_cooccurrences(texts, index, 5, 0, lambda *_: None), PPMISettings()).toarray()
    u, values, _ = np.linalg.svd(matrix.astype(float))
    expected = u[:, :3] * values[:3] ** 0.5
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors.matrix @ vectors.matrix.T, expected @ expected.T, atol=1e-4)
    np.testing.assert_array_equal(vectors.matrix, train_ppmi(texts, PPMISettings(dim=3, least=2)).matrix)


def test_progress_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("ppmi", "vocabulary"):
        monkeypatch.setattr(f"phrasemate.vectors.{module}.EVERY", 150)
    events: list[tuple[str, int, int]] = []
    train_ppmi(topics(400), PPMISettings(dim=3, least=2), progress=lambda *event: events.append(event))
    assert events == [
        *(("counting words", 150, 0), ("counting words", 300, 0)),
        *(("counting neighbours", 150, 400), ("counting neighbours", 300, 400)),
        ("reducing", 0, 0),
    ]


def test_words_of_a_topic_are_neighbours() -> None:
    space = train_ppmi(topics(), PPMISettings(dim=4, least=2), "en")
    animals, colours = (space.rows(words) for words in (["cat", "dog", "cow", "pig"], ["red", "blue", "green", "pink"]))
    similar = space.matrix @ space.matrix.T
    assert similar[np.ix_(animals, animals)].mean() > similar[np.ix_(animals, colours)].mean() + 0.5
    assert similar[np.ix_(colours, colours)].mean() > similar[np.ix_(animals, colours)].mean() + 0.5
    assert space.language == "en"
    assert space.facts["method"] == "PPMI and SVD"


def test_what_cannot_be_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="2 words occur 1 times or more; expected more than dim 300"):
        train_ppmi(["one two"], PPMISettings(least=1))
    with pytest.raises(InputError, match="expected numbers of 1 or more"):
        PPMISettings(window=0)
    with pytest.raises(InputError, match="a seed from 0"):
        PPMISettings(seed=-1)
    with pytest.raises(InputError, match="no two words"):
        train_ppmi(["one", "two", "three", "four"], PPMISettings(least=1, dim=2))
    with pytest.raises(InputError, match="too few neighbours in common for 3 dimensions; give a smaller dim"):
        train_ppmi(topics(), PPMISettings(dim=3, shift=1e6))  # no pair of words is so much more frequent than by chance
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    with pytest.raises(MissingExtra, match=r"pip install 'phrasemate\[vectors\]'"):
        train_ppmi(topics(), PPMISettings(dim=3))

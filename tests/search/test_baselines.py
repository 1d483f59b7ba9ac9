"""QLM, AGG and TbT: their formulas written out, and plain loops over random sentences."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from phrasemate import rank as baselines
from phrasemate.errors import InputError
from phrasemate.rank import agg, qlm, sums, tbt, translated
from phrasemate.text.sentences import content_words, stop_words
from phrasemate.vectors.word_vectors import WordVectors

DRAW = np.random.default_rng(5)
WORDS = [f"w{i}" for i in range(30)]


def random_sentences(count: int, least: int = 0) -> list[list[str]]:
    return [[str(word) for word in DRAW.choice(WORDS, DRAW.integers(least, 9))] for _ in range(count)]


def likelihood(query: list[str], document: list[str], documents: list[list[str]], mu: float) -> float:
    """The log P(q | d) of eq. 8, a word at a time; words that no document has are left out."""
    collection = Counter(word for item in documents for word in item)
    result = 0.0
    for word in query:
        if collection[word]:
            share = document.count(word) / len(document) if document else 0.0
            result += math.log(mu * share + (1 - mu) * collection[word] / sum(collection.values()))
    return result


@pytest.mark.parametrize("at_once", [1_000_000, 23])
def test_qlm_is_the_formula(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The difference between any two documents is that of their log-likelihoods."""
    monkeypatch.setattr(baselines, "_SUMS_PER_BLOCK", at_once)
    queries, documents = random_sentences(7), random_sentences(11)
    queries[3], documents[4] = ["w1", "w1", "unseen"], []
    scores = qlm(queries, documents, mu=0.8)
    expected = np.array([[likelihood(q, d, documents, 0.8) for d in documents] for q in queries])
    background = expected[:, 4:5]  # of the empty document: only the second terms
    np.testing.assert_allclose(scores, expected - background, atol=1e-5)
    assert (scores[:, 4] == 0).all()


def test_qlm_by_hand() -> None:
    scores = qlm([["bank"]], [["bank", "river"], ["money", "money"]])
    assert scores.tolist() == [[pytest.approx(math.log((0.95 * 1 / 2 + 0.05 * 1 / 4) / (0.05 * 1 / 4))), 0.0]]


def test_qlm_of_nothing() -> None:
    assert qlm([["a"], []], [["b"]]).tolist() == [[0.0], [0.0]]
    assert qlm([], [["b"]]).shape == (0, 1)
    assert qlm([["a"]], []).shape == (1, 0)
    assert qlm([["a"]], [[]]).tolist() == [[0.0]]


@pytest.mark.parametrize("mu", [0.0, 1.0, math.nan])
def test_mu_is_between_0_and_1(mu: float) -> None:
    with pytest.raises(InputError, match="expected a weight between 0 and 1"):
        qlm([["a"]], [["a"]], mu)


def vectors(language: str, words: list[str]) -> WordVectors:
    return WordVectors(words, DRAW.normal(size=(len(words), 6)).astype(np.float32), language)


def test_agg_is_the_cosine_of_sums() -> None:
    source, target = vectors("de", WORDS[:20]), vectors("en", WORDS[5:])
    queries, documents = random_sentences(5, 1), random_sentences(8, 1)
    queries[2] = ["unknown"]
    result = agg(queries, documents, source, target)
    for row, query in enumerate(queries):
        for column, document in enumerate(documents):
            a = sum((v for word in query if (v := source.get(word)) is not None), np.zeros(6))
            b = sum((v for word in document if (v := target.get(word)) is not None), np.zeros(6))
            expected = a @ b / (np.linalg.norm(a) * np.linalg.norm(b) or 1)
            assert result[row, column] == pytest.approx(expected, abs=1e-6)
    assert (result[2] == 0).all()
    assert sums([], source).shape == (0, 6)
    narrow = WordVectors(["a"], np.ones((1, 5), np.float32), "en")
    with pytest.raises(InputError, match="vectors of 6 and of 5 dimensions"):
        agg(queries, documents, source, narrow)


def test_tbt_puts_the_nearest_word_in_the_place_of_each() -> None:
    source = WordVectors(["haus", "hund", "null"], np.array([[3, 0.1], [0, 2], [0, 0]], np.float32))
    target = WordVectors(["house", "dog", "x"], np.array([[1, 0], [0, 9], [-5, -5]], np.float32))
    assert translated([["haus", "Oslo", "hund", "haus"], []], source, target) == [["house", "Oslo", "dog", "house"], []]
    assert translated([["Oslo"]], source, target) == [["Oslo"]]
    documents = [["dog", "house"], ["Oslo"], ["haus"]]
    scores = tbt([["haus", "Oslo"]], documents, source, target)
    np.testing.assert_array_equal(scores, qlm([["house", "Oslo"]], documents))
    assert scores[0, 2] == 0  # the word itself is gone


def test_tbt_against_a_loop() -> None:
    source, target = vectors("de", WORDS), vectors("en", [f"e{i}" for i in range(40)])
    for word, (answer,) in zip(WORDS, translated([[word] for word in WORDS], source, target), strict=True):
        share = source.get(word)
        assert share is not None
        cosines = [float(share @ row / np.linalg.norm(row)) for row in target.matrix]
        assert answer == target.words[int(np.argmax(cosines))]


def test_stop_words_go() -> None:
    text = "Der Hund und die Katze liegen auf dem Dach, 2 Stunden."
    assert content_words(text, stop_words("de")) == ["hund", "katze", "liegen", "dach", "2", "stunden"]
    assert content_words("Ja\u0308ger ÜBER uns") == ["jäger", "über", "uns"]  # composed, whatever the text has


def test_stop_words_of_an_unknown_language() -> None:
    with pytest.raises(InputError, match="no stop-words of language 'xx'; there are lists for af, "):
        stop_words("xx")

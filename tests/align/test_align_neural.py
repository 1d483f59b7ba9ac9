"""Extraction by hand and against plain loops; word vectors; both sides of a chunk; settings."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Iterator, Sequence
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phrasemate.align import NeuralAligner, TokenizedSentence, symmetrise
from phrasemate.align.neural import intersection, itermax, letter_likeness, mwmf, softmax, word_vectors
from phrasemate.encode import bundled_folder, load_model
from phrasemate.encode.pooling import Head
from phrasemate.encode.runtime import States
from phrasemate.errors import InputError, MissingExtra

VECTORS = {
    "ein": [2.0, 0.0, 0.1, 0.0],
    "a": [3.0, 0.1, 0.0, 0.0],
    "haus": [0.0, 2.0, 0.0, 0.1],
    "house": [0.1, 3.0, 0.0, 0.0],
    "rot": [0.0, 0.0, 2.0, 0.5],
    "red": [0.0, 0.1, 3.0, 0.0],
    "tür": [0.0, 0.0, 0.0, 2.0],
    "door": [0.0, 0.1, 0.0, 3.0],
}


class FakeRuntime:
    """Tokens are words between spaces, cut at hyphens; the states are `VECTORS`; blocks of three texts."""

    def __init__(self) -> None:
        self.passes = 0

    def blocks(self, texts: Sequence[str], layer: int | None = None) -> Iterator[tuple[slice, States]]:
        self.passes += 1
        for first in range(0, len(texts), 3):
            part = slice(first, min(first + 3, len(texts)))
            yield part, self._states(texts[part])

    def _states(self, texts: Sequence[str]) -> States:
        rows, bounds, starts, ends = [], [0], [], []
        for text in texts:
            tokens = [(0, 0)]
            for word_start, word_end in TokenizedSentence.of(text, tokenised=True).spans:
                at = word_start
                for piece in text[word_start:word_end].split("-"):
                    tokens.append((at, at + len(piece)))
                    at += len(piece) + 1
            tokens.append((len(text), len(text)))
            rows += [VECTORS.get(text[s:e].lower(), [9.0, 9.0, 9.0, 9.0]) for s, e in tokens]
            starts += [s for s, _ in tokens]
            ends += [e for _, e in tokens]
            bounds.append(len(rows))
        as_int = np.array(starts, np.int32), np.array(ends, np.int32)
        return States(np.array(rows, np.float32), np.array(bounds, np.int64), *as_int)


@pytest.fixture
def model() -> Any:
    return SimpleNamespace(runtime=FakeRuntime(), hash="0" * 64, head=None)


def pair(source: str, target: str) -> tuple[TokenizedSentence, TokenizedSentence]:
    return TokenizedSentence.of(source, tokenised=True), TokenizedSentence.of(target, tokenised=True)


def test_words_of_text_and_of_tokens() -> None:
    assert TokenizedSentence.of("Ein Haus.").spans == [(0, 3), (4, 8)]
    assert TokenizedSentence.of("Ein Haus .", tokenised=True).spans == [(0, 3), (4, 8), (9, 10)]
    for space in "\u00a0\u2007\u202f\u2009\u3000\u2028\x0b\x85":  # to aligners they are characters
        assert TokenizedSentence.of(f"20{space}000 \tEuro", tokenised=True).words() == [f"20{space}000", "Euro"]
    assert TokenizedSentence.of_tokens(["Ein", "Haus", "."]) == TokenizedSentence(
        "Ein Haus .", [(0, 3), (4, 8), (9, 10)]
    )
    assert TokenizedSentence.of_tokens([]) == TokenizedSentence("", [])


def test_a_word_is_the_mean_of_its_tokens(model: Any) -> None:
    (result,) = word_vectors(model, [TokenizedSentence.of("ein rot-haus", tokenised=True)])
    assert np.allclose(result, [[2, 0, 0.1, 0], [0, (2 + 0) / 2, (0 + 2) / 2, (0.1 + 0.5) / 2]])


@pytest.mark.parametrize("method", ["intersection", "itermax", "mwmf", "softmax"])
def test_links_of_each_method(model: Any, method: str) -> None:
    pairs = [pair("Ein rot Haus", "a house red"), pair("", "a"), pair("Tür", ""), pair("", "")] * 2
    expected = [[(0, 0), (1, 2), (2, 1)], [], [], []] * 2
    aligner = NeuralAligner(model, method=method, threshold=0.4, temperature=1.0)
    assert aligner.align(pairs) == expected
    assert model.runtime.passes == 2  # one for each side


def test_chunks_change_nothing(model: Any) -> None:
    pairs = [pair("Ein rot Haus", "a house red"), pair("Tür rot", "red door"), pair("Haus", "a house")] * 3
    whole = NeuralAligner(model).align(pairs)
    aligner = NeuralAligner(model)
    aligner.chunk = 2
    assert aligner.align(pairs) == whole


def test_directions_and_their_symmetrisation(model: Any) -> None:
    some = [pair("ein Haus Haus", "a house")]
    ((forward, reverse),) = NeuralAligner(model).directions(some)
    assert forward == [(0, 0), (1, 1), (2, 1)]  # every source word chooses
    assert reverse == [(0, 0), (1, 1)]  # every target word chooses, the first of two that are alike
    assert NeuralAligner(model).align(some) == [symmetrise(forward, reverse, "intersection")]
    assert NeuralAligner(model, symmetrisation="grow-diag").align(some) == [[(0, 0), (1, 1), (2, 1)]]


def test_argmax_by_hand() -> None:
    similarity = np.array([[0.9, 0.8], [0.7, 0.1], [0.2, 0.6]], np.float32)
    # rows choose 0, 0, 1; columns choose 0, 0: only 0-0 is mutual (target 1 prefers source 0)
    assert np.argwhere(intersection(similarity)).tolist() == [[0, 0]]


def test_itermax_by_hand() -> None:
    similarity = np.array([[0.9, 0.8], [0.7, 0.1], [0.2, 0.6]], np.float32)
    # after 0-0: row 0 and column 0 count for 0.9, 0-0 for nothing. (1 + s) / 2 x weight:
    #   row 0:   0     .81      row 1: .765  .55      row 2: .54  .8
    # rows choose 1, 0, 1; columns choose 1, 0: mutual are 0-1 (.81 > .8) and 1-0
    assert np.argwhere(itermax(similarity)).tolist() == [[0, 0], [0, 1], [1, 0]]
    assert np.argwhere(itermax(similarity, alpha=0.8)).tolist() == [[0, 0], [1, 0], [2, 1]]  # 0-1: .72 < .8
    assert np.argwhere(itermax(similarity, iterations=1)).tolist() == [[0, 0]]


def test_softmax_by_hand() -> None:
    products = np.log(np.array([[8, 1, 1], [1, 1, 2]], np.float32))
    # rows: .8 .1 .1 / .25 .25 .5; columns: 8/9 1/9, 1/2 1/2, 1/3 2/3
    rows, columns = softmax(products, 0.4)
    assert rows.tolist() == [[True, False, False], [False, False, True]]
    assert columns.tolist() == [[True, True, False], [False, True, True]]


def test_extraction_against_plain_loops() -> None:
    draw = np.random.default_rng(0)
    for _ in range(50):
        m, n = draw.integers(1, 8, 2)
        s = draw.normal(size=(m, n)).astype(np.float32)
        mutual = [(i, j) for i in range(m) for j in range(n) if s[i, j] == max(s[i]) == max(s[:, j])]
        assert [tuple(link) for link in np.argwhere(intersection(s))] == mutual
        both = np.logical_and(*softmax(s, 0.2))
        for i, j in np.ndindex(int(m), int(n)):
            shares = np.exp(s[i, j]) / np.exp(s[i]).sum(), np.exp(s[i, j]) / np.exp(s[:, j]).sum()
            assert both[i, j] == (min(shares) > 0.2)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"method": "argmax"}, "intersection, itermax, mwmf, softmax"),
        ({"method": "mwmf", "symmetrisation": "union"}, "intersection or softmax"),
        ({"units": "letters"}, "units 'letters'; expected .* and units of words, subwords"),
        ({"ties": 1.5}, "ties 1.5; expected a number from 0"),
        ({"method": "itermax", "symmetrisation": "union"}, "intersection or softmax"),
        ({"symmetrisation": "grow"}, "grow-diag"),
        ({"method": "softmax", "threshold": 1.0}, "threshold 1.0"),
        ({"method": "softmax", "temperature": 0.0}, "temperature 0.0"),
    ],
)
def test_senseless_settings(model: Any, settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        NeuralAligner(model, **settings)


@pytest.mark.parametrize("method", ["itermax", "mwmf"])
def test_methods_without_directions(model: Any, method: str) -> None:
    with pytest.raises(InputError, match="no directions"):
        NeuralAligner(model, method=method).directions([])


def test_mwmf_is_the_best_of_all_assignments() -> None:
    similarity = np.array([[0.9, 0.8], [0.7, 0.1], [0.2, 0.6]], np.float32)
    # 0-1 and 1-0 sum to 1.5, 0-0 and 2-1 too in the first digit: .8 + .7 = 1.5 = .9 + .6; .05 more decides
    similarity[2, 1] += 0.05
    assert np.argwhere(mwmf(similarity)).tolist() == [[0, 0], [2, 1]]
    assert np.argwhere(mwmf(similarity.T)).tolist() == [[0, 0], [1, 2]]
    assert mwmf(np.zeros((0, 3), np.float32)).shape == (0, 3)
    draw = np.random.default_rng(0)
    for _ in range(20):
        values = draw.normal(size=(3, 5)).astype(np.float32)
        best = max(permutations(range(5), 3), key=lambda places: sum(values[i, j] for i, j in enumerate(places)))
        assert np.argwhere(mwmf(values)).tolist() == [list(item) for item in enumerate(best)]


def test_mwmf_without_scipy_is_refused_at_once(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(MissingExtra, match="match"):
        NeuralAligner(model, method="mwmf")


def test_subwords_count_by_their_most_similar_pair(model: Any) -> None:
    """A word of two pieces is like a word that is one of them; its mean is less so."""
    some = [pair("ein rot-haus tür", "red-door a house"), pair("", "a"), pair("rot", "red house")]
    aligner = NeuralAligner(model, units="subwords")
    first, blank, last = aligner._similarities(some)
    assert first.shape == (3, 3)
    assert (blank.shape, last.shape) == ((0, 1), (1, 2))
    tokens = {word: np.array(VECTORS[word]) / np.linalg.norm(VECTORS[word]) for word in VECTORS}
    for row, word in enumerate(["ein", "rot-haus", "tür"]):
        for column, other in enumerate(["red-door", "a", "house"]):
            best = max(tokens[a] @ tokens[b] for a in word.split("-") for b in other.split("-"))
            assert first[row, column] == pytest.approx(best, abs=1e-6)
    assert aligner.signature["units"] == "subwords"
    assert "units" not in NeuralAligner(model).signature  # of files that were started before


def test_alike_letters_break_ties(model: Any) -> None:
    """Two names that the model has the same vector for."""
    some = [pair("Meyer Kowalski", "Kowalski Meyers")]
    assert NeuralAligner(model).align(some) == [[(0, 0)]]
    aligner = NeuralAligner(model, ties=0.2)
    assert aligner.align(some) == [[(0, 1), (1, 0)]]
    assert aligner.signature["ties"] == "0.2"
    likeness = letter_likeness(*some[0])
    # " meyer " has " me mey eye yer er ", " meyers " has yer, ers and rs instead of the last
    assert likeness[0].tolist() == pytest.approx([0, 2 * 4 / (5 + 6)])
    assert likeness[1, 0] == 1


def test_the_bundled_model_links_words_of_several_scripts() -> None:
    if not bundled_folder().exists():
        pytest.skip("no bundled model")
    texts = [
        ("Der Hund schläft in der Küche.", "The dog sleeps in the kitchen.", {(1, 1), (2, 2), (5, 5)}),
        ("Собака спит на кухне.", "The dog sleeps in the kitchen.", {(0, 1), (1, 2), (3, 5)}),
        ("狗在厨房里睡觉。", "The dog sleeps in the kitchen.", {(0, 1), (2, 5)}),
    ]
    aligner = NeuralAligner(load_model(threads=1))
    result = aligner.align(
        [(TokenizedSentence.of(source), TokenizedSentence.of(target)) for source, target, _ in texts]
    )
    for links, (_, _, expected) in zip(result, texts, strict=True):
        assert expected <= set(links)
    with pytest.raises(InputError, match="layer 99"):
        NeuralAligner(aligner.model, layer=99).align([pair("a", "b")])


def test_the_trained_head_tells_words_apart_where_there_is_one(model: Any) -> None:
    """Words are what the head makes of their two ends, as cosines; the mean only when it is asked for."""
    start = np.diag([1.0, 0.0, 1.0, 1.0]).astype(np.float32)  # blind to the second number
    model.head = Head(start, start, np.zeros(4, np.float32))
    some = [pair("haus rot", "red house")]
    assert NeuralAligner(model, pooling="mean").align(some) == [[(0, 1), (1, 0)]]
    aligner = NeuralAligner(model)
    assert aligner.signature["pooling"] == "head"
    (vectors, *_), values = word_vectors(model, [some[0][0]], pooling="head"), VECTORS["rot"]
    assert np.allclose(vectors[1], np.array(values) * [2, 0, 2, 2])
    (similarity,) = aligner._similarities(some)
    assert np.abs(similarity).max() <= 1 + 1e-6
    assert (aligner.threshold, aligner.temperature) == (0.5, 0.05)
    for settings in ({"pooling": "head", "layer": 1}, {"pooling": "max"}):
        with pytest.raises(InputError, match="pooling"):
            NeuralAligner(model, **settings)
    model.head = None
    with pytest.raises(InputError, match="pooling"):
        NeuralAligner(model, pooling="head")


def test_long_sentences_are_held_one_after_the_other(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    many = TokenizedSentence.of_tokens(["haus"] * 300)
    aligner = NeuralAligner(model)
    expected = aligner.align([(many, many)])[0]
    monkeypatch.setattr("phrasemate.align.neural.WORDS", 500)
    tracemalloc.start()
    links = aligner.align([(many, many)] * 60)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert links == [expected] * 60
    assert peak < 60 * 300 * 300 * 4 / 3  # a third of what the similarities of all take


@pytest.mark.parametrize("method", ["intersection", "itermax", "mwmf", "softmax"])
@pytest.mark.parametrize("symmetrisation", [None, "union"])
def test_a_pair_of_too_many_words_gets_no_links(
    model: Any, monkeypatch: pytest.MonkeyPatch, method: str, symmetrisation: str | None
) -> None:
    """Of a line of 1,000,000 characters on both sides there would be 250 billion similarities."""
    if method in ("itermax", "mwmf") and symmetrisation:
        return
    aligner = NeuralAligner(model, method=method, symmetrisation=symmetrisation)
    pairs = [pair("ein haus", "a house"), pair("ein haus rot", "a house"), pair("tür", "a red door")]
    first, second, third = aligner.align(pairs)
    assert second
    monkeypatch.setattr("phrasemate.align.neural.CELLS", 4)
    assert aligner.align(pairs) == [first, [], third]


@pytest.mark.parametrize("texts", [("Ein Haus", "a house"), pair("Ein Haus", "a house")[0]])
def test_texts_are_not_tokenized_sentences(model: Any, texts: Any) -> None:
    with pytest.raises(InputError, match=r"expected pairs of sentences, each as TokenizedSentence\.of\(text\)"):
        NeuralAligner(model).align([texts])

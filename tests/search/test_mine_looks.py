"""How promising pairs are scored again in mining: by words, by the re-ranker, by a scorer of the user, or not."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from mine_fakes import NumberEncoder

from phrasemate.encode import Model, load_model
from phrasemate.errors import InputError, ModelMismatch
from phrasemate.lexicon import bundled_lexicon
from phrasemate.mine import Mining, MiningResult, mine
from phrasemate.mine.mining import _look, _Steps
from phrasemate.mine.select import (
    CONTEST,
    Candidates,
    least_promising,
    match_features,
    pair_features,
    probabilities,
)
from phrasemate.mine.word_match import LexiconMatch, WordMatch
from phrasemate.rank import whole
from phrasemate.reranker import Attention, load_reranker
from phrasemate.types import Document, PhrasePair, Scorer

GERMAN = ["Der Hund schläft unter dem Tisch.", "Morgen fahren wir ans Meer.", "Sie hat den Brief verbrannt."]
ENGLISH = ["She burned the letter.", "The dog sleeps under the table.", "He bought a red bicycle.", "No."]


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(threads=1)


def mined(model: Model, scorer: Scorer | None = None, **settings: object) -> MiningResult:
    sides = [[Document.from_texts(*item)] for item in (("de", GERMAN), ("en", ENGLISH))]
    return mine(*sides, model, settings=Mining(threshold=-9.0, **settings), scorer=scorer)  # type: ignore[arg-type]


def test_the_words_of_promising_pairs_are_compared(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair that is not promising keeps its first probability; the others get that of all features."""
    tables: list[np.ndarray] = []

    def features(pairs: Candidates, match: np.ndarray | None = None) -> np.ndarray:
        tables.append(pair_features(pairs, match))
        return tables[0]

    monkeypatch.setattr("phrasemate.mine.mining.pair_features", features)
    monkeypatch.setattr("phrasemate.mine.mining.DOUBT", 0.5)  # so that wrong pairs are scored, too
    with mined(model, pairing="all", languages=("de", "en")) as mates:
        table = {mate[:2]: mate.score for mate in mates}
        assert mates.report.rerank == "words"
    with mined(model, pairing="all", languages=("de", "en"), rerank="none") as mates:
        firsts = {mate[:2]: mate.score for mate in mates}
        order = sorted(firsts, key=lambda pair: -firsts[pair])
        assert mates.report.rerank == "none"
    assert table.keys() == firsts.keys()
    promising = [pair for pair in order if firsts[pair] >= least_promising(len(GERMAN), len(ENGLISH))]
    assert 0 < len(promising) < len(order)
    assert all(table[pair] == firsts[pair] for pair in order if pair not in promising)
    places = [(GERMAN.index(source), ENGLISH.index(target)) for source, target in promising]
    source, target = np.array(places, np.int32).T
    empty = np.zeros(len(places), np.float32)
    match = WordMatch(model, LexiconMatch(bundled_lexicon(), ("de", "en")))  # type: ignore[arg-type]
    word_scores = match.score([PhrasePair(whole(one), whole(other)) for one, other in promising])
    by_first = np.argsort(-probabilities(tables[0], True), kind="stable")[: len(promising)]
    matches = match_features(Candidates(source, target, empty, empty, empty), word_scores)
    expected = probabilities(np.column_stack([tables[0][by_first], matches]), True, True)
    assert [table[pair] for pair in promising] == pytest.approx(expected.tolist(), abs=0.03)  # 16-bit states


def test_the_score_is_the_margin_and_the_weighted_second_look(model: Model) -> None:
    """Margins are those that a weight of 0 leaves."""
    with mined(model, rerank="reranker", weight=0.0) as plain, mined(model, rerank="reranker", weight=3.0) as looked:
        margins = {mate[:2]: mate.score for mate in plain}
        table = {mate[:2]: mate.score for mate in looked}
    pair = GERMAN[0], ENGLISH[1]
    attention = Attention(model, load_reranker())
    expected = attention.score([PhrasePair(whole(pair[0]), whole(pair[1]))])[0] / attention.highest
    assert abs(expected) <= 1
    assert table[pair] == pytest.approx(margins[pair] + 3 * expected, abs=0.02)  # encoded among others: 16-bit states


def test_pairs_are_scored_by_sentence_and_keep_their_scores(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scorer tells 100 times the number of the German sentence and the number of the English one."""
    numbers_asked: list[tuple[int, int]] = []

    class Numbers:
        def score(self, pairs: Sequence[PhrasePair]) -> np.ndarray:
            numbers = [(GERMAN.index(pair.source.context), ENGLISH.index(pair.target.context)) for pair in pairs]
            numbers_asked.extend(numbers)
            return np.array([100 * source + target for source, target in numbers], np.float32)

    monkeypatch.setattr("phrasemate.mine.mining.DOUBT", 0.3)  # so that the wrong pairs are looked at, too
    settings = {"pairing": "all", "copies": None}
    with mined(model, Numbers(), weight=0.0, **settings) as plain:
        margins = {mate[:2]: mate.score for mate in plain}
    numbers_asked.clear()
    with mined(model, Numbers(), weight=2.0, **settings) as looked:
        table = {mate[:2]: mate.score for mate in looked}
    assert len(numbers_asked) == len(table) >= 4
    assert numbers_asked == sorted(numbers_asked)
    assert list(margins) != sorted(margins, key=lambda pair: (GERMAN.index(pair[0]), ENGLISH.index(pair[1])))
    for (one, other), value in table.items():
        expected = margins[one, other] + 2 * (100 * GERMAN.index(one) + ENGLISH.index(other))
        assert value == pytest.approx(expected, abs=1e-3)


def test_no_score_of_the_reranker_is_above_the_highest(model: Model) -> None:
    attention = Attention(model, load_reranker())
    texts = [whole(text) for text in GERMAN + ENGLISH]
    scores = attention.score([PhrasePair(one, other) for one in texts for other in texts]).reshape(7, 7)
    assert scores.max() <= attention.highest
    assert np.diag(scores).min() > 0.9 * attention.highest  # a sentence and itself
    assert scores[0, 4] > 1.5 * np.delete(scores[0], [0, 4]).max()  # and its translation, against all others


def test_another_weight_has_no_usual_threshold(model: Model) -> None:
    sides = [[Document.from_texts(*item)] for item in (("de", GERMAN), ("en", ENGLISH))]
    with pytest.raises(InputError, match=r"margin 'quarter' \(reranker, weight 3\) have no usual threshold"):
        mine(*sides, model, settings=Mining(rerank="reranker", weight=3.0))
    with mine(*sides, model, settings=Mining(rerank="reranker", weight=1.5)) as mates:
        assert (mates.report.threshold, len(mates)) == (pytest.approx(1.64 + 0.072 * np.log(5_000 / 20_000)), 2)


def test_the_margin_follows_from_the_second_look(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    with mined(model) as result:
        assert (result.report.rerank, result.report.lexicon) == ("words", ("de", "en"))
    looks = {
        ("regression", "none"): _look(NumberEncoder(), Mining(), None),
        ("regression", "words"): _look(model, Mining(rerank="words"), None),
        ("quarter", "none"): _look(model, Mining(margin="quarter"), None),
        ("quarter", "reranker"): _look(model, Mining(rerank="reranker"), None),
    }
    assert [(look.margin, look.kind) for look in looks.values()] == list(looks)
    with pytest.raises(InputError, match=r"needs a phrasemate\.Model with a trained head"):
        _look(NumberEncoder(), Mining(rerank="words"), None)
    monkeypatch.setattr(model, "hash", "0" * 64)
    with pytest.raises(ModelMismatch, match="was trained on the encoder"):
        _look(model, Mining(rerank="reranker"), None)


def test_the_reranker_looks_at_contested_pairs(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    gaps: list[float] = []

    def contested(pairs: Candidates, gap: float) -> Candidates:
        gaps.append(gap)
        return pairs

    monkeypatch.setattr("phrasemate.mine.mining.contested", contested)
    for rerank in ("none", "words", "reranker"):
        with mined(model, rerank=rerank) as mates:
            assert mates.report.rerank == rerank
    assert gaps == [CONTEST]


@pytest.mark.parametrize(
    ("limit", "changes", "expected"),
    [
        (1.6, {}, 0.635),
        (1.838, {}, 0.635 + 0.23 * 0.238),
        (1.4, {}, 0.635 - 0.23 * 0.2),
        (0.9, {}, 0.675 - 0.09),  # a low threshold asks for no more than none
        (None, {}, 0.675 - 0.09),
        (1.6, {"weight": 2.0}, 0.675 - 0.09),
        (1.6, {"kind": "scorer"}, 0.675 - 0.09),
        (0.6, {"kind": "none", "margin": "regression"}, 0.675 - 0.09),
        (1.6, {"margin": "csls"}, 0.0),
    ],
)
def test_the_lowest_margin_that_is_looked_at(limit: float | None, changes: dict[str, Any], expected: float) -> None:
    facts = SimpleNamespace(**({"margin": "quarter", "weight": None, "kind": "reranker"} | changes))
    steps = SimpleNamespace(settings=facts, look=facts)
    sides: Any = [range(20_000)] * 2
    assert _Steps._least_margin(steps, sides, limit) == pytest.approx(expected)  # type: ignore[arg-type]

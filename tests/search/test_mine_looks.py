"""How pairs are looked at again in mining: by the re-ranker of the bundled encoder, by words, by neither."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from mine_fakes import NumberEncoder

from phrasemate.encode import Model, load_model
from phrasemate.errors import InputError, ModelMismatch
from phrasemate.mine import Mining, MiningResult, mine
from phrasemate.mine.mining import _look, _Steps
from phrasemate.mine.select import CONTEST, Candidates, WordMatch
from phrasemate.rank import whole
from phrasemate.reranker import Attention, load_reranker
from phrasemate.types import Document, PhrasePair

GERMAN = ["Der Hund schläft unter dem Tisch.", "Morgen fahren wir ans Meer.", "Sie hat den Brief verbrannt."]
ENGLISH = ["She burned the letter.", "The dog sleeps under the table.", "He bought a red bicycle.", "No."]


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(threads=1)


def mined(model: Model, **settings: object) -> MiningResult:
    sides = [[Document.from_texts(*item)] for item in (("de", GERMAN), ("en", ENGLISH))]
    return mine(*sides, model, settings=Mining(threshold=-9.0, **settings))  # type: ignore[arg-type]


@pytest.mark.parametrize("rerank", ["reranker", "words"])
def test_the_score_is_the_margin_and_the_weighted_second_look(model: Model, rerank: str) -> None:
    """Margins are those that a weight of 0 leaves."""
    with mined(model, rerank=rerank, weight=0.0) as plain, mined(model, rerank=rerank, weight=3.0) as looked:
        margins = {mate[:2]: mate.score for mate in plain}
        table = {mate[:2]: mate.score for mate in looked}
    pair = GERMAN[0], ENGLISH[1]
    attention = Attention(model, load_reranker())
    scorer, most = (attention, attention.highest) if rerank == "reranker" else (WordMatch(model), 1.0)
    expected = scorer.score([PhrasePair(whole(pair[0]), whole(pair[1]))])[0] / most
    assert abs(expected) <= 1
    assert table[pair] == pytest.approx(margins[pair] + 3 * expected, abs=0.02)  # encoded among others: 16-bit states


def test_pairs_are_scored_by_sentence_and_keep_their_scores(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scorer tells 100 times the number of the German sentence and the number of the English one."""
    numbers_asked: list[tuple[int, int]] = []

    def score(_: WordMatch, pairs: list[PhrasePair]) -> np.ndarray:
        numbers = [(GERMAN.index(pair.source.context), ENGLISH.index(pair.target.context)) for pair in pairs]
        numbers_asked.extend(numbers)
        return np.array([100 * source + target for source, target in numbers], np.float32)

    monkeypatch.setattr(WordMatch, "score", score)
    monkeypatch.setattr("phrasemate.mine.mining.DOUBT", 0.3)  # so that the wrong pairs are looked at, too
    settings = {"rerank": "words", "pairing": "all", "copies": None}
    with mined(model, weight=0.0, **settings) as plain:
        margins = {mate[:2]: mate.score for mate in plain}
    numbers_asked.clear()
    with mined(model, weight=2.0, **settings) as looked:
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
        assert (result.report.rerank, result.report.lexicon) == ("none", ("de", "en"))
    assert _look(NumberEncoder(), Mining(), None).margin == "regression"
    assert _look(model, Mining(rerank="words"), None).margin == "quarter"
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
        (1.6, {"kind": "words"}, 0.675 - 0.09),
        (0.6, {"kind": "none", "margin": "regression"}, 0.675 - 0.09),
        (1.6, {"margin": "csls"}, 0.0),
    ],
)
def test_the_lowest_margin_that_is_looked_at(limit: float | None, changes: dict[str, Any], expected: float) -> None:
    facts = SimpleNamespace(**({"margin": "quarter", "weight": None, "kind": "reranker"} | changes))
    steps = SimpleNamespace(settings=facts, look=facts)
    sides: Any = [range(20_000)] * 2
    assert _Steps._least_margin(steps, sides, limit) == pytest.approx(expected)  # type: ignore[arg-type]

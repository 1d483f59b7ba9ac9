"""How pairs are looked at again in mining: by the re-ranker of the bundled encoder, by words, by neither."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from mine_fakes import NumberEncoder

from phrasemate.encode import Model, load_model
from phrasemate.errors import InputError, ModelError, ModelMismatch
from phrasemate.mine import Mined, Mining, mine
from phrasemate.mine.mining import _look, _Steps
from phrasemate.mine.select import DOUBT, WordMatch
from phrasemate.rank import whole
from phrasemate.reranker import load_attention
from phrasemate.types import Document, PhrasePair

GERMAN = ["Der Hund schläft unter dem Tisch.", "Morgen fahren wir ans Meer.", "Sie hat den Brief verbrannt."]
ENGLISH = ["She burned the letter.", "The dog sleeps under the table.", "He bought a red bicycle.", "No."]


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(threads=1)


def mined(model: Model, **settings: object) -> Mined:
    sides = [[Document.from_texts(*item)] for item in (("de", GERMAN), ("en", ENGLISH))]
    return mine(*sides, model, settings=Mining(threshold=-9.0, **settings))  # type: ignore[arg-type]


@pytest.mark.parametrize("rerank", ["reranker", "words"])
def test_the_score_is_the_margin_and_the_weighted_second_look(model: Model, rerank: str) -> None:
    """Margins are those that a weight of 0 leaves."""
    with mined(model, rerank=rerank, weight=0.0) as plain, mined(model, rerank=rerank, weight=3.0) as looked:
        margins = {mate[:2]: mate.score for mate in plain}
        table = {mate[:2]: mate.score for mate in looked}
    pair = GERMAN[0], ENGLISH[1]
    attention = load_attention(model)
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
    monkeypatch.setitem(DOUBT, False, 0.3)  # so that the wrong pairs are looked at, too
    settings = {"rerank": "words", "pairing": "all", "copies": None, "lexicon": False}
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
    attention = load_attention(model)
    texts = [whole(text) for text in GERMAN + ENGLISH]
    scores = attention.score([PhrasePair(one, other) for one in texts for other in texts]).reshape(7, 7)
    assert scores.max() <= attention.highest
    assert np.diag(scores).min() > 0.9 * attention.highest  # a sentence and itself
    assert scores[0, 4] > 1.5 * np.delete(scores[0], [0, 4]).max()  # and its translation, against all others


def test_another_weight_has_no_usual_threshold(model: Model) -> None:
    sides = [[Document.from_texts(*item)] for item in (("de", GERMAN), ("en", ENGLISH))]
    with pytest.raises(InputError, match=r"margin 'lead' \(reranker, weight 3\) have no usual threshold"):
        mine(*sides, model, settings=Mining(weight=3.0))
    with mine(*sides, model, settings=Mining(weight=1.5)) as mates:
        assert (mates.report.threshold, len(mates)) == (pytest.approx(1.655 + 0.0685 * np.log(5_000 / 20_000)), 2)


def test_auto_takes_what_belongs_to_the_model(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    with mined(model) as result:
        assert result.report.rerank == "reranker"
    assert _look(NumberEncoder(), Mining(), None).kind == "none"
    monkeypatch.setattr(model, "hash", "0" * 64)
    assert _look(model, Mining(), None).kind == "words"
    with pytest.raises(ModelMismatch, match="was trained on the encoder"):
        _look(model, Mining(rerank="reranker"), None)

    def absent(folder: object = None) -> None:
        raise ModelError("there is none")

    monkeypatch.setattr("phrasemate.mine.mining.load_reranker", absent)
    assert _look(model, Mining(), None).kind == "words"


@pytest.mark.parametrize(
    ("limit", "changes", "expected"),
    [
        (1.6, {}, 0.635),
        (1.838, {}, 0.635 + 0.23 * 0.238),
        (1.4, {}, 0.635 - 0.23 * 0.2),
        (0.9, {}, 0.605 - 0.09),  # a low threshold asks for no more than before
        (None, {}, 0.605 - 0.09),
        (1.6, {"weight": 2.0}, 0.605 - 0.09),
        (1.6, {"look": "words"}, 0.605 - 0.09),
        (1.6, {"words": "a lexicon"}, 0.605 - 0.065),
        (1.6, {"margin": "csls"}, 0.0),
    ],
)
def test_the_lowest_margin_that_is_looked_at(limit: float | None, changes: dict[str, Any], expected: float) -> None:
    facts = {"margin": "quarter", "weight": None, "look": "reranker", "words": None} | changes
    settings = SimpleNamespace(margin=facts["margin"], weight=facts["weight"])
    usual = None if facts["margin"] == "csls" else 0.605  # for 20,000 sentences
    look = SimpleNamespace(kind=facts["look"])
    steps = SimpleNamespace(settings=settings, look=look, words=facts["words"], usual=lambda *_: usual)
    assert _Steps._least(steps, [], limit) == pytest.approx(expected)  # type: ignore[arg-type]

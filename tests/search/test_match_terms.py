"""Two term lists and text: examples, matches, evidence, and what is left without a match."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import match_fakes as fakes
import numpy as np
import pytest

from phrasemate.encode.scoring import FEATURES, CandidateScorer
from phrasemate.errors import InputError
from phrasemate.examples import ExampleIndex
from phrasemate.lexicon import Dictionary
from phrasemate.match import Match, Matching, MatchSettings, MatchSide, match_terms, term_pairs
from phrasemate.query import parse_query
from phrasemate.text.formats.units import Term
from phrasemate.types import Document, Phrase

EASY = MatchSettings(threshold=0.1, neighbours=2)


@pytest.fixture(autouse=True)
def _encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phrasemate.match.by_examples", fakes.by_examples)


def a_model(head: Any = None) -> Any:
    return SimpleNamespace(head=head, calls=[])


def terms(*words: str, language: str = "") -> list[Term]:
    return [Term(word, language) for word in words]


def finder(text: str) -> ExampleIndex:
    return ExampleIndex.build([Document.from_texts("text", text.splitlines())])


def wordings(matches: Sequence[Match]) -> list[tuple[str, str]]:
    return [(match.source.text, match.target.text) for match in matches]


def both(settings: MatchSettings = EASY, model: Any = None) -> Matching:
    with finder(fakes.GERMAN) as german, finder(fakes.ENGLISH) as english:
        source = MatchSide(terms("Hund", "Katze", "Löffel", "Haus", "Hund", "Kätzchen"), german)
        target = MatchSide(terms("house", "cloud", "cat", "dog"), english)
        return match_terms(source, target, model or a_model(), settings)


def test_matches_and_what_has_none() -> None:
    result = both()
    assert wordings(result.matches) == [("Hund", "dog"), ("Katze", "cat"), ("Haus", "house"), ("Kätzchen", "cat")]
    assert [match.mutual for match in result.matches] == [
        True,
        True,
        True,
        False,
    ]  # of the two for "cat", one is nearer
    assert [term.text for term in result.source_unmatched] == ["Löffel"]
    assert [term.text for term in result.target_unmatched] == ["cloud"]
    assert result.repeated == (1, 0)  # the second Hund
    assert result.alone == (2, 1)  # Löffel and Kätzchen; cloud


def test_dictionaries_count_with_a_scorer_only() -> None:
    source, target = (MatchSide([Term("Hund", "de")]), MatchSide([Term("dog", "en")]))
    mine = Dictionary("mine", [[("de", "Hund"), ("en", "dog")]])
    with pytest.raises(InputError, match="do not count with the margin csls"):
        match_terms(source, target, a_model(), lexicons=[mine])


def test_no_term_twice() -> None:
    result = both(MatchSettings(threshold=0.1, neighbours=2, one_to_one=True))
    assert wordings(result.matches) == [("Hund", "dog"), ("Katze", "cat"), ("Haus", "house")]
    assert [term.text for term in result.source_unmatched] == ["Löffel", "Kätzchen"]


def test_several_candidates() -> None:
    result = both(MatchSettings(threshold=-9, candidates=2))
    assert [match.rank for match in result.matches] == [1, 2] * 5
    assert not result.source_unmatched


def test_evidence_is_of_readable_length() -> None:
    with finder("Ein Hund bellt.\nDer Hund " + "x" * 70 + ".\nDer Hund " + "und noch ein Wort " * 20) as german:
        (match,) = match_terms(
            MatchSide(terms("Hund"), german),
            MatchSide(terms("dog")),
            a_model(),
            MatchSettings(threshold=-1, evidence=2),
        ).matches
    assert match.source_examples == 3
    assert [phrase.text for phrase in match.source_evidence] == ["Hund", "Hund"]
    assert [len(phrase.context) for phrase in match.source_evidence] == [80, 15]
    assert (match.target_examples, match.target_evidence) == (0, ())


def test_the_contexts_of_a_term_base_come_first() -> None:
    model = a_model()
    source = Term("Hund", contexts=("Kein Wort davon.", "Ein alter Hund schläft."))
    with finder(fakes.GERMAN) as german:
        match_terms(MatchSide([source], german), MatchSide(terms("dog")), model, MatchSettings(examples=2))
    ((words, examples, _), _) = model.calls
    assert words == ["Hund"]
    assert examples[0][0] == Phrase("Ein alter Hund schläft.", 10, 14)
    assert len(examples[0]) == 2


def test_no_examples_are_looked_for_when_none_are_wanted() -> None:
    model = a_model()
    assert both(MatchSettings(examples=0), model).alone == (5, 4)
    assert model.calls[0][1] == [[]] * 5


def test_what_vectors_are_made_of() -> None:
    for head, settings, expected in (
        (None, EASY, ("mean", None, 1.5)),
        ("any", EASY, ("mean+head", None, 1.5)),
        ("any", MatchSettings(pooling="ends", layer=3, bare=0), ("ends", 3, 0)),
    ):
        model = a_model(head)
        both(settings, model)
        assert [call[2] for call in model.calls] == [expected] * 2


@pytest.mark.parametrize("name", ["threshold", "least_score", "bare"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_that_are_invalid(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{name}:? {value}; expected"):
        MatchSettings(**{name: value})


def test_progress_says_what_is_done() -> None:
    records = []
    source, target = MatchSide(terms("Hund", "Katze", language="de")), MatchSide(terms("dog", language="en"))
    match_terms(source, target, a_model(), progress=lambda *event: records.append(event))
    assert records == [
        ("examples, source de", 1, 2),
        ("examples, source de", 2, 2),
        ("encoding, source de", 2, 2),
        ("examples, target en", 1, 1),
        ("encoding, target en", 1, 1),
    ]


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(InputError, match="no term in the target list"):
        match_terms(MatchSide(terms("Hund")), MatchSide([Term(" ")]), a_model())


def test_rows_of_a_table_and_of_a_term_base() -> None:
    result = both(MatchSettings(threshold=0.1, neighbours=2, evidence=2, mutual=True))
    first, *_, last = term_pairs(result)
    assert first.metadata == {
        "margin": round(result.matches[0].margin, 6),
        "mutual": "yes",
        "rank": 1,
        "target_id": "",
        "source_examples": 2,
        "target_examples": 1,
        "source_evidence_1": first.metadata["source_evidence_1"],
        "source_evidence_2": first.metadata["source_evidence_2"],
        "target_evidence_1": "The [[dog]] barked all night.",
        "target_evidence_2": "",
    }
    names = {first.metadata[f"source_evidence_{number}"] for number in (1, 2)}
    assert names == {"Der [[Hund]] bellte laut im Garten.", "Die Katze sah den [[Hund]] an."}
    assert list(last.metadata) == list(first.metadata)  # a table needs the same columns in each row
    entry = next(iter(term_pairs(result, contexts=True)))
    assert set(entry.source.contexts) == {"Der Hund bellte laut im Garten.", "Die Katze sah den Hund an."}
    assert entry.target.note == f"margin {result.matches[0].margin:.3f}, mutual best"


def test_evidence_can_be_searched_as_it_is_whatever_brackets_its_sentence_has() -> None:
    sentence = "Der Hund [[siehe oben]] bellte."
    with finder(sentence) as german, finder("The dog barked.") as english:
        sides = MatchSide(terms("Hund"), german), MatchSide(terms("dog"), english)
        matches = match_terms(*sides, a_model(), MatchSettings(threshold=-1, evidence=1))
    (pair,) = term_pairs(matches)
    query = parse_query(pair.metadata["source_evidence_1"])
    assert (query.text, [phrase.text for phrase in query.phrases]) == (sentence, ["Hund"])


def test_for_json() -> None:
    result = both()
    assert result.matches[0].as_dict() == {
        "source": "Hund",
        "target": "dog",
        "score": round(result.matches[0].score, 4),
        "margin": round(result.matches[0].margin, 4),
        "mutual": True,
        "rank": 1,
        "source_examples": 2,
        "target_examples": 1,
        "source_evidence": [{"text": "Der Hund bellte laut im Garten.", "start": 4, "end": 8}],
        "target_evidence": [{"text": "The dog barked all night.", "start": 4, "end": 7}],
    }
    assert result.as_dict() == {
        "matches": 4,
        "mutual": 3,
        "source_unmatched": ["Löffel"],
        "target_unmatched": ["cloud"],
        "in_no_sentence": {"source": 2, "target": 1},
        "repeated": {"source": 1, "target": 0},
        "margin": "csls",
        "threshold": 0.1,
    }


def test_the_margin_follows_the_model_and_the_languages() -> None:
    def margin(languages: tuple[str, str], scorer: Any = "a scorer", settings: str = "auto") -> str:
        model: Any = SimpleNamespace(scorer=scorer, name="tiny")
        return MatchSettings(margin=settings).resolved(model, languages).margin

    assert margin(("de", "en")) == margin(("en", "ja")) == "probability"
    assert margin(("", "")) == margin(("de", "fr")) == margin(("en", "en")) == margin(("xx", "en")) == "csls"
    assert margin(("de", "en"), scorer=None) == "csls"
    assert margin(("de", "en"), settings="ratio") == "ratio"
    with pytest.raises(InputError, match="tiny has no scorer"):
        margin(("de", "en"), None, "probability")


def test_the_scorer_matches_two_lists_of_one_language() -> None:
    model = a_model()
    model.scorer = CandidateScorer(-2.0, tuple(4.0 if name == "context" else 0.0 for name in FEATURES))
    model.encode = lambda phrases: np.eye(3, dtype=np.float32)[[("dog", "cat", "house").index(p.text) for p in phrases]]
    lists = [MatchSide(terms(*words, language="en")) for words in (("dog", "house"), ("house", "cat", "dog"))]
    result = match_terms(lists[0], lists[1], model, MatchSettings(margin="probability"))
    assert wordings(result.matches) == [("dog", "dog"), ("house", "house")]


def test_with_languages_the_scorer_matches() -> None:
    model = a_model()
    model.scorer = CandidateScorer(-2.0, tuple(4.0 if name == "listed" else 0.0 for name in FEATURES))
    model.encode = lambda phrases: np.ones((len(phrases), 1), np.float32)
    with finder(fakes.GERMAN) as german, finder(fakes.ENGLISH) as english:
        source = MatchSide(terms("Hund", "Löffel", "Haus", language="de"), german)
        target = MatchSide(terms("house", "cloud", "dog", language="en"), english)
        result = match_terms(source, target, model, MatchSettings())
    assert wordings(result.matches) == [("Hund", "dog"), ("Haus", "house")]
    assert all(match.margin > 0.99 for match in result.matches)  # no other pair of these terms is likely
    assert result.as_dict()["margin"] == "probability"

"""Phrases of documents: what counts as one, how often it comes, and how it is ranked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from phrasemate.encode import Model, NgramSegmenter
from phrasemate.errors import InputError
from phrasemate.terms import RANKINGS, TermSettings, document_terms, extract_terms, wording
from phrasemate.terms.extract import Found, find_phrases, ranked
from phrasemate.text import words
from phrasemate.types import Document, Sentence, Span


class Believer:
    """A segmenter that believes every run of words as much as a table says, by its wording in small letters."""

    def __init__(self, beliefs: Mapping[str, float], otherwise: float = 0.0) -> None:
        self.beliefs, self.otherwise = beliefs, otherwise
        self.segmenter = SimpleNamespace(contextual=True)
        self.asked: list[str] = []

    def segment(self, texts: Sequence[str], frequent: Any, threshold: float, max_words: int, overlapping: bool) -> Any:
        assert (threshold, overlapping) == (0.0, True)
        self.asked += texts
        return [list(self._spans(text, max_words)) for text in texts]

    def _spans(self, text: str, most: int) -> Any:
        found = words(text)
        for low, (start, _) in enumerate(found):
            for _, end in found[low : low + most]:
                yield Span(start, end, self.beliefs.get(text[start:end].casefold(), self.otherwise))


def terms(model: Any, *sentences: str, **settings: Any) -> list[Any]:
    return extract_terms([Document.from_texts("d", sentences)], model, TermSettings(**settings))


def test_termhood_is_mean_belief_times_log_of_frequency_by_words() -> None:
    model = Believer({"hard disk": 0.9, "disk": 0.6, "hard": 0.1, "a": 0.2})
    found = {term.text: term for term in terms(model, "a hard disk", "hard disk", "the disk")}
    assert list(found) == ["disk", "hard disk"]  # the others are nowhere believed in by half
    assert found["disk"].score == pytest.approx(0.6 * math.log(1 + 3) / 1)
    assert found["hard disk"].score == pytest.approx(0.9 * math.log(1 + 2) / 2)
    assert (found["disk"].count, found["hard disk"].count) == (3, 2)


def test_belief_is_the_mean_over_all_occurrences_and_the_best_one_decides() -> None:
    class Wavering(Believer):
        def _spans(self, text: str, most: int) -> Any:
            yield Span(0, 4, 0.8 if text.endswith("!") else 0.2)

    (term,) = terms(Wavering({}), "disk!", "disk", "disk, so", belief=0.8)
    assert term.belief == pytest.approx((0.8 + 0.2 + 0.2) / 3)
    assert [place.score for place in term.places] == [0.8, 0.2, 0.2]
    assert terms(Wavering({}), "disk", "disk, so", belief=0.8) == []


FOUND = {
    "soft contact lens": Found(3, 3, 1.5),
    "contact lens": Found(2, 5, 4.0),
    "lens": Found(1, 8, 2.0),
    "eye": Found(1, 5, 5.0),
}


@pytest.mark.parametrize(
    ("ranking", "scores"),
    [
        ("frequency", {"soft contact lens": 3, "contact lens": 5, "lens": 8, "eye": 5}),
        ("expected", {"soft contact lens": 1.5, "contact lens": 4.0, "lens": 2.0, "eye": 5.0}),
        (
            "cvalue",
            {
                "soft contact lens": math.log2(4) * 3,
                "contact lens": math.log2(3) * (5 - 3 / 1),
                "lens": math.log2(2) * (8 - (3 + 5) / 2),
                "eye": math.log2(2) * 5,
            },
        ),
        (
            "termhood",
            {
                "soft contact lens": 1.5 / 3 * math.log(4) / 3,
                "contact lens": 4 / 5 * math.log(6) / 2,
                "lens": 2 / 8 * math.log(9),
                "eye": math.log(6),
            },
        ),
    ],
)
def test_rankings(ranking: str, scores: dict[str, float]) -> None:
    found = ranked(FOUND, TermSettings(ranking=ranking))
    assert [score for _, score in found] == pytest.approx(sorted(scores.values(), reverse=True))
    assert {key: score for key in FOUND for each, score in found if each is FOUND[key]} == pytest.approx(scores)
    assert len(ranked(FOUND, TermSettings(ranking=ranking, most=2))) == 2


def test_a_longer_phrase_that_holds_a_shorter_one_twice_is_one_phrase() -> None:
    found = {"a": Found(1, 10, 1.0), "a b a": Found(3, 2, 1.0), "a c": Found(2, 5, 1.0)}
    scores = {
        key: score
        for key in found
        for each, score in ranked(found, TermSettings(ranking="cvalue", belief=0))
        if each is found[key]
    }
    assert scores["a"] == pytest.approx(math.log2(2) * (10 - (2 + 5) / 2))


def test_every_ranking_is_there() -> None:
    assert {len(ranked(FOUND, TermSettings(ranking=name))) for name in RANKINGS} == {len(FOUND)}


def test_equal_scores_go_by_frequency_then_by_place() -> None:
    found = {"b": Found(1, 1, 1.0), "a": Found(1, 1, 1.0), "c": Found(1, 2, 1.0)}
    order = [each for each, _ in ranked(found, TermSettings(ranking="expected"))]
    assert order == [found["c"], found["b"], found["a"]]


def test_spellings_are_one_term_under_the_usual_one() -> None:
    sentences = ["Right-click it.", "Then right click.", "Right-click.", "A right click is short.", "Right-click!"]
    (term,) = terms(Believer({"right-click": 1.0, "right click": 1.0}), *sentences)
    assert term.count == 5
    assert term.variants == (("Right-click", 3), ("right click", 2))
    assert term.text == "right click"  # capitals of a sentence's beginning are no vote, where there are others
    (term,) = terms(Believer({"right-click": 1.0}), "“Right-click” it.", "- (Right-click) it.", "Do right-click it.")
    assert term.text == "right-click"  # behind marks it is the beginning, too
    (alone,) = terms(Believer({"right-click": 1.0}), *sentences[:1])
    assert alone.text == "Right-click"


def test_composed_and_decomposed_letters_are_the_same() -> None:
    assert wording("Café  AU-lait") == wording("cafe\u0301 au lait") == "café au lait"
    (term,) = terms(Believer({}, 1.0), "ein Café", "ein cafe\u0301", max_words=1, least=2)[:1]
    assert term.count == 2


@pytest.mark.parametrize("text", ["Debian; installer", "Debian. Installer", "Debian (installer)", "Debian, installer"])
def test_punctuation_cuts_a_phrase(text: str) -> None:
    assert {wording(term.text) for term in terms(Believer({}, 1.0), text)} == {"debian", "installer"}


def test_a_sentence_that_comes_again_is_read_once_and_counted_with_its_places() -> None:
    model = Believer({"disk": 0.9})
    documents = [
        Document("z", "1", lambda: iter([Sentence("a disk", 3), Sentence("the disk", 4), Sentence("a disk", 9)])),
        Document("b", "2", lambda: iter([Sentence("a disk", 1)])),
    ]
    (term,) = extract_terms(documents, model)  # type: ignore[arg-type]
    assert model.asked == ["a disk", "the disk"]
    assert [(place.document, place.line) for place in term.places] == [("z", 3), ("z", 4), ("z", 9), ("b", 1)]
    assert {place.phrase.text for place in term.places} == {"disk"}
    assert term.count == 4


@pytest.mark.parametrize("text", ["x" * 21_000 + " disk", "ไทย" * 7_000 + " disk"])
def test_where_a_long_text_is_cut_within_a_word_no_phrase_ends(model: Model, text: str) -> None:
    """The encoder reads a sentence of more than 20,000 characters in stretches."""
    found = terms(model, text, belief=0)
    assert "disk" in [term.text for term in found]
    starts, ends = map(set, zip(*words(text), strict=True))
    assert all(place.phrase.start in starts and place.phrase.end in ends for term in found for place in term.places)


def test_least_and_most() -> None:
    sentences = ["one two", "one three", "one two four"]
    assert {t.text for t in terms(Believer({}, 1.0), *sentences, max_words=1, least=2)} == {"one", "two"}
    assert [t.text for t in terms(Believer({}, 1.0), *sentences, max_words=1, most=1)] == ["one"]
    everything = terms(Believer({}, 1.0), *sentences, most=None)
    assert [t.text for t in everything][:2] == ["one", "two"]


def test_counts_are_those_of_a_plain_loop(model: Model) -> None:
    text = ["The hard disk of the computer is full.", "A hard disk, a network card and a disk.", "Disk full."]
    ngram = NgramSegmenter(model.ngram.common, 3)
    plain = Counter(wording(line[a:b]) for line in text for a, b, _ in ngram(line))
    model.segmenter = model.ngram
    try:
        found = find_phrases([Document.from_texts("d", text)], model, TermSettings(max_words=3))
    finally:
        model.segmenter = model.learned or model.ngram
    assert {key: each.count for key, each in found.items()} == dict(plain)
    assert plain["hard disk"] == 2


def test_a_real_document(model: Model) -> None:
    german = [
        "Die Netzwerkkarte braucht eine Firmware.",
        "Ohne Firmware startet die Netzwerkkarte nicht.",
        "Der Rechner startet von der Festplatte.",
    ]
    seen: list[tuple[str, int, int]] = []
    document = Document.from_texts("d", german)
    found = document_terms(document, model=model, progress=lambda *now: seen.append(now))
    assert {"Netzwerkkarte", "Firmware"} <= {term.text for term in found[:3]}
    assert not {"Die", "eine", "die", "Der", "von der"} & {term.text for term in found[:6]}
    assert seen == [("finding phrases", 3, 3)]
    for term in found:
        assert term.count == len(term.places) == sum(count for _, count in term.variants)
        assert {wording(place.phrase.text) for place in term.places} == {wording(term.text)}
        assert term.groups == ()
        assert term.confidence is None
    assert [term.score for term in found] == sorted((term.score for term in found), reverse=True)


@pytest.mark.parametrize(
    ("sentence", "word"),
    [("网络卡需要固件。", "固件"), ("ネットワークカードが必要です。", "カード"), ("Плата сети", "Плата")],
)
def test_other_scripts(model: Model, sentence: str, word: str) -> None:
    assert any(word in term.text for term in terms(model, sentence))


def test_nothing_in_nothing_out(model: Model) -> None:
    assert terms(model) == []
    assert terms(model, "...", "12 34") == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ranking": "best"}, "termhood, expected"),
        ({"belief": 1.5}, "0 to 1"),
        ({"least": 0}, "least 0"),
        ({"most": 0}, "most 0"),
        ({"k": 0}, "k 0"),
        ({"max_words": 0}, "max_words 0"),
        ({"examples": 0}, "examples 0"),
        ({"contexts": -1}, "contexts -1"),
    ],
)
def test_senseless_settings(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        TermSettings(**settings)


def test_neither_searcher_nor_model() -> None:
    with pytest.raises(InputError, match="neither a searcher nor a model"):
        document_terms(Document.from_texts("d", ["a"]))


def test_a_term_is_one_whatever_is_not_seen_in_it() -> None:
    model = Believer({}, 0.9)
    (term,) = terms(
        model, "Steuer\u00adrecht", "Steuerrecht", "Steuerrecht\u200e", "Steuer\u200brecht", "Steuerrecht", max_words=1
    )
    assert (term.text, term.count) == ("Steuerrecht", 5)
    (term,) = terms(
        model, "driver's seat", "driver\u2019s seat", "driver's\u200f seat", max_words=2, least=3, belief=0.9
    )[:1]
    assert term.count == 3

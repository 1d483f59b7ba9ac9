"""Phrases of documents: what counts as one, how often it comes, and how it is ranked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordPiece

from phrasemate.encode import Model, NgramSegmenter
from phrasemate.errors import InputError
from phrasemate.termhood import (
    BIAS,
    FLOOR,
    WEIGHTS,
    is_code,
    is_defined,
    merge_inflected,
    reference_of_text,
    tokenizer_reference,
)
from phrasemate.terms import (
    RANKINGS,
    PhraseStatistics,
    TermSettings,
    document_terms,
    extract_terms,
    find_phrases,
    mark_known,
    rank_phrases,
    wording,
)
from phrasemate.text import Term, words
from phrasemate.types import Document, Phrase, Sentence, Span


class Believer:
    """A segmenter that believes every run of words as much as a table says, by its wording in small letters."""

    def __init__(self, beliefs: Mapping[str, float], otherwise: float = 0.0) -> None:
        self.beliefs, self.otherwise = beliefs, otherwise
        self.segmenter = SimpleNamespace(contextual=True)
        self.requests: list[str] = []

    def segment(self, texts: Sequence[str], frequent: Any, threshold: float, max_words: int, overlapping: bool) -> Any:
        assert (threshold, overlapping) == (0.0, True)
        self.requests += texts
        return [list(self._spans(text, max_words)) for text in texts]

    def _spans(self, text: str, most: int) -> Any:
        answers = words(text)
        for low, (start, _) in enumerate(answers):
            for _, end in answers[low : low + most]:
                yield Span(start, end, self.beliefs.get(text[start:end].casefold(), self.otherwise))


def terms(model: Any, *sentences: str, **settings: Any) -> list[Any]:
    return extract_terms([Document.from_texts("d", sentences)], model, TermSettings(**settings))


def test_korean_terms_have_no_particles_and_one_entry_for_all_forms() -> None:
    forms = {"연료전지는": 0.9, "연료전지에서는": 0.9, "연료전지": 0.9, "촉매의": 0.9}
    sentences = ["연료전지는 비싸다", "연료전지에서는 열이 난다", "새 연료전지", "촉매의 수명", "촉매의 값"]
    term_of = {term.text: term for term in terms(Believer(forms), *sentences, language="ko")}
    assert {text: term.count for text, term in term_of.items()} == {"연료전지": 3, "촉매": 2}
    assert dict(term_of["연료전지"].variants) == {"연료전지는": 1, "연료전지에서는": 1, "연료전지": 1}


def test_termhood_is_the_logistic_of_weighted_features() -> None:
    model = Believer({"hard disk": 0.9, "disk": 0.6, "hard": 0.1, "a": 0.2})
    extracted = {term.text: term for term in terms(model, "a hard disk", "hard disk", "the disk")}
    assert list(extracted) == ["hard disk", "disk"]  # the others are nowhere believed in by half
    of = WEIGHTS
    association = math.log(2 * 7 / (2 * 3))  # 7 words, "hard" twice, "disk" three times
    logit = BIAS + of["frequency"] * math.log(3) + of["belief"] * 0.9 + of["length"] * math.log2(3)
    assert extracted["hard disk"].score == pytest.approx(1 / (1 + math.exp(-logit - of["association"] * association)))
    logit = BIAS + of["frequency"] * math.log(4) + of["belief"] * 0.6 + of["length"] + of["nested"] * 2 / 3
    assert extracted["disk"].score == pytest.approx(1 / (1 + math.exp(-logit)))
    assert (extracted["disk"].count, extracted["hard disk"].count) == (3, 2)


def test_belief_is_the_mean_over_all_occurrences_and_the_best_one_decides() -> None:
    class Wavering(Believer):
        def _spans(self, text: str, most: int) -> Any:
            yield Span(0, 4, 0.8 if text.endswith("!") else 0.2)

    (term,) = terms(Wavering({}), "disk!", "disk", "disk, so", belief=0.8)
    assert term.belief == pytest.approx((0.8 + 0.2 + 0.2) / 3)
    assert [place.score for place in term.places] == [0.8, 0.2, 0.2]
    assert terms(Wavering({}), "disk", "disk, so", belief=0.8) == []


FOUND = {
    "soft contact lens": PhraseStatistics(3, 3, 1.5),
    "contact lens": PhraseStatistics(2, 5, 4.0),
    "lens": PhraseStatistics(1, 8, 2.0),
    "eye": PhraseStatistics(1, 5, 5.0),
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
    ],
)
def test_rankings(ranking: str, scores: dict[str, float]) -> None:
    answers = rank_phrases(FOUND, TermSettings(ranking=ranking))
    assert [score for _, score in answers] == pytest.approx(sorted(scores.values(), reverse=True))
    assert {key: score for key in FOUND for answer, score in answers if answer is FOUND[key]} == pytest.approx(scores)
    assert len(rank_phrases(FOUND, TermSettings(ranking=ranking, most=2))) == 2


def test_a_longer_phrase_that_holds_a_shorter_one_twice_is_one_phrase() -> None:
    answers = {
        "a": PhraseStatistics(1, 10, 1.0),
        "a b a": PhraseStatistics(3, 2, 1.0),
        "a c": PhraseStatistics(2, 5, 1.0),
    }
    scores = {
        key: score
        for key in answers
        for phrase, score in rank_phrases(answers, TermSettings(ranking="cvalue", belief=0))
        if phrase is answers[key]
    }
    assert scores["a"] == pytest.approx(math.log2(2) * (10 - (2 + 5) / 2))


def test_every_ranking_is_there() -> None:
    assert {len(rank_phrases(FOUND, TermSettings(ranking=name))) for name in RANKINGS} == {len(FOUND)}


def test_equal_scores_go_by_frequency_then_by_place() -> None:
    answers = {"b": PhraseStatistics(1, 1, 1.0), "a": PhraseStatistics(1, 1, 1.0), "c": PhraseStatistics(1, 2, 1.0)}
    order = [phrase for phrase, _ in rank_phrases(answers, TermSettings(ranking="expected"))]
    assert order == [answers["c"], answers["b"], answers["a"]]


def test_spellings_are_one_term_under_the_usual_one() -> None:
    sentences = ["Right-click it.", "Then right click.", "Right-click.", "A right click is short.", "Right-click!"]
    (term,) = terms(Believer({"right-click": 1.0, "right click": 1.0}), *sentences)
    assert term.count == 5
    assert term.variants == (("Right-click", 3), ("right click", 2))
    assert term.text == "right click"  # capitals of a sentence's beginning are not a vote, where there are others
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
    assert model.requests == ["a disk", "the disk"]
    assert [(place.document, place.line) for place in term.places] == [("z", 3), ("z", 4), ("z", 9), ("b", 1)]
    assert {place.phrase.text for place in term.places} == {"disk"}
    assert term.count == 4


@pytest.mark.parametrize("text", ["x" * 2_100 + " disk", "ไทย" * 700 + " disk"])
def test_where_a_long_text_is_cut_within_a_word_no_phrase_ends(
    model: Model, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """The encoder reads a sentence of more than so many characters in stretches."""
    for module in ("model", "runtime"):
        monkeypatch.setattr(f"phrasemate.encode.{module}.STRETCH", 2_000)
    answers = terms(model, text, belief=0, ranking="frequency")
    assert "disk" in [term.text for term in answers]
    starts, ends = map(set, zip(*words(text), strict=True))
    assert all(place.phrase.start in starts and place.phrase.end in ends for term in answers for place in term.places)


def test_least_and_most() -> None:
    sentences = ["lid two", "lid three", "lid two four"]
    assert {t.text for t in terms(Believer({}, 1.0), *sentences, max_words=1, least=2)} == {"lid", "two"}
    assert [t.text for t in terms(Believer({}, 1.0), *sentences, max_words=1, most=1)] == ["lid"]
    everything = terms(Believer({}, 1.0), *sentences, most=None, ranking="frequency")
    assert [t.text for t in everything][:3] == ["lid", "lid two", "two"]


def test_counts_are_those_of_a_plain_loop(model: Model) -> None:
    text = ["The hard disk of the computer is full.", "A hard disk, a network card and a disk.", "Disk full."]
    ngram = NgramSegmenter(model.ngram.common, 3)
    plain = Counter(wording(line[a:b]) for line in text for a, b, _ in ngram(line))
    model.segmenter = model.ngram
    try:
        answers = find_phrases([Document.from_texts("d", text)], model, TermSettings(max_words=3))
    finally:
        model.segmenter = model.learned or model.ngram
    assert {key: item.count for key, item in answers.items()} == dict(plain)
    assert plain["hard disk"] == 2


def test_a_real_document(model: Model) -> None:
    german = [
        "Die Netzwerkkarte braucht eine Firmware.",
        "Ohne Firmware startet die Netzwerkkarte nicht.",
        "Der Rechner startet von der Festplatte.",
    ]
    records: list[tuple[str, int, int]] = []
    document = Document.from_texts("d", german)
    answers = document_terms(document, model=model, progress=lambda *now: records.append(now))
    assert {"Netzwerkkarte", "Firmware"} <= {term.text for term in answers[:6]}  # three sentences tell little
    assert not {"Die", "eine", "die", "Der", "von der"} & {term.text for term in answers[:6]}
    assert records == [("finding phrases", 3, 3)]
    for term in answers:
        assert term.count == len(term.places) == sum(count for _, count in term.variants)
        assert {wording(place.phrase.text) for place in term.places} == {wording(term.text)}
        assert term.groups == ()
        assert term.confidence is None
    assert [term.score for term in answers] == sorted((term.score for term in answers), reverse=True)


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
    ("settings", "message"),
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
def test_senseless_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
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


def inflected(language: str, *wordings: str) -> list[tuple[str, ...]]:
    phrases = {text: PhraseStatistics(1, 1, 1.0, 1.0) for text in wordings}
    return [statistics.forms or (key,) for key, statistics in merge_inflected(phrases, language).items()]


def test_inflected_forms_are_one_phrase() -> None:
    german = inflected("de", "vertrag", "verträge", "vertrages", "vertraglich", "steuer")
    assert german == [("vertrag", "verträge", "vertrages"), ("vertraglich",), ("steuer",)]
    english = inflected("en", "approved lender", "agency", "approved lenders", "agencies", "invest", "investment")
    assert english == [("approved lender", "approved lenders"), ("agency", "agencies"), ("invest",), ("investment",)]
    french = inflected("fr", "élève", "élèves", "élevé", "élevée", "complète", "complet")
    assert french == [("élève", "élèves"), ("élevé", "élevée"), ("complète", "complet")]
    assert len(inflected("ja", "契約", "契約書")) == 2


def test_variants_of_a_term_are_its_inflected_forms() -> None:
    (term,) = terms(Believer({"bank": 1.0, "banken": 1.0}), "Die Bank.", "Die Banken.", "Eine Bank.", language="de")
    assert (term.text, term.count, term.variants) == ("Bank", 3, (("Bank", 2), ("Banken", 1)))


def test_an_elided_article_is_not_part_of_a_term() -> None:
    french = Believer({"l'école": 1.0, "d’école": 1.0, "écoles": 1.0, "d'abord": 1.0})
    school, first = terms(french, "Il aime l'école.", "Le bus d’école, d'abord.", "Des écoles.", language="fr-CA")
    assert (school.text, school.count, school.variants) == ("école", 3, (("école", 2), ("écoles", 1)))
    assert [place.phrase.text for place in school.places] == ["école", "école", "écoles"]
    assert first.text == "d'abord"
    italian = Believer({"l'offerente": 1.0, "dell'offerente": 1.0})
    (tenderer,) = terms(italian, "Per l'offerente.", "I beni dell'offerente.", language="it")
    assert (tenderer.text, tenderer.count) == ("offerente", 2)


def test_parts_of_compounds_with_hyphens_are_not_terms() -> None:
    """Occurrences of "visit" by itself count; "Parlez" counts, because "Parlez-vous" is not a phrase."""
    compound = Believer({"follow-up": 0.7, "follow": 0.9, "up visit": 0.9, "follow-up visit": 0.7, "visit": 0.9})
    extracted = terms(compound, "a follow-up visit", "the follow-up", "a return-visit, a visit", language="en")
    assert {term.text: term.count for term in extracted} == {"follow-up": 2, "follow-up visit": 1, "visit": 3}
    question = Believer({"parlez": 0.9, "parlez-vous": 0.2})
    assert [term.text for term in terms(question, "Parlez-vous anglais ?", language="fr")] == ["Parlez"]


def test_a_phrase_that_stands_in_a_longer_one_is_no_term_of_its_own() -> None:
    sentences = [*["the hard disk is full"] * 5, "a disk"]
    believer = Believer({"hard disk": 0.95, "hard": 0.9, "disk": 0.9})
    assert [term.text for term in terms(believer, *sentences, language="en")] == ["hard disk"]  # 5 of 6, and 5 of 5
    assert [term.text for term in terms(believer, *sentences, *["a disk"] * 2, language="en")] == ["hard disk", "disk"]


@pytest.mark.parametrize(
    ("sentence", "phrase", "language", "defined"),
    [
        ("approved lender means a person", "approved lender", "en", True),
        ("The approved lender means a person", "approved lender", "en", False),
        ("In this Act, share has the same meaning as in the code", "share", "en", True),
        ("“Konto” (im Folgenden A) bezeichnet eine Rechnung", "Konto", "de", True),
        ("agent agréé Personne désignée", "agent agréé", "fr", True),
        ("kleine Banken zahlen", "kleine", "de", False),
        ("運転免許証とは、許可をいう。", "運転免許証", "ja", True),
    ],
)
def test_definitions(sentence: str, phrase: str, language: str, defined: bool) -> None:
    start = sentence.index(phrase)
    assert is_defined(Phrase(sentence, start, start + len(phrase)), language) is defined


@pytest.mark.parametrize(
    ("sentence", "phrase", "code"),
    [
        ("Delete {name} now", "name", True),
        ("Open file_name now", "file_name", True),
        ("See www.example.org now", "www.example.org", True),
        ("Copied %s of it", "s", True),
        ("Open LibreOffice now", "LibreOffice", False),
        ("The U.S. bank", "bank", False),
    ],
)
def test_placeholders_and_code(sentence: str, phrase: str, code: bool) -> None:
    start = sentence.index(phrase)
    assert is_code(Phrase(sentence, start, start + len(phrase))) is code


def test_words_that_a_reference_lacks_come_first() -> None:
    believer = Believer({"time": 0.9, "escrow": 0.9})
    reference = reference_of_text(["time and time", "a long time"])
    document = Document.from_texts("d", ["the time", "an escrow"])
    extracted = extract_terms([document], believer, TermSettings(language="en"), reference=reference)  # type: ignore[arg-type]
    assert [term.text for term in extracted] == ["escrow", "time"]
    assert reference.log_probability("time") == pytest.approx(math.log(3 / 7))  # of 6 words, and one for all others


def test_known_terms_are_marked_in_any_form() -> None:
    extracted = terms(Believer({"banken": 1.0, "steuer": 1.0}), "Die Banken.", "Die Steuer.", language="de")
    marked = mark_known(extracted, [Term("Bank", "de")])
    assert {term.text: term.in_glossary for term in marked} == {"Banken": True, "Steuer": False}


def test_other_words_of_one_stem_are_other_terms() -> None:
    extracted = terms(
        Believer({"küche": 1.0, "küchen": 1.0, "kuchen": 1.0}),
        "Die Küche.",
        "Zwei Küchen.",
        "Der Kuchen.",
        language="de",
    )
    assert {term.text: [form for form, _ in term.variants] for term in extracted} == {
        "Küche": ["Küche", "Küchen"],
        "Kuchen": ["Kuchen"],
    }


def test_other_words_with_the_stem_of_a_known_term_are_not_marked() -> None:
    extracted = terms(Believer({"küchen": 1.0, "kuchen": 1.0}), "Die Küchen.", "Der Kuchen.", language="de")
    marked = mark_known(extracted, [Term("Küche", "de")])
    assert {term.text: term.in_glossary for term in marked} == {"Küchen": True, "Kuchen": False}


def test_a_tokenizer_tells_frequent_words_from_rare_ones(model: Model) -> None:
    probability = tokenizer_reference(model.runtime.tokenizer).log_probability
    assert probability("und") > probability("zeit") > probability("treuhandkonto")


def test_a_tokenizer_without_scores_prefers_no_word() -> None:
    vocabulary = {"[UNK]": 0, "und": 1, "treuhand": 2, "##konto": 3}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    probability = tokenizer_reference(tokenizer).log_probability
    assert {probability(word) for word in ("und", "treuhandkonto", "xyz")} == {0.0}
    assert probability("") == FLOOR  # of no piece


def test_no_term_begins_or_ends_with_a_function_word() -> None:
    sentence = "Andere Leute oder viele Banken zahlen die Steuer der Bank."
    wordings = [term.text for term in terms(Believer({}, 0.9), sentence, language="de")]
    assert {"Leute", "Banken", "Steuer", "Steuer der Bank"} <= set(wordings)
    assert not {
        text
        for text in wordings
        if {"andere", "oder", "die", "der"} & {text.lower().split()[0], text.lower().split()[-1]}
    }
    assert not [text for text in wordings if " " in text and text.endswith("zahlen")]  # no noun at its end
    particles = [term.text for term in terms(Believer({}, 0.9), "契約は有効です。", language="ja")]
    assert "契約" in particles
    assert not {"は", "です"} & set(particles)


def test_german_verbs_are_no_forms_of_nouns() -> None:
    believer = Believer({"beitrag": 0.9, "beiträge": 0.9, "beitragen": 0.9})
    extracted = terms(believer, "Ein Beitrag.", "Viele Beiträge.", "Wir beitragen.", language="de")
    assert {text: count for term in extracted for text, count in [(term.text, term.count)]} == {
        "Beitrag": 2,
        "beitragen": 1,
    }


def test_a_clause_and_a_long_phrase_that_stands_once_come_late() -> None:
    believer = Believer({"spare wheel": 0.9, "wheel turns left": 0.9, "spare wheel bolt": 0.9})
    sentences = ["the spare wheel fits", "a spare wheel fits", "wheel turns left", "and a spare wheel bolt fits"]
    extracted = {term.text: term.score for term in terms(believer, *sentences, language="en")}
    assert extracted["spare wheel"] > extracted["spare wheel bolt"] > extracted["wheel turns left"]


def test_single_german_words_in_small_letters_come_late() -> None:
    believer = Believer({"brennbar": 0.9, "kälte": 0.9, "gilt": 0.9})
    sentences = ["Sie ist brennbar.", "Die Kälte bleibt.", "Das gilt.", "Es gilt."]
    for language, parts in (("de", {"brennbar": 1, "gilt": 1 / 2}), ("da", {})):
        extracted = {term.text: term.score for term in terms(believer, *sentences, language=language)}
        logits = {text: math.log(score / (1 - score)) for text, score in extracted.items()}
        for text, part in {"brennbar": 0, "gilt": 0, **parts}.items():
            count = {"brennbar": 1, "gilt": 2}[text]
            frequency = WEIGHTS["frequency"] * (math.log1p(count) - math.log1p(1))
            expected = logits["Kälte"] + frequency + WEIGHTS["small letter"] * part
            assert logits[text] == pytest.approx(expected), (language, text)
    assert WEIGHTS["small letter"] < 0

"""Which hints a sentence gets: floor, longest first, budget, what must not be found; and how contexts are cut."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from llm_double import ENGLISH

from phrasemate import Document, Index, load_model
from phrasemate.encode.model import TextPhrases
from phrasemate.encode.scoring import VOTES, Confidence, Views
from phrasemate.errors import InputError
from phrasemate.lexicon import Dictionary
from phrasemate.mt import Hint, Hinter, Hints
from phrasemate.mt.hints import Equivalent, chosen, cut, within
from phrasemate.results import Answer, Group, SearchRequest
from phrasemate.search import Searcher
from phrasemate.text.sentences import is_of
from phrasemate.types import Hit, Phrase, Run, Span

TEXT = "Das alte Motorrad stand vor dem kleinen Haus."

NO_INDEX: Any = SimpleNamespace(dictionaries=())


class FakeModel:
    """Proposes the spans that it is given; the score of a span is its threshold."""

    name = "fake"
    learned = segmenter = "learned"
    ngram = "ngram"
    dim = 1

    def __init__(self, *spans: tuple[str, float]) -> None:
        self.spans = spans
        self.requests: list[str] = []

    def segment(self, texts: list[str], threshold: float, overlapping: bool = True) -> list[list[Span]]:
        assert self.segmenter == "learned"
        return [
            [Span(text.index(phrase), text.index(phrase) + len(phrase), score)
             for phrase, score in self.spans if phrase in text and score >= threshold]
            for text in texts
        ]  # fmt: skip

    def extract(self, texts: list[str], threshold: float) -> list[TextPhrases]:
        """A phrase's vector is its number among all that are asked for."""
        result, number = [], 0
        for text, spans in zip(texts, self.segment(texts, threshold), strict=True):
            vectors = np.arange(number, number + len(spans), dtype=np.float32)[:, None]
            self.requests += [text[span.start : span.end] for span in spans]
            number += len(spans)
            starts, ends, scores = (np.array([span[i] for span in spans]) for i in range(3))
            result.append(TextPhrases(starts.astype(np.int32), ends.astype(np.int32), scores, vectors))
        return result


class FakeSearcher:
    """Finds what it is told for a phrase: (wording, score, contexts)."""

    def __init__(
        self, model: FakeModel, table: dict[str, list[tuple[str, float, list[str]]]], sure: float | None = None
    ):
        self.model, self.found, self.sure = model, table, sure
        self.requests: list[Phrase] = []
        self.scorer = None

    @property
    def calibration(self) -> object:
        return getattr(self.model, "confidence", None)

    @property
    def index(self) -> FakeSearcher:
        return self

    def search(self, vectors: np.ndarray, k: int) -> Run:
        phrases = [self.model.requests[-len(vectors) :][int(vector[0])] for vector in vectors]
        scores = [[self.found[phrase][0][1] if phrase in self.found else -1.0] * k for phrase in phrases]
        return Run(np.zeros((len(vectors), k), np.int64), np.array(scores, np.float32))

    def search_phrases(
        self, phrases: list[Phrase], request: SearchRequest, without: list[str] | None = None
    ) -> list[Answer]:
        answers: list[Answer] = []
        for phrase, text in zip(phrases, without or [""] * len(phrases), strict=True):
            banned = is_of(text)
            self.requests.append(phrase)
            results = [
                (wording, score, [place for place in places if not banned(place)])
                for wording, score, places in self.found.get(phrase.text, [])
            ]
            groups = [
                Group(
                    text,
                    score,
                    len(places),
                    tuple(self.hit(text, place, score) for place in places[: request.contexts]),
                )
                for text, score, places in results[: request.k]
                if places
            ]
            answers.append((tuple(groups), self.sure))
        return answers

    def languages(self) -> list[str]:
        return ["en"]

    def hit(self, text: str, context: str, score: float) -> Hit:
        start = context.index(text)
        return Hit(Phrase(context, start, start + len(text)), score, "doc", 1, "en")


FOUND = {
    "alte Motorrad": [("old motorcycle", 0.84, ["An old motorcycle."])],
    "Motorrad": [("motorcycle", 0.9, ["A motorcycle.", "My motorcycle!"]), ("bike", 0.79, ["A bike."])],
    "Haus": [("house", 0.86, ["The house."]), ("home", 0.82, ["At home."])],
    "kleinen Haus": [("cottage", 0.87, ["A cottage."])],
    "stand": [("stood", 0.7, ["It stood."])],
}
SPANS = [("alte Motorrad", 0.75), ("Motorrad", 0.9), ("stand", 0.9), ("kleinen Haus", 0.8), ("Haus", 0.95)]


def hinter(sure: float | None = None, **settings: object) -> Hinter:
    searcher = FakeSearcher(FakeModel(*SPANS), FOUND, sure)
    return Hinter(NO_INDEX, replace(Hints(), **settings), searcher)  # type: ignore[arg-type]


def hints_of(result: object) -> list[tuple[str, list[str]]]:
    return [(hint.phrase, [equivalent.text for equivalent in hint.equivalents]) for hint in result.hints]  # type: ignore[attr-defined]


def test_a_phrase_with_no_good_equivalent_leaves_its_words_to_shorter_ones() -> None:
    (result,) = hinter()([TEXT])
    # alte Motorrad has two words: its floor is .8 + .05 > .84; kleinen Haus passes with .87 and displaces Haus
    assert hints_of(result) == [("Motorrad", ["motorcycle"]), ("kleinen Haus", ["cottage"])]
    assert result.phrases == tuple(phrase for phrase, _ in SPANS)
    (result,) = hinter(per_word=0.0)([TEXT])
    assert [phrase for phrase, _ in hints_of(result)] == ["alte Motorrad", "kleinen Haus"]
    (result,) = hinter(floor=0.95)([TEXT])
    assert result.hints == ()


def test_terms_of_a_dictionary_are_hints_whether_or_not_the_index_holds_them() -> None:
    entries = [
        [("de", "Haus"), ("en", "premises"), ("en", "home"), ("en", "building")],
        [("de", "stand vor"), ("en", "stood in front of")],
    ]
    searcher = FakeSearcher(FakeModel(*SPANS), FOUND, None)
    dictionaries = [Dictionary("base", entries)]
    hinter = Hinter(NO_INDEX, Hints(), searcher, dictionaries=dictionaries, languages=("de", "en"))  # type: ignore[arg-type]
    (result,) = hinter([TEXT])
    assert hints_of(result) == [
        ("Motorrad", ["motorcycle"]),
        ("stand vor", ["stood in front of"]),  # not in the index
        ("Haus", ["premises", "home"]),  # two of them; the longer phrase around it yields
    ]
    assert [hint.equivalents[0].places for hint in result.hints[1:]] == [(), ()]
    assert [hint.confidence for hint in result.hints] == [None, 1.0, 1.0]
    base = SimpleNamespace(dictionaries=dictionaries)  # an index that keeps it
    result_with_index = Hinter(base, Hints(), searcher, languages=("de", "en"))([TEXT])  # type: ignore[arg-type]
    assert result_with_index == hinter([TEXT])
    elsewhere = Hinter(NO_INDEX, Hints(), searcher, dictionaries=dictionaries, languages=("de", "fr"))  # type: ignore[arg-type]
    (result,) = elsewhere([TEXT])
    assert hints_of(result) == [("Motorrad", ["motorcycle"]), ("kleinen Haus", ["cottage"])]


def test_a_term_that_was_retrieved_too_keeps_its_places() -> None:
    house_alone = {"Haus": FOUND["Haus"]}
    searcher = FakeSearcher(FakeModel(*SPANS), house_alone, None)
    dictionaries = [Dictionary("base", [[("de", "Haus"), ("en", "House")]])]
    (result,) = Hinter(NO_INDEX, Hints(), searcher, dictionaries=dictionaries)([TEXT])  # type: ignore[arg-type]
    (equivalent,) = result.hints[-1].equivalents
    assert (equivalent.text, equivalent.score, len(equivalent.places)) == ("house", 0.86, 1)


def test_where_a_scorer_judges_cosines_do_not_and_70_percent_are_enough() -> None:
    """A candidate of the lexicon may be far from the sentence's vector."""
    for sure, phrases in ((0.72, ["alte Motorrad", "stand", "kleinen Haus"]), (0.68, [])):
        searcher = FakeSearcher(FakeModel(*SPANS), {**FOUND, "stand": [("stood", 0.2, ["It stood."])]}, sure)
        searcher.scorer = "scorer"  # type: ignore[assignment]
        (result,) = Hinter(NO_INDEX, Hints(), searcher)([TEXT])  # type: ignore[arg-type]
        assert [phrase for phrase, _ in hints_of(result)] == phrases


def test_hits_are_looked_up_only_for_phrases_that_may_pass() -> None:
    result = hinter()
    result([TEXT, "Ein Haus."])
    texts = [phrase.text for phrase in result.searcher.requests]  # type: ignore[attr-defined]
    # alte Motorrad .84 is nearer to its floor of .85 than two cosines may differ; stand .7 is not to .8
    assert texts == ["alte Motorrad", "Motorrad", "kleinen Haus", "Haus", "Haus"]


def test_all_phrases_may_be_shown() -> None:
    (result,) = hinter(overlapping=True)([TEXT])
    assert [phrase for phrase, _ in hints_of(result)] == ["Motorrad", "kleinen Haus", "Haus"]


def test_k_equivalents_and_their_contexts() -> None:
    (result,) = hinter(overlapping=True, floor=0.75, contexts=2, k=1)([TEXT])
    motorcycle = next(hint for hint in result.hints if hint.phrase == "Motorrad").equivalents
    assert [item.text for item in motorcycle] == ["motorcycle"]
    assert [place.context for place in motorcycle[0].places] == ["A [[motorcycle]].", "My [[motorcycle]]!"]
    (result,) = hinter(contexts=0)([TEXT])
    assert result.hints[0].equivalents[0].places == ()


def test_threshold_and_confidence() -> None:
    (result,) = hinter(threshold=0.93)([TEXT])
    assert hints_of(result) == [("Haus", ["house", "home"])]
    assert hinter(sure=0.4, confidence=0.5)([TEXT])[0].hints == ()
    (result,) = hinter(sure=0.6, confidence=0.5)([TEXT])
    assert {hint.confidence for hint in result.hints} == {0.6}
    assert len(hinter(confidence=0.5)([TEXT])[0].hints) == 2  # a model that does not tell: the floor alone decides


def test_a_second_equivalent_is_nearly_as_good_as_the_first() -> None:
    (result,) = hinter(floor=0.75, overlapping=True)([TEXT])
    assert ("Motorrad", ["motorcycle"]) in hints_of(result)  # bike has .79, which is .11 less
    assert ("Haus", ["house", "home"]) in hints_of(result)  # .86 and .82
    (result,) = hinter(floor=0.75, overlapping=True, close=0.2)([TEXT])
    assert ("Motorrad", ["motorcycle", "bike"]) in hints_of(result)


def test_floors_are_lower_where_the_model_tells_how_sure_it_is() -> None:
    result = hinter(sure=0.95)
    assert [result.floor(phrase) for phrase in ("Haus", "alte Motorrad")] == pytest.approx([0.8, 0.85])
    model = FakeModel(*SPANS)
    model.confidence = "calibrated"  # type: ignore[attr-defined]
    result = Hinter(NO_INDEX, Hints(), FakeSearcher(model, FOUND, 0.95))  # type: ignore[arg-type]
    assert [result.floor(phrase) for phrase in ("Haus", "alte Motorrad")] == [0.7, 0.7]
    assert [phrase for phrase, _ in hints_of(result([TEXT])[0])] == ["alte Motorrad", "stand", "kleinen Haus"]
    unsure = Hinter(NO_INDEX, Hints(), FakeSearcher(model, FOUND, 0.85))  # type: ignore[arg-type]
    assert unsure([TEXT])[0].hints == ()


def test_floors_are_high_where_the_model_is_calibrated_for_one_look_alone(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Searcher(index).model
    monkeypatch.setattr(model, "scorer", None)
    monkeypatch.setattr(model, "confidence", Confidence(0.0, (1.0, 0.0, 0.0)))
    assert Hinter(index, Hints()).floor("Haus") == 0.8
    assert Hinter(index, Hints(quick=True)).floor("Haus") == 0.7


def test_one_sentence_is_not_a_list_of_sentences() -> None:
    with pytest.raises(InputError, match="expected a list of sentences; put one alone in brackets"):
        hinter()(TEXT)


def test_the_second_look_can_be_left_out(index: Index) -> None:
    assert Hinter(index, Hints()).searcher.views == Views()
    assert Hinter(index, Hints(quick=True)).searcher.views == VOTES


def test_what_must_not_be_found_is_not() -> None:
    (result,) = hinter(per_word=0.0, contexts=1)([TEXT], without=["an OLD  motorcycle."])
    assert [phrase for phrase, _ in hints_of(result)] == ["Motorrad", "kleinen Haus"]
    (result,) = hinter(contexts=1)([TEXT], without=["A motorcycle."])
    (place,) = result.hints[0].equivalents[0].places
    assert place.context == "My [[motorcycle]]!"  # the wording has another place


def test_a_sentence_of_what_must_not_be_found_is_not_either() -> None:
    (result,) = hinter(contexts=1)([TEXT], without=["He came late.  A MOTORCYCLE. My motorcycle!"])
    assert [phrase for phrase, _ in hints_of(result)] == ["kleinen Haus"]


def in_support(*groups: tuple[str, float, float]) -> dict[str, list[Group]]:
    """Groups (wording, support, cosine of the best hit in its sentence) of the phrase Haus."""
    return {
        "Haus": [
            Group(text, support, 1, (Hit(Phrase(text, 0, len(text)), score, "doc", 1, "en"),), support)
            for text, support, score in groups
        ]
    }


class SupportSearcher(FakeSearcher):
    """Finds groups as they are."""

    def __init__(self, table: dict[str, list[Group]], sure: float | None) -> None:
        super().__init__(FakeModel(("Haus", 0.95)), {"Haus": [("", 0.9, [])]}, sure)
        self.groups = table

    def search_phrases(
        self, phrases: list[Phrase], request: SearchRequest, without: list[str] | None = None
    ) -> list[Answer]:
        return [(tuple(self.groups[phrase.text][: request.k]), self.sure) for phrase in phrases]


def test_no_other_takes_the_place_of_the_best_which_is_too_far_away() -> None:
    groups = in_support(("house", 0.85, 0.66), ("home", 0.82, 0.9))
    sure = Hinter(NO_INDEX, Hints(floor=0.7), SupportSearcher(groups, 0.93))  # type: ignore[arg-type]
    assert sure(["Ein Haus."])[0].hints == ()  # .93 is of the wording that does not pass
    untold = Hinter(NO_INDEX, Hints(floor=0.7), SupportSearcher(groups, None))  # type: ignore[arg-type]
    assert hints_of(untold(["Ein Haus."])[0]) == [("Haus", ["home"])]  # at most .08 less
    groups = in_support(("house", 0.85, 0.66), ("home", 0.76, 0.9))
    untold = Hinter(NO_INDEX, Hints(floor=0.7), SupportSearcher(groups, None))  # type: ignore[arg-type]
    assert untold(["Ein Haus."])[0].hints == ()


def test_the_budget_goes_to_the_longest_phrases() -> None:
    (result,) = hinter(budget=12)([TEXT], cost=lambda hint: len(hint.phrase))
    assert hints_of(result) == [("kleinen Haus", ["cottage"])]  # 12 characters, and 8 more do not fit
    (result,) = hinter(budget=20)([TEXT], cost=lambda hint: len(hint.phrase))
    assert len(result.hints) == 2
    assert hinter(budget=0)([TEXT], cost=lambda hint: 1)[0].hints == ()


def hint(start: int, end: int, score: float = 0.9) -> Hint:
    return Hint("x" * (end - start), start, end, (Equivalent("y", score, 1, ()),))


def test_the_longest_are_chosen_and_share_nothing() -> None:
    spans = [hint(a, b, 0.5 + (7 * a + 3 * b) % 10 / 20) for a, b in combinations(range(0, 12, 2), 2)]
    choice = chosen(spans)
    assert choice == [hint(0, 10, 0.5)]  # the longest of all leaves nothing
    assert all(a.end <= b.start for a, b in pairwise(choice))
    assert chosen([hint(0, 4, 0.7), hint(4, 8, 0.8), hint(2, 6, 0.9)]) == [hint(2, 6, 0.9)]  # of equal length the best
    assert chosen([hint(0, 4), hint(2, 6), hint(4, 8)]) == [hint(0, 4), hint(4, 8)]  # then the first


def test_within_keeps_the_order_of_the_sentence() -> None:
    assert within([hint(0, 2), hint(4, 8)], 2, lambda item: 1) == (hint(0, 2), hint(4, 8))
    assert within([hint(0, 2), hint(4, 8)], 1, lambda entry: 1) == (hint(4, 8),)


def test_cut_marks_and_shortens() -> None:
    assert cut("A bank.", 2, 6, 100) == "A [[bank]]."
    long = " ".join(["word"] * 50) + " bank " + " ".join(["more"] * 50)
    start = long.index("bank")
    result = cut(long, start, start + 4, 100)
    inner = result.replace("[[", "").replace("]]", "").replace("...", "")
    assert 80 <= len(inner) <= 100
    assert inner in long
    assert result.startswith("...word")
    assert result.endswith("more...")
    assert cut(long, 0, 4, 30).startswith("[[word]] word")  # room that one side does not need is the other's
    assert cut("x" * 200, 50, 180, 100) == f"...[[{'x' * 130}]]..."  # a phrase is never cut
    assert cut("See [[a]]: bank.", 11, 15, 100) == r"See \[[a\]]: [[bank]]."  # brackets of the text are not marks


@pytest.mark.parametrize("settings", [{"k": 0}, {"segmenter": "magic"}, {"width": 3}, {"contexts": -1}])
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(InputError, match="expected"):
        Hints(**settings)  # type: ignore[arg-type]


def test_a_model_without_a_learned_segmenter_is_reported() -> None:
    model = FakeModel()
    model.learned = None  # type: ignore[assignment]
    with pytest.raises(InputError, match="has no learned segmenter"):
        Hinter(NO_INDEX, Hints(), FakeSearcher(model, {}))  # type: ignore[arg-type]


def test_with_the_real_model_and_index(index: Index) -> None:
    settings = Hints(floor=0.5, per_word=0.0)
    result = Hinter(index, settings, apart=True)(["Das Motorrad stand vor dem Haus.", "Der Arzt war im Krankenhaus."])
    texts = {equivalent.text.casefold() for one in result for hint in one.hints for equivalent in hint.equivalents}
    assert {"motorcycle", "hospital"} & texts
    for one in result:
        assert all(place.context.replace("[[", "").replace("]]", "").strip(".") in "".join(ENGLISH)
                   for hint in one.hints for item in hint.equivalents for place in item.places)  # fmt: skip
        assert set(one.apart) <= set(one.phrases)
    assert Searcher(index).model.segmenter is Searcher(index).model.learned  # put back as it was
    (ngram,) = Hinter(index, replace(settings, segmenter="ngram"))(["Das Motorrad stand vor dem Haus."])
    assert "Motorrad" in ngram.phrases
    (apart,) = Hinter(index, replace(settings, segmenter="ngram"), apart=True)(["Das Motorrad stand vor dem Haus."])
    assert (apart.phrases, apart.apart) == (ngram.phrases, ())  # it has no phrases that do not overlap


def test_hints_are_in_the_target_language(tmp_path: Path) -> None:
    """The index has English, two varieties of French, and no Italian."""
    texts = {"en": "The window is open.", "fr": "La fenêtre est ouverte.", "fr-CA": "Il ferme la fenêtre."}
    equivalents, both = {}, {"window", "fenêtre"}
    with Index.create(tmp_path / "idx", load_model(threads=1)) as several:
        for language, text in texts.items():
            several.add([Document.from_texts(language, [text])], lang=language)
        for target in ("fr", "en-US", "it", ""):
            (result,) = Hinter(several, Hints(k=2, close=1.0), languages=("de", target))(["Er öffnete das Fenster."])
            hint = next(hint for hint in result.hints if hint.phrase == "Fenster")
            equivalents[target] = both & {equivalent.text for equivalent in hint.equivalents}
    assert equivalents == {"fr": {"fenêtre"}, "en-US": {"window"}, "it": both, "": both}


def test_known_equivalents_of_a_translated_sentence(index: Index) -> None:
    pair = "Das Motorrad stand vor dem Haus.", "The motorcycle stood in front of the house."
    (phrase_pairs,) = Hinter(index, Hints(threshold=0.3)).translated_phrases([pair])
    assert phrase_pairs
    assert all(text.casefold() in pair[1].casefold() for _, text in phrase_pairs)


def test_hints_of_a_very_long_line_are_chosen_in_a_moment() -> None:
    hints = [Hint("x", at, at + 1 + at % 2, (Equivalent("a", 0.5, 1, ()),)) for at in range(20_000)]
    start = time.process_time()
    choice = chosen(hints)
    assert time.process_time() - start < 5  # each with each took a minute
    assert [(hint.start, hint.end) for hint in choice] == [(0, 1), *((at, at + 2) for at in range(1, 20_000, 2))]

"""Candidates: who proposes them, their features worked out, and searches that choose among them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from itertools import product
from math import log, prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phrasemate import candidates, load_model
from phrasemate.answers import SAME, group_forms, with_same_first
from phrasemate.candidates import (
    LACKING,
    OCCURRENCES,
    SMALLEST,
    UNCOUNTED,
    UNLISTED,
    Dictionaries,
    Listing,
    Part,
    QueryWords,
    begins_at,
    compositions,
    ends_at,
    equivalents,
    extended,
    gather,
    in_expressions,
    is_whole,
    parts,
    restrict,
    stands_for_itself,
    with_function_word,
)
from phrasemate.encode.scoring import FEATURES, CandidateScorer
from phrasemate.features import describe
from phrasemate.index import Index
from phrasemate.lexicon import Dictionary as FileDictionary
from phrasemate.lexicon import (
    DictionaryFolder,
    Equivalent,
    InducedLexicon,
    bundled_collocates,
    bundled_lexicon,
    stemmed,
)
from phrasemate.lexicon.induced import Pair, write_lexicon
from phrasemate.results import LazyMapping, SearchRequest
from phrasemate.search import Searcher
from phrasemate.text import folded
from phrasemate.types import Document, Phrase

DIRECTIONS = {"bank": (1.0, 0.0), "bench": (0.0, 1.0), "benches": (0.6, 0.8), "money": (0.8, 0.6)}


class Model:
    """Vectors of two numbers by wording; a phrase of the query "Bank" is seen in its sentence as (.6, .8)."""

    dim, name, hash, path, pooling = 2, "two numbers", "0" * 64, None, "head"
    confidence: Any = None

    def __init__(self, **weights: float) -> None:
        self.scorer = CandidateScorer(0.0, tuple(weights.get(name.replace(" ", "_"), 0.0) for name in FEATURES))

    def encode(self, phrases: Sequence[Phrase]) -> np.ndarray:
        in_context = [phrase.end - phrase.start < len(phrase.context) for phrase in phrases]
        return np.array([(0.6, 0.8) if inside else (1.0, 0.0) for inside in in_context], np.float32)

    def extract(self, texts: Sequence[str], *rest: Any, **options: Any) -> list[Any]:
        return [self._phrases(text) for text in texts]

    def _phrases(self, text: str) -> SimpleNamespace:
        present = [word for word in DIRECTIONS if word in text.split()]
        places = sorted((text.find(word), word) for word in present)
        return SimpleNamespace(
            starts=np.array([place for place, _ in places], np.int32),
            ends=np.array([place + len(word) for place, word in places], np.int32),
            scores=np.ones(len(places), np.float32),
            vectors=np.array([DIRECTIONS[word] for _, word in places], np.float32).reshape(-1, 2),
        )


class Dictionary:
    name = "mine"

    def __init__(self, **entries: dict[str, float]) -> None:
        self.entries = entries

    def equivalents(self, wording: str, lang: str = "", target: str = "") -> list[Equivalent]:
        return [Equivalent(text, p, self.name, "en") for text, p in self.entries.get(wording, {}).items()]


TEXTS = ["the bank has money", "a bench here", "two benches there", "bank and bank of money", "our bench"]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with Index.create(tmp_path / "idx", Model()) as result:  # type: ignore[arg-type]
        result.add([Document.from_texts("english", TEXTS)], lang="en")
        yield result


def searcher(index: Index, dictionary: Dictionary, **weights: float) -> Searcher:
    model: Any = Model(**weights)
    return Searcher(index, model, lexicons=[dictionary], lexicon=False)


def test_the_dictionaries_of_an_index_come_after_those_given(index: Index) -> None:
    DictionaryFolder(index.path).add(FileDictionary("kept.tsv", [[("de", "Bank"), ("en", "bench")]]))
    mine = Dictionary()
    with Index.open(index.path, readonly=True) as again:
        assert [lexicon.name for lexicon in searcher(again, mine).lexicons] == [mine.name, "kept.tsv"]
        (answer,) = searcher(again, mine, verbatim=4.0).search_phrases([Phrase("eine Bank", 5, 9)], SearchRequest())
        assert (answer[0][0].text.casefold(), answer[0][0].source) == ("bench", "kept.tsv")


def test_a_dictionary_proposes_every_inflected_form_and_its_likeliest_probability_counts(index: Index) -> None:
    mine = Dictionary(Bank={"bench": 0.25, "bank": 0.5, "no such word": 0.2, "Benches": 0.125})
    with index.wordings() as search:
        listed = equivalents(search.table, "Bank", Dictionaries([mine], ["en"]))
        present = {wording: entry for wording, entry in listed.items() if len(search.table.occurrences([wording])[0])}
        assert present == {
            "bench": Listing(0.25, "mine", exact=True, verbatim=True),
            "benches": Listing(0.25, "mine", exact=True, verbatim=True),
            "bank": Listing(0.5, "mine", exact=True, verbatim=True),
        }
        assert equivalents(search.table, "Bank", Dictionaries([mine], ["fr"])) == {}  # of the index's languages alone


def test_an_equivalent_does_not_stand_for_other_words_with_its_stem() -> None:
    forms = ["wit's", "witness's", "witnessed", "witnesses", "wits"]
    assert {stemmed(form, "en") for form in forms} == {stemmed("witness", "en")}
    table: Any = SimpleNamespace(of_stems=lambda stems: [forms for _ in stems])
    listed = equivalents(table, "Zeuge", Dictionaries([Dictionary(Zeuge={"witness": 0.5})], ["en"]))
    assert listed.keys() == {"witness", "witness's", "witnessed", "witnesses"}


def test_a_dictionary_file_shares_what_the_lexicon_leaves_open() -> None:
    class Counted(Dictionary):
        name = "counted"

    texts = "bank", "bench", "shoal"  # of weights 6/11, 3/11 and 2/11
    file = FileDictionary("file", [[("de", "Bank"), ("en", text)] for text in texts])
    lexicon = Counted(Bank={"bank": 0.5, "bench": 0.25})
    listed = Dictionaries([file, lexicon], ["en"]).equivalents("Bank", "de")
    assert [(text, source) for text, _, source, *_ in listed[:3]] == [(text, "file") for text in texts]
    assert [weight for _, weight, *_ in listed] == pytest.approx(
        [0.5 + 0.25 * 6 / 11, 0.25 + 0.25 * 3 / 11, 0.25 * 2 / 11, 0.5, 0.25]
    )
    # nothing is left open
    certain = Dictionaries([file, Counted(Bank={"bank": 1.0})], ["en"]).equivalents("Bank", "de")
    assert [weight for _, weight, *_ in certain] == [1.0, SMALLEST, SMALLEST, 1.0]
    # the lexicon lists other wordings only
    uncounted = Dictionaries([file, Counted(Haus={"house": 1.0})], ["en"]).equivalents("Bank", "de")
    assert [weight for _, weight, *_ in uncounted] == pytest.approx([6 / 11, UNCOUNTED, UNCOUNTED])


def test_what_lists_the_wording_itself_counts_before_what_lists_other_forms() -> None:
    class OtherForms(Dictionary):
        def equivalents(self, wording: str, lang: str = "", target: str = "") -> list[Equivalent]:
            return [equivalent._replace(exact=False) for equivalent in super().equivalents(wording)]

    file = FileDictionary("file", [[("de", "Vermieter"), ("en", "landlord")]])
    stems = OtherForms(Vermieter={"rent": 0.5}, Miete={"rent": 0.5})
    dictionaries = Dictionaries([file, stems], ["en"])
    assert [text for text, *_ in dictionaries.equivalents("Vermieter", "de")] == ["landlord"]
    assert [text for text, *_ in dictionaries.equivalents("Miete", "de")] == ["rent"]


def test_regions_of_languages_make_no_difference(tmp_path: Path) -> None:
    sentences = ["She sat on the bench.", "The bank raised its rates."]
    with Index.create(tmp_path / "british", load_model()) as british:
        british.add([Document.from_texts("text", sentences)], lang="en-GB")
        group = Searcher(british).search("Er sitzt auf der [[Bank]].", k=1).groups[0]
    assert (group.text, group.source) == ("bench", "lexicon")


@pytest.mark.parametrize("query", ["Die Polizei [[nahm]] ihn fest.", "Die Polizei nahm ihn [[fest]]."])
def test_both_parts_of_a_separable_verb_are_answered_by_it(tmp_path: Path, query: str) -> None:
    sentences = ["The police arrested the thief.", "She took the book.", "They have found the key.", "He stood firmly."]
    with Index.create(tmp_path / "idx", load_model()) as index:
        index.add([Document.from_texts("text", sentences)], lang="en")
        result = Searcher(index).search(query, k=1)
    assert (result.groups[0].text, result.phrase.context) == ("arrested", "Die Polizei nahm ihn fest.")


def test_two_languages_other_than_english_have_the_lexicon_too(tmp_path: Path) -> None:
    sentences = ["Elle est assise sur le banc du parc.", "La banque a baissé ses taux.", "Le chien dort."]
    with Index.create(tmp_path / "french", load_model()) as french:
        french.add([Document.from_texts("text", sentences)], lang="fr")
        bench, dog = Searcher(french).search_all(["Sie sitzt auf der [[Bank]] im Park.", "Mein [[Hund]] bellt."], k=1)
    assert [(result.groups[0].text, result.groups[0].source) for result in (bench, dog)] == [
        ("banc", "lexicon"),
        ("chien", "lexicon"),
    ]


def test_the_only_equivalent_of_a_term_base_keeps_its_weight() -> None:
    base = FileDictionary("base", [[("de", "Bank"), ("en", "financial institution")]])
    several = FileDictionary("several", [[("de", "Bank"), ("en", text)] for text in ("bank", "bench")])
    lexicon = Dictionary(Bank={"bank": 0.9})
    equivalents_of = Dictionaries([several, base, lexicon], ["en"]).equivalents("Bank", "de")
    assert max(equivalents_of, key=lambda equivalent: equivalent.weight)[:3] == ("financial institution", 1.0, "base")


def test_other_forms_of_what_is_listed_are_told(index: Index) -> None:
    class OtherForms(Dictionary):
        def equivalents(self, wording: str, lang: str = "", target: str = "") -> list[Equivalent]:
            return [equivalent._replace(exact=False) for equivalent in super().equivalents(wording)]

    listings = []
    for mine in (Dictionary(Bank={"benches": 0.5}), OtherForms(Bank={"benches": 0.5})):
        with index.wordings() as search:
            listed = equivalents(search.table, "Bank", Dictionaries([mine], ["en"]))
            listings.append({name: (entry.exact, entry.verbatim) for name, entry in listed.items()})
    assert listings == [
        {"benches": (True, True), "bench": (True, False)},
        {"benches": (False, True), "bench": (False, False)},
    ]


def test_candidates_come_from_vectors_dictionaries_and_the_wording_itself(index: Index) -> None:
    with index.wordings() as search:
        money = search.table.occurrences(["money"])[0].tolist()
        gathered = gather(
            search.table,
            "Bank",
            search.table.by_wording(money[:1]),
            dict.fromkeys(["bench", "absent"], Listing(0.5, "mine")),
        )
    assert {c.wording: (c.listing.probability, c.listing.source, c.count) for c in gathered} == {
        "money": (0.0, "", 2),
        "bench": (0.5, "mine", 2),
        "bank": (0.0, "", 2),
    }


def test_features_are_what_they_say(index: Index) -> None:
    with index.wordings() as search:
        gathered = gather(search.table, "Bank", {}, {"bench": Listing(0.5, "mine", verbatim=True)})
        vector, alone = np.array([[0.6, 0.8]], np.float32), np.array([[1.0, 0.0]], np.float32)
        query = parts("Bank", Dictionaries([Dictionary(Bank={"bench": 0.5})], ["en"]))
        (described,) = describe(
            search, ["Bank"], [gathered], vector, alone, "en", [QueryWords("de", query, {"sit": 1.0})]
        )
    rows = {
        candidate.wording: dict(zip(FEATURES, row.tolist(), strict=True))
        for candidate, row in zip(described.candidates, described.features, strict=True)
    }
    relative = dict.fromkeys([name for name in FEATURES if name.startswith("listed ")], 0.0)  # one is listed alone
    same = relative | {"alike": 1, "words": 0, "fewer words": 0, "function word": 0, "count": log(2), "no lexicon": 0}
    same["sense"] = 0  # no sense vectors
    collocates = bundled_collocates()
    assert collocates is not None
    sits_on_bench, sits_on_bank = collocates.associations([["bench"], ["bank"]], {"sit": 1.0}).tolist()
    bench = {"context": 0.8, "contexts": 0.8, "lead": 0, "type": 0.8, "alone": 0, "alone lead": -1, "listed": 1}
    bench |= {"probability": log(0.5), "others listed": 0, "same wording": 0, "covered": 1, "covers": 1, **same}
    bench |= {"exact": 0, "verbatim": 1}
    bench |= {"covers function words": 1, "composed": log(0.5), "word by word": 0}  # no function word; a single word
    bench["collocates"] = sits_on_bench
    bank = {"context": 0.6, "contexts": 0.6, "lead": -0.2, "type": 0.6, "alone": 1, "alone lead": 0, "listed": 0}
    bank |= {"probability": -6, "others listed": 1, "same wording": 1, "covered": 0, "covers": 0, **same}
    bank |= {"exact": 0, "verbatim": 0}
    bank |= {"covers function words": 1, "composed": -6, "word by word": 0}
    bank["collocates"] = sits_on_bank
    assert rows["bench"] == pytest.approx(bench, abs=0.01)  # stored vectors have 8 bits
    assert rows["bank"] == pytest.approx(bank, abs=0.01)


def test_a_listed_candidate_is_not_told_as_the_same_wording(index: Index) -> None:
    with index.wordings() as search:
        vector = np.array([[1.0, 0.0]], np.float32)
        values = []
        for listed in ({}, {"bank": Listing(0.5, "mine")}):
            gathered = gather(search.table, "bank", {}, listed)
            (described,) = describe(search, ["bank"], [gathered], vector, vector, "en", [QueryWords("", [], {})])
            values.append(described.features[0, FEATURES.index("same wording")])
    assert values == [1, 0]


def test_candidates_tell_that_no_lexicon_has_the_languages(index: Index) -> None:
    with index.wordings() as search:
        vector = np.array([[1.0, 0.0]], np.float32)
        gathered = gather(search.table, "bank", {}, {})
        wordings = [QueryWords("", [], {}, no_lexicon) for no_lexicon in (0.0, 1.0)]
        pairs = [describe(search, ["bank"], [gathered], vector, vector, "en", [wording]) for wording in wordings]
    assert [one.features[:, FEATURES.index("no lexicon")].tolist() for (one,) in pairs] == [[0], [1]]


@pytest.mark.parametrize(
    ("language", "targets", "covered"),
    [
        ("de", ["en"], True),
        ("en", ["fr"], True),
        ("de-AT", ["fr"], True),
        ("", ["en"], True),  # any language
        ("de", [""], True),
        ("nb", ["en"], False),
        ("en", ["sk"], False),
        ("de", ["sk", "en"], True),
    ],
)
def test_dictionaries_tell_whether_a_lexicon_has_the_languages(
    language: str, targets: list[str], covered: bool
) -> None:
    lexicon = bundled_lexicon()
    assert lexicon is not None
    assert Dictionaries([lexicon], targets).has_lexicon(language) is covered
    assert not Dictionaries([Dictionary(Bank={"bench": 0.5})], targets).has_lexicon(language)


@pytest.mark.parametrize(("lexicon", "expected"), [(True, 0.0), (False, 1.0)])
def test_a_search_tells_whether_the_lexicon_has_its_languages(index: Index, lexicon: bool, expected: float) -> None:
    model: Any = Model()
    phrases = [Phrase("eine Bank", 5, 9)]
    vectors = model.encode(phrases)
    (described,) = Searcher(index, model, lexicon=lexicon).candidates(phrases, vectors, vectors, SearchRequest())
    assert {*described.features[:, FEATURES.index("no lexicon")].tolist()} == {expected}


def test_without_the_bundled_lexicon_it_is_not_read_beside_a_dictionary(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise AssertionError

    monkeypatch.setattr("phrasemate.search.bundled_lexicon", refuse)
    result = searcher(index, Dictionary(Bank={"bench": 0.5}), verbatim=4.0).search("Er sitzt auf der [[Bank]].")
    assert result.groups[0].text == "bench"


def test_a_form_tells_stems_words_and_a_function_word() -> None:
    assert candidates.stemmed_form("the banks", "en") == (("bank",), 2, True)
    assert candidates.stemmed_form("river banks", "en") == (("river", "bank"), 2, False)


def test_phrases_of_several_words_are_translated_word_by_word(tmp_path: Path) -> None:
    class Pairs(Model):
        def _phrases(self, text: str) -> SimpleNamespace:
            vectors = np.array([[1, 0]], np.float32)
            return SimpleNamespace(starts=np.array([0]), ends=np.array([len(text)]), scores=np.ones(1), vectors=vectors)

    mine = Dictionary(
        gleiche={"same": 0.5, "equal": 0.4}, Ziele={"goal": 0.6, "target": 0.3}, der={"the": 0.9}, Schloss={"lock": 0.5}
    )
    with Index.create(tmp_path / "pairs", Pairs()) as index:  # type: ignore[arg-type]
        texts = ["same goals", "equal target", "target same", "same goal here", "the lock", "goal lock"]
        index.add([Document.from_texts("english", texts)], lang="en")
        with index.wordings() as search:
            same = parts("gleiche Ziele", Dictionaries([mine], ["en"]))
            assert [part.equivalents for part in same] == [
                {("same",): 0.5, ("equal",): 0.4},
                {("goal",): 0.6, ("target",): 0.3},
            ]
            assert compositions(search.table, same, "en") == [
                "same goals",
                "target same",
                "equal target",
            ]  # by probability
            lock = parts("Ziele der Schloss", Dictionaries([mine], ["en"]))
            assert [part.optional for part in lock] == [False, True, False]
            assert compositions(search.table, lock, "en") == ["goal lock"]
            assert compositions(search.table, parts("Ziele", Dictionaries([mine], ["en"])), "en") == []  # of one word


@pytest.mark.parametrize("optional", [False, True])
def test_the_likeliest_of_all_combinations_of_five_words_are_looked_up(optional: bool) -> None:
    class Table:
        def of_stems(self, stemmed: list[str]) -> list[list[str]]:
            self.stemmed = stemmed
            return [[] for _ in stemmed]

    draw, table = np.random.default_rng(7), Table()
    query = [
        Part({(f"{word}{number}",): weight for number, weight in enumerate(draw.random(4).tolist())}, optional)
        for word in "abcde"
    ]
    assert compositions(table, query, "en") == []  # type: ignore[arg-type]
    choices = [[*part.equivalents.items(), *([((), 0.5)] if optional else [])] for part in query]
    every = sorted(product(*choices), key=lambda choice: -prod(weight for _, weight in choice))
    expected = [" ".join(stem for stems, _ in choice for stem in stems) for choice in every[: candidates.COMPOSED]]
    assert table.stemmed[::2] == expected
    assert table.stemmed[1::2] == [" ".join(reversed(wording.split())) for wording in expected]
    assert len({wording.split()[0] for wording in expected}) > 1  # the first word varies, too


def test_translations_word_by_word_are_told_and_weighed(index: Index) -> None:
    mine = Dictionary(bequeme={"soft": 0.5}, Bank={"bench": 0.25, "bank": 0.5})
    query = parts("bequeme Bank", Dictionaries([mine], ["en"]))
    wordings = ["soft benches", "bench", "soft bench today", "soft bank"]
    proposed = [candidates.Candidate(wording, UNLISTED, np.array([1]), 1) for wording in wordings]
    vector = np.array([[1.0, 0.0]], np.float32)
    with index.wordings() as search:
        (described,) = describe(
            search, ["bequeme Bank"], [proposed], vector, vector, "en", [QueryWords("de", query, {})]
        )
    composed, whole = (described.features[:, FEATURES.index(name)].tolist() for name in ("composed", "word by word"))
    half, quarter = log(0.5), log(0.25)
    assert composed == pytest.approx([(half + quarter) / 2, (quarter - 6) / 2, (half + quarter) / 2, half])
    assert whole == [1, 0, 0, 1]  # "bench" lacks a word, "soft bench today" has one more


def test_listed_wordings_with_function_words_at_an_end_are_looked_for_around_the_rest() -> None:
    sentences = ["The house is for sale.", "A sale on Monday", "protection from rain", "The sale is for charity."]
    phrases = [
        Phrase(text, at := text.index(word), at + len(word))
        for text, word in zip(sentences, ("sale", "sale", "protection", "sale"), strict=True)
    ]
    ids = {"sale": [0, 1, 3], "protection": [2], "on sale": [1]}
    table: Any = SimpleNamespace(
        occurrences=lambda wordings: [np.array(ids.get(wording, []), np.int64) for wording in wordings]
    )
    names = ["for sale", "protection from", "protection against", "on sale", "sale", "of"]
    listed = dict.fromkeys(names, Listing(0.5, "mine"))
    results = extended(table, listed, "en", lambda ids: [phrases[number] for number in ids])
    assert [(one.wording, one.ids.tolist(), one.count, one.leading, one.trailing) for one in results] == [
        ("for sale", [0], 1, 1, 0),
        ("protection from", [2], 1, 0, 1),
    ]


def test_a_listed_wording_is_looked_for_around_each_of_its_parts() -> None:
    places = [("Keep this in mind.", "Keep"), ("Keep it in mind.", "mind"), ("You keep in mind what", "keep")]
    places += [("Keep in mind what", "mind"), ("They keep in mind all", "mind"), ("We keep in mind.", "keep")]
    places += [("I keep in mind.", "keep")]
    phrases = [Phrase(text, at := text.index(word), at + len(word)) for text, word in places]
    ids = {"keep": [0, 2, 5, 6], "mind": [1, 3, 4], "in": [0]}
    table: Any = SimpleNamespace(
        occurrences=lambda wordings: [np.array(ids.get(wording, []), np.int64) for wording in wordings]
    )
    listed = {"keep in mind": Listing(0.5, "mine")}
    (result,) = extended(table, listed, "en", lambda ids: [phrases[number] for number in ids])
    # three of the four "keep" have "in mind" behind them, two of the three "mind" have "keep in" before
    assert (result.ids.tolist(), result.count, result.leading, result.trailing) == ([2, 5, 6], 3, 0, 2)


def test_the_likeliest_listed_wordings_are_looked_for() -> None:
    sentence = "The house is for sale."
    table: Any = SimpleNamespace(
        occurrences=lambda wordings: [np.arange(wording == "sale", dtype=np.int64) for wording in wordings]
    )
    listed = {
        f"{word} sale": Listing(number / 10, "mine") for number, word in enumerate(["no", "any", "all", "for"], 1)
    }
    listed |= {"for a sale": Listing(0.9, "mine")}
    phrase = Phrase(sentence, 17, 21)
    assert [one.wording for one in extended(table, listed, "en", lambda ids: [phrase] * len(ids))] == ["for sale"]
    assert LACKING == 4
    listed |= {f"{number} sale": Listing(0.8, "mine") for number in range(4)}
    assert extended(table, listed, "en", lambda ids: [phrase] * len(ids)) == []


def test_a_long_listed_wording_is_not_looked_for_around_its_parts() -> None:
    """A definition of a hundred words has five thousand parts."""
    lookups: list[str] = []
    table: Any = SimpleNamespace(
        occurrences=lambda wordings: [lookups.extend(wordings) or np.zeros(0, np.int64) for _ in wordings]
    )
    wordings = {count: " ".join(["sale"] * count) for count in (8, 9)}
    assert extended(table, dict.fromkeys(wordings.values(), Listing(0.5, "mine")), "en", lambda ids: []) == []
    assert wordings[8] in lookups
    assert wordings[9] not in lookups


def test_more_phrases_are_looked_at_if_the_nearest_have_one_wording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [*TEXTS, *(f"money number {number}" for number in range(60))]
    with Index.create(tmp_path / "money", Model()) as index:  # type: ignore[arg-type]
        index.add([Document.from_texts("english", texts)], lang="en")
        assert wordings_near(index) == {"bank", "benches", "money"}  # "bench" is a form of the second
        monkeypatch.setattr(candidates, "DISTINCT", 1)
        assert wordings_near(index) == {"bank", "money"}  # the query itself, and the 40 nearest phrases


def wordings_near(index: Index) -> set[str]:
    """Search for a phrase that no dictionary lists, and return the wordings of its groups."""
    phrase = Phrase("eine Bank", 5, 9)
    (answer,) = searcher(index, Dictionary()).search_phrases([phrase], SearchRequest(k=10))
    return {group.text for group in answer[0]}


@pytest.mark.parametrize(
    ("phrase", "language", "target", "stands"),
    [
        ("bank", "en", "en", True),
        ("bank", "en", "", True),  # what has no language counts as English
        ("Windows", "ja", "en", True),
        ("Windows", "ja", "de", True),
        ("Windows", "ja", "ko", False),  # either may write it
        ("Bank", "de", "en", False),  # the lexicon has it
        ("Banken", "de", "en", False),  # and its forms
        ("Warsaw", "de", "en", True),
        ("Warsaw", "", "en", False),  # of a language that nobody knows
        ("Warsaw", "xx", "en", False),  # of one without a lexicon
    ],
)
def test_a_phrase_stands_for_itself(phrase: str, language: str, target: str, stands: bool) -> None:
    lexicon = bundled_lexicon()
    assert lexicon is not None
    assert stands_for_itself(phrase, Dictionaries([lexicon], [target]), language, target) == stands


def test_the_same_wording_goes_first_where_it_stands_for_itself(index: Index) -> None:
    vector = np.array([[1.0, 0.0]], np.float32)
    with index.wordings() as search:
        gathered = gather(search.table, "bank", {}, dict.fromkeys(["bench", "bank"], Listing(0.5, "mine")))
        wordings = [QueryWords("", [], {}, stands_for_itself=stands) for stands in (False, True)]
        (loan,), (name,) = (describe(search, ["bank"], [gathered], vector, vector, "en", [one]) for one in wordings)
    assert loan.same == -1
    assert [candidate.wording for candidate in name.candidates][name.same] == "bank"
    likely = np.array([0.3, 0.3])
    likely[1 - name.same] = 0.7
    assert with_same_first(loan, likely).tolist() == likely.tolist()
    assert with_same_first(name, likely)[name.same] == SAME
    likely[1 - name.same] = 0.99
    values = with_same_first(name, likely)
    assert int(values.argmax()) == name.same
    assert values.max() == pytest.approx(0.99)


def test_many_occurrences_are_sampled_and_counted_all(tmp_path: Path) -> None:
    count = 3 * OCCURRENCES
    with Index.create(tmp_path / "many", Model()) as index:  # type: ignore[arg-type]
        index.add([Document.from_texts("long", [f"bank {number}" for number in range(count)])], lang="en")
        with index.wordings() as search:
            (candidate,) = gather(search.table, "bank", {"bank": [count - 2]}, {})
    assert candidate.count == count
    assert len(candidate.ids) == OCCURRENCES + 1  # the one that was near is among them
    assert {0, count - 2, count - 1} <= set(candidate.ids.tolist())


def test_restricting_drops_candidates_without_phrases() -> None:
    both = [
        candidates.Candidate("a", UNLISTED, np.arange(4), 8),
        candidates.Candidate("b", UNLISTED, np.array([9]), 1),
    ]
    (rest,) = restrict(both, lambda ids: ids < 3)
    assert rest.wording == "a"
    assert rest.ids.tolist() == [0, 1, 2]
    assert rest.count == 6  # three quarters of eight


def test_candidates_by_vector_are_nearest_to_a_mixture_with_the_phrase_alone(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[list[float], int]] = []
    nearest = index.nearest

    def watched(vectors: Any, k: int, filters: Any) -> Any:
        assert vectors.dtype == np.float32
        calls.append((vectors[0].tolist(), k))
        return nearest(vectors, k, filters)

    monkeypatch.setattr(index, "nearest", watched)
    phrase = Phrase("Er sitzt auf der Bank.", 17, 21)
    vector, bare = np.array([[0.6, 0.8]], np.float32), np.array([[1.0, 0.0]], np.float32)
    for k in (10, 40):
        searcher(index, Dictionary()).candidates([phrase], vector, bare, SearchRequest(k=k))
    length = 1.64**0.5  # of (0.6 + 0.4, 0.8)
    assert calls == [(pytest.approx([1.0 / length, 0.8 / length]), k) for k in (80, 160)]


def test_a_search_gives_the_likeliest_candidate_with_its_evidence(index: Index) -> None:
    mine = Dictionary(Bank={"bench": 0.5})
    result = searcher(index, mine, context=1.0, listed=2.0).search("Er sitzt auf der [[Bank]].", k=2)
    first, second = result.groups
    assert [group.text for group in result.groups] == ["benches", "money"]
    assert first.probability == pytest.approx(1 / (1 + np.exp(-(1.0 + 2))), abs=0.01)
    assert second.probability == pytest.approx(1 / (1 + np.exp(-0.96)), abs=0.01)
    assert result.confidence == first.probability
    assert (first.source, first.count, second.source) == ("mine", 1 + 2, "")  # with "bench", its singular
    assert first.evidence["listed"] == 1
    assert [hit.context for hit in first.hits] == ["two benches there", "a bench here", "our bench"]


def test_numbers_are_computed_once_when_they_are_read() -> None:
    calls: list[int] = []
    numbers = LazyMapping(lambda: calls.append(1) or {"count": 2.0, "alone": 0.5})
    assert not calls
    assert numbers == {"count": 2.0, "alone": 0.5}
    assert (numbers["alone"], len(numbers), list(numbers), repr(numbers)) == (0.5, 2, ["count", "alone"], str(numbers))
    copied = copy.deepcopy(numbers)
    assert (type(copied), copied) == (dict, {"count": 2.0, "alone": 0.5})
    assert calls == [1]


@pytest.mark.parametrize(
    ("phrase", "core"),
    [
        ("s'est rendu compte", "rendu compte"),  # an auxiliary before it
        ("elle s'est rendu compte de", "rendu compte"),
        ("ont envie de", "envie de"),
        ("prise en charge des", "prise en charge des"),  # "of the" is more than a preposition
        ("en train de", "en train de"),  # begins with a preposition
        ("a compte", "a compte"),  # a single word would stay
    ],
)
def test_a_phrase_is_looked_up_without_function_words_at_its_ends(phrase: str, core: str) -> None:
    words = {"elle": "she", "s'est": "has", "ont": "have", "a": "has", "de": "of", "des": "of the", "en": "in"}
    entries = {word: {english: 0.9} for word, english in words.items()}
    cores = {name: {"right": 0.6} for name in ("rendu compte", "envie de", "en train", "compte", "prise en charge")}
    table: Any = SimpleNamespace(of_stems=lambda stems: [[] for _ in stems])
    dictionaries = candidates.Dictionaries([Dictionary(**entries, **cores)], ["en"])
    expected = {"right": 0.6} if core != phrase else {}
    listings = candidates.equivalents(table, phrase, dictionaries, "fr")
    assert {name: listing.probability for name, listing in listings.items()} == expected
    assert not any(listing.exact for listing in listings.values())


def test_inflected_forms_are_one_answer() -> None:
    wordings = ["understand", "understands", "adviser", "understandable", "advise", "advisers", "human rights"]
    wordings += ["human right", "advising", "told", "men said", "telling", "man says"]
    wordings += ["to the station", "station", "the stations"]
    some = [candidates.Candidate(wording, UNLISTED, np.arange(1), 1) for wording in wordings]
    groups = group_forms(some, range(len(some)), "en", 99)
    assert [[wordings[number] for number in group] for group in groups] == [
        ["understand", "understands"],
        ["adviser", "advisers"],
        ["understandable"],
        ["advise", "advising"],
        ["human rights", "human right"],
        ["told", "telling"],
        ["men said", "man says"],
        ["to the station"],
        ["station", "the stations"],
    ]
    assert group_forms(some, range(len(some)), "en", 1) == [[0, 1]]


def test_words_of_one_stem_with_other_meanings_are_two_answers(tmp_path: Path) -> None:
    texts = ["Le prix est élevé.", "Des taux élevés inquiètent.", "L'élève lit un livre.", "Les élèves lisent."]
    with Index.create(tmp_path / "idx", load_model()) as index:
        index.add([Document.from_texts("french", texts)], lang="fr")
        results = Searcher(index).search_all(["The price is [[high]].", "The [[pupils]] read."], k=1)
    groups = [result.groups[0] for result in results]
    assert [(group.text, group.count) for group in groups] == [("élevé", 2), ("élèves", 2)]
    assert [{hit.context for hit in group.hits} for group in groups] == [{*texts[:2]}, {*texts[2:]}]


def test_traditional_and_simplified_spellings_are_one_answer() -> None:
    """ICU splits two of the simplified words, but none of the traditional ones."""
    wordings = ["圖書館", "电话", "图书馆", "自行车", "電話", "自行車", "书"]
    some = [candidates.Candidate(wording, UNLISTED, np.arange(1), 1) for wording in wordings]
    assert group_forms(some, range(len(some)), "zh", 9) == [[0, 2], [1, 4], [3, 5], [6]]


def test_filters_and_left_out_texts_hold_for_every_kind_of_candidate(index: Index) -> None:
    index.add([Document.from_texts("other", ["my bench of money"])], lang="en")
    mine = Dictionary(Bank={"bench": 0.5, "bank": 0.4})
    ask = searcher(index, mine, listed=5.0)
    only = ask.search("die [[Bank]] dort", documents=["other"])
    assert {hit.document for group in only.groups for hit in group.hits} == {"other"}
    assert {group.text for group in only.groups} == {"bench", "money"}
    (without,) = ask.search_all(["die [[Bank]] dort"], without=["A bench HERE"])
    contexts = {hit.context for group in without.groups for hit in group.hits}
    assert contexts == {*TEXTS, "my bench of money"} - {"a bench here"}


def test_without_a_scorer_or_when_quick_the_search_goes_by_vectors(index: Index) -> None:
    model: Any = Model()
    assert Searcher(index, model, views=False).scorer is None
    model.scorer = None
    assert Searcher(index, model).scorer is None
    groups = Searcher(index, model, views=False).search("Er sitzt auf der [[Bank]].", k=1).groups
    assert groups[0].probability is None


def test_a_listed_wording_that_begins_with_function_words_is_answered_by_the_rest_where_they_stand(
    tmp_path: Path,
) -> None:
    mine = Dictionary(Bank={"in the bench": 0.5})
    texts = ["he slept in the  bench", "the bench", "within the bench", "a bench in the bank", "In the bench it was"]
    with Index.create(tmp_path / "behind", Model()) as index:  # type: ignore[arg-type]
        index.add([Document.from_texts("english", texts)], lang="en")
        result = searcher(index, mine, listed=5.0).search("die [[Bank]] dort", k=1)
    (group,) = result.groups
    assert (group.count, group.source, folded(group.text)) == (2, "mine", "in the bench")
    assert {hit.text for hit in group.hits} == {"in the  bench", "In the bench"}


def test_a_phrase_begins_so_many_words_earlier() -> None:
    phrase = Phrase("he came  in due course", 12, 22)
    assert [phrase.context[begins_at(phrase, count) :] for count in (0, 1, 2, 9)] == [
        "due course",
        "in due course",
        "came  in due course",
        "he came  in due course",
    ]


def test_signs_around_an_extended_phrase_are_no_part_of_it() -> None:
    phrase = Phrase('She said: "on his own time," and left', 18, 21)
    assert phrase.context[begins_at(phrase, 2) : ends_at(phrase, 1)] == "on his own time"
    assert phrase.context[begins_at(phrase, 0) : ends_at(phrase, 0)] == "own"


def test_a_phrase_ends_so_many_words_later() -> None:
    phrase = Phrase("in spite  of it.", 3, 8)
    assert [phrase.context[: ends_at(phrase, count)] for count in (0, 1, 2, 9)] == [
        "in spite",
        "in spite  of",
        "in spite  of it",
        "in spite  of it",
    ]


def test_a_word_that_mostly_stands_in_an_expression_is_parted_from_it() -> None:
    texts = ["In  spite of rain", "we came in spite of it", "out of spite", "he bears spite"]
    phrases = [Phrase(text, at := text.index("spite"), at + 5) for text in texts]

    def phrases_of(ids: np.ndarray) -> list[Phrase]:
        return [phrases[number] for number in ids]

    half = candidates.Candidate("spite", Listing(0.5, "mine"), np.arange(4), 40)
    one, word = in_expressions([half], "en", phrases_of)
    assert (one.wording, one.core, one.ids.tolist(), one.count) == ("in spite of", "spite", [0, 1], 40 * 2 // 4)
    assert (one.leading, one.trailing, one.listing.probability) == (1, 1, 0.5)
    assert (word.wording, word.core, word.ids.tolist(), word.leading) == ("spite", "", [2, 3], 0)
    always = candidates.Candidate("spite", Listing(0.5, "mine"), np.arange(2), 2)
    assert [candidate.wording for candidate in in_expressions([always], "en", phrases_of)] == ["in spite of"]
    fewer = candidates.Candidate("spite", Listing(0.5, "mine"), np.arange(1, 4), 3)
    assert in_expressions([fewer], "en", phrases_of) == [fewer]
    assert in_expressions([half], "xx", phrases_of) == [half]  # a language without a list
    whole = candidates.Candidate("in spite of", Listing(0.7, "mine"), np.array([9]), 1)
    for both in ([whole, always], [always, whole]):
        assert in_expressions(both, "en", phrases_of) == [whole]  # it was proposed as such


def test_an_expression_may_have_several_content_words() -> None:
    text = "he wrote from time to time"
    phrase = Phrase(text, text.index("time"), len(text))
    core = candidates.Candidate("time to time", UNLISTED, np.arange(1), 1)
    (one,) = in_expressions([core], "en", lambda ids: [phrase for _ in ids])
    assert (one.wording, one.core, one.leading, one.trailing) == ("from time to time", "time to time", 1, 0)


def test_a_wording_that_its_language_lacks_is_looked_up_in_any() -> None:
    class German(Dictionary):
        def equivalents(self, wording: str, lang: str = "", target: str = "") -> list[Equivalent]:
            return super().equivalents(wording) if lang in ("", "de") else []

    mine = German(Bank={"bench": 0.5})
    for language in ("de", "fr", ""):
        assert [text for text, *_ in Dictionaries([mine], ["en"]).equivalents("Bank", language)] == ["bench"]
    assert Dictionaries([mine], ["fr"]).equivalents("Bank", "de") == []  # the index has no English
    assert len(Dictionaries([mine], ["fr", ""]).equivalents("Bank", "de")) == 1  # it may have


def test_an_induced_lexicon_alone_knows_forms(tmp_path: Path) -> None:
    pairs = [Pair("haus", "house", 0.6, 1.0), Pair("minuten", "minutes", 0.8, 1.0), Pair("moment", "minute", 0.5, 1.0)]
    write_lexicon(tmp_path / "lexicon", {"de": pairs})
    mine, induced = Dictionary(raum={"room": 0.5}), InducedLexicon(tmp_path / "lexicon")
    assert Dictionaries([mine, induced], ["en"]).knows("haus", "de")
    assert not Dictionaries([mine, induced], ["en"]).knows("raum", "de")
    assert not Dictionaries([mine], ["en"]).knows("haus", "de")
    induced_alone = Dictionaries([induced], ["en"])
    assert induced_alone.knows("minute", "de")  # as in English, and the plural is listed
    assert not induced_alone.knows("house", "de")
    assert not induced_alone.knows("häuser", "de")


def test_brackets_without_partner_are_told() -> None:
    assert [is_whole(text) for text in ("language(s)", "language(s", "a) only", "[x]", "x")] == [1, 0, 0, 1, 1]


def test_a_leading_function_word_is_looked_for_before_the_translation_of_the_rest() -> None:
    sentences = ["We met in the autumn.", "In  autumn it rains.", "The autumn was warm.", "Autumn came."]
    phrases = [Phrase(text, at := text.lower().index("autumn"), at + 6) for text in sentences]
    table: Any = SimpleNamespace(
        of_stems=lambda stems: [["autumn"] if stem == "autumn" else [] for stem in stems],
        occurrences=lambda wordings: [np.arange(4) for _ in wordings],
    )
    query = [Part({("in",): 0.9, ("the",): 0.1}, True), Part({("autumn",): 0.8, ("fall",): 0.2}, False)]
    both = with_function_word(table, query, "en", lambda ids: [phrases[number] for number in ids])
    assert [(one.wording, one.ids.tolist(), one.count, one.leading) for one in both] == [
        ("in the autumn", [0], round(4 * 1 / 4), 2),
        ("in autumn", [1], round(4 * 1 / 4), 1),
    ]
    assert sentences[0][begins_at(phrases[0], 2) :] == "in the autumn."
    assert with_function_word(table, query[1:], "en", lambda ids: []) == []  # no function word
    assert with_function_word(table, [query[0]._replace(optional=False), query[1]], "en", lambda ids: []) == []

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import corpora
import numpy as np
import pytest
from typer.testing import CliRunner, Result

from phrasemate.cli import app
from phrasemate.encode import Model, load_model
from phrasemate.errors import InputError, PhrasemateError, ReadError
from phrasemate.evaluate import lookup
from phrasemate.evaluate.lookup import (
    Collection,
    LookupQuery,
    Ranks,
    Settings,
    Systems,
    answerable,
    confidence_table,
    dictionary_answers,
    lemmas,
    lookup_tables,
    place_of,
    present,
    ranks,
    read_idioms,
    read_lookups,
    read_senses,
    run,
    sense_table,
    strata,
)
from phrasemate.index import Index
from phrasemate.lexicon import Equivalent
from phrasemate.types import Phrase

SENTENCES = [
    "The old bank on the river was closed.",
    "She sat on the bank and read a book.",
    "He opened the windows because it was hot.",
    "A red house stands near the old river.",
]
BANK = {
    "text": "Er liest ein Buch auf der Bank.",
    "start": 26,
    "end": 30,
    "language": "de",
    "domain": "everyday",
    "half": "dev",
    "right": ["bank", "bench"],
    "sense": ["bench"],
    "function_start": False,
}
HOUSE = BANK | {"text": "Das alte Haus am Fluss ist rot.", "start": 9, "end": 13, "right": ["house"], "sense": None}
WINDOW = BANK | {"text": "Das Fenster war zu.", "start": 4, "end": 11, "right": ["window"], "sense": None}
ROCKET = BANK | {"text": "Die Rakete ist rot.", "start": 4, "end": 10, "right": ["rocket"], "sense": None}
SENSE = {
    "text": "Die Bank ist alt.",
    "start": 4,
    "end": 8,
    "language": "de",
    "half": "dev",
    "right": ["bank"],
    "other": ["bench"],
    "mate": "the bank is old.",
}
LATE = HOUSE | {"text": "Ein Haus ist alt.", "start": 4, "end": 8, "half": "test"}


@pytest.fixture
def lookups(tmp_path: Path) -> Path:
    """A set of four German queries of the half dev, one of them without an answer, one of test, and a collection."""
    folder = tmp_path / "lookups"
    folder.mkdir()
    corpora.lines(folder / "de.jsonl", [BANK, HOUSE, WINDOW, ROCKET, LATE])
    (folder / "en-4.txt").write_text("".join(f"{text}\n" for text in SENTENCES), "utf-8")
    return folder


@pytest.fixture
def tiny_bundled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    """The tiny model, which the yardstick takes for the bundled one."""
    monkeypatch.setattr(lookup, "load_model", lambda path, threads: load_model(path or folder, threads=1))
    return load_model(folder, threads=1)


def query(right: Sequence[str], sense: Sequence[str] | None = None, text: str = "Bank", **more: object) -> LookupQuery:
    facts: dict = {"language": "de", "domain": "law", "function_start": False} | more
    meaning = None if sense is None else frozenset(sense)
    return LookupQuery(Phrase(text, 0, len(text)), right=frozenset(right), sense=meaning, **facts)


@pytest.mark.parametrize(
    ("wording", "expected"),
    [
        ("The benches", "bench"),
        ("to go", "go"),
        ("to the  Schools,", "school"),
        ("a", "a"),
        ("women's rights", "woman right"),
        ("Went", "go"),
        ("on the bank", "on the bank"),
    ],
)
def test_wordings_are_compared_by_lemmas(wording: str, expected: str) -> None:
    assert lemmas(wording) == expected


@pytest.mark.parametrize(
    ("wording", "language", "expected"),
    [
        ("des Tisches", "de", "der tisch"),
        ("UFER", "de", "ufer"),  # not the verb "ufern"
        ("Häuser", "de", "haus"),
        ("the benches", "fr", "the benches"),
        ("去了银行", "zh", "去了 银行"),
        ("順從", "zh", "顺从"),
        ("不讓", "zh", "不 让"),  # in traditional spelling it would be one word
        ("約束を守らなかった", "ja", "約束 を 守-"),
        ("が家に", "ja", "家"),
        ("は", "ja", "は"),
    ],
)
def test_lemmas_of_other_languages(wording: str, language: str, expected: str) -> None:
    assert lemmas(wording, language) == expected


@pytest.mark.parametrize("change", [{"start": 90}, {"text": 3}, {"right": 1}, {"other": [["house"]]}])
def test_a_line_of_senses_that_is_not_query_is_named(tmp_path: Path, change: dict) -> None:
    corpora.lines(tmp_path / "senses.jsonl", [SENSE, SENSE | change])
    with pytest.raises(ReadError, match=r"senses\.jsonl, line 2: .*; make it again with bench/lookup_set\.py"):
        read_senses(tmp_path / "senses.jsonl", "dev")


def test_only_one_half_is_read(lookups: Path) -> None:
    dev = read_lookups(lookups / "de.jsonl", "dev")
    assert [item.phrase.text for item in dev] == ["Bank", "Haus", "Fenster", "Rakete"]
    assert (dev[0].right, dev[0].sense, dev[1].sense) == (frozenset({"bank", "bench"}), frozenset({"bench"}), None)
    assert (dev[0].usual, dev[0].part_of_speech) == (None, "")  # a set of before
    assert [lookup.phrase.context for lookup in read_lookups(lookups / "de.jsonl", "test")] == ["Ein Haus ist alt."]
    with pytest.raises(InputError, match="expected dev or test"):
        read_lookups(lookups / "de.jsonl", "train")
    with pytest.raises(InputError, match="half 'train'; expected dev or test"):
        read_senses(lookups / "senses.jsonl", "train")


def test_usual_wordings_and_part_of_speech_are_read(tmp_path: Path) -> None:
    corpora.lines(tmp_path / "de.jsonl", [BANK | {"usual": ["bank"], "part_of_speech": "noun"}])
    (row,) = read_lookups(tmp_path / "de.jsonl", "dev")
    assert (row.usual, row.part_of_speech) == (frozenset({"bank"}), "noun")


@pytest.mark.parametrize("change", [{"start": 90}, {"right": 1}, {"start": 30, "end": 26}])
def test_a_line_that_is_not_query_is_named(tmp_path: Path, change: dict) -> None:
    corpora.lines(tmp_path / "de.jsonl", [BANK, BANK | change])
    with pytest.raises(ReadError) as caught:
        read_lookups(tmp_path / "de.jsonl", "dev")
    assert caught.value.line == 2


def test_what_can_be_answered_agrees_with_a_plain_loop() -> None:
    wordings = [
        "bank",
        "bench",
        "old river",
        "window",
        "a book",
        "on bank",
        "he open the window because it be hot",
        "hot",
    ]
    queries = [query([one, two]) for one in wordings for two in ("bench", "pen", "river be close")]
    lemmatised = [f" {' '.join(lemmas(word) for word in text.rstrip('.').split())} " for text in SENTENCES]
    expected = [any(f" {right} " in text for right in item.right for text in lemmatised) for item in queries]
    assert answerable(queries, SENTENCES) == expected
    assert {True, False} == set(expected)


def test_wordings_stand_as_whole_words() -> None:
    assert present({"book", "ban", "read a book", "book he"}, SENTENCES) == {"book", "read a book"}
    assert present(set(), SENTENCES) == set()


def test_ranks_are_those_of_the_first_right_wording() -> None:
    queries = [query(["bank", "bench"], ["bench"]), query(["house"]), query(["go"]), query(["window"])]
    answers = [["the river", "Bank", "benches"], [], ["to go"], [*"abcdefghij", "window"]]
    result = ranks(queries, answers)
    assert result.right.tolist() == [1, np.inf, 0, np.inf]  # the eleventh answer does not count
    np.testing.assert_array_equal(result.sense, [2, np.nan, np.nan, np.nan])
    assert np.isnan(result.usual).all()
    usual = [queries[0]._replace(usual=frozenset({"bench"})), *queries[1:]]
    np.testing.assert_array_equal(ranks(usual, answers).usual, [2, np.nan, np.nan, np.nan])


def test_strata_of_a_query() -> None:
    assert strata(query(["x"], ["x"], "in der Bank", function_start=True, language="fr")) == {
        "language": "fr",
        "domain": "law",
        "words": "3+",
        "kind": "ambiguous",
        "begins with": "function word",
    }
    assert strata(query(["x"], None, "alte Bank"))["words"] == "2"
    assert strata(query(["x"], None, "Bank"))["words"] == "1"
    assert strata(query(["x"], part_of_speech="noun"))["part of speech"] == "noun"


def test_tables_count_first_answers_and_senses() -> None:
    queries = [query(["bank"], ["bank"]), query(["bank"], ["bank"], language="fr"), query(["bank"]), query(["bank"])]
    systems = {
        "good": Ranks(np.array([0, 1, 4, 0.0]), np.array([0, 1, np.nan, np.nan]), np.array([0, 2, 4, np.nan])),
        "bad": Ranks(np.array([5, np.inf, np.inf, 1.0]), np.array([np.inf, np.inf, np.nan, np.nan]), np.full(4, 9.0)),
    }
    whole, parts = lookup_tables(queries, systems, "bad", "here")
    good, bad = (dict(zip(whole.header, row, strict=True)) for row in whole.rows)
    assert (good["first"].value, bad["first"].value) == (2 / 4, 0 / 4)
    assert (good["first five"], bad["first five"]) == (4 / 4, 1 / 4)
    assert good["MRR"] == pytest.approx((1 + 1 / 2 + 1 / 5 + 1) / 4)
    assert bad["MRR"] == pytest.approx((1 / 6 + 0 + 0 + 1 / 2) / 4)
    assert (good["usual first"].value, bad["usual first"].value) == (1 / 3, 0 / 4)
    assert (good["right sense first"].value, bad["right sense first"].value) == (1 / 2, 0 / 2)
    assert good["p"] == 2 / 2**2  # two queries differ, in the same direction: two of four sums are as far from 0
    assert bad["p"] is None
    shares = {row[0]: row[1:] for row in parts.rows}
    assert shares["language: de"] == (3, 2 / 3, 0)
    assert shares["language: fr"] == (1, 0, 0)
    assert shares["kind: ambiguous"] == (2, 1 / 2, 0)


class Listed:
    """A dictionary with one entry."""

    name = "listed"

    def equivalents(self, wording: str, lang: str = "", target: str = "") -> list[Equivalent]:
        assert (lang, target) == ("de", "en")
        texts = ["bench", "banks", "the windows", "bank"] if wording == "Bank" else []
        return [Equivalent(text, 1 / number, self.name, "en") for number, text in enumerate(texts, 1)]


def test_a_dictionary_answers_with_what_stands_in_the_text_in_its_order() -> None:
    queries = [query(["bank"]), query(["house"], text="Haus")]
    assert dictionary_answers(Listed(), queries, Collection("four", SENTENCES, "en")) == (
        [["banks", "the windows", "bank"], []],
        None,
    )


def test_sentence_search_looks_into_the_nearest_sentences(model: Model, tmp_path: Path) -> None:
    systems = Systems(model, {}, tmp_path, 1)
    collection = Collection("four", SENTENCES, "en")
    queries = [query([], text="river")]
    answers = systems.answers("sentences", collection, queries, lambda what, result, total: None)
    assert answers.confidence is None
    (wordings,) = answers.wordings
    with Index.open(collection.folder(tmp_path, model), model, readonly=True) as index:
        run = index.search(model.encode([queries[0].phrase]), 40)
        hits = index.hits(run.ids[0], run.scores[0])
    nearest = list(dict.fromkeys(hit.text.casefold() for hit in hits))  # four sentences are all near
    assert [text.casefold() for text in wordings] == nearest[:10]


def test_sentences_without_phrases_are_no_answer(model: Model, tmp_path: Path) -> None:
    collection = Collection("marks", ["...", "?!"], "en")
    queries = [query([], text="river")] * 2
    answers = Systems(model, {}, tmp_path, 1).answers("sentences", collection, queries, lambda *_: None)
    assert answers == ([[], []], None)


def test_the_dictionary_answers_as_a_system(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    systems, collection = Systems(model, {}, tmp_path, 1), Collection("four", SENTENCES, "en")
    monkeypatch.setattr(lookup, "bundled_lexicon", Listed)
    answers = systems.answers("dictionary", collection, [query(["bank"])], lambda *_: None)
    assert answers == ([["banks", "the windows", "bank"]], None)  # no bench in the text
    assert not list(tmp_path.iterdir())  # a dictionary needs no index
    monkeypatch.setattr(lookup, "bundled_lexicon", lambda: None)
    with pytest.raises(InputError, match="no lexicon comes with this installation; leave dictionary out of --systems"):
        systems.answers("dictionary", collection, [query(["bank"])], lambda *_: None)


def test_all_systems_are_asked_but_for_a_dictionary_that_is_not_there(
    lookups: Path, tiny_bundled: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "bundled_lexicon", lambda: None)
    whole, *_ = run(Settings(lookups, (4,), work=tmp_path / "work")).tables
    assert [row[0] for row in whole.rows] == [name for name in lookup.SYSTEMS if name != "dictionary"]


def test_vectors_alone_know_neither_the_sentence_nor_the_lexicon(model: Model, tmp_path: Path) -> None:
    systems = Systems(model, {}, tmp_path, 1)
    queries = [
        LookupQuery(Phrase(text, text.index("Bank"), text.index("Bank") + 4), "de", "", frozenset(), None, False)
        for text in ("Bank", "Er sitzt auf der Bank.", "Die Bank gibt Kredit.")
    ]
    alike, *others = systems.answers(
        "vectors alone", Collection("four", SENTENCES, "en"), queries, lambda what, result, total: None
    ).wordings
    assert alike
    assert others == [alike, alike]


def test_answers_of_similar_confidence_are_counted_together() -> None:
    sure = np.array([0.05, 0.15, 0.2, 0.35, 0.95, 1.0])
    first = np.array([False, True, False, False, True, True])
    table = confidence_table({"search": sure}, {"search": first}, "four")
    assert table.header == ("system", "confidence", "phrases", "mean", "right first")
    rows = [(*row[:3], round(row[3], 4), row[4]) for row in table.rows]
    assert rows == [
        ("search", "below 0.2", 2, 0.1, 0.5),
        ("search", "0.2 to 0.4", 2, 0.275, 0.0),
        ("search", "0.9 or more", 2, 0.975, 1.0),
    ]


def test_an_index_is_made_once_and_carries_its_base(model: Model, tmp_path: Path) -> None:
    def nothing(what: str, number: int, total: int) -> None:
        assert (number, total) in {(0, 1), (1, 1)}

    base = Collection("four", SENTENCES, "en")
    more = Collection("more", [*SENTENCES, "An old window."], "en", base)
    folder = more.indexed(tmp_path, model, 1, nothing)
    before = (folder / "index.json").stat().st_mtime_ns
    assert more.indexed(tmp_path, model, 1, nothing) == folder
    assert (folder / "index.json").stat().st_mtime_ns == before
    with Index.open(folder, model, readonly=True) as index:
        assert [row.text for row in index.store.all_sentences()] == more.sentences
    assert base.folder(tmp_path, model).is_dir()
    assert Collection("four", SENTENCES[:3], "en").folder(tmp_path, model) != base.folder(tmp_path, model)
    assert not list(tmp_path.glob("*.unfinished"))


def test_a_run_counts_what_can_be_answered(lookups: Path, tiny_bundled: Model, folder: Path, tmp_path: Path) -> None:
    settings = Settings(
        lookups,
        (4,),
        models=(f"other={folder}",),
        systems=("other", "search", "quick", "sentences"),
        work=tmp_path / "w",
    )
    result = run(settings)
    whole, parts = result.tables
    assert whole.title == "Look-ups: 3 phrases, dev half, en-4"  # without the rocket
    assert [row[0] for row in whole.rows] == ["other", "search", "quick", "sentences"]
    assert whole.rows[0][1:5] == whole.rows[1][1:5]  # the same model
    assert whole.rows[0][-1] is None
    assert parts.rows[0][:2] == ("language: de", 3)
    places = result.more["ranks en-4"]
    assert {len(item) for item in places.values()} == {3}
    for row in whole.rows:
        assert row[1].value == pytest.approx(sum(place == 0 for place in places[row[0]]) / 3)
    assert result.signature["half"] == "dev"


def invoke(*options: str) -> Result:
    return CliRunner().invoke(app, ["evaluate", "lookup", *options])


def test_the_command_prints_tables_or_json(lookups: Path, tiny_bundled: Model, tmp_path: Path) -> None:
    value = (str(lookups), "--size", "4", "--systems", "search,quick", "--work", str(tmp_path / "work"))
    result = invoke(*value, "-o", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert "Look-ups: 3 phrases, dev half, en-4" in result.stdout
    assert "signature: data " in result.stdout
    written = json.loads((tmp_path / "out" / "lookup.json").read_text("utf-8"))
    printed = json.loads(invoke(*value, "--json").stdout)
    assert printed["lookup dev half, en-4"] == written["lookup dev half, en-4"]
    test = json.loads(invoke(*value, "--json", "--half", "test", "--against", "quick").stdout)
    assert test["lookup test half, en-4"]["title"].startswith("Look-ups: 1 phrases")
    assert test["lookup test half, en-4"]["note"].endswith("against quick")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--langs", "xx"), "no queries of xx; there are de"),
        (("--systems", "psychic"), "no system 'psychic'"),
        (("--systems", "quick", "--against", "search"), "not among the systems asked, quick"),
        (("--size", "5"), "expected one file XX-5.txt of sentences of the language XX; there is none"),
        (("--model", "search=bundled"), "two rows of one name"),
        (("--model", "x"), "expected NAME=FOLDER"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    lookups: Path, tiny_bundled: Model, options: tuple[str, ...], message: str
) -> None:
    result = invoke(str(lookups), *(("--size", "4") if "--size" not in options else ()), *options)
    assert result.exit_code == 1
    assert message in result.stderr


def test_a_size_that_is_not_number_is_wrong_usage(lookups: Path) -> None:
    assert invoke(str(lookups), "--size", "many").exit_code == 2


def test_a_collection_of_another_language(model: Model, lookups: Path, tiny_bundled: Model, tmp_path: Path) -> None:
    """English phrases in German text: the language of the file's name is that of lemmas, index and dictionary."""
    (lookups / "en-4.txt").unlink()
    (lookups / "de-4.txt").write_text("Die Bänke im Park sind neu.\nEr sah ein altes Haus am Fluss.\n", "utf-8")
    text = "She sat on a bench."
    query = BANK | {"text": text, "start": 13, "end": 18, "language": "en", "right": ["bank"], "sense": None}
    for path in lookups.glob("??.jsonl"):
        path.unlink()
    corpora.lines(lookups / "en.jsonl", [query])
    systems = ("search", "dictionary")
    result = run(Settings(lookups, (4,), systems=systems, work=tmp_path / "work"))
    assert [row[:1] for row in result.tables[0].rows] == [("search",), ("dictionary",)]
    assert result.more["ranks de-4"]["dictionary"] == [0]  # "Bänke" is a form of "Bank"
    (index,) = (tmp_path / "work").glob("de-4-*")
    with Index.open(index, tiny_bundled, readonly=True) as opened:
        assert opened.languages() == ["de"]


def test_idioms_need_an_english_collection(lookups: Path) -> None:
    (lookups / "en-4.txt").rename(lookups / "de-4.txt")
    with pytest.raises(InputError, match="--idioms: de-4 is not English"):
        run(Settings(lookups, (4,), idioms=lookups / "idioms.jsonl"))


@pytest.mark.parametrize(("names", "text"), [([], "none"), (["de-4.txt", "en-4.txt"], "de-4.txt, en-4.txt")])
def test_one_collection_of_a_size(lookups: Path, names: list[str], text: str) -> None:
    (lookups / "en-4.txt").unlink()
    for name in names:
        (lookups / name).write_text("A house.\n", "utf-8")
    with pytest.raises(InputError, match=rf"expected one file XX-4\.txt .*there is {text}"):
        run(Settings(lookups, (4,)))


def test_a_folder_without_queries_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected XX\.jsonl"):
        run(Settings(tmp_path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"The old b\xe4nk.\n", r"en-4\.txt: not UTF-8 \(invalid continuation byte\); convert it to UTF-8"),
        (b"\n \n", r"en-4\.txt: an empty file; expected sentences, one per line"),
        (b"Nothing to see.\n", "en-4: it holds no right wording of any query"),
    ],
)
def test_a_collection_of_no_use_is_one_error(
    lookups: Path, tiny_bundled: Model, tmp_path: Path, content: bytes, message: str
) -> None:
    (lookups / "en-4.txt").write_bytes(content)
    with pytest.raises(PhrasemateError, match=message):
        run(Settings(lookups, (4,), systems=("quick",), work=tmp_path / "work"))


IDIOMS = [
    ("Das Projekt steckt noch in den Kinderschuhen.", "It is at an early stage.", "in den kinderschuhen stecken"),
    ("Heute regnet es.", "It rains today.", "in den kinderschuhen stecken"),
    ("Er legte den Plan auf Eis.", "He shelved the plan.", "auf eis legen"),
    ("Der Plan ist alt.", "That idea is still in its infancy.", "auf eis legen"),
]


def idiom_rows() -> list[dict[str, str]]:
    english = {"in den kinderschuhen stecken": "to be in its infancy", "auf eis legen": "to put on ice"}
    rows = []
    for number, (german, mate, idiom) in enumerate(IDIOMS):
        both = (idiom, english[idiom]) if number % 2 else (english[idiom], idiom)
        direction = "de-en" if number % 2 else "en-de"
        rows.append({"de": german, "en": mate, "idiom_de": both[0], "idiom_en": both[1], "direction": direction})
    return rows


@pytest.mark.parametrize(
    ("idiom", "sentence", "expected"),
    [
        ("in den kinderschuhen stecken", IDIOMS[0][0], "steckt noch in den Kinderschuhen"),
        ("auf eis legen", "Das wurde auf Eis gelegt.", "auf Eis gelegt"),
        ("auf eis legen", "Er legte den Plan auf Eis.", "legte den Plan auf Eis"),
        ("eis|schnee legen", "Schnee legen wir.", "Schnee legen"),
        ("auf eis legen", "Auf dem Eis steht er.", None),
        ("auf eis legen", "Eis isst er gern, sagte sie gestern, als er die Karten legte.", None),
        ("in der", "Er ist in der Stadt.", None),
        ("die fronten", "Alle Fronten sind hart.", None),
    ],
)
def test_an_idiom_is_found_in_its_sentence(idiom: str, sentence: str, expected: str | None) -> None:
    place = place_of(idiom, sentence)
    assert (None if place is None else sentence[place[0] : place[1]]) == expected


def test_idioms_are_asked_of_text_without_their_mates(tmp_path: Path) -> None:
    corpora.lines(tmp_path / "idioms.jsonl", idiom_rows())
    queries, sentences = read_idioms(tmp_path / "idioms.jsonl")
    right = {query.phrase.context: query.right for query in queries}
    assert right == {
        IDIOMS[0][0]: frozenset({"be in its infancy", "in its infancy"}),
        IDIOMS[2][0]: frozenset({"put on ice"}),
    }
    assert sentences == sorted([IDIOMS[1][1], IDIOMS[3][1]])
    assert len(read_idioms(tmp_path / "idioms.jsonl", count=1)[1]) == 3
    corpora.lines(tmp_path / "none.jsonl", idiom_rows()[1:2])
    with pytest.raises(InputError, match="no idiom occurs in its sentence"):
        read_idioms(tmp_path / "none.jsonl")


def test_a_run_asks_idioms_too(lookups: Path, tiny_bundled: Model, tmp_path: Path) -> None:
    corpora.lines(tmp_path / "idioms.jsonl", idiom_rows())
    result = run(Settings(lookups, (4,), systems=("quick",), idioms=tmp_path / "idioms.jsonl", work=tmp_path / "work"))
    titles = [table.title for table in result.tables if table.name.startswith("lookup")]
    assert titles == ["Look-ups: 3 phrases, dev half, en-4", "Look-ups: 1 phrases, idioms-en-4"]


def test_senses_are_counted_where_the_collection_has_both(lookups: Path, tmp_path: Path) -> None:
    def row(right: list[str], other: list[str], half: str = "dev") -> str:
        return json.dumps(SENSE | {"right": right, "other": other, "half": half}) + "\n"

    rows = row(["bank"], ["house"]), row(["house"], ["bank"]), row(["bank"], ["tree"]), row(["bank"], ["house"], "test")
    (lookups / "senses.jsonl").write_text("".join(rows))
    assert [
        (sorted(one.right), sorted(one.other), one.mate) for one in read_senses(lookups / "senses.jsonl", "test")
    ] == [(["bank"], ["house"], "the bank is old.")]
    settings = Settings(lookups, (4,), systems=("search", "quick"), work=tmp_path / "work")
    tables = run(settings).tables
    sure = next(table for table in tables if table.name.startswith("confidence"))
    assert sum(row[2] for row in sure.rows if row[0] == "search") == 4  # the rocket, too
    table = next(table for table in tables if table.name.startswith("senses"))
    assert table.title == "Senses: 2 ambiguous phrases, dev half, en-4"
    for _, first, another, _ in table.rows:
        assert 0 <= first.value + another <= 1


def test_right_senses_are_shares_of_the_queries() -> None:
    queries = [query(["bank", "bench"], sense=["bench"])] * 4
    ranked = Ranks(np.array([0.0, 0.0, 0.0, np.inf]), np.array([0.0, 1.0, np.inf, np.inf]), np.zeros(4))
    ((name, first, another, p),) = sense_table(queries, {"search": ranked}, "search", "four").rows
    assert (name, first.value, another, p) == ("search", 1 / 4, 2 / 4, None)

"""The text index of Lance tables against reading all texts: new, replaced and deleted ones, and every script."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

pytest.importorskip("lance", reason="Lance is not installed (pip install 'phrasemate[ray]')")

from cluster_fakes import SETTINGS, build_here, documents
from index_fakes import FakeModel

from phrasemate.errors import InputError
from phrasemate.index import Index
from phrasemate.index.lance.commit import Writer
from phrasemate.index.lance.search import INDEX, condition
from phrasemate.index.lance.tables import WORDS, Tables, options_for, place_of
from phrasemate.types import Document

PARTS = [
    "straße",
    "STRASSE",
    "école",
    "e\u0301cole",
    "İzmir",
    "ısı",
    "日本語",
    "가각",
    "กิ่ง",
    "हिन्दी",
    "ﬁne",
    "C++",
    "a.b",
    "50%",
    "x_y",
]
PARTS += [
    "o'neil",
    "\\n",
    '"quoted"',
    "Σίσυφος",
    "ΛΟΓΟΣ",
    "ΛΟΓΟΣΑ",
    "λόγος",
    "👩\u200d👩\u200d👧",
    "\udc80half",
    "½",
    "²",
    "ǆ",
    "the",
    "bank",
    "a",
    "本",
]


@pytest.fixture
def model() -> FakeModel:
    return FakeModel()


@pytest.fixture(autouse=True)
def ask_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only the first texts."""
    monkeypatch.setattr("phrasemate.index.lance.search._SCAN_FIRST", 3)


def opened(place: Path, model: FakeModel) -> Index:
    return Index.open(place, model, settings=SETTINGS)


def hostile(name: str, seed: int, count: int = 120) -> Document:
    drawn = random.Random(seed)
    return Document.from_texts(name, [" ".join(drawn.choices(PARTS, k=drawn.randint(1, 6))) for _ in range(count)])


def read_through(index: Index, phrase: str) -> list[int]:
    return [row.id for row in index.store.all_sentences() if small(phrase) in small(row.text)]


def small(text: str) -> str:
    """A sigma at the end of a word is one within a longer word."""
    return text.lower().replace("ς", "σ")


def pieces(seed: int) -> list[str]:
    drawn, result = random.Random(seed), set()
    text = " ".join(drawn.choices(PARTS, k=400))
    while len(result) < 150:
        at = drawn.randrange(len(text))
        result.add(text[at : at + drawn.randint(1, 8)])
    return sorted(result)


def test_it_finds_what_reading_finds(tmp_path: Path, model: FakeModel) -> None:
    place = tmp_path / "idx"
    build_here(place, [hostile("one.txt", 0), hostile("two.txt", 1)], model)
    opened(place, model).optimize()
    index = opened(place, model)
    assert index.store.words()[1] == 240
    for phrase in pieces(2):
        assert index.containing(phrase, 1000) == read_through(index, phrase), phrase
        assert set(read_through(index, phrase)) <= set(index.texts.candidates(phrase)), phrase
    assert index.containing("nowhere", 5) == []
    assert index.containing("bank", 4) == read_through(index, "bank")[:4]
    with pytest.raises(InputError, match="expected a text"):
        index.containing("", 5)


@pytest.mark.parametrize("optimised", [True, False])
def test_sigma_at_the_end_of_a_word_as_on_one_machine(tmp_path: Path, model: FakeModel, optimised: bool) -> None:
    values = [Document.from_texts("greek.txt", ["ΛΟΓΟΣΑ ΚΑΛΟΣ", "ο λόγος μου", "ΟΔΟΣ", "οδοσ"])]
    build_here(tmp_path / "idx", values, model)
    if optimised:
        opened(tmp_path / "idx", model).optimize()
    index = opened(tmp_path / "idx", model)
    with Index.create(tmp_path / "one", model, settings=SETTINGS, threads=1) as one:
        one.add(values)
        for phrase in ("ΛΟΓΟΣ", "λογος", "ΚΑΛΟΣ", "ΟΔΟΣ", "οδος", "σ", "ς", "Σ"):
            assert index.containing(phrase, 9) == one.containing(phrase, 9) != [], phrase
            assert set(one.containing(phrase, 9)) <= set(index.texts.candidates(phrase)), phrase


def test_half_a_character_is_not_question_mark(tmp_path: Path, model: FakeModel) -> None:
    texts = ["\udc80half", "\ud83dhalf", "is it?half", "half?", "\udc80\udc81"]
    build_here(tmp_path / "idx", [Document.from_texts("one.txt", texts)], model)
    opened(tmp_path / "idx", model).optimize()
    index = opened(tmp_path / "idx", model)
    for phrase in ("?half", "?", "\udc80half", "\udc81half", "half", "\udc80"):
        assert index.containing(phrase, 9) == read_through(index, phrase), phrase
        assert set(read_through(index, phrase)) <= set(index.texts.candidates(phrase)), phrase
    assert index.verify().problems == []
    assert index.verify().checked["text index"] == "trigrams of 5 sentences"


def test_a_table_of_texts_that_were_lowered_otherwise_is_rebuilt(tmp_path: Path, model: FakeModel) -> None:
    place = tmp_path / "idx"
    build_here(place, [Document.from_texts("greek.txt", ["ΛΟΓΟΣΑ", "ο λόγος μου"])], model)
    opened(place, model).optimize()
    tables = Tables(place_of(place), options_for(place_of(place)))
    tables.open(WORDS).update({"text": "'as it was'"})
    writer = Writer(tables)
    writer.put("words", {"version": int(tables.open(WORDS).version), "sentences": 2})  # which says nothing of it
    index = opened(place, model)
    assert index.store.words() is None
    assert index.containing("ΛΟΓΟΣ", 9) == [0]
    index.optimize()
    index = opened(place, model)
    assert index.store.words()[1] == 2
    assert index.verify().problems == []
    assert index.containing("ΛΟΓΟΣ", 9) == [0]


def test_what_is_newer_replaced_or_deleted(tmp_path: Path, model: FakeModel) -> None:
    place = tmp_path / "idx"
    build_here(place, [hostile("one.txt", 0), hostile("two.txt", 1), hostile("three.txt", 3)], model)
    opened(place, model).optimize()
    build_here(place, [hostile("one.txt", 4), hostile("four.txt", 5)], model)  # the first is another text now
    opened(place, model).delete("two.txt")
    for _ in range(2):  # before the index knows of it, and after
        result = opened(place, model)
        words = result.store.words()
        assert result.verify().problems == []
        for phrase in pieces(6):
            assert result.containing(phrase, 1000) == read_through(result, phrase), phrase
        result.optimize()
        assert opened(place, model).store.words()[1] >= words[1]
    table, end = opened(place, model).store.words()
    assert (table.count_rows(), end) == (360, 600)  # five texts of 120, two of them gone
    index = next(item for item in table.describe_indices() if item.name == INDEX)
    assert index.num_rows_indexed == 360
    assert opened(place, model).verify().checked["text index"] == "trigrams of 360 sentences"


def test_without_it_all_is_read(tmp_path: Path, model: FakeModel) -> None:
    place = tmp_path / "idx"
    build_here(place, [hostile("one.txt", 0)], model)
    index = opened(place, model)
    assert index.store.words() is None
    assert index.verify().checked["text index"] == "none"
    for phrase in pieces(7):
        assert index.containing(phrase, 1000) == read_through(index, phrase), phrase
    index.optimize()
    shutil.rmtree(place / "words.lance")  # it is derived: what is there is enough
    index = opened(place, model)
    assert index.store.words() is None
    assert index.containing("bank", 1000) == read_through(index, "bank")
    index.optimize()
    assert opened(place, model).verify().checked["text index"] == "trigrams of 120 sentences"


def test_a_crash_before_it_is_in_force(tmp_path: Path, model: FakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "idx"
    build_here(place, documents(), model)
    opened(place, model).optimize()
    build_here(place, [hostile("more.txt", 0)], model)
    with monkeypatch.context() as patch:

        def killed(*arguments: object) -> None:
            raise KeyboardInterrupt

        patch.setattr("phrasemate.index.lance.commit.Writer.put", killed)
        with pytest.raises(KeyboardInterrupt):
            opened(place, model).optimize()
    total = sum(document.sentences for document in opened(place, model).documents())
    assert opened(place, model).store.words()[1] == total - 120
    opened(place, model).optimize()
    index = opened(place, model)
    assert index.verify().checked["text index"] == f"trigrams of {total} sentences"
    assert index.containing("straße", 1000) == read_through(index, "straße")


@pytest.mark.parametrize("change", ["id = id + 100000", "text = 'other'"])
def test_damage_shows(tmp_path: Path, model: FakeModel, change: str) -> None:
    place = tmp_path / "idx"
    build_here(place, [hostile("one.txt", 0)], model)
    opened(place, model).optimize()
    index = opened(place, model)
    tables = Tables(place_of(place), options_for(place_of(place)))
    column, _, value = change.partition(" = ")
    tables.open(WORDS).update({column: value}, where="id = 7")
    index.store.moment.tables[WORDS] = tables.open(WORDS)
    (problem,) = index.verify().problems
    assert problem.startswith("text index: sentence")
    assert problem.endswith("remove words.lance, which is derived, and run: phrasemate index optimize")
    shutil.rmtree(place / "words.lance")
    opened(place, model).optimize()
    assert opened(place, model).verify().problems == []


def test_questions_that_lance_cannot_be_asked() -> None:
    assert condition(["o'neil", "b"]) == "contains(text, 'o''neil') OR contains(text, 'b')"
    assert condition(["half\udc80"]) is None
    assert condition(["a\0b"]) is None


def test_stats_and_verify_name_it(tmp_path: Path, model: FakeModel) -> None:
    place = tmp_path / "idx"
    build_here(place, documents(), model)
    assert "text index" not in opened(place, model).stats().files
    opened(place, model).optimize()
    files = opened(place, model).stats().files
    assert files["words.lance"] > 0
    assert files["text index"] > 0


def test_killed_while_a_removed_one_is_rebuilt(
    tmp_path: Path, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new table counts its versions from the first: the old one's number must not be taken for one of them."""
    place = tmp_path / "idx"
    build_here(place, [hostile("one.txt", 0)], model)
    opened(place, model).optimize()
    build_here(place, [hostile("two.txt", 1)], model)
    shutil.rmtree(place / "words.lance")
    put = Writer.put
    with monkeypatch.context() as patch:

        def killed(writer: Writer, key: str, value: object) -> None:
            if value is not None:
                raise KeyboardInterrupt
            put(writer, key, value)

        patch.setattr(Writer, "put", killed)
        with pytest.raises(KeyboardInterrupt):
            opened(place, model).optimize()
    index = opened(place, model)
    assert index.containing("bank", 1000) == read_through(index, "bank")
    assert index.store.words() is None
    index.optimize()
    assert opened(place, model).verify().checked["text index"] == "trigrams of 240 sentences"


@pytest.mark.parametrize("before", [True, False])
def test_an_index_that_was_emptied(tmp_path: Path, model: FakeModel, before: bool) -> None:
    place = tmp_path / "idx"
    build_here(place, [hostile("one.txt", 0), hostile("two.txt", 1)], model)
    if before:
        opened(place, model).optimize()
    for name in ("one.txt", "two.txt"):
        opened(place, model).delete(name)
    opened(place, model).optimize()
    index = opened(place, model)
    assert index.verify().problems == []
    assert index.containing("bank", 5) == []
    build_here(place, [hostile("three.txt", 2)], model)
    opened(place, model).optimize()
    index = opened(place, model)
    assert index.verify().problems == []
    assert index.containing("bank", 1000) == read_through(index, "bank") != []

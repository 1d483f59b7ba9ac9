from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from example_texts import SENTENCES, TEXTS, phrases_of, plainly

from phrasemate.errors import IndexDamaged, IndexExists, IndexMissing, IndexUnsupported, InputError, PhraseIndexError
from phrasemate.examples import ExampleIndex, sources
from phrasemate.index import ProgressEvent
from phrasemate.types import Document

DOCUMENTS = [Document.from_texts(f"{language}.txt", texts) for language, texts in TEXTS.items()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "all.examples"
    ExampleIndex.build(DOCUMENTS, path, "mul").close()
    return path


def test_every_phrase_finds_what_reading_finds(whole: Path) -> None:
    with ExampleIndex.open(whole) as source:
        assert source.sentences == len(SENTENCES)
        for phrase in {phrase for text in SENTENCES for phrase in phrases_of(text)}:
            answers = source.find(phrase, 1000, extra=0)
            assert {one.context for one in answers} == plainly(phrase), phrase
            assert len(answers) == len(plainly(phrase))


@pytest.mark.parametrize(
    "phrase", ["art", "strasse", "istanbul", "水", "印刷", "프린터", "น้ำ", "go", "ПРИНТЕР", "手机"]
)
def test_a_phrase_in_another_form(whole: Path, phrase: str) -> None:
    with ExampleIndex.open(whole) as source:
        assert {one.context for one in source.find(phrase, extra=0)} == plainly(phrase) != set()


def test_a_word_beside_a_number_that_is_a_word_of_its_own() -> None:
    texts = ["See pin① of plug⑫b here.", "It has ⅔cup and 5㎡ of ground❷ here."]
    with ExampleIndex.build([Document.from_texts("a", texts)]) as source:
        assert [len(source.find(phrase)) for phrase in ("pin", "pin①", "plug", "b", "cup", "ground", "①")] == [1] * 7


def test_where_an_example_is_from(whole: Path) -> None:
    with ExampleIndex.open(whole) as source:
        (example,) = source.examples("Gießen")
    assert (example.phrase.start, example.phrase.end, example.document, example.line) == (16, 22, "de.txt", 1)
    assert example.as_dict() == {
        "text": "Die Straße nach Gießen ist gesperrt.",
        "start": 16,
        "end": 22,
        "document": "de.txt",
        "line": 1,
        "language": "mul",
    }


def test_many_phrases_at_once(whole: Path) -> None:
    events: list[tuple[int, int]] = []
    with ExampleIndex.open(whole) as source:
        phrases = iter(["art", "nothing", "art"])
        answers = source.find_all(phrases, 1, 0, 0, lambda *numbers: events.append(numbers))
        assert answers == [source.find("art", 1, 0), [], source.find("art", 1, 0)]
    assert events == [(1, 3), (2, 3), (3, 3)]


def test_what_cannot_be_asked(whole: Path) -> None:
    with ExampleIndex.open(whole) as source:
        assert source.find("-->") == []
        for wrong in ({"limit": 0}, {"extra": -1}):
            with pytest.raises(InputError, match="expected a limit of 1 or more and extra characters of 0 or more"):
                source.find("art", **wrong)
        with pytest.raises(InputError, match="empty phrase"):
            source.find(" ")
        with pytest.raises(InputError, match="expected a text"):
            source.find(["art"])  # type: ignore[arg-type]
        with pytest.raises(InputError, match="expected a list of phrases; put one alone in brackets"):
            source.find_all("art")
    with pytest.raises(PhraseIndexError, match="closed"):
        source.find("art")


def test_without_a_path_no_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path))
    with ExampleIndex.build(DOCUMENTS) as source:
        assert len(source.find("party")) == 2
        assert list(tmp_path.iterdir()) == []
    with ExampleIndex.build([]) as source:
        assert (source.sentences, source.find("party")) == (0, [])


def test_text_that_utf_8_cannot_hold(tmp_path: Path) -> None:
    text = "half \udc80 a character, and a NUL \0 in it"
    with ExampleIndex.build([Document.from_texts("a\udce9", [text])], tmp_path / "a") as source:
        (example,) = source.examples("character")
    assert (example.phrase.context, example.document) == (text, "a\udce9")


def test_a_file_is_used_again_while_nothing_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.examples"
    one, two = Document.from_texts("a", ["one fine day"]), Document.from_texts("a", ["one fine evening"])
    ways = [([one], "en"), ([one], "en"), ([one], "de"), ([two], "de"), ([two], "de"), ([two, one], "de")]
    reused = []
    for documents, language in ways:
        with ExampleIndex.build(documents, path, language) as source:
            reused.append(source.reused)
            answers = {one.context for one in source.find("one fine", extra=0)}
        assert answers == {sentence.text for document in documents for sentence in document.sentences()}
    assert reused == [False, True, False, False, True, False]
    assert [file.name for file in tmp_path.iterdir()] == ["a.examples"]


def test_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phrasemate.examples.sources._BATCH", 2)
    events: list[ProgressEvent] = []
    documents = [Document("a", "d", lambda: iter(DOCUMENTS[0].sentences()), 70, lambda: 35), DOCUMENTS[1]]
    ExampleIndex.build(documents, progress=events.append).close()
    sizes = [2, 4, 6, 7, 9, 11]  # 7 sentences, then 4, two at a time
    assert [event.sentences for event in events] == sizes
    assert [event.bytes_done for event in events] == [35] * 4 + [70] * 2
    assert {event.bytes_total for event in events} == {70}


def test_what_is_not_store(tmp_path: Path) -> None:
    with pytest.raises(IndexMissing, match="no such file"):
        ExampleIndex.open(tmp_path / "none")
    for content in (b"", b"some text\n", b"SQLite format 3\0" + bytes(100)):
        (tmp_path / "other").write_bytes(content)
        with pytest.raises(IndexUnsupported, match="is not a store of example sentences"):
            ExampleIndex.open(tmp_path / "other")
        with pytest.raises(IndexExists, match="is not a store of sentences"):
            ExampleIndex.build(DOCUMENTS, tmp_path / "other")
        assert (tmp_path / "other").read_bytes() == content
    with pytest.raises(PhraseIndexError, match="No such file or directory"):
        ExampleIndex.build(DOCUMENTS, tmp_path / "no folder" / "a")


def test_a_newer_format(whole: Path, tmp_path: Path) -> None:
    content = bytearray(whole.read_bytes())
    content[60:64] = (99).to_bytes(4, "big")
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(IndexUnsupported, match="is of format 99, expected 2"):
        ExampleIndex.open(tmp_path / "a")
    with ExampleIndex.build(DOCUMENTS, tmp_path / "a") as source:  # ours, so it may be replaced
        assert not source.reused


def test_a_truncated_store(whole: Path, tmp_path: Path) -> None:
    content = whole.read_bytes()
    for size in (200, 4096, len(content) // 2, len(content) - 1):
        (tmp_path / "a").write_bytes(content[:size])
        with pytest.raises(IndexDamaged, match="remove the file and make it again"):
            ExampleIndex.open(tmp_path / "a")
    with ExampleIndex.build(DOCUMENTS, tmp_path / "a", "mul") as source:  # the documents are at hand
        assert len(source.find("party")) == 2


def test_flipped_bytes_never_change_an_answer_unnoticed(whole: Path, tmp_path: Path) -> None:
    phrases = ["party", "strasse", "水", "프린터", "принтер"]

    def answers(path: Path) -> list[object]:
        with ExampleIndex.open(path) as source:
            return [source.examples(phrase, extra=0) for phrase in phrases]

    content, draw, noticed = whole.read_bytes(), random.Random(1), 0
    expected = answers(whole)
    for at in (draw.randrange(100, len(content)) for _ in range(60)):
        (tmp_path / "a").write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
        try:
            assert answers(tmp_path / "a") == expected, at
        except PhraseIndexError:
            noticed += 1
    assert noticed > 0


@pytest.mark.parametrize("pages", [1, 500])
def test_the_words_of_a_store_are_one_segment_however_large_the_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: int
) -> None:
    small = [statement.replace(str(sources._HASH_BYTES), "1000") for statement in sources._SCHEMA]
    monkeypatch.setattr(sources, "_SCHEMA", small)  # several segments, of a text as small as this
    monkeypatch.setattr(sources, "_BATCH", 50)
    monkeypatch.setattr(sources, "_MERGE_PAGES", pages)
    segments: list[int] = []
    usual = sources._merge

    def merge(connection: sqlite3.Connection) -> None:
        for step in (lambda: None, lambda: usual(connection)):
            step()
            segments.extend(connection.execute("SELECT count(DISTINCT segid) FROM words_idx").fetchone())

    monkeypatch.setattr(sources, "_merge", merge)
    texts = [f"sentence {n} of many w{n * 7919 % 1009} x{n * 31 % 499}" for n in range(2_000)]
    with ExampleIndex.build([Document.from_texts("many", texts)], tmp_path / "a.examples") as source:
        assert segments[0] > segments[1] == 1
        assert [one.context for one in source.find("sentence 1234", extra=0)] == [texts[1234]]


BUILD = """
import sys
from pathlib import Path
from phrasemate.examples import ExampleIndex
from phrasemate.types import Document

def told(event):
    if event.sentences > 4_000:
        print("well under way", flush=True)
        sys.stdin.read()

texts = [f"sentence {n} of many" for n in range(6_000)]
ExampleIndex.build([Document.from_texts("many", texts)], sys.argv[1], progress=told)
"""


def test_a_killed_run_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.examples"
    ExampleIndex.build(DOCUMENTS, path).close()
    run = subprocess.Popen(
        [sys.executable, "-c", BUILD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    assert run.stdout.readline() == "well under way\n"
    (part,) = tmp_path.glob("*.part")
    with ExampleIndex.build([DOCUMENTS[0]], path) as source:  # another run, meanwhile: it leaves the first one alone
        assert len(source.find("party")) == 2
    assert part.exists()
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    with ExampleIndex.open(path) as source:
        assert len(source.find("party")) == 2
    assert part.exists()
    with ExampleIndex.build(DOCUMENTS, path) as source:
        assert source.sentences == len(SENTENCES)
    assert [file.name for file in tmp_path.iterdir()] == ["a.examples"]


def test_a_stopped_run_removes_what_it_has_made(tmp_path: Path) -> None:
    def stop(event: ProgressEvent) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ExampleIndex.build(DOCUMENTS, tmp_path / "a", progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_a_phrase_takes_milliseconds() -> None:
    texts = [f"word{n % 977} and thing{n % 61} of {n} the rest" for n in range(5_000)]
    with ExampleIndex.build([Document.from_texts("a", texts)]) as source:
        began = time.process_time()
        for n in range(50):
            assert len(source.find(f"word{n}")) > 3
        assert (time.process_time() - began) / 50 < 0.1


def test_a_temporary_store_on_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr("phrasemate.examples.sources._fill", full)
    with pytest.raises(PhraseIndexError, match="temporary store of examples: no space is left to write"):
        ExampleIndex.build(DOCUMENTS)

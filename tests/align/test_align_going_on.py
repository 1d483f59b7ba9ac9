"""Outputs that grow: killed at any moment, on a full disk, beside damaged notes, with texts that were altered."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from phrasemate.align import ParallelText, TokenizedSentence, align_files, pair_files
from phrasemate.align.symmetrise import Links
from phrasemate.errors import InputError, PhrasemateError, ReadError
from phrasemate.utils.storage import ResumableFile


class Once:
    """Links the first words; after one pair it is stopped."""

    chunk, signature = 1, {"method": "first"}

    def __init__(self, left: int = 99) -> None:
        self.left = left

    def align(self, pairs: Sequence[tuple[TokenizedSentence, TokenizedSentence]]) -> list[Links]:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        return [[(0, 0)] for _ in pairs]

    def learn(self, aligned: Iterable[tuple[TokenizedSentence, TokenizedSentence, Links]]) -> None:
        list(aligned)


def test_an_altered_text_of_the_same_length_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("ein Haus\nein Hund\n")
    (tmp_path / "b").write_text("a house\na dog\n")
    text = ParallelText(tmp_path / "a", tmp_path / "b")
    with pytest.raises(KeyboardInterrupt):
        align_files(text, tmp_path / "out", Once(1))
    (tmp_path / "b").write_text("a mouse\na dog\n")
    with pytest.raises(InputError, match=r"started with target .*, now .*b of 14 bytes"):
        align_files(text, tmp_path / "out", Once())
    (tmp_path / "b").write_text("a house\na dog\n")
    assert align_files(text, tmp_path / "out", Once()).new == 1


def test_altered_links_of_the_same_length_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phrasemate.align.files.BATCH", 1)
    (tmp_path / "a").write_text("ein Haus\tthe house\nein Hund\tdogs dog\n")
    (tmp_path / "links").write_text("1-1\n1-1\n")
    text = ParallelText(tmp_path / "a")

    def stop(what: str, number: int, total: int) -> None:
        if what == "extracting":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pair_files(text, tmp_path / "links", tmp_path / "out", progress=stop)
    (tmp_path / "links").write_text("1-1\n1-0\n")
    with pytest.raises(InputError, match="started with links"):
        pair_files(text, tmp_path / "links", tmp_path / "out")


@pytest.mark.parametrize("notes", [None, '{"met', '{"method": "other"}'])
def test_a_run_that_was_killed_before_its_first_line_begins_again(tmp_path: Path, notes: str | None) -> None:
    (tmp_path / "out.part").write_text("")
    if notes is not None:
        (tmp_path / "out.part.json").write_text(notes)
    with ResumableFile(tmp_path / "out", {"method": "first"}) as file:
        assert file.done == 0
    assert json.loads((tmp_path / "out.part.json").read_text()) == {"method": "first"}


def test_force_continues_with_what_fits(tmp_path: Path) -> None:
    """Who stopped a run with --force gives the same command again, as is said then."""
    (tmp_path / "out").write_text("old\n")

    def attempt(method: str) -> list[str]:
        with ResumableFile(tmp_path / "out", {"method": method}, force=True) as file:
            items = list(file.written())
            file.write(["0-0"])
        return items

    assert [attempt("one"), attempt("one"), attempt("two")] == [[], ["0-0"], []]
    assert (tmp_path / "out").read_text() == "old\n"


def test_no_lines_of_before_stand_beside_new_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed while --force starts again: between any two things that it does."""

    def start_run() -> None:
        (tmp_path / "out.part").write_text("0-0\n")
        (tmp_path / "out.part.json").write_text('{"method": "old"}')

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for what in ("unlink", "replace", "touch"):
        start_run()
        with monkeypatch.context() as patch:
            patch.setattr(Path, what, killed)
            with pytest.raises(KeyboardInterrupt):
                ResumableFile(tmp_path / "out", {"method": "new"}, force=True)
        lines = (tmp_path / "out.part").read_text() if (tmp_path / "out.part").exists() else ""
        assert not lines or json.loads((tmp_path / "out.part.json").read_text()) == {"method": "old"}


@pytest.mark.parametrize("notes", ["[]", "null", "7", "[" * 100_000])
def test_damaged_notes_are_one_error(tmp_path: Path, notes: str) -> None:
    (tmp_path / "out.part").write_text("0-0\n")
    (tmp_path / "out.part.json").write_text(notes)
    with pytest.raises(InputError, match="an unfinished run without its settings; --force discards it"):
        ResumableFile(tmp_path / "out", {"a": "b"})
    assert not (tmp_path / "out.part.lock").exists()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"9-9\n", r"out.part, line 1: a link to a word that 'ein Haus' or its translation"),
        (b"0-9\n", r"out.part, line 1: a link to a word that"),
        (b"\xff\n", r"out.part, line 1: '\ufffd' is not a word link"),
        (b"0-0\n" * 3, r"out.part: 3 lines; expected at most 2"),
    ],
)
def test_lines_of_something_else_are_one_error(tmp_path: Path, data: bytes, expected: str) -> None:
    (tmp_path / "a").write_text("ein Haus\nein Hund\n")
    text = ParallelText(tmp_path / "a", tmp_path / "a")
    with pytest.raises(KeyboardInterrupt):
        align_files(text, tmp_path / "out", Once(1))
    (tmp_path / "out.part").write_bytes(data)
    with pytest.raises(PhrasemateError, match=expected):
        align_files(text, tmp_path / "out", Once())
    assert not (tmp_path / "out").exists()


def test_names_of_any_bytes(tmp_path: Path) -> None:
    with ResumableFile(tmp_path / "out", {"source": "a\udcff"}) as file:
        file.write(["0-0"])
    with ResumableFile(tmp_path / "out", {"source": "a\udcff"}) as file:
        assert file.done == 1


def test_a_full_disk_frees_the_lock_and_is_reported(tmp_path: Path) -> None:
    file = ResumableFile(tmp_path / "out", {})
    file._file.close()
    file._file = Path("/dev/full").open("a", encoding="utf-8")  # noqa: SIM115 (closed by the file itself)
    with pytest.raises(OSError, match="No space left"), file:
        file.write(["0-0"])
    assert not (tmp_path / "out.part.lock").exists()


def test_a_text_that_goes_away_is_an_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a\tb\n")
    with pytest.raises(ReadError, match="no such file"):
        pair_files(ParallelText(tmp_path / "a"), tmp_path / "none", tmp_path / "out")

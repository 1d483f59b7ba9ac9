"""Stores that somebody has made to do harm, files of others beside them, and texts of marks without end."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from test_examples_store import DOCUMENTS

from phrasemate.errors import IndexDamaged, PhrasemateError
from phrasemate.examples import ExampleIndex, occurrences, sources
from phrasemate.examples.matching import tokens
from phrasemate.types import Document


def altered(path: Path, facts: Callable[[dict[str, Any]], Any] | None, *statements: str) -> None:
    """A store whose maker has made its checksums, too."""
    ExampleIndex.build(DOCUMENTS, path).close()
    connection = sqlite3.connect(path, isolation_level=None)
    if facts is not None:
        (text,) = connection.execute("SELECT facts FROM facts").fetchone()
        value = facts(json.loads(text))
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        connection.execute("UPDATE facts SET facts = ?, crc = ?", (content, crc32(content)))
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    "facts",
    [
        lambda facts: {},
        lambda facts: [1],
        lambda facts: b"[" * 100_000,
        lambda facts: b"\xff",
        lambda facts: facts | {"language": 7},
        lambda facts: facts | {"parts": 5},
        lambda facts: facts | {"parts": [[1]]},
        lambda facts: facts | {"parts": [["a", "b", "c"]]},
        lambda facts: facts | {"parts": [["a", 1, 0]]},
        lambda facts: facts | {"parts": []},
        lambda facts: facts | {"parts": [["a", "b", 3]]},
        lambda facts: facts | {"parts": [["a", "b", 0], ["c", "d", 10**6]]},
        lambda facts: facts | {"parts": facts["parts"][::-1]},
        lambda facts: facts | {"sentences": -5},
        lambda facts: facts | {"sentences": True},
        lambda facts: facts | {"sentences": "x"},
        lambda facts: facts | {"sentences": 10**30},
        lambda facts: facts | {"sentences": float("inf")},
    ],
)
def test_a_description_that_makes_no_sense(tmp_path: Path, facts: Callable[[dict[str, Any]], Any]) -> None:
    altered(tmp_path / "a", facts)
    with pytest.raises(IndexDamaged, match="its description is invalid; remove the file and make it again"):
        ExampleIndex.open(tmp_path / "a")


VIEW = """CREATE VIEW sentences AS WITH RECURSIVE rows (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM rows)
SELECT n AS id, 1 AS line, n AS text, n AS crc FROM rows"""


@pytest.mark.parametrize(
    "statements",
    [
        ["DROP TABLE sentences", VIEW],
        ["CREATE TRIGGER x AFTER INSERT ON facts BEGIN DELETE FROM facts; END"],
        ["DROP TABLE sentences", "CREATE TABLE sentences (id, line, text, crc)"],
        ["DROP TABLE words"],
        ["CREATE TABLE more (a)"],
    ],
)
def test_nothing_but_our_own_tables_is_read(tmp_path: Path, statements: list[str]) -> None:
    altered(tmp_path / "a", None, *statements)
    code = "import sys; from phrasemate.examples import ExampleIndex; ExampleIndex.open(sys.argv[1]).find('party')"
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a")], timeout=60, check=False, capture_output=True, text=True
    )  # in a process of its own: a query without end would stop all tests
    assert "IndexDamaged" in run.stderr
    assert "its tables are not those of a store" in run.stderr


def test_only_what_killed_runs_left_is_removed(tmp_path: Path) -> None:
    others = [
        "a.backup.part",
        "a.part",
        "a.1-0123.part",
        "a.x-01234567.part",
        "b.1-01234567.part",
        "a.1-01234567.part.x",
    ]
    for name in others:
        (tmp_path / name).write_text("mine")
    (tmp_path / "a.17-89abcdef.part").write_text("of a run")
    ExampleIndex.build(DOCUMENTS, tmp_path / "a").close()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["a", *others])


def test_a_store_is_locked_until_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is brought to the disk, another run must not take it for what a dead one has left."""
    left: list[int] = []

    def other_run(descriptor: int) -> None:
        code = "import sys; from pathlib import Path; from phrasemate.examples.sources import _clear"
        subprocess.run([sys.executable, "-c", f"{code}; _clear(Path(sys.argv[1]))", str(tmp_path / "a")], check=True)
        left.append(len(list(tmp_path.glob("*.part"))))

    monkeypatch.setattr("phrasemate.examples.sources.os.fsync", other_run)
    ExampleIndex.build(DOCUMENTS, tmp_path / "a").close()
    assert left == [1, 0]  # the file, then its name in the folder


def test_a_run_that_begins_meanwhile_takes_nothing_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of the first one is there, and has no lock of SQLite yet."""
    connect, errors = sources._connect, []

    def build(text: str) -> None:
        try:
            ExampleIndex.build([Document.from_texts("a", [text])], tmp_path / "a").close()
        except PhrasemateError as error:
            errors.append(error)

    def connected(uri: str) -> sqlite3.Connection:
        connection = connect(uri)
        if uri.endswith(".part") and not second.ident:
            second.start()
            second.join(0.1)
        return connection

    second = threading.Thread(target=build, args=("of the second",))
    monkeypatch.setattr(sources, "_connect", connected)
    build("of the first")
    second.join()
    assert (errors, [path.name for path in tmp_path.iterdir()]) == ([], ["a"])


def test_marks_without_end_take_no_longer_than_other_text() -> None:
    """Putting them in order by insertion took minutes."""
    text = "a" + "\u0300\u0323" * 100_000 + " b"
    start = time.process_time()
    assert occurrences("b", text) == [(len(text) - 1, len(text))]
    assert len(tokens(text)) > 0
    assert time.process_time() - start < 20


def test_a_phrase_with_half_a_character_is_looked_for() -> None:
    with ExampleIndex.build([Document.from_texts("a", ["The word\ud800 is here.", "No word of it."])]) as source:
        assert [example.context for example in source.find("word\ud800")] == ["The word\ud800 is here."]
        assert source.find("\udcff") == []

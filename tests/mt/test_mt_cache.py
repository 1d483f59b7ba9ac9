"""Files of answers: those of others are left alone, altered answers are asked for again, a full disk is one error."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from phrasemate.errors import InputError
from phrasemate.mt import Cache

OWN = "CREATE TABLE answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL) WITHOUT ROWID"


def database(path: Path, *statements: str) -> bytes:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path.read_bytes()


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE bookmarks (address)", "INSERT INTO bookmarks VALUES ('mine')"],
        ["CREATE TABLE answers (a)"],
        ["CREATE VIEW answers AS SELECT 1 AS key, 2 AS answer"],
        [OWN, "CREATE TABLE t (a)", "CREATE TRIGGER x AFTER INSERT ON answers BEGIN DELETE FROM t; END"],
    ],
)
def test_the_database_of_another_program_stays_as_it_is(tmp_path: Path, statements: list[str]) -> None:
    path = tmp_path / "theirs.sqlite"
    before = database(path, *statements)
    with pytest.raises(InputError, match=r"not a file of answers \(it holds other tables\)"):
        Cache(path)
    assert path.read_bytes() == before
    assert [result.name for result in tmp_path.iterdir()] == [path.name]


def test_a_file_of_before_is_used(tmp_path: Path) -> None:
    database(tmp_path / "a.sqlite", OWN, """INSERT INTO answers VALUES ('k', '{"a": 1}')""")
    with Cache(tmp_path / "a.sqlite") as cache:
        assert cache.get("k") == {"a": 1}


@pytest.mark.parametrize("altered", ["'[1'", "'[1]'", "x'ff00'", "7", f"'{'[' * 50_000}'"])
def test_an_altered_answer_is_none(tmp_path: Path, altered: str) -> None:
    with Cache(tmp_path / "a.sqlite") as cache:
        cache.put("k", {"a": 1})
        cache._connection.execute(f"UPDATE answers SET answer = {altered}")
        assert cache.get("k") is None
        cache.put("k", {"a": 2})
        assert cache.get("k") == {"a": 2}


def test_a_full_disk_is_one_error(tmp_path: Path) -> None:
    with Cache(tmp_path / "a.sqlite") as cache:
        cache._connection.execute("PRAGMA max_page_count = 3")
        with pytest.raises(InputError, match=r"cannot be used .*full.*the same command resumes"):
            cache.put("k", {"text": "x" * 100_000})

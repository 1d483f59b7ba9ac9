"""Inter-language links out of SQL."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from time import process_time

import pytest
from wiki_files import sql

from phrasemate.dataset import dump
from phrasemate.dataset.dump import Titles, language_links, linked_titles
from phrasemate.errors import ReadError

ROWS = [
    (10, "en", "Dog"),
    (10, "fr", "Chien"),
    (11, "en", "Mercury (planet)"),
    (12, "en", "O'Hara\\b"),
    (13, "en", "a),(99,'en','b"),
    (14, "en", ""),
    (15, "en", "Under_score "),
    (16, "zh-min-nan", "Káu"),
]
ENGLISH = [
    (10, "Dog"),
    (11, "Mercury (planet)"),
    (12, "O'Hara\\b"),
    (13, "a),(99,'en','b"),
    (14, ""),
    (15, "Under score"),
]


@pytest.mark.parametrize("name", ["l.sql", "l.sql.gz"])
def test_the_links_of_one_language(tmp_path: Path, name: str) -> None:
    raw = sql(ROWS).encode()
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    assert list(language_links(tmp_path / name, "en")) == ENGLISH
    assert list(language_links(tmp_path / name, "zh-min-nan")) == [(16, "Káu")]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 101])
def test_wherever_a_block_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    raw = sql(ROWS).encode()

    def pieces(path: Path, progress: object) -> Iterator[bytes]:
        return (raw[at : at + size] for at in range(0, len(raw), size))

    monkeypatch.setattr(dump, "blocks", pieces)
    assert list(language_links("l.sql", "en")) == ENGLISH


def test_escapes_and_other_ways_to_write_it(tmp_path: Path) -> None:
    (tmp_path / "l.sql").write_bytes(
        b"INSERT INTO langlinks (`ll_from`, `ll_lang`, `ll_title`) VALUES\n"
        rb"(1,'en','it''s'),(2,'en','a\"b\\c\nd'), (3 , 'en' , '\'x\''),(4,'en','\\');" + b"\n"
    )
    assert list(language_links(tmp_path / "l.sql", "en")) == [(1, "it's"), (2, 'a"b\\c d'), (3, "'x'"), (4, "\\")]


def test_a_title_that_was_cut_within_a_character_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "l.sql").write_bytes(b"INSERT INTO `langlinks` VALUES (1,'en','T\xc3'),(2,'en','T\xc3\xbcr');\n")
    assert list(language_links(tmp_path / "l.sql", "en")) == [(2, "Tür")]


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("l.sql.gz", gzip.compress(sql(ROWS).encode(), mtime=0)[:-30], "the gzip data end too early"),
        ("l.sql.gz", b"INSERT", "not gzip data"),
        ("l.sql", sql(ROWS).encode()[:150], "line 6: not a whole row of langlinks: .* the file may be cut short"),
        ("l.sql", sql(ROWS, "page").encode(), "line 5: rows of the table page; give a dump of langlinks"),
        ("l.sql", b"<html>", "no INSERT INTO langlinks in it"),
        ("l.sql", b"", "no INSERT INTO langlinks in it"),
        ("l.sql", b"INSERT INTO `langlinks` VALUES (1,2,3);", "not a whole row of langlinks: '(1,2,3);'"),
        ("l.sql", b"INSERT INTO `langlinks` VALUES " + b"(1,'en','" + b"x" * 3_000_000, "not a whole row"),
        ("l.sql", b"INSERT INTO `langlinks` VALUES (" + b"1" * 5000 + b",'en','a');", "not a whole row"),
    ],
)
def test_one_clear_error(tmp_path: Path, name: str, raw: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(ReadError, match=message.replace("(1,2,3)", r"\(1,2,3\)")) as caught:
        list(language_links(tmp_path / name, "en"))
    assert len(str(caught.value)) < 500


def test_statements_that_never_continue_cost_their_length(tmp_path: Path) -> None:
    (tmp_path / "l.sql").write_bytes(b"INSERT INTO a (" * 30_000)  # 450 kB: seconds, if each is read to the end
    start = process_time()
    with pytest.raises(ReadError):
        list(language_links(tmp_path / "l.sql", "en"))
    assert process_time() - start < 0.5


@pytest.mark.parametrize("line", ["1" * 20 + "\ta", "1" * 5000 + "\ta", "a\tb", "7"])
def test_no_file_of_titles(tmp_path: Path, line: str) -> None:
    path = tmp_path / "t.tsv"
    path.write_text(f"10\tHund\n{line}\n", "utf-8")
    with pytest.raises(ReadError, match=re.escape(f"{path}, line 2: not a page number and a title")) as caught:
        Titles(path)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("order", [1, -1])
def test_titles_by_number(tmp_path: Path, order: int) -> None:
    lines = [f"{number}\tTitel {number}\n" for number in range(0, 3000, 3)][::order]
    paths = tmp_path / "a.tsv", tmp_path / "b.tsv", tmp_path / "none.tsv"
    for path, part in zip(paths, (lines[:400], lines[400:], []), strict=True):
        path.write_text("".join(part), "utf-8")
    with Titles(*paths) as titles:
        assert len(titles) == 1000
        results = [titles.get(number) for number in (0, 3, 2997, 1, 2998, -1)]
    assert results == ["Titel 0", "Titel 3", "Titel 2997", "", "", ""]


def test_pairs_of_titles_without_their_explanations(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("10\tHund\n11\tMerkur (Planet)\n15\tA (b) c\n", "utf-8")
    (tmp_path / "l.sql").write_text(sql(ROWS), "utf-8")
    with Titles(tmp_path / "t.tsv") as titles:
        items = list(linked_titles(titles, tmp_path / "l.sql", "en"))
    assert items == [("Hund", "Dog"), ("Merkur", "Mercury"), ("A (b) c", "Under score")]

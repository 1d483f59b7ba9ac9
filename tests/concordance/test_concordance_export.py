from __future__ import annotations

from pathlib import Path

import pytest
from kwic_fakes import group, hit, result

from phrasemate.concordance import FORMATS, ORDERS, Column, arranged, column, write
from phrasemate.errors import InputError
from phrasemate.text import read_terms
from phrasemate.text.formats.bilingual import read_units
from phrasemate.text.formats.tables import harmless

pytest.importorskip("openpyxl")


@pytest.fixture
def columns() -> list[Column]:
    bank = group(hit("the\told [[bank]] <b>& co.</b>", 0.7123456, "news.txt", 3), hit("a [[bank]]", 0.6), count=5)
    return [
        column("news", result(bank, group(hit("=[[cmd]]", 0.4)))),
        column("law", result(group(hit("[[shore]]", 0.3)))),
    ]


def test_tsv(tmp_path: Path, columns: list[Column]) -> None:
    write(tmp_path / "a.tsv", "Bank", columns)
    rows = [line.split("\t") for line in (tmp_path / "a.tsv").read_text("utf-8").splitlines()]
    header = "phrase candidate score count index document line language left match right"
    assert rows[0] == header.split()
    assert rows[1] == [
        "Bank",
        "bank",
        "0.7123",
        "5",
        "news",
        "news.txt",
        "3",
        "en",
        "the old ",
        "bank",
        " <b>& co.</b>",
    ]
    assert [row[1] for row in rows[1:]] == ["bank", "bank", "cmd", "shore"]
    assert rows[3][8] == "'="


@pytest.mark.parametrize(
    "cell",
    [
        "=1",
        " =cmd|' /C calc'!A0",
        "+cmd|'/C calc'!A0",
        "-2+3+cmd|' /C calc'!A0",
        "@SUM(1)",
        "\uff1dHYPERLINK(1)",
        "-1\n+A(1)",
        "'=1",  # lest two cells become the same
    ],
)
def test_what_a_spreadsheet_would_run_is_a_text(cell: str) -> None:
    assert harmless(cell) == f"'{cell}"


@pytest.mark.parametrize("cell", ["-fähig", "- Ja, gewiss!", "+49 30", "@name", "a = (b)", "(=)", "", -1.5, 3])
def test_other_cells_stay_as_they_are(cell: object) -> None:
    assert harmless(cell) is cell


def test_xlsx_holds_texts_and_no_formula(tmp_path: Path, columns: list[Column]) -> None:
    from openpyxl import load_workbook

    write(tmp_path / "a.xlsx", "Bank", columns)
    rows = list(load_workbook(tmp_path / "a.xlsx").active.iter_rows(values_only=True))
    assert rows[1][:4] == ("Bank", "bank", 0.7123, 5)
    assert rows[3][8] == "="
    assert len(rows) == 5


def test_tbx_is_one_concept(tmp_path: Path, columns: list[Column]) -> None:
    write(tmp_path / "a.tbx", "Bank", columns, "de")
    terms = list(read_terms(tmp_path / "a.tbx", "*"))
    assert [(term.text, term.language) for term in terms] == [
        ("Bank", "de"),
        ("bank", "en"),
        ("cmd", "en"),
        ("shore", "en"),
    ]
    assert len({term.id for term in terms}) == 1
    assert terms[1].contexts == ("the\told bank <b>& co.</b>", "a bank")


def test_tmx_has_a_unit_for_each_candidate(tmp_path: Path, columns: list[Column]) -> None:
    write(tmp_path / "a.tmx", "Bank", columns, "de")
    units = list(read_units(tmp_path / "a.tmx"))
    assert [tuple((side.text, side.language) for side in unit.sides) for unit in units] == [
        (("Bank", "de"), ("bank", "en")),
        (("Bank", "de"), ("cmd", "en")),
        (("Bank", "de"), ("shore", "en")),
    ]
    assert units[0].metadata["score"] == "0.7123"
    assert units[0].metadata["document"] == "news.txt:3"


@pytest.mark.parametrize("order", ORDERS)
def test_tmx_has_the_best_sentence_in_any_order(tmp_path: Path, order: str) -> None:
    results = column(
        "news", result(group(hit("the [[bank]] closed", 0.9, "x", 1), hit("a [[bank]] by it", 0.3, "x", 2)))
    )
    write(tmp_path / "a.tmx", "Bank", [arranged(results, order)], "de")
    (unit,) = read_units(tmp_path / "a.tmx")
    assert (unit.metadata["context"], unit.metadata["document"]) == ("the bank closed", "x:1")


@pytest.mark.parametrize("format_", FORMATS)
def test_an_empty_answer_is_a_whole_file(tmp_path: Path, format_: str) -> None:
    path = tmp_path / f"a.{format_}"
    write(path, "Bank", [])
    assert path.stat().st_size > 0


def test_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'exe' is not a format of a concordance; expected one of tsv, xlsx, tbx, tmx"):
        write(tmp_path / "a.exe", "Bank", [])
    assert not list(tmp_path.iterdir())

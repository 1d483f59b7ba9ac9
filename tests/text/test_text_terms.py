from __future__ import annotations

import csv
import gzip
import json
from dataclasses import replace
from pathlib import Path

import openpyxl
import pytest
from hostile import write
from hypothesis import given, settings
from hypothesis import strategies as st
from test_text_tmx import TEXTS

from phrasemate.errors import InputError, ReadError
from phrasemate.text.formats.units import Term, TermPair
from phrasemate.text.formats.xml import writable
from phrasemate.text.normalize import composed
from phrasemate.text.term_lists import read_terms, write_pairs, write_terms

BANK = Term("Bank", "de", "7", "Geld", "Hinweis", ("Die Bank schloss.", "Zweiter."))
PAIRS = [
    TermPair(BANK, Term("bank", "en", note="n"), 0.91234567, {"count": 3, "sure": True, "why": ["a", "b"]}),
    TermPair(BANK, Term("=bench", "en"), 0.5, {"count": 1, "other": 2}),
    TermPair(Term('a "b"\tc\nd', "de"), Term("إلى \u202e", "ar")),
]


def texts(path: Path, language: str = "", column: str | int | None = None) -> list[str]:
    return [term.text for term in read_terms(path, language, column)]


def test_a_term_a_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "\ufeffterm\n\n  Bank  \r\n#zwei Wörter\tmit Tab\n")
    assert list(read_terms(path, "de")) == [Term(t, "de") for t in ("term", "Bank", "#zwei Wörter")]
    packed = write(tmp_path / "b.txt.gz", gzip.compress(path.read_bytes()))
    assert texts(packed, column=2) == texts(path)


@pytest.mark.parametrize("suffix", ["txt", "tab", "utf8", "txt.gz"])
def test_a_glossary_is_a_table_with_comments(tmp_path: Path, suffix: str) -> None:
    content = (
        "\ufeff# of a project\n\nriver\tFluss\tGewässer\n#gone\tweg\n# x\nlake\tSee\nlone\n\tonly target\n".encode()
    )
    path = write(tmp_path / f"a.{suffix}", gzip.compress(content) if suffix.endswith("gz") else content)
    assert texts(path) == ["river", "lake", "lone"]
    assert texts(path, column=2) == ["Fluss", "See", "only target"]
    assert texts(path, column=3) == ["Gewässer"]


@pytest.mark.parametrize(("suffix", "separator"), [("tsv", "\t"), ("csv", ","), ("csv", ";")])
def test_comments_before_a_table_are_no_terms(tmp_path: Path, suffix: str, separator: str) -> None:
    rows = ["# of a project", "#two", "C#|C-Kreuz", "#hash|#Raute", "lone"]
    path = write(tmp_path / f"a.{suffix}", "\n".join(rows).replace("|", separator) + "\n")
    assert texts(path) == ["C#", "#hash", "lone"]
    alone = write(tmp_path / f"b.{suffix}", "#one\n#two\nthree\n")  # no table: nothing says that they are comments
    assert texts(alone) == ["#one", "#two", "three"]


def test_the_header_of_a_glossary(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "source\ttarget\tnote\nriver\tFluss\tn\n")
    assert list(read_terms(path, "en")) == [Term("river", "en", note="n")]
    assert texts(path, column="target") == ["Fluss"]


@pytest.mark.parametrize(("suffix", "separator"), [("tsv", "\t"), ("csv", ","), ("csv", ";"), ("csv", "\t")])
def test_columns(tmp_path: Path, suffix: str, separator: str) -> None:
    rows = ["Note;Term;Definition;target;ID;context", "n;Bank;Geld;bank;1;c", ";leer;;empty;2", ";;no term;x;3;", "a"]
    path = write(tmp_path / f"a.{suffix}", "\n".join(rows).replace(";", separator) + "\n")
    first, second = read_terms(path, "de")
    assert first == Term("Bank", "de", "1", "Geld", "n", ("c",))
    assert second == Term("leer", "de", "2")
    assert list(read_terms(path, "en", "target")) == [
        Term("bank", "en", "1"),
        Term("empty", "en", "2"),
        Term("x", "en", "3"),
    ]
    assert texts(path, column=4) == ["target", "bank", "empty", "x"]
    with pytest.raises(ReadError, match=r"line 1: no column 'x'; the columns here are 'Note', 'Term'"):
        texts(path, column="x")
    with pytest.raises(InputError, match="column=0"):
        texts(path, column=0)


def test_a_table_without_a_header(tmp_path: Path) -> None:
    assert texts(write(tmp_path / "a.tsv", "Bank\tbank\nHaus\thouse\n")) == ["Bank", "Haus"]


def test_the_language_of_a_row_holds(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "term,language\nBank,de\nbank,en-GB\nrest,\n")
    assert list(read_terms(path, "en")) == [Term("bank", "en-GB"), Term("rest", "en")]
    with pytest.raises(ReadError, match=r"terms in 3 languages \(\(none\), de, en-GB\)"):
        texts(path)
    assert texts(path, "*") == ["Bank", "bank", "rest"]


def test_each_sheet_has_its_own_header(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["term", "language", "note"])  # type: ignore[union-attr]
    book.active.append(["Bank", "de", "n"])  # type: ignore[union-attr]
    for row in (["language", "term"], ["de", "Haus"], ["en", "house"]):
        (book["B"] if "B" in book else book.create_sheet("B")).append(row)
    book.create_sheet("C").append(["ohne Kopf"])
    book.save(tmp_path / "a.xlsx")
    expected = [Term("Bank", "de", note="n"), Term("Haus", "de"), Term("ohne Kopf", "de")]
    assert list(read_terms(tmp_path / "a.xlsx", "de")) == expected
    assert texts(tmp_path / "a.xlsx", "*") == ["Bank", "Haus", "house", "ohne Kopf"]
    with pytest.raises(ReadError, match="no column 'term' in the sheet 'C'; the columns here are 'ohne Kopf'"):
        texts(tmp_path / "a.xlsx", "de", "term")


@pytest.mark.parametrize("name", ["a.doc", "a", "a.xlsx.gz", "a.tmx"])
def test_other_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ReadError, match=r"no term list by its name; expected \.txt"):
        read_terms(write(tmp_path / name, "x"))
    with pytest.raises(InputError, match=r"the name of the file must end in \.tsv"):
        write_pairs(tmp_path / name, [])
    with pytest.raises(InputError, match=r"expected a name that ends in \.tbx"):
        write_terms(tmp_path / name, [])


@pytest.mark.parametrize("name", ["a.txt", "a.tsv", "a.csv"])
@pytest.mark.parametrize(
    ("raw", "reason"),
    [(b"", "no text in it"), (b"\n \n", "no text in it"), (b"Gr\xfcn\n", "is not UTF-8"), (b"%PDF-1.4", "a PDF file")],
)
def test_lists_that_cannot_be_read(tmp_path: Path, name: str, raw: bytes, reason: str) -> None:
    with pytest.raises(ReadError, match=reason):
        texts(write(tmp_path / name, raw))
    with pytest.raises(ReadError, match="No such file"):
        texts(tmp_path / f"no{name}")


@pytest.mark.parametrize("suffix", ["tsv", "csv", "xlsx"])
def test_pairs_as_a_table(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    write_pairs(path, iter(PAIRS))
    source, again, odd = read_terms(path, "de")
    assert source == again == Term("Bank", "de", "7", "Geld", "Hinweis", ("Die Bank schloss.",))
    assert odd.text == ('a "b" c d' if suffix == "tsv" else 'a "b"\tc\nd')
    assert list(read_terms(path, "en", "target")) == [Term("bank", "en", "7"), Term("=bench", "en", "7")]
    assert texts(path, "ar", "target") == ["إلى \u202e"]
    assert texts(path, column="score") == ["0.912346", "0.5", "1" if suffix == "xlsx" else "1.0"]
    assert texts(path, column="count") == ["3", "1"]
    assert texts(path, column="why") == ['["a", "b"]']


@pytest.mark.parametrize("suffix", ["tsv", "csv"])
@pytest.mark.parametrize("text", ["=1+1", "\t=HYPERLINK(A1)", "'=A1", "''@SUM(A1)", "-2+A(1)"])
def test_a_text_table_holds_no_formula(tmp_path: Path, suffix: str, text: str) -> None:
    """But for a spreadsheet: what is read here is what was written."""
    path = tmp_path / f"a.{suffix}"
    write_pairs(path, [TermPair(Term("a", "de", "1", contexts=(text,)), Term(text, "en"), 1.0, {"said": text})])
    row = list(csv.reader(path.read_text("utf-8").splitlines(), delimiter="\t" if suffix == "tsv" else ","))[1]
    assert (row[1], row[8], row[9]) == ("'" + text.replace("\t", " " if suffix == "tsv" else "\t"),) * 3
    assert list(read_terms(path, "de")) == [Term("a", "de", "1", contexts=(text.strip(),))]
    assert texts(path, "*", "target") == texts(path, "*", "said") == [text.strip()]


def test_pairs_as_json_lines(tmp_path: Path) -> None:
    write_pairs(tmp_path / "a.jsonl", PAIRS)
    first, second, third = map(json.loads, (tmp_path / "a.jsonl").read_text("utf-8").splitlines())
    assert first["source"]["contexts"] == ["Die Bank schloss.", "Zweiter."]
    assert (first["target"]["text"], first["score"], first["metadata"]["why"]) == ("bank", 0.91234567, ["a", "b"])
    assert second["metadata"] == {"count": 1, "other": 2}
    assert third["source"]["text"] == 'a "b"\tc\nd'


def test_pairs_as_a_term_base(tmp_path: Path) -> None:
    write_pairs(tmp_path / "a.tbx", PAIRS)
    source, odd = read_terms(tmp_path / "a.tbx", "de")
    assert source == replace(BANK, id="c7")
    assert odd.id == "c2"
    bank, bench = read_terms(tmp_path / "a.tbx", "en")
    assert (bank.id, bench.id) == ("c7", "c7")
    assert (bank.note, bank.metadata) == ("n", {"source": "phrasemate, score 0.912"})


def test_pairs_of_other_concepts_are_not_mixed_up(tmp_path: Path) -> None:
    pairs = [("Haus", "c2", "house"), ("Hund", "", "dog"), ("Leer", "", " "), ("Hund", "", "hound")]
    write_pairs(tmp_path / "a.tbx", [TermPair(Term(a, "de", id), Term(b, "en"), 1.0) for a, id, b in pairs])
    terms = [(term.id, term.text) for term in read_terms(tmp_path / "a.tbx", "*")]
    assert terms == [
        ("c2", "Haus"),
        ("c2", "house"),
        ("c2-2", "Hund"),
        ("c2-2", "dog"),
        ("c3", "Leer"),  # nothing is said of it in English
        ("c4", "Hund"),
        ("c4", "hound"),
    ]
    assert "<term></term>" not in (tmp_path / "a.tbx").read_text("utf-8")


@pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl", "xlsx", "tbx"])
def test_no_pairs_and_a_writer_that_fails(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    write_pairs(path, [])
    before = path.read_bytes()

    def rows() -> object:
        yield PAIRS[0]
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        write_pairs(path, rows())  # type: ignore[arg-type]
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    with pytest.raises(InputError, match=r"cannot be written \(No such file or directory\)"):
        write_pairs(tmp_path / "no" / path.name, PAIRS)
    with pytest.raises(InputError, match=r"cannot be written \(embedded null byte\)"):
        write_pairs(tmp_path / f"\0.{suffix}", PAIRS)


def in_a_cell(text: str, suffix: str) -> str:
    """What a format keeps of a text."""
    if suffix == "xlsx":
        return "".join(c if "\x01" <= c <= "\x1f" else writable(c) for c in text)
    return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["csv", "xlsx"]),
    st.lists(TEXTS.filter(lambda t: bool(t.strip()) and "\0" not in t) | st.text("'=+-@( a", min_size=1), max_size=4),
)
def test_what_is_written_is_read_again(tmp_path_factory: pytest.TempPathFactory, suffix: str, rows: list[str]) -> None:
    rows = [text.replace("\r", " ") if suffix == "csv" else text for text in rows]  # a line end is a line end there
    path = tmp_path_factory.getbasetemp() / f"round.{suffix}"
    write_pairs(path, [TermPair(Term(text, "de"), Term("x", "en")) for text in ["first", *rows]])
    expected = [text for row in rows if (text := composed(in_a_cell(row, suffix)).strip())]
    assert texts(path, "de") == ["first", *expected]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.xlsx"])
def test_a_table_without_rows_has_its_header(tmp_path: Path, name: str) -> None:
    write_pairs(tmp_path / name, [])
    if name != "a.xlsx":
        (header,) = (tmp_path / name).read_text("utf-8").splitlines()
        assert header.replace(",", "\t").split("\t")[:2] == ["source", "target"]
    with pytest.raises(ReadError, match="no term in it"):  # and no longer: no text
        list(read_terms(tmp_path / name, "de", column="source"))

from __future__ import annotations

import io
import os
import random
import struct
import time
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from hostile import OFFICE, SHEET, WORD, docx, laughs, relations, write, xlsx, zipped

import phrasemate.text.formats.archive as archive_module
import phrasemate.text.formats.tables as tables_module
from phrasemate.errors import MissingExtra, ReadError
from phrasemate.text import read
from phrasemate.text.formats.archive import MEMBERS
from phrasemate.text.formats.tables import COLUMNS, sheet_rows, write_sheet
from phrasemate.text.text_file import Damage, TextFile
from phrasemate.types import Sentence


def all_of(path: Path, **options: Any) -> list[Sentence]:
    return [sentence for document in read(path, **options) for sentence in document.sentences()]


def texts(path: Path, **options: Any) -> list[str]:
    return [sentence.text for sentence in all_of(path, **options)]


def rows_of(path: Path) -> list[tuple[str, int, list[str]]]:
    return list(sheet_rows(TextFile(path, str(path), False, "utf-8", Damage(skip=False))))


def error_of(path: Path) -> ReadError:
    """The one error, which comes soon."""
    started = time.process_time()
    with pytest.raises(ReadError) as caught:
        texts(path)
    assert "\n" not in str(caught.value)
    assert caught.value.file == str(path)
    assert time.process_time() - started < 3
    return caught.value


def paragraph(text: str, properties: str = "") -> str:
    return f"<w:p>{properties}<w:r><w:t>{text}</w:t></w:r></w:p>"


def test_paragraphs_headings_and_tables(tmp_path: Path) -> None:
    styles = (
        f'<w:styles xmlns:w="{WORD}"><w:style w:styleId="berschrift2"><w:name w:val="heading 2"/></w:style>'
        '<w:style w:styleId="Titel"><w:name w:val="Title"/></w:style></w:styles>'
    )
    table = "<w:tbl><w:tr><w:tc>{}</w:tc><w:tc>{}{}</w:tc></w:tr><w:tr><w:tc>{}</w:tc></w:tr></w:tbl>"
    inner = f"<w:tbl><w:tr><w:tc>{paragraph('inner')}</w:tc></w:tr></w:tbl>"
    body = (
        paragraph("The title", '<w:pPr><w:pStyle w:val="Titel"/></w:pPr>')
        + paragraph("A heading", '<w:pPr><w:pStyle w:val="berschrift2"/></w:pPr>')
        + paragraph("Own level", '<w:pPr><w:outlineLvl w:val="2"/></w:pPr>')
        + paragraph("No level", '<w:pPr><w:outlineLvl w:val="12"/></w:pPr>')
        + paragraph("  ")
        + paragraph("One. Two &amp; three.", '<w:pPr><w:tabs><w:tab w:val="left"/></w:tabs></w:pPr>')
        + table.format(paragraph("a"), paragraph("b"), inner, paragraph("c"))
    )
    sentences = all_of(docx(tmp_path / "a.docx", body, styles=styles))
    assert sentences == [
        Sentence("The title", 1, {"heading": 0}),
        Sentence("A heading", 2, {"heading": 2}),
        Sentence("Own level", 3, {"heading": 3}),
        Sentence("No level", 4, {}),
        Sentence("One.", 5, {}),
        Sentence("Two & three.", 5, {}),
        Sentence("a", 6, {"table": 1, "row": 1, "column": 1}),
        Sentence("b", 7, {"table": 1, "row": 1, "column": 2}),
        Sentence("inner", 8, {"table": 2, "row": 1, "column": 1}),
        Sentence("c", 9, {"table": 1, "row": 2, "column": 1}),
    ]


def test_runs_changes_fields_and_boxes(tmp_path: Path) -> None:
    box = "<mc:AlternateContent xmlns:mc='http://schemas.openxmlformats.org/markup-compatibility/2006'><mc:{0}>{1}</mc:{0}>"
    body = (
        "<w:p><w:r><w:t>in</w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t xml:space='preserve'>visible </w:t><w:tab/>"
        "<w:t>non</w:t><w:noBreakHyphen/><w:t>break</w:t><w:softHyphen/><w:t>ing</w:t><w:br/><w:t>next</w:t></w:r>"
        "<w:ins><w:r><w:t> new</w:t></w:r></w:ins><w:del><w:r><w:delText>old</w:delText></w:r></w:del>"
        "<w:moveFrom><w:p/><w:r><w:t>moved</w:t></w:r></w:moveFrom>"
        "<w:r><w:instrText>PAGE</w:instrText></w:r><w:hyperlink><w:r><w:t> link</w:t></w:r></w:hyperlink>"
        "<w:ruby><w:rt><w:r><w:t>kana</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>漢</w:t></w:r></w:rubyBase></w:ruby></w:p>"
        f"<w:p><w:r>{box.format('Choice', paragraph('in the box'))}"
        f"<mc:Fallback>{paragraph('in the box')}</mc:Fallback></mc:AlternateContent><w:t>around</w:t></w:r></w:p>"
    )
    assert texts(docx(tmp_path / "a.docx", body)) == [
        "invisible \tnon-breaking",
        "next new link漢",
        "in the box",
        "around",
    ]


def test_notes_come_last(tmp_path: Path) -> None:
    notes = {
        name: f'<w:{name} xmlns:w="{WORD}"><w:{name[:-1]}>{paragraph("note in " + name)}</w:{name[:-1]}></w:{name}>'
        for name in ("endnotes", "footnotes")
    }
    sentences = all_of(docx(tmp_path / "a.docx", paragraph("text"), **notes))
    assert [(s.text, s.line, s.metadata) for s in sentences] == [
        ("text", 1, {}),
        ("note in footnotes", 2, {"part": "footnotes"}),
        ("note in endnotes", 3, {"part": "endnotes"}),
    ]


def test_a_document_that_lies_elsewhere_in_the_archive(tmp_path: Path) -> None:
    document = f'<w:document xmlns:w="{WORD}"><w:body>{paragraph("text")}</w:body></w:document>'
    strict = document.replace(WORD, "http://purl.oclc.org/ooxml/wordprocessingml/main").encode("utf-16")
    for name, target in (("word/document2.xml", "/word/document2.xml"), ("x/Y.xml", "X/y.xml")):
        path = zipped(tmp_path / "a.docx", {"_rels/.rels": relations(("r", "officeDocument", target)), name: strict})
        assert texts(path) == ["text"]
    assert texts(zipped(tmp_path / "b.docm", {"word/document.xml": document})) == ["text"]


ROWS = (
    '<row r="2"><c r="A2" t="s"><v>1</v></c><c r="C2"><v>3.50</v></c>'
    '<c t="inlineStr"><is><t>in </t><r><t>line</t></r></is></c>'
    '</row><row><c t="str"><f>A1&amp;"x"</f><v>formula</v></c><c t="b"><v>1</v></c><c t="e"><v>#N/A</v></c><c/></row>'
    '<row r="9"><c r="XFD9"><v>far</v></c></row><row r="10"/>'
)
STRINGS = "<si><t>zero</t></si><si><r><t>on</t></r><r><t xml:space='preserve'>e </t></r><rPh><t>kana</t></rPh></si>"


def test_cells_of_a_workbook(tmp_path: Path) -> None:
    path = xlsx(tmp_path / "a.xlsx", ROWS, STRINGS)
    assert rows_of(path) == [("S", 2, ["one ", "", "3.50", "in line"]), ("S", 3, ["formula", "TRUE", "#N/A"])]
    assert all_of(path) == [Sentence("one", 2, {"sheet": "S"}), Sentence("formula", 3, {"sheet": "S"})]
    assert texts(path, column=4) == ["in line"]
    assert COLUMNS == 1000  # XFD is column 16,384


def test_escapes_of_a_workbook(tmp_path: Path) -> None:
    cells = "".join(
        f'<c t="inlineStr"><is><t>{text}</t></is></c>' for text in ("a_x000D_b", "_x005F_x000D_", "_x0000_")
    )
    lone = '<c t="inlineStr"><is><t>_xD800_!</t></is></c><c t="inlineStr"><is><t>_xD83D__xDE00_</t></is></c>'
    (row,) = rows_of(xlsx(tmp_path / "a.xlsx", f"<row>{cells}{lone}</row>"))
    assert row[2] == ["a\rb", "_x000D_", "\ufffd", "\ufffd!", "😀"]


def test_sheets_and_named_columns_as_openpyxl_writes_them(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    first = book.active
    assert first is not None
    first.title = "Wörter"
    for row in (["de", "en"], ["Haus", "house"], [None, "empty"], ["Baum & <x>", "tree"]):
        first.append(row)
    hidden = book.create_sheet("hidden")
    hidden.append(["de"])
    hidden.append(["secret"])
    hidden.sheet_state = "hidden"
    second = book.create_sheet("B")
    second.append(["nr", "de"])
    second.append([1, " Zeile\neins "])
    book.save(tmp_path / "a.xlsx")
    sentences = [(s.text, s.line, s.metadata["sheet"]) for s in all_of(tmp_path / "a.xlsx", column="de")]
    assert sentences == [("Haus", 2, "Wörter"), ("Baum & <x>", 4, "Wörter"), ("Zeile", 2, "B"), ("eins", 2, "B")]
    with pytest.raises(
        ReadError, match=r"line 1: no column 'fr' in the sheet 'Wörter'; the columns here are 'de', 'en'; "
    ):
        texts(tmp_path / "a.xlsx", column="fr")
    with pytest.raises(ReadError, match=r"line 1: no column 'en' in the sheet 'B'; the columns here are 'nr', 'de'; "):
        texts(tmp_path / "a.xlsx", column="en")


def test_openpyxl_reads_what_is_written(tmp_path: Path) -> None:
    rows = [["=1+1", 3, 0.5, True], ["a\rb\x01_x000D_", "", " space ", "\ud800\ufffe"], ["x" * 40_000]]
    write_sheet(tmp_path / "a.xlsx", rows, "T")
    sheet = openpyxl.load_workbook(tmp_path / "a.xlsx")["T"]
    assert [cell.data_type for cell in sheet[1]] == ["s", "n", "n", "b"]
    assert [cell.value for cell in sheet[1]] == ["=1+1", 3, 0.5, True]
    assert len(str(sheet["A3"].value)) == 32_767
    (_, _, first), (_, _, second), (_, _, third) = rows_of(tmp_path / "a.xlsx")
    assert first == ["=1+1", "3", "0.5", "TRUE"]
    assert second == ["a\rb\x01_x000D_", "", " space ", "\ufffd\ufffd"]
    assert len(third[0]) == 32_767


def test_an_absent_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(MissingExtra, match=r"pip install 'phrasemate\[formats\]'"):
        write_sheet(tmp_path / "a.xlsx", [["x"]])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.docx", "a.xlsx"])
@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"Just text.\n", "not a ZIP archive, as an Office document is"),
        (b"PK\x03\x04" + b"\0" * 100, "not a ZIP archive"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 100, "an old or encrypted Office document"),
        (b"", "an empty file"),
        (b"PK\x05\x06" + b"\0" * 18, "in the archive; expected"),
    ],
)
def test_what_is_not_office_document(tmp_path: Path, name: str, raw: bytes, reason: str) -> None:
    path = write(tmp_path / name, raw)
    assert reason in error_of(path).reason
    corpus = read(path, on_error="skip")
    assert [s for document in corpus for s in document.sentences()] == []
    assert reason in corpus.skipped[0].reason


def office(tmp_path: Path, name: str) -> Path:
    if name == "a.docx":
        return docx(tmp_path / name, paragraph("A text that is long enough to be compressed, compressed, compressed."))
    return xlsx(tmp_path / name, ROWS, STRINGS)


@pytest.mark.parametrize("name", ["a.docx", "a.xlsx"])
def test_truncated_and_flipped(tmp_path: Path, name: str) -> None:
    raw = office(tmp_path, name).read_bytes()
    for cut in (5, len(raw) // 2, len(raw) - 30, len(raw) - 1):
        assert "not a ZIP archive" in error_of(write(tmp_path / name, raw[:cut])).reason
    draw, refused = random.Random(1), 0
    for _ in range(150):
        flipped = bytearray(raw)
        flipped[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
        try:
            texts(write(tmp_path / name, bytes(flipped)))
        except ReadError:  # nothing else comes out
            refused += 1
    assert refused > 50


@pytest.mark.parametrize("member", ["../../evil.xml", "/etc/evil", "a/../../b", "..\\evil", "\\evil"])
def test_a_path_that_leads_out_of_the_archive(tmp_path: Path, member: str) -> None:
    path = office(tmp_path, "a.docx")
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(member, "x")
    assert "which leads out of the archive" in error_of(path).reason


def bomb(path: Path, member: str, start: str, filler: bytes, size: int, end: str = "") -> Path:
    """An Office document one of whose members unpacks to ``size`` bytes."""
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as file, file.open(member, "w", force_zip64=True) as stream:
        stream.write(start.encode())
        for _ in range(size // len(filler)):
            stream.write(filler)
        stream.write(end.encode())
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_packing_that_office_documents_do_not_have(tmp_path: Path, method: int) -> None:
    """Python unpacks it in pieces of any size, whatever size the archive says that there is."""
    path = office(tmp_path, "a.docx")
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)
    assert f"is packed by method {method} of ZIP; expected deflate (8)" in error_of(path).reason


def test_zip_bombs(tmp_path: Path) -> None:
    rels = {"_rels/.rels": relations(("r", "officeDocument", "word/document.xml"))}
    path = bomb(zipped(tmp_path / "a.docx", rels), "word/document.xml", "<w:document>", b" " * (1 << 20), 60 << 20)
    assert path.stat().st_size < 100_000
    assert "word/document.xml unpacks to 62,914,5" in error_of(path).reason
    assert "expected at most 500,000,000 and 200 times" in error_of(path).reason
    book = xlsx(tmp_path / "b.xlsx", "")
    members = {name: zipfile.ZipFile(book).read(name) for name in zipfile.ZipFile(book).namelist()}
    del members["xl/sharedStrings.xml"]
    path = bomb(
        zipped(tmp_path / "b.xlsx", dict(members)), "xl/sharedStrings.xml", "<sst>", b"<si/>" * 200_000, 60 << 20
    )
    assert "xl/sharedStrings.xml unpacks to" in error_of(path).reason


def test_a_member_that_is_larger_than_it_says(tmp_path: Path) -> None:
    path = office(tmp_path, "a.docx")
    raw = path.read_bytes()
    size = len(zipfile.ZipFile(path).read("word/document.xml"))
    lied = raw.replace(struct.pack("<L", size), struct.pack("<L", 100))
    assert lied != raw
    reason = error_of(write(path, lied)).reason
    assert "cannot be unpacked (Bad CRC-32" in reason or "ends too early" in reason


def test_many_members(tmp_path: Path) -> None:
    path = office(tmp_path, "a.docx")
    with zipfile.ZipFile(path, "a") as file:
        for number in range(MEMBERS):
            file.writestr(f"{number}", "")
    assert "10,003 files in the archive; expected at most 10,000" in error_of(path).reason


def test_a_large_table_of_contents_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "_DIRECTORY", 100)
    assert "a table of contents or member of" in error_of(office(tmp_path, "a.docx")).reason


def test_an_encrypted_member(tmp_path: Path) -> None:
    path = office(tmp_path, "a.docx")
    raw = bytearray(path.read_bytes())
    for start in range(len(raw) - 4):
        if raw[start : start + 4] == b"PK\x01\x02":
            raw[start + 8] |= 1
        if raw[start : start + 4] == b"PK\x03\x04":
            raw[start + 6] |= 1
    assert "is encrypted, password required" in error_of(write(path, bytes(raw))).reason


def test_entities_and_depth_in_members(tmp_path: Path) -> None:
    document = f'<w:document xmlns:w="{WORD}"><w:body>{{}}</w:body></w:document>'
    laughing = laughs("w:document") + document.format(paragraph("&l11;"))
    assert "declares an entity" in error_of(zipped(tmp_path / "a.docx", {"word/document.xml": laughing})).reason
    deep = document.format("<w:p>" * 100_000)
    assert "nested more than 500 deep" in error_of(zipped(tmp_path / "b.docx", {"word/document.xml": deep})).reason
    rels = zipped(
        tmp_path / "c.docx", {"_rels/.rels": laughs("Relationships") + "<Relationships>&l11;</Relationships>"}
    )
    assert "declares an entity" in error_of(rels).reason
    sheet = xlsx(tmp_path / "d.xlsx", "<row>" + "<c>" * 100_000)
    assert "nested more than 500 deep" in error_of(sheet).reason
    book = zipped(tmp_path / "e.xlsx", {"xl/workbook.xml": laughs("workbook") + "<workbook/>"})
    assert "declares an entity" in error_of(book).reason


def test_limits_of_workbooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = xlsx(tmp_path / "a.xlsx", '<row><c t="s"><v>7</v></c></row>', STRINGS)
    assert "a cell names text number '7', which is not there" in error_of(wrong).reason
    wrong = xlsx(tmp_path / "b.xlsx", '<row><c t="s"><v>-1</v></c></row>', STRINGS)
    assert "which is not there" in error_of(wrong).reason
    monkeypatch.setattr(tables_module, "STRINGS", 20)
    assert "texts of more than 20 characters" in error_of(xlsx(tmp_path / "c.xlsx", ROWS, STRINGS)).reason


@pytest.mark.parametrize(("text", "title"), [("x" * 1_000_000, "S"), ("x", "S" * 999_999)])
def test_a_small_workbook_that_means_much(tmp_path: Path, monkeypatch: Any, text: str, title: str) -> None:
    """One text that many cells name, or the title of a sheet, which goes with each of its rows."""
    monkeypatch.setattr(tables_module, "CELLS", 3_000_003)
    path = xlsx(tmp_path / "a.xlsx", '<row><c t="s"><v>0</v></c></row>' * 10, f"<si><t>{text}</t></si>", title)
    with pytest.raises(ReadError, match="line 4: cells of more than 3,000,003 characters, and of 200 times the file's"):
        rows_of(path)
    monkeypatch.setattr(tables_module, "RATIO", 10_001_000 // path.stat().st_size + 1)
    assert len(rows_of(path)) == 10  # a file that is as large may mean as much


def test_a_part_is_read_once(tmp_path: Path) -> None:
    """A small workbook could have one sheet, or its texts, read ten thousand times."""
    sheets = "".join(f'<sheet name="S{n}" sheetId="{n}" r:id="r{n % 2}"/>' for n in range(400))
    texts_of = "".join(f"<si><t>{n}</t></si>" for n in range(1000))
    members: dict[str, str | bytes] = {
        "xl/workbook.xml": f'<workbook xmlns="{SHEET}" xmlns:r="{OFFICE}"><sheets>{sheets}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": relations(
            *(("s", "sharedStrings", "s.xml") for _ in range(100)),
            ("r0", "worksheet", "a.xml"),
            ("r1", "worksheet", "A.xml"),
        ),
        "xl/s.xml": f'<sst xmlns="{SHEET}">{texts_of}</sst>',
        "xl/a.xml": f'<worksheet xmlns="{SHEET}"><sheetData>{ROWS}</sheetData></worksheet>',
    }
    path = zipped(tmp_path / "a.xlsx", members)
    assert "xl/A.xml in it stands for several parts; expected one" in error_of(path).reason
    corpus = read(path, on_error="skip")
    assert [s.text for document in corpus for s in document.sentences()] == ["1", "formula"]
    assert [item.whole for item in corpus.skipped] == [True]


def test_a_row_number_that_is_far_away_costs_nothing(tmp_path: Path) -> None:
    path = xlsx(tmp_path / "a.xlsx", '<row r="999999999"><c r="A1" t="str"><v>x</v></c></row><row r="12345678901"/>')
    assert rows_of(path) == [("S", 999_999_999, ["x"])]


def test_nothing_is_unpacked_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = office(tmp_path, "a.xlsx")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "no"))
    monkeypatch.chdir(tmp_path)
    assert texts(path) == ["one", "formula"]
    assert os.listdir(tmp_path) == ["a.xlsx"]  # noqa: PTH208


def test_progress_does_not_pass_the_end(tmp_path: Path) -> None:
    (document,) = read(office(tmp_path, "a.docx"))
    assert list(document.sentences())
    assert 0 < document.consumed() <= document.size


def test_a_workbook_of_another_kind(tmp_path: Path) -> None:
    book = f'<workbook xmlns="{SHEET}"><sheets><sheet name="S" sheetId="1"/></sheets></workbook>'
    assert "no text in it" in error_of(zipped(tmp_path / "a.xlsx", {"xl/workbook.xml": book})).reason
    assert (
        "no xl/workbook.xml in the archive"
        in error_of(zipped(tmp_path / "b.xlsx", {"x": io.BytesIO().getvalue()})).reason
    )


MATH = "http://schemas.openxmlformats.org/officeDocument/2006/math"


def run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def test_a_tag_of_megabytes_costs_nothing_but_itself(tmp_path: Path) -> None:
    drawing = f'<w:p><w:r><w:pict w:data="{"QUJD" * 3_000_000}"/></w:r></w:p>'  # 12 MB
    assert texts(docx(tmp_path / "a.docx", paragraph("Before.") + drawing + paragraph("Behind."))) == [
        "Before.",
        "Behind.",
    ]
    cells = f'<row><c t="inlineStr" x="{"y" * 2_000_000}"><is><t>cell</t></is></c></row>'
    assert texts(xlsx(tmp_path / "a.xlsx", cells)) == ["cell"]


@pytest.mark.parametrize(
    ("font", "code", "expected"),
    [
        *[("Symbol", "F06D", "µ"), ("Symbol", "F0B3", "≥"), ("symbol", "B3", "≥"), ("Symbol", "F061", "α")],
        *[("Symbol", "F0AE", "→"), ("Symbol", "F0B0", "°"), ("Symbol", "F0B4", "×"), ("Symbol", "F0F2", "∫")],
        *[
            ("Wingdings", "F04A", "☺"),
            ("Wingdings", "F0FC", "✔"),
            ("Wingdings", "F0A7", "▪"),
            ("Wingdings", "F0C2", "🕛"),
        ],
        *[
            ("Calibri", "00E9", "é"),
            ("Calibri", "2026", "…"),
            ("Calibri", "F041", "\ufffd"),
            ("Webdings", "F041", "\ufffd"),
        ],
        *[("ZapfDingbats", "F034", "✔"), ("ITC Zapf Dingbats", "25", "☎"), ("Zapf Dingbats", "F0AC", "①")],
        *[
            ("Symbol MT", "F0A3", "≤"),
            ("SymbolPS", "F06D", "µ"),
            ("Wingdings 2", "50", "\ufffd"),
            ("Marlett", "61", "\ufffd"),
        ],
        *[
            ("Symbol", "F0F0", "\ufffd"),
            ("Symbol", "none", "\ufffd"),
            ("Symbol", "D800", "\ufffd"),
            ("", "-1", "\ufffd"),
        ],
    ],
)
def test_symbols_are_characters(tmp_path: Path, font: str, code: str, expected: str) -> None:
    body = f'<w:p>{run("a ")}<w:r><w:sym w:font="{font}" w:char="{code}"/></w:r>{run(" b")}</w:p>'
    assert texts(docx(tmp_path / "a.docx", body)) == [f"a {expected} b"]


def test_a_hidden_mark_joins_and_a_deleted_row_is_left_out(tmp_path: Path) -> None:
    head = f"<w:p><w:pPr><w:rPr><w:vanish/></w:rPr></w:pPr>{run('Safety. ')}</w:p>{paragraph('Wear gloves.')}"
    plain_mark = f"<w:p><w:pPr><w:rPr><w:vanish w:val='0'/></w:rPr></w:pPr>{run('One.')}</w:p>{paragraph('Two.')}"
    deleted = f"<w:tr><w:trPr><w:del w:id='1'/></w:trPr><w:tc>{paragraph('Gone.')}</w:tc></w:tr>"
    table = f"<w:tbl>{deleted}<w:tr><w:tc>{paragraph('Here.')}</w:tc></w:tr></w:tbl>"
    expected = ["Safety.", "Wear gloves.", "One.", "Two.", "Here."]
    assert texts(docx(tmp_path / "a.docx", head + plain_mark + table)) == expected
    [document] = read(tmp_path / "a.docx")
    assert [one.line for one in document.sentences()] == [1, 1, 2, 3, 4]


def test_text_in_a_symbol_font_is_what_it_shows(tmp_path: Path) -> None:
    font = '<w:rFonts w:ascii="Symbol" w:hAnsi="Symbol"/>'
    body = f"<w:p>{run('5 ')}{run('m', font)}{run('m, x ')}{run(chr(0xF0B3), font)}{run(' 3')}</w:p>"
    assert texts(docx(tmp_path / "a.docx", body)) == ["5 µm, x ≥ 3"]


def test_a_symbol_font_is_named_in_a_run_a_style_an_equation_or_not_known(tmp_path: Path) -> None:
    fonts = '<w:rPr><w:rFonts w:{}="Symbol"/></w:rPr>'
    styles = (
        f'<w:style w:type="character" w:styleId="A"><w:name w:val="a"/>{fonts.format("ascii")}</w:style>'
        '<w:style w:type="character" w:styleId="B"><w:name w:val="b"/><w:basedOn w:val="A"/></w:style>'
        f'<w:style w:type="paragraph" w:styleId="C"><w:name w:val="c"/>{fonts.format("hAnsi")}</w:style>'
    )
    style, webdings = '<w:rStyle w:val="{}"/>', '<w:rFonts w:ascii="Webdings"/>'
    other = '<w:rFonts w:ascii="Arial" w:cs="Webdings"/>'  # for other scripts than this one
    runs = f"<m:r>{fonts.format('hAnsi')}<m:t>{chr(0xF0B3)}</m:t></m:r><m:r><m:t>m</m:t></m:r>"
    equation = f"<m:oMath xmlns:m='{MATH}'>{runs}</m:oMath>"
    body = (
        f"<w:p>{run('m', style.format('A'))}{run('m', style.format('B'))}{run('m')}</w:p>"
        f'<w:p><w:pPr><w:pStyle w:val="C"/></w:pPr>{run("ab")}</w:p>'
        f"<w:p>{run('x')}{equation}</w:p>"
        f"<w:p>{run('a ')}{run('PQ', webdings)}{run(' b', other)}</w:p>"
    )
    styles = f'<w:styles xmlns:w="{WORD}">{styles}</w:styles>'
    assert texts(docx(tmp_path / "a.docx", body, styles=styles)) == ["µµm", "αβ", "x≥m", "a \ufffd\ufffd b"]


def test_hidden_rows_and_deleted_cells_are_left_out(tmp_path: Path) -> None:
    row = f"<w:tr><w:trPr><w:hidden/></w:trPr><w:tc>{paragraph('Hidden.')}</w:tc></w:tr>"
    second = f'<w:tr><w:trPr><w:hidden w:val="0"/></w:trPr><w:tc>{paragraph("Shown.")}</w:tc></w:tr>'
    cell = f'<w:tc><w:tcPr><w:cellDel w:id="1"/></w:tcPr>{paragraph("Deleted.")}</w:tc>'
    third = f"<w:tr>{cell}<w:tc>{paragraph('Kept.')}</w:tc></w:tr>"
    assert texts(docx(tmp_path / "a.docx", f"<w:tbl>{row}{second}{third}</w:tbl>")) == ["Shown.", "Kept."]


def test_equations_are_linear_text(tmp_path: Path) -> None:
    def part(text: str) -> str:
        return f"<m:r><m:t>{text}</m:t></m:r>"

    fraction = f"<m:f><m:num>{part('a')}</m:num><m:den>{part('b')}</m:den></m:f>"
    power = f"<m:sSup><m:e>{part('x')}</m:e><m:sup>{part('2')}</m:sup></m:sSup>"
    limits = f"<m:sub>{part('i')}</m:sub><m:sup/>"
    total = f'<m:nary><m:naryPr><m:chr m:val="∑"/></m:naryPr>{limits}<m:e>{part("y")}</m:e></m:nary>'
    brackets = f'<m:d><m:dPr><m:begChr m:val="["/><m:endChr m:val="]"/></m:dPr><m:e>{part("z")}</m:e></m:d>'
    root = f"<m:rad><m:radPr/><m:deg/><m:e><m:d><m:dPr/><m:e>{part('w')}</m:e></m:d></m:e></m:rad>"
    for formula, expected in (
        (part("x &gt; 3"), "x > 3"),
        (fraction, "a/b"),
        (power, "x^2"),
        (total, "∑_iy"),
        (brackets, "[z]"),
        (root, "√(w)"),
    ):
        body = f'<w:p>{run("Here ")}<m:oMath xmlns:m="{MATH}">{formula}</m:oMath>{run(" holds.")}</w:p>'
        assert texts(docx(tmp_path / "a.docx", body)) == [f"Here {expected} holds."]


@pytest.mark.parametrize("mark", ["del", "moveFrom"])
def test_paragraphs_join_where_the_mark_between_them_is_deleted(tmp_path: Path, mark: str) -> None:
    deletion = f'<w:pPr><w:rPr><w:{mark} w:id="1"/></w:rPr></w:pPr>'
    deleted = "<w:del><w:r><w:delText>not </w:delText><w:tab/></w:r></w:del>"
    body = f"<w:p>{deletion}{run('The door ')}{deleted}</w:p><w:p>{deletion}{run('is ')}</w:p>{paragraph('open.')}"
    table = f"<w:tbl><w:tr><w:tc><w:p>{deletion}{run('in a cell')}</w:p></w:tc></w:tr></w:tbl>"
    before = f"<w:p>{deletion}{run('before a table')}</w:p>"
    assert texts(docx(tmp_path / "a.docx", f"{body}{before}{table}<w:p>{deletion}{run('last')}</w:p>")) == [
        "The door is open.",
        "before a table",
        "in a cell",
        "last",
    ]


def test_hidden_text_is_left_out(tmp_path: Path) -> None:
    styles = (
        f'<w:styles xmlns:w="{WORD}"><w:style w:styleId="H"><w:rPr><w:vanish/></w:rPr></w:style>'
        '<w:style w:styleId="Based"><w:basedOn w:val="H"/></w:style>'
        '<w:style w:styleId="Shown"><w:basedOn w:val="H"/><w:rPr><w:vanish w:val="0"/></w:rPr></w:style></w:styles>'
    )
    runs = [
        *[
            run("shown "),
            run("a", "<w:vanish/>"),
            run("b", '<w:vanish w:val="true"/>'),
            run("also ", '<w:vanish w:val="0"/>'),
        ],
        *[
            run("c", '<w:rStyle w:val="H"/>'),
            run("d", '<w:rStyle w:val="Based"/>'),
            run("too", '<w:rStyle w:val="Shown"/>'),
        ],
        '<w:r><w:rPr><w:vanish/></w:rPr><w:tab/><w:sym w:font="Symbol" w:char="F06D"/></w:r>',
    ]
    result = run("but this", '<w:vanish w:val="false"/>')
    hidden = f'<w:p><w:pPr><w:pStyle w:val="Based"/></w:pPr>{run("e")}{result}</w:p>'
    path = docx(tmp_path / "a.docx", f"<w:p>{''.join(runs)}</w:p>{hidden}", styles=styles)
    assert texts(path) == ["shown also too", "but this"]

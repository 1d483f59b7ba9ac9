"""Office documents that would unpack to more than their size allows."""

from __future__ import annotations

from pathlib import Path

import pytest
from hostile import OFFICE, SHEET, relations, zipped

import phrasemate.text.formats.archive as archive_module
from phrasemate.errors import ReadError
from phrasemate.text import read


def test_all_sheets_together_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may grow a thousand times as long as it is small; ten thousand of them would be as many times as much."""
    monkeypatch.setattr(archive_module, "TOGETHER", 3_000_000)
    sheets = "".join(f'<sheet name="S{n}" sheetId="{n}" r:id="r{n}"/>' for n in range(40))
    rows = f'<worksheet xmlns="{SHEET}"><sheetData>{" " * 1_000_000}<row><c><v>7</v></c></row></sheetData></worksheet>'
    members: dict[str, str | bytes] = {
        "xl/workbook.xml": f'<workbook xmlns="{SHEET}" xmlns:r="{OFFICE}"><sheets>{sheets}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": relations(*((f"r{n}", "worksheet", f"{n}.xml") for n in range(40))),
        **{f"xl/{n}.xml": rows for n in range(40)},
    }
    path = zipped(tmp_path / "a.xlsx", members)
    allowed = 200 * path.stat().st_size
    assert 3_000_000 < allowed < 20_000_000
    reason = "files in it unpack to more than 3,000,000 bytes together, and to more than 200 times the document's size"
    (document,) = read(path)
    with pytest.raises(ReadError, match=reason):
        list(document.sentences())
    monkeypatch.setattr(archive_module, "TOGETHER", 41_000_000)
    assert len(list(document.sentences())) == 40

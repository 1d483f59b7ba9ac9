"""Documents as LibreOffice writes them: each format says what the document says, and what LibreOffice reads of it."""

from __future__ import annotations

import csv
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from phrasemate.text import read

pytestmark = pytest.mark.slow  # it starts LibreOffice for each file
NAMESPACES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for name in ("office", "text", "table", "style", "presentation")
)
DRAWING = 'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"'
NOTE = "In winter at eight."
SENTENCES = [
    "The ferry",
    "The ferry leaves at seven.",
    "Tickets are “cash” only – ask the crew & wait.",
    "Grüße aus Köln.",
    "渡し船は七時に出ます。",
    "Привет из Москвы!",
]
HEAD, FERRY, TICKETS, GREETING, JAPANESE, RUSSIAN = (text.replace("&", "&amp;") for text in SENTENCES)
DOCUMENT = f"""<office:text><text:h text:outline-level="1">{HEAD}</text:h>
<text:p>{FERRY[:-1]}<text:note text:note-class="footnote"><text:note-citation>1</text:note-citation><text:note-body>
<text:p>{NOTE}</text:p></text:note-body></text:note>.</text:p>
<text:list><text:list-item><text:p>{TICKETS}</text:p></text:list-item></text:list>
<table:table><table:table-column table:number-columns-repeated="2"/><table:table-row>
<table:table-cell><text:p>{GREETING}</text:p></table:table-cell>
<table:table-cell><text:p>{JAPANESE}</text:p></table:table-cell></table:table-row></table:table>
<text:p>{RUSSIAN}</text:p></office:text>"""
ROWS = "".join(
    f"<table:table-row><table:table-cell office:value-type='string'><text:p>{text}</text:p></table:table-cell>"
    f"<table:table-cell office:value-type='string'><text:p>x</text:p></table:table-cell></table:table-row>"
    for text in (HEAD, FERRY, TICKETS, GREETING, JAPANESE, RUSSIAN)
)
SHEET = f'<office:spreadsheet><table:table table:name="S">{ROWS}</table:table></office:spreadsheet>'
SLIDES = "".join(
    f"<draw:page draw:name='p{number}'><draw:frame><draw:text-box><text:p>{text}</text:p></draw:text-box></draw:frame>"
    "</draw:page>"
    for number, text in enumerate((HEAD, FERRY, TICKETS, GREETING, JAPANESE, RUSSIAN))
)
SHOW = f"<office:presentation>{SLIDES}</office:presentation>"
Convert = Callable[[Path, str], Path]


def flat(path: Path, kind: str, body: str) -> Path:
    """A document of OpenDocument as one XML file."""
    path.write_text(
        f'<?xml version="1.0" encoding="UTF-8"?><office:document {NAMESPACES} {DRAWING} office:version="1.3"'
        f' office:mimetype="application/vnd.oasis.opendocument.{kind}"><office:body>{body}</office:body>'
        "</office:document>",
        "utf-8",
    )
    return path


@pytest.fixture(scope="module")
def convert(tmp_path_factory: pytest.TempPathFactory) -> Convert:
    """Writes a document in another format with LibreOffice. Skips the test without one."""
    program = shutil.which("soffice")
    if program is None:
        pytest.skip("no LibreOffice is installed: apt-get install libreoffice-writer-nogui and -calc-, -impress-nogui")
    folder = tmp_path_factory.mktemp("libreoffice")

    def write(path: Path, suffix: str) -> Path:
        command = [program, "--headless", f"-env:UserInstallation={(folder / 'profile').as_uri()}", "--convert-to"]
        subprocess.run(
            [*command, suffix, "--outdir", str(folder), str(path)], check=True, capture_output=True, timeout=300
        )
        return folder / f"{path.stem}.{suffix.partition(':')[0]}"

    return write


def texts(path: Path) -> list[str]:
    return [one.text for document in read(path) for one in document.sentences()]


@pytest.mark.parametrize("suffix", ["docx", "odt", "rtf", "epub", "html", "pdf"])
def test_a_text_that_libreoffice_writes(convert: Convert, tmp_path: Path, suffix: str) -> None:
    source = flat(tmp_path / "text.fodt", "text", DOCUMENT)
    sentences = texts(convert(source, suffix))
    if suffix == "pdf":  # it says nothing of what a number is
        assert sentences == [one.replace("seven.", "seven1.") for one in SENTENCES] + ["1", NOTE]
        return
    assert sentences.count(NOTE) == 1
    assert [one for one in sentences if one != NOTE] == SENTENCES


@pytest.mark.parametrize("suffix", ["docx", "odt", "rtf"])
def test_libreoffice_reads_the_same(convert: Convert, tmp_path: Path, suffix: str) -> None:
    source = flat(tmp_path / f"again-{suffix}.fodt", "text", DOCUMENT)
    plain = convert(convert(source, suffix), "txt:Text (encoded):UTF8").read_text("utf-8-sig")
    lines = [line.strip(" •").replace("seven1.", "seven.") for line in plain.splitlines() if line.strip()]
    assert [one for one in lines if NOTE not in one] == SENTENCES


@pytest.mark.parametrize("suffix", ["xlsx", "ods"])
def test_a_workbook_that_libreoffice_writes(convert: Convert, tmp_path: Path, suffix: str) -> None:
    workbook = convert(flat(tmp_path / f"sheet-{suffix}.fods", "spreadsheet", SHEET), suffix)
    assert texts(workbook) == SENTENCES
    with convert(workbook, "csv:Text - txt - csv (StarCalc):44,34,76").open(encoding="utf-8", newline="") as file:
        assert [row[0] for row in csv.reader(file)] == SENTENCES


@pytest.mark.parametrize("suffix", ["pptx", "odp"])
def test_a_presentation_that_libreoffice_writes(convert: Convert, tmp_path: Path, suffix: str) -> None:
    assert texts(convert(flat(tmp_path / "show.fodp", "presentation", SHOW), suffix)) == SENTENCES

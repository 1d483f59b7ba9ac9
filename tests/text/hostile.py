"""Documents of each format, and what strangers may do to them: for the tests of the formats."""

from __future__ import annotations

import zipfile
from pathlib import Path

TMX = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">\n'
    '<header srclang="de" segtype="sentence" datatype="plaintext" adminlang="en" o-tmf="x" creationtool="x" '
    'creationtoolversion="1"/>\n<body>\n'
    '<tu tuid="1"><tuv xml:lang="de"><seg>Grün ist die Wiese.</seg></tuv>'
    '<tuv xml:lang="en"><seg>Green is the meadow.</seg></tuv></tu>\n</body></tmx>\n'
)
TBX = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<tbx type="TBX-Basic" style="dca" xml:lang="en" xmlns="urn:iso:std:iso:30042:ed-2"><text><body>\n'
    '<conceptEntry id="c1"><langSec xml:lang="de"><termSec><term>Grün</term></termSec></langSec>'
    '<langSec xml:lang="en"><termSec><term>green</term></termSec></langSec></conceptEntry>\n</body></text></tbx>\n'
)
XLIFF = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">'
    '<file original="a.txt" source-language="de" target-language="en" datatype="plaintext"><body>\n'
    '<trans-unit id="1"><source>Grün ist die Wiese.</source><target>Green is the meadow.</target></trans-unit>\n'
    "</body></file></xliff>\n"
)
XML = {"tmx": TMX, "tbx": TBX, "xlf": XLIFF}  # each with something German and something English

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def with_doctype(document: str, doctype: str, text: str = "Gr") -> str:
    """The document with another DOCTYPE, and ``seen`` before its first German word."""
    head, _, rest = document.partition("\n")
    rest = rest.split("\n", 1)[1] if rest.startswith("<!DOCTYPE") else rest
    return f"{head}\n{doctype}\n{rest}".replace("Gr", text, 1)


def laughs(root: str, levels: int = 12) -> str:
    """The billion laughs: entities of entities, tenfold at each level."""
    lines = ['<!ENTITY l0 "lol">', *(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, levels))]
    return f"<!DOCTYPE {root} [{''.join(lines)}]>"


def relations(*targets: tuple[str, str, str]) -> str:
    """A part that says what another refers to: id, kind, member."""
    inner = "".join(f'<Relationship Id="{i}" Type="{OFFICE}/{kind}" Target="{member}"/>' for i, kind, member in targets)
    return f'<Relationships xmlns="{PACKAGE}">{inner}</Relationships>'


def zipped(path: Path, members: dict[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def docx(path: Path, body: str, **parts: str | bytes) -> Path:
    """A Word document with this body; ``parts`` are other members, such as ``styles="<w:styles ...>"``."""
    others = {f"word/{name}.xml": content for name, content in parts.items()}
    members: dict[str, str | bytes] = {
        "_rels/.rels": relations(("r1", "officeDocument", "word/document.xml")),
        "word/_rels/document.xml.rels": relations(*((f"r{n}", n, f"{n}.xml") for n in parts)),
        "word/document.xml": f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>',
    }
    return zipped(path, {**members, **others})


def xlsx(path: Path, rows: str, strings: str = "", title: str = "S") -> Path:
    """A workbook of one sheet with these rows, and shared strings."""
    sheets = f'<sheets><sheet name="{title}" sheetId="1" r:id="r1"/></sheets>'
    book = f'<workbook xmlns="{SHEET}" xmlns:r="{OFFICE}">{sheets}</workbook>'
    return zipped(
        path,
        {
            "_rels/.rels": relations(("r1", "officeDocument", "xl/workbook.xml")),
            "xl/workbook.xml": book,
            "xl/_rels/workbook.xml.rels": relations(
                ("r1", "worksheet", "worksheets/sheet1.xml"), ("r2", "sharedStrings", "sharedStrings.xml")
            ),
            "xl/sharedStrings.xml": f'<sst xmlns="{SHEET}">{strings}</sst>',
            "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{SHEET}"><sheetData>{rows}</sheetData></worksheet>',
        },
    )

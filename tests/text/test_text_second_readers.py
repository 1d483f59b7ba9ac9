"""Every format holds the same sentences: what is read is what another reader reads, and a damaged file is one error.

The other reader is a library that the package does not use for the format, or the archive and XML modules of Python.
"""

from __future__ import annotations

import csv
import email
import email.policy
import io
import json
import random
import re
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from email.message import EmailMessage
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest
from hostile import docx, zipped

from phrasemate.errors import ReadError
from phrasemate.text import read
from phrasemate.text.corpus import SUFFIXES
from phrasemate.text.formats.archive import TOGETHER

SENTENCES = [
    "The ferry leaves at seven.",
    "Tickets are “cash” only – ask the crew & wait.",
    "Grüße aus Köln, für immer.",
    "渡し船は七時に出ます。",
]
LATIN = SENTENCES[:3]  # what a PDF with a built-in font can say


def ours(path: Path, **options: Any) -> list[str]:
    return [one.text for document in read(path, lines="sentence", **options) for one in document.sentences()]


def elements(source: str | bytes, name: str) -> list[str]:
    """The texts of the elements of a name, whatever its namespace."""
    root = ElementTree.fromstring(source)
    return ["".join(one.itertext()) for one in root.iter() if one.tag.rpartition("}")[2] == name]


def member(path: Path, name: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return archive.read(name)


class Paragraphs(HTMLParser):
    """The texts of the paragraphs of a page, by the parser of Python."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._inside = tag == "p"
        self.texts += [""] * self._inside

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "p"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.texts[-1] += data


class Format(NamedTuple):
    """``write`` makes a file of sentences, ``read`` is the second reader; ``sentences`` are what the format holds."""

    write: Callable[[Path], object]
    read: Callable[[Path], list[str]]
    sentences: list[str] = SENTENCES
    options: dict[str, Any] = {}  # noqa: RUF012


def table(delimiter: str) -> Format:
    def write(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter=delimiter).writerows([sentence, "x"] for sentence in SENTENCES)

    def second(path: Path) -> list[str]:
        with path.open(encoding="utf-8", newline="") as file:
            return [row[0] for row in csv.reader(file, delimiter=delimiter)]

    return Format(write, second)


def text(pattern: str, second: Callable[[Path], list[str]], head: str = "", tail: str = "") -> Format:
    """A text file with one stretch for each sentence; {} is the sentence, {n} its number."""

    def write(path: Path) -> None:
        pieces = [pattern.format(sentence, n=number) for number, sentence in enumerate(SENTENCES, 1)]
        path.write_text(head + "".join(pieces) + tail, "utf-8")

    return Format(write, second)


def marked_up(pattern: str, second: Callable[[Path], list[str]], head: str = "", tail: str = "") -> Format:
    """The same in XML or HTML."""

    def write(path: Path) -> None:
        path.write_text(head + "".join(pattern.format(escape(one, quote=False)) for one in SENTENCES) + tail, "utf-8")

    return Format(write, second)


def workbook() -> Format:
    import openpyxl

    def write(path: Path) -> None:
        book = openpyxl.Workbook()
        for sentence in SENTENCES:
            book.active.append([sentence, 5])
        book.save(path)

    return Format(write, lambda path: [row[0].value for row in openpyxl.load_workbook(path).active.iter_rows()])


def word() -> Format:
    body = "".join(f"<w:p><w:r><w:t>{escape(one, quote=False)}</w:t></w:r></w:p>" for one in SENTENCES)
    return Format(lambda path: docx(path, body), lambda path: elements(member(path, "word/document.xml"), "p"))


def slides() -> Format:
    import pptx

    def write(path: Path) -> None:
        show = pptx.Presentation()
        for sentence in SENTENCES:
            show.slides.add_slide(show.slide_layouts[5]).shapes.title.text = sentence
        show.save(path)

    return Format(write, lambda path: [one.shapes.title.text for one in pptx.Presentation(path).slides])


def opendocument(suffix: str) -> Format:
    from odf import draw, opendocument, table, teletype
    from odf import text as odf_text
    from odf.style import MasterPage, PageLayout

    def write(path: Path) -> None:
        if suffix == ".odt":
            document = opendocument.OpenDocumentText()
            place = document.text
        elif suffix == ".ods":
            document = opendocument.OpenDocumentSpreadsheet()
            place = table.Table(name="S")
            document.spreadsheet.addElement(place)
        else:
            document = opendocument.OpenDocumentPresentation()
            layout = PageLayout(name="l")
            document.automaticstyles.addElement(layout)
            document.masterstyles.addElement(MasterPage(name="m", pagelayoutname=layout))
            place = document.presentation
        for sentence in SENTENCES:
            paragraph = odf_text.P(text=sentence)
            if suffix == ".odt":
                place.addElement(paragraph)
                continue
            if suffix == ".ods":
                inner, outer = table.TableCell(), table.TableRow()
                inner.addElement(paragraph)
                outer.addElement(inner)
            else:
                box, inner, outer = draw.TextBox(), draw.Frame(), draw.Page(masterpagename="m")
                box.addElement(paragraph)
                inner.addElement(box)
                outer.addElement(inner)
            place.addElement(outer)
        document.save(path)

    def second(path: Path) -> list[str]:
        return [teletype.extractText(one) for one in opendocument.load(path).getElementsByType(odf_text.P)]

    return Format(write, second)


def book() -> Format:
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfile full-path="p.opf"/></container>'
    )
    names = [f"c{number}.xhtml" for number in range(len(SENTENCES))]
    items = "".join(f'<item id="{name}" href="{name}" media-type="application/xhtml+xml"/>' for name in names)
    order = "".join(f'<itemref idref="{name}"/>' for name in names)
    package = (
        f'<package xmlns="http://www.idpf.org/2007/opf"><manifest>{items}</manifest><spine>{order}</spine></package>'
    )
    pages = {
        name: f'<html xmlns="http://www.w3.org/1999/xhtml"><body><p>{escape(one, quote=False)}</p></body></html>'
        for name, one in zip(names, SENTENCES, strict=True)
    }

    def second(path: Path) -> list[str]:
        with zipfile.ZipFile(path) as archive:
            chapters = sorted(name for name in archive.namelist() if name.endswith(".xhtml"))
            return [one for name in chapters for one in Paragraphs(archive.read(name).decode()).texts]

    return Format(lambda path: zipped(path, {"META-INF/container.xml": container, "p.opf": package, **pages}), second)


def layout() -> Format:
    package = "http://ns.adobe.com/AdobeInDesign/idml/1.0/packaging"
    ranges = "<Br/>".join(f"<Content>{escape(one, quote=False)}</Content>" for one in SENTENCES)
    story = (
        f'<idPkg:Story xmlns:idPkg="{package}" DOMVersion="8.0"><Story Self="u1"><ParagraphStyleRange>'
        f"<CharacterStyleRange>{ranges}</CharacterStyleRange></ParagraphStyleRange></Story></idPkg:Story>"
    )
    design = f'<Document xmlns:idPkg="{package}"><idPkg:Story src="Stories/Story_u1.xml"/></Document>'
    members: dict[str, str | bytes] = {"designmap.xml": design, "Stories/Story_u1.xml": story}
    return Format(
        lambda path: zipped(path, members),
        lambda path: elements(member(path, "Stories/Story_u1.xml"), "Content"),
    )


def pages() -> Format:
    import pypdf
    from test_text_more_formats import pdf

    def write(path: Path) -> None:
        latin = [one.encode("cp1252").decode("latin-1") for one in LATIN]
        path.write_bytes(pdf([(50, 700 - 40 * at, one) for at, one in enumerate(latin)]))

    def second(path: Path) -> list[str]:
        return [line for line in pypdf.PdfReader(path).pages[0].extract_text().splitlines() if line.strip()]

    return Format(write, second, LATIN)


def rich_text() -> Format:
    from striprtf.striprtf import rtf_to_text

    def write(path: Path) -> None:
        coded = ("".join(c if ord(c) < 128 else f"\\u{ord(c)}?" for c in one) for one in SENTENCES)
        path.write_text("{\\rtf1\\ansi\\uc1 " + "".join(f"{one}\\par " for one in coded) + "}", "ascii")

    return Format(write, lambda path: rtf_to_text(path.read_text("ascii")).split("\n")[:-1])


def mail() -> Format:
    def write(path: Path) -> None:
        message = EmailMessage()
        message["From"], message["Subject"] = "ann@example.org", SENTENCES[0]
        message.set_content("\n\n".join(SENTENCES[1:]))
        path.write_bytes(message.as_bytes())

    def second(path: Path) -> list[str]:
        message = email.message_from_bytes(path.read_bytes(), policy=email.policy.compat32)
        content = message.get_payload(decode=True)
        assert isinstance(content, bytes)
        return [str(message["Subject"]), *content.decode().strip().split("\n\n")]

    return Format(write, second)


def catalogue() -> Format:
    from translate.storage import pypo

    def second(path: Path) -> list[str]:
        return [str(unit.target) for unit in pypo.pofile(path.open("rb")).units if unit.istranslated()]

    head = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Language: de\\n"\n\n'
    return text('msgid "m{n}"\nmsgstr "{}"\n\n', second, head)._replace(options={"lang": "de"})


def properties() -> Format:
    from translate.storage import properties

    def second(path: Path) -> list[str]:
        return [str(unit.source) for unit in properties.javautf8file(path.open("rb")).units if unit.value]

    return text("key{n} = {}\n", second)


def strings() -> Format:
    from translate.storage import jsonl10n

    def write(path: Path) -> None:
        path.write_text(json.dumps({f"k{at}": {"text": one} for at, one in enumerate(SENTENCES)}), "utf-8")

    return Format(write, lambda path: [str(unit.target) for unit in jsonl10n.JsonFile(path.open("rb")).units])


def yaml_strings() -> Format:
    import yaml

    def write(path: Path) -> None:
        path.write_text(yaml.safe_dump({"list": SENTENCES}, allow_unicode=True), "utf-8")

    return Format(write, lambda path: yaml.safe_load(path.read_text("utf-8"))["list"])


def subtitles(suffix: str) -> Format:
    import pysubs2
    import srt
    import webvtt

    if suffix in (".ass", ".ssa"):

        def write(path: Path) -> None:
            film = pysubs2.SSAFile()
            film.events = [pysubs2.SSAEvent(5000 * at, 5000 * at + 900, one) for at, one in enumerate(SENTENCES)]
            film.save(str(path))

        def second(path: Path) -> list[str]:
            lines = path.read_text("utf-8").splitlines()
            return [line.split(",", 9)[9] for line in lines if line.startswith("Dialogue:")]

        return Format(write, second)
    comma, head = (",", "") if suffix == ".srt" else (".", "WEBVTT\n\n")
    cue = f"{{n}}\n00:00:{{n}}0{comma}000 --> 00:00:{{n}}1{comma}000\n{{}}\n\n"
    if suffix == ".srt":
        return text(cue, lambda path: [one.content for one in srt.parse(path.read_text("utf-8"))])
    return text(cue, lambda path: [one.text for one in webvtt.read(path)], head)


def bilingual(suffix: str) -> Format:
    from translate.storage import tbx, tmx, xliff

    english = {"lang": "en"}
    if suffix == ".tmx":
        unit = '<tu><tuv xml:lang="en"><seg>{}</seg></tuv><tuv xml:lang="de"><seg>x</seg></tuv></tu>'
        head, tail = '<tmx version="1.4"><header srclang="en"/><body>', "</body></tmx>"
        sample = marked_up(
            unit, lambda path: [str(one.source) for one in tmx.tmxfile.parsefile(str(path)).units], head, tail
        )
    elif suffix == ".tbx":
        unit = '<termEntry><langSet xml:lang="en"><tig><term>{}</term></tig></langSet></termEntry>'
        head, tail = '<martif type="TBX" xml:lang="en"><text><body>', "</body></text></martif>"
        sample = marked_up(
            unit, lambda path: [str(one.source) for one in tbx.tbxfile.parsefile(str(path)).units], head, tail
        )
    elif suffix == ".ttx":
        unit = '<Tu><Tuv Lang="EN-GB">{}</Tuv><Tuv Lang="DE-DE">x</Tuv></Tu>'
        head = '<TRADOStag><FrontMatter><UserSettings SourceLanguage="EN-GB" TargetLanguage="DE-DE"/></FrontMatter>'
        tail = "</Raw></Body></TRADOStag>"
        sample = marked_up(unit, lambda path: elements(path.read_bytes(), "Tuv")[::2], f"{head}<Body><Raw>", tail)
    else:
        unit = '<trans-unit id="1"><source>{}</source><target>x</target></trans-unit>'
        head = (
            '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a" datatype="plaintext"'
            ' source-language="en" target-language="de"><body>'
        )
        second = xliff.xlifffile.parsefile
        sample = marked_up(
            unit, lambda path: [str(one.source) for one in second(str(path)).units], head, "</body></file></xliff>"
        )
    return sample._replace(options=english)


DOCBOOK = '<article xmlns="http://docbook.org/ns/docbook">'


def format_of(suffix: str) -> Format:
    """How a format is written, and read by another reader."""
    name = SUFFIXES[suffix]
    makers: dict[str, Callable[[], Format]] = {
        "csv": lambda: table(","),
        "docbook": lambda: marked_up(
            "<para>{}</para>", lambda path: elements(path.read_bytes(), "para"), DOCBOOK, "</article>"
        ),
        "docx": word,
        "eml": mail,
        "epub": book,
        "html": lambda: marked_up(
            "<p>{}</p>", lambda path: Paragraphs(path.read_text("utf-8")).texts, "<meta charset=utf-8>"
        ),
        "idml": layout,
        "json": strings,
        "jsonl": lambda: Format(
            lambda path: path.write_text("".join(json.dumps({"text": one}) + "\n" for one in SENTENCES), "utf-8"),
            lambda path: [json.loads(line)["text"] for line in path.read_text("utf-8").splitlines()],
        ),
        "md": lambda: text(
            "* **{}**\n", lambda path: re.findall(r"\*\*(.*?)\*\*", path.read_text("utf-8")), "# Title\n\n"
        ),
        "odf": lambda: opendocument(suffix),
        "ods": lambda: opendocument(suffix),
        "pdf": pages,
        "po": catalogue,
        "pptx": slides,
        "properties": properties,
        "rtf": rich_text,
        "subtitles": lambda: subtitles(suffix),
        "tbx": lambda: bilingual(suffix),
        "tmx": lambda: bilingual(suffix),
        "tsv": lambda: table("\t"),
        "ttx": lambda: bilingual(suffix),
        "txt": lambda: text("{}\n", lambda path: path.read_text("utf-8").splitlines()),
        "xliff": lambda: bilingual(suffix),
        "xlsx": workbook,
        "yaml": yaml_strings,
    }
    return makers[name]()


@pytest.mark.parametrize("suffix", sorted(SUFFIXES))
def test_a_second_reader_reads_the_same(tmp_path: Path, suffix: str) -> None:
    path, sample = tmp_path / f"a{suffix}", format_of(suffix)
    sample.write(path)
    assert sample.read(path) == sample.sentences
    assert [one for one in ours(path, **sample.options) if one != "Title"] == sample.sentences


def damaged(content: bytes, count: int = 40) -> Iterator[bytes]:
    """What a file may become: cut short, with bytes turned over, doubled within, and nothing but noise."""
    draw = random.Random(len(content))
    for number in range(count):
        spoiled = bytearray(content[: draw.randrange(1, len(content))] if number % 3 == 0 else content)
        for _ in range(1 + number // 4):
            spoiled[draw.randrange(len(spoiled))] = draw.randrange(256)
        if number % 5 == 0:
            at = draw.randrange(len(spoiled))
            spoiled[at:at] = spoiled[max(0, at - 200) : at] * 20
        yield bytes(spoiled)
    yield draw.randbytes(5000)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", sorted(SUFFIXES))
def test_a_damaged_file_is_read_or_is_one_error(tmp_path: Path, suffix: str) -> None:
    path, sample = tmp_path / f"a{suffix}", format_of(suffix)
    sample.write(path)
    for content in list(damaged(path.read_bytes())):
        path.write_bytes(content)
        started = time.process_time()
        with suppress(ReadError):
            assert all(isinstance(one, str) and "\0" not in one for one in ours(path, **sample.options))
        assert time.process_time() - started < 3


ARCHIVES = {
    ".docx": "word/document.xml",
    ".epub": "p.opf",
    ".idml": "Stories/Story_u1.xml",
    ".odp": "content.xml",
    ".ods": "content.xml",
    ".odt": "content.xml",
    ".pptx": "ppt/slides/slide1.xml",
    ".xlsx": "xl/worksheets/sheet1.xml",
}


def test_every_archive_is_tried() -> None:
    kinds = {SUFFIXES[suffix] for suffix in ARCHIVES}
    assert kinds == {"docx", "epub", "idml", "odf", "ods", "pptx", "xlsx"}


@pytest.mark.parametrize("suffix", sorted(ARCHIVES))
def test_a_bomb_is_refused(tmp_path: Path, suffix: str) -> None:
    path, sample = tmp_path / f"a{suffix}", format_of(suffix)
    sample.write(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    assert ARCHIVES[suffix] in members
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in members.items():
            head, _, tail = content.rpartition(b"</")
            padding = b" " * (TOGETHER // 4) if name == ARCHIVES[suffix] else b""
            archive.writestr(name, head + padding + b"</" + tail if padding else content)
    path.write_bytes(out.getvalue())
    started = time.process_time()
    with pytest.raises(ReadError, match="unpacks to"):
        ours(path, **sample.options)
    assert time.process_time() - started < 3

"""Formats that libraries read, or ZIP and XML: each held against another reader, and against a hostile file."""

from __future__ import annotations

import io
import time
import zipfile
import zlib
from pathlib import Path

import pytest

from phrasemate.errors import ReadError
from phrasemate.text import read, read_bilingual


def texts(path: Path, **options: str) -> list[str]:
    return [sentence.text for document in read(path, **options) for sentence in document.sentences()]


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def zipped(path: Path, members: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


CATALOGUE = """msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Language: de\\n"

msgid "Open the lid."
msgstr "Öffnen Sie "
"den Deckel."

#, fuzzy
msgid "Close it."
msgstr "Vielleicht falsch."

msgid "one file"
msgid_plural "%d files"
msgstr[0] "eine Datei"
msgstr[1] "%d Dateien"

#~ msgid "Old"
#~ msgstr "Alt"
"""


def test_a_catalogue_gives_the_side_that_is_asked_for(tmp_path: Path) -> None:
    from translate.storage import pypo

    path = written(tmp_path / "de.po", CATALOGUE)
    assert texts(path, lang="de") == ["Öffnen Sie den Deckel.", "eine Datei", "%d Dateien"]
    assert texts(path, lang="en") == ["Open the lid.", "Close it.", "one file", "%d files"]
    assert next(iter(read_bilingual(path))) == ("Open the lid.", "Öffnen Sie den Deckel.")
    other = [str(unit.target) for unit in pypo.pofile(path.open("rb")).units if unit.istranslated()]
    assert other[0] == texts(path, lang="de")[0]


def test_a_broken_catalogue_says_where(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match=r"line 2.*gettext"):
        texts(written(tmp_path / "a.po", 'msgid "a"\nnonsense here\n'))


@pytest.mark.parametrize(
    ("charset", "translation"), [("ISO-8859-1", "Öffnen Sie"), ("koi8-r", "Открыть"), ("EUC-JP", "開く")]
)
def test_a_catalogue_is_read_in_the_charset_of_its_header(tmp_path: Path, charset: str, translation: str) -> None:
    content = CATALOGUE.replace("UTF-8", charset).replace("Öffnen Sie", translation)
    path = written(tmp_path / "a.po", content.encode(charset))
    assert texts(path, lang="de") == [f"{translation} den Deckel.", "eine Datei", "%d Dateien"]
    path = written(tmp_path / "b.po", content)  # UTF-8 in spite of its header
    assert texts(path, lang="de")[0] == f"{translation} den Deckel."


@pytest.mark.parametrize("charset", ["CHARSET", "ascii", "utf-7", "base64", "UTF-8"])
def test_a_catalogue_whose_charset_does_not_fit_is_refused(tmp_path: Path, charset: str) -> None:
    with pytest.raises(ReadError, match="not UTF-8"):
        texts(written(tmp_path / "a.po", CATALOGUE.replace("UTF-8", charset).encode("latin-1")))


def test_the_charset_of_a_message_is_not_that_of_the_catalogue(tmp_path: Path) -> None:
    message = 'msgid ""\n"Content-Type: text/html; charset=ISO-8859-1\\n"\nmsgstr "é"\n'
    with pytest.raises(ReadError, match="not UTF-8"):
        texts(written(tmp_path / "a.po", message.encode("latin-1")))


def test_properties_are_read_as_java_reads_them(tmp_path: Path) -> None:
    from translate.storage import properties

    content = "# comment\ngreeting = Hello \\\n   world\nname: Caf\\u00e9 bar\nempty=\n"
    path = written(tmp_path / "a.properties", content)
    assert texts(path) == ["Hello world", "Café bar"]
    other = [str(unit.source) for unit in properties.javafile(path.open("rb")).units if unit.value]
    assert other == texts(path)
    assert texts(written(tmp_path / "b.properties", "a=Caf\xe9".encode("latin-1"))) == ["Café"]
    wrong = written(tmp_path / "c.properties", "fine=Good\nlong=a \\\n  b\nwrong=\\u12G4\n")
    with pytest.raises(ReadError, match=r"line 4: a wrong escape \(.*\\u12G4\); write the character itself"):
        texts(wrong)


def test_strings_of_json_and_yaml_are_read_without_keys_and_numbers(tmp_path: Path) -> None:
    import yaml

    json_ = written(
        tmp_path / "a.json", '{"title": "Hello there.", "n": 5, "list": ["One.", {"x": "Two."}], "id": "17"}'
    )
    assert texts(json_) == ["Hello there.", "One.", "Two."]
    content = "title: Hello there.\nn: 5\nyes: true\nlist:\n  - One.\n  - x: |\n      Two.\n  - 'on'\n"
    yaml_ = written(tmp_path / "a.yaml", content)
    assert texts(yaml_) == ["Hello there.", "One.", "Two.", "on"]
    loaded = yaml.safe_load(content)
    assert [loaded["title"], loaded["list"][0], loaded["list"][1]["x"].strip(), loaded["list"][2]] == texts(yaml_)


def test_json_and_yaml_that_cannot_be_read_say_where_and_why(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match=r"a\.json: broken JSON \(.*4300 digits.*\); give ordinary JSON"):
        texts(written(tmp_path / "a.json", '{"a": "One.", "n": ' + "9" * 5000 + "}"))
    long = written(tmp_path / "b.json", '{"a": "One.", "b": "' + "x" * 1_000_001 + '", "c": "Two."}')
    with pytest.raises(ReadError, match="a text of 1,000,001 characters; expected at most 1,000,000; split it"):
        texts(long)
    assert texts(long, on_error="skip") == ["One.", "Two."]
    with pytest.raises(ReadError, match=r"a\.yaml, line 3: not YAML \(expected ',' or '\]', but got ':'\); fix it"):
        texts(written(tmp_path / "a.yaml", "a: One.\nb: [x\nc: d\n"))
    with pytest.raises(ReadError, match=r"b\.yaml: not YAML \(unacceptable character #x0001"):  # it names no line
        texts(written(tmp_path / "b.yaml", "a: \x01\n"))


def test_aliases_of_yaml_do_not_grow(tmp_path: Path) -> None:
    laughs = "a0: &a0 [ha ha]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 20))
    assert texts(written(tmp_path / "a.yml", laughs)) == ["ha ha"]
    with pytest.raises(ReadError, match="nested"):
        texts(written(tmp_path / "b.yml", "[" * 200))
    with pytest.raises(ReadError, match="nested"):
        texts(written(tmp_path / "b.json", "[" * 200_000))


SUBTITLES = """1
00:00:01,000 --> 00:00:02,000
<i>We go home</i>
and then

2
00:00:02,100 --> 00:00:03,000
we eat.

3
00:00:09,000 --> 00:00:10,000
- Who is it?
"""


def test_subtitles_are_joined_into_sentences(tmp_path: Path) -> None:
    import srt
    import webvtt

    path = written(tmp_path / "a.srt", SUBTITLES)
    assert texts(path) == ["We go home and then we eat.", "- Who is it?"]
    assert "we eat." in [cue.content for cue in srt.parse(SUBTITLES)]
    vtt = "WEBVTT\n\n" + SUBTITLES.replace(",", ".").replace("\n1\n", "\n")
    path = written(tmp_path / "a.vtt", vtt)
    assert texts(path) == ["We go home and then we eat.", "- Who is it?"]
    assert webvtt.read(path)[1].text == "we eat."
    path = written(
        tmp_path / "c.vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Bob>Salt &amp; pepper,&nbsp;</v>&lt;b&gt;.\n"
    )
    assert texts(path) == ["Salt & pepper, <b>."]  # entities of WebVTT; SubRip has none
    assert texts(written(tmp_path / "c.srt", SUBTITLES.replace("we eat", "&amp;"))) == [
        "We go home and then &amp;.",
        "- Who is it?",
    ]
    with pytest.raises(ReadError, match="subtitles"):
        texts(written(tmp_path / "b.srt", "no cue"))


@pytest.mark.parametrize(
    ("cue", "expected"),
    [
        ("- Where is he?\n- Gone.", ["- Where is he?", "- Gone."]),
        ("- Where\n  is he\n– Gone", ["- Where is he", "– Gone"]),
        ("Where is he?\n-Gone.", ["Where is he?", "-Gone."]),
        ("<i>- Where is he</i>\n<i>- Gone</i>", ["- Where is he", "- Gone"]),
        (">> Where is he\n>> Gone", [">> Where is he", ">> Gone"]),
        ("He is\n\n2\n00:00:02,000 --> 00:00:03,000\n>> Gone", ["He is", ">> Gone"]),
        ("He is\nwell-known", ["He is well-known"]),
    ],
)
def test_each_speaker_of_a_subtitle_has_a_sentence(tmp_path: Path, cue: str, expected: list[str]) -> None:
    assert texts(written(tmp_path / "a.srt", f"1\n00:00:01,000 --> 00:00:02,000\n{cue}\n")) == expected
    cue = cue.replace("2,000", "2.000").replace("3,000", "3.000").replace(">>", "&gt;&gt;")
    vtt = f"WEBVTT\n\n00:00:01.000 --> 00:00:02.000\n{cue}\n"
    assert texts(written(tmp_path / "a.vtt", vtt)) == expected


def test_markdown_is_read_without_marks_and_code(tmp_path: Path) -> None:
    content = (
        "---\ntitle: x\n---\n# A *fine* title\n\nSome **bold** text\nin `two` lines.<br>New"
        " [link](http://x).\n\n```\ncode\n```\n\n"
        "- first\n- second &amp; third\n\n| a | b |\n|---|---|\n| cell | other |\n"
    )
    path = written(tmp_path / "a.md", content)
    expected = ["A fine title", "Some bold text in two lines.", "New link.", "first", "second & third"]
    assert texts(path) == [*expected, "a", "b", "cell", "other"]
    [document] = read(path)
    assert [(s.line, s.metadata.get("heading")) for s in document.sentences()][:2] == [(4, 1), (6, None)]
    assert texts(written(tmp_path / "b.md", "> " * 5000 + "deep\n\nEnd.\n")) == ["End."]
    picture = f"![dog](data:image/png;base64,{'QUJD' * 300_000}) runs.\n"
    assert texts(written(tmp_path / "c.md", picture)) == ["dog runs."]


def test_docbook_is_read_by_blocks(tmp_path: Path) -> None:
    from lxml import etree

    content = (
        "<article xmlns='http://docbook.org/ns/docbook'><title>The title</title><para>Press"
        " <guibutton>OK</guibutton> now"
        "<footnote><para>A note.</para></footnote>.<programlisting>x = 1</programlisting>Then wait.</para></article>"
    )
    path = written(tmp_path / "a.docbook", content)
    assert texts(path) == ["The title", "A note.", "Press OK now.", "Then wait."]
    assert etree.parse(path).getroot()[0].text == "The title"
    old = "<!DOCTYPE book PUBLIC 'x' 'y.dtd'><book><para>Caf&eacute; au lait.</para></book>"
    assert texts(written(tmp_path / "b.dbk", old)) == ["Café au lait."]
    parts = "<!DOCTYPE book PUBLIC 'x' 'y.dtd' [%parts;]><book><para>Of &eacute;t&eacute;.</para></book>"
    assert texts(written(tmp_path / "d.dbk", parts)) == ["Of été."]
    with pytest.raises(ReadError, match="the entity &nonsense; is not one of XML's own, and no DTD is read"):
        texts(written(tmp_path / "e.dbk", old.replace("eacute", "nonsense")))
    bomb = "<!DOCTYPE book [<!ENTITY a 'aaaa'>]><book><para>&a;</para></book>"
    with pytest.raises(ReadError, match="entity"):
        texts(written(tmp_path / "c.dbk", bomb))


RTF = (
    r"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Times;}{\f1\fcharset204 Arial CYR;}}{\info{\title"
    r" Secret}}\pard Caf\'e9 \b bold\b0"
    r"  text.\par Second{\v hidden} line.\par \f1\'cf\'f0\'e8\'e2\'e5\'f2\f0 , \u8364? {\field{\*\fldinst HYPERLINK x}"
    r"{\fldrslt link}} a{\footnote Foot note.} end{\deleted gone}.\par\trowd A\cell B\cell\row}"
)


def test_rtf_is_read_with_its_fonts_notes_and_hidden_text(tmp_path: Path) -> None:
    from striprtf.striprtf import rtf_to_text

    path = written(tmp_path / "a.rtf", RTF)
    assert texts(path) == ["Café bold text.", "Second line.", "Foot note.", "Привет, € link a end.", "A", "B"]
    assert rtf_to_text(RTF).splitlines()[0] == "Café bold text."
    with pytest.raises(ReadError, match="nested"):
        texts(written(tmp_path / "b.rtf", r"{\rtf1" + "{" * 100_000))


@pytest.mark.parametrize("line_end", ["\n", "\r", "\r\n"])
def test_an_end_of_line_behind_a_backslash_ends_a_paragraph_of_rtf(tmp_path: Path, line_end: str) -> None:
    """As TextEdit writes it (RTF 1.9, "Special Characters")."""
    content = f"{{\\rtf1{{\\info a\\{line_end}b}}\\ansi One\\{line_end}Two{line_end} continues.\\{line_end}Three}}"
    assert texts(written(tmp_path / "a.rtf", content)) == ["One", "Two continues.", "Three"]


def test_a_code_page_of_rtf_that_nobody_knows_is_read_as_that_of_windows(tmp_path: Path) -> None:
    assert texts(written(tmp_path / "a.rtf", r"{\rtf1\ansi\ansicpg99999 Caf\'e9 \'80\par}")) == ["Café €"]


def test_breaks_of_opendocument_stand_and_what_is_within_comments_does_not(tmp_path: Path) -> None:
    space = "urn:oasis:names:tc:opendocument:xmlns"
    content = (
        f'<o:document-content xmlns:o="{space}:office:1.0" xmlns:x="{space}:text:1.0"><x:p>One<x:line-break/>two'
        "<x:tab/>three<o:annotation><x:p>A comment<x:s/>.</x:p></o:annotation>.</x:p></o:document-content>"
    )
    [document] = read(zipped(tmp_path / "a.odt", {"content.xml": content}), lines="sentence")
    assert [one.text for one in document.sentences()] == ["One\ntwo\tthree."]


def test_opendocument_texts_and_workbooks(tmp_path: Path) -> None:
    from odf import teletype
    from odf.opendocument import OpenDocumentSpreadsheet, OpenDocumentText, load
    from odf.table import Table, TableCell, TableRow
    from odf.text import H, Note, NoteBody, NoteCitation, P, S

    document = OpenDocumentText()
    document.text.addElement(H(outlinelevel=2, text="A heading"))
    paragraph = P(text="Two")
    paragraph.addElement(S(c=3))
    paragraph.addText("words.")
    note = Note(noteclass="footnote")
    note.addElement(NoteCitation(text="1"))
    body = NoteBody()
    body.addElement(P(text="A note."))
    note.addElement(body)
    paragraph.addElement(note)
    document.text.addElement(paragraph)
    document.save(tmp_path / "a.odt")
    assert texts(tmp_path / "a.odt") == ["A heading", "A note.", "Two   words."]
    assert teletype.extractText(load(tmp_path / "a.odt").getElementsByType(H)[0]) == "A heading"

    workbook = OpenDocumentSpreadsheet()
    table = Table(name="S")
    for cells in (("en", "de"), ("bank", "Bank"), ("river", "Fluss")):
        row = TableRow()
        for cell in cells:
            row.addElement(TableCell())
            row.lastChild.addElement(P(text=cell))
        table.addElement(row)
    table.addElement(TableRow(numberrowsrepeated="1000000"))
    workbook.spreadsheet.addElement(table)
    workbook.save(tmp_path / "a.ods")
    assert texts(tmp_path / "a.ods", column="de") == ["Bank", "Fluss"]


def test_an_opendocument_bomb_is_refused(tmp_path: Path) -> None:
    head = '<o:document-content xmlns:o="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    head += 'xmlns:t="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
    head += 'xmlns:x="urn:oasis:names:tc:opendocument:xmlns:text:1.0">'
    row = f'<t:table-row><t:table-cell t:number-columns-repeated="99999999"><x:p>{"long " * 5000}</x:p>'
    row += "</t:table-cell></t:table-row>"
    with pytest.raises(ReadError, match="one entry"):
        texts(zipped(tmp_path / "a.ods", {"content.xml": f"{head}<t:table>{row}</t:table></o:document-content>"}))
    with pytest.raises(ReadError, match="unpacks"):
        texts(zipped(tmp_path / "a.odt", {"content.xml": head + " " * 50_000_000}))


def test_slides_and_their_notes(tmp_path: Path) -> None:
    from pptx import Presentation

    show = Presentation()
    slide = show.slides.add_slide(show.slide_layouts[1])
    slide.shapes.title.text = "The title"
    slide.placeholders[1].text = "First point.\nSecond point."
    slide.notes_slide.notes_text_frame.text = "Say hello."
    show.save(tmp_path / "a.pptx")
    other = [shape.text_frame.text for shape in Presentation(tmp_path / "a.pptx").slides[0].shapes]
    assert texts(tmp_path / "a.pptx") == [
        "\n".join(other).split("\n")[0],
        "First point.",
        "Second point.",
        "Say hello.",
    ]
    with pytest.raises(ReadError, match="ZIP"):
        texts(written(tmp_path / "b.pptx", "no archive"))


def test_symbol_fonts_of_rtf(tmp_path: Path) -> None:
    fonts = r"{\fonttbl{\f0 Times;}{\f1\ftech\fcharset2 Symbol;}{\f2\fcharset2 Webdings;}}"
    body = r"{\f0 5 {\f1 m}m, x {\f1\'b3} 3, {\f1\u-3987\'6d} {\f2 a}{\b m}}\par"
    path = written(tmp_path / "a.rtf", rf"{{\rtf1\ansi\ansicpg1252{fonts}{body}}}")
    assert texts(path) == ["5 µm, x ≥ 3, µ \ufffdm"]


def test_fields_symbols_and_equations_of_slides(tmp_path: Path) -> None:
    drawing = "http://schemas.openxmlformats.org/drawingml/2006/main"
    show = "http://schemas.openxmlformats.org/presentationml/2006/main"
    math = "http://schemas.openxmlformats.org/officeDocument/2006/math"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    body = (
        '<a:p><a:r><a:t>Page </a:t></a:r><a:fld type="slidenum"><a:t>7</a:t></a:fld><a:r><a:t>of</a:t></a:r></a:p>'
        '<a:p><a:r><a:t>5 </a:t></a:r><a:r><a:rPr><a:sym typeface="Symbol"/></a:rPr><a:t>\uf06d</a:t></a:r>'
        "<a:r><a:t>m wide</a:t></a:r></a:p><a:p><a:r><a:t>If </a:t></a:r><mc:AlternateContent><mc:Choice>"
        "<m:oMath><m:r><m:t>x</m:t></m:r><m:f><m:num><m:r><m:t>a</m:t></m:r></m:num><m:den><m:r><m:t>b</m:t>"
        "</m:r></m:den>"
        "</m:f></m:oMath></mc:Choice><mc:Fallback><a:r><a:t>picture</a:t></a:r></mc:Fallback>"
        "</mc:AlternateContent></a:p>"
    )
    spaces = f'xmlns:a="{drawing}" xmlns:p="{show}" xmlns:m="{math}" '
    spaces += 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    relation = f'<Relationship Id="r" Type="{office}/slide" Target="s.xml"/>'
    related = "http://schemas.openxmlformats.org/package/2006/relationships"
    slides = f'<p:presentation xmlns:p="{show}" xmlns:r="{office}"><p:sldId r:id="r"/></p:presentation>'
    members = {
        "ppt/presentation.xml": slides,
        "ppt/_rels/presentation.xml.rels": f'<Relationships xmlns="{related}">{relation}</Relationships>',
        "ppt/s.xml": f"<p:sld {spaces}>{body}</p:sld>",
    }
    assert texts(zipped(tmp_path / "a.pptx", members)) == ["Page of", "5 µm wide", "If xa/b"]
    body = "<a:p><a:r><a:t>Over</a:t></a:r><a:br/><a:r><a:t>under</a:t></a:r></a:p>"
    members["ppt/s.xml"] = f"<p:sld {spaces}>{body}</p:sld>"
    lost = '<p:sldId r:id="lost"/>'  # a slide without a part of the archive
    members["ppt/presentation.xml"] = slides.replace("<p:sldId", f"{lost}<p:sldId")
    [document] = read(zipped(tmp_path / "b.pptx", members), lines="sentence")
    assert [(one.text, one.metadata) for one in document.sentences()] == [("Over\nunder", {"slide": 2})]


def test_layouts_of_indesign(tmp_path: Path) -> None:
    package = "http://ns.adobe.com/AdobeInDesign/idml/1.0/packaging"
    story = (
        f'<i:Story xmlns:i="{package}"><Story Self="u1"><ParagraphStyleRange><CharacterStyleRange>'
        f"<Content>Open the </Content>"
        '</CharacterStyleRange><Change ChangeType="DeletedText"><Content>gone</Content></Change><CharacterStyleRange>'
        "<Content>lid.</Content><Br/><Content>Close it.</Content></CharacterStyleRange>"
        "</ParagraphStyleRange></Story></i:Story>"
    )
    layout = f'<Document xmlns:i="{package}"><i:Story src="Stories/Story_u1.xml"/></Document>'
    path = zipped(tmp_path / "a.idml", {"designmap.xml": layout, "Stories/Story_u1.xml": story})
    assert texts(path) == ["Open the lid.", "Close it."]
    parts = (
        f'<i:Story xmlns:i="{package}"><Story><Content>Before </Content><Footnote><Content>A note.</Content></Footnote>'
        "<Content>and after.</Content><Br/><Cell><Content>One</Content></Cell><Cell><Content>two</Content></Cell>"
        "</Story></i:Story>"
    )
    path = zipped(tmp_path / "c.idml", {"designmap.xml": layout, "Stories/Story_u1.xml": parts})
    assert texts(path) == ["A note.", "Before and after.", "One", "two"]
    twice = layout.replace("</Document>", '<i:Story src="Stories/Story_u1.xml"/></Document>')
    with pytest.raises(ReadError, match="several parts"):
        texts(zipped(tmp_path / "b.idml", {"designmap.xml": twice, "Stories/Story_u1.xml": story}))


def test_books_are_read_in_the_order_of_their_spine(tmp_path: Path) -> None:
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfile full-path="o/p.opf"/></container>'
    )
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="b" href="two.xhtml"'
        ' media-type="application/xhtml+xml"/>'
        '<item id="a" href="o%20ne.xhtml" media-type="application/xhtml+xml"/></manifest>'
        '<spine><itemref idref="a"/><itemref idref="b"/></spine></package>'
    )
    members = {"META-INF/container.xml": container, "o/p.opf": package, "o/two.xhtml": "<p>Second page."}
    path = zipped(tmp_path / "a.epub", members | {"o/o ne.xhtml": "<h1>One</h1><p>Café.</p>"})
    assert texts(path) == ["One", "Café.", "Second page."]
    with pytest.raises(ReadError, match="no o/o ne"):
        texts(zipped(tmp_path / "b.epub", members))
    with pytest.raises(ReadError, match=r"no web page \(no element found .*\); check the file"):
        texts(zipped(tmp_path / "c.epub", members | {"o/o ne.xhtml": ""}))
    rights = {"META-INF/encryption.xml": "<x/>", "META-INF/rights.xml": "<x/>"}
    with pytest.raises(ReadError, match="an e-book that is encrypted; expected one without protection; convert it"):
        texts(zipped(tmp_path / "d.epub", members | rights))


def pdf(*pages: list[tuple[int, int, str]]) -> bytes:
    """Pages with lines of text at places in points, each as one compressed stream."""
    kids = b" ".join(b"%d 0 R" % (4 + 2 * at) for at in range(len(pages)))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, len(pages)),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
    ]
    for lines in pages:
        drawn = "".join(f"BT /F 10 Tf {x} {y} Td ({text}) Tj ET\n" for x, y, text in lines)
        stream = zlib.compress(drawn.encode("latin-1"))
        size = b"/MediaBox[0 0 600 800]/Contents %d 0 R" % (len(objects) + 2)
        objects.append(b"<</Type/Page/Parent 2 0 R" + size + b"/Resources<</Font<</F 3 0 R>>>>>>")
        objects.append(b"<</Filter/FlateDecode/Length %d>>stream\n" % len(stream) + stream + b"\nendstream")
    out = io.BytesIO(b"%PDF-1.4\n")
    out.seek(0, 2)
    places = []
    for number, content in enumerate(objects, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj" % number + content + b"endobj\n")
    table = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    out.write(b"".join(b"%010d 00000 n \n" % place for place in places))
    out.write(b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, table))
    return out.getvalue()


def test_a_pdf_is_read_column_by_column_with_its_hyphens_joined(tmp_path: Path) -> None:
    from pypdf import PdfReader

    remaining = [
        "The left column of the page tells",
        "of a company that was founded by",
        "two friends, and its develop-",
        "ment was quick.",
    ]
    right = [
        "On the right side of the same",
        "page there is another text that",
        "speaks of a river with old",
        "bridges over it.",
    ]
    rows = zip(remaining, right, strict=True)
    drawn = [place for at, (a, b) in enumerate(rows) for place in ((50, 700 - 12 * at, a), (320, 700 - 12 * at, b))]
    path = written(tmp_path / "a.pdf", pdf(drawn))
    assert texts(path) == [
        "The left column of the page tells of a company that was founded by two friends, and its development"
        " was quick.",
        "On the right side of the same page there is another text that speaks of a river with old bridges over it.",
    ]
    assert sorted(PdfReader(path).pages[0].extract_text().replace("\n", " ").split()) == sorted(
        " ".join(remaining + right).split()
    )


@pytest.mark.parametrize("count", [3, 12])
def test_running_heads_and_page_numbers_are_left_out(tmp_path: Path, count: int) -> None:
    def page(number: int) -> list[tuple[int, int, str]]:
        name = "abcdefghijkl"[number - 1] * 9
        return [
            (50, 780, f"{number} The Old Ferry" if number % 2 else f"The Old Ferry {number}"),
            (50, 700, f"The captain told {name} once more, which was"),
            (50, 688, f"well-known to {name} who lived there."),
            (50, 600, "12 13"),  # of a table
            (300, 30, f"- {number} -"),
        ]

    path = written(tmp_path / "a.pdf", pdf(*map(page, range(1, count + 1))))
    sentences = [(one.text, one.metadata["page"]) for document in read(path) for one in document.sentences()]
    expected = "The captain told aaaaaaaaa once more, which was well-known to aaaaaaaaa who lived there."
    assert sentences[:2] == [(expected, 1), ("12 13", 1)]
    heads = [text for text, _ in sentences if "Ferry" in text]
    assert heads == ([] if count > 4 else ["The Old Ferry 2"])  # alone with its number on this side
    assert not any(text.startswith("-") for text, _ in sentences)


def test_a_paragraph_continues_on_the_next_page(tmp_path: Path) -> None:
    first = [
        (50, 112, "The captain told the story once more, which was"),
        (50, 100, "well known to all who lived near the har-"),
    ]
    second = [(50, 700, "bour, and to the others as well. So it was."), (50, 640, "An end.")]
    path = written(tmp_path / "a.pdf", pdf(first, second))
    assert texts(path) == [
        "The captain told the story once more, which was well known to all who lived near the harbour, and to the"
        " others as well.",
        "So it was.",
        "An end.",
    ]


def test_a_small_pdf_that_needs_any_memory_is_refused(tmp_path: Path) -> None:
    packer, block, checksum = zlib.compressobj(9), b" " * 1_000_000, 1
    first, other = (packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    for _ in range(800):
        checksum = zlib.adler32(block, checksum)
    packed = first + 799 * other + b"\x03\x00" + checksum.to_bytes(4, "big")  # 800 MB
    stream = zlib.compress(packed, 9)  # some KB, which pdfium unpacks twice
    content = pdf([(50, 700, "x")])
    at = content.index(b"<</Filter/FlateDecode")
    end = content.index(b"endobj", at)
    filters = b"<</Filter[/FlateDecode/FlateDecode]/Length %d>>stream\n" % len(stream)
    path = written(tmp_path / "a.pdf", content[:at] + filters + stream + b"\nendstream" + content[end:])
    assert path.stat().st_size < 5000
    started = time.process_time()
    with pytest.raises(ReadError, match="page 1 of a PDF that needs more than 500 MB of memory or 30 s"):
        texts(path)
    assert time.process_time() - started < 2  # here; the process that reads it is another
    sound = written(tmp_path / "b.pdf", pdf([(50, 700, "Sound.")]))
    assert [one.text for document in read(path, sound, on_error="skip") for one in document.sentences()] == ["Sound."]


def test_a_pdf_without_text_or_in_pieces_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="text layer"):
        texts(written(tmp_path / "a.pdf", pdf([])))
    with pytest.raises(ReadError, match="cannot be read"):
        texts(written(tmp_path / "b.pdf", b"%PDF-1.4\nnothing"))
    with pytest.raises(ReadError, match="not a PDF"):
        texts(written(tmp_path / "c.pdf", "plain"))


@pytest.mark.parametrize("name", ["a.po", "a.properties", "a.json", "a.yaml", "a.srt", "a.md"])
def test_a_file_in_another_encoding_or_too_large_is_refused(tmp_path: Path, name: str) -> None:
    if name != "a.properties":
        with pytest.raises(ReadError, match="UTF-8"):
            texts(written(tmp_path / name, b"Caf\xe9 au lait"))
    with (tmp_path / name).open("wb") as file:
        file.truncate(70_000_000)
    with pytest.raises(ReadError, match="bytes"):
        texts(tmp_path / name)

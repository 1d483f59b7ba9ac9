"""Inline codes of translators' formats: what parts the words beside it, and what does not."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import pytest
from hostile import write

from phrasemate.text import read
from phrasemate.text.formats.bilingual import read_units
from phrasemate.text.formats.codes import gap_of_content, gap_of_id, gap_of_name, spaced
from phrasemate.text.term_lists import read_terms

TMX = '<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>{}</seg></tuv></tu></body></tmx>'
OLD = (
    '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a" source-language="en" '
    'target-language="de">{head}<body><trans-unit id="1"><source>{text}</source></trans-unit></body></file></xliff>'
)
NEW = (
    '<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en"><file id="f"><unit id="u">'
    "{data}<segment><source>{text}</source></segment></unit></file></xliff>"
)
SDL = '<header><tag-defs xmlns="http://sdl.com/FileTypes/SdlXliff/1.0">{}</tag-defs></header>'


def words_around(content: str) -> str:
    """What a code that holds this leaves of "green" and "tea" on its two sides."""
    return spaced(f"green{gap_of_content(content)}tea")


@pytest.mark.parametrize(
    "content",
    [
        *["\t", "\n", " ", "\u00a0", "\\t", "\\n", "\\r\\n", "&nbsp;", "&#160;", "&#9;", "&emsp;"],
        *["<br>", "<br/>", "<BR />", '<br class="x"/>', "&lt;br/&gt;", "</td><td>", "<w:br/>", "<w:tab/>", "<w:ptab/>"],
        *[
            "<text:line-break/>",
            "<text:tab/>",
            "<text:s/>",
            "<b> </b>",
            '<mq:ch val="\t" />',
            "\\tab ",
            "\\line",
            "↵",
            "→",
        ],
        *["\\u000a", "\\x09", "\\011", "\\\\n", "\\u{a0}", "%0A", "{\\n}", "<\\t>", "␉", "␤", "·", "\\~", "\\'a0"],
        *[
            "<Char HardReturn>",
            "<entry>",
            "<table:table-cell>",
            "<a:br></a:br>",
            '<mq:rxt val="\\n"/>',
            "[hard return]",
        ],
        *["[br]", "{nbsp}", "<Tab/>", "<br1/>", "</b><br/><i>", "<x id='1' ctype='x-br'/>", "^t", "^l"],
    ],
)
def test_a_code_that_is_white_space_is_a_space(content: str) -> None:
    assert words_around(content) == "green tea"


@pytest.mark.parametrize(
    "content",
    ["<p>", "</p><p>", "</div>", "<br/><br/>", "\n\n", "\\n\\n", "</li>\n<li>", "<row>"],
)
def test_a_code_that_is_a_paragraph_is_a_blank_line(content: str) -> None:
    assert words_around(content) == "green\n\ntea"


@pytest.mark.parametrize(
    "content",
    [
        *["", "<b>", "</b>", "<b/>", "{0}", "%s", "{\\b ", "}", "<", "<ruby>", "<abbr>", "<img src='a b.png'/>", "<1>"],
        *["{title}", "[item]", "{row}", "\\u0041", "\\x41", "\\101", "·a", "<Char Bold>"],
        *["\u200b", "\u00ad", "<s>", "<x-tabular>", "\\pard", "\\text", "<a title='1 < 2'>", "&amp;", "<g id='1'>"],
    ],
)
def test_a_code_within_a_word_is_nothing(content: str) -> None:
    assert words_around(content) == "greentea"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *[(name, "a b") for name in ("lb", "x-lb", "xlf:lb", "br", "x-html-br", "x-tab", "tab", "LINE_BREAK", "x-td")],
        *[(name, "a b") for name in ("x-carriage-return", "x-line-feed", "softBreak", "x-no-break-space", "eol")],
        *[(name, "a b") for name in ("x-tab-char", "pageBreak", "crlf", "x-entry")],
        *[(name, "a\n\nb") for name in ("x-list-item", "pb", "xlf:pb", "x-html-p", "x-div", "h1")],
        *[
            (name, "ab")
            for name in (
                "",
                "bold",
                "x-html-b",
                "image",
                "link",
                "x-s",
                "fmt",
                "x-label",
                "x-wbr",
                "x-breakfast",
                "spaceship",
            )
        ],
    ],
)
def test_the_type_of_a_code(name: str, expected: str) -> None:
    assert spaced(f"a{gap_of_name(name)}b") == expected


def test_there_is_one_space_where_white_space_stands_beside_a_gap_and_none_at_the_ends() -> None:
    line, paragraph = gap_of_name("br"), gap_of_name("p")
    assert spaced(f"{paragraph}One {line} two\n{line}three{line}{line}four{paragraph}") == "One two\nthree\n\nfour"
    assert spaced(" as  it \n is ") == " as  it \n is "


CODES = {
    "tmx-ph": TMX.format("Shut the door.<ph>{code}</ph>Turn the key."),
    "tmx-it": TMX.format('Shut the door.<it pos="begin">{code}</it>Turn the key.'),
    "tmx-ut": TMX.format("Shut the door.<ut>{code}</ut>Turn the key."),
    "tmx-type": TMX.format('Shut the door.<ph type="x-br"/>Turn the key.'),
    "tmx-pair": TMX.format("<bpt i='1'>&lt;i></bpt>Shut the door.<ept i='1'>{code}</ept>Turn the key."),
    "xliff-ph": OLD.format(head="", text="Shut the door.<ph id='1'>{code}</ph>Turn the key."),
    "xliff-equiv": OLD.format(head="", text="Shut the door.<x id='1' equiv-text='{code}'/>Turn the key."),
    "xliff-ctype": OLD.format(head="", text="Shut the door.<x id='1' ctype='x-html-br'/>Turn the key."),
    "xliff-group": OLD.format(head="", text="<g id='1' ctype='x-html-p'>Shut the door.</g>Turn the key."),
    "xliff-halves": OLD.format(
        head="", text="<bx id='1' rid='7' ctype='x-html-p'/>Shut the door.<ex id='2' rid='7'/>Turn the key."
    ),
    "xliff-half-by-id": OLD.format(head="", text="<bpt id='1'>&lt;p></bpt>Shut the door.<ept id='1'/>Turn the key."),
    "xliff-name": OLD.format(head="", text="Shut the door.<x id='LINE_BREAK_1'/>Turn the key."),
    "tmx-half": TMX.format("<bpt i='1' type='p'/>Shut the door.<ept i='1'/>Turn the key."),
    "xliff2-halves": NEW.format(
        data="", text="<sc id='1' subType='xlf:pb'/>Shut the door.<ec startRef='1'/>Turn the key."
    ),
    "xliff2-start": NEW.format(data="", text="Shut the door.<pc id='1' dispStart='{code}'>Turn the key.</pc>"),
    **{
        f"unknown-{tag}": OLD.format(head="", text=f"Shut the door.<{tag} id='1'/>Turn the key.") for tag in ("x", "ex")
    },
    "tmx-unknown": TMX.format("Shut the door.<ph x='1'/>Turn the key."),
    "unknown-xliff2": NEW.format(data="", text="Shut the door.<ph id='1'/>Turn the key."),
    "xliff-sdl": OLD.format(
        head=SDL.format('<tag id="7"><ph name="x">{code}</ph></tag>'),
        text="Shut the door.<x id='7'/>Turn the key.",
    ),
    "xliff-sdl-name": OLD.format(
        head=SDL.format('<tag id="7"><ph name="br"/></tag>'), text="Shut the door.<x id='7'/>Turn the key."
    ),
    "xliff-sdl-white": OLD.format(
        head=SDL.format('<tag id="7"><ph name="x" is-whitespace="true">y</ph></tag>'),
        text="Shut the door.<x id='7'/>Turn the key.",
    ),
    "xliff2-equiv": NEW.format(data="", text="Shut the door.<ph id='1' equiv='{code}'/>Turn the key."),
    "xliff2-disp": NEW.format(data="", text="Shut the door.<ph id='1' disp='{code}'/>Turn the key."),
    "xliff2-type": NEW.format(data="", text="Shut the door.<ph id='1' type='fmt' subType='xlf:lb'/>Turn the key."),
    "xliff2-data": NEW.format(
        data="<originalData><data id='d'>{code}</data></originalData>",
        text="Shut the door.<ph id='1' dataRef='d'/>Turn the key.",
    ),
    "xliff2-character": NEW.format(
        data="<originalData><data id='d'><cp hex='000B'/></data></originalData>",
        text="Shut the door.<ph id='1' dataRef='d'/>Turn the key.",
    ),
    "xliff2-pair": NEW.format(
        data="<originalData><data id='a'>&lt;p></data><data id='b'>{code}</data></originalData>",
        text="<pc id='1' dataRefStart='a' dataRefEnd='b'>Shut the door.</pc>Turn the key.",
    ),
}


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("code", ["<br/>", "\\n", "</p>"])
def test_sentences_on_the_two_sides_of_a_code_are_two(tmp_path: Path, kind: str, code: str) -> None:
    document = CODES[kind].replace("{code}", html.escape(code))
    path = write(tmp_path / ("a.tmx" if kind.startswith("tmx") else "a.xlf"), document)
    sentences: Any = [one.text for file in read(path, lang="en") for one in file.sentences()]
    assert sentences == ["Shut the door.", "Turn the key."]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fire<x id='1'/>proof", "fireproof"),
        ("version 2.<x id='1'/>Five", "version 2.Five"),  # a number
        ("node.<x id='1'/>js", "node.js"),
        ("Stop.<x id='1' equiv-text='{0}'/>More", "Stop.More"),
        ("Why?<x id='1'/><x id='2'/>It is.", "Why? It is."),
        ("<bx id='1' ctype='bold'/>fire<ex id='1'/>proof", "fireproof"),
        ("<bx id='1' ctype='x-td'/>fire<ex id='1'/>door", "fire door"),
    ],
)
def test_a_code_that_says_nothing_parts_sentences_alone(tmp_path: Path, text: str, expected: str) -> None:
    (unit,) = read_units(write(tmp_path / "a.xlf", OLD.format(head="", text=text)))
    assert unit.sides[0].text == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *[("START_PARAGRAPH", "a\n\nb"), ("CLOSE_TAG_DIV_1", "a\n\nb"), ("START_TABLE_CELL", "a b")],
        *[
            ("START_HEADING_LEVEL1", "a\n\nb"),
            ("HORIZONTAL_RULE", "a\n\nb"),
            ("nbsp", "a b"),
            ("CLOSE_LIST_ITEM", "a\n\nb"),
        ],
        *[(name, "ab") for name in ("START_BOLD_TEXT", "INTERPOLATION", "title", "item", "address", "p1", "17", "")],
    ],
)
def test_the_id_of_a_code_that_is_a_name(name: str, expected: str) -> None:
    assert spaced(f"a{gap_of_id(name)}b") == expected


PHRASE = (
    '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:m="{uri}"><file original="a" '
    'source-language="en" target-language="de"><body><trans-unit id="1"><source>{text}</source><target>{text}</target>'
    "<m:tunit-metadata>{marks}</m:tunit-metadata></trans-unit></body></file></xliff>"
)
MARKS = (
    '<m:mark id="1"><m:type>br</m:type><m:content>x</m:content></m:mark>'
    '<m:mark id="2"><m:content>&lt;w:tab/></m:content></m:mark>'
    '<m:mark id="3"><m:type>bold</m:type><m:content>&lt;b></m:content></m:mark>'
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Shut it.{1}Turn the key.", "Shut it. Turn the key."),
        ("iron{2}clad {3>iron&lt;3}clad {b>iron&lt;b}clad", "iron clad ironclad ironclad"),
        ("Set {0} or {9} {name} { }.", "Set {0} or {9} {name} { }."),
    ],
)
def test_codes_that_a_file_of_phrase_writes_as_text(tmp_path: Path, text: str, expected: str) -> None:
    uri = "http://www.memsource.com/mxlf/2.0"
    (unit,) = read_units(write(tmp_path / "a.mxliff", PHRASE.format(uri=uri, text=text, marks=MARKS)))
    assert [side.text for side in unit.sides] == [expected, expected]
    (other,) = read_units(write(tmp_path / "b.xlf", PHRASE.format(uri="urn:other", text=text, marks=MARKS)))
    assert other.sides[0].text == html.unescape(text)


def test_codes_within_codes_and_what_a_file_defines_for_itself(tmp_path: Path) -> None:
    nested = TMX.format("iron<ph>&lt;img alt='<sub>a <ph>&lt;br/></ph>b</sub>'/></ph>clad")
    (unit,) = read_units(write(tmp_path / "a.tmx", nested))
    assert unit.sides[0].text == "ironclad"
    tags = SDL.format('<tag id="1"><ph name="cf">&lt;cf></ph></tag><tag id="2"><st name="y">&#9;</st></tag>')
    text = "iron<x id='1'/>clad<x id='2'/>ship<x id='3'/>s"
    (unit,) = read_units(write(tmp_path / "a.xlf", OLD.format(head=tags, text=text)))
    assert unit.sides[0].text == "ironclad ships"


def test_terms_of_a_term_base(tmp_path: Path) -> None:
    base = (
        '<martif type="TBX"><text><body><termEntry id="1"><langSet xml:lang="en"><tig><term>fire<ph>&lt;br/></ph>door'
        "<ph>&lt;b></ph>s</term></tig></langSet></termEntry></body></text></martif>"
    )
    assert [term.text for term in read_terms(write(tmp_path / "a.tbx", base))] == ["fire doors"]

from __future__ import annotations

import gzip
import random
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import hostile
import pytest
from hostile import XML, laughs, with_doctype, write

import phrasemate.text.formats.xml as xml_module
from phrasemate.errors import ReadError
from phrasemate.text import read
from phrasemate.text.formats.xml import DEPTH, NAME, NAMES, TOKEN, UNIT, XmlStream, kind_of

ROOTS = {"tmx": "tmx", "tbx": "tbx", "xlf": "xliff"}


def texts(path: Path, **options: Any) -> list[str]:
    return [sentence.text for document in read(path, **options) for sentence in document.sentences()]


def error_of(path: Path, **options: Any) -> ReadError:
    """The one error, which comes soon."""
    started = time.process_time()
    with pytest.raises(ReadError) as caught:
        texts(path, **{"lang": "de", **options})
    assert "\n" not in str(caught.value)
    assert caught.value.file == str(path)
    assert time.process_time() - started < 3
    return caught.value


@pytest.fixture(params=sorted(XML))
def suffix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


GREEN = {"tmx": ["Grün ist die Wiese."], "tbx": ["Grün"], "xlf": ["Grün ist die Wiese."]}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "iso-8859-1", "cp1252"])
def test_every_legal_encoding_is_read(tmp_path: Path, suffix: str, encoding: str) -> None:
    declared = {"utf-8-sig": "utf-8", "cp1252": "windows-1252", "utf-16-le": "utf-16", "utf-16-be": "utf-16"}
    document = XML[suffix].replace('encoding="UTF-8"', f'encoding="{declared.get(encoding, encoding)}"')
    path = write(tmp_path / f"a.{suffix}", document.encode(encoding))
    assert texts(path, lang="de") == GREEN[suffix]


def test_gzip_and_a_declared_encoding_that_is_overruled(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"a.{suffix}.gz", gzip.compress(XML[suffix].encode()))
    assert texts(path, lang="de") == GREEN[suffix]
    path = write(tmp_path / f"b.{suffix}", XML[suffix].encode("cp1252"))  # it says UTF-8
    assert texts(path, lang="de", encoding="cp1252") == GREEN[suffix]
    path = write(tmp_path / f"c.{suffix}", XML[suffix].encode("gb18030"))
    assert texts(path, lang="de", encoding="gb18030") == GREEN[suffix]


def test_a_wrong_encoding(tmp_path: Path, suffix: str) -> None:
    error = error_of(write(tmp_path / f"a.{suffix}", XML[suffix].encode("latin-1")))
    assert "byte 0xFC at offset" in error.reason
    assert "is not UTF-8 (Latin-1?)" in error.reason
    assert "--encoding latin-1" in error.remedy
    wrong = XML[suffix].replace("UTF-8", "UTF-16")
    assert "encoding" in error_of(write(tmp_path / f"b.{suffix}", wrong)).reason
    unknown = XML[suffix].replace("UTF-8", "klingon")
    error = error_of(write(tmp_path / f"c.{suffix}", unknown))
    assert 'encoding="klingon"' in error.reason
    assert "--encoding" in error.remedy
    error = error_of(write(tmp_path / f"d.{suffix}", XML[suffix].replace("UTF-8", "gb18030").encode("gb18030")))
    assert "gb18030" in error.reason


def test_truncated(tmp_path: Path, suffix: str) -> None:
    raw = XML[suffix].encode()
    whole = len(raw.rstrip())
    for cut in [1, 20, len(raw) // 3, len(raw) // 2, whole - 5, whole - 1]:
        error = error_of(write(tmp_path / f"a.{suffix}", raw[:cut]))
        assert "ends too early" in error.reason or "ends within" in error.reason, (cut, error.reason)
        assert "cut short" in error.remedy


def test_what_came_before_the_damage_is_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tmx", hostile.TMX.replace("</body>", "<tu></body>"))
    corpus = read(path, lang="de", on_error="skip")
    assert [s.text for document in corpus for s in document.sentences()] == GREEN["tmx"]
    (skipped,) = corpus.skipped
    assert skipped.whole
    assert "mismatched tag" in skipped.reason
    unit = "<tu><tuv xml:lang='de'><seg>{}</seg></tuv></tu>"
    ids = [random.Random(n).randbytes(40).hex() for n in range(2000)]
    units = "".join(map(unit.format, ids))
    raw = gzip.compress(hostile.TMX.replace("</body>", units + "</body>").encode())
    corpus = read(write(tmp_path / "b.tmx.gz", raw[: len(raw) // 2]), lang="de", on_error="skip")
    texts = [s.text for document in corpus for s in document.sentences()]
    assert texts == [*GREEN["tmx"], *ids][: len(texts)]
    assert len(texts) > 500
    (skipped,) = corpus.skipped
    assert skipped.reason == "the gzip data end too early"


def test_flipped_bytes_are_read_or_refused(tmp_path: Path, suffix: str) -> None:
    draw = random.Random(1)
    raw = XML[suffix].encode()
    refused = 0
    for _ in range(120):
        flipped = bytearray(raw)
        flipped[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
        path = write(tmp_path / f"a.{suffix}", bytes(flipped))
        with suppress(ReadError):  # nothing else comes out
            texts(path, lang="de")
            refused -= 1
        refused += 1
    assert refused > 40


VOCABULARY = {
    "tmx": "tu tuv seg bpt ept ph sub hi note prop header",
    "tbx": "conceptEntry langSec termSec termEntry langSet ntig tig termGrp term descrip descripGrp note hi ph date",
    "xlf": "file unit trans-unit segment ignorable source seg-source target mrk g ph sub cp note notes alt-trans",
    "docx": "w:p w:r w:t w:tbl w:tr w:tc w:pPr w:pStyle w:br w:moveFrom w:ruby w:rt w:tab w:outlineLvl",
    "xlsx": "row c v is t r rPh f",
}
ATTRIBUTES = [
    "",
    ' xml:lang="de"',
    ' id="1"',
    ' type="x"',
    ' mtype="seg" mid="1"',
    ' hex="1"',
    ' r="C3"',
    ' t="s"',
    ' w:val="3"',
]


def tree(draw: random.Random, names: list[str], depth: int = 0) -> str:
    """Elements in an order that no standard knows."""
    if depth > 8 or draw.random() < 0.25:
        return draw.choice(["text", "7", " "])
    inner = "".join(tree(draw, names, depth + 1) for _ in range(draw.randrange(4)))
    attributes = draw.choice([a for a in ATTRIBUTES if "w:" not in a or names[0].startswith("w:")])
    return f"<{(name := draw.choice(names))}{attributes}>{inner}</{name}>"


@pytest.mark.parametrize("kind", sorted(VOCABULARY))
def test_elements_in_any_order_are_read_or_refused(tmp_path: Path, kind: str) -> None:
    draw, path, result = random.Random(2), tmp_path / f"a.{kind}", 0
    for _ in range(150):
        body = "".join(tree(draw, VOCABULARY[kind].split()) for _ in range(5))
        if kind in ("docx", "xlsx"):
            (hostile.docx if kind == "docx" else hostile.xlsx)(path, body)
        else:
            head, _, _ = XML[kind].partition(
                "<tu tuid" if kind == "tmx" else "<conceptEntry" if kind == "tbx" else "<file"
            )
            write(path, head + body + {"tmx": "</body></tmx>", "tbx": "</body></text></tbx>", "xlf": "</xliff>"}[kind])
        with suppress(ReadError):  # nothing else comes out
            result += len(texts(path, lang="*"))
    assert result > 0


def test_billion_laughs(tmp_path: Path, suffix: str) -> None:
    error = error_of(write(tmp_path / f"a.{suffix}", with_doctype(XML[suffix], laughs(ROOTS[suffix]), "&l11;")))
    assert "declares an entity ('l0')" in error.reason


@pytest.mark.parametrize(
    "declaration",
    [
        '<!ENTITY x SYSTEM "{file}">',
        '<!ENTITY x SYSTEM "{web}">',
        '<!ENTITY % x SYSTEM "{web}"> %x;',
        '<!ENTITY x PUBLIC "p" "{web}">',
        "<!ENTITY x 'y'>",
    ],
)
def test_entities_are_refused_and_nothing_is_fetched(tmp_path: Path, suffix: str, declaration: str) -> None:
    secret = write(tmp_path / "secret.txt", "SECRET")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        web = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        doctype = f"<!DOCTYPE {ROOTS[suffix]} [{declaration.format(file=secret.as_uri(), web=web)}]>"
        error = error_of(write(tmp_path / f"a.{suffix}", with_doctype(XML[suffix], doctype, "&x;")))
        with pytest.raises(BlockingIOError):
            server.accept()
    assert "declares an entity ('x')" in error.reason
    assert "SECRET" not in str(error)


def test_a_dtd_elsewhere_is_not_fetched_and_its_entities_are_unknown(tmp_path: Path, suffix: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        doctype = f'<!DOCTYPE {ROOTS[suffix]} SYSTEM "http://127.0.0.1:{server.getsockname()[1]}/x.dtd">'
        path = write(tmp_path / f"a.{suffix}", with_doctype(XML[suffix], doctype))
        assert texts(path, lang="de") == GREEN[suffix]
        with pytest.raises(BlockingIOError):
            server.accept()
    error = error_of(write(tmp_path / f"b.{suffix}", with_doctype(XML[suffix], doctype, "&nbsp;Gr")))
    assert "the entity &nbsp; is not one of XML's own" in error.reason
    error = error_of(write(tmp_path / f"c.{suffix}", with_doctype(XML[suffix], "", "&nbsp;Gr")))
    assert "undefined entity" in error.reason


def test_deep_nesting(tmp_path: Path, suffix: str) -> None:
    deep = XML[suffix].replace("Gr", "<a>" * 100_000 + "</a>" * 100_000 + "Gr", 1)
    assert f"nested more than {DEPTH} deep" in error_of(write(tmp_path / f"a.{suffix}", deep)).reason


@pytest.mark.parametrize("start", ["<a b='", "<!-- ", "<?p ", "<a "])
def test_a_tag_or_comment_without_end(tmp_path: Path, suffix: str, start: str) -> None:
    document = XML[suffix].replace("Gr", start + "x" * (2 * TOKEN), 1)
    error = error_of(write(tmp_path / f"a.{suffix}", document))
    assert f"a tag, comment or declaration of more than {TOKEN:,} bytes" in error.reason


def test_an_entry_without_end(tmp_path: Path, suffix: str) -> None:
    document = XML[suffix].replace("Gr", "word " * (UNIT // 4), 1)
    assert f"one entry of more than {UNIT:,} characters" in error_of(write(tmp_path / f"a.{suffix}", document)).reason


def test_many_small_things_in_one_entry(tmp_path: Path) -> None:
    many = {
        "a.tmx": hostile.TMX.replace("<tuv", "<prop type='x'/>" * 60_000 + "<tuv", 1),
        "b.tmx": hostile.TMX.replace("</tu>", "<tuv/>" * 60_000 + "</tu>", 1),
        "c.tbx": hostile.TBX.replace("<langSec", "<note>x</note>" * 60_000 + "<langSec", 1),
        "d.xlf": hostile.XLIFF.replace("</source>", "</source>" + "<note>x</note>" * 60_000, 1),
    }
    for name, document in many.items():
        assert "one entry of more than" in error_of(write(tmp_path / name, document)).reason, name


def test_notes_of_a_concept_are_not_multiplied_without_end(tmp_path: Path) -> None:
    notes, terms = "<note>" + "x" * 40_000 + "</note>", "<termSec><term>t</term></termSec>" * 5_000
    document = hostile.TBX.replace('<langSec xml:lang="de">', f'{notes}<langSec xml:lang="de">{terms}', 1)
    assert "one entry of more than" in error_of(write(tmp_path / "a.tbx", document)).reason  # 5,000 * 40,000 characters


def test_too_many_names(tmp_path: Path, suffix: str) -> None:
    names = "".join(f"<a{number}/>" for number in range(NAMES + 10))
    document = XML[suffix].replace("Gr", names + "Gr", 1)
    assert f"more than {NAMES:,} different names" in error_of(write(tmp_path / f"a.{suffix}", document)).reason


def test_too_many_attribute_declarations(tmp_path: Path, suffix: str) -> None:
    root = ROOTS[suffix]
    some = "".join(f"<!ATTLIST {root} a{number} CDATA 'x'>" for number in range(100))
    path = write(tmp_path / f"a.{suffix}", with_doctype(XML[suffix], f"<!DOCTYPE {root} [{some}]>"))
    assert texts(path, lang="de") == GREEN[suffix]
    doctype = f"<!DOCTYPE {root} [{some * 11}]>"
    error = error_of(write(tmp_path / f"b.{suffix}", with_doctype(XML[suffix], doctype)))
    assert "more than 1,000 attribute declarations" in error.reason


def test_a_dtd_without_end(tmp_path: Path, suffix: str) -> None:
    """Elements and lists of values that it declares cost memory, though no attribute is declared."""
    many = "".join(f"<!ATTLIST a{number}>" for number in range(TOKEN // 12))
    for number, inner in enumerate((many, "<!ATTLIST a b (" + "x|" * TOKEN, "<!ELEMENT a " + "(" * (2 * TOKEN))):
        doctype = f"<!DOCTYPE {ROOTS[suffix]} [{inner}"
        error = error_of(write(tmp_path / f"{number}.{suffix}", with_doctype(XML[suffix], doctype)))
        assert f"a tag, comment or declaration of more than {TOKEN:,} bytes" in error.reason


def test_a_long_name(tmp_path: Path, suffix: str) -> None:
    name = "n" * NAME
    path = write(tmp_path / f"a.{suffix}", XML[suffix].replace("</", f'<{name} a{name[1:]}=""/></', 1))
    assert texts(path, lang="de") == GREEN[suffix]
    for long in (f"<{name}n/>", f"<a {name}n=''/>"):
        document = XML[suffix].replace("</", f"{long}</", 1)
        error = error_of(write(tmp_path / f"b.{suffix}", document))
        assert f"a name of an element or attribute of more than {NAME:,} characters" in error.reason


class Names(XmlStream[str]):
    """Full names of elements, and of their attributes behind them."""

    root, namespaces = frozenset({"a"}), frozenset({"ours"})

    def start(self, tag: str, attributes: Any) -> None:
        self.ready += [tag, *(f"@{name}={value}" for name, value in attributes.items())]

    def end(self, tag: str) -> None:
        self.ready.append(f"/{tag}")


def names_of(document: str) -> list[str]:
    return list(Names("x").read([document.encode()]))


def test_namespaces_are_those_that_are_declared_where_a_name_stands() -> None:
    assert names_of("<a xmlns='ours' b='1' xml:lang='de'><p:c xmlns:p='u u' p:d='2'/></a>") == [
        *("a", "@b=1", "@http://www.w3.org/XML/1998/namespace lang=de"),
        *("u u c", "@u u d=2", "/u u c", "/a"),
    ]
    inner = "<p:b><b xmlns='' xmlns:p='v' p:c='1'><p:b/></b><p:b p:c='2'/><b/></p:b>"
    assert names_of(f"<p:a xmlns:p='ours' xmlns='w'>{inner}</p:a>") == [
        *("a", "b", "b", "@v c=1", "v b", "/v b", "/b", "b", "@ours c=2", "/b", "w b", "/w b", "/b", "/a")
    ]
    for wrong in ("<p:b/>", "<b p:c=''/>", "<b xmlns:p='u'/><p:b/>", "<b xmlns:p='u'><c xmlns:p=''><p:b/></c></b>"):
        with pytest.raises(ReadError, match=r"not well-formed XML \(the prefix of 'p:[bc]' is not declared\)"):
            names_of(f"<a>{wrong}</a>")


def test_a_long_namespace_is_not_copied_for_each_name() -> None:
    """Not for those of the same tag either, which nothing can stop while it is parsed."""
    uri, many = "u" * 100_000, " ".join(f"p:a{number}=''" for number in range(5000))
    for document in (f"<a xmlns:p='{uri}' {many}/>", f"<a><b xmlns:p='{uri}'>{'<p:b/>' * 5000}</b></a>"):
        started = time.process_time()
        with pytest.raises(ReadError, match="a namespace of more than 1,000 characters"):
            names_of(document)
        assert time.process_time() - started < 1
    assert names_of(f"<a xmlns:p='{'u' * NAME}'/>") == ["a", "/a"]


def test_namespaces_without_end() -> None:
    prefixes = "".join(f"<b xmlns:p{number}='u'/>" for number in range(NAMES))
    with pytest.raises(ReadError, match="more than 10,000 different names"):
        names_of(f"<a>{prefixes}</a>")
    some = " ".join(f"xmlns:p{number}='u'" for number in range(100))
    assert names_of(f"<a>{f'<b {some}/>' * 120}</a>").count("b") == 120
    with pytest.raises(ReadError, match="more than 10,000 of them at once"):
        names_of(f"<a>{f'<b {some}>' * 101}")


def test_a_dtd_gives_no_element_a_namespace() -> None:
    declared = "".join(f"<!ATTLIST b xmlns:p{number} CDATA '{'u' * 900}'>" for number in range(900))
    started = time.process_time()
    assert names_of(f"<!DOCTYPE a [{declared}<!ATTLIST a xmlns CDATA 'w'>]><a>{'<b/>' * 2000}</a>").count("b") == 2000
    assert time.process_time() - started < 1


def test_another_document(tmp_path: Path, suffix: str) -> None:
    error = error_of(write(tmp_path / f"a.{suffix}", "<svg xmlns='http://www.w3.org/2000/svg'/>"))
    assert "the document begins with <svg>; expected <" in error.reason
    assert "not well-formed" in error_of(write(tmp_path / f"b.{suffix}", "Just text.\n")).reason
    assert "an empty file" in error_of(write(tmp_path / f"c.{suffix}", "")).reason
    assert "ends too early" in error_of(write(tmp_path / f"d.{suffix}", " \n")).reason


def test_a_nul_character(tmp_path: Path, suffix: str) -> None:
    assert "not well-formed" in error_of(write(tmp_path / f"a.{suffix}", XML[suffix].replace("Gr", "G\0r"))).reason
    assert (
        "invalid character number"
        in error_of(write(tmp_path / f"b.{suffix}", XML[suffix].replace("Gr", "&#0;"))).reason
    )


def test_limits_hold_for_one_entry_not_for_the_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml_module, "UNIT", 1000)
    unit = hostile.TMX.split("<body>\n")[1].split("\n")[0]
    path = write(tmp_path / "a.tmx", hostile.TMX.replace(unit, unit * 2000))
    assert texts(path, lang="de") == GREEN["tmx"] * 2000


def test_tabs_and_names_of_styles_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml_module, "UNIT", 10_000)
    tabs = "<w:p><w:r><w:t>a</w:t>{}<w:t>b</w:t></w:r></w:p>"
    assert texts(hostile.docx(tmp_path / "a.docx", tabs.format("<w:tab/>" * 9000))) == ["a" + "\t" * 9000 + "b"]
    style = f'<w:style w:styleId="{"x" * 1000}"><w:name w:val="heading 1"/></w:style>' * 11
    styles = {"styles": f'<w:styles xmlns:w="{hostile.WORD}">{style}</w:styles>'}
    for body, parts in ((tabs.format("<w:tab/>" * 11_000), {}), ("", styles)):
        assert "one entry of more than" in error_of(hostile.docx(tmp_path / "b.docx", body, **parts)).reason


def test_lines_count_from_one_over_blocks() -> None:
    class Lines(XmlStream[int]):
        root = frozenset({"a"})

        def start(self, tag: str, attributes: Any) -> None:
            self.ready.append(self.line)

    raw = b"<a>\n" + b"<b/>\n" * 5000 + b"</a>"
    for size in (1, 7, 4096, len(raw)):
        blocks = (raw[at : at + size] for at in range(0, len(raw), size))
        assert list(Lines("x").read(blocks)) == [1, *range(2, 5002)]


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (hostile.TMX.encode(), "tmx"),
        (hostile.TMX.encode("utf-16"), "tmx"),
        (b"\xef\xbb\xbf" + hostile.TBX.encode(), "tbx"),
        (b"<martif type='TBX'>", "tbx"),
        (hostile.XLIFF.encode(), "xliff"),
        (b"<!doctype html>\n<HTML>", "html"),
        (b"text about <tmx>\n", ""),
        (b"<tmxx>", ""),
        (b"", ""),
    ],
)
def test_formats_are_known_by_their_beginning(raw: bytes, kind: str) -> None:
    assert kind_of(raw) == kind

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hostile import laughs, write

import phrasemate.text.formats.html as html_module
from phrasemate.errors import MissingExtra, ReadError
from phrasemate.text import read
from phrasemate.types import Sentence


def all_of(path: Path, **options: Any) -> list[Sentence]:
    return [sentence for document in read(path, **options) for sentence in document.sentences()]


def texts(path: Path, **options: Any) -> list[str]:
    return [sentence.text for sentence in all_of(path, **options)]


PAGE = """<!DOCTYPE html>
<html><head><meta charset="utf-8"><title>The
 title</title><style>p { color: red }</style><meta name="description" content="no"></head>
<body><nav><a href="/">Home</a> <a href="/x">More</a></nav>
<h2>A <em>head</em>ing &amp; more</h2>
<p>un<b>believ</b>able,   <!-- no -->one
line.<br>Another&nbsp;one. <script>var x = "<p>no</p>";</script>End.</p>
<div>Loose <p>Inner.</p> tail</div>
<table><tr><td>a<td>b</table><ul><li>one<li>two</ul>
<pre>kept
  lines</pre><template><p>no</p></template><noscript>no</noscript>
<svg><text>no</text></svg><textarea>no</textarea><select><option>no</select>
<p hidden>also</p>
"""


def test_paragraphs_as_a_reader_sees_them(tmp_path: Path) -> None:
    result = all_of(write(tmp_path / "a.html", PAGE))
    assert [sentence.text for sentence in result] == [
        *("The title", "Home More", "A heading & more", "unbelievable, one line.", "Another\xa0one.", "End."),
        *("Loose", "Inner.", "tail", "a", "b", "one", "two", "kept", "lines", "also"),
    ]
    assert [(s.text, s.line, s.metadata) for s in result if s.metadata] == [
        ("The title", 1, {"heading": 0}),
        ("A heading & more", 3, {"heading": 2}),
    ]


def test_what_follows_an_embedded_film_is_seen(tmp_path: Path) -> None:
    path = write(tmp_path / "a.html", "<body><p>a <embed src=x>film</p><embed src=y><p>b</p><object><embed></object>c")
    assert texts(path) == ["a film", "b", "c"]


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ("", "utf-8"),
        ("", "utf-8-sig"),
        ("", "utf-16"),
        ('<meta charset="iso-8859-1">', "cp1252"),
        ("<meta http-equiv=Content-Type content='text/html; charset=Windows-1252'>", "cp1252"),
        ('<?xml version="1.0" encoding="Shift_JIS"?>', "cp932"),
        ("<meta charset='gb2312'>", "gb18030"),
        ("<meta charset=klingon>", "utf-8"),
        ("<meta charset=base64>", "utf-8"),
        ("<meta charset=punycode>", "utf-8"),
        ("<meta charset=undefined>", "utf-8"),
        ("<meta charset=utf-16>", "utf-8"),
    ],
)
def test_encodings(tmp_path: Path, head: str, encoding: str) -> None:
    text = "“Grüße”" if encoding == "cp1252" else "日本" if encoding in ("cp932", "gb18030") else "Grüße 日本 😀"
    path = write(tmp_path / "a.htm", f"{head}<p>{text}".encode(encoding))
    assert texts(path) == [text]


def test_another_encoding_than_the_page_says(tmp_path: Path) -> None:
    path = write(tmp_path / "a.xhtml", "<meta charset=utf-8><p>Grüße".encode("latin-1"))
    with pytest.raises(ReadError, match="byte 0xFC is not utf-8, in which the page says that it is; give the right"):
        texts(path)
    assert texts(path, encoding="latin-1") == ["Grüße"]
    with pytest.raises(ReadError, match="a PDF file"):
        texts(write(tmp_path / "b.html", b"%PDF-1.7\n\xff"))


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (laughs("html") + "<p>&l11;x", ["]>", "&l11;x"]),
        ('<!DOCTYPE html [<!ENTITY x SYSTEM "file:///etc/hostname">]><p>&x;', ["]>", "&x;"]),
        ("<p>" + "<div>" * 900 + "deep", ["deep"]),
        ("<p>" + "<" * 100_000, None),
        ("<!-- " + "x" * 1_000_000, None),
        ("<p a='" + "x" * 1_000_000, None),
        ("<script>" + "x" * 1_000_000, None),
        ("<p>&#0;&#xD800;&#x110000;x", None),
        ("<p>a\0b", None),
        ("</p></div></html>after", ["after"]),
        ("no markup at all", ["no markup at all"]),
    ],
)
def test_strange_pages_come_to_an_end(tmp_path: Path, page: str, expected: list[str] | None) -> None:
    started = time.process_time()
    path = write(tmp_path / "a.html", page)
    if expected is None:
        with suppress(ReadError):  # nothing else comes out
            assert all(text.encode() and "\0" not in text for text in texts(path))
    else:
        assert texts(path) == expected
    assert time.process_time() - started < 3


@pytest.mark.parametrize("end", [b"</i>", b""])
def test_a_page_of_great_depth_is_refused_at_once(tmp_path: Path, end: bytes) -> None:
    path = write(tmp_path / "a.html", b"<p>Before.</p>" + b"<p>x" + b"<b>" * 300_000 + end * 300_000)
    corpus = read(path, on_error="skip")
    started = time.process_time()
    assert [s.text for document in corpus for s in document.sentences()] == ["Before."]
    assert time.process_time() - started < 1
    assert "elements nested more than 1,000 deep; expected a web page" in corpus.skipped[0].reason


@pytest.mark.parametrize(
    ("before", "unit"),
    [
        ("", "<p>One <b>two</b>."),
        ("", "<p><font>One.</p>"),
        ("", "One.<br>"),
        ("", "<hr><img src=a><input>One."),
        ("<ul>", "<li>One.<p>"),
        ("<table>", "<tr><td>One.<td><a href=x>Two.</a><th>Three."),
        ("<dl>", "<dt>One.<dd>Two."),
        ("", "<p>One<wbr>two<picture><source></picture>.</p>"),
        ("", "</p></b></div><p>One."),
    ],
)
def test_what_a_page_leaves_open_is_not_depth(tmp_path: Path, before: str, unit: str) -> None:
    assert len(texts(write(tmp_path / "a.html", before + unit * 3 * html_module.DEPTH))) >= 3 * html_module.DEPTH


def test_a_page_without_text_and_one_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ReadError, match="no text in it"):
        texts(write(tmp_path / "a.html", "<html><script>x</script></html>"))
    monkeypatch.setattr(html_module, "PAGE", 1000)
    with pytest.raises(ReadError, match="more than 1,000 bytes"):
        texts(write(tmp_path / "b.html", "<p>x" * 1000))


def test_an_absent_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lxml", None)
    with pytest.raises(MissingExtra, match=r"'lxml'; install it with: pip install 'phrasemate\[formats\]'"):
        texts(write(tmp_path / "a.html", PAGE), on_error="skip")


UNDECLARED = "<title>Menü</title><p>Ein Café in Köln – “schön”."


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        *[("", encoding) for encoding in ("cp1252", "utf-8", "utf-8-sig", "utf-16")],
        *[("<meta charset=klingon>", encoding) for encoding in ("cp1252", "utf-8")],
        *[(f"<!-- {'x' * 1100} --><meta charset={encoding}>", encoding) for encoding in ("cp1252", "utf-8", "cp1250")],
        *[(f"<!-- {'x' * 100_000} --><meta charset={encoding}>", encoding) for encoding in ("cp1252", "utf-8")],
    ],
)
def test_a_page_that_says_its_encoding_late_or_not_at_all(tmp_path: Path, head: str, encoding: str) -> None:
    path = write(tmp_path / "a.html", f"{head}{UNDECLARED}".encode(encoding))
    assert texts(path) == ["Menü", "Ein Café in Köln – “schön”."]


@pytest.mark.parametrize(
    ("label", "encoding", "text"),
    [
        *[(label, "cp932", "日本語①") for label in ("shift_jis", "x-sjis", "windows-31j", "MS_Kanji")],
        *[(label, "cp949", "한국어똠") for label in ("euc-kr", "ks_c_5601-1987", "windows-949")],
        *[(label, "gb18030", "中文€") for label in ("gb_2312-80", "x-gbk", "GBK")],
        *[(label, "cp874", "ภาษาไทย…") for label in ("tis-620", "windows-874")],
        *[(label, "cp1254", "“ğış”") for label in ("iso-8859-9", "latin5")],
        *[(label, "koi8-r", "Русский") for label in ("koi8", "koi")],
        *[("x-cp1251", "cp1251", "Русский"), ("x-mac-cyrillic", "mac_cyrillic", "Русский")],
        *[("866", "cp866", "Русский"), ("x-x-big5", "big5", "中文")],
        *[("iso-8859-8-i", "iso8859_8", "עברית"), ("x-euc-jp", "euc_jp", "日本語"), ("mac", "mac_roman", "Café")],
        *[("x-user-defined", "cp1252", "Café “5 €”"), ("latin1", "cp1252", "Café “5 €”")],
    ],
)
def test_encodings_have_the_names_that_browsers_know(tmp_path: Path, label: str, encoding: str, text: str) -> None:
    path = write(tmp_path / "a.html", f"<meta charset='{label}'><p>{text}</p>".encode(encoding))
    assert texts(path) == [text]


@pytest.mark.parametrize(
    "head",
    [
        "<!-- <meta charset=utf-8> -->",
        "<meta name='description' content='charset=utf-8'>",
        "<meta charset=utf-16>",  # none that is read as ASCII so far
        "<meta http-equiv=refresh content='0;charset=utf-8'>",
    ],
)
def test_what_does_not_say_the_encoding(tmp_path: Path, head: str) -> None:
    path = write(tmp_path / "a.html", f"{head}<p>Grüße</p>".encode("cp1252"))
    assert texts(path) == ["Grüße"]


def test_every_byte_is_in_windows_1252(tmp_path: Path) -> None:
    path = write(tmp_path / "a.html", b"<p>a\x81\x8d\x8f\x90\x9d\xe9")
    assert texts(path) == ["a\x81\x8d\x8f\x90\x9dé"]


def test_a_page_that_is_mostly_utf_8_is_not_taken_for_windows_1252(tmp_path: Path) -> None:
    path = write(tmp_path / "a.html", "<p>Größe, Maß, Öl".encode() + b"\xe9.")
    expected = "byte 0xE9 is not utf-8, which most of the page is; it does not say so; give the right --encoding"
    with pytest.raises(ReadError, match=expected):
        texts(path)


@pytest.mark.parametrize(
    "tag",
    [
        *["a", "bdi", "button", "canvas", "data", "dfn", "ins", "kbd", "map", "meter", "my-own", "output", "picture"],
        *["progress", "rb", "rbc", "rtc", "slot", "svg", "x:y", "o:p", "blink", "math", "label", "time-ago", "unknown"],
    ],
)
def test_what_is_not_block_does_not_cut_a_sentence(tmp_path: Path, tag: str) -> None:
    path = write(tmp_path / "a.html", f"<p>We <{tag}>met</{tag}> at noon.</p>")
    assert texts(path) in (["We met at noon."], ["We at noon."])  # or what is not read at all


@pytest.mark.parametrize("tag", ["address", "dd", "dialog", "fieldset", "figcaption", "hgroup", "li", "main", "search"])
def test_a_block_stands_alone(tmp_path: Path, tag: str) -> None:
    assert texts(write(tmp_path / "a.html", f"One<{tag}>two</{tag}>three")) == ["One", "two", "three"]


def test_a_button_is_apart_from_the_words_beside_it(tmp_path: Path) -> None:
    assert texts(write(tmp_path / "a.html", "<p>Press<button>Save</button>now.")) == ["Press Save now."]


@pytest.mark.parametrize(
    ("equation", "expected"),
    [
        ("<mi>x</mi> <mo>≥</mo> <mn>3</mn>", "x≥3"),
        ("<mfrac><mi>a</mi><mrow><mi>b</mi><mi>c</mi></mrow></mfrac>", "a/bc"),
        ("<msup><mi>x</mi><mn>2</mn></msup><msub><mi>y</mi><mi>i</mi></msub>", "x^2y_i"),
        ("<msubsup><mi>z</mi><mn>1</mn><mn>2</mn></msubsup><msqrt><mi>w</mi></msqrt>", "z_1^2√w"),
        ('<semantics><mi>x</mi><annotation encoding="application/x-tex">\\chi</annotation></semantics>', "x"),
    ],
)
def test_equations_are_linear_text(tmp_path: Path, equation: str, expected: str) -> None:
    path = tmp_path / "a.html"
    path.write_text(f"<meta charset=utf-8><p>Here <math>{equation}</math> holds.</p><p>So.</p>", "utf-8")
    assert [one.text for document in read(path) for one in document.sentences()] == [f"Here {expected} holds.", "So."]


@pytest.mark.parametrize(
    "reference",
    [
        '<sup><a href="#n1">1</a></sup>',
        '<sup id="r"><a epub:type="noteref" href="n.xhtml#n1">1</a></sup>',
        '<a role="doc-noteref" href="#n1">[1]</a>',
        '<a class="sdfootnoteanc" href="#n1"><sup>1</sup></a>',
        '<sup class="reference"><a href="#cite_note-1">[1]</a></sup>',
    ],
)
def test_the_number_of_a_note_is_not_text(tmp_path: Path, reference: str) -> None:
    (tmp_path / "a.html").write_text(f"<meta charset=utf-8><p>It leaves at seven{reference}.</p>")
    assert [one.text for document in read(tmp_path / "a.html") for one in document.sentences()] == [
        "It leaves at seven."
    ]


def test_a_raised_number_and_other_links_are_text(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p>10<sup>2</sup> m, see <a href="#two">two</a> and <sup><a href="/x">x</a></sup>.'
    )
    assert [one.text for document in read(tmp_path / "a.html") for one in document.sentences()] == [
        "102 m, see two and x."
    ]

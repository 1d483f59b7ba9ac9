from __future__ import annotations

import os
import random
import threading
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from hostile import TMX, write
from hypothesis import example, given, settings
from hypothesis import strategies as st

import phrasemate.text.formats.xml as xml_module
from phrasemate.errors import InputError, ReadError
from phrasemate.text import read
from phrasemate.text.formats.bilingual import chosen, paragraphs, read_bilingual, read_units, write_units
from phrasemate.text.formats.units import Side, Unit
from phrasemate.text.formats.xml import writable
from phrasemate.text.languages import speaks
from phrasemate.types import Sentence

MEMORY = """<?xml version="1.0"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4">
<header creationtool="x" creationtoolversion="1" segtype="sentence" o-tmf="x" adminlang="en" srclang="EN-US">
  <note>of the whole</note><prop type="domain">whole</prop><ude name="M" base="Mac"><map unicode="#xF8FF"/></ude>
</header>
<body>
<tu tuid="0001" datatype="text" usagecount="2" lastusagedate="19970314T023401Z">
  <note>Text of a note at the TU level.</note>
  <prop type="x-Domain">Computing</prop><prop type="x-Domain">Cats</prop><prop type="tuid">seven</prop>
  <tuv xml:lang="EN-US" creationdate="19970212T153400Z"><note>a</note><note>b</note><prop type="x-p">q</prop>
    <seg>data (with a <bpt i="1" x="1">{\\b </bpt>non-<hi>standard</hi><ept i="1">}</ept> <ut>&lt;</ut>character<ph
    x="2" type="image">&lt;img alt="<sub>a <bpt i="3">(</bpt>picture</sub>"/></ph>: <it pos="end">.</it>&#xF8FF;).</seg>
  </tuv>
  <tuv lang="fr-CA"><seg>donn&#233;es<ph type="lb"/>ligne <![CDATA[<deux>]]></seg></tuv>
  <tuv xml:lang="ja"><seg/></tuv>
</tu>
<tu><tuv xml:lang="en-us"><seg>Only here.</seg></tuv></tu>
</body>
</tmx>
"""


def texts(path: Path, **options: Any) -> list[str]:
    return [sentence.text for document in read(path, **options) for sentence in document.sentences()]


def test_units_with_all_that_belongs_to_them(tmp_path: Path) -> None:
    first, second = read_units(write(tmp_path / "a.tmx", MEMORY))
    assert first.line == 8
    assert first.metadata == {
        "tuid": "0001",
        "datatype": "text",
        "usagecount": "2",
        "lastusagedate": "19970314T023401Z",
        "note": "Text of a note at the TU level.",
        "x-Domain": ["Computing", "Cats"],
        "prop:tuid": "seven",
    }
    english, french, japanese = first.sides
    assert english.text == "data (with a non-standard character: \uf8ff)."
    assert english.metadata == {"creationdate": "19970212T153400Z", "note": ["a", "b"], "x-p": "q"}
    assert (english.language, french.language, japanese.language) == ("EN-US", "fr-CA", "ja")
    assert french == Side("données ligne <deux>", "fr-CA")
    assert japanese.text == ""
    assert second == Unit((Side("Only here.", "en-us"),), {}, 18)


def test_a_side_is_indexed_with_its_metadata(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tmx", MEMORY)
    (document,) = read(path, lang="fr")
    (sentence,) = document.sentences()
    assert (sentence.text, sentence.line) == ("données ligne <deux>", 8)
    assert sentence.metadata["tuid"] == "0001"
    assert sentence.metadata["x-Domain"] == ["Computing", "Cats"]
    assert texts(path, lang="en") == ["data (with a non-standard character: \uf8ff).", "Only here."]
    assert document.consumed() == document.size == path.stat().st_size


@pytest.mark.parametrize(
    ("tag", "language", "expected"),
    [
        *[
            ("eng", "en", True),
            ("ger-AT", "de-AT", True),
            ("iw", "he", True),
            ("he-IL", "iw", True),
            ("nb", "no", True),
        ],
        *[("no", "nb", True), ("nn", "no", True), ("no", "nn", False), ("nn", "nb", False), ("nb-NO", "no-NO", True)],
        *[
            ("zh-Hant-TW", "zh-TW", True),
            ("zh-TW", "zh-Hant", True),
            ("zh-TW", "zh-Hant-TW", True),
            ("cmn", "zh", True),
        ],
        *[
            ("zh-Hans-TW", "zh-TW", False),
            ("zh-HK", "zh-TW", False),
            ("zh", "zh-TW", False),
            ("zh-CN", "zh-Hant", False),
        ],
        *[
            ("zh_Hans_CN", "zh-cn", True),
            ("zh-Hant", "zh-TW", False),
            ("sr-Latn", "sr", True),
            ("sr", "sr-Latn", False),
        ],
        *[("sr-Latn-RS", "sr-Latn", True), ("in", "id", True), ("ji", "yi", True), ("en-US", "en-GB", False)],
        *[("sh", "sr-Latn", True), ("sr-Latn-RS", "sh", True), ("sh", "sr", True), ("sr", "sh", False)],
        *[("en-GB", "en", True), ("EN_gb", "en-GB", True), ("de", "*", True), ("", "", True)],
        *[
            ("en", "en-GB", False),
            ("enm", "en", False),
            ("und", "en", False),
            ("en", "und", False),
            ("", "en", False),
            ("de", "", False),
        ],
    ],
)
def test_a_language_has_its_varieties(tag: str, language: str, expected: bool) -> None:
    assert speaks(tag, language) is expected


def test_an_error_names_the_languages(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tmx", MEMORY)
    with pytest.raises(ReadError) as caught:
        texts(path)
    expected = "texts in several languages (EN-US, en-us, fr-CA, ja); expected one; choose one with --lang"
    assert str(caught.value) == f"{path}, line 8: {expected}"
    with pytest.raises(ReadError, match="no text in 'de'; the languages here are EN-US, en-us, fr-CA, ja; choose"):
        texts(path, lang="de")
    corpus = read(path, lang="de", on_error="skip")
    assert [list(document.sentences()) for document in corpus] == [[]]
    assert "no text in 'de'" in corpus.skipped[0].reason


def test_languages_that_are_invalid_fit_into_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tmx", TMX.replace('"en"', f'"&#10;e&#9;n{"x" * 1000}"'))
    with pytest.raises(ReadError) as caught:
        texts(path)
    assert f"(de, e n{'x' * 27})" in str(caught.value)


def test_one_language_needs_no_choice(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tmx", TMX.replace("xml:lang", "x").replace('x="de"', 'xml:lang="de"'))
    only = Unit((Side("One.", "de"),))
    assert [unit.sides[at].text for unit, at in chosen([only, only], "", "x")] == ["One.", "One."]
    with pytest.raises(ReadError, match=r"\(\(none\), de\)"):
        texts(path)
    assert list(chosen([], "de", "x")) == []


def test_nothing_is_given_before_the_choice_is_known_to_be_clear() -> None:
    with pytest.raises(ReadError, match="de, en"):
        next(chosen([Unit((Side("a", "de"), Side("b", "en")))], "", "x"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one\n   two", "one two"),
        ("one \n two\n\n three\r\n", "one two\nthree"),
        ("one\n \n\ntwo", "one\ntwo"),
        ("  as it is ", "  as it is "),
    ],
)
def test_single_line_breaks_are_layout(text: str, expected: str) -> None:
    assert paragraphs(text) == expected


def test_lines_and_spaces_in_any_order() -> None:
    def plainly(text: str) -> str:
        lines = [line.strip() for line in text.strip().split("\n")]
        return "\n".join(" ".join(part) for part in parts_of(lines))

    def parts_of(lines: list[str]) -> list[list[str]]:
        parts: list[list[str]] = [[]]
        for line in lines:
            if line:
                parts[-1].append(line)
            elif parts[-1]:
                parts.append([])
        return parts

    draw = random.Random(3)
    for _ in range(3000):
        text = "a\n" + "".join(draw.choice("ab\n\n \r\t\x0b\x1c\x85\xa0\u2028") for _ in range(draw.randrange(12)))
        assert paragraphs(text) == plainly(text), repr(text)


def test_spaces_without_end_are_read_at_once() -> None:
    started = time.process_time()
    assert paragraphs("x\ny" + " " * 200_000 + "z").startswith("x y ")
    assert time.process_time() - started < 1  # a search from each of the spaces took minutes


def test_a_segment_that_is_wrapped_is_one_sentence(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tmx", TMX.replace("Grün ist", "Grün\n      ist").replace("die Wiese", "die\n\nWiese"))
    assert texts(path, lang="de") == ["Grün ist die", "Wiese."]
    assert texts(path, lang="de", lines="sentence") == ["Grün ist die\nWiese."]


def test_sentence_pairs(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tmx", MEMORY.replace("\n    type", " type"))
    with pytest.raises(ReadError, match="texts in several languages"):
        list(read_bilingual(path))
    english = "data (with a non-standard character: \uf8ff)."
    assert list(read_bilingual(path, "fr", "en")) == [("données ligne <deux>", english)]
    with pytest.raises(ReadError, match="no pair of texts in fr and ja; the languages here are EN-US, en-us, fr-CA"):
        list(read_bilingual(path, "fr", "ja"))  # the Japanese side is empty
    with pytest.raises(InputError, match="expected both or none"):
        list(read_bilingual(path, "fr"))
    empty = "<tu><tuv xml:lang='de'><seg> </seg></tuv><tuv xml:lang='en'><seg>Hello.</seg></tuv></tu>"
    one = write(tmp_path / "c.tmx", TMX.replace("<tu", empty + "<tu", 1))
    assert list(read_bilingual(one)) == [("Grün ist die Wiese.", "Green is the meadow.")]  # German first all the same
    two = write(tmp_path / "b.tmx", TMX.replace("Grün ist", "Grün\n ist"))
    assert list(read_bilingual(two)) == [("Grün ist die Wiese.", "Green is the meadow.")]
    assert list(read_bilingual(two, "en", "de")) == [("Green is the meadow.", "Grün ist die Wiese.")]


def test_a_memory_in_a_pipe_is_known_for_what_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    threading.Thread(target=pipe.write_bytes, args=(TMX.replace("UTF-8", "UTF-16").encode("utf-16"),)).start()
    assert texts(pipe, lang="de") == ["Grün ist die Wiese."]


@pytest.mark.parametrize(
    ("before", "inner"),
    [("<tuv", f"<prop type='{'x' * 1000}'>x</prop>"), ("Gr", "<ph type='lb'/>" * 1000)],
    ids=["type of prop", "line break"],
)
def test_all_that_is_kept_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, inner: str) -> None:
    monkeypatch.setattr(xml_module, "UNIT", 20_000)
    few, many = (write(tmp_path / f"{n}.tmx", TMX.replace(before, inner * n + before, 1)) for n in (10, 30))
    assert len(list(read_units(few))) == 1
    with pytest.raises(ReadError, match="one entry of more than 20,000 characters"):
        list(read_units(many))


CHARACTERS = st.characters(codec=None) | st.sampled_from(
    "\0\x01\x0b\x1f\x7f\x85\r\n\t \ud800\udfff\ufffe\uffff\u202e\u2066\u200fא😀&<>\"'"
)
TEXTS = st.text(CHARACTERS, max_size=20)
NAMES = st.text(st.characters(categories=["L"], max_codepoint=0x3FF), min_size=1, max_size=8)
METADATA = st.dictionaries(NAMES, TEXTS.map(str.strip).filter(bool), max_size=3)


@settings(max_examples=60, deadline=None)
@example(
    [[("", "de", {"segtype": "0", "lang": "x", "tuid": "1", "srclang": "y"})]]
)  # attributes of units, not of sides
@given(st.lists(st.lists(st.tuples(TEXTS, st.sampled_from(["de", "en-GB", "zh"]), METADATA), max_size=3), max_size=4))
def test_what_is_written_is_read_again(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    units = [Unit(tuple(Side(*side) for side in sides), {"tuid": str(n)}) for n, sides in enumerate(rows)]
    path = tmp_path_factory.getbasetemp() / "round.tmx"
    write_units(path, units)
    back = list(read_units(path))
    assert [unit.metadata for unit in back] == [unit.metadata for unit in units]
    for unit, again in zip(units, back, strict=True):
        for side, result in zip(unit.sides, again.sides, strict=True):
            metadata = {key: text for key, raw in side.metadata.items() if (text := writable(raw).strip())}
            assert result == Side(writable(side.text), side.language, metadata)


def test_what_xml_cannot_hold_is_replaced() -> None:
    bad = "\0\x01\x08\x0b\x0c\x0e\x1f\ud800\udfff\ufffe\uffff"
    assert writable(bad) == "\ufffd" * len(bad)
    good = "\t\n\r \x7f\x85\xa0\u2028\u202e\ue000\ufffd😀"
    assert writable(good) == good


def test_a_file_that_is_not_finished_changes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tmx", "before")

    def units() -> Any:
        yield Unit((Side("a", "de"),))
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        write_units(path, units())
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected \.tmx"):
        write_units(tmp_path / "a.doc", [])
    with pytest.raises(InputError, match="version 3"):
        write_units(tmp_path / "a.xlf", [], version="3")
    with pytest.raises(InputError, match=r"cannot be written \(No such file"):
        write_units(tmp_path / "no" / "a.tmx", [])
    with pytest.raises(ReadError, match=r"no such format by its name; expected \.mqxliff"):
        read_units(tmp_path / "a.txt")
    with pytest.raises(ReadError, match="No such file"):
        list(read_units(tmp_path / "no.tmx"))


def test_an_empty_memory(tmp_path: Path) -> None:
    write_units(tmp_path / "a.tmx", [])
    assert list(read_units(tmp_path / "a.tmx")) == []
    with pytest.raises(ReadError, match="no text in it"):
        texts(tmp_path / "a.tmx", lang="de")


def test_the_same_as_translate_toolkit(tmp_path: Path) -> None:
    tmx = pytest.importorskip("translate.storage.tmx")
    ours = tmp_path / "a.tmx"
    pairs = [("Grün & <b>", "green"), ("  zwei\nZeilen ", "two lines"), ("إلى", "إلى \u202e!")]
    write_units(ours, (Unit((Side(source, "de"), Side(target, "en")), {"note": "n"}) for source, target in pairs))
    with ours.open("rb") as file:
        theirs = tmx.tmxfile(file, "de", "en")
    assert [(str(unit.source), str(unit.target)) for unit in theirs.unit_iter()] == pairs
    assert [unit.getnotes() for unit in theirs.unit_iter()] == ["n"] * 3
    result = tmx.tmxfile(sourcelanguage="de", targetlanguage="en")
    for source, target in pairs:
        result.addtranslation(source, "de", target, "en", comment="c")
    result.savefile(str(tmp_path / "b.tmx"))
    back = list(read_units(tmp_path / "b.tmx"))
    assert [tuple(side.text for side in unit.sides) for unit in back] == pairs
    assert [unit.metadata["note"] for unit in back] == ["c"] * 3


def test_what_is_written_is_tmx_1_4(tmp_path: Path) -> None:
    """Attributes that the DTD requires, and the order in which it has elements."""
    metadata = {"x-p": "1", "note": ["n", "m"], "tuid": "t", "changedate": "20240101T000000Z"}
    write_units(tmp_path / "a.tmx", [Unit((Side("a", "de", {"x-q": "2"}),), metadata)], ("de", "en"))
    root = ElementTree.parse(tmp_path / "a.tmx").getroot()
    header = root.find("header")
    assert root.attrib == {"version": "1.4"}
    assert header is not None
    required = {"creationtool", "creationtoolversion", "segtype", "o-tmf", "adminlang", "srclang", "datatype"}
    assert set(header.attrib) == required
    assert header.get("srclang") == "de"
    unit = root.find("body/tu")
    assert unit is not None
    assert unit.attrib == {"tuid": "t", "changedate": "20240101T000000Z"}
    assert [(e.tag, e.text) for e in unit][:3] == [("prop", "1"), ("note", "n"), ("note", "m")]
    assert [e.tag for e in unit.iter()] == ["tu", "prop", "note", "note", "tuv", "prop", "seg"]


def test_sentences_are_equal_whoever_wrote_them(tmp_path: Path) -> None:
    write_units(tmp_path / "a.tmx", read_units(write(tmp_path / "b.tmx", TMX)))
    expected = [Sentence("Grün ist die Wiese.", 6, {"tuid": "1", "translation": "Green is the meadow."})]
    for name in ("a.tmx", "b.tmx"):
        assert [s for document in read(tmp_path / name, lang="de") for s in document.sentences()] == expected


def test_what_is_said_of_a_unit_counts_for_each_of_its_sides(tmp_path: Path) -> None:
    """It goes with each of them into an index."""
    sides = '<tuv xml:lang="en"><seg>One.</seg></tuv>' * 500
    for count, fits in ((7_000, True), (9_000, False)):
        unit = f'<tu tuid="{"x" * count}">{sides}</tu>'
        (tmp_path / "a.tmx").write_text(f'<tmx version="1.4"><body>{unit}</body></tmx>', "utf-8")
        if fits:
            assert len(next(read_units(tmp_path / "a.tmx")).sides) == 500
        else:
            with pytest.raises(ReadError, match="one entry of more than 4,000,000 characters"):
                list(read_units(tmp_path / "a.tmx"))

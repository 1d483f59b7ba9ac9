from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from hostile import XLIFF, write
from hypothesis import given, settings
from hypothesis import strategies as st
from test_text_tmx import TEXTS

import phrasemate.text.formats.xml as xml_module
from phrasemate.errors import InputError, ReadError
from phrasemate.text import read
from phrasemate.text.formats.bilingual import read_bilingual, read_units, write_units
from phrasemate.text.formats.units import Side, Unit
from phrasemate.text.formats.xml import writable

OLD = """<?xml version="1.0"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:x="urn:tool">
<file original="a.docx" source-language="en-US" target-language="de" datatype="x">
<header><note>of the file</note><x:source>tool</x:source></header>
<body>
<trans-unit id="1" resname="greeting" approved="yes">
  <source>Click <g id="1">the <x id="2"/>button</g><x id="3" ctype="lb"/>now<bpt
    id="4">&lt;b&gt;</bpt>.<ept id="4">&lt;</ept></source>
  <target state="translated">Jetzt <mrk mtype="protected">klicken</mrk>.<ph id="5">{0}<sub>x</sub></ph></target>
  <note from="x">first</note>
  <alt-trans match-quality="80"><source>Old.</source><target>Alt.</target><note>not ours</note></alt-trans>
  <x:meta><x:source>foreign</x:source></x:meta>
  <note>second</note>
</trans-unit>
<group id="g"><trans-unit id="2"><source>One. Two.</source>
  <seg-source><mrk mtype="seg" mid="s1">One.</mrk> <g id="1"><mrk mtype="seg" mid="s2">T<mrk
    mtype="x">wo</mrk>.</mrk></g></seg-source>
  <target><mrk mtype="seg" mid="s1">Eins.</mrk> <mrk mtype="seg" mid="s3">Drei.</mrk></target>
</trans-unit></group>
<trans-unit id="3"><source>No target.</source></trans-unit>
<bin-unit id="b"><bin-source><internal-file>AAAA</internal-file></bin-source></bin-unit>
</body></file>
<file original="b.txt" source-language="en-US" target-language="fr" datatype="x"><body>
<trans-unit id="1"><source>Red.</source><target/></trans-unit></body></file>
</xliff>
"""
NEW = """<?xml version="1.0"?>
<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en" trgLang="de"
  xmlns:mtc="urn:oasis:names:tc:xliff:matches:2.0">
<file id="f1" original="a.html"><notes><note>of the file</note></notes>
<group id="g1"><unit id="u1" name="greeting">
  <mtc:matches><mtc:match ref="#1"><source>Old.</source><target>Alt.</target></mtc:match></mtc:matches>
  <notes><note id="n1">first</note></notes>
  <originalData><data id="d1">&lt;br/&gt;</data></originalData>
  <segment id="s1" state="final"><source>A <pc id="1">bold <ph id="2" dataRef="d1"/>word</pc><cp hex="001B"/>.</source>
    <target>Ein <mrk id="m" type="term">fettes</mrk><ph
      id="3" type="fmt" subType="xlf:lb"/><sc id="4"/>Wort<ec startRef="4"/>.</target></segment>
  <ignorable><source>  </source></ignorable>
  <segment><source>Next.</source></segment>
</unit></group>
</file></xliff>
"""


def test_version_1_2(tmp_path: Path) -> None:
    first, one, two, three, lone, other = read_units(write(tmp_path / "a.xlf", OLD))
    assert first.sides == (
        Side("Click the button now.", "en-US"),
        Side("Jetzt klicken.", "de", {"state": "translated"}),
    )
    assert first.metadata == {"file": "a.docx", "id": "1", "name": "greeting", "note": ["first", "second"]}
    assert first.line == 6
    assert [side.text for side in one.sides] == ["One.", "Eins."]
    assert one.metadata == {"file": "a.docx", "id": "2", "segment": "s1"}
    assert [side.text for side in two.sides] == ["Two."]
    assert three.sides == (Side("", "en-US"), Side("Drei.", "de"))
    assert [side.text for side in lone.sides] == ["No target."]
    assert other == Unit((Side("Red.", "en-US"), Side("", "fr")), {"file": "b.txt", "id": "1"}, 24)


def test_version_2_0(tmp_path: Path) -> None:
    first, second = read_units(write(tmp_path / "a.xliff", NEW))
    assert first.sides == (Side("A bold word\x1b.", "en"), Side("Ein fettes Wort.", "de", {"state": "final"}))
    assert first.metadata == {"file": "a.html", "id": "u1", "name": "greeting", "segment": "s1", "note": "first"}
    assert second.sides == (Side("Next.", "en"),)
    assert second.metadata == {"file": "a.html", "id": "u1", "name": "greeting", "note": "first"}


@pytest.mark.parametrize("hexadecimal", ["0000", "D800", "zz", "110000", ""])
def test_a_code_that_is_not_character(tmp_path: Path, hexadecimal: str) -> None:
    (unit, _) = read_units(write(tmp_path / "a.xlf", NEW.replace("001B", hexadecimal)))
    assert unit.sides[0].text == "A bold word\ufffd."


def test_deleted_text_of_tracked_changes_is_left_out(tmp_path: Path) -> None:
    """Trados marks the deleted text, also codes in it and a space alone."""
    target = (
        '<mrk mtype="seg" mid="1">The <mrk mtype="x-sdl-deleted" r="1"><g id="1">hound <x id="2" ctype="lb"/></g></mrk>'
        '<mrk mtype="x-sdl-added" r="2">dog</mrk><mrk mtype="x-sdl-deleted" r="3"> </mrk>house.</mrk> '
        '<mrk mtype="seg" mid="2"><mrk mtype="x-sdl-deleted" r="4">Yes</mrk>No.</mrk>'
    )
    source = '<mrk mtype="seg" mid="1">Die Hundehütte.</mrk> <mrk mtype="seg" mid="2">Nein.</mrk>'
    unit = f"<source>Die Hundehütte. Nein.</source><seg-source>{source}</seg-source><target>{target}</target>"
    path = tmp_path / "a.sdlxliff"
    path.write_text(
        '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a" source-language="de" '
        f'target-language="en" datatype="x"><body><trans-unit id="1">{unit}</trans-unit></body></file></xliff>'
    )
    assert [unit.sides[1].text for unit in read_units(path)] == ["The doghouse.", "No."]


@pytest.mark.parametrize("name", ["a.xlf", "a.xliff", "a.sdlxliff", "a.mqxliff", "a.mxliff"])
def test_dialects_are_indexed(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, OLD)
    (document,) = read(path, lang="de")
    assert [sentence.text for sentence in document.sentences()] == ["Jetzt klicken.", "Eins.", "Drei."]
    (document,) = read(path, lang="en")
    assert [s.text for s in document.sentences()] == ["Click the button now.", "One.", "Two.", "No target.", "Red."]
    assert next(document.sentences()).metadata["file"] == "a.docx"
    with pytest.raises(ReadError, match=r"texts in several languages \(de, en-US, fr\); expected one"):
        list(next(iter(read(path))).sentences())


def cut(tmp_path: Path, seg_source: str, target: str = "") -> list[tuple[str, str, list[str]]]:
    """Segments of a unit that is cut so, where ``[name ...]`` is a mark; without a name where that is "-"."""
    body = f"<source>All. Of it.</source><seg-source>{seg_source}</seg-source>{target}"
    body = body.replace("[- ", "<mrk mtype='seg'>").replace("]", "</mrk>")
    for name in "123":
        body = body.replace(f"[{name} ", f"<mrk mtype='seg' mid='{name}'>")
    document = XLIFF.replace("<source>Grün ist die Wiese.</source><target>Green is the meadow.</target>", body)
    units = read_units(write(tmp_path / "a.xlf", document))
    return [(u.metadata.get("segment", ""), u.sides[0].text, [side.text for side in u.sides[1:]]) for u in units]


def test_no_text_is_lost_by_how_a_unit_is_cut(tmp_path: Path) -> None:
    both = "[1 All.] [2 Of it.]"
    assert cut(tmp_path, both, "<target>[1 Alles.] [2 Davon.]</target>") == [
        ("1", "All.", ["Alles."]),
        ("2", "Of it.", ["Davon."]),
    ]
    parts = [("1", "All.", []), ("2", "Of it.", [])]
    assert cut(tmp_path, both) == cut(tmp_path, both, "<target> </target>") == parts
    assert cut(tmp_path, "[- All.] [- Of it.]", "<target>[- Alles.]</target>") == [
        ("1", "All.", ["Alles."]),
        ("2", "Of it.", []),
    ]
    assert cut(tmp_path, "[1 All.]", "<target>[2 Davon.]</target>") == [("1", "All.", []), ("2", "", ["Davon."])]
    for seg_source, target in (
        ("All. [1 Of it.]", "<target>Alles davon.</target>"),
        ("[1 All.] <g id='1'>Of</g> [2 it.]", "<target>[1 Alles] davon.</target>"),
        (both, "<target>Alles davon.</target>"),
        ("[1 All. [2 Of it.]]", "<target>[1 Alles davon.]</target>"),
    ):
        assert cut(tmp_path, seg_source, target) == [("", "All. Of it.", ["Alles davon."])]


def test_many_marks_of_one_name_are_read_in_their_number(tmp_path: Path) -> None:
    started = time.process_time()
    ((_, text, _),) = cut(tmp_path, f"[1 😀{'x' * 1_000_000}]" + "[1 x]" * 14_000)
    assert len(text) == 1_014_001
    assert time.process_time() - started < 1


def test_the_language_of_a_side(tmp_path: Path) -> None:
    """Its own, or that of the file, or that of the document; never that of the file before."""
    unit = "<trans-unit id='1'><source{}>x</source><target{}>y</target></trans-unit>"
    french, english = " xml:lang='fr'", " xml:lang='en-GB'"
    files = [
        ("target-language='de'", unit.format("", "") + unit.format(english, french) + unit.format("", "")),
        ("", unit.format("", "") + unit.format("", french)),
    ]
    body = "".join(
        f"<file original='a' source-language='en' {attributes}><body>{units}</body></file>"
        for attributes, units in files
    )
    path = write(
        tmp_path / "a.xlf", f"<xliff version='1.2' xmlns='urn:oasis:names:tc:xliff:document:1.2'>{body}</xliff>"
    )
    results = [tuple(side.language for side in item.sides) for item in read_units(path)]
    assert results == [("en", "de"), ("en-GB", "fr"), ("en", "de"), ("en", ""), ("en", "fr")]
    new = NEW.replace("<target>Ein", "<target xml:lang='gsw'>Ein")
    assert [[side.language for side in entry.sides] for entry in read_units(write(path, new))] == [
        ["en", "gsw"],
        ["en"],
    ]


@pytest.mark.parametrize(
    ("before", "inner"),
    [
        ("<source", f"<segment id='{'x' * 1000}'/>"),
        ("<source", f"<segment state='{'x' * 1000}'/>"),
        ("<source", "<segment/>" * 10),
        ("<source", f"<source xml:lang='{'x' * 1000}'/>"),
        ("Gr", f"<mrk mtype='seg' mid='{'x' * 1000}'/>"),
        ("Gr", "<x ctype='lb'/>" * 1000),
        ("Gr", "<cp hex='1B'/>" * 1000),
    ],
    ids=["id", "state", "segment", "language", "mark", "line break", "control character"],
)
def test_all_that_is_kept_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, inner: str) -> None:
    monkeypatch.setattr(xml_module, "UNIT", 20_000)
    few, many = (write(tmp_path / f"{n}.xlf", XLIFF.replace(before, inner * n + before, 1)) for n in (10, 30))
    assert list(read_units(few))
    with pytest.raises(ReadError, match="one entry of more than 20,000 characters"):
        list(read_units(many))


def test_a_file_without_the_namespace_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.xlf", XLIFF.replace(' xmlns="urn:oasis:names:tc:xliff:document:1.2"', ""))
    assert [[side.text for side in unit.sides] for unit in read_units(path)] == [
        ["Grün ist die Wiese.", "Green is the meadow."]
    ]


def test_sentence_pairs(tmp_path: Path) -> None:
    path = write(tmp_path / "a.xlf", OLD)
    assert list(read_bilingual(path)) == [("Click the button now.", "Jetzt klicken."), ("One.", "Eins.")]
    assert list(read_bilingual(path, "de", "en")) == [("Jetzt klicken.", "Click the button now."), ("Eins.", "One.")]


def some(version: str, text: str) -> str:
    """What is read again of a text: XLIFF 2.0 has a place for control characters."""
    if version == "1.2":
        return writable(text)
    return "".join(c if (c < " " and c != "\0") or c in "\ufffe\uffff" else writable(c) for c in text)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["1.2", "2.0"]),
    st.lists(
        st.tuples(TEXTS, st.none() | TEXTS, st.lists(TEXTS.filter(str.strip), max_size=2)), min_size=1, max_size=4
    ),
)
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, version: str, rows: list[tuple[str, str | None, list[str]]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "round.xlf"
    units = [
        Unit((Side(one, "de"), *([] if two is None else [Side(two, "zh-TW")])), {"note": notes, "tuid": f"t{n}"})
        for n, (one, two, notes) in enumerate(rows)
    ]
    write_units(path, units, ("de", "zh-TW"), version)
    for number, (unit, (one, two, notes)) in enumerate(zip(read_units(path), rows, strict=True)):
        expected = [some(version, one)] + ([] if two is None else [some(version, two)])
        assert [side.text for side in unit.sides] == expected
        response = unit.metadata.get("note", [])
        assert [response] * isinstance(response, str) + list(response) * isinstance(response, list) == [
            text for note in notes if (text := writable(note).strip())
        ]
        assert (unit.metadata["name"], unit.metadata["file"]) == (f"t{number}", "round")


def test_states_are_written_where_the_version_knows_them(tmp_path: Path) -> None:
    unit = Unit((Side("a", "de"), Side("b", "en", {"state": "needs-translation"})))
    for version, expected in (("1.2", {"state": "needs-translation"}), ("2.0", {})):
        write_units(tmp_path / "a.xlf", [unit], version=version)
        assert [u.sides[1].metadata for u in read_units(tmp_path / "a.xlf")] == [expected]


@pytest.mark.parametrize("sides", [[], ["en"], ["de", "fr"], ["de", "en", "de"]])
def test_other_languages_than_those_of_the_file_are_refused(tmp_path: Path, sides: list[str]) -> None:
    units = [Unit((Side("a", "de"), Side("b", "en"))), Unit(tuple(Side("x", side) for side in sides))]
    with pytest.raises(InputError, match="an XLIFF file has de and en throughout"):
        write_units(tmp_path / "a.xlf", units)
    assert list(tmp_path.iterdir()) == []


def test_the_same_as_translate_toolkit(tmp_path: Path) -> None:
    xliff = pytest.importorskip("translate.storage.xliff")
    pairs = [("Grün & <b>", "green"), ("  zwei\nZeilen ", "two lines"), ("إلى", "to \u202e!")]
    write_units(tmp_path / "a.xlf", (Unit((Side(a, "de"), Side(b, "en")), {"note": "n"}) for a, b in pairs))
    theirs = xliff.xlifffile.parsefile(str(tmp_path / "a.xlf"))
    assert [(str(unit.source), str(unit.target)) for unit in theirs.units] == pairs
    assert [unit.getnotes() for unit in theirs.units] == ["n"] * 3
    result = xliff.xlifffile()
    result.setsourcelanguage("de")
    result.settargetlanguage("en")
    for source, target in pairs:
        unit = result.addsourceunit(source)
        unit.target = target
        unit.addnote("c")
    result.savefile(str(tmp_path / "b.xlf"))
    back = list(read_units(tmp_path / "b.xlf"))
    assert [tuple(side.text for side in unit.sides) for unit in back] == pairs
    assert [unit.metadata["note"] for unit in back] == ["c"] * 3


def test_the_same_as_translate_toolkit_of_version_2(tmp_path: Path) -> None:
    xliff2: Any = pytest.importorskip("translate.storage.xliff2")
    pairs = [("Grün & <b>", "green"), ("zwei", "two lines")]
    write_units(tmp_path / "a.xlf", (Unit((Side(a, "de"), Side(b, "en"))) for a, b in pairs), version="2.0")
    theirs = xliff2.Xliff2File.parsefile(str(tmp_path / "a.xlf"))
    assert [(str(unit.source), str(unit.target)) for unit in theirs.units] == pairs


def test_what_is_said_of_a_unit_counts_for_each_of_its_segments(tmp_path: Path) -> None:
    segments = "<segment><source>One.</source></segment>" * 1_000
    for count, fits in ((3_000, True), (4_000, False)):
        unit = f'<unit id="1"><notes><note>{"x" * count}</note></notes>{segments}</unit>'
        head = '<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en"><file id="f">'
        (tmp_path / "a.xlf").write_text(f"{head}{unit}</file></xliff>", "utf-8")
        if fits:
            assert len(list(read_units(tmp_path / "a.xlf"))) == 1_000
        else:
            with pytest.raises(ReadError, match="one entry of more than 4,000,000 characters"):
                list(read_units(tmp_path / "a.xlf"))


@pytest.mark.parametrize(("count", "fits"), [(1_000, True), (1_001, False)])
def test_the_name_of_the_original_goes_with_each_unit_and_has_a_limit(tmp_path: Path, count: int, fits: bool) -> None:
    head = f'<xliff version="1.2"><file original="{"x" * count}" source-language="en"><body>'
    unit = '<trans-unit id="1"><source>One.</source></trans-unit>'
    (tmp_path / "a.xlf").write_text(f"{head}{unit}</body></file></xliff>", "utf-8")
    if fits:
        assert next(read_units(tmp_path / "a.xlf")).metadata["file"] == "x" * count
    else:
        with pytest.raises(ReadError, match="an original named by 1,001 characters; expected at most 1,000; "):
            list(read_units(tmp_path / "a.xlf"))

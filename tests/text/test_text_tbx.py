from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from hostile import TBX, write
from hypothesis import given, settings
from hypothesis import strategies as st
from test_text_tmx import TEXTS

import phrasemate.text.formats.xml as xml_module
from phrasemate.errors import InputError, ReadError
from phrasemate.text import read
from phrasemate.text.formats.units import Term
from phrasemate.text.formats.xml import writable
from phrasemate.text.normalize import composed
from phrasemate.text.term_lists import read_terms, write_terms

BODY_2 = """<martif type="TBX-Basic" xml:lang="en"><martifHeader><fileDesc><sourceDesc><p>x</p></sourceDesc></fileDesc>
</martifHeader><text><body>
<termEntry id="c5">
  <descrip type="subjectField">cars</descrip>
  <descripGrp><descrip type="definition">of the <hi>concept</hi></descrip>
    <admin type="source">book 1</admin></descripGrp>
  <note>entry note</note>
  <langSet xml:lang="en">
    <descrip type="definition">in English</descrip>
    <ntig><termGrp><term>scree<hi>n</hi> wiper</term>
      <termNote type="partOfSpeech">noun</termNote><termNote type="administrativeStatus">preferred</termNote></termGrp>
      <descrip type="context">The screen wiper <bpt i="1">&lt;b&gt;</bpt>squeaks.</descrip>
      <descrip type="context">Buy a screen wiper.</descrip>
      <note>term note</note></ntig>
    <tig><term>wiper</term></tig>
  </langSet>
  <langSet xml:lang="de-AT"><tig id="t9"><term>Scheibenwischer</term><ref type="crossReference" target="c7"/>
    <transacGrp><transac type="transactionType">origination</transac><date>2001-05-01</date></transacGrp></tig>
  </langSet>
</termEntry>
<termEntry id="c6"><langSet xml:lang="en"><tig><term>  </term></tig></langSet></termEntry>
</body></text></martif>
"""
BODY_3 = """<?xml version="1.0" encoding="UTF-8"?>
<tbx type="TBX-Basic" style="dct" xml:lang="en" xmlns="urn:iso:std:iso:30042:ed-2"
  xmlns:min="http://www.tbxinfo.net/ns/min" xmlns:basic="http://www.tbxinfo.net/ns/basic">
<tbxHeader><fileDesc><sourceDesc><p>x</p></sourceDesc></fileDesc></tbxHeader><text><body>
<conceptEntry id="c5"><min:subjectField>cars</min:subjectField>
  <descripGrp><basic:definition>of the <hi>concept</hi></basic:definition>
    <basic:source>book 1</basic:source></descripGrp>
  <langSec xml:lang="en"><termSec><term>wiper</term><min:partOfSpeech>noun</min:partOfSpeech>
    <basic:context>A wiper.</basic:context><note>n</note></termSec></langSec>
  <langSec xml:lang="de"><termSec><term>Wischer</term></termSec></langSec>
</conceptEntry></body></text></tbx>
"""


def test_version_2(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tbx", BODY_2)
    long, short = read_terms(path, "en")
    whole = {"subjectField": "cars", "definition.source": "book 1"}
    assert long == Term(
        "screen wiper",
        "en",
        "c5",
        "in English\nof the concept",
        "term note\nentry note",
        ("The screen wiper squeaks.", "Buy a screen wiper."),
        {"partOfSpeech": "noun", "administrativeStatus": "preferred", **whole},
    )
    assert short == Term("wiper", "en", "c5", "in English\nof the concept", "entry note", (), whole)
    (german,) = read_terms(path, "de")
    assert (german.text, german.language, german.definition) == ("Scheibenwischer", "de-AT", "of the concept")
    metadata = {"crossReference": "c7", "transactionType": "origination", "transactionType.date": "2001-05-01"}
    assert german.metadata == {**metadata, **whole}
    assert [term.text for term in read_terms(path, "*")] == ["screen wiper", "wiper", "Scheibenwischer"]


def test_version_3_of_either_style(tmp_path: Path) -> None:
    (term,) = read_terms(write(tmp_path / "a.tbx", BODY_3), "en")
    metadata = {"partOfSpeech": "noun", "subjectField": "cars", "definition.source": "book 1"}
    assert term == Term("wiper", "en", "c5", "of the concept", "n", ("A wiper.",), metadata)
    assert [term.text for term in read_terms(write(tmp_path / "b.tbx", TBX), "de")] == ["Grün"]


def test_a_term_outside_of_a_language_has_none(tmp_path: Path) -> None:
    german = '<langSet xml:lang="de"><tig><term>Bank</term></tig></langSet>'
    entries = f"<termEntry>{german}<tig><term>one</term></tig></termEntry><termEntry><tig><term>two</term></tig>"
    stray = "</termEntry><termEntry><term>stray</term></termEntry><termEntry><langSet xml:lang='en'><tig/></langSet>"
    path = write(tmp_path / "a.tbx", f"<martif><text><body>{entries}{stray}</termEntry></body></text></martif>")
    results = [(term.text, term.language) for term in read_terms(path, "*")]
    assert results == [("Bank", "de"), ("one", ""), ("two", "")]


def test_what_is_said_of_a_term_outside_of_a_language_is_said_of_no_other(tmp_path: Path) -> None:
    terms = "<tig><term>one</term><note>n</note></tig><tig><term>two</term></tig><note>of both</note>"
    text = f"<martif><text><body><termEntry>{terms}</termEntry></body></text></martif>"
    results = [(term.text, term.note) for term in read_terms(write(tmp_path / "a.tbx", text), "*")]
    assert results == [("one", "n\nof both"), ("two", "of both")]


@pytest.mark.parametrize(
    "inner",
    [
        f"<descrip type='{'x' * 1000}'>x</descrip>",
        f"<ref target='{'x' * 1000}'/>",
        f"<langSec xml:lang='{'x' * 1000}'/>",
        f"<descripGrp><descrip type='{'x' * 250}'>x</descrip>{'<note>y</note>' * 3}</descripGrp>",
    ],
    ids=["type", "target", "language", "names in a group"],
)
def test_all_that_is_kept_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inner: str) -> None:
    monkeypatch.setattr(xml_module, "UNIT", 30_000)
    few, many = (write(tmp_path / f"{n}.tbx", TBX.replace("<langSec", inner * n + "<langSec", 1)) for n in (4, 29))
    assert len(list(read_terms(few, "*"))) == 2
    with pytest.raises(ReadError, match="one entry of more than 30,000 characters"):
        list(read_terms(many, "*"))


def test_what_is_said_of_a_concept_counts_for_each_of_its_terms(tmp_path: Path) -> None:
    metadata, terms = "<descrip type='x'>a</descrip>" * 2000, "<termSec><term>t</term></termSec>" * 200
    document = TBX.replace('<langSec xml:lang="de">', f'{metadata}<langSec xml:lang="de">{terms}', 1)
    with pytest.raises(ReadError, match="one entry of more than"):
        list(read_terms(write(tmp_path / "a.tbx", document), "*"))


def test_an_error_names_the_languages(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tbx", BODY_2)
    with pytest.raises(ReadError) as caught:
        list(read_terms(path))
    expected = "terms in 2 languages (de-AT, en); expected one language; choose one with --lang"
    assert str(caught.value) == f"{path}: {expected}"
    with pytest.raises(ReadError, match="no term in 'fr'; the languages here are de-AT, en; choose one of them"):
        list(read_terms(path, "fr"))
    with pytest.raises(ReadError, match="no term in it"):
        list(read_terms(write(tmp_path / "b.tbx", "<martif><text><body/></text></martif>")))


def test_terms_definitions_and_contexts_are_indexed(tmp_path: Path) -> None:
    (document,) = read(write(tmp_path / "a.tbx", BODY_2), lang="en")
    results = [(sentence.text, sentence.metadata["kind"]) for sentence in document.sentences()]
    assert results == [
        ("screen wiper", "term"),
        ("in English of the concept", "definition"),  # those of a term are one text
        ("The screen wiper squeaks.", "context"),
        ("Buy a screen wiper.", "context"),
        ("wiper", "term"),
    ]
    assert {sentence.metadata["id"] for sentence in document.sentences()} == {"c5"}


FIELD = TEXTS.map(str.strip)
TERMS = st.builds(
    Term,
    text=TEXTS.filter(lambda text: bool(text.strip())),
    language=st.sampled_from(["de", "en", "zh-TW"]),
    definition=FIELD,
    note=FIELD,
    contexts=st.lists(FIELD.filter(bool), max_size=2).map(tuple),
    metadata=st.dictionaries(st.sampled_from(["partOfSpeech", "subjectField", "source"]), FIELD.filter(bool)),
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([2, 3]), st.lists(TERMS, min_size=1, max_size=4))
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, version: int, terms: list[Term]
) -> None:
    path = tmp_path_factory.getbasetemp() / "round.tbx"
    write_terms(path, terms, version)
    check = writable
    for number, (term, result) in enumerate(zip(terms, read_terms(path, "*"), strict=True), 1):
        assert result == Term(
            composed(check(term.text)).strip(),
            term.language,
            f"c{number}",
            check(term.definition),
            check(term.note),
            tuple(map(check, term.contexts)),
            {key: check(str(value)) for key, value in term.metadata.items()},
        )


def test_terms_of_one_concept_stay_together(tmp_path: Path) -> None:
    terms = [Term("a", "de", "1"), Term("b", "en", "1"), Term("c", "de", "1"), Term("d", "de"), Term("e", "de")]
    write_terms(tmp_path / "a.tbx", terms, 3)
    results = [(term.id, term.text) for term in read_terms(tmp_path / "a.tbx", "*")]
    assert results == [("c1", "a"), ("c1", "c"), ("c1", "b"), ("c2", "d"), ("c3", "e")]
    with pytest.raises(InputError, match="version=1; expected 2 or 3"):
        write_terms(tmp_path / "b.tbx", terms, 1)


def test_every_concept_has_an_id_of_its_own_that_xml_allows(tmp_path: Path) -> None:
    ids = ["c2", "", "17", "x", "c2", "ä 1", "17", "c17-2", "-a:b", "²"]
    write_terms(tmp_path / "a.tbx", [Term(f"term {number}", "de", id) for number, id in enumerate(ids)])
    result = [term.id for term in read_terms(tmp_path / "a.tbx", "*")]
    assert result == ["c2", "c2-2", "c17", "x", "c2-3", "ä_1", "c17-2", "c17-2-2", "c-a_b", "c_"]
    declared = ElementTree.fromstring((tmp_path / "a.tbx").read_bytes().replace(b"http://www.w3.org/XML/1998/", b""))
    assert len({item.get("id") for item in declared.iter("termEntry")}) == len(ids)


def test_the_same_as_translate_toolkit(tmp_path: Path) -> None:
    tbx = pytest.importorskip("translate.storage.tbx")
    pairs = [("grün & <b>", "green"), ("Bank", "bench")]
    terms = [
        Term(text, language, str(number), note="n" if language == "de" else "")
        for number, pair in enumerate(pairs)
        for text, language in zip(pair, ("de", "en"), strict=True)
    ]
    write_terms(tmp_path / "a.tbx", terms)
    theirs = tbx.tbxfile.parsefile(str(tmp_path / "a.tbx"))
    assert [(str(unit.source), str(unit.target)) for unit in theirs.units] == pairs
    result = tbx.tbxfile(sourcelanguage="de", targetlanguage="en")
    for source, target in pairs:
        unit = result.addsourceunit(source)
        unit.target = target
    result.savefile(str(tmp_path / "b.tbx"))
    assert [term.text for term in read_terms(tmp_path / "b.tbx", "*")] == [text for pair in pairs for text in pair]

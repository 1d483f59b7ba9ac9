from __future__ import annotations

import csv
from pathlib import Path
from xml.etree import ElementTree

import pytest

from phrasemate import glossary as module
from phrasemate.errors import InputError, ReadError
from phrasemate.glossary import FORMATS, Entry, Glossary, write_glossary
from phrasemate.lexicon import open_dictionaries
from phrasemate.text import read_terms

NOTICE = Entry(
    "Kündigungsfrist", "notice period", "de", "en", "preferred", "law", "not: deadline",
    "A notice period of <three> months & a day.", "lease.txt:7", "Es gilt eine Kündigungsfrist.",
)  # fmt: skip
BENCH = Entry("Bank", "bench", "de", "en", domain="park")
BANK = Entry("Bank", "bank", "de", "en", domain="money")
DEADLINE = Entry("Kündigungsfrist", "deadline", "de", "en", "deprecated", "law")
ALL = (NOTICE, BENCH, BANK, DEADLINE)


@pytest.fixture
def glossary(tmp_path: Path) -> Glossary:
    result = Glossary(tmp_path / "terms.jsonl")
    for entry in ALL:
        result.add(entry)
    return result


def test_entries_last(glossary: Glossary) -> None:
    again = Glossary(glossary.path)
    assert again.entries == glossary.entries
    assert [entry.id for entry in again.entries] == [1, 2, 3, 4]
    assert again.entries[0].note == "not: deadline"


def test_changes_and_undo(glossary: Glossary) -> None:
    glossary.change(2, note="in a park")
    glossary.remove(3)
    assert [entry.id for entry in Glossary(glossary.path).entries] == [1, 2, 4]
    assert glossary.undo()
    assert glossary.undo()
    assert glossary.entries[1].note == ""
    assert Glossary(glossary.path).entries == glossary.entries
    assert not Glossary().undo()
    with pytest.raises(InputError, match="no entry 9"):
        glossary.remove(9)


def test_the_same_pair_is_kept_once(glossary: Glossary) -> None:
    assert glossary.add(Entry("bank", "Bench", "de", "en")).id == 2
    assert len(glossary.entries) == 4


def test_conflicts_are_rivals_of_one_term_and_domain(glossary: Glossary) -> None:
    assert glossary.conflicts() == set()  # two domains; the other rival is deprecated
    glossary.change(4, status="preferred")
    assert glossary.conflicts() == {1, 4}
    glossary.change(3, domain="park")
    assert glossary.conflicts() == {1, 2, 3, 4}


def test_entries_of_an_inflected_term(glossary: Glossary) -> None:
    assert [entry.target for entry in glossary.of("kündigungsfristen")] == ["notice period", "deadline"]
    assert glossary.of("Kündigung") == []
    glossary.add(Entry("Fristen", "time limits"))
    assert glossary.of("Frist") == []  # of a language that nobody has said


def test_other_words_of_one_stem_have_entries_of_their_own(glossary: Glossary) -> None:
    glossary.add(Entry("die Küche", "kitchen", "de"))
    glossary.add(Entry("evidence", "Beweis", "en"))
    assert [entry.target for entry in glossary.of("Küchen")] == ["kitchen"]
    assert glossary.of("Kuchen") == []  # cake
    assert glossary.of("evidently") == []


def test_terms_of_many_entries_are_those_of_each_alone(glossary: Glossary) -> None:
    """In the order of the entries, after every change."""
    entries = [Entry("die Banken", "banks", "de"), Entry("BANK", "bench"), Entry("banks", "Banken", "en")]
    for entry in entries:
        glossary.add(entry)
    glossary.remove(2)
    for source in ("bank", "Banken", "Bänke", "kündigungsfristen", "nothing"):
        expected = []
        for entry in glossary.entries:
            alone = Glossary()
            alone.add(entry)
            expected += [entry.target] * bool(alone.of(source))
        assert [entry.target for entry in glossary.of(source)] == expected
    assert [entry.target for entry in glossary.of("bank")] == ["bank", "banks", "bench", "Banken"]


def test_a_file_that_another_program_changed_is_read_again(glossary: Glossary) -> None:
    other = Glossary(glossary.path)
    other.remove(1)
    glossary.add(Entry("Frist", "time limit"))
    assert [entry.target for entry in Glossary(glossary.path).entries] == ["bench", "bank", "deadline", "time limit"]


@pytest.mark.parametrize("content", ['{"source": "a"}', "[]", "none", '{"source": "a", "target": "b", "status": "x"}'])
def test_what_is_not_glossary_is_refused_and_stays(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(content)
    with pytest.raises(ReadError, match="not an entry"):
        Glossary(path)
    assert path.read_text() == content


@pytest.mark.parametrize("content", [None, "[{}]".encode("utf-16")])
def test_a_glossary_that_cannot_be_read_is_one_error(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "terms.jsonl"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with pytest.raises(ReadError, match=r"terms\.jsonl: cannot be read \(.*; give a glossary file, or a new name"):
        Glossary(path)


def test_a_folder_that_does_not_exist_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="its folder does not exist"):
        Glossary(tmp_path / "typo" / "glossary.jsonl")


def test_a_full_glossary_takes_no_more_terms(glossary: Glossary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENTRIES", 4)
    assert glossary.add(Entry("bank", "Bench", "de", "en")).id == 2  # a pair that is there already
    with pytest.raises(InputError, match="the glossary has 4 entries, which is the limit; start another file"):
        glossary.add(Entry("Frist", "time limit"))
    glossary.remove(1)
    assert glossary.add(Entry("Frist", "time limit")).id == 5  # no number twice


def test_what_cannot_be_saved_changes_nothing(glossary: Glossary, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    glossary.change(2, note="in a park")
    before = glossary.entries
    with monkeypatch.context() as patch:
        patch.setattr(module, "atomic_file", refuse)
        for change in (lambda: glossary.remove(1), glossary.undo):
            with pytest.raises(InputError, match="the glossary cannot be saved: No space left on device"):
                change()
    assert glossary.entries == Glossary(glossary.path).entries == before
    assert glossary.undo()  # the note, not what failed
    assert [entry.note for entry in glossary.entries] == [NOTICE.note, "", "", ""]


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_a_change_that_any_error_stops_changes_nothing(
    glossary: Glossary, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise error

    before = glossary.entries
    with monkeypatch.context() as patch:
        patch.setattr(module, "atomic_file", stop)
        with pytest.raises(error):
            glossary.remove(1)
    assert glossary.entries == before


def test_half_a_character_is_refused_and_later_entries_are_saved(glossary: Glossary) -> None:
    with pytest.raises(InputError, match=r"the glossary cannot be saved: .*surrogates not allowed"):
        glossary.add(Entry("Frist", "time \ud83d limit"))
    glossary.add(Entry("Frist", "time limit"))
    assert [entry.target for entry in Glossary(glossary.path).entries][4:] == ["time limit"]


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\x0c", "\x1c", "\n", "\r", "\r\n"])
def test_every_separator_in_an_entry_lasts(glossary: Glossary, character: str) -> None:
    glossary.add(Entry("Frist", "time limit", note=f"one{character}two"))
    glossary.remove(1)
    assert [entry.note for entry in Glossary(glossary.path).entries] == ["", "", "", f"one{character}two"]


def test_empty_and_long_entries_are_refused() -> None:
    for entry in (Entry("", "x"), Entry("x", " "), Entry("x", "y", note="n" * 2001), Entry("x", "y", status="best")):
        with pytest.raises(InputError):
            Glossary().add(entry)


def written(tmp_path: Path, glossary: Glossary, format_: str) -> Path:
    path = tmp_path / f"out.{FORMATS[format_][0]}"
    write_glossary(path, glossary.entries, format_)
    return path


def test_a_format_that_is_not_known_is_refused(tmp_path: Path, glossary: Glossary) -> None:
    with pytest.raises(InputError, match="format 'pdf'; expected one of tbx, tbx2, omegat, multiterm, csv, tmx"):
        write_glossary(tmp_path / "out.pdf", glossary.entries, "pdf")
    assert not (tmp_path / "out.pdf").exists()


def test_tbx_2_in_translate_toolkit(tmp_path: Path, glossary: Glossary) -> None:
    tbx = pytest.importorskip("translate.storage.tbx")
    store = tbx.tbxfile.parsestring(written(tmp_path, glossary, "tbx2").read_bytes(), "de", "en")
    pairs = {(unit.source, str(term.text), term.deprecated) for unit in store.units for term in unit.get_target_terms()}
    assert pairs == {
        ("Kündigungsfrist", "notice period", False),
        ("Kündigungsfrist", "deadline", True),
        ("Bank", "bench", False),
        ("Bank", "bank", False),
    }


@pytest.mark.parametrize("format_", ["tbx", "tbx2"])
def test_tbx_as_terms(tmp_path: Path, glossary: Glossary, format_: str) -> None:
    terms = list(read_terms(written(tmp_path, glossary, format_), "*"))
    assert [(t.text, t.language, t.id) for t in terms] == [
        ("Kündigungsfrist", "de", "c1"),
        ("notice period", "en", "c1"),
        ("deadline", "en", "c1"),
        ("Bank", "de", "c2"),
        ("bench", "en", "c2"),
        ("Bank", "de", "c3"),
        ("bank", "en", "c3"),
    ]
    notice = terms[1]
    assert notice.contexts == (NOTICE.example,)
    assert notice.note == NOTICE.note
    assert notice.metadata["administrativeStatus"] == "preferredTerm-admn-sts"
    assert notice.metadata["subjectField"] == "law"
    assert notice.metadata["source"] == "lease.txt:7"
    assert terms[2].metadata["administrativeStatus"] == "deprecatedTerm-admn-sts"


def test_omegat_has_three_columns_and_nothing_deprecated(tmp_path: Path, glossary: Glossary) -> None:
    from translate.storage import omegat

    path = written(tmp_path, glossary, "omegat")
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
    assert [len(row) for row in rows] == [3, 3, 3]
    units = omegat.OmegaTFile.parsefile(str(path)).units
    assert [(unit.source, unit.target) for unit in units] == [(e.source, e.target) for e in (NOTICE, BENCH, BANK)]


def test_tmx_in_translate_toolkit(tmp_path: Path, glossary: Glossary) -> None:
    from translate.storage import tmx

    with written(tmp_path, glossary, "tmx").open("rb") as file:
        units = tmx.tmxfile(file, "de", "en").units
    assert [(unit.source, unit.target) for unit in units] == [(e.source, e.target) for e in (NOTICE, BENCH, BANK)]


def test_multiterm_is_a_concept_for_each_term_and_domain(tmp_path: Path, glossary: Glossary) -> None:
    root = ElementTree.parse(written(tmp_path, glossary, "multiterm")).getroot()
    concepts = root.findall("conceptGrp")
    assert [[t.text for t in concept.iter("term")] for concept in concepts] == [
        ["Kündigungsfrist", "notice period", "deadline"],
        ["Bank", "bench"],
        ["Bank", "bank"],
    ]
    languages = [(item.get("type"), item.get("lang")) for item in concepts[0].iter("language")]
    assert languages == [("German", "DE"), ("English", "EN")]
    statuses = [entry.text for entry in concepts[0].iter("descrip") if entry.get("type") == "Status"]
    assert statuses == ["preferred", "deprecated"]


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize(("source_language", "target_language"), [("", ""), ("de", ""), ("", "en"), ("de", "en")])
def test_entries_of_unknown_languages_are_read_as_pairs(
    tmp_path: Path, format_: str, source_language: str, target_language: str
) -> None:
    glossary = Glossary()
    for source, target in (("Bank", "bench"), ("Bank", "seat"), ("Frist", "deadline")):
        glossary.add(Entry(source, target, source_language, target_language, origin="lease.txt:7"))
    (dictionary,) = open_dictionaries([written(tmp_path, glossary, format_)])
    for wording, expected in (("Bank", ["bench", "seat"]), ("Frist", ["deadline"])):
        assert [item.text for item in dictionary.equivalents(wording, "de", "en")] == expected
    for wording, expected in (("seat", ["Bank"]), ("deadline", ["Frist"])):
        assert [item.text for item in dictionary.equivalents(wording, "en", "de")] == expected


@pytest.mark.parametrize("format_", FORMATS)
def test_entries_of_known_and_unknown_languages_are_read_from_one_file(tmp_path: Path, format_: str) -> None:
    glossary = Glossary()
    glossary.add(Entry("Bank", "bench", "de", "en"))
    for number, tags in enumerate([("", ""), ("de", ""), ("", "en"), ("ja", "en")]):
        glossary.add(Entry(f"wort{number}", f"word{number}", *tags))
    (dictionary,) = open_dictionaries([written(tmp_path, glossary, format_)])
    for entry in glossary.entries:
        assert [item.text for item in dictionary.equivalents(entry.source, entry.source_language)] == [entry.target]


@pytest.mark.parametrize(("source_language", "target_language"), [("", ""), ("de", ""), ("", "en"), ("de", "en")])
def test_csv_has_no_column_twice_and_earlier_files_are_read(
    tmp_path: Path, source_language: str, target_language: str
) -> None:
    glossary = Glossary()
    glossary.add(Entry("Bank", "bench", source_language, target_language, origin="lease.txt:7"))
    path = written(tmp_path, glossary, "csv")
    header = path.read_text("utf-8-sig").splitlines()[0].split(",")
    assert len(set(header)) == len(header)
    path.write_text(path.read_text("utf-8").replace(",Origin", ",Source"), "utf-8")
    (dictionary,) = open_dictionaries([path])
    assert [item.text for item in dictionary.equivalents("Bank", "de", "en")] == ["bench"]


@pytest.mark.parametrize(
    ("tag", "name"),
    [("bg", "Bulgarian"), ("fa", "Persian"), ("he", "Hebrew"), ("hi", "Hindi"), ("id", "Indonesian"),
     ("vi", "Vietnamese"), ("pt-BR", "Portuguese"), ("zh_TW", "Chinese"), ("gl", "Galician"), ("xx", "xx")],
)  # fmt: skip
def test_csv_and_multiterm_have_the_english_names_of_languages(tmp_path: Path, tag: str, name: str) -> None:
    glossary = Glossary()
    glossary.add(Entry("a", "b", tag, "en"))
    header = written(tmp_path, glossary, "csv").read_text("utf-8-sig").splitlines()[0].split(",")
    assert header[3:5] == [name, "English"]
    root = ElementTree.parse(written(tmp_path, glossary, "multiterm")).getroot()
    assert [item.get("type") for item in root.iter("language")] == [name, "English"]


def test_csv_names_columns_by_language_and_starts_no_formula(tmp_path: Path, glossary: Glossary) -> None:
    glossary.add(Entry("x", "=1+1", "de", "en"))
    with written(tmp_path, glossary, "csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    pairs = [(row["German"], row["English"]) for row in rows[:2]]
    assert pairs == [("Kündigungsfrist", "notice period"), ("Bank", "bench")]
    assert rows[0]["Term_Example"] == NOTICE.example
    assert rows[4]["English"] == "'=1+1"


def test_csv_has_a_column_for_each_language(tmp_path: Path, glossary: Glossary) -> None:
    glossary.add(Entry("بنك", "בנק", "ar", "he"))
    glossary.add(Entry("sofa", "couch", "en", "en"))
    path = written(tmp_path, glossary, "csv")
    assert [term.text for term in read_terms(path, "ar", "Arabic")] == ["بنك"]
    assert [term.text for term in read_terms(path, "de", "German")] == [entry.source for entry in ALL]
    with path.open(encoding="utf-8-sig", newline="") as file:
        header, *_, last = csv.reader(file)
    assert [cell for name, cell in zip(header, last, strict=True) if name == "English"] == ["sofa", "couch"]

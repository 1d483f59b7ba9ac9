"""Whole data sets: from tables and texts, from dumps with links; statistics, resuming, errors."""

from __future__ import annotations

import bz2
import gzip
import importlib
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wiki_files import articles, dump, page, sql

from phrasemate.dataset import (
    DatasetReport,
    DatasetSettings,
    Reading,
    SentenceFiles,
    Side,
    build,
    build_files,
    read_dataset,
)
from phrasemate.dataset.build import phrase_pairs
from phrasemate.dataset.split import divided
from phrasemate.dataset.wikixpr import SPLITS, ExamplePair
from phrasemate.errors import InputError, ReadError
from phrasemate.examples import ExampleIndex
from phrasemate.text import Term, TermPair, write_pairs
from phrasemate.text import read as read_texts

ANIMALS = {
    "Hund": "dog",
    "Katze": "cat",
    "Pferd": "horse",
    "Kuh": "cow",
    "Vogel": "bird",
    "Fisch": "fish",
    "Maus": "mouse",
    "Bär": "bear",
    "Wolf": "wolf (animal)",
    "Ente": "duck",
}
EVERYTHING = DatasetSettings(copies=1)
MODULE = importlib.import_module("phrasemate.dataset.build")  # the package has a function of this name


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of ten pairs, and a text of two sentences for each word in both languages."""
    monkeypatch.chdir(tmp_path)
    Path("pairs.tsv").write_text("".join(f"{a}\t{b.split()[0]}\n" for a, b in ANIMALS.items()), "utf-8")
    german = "".join(f"Heute läuft {a} über die Wiese. Gestern schlief {a} im Stall.\n" for a in ANIMALS)
    english = "".join(
        f"Today {b.split()[0]} runs over the meadow. Then {b.split()[0]} slept in a barn.\n" for b in ANIMALS.values()
    )
    Path("de.txt").write_text(german, "utf-8")
    Path("en.txt.gz").write_bytes(gzip.compress(english.encode()))
    return tmp_path


def build_dataset(**changes: Any) -> DatasetReport:
    sides = {"source": Side("de", ["de.txt"]), "target": Side("en", ["en.txt.gz"])}
    return build_files(**{"out": "out", "pairs": "pairs.tsv", "settings": EVERYTHING} | sides | changes)


def everything(folder: str | Path, pair: str = "de-en") -> list[ExamplePair]:
    return [one for split in SPLITS for one in read_dataset(folder, pair, split)]


def test_pairs_and_texts(folder: Path) -> None:
    report = build_dataset()
    rows = everything("out")
    assert {(one.source, one.target) for one in rows} == {(a, b.split()[0]) for a, b in ANIMALS.items()}
    assert sum(report.splits.values()) == report.given == len(rows) == 10
    dog = next(one for one in rows if one.source == "Hund")
    assert sorted(one.context for one in dog.source_examples) == [
        "Gestern schlief Hund im Stall.",
        "Heute läuft Hund über die Wiese.",
    ]
    assert {one.text for one in dog.target_examples} == {"dog"}
    german, english = report.sides
    assert (german.phrases, german.phrase_words, german.examples, german.examples_a_phrase) == (10, 1.0, 20, 2.0)
    assert german.phrase_characters == sum(map(len, ANIMALS)) / 10
    assert english.sentence_words == (6 + 6) / 2
    noted = json.loads(Path("out/stats.json").read_text("utf-8"))["de-en"]
    assert noted["splits"] == dict(report.splits)
    assert noted["settings"]["copies"] == 1


def test_the_filters_count(folder: Path) -> None:
    with Path("pairs.tsv").open("a", encoding="utf-8") as file:
        file.write("Hund\thound\nZebra\tzebra\nMai\tMay\nWolf\twolf\n\n")
    report = build_dataset(settings=DatasetSettings(least=2))
    assert report.given == 14
    assert report.removed["time"] == 1
    assert report.removed["copy"] == 3  # Wolf twice, Zebra
    assert report.removed["few examples"] == 1  # hound is not in the text
    assert sum(report.splits.values()) + sum(report.removed.values()) == report.given


def test_an_example_index_does_as_well(folder: Path) -> None:
    pairs = [(a, b.split()[0]) for a, b in ANIMALS.items()]
    build_dataset()
    one_pass = SentenceFiles(*Path("out/.work").glob("en-*.txt"))
    with ExampleIndex.build(read_texts("de.txt", lang="de"), language="de") as index:
        report = build("other", ("de", "en"), pairs, index, one_pass, EVERYTHING)
    assert report.splits == {split: len(read_dataset("out", "de-en", split)) for split in SPLITS}
    ours, theirs = everything("out"), everything("other")
    assert [set(a.source_examples) == set(b.source_examples) for a, b in zip(ours, theirs, strict=True)] == [True] * 10


def test_what_was_read_is_not_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_dataset()
    before = everything("out")
    monkeypatch.setattr(MODULE, "split_sentences", None)
    monkeypatch.setattr("phrasemate.text.formats.registry.split_sentences", None)
    build_dataset(force=True)
    assert everything("out") == before


def test_a_changed_text_is_read_again(folder: Path) -> None:
    build_dataset()
    with Path("de.txt").open("a", encoding="utf-8") as file:
        file.write("Dort steht Hund neben Katze und wartet.\n")
    build_dataset(force=True)
    assert Counter(len(one.source_examples) for one in everything("out")) == {2: 8, 3: 2}


@pytest.mark.parametrize("kind", [".txt", ".titles.tsv", ".skipped.jsonl", ".json"])
@pytest.mark.parametrize(
    "damage", [lambda raw: raw[: len(raw) // 2], lambda raw: b"\xff" + raw[1:], None], ids=["cut", "changed", "gone"]
)
def test_what_was_altered_is_made_again(folder: Path, kind: str, damage: Callable[[bytes], bytes] | None) -> None:
    Path("de.xml").write_text(articles({"Tier": "Hund läuft über die Wiese.", "Zu": "{{a|[[b" * 9000}), "utf-8")
    source = Side("de", ["de.xml", "de.txt"])
    first = build_dataset(source=source)
    before = {path: path.read_bytes() for path in Path("out/.work").glob("*")}
    (titles,) = Path("out/.work").glob("*.titles.tsv")
    altered = titles.with_name(titles.name.removesuffix(".titles.tsv") + kind)
    if damage is None:
        altered.unlink()
    else:
        altered.write_bytes(damage(before[altered]))
    assert build_dataset(source=source, force=True) == first
    assert {path: path.read_bytes() for path in Path("out/.work").glob("*")} == before


def test_a_stop_leaves_only_whole_files(folder: Path) -> None:
    def stop(what: str, number: int, total: int) -> None:
        if what == "en examples":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_dataset(progress=stop)
    assert not list(Path("out").glob("de-en/*"))
    assert sorted(path.name[:3] for path in Path("out/.work").glob("*.txt")) == ["de-", "en-"]
    assert not list(Path("out/.work").glob("*.part"))
    assert build_dataset().given == 10


def test_so_many_pages_that_are_passed_over_are_counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "LISTED", 2)
    english = {b.split()[0]: f"Today {b.split()[0]} runs over the meadow." for b in ANIMALS.values()}
    endless = {f"Endless {n}": "{{a|[[b" * 9000 for n in range(5)}
    Path("en.xml").write_text(articles(english | endless), "utf-8")
    assert [item.reason[:20] for item in build_dataset(target=Side("en", ["en.xml"])).skipped] == [
        *("page 20 (Endless 0):", "page 21 (Endless 1):"),
        "3 more pages, whose ",
    ]


def test_what_is_passed_over_is_reported_each_time(folder: Path) -> None:
    Path("de.txt").write_bytes(Path("de.txt").read_bytes() + b"Gr\xfc\xdfe.\n")
    english = {b.split()[0]: f"Today {b.split()[0]} runs over the meadow." for b in ANIMALS.values()}
    english["Endless"] = "Today dog runs. " + "{{a|[[b" * 9000
    Path("en.xml").write_text(articles(english), "utf-8")
    target = Side("en", ["en.xml"])
    for _ in range(2):  # the second time nothing is read
        report = build_dataset(source=Side("de", ["de.txt"], Reading(on_error="skip")), target=target, force=True)
        assert [(item.file, item.line, item.whole) for item in report.skipped] == [
            ("de.txt", 11, False),
            ("en.xml", 0, False),
        ]
        assert report.skipped[1].reason == "page 20 (Endless): its markup would take too long to parse"
        noted = json.loads(Path("out/stats.json").read_text("utf-8"))["de-en"]
        assert noted["skipped"] == [item._asdict() for item in report.skipped]
    with pytest.raises(ReadError, match=r"de\.txt, line 11: byte 0xFC"):  # though what could be read is there
        build_dataset(target=target, force=True)
    assert (
        build_dataset(source=Side("de", ["de.txt"], Reading(on_error="skip")), force=True).skipped == report.skipped[:1]
    )


def test_an_existing_data_set_is_not_overwritten(folder: Path) -> None:
    build_dataset()
    with pytest.raises(InputError, match="de-en: already exists; choose another folder, or add --force"):
        build_dataset()


def test_a_second_pair_is_added(folder: Path) -> None:
    build_dataset()
    build_files(
        "out", Side("en", ["en.txt.gz"]), Side("de", ["de.txt"]), "pairs.tsv", columns=(2, 1), settings=EVERYTHING
    )
    assert sorted(json.loads(Path("out/stats.json").read_text("utf-8"))) == ["de-en", "en-de"]


@pytest.mark.parametrize("noted", ["[]", "null", "{", "[" * 100_000], ids=lambda text: text[:4])
def test_statistics_that_are_invalid_are_written_again(folder: Path, noted: str) -> None:
    Path("out").mkdir()
    Path("out/stats.json").write_text(noted)
    build_dataset()
    assert list(json.loads(Path("out/stats.json").read_text("utf-8"))) == ["de-en"]


@pytest.mark.parametrize(
    ("language", "variants"), [("zh", ["他在家。"]), ("ja", ["他用-{zh-hans:计;zh-hant:計}-写。", "他在-{家}-。"])]
)
def test_variants_are_those_of_the_language(tmp_path: Path, language: str, variants: list[str]) -> None:
    (tmp_path / "wiki.xml").write_text(articles({"写": "他用-{zh-hans:计;zh-hant:計}-写。他在-{家}-。"}), "utf-8")
    (result,) = Side(language, [tmp_path / "wiki.xml"]).staged(tmp_path / "work").sentences
    assert result.read_text("utf-8").splitlines() == variants


def test_dumps_and_links(folder: Path) -> None:
    german = {
        a: f"'''{a}''' ist ein [[Tier]].<ref>x</ref> Dort lebt {a} gern{{{{x}}}}. {a} ist {{{{y}}}} alt."
        for a in ANIMALS
    }
    pages = [page(n, title, text) for n, (title, text) in enumerate(german.items(), 100)]
    pages += [page(98, "1984", "Das Jahr 1984 war ein Jahr."), page(99, "Köter", "#REDIRECT [[Hund]]", redirect="Hund")]
    Path("dewiki.xml.bz2").write_bytes(bz2.compress(dump(pages).encode()))
    english = {
        b.capitalize(): f"A {b.split()[0]} is an animal. Here lives a {b.split()[0]} today." for b in ANIMALS.values()
    }
    Path("enwiki.xml.bz2").write_bytes(bz2.compress(articles(english).encode()))
    rows = [(n, "en", b.capitalize()) for n, b in enumerate(ANIMALS.values(), 100)]
    rows += [(98, "en", "1984"), (99, "en", "Dog"), (100, "fr", "Chien"), (555, "en", "Nothing")]
    Path("links.sql.gz").write_bytes(gzip.compress(sql(rows).encode()))
    report = build_files(
        "wiki",
        Side("de", ["dewiki.xml.bz2"]),
        Side("en", ["enwiki.xml.bz2"]),
        links="links.sql.gz",
        settings=DatasetSettings(least=2),
    )
    assert report.given == 11  # ten animals and a year; no redirect, no French, no page that is not there
    assert report.removed == {"time": 1, "copy": 1}  # the wolf
    result = everything("wiki")
    assert ("Hund", "Dog") in {(one.source, one.target) for one in result}
    for one in result:
        texts_of_one = sorted(example.context for example in one.source_examples)
        assert texts_of_one == sorted([f"{one.source} ist ein Tier.", f"Dort lebt {one.source} gern."])


def test_pairs_as_phrasemate_writes_them(tmp_path: Path) -> None:
    pairs = [("=a", "@b(c)"), ("'=d", "-e")]
    write_pairs(tmp_path / "p.tsv", [TermPair(Term(a), Term(b)) for a, b in pairs])
    assert list(phrase_pairs(tmp_path / "p.tsv"))[1:] == pairs


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pairs": None}, "expected either a table of phrase pairs or a dump of langlinks"),
        ({"links": "l.sql"}, "one of the two"),
        ({"pairs": None, "links": "l.sql"}, "--links needs the dump that its page numbers refer to"),
        ({"pairs": "none.tsv"}, "none.tsv: no such file"),
        ({"target": Side("en", ["none.xml.bz2"])}, "none.xml.bz2: no such file"),
        ({"target": Side("qqq", ["en.txt.gz"])}, "language 'qqq': the CLDR knows no such language"),
        ({"columns": (1, 3)}, "pairs.tsv, line 1: 2 columns; expected 3, separated by tabs"),
        ({"columns": (1, 1)}, "columns 1,1; expected two different numbers"),
        ({"settings": DatasetSettings(least=3)}, r"no pair is left of 10 \(1 copy, 9 few examples\); give more pairs"),
    ],
)
def test_one_clear_error(folder: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_dataset(**changes)


def test_what_is_wrong_shows_before_anything_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Side, "staged", None)
    with pytest.raises(InputError, match=r"none.sql: no such file"):
        build_dataset(pairs=None, links="none.sql", source=Side("de", ["pairs.tsv", "pairs.tsv.bz2"]))


def test_progress_is_told_now_and_then(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "_OFTEN", 8)
    events: list[tuple[str, int, int]] = []
    Path("pairs.tsv").write_text("Hund\tdog\n" * 2500, "utf-8")
    Path("one.txt").write_text("Heute bellt der Hund.\n" * 9)
    Path("two.txt").write_text("Dort liegt die Katze.\n" * 8)
    sizes = 9 * 22, 8 * 22
    build_dataset(source=Side("de", ["one.txt", "two.txt"]), progress=lambda *event: events.append(event))
    first, second = [event for event in events if event[0] == "reading de text"]  # 17 sentences
    assert 0 < first[1] <= sizes[0] < second[1] <= sum(sizes)
    assert first[2] == second[2] == sum(sizes)
    assert [event for event in events if event[0] == "phrase pairs"] == [
        ("phrase pairs", 1000, 0),
        ("phrase pairs", 2000, 0),
    ]


def test_a_dump_that_is_missing_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match=r"none\.xml\.bz2: no such file; check the path"):
        Side("de", [tmp_path / "none.xml.bz2"]).staged(tmp_path / "work")
    assert list((tmp_path / "work").iterdir()) == []


def test_sides_that_make_no_sense(folder: Path) -> None:
    with pytest.raises(InputError, match="the language code is empty; expected a code such as de"):
        Side("", ["de.txt"])
    with pytest.raises(InputError, match="language 'German'; expected a code such as de"):
        Side("German", ["de.txt"])
    with pytest.raises(InputError, match="no text was given for de"):
        build_files("out", Side("de", []), Side("en", ["en.txt.gz"]), "pairs.tsv")
    Path("bad.txt").write_bytes("Tür\n".encode("latin-1"))
    with pytest.raises(ReadError, match=r"bad.txt, line 1: .* is not UTF-8"):
        build_files("out", Side("de", ["bad.txt"]), Side("en", ["en.txt.gz"]), "pairs.tsv")


def test_pairs_that_are_not_utf8(folder: Path) -> None:
    Path("pairs.tsv").write_bytes("Bär\tbear\n".encode("latin-1"))
    with pytest.raises(ReadError, match=r"pairs.tsv, line 1: byte 0xE4 .* is not UTF-8"):
        build_dataset()


def test_no_two_at_once(folder: Path) -> None:
    def again(what: str, number: int, total: int) -> None:
        with pytest.raises(InputError, match="out: another process is writing it"):
            build_dataset()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_dataset(progress=again)


def test_splits_are_those_of_the_hash(folder: Path) -> None:
    build_dataset()
    pairs = [ExamplePair(a, b.split()[0]) for a, b in ANIMALS.items()]
    expected = divided(pairs, EVERYTHING, Counter())
    for split in SPLITS:
        assert [one.target for one in read_dataset("out", "de-en", split)] == [one.target for one in expected[split]]

"""``phrasemate match``: lists and texts in, tables out, errors in one line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import match_fakes as fakes
import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from phrasemate.cli import app
from phrasemate.cli.match import print_matches
from phrasemate.encode import TextPhrases
from phrasemate.examples import ExampleIndex
from phrasemate.index import Index
from phrasemate.match import Match
from phrasemate.text.formats.units import Term
from phrasemate.text.term_lists import read_terms
from phrasemate.types import Document, Phrase

Invoke = Callable[..., Any]
TEXT = ("--source-text", "german", "--target-text", "english")
EASY = ("--min-margin", "0.1", "--neighbours", "2")


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Runs a command in a folder with two lists and two texts."""
    monkeypatch.chdir(tmp_path)
    Path("german").write_text(fakes.GERMAN, "utf-8")
    Path("english").write_text(fakes.ENGLISH, "utf-8")
    Path("old.tsv").touch()
    Path("de.txt").write_text("Hund\nKatze\nLöffel\nHaus\n", "utf-8")
    Path("en.tsv").write_text("id\tterm\n1\thouse\n2\tcloud\n3\tcat\n4\tdog\n", "utf-8")
    loaded: list[Any] = []

    def load(path: Any, threads: Any = None) -> Any:
        loaded.append((path, threads))
        return SimpleNamespace(head=None, calls=[])

    monkeypatch.setattr("phrasemate.encode.load_model", load)
    monkeypatch.setattr("phrasemate.match.by_examples", fakes.by_examples)

    def run(*arguments: str) -> Any:
        result = CliRunner().invoke(app, ["match", *arguments], prog_name="phrasemate")
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        result.loaded = loaded
        return result

    return run


def table(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(Path(path).read_text("utf-8")), delimiter="\t", quoting=csv.QUOTE_NONE))


def test_what_is_printed(invoke: Invoke) -> None:
    result = invoke("de.txt", "en.tsv", *TEXT, *EASY)
    lines = result.stdout.splitlines()
    assert lines[0] == f"Hund = dog  {1 / sqrt(1.16 * 1.09):.3f}, margin 0.889, mutual"
    assert lines[1:3] == ["    Der [[Hund]] bellte laut im Garten.", "    The [[dog]] barked all night."]
    assert [line.split("  ")[0] for line in lines[3::3]] == ["Katze = cat", "Haus = house"]
    assert result.stderr.splitlines() == [
        "found: 3 matches, 3 mutual",
        "without a match: 1 source term: Löffel",
        "in no sentence: 1 source term, compared by wording alone",
        "without a match: 1 target term: cloud",
        "in no sentence: 1 target term, compared by wording alone",
    ]
    Path("de.txt").write_text("Hund\nHund\n", "utf-8")
    assert "repeated: 1 source term, compared once" in invoke("de.txt", "en.tsv", *TEXT, *EASY).stderr.splitlines()


def test_a_table_and_the_rest(invoke: Invoke) -> None:
    result = invoke("de.txt", "en.tsv", *TEXT, *EASY, "-o", "out.tsv", "--unmatched", "rest.tsv", "--evidence", "2")
    assert result.exit_code == 0
    assert result.stdout == "out.tsv: 3 matches, 3 mutual\n"
    rows = table("out.tsv")
    assert [(row["source"], row["target"], row["mutual"]) for row in rows] == [
        ("Hund", "dog", "yes"), ("Katze", "cat", "yes"), ("Haus", "house", "yes"),
    ]  # fmt: skip
    # Hund (1, .4), dog (1, .3) in other places; the second neighbour of each has nothing in common with it
    cosine = 1 / sqrt(1.16 * 1.09)
    assert float(rows[0]["score"]) == pytest.approx(cosine, abs=1e-5)
    assert float(rows[0]["margin"]) == pytest.approx(2 * cosine - (cosine + 0) / 2 - (cosine + 0) / 2, abs=1e-5)
    assert (rows[0]["target_id"], rows[0]["target_evidence_1"]) == ("4", "The [[dog]] barked all night.")
    assert Path("rest.tsv").read_text("utf-8") == "side\tterm\tid\nsource\tLöffel\t\ntarget\tcloud\t2\n"


@pytest.mark.parametrize("name", ["out.csv", "out.xlsx", "out.jsonl", "out.tbx"])
def test_every_format_can_be_read_again(invoke: Invoke, name: str) -> None:
    languages = ("--source-lang", "de", "--target-lang", "en")
    assert invoke("de.txt", "en.tsv", *TEXT, *EASY, *languages, "-o", name).exit_code == 0
    if name == "out.jsonl":
        rows = [json.loads(line) for line in Path(name).read_text("utf-8").splitlines()]
        assert (rows[0]["source"]["text"], rows[0]["target"]["text"]) == ("Hund", "dog")
        assert rows[0]["metadata"]["mutual"] == "yes"
        return
    assert [term.text for term in read_terms(name, "de")] == ["Hund", "Katze", "Haus"]
    if name == "out.tbx":
        english = list(read_terms(name, "en"))
        assert [term.text for term in english] == ["dog", "cat", "house"]
        assert english[0].contexts == ("The dog barked all night.",)
        assert "mutual best" in english[0].note


def test_json(invoke: Invoke) -> None:
    result = invoke("de.txt", "en.tsv", *TEXT, *EASY, "--json")
    *matches, last = map(json.loads, result.stdout.splitlines())
    assert [match["target"] for match in matches] == ["dog", "cat", "house"]
    assert (last["matches"], last["source_unmatched"], last["target_unmatched"]) == (3, ["Löffel"], ["cloud"])
    result = invoke("de.txt", "en.tsv", *TEXT, *EASY, "--json", "-o", "out.tsv")
    assert json.loads(result.stdout) == {**last, "out": "out.tsv"}


def test_sentences_from_an_index(invoke: Invoke) -> None:
    class Encoder:
        dim, hash, path, name = 2, "0" * 64, None, "none"

        def extract(self, texts: Any, *_: Any, **__: Any) -> Any:
            nothing = np.zeros(0, np.int32)
            return [
                TextPhrases(nothing, nothing, nothing.astype(np.float32), np.zeros((0, 2), np.float32)) for _ in texts
            ]

    with Index.create("idx", Encoder()) as index:
        index.add([Document.from_texts("de", fakes.GERMAN.splitlines())], lang="de")
        index.add([Document.from_texts("en", fakes.ENGLISH.splitlines())], lang="en")
    languages = ("--source-lang", "de", "--target-lang", "en")
    result = invoke("de.txt", "en.tsv", "--source-index", "idx", "--target-index", "idx", *languages, *EASY, "--json")
    first = json.loads(result.stdout.splitlines()[0])
    assert (first["source"], first["source_examples"], first["target_examples"]) == ("Hund", 2, 1)


def test_sentences_from_a_store(invoke: Invoke) -> None:
    ExampleIndex.build([Document.from_texts("de", fakes.GERMAN.splitlines())], "de.examples", "de").close()
    result = invoke("de.txt", "en.tsv", "--source-index", "de.examples", "--target-text", "english", *EASY, "--json")
    assert json.loads(result.stdout.splitlines()[0])["source_examples"] == 2


def test_text_that_cannot_be_read(invoke: Invoke) -> None:
    Path("english").write_bytes(b"Gr\xfc\xdfe\nThe dog barked all night.\n")
    result = invoke("de.txt", "en.tsv", *TEXT, *EASY)
    assert (result.exit_code, "english, line 1: " in result.stderr) == (1, True)
    result = invoke("de.txt", "en.tsv", *TEXT, *EASY, "--on-error", "skip", "--json")
    assert "skipped: english, line 1: " in result.stderr
    assert json.loads(result.stdout.splitlines()[0])["target_examples"] == 1


def test_how_texts_are_read(invoke: Invoke) -> None:
    lines = Path("english").read_text().splitlines()
    rows = (json.dumps({"body": f"{line} ä"}, ensure_ascii=False) for line in lines)
    Path("e.jsonl").write_text("\n".join(rows), "cp1252")
    text = ("--source-text", "german", "--target-text", "e.jsonl")
    options = ("--encoding", "cp1252", "--text-field", "body", "--lines", "sentence")
    result = invoke("de.txt", "en.tsv", "--target-text", "e.jsonl", *options, *EASY, "--json")
    assert json.loads(result.stdout.splitlines()[0])["target_examples"] >= 1
    assert "--encoding cp1252" in invoke("de.txt", "en.tsv", *text, *EASY).stderr.replace("latin-1", "cp1252")


def test_errors_tell_of_options_that_there_are(invoke: Invoke) -> None:
    Path("l.txt").write_bytes(b"Gr\xfc\xdfe\n")
    assert invoke("l.txt", "en.tsv", *TEXT).stderr.endswith("(Latin-1?); convert it: iconv -f LATIN-1 -t UTF-8\n")
    Path("two.tmx").write_text(
        '<tmx version="1.4"><header/><body><tu><tuv xml:lang="de"><seg>Der Hund.</seg></tuv>'
        '<tuv xml:lang="en"><seg>The dog.</seg></tuv></tu></body></tmx>'
    )
    result = invoke("de.txt", "en.tsv", "--source-text", "german", "--target-text", "two.tmx", *EASY)
    assert result.stderr.endswith("with --target-lang\n")


def test_a_term_base_of_several_languages(invoke: Invoke) -> None:
    languages = ("--source-lang", "de", "--target-lang", "en")
    invoke("de.txt", "en.tsv", *TEXT, *EASY, *languages, "-o", "both.tbx")
    result = invoke("both.tbx", "both.tbx", *TEXT, *EASY)
    assert result.stderr.endswith("choose one with --source-lang\n")
    result = invoke("both.tbx", "both.tbx", *TEXT, *EASY, *languages, "--json")
    assert [json.loads(line).get("target") for line in result.stdout.splitlines()] == ["dog", "cat", "house", None]


def test_options_are_handed_on(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    records = []
    monkeypatch.setattr(
        "phrasemate.match.match_terms",
        lambda *arguments: records.append(arguments) or (_ for _ in ()).throw(KeyboardInterrupt),
    )
    options = ["--margin", "ratio", "--min-margin", "1.2", "--min-score", "0.5", "--mutual", "--limit", "3"]
    options += [
        "--neighbours",
        "4",
        "--examples",
        "5",
        "--bare",
        "1",
        "--evidence",
        "2",
        "--pooling",
        "mean",
        "--layer",
        "7",
        "--dictionary",
        "mine.tsv",
    ]
    Path("mine.tsv").write_text("de\ten\nHund\tdog\n", "utf-8")
    result = invoke("de.txt", "en.tsv", *TEXT, *options, "--model", "m", "--threads", "1")
    settings = records[0][3]
    assert (settings.margin, settings.threshold, settings.least_score, settings.mutual) == ("ratio", 1.2, 0.5, True)
    assert (settings.candidates, settings.neighbours, settings.examples, settings.evidence) == (3, 4, 5, 2)
    assert settings.bare == 1
    assert [lexicon.name for lexicon in records[0][5]] == ["mine.tsv"]
    assert (settings.pooling, settings.layer, result.loaded[-1]) == ("mean", 7, (Path("m"), 1))
    assert result.exit_code == 130


def test_without_text(invoke: Invoke) -> None:
    result = invoke("de.txt", "en.tsv", "--target-text", "english", *EASY)
    assert "note: no --source-text: source terms are compared by their wording alone" in result.stderr
    assert "no --target-text" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (("none.txt", "en.tsv", *TEXT), 1, "none.txt: cannot be read"),
        (("german", "en.tsv", *TEXT), 1, "no term list by its name"),
        (("de.txt", "en.tsv", *TEXT, "-o", "out.doc"), 1, "out.doc: the name of the file must end in .tsv"),
        (("de.txt", "en.tsv", *TEXT, "-o", "no/out.tsv"), 1, "no: no such folder"),
        (("de.txt", "en.tsv", *TEXT, "-o", "old.tsv"), 1, "old.tsv: already exists"),
        (("de.txt", "en.tsv", *TEXT, "--force", "--unmatched", "."), 1, ".: is a folder; expected the name of a file"),
        (("de.txt", "en.tsv", *TEXT, "-o", "a.tsv", "--unmatched", "a.tsv"), 1, "give two different files"),
        (("de.txt", "en.tsv", *TEXT, "-o", "a.tsv", "--unmatched", "../{here}/a.tsv"), 1, "give two different files"),
        (
            ("de.txt", "en.tsv", *TEXT, "--force", "-o", "../{here}/en.tsv"),
            1,
            "/en.tsv: would be read and written; give",
        ),
        (("de.txt", "en.tsv", *TEXT, "--force", "--unmatched", "german"), 1, "german: would be read and written; give"),
        (("de.txt", "en.tsv", *TEXT, "--source-index", "idx"), 2, "leave out --source-text"),
        (("de.txt", "en.tsv", *TEXT, "--one-to-one", "--limit", "2"), 1, "2 matches per term contradict one to one"),
        (("de.txt", "en.tsv", *TEXT, "--target-column", "name"), 1, "no column 'name'"),
        (("de.txt", "en.tsv", *TEXT, "--target-column", "9" * 5000), 1, "no column '999"),
        (("de.txt", "en.tsv", *TEXT, "--target-column", "0"), 1, "column=0; expected a name"),
        (("de.txt", "en.tsv", "--source-index", "none"), 1, "none"),
        (("de.txt", "en.tsv", *TEXT, "--source-lang", "de", "-o", "a.tbx"), 1, "target terms; give --target-lang"),
    ],
)
def test_errors(invoke: Invoke, arguments: tuple[str, ...], code: int, expected: str) -> None:
    result = invoke(*(argument.format(here=Path.cwd().name) for argument in arguments))
    assert result.exit_code == code
    assert expected in result.stderr
    assert code == 2 or result.stderr.count("\n") == 1
    assert result.loaded == []  # no model is loaded for nothing


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("de.txt", "none.txt", *TEXT), "none.txt: cannot be read"),
        (("de.txt", "en.tsv", *TEXT, "--target-index", "idx"), "leave out --target-text"),
        (("de.txt", "en.tsv", *TEXT, "--source-lang", "de", "-o", "a.tbx"), "target terms; give --target-lang"),
    ],
)
def test_what_is_wrong_is_said_before_a_text_is_read(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], expected: str
) -> None:
    monkeypatch.setattr(ExampleIndex, "build", lambda *_: pytest.fail("a text is read"))
    assert expected in invoke(*arguments).stderr


def test_files_that_are_there_are_replaced_when_asked(invoke: Invoke) -> None:
    Path("out.tsv").write_text("old")
    assert invoke("de.txt", "en.tsv", *TEXT, *EASY, "-o", "out.tsv", "--force").exit_code == 0
    assert len(table("out.tsv")) == 3


def test_the_table_of_a_terminal() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=80, color_system=None)
    evidence = (Phrase("Ein \x1b[31mHund [bold] bellt.", 10, 14),), (Phrase("A dog barks.", 2, 5),)
    print_matches(console, [Match(Term("Hund"), Term("dog"), 0.91, 0.5, 2, False, 1, 1, *evidence)])
    output = stream.getvalue()
    assert "\x1b" not in output.replace("\x1b[0m", "").replace("\x1b[1m", "")  # a text does not steer the terminal
    assert "[bold]" in output
    assert "rank 2" in output
    assert "0.910" in output

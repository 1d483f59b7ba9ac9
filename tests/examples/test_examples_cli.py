from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from example_texts import Silent
from typer.testing import CliRunner

from phrasemate.cli import app
from phrasemate.index import Index
from phrasemate.text import Side, Unit, write_units
from phrasemate.types import Document

TEXT = "The art of the party.\nA party without any art at all.\nIn short: nothing.\n"


def run(*arguments: str, stdin: str | None = None) -> Any:
    result = CliRunner().invoke(app, ["examples", *arguments], input=stdin, prog_name="phrasemate")
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path / "text"


def test_sentences_with_their_phrase_marked(text: Path) -> None:
    result = run("art", "nowhere", "--text", str(text), "-n", "2")
    assert result.exit_code == 0
    first, *line, blank, none, last = result.stdout.splitlines()
    assert (first, blank, none, last) == ("art  2 examples", "", "nowhere  no example found", "")
    place = f"({text}/a.txt:"
    assert sorted(line) == [
        f"      A party without any [[art]] at all.  {place}2)",
        f"      The [[art]] of the party.  {place}1)",
    ]
    assert "2 phrases: 1 with 2, 0 with fewer, 1 with none" in result.stderr


def test_json(text: Path) -> None:
    result = run("nothing", "gone", "--text", str(text / "a.txt"), "--lang", "en", "--extra", "0", "--json")
    example = {"text": "In short: nothing.", "start": 10, "end": 17, "document": f"{text}/a.txt", "line": 3}
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"phrase": "nothing", "count": 1, "examples": [example | {"language": "en"}]},
        {"phrase": "gone", "count": 0, "examples": []},
    ]


def test_extra_and_number(text: Path) -> None:
    counts = [
        json.loads(run("party", "--text", str(text), "--json", *options).stdout)["count"]
        for options in ((), ("-n", "1"), ("--extra", "17"), ("--extra", "27"))
    ]
    assert counts == [2, 1, 1, 0]  # sentences of 21 and 31 characters; 21 - 5 = 16, 31 - 5 = 26


def test_phrases_from_a_file_and_from_standard_input(text: Path, tmp_path: Path) -> None:
    (tmp_path / "terms.txt").write_text("art\n\nparty\n", encoding="utf-8")
    results = [
        run("short", "--phrases", str(tmp_path / "terms.txt"), "--text", str(text), "--json"),
        run("short", "--phrases", "-", "--text", str(text), "--json", stdin="art\n\nparty\n"),
    ]
    for result in results:
        assert [json.loads(line)["phrase"] for line in result.stdout.splitlines()] == ["short", "art", "party"]


def test_phrases_in_several_languages_are_refused_without_an_option_of_the_texts(text: Path, tmp_path: Path) -> None:
    write_units(tmp_path / "m.tmx", [Unit((Side("Kunst", "de"), Side("art", "en")))])
    result = run("--phrases", str(tmp_path / "m.tmx"), "--text", str(text))
    assert (result.exit_code, result.stderr.endswith("expected one; give other text\n")) == (1, True)


@pytest.mark.parametrize("name", ["glossary.txt", "glossary.utf8", "glossary.tab"])
def test_phrases_from_a_glossary_are_its_first_column(text: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("# of a project\nart\tKunst\tno fine art\nparty\tFest\n", encoding="utf-8")
    result = run("--phrases", str(tmp_path / name), "--text", str(text), "--json")
    assert [json.loads(line)["phrase"] for line in result.stdout.splitlines()] == ["art", "party"]


def test_a_store_is_made_once(text: Path, tmp_path: Path) -> None:
    store = tmp_path / "a.examples"
    messages = []
    for _ in range(2):
        result = run("art", "--text", str(text), "--store", str(store))
        messages.append(result.stderr.strip())
    assert messages == [f"{store}: 3 sentences, made", f"{store}: 3 sentences, unchanged"]
    alone = run("art", "--store", str(store))
    assert alone.stdout == result.stdout
    (text / "a.txt").write_text(TEXT + "More art, much later.\n", encoding="utf-8")
    assert "art  3 examples" in run("art", "--text", str(text), "--store", str(store)).stdout


def test_an_index(tmp_path: Path) -> None:
    with Index.create(tmp_path / "idx", Silent()) as index:
        index.add([Document.from_texts("a", ["The art of war is old."])], lang="en")
        index.add([Document.from_texts("b", ["Diese Art ist selten geworden."])], lang="de")
    results = [run("art", "--index", str(tmp_path / "idx"), "--json", *more) for more in ((), ("--language", "de"))]
    assert [json.loads(result.stdout)["count"] for result in results] == [2, 1]


@pytest.mark.parametrize(
    ("arguments", "code", "messages"),
    [
        (("art",), 2, "give --index DIR, --text FILES or --store FILE"),
        (("art", "--index", "i", "--text", "t"), 2, "--index has its own sentences"),
        (("art", "--text", "t", "--language", "en"), 2, "for --text, give --lang"),
        (("art", "--index", "i", "--lang", "en"), 2, "--lang applies to --text; for --index, give --language"),
        (("art", "--store", "s", "--column", "2"), 2, "--column applies to --text; leave it out"),
        *(
            (("art", *where, option, value), 2, f"{option} applies to --text; leave it out")
            for where in (("--index", "i"), ("--store", "s"))
            for option, value in (("--text-field", "x"), ("--lines", "sentence"), ("--encoding", "latin-1"))
        ),
        (("art", "--index", "i", "--on-error", "skip"), 2, "--on-error applies to --text; leave it out"),
        (("--text", "t"), 2, "no phrase to look for"),
        (("art", "--text", "missing.txt"), 1, "missing.txt: no such file or folder"),
        (("art", "--index", "missing"), 1, "missing"),
        (("art", "--store", "missing"), 1, "missing: no such file"),
        ((" ", "--store", "missing"), 1, "the phrase ' ' is empty"),
        (("a\udce9", "--store", "missing"), 1, "not UTF-8"),
        (("art", "-n", "0", "--text", "t"), 2, "-n"),
    ],
)
def test_what_makes_no_sense(arguments: tuple[str, ...], code: int, messages: str) -> None:
    result = run(*arguments)
    assert result.exit_code == code
    assert messages in " ".join(result.stderr.replace("│", " ").split())


def test_what_cannot_be_read(text: Path) -> None:
    (text / "b.txt").write_bytes(b"good art is here\n\xff\xfe bad art\nmore art is there\n")
    refused = run("art", "--text", str(text))
    assert refused.exit_code == 1
    assert f"{text}/b.txt, line 2" in refused.stderr
    listed = run("art", "--text", str(text), "--on-error", "skip")
    assert listed.exit_code == 0
    assert f"skipped: {text}/b.txt, line 2" in listed.stderr
    assert "art  4 examples" in listed.stdout


def test_phrases_that_cannot_be_read(text: Path, tmp_path: Path) -> None:
    """--encoding and --on-error are those of the texts, so the error does not tell of them."""
    (tmp_path / "p.txt").write_bytes(b"K\xfcche\n")
    refused = run("--phrases", str(tmp_path / "p.txt"), "--text", str(text), "--encoding", "latin-1")
    assert refused.exit_code == 1
    assert refused.stderr.endswith("(Latin-1?); convert it: iconv -f LATIN-1 -t UTF-8\n")


def test_a_text_cannot_steer_the_terminal(text: Path) -> None:
    (text / "a.txt").write_text("red \x1b[31m art and more of it\n", encoding="utf-8")
    assert "\x1b" not in run("art", "--text", str(text)).stdout

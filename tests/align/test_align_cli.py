"""``phrasemate align`` and ``phrasemate pairs``: options handed on, summaries, errors in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from typer.testing import CliRunner

from phrasemate.align import NeuralAligner, read_pairs
from phrasemate.cli import app

Invoke = Callable[..., Any]


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Runs a command in a folder with a parallel text; word i is linked with word i."""
    monkeypatch.chdir(tmp_path)
    Path("de").write_text("Das Haus.\n\nEine Tür\n", "utf-8")
    Path("en").write_text("The house.\n\nA door\n", "utf-8")

    class Fake(NeuralAligner):
        instances: ClassVar[list[tuple[Any, ...]]] = []

        def __init__(self, *arguments: Any, **more: Any) -> None:
            self.instances.append((*arguments, more))
            super().__init__(*arguments, **more)

        def align(self, pairs: Any) -> Any:
            return [[(i, i) for i in range(min(len(a.spans), len(b.spans)))] for a, b in pairs]

    def load(path: Any, threads: Any = None) -> Any:
        return SimpleNamespace(hash="0" * 64, path=path, threads=threads, head=None)

    monkeypatch.setattr("phrasemate.encode.load_model", load)
    monkeypatch.setattr("phrasemate.align.NeuralAligner", Fake)

    def run(*arguments: str) -> Any:
        result = CliRunner().invoke(app, list(arguments), prog_name="phrasemate")
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        result.instances = Fake.instances
        return result

    return run


def test_align_and_pairs(invoke: Invoke) -> None:
    run = invoke("align", "de", "en", "-o", "links")
    assert run.exit_code == 0
    assert run.stdout.startswith("links: 4 links in 3 sentence pairs in ")
    assert run.stdout.endswith("; 1 line without text\n")
    assert Path("links").read_text() == "0-0 1-1\n\n0-0 1-1\n"
    run = invoke("pairs", "de", "en", "links", "-o", "pairs.jsonl", "--json")
    facts = json.loads(run.stdout)
    assert (facts["lines"], facts["new"], facts["found"], facts["blank"], facts["skipped"]) == (3, 3, 6, 1, [])
    assert [pair.source.text for pair in read_pairs("pairs.jsonl")] == [
        "Das", "Das Haus", "Haus", "Eine", "Eine Tür", "Tür",
    ]  # fmt: skip


def test_options_are_handed_on(invoke: Invoke) -> None:
    options = ["--method", "softmax", "--symmetrise", "union", "--layer", "8", "--model", "m", "--threads", "1"]
    options += ["--units", "subwords", "--ties", "0.25"]
    run = invoke("align", "de", "en", "-o", "links", *options)
    (model, *rest, more) = run.instances[-1]
    assert (model.path, model.threads, *rest) == (Path("m"), 1, 8, "softmax", "union")
    assert more == {"units": "subwords", "ties": 0.25}


def test_one_file_its_columns_and_what_is_skipped(invoke: Invoke) -> None:
    Path("both.tsv").write_text("The house\tDas Haus\nthe door\t\nno tab\n", "utf-8")
    result = invoke("align", "both.tsv", "-o", "links", "--columns", "2,1")
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "both.tsv, line 2: column 2 is blank" in result.stderr
    run = invoke("align", "both.tsv", "-o", "links", "--columns", "2,1", "--on-error", "skip")
    assert Path("links").read_text() == "0-0 1-1\n\n\n"
    assert run.stderr.splitlines()[1] == "skipped: both.tsv, line 3: 1 column; expected 2, separated by tabs"
    run = invoke("pairs", "both.tsv", "links", "-o", "p", "--columns", "2,1", "--on-error", "skip", "--max-words", "1")
    assert [pair.source.text for pair in read_pairs("p")] == ["Das", "Haus"]


def test_links_that_cannot_be_used_are_skipped(invoke: Invoke) -> None:
    Path("both.tsv").write_text("Das Haus\tThe house\n" * 4, "utf-8")
    Path("links").write_bytes(b"x\n0-9\n\xff\n0-0 1-1\n")
    assert invoke("pairs", "both.tsv", "links", "-o", "p").exit_code == 1
    run = invoke("pairs", "both.tsv", "links", "-o", "p", "--on-error", "skip", "--max-words", "1")
    assert run.exit_code == 0
    assert len(Path("p").read_text("utf-8").splitlines()) == 4
    assert [pair.source.text for pair in read_pairs("p")] == ["Das", "Haus"]
    assert [f"skipped: links, line {number}:" in run.stderr for number in (1, 2, 3, 4)] == [True, True, True, False]


def test_frequent_words_begin_and_end_nothing(invoke: Invoke) -> None:
    Path("links").write_text("0-0 1-1\n\n0-0 1-1\n")
    invoke("pairs", "de", "en", "links", "-o", "p", "--frequent", "0.1", "--min-frequent", "0")
    assert list(read_pairs("p")) == []  # every word comes once in three lines


def test_a_second_run(invoke: Invoke) -> None:
    invoke("align", "de", "en", "-o", "links")
    result = invoke("align", "de", "en", "-o", "links")
    assert result.exit_code == 1
    assert result.stderr == "error: links: already exists; choose another name, or add --force to overwrite it\n"
    assert invoke("align", "de", "en", "-o", "links", "--force").exit_code == 0


def test_stopped(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("phrasemate.align.align_files", stop)
    result = invoke("align", "de", "en", "-o", "links")
    assert result.exit_code == 130
    assert "stopped; links.part keeps what is done" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (("align", "de", "none", "-o", "x"), 1, "none: no such file"),
        (("align", "de", "en", "-o", "x", "--columns", "1"), 2, "expected two numbers"),
        (("align", "de", "en", "-o", "x", "--columns", "9" * 5000 + ",1"), 2, "expected two numbers"),
        (("align", "de", "en", "-o", "x", "--columns", "2,1"), 2, "--columns is for one file with tabs, not for en"),
        (("align", "both.tmx", "-o", "x", "--columns", "2,1"), 2, "--columns is for one file with tabs, not for both"),
        (("align", "de", "en", "-o", "x", "--langs", " , "), 2, "expected two languages"),
        (("align", "de", "en", "-o", "./en", "--force"), 1, "en: would be read and written; give"),
        (("pairs", "de", "en", "de", "-o", "de", "--force"), 1, "de: would be read and written; give"),
        (("pairs", "de", "en", "de", "-o", "x", "--frequent", "nan"), 2, "--frequent"),
        (("align", "de", "en", "-o", "x", "--method", "itermax", "--symmetrise", "union"), 1, "no directions"),
        (("align", "de", "en", "-o", "x", "--method", "eflomal", "--layer", "3"), 2, "mean nothing to eflomal"),
        (("align", "de", "en", "-o", "x", "--method", "eflomal", "--ties", "0.1"), 2, "mean nothing to eflomal"),
        (("pairs", "de", "-o", "x"), 2, "1 files; expected SRC TGT LINKS"),
        (("pairs", "de", "en", "de", "-o", "x"), 1, "'Das' is not a word link"),
        (("pairs", "de", "en", "de", "-o", "x", "--frequent", "0"), 1, "expected a rate above 0"),
    ],
)
def test_errors(invoke: Invoke, arguments: tuple[str, ...], code: int, expected: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == code
    assert expected in result.stderr


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("de", "en"), ("grow-diag-final-and", ("", ""))),
        (("de", "en", "--langs", "de,en", "--symmetrise", "union"), ("union", ("de", "en"))),
        (("both.tmx", "--langs", "de,en"), ("grow-diag-final-and", ("de", "en"))),
    ],
)
def test_eflomal_gets_the_languages(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], expected: tuple[Any, ...]
) -> None:
    Path("both.tmx").write_text(
        '<tmx version="1.4"><header srclang="de"/><body><tu><tuv xml:lang="de"><seg>Haus</seg></tuv>'
        '<tuv xml:lang="en"><seg>house</seg></tuv></tu></body></tmx>',
        "utf-8",
    )
    settings = []

    class Fake:
        chunk = 10
        signature: ClassVar[dict[str, str]] = {}

        def __init__(self, symmetrisation: str, languages: tuple[str, str]) -> None:
            settings.append((symmetrisation, languages))

        def align(self, pairs: Any) -> Any:
            return [[] for _ in pairs]

    monkeypatch.setattr("phrasemate.align.EflomalAligner", Fake)
    run = invoke("align", *options, "-o", "links", "--method", "eflomal")
    assert (run.exit_code, settings) == (0, [expected]), run.output


def test_eflomal_absent(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "eflomal", None)
    result = invoke("align", "de", "en", "-o", "x", "--method", "eflomal")
    assert result.stderr.endswith("install it with: pip install 'phrasemate[align]'\n")


def test_a_hyphen_is_standard_output(invoke: Invoke) -> None:
    run = invoke("align", "de", "en", "-o", "-")
    assert run.stdout == "0-0 1-1\n\n0-0 1-1\n"
    assert "standard output: 4 links in 3 sentence pairs" in run.stderr
    Path("links").write_text(run.stdout)
    run = invoke("pairs", "de", "en", "links", "-o", "-", "--json")
    assert [json.loads(line)["source"] for line in run.stdout.splitlines()] == ["Das Haus.", "", "Eine Tür"]
    assert json.loads(run.stderr)["out"] == "standard output"
    assert sorted(path.name for path in Path().iterdir()) == ["de", "en", "links"]

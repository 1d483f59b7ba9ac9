"""``phrasemate vectors``: from texts to mapped and measured vectors, as a user would; errors in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from spaces import two_languages
from typer.testing import CliRunner

from phrasemate.cli import app
from phrasemate.encode import Model
from phrasemate.vectors import WordVectors, write_fasttext

Invoke = Callable[..., Any]
ENGLISH = "The old bank on the river was closed.\nShe sat on the bank and read a book.\nThe house is old and red.\n"
GERMAN = "Das alte Haus am Fluss ist rot.\nEr liest ein Buch auf der Bank.\nDas Buch ist alt.\n"


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoder: Model) -> Invoke:
    """Runs a command in a folder with texts, .vec files of two languages and a lexicon; the encoder is tiny."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("phrasemate.encode.load_model", lambda path=None, threads=None: encoder)
    Path("en.txt").write_text(ENGLISH, "utf-8")
    Path("both.tsv").write_text("".join(f"x\t{line}\n" for line in GERMAN.splitlines()), "utf-8")
    source, target, lexicon = two_languages(60, 8, noise=0.0)
    write_fasttext(source, "xx.vec")
    write_fasttext(target, "yy.vec.gz")
    Path("lexicon.tsv").write_text("".join(f"{b}\t{a}\n" for a, b in lexicon), "utf-8")

    def run(*arguments: str) -> Any:
        result = CliRunner().invoke(app, ["vectors", *arguments], prog_name="phrasemate")
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


def test_distil_two_languages_in_one_space(invoke: Invoke) -> None:
    result = invoke("distil", "en.txt", "-o", "en", "--dim", "4", "--words", "12", "--lang", "en", "--contexts", "2")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("en: 12 words of 4 numbers, the rarest 1 time in the text, in ")
    result = invoke("distil", "both.tsv", "-o", "de", "--column", "2", "--space", "en", "--json")
    facts = json.loads(result.stdout)
    assert (facts["out"], facts["words"], facts["dim"], facts["skipped"]) == ("de", 15, 4, [])
    english, german = WordVectors.load("en"), WordVectors.load("de")
    assert english.words[:3] == ("the", "and", "bank")
    assert german.facts["contexts"] == 8
    assert english.projection is not None
    assert german.projection is not None
    np.testing.assert_array_equal(english.projection.kernel, german.projection.kernel)
    assert not Path("de.part").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--space", "en", "--dim", "4"), "--dim and --space"),
        (("--min-contexts", "9"), "a word has 8 sentences at most"),
    ],
)
def test_distil_passes_over_no_option(invoke: Invoke, options: tuple[str, ...], message: str) -> None:
    result = invoke("distil", "en.txt", "-o", "out", *options)
    assert (result.exit_code, message in result.stderr) == (2, True)


def test_what_is_done_continuesly_when_the_vectors_are_kept(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("distil", "en.txt", "-o", "en", "--dim", "4")
    with monkeypatch.context() as patch:
        patch.setattr(
            "phrasemate.vectors.word_vectors.save_arrays", Mock(side_effect=OSError(28, "No space left on device"))
        )
        full = invoke(*options)
    assert (full.exit_code, "No space left" in full.stderr, Path("en.part").exists()) == (1, True, True)
    assert (invoke(*options).exit_code, Path("en.part").exists()) == (0, False)


def test_distil_stopped(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("phrasemate.vectors.distil", stop)
    result = invoke("distil", "en.txt", "-o", "en", "--dim", "4")
    assert (result.exit_code, result.stderr) == (130, "stopped; nothing was written\n")
    Path("en.part").write_bytes(b"")
    result = invoke("distil", "en.txt", "-o", "en", "--dim", "4")
    assert result.exit_code == 130
    assert "stopped; en.part keeps what is done; run the same command again" in result.stderr


def test_distil_into_the_folder_itself(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    distil = ("distil", "../en.txt", "--dim", "4", "--words", "30", "-o")
    assert invoke(*distil[:1], "en.txt", *distil[2:], "here").exit_code == 0
    folder = Path("here").resolve()
    monkeypatch.chdir(folder)
    result = invoke(*distil, ".", "--force")
    assert result.exit_code == 0, result.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["MANIFEST.json", "vectors.safetensors", "words.json"]


def test_train_info_export(invoke: Invoke) -> None:
    result = invoke("train", "en.txt", "-o", "plain", "--dim", "3", "--min-count", "1", "--lang", "en")
    assert result.exit_code == 0, result.stderr
    facts = json.loads(invoke("info", "plain", "--json").stdout)
    assert (facts["words"], facts["dim"], facts["language"], facts["method"]) == (16, 3, "en", "PPMI and SVD")
    assert "method" in invoke("info", "plain").stdout
    assert invoke("export", "plain", "-o", "plain.vec").stdout == "plain.vec: 16 words of 3 numbers\n"
    facts = json.loads(invoke("info", "plain.vec", "--json").stdout)
    assert facts["first"][:2] == ["the", "and"]


def test_map_by_a_lexicon_and_evaluate(invoke: Invoke) -> None:
    options = ("--lexicon", "lexicon.tsv", "--columns", "2,1")
    result = invoke("map", "xx.vec", "yy.vec.gz", "-o", "out", *options, "--entries", "1:30")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "out/source and out/target: 60 and 60 words, by 30 pairs of the lexicon\n"
    result = invoke("evaluate", "out/source", "out/target", *options, "--entries", "31:", "--neighbours", "3")
    assert result.stdout == "30 words asked, 0 have no vector: accuracy at 1 1.0000 by cosine, 1.0000 by CSLS\n"
    result = invoke("evaluate", "xx.vec", "yy.vec.gz", *options, "--json", "--limit", "50")
    facts = json.loads(result.stdout)
    assert facts["words"] + facts["missing"] == 60
    assert facts["acc@1 nearest"] < 0.3
    assert (
        invoke("map", "xx.vec", "yy.vec.gz", "-o", "out", *options, "--method", "symmetric", "--force").exit_code == 0
    )


def test_what_is_read_is_not_overwritten(invoke: Invoke) -> None:
    by = ("--lexicon", "lexicon.tsv", "--columns", "2,1", "--force")
    invoke("distil", "en.txt", "-o", "en", "--dim", "4")
    invoke("map", "xx.vec", "yy.vec.gz", "-o", "out", *by)
    for arguments in (
        ("map", "en", "en", "-o", "en", *by),
        ("map", "out/source", "yy.vec.gz", "-o", "out", *by),
        ("distil", "both.tsv", "--column", "2", "-o", "../" + Path.cwd().name + "/en", "--space", "en", "--force"),
        ("cover", "en", "en.txt", "-o", "en", "--force"),
        ("export", "en", "-o", "en/words.json", "--force"),
    ):
        result = invoke(*arguments)
        assert (result.exit_code, "would be read and written; give another" in result.stderr) == (1, True), arguments
    assert WordVectors.load("en").facts["method"] == "distilled"
    assert WordVectors.load("out/source").facts["mapping"] == "procrustes"


def test_map_without_a_lexicon(invoke: Invoke) -> None:
    result = invoke("map", "xx.vec", "yy.vec.gz", "-o", "out", "--unsupervised", "--json", "--vocabulary", "40")
    facts = json.loads(result.stdout)
    assert facts["mapping"] == "self-learning, symmetric"
    assert facts["settings"]["vocabulary"] == 40
    result = invoke("map", "xx.vec", "yy.vec.gz", "-o", "more", "--lexicon", "lexicon.tsv", "--columns", "2,1",
                  "--entries", "1:20", "--self-learning")  # fmt: skip
    assert "by self-learning, " in result.stdout


def test_damaged_rows_are_skipped_if_wished(invoke: Invoke) -> None:
    lines = Path("xx.vec").read_text("utf-8").splitlines()
    lines[3] += " 7"
    Path("xx.vec").write_text("\n".join(lines) + "\n", "utf-8")
    result = invoke("info", "xx.vec")
    assert result.exit_code == 1
    assert result.stderr == (
        "error: xx.vec, line 4: 9 numbers, expected 8; fix or delete the line, or use --on-error skip\n"
    )
    second_result = invoke("info", "xx.vec", "--on-error", "skip", "--json")
    assert json.loads(second_result.stdout)["words"] == 59
    assert second_result.stderr == "skipped: xx.vec, line 4: 9 numbers, expected 8\n"


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (("map", "xx.vec", "yy.vec.gz", "-o", "o"), 2, "give either --lexicon FILE"),
        (("map", "xx.vec", "yy.vec.gz", "-o", "o", "--unsupervised", "--lexicon", "lexicon.tsv"), 2, "give either"),
        (("map", "xx.vec", "yy.vec.gz", "-o", "o", "--unsupervised", "--self-learning"), 2, "give either"),
        (("map", "xx.vec", "yy.vec.gz", "-o", "o", "--unsupervised", "--entries", "1:9"), 2, "leave them out"),
        *(
            (
                ("map", "xx.vec", "xx.vec", "-o", "o", "--lexicon", "lexicon.tsv", option, "7"),
                2,
                f"{option} applies to self",
            )
            for option in ("--vocabulary", "--initial", "--seed")
        ),
        (
            ("map", "xx.vec", "xx.vec", "-o", "o", "--lexicon", "lexicon.tsv", "--self-learning", "--initial", "7"),
            *(2, "--initial applies to --unsupervised"),
        ),
        (("map", "xx.vec", "yy.vec.gz", "-o", "/", "--unsupervised", "--force"), 1, "/: has no name"),
        (("map", "xx.vec", "yy.vec.gz", "-o", "none/o", "--unsupervised"), 1, "none: no such folder; make it first"),
        (("map", "xx.vec", "yy.vec.gz", "-o", "o", "--lexicon", "lexicon.tsv"), 1, "none of the 60 pairs"),
        (("map", "xx.vec", "no.vec", "-o", "o", "--unsupervised"), 1, "no.vec: cannot be read (No such file"),
        (("evaluate", "xx.vec", ".", "--lexicon", "lexicon.tsv", "--columns", "2,1"), 1, "no word vectors here"),
        (("evaluate", "xx.vec", "xx.vec", "--lexicon", "lexicon.tsv", "--columns", "2"), 2, "expected two numbers"),
        (("evaluate", "xx.vec", "xx.vec", "--lexicon", "lexicon.tsv", "--entries", "9"), 1, "such as 1:5000"),
        (("distil", "en.txt", "-o", "."), 1, "already exists"),
        (("distil", "en.txt", "-o", "o", "--dim", "500"), 1, "dim 500; expected 1 to"),
        (("distil", "none.txt", "-o", "o", "--dim", "4"), 1, "none.txt: no such file or folder"),
        (("train", "en.txt", "-o", "o"), 1, "no word occurs 5 times"),
    ],
)
def test_errors(invoke: Invoke, arguments: tuple[str, ...], code: int, expected: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == code
    assert expected in " ".join(result.stderr.replace("│", " ").split())
    assert not Path("o").exists()

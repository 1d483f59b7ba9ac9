"""``phrasemate mt`` from the outside: what is printed, written, refused, and asked again after a stop."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from llm_double import Double
from typer.testing import CliRunner, Result

from phrasemate import Document, Index, Model
from phrasemate.cli import app
from phrasemate.mt import client as client_module
from phrasemate.text.formats.bilingual import write_units
from phrasemate.text.formats.units import Side, Unit

LINES = ["Das Motorrad stand vor dem Haus.", "", "Der Arzt war im Krankenhaus.", "Sie tranken Kaffee."]


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(client_module, "PAUSE", 0.001)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "news.de"
    path.write_text("\n".join(LINES) + "\n", "utf-8")
    return path


def mt(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["mt", *map(str, arguments)])


def translate(text: Path, server: Double, *more: object) -> Result:
    return mt(text, "--source-lang", "de", "--target-lang", "en", "--llm", server.url, *more)


def explanations(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_one_translation_a_line_and_why(text: Path, server: Double, folder: Path, tmp_path: Path) -> None:
    out, why = tmp_path / "news.en", tmp_path / "why.jsonl"
    options: Sequence[object] = ("--index", folder, "--min-score", 0.5, "--per-word", 0, "--min-belief", 0.3)
    result = translate(text, server, *options, "-o", out, "--jsonl", why)
    assert result.exit_code == 0, result.output
    assert out.read_text("utf-8") == "".join(f"{line.upper()}\n" for line in LINES)
    assert "4 lines, 0 not translated, 0 answers known before, 3 asked" in result.stderr
    records = explanations(why)
    assert [record["source"] for record in records] == LINES
    assert [record["number"] for record in records] == [1, 2, 3, 4]
    assert any(record["hints"] for record in records)
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".new"]


def test_terms_of_a_dictionary_are_in_the_prompt(text: Path, folder: Path, tmp_path: Path) -> None:
    base = tmp_path / "terms.tsv"
    base.write_text("Motorrad\tmotorised bicycle\n", "utf-8")
    arguments = ("--source-lang", "de", "--target-lang", "en", "--index", folder, "--dry-run", "--dictionary", base)
    result = mt(text, *arguments)
    assert result.exit_code == 0, result.output
    assert "Motorrad = motorised bicycle\n" in result.stdout


def test_a_second_run_asks_nothing(text: Path, server: Double) -> None:
    first = translate(text, server, "--form", "plain")
    second = translate(text, server, "--form", "plain")
    assert first.stdout == second.stdout == "".join(f"{line.upper()}\n" for line in LINES)
    assert "3 answers known before, 0 asked" in second.stderr
    assert len(server.bodies) == 3
    translate(text, server, "--form", "plain", "--max-tokens", 99)  # another request
    assert len(server.bodies) == 6


def test_lines_that_fail_stay_empty_are_counted_and_asked_again(text: Path, server: Double) -> None:
    server.mood = lambda number, body: (400, b"too long", {}) if number == 2 else None
    first = translate(text, server, "--form", "plain", "--concurrency", 1)
    assert first.exit_code == 0
    assert first.stdout.splitlines() == [LINES[0].upper(), "", "", LINES[3].upper()]
    assert "4 lines, 1 not translated" in first.stderr
    assert "line 3: the server said 400: too long" in first.stderr
    second = translate(text, server, "--form", "plain", "--concurrency", 1)
    assert second.stdout.splitlines() == [line.upper() for line in LINES]
    assert "2 answers known before, 1 asked" in second.stderr


def test_neither_a_server_nor_a_text_steers_the_terminal(text: Path, server: Double) -> None:
    text.write_text("eins \x9b2J\x07\nzwei\n", "utf-8")
    evil = {"choices": [{"message": {"content": "one \x1b[2J\x9b2J\x07"}}]}
    refusal = json.dumps({"error": {"message": "no \x9b2J\x07"}}).encode()
    server.mood = lambda number, body: (
        (200, json.dumps(evil).encode(), {}) if "eins" in str(body) else (400, refusal, {})
    )
    plain = ("mt", text, "--source-lang", "de", "--target-lang", "en", "--form", "plain")
    screen, writing = os.openpty()
    options = ("--llm", server.url, "--show-prompt")
    program = "import sys; from phrasemate.cli import main; main()"
    for more in (options, ("--dry-run",)):
        command = [sys.executable, "-c", program, *map(str, (*plain, *more))]
        subprocess.run(command, stdout=writing, stderr=writing, check=True)
        records = os.read(screen, 1 << 16).decode("utf-8")
        assert not any(item in records for item in ("\x07", "\x1b[2J", "\x9b")), records  # ESC is of the bar, too
    os.close(writing)
    os.close(screen)
    assert "one \x1b[2J\x9b2J\x07" in mt(*plain[1:], "--llm", server.url).stdout  # data stays as it is


@pytest.mark.parametrize("answer", ["", "<think>on and on"])
def test_an_answer_that_says_nothing_is_asked_for_again(text: Path, server: Double, answer: str) -> None:
    empty = json.dumps({"choices": [{"message": {"content": answer}}]}).encode()
    server.mood = lambda number, body: (200, empty, {}) if number == 2 else None
    first = translate(text, server, "--form", "plain", "--concurrency", 1)
    assert "4 lines, 1 not translated, 0 answers known before, 3 asked" in first.stderr
    assert "line 3: the answer is empty" in first.stderr
    second = translate(text, server, "--form", "plain", "--concurrency", 1)
    assert "4 lines, 0 not translated, 2 answers known before, 1 asked" in second.stderr


def test_nothing_is_overwritten_unasked(text: Path, server: Double, tmp_path: Path) -> None:
    out, why = tmp_path / "news.en", tmp_path / "why.jsonl"
    out.write_text("mine", "utf-8")
    for options, message in (
        (("-o", out), "already exists; choose another name, or add --force"),
        (("-o", text, "--force"), "given for -o and as the text"),
        (("-o", why, "--jsonl", why), "given for --jsonl and as the file of -o"),
        (("-o", tmp_path / "none" / "x"), "no such folder"),
        (("-o", tmp_path, "--force"), "is a folder; expected the name of a file"),
    ):
        result = translate(text, server, "--form", "plain", *options)
        assert result.exit_code == 1
        assert message in result.stderr
    assert (out.read_text("utf-8"), server.bodies) == ("mine", [])
    assert text.read_text("utf-8").splitlines() == LINES
    assert translate(text, server, "--form", "plain", "-o", out, "--force").exit_code == 0
    assert out.read_text("utf-8").splitlines()[0] == LINES[0].upper()


def test_a_run_that_translates_nothing_is_an_error_and_writes_nothing(
    text: Path, server: Double, tmp_path: Path
) -> None:
    out = tmp_path / "news.en"
    out.write_text("mine", "utf-8")
    server.mood = lambda number, body: (400, b"too long", {})
    result = translate(text, server, "--form", "plain", "-o", out, "--force")
    assert result.exit_code == 1
    assert "no line was translated, first line 1: the server said 400: too long" in result.stderr
    assert out.read_text("utf-8") == "mine"
    assert [path.name for path in tmp_path.glob("news.en*")] == ["news.en"]
    for options in ((), ("--json",)):
        assert translate(text, server, "--form", "plain", *options).stdout == ""


def test_lines_before_the_first_translated_one_are_written_with_it(text: Path, server: Double) -> None:
    answer = server.mood
    server.mood = lambda number, body: (400, b"too long", {}) if LINES[0] in str(body) else answer(number, body)
    result = translate(text, server, "--form", "plain")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == ["", *(line.upper() for line in LINES[1:])]


def test_a_dry_run_sends_nothing_and_needs_no_server(text: Path, folder: Path, server: Double) -> None:
    result = mt(text, "--source-lang", "de", "--target-lang", "en", "--index", folder, "--dry-run")
    assert result.exit_code == 0, result.output
    assert "German: Das Motorrad stand vor dem Haus.\nEnglish:" in result.stdout
    result = mt(text, "--source-lang", "de", "--target-lang", "en", "--index", folder, "--dry-run", "--json")
    assert [json.loads(line)["source"] for line in result.stdout.splitlines()] == LINES
    assert server.bodies == []


def test_a_dry_run_writes_what_it_is_asked_for(text: Path, tmp_path: Path) -> None:
    arguments = (text, "--source-lang", "de", "--target-lang", "en", "--form", "plain", "--dry-run", "--show-prompt")
    result = mt(*arguments, "--json")
    assert [json.loads(line)["source"] for line in result.stdout.splitlines()] == LINES
    out, why = tmp_path / "translations", tmp_path / "why.jsonl"
    result = mt(*arguments, "--jsonl", why)
    assert result.stdout == ""
    assert ["German: " in line["prompt"] for line in explanations(why)].count(True) == 3  # the empty line has none
    refused = mt(*arguments, "-o", out)
    assert refused.exit_code == 2
    assert "--dry-run makes no translations for -o" in refused.stderr
    assert not out.exists()
    assert "--- line 3\nTranslate from German into English." in result.stderr


def test_prompts_are_shown_on_standard_error(text: Path, server: Double) -> None:
    result = translate(text, server, "--form", "plain", "--show-prompt")
    assert result.stdout.splitlines() == [line.upper() for line in LINES]
    assert "--- line 3\nTranslate from German into English." in result.stderr


def test_json_lines_instead_of_translations(text: Path, server: Double) -> None:
    result = translate(text, server, "--form", "plain", "--json")
    assert [json.loads(line)["translation"] for line in result.stdout.splitlines()] == [line.upper() for line in LINES]


def test_examples_make_it_few_shot(text: Path, server: Double, tmp_path: Path) -> None:
    memory_file = tmp_path / "known.tsv"
    memory_file.write_text("Guten Tag.\tGood day.\nGute Nacht.\tGood night.\nDanke.\tThank you.\n")
    result = translate(text, server, "--form", "plain", "--examples", memory_file, "--shots", 2, "--api", "completions")
    assert result.exit_code == 0, result.output
    assert "German: Guten Tag.\nEnglish: Good day.\n\nGerman: Gute Nacht." in server.bodies[0]["prompt"]
    assert "Danke" not in server.bodies[0]["prompt"]
    assert server.bodies[0]["stop"] == ["\n"]


def memory(path: Path, *pairs: tuple[str, str]) -> Path:
    """A translation memory with English first, and a third language."""
    write_units(path, [Unit((Side(en, "en-US"), Side("x", "fr"), Side(de, "de"))) for de, en in pairs])
    return path


def test_the_sides_of_a_translation_memory_are_reported_by_their_languages(
    text: Path, server: Double, tmp_path: Path
) -> None:
    memory_file = memory(tmp_path / "known.tmx", ("Guten Tag.", "Good day."))
    more = ("--form", "plain", "--examples", memory_file, "--api", "completions")
    assert translate(text, server, *more, "--source-lang", "de-AT").exit_code == 0
    assert "German: Guten Tag.\nEnglish: Good day.\n\n" in server.bodies[0]["prompt"]
    result = translate(text, server, *more, "--source-lang", "hu")
    assert result.stderr.endswith("or choose two languages with --source-lang and --target-lang\n")
    for swap in ((), ("--swap",)):
        lessons = memory(tmp_path / "pairs.tmx", ("Das Motorrad stand dort.", "The motorcycle stood there."))
        arguments = (
            "--source-lang",
            "de",
            "--target-lang",
            "en",
            "--form",
            "plain",
            "-o",
            tmp_path / "x",
            "--force",
            *swap,
        )
        assert mt("prepare", lessons, *arguments).exit_code == 0
        assert "German: Das Motorrad" in str(explanations(tmp_path / "x.plain.jsonl")[0]["prompt"])


@pytest.mark.parametrize("form", ["phrases", "sentence", "cot"])
def test_every_form_translates(text: Path, server: Double, folder: Path, form: str) -> None:
    result = translate(text, server, "--form", form, "--index", folder, "--min-belief", 0.3)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [line.upper() for line in LINES]


def test_standard_input_with_windows_line_ends(server: Double) -> None:
    arguments = ["mt", "-", "--source-lang", "de", "--target-lang", "en", "--llm", server.url, "--form", "plain"]
    result = CliRunner().invoke(app, arguments, input="\ufeffeins\r\nzwei\r\n".encode())
    assert result.stdout == "EINS\nZWEI\n"
    assert "1 line, 0 not translated" in CliRunner().invoke(app, arguments, input=b"drei\n").stderr


def test_a_compressed_text_and_a_document(server: Double, tmp_path: Path) -> None:
    (tmp_path / "news.de.gz").write_bytes(gzip.compress(b"eins\n\nzwei\n"))
    assert translate(tmp_path / "news.de.gz", server, "--form", "plain").stdout == "EINS\n\nZWEI\n"
    (tmp_path / "news.docx").write_bytes(b"PK\x03\x04\0")
    result = translate(tmp_path / "news.docx", server, "--form", "plain")
    assert "news.docx: a ZIP archive or an Office document; expected text" in result.stderr


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "give --llm URL, or --dry-run"),
        (["--dry-run"], "--form phrases needs --index DIR"),
        (["--llm", "localhost:1", "--form", "plain"], "not a web address"),
        (["--dry-run", "--form", "plain", "--source-lang", "klingon"], "the language 'klingon' is not known"),
        (["--dry-run", "--form", "plain", "--template", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_what_makes_no_sense_is_reported_in_one_line(text: Path, more: list[str], message: str) -> None:
    result = mt(text, "--source-lang", "de", "--target-lang", "en", *more)
    assert result.exit_code in (1, 2)
    assert message in " ".join(result.stderr.split())


def test_text_that_is_not_utf8_is_reported_with_its_line(server: Double, tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes("gut\nnicht sch\xf6n\n".encode("latin-1"))
    result = translate(path, server, "--form", "plain")
    assert result.exit_code == 1
    assert "latin.txt, line 2: byte 0xF6 at offset 13 is not UTF-8" in result.stderr


def test_a_refused_key_is_one_line(text: Path, server: Double) -> None:
    server.mood = lambda number, body: (401, b"", {})
    result = translate(text, server, "--form", "plain")
    assert result.exit_code == 1
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("error: http://127.0.0.1:")
    assert "the key was refused (401)" in line


def test_prepare_writes_both_files(tmp_path: Path, folder: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"Das Motorrad Nummer {n} stand dort.\tThe motorcycle number {n} stood there.\n"
                             for n in range(6)))  # fmt: skip
    arguments = (
        "--source-lang",
        "de",
        "--target-lang",
        "en",
        "--index",
        folder,
        "-o",
        tmp_path / "x",
        "--count",
        4,
        "--json",
    )
    result = mt("prepare", pairs, *arguments)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["examples"] == 4
    assert len(explanations(tmp_path / "x.chat.jsonl")) == len(explanations(tmp_path / "x.plain.jsonl")) == 4
    result = mt("prepare", pairs, "--source-lang", "de", "--target-lang", "en", "--form", "plain", "-o", ".")
    assert (result.exit_code, "error: .: names a folder" in result.stderr) == (1, True)
    swapped = mt(
        "prepare",
        pairs,
        "--source-lang",
        "en",
        "--target-lang",
        "de",
        "--form",
        "plain",
        "--swap",
        "-o",
        tmp_path / "y",
    )
    assert swapped.exit_code == 0
    assert "English: The motorcycle" in str(explanations(tmp_path / "y.plain.jsonl")[0]["prompt"])


@pytest.mark.slow
def test_ctrl_c_keeps_the_answers_and_the_same_command_continues(server: Double, tmp_path: Path) -> None:
    text, out = tmp_path / "long.de", tmp_path / "long.en"
    lines = [f"Satz {number}" for number in range(40)]
    text.write_text("\n".join(lines) + "\n")
    server.mood = lambda number, body: time.sleep(0.05)  # type: ignore[func-returns-value]
    heard = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)"  # ignored in background jobs
    run = f"{heard}; from phrasemate.cli import main; sys.argv[0] = 'phrasemate'; main()"
    command = [
        sys.executable,
        "-c",
        run,
        "mt",
        str(text),
        "--source-lang",
        "de",
        "--target-lang",
        "en",
        "--llm",
        server.url,
    ]
    command += ["--form", "plain", "--concurrency", "2", "-o", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while len(server.bodies) < 6 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, message = process.communicate(timeout=60)
    assert process.returncode == 130, message
    assert "run the same command again" in message
    assert not out.exists()
    assert 6 <= len(server.bodies) < len(lines)
    server.mood = lambda number, body: None
    result = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=True)
    assert out.read_text() == "".join(f"{line.upper()}\n" for line in lines)
    assert sorted(server.requests) == sorted(lines), result.stderr  # none was asked twice


def test_a_related_sentence_is_in_the_target_language(model: Model, tmp_path: Path) -> None:
    with Index.create(tmp_path / "idx", model, threads=1) as index:
        for language, sentence in (("de", "Das Auto stand vor dem Haus."), ("en", "They drank coffee.")):
            index.add([Document.from_texts(language, [sentence])], lang=language)
    (tmp_path / "news.de").write_text(LINES[0], "utf-8")
    languages = ("--source-lang", "de", "--target-lang", "en")
    result = mt(tmp_path / "news.de", *languages, "--index", tmp_path / "idx", "--form", "sentence", "--dry-run")
    assert "Related English sentence: They drank coffee." in result.stdout, result.output

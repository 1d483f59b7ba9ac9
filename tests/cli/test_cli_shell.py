"""Exit codes, one-line errors, help."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_fakes import Library
from typer.main import get_command

from phrasemate import __version__
from phrasemate.cli import app
from phrasemate.errors import ModelDamaged

Invoke = Callable[..., Any]
RUN = "from phrasemate.cli import main; main()"


def test_version(invoke: Invoke) -> None:
    assert invoke("--version").stdout == f"phrasemate {__version__}\n"


def test_error_is_one_line_and_1(invoke: Invoke, library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*_: object, **__: object) -> None:
        raise ModelDamaged("m/encoder.onnx: altered;\nexport it again")

    monkeypatch.setattr("phrasemate.encode.load_model", damaged)
    result = invoke("search", "idx", "--model", "m", "[[x]]")
    assert (result.exit_code, result.stderr) == (1, "error: m/encoder.onnx: altered; export it again\n")


def test_foreign_os_error_is_one_line_too(invoke: Invoke, library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "idx/store.db")

    monkeypatch.setattr(library.index, "create", full)
    library.index.exists = False
    result = invoke("index", __file__, "-o", "idx")
    assert (result.exit_code, result.stderr) == (1, "error: idx/store.db: No space left on device\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["search"],
        ["search", "idx", "--nonsense", "x"],
        ["search", "idx", "-k", "0", "[[x]]"],
        ["index", "text.txt"],
        ["index", "text.txt", "-o", "idx", "--lines", "chapter"],
        ["index", "stats"],
        ["model", "export", "folder"],
    ],
)
def test_wrong_usage_is_2(invoke: Invoke, arguments: list[str]) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert re.search(r"; see phrasemate[a-z ]* --help\n$", result.stderr)
    assert result.stderr.count("\n") == 1


def test_ctrl_c_is_130(invoke: Invoke, library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("phrasemate.encode.load_model", interrupted)
    result = invoke("search", "idx", "--model", "m", "[[x]]")
    assert (result.exit_code, result.stderr) == (130, "stopped\n")


def test_a_bug_is_not_hidden(invoke: Invoke, library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phrasemate.encode.load_model", lambda *_, **__: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        invoke("search", "idx", "--model", "m", "[[x]]")


def test_a_reader_that_goes_away_is_silent() -> None:
    code = (
        "from phrasemate.cli import app, main\n"
        "@app.command('spam')\n"
        "def spam():\n"
        "    for _ in range(100_000): print('spam')\n"
        "import sys; sys.argv = ['phrasemate', 'spam']\n"
        "main()"
    )
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run([sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (result.returncode, result.stderr) == (141, b"")


def ran(*arguments: str, **streams: Any) -> Any:
    code = f"import sys; sys.argv = {['phrasemate', *arguments]!r}; {RUN}"
    return subprocess.run([sys.executable, "-c", code], check=False, **{"stderr": subprocess.PIPE, **streams})


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["search", "--help"], ["model", "info"]])
def test_help_that_nobody_reads_or_that_does_not_fit(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    result = ran(*arguments, stdout=writing)
    os.close(writing)
    assert (result.returncode, result.stderr) == (141, b"")
    with Path("/dev/full").open("wb") as full:
        result = ran(*arguments, stdout=full)
    assert (result.returncode, result.stderr.count(b"\n")) == (1, 1)
    assert result.stderr.startswith(b"error: ")


@pytest.mark.slow
@pytest.mark.parametrize("descriptor", [0, 1, 2])
def test_streams_that_are_closed(descriptor: int) -> None:
    result = ran("--version", stdout=subprocess.DEVNULL, preexec_fn=lambda: os.close(descriptor))
    assert (result.returncode, result.stderr) == (0, b"")
    result = ran("search", "nowhere", stdout=subprocess.DEVNULL, preexec_fn=lambda: os.close(descriptor))
    assert (result.returncode, result.stderr.count(b"\n")) == (1, int(descriptor != 2))
    prompts = ("mt", "-", "--source-lang", "de", "--target-lang", "en", "--form", "plain", "--dry-run")
    result = ran(*prompts, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=lambda: os.close(descriptor))
    assert (result.returncode, result.stderr) == (0, b"")


def test_an_error_does_not_steer_the_terminal(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("search", str(tmp_path / "a\x1b[2J\x9b2Jb"), "[[x]]")
    assert "a [2J 2Jb" in result.stderr
    skipped = tmp_path / "a\x1b[2Jb.txt"
    skipped.write_bytes(b"gut\nschl\xe4cht\n")
    result = invoke("terms", str(skipped), "--on-error", "skip")
    assert "a [2Jb.txt, line 2: " in result.stderr


def test_only_the_command_that_is_given_is_made() -> None:
    """All of them take longer than everything else that a command does before it begins."""
    group = get_command(app)
    context = group.make_context("phrasemate", ["search", "--help"], resilient_parsing=True)
    assert group.get_command(context, "search").name == "search"
    assert [name for name, command in group.commands.data.items() if command not in group.offers.values()] == ["search"]
    assert set(group.commands) == EVERY_COMMAND
    assert group.get_command(context, "spam") is None


EVERY_COMMAND = {
    *("index", "search", "serve", "terms", "align", "pairs", "examples", "dataset", "match", "mine", "mt", "vectors"),
    *("train", "evaluate", "model", "demo", "concordance", "watch"),
}


@pytest.mark.parametrize(
    ("line", "word", "expected"),
    [
        ("phrasemate ", 1, EVERY_COMMAND),
        (
            "phrasemate index ",
            2,
            {"add", "stats", "verify", "optimize", "delete", "dictionary", "backup", "restore", "upgrade"},
        ),
        ("phrasemate index a.txt --l", 3, {"--lang", "--lines"}),  # the options of add, which is unsaid
        ("phrasemate search idx --con", 3, {"--contexts"}),
    ],
)
def test_shell_completion(line: str, word: int, expected: set[str]) -> None:
    environment = os.environ | {
        "_PHRASEMATE_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(word),
    }
    result = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, env=environment, check=True)
    assert set(result.stdout.split()) == expected


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_a_pipe_is_utf_8_whatever_the_locale(locale: str) -> None:
    environment = os.environ | {"LC_ALL": locale, "PYTHONIOENCODING": "ascii"}
    code = f"import sys; sys.argv = ['phrasemate', 'search', '--help']; {RUN}"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=True)
    assert "pris un congé" in result.stdout.decode("utf-8")


def test_help_is_quick_to_load() -> None:
    code = (
        "import atexit, sys\n"
        "heavy = ('numpy', 'rich', 'openvino', 'faiss')\n"
        "atexit.register(lambda: print([name for name in heavy if name in sys.modules]))\n"
        "sys.argv = ['phrasemate', '--help']\n"
        "from phrasemate.cli import main; main()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("Usage: phrasemate ")
    assert result.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("library", ["typer", "threadpoolctl", "numpy"])
def test_ctrl_c_during_an_import_ends_with_130_and_no_traceback(library: str) -> None:
    """Ctrl-C arrives while Python looks for a library that the command line, or every command, or this one needs."""
    code = (
        "import sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {library!r}:\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from phrasemate.__main__ import main\n"
        "sys.argv = ['phrasemate', 'search', 'idx', '[[x]]']\n"
        "main()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr.removeprefix("stopped\n")) == (130, "")


def test_help_keeps_the_marks_of_its_examples(invoke: Invoke) -> None:
    assert '"Er sitzt auf der [[Bank]]."' in invoke("search", "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["search", "idx", "x", "-k", "0"], "--limit or -k: expected 1 or more; see phrasemate search --help"),
        (["search", "idx", "x", "-k", "many"], "--limit or -k: expected a whole number"),
        (
            ["index", "x", "-o", "y", "--min-belief", "2"],
            "--min-belief: expected 1 or less; see phrasemate index add --help",
        ),
        (["index", "x", "-o", "y", "--min-belief", "a"], "--min-belief: expected a number"),
    ],
)
def test_a_wrong_value_is_said_in_plain_words(invoke: Invoke, arguments: list[str], expected: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {expected}")


def test_a_wrong_name_gets_the_right_one(invoke: Invoke) -> None:
    assert invoke("serch").stderr.startswith("error: no such command 'serch' (did you mean 'search', 'serve'?); see ")
    expected = "error: no such option: --context (did you mean --contexts?); see phrasemate search --help\n"
    assert invoke("search", "idx", "--context", "3", "x").stderr == expected


def test_help_lists_every_command_once_and_in_full(invoke: Invoke) -> None:
    page = invoke("--help").stdout
    listed = re.findall(r"^  (\w+) {2,}\S", page.partition("\nSearch:\n")[2], re.MULTILINE)
    assert sorted(listed) == sorted(EVERY_COMMAND)
    assert "..." not in page.partition("\nSearch:\n")[2]

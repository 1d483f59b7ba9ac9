"""Run the blocks of a page, in their order, in an empty folder, and compare what they print.

``console`` blocks hold commands after ``$`` and what they print; ``sh`` blocks hold commands alone; ``python`` blocks
share their names, and a ``text`` block that follows one is what it prints. Numbers are not compared (they depend on
the processor), and a line ``...`` stands for any lines. Comments before a block change what happens:

    <!-- setup: demo-index -->      the demo's index, in the folder demo-index
    <!-- setup: clone -->           a clone of the repository, in which phrasemate is installed
    <!-- run: COMMAND -->           a command that readers do not see
    <!-- not run: REASON -->        the next block is not run; its options are checked all the same

With PAGES=write in the environment, what is printed is written into the page.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RUN = {"console", "sh", "python"}
SHELLS = {"bash", "powershell", "shell", "pycon", "bat", "pwsh"}
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=indent)```$|"
    r"^<!-- (?P<kind>setup|run|not run): (?P<value>.*?) -->$",
    re.DOTALL | re.MULTILINE,
)


@dataclass
class Block:
    """A fenced block or a comment, with its place in the text of the page."""

    language: str
    body: str
    start: int
    end: int
    skipped: str = ""


def blocks(text: str) -> list[Block]:
    """The blocks of a page that are run, shown or marked, in their order."""
    every: list[Block] = []
    reason = ""
    for match in FENCE.finditer(text):
        if match["kind"] == "not run":
            reason = match["value"]
        elif match["kind"]:
            every.append(Block(match["kind"], match["value"], match.start(), match.end()))
        else:
            every.append(Block(match["language"], match["body"], match.start("body"), match.end("body"), reason))
            reason = ""
    return every


def of(page: Path) -> list[Block]:
    """The blocks of a page's file."""
    return blocks(page.read_text("utf-8"))


def unmarked(text: str) -> list[str]:
    """Blocks that look like commands and are neither run nor marked."""
    return [
        block.body.splitlines()[0]
        for block in blocks(text)
        if block.body and not block.skipped
        if block.language in SHELLS or (block.language not in RUN and re.search(r"^\$? ?phrasemate ", block.body, re.M))
    ]


def commands(body: str) -> list[str]:
    """Commands of a shell block; a line that ends in a backslash continues."""
    joined = re.sub(r"\\\n\s*", " ", body)
    return [line.removeprefix("$ ").strip() for line in joined.splitlines() if "phrasemate " in line]


def unknown_options(body: str, tree: Any) -> list[str]:
    """Options of ``phrasemate`` commands that the program does not have."""
    unknown = []
    for line in commands(body):
        for part in re.split(r"\||&&|;|\bthen\b", line.split(" #")[0]):
            words = part.split()
            names = [Path(word).name for word in words]
            if "phrasemate" not in names:
                continue
            rest = words[len(names) - names[::-1].index("phrasemate") :]
            command, names = tree, []
            while rest and rest[0] in getattr(command, "commands", {}):
                names.append(rest[0])
                command = command.commands[rest.pop(0)]
            if hasattr(command, "commands") and names in (["index"], ["mt"]):
                command = command.commands["add" if names == ["index"] else "translate"]
            options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
            requests = {word.split("=")[0] for word in rest if re.match(r"-{1,2}[a-zA-Z]", word)}
            unknown += [f"{option} in: {part.strip()}" for option in requests - options - {"--help", "--version"}]
    return unknown


def folded(text: str) -> list[str]:
    """Lines to compare: numbers and widths of white space do not count."""
    masked = re.sub(r"\d[\d.,]*", "#", text)
    return [" ".join(line.split()) for line in masked.splitlines() if line.strip()]


def agrees(printed: str, expected_text: str) -> bool:
    """True if the lines shown are the lines printed; ``...`` stands for any lines."""
    pattern = [
        ".*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + "\n" for line in folded(expected_text)
    ]
    return re.fullmatch("".join(pattern), "".join(line + "\n" for line in folded(printed)), re.DOTALL) is not None


class Runner:
    """An empty folder, the environment of the shell and the names of the Python blocks."""

    def __init__(self, folder: Path, demo_index: Path) -> None:
        self.folder, self.demo_index = folder, demo_index
        self.names: dict[str, Any] = {"__name__": "page"}
        here = Path(sys.executable).parent
        self.environment = {
            **os.environ,
            "PATH": f"{here}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "HF_HUB_OFFLINE": "1",
            "NO_COLOR": "1",
            "COLUMNS": "110",
            "HOME": str(folder),
            "XDG_CACHE_HOME": str(folder / ".cache"),
        }

    def shell(self, command: str) -> str:
        """What a command prints, on both streams; AssertionError if it fails."""
        result = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        expected = 0 if "# exit code" not in command else int(command.split("# exit code")[1])
        assert result.returncode == expected, f"{command}\n{result.stdout}"
        return result.stdout

    def python(self, code: str) -> str:
        """What a Python block prints."""
        before, out = Path.cwd(), io.StringIO()
        os.chdir(self.folder)
        try:
            with contextlib.redirect_stdout(out):
                exec(compile(code, "page", "exec"), self.names)
        finally:
            os.chdir(before)
        return out.getvalue()

    def setup(self, name: str) -> None:
        """Put what a page needs into the folder: the demo's index, or what ``make demo`` finds in a clone."""
        if name == "demo-index":
            shutil.copytree(self.demo_index, self.folder / name, dirs_exist_ok=True)
            return
        assert name == "clone", name
        for part in ("Makefile", "src", "pyproject.toml"):
            (self.folder / part).symlink_to(ROOT / part)
        (self.folder / ".venv").mkdir()
        (self.folder / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
        (self.folder / ".venv" / ".base").touch()  # nothing is installed


def exchanges(body: str) -> list[tuple[str, str]]:
    """Commands of a console block with what each prints."""
    results: list[tuple[list[str], list[str]]] = []
    continued = False
    for line in body.splitlines():
        if line.startswith("$ "):
            results.append(([line[2:]], []))
        elif continued:
            results[-1][0].append(line)
        else:
            results[-1][1].append(line)
        continued = line.endswith("\\") and not results[-1][1]
    return [("\n".join(command), "\n".join(expected_text)) for command, expected_text in results]


def run(page: Path, folder: Path, demo_index: Path) -> list[str]:
    """Run a page; what differs from what it shows."""
    runner, text, shift = Runner(folder, demo_index), page.read_text("utf-8"), 0
    write = os.environ.get("PAGES") == "write"
    differences, printed = [], None
    for block in blocks(text):
        new = block.body
        if block.skipped:
            printed = None
            continue
        if block.language == "setup":
            runner.setup(block.body)
        elif block.language == "run":
            runner.shell(block.body)
        elif block.language == "sh":
            runner.shell("set -e\n" + block.body)
        elif block.language == "console":
            parts = []
            for command, expected_text in exchanges(block.body):
                output = runner.shell(command)
                if not agrees(output, expected_text):
                    differences.append(f"$ {command}\n{output}--- shown:\n{expected_text}")
                output_text = expected_text if "..." in expected_text.splitlines() else output.rstrip("\n")
                parts.append(f"$ {command}\n{output_text}".rstrip("\n"))
            new = "\n".join(parts) + "\n"
        elif block.language == "text" and printed is not None:
            if not agrees(printed, block.body):
                differences.append(f"{printed}--- shown:\n{block.body}")
            new = block.body if "..." in block.body.splitlines() else printed
        printed = runner.python(block.body) if block.language == "python" else None
        if write and new != block.body:
            text = text[: block.start + shift] + new + text[block.end + shift :]
            shift += len(new) - len(block.body)
    if write:
        page.write_text(text, "utf-8")
        return []
    return differences


def options(page: Path, tree: Any) -> list[str]:
    """Unknown options in all shell blocks of a page."""
    shells = [block for block in blocks(page.read_text("utf-8")) if block.language in {"console", "sh", "powershell"}]
    return [unknown for block in shells for unknown in unknown_options(block.body, tree)]

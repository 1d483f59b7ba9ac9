"""Every command and every Python block on the pages runs and prints what the page shows, or says why it is not run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import typer.main

from phrasemate.cli import app

sys.path.insert(0, str(Path(__file__).parent))
import pages

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = ("tutorials", "how-to", "explanation", "reference", "results")
FOLDERS = [ROOT / "docs" / section for section in SECTIONS]
WRITTEN = [ROOT / "README.md", ROOT / "docs" / "index.md", *sorted(page for f in FOLDERS for page in f.glob("*.md"))]
RUN = [page for page in WRITTEN if any(block.language in pages.RUN and not block.skipped for block in pages.of(page))]


@pytest.mark.slow  # each command is a process, which loads a model
@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_prints_what_it_shows(page: Path, tmp_path: Path, demo_index: Path) -> None:
    assert pages.run(page, tmp_path, demo_index) == [], "look at what differs, then: make pages"


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_has_no_other_commands(page: Path) -> None:
    assert pages.unmarked(page.read_text("utf-8")) == []
    assert pages.options(page, typer.main.get_command(app)) == []


def test_the_runner_itself(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- run: echo hidden > a -->\n```console\n$ cat a\nhidden\n$ echo 0.71\n0.83\n$ seq 9\n1\n...\n```\n"
        "<!-- not run: fails -->\n```sh\nexit 3\n```\n```python\nx = 2\n```\n"
        "```python\nprint(x, 'b')\n```\n```text\n7 b\n```\n"
    )
    assert pages.run(page, tmp_path, tmp_path) == []
    page.write_text("```console\n$ echo a\nb\n```\n```python\nprint('c')\n```\n```text\nd\n```\n")
    assert len(pages.run(page, tmp_path, tmp_path)) == 2
    page.write_text("```sh\nfalse\n```\n")
    with pytest.raises(AssertionError):
        pages.run(page, tmp_path, tmp_path)


def test_unknown_options_are_found() -> None:
    tree = typer.main.get_command(app)
    assert pages.unknown_options("phrasemate search idx -k 3 --explain 'a [[b]]' | head -1\n", tree) == []
    assert pages.unknown_options("phrasemate index a.txt -o idx --lang en\n", tree) == []
    assert pages.unknown_options("phrasemate search idx --deep\n", tree) == ["--deep in: phrasemate search idx --deep"]

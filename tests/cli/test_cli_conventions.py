"""Former names of options work with a warning, every one of them leads to an option, and help has groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from phrasemate.cli import app
from phrasemate.cli.options import pairs_of
from phrasemate.cli.shell import PANELS, RENAMED, current_names
from phrasemate.errors import ReadError


def test_every_former_name_leads_to_an_option() -> None:
    for path, renamed in RENAMED.items():
        command: Any = typer.main.get_command(app)
        for name in path.split():
            command = command.commands[name]
        names = {name for parameter in command.params for name in parameter.opts}
        assert set(renamed.values()) <= names, path
        assert not names & renamed.keys(), path


def test_former_names_are_replaced_up_to_the_end_of_options(capsys: pytest.CaptureFixture[str]) -> None:
    renamed = {"--most": "--limit"}
    assert current_names(["a", "--most=3", "--most", "4", "--", "--most"], renamed) == [
        "a",
        "--limit=3",
        "--limit",
        "4",
        "--",
        "--most",
    ]
    assert capsys.readouterr().err == "warning: --most is now called --limit\n" * 2


def test_a_former_name_works_and_warns() -> None:
    result = CliRunner().invoke(app, ["terms", "-", "--lang", "de", "--most", "1"], input="Die Bank.\n")
    assert result.exit_code == 0
    assert result.stderr.startswith(
        "warning: --lang is now called --source-lang\nwarning: --most is now called --limit\n"
    )


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_a_file_without_a_pair_of_sentences_is_an_error_with_its_name(tmp_path: Path, content: str) -> None:
    """Such a file may be given to mine --calibrate, to mt --examples and to mt prepare."""
    path = tmp_path / "pairs.tsv"
    path.write_text(content, "utf-8")
    with pytest.raises(ReadError, match=r"pairs\.tsv: no pair of sentences in it"):
        list(pairs_of(path, "de", "en", "--source-lang and --target-lang"))


def test_help_has_groups_of_options() -> None:
    page = CliRunner().invoke(app, ["terms", "--help"]).stdout
    headings = [page.index(f"\n{name}:\n") for name in ("Options", *PANELS)]
    assert headings == sorted(headings)
    assert page.index("--text-field") > headings[1] > page.index("--min-belief")


def test_short_help_stays_in_one_list() -> None:
    page = CliRunner().invoke(app, ["demo", "--help"]).stdout
    assert "\nOptions:\n" in page
    assert "\nOutput:\n" not in page

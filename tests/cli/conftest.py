"""Fixtures: the library replaced by stand-ins, and a way to run a command."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from bundled_once import bundled_once  # noqa: F401
from cli_fakes import Library
from typer.testing import CliRunner

from phrasemate.cli import app


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    """The library with a fake index, searcher and model."""
    fakes = Library()
    monkeypatch.setattr("phrasemate.encode.load_model", fakes.load_model)
    monkeypatch.setattr("phrasemate.index.Index", fakes.index, raising=False)
    monkeypatch.setitem(sys.modules, "phrasemate.search", SimpleNamespace(Searcher=fakes.search))
    return fakes


@pytest.fixture
def invoke() -> Callable[..., Any]:
    """``invoke("index", "stats", "idx")`` runs a command; ``.exit_code``, ``.stdout``, ``.stderr`` say what came."""

    def run(*arguments: str, stdin: str | bytes | None = None) -> Any:
        result = CliRunner().invoke(app, list(arguments), input=stdin, prog_name="phrasemate")
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run

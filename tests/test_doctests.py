"""The examples in docstrings give what they say."""

from __future__ import annotations

import doctest
import importlib
from functools import cache
from pathlib import Path

import pytest

import phrasemate.encode

SOURCE = Path(__file__).resolve().parents[1] / "src"
EXAMPLES = sorted(path for path in (SOURCE / "phrasemate").rglob("*.py") if ">>> " in path.read_text("utf-8"))


@cache
def load_model() -> phrasemate.encode.Model:
    return phrasemate.encode.model.load_model()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_give_what_they_say(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(phrasemate.encode, "load_model", load_model)
    module = importlib.import_module(".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"))
    outcome = doctest.testmod(module)
    assert outcome.attempted > 0
    assert outcome.failed == 0

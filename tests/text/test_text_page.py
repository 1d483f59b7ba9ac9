from __future__ import annotations

import doctest
import inspect
from pathlib import Path

import pytest

from phrasemate.text import discover, read
from phrasemate.text.formats import archive, html, registry, xlsx, xml
from phrasemate.text.formats.registry import FORMATS
from phrasemate.text.text_file import LINE_LIMIT

PAGE = Path(__file__).parents[2] / "docs" / "text.md"


@pytest.mark.parametrize("name", ["text.md", "formats.md"])
def test_the_examples_print_what_the_page_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(str(PAGE.with_name(name)), module_relative=False, encoding="utf-8")
    assert (failed, tried > 5) == (0, True)


def test_every_limit_is_on_the_page_of_the_formats() -> None:
    page = PAGE.with_name("formats.md").read_text(encoding="utf-8")
    limits = [xml.DEPTH, xml.TOKEN, xml.UNIT, xml.NAMES, archive.MEMBERS, archive.MEMBER, xlsx.STRINGS, html.PAGE]
    limits += [html.DEPTH, registry.METADATA, registry.NESTING, xlsx.CELLS, registry.EVERYWHERE, archive.TOGETHER]
    assert [limit for limit in [*limits, xlsx.COLUMNS, archive.RATIO] if f" {limit:,} " not in page] == []
    suffixes = [suffix for suffix in discover.SUFFIXES if f"`{suffix}`" not in page + PAGE.read_text(encoding="utf-8")]
    assert suffixes == []


def test_every_option_and_format_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    options = [
        name for name, option in inspect.signature(read).parameters.items() if option.kind is option.KEYWORD_ONLY
    ]
    assert [name for name in options if f"`{name}=" not in page or f"`--{name.replace('_', '-')} " not in page] == []
    assert [name for name in FORMATS if f"`.{name}`" not in page] == []
    assert f"{LINE_LIMIT:,} characters" in page

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from phrasemate.text import corpus, read
from phrasemate.text.formats import archive, html, registry, tables, xml
from phrasemate.text.formats.registry import FORMATS
from phrasemate.text.text_file import LINE_LIMIT

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "formats.md"


def test_the_example_prints_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) >= 1
    for code, printed in examples:
        exec(code, {})
        assert capsys.readouterr().out == printed


def test_every_limit_is_on_the_page_of_the_formats() -> None:
    page = PAGE.with_name("formats.md").read_text(encoding="utf-8")
    limits = [xml.DEPTH, xml.TOKEN, xml.UNIT, xml.NAMES, archive.MEMBERS, archive.MEMBER, tables.STRINGS, html.PAGE]
    limits += [html.DEPTH, registry.METADATA, registry.NESTING, tables.CELLS, registry.EVERYWHERE, archive.TOGETHER]
    assert [limit for limit in [*limits, tables.COLUMNS, archive.RATIO] if not _states(page, limit)] == []
    suffixes = [suffix for suffix in corpus.SUFFIXES if f"`{suffix}`" not in page + PAGE.read_text(encoding="utf-8")]
    assert suffixes == []


def _states(page: str, limit: int) -> bool:
    return f" {limit:,} " in page or f" {limit // 10**6} MB" in page


def test_every_option_and_format_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    options = [
        name for name, option in inspect.signature(read).parameters.items() if option.kind is option.KEYWORD_ONLY
    ]
    assert [name for name in options if f"`{name}=" not in page or f"`--{name.replace('_', '-')} " not in page] == []
    endings = {format_: suffix for suffix, format_ in corpus.SUFFIXES.items()}
    assert [name for name in FORMATS if f"`{endings[name]}`" not in page] == []
    assert f"{LINE_LIMIT:,} characters" in page

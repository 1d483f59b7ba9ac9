"""Docs are part of the code: nothing public goes undocumented, nothing documented is out of date."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import phrasemate

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")])


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_fresh(generate: ModuleType) -> None:
    assert generate.stale() == [], "run make docs"


def test_every_command_and_option_is_documented(generate: ModuleType) -> None:
    page = (DOCS / "cli.md").read_text("utf-8")
    for path, command in generate.commands():
        assert f"## {path}\n" in page
        section = page.split(f"## {path}\n")[1].split("\n## ")[0]
        for parameter in command.params:
            names = parameter.opts if parameter.param_type_name == "option" else [generate.argument(parameter)]
            assert all(f"`{name}`" in section for name in names), f"{path} {names}"


def test_every_parameter_has_help_and_every_command_examples(generate: ModuleType) -> None:
    for path, command in generate.commands():
        assert command.help, path
        assert (command.epilog or "").startswith("Examples:"), path
        assert all(parameter.help for parameter in command.params), path


def test_every_public_name_is_documented() -> None:
    page = (DOCS / "api.md").read_text("utf-8")
    missing = [name for name in phrasemate.__all__ if f"\n### {name}\n" not in page]
    assert not missing


def test_readme_names_the_commands_to_start_with() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert "make demo" in readme
    assert "make test" in readme


def test_every_public_name_is_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert not [name for name in phrasemate.__all__ if name not in readme]


def test_every_page_is_in_the_index_of_the_docs() -> None:
    index = (DOCS / "README.md").read_text("utf-8")
    assert not [page.name for page in DOCS.glob("*.md") if page.name != "README.md" and f"({page.name})" not in index]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_resolve(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.DOTALL)
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    assert not [link for link in links if link and not (page.parent / link).exists()]

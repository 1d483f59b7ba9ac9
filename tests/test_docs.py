"""Docs are part of the code: nothing public goes undocumented, nothing documented is out of date."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import phrasemate

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
LOGS = sorted((ROOT / "results").rglob("*.md"))
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *LOGS])
WRITTEN = [page for page in PAGES if "generated" not in page.parts]
SITE = [page for page in WRITTEN if DOCS in page.parents and "decisions" not in page.parts]


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    return loaded("generate")


@pytest.fixture(scope="module")
def generated(generate: ModuleType) -> dict[str, str]:
    pages: dict[str, str] = generate.pages()
    return pages


@pytest.fixture(scope="module")
def lint() -> ModuleType:
    return loaded("lint")


def test_every_command_and_option_is_documented(generate: ModuleType, generated: dict[str, str]) -> None:
    page = generated["cli.md"]
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


def test_every_public_name_is_documented(generated: dict[str, str]) -> None:
    pages = "".join(text for name, text in generated.items() if name.startswith("api/"))
    assert not [name for name in phrasemate.__all__ if f"\n## {name}\n" not in pages]


def test_the_public_surface_is_small(generate: ModuleType) -> None:
    names = [name for listed in generate.MODULES.values() for name in listed.split()]
    assert 100 < len(names) <= 145
    assert len({*generate.MODULES}) == len(generate.MODULES)


def test_a_public_name_means_one_thing(generate: ModuleType) -> None:
    names = [name for listed in generate.MODULES.values() for name in listed.split()]
    assert [name for name, times in Counter(names).items() if times > 1] == []


def members_of(generate: ModuleType) -> Iterator[tuple[str, Any]]:
    for module, names in generate.MODULES.items():
        home = importlib.import_module(f"phrasemate.{module}")
        yield from ((f"{module}.{name}", getattr(home, name)) for name in names.split())


def test_every_module_and_every_public_class_has_an_example(generate: ModuleType, generated: dict[str, str]) -> None:
    pages = [f"api/{module}.md" for module in generate.MODULES]
    assert [page for page in pages if "```python\n>>> " not in generated[page]] == []
    classes = [(name, member) for name, member in members_of(generate) if inspect.isclass(member)]
    items = [(name, member) for name, member in classes if not issubclass(member, Exception)]
    assert len(items) > 50
    assert [name for name, member in items if ">>> " not in (member.__doc__ or "")] == []


def test_three_arguments_or_more_are_described(generate: ModuleType) -> None:
    functions = []
    for name, member in members_of(generate):
        if inspect.isclass(member):
            functions += [(f"{name}.{key}", getattr(value, "__func__", value)) for key, value in vars(member).items()]
        else:
            functions.append((name, inspect.unwrap(member)))
    items = [(name, function) for name, function in functions if inspect.isfunction(function)]
    public = [(name, function) for name, function in items if not name.rpartition(".")[2].startswith("_")]
    assert len(public) > 100
    assert [name for name, function in public if lacks_arguments(function)] == []


def lacks_arguments(function: Any) -> bool:
    """Whether three arguments or more are not described, here or where the docstring refers to."""
    text = inspect.getdoc(function) or ""
    arguments = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    is_elsewhere = text.startswith("As in `") or getattr(function, "__isabstractmethod__", False)
    return len(arguments) >= 3 and "Args:\n" not in text and not is_elsewhere


def test_the_rule_of_arguments_itself() -> None:
    def described(one: int, two: int, three: int) -> None:
        """Add.

        Args:
            one: First number.
            two: Second number.
            three: Third number.
        """

    assert not lacks_arguments(described)
    assert lacks_arguments(lambda one, two, three: one)
    assert not lacks_arguments(lambda one, two: one)


@pytest.mark.parametrize(
    ("module", "former", "name"),
    [
        ("errors", "IndexError_", "PhraseIndexError"),
        ("align", "Worded", "TokenizedSentence"),
        ("mine", "Mined", "MiningResult"),
        ("text", "Skipped", "SkippedInput"),
        ("index", "Settings", "IndexSettings"),
        ("match", "Side", "MatchSide"),
        ("dataset", "Settings", "DatasetSettings"),
        ("dataset", "Report", "DatasetReport"),
        ("dataset", "read", "read_dataset"),
    ],
)
def test_former_names_still_work(module: str, former: str, name: str) -> None:
    home = importlib.import_module(f"phrasemate.{module}")
    assert getattr(home, former) is getattr(home, name)


def imports_of_page(text: str) -> Iterator[tuple[str, str]]:
    """The modules of phrasemate and their names that the Python blocks of a page import."""
    for block in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("phrasemate"):
                yield from ((str(node.module).removeprefix("phrasemate").strip("."), name.name) for name in node.names)


def test_pages_use_documented_names(generate: ModuleType) -> None:
    documented = {module: names.split() for module, names in generate.MODULES.items()} | {"": phrasemate.__all__}
    pages = [page for page in WRITTEN if "log" not in page.parts]
    imports = [(page.name, *item) for page in pages for item in imports_of_page(page.read_text("utf-8"))]
    assert len(imports) > 20
    assert [item for item in imports if item[2] not in documented.get(item[1], ())] == []


def test_the_overview_of_python_links_every_module(generate: ModuleType, generated: dict[str, str]) -> None:
    assert re.findall(r"\]\(api/(\S+)\.md\)", generated["python.md"]) == list(generate.MODULES)
    assert generated["api/index.md"].startswith(f"# phrasemate.index\n\n{generate.GENERATED}\n")


def test_every_address_of_the_server_is_documented(generated: dict[str, str]) -> None:
    page = (DOCS / "reference" / "rest.md").read_text("utf-8")
    addresses = re.findall(r"^## (GET|POST) (\S+)$", generated["rest.md"], re.MULTILINE)
    assert len(addresses) >= 7
    assert not [f"{method} {address}" for method, address in addresses if f"`{method} {address}`" not in page]


def test_every_error_code_of_the_server_is_documented() -> None:
    from phrasemate.server.errors import REASONS

    page = (DOCS / "reference" / "rest.md").read_text("utf-8")
    assert not [code for code, status in REASONS.items() if f"| {status} | `{code}` |" not in page]


def test_every_error_has_its_messages(generated: dict[str, str]) -> None:
    page = generated["errors.md"]
    for name in ("ReadError", "QueryError", "IndexLocked", "ModelMismatch"):
        assert page.split(f"\n## {name}\n")[1].split("\n## ")[0].count("- `") >= 1, name


def test_every_variable_of_the_environment_is_documented() -> None:
    page = (DOCS / "reference" / "environment.md").read_text("utf-8")
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    names = set(re.findall(r"environ(?:\.get|\.setdefault)?[\[(]\"([A-Za-z_]+)\"", source))
    names |= set(re.findall(r"\bPHRASEMATE_[A-Z_]+", source))
    assert len(names) >= 5
    assert not [name for name in names if f"`{name}`" not in page]


def test_readme_is_short_and_names_the_commands_to_start_with() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert "make demo" in readme
    text = re.sub(r"<!--.*?-->", "", readme, flags=re.DOTALL)
    assert len(re.findall(r"\S*\w\S*", text)) <= 500  # code and addresses of links included


def test_the_changelog_is_short() -> None:
    assert len((ROOT / "CHANGELOG.md").read_text("utf-8").split()) < 600


def test_every_public_name_is_in_the_tutorial() -> None:
    page = (DOCS / "tutorials" / "python.md").read_text("utf-8")
    assert not [name for name in phrasemate.__all__ if not re.search(rf"\b{name}\b", page)]


def test_every_page_is_in_the_contents_of_the_site() -> None:
    contents = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert not [page.name for page in SITE if f" {page.relative_to(DOCS)}\n" not in contents]
    home = (DOCS / "index.md").read_text("utf-8")
    others = [page for page in SITE if page.name != "index.md" or page.parent != DOCS]
    assert not [page.name for page in others if f"]({page.relative_to(DOCS)})" not in home]


def test_figures_are_of_the_bundled_model(generate: ModuleType) -> None:
    figures = json.loads((ROOT / "results" / "bundled.json").read_text("utf-8"))

    from phrasemate.encode.model_folder import bundled_folder
    from phrasemate.utils.storage import sha256_of

    shipped = sha256_of(bundled_folder() / "MANIFEST.json")[:12]
    assert figures["model"]["hash"] == shipped, "measure again, and change results/bundled.json"
    measured = {part["model"] for part in figures.values() if isinstance(part, dict) and "command" in part}
    assert measured <= {shipped, *figures["same_weights"]}
    assert figures["lookup"]["model"] == shipped
    assert generate.stale() == [], "run make docs"


def test_every_page_of_figures_names_the_commands() -> None:
    others = {"index.md", "data.md", "protocols.md", "reproduce.md", "model-card.md"}
    pages = [page for page in (DOCS / "results").glob("*.md") if page.name not in others]
    assert len(pages) >= 6
    assert [page.name for page in pages if "](reproduce.md)" not in page.read_text("utf-8")] == []


def test_hashes_of_data_are_those_of_the_reports() -> None:
    reports = "".join(page.read_text("utf-8") for page in LOGS)
    named = re.findall(r"^\| ([0-9a-f]{12}) \|", (DOCS / "results" / "data.md").read_text("utf-8"), re.MULTILINE)
    assert len(named) >= 4
    assert [name for name in named if f"signature: data {name};" not in reports] == []


def test_the_tables_of_a_report() -> None:
    page = "# A\n\n| row | acc |\n|---|---|\n| `a` | **.5** |\n\n| word | means |\n|---|---|\n| a | b |\n"
    block = "```\n       AER  links  pairs/s\nde    0.14  1,189  .5\nsignature: x\n```\n"
    first, second = loaded("tables").tables("a", page + block)
    assert first == ("a", "A", [["row", "acc"], ["a", "0.5"]])
    assert second.csv() == ',AER,links,pairs/s\nde,0.14,"1,189",0.5\n'


def test_the_notebook_has_the_blocks_of_the_tutorial(generate: ModuleType) -> None:
    page = "# A\n\nText.\n\n```python\nx = 1\nprint(x)\n```\n\n```text\n1\n```\n\nMore.\n"
    cells = json.loads(generate.notebook(page))["cells"]
    assert [(cell["cell_type"], "".join(cell["source"])) for cell in cells] == [
        ("markdown", "# A\n\nText."),
        ("code", "x = 1\nprint(x)"),
        ("markdown", "More."),
    ]
    written = json.loads(generate.NOTEBOOK.read_text("utf-8"))["cells"]
    blocks = re.findall(r"^```python\n(.*?)\n```$", generate.TUTORIAL.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert ["".join(cell["source"]) for cell in written if cell["cell_type"] == "code"] == blocks


def test_prose_is_plain(lint: ModuleType) -> None:
    assert lint.problems() == {}
    assert sum(lint.words(page.read_text("utf-8")) for page in lint.pages()) <= lint.TOTAL


def test_the_rules_of_prose_themselves(lint: ModuleType) -> None:
    short, long = " ".join(["Word"] * 10) + ".", " ".join(["word"] * 31) + "."
    assert lint.misses(f"{short} {short}") == []
    assert lint.measure(f"{short}\n\n- {long}").mean == (10 + 31) / 2
    assert "over 30 words" in lint.misses(f"{long}\n\n" * 2)[1]
    assert "heavy punctuation" in lint.misses("One, two, three, four, five.\n\n" * 2)[0]
    assert lint.misses("This is no phrase. Start anew with `--force`. There is no limit.") == [
        "'anew' in 'This is no phrase. Start anew with code. There is no l'; better: again, or rebuild",
        "'is no' in 'This is no phrase. Start anew with c'; better: is not a",
    ]
    assert lint.misses("It has .87 there, and 0.87 here.")[0].startswith("'.8'")
    assert lint.measure("| a, b, c, d, e |\n\n```\nx, y, z, a, b\n```\n").sentences == 0


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_resolve(page: Path, generated: dict[str, str]) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.DOTALL)
    links = [link.split("#") for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    built = {(DOCS / "reference" / "generated" / name).resolve() for name in generated}
    for path, *anchor in links:
        target = (page.parent / path).resolve() if path else page.resolve()
        assert target.exists() or target in built, f"{page}: {path}"
        if page in SITE:
            assert DOCS in target.parents, f"{page}: {path} is outside of the site"
        if anchor and page in SITE and target not in built:
            assert anchor[0] in anchors(target.read_text("utf-8")), f"{page}: {path}#{anchor[0]}"


def anchors(text: str) -> set[str]:
    """The names of a page's headings, as links have them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_what_a_page_fetches_is_seen() -> None:
    check = loaded("check_site")
    assert check.fetched('<script src="https://a.example/x.js"></script>') == ["https://a.example/x.js"]
    assert check.fetched("<link href=//b.example/x.css rel=stylesheet>") == ["//b.example/x.css"]
    assert check.fetched("@font-face { src: url('http://c.example/f.woff') }") == ["http://c.example/f.woff"]
    assert check.fetched('<a href="https://d.example/">a link</a> <img src="../images/a.png">') == []
    assert check.fetched('<link rel="canonical" href="https://e.example/">') == []

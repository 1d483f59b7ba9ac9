"""What holds for the whole tree: exports, direction of imports, weight of ``import phrasemate``, sizes, no pickle."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from zlib import compress

import pytest

import phrasemate

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "phrasemate"
MODULES = sorted(SOURCE.rglob("*.py"))

# Lowest first; a module imports from lower layers only.
LAYERS = (
    {"types", "errors", "query", "utils"},
    {"text", "align", "encode", "index", "vectors", "lexicon"},
    {"results", "vote_search", "search", "candidates", "features", "rank", "concordance", "mine", "match", "terms"}
    | {"dataset", "examples", "glossary", "lookup", "termhood", "training", "reranker", "answers"},
    {"evaluate", "mt", "demo"},
    {"cli", "server"},
    {"__main__"},
)
# Within one layer: who may use what of whom.
NEIGHBOURS = {
    ("align", "phrasemate.text"),
    ("align", "phrasemate.encode"),
    ("align", "phrasemate.lexicon.inflection"),
    ("encode", "phrasemate.text"),
    ("index", "phrasemate.encode"),
    ("index", "phrasemate.lexicon.dictionary"),
    ("index", "phrasemate.lexicon.inflection"),
    ("index", "phrasemate.lexicon.wordings"),
    ("index", "phrasemate.text.normalize"),
    ("index", "phrasemate.text.languages"),
    ("index", "phrasemate.text.names"),
    ("lexicon", "phrasemate.text"),
    ("vectors", "phrasemate.text"),
    ("vectors", "phrasemate.encode"),
    ("vote_search", "phrasemate.results"),
    ("search", "phrasemate.results"),
    ("search", "phrasemate.vote_search"),
    ("features", "phrasemate.candidates"),
    ("search", "phrasemate.candidates"),
    ("search", "phrasemate.features"),
    ("answers", "phrasemate.candidates"),
    ("answers", "phrasemate.features"),
    ("answers", "phrasemate.results"),
    ("search", "phrasemate.answers"),
    ("terms", "phrasemate.termhood"),
    ("rank", "phrasemate.search"),
    ("concordance", "phrasemate.results"),
    ("lookup", "phrasemate.concordance"),
    ("terms", "phrasemate.results"),
    ("terms", "phrasemate.search"),
    ("mine", "phrasemate.rank"),
    ("match", "phrasemate.candidates"),
    ("match", "phrasemate.features"),
    ("match", "phrasemate.examples"),
    ("match", "phrasemate.rank"),
    ("training", "phrasemate.dataset"),
    ("training", "phrasemate.rank"),
    ("training", "phrasemate.reranker"),
    ("mine", "phrasemate.reranker"),
    ("reranker", "phrasemate.rank"),
    ("dataset", "phrasemate.examples"),
    ("cli", "phrasemate.server"),
    ("evaluate", "phrasemate.mt"),
}
TRAINING = {"training"}  # the only one to import torch, and imported by the command line alone
GUARDED = {name: {*TRAINING, "encode/export"} for name in ("torch", "transformers")}
GUARDED |= {name: {"index/lance", "index/ray"} for name in ("lance", "lance_ray", "pyarrow", "ray")}
# Making a model folder, not using one.
ONNX = {SOURCE / "encode" / "export" / f"{name}.py" for name in ("export", "onnx_graph", "to_hf")}
LONGEST = 800  # lines


def name_of(path: Path) -> str:
    """``src/phrasemate/text/words.py`` -> ``phrasemate.text.words``."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer_of(part: str) -> int:
    return next((level for level, parts in enumerate(LAYERS) if part in parts), -1)


@cache
def nodes_of(source: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(source)))


def imports_of(source: str, module: str = "", package: bool = False) -> Iterator[str]:
    """Every module that ``source`` imports, wherever in it, relative ones resolved."""
    for node in nodes_of(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")[: None if package and node.level == 1 else -(node.level - package)]
                base = ".".join([*parents, *([base] if base else [])])
            if base == "phrasemate":
                yield from (f"phrasemate.{alias.name}" for alias in node.names)
            else:
                yield base


def is_guilty(importer: str, name: str) -> bool:
    """Whether the part ``own`` (``text``, ``search`` ...) of phrasemate must not import ``name``."""
    if not name.startswith("phrasemate."):
        return False
    other = name.split(".")[1]
    if other == importer or layer_of(other) < 0:  # at home; or a name of phrasemate/__init__.py such as __version__
        return False
    if other in TRAINING:
        return importer not in TRAINING | {"cli"}
    if layer_of(other) == layer_of(importer) > 0:
        return not any(importer == user and f"{name}.".startswith(f"{used}.") for user, used in NEIGHBOURS)
    return layer_of(other) > layer_of(importer)


def guilty_imports(module: str, imported: Iterable[str]) -> list[str]:
    """The imports of ``module`` that go up, or sideways without leave."""
    parts = module.split(".")
    if len(parts) == 1:  # phrasemate itself hands out names from everywhere, lazily
        return []
    return [f"{module} imports {name}" for name in imported if is_guilty(parts[1], name)]


def tracked_files() -> list[Path]:
    """The text files of the repository (of the folder, where git does not know it)."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode == 0:
        files = [ROOT / line for line in listed.stdout.splitlines()]
    else:
        files = [p for folder in ("src", "tests", "docs", "bench") for p in (ROOT / folder).rglob("*")]
    texts = {".py", ".md", ".toml", ".txt", ".json", ".jsonl", ".cfg", ".sh", ""}
    return [p for p in files if p.is_file() and p.suffix in texts]


def kind(name: str) -> int:
    """CONSTANTS, then Classes, then functions: the order that ruff keeps (RUF022)."""
    return 0 if name.isupper() else 1 if name[0].isupper() else 2


@pytest.mark.parametrize("path", [path for path in MODULES if path.stem == "__init__"], ids=name_of)
def test_exports_are_sorted_and_defined(path: Path) -> None:
    """A package says what it exports."""
    module = importlib.import_module(name_of(path))
    exported = module.__all__
    assert exported == sorted(exported, key=lambda name: (kind(name), name)), (
        f"__all__ of {name_of(path)} is not sorted"
    )
    missing = [name for name in exported if not hasattr(module, name)]
    assert not missing, f"__all__ of {name_of(path)} names what is not there: {missing}"


def test_the_package_lists_and_has_its_exports_alone() -> None:
    assert dir(phrasemate) == sorted(["__version__", *phrasemate.__all__])
    assert all(getattr(phrasemate, name).__module__.startswith("phrasemate.") for name in phrasemate.__all__)
    with pytest.raises(AttributeError, match=r"module 'phrasemate' has no attribute 'Serach'; it has .*, Searcher, "):
        phrasemate.Serach  # noqa: B018


def test_modules_have_no_exports() -> None:
    """What a module exports is what does not begin with an underscore."""
    modules = [path for path in tracked_files() if path.suffix == ".py" and path.stem != "__init__"]
    assert len(modules) > 100
    assert not [str(path.relative_to(ROOT)) for path in modules if "__all__" in _assigned_names(path)]


def _assigned_names(path: Path) -> set[str]:
    source = path.read_text("utf-8")
    names = [node for node in nodes_of(source) if isinstance(node, ast.Name)] if "__all__" in source else []
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


def test_every_folder_has_a_layer() -> None:
    layers = set().union(*LAYERS)
    parts = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in MODULES} - {"__init__", "__main__"}
    assert parts <= layers, f"give {sorted(parts - layers)} a place in LAYERS"


def test_imports_go_one_way() -> None:
    guilty = [
        line
        for path in MODULES
        for line in guilty_imports(
            name_of(path), imports_of(path.read_text("utf-8"), name_of(path), path.stem == "__init__")
        )
    ]
    assert not guilty, "\n".join(guilty)


def runtime_imports(source: str) -> Iterator[str]:
    """Modules and names that ``source`` imports when it runs, late ones too, without those for type checkers."""
    waiting = [nodes_of(source)[0]]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            waiting += ast.iter_child_nodes(node)


def modules_in_circles(sources: dict[str, str]) -> set[str]:
    """The modules (by name, with their sources) that import themselves by way of others."""
    uses = {
        module: {name if name in sources else name.rpartition(".")[0] for name in runtime_imports(source)}
        & sources.keys()
        for module, source in sources.items()
    }
    while leaves := {module for module, names in uses.items() if not names - {module}}:
        uses = {module: names - leaves for module, names in uses.items() if module not in leaves}
    return {module for module in uses if any(module in names for names in uses.values())}


def test_no_module_imports_itself_by_way_of_others() -> None:
    circles = modules_in_circles({name_of(path): path.read_text("utf-8") for path in MODULES})
    assert not circles, f"one of these has to give up an import: {', '.join(sorted(circles))}"


def test_the_rule_of_circles_itself() -> None:
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a.c import D"
    late = "def f():\n    from a.c import d"
    assert modules_in_circles({"a.b": "import a.c", "a.c": ""}) == set()
    assert modules_in_circles({"a.b": "import a.c", "a.c": "from a.b import e"}) == {"a.b", "a.c"}
    assert modules_in_circles({"a.b": late, "a.c": "from a import b"}) == {"a.b", "a.c"}
    assert modules_in_circles({"a.b": typed, "a.c": "from a.b import e"}) == set()


@pytest.mark.parametrize(
    ("module", "source", "expected"),
    [
        ("phrasemate.text.read", "from phrasemate.search import Searcher", 1),
        ("phrasemate.text.read", "from phrasemate import index", 1),
        ("phrasemate.text.read", "from ..encode import load_model", 1),
        ("phrasemate.text.read", "from .words import words", 0),
        ("phrasemate.encode.segmenter", "def f():\n    from phrasemate.text import words", 0),
        ("phrasemate.search", "import phrasemate.training.xpr", 1),
        ("phrasemate.cli.train", "from phrasemate.training.trainer import train", 0),
        ("phrasemate.cli.index", "from phrasemate import __version__", 0),
    ],
)
def test_the_import_rule_itself(module: str, source: str, expected: int) -> None:
    assert len(guilty_imports(module, imports_of(source, module))) == expected


def test_heavy_packages_stay_where_they_belong() -> None:
    guilty = []
    for path in MODULES:
        for name in imports_of(path.read_text("utf-8")):
            package = name.split(".")[0]
            parts = path.relative_to(SOURCE).with_suffix("").parts
            homes = GUARDED.get(package, {parts[0]})
            if not homes & {parts[0], "/".join(parts[:2])} or (package == "onnx" and path not in ONNX):
                guilty.append(f"{name_of(path)} imports {name}")
    assert not guilty, "\n".join(guilty)


def test_import_loads_nothing_heavy() -> None:
    heavy = (
        "torch",
        "transformers",
        "openvino",
        "onnx",
        "onnxruntime",
        "faiss",
        "tokenizers",
        "icu4py",
        "ray",
        "lance",
    )
    code = f"import phrasemate, sys; print(*[name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def test_the_wheel_stays_below_what_an_index_takes() -> None:
    """A package index takes files of 100 MB; the package has 99.4, so all of it is packed, as in the wheel."""
    files = [path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert 50_000_000 < sum(len(compress(path.read_bytes())) for path in files) < 100_000_000


def test_indexing_and_searching_need_no_training_package() -> None:
    code = "import phrasemate.encode, phrasemate.index, phrasemate.search, phrasemate.text, phrasemate.cli, sys\n"
    code += "print(*[name for name in ('torch', 'transformers', 'onnx') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


@pytest.mark.parametrize("code", ["phrasemate.Index", "phrasemate.Searcher"])
def test_indexing_loads_neither_formats_nor_tables(code: str) -> None:
    """Formats are loaded when a file of theirs is read, Lance tables when an index of them is opened."""
    late = ("phrasemate.text.formats", "phrasemate.text.corpus", "phrasemate.index.lance.", "phrasemate.index.ray")
    code = f"import phrasemate, sys; {code}; print(*[name for name in sys.modules if name.startswith({late})])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def test_the_rules_for_japanese_and_korean_are_compiled_at_their_first_use() -> None:
    """They take a quarter of a second, and most searches need none of them."""
    code = "import phrasemate.search; from phrasemate.text import japanese, korean\n"
    code += "print(*[module._compiled.cache_info().currsize for module in (japanese, korean)])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["0", "0"]


def best_seconds(code: str, times: int = 5) -> float:
    """Processor seconds: what others do on the machine is not our slowness."""
    timed = f"import time; start = time.process_time(); {code}; print(time.process_time() - start)"

    def once() -> float:
        return float(subprocess.run([sys.executable, "-c", timed], check=True, capture_output=True, text=True).stdout)

    return min(once() for _ in range(times))


@pytest.mark.parametrize("code", ["import phrasemate", "import phrasemate.cli"])
def test_import_is_quick(code: str) -> None:
    seconds = best_seconds(code)
    assert seconds < 0.3, f"{code} takes {seconds:.2f} s"


def test_files_are_short() -> None:
    lengths = {p.relative_to(ROOT): p.read_text("utf-8").count("\n") for p in tracked_files() if p.suffix == ".py"}
    assert not {str(path): lines for path, lines in lengths.items() if lines > LONGEST}


HOME_PATH = re.compile(r"(?<![\w.:/])/(?:home|Users)/\w+|(?<![\w.:/])/root/")
PICKLES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
UNPICKLING = re.compile(rf"{'|'.join(PICKLES)}|allow_pickle|torch\.load")


def test_no_paths_of_one_machine() -> None:
    guilty = []
    for path in tracked_files():
        if path == Path(__file__).resolve():
            continue
        lines = path.read_text("utf-8", "replace").splitlines()
        guilty += [f"{path.relative_to(ROOT)}:{n}" for n, line in enumerate(lines, 1) if HOME_PATH.search(line)]
    assert not guilty


def pickle_uses(source: str) -> list[str]:
    """Imports of pickling packages, and calls that may unpickle."""
    if not UNPICKLING.search(source):  # parsing every file takes seconds
        return []
    uses = [name for name in imports_of(source) if name.split(".")[0] in PICKLES]
    for node in nodes_of(source):
        if isinstance(node, ast.Call):
            flags = {k.arg: ast.unparse(k.value) for k in node.keywords if k.arg in ("allow_pickle", "weights_only")}
            loads = isinstance(node.func, ast.Attribute) and ast.unparse(node.func) == "torch.load"
            if flags.get("allow_pickle") == "True" or (loads and flags.get("weights_only") != "True"):
                uses.append(f"line {node.lineno}: {ast.unparse(node.func)}")
    return uses


def test_no_place_holders() -> None:
    """A line of the documentation that is one word in capitals was to be filled in."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "results").rglob("*.md")]
    assert len(pages) > 20
    results = [
        (page.name, line) for page in pages for line in page.read_text("utf-8").splitlines() if _to_fill_in(line)
    ]
    assert results == []


def _to_fill_in(line: str) -> bool:
    return re.fullmatch(r"[A-Z]{4,}", line.strip()) is not None


def test_the_place_holder_rule_itself() -> None:
    assert [_to_fill_in(line) for line in ("NUMBERS", "  TABLE ", "TODO: x", "The", "| MAP |")] == [True, True] + [
        False
    ] * 3


def test_no_pickle() -> None:
    uses = {str(p.relative_to(ROOT)): pickle_uses(p.read_text("utf-8")) for p in tracked_files() if p.suffix == ".py"}
    assert not {path: result for path, result in uses.items() if result}


@pytest.mark.parametrize(
    "source", ["import pickle", "from joblib import load", "np.load(f, allow_pickle=True)", "torch.load(f)"]
)
def test_the_pickle_rule_itself(source: str) -> None:
    assert len(pickle_uses(source)) == 1


def test_benchmarks_take_from_each_other_what_is_there() -> None:
    """They are run by hand and seldom, so nothing else would notice a name that has gone."""
    files = {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "bench").glob("*.py")}
    defined = {name: _top_level(tree) for name, tree in files.items()}
    missing, count = [], 0
    for name, tree in files.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in defined:
                count += 1
                missing += [
                    f"{name}: {a.name} of {node.module}" for a in node.names if a.name not in defined[node.module]
                ]
    assert count > 20
    assert missing == []


def _top_level(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {item.id for target in targets for item in ast.walk(target) if isinstance(item, ast.Name)}
    return names

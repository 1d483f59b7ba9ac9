"""Names and docstrings of the source: bare participles and pronouns as names, sentences too long to read once.

Both are counted over the whole package, and neither count may rise. Whoever lowers one lowers its number here too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "phrasemate"
BARE = {"asked", "begun", "done", "each", "found", "given", "gone", "held", "kept", "known", "made", "own"}
BARE |= {"said", "seen", "shown", "taken", "there", "told", "wanted"}
# With every participle in -ed, these do not name variables either.
LOOSE = {"all", "another", "any", "both", "elsewhere", "everything", "here", "it", "none", "nothing", "now", "one"}
LOOSE |= {"ones", "other", "others", "ours", "same", "some", "something", "such", "that", "theirs", "then", "these"}
LOOSE |= {"they", "this", "those", "what", "which", "who", "whose"}
IRREGULAR = {"built", "chosen", "drawn", "driven", "forgotten", "hidden", "laid", "learnt", "lost", "meant", "met"}
IRREGULAR |= {"sent", "spent", "spoken", "stood", "stuck", "thrown", "won", "written"}
NOUNS = {"bed", "embed", "feed", "need", "seed", "speed"}
WORDS = 30  # of a sentence
# Both only go down.
BARE_NAMES = 8  # keys of JSON and TOML, and a public parameter
LONG_SENTENCES = 0
BARE_NAMES_OF_BENCHMARKS = 0
BARE_NAMES_OF_TESTS = 0
LOOSE_SHARE = 0.008  # of assigned names
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def nodes_of(source: str) -> list[ast.AST]:
    """Names, parameters, functions, classes and the module of a source, which several tests look at."""
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.Name, ast.arg, *DOCUMENTED))]


def bare_names(source: str) -> list[tuple[int, str]]:
    """Line and name of every variable, parameter, function and class called by a bare participle or pronoun."""
    return [(line, name) for line, name in _names(source) if name.strip("_") in BARE]


def _names(source: str) -> Iterator[tuple[int, str]]:
    for node in nodes_of(source):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name


def long_sentences(source: str) -> list[str]:
    """Sentences of docstrings with more than WORDS words; drawings and tables do not count."""
    texts = [ast.get_docstring(node) or "" for node in nodes_of(source) if isinstance(node, DOCUMENTED)]
    paragraphs = [
        paragraph for text in texts for paragraph in text.split("\n\n") if not re.search("──|\n {2}|>>> ", paragraph)
    ]
    sentences = [sentence for paragraph in paragraphs for sentence in re.split(r"(?<=[.!?])\s", paragraph)]
    return [sentence for sentence in sentences if len(sentence.split()) > WORDS]


def sources() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield str(path.relative_to(SOURCE)), path.read_text("utf-8")


def test_names_are_nouns() -> None:
    bare = [f"{path}:{line} {name}" for path, source in sources() for line, name in bare_names(source)]
    assert len(bare) <= BARE_NAMES, "name the thing itself:\n" + "\n".join(bare)


@pytest.mark.parametrize(("folder", "most"), [("bench", BARE_NAMES_OF_BENCHMARKS), ("tests", BARE_NAMES_OF_TESTS)])
def test_names_of_benchmarks_and_tests_are_nouns(folder: str, most: int) -> None:
    bare = [
        f"{path.name}:{line} {name}"
        for path in sorted((SOURCE.parents[1] / folder).rglob("*.py"))
        for line, name in bare_names(path.read_text("utf-8"))
    ]
    assert len(bare) <= most, f"{len(bare)} names, at most {most}; name the thing itself:\n" + "\n".join(bare)


def is_loose(name: str) -> bool:
    """Whether a name is a participle of any verb, a pronoun or an adverb, alone."""
    word = name.strip("_")
    return word in BARE | LOOSE | IRREGULAR or (word.isalpha() and word.endswith("ed") and word not in NOUNS)


def assigned_names(source: str) -> list[str]:
    names = [node for node in nodes_of(source) if isinstance(node, ast.Name)]
    return [node.id for node in names if isinstance(node.ctx, ast.Store)]


def test_assigned_names_are_nouns() -> None:
    names = [name for _, source in sources() for name in assigned_names(source)]
    loose = sum(map(is_loose, names))
    assert loose <= LOOSE_SHARE * len(names), f"{loose} of {len(names)} assigned names are not nouns"


def test_the_rule_of_assigned_names_itself() -> None:
    names = assigned_names("seed = chosen = 1\nfor other in x.listed: some_rows = _packed = other")
    assert [name for name in names if is_loose(name)] == ["chosen", "other", "_packed"]


def test_sentences_are_short() -> None:
    long = [
        f"{path}: {' '.join(sentence.split())}" for path, source in sources() for sentence in long_sentences(source)
    ]
    assert len(long) <= LONG_SENTENCES, "split the sentence:\n" + "\n".join(long)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("found = 1", [(1, "found")]),
        ("def f(each): pass", [(1, "each")]),
        ("for own, name in pairs: pass", [(1, "own")]),
        ("def _kept(): pass", [(1, "_kept")]),
        ("with lock as held: pass", [(1, "held")]),
        ("hits = [found_hit for found_hit in x.found]", []),
    ],
)
def test_the_rule_of_names_itself(source: str, expected: list[tuple[int, str]]) -> None:
    assert bare_names(source) == expected


def test_the_rule_of_sentences_itself() -> None:
    short, long = " ".join(["word"] * WORDS), " ".join(["word"] * (WORDS + 1))
    assert long_sentences(f'"""{short}. {short}."""') == []
    assert long_sentences(f'def f():\n    """{short}.\n\n    {long}."""') == [f"{long}."]
    assert long_sentences(f'"""{short}\n  {short}\n{short}"""') == []  # a table or a formula
    assert long_sentences(f'"""{short}.\n\n>>> {long}"""') == []  # an example

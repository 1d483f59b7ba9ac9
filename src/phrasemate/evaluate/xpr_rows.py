"""What the evaluation of XPR compares: a TOML file of rows, each a way to make vectors of phrases.

::

    [[row]]
    table = "supervised"            # rows of a table are compared with the first of it
    name = "XPR"
    model = "models/xpr-{pair}-{seed}"   # a model folder or "bundled"; {pair} and {seed} are filled in
    pooling = "head"                # mean, ends, head, or "mean+head" (default: mean)
    examples = 32                   # sentences of a phrase at most; 0: the bare phrase
    bare = 0.5                      # weight of the bare phrase beside its examples (default: 0.0, as in the paper)
    layer = 8                       # default: the last
    csls = 2                        # neighbours of CSLS instead of the cosine (default: 0, the cosine)
    seeds = [0, 1, 2]
    pairs = ["de-en"]               # default: every pair of the data set

    [[row]]
    table = "supervised"
    name = "CLWE"
    vectors = "vectors/{lang}"      # folders of word vectors instead of a model; a phrase is the mean of its words
    mapped = true                   # an orthogonal mapping learnt on the training pairs

A list in ``examples`` or ``layer`` makes a row of each of its values.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from math import inf
from pathlib import Path
from typing import Any

from phrasemate.encode.pooling import POOLINGS
from phrasemate.errors import InputError

BUNDLED = "bundled"
LISTED = ("examples", "layer")
RESERVED = ("signature", *(f"by {what}" for what in LISTED))  # beside the tables in the results
COLUMNS = ("mean", "p")  # of a table, beside the language pairs; the one of its rows is named as the table


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table; see the module for each. ``layer`` 0 is the last. Raises InputError for what makes no sense."""

    table: str
    name: str
    model: str = ""
    vectors: str = ""
    pooling: str = "mean"
    examples: int = 32
    layer: int = 0
    bare: float = 0.0
    csls: int = 0
    mapped: bool = False
    seeds: tuple[int, ...] = (0,)
    pairs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.model) == bool(self.vectors):
            raise InputError(f"row {self.name!r}: expected either model or vectors, and one of them")
        unknown = [name for name in self.pooling.split("+") if name not in POOLINGS]
        if unknown:
            expected = f"some of {', '.join(POOLINGS)}, with + between several"
            raise InputError(f"row {self.name!r}: pooling {self.pooling!r} holds {unknown[0]!r}; expected {expected}")
        if self.table in (*RESERVED, *COLUMNS):
            raise InputError(f"row {self.name!r}: {self.table!r} is no name for a table; the results have another so")
        if min(self.examples, self.layer, self.csls) < 0 or not 0 <= self.bare < inf or not self.seeds:
            raise InputError(f"row {self.name!r}: examples, layer, bare and csls are 0 or more, seeds one or more")
        if "{seed}" not in self.model + self.vectors and len(self.seeds) > 1:
            raise InputError(f"row {self.name!r}: {len(self.seeds)} seeds, but no {{seed}} in its folder")

    def folder(self, base: Path, pair: str, seed: int, lang: str = "") -> Path | None:
        """The folder of the model, or of a language's word vectors; None for the bundled model."""
        if self.model == BUNDLED:
            return None
        text = (self.model or self.vectors).replace("{pair}", pair).replace("{seed}", str(seed))
        return base / text.replace("{lang}", lang)

    def system(self, base: Path, pair: str, seed: int) -> tuple[object, ...]:
        """What decides the row's vectors of a language pair: rows that have it in common have the same vectors."""
        made = (
            self.folder(base, pair, seed, "{lang}"),
            bool(self.model),
            self.pooling,
            self.examples,
            self.layer,
            self.bare,
        )
        return *made, self.mapped


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, in its order. Raises InputError naming what is wrong with it."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not readable as TOML ({error}); expected [[row]] tables") from error
    tables = content.get("row")
    if set(content) != {"row"} or not isinstance(tables, list) or not tables:
        raise InputError(f"{path}: holds {', '.join(content) or 'nothing'}; expected [[row]] tables and nothing else")
    rows = [row for table in tables for row in _rows(path, table)]
    names = [(row.table, row.name) for row in rows]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{path}: two rows of table {twice[0][0]!r} are named {twice[0][1]!r}; give each its own name")
    return rows


def _rows(path: Path, table: Any) -> Iterator[Row]:
    """One row, or one for each value of what is a list."""
    if not isinstance(table, Mapping):
        raise InputError(f"{path}: a row that is {table!r}; expected [[row]] tables")
    for key in LISTED:
        values = table.get(key)
        if isinstance(values, list):
            if not values:
                raise InputError(f"{path}: row {table.get('name')!r}: {key} is empty; expected a number or several")
            for value in values:
                yield from _rows(path, {**table, key: value, "name": f"{table.get('name')}, {key} {value}"})
            return
    yield _row(path, table)


def _row(path: Path, table: Mapping[str, Any]) -> Row:
    kinds = {field.name: str(field.type) for field in fields(Row)}
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    for key, value in values.items():
        if key not in kinds:
            raise InputError(
                f"{path}: row {table.get('name')!r}: {key} is unknown; expected some of {', '.join(kinds)}"
            )
        if not _fits(value, kinds[key]):
            raise InputError(f"{path}: row {table.get('name')!r}: {key} is {value!r}; expected {kinds[key]}")
    try:
        return Row(**values)
    except TypeError as error:
        raise InputError(f"{path}: row {table.get('name')!r}: {error}") from error


def _fits(value: Any, kind: str) -> bool:
    inner = {"tuple[int, ...]": int, "tuple[str, ...]": str}.get(kind)
    if inner is not None:
        return isinstance(value, tuple) and all(type(each) is inner for each in value)
    return type(value).__name__ == kind

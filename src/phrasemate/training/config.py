"""Read training configurations: TOML files to dataclasses, with an error for each unknown key or wrong type."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, fields
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from phrasemate.errors import InputError
from phrasemate.utils.storage import sha256_of

SHIPPED = Path(__file__).parents[1] / "configs"

T = TypeVar("T")


def file_of(source: Path) -> Path:
    """Return the path of a configuration: an existing file, or the shipped one of this name, with or without ``.toml``.

    Raises InputError, with the names of the shipped files, if there is neither.
    """
    shipped_files = {path.stem: path for path in sorted(SHIPPED.glob("*.toml"), key=lambda path: path.stem)}
    if source.is_file():
        return source
    if source.parent == Path() and (name := source.name.removesuffix(".toml")) in shipped_files:
        return shipped_files[name]
    raise InputError(f"{source}: no such file; phrasemate comes with {', '.join(shipped_files)}")


def read_toml(path: Path) -> dict[str, Any]:
    """Read the tables of a TOML file. Raises InputError if it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not readable as TOML ({error})") from error


def overridden(tables: Mapping[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """Return the tables with changes of the form ``table.key=value``; a value that is not valid TOML is a string.

    Raises InputError for a change of another form.

    >>> overridden({"loop": {"steps": 100}}, ["loop.steps=500"])
    {'loop': {'steps': 500}}
    """
    new_tables = {key: dict(_table(value, key)) for key, value in tables.items()}
    for change in changes:
        name, sign, text = change.partition("=")
        table, dot, key = name.strip().partition(".")
        if not (sign and dot and key):
            raise InputError(f"{change!r}: expected TABLE.KEY=VALUE, such as loop.steps=500")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except (ValueError, RecursionError):  # RecursionError: deeply nested brackets
            value = text.strip()
        new_tables.setdefault(table, {})[key] = value
    return new_tables


def expect(name: str, value: str, among: Sequence[str]) -> None:
    """Raise InputError if the value of a setting is not among the allowed ones."""
    if value not in among:
        raise InputError(f"{name}: {value!r}; expected {', '.join(among[:-1])} or {among[-1]}")


def at_least(name: str, value: float, least: float) -> None:
    """Raise InputError if the value of a setting is smaller than ``least``, or NaN."""
    if not value >= least:
        raise InputError(f"{name}: {value}; expected {least} or more")


def check_least(config: Any, **tables: Mapping[str, float]) -> None:
    """Raise InputError if a setting is below its minimum; the minima are given by table: ``data={"batch": 1}``."""
    for table, bounds in tables.items():
        for name, least in bounds.items():
            at_least(f"[{table}] {name}", getattr(getattr(config, table), name), least)


def configured(kind: type[T], tables: Mapping[str, Any]) -> T:
    """Build a dataclass that has a dataclass as the field of each table.

    Raises InputError for an unknown table, and as `built` does.
    """
    kinds = get_type_hints(kind)
    unknown = sorted(set(tables) - set(kinds))
    if unknown:
        raise InputError(f"[{unknown[0]}]: unknown; expected {', '.join(kinds)}")
    return kind(**{name: built(item, tables.get(name, {}), name) for name, item in kinds.items()})


def built(kind: type[T], table: Mapping[str, Any], name: str) -> T:
    """Build a dataclass from a table. Raises InputError for an unknown key, a missing key or a wrong type."""
    types, table = get_type_hints(kind), _table(table, name)
    unknown = sorted(set(table) - set(types))
    if unknown:
        raise InputError(f"[{name}] {unknown[0]}: unknown; expected some of {', '.join(types)}")
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name not in table and field.default is MISSING and field.default_factory is MISSING:
            raise InputError(f"[{name}] {field.name}: missing; expected a value")
    return kind(**{key: _checked(value, types[key], f"[{name}] {key}") for key, value in table.items()})


def facts_of(method: str, config: Any) -> dict[str, Any]:
    """Return the settings that identify a run as plain data: all tables but that of the loop.

    The base model is given by its name, without its folder, and by ``weights``, a hash of its files.
    """
    facts: dict[str, Any] = {"method": method, **asdict(config)}
    facts.pop("loop", None)
    base = facts["model"].get("base")
    if base is not None:
        facts["model"]["base"] = Path(base).name
        files = sorted(path for path in Path(base).glob("*") if path.suffix in (".safetensors", ".bin"))
        if files:
            sums = " ".join(sha256_of(path) for path in files)
            facts["weights"] = sha256(sums.encode()).hexdigest()[:12]
    return facts


def _table(value: Any, name: str) -> Mapping[str, Any]:
    """Return a value that is a table. Raises InputError if it is not."""
    if not isinstance(value, Mapping):
        raise InputError(f"{name}: {value!r}; expected a table [{name}]")
    return value


def _checked(value: Any, kind: Any, name: str) -> Any:
    """Return a value converted to the type of its field. Raises InputError for a value of another type."""
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        if abs(value) <= sys.float_info.max:  # neither NaN nor infinite
            return float(value)
        raise InputError(f"{name}: {value}; expected a finite number")
    if kind == tuple[str, ...] and isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    if isinstance(kind, type) and isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    requirement = "a list of strings" if kind == tuple[str, ...] else kind.__name__
    raise InputError(f"{name}: {value!r}; expected {requirement}")

"""Bricks for every part: storage that survives a crash, nearest neighbours, batching, locks, processors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from phrasemate.errors import needs_extra

__all__ = ["import_extra", "lazy_names"]


def import_extra(module: str, package: str, name: str) -> Any:
    """A module of a package that is optional. Raises MissingExtra where the package is not installed.

    Args:
        module: Name to import.
        package: The package as it is called where it is installed from.
        name: Optional dependencies that have it.
    """
    with needs_extra(name, package):
        return import_module(module)


def lazy_names(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package that imports an exported name when it is first used.

    ``names``: module within the package -> the names that it has. Most users of a package need few of its modules.
    """
    homes = {name: module for module, some in names.items() for name in some.split()}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return get

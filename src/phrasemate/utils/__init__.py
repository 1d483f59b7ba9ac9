"""Helpers for all packages: storage that survives a crash, locks, nearest neighbours, memory, threads, lazy imports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from phrasemate.errors import needs_extra

__all__ = ["import_extra", "lazy_names"]


def import_extra(module: str, package: str, name: str) -> Any:
    """Import a module of an optional package. Raises MissingExtra if the package is not installed.

    Args:
        module: Name of the module.
        package: Name of the package in the package index.
        name: Name of the extra of phrasemate that installs it.
    """
    with needs_extra(name, package):
        return import_module(module)


def lazy_names(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a package, which imports a module when one of its names is first used.

    Most users of a package need few of its modules.

    Args:
        package: Name of the package.
        names: Exported names of each module of the package, separated by spaces.
    """
    homes = {name: module for module, some in names.items() for name in some.split()}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return get

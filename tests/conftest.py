"""What holds after every test."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Generator, Iterator
from types import ModuleType

import pytest

from phrasemate.index import manifest
from phrasemate.utils.machine import load_faiss

load_faiss()  # before a test imports it plainly: its threads would spin between calls, and share cores with other tests

_CACHE = tempfile.TemporaryDirectory(prefix="phrasemate-cache-")
os.environ["XDG_CACHE_HOME"] = _CACHE.name  # also of the processes that tests start

manifest._SETTLED = 3_600_000_000_000  # no index of a test counts as an old one, however slow the test is

_HELD: list[tuple[str, ModuleType, ModuleType, str]] = []  # a module, the package that holds it, under which name


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among the half million objects that imports bring in: each search takes half a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()  # nor in the tests
        gc.set_threshold(100_000, 20, 50)  # and seldom among what these make: a tenth of their time
        gc.enable()


@pytest.fixture(autouse=True)
def one_of_each_module() -> Iterator[None]:
    """A test that imports modules again must put the old ones back, else others patch a module that nobody uses."""
    count = len(sys.modules)
    yield
    if len(sys.modules) == count and all(
        sys.modules.get(name) is module and package.__dict__.get(last, module) is module
        for name, module, package, last in _HELD
    ):
        return
    _HELD.clear()
    for name, module in list(sys.modules.items()):
        package, _, last = name.rpartition(".")
        if name.startswith("phrasemate.") and package in sys.modules:
            member = getattr(sys.modules[package], last, module)
            if isinstance(member, ModuleType):
                assert member is module, f"{package} holds another {name}"
                _HELD.append((name, module, sys.modules[package], last))

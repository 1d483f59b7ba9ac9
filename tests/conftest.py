"""What holds after every test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest


@pytest.fixture(autouse=True)
def one_of_each_module() -> Iterator[None]:
    """A test that imports modules anew must put the old ones back, else others patch a module that nobody uses."""
    yield
    ours = [(name, module) for name, module in list(sys.modules.items()) if name.startswith("phrasemate.")]
    for name, module in ours:
        package, _, last = name.rpartition(".")
        held = getattr(sys.modules.get(package), last, None)
        assert held is module or not isinstance(held, ModuleType), f"{package} holds another {name}"

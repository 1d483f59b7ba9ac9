"""The bundled model and a small English index."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bundled_once import bundled_once  # noqa: F401

from phrasemate.encode import Model, load_model
from phrasemate.index import Index
from phrasemate.types import Document

ENGLISH = (
    "The network card needs firmware.",
    "Restart the computer from the hard disk.",
    "The kernel loads the driver of the network card.",
    "The cherry trees blossom in spring.",
)


@pytest.fixture(scope="session")
def model() -> Model:
    return load_model(threads=1)


@pytest.fixture(scope="session")
def index(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with Index.create(tmp_path_factory.mktemp("terms") / "idx", model) as result:
        result.add([Document.from_texts("one.txt", ENGLISH[:2])], lang="en")
        result.add([Document.from_texts("two.txt", ENGLISH[2:])], lang="en-GB")
        yield result

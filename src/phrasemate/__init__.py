"""Find the phrases and sentences of another language that mean the same as yours in their context.

    import phrasemate as pm

    index = pm.Index.create("idx", pm.load_model())
    index.add(pm.read("corpus/"), lang="en")
    result = pm.Searcher(index).search("Er sitzt auf der [[Bank]].")

Importing the package is quick: nothing heavy is loaded before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Document": "phrasemate.types",
    "Index": "phrasemate.index",
    "Model": "phrasemate.encode",
    "Phrase": "phrasemate.types",
    "PhrasemateError": "phrasemate.errors",
    "Searcher": "phrasemate.search",
    "Sentence": "phrasemate.types",
    "Span": "phrasemate.types",
    "load_model": "phrasemate.encode",
    "read": "phrasemate.text",
}

__all__ = [
    "Document",
    "Index",
    "Model",
    "Phrase",
    "PhrasemateError",
    "Searcher",
    "Sentence",
    "Span",
    "load_model",
    "read",
]

if TYPE_CHECKING:
    from phrasemate.encode import Model, load_model
    from phrasemate.errors import PhrasemateError
    from phrasemate.index import Index
    from phrasemate.search import Searcher
    from phrasemate.text import read
    from phrasemate.types import Document, Phrase, Sentence, Span


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'phrasemate' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

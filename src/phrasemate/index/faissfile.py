"""A FAISS index to and from a file, whatever its name: FAISS by itself takes names in UTF-8 only."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def read(path: Path) -> Any:
    """Raises OSError, and RuntimeError for what is no index."""
    faiss = _library()
    if _nameable(path):
        return faiss.read_index(str(path))
    with path.open("rb") as file:
        return faiss.read_index(faiss.PyCallbackIOReader(file.read))


def write(index: Any, path: Path) -> None:
    """Raises OSError or RuntimeError if there is no space."""
    faiss = _library()
    if _nameable(path):
        faiss.write_index(index, str(path))
        return
    with path.open("wb") as file:
        faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))


def _library() -> Any:  # its stubs lack readers and writers by callback
    import faiss

    return faiss


def _nameable(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:  # bytes that are no UTF-8 are halves of surrogate pairs in a str
        return False
    return True

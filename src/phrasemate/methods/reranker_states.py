"""Token states of sentences, computed once and kept in files: the encoder stays as it is while a re-ranker learns.

A set of sentences has three files, named by a hash of the sentences and the encoder, so that many runs share them:
KEY.values.npy (tokens, width) float16 without the special tokens, KEY.bounds.npy, KEY.vectors.npy. They are
written under other names first; the values come last, and where they are, all is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from phrasemate.encode import Model
from phrasemate.encode.pool import pool_mean, unit
from phrasemate.errors import InputError

__all__ = ["Kept", "Progress", "kept_states"]

FORMAT = "1"
Progress = Callable[[int, int], None]  # sentences done, of how many


class Kept(NamedTuple):
    """Sentence i has the rows ``bounds[i]:bounds[i + 1]`` of ``values`` (tokens, width) float16; ``vectors``
    (sentences, width) float32 are the encoder's sentence vectors, of unit length.
    """

    values: NDArray[np.float16]
    bounds: NDArray[np.int64]
    vectors: NDArray[np.float32]

    def tokens(self, sentence: int) -> NDArray[np.float16]:
        """(T, width) states of a sentence."""
        return self.values[self.bounds[sentence] : self.bounds[sentence + 1]]


def kept_states(
    model: Model, texts: Sequence[str], folder: Path, progress: Progress = lambda done, total: None
) -> Kept:
    """The states of the sentences, read from the folder or computed and written there.

    Raises InputError where files are not as they were written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    key = sha256("\n".join([FORMAT, model.hash, *texts]).encode("utf-8", "replace")).hexdigest()[:24]
    paths = {name: folder / f"{key}.{name}.npy" for name in ("vectors", "bounds", "values")}
    if not paths["values"].exists():
        with FileLock(folder / f"{key}.lock"):  # another run may be at it
            if not paths["values"].exists():
                _write(paths, _computed(model, texts, progress))
    return _read(paths, len(texts), model.width)


def _write(paths: dict[str, Path], made: Kept) -> None:
    for name, path in paths.items():
        part = path.with_name(f"{path.name}.part")
        with part.open("wb") as file:
            np.save(file, getattr(made, name))
        part.replace(path)


def _computed(model: Model, texts: Sequence[str], progress: Progress) -> Kept:
    values, counts, vectors, done = [], [], [], 0
    prefix = str(model.config.get("sentence_prefix", ""))
    progress(0, len(texts))
    for states in model.token_states([prefix + text for text in texts]):
        vectors.append(unit(pool_mean(states.values, states.bounds[:-1], states.bounds[1:] - 1)))
        inside = np.ones(len(states.values), np.bool_)
        inside[states.bounds[:-1]] = inside[states.bounds[1:] - 1] = False
        values.append(states.values[inside].astype(np.float16))
        counts += (np.diff(states.bounds) - 2).tolist()
        done += len(states.bounds) - 1
        progress(done, len(texts))
    bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Kept(np.concatenate(values), bounds, np.concatenate(vectors))


def _read(paths: dict[str, Path], sentences: int, width: int) -> Kept:
    arrays: dict[str, Any] = {}
    for name, path in paths.items():
        try:
            arrays[name] = np.load(path, mmap_mode="r" if name == "values" else None)
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: not readable ({error}); remove it, and it is made again") from error
    found = Kept(**arrays)
    shapes = {"vectors": (sentences, width), "bounds": (sentences + 1,), "values": (int(found.bounds[-1]), width)}
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise InputError(
                f"{paths[name]}: of shape {arrays[name].shape}, expected {shape}; remove it, and it is made again"
            )
    return found

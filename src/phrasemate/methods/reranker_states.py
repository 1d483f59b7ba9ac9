"""Token states of sentences, computed once and kept in files: the encoder stays as it is while a re-ranker learns.

A set of sentences has three files, named by a hash of the sentences and the encoder, so that many runs share them:
KEY.values.npy (tokens, width) float16 without the special tokens, KEY.bounds.npy, KEY.vectors.npy. They are
written under other names first, each with a checksum at its end; those that are not whole are made again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from phrasemate.encode import Model
from phrasemate.encode.pool import pool_mean, unit
from phrasemate.methods.kept import checked_file, checksum_holds

FORMAT = "2"
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
    """The states of the sentences, read from the folder; made and written there where they are not, or not whole.

    Raises InputError where a file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    key = sha256("\n".join([FORMAT, model.hash, *texts]).encode("utf-8", "replace")).hexdigest()[:24]
    paths = {name: folder / f"{key}.{name}.npy" for name in ("vectors", "bounds", "values")}
    found = _read(paths)
    if found is None:
        with FileLock(folder / f"{key}.lock"):  # another run may be at it
            found = _read(paths)
            if found is None:
                made = _computed(model, texts, progress)
                _write(paths, made)
                found = _read(paths) or made  # mapped, not in memory
    return found


def _write(paths: dict[str, Path], made: Kept) -> None:
    for name, path in paths.items():
        with checked_file(path) as file:
            np.save(file, getattr(made, name))


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


def _read(paths: dict[str, Path]) -> Kept | None:
    """Nothing where one is not there, or is not as it was written."""
    try:
        if not all(checksum_holds(path) for path in paths.values()):
            return None
        return Kept(
            **{name: np.load(path, mmap_mode="r" if name == "values" else None) for name, path in paths.items()}
        )
    except (OSError, ValueError):
        return None

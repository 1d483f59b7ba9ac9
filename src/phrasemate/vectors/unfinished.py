"""What is done of a long sum over sentences, kept in a file now and then, so that a stopped run goes on there."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.utils.storage import save_arrays

SECONDS = 30.0  # between two saves
_MOST = 1 << 53  # sentences are fewer


class Unfinished:
    """A context manager around the sum: ``sums`` gets what is in the file, ``done`` says how far that is.

    ``path`` None keeps nothing. ``facts`` tell what is being summed: raises InputError if the file was begun with
    others. The state is saved when it is left, in peace or with an exception (Ctrl-C, too): the file goes when what is
    made of the sums is kept, which is the caller's part.
    """

    def __init__(self, path: Path | None, facts: Mapping[str, Any], sums: NDArray[np.float32]) -> None:
        self._path, self._sums = path, sums
        self._facts = json.dumps(dict(facts), sort_keys=True)
        self._saved, self._whole = time.monotonic(), True
        self._kept = self.done = self._load() if path is not None and path.exists() else 0

    def add(self, done: int, rows: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """Add vectors to their rows, after which the sums are of the first ``done`` sentences; now and then saved."""
        self._whole = False  # Ctrl-C may come between the two
        np.add.at(self._sums, rows, vectors)
        self.done = done
        self._whole = True
        if time.monotonic() - self._saved >= SECONDS:
            self._save()

    def _save(self) -> None:
        self._saved = time.monotonic()
        if self._path is None or self.done == self._kept:
            return
        temporary = self._path.with_name(self._path.name + ".new")
        about = {
            "facts": self._facts,
            "done": str(self.done),
            "crc": self._checksum(self.done, self._sums, self._facts),
        }
        save_arrays(temporary, {"sums": self._sums}, about)
        temporary.replace(self._path)
        self._kept = self.done

    def _load(self) -> int:
        from safetensors import SafetensorError, safe_open

        assert self._path is not None
        try:
            with safe_open(self._path, "numpy") as file:
                about, sums = file.metadata() or {}, file.get_tensor("sums")
            done = int(about["done"])
            intact = about["crc"] == self._checksum(done, sums, about["facts"])
        except (OSError, SafetensorError, KeyError, ValueError, TypeError, AttributeError) as error:  # of other floats
            raise InputError(f"{self._path}: not a readable state ({error}); delete it to start anew") from error
        if not intact:
            raise InputError(f"{self._path}: altered, its checksum does not hold; delete it to start anew")
        if not 0 <= done < _MOST or sums.dtype != self._sums.dtype or not np.isfinite(sums).all():
            raise InputError(f"{self._path}: makes no sense; delete it to start anew")
        if about.get("facts") != self._facts or sums.shape != self._sums.shape:
            raise InputError(f"{self._path}: was begun with other texts or settings; delete it to start anew")
        self._sums[:] = sums
        return done

    @staticmethod
    def _checksum(done: int, sums: NDArray[np.float32], facts: str) -> str:
        return f"{crc32(sums.tobytes(), crc32(f'{done} {facts}'.encode())):08x}"

    def __enter__(self) -> Unfinished:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._whole:
            self._save()

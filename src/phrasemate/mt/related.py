"""The sentence of an index that is nearest to a source sentence (CCPR, table 6: what phrases are compared with)."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from hashlib import blake2b, sha256
from itertools import compress, islice
from pathlib import Path
from typing import IO, Any, cast
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.index import Index
from phrasemate.search import is_of
from phrasemate.utils.storage import NewFile

BLOCK = 4_096  # sentences that are encoded together
SAVED = 65_536  # sentences after which what is made is kept
ROWS = 65_536  # vectors that are compared at once: 100 MB as 32-bit numbers

TRIES = 16  # nearest sentences that are looked at, where some may not be found

Progress = Callable[[str, int, int], None]


class RelatedSentences:
    """Vectors of all sentences of an index, kept in a file of ``folder``.

    Each is kept with a digest of its sentence's text. So an index that has grown or changed, or another one that was
    made at its place, has vectors made for what is new alone; a run that was stopped goes on.

    Raises InputError if the file cannot be written.
    """

    def __init__(self, index: Index, folder: Path, progress: Progress = lambda what, done, total: None) -> None:
        self.index = index
        self.model: Any = index.model
        place = str(index.path) if "://" in str(index.path) else str(Path(index.path).resolve())
        place = sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:12]
        self._path = folder / f"sentences-{index.manifest.model_hash[:12]}-{place}.npz"
        self._progress = progress
        self._load()

    def _load(self) -> None:
        with self.index.snapshot():
            self._generation = self.index.store.state().generation
            self._ids, self._vectors = self._all(self._progress)

    def __call__(self, sentences: Sequence[str], without: Sequence[str] | None = None) -> list[tuple[str, float]]:
        """The nearest sentence of each, with its cosine; ("", 0) where there is none.

        ``without``: for each a text, such as its own translation, of which none may be found (`is_of`).
        """
        with self.index.snapshot():
            if self.index.store.state().generation != self._generation:
                self._load()  # another process has changed it
            return self._nearest(sentences, without)

    def _nearest(self, sentences: Sequence[str], without: Sequence[str] | None) -> list[tuple[str, float]]:
        answers = [("", 0.0)] * len(sentences)
        if not len(self._ids) or not sentences:
            return answers
        queries = self.model.encode_sentences(list(sentences))  # (sentences, width)
        left_out: list[list[int]] = [[] for _ in sentences]
        pending = list(range(len(sentences)))
        for _ in range(min(TRIES, len(self._ids))):
            rows, scores = self._best(queries[pending], [left_out[number] for number in pending])
            again = []
            for number, row, score in zip(pending, rows.tolist(), scores.tolist(), strict=True):
                (held,) = self.index.store.sentences([int(self._ids[row])])
                if without is not None and is_of(without[number])(held.text):
                    left_out[number].append(row)
                    again.append(number)
                else:
                    answers[number] = held.text, score
            if not (pending := again):
                break
        return answers

    def _best(self, queries: NDArray[np.float32], left_out: Sequence[Sequence[int]]) -> tuple[Any, Any]:
        """(queries,) the row of each one's nearest sentence that is not left out, and its cosine."""
        best = np.full(len(queries), -np.inf, np.float32)
        row = np.zeros(len(queries), np.int64)
        for low in range(0, len(self._ids), ROWS):
            scores = queries @ self._vectors[low : low + ROWS].astype(np.float32).T  # (queries, rows)
            for number, out in enumerate(left_out):
                scores[number, [at - low for at in out if low <= at < low + ROWS]] = -np.inf
            found = scores.argmax(1)
            score = scores[np.arange(len(queries)), found]
            row, best = np.where(score > best, found + low, row), np.maximum(score, best)
        return row, best

    def _all(self, progress: Progress) -> tuple[NDArray[np.int64], NDArray[np.float16]]:
        """Ids (sentences,) and vectors (sentences, width)."""
        every = [(row.id, _digest(row.text)) for row in self.index.store.all_sentences()]
        ids = np.fromiter((identity for identity, _ in every), np.int64, len(every))
        digests = np.fromiter((digest for _, digest in every), np.uint64, len(every))
        known, kept = self._kept()
        order = np.argsort(known)
        at = np.searchsorted(known, digests, sorter=order)
        at = order[np.minimum(at, len(known) - 1)] if len(known) else np.zeros(len(every), np.int64)
        there = known[at] == digests if len(known) else np.zeros(len(every), bool)
        vectors = np.zeros((len(every), self.model.width), np.float16)
        vectors[there] = kept[at[there]]
        if not there.all():
            self._make(digests, vectors, there, progress)
        elif len(known) > len(every):  # what is gone is not kept for ever
            self._write(digests, vectors)
        return ids, vectors

    def _make(
        self, digests: NDArray[np.uint64], vectors: NDArray[np.float16], there: NDArray[np.bool_], progress: Progress
    ) -> None:
        missing = np.flatnonzero(~there)
        done = saved = 0
        sentences = compress(self.index.store.all_sentences(), (~there).tolist())
        while some := list(islice(sentences, BLOCK)):
            places = missing[done : done + len(some)]
            vectors[places] = self.model.encode_sentences([row.text for row in some]).astype(np.float16)
            there[places] = True
            done += len(some)
            progress("sentence vectors", done, len(missing))
            if done - saved >= SAVED or done == len(missing):
                self._write(digests[there], vectors[there])
                saved = done

    def _kept(self) -> tuple[NDArray[np.uint64], NDArray[np.float16]]:
        """Digests and vectors of the file; none if there is none that can be read."""
        try:
            with np.load(self._path) as stored:
                digests, vectors = stored["digests"], stored["vectors"]
        except (OSError, ValueError, KeyError, EOFError, RuntimeError, BadZipFile, zlib.error):  # damaged anywhere
            digests, vectors = np.zeros(0), np.zeros(0)
        kinds = (digests.dtype, vectors.dtype) == (np.uint64, np.float16)
        if kinds and digests.ndim == 1 and vectors.shape == (len(digests), self.model.width):
            return digests, vectors
        return np.zeros(0, np.uint64), np.zeros((0, self.model.width), np.float16)

    def _write(self, digests: NDArray[np.uint64], vectors: NDArray[np.float16]) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self._path.parent}: cannot be made ({error.strerror}); check permissions") from None
        with NewFile(self._path, binary=True) as file:
            np.savez(cast("IO[bytes]", file.stream), digests=digests, vectors=vectors)


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")

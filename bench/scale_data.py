"""The text of bench/scale.py and its phrases, encoded once and kept, so that growing and tuning need no encoder.

Unique sentences of all languages of the parallel corpora, shuffled, in chunks of 1,024 (what an index gives its model
at once); every span of up to six words is a phrase. A chunk is a file that holds spans, vectors in 8 bits as an index
keeps them, and the seconds that it took. `Replay` stands in for the model: an index that is filled through it holds the
same bytes as one that the model filled.
"""

from __future__ import annotations

import gzip
import io
import random
import time
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode import Extracted, Model
from phrasemate.index import row_codec

CHUNK = 1_024  # sentences
SENTENCES = 320_000  # kept of all: more than 10 million phrases need
HELD_OUT = 4_000  # from the end of these: nothing of them is ever indexed
LEAST, MOST = 12, 600  # characters of a sentence
WORDS = 6  # of a phrase
QUERIES = 1_000


class Chunk(NamedTuple):
    """Chunk ``number``: phrases of text i are ``bounds[i]:bounds[i + 1]``; seconds of the clock and of processors."""

    number: int
    texts: list[str]
    bounds: NDArray[np.int64]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    scores: NDArray[np.float16]
    codes: NDArray[np.int8]  # (phrases, dim)
    seconds: float
    processor: float


def put(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: half of one would be taken for it when a stopped run goes on."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_bytes(content)
    partial.replace(path)


def put_array(path: Path, array: Any) -> None:
    """`put` as NumPy has it."""
    file = io.BytesIO()
    np.save(file, array)
    put(path, file.getvalue())


def sentences(data: Path, work: Path, seed: int) -> list[str]:
    """All sentences in their order; the file is made at the first call."""
    path = work / "sentences.txt"
    if not path.exists():
        found = set()
        files = sorted((data / "parallel").glob("en-*.tsv.gz"))
        if not files:
            raise SystemExit(f"{data / 'parallel'}: no en-*.tsv.gz; name the folder of the corpora with --data")
        for file in files:
            with gzip.open(file, "rt", encoding="utf-8", newline="\n") as lines:
                for line in lines:
                    found.update(" ".join(text.split()) for text in line.split("\t")[:2])
        texts = sorted(text for text in found if LEAST <= len(text) <= MOST)
        random.Random(seed).shuffle(texts)
        work.mkdir(parents=True, exist_ok=True)
        put(path, "".join(f"{text}\n" for text in texts[:SENTENCES]).encode())
    return path.read_text("utf-8").split("\n")[:-1]


def encode(model: Model, texts: Sequence[str], work: Path, phrases: int, seconds: float) -> int:
    """Encode chunk after chunk until there are so many phrases or the time is up; returns how many there are."""
    folder = work / "encoded"
    folder.mkdir(exist_ok=True)
    deadline, total = time.monotonic() + seconds, 0
    for number in range((len(texts) - HELD_OUT) // CHUNK):
        path = folder / f"{number:05}.npz"
        if not path.exists():
            if total >= phrases or time.monotonic() > deadline:
                break
            _encode_chunk(model, texts[number * CHUNK : (number + 1) * CHUNK], path)
        with np.load(path) as held:
            total += int(held["bounds"][-1])
    return total


def _encode_chunk(model: Model, texts: Sequence[str], path: Path) -> None:
    begun, used = time.perf_counter(), time.process_time()
    found = model.extract(texts, threshold=0.0, max_words=WORDS)
    taken = [time.perf_counter() - begun, time.process_time() - used]
    partial = path.with_suffix(".partial.npz")
    np.savez(
        partial,
        bounds=np.cumsum([0, *(len(each.starts) for each in found)]),
        starts=np.concatenate([each.starts for each in found]),
        ends=np.concatenate([each.ends for each in found]),
        scores=np.concatenate([each.scores for each in found]).astype(np.float16),
        codes=row_codec.quantise(np.concatenate([each.vectors for each in found])),
        taken=taken,
    )
    partial.replace(path)


def chunks(texts: Sequence[str], work: Path, first: int = 0) -> Iterator[Chunk]:
    """The chunks that have been encoded, from number ``first`` on."""
    number = first
    while (path := work / "encoded" / f"{number:05}.npz").exists():
        own = list(texts[number * CHUNK : (number + 1) * CHUNK])
        with np.load(path) as held:
            arrays = [held[name] for name in ("bounds", "starts", "ends", "scores", "codes")]
            yield Chunk(number, own, *arrays, *held["taken"].tolist())
        number += 1


def counts(work: Path) -> NDArray[np.int64]:
    """(sentences,) how many phrases each of the encoded sentences has."""
    found = []
    while (path := work / "encoded" / f"{len(found):05}.npz").exists():
        with np.load(path) as held:
            found.append(np.diff(held["bounds"]))
    return np.concatenate(found)


class Replay:
    """A model that has read the sentences before, from number ``first`` on.

    ``seconds`` and ``processor`` say what encoding those took that were asked for; ``loading`` and
    ``loading_processor`` what it takes here, which is no part of building an index.
    """

    def __init__(self, model: Model, texts: Sequence[str], work: Path, first: int) -> None:
        self.name, self.hash, self.path, self.dim = model.name, model.hash, model.path, model.dim
        self.seconds = self.processor = self.loading = self.loading_processor = 0.0
        self._stream = chunks(texts, work, first // CHUNK)
        self._held: Chunk | None = None
        self._at = first % CHUNK

    def extract(self, texts: Sequence[str], frequent: Collection[str] = (), **options: Any) -> list[Extracted]:
        """The phrases of the next sentences, which must be these texts."""
        begun, used = time.perf_counter(), time.process_time()
        found = [self._next(text) for text in texts]
        self.loading += time.perf_counter() - begun
        self.loading_processor += time.process_time() - used
        return found

    def _next(self, text: str) -> Extracted:
        if self._held is None or self._at == len(self._held.texts):
            self._at = self._at if self._held is None else 0
            self._held = next(self._stream)
            self._vectors = row_codec.dequantise(self._held.codes)
        held, at = self._held, self._at
        if held.texts[at] != text:
            raise SystemExit(f"chunk {held.number} was encoded from other texts; delete the work folder")
        self._at += 1
        part = slice(*held.bounds[at : at + 2])
        share = float((part.stop - part.start) / held.bounds[-1])
        self.seconds, self.processor = self.seconds + share * held.seconds, self.processor + share * held.processor
        return Extracted(held.starts[part], held.ends[part], held.scores[part].astype(np.float32), self._vectors[part])


def queries(model: Model, texts: Sequence[str], work: Path, seed: int) -> NDArray[np.float32]:
    """(1000, dim) vectors: of one phrase, that the model proposes, of each of so many held-out sentences."""
    path = work / "queries.npy"
    if not path.exists():
        draw = random.Random(seed)
        found = (each for each in model.extract(texts[-HELD_OUT:]) if len(each.starts))
        drawn = [each.vectors[draw.randrange(len(each.starts))] for each in islice(found, QUERIES)]
        put_array(path, np.stack(drawn))
    made: NDArray[np.float32] = np.load(path)
    return made

"""The writer and the readers of bench/concurrency.py, and what they share: documents, and a log of committed states.

All text is drawn before: so many documents, each in several versions, with the phrases that the model finds in them.
The writer commits, then writes what the index holds now, and its generation, to the log. A reader takes the generation
of its snapshot, waits until the log tells of it, and compares its whole answer with what that state, no other, holds.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import anonymous
from numpy.typing import NDArray

from phrasemate import Document, Index
from phrasemate.encode import Extracted
from phrasemate.index import Settings, row_codec

# Small chunks make many commits, and FAISS begins early: all of an index's machinery is at work on little text.
SETTINGS = Settings(chunk=16, learn=0, exact_below=1_500, forced_rebuild=4_000, train=2_000, block=1_000)
DEPTH = 10
PATIENCE = 30.0  # seconds until a commit must be in the log
REOPEN = 100  # answers


class State(NamedTuple):
    """A committed state: document -> (version, how many sentences of it)."""

    generation: int
    documents: dict[str, tuple[int, int]]

    def phrases(self, pool: Pool) -> int:
        return sum(len(pool.vectors(name, *held)) for name, held in self.documents.items())


@dataclass(frozen=True)
class Pool:
    """``texts[document][version]`` are sentences; ``found`` has the phrases of each."""

    facts: dict[str, Any]  # of the model and how the texts were drawn
    texts: list[list[list[str]]]
    found: dict[str, Extracted]

    @classmethod
    def make(cls, model: Any, texts: list[list[list[str]]], drawn: dict[str, Any] | None = None) -> Pool:
        """``drawn``: facts of the texts."""
        every = sorted({text for document in texts for version in document for text in version})
        found = (Extracted(x.starts, x.ends, x.scores, x.vectors) for x in model.extract(every))
        return cls(cls.facts_of(model) | (drawn or {}), texts, dict(zip(every, found, strict=True)))

    @staticmethod
    def facts_of(model: Any) -> dict[str, Any]:
        return {"name": model.name, "hash": model.hash, "dim": model.dim}

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pool.json").unlink(missing_ok=True)  # comes last: where it is, all is
        columns = [np.concatenate(each) for each in zip(*self.found.values(), strict=True)]
        counts = [len(each.starts) for each in self.found.values()]
        np.savez(folder / "pool.npz", counts, *columns)
        text = json.dumps([self.facts, self.texts, list(self.found)])
        (folder / "pool.json").write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Pool:
        facts, texts, every = json.loads((folder / "pool.json").read_text("utf-8"))
        with np.load(folder / "pool.npz") as held:
            counts, *columns = (held[name] for name in held.files)
        parts = [np.split(each, np.cumsum(counts)[:-1]) for each in columns]
        return cls(facts, texts, dict(zip(every, map(Extracted, *parts), strict=True)))

    def document(self, number: int, version: int) -> Document:
        texts = self.texts[number][version]
        return Document.from_texts(f"doc{number}", texts)

    def lines(self, name: str, version: int, count: int) -> list[str]:
        return self.texts[int(name.removeprefix("doc"))][version][:count]

    @cached_property
    def _documents(self) -> dict[tuple[str, int], tuple[NDArray[np.float32], NDArray[np.int64]]]:
        """(document, version) -> its vectors, and how many its first sentences have: made once, so memory is flat."""
        made = {}
        for number, versions in enumerate(self.texts):
            for version, lines in enumerate(versions):
                found = [self.found[text].vectors for text in lines]
                vectors = row_codec.dequantise(row_codec.quantise(np.concatenate(found)))
                made[f"doc{number}", version] = vectors, np.cumsum([0, *map(len, found)])
        return made

    def vectors(self, name: str, version: int, count: int) -> NDArray[np.float32]:
        """(phrases, dim) of the first ``count`` sentences, as an index keeps them."""
        vectors, ends = self._documents[name, version]
        return vectors[: ends[count]]

    def __hash__(self) -> int:
        return id(self)


class Recorded:
    """A model that has read all of the pool."""

    path = None

    def __init__(self, pool: Pool) -> None:
        self.name, self.hash, self.dim = (pool.facts[key] for key in ("name", "hash", "dim"))
        self._found = pool.found

    def extract(self, texts: Sequence[str], frequent: Collection[str] = (), **options: Any) -> list[Extracted]:
        return [self._found[text] for text in texts]


class Log:
    """The committed states, read from a file that grows."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / "log.jsonl").open("rb")
        self._rest = b""
        self.states: list[State] = []

    def read(self) -> list[State]:
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for generation, documents in map(json.loads, lines):
            self.states.append(State(generation, {name: (a, b) for name, (a, b) in documents.items()}))
        return self.states

    def at(self, generation: int) -> State:
        """Waits for a state that has just been committed."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for state in reversed(self.read()):
                if state.generation == generation:
                    return state
                if state.generation < generation:
                    break
            time.sleep(0.01)
        raise AssertionError(f"generation {generation} was seen, but no such state was committed")


def opened(folder: Path, pool: Pool, readonly: bool = False) -> Index:
    return Index.open(folder / "index", Recorded(pool), readonly, threads=1, settings=SETTINGS)


# -- the writer


def write(folder: Path, seconds: float, pause: float, seed: int) -> None:
    """Adds, replaces, deletes and optimises at random; logs every commit; leaves writer.json.

    Memory is taken after each change: tuning an index takes more for its while, and gives it back.
    """
    pool, draw = Pool.load(folder), random.Random(seed)
    done: dict[str, int] = {"add": 0, "replace": 0, "delete": 0, "optimize": 0, "commits": 0}
    wanted: dict[str, int] = {}  # document -> version
    problems, memory = [], []
    with opened(folder, pool) as index, (folder / "log.jsonl").open("a", encoding="utf-8") as log:

        def tell(_: Any = None) -> None:
            with index.snapshot():
                generation = index.store.state().generation
                held = {d.name: (_version(pool, d.name, d.digest), d.sentences) for d in index.documents()}
            log.write(json.dumps([generation, held]) + "\n")
            log.flush()
            done["commits"] += 1

        tell()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            kind = draw.choices(["add", "replace", "delete", "optimize"], [4, 4, 3, 1])[0]
            _change(kind, index, pool, draw, wanted, tell)
            done[kind] += 1
            held = {d.name: _version(pool, d.name, d.digest) for d in index.documents()}
            if held != wanted or not all(d.complete for d in index.documents()):
                problems.append(f"after {kind}: holds {held}, expected {wanted}")
                wanted = held
            memory.append(anonymous())
            time.sleep(pause)
        whole = index.verify()
    problems += whole.problems
    told = {"done": done, "memory": memory, "problems": problems}
    (folder / "writer.json").write_text(json.dumps(told), encoding="utf-8")


def _change(kind: str, index: Index, pool: Pool, draw: random.Random, wanted: dict[str, int], tell: Any) -> None:
    count = len(pool.texts)
    if kind == "optimize":
        index.optimize(target_recall=draw.choice([None, 0.95]))
    elif kind == "delete":
        if wanted:
            name = draw.choice(sorted(wanted))
            index.delete(name)
            del wanted[name]
            tell()
    else:
        there = [n for n in range(count) if (f"doc{n}" in wanted) == (kind == "replace")]
        numbers = draw.sample(there, min(len(there), draw.choice([1, 1, 3])))
        versions = {n: draw.randrange(len(pool.texts[n])) for n in numbers}
        index.add([pool.document(*each) for each in versions.items()], lang="en", progress=tell)
        wanted |= {f"doc{n}": version for n, version in versions.items()}


def _version(pool: Pool, name: str, digest: str) -> int:
    return _digests(pool)[name, digest]


@lru_cache(maxsize=1)
def _digests(pool: Pool) -> dict[tuple[str, str], int]:
    documents = [(n, v) for n, versions in enumerate(pool.texts) for v in range(len(versions))]
    return {(f"doc{n}", pool.document(n, v).digest): v for n, v in documents}


# -- the readers


def read(folder: Path, seconds: float, pause: float, seed: int) -> None:
    """Searches and compares each answer with the state that it is of; leaves reader-SEED.json."""
    pool, draw, log = Pool.load(folder), random.Random(seed), Log(folder)
    queries = row_codec.dequantise(row_codec.quantise(np.concatenate([each.vectors for each in pool.found.values()])))
    answers, best, generations, problems = 0, 0, set(), []
    deadline = time.monotonic() + seconds
    index = opened(folder, pool, readonly=bool(seed % 2))
    while time.monotonic() < deadline:
        if answers % REOPEN == REOPEN - 1:
            index.close()
            index = opened(folder, pool, readonly=bool(seed % 2))
        query = queries[draw.randrange(len(queries))]
        text = draw.choice(list(pool.found)) if draw.random() < 0.2 else None
        try:
            generation, found, right = _answer(index, pool, log, query, text)
            generations.add(generation)
            best += right
            problems += found
        except Exception as error:
            problems.append(f"{type(error).__name__}: {error}")
        answers += 1
        time.sleep(pause)
    index.close()
    facts = {"answers": answers, "best": best, "states": len(generations), "problems": problems}
    (folder / f"reader-{seed}.json").write_text(json.dumps(facts), encoding="utf-8")


def _answer(index: Index, pool: Pool, log: Log, query: Any, text: str | None) -> tuple[int, list[str], bool]:
    """The generation of one answer, what is wrong with it, and whether the very best was found."""
    with index.snapshot():
        generation = index.store.state().generation
        run = index.search(query[None], DEPTH)
        hits = index.hits(run.ids[0], run.scores[0])
        held = {d.name: (_version(pool, d.name, d.digest), d.sentences) for d in index.documents()}
        holding = None if text is None else len(index.containing(text, 10_000))
    state = log.at(generation)
    problems = [] if held == state.documents else [f"generation {generation}: {held}, expected {state.documents}"]
    ids = run.ids[0][run.ids[0] >= 0]
    if len(hits) != len(ids):
        problems.append(f"generation {generation}: a phrase was found that is not there")
    if len(set(ids.tolist())) != len(ids):
        problems.append(f"generation {generation}: a phrase was found twice")
    problems += [f"generation {generation}: {hit}" for hit in hits if not _is_of(hit, pool, state, query)]
    if text is not None:
        lines = [x for name, (version, n) in state.documents.items() for x in pool.lines(name, version, n)]
        expected = sum(text.lower() in line.lower() for line in lines)
        problems += [] if holding == expected else [f"generation {generation}: {holding} sentences, not {expected}"]
    parts = [pool.vectors(name, version, count) for name, (version, count) in state.documents.items() if count]
    scores = np.sort(np.concatenate(parts) @ query)[::-1][:DEPTH] if parts else np.zeros(0, np.float32)
    if len(hits) > len(scores) or any(hit.score > best + 1e-4 for hit, best in zip(hits, scores, strict=False)):
        problems.append(f"generation {generation}: better than that state can be")
    if len(scores) and not hits:
        problems.append(f"generation {generation}: nothing was found")
    return generation, problems, not len(scores) or bool(hits and abs(hits[0].score - scores[0]) < 1e-4)


def _is_of(hit: Any, pool: Pool, state: State, query: Any) -> bool:
    """Whether a hit is a phrase of this state, in its place, with its score."""
    if not fits(state, pool, hit.document, hit.line, hit.context):
        return False
    phrases = pool.found[hit.context]
    at = np.flatnonzero((phrases.starts == hit.start) & (phrases.ends == hit.end))
    vector = row_codec.dequantise(row_codec.quantise(phrases.vectors[at]))
    return len(at) == 1 and abs(float((vector @ query)[0]) - hit.score) < 1e-4


def fits(state: State, pool: Pool, document: str, line: int, context: str) -> bool:
    """Whether a state has this sentence at this line of a document."""
    if document not in state.documents:
        return False
    lines = pool.lines(document, *state.documents[document])
    return 0 < line <= len(lines) and lines[line - 1] == context

"""Test one writer, many readers and the server on one index for minutes: every answer must be of one committed state.

A writer adds, replaces and deletes documents, several in each commit, and optimises, sometimes with a target recall.
The readers, half of them with write permission, compare each answer with the log of committed states. They compare
documents, hits with their places and scores, and sentences that contain a text. `phrasemate serve` is asked for its
page and over REST. All hits of an answer must be of a state that was current during the request. The anonymous memory
(MB) of every process is sampled, the writer's after each change. It is flat if the median of the last quarter is at
most a twentieth and 8 MB above that of the second. The peak covers the whole time.

All text is drawn in advance: documents in several versions, with the phrases that the model finds in them. The writer
commits, then writes the content of the index and its generation to the log. A reader takes the generation of its
snapshot, waits until the log has it, and compares its whole answer with that state. All processes make pauses, so that
the run needs about one core.

    python bench/concurrency.py --minutes 10
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote
from urllib.request import Request, urlopen

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}

import numpy as np
from common import anonymous, parser, report
from numpy.typing import NDArray
from scale import sentences
from serve import server, with_marks

from phrasemate import Document, Index, load_model
from phrasemate.encode import TextPhrases
from phrasemate.evaluate.report import signature
from phrasemate.index import IndexSettings, row_codec
from phrasemate.text import words

# Small chunks make many commits, and FAISS is used early, so that little text exercises all parts of an index.
SETTINGS = IndexSettings(chunk=16, learn=0, exact_below=1_500, forced_rebuild=4_000, train=2_000, block=1_000)
DOCUMENTS, VERSIONS, LINES = 40, 4, 40
DEPTH = 10
PATIENCE = 30.0  # seconds until a commit must be in the log
REOPEN = 100  # answers after which a reader opens the index again
MARGIN, MARGIN_MB = 1.05, 8.0  # largest growth of flat memory, as a factor and in MB
HEADER = ["process", "answers", "states seen", "best found", "MB in each quarter", "flat", "peak MB", "problems"]


class State(NamedTuple):
    """Committed state: document -> (version, number of its sentences)."""

    generation: int
    documents: dict[str, tuple[int, int]]

    def phrases(self, pool: Pool) -> int:
        """Return the number of phrases of the state."""
        return sum(len(pool.vectors(name, *version)) for name, version in self.documents.items())


@dataclass(frozen=True)
class Pool:
    """Texts that the writer draws from, and their phrases.

    ``texts[document][version]`` are sentences; ``phrases_of`` has the phrases of each sentence.
    """

    name: str
    hash: str
    dim: int
    texts: list[list[list[str]]]
    phrases_of: dict[str, TextPhrases]

    @classmethod
    def make(cls, model: Any, texts: list[list[list[str]]]) -> Pool:
        """Return a pool with the phrases that the model finds in the texts."""
        every = sorted({text for document in texts for version in document for text in version})
        phrases = (TextPhrases(x.starts, x.ends, x.scores, x.vectors) for x in model.extract(every))
        return cls(model.name, model.hash, model.dim, texts, dict(zip(every, phrases, strict=True)))

    def document(self, number: int, version: int) -> Document:
        texts = self.texts[number][version]
        return Document.from_texts(f"doc{number}", texts)

    def lines(self, name: str, version: int, count: int) -> list[str]:
        return self.texts[int(name.removeprefix("doc"))][version][:count]

    @cached_property
    def _documents(self) -> dict[tuple[str, int], tuple[NDArray[np.float32], NDArray[np.int64]]]:
        """Return (document, version) -> its vectors, and the number of vectors of its first sentences.

        They are computed once, so that memory stays flat.
        """
        vectors_of = {}
        for number, versions in enumerate(self.texts):
            for version, lines in enumerate(versions):
                parts = [self.phrases_of[text].vectors for text in lines]
                vectors = row_codec.dequantise(row_codec.quantise(np.concatenate(parts)))
                vectors_of[f"doc{number}", version] = vectors, np.cumsum([0, *map(len, parts)])
        return vectors_of

    def vectors(self, name: str, version: int, count: int) -> NDArray[np.float32]:
        """Return (phrases, dim) vectors of the first ``count`` sentences, as an index stores them."""
        vectors, ends = self._documents[name, version]
        return vectors[: ends[count]]

    def __hash__(self) -> int:
        return id(self)


class Recorded:
    """Substitute for the model that returns the phrases of the pool."""

    path = None

    def __init__(self, pool: Pool) -> None:
        self.name, self.hash, self.dim = pool.name, pool.hash, pool.dim
        self._found = pool.phrases_of

    def extract(self, texts: Sequence[str], frequent: Collection[str] = (), **options: Any) -> list[TextPhrases]:
        return [self._found[text] for text in texts]


class Log:
    """Committed states, read from a file that grows."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / "log.jsonl").open("rb")
        self._rest = b""
        self.states: list[State] = []

    def read(self) -> list[State]:
        """Read the new lines and return all states."""
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for generation, documents in map(json.loads, lines):
            self.states.append(State(generation, {name: (a, b) for name, (a, b) in documents.items()}))
        return self.states

    def at(self, generation: int) -> State:
        """Return the state of a generation, waiting if it has only just been committed."""
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


def write(folder: Path, pool: Pool, seconds: float, pause: float, seed: int) -> None:
    """Add, replace, delete and optimise at random, log every commit, and write writer.json.

    Memory is sampled after each change, because tuning an index takes more for a while and then frees it.
    """
    draw = random.Random(seed)
    counts: dict[str, int] = {"add": 0, "replace": 0, "delete": 0, "optimize": 0, "commits": 0}
    expected: dict[str, int] = {}  # document -> version
    problems, memory = [], []
    with opened(folder, pool) as index, (folder / "log.jsonl").open("a", encoding="utf-8") as log:

        def tell(_: Any = None) -> None:
            with index.snapshot():
                generation = index.store.state().generation
                documents = {d.name: (_version(pool, d.name, d.digest), d.sentences) for d in index.documents()}
            log.write(json.dumps([generation, documents]) + "\n")
            log.flush()
            counts["commits"] += 1

        tell()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            kind = draw.choices(["add", "replace", "delete", "optimize"], [4, 4, 3, 1])[0]
            _change(kind, index, pool, draw, expected, tell)
            counts[kind] += 1
            present = {d.name: _version(pool, d.name, d.digest) for d in index.documents()}
            if present != expected or not all(d.complete for d in index.documents()):
                problems.append(f"after {kind}: holds {present}, expected {expected}")
                expected = present
            memory.append(anonymous())
            time.sleep(pause)
        whole = index.verify()
    problems += whole.problems
    facts = {"done": counts, "memory": memory, "problems": problems}
    (folder / "writer.json").write_text(json.dumps(facts), encoding="utf-8")


def _change(kind: str, index: Index, pool: Pool, draw: random.Random, expected: dict[str, int], tell: Any) -> None:
    count = len(pool.texts)
    if kind == "optimize":
        index.optimize(target_recall=draw.choice([None, 0.95]))
    elif kind == "delete":
        if expected:
            name = draw.choice(sorted(expected))
            index.delete(name)
            del expected[name]
            tell()
    else:
        possible = [n for n in range(count) if (f"doc{n}" in expected) == (kind == "replace")]
        numbers = draw.sample(possible, min(len(possible), draw.choice([1, 1, 3])))
        versions = {n: draw.randrange(len(pool.texts[n])) for n in numbers}
        index.add([pool.document(*version) for version in versions.items()], lang="en", progress=tell)
        expected |= {f"doc{n}": version for n, version in versions.items()}


def _version(pool: Pool, name: str, digest: str) -> int:
    return _digests(pool)[name, digest]


@lru_cache(maxsize=1)
def _digests(pool: Pool) -> dict[tuple[str, str], int]:
    documents = [(n, v) for n, versions in enumerate(pool.texts) for v in range(len(versions))]
    return {(f"doc{n}", pool.document(n, v).digest): v for n, v in documents}


# -- the readers


def read(folder: Path, pool: Pool, seconds: float, pause: float, seed: int) -> None:
    """Search and compare each answer with its state; write reader-SEED.json."""
    draw, log = random.Random(seed), Log(folder)
    queries = row_codec.dequantise(
        row_codec.quantise(np.concatenate([phrases.vectors for phrases in pool.phrases_of.values()]))
    )
    answers, best, generations, problems = 0, 0, set(), []
    deadline = time.monotonic() + seconds
    index = opened(folder, pool, readonly=bool(seed % 2))
    while time.monotonic() < deadline:
        if answers % REOPEN == REOPEN - 1:
            index.close()
            index = opened(folder, pool, readonly=bool(seed % 2))
        query = queries[draw.randrange(len(queries))]
        text = draw.choice(list(pool.phrases_of)) if draw.random() < 0.2 else None
        try:
            generation, answer_problems, right = _answer(index, pool, log, query, text)
            generations.add(generation)
            best += right
            problems += answer_problems
        except Exception as error:
            problems.append(f"{type(error).__name__}: {error}")
        answers += 1
        time.sleep(pause)
    index.close()
    facts = {"answers": answers, "best": best, "states": len(generations), "problems": problems}
    (folder / f"reader-{seed}.json").write_text(json.dumps(facts), encoding="utf-8")


def _answer(index: Index, pool: Pool, log: Log, query: Any, text: str | None) -> tuple[int, list[str], bool]:
    """Ask once; return the generation, what is wrong with the answer, and whether the best hit was found."""
    with index.snapshot():
        generation = index.store.state().generation
        run = index.search(query[None], DEPTH)
        hits = index.hits(run.ids[0], run.scores[0])
        documents = {d.name: (_version(pool, d.name, d.digest), d.sentences) for d in index.documents()}
        holding = None if text is None else len(index.containing(text, 10_000))
    state = log.at(generation)
    wrong = f"generation {generation}: {documents}, expected {state.documents}"
    problems = [] if documents == state.documents else [wrong]
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
    """Return whether a hit is a phrase of this state, in its place, with its score."""
    if not fits(state, pool, hit.document, hit.line, hit.context):
        return False
    phrases = pool.phrases_of[hit.context]
    at = np.flatnonzero((phrases.starts == hit.start) & (phrases.ends == hit.end))
    vector = row_codec.dequantise(row_codec.quantise(phrases.vectors[at]))
    return len(at) == 1 and abs(float((vector @ query)[0]) - hit.score) < 1e-4


def fits(state: State, pool: Pool, document: str, line: int, context: str) -> bool:
    """Return whether a state has this sentence at this line of a document."""
    if document not in state.documents:
        return False
    lines = pool.lines(document, *state.documents[document])
    return 0 < line <= len(lines) and lines[line - 1] == context


# -- the server


class Asker(threading.Thread):
    """Thread that asks the server for its page and over REST, and compares the answers with the states."""

    def __init__(self, port: int, folder: Path, pool: Pool, seconds: float, pause: float, seed: int) -> None:
        super().__init__()
        self._base, self._log, self._pool = f"http://127.0.0.1:{port}", Log(folder), pool
        self._seconds, self._pause, self._draw = seconds, pause, random.Random(seed)
        self.pages = self.answers = self.hits = 0
        self.problems: list[str] = []

    def run(self) -> None:
        deadline = time.monotonic() + self._seconds
        texts = [text for text in self._pool.phrases_of if words(text) and not set(text) & set("[]\\")]
        while time.monotonic() < deadline:
            text = self._draw.choice(texts)
            try:
                self._page(text) if self._draw.random() < 0.3 else self._rest(text)
            except Exception as error:
                self.problems.append(f"{type(error).__name__}: {error}")
            time.sleep(self._pause)

    def _page(self, text: str) -> None:
        with urlopen(f"{self._base}/?q={quote(text)}", timeout=60) as answer:
            self.problems += [] if b"</html>" in answer.read() else ["a page is not whole"]
        self.pages += 1

    def _rest(self, text: str) -> None:
        before = len(self._log.read())
        body = json.dumps({"query": with_marks(text), "k": 5}).encode()
        request = Request(f"{self._base}/api/v1/search", body, {"Content-Type": "application/json"})
        with urlopen(request, timeout=60) as answer:
            results = json.load(answer)["results"]
        hits = [hit for result in results for group in result["groups"] for hit in group["hits"]]
        self.answers, self.hits = self.answers + 1, self.hits + len(hits)
        deadline = time.monotonic() + 30
        while not any(self._holds(state, hits) for state in self._log.read()[max(0, before - 1) :]):
            if time.monotonic() > deadline:  # a commit reaches the log after a moment
                self.problems.append(f"{len(hits)} hits for {text!r} are of no state that was current")
                return
            time.sleep(0.05)

    def _holds(self, state: State, hits: list[dict[str, Any]]) -> bool:
        """Return whether a state has all the hits; a state with phrases has some hit for any query."""
        fitting = all(fits(state, self._pool, hit["document"], hit["line"], hit["context"]) for hit in hits)
        return fitting and (bool(hits) or not state.phrases(self._pool))


def pool_of(data: Path, work: Path, model: Any, seed: int) -> Pool:
    """Return a pool of documents of real sentences, in several versions."""
    texts = iter(sentences(data, work / "text", seed))
    return Pool.make(model, [[[next(texts) for _ in range(LINES)] for _ in range(VERSIONS)] for _ in range(DOCUMENTS)])


def watch(processes: dict[str, int], seconds: float) -> dict[str, list[float]]:
    """Return about 200 samples of the anonymous MB of each process."""
    samples: defaultdict[str, list[float]] = defaultdict(list)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for name, process in processes.items():
            memory = anonymous(process)
            if memory is not None:
                samples[name].append(memory)
        time.sleep(seconds / 200)
    return samples


def quarters(samples: list[float]) -> tuple[str, bool]:
    """Return the medians of the quarters of the samples, and whether memory is flat."""
    middles = [float(np.median(part)) for part in np.array_split(samples, 4)]
    flat = middles[3] <= MARGIN * middles[1] + MARGIN_MB
    return " ".join(f"{middle:.0f}" for middle in middles), flat


def main() -> None:
    args = _arguments()
    seconds = 60 * args.minutes
    with tempfile.TemporaryDirectory() as name:
        folder = (args.work or Path(name)) / "concurrent"
        model = load_model(args.model, args.threads)
        pool = pool_of(args.data, folder, model, args.seed)
        shutil.rmtree(folder / "index", ignore_errors=True)
        for leftover in (*folder.glob("reader-*.json"), folder / "writer.json"):  # of an earlier run
            leftover.unlink(missing_ok=True)
        (folder / "log.jsonl").write_text("")
        with Index.create(folder / "index", Recorded(pool), threads=1, settings=SETTINGS) as index:
            index.add([pool.document(0, 0)], lang="en")
            index.delete("doc0")
        del model
        rows = _together(args, folder, pool, seconds)
        written = folder / "writer.json"  # missing if the writer failed, which its row shows
        changes = json.loads(written.read_text())["done"] if written.exists() else {}
    facts = {"minutes": args.minutes, "readers": args.readers, "seed": args.seed, **changes}
    report("concurrency", HEADER, rows, signature(load_model(args.model, 1), **facts))
    raise SystemExit(any(row[-1] for row in rows) or not all(row[HEADER.index("flat")] for row in rows))


def _together(args: argparse.Namespace, folder: Path, pool: Pool, seconds: float) -> list[list[Any]]:
    """Run writer, readers and server, and return the rows of the table."""
    spawn = get_context("spawn")
    with server(folder / "index", 1) as at:
        asker = Asker(at.port, folder, pool, seconds, args.pause * 4, args.seed)
        processes = {"writer": spawn.Process(target=write, args=(folder, pool, seconds, 4 * args.pause, args.seed))}
        for number in range(1, args.readers + 1):
            processes[f"reader-{number}"] = spawn.Process(target=read, args=(folder, pool, seconds, args.pause, number))
        for process in processes.values():
            process.start()
        asker.start()
        memory = watch({"server": at.process} | {n: p.pid for n, p in processes.items() if p.pid}, seconds)
        asker.join()
        for process in processes.values():
            process.join(120)
    rows, peak = [], lambda samples: f"{max(samples, default=0):.0f}"
    for name, process in processes.items():
        if process.is_alive():
            process.kill()
            process.join()
        facts = json.loads((folder / f"{name}.json").read_text()) if process.exitcode == 0 else {}
        problems = facts.get("problems", [f"ended with code {process.exitcode}"])
        problems += ["no answer"] if facts.get("answers") == 0 else []
        best = f"{facts['best'] / max(1, facts['answers']):.3f}" if "best" in facts else ""
        cells = [name, facts.get("answers", ""), facts.get("states", ""), best]
        rows.append([*cells, *quarters(facts.get("memory") or memory[name]), peak(memory[name]), problems])
    requests = f"{asker.pages} pages, {asker.answers} REST ({asker.hits} hits)"
    asker.problems += [] if asker.pages and asker.hits else ["no page or no hit"]
    rows.append(["server", requests, "", "", *quarters(memory["server"]), peak(memory["server"]), asker.problems])
    for row in rows:
        for problem in row[-1][:5]:
            print(f"{row[0]}: {problem}")
        row[-1] = len(row[-1])
    return rows


def _arguments() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--readers", type=int, default=4)
    options.add_argument("--pause", type=float, default=0.1, help="seconds between two answers of a reader")
    options.add_argument("--work", type=Path, help="keep the folder `concurrent` here (default: a temporary one)")
    return options.parse_args()


if __name__ == "__main__":
    main()

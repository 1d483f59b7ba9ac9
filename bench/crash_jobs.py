"""Jobs that bench/crash.py kills: indexer, appender, deleter, optimiser, upgrader, copier, trainer.

`prepare` makes the initial files of a job in a new folder. `run` does the work, or the rest of it, and reports through
``say`` what is permanently done. `check` lists what is wrong with the remains after a kill; ``promised`` is the last
report (0: none). `rows` returns everything that the job has made, for comparison with an undisturbed run.

The jobs run the real code on small made-up texts. Their models are the fakes of the tests: the vector of a phrase is
drawn from the hash of its words, and the trainer's encoder is a random XLM-R of two layers. A job resumes wherever it
was interrupted.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from common import use_test_modules

use_test_modules("index", "encode", "training")

import index_fakes  # noqa: E402

from phrasemate import Document, Index  # noqa: E402
from phrasemate.errors import IndexMissing  # noqa: E402
from phrasemate.index import IndexSettings, backup  # noqa: E402
from phrasemate.utils.storage import unlock  # noqa: E402

# Settings of an index that uses FAISS from 200 phrases on, in chunks of 16 sentences.
SMALL = IndexSettings(chunk=16, learn=50, exact_below=200, forced_rebuild=600, exact_filtered=200, train=700, block=250)
MODEL, NEWER = index_fakes.FakeModel(dim=16), index_fakes.FakeModel(dim=16, name="newer")
index_fakes.vector_of = lru_cache(None)(index_fakes.vector_of)  # saves time, which the writing should take
Say = Callable[[int], None]
TICKS = 1_000  # instructions of SQLite between two reports of the optimiser
SIZES = (40, 16, 0, 90, 9, 48, 60, 33)


def documents(seed: int, names: Sequence[int] = range(len(SIZES))) -> list[Document]:
    """Return some of eight documents: two end with a chunk, one has no sentence."""
    return [Document.from_texts(f"doc{at}", index_fakes.sentences(SIZES[at], seed=100 * seed + at)) for at in names]


for seed in (1, 2, 3):  # computes every vector before the first fork
    MODEL.extract([sentence.text for document in documents(seed) for sentence in document.sentences()])


def opened(folder: Path) -> Index:
    return Index.open(folder, MODEL, settings=SMALL, threads=1)


class _Indexing:
    """Base class of the jobs on an index; ``allowed`` has the rows that may exist, by table."""

    name = ""

    def __init__(self) -> None:
        self.allowed: dict[str, set[Any]] = {}

    def prepare(self, folder: Path) -> None:
        with Index.create(folder, MODEL, settings=SMALL, threads=1) as index:
            index.add(documents(1), lang="en")
        self.allow(folder)

    def run(self, folder: Path, say: Say) -> None:
        raise NotImplementedError

    def allow(self, folder: Path) -> None:
        """Allow the rows of this index from now on."""
        for table, rows in rows_of(folder).items():
            self.allowed.setdefault(table, set()).update(rows)

    def check(self, folder: Path, promised: int) -> list[str]:
        if not (folder / "index.json").exists():
            return [] if not promised else [f"the index is gone, though generation {promised} was promised"]
        with opened(folder) as index:
            problems = list(index.verify().problems)
            if index.stats().generation < promised:
                problems.append(f"generation {index.stats().generation}, though {promised} was promised")
            problems += _search(index)
        rows = rows_of(folder)
        for table in ("sentences", "vectors"):
            strange = [row[0] for row in rows[table] if row not in self.allowed[table]]
            problems += [f"{table}: row {strange[0]} is of neither state"] if strange else []
        return problems

    def rows(self, folder: Path) -> dict[str, Any]:
        return rows_of(folder)


def rows_of(folder: Path) -> dict[str, Any]:
    """Return every row of every table of an index, including those of the text index."""
    with sqlite3.connect(folder / "store.sqlite") as connection:
        query = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        names = [name for (name,) in connection.execute(query)]
        rows = {name: connection.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall() for name in names}
    connection.close()
    return rows


def _search(index: Index) -> list[str]:
    """Search for stored vectors and return what is wrong: no hit as near as the vector itself, or a deleted hit."""
    with index.store.reading():
        rows = [row for block in index.store.vectors() for row in block]
    if not rows:
        return []
    live = np.concatenate([row.first_phrase + np.arange(row.phrases) for row in rows])
    stored = np.concatenate([np.frombuffer(row.codes, np.int8) for row in rows])
    stored = stored.reshape(-1, MODEL.dim).astype(np.float32)
    stored /= np.linalg.norm(stored, axis=1, keepdims=True)
    queries = stored[:: max(1, len(stored) // 20)]
    run = index.search(queries, 5)
    wrong = int((np.abs(run.scores[:, 0] - 1) > 0.02).sum())
    missing = int((~np.isin(run.ids, [-1, *live])).sum())
    problems = [f"search: {wrong} of {len(queries)} stored vectors are not found"] if wrong else []
    return problems + ([f"search: {missing} deleted phrases are found"] if missing else [])


class Create(_Indexing):
    """Job that creates an index."""

    name = "indexer"

    def prepare(self, folder: Path) -> None:
        pass

    def run(self, folder: Path, say: Say) -> None:
        try:
            index = opened(folder)
        except IndexMissing:
            index = Index.create(folder, MODEL, settings=SMALL, threads=1)
        with index:
            index.add(documents(1), lang="en", progress=lambda _: say(index.store.state().generation))


class Add(_Indexing):
    """Job that replaces two documents and adds four."""

    name = "appender"

    def run(self, folder: Path, say: Say) -> None:
        new = [Document(f"new {d.name}", d.digest, d.sentences, d.size) for d in documents(2, (0, 3, 5, 6))]
        with opened(folder) as index:
            everything = [*documents(1, (0, 2)), *documents(2, (1, 5)), *new]
            index.add(everything, lang="en", progress=lambda _: say(index.store.state().generation))


class Delete(_Indexing):
    """Job that deletes five of eight documents, one by one."""

    name = "deleter"

    def run(self, folder: Path, say: Say) -> None:
        with opened(folder) as index:
            for at in (0, 3, 2, 7, 5):
                if f"doc{at}" in {document.name for document in index.documents()}:
                    index.delete(f"doc{at}")
                    say(index.store.state().generation)
            index.add([])  # derives what a kill after the last deletion prevented, as any later writer does


class Optimise(_Indexing):
    """Job that frees space and rebuilds all derived files; no row of text may change."""

    name = "optimiser"

    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        with opened(folder) as index:
            index.delete("doc3")
            index.add([Document("late", "1", documents(3, (6,))[0].sentences, 1)], lang="de")
        self.allowed = {}
        self.allow(folder)

    def run(self, folder: Path, say: Say) -> None:
        with opened(folder) as index:
            index.store.connection.set_progress_handler(lambda: say(0), TICKS)  # allows faults during the work
            index.optimize()

    def check(self, folder: Path, promised: int) -> list[str]:
        problems, rows = super().check(folder, promised), self.rows(folder)
        tables = ("documents", "sentences", "vectors", "tombstones", "state")
        return problems + [f"{table}: changed" for table in tables if set(rows[table]) != self.allowed[table]]


class Upgrade(_Indexing):
    """Job that encodes all sentences with another model, so that a new index replaces the old one."""

    name = "upgrader"

    def run(self, folder: Path, say: Say) -> None:
        say(backup.upgrade(folder, NEWER, progress=lambda _: say(0)).sentences)

    def check(self, folder: Path, promised: int) -> list[str]:
        if not (folder / "index.json").exists():
            return ["there is neither the old index nor the new one"]
        with Index.open(folder) as index:
            problems = list(index.verify().problems)
            is_new = index.manifest.model_hash == NEWER.hash
        if promised and not is_new:
            problems.append("the index is still of the old model, though the upgrade was promised")
        unchanged = set(rows_of(folder)["sentences"]) <= self.allowed["sentences"]
        return problems if unchanged else [*problems, "sentences: changed"]


class Backup(_Indexing):
    """Job that copies an index, so that the copy replaces an older one."""

    name = "copier"

    def prepare(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        super().prepare(folder / "index")
        backup.backup(folder / "index", folder / "copy")
        with opened(folder / "index") as index:
            index.add(documents(2, (1, 5)), lang="en")
        self.allow(folder / "index")

    def run(self, folder: Path, say: Say) -> None:
        backup.backup(folder / "index", folder / "copy", force=True)
        with opened(folder / "index") as index:
            say(index.stats().generation)

    def allow(self, folder: Path) -> None:
        super().allow(folder if (folder / "index.json").exists() else folder / "index")

    def check(self, folder: Path, promised: int) -> list[str]:
        problems = super().check(folder / "index", 1) + super().check(folder / "copy", max(promised, 1))
        with opened(folder / "copy") as index:
            unchanged = index.stats().generation >= promised
        return problems if unchanged else [*problems, "the copy is the old one, though the new one was promised"]

    def rows(self, folder: Path) -> dict[str, Any]:
        names = [(place, table) for place in ("index", "copy") for table in rows_of(folder / place)]
        return {f"{place} {table}": rows_of(folder / place)[table] for place, table in names}


class Train:
    """Job that trains CCPR for eight steps, with a checkpoint after each, and writes a model in the middle."""

    name = "trainer"

    def __init__(self, shared: Path) -> None:
        """Write the encoder and the pairs into the folder ``shared``, which all runs read."""
        import encoders
        import pair_files
        import torch
        from transformers.utils import logging

        torch.set_num_threads(1)
        logging.disable_progress_bar()
        shared.mkdir(parents=True)
        self._pairs = shared / "pairs"
        self._pairs.mkdir()
        pair_files.write_pairs(self._pairs / "en-xx.jsonl", 40, 1)
        base = encoders.save_xlmr(shared / "base")
        unlock(base / "model.safetensors")  # users other than root read it, too
        self._tables = {
            "data": {"files": ["en-*.jsonl"], "batch": 4, "phrases": 4, "dev": 4, "neighbours": 2},
            "model": {"base": str(base), "dropout": 0.1, "head": "components"},
            "loss": {"dim": 8, "normalise": True, "temperature": 0.1, "negatives": "spans", "sentence": 0.2},
            "optimizer": {"encoder": 1e-3, "heads": 1e-2, "chunk": 32},
            "loop": {"steps": 8, "warmup": 2, "log": 1, "evaluate": 4, "checkpoint": 1, "precision": "fp32"},
        }

    def prepare(self, folder: Path) -> None:
        pass

    def run(self, folder: Path, say: Say) -> None:
        from phrasemate.training.ccpr import CCPRTask, Config
        from phrasemate.training.trainer import Trainer

        config = Config.of(self._tables)
        task = CCPRTask(config, self._pairs)
        trainer = Trainer(task, config.loop, folder, task.facts())
        trainer.run(progress=lambda event: say(event.step))

    def check(self, folder: Path, promised: int) -> list[str]:
        from phrasemate.training.trainer import Checkpoint

        checkpoint, problems = Checkpoint(folder / "checkpoint"), []
        if checkpoint.exists():
            step = checkpoint.load()[1]["step"]
            problems += [f"checkpoint of step {step}, though {promised} was promised"] if step < promised else []
        elif promised:
            problems.append(f"no checkpoint, though step {promised} was promised")
        if (folder / "model").exists():
            files = {path.name for path in (folder / "model").iterdir()}
            whole = {"config.json", "heads.safetensors", "model.safetensors", "tokenizer.json", "training.json"}
            problems += [f"model: without {whole - files}"] if whole - files else []
        return problems

    def rows(self, folder: Path) -> dict[str, Any]:
        """Return losses and figures without those of the clock, and digests of checkpoint and model."""
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
        metrics = [{key: value for key, value in line.items() if key != "tokens/s"} for line in lines]
        files = [*folder.glob("model/*.safetensors"), folder / "checkpoint" / "state.safetensors"]
        digests = {str(f.relative_to(folder)): hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(files)}
        return {"metrics": metrics, **digests}


INDEXING = (Create, Add, Delete, Optimise, Upgrade, Backup)
JOBS = (*(kind.name for kind in INDEXING), Train.name)
Job = _Indexing | Train


def jobs(shared: Path, only: Sequence[str] = ()) -> list[Job]:
    """Return the jobs of these names, or all; ``shared`` is the folder of `Train`."""
    chosen: list[Job] = [kind() for kind in INDEXING if not only or kind.name in only]
    return [*chosen, *([Train(shared)] if not only or Train.name in only else [])]

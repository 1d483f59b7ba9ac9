"""Truncate every file of an index and flip its bytes: a clear error, a stated rebuild, or the right answers."""

from __future__ import annotations

import logging
import random
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from index_fakes import SMALL, FakeModel, sentences

from phrasemate.errors import IndexDamaged, PhraseIndexError
from phrasemate.index import Index
from phrasemate.types import Document, Phrase

FLIPS = 20  # bench/damage.py has a thousand
MODEL = FakeModel(dim=32)
TEXTS = {f"doc{at}": sentences(60, seed=at) for at in range(3)}
FILES = [
    "index.json",
    "store.sqlite",
    "vectors.json",
    "vectors.faiss",
    "vectors.codes",
    "store.sqlite-wal",
    "store.sqlite-shm",
    "writer.json",
]


def make(folder: Path) -> Path:
    """An index with a FAISS file, deleted phrases, newer phrases, and a log that is not yet merged into the store."""
    with Index.create(folder / "live", MODEL, settings=SMALL, threads=1) as index:
        index.add([Document.from_texts(name, texts) for name, texts in TEXTS.items()], lang="en")
        index.delete("doc0")
        index.add([Document.from_texts("late", TEXTS["doc0"][:9])], lang="de")
        index.store.connection.execute("PRAGMA wal_autocheckpoint = 0")
        records = []
        # copied from within an add: the last chunk is only in the log
        index.add(
            [Document.from_texts("last", ["spring water here.", "a bank of sand."])],
            progress=lambda event: (
                None if event.stage else records.append(shutil.copytree(folder / "live", folder / "copy"))
            ),
        )
    assert (folder / "copy" / "store.sqlite-wal").stat().st_size > 0
    return folder / "copy"


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("intact"))


def questions() -> dict[str, int]:
    """Phrases and how often they occur: from a plain count over the texts."""
    counts: Counter[str] = Counter()
    stored = [*TEXTS["doc1"], *TEXTS["doc2"], *TEXTS["doc0"][:9], "spring water here.", "a bank of sand."]
    for result, text in zip(MODEL.extract(stored), stored, strict=True):
        counts.update(text[s:e] for s, e in zip(result.starts, result.ends, strict=True))
    rare = [phrase for phrase, count in sorted(counts.items()) if count <= 4]
    return {phrase: counts[phrase] for phrase in [*rare[::23], "spring water", "bank"]}


QUESTIONS = questions()


def ask(folder: Path) -> None:
    """Fails if any answer is wrong."""
    with Index.open(folder, MODEL, settings=SMALL, threads=1) as index:
        run = index.search(MODEL.encode([Phrase(q, 0, len(q)) for q in QUESTIONS]), 5)
        for (phrase, count), ids, scores in zip(QUESTIONS.items(), run.ids, run.scores, strict=True):
            hits = index.hits(ids, scores)
            assert [hit.text for hit in hits][:count] == [phrase] * count
            assert all(hit.score > 0.97 and hit.document in (*TEXTS, "late", "last") for hit in hits[:count])
            assert len(hits) == 5
            assert hits[count].text != phrase
        only = index.search(MODEL.encode([Phrase("bank", 0, 4)]), 3, documents=["last"])
        assert index.hits(only.ids, only.scores)[0].text == "bank"
        assert len(index.containing("SPRING water")) == 1
        assert [d.name for d in index.documents()] == ["doc1", "doc2", "late", "last"]
        assert index.stats().sentences == 60 + 60 + 9 + 2


def target(folder: Path, name: str) -> Path:
    return next(folder.glob(name.replace(".", "-*."))) if name in ("vectors.faiss", "vectors.codes") else folder / name


def outcome(folder: Path, caplog: pytest.LogCaptureFixture) -> str:
    caplog.clear()
    try:
        ask(folder)
    except PhraseIndexError as error:
        return "error" if str(folder) in str(error) and "\n" not in str(error) else str(error)
    return "rebuilt" if "rebuilding" in caplog.text else "right"


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_flipped_bytes(intact: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str) -> None:
    caplog.set_level(logging.WARNING)
    draw, outcomes = random.Random(name), Counter[str]()
    for trial in range(FLIPS):
        folder = Path(shutil.copytree(intact, tmp_path / str(trial)))
        file = target(folder, name)
        content = bytearray(file.read_bytes())
        content[draw.randrange(min(len(content), 100) if trial % 4 == 0 else len(content))] ^= draw.randrange(1, 256)
        file.write_bytes(content)
        outcomes[outcome(folder, caplog)] += 1
    expected = {
        "index.json": {"error"},
        "vectors.json": {"rebuilt"},
        "vectors.faiss": {"rebuilt"},
        "vectors.codes": {"rebuilt"},
        "store.sqlite-shm": {"right"},
        "writer.json": {"right"},
    }
    assert set(outcomes) <= expected.get(name, {"error", "right"}), outcomes


@pytest.mark.parametrize("name", FILES)
def test_truncated(intact: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str) -> None:
    caplog.set_level(logging.WARNING)
    size = target(intact, name).stat().st_size
    for trial, length in enumerate([0, 1, 40, size // 3, size // 2, size - 4097, size - 1]):
        folder = Path(shutil.copytree(intact, tmp_path / str(trial)))
        with target(folder, name).open("rb+") as file:
            file.truncate(max(0, length))
        records = outcome(folder, caplog)
        if name in ("index.json", "store.sqlite", "store.sqlite-wal") and length <= size // 2:
            assert records == "error", length


@pytest.mark.parametrize("name", FILES)
def test_missing(intact: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str) -> None:
    folder = Path(shutil.copytree(intact, tmp_path / "idx"))
    target(folder, name).unlink()
    table = {
        "index.json": "error",
        "store.sqlite": "error",
        "store.sqlite-wal": "error",
        "vectors.faiss": "rebuilt",
        "vectors.codes": "rebuilt",
    }
    assert outcome(folder, caplog) == table.get(name, "right")


@pytest.mark.parametrize("what", [b"water here", b"doc2"])
def test_verify_finds_an_altered_row_that_nobody_asked_for(intact: Path, tmp_path: Path, what: bytes) -> None:
    folder = Path(shutil.copytree(intact, tmp_path / "idx"))
    with Index.open(folder, MODEL, settings=SMALL, threads=1) as index:
        assert index.verify().ok
    store = folder / "store.sqlite"
    content = store.read_bytes()
    assert what in content
    store.write_bytes(content.replace(what, what.swapcase()))
    with Index.open(folder, MODEL, settings=SMALL, threads=1) as index:
        report = index.verify()
    assert not report.ok
    assert any("checksum" in problem for problem in report.problems)


def test_an_altered_vector_is_never_an_answer(intact: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(intact, tmp_path / "idx"))
    with Index.open(folder, MODEL, settings=SMALL, threads=1) as index:
        index.store.connection.execute("UPDATE vectors SET codes = zeroblob(length(codes)) WHERE id = 100")
        index.store.connection.execute("DELETE FROM vectors WHERE id = (SELECT max(id) FROM vectors)")
        assert {p.split(":")[0] for p in index.verify().problems} == {"vectors"}
        with pytest.raises(IndexDamaged, match=r"phrases found, expected|checksum"):
            index.search(np.eye(32, dtype=np.float32), 3)

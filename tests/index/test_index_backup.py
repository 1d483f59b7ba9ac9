"""A copy of an index is of one moment, row for row, whatever is written meanwhile; and goes back into its place."""

from __future__ import annotations

import errno
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from index_fakes import SMALL, FakeModel, Found, vector_of

from phrasemate.errors import IndexDamaged, IndexExists, IndexMissing, InputError, ModelMismatch, PhraseIndexError
from phrasemate.index import Index
from phrasemate.index.backup import Upgrade, backup, restore, upgrade
from phrasemate.index.manifest import VectorsManifest
from phrasemate.lexicon import Dictionary, DictionaryFolder
from phrasemate.types import Document, Sentence

TABLES = ("documents", "sentences", "vectors", "tombstones", "state")


def document(number: int, sentences: int = 40) -> Document:
    return Document.from_texts(
        f"doc{number}", [f"word{number} of line{row} in text{number}" for row in range(sentences)]
    )


def make(folder: Path, documents: int = 4) -> Path:
    with Index.create(folder, FakeModel(), settings=SMALL) as index:
        index.add([document(number) for number in range(documents)], lang="en")
    return folder


def rows(folder: Path, table: str, where: str = "") -> list[Any]:
    with closing(sqlite3.connect(folder / "store.sqlite")) as store:
        return store.execute(f"SELECT * FROM {table} {where} ORDER BY 1").fetchall()


def test_a_copy_has_every_row_and_every_search_file(tmp_path: Path) -> None:
    source = make(tmp_path / "idx")
    statistics = backup(source, tmp_path / "copy")
    assert (statistics.documents, statistics.sentences) == (4, 4 * 40)
    assert statistics.path == str(tmp_path / "copy")
    assert all(rows(tmp_path / "copy", table) == rows(source, table) for table in TABLES)
    files = {path.name for path in source.iterdir()} - {
        "write.lock",
        "checked.json",
        "store.sqlite-wal",
        "store.sqlite-shm",
    }
    assert {path.name for path in (tmp_path / "copy").iterdir()} >= files
    with Index.open(tmp_path / "copy", readonly=True, settings=SMALL) as copy:
        assert copy.verify().ok
        run = copy.search(vector_of("word2", 16)[None], 1)
        assert copy.hits(run.ids[0].tolist(), run.scores[0].tolist())[0].text == "word2"


def test_a_copy_under_writes_is_of_one_moment(tmp_path: Path) -> None:
    """A writer adds and deletes all the time: each copy has whole documents, and their rows as the source had them."""
    source = make(tmp_path / "idx")
    stop, commits = threading.Event(), threading.Semaphore(0)

    def write() -> None:
        with Index.open(source, FakeModel(), settings=SMALL) as index:
            for number in range(4, 400):
                index.add([document(number)], lang="en")
                if number % 3 == 0:
                    index.delete(f"doc{number - 2}")
                commits.release()
                if stop.is_set():
                    return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        copies = [tmp_path / f"copy{number}" for number in range(3)]
        generations = []
        for copy in copies:
            while commits.acquire(blocking=False):
                pass
            for _ in range(2):  # the first may tell of a commit that the last copy has, the second tells of a later one
                assert commits.acquire(timeout=20)
            generations.append(backup(source, copy).generation)
    finally:
        stop.set()
        writer.join()
    assert generations == sorted(set(generations))
    for copy in copies:
        with Index.open(copy, readonly=True) as index:
            assert index.verify().ok
            documents = index.documents()
        assert all(document.sentences == 40 for document in documents if document.complete)
        assert sum(not document.complete for document in documents) <= 1  # the one that is being added
        assert len(rows(copy, "sentences")) == sum(document.sentences for document in documents)
        originals = {row[0]: row for row in rows(source, "sentences")}
        still_there = [row for row in rows(copy, "sentences") if row[0] in originals]
        assert still_there
        assert all(row == originals[row[0]] for row in still_there)


def test_a_restored_index_equals_its_copy_and_an_open_one_is_replaced(tmp_path: Path) -> None:
    source = make(tmp_path / "idx")
    backup(source, tmp_path / "copy")
    before = {table: rows(tmp_path / "copy", table) for table in TABLES}
    with Index.open(source, FakeModel(), settings=SMALL) as index:
        index.delete("doc0", "doc1")
    with pytest.raises(IndexExists, match="--force"):
        restore(tmp_path / "copy", source)
    statistics = restore(tmp_path / "copy", source, force=True)
    assert (statistics.documents, statistics.path) == (4, str(source))
    assert {table: rows(source, table) for table in TABLES} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "idx"]


def test_the_folder_behind_a_link_is_replaced(tmp_path: Path) -> None:
    source = make(tmp_path / "idx")
    backup(source, tmp_path / "copy")
    (tmp_path / "link").symlink_to("idx")
    with Index.open(source, FakeModel(), settings=SMALL) as index:
        index.delete("doc0")
    restore(tmp_path / "copy", tmp_path / "link", force=True)
    assert len(rows(source, "documents")) == 4
    upgrade(tmp_path / "link", FakeModel(), again=True)
    assert (tmp_path / "link").readlink() == Path("idx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "idx", "link"]


def test_the_current_folder_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make(tmp_path / "idx", 1)
    backup(source, tmp_path / "copy")
    before = rows(source, "sentences")
    monkeypatch.chdir(source)
    for folder in (Path(), source):
        with pytest.raises(InputError, match="current folder"):
            upgrade(folder, FakeModel(), again=True)
        with pytest.raises(InputError, match="current folder"):
            restore(tmp_path / "copy", folder, force=True)
    assert rows(source, "sentences") == before
    assert upgrade(Path(), FakeModel()).sentences == 0  # nothing is replaced


def test_a_damaged_copy_is_not_restored(tmp_path: Path) -> None:
    source = make(tmp_path / "idx")
    backup(source, tmp_path / "copy")
    with closing(sqlite3.connect(tmp_path / "copy" / "store.sqlite")) as store:
        store.execute("UPDATE sentences SET text = 'another' WHERE id = 5")
        store.commit()
    before = rows(source, "sentences")
    with pytest.raises(IndexDamaged, match="restore an earlier copy"):
        restore(tmp_path / "copy", source, force=True)
    assert rows(source, "sentences") == before


def test_a_full_disk_is_that_of_the_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[Exception] = [OSError(errno.ENOSPC, "No space left on device")]
    errors.append(sqlite3.OperationalError("database or disk is full"))
    errors[1].sqlite_errorcode = sqlite3.SQLITE_FULL  # type: ignore[attr-defined]

    def full(*_: object) -> None:
        raise errors.pop()

    source = make(tmp_path / "idx", 1)
    monkeypatch.setattr("phrasemate.index.backup._copy_derived", full)
    for reason in ("database or disk is full", "No space left on device"):
        with pytest.raises(PhraseIndexError, match=rf"copy: no space is left for the copy \(.*{reason}\)"):
            backup(source, tmp_path / "copy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["idx"]


def test_nothing_but_an_index_is_copied_or_replaced(tmp_path: Path) -> None:
    source = make(tmp_path / "idx", 1)
    with pytest.raises(IndexMissing):
        backup(tmp_path / "absent", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "one.txt").write_text("Dear Anna", "utf-8")
    with pytest.raises(IndexExists, match="not empty and not an index"):
        backup(source, tmp_path / "letters", force=True)
    assert (tmp_path / "letters" / "one.txt").read_text("utf-8") == "Dear Anna"


def test_an_upgrade_encodes_the_stored_sentences_with_another_model(tmp_path: Path) -> None:
    folder, model = tmp_path / "idx", FakeModel(dim=8, name="new")
    documents = [document(number) for number in range(4)]
    with Index.create(folder, FakeModel(), settings=SMALL) as index:
        index.add(documents[:2], lang="en")
        index.add(documents[2:], lang="de")
        index.delete("doc1")
    with pytest.raises(ModelMismatch, match=f"run: phrasemate index upgrade {folder}"):
        Index.open(folder, model)
    report = upgrade(folder, model)
    assert report == Upgrade(FakeModel().hash, model.hash, 3 * 40, wordings=True)
    with Index.create(tmp_path / "fresh", model) as index:
        index.add([documents[0]], lang="en")
        index.add(documents[2:], lang="de")
    for table in ("documents", "sentences", "vectors", "state"):
        assert [row[:-1] for row in rows(folder, table)] == [row[:-1] for row in rows(tmp_path / "fresh", table)]
    with Index.open(folder, model) as index:
        assert index.verify().ok
        assert index.add([documents[0]], lang="en").unchanged == 1  # the same texts are not read again
    assert upgrade(folder, model) == Upgrade(model.hash, model.hash)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fresh", "idx"]


def test_an_upgrade_can_encode_again_with_the_same_model(tmp_path: Path) -> None:
    folder, before = make(tmp_path / "idx"), FakeModel()

    class Changed(FakeModel):
        """The same model by its hash, which finds only the first phrase of each sentence now."""

        def extract(self, texts: Any, frequent: Any = frozenset(), **options: Any) -> list[Found]:
            phrases = super().extract(texts, frequent)
            return [Found(item.starts[:1], item.ends[:1], item.scores[:1], item.vectors[:1]) for item in phrases]

    with Index.open(folder, before) as index:
        sentences, phrases = index.stats().sentences, index.stats().phrases
    assert upgrade(folder, Changed()) == Upgrade(before.hash, before.hash)
    assert upgrade(folder, Changed(), again=True) == Upgrade(before.hash, before.hash, sentences, wordings=True)
    with Index.open(folder, before) as index:
        assert index.stats().sentences == index.stats().phrases == sentences < phrases
        assert index.verify().ok


class Segmenting(FakeModel):
    """A model that heeds ``max_words``."""

    def extract(self, texts: Any, frequent: Any = frozenset(), **options: Any) -> list[Found]:
        phrases = super().extract(texts, frequent)
        if options.get("max_words") != 1:
            return phrases
        return [self._words(text, item) for text, item in zip(texts, phrases, strict=True)]

    def _words(self, text: str, item: Found) -> Found:
        words = np.array([" " not in text[s:e] for s, e in zip(item.starts, item.ends, strict=True)])
        return Found(item.starts[words], item.ends[words], item.scores[words], item.vectors[words])


def test_segmentation_goes_with_the_index(tmp_path: Path) -> None:
    with Index.create(tmp_path / "idx", Segmenting(), segment={"max_words": 1}) as index:
        index.add([document(0, 3)], lang="en")
        phrases = index.stats().phrases
    backup(tmp_path / "idx", tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "restored")
    upgrade(tmp_path / "idx", Segmenting(dim=8, name="new"))
    for name in ("idx", "copy", "restored"):
        with Index.open(tmp_path / name, readonly=True) as index:
            assert isinstance(index, Index)
            assert (index.manifest.segment, index.stats().phrases) == ({"max_words": 1}, phrases)


def test_what_an_index_was_tuned_for_goes_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(tmp_path / "idx")
    with Index.open(folder, FakeModel(), settings=SMALL) as index:
        index.optimize(target_recall=0.9, at=10, seed=3)
    monkeypatch.setattr("phrasemate.index.index.to_settings", lambda settings, kind: settings or SMALL)
    backup(folder, tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "restored")
    upgrade(folder, FakeModel(dim=8, name="new"))
    for name in ("idx", "copy", "restored"):
        tuned = VectorsManifest.read(tmp_path / name / "vectors.json").tuned
        assert (tuned["target"], tuned["at"], tuned["seed"]) == (0.9, 10, 3)


def test_dictionaries_go_with_the_index(tmp_path: Path) -> None:
    folder, model = make(tmp_path / "idx"), FakeModel(dim=8, name="new")
    DictionaryFolder(folder).add(Dictionary("mine.tsv", [[("de", "Haus"), ("en", "house")]]))
    backup(folder, tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "restored")
    upgrade(folder, model)
    for name in ("idx", "copy", "restored"):
        with Index.open(tmp_path / name, readonly=True) as index:
            assert [dictionary.name for dictionary in index.dictionaries] == ["mine.tsv"]
            assert index.stats().files["dictionaries/mine.tsv.safetensors"] > 100
            report = index.verify()
            assert (report.ok, report.checked["dictionaries"]) == (True, 1)
    file = tmp_path / "copy" / "dictionaries" / "mine.tsv.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(IndexDamaged, match=r"dictionaries: .*mine\.tsv\.safetensors: is damaged"):
        restore(tmp_path / "copy", tmp_path / "restored", force=True)


def test_an_upgrade_that_fails_changes_nothing(tmp_path: Path) -> None:
    folder = make(tmp_path / "idx")
    before = {table: rows(folder, table) for table in TABLES}

    class Failing(FakeModel):
        def extract(self, *arguments: Any, **options: Any) -> Any:
            raise MemoryError

    with pytest.raises(MemoryError):
        upgrade(folder, Failing(dim=8, name="new"))
    assert {table: rows(folder, table) for table in TABLES} == before
    assert [path.name for path in tmp_path.iterdir()] == ["idx"]


def test_an_upgrade_adds_the_table_of_wordings(tmp_path: Path) -> None:
    folder = make(tmp_path / "idx")
    for path in folder.glob("wordings*"):
        path.unlink()
    assert upgrade(folder, FakeModel()).wordings
    with Index.open(folder, FakeModel()) as index:
        assert index.has_wordings


def test_interrupted_documents_are_read_again_after_an_upgrade(tmp_path: Path) -> None:
    folder, model = make(tmp_path / "idx", documents=1), FakeModel(dim=8, name="new")
    with Index.open(folder, FakeModel(), settings=SMALL) as index, pytest.raises(ZeroDivisionError):
        index.add([document(0), Document("cut", "abc", broken)], lang="en")
    with Index.open(folder, readonly=True) as index:
        assert [document.complete for document in index.documents()] == [True, False]
    upgrade(folder, model)
    with Index.open(folder, model) as index:
        report = index.add([document(0), Document("cut", "abc", document(9).sentences)], lang="en")
        assert (report.unchanged, report.replaced) == (1, 1)


def broken() -> Iterator[Sentence]:
    yield from document(9, 200).sentences()
    raise ZeroDivisionError


def test_lance_tables_are_neither_copied_nor_upgraded(tmp_path: Path) -> None:
    (tmp_path / "tables" / "state.lance").mkdir(parents=True)
    with pytest.raises(InputError, match=r"consists of Lance tables; copy the folder or bucket, which keeps old ver"):
        backup(tmp_path / "tables", tmp_path / "copy")
    with pytest.raises(InputError, match=r"consists of Lance tables; build them again from the texts"):
        upgrade(tmp_path / "tables", FakeModel())
    assert not (tmp_path / "copy").exists()

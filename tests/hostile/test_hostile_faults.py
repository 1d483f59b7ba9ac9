"""What bench/crash.py --faults and bench/damage.py found once, so that it is never found again."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests" / "index")]

from damage_kinds import MODEL, SETTINGS, _index  # noqa: E402

from phrasemate.cli.shell import RootGroup  # noqa: E402
from phrasemate.errors import CheckpointDamaged, IndexDamaged, InputError, PhraseIndexError, ReadError  # noqa: E402
from phrasemate.index import Index, manifest, schema  # noqa: E402
from phrasemate.utils.storage import ResumableSum  # noqa: E402


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _index(tmp_path_factory.mktemp("intact"))


@pytest.fixture
def folder(intact: Path, tmp_path: Path) -> Path:
    """An index to be changed."""
    return Path(shutil.copytree(intact, tmp_path / "index"))


def opened(folder: Path) -> Index:
    return Index.open(folder, MODEL, settings=SETTINGS, threads=1)


def change(folder: Path, statement: str) -> None:
    connection = sqlite3.connect(folder / "store.sqlite")
    with connection:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("name", ["SHMSIZE", "SHMOPEN", "SHMMAP", "FSYNC", "TRUNCATE", "DELETE"])
def test_a_log_that_cannot_be_written_is_not_damage(tmp_path: Path, name: str) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = getattr(sqlite3, f"SQLITE_IOERR_{name}")
    remedy = "check free space, memory and that the folder is there"
    with pytest.raises(PhraseIndexError, match=remedy) as caught, schema.translate_errors(tmp_path):
        raise error
    assert not isinstance(caught.value, IndexDamaged)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER DELETE ON documents BEGIN DELETE FROM sentences; END",
        "CREATE VIEW v AS SELECT * FROM sentences",
    ],
)
def test_a_store_that_brings_code_is_refused(folder: Path, statement: str) -> None:
    change(folder, statement)
    with pytest.raises(IndexDamaged, match="which no index has"):
        opened(folder)


def test_a_value_beyond_all_measure_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change(folder, "UPDATE sentences SET text = zeroblob(3000000) WHERE id = (SELECT min(id) FROM sentences)")
    monkeypatch.setattr(schema, "VALUE_BYTES", 1 << 20)
    with opened(folder) as index:
        assert any("too big" in problem for problem in index.verify().problems)


def test_sums_that_were_altered_are_not_gone_on_from(tmp_path: Path) -> None:
    path, facts = tmp_path / "sums.state", {"texts": "a"}
    resumable_sum = ResumableSum(path, facts, np.zeros((3, 2), np.float32))
    resumable_sum.add(2, np.arange(3), np.ones((3, 2), np.float32))
    resumable_sum.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    again = np.zeros((3, 2), np.float32)
    assert ResumableSum(path, facts, again).done == 2
    assert again.sum() == 3 * 2
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="checksum does not match"):
        ResumableSum(path, facts, again)


def test_kept_states_that_were_altered_are_made_again(tmp_path: Path) -> None:
    from phrasemate.training.frozen_states import Feed

    calls: list[int] = []
    contexts: Any = SimpleNamespace(ids=np.arange(8), bounds=np.arange(0, 9, 4), first=np.arange(2), name="x")
    feed = Feed([contexts], SimpleNamespace(width=3), 0, 32, lambda: None)  # type: ignore[arg-type]

    def computed(_: Any, start: int, stop: int) -> Any:
        calls.append(start)
        return np.arange(24, dtype=np.float16).reshape(8, 3)

    feed._computed = computed  # type: ignore[method-assign]
    path = tmp_path / "x.npy"
    for flip, times in ((None, 1), (None, 1), (140, 2), (-1, 3)):
        if flip is not None:
            content = bytearray(path.read_bytes())
            content[flip] ^= 4
            path.write_bytes(content)
        assert feed._opened(path, contexts, lambda *_: None).ravel().tolist() == list(range(24))
        assert len(calls) == times


def test_an_error_is_one_line_whatever_a_file_is_called() -> None:
    assert str(ReadError("a\nb.txt", 3, "x\u2028y", "fix it")) == "a b.txt, line 3: x y; fix it"
    assert ReadError("a\nb.txt", 3, "x", "y").file == "a\nb.txt"


def test_too_little_memory_is_one_line_in_the_terminal() -> None:
    app = typer.Typer(cls=RootGroup)

    @app.command()
    def one() -> None:
        raise MemoryError

    @app.command()
    def other() -> None: ...

    result = CliRunner().invoke(app, ["one"])
    assert result.exit_code == 1
    assert result.stderr.startswith("error: there is not enough memory")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "entry", [{"dim": "16"}, {"dim": 0}, {"generation": -1}, {"model_hash": None}, {"model_path": 3}, {"segment": []}]
)
def test_a_manifest_that_was_made_up(folder: Path, entry: dict[str, Any]) -> None:
    body = {k: v for k, v in json.loads((folder / "index.json").read_text("utf-8")).items() if k != "crc"}
    (folder / "index.json").write_bytes(manifest._canonical(body | entry))
    with pytest.raises(IndexDamaged, match="is corrupted"):
        opened(folder)


def test_a_checkpoint_of_nested_json(tmp_path: Path) -> None:
    from phrasemate.training.trainer import Checkpoint

    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "state.json").write_text("[" * 100_000)
    with pytest.raises(CheckpointDamaged, match="remove it to start again"):
        Checkpoint(tmp_path / "checkpoint").load()

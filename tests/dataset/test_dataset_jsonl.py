"""The data set on disk: written, read, and what is wrong with a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from phrasemate.dataset import ExamplePair, language_pairs, read_dataset, write
from phrasemate.errors import InputError, ReadError
from phrasemate.types import Phrase

MENU = ExamplePair(
    "Speisekarte",
    "menu",
    (Phrase("Die Speisekarte ist „kurz“.", 4, 15),),
    (Phrase("A menu.", 2, 6), Phrase("Menu!", 0, 4)),
)


def test_written_and_read(tmp_path: Path) -> None:
    (tmp_path / "de-en").mkdir()
    for split in ("train", "dev", "test"):
        assert write(tmp_path / "de-en" / f"{split}.jsonl", [MENU, ExamplePair("水", "water")]) == 2
    assert read_dataset(tmp_path, "de-en", "dev") == [MENU, ExamplePair("水", "water")]
    assert language_pairs(tmp_path) == ["de-en"]
    first = (tmp_path / "de-en" / "test.jsonl").read_text("utf-8").splitlines()[0]
    assert first == (
        '{"source": "Speisekarte", "target": "menu", "source_examples": [{"text": "Die Speisekarte ist „kurz“.", '
        '"start": 4, "end": 15}], "target_examples": [{"text": "A menu.", "start": 2, "end": 6}, '
        '{"text": "Menu!", "start": 0, "end": 4}]}'
    )


def test_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "fr-en").mkdir()
    (tmp_path / "fr-en" / "train.jsonl").write_text("")
    with pytest.raises(InputError, match=r"de-en.dev.jsonl: no such file; the pairs in .* are: fr-en"):
        read_dataset(tmp_path, "de-en", "dev")
    with pytest.raises(InputError, match="split 'all'; expected one of train, dev, test"):
        read_dataset(tmp_path, "fr-en", "all")


@pytest.mark.parametrize(
    "line",
    [
        '{"source": "a"',
        '["a", "b"]',
        '{"source": "a", "target": "b"}',
        '{"source": "a", "target": "b", "target_examples": [{"text": "b", "start": 1, "end": 1}]}',
        '{"source": "a", "target": "b", "source_examples": [{"text": "b", "start": 1, "end": 1}]}',
        '{"source": "a", "target": "b", "target_examples": [], "source_examples": [{"text": "b", "start": 0}]}',
        '{"source": "a", "target": "b", "source_examples": [{"text": "b", "start": 1e999, "end": 1}]}',
        "[" * 100_000,
    ],
    ids=lambda line: line[-20:],
)
def test_a_broken_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "de-en").mkdir()
    write(tmp_path / "de-en" / "test.jsonl", [MENU])
    with (tmp_path / "de-en" / "test.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(ReadError, match=r"test.jsonl, line 2: not a phrase pair with examples") as caught:
        read_dataset(tmp_path, "de-en", "test")
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("line", "fault"), [("", "a blank line"), ('{"source": "a"', "not JSON"), ('{"source": "a"}', "no source_examples")]
)
def test_the_fault_of_a_line_is_named(tmp_path: Path, line: str, fault: str) -> None:
    (tmp_path / "de-en").mkdir()
    (tmp_path / "de-en" / "test.jsonl").write_text(line + "\n")
    with pytest.raises(ReadError, match=rf"test.jsonl, line 1: not a phrase pair with examples \({fault}\)"):
        read_dataset(tmp_path, "de-en", "test")


def test_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "de-en").mkdir()
    (tmp_path / "de-en" / "test.jsonl").write_bytes('{"source": "Tür"}\n'.encode("latin-1"))
    with pytest.raises(ReadError, match="line 1: byte 0xFC at offset 13 is not UTF-8"):
        read_dataset(tmp_path, "de-en", "test")

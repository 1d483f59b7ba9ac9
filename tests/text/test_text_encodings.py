"""What is left of a text that is damaged within its encoding."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from phrasemate.errors import ReadError
from phrasemate.text import Corpus, SkippedInput, read


def texts(corpus: Corpus) -> list[str]:
    return [sentence.text for document in corpus for sentence in document.sentences()]


def write(path: Path, raw: bytes, packed: str = "") -> Path:
    path = path.with_name(path.name + packed)
    path.write_bytes(gzip.compress(raw) if packed else raw)
    return path


def error_of(path: Path, **options: Any) -> ReadError:
    with pytest.raises(ReadError) as caught:
        texts(read(path, **options))
    return caught.value


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
@pytest.mark.parametrize("packed", ["", ".gz"])
def test_damage_within_utf16_costs_its_line(tmp_path: Path, encoding: str, packed: str) -> None:
    lines = [f"Line {number:04} ü😀." for number in range(9000)]
    hurt = "\n".join(lines).replace("Line 7777", "Line \ud83d777") + "\n"
    path = write(tmp_path / "a.txt", hurt.encode(encoding, "surrogatepass") + b"x", packed)
    corpus = read(path, on_error="skip", encoding=encoding)
    assert texts(corpus) == lines[:7777] + lines[7778:]
    reason = f"what stands at column {{}} is not {encoding}"
    assert corpus.skipped == [
        SkippedInput(str(path), *at) for at in [(7778, reason.format(6)), (9001, reason.format(1))]
    ]
    error = error_of(path, encoding=encoding)
    assert (error.line, error.reason) == (7778, reason.format(6))


@pytest.mark.parametrize(("encoding", "hurt"), [("utf-16-le", b"\x3d\xd8"), ("gb18030", b"\xff")])
def test_a_document_is_read_up_to_what_is_not_in_its_encoding(tmp_path: Path, encoding: str, hurt: bytes) -> None:
    page = "".join(f"<p>{number}</p>\n" for number in range(3000)).encode(encoding)
    path = write(tmp_path / "a.html", page + hurt + page)
    corpus = read(path, on_error="skip", encoding=encoding)
    assert texts(corpus) == [str(number) for number in range(3000)]
    assert [(item.line, item.whole) for item in corpus.skipped] == [(0, True)]
    assert error_of(path, encoding=encoding).reason == f"not {encoding} (bytes that stand for no character)"

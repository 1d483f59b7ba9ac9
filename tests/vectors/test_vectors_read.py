"""fastText files: read as a plain loop reads them, and one clear error for each kind of damage."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from phrasemate.errors import InputError, ReadError
from phrasemate.text import SkippedInput
from phrasemate.vectors import WordVectors, read_fasttext, write_fasttext

GOOD = "3 2\nder 0.5 -1\nGröße 1e-3 2.25 \n東京 -0.125 7\n"


def plain(path: Path) -> tuple[list[str], list[list[float]]]:
    """The obvious way, without any check."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        rows = [line.rstrip(" \n").split(" ") for line in list(file)[1:]]
    return [row[0] for row in rows], [[float(value) for value in row[1:]] for row in rows]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def written(content: str | bytes, name: str = "a.vec") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written


@pytest.mark.parametrize("name", ["a.vec", "a.vec.gz"])
def test_as_a_plain_loop(write: Callable[..., Path], name: str) -> None:
    draw = np.random.default_rng(0)
    words = ["</s>", "don't", "naïve", "a\u00a0b", "銀行", "🙂", ",", *(f"w{i}" for i in range(500))]
    rows = "".join(f"{w} {' '.join(f'{v:.4f}' for v in draw.standard_normal(25))} \n" for w in words)
    content = f"{len(words)} 25\n{rows}".encode()
    path = write(gzip.compress(content) if name.endswith(".gz") else content, name)
    vectors = read_fasttext(path, language="xx")
    expected_words, expected = plain(path)
    assert list(vectors.words) == expected_words == words
    np.testing.assert_array_equal(vectors.matrix, np.array(expected, np.float32))
    assert (vectors.language, vectors.facts) == ("xx", {"method": "fastText", "file": name})


def test_the_first_ones(write: Callable[..., Path]) -> None:
    calls: list[tuple[int, int]] = []
    vectors = read_fasttext(write(GOOD), limit=2, progress=lambda *arguments: calls.append(arguments))
    assert vectors.words == ("der", "Größe")
    np.testing.assert_array_equal(vectors.matrix, np.array([[0.5, -1], [1e-3, 2.25]], np.float32))
    assert calls == [(2, 2)]
    assert len(read_fasttext(write(GOOD), limit=99)) == 3
    with pytest.raises(InputError, match="limit: 0"):
        read_fasttext(write(GOOD), limit=0)


def test_what_comes_after_the_limit_is_not_read(write: Callable[..., Path]) -> None:
    assert len(read_fasttext(write(GOOD + "broken\n\xff"), limit=3)) == 3


def test_a_word_twice(write: Callable[..., Path]) -> None:
    vectors = read_fasttext(write("3 1\na 1\na 2\nb 3\n"))
    assert vectors.words == ("a", "b")
    np.testing.assert_array_equal(vectors.matrix, [[1], [3]])


@pytest.mark.parametrize(
    ("content", "line", "expected"),
    [
        ("3 2\na 1 2\nb 1\nc 1 2\n", 3, "1 numbers, expected 2"),
        ("3 2\na 1 2\nb 1 2 3\nc 1 2\n", 3, "3 numbers, expected 2"),
        ("3 2\na 1 2\n\nc 1 2\n", 3, "0 numbers, expected 2"),
        ("3 2\na 1 2\nb c 2\nc 1 2\n", 3, "a value that is not a number"),
        ("3 2\na 1 2\nb 1  2\nc 1 2\n", 3, "3 numbers"),
        ("2 2\na 1 nan\nb 1 2\n", 2, "not finite"),
        ("2 2\na 1 2\nb 1 1e99\n", 3, "not finite"),
        ("2 2\n 1 2\nb 1 2\n", 2, "no word before the numbers"),
        ("4 2\na 1 2\nb 1 2\n", 0, "ends after 2 rows, but line 1 announces 4"),
        ("1 2\na 1 2\nb 1 2\n", 3, "more rows than the 1 that line 1 announces"),
        ("the 0.1 0.2 0.3\nof 0.1 0.2 0.3\n", 1, "begins with 'the 0.1 0.2 0.3'; expected the number of words"),
        ("3\na 1 2\n", 1, "begins with '3'"),
        ("0 2\n", 1, "begins with '0 2'"),
        ("-1 2\n", 1, "begins with '-1 2'"),
        ("999999999999999 300\na 1\n", 1, "more than the memory holds"),
        ("", 0, "an empty file"),
        (b"2 1\na 1\nGr\xf6\xdfe 2\n", 3, "byte 0xF6 at offset 10 is not UTF-8"),
        ("2 1\na 1\nb 2\n".encode("utf-16"), 0, "byte-order mark of UTF-16"),
        (b"PK\x03\x04" + bytes(100), 0, "ZIP archive"),
    ],
)
def test_damage(write: Callable[..., Path], content: str | bytes, line: int, expected: str) -> None:
    path = write(content)
    with pytest.raises(ReadError) as caught:
        read_fasttext(path)
    assert (caught.value.file, caught.value.line) == (str(path), line)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_truncated_gzip(write: Callable[..., Path], share: float) -> None:
    rows = "".join(f"w{i} {i / 7} {i / 3}\n" for i in range(20_000))
    packed = gzip.compress(f"20000 2\n{rows}".encode())
    path = write(packed[: int(share * len(packed))], "a.vec.gz")
    with pytest.raises(ReadError, match="the gzip data end too early; copy or download the file again") as caught:
        read_fasttext(path)
    assert 1000 < caught.value.line < 20_000


def test_no_gzip_and_no_file(write: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="not gzip data, though the name ends"):
        read_fasttext(write(GOOD, "a.vec.gz"))
    with pytest.raises(ReadError, match="No such file"):
        read_fasttext(tmp_path / "none.vec")


def test_what_is_skipped_is_reported(write: Callable[..., Path]) -> None:
    skipped: list[SkippedInput] = []
    vectors = read_fasttext(write(b"5 1\na 1\nb x\n\xff 2\nc 3\n"), skipped=skipped)
    assert vectors.words == ("a", "c")
    np.testing.assert_array_equal(vectors.matrix, [[1], [3]])
    assert [item.line for item in skipped] == [3, 4, 0]
    assert skipped[2].reason == "ends after 3 rows, but line 1 announces 5"
    with pytest.raises(ReadError, match="no word with a vector"):
        read_fasttext(write("1 2\na 1\n"), skipped=[])
    more: list[SkippedInput] = []
    assert read_fasttext(write("2 1\na 1\nb 2\nc 3\nd 4\n"), skipped=more).words == ("a", "b")
    assert [(item.line, item.reason, item.whole) for item in more] == [
        (4, "more rows than the 2 that line 1 announces", True)
    ]
    with pytest.raises(ReadError, match="byte-order mark of UTF-16; give another file"):
        read_fasttext(write(GOOD.encode("utf-16")), skipped=[])
    with pytest.raises(ReadError, match="an empty file"):
        read_fasttext(write(""), skipped=[])


@pytest.mark.parametrize("name", ["out.vec", "out.vec.gz"])
def test_written_and_read(few: WordVectors, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_fasttext(few, path)
    assert plain(path)[0] == list(few.words)
    vectors = read_fasttext(path)
    np.testing.assert_allclose(vectors.matrix, few.matrix, rtol=1e-6)
    with pytest.raises(InputError, match="already exists"):
        write_fasttext(few, path)
    write_fasttext(few, path, force=True)
    with pytest.raises(InputError, match="'New York' holds a space"):
        write_fasttext(WordVectors(("New York",), np.ones((1, 2), np.float32)), tmp_path / "x.vec")


@pytest.mark.parametrize("name", ["x.vec", "x.vec.gz"])
def test_writing_leaves_neighbours_and_the_old_file_until_the_new_is_whole(
    few: WordVectors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for other in (f"{name}.new", name):
        (tmp_path / other).write_text("mine")
    with monkeypatch.context() as patch:

        def full(vectors: WordVectors) -> Iterator[bytes]:
            yield b"4 3\n"
            raise OSError(28, "No space left on device")

        patch.setattr("phrasemate.vectors.word_vectors._lines", full)
        with pytest.raises(InputError, match=r"cannot be written \(No space left"):
            write_fasttext(few, tmp_path / name, force=True)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: "mine", f"{name}.new": "mine"}
    write_fasttext(few, tmp_path / name, force=True)
    assert read_fasttext(tmp_path / name).words == few.words
    assert (tmp_path / f"{name}.new").read_text() == "mine"


def test_half_a_character_cannot_be_written(tmp_path: Path) -> None:
    for word in ("a\ud800", "a\0b"):
        with pytest.raises(InputError, match=r"NUL or a lone surrogate"):
            write_fasttext(WordVectors((word,), np.ones((1, 2), np.float32)), tmp_path / "x.vec")
    assert list(tmp_path.iterdir()) == []

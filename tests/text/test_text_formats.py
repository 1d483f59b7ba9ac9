from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from phrasemate.errors import InputError
from phrasemate.text import read
from phrasemate.types import Sentence


def all_of(*paths: Path | str, **options: Any) -> list[Sentence]:
    return [sentence for document in read(*paths, **options) for sentence in document.sentences()]


def texts(*paths: Path | str, **options: Any) -> list[str]:
    return [sentence.text for sentence in all_of(*paths, **options)]


def numbered(*paths: Path | str, **options: Any) -> list[tuple[int, str]]:
    return [(sentence.line, sentence.text) for sentence in all_of(*paths, **options)]


@pytest.fixture(params=["", ".gz"])
def packed(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def write(path: Path, content: str | bytes, packed: str = "") -> Path:
    raw = content.encode() if isinstance(content, str) else content
    path = path.with_name(path.name + packed)
    path.write_bytes(gzip.compress(raw) if packed else raw)
    return path


def test_a_paragraph_a_line(tmp_path: Path, packed: str) -> None:
    path = write(tmp_path / "a.txt", "One ends. Two begins.\r\n\r\n   \n  Three, Dr. Four. \nno end", packed)
    expected = [(1, "One ends."), (1, "Two begins."), (4, "Three, Dr. Four."), (5, "no end")]
    assert numbered(path) == expected


def test_a_sentence_a_line(tmp_path: Path, packed: str) -> None:
    path = write(tmp_path / "a.txt", "One ends. Two begins.\r\n\n Three. Four.\n", packed)
    assert numbered(path, lines="sentence") == [(1, "One ends. Two begins."), (3, "Three. Four.")]


def test_json_lines_keep_the_other_fields(tmp_path: Path, packed: str) -> None:
    rows = [{"id": 7, "text": "A b. C d.", "tags": ["x"]}, {"text": ""}, {"text": "Ünï 😀."}]
    path = write(tmp_path / "a.jsonl", "\n\n".join(map(json.dumps, rows)), packed)
    metadata = {"id": 7, "tags": ["x"]}
    assert all_of(path) == [Sentence("A b.", 1, metadata), Sentence("C d.", 1, metadata), Sentence("Ünï 😀.", 5, {})]


def test_the_field_of_json_lines_can_be_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ndjson", '{"body": "A b.\\nC d.", "text": 5}\n')
    assert all_of(path, text_field="body") == [Sentence("A b.", 1, {"text": 5}), Sentence("C d.", 1, {"text": 5})]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (None, [(1, "en"), (2, "Hello."), (4, "Bye.")]),
        (2, [(1, "de"), (2, "Hallo."), (4, "Tschüs.")]),
        ("2", [(1, "de"), (2, "Hallo."), (4, "Tschüs.")]),
        ("de", [(2, "Hallo."), (4, "Tschüs.")]),
        ("en", [(2, "Hello."), (4, "Bye.")]),
    ],
)
def test_a_column_by_name_or_number(tmp_path: Path, packed: str, column: Any, expected: list[tuple[int, str]]) -> None:
    path = write(tmp_path / "a.tsv", "\ufeffen\tde\r\nHello.\tHallo.\r\n\r\nBye.\tTschüs.\r\n", packed)
    assert numbered(path, column=column) == expected


def test_quotation_marks_in_tables_are_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", '"One\t"two" three\n')
    assert texts(path, column=2) == ['"two" three']


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp1252", "UTF8"])
def test_encodings(tmp_path: Path, packed: str, encoding: str) -> None:
    path = write(tmp_path / "a.txt", "Grüße, Ċ\n€ 5\n".replace("Ċ", "c").encode(encoding), packed)
    assert numbered(path, encoding=encoding) == [(1, "Grüße, c"), (2, "€ 5")]


def test_a_line_feed_within_a_character_of_utf16_ends_no_line(tmp_path: Path) -> None:
    assert "Ċ".encode("utf-16-le") == b"\n\x01"
    path = write(tmp_path / "a.txt", "Ċa\nb\n".encode("utf-16-le"))
    assert texts(path, encoding="utf-16-le") == ["Ċa", "b"]


def test_a_byte_order_mark_is_not_text(tmp_path: Path, packed: str) -> None:
    path = write(tmp_path / "a.txt", b"\xef\xbb\xbfOne.\n", packed)
    assert texts(path) == ["One."]


def test_byte_order_marks_of_other_kinds_are_not_text(tmp_path: Path, packed: str) -> None:
    assert texts(write(tmp_path / "a.txt", b"\xef\xbb\xbf" * 2 + b"One.\n", packed)) == ["One."]
    path = write(tmp_path / "b.txt", "\ufeff一。\n\ufeff二。\n".encode("gb18030"), packed)
    assert texts(path, encoding="gb18030") == ["一。", "\ufeff二。"]


def test_an_encoding_that_says_at_the_beginning_what_it_is(tmp_path: Path, packed: str) -> None:
    path = write(tmp_path / "a.txt", "안녕 하세요.\n한국어.\nabc\n".encode("iso2022_kr"), packed)
    assert texts(path, encoding="ISO-2022-KR") == ["안녕 하세요.", "한국어.", "abc"]


def test_several_members_of_gzip(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"One.\nTw") + gzip.compress(b"o.\n"))
    assert texts(path) == ["One.", "Two."]


def test_a_file_named_by_the_user_needs_no_suffix(tmp_path: Path) -> None:
    assert texts(write(tmp_path / "news.de", "Eins.\n")) == ["Eins."]
    assert texts(write(tmp_path / "table", "Eins.\tOne.\n"), column=2) == ["One."]


def test_readme_suffix_in_capitals(tmp_path: Path) -> None:
    assert texts(write(tmp_path / "A.TXT", "One.\n", ".GZ")) == ["One."]


@pytest.mark.parametrize(
    "options",
    [
        {"lines": "words"},
        {"on_error": "ignore"},
        {"encoding": "utf-99"},
        {"encoding": "base64"},
        {"encoding": "utf-7"},
        {"encoding": "unicode_escape"},
        {"column": 0},
        {"column": "0"},
        {"column": -1},
        {"column": ""},
    ],
)
def test_senseless_options_are_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="expected"):
        read("a.txt", **options)


def test_no_path_is_refused() -> None:
    with pytest.raises(InputError, match="no path given"):
        read()

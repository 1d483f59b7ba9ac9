from __future__ import annotations

import gzip
import json
import os
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hostile import TMX

import phrasemate.text.formats.registry as readers_module
import phrasemate.text.text_file as lines_module
from phrasemate.errors import ReadError
from phrasemate.text import Corpus, SkippedInput, read
from phrasemate.text.text_file import LINE_LIMIT, without_options

UNIT = '<tu tuid="the name of a unit that is long"><tuv xml:lang="en"><seg>One.</seg></tuv></tu>\n'


def texts(corpus: Corpus) -> list[str]:
    return [sentence.text for document in corpus for sentence in document.sentences()]


def write(path: Path, content: str | bytes, packed: str = "") -> Path:
    raw = content.encode() if isinstance(content, str) else content
    path = path.with_name(path.name + packed)
    path.write_bytes(gzip.compress(raw) if packed else raw)
    return path


def error_of(*paths: Path | str, **options: Any) -> ReadError:
    with pytest.raises(ReadError) as caught:
        texts(read(*paths, **options))
    assert "\n" not in str(caught.value)
    assert "; " in str(caught.value)
    return caught.value


LINES = [  # file, content, its bad line, what the error says, what it advises, what remains
    ("a.txt", b"One.\nGr\xfc\xdfe Sie.\nTwo.\n", 2, "byte 0xFC at offset 7 is not UTF-8 (Latin-1?)", "latin-1"),
    ("a.txt", b"One.\nIt\x92s fine.\nTwo.\n", 2, "byte 0x92 at offset 7 is not UTF-8 (Windows-1252?)", "CP1252"),
    ("a.txt", "One.\nпривет мир\nTwo.\n".encode("cp1251"), 2, "East Asian encoding?", "--encoding"),
    ("a.txt", b"One.\nA\x00b.\nTwo.\n", 2, "a NUL character at column 2", "--on-error skip"),
    ("a.txt", "One.\n" + "x" * (LINE_LIMIT + 1) + "\nTwo.\n", 2, "a line of 1,000,001 characters", "split it"),
    ("a.txt", "One.\n" + "ü" * (4 * LINE_LIMIT) + "\nTwo.\n", 2, "a line of 4,000,000 characters", "split it"),
    ("a.tsv", "x\tOne.\nx\nx\tTwo.\n", 2, "1 column; expected at least 2", "--column"),
    ("a.jsonl", '{"text": "One."}\n{"text": "x"\n{"text": "Two."}\n', 2, "broken JSON at column 13", "fix"),
    ("a.jsonl", '{"text": "One."}\n["x"]\n{"text": "Two."}\n', 2, "a list; expected a JSON object", "fix"),
    (
        "a.jsonl",
        '{"text": "One."}\n{"id": 1, "b": 2}\n{"text": "Two."}\n',
        2,
        "no field 'text'; the fields here are 'id', 'b'",
        "--text-field",
    ),
    ("a.jsonl", '{"text": "One."}\n{}\n{"text": "Two."}\n', 2, "the fields here are none", "--text-field"),
    ("a.jsonl", '{"text": "One."}\n{"text": null}\n{"text": "Two."}\n', 2, "holds null; expected a string", "fix"),
    ("a.jsonl", '{"text": "One."}\n{"text": 5}\n{"text": "Two."}\n', 2, "holds a number; expected a string", "fix"),
    ("a.jsonl", '{"text": "One."}\n{"text": "x", "n": NaN}\n{"text": "Two."}\n', 2, "NaN is not a JSON number", "fix"),
    ("a.jsonl", '{"text": "One."}\n{"text": "x", "n": 1e999}\n{"text": "Two."}\n', 2, "1e999 is too large", "fix"),
    ("a.jsonl", '{"text": "One."}\n{"text": "\\ud83d"}\n{"text": "Two."}\n', 2, "half a surrogate pair", "fix"),
    ("a.jsonl", '{"text": "One."}\n{"text": "a\\u0000"}\n{"text": "Two."}\n', 2, "a NUL character", "fix"),
    ("a.jsonl", '{"text": "One."}\n' + "[" * 200_000 + '\n{"text": "Two."}\n', 2, "nested too deeply", "fix"),
    ("a.jsonl", '{"text": "One."}\n{"n": ' + "9" * 5000 + '}\n{"text": "Two."}\n', 2, "digits", "fix"),
]


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize(("name", "content", "line", "reason", "remedy"), LINES, ids=range(len(LINES)))
def test_a_damaged_line(
    tmp_path: Path, name: str, content: str | bytes, line: int, reason: str, remedy: str, packed: str
) -> None:
    path = write(tmp_path / name, content, packed)
    options: dict[str, Any] = {"column": 2} if name == "a.tsv" else {}
    error = error_of(path, **options)
    assert (error.file, error.line) == (str(path), line)
    assert reason in error.reason
    assert remedy.lower() in str(error).lower()
    corpus = read(path, on_error="skip", **options)
    for _ in range(2):  # what is skipped twice is listed once
        assert texts(corpus) == ["One.", "Two."]
        assert corpus.skipped == [SkippedInput(str(path), line, error.reason)]


@pytest.mark.parametrize(
    ("remedy", "bare", "with_others"),
    [
        ("give --encoding latin-1 or convert it: iconv", "convert it: iconv", None),
        ("give the right --encoding or convert the file with iconv", "convert the file with iconv", None),
        ("give its --encoding or convert it with iconv", "convert it with iconv", None),
        ("give it with --encoding, or convert the file to UTF-8", "convert the file to UTF-8", None),
        ("give the right one, perhaps --encoding utf-16", "give the right one", None),
        ("fix it or use --on-error skip", "fix it", "fix it or use --on-error skip"),
        ("convert, rename or move it, or use --on-error skip", "convert, rename or move it", ""),
        ("fix the row or choose another --column", "fix the row", ""),
        ("check the path", "check the path", None),
    ],
)
def test_where_there_are_not_options_errors_tell_of_none(remedy: str, bare: str, with_others: str | None) -> None:
    with pytest.raises(ReadError) as caught, without_options():
        raise ReadError("a", 1, "no field 'text' (choose one with --text-field)", remedy)
    assert (caught.value.reason, caught.value.remedy) == ("no field 'text'", bare)
    with pytest.raises(ReadError) as caught, without_options(encoding_only=True):
        raise ReadError("a", 1, "bad", remedy)
    assert caught.value.remedy == {None: bare, "": remedy}.get(with_others, with_others)


FILES = [
    ("a.txt", b"", "an empty file"),
    ("a.txt", b"\xef\xbb\xbf\n  \n\r\n", "no text in it"),
    ("a.jsonl", b'{"text": ""}\n', "no text in it"),
    ("a.tsv", b"id\tbody\n1\tx\n", "no column 'de'; the columns here are 'id', 'body'"),
    ("a.tsv", b"id\tde\n", "no text in it"),
    ("a.txt", "Hällo.\n".encode("utf-16"), "begins with the byte-order mark of UTF-16"),
    ("a.txt", "Hello, world of text.\n".encode("utf-32"), "begins with the byte-order mark of UTF-32"),
    ("a.txt", "Hello, world of text.\n".encode("utf-16-le"), "every other byte is zero, as in UTF-16-LE"),
    ("a.txt", "Hello, world of text.\n".encode("utf-16-be"), "every other byte is zero, as in UTF-16-BE"),
    ("a.txt", b"%PDF-1.7\n...", "a PDF file"),
    ("a.txt", gzip.compress(b"One.\n", mtime=0), "gzip data in a file whose name does not end in .gz"),
    ("a.txt", bytes(range(256)) * 9, "binary data"),
    ("a.txt.gz", b"One.\n", "not gzip data"),
    ("a.txt.gz", gzip.compress(b"", mtime=0), "no text in it"),
    ("a.txt.gz", gzip.compress(b"One.\n", mtime=0)[:-6], "the gzip data end too early"),
    ("a.ppt", b"PK", "the suffix '.ppt' is not one that is read; expected .txt"),
    ("a.docx.gz", b"x", "the suffix '.docx.gz' is not one that is read"),
    ("a.xml.gz", b"<a/>\n", "the suffix '.xml.gz' is not one that is read"),
]


@pytest.mark.parametrize(("name", "raw", "reason"), FILES, ids=range(len(FILES)))
def test_a_file_that_is_not_text(tmp_path: Path, name: str, raw: bytes, reason: str) -> None:
    path = write(tmp_path / name, raw)
    write(tmp_path / "z.txt", "Last.\n")
    error = error_of(path, column="de")
    assert error.file == str(path)
    assert reason in error.reason
    corpus = read(path, tmp_path / "z.txt", column="de", on_error="skip")
    for _ in range(2):
        assert texts(corpus)[-1] == "Last."
        (skipped,) = corpus.skipped
        assert skipped.whole
        assert (skipped.file, skipped.reason) == (str(path), error.reason)


def test_an_office_document_is_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.txt", "w") as file:
        file.writestr("x", "x")
    assert "a ZIP archive or an Office document; expected text" in error_of(tmp_path / "a.txt").reason


def test_gzip_that_is_cut_short_gives_what_came_before(tmp_path: Path) -> None:
    lines = [os.urandom(40).hex() for _ in range(20_000)]
    raw = gzip.compress("\n".join(lines).encode())
    path = write(tmp_path / "a.txt.gz", raw[: len(raw) // 2])
    corpus = read(path, on_error="skip", lines="sentence")
    result = texts(corpus)
    assert result == lines[: len(result)]
    assert 5_000 < len(result) < 10_100
    assert corpus.skipped == [SkippedInput(str(path), len(result) + 1, "the gzip data end too early", whole=True)]
    assert error_of(path).line == len(result) + 1


def test_what_gzip_data_hold_before_their_damage_is_kept(tmp_path: Path) -> None:
    lines = [f"Line {number} of the text." for number in range(2000)]
    raw = gzip.compress("\n".join(lines).encode())
    for encoding in ("utf-8", "utf-16-le"):
        raw = gzip.compress("\n".join(lines).encode(encoding))
        corpus = read(write(tmp_path / "a.txt.gz", raw[:-20]), on_error="skip", encoding=encoding)
        result = texts(corpus)
        assert result == lines[: len(result)]
        assert len(result) > 1900
        assert [item.reason for item in corpus.skipped] == ["the gzip data end too early"]


def test_what_follows_gzip_data(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt.gz", gzip.compress(b"One.\n") + b"garbage")
    corpus = read(path, on_error="skip")
    assert texts(corpus) == ["One."]
    assert corpus.skipped == [SkippedInput(str(path), 2, "something else follows the gzip data", whole=True)]


def test_damage_within_gzip(tmp_path: Path) -> None:
    raw = bytearray(gzip.compress(b"One.\n"))
    raw[-8] ^= 1  # the checksum
    assert "the gzip data are damaged (CRC" in error_of(write(tmp_path / "a.txt.gz", bytes(raw))).reason


def test_a_character_cut_off_at_the_end(tmp_path: Path) -> None:
    error = error_of(write(tmp_path / "a.txt", "One.\nTwo €".encode()[:-1]))
    assert error.reason == "the text ends within a UTF-8 character at offset 9"


@pytest.mark.parametrize(
    ("encoding", "raw"), [("utf-16", b"\xff\xfea\0\n\0\0\xd8b\0"), ("shift_jis", b"One.\n\xff\xff\n")]
)
def test_text_that_is_not_in_the_encoding_that_was_named(tmp_path: Path, encoding: str, raw: bytes) -> None:
    error = error_of(write(tmp_path / "a.txt", raw), encoding=encoding)
    assert encoding in error.reason
    assert "--encoding" in error.remedy


def test_a_file_in_another_encoding_is_given_up(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "Good.\n" + "Größe.\n" * 5000, "")
    path.write_bytes(path.read_text().encode("latin-1"))
    corpus = read(path, on_error="skip")
    assert texts(corpus) == ["Good."]
    assert len(corpus.skipped) == 1000 + 1
    assert corpus.skipped[-1].reason == "1,000 of the first 1,001 lines are damaged; the rest was not read"
    assert corpus.skipped[-1][1:4:2] == (1002, True)


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_so_much_damage_is_not_listed_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(lines_module, "_MOST_BAD", 50)
    good, bad = ('{"text": "One."}\n', "{}\n") if name == "a.jsonl" else ("One.,x\n", '"One"x\n')
    corpus = read(write(tmp_path / name, (good * 3 + bad) * 100), on_error="skip")
    assert len(texts(corpus)) == 3 * 50
    assert len(corpus.skipped) == 50 + 1
    assert corpus.skipped[-1].reason == "50 damaged lines; the rest was not read"
    assert corpus.skipped[-1][1:4:2] == (201, True)


def test_records_that_are_too_large_come_to_an_end_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "_MOST_BAD", 5)
    monkeypatch.setattr(readers_module, "METADATA", 20)
    corpus = read(write(tmp_path / "a.tmx", TMX.replace("<body>", "<body>" + UNIT * 20)), on_error="skip", lang="en")
    assert texts(corpus) == []
    assert [item.whole for item in corpus.skipped] == [False] * 5 + [True]


def test_damage_after_a_damaged_record_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers_module, "METADATA", 60)
    corpus = read(
        write(tmp_path / "a.tmx", TMX.replace("</body>", UNIT.replace('tuid="', 'tuid="' + "x" * 40) + "<broken")),
        on_error="skip",
        lang="en",
    )
    assert len(texts(corpus)) == 1
    first, second = corpus.skipped
    assert (first.whole, second.whole) == (False, True)
    assert "metadata of 83 characters; expected at most 60" in first.reason


@pytest.mark.parametrize(("count", "fits"), [(9_990, True), (10_000, False)])
def test_metadata_have_a_limit(tmp_path: Path, count: int, fits: bool) -> None:
    record = '{"text": "One.", "x": "' + "y" * count + '"}\n'
    path = write(tmp_path / "a.jsonl", record + '{"text": "Two."}\n')
    assert texts(read(path, on_error="skip")) == ["One.", "Two."][not fits :]
    if not fits:
        reason = "metadata of 10,009 characters; expected at most 10,000 beside the text; take out"
        with pytest.raises(ReadError, match=f"line 1: {reason}"):
            texts(read(path))


@pytest.mark.parametrize(("depth", "fits"), [(99, True), (100, False), (980, False)])
def test_json_can_be_read_again_wherever_that_is(tmp_path: Path, depth: int, fits: bool) -> None:
    brackets = "[" * depth + "]" * depth
    path = write(
        tmp_path / "a.jsonl", '{"text": "[[One \\"[[.", "x": ' + brackets + '}\n{"text": "' + "[" * 200 + '"}\n'
    )
    corpus = read(path, on_error="skip", lines="sentence")
    assert texts(corpus) == ['[[One "[[.', "[" * 200][not fits :]
    assert ["nested too deeply" in item.reason for item in corpus.skipped] == [True] * (not fits)


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_a_line_of_50_mb_takes_little_memory(tmp_path: Path, packed: str) -> None:
    path = tmp_path / f"a.txt{packed}"
    with gzip.open(path, "wb", compresslevel=1) if packed else path.open("wb") as file:
        file.write(b"One.\n")
        for _ in range(50):
            file.write(b"word " * 200_000)
        file.write(b"\nTwo.\n")
    corpus = read(path, on_error="skip")
    tracemalloc.start()
    try:
        assert texts(corpus) == ["One.", "Two."]
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    reason = "a line of 50,000,000 characters; expected at most 1,000,000"
    assert corpus.skipped == [SkippedInput(str(path), 2, reason)]
    assert str(error_of(path)) == f"{path}, line 2: {reason}; split it into lines or use --on-error skip"


def test_a_line_at_the_limit_is_read(tmp_path: Path) -> None:
    for line_end in ("\r\n", ""):
        path = write(tmp_path / "a.txt", "😀" * LINE_LIMIT + line_end)
        assert list(map(len, texts(read(path, lines="sentence")))) == [LINE_LIMIT]


@pytest.mark.slow
def test_many_lines_take_little_memory(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "A line of text. And more of it.\n" * 20_000)
    tracemalloc.start()
    try:
        (document,) = read(path)
        assert sum(1 for _ in document.sentences()) == 40_000
        assert tracemalloc.get_traced_memory()[1] < 2_500_000
    finally:
        tracemalloc.stop()


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "link.txt").symlink_to(tmp_path / "gone.txt")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".hidden.txt").write_text("x")
    assert error_of(tmp_path / "no").reason == "no such file or folder"
    assert error_of(tmp_path / "link.txt").reason == "a link to nothing"
    assert error_of("x" * 5000).reason == "cannot be looked up (File name too long)"
    assert error_of(tmp_path / "empty").reason.startswith("a folder without a file to read; expected .txt")
    corpus = read(tmp_path / "no", tmp_path / "empty", on_error="skip")
    assert corpus.documents == 0
    assert [Path(skipped.file).name for skipped in corpus.skipped] == ["no", "empty"]


def test_a_folder_with_links_in_circles(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "One.\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "up").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to(tmp_path / "self")
    (tmp_path / "sub" / "a.txt").symlink_to(tmp_path / "a.txt")
    os.mkfifo(tmp_path / "sub" / "pipe.txt")
    corpus = read(tmp_path, on_error="skip")
    assert texts(corpus) == ["One.", "One."]
    assert [(Path(skipped.file).name, skipped.reason) for skipped in corpus.skipped] == [
        ("self", "a link to nothing or in a circle"),
        ("pipe.txt", "neither a file nor a folder"),
        ("up", "a folder that was read already, by another path"),
    ]


def test_other_files_of_a_folder_are_never_passed_over_in_silence(tmp_path: Path) -> None:
    for name in ("a.txt", "b.png", "c", "d.rst", ".e"):
        write(tmp_path / name, "One.\n")
    corpus = read(tmp_path)
    assert texts(corpus) == ["One."]
    assert [Path(skipped.file).name for skipped in corpus.skipped] == ["b.png", "c", "d.rst"]
    assert "a name without a suffix" in corpus.skipped[1].reason


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.txt", "One.\n")
    (document,) = read(path)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(lines_module._CountingFile, "__init__", refuse)
    with pytest.raises(ReadError, match=r"a\.txt: cannot be read \(Permission denied\); check"):
        list(document.sentences())
    monkeypatch.setattr(Path, "open", refuse)
    assert "Permission denied" in error_of(path).reason
    monkeypatch.setattr(Path, "iterdir", refuse)
    assert error_of(tmp_path).reason == "cannot be listed (Permission denied)"


def test_a_file_that_goes_between_two_passes(tmp_path: Path) -> None:
    corpus = read(write(tmp_path / "a.txt", "One.\n"))
    (document,) = corpus
    (tmp_path / "a.txt").unlink()
    with pytest.raises(ReadError, match="No such file"):
        list(document.sentences())
    write(tmp_path / "a.txt", "One.\n")
    skipping = read(tmp_path / "a.txt", on_error="skip")
    (document,) = skipping
    (tmp_path / "a.txt").unlink()
    assert list(document.sentences()) == []
    assert "No such file" in skipping.skipped[0].reason
    with pytest.raises(ReadError, match="No such file"):
        list(corpus)


def test_an_error_comes_when_its_file_is_reached(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "One.\n")
    write(tmp_path / "b.txt", b"\xff\n")
    documents = iter(read(tmp_path))
    assert [sentence.text for sentence in next(documents).sentences()] == ["One."]
    with pytest.raises(ReadError, match=r"b\.txt, line 1"):
        list(next(documents).sentences())


def test_metadata_of_many_sentences_have_a_limit(tmp_path: Path) -> None:
    """An index holds them once for each sentence: 9,009 characters of JSON, 2,220 times, are 20 million."""
    lines = [json.dumps({"text": "Go on. " * count, "x": "y" * 9_000}) + "\n" for count in (2_221, 2_220)]
    path = write(tmp_path / "a.jsonl", "".join(lines))
    reason = "metadata of 9,009 characters with each of 2,221 sentences; expected at most 20,000,000 together"
    with pytest.raises(ReadError, match=f"line 1: {reason}; "):
        texts(read(path))
    corpus = read(path, on_error="skip")
    assert len(texts(corpus)) == 2_220
    assert [(item.line, item.reason) for item in corpus.skipped] == [(1, reason)]
    assert texts(read(path, lines="sentence"))[0].startswith("Go on. Go on.")  # one sentence: once


def test_metadata_of_an_honest_book(tmp_path: Path) -> None:
    line = json.dumps({"text": "So it goes on and on, and on to the end. " * 20_000, "x": "y" * 900}) + "\n"
    assert len(texts(read(write(tmp_path / "a.jsonl", line)))) == 20_000


@pytest.mark.parametrize(
    "suffix",
    [
        *("rst", "tex", "TEX", "rst.gz", "strings", "resx", "arb", "dita", "sgm", "toml", "doc", "mobi", "xml", "svg"),
    ],
)
def test_other_formats_are_refused_by_name_and_never_indexed_with_their_markup(tmp_path: Path, suffix: str) -> None:
    error = error_of(write(tmp_path / f"a.{suffix}", "One.\n"))
    assert "not one that is read; expected .txt, .tsv" in error.reason

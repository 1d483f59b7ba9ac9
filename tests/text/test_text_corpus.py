from __future__ import annotations

import errno
import gc
import gzip
import io
import json
import os
import tempfile
import threading
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest

from phrasemate.errors import InputError, ReadError
from phrasemate.index.manifest import FORMAT
from phrasemate.text import corpus as corpus_module
from phrasemate.text import read


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        raw = f"In {name}.\n".encode()
        path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)


def test_folders_are_read_in_order_and_hidden_files_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "c", "b.txt", "a/z.txt", "a/b/c.tsv", "a.txt", "B.txt", ".hidden.txt", ".git/x.txt", "ü.txt.gz")
    expected = ["B.txt", "a/b/c.tsv", "a/z.txt", "a.txt", "b.txt", "ü.txt.gz"]
    monkeypatch.chdir(tmp_path)
    for path in ("c", "c/", Path("c")):
        assert [document.name for document in read(path)] == [f"c/{name}" for name in expected]
    absolute = [document.name for document in read(tmp_path / "c")]
    assert absolute == [(tmp_path / "c" / name).as_posix() for name in expected]
    assert [document.name for document in read("c/../c/a.txt", "c/b.txt")] == ["c/../c/a.txt", "c/b.txt"]
    monkeypatch.chdir(tmp_path / "c")
    assert [document.name for document in read(".")] == expected


def test_a_document_is_called_by_the_path_that_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "a.txt", "b/c.txt")
    monkeypatch.chdir(tmp_path)
    for path, name in (
        ("./a.txt", "a.txt"),
        (".//b//c.txt", "b/c.txt"),
        ("./b/", "b/c.txt"),
        (tmp_path / "a.txt",) * 2,
    ):
        assert [document.name for document in read(path)] == [str(name)]


def test_a_file_that_is_given_more_than_once_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "d/a.txt", "d/b.txt")
    monkeypatch.chdir(tmp_path)
    for more in ("d/a.txt", "./d//a.txt", tmp_path / "d/a.txt", "d"):
        corpus = read("d/b.txt", "d/a.txt", more)
        assert [document.name for document in corpus] == ["d/b.txt", "d/a.txt"]
        assert corpus.documents == 2


@pytest.mark.parametrize("lang", ["", "de", "de_AT", "zh-Hant-TW", "yue", "SL", "x-mine", "*"])
def test_a_language_is_a_code(tmp_path: Path, lang: str) -> None:
    make(tmp_path, "a.txt")
    (document,) = read(tmp_path / "a.txt", lang=lang)
    assert [sentence.text for sentence in document.sentences()] == ["In a.txt."]


@pytest.mark.parametrize("lang", ["english", "a b/c", "d", "x", "de-", "de--AT", "de\n", "дe", "en-" + "x" * 9])
def test_what_is_not_code_is_said_before_anything_is_read(tmp_path: Path, lang: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path / "nothing.txt", lang=lang)
    assert str(caught.value) == f"language {lang!r}; expected a code such as de or zh-Hant"


def test_indexes_in_a_folder_are_not_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One.\n")
    for name in ("idx", "deep/idx"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "index.json").write_text(json.dumps({"format": FORMAT}))
    for name in ("state.lance", "phrases.lance"):
        (tmp_path / "tables" / name).mkdir(parents=True)
    assert [document.name for document in read(tmp_path)] == [(tmp_path / "a.txt").as_posix()]
    with pytest.raises(ReadError, match=r"idx: an index of phrasemate, not text"):
        list(read(tmp_path / "idx"))
    (tmp_path / "deep" / "index.json").write_text('{"format": "something else"}')
    names = [(tmp_path / name).as_posix() for name in ("a.txt", "deep/index.json")]
    assert [document.name for document in read(tmp_path)] == names


def test_folders_that_link_to_one_another_are_read_once(tmp_path: Path) -> None:
    """Each of twenty folders holds two links to the next: a million ways to the last one."""
    for number in range(20):
        make(tmp_path, f"d{number:02}/a.txt")
        for name in "xy":
            (tmp_path / f"d{number:02}" / name).symlink_to(tmp_path / f"d{number + 1:02}")
    make(tmp_path, "d20/a.txt")
    corpus = read(tmp_path / "d00", on_error="skip")
    assert corpus.documents == 21
    reasons = [item.reason for item in corpus.skipped]
    assert reasons == ["a folder that was read already, by another path"] * 20
    with pytest.raises(ReadError, match=r"d18(/x)?/y: a folder that was read already|/y: a folder that was read"):
        list(read(tmp_path / "d00"))


def test_folders_within_one_another_without_end(tmp_path: Path) -> None:
    results = [tmp_path / "f"]
    while len(results) < 1000:
        results[-1].mkdir()
        results.append(results[-1] / "d")
    (results[-2] / "a.txt").write_text("One.\n")
    try:
        assert [s.text for document in read(tmp_path) for s in document.sentences()] == ["One."]
    finally:  # shutil.rmtree goes in with a function for each
        (results[-2] / "a.txt").unlink()
        for folder in results[-2::-1]:
            folder.rmdir()


def test_one_entry_that_cannot_be_looked_at_is_not_others_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "a.txt", "b/c.txt", "d/e.txt")
    (tmp_path / "long.txt").symlink_to("x" * 300)
    usual = corpus_module.kind

    def refuse(path: Path) -> str:
        if path.name == "b":
            raise PermissionError(13, "Permission denied")
        return usual(path)

    monkeypatch.setattr(corpus_module, "kind", refuse)
    corpus = read(tmp_path, on_error="skip")
    assert [Path(document.name).name for document in corpus] == ["a.txt", "e.txt"]
    assert [(Path(item.file).name, item.reason) for item in corpus.skipped] == [
        ("b", "cannot be looked at (Permission denied)"),
        ("long.txt", "cannot be looked at (File name too long)"),
    ]


def test_a_corpus_can_be_read_again(tmp_path: Path) -> None:
    make(tmp_path, "a.txt", "b.txt")
    corpus = read(tmp_path)
    first, second = ([[*document.sentences()] for document in corpus] for _ in range(2))
    assert first == second == [[s] for s in first[0] + first[1]]
    assert corpus.documents == 2
    assert corpus.size == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert corpus.skipped == []


def test_passes_over_one_document_do_not_disturb_each_other(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One.\nTwo.\n")
    (document,) = read(tmp_path / "a.txt")
    left, right = document.sentences(), document.sentences()
    assert [next(left).line, next(right).line, next(left).line, next(right).line] == [1, 1, 2, 2]


def test_the_digest_tells_content_and_reading(tmp_path: Path) -> None:
    def digest(path: Path, **options: str) -> str:
        (document,) = read(path, **options)  # type: ignore[arg-type]
        return document.digest

    (tmp_path / "a.txt").write_bytes(b"One.\n")
    (tmp_path / "b.txt").write_bytes(b"One.\n")
    (tmp_path / "a.tsv").write_bytes(b"One.\n")
    a = digest(tmp_path / "a.txt")
    assert a == digest(tmp_path / "b.txt") == digest(tmp_path / "a.txt", column="x", text_field="y", on_error="skip")
    others = [digest(tmp_path / "a.txt", lines="sentence"), digest(tmp_path / "a.txt", lang="de")]
    others += [digest(tmp_path / "a.txt", encoding="latin-1"), digest(tmp_path / "a.tsv")]
    others += [digest(tmp_path / "a.tsv", column="1")]
    (tmp_path / "a.txt").write_bytes(b"One!\n")
    others.append(digest(tmp_path / "a.txt"))
    assert len({a, *others}) == 7
    how = "\0".join(["5", "txt", "paragraph", "", "utf-8", "False", ""]).encode()
    assert a == sha256(how + b"One.\n").hexdigest()
    (tmp_path / "c.txt").write_bytes("One.".encode("utf-16"))
    how = "\0".join(["6", "txt", "paragraph", "", "utf-16", "False", ""]).encode()
    assert digest(tmp_path / "c.txt", encoding="utf-16") == sha256(how + "One.".encode("utf-16")).hexdigest()


@pytest.mark.parametrize("packed", [False, True])
def test_progress_is_in_bytes_of_the_file(tmp_path: Path, packed: bool) -> None:
    raw = os.urandom(300_000).hex().encode()
    raw = b"\n".join(raw[at : at + 60] for at in range(0, len(raw), 60))
    path = tmp_path / ("a.txt.gz" if packed else "a.txt")
    path.write_bytes(gzip.compress(raw) if packed else raw)
    (document,) = read(path)
    assert document.size == path.stat().st_size
    assert document.consumed() == 0
    records = []
    for _ in document.sentences():
        records.append(document.consumed())
    assert records == sorted(records)
    assert 0 < records[0] < document.size == document.consumed()
    next(document.sentences())
    assert document.consumed() == records[0]


def stdin(monkeypatch: pytest.MonkeyPatch, raw: bytes) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(raw)))


@pytest.mark.parametrize(
    "raw",
    [
        b"One. Two.\n",
        gzip.compress(b"One. Two.\n", mtime=0),
        b'\xef\xbb\xbf{"text": "One. Two."}\n',
        b"One.\tx\nTwo.\ty\n",
    ],
)
def test_standard_input_can_be_read_again(monkeypatch: pytest.MonkeyPatch, raw: bytes) -> None:
    stdin(monkeypatch, raw)
    corpus = read("-", column=1 if b"\t" in raw else None)
    for _ in range(2):
        (document,) = corpus
        assert document.name == "stdin"
        assert [s.text for s in document.sentences()] == [s.text for s in document.sentences()] == ["One.", "Two."]
        assert document.consumed() == document.size == len(raw)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-be", "utf-32-be", "cp037"])
@pytest.mark.parametrize("text", ['{"text": "Schön."}\n{"text": "Gut."}\n', "<html><p>Schön.<p>Gut."])
def test_standard_input_in_another_encoding(monkeypatch: pytest.MonkeyPatch, encoding: str, text: str) -> None:
    stdin(monkeypatch, text.encode(encoding))
    texts = [s.text for document in read("-", encoding=encoding) for s in document.sentences()]
    assert texts == ["Schön.", "Gut."]


@pytest.mark.parametrize("begins", ["<!DOCTYPE html>\n", "<!doctype html><title>Schön.</title>"])
def test_a_page_on_standard_input_need_not_have_its_element(monkeypatch: pytest.MonkeyPatch, begins: str) -> None:
    stdin(monkeypatch, f"{begins}<p>Gut.".encode())
    assert [s.text for document in read("-") for s in document.sentences()][-1] == "Gut."


def test_a_long_line_of_json_on_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, json.dumps({"text": "语" * 400_000}, ensure_ascii=False).encode())
    corpus = read("-", lines="sentence")
    assert [len(s.text) for document in corpus for s in document.sentences()] == [400_000]


def test_text_that_only_resembles_json_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, b"{curly} text\n")
    assert [s.text for document in read("-") for s in document.sentences()] == ["{curly} text"]


def test_the_copy_of_standard_input_goes_with_its_last_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    stdin(monkeypatch, b"One.\n")
    (document,) = read("-")  # the corpus itself is dropped, the document still needs the copy
    gc.collect()
    assert [s.text for s in document.sentences()] == ["One."]
    assert len(list(tmp_path.iterdir())) == 1
    del document
    gc.collect()
    assert list(tmp_path.iterdir()) == []


class Stopped(io.BytesIO):
    """Whose reader is stopped with Ctrl-C."""

    def read(self, size: int | None = -1) -> bytes:
        raise KeyboardInterrupt


def test_a_stopped_copy_of_standard_input_goes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=Stopped()))
    with pytest.raises(KeyboardInterrupt):
        list(read("-"))
    assert list(tmp_path.iterdir()) == []


class Torn(io.BytesIO):
    """Whose device fails."""

    def read(self, size: int | None = -1) -> bytes:
        raise OSError(errno.EIO, "Input/output error")


def test_standard_input_that_fails_is_one_error_and_leaves_no_copy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=Torn()))
    with pytest.raises(ReadError, match=r"stdin: cannot be copied to .* \(Input/output error\); check the disk"):
        list(read("-"))
    assert list(tmp_path.iterdir()) == []


def test_a_corpus_tells_whether_it_passes_over_what_cannot_be_read(tmp_path: Path) -> None:
    assert read(tmp_path, on_error="skip").skips
    assert not read(tmp_path).skips


def test_a_nameless_file_whose_gzip_is_damaged_says_so(tmp_path: Path) -> None:
    (tmp_path / "notes.gz").write_bytes(b"plain")
    with pytest.raises(ReadError, match=r"not gzip data, though the name ends in \.gz; rename or compress it"):
        list(next(iter(read(tmp_path / "notes.gz"))).sentences())


def test_a_pipe_is_read_like_standard_input(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"One.\nTwo.\n",))
    writer.start()
    corpus = read(pipe)
    (document,) = corpus
    writer.join()
    assert document.name == str(pipe)
    assert [s.text for s in document.sentences()] == [s.text for s in document.sentences()] == ["One.", "Two."]


@pytest.mark.parametrize("name", ["a\ud800", "a\0"])
def test_a_name_that_no_file_can_have(name: str) -> None:
    with pytest.raises(ReadError, match="no such file or folder") as caught:
        list(read(name))
    assert str(caught.value).encode()


def test_a_name_that_is_not_unicode_can_be_stored(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9.txt"
    with open(path, "wb") as file:  # noqa: PTH123
        file.write(b"One.\n")
    (document,) = read(tmp_path)
    assert document.name == f"{tmp_path}/caf\\xe9.txt"
    assert document.name.encode()
    assert [s.text for s in document.sentences()] == ["One."]


def test_a_column_named_by_thousands_of_digits(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(f"{'7' * 12}\tb\nOne.\tTwo.\n", encoding="utf-8")
    (document,) = read(tmp_path / "a.tsv", column="7" * 12)
    assert [sentence.text for sentence in document.sentences()] == ["One."]
    (document,) = read(tmp_path / "a.tsv", column="7" * 5000)
    with pytest.raises(ReadError, match="no column '7777"):
        list(document.sentences())


def test_what_stands_between_tabs_is_a_text_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "glossary.txt").write_text("# a comment\nbank\tBank\tmoney\n\nOne. Two.\tThree\n", encoding="utf-8")
    (document,) = read(tmp_path / "glossary.txt")
    texts = [(sentence.line, sentence.text) for sentence in document.sentences()]
    assert texts == [(1, "# a comment"), (2, "bank"), (2, "Bank"), (2, "money"), (4, "One."), (4, "Two."), (4, "Three")]
    (document,) = read(tmp_path / "glossary.txt", lines="sentence")
    assert [sentence.text for sentence in document.sentences()][1] == "bank\tBank\tmoney"


@pytest.mark.parametrize("name", ["a.txml", "a.fb2", "a.vue", "a.js", "a.css.gz", "a.rmd"])
def test_files_of_programs_are_not_text(tmp_path: Path, name: str) -> None:
    make(tmp_path, name)
    with pytest.raises(ReadError, match="is not one that is read"):
        list(read(tmp_path / name))


@pytest.mark.parametrize(
    ("content", "is_text"),
    [
        *[("<?xml version='1.0'?><a>b</a>", False), ("\ufeff\n<!DOCTYPE html><p>b", False), ("<html><p>b", False)],
        *[("<a:b x='1' xmlns:a='urn:a'>b</a:b>", False), ("<b> is bold.", True), ("In.", True), ("a <?xml b", True)],
    ],
)
@pytest.mark.parametrize("name", ["a", "a.de", "a.unknown.gz"])
def test_mark_up_under_a_name_that_says_nothing_is_refused(
    tmp_path: Path, content: str, is_text: bool, name: str
) -> None:
    raw = content.encode()
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith("gz") else raw)
    if is_text:
        assert len(list(read(tmp_path / name))) == 1
        return
    with pytest.raises(ReadError, match="is not one that is read"):
        list(read(tmp_path / name))

"""Dumps of a wiki: what is read, from every packing; truncated, broken, hostile and foreign files."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from wiki_files import HEAD, articles, dump, page

from phrasemate.dataset.dump import Page, is_dump, pages
from phrasemate.errors import ReadError

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "data" / "wikipedia_dump_samples"
TEXT = dump(
    [
        page(1, "Hund", "Ein '''Hund''' & mehr."),
        page(2, "Töle", "#WEITERLEITUNG [[Hund]]", redirect="Hund"),
        page(3, "Kategorie:Tiere", "Tiere", ns=14),
        page(4, "水", "水は<br>大切。"),
    ]
)
EXPECTED = [Page(1, "Hund", "Ein '''Hund''' & mehr."), Page(4, "水", "水は<br>大切。")]
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "w.xml": bytes,
    "w.xml.gz": gzip.compress,
    "w.xml.bz2": bz2.compress,
    "pages-articles1.xml-p1p9.bz2": lambda raw: bz2.compress(raw[:700]) + bz2.compress(raw[700:]),  # multistream
}


def written(path: Path, raw: bytes) -> Path:
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_articles_of_every_packing(tmp_path: Path, name: str, encoding: str) -> None:
    path = written(tmp_path / name, PACKERS[name](TEXT.encode(encoding)))
    names: set[str] = set()
    events: list[tuple[int, int]] = []
    assert list(pages(path, names, lambda result, total: events.append((result, total)))) == EXPECTED
    assert names == {"Datei", "Kategorie"}
    assert events[-1] == (path.stat().st_size, path.stat().st_size)


def test_names_of_dumps() -> None:
    assert all(map(is_dump, PACKERS))
    assert not any(map(is_dump, ["a.txt", "a.txt.gz", "a.tsv", "xml", "folder", "a.tmx"]))


LAUGHS = '<!DOCTYPE m [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>\n' + HEAD.replace("Wiki", "&b;") + "</mediawiki>"
LOCAL_FILE = '<!DOCTYPE m [<!ENTITY f SYSTEM "file:///etc/passwd">]>\n' + HEAD + "</mediawiki>"
NUMBERS = {f"Seite {n}": " ".join(map(str, range(n, 3 * n))) for n in range(300)}
BZIPPED = bz2.compress(articles(NUMBERS).encode(), 1)  # in blocks of 100 kB
GZIPPED = gzip.compress(TEXT.encode())


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("w.xml.bz2", BZIPPED[: len(BZIPPED) // 2], "the bzip2 data end too early"),
        ("w.xml.bz2", BZIPPED[:10] + b"\0\xff\0\xff" + BZIPPED[14:], "not bzip2 data, or damaged"),
        ("w.xml.bz2", TEXT.encode(), "not bzip2 data, or damaged"),
        ("w.xml.bz2", b"", "an empty file|bzip2 data end too early"),
        ("w.xml.gz", GZIPPED[:-200], "the gzip data end too early"),
        ("w.xml.gz", TEXT.encode(), "not gzip data, though the name ends in .gz"),
        ("w.xml.gz", GZIPPED[:100] + b"\xff\xff\xff" + GZIPPED[103:], "gzip data are damaged|not well-formed"),
        ("w.xml", b"", "an empty file"),
        ("w.xml", TEXT[: TEXT.index("</page>")].encode(), "ends too early within <page>"),
        ("w.xml", TEXT.replace("</title>", "</tilte>").encode(), r"line 7: not well-formed XML .* \(mismatched tag\)"),
        ("w.xml", TEXT.encode("latin-1", "replace"), "is not UTF-8"),
        (
            "w.xml",
            b'<?xml version="1.0" encoding="utf-16"?>' + TEXT.encode(),
            "encoding specified in XML declaration is incorrect",
        ),
        ("w.xml", LAUGHS.encode(), r"line 1: declares an entity \('a'\); entities are not read"),
        ("w.xml", LOCAL_FILE.encode(), r"declares an entity \('f'\)"),
        ("w.xml", TEXT.replace("&amp;", "&nbsp;").encode(), "entit(y|ies)"),
        ("w.xml", b"<html><body>Not found</body></html>", "begins with <html>; expected <mediawiki>"),
        ("w.xml", b"Not found", "not well-formed XML"),
        ("w.xml", TEXT.replace("<id>1</id>", "").encode(), "a page without a title, or without a number"),
        ("w.xml", TEXT.replace("<id>1<", f"<id>{10**18}<").encode(), "or without a number of at most 18 digits"),
        ("w.xml", TEXT.replace("<id>1<", f"<id>{'1' * 5000}<").encode(), "or without a number of at most 18 digits"),
        ("w.xml", dump([page(1, "Lang", "x" * 4_100_000)]).encode(), "one entry of more than 4,000,000 characters"),
    ],
)
def test_one_clear_error(tmp_path: Path, name: str, raw: bytes, message: str) -> None:
    with pytest.raises(ReadError, match=message) as caught:
        list(pages(written(tmp_path / name, raw), set()))
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match=r"no.xml.bz2: no such file; check the path"):
        list(pages(tmp_path / "no.xml.bz2", set()))
    with pytest.raises(ReadError, match="not a file"):
        list(pages(tmp_path, set()))


def test_a_dump_that_may_not_be_read_is_not_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "w.xml.bz2", BZIPPED)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ReadError, match=r"w\.xml\.bz2: cannot be read \(Permission denied\); check its permissions"):
        list(pages(path, set()))


def test_a_dump_is_a_stream(tmp_path: Path) -> None:
    path = written(tmp_path / "w.xml.bz2", BZIPPED[: len(BZIPPED) // 2])
    assert next(pages(path, set())).title == "Seite 0"  # the damage comes later


def test_an_encoding_that_the_dump_does_not_tell(tmp_path: Path) -> None:
    text = dump([page(1, "Tür", "Die Tür")])
    path = written(tmp_path / "w.xml", text.encode("latin-1"))
    assert list(pages(path, set(), encoding="iso-8859-1")) == [Page(1, "Tür", "Die Tür")]


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "articles", "characters"),
    [
        ("bgwiki-latest-pages-articles-shortened.xml.bz2", 1, 13_790),
        ("enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2", 106, 5_728_626),
        ("enwiki-table-markup.xml.bz2", 5, 235_719),
    ],
)
def test_real_dumps(name: str, articles: int, characters: int) -> None:
    if not (SAMPLES / name).exists():
        pytest.skip(f"{SAMPLES / name} is not there")
    items = list(pages(SAMPLES / name, set()))
    assert (len(items), sum(len(one.text) for one in items)) == (articles, characters)

"""Dumps of MediaWiki (pages-articles): XML, streamed, packed by bzip2 or gzip or not at all."""

from __future__ import annotations

import bz2
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

from phrasemate.errors import ReadError
from phrasemate.text.error_policy import Damage
from phrasemate.text.formats.xml import Attributes, XmlStream
from phrasemate.text.text_file import TextFile

_BLOCK = 1 << 16
_DIGITS = 18  # of a page's number: 64 bits hold them
_SUFFIXES = (".xml", ".xml.gz", ".bz2")


class Page(NamedTuple):
    """An article: number and title, and its wikitext, which is empty for a redirect."""

    id: int
    title: str
    text: str


def is_dump(path: str | Path) -> bool:
    """Whether a name is that of a dump: it ends in .xml, .xml.gz or .bz2."""
    return str(path).lower().endswith(_SUFFIXES)


def pages(
    path: str | Path,
    namespaces: set[str],
    progress: Callable[[int, int], None] = lambda done, total: None,
    encoding: str | None = None,
) -> Iterator[Page]:
    """The articles of a dump (namespace 0, no redirects), one at a time.

    ``namespaces`` is filled with the names of the wiki's namespaces, which stand before the first page. ``progress``
    gets the bytes of the file that are read, and all of them. ``encoding`` overrules what the dump says of its own.
    Raises ReadError for what is no whole dump.
    """
    stream = _Dump(str(path), namespaces, encoding)
    yield from stream.read(blocks(Path(path), progress))


def blocks(path: Path, progress: Callable[[int, int], None] = lambda done, total: None) -> Iterator[bytes]:
    """The bytes of a file, unpacked where its name ends in .bz2 or .gz. Raises ReadError for what cannot be read."""
    if not path.is_file():
        raise ReadError(str(path), 0, "not a file" if path.exists() else "no such file", "check the path")
    total = path.stat().st_size
    if path.suffix.lower() == ".bz2":
        yield from _bunzipped(path, total, progress)
        return
    file = TextFile(path, str(path), path.suffix.lower() == ".gz", "utf-8", Damage(skip=False))
    for block in file.blocks():
        yield block
        progress(file.bytes_read, total)


def _bunzipped(path: Path, total: int, progress: Callable[[int, int], None]) -> Iterator[bytes]:
    try:
        with path.open("rb") as stored, bz2.open(stored) as stream:
            while block := cast(IO[bytes], stream).read(_BLOCK):
                yield block
                progress(stored.tell(), total)
    except EOFError as error:
        reason = "the bzip2 data end too early"
        raise ReadError(str(path), 0, reason, "copy or download the file again") from error
    except OSError as error:
        if error.errno is None:
            reason = f"not bzip2 data, or damaged ({error})"
            raise ReadError(str(path), 0, reason, "rename it, or download it again") from error
        raise ReadError(str(path), 0, f"cannot be read ({error.strerror})", "check its permissions") from error


class _Dump(XmlStream[Page]):
    """The articles; what is before them names the namespaces of the wiki."""

    what = "a MediaWiki dump"
    root = frozenset({"mediawiki"})
    _HEARD = frozenset({"title", "ns", "id", "text", "namespace"})

    def __init__(self, name: str, namespaces: set[str], encoding: str | None) -> None:
        super().__init__(name, encoding)
        self._namespaces = namespaces
        self._page: dict[str, str] = {}
        self._redirect = False

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag == "page":
            self._page, self._redirect = {}, False
            self.settle()
        elif tag == "redirect":
            self._redirect = True
        self.taken()
        self.listening = tag in self._HEARD

    def end(self, tag: str) -> None:
        text, self.listening = self.taken(), False
        parent = self.path[-1] if self.path else ""
        if tag == "page":
            self._finish()
        elif tag == "namespace":
            self._namespaces.add(text.strip())
            self.settle()
        elif parent == "page" or (parent == "revision" and tag == "text"):
            self._page[tag] = text  # the id of a revision is no page's

    def _finish(self) -> None:
        page = self._page
        number, title = page.get("id", "").strip(), " ".join(page.get("title", "").split())
        if not number.isdecimal() or len(number) > _DIGITS or not title:
            reason = f"a page without a title, or without a number of at most {_DIGITS} digits"
            raise self.error(reason, "give a dump of pages-articles")
        if page.get("ns", "0").strip() == "0" and not self._redirect:
            self.give(Page(int(number), title, page.get("text", "")))
        self.settle()

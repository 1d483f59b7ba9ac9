"""One side: its distinct sentences on disk, each once, with all places where it stands."""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.mine.language import LanguageCheck
from phrasemate.mine.work_folder import checked, seal
from phrasemate.text.error_policy import Skipped
from phrasemate.text.normalize import composed, plain
from phrasemate.types import Document
from phrasemate.utils.storage import is_entry

_TELL = 10_000  # sentences between two calls of the progress
LONGEST = 2_000  # characters: what is longer is no sentence, and its vector says little
_FILES = ("txt", "starts.npy", "lengths.npy", "places.npy", "first.npy")
_FACTS = {
    "made_of": str,
    "key": str,
    "counts": dict,
    "documents": list,
    "hidden": int,
    "places": int,
    "skipped": list,
}


class Place(NamedTuple):
    """Where a sentence stands."""

    document: str
    line: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Sentences that were read; that were too long; of another language or script, or without letters; and the
    distinct ones that are left.
    """

    read: int
    long: int
    foreign: int
    distinct: int


class Collection:
    """The distinct sentences of a side, by number from 0; opened by `collect`.

    ``key`` names their content, ``lengths`` (n,) are characters. Sentences are in Unicode's form NFC, on one line, with
    single spaces. Those from ``hidden`` on stand nowhere: they were added to calibrate. ``skipped``: what was passed
    over when they were read.
    """

    def __init__(self, folder: Path, side: str, content: dict[str, Any]) -> None:
        paths = {kind: folder / f"{side}.{kind}" for kind in _FILES}
        self.counts = Counts(**content["counts"])
        self.documents: list[str] = content["documents"]
        self.key: str = content["key"]
        self.hidden: int = content["hidden"]
        self.skipped = [Skipped(*item) for item in content["skipped"]]
        self.starts: NDArray[np.int64] = np.load(paths["starts.npy"])  # (n + 1,) bytes
        self.lengths: NDArray[np.int32] = np.load(paths["lengths.npy"])  # (n,)
        self._places = np.load(paths["places.npy"], mmap_mode="r") if content["places"] else np.zeros((0, 2), np.int64)
        self._first: NDArray[np.int64] = np.load(paths["first.npy"])  # (n + 1,) rows of _places
        with paths["txt"].open("rb") as file:
            self._text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if len(self) else b""

    def __len__(self) -> int:
        return len(self.lengths)

    def text(self, number: int) -> str:
        return self._text[self.starts[number] : self.starts[number + 1] - 1].decode("utf-8")

    def texts(self, numbers: slice) -> list[str]:
        """Consecutive sentences."""
        return self._text[self.starts[numbers.start] : self.starts[numbers.stop]].decode("utf-8").split("\n")[:-1]

    def find(self, texts: set[str]) -> dict[str, int]:
        """The numbers of those of the texts that are here."""
        blocks = (range(at, min(at + _TELL, len(self))) for at in range(0, len(self), _TELL))
        held = ((block[0], self.texts(slice(block[0], block[-1] + 1))) for block in blocks)
        return {text: first + at for first, some in held for at, text in enumerate(some) if text in texts}

    def places(self, number: int) -> tuple[Place, ...]:
        """Where the sentence stands, in the order of reading."""
        rows = self._places[self._first[number] : self._first[number + 1]]
        return tuple(Place(self.documents[document], line) for document, line in rows.tolist())


def collect(
    folder: Path,
    side: str,
    documents: Iterable[Document],
    more: Sequence[str],
    keep: LanguageCheck,
    progress: Any = lambda done: None,
    corpus: Iterable[Document] = (),
) -> Collection:
    """The sentences of the documents, read unless they are in the work folder already.

    ``more`` sentences are added that stand in no document. ``corpus``: whose documents they are; if something was
    passed over, they are read again for one (`Corpus`) that passes over nothing. Raises ReadError for what cannot be
    read, InputError if no sentence is left.
    """
    facts, documents = folder / f"{side}.json", list(documents)
    content = checked(facts, **_FACTS)
    key = sha256("\n".join([*(text.digest for text in documents), "", *more]).encode("utf-8", "replace")).hexdigest()
    if content is not None and content["skipped"] and not getattr(corpus, "skips", True):
        content = None
    if content is None or content["made_of"] != key or not _is_whole(content, len(documents)):
        made = _Distinct(keep)
        for document in documents:
            made.read(document, progress)
        content = made.write(folder, side, more) | {"made_of": key, "skipped": list(getattr(corpus, "skipped", ()))}
        seal(facts, content, [folder / f"{side}.{kind}" for kind in _FILES])
    if not content["counts"]["distinct"]:
        read = content["counts"]["read"]
        raise InputError(f"{side}: none of {read:,} sentences can be used; check the text, --{side}-lang and --check")
    return Collection(folder, side, content)


def _is_whole(content: dict[str, Any], documents: int) -> bool:
    """Whether numbers that were sealed fit each other."""
    counts = content["counts"]
    if not is_entry(counts, dict.fromkeys(Counts.__slots__, int)) or min(counts.values()) < 0:
        return False
    if not all(isinstance(item, list | tuple) and _is_skipped(*item) for item in content["skipped"]):
        return False
    return content["hidden"] == counts["distinct"] and len(content["documents"]) == documents


def _is_skipped(*item: Any) -> bool:
    return list(map(type, item)) == [str, int, str, bool]


def normal(text: str) -> str:
    """A sentence as collections hold it: NFC, single spaces, on one line."""
    return composed(" ".join(text.split())).encode("utf-8", "replace").decode("utf-8")


class _Distinct:
    """Sentences as they come -> each once, with its places."""

    def __init__(self, keep: LanguageCheck) -> None:
        self._keep = keep
        self._numbers: dict[bytes, int] = {}  # -1: passed over
        self._texts: list[bytes] = []
        self._lengths = array("i")
        self._places = array("q")  # sentence, document, line
        self._documents: list[str] = []
        self._read = self._long = self._foreign = 0

    def read(self, document: Document, progress: Any) -> None:
        self._documents.append(document.name)
        for sentence in document.sentences():
            self._read += 1
            number = self._number(sentence.text)
            if number >= 0:
                self._places.extend((number, len(self._documents) - 1, sentence.line))
            if not self._read % _TELL:
                progress(self._read)
        progress(self._read)

    def _number(self, raw: str) -> int:
        """The number of a sentence, -1 if it is passed over."""
        text = normal(raw)
        digest = blake2b(plain(text).encode(), digest_size=12).digest()
        number = self._numbers.get(digest)
        if number is None:
            number = self._numbers[digest] = self._new(text)
        elif number == -1:
            self._count(text)
        return number

    def _new(self, text: str) -> int:
        if not self._count(text):
            return -1
        self._texts.append(text.encode())
        self._lengths.append(len(text))
        return len(self._texts) - 1

    def _count(self, text: str) -> bool:
        """Whether the sentence is used; if not, it is counted."""
        if len(text) > LONGEST:
            self._long += 1
        elif not (text and self._keep(text)):
            self._foreign += 1
        else:
            return True
        return False

    def write(self, folder: Path, side: str, more: Sequence[str]) -> dict[str, Any]:
        """Put all into files; what is to be known of them."""
        counts = Counts(self._read, self._long, self._foreign, len(self._texts))
        for text in more:
            self._number(text)
        starts = np.concatenate([[0], np.cumsum([len(text) + 1 for text in self._texts])]).astype(np.int64)
        places = np.array(self._places, np.int64).reshape(-1, 3)
        places = places[np.argsort(places[:, 0], kind="stable")]
        first = np.searchsorted(places[:, 0], np.arange(len(self._texts) + 1))
        digest = sha256()
        with (folder / f"{side}.txt").open("wb") as file:
            for line in self._lines():
                digest.update(line)
                file.write(line)
        arrays: tuple[NDArray[Any], ...] = (starts, np.array(self._lengths, np.int32), places[:, 1:], first)
        for kind, values in zip(_FILES[1:], arrays, strict=True):
            np.save(folder / f"{side}.{kind}", values, allow_pickle=False)
        facts = {"counts": asdict(counts), "documents": self._documents, "hidden": counts.distinct}
        return facts | {"key": digest.hexdigest(), "places": len(places)}

    def _lines(self) -> Iterator[bytes]:
        return (text + b"\n" for text in self._texts)

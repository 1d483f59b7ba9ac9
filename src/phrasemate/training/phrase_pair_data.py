"""Sentence pairs with phrase pairs, from the files of ``phrasemate pairs``: read, drawn, altered.

Which pairs a step gets depends on the seed and the step alone, so a run that goes on after a crash sees what an
undisturbed one would have seen.
"""

from __future__ import annotations

import json
import mmap
import random
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from operator import index
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError, ReadError

Rows = NDArray[np.int64]
BLOCK = 1 << 24  # bytes of a file that are looked through at once
_MARKS = frozenset('.,;:!?()[]"„“”«»…')


Pairs = list[tuple[int, int, int, int]]


class Example(NamedTuple):
    """A sentence pair, and its phrase pairs as characters: (start, end, target start, target end).

    ``others`` are linked with each other just so but begin or end with a frequent word, so they are no phrases.
    """

    source: str
    target: str
    pairs: Pairs
    others: Pairs = []  # noqa: RUF012


class PairFile:
    """The lines of one file, fetched by number; only their places are in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise ReadError(str(path), 0, f"cannot be read ({error})", "make it with phrasemate pairs") from error
        ends = np.concatenate([[0], *self._line_ends()])
        self._bounds = np.append(ends, len(self._data)) if ends[-1] != len(self._data) else ends

    def _line_ends(self) -> Iterator[Rows]:
        """The places after its line breaks, block by block: the mask of a whole file would be as large as the file."""
        whole = np.frombuffer(self._data, np.uint8)
        for at in range(0, len(whole), BLOCK):
            yield np.flatnonzero(whole[at : at + BLOCK] == ord("\n")) + (at + 1)

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __getitem__(self, row: int) -> Example:
        line = self._data[int(self._bounds[row]) : int(self._bounds[row + 1])]
        try:
            value = json.loads(line)
            pairs, others = (_places(value.get(key, ())) for key in ("pairs", "others"))
            return Example(_text(value["source"]), _text(value["target"]), pairs, others)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            reason = f"not a line of phrase pairs ({type(error).__name__})"
            raise ReadError(str(self.path), row + 1, reason, "make the file again with phrasemate pairs") from error


def _places(value: Iterable[Any]) -> Pairs:
    return [(index(a), index(b), index(c), index(d)) for a, b, c, d in value]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


class Schedule:
    """Which rows of which files each batch holds: `train` (batches, size, 2) and `dev` (rows, 2) of (file, row).

    A file is drawn in proportion to its length to the power ``evenness`` (1: as it comes; 0: all files alike), its
    rows in blocks of ``neighbours`` consecutive ones, which talk of the same things and so are hard negatives for each
    other; no block comes again before all have come. The last ``dev`` rows of each file's own fixed shuffle are held
    out, whatever the seed.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        batches: int,
        size: int,
        evenness: float,
        neighbours: int,
        dev: int,
        seed: int,
        names: Sequence[str] = (),
    ) -> None:
        least = 2 * (dev + neighbours)
        for place, length in enumerate(lengths):
            if length <= least:
                name = names[place] if names else f"file {place + 1}"
                why = f": data.dev ({dev}) are held out, in blocks of data.neighbours ({neighbours})" if dev else ""
                raise InputError(f"{name}: {length} lines; expected more than {least}{why}")
        if size % neighbours:
            raise InputError(f"{size} sentence pairs a batch in blocks of {neighbours}; expected a multiple")
        blocks = [np.arange(length // neighbours) for length in lengths]
        held = [np.random.default_rng(0).permutation(len(each))[: -(-dev // neighbours)] for each in blocks]
        self.dev = _pairs([np.sort(_rows(each, neighbours))[:dev] for each in held])
        weights = (np.array(lengths, float) / max(lengths)) ** evenness  # of any power finite
        random_ = np.random.default_rng(seed)
        files = random_.choice(len(lengths), batches * size // neighbours, p=weights / weights.sum())
        drawn = np.empty(len(files), np.int64)
        for file, (own, kept) in enumerate(zip(blocks, held, strict=True)):
            places = np.flatnonzero(files == file)
            own = np.setdiff1d(own, kept)
            rounds = [random_.permutation(own) for _ in range(-(-len(places) // len(own)))]
            drawn[places] = np.concatenate([*rounds, np.zeros(0, np.int64)])[: len(places)]
        rows = _rows(drawn, neighbours)
        self.train = np.stack([np.repeat(files, neighbours), rows], 1).reshape(batches, size, 2)


def _rows(blocks: Rows, neighbours: int) -> Rows:
    found: Rows = (blocks[:, None] * neighbours + np.arange(neighbours)).reshape(-1)
    return found


def _pairs(rows: Sequence[Rows]) -> Rows:
    found: Rows = np.concatenate([np.stack([np.full(len(each), i), each], 1) for i, each in enumerate(rows)])
    return found


class Alteration:
    """Spellings that users and corpora have and edited text has not: no capitals, no diacritics, marks set apart.

    Each is applied to a sentence with the given probability; character spans are carried along.
    """

    def __init__(self, lower: float = 0.0, plain: float = 0.0, apart: float = 0.0) -> None:
        self.lower, self.plain, self.apart = lower, plain, apart

    def __call__(self, text: str, draw: random.Random) -> tuple[str, list[int], list[int]]:
        """The altered text, and for each old character where it now starts and ends.

        The span (s, e) becomes (starts[s], ends[e - 1]).
        """
        lower, plain, apart = (draw.random() < share for share in (self.lower, self.plain, self.apart))
        pieces: list[str] = []
        starts, ends, at = [], [], 0
        for place, char in enumerate(text):
            mark = apart and _stands_apart(text, place)
            if mark and at and not pieces[-1].isspace():
                pieces.append(" ")
                at += 1
            char = char.lower() if lower else char
            char = _plain(char) if plain else char
            pieces.append(char)
            starts.append(at)
            at += len(char)
            ends.append(at)
            if mark and place + 1 < len(text) and not text[place + 1].isspace():
                pieces.append(" ")
                at += 1
        return "".join(pieces), starts, ends


def _stands_apart(text: str, place: int) -> bool:
    """Whether it is a mark, and not inside a number, an abbreviation or an address."""
    if text[place] not in _MARKS:
        return False
    return not (0 < place < len(text) - 1 and text[place - 1].isalnum() and text[place + 1].isalnum())


def _plain(char: str) -> str:
    """A Latin letter without its diacritics; other scripts keep their marks, which are no ornament there."""
    if not "\u00c0" <= char <= "\u024f":
        return char
    base = unicodedata.normalize("NFD", char)[0]
    return base if base.isascii() else char

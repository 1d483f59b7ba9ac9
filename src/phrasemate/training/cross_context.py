"""Phrase pairs in contexts that are not each other's translation.

A search looks for an equivalent in text that does not translate the query's sentence, so a model for it has to see
phrases that way. Three kinds of examples, made from sentence pairs whose phrase pairs are known:

- crossed: a sentence of one pair and the other side of a second pair that holds the same pair of wordings, which fixes
  the sense. CCPR's context-independent baseline CPR is trained on these alone.
- senses: one wording with two translations that differ ("Bank": "bench", "bank"), each crossed in its own contexts; in
  one batch they are each other's negatives.
- half alone: a phrase in its sentence and its translation without one, either way.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.text import folded
from phrasemate.training.phrase_pair_data import Example, PairFile

Wording = tuple[str, str]
Hashes = NDArray[np.uint64]
Places = NDArray[np.int64]
ALIKE = 3  # first letters by which two translations are told apart


class Occurrences(NamedTuple):
    """Where pairs of wordings occur, (n,) each, sorted by source wording, then pair.

    ``sources`` and ``pairs``: hashes of the source wording and of the pair; ``starts``: a hash of the translation's
    first letters; ``places``: file << 40 | row.
    """

    sources: Hashes
    pairs: Hashes
    starts: NDArray[np.uint32]
    places: Places


class CrossContextSampling:
    """Draws examples whose two sides come from different sentence pairs.

    ``left_out`` (rows, 2): (file, row) that are never drawn. ``cache``: a file that keeps the table of occurrences (28
    bytes a phrase pair), as a million sentence pairs take minutes to read; it is made again for other text.
    Raises InputError where no pair of wordings occurs twice.
    """

    def __init__(self, files: Sequence[PairFile], left_out: Places, cache: Path | None = None) -> None:
        self.files = files
        self._table = _cached(files, left_out, cache)
        changes = self._table.pairs[1:] != self._table.pairs[:-1]
        self._all = np.flatnonzero(np.concatenate([[True], changes]))  # where each pair of wordings begins
        counts = np.diff(np.concatenate([self._all, [len(self._table.pairs)]]))
        self._starts, self._counts = self._all[counts > 1], counts[counts > 1]  # those that occur again
        if not len(self._starts):
            raise InputError("no phrase pair occurs in two sentence pairs; give more text")
        self._ambiguous = self._groups()

    def _groups(self) -> list[Places]:
        """Numbers of the recurring pairs of each source wording that has translations which begin differently."""
        sources = self._table.sources[self._starts]
        letters = self._table.starts[self._starts]
        cuts = np.flatnonzero(sources[1:] != sources[:-1]) + 1
        groups = np.split(np.arange(len(sources)), cuts)
        return [group for group in groups if len(group) > 1 and len(set(letters[group].tolist())) > 1]

    def crossed(self, count: int, draw: random.Random) -> list[Example]:
        """Crossed sentence pairs, each from a pair of wordings drawn at random; the files come as they may."""
        examples: list[Example] = []
        while len(examples) < count:
            example = self._crossed(draw.randrange(len(self._starts)), draw)
            if example.pairs:  # two wordings may share a hash
                examples.append(example)
        return examples

    def senses(self, count: int, draw: random.Random) -> tuple[list[Example], set[Wording]]:
        """Twice ``count`` crossed examples, two for each ambiguous wording, and their pairs of wording and translation.

        The pairs tell which translations are wrong in the other's context, though a dictionary has both. Each example
        holds the pair of wordings that it was drawn for and no other.
        """
        examples: list[Example] = []
        opposed: set[Wording] = set()
        letters = self._table.starts[self._starts]
        while self._ambiguous and len(examples) < 2 * count:
            group = self._ambiguous[draw.randrange(len(self._ambiguous))]
            one, two = (int(group[i]) for i in draw.sample(range(len(group)), 2))
            if letters[one] == letters[two]:
                continue
            both = [self._only(kind, draw) for kind in (one, two)]
            if all(example.pairs for example in both):
                examples += both
                opposed.update(_wordings(example)[0] for example in both)
        return examples, opposed

    def half_alone(self, count: int, draw: random.Random) -> list[Example]:
        """A sentence with a phrase of it, and the phrase's translation alone; every second time the other way."""
        examples: list[Example] = []
        while len(examples) < count:
            number = draw.randrange(len(self._all))
            example = self._fetch(int(self._table.places[self._all[number]]))
            target = int(self._table.pairs[self._all[number]])
            wordings = [_hash(wording) for wording in _wordings(example)]
            start, end, first, last = example.pairs[wordings.index(target)]
            if len(examples) % 2:
                alone = example.source[start:end]
                examples.append(Example(alone, example.target, [(0, len(alone), first, last)]))
            else:
                alone = example.target[first:last]
                examples.append(Example(example.source, alone, [(start, end, 0, len(alone))]))
        return examples

    def _crossed(self, kind: int, draw: random.Random) -> Example:
        start, count = int(self._starts[kind]), int(self._counts[kind])
        a, b = (int(self._table.places[start + i]) for i in draw.sample(range(count), 2))
        return crossed(self._fetch(a), self._fetch(b))

    def _only(self, kind: int, draw: random.Random) -> Example:
        example, target = self._crossed(kind, draw), int(self._table.pairs[self._starts[kind]])
        pairs = [p for p, wording in zip(example.pairs, _wordings(example), strict=True) if _hash(wording) == target]
        return example._replace(pairs=pairs[:1])

    def _fetch(self, place: int) -> Example:
        return self.files[place >> 40][place & ((1 << 40) - 1)]


class KnownPairs:
    """Pairs of wordings that are right for each other, so that neither is a negative of the other.

    ``files``: tables with a wording and its translation in each line, folded, separated by a tab. ``cache``: a file
    that keeps the hashes (16 bytes a pair).
    """

    def __init__(self, files: Sequence[Path], cache: Path | None = None) -> None:
        facts = _facts(files)
        arrays = _load(cache, facts, 2)
        if arrays is None:
            left: list[int] = []
            right: list[int] = []
            for path in files:
                with path.open(encoding="utf-8", newline="\n") as file:
                    for line in file:
                        source, _, target = line.rstrip("\n").partition("\t")
                        left.append(_word_hash(source))
                        right.append(_word_hash(target))
            arrays = [np.array(left, np.uint64), np.array(right, np.uint64)]
            _save(cache, facts, arrays)
        self._directions = [_grouped(*arrays), _grouped(*reversed(arrays))]

    def of(self, wording: int, side: int) -> Hashes:
        """Hashes of what is right for a wording (its hash) of the sources (side 0) or of the translations (side 1)."""
        keys, bounds, values = self._directions[side]
        at = int(np.searchsorted(keys, np.uint64(wording)))
        if at == len(keys) or int(keys[at]) != wording:
            return values[:0]
        return values[bounds[at] : bounds[at + 1]]


def _grouped(keys: Hashes, values: Hashes) -> tuple[Hashes, Places, Hashes]:
    """Distinct keys in order, where the values of each begin and end, and the values."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(ordered) else np.zeros(0, int)
    return ordered[starts], np.append(starts, len(ordered)), values[order]


def crossed(left: Example, right: Example) -> Example:
    """The source of one and the target of the other, with the phrase pairs whose wording they share."""
    targets: dict[Wording, tuple[int, int]] = {}
    for wording, pair in zip(_wordings(right), right.pairs, strict=True):
        targets.setdefault(wording, pair[2:])
    sources: dict[Wording, tuple[int, int]] = {}
    for wording, pair in zip(_wordings(left), left.pairs, strict=True):
        if wording in targets:
            sources.setdefault(wording, pair[:2])
    return Example(left.source, right.target, [(*span, *targets[wording]) for wording, span in sources.items()])


def _wordings(example: Example) -> list[Wording]:
    return [(folded(example.source[a:b]), folded(example.target[c:d])) for a, b, c, d in example.pairs]


def _hash(wording: Wording) -> int:
    return _digest("\t".join(wording))


@lru_cache(1 << 16)
def _word_hash(wording: str) -> int:
    return _digest(wording)


def word_hash(wording: str) -> int:
    """64 bits that tell a folded wording from others, as `KnownPairs` takes them."""
    return _word_hash(wording)


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _cached(files: Sequence[PairFile], left_out: Places, cache: Path | None) -> Occurrences:
    facts = [*_facts([file.path for file in files]), str(_digest(str(left_out.tolist())))]
    arrays = _load(cache, facts, len(Occurrences._fields))
    if arrays is None:
        arrays = list(_occurrences(files, left_out))
        _save(cache, facts, arrays)
    return Occurrences(*arrays)


def _occurrences(files: Sequence[PairFile], left_out: Places) -> Occurrences:
    excluded = {(f, r) for f, r in left_out.tolist()}
    columns: list[list[NDArray[Any]]] = [[], [], [], []]
    for number, file in enumerate(files):
        sources: list[int] = []
        pairs: list[int] = []
        starts: list[int] = []
        places: list[int] = []
        for row in range(len(file)):
            if (number, row) in excluded:
                continue
            for wording in set(_wordings(file[row])):
                sources.append(_word_hash(wording[0]))
                pairs.append(_hash(wording))
                starts.append(_word_hash(wording[1][:ALIKE]) & 0xFFFFFFFF)
                places.append(number << 40 | row)
        kinds = (np.uint64, np.uint64, np.uint32, np.int64)
        for column, values, kind in zip(columns, (sources, pairs, starts, places), kinds, strict=True):
            column.append(np.array(values, kind))
    whole = [np.concatenate(column) for column in columns]
    order = np.lexsort((whole[3], whole[1], whole[0]))
    return Occurrences(*(column[order] for column in whole))


def _facts(paths: Iterable[Path]) -> list[str]:
    """What a cache was made from."""
    return [f"{path.name} {path.stat().st_size}" for path in paths]


def _load(cache: Path | None, facts: list[str], count: int) -> list[NDArray[Any]] | None:
    if cache is None or not cache.exists():
        return None
    with np.load(cache, allow_pickle=False) as stored:
        if stored["facts"].tolist() != facts:
            return None
        return [stored[str(number)] for number in range(count)]


def _save(cache: Path | None, facts: list[str], arrays: Sequence[NDArray[Any]]) -> None:
    if cache is not None:
        part = cache.with_suffix(".part.npz")
        columns: dict[str, Any] = {str(number): array for number, array in enumerate(arrays)}
        np.savez(part, facts=np.array(facts), **columns)
        part.replace(cache)

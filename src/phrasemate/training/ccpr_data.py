"""Batches for CCPR: sentence pairs with phrase pairs, phrase pairs in non-parallel contexts, and the spans of a batch.

The files are written by ``phrasemate pairs``. The pairs of a step depend only on the seed and the step, so a resumed
run sees the same data as an uninterrupted one.

A search finds equivalents in text that is not parallel to the query's sentence. To train for this, three kinds of
examples are made from sentence pairs with known phrase pairs:

- crossed: the source sentence of one pair and the target sentence of another one with the same phrase pair, which
  fixes the sense. CPR, the context-independent baseline of the CCPR paper, is trained on these only.
- senses: a wording with two translations of different meaning ("Bank": "bench", "bank"), each crossed in its own
  contexts; in a batch they are negatives of each other. Tables of contrasts list such wordings.
- half alone: a phrase in its sentence, and its translation without a sentence, in either direction.

A fourth kind are citations: dictionary entries with a sentence for one side, or for both.
"""

from __future__ import annotations

import json
import mmap
import random
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from operator import index
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError, ReadError, line_fault
from phrasemate.text import folded, words
from phrasemate.training.hf_encoder import Batch, Tokenizer, token_rows
from phrasemate.utils.arrays import Integers, Rows
from phrasemate.utils.storage import atomic_file

BLOCK = 1 << 24  # bytes of a file scanned at once
_MARKS = frozenset('.,;:!?()[]"„“”«»…')


Pairs = list[tuple[int, int, int, int]]


class Example(NamedTuple):
    """Sentence pair with phrase pairs as character offsets: (start, end, target start, target end).

    ``others``: further aligned pairs that begin or end with a frequent word and so are not phrases.
    """

    source: str
    target: str
    pairs: Pairs
    others: Pairs = []  # noqa: RUF012


class PairFile:
    """Memory-mapped file of examples, one per line, accessed by line number."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise ReadError(str(path), 0, f"cannot be read ({error})", "make it with phrasemate pairs") from error
        except ValueError:  # a file of 0 bytes cannot be mapped
            raise ReadError(
                str(path), 0, "an empty file; expected phrase pairs", "make it with phrasemate pairs"
            ) from None
        ends = np.concatenate([[0], *self._line_ends()])
        self._bounds = np.append(ends, len(self._data)) if ends[-1] != len(self._data) else ends

    def _line_ends(self) -> Iterator[Rows]:
        """Yield the offsets after line breaks, block by block, as a mask of the whole file would be as large as it."""
        whole = np.frombuffer(self._data, np.uint8)
        for at in range(0, len(whole), BLOCK):
            yield np.flatnonzero(whole[at : at + BLOCK] == ord("\n")) + (at + 1)

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __getitem__(self, row: int) -> Example:
        line = self._data[int(self._bounds[row]) : int(self._bounds[row + 1])]
        try:
            value = json.loads(line)
            pairs, other_pairs = (_places(value.get(key, ())) for key in ("pairs", "others"))
            return Example(_text(value["source"]), _text(value["target"]), pairs, other_pairs)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            reason = f"not a line of phrase pairs ({line_fault(error)})"
            raise ReadError(str(self.path), row + 1, reason, "make the file again with phrasemate pairs") from error


def _places(value: Iterable[Any]) -> Pairs:
    return [(index(a), index(b), index(c), index(d)) for a, b, c, d in value]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


class Schedule:
    """Schedule of rows: `train` (batches, size, 2) and `dev` (rows, 2), each row as (file, row).

    Files are drawn in proportion to length ** ``evenness`` (1: by length, 0: uniformly). Rows are drawn in blocks of
    ``neighbours`` consecutive rows, which share a topic and so are hard negatives of each other. No block is repeated
    before all blocks of the file were drawn. The last ``dev`` rows of a fixed shuffle of each file are held out,
    independent of the seed.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        batches: int,
        size: int,
        evenness: float,
        neighbours: int = 1,
        dev: int = 0,
        seed: int = 0,
        names: Sequence[str] = (),
    ) -> None:
        least = 2 * (dev + neighbours)
        for place, length in enumerate(lengths):
            if length <= least:
                name = names[place] if names else f"file {place + 1}"
                why = f": data.dev ({dev}) are held out, in blocks of data.neighbours ({neighbours})" if dev else ""
                raise InputError(f"{name}: {length} lines; expected more than {least}{why}")
        if size % neighbours:
            raise InputError(f"{size} sentence pairs per batch in blocks of {neighbours}; expected a multiple")
        blocks = [np.arange(length // neighbours) for length in lengths]
        dev_rows = [np.random.default_rng(0).permutation(len(block))[: -(-dev // neighbours)] for block in blocks]
        held_out = [np.sort(_rows(item, neighbours))[:dev] for item in dev_rows]
        self.dev = np.concatenate([np.stack([np.full(len(row), i), row], 1) for i, row in enumerate(held_out)])
        weights = (np.array(lengths, float) / max(lengths)) ** evenness  # finite for any exponent
        random_ = np.random.default_rng(seed)
        files = random_.choice(len(lengths), batches * size // neighbours, p=weights / weights.sum())
        order = np.empty(len(files), np.int64)
        for file, (block_rows, dev_block) in enumerate(zip(blocks, dev_rows, strict=True)):
            places = np.flatnonzero(files == file)
            block_rows = np.setdiff1d(block_rows, dev_block)
            rounds = [random_.permutation(block_rows) for _ in range(-(-len(places) // len(block_rows)))]
            order[places] = np.concatenate([*rounds, np.zeros(0, np.int64)])[: len(places)]
        rows = _rows(order, neighbours)
        self.train = np.stack([np.repeat(files, neighbours), rows], 1).reshape(batches, size, 2)


def _rows(blocks: Rows, neighbours: int) -> Rows:
    rows: Rows = (blocks[:, None] * neighbours + np.arange(neighbours)).reshape(-1)
    return rows


class Alteration:
    """Data augmentation by informal spellings: lower case, no diacritics, spaces around punctuation.

    ``lower``, ``plain`` and ``apart`` are the probabilities of each per sentence; character spans are mapped along.
    """

    def __init__(self, lower: float = 0.0, plain: float = 0.0, apart: float = 0.0) -> None:
        self.lower, self.plain, self.apart = lower, plain, apart

    def __call__(self, text: str, draw: random.Random) -> tuple[str, list[int], list[int]]:
        """Alter a text; returns it with the new start and end of each old character.

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
    """Whether a character is a punctuation mark outside of numbers, abbreviations and addresses."""
    if text[place] not in _MARKS:
        return False
    return not (0 < place < len(text) - 1 and text[place - 1].isalnum() and text[place + 1].isalnum())


def _plain(char: str) -> str:
    """Remove the diacritics of a Latin letter; in other scripts, where they are essential, they stay."""
    if not "\u00c0" <= char <= "\u024f":
        return char
    base = unicodedata.normalize("NFD", char)[0]
    return base if base.isascii() else char


Wording = tuple[str, str]
Hashes = NDArray[np.uint64]


class CrossContextSampling:
    """Sampler of examples whose two sides come from different sentence pairs.

    Args:
        files: Sentence pairs with their phrase pairs.
        left_out: (rows, 2) of (file, row) that are never drawn.
        cache: File to cache the table of occurrences (16 bytes a phrase pair), which takes minutes to build for a
            million sentence pairs; it is rebuilt if the files change.
        contrasts: Tables of folded wordings, one "wording, translation, translation of another meaning" a line,
            separated by tabs. `senses` uses the lines whose two pairs each occur in at least two sentence pairs.

    Raises InputError if no pair of wordings occurs twice.
    """

    def __init__(
        self, files: Sequence[PairFile], left_out: Rows, cache: Path | None = None, contrasts: Sequence[Path] = ()
    ) -> None:
        self.files = files
        facts = ["pairs, places", *_facts([file.path for file in files]), str(_digest(str(left_out.tolist())))]
        self._pairs, self._places = _cached(cache, facts, lambda: _occurrences(files, left_out))
        # first row and number of occurrences of each pair of wordings
        _, self._all, counts = np.unique(self._pairs, return_index=True, return_counts=True)
        self._starts, self._counts = self._all[counts > 1], counts[counts > 1]  # pairs that recur
        if not len(self._starts):
            raise InputError("no phrase pair occurs in two sentence pairs; give more text")
        self._contrasts = self._recurring(contrasts)
        if contrasts and not self._contrasts:
            raise InputError(f"{contrasts[0].parent}: no wording of a table of contrasts has both translations twice")

    def _recurring(self, paths: Sequence[Path]) -> list[tuple[int, int]]:
        """Look up the indices of both recurring pairs for each line of the tables of contrasts."""
        numbers = {pair: number for number, pair in enumerate(self._pairs[self._starts].tolist())}
        rows: list[tuple[int, int]] = []
        for path in paths:
            for line in path.read_text(encoding="utf-8").splitlines():
                source, first_text, two = line.split("\t")
                places = [numbers.get(_hash((source, target))) for target in (first_text, two)]
                if places[0] is not None and places[1] is not None:
                    rows.append((places[0], places[1]))
        return rows

    def crossed(self, count: int, draw: random.Random) -> list[Example]:
        """Draw ``count`` crossed examples, each for a random recurring pair of wordings."""
        examples: list[Example] = []
        while len(examples) < count:
            example = self._crossed(draw.randrange(len(self._starts)), draw)
            if example.pairs:  # empty after a hash collision
                examples.append(example)
        return examples

    def senses(self, count: int, draw: random.Random) -> tuple[list[Example], set[Wording]]:
        """Draw two crossed examples for each of ``count`` ambiguous wordings, each with one phrase pair.

        Also returns the set of pairs of a wording and the translation that is wrong in the other one's context,
        although a dictionary lists both.
        """
        examples: list[Example] = []
        contrasts: set[Wording] = set()
        while len(examples) < 2 * count:
            kind_pair = [self._only(kind, draw) for kind in draw.choice(self._contrasts)]
            if all(example.pairs for example in kind_pair):
                examples += kind_pair
                contrasts.update(_wordings(example)[0] for example in kind_pair)
        return examples, contrasts

    def half_alone(self, count: int, draw: random.Random) -> list[Example]:
        """Draw examples of a phrase in its sentence with its translation alone, alternately in either direction."""
        examples: list[Example] = []
        while len(examples) < count:
            number = draw.randrange(len(self._all))
            example = self._fetch(int(self._places[self._all[number]]))
            target = int(self._pairs[self._all[number]])
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
        a, b = (int(self._places[start + i]) for i in draw.sample(range(count), 2))
        return crossed(self._fetch(a), self._fetch(b))

    def _only(self, kind: int, draw: random.Random) -> Example:
        example, target = self._crossed(kind, draw), int(self._pairs[self._starts[kind]])
        pairs = [p for p, wording in zip(example.pairs, _wordings(example), strict=True) if _hash(wording) == target]
        return example._replace(pairs=pairs[:1])

    def _fetch(self, place: int) -> Example:
        return self.files[place >> 40][place & ((1 << 40) - 1)]


class KnownPairs:
    """Pairs of equivalent wordings, which must not be negatives of each other.

    ``files``: tables of folded wordings, "wording, translation" a line, separated by a tab. ``cache``: file to cache
    the hashes (16 bytes a pair).
    """

    def __init__(self, files: Sequence[Path], cache: Path | None = None) -> None:
        sources, targets = _cached(cache, _facts(files), lambda: _known_hashes(files))
        self._directions = [_grouped(sources, targets), _grouped(targets, sources)]

    def of(self, wordings: Hashes, side: int) -> tuple[Rows, Hashes]:
        """Look up the equivalents of source (side 0) or target (side 1) wordings, given as hashes.

        Returns (rows,) indices into ``wordings``, and the hashes of their equivalents.
        """
        keys, bounds, values = self._directions[side]
        first, last = bounds[np.searchsorted(keys, wordings)], bounds[np.searchsorted(keys, wordings, side="right")]
        owners, rows = _expanded(np.arange(len(wordings)), first, last)
        return owners, values[rows]


def _known_hashes(files: Sequence[Path]) -> list[Hashes]:
    """Hash the wordings of the tables and their translations."""
    sources, targets = array("Q"), array("Q")
    for path in files:
        with path.open(encoding="utf-8", newline="\n") as file:
            for line in file:
                source, _, target = line.rstrip("\n").partition("\t")
                sources.append(word_hash(source))
                targets.append(word_hash(target))
    return [np.array(sources, np.uint64), np.array(targets, np.uint64)]


def _expanded(owners: Rows, first: Rows, last: Rows) -> tuple[Rows, Rows]:
    """Expand ranges ``first`` to ``last`` (exclusive) of rows: each row with its owner, (rows,) both."""
    counts = last - first
    rows: Rows = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    return np.repeat(owners, counts), rows


def _grouped(keys: Hashes, values: Hashes) -> tuple[Hashes, Rows, Hashes]:
    """Group values by key: sorted distinct keys, bounds of each key's values, and the values."""
    order = np.argsort(keys, kind="stable")
    distinct, starts = np.unique(keys[order], return_index=True)
    return distinct, np.append(starts, len(keys)), values[order]


def crossed(left: Example, right: Example) -> Example:
    """Combine the source of ``left`` and the target of ``right``, with the phrase pairs whose wordings they share."""
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
def word_hash(wording: str) -> int:
    """Hash a folded wording to 64 bits, for `KnownPairs`."""
    return _digest(wording)


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _occurrences(files: Sequence[PairFile], left_out: Rows) -> list[NDArray[Any]]:
    """List all phrase pairs: (n,) hashes of their wordings, sorted, and (n,) places, file << 40 | row."""
    excluded_rows = {(f, r) for f, r in left_out.tolist()}
    pairs, places = array("Q"), array("q")
    for number, file in enumerate(files):
        for row in range(len(file)):
            if (number, row) not in excluded_rows:
                for wording in set(_wordings(file[row])):
                    pairs.append(_hash(wording))
                    places.append(number << 40 | row)
    columns = np.array(pairs, np.uint64), np.array(places, np.int64)
    order = np.lexsort(columns[::-1])
    return [column[order] for column in columns]


def _facts(paths: Iterable[Path]) -> list[str]:
    """Describe the files that a cache was built from, by name and size."""
    return [f"{path.name} {path.stat().st_size}" for path in paths]


def _cached(cache: Path | None, facts: list[str], compute: Callable[[], list[NDArray[Any]]]) -> list[NDArray[Any]]:
    """Load columns from a cache built from the same ``facts``; else compute and cache them."""
    if cache is not None and cache.exists():
        with np.load(cache, allow_pickle=False) as arrays:
            if arrays["facts"].tolist() == facts:
                return [arrays[str(number)] for number in range(len(arrays.files) - 1)]
    columns = compute()
    if cache is not None:
        named_columns: dict[str, Any] = {str(number): column for number, column in enumerate(columns)}
        with atomic_file(cache, "wb") as file:
            np.savez(file, facts=np.array(facts), **named_columns)
    return columns


class Spans(NamedTuple):
    """Spans of words, ordered by sentence; each array is (spans,).

    Args:
        first, last: Rows of the first and last token.
        length: Number of words.
        wording: Id of the case-folded text.
        text: Index of the sentence in the batch of tokens.
        phrase: Whether a phrase pair has this span.
        extra: Whether the span is a phrase used only as a negative (see `collate`, ``linked``).
    """

    first: Integers
    last: Integers
    length: Integers
    wording: Integers
    text: Integers
    phrase: NDArray[np.bool_]
    extra: NDArray[np.bool_]


class SpanBatch(NamedTuple):
    """Batch of n text pairs with their spans.

    Args:
        tokens: Tokens of the n source texts, then of the n target texts.
        source, target: Spans of either side.
        pairs: (pairs, 2) phrase pairs as indices of spans.
        sentences: The first so many text pairs are parallel sentences; terms without a sentence follow.
        mates: The first so many text pairs, sentences and terms, are translations of each other; in the rest, the two
            texts come from different sentence pairs.
        known_pairs: For each side (rows, 2): a phrase pair, and a wording id of the other side that is also correct.
    """

    tokens: Batch
    source: Spans
    target: Spans
    pairs: Integers
    sentences: int
    mates: int
    known_pairs: tuple[Integers, Integers] | None = None

    def anchored(self) -> Integers:
        """Return the indices of the texts under the anchor loss: all parallel sentences, source sentences first."""
        count = len(self.tokens) // 2
        return np.concatenate([np.arange(self.sentences), count + np.arange(self.sentences)])


class _Sentence(NamedTuple):
    text: str
    words: list[tuple[int, int]]  # offsets in the altered text
    word_spans: dict[tuple[int, int], tuple[int, int]]  # offsets in the original text -> first and last word


def collate(
    examples: Sequence[Example],
    tokenizer: Tokenizer,
    alteration: Alteration,
    max_words: int,
    most: int,
    draw: random.Random,
    terms: Sequence[Example] = (),
    others: int = 0,
    elsewhere: Sequence[Example] = (),
    known_pairs: KnownPairs | None = None,
    opposed: Container[tuple[str, str]] = (),
    linked: bool = False,
) -> SpanBatch:
    """Make a batch: tokenize the texts, enumerate their spans, and draw phrase pairs.

    The weight of a phrase pair in the draw is 1 / sqrt(n), where n counts its source wording in the batch.

    Args:
        examples: Parallel sentences.
        tokenizer: Tokenizer.
        alteration: Alteration of the texts.
        max_words: Longest span in words.
        most: Most phrase pairs drawn from each example.
        draw: Random generator.
        terms: Phrase pairs without sentences; they are not used to train the segmenter.
        others: Number of `Example.others` drawn from each example, to learn the alignment of function words.
        elsewhere: Examples whose two texts are not parallel (see the module).
        known_pairs: Equivalent wordings, which are not negatives of each other.
        opposed: Exceptions to ``known_pairs``, wrong in their contexts.
        linked: Whether phrases that are not drawn become additional negatives, unless they contain a drawn phrase of
            their side or are contained in one (as in the code of the CCPR paper).
    """
    sentences, mates = len(examples), len(examples) + len(terms)
    examples = [*examples, *terms, *elsewhere]
    sides = [[_altered(e.source, [p[:2] for p in e.pairs + e.others], alteration, draw) for e in examples]]
    sides += [[_altered(e.target, [p[2:] for p in e.pairs + e.others], alteration, draw) for e in examples]]
    tokens = tokenizer([sentence.text for side in sides for sentence in side])
    numbers: dict[str, int] = {}
    count = len(examples)
    span_lists = [_spans(side, place * count, tokens, max_words, numbers) for place, side in enumerate(sides)]
    spans, places = [item for item, _ in span_lists], [place for _, place in span_lists]
    choices = []
    for lists, count in (([e.pairs for e in examples], most), ([e.others for e in examples], others)):
        table, owners = _placed(lists, sides, places)
        choices.append(table[_drawn(spans[0].wording[table[:, 0]], owners, count, draw)])
        if len(choices) == 1:  # the others are not phrases
            for side, span in enumerate(spans):
                span.phrase[table[:, side]] = True
    pairs = np.concatenate(choices)
    if linked:
        for side, span in enumerate(spans):
            span.extra[span.phrase] = _unlike(span.wording[span.phrase], span.wording[pairs[:, side]], list(numbers))
    right = None
    if known_pairs is not None:
        first, second = (_known_rows(spans, pairs, numbers, known_pairs, opposed, side) for side in (0, 1))
        right = first, second
    return SpanBatch(tokens, spans[0], spans[1], pairs, sentences, mates, right)


def _unlike(wordings: Integers, drawn: Integers, texts: Sequence[str]) -> NDArray[np.bool_]:
    """Mark wordings that neither contain a drawn one nor are contained in one, (spans,); ids are rows of ``texts``."""
    drawn_texts = [texts[number] for number in np.unique(drawn).tolist()]
    together = "\n".join(drawn_texts)
    distinct, places = np.unique(wordings, return_inverse=True)
    row_texts = [texts[number] for number in distinct.tolist()]
    unlike = [text not in together and not any(drawn_text in text for drawn_text in drawn_texts) for text in row_texts]
    return np.array(unlike, bool)[places]


def _known_rows(
    spans: Sequence[Spans],
    pairs: Integers,
    numbers: dict[str, int],
    known_pairs: KnownPairs,
    opposed: Container[tuple[str, str]],
    side: int,
) -> Integers:
    """List ``SpanBatch.known_pairs`` of a side."""
    texts = list(numbers)
    candidates = np.unique(spans[1 - side].wording)
    phrase_forms, forms = (
        [folded(texts[number]) for number in wordings.tolist()]
        for wordings in (spans[side].wording[pairs[:, side]], candidates)
    )
    phrase_hashes, hashes = (np.array(list(map(word_hash, column)), np.uint64) for column in (phrase_forms, forms))
    order = np.argsort(hashes)
    owners, right = known_pairs.of(phrase_hashes, side)
    first, last = (np.searchsorted(hashes, right, side=end, sorter=order) for end in ("left", "right"))
    owners, matches = _expanded(owners, first, last)
    rows = [
        (owner, int(candidates[place]))
        for owner, place in zip(owners.tolist(), order[matches].tolist(), strict=True)
        if (phrase_forms[owner], forms[place])[:: 1 - 2 * side] not in opposed
    ]
    return np.array(rows, np.int64).reshape(-1, 2)


def _placed(
    lists: Sequence[Pairs], sides: Sequence[Sequence[_Sentence]], places: Sequence[dict[tuple[int, int, int], int]]
) -> tuple[Integers, Integers]:
    """Find the span indices (pairs, 2) of pairs with complete spans on both sides, and their examples (pairs,)."""
    pairs, owners = [], []
    for number, items in enumerate(lists):
        for pair in items:
            ends = [places[0].get((number, *sides[0][number].word_spans[pair[:2]]))]
            ends += [places[1].get((number, *sides[1][number].word_spans[pair[2:]]))]
            if None not in ends:
                pairs.append(ends)
                owners.append(number)
    return np.array(pairs, np.int64).reshape(-1, 2), np.array(owners, np.int64)


def _altered(text: str, spans: Sequence[tuple[int, ...]], alteration: Alteration, draw: random.Random) -> _Sentence:
    new, starts, ends = alteration(text, draw)
    word_spans = words(text)
    opening = {start: number for number, (start, _) in enumerate(word_spans)}
    closing = {end: number for number, (_, end) in enumerate(word_spans)}
    places = {(s, e): (opening.get(s, -1), closing.get(e, -1)) for s, e in spans}
    return _Sentence(new, [(starts[s], ends[e - 1]) for s, e in word_spans], places)


def _spans(
    side: Sequence[_Sentence], before: int, tokens: Batch, max_words: int, numbers: dict[str, int]
) -> tuple[Spans, dict[tuple[int, int, int], int]]:
    """Enumerate the spans of a side; also returns the index of each by (sentence, first word, last word)."""
    parts: list[tuple[Integers, ...]] = []
    place: dict[tuple[int, int, int], int] = {}
    for number, sentence in enumerate(side):
        starts, ends = np.array(sentence.words, np.int64).reshape(-1, 2).T
        opening, closing, whole = token_rows(tokens, before + number, starts, ends)
        i, width = np.nonzero(np.arange(len(starts))[:, None] + np.arange(max_words) < len(starts))
        j = i + width
        inside = whole[i] & whole[j]
        i, j = i[inside], j[inside]
        wordings = [sentence.text[s:e].casefold() for s, e in zip(starts[i].tolist(), ends[j].tolist(), strict=True)]
        for a, b in zip(i.tolist(), j.tolist(), strict=True):
            place[number, a, b] = len(place)
        ids = np.array([numbers.setdefault(wording, len(numbers)) for wording in wordings], np.int64)
        parts.append((opening[i], closing[j], j - i + 1, ids, np.full(len(i), before + number)))
    first, last, length, wording, text = (np.concatenate(item).astype(np.int64) for item in zip(*parts, strict=True))
    no_spans = [np.zeros(len(first), bool) for _ in range(2)]
    return Spans(first, last, length, wording, text, *no_spans), place


def _drawn(wordings: Integers, owners: Integers, most: int, draw: random.Random) -> Integers:
    """Draw up to ``most`` phrase pairs of each owner, weighted, without replacement; returns sorted indices."""
    counts = Counter(wordings.tolist())
    keys = [-draw.expovariate(1.0) * counts[wording] ** 0.5 for wording in wordings.tolist()]
    rows: list[int] = []
    uses: Counter[int] = Counter()
    for number in sorted(range(len(keys)), key=lambda n: -keys[n]):
        owner = int(owners[number])
        if uses[owner] < most:
            uses[owner] += 1
            rows.append(number)
    return np.array(sorted(rows), np.int64)

"""Batches for CCPR: sentence pairs with phrase pairs, phrase pairs in other contexts, spans and positives of a batch.

The files are those of ``phrasemate pairs``.

Which pairs a step gets depends on the seed and the step alone, so a run that resumes after a crash sees what an
undisturbed one would have seen.

A search looks for an equivalent in text that does not translate the query's sentence, so a model for it has to see
phrases that way. Three kinds of examples, made from sentence pairs whose phrase pairs are known:

- crossed: a sentence of one pair and the other side of a second pair that holds the same pair of wordings, which fixes
  the sense. CCPR's context-independent baseline CPR is trained on these alone.
- senses: one wording with two translations of different meaning ("Bank": "bench", "bank"), each crossed in its own
  contexts; in one batch they are each other's negatives. A table of contrasts lists such wordings.
- half alone: a phrase in its sentence and its translation without one, either way.

Citations are a fourth kind: an entry of a dictionary with a sentence that holds the one side, or one for each.
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

from phrasemate.errors import InputError, ReadError
from phrasemate.text import folded, words
from phrasemate.training.hf_encoder import Batch, Tokenizer, token_rows
from phrasemate.utils.arrays import Integers, Rows
from phrasemate.utils.storage import atomic_file

BLOCK = 1 << 24  # bytes of a file that are looked through at once
_MARKS = frozenset('.,;:!?()[]"„“”«»…')


Pairs = list[tuple[int, int, int, int]]


class Example(NamedTuple):
    """A sentence pair, and its phrase pairs as characters: (start, end, target start, target end).

    ``others`` are linked with each other just so but begin or end with a frequent word, so they are not phrases.
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
            pairs, other_pairs = (_places(value.get(key, ())) for key in ("pairs", "others"))
            return Example(_text(value["source"]), _text(value["target"]), pairs, other_pairs)
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
    """Rows of files that each batch holds: `train` (batches, size, 2) and `dev` (rows, 2) of (file, row).

    A file is drawn in proportion to its length to the power ``evenness`` (1: as it comes; 0: all files alike). Its rows
    are drawn in blocks of ``neighbours`` consecutive ones. These talk of the same things, and so are hard negatives for
    each other. No block comes again before all have come. The last ``dev`` rows of each file's own fixed shuffle are
    held out, whatever the seed.
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
        weights = (np.array(lengths, float) / max(lengths)) ** evenness  # of any power finite
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
    """A Latin letter without its diacritics; other scripts keep their marks, which are not ornament there."""
    if not "\u00c0" <= char <= "\u024f":
        return char
    base = unicodedata.normalize("NFD", char)[0]
    return base if base.isascii() else char


Wording = tuple[str, str]
Hashes = NDArray[np.uint64]


class CrossContextSampling:
    """Draws examples whose two sides come from different sentence pairs.

    Args:
        files: sentence pairs with their phrase pairs.
        left_out: (rows, 2) of (file, row) that are never drawn.
        cache: a file that keeps the table of occurrences (16 bytes a phrase pair), as a million sentence pairs take
            minutes to read; it is made again for other text.
        contrasts: tables with a wording and two translations of different meaning in each line, folded, separated by
            tabs. `senses` draws from those whose two pairs each occur in two sentence pairs.

    Raises InputError where no pair of wordings occurs twice.
    """

    def __init__(
        self, files: Sequence[PairFile], left_out: Rows, cache: Path | None = None, contrasts: Sequence[Path] = ()
    ) -> None:
        self.files = files
        facts = ["pairs, places", *_facts([file.path for file in files]), str(_digest(str(left_out.tolist())))]
        self._pairs, self._places = _cached(cache, facts, lambda: _occurrences(files, left_out))
        # Where each pair of wordings begins, and how often it occurs.
        _, self._all, counts = np.unique(self._pairs, return_index=True, return_counts=True)
        self._starts, self._counts = self._all[counts > 1], counts[counts > 1]  # those that occur again
        if not len(self._starts):
            raise InputError("no phrase pair occurs in two sentence pairs; give more text")
        self._contrasts = self._recurring(contrasts)
        if contrasts and not self._contrasts:
            raise InputError(f"{contrasts[0].parent}: no wording of a table of contrasts has both translations twice")

    def _recurring(self, paths: Sequence[Path]) -> list[tuple[int, int]]:
        """Numbers of the two recurring pairs of each line of the tables of contrasts."""
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
        contrasts: set[Wording] = set()
        while len(examples) < 2 * count:
            kind_pair = [self._only(kind, draw) for kind in draw.choice(self._contrasts)]
            if all(example.pairs for example in kind_pair):
                examples += kind_pair
                contrasts.update(_wordings(example)[0] for example in kind_pair)
        return examples, contrasts

    def half_alone(self, count: int, draw: random.Random) -> list[Example]:
        """A sentence with a phrase of it, and the phrase's translation alone; every second time the other way."""
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
    """Pairs of wordings that are right for each other, so that neither is a negative of the other.

    ``files``: tables with a wording and its translation in each line, folded, separated by a tab. ``cache``: a file
    that keeps the hashes (16 bytes a pair).
    """

    def __init__(self, files: Sequence[Path], cache: Path | None = None) -> None:
        sources, targets = _cached(cache, _facts(files), lambda: _known_hashes(files))
        self._directions = [_grouped(sources, targets), _grouped(targets, sources)]

    def of(self, wordings: Hashes, side: int) -> tuple[Rows, Hashes]:
        """What is right for some wordings (their hashes) of the sources (side 0) or of the translations (side 1).

        Gives (rows,) the place of a wording among ``wordings``, and the hash of one that is right for it.
        """
        keys, bounds, values = self._directions[side]
        first, last = bounds[np.searchsorted(keys, wordings)], bounds[np.searchsorted(keys, wordings, side="right")]
        owners, rows = _expanded(np.arange(len(wordings)), first, last)
        return owners, values[rows]


def _known_hashes(files: Sequence[Path]) -> list[Hashes]:
    """Hashes of the wordings in the tables, and of their translations."""
    sources, targets = array("Q"), array("Q")
    for path in files:
        with path.open(encoding="utf-8", newline="\n") as file:
            for line in file:
                source, _, target = line.rstrip("\n").partition("\t")
                sources.append(word_hash(source))
                targets.append(word_hash(target))
    return [np.array(sources, np.uint64), np.array(targets, np.uint64)]


def _expanded(owners: Rows, first: Rows, last: Rows) -> tuple[Rows, Rows]:
    """(rows,) each owner as often as it has rows, and its rows: from ``first`` to before ``last``."""
    counts = last - first
    rows: Rows = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    return np.repeat(owners, counts), rows


def _grouped(keys: Hashes, values: Hashes) -> tuple[Hashes, Rows, Hashes]:
    """Distinct keys in order, where the values of each begin and end, and the values."""
    order = np.argsort(keys, kind="stable")
    distinct, starts = np.unique(keys[order], return_index=True)
    return distinct, np.append(starts, len(keys)), values[order]


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
def word_hash(wording: str) -> int:
    """64 bits that tell a folded wording from others, as `KnownPairs` takes them."""
    return _digest(wording)


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _occurrences(files: Sequence[PairFile], left_out: Rows) -> list[NDArray[Any]]:
    """(n,) hashes of pairs of wordings, and where each is: file << 40 | row; sorted by pair."""
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
    """Origin of a cache: the files and settings that it was made from."""
    return [f"{path.name} {path.stat().st_size}" for path in paths]


def _cached(cache: Path | None, facts: list[str], compute: Callable[[], list[NDArray[Any]]]) -> list[NDArray[Any]]:
    """The columns in a file that was made from the same; else they are computed, and kept in it."""
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
    """Spans of words of some sentences, sentence after sentence; each array is (spans,).

    Args:
        first, last: Token rows.
        length: Number of words.
        wording: Equal numbers, equal case-folded text.
        text: The sentence's number in the batch of tokens.
        phrase: Whether a phrase pair has this span.
        extra: Whether it is a phrase that only serves as a wrong answer (see `collate`, ``linked``).
    """

    first: Integers
    last: Integers
    length: Integers
    wording: Integers
    text: Integers
    phrase: NDArray[np.bool_]
    extra: NDArray[np.bool_]


class SpanBatch(NamedTuple):
    """``tokens`` of the n source sentences, then of the n target sentences; the spans of both sides; and the phrase
    pairs as span numbers: ``pairs`` (pairs, 2). The first ``sentences`` of the n are sentences with their translations,
    then come bare terms. The first ``mates`` are those whose two texts translate each other; the two texts of the rest
    come from different sentence pairs. ``known``: for each side (rows, 2), the number of a phrase pair, and that of a
    wording of the other side that is right for its phrase, too.
    """

    tokens: Batch
    source: Spans
    target: Spans
    pairs: Integers
    sentences: int
    mates: int
    known_pairs: tuple[Integers, Integers] | None = None

    def anchored(self) -> Integers:
        """Numbers of the sentences among the texts, source sentences first: what an anchor holds."""
        count = len(self.tokens) // 2
        return np.concatenate([np.arange(self.sentences), count + np.arange(self.sentences)])


class _Sentence(NamedTuple):
    text: str
    words: list[tuple[int, int]]  # as they are in the altered text
    word_spans: dict[tuple[int, int], tuple[int, int]]  # characters before the alteration -> words, end inclusive


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
    """Tokenize the sentence pairs, list their spans of up to ``max_words`` words and draw ``most`` phrase pairs each.

    ``terms``: phrase pairs without a sentence around them, which say nothing about where phrases begin and end.
    ``others``: how many are drawn of each sentence pair's `Example.others`, which teach where function words belong.
    ``elsewhere``: examples whose two sides do not translate each other (`phrasemate.training.ccpr_data`).
    ``known_pairs``: wordings that are right for each other, except the ``opposed`` pairs, which are wrong where they
    stand.
    ``linked``: the phrases of these sentences that are not drawn are extra wrong answers. Left out are those whose
    wording contains that of a drawn phrase of their side, or lies in one (as CCPR's released code has it).

    Rare wordings are drawn rather than frequent ones: a phrase pair's chance falls with the square root of how often
    its source wording occurs in the batch.
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
    """(spans,) whether a wording neither contains one that is drawn nor lies in one; all are numbers of ``texts``."""
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
    """(rows, 2): a phrase pair, and a wording of the other side that is right for its phrase of this ``side``."""
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
    """(pairs, 2) span numbers of the phrase pairs that are whole on both sides, and whose sentence pair each is."""
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
    """The spans of one side, and the number of each by (sentence, first word, last word)."""
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
    """Numbers of the phrase pairs that are kept: ``most`` of each owner, by weighted drawing without replacement."""
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

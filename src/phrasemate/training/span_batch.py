"""A batch of sentence pairs as the contrast of phrases takes it: tokens, all spans of words, which are whose mates."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Container, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.text import folded, words
from phrasemate.training.cross_context import KnownPairs, word_hash
from phrasemate.training.hf_encoder import Batch, Tokenizer, token_rows
from phrasemate.training.phrase_pair_data import Alteration, Example, Pairs

Integers = NDArray[np.int64]


class Spans(NamedTuple):
    """All spans of words of some sentences, sentence after sentence; each array is (spans,).

    ``first`` and ``last`` are token rows, ``length`` is the number of words, ``wording`` tells the case-folded text
    (equal numbers, equal text), ``text`` the sentence's number in the batch of tokens, ``phrase`` whether a phrase pair
    has this span.
    """

    first: Integers
    last: Integers
    length: Integers
    wording: Integers
    text: Integers
    phrase: NDArray[np.bool_]


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
    known: tuple[Integers, Integers] | None = None

    def anchored(self) -> Integers:
        """Numbers of the sentences among the texts, source sentences first: what an anchor holds."""
        count = len(self.tokens) // 2
        return np.concatenate([np.arange(self.sentences), count + np.arange(self.sentences)])


class _Sentence(NamedTuple):
    text: str
    words: list[tuple[int, int]]  # as they are in the altered text
    found: dict[tuple[int, int], tuple[int, int]]  # characters before the alteration -> words, end inclusive


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
    known: KnownPairs | None = None,
    opposed: Container[tuple[str, str]] = (),
) -> SpanBatch:
    """Tokenize the sentence pairs, list their spans of up to ``max_words`` words and draw ``most`` phrase pairs each.

    ``terms``: phrase pairs without a sentence around them, which say nothing about where phrases begin and end.
    ``others``: how many are drawn of each sentence pair's `Example.others`, which teach where function words belong.
    ``elsewhere``: examples whose two sides do not translate each other (`phrasemate.training.cross_context`).
    ``known``: wordings that are right for each other, except the ``opposed`` pairs, which are wrong where they stand.

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
    listed = [_spans(side, place * count, tokens, max_words, numbers) for place, side in enumerate(sides)]
    spans, places = [each for each, _ in listed], [place for _, place in listed]
    chosen = []
    for lists, count in (([e.pairs for e in examples], most), ([e.others for e in examples], others)):
        table, owners = _placed(lists, sides, places)
        chosen.append(table[_drawn(spans[0].wording[table[:, 0]], owners, count, draw)])
        if len(chosen) == 1:  # the others are no phrases
            for side, each in enumerate(spans):
                each.phrase[table[:, side]] = True
    pairs = np.concatenate(chosen)
    right = (
        None
        if known is None
        else (_known(spans, pairs, numbers, known, opposed, 0), _known(spans, pairs, numbers, known, opposed, 1))
    )
    return SpanBatch(tokens, spans[0], spans[1], pairs, sentences, mates, right)


def _known(
    spans: Sequence[Spans],
    pairs: Integers,
    numbers: dict[str, int],
    known: KnownPairs,
    opposed: Container[tuple[str, str]],
    side: int,
) -> Integers:
    """(rows, 2): a phrase pair, and a wording of the other side that is right for its phrase of this ``side``."""
    texts = list(numbers)
    present = {word_hash(folded(texts[number])): number for number in np.unique(spans[1 - side].wording).tolist()}
    rows: list[tuple[int, int]] = []
    for pair, wording in enumerate(spans[side].wording[pairs[:, side]].tolist()):
        text = folded(texts[wording])
        for other in known.of(word_hash(text), side).tolist():
            number = present.get(other)
            if number is None:
                continue
            both = (text, folded(texts[number]))
            if (both if side == 0 else both[::-1]) not in opposed:
                rows.append((pair, number))
    return np.array(rows, np.int64).reshape(-1, 2)


def _placed(
    lists: Sequence[Pairs], sides: Sequence[Sequence[_Sentence]], places: Sequence[dict[tuple[int, int, int], int]]
) -> tuple[Integers, Integers]:
    """(pairs, 2) span numbers of the phrase pairs that are whole on both sides, and whose sentence pair each is."""
    pairs, owners = [], []
    for number, listed in enumerate(lists):
        for pair in listed:
            ends = [places[0].get((number, *sides[0][number].found[pair[:2]]))]
            ends += [places[1].get((number, *sides[1][number].found[pair[2:]]))]
            if None not in ends:
                pairs.append(ends)
                owners.append(number)
    return np.array(pairs, np.int64).reshape(-1, 2), np.array(owners, np.int64)


def _altered(text: str, spans: Sequence[tuple[int, ...]], alteration: Alteration, draw: random.Random) -> _Sentence:
    new, starts, ends = alteration(text, draw)
    found = words(text)
    opening = {start: number for number, (start, _) in enumerate(found)}
    closing = {end: number for number, (_, end) in enumerate(found)}
    places = {(s, e): (opening.get(s, -1), closing.get(e, -1)) for s, e in spans}
    return _Sentence(new, [(starts[s], ends[e - 1]) for s, e in found], places)


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
        kept = whole[i] & whole[j]
        i, j = i[kept], j[kept]
        wordings = [sentence.text[s:e].casefold() for s, e in zip(starts[i].tolist(), ends[j].tolist(), strict=True)]
        for a, b in zip(i.tolist(), j.tolist(), strict=True):
            place[number, a, b] = len(place)
        ids = np.array([numbers.setdefault(wording, len(numbers)) for wording in wordings], np.int64)
        parts.append((opening[i], closing[j], j - i + 1, ids, np.full(len(i), before + number)))
    first, last, length, wording, text = (np.concatenate(each).astype(np.int64) for each in zip(*parts, strict=True))
    return Spans(first, last, length, wording, text, np.zeros(len(first), bool)), place


def _drawn(wordings: Integers, owners: Integers, most: int, draw: random.Random) -> Integers:
    """Numbers of the phrase pairs that are kept: ``most`` of each owner, by weighted drawing without replacement."""
    counts = Counter(wordings.tolist())
    keys = [-draw.expovariate(1.0) * counts[wording] ** 0.5 for wording in wordings.tolist()]
    kept: list[int] = []
    taken: Counter[int] = Counter()
    for number in sorted(range(len(keys)), key=lambda n: -keys[n]):
        owner = int(owners[number])
        if taken[owner] < most:
            taken[owner] += 1
            kept.append(number)
    return np.array(sorted(kept), np.int64)

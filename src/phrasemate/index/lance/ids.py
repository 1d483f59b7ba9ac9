"""Where everything is in an index of shards: which ids its shards hold, and which documents.

A sentence's id counts the input, so it is in its row. A phrase's id depends on how many phrases stand before its
shard; that is known only when those shards are made, so its row says shard and place, and the id is worked out here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import IndexDamaged
from phrasemate.index.exact import Runs
from phrasemate.index.lance.commit import in_force
from phrasemate.index.lance.records import Head, Piece, Shard
from phrasemate.index.lance.shard import PLACES
from phrasemate.index.lance.tables import Tables
from phrasemate.index.types import DocumentInfo

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Sentences of one document that follow each other, and their phrases: the first of each, and how many."""

    document: int
    position: int
    first_sentence: int
    sentences: int
    first_phrase: int
    phrases: int


class Layout:
    """Made from the shards that are in force."""

    def __init__(self, head: Head, shards: Sequence[Shard], place: str) -> None:
        if len(shards) != head.shards or [shard.number for shard in shards] != list(range(head.shards)):
            raise IndexDamaged(
                f"{place}: {len(shards)} shards found, expected {head.shards}, each once; build the index again"
            )
        self.head, self._place = head, place
        counts = np.array([[shard.sentences, shard.phrases] for shard in shards], np.int64).reshape(-1, 2)
        bases = np.concatenate([np.zeros((1, 2), np.int64), np.cumsum(counts, axis=0)])
        self.sentences, self.phrases = bases[:, 0].copy(), bases[:, 1].copy()  # (shards + 1,) before each shard
        self.documents: dict[int, DocumentInfo] = {}  # the live ones
        self.stretches: dict[int, list[Stretch]] = {}  # of every document
        self._held: list[Stretch] = []  # those of sentences, by id
        self._reached: dict[int, int] = {}  # how many sentences of each document were met
        for shard, first, first_phrase in zip(shards, *(base.tolist() for base in bases.T), strict=False):
            if shard.first_sentence != first or not shard.adds_up:
                raise self._damaged(f"shard {shard.number} and its pieces do not fit the shards before it")
            self._take(shard, first_phrase)
        gone = sorted(
            (stretch for document in head.deleted for stretch in self.stretches.get(document, ())),
            key=lambda stretch: stretch.first_sentence,
        )
        self.dead_sentences = _runs([(stretch.first_sentence, stretch.sentences) for stretch in gone])
        self.dead_phrases = _runs([(stretch.first_phrase, stretch.phrases) for stretch in gone])
        self._firsts = np.array([stretch.first_sentence for stretch in self._held], np.int64)
        self._check()

    @classmethod
    def read(cls, tables: Tables, head: Head) -> Layout:
        """Raises IndexDamaged."""
        return cls(head, in_force(tables, head), tables.place)

    def _take(self, shard: Shard, phrase: int) -> None:
        sentence = shard.first_sentence
        for piece in shard.pieces:
            stretch = Stretch(piece.document, piece.position, sentence, piece.sentences, phrase, piece.phrases)
            self.stretches.setdefault(piece.document, []).append(stretch)
            if piece.sentences:
                if piece.position != (reached := self._reached.get(piece.document, 0)):
                    raise self._damaged(f"document {piece.document} goes on at {piece.position}, expected {reached}")
                self._reached[piece.document] = reached + piece.sentences
                self._held.append(stretch)
            known = self.documents.get(piece.document)
            if known is not None and (known.name, known.language, known.digest) != piece[1:4]:
                raise self._damaged(f"document {piece.document} has two names or contents")
            if piece.document not in self.head.deleted:
                self.documents[piece.document] = _grown(self.documents.get(piece.document), piece)
            sentence, phrase = sentence + piece.sentences, phrase + piece.phrases

    def _damaged(self, what: str) -> IndexDamaged:
        return IndexDamaged(f"{self._place}: {what}; build the index again")

    def _check(self) -> None:
        state = self.head.state
        found = (
            len(self.documents),
            sum(document.sentences for document in self.documents.values()),
            sum(document.phrases for document in self.documents.values()),
            int(self.sentences[-1]),
            int(self.phrases[-1]),
        )
        expected = (state.documents, state.sentences, state.phrases, state.next_sentence, state.next_phrase)
        if found != expected:
            raise self._damaged(f"its shards hold {found}, its head says {expected}")
        if max(self.stretches, default=-1) >= state.next_document:
            raise self._damaged(f"its shards hold document {max(self.stretches)}, expected less than the head's next")

    def ids(self, keys: Ids) -> Ids:
        """The ids of phrases by their keys."""
        if keys.dtype != np.int64:  # some are missing
            raise self._damaged("a phrase without a key was found")
        shards = keys >> PLACES
        if len(keys) and (shards.min() < 0 or shards.max() >= self.head.shards):
            raise self._damaged(
                f"a phrase of shard {int(shards.max())} was found, expected less than {self.head.shards}"
            )
        ids = np.asarray(self.phrases[shards] + (keys & ((1 << PLACES) - 1)), np.int64)
        if (ids >= self.phrases[shards + 1]).any():
            raise self._damaged("a phrase beyond the last one of its shard was found")
        return ids

    def base(self, sentence: int) -> int:
        """The first phrase of a sentence's shard."""
        return int(self.phrases[int(np.searchsorted(self.sentences, sentence, "right")) - 1])

    def holder(self, sentence: int) -> Stretch | None:
        """Where a sentence must be."""
        at = int(np.searchsorted(self._firsts, sentence, "right")) - 1
        return self._held[at] if at >= 0 and sentence < self.head.next_sentence else None

    def shard_of(self, phrase: int) -> tuple[int, int]:
        """The number of a phrase's shard, and its place there."""
        number = bisect_right(self.phrases, phrase) - 1
        return number, phrase - int(self.phrases[number])

    def place(self, sentence: int) -> int:
        """Where a live sentence stands among the rows that are not deleted."""
        return sentence - self.dead_sentences.below(sentence)

    def sentence_at(self, document: int, position: int) -> int | None:
        """The id of a sentence by its place in a document."""
        for stretch in self.stretches.get(document, ()):
            if 0 <= position - stretch.position < stretch.sentences:
                return stretch.first_sentence + position - stretch.position
        return None


def _grown(document: DocumentInfo | None, piece: Piece) -> DocumentInfo:
    sentences, phrases = (0, 0) if document is None else (document.sentences, document.phrases)
    return DocumentInfo(
        piece.document,
        piece.name,
        piece.language,
        piece.digest,
        piece.complete,
        sentences + piece.sentences,
        phrases + piece.phrases,
    )


def _runs(pairs: list[tuple[int, int]]) -> Runs:
    """Runs of ids, of which neighbours are put together."""
    merged: list[list[int]] = []
    for first, count in pairs:
        if merged and sum(merged[-1]) == first:
            merged[-1][1] += count
        elif count:
            merged.append([first, count])
    return Runs(np.array(merged, np.int64).reshape(-1, 2))

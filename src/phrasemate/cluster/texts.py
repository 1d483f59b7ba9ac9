"""Which sentences of an index of Lance tables contain a phrase."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from phrasemate.cluster.store import LanceStore
from phrasemate.cluster.tables import SENTENCES, WORDS, mapped
from phrasemate.cluster.words import condition
from phrasemate.index import row_codec
from phrasemate.index.fulltext import check, forms, lowered

_FIRST = 8192  # texts that are read before the index is asked: what is frequent is found there


class LanceTexts:
    """As `phrasemate.index.fulltext.TextSearch`: by Lance's index of trigrams where ``optimize`` has made one.

    Sentences that it does not know are read, and all of them where there is none, or where it cannot be asked (half a
    character of UTF-16, a zero). Lance compares the texts of what its index proposes, and reads all of them for what
    holds no three letters or digits.
    """

    def __init__(self, store: LanceStore) -> None:
        self._store = store
        self._held: tuple[tuple[int, str], list[int]] = ((-1, ""), [])

    def containing(self, phrase: str, limit: int) -> list[int]:
        """Ids of up to ``limit`` sentences whose text contains ``phrase``, upper and lower case alike, ascending."""
        check(phrase, limit)
        with self._store.reading():
            return list(islice(self._holding([lowered(phrase)]), limit))

    def candidates(self, phrase: str, first: int = 0, before: int = 1 << 62, limit: int = 1 << 62) -> list[int]:
        """Ids from ``first`` up to ``before`` of sentences that hold ``phrase``, in any case; the first ``limit``."""
        check(phrase, limit)
        with self._store.reading() as state:
            key = (state.generation, phrase)
            if self._held[0] != key:  # the last phrase is kept, since it is asked for piece by piece
                small = list(dict.fromkeys(lowered(form) for form in forms(phrase)))
                self._held = key, list(self._holding(small))
            return [identity for identity in self._held[1] if first <= identity < before][:limit]

    def _holding(self, small: Sequence[str]) -> Iterator[int]:
        """The sentences whose text, in lower case, holds one of these."""
        known, asked = self._store.words(), condition(small)
        newer = None
        if known is not None and asked is not None:
            newer = f"id >= {known[1]}"
            yield from self._indexed(small, asked)
        for batch in self._store.batches(SENTENCES, ["id", "text"], newer):
            for identity, text in zip(batch["id"].to_pylist(), batch["text"].to_pylist(), strict=True):
                lower = lowered(row_codec.decode_text(text))
                if any(form in lower for form in small):
                    yield identity

    def _indexed(self, small: Sequence[str], asked: str) -> Iterator[int]:
        dead = self._store.layout.dead_sentences
        with mapped(self._store.path):
            first = self._store.table(WORDS).head(_FIRST, columns=["id", "text"])
        ids = first["id"].to_numpy()
        gone = dead.contains(ids)
        for identity, text, passed in zip(ids.tolist(), first["text"].to_pylist(), gone.tolist(), strict=True):
            if not passed and any(form in text for form in small):
                yield identity
        if len(ids) < _FIRST:
            return
        for batch in self._store.batches(WORDS, ["id"], f"id > {ids[-1]} AND ({asked})"):
            found = batch["id"].to_numpy()
            yield from found[~dead.contains(found)].tolist()

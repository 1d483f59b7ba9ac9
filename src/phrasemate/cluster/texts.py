"""Which sentences of an index of Lance tables contain a phrase: all texts are read for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from phrasemate.cluster.store import LanceStore
from phrasemate.cluster.tables import SENTENCES
from phrasemate.errors import InputError
from phrasemate.index import rows
from phrasemate.index.containing import forms

__all__ = ["LanceTexts"]


class LanceTexts:
    """As `phrasemate.index.containing.TextSearch`, without an index of the text."""

    def __init__(self, store: LanceStore) -> None:
        self._store = store
        self._held: tuple[tuple[int, str], list[int]] = ((-1, ""), [])

    def containing(self, phrase: str, limit: int) -> list[int]:
        """Ids of up to ``limit`` sentences whose text contains ``phrase``, upper and lower case alike, ascending."""
        _check(phrase, limit)
        wanted = phrase.lower()
        with self._store.reading():
            found = self._where(lambda text: wanted in text)
            return [identity for identity, _ in zip(found, range(limit), strict=False)]

    def candidates(self, phrase: str, first: int = 0, before: int = 1 << 62, limit: int = 1 << 62) -> list[int]:
        """Ids from ``first`` up to ``before`` of sentences that hold ``phrase``, in any case; the first ``limit``."""
        _check(phrase, limit)
        with self._store.reading() as state:
            key = (state.generation, phrase)
            if self._held[0] != key:  # the last phrase is kept, since it is asked for piece by piece
                small = [form.lower() for form in forms(phrase)]
                self._held = key, list(self._where(lambda text: any(form in text for form in small)))
            return [identity for identity in self._held[1] if first <= identity < before][:limit]

    def _where(self, holds: Callable[[str], bool]) -> Iterator[int]:
        """The sentences whose text, in lower case, passes."""
        for batch in self._store.batches(SENTENCES, ["id", "text"]):
            texts = batch["text"].to_pylist()
            for identity, text in zip(batch["id"].to_pylist(), texts, strict=True):
                if holds(rows.decode_text(text).lower()):
                    yield identity


def _check(phrase: str, limit: int) -> None:
    if not phrase or limit < 1:
        raise InputError(f"cannot look for {phrase!r} with a limit of {limit}; expected a text and at least 1")

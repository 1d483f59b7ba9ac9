"""Which sentences contain a phrase: exact substrings, upper and lower case alike, in every script."""

from __future__ import annotations

from collections.abc import Iterator

from phrasemate.errors import InputError
from phrasemate.index import rows
from phrasemate.index.store import Store

__all__ = ["TextSearch"]

_TRIGRAM = 3


class TextSearch:
    """Finds substrings through the trigram index when it is intact, else by reading all sentences.

    The index is compared with the checksum of its stamp once per generation: a damaged one would miss sentences
    without a word. Three characters are the least that trigrams can find; shorter phrases are looked for in the text.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._checked: tuple[int, bool] = (-1, False)  # generation, usable

    def containing(self, phrase: str, limit: int) -> list[int]:
        """Ids of up to ``limit`` sentences whose text contains ``phrase``, ascending.

        Raises InputError for an empty phrase, IndexDamaged.
        """
        if not phrase or limit < 1:
            raise InputError(f"cannot look for {phrase!r} with a limit of {limit}; expected a text and at least 1")
        with self._store.reading() as state:
            quick = len(phrase) >= _TRIGRAM and "\0" not in phrase and self._usable(state.generation)
            candidates = self._by_index(phrase) if quick else self._by_reading()
            wanted, found = phrase.lower(), []
            for identity, text in candidates:
                if wanted in text.lower():
                    found.append(identity)
                    if len(found) == limit:
                        break
            return found

    def _usable(self, generation: int) -> bool:
        if self._checked[0] != generation:
            stamp = self._store.extra("words")
            fresh = stamp is not None and stamp["generation"] == generation
            if fresh and stamp["crc"] != self._store.words_checksum():
                raise self._store.damaged("the text index does not match its checksum")
            self._checked = (generation, fresh)
        return self._checked[1]

    def _by_index(self, phrase: str) -> Iterator[tuple[int, str]]:
        quoted = '"' + phrase.replace('"', '""') + '"'
        query = "SELECT rowid FROM words WHERE words MATCH CAST(? AS TEXT) ORDER BY rowid"
        for (identity,) in self._store.connection.execute(query, (rows.encode_text(quoted),)):
            yield from ((row.id, row.text) for row in self._store.sentences([identity]))

    def _by_reading(self) -> Iterator[tuple[int, str]]:
        for row in self._store.all_sentences():
            yield row.id, row.text

"""The sentences of an index as a source of examples."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager

from phrasemate.errors import InputError
from phrasemate.examples.matching import characters
from phrasemate.examples.sampling import Row
from phrasemate.index import DocumentInfo, Index


class IndexSource:
    """The text store of an index, whose trigrams find the candidates; the index stays its owner's to close."""

    def __init__(self, index: Index, languages: Collection[str] | None = None) -> None:
        self._store, self._search = index.store, index.texts
        self._documents: tuple[int, dict[int, DocumentInfo]] = (-1, {})
        self._languages = languages
        known = {document.language for document in index.documents()}
        if unknown := sorted(set(languages or ()) - known):
            there = ", ".join(sorted(known - {""})) or "no text whose language is known"
            raise InputError(f"{index.path}: has no text in {', '.join(unknown)}; it has {there}")

    def snapshot(self) -> AbstractContextManager[object]:
        return self._store.snapshot()

    def size(self) -> int:
        return self._store.state().next_sentence

    def count(self) -> int:
        with self._store.reading() as state:
            return state.sentences

    def candidates(self, phrase: str, first: int, before: int, limit: int) -> list[int]:
        """As the text index has them, with single spaces or with its own; none for a phrase without letter or digit."""
        if not any(map(str.isalnum, phrase)):
            return []
        written = dict.fromkeys((" ".join(phrase.split()), phrase.strip()))
        found = [self._search.candidates(each, first, before, limit) for each in written]
        return found[0] if len(found) == 1 else sorted({*found[0], *found[1]})[:limit]

    def likely(self, phrase: str, first: int, before: int, limit: int) -> list[int]:
        """Candidates in which it stands between spaces, if its script has them: not all that hold "art" are of art."""
        space = "" if characters(phrase) else " "
        return self._search.candidates(space + " ".join(phrase.split()) + space, first, before, limit)

    def rows(self, ids: Sequence[int]) -> list[Row]:
        """The sentences of these ids that are in one of the languages asked for, in their order."""
        with self._store.reading() as state:
            if self._documents[0] != state.generation:
                self._documents = (state.generation, {d.id: d for d in self._store.documents()})
            documents, found = self._documents[1], []
            for row in self._store.sentences(ids):
                if (document := documents.get(row.document)) is None:
                    raise self._store.damaged(f"document {row.document} of sentence {row.id} is missing")
                if self._languages is None or document.language in self._languages:
                    found.append(Row(row.text, document.name, row.line, document.language))
        return found

    def close(self) -> None:
        """Nothing of its own is open."""

"""Documents on their way in: which are new, where interrupted ones go on, and their sentences cut into chunks.

The cuts fall where they would fall in one undisturbed run, however often it is interrupted: the next run begins at
the end of the last chunk that was kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, Protocol

from phrasemate.errors import InputError
from phrasemate.index.records import DocumentInfo, Settings
from phrasemate.types import Document, Sentence


class Learner(Protocol):
    """Finds the most frequent words of a language (``phrasemate.encode.segment.FrequentWords``)."""

    def update(self, text: str) -> None: ...
    def words(self) -> list[str]: ...


def _learner() -> Learner:
    from phrasemate.encode.segment import FrequentWords

    learner: Learner = FrequentWords()
    return learner


@dataclass
class Task:
    """A document on its way in; ``info`` is its record as of the sentences handed out so far."""

    info: DocumentInfo
    document: Document
    replaces: int | None = None


Item = tuple[Task, int, Sentence]  # its document, its position there, itself


class Intake:
    """What one call takes in; ``known`` are the documents that are there already, by name."""

    def __init__(self, known: dict[str, DocumentInfo], next_document: int, lang: str, settings: Settings) -> None:
        self._known, self._next_document, self._lang, self._settings = known, next_document, lang, settings
        self._given: dict[str, str] = {}  # name -> digest of what this call was given
        self.counts = {"added": 0, "replaced": 0, "unchanged": 0}
        self.bytes_before = 0  # of the documents that the stream has gone past

    def chunks(self, documents: Iterable[Document]) -> Iterator[tuple[list[Item], list[Task]]]:
        """Sentences of all documents, so many at a time, and the documents that they belong to.

        A document is complete when the stream has gone past it: a chunk that ends with its last sentence does not
        know that yet, and the next one records it.
        """
        items: list[Item] = []
        tasks: list[Task] = []
        for document in documents:
            task = self._task(document)
            if task is not None:
                tasks.append(task)
                done = task.info.sentences
                for position, sentence in enumerate(islice(document.sentences(), done, None), done):
                    items.append((task, position, sentence))
                    if len(items) == self._settings.chunk:
                        yield items, tasks
                        items, tasks = [], [task]
                task.info = replace(task.info, complete=True)
            self.bytes_before += document.size
        if tasks:
            yield items, tasks

    def _task(self, document: Document) -> Task | None:
        """What to do about a document; None if it is in the index as it is."""
        name, digest = document.name, document.digest
        if self._given.setdefault(name, digest) != digest:
            raise InputError(f"two documents are named {name!r} and differ; give each document a name of its own")
        old = self._known.get(name)
        if old is not None and (old.digest, old.language) == (digest, self._lang):
            if old.complete:
                self.counts["unchanged"] += 1
                return None
            self.counts["added"] += 1
            self._known[name] = replace(old, complete=True)  # given once more, it is unchanged
            return Task(old, document)
        self.counts["added" if old is None else "replaced"] += 1
        info = DocumentInfo(self._next_document, name, self._lang, digest, complete=False, sentences=0, phrases=0)
        self._next_document += 1
        self._known[name] = replace(info, complete=True)
        return Task(info, document, None if old is None else old.id)

    def frequent(
        self, documents: Iterable[Document], stored: dict[str, Any] | None
    ) -> tuple[dict[str, Any], Iterable[Document]]:
        """The language's frequent words, and the documents again with those that learning has taken from the stream.

        They are learned once from the first sentences and kept (``stored``: {"sentences": from how many, "words"}), so
        that appending and resuming use the same; only words from a small sample give way to those of a larger one.
        """
        stored = stored or {"sentences": 0, "words": []}
        if stored["sentences"] >= self._settings.learn:
            return stored, documents
        stream = iter(documents)
        held, learner, seen = [], _learner(), 0
        for document in stream:
            held.append(document)
            if not self._is_stored(document):
                for sentence in islice(document.sentences(), self._settings.learn - seen):
                    learner.update(sentence.text)
                    seen += 1
            if seen >= self._settings.learn:
                break
        if seen > stored["sentences"]:
            stored = {"sentences": seen, "words": sorted(learner.words())}
        return stored, chain(held, stream)

    def _is_stored(self, document: Document) -> bool:
        old = self._known.get(document.name)
        return old is not None and old.complete and (old.digest, old.language) == (document.digest, self._lang)

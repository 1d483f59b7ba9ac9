"""Find example sentences that contain a phrase, in an index or in text files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from phrasemate.errors import IndexDamaged, IndexMissing, IndexUnsupported, InputError
from phrasemate.examples.matching import occurrences
from phrasemate.examples.sampling import Example, Source, sample
from phrasemate.examples.sources import IndexSource, TextStore
from phrasemate.index import BaseIndex, ProgressEvent
from phrasemate.types import Document, Phrase, check_list

__all__ = ["Example", "ExampleIndex", "Finder", "occurrences"]

log = logging.getLogger(__name__)


class Finder(Protocol):
    """Whatever gives example sentences of a phrase."""

    def find(self, phrase: str, limit: int = 32, extra: int = 10, seed: int = 0) -> list[Phrase]:
        """Up to ``limit`` sentences that contain the phrase, each marked where it stands first."""


class ExampleIndex:
    """Example sentences of phrases. Use it in ``with``, or ``close`` it.

    >>> from phrasemate import Document
    >>> from phrasemate.examples import ExampleIndex
    >>> story = Document.from_texts("story", ["She sat on the bench in the park.", "It rained all day."])
    >>> with ExampleIndex.build([story]) as source:
    ...     [phrase.context for phrase in source.find("bench")]
    ['She sat on the bench in the park.']
    """

    def __init__(self, source: Source, reused: bool = False) -> None:
        self._source = source
        self.reused = reused  # whether ``build`` found the file as it would have made it

    @classmethod
    def from_index(cls, index: BaseIndex, languages: Collection[str] | None = None) -> ExampleIndex:
        """The sentences of an open index, or those in some languages of it.

        The index stays open when this is closed. Raises InputError for a language that it does not have.
        """
        return cls(IndexSource(index, languages))

    @classmethod
    def build(
        cls,
        documents: Iterable[Document],
        path: str | Path | None = None,
        language: str = "",
        progress: Callable[[ProgressEvent], None] = lambda _: None,
    ) -> ExampleIndex:
        """The sentences of documents, in a file that can be opened again, or a temporary one.

        Args:
            documents: Documents (``phrasemate.read``).
            path: File to make; None for a temporary one. A file that was made from the same unchanged documents is used
                as it is, another one of ours is replaced.
            language: Language of the documents that do not name their own.
            progress: Called after each chunk.

        Raises IndexExists for a file that holds something else, PhraseIndexError if it cannot be written, and what
        reading the documents raises.
        """
        check_list(documents, "documents")
        documents_read = list(documents)
        if path is not None and (old := _unchanged(Path(path), documents_read, language)):
            return cls(old, reused=True)
        return cls(TextStore.build(documents_read, None if path is None else Path(path), language, progress))

    @classmethod
    def open(cls, path: str | Path) -> ExampleIndex:
        """A file that ``build`` has made. Raises IndexMissing, IndexUnsupported, IndexDamaged."""
        return cls(TextStore.open(Path(path)))

    def examples(self, phrase: str, limit: int = 32, extra: int = 10, seed: int = 0) -> list[Example]:
        """Sentences that contain a phrase as whole words (see `occurrences`), and where they are from.

        The same ones each time, from different documents and places, none twice, near repetitions last. If the text
        has fewer, all of them; none for a phrase without letter or digit.

        Args:
            phrase: Phrase to look for.
            limit: Sentences at most.
            extra: Characters that a sentence is longer than the phrase, at least.
            seed: Seed of the draw.

        Raises InputError for a blank phrase, IndexDamaged.
        """
        if limit < 1 or extra < 0:
            raise InputError(
                f"cannot give {limit} examples with {extra} characters more; expected 1 or more and 0 or more"
            )
        with self._source.snapshot():
            return sample(self._source, phrase, limit, extra, seed)

    def find(self, phrase: str, limit: int = 32, extra: int = 10, seed: int = 0) -> list[Phrase]:
        """The sentences of `examples`, each marked where the phrase stands first.

        Args:
            phrase: Phrase to look for.
            limit: Sentences at most.
            extra: Characters that a sentence is longer than the phrase, at least.
            seed: Seed of the draw.
        """
        return [example.phrase for example in self.examples(phrase, limit, extra, seed)]

    def find_all(
        self,
        phrases: Sequence[str],
        limit: int = 32,
        extra: int = 10,
        seed: int = 0,
        progress: Callable[[int, int], None] = lambda count, total: None,
    ) -> list[list[Phrase]]:
        """`find` for each phrase, all within one state of the text.

        Args:
            phrases: Phrases to look for; one that comes twice is looked for once.
            limit: Sentences of each phrase at most.
            extra: Characters that a sentence is longer than the phrase, at least.
            seed: Seed of the draw.
            progress: Called with the number of phrases that are done, and of all.
        """
        sentences: dict[str, list[Phrase]] = {}
        with self._source.snapshot():
            for count, phrase in enumerate(phrases, 1):
                if phrase not in sentences:
                    sentences[phrase] = self.find(phrase, limit, extra, seed)
                progress(count, len(phrases))
        return [list(sentences[phrase]) for phrase in phrases]

    @property
    def sentences(self) -> int:
        """Number of sentences."""
        return self._source.count()

    def close(self) -> None:
        self._source.close()

    def __enter__(self) -> ExampleIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _unchanged(path: Path, documents: Sequence[Document], language: str) -> TextStore | None:
    """The store in a file if it was made from these documents."""
    try:
        store = TextStore.open(path)
    except (IndexMissing, IndexUnsupported):
        return None
    except IndexDamaged as error:
        log.warning("%s; making it again", error)
        return None
    if store.same(documents, language):
        return store
    store.close()
    return None

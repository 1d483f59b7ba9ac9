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
from phrasemate.types import Document, Phrase, check_progress, check_text, iterate_documents, text_tuple

__all__ = ["Example", "ExampleIndex", "Finder", "occurrences"]

log = logging.getLogger(__name__)


class Finder(Protocol):
    """Interface of sources of example sentences, such as `ExampleIndex`."""

    def find(self, phrase: str, limit: int = 32, extra: int = 10, seed: int = 0) -> list[Phrase]:
        """Return up to ``limit`` sentences that contain the phrase, each with its first occurrence marked."""


class ExampleIndex:
    """Index of sentences that finds examples of a phrase. Use it as a context manager, or call ``close``.

    ``reused`` tells whether `build` used an existing file.

    >>> from phrasemate import Document
    >>> from phrasemate.examples import ExampleIndex
    >>> story = Document.from_texts("story", ["She sat on the bench in the park.", "It rained all day."])
    >>> with ExampleIndex.build([story]) as source:
    ...     [phrase.context for phrase in source.find("bench")]
    ['She sat on the bench in the park.']
    """

    def __init__(self, source: Source, reused: bool = False) -> None:
        self._source = source
        self.reused = reused

    @classmethod
    def from_index(cls, index: BaseIndex, languages: Collection[str] | None = None) -> ExampleIndex:
        """Find examples in an open index; with ``languages``, only in documents in one of these.

        Closing the example index leaves ``index`` open. Raises InputError for a language that the index does not have.
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
        """Build an index of the sentences of documents, in a file or temporarily.

        Args:
            documents: Documents, as from ``phrasemate.read``.
            path: File to write; None for a temporary one. A file that was built from the same, unchanged documents is
                reused. One that was built from other documents is replaced.
            language: Language of the documents, which all examples get.
            progress: Called after each batch of sentences.

        Raises IndexExists if the file holds something else, PhraseIndexError if it cannot be written, and every error
        of reading the documents.
        """
        check_progress(progress)
        documents_read = list(iterate_documents(documents))
        if path is not None and (old := _unchanged(Path(path), documents_read, language)):
            return cls(old, reused=True)
        return cls(TextStore.build(documents_read, None if path is None else Path(path), language, progress))

    @classmethod
    def open(cls, path: str | Path) -> ExampleIndex:
        """Open a file that `build` wrote.

        Raises IndexMissing if it does not exist, IndexUnsupported for another format, and IndexDamaged for an altered
        file.
        """
        return cls(TextStore.open(Path(path)))

    def examples(self, phrase: str, limit: int = 32, extra: int = 10, seed: int = 0) -> list[Example]:
        """Return sentences that contain a phrase as whole words (see `occurrences`), and their documents.

        The choice is reproducible, from different documents and places, without duplicates, and with near-duplicates
        last. A phrase without a letter or digit has no examples.

        Args:
            phrase: Phrase to look for.
            limit: Maximum number of sentences.
            extra: Minimum number of characters by which a sentence is longer than the phrase.
            seed: Seed of the choice.

        Raises InputError for a blank phrase, and IndexDamaged if the file is altered.
        """
        check_text(phrase)
        if limit < 1 or extra < 0:
            raise InputError(
                f"limit {limit}, extra {extra}; expected a limit of 1 or more and extra characters of 0 or more"
            )
        with self._source.snapshot():
            return sample(self._source, phrase, limit, extra, seed)

    def find(self, phrase: str, limit: int = 32, extra: int = 10, seed: int = 0) -> list[Phrase]:
        """Return the sentences of `examples`, each with the first occurrence of the phrase marked.

        Args:
            phrase: Phrase to look for.
            limit: Maximum number of sentences.
            extra: Minimum number of characters by which a sentence is longer than the phrase.
            seed: Seed of the choice.
        """
        return [example.phrase for example in self.examples(phrase, limit, extra, seed)]

    def find_all(
        self,
        phrases: Iterable[str],
        limit: int = 32,
        extra: int = 10,
        seed: int = 0,
        progress: Callable[[int, int], None] = lambda count, total: None,
    ) -> list[list[Phrase]]:
        """Return the sentences of each phrase as `find` does, all from the same state of the index.

        Args:
            phrases: Phrases to look for. Duplicates are looked for once.
            limit: Maximum number of sentences per phrase.
            extra: Minimum number of characters by which a sentence is longer than the phrase.
            seed: Seed of the choice.
            progress: Called with the number of phrases that are done, and their total.
        """
        check_progress(progress)
        phrases = text_tuple(phrases, "phrases")
        sentences: dict[str, list[Phrase]] = {}
        with self._source.snapshot():
            for count, phrase in enumerate(phrases, 1):
                if phrase not in sentences:
                    sentences[phrase] = self.find(phrase, limit, extra, seed)
                progress(count, len(phrases))
        return [list(sentences[phrase]) for phrase in phrases]

    @property
    def sentences(self) -> int:
        """Return the number of sentences."""
        return self._source.count()

    def close(self) -> None:
        """Close the file. An index given to `from_index` stays open."""
        self._source.close()

    def __enter__(self) -> ExampleIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _unchanged(path: Path, documents: Sequence[Document], language: str) -> TextStore | None:
    """Open the store in a file if it was built from these documents, unchanged; otherwise return None."""
    try:
        store = TextStore.open(path)
    except (IndexMissing, IndexUnsupported):
        return None
    except IndexDamaged as error:
        log.warning("%s; building it again", error)
        return None
    if store.same(documents, language):
        return store
    store.close()
    return None

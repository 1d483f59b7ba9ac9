"""Searching and look-ups, shared by an index of one machine and an index of Lance tables."""

from __future__ import annotations

import operator
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phrasemate.errors import IndexDamaged, InputError, PhraseIndexError
from phrasemate.index import row_codec
from phrasemate.index.manifest import Manifest
from phrasemate.index.store import SentenceRow, State, check_model
from phrasemate.index.types import (
    AddReport,
    DocumentInfo,
    Filters,
    IdRange,
    IndexModel,
    IndexStats,
    Progress,
    Scope,
    TuneReport,
    VerifyReport,
)
from phrasemate.index.wordings import WordingSearch
from phrasemate.text.languages import speaks
from phrasemate.types import Document, Hit, Phrase, Run, Sentence
from phrasemate.utils.machine import single_blas

if TYPE_CHECKING:
    from phrasemate.encode import Model
    from phrasemate.lexicon.dictionary import Dictionary

_MOST_RESULTS = 1 << 27  # of all queries together: 1.6 GB
_FAR = 1 << 53  # more sentences than any document has


class Reader(Protocol):
    """Store of an index as its readers see it: SQLite (`phrasemate.index.store`) or Lance (`.lance.store`)."""

    def state(self) -> State: ...
    def snapshot(self) -> AbstractContextManager[State]: ...
    def reading(self) -> AbstractContextManager[State]: ...
    def documents(self) -> Iterator[DocumentInfo]: ...
    def sentences_of(self, phrases: Sequence[int]) -> list[SentenceRow | None]: ...
    def sentences(self, ids: Iterable[int]) -> Iterator[SentenceRow]: ...
    def all_sentences(self, document: int | None = None) -> Iterator[SentenceRow]: ...
    def translated_sentences(self, fragment: str = "") -> Iterator[SentenceRow]: ...
    def near(self, sentence: SentenceRow, count: int) -> Iterator[SentenceRow]: ...
    def vectors_of(self, phrases: Sequence[int]) -> NDArray[np.int8]: ...
    def damaged(self, what: str) -> IndexDamaged: ...


class VectorSearch(Protocol):
    """Nearest phrases among those of a snapshot."""

    def search(
        self, state: State, vectors: NDArray[np.float32], k: int, scope: Scope
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]: ...


class SubstringSearch(Protocol):
    """Sentences that contain a text."""

    def containing(self, phrase: str, limit: int) -> list[int]: ...
    def candidates(self, phrase: str, ids: IdRange = ...) -> list[int]: ...


class BaseIndex(ABC):
    """Base of open indexes: a folder, Lance tables, or several parts. Use it in ``with``, or ``close`` it.

    Attributes:
        path: Folder or URI of the index.
        manifest: Model and settings that it was made with.
        store: Rows of the index.
        texts: Search for substrings.

    >>> import phrasemate as pm
    >>> pm.Index.create("base", pm.load_model()).close()
    >>> with pm.Index.open("base") as index:
    ...     isinstance(index, BaseIndex), index.documents()
    (True, [])
    """

    path: Path | str
    manifest: Manifest
    store: Reader
    texts: SubstringSearch
    _view: VectorSearch
    _readonly = True
    _refusal = "its files are written by other programs"  # end of the message of a refused change

    def __init__(self, model: IndexModel | None, threads: int | None) -> None:
        self._model, self._threads = model, threads
        self._documents_of: tuple[int, dict[int, DocumentInfo]] = (-1, {})  # generation, documents by id

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def readonly(self) -> bool:
        """Whether changes are refused."""
        return self._readonly

    @abstractmethod
    def close(self) -> None:
        """Release files and memory."""

    @property
    def model(self) -> Model | IndexModel:
        """Model of the index, loaded on first use from its folder. Raises ModelMismatch, ModelError."""
        if self._model is None:
            from phrasemate.encode import load_model

            loaded_model = load_model(self.manifest.model_path, threads=self._threads)
            check_model(self.path, self.manifest, loaded_model)
            self._model = loaded_model
        return self._model

    @cached_property
    def dictionaries(self) -> tuple[Dictionary, ...]:
        """The dictionaries that the index keeps, read on first use; none of Lance tables and of several parts.

        Raises IndexDamaged for one that is damaged.
        """
        if not Path(self.path, "dictionaries").is_dir():
            return ()
        from phrasemate.lexicon.dictionary import DictionaryFolder

        return tuple(DictionaryFolder(Path(self.path)).read())

    def take(self, model: IndexModel) -> None:
        """Use a model that is already loaded. Raises ModelMismatch if another one built the index."""
        check_model(self.path, self.manifest, model)
        self._model = model

    # -- writing; PhraseIndexError from what this kind of index leaves to others

    def begin(self, model: IndexModel, segment: Mapping[str, Any] | None = None) -> None:
        """Change the model and the segmenting options of an index without documents."""
        raise self._elsewhere()

    def add(self, documents: Iterable[Document], lang: str = "", progress: Progress | None = None) -> AddReport:
        """Store documents; see `Index.add`.

        Args:
            documents: Documents to store.
            lang: Language of the documents that do not name their own.
            progress: Called after each chunk.
        """
        raise self._elsewhere()

    def delete(self, *names: str) -> None:
        """Remove documents, all or none."""
        raise self._elsewhere()

    def optimize(self, *, target_recall: float | None = None, at: int = 1, seed: int = 0) -> TuneReport | None:
        """Reclaim the space of deleted rows, and rebuild the search files; see `Index.optimize`.

        Args:
            target_recall: Share of nearest phrases that searches have to find.
            at: Depth of the recall.
            seed: Seed of the phrases that it is measured on.
        """
        raise self._elsewhere()

    @abstractmethod
    def stats(self) -> IndexStats:
        """Sizes of the index; reads no sentence."""

    @abstractmethod
    def verify(self) -> VerifyReport:
        """Check every row and file; nothing is changed."""

    def _elsewhere(self) -> PhraseIndexError:
        return PhraseIndexError(f"{self.path}: {self._refusal}")

    def _check_writable(self) -> None:
        if self.readonly:
            raise PhraseIndexError(f"{self.path}: is open for reading only; open it with write permission to change it")

    # -- reading

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Make all searches and look-ups inside see the same state, even if a writer commits."""
        with self.store.snapshot():
            yield

    def search(
        self, vectors: ArrayLike, k: int, documents: Sequence[str] | None = None, languages: Sequence[str] | None = None
    ) -> Run:
        """The nearest phrases of each vector, best first.

        Args:
            vectors: Queries, (queries, dim) of unit length.
            k: Phrases of each query.
            documents: Names of the documents to search, or folders, or patterns with ``*``; None for all.
            languages: Languages of the documents to search; None for all.

        Raises InputError (wrong shape, unknown document or language), IndexDamaged, ModelMismatch (rebuilt).
        """
        return self.nearest(vectors, k, Filters(documents, languages))

    @single_blas
    def nearest(self, vectors: ArrayLike, k: int, filters: Filters) -> Run:
        """The nearest phrases of each vector, best first; `search` with its filters in one object.

        Args:
            vectors: Queries, (queries, dim) of unit length.
            k: Phrases of each query.
            filters: Documents to search.

        Errors as in `search`.
        """
        queries = _queries(vectors, self.manifest.dim, k)
        with self.store.reading():
            documents = None if filters.pass_all else np.array(self.documents_in(filters), np.int64)
            return Run(*self.nearest_in(queries, k, documents))

    def nearest_in(
        self, vectors: NDArray[np.float32], k: int, documents: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Ids and scores of the nearest phrases, both (queries, k), best first.

        Args:
            vectors: Queries, (queries, dim) of unit length.
            k: Phrases of each query.
            documents: Ids of the documents to search; None for all.
        """
        with self.store.reading() as state:
            passing = state.phrases
            if documents is not None:
                passing = sum(self._documents()[i].phrases for i in documents.tolist())
            return self._view.search(state, vectors, k, Scope(documents, passing))

    @property
    def generation(self) -> int:
        """Number of the latest committed state."""
        with self.store.reading() as state:
            return state.generation

    @property
    def has_wordings(self) -> bool:
        """Whether phrases can be looked up by their wording."""
        return False

    def languages(self) -> list[str]:
        """The languages of the documents, the most frequent one first; "" for documents without one."""
        counts = Counter(document.language for document in self.documents())
        return [language for language, _ in counts.most_common()]

    def wordings(self) -> AbstractContextManager[WordingSearch]:
        """Look phrases up by their wording, within one snapshot of the index. Raises InputError without a table."""
        raise InputError(f"{self.path}: has no table of wordings")

    def in_documents(self, ids: ArrayLike, filters: Filters) -> NDArray[np.bool_]:
        """(ids,) whether each phrase is live and passes the filters; all are taken for live if all documents pass.

        Raises InputError for an unknown document or language.
        """
        phrases = np.asarray(ids, np.int64)
        if filters.pass_all:
            return np.ones(len(phrases), np.bool_)
        distinct, places = np.unique(phrases, return_inverse=True)
        with self.store.reading():
            document_ids = set(self.documents_in(filters))
            rows = self.store.sentences_of(distinct.tolist())
        return np.array([row is not None and row.document in document_ids for row in rows], np.bool_)[places]

    def hits(self, ids: ArrayLike, scores: ArrayLike) -> list[Hit]:
        """The phrases of a row of a Run, in its order; padding (-1) and phrases deleted since are left out."""
        with self.store.reading():
            phrase_ids, values = np.asarray(ids).ravel().tolist(), np.asarray(scores).ravel().tolist()
            places = self._places(sorted({phrase for phrase in phrase_ids if phrase != -1}))
            documents = self._documents()
            hits = []
            for phrase, score in zip(phrase_ids, values, strict=True):
                if phrase in places:
                    where, row = places[phrase]
                    if (owner := documents.get(row.document)) is None:
                        raise self.store.damaged(f"document {row.document} of sentence {row.id} is missing")
                    hits.append(Hit(where, score, owner.name, row.line, owner.language, phrase, row.metadata))
        return hits

    def vectors(self, ids: ArrayLike) -> NDArray[np.float32]:
        """(ids, dim) float32 of unit length: the stored vectors of phrase ids, to the precision of their 8 bits.

        Raises InputError for an id that is not there, or was deleted.
        """
        distinct, places = np.unique(np.asarray(ids, np.int64).ravel(), return_inverse=True)
        with self.store.reading():
            codes = self.store.vectors_of(distinct.tolist())
        return row_codec.dequantise(codes)[places]

    def _places(self, phrases: Sequence[int]) -> dict[int, tuple[Phrase, SentenceRow]]:
        """Look up the places of ascending phrase ids, without deleted ones."""
        places: dict[int, tuple[Phrase, SentenceRow]] = {}
        for phrase, row in zip(phrases, self.store.sentences_of(phrases), strict=True):
            if row is not None:
                start, end = row_codec.unpack_span(row.spans, row.phrases, phrase - row.first_phrase)
                places[phrase] = Phrase(row.text, start, end), row
        return places

    def around(self, phrase: int, count: int = 2) -> tuple[list[Sentence], list[Sentence]]:
        """Up to ``count`` sentences before and after the one of a phrase id, in its document and in their order.

        Raises InputError for the number of a phrase that does not exist or was deleted.
        """
        phrase, count = operator.index(phrase), min(operator.index(count), _FAR)
        with self.store.reading():
            (phrase_row,) = self.store.sentences_of([phrase])
            if phrase_row is None:
                raise InputError(f"{self.path}: phrase {phrase} was deleted; search again")
            near = [
                (row.position, Sentence(row.text, row.line, row.metadata)) for row in self.store.near(phrase_row, count)
            ]
        before = [sentence for position, sentence in near if position < phrase_row.position]
        return before, [sentence for position, sentence in near if position > phrase_row.position]

    def containing(self, phrase: str, limit: int = 100) -> list[int]:
        """Ids of sentences whose text contains ``phrase``, upper and lower case alike, ascending."""
        return self.texts.containing(phrase, limit)

    def documents(self) -> list[DocumentInfo]:
        """List the documents, in the order in which they came."""
        with self.store.reading():
            return list(self._documents().values())

    def _documents(self) -> dict[int, DocumentInfo]:
        generation = self.store.state().generation
        if self._documents_of[0] != generation:
            self._documents_of = (generation, {document.id: document for document in self.store.documents()})
        return self._documents_of[1]

    def documents_in(self, filters: Filters, exact: bool = False) -> list[int]:
        """Ids of the documents that pass the filters. Raises InputError for an unknown name or language.

        Unless ``exact``, a name that no document has selects all that begin with it, such as a folder, and ``*`` in it
        matches anything. A language includes its varieties, see `speaks`.
        """
        names, languages = filters.documents, filters.languages
        with self.store.reading():
            documents = self._documents().values()
        language_names = {document.language for document in documents}
        document_names = {document.name for document in documents}
        if names is not None:
            fitting = {name: {name} & document_names if exact else _fitting(name, document_names) for name in names}
            self._check_known("document", [name for name, fit in fitting.items() if not fit], document_names)
            document_names = set().union(*fitting.values())
        if languages is not None:
            varieties = {tag: {language for language in language_names if speaks(language, tag)} for tag in languages}
            self._check_known("language", [tag for tag, fit in varieties.items() if not fit], language_names)
            language_names = set().union(*varieties.values())
        return [
            document.id
            for document in documents
            if document.name in document_names and document.language in language_names
        ]

    def _check_known(self, kind: str, unknown: Sequence[str], existing: set[str]) -> None:
        if unknown:
            raise InputError(f"{self.path}: has no {kind} {unknown[0]!r}; it has {_some(existing)}")


def _fitting(name: str, existing: set[str]) -> set[str]:
    """Resolve a name of a document: itself, or the known names that begin with it or match its ``*``."""
    if name in existing or not name:
        return {name} & existing
    pattern = re.compile(".*".join(map(re.escape, name.split("*"))) + ("" if "*" in name else ".*"), re.DOTALL)
    return {document_name for document_name in existing if pattern.fullmatch(document_name)}


def _some(names: set[str]) -> str:
    listing = ", ".join(repr(name) for name in sorted(names)[:5]) or "none"
    return listing + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _queries(vectors: ArrayLike, dim: int, k: int) -> NDArray[np.float32]:
    try:
        queries = np.ascontiguousarray(vectors, np.float32)
    except (ValueError, TypeError) as error:
        raise InputError(f"cannot search: these are not vectors ({error}); expected (queries, {dim})") from error
    if queries.ndim != 2 or queries.shape[1] != dim or not np.isfinite(queries).all():
        raise InputError(
            f"cannot search with vectors of shape {queries.shape}; expected finite numbers of shape (queries, {dim})"
        )
    if k < 1:
        raise InputError(f"cannot give the best {k}; expected 1 or more")
    if max(1, len(queries)) * k > _MOST_RESULTS:
        raise InputError(f"{len(queries):,} queries with {k:,} results each are too many at once; ask for fewer")
    return queries

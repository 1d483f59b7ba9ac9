"""`BaseIndex`: searches and look-ups shared by all kinds of index (one folder, Lance tables, several parts)."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from numbers import Integral
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
from phrasemate.text.names import name_of
from phrasemate.text.normalize import composed
from phrasemate.types import Document, Hit, Phrase, Run, Sentence, to_whole
from phrasemate.utils.machine import single_blas

if TYPE_CHECKING:
    from phrasemate.encode import Model
    from phrasemate.lexicon.dictionary import Dictionary

_MOST_RESULTS = 1 << 27  # results of one search, all queries together: 1.6 GB
_MOST_NEIGHBOURS = 1 << 53  # bound on ``count`` of `BaseIndex.around`: more sentences than any document has


class Reader(Protocol):
    """Read interface of a store, implemented by `phrasemate.index.store` (SQLite), `.lance.store` and `.shards`."""

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
    """Search for the phrases of a snapshot that are nearest to query vectors."""

    def search(
        self, state: State, vectors: NDArray[np.float32], k: int, scope: Scope
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]: ...


class SubstringSearch(Protocol):
    """Search for the sentences that contain a given text."""

    def containing(self, phrase: str, limit: int) -> list[int]: ...
    def candidates(self, phrase: str, ids: IdRange = ...) -> list[int]: ...


class BaseIndex(ABC):
    """Base class of all kinds of open index: a folder, Lance tables, or several parts.

    Use an index in a ``with`` block, or call ``close``.

    Attributes:
        path: Folder or URI of the index.
        manifest: Model and settings with which the index was created.
        store: Documents, sentences and vectors of the index.
        texts: Substring search over the sentences.

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
    _refusal = "its files are written by other programs"  # reason given when a change is refused

    def __init__(self, model: IndexModel | None, threads: int | None) -> None:
        self._model, self._threads = model, threads
        self._documents_of: tuple[int, dict[int, DocumentInfo]] = (-1, {})  # generation, documents by id
        self._languages_of: tuple[dict[int, DocumentInfo], list[str]] = ({}, [])  # documents by id, their languages

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def readonly(self) -> bool:
        """True if changes are refused."""
        return self._readonly

    @abstractmethod
    def close(self) -> None:
        """Release files and memory."""

    @property
    def model(self) -> Model | IndexModel:
        """Model of the index, loaded from its path on first use. Raises ModelMismatch, ModelError."""
        if self._model is None:
            from phrasemate.encode import load_model

            loaded_model = load_model(self.manifest.model_path, threads=self._threads)
            check_model(self.path, self.manifest, loaded_model)
            self._model = loaded_model
        return self._model

    @cached_property
    def dictionaries(self) -> tuple[Dictionary, ...]:
        """Dictionaries stored in the index, read on first use. Lance tables and indexes in parts have none.

        Raises IndexDamaged for a damaged dictionary.
        """
        if not Path(self.path, "dictionaries").is_dir():
            return ()
        from phrasemate.lexicon.dictionary import DictionaryFolder

        return tuple(DictionaryFolder(Path(self.path)).read())

    def take(self, model: IndexModel) -> None:
        """Use a model that is already loaded. Raises ModelMismatch if the index was built with another model."""
        check_model(self.path, self.manifest, model)
        self._model = model

    # -- writing: each method raises PhraseIndexError unless the kind of index overrides it

    def begin(self, model: IndexModel, segment: Mapping[str, Any] | None = None) -> None:
        """Change the model and the segmentation options of an index without documents."""
        raise self._elsewhere()

    def add(self, documents: Iterable[Document], lang: str = "", progress: Progress | None = None) -> AddReport:
        """Store documents; see `Index.add`.

        Args:
            documents: Documents to store.
            lang: Language of the documents, such as "en"; "" for unknown.
            progress: Called after each chunk.
        """
        raise self._elsewhere()

    def delete(self, *names: str) -> None:
        """Remove the documents of the given names, all or none."""
        raise self._elsewhere()

    def optimize(self, *, target_recall: float | None = None, at: int = 1, seed: int = 0) -> TuneReport | None:
        """Reclaim the space of deleted rows, and rebuild the search files; see `Index.optimize`.

        Args:
            target_recall: Recall that searches must reach, above 0 and up to 1; None for the default settings.
            at: Depth k of the recall@k.
            seed: Seed for the choice of the phrases on which the recall is measured.
        """
        raise self._elsewhere()

    @abstractmethod
    def stats(self) -> IndexStats:
        """Return the statistics of the index without reading its sentences."""

    @abstractmethod
    def verify(self) -> VerifyReport:
        """Check every row and file without changing anything."""

    def _elsewhere(self) -> PhraseIndexError:
        """Return the error for a change that this kind of index does not support."""
        return PhraseIndexError(f"{self.path}: {self._refusal}")

    def _check_writable(self) -> None:
        """Raise PhraseIndexError if the index is open for reading only."""
        if self.readonly:
            raise PhraseIndexError(f"{self.path}: is open for reading only; open it with write permission to change it")

    # -- reading

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Hold one state of the index for all searches and look-ups in the block, even if a writer commits."""
        with self.store.snapshot():
            yield

    def search(
        self, vectors: ArrayLike, k: int, documents: Sequence[str] | None = None, languages: Sequence[str] | None = None
    ) -> Run:
        """Search for the nearest phrases of each query vector, best first.

        Args:
            vectors: Query vectors of unit length, (queries, dim).
            k: Number of phrases to return for each query.
            documents: Names of the documents to search, or folders, or patterns with ``*``; None for all.
            languages: Languages of the documents to search; None for all.

        Raises InputError (wrong shape, unknown document or language), IndexDamaged, or ModelMismatch (the index was
        rebuilt with another model).
        """
        return self.nearest(vectors, k, Filters(documents, languages))

    @single_blas
    def nearest(self, vectors: ArrayLike, k: int, filters: Filters) -> Run:
        """Search for the nearest phrases of each query vector, as `search` does, with the filters in one object.

        Args:
            vectors: Query vectors of unit length, (queries, dim).
            k: Number of phrases to return for each query.
            filters: Documents to search.

        Raises the errors of `search`.
        """
        queries = _queries(vectors, self.manifest.dim, k)
        with self.store.reading():
            documents = None if filters.pass_all else np.array(self.documents_in(filters), np.int64)
            return Run(*self.nearest_in(queries, k, documents))

    def nearest_in(
        self, vectors: NDArray[np.float32], k: int, documents: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return ids and scores of the nearest phrases, both (queries, k), best first.

        Args:
            vectors: Query vectors of unit length, (queries, dim).
            k: Number of phrases to return for each query.
            documents: Ids of the documents to search; None for all.
        """
        with self.store.reading() as state:
            passing = state.phrases
            if documents is not None:
                passing = sum(self._documents()[i].phrases for i in documents.tolist())
            return self._view.search(state, vectors, k, Scope(documents, passing))

    @property
    def generation(self) -> int:
        """Number of the latest committed state; every change increases it."""
        with self.store.reading() as state:
            return state.generation

    @property
    def has_wordings(self) -> bool:
        """True if phrases can be looked up by their wording."""
        return False

    def languages(self, filters: Filters | None = None) -> list[str]:
        """List the languages of the documents that pass the filters, by default of all; most frequent first.

        "" stands for an unknown language. Raises InputError for an unknown document or language in a filter.
        """
        with self.store.reading():
            documents, entry = self._documents(), self._languages_of
            if filters is not None and not filters.pass_all:
                return _most_frequent(documents[number].language for number in self.documents_in(filters))
        if entry[0] is not documents:
            entry = self._languages_of = documents, _most_frequent(row.language for row in documents.values())
        return list(entry[1])

    def wordings(self) -> AbstractContextManager[WordingSearch]:
        """Return a context manager to look up phrases by their wording within one snapshot.

        Raises InputError if the index has no table of wordings.
        """
        raise InputError(f"{self.path}: has no table of wordings")

    def in_documents(self, ids: ArrayLike, filters: Filters) -> NDArray[np.bool_]:
        """Return a mask (ids,) of the phrases that are live and pass the filters.

        If the filters pass all documents, every phrase is assumed to be live. Raises InputError for an unknown document
        or language.
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
        """Convert one row of a `Run` to hits, in the same order.

        Padding (-1) and phrases deleted since the search are left out.

        Args:
            ids: Phrase ids, (k,).
            scores: Scores of the phrases, (k,).
        """
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
        """Return the vectors of phrase ids, (ids, dim) float32 of unit length, decoded from their 8-bit codes.

        Raises InputError for an unknown or deleted phrase.
        """
        distinct, places = np.unique(np.asarray(ids, np.int64).ravel(), return_inverse=True)
        with self.store.reading():
            codes = self.store.vectors_of(distinct.tolist())
        return row_codec.dequantise(codes)[places]

    def _places(self, phrases: Sequence[int]) -> dict[int, tuple[Phrase, SentenceRow]]:
        """Look up the phrase and the sentence of each ascending phrase id; deleted phrases are left out."""
        places: dict[int, tuple[Phrase, SentenceRow]] = {}
        for phrase, row in zip(phrases, self.store.sentences_of(phrases), strict=True):
            if row is not None:
                start, end = row_codec.unpack_span(row.spans, row.phrases, phrase - row.first_phrase)
                places[phrase] = Phrase(row.text, start, end), row
        return places

    def around(self, phrase: int, count: int = 2) -> tuple[list[Sentence], list[Sentence]]:
        """Return up to ``count`` sentences before and after the sentence of a phrase, in document order.

        Raises InputError for an unknown or deleted phrase.
        """
        phrase, count = to_whole("phrase", phrase, 0), min(to_whole("count", count, 0), _MOST_NEIGHBOURS)
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
        """Return the ascending ids of up to ``limit`` sentences that contain ``phrase``, regardless of case."""
        return self.texts.containing(phrase, limit)

    def documents(self) -> list[DocumentInfo]:
        """List the documents in the order in which they were added."""
        with self.store.reading():
            return list(self._documents().values())

    def _documents(self) -> dict[int, DocumentInfo]:
        """Return the documents by id, cached for each generation."""
        generation = self.store.state().generation
        if self._documents_of[0] != generation:
            self._documents_of = (generation, {document.id: document for document in self.store.documents()})
        return self._documents_of[1]

    def documents_in(self, filters: Filters, exact: bool = False) -> list[int]:
        """Return the ids of the documents that pass the filters. Raises InputError for an unknown name or language.

        A name may also be written as a path of the document's file, such as "./a.txt", and in another Unicode form.
        Unless ``exact``, a name that no document has selects the documents in the folder of this name, and ``*``
        matches any text. A language includes its varieties (`speaks`).
        """
        names, languages = filters.documents, filters.languages
        with self.store.reading():
            documents = self._documents().values()
        language_names = {document.language for document in documents}
        document_names = {document.name for document in documents}
        if names is not None:
            fitting = {name: (_of_name if exact else _fitting)(name, document_names) for name in names}
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

    def _documents_named(self, names: Sequence[str]) -> list[int]:
        """Return the ids of documents by their exact names. Raises InputError for an unknown name, and for a list."""
        odd = [name for name in names if not isinstance(name, str)]
        if odd:
            raise InputError(
                f"{repr(odd[0])[:40]}: expected the name of a document; give several one by one: delete(first, second)"
            )
        return self.documents_in(Filters(names), exact=True)

    def _check_known(self, kind: str, unknown: Sequence[str], existing: set[str]) -> None:
        """Raise InputError if any name is unknown; the message lists some existing names."""
        if unknown:
            raise InputError(f"{self.path}: has no {kind} {unknown[0]!r}; it has {_name_list(existing)}")


def _fitting(name: str, existing: set[str]) -> set[str]:
    """Return the document names that a filter selects: the name itself, else those in its folder or of its pattern."""
    if (names := _of_name(name, existing)) or not name:
        return names
    wordings = {composed(name), _path_name(name)}
    if "*" in name:
        patterns = [".*".join(map(re.escape, wording.split("*"))) for wording in wordings]
        matches = re.compile("|".join(patterns), re.DOTALL).fullmatch
        return {document_name for document_name in existing if matches(composed(document_name))}
    folders = tuple(f"{wording.rstrip('/')}/" for wording in wordings)
    return {document_name for document_name in existing if composed(document_name).startswith(folders)}


def _of_name(name: str, existing: set[str]) -> set[str]:
    """Return the document names that are equal to a name, else those of the same path (`_path_name`)."""
    if name in existing or not name or name.endswith("/"):
        return {name} & existing
    path_name = _path_name(name)
    return {document_name for document_name in existing if composed(document_name) == path_name}


def _path_name(name: str) -> str:
    """Return the name of the document of a path, as `phrasemate.text.names` gives it, in Unicode's form NFC."""
    return composed(name_of(Path(name)))


def _name_list(names: set[str]) -> str:
    """Format the first five names for an error message."""
    listing = ", ".join(repr(name) for name in sorted(names)[:5]) or "none"
    return listing + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _queries(vectors: ArrayLike, dim: int, k: int) -> NDArray[np.float32]:
    """Convert query vectors to a float32 array (queries, dim). Raises InputError for invalid vectors or ``k``."""
    try:
        queries = np.ascontiguousarray(vectors, np.float32)
    except (ValueError, TypeError) as error:
        raise InputError(f"cannot search: these are not vectors ({error}); expected (queries, {dim})") from error
    if queries.ndim != 2 or queries.shape[1] != dim or not np.isfinite(queries).all():
        raise InputError(
            f"cannot search with vectors of shape {queries.shape}; expected finite numbers of shape (queries, {dim})"
        )
    if not isinstance(k, Integral) or k < 1:
        raise InputError(f"cannot return the best {k!r}; expected 1 or more, a whole number")
    if max(1, len(queries)) * k > _MOST_RESULTS:
        raise InputError(f"{len(queries):,} queries with {k:,} results each are too many at once; ask for fewer")
    return queries


def _most_frequent(languages: Iterable[str]) -> list[str]:
    """List distinct languages, the most frequent first."""
    return [language for language, _ in Counter(languages).most_common()]

"""Documents on their way in: which are new, where interrupted ones continue, and their sentences cut into chunks.

The cuts fall where they would fall in one undisturbed run, however often it is interrupted: the next run begins at
the end of the last chunk that was kept. A chunk is one model call and one transaction, stored with the progress of its
documents. So a model that gives the same bits for the same texts in one call gives the same rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from os import PathLike
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

from phrasemate.errors import InputError, ModelError
from phrasemate.index import row_codec, transactions
from phrasemate.index.manifest import INDEX_JSON, Manifest
from phrasemate.index.store import State, Store
from phrasemate.index.types import (
    AddReport,
    DocumentInfo,
    IndexModel,
    IndexSettings,
    PhraseSet,
    Progress,
    ProgressEvent,
)
from phrasemate.types import Document, Sentence, check_list

if TYPE_CHECKING:
    from phrasemate.encode.segmenter import SegmentOptions


@dataclass
class Task:
    """Document being added; ``info`` is its record as of the sentences handed out so far."""

    info: DocumentInfo
    document: Document
    replaces: int | None = None


Item = tuple[Task, int, Sentence]  # its document, its position there, itself


class Intake:
    """Documents of one call of ``add``, what to do about each, and the counts of what was done."""

    def __init__(
        self,
        existing: dict[str, DocumentInfo],
        next_document: int,
        lang: str,
        settings: IndexSettings,
        progress: Progress | None,
    ) -> None:
        self._known, self._next_document, self._lang, self._settings = existing, next_document, lang, settings
        self._progress = progress
        self._given: dict[str, str] = {}  # name -> digest of what this call was given
        self._counts = {"documents_added": 0, "replaced": 0, "unchanged": 0, "sentences": 0, "phrases": 0}
        self._encoder_seconds = 0.0
        self._bytes_before = 0  # of the documents that the stream has gone past
        self.bytes_total = 0

    def chunks(self, documents: Iterable[Document]) -> Iterator[tuple[list[Item], list[Task]]]:
        """Yield the sentences of all documents, a chunk at a time, with the documents that they belong to.

        A document is complete when the stream has gone past it: a chunk that ends with its last sentence does not
        know that yet, and the next one records it.
        """
        items: list[Item] = []
        tasks: list[Task] = []
        for document in documents:
            task = self._task(document)
            if task is not None:
                tasks.append(task)
                count = task.info.sentences
                for position, sentence in enumerate(islice(document.sentences(), count, None), count):
                    items.append((task, position, sentence))
                    if len(items) == self._settings.chunk:
                        yield items, tasks
                        items, tasks = [], [task]
                task.info = replace(task.info, complete=True)
            self._bytes_before += document.size
        if tasks:
            yield items, tasks

    def _task(self, document: Document) -> Task | None:
        """Decide what to do about a document; None if it is in the index unchanged."""
        name, digest = document.name, document.digest
        if self._given.setdefault(name, digest) != digest:
            raise InputError(f"two documents are named {name!r} and differ; give each document a name of its own")
        old = self._known.get(name)
        if old is not None and (old.digest, old.language) == (digest, self._lang):
            if old.complete:
                self._counts["unchanged"] += 1
                return None
            self._counts["documents_added"] += 1
            self._known[name] = replace(old, complete=True)  # given once more, it is unchanged
            return Task(old, document)
        self._counts["documents_added" if old is None else "replaced"] += 1
        info = DocumentInfo(self._next_document, name, self._lang, digest, complete=False, sentences=0, phrases=0)
        self._next_document += 1
        self._known[name] = replace(info, complete=True)
        return Task(info, document, None if old is None else old.id)

    def bytes_at(self, task: Task) -> int:
        """Bytes of the documents that have been read, up to the last sentence handed out of this one."""
        return self._bytes_before + (0 if task.info.complete else task.document.consumed())

    def count(self, sentences: int, phrases: int, seconds: float) -> None:
        """Add what was stored, and the seconds that it took in the encoder."""
        self._counts["sentences"] += sentences
        self._counts["phrases"] += phrases
        self._encoder_seconds += seconds

    def tell(self, bytes_done: int, document: str) -> None:
        """Report the progress."""
        if self._progress is not None:
            counts = self._counts
            event = ProgressEvent(counts["sentences"], counts["phrases"], bytes_done, self.bytes_total, document)
            self._progress(event)

    def report(self, seconds: float) -> AddReport:
        """The report of the call, which took so many seconds."""
        return AddReport(**self._counts, seconds=seconds, encoder_seconds=self._encoder_seconds)

    def frequent(
        self, documents: Iterable[Document], stored: dict[str, Any] | None
    ) -> tuple[dict[str, Any], Iterable[Document]]:
        """The language's frequent words, and the documents again with those that learning has taken from the stream.

        They are learned once from the first sentences and stored (``stored``: {"sentences": from how many, "words"}),
        so that appending and resuming use the same. Only words from a small sample are replaced by those of a larger
        one.
        """
        stored = stored or {"sentences": 0, "words": []}
        if stored["sentences"] >= self._settings.learn:
            return stored, documents
        from phrasemate.encode.segmenter import FrequentWords

        stream = iter(documents)
        pending, learner, size = [], FrequentWords(), 0
        for document in stream:
            pending.append(document)
            if not self._is_stored(document):
                for sentence in islice(document.sentences(), self._settings.learn - size):
                    learner.update(sentence.text)
                    size += 1
            if size >= self._settings.learn:
                break
        if size > stored["sentences"]:
            stored = {"sentences": size, "words": sorted(learner.words())}
        return stored, chain(pending, stream)

    def _is_stored(self, document: Document) -> bool:
        old = self._known.get(document.name)
        return old is not None and old.complete and (old.digest, old.language) == (document.digest, self._lang)


def extracted(
    model: IndexModel, texts: Sequence[str], frequent: Collection[str], segment: Mapping[str, Any]
) -> Sequence[PhraseSet]:
    """The phrases of one chunk's texts. Raises ModelError."""
    options = cast("SegmentOptions", {**segment, **({"indexed": True} if getattr(model, "longest", 0.0) else {})})
    extracts = model.extract(texts, frequent, **options) if texts else []
    if len(extracts) != len(texts):
        raise ModelError(f"the model gave phrases for {len(extracts)} texts, expected {len(texts)}")
    return extracts


class Adder:
    """Run of one call of ``Index.add``. The caller holds the lock of the writer."""

    def __init__(
        self, store: Store, model: IndexModel, lang: str, settings: IndexSettings, progress: Progress | None
    ) -> None:
        self._store, self._model, self._lang = store, model, lang
        with store.reading() as state:
            existing = {document.name: document for document in store.documents()}  # about 600 bytes each
            self._intake = Intake(existing, state.next_document, lang, settings, progress)
        self._changing = False

    def run(self, documents: Iterable[Document], written: Manifest) -> AddReport:
        """Store all documents; ``written`` is index.json, brought to the store's generation after each chunk."""
        start = perf_counter()
        self._manifest = written
        self._intake.bytes_total = total_bytes(documents)
        frequent, stream = self._frequent(map(sound, documents))
        for items, tasks in self._intake.chunks(stream):
            self._store_chunk(items, tasks, frequent)
        return self._intake.report(perf_counter() - start)

    # -- one chunk

    def _store_chunk(self, items: list[Item], tasks: list[Task], frequent: frozenset[str]) -> None:
        start = perf_counter()
        texts = [sentence.text for _, _, sentence in items]
        phrase_sets = extracted(self._model, texts, frequent, self._manifest.segment)
        seconds = perf_counter() - start
        additions = []
        for (task, position, sentence), phrases in zip(items, phrase_sets, strict=True):
            count = len(phrases.starts)
            task.info = replace(task.info, sentences=position + 1, phrases=task.info.phrases + count)
            additions.append(transactions.Addition(task.info.id, position, sentence, phrases))
        self._intake.count(len(items), sum(len(phrases.starts) for phrases in phrase_sets), seconds)
        self._begin()
        old_ids = [task.replaces for task in tasks if task.replaces is not None]
        state = transactions.commit(self._store, additions, [task.info for task in tasks], old_ids)
        for task in tasks:
            task.replaces = None
        self._record(state)
        self._intake.tell(self._intake.bytes_at(tasks[-1]), tasks[-1].info.name)

    def _begin(self) -> None:
        """Prepare the store before the first change of this call."""
        if not self._changing:
            transactions.mend_words(self._store)
        self._changing = True

    def _record(self, state: State) -> None:
        self._manifest = replace(self._manifest, generation=state.generation)
        self._manifest.write(self._store.path / INDEX_JSON)

    def _frequent(self, documents: Iterable[Document]) -> tuple[frozenset[str], Iterable[Document]]:
        """The language's frequent words, as `Intake.frequent` has them; what was learned is kept."""
        key = f"frequent {self._lang}"
        with self._store.reading():
            record = self._store.extra(key, sentences=int, words=list)
        frequent_words, stream = self._intake.frequent(documents, record)
        if frequent_words["sentences"] and frequent_words != record:
            self._begin()
            self._record(transactions.put_extra(self._store, key, frequent_words))
        return frozenset(frequent_words["words"]), stream


def sound(document: Document) -> Document:
    """The document; a sentence that would be kept only in part raises InputError when it is read.

    Raises InputError for anything but a document.
    """
    _checked(document)

    def sentences() -> Iterator[Sentence]:
        for number, sentence in enumerate(document.sentences(), 1):
            if "\0" in sentence.text:  # FTS5 ends a text there
                raise InputError(
                    f"document {document.name!r}, sentence {number} (line {sentence.line}): holds the character "
                    f"U+0000, which an index cannot hold; remove it"
                )
            if sentence.metadata and (reason := _unkept(sentence.metadata)):
                raise InputError(
                    f"document {document.name!r}, sentence {number} (line {sentence.line}): its metadata cannot be "
                    f"kept ({reason}); expected what JSON has, at most {row_codec.NESTING} brackets within one another"
                )
            yield sentence

    return replace(document, sentences=sentences)


def _unkept(metadata: Mapping[str, Any]) -> str:
    """Why metadata cannot be kept; nothing where they can. What is nested deeply could not be read everywhere."""
    try:
        raw = row_codec.encode_metadata(metadata)
    except (TypeError, ValueError, RecursionError) as error:
        return str(error)
    level: list[Any] = [metadata] if raw.count(b"[") + raw.count(b"{") > row_codec.NESTING else []
    for _ in range(row_codec.NESTING):
        inner = (value.values() if isinstance(value, Mapping) else value for value in level)
        level = [
            inner_value for values in inner for inner_value in values if isinstance(inner_value, dict | list | tuple)
        ]
    return "they are nested too deeply" if level else ""


_DOCUMENTS = "expected documents, as read() and Document.from_texts() give them"


def total_bytes(documents: Iterable[Document]) -> int:
    """Bytes of all documents if they are at hand without reading anything, else 0 for unknown.

    Raises InputError for one document, and for texts or names of files where documents are meant.
    """
    items: Any = [documents] if isinstance(documents, str | PathLike) else documents
    check_list(items, "documents")
    if not isinstance(items, Iterable):
        raise InputError(f"{repr(items)[:40]}: {_DOCUMENTS}")
    if not isinstance(items, list | tuple):
        size = getattr(items, "size", 0)
        return size if isinstance(size, int) else 0
    return sum(_checked(document).size for document in items)


def _checked(document: object) -> Document:
    """The document. Raises InputError for a text, a path or anything else."""
    if not isinstance(document, Document):
        raise InputError(f"{repr(document)[:40]}: {_DOCUMENTS}")
    return document

"""Adding documents to an index: skip unchanged documents, continue interrupted ones, store sentences in chunks.

A chunk of sentences is one model call and one transaction, stored with the progress of its documents. After an
interruption the next run begins at the end of the last stored chunk. So the chunks are those of an uninterrupted run,
and a deterministic model gives the same rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
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
from phrasemate.types import Document, Sentence, check_document, iterate_documents

if TYPE_CHECKING:
    from phrasemate.encode.segmenter import SegmentOptions


@dataclass
class Task:
    """Document that is being added.

    ``info``: its record, up to the last sentence stored so far. ``replaces``: id of the old version to remove, if any.
    """

    info: DocumentInfo
    document: Document
    replaces: int | None = None


Item = tuple[Task, int, Sentence]  # the document, the position in it, and the sentence there


class Intake:
    """Documents of one call of ``add``: decides what to do with each, and counts what was done."""

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
        self._digests: dict[str, str] = {}  # name -> digest of each document of this call
        self._counts = {"documents_added": 0, "replaced": 0, "unchanged": 0, "sentences": 0, "phrases": 0}
        self._encoder_seconds = 0.0
        self._bytes_before = 0  # size of the documents that have been read to their end
        self.bytes_total = 0

    def chunks(self, documents: Iterable[Document]) -> Iterator[tuple[list[Item], list[Task]]]:
        """Yield the sentences of all documents in chunks, each with the documents that it has sentences of.

        A document counts as complete once its end has been read. If a chunk ends with its last sentence, only the next
        chunk records it as complete. A document that needs text and has none is left out; an older version stays.
        """
        items: list[Item] = []
        tasks: list[Task] = []
        for document in documents:
            task = self._task(document)
            if task is not None:
                tasks.append(task)
                count = position = task.info.sentences
                for position, sentence in enumerate(islice(document.sentences(), count, None), count + 1):
                    items.append((task, position - 1, sentence))
                    if len(items) == self._settings.chunk:
                        yield items, tasks
                        items, tasks = [], [task]
                if position or not document.needs_text:
                    task.info = replace(task.info, complete=True)
                else:
                    self._leave_out(tasks.pop())
            self._bytes_before += document.size
        if tasks:
            yield items, tasks

    def _task(self, document: Document) -> Task | None:
        """Decide what to do with a document; return None if it is in the index unchanged."""
        name, digest = document.name, document.digest
        if self._digests.setdefault(name, digest) != digest:
            raise InputError(f"two documents are named {name!r} and differ; give each document a name of its own")
        old = self._known.get(name)
        if old is not None and (old.digest, old.language) == (digest, self._lang):
            if old.complete:
                self._counts["unchanged"] += 1
                return None
            self._counts["documents_added"] += 1
            self._known[name] = replace(old, complete=True)  # a second one of this name in the call is skipped
            return Task(old, document)
        self._counts["documents_added" if old is None else "replaced"] += 1
        info = DocumentInfo(self._next_document, name, self._lang, digest, complete=False, sentences=0, phrases=0)
        self._next_document += 1
        self._known[name] = replace(info, complete=True)
        return Task(info, document, None if old is None else old.id)

    def _leave_out(self, task: Task) -> None:
        """Take back what `_task` has counted for a new document."""
        self._counts["documents_added" if task.replaces is None else "replaced"] -= 1
        self._next_document -= 1

    def bytes_at(self, task: Task) -> int:
        """Return the number of bytes read so far: all documents before this one, and the part of this one."""
        return self._bytes_before + (0 if task.info.complete else task.document.consumed())

    def count(self, sentences: int, phrases: int, seconds: float) -> None:
        """Count stored sentences and phrases, and the seconds that their encoding took."""
        self._counts["sentences"] += sentences
        self._counts["phrases"] += phrases
        self._encoder_seconds += seconds

    def tell(self, bytes_done: int, document: str) -> None:
        """Call the progress callback, if there is one."""
        if self._progress is not None:
            counts = self._counts
            event = ProgressEvent(counts["sentences"], counts["phrases"], bytes_done, self.bytes_total, document)
            self._progress(event)

    def report(self, seconds: float) -> AddReport:
        """Return the report of the call. ``seconds``: its duration."""
        return AddReport(**self._counts, seconds=seconds, encoder_seconds=self._encoder_seconds)

    def frequent(
        self, documents: Iterable[Document], stored: dict[str, Any] | None
    ) -> tuple[dict[str, Any], Iterable[Document]]:
        """Return the frequent words of the language, and the documents, including those already read for learning.

        The words are learned from the first sentences and stored, so later calls use the same words. Only words
        learned from fewer sentences than ``settings.learn`` are replaced, by words learned from more.

        ``stored``: the stored record {"sentences": number of sentences learned from, "words"}, or None.
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
        """Tell whether the index holds the whole document, unchanged."""
        old = self._known.get(document.name)
        return old is not None and old.complete and (old.digest, old.language) == (document.digest, self._lang)


def extracted(
    model: IndexModel, texts: Sequence[str], frequent: Collection[str], segment: Mapping[str, Any]
) -> Sequence[PhraseSet]:
    """Extract the phrases of the texts of a chunk. Raises ModelError if the model returns another number of results.

    Args:
        model: Model of the index.
        texts: Texts of the sentences.
        frequent: Frequent words of the language.
        segment: Options of segmentation of the index.
    """
    options = cast("SegmentOptions", {**segment, **({"indexed": True} if getattr(model, "longest", 0.0) else {})})
    extracts = model.extract(texts, frequent, **options) if texts else []
    if len(extracts) != len(texts):
        raise ModelError(f"the model gave phrases for {len(extracts)} texts, expected {len(texts)}")
    return extracts


class Adder:
    """One call of ``Index.add``. The caller holds the write lock."""

    def __init__(
        self, store: Store, model: IndexModel, lang: str, settings: IndexSettings, progress: Progress | None
    ) -> None:
        self._store, self._model, self._lang = store, model, lang
        with store.reading() as state:
            existing = {document.name: document for document in store.documents()}  # about 600 bytes each
            self._intake = Intake(existing, state.next_document, lang, settings, progress)
        self._changing = False

    def run(self, documents: Iterable[Document], written: Manifest) -> AddReport:
        """Store all documents.

        ``written``: the manifest in index.json, which is updated to the generation of the store after each chunk.
        """
        start = perf_counter()
        self._manifest = written
        self._intake.bytes_total = total_bytes(documents)
        frequent, stream = self._frequent(map(sound, documents))
        for items, tasks in self._intake.chunks(stream):
            self._store_chunk(items, tasks, frequent)
        return self._intake.report(perf_counter() - start)

    # -- one chunk

    def _store_chunk(self, items: list[Item], tasks: list[Task], frequent: frozenset[str]) -> None:
        """Extract the phrases of a chunk, and store them with its sentences in one transaction."""
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
        """Repair the text index, if needed, before the first change of this call."""
        if not self._changing:
            transactions.mend_words(self._store)
        self._changing = True

    def _record(self, state: State) -> None:
        """Write the generation of a state to index.json."""
        self._manifest = replace(self._manifest, generation=state.generation)
        self._manifest.write(self._store.path / INDEX_JSON)

    def _frequent(self, documents: Iterable[Document]) -> tuple[frozenset[str], Iterable[Document]]:
        """Return the result of `Intake.frequent`; store newly learned words."""
        key = f"frequent {self._lang}"
        with self._store.reading():
            record = self._store.extra(key, sentences=int, words=list)
        frequent_words, stream = self._intake.frequent(documents, record)
        if frequent_words["sentences"] and frequent_words != record:
            self._begin()
            self._record(transactions.put_extra(self._store, key, frequent_words))
        return frozenset(frequent_words["words"]), stream


def sound(document: Document) -> Document:
    """Return the document with checks: reading a sentence that cannot be stored completely raises InputError.

    Raises InputError at once for anything but a document.
    """
    check_document(document)

    def sentences() -> Iterator[Sentence]:
        for number, sentence in enumerate(document.sentences(), 1):
            if "\0" in sentence.text:  # FTS5 would end the text there
                raise InputError(
                    f"document {document.name!r}, sentence {number} (line {sentence.line}): holds the character "
                    f"U+0000, which an index cannot hold; remove it"
                )
            if sentence.metadata and (reason := _metadata_problem(sentence.metadata)):
                raise InputError(
                    f"document {document.name!r}, sentence {number} (line {sentence.line}): its metadata cannot be "
                    f"stored ({reason}); expected JSON values, nested at most {row_codec.NESTING} deep"
                )
            yield sentence

    return replace(document, sentences=sentences)


def _metadata_problem(metadata: Mapping[str, Any]) -> str:
    """Return why metadata cannot be stored, or "" if they can. Not every JSON reader can read deep nesting."""
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


def total_bytes(documents: Iterable[Document]) -> int:
    """Return the size of all documents in bytes; 0 if it is unknown without reading them.

    Raises InputError for a single document, and for texts or file names instead of documents.
    """
    checked_documents = iterate_documents(documents)
    if not isinstance(documents, list | tuple):
        size = getattr(documents, "size", 0)
        return size if isinstance(size, int) else 0
    return sum(document.size for document in checked_documents)

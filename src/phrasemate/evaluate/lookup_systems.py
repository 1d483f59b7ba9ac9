"""What answers look-ups: the search with each of its switches, sentence search, and a dictionary alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from phrasemate.encode import Model
from phrasemate.encode.rescoring import Views
from phrasemate.errors import InputError
from phrasemate.evaluate.lookup import DEPTH, LookupQuery, lemmas, present
from phrasemate.index import Index
from phrasemate.lexicon import Lexicon, bundled_lexicon
from phrasemate.query import marked
from phrasemate.search import Searcher
from phrasemate.text import folded
from phrasemate.types import Document
from phrasemate.utils.storage import save_arrays

SWITCHES: dict[str, dict[str, Any]] = {  # of the bundled model's search
    "search": {},
    "without lexicon": {"lexicon": False},
    "views": {"views": Views()},
    "quick": {"views": False},
}
SENTENCES, DICTIONARY = "sentences", "dictionary"
SYSTEMS = (*SWITCHES, SENTENCES, DICTIONARY)
NEAR = 50  # sentences in which sentence search looks for the phrase
BATCH = 256  # queries

Answers = list[list[str]]  # of each query, distinct wordings, the best first
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Collection:
    """English sentences to be searched; ``base`` holds the first of them, if it is a collection, too."""

    name: str
    sentences: list[str]
    base: Collection | None = None

    @property
    def document(self) -> Document:
        """The sentences that the base does not hold."""
        return Document.from_texts(self.name, self.sentences[len(self.base.sentences) if self.base else 0 :])

    def folder(self, work: Path, model: Model) -> Path:
        """Where the index is kept; the name tells other sentences and models apart."""
        return work / f"{self.name}-{self.document.digest[:8]}-{model.hash[:8]}"

    def indexed(self, work: Path, model: Model, threads: int | None, progress: Progress) -> Path:
        """The folder of the index, which is made if it is not there yet, whole or not at all."""
        folder = self.folder(work, model)
        if folder.exists():
            return folder
        unfinished = folder.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        if self.base:
            shutil.copytree(self.base.indexed(work, model, threads, progress), unfinished)
        else:
            Index.create(unfinished, model, threads=threads).close()
        progress(f"index of {self.name}, {model.name}", 0, 1)
        with Index.open(unfinished, model, threads=threads) as index:
            index.add([self.document], lang="en")
        progress(f"index of {self.name}, {model.name}", 1, 1)
        unfinished.rename(folder)
        return folder


def search_answers(searcher: Searcher, queries: Sequence[LookupQuery], progress: Callable[[int], None]) -> Answers:
    """The wordings of the groups of a search."""
    answers: Answers = []
    for batch in _batches(queries):
        texts = [marked(query.phrase.context, query.phrase.start, query.phrase.end) for query in batch]
        answers += [[group.text for group in result.groups] for result in searcher.search_all(texts, DEPTH, 1)]
        progress(len(answers))
    return answers


def _batches(queries: Sequence[LookupQuery]) -> Iterator[Sequence[LookupQuery]]:
    return (queries[start : start + BATCH] for start in range(0, len(queries), BATCH))


class _Sentences(NamedTuple):
    """The sentences of an index: their vectors (n, dim), and the number of the first phrase and of phrases of each."""

    vectors: NDArray[np.float32]
    first: NDArray[np.int64]
    phrases: NDArray[np.int64]


def sentence_answers(
    index: Index, model: Model, queries: Sequence[LookupQuery], progress: Callable[[int], None]
) -> Answers:
    """The phrases nearest the query's phrase in the `NEAR` sentences that are nearest its sentence."""
    sentences = _sentences(index, model)
    answers: Answers = []
    for batch in _batches(queries):
        vectors = model.encode([query.phrase for query in batch])
        nearness = model.encode_sentences([query.phrase.context for query in batch]) @ sentences.vectors.T
        for vector, near in zip(vectors, nearness, strict=True):
            chosen = np.argsort(-near, kind="stable")[:NEAR]
            ids = np.concatenate([np.arange(sentences.phrases[i]) + sentences.first[i] for i in chosen])
            answers.append(_wordings(index, ids, vector))
        progress(len(answers))
    return answers


def _sentences(index: Index, model: Model) -> _Sentences:
    """The sentences of an index; their vectors are kept in its folder's neighbour."""
    rows = [(row.text, row.first_phrase, row.phrases) for row in index.store.all_sentences()]
    path = index.path.with_suffix(".sentences")
    if not path.exists():
        save_arrays(path, {"vectors": model.encode_sentences([text for text, _, _ in rows])})
    numbers = np.array([row[1:] for row in rows], np.int64)
    return _Sentences(load_file(path)["vectors"], numbers[:, 0], numbers[:, 1])


def _wordings(index: Index, ids: NDArray[np.int64], vector: NDArray[np.float32]) -> list[str]:
    """The `DEPTH` first distinct wordings of phrases by falling cosine."""
    if not len(ids):
        return []
    cosines = index.vectors(ids) @ vector
    order = np.argsort(-cosines, kind="stable")
    texts: dict[str, str] = {}
    for part in np.array_split(order, range(4 * DEPTH, len(order), 4 * DEPTH)):
        for hit in index.hits(ids[part], cosines[part]):
            texts.setdefault(folded(hit.text), hit.text)
        if len(texts) >= DEPTH:
            break
    return list(texts.values())[:DEPTH]


def dictionary_answers(lexicon: Lexicon, queries: Sequence[LookupQuery], sentences: Sequence[str]) -> Answers:
    """The English equivalents of a dictionary that stand in the sentences, in its order."""
    listed = [
        [equivalent.text for equivalent in lexicon.equivalents(query.phrase.text, query.language, "en")]
        for query in queries
    ]
    standing = present({lemmas(text) for texts in listed for text in texts}, sentences)
    return [[text for text in texts if lemmas(text) in standing] for texts in listed]


class Systems:
    """All systems: those of `SYSTEMS`, which use the bundled model, and ``models``, each searched as it is by default.

    ``work``: folder of the indexes and vectors of collections, which are made once.
    """

    def __init__(self, bundled: Model, models: Mapping[str, Model], work: Path, threads: int | None) -> None:
        self.bundled, self.models, self.work, self.threads = bundled, dict(models), work, threads

    def answers(self, name: str, collection: Collection, queries: Sequence[LookupQuery], progress: Progress) -> Answers:
        """The answers of a system, a list of distinct wordings for each query. Raises InputError without a lexicon."""
        if name == DICTIONARY:
            lexicon = bundled_lexicon()
            if lexicon is None:
                raise InputError("no lexicon comes with this installation; leave dictionary out of --systems")
            return dictionary_answers(lexicon, queries, collection.sentences)
        model = self.models.get(name, self.bundled)
        folder = collection.indexed(self.work, model, self.threads, progress)

        def tell(count: int) -> None:
            progress(f"{name}, {collection.name}", count, len(queries))

        with Index.open(folder, model, readonly=True, threads=self.threads) as index:
            if name == SENTENCES:
                return sentence_answers(index, model, queries, tell)
            return search_answers(Searcher(index, model, **SWITCHES.get(name, {})), queries, tell)

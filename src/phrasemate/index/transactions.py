"""Changes to the store. Each public function that writes is one transaction, so it takes effect completely or not."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from phrasemate.errors import InputError, ModelError
from phrasemate.index import row_codec, schema
from phrasemate.index.exact import append_run
from phrasemate.index.store import State, Store
from phrasemate.index.types import DocumentInfo, PhraseSet
from phrasemate.types import Sentence

log = logging.getLogger("phrasemate.index")

_ROW_BYTES = 200  # upper bound for the bytes of a row besides its text and blobs


class Addition(NamedTuple):
    """Sentence to add to the store, with its phrases, the id of its document and its position there."""

    document: int
    position: int
    sentence: Sentence
    phrases: PhraseSet


@contextmanager
def transaction(store: Store) -> Iterator[State]:
    """Run a transaction and yield the state before it: it is committed at the end, or rolled back after an error."""
    with store.lock, schema.translate_errors(store.path):
        store.connection.execute("BEGIN IMMEDIATE")
        try:
            yield store.state()
            store.connection.execute("COMMIT")
        except BaseException:
            if store.connection.in_transaction:  # SQLite may have rolled back by itself, as when the disk is full
                store.connection.execute("ROLLBACK")
            raise


def commit(
    store: Store, additions: Sequence[Addition], documents: Sequence[DocumentInfo], replaced: Sequence[int]
) -> State:
    """Store a chunk of sentences in one transaction, and return the new state.

    Args:
        store: Store to change.
        additions: Sentences to add.
        documents: New records of their documents.
        replaced: Ids of the documents that they replace, which are removed.

    Raises ModelError for phrases that cannot be stored, InputError for a sentence too large for a row, and
    IndexDamaged.
    """
    with transaction(store) as state:
        for old in replaced:
            state = _remove(store, state, old)
        state = _insert(store, state, additions)
        fresh = [d for d in documents if d.id >= state.next_document]
        for document in documents:
            _put_document(store, document)
        next_document = max([state.next_document, *(d.id + 1 for d in documents)])
        return _put_next(store, state._replace(documents=state.documents + len(fresh), next_document=next_document))


def delete(store: Store, documents: Sequence[int]) -> State:
    """Remove documents by id with all their sentences, all or none, and return the new state."""
    with transaction(store) as state:
        for document in documents:
            state = _remove(store, state, document)
        return _put_next(store, state)


def put_extra(store: Store, key: str, value: Any) -> State:
    """Store a JSON value under a key, and return the new state."""
    with transaction(store) as state:
        _put_extra(store, key, value)
        return _put_next(store, state)


def stamp_words(store: Store) -> None:
    """Store the checksum of the text index. The generation stays the same, since no content changes."""
    with transaction(store) as state:
        stamp = store.extra("words", generation=int, crc=int)
        if stamp is None or stamp["generation"] != state.generation:
            _put_stamp(store, state)


def mend_words(store: Store) -> None:
    """Rebuild the text index if it is damaged; otherwise the checksum after the next change would hide the damage.

    The text index is compared with its checksum, which is fast. After an interruption there is no checksum of this
    generation, and the text index is compared with the sentences.
    """
    with transaction(store) as state:
        stamp = store.extra("words", generation=int, crc=int)
        if state.generation == 0 or (stamp is not None and stamp["generation"] == state.generation):
            intact = stamp is None or stamp["crc"] == schema.words_checksum(store.connection)
        else:
            intact = schema.words_match(store.connection)
        if not intact:
            log.warning("%s: the text index is damaged; rebuilding it from the sentences", store.path)
            _rebuild_words(store, state)  # stores its checksum too, in case the change that follows is interrupted


def optimise_words(store: Store) -> None:
    """Rebuild the text index as a single segment, and store its checksum."""
    with transaction(store) as state:
        _rebuild_words(store, state)


def _rebuild_words(store: Store, state: State) -> None:
    """Rebuild the text index within the open transaction, and store its checksum."""
    store.connection.execute("INSERT INTO words (words) VALUES ('rebuild')")
    store.connection.execute(
        "INSERT INTO words (words) VALUES ('optimize')"
    )  # writes everything, so the checksum is complete
    _put_stamp(store, state)


def _insert(store: Store, state: State, additions: Sequence[Addition]) -> State:
    """Insert sentences, their vectors and their entries in the text index; return the state with the new counts."""
    sentence, phrase = state.next_sentence, state.next_phrase
    texts, sentences, vectors = [], [], []
    for item in additions:
        phrases = validated(item.phrases, item.sentence.text, store.dim)
        text, metadata = row_codec.encode_text(item.sentence.text), row_codec.encode_metadata(item.sentence.metadata)
        spans = row_codec.pack_spans(phrases.starts, phrases.ends, phrases.scores)
        count = len(phrases.starts)
        _check_size(item.sentence.text, max(len(text) + len(metadata) + len(spans), count * store.dim))
        numbers = (sentence, item.document, item.position, item.sentence.line, phrase, count)
        sentences.append(
            (*numbers, text, metadata, spans, row_codec.checksum(b"sentence", numbers, text, metadata, spans))
        )
        texts.append((sentence, text))
        if count:
            codes = row_codec.quantise(phrases.vectors).tobytes()
            key = (sentence, item.document, phrase, count)
            vectors.append((*key, codes, row_codec.checksum(b"vectors", key, codes)))
        sentence, phrase = sentence + 1, phrase + count
    run = store.connection.executemany
    run("INSERT INTO sentences VALUES (?, ?, ?, ?, ?, ?, CAST(? AS TEXT), CAST(? AS TEXT), ?, ?)", sentences)
    run("INSERT INTO vectors VALUES (?, ?, ?, ?, ?, ?)", vectors)
    run("INSERT INTO words (rowid, text) VALUES (?, CAST(? AS TEXT))", texts)
    return state._replace(
        sentences=state.sentences + len(additions),
        phrases=state.phrases + phrase - state.next_phrase,
        next_sentence=sentence,
        next_phrase=phrase,
    )


def _check_size(text: str, size: int) -> None:
    """Raise InputError for a value too large for SQLite, which would refuse it without naming the sentence."""
    if size > schema.VALUE_BYTES - _ROW_BYTES:
        raise InputError(
            f"the sentence {text[:60]!r} takes {size} bytes with its phrases, more than the store holds in a row "
            f"({schema.VALUE_BYTES}); split it"
        )


def validated(phrases: PhraseSet, text: str, dim: int) -> PhraseSet:
    """Return the phrases of a text if they can be stored. Raises ModelError for faulty output of a model."""
    count = len(phrases.starts)
    if not (len(phrases.ends) == len(phrases.scores) == count and phrases.vectors.shape == (count, dim)):
        raise ModelError(
            f"the model gave phrases of unequal lengths, or vectors that are not ({count}, {dim}), for {text[:60]!r}"
        )
    if count and not ((phrases.starts >= 0) & (phrases.starts < phrases.ends) & (phrases.ends <= len(text))).all():
        raise ModelError(f"the model gave phrases outside the text {text[:60]!r}")
    if count and not (np.abs(np.einsum("nd,nd->n", phrases.vectors, phrases.vectors) - 1) < 0.01).all():
        raise ModelError(f"the model gave vectors that are not finite and of unit length for {text[:60]!r}")
    return phrases


def _remove(store: Store, state: State, identity: int) -> State:
    """Remove a document from all tables, record its phrase ids as deleted, and return the state with the new counts."""
    document = store.document(identity)
    dead: list[list[int]] = []
    phrases = 0
    for row in store.all_sentences(identity):
        values = (row.id, row_codec.encode_text(row.text))
        store.connection.execute("INSERT INTO words (words, rowid, text) VALUES ('delete', ?, CAST(? AS TEXT))", values)
        phrases += row.phrases
        append_run(dead, row.first_phrase, row.phrases)
    if phrases != document.phrases:
        raise store.damaged(f"document {document.name} has {phrases} phrases, expected {document.phrases}")
    store.connection.executemany(
        "INSERT INTO tombstones VALUES (?, ?, ?)",
        ((*run, row_codec.checksum(b"tombstone", tuple(run))) for run in dead),
    )
    store.connection.execute(
        "DELETE FROM vectors WHERE id IN (SELECT id FROM sentences WHERE document = ?)", (identity,)
    )
    store.connection.execute("DELETE FROM sentences WHERE document = ?", (identity,))
    store.connection.execute("DELETE FROM documents WHERE id = ?", (identity,))
    return state._replace(
        documents=state.documents - 1, sentences=state.sentences - document.sentences, phrases=state.phrases - phrases
    )


def _put_document(store: Store, document: DocumentInfo) -> None:
    """Insert the record of a document, or update its counts."""
    texts = [row_codec.encode_text(text) for text in (document.name, document.language, document.digest)]
    numbers = (int(document.complete), document.sentences, document.phrases)
    crc = row_codec.checksum(b"document", (document.id, *numbers), *texts)
    store.connection.execute(
        "INSERT INTO documents VALUES (?, CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT), ?, ?, ?, ?) ON CONFLICT "
        "(id) DO UPDATE SET complete = excluded.complete, sentences = excluded.sentences, phrases = excluded.phrases, "
        "crc = excluded.crc",
        (document.id, *texts, *numbers, crc),
    )


def _put_next(store: Store, state: State) -> State:
    """Store the counts of a state as the next generation, and return the new state."""
    state = state._replace(generation=state.generation + 1)
    columns = ", ".join(f"{name} = ?" for name in State._fields)
    store.connection.execute(
        f"UPDATE state SET {columns}, crc = ?", (*state, row_codec.checksum(b"state", tuple(state)))
    )
    return state


def _put_stamp(store: Store, state: State) -> None:
    """Store the present checksum of the text index with the generation of the state."""
    _put_extra(store, "words", {"generation": state.generation, "crc": schema.words_checksum(store.connection)})


def _put_extra(store: Store, key: str, value: Any) -> None:
    """Store a JSON value under a key, within the open transaction."""
    name, content = row_codec.encode_text(key), json.dumps(value, sort_keys=True).encode()
    crc = row_codec.checksum(b"extra", (), name, content)
    store.connection.execute(
        "INSERT OR REPLACE INTO extras VALUES (CAST(? AS TEXT), CAST(? AS TEXT), ?)", (name, content, crc)
    )

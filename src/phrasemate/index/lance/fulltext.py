"""The text index: all texts in lower case in a table of their own, with Lance's index of trigrams.

It is derived from the sentences and made by ``optimise``; the head says which version of it is in force and how many
sentences it knows (`Stamp`). Newer ones are read one by one, deleted ones are passed over.

Which sentences of an index of Lance tables contain a phrase.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from phrasemate.errors import IndexMissing
from phrasemate.index import fulltext, row_codec
from phrasemate.index.fulltext import check, forms, lowered
from phrasemate.index.lance.commit import Writer
from phrasemate.index.lance.compact import compact
from phrasemate.index.lance.records import WORDS_KEY, Head, Stamp
from phrasemate.index.lance.store import LanceStore
from phrasemate.index.lance.tables import SENTENCES, WORDS, Tables, schema, translate_errors

INDEX = "text_idx"
_BATCH = 8192
_HALF = re.compile("[\ud800-\udfff]")


def arrow_lowered(text: str) -> str:
    """As the table has it: half a character of UTF-16, which Arrow cannot hold, is U+0000, which no text holds."""
    return _HALF.sub("\0", fulltext.lowered(text))


def condition(small: Sequence[str]) -> str | None:
    """What Lance is asked for the texts that hold one of these, in lower case; None where it cannot be asked."""
    if any("\0" in text or arrow_lowered(text) != text for text in small):
        return None
    return " OR ".join("contains(text, '" + text.replace("'", "''") + "')" for text in small)


def update(tables: Tables, writer: Writer) -> None:
    """Take new sentences into the text index, and those of deleted documents out; make it if there is none."""
    head, stamp = writer.head, Stamp.of(writer.head)
    if stamp is not None:
        try:
            stamp = stamp._replace(version=tables.go_back(WORDS, stamp.version))
        except IndexMissing:  # the table is derived, and somebody has removed it
            writer.put(
                WORDS_KEY, None
            )  # a new one counts its versions from the first, so the old number must go before
            stamp = None
    if stamp is None:
        stamp = Stamp(tables.anew(WORDS, head.dim), 0)
    version, sentences, _ = stamp
    if head.next_sentence > sentences:
        version = tables.append(WORDS, tables.write(WORDS, _texts(tables, head, sentences)), version)
    with translate_errors(tables.place):
        table = tables.open(WORDS, version)
        if head.deleted and table.count_rows(gone := f"document IN ({', '.join(map(str, head.deleted))})"):
            table.delete(gone)
    table = tables.open(WORDS, compact(tables, WORDS))
    with translate_errors(tables.place):
        if any(index.name == INDEX for index in table.describe_indices()):
            table.optimize.optimize_indices()
        elif table.count_rows():
            table.create_scalar_index("text", "NGRAM", name=INDEX)
    writer.put(WORDS_KEY, Stamp(int(tables.open(WORDS).version), head.next_sentence)._asdict())


def _texts(tables: Tables, head: Head, first: int) -> Any:
    """A reader of the rows for the sentences from id ``first`` on."""
    import pyarrow as pa

    columns, kept = schema(WORDS, head.dim), tables.open(SENTENCES, head.versions[SENTENCES])

    def batches() -> Iterator[Any]:
        for batch in kept.to_batches(
            columns=["id", "document", "text"], filter=f"id >= {first}", batch_size=_BATCH, scan_in_order=True
        ):
            texts = [arrow_lowered(row_codec.decode_text(text)) for text in batch["text"].to_pylist()]
            yield pa.record_batch([batch["id"], batch["document"], pa.array(texts, pa.string())], schema=columns)

    return pa.RecordBatchReader.from_batches(columns, batches())


_FIRST = 8192  # texts that are read before the index is asked: what is frequent is found there


class LanceTexts:
    """As `phrasemate.index.fulltext.TextSearch`: by Lance's index of trigrams where ``optimize`` has made one.

    Sentences that it does not know are read, and all of them where there is none, or where it cannot be asked (half a
    character of UTF-16, a zero). Lance compares the texts of what its index proposes, and reads all of them for what
    holds no three letters or digits.
    """

    def __init__(self, store: LanceStore) -> None:
        self._store = store
        self._held: tuple[tuple[int, str], list[int]] = ((-1, ""), [])

    def containing(self, phrase: str, limit: int) -> list[int]:
        """Ids of up to ``limit`` sentences whose text contains ``phrase``, upper and lower case alike, ascending."""
        check(phrase, limit)
        with self._store.reading():
            return list(islice(self._holding([lowered(phrase)]), limit))

    def candidates(self, phrase: str, first: int = 0, before: int = 1 << 62, limit: int = 1 << 62) -> list[int]:
        """Ids from ``first`` up to ``before`` of sentences that hold ``phrase``, in any case; the first ``limit``."""
        check(phrase, limit)
        with self._store.reading() as state:
            key = (state.generation, phrase)
            if self._held[0] != key:  # the last phrase is kept, since it is asked for piece by piece
                small = list(dict.fromkeys(lowered(form) for form in forms(phrase)))
                self._held = key, list(self._holding(small))
            return [identity for identity in self._held[1] if first <= identity < before][:limit]

    def _holding(self, small: Sequence[str]) -> Iterator[int]:
        """The sentences whose text, in lower case, holds one of these."""
        known, asked = self._store.words(), condition(small)
        newer = None
        if known is not None and asked is not None:
            newer = f"id >= {known[1]}"
            yield from self._indexed(small, asked)
        for batch in self._store.batches(SENTENCES, ["id", "text"], newer):
            for identity, text in zip(batch["id"].to_pylist(), batch["text"].to_pylist(), strict=True):
                lower = lowered(row_codec.decode_text(text))
                if any(form in lower for form in small):
                    yield identity

    def _indexed(self, small: Sequence[str], asked: str) -> Iterator[int]:
        dead = self._store.layout.dead_sentences
        with translate_errors(self._store.path):
            first = self._store.table(WORDS).head(_FIRST, columns=["id", "text"])
        ids = first["id"].to_numpy()
        gone = dead.contains(ids)
        for identity, text, passed in zip(ids.tolist(), first["text"].to_pylist(), gone.tolist(), strict=True):
            if not passed and any(form in text for form in small):
                yield identity
        if len(ids) < _FIRST:
            return
        for batch in self._store.batches(WORDS, ["id"], f"id > {ids[-1]} AND ({asked})"):
            found = batch["id"].to_numpy()
            yield from found[~dead.contains(found)].tolist()

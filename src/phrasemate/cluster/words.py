"""The text index: all texts in lower case in a table of their own, with Lance's index of trigrams.

It is derived from the sentences and made by ``optimise``; the head says which version of it is in force and how many
sentences it knows (`Stamp`). Newer ones are read one by one, deleted ones are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from phrasemate.cluster.compacting import compact
from phrasemate.cluster.head import Writer
from phrasemate.cluster.records import Head
from phrasemate.cluster.tables import SENTENCES, WORDS, Tables, mapped, schema
from phrasemate.errors import IndexMissing
from phrasemate.index import fulltext, row_codec

INDEX = "text_idx"
_BATCH = 8192
_HALF = re.compile("[\ud800-\udfff]")
_KEY = "words"
_LOWERING = 4  # of `lowered`: a table that was made by another is made anew


class Stamp(NamedTuple):
    """The version of the table that is in force, and the id that the next sentence had when it was made."""

    version: int
    sentences: int
    lowering: int = _LOWERING

    @classmethod
    def of(cls, head: Head) -> Stamp | None:
        """None: there is no text index."""
        kept = head.extras.get(_KEY)
        if kept is None or kept.get("lowering") != _LOWERING:
            return None
        return cls(kept["version"], kept["sentences"])


def lowered(text: str) -> str:
    """As the table has it: half a character of UTF-16, which Arrow cannot hold, is U+0000, which no text holds."""
    return _HALF.sub("\0", fulltext.lowered(text))


def condition(small: Sequence[str]) -> str | None:
    """What Lance is asked for the texts that hold one of these, in lower case; None where it cannot be asked."""
    if any("\0" in text or lowered(text) != text for text in small):
        return None
    return " OR ".join("contains(text, '" + text.replace("'", "''") + "')" for text in small)


def update(tables: Tables, writer: Writer) -> None:
    """Take new sentences into the text index, and those of deleted documents out; make it if there is none."""
    head, stamp = writer.head, Stamp.of(writer.head)
    if stamp is not None:
        try:
            stamp = stamp._replace(version=tables.go_back(WORDS, stamp.version))
        except IndexMissing:  # the table is derived, and somebody has removed it
            writer.put(_KEY, None)  # a new one counts its versions from the first, so the old number must go before
            stamp = None
    if stamp is None:
        stamp = Stamp(tables.anew(WORDS, head.dim), 0)
    version, sentences, _ = stamp
    if head.next_sentence > sentences:
        version = tables.append(WORDS, tables.write(WORDS, _texts(tables, head, sentences)), version)
    with mapped(tables.place):
        table = tables.open(WORDS, version)
        if head.deleted and table.count_rows(gone := f"document IN ({', '.join(map(str, head.deleted))})"):
            table.delete(gone)
    table = tables.open(WORDS, compact(tables, WORDS))
    with mapped(tables.place):
        if any(index.name == INDEX for index in table.describe_indices()):
            table.optimize.optimize_indices()
        elif table.count_rows():
            table.create_scalar_index("text", "NGRAM", name=INDEX)
    writer.put(_KEY, Stamp(int(tables.open(WORDS).version), head.next_sentence)._asdict())


def _texts(tables: Tables, head: Head, first: int) -> Any:
    """A reader of the rows for the sentences from id ``first`` on."""
    import pyarrow as pa

    columns, kept = schema(WORDS, head.dim), tables.open(SENTENCES, head.versions[SENTENCES])

    def batches() -> Iterator[Any]:
        for batch in kept.to_batches(
            columns=["id", "document", "text"], filter=f"id >= {first}", batch_size=_BATCH, scan_in_order=True
        ):
            texts = [lowered(row_codec.decode_text(text)) for text in batch["text"].to_pylist()]
            yield pa.record_batch([batch["id"], batch["document"], pa.array(texts, pa.string())], schema=columns)

    return pa.RecordBatchReader.from_batches(columns, batches())

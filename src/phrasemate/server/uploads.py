"""Uploaded documents: read from a temporary file under a name of ours, and the terms of one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from phrasemate.errors import ReadError
from phrasemate.search import Searcher
from phrasemate.server.cancellation import go_on
from phrasemate.server.errors import Refusal
from phrasemate.server.schemas import Terms
from phrasemate.server.settings import Settings
from phrasemate.text.corpus import SUFFIXES as READABLE
from phrasemate.types import Document, Sentence

SUFFIXES = tuple(sorted(suffix[1:] for suffix in READABLE))  # but nothing within gzip
NAME = "document"


@contextmanager
def uploaded(name: str, content: bytes, settings: Settings, language: str = "") -> Iterator[list[Document]]:
    """The documents of an upload, while the context lasts; of its ``name`` only the ending is looked at.

    Reading them raises ReadError (it names no path of ours), or Refusal for more text than is allowed.
    """
    from phrasemate.text import read
    from phrasemate.text.error_policy import without_options

    suffix = name.rpartition(".")[2].lower()
    if suffix not in SUFFIXES:
        raise Refusal("wrong_type", f"a file named .{suffix[:20]}; expected one of: {', '.join(SUFFIXES)}")
    with tempfile.TemporaryDirectory(prefix="phrasemate-") as folder:
        path = Path(folder) / f"{NAME}.{suffix}"
        path.write_bytes(content)
        try:
            with without_options():
                yield [_limited(document, settings) for document in read(path, lang=language)]
        except ReadError as error:
            remedy = error.remedy.replace(" with --lang", " as its language")  # which is a field here
            raise ReadError(f"the {NAME}", error.line, error.reason, remedy) from error


def terms_of(searcher: Searcher, body: Terms, name: str, content: bytes, settings: Settings) -> list[dict[str, Any]]:
    """The terms of an uploaded document with their candidate translations, for JSON."""
    from phrasemate.terms import TermSettings, document_terms

    how = TermSettings(ranking=body.ranking, most=body.most, k=body.k, contexts=body.contexts)
    languages = [body.target_language] if body.target_language else None
    with uploaded(name, content, settings, body.language) as documents:
        rows = document_terms(documents, searcher, how, languages=languages, progress=go_on)
        return [term.as_dict(body.contexts) for term in rows]


def _limited(document: Document, settings: Settings) -> Document:
    most = settings.document_characters

    def sentences() -> Iterator[Sentence]:
        length = 0
        for sentence in document.sentences():
            go_on()
            length += len(sentence.text)
            if length > most:
                raise Refusal("too_long", f"the document has more than {most:,} characters; split it")
            yield sentence

    return replace(document, name=NAME, sentences=sentences)

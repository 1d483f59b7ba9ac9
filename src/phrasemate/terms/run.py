"""Documents -> terms with candidate translations, in one call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from phrasemate.encode import Model
from phrasemate.errors import InputError
from phrasemate.search import Searcher
from phrasemate.terms.extract import extract_terms
from phrasemate.terms.records import DocumentTerm, Progress, TermSettings
from phrasemate.terms.translate import translate_terms
from phrasemate.types import Document


def document_terms(
    document: Document | Iterable[Document],
    searcher: Searcher | None = None,
    settings: TermSettings | None = None,
    *,
    model: Model | None = None,
    documents: Sequence[str] | None = None,
    languages: Sequence[str] | None = None,
    progress: Progress = lambda what, done, total: None,
) -> list[DocumentTerm]:
    """The terms of a document (or of several together), best first.

    With a ``searcher``, each has candidate translations from its index (from ``documents`` and ``languages`` of it,
    where given), and its model finds the phrases; without one ``model`` does. For text in memory:
    ``Document.from_texts(name, sentences)``. Raises InputError for neither searcher nor model, an unknown document or
    language of the index, and what reading raises.
    """
    if searcher is not None:
        model = searcher.model
    if model is None:
        raise InputError("neither a searcher nor a model is given; expected one of them")
    given = [document] if isinstance(document, Document) else document
    terms = extract_terms(given, model, settings, progress)
    if searcher is None:
        return terms
    return translate_terms(terms, searcher, settings, progress, documents, languages)

"""The terms of a document: its phrases ranked by termhood, with candidate translations from an index.

from phrasemate import Index, Searcher, read
from phrasemate.terms import document_terms, write_document_terms

searcher = Searcher(Index.open("idx"))
terms = document_terms(read("manual.docx", lang="de"), searcher)
write_document_terms("terms.tbx", terms, language="de")

Lists of terms that are in files already are read and written by `phrasemate.text.term_lists`.
"""

from __future__ import annotations

from phrasemate.terms.extract import extract_terms, wording
from phrasemate.terms.output import term_rows, write_document_terms
from phrasemate.terms.records import RANKINGS, DocumentTerm, Occurrence, TermSettings
from phrasemate.terms.run import document_terms
from phrasemate.terms.translate import translate_terms

__all__ = [
    "RANKINGS",
    "DocumentTerm",
    "Occurrence",
    "TermSettings",
    "document_terms",
    "extract_terms",
    "term_rows",
    "translate_terms",
    "wording",
    "write_document_terms",
]

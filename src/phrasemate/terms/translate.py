"""The terms of a document -> candidate translations, each with the sentences of the index that hold it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from phrasemate.encode import Model
from phrasemate.encode.example_pooling import by_examples
from phrasemate.search import Searcher
from phrasemate.terms.records import DocumentTerm, Progress, TermSettings
from phrasemate.types import Phrase

AT_ONCE = 64  # terms that are searched together


def translate_terms(
    terms: Sequence[DocumentTerm],
    searcher: Searcher,
    settings: TermSettings | None = None,
    progress: Progress = lambda what, done, total: None,
    documents: Sequence[str] | None = None,
    languages: Sequence[str] | None = None,
) -> list[DocumentTerm]:
    """The terms, each with its candidate translations from the searcher's index (of some documents or languages).

    A term is searched by the mean vector of some of its occurrences (XPR's eq. 2; see `by_examples`); one without
    places by its wording alone. Candidates are chosen as those of a search are. Raises InputError
    for an unknown document or language.
    """
    settings = settings or TermSettings()
    model: Model = searcher.model
    examples = [representative(term, settings.examples) for term in terms]
    vectors, _ = by_examples(
        model,
        [term.text for term in terms],
        examples,
        model.pooling,
        progress=lambda done, total: progress("encoding terms", done, total),
    )
    bare = [Phrase(term.text, 0, len(term.text)) for term in terms]
    wordings = model.encode(bare) if searcher.encodes_alone else None
    found = []
    for at in range(0, len(terms), AT_ONCE):
        some = vectors[at : at + AT_ONCE]
        alone = None if wordings is None else wordings[at : at + AT_ONCE]
        texts = [term.text for term in terms[at : at + AT_ONCE]]
        answers = searcher.search_vectors(some, settings.k, settings.contexts, documents, languages, alone, texts)
        for term, (groups, confidence) in zip(terms[at : at + AT_ONCE], answers, strict=True):
            found.append(replace(term, groups=groups, confidence=confidence))
        progress("searching", at + len(some), len(terms))
    return found


def representative(term: DocumentTerm, count: int) -> list[Phrase]:
    """Up to ``count`` occurrences in different sentences: those that the segmenter believes in most, then earlier."""
    different: dict[str, Phrase] = {}
    for place in sorted(term.places, key=lambda place: -place.score):
        different.setdefault(place.phrase.context, place.phrase)
    return list(different.values())[:count]

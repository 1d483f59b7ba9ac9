"""The terms of a document as files: a term base, tables and JSON lines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from phrasemate.errors import InputError
from phrasemate.search import Group
from phrasemate.terms.records import DocumentTerm
from phrasemate.text import Term, TermPair, write_pairs, write_terms
from phrasemate.utils.storage import NewFile

WRITTEN = (".tbx", ".tsv", ".csv", ".xlsx", ".jsonl")
CONTEXTS = 3  # sentences of the document that are written with a term


def write_document_terms(
    path: str | os.PathLike[str],
    terms: Iterable[DocumentTerm],
    language: str = "",
    target_language: str = "",
    contexts: int = CONTEXTS,
) -> None:
    """Writes terms by the name of the file: .tbx, .tsv, .csv, .xlsx or .jsonl.

    ``language``: of the document; ``target_language``: of translations whose hits do not say it. In a term base a term
    and its translations are one concept, with up to ``contexts`` sentences of each; tables have a row for each
    translation (one with an empty target where there is none) with one sentence of each at most, JSON lines an object
    for each term, as `DocumentTerm.as_dict`. The file appears when it is whole. Raises InputError for another name or
    a file that cannot be written, MissingExtra.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".tbx":
        write_terms(path, _concepts(terms, language, target_language, contexts))
    elif suffix == ".jsonl":
        with NewFile(path) as file:
            for term in terms:
                file.write(json.dumps(term.as_dict(contexts), ensure_ascii=False) + "\n")
    elif suffix in WRITTEN:
        write_pairs(path, term_rows(terms, language, target_language, min(contexts, 1)))
    else:
        raise InputError(f"{path}: no format by its name; expected {', '.join(WRITTEN)}")


def term_rows(
    terms: Iterable[DocumentTerm], language: str = "", target_language: str = "", contexts: int = 1
) -> Iterator[TermPair]:
    """A pair for each translation of each term, as the tables have them; score 0 where there is no translation.

    Up to ``contexts`` sentences go with a term and with its translation, of which tables show the first.
    A pair's ``metadata`` are rank, termhood, count, belief, variants, places, confidence (of a term's first
    translation), target_count and target_context.
    """
    for rank, term in enumerate(terms, 1):
        source = Term(term.text, language, f"t{rank}", contexts=_own_contexts(term, contexts))
        facts: dict[str, Any] = {
            "rank": rank,
            "termhood": round(term.score, 4),
            "count": term.count,
            "belief": round(term.belief, 3),
            "variants": " | ".join(text for text, _ in term.variants),
            "places": " | ".join(dict.fromkeys(f"{place.document}:{place.line}" for place in term.places)),
        }
        for number, group in enumerate(term.groups):
            target = _target(group, f"t{rank}", target_language, contexts)
            sure = "" if term.confidence is None or number else round(term.confidence, 3)
            found = {"confidence": sure, "target_count": group.count, "target_context": "".join(target.contexts[:1])}
            yield TermPair(source, target, group.score, {**facts, **found})
        if not term.groups:
            nothing = {"confidence": "", "target_count": "", "target_context": ""}
            yield TermPair(source, Term("", target_language), 0.0, {**facts, **nothing})


def _concepts(terms: Iterable[DocumentTerm], language: str, target_language: str, contexts: int) -> Iterator[Term]:
    for rank, term in enumerate(terms, 1):
        concept, note = f"t{rank}", f"{_times(term.count)} in the document, termhood {term.score:.3f}"
        yield Term(term.text, language, concept, note=note, contexts=_own_contexts(term, contexts))
        for group in term.groups:
            yield _target(group, concept, target_language, contexts)


def _target(group: Group, concept: str, language: str, contexts: int) -> Term:
    spoken = next((hit.language for hit in group.hits if hit.language), language)
    sentences = tuple(hit.context for hit in group.hits[:contexts])
    said = {"source": f"phrasemate, score {group.score:.3f}, {_times(group.count)} among the hits"}
    return Term(group.text, spoken, concept, contexts=sentences, metadata=said)


def _times(count: int) -> str:
    return f"{count} time{'s' * (count != 1)}"


def _own_contexts(term: DocumentTerm, contexts: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(place.phrase.context for place in term.places))[:contexts]

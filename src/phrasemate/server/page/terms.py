"""Routes for terms: review and download the terms of a document, and edit and download the glossary.

A document is uploaded or pasted. The glossary holds chosen equivalents, which are edited in a table and downloaded in
the formats of translation tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.responses import RedirectResponse, Response

from phrasemate.errors import InputError, PhrasemateError
from phrasemate.glossary import CHARACTERS, FORMATS, STATUSES, Entry, Glossary, write_glossary
from phrasemate.glossary import FIELDS as ENTRY_FIELDS
from phrasemate.search import Searcher
from phrasemate.server.api import SUFFIXES, readable, terms_of, uploaded
from phrasemate.server.cancellation import work
from phrasemate.server.errors import Refusal, refusal_of, wants_json
from phrasemate.server.indexes import Library
from phrasemate.server.page.queries import Catalogue, attachment, file_content, html, refusal_page
from phrasemate.server.schemas import form_of
from phrasemate.server.settings import Settings
from phrasemate.terms import DocumentTerm, TermSettings
from phrasemate.text import Term, TermPair, folded, write_pairs
from phrasemate.text.formats.bilingual import write_units
from phrasemate.text.formats.units import Side, Unit

FILES = ("tsv", "xlsx", "tbx", "tmx")
FIELDS = (
    "term",
    "equivalent",
    "verdict",
    "count",
    "context",
    "evidence",
    "spoken",
    "score",
)  # form fields of row 0: "term-0", ...
_VERDICTS = ("accepted", "rejected", "undecided")


@dataclass(frozen=True, slots=True)
class Row:
    """A reviewed term with its chosen or typed equivalent and the verdict: "accepted", "rejected" or "undecided".

    ``context`` is a sentence of the document and ``evidence`` one of the index. ``spoken`` is the language of the
    equivalent, ``score`` its cosine, or "" if a person typed it.
    """

    term: str
    equivalent: str = ""
    verdict: str = "undecided"
    count: str = ""
    context: str = ""
    evidence: str = ""
    spoken: str = ""
    score: str = ""


def rows_of(form: Mapping[str, Any], most: int) -> list[Row]:
    """Parse at most ``most`` rows of the review form. Raises InputError for fields that the page does not send."""
    rows = []
    for number in range(most):
        fields = {name: form.get(f"{name}-{number}", "") for name in FIELDS}
        fields["verdict"] = fields["verdict"] or "undecided"
        if not all(isinstance(value, str) for value in fields.values()):
            raise InputError(f"row {number}: a file, expected text")
        if fields["verdict"] not in _VERDICTS:
            raise InputError(f"row {number}: the verdict {fields['verdict'][:20]!r}; expected accepted or rejected")
        if not fields["term"].strip():
            break
        rows.append(Row(**{name: value.strip() for name, value in fields.items()}))
    return rows


def file_of(format_: str, rows: Sequence[Row], language: str = "", undecided: bool = False) -> bytes:
    """Write the accepted rows, and with ``undecided`` the undecided ones, as the bytes of a term list.

    A row without an equivalent stays in a term list, but is left out of a translation memory (tmx). Raises InputError
    for a format that is not in `FILES`, MissingExtra.
    """
    selection = [row for row in rows if row.verdict == "accepted" or (undecided and row.verdict == "undecided")]
    if format_ not in FILES:
        raise InputError(f"{format_[:20]!r} is not a format here; expected one of {', '.join(FILES)}")
    if format_ == "tmx":
        save = partial(write_units, units=_units(selection, language), languages=(language, ""))
    else:
        save = partial(write_pairs, rows=_pairs(selection, language))
    return file_content(f"terms.{format_}", save)


def _pairs(rows: Sequence[Row], language: str) -> Iterator[TermPair]:
    for number, row in enumerate(rows, 1):
        evidence = row.evidence if _holds(row.evidence, row.equivalent) else ""  # else it belongs to another candidate
        source = Term(row.term, language, f"t{number}", contexts=(row.context,) if row.context else ())
        target = Term(row.equivalent, row.spoken, f"t{number}", contexts=(evidence,) if evidence else ())
        metadata = {"count": row.count, "verdict": row.verdict, "target_context": evidence}
        yield TermPair(source, target, _cosine(row.score), metadata)


def _cosine(score: str) -> float | None:
    """Parse the cosine of a candidate; None for an equivalent that a person typed."""
    return float(score) if re.fullmatch(r"-?[01]\.[0-9]{1,9}", score) else None


def _holds(sentence: str, phrase: str) -> bool:
    return bool(phrase) and folded(phrase) in folded(sentence)


def _units(rows: Sequence[Row], language: str) -> Iterator[Unit]:
    for row in rows:
        if row.equivalent:
            notes = {name: text for name, text in (("context", row.context), ("verdict", row.verdict)) if text}
            yield Unit((Side(row.term, language), Side(row.equivalent, row.spoken)), notes)


MOST = (50, 100, 200, 500)  # numbers of terms to choose from
DEFAULT = 100
CANDIDATES = 5


def add_document(router: APIRouter, library: Library, settings: Settings, catalogue: Catalogue) -> None:
    """Add the routes ``/document`` and ``/document/terms``."""
    common: dict[str, Any] = {"settings": settings, "suffixes": SUFFIXES, "files": FILES, "choices": MOST}

    @router.get("/document")
    async def ask() -> Response:
        return html("document.html", **common, known=await catalogue.facts(), asked=TermsForm())

    @router.post("/document")
    async def terms(request: Request) -> Response:
        """Find the terms of the uploaded document or the pasted text."""
        form_data = TermsForm()
        try:
            async with form_of(request, settings, files=1) as form:
                form_data = TermsForm(form, library)
                content = await form_data.content()
            rows = await work(library, library.ask, form_data.index, lambda s: form_data.terms(s, content, settings))
        except PhrasemateError as error:
            facts = await catalogue.facts()
            return refusal_page("document.html", refusal_of(error), **common, known=facts, asked=form_data)
        values = {**common, "known": await catalogue.facts(), "asked": form_data, "terms": rows}
        return await work(library, partial(html, "document.html", **values))

    @router.post("/document/terms")
    async def download_terms(request: Request) -> Response:
        """Download the reviewed terms."""
        fields = len(FIELDS) * settings.terms + 20
        async with form_of(request, settings, files=0, fields=fields) as form:
            format_, rows = str(form.get("format", "")), rows_of(form, settings.terms)
            language, keep_undecided = str(form.get("from", "")).strip()[:35], form.get("keep") == "undecided"
        body = await work(library, file_of, format_, rows, language, keep_undecided)
        return attachment(f"terms.{format_}", body)


class TermsForm:
    """Values of the form of ``/document``. Raises Refusal for an unknown index or number of terms."""

    def __init__(self, form: FormData | None = None, library: Library | None = None) -> None:
        self._form = form or FormData()
        self.index = self._text("in")
        self.language, self.target = self._text("from")[:35], self._text("lang")[:35]
        self.text = self._text("text")
        file = self._form.get("file")
        self._file = file if isinstance(file, UploadFile) and file.filename else None
        self.name = self._file.filename if self._file and self._file.filename else "text.txt"
        most = self._text("most") or str(DEFAULT)
        if most not in map(str, MOST):
            raise Refusal("invalid", f"most={most[:20]!r}; expected one of {', '.join(map(str, MOST))}")
        self.most = int(most)
        if library is not None and self.index not in library.names:
            if self.index:
                raise Refusal("unknown_index", f"there is no index {self.index[:100]!r}")
            self.index = library.names[0]

    async def content(self) -> bytes:
        """Return the bytes of the document, or of the pasted text. Raises Refusal if there is neither."""
        if self._file is not None:
            return await self._file.read()
        if not self.text.strip():
            raise Refusal("invalid", "no document was sent: choose a file, or paste a text")
        return self.text.encode("utf-8", "replace")

    def terms(self, searcher: Searcher, content: bytes, settings: Settings) -> list[DocumentTerm]:
        """Find and rank the terms of ``content`` and look them up; runs in a worker thread."""
        how = TermSettings(most=min(self.most, settings.terms), k=CANDIDATES, contexts=2, language=self.language)
        with uploaded(self.name, content, settings, self.language) as documents:
            return terms_of(documents, searcher, how, self.target)

    def _text(self, name: str) -> str:
        value = self._form.get(name, "")
        return value if isinstance(value, str) else ""


def add_glossary(router: APIRouter, library: Library, settings: Settings, glossary: Glossary) -> None:
    """Add the routes ``/glossary`` and ``/glossary/FORMAT``."""

    @router.get("/glossary")
    async def page() -> Response:
        return await run_in_threadpool(_glossary_page, library, glossary)

    @router.post("/glossary")
    async def change(request: Request) -> Response:
        """Add, change or remove an entry, or undo the last change. The script of the page asks for JSON."""
        async with form_of(request, settings, files=0) as form:
            try:
                answer = await run_in_threadpool(_change, glossary, form)
            except PhrasemateError as error:
                if wants_json(request.headers):
                    raise
                return await run_in_threadpool(_glossary_page, library, glossary, refusal_of(error))
        return JSONResponse(answer) if wants_json(request.headers) else RedirectResponse("/glossary", 303)

    @router.get("/glossary/{format_}")
    async def download(format_: str) -> Response:
        if format_ not in FORMATS:
            raise Refusal("not_found", f"no format {format_[:20]!r}; expected one of {', '.join(FORMATS)}")
        name = f"glossary.{FORMATS[format_][0]}"
        entries = readable(library, glossary.entries)
        body = await run_in_threadpool(file_content, name, lambda path: write_glossary(path, entries, format_))
        return attachment(name, body)


def _around(sentence: str, phrase: str) -> str:
    """Cut a sentence around a phrase to the `CHARACTERS` that a glossary entry keeps."""
    start = sentence.find(phrase) + len(phrase) // 2 - CHARACTERS // 2
    start = max(min(start, len(sentence) - CHARACTERS), 0)
    return sentence[start : start + CHARACTERS]


def _glossary_page(library: Library, glossary: Glossary, refusal: Refusal | None = None) -> Response:
    page = html(
        "glossary.html",
        refusal.status if refusal else 200,
        entries=readable(library, glossary.entries)[::-1],
        conflicts=glossary.conflicts(),
        undoable=glossary.undoable,
        refused=refusal,
        lasting=glossary.path is not None,
        statuses=STATUSES,
        formats=FORMATS,
    )
    page.headers.update(refusal.headers if refusal else {})
    return page


def _change(glossary: Glossary, form: FormData) -> dict[str, Any]:
    """Carry out the action of a form and describe the result for the script. Raises InputError."""
    numbers = {entry.id for entry in glossary.entries}
    entry = _changed(glossary, form)
    rivals = [] if entry is None or entry.id not in glossary.conflicts() else glossary.of(entry.source)
    return {
        "id": entry.id if entry else 0,
        "added": entry is not None and entry.id not in numbers,
        "entries": len(glossary.entries),
        "conflicts": [rival.target for rival in rivals if entry and rival.id != entry.id],
    }


def _changed(glossary: Glossary, form: FormData) -> Entry | None:
    """Carry out the action of a form. Returns the entry that was added or changed, if any. Raises InputError."""
    action, number = str(form.get("action", "")), str(form.get("id", "0"))
    values = {name: value.strip() for name in ENTRY_FIELDS if isinstance(value := form.get(name), str)}
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise InputError("the number of an entry was expected")
    if action == "add":
        values |= {
            name: _around(values[name], values.get(phrase, ""))
            for name, phrase in (("context", "source"), ("example", "target"))
            if name in values
        }
        values["status"] = values.get("status") or STATUSES[0]
        return glossary.add(replace(Entry("", ""), **values))  # type: ignore[arg-type]
    if action == "change":
        return glossary.change(int(number), **values)
    if action == "remove":
        glossary.remove(int(number))
    elif action == "undo":
        glossary.undo()
    else:
        raise InputError(f"action {action[:20]!r}; expected add, change, remove or undo")
    return None

"""The terms of a document: uploaded or pasted, reviewed on a page, taken away as a file."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.datastructures import FormData, UploadFile
from starlette.responses import Response

from phrasemate.errors import PhrasemateError
from phrasemate.search import Searcher
from phrasemate.server.cancellation import go_on, work
from phrasemate.server.errors import Refusal, refusal_of
from phrasemate.server.indexes import Library
from phrasemate.server.page.queries import Catalogue
from phrasemate.server.page.render import html
from phrasemate.server.page.term_review import FIELDS, FILES, file_of, rows_of
from phrasemate.server.request_body import form_of
from phrasemate.server.settings import Settings
from phrasemate.server.uploads import SUFFIXES, uploaded
from phrasemate.terms import DocumentTerm, TermSettings, document_terms

MOST = (50, 100, 200, 500)  # terms that can be asked for
DEFAULT = 100
CANDIDATES = 5


def add_document(
    router: APIRouter, library: Library, settings: Settings, catalogue: Catalogue, types: dict[str, str]
) -> None:
    """The addresses ``/document`` and ``/document/terms``; ``types``: content types of the files."""
    shown: dict[str, Any] = {"settings": settings, "suffixes": SUFFIXES, "files": FILES, "choices": MOST}

    @router.get("/document")
    async def ask() -> Response:
        return html("document.html", **shown, known=await catalogue.facts(), asked=Asked())

    @router.post("/document")
    async def terms(request: Request) -> Response:
        """The terms of what was sent."""
        asked = Asked()
        try:
            async with form_of(request, settings, files=1) as form:
                asked = Asked(form, library)
                content = await asked.content()
            found = await work(library, library.ask, asked.index, lambda s: asked.terms(s, content, settings))
        except PhrasemateError as error:
            refusal = refusal_of(error)
            known = await catalogue.facts()
            page = html("document.html", refusal.status, **shown, known=known, asked=asked, refusal=refusal)
            page.headers.update(refusal.headers)
            return page
        values = {**shown, "known": await catalogue.facts(), "asked": asked, "terms": found}
        return await work(library, partial(html, "document.html", **values))

    @router.post("/document/terms")
    async def taken(request: Request) -> Response:
        """The reviewed terms as a file."""
        fields = len(FIELDS) * settings.terms + 20
        async with form_of(request, settings, files=0, fields=fields) as form:
            format_, rows = str(form.get("format", "")), rows_of(form, settings.terms)
            language, undecided = str(form.get("from", "")).strip()[:35], form.get("keep") == "undecided"
        body = await work(library, file_of, format_, rows, language, undecided)
        headers = {"Content-Disposition": f'attachment; filename="terms.{format_}"'}
        return Response(body, headers=headers, media_type=types[format_])


class Asked:
    """What the form of the page asks for."""

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
        """The document, or the text in its place. Raises Refusal if there is neither."""
        if self._file is not None:
            return await self._file.read()
        if not self.text.strip():
            raise Refusal("invalid", "no document was sent: choose a file, or paste a text")
        return self.text.encode("utf-8", "replace")

    def terms(self, searcher: Searcher, content: bytes, settings: Settings) -> list[DocumentTerm]:
        """Found, ranked and looked up; called by a worker."""
        how = TermSettings(most=min(self.most, settings.terms), k=CANDIDATES, contexts=2)
        languages = [self.target] if self.target else None
        with uploaded(self.name, content, settings, self.language) as documents:
            return document_terms(documents, searcher, how, languages=languages, progress=go_on)

    def _text(self, name: str) -> str:
        value = self._form.get(name, "")
        return value if isinstance(value, str) else ""

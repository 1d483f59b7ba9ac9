"""The glossary on the page: chosen equivalents, edited in a table, downloaded in the formats of translation tools."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.responses import RedirectResponse, Response

from phrasemate.errors import InputError, PhrasemateError
from phrasemate.glossary import FIELDS, FORMATS, STATUSES, Entry, Glossary, write_glossary
from phrasemate.server.errors import Refusal, refusal_of
from phrasemate.server.page.queries import html
from phrasemate.server.schemas import form_of
from phrasemate.server.settings import Settings

_TYPES = {"tbx": "application/x-tbx+xml", "tmx": "application/x-tmx+xml", "xml": "application/xml"}


def add_glossary(router: APIRouter, settings: Settings, glossary: Glossary) -> None:
    """The addresses ``/glossary`` and ``/glossary/FORMAT``."""

    @router.get("/glossary")
    async def page() -> Response:
        return await run_in_threadpool(_page, glossary)

    @router.post("/glossary")
    async def change(request: Request) -> Response:
        """Adds, changes or removes an entry, or takes the last change back; the script asks for JSON."""
        async with form_of(request, settings, files=0) as form:
            try:
                entry = await run_in_threadpool(_changed, glossary, form)
            except PhrasemateError as error:
                refusal = refusal_of(error)
                if _wants_json(request):
                    return Response(refusal.json(), refusal.status, media_type="application/json")
                return await run_in_threadpool(_page, glossary, refusal)
        if not _wants_json(request):
            return RedirectResponse("/glossary", 303)
        rivals = [] if entry is None or entry.id not in glossary.conflicts() else glossary.of(entry.source)
        conflicts = [rival.target for rival in rivals if entry and rival.id != entry.id]
        return JSONResponse({"id": entry.id if entry else 0, "entries": len(glossary.entries), "conflicts": conflicts})

    @router.get("/glossary/{format_}")
    async def download(format_: str) -> Response:
        if format_ not in FORMATS:
            error = Refusal("not_found", f"no format {format_[:20]!r}; expected one of {', '.join(FORMATS)}")
            return html("problem.html", error.status, refusal=error)
        suffix = FORMATS[format_][0]
        body = await run_in_threadpool(_file, glossary, format_)
        headers = {"Content-Disposition": f'attachment; filename="glossary.{suffix}"'}
        return Response(body, headers=headers, media_type=_TYPES.get(suffix, f"text/{suffix}; charset=utf-8"))


def _wants_json(request: Request) -> bool:
    return "application/json" in request.headers.get("accept", "")


def _page(glossary: Glossary, refusal: Refusal | None = None) -> Response:
    values = {
        "entries": list(reversed(glossary.entries)),
        "conflicts": glossary.conflicts(),
        "undoable": glossary.undoable,
    }
    page = html(
        "glossary.html",
        refusal.status if refusal else 200,
        **values,
        refused=refusal,
        lasting=glossary.path is not None,
        statuses=STATUSES,
        formats=FORMATS,
    )
    return page


def _changed(glossary: Glossary, form: FormData) -> Entry | None:
    """Carry out what a form asks for: the entry that was added or changed. Raises InputError."""
    action, number = str(form.get("action", "")), str(form.get("id", "0"))
    values = {name: value.strip() for name in FIELDS if isinstance(value := form.get(name), str)}
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise InputError("the number of an entry was expected")
    if action == "add":
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


def _file(glossary: Glossary, format_: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"glossary.{FORMATS[format_][0]}"
        write_glossary(path, glossary.entries, format_)
        return path.read_bytes()

"""Helps for other programs: a bookmarklet, a browser extension and a script for OmegaT, made for this server."""

from __future__ import annotations

import io
import re
import zipfile
from importlib.resources import files
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import Response

from phrasemate.server.page.queries import html
from phrasemate.server.settings import Settings

DEFAULT = "http://127.0.0.1:8000"  # what the files name until it is replaced
_HOME = files("phrasemate.server.page") / "programs"
_EXTENSION = ("manifest.json", "background.js", "options.html", "options.js")
_ADDRESS = re.compile(r"https?://[\w.:\[\]-]{1,200}")
_BOOKMARKLET = (
    '(()=>{const q=String(getSelection()).trim()||prompt("Look up");if(q)open("SERVER/?"+new URLSearchParams({q}),'
    '"phrasemate","popup,width=420,height="+screen.availHeight+",left="+(screen.availWidth-420))})()'
)
_STAMP = (2026, 1, 1, 0, 0, 0)  # of files in the archive, so that equal content is equal bytes


def add_tools(router: APIRouter, settings: Settings) -> None:
    """The addresses ``/tools``, ``/tools/phrasemate.groovy`` and ``/tools/extension.zip``."""

    @router.get("/tools")
    async def page(request: Request) -> Response:
        server = address_of(request)
        return html("tools.html", server=server, bookmarklet=bookmarklet(server), public=settings.public)

    @router.get("/tools/phrasemate.groovy")
    async def script(request: Request) -> Response:
        return _download("phrasemate.groovy", _text("phrasemate.groovy", address_of(request)).encode())

    @router.get("/tools/extension.zip")
    async def extension(request: Request) -> Response:
        return _download("phrasemate-extension.zip", packed(address_of(request)))


def address_of(request: Request) -> str:
    """The address under which the server was asked, without a slash at its end; the usual one if it looks odd."""
    address = str(request.base_url).rstrip("/")
    return address if _ADDRESS.fullmatch(address) else DEFAULT


def bookmarklet(server: str) -> str:
    """The address of a bookmark that looks up what is selected on the page that is open."""
    return "javascript:" + quote(_BOOKMARKLET.replace("SERVER", server), safe="(){}=>;,.!|&?:/+'\"")


def packed(server: str) -> bytes:
    """The browser extension as a zip file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in _EXTENSION:
            archive.writestr(zipfile.ZipInfo(name, _STAMP), _text(f"extension/{name}", server))
    return buffer.getvalue()


def _text(name: str, server: str) -> str:
    return (_HOME / name).read_text("utf-8").replace(DEFAULT, server)


def _download(name: str, body: bytes) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(body, headers=headers, media_type="application/octet-stream")

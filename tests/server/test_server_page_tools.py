"""The page of helps for other programs, and what it gives."""

from __future__ import annotations

import io
import json
import zipfile
from urllib.parse import unquote

from fastapi.testclient import TestClient
from page_client import Browser
from starlette.datastructures import URL, Headers

from phrasemate.server.page import DEFAULT, address_of, packed


def test_all_helps_name_the_server_that_was_asked(client: TestClient) -> None:
    page = Browser(client).get("/tools")
    (link,) = page.all("a.bookmarklet")
    assert unquote(link.get("href")).startswith("javascript:(()=>{const q=String(getSelection())")
    assert 'open("http://localhost:8000/?"' in unquote(link.get("href"))
    assert "http://localhost:8000/?q={target}" in page.text
    script = client.get("/tools/phrasemate.groovy")
    assert 'def server = "http://localhost:8000"' in script.text
    assert script.headers["content-disposition"] == 'attachment; filename="phrasemate.groovy"'
    with zipfile.ZipFile(io.BytesIO(client.get("/tools/extension.zip").content)) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        assert manifest["manifest_version"] == 3
        names = {manifest["background"]["service_worker"], manifest["options_ui"]["page"]}
        assert names < set(archive.namelist())
        assert b'SERVER = "http://localhost:8000"' in archive.read("background.js")


def test_helps_name_the_scheme_that_a_proxy_says(client: TestClient) -> None:
    script = client.get("/tools/phrasemate.groovy", headers={"X-Forwarded-Proto": "https"})
    assert 'def server = "https://localhost:8000"' in script.text


def test_an_odd_address_is_not_written_into_a_file() -> None:
    class Asked:
        base_url, headers = URL('http://x";alert(1)//:80/'), Headers()

    assert address_of(Asked()) == DEFAULT  # type: ignore[arg-type]


def test_the_extension_is_the_same_file_at_any_time() -> None:
    with zipfile.ZipFile(io.BytesIO(packed(DEFAULT))) as archive:
        times = {entry.date_time for entry in archive.infolist()}
    assert times == {(2026, 1, 1, 0, 0, 0)}

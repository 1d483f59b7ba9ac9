"""A browser without scripts: asks the application for pages and reads their HTML."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from lxml import html
from starlette.testclient import TestClient


class Page:
    """An answer as its HTML tree."""

    def __init__(self, response: Any) -> None:
        self.response, self.status, self.text = response, response.status_code, response.text
        self.tree = html.document_fromstring(response.text) if "html" in response.headers["content-type"] else None

    def all(self, selector: str) -> list[Any]:
        return list(self.tree.cssselect(selector)) if self.tree is not None else []

    def texts(self, selector: str) -> list[str]:
        return [" ".join(element.text_content().split()) for element in self.all(selector)]

    def form(self, selector: str) -> list[tuple[str, str]]:
        """What a form without changes sends, its buttons left out."""
        (form,) = self.all(selector)
        return [(name, value) for name, value in form.form_values() if value]


class Browser:
    def __init__(self, client: TestClient) -> None:
        self.client = client

    def get(self, path: str = "/", *pairs: tuple[str, str], **fields: Any) -> Page:
        values = [*pairs, *((name.rstrip("_"), str(value)) for name, value in fields.items())]
        return Page(self.client.get(f"{path}?{urlencode(values)}" if values else path))

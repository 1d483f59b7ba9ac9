"""Templates -> HTML. Everything is escaped; nothing here knows where it comes from."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from starlette.responses import HTMLResponse

from phrasemate.concordance import clip
from phrasemate.errors import MissingExtra
from phrasemate.search import DOUBT
from phrasemate.server.page.queries import same

_HOME = files("phrasemate.server.page")
_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
STATIC = {
    name: ((_HOME / "static" / name).read_bytes(), _TYPES[name.rpartition(".")[2]])
    for name in ("icon.svg", "page.css", "page.js", "terms.js")
}
_VERSIONS = {name: sha256(body).hexdigest()[:12] for name, (body, _) in STATIC.items()}
_UNSHOWABLE = re.compile("[\0-\x08\x0b\x0e-\x1f\x7f\ud800-\udfff]")
_SEPARATOR = re.compile(r"[/\\]")
CONTEXT = 140  # characters on each side of a line: more than the widest window shows
EVIDENCE = 60  # the same, of a sentence in a list of terms


def html(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """The page of a template; what cannot be shown or encoded becomes U+FFFD."""
    text = environment().get_template(template).render(values)
    return HTMLResponse(_UNSHOWABLE.sub("\ufffd", text), status)


def direction(texts: Iterable[str] | str) -> str:
    """Which way a text runs: "rtl" if most letters are of a right-to-left script, else "ltr"."""
    balance = 0
    for character in "".join([texts] if isinstance(texts, str) else texts)[:2_000]:
        kind = unicodedata.bidirectional(character)
        balance += (kind in ("R", "AL")) - (kind == "L")
    return "rtl" if balance > 0 else "ltr"


@lru_cache(maxsize=1)
def environment() -> Any:
    """The templates. Raises MissingExtra."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise MissingExtra("jinja2", "serve") from None
    made = Environment(
        loader=PackageLoader("phrasemate.server.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["DOUBT"] = DOUBT
    made.filters |= {
        "base": lambda name: _SEPARATOR.split(name)[-1] or name,
        "dir": direction,
        "is_space": str.isspace,
        "left": lambda line: clip(line.left, CONTEXT, "end"),
        "same": same,
        "right": lambda line: clip(line.right, CONTEXT, "start"),
        "grouped": lambda number: f"{number:,}",
        "tail": lambda text: clip(text, EVIDENCE, "end"),
        "head": lambda text: clip(text, EVIDENCE, "start"),
        "times": lambda number, noun: f"{number:,} {noun}{'' if number == 1 else 's'}",
        "close": lambda score: f"{max(score, 0):.2f}",
        "upper_first": lambda text: text[:1].upper() + text[1:].removesuffix("."),
        "wide": lambda score: f"{100 * min(max(score, 0), 1):.0f}%",
    }
    made.globals["static"] = lambda name: f"/static/{name}?v={_VERSIONS[name]}"
    return made

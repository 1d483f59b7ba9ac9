"""Wikitext -> running text, by mwparserfromhell: no templates, tables, references, pictures, headings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from phrasemate.errors import MissingExtra

__all__ = ["paragraphs"]

_GONE = "\ufffc"  # where something was that made text: what is left of the sentence may say something else
_DROPPED = frozenset(
    {
        *("ref", "references", "table", "gallery", "timeline", "imagemap", "graph", "pre", "source", "indicator"),
        *("syntaxhighlight", "templatestyles", "mapframe", "maplink", "inputbox", "poem", "style", "script"),
    }
)
_SAID = frozenset({"math", "chem", "ce", "score", "hiero", "code"})  # dropped, but the sentence is not whole without
_BREAKING = frozenset(
    {"li", "dd", "dt", "br", "hr", "p", "div", "blockquote", "center", "ul", "ol", "dl", "tr", "td", "th"}
)
_CANONICAL = frozenset(["file", "image", "media", "category"])
_INTERWIKI = re.compile(r":?[a-z]{2,3}(?:-[a-z]+)*|simple")
_CITED = re.compile(f"(?<=[^\\s({_GONE}]){_GONE}+")  # right behind a word or full stop it was a reference
_WRAPPED = re.compile(r"(?<=[^\s.!?:;])\n(?=[a-zà-öø-ÿа-яё])")  # a paragraph goes on
_LEFT = re.compile(r"^[|!]|\{\{|\}\}|\[\[|\]\]|\{\||\|\}|<[a-z/]|__[A-Z]+__")  # markup that was not closed
_EMPTY = re.compile(r"\s*\(\s*[;,:]*\s*\)")


def paragraphs(wikitext: str, namespaces: Iterable[str] = ()) -> Iterator[str]:
    """The lines of text of a page, without markup, white space made single.

    ``namespaces`` are the names that the wiki gives to its own: links to their pages are no text. A line keeps the
    character U+FFFC where a template or formula stood in the middle of a sentence, so that the sentence can be left
    out. Lines with markup that was never closed are left out. Raises MissingExtra where the parser is absent.
    """
    foreign = _CANONICAL | {name.casefold() for name in namespaces if name}
    text = _plain(_parsed(wikitext), foreign)
    for line in _WRAPPED.sub(" ", _CITED.sub("", text)).split("\n"):
        line = " ".join(_EMPTY.sub("", line).split())
        if line.strip(_GONE + " ") and not _LEFT.search(line):
            yield line


def _parsed(wikitext: str) -> Any:
    try:
        import mwparserfromhell
    except ImportError as error:
        raise MissingExtra("mwparserfromhell", "dataset") from error
    return mwparserfromhell.parse(wikitext)


def _plain(code: Any, foreign: frozenset[str]) -> str:
    """The text of a piece of wikitext; the depth of what it holds is limited by the parser."""
    return "" if code is None else "".join(_node(node, foreign) for node in code.nodes)


def _node(node: Any, foreign: frozenset[str]) -> str:
    kind = type(node).__name__
    if kind == "Text":
        return str(node)
    if kind == "Tag":
        return _tag(node, foreign)
    if kind == "Wikilink":
        return _link(node, foreign)
    if kind == "ExternalLink":
        return _plain(node.title, foreign) if node.brackets else str(node.url)
    if kind == "HTMLEntity":
        return str(node.normalize() or " ")
    if kind == "Heading":
        return "\n"
    return "" if kind == "Comment" else _GONE  # a template or a template's argument


def _tag(node: Any, foreign: frozenset[str]) -> str:
    name = str(node.tag).strip().casefold()
    if name in _DROPPED:
        return "\n" if name in ("table", "gallery") else ""
    if name in _SAID:
        return _GONE
    inside = _plain(node.contents, foreign)
    return f"\n{inside}" if name in _BREAKING else inside


def _link(node: Any, foreign: frozenset[str]) -> str:
    title = str(node.title).strip()
    prefix, colon, _ = title.removeprefix(":").partition(":")
    prefix = prefix.strip().casefold().replace("_", " ")
    if colon and not title.startswith(":") and (prefix in foreign or _INTERWIKI.fullmatch(prefix)):
        return ""
    return _plain(node.text, foreign) if node.text is not None else title.removeprefix(":").partition("#")[0]

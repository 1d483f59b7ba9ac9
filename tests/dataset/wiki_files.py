"""Small dumps of a wiki, written for the tests: articles as XML, inter-language links as SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from xml.sax.saxutils import escape

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="de">
  <siteinfo><sitename>Wiki</sitename><namespaces>
    <namespace key="0" case="first-letter" /><namespace key="2" case="first-letter">Benutzer</namespace>
    <namespace key="6" case="first-letter">Datei</namespace>
    <namespace key="14" case="first-letter">Kategorie</namespace>
  </namespaces></siteinfo>
"""

PAGE = """  <page><title>{title}</title><ns>{ns}</ns><id>{id}</id>{redirect}
    <revision><id>9{id}</id><contributor><username>A</username><id>7</id></contributor>
      <text xml:space="preserve">{text}</text></revision></page>
"""


def page(id_: int, title: str, text: str, ns: int = 0, redirect: str = "") -> str:
    """One page as a dump has it."""
    tag = f'<redirect title="{redirect}" />' if redirect else ""
    return PAGE.format(id=id_, title=escape(title), text=escape(text), ns=ns, redirect=tag)


def dump(pages: Iterable[str]) -> str:
    """A whole dump."""
    return HEAD + "".join(pages) + "</mediawiki>\n"


def articles(texts: Mapping[str, str]) -> str:
    """A dump of articles, numbered from 10."""
    return dump(page(number, title, text) for number, (title, text) in enumerate(texts.items(), 10))


def sql(rows: Iterable[tuple[int, str, str]], table: str = "langlinks") -> str:
    """A dump of a table: two rows a statement, as few as that."""
    values = [
        f"({number},'{lang}','{title.translate({39: chr(92) + chr(39), 92: chr(92) * 2})}')"
        for number, lang, title in rows
    ]
    statements = (f"INSERT INTO `{table}` VALUES {','.join(values[at : at + 2])};\n" for at in range(0, len(values), 2))
    return f"-- MySQL dump\nCREATE TABLE `{table}` (\n  `ll_from` int\n);\n" + "".join(statements) + "-- done\n"

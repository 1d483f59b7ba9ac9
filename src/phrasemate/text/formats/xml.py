"""XML from strangers, as a stream of bounded size: no entities, no DTD from elsewhere, no network, no tree.

The parser is expat, of the standard library. What a document may cost is limited here, once, for all formats.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Generic, TypeVar
from xml.parsers import expat

from phrasemate.errors import ReadError
from phrasemate.text.guess import other_encoding

__all__ = ["DEPTH", "NAMES", "TOKEN", "UNIT", "XmlStream", "kind_of"]

DEPTH = 500  # elements within one another
TOKEN = 1_000_000  # bytes of one tag, comment or declaration: expat keeps it whole
NAMES = 10_000  # different names of elements and attributes: expat keeps each
UNIT = 4_000_000  # characters of one entry with all that belongs to it
_ATTRIBUTE_DECLARATIONS = 1000  # the DTD of TMX, which some files have written into them, has fewer than a hundred
_SHOWN = 60  # characters of a name that an error shows
_LANGUAGE = "http://www.w3.org/XML/1998/namespace lang"

Item = TypeVar("Item")
Attributes = Mapping[str, str]


class XmlStream(Generic[Item]):
    """One pass over a document: a format fills ``ready`` from `start` and `end`, `read` gives out what is in it.

    Text is kept only while ``listening``; `taken` gives it and starts anew. ``root`` is what the document must begin
    with, ``what`` names the format in errors, ``namespaces`` are those whose elements come by their local name; other
    ones come as "URI name". Without ``namespaces``, names come as they are written. ``encoding`` overrules what the
    document says of itself.
    """

    root: frozenset[str] = frozenset()
    what = "XML"
    namespaces: frozenset[str] = frozenset()

    def __init__(self, name: str, encoding: str | None = None) -> None:
        self.name, self.listening = name, False
        self.ready: list[Item] = []
        self.path: list[str] = []
        self._text: list[str] = []
        self._cost = self._declared = self._fed = 0
        self._tail = b""
        self._tags: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._parser = self._prepared(encoding)

    def start(self, tag: str, attributes: Attributes) -> None:
        """An element begins; ``path`` ends with it."""

    def end(self, tag: str) -> None:
        """An element ends; ``path`` ends with its parent."""

    def read(self, blocks: Iterable[bytes]) -> Iterator[Item]:
        """What the format makes of the document, up to where it is damaged.

        Raises ReadError for what is no such document, or costs too much.
        """
        for block in chain(blocks, [b""]):
            try:
                self._feed(block, final=not block)
            except ReadError:
                yield from self.ready
                raise
            yield from self.ready
            self.ready.clear()

    @property
    def line(self) -> int:
        """The line of the document, from 1, at which the parser is."""
        return self._parser.CurrentLineNumber

    def language(self, attributes: Attributes) -> str:
        """The value of xml:lang."""
        return (attributes.get(_LANGUAGE) or attributes.get("xml:lang") or "").strip()

    def taken(self) -> str:
        """The text since the last call."""
        text = "".join(self._text)
        self._text.clear()
        return text

    def charge(self, cost: int) -> None:
        """Counts against the size of the entry that is being read: once for each thing that is kept."""
        self._cost += cost
        if self._cost > UNIT:
            reason = f"one entry of more than {UNIT:,} characters; expected {self.what} of entries of ordinary size"
            raise self.error(reason, "split or remove the entry")

    def give(self, item: Item) -> None:
        """The entry is whole."""
        self.ready.append(item)
        self._cost = 0

    def settle(self) -> None:
        """The entry is over; its cost is forgotten."""
        self._cost = 0

    def error(self, reason: str, remedy: str) -> ReadError:
        return ReadError(self.name, self.line, reason, remedy)

    def _prepared(self, encoding: str | None) -> expat.XMLParserType:
        parser = expat.ParserCreate(encoding, " " if self.namespaces else None, self._names)
        parser.buffer_text, parser.specified_attributes = True, True
        parser.buffer_size = 1 << 16
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._heard
        parser.EntityDeclHandler, parser.SkippedEntityHandler = self._entity, self._unknown_entity
        parser.AttlistDeclHandler = self._attribute_declared
        return parser

    def _start(self, name: str, attributes: Attributes) -> None:
        tag = self._tags.get(name) or self._tag(name)
        if not self.path and tag not in self.root:
            begins = f"the document begins with <{_shown(name)}>"
            expected = " or ".join(f"<{root}>" for root in sorted(self.root))
            raise self.error(f"{begins}; expected {expected} of {self.what}", "give the file the suffix of its format")
        self.path.append(tag)
        if len(self.path) > DEPTH:
            raise self.error(f"elements nested more than {DEPTH} deep", f"give {self.what}, not deeper than it allows")
        self.start(tag, attributes)

    def _end(self, name: str) -> None:
        self.path.pop()
        self.end(self._tags[name])

    def _tag(self, name: str) -> str:
        uri, _, local = name.rpartition(" ")
        tag = self._tags[name] = local if not uri or uri in self.namespaces else name
        return tag

    def _heard(self, text: str) -> None:
        if self.listening:
            self._text.append(text)
            self._cost += len(text)

    def _feed(self, block: bytes, final: bool) -> None:
        parser = self._parser
        try:
            parser.Parse(block, final)
        except expat.ExpatError as error:
            raise self._translated(error, block, final) from None
        except (LookupError, ValueError):  # of pyexpat, before anything else: it knows no such encoding
            if self._tags:
                raise
            reason = f"an encoding that is unknown, or has several bytes for a character: {_declared(block)}"
            raise ReadError(self.name, 1, reason, "give it with --encoding, or convert the file to UTF-8") from None
        self._fed += len(block)
        self._tail = block[-8:]
        if not final and self._fed - parser.CurrentByteIndex > TOKEN:
            raise self.error(
                f"a tag, comment or declaration of more than {TOKEN:,} bytes", f"give ordinary {self.what}"
            )
        self.charge(0)
        if len(self._names) > NAMES:
            reason = f"more than {NAMES:,} different names of elements and attributes"
            raise self.error(reason, f"give ordinary {self.what}")

    def _entity(self, name: str, *_: object) -> None:
        shown = _shown(name)
        reason = f"declares an entity ({shown!r}); entities are not read, for they can name files or grow without end"
        raise self.error(reason, "write out what it stands for and remove the declaration")

    def _unknown_entity(self, name: str, is_parameter: bool) -> None:
        sign = "%" if is_parameter else "&"
        reason = f"the entity {sign}{_shown(name)}; is not one of XML's own, and no DTD is read"
        raise self.error(reason, "write the character itself")

    def _attribute_declared(self, *_: object) -> None:
        self._declared += 1
        if self._declared > _ATTRIBUTE_DECLARATIONS:
            raise self.error(f"more than {_ATTRIBUTE_DECLARATIONS:,} attribute declarations", "remove the DOCTYPE")

    def _translated(self, error: expat.ExpatError, block: bytes, final: bool) -> ReadError:
        """What expat says, with the line, and the likely cause."""
        what = expat.ErrorString(error.code)
        where = f" within <{_shown(self.path[-1])}>" if self.path else ""
        if final and self._fed == 0:
            return ReadError(self.name, 0, f"an empty file; expected {self.what}", "remove the file")
        if final:
            reason = f"the {self.what} ends too early{where}"
            return ReadError(self.name, error.lineno, reason, "the file may be cut short: copy or download it again")
        if error.code in _ENCODING:
            remedy = f"give the right one, perhaps --encoding {'utf-16' if 0 in block[:8] else 'utf-8'}"
            return ReadError(self.name, error.lineno, f"{what}: {_declared(block)}", remedy)
        raw = self._tail + block
        wrong = _not_utf8(raw, self._parser.ErrorByteIndex - self._fed + len(self._tail), self._parser.ErrorByteIndex)
        if wrong:
            return ReadError(self.name, error.lineno, *wrong)
        reason = f"not well-formed XML at column {error.offset + 1}{where} ({what})"
        return ReadError(self.name, error.lineno, reason, "mend the file with the program that made it")


_ENCODING = frozenset({expat.errors.codes[expat.errors.XML_ERROR_UNKNOWN_ENCODING]})
_ENCODING |= {expat.errors.codes[expat.errors.XML_ERROR_INCORRECT_ENCODING]}


def _shown(name: str) -> str:
    """A name without its namespace, at a length that fits into an error."""
    return name.rpartition(" ")[2][:_SHOWN]


def _declared(block: bytes) -> str:
    """The declaration of a document's encoding, as far as it can be read."""
    head = block[:200].replace(b"\0", b"")
    return head[head.find(b"<") : head.find(b">") + 1].decode("ascii", "backslashreplace") or "no declaration"


def _not_utf8(raw: bytes, at: int, offset: int) -> tuple[str, str] | None:
    """Reason and remedy if the byte that expat did not like (``raw[at]``) is no UTF-8, though it was taken for it."""
    try:
        raw[max(0, at) : at + 4].decode()
    except UnicodeDecodeError as error:
        if error.start == 0 and error.reason != "unexpected end of data":
            return other_encoding(raw[max(0, at) : at + 200], error, offset)
    return None


def kind_of(raw: bytes) -> str:
    """The format of a document that begins so: "tmx", "tbx", "xliff", "html" or nothing."""
    head = raw[:_HEAD].replace(b"\0", b"").lower().lstrip(b"\xef\xbb\xbf\xfe\xff \t\r\n")
    found = _ROOT.search(head) if head.startswith(b"<") else None
    return _KINDS[found[1]] if found else ""


_HEAD = 4096
_ROOT = re.compile(rb"<(html|martif|tbx|tmx|xliff)[\s>]")
_KINDS = {b"html": "html", b"martif": "tbx", b"tbx": "tbx", b"tmx": "tmx", b"xliff": "xliff"}

"""XML from strangers, as a stream of bounded size: no entities, no DTD from elsewhere, no network, no tree.

The writer escapes texts and attributes, and its file appears whole or not at all.

The parser is expat, of the standard library. What a document may cost is limited here, once, for all formats.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Generic, TypeVar
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from phrasemate.errors import ReadError
from phrasemate.text.text_file import other_encoding
from phrasemate.utils.storage import NewFile

DEPTH = 500  # elements within one another
TOKEN = 1_000_000  # bytes of one tag, comment or declaration (of the DTD with all that is in it): expat keeps it whole
OFFICE_TOKEN = 32_000_000  # the same in an Office document: Word puts whole drawings into attributes
NAMES = 10_000  # different names of elements and attributes: expat keeps each; namespaces that are declared at once
NAME = 1000  # characters of one of them, and of the URI of a namespace
COST = 100  # characters that an element or a paragraph counts for, beside its text
UNIT = 4_000_000  # characters of one entry with all that belongs to it
_ATTRIBUTE_DECLARATIONS = 1000  # the DTD of TMX, which some files have written into them, has fewer than a hundred
_SHOWN = 60  # characters of a name that an error shows
_XML = "http://www.w3.org/XML/1998/namespace"
_LANGUAGE = f"{_XML} lang"

Item = TypeVar("Item")
Attributes = Mapping[str, str]


class XmlStream(Generic[Item]):
    """One pass over a document: a format fills ``ready`` from `start` and `end`, `read` gives out what is in it.

    Text is kept only while ``listening``; `take_text` gives it and starts again. ``root`` is what the document must
    begin with, ``format_name`` what errors call it, ``namespaces`` are those whose elements come by their local name;
    other ones come as "URI name". Without ``namespaces``, names come as they are written. ``encoding`` overrules what
    the document says of itself.
    """

    root: frozenset[str] = frozenset()
    format_name = "XML"
    token = TOKEN
    namespaces: frozenset[str] = frozenset()

    def __init__(self, name: str, encoding: str | None = None) -> None:
        self.name, self.listening = name, False
        self.ready: list[Item] = []
        self.path: list[str] = []
        self._text: list[str] = []
        self._cost = self._declared = self._fed = self._known = self._unended = 0
        self._rooted, self._tail = False, b""
        self._tags: dict[str, str] = {}  # full names of elements, by those that are written, where the parser is
        self._keys: dict[str, str] = {}  # of attributes
        self._plain: set[str] = set()  # attributes whose name is the same everywhere
        self._names: dict[str, str] = {}
        self._uris = {"xml": _XML}  # of the prefixes, where the parser is
        self._before: list[tuple[int, str, str]] = []  # depth and prefix of each declaration; its URI outside of that
        self._parser = self._prepared(encoding)

    def start(self, tag: str, attributes: Attributes) -> None:
        """An element begins; ``path`` ends with it."""

    def end(self, tag: str) -> None:
        """An element ends; ``path`` ends with its parent."""

    def read(self, blocks: Iterable[bytes]) -> Iterator[Item]:
        """What the format makes of the document, up to where it is damaged.

        Raises ReadError for what is not such a document, or costs too much.
        """
        for block in chain(self._gathered(blocks), [b""]):
            try:
                self._feed(block, final=not block)
            except ReadError:
                yield from self.ready
                raise
            yield from self.ready
            self.ready.clear()

    def _gathered(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """The blocks, joined while a tag is open to twice its size so far: expat reads it again from its beginning."""
        content = bytearray()
        for block in blocks:
            content += block
            if len(content) >= self._unended:
                yield bytes(content)
                content.clear()
        if content:
            yield bytes(content)

    @property
    def line(self) -> int:
        """The line of the document, from 1, at which the parser is."""
        return self._parser.CurrentLineNumber

    def language(self, attributes: Attributes) -> str:
        """The value of xml:lang."""
        return (attributes.get(_LANGUAGE) or attributes.get("xml:lang") or "").strip()

    def take_text(self) -> str:
        """The text since the last call."""
        text = "".join(self._text)
        self._text.clear()
        return text

    def add(self, text: str) -> None:
        """Text that an element stands for."""
        self._text.append(text)
        self.charge(len(text))

    def charge(self, cost: int) -> None:
        """Counts against the size of the entry that is being read: once for each thing that is kept."""
        self._cost += cost
        if self._cost > UNIT:
            limit = f"one entry of more than {UNIT:,} characters"
            reason = f"{limit}; expected {self.format_name} of entries of ordinary size"
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
        parser = expat.ParserCreate(encoding, None, self._names)
        parser.buffer_text, parser.specified_attributes = True, True
        parser.buffer_size = 1 << 16
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._heard
        parser.EntityDeclHandler, parser.SkippedEntityHandler = self._entity, self._unknown_entity
        parser.AttlistDeclHandler = self._attribute_declared
        return parser

    def _start(self, name: str, attributes: Attributes) -> None:
        if self.namespaces and not self._plain.issuperset(attributes):
            attributes = self._resolved(attributes)
        tag = self._tags.get(name) or self._tag(name)
        if not self.path:
            self._begins(tag)
        self.path.append(tag)
        if len(self.path) > DEPTH:
            raise self.error(f"elements nested more than {DEPTH} deep", "fix the file with the program that made it")
        self.start(tag, attributes)

    def _end(self, name: str) -> None:
        tag = self.path.pop()
        while self._before and self._before[-1][0] > len(self.path):
            _, prefix, uri = self._before.pop()
            self._bind(prefix, uri)
        self.end(tag)

    def _begins(self, tag: str) -> None:
        self._rooted = True
        if tag not in self.root:
            begins = f"the document begins with <{_short_name(tag)}>"
            root_names = " or ".join(f"<{root}>" for root in sorted(self.root))
            raise self.error(
                f"{begins}; expected {root_names} of {self.format_name}", "give the file the suffix of its format"
            )

    def _resolved(self, attributes: Attributes) -> Attributes:
        """Attributes by their full names, without those that declare a namespace, which do so.

        expat would do that too, but it copies the URI for each name: a tag of 200 kB could take gigabytes.
        """
        keys = self._keys
        try:
            return {keys[name]: value for name, value in attributes.items()}
        except KeyError:  # something new, or a declaration
            self._check_names()
        for name, uri in attributes.items():
            if _is_declaration(name):
                self._declare(name[6:], uri)
        full_names = {name: self._full(name) for name in attributes if not _is_declaration(name)}
        keys.update(full_names)
        self._plain.update(name for name, full in full_names.items() if name == full)
        return {full: attributes[name] for name, full in full_names.items()}

    def _declare(self, prefix: str, uri: str) -> None:
        if len(uri) > NAME or len(self._before) >= NAMES:
            reason = f"a namespace of more than {NAME:,} characters, or more than {NAMES:,} of them at once"
            raise self.error(reason, "fix the file with the program that made it")
        self._before.append((len(self.path) + 1, prefix, self._uris.get(prefix, "")))
        self._bind(prefix, uri)

    def _bind(self, prefix: str, uri: str) -> None:
        self._uris[prefix] = uri
        self._tags.clear()
        self._keys.clear()

    def _tag(self, name: str) -> str:
        full = name
        if self.namespaces:
            uri, _, local = self._full(name if ":" in name else f":{name}").rpartition(" ")
            full = local if not uri or uri in self.namespaces else f"{uri} {local}"
        self._tags[name] = full
        return full

    def _full(self, name: str) -> str:
        """The name with its namespace as "URI name"; ":name" is in the one that needs no prefix."""
        prefix, colon, local = name.partition(":")
        if not colon:
            return name
        uri = self._uris.get(prefix, "")
        if prefix and not uri:
            reason = f"not well-formed XML (the prefix of {_short_name(name)!r} is not declared)"
            raise self.error(reason, "fix the file with the program that made it")
        return f"{uri} {local}"

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
            if self._names:
                raise
            reason = f"an encoding that is unknown, or has several bytes for a character: {_declared(block)}"
            raise ReadError(self.name, 1, reason, "give it with --encoding, or convert the file to UTF-8") from None
        self._fed += len(block)
        self._tail = block[-8:]
        start = parser.CurrentByteIndex if self._rooted else 0  # what comes before the first element counts as one
        self._unended = self._fed - parser.CurrentByteIndex
        if not final and self._fed - start > self.token:
            reason = f"a tag, comment or declaration of more than {self.token:,} bytes"
            raise self.error(reason, "copy the text into a new file with the program that made it")
        self.charge(0)
        self._check_names()

    def _check_names(self) -> None:
        new, self._known = len(self._names) - self._known, len(self._names)
        reason = ""
        if self._known > NAMES:
            reason = f"more than {NAMES:,} different names of elements and attributes"
        elif new and any(len(name) > NAME for name in islice(reversed(self._names), new)):
            reason = f"a name of an element or attribute of more than {NAME:,} characters"
        if reason:
            raise self.error(reason, "fix the file with the program that made it")

    def _entity(self, name: str, *_: object) -> None:
        label = _short_name(name)
        reason = f"declares an entity ({label!r}); entities are not read, for they can name files or grow without end"
        raise self.error(reason, "write out what it stands for and remove the declaration")

    def _unknown_entity(self, name: str, is_parameter: bool) -> None:
        sign = "%" if is_parameter else "&"
        reason = f"the entity {sign}{_short_name(name)}; is not one of XML's own, and no DTD is read"
        raise self.error(reason, "write the character itself")

    def _attribute_declared(self, *_: object) -> None:
        self._declared += 1
        if self._declared > _ATTRIBUTE_DECLARATIONS:
            raise self.error(f"more than {_ATTRIBUTE_DECLARATIONS:,} attribute declarations", "remove the DOCTYPE")

    def _translated(self, error: expat.ExpatError, block: bytes, final: bool) -> ReadError:
        """Error of expat, with the line, and the likely cause."""
        what = expat.ErrorString(error.code)
        where = f" within <{_short_name(self.path[-1])}>" if self.path else ""
        if final and self._fed == 0:
            return ReadError(self.name, 0, f"an empty file; expected {self.format_name}", "remove the file")
        if final:
            reason = f"the {self.format_name} ends too early{where}"
            return ReadError(self.name, error.lineno, reason, "the file may be cut short: copy or download it again")
        if error.code in _ENCODING:
            remedy = f"give the right one, perhaps --encoding {'utf-16' if 0 in block[:8] else 'utf-8'}"
            return ReadError(self.name, error.lineno, f"{what}: {_declared(block)}", remedy)
        raw = self._tail + block
        wrong = _not_utf8(raw, self._parser.ErrorByteIndex - self._fed + len(self._tail), self._parser.ErrorByteIndex)
        if wrong:
            return ReadError(self.name, error.lineno, *wrong)
        reason = f"not well-formed XML at column {error.offset + 1}{where} ({what})"
        return ReadError(self.name, error.lineno, reason, "fix the file with the program that made it")


_ENCODING = frozenset({expat.errors.codes[expat.errors.XML_ERROR_UNKNOWN_ENCODING]})
_ENCODING |= {expat.errors.codes[expat.errors.XML_ERROR_INCORRECT_ENCODING]}


def _is_declaration(attribute: str) -> bool:
    return attribute == "xmlns" or attribute.startswith("xmlns:")


def _short_name(name: str) -> str:
    """A name without its namespace, at a length that fits into an error."""
    return name.rpartition(" ")[2][:_SHOWN]


def _declared(block: bytes) -> str:
    """The declaration of a document's encoding, as far as it can be read."""
    head = block[:200].replace(b"\0", b"")
    return head[head.find(b"<") : head.find(b">") + 1].decode("ascii", "backslashreplace") or "no declaration"


def _not_utf8(raw: bytes, at: int, offset: int) -> tuple[str, str] | None:
    """Reason and remedy if the byte that expat did not like (``raw[at]``) is not UTF-8, though it was taken for it."""
    try:
        raw[max(0, at) : at + 4].decode()
    except UnicodeDecodeError as error:
        if error.start == 0 and error.reason != "unexpected end of data":
            return other_encoding(raw[max(0, at) : at + 200], error, offset)
    return None


def kind_of(raw: bytes) -> str:
    """The format of a document that begins so: "tmx", "tbx", "xliff", "html" or nothing."""
    head = raw[:_HEAD].replace(b"\0", b"").lower().lstrip(b"\xef\xbb\xbf\xfe\xff \t\r\n")
    match = _ROOT.search(head) if head.startswith(b"<") else None
    return _KINDS[match[1]] if match else ""


_HEAD = 4096
_ROOT = re.compile(rb"<(?:!doctype\s+)?(html|martif|tbx|tmx|xliff)[\s>]")  # a page may leave its element out
_KINDS = {b"html": "html", b"martif": "tbx", b"tbx": "tbx", b"tmx": "tmx", b"xliff": "xliff"}


_UNWRITABLE = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # XML 1.0, production 2
_LINE_END = {"\r": "&#13;"}  # a bare one would be read as a line feed (XML 1.0, section 2.11)


def writable(text: str) -> str:
    """The text with U+FFFD for each character that XML cannot hold: most control characters, halves of pairs."""
    return _UNWRITABLE.sub("\ufffd", text)


class XmlFile(NewFile):
    """A `NewFile` of XML: what is written is markup, `text` and `attribute` make texts fit for it."""

    def __enter__(self) -> XmlFile:
        self.write('<?xml version="1.0" encoding="UTF-8"?>\n')
        return self

    @staticmethod
    def text(text: str) -> str:
        return escape(writable(text), _LINE_END)

    @staticmethod
    def attribute(text: str) -> str:
        """With quotation marks around it."""
        return quoteattr(writable(text))

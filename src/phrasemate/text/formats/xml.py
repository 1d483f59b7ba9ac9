"""Streaming reader of untrusted XML, with bounded memory: no entities, external DTD, network access or tree.

The parser is expat of the standard library. The limits here apply to all formats. The writer escapes texts and
attributes, and its file appears only when it is complete.
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

DEPTH = 500  # maximum depth of elements
TOKEN = 1_000_000  # maximum bytes of a tag, comment or declaration (such as a whole DTD), which expat keeps in memory
OFFICE_TOKEN = 32_000_000  # the same in an Office document: Word puts whole drawings into attributes
NAMES = 10_000  # maximum number of names of elements and attributes, which expat keeps, and of open namespaces
NAME = 1000  # maximum characters of a name, and of the URI of a namespace
COST = 100  # charge for an element or a paragraph, in addition to its characters
UNIT = 4_000_000  # maximum characters of one entry with all of its metadata
_ATTRIBUTE_DECLARATIONS = 1000  # the DTD of TMX, which some files include, has fewer than a hundred
_SHOWN = 60  # characters of a name that are shown in an error
_XML = "http://www.w3.org/XML/1998/namespace"
_LANGUAGE = f"{_XML} lang"

Item = TypeVar("Item")
Attributes = Mapping[str, str]


class XmlStream(Generic[Item]):
    """Reader of one XML document. A subclass appends items to ``ready`` in `start` and `end`, and `read` yields them.

    Text is kept only while ``listening``; `take_text` returns and clears it. ``encoding`` overrides the declaration of
    the document.

    Attributes:
        root: Accepted names of the root element.
        format_name: Name of the format in errors.
        token: Maximum bytes of one tag, comment or declaration.
        namespaces: Namespaces whose elements have local names here; others are "URI name". If it is empty, names are
            as they are written.
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
        self._tags: dict[str, str] = {}  # written name of an element -> full name, with the present namespaces
        self._keys: dict[str, str] = {}  # the same for attributes
        self._plain: set[str] = set()  # names of attributes without a namespace
        self._names: dict[str, str] = {}
        self._uris = {"xml": _XML}  # prefix -> URI at the place of the parser
        self._before: list[tuple[int, str, str]] = []  # for each open declaration: depth, prefix, and the URI before it
        self._parser = self._prepared(encoding)

    def start(self, tag: str, attributes: Attributes) -> None:
        """Handle the start of an element, which is the last of ``path``."""

    def end(self, tag: str) -> None:
        """Handle the end of an element, whose parent is the last of ``path``."""

    def read(self, blocks: Iterable[bytes]) -> Iterator[Item]:
        """Parse the document and yield its items. Raises ReadError for damage, another root element or a limit."""
        for block in chain(self._gathered(blocks), [b""]):
            try:
                self._feed(block, final=not block)
            except ReadError:
                yield from self.ready
                raise
            yield from self.ready
            self.ready.clear()

    def _gathered(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Join blocks while a tag is open, to twice its size so far: expat parses an open tag again for each block."""
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
        """Line of the parser in the document, from 1."""
        return self._parser.CurrentLineNumber

    def language(self, attributes: Attributes) -> str:
        """Return the value of xml:lang, or ""."""
        return (attributes.get(_LANGUAGE) or attributes.get("xml:lang") or "").strip()

    def take_text(self) -> str:
        """Return the text since the last call."""
        text = "".join(self._text)
        self._text.clear()
        return text

    def add(self, text: str) -> None:
        """Add text that an element stands for."""
        self._text.append(text)
        self.charge(len(text))

    def charge(self, cost: int) -> None:
        """Add to the size of the current entry, for each thing that is kept. Raises ReadError above `UNIT`."""
        self._cost += cost
        if self._cost > UNIT:
            limit = f"one entry of more than {UNIT:,} characters"
            reason = f"{limit}; expected {self.format_name} of entries of ordinary size"
            raise self.error(reason, "split or remove the entry")

    def give(self, item: Item) -> None:
        """Append a complete entry to ``ready``, and start the size of the next one at 0."""
        self.ready.append(item)
        self._cost = 0

    def settle(self) -> None:
        """End an entry: the size of the next one starts at 0."""
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
        """Return the attributes by full name, after carrying out namespace declarations among them.

        expat could do this, but it copies the URI for each name, so a tag of 200 kB could take gigabytes.
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
        """Resolve a prefixed name to "URI name"; ":name" is in the default namespace. Raises ReadError."""
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
        except (LookupError, ValueError):  # raised by pyexpat at the start, for an unknown encoding
            if self._names:
                raise
            reason = f"an encoding that is unknown, or has several bytes for a character: {_declared(block)}"
            raise ReadError(self.name, 1, reason, "give it with --encoding, or convert the file to UTF-8") from None
        self._fed += len(block)
        self._tail = block[-8:]
        start = parser.CurrentByteIndex if self._rooted else 0  # all before the first element counts as one token
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
        """Convert an error of expat to a ReadError with the line and the likely cause."""
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
    """Return a name without its namespace, cut for an error message."""
    return name.rpartition(" ")[2][:_SHOWN]


def _declared(block: bytes) -> str:
    """Return the XML declaration at the start of a document, for an error message."""
    head = block[:200].replace(b"\0", b"")
    return head[head.find(b"<") : head.find(b">") + 1].decode("ascii", "backslashreplace") or "no declaration"


def _not_utf8(raw: bytes, at: int, offset: int) -> tuple[str, str] | None:
    """Return reason and remedy if the byte that expat rejected, ``raw[at]``, is invalid UTF-8, else None."""
    try:
        raw[max(0, at) : at + 4].decode()
    except UnicodeDecodeError as error:
        if error.start == 0 and error.reason != "unexpected end of data":
            return other_encoding(raw[max(0, at) : at + 200], error, offset)
    return None


def kind_of(raw: bytes) -> str:
    """Recognise the format of a document by its start: "tmx", "tbx", "xliff", "html", or "" for any other."""
    head = raw[:_HEAD].replace(b"\0", b"").lower().lstrip(b"\xef\xbb\xbf\xfe\xff \t\r\n")
    match = _ROOT.search(head) if head.startswith(b"<") else None
    return _KINDS[match[1]] if match else ""


_HEAD = 4096
_ROOT = re.compile(rb"<(?:!doctype\s+)?(html|martif|tbx|tmx|xliff)[\s>]")  # a web page may lack the element html
_KINDS = {b"html": "html", b"martif": "tbx", b"tbx": "tbx", b"tmx": "tmx", b"xliff": "xliff"}


_UNWRITABLE = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # XML 1.0, production 2
_LINE_END = {"\r": "&#13;"}  # a bare one would be read as a line feed (XML 1.0, section 2.11)


def writable(text: str) -> str:
    """Replace characters that XML cannot hold, most control characters and lone surrogates, by U+FFFD."""
    return _UNWRITABLE.sub("\ufffd", text)


class XmlFile(NewFile):
    """A `NewFile` for XML. ``write`` takes markup; `text` and `attribute` escape texts for it."""

    def __enter__(self) -> XmlFile:
        self.write('<?xml version="1.0" encoding="UTF-8"?>\n')
        return self

    @staticmethod
    def text(text: str) -> str:
        return escape(writable(text), _LINE_END)

    @staticmethod
    def attribute(text: str) -> str:
        """Escape and quote the value of an attribute."""
        return quoteattr(writable(text))

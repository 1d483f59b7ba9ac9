"""Files that take the place of what is there only when they are whole, and XML into them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import TracebackType
from typing import IO
from xml.sax.saxutils import escape, quoteattr

from phrasemate.errors import InputError

_UNWRITABLE = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # XML 1.0, production 2
_HALVES = re.compile("[\ud800-\udfff]")
_LINE_END = {"\r": "&#13;"}  # a bare one would be read as a line feed (XML 1.0, section 2.11)


def writable(text: str) -> str:
    """The text with U+FFFD for each character that XML cannot hold: most control characters, halves of pairs."""
    return _UNWRITABLE.sub("\ufffd", text)


def check_new(path: Path, force: bool = False, folder: bool = False) -> None:
    """Raises InputError unless a file, or ``folder``, may be made at ``path``: to be asked before long work.

    The folder around it must be there, and itself not, unless ``force`` allows to write over it; a folder is not
    written over by a file.
    """
    if not folder and (not path.name or path.is_dir()):
        raise InputError(f"{path}: is a folder; expected the name of a file")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path.parent}: no such folder; make it first")
    if path.exists() and not force:
        raise InputError(f"{path}: is there already; take another name, or --force to write it anew")


class NewFile:
    """A file that is written beside its place and put there at the end; after an error nothing has changed.

    A context manager. Raises InputError if it cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], binary: bool = False) -> None:
        self.path = Path(path)
        self._part = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        try:
            self.stream: IO[bytes] | IO[str]
            if binary:
                self.stream = self._part.open("wb")
            else:
                self.stream = self._part.open("w", encoding="utf-8", newline="\n")
        except (OSError, ValueError) as error:  # ValueError: of a path with a NUL or half a character
            raise self._trouble(error) from None

    def __enter__(self) -> NewFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            self.stream.close()
            if kind is None:
                self._part.replace(self.path)
        except OSError as trouble:
            error = trouble
        finally:
            self._part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise self._trouble(error) from None

    def write(self, text: str) -> None:
        """Writes text, with U+FFFD for halves of surrogate pairs."""
        self.stream.write(_HALVES.sub("\ufffd", text))  # type: ignore[call-overload]

    def _trouble(self, error: OSError | ValueError) -> InputError:
        reason = getattr(error, "strerror", None) or error
        return InputError(f"{self.path}: cannot be written ({reason}); check the folder, its permissions and the disk")


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

"""Errors that phrasemate raises on purpose.

PhrasemateError
├── InputError            a file, line or argument that the user can fix
│   ├── ReadError         a text file that cannot be read (names file, line and remedy)
│   │   └── GlossaryDamaged   a glossary file that cannot be read, or is not one
│   ├── GlossaryUnwritable    a glossary file that cannot be saved
│   └── QueryError        a query whose [[ ]] marks make no sense
├── ModelError            a model folder that cannot be used
│   ├── ModelDamaged      a file that is missing, truncated or altered
│   ├── ModelUnsupported  a foreign or newer format, or an architecture without an exporter
│   └── ModelMismatch     an index that was built with another model
├── PhraseIndexError      an index that cannot be used
│   ├── IndexMissing      no index at that path
│   ├── IndexExists       an index where a new one was asked for
│   ├── IndexDamaged      a checksum, offset or count that does not hold
│   ├── IndexUnsupported  a foreign or newer format
│   └── IndexLocked       another writer is at work (says who)
├── CheckpointDamaged     a training run's checkpoint that is not whole
├── EndpointError         a language model's server that cannot be used (says what it answered)
├── ClusterError          a Ray cluster that does not answer, or whose workers fail again and again
└── MissingExtra          an optional dependency is absent (gives the install line)

Each message says what was seen, what was expected and what to do, in one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from json import JSONDecodeError


class PhrasemateError(Exception):
    """Base class of all errors that phrasemate raises on purpose.

    >>> try:
    ...     raise IndexMissing("no index at idx")
    ... except PhrasemateError as error:
    ...     print(type(error).__name__, error)
    IndexMissing no index at idx
    """


class InputError(PhrasemateError):
    """An argument, line or file that the user can fix."""


class ReadError(InputError):
    """A text file that cannot be read.

    Attributes:
        file: Name of the file.
        line: Line of the error, from 1; 0 for the whole file.
        reason: What is wrong.
        remedy: What to do.
    """

    def __init__(self, file: str, line: int, reason: str, remedy: str) -> None:
        where = f"{file}, line {line}" if line else file
        super().__init__(" ".join(f"{where}: {reason}; {remedy}".splitlines()))  # file names may contain line breaks
        self.file, self.line, self.reason, self.remedy = file, line, reason, remedy

    def __reduce__(self) -> tuple[type[ReadError], tuple[str, int, str, str]]:
        return type(self), (self.file, self.line, self.reason, self.remedy)  # pickling passes these to __init__


class GlossaryDamaged(ReadError):
    """A glossary file that cannot be read, or that is not a glossary."""


class GlossaryUnwritable(InputError):
    """A glossary file that cannot be saved."""


class QueryError(InputError):
    """A query whose ``[[ ]]`` marks are unbalanced, empty, nested or otherwise invalid."""


class ModelError(PhrasemateError):
    """A model folder that cannot be used."""


class ModelDamaged(ModelError):
    """A model folder with a missing, truncated or altered file."""


class ModelUnsupported(ModelError):
    """A foreign or newer model format, or an architecture that has no exporter."""


class ModelMismatch(ModelError):
    """A model other than the one that built the index."""


class PhraseIndexError(PhrasemateError):
    """An index that cannot be used."""


IndexError_ = PhraseIndexError  # former name


class IndexMissing(PhraseIndexError):
    """No index at that path."""


class IndexExists(PhraseIndexError):
    """An index already exists at the path of a new one."""


class IndexDamaged(PhraseIndexError):
    """An index with a wrong checksum, offset or count."""


class IndexUnsupported(PhraseIndexError):
    """An index of a foreign or newer format."""


class IndexLocked(PhraseIndexError):
    """An index to which another process is writing."""


class CheckpointDamaged(PhrasemateError):
    """A truncated or altered checkpoint of a training run."""


class EndpointError(PhrasemateError):
    """A language model's server that cannot be reached, refuses the key, or does not have the model."""


class ClusterError(PhrasemateError):
    """A Ray cluster that does not answer, or whose workers fail repeatedly."""


class MissingExtra(PhrasemateError):
    """An optional dependency that is not installed.

    Attributes:
        package: Name of the package.
        extra: Group of optional dependencies that contains it.
    """

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this needs the package {package!r}; install it with: pip install 'phrasemate[{extra}]'")
        self.package, self.extra = package, extra

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str]]:
        return type(self), (self.package, self.extra)  # pickling passes these to __init__


@contextmanager
def needs_extra(name: str, package: str = "") -> Iterator[None]:
    """Convert an ImportError inside a ``with`` block to MissingExtra.

    Args:
        name: Group of optional dependencies that contains the package.
        package: Name of the package on PyPI; by default the name of the missing module.
    """
    try:
        yield
    except ImportError as error:
        raise MissingExtra(package or error.name or name, name) from error


_EXPECTED = {  # pydantic's wording of a requirement -> ours
    r"greater than or equal to (\S+)": r"\1 or more",
    r"less than or equal to (\S+)": r"\1 or less",
    r"greater than (\S+)": r"more than \1",
    r"less than (\S+)": r"less than \1",
    r"a valid integer.*": "a whole number",
    r"a valid number.*": "a number",
    r"a valid (.+)": r"a \1",
}


def plain_reason(message: str) -> str:
    """Rewrite a message of pydantic or typer about an invalid value in the wording of phrasemate's errors.

    >>> plain_reason("Input should be greater than or equal to 1")
    'expected 1 or more'
    """
    start, value, requirement = message.partition("Input should be ")
    for pattern, wording in _EXPECTED.items():
        if value and (match := re.fullmatch(pattern, requirement)):
            return f"{start}expected {match.expand(wording)}"
    return f"{start}expected {requirement}" if value else message.removeprefix("Value error, ")


def line_fault(error: Exception) -> str:
    """Say what is wrong with a line of JSON, given the error of its reader.

    >>> line_fault(KeyError("source"))
    'no source'
    """
    if isinstance(error, JSONDecodeError):
        return "not JSON" if error.doc.strip() else "a blank line"
    return f"no {error.args[0]}" if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, at most 200 characters; without a message, the class name."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]

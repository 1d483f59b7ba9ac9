"""Office documents as untrusted ZIP archives, whose members are read as streams with limits on their size."""

from __future__ import annotations

import io
import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from phrasemate.errors import ReadError
from phrasemate.text.formats.xml import COST, OFFICE_TOKEN, Attributes, XmlStream
from phrasemate.text.text_file import TextFile

MEMBERS = 10_000  # maximum number of files in an archive
MEMBER = 500_000_000  # maximum unpacked bytes of one member
RATIO = 200  # maximum ratio of unpacked to packed size, for members above _SMALL bytes and for all together
TOGETHER = 100_000_000  # unpacked bytes of all members that are always allowed, whatever RATIO says
_SMALL = 20_000_000
_DIRECTORY = 4_000_000  # maximum bytes of the table of contents, which is held in memory
_BLOCK = 1 << 16
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
_SEND = "save it again with the program that made it"


class Archive:
    """An open Office document. Nothing is unpacked to disk, and names of members are never used as paths.

    Raises ReadError for too many members, and for names that lead out of the archive.
    """

    def __init__(self, zipped: zipfile.ZipFile, name: str, what: str, size: int) -> None:
        self._zip, self.name, self.what, self._left = zipped, name, what, max(TOGETHER, RATIO * size)
        members = zipped.infolist()
        if len(members) > MEMBERS:
            raise self.error(f"{len(members):,} files in the archive; expected at most {MEMBERS:,}")
        for member in members:
            if member.filename.startswith(("/", "\\")) or ".." in member.filename.replace("\\", "/").split("/"):
                raise self.error(f"a member named {_short(member.filename)}, which leads out of the archive")
        self._members = {member.filename.lower(): member for member in members}
        self._read: set[str] = set()

    def error(self, reason: str, remedy: str = _SEND) -> ReadError:
        return ReadError(self.name, 0, reason, remedy)

    def __contains__(self, member: str) -> bool:
        return member.lower() in self._members

    def blocks(self, member: str) -> Iterator[bytes]:
        """Yield the bytes of a member in blocks.

        Raises ReadError if it is missing, damaged or encrypted, or if it or all members read so far are too large. A
        member can be read only once, because a small document could refer to a large one a thousand times.
        """
        info, name = self._members.get(member.lower()), _short(member)
        if info is None:
            raise self.error(f"no {name} in the archive; expected {self.what}")
        if info.filename in self._read:
            raise self.error(f"{name} in it stands for several parts; expected one")
        self._read.add(info.filename)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            method = f"method {info.compress_type} of ZIP"
            raise self.error(f"{name} is packed by {method}; expected deflate (8), as Office documents have")
        if info.file_size > MEMBER or info.file_size > max(_SMALL, RATIO * info.compress_size):
            sizes = f"{info.file_size:,} bytes out of {info.compress_size:,}"
            limits = f"{MEMBER:,} and {RATIO} times"
            raise self.error(f"{name} unpacks to {sizes}; expected at most {limits}", "split the document")
        self._left -= info.file_size
        if self._left < 0:
            together = f"{TOGETHER:,} bytes together, and to more than {RATIO} times the document's size"
            raise self.error(f"files in it unpack to more than {together}", "split the document")
        try:
            with self._zip.open(info) as stream:
                while block := stream.read(_BLOCK):
                    yield block
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
            raise self.error(f"{name} in it cannot be unpacked ({error})", "copy or download it again") from None

    def related(self, part: str = "") -> list[dict[str, str]]:
        """Read the relationships of a part ("": the document) within the archive: "id", "kind" and "member" of each."""
        folder, base = posixpath.split(part)
        member = posixpath.join(folder, "_rels", base + ".rels")
        relations = list(_Relations(self.name).read(self.blocks(member))) if member in self else []
        for relation in relations:
            target_path = posixpath.normpath(posixpath.join("/", folder, relation["member"]))
            relation["member"] = target_path.lstrip("/")
        return relations

    def main(self, otherwise: str) -> str:
        """Return the member with the main part of the document, or ``otherwise`` if none is declared."""
        return next((r["member"] for r in self.related() if r["kind"] == "officeDocument"), otherwise)


def _short(member: str) -> str:
    """Escape and cut the name of a member for an error message."""
    return ascii(member[:80])[1:-1]


class _Relations(XmlStream[dict[str, str]]):
    root = frozenset({"Relationships"})
    format_name = "relationships of an Office document"
    namespaces = frozenset({_PACKAGE})
    token = OFFICE_TOKEN

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag == "Relationship" and attributes.get("TargetMode") != "External":
            self.charge(COST + sum(map(len, attributes.values())))
            kind = attributes.get("Type", "").rpartition("/")[2]
            self.ready.append({"id": attributes.get("Id", ""), "kind": kind, "member": attributes.get("Target", "")})


class _GuardedFile(io.BufferedReader):
    """File that refuses reads of more than `_DIRECTORY` bytes, as a forged table of contents could cause."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _DIRECTORY:
            raise zipfile.BadZipFile(f"a table of contents or member of {size:,} bytes")
        return super().read(size)


@contextmanager
def archive(file: TextFile, what: str) -> Iterator[Archive]:
    """Open an Office document; ``what`` names the expected format in errors. Raises ReadError for any other file."""
    try:
        with file.stored() as stream:
            begins = stream.peek(8)[:8]
            with zipfile.ZipFile(_GuardedFile(cast(Any, stream))) as zip_file:
                yield Archive(zip_file, file.name, what, file.path.stat().st_size)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, ValueError, NotImplementedError) as error:
        problem = f"not a ZIP archive, as an Office document is ({error})"
        if begins.startswith(b"\xd0\xcf\x11\xe0"):
            problem = "an old or encrypted Office document"
        raise ReadError(file.name, 0, f"{problem}; expected {what}", f"{_SEND}, without a password") from None
    except OSError as error:
        reason = f"cannot be read ({error.strerror or error})"
        raise ReadError(file.name, 0, reason, "check the path and its permissions") from None

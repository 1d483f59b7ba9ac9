"""Policy for what cannot be read: raised at once, or listed and passed over."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from phrasemate.errors import ReadError

# what remedies and reasons of this package say of options, each beside another way out
_ENCODING = re.compile(r"give (?:it with|the right|its)? ?--encoding(?: [\w-]+)?,? or |, perhaps --encoding [\w-]+")
_OTHERS = re.compile(r",? or (?:use )?--on-error skip| \(choose one with --[a-z-]+\)|,? or choose another --column")


class Skipped(NamedTuple):
    """What was passed over: a line, or a file (from that line on) if ``whole``; line 0 means all of the file.

    >>> from pathlib import Path
    >>> from phrasemate import read
    >>> _ = Path("lines.jsonl").write_text("{broken")
    >>> corpus = read("lines.jsonl", on_error="skip")
    >>> sentences = [sentence for document in corpus for sentence in document.sentences()]
    >>> [(skip.file, skip.line) for skip in corpus.skipped]
    [('lines.jsonl', 1)]
    """

    file: str
    line: int
    reason: str
    whole: bool = False


class Damage:
    """The one place that decides between an error and a note.

    A text may be read several times: the same place is listed once.
    """

    def __init__(self, skip: bool) -> None:
        self.skip = skip
        self._listed: dict[tuple[str, int, bool], Skipped] = {}

    def line(self, file: str, line: int, reason: str, remedy: str) -> None:
        """One line cannot be used; raises ReadError unless it may be skipped."""
        self._note(Skipped(file, line, reason), remedy)

    def file(self, file: str, line: int, reason: str, remedy: str) -> None:
        """Nothing can be used from this line on (0: from the start); raises ReadError unless it may be skipped."""
        self._note(Skipped(file, line, reason, whole=True), remedy)

    def of_another_kind(self, file: str, reason: str) -> None:
        """A file of a folder that is not text: listed, never an error."""
        self._listed.setdefault((file, 0, True), Skipped(file, 0, reason, whole=True))

    def skipped(self) -> list[Skipped]:
        """List what was passed over so far, in the order in which it was found."""
        return list(self._listed.values())

    def _note(self, skip: Skipped, remedy: str) -> None:
        if not self.skip:
            raise ReadError(skip.file, skip.line, skip.reason, remedy)
        self._listed.setdefault((skip.file, skip.line, skip.whole), skip)


@contextmanager
def without_options(*, encoding_only: bool = False) -> Iterator[None]:
    """Within, a ReadError tells of no option of the command line, for what is read there has none.

    ``encoding_only``: of none but --encoding.
    """
    try:
        yield
    except ReadError as error:
        notes = []
        for text in (error.reason, error.remedy):
            text = _ENCODING.sub("", text)
            notes.append(text if encoding_only else _OTHERS.sub("", text))
        if notes == [error.reason, error.remedy]:
            raise
        raise ReadError(error.file, error.line, *notes) from error

"""Names of documents, from the paths of their files."""

from __future__ import annotations

import os
import re
from pathlib import Path

_NO_BYTE = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # surrogates that do not encode a byte of a file name


def display_name(path: str) -> str:
    """Convert a path to text that can be stored and printed, whatever its bytes are."""
    return os.fsencode(_NO_BYTE.sub("\ufffd", path)).decode("utf-8", "backslashreplace")


def name_of(path: Path) -> str:
    """Return the name of the document of a file, or the beginning of the names in a folder.

    >>> name_of(Path("./corpus//de/"))
    'corpus/de'
    """
    return display_name(path.as_posix())

"""Writers of small StarDict and dictd dictionaries, after the descriptions of their formats."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def write_stardict(
    path: Path,
    entries: Sequence[tuple[str, bytes]],
    facts: str = "sametypesequence=m",
    width: int = 4,
    pack: bool = False,
) -> Path:
    """The .ifo, .idx and .dict (packed: .dict.dz) of entries; gives the path of the .ifo file."""
    index, content = b"", b""
    for word, definition in entries:
        index += word.encode() + b"\0" + len(content).to_bytes(width, "big") + len(definition).to_bytes(4, "big")
        content += definition
    path.with_suffix(".idx").write_bytes(index)
    if pack:
        path.with_suffix(".dict.dz").write_bytes(gzip.compress(content))
    else:
        path.with_suffix(".dict").write_bytes(content)
    path.write_text(f"StarDict's dict ifo file\nversion=3.0.0\nbookname=Test\nwordcount={len(entries)}\n{facts}\n")
    return path


def in_base_64(number: int) -> str:
    """A number as dictd writes it, the highest digit first."""
    digits = DIGITS[number % 64]
    while number := number // 64:
        digits = DIGITS[number % 64] + digits
    return digits


def write_dictd(path: Path, entries: Sequence[tuple[str, str]], pack: bool = False) -> Path:
    """The .index and .dict of entries; gives the path of the .index file."""
    lines, content = [], b""
    for word, definition in entries:
        raw = definition.encode()
        lines.append(f"{word}\t{in_base_64(len(content))}\t{in_base_64(len(raw))}\n")
        content += raw
    path.write_text("".join(lines), "utf-8")
    if pack:
        path.with_suffix(".dict.dz").write_bytes(gzip.compress(content))
    else:
        path.with_suffix(".dict").write_bytes(content)
    return path

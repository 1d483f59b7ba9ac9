"""What was given, looked at before any work: several values in one option, a file that is read and written."""

from __future__ import annotations

import re
from pathlib import Path

import typer

from phrasemate.errors import InputError


def several(given: str) -> tuple[str, ...]:
    """The values of an option such as ``--only phrases,segmenter``; there may be none."""
    return tuple(part for part in map(str.strip, given.split(",")) if part)


def two(given: str, option: str, expected: str) -> tuple[str, str]:
    """The two values of an option such as ``--langs de,en``. Raises BadParameter for anything else."""
    parts = several(given)
    if len(parts) != 2 or given.count(",") != 1:
        raise typer.BadParameter(f"{option} {given}: expected {expected}")
    return parts[0], parts[1]


def two_columns(given: str) -> tuple[int, int]:
    """The numbers of ``--columns``. Raises BadParameter for anything else."""
    expected = "two numbers from 1, such as 1,2"
    source, target = two(given, "--columns", expected)
    if not all(re.fullmatch("[0-9]{1,9}", number) for number in (source, target)):
        raise typer.BadParameter(f"--columns {given}: expected {expected}")
    return int(source), int(target)


def check_outside(first: str, second: str, *written: Path) -> None:
    """Raises InputError for what would be written into a folder that is read: the next run would read it, too."""
    for folder in filter(Path.is_dir, map(Path, (first, second))):
        for path in written:
            if folder.resolve() in (path.parent.resolve() / path.name).parents:  # a link is replaced, not followed
                raise InputError(f"{path}: lies in {folder}, which is read; expected a place outside of it")


def check_apart(written: Path, *read: str | Path) -> None:
    """Raises InputError where what is read would be lost, by whatever name it is given."""
    if written.exists() and any(Path(path).exists() and written.samefile(path) for path in read):
        raise InputError(f"{written}: is read, too; expected another file to write")

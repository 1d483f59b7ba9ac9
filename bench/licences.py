"""The licences of everything that phrasemate depends on, base install and extras apart, from the installed metadata.

A licence that would bind who ships phrasemate with it (GPL, AGPL) is named with why it is an extra or for tests only;
one without such a reason, and a dependency without a licence, end the command with exit code 1. What is not installed
here cannot be looked at: it is listed as such, and named at the end.

    python bench/licences.py
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from common import plain_parser
from packaging.requirements import Requirement

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
# Why something under a strong copyleft is there at all: nothing of it is in the package, nobody is made to install it.
REASONS = {
    "eflomal": "extra align: a separate program of the user's choice; the aligner of the base install needs none",
    "odfpy": "tests only: an oracle for our readers, under Apache-2.0, GPL or LGPL at the user's choice",
    "translate-toolkit": "tests only: an oracle for our readers; nothing of it is imported or shipped by the package",
}
# What the metadata do not say, from the file in the package that does.
KNOWN: dict[str, str] = {"atheris": "Apache-2.0", "axe-playwright-python": "MIT"}
ABSENT = "not installed"
STRONG = re.compile(r"\bA?GPL|General Public License", re.IGNORECASE)
WEAK = re.compile(r"\bLGPL|Lesser|Library General|exception", re.IGNORECASE)


def licence_of(package: Distribution) -> str:
    """In the metadata's own words: the expression, else the classifiers, else the field; "" where they say nothing."""
    about = package.metadata
    if expression := about.get("License-Expression"):
        return str(expression)
    classifiers = [
        line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or [] if line.startswith("License :: ")
    ]
    named = [line for line in classifiers if line != "OSI Approved"]
    text = (about.get("License") or "").strip().splitlines()
    return ", ".join(named) or (text[0][:80] if text else "") or KNOWN.get(_plain(about["Name"]), "")


def bound(licence: str) -> bool:
    """Whether it is a strong copyleft without a choice or an exception."""
    parts = re.split(r",| AND ", licence)
    return any(STRONG.search(part) and not WEAK.search(part) and " OR " not in part for part in parts)


def dependencies(name: str, extras: Iterable[str]) -> dict[str, Distribution | None]:
    """All that a package with these extras needs, by name; None: not installed. Itself left out."""
    packages: dict[str, Distribution | None] = {}
    waiting = [(name, frozenset(extras))]
    visited = set()
    while waiting:
        name_, chosen = waiting.pop()
        if (name_, chosen) in visited:
            continue
        visited.add((name_, chosen))
        try:
            package = distribution(name_)
        except PackageNotFoundError:
            packages[_plain(name_)] = None
            continue
        packages[_plain(name_)] = package
        waiting += _needed(package, chosen)
    packages.pop(_plain(name), None)
    return packages


def _needed(package: Distribution, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    itself = _plain(package.metadata["Name"]) == "phrasemate"
    for line in _requirements() if itself else package.requires or []:
        requirement = Requirement(line)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras | {""}):
            yield requirement.name, frozenset(requirement.extras)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _project() -> dict[str, Any]:
    """What pyproject.toml says: an editable install may be older than it."""
    table: dict[str, Any] = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]
    return table


def _requirements() -> list[str]:
    project = _project()
    extras = project["optional-dependencies"].items()
    return [*project["dependencies"], *(f"{line}; extra == '{name}'" for name, lines in extras for line in lines)]


def _extras() -> list[str]:
    return [extra for extra in _project()["optional-dependencies"] if extra != "dev"]


def rows() -> Iterator[dict[str, str]]:
    """One for each dependency: the smallest install that it comes with, and its licence."""
    listed: set[str] = set()
    for install in ["base", *_extras(), "dev"]:
        needed = dependencies("phrasemate", () if install == "base" else (install,))
        for name in sorted(set(needed) - listed):
            package = needed[name]
            version, licence = (package.version, licence_of(package)) if package else ("", ABSENT)
            reason = REASONS.get(name, "") if bound(licence) or not package else ""
            yield {"package": name, "version": version, "with": install, "licence": licence, "why": reason}
        listed |= set(needed)


def main() -> None:
    plain_parser(__doc__).parse_args()
    table = list(rows())
    for row in table:
        print(f"{row['with']:9} {row['package']:32} {row['version']:14} {row['licence']:40} {row['why']}".rstrip())
    if absent := [row["package"] for row in table if row["licence"] == ABSENT]:
        print(f"not installed, so not looked at: {', '.join(absent)}", file=sys.stderr)
    unknown = [row["package"] for row in table if not row["licence"]]
    strange = [row["package"] for row in table if bound(row["licence"]) and (not row["why"] or row["with"] == "base")]
    if unknown or strange:
        print(f"no licence: {', '.join(unknown) or 'none'}; no reason: {', '.join(strange) or 'none'}", file=sys.stderr)
        raise SystemExit(1)


if __name__ == "__main__":
    main()

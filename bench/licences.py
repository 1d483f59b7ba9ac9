"""The licences of everything that phrasemate depends on, base install and extras apart, from the installed metadata.

A licence that would bind who ships phrasemate with it (GPL, AGPL) is named with why it is an extra or for tests only;
one without such a reason, and a dependency without a licence, end the command with exit code 1. What is not installed
here cannot be looked at: it is listed as such, and named at the end.

    python bench/licences.py
    python bench/licences.py --json
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
# Why something under a strong copyleft is there at all: nothing of it is in the package, nobody is made to install it.
REASONS = {
    "eflomal": "extra align: a separate program of the user's choice; the aligner of the base install needs none",
    "translate-toolkit": "tests only: an oracle for our readers; nothing of it is imported or shipped by the package",
}
# What the metadata do not say, from the file in the package that does.
KNOWN: dict[str, str] = {"atheris": "Apache-2.0"}
ABSENT = "not installed"
STRONG = re.compile(r"\bA?GPL|General Public License", re.IGNORECASE)
WEAK = re.compile(r"\bLGPL|Lesser|Library General|exception", re.IGNORECASE)


def licence_of(found: Distribution) -> str:
    """In the metadata's own words: the expression, else the classifiers, else the field; "" where they say nothing."""
    about = found.metadata
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
    seen: dict[str, Distribution | None] = {}
    waiting = [(name, frozenset(extras))]
    done = set()
    while waiting:
        name_, chosen = waiting.pop()
        if (name_, chosen) in done:
            continue
        done.add((name_, chosen))
        try:
            found = distribution(name_)
        except PackageNotFoundError:
            seen[_plain(name_)] = None
            continue
        seen[_plain(name_)] = found
        waiting += _needed(found, chosen)
    seen.pop(_plain(name), None)
    return seen


def _needed(found: Distribution, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    own = _plain(found.metadata["Name"]) == "phrasemate"
    for line in _requirements() if own else found.requires or []:
        wanted = Requirement(line)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in extras | {""}):
            yield wanted.name, frozenset(wanted.extras)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _project() -> dict[str, Any]:
    """What pyproject.toml says: an editable install may be older than it."""
    found: dict[str, Any] = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]
    return found


def _requirements() -> list[str]:
    project = _project()
    extras = project["optional-dependencies"].items()
    return [*project["dependencies"], *(f"{line}; extra == '{name}'" for name, lines in extras for line in lines)]


def _extras() -> list[str]:
    return [extra for extra in _project()["optional-dependencies"] if extra != "dev"]


def rows() -> Iterator[dict[str, str]]:
    """One for each dependency: the smallest install that it comes with, and its licence."""
    seen: set[str] = set()
    for install in ["base", *_extras(), "dev"]:
        needed = dependencies("phrasemate", () if install == "base" else (install,))
        for name in sorted(set(needed) - seen):
            held = needed[name]
            version, licence = (held.version, licence_of(held)) if held else ("", ABSENT)
            reason = REASONS.get(name, "") if bound(licence) or not held else ""
            yield {"package": name, "version": version, "with": install, "licence": licence, "why": reason}
        seen |= set(needed)


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--json", action="store_true", help="one object for each dependency")
    args = made.parse_args()
    found = list(rows())
    for row in found:
        shown = f"{row['with']:9} {row['package']:32} {row['version']:14} {row['licence']:40} {row['why']}".rstrip()
        print(json.dumps(row, ensure_ascii=False) if args.json else shown)
    if absent := [row["package"] for row in found if row["licence"] == ABSENT]:
        print(f"not installed, so not looked at: {', '.join(absent)}", file=sys.stderr)
    unknown = [row["package"] for row in found if not row["licence"]]
    strange = [row["package"] for row in found if bound(row["licence"]) and (not row["why"] or row["with"] == "base")]
    if unknown or strange:
        print(f"no licence: {', '.join(unknown) or 'none'}; no reason: {', '.join(strange) or 'none'}", file=sys.stderr)
        raise SystemExit(1)


if __name__ == "__main__":
    main()

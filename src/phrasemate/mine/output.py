"""Mates into files: tab-separated values, JSON lines, or a translation memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from phrasemate.errors import InputError
from phrasemate.mine.collection import Place
from phrasemate.mine.types import Mate
from phrasemate.text.formats.bilingual import write_units
from phrasemate.text.formats.units import Side, Unit
from phrasemate.utils.storage import NewFile, check_new

FORMATS = (".jsonl", ".tmx", ".tsv")


def check_output(path: str | Path, force: bool = False) -> Path:
    """The path, if mates can be written there.

    Raises InputError for another suffix, a folder that is missing, or a file that is there already.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: expected a name that ends in {', '.join(FORMATS)}")
    check_new(path, force)
    return path


def write_mates(path: str | Path, mates: Iterable[Mate], languages: tuple[str, str] = ("", "")) -> None:
    """Write mates in the format that the name says; the file appears when it is whole.

    `.tsv`: source, target, score, places of the source, places of the target, without a header; a place is
    ``document:line``, several are separated by `` | ``. `.jsonl`: an object for each. `.tmx`: a unit for each; score
    and places are properties. Raises InputError if it cannot be written.
    """
    path = check_output(path, force=True)
    if path.suffix.lower() == ".tmx":
        write_units(path, _units(mates, languages), languages)
        return
    line: Callable[[Mate], str] = _row if path.suffix.lower() == ".tsv" else _json
    with NewFile(path) as file:
        for mate in mates:
            file.write(line(mate) + "\n")


def _row(mate: Mate) -> str:
    places = _places(mate.source_places), _places(mate.target_places)
    return "\t".join([mate.source, mate.target, f"{mate.score:.4f}", *places])


def _places(places: tuple[Place, ...]) -> str:
    return " | ".join(f"{' '.join(place.document.split())}:{place.line}" for place in places)


def _json(mate: Mate) -> str:
    fields: dict[str, Any] = mate._asdict() | {"score": round(mate.score, 4), "cosine": round(mate.cosine, 4)}
    for name in ("source_places", "target_places"):
        fields[name] = [place._asdict() for place in fields[name]]
    return json.dumps(fields, ensure_ascii=False)


def _units(mates: Iterable[Mate], languages: tuple[str, str]) -> Iterator[Unit]:
    for mate in mates:
        sides = (
            Side(text, language, {"place": [f"{place.document}:{place.line}" for place in places]})
            for text, language, places in (
                (mate.source, languages[0], mate.source_places),
                (mate.target, languages[1], mate.target_places),
            )
        )
        yield Unit(tuple(sides), {"score": f"{mate.score:.4f}"})

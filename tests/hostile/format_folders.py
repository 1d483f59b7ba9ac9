"""Writes one folder of each format, in its present version, into tests/data/formats: what later versions must open.

Run it once for a new version of a format, and never again for an old one:

    python tests/hostile/format_folders.py
"""

from __future__ import annotations

import json
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FORMATS = ROOT / "tests" / "data" / "formats"
sys.path[:0] = [str(ROOT / "bench")]


def versions() -> dict[str, int]:
    """Kinds of ``damage_kinds`` and the version of their format."""
    from phrasemate.encode import model_folder
    from phrasemate.index import manifest
    from phrasemate.vectors import word_vectors as words

    return {"index": manifest.VERSION, "model folder": model_folder.folder_version([]), "word vectors": words.VERSION}


def contents(kind: str, place: Path) -> Any:
    """What is in it, as it is kept beside it: as JSON has it."""
    from damage_kinds import KINDS

    answer = next(one for one in KINDS if one.name == kind).read(place)
    return json.loads(json.dumps(answer, default=_plain))


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else [float(x) for x in value]


def main() -> None:
    from damage_kinds import KINDS

    FORMATS.mkdir(exist_ok=True)
    for kind, version in versions().items():
        path = FORMATS / f"{kind.replace(' ', '-')}-{version}.zip"
        if path.exists():
            continue
        with tempfile.TemporaryDirectory() as name:
            place = next(one for one in KINDS if one.name == kind).make(Path(name))
            answer = contents(kind, place)
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
                for member in sorted(place.rglob("*")):
                    if member.name not in ("write.lock", "writer.json"):
                        file.write(member, f"{place.name}/{member.relative_to(place)}")
        path.with_suffix(".json").write_text(json.dumps(answer, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()

"""The wheel, built twice at different times and in different folders, is the same to the byte.

python bench/wheel.py
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("src", "pyproject.toml", "README.md", "LICENSE")


def built(tree: Path, folder: Path, mask: int) -> tuple[str, str, int]:
    """Name, SHA-256 and bytes of the wheel of a copy of the tree, made with a umask and file times of its own."""
    before = os.umask(mask)
    try:
        for name in NEEDED:
            source, target = tree / name, folder / name
            if source.is_dir():
                shutil.copytree(
                    source, target, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"), copy_function=_copy
                )
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                _copy(source, target)
        command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder / "dist"), str(folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    finally:
        os.umask(before)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel.name, hashlib.sha256(wheel.read_bytes()).hexdigest(), wheel.stat().st_size


def _copy(source: str | Path, target: str | Path) -> None:
    """The content with the time of now and the permissions of the umask: as a fresh clone has it."""
    shutil.copyfile(source, target)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name) / "tree"  # of one moment: somebody may be writing in ours
        shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__"))
        for file in NEEDED[1:]:
            shutil.copy(ROOT / file, tree / file)
        first = built(tree, Path(name) / "one", 0o022)
        time.sleep(2.1)  # a ZIP archive counts in two seconds
        second = built(tree, Path(name) / "another" / "place", 0o027)
    for found in (first, second):
        print(*found)
    if first != second:
        raise SystemExit("the two wheels differ")
    print("the same to the byte")


if __name__ == "__main__":
    main()

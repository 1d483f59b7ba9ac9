"""A checkpoint: tensors and a few numbers in a folder that is either whole or not there.

``state.json`` holds the facts, the SHA-256 of the tensors and a SHA-256 over both. (Before, it was the facts and the
tensors' hash under other names: no slip of a byte makes one form of the other.)
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from phrasemate.errors import CheckpointDamaged
from phrasemate.utils.storage import sha256_of, swap_folder

TENSORS, FACTS = "state.safetensors", "state.json"


class Checkpoint:
    """``folder`` and the one before it, ``folder.old``, which is there only between two renames."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._old = folder.with_name(folder.name + ".old")

    def exists(self) -> bool:
        """Whether there is one (one that was being replaced counts)."""
        return self.folder.is_dir() or self._old.is_dir()

    def save(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Replace what was there, all of it or nothing."""
        made = self.folder.with_name(self.folder.name + ".part")
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        save_file({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, made / TENSORS)
        content = {"facts": dict(facts), "tensors": sha256_of(made / TENSORS)}
        text = json.dumps(content | {"seal": _seal(content)}, indent=1) + "\n"
        (made / FACTS).write_text(text, encoding="utf-8")
        swap_folder(made, self.folder, self._old)

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors on the CPU, and the facts; raises CheckpointDamaged for anything but what was saved."""
        folder = self.folder if self.folder.is_dir() else self._old
        remedy = "remove it to begin anew"
        try:
            facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
            if "sha256" in facts:  # of a run that was begun before facts were sealed
                tensors = facts.pop("sha256")
            else:
                seal = facts.pop("seal")
                if seal != _seal(facts):
                    raise CheckpointDamaged(f"{folder / FACTS}: altered (another SHA-256); {remedy}")
                facts, tensors = dict(facts["facts"]), facts["tensors"]
            if tensors != sha256_of(folder / TENSORS):
                raise CheckpointDamaged(f"{folder / TENSORS}: altered (another SHA-256); {remedy}")
            return load_file(folder / TENSORS), facts
        except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError, SafetensorError) as error:
            raise CheckpointDamaged(f"{folder}: not a readable checkpoint ({error}); {remedy}") from error


def _seal(content: Mapping[str, Any]) -> str:
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

"""Whether an open index is still the one in its folder."""

from __future__ import annotations

from phrasemate.errors import ModelMismatch
from phrasemate.index.manifest import Manifest
from phrasemate.index.store import Store


def current(store: Store) -> Manifest:
    """``index.json`` as it is now.

    Raises IndexError_ if the store is no more the file that was opened, which what is written and derived would not
    belong to, ModelMismatch if the index was begun anew with another model, IndexMissing, IndexDamaged.
    """
    store.same()
    found = Manifest.read(store.path / "index.json")
    if found.dim != store.dim or store.model_hash not in (None, found.model_hash):
        raise ModelMismatch(
            f"{store.path}: has been begun anew with another model, {found.model_name} ({found.model_hash[:12]}), "
            f"since it was opened; open it again"
        )
    return found

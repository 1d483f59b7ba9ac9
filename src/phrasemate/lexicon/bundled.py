"""The induced lexicon that comes with phrasemate."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from phrasemate.lexicon.induced import InducedLexicon

PATH = Path(__file__).parent.parent / "models" / "lexicon" / "lexicon.safetensors"


@cache
def bundled_lexicon() -> InducedLexicon | None:
    """The lexicon of the package; None where it was installed without one. It is opened once."""
    return InducedLexicon(PATH) if PATH.exists() else None

"""``python -m phrasemate`` is ``phrasemate``."""

from __future__ import annotations

from phrasemate.cli import main

main()

"""``python -m phrasemate`` is ``phrasemate``."""

from __future__ import annotations

from phrasemate.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()

"""``python -m phrasemate`` is ``phrasemate``."""

from __future__ import annotations

from phrasemate.cli import main

if __name__ == "__main__":
    main()

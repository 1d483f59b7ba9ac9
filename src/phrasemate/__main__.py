"""``python -m phrasemate`` is ``phrasemate``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. Ctrl-C while it is still being imported ends the program, too, with status 130."""
    try:
        from phrasemate import cli

        cli.main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()

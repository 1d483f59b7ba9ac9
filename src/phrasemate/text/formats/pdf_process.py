"""A program that writes the stretches of text on the pages of a PDF as JSON lines, with little memory and time.

    python -P pdf_process.py FILE

A small PDF can unpack to any size, within the library that reads it, so `phrasemate.text.formats.publications` starts
this as a process of its own. It needs pypdfium2 alone. The first line has the number of pages, each further one the
boxes of a page with their texts, or why there are none.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

MEMORY = 500_000_000  # bytes of address space beyond what the program has when it starts
SECONDS = 30  # of a processor, for opening the file and for each page
STRETCHES = 20_000  # of text on a page
CHARACTERS = 1_000_000  # of them together


def main(path: str) -> None:
    """Write the pages of a file."""
    import pypdfium2

    _limit_memory()
    _limit_time()
    try:
        document = pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        return _write(error=str(error))
    _write(pages=len(document))
    for number in range(len(document)):
        _limit_time()
        try:
            _write(boxes=_boxes(document[number].get_textpage()))
        except pypdfium2.PdfiumError as error:
            _write(error=str(error))
    return None


def _boxes(layer: Any) -> list[tuple[float, float, float, float, str]]:
    boxes, left = [], CHARACTERS
    for at in range(min(layer.count_rects(), STRETCHES)):
        box = layer.get_rect(at)
        text = layer.get_text_bounded(*box)[:left]
        left -= len(text)
        boxes.append((*box, text))
    return boxes


def _write(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _limit_memory() -> None:
    """Let the program have `MEMORY` more than it has; not where the system cannot say or limit that."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        size = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_time() -> None:
    """End the program when it has had the processor for `SECONDS` from now."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        usage = resource.getrusage(resource.RUSAGE_SELF)
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(usage.ru_utime + usage.ru_stime) + 1 + SECONDS, hard))


if __name__ == "__main__":
    main(sys.argv[1])

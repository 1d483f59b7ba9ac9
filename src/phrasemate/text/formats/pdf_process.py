"""Program that writes the text boxes on the pages of a PDF as JSON lines, within limits of memory and time.

    python -P pdf_process.py FILE

A small PDF can unpack to any size within the library that reads it, so `phrasemate.text.formats.publications` runs this
in a separate process. It needs only pypdfium2. The first line has the number of pages. Each further line has the boxes
of a page with their texts, or an error.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

MEMORY = 500_000_000  # maximum bytes of address space that the program may add after its start
SECONDS = 30  # maximum CPU time for opening the file, and for each page
STRETCHES = 20_000  # maximum number of text boxes on a page
CHARACTERS = 1_000_000  # maximum number of characters on a page


def main(path: str) -> None:
    """Write the text boxes of each page of a file to standard output."""
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
    """Limit the address space to the present size plus `MEMORY`, on systems that support it."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        size = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_time() -> None:
    """Limit the CPU time of the program to `SECONDS` from now, on systems that support it."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        usage = resource.getrusage(resource.RUSAGE_SELF)
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(usage.ru_utime + usage.ru_stime) + 1 + SECONDS, hard))


if __name__ == "__main__":
    main(sys.argv[1])

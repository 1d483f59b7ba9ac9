"""Example sentences of many phrases: one pass over the text against one query a phrase.

    python bench/one_pass.py

The text is the English side of a parallel corpus, the phrases are entries of a term list. CPU seconds of this process;
the index (``phrasemate.examples.ExampleIndex``) has to be built first.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import parser, report
from training_data import terms
from xpr_data import rows, write

from phrasemate import read
from phrasemate.dataset import SentenceFiles
from phrasemate.evaluate.report import signature
from phrasemate.examples import ExampleIndex


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds, and what came of it."""
    started = time.process_time()
    made = work()
    return time.process_time() - started, made


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--lines", type=int, default=50_000)
    options.add_argument("--phrases", default="100,1000,10000", help="how many, separated by commas")
    args = options.parse_args()
    found = sorted({english for _, english in terms(args.data, "de")})
    table = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "en.txt")
        lines = (english for _, english in rows(args.data, "fr", set()))
        write(path, (line for line, _ in zip(lines, range(args.lines), strict=False)), "en")
        documents = read(path, lines="sentence", lang="en")
        build, index = timed(lambda: ExampleIndex.build(documents, Path(folder, "en.examples"), "en"))
        with index:
            for number in map(int, args.phrases.split(",")):
                phrases = random.Random(args.seed).sample(found, number)
                once, ours = timed(lambda phrases=phrases: SentenceFiles(path).find_all(phrases))
                each, theirs = timed(lambda phrases=phrases: index.find_all(phrases))
                counts = [sum(map(len, examples)) for examples in (ours, theirs)]
                table.append([number, once, each, build + each, *counts])
        facts = signature(None, data="parallel/en-fr, terms/en-de", sentences=index_size(path), seed=args.seed)
    header = ["phrases", "one pass", "queries", "index and queries", "examples, one pass", "examples, queries"]
    report("one_pass", header, table, facts)


def index_size(path: Path) -> int:
    """Sentences of the text."""
    return path.read_bytes().count(b"\n")


if __name__ == "__main__":
    main()

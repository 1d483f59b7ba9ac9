"""Write aligned sentence pairs of 27 languages with English, for training, the lexicon and the lookup yardstick.

    python bench/general_data.py .cache/general

The script writes XX.tsv (other language, English, source, licence class) and XX.links (Pharaoh format, by eflomal) for
each language, from ``parallel_general/`` and ``parallel/``. Of ``parallel/``, which is technical, it takes at most
--technical pairs of a language, the sources in equal shares.

It leaves out sentences of test sets, the first 15,000 lines of files that distractors come from, pairs with equal
sides, and sides of more than 60 words. Languages that are already written are skipped, so that a stopped run continues.
"""

from __future__ import annotations

import csv
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from common import LANGS, parser, table_rows
from training_data import DISTRACTORS, FIRST, key, sampled, tested

from phrasemate.align import EflomalAligner, ParallelText, align_files
from phrasemate.text import words

WORDS = 60  # most words of a side
UNSTATED = "unstated"
JAPANESE = "[\u3001-\u303f\u3041-\u30ff\u3400-\u9fff]"
BETWEEN = re.compile(f"(?<={JAPANESE}) (?={JAPANESE})")  # spaces in Japanese text that was split into words
MARKS = "\t\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"  # characters that end a line or a column of the written file

Row = tuple[str, str, str]  # other language, English, source


def licences(data: Path) -> dict[str, str]:
    """Return source -> licence class: free, nc, research or unstated."""
    with (data / "parallel_general" / "SOURCES.tsv").open(encoding="utf-8") as file:
        return {row["source"]: row["class"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}


def rows(path: Path, skip: int = 0) -> Iterator[Row]:
    """Yield the pairs of a corpus file, from line ``skip`` on; Japanese without spaces between words."""
    if not path.exists():
        return
    is_japanese = path.name.startswith("en-ja.")
    for english, other, source, *_ in islice(table_rows(path), skip, None):
        yield BETWEEN.sub("", other) if is_japanese else other, english, source


def usable(pairs: Iterator[Row], unwanted: set[str], unique: set[tuple[str, str]]) -> Iterator[Row]:
    """Yield the pairs that are new, not too long, and not in a test set."""
    for other, english, source in pairs:
        keys = key(other), key(english)
        if not all(keys) or keys[0] == keys[1] or keys in unique or not unwanted.isdisjoint(keys):
            continue
        if any(mark in other or mark in english for mark in MARKS):
            continue
        if max(len(words(other)), len(words(english))) <= WORDS:
            unique.add(keys)
            yield other, english, source


def technical(pairs: Iterator[Row], most: int, seed: int) -> list[Row]:
    """Draw at most ``most`` pairs, the sources in equal shares."""
    by_source: dict[str, list[Row]] = defaultdict(list)
    for row in pairs:
        by_source[row[2]].append(row)
    return sampled(by_source, most, seed)


def main() -> None:
    """Write the files of each language."""
    options = parser(__doc__)
    options.add_argument("out", type=Path)
    options.add_argument("--technical", type=int, default=24_000, help="most pairs of parallel/ for a language")
    options.add_argument("--langs", default=" ".join(LANGS))
    args = options.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    unwanted, classes = tested(args.data), licences(args.data)
    for lang in args.langs.split():
        text, links = (args.out / f"{lang}{suffix}" for suffix in (".tsv", ".links"))
        if links.exists():
            continue
        started, unique = time.perf_counter(), set[tuple[str, str]]()
        name = f"en-{lang}.tsv.gz"
        pairs = list(usable(rows(args.data / "parallel_general" / name), unwanted, unique))
        skip = FIRST if lang in DISTRACTORS else 0
        rest = usable(rows(args.data / "parallel" / name, skip), unwanted, unique)
        pairs += technical(rest, args.technical, args.seed)
        lines = (f"{other}\t{english}\t{source}\t{classes.get(source, UNSTATED)}\n" for other, english, source in pairs)
        text.write_text("".join(lines), encoding="utf-8")
        report = align_files(ParallelText(text), links, EflomalAligner("grow-diag", languages=(lang, "en")), force=True)
        seconds = time.perf_counter() - started
        print(f"{lang}: {report.lines:,} sentence pairs, {report.found:,} links, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()

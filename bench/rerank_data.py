"""Sentence pairs to train the re-ranker on, and to choose its settings by.

    python bench/rerank_data.py .cache/rerank

Writes OUT/PAIR/train.tsv (first language, second) for the six language pairs of Europarl's test sets and for English
with the other languages that have text to train on, OUT/PAIR/dev.tsv for the six. What is held out comes from sources
of its own (``HELD``), as test sentences are of another kind than technical ones. Left out is what
bench/training_data.py leaves out, above all whatever sentence occurs in a test set.

Sentences are not split alike in two languages. So of some pairs, drawn at random, the line that follows is joined to
both sides, to the first or to the second one; such a line is used for nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from bicla_data import PAIRS, Rows, shared
from common import parser
from training_data import LANGS, chosen, key, pairs, tested

HELD = ("debian_guide", "gnome_help", "mozilla_www")
JOINED = ((True, True), (True, False), (False, True))
OTHERS = tuple(f"{lang}-en" for lang in LANGS if lang not in ("cs", "de", "hu"))

Pair = tuple[str, str]


def joined(rows: list[Pair], share: float, draw: random.Random) -> list[Pair]:
    """The first of every two neighbours; of ``share`` of them the second is joined to one side or to both."""
    found = []
    for own, following in zip(rows[::2], rows[1::2], strict=False):
        add = draw.choice(JOINED) if draw.random() < share else (False, False)
        first, second = (
            f"{one} {other}" if wanted else one for one, other, wanted in zip(own, following, add, strict=True)
        )
        found.append((first, second))
    return found


def usable(found: dict[str, Rows], name: str, wanted: bool) -> Rows:
    """Pairs of two languages, of the sources that are held out (``wanted``) or of the others."""
    first, second = name.split("-")
    rows = found[first] if second == "en" else shared(found[first], found[second])
    return {source: each for source, each in rows.items() if (source in HELD) is wanted}


def apart(rows: list[Pair], known: set[str]) -> Iterator[Pair]:
    """The pairs of which no side is known."""
    return (pair for pair in rows if known.isdisjoint(map(key, pair)))


def write(path: Path, rows: list[Pair]) -> int:
    """One pair a line; returns how many."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{first}\t{second}\n" for first, second in rows), encoding="utf-8")
    return len(rows)


def main() -> None:
    """Write the files."""
    options = parser(__doc__)
    options.add_argument("out", type=Path)
    options.add_argument("--most", type=int, default=1_500, help="training pairs of each of the six")
    options.add_argument("--others", type=int, default=700, help="training pairs of each other language with English")
    options.add_argument("--dev", type=int, default=800, help="held-out pairs of each of the six")
    options.add_argument("--joined", type=float, default=0.3, help="share of pairs with a line that follows")
    args = options.parse_args()
    unwanted, draw = tested(args.data), random.Random(args.seed)
    found = {lang: pairs(args.data, lang, unwanted) for lang in LANGS}
    known: set[str] = set()
    for name in PAIRS:
        units = {source: joined(rows, args.joined, draw) for source, rows in usable(found, name, True).items()}
        rows = list(chosen(units, args.dev, args.seed))
        known.update(key(text) for source in usable(found, name, True).values() for pair in source for text in pair)
        print(f"{name}: {write(args.out / name / 'dev.tsv', rows):,} held-out pairs")
    for name in (*PAIRS, *OTHERS):
        most = args.most if name in PAIRS else args.others
        kept = {source: list(apart(rows, known)) for source, rows in usable(found, name, False).items()}
        units = {source: joined(rows, args.joined, draw) for source, rows in kept.items()}
        rows = list(chosen(units, most, args.seed))
        told = ", ".join(f"{source} {len(each):,}" for source, each in units.items() if each)
        count = write(args.out / name / "train.tsv", rows) if rows else 0
        print(f"{name}: {count:,} training pairs{', of ' if told else ''}{told}")


if __name__ == "__main__":
    main()

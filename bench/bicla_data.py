"""Sentence pairs to train BiCLA on, for the six language pairs of its paper.

    python bench/bicla_data.py .cache/bicla
    python bench/bicla_data.py .cache/bicla --most 20000 --joined 16000

Writes OUT/PAIR/train.tsv and dev.tsv (source language, target language) for de-en, cs-en, hu-en and, by English
sentences that two languages share, for cs-de, hu-de, cs-hu. Left out is what bench/training_data.py leaves out: above
all whatever sentence occurs in a test set, its English side too. Of each pair at most --most training pairs, the
sources in equal shares as far as they reach, and --dev others that are held out. --joined N makes N pairs of
several such pairs each, as long as sentences of parliament are (5 to 60 words): these corpora's have 14 on the average.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from common import parser
from training_data import chosen, key, pairs, tested

LENGTHS = (5, 8, 12, 16, 20, 25, 30, 35, 40, 50, 60)  # words of a joined sentence
PAIRS = ("de-en", "cs-en", "hu-en", "cs-de", "hu-de", "cs-hu")

Rows = dict[str, list[tuple[str, str]]]


def shared(left: Rows, right: Rows) -> Rows:
    """(other, English) pairs of two languages -> pairs of the two by the English that they share, source by source."""
    by_english = {key(english): other for rows in right.values() for other, english in rows}
    return {
        source: [(other, by_english[key(english)]) for other, english in rows if key(english) in by_english]
        for source, rows in left.items()
    }


def write(folder: Path, rows: list[tuple[str, str]], dev: int, join: int, seed: int) -> tuple[int, int]:
    """Hold ``dev`` pairs out, at random; returns how many there are of each kind."""
    held = set(random.Random(seed).sample(range(len(rows)), dev))
    kept = {name: [row for i, row in enumerate(rows) if (i in held) is (name == "dev")] for name in ("train", "dev")}
    if join:
        draw = random.Random(seed)
        kept = {"train": joined(kept["train"], join, draw), "dev": joined(kept["dev"], dev, draw)}
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in kept.items():
        (folder / f"{name}.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in lines), encoding="utf-8")
    return len(kept["train"]), len(kept["dev"])


def joined(rows: Sequence[tuple[str, str]], count: int, draw: random.Random) -> list[tuple[str, str]]:
    """Pairs drawn with replacement and put one after the other, until they have as many words as was drawn, too."""
    made = []
    for _ in range(count):
        wanted, parts, seen = draw.choice(LENGTHS), [], 0
        while seen < wanted:
            parts.append(draw.choice(rows))
            seen += len(parts[-1][1].split())
        made.append((" ".join(source for source, _ in parts), " ".join(target for _, target in parts)))
    return made


def main() -> None:
    """Write the files."""
    options = parser(__doc__)
    options.add_argument("out", type=Path)
    options.add_argument("--most", type=int, default=6_000, help="training pairs of a language pair")
    options.add_argument("--dev", type=int, default=500, help="held-out pairs of a language pair")
    options.add_argument("--joined", type=int, default=0, help="make so many training pairs, each of several")
    args = options.parse_args()
    unwanted = tested(args.data)
    found = {lang: pairs(args.data, lang, unwanted) for lang in ("cs", "de", "hu")}
    for name in PAIRS:
        first, second = name.split("-")
        usable = found[first] if second == "en" else shared(found[first], found[second])
        rows = list(chosen(usable, args.most + args.dev, args.seed))
        train, dev = write(args.out / name, rows, args.dev, args.joined, args.seed)
        sources = ", ".join(f"{source} {len(each):,}" for source, each in usable.items() if each)
        print(f"{name}: {train:,} training and {dev:,} held-out pairs, of {sources}")


if __name__ == "__main__":
    main()

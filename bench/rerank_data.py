"""Write sentence pairs to train the re-ranker on, and to choose its settings by.

    python bench/rerank_data.py .cache/rerank

The script writes OUT/PAIR/train.tsv (first language, second language) for the six language pairs of Europarl's test
sets, and for English with the other languages that have text to train on. It writes OUT/PAIR/dev.tsv for the six.
Held-out pairs come from separate sources (`HELD`), since test sentences are of another kind than technical ones. It
leaves out what bench/training_data.py leaves out, above all every sentence of a test set.

Sentences are not divided alike in two languages. So for some random pairs, the next line is appended to both sides, to
the first or to the second one. Such a line is not used otherwise. Only sources of licence class "free" are read.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from common import parser, write_lines
from general_data import licences
from training_data import LANGS, chosen, key, pairs, tested

PAIRS = ("de-en", "cs-en", "hu-en", "cs-de", "hu-de", "cs-hu")
HELD = ("debian_guide", "gnome_help", "mozilla_www")  # held-out sources
JOINED = ((True, True), (True, False), (False, True))  # sides that the next line is appended to
OTHERS = tuple(f"{lang}-en" for lang in LANGS if lang not in ("cs", "de", "hu"))

Pair = tuple[str, str]
Rows = dict[str, list[Pair]]


def shared(first: Rows, second: Rows) -> Rows:
    """Return pairs of two languages that share their English, from their (other, English) pairs, source by source."""
    by_english = {key(english): other for rows in second.values() for other, english in rows}
    return {
        source: [(other, by_english[key(english)]) for other, english in rows if key(english) in by_english]
        for source, rows in first.items()
    }


def joined(rows: list[Pair], share: float, draw: random.Random) -> list[Pair]:
    """Return the first of every two neighbours; for ``share`` of them the second is appended to one or both sides."""
    pairs = []
    for pair, following in zip(rows[::2], rows[1::2], strict=False):
        add = draw.choice(JOINED) if draw.random() < share else (False, False)
        first, second = (
            f"{one} {other}" if append else one for one, other, append in zip(pair, following, add, strict=True)
        )
        pairs.append((first, second))
    return pairs


def usable(corpora: dict[str, Rows], name: str, held_out: bool) -> Rows:
    """Return the pairs of two languages: those of the held-out sources (``held_out``), or those of all others."""
    first, second = name.split("-")
    rows = corpora[first] if second == "en" else shared(corpora[first], corpora[second])
    return {source: pairs for source, pairs in rows.items() if (source in HELD) is held_out}


def apart(rows: list[Pair], excluded: set[str]) -> Iterator[Pair]:
    """Yield the pairs without a side in ``excluded``."""
    return (pair for pair in rows if excluded.isdisjoint(map(key, pair)))


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
    classes = licences(args.data)
    corpora = {
        lang: {
            source: rows for source, rows in pairs(args.data, lang, unwanted).items() if classes.get(source) == "free"
        }
        for lang in LANGS
    }
    excluded: set[str] = set()
    for name in PAIRS:
        units = {source: joined(rows, args.joined, draw) for source, rows in usable(corpora, name, True).items()}
        rows = list(chosen(units, args.dev, args.seed))
        sources = usable(corpora, name, True).values()
        excluded.update(key(text) for source in sources for pair in source for text in pair)
        write_lines(args.out / name / "dev.tsv", map("\t".join, rows))
        print(f"{name}: {len(rows):,} held-out pairs")
    for name in (*PAIRS, *OTHERS):
        most = args.most if name in PAIRS else args.others
        usable_pairs = {source: list(apart(rows, excluded)) for source, rows in usable(corpora, name, False).items()}
        units = {source: joined(rows, args.joined, draw) for source, rows in usable_pairs.items()}
        rows = list(chosen(units, most, args.seed))
        counts = ", ".join(f"{source} {len(some):,}" for source, some in units.items() if some)
        if rows:
            write_lines(args.out / name / "train.tsv", map("\t".join, rows))
        print(f"{name}: {len(rows):,} training pairs{', of ' if counts else ''}{counts}")


if __name__ == "__main__":
    main()

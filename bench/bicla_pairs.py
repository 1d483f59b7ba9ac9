"""Sentence pairs to train BiCLA on, of general text, and held-out ones of its own domain.

    python bench/bicla_pairs.py .cache/bicla

Writes ``pairs/PAIR/train.tsv`` and ``dev.tsv`` for each language pair, and ``own/sentence_bench/europarl/PAIR.LANG``,
held-out pairs of the same text. Sources of parliament and news count first (they are all of fr-en), the others in equal
shares. No sentence of a test set is among them. ``text/LANG.txt`` has all sentences of a language, those of the test
sets among them: what word vectors are made for.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from common import parser, table_rows
from training_data import key, shares, tested

FIRST = ("europarl", "wmt_opennmt", "xlwa_train", "wmt_newstest2012")
LETTERS = 40, 300  # characters of a sentence
SETS = Path("sentence_bench") / "europarl"


def pairs_of(data: Path, lang: str, unwanted: set[str], count: int, seed: int) -> list[tuple[str, str]]:
    """``count`` pairs (other language, English) of parallel_general, in random order."""
    by_source: dict[str, list[tuple[str, str]]] = defaultdict(list)
    unique: set[str] = set()
    for english, other, source in table_rows(data / "parallel_general" / f"en-{lang}.tsv.gz"):
        keys = {key(english), key(other)}
        if (
            unwanted.isdisjoint(keys)
            and unique.isdisjoint(keys)
            and all(LETTERS[0] <= len(side) <= LETTERS[1] for side in (english, other))
        ):
            unique |= keys
            by_source[source].append((other, english))
    draw = random.Random(seed)
    chosen = [pair for source in FIRST for pair in by_source.pop(source, [])]
    chosen = draw.sample(chosen, min(count, len(chosen)))
    sizes = shares({source: len(some) for source, some in by_source.items()}, count - len(chosen))
    chosen += [pair for source, size in sizes.items() for pair in draw.sample(by_source[source], size)]
    draw.shuffle(chosen)
    return chosen


def write(path: Path, lines: Iterable[str]) -> None:
    """Write a text, a line for each sentence or pair."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def main() -> None:
    """Write the files of each language."""
    options = parser(__doc__)
    options.add_argument("out", type=Path)
    options.add_argument("--langs", default="de cs hu fr")
    options.add_argument("--count", type=int, default=6_000, help="pairs to train on")
    options.add_argument("--dev", type=int, default=500, help="pairs for validation, and as many held out")
    args = options.parse_args()
    unwanted, texts = tested(args.data), defaultdict[str, list[str]](list)
    for lang in args.langs.split():
        pairs = pairs_of(args.data, lang, unwanted, args.count + 2 * args.dev, args.seed)
        train, dev, rest = pairs[2 * args.dev :], pairs[: args.dev], pairs[args.dev : 2 * args.dev]
        folder = args.out / "pairs" / f"{lang}-en"
        write(folder / "train.tsv", map("\t".join, train))
        write(folder / "dev.tsv", map("\t".join, dev))
        for side, code in enumerate((lang, "en")):
            write(args.out / "own" / SETS / f"{lang}-en.{code}", (pair[side] for pair in rest))
            texts[code] += [pair[side] for pair in pairs]
        print(f"{lang}-en: {len(train):,} pairs, {len(dev)} for validation, {len(rest)} held out")
    for path in sorted((args.data / SETS).glob("*.*")):
        if (code := path.suffix[1:]) in texts:
            texts[code] += path.read_text(encoding="utf-8").splitlines()
    for code, sentences in texts.items():
        write(args.out / "text" / f"{code}.txt", sentences)


if __name__ == "__main__":
    main()

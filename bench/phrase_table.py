"""Phrase tables of aligned text: how often each pair of wordings is linked, in all of it and in what may be trained on.

    python bench/phrase_table.py .cache/general

Reads the XX.tsv and XX.links of bench/general_data.py and writes XX.phrases.tsv: wording, English wording, how often
they are linked in all pairs, and in pairs of licence class "free" that are not held out (columns, no header).
Consistent phrase pairs of at most --words words on each side; wordings are folded (case, white space). Left out: pairs
that are linked once only, unless both sides are single words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from common import LANGS, parser

from phrasemate.align.pairs import Worded, consistent_boxes, parse_links
from phrasemate.text import folded

HELD_OUT = 20  # one English sentence in so many, with all its translations, is never trained on


def held_out(english: str) -> bool:
    """Whether a sentence pair belongs to the lookup yardstick: decided by its English side alone."""
    letters = "".join(char for char in english.casefold() if char.isalnum())
    return (
        int.from_bytes(blake2b(letters.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "big") % HELD_OUT == 0
    )


def rows(folder: Path, lang: str) -> Iterator[tuple[str, str, str, str, list[tuple[int, int]]]]:
    """Other side, English side, source, licence class and links of each sentence pair."""
    with (
        (folder / f"{lang}.tsv").open(encoding="utf-8", newline="\n") as text,
        (folder / f"{lang}.links").open(encoding="utf-8") as links,
    ):
        for line, linked in zip(text, links, strict=True):
            other, english, source, licence = line.rstrip("\n").split("\t")
            yield other, english, source, licence, parse_links(linked)


def spans(
    other: Worded, english: Worded, links: list[tuple[int, int]], most: int
) -> Iterator[tuple[int, int, int, int]]:
    """Character spans of the consistent phrase pairs with a letter on both sides."""
    for box in consistent_boxes(links, len(other.spans), len(english.spans), most):
        start, end = other.spans[box.start][0], other.spans[box.end - 1][1]
        first, last = english.spans[box.other_start][0], english.spans[box.other_end - 1][1]
        if any(map(str.isalpha, other.text[start:end])) and any(map(str.isalpha, english.text[first:last])):
            yield start, end, first, last


def table(folder: Path, lang: str, most: int) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    """How often each pair of wordings is linked: in all pairs, and in free ones that are not held out."""
    every: Counter[tuple[str, str]] = Counter()
    free: Counter[tuple[str, str]] = Counter()
    for other, english, _, licence, links in rows(folder, lang):
        pairs = {
            (folded(other[a:b]), folded(english[c:d]))
            for a, b, c, d in spans(Worded.of(other), Worded.of(english), links, most)
        }
        every.update(pairs)
        if licence == "free" and not held_out(english):
            free.update(pairs)
    return every, free


def linked(path: Path) -> Iterator[tuple[str, str, int, int]]:
    """Rows of a written table: wording, English wording, links in all pairs, links in free pairs not held out."""
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            other, english, every, free = line.rstrip("\n").split("\t")
            yield other, english, int(every), int(free)


def main() -> None:
    """Write the table of each language that has links and no table."""
    options = parser(__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--words", type=int, default=5)
    options.add_argument("--langs", default=" ".join(LANGS))
    args = options.parse_args()
    for lang in args.langs.split():
        out = args.folder / f"{lang}.phrases.tsv"
        if out.exists() or not (args.folder / f"{lang}.links").exists():
            continue
        every, free = table(args.folder, lang, args.words)
        part = out.with_suffix(".part")
        with part.open("w", encoding="utf-8", newline="\n") as file:
            for (other, english), count in every.items():
                if count > 1 or (" " not in other and " " not in english):
                    file.write(f"{other}\t{english}\t{count}\t{free[other, english]}\n")
        part.rename(out)
        print(f"{lang}: {len(every):,} pairs of wordings", flush=True)


if __name__ == "__main__":
    main()

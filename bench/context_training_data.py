"""What the bundled model is trained on: phrase pairs of free sources, and entries of free dictionaries.

    python bench/context_training_data.py .cache/general .cache/contexts

Reads what bench/general_data.py and bench/phrase_table.py wrote. Writes pairs-XX.jsonl (sentence pairs with their
phrase pairs, in the form of ``phrasemate pairs``), terms-XX.jsonl (entries without a sentence) and known-XX.tsv (which
wordings are right for each other, so that they are not used as negatives). Sources of licence class "free" only, no
held-out pair (bench/phrase_table.py), at most --most pairs a language, the sources in equal shares. Then:

    phrasemate train ccpr ccpr-contexts -o .cache/contexts-run --data .cache/contexts --set model.base=.cache/e5-small
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from common import parser
from general_data import licences
from languages import LANGS
from phrase_table import held_out, rows
from training_data import shares

from phrasemate.align.links import Links
from phrasemate.align.pairs import PhraseFinder
from phrasemate.align.types import Worded
from phrasemate.text import folded, words

RATE = 0.06  # occurrences a sentence, above which a word may not begin or end a phrase
EXPLAINED = re.compile(r"[()\[\]{}<>/;:,.!?…~%=&]")
SURE = (3, 0.15)  # links, and share of its wording's links, of a pair that counts as an entry
EFORMS = "eu_eforms_codes.16langs.tsv.gz"

Pair = tuple[str, str, Links]  # other language, English, word links


def chosen(folder: Path, lang: str, most: int, seed: int) -> list[Pair]:
    """Free pairs that are not held out, the sources in equal shares."""
    by_source: dict[str, list[Pair]] = defaultdict(list)
    for other, english, source, licence, links in rows(folder, lang):
        if licence == "free" and not held_out(english) and links:
            by_source[source].append((other, english, links))
    draw = random.Random(seed)
    sizes = shares({name: len(some) for name, some in by_source.items()}, most)
    return [pair for name, size in sizes.items() for pair in draw.sample(by_source[name], size)]


def frequent(pairs: list[Pair], side: int) -> frozenset[str]:
    """The words that may not begin or end a phrase."""
    counts: Counter[str] = Counter()
    for pair in pairs:
        text = pair[side]
        counts.update(word.casefold() for word in Worded.of(text).words())
    return frozenset(word for word, count in counts.items() if count > max(RATE * len(pairs), 10))


def write_pairs(pairs: list[Pair], out: Path) -> int:
    """Write sentence pairs with phrase pairs; returns how many phrase pairs there are."""
    finder = PhraseFinder((frequent(pairs, 0), frequent(pairs, 1)), max_words=6)
    every, total = PhraseFinder(max_words=3), 0
    part = out.with_suffix(".part")
    with part.open("w", encoding="utf-8") as file:
        for other, english, links in pairs:
            sides = Worded.of(other), Worded.of(english)
            phrases = finder.spans(*sides, links)
            others = [span for span in every.spans(*sides, links) if span not in set(phrases)]
            row = {"source": other, "target": english, "pairs": phrases, "others": others}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            total += len(phrases)
    part.rename(out)
    return total


def listed(data: Path, lang: str, classes: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Entries of the free dictionaries and term lists, (other, English)."""
    path = data / "terms" / f"en-{lang}.tsv.gz"
    if path.exists():
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                english, other, source = line.rstrip("\n").split("\t")[:3]
                if classes.get(source) == "free":
                    yield other, english


def entries(folder: Path, data: Path, lang: str, classes: dict[str, str]) -> list[tuple[str, str]]:
    """Plain entries, each once: of dictionaries, and sure pairs of the phrase table."""
    unique: dict[tuple[str, str], None] = {}
    for other, english in listed(data, lang, classes):
        english, other = english.removeprefix("to ").strip(), other.strip().rstrip(".")
        if english.casefold() == other.casefold() or EXPLAINED.search(english + other):
            continue
        if all(1 <= len(words(side)) <= 5 for side in (english, other)):
            unique[other, english] = None
    totals: Counter[str] = Counter()
    table: list[tuple[str, str, int]] = []
    with (folder / f"{lang}.phrases.tsv").open(encoding="utf-8", newline="\n") as file:
        for line in file:
            other, english, _, free = line.rstrip("\n").split("\t")
            if int(free):
                totals[other] += int(free)
                table.append((other, english, int(free)))
    for other, english, count in table:
        plain = other != english and not EXPLAINED.search(english + other)
        if plain and count >= SURE[0] and count >= SURE[1] * totals[other]:
            unique[other, english] = None
    return list(unique)


def main() -> None:
    """Write the files of each language whose table is there."""
    options = parser(__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("out", type=Path)
    options.add_argument("--most", type=int, default=36_000, help="sentence pairs of a language")
    options.add_argument("--terms", type=int, default=120_000, help="entries of a language")
    options.add_argument("--langs", default=" ".join(LANGS))
    args = options.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    classes = licences(args.data)
    for lang in args.langs.split():
        if not (args.folder / f"{lang}.phrases.tsv").exists():
            continue
        out, terms = args.out / f"pairs-{lang}.jsonl", args.out / f"terms-{lang}.jsonl"
        if not out.exists():
            pairs = chosen(args.folder, lang, args.most, args.seed)
            print(f"{lang}: {len(pairs):,} sentence pairs, {write_pairs(pairs, out):,} phrase pairs", flush=True)
        if not terms.exists():
            some = entries(args.folder, args.data, lang, classes)
            drawn = random.Random(args.seed).sample(some, min(args.terms, len(some)))
            with terms.open("w", encoding="utf-8") as file:
                for other, english in drawn:
                    row = {"source": other, "target": english, "pairs": [[0, len(other), 0, len(english)]]}
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
            print(f"{lang}: {len(drawn):,} of {len(some):,} entries", flush=True)
        known = args.out / f"known-{lang}.tsv"
        if not known.exists():
            write_known(args.folder, args.data, lang, classes, known)


def write_known(folder: Path, data: Path, lang: str, classes: dict[str, str], out: Path) -> None:
    """Pairs of folded wordings that are right for each other: linked twice in free text, or entries."""
    pairs = {(folded(other), folded(english)) for other, english in listed(data, lang, classes)}
    with (folder / f"{lang}.phrases.tsv").open(encoding="utf-8", newline="\n") as file:
        for line in file:
            other, english, _, free = line.rstrip("\n").split("\t")
            if int(free) > 1:
                pairs.add((other, english))
    out.write_text("".join(f"{a}\t{b}\n" for a, b in sorted(pairs) if "\t" not in a + b), encoding="utf-8")


if __name__ == "__main__":
    main()

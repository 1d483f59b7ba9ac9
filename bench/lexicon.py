"""Build the bundled lexicon from phrase tables, and measure it on links that it was not built from.

    python bench/lexicon.py .cache/general --out src/phrasemate/models/lexicon/lexicon.safetensors

The script reads the tables of bench/phrase_table.py. XX.phrases.tsv has a wording, an English wording, their links in
all pairs, and their links in pairs of class "free" that are not held out. XX.expressions.tsv has fixed expressions,
which links miss, and XX.lemmas.tsv has phrases that are counted by lemmas. The lexicon is built only from these two and
the last column of XX.phrases.tsv. It is measured on all other links: those in held-out sentence pairs or in pairs of
other sources. Wordings are compared without inflection and without function words at their ends; links of function
words do not count.

- known: share of the links whose wording the lexicon has.
- first, in five: share of the known links whose English wording is the first equivalent, or among the first five.
- words known, and the columns after it: the same for links whose wording is one word.

With --base LEXICON, all pairs of an earlier lexicon stay, and only the best pairs of XX.lemmas.tsv are added.

Dictionaries (--terms: en-XX.tsv.gz with English, other language, source) only confirm links. A pair that was linked
once is kept if a dictionary of class "free" has it, and counts once more. No entry is copied.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import inf
from pathlib import Path

from common import DATA, plain_parser, report, seconds, table_rows
from phrase_table import linked

from phrasemate.lexicon.induced import InducedLexicon, Pair, lexicon_arrays, write_lexicon
from phrasemate.lexicon.inflection import ENGLISH_FUNCTION_WORDS, stemmed
from phrasemate.lexicon.pruning import Expression, Pruning, RatedPair, attested_pairs, is_wording, select_pairs
from phrasemate.text import folded, words

FREE_TERMS = {"ding", "freedict", "edict", "cldr", "osm", "libreoffice_ui"}
MOST_TERM_WORDS = 5  # most words of a dictionary's entry
WORTH = 30.0  # least worth of a pair that is added to a lexicon
HEADER = 30_000  # most bytes of the file's header

Counts = Counter[tuple[str, str]]


def tables(path: Path) -> tuple[Counts, Counts]:
    """Return the links of a phrase table that the lexicon is built from, and those that it is measured on."""
    free: Counts = Counter()
    others: Counts = Counter()
    for one, english, every, count in linked(path):
        pair = folded(one), folded(english)
        if count:
            free[pair] += count
        if every > count:
            others[pair] += every - count
    return free, others


def expressions(path: Path) -> Iterator[Expression]:
    """Yield the candidates for fixed expressions, or the phrases by lemmas, that bench/phrase_table.py wrote."""
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            wording, english, *counts = line.rstrip("\n").split("\t")
            yield Expression(wording, english, *map(int, counts))


def dictionary(path: Path) -> set[tuple[str, str]]:
    """Return the pairs (wording, English wording) of the dictionaries of class "free"."""
    pairs = set()
    for english, other, source in table_rows(path) if path.exists() else ():
        if source in FREE_TERMS and max(english.count(" "), other.count(" ")) < MOST_TERM_WORDS + 1:
            pairs.add((folded(other), folded(english).removeprefix("to ")))
    return pairs


def selected(lang: str, folder: Path, terms: Path | None, small: int) -> list[RatedPair]:
    """Return the significant pairs of a language, best first.

    If they have few words, pairs that were linked once are included.
    """
    free, _ = tables(folder / f"{lang}.phrases.tsv")
    entries = dictionary(terms / f"en-{lang}.tsv.gz") if terms else set()
    attested = attested_pairs(free, entries, lang) if entries else set()
    with (folder / f"{lang}.tsv").open(encoding="utf-8", newline="\n") as file:
        total = sum(line.endswith("\tfree\n") for line in file)  # includes held-out pairs
    candidates = [row for kind in ("expressions", "lemmas") for row in expressions(folder / f"{lang}.{kind}.tsv")]
    pairs = select_pairs(free, total, lang, attested, expressions=candidates)
    single = {one.pair.wording for one in pairs if len(words(one.pair.wording)) == 1}
    if len(single) < small:
        pairs = select_pairs(free, total, lang, attested, Pruning(hapaxes=True), candidates)
    print(f"{lang}: {len(pairs):,} pairs", flush=True)
    return pairs


def added(lang: str, folder: Path, terms: Path | None, small: int) -> list[RatedPair]:
    """Return the pairs of a language that XX.lemmas.tsv has and whose worth is at least `WORTH`, best first."""
    pairs = {(row.wording, row.english) for row in expressions(folder / f"{lang}.lemmas.tsv")}
    entries = selected(lang, folder, terms, small)
    return [entry for entry in entries if entry.worth >= WORTH and (entry.pair.wording, entry.pair.english) in pairs]


def with_base(base: Mapping[str, Sequence[Pair]], scored: Mapping[str, list[RatedPair]]) -> dict[str, list[RatedPair]]:
    """Combine the pairs of a lexicon, which all stay, with further pairs of its languages."""
    entries = {}
    for lang, pairs in base.items():
        names = {(pair.wording, pair.english) for pair in pairs}
        further = [entry for entry in scored.get(lang, []) if (entry.pair.wording, entry.pair.english) not in names]
        entries[lang] = [*(RatedPair(pair, inf) for pair in pairs), *further]
    return entries


def size(languages: dict[str, list[Pair]]) -> int:
    """Return the bytes of a file with these pairs, without its header."""
    return sum(array.nbytes for array in lexicon_arrays(languages).values())


def fitted(scored: dict[str, list[RatedPair]], most: int) -> tuple[dict[str, list[Pair]], float]:
    """Return the pairs of most worth that fit into ``most`` bytes, and the least worth among them."""
    ranks = sorted((pair.worth for pairs in scored.values() for pair in pairs), reverse=True)
    low, high = 0, len(ranks)  # the best `low` pairs fit
    if size(above(scored, ranks[-1])) <= most:
        low = high = len(ranks) - 1
    while high - low > len(ranks) // 100 + 1:
        middle = (low + high) // 2
        low, high = (middle, high) if size(above(scored, ranks[middle])) <= most else (low, middle)
    return above(scored, ranks[low]), ranks[low]


def above(scored: dict[str, list[RatedPair]], least: float) -> dict[str, list[Pair]]:
    """Return the pairs whose worth is at least ``least``."""
    return {lang: [one.pair for one in pairs if one.worth >= least] for lang, pairs in scored.items()}


def measured(lexicon: InducedLexicon, others: Counts, lang: str, most: int, seed: int) -> tuple[float, float, float]:
    """Return known, first and in five, in percent, for a sample of the links of content words."""
    links = [
        (pair, count)
        for pair, count in others.items()
        if pair[0] != pair[1] and all(map(is_wording, pair)) and key(pair[1])
    ]
    random.Random(seed).shuffle(links)
    covered = first = five = total = 0
    for (one, english), count in links[:most]:
        ranked = [key(equivalent.text) for equivalent in lexicon.equivalents(one, lang)]
        total += count
        covered += count * bool(ranked)
        first += count * (key(english) in ranked[:1])
        five += count * (key(english) in ranked[:5])
    return 100 * covered / max(total, 1), 100 * first / max(covered, 1), 100 * five / max(covered, 1)


def key(english: str) -> str:
    """Return an English wording without inflection and without function words at its ends."""
    words = english.split()
    while words and words[0] in ENGLISH_FUNCTION_WORDS:
        del words[0]
    while words and words[-1] in ENGLISH_FUNCTION_WORDS:
        del words[-1]
    return stemmed(" ".join(words), "en") if words else ""


def microseconds(lexicon: InducedLexicon, wordings: Sequence[str], lang: str) -> float:
    """Return the microseconds of a look-up."""
    return 1e6 * seconds(lambda: [lexicon.equivalents(wording, lang) for wording in wordings]) / len(wordings)


def main() -> None:
    """Build the lexicon, write it and measure it."""
    options = plain_parser(__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--base", type=Path, help="lexicon whose pairs all stay")
    options.add_argument("--terms", type=Path, default=DATA / "terms", help="dictionaries (default: %(default)s)")
    options.add_argument("--size", type=int, default=15_000_000, help="most bytes (default: %(default)s)")
    options.add_argument("--small", type=int, default=25_500, help="number of words below which a language is small")
    options.add_argument("--jobs", type=int, help="languages at a time (default: one for each core)")
    options.add_argument("--links", type=int, default=20_000, help="links to measure on (default: %(default)s)")
    options.add_argument("--seed", type=int, default=0)
    args = options.parse_args()
    languages = sorted(path.name.partition(".")[0] for path in args.folder.glob("*.phrases.tsv"))
    if args.base:
        languages = [lang for lang in languages if (args.folder / f"{lang}.lemmas.tsv").exists()]
    select = partial(added if args.base else selected, folder=args.folder, terms=args.terms, small=args.small)
    with ProcessPoolExecutor(args.jobs) as pool:
        scored = dict(zip(languages, pool.map(select, languages), strict=True))
    if args.base:
        scored = with_base(InducedLexicon(args.base).pairs(), scored)
    pairs, least = fitted(scored, args.size - HEADER)
    write_lexicon(args.out, pairs, {"licence": "see LICENSE.md beside it"})
    start = time.perf_counter()
    lexicon = InducedLexicon(args.out)
    opening = 1e3 * (time.perf_counter() - start)
    rows = []
    for lang in languages:
        _, others = tables(args.folder / f"{lang}.phrases.tsv")
        single = Counter({pair: count for pair, count in others.items() if " " not in pair[0]})
        figures = [measured(lexicon, links, lang, args.links, args.seed) for links in (others, single)]
        wordings = {pair.wording for pair in pairs[lang]}
        several = sum(len(words(wording)) > 1 for wording in wordings)
        rows.append([lang, len(wordings), several, len(pairs[lang]), *figures[0], *figures[1]])
    sample = random.Random(args.seed).sample(sorted({pair.wording for pair in pairs[languages[0]]}), 1000)
    microseconds(lexicon, sample, "")  # loads every language
    facts = {
        "bytes": args.out.stat().st_size,
        "least_worth": round(least, 2),
        "opening_ms": opening,
        "pairs": sum(map(len, pairs.values())),
        "lookup_us": microseconds(lexicon, sample, languages[0]),
        "lookup_in_all_languages_us": microseconds(lexicon, sample, ""),
    }
    header = ["language", "wordings", "of several words", "pairs", "known %", "first %", "in five %"]
    header += ["words known %", "first % ", "in five % "]
    report("lexicon", header, rows, facts)


if __name__ == "__main__":
    main()

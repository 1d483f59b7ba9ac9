"""Write the training data of the bundled model: phrase pairs of free sources, and entries of free dictionaries.

    python bench/context_training_data.py .cache/general .cache/contexts

The script reads the files of bench/general_data.py and bench/phrase_table.py. It writes for each language

- ``pairs-XX.jsonl``: sentence pairs with their phrase pairs, in the form of ``phrasemate pairs``;
- ``terms-XX.jsonl``: entries without a sentence;
- ``known-XX.tsv``: wordings that are right for each other, so that they are not used as negatives;
- ``contrasts-XX.tsv``: wordings with two translations of different meaning, which share hardly any translation in the
  other languages;
- ``citations-XX.jsonl``: entries that aligned text hardly links, with sentences that contain their sides;
- ``unlisted-XX.jsonl``: such entries whose wording the bundled lexicon lacks.

It uses only sources of licence class "free", no held-out pair (bench/phrase_table.py), and at most --most pairs of a
language, the sources in equal shares. Then:

    phrasemate train ccpr ccpr-contexts -o .cache/contexts-run --data .cache/contexts --set model.base=.cache/e5-small
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, cycle, islice
from pathlib import Path

from common import LANGS, parser, table_rows
from general_data import licences
from lookup_set import ENGLISH, Counts, Meanings
from phrase_table import held_out, linked, rows
from training_data import sampled

from phrasemate.align.pairs import PhraseFinder, TokenizedSentence
from phrasemate.align.symmetrise import Links
from phrasemate.evaluate.lookup import lemmas
from phrasemate.lexicon import bundled_lexicon
from phrasemate.text import folded, words

RATE = 0.06  # occurrences per sentence above which a word may not begin or end a phrase
EXPLAINED = re.compile(r"[()\[\]{}<>/;:,.!?…~%=&]")
SURE = (3, 0.15)  # least links of a pair that counts as an entry, and their least share of the wording's links
CITED = (2, 8)  # most citations of an entry, and most translations of a wording that is cited
USUAL = (8, 3, 0.08)  # least links of a wording, then least links of a usual translation and their least share

Pair = tuple[str, str, Links]  # other language, English, word links
Place = tuple[str, int, int]  # a text, and the characters of a wording in it


def chosen(folder: Path, lang: str, most: int, seed: int) -> list[Pair]:
    """Draw free pairs that are not held out, the sources in equal shares."""
    by_source: dict[str, list[Pair]] = defaultdict(list)
    for other, english, source, licence, links in rows(folder, lang):
        if licence == "free" and not held_out(english) and links:
            by_source[source].append((other, english, links))
    return sampled(by_source, most, seed)


def frequent(pairs: list[Pair], side: int) -> frozenset[str]:
    """Return the words that may not begin or end a phrase."""
    counts: Counter[str] = Counter()
    for pair in pairs:
        text = pair[side]
        counts.update(word.casefold() for word in TokenizedSentence.of(text).words())
    return frozenset(word for word, count in counts.items() if count > max(RATE * len(pairs), 10))


def write_pairs(pairs: list[Pair], out: Path) -> int:
    """Write sentence pairs with phrase pairs; return the number of phrase pairs."""
    finder = PhraseFinder((frequent(pairs, 0), frequent(pairs, 1)), max_words=6)
    every, total = PhraseFinder(max_words=3), 0
    part = out.with_suffix(".part")
    with part.open("w", encoding="utf-8") as file:
        for other, english, links in pairs:
            sides = TokenizedSentence.of(other), TokenizedSentence.of(english)
            phrases = finder.spans(*sides, links)
            others = [span for span in every.spans(*sides, links) if span not in set(phrases)]
            row = {"source": other, "target": english, "pairs": phrases, "others": others}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            total += len(phrases)
    part.rename(out)
    return total


def listed(data: Path, lang: str, classes: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the entries (other, English) of the free dictionaries and term lists."""
    path = data / "terms" / f"en-{lang}.tsv.gz"
    for english, other, source, *_ in table_rows(path) if path.exists() else ():
        if classes.get(source) == "free":
            yield other, english


def entries(folder: Path, data: Path, lang: str, classes: dict[str, str]) -> list[tuple[str, str]]:
    """Return plain entries, each once: those of dictionaries, and sure pairs of the phrase table."""
    unique: dict[tuple[str, str], None] = {}
    for other, english in listed(data, lang, classes):
        english, other = english.removeprefix("to ").strip(), other.strip().rstrip(".")
        if english.casefold() == other.casefold() or EXPLAINED.search(english + other):
            continue
        if all(1 <= len(words(side)) <= 5 for side in (english, other)):
            unique[other, english] = None
    totals: Counter[str] = Counter()
    table: list[tuple[str, str, int]] = []
    for other, english, _, free in linked(folder / f"{lang}.phrases.tsv"):
        if free:
            totals[other] += free
            table.append((other, english, free))
    for other, english, count in table:
        plain = other != english and not EXPLAINED.search(english + other)
        if plain and count >= SURE[0] and count >= SURE[1] * totals[other]:
            unique[other, english] = None
    return list(unique)


def main() -> None:
    """Write the files of each language that has a phrase table."""
    options = parser(__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("out", type=Path)
    options.add_argument("--most", type=int, default=36_000, help="most sentence pairs of a language")
    options.add_argument("--terms", type=int, default=120_000, help="most entries of a language")
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
        known_file = args.out / f"known-{lang}.tsv"
        if not known_file.exists():
            write_known(args.folder, args.data, lang, classes, known_file)
    write_citations(args.folder, args.out, args.seed)
    if not any(args.out.glob("contrasts-*.tsv")):
        write_contrasts(
            args.folder, [lang for lang in LANGS if (args.folder / f"{lang}.phrases.tsv").exists()], args.out
        )


def write_citations(folder: Path, out: Path, seed: int) -> None:
    """Write the entries that no link has: citations, and entries whose wording the bundled lexicon lacks.

    A citation has a sentence for at least one side. The English side of an unlisted entry occurs at least twice.
    """
    draw, entries = random.Random(seed), dict[str, list[tuple[str, str]]]()
    texts: dict[str, list[str]] = {"en": []}
    for lang in [path.stem[len("terms-") :] for path in sorted(out.glob("terms-*.jsonl"))]:
        links = {(other, english) for other, english, _, free in linked(folder / f"{lang}.phrases.tsv") if free > 1}
        pairs = list(both_sides(out / f"terms-{lang}.jsonl"))
        entries[lang] = [pair for pair in pairs if (folded(pair[0]), folded(pair[1])) not in links]
        pairs = list(both_sides(out / f"pairs-{lang}.jsonl"))
        texts[lang] = [source for source, _ in pairs]
        texts["en"] += [target for _, target in pairs]
    wordings = [folded(english) for pairs in entries.values() for _, english in pairs]
    english = occurrences(wordings, dict.fromkeys(texts["en"]), draw)
    for lang, pairs in entries.items():
        translations = [Counter(folded(pair[side]) for pair in pairs) for side in (0, 1)]
        places = occurrences(translations[0], texts[lang], draw), english
        rows = {
            "citations": [row for pair in pairs for row in citations_of(pair, translations, places)],
            "unlisted": [alone(pair) for pair in pairs if is_unlisted(pair, lang, english)],
        }
        for name, some_rows in rows.items() if pairs else ():  # without a dictionary, all entries come from links
            write_places(out / f"{name}-{lang}.jsonl", some_rows)
        print(lang, {name: len(some_rows) for name, some_rows in rows.items()}, flush=True)


def alone(pair: tuple[str, str]) -> tuple[Place, Place]:
    """Return both folded wordings of an entry as texts of their own."""
    source, target = map(folded, pair)
    return (source, 0, len(source)), (target, 0, len(target))


def is_unlisted(pair: tuple[str, str], lang: str, english: dict[str, Occurrences]) -> bool:
    """Return whether the English side of an entry occurs at least twice, and the bundled lexicon lacks its wording."""
    wording, target = map(folded, pair)
    lexicon = bundled_lexicon()
    is_listed = lexicon and any(equivalent.exact for equivalent in lexicon.equivalents(wording, lang))
    return english[target].count > 1 and not is_listed


def citations_of(
    pair: tuple[str, str], translations: Sequence[Counter[str]], places: Sequence[dict[str, Occurrences]]
) -> list[tuple[Place, Place]]:
    """Return the citations of an entry; a side without a sentence is cited alone.

    Args:
        pair: Entry (other, English).
        translations: Number of translations of each wording, for both sides.
        places: Occurrences of each wording, for both sides.
    """
    sides = [
        some[wording].sample if counts[wording] <= CITED[1] else []
        for some, counts, wording in zip(places, translations, map(folded, pair), strict=True)
    ]
    sentences = (cycle(samples or [wording]) for samples, wording in zip(sides, alone(pair), strict=True))
    return list(islice(zip(*sentences, strict=False), max(map(len, sides))))


def write_places(path: Path, rows: Iterable[tuple[Place, Place]]) -> None:
    """Write pairs of places in the form of phrase pairs."""
    with path.open("w", encoding="utf-8") as file:
        for (source, a, b), (target, c, d) in rows:
            row = {"source": source, "target": target, "pairs": [[a, b, c, d]]}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def both_sides(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the two texts of each line in a file of phrase pairs."""
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            row = json.loads(line)
            yield row["source"], row["target"]


@dataclass
class Occurrences:
    """Number of occurrences of a wording, and a sample of the places."""

    count: int = 0
    sample: list[Place] = field(default_factory=list)


def occurrences(wordings: Iterable[str], texts: Iterable[str], draw: random.Random) -> dict[str, Occurrences]:
    """Return the occurrences of folded wordings of up to five words, with random places (reservoir sampling)."""
    places = {wording: Occurrences() for wording in wordings}
    for text in texts:
        bounds = words(text)
        for first, (start, _) in enumerate(bounds):
            for _, end in bounds[first : first + 5]:
                place = places.get(folded(text[start:end]))
                if place is not None:
                    place.count += 1
                    if len(place.sample) < CITED[0]:
                        place.sample.append((text, start, end))
                    elif (row := draw.randrange(place.count)) < CITED[0]:
                        place.sample[row] = text, start, end
    return places


def write_contrasts(folder: Path, langs: Iterable[str], out: Path) -> None:
    """Write wordings with two usual translations whose meanings differ, judged by the free text of all languages."""
    tables = {lang: free_links(folder / f"{lang}.phrases.tsv") for lang in langs}
    usual: dict[str, dict[str, list[str]]] = {lang: {} for lang in tables}
    for lang, table in tables.items():
        for wording, links in table.items():
            total = sum(links.values())
            least = max(USUAL[1], USUAL[2] * total)
            some = [e for e, count in links.items() if count >= least and ENGLISH.usable(e) and len(e) > 1]
            if total >= USUAL[0] and len(some) > 1:
                usual[lang][wording] = some
    needed = {english for table in usual.values() for some in table.values() for english in some}
    stems = {english: set(lemmas(english).split()) for english in needed}
    meanings = Meanings(tables, needed)
    for lang, table in usual.items():
        lines = []
        for wording, some in table.items():
            for one, two in combinations(some, 2):
                overlap = meanings.overlap_of(one, two, lang) if stems[one].isdisjoint(stems[two]) else None
                if overlap is not None and overlap < meanings.other:
                    lines.append(f"{wording}\t{one}\t{two}\n")
        (out / f"contrasts-{lang}.tsv").write_text("".join(lines), encoding="utf-8")
        print(f"{lang}: {len(lines):,} contrasts", flush=True)


def free_links(path: Path) -> Counts:
    """Return wording -> English wording -> links in free pairs that are not held out, at least two."""
    table: Counts = defaultdict(dict)
    for other, english, _, free in linked(path):
        if free > 1:
            table[other][english] = free
    return table


def write_known(folder: Path, data: Path, lang: str, classes: dict[str, str], out: Path) -> None:
    """Write pairs of folded wordings that are right for each other: linked twice in free text, or entries."""
    pairs = {(folded(other), folded(english)) for other, english in listed(data, lang, classes)}
    pairs |= {(other, english) for other, english, _, free in linked(folder / f"{lang}.phrases.tsv") if free > 1}
    out.write_text("".join(f"{a}\t{b}\n" for a, b in sorted(pairs) if "\t" not in a + b), encoding="utf-8")


if __name__ == "__main__":
    main()

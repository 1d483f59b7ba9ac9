"""Write phrase tables of aligned text: how often wordings are linked, in all pairs and in those that may be trained on.

    python bench/phrase_table.py .cache/general

The script reads the XX.tsv and XX.links of bench/general_data.py. It writes XX.phrases.tsv: wording, English wording,
their links in all pairs, and their links in pairs of licence class "free" that are not held out (columns without a
header). The pairs are consistent phrase pairs of at most --words words on each side. Wordings are folded (case, white
space). Pairs that are linked only once are left out, unless both sides are single words.

It also writes XX.expressions.tsv, from free pairs that are not held out. Its columns are a wording of several words, an
English wording, the sentence pairs that may link them, and the sentences with the one and with the other. Such a pair
begins or ends with a word without a link, or none of its words has one. So does a fixed expression: "in the end" for "в
конце концов".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from hashlib import blake2b
from itertools import groupby, pairwise, product
from pathlib import Path

from common import LANGS, parser

from phrasemate.align.pairs import TokenizedSentence, consistent_boxes, parse_links
from phrasemate.lexicon.wordings import wording_of
from phrasemate.text import folded

EXPRESSION = 3  # least sentence pairs of an expression, and least different neighbours on each side
HELD_OUT = 20  # one English sentence in so many, with all its translations, is never trained on


def held_out(english: str) -> bool:
    """Return whether a sentence pair belongs to the lookup yardstick; its English side alone decides it."""
    letters = "".join(char for char in english.casefold() if char.isalnum())
    return (
        int.from_bytes(blake2b(letters.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "big") % HELD_OUT == 0
    )


def rows(folder: Path, lang: str) -> Iterator[tuple[str, str, str, str, list[tuple[int, int]]]]:
    """Yield other side, English side, source, licence class and links of each sentence pair."""
    with (
        (folder / f"{lang}.tsv").open(encoding="utf-8", newline="\n") as text,
        (folder / f"{lang}.links").open(encoding="utf-8") as links,
    ):
        for line, linked in zip(text, links, strict=True):
            other, english, source, licence = line.rstrip("\n").split("\t")
            yield other, english, source, licence, parse_links(linked)


def spans(
    other: TokenizedSentence, english: TokenizedSentence, links: list[tuple[int, int]], most: int
) -> Iterator[tuple[int, int, int, int]]:
    """Yield the character spans of the consistent phrase pairs with a letter on both sides."""
    for box in consistent_boxes(links, len(other.spans), len(english.spans), most):
        start, end = other.spans[box.start][0], other.spans[box.end - 1][1]
        first, last = english.spans[box.other_start][0], english.spans[box.other_end - 1][1]
        if any(map(str.isalpha, other.text[start:end])) and any(map(str.isalpha, english.text[first:last])):
            yield start, end, first, last


def table(folder: Path, lang: str, most: int) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    """Return the links of each pair of wordings: in all pairs, and in free ones that are not held out."""
    every: Counter[tuple[str, str]] = Counter()
    free: Counter[tuple[str, str]] = Counter()
    for other, english, _, licence, links in rows(folder, lang):
        pairs = {
            (folded(other[a:b]), folded(english[c:d]))
            for a, b, c, d in spans(TokenizedSentence.of(other), TokenizedSentence.of(english), links, most)
        }
        every.update(pairs)
        if licence == "free" and not held_out(english):
            free.update(pairs)
    return every, free


def linked(path: Path) -> Iterator[tuple[str, str, int, int]]:
    """Yield the rows of a table: wording, English wording, links in all pairs, links in free pairs not held out."""
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            other, english, every, free = line.rstrip("\n").split("\t")
            yield other, english, int(every), int(free)


def expressions(folder: Path, lang: str, most: int) -> Iterator[tuple[str, str, int, int, int]]:
    """Yield the rows of XX.expressions.tsv; a pair occurs in at least `EXPRESSION` sentence pairs."""
    texts = [
        (TokenizedSentence.of(other), TokenizedSentence.of(english), links)
        for other, english, _, licence, links in rows(folder, lang)
        if licence == "free" and not held_out(english)
    ]
    together: Counter[tuple[str, str]] = Counter()
    for other, english, links in texts:
        wordings, translations = stretches(other, lang, most), stretches(english, "en", most)
        together.update(
            {
                (wordings[a, b], translations[c, d])
                for a, b, c, d in unlinked(links, len(other.spans), len(english.spans), most)
                if (a, b) in wordings and (c, d) in translations
            }
        )
    frequent = {pair: count for pair, count in together.items() if count >= EXPRESSION}
    sides = [Usage({pair[0] for pair in frequent}), Usage({pair[1] for pair in frequent})]
    for other, english, _ in texts:
        for usage, text, language in zip(sides, (other, english), (lang, "en"), strict=True):
            usage.add(stretches(text, language, most))
    for (wording, english), count in frequent.items():
        if sides[0].is_free(wording) and sides[1].is_free(english):
            yield wording, english, count, sides[0].sentences[wording], sides[1].sentences[english]


class Usage:
    """Counts of sentences with each of some wordings, and the words before and after it."""

    def __init__(self, wordings: Collection[str]) -> None:
        self.wordings = wordings
        self.sentences: Counter[str] = Counter()
        self.before: dict[str, set[str]] = {}
        self.after: dict[str, set[str]] = {}

    def add(self, stretches_of: dict[tuple[int, int], str]) -> None:
        """Count a sentence."""
        names = set()
        for (start, end), wording in stretches_of.items():
            if wording in self.wordings:
                names.add(wording)
                edge = str(self.sentences[wording])  # at the edge of a text: differs from all other neighbours
                before, after = self.before.setdefault(wording, set()), self.after.setdefault(wording, set())
                before.add(stretches_of[start - 1, start] if start else edge)
                after.add(stretches_of.get((end, end + 1), edge))
        self.sentences.update(names)

    def is_free(self, wording: str) -> bool:
        """Return whether a wording has different neighbours on both sides; a part of a longer expression has not."""
        return min(len(self.before[wording]), len(self.after[wording])) >= EXPRESSION


def stretches(text: TokenizedSentence, lang: str, most: int) -> dict[tuple[int, int], str]:
    """Return the folded wording of each stretch of words, by its first word and its end.

    A stretch has at most ``most`` words and no punctuation inside. ``lang``: of the text.
    """
    forms = [folded(text.text[start:end]) for start, end in text.spans]
    gaps = [text.text[end:start].strip() for (_, end), (start, _) in pairwise(text.spans)]
    stops = {number for number, gap in enumerate(gaps, 1) if gap}
    wordings: dict[tuple[int, int], str] = {}
    for start in range(len(forms)):
        for end in range(start + 1, min(start + most, len(forms)) + 1):
            wordings[start, end] = wording_of(forms[start:end], lang)
            if end in stops:
                break
    return wordings


def unlinked(links: Sequence[tuple[int, int]], sources: int, targets: int, most: int) -> set[tuple[int, int, int, int]]:
    """Return stretches of several words with their translations, if a word at a border has no link.

    A stretch and its translation are word numbers, with the ends exclusive.
    """
    linked_words = [{link[side] for link in links} for side in (0, 1)]
    boxes = {
        (box.start, box.end, box.other_start, box.other_end)
        for box in consistent_boxes(list(links), sources, targets, most, loose=True)
        if not {box.start, box.end - 1} <= linked_words[0]
        or not {box.other_start, box.other_end - 1} <= linked_words[1]
    }
    gaps = [runs(length, words, most) for length, words in zip((sources, targets), linked_words, strict=True)]
    boxes |= {(*one, *other) for one, other in product(*gaps)}
    return {box for box in boxes if box[1] - box[0] > 1}


def runs(length: int, linked_words: Collection[int], most: int) -> list[tuple[int, int]]:
    """Return the stretches of at most ``most`` words none of which has a link."""
    pairs = []
    for is_linked, group in groupby(range(length), linked_words.__contains__):
        if not is_linked:
            numbers = list(group)
            pairs += [(a, b) for a in numbers for b in range(a + 1, min(a + most, numbers[-1] + 1) + 1)]
    return pairs


def main() -> None:
    """Write the tables of each language that has links and no table."""
    options = parser(__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--words", type=int, default=5)
    options.add_argument("--langs", default=" ".join(LANGS))
    args = options.parse_args()
    for lang in args.langs.split():
        if not (args.folder / f"{lang}.links").exists():
            continue
        phrases, unlinked_phrases = (args.folder / f"{lang}.{kind}.tsv" for kind in ("phrases", "expressions"))
        if not phrases.exists():
            every, free = table(args.folder, lang, args.words)
            pairs = [pair for pair, count in every.items() if count > 1 or " " not in "".join(pair)]
            write(phrases, ((*pair, every[pair], free[pair]) for pair in pairs))
        if not unlinked_phrases.exists():
            write(unlinked_phrases, expressions(args.folder, lang, args.words))


def write(path: Path, lines: Iterator[tuple[object, ...]]) -> None:
    """Write a table completely or not at all."""
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines("\t".join(map(str, line)) + "\n" for line in lines)
    part.rename(path)
    print(path, flush=True)


if __name__ == "__main__":
    main()

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

XX.lemmas.tsv has the same columns for pairs of phrases that are counted by lemmas (simplemma). All forms of "faire
semblant" are one phrase, and those of "pretend" another. Words may stand between two parts of the English one: "take
... into account".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby, pairwise, product
from pathlib import Path
from typing import NamedTuple

import simplemma
from common import LANGS, parser
from simplemma.strategies.dictionaries.dictionary_factory import SUPPORTED_LANGUAGES

from phrasemate.align.pairs import TokenizedSentence, consistent_boxes, parse_links
from phrasemate.lexicon import bundled_lexicon, stemmed
from phrasemate.lexicon.induced import grammatical_words
from phrasemate.lexicon.inflection import ARTICLES, ENGLISH_FUNCTION_WORDS, NEGATIONS
from phrasemate.lexicon.wordings import wording_of
from phrasemate.text import folded

EXPRESSION = 3  # least sentence pairs of an expression, and least different neighbours on each side
LIKELY = 0.1  # least share of the sentences with a phrase, counted by lemmas, that have its translation
GAP = 5  # most words between two parts of an English phrase
MOSTLY = 0.3  # least share of a word's links that lead to its usual translation
WORDS = 4  # most words of a phrase that is counted by lemmas, and of its translation
FORMS, ENGLISH_FORMS = 8, 4  # most forms of a phrase that are written, and of its translation
DO = frozenset({"do", "make"})  # a function word with such a translation is a light verb, too
LIGHT_VERBS = DO | {"get", "give", "have", "hold", "put", "take"}
SUBJECTS = ARTICLES | {"i", "you", "he", "she", "it", "we", "they", "to", "be"}  # left out before a translation
HELD_OUT = 20  # one English sentence in so many, with all its translations, is never trained on


Lemmas = tuple[str, ...]


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


def lemma_expressions(folder: Path, lang: str) -> Iterator[tuple[str, str, int, int, int]]:
    """Yield the rows of XX.lemmas.tsv; a pair occurs in at least `EXPRESSION` sentence pairs."""
    together: Counter[tuple[Lemmas, Lemmas]] = Counter()
    sentences: tuple[Counter[Lemmas], Counter[Lemmas]] = Counter(), Counter()
    words = WordLinks()
    pairs_of_sentences = []
    for text in lemmatised(folder, lang):
        words.add(text)
        pairs = lemma_pairs(text)
        together.update(pairs.keys())
        sentences[0].update({text.lemmas[a:b] for a, b in text.stretches if b - a > 1})
        sentences[1].update({text.english_lemmas[a:b] for a, b in text.english_stretches} | {pair[1] for pair in pairs})
        pairs_of_sentences.append(pairs)
    likely = {
        pair
        for pair, count in together.items()
        if count >= max(EXPRESSION, LIKELY * (sentences[0][pair[0]] + 1)) and words.are_idiomatic(*pair, lang)
    }
    forms: dict[Lemmas, Counter[str]] = {}
    english_forms: dict[tuple[Lemmas, Lemmas], Counter[str]] = {}
    neighbours: dict[tuple[Lemmas, Lemmas], tuple[set[str], set[str]]] = {}
    for number, pairs in enumerate(pairs_of_sentences):
        for pair in likely.intersection(pairs):
            wording, english, before, after = pairs[pair]
            forms.setdefault(pair[0], Counter())[wording] += 1
            english_forms.setdefault(pair, Counter())[english] += 1
            for side, word in zip(neighbours.setdefault(pair, (set(), set())), (before, after), strict=True):
                side.add(word or str(number))
    for pair, translations in english_forms.items():
        if min(map(len, neighbours[pair])) >= EXPRESSION:
            wordings = [wording for wording, _ in forms[pair[0]].most_common(FORMS)]
            for wording, english in product(wordings, usual_forms(translations)):
                yield wording, english, together[pair], sentences[0][pair[0]], sentences[1][pair[1]]


class LemmatisedPair(NamedTuple):
    """Sentence pair with folded words, their lemmas, links, and stretches of words as `stretches` returns them."""

    words: Sequence[str]
    english: Sequence[str]
    lemmas: Lemmas
    english_lemmas: Lemmas
    links: Sequence[tuple[int, int]]
    stretches: dict[tuple[int, int], str]
    english_stretches: dict[tuple[int, int], str]


def lemmatised(folder: Path, lang: str) -> Iterator[LemmatisedPair]:
    """Yield the free sentence pairs that are not held out."""
    lemma, english_lemma = lemmatiser(lang), lemmatiser("en")
    for other, english, _, licence, links in rows(folder, lang):
        if licence == "free" and not held_out(english):
            texts = TokenizedSentence.of(other), TokenizedSentence.of(english)
            words, english_words = ([folded(text.text[a:b]) for a, b in text.spans] for text in texts)
            lemmas, english_lemmas = tuple(map(lemma, words)), tuple(map(english_lemma, english_words))
            spans = stretches(texts[0], lang, WORDS), stretches(texts[1], "en", WORDS)
            yield LemmatisedPair(words, english_words, lemmas, english_lemmas, links, *spans)


def lemma_pairs(text: LemmatisedPair) -> dict[tuple[Lemmas, Lemmas], tuple[str, str, str, str]]:
    """Map the phrase pairs of a sentence pair, as lemmas, to their wordings and the words before and after the phrase.

    The phrases have several words; "" stands for the beginning and the end of the sentence.
    """
    pairs: dict[tuple[Lemmas, Lemmas], tuple[str, str, str, str]] = {}

    def add(span: tuple[int, int], places: Sequence[int]) -> None:
        pair = text.lemmas[slice(*span)], tuple(text.english_lemmas[place] for place in places)
        around = " ".join(text.words[span[0] - 1 : span[0]]), " ".join(text.words[span[1] : span[1] + 1])
        pairs.setdefault(pair, (text.stretches[span], " ".join(text.english[place] for place in places), *around))

    for box in consistent_boxes(list(text.links), len(text.words), len(text.english), WORDS, loose=True):
        first = box.other_start
        while first < box.other_end - 1 and text.english_lemmas[first] in SUBJECTS:
            first += 1
        is_phrase = box.end - box.start > 1 and (box.start, box.end) in text.stretches
        if is_phrase and (first, box.other_end) in text.english_stretches:
            add((box.start, box.end), range(first, box.other_end))
    for span in text.stretches:
        if span[1] - span[0] > 1 and (places := places_with_gap(text.links, span, text.english, WORDS)):
            add(span, places)
    return pairs


class WordLinks:
    """Links between lemmas of single words."""

    def __init__(self) -> None:
        self.links: Counter[tuple[str, str]] = Counter()
        self.words: Counter[str] = Counter()

    def add(self, text: LemmatisedPair) -> None:
        """Count the links of a sentence pair."""
        for one, other in text.links:
            self.links[text.lemmas[one], text.english_lemmas[other]] += 1
            self.words[text.lemmas[one]] += 1

    def are_idiomatic(self, phrase: Lemmas, english: Lemmas, lang: str) -> bool:
        """Return whether an English phrase is more than a translation of the words of a phrase one by one.

        Either a content word of the English phrase translates no word, or the words without a translation are light
        verbs: "faire" in "faire semblant".
        """
        content = [word for word in phrase if word not in grammatical_words(lang) or is_light_verb(word, lang)]
        english_content = [word for word in english if word not in ENGLISH_FUNCTION_WORDS | NEGATIONS]
        if not content or not english_content or len(content) == len(english_content) == 1:
            return False
        table = [[self.probability(one, other) for other in english_content] for one in content]
        rest = [word for word, row in zip(content, table, strict=True) if max(row) < LIKELY]
        least = min(map(max, zip(*table, strict=True)))
        if least < MOSTLY:
            return bool(rest) or least < LIKELY
        return bool(rest) and all(is_light_verb(word, lang) for word in rest)

    def probability(self, word: str, english: str) -> float:
        """Return the share of a word's links that lead to an English word."""
        return self.links[word, english] / max(self.words[word], 1)


@lru_cache(1 << 16)
def is_light_verb(word: str, lang: str) -> bool:
    """Return whether the likeliest translation of a word is a light verb; of a function word, "do" or "make"."""
    lexicon = bundled_lexicon()
    equivalents = lexicon.equivalents(word, lang, "en") if lexicon else []
    return bool(equivalents) and equivalents[0].text in (DO if word in grammatical_words(lang) else LIGHT_VERBS)


def places_with_gap(
    links: Sequence[tuple[int, int]], span: tuple[int, int], english: Sequence[str], most: int
) -> list[int]:
    """Return the places of the English words that translate a span of words, if they stand in two parts; else none.

    The words are linked with no other ones. Function words without a link belong to the part after them, as "into" in
    "take it into account", and so do other words without a link within a part.
    """
    places = sorted({other for one, other in links if span[0] <= one < span[1]})
    if any(other in places and not span[0] <= one < span[1] for one, other in links):
        return []
    linked_places = {other for _, other in links}
    gaps = [
        (low, high)
        for low, high in pairwise(places)
        if not linked_places.isdisjoint(range(low + 1, high)) or high - low > most
    ]
    if len(gaps) != 1:
        return []
    ((low, high),) = gaps
    start = high
    while start - 1 > low + 1 and start - 1 not in linked_places and english[start - 1] in ENGLISH_FUNCTION_WORDS:
        start -= 1
    while start < high and english[start] in ARTICLES:
        start += 1
    parts = [*range(places[0], low + 1), *range(start, places[-1] + 1)]
    return parts if start - low - 1 <= GAP and len(parts) <= most else []


def lemmatiser(lang: str) -> Callable[[str], str]:
    """Return a function that gives the lemma of a folded word; without data for the language, the word itself."""
    if lang not in SUPPORTED_LANGUAGES:
        return str
    return lru_cache(1 << 18)(lambda word: simplemma.lemmatize(word, lang).casefold())


def usual_forms(counts: Counter[str]) -> list[str]:
    """Return the most frequent of some English wordings, one for each stemmed form: a search finds the others, too."""
    wording_of_stem: dict[str, str] = {}
    for wording, _ in counts.most_common():
        wording_of_stem.setdefault(stemmed(wording, "en"), wording)
    return [*wording_of_stem.values()][:ENGLISH_FORMS]


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
        phrases, unlinked_phrases, by_lemmas = (
            args.folder / f"{lang}.{kind}.tsv" for kind in ("phrases", "expressions", "lemmas")
        )
        if not phrases.exists():
            every, free = table(args.folder, lang, args.words)
            pairs = [pair for pair, count in every.items() if count > 1 or " " not in "".join(pair)]
            write(phrases, ((*pair, every[pair], free[pair]) for pair in pairs))
        if not unlinked_phrases.exists():
            write(unlinked_phrases, expressions(args.folder, lang, args.words))
        if not by_lemmas.exists():
            write(by_lemmas, lemma_expressions(args.folder, lang))


def write(path: Path, lines: Iterator[tuple[object, ...]]) -> None:
    """Write a table completely or not at all."""
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines("\t".join(map(str, line)) + "\n" for line in lines)
    part.rename(path)
    print(path, flush=True)


if __name__ == "__main__":
    main()

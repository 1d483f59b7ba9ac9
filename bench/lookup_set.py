"""Make the lookup yardstick: marked phrases, their right English wordings, and collections to search.

    python bench/lookup_set.py .cache/general .cache/lookup

The phrases come from held-out sentence pairs, whose English sides are not in the collections. The script reads the
files of bench/general_data.py and bench/phrase_table.py. It writes

- ``XX.jsonl``, a query on each line, with text, start, end (characters), language, source, domain, half ("dev" or
  "test"), function_start, right, sense, usual and part_of_speech. ``right``: English wordings, as lemmas, that the
  phrase is linked to at least twice in all parallel data, or that a dictionary lists. ``sense``: those of them that
  mean what the phrase means here, if it is ambiguous. ``usual``: those of them that are usual (`usual_wordings`).
  ``part_of_speech``: that of the translation in the sentence's mate (noun, verb, adjective, adverb, name or other),
  only if HanTa is installed (``pip install hanta``);
- ``senses.jsonl``: further ambiguous phrases, with right (as ``sense`` above), other (the wordings of the other
  meanings) and mate (the translation, which a search must leave out, as the collections may contain it);
- ``en-20000.txt`` and ``en-100000.txt``: English sentences of held-out pairs, law, medicine and literature,
  none of them the mate of a query.

With --unlisted, the script writes the folder ``unlisted`` of this set instead: XX.jsonl with words that the bundled
lexicon lacks, and the same collections. All links of such a word are right wordings, as most are linked only once.

Half of the queries of a language are dev, half are test, decided by the sentence alone. A phrase is ambiguous if two of
its usual English wordings share hardly any translation in the other languages.

With --into, queries are English phrases to be searched in text of another language:

    python bench/lookup_set.py .cache/general .cache/lookup-de --into de

The set is ``en.jsonl``, ``senses.jsonl`` and ``de-20000.txt``. The collection has held-out sentences first, then those
of sources that are not free, then others, none of them the mate of a query. Right are the wordings of the language. Two
of them differ in meaning if sentences with the one and with the other have hardly any translation of the phrase in
common in the other languages.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from common import LANGS, dictionary_rows, parser, write_lines
from phrase_table import held_out, linked, rows, spans

from phrasemate.align.pairs import TokenizedSentence
from phrasemate.evaluate.lookup import lemmas
from phrasemate.lexicon import bundled_lexicon
from phrasemate.text import folded

COLLECTIONS = ("en_law_canada", "en_medicine_medquad", "en_literature_pd")
SIZES = (20_000, 100_000)
LENGTHS = {1: 0.5, 2: 0.3, 3: 0.2}  # share of the queries by number of words (3: three or more)
TECHNICAL = "technical"  # domain of the sources without queries
GRAMMAR = frozenset(
    """
    i you he she it we they me him her us them is are was were be been am do does did have has had will
    would shall should can could may might must not no this that these those who which what
    """.split()  # noqa: SIM905
)
ENGLISH_FUNCTION_WORDS = frozenset(  # includes particles of verbs; a change would change the published sets
    """
    a an the to of in on at by for from with as into onto upon about over under up down out off than and or
    but nor so if that this these those which who whom whose what when where why how there here not no i you
    he she it we they me him her us them my your his its our their mine yours be am is are was were been
    being have has had having do does did will would shall should can could may might must 's 't s t ll re
    ve d m one some any all each every just also too very then now
    """.split()  # noqa: SIM905
)
PREPOSITIONS = frozenset(
    """
    in at on by for from with under without over into out against between during beyond
    """.split()  # noqa: SIM905
)
SHORTEST = 4  # least letters of a word that the lexicon lacks
FREQUENT = 60  # number of a language's most frequent words, which count as function words
SENSES, REPEATED = 300, 4  # most ambiguous phrases of a language, and of one wording
COMMON = 0.1  # least share of a wording's links that make another meaning a usual one
SEEN = 3  # least sentences with a wording and a translation into a third language (`MeaningsByMates`)
USUAL, SCARCE = 0.1, 10  # least share of a phrase's links of a usual wording; number of links below which it is unknown
INSIDE = 0.5  # share of a word's occurrences inside an expression that make it a part of this fixed expression
SENTENCES = 200_000  # number of sentences in which these occurrences are counted
PARTS_OF_SPEECH = {"NN": "noun", "VV": "verb", "AJ": "adjective", "AV": "adverb", "NP": "name"}  # by beginning of tag

Counts = dict[str, dict[str, int]]


class Query(NamedTuple):
    """Phrase of a held-out sentence pair, and the wording of the searched language that it is linked to there."""

    language: str
    text: str
    start: int
    end: int
    mate: str
    wording: str
    source: str

    @property
    def phrase(self) -> str:
        """Return the phrase, folded."""
        return folded(self.text[self.start : self.end])


class Target(NamedTuple):
    """Language that is searched, and its words that carry grammar rather than meaning."""

    language: str
    functions: frozenset[str]

    def usable(self, wording: str) -> bool:
        """Return whether a wording has a word that is not a function word."""
        return any(word not in self.functions for word in wording.split())

    def lemmas(self, wording: str) -> str:
        """Return the lemmas of a wording."""
        return lemmas(wording, self.language)


ENGLISH = Target("en", ENGLISH_FUNCTION_WORDS)


def domains_of(data: Path) -> dict[str, str]:
    """Return source -> domain."""
    with (data / "parallel_general" / "SOURCES.tsv").open(encoding="utf-8") as file:
        return {row["source"]: row["domain"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}


def phrase_table(path: Path) -> Counts:
    """Return wording -> English wording -> links in all pairs, at least two."""
    table: Counts = defaultdict(dict)
    for other, english, count, _ in linked(path):
        if count > 1:
            table[other][english] = count
    return table


def from_english(table: Counts) -> Counts:
    """Return English wording -> wording -> links."""
    turned: Counts = defaultdict(dict)
    for other, links in table.items():
        for english, count in links.items():
            turned[english][other] = count
    return turned


def dictionary(data: Path, lang: str, into: str = "en") -> dict[str, set[str]]:
    """Return phrase -> wordings of the term lists and dictionaries; ``into`` is the language of the wordings."""
    entries: dict[str, set[str]] = defaultdict(set)
    for english, other in dictionary_rows(data, lang):
        phrase, wording = (other, english) if into == "en" else (english, other)
        entries[folded(phrase)].add(folded(wording))
    return entries


def frequent(folder: Path, lang: str) -> frozenset[str]:
    """Return the most frequent words of a language, which carry grammar rather than meaning."""
    counts: Counter[str] = Counter()
    with (folder / f"{lang}.tsv").open(encoding="utf-8", newline="\n") as file:
        for line in islice(file, 20_000):
            counts.update(word.casefold() for word in TokenizedSentence.of(line.split("\t")[0]).words())
    return frozenset(word for word, _ in counts.most_common(FREQUENT))


def pairs_of(folder: Path, lang: str, into: str) -> Iterator[tuple[str, str, str, list[tuple[int, int]], bool]]:
    """Yield query sentence, mate, source, links and whether it is held out, for each sentence pair of ``lang``."""
    for other, english, source, _, links in rows(folder, lang):
        if into == "en":
            yield other, english, source, links, held_out(english)
        else:
            yield english, other, source, [(second, first) for first, second in links], held_out(english)


def candidates(folder: Path, pair_language: str, language: Language, domains: dict[str, str]) -> Iterator[Query]:
    """Yield phrases of held-out pairs of general language whose link is a usual one of their wording."""
    target = language.target
    for text, mate, source, links, is_held_out in pairs_of(folder, pair_language, target.language):
        if not is_held_out or domains.get(source, TECHNICAL) == TECHNICAL:
            continue
        worded = TokenizedSentence.of(text)
        for start, end, first, last in spans(worded, TokenizedSentence.of(mate), links, 5):
            phrase, wording = folded(text[start:end]), folded(mate[first:last])
            links_of = language.table.get(phrase, {})
            if links_of.get(wording, 0) < max(2, 0.05 * sum(links_of.values())) or not target.usable(wording):
                continue
            inside = [word.casefold() for word in TokenizedSentence.of(phrase).words()]
            if meaningful(inside, wording.split(), language, links_of[wording]):
                yield Query(language.code, text, start, end, mate, wording, source)


def meaningful(inside: list[str], wording: list[str], language: Language, links: int) -> bool:
    """Return whether a user might look the phrase up, as opposed to a random run of words.

    The phrase ends in a content word, and so does its translation. The English side of a phrase of several words has no
    pronoun or auxiliary. If such a phrase begins with a function word, the English side begins with a preposition, and
    the two are linked at least three times.
    """
    functions, target = language.functions, language.target
    english = wording if target.language == "en" else inside
    if inside[-1] in functions or not any(map(str.isalpha, inside[-1])) or wording[-1] in target.functions:
        return False
    if len(inside) > 1 and not GRAMMAR.isdisjoint(english):
        return False
    if len(inside) > 1 and (inside[0] in functions or wording[0] in target.functions):
        return inside[0] in functions and english[0] in PREPOSITIONS and links > 2
    return inside[0] not in functions


def unlisted(folder: Path, lang: str, domains: dict[str, str], collection: set[str]) -> Iterator[Query]:
    """Yield words of held-out pairs of general language that the bundled lexicon lacks, in all forms of the same stem.

    A pair is left out if its English side is a sentence of ``collection``. A word has at least four letters and no
    capital. It is linked to at most three English words, the last of which is a content word.
    """
    lexicon = bundled_lexicon()
    assert lexicon is not None
    for other, english, source, _, links in rows(folder, lang):
        if not held_out(english) or domains.get(source, TECHNICAL) == TECHNICAL or english in collection:
            continue
        for start, end, first, last in spans(TokenizedSentence.of(other), TokenizedSentence.of(english), links, 3):
            word, wording = other[start:end], folded(english[first:last])
            is_word = word.isalpha() and word == folded(word) and len(word) >= SHORTEST
            content = ENGLISH.usable(wording) and wording.split()[-1] not in ENGLISH_FUNCTION_WORDS
            if is_word and content and not lexicon._rows(lang, word)[0]:
                yield Query(lang, other, start, end, english, wording, source)


def write_unlisted(folder: Path, out: Path, data: Path, langs: Sequence[str], count: int, seed: int) -> None:
    """Write queries of words that the lexicon lacks, with the collections of ``out``, as a separate set."""
    target = out / "unlisted"
    target.mkdir(exist_ok=True)
    for size in SIZES:
        shutil.copy(out / f"en-{size}.txt", target)
    sentences = set((out / f"en-{SIZES[-1]}.txt").read_text("utf-8").split("\n"))
    domains = domains_of(data)
    for lang in langs:
        queries = drawn(unlisted(folder, lang, domains, sentences), 2 * count, seed)
        links: dict[str, set[str]] = defaultdict(set)
        for other, english, _, _ in linked(folder / f"{lang}.phrases.tsv"):
            if ENGLISH.usable(english):
                links[other].add(english)
        entries, lines = dictionary(data, lang), []
        for query in queries:
            word = query.text[query.start : query.end]
            right = {lemmas(english) for english in {query.wording} | links[word] | entries.get(word, set())}
            facts = {"source": query.source, "domain": domains[query.source], "right": sorted(right), "sense": None}
            lines.append(json.dumps({**place(query), **facts, "function_start": False}, ensure_ascii=False) + "\n")
        (target / f"{lang}.jsonl").write_text("".join(lines), encoding="utf-8")
        print(f"{lang}: {len(lines)} words that the lexicon lacks", flush=True)


def drawn(queries: Iterable[Query], count: int, seed: int) -> list[Query]:
    """Draw at most ``count`` queries, one for each sentence and wording, with lengths in the shares of `LENGTHS`."""
    by_sentence: dict[str, list[Query]] = defaultdict(list)
    for query in queries:
        by_sentence[query.text].append(query)
    draw = random.Random(seed)
    sentences = sorted(by_sentence)
    draw.shuffle(sentences)
    room = {length: round(share * count) for length, share in LENGTHS.items()}
    chosen: list[Query] = []
    phrases: set[str] = set()
    for sentence in sentences:
        some = by_sentence[sentence]
        draw.shuffle(some)
        some.sort(key=lambda query: -min(len(TokenizedSentence.of(query.text[query.start : query.end]).spans), 3))
        for query in some:
            phrase = query.phrase
            length = min(len(TokenizedSentence.of(phrase).spans), 3)
            if room[length] and phrase not in phrases:
                room[length] -= 1
                phrases.add(phrase)
                chosen.append(query)
                break
        if not any(room.values()):
            break
    return chosen


def usual_wordings(query: Query, right: set[str], language: Language, bound: set[tuple[str, str]]) -> set[str]:
    """Return the right wordings, as lemmas, that are usual and not only occasional.

    A wording is usual if it has at least the share `USUAL` of the phrase's links, counting its inflected forms
    together. The wording in the sentence's own translation is usual too. So are a dictionary's wordings, if the phrase
    has fewer links than `SCARCE`. ``bound`` has words and the fixed expressions that they belong to. Such a word is not
    usual if its expression is right ("spite" beside "in spite of").
    """
    lemmas_of = language.target.lemmas
    links = language.table.get(query.phrase, {})
    total, counts = sum(links.values()), Counter[str]()
    for wording, count in links.items():
        counts[lemmas_of(wording)] += count
    usual = {wording for wording in map(lemmas_of, right) if counts[wording] >= max(2, USUAL * total)}
    if total < SCARCE:
        usual |= set(map(lemmas_of, language.entries.get(query.phrase, set())))
    usual -= {lemmas_of(word) for word, expression in bound if expression in right}
    return usual | {lemmas_of(query.wording)}


def bound_words(wordings: Iterable[str], sentences: Iterable[str]) -> set[tuple[str, str]]:
    """Return words with the expressions in which they mostly occur.

    An expression is a preposition and the word, perhaps with more function words.
    """
    expressions: dict[str, set[str]] = defaultdict(set)
    for wording in wordings:
        first, *rest = wording.split()
        content = [word for word in rest if ENGLISH.usable(word)]
        if first in PREPOSITIONS | {"of"} and len(content) == 1:
            expressions[content[0]].add(wording)
    counts: Counter[str] = Counter()
    for sentence in sentences:
        text = [word.casefold() for word in TokenizedSentence.of(sentence).words()]
        line = f" {' '.join(text)} "
        for word in expressions.keys() & set(text):
            counts[word] += text.count(word)
            counts.update({wording: line.count(f" {wording} ") for wording in expressions[word]})
    return {
        (word, wording)
        for word, some in expressions.items()
        for wording in some
        if counts[wording] >= INSIDE * counts[word] > 0
    }


class Tagger:
    """Tagger of parts of speech, by HanTa's English model."""

    def __init__(self) -> None:
        from HanTa.HanoverTagger import HanoverTagger

        self._tagger = HanoverTagger("morphmodel_en.pgz")

    def __call__(self, query: Query) -> str:
        """Return the part of speech of a query's English side.

        It is that of the last word, or "verb" if the side begins with a verb.
        """
        text, wording = (query.text, query.phrase) if query.language == "en" else (query.mate, query.wording)
        sentence, parts = TokenizedSentence.of(text).words(), wording.split()
        forms = [word.casefold() for word in sentence]
        places = [at for at in range(len(sentence)) if forms[at : at + len(parts)] == parts]
        if not places:
            return "other"
        tags = [tag[:2] for _, _, tag in self._tagger.tag_sent(sentence)[places[0] : places[0] + len(parts)]]
        kinds = [PARTS_OF_SPEECH.get(tag, "other") for tag in tags]
        return "verb" if kinds[0] == "verb" else kinds[-1]


class Meanings:
    """Overlap in meaning of English wordings, measured by their translations into other languages.

    ``same`` and ``other``: least overlap of equal meanings, and most overlap of different ones.
    """

    same, other = 0.10, 0.02

    def __init__(self, tables: dict[str, Counts], wordings: set[str]) -> None:
        self.profiles: dict[str, dict[str, dict[str, float]]] = defaultdict(dict)  # wording -> language -> shares
        for lang, table in tables.items():
            counts: Counts = defaultdict(dict)
            for other, links in table.items():
                for english, count in links.items():
                    if english in wordings:
                        counts[english][other] = count
            for english, links in counts.items():
                if (total := sum(links.values())) >= 4:
                    self.profiles[english][lang] = {other: count / total for other, count in links.items()}

    def overlap(self, query: Query, wording: str) -> float | None:
        """Return the overlap of a wording with the query's.

        It is the sum of the smaller shares of each translation, as the mean over the languages except the query's. None
        if fewer than two languages have both wordings.
        """
        return self.overlap_of(query.wording, wording, query.language)

    def overlap_of(self, one: str, two: str, without: str) -> float | None:
        """Return the overlap of two wordings, over the languages except ``without``."""
        return mean_overlap(self.profiles.get(one, {}), self.profiles.get(two, {}), without)


class MeaningsByMates:
    """Overlap in meaning of an English phrase's wordings, measured by its translations in the same sentences.

    Many English sentences have translations into several languages. So the sentences in which "bank" is "Ufer" show
    what it is there in French.
    """

    same, other = 0.25, 0.12

    def __init__(self, folder: Path, target: Target, phrases: set[str]) -> None:
        self._lemmas = target.lemmas
        wordings: dict[str, dict[tuple[int, int], str]] = defaultdict(dict)  # English sentence -> span -> wording
        for english, start, end, phrase, wording in english_phrases(folder, target.language):
            if phrase in phrases and wording != phrase:  # names and titles, for instance, are not translated
                wordings[english][start, end] = self._lemmas(wording)
        counts: Any = defaultdict(lambda: defaultdict(Counter))  # phrase, wording -> language -> its wordings
        for path in sorted(folder.glob("*.links")):
            if path.stem == target.language:
                continue
            for english, start, end, phrase, other in english_phrases(folder, path.stem, wordings):
                if (start, end) in wordings[english]:
                    counts[phrase, wordings[english][start, end]][path.stem][other] += 1
        self._profiles = {
            key: {
                lang: {other: count / total for other, count in counter.items()}
                for lang, counter in by_language.items()
                if (total := counter.total()) >= SEEN
            }
            for key, by_language in counts.items()
        }

    def overlap(self, query: Query, wording: str) -> float | None:
        """Return the overlap of a wording with the query's, as `Meanings`."""
        one, two = (self._profiles.get((query.phrase, self._lemmas(name)), {}) for name in (query.wording, wording))
        return mean_overlap(one, two, "")


def english_phrases(
    folder: Path, lang: str, sentences: Container[str] | None = None
) -> Iterator[tuple[str, int, int, str, str]]:
    """Yield English sentence, start, end, phrase and its wording in a language, of these English sentences or all."""
    for other, english, _, _, links in rows(folder, lang):
        if sentences is None or english in sentences:
            text, translation = TokenizedSentence.of(english), TokenizedSentence.of(other)
            for first, last, start, end in spans(translation, text, links, 3):
                yield english, start, end, folded(english[start:end]), folded(other[first:last])


def mean_overlap(one: dict[str, dict[str, float]], two: dict[str, dict[str, float]], without: str) -> float | None:
    """Return the mean overlap of two profiles, over the languages except ``without``; None if fewer than two."""
    shared = [
        sum(min(share, two[lang].get(other, 0.0)) for other, share in one[lang].items())
        for lang in one.keys() & two.keys()
        if lang != without
    ]
    return sum(shared) / len(shared) if len(shared) >= 2 else None


def sense(query: Query, language: Language, right: set[str], meanings: Meanings | MeaningsByMates) -> set[str] | None:
    """Return the right wordings with the meaning that the phrase has here; None if it is not ambiguous."""
    links, target = language.table[query.phrase], language.target
    total = sum(links.values())
    usual = [wording for wording, count in links.items() if count >= max(3, COMMON * total) and target.usable(wording)]
    overlaps = {wording: meanings.overlap(query, wording) for wording in right | set(usual)}
    overlaps[query.wording] = 1.0
    words_of_query = set(target.lemmas(query.wording).split())

    def apart(wording: str) -> bool:
        value = overlaps[wording]
        return value is not None and value < meanings.other and not set(target.lemmas(wording).split()) & words_of_query

    if not any(apart(wording) for wording in usual):
        return None
    return {wording for wording in right if (overlaps[wording] or 0.0) >= meanings.same}


def other_senses(query: Query, right: set[str], meanings: Meanings | MeaningsByMates) -> set[str]:
    """Return the right wordings that mean something else than the phrase does here."""
    overlaps = {wording: meanings.overlap(query, wording) for wording in right}
    return {wording for wording, overlap in overlaps.items() if overlap is not None and overlap < meanings.other}


def ambiguous(language: Language, meanings: Meanings | MeaningsByMates, seed: int) -> Iterator[dict[str, object]]:
    """Yield at most `SENSES` records of ambiguous phrases, one for each sentence and `REPEATED` for each wording."""
    queries = sorted(language.possible)
    random.Random(seed).shuffle(queries)
    wordings: Counter[str] = Counter()
    sentences: set[str] = set()
    lemmas_of = language.target.lemmas
    for query in queries:
        if query.text in sentences or wordings[query.phrase] == REPEATED:
            continue
        right = language.right_wordings(query.phrase) | {query.wording}
        senses = sense(query, language, right, meanings)
        if senses is None:
            continue
        wordings[query.phrase] += 1
        sentences.add(query.text)
        same = set(map(lemmas_of, senses))
        yield {
            **place(query),
            "right": sorted(same),
            "other": sorted(set(map(lemmas_of, other_senses(query, right, meanings))) - same),
            "mate": query.mate,
        }
        if len(sentences) == SENSES:
            return


def english_side(folder: Path, lang: str) -> Iterator[str]:
    """Yield the English sentences of a language's pairs."""
    with (folder / f"{lang}.tsv").open(encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.split("\t")[1]


def place(query: Query) -> dict[str, object]:
    """Return the place of a phrase and its half (dev or test), which the sentence alone decides."""
    digest = blake2b(query.text.encode("utf-8", "surrogatepass"), digest_size=4).digest()
    half = "dev" if digest[0] % 2 else "test"
    return {"text": query.text, "start": query.start, "end": query.end, "language": query.language, "half": half}


def collection(folder: Path, data: Path, mates: set[str], size: int, seed: int) -> list[str]:
    """Return random sentences: two fifths of held-out pairs, the rest equally of law, medicine and literature."""
    draw, general = random.Random(seed), set[str]()
    for lang in LANGS:
        if (folder / f"{lang}.tsv").exists():
            general.update(e for e in english_side(folder, lang) if held_out(e) and e not in mates)
    parts = [sorted(general)]
    for name in COLLECTIONS:
        with gzip.open(data / "collections" / f"{name}.txt.gz", "rt", encoding="utf-8") as file:
            parts.append(sorted({line.strip() for line in file if line.strip()} - mates))
    most = [round(0.4 * size), *[round(0.2 * size)] * 3]
    chosen = [
        text for part, count in zip(parts, most, strict=True) for text in draw.sample(part, min(count, len(part)))
    ]
    draw.shuffle(chosen)
    return chosen


def collection_of(folder: Path, lang: str, mates: set[str], size: int, seed: int) -> list[str]:
    """Return sentences of a language: first held-out ones, then those of pairs that are not free, then others."""
    ranks: dict[str, int] = {}
    for other, english, _, licence, _ in rows(folder, lang):
        rank = 0 if held_out(english) else 1 if licence != "free" else 2
        ranks[other] = min(rank, ranks.get(other, rank))
    draw = random.Random(seed)
    texts = sorted(ranks.keys() - mates)
    draw.shuffle(texts)
    chosen = sorted(texts, key=ranks.__getitem__)[:size]
    draw.shuffle(chosen)
    return chosen


@dataclass
class Language:
    """Data of one language of queries.

    ``code``: of the queries. ``target``: of the right wordings. ``table``: links of its phrases. ``entries``: those of
    dictionaries. ``functions``: function words. ``possible``: all queries; ``queries``: the drawn ones.
    """

    code: str
    target: Target
    table: Counts
    entries: dict[str, set[str]]
    functions: frozenset[str]
    possible: list[Query] = field(default_factory=list)
    queries: list[Query] = field(default_factory=list)

    def draw(self, folder: Path, pair_language: str, domains: dict[str, str], count: int, seed: int) -> None:
        """Find the queries in the sentence pairs of a language with English, and draw ``count`` of them."""
        self.possible = list(candidates(folder, pair_language, self, domains))
        self.queries = drawn(self.possible, count, seed)

    def right_wordings(self, phrase: str) -> set[str]:
        """Return the wordings that are right for a phrase, folded."""
        links = self.table.get(phrase, {})
        least = max(2, 0.01 * sum(links.values()))
        linked_wordings = {word for word, count in links.items() if count >= least and self.target.usable(word)}
        return linked_wordings | self.entries.get(phrase, set())


def write_queries(
    path: Path,
    language: Language,
    domains: dict[str, str],
    meanings: Meanings | MeaningsByMates,
    bound: set[tuple[str, str]],
) -> None:
    """Write the drawn queries of a language; ``bound`` is that of `usual_wordings`."""
    lines, tagger = [], Tagger() if find_spec("HanTa") else None
    lemmas_of = language.target.lemmas
    for query in language.queries:
        right = language.right_wordings(query.phrase) | {query.wording}
        senses = sense(query, language, right, meanings)
        first_word = TokenizedSentence.of(query.text[query.start : query.end]).words()[0].casefold()
        record = {
            **place(query),
            **{"source": query.source, "domain": domains[query.source]},
            "right": sorted(set(map(lemmas_of, right))),
            "sense": None if senses is None else sorted(set(map(lemmas_of, senses))),
            "usual": sorted(usual_wordings(query, right, language, bound)),
            "function_start": first_word in language.functions,
            "wording": query.wording,
        }
        if tagger is not None:
            record["part_of_speech"] = tagger(query)
        lines.append(json.dumps(record, ensure_ascii=False) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    several = sum('"sense": null' not in line for line in lines)
    print(f"{language.code}: {len(lines)} queries, {several} ambiguous", flush=True)


def write_senses(path: Path, languages: Iterable[Language], meanings: Meanings | MeaningsByMates, seed: int) -> None:
    """Write the ambiguous phrases of all languages."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for language in languages:
            records = list(ambiguous(language, meanings, seed))
            file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
            print(f"{language.code}: {len(records)} ambiguous phrases for the senses", flush=True)


def write_into(args: argparse.Namespace, domains: dict[str, str]) -> None:
    """Write English queries and a collection of another language."""
    into = args.into
    table = from_english(phrase_table(args.folder / f"{into}.phrases.tsv"))
    target = Target(into, frequent(args.folder, into))
    english = Language("en", target, table, dictionary(args.data, into, into), ENGLISH_FUNCTION_WORDS)
    english.draw(args.folder, into, domains, args.queries, args.seed)
    meanings = MeaningsByMates(args.folder, target, {query.phrase for query in english.possible})
    write_queries(args.out / "en.jsonl", english, domains, meanings, set())
    write_senses(args.out / "senses.jsonl", [english], meanings, args.seed)
    mates = {query.mate for query in english.queries}
    texts = collection_of(args.folder, into, mates, SIZES[0], args.seed)
    write_lines(args.out / f"{into}-{SIZES[0]}.txt", texts)
    print(f"{into}: {len(texts):,} sentences")


def main() -> None:
    """Write queries and collections."""
    options = parser(__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("out", type=Path)
    options.add_argument("--queries", type=int, default=400, help="queries of each language")
    options.add_argument("--langs", default="de fr es ru ja zh tr hu cs it pl ko")
    options.add_argument("--unlisted", action="store_true", help="write words that the lexicon lacks to OUT/unlisted")
    options.add_argument("--into", help="write English queries for text of this language instead")
    args = options.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    domains, langs = domains_of(args.data), args.langs.split()
    if args.into:
        write_into(args, domains)
        return
    if args.unlisted:
        write_unlisted(args.folder, args.out, args.data, langs, args.queries, args.seed)
        return
    tables = {path.name.split(".")[0]: phrase_table(path) for path in sorted(args.folder.glob("*.phrases.tsv"))}
    languages = []
    for lang in langs:
        languages.append(
            Language(lang, ENGLISH, tables[lang], dictionary(args.data, lang), frequent(args.folder, lang))
        )
        languages[-1].draw(args.folder, lang, domains, args.queries, args.seed)
    wordings = {word for one in languages for query in one.queries for word in one.right_wordings(query.phrase)}
    english = {text for lang in langs for text in islice(english_side(args.folder, lang), SENTENCES // len(langs))}
    bound = bound_words(wordings, english)
    links = {word for one in languages for query in one.possible for word in one.table[query.phrase]}
    meanings = Meanings(tables, wordings | links)
    for language in languages:
        write_queries(args.out / f"{language.code}.jsonl", language, domains, meanings, bound)
    write_senses(args.out / "senses.jsonl", languages, meanings, args.seed)
    mates = {query.mate for language in languages for query in language.queries}
    for size in SIZES:
        texts = collection(args.folder, args.data, mates, size, args.seed)
        write_lines(args.out / f"en-{size}.txt", texts)
        print(f"{size}: {len(texts):,} sentences")


if __name__ == "__main__":
    main()

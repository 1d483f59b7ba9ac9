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
- ``english-20000.txt`` and ``english-100000.txt``: English sentences of held-out pairs, law, medicine and literature,
  none of them the mate of a query.

With --unlisted, the script writes the folder ``unlisted`` of this set instead: XX.jsonl with words that the bundled
lexicon lacks, and the same collections. All links of such a word are right wordings, as most are linked only once.

Half of the queries of a language are dev, half are test, decided by the sentence alone. A phrase is ambiguous if two of
its usual English wordings share hardly any translation in the other languages.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from common import LANGS, dictionary_rows, parser
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
SAME, OTHER = 0.10, 0.02  # least overlap of translations of equal meanings, and most overlap of different ones
USUAL, SCARCE = 0.1, 10  # least share of a phrase's links of a usual wording; number of links below which it is unknown
INSIDE = 0.5  # share of a word's occurrences inside an expression that make it a part of this fixed expression
SENTENCES = 200_000  # number of sentences in which these occurrences are counted
PARTS_OF_SPEECH = {"NN": "noun", "VV": "verb", "AJ": "adjective", "AV": "adverb", "NP": "name"}  # by beginning of tag

Counts = dict[str, dict[str, int]]


class Query(NamedTuple):
    """Phrase of a held-out sentence pair, and the English wording that it is linked to there."""

    text: str
    start: int
    end: int
    mate: str
    english: str
    source: str


def phrase_of(query: Query) -> str:
    """Return the phrase of a query, folded."""
    return folded(query.text[query.start : query.end])


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


def dictionary(data: Path, lang: str) -> dict[str, set[str]]:
    """Return wording -> English wordings of the term lists and dictionaries."""
    entries: dict[str, set[str]] = defaultdict(set)
    for english, other in dictionary_rows(data, lang):
        entries[folded(other)].add(folded(english))
    return entries


def right_wordings(phrase: str, table: Counts, entries: dict[str, set[str]]) -> set[str]:
    """Return the English wordings that are right for a phrase, folded."""
    links = table.get(phrase, {})
    least = max(2, 0.01 * sum(links.values()))
    return {english for english, count in links.items() if count >= least and usable(english)} | entries.get(
        phrase, set()
    )


def usable(english: str) -> bool:
    """Return whether a wording has a word that is not a function word."""
    return any(word not in ENGLISH_FUNCTION_WORDS for word in english.split())


def frequent(folder: Path, lang: str) -> frozenset[str]:
    """Return the most frequent words of a language, which carry grammar rather than meaning."""
    counts: Counter[str] = Counter()
    with (folder / f"{lang}.tsv").open(encoding="utf-8", newline="\n") as file:
        for line in islice(file, 20_000):
            counts.update(word.casefold() for word in TokenizedSentence.of(line.split("\t")[0]).words())
    return frozenset(word for word, _ in counts.most_common(FREQUENT))


def candidates(
    folder: Path, lang: str, table: Counts, functions: frozenset[str], domains: dict[str, str]
) -> Iterator[Query]:
    """Yield phrases of held-out pairs of general language whose link is a usual one of their wording."""
    for other, english, source, _, links in rows(folder, lang):
        if not held_out(english) or domains.get(source, TECHNICAL) == TECHNICAL:
            continue
        worded = TokenizedSentence.of(other)
        for start, end, first, last in spans(worded, TokenizedSentence.of(english), links, 5):
            phrase, wording = folded(other[start:end]), folded(english[first:last])
            links_of = table.get(phrase, {})
            if links_of.get(wording, 0) < max(2, 0.05 * sum(links_of.values())) or not usable(wording):
                continue
            inside = [word.casefold() for word in TokenizedSentence.of(phrase).words()]
            if meaningful(inside, wording.split(), functions, links_of[wording]):
                yield Query(other, start, end, english, wording, source)


def meaningful(inside: list[str], wording: list[str], functions: frozenset[str], links: int) -> bool:
    """Return whether a user might look the phrase up, as opposed to a random run of words.

    The phrase ends in a content word, and so does its translation. A phrase of several words has no pronoun or
    auxiliary. If it begins with a function word, its translation begins with a preposition and is linked at least three
    times.
    """
    if inside[-1] in functions or not any(map(str.isalpha, inside[-1])) or wording[-1] in ENGLISH_FUNCTION_WORDS:
        return False
    if len(inside) > 1 and not GRAMMAR.isdisjoint(wording):
        return False
    if len(inside) > 1 and (inside[0] in functions or wording[0] in ENGLISH_FUNCTION_WORDS):
        return inside[0] in functions and wording[0] in PREPOSITIONS and links > 2
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
            content = usable(wording) and wording.split()[-1] not in ENGLISH_FUNCTION_WORDS
            if is_word and content and not lexicon._rows(lang, word)[0]:
                yield Query(other, start, end, english, wording, source)


def write_unlisted(folder: Path, out: Path, data: Path, langs: Sequence[str], count: int, seed: int) -> None:
    """Write queries of words that the lexicon lacks, with the collections of ``out``, as a separate set."""
    target = out / "unlisted"
    target.mkdir(exist_ok=True)
    for size in SIZES:
        shutil.copy(out / f"english-{size}.txt", target)
    sentences = set((out / f"english-{SIZES[-1]}.txt").read_text("utf-8").split("\n"))
    domains = domains_of(data)
    for lang in langs:
        queries = drawn(unlisted(folder, lang, domains, sentences), 2 * count, seed)
        links: dict[str, set[str]] = defaultdict(set)
        for other, english, _, _ in linked(folder / f"{lang}.phrases.tsv"):
            if usable(english):
                links[other].add(english)
        entries, lines = dictionary(data, lang), []
        for query in queries:
            word = query.text[query.start : query.end]
            right = {lemmas(english) for english in {query.english} | links[word] | entries.get(word, set())}
            facts = {"source": query.source, "domain": domains[query.source], "right": sorted(right), "sense": None}
            lines.append(
                json.dumps({**place(query, lang), **facts, "function_start": False}, ensure_ascii=False) + "\n"
            )
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
            phrase = phrase_of(query)
            length = min(len(TokenizedSentence.of(phrase).spans), 3)
            if room[length] and phrase not in phrases:
                room[length] -= 1
                phrases.add(phrase)
                chosen.append(query)
                break
        if not any(room.values()):
            break
    return chosen


def usual_wordings(
    query: Query, right: set[str], table: Counts, entries: dict[str, set[str]], bound: set[tuple[str, str]]
) -> set[str]:
    """Return the right wordings, as lemmas, that are usual and not only occasional.

    A wording is usual if it has at least the share `USUAL` of the phrase's links, counting its inflected forms
    together. The wording in the sentence's own translation is usual too. So are a dictionary's wordings, if the phrase
    has fewer links than `SCARCE`. ``bound`` has words and the fixed expressions that they belong to. Such a word is not
    usual if its expression is right ("spite" beside "in spite of").
    """
    phrase = phrase_of(query)
    links = table.get(phrase, {})
    total, counts = sum(links.values()), Counter[str]()
    for english, count in links.items():
        counts[lemmas(english)] += count
    usual = {wording for wording in map(lemmas, right) if counts[wording] >= max(2, USUAL * total)}
    if total < SCARCE:
        usual |= set(map(lemmas, entries.get(phrase, set())))
    usual -= {lemmas(word) for word, expression in bound if expression in right}
    return usual | {lemmas(query.english)}


def bound_words(wordings: Iterable[str], sentences: Iterable[str]) -> set[tuple[str, str]]:
    """Return words with the expressions in which they mostly occur.

    An expression is a preposition and the word, perhaps with more function words.
    """
    expressions: dict[str, set[str]] = defaultdict(set)
    for wording in wordings:
        first, *rest = wording.split()
        content = [word for word in rest if usable(word)]
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
        """Return the part of speech of a query's English wording in the mate.

        It is that of the wording's last word, or "verb" if the wording begins with a verb.
        """
        text = TokenizedSentence.of(query.mate).words()
        wording = query.english.split()
        forms = [word.casefold() for word in text]
        places = [at for at in range(len(text)) if forms[at : at + len(wording)] == wording]
        if not places:
            return "other"
        tags = [tag[:2] for _, _, tag in self._tagger.tag_sent(text)[places[0] : places[0] + len(wording)]]
        kinds = [PARTS_OF_SPEECH.get(tag, "other") for tag in tags]
        return "verb" if kinds[0] == "verb" else kinds[-1]


class Meanings:
    """Overlap in meaning of English wordings, measured by their translations into other languages."""

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

    def overlap(self, one: str, two: str, without: str) -> float | None:
        """Return the sum of the smaller shares of each translation, as the mean over the languages except ``without``.

        None if fewer than two languages have both wordings.
        """
        a, b = self.profiles.get(one, {}), self.profiles.get(two, {})
        shared = [
            sum(min(share, b[lang].get(other, 0.0)) for other, share in a[lang].items())
            for lang in a.keys() & b.keys()
            if lang != without
        ]
        return sum(shared) / len(shared) if len(shared) >= 2 else None


def sense(query: Query, lang: str, table: Counts, right: set[str], meanings: Meanings) -> set[str] | None:
    """Return the right wordings with the meaning that the phrase has here; None if it is not ambiguous."""
    links = table[phrase_of(query)]
    total = sum(links.values())
    usual = [english for english, count in links.items() if count >= max(3, COMMON * total) and usable(english)]
    overlaps = {english: meanings.overlap(query.english, english, lang) for english in right | set(usual)}
    overlaps[query.english] = 1.0

    def apart(english: str) -> bool:
        value = overlaps[english]
        return (
            value is not None
            and value < OTHER
            and not set(lemmas(english).split()) & set(lemmas(query.english).split())
        )

    if not any(apart(english) for english in usual):
        return None
    return {english for english in right if (overlaps[english] or 0.0) >= SAME}


def other_senses(query: Query, lang: str, right: set[str], meanings: Meanings) -> set[str]:
    """Return the right wordings that mean something else than the phrase does here."""
    overlaps = {english: meanings.overlap(query.english, english, lang) for english in right}
    return {english for english, overlap in overlaps.items() if overlap is not None and overlap < OTHER}


def ambiguous(
    queries: list[Query], lang: str, table: Counts, entries: dict[str, set[str]], meanings: Meanings, seed: int
) -> Iterator[dict[str, object]]:
    """Yield at most `SENSES` records of ambiguous phrases, one for each sentence and `REPEATED` for each wording."""
    queries = sorted(queries)
    random.Random(seed).shuffle(queries)
    wordings: Counter[str] = Counter()
    sentences: set[str] = set()
    for query in queries:
        phrase = phrase_of(query)
        if query.text in sentences or wordings[phrase] == REPEATED:
            continue
        right = right_wordings(phrase, table, entries) | {query.english}
        senses = sense(query, lang, table, right, meanings)
        if senses is None:
            continue
        wordings[phrase] += 1
        sentences.add(query.text)
        same = {lemmas(english) for english in senses}
        yield {
            **place(query, lang),
            "right": sorted(same),
            "other": sorted({lemmas(english) for english in other_senses(query, lang, right, meanings)} - same),
            "mate": query.mate,
        }
        if len(sentences) == SENSES:
            return


def english_side(folder: Path, lang: str) -> Iterator[str]:
    """Yield the English sentences of a language's pairs."""
    with (folder / f"{lang}.tsv").open(encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.split("\t")[1]


def place(query: Query, lang: str) -> dict[str, object]:
    """Return the place of a phrase and its half (dev or test), which the sentence alone decides."""
    digest = blake2b(query.text.encode("utf-8", "surrogatepass"), digest_size=4).digest()
    half = "dev" if digest[0] % 2 else "test"
    return {"text": query.text, "start": query.start, "end": query.end, "language": lang, "half": half}


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


class Language(NamedTuple):
    """Data of one language: phrase table, dictionary, function words, all queries, and the drawn ones with answers."""

    table: Counts
    entries: dict[str, set[str]]
    functions: frozenset[str]
    possible: list[Query]
    queries: list[Query]
    rights: list[set[str]]

    @classmethod
    def read(
        cls, folder: Path, data: Path, lang: str, table: Counts, domains: dict[str, str], count: int, seed: int
    ) -> Language:
        """Find the queries of a language and draw ``count`` of them."""
        functions, entries = frequent(folder, lang), dictionary(data, lang)
        possible = list(candidates(folder, lang, table, functions, domains))
        queries = drawn(possible, count, seed)
        rights = [right_wordings(phrase_of(query), table, entries) for query in queries]
        return cls(table, entries, functions, possible, queries, rights)


def write_queries(
    path: Path,
    lang: str,
    language: Language,
    domains: dict[str, str],
    meanings: Meanings,
    bound: set[tuple[str, str]],
) -> None:
    """Write the drawn queries of a language; ``bound`` is that of `usual_wordings`."""
    lines, tagger = [], Tagger() if find_spec("HanTa") else None
    for query, wordings in zip(language.queries, language.rights, strict=True):
        right = wordings | {query.english}
        senses = sense(query, lang, language.table, right, meanings)
        first_word = TokenizedSentence.of(query.text[query.start : query.end]).words()[0].casefold()
        record = {
            **place(query, lang),
            **{"source": query.source, "domain": domains[query.source]},
            "right": sorted({lemmas(english) for english in right}),
            "sense": None if senses is None else sorted({lemmas(english) for english in senses}),
            "usual": sorted(usual_wordings(query, right, language.table, language.entries, bound)),
            "function_start": first_word in language.functions,
            "english": query.english,
        }
        if tagger is not None:
            record["part_of_speech"] = tagger(query)
        lines.append(json.dumps(record, ensure_ascii=False) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    several = sum('"sense": null' not in line for line in lines)
    print(f"{lang}: {len(lines)} queries, {several} ambiguous", flush=True)


def write_senses(path: Path, languages: dict[str, Language], meanings: Meanings, seed: int) -> None:
    """Write the ambiguous phrases of all languages."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for lang, (table, entries, _, possible, *_) in languages.items():
            records = list(ambiguous(possible, lang, table, entries, meanings, seed))
            file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
            print(f"{lang}: {len(records)} ambiguous phrases for the senses", flush=True)


def write_collections(folder: Path, out: Path, data: Path, mates: set[str], seed: int) -> None:
    """Write the collections without the mates of the queries."""
    for size in SIZES:
        texts = collection(folder, data, mates, size, seed)
        (out / f"english-{size}.txt").write_text("".join(text + "\n" for text in texts), encoding="utf-8")
        print(f"{size}: {len(texts):,} sentences")


def main() -> None:
    """Write queries and collections."""
    options = parser(__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("out", type=Path)
    options.add_argument("--queries", type=int, default=400, help="queries of each language")
    options.add_argument("--langs", default="de fr es ru ja zh tr hu cs it pl ko")
    options.add_argument("--unlisted", action="store_true", help="write words that the lexicon lacks to OUT/unlisted")
    args = options.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    domains, langs = domains_of(args.data), args.langs.split()
    if args.unlisted:
        write_unlisted(args.folder, args.out, args.data, langs, args.queries, args.seed)
        return
    tables = {path.name.split(".")[0]: phrase_table(path) for path in sorted(args.folder.glob("*.phrases.tsv"))}
    languages = {
        lang: Language.read(args.folder, args.data, lang, tables[lang], domains, args.queries, args.seed)
        for lang in langs
    }
    wordings = {english for language in languages.values() for right in language.rights for english in right}
    english = {text for lang in langs for text in islice(english_side(args.folder, lang), SENTENCES // len(langs))}
    bound = bound_words(wordings, english)
    links = {e for one in languages.values() for query in one.possible for e in one.table[phrase_of(query)]}
    meanings = Meanings(tables, wordings | links)
    for lang, language in languages.items():
        write_queries(args.out / f"{lang}.jsonl", lang, language, domains, meanings, bound)
    write_senses(args.out / "senses.jsonl", languages, meanings, args.seed)
    mates = {query.mate for language in languages.values() for query in language.queries}
    write_collections(args.folder, args.out, args.data, mates, args.seed)


if __name__ == "__main__":
    main()

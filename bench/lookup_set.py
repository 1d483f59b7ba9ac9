"""The lookup yardstick: marked phrases of held-out sentence pairs, their right wordings, and collections without mates.

    python bench/lookup_set.py .cache/general .cache/lookup

Reads what bench/general_data.py and bench/phrase_table.py wrote. Writes

- ``XX.jsonl``, a query a line: text, start, end (characters), language, source, domain, half ("dev" or "test"),
  function_start, right (English wordings, lemmas, that the phrase is linked to at least twice in all parallel data, or
  that a dictionary gives), sense (those of them that mean what the phrase means here; only where it is ambiguous),
  usual (those of them that are usual, see `usual_wordings`), part_of_speech (of the translation in the sentence's mate:
  noun, verb, adjective, adverb, name or other; only where HanTa is installed: ``pip install hanta``);
- ``senses.jsonl``: ambiguous phrases alone, with right (as sense above), other (the wordings of the other meanings) and
  mate (the translation, which must be left out of a search: it may stand in the collections);
- ``english-20000.txt`` and ``english-100000.txt``: English sentences of held-out pairs, law, medicine and literature;
  none is the mate of a query.

With --unlisted, it writes the folder ``unlisted`` of this set instead: XX.jsonl with words that the bundled lexicon
lacks, and the same collections. The right wordings of a word are all that it is linked to, as most are linked once.

Half of the queries of a language is dev, half test, decided by the sentence alone. A phrase is ambiguous if two of its
usual English wordings have hardly a translation in common in the other languages.
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
LENGTHS = {1: 0.5, 2: 0.3, 3: 0.2}  # share of the queries with so many words (3: and more)
TECHNICAL = "technical"  # domain of the sources that are not asked for
GRAMMAR = frozenset(
    """
    i you he she it we they me him her us them is are was were be been am do does did have has had will
    would shall should can could may might must not no this that these those who which what
    """.split()  # noqa: SIM905
)
ENGLISH_FUNCTION_WORDS = frozenset(  # with particles of verbs; the sets that are published were chosen with these
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
SHORTEST = 4  # letters of a word that the lexicon lacks
FREQUENT = 60  # words of a language that count as function words
SENSES, REPEATED = 300, 4  # ambiguous phrases of a language, and of one wording
COMMON = 0.1  # of a wording's links, for another meaning to be a usual one
SAME, OTHER = 0.10, 0.02  # overlap of translations above and below which two wordings mean the same, or do not
USUAL, SCARCE = 0.1, 10  # of a phrase's links, for a wording to be usual; links of a phrase that are too few to tell
INSIDE = 0.5  # of a word's occurrences within a longer wording, for it to be a part of a fixed expression
SENTENCES = 200_000  # in which these occurrences are counted
PARTS_OF_SPEECH = {"NN": "noun", "VV": "verb", "AJ": "adjective", "AV": "adverb", "NP": "name"}  # tags begin so

Counts = dict[str, dict[str, int]]


class Query(NamedTuple):
    """A phrase of a held-out sentence pair, and what it is linked to there."""

    text: str
    start: int
    end: int
    mate: str
    english: str
    source: str


def domains_of(data: Path) -> dict[str, str]:
    """Source -> domain."""
    with (data / "parallel_general" / "SOURCES.tsv").open(encoding="utf-8") as file:
        return {row["source"]: row["domain"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}


def phrase_table(path: Path) -> Counts:
    """Wording -> English wording -> links in all pairs."""
    table: Counts = defaultdict(dict)
    for other, english, count, _ in linked(path):
        if count > 1:
            table[other][english] = count
    return table


def dictionary(data: Path, lang: str) -> dict[str, set[str]]:
    """Wording -> English wordings of the lists of terms and dictionaries."""
    entries: dict[str, set[str]] = defaultdict(set)
    for english, other in dictionary_rows(data, lang):
        entries[folded(other)].add(folded(english))
    return entries


def right_wordings(phrase: str, table: Counts, entries: dict[str, set[str]]) -> set[str]:
    """English wordings that are right for a phrase, folded."""
    links = table.get(phrase, {})
    least = max(2, 0.01 * sum(links.values()))
    return {english for english, count in links.items() if count >= least and usable(english)} | entries.get(
        phrase, set()
    )


def usable(english: str) -> bool:
    """Whether a wording is more than function words."""
    return any(word not in ENGLISH_FUNCTION_WORDS for word in english.split())


def frequent(folder: Path, lang: str) -> frozenset[str]:
    """The most frequent words of a language, which carry grammar rather than meaning."""
    counts: Counter[str] = Counter()
    with (folder / f"{lang}.tsv").open(encoding="utf-8", newline="\n") as file:
        for line in islice(file, 20_000):
            counts.update(word.casefold() for word in TokenizedSentence.of(line.split("\t")[0]).words())
    return frozenset(word for word, _ in counts.most_common(FREQUENT))


def candidates(
    folder: Path, lang: str, table: Counts, functions: frozenset[str], domains: dict[str, str]
) -> Iterator[Query]:
    """The phrases of held-out pairs of general language whose link is a usual one of their wording."""
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
    """Whether somebody would look the words of a phrase up, not a run of words that a sentence happens to have.

    It ends in a content word, and its translation, too. Several words hold no pronoun and no auxiliary. One that begins
    with a function word has a translation that begins with a preposition, and is linked three times.
    """
    if inside[-1] in functions or not any(map(str.isalpha, inside[-1])) or wording[-1] in ENGLISH_FUNCTION_WORDS:
        return False
    if len(inside) > 1 and not GRAMMAR.isdisjoint(wording):
        return False
    if len(inside) > 1 and (inside[0] in functions or wording[0] in ENGLISH_FUNCTION_WORDS):
        return inside[0] in functions and wording[0] in PREPOSITIONS and links > 2
    return inside[0] not in functions


def unlisted(folder: Path, lang: str, domains: dict[str, str], collection: set[str]) -> Iterator[Query]:
    """Words of held-out pairs of general language that the bundled lexicon lacks, in every form with the same stem.

    ``collection``: sentences; pairs are left out whose English side is one of them. A word has four letters or more,
    none of them a capital, and is linked to at most three English words, the last of which is a content word.
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
    """Write look-ups of words that the lexicon lacks, in the collections of ``out``, as a set of their own."""
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
    """At most ``count`` queries: one a sentence, one a wording and half, lengths in the shares of `LENGTHS`."""
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
            phrase = folded(query.text[query.start : query.end])
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
    """The right wordings, as lemmas, that somebody would give first, not only now and then.

    A wording is usual with at least `USUAL` of the phrase's links, its inflected forms together. So is the one in the
    sentence's own translation, and a dictionary's where the phrase has fewer links than `SCARCE`. ``bound``: words and
    the fixed expressions that they belong to; such a word is not usual where its expression is right ("spite" beside
    "in spite of").
    """
    phrase = folded(query.text[query.start : query.end])
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
    """Words with the expressions in which they mostly occur: a preposition, the word, perhaps more function words."""
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
    """Parts of speech by HanTa's English model."""

    def __init__(self) -> None:
        from HanTa.HanoverTagger import HanoverTagger

        self._tagger = HanoverTagger("morphmodel_en.pgz")

    def __call__(self, query: Query) -> str:
        """That of a query's English wording in the mate: of its last word, or "verb" where it begins with one."""
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
    """Which English wordings mean the same: how much their translations into other languages overlap."""

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
        """Mean, over the languages but one, of the sum of the smaller shares; None where fewer than two know both."""
        a, b = self.profiles.get(one, {}), self.profiles.get(two, {})
        shared = [
            sum(min(share, b[lang].get(other, 0.0)) for other, share in a[lang].items())
            for lang in a.keys() & b.keys()
            if lang != without
        ]
        return sum(shared) / len(shared) if len(shared) >= 2 else None


def sense(query: Query, lang: str, table: Counts, right: set[str], meanings: Meanings) -> set[str] | None:
    """The right wordings with the meaning that the phrase has here; None where it is not ambiguous."""
    links = table[folded(query.text[query.start : query.end])]
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
    """The right wordings that mean something else than the phrase does here."""
    overlaps = {english: meanings.overlap(query.english, english, lang) for english in right}
    return {english for english, overlap in overlaps.items() if overlap is not None and overlap < OTHER}


def ambiguous(
    queries: list[Query], lang: str, table: Counts, entries: dict[str, set[str]], meanings: Meanings, seed: int
) -> Iterator[dict[str, object]]:
    """At most `SENSES` records of ambiguous phrases: one a sentence, `REPEATED` a wording."""
    queries = sorted(queries)
    random.Random(seed).shuffle(queries)
    wordings: Counter[str] = Counter()
    sentences: set[str] = set()
    for query in queries:
        phrase = folded(query.text[query.start : query.end])
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
    """The English sentences of a language's pairs."""
    with (folder / f"{lang}.tsv").open(encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.split("\t")[1]


def place(query: Query, lang: str) -> dict[str, object]:
    """Where a phrase stands, and its half: dev or test, by the sentence alone."""
    digest = blake2b(query.text.encode("utf-8", "surrogatepass"), digest_size=4).digest()
    half = "dev" if digest[0] % 2 else "test"
    return {"text": query.text, "start": query.start, "end": query.end, "language": lang, "half": half}


def collection(folder: Path, data: Path, mates: set[str], size: int, seed: int) -> list[str]:
    """Sentences: two fifths of held-out pairs, the rest law, medicine and literature alike."""
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


def main() -> None:
    """Write queries and collections."""
    options = parser(__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("out", type=Path)
    options.add_argument("--queries", type=int, default=400, help="of each language")
    options.add_argument("--langs", default="de fr es ru ja zh tr hu cs it pl ko")
    options.add_argument("--unlisted", action="store_true", help="words that the lexicon lacks, as OUT/unlisted")
    args = options.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    domains, langs = domains_of(args.data), args.langs.split()
    if args.unlisted:
        write_unlisted(args.folder, args.out, args.data, langs, args.queries, args.seed)
        return
    possible, queries, rights, functions = {}, {}, {}, {}
    tables = {path.name.split(".")[0]: phrase_table(path) for path in sorted(args.folder.glob("*.phrases.tsv"))}
    for lang in langs:
        functions[lang] = frequent(args.folder, lang)
        possible[lang] = list(candidates(args.folder, lang, tables[lang], functions[lang], domains))
        queries[lang] = drawn(possible[lang], args.queries, args.seed)
        entries = dictionary(args.data, lang)
        rights[lang] = [right_wordings(folded(q.text[q.start : q.end]), tables[lang], entries) for q in queries[lang]]
    wordings = {english for some in rights.values() for right in some for english in right}
    wordings |= {e for lang in langs for q in possible[lang] for e in tables[lang][folded(q.text[q.start : q.end])]}
    meanings = Meanings(tables, wordings)
    english = {text for lang in langs for text in islice(english_side(args.folder, lang), SENTENCES // len(langs))}
    bound = bound_words({wording for some in rights.values() for right in some for wording in right}, english)
    tagger = Tagger() if find_spec("HanTa") else None
    mates = {query.mate for some in queries.values() for query in some}
    for lang in langs:
        lines, entries = [], dictionary(args.data, lang)
        for query, right in zip(queries[lang], rights[lang], strict=True):
            right |= {query.english}
            senses = sense(query, lang, tables[lang], right, meanings)
            record = {
                **place(query, lang),
                **{"source": query.source, "domain": domains[query.source]},
                "right": sorted({lemmas(english) for english in right}),
                "sense": None if senses is None else sorted({lemmas(english) for english in senses}),
                "usual": sorted(usual_wordings(query, right, tables[lang], entries, bound)),
                "function_start": TokenizedSentence.of(query.text[query.start : query.end]).words()[0].casefold()
                in functions[lang],
                "english": query.english,
            }
            if tagger is not None:
                record["part_of_speech"] = tagger(query)
            lines.append(json.dumps(record, ensure_ascii=False) + "\n")
        (args.out / f"{lang}.jsonl").write_text("".join(lines), encoding="utf-8")
        several = sum('"sense": null' not in line for line in lines)
        print(f"{lang}: {len(lines)} queries, {several} ambiguous", flush=True)
    with (args.out / "senses.jsonl").open("w", encoding="utf-8", newline="\n") as file:
        for lang in langs:
            entries = dictionary(args.data, lang)
            records = list(ambiguous(possible[lang], lang, tables[lang], entries, meanings, args.seed))
            file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
            print(f"{lang}: {len(records)} ambiguous phrases for the senses", flush=True)
    for size in SIZES:
        texts = collection(args.folder, args.data, mates, size, args.seed)
        (args.out / f"english-{size}.txt").write_text("".join(text + "\n" for text in texts), encoding="utf-8")
        print(f"{size}: {len(texts):,} sentences")


if __name__ == "__main__":
    main()

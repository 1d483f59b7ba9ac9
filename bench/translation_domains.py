"""Write texts to measure translation with hints on (law, medicine, procurement), and general text to tune a model.

    python bench/translation_domains.py .cache/mt
    python bench/translation_domains.py .cache/mt-es --lang es

The script writes ``law/`` (French only), ``medicine/`` (if TICO-19 has the language), ``procurement/`` and
``general/``. A domain has ``index.en`` and ``index.fr`` (sentences to search), ``test.*`` and ``dev.*`` (sentence
pairs, line by line) and ``terms.tsv`` (the term base).

Law is Canadian statutes. Medicine is TICO-19, with MedQuAD in the English index. Procurement is the eForms of the EU,
without sentences that have a figure or an apostrophe (rules that differ by a code), with Europarl in the English index.

Sentences of test and dev are among those that the lookup yardstick holds out (``phrase_table.py``), so neither the
lexicon nor the bundled model was made from them. Each has a term of the term base whose equivalent is in its
translation. Neither they nor any parts of them are in an index, and they are not entries of the term base.

``general/lessons.tsv`` has pairs of none of these domains (other language, English). The index for lessons has both
sides of them.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import random
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from common import parser, table_rows, write_lines
from phrase_table import held_out
from training_data import key, tested

from phrasemate.lexicon import open_dictionaries
from phrasemate.mt.scores import terms_of
from phrasemate.text import words

LETTERS = 40, 240  # least and most characters of a test sentence
LAW, MEDICINE, PROCUREMENT = "canada_law", "tico19", "eforms"
CODES_LEFT_OUT = re.compile(r"nuts|country|language|currency|\.(true|false|yes|no)$")
GENERAL = ("europarl", "mt_geneval", "wmt_newstest2012", "tatoeba", "transread", "cocoa_mt")

Pair = tuple[str, str]  # the other language, English


def pairs_of(data: Path, lang: str, sources: Iterable[str]) -> dict[str, list[Pair]]:
    """Return pairs by source, without the sentences of any test set of the data."""
    unwanted, by_source = tested(data), {source: list[Pair]() for source in sources}
    for english, other, source in table_rows(data / "parallel_general" / f"en-{lang}.tsv.gz"):
        if source in by_source and unwanted.isdisjoint((key(english), key(other))):
            by_source[source].append((other, english))
    return by_source


def medical_terms(data: Path, lang: str) -> list[Pair]:
    """Return the terms of TICO-19 (other language, English)."""
    (path,) = (data / "terms_general" / "tico19").glob(f"tico19_f_en-{lang}_*.csv")
    with path.open(encoding="utf-8", newline="") as file:
        return [(row["targetString"], row["sourceString"]) for row in csv.DictReader(file)]


def procurement_terms(data: Path, lang: str) -> list[Pair]:
    """Return names of codes of the eForms (other language, English), of up to four English words.

    Places, countries, languages and currencies are left out.
    """
    names, *rows = table_rows(data / "terms_general" / "eu_eforms_codes.16langs.tsv.gz")
    pairs = [(row[names.index(lang)], row[names.index("en")]) for row in rows if not CODES_LEFT_OUT.search(row[0])]
    return [(other, english) for other, english in pairs if other != english and len(words(english)) <= 4]


def write_domain(
    folder: Path, pairs: Sequence[Pair], more: Sequence[str], terms: Sequence[Pair], args: argparse.Namespace
) -> None:
    """Write the files of a domain; ``more`` are English sentences for the index."""
    draw, lang, count = random.Random(args.seed), args.lang, args.count
    unique = {key(other): (other, english) for other, english in pairs}
    candidates = [
        pair
        for pair in unique.values()
        if held_out(pair[1]) and all(LETTERS[0] <= len(side) <= LETTERS[1] for side in pair)
    ]
    draw.shuffle(candidates)
    questions = {key(side) for pair in candidates for side in pair}
    entries = ["\t".join(term) for term in dict.fromkeys(terms) if questions.isdisjoint(map(key, term))]
    write_lines(folder / "terms.tsv", [f"{lang}\ten", *entries])
    (dictionary,) = open_dictionaries([folder / "terms.tsv"])
    lines = [term.line for term in terms_of(*zip(*candidates, strict=True), [dictionary], lang, "en")]
    with_terms = [candidates[line] for line in dict.fromkeys(lines)]
    size = min(count, len(with_terms) * 3 // 4)
    for name, part in (("test", with_terms[:size]), ("dev", with_terms[size : size + count])):
        write_lines(folder / f"{name}.{lang}", (other for other, _ in part))
        write_lines(folder / f"{name}.en", (english for _, english in part))
    rest = [pair for pair in unique.values() if not held_out(pair[1])]
    draw.shuffle(rest)
    write_indexes(folder, rest, more, questions, args, draw)
    print(f"{folder}: {len(pairs):,} pairs, {len(candidates):,} held out, {len(with_terms):,} of them with a term")


def write_indexes(
    folder: Path,
    rest: Sequence[Pair],
    more: Sequence[str],
    questions: set[str],
    args: argparse.Namespace,
    draw: random.Random,
) -> None:
    """Write the sentences of both indexes, without the questions and without parts of them.

    Args:
        folder: Folder of the domain.
        rest: Shuffled pairs that are not held out.
        more: Further English sentences.
        questions: Sides of the held-out pairs, in the form of `key`.
        args: Options of the script.
        draw: Source of random numbers.
    """
    english = [english for _, english in rest[: args.index]]
    english += draw.sample(list(more), min(len(more), args.index - len(english)))
    others = [other for other, _ in rest[: args.index]]
    for name, sentences in (("index.en", english), (f"index.{args.lang}", others)):
        keys = {text: key(text) for text in sentences}
        parts = {letters for letters in keys.values() if any(letters in q or q in letters for q in questions)}
        write_lines(folder / name, (text for text, letters in keys.items() if letters not in parts))


def main() -> None:
    """Write the files of the domains and the general text."""
    options = parser(__doc__)
    options.add_argument("out", type=Path)
    options.add_argument("--count", type=int, default=100, help="sentences of test, and at most of dev")
    options.add_argument("--index", type=int, default=10_000, help="sentences of an index")
    options.add_argument("--lessons", type=int, default=5_000, help="general pairs")
    options.add_argument("--lang", default="fr", help="the language that is translated into English")
    args = options.parse_args()
    by_source = pairs_of(args.data, args.lang, (LAW, MEDICINE, PROCUREMENT, *GENERAL))
    parliament = [english for _, english in pairs_of(args.data, "fr", ["europarl"])["europarl"]]
    with gzip.open(args.data / "collections" / "en_medicine_medquad.txt.gz", "rt", encoding="utf-8") as file:
        medical = [line.strip() for line in file]
    if args.lang == "fr":
        terms = table_rows(args.data / "terms_general" / "canada_law_defined_terms.en-fr.tsv.gz")
        write_domain(args.out / "law", by_source[LAW], [], [(french, english) for english, french, *_ in terms], args)
    if by_source[MEDICINE]:
        write_domain(args.out / "medicine", by_source[MEDICINE], medical, medical_terms(args.data, args.lang), args)
    forms = [pair for pair in by_source[PROCUREMENT] if not re.search(r"['\d]", pair[1])]
    write_domain(args.out / "procurement", forms, parliament, procurement_terms(args.data, args.lang), args)
    general = [pair for name in GENERAL for pair in by_source[name] if all(20 <= len(side) <= 200 for side in pair)]
    chosen = random.Random(args.seed).sample(general, min(args.lessons, len(general)))
    write_lines(args.out / "general" / "lessons.tsv", map("\t".join, chosen))
    write_lines(args.out / "general" / f"index.{args.lang}", dict.fromkeys(other for other, _ in chosen))
    write_lines(args.out / "general" / "index.en", dict.fromkeys(english for _, english in chosen))


if __name__ == "__main__":
    main()

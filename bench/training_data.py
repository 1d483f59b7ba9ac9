"""Phrase pairs to train on: parallel text of 13 languages with English, linked by eflomal or by the bundled model.

    python bench/training_data.py .cache/ccpr
    python bench/training_data.py .cache/ccpr2 --aligner softmax --most 10000

Writes en-XX.tsv (other language, English), en-XX.links and en-XX.jsonl for each language. Of each language at most
--most sentence pairs, the sources in equal shares as far as they reach. Left out: the first 15,000 lines of a file
(some are distractors of bench/phrase_retrieval.py), whatever sentence occurs in a test set, pairs with fewer than 4 or
more than 60 words on a side, or where one side has more than 2.2 times as many characters as is usual.

Writes terms-XX.jsonl too: entries of dictionaries and term lists, each a phrase pair without a sentence around it.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from common import parser

from phrasemate import load_model
from phrasemate.align import (
    Aligner,
    EflomalAligner,
    NeuralAligner,
    ParallelText,
    PhraseSettings,
    align_files,
    pair_files,
)
from phrasemate.text import words

LANGS = ("ar", "cs", "de", "es", "fi", "fr", "hu", "ja", "ko", "ro", "ru", "tr", "zh")
DISTRACTORS = ("cs", "de", "es", "fr")  # their first lines are left to the benchmark
FIRST = 15_000
WORDS = (4, 60)
RATIO = 2.2
EVERY = PhraseSettings(max_words=3, rate=1e9)  # function words too, with no more than two words beside them
_EXPLAINED = re.compile(r"[()\[\]{}<>/;:,.!?…~%=&]")
SETTINGS = PhraseSettings(max_words=6, rate=0.06)  # some 50 words of English; technical text repeats its terms


def tested(data: Path) -> set[str]:
    """Sentences of the test sets, as `key` has them."""
    found: set[str] = set()
    for path in (data / "sentence_bench").rglob("*"):
        if path.is_file():
            found.update(map(key, path.read_text(encoding="utf-8").splitlines()))
    for path in (data / "phrase_bench").glob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            found.update(key(json.loads(line)[side]) for side in ("source", "target"))
    return found


def key(text: str) -> str:
    """A sentence without case, white space and punctuation."""
    return "".join(char for char in text.casefold() if char.isalnum())


def pairs(data: Path, lang: str, unwanted: set[str]) -> dict[str, list[tuple[str, str]]]:
    """The usable (other, English) pairs of each source, each English sentence and each other one once."""
    with gzip.open(data / "parallel" / f"en-{lang}.tsv.gz", "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    rows = rows[FIRST if lang in DISTRACTORS else 0 :]
    usual = median(len(other) / max(len(english), 1) for english, other, _ in rows)
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    seen: set[str] = set()
    for english, other, source in rows:
        keys = key(english), key(other)
        ratio = len(other) / max(len(english), 1) / usual
        if not all(keys) or not 1 / RATIO <= ratio <= RATIO or not seen.isdisjoint(keys) or keys[0] == keys[1]:
            continue
        if not unwanted.isdisjoint(keys) or not all(WORDS[0] <= len(words(s)) <= WORDS[1] for s in (english, other)):
            continue
        seen.update(keys)
        found[source].append((other, english))
    return found


def shares(sizes: dict[str, int], most: int) -> dict[str, int]:
    """How many of each source: all of the small ones, the rest alike."""
    given: dict[str, int] = {}
    for place, (name, size) in enumerate(sorted(sizes.items(), key=lambda item: item[1])):
        given[name] = min(size, (most - sum(given.values())) // (len(sizes) - place))
    return given


def chosen(found: dict[str, list[tuple[str, str]]], most: int, seed: int) -> Iterator[tuple[str, str]]:
    """The pairs of a language; neighbours in a source stay neighbours."""
    draw = random.Random(seed)
    for name, count in shares({name: len(rows) for name, rows in found.items()}, most).items():
        rows = found[name]
        yield from (rows[i] for i in sorted(draw.sample(range(len(rows)), count)))


def terms(data: Path, lang: str) -> Iterator[tuple[str, str]]:
    """The plain entries of a language's lists, (other, English), each once: one to four words, no explanations."""
    seen = set()
    with gzip.open(data / "terms" / f"en-{lang}.tsv.gz", "rt", encoding="utf-8") as file:
        for line in file:
            english, other, *_ = line.rstrip("\n").split("\t")
            english, other = english.removeprefix("to ").strip(), other.strip().rstrip(".")
            if (other, english) in seen or english.casefold() == other.casefold():
                continue
            if all(1 <= len(words(side)) <= 4 and not _EXPLAINED.search(side) for side in (english, other)):
                seen.add((other, english))
                yield other, english


def write_terms(data: Path, out: Path, lang: str, most: int, seed: int) -> int:
    """Draw entries and write them in the form of ``phrasemate pairs``; returns how many."""
    found = list(terms(data, lang))
    drawn = sorted(random.Random(seed).sample(found, min(most, len(found))))
    lines = (
        {"source": other, "target": english, "pairs": [[*_ends(other), *_ends(english)]]} for other, english in drawn
    )
    out.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return len(drawn)


def _ends(text: str) -> tuple[int, int]:
    spans = words(text)
    return spans[0][0], spans[-1][1]


def add_others(text: Path, links: Path, out: Path) -> None:
    """Put the pairs that `SETTINGS` leaves out, since a frequent word begins or ends them, into each line."""
    made = out.with_suffix(".all")
    pair_files(ParallelText(text), links, made, EVERY, force=True)
    with out.open(encoding="utf-8") as own, made.open(encoding="utf-8") as every:
        rows = [(json.loads(a), json.loads(b)) for a, b in zip(own, every, strict=True)]
    with out.open("w", encoding="utf-8") as file:
        for row, more in rows:
            known = set(map(tuple, row["pairs"]))
            row["others"] = [pair for pair in more["pairs"] if tuple(pair) not in known]
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    made.unlink()


def aligner_of(name: str, model: Path | None) -> Aligner:
    """The aligner: eflomal, or one of the neural ones with a model (default: the bundled one)."""
    return EflomalAligner("grow-diag") if name == "eflomal" else NeuralAligner(load_model(model), method=name)


def main() -> None:
    """Write the files; what is finished is not made again."""
    options = parser(__doc__)
    options.add_argument("out", type=Path)
    options.add_argument("--most", type=int, default=30_000, help="sentence pairs of a language (0: terms only)")
    options.add_argument("--terms", type=int, default=40_000, help="terms of a language")
    options.add_argument("--aligner", default="eflomal", help="eflomal; softmax, intersection, itermax: by --model")
    args = options.parse_args()
    aligner = aligner_of(args.aligner, args.model) if args.most else None
    args.out.mkdir(parents=True, exist_ok=True)
    unwanted = tested(args.data)
    for lang in LANGS:
        terms_file = args.out / f"terms-{lang}.jsonl"
        if not terms_file.exists():
            print(f"{lang}: {write_terms(args.data, terms_file, lang, args.terms, args.seed):,} terms")
        text, links, out = (args.out / f"en-{lang}{suffix}" for suffix in (".tsv", ".links", ".jsonl"))
        if out.exists() or aligner is None:
            continue
        rows = chosen(pairs(args.data, lang, unwanted), args.most, args.seed)
        text.write_text("".join(f"{other}\t{english}\n" for other, english in rows), encoding="utf-8")
        aligned = align_files(ParallelText(text), links, aligner, force=True)
        paired = pair_files(ParallelText(text), links, out, SETTINGS, force=True)
        add_others(text, links, out)
        print(f"{lang}: {aligned.lines:,} sentence pairs, {aligned.found:,} links, {paired.found:,} phrase pairs")


if __name__ == "__main__":
    main()

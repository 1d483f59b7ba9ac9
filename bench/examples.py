"""Example sentences out of a million: time of a phrase, by kind of phrase, and what the store takes.

    python bench/examples.py [--sentences 1000000] [--phrases 100] [--no-index]

Sentences: both sides of the parallel corpora, each side by itself, distinct, the languages in turns, 20,000 a file.
They are stored by ``phrasemate examples --store``, in a process of its own whose peak memory is measured, and, for the
second table, in an index whose model proposes no phrases. Phrases: words of these sentences, so that frequent ones come
often; single words, runs of two to four words, in Chinese and Japanese also words of one and of two characters. Each is
looked for once, with 32 examples asked for. Processor time is what a busy machine inflates least.

    python bench/examples.py --layouts [--sentences 100000]

The choice of the full-text table: trigrams, tokens (`phrasemate.examples.matching`), tokens with characters in a column
of their own. Its size without the sentences, the processor time to fill it, and, on average, to list up to 2,049
candidates of a phrase and, of a more frequent one, 8 from each 64th of the collection too.
"""

from __future__ import annotations

import argparse
import gzip
import random
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import fmean, median, quantiles
from types import SimpleNamespace
from typing import Any

import numpy as np
from common import parser, report

from phrasemate import Index, read
from phrasemate.evaluate.report import signature
from phrasemate.examples import ExampleIndex
from phrasemate.examples.matching import characters, lookup, tokens
from phrasemate.examples.sampling import EACH, STRATA, WHOLE
from phrasemate.examples.textstore import match_query
from phrasemate.text import words

TOGETHER = 20_000  # sentences of a file
ASKED, EXTRA = 32, 10
ABSENT = ("zyxwv qwrt", "Brmpft", "鬱龘", "뷁뷁")
HEADER = ["phrases", "number", "examples, mean", "none", "median ms", "95 % ms", "max ms", "processor ms, median"]


class Silent:
    """A model that proposes no phrases: the index of it is its text."""

    name, hash, path, dim = "silent", "0" * 64, None, 8

    def extract(self, texts: Sequence[str], *_: Any, **__: Any) -> list[Any]:
        """Nothing, for each text."""
        none = np.empty(0, np.int32)
        empty = SimpleNamespace(
            starts=none, ends=none, scores=none.astype(np.float32), vectors=np.empty((0, self.dim), np.float32)
        )
        return [empty] * len(texts)


def side(path: Path, column: int) -> Iterator[str]:
    """One language of a parallel corpus."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            if text := " ".join(line.split("\t")[column].split()):
                yield text


def sentences(data: Path, count: int) -> dict[str, list[str]]:
    """Language -> its sentences: ``count`` distinct ones in all, one of each corpus in turn."""
    paths = sorted((data / "parallel").glob("en-*.tsv.gz"))
    streams = [(p.name[3:5], side(p, 1)) for p in paths] + [("en", side(p, 0)) for p in paths]
    found: dict[str, list[str]] = {}
    seen: set[str] = set()
    while streams and len(seen) < count:
        for language, stream in list(streams):
            text = next(stream, None)
            if text is None:
                streams.remove((language, stream))
            elif text not in seen and len(seen) < count:
                seen.add(text)
                found.setdefault(language, []).append(text)
    if len(seen) < count:
        sys.exit(f"only {len(seen)} distinct sentences; ask for fewer with --sentences")
    return found


def write(texts: dict[str, list[str]], folder: Path) -> None:
    """Files such as de-00.txt."""
    for language, held in texts.items():
        stream = iter(held)
        for number in range(len(held) // TOGETHER + 1):
            if lines := list(islice(stream, TOGETHER)):
                (folder / f"{language}-{number:02}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def drawn(texts: dict[str, list[str]], count: int, draw: random.Random) -> dict[str, list[str]]:
    """Kind of phrase -> phrases."""
    found: dict[str, list[str]] = {"absent": list(ABSENT)}
    for language in ("en", "de", "ru", "ar", "zh", "ja", "ko"):
        found[f"{language}, a word"] = [phrase(texts[language], draw, 1) for _ in range(count)]
        found[f"{language}, 2-4 words"] = [phrase(texts[language], draw, draw.randint(2, 4)) for _ in range(count)]
    for language in ("zh", "ja"):
        for length in (1, 2):
            some = (phrase(texts[language], draw, 1) for _ in iter(int, 1))
            kind = f"{language}, a word of {length}"
            found[kind] = list(islice((one for one in some if len(one) == length and not one.isascii()), count))
    return found


def phrase(texts: list[str], draw: random.Random, length: int) -> str:
    """Words of a sentence that follow each other."""
    while True:
        text = draw.choice(texts)
        if len(found := words(text)) >= length:
            at = draw.randrange(len(found) - length + 1)
            start, end = found[at][0], found[at + length - 1][1]
            if len(text) >= end - start + EXTRA:
                return text[start:end]


def timed(source: ExampleIndex, phrases: dict[str, list[str]]) -> list[list[Any]]:
    """A row for each kind of phrase, and one for all."""
    rows, every = [], []
    for kind, wanted in phrases.items():
        taken = []
        for one in wanted:
            began, used = time.perf_counter(), time.process_time()
            found = source.find(one, ASKED, EXTRA)
            taken.append((time.perf_counter() - began, time.process_time() - used, len(found)))
        rows.append(row(kind, taken))
        every += taken
    return [*rows, row("all", every)]


def row(kind: str, taken: Sequence[tuple[float, float, int]]) -> list[Any]:
    """Figures of some phrases: seconds, processor seconds, and how many examples each had."""
    times, used, counts = zip(*taken, strict=True)
    spent = median(times), quantiles(times, n=20, method="inclusive")[-1], max(times), median(used)
    return [kind, len(times), f"{fmean(counts):.1f}", counts.count(0), *(f"{1000 * x:.1f}" for x in spent)]


def stored(folder: Path, store: Path) -> dict[str, Any]:
    """Make the store as a user would; its time, peak memory and size."""
    command = [sys.executable, "-c", "from phrasemate.cli import main; main()", "examples", "x", "-n", "1"]
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command += ["--text", str(folder), "--lines", "sentence", "--store", str(store)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    taken = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    facts = {"store s": taken, "store processor s": used, "store peak MB": after.ru_maxrss / 1024}
    return {name: round(value) for name, value in facts.items()} | {"store MB": round(store.stat().st_size / 1e6)}


def layouts(texts: dict[str, list[str]], phrases: dict[str, list[str]], facts: dict[str, Any]) -> None:
    """Prints the table of ways to look sentences up."""
    every = [text for held in texts.values() for text in held]
    rows = []
    for name, (columns, fill, ask) in LAYOUTS.items():
        store = sqlite3.connect("")
        began = time.process_time()
        store.execute(f"CREATE VIRTUAL TABLE words USING fts5({columns}, content='', columnsize=0)")
        marks = ", ".join("?" * (len(fill("")) + 1))
        names = columns.split(", tokenize")[0]
        store.executemany(
            f"INSERT INTO words (rowid, {names}) VALUES ({marks})", ((i, *fill(text)) for i, text in enumerate(every))
        )
        store.commit()
        store.execute("INSERT INTO words (words) VALUES ('optimize')")
        filled = time.process_time() - began
        size = store.execute("SELECT sum(length(block)) FROM words_data").fetchone()[0]
        times = [asked(store, ask, phrases, kind, len(every)) for kind in KINDS]
        rows.append([name, f"{size / 1e6:.0f}", f"{filled:.1f}", *times])
    report("examples_layouts", ["table", "MB", "filled s", *(f"{kind} ms" for kind in KINDS)], rows, facts)


def asked(
    store: sqlite3.Connection, ask: Callable[[str], str], phrases: dict[str, list[str]], kind: str, size: int
) -> str:
    """Mean processor time, in ms, to list the candidates of the phrases whose kind ends so."""
    command = "SELECT rowid FROM words WHERE words MATCH ? AND rowid >= ? AND rowid < ? ORDER BY rowid LIMIT ?"
    times = []
    for phrase in (one for name, held in phrases.items() if name.endswith(kind) for one in held):
        began = time.process_time()
        if query := ask(phrase):
            if len(store.execute(command, (query, 0, size, WHOLE + 1)).fetchall()) > WHOLE:
                for at in range(STRATA):
                    values = (query, size * at // STRATA, size * (at + 1) // STRATA, EACH)
                    store.execute(command, values).fetchall()
            times.append(time.process_time() - began)
    return f"{1000 * fmean(times):.2f}" if times else "not found"


def quoted(phrase: str) -> str:
    """A query of trigrams; nothing below three characters."""
    return '"' + phrase.replace('"', '""') + '"' if len(phrase) > 2 else ""


def prefixed(phrase: str) -> str:
    """A query of tokens, where a single character is the beginning of its pairs."""
    found, beginning = lookup(phrase)
    return f'"{" ".join(found)}"' + " *" * beginning if found else ""


KINDS = ("a word", "2-4 words", "a word of 1", "a word of 2")
LAYOUTS: dict[str, tuple[str, Callable[[str], tuple[str, ...]], Callable[[str], str]]] = {
    "trigrams": ("text, tokenize='trigram'", lambda text: (text,), quoted),
    "tokens": ("text, tokenize='ascii'", lambda text: (" ".join(tokens(text)),), prefixed),
    "tokens, characters": (
        "tokens, characters, tokenize='ascii'",
        lambda text: (" ".join(tokens(text)), " ".join(characters(text))),
        match_query,
    ),
}


def main() -> None:
    """Prints the tables; writes bench/out/examples*.json."""
    made = parser(__doc__)
    made.add_argument("--sentences", type=int, default=1_000_000)
    made.add_argument("--phrases", type=int, default=100, help="of each kind")
    made.add_argument("--layouts", action="store_true", help="compare full-text tables instead")
    made.add_argument("--index", action=argparse.BooleanOptionalAction, default=True, help="an index too")
    options = made.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work, "text")
        folder.mkdir()
        texts = sentences(options.data, options.sentences)
        write(texts, folder)
        phrases = drawn(texts, options.phrases, random.Random(options.seed))
        size = sum(len(text.encode()) for held in texts.values() for text in held)
        facts = {"sentences": options.sentences, "text MB": round(size / 1e6), "seed": options.seed}
        if options.layouts:
            return layouts(texts, phrases, signature(None, **facts))
        del texts
        facts |= stored(folder, Path(work, "store.examples"))
        with ExampleIndex.open(Path(work, "store.examples")) as source:
            report("examples", HEADER, timed(source, phrases), signature(None, **facts))
        if options.index:
            with Index.create(Path(work, "index"), Silent()) as index:
                index.add(read(str(folder), lines="sentence"))
                facts |= {"index MB": round(sum(index.stats().files.values()) / 1e6)}
                source = ExampleIndex.from_index(index)
                report("examples_index", HEADER, timed(source, phrases), signature(None, **facts))


if __name__ == "__main__":
    main()

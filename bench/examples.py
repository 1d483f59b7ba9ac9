"""Example sentences out of a million: time of a phrase, by kind of phrase, and what the store takes.

    python bench/examples.py [--sentences 1000000] [--phrases 100]

Sentences: both sides of the parallel corpora, each side by itself, distinct, the languages in turns, 20,000 a file.
They are stored by ``phrasemate examples --store``, in a process of its own whose peak memory is measured, and, for the
second table, in an index whose model proposes no phrases. Phrases: words of these sentences, so that frequent ones come
often; single words, runs of two to four words, in Chinese and Japanese also words of one and of two characters. Each is
looked for once, with 32 examples asked for. Processor time is what a busy machine inflates least.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

from common import corpora, parallel, parser, report, write_lines

from phrasemate.evaluate.report import signature
from phrasemate.examples import ExampleIndex
from phrasemate.text import words

TOGETHER = 20_000  # sentences of a file
ASKED, EXTRA = 32, 10
ABSENT = ("zyxwv qwrt", "Brmpft", "鬱龘", "뷁뷁")
HEADER = ["phrases", "number", "examples, mean", "none", "median ms", "95 % ms", "max ms", "processor ms, median"]


def side(data: Path, lang: str, column: int) -> Iterator[str]:
    """One language of a parallel corpus."""
    return (text for pair in parallel(data, lang) if (text := " ".join(pair[column].split())))


def sentences(data: Path, count: int) -> dict[str, list[str]]:
    """Language -> its sentences: ``count`` distinct ones in all, one of each corpus in turn."""
    langs = corpora(data)
    streams = [(lang, side(data, lang, 1)) for lang in langs] + [("en", side(data, lang, 0)) for lang in langs]
    texts: dict[str, list[str]] = {}
    unique: set[str] = set()
    while streams and len(unique) < count:
        for language, stream in list(streams):
            text = next(stream, None)
            if text is None:
                streams.remove((language, stream))
            elif text not in unique and len(unique) < count:
                unique.add(text)
                texts.setdefault(language, []).append(text)
    if len(unique) < count:
        sys.exit(f"only {len(unique)} distinct sentences; ask for fewer with --sentences")
    return texts


def write(texts: dict[str, list[str]], folder: Path) -> None:
    """Files such as de-00.txt."""
    for language, lines in texts.items():
        for number, at in enumerate(range(0, len(lines), TOGETHER)):
            write_lines(folder / f"{language}-{number:02}.txt", lines[at : at + TOGETHER])


def drawn(texts: dict[str, list[str]], count: int, draw: random.Random) -> dict[str, list[str]]:
    """Kind of phrase -> phrases."""
    phrases: dict[str, list[str]] = {"absent": list(ABSENT)}
    for language in ("en", "de", "ru", "ar", "zh", "ja", "ko"):
        phrases[f"{language}, a word"] = [phrase(texts[language], draw, 1) for _ in range(count)]
        phrases[f"{language}, 2-4 words"] = [phrase(texts[language], draw, draw.randint(2, 4)) for _ in range(count)]
    for language in ("zh", "ja"):
        for length in (1, 2):
            some = (phrase(texts[language], draw, 1) for _ in iter(int, 1))
            kind = f"{language}, a word of {length}"
            phrases[kind] = list(islice((one for one in some if len(one) == length and not one.isascii()), count))
    return phrases


def phrase(texts: list[str], draw: random.Random, length: int) -> str:
    """Words of a sentence that follow each other."""
    while True:
        text = draw.choice(texts)
        if len(spans := words(text)) >= length:
            at = draw.randrange(len(spans) - length + 1)
            start, end = spans[at][0], spans[at + length - 1][1]
            if len(text) >= end - start + EXTRA:
                return text[start:end]


def timed(source: ExampleIndex, phrases: dict[str, list[str]]) -> list[list[Any]]:
    """A row for each kind of phrase, and one for all."""
    rows, every = [], []
    for kind, asked_phrases in phrases.items():
        times_taken = []
        for one in asked_phrases:
            began, used = time.perf_counter(), time.process_time()
            examples = source.find(one, ASKED, EXTRA)
            times_taken.append((time.perf_counter() - began, time.process_time() - used, len(examples)))
        rows.append(row(kind, times_taken))
        every += times_taken
    return [*rows, row("all", every)]


def row(kind: str, times_taken: Sequence[tuple[float, float, int]]) -> list[Any]:
    """Figures of some phrases: seconds, processor seconds, and how many examples each had."""
    times, used, counts = zip(*times_taken, strict=True)
    spent = median(times), quantiles(times, n=20, method="inclusive")[-1], max(times), median(used)
    return [kind, len(times), f"{fmean(counts):.1f}", counts.count(0), *(f"{1000 * x:.1f}" for x in spent)]


def stored(folder: Path, store: Path) -> dict[str, Any]:
    """Make the store as a user would; its time, peak memory and size."""
    command = [sys.executable, "-c", "from phrasemate.cli import main; main()", "examples", "x", "-n", "1"]
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command += ["--text", str(folder), "--lines", "sentence", "--store", str(store)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    facts = {"store s": wall, "store processor s": used, "store peak MB": after.ru_maxrss / 1024}
    return {name: round(value) for name, value in facts.items()} | {"store MB": round(store.stat().st_size / 1e6)}


def main() -> None:
    """Prints the tables; writes bench/out/examples*.json."""
    options = parser(__doc__)
    options.add_argument("--sentences", type=int, default=1_000_000)
    options.add_argument("--phrases", type=int, default=100, help="of each kind")
    args = options.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work, "text")
        texts = sentences(args.data, args.sentences)
        write(texts, folder)
        phrases = drawn(texts, args.phrases, random.Random(args.seed))
        size = sum(len(text.encode()) for side_texts in texts.values() for text in side_texts)
        facts = {"sentences": args.sentences, "text MB": round(size / 1e6), "seed": args.seed}
        del texts
        facts |= stored(folder, Path(work, "store.examples"))
        with ExampleIndex.open(Path(work, "store.examples")) as source:
            report("examples", HEADER, timed(source, phrases), signature(None, **facts))


if __name__ == "__main__":
    main()

"""How well text is cut into words and sentences: the measurements behind the choice of ICU (docs/text.md).

    python bench/segmentation.py --data ../shared/data [--tokenizer tokenizer.json] [--json out.json]

Words: tokenised Japanese (sources small_enja and kyoto) is joined, cut again, and its inner boundaries are compared.
Sentences: lines of test sets, five at a time, are joined with spaces and cut again: the share of line ends found
again, and the cuts within lines per hundred lines (right ones where a line holds two sentences, else wrong).

    python bench/segmentation.py --speed [--model FOLDER] [--threads N]

Phrases: the time of Model.extract, which segments and encodes, over that of the encoder alone (tokenisation and forward
pass) on 1,000 English sentences of 120 to 260 characters, for each way of segmenting that the model has. The encoder
alone runs before and after each round; the ratio is the median of the rounds, the times are the best. Processor time
is what a busy machine inflates least, but it counts threads that wait for work.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import platform
import random
import time
from collections import deque
from collections.abc import Callable, Iterable
from importlib import metadata
from itertools import accumulate, islice, pairwise
from pathlib import Path
from statistics import median

from icu4py.breakers import SentenceBreaker, WordBreaker

from phrasemate import __version__
from phrasemate.text import split_sentences

Cutter = Callable[[str], Iterable[str]]
_SETS = [
    ("europarl", "de-en", "de"),
    ("europarl", "de-en", "en"),
    ("europarl", "cs-de", "cs"),
    ("europarl", "hu-en", "hu"),
]
_SETS += [("tatoeba", f"{lang}-en", lang) for lang in ("es", "fi", "fr", "ja", "ru", "tr", "zh")]
_TOGETHER = 5
EVERY = {"threshold": 0, "max_words": 6}


def main() -> None:
    """Prints both tables with their signature."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the corpora")
    parser.add_argument("--tokenizer", type=Path, help="tokenizer.json of a model, to compare its pieces")
    parser.add_argument("--sentences", type=int, default=20_000, help="how many Japanese sentences")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--speed", action="store_true", help="time the extraction of phrases instead")
    parser.add_argument("--model", type=Path, help="with --speed: model folder (default: the bundled one)")
    parser.add_argument("--threads", type=int, help="with --speed: threads (default: all)")
    parser.add_argument("--rounds", type=int, default=5, help="with --speed: rounds")
    options = parser.parse_args()
    if options.speed:
        speed(options)
        return
    gold = tokenised(options.data / "parallel" / "en-ja.tsv.gz", options.sentences)
    signature = {
        "phrasemate": __version__,
        "icu4py": metadata.version("icu4py"),
        "python": platform.python_version(),
        "sentences": len(gold),
        "data": hashlib.sha256("\n".join(map(" ".join, gold)).encode()).hexdigest()[:12],
    }
    word_rows = [word_row(name, cut, gold) for name, cut in cutters(options.tokenizer).items()]
    sentence_rows = [sentence_row(options.data / "sentence_bench" / kind, pair, lang) for kind, pair, lang in _SETS]
    show(word_rows)
    show(sentence_rows)
    print("signature:", " ".join(f"{key}={value}" for key, value in signature.items()))
    if options.json:
        result = {"signature": signature, "words": word_rows, "sentences": sentence_rows}
        options.json.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def tokenised(path: Path, most: int) -> list[list[str]]:
    """The first sentences of the tokenised sources, each a list of words; without repetition."""
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        rows = (line.rstrip("\n").split("\t") for line in stream)
        texts = dict.fromkeys(row[1] for row in rows if row[2] in ("small_enja", "kyoto"))
        return [text.split() for text in islice(texts, most)]


def cutters(tokenizer: Path | None) -> dict[str, Cutter]:
    """Name -> a function that cuts a text into pieces; those whose package is absent are left out, and named."""
    found: dict[str, Cutter] = {"ICU words": lambda text: WordBreaker(text, "en")}
    try:
        import regex

        found["UAX-29 without dictionary"] = regex.compile(r"(?V1w)\b").split
    except ImportError:
        print("not measured: UAX-29 without dictionary (pip install regex)")
    found["single characters"] = list
    try:
        import budoux

        found["BudouX"] = budoux.load_default_japanese_parser().parse
    except ImportError:
        print("not measured: BudouX (pip install budoux)")
    if tokenizer:
        from tokenizers import Tokenizer

        model = Tokenizer.from_file(str(tokenizer))
        found["model's pieces"] = lambda text: pieces(text, model.encode(text, add_special_tokens=False).offsets)
    return found


def pieces(text: str, offsets: list[tuple[int, int]]) -> list[str]:
    """Offsets as pieces that cover the text."""
    cuts = sorted({start for start, _ in offsets} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(cuts)]


def boundaries(parts: Iterable[str]) -> set[int]:
    """The inner boundaries."""
    ends = list(accumulate(map(len, parts)))
    return {end for end in ends if 0 < end < ends[-1]}


def word_row(name: str, cut: Cutter, gold: list[list[str]]) -> dict[str, str | float]:
    """Precision, recall and F1 of the inner boundaries, whole words found, and the time for a sentence."""
    right = proposed = expected = whole = total = 0
    texts = ["".join(words) for words in gold]
    began = time.perf_counter()
    cuts = [list(cut(text)) for text in texts]
    spent = time.perf_counter() - began
    for words, found in zip(gold, cuts, strict=True):
        truth, guess = boundaries(words), boundaries(found)
        right, proposed, expected = right + len(truth & guess), proposed + len(guess), expected + len(truth)
        whole, total = whole + len(spans(words) & spans(found)), total + len(words)
    precision, recall = right / proposed, right / expected
    return {
        "words by": name,
        "precision": round(precision, 3),
        "recall": round(recall, 3),
        "F1": round(2 * precision * recall / (precision + recall), 3),
        "whole words": round(whole / total, 3),
        "us/sentence": round(spent / len(gold) * 1e6, 1),
    }


def spans(parts: Iterable[str]) -> set[tuple[int, int]]:
    """The pieces as offsets."""
    ends = list(accumulate(map(len, parts), initial=0))
    return set(pairwise(ends))


def sentence_row(folder: Path, pair: str, lang: str) -> dict[str, str | float]:
    """ICU alone, and with the rules of ``split_sentences``: line ends found again, and cuts within lines."""
    lines = [line.strip() for line in (folder / f"{pair}.{lang}").read_text(encoding="utf-8").splitlines()]
    lines = [line for line in lines if line]
    row: dict[str, str | float] = {"sentences of": f"{folder.name} {pair}.{lang}", "lines": len(lines)}
    for name, cut in (("ICU", icu_starts), ("ours", our_starts)):
        found = within = expected = 0
        for at in range(0, len(lines), _TOGETHER):
            group = lines[at : at + _TOGETHER]
            starts = set(cut(" ".join(group), lang)) - {0}
            truth = set(accumulate(len(line) + 1 for line in group[:-1]))
            found, within = found + len(starts & truth), within + len(starts - truth)
            expected += len(truth)
        row[f"{name} ends found"] = round(found / expected, 3)
        row[f"{name} cuts/100 lines"] = round(100 * within / len(lines), 1)
    return row


def icu_starts(text: str, lang: str) -> list[int]:
    """Where ICU begins a sentence."""
    return list(accumulate(map(len, SentenceBreaker(text, lang)), initial=0))[:-1]


def our_starts(text: str, lang: str) -> list[int]:
    """Where ``split_sentences`` begins one."""
    return [start for start, _ in split_sentences(text, lang)]


def speed(options: argparse.Namespace) -> None:
    """Prints the table of times; writes bench/out/extraction.json."""
    from common import report

    from phrasemate import load_model
    from phrasemate.evaluate.report import signature as signed

    model = load_model(options.model, options.threads)
    with gzip.open(options.data / "parallel" / "en-de.tsv.gz", "rt", encoding="utf-8") as stream:
        found = {text for line in stream if 120 <= len(text := line.split("\t")[0]) <= 260}
    texts = random.Random(0).sample(sorted(found), min(options.sentences, 1_000))
    model.extract(texts)  # the first pass prepares kernels
    ways = {"n-gram": (model.ngram, {})}
    if model.learned is not None:
        ways |= {"learned": (model.learned, {}), "learned, every span up to 6 words": (model.learned, EVERY)}
    rows = []
    for name, (segmenter, settings) in ways.items():
        model.segmenter = segmenter
        alone, whole = [seconds(lambda: deque(model.token_states(texts), 0))], []
        for _ in range(options.rounds):
            whole.append(seconds(lambda settings=settings: model.extract(texts, **settings)))
            alone.append(seconds(lambda: deque(model.token_states(texts), 0)))
        pairs = [(both, before, after) for both, (before, after) in zip(whole, pairwise(alone), strict=True)]
        ratios = [median(2 * both[k] / (before[k] + after[k]) for both, before, after in pairs) for k in (0, 1)]
        spans = sum(len(found.starts) for found in model.extract(texts, **settings))
        rows.append([name, spans, min(alone)[0], min(whole)[0], *ratios])
    header = ["phrases by", "phrases", "encoder alone s", "extract s", "ratio", "ratio of processor time"]
    tokens = sum(len(states.values) for states in model.token_states(texts))
    facts = signed(model, sentences=len(texts), tokens=tokens, threads=model.runtime.threads, rounds=options.rounds)
    report("extraction", header, rows, facts)


def seconds(call: Callable[[], object]) -> tuple[float, float]:
    """What a call takes, and how much of the processors' time."""
    began, used = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - began, time.process_time() - used


def show(rows: list[dict[str, str | float]]) -> None:
    """Prints rows as a Markdown table."""
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(str(value) for value in row.values()) + " |")
    print()


if __name__ == "__main__":
    main()

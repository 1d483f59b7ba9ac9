"""How well text is cut into words and sentences: the measurements behind the choice of ICU (docs/text.md).

    python bench/segmentation.py --data ../shared/data [--tokenizer tokenizer.json] [--json out.json]

Words: tokenised Japanese (sources small_enja and kyoto) is joined, cut again, and its inner boundaries are compared.
Sentences: lines of test sets, five at a time, are joined with spaces and cut again: the share of line ends found
again, and the cuts within lines per hundred lines (right ones where a line holds two sentences, else wrong).
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import platform
import time
from collections.abc import Callable, Iterable
from importlib import metadata
from itertools import accumulate, islice, pairwise
from pathlib import Path

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


def main() -> None:
    """Prints both tables with their signature."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the corpora")
    parser.add_argument("--tokenizer", type=Path, help="tokenizer.json of a model, to compare its pieces")
    parser.add_argument("--sentences", type=int, default=20_000, help="how many Japanese sentences")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
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


def show(rows: list[dict[str, str | float]]) -> None:
    """Prints rows as a Markdown table."""
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(str(value) for value in row.values()) + " |")
    print()


if __name__ == "__main__":
    main()

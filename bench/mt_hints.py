"""Hints by themselves, without a language model: what they cost, and from which cosine on they are right.

Right: the best equivalent of a phrase occurs in the reference as whole words, in any case; synonyms and other
inflections count as wrong, so the figures are lower bounds. Indexes and sentences are those of bench/mt.py, which
shares its folder.

    python bench/mt_hints.py                              # all tables
    python bench/mt_hints.py --parts time --threshold 0.7 --count 200 --only de-en
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from common import OUT, parser, report
from mt import DIRECTIONS, FLOORS, HINTS, index_of, lines

from phrasemate import Model, load_model
from phrasemate.encode.segmenter import LETTER
from phrasemate.evaluate.report import signature
from phrasemate.examples import occurrences
from phrasemate.mt import Hint, Hinter
from phrasemate.mt.hints import chosen
from phrasemate.mt.translate import BATCH
from phrasemate.text import words

DEV = slice(200, 300)
LEAST, STEP = 0.70, 0.05  # cosines from, and the width of a class
LONGEST = 4  # words that are told apart
PARTS = ["time", "floors", "rules"]
CONFIDENT = (0.6, 0.7, 0.75, 0.8, 0.85, 0.9)


def cost(args: argparse.Namespace, model: Model) -> None:
    """Milliseconds a sentence, of `BATCH` at once and one by one, on the test part."""
    rows = []
    for direction in args.only:
        with index_of(args, model, direction, "all") as index:
            hinter = Hinter(index, replace(HINTS, threshold=args.threshold))
            texts = lines(args.data, direction, 0)[: args.count]
            hinter(texts[-BATCH:])  # what is read once
            for name, size in ((f"{BATCH} at once", BATCH), ("one by one", 1)):
                parts = [texts[low : low + size] for low in range(0, len(texts), size)]
                clock, used = time.perf_counter(), time.process_time()
                found = [each for part in parts for each in hinter(part)]
                seconds = time.perf_counter() - clock, time.process_time() - used
                per = [sum(len(each.phrases) for each in found), sum(len(each.hints) for each in found)]
                shares = [*(number / len(texts) for number in per), *(1e3 * each / len(texts) for each in seconds)]
                rows.append([direction, name, index.stats().phrases, *(f"{share:.1f}" for share in shares)])
    header = ["direction", "sentences", "indexed phrases", "phrases", "hints", "ms", "ms of processor time"]
    report("mt_hint_cost", header, rows, signature(model, count=args.count, threshold=args.threshold))


def floors(args: argparse.Namespace, model: Model) -> None:
    """Of the dev part: by words of a phrase and cosine of its best equivalent, how often that is right."""
    all_, right = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for direction in args.only:
        settings = replace(HINTS, **FLOORS | {"floor": LEAST, "per_word": 0.0})
        settings = replace(settings, threshold=args.threshold, overlapping=True, budget=10**9)
        with index_of(args, model, direction, "all") as index:
            found = Hinter(index, settings)(lines(args.data, direction, 0)[DEV])
        for each, reference in zip(found, lines(args.data, direction, 1)[DEV], strict=True):
            for hint in each.hints:
                kind = min(LONGEST, len(words(hint.phrase))), int((hint.equivalents[0].score - LEAST) / STEP)
                all_[kind] += 1
                right[kind] += _right(hint, reference)
    classes = range(max((number for _, number in all_), default=-1) + 1)
    rows = []
    for count in range(1, LONGEST + 1):
        cells = [f"{right[count, n]} of {all_[count, n]}" for n in classes]
        rows.append([f"{count}{'+' if count == LONGEST else ''}", *cells])
    header = ["words", *(f"from {LEAST + STEP * n:.2f}" for n in classes)]
    report("mt_hint_floors", header, rows, signature(model, directions=" ".join(args.only), threshold=args.threshold))


def rules(args: argparse.Namespace, model: Model) -> None:
    """Of the dev part: how many hints each way of choosing gives, and how many are right."""
    counts: dict[str, dict[str, list[int]]] = {}
    for direction in args.only:
        given = replace(HINTS, threshold=args.threshold, k=1, overlapping=True, budget=10**9, confidence=0.0)
        loose = replace(given, floor=args.loose, per_word=0.0)
        texts, references = (lines(args.data, direction, side)[DEV] for side in (0, 1))
        with index_of(args, model, direction, "all") as index:
            quick = [each.hints for each in Hinter(index, replace(loose, quick=True))(texts)]
            looked = [each.hints for each in Hinter(index, loose)(texts)]
            floor = Hinter(index, replace(HINTS, **FLOORS)).floor
        ways = {"floors": [[h for h in own if h.equivalents[0].score >= floor(h.phrase)] for own in quick]}
        for name, found in (("confidence, one look", quick), ("confidence, two looks", looked)):
            for least in CONFIDENT:
                ways[f"{name} {least}"] = [[h for h in own if (h.confidence or 0) >= least] for own in found]
        for name, hints in ways.items():
            kept = [chosen(own) for own in hints]
            good = sum(_right(hint, text) for own, text in zip(kept, references, strict=True) for hint in own)
            counts.setdefault(name, {})[direction] = [sum(map(len, kept)), good]
    rows = []
    for name, own in counts.items():
        every, good = (sum(each[n] for each in own.values()) for n in (0, 1))
        rows.append([name, *(f"{right} of {all_}" for all_, right in own.values()), f"{good / max(every, 1):.3f}"])
    made = signature(model, threshold=args.threshold, loose=args.loose)
    report("mt_hint_rules", ["chosen by", *args.only, "right"], rows, made)


def _right(hint: Hint, reference: str) -> bool:
    best = hint.equivalents[0]
    return bool(LETTER.search(best.text) and occurrences(best.text, reference))


def main() -> None:
    """Print the tables that are wanted."""
    options = parser(__doc__)
    options.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    options.add_argument("--only", nargs="+", choices=DIRECTIONS, default=DIRECTIONS[:3], metavar="XX-YY")
    options.add_argument("--count", type=int, default=200, help="sentences that are timed")
    options.add_argument("--sentences", type=int, default=60_000, help="sentences of each index")
    options.add_argument("--threshold", type=float, default=HINTS.threshold)
    options.add_argument("--loose", type=float, default=0.7, help="least cosine of what the confidence chooses from")
    options.add_argument("--work", type=Path, default=OUT / "mt", help="indexes")
    args = options.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    model = load_model(args.model, args.threads)
    if "time" in args.parts:
        cost(args, model)
    if "floors" in args.parts:
        floors(args, model)
    if "rules" in args.parts:
        rules(args, model)


if __name__ == "__main__":
    main()

"""Word alignment of languages without gold links, measured on words that a dictionary pairs in one way only.

    python bench/dictionary_links.py --langs ja ko zh

In a held-out sentence pair, a word of each side is an anchor where the dictionary has the two as equivalents, each
stands once, and neither has another equivalent in the pair. Recall: the share of anchors that are linked. Precision:
their share of all links of their words. Error: one less the harmonic mean of both, which is what AER is of sure links.
Common words are few among anchors, so the error is lower than AER on whole sentences. German, which has gold links
too, is measured for comparison.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from common import dictionary_rows, parser, report, table_rows
from phrase_table import held_out

from phrasemate.align import NeuralAligner
from phrasemate.align.pairs import Worded
from phrasemate.encode import load_model
from phrasemate.evaluate.report import signature
from phrasemate.text.normalize import folded

SETTINGS: dict[str, dict[str, object]] = {
    "softmax": {"method": "softmax"},
    "softmax, ties .2": {"method": "softmax", "ties": 0.2},
    "softmax, subwords": {"method": "softmax", "units": "subwords"},
    "intersection": {"method": "intersection"},
    "itermax": {"method": "itermax"},
    "mwmf": {"method": "mwmf"},
}
WORDS = 4, 50  # of a side
HEADER = ["language", "aligner", "pairs", "anchors", "precision", "recall", "error"]

Equivalents = Mapping[str, set[str]]
Pair = tuple[Worded, Worded]
Link = tuple[int, int]


def equivalents(data: Path, lang: str) -> tuple[Equivalents, Equivalents]:
    """Single words of the dictionaries, folded: of the language with the English ones, and the other way round."""
    forward: dict[str, set[str]] = defaultdict(set)
    back: dict[str, set[str]] = defaultdict(set)
    for english, other in dictionary_rows(data, lang):
        forward[folded(other)].add(folded(english))
        back[folded(english)].add(folded(other))
    return forward, back


def sentence_pairs(data: Path, lang: str, count: int, seed: int) -> list[Pair]:
    """Held-out pairs of general text, the other language first, in random order."""
    rows = [
        (other, english)
        for english, other, _ in table_rows(data / "parallel_general" / f"en-{lang}.tsv.gz")
        if held_out(english)
    ]
    random.Random(seed).shuffle(rows)
    chosen = []
    for row in rows:
        source, target = map(Worded.of, row)
        if all(WORDS[0] <= len(side.spans) <= WORDS[1] for side in (source, target)):
            chosen.append((source, target))
        if len(chosen) == count:
            break
    return chosen


def anchors(pair: Pair, forward: Equivalents, back: Equivalents) -> Iterator[Link]:
    """Pairs of words, by number, that the dictionary pairs in one way only."""
    sources, targets = ([folded(word) for word in side.words()] for side in pair)
    for i, source in enumerate(sources):
        mates = [j for j, target in enumerate(targets) if target in forward.get(source, ())]
        if len(mates) != 1:
            continue
        backward = [k for k, word in enumerate(sources) if word in back.get(targets[mates[0]], ())]
        if backward == [i]:
            yield i, mates[0]


def scores(links: Sequence[Sequence[Link]], expected: Sequence[Sequence[Link]]) -> tuple[float, float, float]:
    """Precision, recall and error."""
    right = touching = total = 0
    for group, pairs in zip(links, expected, strict=True):
        rows, columns = {i for i, _ in pairs}, {j for _, j in pairs}
        right += len(set(group) & set(pairs))
        touching += sum(i in rows or j in columns for i, j in group)
        total += len(pairs)
    return right / max(1, touching), right / max(1, total), 1 - 2 * right / max(1, touching + total)


def main() -> None:
    """Print a row for each language and aligner."""
    options = parser(__doc__)
    options.add_argument("--langs", nargs="+", default=["ja", "de"])
    options.add_argument("--count", type=int, default=200, help="sentence pairs of a language")
    args = options.parse_args()
    model = load_model(args.model, threads=args.threads)
    rows = []
    for lang in args.langs:
        forward, back = equivalents(args.data, lang)
        pairs = sentence_pairs(args.data, lang, args.count, args.seed)
        expected = [list(anchors(pair, forward, back)) for pair in pairs]
        for name, settings in SETTINGS.items():
            links = NeuralAligner(model, **settings).align(pairs)  # type: ignore[arg-type]
            numbers = [f"{value:.3f}" for value in scores([group or [] for group in links], expected)]
            rows.append([lang, name, len(pairs), sum(map(len, expected)), *numbers])
            print(*rows[-1], flush=True)
    report("dictionary-links", HEADER, rows, signature({"bundled": model}, seed=args.seed, count=args.count))


if __name__ == "__main__":
    main()

"""Alignment error rate of the aligners on gold word alignments (de, cs, ro, fr with English), and their speed.

python bench/align.py --threads 1

Sure links only, words as the gold sets have them: AER = 1 - 2 |A & S| / (|A| + |S|). eflomal learns from the gold
sentences and some more pairs of ../shared/data/parallel, which count in its time.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from common import parser, report, signature

from phrasemate import load_model
from phrasemate.align import EflomalAligner, Links, NeuralAligner, Worded, symmetrise
from phrasemate.align.neural import TEMPERATURE
from phrasemate.errors import MissingExtra

LANGS = ("de", "cs", "ro", "fr")
Pairs = list[tuple[Worded, Worded]]
HEADER = ("pair", "aligner", "AER", "precision", "recall", "links", "pairs/s")


def gold(data: Path, lang: str, first: int) -> tuple[Pairs, list[Links]]:
    """The first sentence pairs of a gold set, and their sure links."""
    with (data / "gold_alignments" / f"{lang}-en.jsonl").open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in islice(file, first)]
    pairs = [(Worded.of_tokens(row["source"]), Worded.of_tokens(row["target"])) for row in rows]
    return pairs, [sorted((source, target) for source, target in row["links"]) for row in rows]


def more(data: Path, lang: str, count: int) -> Pairs:
    """Sentence pairs for eflomal to learn from."""
    with gzip.open(data / "parallel" / f"en-{lang}.tsv.gz", "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in islice(file, count)]
    return [(Worded.of(other), Worded.of(english)) for english, other, *_ in rows]


def measures(found: Sequence[Links], right: Sequence[Links]) -> tuple[float, float, float, int]:
    """AER, precision, recall over all links, and how many were found."""
    both = sum(len(set(a) & set(s)) for a, s in zip(found, right, strict=True))
    mine, sure = sum(map(len, found)), sum(map(len, right))
    return 1 - 2 * both / (mine + sure), both / max(mine, 1), both / sure, mine


def timed(align: Callable[[], Any]) -> tuple[Any, float]:
    """What it gives, and the seconds."""
    started = time.perf_counter()
    return align(), time.perf_counter() - started


def neural(model: Any, settings: dict[str, Any], pairs: Pairs) -> tuple[list[Links], float]:
    """Links and pairs/s of one setting."""
    links, seconds = timed(lambda: NeuralAligner(model, **settings).align(pairs))
    return links, len(pairs) / seconds


def eflomal(pairs: Pairs, extra: Pairs, hows: Sequence[str]) -> list[tuple[str, list[Links], float]]:
    """The symmetrisations of one run of eflomal; none where it is not installed."""
    try:
        aligner = EflomalAligner()
    except MissingExtra as error:
        print(error)
        return []
    directions, seconds = timed(lambda: aligner.directions([*pairs, *extra])[: len(pairs)])
    rate = (len(pairs) + len(extra)) / seconds
    return [(f"eflomal {how}", [symmetrise(*each, how) for each in directions], rate) for how in hows]


def main() -> None:
    """Print and write the table."""
    options = parser(__doc__)
    options.add_argument("--cs", type=int, default=500, help="sentence pairs of the Czech set (it has 2,487)")
    options.add_argument("--extra", type=int, default=20_000, help="further sentence pairs for eflomal")
    options.add_argument("--layers", type=int, nargs="*", default=None, help="layers (default: the last)")
    options.add_argument("--temperature", type=float, default=TEMPERATURE, help="of softmax (default: %(default)s)")
    args = options.parse_args()
    model = load_model(args.model, threads=args.threads)
    model.encode_sentences(["warm"])
    tried: dict[str, dict[str, Any]] = {}
    for layer in args.layers or [model.runtime.layers[-1]]:
        tried |= {
            f"intersection {layer}": {"layer": layer},
            f"intersection grow-diag {layer}": {"layer": layer, "symmetrisation": "grow-diag"},
            f"itermax {layer}": {"layer": layer, "method": "itermax"},
            f"softmax {layer}": {"layer": layer, "method": "softmax", "temperature": args.temperature},
        }
    rows: list[list[Any]] = []
    for lang in LANGS:
        pairs, right = gold(args.data, lang, args.cs if lang == "cs" else 10**9)
        found = [(name, *neural(model, settings, pairs)) for name, settings in tried.items()]
        found += eflomal(pairs, more(args.data, lang, args.extra), ("intersection", "grow-diag", "grow-diag-final-and"))
        rows += [[f"{lang}-en", name, *measures(links, right), rate] for name, links, rate in found]
    facts = signature(model, threads=args.threads or "all", carried_layers=model.runtime.layers, seed=args.seed)
    facts |= {"cs_pairs": args.cs, "extra": args.extra, "temperature": args.temperature, "links": "sure"}
    report("align", HEADER, rows, facts)


if __name__ == "__main__":
    main()

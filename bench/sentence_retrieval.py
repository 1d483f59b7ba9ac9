"""Measure sentence retrieval: how often the mate of a sentence ranks first among all sentences of the other language.

The sets are six Europarl sets of 1,000 pairs, on which the BiCLA paper reports, and Tatoeba sets of up to 1,000 pairs
in 13 languages. Vectors come from `encode_sentences`; all sentences of the other side are ranked exactly by cosine. MAP
with one right answer per query is the mean reciprocal rank. The published direction of Europarl is first -> second.

    python bench/sentence_retrieval.py
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import parser, report
from numpy.typing import NDArray

from phrasemate import Model, load_model
from phrasemate.evaluate import accuracy, mean_reciprocal_rank, ranks_of
from phrasemate.evaluate.report import signature

EUROPARL = ("de-en", "cs-en", "hu-en", "cs-de", "hu-de", "cs-hu")
TATOEBA = tuple(f"{lang}-en" for lang in ("ar", "cs", "de", "es", "fi", "fr", "hu", "ja", "ko", "ro", "ru", "tr", "zh"))
HEADER = ["set", "pair", "pairs", "MAP ->", "MAP <-", "acc@1 ->", "acc@1 <-"]


def measures(
    queries: NDArray[np.float32], candidates: NDArray[np.float32], texts: Sequence[str]
) -> tuple[float, float]:
    """Return MAP and acc@1, where row i of the candidates (n, width) is the mate of row i of the queries.

    ``texts`` are the candidates' texts; repetitions of the mate do not count as wrong.
    """
    scores, mates = queries @ candidates.T, np.arange(len(queries))  # (n, n)
    number = np.unique(texts, return_inverse=True)[1]
    again = (number[:, None] == number) & (mates[:, None] != mates)
    ranks = ranks_of(np.where(again, -np.inf, scores), mates)
    return mean_reciprocal_rank(ranks), accuracy(ranks)


def sides(folder: Path, pair: str) -> tuple[list[str], list[str]]:
    """Return both sides of a set, one sentence on each line. Exits if they differ in length."""
    first, second = (
        (folder / f"{pair}.{lang}").read_text("utf-8").rstrip("\n").split("\n") for lang in pair.split("-")
    )
    if len(first) != len(second):
        raise SystemExit(f"{folder / pair}: {len(first)} and {len(second)} lines; expected equal numbers")
    return first, second


def rows(model: Model, name: str, folder: Path, pairs: Sequence[str]) -> list[list[Any]]:
    """Return a row for each pair, and their means."""
    table: list[list[Any]] = []
    for pair in pairs:
        texts = sides(folder, pair)
        first, second = (model.encode_sentences(side) for side in texts)
        forth, back = measures(first, second, texts[1]), measures(second, first, texts[0])
        table.append([name, pair, len(first), forth[0], back[0], forth[1], back[1]])
    means = [float(np.mean([row[column] for row in table])) for column in range(3, len(HEADER))]
    return [*table, [name, "mean", sum(row[2] for row in table), *means]]


def main() -> None:
    """Measure and print the table."""
    args = parser(__doc__).parse_args()
    model = load_model(args.model, args.threads)
    table = [
        *rows(model, "europarl", args.data / "sentence_bench" / "europarl", EUROPARL),
        *rows(model, "tatoeba", args.data / "sentence_bench" / "tatoeba", TATOEBA),
    ]
    prefix = model.config.get("sentence_prefix", "")
    report("sentence_retrieval", HEADER, table, signature(model, vectors=f"mean of all tokens, prefix {prefix!r}"))


if __name__ == "__main__":
    main()

"""Choose how much of a phrase alone a search adds to phrases in their sentences (phrasemate.encode.rescoring).

    python bench/views.py .cache/confidence

Two things are weighed. Right answers: queries, collection and what counts as right are those of bench/confidence.py,
whose folder this shares; the first group by support. Senses: the ambiguous phrases of docs/polysemy-set.md, is the
nearest mate one of the right sense? Settings are chosen on the first half of the languages and on every second
ambiguous phrase: the most right answers among those that lose no more than --lose of the senses; told beside are the
other half, and the demo's 40.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import report
from confidence import Collection, Query, judged, looked_up, material, options_of

from phrasemate import demo, load_model
from phrasemate.encode import Model
from phrasemate.encode.rescoring import Views
from phrasemate.evaluate.polysemy import BUNDLED_SET, Ambiguous, read_polysemy, score_senses
from phrasemate.evaluate.report import signature
from phrasemate.search import Searcher

QUERY = (0.0, 0.1, 0.2, 0.3, 0.5)
HIT = (0.0, 0.3, 0.5, 0.7, 1.0)
SHARPNESS = (0.001, 0.03, 0.05, 0.07)  # the first one: no votes
HEADER = [
    "query",
    "hit",
    "sharpness",
    "right, chosen on",
    "senses, chosen on",
    "right",
    "senses",
    "best of all",
    "demo",
]


def senses(model: Model, phrases: Sequence[Ambiguous], views: Views) -> tuple[float, float]:
    """The share of contexts whose nearest mate, of the phrase's own, has their sense; and of all phrases' mates."""
    contexts = [each for phrase in phrases for sense in phrase.senses for each in sense.contexts]
    mates = [each for phrase in phrases for sense in phrase.senses for each in sense.mates]
    scores = score_senses(phrases, views.queries(model, contexts)[1] @ views.hits(model, mates, model.encode(mates)).T)
    return float(scores.sense.mean()), float(scores.first.mean())


class Known:
    """A model that keeps the vectors that it made: the grid asks for the same ones again and again."""

    def __init__(self, model: Model) -> None:
        self._model, self._made, self.dim = model, {}, model.dim

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def encode(self, phrases: Sequence[Any]) -> Any:
        new = [phrase for phrase in dict.fromkeys(phrases) if phrase not in self._made]
        if new:
            self._made.update(zip(new, self._model.encode(new), strict=True))
        return np.array([self._made[phrase] for phrase in phrases])


class Answered:
    """Searches for queries of some languages; what is found first is kept as long as the weight of the query stays."""

    def __init__(self, model: Any, sets: Sequence[Sequence[Query]], among: Collection) -> None:
        self._model, self._sets, self._among = model, sets, among
        self._query, self._found = -1.0, []

    def right(self, views: Views) -> float:
        """The share that is answered right, mean over languages."""
        size = len(self._among.sentences)
        if views.query != self._query:
            self._found = [looked_up(self._model, each, self._among, size, views) for each in self._sets]
            self._query = views.query
        pairs = zip(self._sets, self._found, strict=True)
        return float(
            np.mean([judged(self._model, each, self._among, views, *found)[1].mean() for each, found in pairs])
        )


def main() -> None:
    """Print the grid, and what is chosen."""
    options = options_of(__doc__)
    options.add_argument("--size", type=int, default=20_000, help="sentences searched")
    options.add_argument("--lose", type=float, default=0.015, help="of the senses, at most")
    args = options.parse_args()
    model: Any = Known(load_model(args.model, args.threads))
    by_language, among = material(args, model, args.size)
    sets = list(by_language.values())
    ambiguous, half = read_polysemy(BUNDLED_SET), len(sets) // 2
    with tempfile.TemporaryDirectory() as scratch, demo.build(Path(scratch) / "idx", model) as index:
        table, asked = [], demo.questions()
        choosing, telling = (Answered(model, part, among) for part in (sets[:half], sets[half:]))
        for views in itertools.starmap(Views, itertools.product(QUERY, HIT, SHARPNESS)):
            found = Searcher(index, model, views).search_all([each.query for each in asked], k=1, contexts=1)
            first = demo.first([demo.Answer(*each) for each in zip(asked, found, strict=True)])
            chosen, told = choosing.right(views), telling.right(views)
            one, other = senses(model, ambiguous[1::2], views), senses(model, ambiguous[::2], views)
            numbers = [views.query, views.hit, views.sharpness]
            table.append([*numbers, chosen, one[0], told, other[0], senses(model, ambiguous, views)[1], first])
            print(*table[-1], file=sys.stderr, flush=True)
    report("views", HEADER, table, signature(model, **{name: getattr(args, name) for name in ("lines", "queries")}))
    floor = table[0][4] - args.lose
    print("chosen:", max((row for row in table if row[4] >= floor), key=lambda row: row[3])[:3])


if __name__ == "__main__":
    main()

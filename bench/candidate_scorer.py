"""Fits the scorer of a model's candidates on the dev half of the lookup yardstick, and writes it into its folder.

    python bench/candidate_scorer.py .cache/lookup --index .cache/lookup-20000 --index .cache/lookup-100000

Each index holds one of the yardstick's collections, built with the model. Queries without a right candidate count for
the probability, which so tells when there is no equivalent. Prints the share of dev queries whose first candidate is
right, with weights fitted on the other half of them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from common import parser
from scipy.optimize import minimize

from phrasemate import Index, Searcher, load_model
from phrasemate.candidates import Described
from phrasemate.encode import Model
from phrasemate.encode.candidate_scorer import FEATURES, CandidateScorer
from phrasemate.encode.model_folder import bundled_folder
from phrasemate.encode.rescoring import alone
from phrasemate.evaluate.lookup import LookupQuery, lemmas, read_lookups

AT_ONCE = 64
CALIBRATED = 5  # candidates of a query that probabilities are fitted on
RIDGE = 1e-3


def described(searcher: Searcher, model: Model, queries: list[LookupQuery]) -> list[Described]:
    """The candidates of all queries."""
    rows: list[Described] = []
    for start in range(0, len(queries), AT_ONCE):
        some = [query.phrase for query in queries[start : start + AT_ONCE]]
        vectors, bare = np.split(model.encode([*some, *map(alone, some)]), 2)
        with searcher.index.snapshot():
            rows += searcher.candidates([phrase.text for phrase in some], vectors, bare)
    return rows


def labels(queries: list[LookupQuery], rows: list[Described]) -> list[np.ndarray]:
    """Whether each candidate of each query is right."""
    return [
        np.array([lemmas(candidate.wording) in query.right for candidate in row.candidates], bool)
        for query, row in zip(queries, rows, strict=True)
    ]


def fitted(rows: list[Described], right: list[np.ndarray]) -> CandidateScorer:
    """The scorer of some queries: weights that rank, then a scale and a bias that make probabilities of their scores.

    Ranking: the mean over the queries with a right candidate of -log of the softmax's share of the right ones.
    Probabilities: logistic regression over each query's first `CALIBRATED` candidates, queries without a right one too.
    """
    features = np.concatenate([row.features for row in rows]).astype(float)
    mean, scale = features.mean(0), features.std(0) + 1e-9
    owner = np.repeat(np.arange(len(rows)), [len(own) for own in right])
    hit = np.concatenate(right)
    answered = np.bincount(owner, hit, len(rows)) > 0
    used = answered[owner]
    x, who, good = (features[used] - mean) / scale, owner[used], hit[used]

    def shares(scores: np.ndarray, where: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raised = np.exp(scores) * where
        total = np.bincount(who, raised, len(rows))
        return raised / np.maximum(total[who], 1e-300), total

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        scores = x @ weights
        scores -= scores.max()
        every, total = shares(scores, np.ones(len(who)))
        some, partial = shares(scores, good)
        value = (np.log(total[answered]) - np.log(np.maximum(partial[answered], 1e-300))).sum() / answered.sum()
        gradient = x.T @ (every - some) / answered.sum()
        return float(value + RIDGE * weights @ weights / 2), gradient + RIDGE * weights

    slopes = minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B").x / scale
    scores = features @ slopes
    order = np.lexsort((-scores, owner))
    place = np.arange(len(order)) - np.searchsorted(owner, owner)  # owner is sorted: rank of each within its query
    seen = order[place < CALIBRATED]

    def calibration(values: np.ndarray) -> tuple[float, np.ndarray]:
        logits = values[0] * scores[seen] + values[1]
        off = 1 / (1 + np.exp(-logits)) - hit[seen]
        value = (np.logaddexp(0, logits) - hit[seen] * logits).mean()
        return float(value), np.array([(off * scores[seen]).mean(), off.mean()])

    slope, bias = minimize(calibration, np.array([1.0, 0.0]), jac=True, method="L-BFGS-B").x
    return CandidateScorer(float(bias), tuple((slope * slopes).tolist()))


def first(scorer: CandidateScorer, rows: list[Described], right: list[np.ndarray]) -> np.ndarray:
    """Whether the likeliest candidate of each query is right."""
    return np.array(
        [
            bool(len(own)) and bool(own[int(scorer.probabilities(row.features).argmax())])
            for row, own in zip(rows, right, strict=True)
        ]
    )


def main() -> None:
    """Fit, print, write."""
    options = parser(__doc__)
    options.add_argument("queries", type=Path)
    options.add_argument("--index", type=Path, action="append", required=True)
    args = options.parse_args()
    model = load_model(args.model, threads=args.threads)
    queries = [query for path in sorted(args.queries.glob("*.jsonl")) for query in read_lookups(path, "dev")]
    rows: list[Described] = []
    right: list[np.ndarray] = []
    for folder in args.index:
        with Index.open(folder, model, readonly=True) as index:
            own = described(Searcher(index, model), model, queries)
        rows += own
        right += labels(queries, own)
    answered = np.array([own.any() for own in right])
    halves = np.arange(len(rows)) % 2 == 0
    right_first = np.zeros(len(rows), bool)
    for half in (halves, ~halves):
        scorer = fitted([rows[i] for i in np.flatnonzero(half)], [right[i] for i in np.flatnonzero(half)])
        others = np.flatnonzero(~half)
        right_first[others] = first(scorer, [rows[i] for i in others], [right[i] for i in others])
    print(f"{len(rows)} look-ups, a right candidate for {answered.mean():.3f}, right first {right_first.mean():.3f}")
    print(f"of those with a right candidate {right_first[answered].mean():.3f}")
    scorer = fitted(rows, right)
    for name, weight in zip(FEATURES, scorer.weights, strict=True):
        print(f"  {name:15} {weight:8.3f}")
    facts = {"queries": len(rows), "indexes": [folder.name for folder in args.index], "right first": right_first.mean()}
    scorer.save(model.path or bundled_folder(), model.hash, facts)


if __name__ == "__main__":
    main()

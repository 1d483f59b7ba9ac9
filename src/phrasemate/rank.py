"""Verbs over `Run`: make one, fuse several, normalise scores, correct hubness, re-rank.

A `Run` is a ranking for each query, best first; ids of -1 fill rows that are shorter (their scores are -inf). Nothing
here changes its arguments, knows a model or holds more than a few times what it is given. Equal scores stand in the
order of their ids, unless a function says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.types import Phrase, PhrasePair, Run, Scorer
from phrasemate.utils.knn import argsort_desc, topk

MARGINS = ("absolute", "csls", "distance", "quarter", "ratio")

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]
Doubles = NDArray[np.float64]
_AT_ONCE = 1 << 24  # scores sorted together: 128 MB of positions
_PAIRS = 1024  # handed to a scorer together


def run_of(scores: NDArray[np.floating], k: int | None = None, name: str = "") -> Run:
    """The best documents of each query, from a matrix of scores.

    Args:
        scores: (queries, documents); -inf says that the document is not a candidate.
        k: Documents of each query; None for all.
        name: Name of the run.

    Raises InputError for a matrix with NaN in it.
    """
    if scores.ndim != 2 or (k is not None and k < 1):
        raise InputError(f"scores of shape {scores.shape} and k {k}; expected (queries, documents) and k of 1 or more")
    queries, documents = scores.shape
    k = min(documents if k is None else k, documents)
    ids, top_scores = np.empty((queries, k), np.int64), np.empty((queries, k), np.float32)
    rows = max(1, _AT_ONCE // max(documents, 1))
    for at in range(0, queries, rows):
        block = scores[at : at + rows].astype(np.float32)  # (rows, documents)
        if np.isnan(block).any():
            raise InputError(f"NaN among the scores of queries {at} to {at + len(block) - 1}; expected numbers or -inf")
        columns, top_scores[at : at + rows] = topk(block, k)  # (rows, k) each
        ids[at : at + rows] = np.where(top_scores[at : at + rows] == -np.inf, -1, columns)
    return Run(ids, top_scores, name)


def rank_positions(run: Run) -> Doubles:
    """(queries, k) the rank of each document, from 1; equal scores share the mean of their ranks; -1 has inf."""
    present = run.ids >= 0
    columns = np.broadcast_to(np.arange(run.ids.shape[1]), run.ids.shape)
    if not run.ids.size:
        return np.zeros(run.ids.shape)
    edge = (run.scores[:, 1:] != run.scores[:, :-1]) | ~present[:, 1:]  # a new score begins here
    first = np.pad(edge, ((0, 0), (1, 0)), constant_values=True)
    last = np.pad(edge, ((0, 0), (0, 1)), constant_values=True)
    begin = np.maximum.accumulate(np.where(first, columns, 0), axis=1)
    end = np.minimum.accumulate(np.where(last, columns, columns[:, -1:])[:, ::-1], axis=1)[:, ::-1]
    return np.where(present, (begin + end) / 2 + 1, np.inf)


def interpolate(runs: Sequence[Run], weights: Sequence[float] | None = None, name: str = "") -> Run:
    """Weighted interpolation of ranks: rank(d) = sum over runs of weight x rank in that run.

    The ensembles of Glavaš and Vulić (ECIR 2019; weights .5/.5, .7/.3 ...; default: equal ones). What a run does not
    list comes right after what it lists. Scores are the negative interpolated ranks; of equal ones,
    those that the run with the greatest weight (the first of such) puts higher come first.
    """
    shares = _weights(runs, weights)
    absent = [(run.ids >= 0).sum(1) + 1.0 for run in runs]  # each (queries,)
    gains = [_zero_inf(miss_rank[:, None] - rank_positions(run)) for run, miss_rank in zip(runs, absent, strict=True)]
    base = -sum(share * miss_rank for share, miss_rank in zip(shares, absent, strict=True))
    return _fused(runs, [share * gain for share, gain in zip(shares, gains, strict=True)], base, shares, name)


def weighted_sum(
    runs: Sequence[Run], weights: Sequence[float] | None = None, absent: float = 0.0, name: str = ""
) -> Run:
    """score(d) = sum over runs of weight x score (CombSUM of Fox and Shaw 1994 where the weights are 1, the default).

    Normalise the scores first. ``absent`` is the score of what a run does not list: 0 suits `softmax`.
    Raises InputError for one that is not a finite number.
    """
    if not np.isfinite(absent):
        raise InputError(f"absent {absent}; expected a number")
    shares = _weights(runs, weights, 1.0)
    gains = [share * _zero_inf(run.scores.astype(np.float64) - absent) for share, run in zip(shares, runs, strict=True)]
    return _fused(runs, gains, np.full(len(runs[0].ids), absent * sum(shares)), shares, name)


def z_scores(run: Run) -> Run:
    """(score - mean) / standard deviation of each query's list; where all are equal, 0."""
    present = run.ids >= 0
    number = np.maximum(present.sum(1, keepdims=True), 1)
    scores = np.where(present, run.scores, 0).astype(np.float64)
    mean = scores.sum(1, keepdims=True) / number
    apart = np.where(present, scores - mean, 0)
    deviation = np.sqrt((apart**2).sum(1, keepdims=True) / number)
    return _scored(run, apart / np.where(deviation > 0, deviation, 1))


def softmax(run: Run, temperature: float = 1.0) -> Run:
    """exp(score / temperature) over its sum in each query's list. Raises InputError for a temperature of 0 or less."""
    if not 0 < temperature < np.inf:
        raise InputError(f"temperature {temperature}; expected a number above 0")
    present = run.ids >= 0
    scores = np.where(present, run.scores, -np.inf).astype(np.float64)
    highest = _zero_inf(scores.max(1, initial=-np.inf, keepdims=True))
    powers = np.exp((scores - highest) / temperature)
    return _scored(run, powers / np.maximum(powers.sum(1, keepdims=True), np.finfo(np.float64).tiny))


def neighbourhood(run: Run, k: int) -> Floats:
    """(queries,) the mean of the k highest scores of each list: of all, where there are fewer; 0 without any.

    Raises InputError for k below 1.
    """
    if k < 1:
        raise InputError(f"k {k}; expected 1 or more neighbours")
    present = (run.ids >= 0)[:, :k]
    total = np.where(present, run.scores[:, :k], 0).sum(1, dtype=np.float64)
    return (total / np.maximum(present.sum(1), 1)).astype(np.float32)  # type: ignore[no-any-return]


def margin_of(similarity: Floats, query_mean: Floats, document_mean: Floats, how: str = "ratio") -> Floats:
    """Compare similarities with those of the neighbours, element by element; the three shapes broadcast.

    Args:
        similarity: Cosines of pairs x, y.
        query_mean: Mean cosine of the k nearest neighbours of x.
        document_mean: Mean cosine of the k nearest neighbours of y.
        how: Name of the margin, with b = (query_mean + document_mean) / 2:
            "ratio" cos / b, "distance" cos - b, "absolute" cos (Artetxe and Schwenk, ACL 2019, section 3.1),
            "csls" 2 cos - 2 b (Conneau et al. 2018), which is twice the distance,
            "quarter" cos - b / 4, ours, for encoders whose cosines mean the same everywhere.

    Where b is not positive, as among vectors that have nothing in common, a ratio means nothing: b is 1e-6 there.
    """
    if how == "absolute":
        return similarity
    if how == "csls":
        return 2 * similarity - query_mean - document_mean
    middle: Floats = (query_mean + document_mean) * np.float32(0.5)
    if how == "distance":
        return similarity - middle
    if how == "quarter":
        return similarity - middle * np.float32(0.25)
    if how == "ratio":
        ratio: Floats = similarity / middle.clip(np.float32(1e-6))
        return ratio
    raise InputError(f"margin {how!r}; expected one of {', '.join(MARGINS)}")


def margin(scores: Floats, k: int = 4, how: str = "ratio") -> Floats:
    """(queries, documents) cosines -> margins; the neighbours of a query are documents and the other way round.

    A cosine of -inf says that the document is not a candidate: it is not a neighbour, and stays -inf.
    """
    return margin_of(scores, _mean_top(scores, k), _mean_top(scores.T, k).T, how)  # (queries, 1), (1, documents)


def csls(scores: Floats, k: int = 10) -> Floats:
    """(queries, documents) cosines -> cross-domain similarity local scaling, k = 10 as in Conneau et al. (2018)."""
    return margin(scores, k, "csls")


def margin_lists(run: Run, back: Run, k: int = 4, how: str = "ratio") -> Run:
    """`margin` for what k-nearest-neighbour lists hold, without the matrix; the lists are put in the new order.

    Args:
        run: For each query its nearest documents with their cosines, at least k.
        back: For each document (row = id) its nearest queries, at least k.
        k: Neighbours of the neighbourhood; a shallower list gives a smaller one.
        how: Name of the margin (`margin_of`).

    Raises InputError for a document that ``back`` has no row for.
    """
    if run.ids.size and run.ids.max() >= len(back.ids):
        raise InputError(
            f"document {run.ids.max()}: the lists the other way have {len(back.ids)} rows, one per document"
        )
    back_means = neighbourhood(back, k)
    row_ids = np.maximum(run.ids, 0)
    candidate_means = back_means[row_ids] if len(back_means) else np.zeros(run.ids.shape, np.float32)
    return _sorted(_scored(run, margin_of(run.scores, neighbourhood(run, k)[:, None], candidate_means, how)))


def neighbour_pairs(run: Run, back: Run) -> tuple[Ids, Ids, Floats]:
    """Pairs of which one is among the neighbours of the other: queries, documents and cosines, (pairs,) each.

    ``run``: for each query its nearest documents; ``back``: for each document (row = id) its nearest queries. Each pair
    comes once, in the order of the queries and then of the documents.
    """
    width = max(len(back.ids), 1)
    rows, back_rows = (np.repeat(np.arange(len(side.ids)), side.ids.shape[1]) for side in (run, back))
    keys = np.concatenate([rows * width + run.ids.ravel(), back.ids.ravel() * width + back_rows])
    present = np.concatenate([run.ids.ravel() >= 0, back.ids.ravel() >= 0])
    distinct, first = np.unique(keys[present], return_index=True)
    cosines = np.concatenate([run.scores.ravel(), back.scores.ravel()])[present][first]
    return distinct // width, distinct % width, cosines


def numbered(texts: Iterable[Hashable]) -> NDArray[np.int64]:
    """(n,) a number for each text, the same for equal ones, in the order in which they come first."""
    place: dict[Hashable, int] = {}
    return np.array([place.setdefault(text, len(place)) for text in texts], np.int64)


def whole(text: str) -> Phrase:
    """A sentence as a phrase of itself, for a `Scorer`. Raises InputError for an empty one."""
    return Phrase(text, 0, len(text))


def rerank(
    run: Run,
    scorer: Scorer,
    n: int,
    query: Callable[[int], Phrase],
    document: Callable[[int], Phrase],
    batch: int = _PAIRS,
    name: str = "",
) -> Run:
    """Put the first of each list in the order of a scorer; the others stay behind them, as they were.

    Scores are the scorer's; those of the others are shifted to lie below them.

    Args:
        run: Lists to re-rank.
        scorer: What scores pairs.
        n: First documents of each list that are scored.
        query: Gives the phrase (`whole` of a sentence) of a row.
        document: Gives the phrase of an id.
        batch: Pairs that are scored together.
        name: Name of the new run; "" for that of ``run``.
    """
    if n < 1 or batch < 1:
        raise InputError(f"n {n} and batch {batch}; expected 1 or more of each")
    present = run.ids >= 0
    places = np.argwhere(present[:, :n])  # (pairs, 2)
    pairs = (PhrasePair(query(int(row)), document(int(run.ids[row, column]))) for row, column in places)
    blocks = [np.zeros(0, np.float32)]
    while part := list(islice(pairs, batch)):
        blocks.append(_checked(scorer.score(part), len(part)))
    scores = np.where(present, run.scores, 0)
    scores[places[:, 0], places[:, 1]] = np.concatenate(blocks)
    if n < scores.shape[1]:
        lowest = np.nextafter(scores[:, :n].min(1, keepdims=True), np.float32(-np.inf))
        scores[:, n:] = lowest + (scores[:, n:] - scores[:, n : n + 1])  # below, whatever the rounding
    return _sorted(_scored(Run(run.ids, scores, name or run.name), scores))


def _checked(scores: Floats, pairs: int) -> Floats:
    scores = np.asarray(scores, np.float32)
    if scores.shape != (pairs,) or not np.isfinite(scores).all():
        raise InputError(
            f"numbers of shape {scores.shape} from the scorer for {pairs} pairs; expected a finite one each"
        )
    return scores


def _mean_top(scores: Floats, k: int) -> Floats:
    """(rows, 1) the mean of the k highest that are not -inf, 0 where there are none; InputError for k below 1."""
    if k < 1:
        raise InputError(f"k {k}; expected 1 or more neighbours")
    top = scores
    if len(scores) and scores.shape[1] > k:
        rows = max(1, _AT_ONCE // scores.shape[1])
        parts = (np.partition(scores[at : at + rows], -k, axis=1)[:, -k:] for at in range(0, len(scores), rows))
        top = np.concatenate(list(parts))
    finite = top != -np.inf
    mean: Floats = np.where(finite, top, 0).sum(1, keepdims=True) / np.maximum(finite.sum(1, keepdims=True), 1)
    return mean.astype(np.float32)


def _weights(runs: Sequence[Run], weights: Sequence[float] | None, equal: float | None = None) -> list[float]:
    if not runs or len({len(run.ids) for run in runs}) != 1:
        raise InputError(f"runs of {[len(run.ids) for run in runs]} queries; expected one or more, all of one number")
    shares = [equal or 1 / len(runs)] * len(runs) if weights is None else list(weights)
    if len(shares) != len(runs) or not all(0 <= share < np.inf for share in shares):
        raise InputError(f"weights {shares} for {len(runs)} runs; expected one for each, 0 or more")
    return shares


def _fused(runs: Sequence[Run], gains: Sequence[Doubles], base: Doubles, shares: Sequence[float], name: str) -> Run:
    """Every document of any run, with the sum of its gains and the base of its query.

    Equal ones in the order of the first run with the greatest share, then by id.
    """
    present = np.concatenate([run.ids.ravel() >= 0 for run in runs])
    rows = np.concatenate([np.repeat(np.arange(len(run.ids)), run.ids.shape[1]) for run in runs])[present]
    ids = np.concatenate([run.ids.ravel() for run in runs])[present]
    distinct, places = np.unique(ids, return_inverse=True)  # ids may be as large as 64 bits are
    span = max(1, len(distinct))
    keys, inverse = np.unique(rows * span + places, return_inverse=True)  # each pair of query and document once
    row, document = keys // span, distinct[keys % span]
    sums = np.bincount(inverse, np.concatenate([gain.ravel() for gain in gains])[present], len(keys))
    scores = (sums + base[row]).astype(np.float32)
    ranks, leader = np.full(len(keys), np.inf), int(np.argmax(shares))
    is_leader = np.concatenate([np.full(run.ids.size, number == leader) for number, run in enumerate(runs)])[present]
    ranks[inverse[is_leader]] = rank_positions(runs[leader])[runs[leader].ids >= 0]
    order = np.lexsort((document, ranks, -scores, row))
    return _listed(row[order], document[order], scores[order], len(base), name)


def _listed(row: Ids, ids: Ids, scores: Floats, queries: int, name: str) -> Run:
    """Triples by ascending row -> lists of one length, filled with -1 and -inf."""
    counts = np.bincount(row, minlength=queries)
    column = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = (queries, int(counts.max(initial=0)))
    run = Run(np.full(shape, -1, np.int64), np.full(shape, -np.inf, np.float32), name)
    run.ids[row, column], run.scores[row, column] = ids, scores
    return run


def _scored(run: Run, scores: NDArray[np.floating]) -> Run:
    """Lists of a run with other scores, -inf where nothing is listed."""
    return Run(run.ids, np.where(run.ids >= 0, scores, -np.inf).astype(np.float32), run.name)


def _sorted(run: Run) -> Run:
    """The lists in the order of their scores; equal ones stay in the order in which they were."""
    order = argsort_desc(run.scores)
    return Run(np.take_along_axis(run.ids, order, 1), np.take_along_axis(run.scores, order, 1), run.name)


def _zero_inf(values: NDArray[np.floating]) -> Doubles:
    return np.where(np.isfinite(values), values, 0.0)

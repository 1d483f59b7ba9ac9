"""Functions on rankings (`Run`): make a run, fuse several, normalise scores, correct hubness, re-rank.

A `Run` is a ranking for each query, best first. Shorter rankings are filled with ids of -1 and scores of -inf. No
function changes its arguments, depends on a model, or needs more memory than a few times its input. Equal scores are in
the order of the ids, unless a function says otherwise.

Three rankers need no training: `agg`, `qlm` and `tbt`, the baselines of Glavaš and Vulić, "Zero-Shot Language Transfer
for Cross-Lingual Sentence Retrieval Using Bidirectional Attention Model" (ECIR 2019), section 3.2. Their sentences are
lists of words (`phrasemate.text.sentences.content_words`). Each returns a float32 matrix of scores (queries,
documents), which `run_of` converts to a run.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.pooling import unit
from phrasemate.errors import InputError
from phrasemate.types import Phrase, PhrasePair, Run, Scorer
from phrasemate.utils.arrays import Doubles, Floats, Ids
from phrasemate.utils.knn import argsort_desc, nearest, topk
from phrasemate.utils.margin import margin_of, neighbourhood
from phrasemate.vectors.word_vectors import WordVectors

Sentences = Sequence[Sequence[str]]
_SCORES_PER_BLOCK = 1 << 24  # scores that `run_of` sorts at once; their ids take 128 MB
_PAIRS_PER_BATCH = 1024  # pairs that a scorer scores at once
MU = 0.95  # Glavaš and Vulić (ECIR 2019), section 4.1
_SUMS_PER_BLOCK = 1_000_000  # scores that `qlm` sums up at once


def run_of(scores: NDArray[np.floating], k: int | None = None, name: str = "") -> Run:
    """Rank the best documents of each query from a matrix of scores.

    Args:
        scores: Scores (queries, documents); -inf excludes a document.
        k: Maximum number of documents per query; None for all.
        name: Name of the run.

    Raises InputError for NaN, for k below 1, and for an array that is not a matrix.
    """
    if scores.ndim != 2 or (k is not None and k < 1):
        raise InputError(f"scores of shape {scores.shape} and k {k}; expected (queries, documents) and k of 1 or more")
    queries, documents = scores.shape
    k = min(documents if k is None else k, documents)
    ids, top_scores = np.empty((queries, k), np.int64), np.empty((queries, k), np.float32)
    rows = max(1, _SCORES_PER_BLOCK // max(documents, 1))
    for at in range(0, queries, rows):
        block = scores[at : at + rows].astype(np.float32)  # (rows, documents)
        if np.isnan(block).any():
            raise InputError(f"NaN among the scores of queries {at} to {at + len(block) - 1}; expected numbers or -inf")
        columns, top_scores[at : at + rows] = topk(block, k)  # (rows, k) each
        ids[at : at + rows] = np.where(top_scores[at : at + rows] == -np.inf, -1, columns)
    return Run(ids, top_scores, name)


def rank_positions(run: Run) -> Doubles:
    """Return the rank of each document of a run, from 1, (queries, k).

    Documents with equal scores have the mean of their ranks. Ids of -1 have the rank inf.
    """
    present = run.ids >= 0
    columns = np.broadcast_to(np.arange(run.ids.shape[1]), run.ids.shape)
    if not run.ids.size:
        return np.zeros(run.ids.shape)
    edge = (run.scores[:, 1:] != run.scores[:, :-1]) | ~present[:, 1:]  # differs from the score to the left
    first = np.pad(edge, ((0, 0), (1, 0)), constant_values=True)
    last = np.pad(edge, ((0, 0), (0, 1)), constant_values=True)
    begin = np.maximum.accumulate(np.where(first, columns, 0), axis=1)
    end = np.minimum.accumulate(np.where(last, columns, columns[:, -1:])[:, ::-1], axis=1)[:, ::-1]
    return np.where(present, (begin + end) / 2 + 1, np.inf)


def interpolate(runs: Sequence[Run], weights: Sequence[float] | None = None, name: str = "") -> Run:
    """Fuse runs by weighted interpolation of ranks: rank(d) = sum over runs of weight x rank of d in the run.

    These are the ensembles of Glavaš and Vulić (ECIR 2019; weights .5/.5, .7/.3 and others). A document that a run does
    not list has the rank after the last listed one. Scores are the negative interpolated ranks. Documents with equal
    scores are in the order of the run with the greatest weight.

    Args:
        runs: Runs on the same queries.
        weights: Weight of each run, 0 or more; by default all are 1 / number of runs.
        name: Name of the new run.

    Raises InputError for runs with different numbers of queries and for invalid weights.
    """
    shares = _weights(runs, weights)
    absent = [(run.ids >= 0).sum(1) + 1.0 for run in runs]  # each (queries,)
    gains = [_zero_inf(miss_rank[:, None] - rank_positions(run)) for run, miss_rank in zip(runs, absent, strict=True)]
    base = -sum(share * miss_rank for share, miss_rank in zip(shares, absent, strict=True))
    return _fused(runs, [share * gain for share, gain in zip(shares, gains, strict=True)], base, shares, name)


def weighted_sum(
    runs: Sequence[Run], weights: Sequence[float] | None = None, absent: float = 0.0, name: str = ""
) -> Run:
    """Fuse runs by the weighted sum of scores: score(d) = sum over runs of weight x score of d in the run.

    With weights of 1, the default, this is CombSUM of Fox and Shaw (1994). The scores of the runs must be comparable;
    see `z_scores` and `softmax`. Documents with equal scores are in the order of the run with the greatest weight.

    Args:
        runs: Runs on the same queries.
        weights: Weight of each run, 0 or more; by default all are 1.
        absent: Score of a document that a run does not list; 0 suits `softmax`.
        name: Name of the new run.

    Raises InputError for runs with different numbers of queries, invalid weights, and an ``absent`` that is not finite.
    """
    if not np.isfinite(absent):
        raise InputError(f"absent {absent}; expected a number")
    shares = _weights(runs, weights, 1.0)
    gains = [share * _zero_inf(run.scores.astype(np.float64) - absent) for share, run in zip(shares, runs, strict=True)]
    return _fused(runs, gains, np.full(len(runs[0].ids), absent * sum(shares)), shares, name)


def z_scores(run: Run) -> Run:
    """Standardise the scores of each query: (score - mean) / standard deviation; 0 if all scores are equal."""
    present = run.ids >= 0
    number = np.maximum(present.sum(1, keepdims=True), 1)
    scores = np.where(present, run.scores, 0).astype(np.float64)
    mean = scores.sum(1, keepdims=True) / number
    differences = np.where(present, scores - mean, 0)
    deviation = np.sqrt((differences**2).sum(1, keepdims=True) / number)
    return _replace_scores(run, differences / np.where(deviation > 0, deviation, 1))


def softmax(run: Run, temperature: float = 1.0) -> Run:
    """Convert the scores of each query to probabilities: exp(score / temperature), divided by the sum over the query.

    Raises InputError for a temperature of 0 or less.
    """
    if not 0 < temperature < np.inf:
        raise InputError(f"temperature {temperature}; expected a number above 0")
    present = run.ids >= 0
    scores = np.where(present, run.scores, -np.inf).astype(np.float64)
    highest = _zero_inf(scores.max(1, initial=-np.inf, keepdims=True))
    powers = np.exp((scores - highest) / temperature)
    return _replace_scores(run, powers / np.maximum(powers.sum(1, keepdims=True), np.finfo(np.float64).tiny))


def margin_lists(run: Run, back: Run, k: int = 4, how: str = "ratio") -> Run:
    """Convert the cosines of nearest-neighbour lists to margins, and sort each list by them.

    Unlike `phrasemate.utils.margin.margin`, this does not need the matrix of all cosines.

    Args:
        run: Nearest documents of each query, with their cosines.
        back: Nearest queries of each document; row i belongs to document i.
        k: Number of neighbours whose mean cosine a margin compares with; shorter lists have fewer.
        how: Name of the margin (`margin_of`).

    Raises InputError for a document without a row in ``back``.
    """
    if run.ids.size and run.ids.max() >= len(back.ids):
        raise InputError(
            f"document {run.ids.max()}: the lists the other way have {len(back.ids)} rows, one per document"
        )
    back_means = neighbourhood(back, k)
    row_ids = np.maximum(run.ids, 0)
    candidate_means = back_means[row_ids] if len(back_means) else np.zeros(run.ids.shape, np.float32)
    return _sort(_replace_scores(run, margin_of(run.scores, neighbourhood(run, k)[:, None], candidate_means, how)))


def numbered(texts: Iterable[Hashable]) -> NDArray[np.int64]:
    """Number the distinct texts from 0, in the order of their first occurrences; return the number of each, (n,)."""
    place: dict[Hashable, int] = {}
    return np.array([place.setdefault(text, len(place)) for text in texts], np.int64)


def whole(text: str) -> Phrase:
    """Convert a sentence to a phrase that spans it, for a `Scorer`. Raises InputError for an empty sentence."""
    return Phrase(text, 0, len(text))


def rerank(
    run: Run,
    scorer: Scorer,
    n: int,
    query: Callable[[int], Phrase],
    document: Callable[[int], Phrase],
    batch: int = _PAIRS_PER_BATCH,
    name: str = "",
) -> Run:
    """Re-rank the first n documents of each query by a scorer; the others follow in their former order.

    The first n documents have the scorer's scores. The scores of the others are shifted to lie below these.

    Args:
        run: Run to re-rank.
        scorer: Scorer of pairs of query and document.
        n: Number of documents of each query to score.
        query: Returns the phrase of a row; for a sentence its `whole`.
        document: Returns the phrase of a document id.
        batch: Number of pairs to score at once.
        name: Name of the new run; "" for the name of ``run``.

    Raises InputError for n or batch below 1, and for scores that are not finite or not one per pair.
    """
    if n < 1 or batch < 1:
        raise InputError(f"n {n} and batch {batch}; expected 1 or more of each")
    present = run.ids >= 0
    places = np.argwhere(present[:, :n])  # (pairs, 2)
    pairs = (PhrasePair(query(int(row)), document(int(run.ids[row, column]))) for row, column in places)
    blocks = [np.zeros(0, np.float32)]
    while part := list(islice(pairs, batch)):
        blocks.append(_check_scores(scorer.score(part), len(part)))
    scores = np.where(present, run.scores, 0)
    scores[places[:, 0], places[:, 1]] = np.concatenate(blocks)
    if n < scores.shape[1]:
        lowest = np.nextafter(scores[:, :n].min(1, keepdims=True), np.float32(-np.inf))
        scores[:, n:] = lowest + (scores[:, n:] - scores[:, n : n + 1])  # `lowest` keeps them below despite rounding
    return _sort(_replace_scores(Run(run.ids, scores, name or run.name), scores))


def _check_scores(scores: Floats, pairs: int) -> Floats:
    """Return a scorer's scores as float32. Raises InputError unless there is a finite score for each pair."""
    scores = np.asarray(scores, np.float32)
    if scores.shape != (pairs,) or not np.isfinite(scores).all():
        raise InputError(
            f"scores of shape {scores.shape} from the scorer for {pairs} pairs; expected a finite score for each pair"
        )
    return scores


def _weights(runs: Sequence[Run], weights: Sequence[float] | None, equal: float | None = None) -> list[float]:
    """Check runs and weights, and return the weights; the default for each is ``equal``, else 1 / number of runs.

    Raises InputError without runs, for runs with different numbers of queries, and for invalid weights.
    """
    if not runs or len({len(run.ids) for run in runs}) != 1:
        raise InputError(
            f"runs of {[len(run.ids) for run in runs]} queries; expected one or more runs with equal numbers of queries"
        )
    shares = [equal or 1 / len(runs)] * len(runs) if weights is None else list(weights)
    if len(shares) != len(runs) or not all(0 <= share < np.inf for share in shares):
        raise InputError(f"weights {shares} for {len(runs)} runs; expected one for each, 0 or more")
    return shares


def _fused(runs: Sequence[Run], gains: Sequence[Doubles], base: Doubles, shares: Sequence[float], name: str) -> Run:
    """Rank the documents of all runs by their scores: the base of the query plus the sum of the document's gains.

    Documents with equal scores are in the order of the first run with the greatest share, then by id.

    Args:
        runs: Runs to fuse.
        gains: Gain of each listed document, (queries, k) for each run.
        base: Score of a document without gains, (queries,).
        shares: Weight of each run.
        name: Name of the new run.
    """
    present = np.concatenate([run.ids.ravel() >= 0 for run in runs])
    rows = np.concatenate([np.repeat(np.arange(len(run.ids)), run.ids.shape[1]) for run in runs])[present]
    ids = np.concatenate([run.ids.ravel() for run in runs])[present]
    distinct, places = np.unique(ids, return_inverse=True)  # ids may have 64 bits, so rows x ids could overflow
    span = max(1, len(distinct))
    keys, inverse = np.unique(rows * span + places, return_inverse=True)  # each pair of query and document once
    row, document = keys // span, distinct[keys % span]
    sums = np.bincount(inverse, np.concatenate([gain.ravel() for gain in gains])[present], len(keys))
    scores = (sums + base[row]).astype(np.float32)
    ranks, leader = np.full(len(keys), np.inf), int(np.argmax(shares))
    is_leader = np.concatenate([np.full(run.ids.size, number == leader) for number, run in enumerate(runs)])[present]
    ranks[inverse[is_leader]] = rank_positions(runs[leader])[runs[leader].ids >= 0]
    order = np.lexsort((document, ranks, -scores, row))
    return _run_of_rows(row[order], document[order], scores[order], len(base), name)


def _run_of_rows(row: Ids, ids: Ids, scores: Floats, queries: int, name: str) -> Run:
    """Make a run from documents sorted by row (query): row, id and score of each, (documents,)."""
    counts = np.bincount(row, minlength=queries)
    column = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = (queries, int(counts.max(initial=0)))
    run = Run(np.full(shape, -1, np.int64), np.full(shape, -np.inf, np.float32), name)
    run.ids[row, column], run.scores[row, column] = ids, scores
    return run


def _replace_scores(run: Run, scores: NDArray[np.floating]) -> Run:
    """Return the run with other scores (queries, k), and -inf for ids of -1; the order stays."""
    return Run(run.ids, np.where(run.ids >= 0, scores, -np.inf).astype(np.float32), run.name)


def _sort(run: Run) -> Run:
    """Sort the documents of each query by their scores; equal scores keep their order."""
    order = argsort_desc(run.scores)
    return Run(np.take_along_axis(run.ids, order, 1), np.take_along_axis(run.scores, order, 1), run.name)


def _zero_inf(values: NDArray[np.floating]) -> Doubles:
    """Replace infinities by 0."""
    return np.where(np.isfinite(values), values, 0.0)


def qlm(queries: Sentences, documents: Sentences, mu: float = MU) -> Floats:
    """Score documents by QLM, the query likelihood under the document's unigram model, (queries, documents).

    With Jelinek-Mercer smoothing (eq. 8)::

        P(q | d) = prod over words t of q of  mu tf(t, d) / |d| + (1 - mu) cf(t) / |C|

    tf counts t in the document, cf counts it in the collection C of all documents, and |.| counts all words. The score
    is log P(q | d) minus the sum of log((1 - mu) cf(t) / |C|), which is the same for all documents. So a document that
    shares no word with the query has the score 0. Words of the query that are in no document are ignored.

    Raises InputError unless mu is between 0 and 1.
    """
    if not 0 < mu < 1:
        raise InputError(f"mu {mu}; expected a weight between 0 and 1")
    number = {word: i for i, word in enumerate(dict.fromkeys(word for sentence in documents for word in sentence))}
    document, term, tf = _term_counts(documents, number)
    sizes = np.array([len(sentence) for sentence in documents], np.float64)
    frequency = np.bincount(term, tf, minlength=len(number)) / max(sizes.sum(), 1)  # cf / |C|
    weights = np.log1p(mu * tf / sizes[document] / ((1 - mu) * frequency[term]))
    order = np.argsort(term, kind="stable")  # of the postings, by term
    bounds = np.searchsorted(term[order], np.arange(len(number) + 1))
    postings = document[order], weights[order], bounds
    return _sum_postings(_term_counts(queries, number), postings, len(queries), len(documents))


def _term_counts(sentences: Sentences, number: dict[str, int]) -> tuple[Ids, Ids, Doubles]:
    """Count the words of each sentence: row of the sentence, number of the word, and count, (distinct pairs,) each.

    Words without a number are ignored.
    """
    pairs = [(row, number[word]) for row, sentence in enumerate(sentences) for word in sentence if word in number]
    cells, counts = np.unique(np.array(pairs, np.int64).reshape(-1, 2), axis=0, return_counts=True)
    return cells[:, 0], cells[:, 1], counts.astype(np.float64)


def _sum_postings(
    query_counts: tuple[Ids, Ids, Doubles], postings: tuple[Ids, Doubles, Ids], rows: int, columns: int
) -> Floats:
    """Return score(q, d) = sum over words of q of count in q x weight in d, (rows, columns).

    Args:
        query_counts: Counts of the queries' words, as from `_term_counts`.
        postings: Documents and weights of each term, one term after the other, and the bounds of each term in these.
        rows: Number of queries.
        columns: Number of documents.
    """
    query, term, count = query_counts
    document, weights, bounds = postings
    scores, size = np.zeros((rows, columns), np.float32), max(1, _SUMS_PER_BLOCK // max(columns, 1))
    for at in range(0, rows, size):
        part_of_query = slice(*np.searchsorted(query, [at, at + size]))
        lengths = bounds[term[part_of_query] + 1] - bounds[term[part_of_query]]
        ends = np.cumsum(lengths)
        places = np.arange(lengths.sum()) + np.repeat(bounds[term[part_of_query]] - ends + lengths, lengths)
        cells = np.repeat(query[part_of_query] - at, lengths) * columns + document[places]
        block = np.bincount(cells, weights[places] * np.repeat(count[part_of_query], lengths), minlength=size * columns)
        scores[at : at + size] = block.reshape(size, columns)[: rows - at]
    return scores


def agg(queries: Sentences, documents: Sentences, source: WordVectors, target: WordVectors) -> Floats:
    """Score documents by AGG, the cosine of summed word vectors (eq. 6), (queries, documents)::

        cos(sum over words t of q of v(t), sum over words u of d of v(u))

    ``source`` has the vectors of the queries' words, and ``target`` those of the documents' words, in one space. Words
    without a vector are ignored. A sentence without any vector has the score 0. Raises InputError if the dimensions of
    the vectors differ.
    """
    if source.dim != target.dim:
        raise InputError(f"vectors of {source.dim} and of {target.dim} dimensions; the numbers must be equal")
    return sums(queries, source) @ sums(documents, target).T


def sums(sentences: Sentences, vectors: WordVectors) -> Floats:
    """Sum the vectors of each sentence's words, (sentences, dim), at unit length; zeros for a sentence without any."""
    sentence_vectors = np.zeros((len(sentences), vectors.dim), np.float32)
    for row, sentence in zip(sentence_vectors, sentences, strict=True):
        row[:] = vectors.matrix[vectors.rows(sentence)].sum(0)
    return unit(sentence_vectors)


def tbt(queries: Sentences, documents: Sentences, source: WordVectors, target: WordVectors, mu: float = MU) -> Floats:
    """Score documents by TbT, term by term: `qlm` of the query, with each word replaced by its nearest target word::

        P(q | d) = prod over words t of q of  P(argmax over target words u of cos(v(t), v(u)) | d)

    ``source`` has the vectors of the queries' words, and ``target`` those of the documents' words, in one space.
    """
    return qlm(translated(queries, source, target), documents, mu)


def translated(queries: Sentences, source: WordVectors, target: WordVectors) -> list[list[str]]:
    """Replace each word by the nearest word of ``target`` by cosine; a word without a vector, such as a name, stays."""
    distinct = list(dict.fromkeys(word for sentence in queries for word in sentence if word in source))
    if not distinct:
        return [list(sentence) for sentence in queries]
    rows, _ = nearest(unit(source.matrix[source.rows(distinct)]), unit(target.matrix))
    translations = {word: target.words[row] for word, row in zip(distinct, rows[:, 0], strict=True)}
    return [[translations.get(word, word) for word in sentence] for sentence in queries]

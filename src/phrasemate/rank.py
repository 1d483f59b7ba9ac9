"""Verbs over `Run`: make one, fuse several, normalise scores, correct hubness, re-rank.

A `Run` is a ranking for each query, best first; ids of -1 fill rows that are shorter (their scores are -inf). Nothing
here changes its arguments, knows a model or holds more than a few times what it is given. Equal scores stand in the
order of their ids, unless a function says otherwise.

Three rankers need no training: `agg`, `qlm` and `tbt`, the baselines of Glavaš and Vulić, "Zero-Shot Language Transfer
for Cross-Lingual Sentence Retrieval Using Bidirectional Attention Model" (ECIR 2019), section 3.2. Their sentences are
lists of words (`phrasemate.text.sentences.content_words`); each gives the (queries, documents) float32 matrix of its
scores, of which `run_of` makes a run.
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
_AT_ONCE = 1 << 24  # scores sorted together: 128 MB of positions
_PAIRS = 1024  # handed to a scorer together
MU = 0.95  # Glavaš and Vulić (ECIR 2019), section 4.1
_ADDED_AT_ONCE = 1_000_000  # scores that are added up together


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


def qlm(queries: Sentences, documents: Sentences, mu: float = MU) -> Floats:
    """QLM, the query likelihood under a unigram model of each document, with Jelinek-Mercer smoothing (eq. 8)::

        P(q | d) = prod over words t of q of  mu tf(t, d) / |d| + (1 - mu) cf(t) / |C|

    tf counts t in the document, cf in the collection C of all documents, |.| all words. The scores are log P(q | d)
    less the log of all second terms, which is the same for all documents. So a document that shares no word with the
    query has 0. Words that no document has are left out, being 0 for all.

    Raises InputError for a mu not between 0 and 1.
    """
    if not 0 < mu < 1:
        raise InputError(f"mu {mu}; expected a weight between 0 and 1")
    number = {word: i for i, word in enumerate(dict.fromkeys(word for sentence in documents for word in sentence))}
    document, term, tf = _counted(documents, number)
    sizes = np.array([len(sentence) for sentence in documents], np.float64)
    frequency = np.bincount(term, tf, minlength=len(number)) / max(sizes.sum(), 1)  # cf / |C|
    weights = np.log1p(mu * tf / sizes[document] / ((1 - mu) * frequency[term]))
    order = np.argsort(term, kind="stable")  # postings: the documents of each term, one term after the other
    bounds = np.searchsorted(term[order], np.arange(len(number) + 1))
    return _added(_counted(queries, number), (document[order], weights[order], bounds), len(queries), len(documents))


def _counted(sentences: Sentences, number: dict[str, int]) -> tuple[Ids, Ids, Doubles]:
    """(row, term, count) of the words of each sentence that have a number."""
    pairs = [(row, number[word]) for row, sentence in enumerate(sentences) for word in sentence if word in number]
    cells, counts = np.unique(np.array(pairs, np.int64).reshape(-1, 2), axis=0, return_counts=True)
    return cells[:, 0], cells[:, 1], counts.astype(np.float64)


def _added(
    query_counts: tuple[Ids, Ids, Doubles], postings: tuple[Ids, Doubles, Ids], rows: int, columns: int
) -> Floats:
    """(rows, columns): for each word of a query, times its count, the weights of the documents that hold it."""
    query, term, count = query_counts
    document, weights, bounds = postings
    scores, size = np.zeros((rows, columns), np.float32), max(1, _ADDED_AT_ONCE // max(columns, 1))
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
    """AGG, the cosine of summed word vectors (eq. 6)::

        cos(sum over words t of q of v(t), sum over words u of d of v(u))

    ``source`` and ``target`` hold the vectors of the queries' and the documents' words, of one space; words without a
    vector are left out. A sentence without any has a cosine of 0 with everything. Raises InputError for vectors of
    other dimensions.
    """
    if source.dim != target.dim:
        raise InputError(f"vectors of {source.dim} and of {target.dim} dimensions; the numbers must be equal")
    return sums(queries, source) @ sums(documents, target).T


def sums(sentences: Sentences, vectors: WordVectors) -> Floats:
    """(sentences, dim) the sum of the vectors of each sentence's words, at unit length (zeros where it has none)."""
    sentence_vectors = np.zeros((len(sentences), vectors.dim), np.float32)
    for row, sentence in zip(sentence_vectors, sentences, strict=True):
        row[:] = vectors.matrix[vectors.rows(sentence)].sum(0)
    return unit(sentence_vectors)


def tbt(queries: Sentences, documents: Sentences, source: WordVectors, target: WordVectors, mu: float = MU) -> Floats:
    """TbT, term by term: `qlm` of the query in which each word is replaced by its nearest target word::

    P(q | d) = prod over words t of q of  P(argmax over target words u of cos(v(t), v(u)) | d)
    """
    return qlm(translated(queries, source, target), documents, mu)


def translated(queries: Sentences, source: WordVectors, target: WordVectors) -> list[list[str]]:
    """The nearest of all words of ``target`` for each word, by cosine; a word without a vector (a name) stays."""
    distinct = list(dict.fromkeys(word for sentence in queries for word in sentence if word in source))
    if not distinct:
        return [list(sentence) for sentence in queries]
    rows, _ = nearest(unit(source.matrix[source.rows(distinct)]), unit(target.matrix))
    translations = {word: target.words[row] for word, row in zip(distinct, rows[:, 0], strict=True)}
    return [[translations.get(word, word) for word in sentence] for sentence in queries]

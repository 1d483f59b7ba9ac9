"""Tuning: choose the layout and the search settings of the FAISS file for a target recall.

The queries are a thousand phrases of the index from different sentences. Phrases of a query's own sentence are excluded
from its results, so a query behaves like one from another text. Exact search gives the correct results.

1. Each layout is tried on a sample of the phrases, with inverted lists as long as in the whole index.
2. The cheapest layout that reaches the target recall is built on the whole index.
3. The cheapest search settings that reach the target recall on the whole index are chosen.

Costs are computed from counts of operations and the unit costs below, not measured. So the same index and seed always
give the same choice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import cache, partial
from math import inf
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from phrasemate.index import faiss_build, row_codec
from phrasemate.index.exact import unpack
from phrasemate.index.faiss_build import Plan, trained
from phrasemate.index.faiss_search import UNLIMITED_SLACK, Asking, Faiss, Layout
from phrasemate.index.manifest import VECTORS_JSON, VectorsManifest
from phrasemate.index.store import Store, VectorRow
from phrasemate.index.types import IndexSettings, TuneReport
from phrasemate.utils.arrays import Floats, Ids, Int8s

_QUERIES = 1_000  # queries on which recall is measured
_PHRASES_AT_ONCE = 16_384  # phrases that are scored together
_OWN_PHRASES = 4_000_000  # most phrases excluded from the results: number of queries x longest sentence of a query
_SAMPLE = (200_000, 500_000)  # least and greatest number of phrases on which layouts are tried ...
_PHRASES_PER_SAMPLE = (
    20  # ... one in 20 of the index; a smaller sample of 10 million phrases overrates many short lists
)
_ALL_READ = 2_000_000  # most phrases for which a flat layout is tried; with the shortest codes it takes 1 ms a query
_LENGTHS = (600, 1_200, 2_400)  # mean numbers of phrases in an inverted list that are tried
_DEPTH = 10  # exact results of each query
_PROBES = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
_SLACKS = tuple(hundredths / 100 for hundredths in range(10, 31))
_CANDIDATES = (32, 40, 48, 56, 64, 80, 96, 112, 128, 192, 256, 384, 512, 768, 1024)
_ROUNDS = 4  # times that the search settings are chosen with a higher recall to aim at, at most
_SPARE = 0.005  # recall above the target that a layout must reach on the sample, which is easier than the whole index
_SAME = 1e-5  # scores that differ by less count as equal
_SINGLES = 200  # queries that are timed one at a time

# Unit costs in nanoseconds on one core of an AMD EPYC (family 25, model 17), in batches of 1,000 queries; measured in
# docs/decisions/022-tuning.md.
_NS_CENTRE = 0.03  # for each component of each list centre
_NS_PROBE = 230.0  # for each list of `Asking.probes`
_NS_LIST = 850.0  # for each list that is read
_NS_CODE = 0.0185  # for each part of each code that is read from a list
_NS_CODE_ALL = 0.0095  # for each part of each code of a flat layout
_NS_CANDIDATE = 250.0  # for each candidate that is re-scored


class _TuningQueries(NamedTuple):
    """Queries with their exact results.

    Attributes:
        vectors: Query vectors of unit length, (n, dim).
        first: First phrase id of each query's own sentence, (n,).
        end: One more than the last phrase id of that sentence, (n,).
        best: Best exact scores among the other sentences, descending, (n, depth).
        at: Depth k of the recall@k that is aimed at.
    """

    vectors: Floats
    first: Ids
    end: Ids
    best: Floats
    at: int

    def in_own_sentence(self, ids: Ids) -> Any:
        """Return a mask (n, m) of the phrase ids (n, m) that are in the query's own sentence."""
        return (ids >= self.first[:, None]) & (ids < self.end[:, None])


class _Work(NamedTuple):
    """Search settings with their recall, and their cost for a query in nanoseconds."""

    asking: Asking
    recall: float
    cost: float


def tune(
    store: Store, settings: IndexSettings, threads: int | None, target: float, seed: int = 0, at: int = 1
) -> TuneReport:
    """Choose layout and search settings for a target recall, and build and install the FAISS file.

    The caller holds the write lock.

    Args:
        store: Store of the index.
        settings: Settings of the index.
        threads: Threads of FAISS; None for all that the process may use.
        target: Target of the recall@``at``.
        seed: Seed for the choice of the queries.
        at: Depth of the recall, 1 or 10.

    Raises PhraseIndexError (disk full) or IndexDamaged.
    """
    start = perf_counter()
    with store.reading() as state:
        phrases = state.phrases
        if phrases < settings.exact_below:
            faiss_build.build(store, settings, threads)
            return TuneReport(target, phrases, "exact", seconds=perf_counter() - start, at=at)
        draw = _draw(store, seed, at)
        layout, trials = _choose_layout(store, draw, phrases, settings, threads, target)
        queries = _with_best_scores(draw, (unpack(block, store.dim)[:2] for block in store.vectors()))
    facts: dict[str, Any] = {"target": target, "at": at, "seed": seed, "phrases": phrases, "layout": layout.factory}
    is_built = faiss_build.build(
        store, settings, threads, chosen=Plan(layout, Asking.by(settings, layout.lists), facts)
    )
    assert is_built is not None
    engine = Faiss.load(store.path, is_built, store.dim, settings, threads)
    report = replace(_choose_settings(engine, queries, target, phrases), trials=tuple(trials))
    measures = {"recall_at_1": report.recall_at_1, "recall_at_10": report.recall_at_10, "queries": report.queries}
    replace(is_built, asking=asdict(engine.asking), tuned=facts | measures).write(store.path / VECTORS_JSON)
    return replace(report, seconds=perf_counter() - start)


def _choose_settings(engine: Faiss, queries: _TuningQueries, target: float, phrases: int) -> TuneReport:
    """Choose the search settings of the engine, and measure their recall and speed.

    FAISS orders equal codes differently for fewer candidates, so real searches may miss the target by a little. The
    settings are then chosen again with a higher recall to aim at.
    """
    aim = target
    for _ in range(_ROUNDS):
        work = _calibrate(engine, queries, aim)
        assert work is not None  # without a cost limit there is always a result
        engine.asking = work.asking
        report = _measure(engine, queries, target, phrases)
        if report.reached or work.recall < aim:
            break
        aim = min(1.0, work.recall + target - report.recall)
    return report


# -- queries and their exact results


def _draw(store: Store, seed: int, at: int) -> _TuningQueries:
    """Draw one phrase as a query from each of many sentences spread over the store; ``best`` is still empty."""
    draw = np.random.default_rng(seed)
    rows = _short(store.sampled_rows(1, pieces=_QUERIES))
    picks = [int(draw.integers(row.phrases)) for row in rows]
    codes_of = [np.frombuffer(row.codes, np.int8).reshape(-1, store.dim) for row in rows]
    codes = [of_one[pick] for of_one, pick in zip(codes_of, picks, strict=True)]
    first = np.array([row.first_phrase for row in rows], np.int64)
    end = first + np.array([row.phrases for row in rows], np.int64)
    return _TuningQueries(row_codec.dequantise(np.stack(codes)), first, end, np.zeros((len(rows), 0), np.float32), at)


def _short(rows: list[VectorRow]) -> list[VectorRow]:
    """Drop the longest sentences as far as excluding their phrases from the results would take too much memory."""
    lengths = np.sort([row.phrases for row in rows])
    enough = int((lengths * np.arange(1, len(lengths) + 1) <= _OWN_PHRASES).sum())
    return [row for row in rows if row.phrases <= lengths[max(enough, 1) - 1]]


def _with_best_scores(queries: _TuningQueries, blocks: Iterator[tuple[Any, Ids]]) -> _TuningQueries:
    """Return the queries with their best exact scores.

    ``blocks``: codes (n, dim) and ascending ids (n,) of the phrases to search.
    """
    top = np.full((len(queries.vectors), _DEPTH), -np.inf, np.float32)
    for codes, ids in blocks:
        scores = queries.vectors @ row_codec.dequantise(codes).T  # (queries, n)
        low, high = np.searchsorted(ids, queries.first), np.searchsorted(ids, queries.end)
        for query in np.flatnonzero(low < high):
            scores[query, low[query] : high[query]] = -np.inf
        better = scores > top[:, -1:]
        for query in np.flatnonzero(better.any(axis=1)):  # few queries after the first blocks
            joint_scores = np.concatenate([top[query], scores[query, better[query]]])
            top[query] = np.sort(joint_scores)[::-1][:_DEPTH]
    return queries._replace(best=top)


# -- the layout, on a sample


def _choose_layout(
    store: Store, draw: _TuningQueries, phrases: int, settings: IndexSettings, threads: int | None, target: float
) -> tuple[Layout, list[dict[str, Any]]]:
    """Choose the cheapest layout for all phrases that reaches the target recall on a sample.

    Returns the layout and the records of all trials (`TuneReport.trials`). If no layout reaches the target, the one
    with the most parts, then the most lists, is chosen.
    """
    size = min(max(_SAMPLE[0], phrases // _PHRASES_PER_SAMPLE), _SAMPLE[1])
    rows = store.sampled_rows(min(size, phrases), pieces=256)
    codes, ids, _ = unpack(rows, store.dim)
    pieces = (slice(at, at + _PHRASES_AT_ONCE) for at in range(0, len(codes), _PHRASES_AT_ONCE))
    queries = _with_best_scores(draw, ((codes[piece], ids[piece]) for piece in pieces))
    trials: list[tuple[bool, float, Layout, dict[str, Any]]] = []
    too_dear: list[dict[str, Any]] = []
    for layout in _layouts(phrases, store.dim):
        small = layout.for_rows(len(codes), phrases)
        engine = _engine(small, rows, codes, settings, threads)
        least = min((cost for miss, cost, *_ in trials if not miss), default=inf)
        more_centres = _centre_cost(layout, store.dim) - _centre_cost(small, store.dim)
        limit = least - more_centres if layout.lists else inf
        work = _calibrate(engine, queries, min(1.0, target + _SPARE), limit)
        if work is None:
            too_dear.append({"layout": layout.factory})
            continue
        reading = (work.cost - _centre_cost(small, store.dim)) * (1 if layout.lists else phrases / len(codes))
        cost = reading + _centre_cost(layout, store.dim)
        facts = {"layout": layout.factory, "recall": round(work.recall, 4), "us": round(cost / 1000, 1)}
        trials.append((work.recall < target, cost, layout, facts | asdict(work.asking)))
    miss, _, layout, _ = min(trials, key=lambda trial: trial[:2])
    if miss:  # no layout reaches the target: the finest codes come closest
        layout = max((trial[2] for trial in trials), key=lambda trial: (trial.parts, trial.lists))
    return layout, [trial[3] for trial in trials] + too_dear


def _layouts(phrases: int, dim: int) -> list[Layout]:
    """List the layouts to try.

    Parts cover three, four or six dimensions, or two, four or eight if ``dim`` is not divisible by three. Lists have
    about 600, 1,200 or 2,400 phrases; a flat layout is tried for up to `_ALL_READ` phrases.
    """
    parts = [dim // factor for factor in ((3, 4, 6) if dim % 3 == 0 else (2, 4, 8)) if dim % factor == 0] or [dim]
    lists = {1 << max(4, round(np.log2(phrases / length))) for length in _LENGTHS}
    lists |= {0} if phrases <= _ALL_READ else set()
    return [Layout(number, part) for part in parts for number in sorted(lists)]


def _engine(layout: Layout, rows: list[VectorRow], codes: Int8s, settings: IndexSettings, threads: int | None) -> Faiss:
    """Build a search engine over a sample in memory; ``codes`` (n, dim) are those of ``rows``."""
    index = trained(layout, row_codec.spread(codes, faiss_build.training_size(layout, settings)))
    for start in range(0, len(codes), _PHRASES_AT_ONCE):
        index.add(row_codec.dequantise(codes[start : start + _PHRASES_AT_ONCE]))
    runs = [[row.first_phrase, row.phrases] for row in rows]
    manifest = VectorsManifest("", 0, "", "", "", len(codes), 0, 0, layout.factory, len(codes), runs)
    return Faiss(index, codes, manifest, settings, threads)


# -- probes, slack and candidates


def _calibrate(engine: Faiss, queries: _TuningQueries, target: float, limit: float = inf) -> _Work | None:
    """Find the cheapest search settings that reach the target recall at less than ``limit`` nanoseconds a query.

    With more lists a smaller slack is enough, and with a larger slack fewer candidates are, so all three are searched
    together. For each number of lists, slacks are tried upwards from the smallest one that can reach the target.
    Settings that cost too much for reading alone are skipped.

    Without a limit, the most thorough settings are returned if none reaches the target; with a limit, None.
    """
    deepest = _CANDIDATES[-1]
    slacks = [*_SLACKS, UNLIMITED_SLACK] if engine.nlist else [UNLIMITED_SLACK]

    @cache
    def ranks(lists: int, slack: float) -> Ids:
        return _ranks(engine, queries, Asking(lists, slack, deepest), deepest)

    def reaches(lists: int, slack: float) -> bool:
        return bool((ranks(lists, slack) < deepest).mean() >= target)

    def least_cost(lists: int, slack: float) -> float:
        return _cost(engine, queries, Asking(lists, slack, _CANDIDATES[0]))

    def work(lists: int, slack: float) -> _Work:
        needs = ranks(lists, slack)
        candidates = next((c for c in _CANDIDATES if (needs < c).mean() >= target), deepest)
        asking = Asking(lists, slack, candidates)
        return _Work(asking, float((needs < candidates).mean()), _cost(engine, queries, asking))

    best: _Work | None = None
    most = limit  # least cost so far
    probes = [p for p in _PROBES if p < engine.nlist] + [max(1, engine.nlist)]
    probes = probes[: bisect_left(probes, True, key=lambda lists: least_cost(lists, slacks[0]) >= most)]
    enough = len(slacks)  # first slack that is enough; it shrinks as the number of lists grows
    for lists in probes[bisect_left(probes, True, key=lambda lists: reaches(lists, UNLIMITED_SLACK)) :]:
        if least_cost(lists, slacks[0]) >= most:
            break
        enough = bisect_left(slacks[:enough], True, key=partial(reaches, lists))
        for slack in slacks[enough:]:
            if least_cost(lists, slack) >= most:
                break
            option = work(lists, slack)
            if option.cost < most:
                best, most = option, option.cost
    return best or (work(max(1, engine.nlist), UNLIMITED_SLACK) if limit == inf else None)


def _ranks(engine: Faiss, queries: _TuningQueries, asking: Asking, deepest: int) -> Ids:
    """Return the ranks of each query's best phrases among the candidates, (queries, at), from 0.

    The rank of a phrase that is not among the first ``deepest`` candidates is ``deepest``.
    """
    positions = _proposals(engine, queries, asking, deepest)
    good = engine.products(queries.vectors, positions) >= queries.best[:, queries.at - 1 : queries.at] - _SAME
    places = np.argsort(~good, axis=1, kind="stable")[:, : queries.at]
    ranks = np.full((len(positions), queries.at), deepest, np.int64)
    ranks[:, : places.shape[1]] = np.where(np.take_along_axis(good, places, 1), places, deepest)
    return ranks


def _proposals(engine: Faiss, queries: _TuningQueries, asking: Asking, count: int) -> Ids:
    """Return the first ``count`` candidate rows of each query without its own sentence, (queries, count)."""
    before, engine.asking = engine.asking, asking
    positions = engine.propose(queries.vectors, count + int((queries.end - queries.first).max()))
    engine.asking = before
    positions = np.where(queries.in_own_sentence(engine.runs.ids(positions)), -1, positions)
    order = np.argsort(positions < 0, axis=1, kind="stable")[:, :count]  # the other candidates, order unchanged
    return np.take_along_axis(positions, order, 1)


def _cost(engine: Faiss, queries: _TuningQueries, asking: Asking) -> float:
    """Compute the cost of a query in nanoseconds from the unit costs."""
    layout = Layout.parse(engine.manifest.factory)
    rescoring = asking.candidates * _NS_CANDIDATE
    if not layout.lists:
        return rescoring + engine.manifest.rows * layout.parts * _NS_CODE_ALL
    read, codes = engine.reads(queries.vectors, asking)
    dim = queries.vectors.shape[1]
    reading = asking.probes * _NS_PROBE + read * _NS_LIST + codes * layout.parts * _NS_CODE
    return rescoring + _centre_cost(layout, dim) + reading


def _centre_cost(layout: Layout, dim: int) -> float:
    """Compute the cost in nanoseconds of comparing a query with the centres of all lists."""
    return layout.lists * dim * _NS_CENTRE


# -- reports


def _measure(engine: Faiss, queries: _TuningQueries, target: float, phrases: int) -> TuneReport:
    """Measure recall and time of searches with the settings of the engine."""
    asking = engine.asking
    positions = _proposals(engine, queries, asking, asking.fetch(_DEPTH))
    scores = engine.rescore(queries.vectors, positions, _DEPTH)[1]
    finite = np.isfinite(queries.best)
    good = (scores >= queries.best - _SAME) & finite
    singles = [queries.vectors[at : at + 1] for at in range(min(_SINGLES, len(scores)))]
    alone = [_milliseconds(partial(engine.search, query, 32)) for query in singles]
    together = min(_milliseconds(lambda: engine.search(queries.vectors, 32)) for _ in range(3))
    return TuneReport(
        target,
        phrases,
        f"FAISS {engine.manifest.factory}",
        asking.probes if engine.nlist else 0,
        asking.slack if engine.nlist else 0.0,
        asking.candidates,
        len(scores),
        round(float(good[:, 0].mean()), 4),
        round(float((scores >= queries.best[:, -1:] - _SAME).mean()), 4),
        round(float(np.median(alone)), 3),
        round(together / len(scores), 4),
        at=queries.at,
    )


def _milliseconds(call: Callable[[], Any]) -> float:
    """Return the duration of a call in milliseconds."""
    start = perf_counter()
    call()
    return 1000 * (perf_counter() - start)

"""Choice of layout and search settings of the FAISS file, measured on the index's own vectors.

A thousand phrases of the index, one of a sentence, are queries, and phrases of their own sentences do not count. As for
a query from elsewhere, the answer is the best phrase of another sentence; exact search gives it. Layouts are tried on a
sample, with inverted lists as long as those of the whole index would be. The cheapest at the wanted recall is built,
and then searched with as few lists and candidates as reach that recall on the whole. The choice goes by counted work in
the unit costs below, not by the clock: the same index and seed give the same choice.
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
from phrasemate.index.exact import Int8s, unpack
from phrasemate.index.faiss_build import Plan, trained
from phrasemate.index.faiss_search import Asking, Faiss, Layout
from phrasemate.index.manifest import VECTORS_JSON, VectorsManifest
from phrasemate.index.store import Store, VectorRow
from phrasemate.index.types import IndexSettings, TuneReport
from phrasemate.utils.arrays import Floats, Ids

_QUERIES = 1_000
_PIECE = 16_384  # phrases that are compared together
_OWN = 4_000_000  # phrases of queries' own sentences, queries times the longest: they are proposed, and left out
_SAMPLE = (200_000, 500_000)  # phrases on which layouts are tried, at least and at most ...
_SAMPLED = 20  # ... one of so many; of ten million, 200,000 make many short lists look better than they are
_ALL_READ = 2_000_000  # phrases up to which it is worth trying to read all codes: 1 ms with the shortest ones
_LENGTHS = (600, 1_200, 2_400)  # phrases of an inverted list
_DEPTH = 10
_PROBES = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
_SLACKS = tuple(hundredths / 100 for hundredths in range(10, 31))
_CANDIDATES = (32, 40, 48, 56, 64, 80, 96, 112, 128, 192, 256, 384, 512, 768, 1024)
_ALL = 4.0  # more than two cosines can differ
_AIMS = 4  # times that the way to ask is chosen, at most
_SPARE = 0.005  # of recall, which layouts must have above the target: the whole is harder than a sample
_SAME = 1e-5  # scores that differ less are equally good
_SINGLES = 200

# Nanoseconds of one core of an EPYC, family 25 model 17, with queries in a batch of 1,000 (docs/decisions)
_NS_CENTRE = 0.03  # for each number of each centre
_NS_PROBE = 230.0  # for each list that may be read
_NS_LIST = 850.0
_NS_CODE = 0.0185  # for each part of a code in a list
_NS_CODE_ALL = 0.0095  # where all codes are read
_NS_CANDIDATE = 250.0


class _TuningQueries(NamedTuple):
    """Queries (n, dim), the phrase ids of their own sentences [first, end), and their best exact scores (n, depth).

    ``at``: how many of the best are wanted.
    """

    vectors: Floats
    first: Ids
    end: Ids
    best: Floats
    at: int

    def in_own_sentence(self, ids: Ids) -> Any:
        """Tell which ids, (n, m), are of the query's own sentence."""
        return (ids >= self.first[:, None]) & (ids < self.end[:, None])


class _Work(NamedTuple):
    """Recall of a search setting, and its cost in nanoseconds of a query by the unit costs."""

    asking: Asking
    recall: float
    cost: float


def tune(
    store: Store, settings: IndexSettings, threads: int | None, target: float, seed: int = 0, at: int = 1
) -> TuneReport:
    """Choose, build and put in force; ``target``: of recall@``at``. The caller holds the lock of the writer.

    Raises PhraseIndexError (no space), IndexDamaged.
    """
    start = perf_counter()
    with store.reading() as state:
        phrases = state.phrases
        if phrases < settings.exact_below:
            faiss_build.build(store, settings, threads)
            return TuneReport(target, phrases, "exact", seconds=perf_counter() - start, at=at)
        draw = _draw(store, seed, at)
        layout, trials = _layout(store, draw, phrases, settings, threads, target)
        queries = _answered(draw, (unpack(block, store.dim)[:2] for block in store.vectors()))
    facts: dict[str, Any] = {"target": target, "at": at, "seed": seed, "phrases": phrases, "layout": layout.factory}
    is_built = faiss_build.build(
        store, settings, threads, chosen=Plan(layout, Asking.by(settings, layout.lists), facts)
    )
    assert is_built is not None
    engine = Faiss.load(store.path, is_built, store.dim, settings, threads)
    report = replace(_asked_best(engine, queries, target, phrases), trials=tuple(trials))
    measures = {"recall_at_1": report.recall_at_1, "recall_at_10": report.recall_at_10, "queries": report.queries}
    replace(is_built, asking=asdict(engine.asking), tuned=facts | measures).write(store.path / VECTORS_JSON)
    return replace(report, seconds=perf_counter() - start)


def _asked_best(engine: Faiss, queries: _TuningQueries, target: float, phrases: int) -> TuneReport:
    """Choose the search settings of the engine, and measure them.

    FAISS orders equal codes otherwise when it is asked for fewer: what a search then lacks is aimed at in addition.
    """
    aim = target
    for _ in range(_AIMS):
        work = _calibrated(engine, queries, aim)
        assert work is not None  # where there is no limit
        engine.asking = work.asking
        report = _measured(engine, queries, target, phrases)
        if report.reached or work.recall < aim:
            break
        aim = min(1.0, work.recall + target - report.recall)
    return report


# -- queries and their answers


def _draw(store: Store, seed: int, at: int) -> _TuningQueries:
    """Draw queries, one phrase each of sentences from all over the store, without answers yet."""
    draw = np.random.default_rng(seed)
    rows = _short(store.sampled_rows(1, pieces=_QUERIES))
    picks = [int(draw.integers(row.phrases)) for row in rows]
    codes_of = [np.frombuffer(row.codes, np.int8).reshape(-1, store.dim) for row in rows]
    codes = [of_one[pick] for of_one, pick in zip(codes_of, picks, strict=True)]
    first = np.array([row.first_phrase for row in rows], np.int64)
    end = first + np.array([row.phrases for row in rows], np.int64)
    return _TuningQueries(row_codec.dequantise(np.stack(codes)), first, end, np.zeros((len(rows), 0), np.float32), at)


def _short(rows: list[VectorRow]) -> list[VectorRow]:
    """Drop sentences so long that excluding their phrases from all answers would take too much memory."""
    lengths = np.sort([row.phrases for row in rows])
    enough = int((lengths * np.arange(1, len(lengths) + 1) <= _OWN).sum())
    return [row for row in rows if row.phrases <= lengths[max(enough, 1) - 1]]


def _answered(drawn: _TuningQueries, blocks: Iterator[tuple[Any, Ids]]) -> _TuningQueries:
    """Add the exact scores to queries, over blocks of (codes (n, dim), ids (n,) ascending)."""
    top = np.full((len(drawn.vectors), _DEPTH), -np.inf, np.float32)
    for codes, ids in blocks:
        scores = drawn.vectors @ row_codec.dequantise(codes).T  # (queries, n)
        low, high = np.searchsorted(ids, drawn.first), np.searchsorted(ids, drawn.end)
        for query in np.flatnonzero(low < high):
            scores[query, low[query] : high[query]] = -np.inf
        better = scores > top[:, -1:]
        for query in np.flatnonzero(better.any(axis=1)):  # few, once the best are known
            joint_scores = np.concatenate([top[query], scores[query, better[query]]])
            top[query] = np.sort(joint_scores)[::-1][:_DEPTH]
    return drawn._replace(best=top)


# -- the layout, on a sample


def _layout(
    store: Store, drawn: _TuningQueries, phrases: int, settings: IndexSettings, threads: int | None, target: float
) -> tuple[Layout, list[dict[str, Any]]]:
    """Find the layout of all phrases that costs least; returns the trials too."""
    size = min(max(_SAMPLE[0], phrases // _SAMPLED), _SAMPLE[1])
    rows = store.sampled_rows(min(size, phrases), pieces=256)
    codes, ids, _ = unpack(rows, store.dim)
    pieces = (slice(at, at + _PIECE) for at in range(0, len(codes), _PIECE))
    queries = _answered(drawn, ((codes[piece], ids[piece]) for piece in pieces))
    trials: list[tuple[bool, float, Layout, dict[str, Any]]] = []
    given_up: list[dict[str, Any]] = []
    for layout in _layouts(phrases, store.dim):
        small = layout.for_rows(len(codes), phrases)
        engine = _engine(small, rows, codes, settings, threads)
        least = min((cost for miss, cost, *_ in trials if not miss), default=inf)
        beyond = _coarse(layout, store.dim) - _coarse(small, store.dim)
        limit = least - beyond if layout.lists else inf
        work = _calibrated(engine, queries, min(1.0, target + _SPARE), limit)
        if work is None:
            given_up.append({"layout": layout.factory})
            continue
        reading = (work.cost - _coarse(small, store.dim)) * (1 if layout.lists else phrases / len(codes))
        cost = reading + _coarse(layout, store.dim)
        facts = {"layout": layout.factory, "recall": round(work.recall, 4), "us": round(cost / 1000, 1)}
        trials.append((work.recall < target, cost, layout, facts | asdict(work.asking)))
    miss, _, layout, _ = min(trials, key=lambda trial: trial[:2])
    if miss:  # none reaches it: the finest codes come nearest
        layout = max((trial[2] for trial in trials), key=lambda trial: (trial.parts, trial.lists))
    return layout, [trial[3] for trial in trials] + given_up


def _layouts(phrases: int, dim: int) -> list[Layout]:
    """Parts of three to six dimensions, or of two to eight; lists of about 600 to 2,400 phrases, or none."""
    parts = [dim // factor for factor in ((3, 4, 6) if dim % 3 == 0 else (2, 4, 8)) if dim % factor == 0] or [dim]
    lists = {1 << max(4, round(np.log2(phrases / length))) for length in _LENGTHS}
    lists |= {0} if phrases <= _ALL_READ else set()
    return [Layout(number, part) for part in parts for number in sorted(lists)]


def _engine(layout: Layout, rows: list[VectorRow], codes: Int8s, settings: IndexSettings, threads: int | None) -> Faiss:
    """A FAISS index of the sample, in memory."""
    index = trained(layout, row_codec.spread(codes, faiss_build.training_size(layout, settings)))
    for start in range(0, len(codes), _PIECE):
        index.add(row_codec.dequantise(codes[start : start + _PIECE]))
    runs = [[row.first_phrase, row.phrases] for row in rows]
    manifest = VectorsManifest("", 0, "", "", "", len(codes), 0, 0, layout.factory, len(codes), runs)
    return Faiss(index, codes, manifest, settings, threads)


# -- probes, slack and candidates


def _calibrated(engine: Faiss, queries: _TuningQueries, target: float, limit: float = inf) -> _Work | None:
    """Find the cheapest search settings that reach the target, or the most thorough; none that costs ``limit``.

    More lists let a smaller slack do, and a larger slack fewer candidates, so all three are chosen together. Of each
    number of lists, slacks from the least that can do; what its reading alone makes too dear is passed over.
    """
    deepest = _CANDIDATES[-1]
    slacks = [*_SLACKS, _ALL] if engine.nlist else [_ALL]

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
    most = limit
    probes = [p for p in _PROBES if p < engine.nlist] + [max(1, engine.nlist)]
    probes = probes[: bisect_left(probes, True, key=lambda lists: least_cost(lists, slacks[0]) >= most)]
    enough = len(slacks)  # the fewer lists, the larger a slack they need
    for lists in probes[bisect_left(probes, True, key=lambda lists: reaches(lists, _ALL)) :]:
        if least_cost(lists, slacks[0]) >= most:
            break
        enough = bisect_left(slacks[:enough], True, key=partial(reaches, lists))
        for slack in slacks[enough:]:
            if least_cost(lists, slack) >= most:
                break
            option = work(lists, slack)
            if option.cost < most:
                best, most = option, option.cost
    return best or (work(max(1, engine.nlist), _ALL) if limit == inf else None)


def _ranks(engine: Faiss, queries: _TuningQueries, asking: Asking, deepest: int) -> Ids:
    """(queries, at) how many candidates come before each of the best phrases; ``deepest`` where one is not found."""
    positions = _proposed(engine, queries, asking, deepest)
    good = engine.products(queries.vectors, positions) >= queries.best[:, queries.at - 1 : queries.at] - _SAME
    places = np.argsort(~good, axis=1, kind="stable")[:, : queries.at]
    ranks = np.full((len(positions), queries.at), deepest, np.int64)
    ranks[:, : places.shape[1]] = np.where(np.take_along_axis(good, places, 1), places, deepest)
    return ranks


def _proposed(engine: Faiss, queries: _TuningQueries, asking: Asking, count: int) -> Ids:
    """(queries, count) rows as if the queries' own sentences were not in the index."""
    before, engine.asking = engine.asking, asking
    positions = engine.propose(queries.vectors, count + int((queries.end - queries.first).max()))
    engine.asking = before
    positions = np.where(queries.in_own_sentence(engine.runs.ids(positions)), -1, positions)
    order = np.argsort(positions < 0, axis=1, kind="stable")[:, :count]  # those left, in their order
    return np.take_along_axis(positions, order, 1)


def _cost(engine: Faiss, queries: _TuningQueries, asking: Asking) -> float:
    """Nanoseconds of a query by the unit costs."""
    layout = Layout.parse(engine.manifest.factory)
    rescoring = asking.candidates * _NS_CANDIDATE
    if not layout.lists:
        return rescoring + engine.manifest.rows * layout.parts * _NS_CODE_ALL
    read, codes = engine.reads(queries.vectors, asking)
    dim = queries.vectors.shape[1]
    reading = asking.probes * _NS_PROBE + read * _NS_LIST + codes * layout.parts * _NS_CODE
    return rescoring + _coarse(layout, dim) + reading


def _coarse(layout: Layout, dim: int) -> float:
    return layout.lists * dim * _NS_CENTRE


# -- reports


def _measured(engine: Faiss, queries: _TuningQueries, target: float, phrases: int) -> TuneReport:
    """Measure the recall of real searches, and their time."""
    asking = engine.asking
    positions = _proposed(engine, queries, asking, asking.fetch(_DEPTH))
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
    start = perf_counter()
    call()
    return 1000 * (perf_counter() - start)

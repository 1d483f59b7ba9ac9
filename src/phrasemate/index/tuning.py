"""How the FAISS file is laid out and asked, chosen by measuring on the index's own vectors.

A thousand phrases of the index, one of a sentence, are searched for, and their own sentences do not count: as for a
query from elsewhere, the answer is the best phrase of another sentence, and it is known by comparing with everything.
Layouts are tried on a sample, with inverted lists as long as those of the whole would be; the one that costs least at
the wanted recall is built, and then asked with as few lists and candidates as reach that recall on the whole. The
choice goes by counted work in the unit costs below, not by the clock: the same index and seed give the same choice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from math import inf
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from phrasemate.index import faiss_build, row_codec
from phrasemate.index.exact import Floats, Ids, Int8s, unpack
from phrasemate.index.faiss_build import MANY, Filling, Plan, fitting
from phrasemate.index.faiss_search import Asking, Faiss, Layout
from phrasemate.index.manifest import VECTORS_JSON, VectorsManifest
from phrasemate.index.pq import Coder
from phrasemate.index.store import Store, VectorRow
from phrasemate.index.types import Settings

DEPTHS = (1, 10)  # of which a target recall may speak

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
_CANDIDATES = (32, 40, 48, 56, 64, 80, 96, 112, 128, 192, 256, 384, 512)
_ALL = 4.0  # more than two cosines can differ
_AIMS = 4  # times that the way to ask is chosen, at most
_SPARE = 0.005  # of recall, which layouts must have above the target: the whole is harder than a sample
_SAME = 1e-5  # scores that differ less are equally good
_SINGLES = 200

# Nanoseconds of one core of an EPYC, family 25 model 17, with queries in a batch of 1,000 (docs/decisions.md)
_NS_CENTRE = 0.03  # for each number of each centre, where all are compared
_NS_CODED_CENTRE = 0.035  # for each part of each centre's code, where codes are looked at first
_NS_PROBE = 230.0  # for each list that may be read
_NS_LIST = 850.0
_NS_CODE = 0.0185  # for each part of a code in a list
_NS_CODE_ALL = 0.0095  # where all codes are read
_NS_CANDIDATE = 250.0


@dataclass(frozen=True, slots=True)
class TuneReport:
    """What was chosen (``engine``, ``probes``, ``slack``, ``candidates``: see `faiss_search.Asking`) and measured.

    ``target`` is of recall@``at``. ``recall_at_1``, ``recall_at_10``: against exact search, of ``queries`` phrases;
    ``single_ms``: one query, the median; ``batch_ms``: all together, for each. ``trials``: the layouts that were tried
    on a sample, with what they cost there; those last that were given up as dearer. Where the index is small enough
    to be searched exactly, ``engine`` is "exact" and nothing else is said.
    """

    target: float
    phrases: int
    engine: str
    probes: int = 0
    slack: float = 0.0
    candidates: int = 0
    queries: int = 0
    recall_at_1: float = 1.0
    recall_at_10: float = 1.0
    single_ms: float = 0.0
    batch_ms: float = 0.0
    seconds: float = 0.0
    trials: tuple[dict[str, Any], ...] = ()
    at: int = 1

    @property
    def recall(self) -> float:
        return self.recall_at_1 if self.at == 1 else self.recall_at_10

    @property
    def reached(self) -> bool:
        return self.recall >= self.target


class _Asked(NamedTuple):
    """Queries (n, dim), the phrase ids of their own sentences [first, end), and their best exact scores (n, depth).

    ``at``: how many of the best are wanted.
    """

    vectors: Floats
    first: Ids
    end: Ids
    best: Floats
    at: int

    def own(self, ids: Ids) -> Any:
        """Which ids, (n, m), are of the query's own sentence."""
        return (ids >= self.first[:, None]) & (ids < self.end[:, None])


class _Work(NamedTuple):
    """What the chosen way of asking reaches and costs: recall, and nanoseconds of a query by the unit costs."""

    asking: Asking
    recall: float
    cost: float


def tune(
    store: Store, settings: Settings, threads: int | None, target: float, seed: int = 0, at: int = 1
) -> TuneReport:
    """Choose, build and put in force; ``target``: of recall@``at``. The caller holds the lock of the writer.

    Raises IndexError_ (no space), IndexDamaged.
    """
    begun = perf_counter()
    with store.reading() as state:
        phrases = state.phrases
        if phrases < settings.exact_below:
            faiss_build.build(store, settings, threads)
            return TuneReport(target, phrases, "exact", seconds=perf_counter() - begun, at=at)
        drawn = _draw(store, seed, at)
        layout, tried = _layout(store, drawn, phrases, settings, threads, target)
        asked = _answered(drawn, (unpack(block, store.dim)[:2] for block in store.vectors()))
    facts: dict[str, Any] = {"target": target, "at": at, "seed": seed, "phrases": phrases, "layout": layout.factory}
    made = faiss_build.build(store, settings, threads, chosen=Plan(layout, Asking.by(settings), facts))
    assert made is not None
    engine = Faiss.load(store.path, made, store.dim, settings, threads)
    report = replace(_asked_best(engine, asked, target, phrases), trials=tuple(tried))
    measured = {"recall_at_1": report.recall_at_1, "recall_at_10": report.recall_at_10, "queries": report.queries}
    replace(made, asking=engine.asking.as_dict(), tuned=facts | measured).write(store.path / VECTORS_JSON)
    return replace(report, seconds=perf_counter() - begun)


def _asked_best(engine: Faiss, asked: _Asked, target: float, phrases: int) -> TuneReport:
    """Choose how the engine is asked, and measure it.

    FAISS orders equal codes otherwise when it is asked for fewer: what a search then lacks is aimed at in addition.
    """
    aim = target
    for _ in range(_AIMS):
        work = _calibrated(engine, asked, aim)
        assert work is not None  # where there is no limit
        engine.asking = work.asking
        report = _measured(engine, asked, target, phrases)
        if report.reached or work.recall < aim:
            break
        aim = min(1.0, work.recall + target - report.recall)
    return report


# -- queries and their answers


def _draw(store: Store, seed: int, at: int) -> _Asked:
    """One phrase each of sentences from all over the store, without answers yet."""
    draw = np.random.default_rng(seed)
    found = _short(store.sampled_rows(1, pieces=_QUERIES))
    picks = [int(draw.integers(row.phrases)) for row in found]
    held = [np.frombuffer(row.codes, np.int8).reshape(-1, store.dim) for row in found]
    codes = [of_one[pick] for of_one, pick in zip(held, picks, strict=True)]
    first = np.array([row.first_phrase for row in found], np.int64)
    end = first + np.array([row.phrases for row in found], np.int64)
    return _Asked(row_codec.dequantise(np.stack(codes)), first, end, np.zeros((len(found), 0), np.float32), at)


def _short(found: list[VectorRow]) -> list[VectorRow]:
    """Without sentences so long that leaving their phrases out of all answers would take too much memory."""
    lengths = np.sort([row.phrases for row in found])
    enough = int((lengths * np.arange(1, len(lengths) + 1) <= _OWN).sum())
    return [row for row in found if row.phrases <= lengths[max(enough, 1) - 1]]


def _answered(drawn: _Asked, blocks: Iterator[tuple[Any, Ids]]) -> _Asked:
    """With the exact scores over blocks of (codes (n, dim), ids (n,) ascending)."""
    top = np.full((len(drawn.vectors), _DEPTH), -np.inf, np.float32)
    for codes, ids in blocks:
        scores = drawn.vectors @ row_codec.dequantise(codes).T  # (queries, n)
        low, high = np.searchsorted(ids, drawn.first), np.searchsorted(ids, drawn.end)
        for query in np.flatnonzero(low < high):
            scores[query, low[query] : high[query]] = -np.inf
        better = scores > top[:, -1:]
        for query in np.flatnonzero(better.any(axis=1)):  # few, once the best are known
            merged = np.concatenate([top[query], scores[query, better[query]]])
            top[query] = np.sort(merged)[::-1][:_DEPTH]
    return drawn._replace(best=top)


# -- the layout, on a sample


def _layout(
    store: Store, drawn: _Asked, phrases: int, settings: Settings, threads: int | None, target: float
) -> tuple[Layout, list[dict[str, Any]]]:
    """The layout of all phrases that costs least, and what was tried."""
    size = min(max(_SAMPLE[0], phrases // _SAMPLED), _SAMPLE[1])
    found = store.sampled_rows(min(size, phrases), pieces=256)
    codes, ids, _ = unpack(found, store.dim)
    pieces = (slice(at, at + _PIECE) for at in range(0, len(codes), _PIECE))
    asked = _answered(drawn, ((codes[piece], ids[piece]) for piece in pieces))
    tried: list[tuple[bool, float, Layout, dict[str, Any]]] = []
    given_up: list[dict[str, Any]] = []
    coder = None
    for layout in _layouts(phrases, store.dim):
        small = layout.for_rows(len(codes), phrases)
        if coder is None or coder.parts != small.parts:
            coder = fitting(codes, small.parts)
        engine = _engine(small, coder, found, codes, settings, threads)
        least = min((cost for missed, cost, *_ in tried if not missed), default=inf)
        beyond = _coarse(layout, store.dim) - _coarse(small, store.dim)
        limit = least - beyond if layout.lists else inf
        work = _calibrated(engine, asked, min(1.0, target + _SPARE), limit)
        if work is None:
            given_up.append({"layout": layout.factory})
            continue
        reading = (work.cost - _coarse(small, store.dim)) * (1 if layout.lists else phrases / len(codes))
        cost = reading + _coarse(layout, store.dim)
        facts = {"layout": layout.factory, "recall": round(work.recall, 4), "us": round(cost / 1000, 1)}
        tried.append((work.recall < target, cost, layout, facts | asdict(work.asking)))
    missed, _, layout, _ = min(tried, key=lambda each: each[:2])
    if missed:  # none reaches it: the finest codes come nearest
        layout = max((each[2] for each in tried), key=lambda each: (each.parts, each.lists))
    return layout, [each[3] for each in tried] + given_up


def _layouts(phrases: int, dim: int) -> list[Layout]:
    """Parts of three to six dimensions, or of two to eight; lists of about 600 to 2,400 phrases, or none."""
    parts = [dim // each for each in ((3, 4, 6) if dim % 3 == 0 else (2, 4, 8)) if dim % each == 0] or [dim]
    lists = {1 << max(4, round(np.log2(phrases / length))) for length in _LENGTHS}
    lists |= {0} if phrases <= _ALL_READ else set()
    return [Layout(number, part) for part in parts for number in sorted(lists)]


def _engine(
    layout: Layout, coder: Coder, found: list[VectorRow], codes: Int8s, settings: Settings, threads: int | None
) -> Faiss:
    """A FAISS index of the sample, in memory."""
    filling = Filling.train(layout, row_codec.spread(codes, faiss_build.wanted(layout, settings)), coder)
    filling.add(row_codec.dequantise(codes))
    index = filling.finished()
    runs = [[row.first_phrase, row.phrases] for row in found]
    manifest = VectorsManifest("", 0, "", "", "", len(codes), 0, 0, layout.factory, len(codes), runs)
    return Faiss(index, codes, manifest, settings, threads)


# -- probes, slack and candidates


def _calibrated(engine: Faiss, asked: _Asked, target: float, limit: float = inf) -> _Work | None:
    """The way to ask that costs least of those that reach the target, or the most thorough; none that costs ``limit``.

    More lists let a smaller slack do, and a larger slack fewer candidates, so all three are chosen together. Of each
    number of lists, slacks from the least that can do; what its reading alone makes too dear is passed over.
    """
    deepest = _CANDIDATES[-1]
    slacks = [*_SLACKS, _ALL] if engine.nlist else [_ALL]

    @cache
    def ranks(lists: int, slack: float) -> Ids:
        return _ranks(engine, asked, Asking(lists, slack, deepest), deepest)

    def reaches(lists: int, slack: float) -> bool:
        return bool((ranks(lists, slack) < deepest).mean() >= target)

    def least_cost(lists: int, slack: float) -> float:
        return _cost(engine, asked, Asking(lists, slack, _CANDIDATES[0]))

    def work(lists: int, slack: float) -> _Work:
        found = ranks(lists, slack)
        candidates = next((c for c in _CANDIDATES if (found < c).mean() >= target), deepest)
        asking = Asking(lists, slack, candidates)
        return _Work(asking, float((found < candidates).mean()), _cost(engine, asked, asking))

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
            each = work(lists, slack)
            if each.cost < most:
                best, most = each, each.cost
    return best or (work(max(1, engine.nlist), _ALL) if limit == inf else None)


def _ranks(engine: Faiss, asked: _Asked, asking: Asking, deepest: int) -> Ids:
    """(queries, at) how many candidates come before each of the best phrases; ``deepest`` where one is not found."""
    positions = _proposed(engine, asked, asking, deepest)
    ranks = np.full((len(positions), asked.at), deepest, np.int64)
    step = 64
    for start in range(0, len(positions), step):
        part = slice(start, start + step)
        scores = engine.products(asked.vectors[part], positions[part])
        good = scores >= asked.best[part, asked.at - 1 : asked.at] - _SAME
        places = np.argsort(~good, axis=1, kind="stable")[:, : asked.at]
        ranks[part, : places.shape[1]] = np.where(np.take_along_axis(good, places, 1), places, deepest)
    return ranks


def _proposed(engine: Faiss, asked: _Asked, asking: Asking, count: int) -> Ids:
    """(queries, count) rows as if the queries' own sentences were not in the index."""
    before, engine.asking = engine.asking, asking
    positions = engine.propose(asked.vectors, count + int((asked.end - asked.first).max()))
    engine.asking = before
    positions = np.where(asked.own(engine.runs.ids(positions)), -1, positions)
    order = np.argsort(positions < 0, axis=1, kind="stable")[:, :count]  # those left, in their order
    return np.take_along_axis(positions, order, 1)


def _cost(engine: Faiss, asked: _Asked, asking: Asking) -> float:
    """Nanoseconds of a query by the unit costs."""
    layout = Layout.parse(engine.manifest.factory)
    rescoring = asking.candidates * _NS_CANDIDATE
    if not layout.lists:
        return rescoring + engine.manifest.rows * layout.parts * _NS_CODE_ALL
    read, codes = engine.reads(asked.vectors, asking)
    dim = asked.vectors.shape[1]
    reading = asking.probes * _NS_PROBE + read * _NS_LIST + codes * layout.parts * _NS_CODE
    return rescoring + _coarse(layout, dim) + reading


def _coarse(layout: Layout, dim: int) -> float:
    return layout.lists * (dim * _NS_CENTRE if layout.lists < MANY else dim / 4 * _NS_CODED_CENTRE)


# -- what is said


def _measured(engine: Faiss, asked: _Asked, target: float, phrases: int) -> TuneReport:
    """Recall as a search has it, and the clock."""
    asking = engine.asking
    positions = _proposed(engine, asked, asking, asking.fetch(_DEPTH))
    scores = np.concatenate(
        [
            engine.rescore(asked.vectors[at : at + 64], positions[at : at + 64], _DEPTH)[1]
            for at in range(0, len(positions), 64)
        ]
    )
    there = np.isfinite(asked.best)
    good = (scores >= asked.best - _SAME) & there
    singles = [asked.vectors[at : at + 1] for at in range(min(_SINGLES, len(scores)))]
    alone = [_milliseconds(partial(engine.search, query, 32)) for query in singles]
    together = min(_milliseconds(lambda: engine.search(asked.vectors, 32)) for _ in range(3))
    return TuneReport(
        target,
        phrases,
        f"FAISS {engine.manifest.factory}",
        asking.probes if engine.nlist else 0,
        asking.slack if engine.nlist else 0.0,
        asking.candidates,
        len(scores),
        round(float(good[:, 0].mean()), 4),
        round(float((scores >= asked.best[:, -1:] - _SAME).mean()), 4),
        round(float(np.median(alone)), 3),
        round(together / len(scores), 4),
        at=asked.at,
    )


def _milliseconds(call: Callable[[], Any]) -> float:
    begun = perf_counter()
    call()
    return 1000 * (perf_counter() - begun)

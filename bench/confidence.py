"""Fit the confidence that a search tells: how likely the best group is an equivalent of the phrase that was asked.

    python bench/confidence.py .cache/confidence --languages de fr es cs
    python bench/confidence.py .cache/confidence --write     # into the model's folder, as confidence.json

Text: the first lines of the parallel corpora, on which the bundled model was not trained. Queries: phrases that the
segmenter proposes in the foreign sides and that are linked to an English phrase. Collection: the English sides, each
sentence once, in several sizes; the mate of the query's own sentence does not count as found. Right: the best group
has a wording that some sentence pair links to this foreign wording; so a right answer in other words counts as wrong,
and the confidence is rather too low than too high. Fitted on all languages but one, reported on that one, in turn; what
is written is fitted on all.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import parallel, parser, report
from numpy.typing import NDArray

from phrasemate import load_model
from phrasemate.align import NeuralAligner, ParallelText, PhraseSettings, align_files, pair_files
from phrasemate.encode import Model
from phrasemate.encode.scoring import HITS, OTHERS, VOTES, Confidence, Views, features, fit_confidence
from phrasemate.evaluate.report import signature
from phrasemate.search import DOUBT, folded
from phrasemate.types import Phrase

MEASURES = ("mean confidence", "ECE", "AUC", "Brier", "right if >= .5", "share >= .5", "right if < .2")
HEADER = ["search", "language", "sentences", "queries", "right", *MEASURES]
SEARCHES = {"one look": None, "quick": VOTES, "views": Views()}
EVERY = PhraseSettings(max_words=6, rate=1e9)  # no wording is barred: what the segmenter proposes may hold any

Floats = NDArray[np.float32]


class Query(NamedTuple):
    """A phrase in its sentence, the English sentence of that, and the wordings that are right."""

    phrase: Phrase
    mate: str
    right: frozenset[str]


class Collection(NamedTuple):
    """The phrases of English sentences: (n, dim) vectors, (n,) the sentence of each, their texts."""

    sentences: list[str]
    vectors: Floats
    owners: NDArray[np.int64]
    texts: list[str]


def lines(data: Path, lang: str, count: int) -> list[tuple[str, str]]:
    """(other, English) of the first lines, none twice."""
    rows = islice(parallel(data, lang), count)
    usable = (row for row in rows if 20 < len(row.english) < 300 and len(row.other) > 10)
    return list(dict.fromkeys((row.other, row.english) for row in usable))


def linked(model: Model, rows: Sequence[tuple[str, str]], out: Path) -> Iterator[dict[str, Any]]:
    """The sentence pairs with their phrase pairs, as ``phrasemate pairs`` writes them."""
    text, links = out.with_suffix(".tsv"), out.with_suffix(".links")
    if not out.exists():
        text.write_text("".join(f"{other}\t{english}\n" for other, english in rows), encoding="utf-8")
        align_files(ParallelText(text), links, NeuralAligner(model, method="softmax"), force=True)
        pair_files(ParallelText(text), links, out, EVERY, force=True)
    for line in out.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def queries(model: Model, rows: Sequence[dict[str, Any]], count: int, seed: int) -> list[Query]:
    """A phrase of each of so many sentences: drawn from those that the segmenter proposes and that are linked."""
    table: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        for start, end, other_start, other_end in row["pairs"]:
            table[folded(row["source"][start:end])].add(folded(row["target"][other_start:other_end]))
    draw = np.random.default_rng(seed)
    picked = [rows[i] for i in draw.permutation(len(rows))[: 2 * count]]
    drawn = []
    for row, spans in zip(picked, model.segment([row["source"] for row in picked]), strict=True):
        spans_linked = {(pair[0], pair[1]) for pair in row["pairs"]}
        usable = [span for span in spans if (span.start, span.end) in spans_linked]
        if usable:
            span = usable[draw.integers(len(usable))]
            phrase = Phrase(row["source"], span.start, span.end)
            drawn.append(Query(phrase, row["target"], frozenset(table[folded(phrase.text)])))
    return drawn[:count]


def collection(model: Model, sentences: list[str], file: Path) -> Collection:
    """What an index of the sentences would hold; made once."""
    if not file.exists():
        extracted = model.extract(sentences)
        spans = zip(sentences, extracted, strict=True)
        texts = [text[s:e] for text, item in spans for s, e in zip(item.starts, item.ends, strict=True)]
        owners = np.repeat(np.arange(len(extracted)), [len(item.starts) for item in extracted])
        vectors = np.concatenate([item.vectors for item in extracted])
        np.savez(file, vectors=vectors, owners=owners, texts=np.array(texts))
    with np.load(file) as saved:
        return Collection(sentences, saved["vectors"], saved["owners"], saved["texts"].tolist())


def nearest(vectors: Floats, queries: Sequence[Query], among: Collection, size: int, count: int) -> NDArray[np.int64]:
    """(queries, count): the nearest phrases of the first ``size`` sentences, without those of the query's mate."""
    count_searched, nearest_ids = int(np.searchsorted(among.owners, size)), []
    for at in range(0, len(queries), 100):
        scores = vectors[at : at + 100] @ among.vectors[:count_searched].T  # (100, n)
        best = np.argpartition(-scores, count + 50, axis=1)[:, : count + 50]
        for row, columns in enumerate(best):
            order = columns[np.argsort(-scores[row, columns])]
            free = [c for c in order if among.sentences[among.owners[c]] != queries[at + row].mate]
            nearest_ids.append(free[:count])
    return np.array(nearest_ids)


def looked_up(
    model: Model, queries: Sequence[Query], among: Collection, size: int, views: Views | None
) -> tuple[Floats, NDArray[np.int64]]:
    """What is searched with, (queries, dim), and what is found first, (queries, hits)."""
    phrases = [query.phrase for query in queries]
    vectors = model.encode(phrases) if views is None else views.queries(model, phrases)[1]
    return vectors, nearest(vectors, queries, among, size, HITS if views is None else views.first)


def judged(
    model: Model,
    queries: Sequence[Query],
    among: Collection,
    views: Views | None,
    vectors: Floats,
    ids: NDArray[np.int64],
) -> tuple[Floats, NDArray[np.bool_]]:
    """Features of what a search finds, (queries, 3), and whether its first group is right, (queries,)."""
    hits = among.vectors[ids]  # (queries, hits, dim)
    if views is not None:
        spans = [Phrase(text, 0, len(text)) for text in (among.texts[column] for column in ids.ravel())]
        hits = views.hits(model, spans, hits.reshape(-1, hits.shape[2])).reshape(hits.shape)
    scores = np.einsum("qd,qhd->qh", vectors, hits)
    inputs, right = np.zeros((len(queries), 3), np.float32), np.zeros(len(queries), bool)
    for row, query in enumerate(queries):
        groups: dict[str, list[float]] = {}
        for place in np.argsort(-scores[row], kind="stable"):
            groups.setdefault(folded(among.texts[ids[row, place]]), []).append(float(scores[row, place]))
        weights = {name: some[0] if views is None else views.support(some) for name, some in groups.items()}
        order = sorted(groups, key=weights.__getitem__, reverse=True)
        inputs[row] = features([groups[name] for name in order])
        right[row] = order[0] in query.right
    return inputs, right


def measures(confidence: Floats, right: NDArray[np.bool_]) -> list[float]:
    """Mean, calibration error in ten bins of equal size, AUC, Brier score, and how much is right above and below."""
    order = np.argsort(confidence)
    bins = np.array_split(order, 10)
    error = sum(len(b) * abs(confidence[b].mean() - right[b].mean()) for b in bins) / len(order)
    ranks = np.empty(len(order))
    ranks[order] = np.arange(1, len(order) + 1)
    positive = int(right.sum())
    auc = (ranks[right].sum() - positive * (positive + 1) / 2) / max(positive * (len(right) - positive), 1)
    sure, doubtful = confidence >= 0.5, confidence < DOUBT
    brier = np.mean((confidence - right) ** 2)
    figures = [confidence.mean(), error, auc, brier, right[sure].mean(), sure.mean(), right[doubtful].mean()]
    return list(map(float, figures))


def options_of(doc: str | None) -> argparse.ArgumentParser:
    """What says which text is asked and searched."""
    options = parser(doc)
    options.add_argument("out", type=Path)
    options.add_argument("--languages", nargs="+", default=["de", "fr", "es", "cs"], metavar="LANG")
    options.add_argument("--lines", type=int, default=6_000, help="of each language")
    options.add_argument("--queries", type=int, default=800, help="of each language")
    return options


def material(args: argparse.Namespace, model: Model, size: int) -> tuple[dict[str, list[Query]], Collection]:
    """The queries of each language, and what is searched: ``size`` English sentences, if there are so many."""
    args.out.mkdir(parents=True, exist_ok=True)
    sets, english = {}, set()
    for lang in args.languages:
        rows = list(linked(model, lines(args.data, lang, args.lines), args.out / f"en-{lang}.jsonl"))
        english.update(row["target"] for row in rows)
        sets[lang] = queries(model, rows, args.queries, args.seed)
        print(f"{lang}: {len(rows):,} sentence pairs, {len(sets[lang]):,} queries", file=sys.stderr)
    drawn = np.random.default_rng(args.seed).permutation(sorted(english)).tolist()[:size]
    return sets, collection(model, drawn, args.out / f"{model.hash[:12]}-{size}-texts.npz")


def main() -> None:
    """Find, fit, report; write if asked."""
    options = options_of(__doc__)
    options.add_argument("--sizes", type=int, nargs="+", default=[1_000, 4_000, 20_000], help="sentences searched")
    options.add_argument("--write", action="store_true", help="put the result into the model's folder")
    args = options.parse_args()
    model = load_model(args.model, args.threads)
    sets, among = material(args, model, max(args.sizes))
    finals, rows = {}, []
    for name, views in SEARCHES.items():
        judgements = {
            (lang, size): judged(model, queries, among, views, *looked_up(model, queries, among, size, views))
            for lang, queries in sets.items()
            for size in args.sizes
        }
        for lang in sets:
            fitted = fit(judgements, [other for other in sets if other != lang] or [lang])
            for size in args.sizes:
                inputs, right = judgements[lang, size]
                figures = [len(right), float(right.mean()), *measures(fitted.of(inputs), right)]
                rows.append([name, lang, min(size, len(among.sentences)), *figures])
        finals[name] = fit(judgements, list(sets))
    quick = "quick" if model.pooling == "head" else "one look"  # as `Searcher` has it
    final = replace(finals[quick], with_views=finals["views"])
    facts = signature(model, lines=args.lines, queries=args.queries, others=OTHERS, seed=args.seed)
    report("confidence", HEADER, rows, facts)
    print(final)
    if args.write:
        final.save(model.folder, model.hash, facts)


def fit(judgements: dict[tuple[str, int], tuple[Floats, NDArray[np.bool_]]], languages: Sequence[str]) -> Confidence:
    """On all sizes of these languages."""
    chosen = [both for (lang, _), both in judgements.items() if lang in languages]
    return fit_confidence(np.concatenate([x for x, _ in chosen]), np.concatenate([y for _, y in chosen]))


if __name__ == "__main__":
    main()

"""Mine two collections for translated sentence pairs (mates): read, encode, search, choose, and write.

The long stages (encoding, search, re-ranking) store their results block by block in the work folder. Mates are written
as tab-separated values, JSON lines or a translation memory.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.pooling import unit
from phrasemate.errors import InputError, PhrasemateError
from phrasemate.lexicon import bundled_lexicon
from phrasemate.mine.collection import Collection, Place, checker, collect, normal
from phrasemate.mine.neighbours import (
    RECALL_SAMPLE,
    ApproximateSearch,
    ExactSearch,
    NeighbourSearch,
    engine_for,
    nearest_in_blocks,
)
from phrasemate.mine.select import (
    CONTEST,
    DOUBT,
    FLOORS,
    LOOKED_AT,
    OURS,
    RERANKED,
    RISE,
    USUAL,
    WEIGHTS,
    Calibration,
    Candidates,
    Mate,
    Mining,
    Report,
    SentenceEncoder,
    calibrate,
    candidates,
    check_known,
    contested,
    is_copy,
    least_promising,
    length_deviations,
    match_features,
    one_to_one,
    pair_features,
    probabilities,
    usual_threshold,
)
from phrasemate.mine.word_match import LexiconMatch, WordMatch, lexicon_match
from phrasemate.mine.work_folder import Blocks, WorkFolder, checked, seal
from phrasemate.rank import whole
from phrasemate.reranker import Attention, load_reranker
from phrasemate.text.formats.bilingual import write_units
from phrasemate.text.formats.units import Side, Unit
from phrasemate.text.normalize import plain
from phrasemate.types import (
    Document,
    PhrasePair,
    Progress,
    Run,
    Scorer,
    check_opened,
    check_progress,
    iterate_documents,
    thread_count,
    to_settings,
)
from phrasemate.utils.arrays import Floats, Halves
from phrasemate.utils.machine import cores, load_faiss, single_blas
from phrasemate.utils.margin import margin_of
from phrasemate.utils.storage import NewFile, check_new

ENCODED = 2048  # sentences in a block of vectors
ASKED = 8192  # queries in a block of neighbours
SAMPLE = 200  # sentences of a collection from which its language is identified
SAMPLED, SURE, GAIN, UNSURE, NEIGHBOURS = 10_000, 300, 1.5, 20, 4  # constants of `language_offset`
SCORED = 1024  # pairs in a block of scores, which are scored together
CountProgress = Callable[[int, int], None]
"""Called with how much is done, and of how much."""


def encode(folder: Path, side: str, texts: Collection, model: SentenceEncoder, progress: CountProgress) -> Halves:
    """Encode the sentences of a collection: (sentences, width) float16 vectors on disk.

    Blocks with the same sentences and model that are in the work folder are not computed again. Raises InputError if
    the model returns vectors that do not have unit length.
    """
    parts = [slice(at, min(at + ENCODED, len(texts))) for at in range(0, len(texts), ENCODED)]
    keys = [_key(model.hash, *texts.texts(part)) for part in parts]
    blocks = Blocks(folder, f"{side}.vectors", (len(texts), model.width), np.float16, ENCODED, keys)
    progress(_finished_rows(blocks), len(texts))
    for number in blocks.missing:
        vectors = model.encode_sentences(texts.texts(parts[number]))
        lengths = np.linalg.norm(vectors, axis=1) if vectors.ndim == 2 else np.zeros(1)
        if not (np.abs(lengths - 1) < 0.01).all():
            raise InputError(f"the model gave vectors of length {lengths.min():.3g}; expected unit vectors")
        blocks.write(number, vectors)
        progress(_finished_rows(blocks), len(texts))
    return blocks.array


def neighbours(
    folder: Path,
    name: str,
    queries: Halves,
    database: Halves,
    k: int,
    engine: str,
    key: str,
    progress: Callable[[str, int, int], None],
) -> tuple[Run, float]:
    """Find the k nearest database vectors of each query, and measure the recall of the search on a sample.

    Args:
        folder: Work folder; stored neighbours of equal vectors, k and engine are not computed again.
        name: Name of the files, "forward" or "backward".
        queries: Unit vectors, (q, dim).
        database: Unit vectors, (n, dim).
        k: Neighbours of each query.
        engine: "exact" or "approximate".
        key: Hash of the origin of both sets of vectors.
        progress: Called with the name of the stage, how much is done, and of how much.
    """
    k = min(k, len(database))
    key, note = _key(key, str(k), engine), folder / f"{name}.json"
    blocks = Blocks(folder, name, (len(queries), 2 * k), np.int32, ASKED, [key] * -(-len(queries) // ASKED))
    facts = checked(note, key=str, recall=float)
    if facts is None or facts["key"] != key:
        facts, blocks.done = {"key": key, "recall": 1.0}, set()
    if blocks.missing:
        search = _build_search(queries, database, k, engine, progress)
        facts["recall"] = search.recall
        seal(note, facts, [])
        progress("searching", _finished_rows(blocks), len(queries))
        for number in blocks.missing:
            ids, cosines = search.search(queries[blocks.rows(number)].astype(np.float32), k)
            blocks.write(number, np.hstack([ids, cosines.astype(np.float32).view(np.int32)]))
            progress("searching", _finished_rows(blocks), len(queries))
    array = blocks.array
    cosines = np.ascontiguousarray(array[:, k:]).view(np.float32)
    return Run(array[:, :k].astype(np.int64), cosines), float(facts["recall"])


def language_offset(source: Halves, target: Halves, progress: Callable[[int], None] = lambda _: None) -> Floats:
    """Estimate the part of the source vectors that comes from their language, (dim,): the mean source - target.

    All vectors of a language have a part in common, which disturbs the search between languages. It is estimated from
    the most certain pairs of a sample of `SAMPLED` source sentences. These are a tenth of the sample, at most `SURE`,
    with the highest margins of the nearest target over the next ones, each target once. They were chosen for their
    similarity, which makes the difference too small, so it is multiplied by `GAIN`. `UNSURE` pairs with a difference of
    0 are added, so that few pairs give a small offset.

    Args:
        source: Unit vectors of the source sentences, (n, dim).
        target: Unit vectors of the target sentences, (m, dim).
        progress: Called with the number of target sentences searched so far.
    """
    rows = np.sort(np.random.default_rng(0).choice(len(source), min(len(source), SAMPLED), replace=False))
    queries = source[rows].astype(np.float32)
    ids, cosines = nearest_in_blocks(queries, target, NEIGHBOURS, progress)
    rivals = cosines.mean(1)
    order = np.argsort(-margin_of(cosines[:, 0], rivals, rivals, "quarter"), kind="stable")
    _, first = np.unique(ids[order, 0], return_index=True)
    sure = order[np.sort(first)][: min(SURE, len(rows) // 10)]
    differences = queries[sure] - target[ids[sure, 0]].astype(np.float32)
    offset: Floats = differences.sum(0) * np.float32(GAIN / (len(sure) + UNSURE))
    return offset


def shift(folder: Path, vectors: Halves, offset: Floats, key: str) -> Halves:
    """Subtract the offset from the source vectors: (sentences, dim) float16 unit vectors on disk.

    ``key``: hash of the origin of vectors and offset; stored blocks with this key are not computed again.
    """
    count = -(-len(vectors) // ASKED)
    blocks = Blocks(folder, "source.shifted", vectors.shape, np.float16, ASKED, [key] * count)
    for number in blocks.missing:
        blocks.write(number, unit(vectors[blocks.rows(number)].astype(np.float32) - offset))
    return blocks.array


def scores(
    folder: Path, scorer: Scorer, pairs: Candidates, sides: Sequence[Collection], progress: CountProgress
) -> NDArray[np.float32]:
    """Score pairs of sentences by a scorer, (pairs,), block by block in the work folder.

    Stored scores of a scorer with an equal ``signature`` are not computed again. Raises InputError if the scorer does
    not return a finite number for each pair.
    """
    parts = [slice(at, at + SCORED) for at in range(0, len(pairs.score), SCORED)]
    name = str(getattr(scorer, "signature", "")) or str(time.time_ns())
    settings = [name, *(side.key for side in sides)]
    keys = [_key(*settings, pairs.source[part].tobytes().hex(), pairs.target[part].tobytes().hex()) for part in parts]
    blocks = Blocks(folder, "scores", (len(pairs.score), 1), np.float32, SCORED, keys)
    for number in blocks.missing:
        numbers = pairs.only(parts[number]).numbers()
        phrase_pairs = [PhrasePair(whole(sides[0].text(one)), whole(sides[1].text(other))) for one, other in numbers]
        pair_scores = np.asarray(scorer.score(phrase_pairs), np.float32)
        if pair_scores.shape != (len(phrase_pairs),) or not np.isfinite(pair_scores).all():
            raise InputError(
                f"scores of shape {pair_scores.shape} from the scorer for {len(phrase_pairs)} pairs; "
                "expected finite numbers"
            )
        blocks.write(number, pair_scores[:, None])
        progress(_finished_rows(blocks), len(pairs.score))
    return np.array(blocks.array[:, 0])


def _build_search(queries: Halves, database: Halves, k: int, engine: str, progress: Any) -> NeighbourSearch:
    """Load the database into a search engine; the approximate one is tuned on a sample of the queries."""
    if engine == "exact":
        return ExactSearch(database)
    sample_rows = np.linspace(0, len(queries) - 1, min(RECALL_SAMPLE, len(queries))).astype(np.int64)
    total = len(database)
    return ApproximateSearch(
        database, queries[sample_rows].astype(np.float32), k, lambda count: progress("indexing", count, total)
    )


def _finished_rows(blocks: Blocks) -> int:
    """Count the rows of finished blocks."""
    rows = (blocks.rows(number) for number in blocks.done)
    return sum(row.stop - row.start for row in rows)


def _key(*parts: str) -> str:
    """Hash texts to a key of 32 hexadecimal digits."""
    return sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:32]


FORMATS = (".jsonl", ".tmx", ".tsv")


def check_output(path: str | Path, force: bool = False) -> Path:
    """Check that mates can be written to a path, and return it.

    Raises InputError for an unknown suffix, a missing folder, or, unless ``force``, an existing file.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: expected a name that ends in {', '.join(FORMATS)}")
    check_new(path, force)
    return path


def write_mates(path: str | Path, mates: Iterable[Mate], languages: tuple[str, str] = ("", "")) -> None:
    """Write mates in the format of the file's extension; the file appears when it is complete.

    A `.tsv` file has the columns source, target, score, places of the source, places of the target, without a header. A
    place is ``document:line``; places are separated by `` | ``. A `.jsonl` file has an object for each pair. A `.tmx`
    file has a unit for each pair, with score and places as properties.

    Args:
        path: File to write; an existing one is replaced.
        mates: Pairs of sentences, as in the result of `mine`.
        languages: Codes of source and target, for .tmx.

    Raises InputError if the suffix is unknown or the file cannot be written.
    """
    path = check_output(path, force=True)
    if path.suffix.lower() == ".tmx":
        write_units(path, _units(mates, languages), languages)
        return
    line: Callable[[Mate], str] = _row if path.suffix.lower() == ".tsv" else _json
    with NewFile(path) as file:
        for mate in mates:
            file.write(line(mate) + "\n")


def _row(mate: Mate) -> str:
    """Format a pair as a line of a .tsv file."""
    places = _places(mate.source_places), _places(mate.target_places)
    return "\t".join([mate.source, mate.target, f"{mate.score:.4f}", *places])


def _places(places: tuple[Place, ...]) -> str:
    return " | ".join(f"{' '.join(place.document.split())}:{place.line}" for place in places)


def _json(mate: Mate) -> str:
    """Format a pair as a JSON object."""
    fields: dict[str, Any] = mate._asdict() | {"score": round(mate.score, 4), "cosine": round(mate.cosine, 4)}
    for name in ("source_places", "target_places"):
        fields[name] = [place._asdict() for place in fields[name]]
    return json.dumps(fields, ensure_ascii=False)


def _units(mates: Iterable[Mate], languages: tuple[str, str]) -> Iterator[Unit]:
    for mate in mates:
        places = mate.source_places, mate.target_places
        properties = ({"place": [f"{place.document}:{place.line}" for place in side]} for side in places)
        yield Unit(tuple(map(Side, mate[:2], languages, properties)), {"score": f"{mate.score:.4f}"})


_PROGRESS_STEP = 1 << 14  # pairs between two calls of progress
FOREIGN_THRESHOLD = (
    "the default threshold was fitted to the bundled model, not to {}: it may take nearly all pairs or nearly none; "
    "calibrate it with known pairs (50 will do), or give one"
)
LOST = 0.02  # share of known mates that may be lost to the minimum margin before the re-ranking


class MiningResult:
    """Mates of a run, best first; iterate over them as often as needed.

    Use it as a context manager, since it keeps the work folder open. ``skipped`` lists inputs that were skipped in this
    or an earlier run. ``remarks`` are warnings about the threshold. ``report`` has counts and times.

    >>> import phrasemate as pm
    >>> german = [pm.Document.from_texts("de", ["Der Hund bellt.", "Es regnet seit Tagen.", "Das Haus ist alt."])]
    >>> english = [pm.Document.from_texts("en", ["The house is old.", "The dog is barking.", "He sold his car."])]
    >>> with mine(german, english, pm.load_model(), settings=Mining(threshold=0.5)) as mates:
    ...     best = next(iter(mates))
    >>> best.source, best.target
    ('Das Haus ist alt.', 'The house is old.')
    """

    remarks: tuple[str, ...] = ()

    def __init__(self, work: WorkFolder, sides: Sequence[Collection], pairs: Candidates, report: Report) -> None:
        self.work, self.report = work, report
        self.skipped = [item for side in sides for item in side.skipped]
        self._sides, self._pairs = sides, pairs

    def __len__(self) -> int:
        return len(self._pairs.score)

    def __iter__(self) -> Iterator[Mate]:
        source, target = self._sides
        for first, second, cosine, score, _ in zip(*(column.tolist() for column in self._pairs), strict=True):
            yield Mate(
                source.text(first), target.text(second), score, cosine, source.places(first), target.places(second)
            )

    def __enter__(self) -> MiningResult:
        return self

    def __exit__(self, *_: object) -> None:
        self.work.close()


@single_blas
def mine(
    source: Iterable[Document],
    target: Iterable[Document],
    model: SentenceEncoder,
    work: str | Path | None = None,
    settings: Mining | None = None,
    known: Iterable[tuple[str, str]] = (),
    scorer: Scorer | None = None,
    threads: int | None = None,
    force: bool = False,
    progress: Progress = lambda *_: None,
) -> MiningResult:
    """Find the sentences of two collections that are translations of each other.

    A stopped run resumes in its folder ``work``. With another threshold, filter or calibration, only the stages that
    depend on it run again.

    Args:
        source: Documents of one language.
        target: Documents of the other language.
        model: Model that encodes the sentences.
        work: Folder for intermediate results; None for a temporary one.
        settings: How pairs are scored and chosen.
        known: Known translations. They are hidden among the sentences to fit the threshold (`calibrate`).
        scorer: Scorer that re-ranks promising pairs, instead of ``settings.rerank``. It needs a threshold or known
            pairs.
        threads: Threads of the search; None for all cores.
        force: Whether to start again if the folder has other texts, languages or another model.
        progress: Called with what is being done, how much of it is done, and of how much.

    Raises ReadError for an unreadable document, InputError for invalid values and for a folder of another run (without
    ``force``), MissingExtra for a language check without its package.
    """
    check_opened(model, "a model, such as load_model(path)")
    settings = to_settings(settings, Mining)
    check_progress(progress)
    known_texts = [(normal(first), normal(second)) for first, second in known]
    mates = list({(plain(first), plain(second)): (first, second) for first, second in known_texts}.values())
    look = _look(model, settings, scorer)
    if mates:
        check_known(len(mates))
    elif settings.threshold is None:
        _check_threshold(settings, look)
    checks = [checker(language, settings.check) for language in settings.languages]
    documents = list(iterate_documents(source)), list(iterate_documents(target))
    load_faiss(thread_count(threads) or cores())
    facts = _identity(documents, model, settings)
    folder = WorkFolder(mkdtemp(prefix="phrasemate-mine-") if work is None else work, facts, force, work is None)
    try:
        steps = _Steps(folder, settings, look, progress)
        known_sides = [list(side) for side in zip(*mates, strict=True)] or [[], []]
        arguments = zip(("source", "target"), documents, known_sides, checks, (source, target), strict=True)
        sides = [steps.read(*argument) for argument in arguments]
        numbers = _numbers(mates, sides)
        steps.compare_words(sides, model)
        limit = settings.threshold
        if limit is None and not mates:
            limit = steps.usual(sides)
        pairs = steps.filter(steps.search(sides, model), sides, numbers, limit)
        mining = steps.choose(steps.score(pairs, sides), sides, numbers, limit)
        mining.remarks = remarks_of(model, settings, mates)
        return mining
    except BaseException as error:
        is_empty = not folder.resumed and not (folder.path / "source.vectors.bin").exists()
        if isinstance(error, PhrasemateError) and is_empty:
            folder.remove()  # nothing is lost, and a folder with the old text would refuse a corrected one
        folder.close()
        raise


def remarks_of(model: SentenceEncoder, settings: Mining, known_pairs: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return warnings about the threshold, such as a default one that was not fitted to this model."""
    if settings.threshold is not None or known_pairs or getattr(model, "path", None) is None:
        return ()
    return (FOREIGN_THRESHOLD.format(getattr(model, "name", "this model")),)


class _Look(NamedTuple):
    """Margin, and the re-ranking: its kind (one of `RERANK`, or "scorer"), its scorer, and the weight of its scores."""

    kind: str
    scorer: Scorer | None
    weight: float
    margin: str


@dataclass(slots=True)
class _Steps:
    """Steps of a run, in the order in which `mine` calls them, with the facts for the report."""

    folder: WorkFolder
    settings: Mining
    look: _Look
    progress: Progress
    words: LexiconMatch | None = None
    word_match: WordMatch | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        """Add the time of a ``with`` block to a stage."""
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def read(
        self, side: str, documents: Sequence[Document], hidden: Sequence[str], check: Any, corpus: Iterable[Document]
    ) -> Collection:
        """Collect the sentences of one side (`collect`)."""
        show = lambda count: self.progress(f"reading {side}", count, 0)  # noqa: E731
        with self._timed("reading"):
            return collect(self.folder.path, side, documents, hidden, check, show, corpus)

    def search(self, sides: Sequence[Collection], model: SentenceEncoder) -> Candidates:
        """Encode both sides, search in both directions, and score the pairs of neighbours by their margin."""
        settings, path = self.settings, self.folder.path
        with self._timed("encoding"):
            source, target = (
                encode(path, name, side, model, partial(self.progress, f"encoding {name}"))
                for name, side in zip(("source", "target"), sides, strict=True)
            )
        key = _key(model.hash, *(side.key for side in sides))
        if self.look.margin in OURS:
            with self._timed("searching"):
                offset, key = self._offset(source, target, key)
                source = shift(path, source, offset, key)
        small, large = sorted(map(len, sides))  # each side is the database of one direction; the smaller one decides
        engine = engine_for(settings.engine, large, small, model.width)
        runs: dict[str, Run] = {}
        with self._timed("searching"):
            for name, queries, database in (("forward", source, target), ("backward", target, source)):
                show = lambda title, *counts, name=name: self.progress(f"{title} {name}", *counts)  # noqa: E731
                runs[name], recall = neighbours(path, name, queries, database, settings.k, engine, key, show)
                self.facts["recall"] = (*self.facts.get("recall", ()), recall)
        self.facts["engine"] = engine
        with self._timed("scoring"):
            margin = "quarter" if self.look.margin == "regression" else self.look.margin
            return candidates(runs["forward"], runs["backward"], margin, FLOORS[margin])

    def _offset(self, source: Halves, target: Halves, key: str) -> tuple[Floats, str]:
        """Return the language offset, from the work folder if it is there, and a key of the shifted vectors."""
        blocks = Blocks(self.folder.path, "offset", (1, source.shape[1]), np.float32, 1, [key])
        if blocks.missing:
            show = lambda count: self.progress("searching a sample", count, len(target))  # noqa: E731
            blocks.write(0, language_offset(source, target, show)[None])
        offset = np.array(blocks.array[0])
        return offset, _key(key, offset.tobytes().hex())

    def compare_words(self, sides: Sequence[Collection], model: Any) -> None:
        """Prepare the comparison of words: by the lexicon if it has both languages, and by vectors.

        The settings decide whether either is done.
        """
        if self.settings.lexicon and self.look.margin == "regression":
            samples = [
                [side.text(number) for number in range(0, len(side), max(1, len(side) // SAMPLE))] for side in sides
            ]
            self.words = lexicon_match(bundled_lexicon(), self.settings.languages, samples)
        if self.look.kind == "words":
            self.word_match = WordMatch(model, self.words)

    def usual(self, sides: Sequence[Collection]) -> float | None:
        """Return the default threshold for the sizes of the collections."""
        source, target = sides
        return usual_threshold(self.look.margin, self.look.kind, len(source), len(target), self.words is not None)

    def filter(
        self,
        pairs: Candidates,
        sides: Sequence[Collection],
        known_pairs: Sequence[tuple[int, int]],
        limit: float | None,
    ) -> Candidates:
        """Select the promising pairs: a high enough margin, similar lengths, and no copies.

        ``known_pairs`` are the sentence numbers of the known pairs; ``limit`` is the threshold, None if unknown yet.
        """
        source, target = sides
        before = len(pairs.score)
        pairs = pairs._replace(length=length_deviations(pairs, source.lengths, target.lengths))
        if self.settings.length_ratio is not None:
            pairs = pairs.only(pairs.length <= np.log(self.settings.length_ratio))
        self.facts |= {"candidates": before, "unlike": before - len(pairs.score)}
        pairs = pairs.only(pairs.score >= np.float32(self._floor(pairs, sides, known_pairs, limit)))
        if self.look.kind == "reranker":
            pairs = contested(pairs, CONTEST)
        with self._timed("scoring"):
            distinct = self._without_copies(pairs, sides)
        self.facts |= {"promising": len(pairs.score), "copies": len(pairs.score) - len(distinct.score)}
        return distinct

    def _least_margin(self, sides: Sequence[Collection], limit: float | None) -> float:
        """Return the minimum margin of pairs to re-rank, which is higher for the re-ranker at a high threshold."""
        margin = self.look.margin
        if margin not in OURS:
            return FLOORS[margin]
        source, target = sides
        usual = usual_threshold("quarter", "none", len(source), len(target))
        assert usual is not None
        minimum = usual - DOUBT
        if self.look.kind != "reranker" or limit is None or self.settings.weight is not None:
            return minimum
        return max(minimum, LOOKED_AT + RISE * (limit - RERANKED))

    def _floor(
        self,
        pairs: Candidates,
        sides: Sequence[Collection],
        known_pairs: Sequence[tuple[int, int]],
        limit: float | None,
    ) -> float:
        """Return the margin below which pairs are dropped, at the cost of at most `LOST` of the known pairs."""
        minimum = self._least_margin(sides, limit)
        if self.look.scorer is None and self.look.margin != "regression" and limit is not None:
            minimum = limit
        if not known_pairs:
            return minimum
        mates = set(known_pairs)
        known_scores = pairs.score[np.fromiter((pair in mates for pair in pairs.numbers()), bool)]
        return min(minimum, float(np.quantile(known_scores, LOST))) if len(known_scores) else minimum

    def _without_copies(self, pairs: Candidates, sides: Sequence[Collection]) -> Candidates:
        """Drop near copies, if the settings say so."""
        if (most := self.settings.copies) is None:
            return pairs
        mask, total = np.ones(len(pairs.score), bool), len(pairs.score)
        for at, (source, target) in enumerate(pairs.numbers()):
            mask[at] = not is_copy(sides[0].text(source), sides[1].text(target), most)
            if not at % _PROGRESS_STEP:
                self.progress("filtering", at, total)
        return pairs.only(mask)

    def score(self, pairs: Candidates, sides: Sequence[Collection]) -> Candidates:
        """Score pairs by the regression, or by the margin plus the weighted scores of the re-ranking."""
        if self.look.margin == "regression":
            return pairs.with_scores(self._probabilities(pairs, sides))
        scorer = self.look.scorer
        if scorer is None:
            return pairs
        second_scores = self._second_scores(scorer, pairs, sides)
        return pairs.with_scores(pairs.score + np.float32(self.look.weight) * second_scores)

    def _probabilities(self, pairs: Candidates, sides: Sequence[Collection]) -> Floats:
        """Estimate the probability that each pair is correct, (pairs,); the words of promising pairs are compared."""
        match = None if self.words is None else self._lexicon_scores(self.words, pairs, sides)
        features = pair_features(pairs, match)
        values = probabilities(features, match is not None)
        if self.word_match is not None:
            rows = np.flatnonzero(values >= least_promising(*map(len, sides)))
            promising = pairs.only(rows)
            matches = match_features(promising, self._second_scores(self.word_match, promising, sides))
            values[rows] = probabilities(np.column_stack([features[rows], matches]), match is not None, True)
        return values

    def _second_scores(self, scorer: Scorer, pairs: Candidates, sides: Sequence[Collection]) -> Floats:
        """Score pairs by a scorer, (pairs,)."""
        order = np.lexsort((pairs.target, pairs.source))  # by source sentence, so that each is encoded once
        second_scores = np.empty(len(order), np.float32)
        show = partial(self.progress, "reranking")
        with self._timed("reranking"):
            second_scores[order] = scores(self.folder.path, scorer, pairs.only(order), sides, show)
        return second_scores

    def _lexicon_scores(self, words: LexiconMatch, pairs: Candidates, sides: Sequence[Collection]) -> Floats:
        """Score pairs by `LexiconMatch`: (pairs,)."""
        total, parts = len(pairs.score), [np.zeros(0, np.float32)]
        with self._timed("comparing words"):
            for at in range(0, total, SCORED):
                numbers = pairs.only(slice(at, at + SCORED)).numbers()
                parts.append(words.score([(sides[0].text(one), sides[1].text(other)) for one, other in numbers]))
                self.progress("comparing words", min(at + SCORED, total), total)
        return np.concatenate(parts)

    def choose(
        self,
        pairs: Candidates,
        sides: Sequence[Collection],
        known_pairs: Sequence[tuple[int, int]],
        limit: float | None,
    ) -> MiningResult:
        """Calibrate the threshold on the known pairs, if any, and choose the pairs that reach it, one to one.

        ``limit`` is the given or default threshold, None to take it from the calibration.
        """
        calibration: Calibration | None = None
        if known_pairs:
            calibration = calibrate(pairs.only(one_to_one(pairs, self.settings.pairing)), known_pairs)
            limit = calibration.threshold if limit is None else limit
        assert limit is not None
        visible = pairs.only((pairs.source < sides[0].hidden) & (pairs.target < sides[1].hidden))
        best_pairs = visible.only(one_to_one(visible, self.settings.pairing))
        best_pairs = best_pairs.only(best_pairs.score >= np.float32(limit))
        report = Report(
            source=sides[0].counts,
            target=sides[1].counts,
            pairs=len(best_pairs.score),
            threshold=limit,
            rerank=self.look.kind,
            calibration=calibration,
            lexicon=() if self.words is None else self.words.languages,
            seconds=self.seconds,
            **self.facts,
        )
        return MiningResult(self.folder, sides, best_pairs, report)


def _numbers(mates: Sequence[tuple[str, str]], sides: Sequence[Collection]) -> list[tuple[int, int]]:
    """Map known mates to the numbers of their sentences, -1 for a missing one."""
    if not mates:
        return []
    numbers_of = [side.find(set(texts)) for side, texts in zip(sides, zip(*mates, strict=True), strict=True)]
    return [(numbers_of[0].get(source, -1), numbers_of[1].get(target, -1)) for source, target in mates]


def _look(model: Any, settings: Mining, scorer: Scorer | None) -> _Look:
    """Resolve the margin "auto" and the re-ranking of the settings.

    Raises InputError for an encoder without token states (if the re-ranking needs them), ModelMismatch if the
    re-ranker belongs to another encoder.
    """
    kind = settings.rerank if scorer is None else "scorer"
    margin = settings.margin
    if margin == "auto":
        margin = "quarter" if kind in ("reranker", "scorer") else "regression"
    elif margin == "regression" and kind == "scorer":
        raise InputError("margin 'regression' and a scorer; its pairs cannot be re-ranked")
    if kind == "auto":
        kind = "words" if margin == "regression" and getattr(model, "head", None) is not None else "none"
    weight = WEIGHTS.get(kind, 0.0) if settings.weight is None else settings.weight
    if kind == "words" and getattr(model, "head", None) is None:
        raise InputError("rerank 'words' needs a phrasemate.Model with a trained head; use rerank 'none'")
    if kind == "reranker":
        if not hasattr(model, "runtime"):
            raise InputError("rerank 'reranker' needs a phrasemate.Model, for token states; use rerank 'none'")
        scorer = attention = Attention(model, load_reranker())
        weight /= attention.highest
    return _Look(kind, scorer, weight, margin)


def _check_threshold(settings: Mining, look: _Look) -> None:
    """Raise InputError if there is no default threshold for the margin, re-ranking and weight."""
    has_other_weight = settings.weight is not None and settings.weight != WEIGHTS.get(look.kind, settings.weight)
    if has_other_weight or usual_threshold(look.margin, look.kind, USUAL, USUAL) is None:
        with_weight = f", weight {settings.weight:g}" if has_other_weight else ""
        title = (
            "with a scorer" if look.kind == "scorer" else f"of the margin {look.margin!r} ({look.kind}{with_weight})"
        )
        raise InputError(f"scores {title} have no usual threshold; give one, or known pairs to calibrate with")


def _identity(
    documents: tuple[list[Document], list[Document]], model: SentenceEncoder, settings: Mining
) -> dict[str, str]:
    """Return the settings that must not change while a work folder is used: model, languages, check and texts."""
    facts = {"model": model.hash[:12], "languages": ",".join(settings.languages), "check": settings.check}
    for name, texts in zip(("source", "target"), documents, strict=True):
        digest = sha256("\n".join(f"{text.digest} {text.name}" for text in texts).encode("utf-8", "replace"))
        files = f"{len(texts)} document{'' if len(texts) == 1 else 's'}"
        facts[name] = f"{files} of checksum {digest.hexdigest()[:12]}"
    return facts

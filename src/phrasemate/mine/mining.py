"""Two collections -> sentence mates: read, encode, search both ways, choose."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from phrasemate.errors import InputError, ModelError, PhrasemateError
from phrasemate.mine.collection import Collection, collect, normal
from phrasemate.mine.language import checker
from phrasemate.mine.pipeline import encode, neighbours, scores
from phrasemate.mine.select import Calibration, Candidates, calibrate, candidates, is_copy, length_filter, one_to_one
from phrasemate.mine.types import (
    DOUBT,
    FLOORS,
    THRESHOLDS,
    WEIGHTS,
    Mate,
    Mining,
    Progress,
    Report,
    SentenceEncoder,
    usual_threshold,
)
from phrasemate.mine.word_match import WordMatch
from phrasemate.mine.work_folder import WorkFolder
from phrasemate.reranker import Attention, Trained, load_reranker
from phrasemate.types import Document, Run, Scorer
from phrasemate.utils.knn import engine_for, use_threads

_TELL = 1 << 14  # pairs between two calls of the progress
LOST = 0.02  # of known mates, that may be lost to a quick first look


class Mined:
    """The mates of a run, best first: iterate as often as needed. A context manager, for it holds the work folder.

    ``skipped``: what was passed over when the sides were read, be it in an earlier run.
    """

    def __init__(self, work: WorkFolder, sides: Sequence[Collection], pairs: Candidates, report: Report) -> None:
        self.work, self.report = work, report
        self.skipped = [item for side in sides for item in side.skipped]
        self._sides, self._pairs = sides, pairs

    def __len__(self) -> int:
        return len(self._pairs.score)

    def __iter__(self) -> Iterator[Mate]:
        source, target = self._sides
        for one, other, cosine, score in zip(*(column.tolist() for column in self._pairs), strict=True):
            yield Mate(source.text(one), target.text(other), score, cosine, source.places(one), target.places(other))

    def __enter__(self) -> Mined:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.work.close()


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
) -> Mined:
    """Find the sentences of two collections that are each other's translations.

    ``work``: the folder for what is computed on the way (None: a temporary one). A run that was stopped goes on in it,
    and other thresholds, filters, pairs to calibrate with and so on are tried in it without doing again what stays the
    same. It is refused for other texts, languages or another model, unless ``force`` starts anew. ``known`` mates are
    hidden among the sentences to fit the threshold, see `calibrate`. A ``scorer`` takes the place of
    ``settings.rerank``; it needs a threshold or known mates. ``threads`` are for the search (default: all).

    Raises ReadError for what cannot be read, InputError for what makes no sense, MissingExtra for a language check
    without its package.
    """
    settings = settings or Mining()
    mates = list(dict.fromkeys((normal(one), normal(other)) for one, other in known))
    look = _look(model, settings, scorer)
    if settings.threshold is None and not mates:
        _check_threshold(settings, look.kind)
    checks = [checker(language, settings.check) for language in settings.languages]
    documents = list(source), list(target)
    use_threads(threads)
    facts = _identity(documents, model, settings)
    folder = WorkFolder(mkdtemp(prefix="phrasemate-mine-") if work is None else work, facts, force, work is None)
    try:
        steps = _Steps(folder, settings, look, progress)
        hidden = [list(side) for side in zip(*mates, strict=True)] or [[], []]
        given = zip(("source", "target"), documents, hidden, checks, (source, target), strict=True)
        sides = [steps.read(*each) for each in given]
        numbers = _numbers(mates, sides)
        limit = settings.threshold
        if limit is None and not mates:
            limit = usual_threshold(settings.margin, look.kind, *map(len, sides))
        pairs = steps.filter(steps.search(sides, model), sides, numbers, limit)
        return steps.choose(steps.rerank(pairs, sides), sides, numbers, limit)
    except BaseException as error:
        fresh = not folder.resumed and not (folder.path / "source.vectors.bin").exists()
        if isinstance(error, PhrasemateError) and fresh:
            folder.remove()  # nothing is lost; and a mended text would be another one than it was begun with
        folder.close()
        raise


class _Look(NamedTuple):
    """How promising pairs are looked at again, one of `RERANK` or "scorer"; its scores count ``weight`` times."""

    kind: str
    scorer: Scorer | None
    weight: float


@dataclass(slots=True)
class _Steps:
    """The steps of a run, and what there is to report of them."""

    folder: WorkFolder
    settings: Mining
    look: _Look
    progress: Progress
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begun

    def read(
        self, side: str, documents: Sequence[Document], hidden: Sequence[str], check: Any, corpus: Iterable[Document]
    ) -> Collection:
        show = lambda done: self.progress(f"reading {side}", done, 0)  # noqa: E731
        with self._timed("reading"):
            return collect(self.folder.path, side, documents, hidden, check, show, corpus)

    def search(self, sides: Sequence[Collection], model: SentenceEncoder) -> Candidates:
        """All pairs of neighbours that are above the floor."""
        settings, path = self.settings, self.folder.path
        with self._timed("encoding"):
            source, target = (
                encode(path, name, side, model, lambda *done, name=name: self.progress(f"encoding {name}", *done))
                for name, side in zip(("source", "target"), sides, strict=True)
            )
        small, large = sorted(map(len, sides))  # each is the database of one direction: the smaller one decides
        engine = engine_for(settings.engine, large, small, model.width)
        runs: dict[str, Run] = {}
        with self._timed("searching"):
            for name, asked, database in (("forward", source, target), ("backward", target, source)):
                key = "\n".join([model.hash, *(side.key for side in sides)])
                tell = lambda what, *done, name=name: self.progress(f"{what} {name}", *done)  # noqa: E731
                runs[name], recall = neighbours(path, name, asked, database, settings.k, engine, key, tell)
                self.facts["recall"] = (*self.facts.get("recall", ()), recall)
        self.facts["engine"] = engine
        with self._timed("scoring"):
            return candidates(runs["forward"], runs["backward"], settings.margin, FLOORS[settings.margin])

    def filter(
        self,
        pairs: Candidates,
        sides: Sequence[Collection],
        known: Sequence[tuple[int, int]],
        limit: float | None,
    ) -> Candidates:
        """Promising pairs, without those of unlike length and copies."""
        source, target = sides
        before = len(pairs.score)
        if self.settings.length_ratio is not None:
            pairs = pairs.only(length_filter(pairs, source.lengths, target.lengths, self.settings.length_ratio))
        self.facts |= {"candidates": before, "unlike": before - len(pairs.score)}
        usual = usual_threshold(self.settings.margin, "", len(source), len(target))
        pairs = pairs.only(pairs.score >= np.float32(self._floor(pairs, known, limit, usual)))
        with self._timed("scoring"):
            different = self._no_copies(pairs, sides)
        self.facts |= {"promising": len(pairs.score), "copies": len(pairs.score) - len(different.score)}
        return different

    def _floor(
        self, pairs: Candidates, known: Sequence[tuple[int, int]], limit: float | None, usual: float | None
    ) -> float:
        """The margin below which no pair is taken; if they are looked at again, below which few would be."""
        margin, again = self.settings.margin, self.look.scorer is not None
        if known:
            mates, numbers = set(known), zip(pairs.source.tolist(), pairs.target.tolist(), strict=True)
            found = pairs.score[np.fromiter((pair in mates for pair in numbers), bool, len(pairs.score))]
            lowest = float(np.quantile(found, LOST if again else 0.0)) if len(found) else FLOORS[margin]
            return lowest if limit is None else min(lowest, self._floor(pairs, (), limit, usual))
        if not again and limit is not None:
            return limit
        return FLOORS[margin] if usual is None else usual - DOUBT

    def _no_copies(self, pairs: Candidates, sides: Sequence[Collection]) -> Candidates:
        if (most := self.settings.copies) is None:
            return pairs
        wanted, total = np.ones(len(pairs.score), bool), len(pairs.score)
        for at, (one, other) in enumerate(zip(pairs.source.tolist(), pairs.target.tolist(), strict=True)):
            wanted[at] = not is_copy(sides[0].text(one), sides[1].text(other), most)
            if not at % _TELL:
                self.progress("filtering", at, total)
        return pairs.only(wanted)

    def rerank(self, pairs: Candidates, sides: Sequence[Collection]) -> Candidates:
        """The scores of the second look beside the margins."""
        scorer = self.look.scorer
        if scorer is None:
            return pairs
        with self._timed("reranking"):
            found = scores(self.folder.path, scorer, pairs, sides, lambda *at: self.progress("reranking", *at))
        return pairs.added(np.float32(self.look.weight) * found)

    def choose(
        self,
        pairs: Candidates,
        sides: Sequence[Collection],
        known: Sequence[tuple[int, int]],
        limit: float | None,
    ) -> Mined:
        """One to one, at the threshold."""
        calibration: Calibration | None = None
        if known:
            calibration = calibrate(pairs.only(one_to_one(pairs, self.settings.pairing)), known)
            limit = calibration.threshold if limit is None else limit
        assert limit is not None
        own = pairs.only((pairs.source < sides[0].hidden) & (pairs.target < sides[1].hidden))
        chosen = own.only(one_to_one(own, self.settings.pairing))
        chosen = chosen.only(chosen.score >= np.float32(limit))
        report = Report(
            source=sides[0].counts,
            target=sides[1].counts,
            pairs=len(chosen.score),
            threshold=limit,
            rerank=self.look.kind,
            calibration=calibration,
            seconds=self.seconds,
            **self.facts,
        )
        return Mined(self.folder, sides, chosen, report)


def _numbers(mates: Sequence[tuple[str, str]], sides: Sequence[Collection]) -> list[tuple[int, int]]:
    """Known mates as numbers of their sentences, -1 for what is not there."""
    if not mates:
        return []
    found = [side.find(set(texts)) for side, texts in zip(sides, zip(*mates, strict=True), strict=True)]
    return [(found[0].get(one, -1), found[1].get(other, -1)) for one, other in mates]


def _look(model: Any, settings: Mining, scorer: Scorer | None) -> _Look:
    """What the settings name. Raises InputError for an encoder without words, ModelMismatch for a foreign one."""
    kind, trained = settings.rerank if scorer is None else "scorer", None
    if kind == "auto":
        trained = _own_reranker(model)
        kind = "reranker" if trained else "words" if hasattr(model, "runtime") else "none"
    weight = WEIGHTS.get(kind, 0.0) if settings.weight is None else settings.weight
    if kind in ("words", "reranker") and not hasattr(model, "runtime"):
        raise InputError(f"rerank {kind!r} needs a phrasemate.Model, for vectors of words; use rerank 'none'")
    if kind == "words":
        scorer = WordMatch(model)
    elif kind == "reranker":
        scorer = attention = Attention(model, trained or load_reranker())
        weight /= attention.highest
    return _Look(kind, scorer, weight)


def _own_reranker(model: Any) -> Trained | None:
    """The one that comes with the package, if it was trained on this model's states."""
    try:
        trained = load_reranker()
    except ModelError:
        return None
    return trained if hasattr(model, "runtime") and trained.encoder == model.hash else None


def _check_threshold(settings: Mining, look: str) -> None:
    """Raises InputError where there is no default."""
    other = settings.weight is not None and settings.weight != WEIGHTS.get(look, settings.weight)
    if other or (settings.margin, look.removeprefix("none")) not in THRESHOLDS:
        with_weight = f", weight {settings.weight:g}" if other else ""
        what = "with a scorer" if look == "scorer" else f"of the margin {settings.margin!r} ({look}{with_weight})"
        raise InputError(f"scores {what} have no usual threshold; give one, or known pairs to calibrate with")


def _identity(
    documents: tuple[list[Document], list[Document]], model: SentenceEncoder, settings: Mining
) -> dict[str, str]:
    """What must stay the same while a work folder is used."""
    facts = {"model": model.hash[:12], "languages": ",".join(settings.languages), "check": settings.check}
    for name, texts in zip(("source", "target"), documents, strict=True):
        digest = sha256("\n".join(f"{text.digest} {text.name}" for text in texts).encode("utf-8", "replace"))
        files = f"{len(texts)} document{'' if len(texts) == 1 else 's'}"
        facts[name] = f"{files} of checksum {digest.hexdigest()[:12]}"
    return facts

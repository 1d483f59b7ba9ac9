"""Evaluation of CCPR (Li et al. 2024): runs its parts on some models and collects tables, plots and a signature."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from phrasemate.encode import Model, load_model
from phrasemate.errors import InputError
from phrasemate.evaluate.data import EXPECTED, LANGS, check_folder, digest, links_of, parallel
from phrasemate.evaluate.metrics import check_seed
from phrasemate.evaluate.report import Result, make_folder, signature
from phrasemate.types import Progress

PARTS = ("phrases", "alignment", "segmenter", "polysemy")
BUNDLED = "bundled"
BASELINES = ("sentence", "mean", "ends")  # poolings of the bundled model that are measured if no row is given


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the CCPR evaluation.

    Args:
        data: Folder of the corpora.
        parts: Parts to run, some of `PARTS`.
        models: Rows of the table of phrases, each ``NAME=FOLDER[:POOLING]``.
        bundled: Whether the bundled model is a row too, the last one.
        muse: Whether the multilingual Universal Sentence Encoder is a row too.
        against: Row that all others are compared with; None for the last row.
        distractors: Least number of distractor spans.
        cs: Number of sentence pairs of the Czech gold alignment, which has 2,487.
        extra: Number of further sentence pairs that eflomal learns from.
        langs: Languages to measure.
        threads: Threads of the encoder; None for the default.
        seed: Seed of the resampling.
        out: Folder for results and plots; None to write nothing.
        polysemy: File of ambiguous phrases; None for the bundled one.
    """

    data: Path
    parts: tuple[str, ...] = PARTS
    models: tuple[str, ...] = ()
    bundled: bool = True
    muse: bool = False
    against: str | None = None
    distractors: int = 610_093
    cs: int = 500
    extra: int = 20_000
    langs: tuple[str, ...] = LANGS
    threads: int | None = None
    seed: int = 0
    out: Path | None = None
    polysemy: Path | None = None


class ModelRow(NamedTuple):
    """Row of the table of phrases: its name, its model's folder (None: the bundled model), its pooling."""

    name: str
    folder: Path | None
    pooling: str | None


class _LoadedModels(NamedTuple):
    """Models by folder, each loaded once, and the rows that use them."""

    models: dict[Path | None, Model]
    rows: list[ModelRow]

    def distinct(self) -> dict[str, Model]:
        """Return each model once, under the name of the last row that uses it."""
        last = {row.folder: row for row in self.rows}
        return {row.name: self.models[row.folder] for row in self.rows if last[row.folder] is row}


def parse_row(text: str) -> ModelRow:
    """Parse ``NAME=FOLDER[:POOLING]``; the folder may be ``bundled``. Raises InputError for any other text."""
    name, equals, rest = text.partition("=")
    folder, colon, pooling = (rest, "", "") if ":" not in rest or Path(rest).exists() else rest.rpartition(":")
    if not (name and equals and folder) or (colon and not pooling):
        raise InputError(f"--model {text}: expected NAME=FOLDER or NAME=FOLDER:POOLING, such as mean=bundled:mean")
    return ModelRow(name, None if folder == BUNDLED else Path(folder), pooling or None)


def run(settings: Settings, progress: Progress = lambda label, step, total: None) -> Result:
    """Run the parts of the evaluation.

    Raises InputError before anything is computed if the corpora are missing or not as expected.
    """
    settings = replace(settings, langs=tuple(dict.fromkeys(settings.langs)))
    distractors = _check(settings)
    make_folder(settings.out)
    models = _load(settings)
    result = Result()
    for part in settings.parts:
        _PARTS[part](settings, models, result, progress)
    facts: dict[str, Any] = {"data": _digest(settings)} | distractors
    facts |= {"parts": ",".join(settings.parts), "seed": settings.seed}
    result.signature = signature(models.distinct(), **facts, **result.signature)
    result.write(settings.out, "ccpr")
    return result


def _check(settings: Settings) -> dict[str, str]:
    """Read everything that the parts will read, so that errors show at once and not after hours.

    Returns the digest of the distractor sentences for the signature; empty if the parts use none. Raises InputError and
    ReadError.
    """
    from phrasemate.evaluate.phrases import chunks, read_set, rivals_of
    from phrasemate.evaluate.polysemy import BUNDLED_SET, read_polysemy

    parts = set(settings.parts)
    check_seed(settings.seed)
    if not settings.langs:
        raise InputError(f"no language was given; expected some of {', '.join(LANGS)}")
    check_folder(settings.data, settings.parts)
    if parts & {"alignment", "segmenter"}:
        for lang in settings.langs:
            links_of(settings.data, lang)
    if "alignment" in parts and settings.extra and find_spec("eflomal"):
        for lang in settings.langs:
            deque(parallel(settings.data, lang, settings.extra), maxlen=0)
    if "polysemy" in parts:
        read_polysemy(settings.polysemy or BUNDLED_SET)
    if parts & {"phrases", "segmenter"}:
        sets = [read_set(settings.data, lang) for lang in settings.langs]
        hasher = sha256()
        for chunk in chunks(rivals_of(settings.data, sets), settings.distractors):
            hasher.update("".join(f"{text}\n" for text in chunk.texts).encode())
        return {"distractors": hasher.hexdigest()[:12]} if settings.distractors else {}
    return {}


def _load(settings: Settings) -> _LoadedModels:
    rows = [parse_row(text) for text in settings.models]
    if not rows:
        rows = [ModelRow(pooling, None, pooling) for pooling in BASELINES]
        if not settings.bundled:
            raise InputError("no model was given; give --model, or omit --no-bundled")
    if settings.bundled:
        rows.append(ModelRow(BUNDLED, None, None))
    names = [row.name for row in rows] + ["MUSE"] * settings.muse
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"two rows are named {', '.join(twice)}; give each a name of its own")
    if settings.against is not None and settings.against not in names:
        raise InputError(f"--against {settings.against}: no such row; there are {', '.join(names)}")
    folders = dict.fromkeys(row.folder for row in rows)
    return _LoadedModels({folder: load_model(folder, settings.threads) for folder in folders}, rows)


def _phrases(settings: Settings, loaded: _LoadedModels, result: Result, progress: Progress) -> None:
    from phrasemate.evaluate.phrases import ModelSource, MuseSource, Source, evaluate_phrases, phrase_tables

    sources: list[Source] = [MuseSource()] if settings.muse else []
    for folder, model in loaded.models.items():
        poolings = {row.name: row.pooling or model.pooling for row in loaded.rows if row.folder == folder}
        sources.append(ModelSource(model, poolings))
    figures = evaluate_phrases(sources, settings.data, settings.distractors, settings.langs, progress)
    order = [*(["MUSE"] if settings.muse else []), *(row.name for row in loaded.rows)]
    figures.rankings.update({name: figures.rankings.pop(name) for name in order})
    result.tables += phrase_tables(figures, settings.against or order[-1], settings.seed)
    result.signature |= {"distractor_spans": figures.spans, "distractor_sentences": figures.sentences}
    result.more["ranks"] = {
        name: {lang: [r.higher.tolist(), r.tied.tolist()] for lang, r in ranking.items()}
        for name, ranking in figures.rankings.items()
    }


def _alignment(settings: Settings, loaded: _LoadedModels, result: Result, progress: Progress) -> None:
    from phrasemate.evaluate.alignment import evaluate_alignment

    table, remarks = evaluate_alignment(
        loaded.distinct(), settings.data, settings.langs, {"cs": settings.cs}, settings.extra, progress
    )
    result.tables.append(table)
    result.signature |= {"cs_pairs": settings.cs, "extra": settings.extra} | remarks


def _segmenter(settings: Settings, loaded: _LoadedModels, result: Result, progress: Progress) -> None:
    from phrasemate.evaluate.segmentation import evaluate_index_sizes, evaluate_segmenters

    models, most = loaded.distinct(), {"cs": settings.cs}
    tables, curves = evaluate_segmenters(models, settings.data, settings.langs, most, progress)
    name, last = list(models.items())[-1]
    table, points = evaluate_index_sizes(
        last, settings.data, settings.distractors, settings.langs, progress, settings.seed
    )
    result.tables += [*tables, table]
    result.more |= curves | {"segmenter_retrieval": points}
    result.signature |= {"cs_pairs": settings.cs, "index_model": name, "index_distractors": settings.distractors}


def _polysemy(settings: Settings, loaded: _LoadedModels, result: Result, progress: Progress) -> None:
    from phrasemate.evaluate.polysemy import BUNDLED_SET, polysemy_tables, read_polysemy

    progress("ambiguous phrases", 0, 1)
    result.tables += polysemy_tables(loaded.distinct(), read_polysemy(settings.polysemy or BUNDLED_SET), settings.seed)
    progress("ambiguous phrases", 1, 1)


def _digest(settings: Settings) -> str:
    """Return the digest of the test sets that the parts read, so that a figure names its data."""
    from phrasemate.evaluate.polysemy import BUNDLED_SET

    names = sorted({file.split("/")[0] for part in settings.parts for file in EXPECTED[part]} - {"parallel"})
    paths = [settings.data / name / f"{lang}-en.jsonl" for name in names for lang in settings.langs]
    more = [settings.polysemy or BUNDLED_SET] if "polysemy" in settings.parts else []
    return digest([*filter(Path.is_file, paths), *more])


_PARTS: dict[str, Callable[[Settings, _LoadedModels, Result, Progress], None]] = {
    "phrases": _phrases,
    "alignment": _alignment,
    "segmenter": _segmenter,
    "polysemy": _polysemy,
}

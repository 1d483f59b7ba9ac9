"""Evaluation of translations: BLEU, chrF, TER, BERTScore and COMET with intervals and paired tests, and use of hints.

A folder of runs has a folder for each direction (``de-en``). It holds ``reference.txt`` and a file for each system:
``.jsonl`` as `phrasemate mt` writes it, or ``.txt`` with a translation on each line.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode import load_model
from phrasemate.errors import InputError, ReadError
from phrasemate.evaluate.data import digest, languages, name_of
from phrasemate.evaluate.metrics import Estimate, stratified, stratified_test
from phrasemate.evaluate.report import Result, Table, signature
from phrasemate.lexicon import open_dictionaries
from phrasemate.mt.scores import (
    HINT_KINDS,
    METRICS,
    SAMPLES,
    SEED,
    Term,
    bert_scores,
    compare,
    corpus_statistics,
    hint_counts,
    kind_of_hint,
    metric,
    stems_of,
    terms_of,
    uses,
)
from phrasemate.text.text_file import numbered_lines
from phrasemate.types import Progress
from phrasemate.utils.machine import cache_folder

_SEGMENT = re.compile(r"\bsegment\s+\d", re.IGNORECASE)
SHOWN = 300  # characters of the command's error output that a message quotes


def comet_scores(
    command: str, sources: Sequence[str], outputs: Sequence[str], references: Sequence[str]
) -> list[float]:
    """Return the score of each sentence from ``command -s SRC -t OUTPUT -r REFERENCE``, for instance ``comet-score``.

    Raises InputError for a command that fails or whose output is not one score for each sentence.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"--comet {command}: {error}; expected a command as a shell takes it") from None
    if not words:
        raise InputError("--comet: no command; expected COMET's comet-score")
    with TemporaryDirectory() as folder:
        for flag, lines in (("-s", sources), ("-t", outputs), ("-r", references)):
            path = Path(folder) / f"{flag[1:]}.txt"
            path.write_text(
                "".join(f"{' '.join(line.split())}\n" for line in lines), encoding="utf-8", errors="replace"
            )
            words += [flag, str(path)]
        try:
            process = subprocess.run(words, capture_output=True, encoding="utf-8", errors="replace", check=True)
        except FileNotFoundError:
            raise InputError(
                f"{words[0]}: no such command; expected COMET's comet-score, e.g. --comet 'env/bin/...'"
            ) from None
        except OSError as error:
            raise InputError(f"{words[0]}: cannot be run ({error.strerror}); expected COMET's comet-score") from None
        except subprocess.CalledProcessError as error:
            message = " ".join((error.stderr or error.stdout or "").split())[-SHOWN:]
            raise InputError(f"{command}: failed with exit code {error.returncode} ({message})") from None
    return numbers(process.stdout.splitlines(), len(outputs), command)


def numbers(lines: Sequence[str], count: int, name: str) -> list[float]:
    """Read one score from each line, in order; it is the last word of the line.

    If there are lines such as ``out.txt  Segment 3  score: 0.81``, only these are read, and not the score of the system
    (``score:`` without ``Segment``). Raises InputError for a line without a finite number, or for another number of
    scores than ``count``. ``name`` names the input in messages.
    """
    full_lines = [line for line in lines if line.strip()]
    segments = [line for line in full_lines if _SEGMENT.search(line)]
    try:
        values = [float(line.split()[-1]) for line in segments or full_lines]
    except ValueError:
        raise InputError(f"{name}: a line does not end in a number; expected one score per line") from None
    wrong = next((value for value in values if not isfinite(value)), None)
    if wrong is not None:
        raise InputError(f"{name}: the score {wrong} is not finite; expected one score per line")
    if len(values) != count:
        raise InputError(f"{name}: {len(values)} scores of {count} translations; expected one score per translation")
    return values


REFERENCE = "reference.txt"
BASELINE = "plain"
COUNTED = ("phrases", "hinted", "equivalents", "in_reference", "in_output", "both")

Foreign = dict[str, dict[tuple[str, str], list[float]]]  # score -> (direction, system) -> a score for each sentence
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the evaluation of translations.

    Args:
        runs: Folder of runs, as the module describes it.
        against: System that the others are compared with; "" for "plain" if it exists, else the first.
        only: Systems to measure; empty for all.
        bertscore: Folder of the model for BERTScore, or "bundled"; None to leave BERTScore out.
        layer: Layer of that model; None for the last.
        scores: Files of scores from elsewhere, one score on each line, by SCORE:DIRECTION:SYSTEM.
        comet: Command of COMET, which is run for every system; "" to leave COMET out.
        terms: Term bases whose terms are looked for in the translations (`phrasemate.mt.scores`).
        samples: Number of resamples.
        out: Folder for results; None to write nothing.
    """

    runs: Path
    against: str = ""
    only: tuple[str, ...] = ()
    bertscore: Path | None = None
    layer: int | None = None
    scores: Mapping[str, Path] = field(default_factory=dict)
    comet: str = ""
    terms: tuple[Path, ...] = ()
    samples: int = SAMPLES
    out: Path | None = None


class Direction(NamedTuple):
    """References of one direction, and the records of each system: translations with further facts.

    ``paths`` are the files that were read.
    """

    name: str
    references: list[str]
    systems: dict[str, list[dict[str, Any]]]
    paths: tuple[Path, ...] = ()

    def outputs(self, system: str) -> list[str]:
        return [str(record["translation"]) for record in self.systems[system]]


def run(settings: Settings, progress: Progress = lambda what, step, total: None) -> Result:
    """Measure every system.

    Raises InputError before anything is computed if the files do not fit together.
    """
    directions = read_runs(settings.runs, settings.only)
    baseline = _baseline(directions, settings.against)
    foreign = _read_foreign(settings, directions)
    sources = _by_system(directions, _sources) if settings.comet else {}
    if settings.out is not None:
        settings.out.mkdir(parents=True, exist_ok=True)
    result = Result()
    for number, name in enumerate(METRICS):
        progress(name, number, len(METRICS))
        result.tables.append(_metric_table(name, directions, baseline, settings.samples))
    models = {}
    if settings.bertscore is not None:
        model = load_model(None if str(settings.bertscore) == "bundled" else settings.bertscore)
        models["BERTScore"] = model

        def f1(direction: Direction, system: str) -> list[float]:
            *_, values = bert_scores(model, direction.outputs(system), direction.references, settings.layer)
            return list(map(float, values))

        scores = _by_system(directions, f1)
        note = "F1 of token states, 0 to 1; no idf weights, no rescaling by a baseline"
        result.tables.append(_score_table("BERTScore", note, scores, directions, baseline, settings.samples))
    if settings.comet:

        def comet(direction: Direction, system: str) -> list[float]:
            lines = sources[direction.name, system]
            return comet_scores(settings.comet, lines, direction.outputs(system), direction.references)

        foreign["COMET"] = _by_system(directions, comet)
    for name, scores in foreign.items():
        note = "scores from elsewhere"
        result.tables.append(_score_table(name, note, scores, directions, baseline, settings.samples))
    if settings.terms:
        terms = _terms(settings, directions)
        result.tables.append(_term_table(terms, directions, baseline, settings))
        result.tables.append(_term_hint_table(terms, directions, baseline))
    result.tables += [_hint_table(directions), _line_table(directions)]
    files = [path for direction in directions for path in direction.paths]
    facts = {"runs": name_of(settings.runs), "data": digest(files)} | _provenance(settings)
    result.signature = signature(models, **facts, samples=settings.samples, seed=SEED, **_signatures(directions))
    result.write(settings.out, "mt")
    return result


# -- reading


def read_runs(folder: Path, only: Sequence[str] = ()) -> list[Direction]:
    """Read the directions of a folder, or the folder itself if it is one direction.

    Raises InputError if there are no translations, or none by a system of ``only``.
    """
    if (folder / REFERENCE).is_file():
        folders = [folder]
    elif folder.is_dir():
        folders = sorted(path.parent for path in folder.glob(f"*/{REFERENCE}"))
    else:
        raise InputError(f"{folder}: no such folder; expected one with a folder such as de-en for each direction")
    directions = [read_direction(path, only) for path in folders]
    directions = [direction for direction in directions if direction.systems]
    if not directions:
        raise InputError(f"{folder}: no translations; expected DIRECTION/{REFERENCE} and DIRECTION/SYSTEM.jsonl")
    systems = dict.fromkeys(system for direction in directions for system in direction.systems)
    missing = [name for name in only if name not in systems]
    if missing:
        raise InputError(f"{folder}: no system {', '.join(missing)}; there are {', '.join(systems)}")
    return directions


def read_direction(folder: Path, only: Sequence[str] = ()) -> Direction:
    """Read the references and systems of a folder.

    Raises InputError for files of different lengths, ReadError for an empty file of references.
    """
    references = _lines(folder / REFERENCE)
    if not references:
        raise ReadError(str(folder / REFERENCE), 0, "an empty file", "expected one translation per line")
    systems, paths = {}, [folder / REFERENCE]
    for path in sorted([*folder.glob("*.jsonl"), *folder.glob("*.txt")]):
        if path.name == REFERENCE or (only and path.stem not in only):
            continue
        records = _records(path)
        if len(records) != len(references):
            raise InputError(
                f"{path}: {len(records)} translations, but {folder / REFERENCE} has {len(references)} lines"
            )
        if path.stem in systems:
            raise InputError(f"{path}: there are two files of the system {path.stem}")
        systems[path.stem] = records
        paths.append(path)
    return Direction(name_of(folder), references, systems, tuple(paths))


def _records(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".txt":
        return [{"translation": line} for line in _lines(path)]
    records = []
    for number, line in enumerate(_lines(path), 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict) or not isinstance(record.get("translation"), str):
            raise InputError(f"{path}, line {number}: no object with a translation, as phrasemate mt writes it")
        record = {key: value for key, value in record.items() if value is not None}
        if not _has_valid_hints(record):
            raise InputError(f"{path}, line {number}: no lists of phrases and hints, as phrasemate mt writes it")
        records.append(record)
    return records


def _has_valid_hints(record: Mapping[str, Any]) -> bool:
    """Return whether phrases and hints, if present, are lists, and each hint has equivalents with a text."""
    phrases, hints = record.get("phrases", []), record.get("hints", [])
    if not isinstance(phrases, list) or not isinstance(hints, list):
        return False
    equivalents = [hint.get("equivalents") if isinstance(hint, dict) else None for hint in hints]
    return all(
        isinstance(equivalent, list)
        and all(isinstance(item, dict) and isinstance(item.get("text"), str) for item in equivalent)
        for equivalent in equivalents
    ) and all(isinstance(hint.get(side, 0), int) for hint in hints for side in ("start", "end"))


def _lines(path: Path) -> list[str]:
    """Return the lines of a file, divided at line feeds only. Raises ReadError."""
    return [line for _, line in numbered_lines(path)]


def _baseline(directions: Sequence[Direction], required: str) -> str:
    common_names = [name for name in directions[0].systems if all(name in item.systems for item in directions)]
    if not common_names:
        raise InputError("no system has translated all directions; choose one folder, or systems by --only")
    if required and required not in common_names:
        raise InputError(
            f"--against {required}: not a system of all directions; expected one of {', '.join(common_names)}"
        )
    return required or (BASELINE if BASELINE in common_names else common_names[0])


def _read_foreign(settings: Settings, directions: Sequence[Direction]) -> Foreign:
    """Read the scores from elsewhere. Raises InputError for an unknown system or a reserved name."""
    by_name = {item.name: item for item in directions}
    reserved_names = {*METRICS, "hints", "lines", "signature"}
    reserved_names |= {"BERTScore"} if settings.bertscore is not None else set()
    reserved_names |= {"COMET"} if settings.comet else set()
    reserved_names |= {"terms", "term hints"} if settings.terms else set()
    foreign: Foreign = {}
    for key, path in settings.scores.items():
        score, direction, system = [*key.split(":"), "", ""][:3]
        if key.count(":") != 2 or direction not in by_name or system not in by_name[direction].systems:
            raise InputError(f"--scores {key}={path}: expected SCORE:DIRECTION:SYSTEM of translations that are there")
        if not score or score in reserved_names:
            raise InputError(f"--scores {key}={path}: {score or 'none'} already exists; give the score another name")
        values = numbers(_lines(path), len(by_name[direction].references), str(path))
        foreign.setdefault(score, {})[direction, system] = values
    return foreign


def _provenance(settings: Settings) -> dict[str, str]:
    """Return what the scores depend on besides the translations: layer, files of scores, command, term bases."""
    facts = {} if settings.layer is None else {"layer": str(settings.layer)}
    if settings.scores:
        facts["scores"] = digest([path for _, path in sorted(settings.scores.items())])
    if settings.terms:
        facts["terms"] = digest(settings.terms)
    return facts | ({"comet": settings.comet} if settings.comet else {})


def _sources(direction: Direction, system: str) -> list[str]:
    """Return the source sentences of a system, which COMET needs. Raises InputError if one is missing."""
    sources = [record.get("source") for record in direction.systems[system]]
    if None in sources or not any(sources):
        line = sources.index(None) + 1 if None in sources else 1
        raise InputError(
            f"{direction.name}/{system}: no sources, which COMET needs, as of line {line}; they are in .jsonl files"
        )
    return list(map(str, sources))


def _by_system(directions: Sequence[Direction], measure: Callable[[Direction, str], T]) -> dict[tuple[str, str], T]:
    """Return what ``measure`` gives for each system of each direction."""
    return {(item.name, system): measure(item, system) for item in directions for system in item.systems}


def _terms(settings: Settings, directions: Sequence[Direction]) -> dict[str, list[Term]]:
    """Return the terms of each direction. Raises InputError for a direction without source sentences or terms."""
    cache: Path | None = None
    with suppress(InputError):  # there is no home folder
        cache = cache_folder() / "dictionaries"
    dictionaries = open_dictionaries(settings.terms, cache=cache)
    terms = {}
    for direction in directions:
        source, target = (side.replace("_", "-") for side in languages(direction.name))
        texts = dict.fromkeys(range(len(direction.references)), "")
        for records in direction.systems.values():
            texts = {
                at: text or str(record.get("source") or "")
                for (at, text), record in zip(texts.items(), records, strict=True)
            }
        if not all(texts.values()):
            raise InputError(f"{direction.name}: no sources, which --terms needs; they are in .jsonl files")
        terms[direction.name] = terms_of(list(texts.values()), direction.references, dictionaries, source, target)
        if not terms[direction.name]:
            raise InputError(f"{direction.name}: no term of {name_of(settings.terms[0])} in source and reference")
    return terms


def _uses(terms: Sequence[Term], direction: Direction, system: str) -> list[float]:
    """Return for each term 1 if the system's translation has one of its equivalents, else 0."""
    stems = [stems_of(text, _target(direction)) for text in direction.outputs(system)]
    return [float(uses(stems[term.line], term)) for term in terms]


def _term_table(
    terms: Mapping[str, Sequence[Term]], directions: Sequence[Direction], baseline: str, settings: Settings
) -> Table:
    """Return the table of the share of terms whose equivalent is used."""
    scores = _by_system(directions, lambda direction, system: _uses(terms[direction.name], direction, system))
    lines = {name: [term.line for term in term_list] for name, term_list in terms.items()}
    counts = ", ".join(f"{len(numbers)} in {name}" for name, numbers in lines.items())
    note = f"share of the terms in source and reference ({counts}) of which the translation has an equivalent"
    return _score_table("terms", note, scores, directions, baseline, settings.samples, lines)


def _term_hint_table(terms: Mapping[str, Sequence[Term]], directions: Sequence[Direction], baseline: str) -> Table:
    """Return the table of terms by kind of hint.

    It has their number, and how often the system and the baseline use the right wording.
    """
    rows: list[tuple[Any, ...]] = []
    for direction in directions:
        term_list, target = terms[direction.name], _target(direction)
        base = _uses(term_list, direction, baseline)
        for system, records in direction.systems.items():
            if not any(record.get("hints") for record in records):
                continue
            kinds = [kind_of_hint(term, records[term.line].get("hints", []), target) for term in term_list]
            used_terms = _uses(term_list, direction, system)
            for kind in HINT_KINDS:
                places = [place for place, term_kind in enumerate(kinds) if term_kind == kind]
                shares = [sum(flags[place] for place in places) / max(1, len(places)) for flags in (used_terms, base)]
                rows.append((direction.name, system, kind, len(places), *shares))
    header = ("direction", "system", "hint", "terms", "used", f"used by {baseline}")
    note = (
        "right: a hint for the term, or for words of it, has an equivalent that the reference uses; wrong: there are "
        "only other hints for it; none: there is no hint for it"
    )
    return Table("term hints", "Terms and their hints", header, tuple(rows), note)


# -- tables


def _metric_table(name: str, directions: Sequence[Direction], baseline: str, samples: int) -> Table:
    """Return the table of a metric: a row for each system, columns for each direction and for means of directions."""

    def counts(direction: Direction, system: str) -> NDArray[np.float64]:
        return corpus_statistics(metric(name, _target(direction)), direction.outputs(system), direction.references)

    statistics = _by_system(directions, counts)
    names = list(dict.fromkeys(system for direction in directions for system in direction.systems))
    cells: dict[str, list[Any]] = {system: [] for system in names}
    header = []
    for title, members in _groups(directions):
        header += [title, f"p {title}"]
        having = [system for system in names if all(system in member.systems for member in members)]
        corpora = {system: [statistics[member.name, system] for member in members] for system in having}
        comparisons = compare(name, corpora, baseline, _target(members[0]), samples)
        for system in names:
            comparison = comparisons.get(system)
            cells[system] += [Estimate(*comparison[:3]), comparison.p] if comparison else [None, None]
    rows = tuple((system, *cells[system]) for system in names)
    better = "lower is better" if name == "TER" else "higher is better"
    note = f"{better}; 95 % intervals; p against {baseline}, paired bootstrap, two-sided"
    return Table(name, name, ("system", *header), rows, note)


def _score_table(
    name: str,
    note: str,
    scores: Mapping[tuple[str, str], Sequence[float]],
    directions: Sequence[Direction],
    baseline: str,
    samples: int,
    lines: Mapping[str, Sequence[int]] | None = None,
) -> Table:
    """Return the table of a metric that scores each sentence separately.

    ``lines`` has the sentence of each score of a direction, if a sentence may have several scores; these are resampled
    together.
    """
    names = list(dict.fromkeys(system for _, system in scores))
    groups = {
        title: members
        for title, members in _groups(directions)
        if len(members) > 1 or any((members[0].name, system) in scores for system in names)
    }

    def cells(system: str, members: Sequence[Direction]) -> list[Any]:
        keys = [(member.name, system) for member in members]
        if not all(key in scores for key in keys):
            return [None, None]
        owners = None if lines is None else [lines[member.name] for member in members]
        estimate = stratified([scores[key] for key in keys], owners, samples, SEED)
        bases = [(member.name, baseline) for member in members]
        if system == baseline or not all(base in scores for base in bases):
            return [estimate, None]
        score_pairs = [(scores[key], scores[base]) for key, base in zip(keys, bases, strict=True)]
        return [estimate, stratified_test(score_pairs, owners, samples, SEED)]

    rows = tuple((system, *(cell for item in groups.values() for cell in cells(system, item))) for system in names)
    header = [column for title in groups for column in (title, f"p {title}")]
    return Table(name, name, ("system", *header), rows, f"{note}; p against {baseline}, paired bootstrap")


def _hint_table(directions: Sequence[Direction]) -> Table:
    """Return the table of how many hints are right and how many were followed."""
    rows: list[tuple[Any, ...]] = []
    for direction in directions:
        for system, records in direction.systems.items():
            if not any(record.get("hints") for record in records):
                continue
            counts = hint_counts(records, direction.references)
            shares = [counts[name] / max(1, counts["hinted"]) for name in ("in_reference", "in_output")]
            follow_rate = counts["both"] / max(1, counts["in_reference"])
            rows.append((direction.name, system, *(counts[name] for name in COUNTED), *shares, follow_rate))
    header = ("direction", "system", "phrases", "with hints", "equivalents", "in reference", "in output", "both")
    note = (
        "phrases: of the segmenter; with hints: phrases that got hints; equivalents: those of the hints; in reference, "
        "in output, both: phrases with hints whose equivalent occurs in the reference, in the output, the same one in "
        "both; right, followed: in reference and in output as shares of the phrases with hints; right followed: both "
        "as a share of in reference"
    )
    return Table("hints", "Hints", (*header, "right", "followed", "right followed"), tuple(rows), note)


def _line_table(directions: Sequence[Direction]) -> Table:
    """Return the table of the numbers of sentences, failures, empty translations and answers that were cut."""
    rows = [
        (
            direction.name,
            system,
            len(records),
            sum(bool(record.get("failure")) for record in records),
            sum(not record["translation"] for record in records),
            sum(bool(record.get("cut")) for record in records),
        )
        for direction in directions
        for system, records in direction.systems.items()
    ]
    note = "failed: no answer, or an answer without a translation; such a line counts as an empty translation"
    return Table("lines", "Lines", ("direction", "system", "lines", "failed", "empty", "cut"), tuple(rows), note)


def _groups(directions: Sequence[Direction]) -> list[tuple[str, list[Direction]]]:
    """Return each direction alone, then the directions with the same target language together if there are several."""
    groups = [(direction.name, [direction]) for direction in directions]
    for target in dict.fromkeys(map(_target, directions)):
        members = [direction for direction in directions if _target(direction) == target]
        if target and len(members) > 1:
            groups.append((f"mean X-{target}", members))
    return groups


def _target(direction: Direction) -> str:
    return languages(direction.name)[1].replace("_", "-")


def _signatures(directions: Sequence[Direction]) -> dict[str, str]:
    """Return sacrebleu's signature of each metric, for one reference."""
    signatures: dict[str, dict[str, None]] = {name: {} for name in METRICS}
    for name in METRICS:
        for target in dict.fromkeys(map(_target, directions)):
            measure = metric(name, target)
            measure.corpus_score(["a"], [["a"]])
            signatures[name][str(measure.get_signature())] = None
    return {name: " and ".join(texts) for name, texts in signatures.items()}

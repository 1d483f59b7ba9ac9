"""Translations of several systems: BLEU, chrF, TER and BERTScore with intervals and paired tests, and hint statistics.

A folder of runs has a folder for each direction (``de-en``), in it ``reference.txt`` and a file for each system:
``.jsonl`` as `phrasemate mt` writes it, or ``.txt`` with a translation on each line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from phrasemate.encode import load_model
from phrasemate.errors import InputError, ReadError
from phrasemate.evaluate.data import digest, languages, name_of
from phrasemate.evaluate.mt_comet import comet_scores, numbers
from phrasemate.evaluate.report import Result, Table, signature, write_json
from phrasemate.evaluate.significance import Estimate, stratified, stratified_test
from phrasemate.mt.scores import METRICS, SAMPLES, SEED, bert_scores, compare, corpus_statistics, hint_counts, metric
from phrasemate.text.text_file import numbered_lines

REFERENCE = "reference.txt"
BASELINE = "plain"
COUNTED = ("phrases", "hinted", "equivalents", "in_reference", "in_output", "both")

Progress = Callable[[str, int, int], None]
Foreign = dict[str, dict[tuple[str, str], list[float]]]  # score -> (direction, system) -> a score for each sentence
Sources = dict[tuple[str, str], list[str]]  # (direction, system) -> source sentences


@dataclass(frozen=True, slots=True)
class Settings:
    """What to measure; ``runs`` as in the module's text. ``against``: the baseline (default: plain, else the first).

    ``bertscore``: a model folder, or "bundled". ``scores``: files of scores that were made elsewhere, one a line, by
    SCORE:DIRECTION:SYSTEM. ``comet``: the command of COMET, which is run for every system.
    """

    runs: Path
    against: str = ""
    only: tuple[str, ...] = ()
    bertscore: Path | None = None
    layer: int | None = None
    scores: Mapping[str, Path] = field(default_factory=dict)
    comet: str = ""
    samples: int = SAMPLES
    out: Path | None = None


class Direction(NamedTuple):
    """The references of one direction and, of each system, its translations and what else it wrote down.

    ``paths``: the files that were read.
    """

    name: str
    references: list[str]
    systems: dict[str, list[dict[str, Any]]]
    paths: tuple[Path, ...] = ()

    def outputs(self, system: str) -> list[str]:
        return [str(record["translation"]) for record in self.systems[system]]


def run(settings: Settings, progress: Progress = lambda what, done, total: None) -> Result:
    """Measure every system. Raises InputError, before anything is computed, for files that do not fit each other."""
    directions = read_runs(settings.runs, settings.only)
    baseline = _baseline(directions, settings.against)
    foreign, sources = _foreign(settings, directions), _sources(settings, directions)
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
        scores = {
            (each.name, system): bert_scores(model, each.outputs(system), each.references, settings.layer)[2].tolist()
            for each in directions
            for system in each.systems
        }
        note = "F1 of token states, 0 to 1; no idf weights, no rescaling by a baseline"
        result.tables.append(_score_table("BERTScore", note, scores, directions, baseline, settings.samples))
    if settings.comet:
        foreign["COMET"] = _comet(settings.comet, sources, directions)
    for name, scores in foreign.items():
        note = "scores that were made elsewhere"
        result.tables.append(_score_table(name, note, scores, directions, baseline, settings.samples))
    result.tables += [_hint_table(directions), _line_table(directions)]
    facts = {"runs": name_of(settings.runs), "data": digest([path for each in directions for path in each.paths])}
    facts |= _made_by(settings)
    result.signature = signature(models, **facts, samples=settings.samples, seed=SEED, **_signatures(directions))
    if settings.out is not None:
        path = settings.out / "mt.json"
        write_json(path, result.tables, result.signature, {})
        result.written = [path]
    return result


# -- reading


def read_runs(folder: Path, only: Sequence[str] = ()) -> list[Direction]:
    """The directions of a folder, or the folder itself as one. Raises InputError."""
    if (folder / REFERENCE).is_file():
        found = [folder]
    elif folder.is_dir():
        found = sorted(path.parent for path in folder.glob(f"*/{REFERENCE}"))
    else:
        raise InputError(f"{folder}: no such folder; expected one with a folder such as de-en for each direction")
    directions = [read_direction(path, only) for path in found]
    directions = [each for each in directions if each.systems]
    if not directions:
        raise InputError(f"{folder}: no translations; expected DIRECTION/{REFERENCE} and DIRECTION/SYSTEM.jsonl")
    there = dict.fromkeys(system for each in directions for system in each.systems)
    missing = [name for name in only if name not in there]
    if missing:
        raise InputError(f"{folder}: no system {', '.join(missing)}; there are {', '.join(there)}")
    return directions


def read_direction(folder: Path, only: Sequence[str] = ()) -> Direction:
    """The references and systems of a folder.

    Raises InputError for files of different lengths, ReadError for a line that is not as expected.
    """
    references = _lines(folder / REFERENCE)
    if not references:
        raise ReadError(str(folder / REFERENCE), 0, "an empty file", "expected a translation a line")
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
        if not _hinted(record):
            raise InputError(f"{path}, line {number}: no lists of phrases and hints, as phrasemate mt writes it")
        records.append(record)
    return records


def _hinted(record: Mapping[str, Any]) -> bool:
    """Whether phrases and hints, if there are any, are lists, and each hint has equivalents with a text."""
    phrases, hints = record.get("phrases", []), record.get("hints", [])
    if not isinstance(phrases, list) or not isinstance(hints, list):
        return False
    equivalents = [hint.get("equivalents") if isinstance(hint, dict) else None for hint in hints]
    return all(
        isinstance(each, list) and all(isinstance(one, dict) and isinstance(one.get("text"), str) for one in each)
        for each in equivalents
    )


def _lines(path: Path) -> list[str]:
    """Without what would add lines in the middle of one (form feeds, separators). Raises ReadError."""
    return [line for _, line in numbered_lines(path)]


def _baseline(directions: Sequence[Direction], wanted: str) -> str:
    shared = [name for name in directions[0].systems if all(name in each.systems for each in directions)]
    if not shared:
        raise InputError("no system has translated all directions; choose one folder, or systems by --only")
    if wanted and wanted not in shared:
        raise InputError(f"--against {wanted}: not a system of all directions; expected one of {', '.join(shared)}")
    return wanted or (BASELINE if BASELINE in shared else shared[0])


def _foreign(settings: Settings, directions: Sequence[Direction]) -> Foreign:
    """Scores that were made elsewhere."""
    known = {each.name: each for each in directions}
    taken = {*METRICS, "hints", "lines", "signature"}
    taken |= {"BERTScore"} if settings.bertscore is not None else set()
    taken |= {"COMET"} if settings.comet else set()
    found: Foreign = {}
    for key, path in settings.scores.items():
        score, direction, system = [*key.split(":"), "", ""][:3]
        if key.count(":") != 2 or direction not in known or system not in known[direction].systems:
            raise InputError(f"--scores {key}={path}: expected SCORE:DIRECTION:SYSTEM of translations that are there")
        if not score or score in taken:
            raise InputError(
                f"--scores {key}={path}: there is {score or 'none'} already; give the score a name of its own"
            )
        values = numbers(_lines(path), len(known[direction].references), str(path))
        found.setdefault(score, {})[direction, system] = values
    return found


def _made_by(settings: Settings) -> dict[str, str]:
    """What scores depend on beside the translations: a layer, files of scores, a command."""
    found = {} if settings.layer is None else {"layer": str(settings.layer)}
    if settings.scores:
        found["scores"] = digest([path for _, path in sorted(settings.scores.items())])
    return found | ({"comet": settings.comet} if settings.comet else {})


def _sources(settings: Settings, directions: Sequence[Direction]) -> Sources:
    """The sentences that COMET needs beside translations and references."""
    found: Sources = {}
    for each in directions:
        for system, records in each.systems.items() if settings.comet else ():
            sources = [record.get("source") for record in records]
            if None in sources or not any(sources):
                line = sources.index(None) + 1 if None in sources else 1
                raise InputError(
                    f"{each.name}/{system}: no sources, which COMET needs, as of line {line}; they are in .jsonl files"
                )
            found[each.name, system] = list(map(str, sources))
    return found


def _comet(command: str, sources: Sources, directions: Sequence[Direction]) -> dict[tuple[str, str], list[float]]:
    known = {each.name: each for each in directions}
    return {
        (direction, system): comet_scores(command, asked, known[direction].outputs(system), known[direction].references)
        for (direction, system), asked in sources.items()
    }


# -- tables


def _metric_table(name: str, directions: Sequence[Direction], baseline: str, samples: int) -> Table:
    """A row for each system, a column for each direction, then the mean of the directions into one language."""
    groups = _groups(directions)
    statistics = {
        (each.name, system): corpus_statistics(metric(name, _target(each)), each.outputs(system), each.references)
        for each in directions
        for system in each.systems
    }
    names = list(dict.fromkeys(system for each in directions for system in each.systems))
    cells: dict[str, list[Any]] = {system: [] for system in names}
    header = []
    for title, members in groups:
        header += [title, f"p {title}"]
        having = [system for system in names if all(system in each.systems for each in members)]
        corpora = {system: [statistics[each.name, system] for each in members] for system in having}
        compared = compare(name, corpora, baseline, _target(members[0]), samples)
        for system in names:
            one = compared.get(system)
            cells[system] += [Estimate(one.score, one.low, one.high) if one else None, one.p if one else None]
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
) -> Table:
    """The same of scores that each sentence has by itself."""
    names = list(dict.fromkeys(system for _, system in scores))
    rows: list[tuple[Any, ...]] = []
    header: list[str] = []
    for title, members in _groups(directions):
        if len(members) > 1 or any((members[0].name, system) in scores for system in names):
            header += [title, f"p {title}"]
    for system in names:
        row: list[Any] = [system]
        for title, members in _groups(directions):
            if title not in header:
                continue
            keys = [(each.name, system) for each in members]
            if not all(key in scores for key in keys):
                row += [None, None]
                continue
            row += [stratified([scores[key] for key in keys], samples=samples, seed=SEED)]
            bases = [(each.name, baseline) for each in members]
            if system == baseline or not all(base in scores for base in bases):
                row += [None]
            else:
                both = [(scores[key], scores[base]) for key, base in zip(keys, bases, strict=True)]
                row += [stratified_test(both, samples=samples, seed=SEED)]
        rows.append(tuple(row))
    return Table(name, name, ("system", *header), tuple(rows), f"{note}; p against {baseline}, paired bootstrap")


def _hint_table(directions: Sequence[Direction]) -> Table:
    """What became of the hints."""
    rows: list[tuple[Any, ...]] = []
    for each in directions:
        for system, records in each.systems.items():
            if not any(record.get("hints") for record in records):
                continue
            counts = hint_counts(records, each.references)._asdict()
            shares = [counts[name] / max(1, counts["hinted"]) for name in ("in_reference", "in_output")]
            followed = counts["both"] / max(1, counts["in_reference"])
            rows.append((each.name, system, *(counts[name] for name in COUNTED), *shares, followed))
    header = ("direction", "system", "phrases", "with hints", "equivalents", "in reference", "in output", "both")
    note = (
        "phrases that the segmenter found; those that got hints; their equivalents; hinted phrases of which an "
        "equivalent occurs in the reference, in the output, the same one in both; the last three are shares: of the "
        "hinted phrases the first two, right hints that were followed the third"
    )
    return Table("hints", "Hints", (*header, "right", "followed", "right followed"), tuple(rows), note)


def _line_table(directions: Sequence[Direction]) -> Table:
    """Sentences, failures, answers that were cut."""
    rows = [
        (
            each.name,
            system,
            len(records),
            sum(bool(record.get("failure")) for record in records),
            sum(not record["translation"] for record in records),
            sum(bool(record.get("cut")) for record in records),
        )
        for each in directions
        for system, records in each.systems.items()
    ]
    note = "failed: no answer, or none that holds a translation; these lines are empty and count as such"
    return Table("lines", "Lines", ("direction", "system", "lines", "failed", "empty", "cut"), tuple(rows), note)


def _groups(directions: Sequence[Direction]) -> list[tuple[str, list[Direction]]]:
    """Each direction by itself, then those into one language together, where there are several."""
    groups = [(each.name, [each]) for each in directions]
    for target in dict.fromkeys(map(_target, directions)):
        members = [each for each in directions if _target(each) == target]
        if target and len(members) > 1:
            groups.append((f"mean X-{target}", members))
    return groups


def _target(direction: Direction) -> str:
    return languages(direction.name)[1].replace("_", "-")


def _signatures(directions: Sequence[Direction]) -> dict[str, str]:
    """What sacrebleu says of its metrics, for one reference."""
    found: dict[str, str] = {}
    for name in METRICS:
        for target in dict.fromkeys(map(_target, directions)):
            measure = metric(name, target)
            measure.corpus_score(["a"], [["a"]])
            found.setdefault(str(measure.get_signature()), name)
    grouped: dict[str, list[str]] = {}
    for text, name in found.items():
        grouped.setdefault(name, []).append(text)
    return {name: " and ".join(texts) for name, texts in grouped.items()}

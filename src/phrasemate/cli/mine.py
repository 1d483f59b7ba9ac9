"""``phrasemate mine``: find translated sentence pairs in two collections that are not aligned."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from phrasemate.cli import options
from phrasemate.cli.options import argument, flag, option
from phrasemate.cli.progress import RESUMABLE, stages
from phrasemate.cli.shell import count
from phrasemate.errors import InputError

if TYPE_CHECKING:
    from phrasemate.mine import Counts, MiningResult, Report
    from phrasemate.text import SkippedInput


Check = Literal["none", "script", "language"]
Pairing = Literal["greedy", "mutual", "all"]
Margin = Literal["auto", "regression", "quarter", "ratio", "distance", "csls", "absolute"]
Rerank = Literal["auto", "none", "words", "reranker"]
Engine = Literal["auto", "exact", "approximate"]


def _lang(side: str) -> Any:
    """Declare the option for the language of a side, "source" or "target"."""
    return option(f"--{side}-lang", "LANG", f"Language of the {side} text, e.g. {'de' if side == 'source' else 'en'}.")


def _column(side: str) -> Any:
    """Declare the option for the column of a side, "source" or "target"."""
    return option(f"--{side}-column", "NAME|N", "Column of a .tsv file: name, or number from 1.")


Source = Annotated[str, argument("SRC", "A file in any supported format, or a folder.")]
Target = Annotated[str, argument("TGT", "The same in the other language.")]
Out = Annotated[Path, option("--out", "-o", "FILE", "The pairs, as .tsv, .jsonl or .tmx.")]
SourceLang = Annotated[str, _lang("source")]
TargetLang = Annotated[str, _lang("target")]
CheckOption = Annotated[
    Check,
    option("--check", "none|script|language", "Drop sentences in another script or language (needs [identify])."),
]
Calibrate = Annotated[
    Path | None, option("--calibrate", "FILE", "Known translations (source, tab, target) to fit the threshold to.")
]
MinScore = Annotated[
    float | None,
    option(
        "--min-score",
        "X",
        "Minimum score of a pair (default: depends on the amount of text).",
    ),
]
Pairs = Annotated[
    Pairing,
    option(
        "--pairs",
        "greedy|mutual|all",
        "Use no sentence twice (greedy), keep only mutual best pairs, or keep all.",
    ),
]
MarginOption = Annotated[
    Margin,
    option(
        "--margin",
        "NAME",
        "How a pair is scored: regression, or a margin: quarter, ratio, distance, csls or absolute. auto: "
        "regression; with --rerank reranker, quarter.",
    ),
]
RerankOption = Annotated[
    Rerank,
    option(
        "--rerank",
        "auto|none|words|reranker",
        "Score promising pairs again: by their words (auto, if the model can), by cross-attention, or not.",
    ),
]
LexiconOption = Annotated[
    bool, flag("--lexicon/--no-lexicon", "Compare words by the bundled lexicon if it has both languages.")
]
Neighbours = Annotated[int, option("--neighbours", "-k", "N", "Number of nearest neighbours in each direction.", min=1)]
LengthRatio = Annotated[
    float,
    option("--length-ratio", "X", "Drop pairs whose lengths differ by more than this factor (0: keep all).", min=0),
]
Copies = Annotated[
    float,
    option("--copies", "X", "Drop near copies: pairs more similar in letters than X (1: keep all).", min=0, max=1),
]
EngineOption = Annotated[Engine, option("--engine", "auto|exact|approximate", "How neighbours are searched.")]
SourceColumn = Annotated[str | None, _column("source")]
TargetColumn = Annotated[str | None, _column("target")]
Work = Annotated[
    Path | None, option("--work", "DIR", "Keep vectors and neighbours here (default: delete them at the end).")
]
Force = Annotated[bool, flag("--force", "Overwrite FILE; start again if --work belongs to other texts or settings.")]


def mine(
    source: Source,
    target: Target,
    out: Out,
    source_lang: SourceLang = "",
    target_lang: TargetLang = "",
    check: CheckOption = "script",
    calibrate: Calibrate = None,
    threshold: MinScore = None,
    pairing: Pairs = "greedy",
    margin: MarginOption = "auto",
    rerank: RerankOption = "auto",
    lexicon: LexiconOption = True,
    k: Neighbours = 4,
    length_ratio: LengthRatio = 2.5,
    copies: Copies = 0.75,
    engine: EngineOption = "auto",
    lines: options.SplitLines = "paragraph",
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    text_field: options.TextField = "text",
    on_error: options.OrList = "raise",
    encoding: options.Encoding = "utf-8",
    work: Work = None,
    model: options.Model = None,
    threads: options.Threads = None,
    force: Force = False,
    as_json: options.JsonAtEnd = False,
) -> None:
    """Find the sentences of two collections that are translations of each other.

    The collections need not be aligned or of the same size. Each sentence is compared with all sentences of the other
    side. A pair scores high if its sentences are nearer to each other than to all others, and if their words translate
    each other. A repeated sentence is compared once and reported with all its places.

    The columns of a .tsv file are source, target, score, places of the source, places of the target (document:line,
    separated by " | "). Vectors and neighbours are kept in FILE.work until the pairs are written, or permanently in
    --work. A later run with --work and other thresholds or filters takes seconds.

    Examples:
      phrasemate mine german.txt english.txt -o pairs.tsv --source-lang de --target-lang en
      phrasemate mine german/ english/ -o memory.tmx --source-lang de --target-lang en --calibrate known.tsv
      phrasemate mine a.txt.gz b.txt.gz -o pairs.jsonl --lines sentence --min-score 0.95 --work mining
      phrasemate align pairs.tsv -o links.txt              links the words of these pairs

    To resume a stopped run, give the same command again.
    """
    from phrasemate.encode import load_model
    from phrasemate.mine import Mining, write_mates
    from phrasemate.mine import mine as run
    from phrasemate.mine.mining import remarks_of

    folder = work or Path(f"{out}.work")
    _check_score(threshold, calibrate)
    _check_files(source, target, out, folder, calibrate, force)
    _check_languages(out, source_lang, target_lang)
    settings = Mining(
        k=k,
        margin=margin,
        threshold=threshold,
        pairing=pairing,
        length_ratio=length_ratio or None,
        copies=None if copies == 1 else copies,
        languages=(source_lang, target_lang),
        check=check,
        engine=engine,
        rerank=rerank,
        lexicon=lexicon,
    )
    texts = [
        options.read_texts([path], column, text_field, lines, on_error, encoding, lang)
        for path, column, lang in ((source, source_column, source_lang), (target, target_column, target_lang))
    ]
    known_pairs = [] if calibrate is None else _known_pairs(calibrate, source_lang, target_lang)
    encoder = load_model(model, threads=threads)
    for remark in () if as_json else remarks_of(encoder, settings, known_pairs):
        typer.echo(f"warning: {remark} (--calibrate, --min-score)", err=True)
    with (
        options.sided("source", "target"),
        stages(lambda: f"{folder} {RESUMABLE}") as show,
        run(
            texts[0], texts[1], encoder, folder, settings, known_pairs, threads=threads, force=force, progress=show
        ) as result,
    ):
        write_mates(out, result, settings.languages)
        if work is None:
            result.work.remove()
        _say(out, result, [*result.skipped, *(item for text in texts for item in text.skipped)], as_json)


def _check_score(threshold: float | None, calibrate: Path | None) -> None:
    """Raise BadParameter unless ``--min-score`` is a finite number or absent, and not given with ``--calibrate``."""
    if calibrate is not None and threshold is not None:
        raise typer.BadParameter("--min-score and --calibrate: give one of them")
    if threshold is not None and not math.isfinite(threshold):
        raise typer.BadParameter(f"--min-score {threshold}: expected a number")


def _check_files(source: str, target: str, out: Path, folder: Path, calibrate: Path | None, force: bool) -> None:
    """Raise InputError if the output or the work folder cannot be written, or would be read as input."""
    from phrasemate.mine.mining import check_output

    options.check_apart(out, source, target, *([calibrate] if calibrate else []))
    check_output(out, force)
    options.check_outside(source, target, out, folder)


def _known_pairs(path: Path, source_lang: str, target_lang: str) -> list[tuple[str, str]]:
    """Read the known translations of ``--calibrate``. Raises InputError if they are too few."""
    from phrasemate.mine.select import check_known

    pairs = list(options.pairs_of(path, source_lang, target_lang, "--source-lang and --target-lang"))
    check_known(len(pairs))
    return pairs


def _check_languages(out: Path, source: str, target: str) -> None:
    """Raise InputError if a translation memory (.tmx) is to be written and a language is missing."""
    if out.suffix.lower() == ".tmx" and not (source and target):
        name = "target" if source else "source"
        raise InputError(f"{out}: a translation memory needs the {name} language; give --{name}-lang")


def _say(out: Path, mined: MiningResult, passed_over: Sequence[SkippedInput], as_json: bool) -> None:
    """Print the report of a run; ``passed_over``: skipped inputs of this run and of the one that started the work."""
    report, skipped_lines = mined.report, list(dict.fromkeys(passed_over))
    summary = f"{out}: {count(report.pairs, 'pair')} with a score of {report.threshold:.4f} or more"
    facts = {"out": str(out), **asdict(report), "remarks": mined.remarks}
    options.print_report(facts, skipped_lines, "\n  ".join([summary, *_details(report)]), as_json)


def _details(report: Report) -> Iterator[str]:
    """Yield the lines of the report after the first."""
    yield f"source: {_counts(report.source)}"
    yield f"target: {_counts(report.target)}"
    how = f"{report.engine} search, recall {min(report.recall):.3f}; {report.unlike:,} dropped for their lengths"
    yield f"{report.candidates:,} candidates ({how}), {report.promising:,} promising ({report.copies:,} copies dropped)"
    if report.lexicon:
        yield f"words compared by the lexicon: {' and '.join(report.lexicon)}"
    if fit := report.calibration:
        yield (
            f"calibrated: {fit.found:,} of {fit.known:,} known pairs found, about {fit.mates:,} other mates "
            f"in all; expected precision {fit.precision:.3f}, recall {fit.recall:.3f}, F1 {fit.f1:.3f}"
        )
    yield ", ".join(f"{name} {seconds:.1f} s" for name, seconds in report.seconds.items())


def _counts(counts: Counts) -> str:
    """Describe the counts of one side in a line."""
    exclusions = f"{counts.foreign:,} of another script or language or without letters, {counts.long:,} too long"
    return f"{counts.read:,} sentences, {counts.distinct:,} different ones; dropped: {exclusions}"

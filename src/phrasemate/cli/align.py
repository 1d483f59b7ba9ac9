"""``phrasemate align`` and ``phrasemate pairs``: parallel text -> word links -> phrase pairs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from phrasemate.cli import options
from phrasemate.cli.options import argument, flag, option
from phrasemate.cli.progress import RESUMABLE, stages
from phrasemate.cli.shell import count

if TYPE_CHECKING:
    from phrasemate.align import Aligner, ParallelText, Report
    from phrasemate.text import SkippedInput


Method = Literal["intersection", "itermax", "mwmf", "softmax", "eflomal"]
Units = Literal["words", "subwords"]
Symmetrise = Literal["intersection", "union", "grow-diag", "grow-diag-final-and"]
Columns = Annotated[str, option("--columns", "N,N", "Source and target column of a file with tabs, from 1.")]
Langs = Annotated[str, option("--langs", "LANG,LANG", "Source and target language of a .tmx or .xliff file.")]
AlignedLangs = Annotated[
    str,
    option("--langs", "LANG,LANG", "Source and target language: for .tmx, .xliff; for eflomal, to compare stems."),
]
Tokenised = Annotated[
    bool, flag("--tokenised", "Split words at spaces and tabs only (default: find words in any script).")
]
Skip = Annotated[
    options.OnError, option("--on-error", "raise|skip", "Stop at an unusable line, or leave its output line empty.")
]
Force = Annotated[bool, flag("--force", "Overwrite FILE, and an unfinished run with other settings.")]


def align(
    source: Annotated[
        Path, argument("SRC", "Source sentences, one per line; or both sides, separated by a tab or in .tmx or .xliff.")
    ],
    target: Annotated[Path | None, argument("TGT", "The same sentences in the other language, line by line.")] = None,
    *,
    out: Annotated[Path, option("--out", "-o", "FILE", "The links, in the Pharaoh format; - for standard output.")],
    method: Annotated[
        Method, option("--method", "METHOD", "intersection, itermax, mwmf or softmax, with the model; or eflomal.")
    ] = "intersection",
    how: Annotated[
        Symmetrise | None,
        option(
            "--symmetrise",
            "HOW",
            "How to combine both directions: intersection, union, grow-diag or grow-diag-final-and "
            "(default: grow-diag-final-and for eflomal, else that of the method).",
        ),
    ] = None,
    units: Annotated[
        Units, option("--units", "words|subwords", "Compare whole words, or their most similar subwords.")
    ] = "words",
    ties: Annotated[
        float, option("--ties", "W", "Weight of similar spelling, added to the similarity, 0 to 1.", min=0, max=1)
    ] = 0.0,
    columns: Columns = "1,2",
    langs: AlignedLangs = "",
    tokenised: Tokenised = False,
    on_error: Skip = "raise",
    layer: options.Layer = None,
    model: options.Model = None,
    threads: options.Threads = None,
    force: Force = False,
    as_json: options.JsonAtEnd = False,
) -> None:
    """Link the words of a parallel text.

    Writes one line for each sentence pair: "0-0 1-2" links source word 0 with target word 0, and source word 1 with
    target word 2. Punctuation is not counted as words, unless --tokenised is given. The line is empty if both sides are
    blank.

    Examples:
      phrasemate align news.de news.en -o links.txt
      phrasemate align news.de news.en -o links.txt --method eflomal --symmetrise grow-diag --langs de,en
      phrasemate align both.tsv.gz -o links.txt --columns 2,1 --on-error skip
      phrasemate align tok.de tok.en -o links.txt --tokenised --method itermax
      phrasemate align memory.tmx -o links.txt --langs de,en

    To resume a stopped run, give the same command again.
    """
    from phrasemate.align import EflomalAligner, NeuralAligner, align_files
    from phrasemate.encode import load_model
    from phrasemate.text.formats.bilingual import format_of

    plain = target is not None or not format_of(source)  # then the languages are for eflomal alone
    text = _text(source, target, columns, "" if plain and method == "eflomal" else langs, on_error)
    options.check_apart(out, *text.files)
    if method != "eflomal":
        encoder = load_model(model, threads=threads)
        aligner: Aligner = NeuralAligner(encoder, layer, method, how, units=units, ties=ties)
    elif model is not None or layer is not None or ties or units != "words":
        raise typer.BadParameter("--model, --layer, --units and --ties mean nothing to eflomal; leave them out")
    else:
        aligner = EflomalAligner(how or "grow-diag-final-and", languages=_languages(langs))
    with _written(out) as (path, to_stdout), stages(lambda: f"{path}.part {RESUMABLE}") as show:
        report = align_files(text, path, aligner, tokenised, force, show)
    _say(report, text.skipped, "link", as_json, to_stdout)


def pairs(
    files: Annotated[
        list[Path],
        argument("FILE", "SRC TGT LINKS, or BOTH LINKS if one file has both sides; phrasemate align writes LINKS."),
    ],
    out: Annotated[Path, option("--out", "-o", "FILE", "The phrase pairs, as JSON lines.")],
    max_words: Annotated[
        int, option("--max-words", "N", "Maximum number of words of a phrase, on each side.", min=1)
    ] = 6,
    rate: Annotated[
        float,
        option("--frequent", "RATE", "No phrase starts or ends with a word of more occurrences per sentence.", min=0),
    ] = 0.003,
    least: Annotated[
        int, option("--min-frequent", "N", "--frequent applies to words with more than N occurrences in all.", min=0)
    ] = 10,
    loose: Annotated[bool, flag("--loose", "Phrases may begin and end with words that have no link.")] = False,
    columns: Columns = "1,2",
    langs: Langs = "",
    tokenised: Tokenised = False,
    on_error: Skip = "raise",
    force: Force = False,
    as_json: options.JsonAtEnd = False,
) -> None:
    """Extract phrase pairs from a parallel text with word links.

    A phrase pair is a span of words on each side, with links to each other only. Writes one JSON object for each
    sentence pair. Each of its phrase pairs is source start, source end, target start and target end, in characters:

    {"source": "Das Haus.", "target": "The house.", "pairs": [[4, 8, 4, 9]]}

    Examples:
      phrasemate align news.de news.en -o links.txt
      phrasemate pairs news.de news.en links.txt -o pairs.jsonl
      phrasemate pairs both.tsv.gz links.txt -o pairs.jsonl --columns 2,1 --max-words 4

    To resume a stopped run, give the same command again.
    """
    from phrasemate.align import PhraseSettings, pair_files

    if len(files) not in (2, 3):
        raise typer.BadParameter(f"{len(files)} files; expected SRC TGT LINKS, or one file with tabs and LINKS")
    text = _text(files[0], files[1] if len(files) == 3 else None, columns, langs, on_error)
    options.check_apart(out, *files)
    settings = PhraseSettings(max_words, rate, least, loose)
    with _written(out) as (path, to_stdout), stages(lambda: f"{path}.part {RESUMABLE}") as show:
        report = pair_files(text, files[-1], path, settings, tokenised, force, show)
    _say(report, text.skipped, "phrase pair", as_json, to_stdout)


@contextmanager
def _written(out: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the path to write to, and whether it is copied to standard output at the end, as for ``-``."""
    if str(out) != "-":
        yield out, False
        return
    with TemporaryDirectory(prefix="phrasemate-") as folder:
        path = Path(folder, "out")
        yield path, True
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _text(source: Path, target: Path | None, columns: str, langs: str, on_error: options.OnError) -> ParallelText:
    from phrasemate.align import ParallelText
    from phrasemate.text.formats.bilingual import format_of

    numbers = options.two_columns(columns)
    if numbers != (1, 2) and (target is not None or format_of(source)):
        raise typer.BadParameter(f"--columns is for one file with tabs, not for {target or source}")
    return ParallelText(source, target, numbers, on_error == "skip", _languages(langs))


def _languages(langs: str) -> tuple[str, str]:
    return options.two(langs, "--langs", "two languages, such as de,en") if langs else ("", "")


def _say(report: Report, skipped: Sequence[SkippedInput], what: str, as_json: bool, on_stderr: bool) -> None:
    name = "standard output" if on_stderr else str(report.out)
    before = f", {report.lines - report.new:,} were there" if report.new != report.lines else ""
    blank = f"; {count(report.blank, 'line')} without text" if report.blank else ""
    text = (
        f"{name}: {count(report.found, what)} in {count(report.new, 'sentence pair')} in "
        f"{report.seconds:.1f} s ({report.new / max(report.seconds, 1e-9):,.0f}/s){before}{blank}"
    )
    options.print_report(asdict(report) | {"out": name}, skipped, text, as_json, on_stderr)

"""``phrasemate evaluate``: evaluate models by the protocols of the papers, and on look-ups in non-parallel text."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from phrasemate.cli.options import CpuThreads, JsonTables, Threads, argument, flag, option, several
from phrasemate.cli.progress import stages
from phrasemate.cli.shell import clean, out
from phrasemate.errors import InputError, needs_extra

if TYPE_CHECKING:
    from rich.text import Text

    from phrasemate.evaluate.bicla import TrainedRanker
    from phrasemate.evaluate.report import Table
    from phrasemate.utils.arrays import Floats

WIDTH = 200  # minimum width of a table in terminal cells


app = typer.Typer(
    help="Evaluate models by the protocols of the papers.\n\nExamples:\n  phrasemate evaluate ccpr --data corpora"
)


CCPR_PARTS = ("phrases", "alignment", "segmenter", "polysemy")


@app.command("ccpr")
def ccpr(
    data: Annotated[Path, option("--data", "DIR", "Folder of the corpora.")] = Path("corpora"),
    model: Annotated[
        list[str] | None,
        option(
            "--model",
            "NAME=FOLDER[:POOLING]",
            "Add a row for this model. FOLDER is a model folder or 'bundled'; POOLING is mean, ends, head or sentence "
            "(default: that of the model). Repeatable.",
        ),
    ] = None,
    bundled: Annotated[
        bool, flag("--bundled/--no-bundled", "Include the bundled model, or only those of --model.")
    ] = True,
    muse: Annotated[
        bool, flag("--muse", "Add a row for MUSE, the baseline of the paper (needs an optional package).")
    ] = False,
    only: Annotated[
        str, option("--only", "PART,...", "Parts to measure: phrases, alignment, segmenter, polysemy (default: all).")
    ] = "",
    against: Annotated[
        str | None, option("--against", "NAME", "The row that the p values compare with (default: the last).")
    ] = None,
    distractors: Annotated[
        int, option("--distractors", "N", "Number of distractors, spans of other sentences; up to 10 million.", min=0)
    ] = 610_093,
    langs: Annotated[
        str, option("--langs", "XX,...", "Languages to evaluate, among those with test sets in the corpora.")
    ] = "de,cs,ro,fr",
    cs: Annotated[int, option("--cs", "N", "Sentence pairs of the large Czech gold alignment to use.", min=1)] = 500,
    threads: Threads = None,
    seed: Annotated[int, option("--seed", "N", "Seed of the bootstrap and the tests.", min=0)] = 0,
    folder: Annotated[Path | None, option("--out", "-o", "DIR", "Write ccpr.json and the plots, as SVG, here.")] = None,
    as_json: JsonTables = False,
) -> None:
    """Reproduce the evaluation of CCPR: phrase retrieval, word alignment, segmentation, ambiguous phrases.

    Prints tables and one line that says how they were made. The corpora are not part of phrasemate. The page Protocols
    of the documentation lists the files that are read and defines each figure.

    Examples:
      phrasemate evaluate ccpr --data corpora
      phrasemate evaluate ccpr --data corpora --only polysemy,segmenter
      phrasemate evaluate ccpr --data corpora --only phrases --model untrained=base:ends --model CPR=run/cpr
      phrasemate evaluate ccpr --data corpora --only phrases --muse --distractors 5000000 -o figures
    """
    from phrasemate.evaluate.ccpr import Settings, run

    parts = parts_of(CCPR_PARTS, only)
    if "phrases" not in parts and (muse or against is not None):
        raise typer.BadParameter("--muse and --against apply to the part phrases; leave them out")
    settings = Settings(
        data=data,
        parts=parts,
        models=tuple(model or ()),
        bundled=bundled,
        muse=muse,
        against=against,
        distractors=distractors,
        cs=cs,
        langs=several(langs),
        threads=threads,
        seed=seed,
        out=folder,
    )
    print_result(partial(run, settings), as_json)


def parts_of(parts: Sequence[str], only: str) -> tuple[str, ...]:
    """Return the parts that ``--only`` names, in the order of ``parts``; all parts if it is empty."""
    names = several(only)
    unknown = [name for name in names if name not in parts]
    if unknown:
        raise typer.BadParameter(f"--only {only}: no part {', '.join(unknown)}; there are {', '.join(parts)}")
    return tuple(part for part in parts if not names or part in names)


def print_result(run: Callable[[Callable[[str, int, int], None]], Any], as_json: bool) -> None:
    """Run an evaluation with a progress bar; print its tables, signature and files written, or one JSON object."""
    from phrasemate.evaluate.report import signature_line

    with stages() as show:
        result = run(show)
    if as_json:
        typer.echo(json.dumps(result.as_dict(), ensure_ascii=False, default=float))
        return
    for table in result.tables:
        print_table(table)
    typer.echo(clean(signature_line(result.signature)))
    for path in result.written:
        typer.echo(f"wrote {path}", err=True)


def print_table(table: Table) -> None:
    """Print a table without cutting its columns to the width of the terminal."""
    from rich import box
    from rich.table import Table as Drawn

    from phrasemate.evaluate.report import cell

    console = out()
    drawing = Drawn(box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left")
    drawing.title, drawing.caption = _plain(table.title, "table.title"), _plain(table.note, "table.caption")
    for number, name in enumerate(table.header):
        numeric = number and not any(isinstance(row[number], str) for row in table.rows)
        side: Any = "right" if numeric else "left"
        drawing.add_column(_plain(name), justify=side, no_wrap=True)
    for row in table.rows:
        drawing.add_row(*(_plain(cell(value)) for value in row))
    console.width = max(console.width, WIDTH)
    console.print(drawing, end="")


def _plain(text: str, style: str = "") -> Text:
    """Escape what rich would read as markup: names come from folders and files."""
    from rich.text import Text

    return Text(clean(text), style)


@app.command("xpr")
def xpr(
    rows: Annotated[Path, argument("ROWS", "A TOML file of rows (see the page Protocols).")],
    *,
    data: Annotated[Path, option("--data", "DIR", "A data set written by phrasemate dataset xpr.")],
    split: Annotated[str, option("--split", "PART", "Split to evaluate on: test, dev or dev+test.")] = "test",
    most: Annotated[int, option("--limit", "N", "Only the first N phrase pairs of each split (0: all).", min=0)] = 0,
    only: Annotated[str, option("--only", "TABLE,...", "Only these tables.")] = "",
    without: Annotated[
        list[Path] | None,
        option(
            "--without",
            "FILE",
            "Phrase pairs that a model was trained on: JSON lines with source and target. They are not queries, but "
            "stay candidates. Repeatable.",
        ),
    ] = None,
    threads: Threads = None,
    seed: Annotated[int, option("--seed", "N", "Seed of the intervals.", min=0)] = 0,
    folder: Annotated[Path | None, option("--out", "-o", "DIR", "Write xpr.json and the plots, as SVG, here.")] = None,
    as_json: JsonTables = False,
) -> None:
    """Reproduce the tables of XPR: acc@1 of phrase retrieval in both directions, by setting.

    ROWS lists the models and word vectors of each table. The p values compare with the first row of the table.

    Examples:
      phrasemate evaluate xpr rows.toml --data my-set
      phrasemate evaluate xpr rows.toml --data my-set --only unsupervised --limit 300
      phrasemate evaluate xpr rows.toml --data my-set --split dev --json
      phrasemate evaluate xpr rows.toml --data my-set --without training/terms-de.jsonl
      phrasemate evaluate xpr rows.toml --data my-set -o figures
    """
    from phrasemate.evaluate.xpr import Settings, run

    settings = Settings(rows, data, split, most, several(only), threads, seed, folder, tuple(without or ()))
    print_result(partial(run, settings), as_json)


@app.command("mt")
def mt(
    runs: Annotated[Path, argument("RUNS", "Folder with a folder for each direction, or the folder of one.")],
    *,
    against: Annotated[
        str, option("--against", "NAME", "The system that the p values compare with (default: plain).")
    ] = "",
    only: Annotated[str, option("--only", "NAME,...", "Only these systems.")] = "",
    bertscore: Annotated[
        Path | None, option("--bertscore", "FOLDER", "BERTScore with this model folder, or 'bundled'.")
    ] = None,
    layer: Annotated[int | None, option("--layer", "N", "Layer of BERTScore's states (default: the last).")] = None,
    scores: Annotated[
        list[str] | None,
        option(
            "--scores",
            "SCORE:DIRECTION:SYSTEM=FILE",
            "Scores computed elsewhere, one per line (such as COMET). Repeatable.",
        ),
    ] = None,
    comet: Annotated[
        str, option("--comet", "COMMAND", "Compute COMET with COMMAND -s SRC -t OUTPUT -r REFERENCE.")
    ] = "",
    terms: Annotated[
        list[Path] | None, option("--terms", "FILE", "Count how often a term base's terms are used. Repeatable.")
    ] = None,
    samples: Annotated[int, option("--samples", "N", "Number of bootstrap samples.", min=100)] = 1_000,
    folder: Annotated[Path | None, option("--out", "-o", "DIR", "Write mt.json here.")] = None,
    as_json: JsonTables = False,
) -> None:
    r"""Compare translations: BLEU, chrF, TER (sacrebleu), BERTScore, COMET, use of terms, use of hints.

    Prints a table for each score, with all directions and the mean of the directions into one language. Figures have
    95 % intervals and p values of the paired bootstrap against one system. A last line says how they were made.

    Examples:
      phrasemate evaluate mt runs
      phrasemate evaluate mt runs/de-en --against plain --only plain,phrases
      phrasemate evaluate mt runs --bertscore bundled -o figures
      phrasemate evaluate mt runs --scores COMET:de-en:plain=plain.comet \
          --scores COMET:de-en:phrases=phrases.comet

    runs/de-en/reference.txt holds the references. runs/de-en/NAME.jsonl, written by phrasemate mt --jsonl, or
    runs/de-en/NAME.txt holds the translations of the system NAME.
    """
    from phrasemate.evaluate.mt import Settings, run

    if layer is not None and bertscore is None:
        raise typer.BadParameter("--layer applies to --bertscore; leave it out")
    files: dict[str, Path] = {}
    for score in scores or ():
        key, equals, path = score.partition("=")
        if not equals:
            raise typer.BadParameter(f"--scores {score}: expected SCORE:DIRECTION:SYSTEM=FILE")
        if key in files:
            raise typer.BadParameter(f"--scores {score}: {key} is given twice")
        files[key] = Path(path)
    settings = Settings(
        runs, against, several(only), bertscore, layer, files, comet, tuple(terms or ()), samples, folder
    )
    print_result(partial(run, settings), as_json)


BICLA_PARTS = ("rankers", "ensembles", "transfer")


@app.command("bicla")
def bicla(
    data: Annotated[Path, option("--data", "DIR", "Folder of the corpora, with sentence_bench/europarl in it.")],
    vectors: Annotated[Path, option("--vectors", "DIR", "Folder with word vectors of each language in one space.")],
    runs: Annotated[
        Path | None,
        option("--runs", "DIR", "Folder that contains runs of phrasemate train bicla, at any depth (default: none)."),
    ] = None,
    pairs: Annotated[
        str, option("--pairs", "XX-YY,...", "Test sets, by source and target language; all of them must exist.")
    ] = "de-en,cs-en,hu-en,cs-de,hu-de,cs-hu",
    only: Annotated[
        str, option("--only", "PART,...", "Parts to measure: rankers, ensembles, transfer (default: all).")
    ] = "",
    bundled: Annotated[bool, flag("--bundled/--no-bundled", "Include rows of the bundled encoder.")] = True,
    reranker: Annotated[
        Path | None,
        option("--reranker", "DIR", "Re-ranker for the bundled encoder (default: the bundled re-ranker)."),
    ] = None,
    first: Annotated[int, option("--limit", "N", "Only the first N sentences of each set (0: all).", min=0)] = 0,
    threads: CpuThreads = None,
    folder: Annotated[
        Path | None, option("--out", "-o", "DIR", "Write bicla.json and the heat map, as SVG, here.")
    ] = None,
    as_json: JsonTables = False,
) -> None:
    """Reproduce the evaluation of BiCLA: how well rankers find the translation of a sentence among a thousand.

    Prints the MAP of rankers, ensembles and zero-shot transfer next to the figures of the paper, and one line that says
    how they were made. results/log/bicla.md lists the files that are read.

    Examples:
      phrasemate evaluate bicla --data corpora --vectors vectors/
      phrasemate evaluate bicla --data corpora --vectors vectors/ --runs runs/ -o figures
      phrasemate evaluate bicla --data corpora --vectors vectors/ --runs runs/ --only transfer --pairs de-en,cs-en
      phrasemate evaluate bicla --data corpora --vectors vectors/ --limit 100 --json
    """
    from phrasemate.evaluate.bicla import Settings, run

    if reranker is not None and not bundled:
        raise typer.BadParameter("--reranker applies to the bundled encoder; leave out --no-bundled")
    settings = Settings(
        data=data,
        vectors=vectors,
        pairs=several(pairs),
        parts=parts_of(BICLA_PARTS, only),
        bundled=bundled,
        reranker=reranker,
        first=first,
        threads=threads,
        out=folder,
    )
    print_result(partial(run, settings, trained_in(runs, threads) if runs else ()), as_json)


def trained_in(folder: Path, threads: int | None = None) -> Sequence[TrainedRanker]:
    """Load the trained BiCLA models in a folder and its subfolders. Raises InputError if there are none."""
    with needs_extra("train"):
        from phrasemate.training.bicla import folders_in
        from phrasemate.training.trainer import chosen_device
    device = chosen_device("auto", threads)
    rankers = [_ranker(path, device) for path in folders_in(folder)]
    if not rankers:
        raise InputError(f"{folder}: no run of 'phrasemate train bicla' in it; leave --runs out to go without")
    return rankers


def _ranker(folder: Path, device: str) -> TrainedRanker:
    from phrasemate.evaluate.bicla import TrainedRanker
    from phrasemate.training.bicla import load_bicla, score_matrix

    model, facts, digest = load_bicla(folder, device)
    kind = "BiCLA" if model.settings.cross else "InAtt"
    pair = str(facts.get("data", {}).get("pair", ""))
    if pair.count("-") != 1:
        raise InputError(f"{folder}: does not say which pair it was trained on; give runs of 'phrasemate train bicla'")

    def score(queries: Sequence[Floats], documents: Sequence[Floats], progress: Callable[[int, int], None]) -> Floats:
        return score_matrix(model, queries, documents, progress=progress)

    return TrainedRanker(kind, pair, digest, model.dim, score, dict(facts.get("vectors", {})))


Half = Literal["dev", "test"]


@app.command("lookup")
def lookup(
    folder: Annotated[Path, argument("SET", "Folder of queries and collections.")],
    *,
    size: Annotated[
        str, option("--size", "N,...", "Collections to search: XX-N.txt in SET, where XX is their language.")
    ] = "20000",
    half: Annotated[
        Half, option("--half", "dev|test", "Half of the queries: dev for choices, test once for a finished model.")
    ] = "dev",
    langs: Annotated[str, option("--langs", "XX,...", "Languages of the queries (default: all there are).")] = "",
    model: Annotated[
        list[str] | None, option("--model", "NAME=FOLDER", "Add a row for this model folder. Repeatable.")
    ] = None,
    systems: Annotated[
        str,
        option(
            "--systems",
            "NAME,...",
            "Rows: search, without lexicon, views, quick, phrases alone, vectors alone, sentences, dictionary, and "
            "names of --model (default: all).",
        ),
    ] = "",
    against: Annotated[
        str, option("--against", "NAME", "The row that the p values compare with (default: the first).")
    ] = "",
    idioms: Annotated[Path | None, option("--idioms", "FILE", "Also look up 200 German idioms of this file.")] = None,
    work: Annotated[
        Path | None, option("--work", "DIR", "Keep the indexes here for later runs (default: delete them).")
    ] = None,
    threads: Threads = None,
    seed: Annotated[int, option("--seed", "N", "Seed of intervals, tests and idioms.", min=0)] = 0,
    out: Annotated[Path | None, option("--out", "-o", "DIR", "Write lookup.json here.")] = None,
    as_json: JsonTables = False,
) -> None:
    """Measure how often the first answer is right in text that is not a translation of the query.

    Prints the share of phrases with a right first answer for each way to search, then by language, domain and kind of
    phrase. Only phrases with a right answer in the text count. The page Protocols describes the data set.

    Examples:
      phrasemate evaluate lookup lookups --work indexes
      phrasemate evaluate lookup lookups --langs de,ja --systems search,quick --against quick
      phrasemate evaluate lookup lookups --size 20000,100000 --model untrained=base --work indexes -o figures
      phrasemate evaluate lookup lookups --idioms idioms.jsonl.gz --work indexes

    lookups/XX.jsonl holds the queries of a language, lookups/en-20000.txt a collection of sentences, one per line.
    """
    from phrasemate.evaluate.lookup import Settings, run

    sizes = several(size)
    if not sizes or not all(number.isascii() and number.isdigit() for number in sizes):
        raise typer.BadParameter(f"--size {size}: expected numbers of sentences, such as 20000,100000")
    settings = Settings(
        folder=folder,
        sizes=tuple(map(int, sizes)),
        half=half,
        langs=several(langs),
        models=tuple(model or ()),
        systems=several(systems),
        against=against,
        work=work,
        idioms=idioms,
        threads=threads,
        seed=seed,
        out=out,
    )
    print_result(partial(run, settings), as_json)

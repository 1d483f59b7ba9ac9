"""``phrasemate index``: build, extend, describe, check, tune and back up an index, here or on a Ray cluster."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phrasemate.cli import options
from phrasemate.cli.options import argument, flag, option
from phrasemate.cli.shell import EXIT_ERROR, EXIT_INTERRUPTED, DefaultGroup, clean, count
from phrasemate.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from phrasemate.index import AddReport, BaseIndex, DocumentInfo, IndexStats, ProgressEvent, TuneReport
    from phrasemate.text import Corpus, SkippedInput

Target = Annotated[
    float | None,
    option("--target-recall", "R", "Keep the fastest settings that reach this recall, e.g. 0.95."),
]
At = Annotated[
    int,
    option("--at", "N", "With --target-recall: reach it among the first N hits, 1 or 10; 10 makes searches slower."),
]
Seed = Annotated[int, option("--seed", "N", "With --target-recall: seed of the sample of phrases.")]


def format_tune_report(report: TuneReport) -> str:
    """Format the chosen settings of the search engine, their recall and their speed as lines of text."""
    if report.engine == "exact":
        return f"{report.phrases:,} phrases are searched exactly; there is nothing to choose"
    lists = f"at most {report.probes} lists read, within {report.slack:.2f} of the best; " if report.probes else ""
    summary = f"recall@1 {report.recall_at_1:.3f}, recall@10 {report.recall_at_10:.3f} ({report.queries:,} phrases)"
    times = f"{report.single_ms:.2f} ms for one query, {report.batch_ms:.3f} ms each in a batch of {report.queries:,}"
    shortfall = (
        ""
        if report.reached
        else f"\nrecall@{report.at} {report.target:g} was not reached: this is the most thorough way"
    )
    return (
        f"{report.engine}: {lists}{report.candidates} candidates\n{summary}\n{times}\n"
        f"chosen among {len(report.trials)} layouts in {report.seconds:.0f} s{shortfall}"
    )


Cluster = Annotated[
    str | None,
    option(
        "--cluster",
        "ADDRESS",
        "Use the Ray cluster at HOST:PORT, auto or local. The index is Lance tables at DIR, also s3://BUCKET/PATH.",
    ),
]
Workers = Annotated[
    int | None,
    option("--workers", "N", "With --cluster: number of workers (default: one for each CPU of the cluster).", min=1),
]


def label(directory: Path) -> str:
    """Format the place of an index as the user gave it: a ``Path`` drops a slash of ``s3://``."""
    from phrasemate.index.lance.tables import is_remote, place_of

    return place if is_remote(place := place_of(directory)) else str(directory)


def refuse_elsewhere(directory: Path) -> None:
    """Raise InputError for a place that holds, or may only hold, Lance tables: a new local index needs a folder."""
    from phrasemate.index.lance.tables import is_tables

    place = label(directory)
    if (directory / "shards.lance").is_dir() and not is_tables(directory):
        raise InputError(
            f"{place}: Lance tables are being built there, or their building was stopped; "
            "to continue, give --cluster ADDRESS"
        )
    if is_tables(directory):
        raise InputError(f"no index at {place}; to make one there, give --cluster ADDRESS (or: local)")


def check_cluster(address: str | None, workers: int | None, threads: int | None) -> None:
    """Raise BadParameter for an option that would be ignored."""
    if address is None and workers is not None:
        raise typer.BadParameter("--workers needs --cluster ADDRESS (or: local)")
    if address is not None and threads is not None:
        raise typer.BadParameter("--threads applies to one machine; with --cluster, give --workers")


def add_on_cluster(
    directory: Path,
    corpus: Corpus,
    address: str,
    workers: int | None,
    folder: Path | None,
    lang: str,
    segment: dict[str, Any],
    progress: Callable[[ProgressEvent], None],
) -> AddReport:
    """Create or extend the Lance tables at ``directory``. Raises InputError if a local index is there."""
    from phrasemate.encode import load_model
    from phrasemate.index.lance.tables import is_tables
    from phrasemate.index.ray import build

    if (directory / "index.json").exists() and not is_tables(directory):
        raise InputError(f"{directory}: is an index of one machine; add to it without --cluster, or make another")
    model = load_model(folder, threads=1) if folder else None
    return build(
        str(directory), corpus, address, model=model, lang=lang, workers=workers, segment=segment, progress=progress
    )


def optimize_on_cluster(
    directory: Path, address: str, workers: int | None, target_recall: float | None
) -> tuple[int, int]:
    """Build the vector index of the Lance tables on the cluster. Returns the bytes of its files before and after.

    Raises InputError if a local index is there.
    """
    from phrasemate.index.lance.index import ClusterIndex
    from phrasemate.index.lance.tables import is_tables

    if (directory / "index.json").exists() and not is_tables(directory):
        raise InputError(f"{directory}: is an index of one machine; optimize it without --cluster")
    with closing(ClusterIndex.open(directory)) as index:
        before = sum(index.stats().files.values())
        index.optimize(address, workers, target_recall=target_recall)
        return before, sum(index.stats().files.values())


app = typer.Typer(
    cls=DefaultGroup,
    subcommand_metavar="TEXT... -o DIR | COMMAND [ARGS]...",
    help="""Build and maintain an index of texts.

  phrasemate index TEXT... -o DIR     build or append (short for: phrasemate index add)
  phrasemate index COMMAND DIR        one of the commands below

If the first argument is the name of a command, that command runs; give a file of this name as ./stats, for example.
For all options of the first form, see phrasemate index add --help.

Examples:
  phrasemate index corpus/ -o idx --lang en
  phrasemate index stats idx
  phrasemate index verify idx
  phrasemate index upgrade idx
  phrasemate index delete idx corpus/old.txt""",
)

Directory = Annotated[Path, argument("DIR", "The index.")]


@app.command("add")
def add(
    texts: Annotated[
        list[str],
        argument(
            "TEXT",
            "Files (text, tables, TMX, TBX, XLIFF, Word, Excel, PDF, web pages and more) or folders; - is stdin.",
        ),
    ],
    directory: Annotated[Path, option("--out", "-o", "DIR", "The index to create or extend.")],
    lang: Annotated[
        str, option("--lang", "LANG", "Language of the texts, e.g. en or zh; the one to read if a file has several.")
    ] = "",
    column: options.Column = None,
    text_field: options.TextField = "text",
    lines: options.SplitLines = "paragraph",
    on_error: options.OrList = "raise",
    encoding: options.Encoding = "utf-8",
    model: Annotated[
        Path | None,
        option(
            "--model", "FOLDER", "Model folder (default: the model of the index; for a new one, the bundled model)."
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        option(
            "--min-belief",
            "P",
            "Minimum probability that words are a phrase, 0 to 1 (default: that of the model).",
            min=0,
            max=1,
        ),
    ] = None,
    max_words: Annotated[
        int | None,
        option("--max-words", "N", "Maximum number of words of a phrase (default: that of the model).", min=1),
    ] = None,
    threads: options.Threads = None,
    cluster: Cluster = None,
    workers: Workers = None,
    as_json: options.Json = False,
) -> None:
    """Build an index of texts, or append to one.

    Documents that the index already holds are skipped if they are unchanged, and replaced if they have changed.

    Examples:
      phrasemate index corpus/ -o idx --lang en
      phrasemate index news.txt.gz more.jsonl -o idx --text-field body --on-error skip
      phrasemate index table.tsv -o idx --column 2 --lines sentence
      phrasemate index memory.tmx letter.docx -o idx --lang en
      zcat dump.gz | phrasemate index - -o idx
      phrasemate index corpus/ -o s3://bucket/idx --cluster head:6379    on many machines

    To resume a stopped run, give the same command again.
    """
    from phrasemate.cli.progress import IndexingBar

    check_cluster(cluster, workers, threads)
    corpus = options.read_texts(texts, column, text_field, lines, on_error, encoding, lang)
    settings = {"threshold": threshold, "max_words": max_words}
    segment = {name: value for name, value in settings.items() if value is not None}
    bar = IndexingBar()
    try:
        with bar:
            _ = corpus.documents  # raises for a missing path before an index is created
            if cluster is None:
                with _no_empty_index(directory), _open_or_create(directory, model, threads, segment) as index:
                    report = index.add(corpus, lang=lang, progress=bar.show)
            else:
                report = add_on_cluster(directory, corpus, cluster, workers, model, lang, segment, bar.show)
    except KeyboardInterrupt:
        if bar.sentences or cluster is not None or directory.exists():
            remainder = f"{count(bar.sentences, 'sentence')} of this run" if bar.sentences else "what was there before"
            typer.echo(f"stopped; {label(directory)} keeps {remainder}; run the same command again to resume", err=True)
        else:
            typer.echo(f"stopped; nothing was saved in {label(directory)}; run the same command again", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    _report(report, corpus.skipped, directory, as_json)


@contextmanager
def _no_empty_index(directory: Path) -> Iterator[None]:
    """Remove an index that the block created if the block fails before a document is stored."""
    from phrasemate.index import Index

    was_there = directory.exists()
    try:
        yield
    except BaseException:
        if not was_there and (directory / "index.json").exists():
            with Index.open(directory, readonly=True) as index:
                is_empty = not index.stats().documents
            if is_empty:
                shutil.rmtree(directory)
        raise


def _open_or_create(directory: Path, folder: Path | None, threads: int | None, segment: dict[str, Any]) -> BaseIndex:
    """Open the index, or create it with this model and these segmentation settings.

    Raises InputError if the settings differ from those of an existing index.
    """
    from phrasemate.encode import load_model
    from phrasemate.errors import IndexMissing, InputError
    from phrasemate.index import Index

    model = load_model(folder, threads=threads) if folder else None
    try:
        index = Index.open(directory, threads=threads)
    except IndexMissing:
        refuse_elsewhere(directory)
        return Index.create(directory, model or load_model(threads=threads), threads=threads, segment=segment)
    if (model or segment) and not index.stats().documents:  # left by a command whose texts could not be read
        index.begin(model or index.model, segment or index.manifest.segment)
        return index
    if model:
        index.close()
        index = Index.open(directory, model, threads=threads)
    settings = index.manifest.segment
    if any(settings.get(name) != value for name, value in segment.items()):
        index.close()
        raise InputError(
            f"{label(directory)}: was started with {settings or 'the settings of its model'}, not {segment}; "
            "make another"
        )
    return index


def _report(report: AddReport, skipped: Sequence[SkippedInput], directory: Path, as_json: bool) -> None:
    text = (
        f"{label(directory)}: {count(report.sentences, 'sentence')} and {count(report.phrases, 'phrase')} added in "
        f"{report.seconds:.1f} s ({report.sentences / max(report.seconds, 1e-9):,.0f} sentences/s); documents: "
        f"{report.documents_added:,} new, {report.replaced:,} replaced, {report.unchanged:,} unchanged"
        + (f"; {len(skipped):,} skipped" if skipped else "")
    )
    options.print_report({"index": label(directory), **asdict(report)}, skipped, text, as_json)


_DEAD = 10  # optimize is recommended when one in so many phrases of the search file is deleted


@app.command("stats")
def stats(
    directory: Directory,
    documents: Annotated[bool, flag("--documents", "List the documents too.")] = False,
    as_json: options.Json = False,
) -> None:
    """Show what an index holds.

    Prints the numbers of documents, sentences and phrases, the languages, the model, the search engine and the files.

    Examples:
      phrasemate index stats idx
      phrasemate index stats idx --documents
      phrasemate index stats idx --json
    """
    from phrasemate.index import Index

    with Index.open(directory, readonly=True) as index:
        statistics = asdict(index.stats())
        document_list = index.documents() if documents else []
    lists = {"documents_listed": [asdict(document) for document in document_list]} if documents else {}
    options.print_facts(statistics | lists if as_json else statistics, as_json)
    if as_json:
        return
    if statistics["dead"] and statistics["dead"] * _DEAD >= statistics["phrases"] + statistics["dead"]:
        share = 100 * statistics["dead"] / (statistics["phrases"] + statistics["dead"])
        command = f"phrasemate index optimize {label(directory)}"
        typer.echo(f"{share:.0f} % of what the search file holds was deleted; to give the space back, run: {command}")
    for document in document_list:
        typer.echo(_line(document))


def _line(document: DocumentInfo) -> str:
    language = f", {document.language}" if document.language else ""
    rest = "" if document.complete else ", to be continued"
    sizes = f"{count(document.sentences, 'sentence')}, {count(document.phrases, 'phrase')}"
    return f"  {clean(document.name)}: {sizes}{language}{rest}"


@app.command("verify")
def verify(directory: Directory, as_json: options.Json = False) -> None:
    """Check an index for damage.

    Checks every checksum and offset, and compares the search engine with exact search on a sample. Exits with 1 if
    there is a problem.

    Examples:
      phrasemate index verify idx && echo whole
    """
    from phrasemate.index import Index

    with Index.open(directory, readonly=True) as index:
        report = index.verify()
    if as_json:
        options.print_json({"ok": report.ok, **asdict(report)})
    else:
        for problem in report.problems:
            typer.echo(clean(f"problem: {problem}"), err=True)
        details = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in report.checked.items())
        typer.echo(f"{label(directory)}: {'whole' if report.ok else 'damaged'} (checked: {details})")
    if not report.ok:
        raise typer.Exit(EXIT_ERROR)


@app.command("optimize")
def optimize(
    directory: Directory,
    target_recall: Target = None,
    at: At = 1,
    seed: Seed = 0,
    cluster: Cluster = None,
    workers: Workers = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Rebuild the search files, free disk space, and tune the search.

    With --target-recall, measures several settings, keeps the fastest that reach this recall, and prints the result.

    Examples:
      phrasemate index optimize idx
      phrasemate index optimize idx --target-recall 0.95
      phrasemate index optimize idx --target-recall 0.95 --at 10       recall of the ten best hits
      phrasemate index optimize s3://bucket/idx --cluster head:6379    on many machines
    """
    from phrasemate.index import Index

    check_cluster(cluster, workers, threads)
    if target_recall is None and (at != 1 or seed != 0):
        raise typer.BadParameter("--at and --seed need --target-recall R")
    if cluster is not None:
        report, (before, after) = None, optimize_on_cluster(directory, cluster, workers, target_recall)
    else:
        with Index.open(directory, threads=threads) as index:
            before = sum(index.stats().files.values())
            report = index.optimize(target_recall=target_recall, at=at, seed=seed)
            after = sum(index.stats().files.values())
    if as_json:
        facts = {"index": label(directory), "bytes_before": before, "bytes": after}
        typer.echo(json.dumps(facts | (asdict(report) if report else {})))
        return
    typer.echo(f"{label(directory)}: {before / 1e6:.1f} MB before, {after / 1e6:.1f} MB after")
    if report is not None:
        typer.echo(format_tune_report(report))


@app.command("delete")
def delete(
    directory: Directory, names: Annotated[list[str], argument("NAME", "Names of documents, as answers show them.")]
) -> None:
    """Delete documents from an index. If one name is unknown, nothing is deleted.

    Examples:
      phrasemate index delete idx corpus/old.txt
    """
    from phrasemate.index import Index

    with Index.open(directory) as index:
        index.delete(*names)
    for name in dict.fromkeys(names):
        typer.echo(f"{label(directory)}: {name} deleted")


@app.command("dictionary")
def dictionary(
    directory: Directory,
    files: Annotated[
        list[Path] | None,
        argument("FILE", "Dictionaries or term bases to store: TSV, TBX, TMX, xlsx, StarDict, dictd, or folders."),
    ] = None,
    remove: Annotated[
        list[str] | None, option("--remove", "NAME", "Remove the dictionary of this name (repeatable).")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Store dictionaries in an index, and list them.

    Each search in the index uses them, as if they were given with --dictionary. Their content is copied, so the files
    are no longer needed. A dictionary of the same name is replaced. A running server picks up the change.

    Examples:
      phrasemate index dictionary idx terms.tbx
      phrasemate index dictionary idx /usr/share/dictd/freedict-deu-eng.index
      phrasemate index dictionary idx                                 lists the stored dictionaries
      phrasemate index dictionary idx --remove terms.tbx
    """
    from phrasemate.index import Index
    from phrasemate.index.schema import translate_errors, write_lock
    from phrasemate.lexicon import DictionaryFolder

    with Index.open(directory, readonly=True) as index:
        if not (directory / "store.sqlite").is_file():
            raise InputError(f"{label(directory)}: consists of parts or Lance tables; give --dictionary to each search")
        if files or remove:
            folder, dictionaries = DictionaryFolder(directory), options.opened_dictionaries(files)
            with translate_errors(directory), write_lock(directory):  # a concurrent upgrade would lose them
                for name in remove or ():
                    folder.remove(name)
                for item in dictionaries:
                    folder.add(item)
        rows: list[dict[str, Any]] = [
            {"name": item.name, "wordings": len(item), "languages": item.languages} for item in index.dictionaries
        ]
    if as_json:
        options.print_json({"index": label(directory), "dictionaries": rows})
        return
    for row in rows:
        languages = " and ".join(language or "?" for language in row["languages"])
        typer.echo(f"{clean(row['name'])}: {count(row['wordings'], 'wording')}, {languages}")
    if not rows:
        typer.echo(f"{label(directory)}: no dictionaries")


Force = Annotated[bool, flag("--force", "Replace an existing index.")]


@app.command("backup")
def backup(
    directory: Directory,
    destination: Annotated[Path, option("--out", "-o", "DIR", "The folder for the copy.")],
    force: Force = False,
    as_json: options.Json = False,
) -> None:
    """Back up an index while it is in use.

    The copy is an index itself. It holds the state at one moment, even if documents are added or deleted meanwhile.

    Examples:
      phrasemate index backup idx -o /backups/idx-2026-11-25
      phrasemate index backup idx -o /backups/idx --force          replaces the last copy once the new one is complete
    """
    from phrasemate.index.backup import backup

    _report_copy(directory, destination, backup(directory, destination, force), as_json)


@app.command("restore")
def restore(
    copy: Annotated[Path, argument("COPY", "A copy that phrasemate index backup made.")],
    directory: Annotated[Path, option("--out", "-o", "DIR", "The index to replace, or a new folder.")],
    force: Force = False,
    as_json: options.Json = False,
) -> None:
    """Check a backup and restore it.

    A server that serves the index need not be stopped.

    Examples:
      phrasemate index restore /backups/idx-2026-11-25 -o idx --force
    """
    from phrasemate.index.backup import restore

    _report_copy(copy, directory, restore(copy, directory, force), as_json)


@app.command("upgrade")
def upgrade(
    directory: Directory,
    model: Annotated[
        Path | None, option("--model", "FOLDER", "Folder of the model to use from now on (default: the bundled one).")
    ] = None,
    again: Annotated[bool, flag("--again", "Encode all sentences again, even if the model is the same.")] = False,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Upgrade an index of an earlier version.

    If the model has changed, all sentences of the index are encoded again; the original files are not needed. Searches
    use the old index until the new one is complete.

    Examples:
      phrasemate index upgrade idx                     after an update of phrasemate
      phrasemate index upgrade idx --model my-model    changes the model
      phrasemate index upgrade idx --again             Japanese text, whose words were cut in another way before
    """
    from phrasemate.cli.progress import IndexingBar
    from phrasemate.encode import load_model
    from phrasemate.index.backup import upgrade

    with IndexingBar() as bar:
        report = upgrade(directory, load_model(model, threads=threads), bar.show, again)
    if as_json:
        typer.echo(json.dumps({"index": label(directory), **asdict(report)}))
        return
    if report.former != report.model or again:
        is_same = report.former == report.model
        change = "" if is_same else f", model {report.former[:12]} replaced by {report.model[:12]}"
        outcome = f"{count(report.sentences, 'sentence')} encoded again{change}"
    else:
        outcome = "table of wordings added" if report.wordings else "is up to date"
    typer.echo(f"{label(directory)}: {outcome}")


def _report_copy(source: Path, directory: Path, statistics: IndexStats, as_json: bool) -> None:
    if as_json:
        options.print_json({"index": str(directory), **asdict(statistics)})
        return
    sizes = f"{count(statistics.documents, 'document')}, {count(statistics.sentences, 'sentence')}"
    typer.echo(f"{directory}: a copy of {label(source)}: {sizes}, {count(statistics.phrases, 'phrase')}")

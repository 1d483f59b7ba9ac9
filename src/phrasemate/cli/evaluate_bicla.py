"""``phrasemate evaluate bicla``: rankers, ensembles and zero-shot transfer in sentence retrieval across languages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phrasemate.cli import evaluate as shared
from phrasemate.cli.given import several
from phrasemate.cli.progress import stages
from phrasemate.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from phrasemate.evaluate.bicla import Floats, TrainedRanker

EXAMPLES = """Examples:

\b
  phrasemate evaluate bicla --data corpora --vectors vectors/
  phrasemate evaluate bicla --data corpora --vectors vectors/ --runs runs/ -o figures
  phrasemate evaluate bicla --data corpora --vectors vectors/ --runs runs/ --only transfer --pairs de-en,cs-en
  phrasemate evaluate bicla --data corpora --vectors vectors/ --first 100 --json"""


class Part(StrEnum):
    """The parts of the evaluation."""

    RANKERS = "rankers"
    ENSEMBLES = "ensembles"
    TRANSFER = "transfer"


def bicla(
    data: Annotated[
        Path, typer.Option("--data", metavar="DIR", help="Folder of the corpora, with sentence_bench/europarl in it.")
    ],
    vectors: Annotated[
        Path,
        typer.Option("--vectors", metavar="DIR", help="Folder of word vectors of one space, one for each language."),
    ],
    runs: Annotated[
        Path | None,
        typer.Option(
            "--runs",
            metavar="DIR",
            help="Folder with the runs of 'phrasemate train bicla' anywhere in it (default: none).",
        ),
    ] = None,
    pairs: Annotated[
        str,
        typer.Option(
            "--pairs", metavar="XX-YY,...", help="Test sets, by source and target language; all of them must be there."
        ),
    ] = "de-en,cs-en,hu-en,cs-de,hu-de,cs-hu",
    only: Annotated[
        str, typer.Option("--only", metavar="PART,...", help="Of rankers, ensembles, transfer (default: all).")
    ] = "",
    bundled: Annotated[
        bool, typer.Option("--bundled/--no-bundled", help="With rows of the bundled encoder, or without.")
    ] = True,
    reranker: Annotated[
        Path | None,
        typer.Option(
            "--reranker", metavar="DIR", help="Re-ranker of the bundled encoder (default: the one that comes with it)."
        ),
    ] = None,
    first: Annotated[
        int, typer.Option("--first", metavar="N", min=0, help="Only the first N sentences of each set (0: all).")
    ] = 0,
    threads: Annotated[
        int | None, typer.Option("--threads", metavar="N", min=1, help="Threads on the CPU (default: all cores).")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Write bicla.json and the heat map, as SVG, here.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the tables.")] = False,
) -> None:
    """Reproduce the evaluation of BiCLA: who finds the translation of a sentence among a thousand?

    Prints MAP of rankers, of ensembles and of zero-shot transfer, the paper's figures beside them, and one line that
    says how they were made. docs/bicla.md says which files are read.
    """
    from phrasemate.evaluate.bicla import Settings, run

    if reranker is not None and not bundled:
        raise typer.BadParameter("--reranker is of the bundled encoder; leave out --no-bundled")
    settings = Settings(
        data=data,
        vectors=vectors,
        pairs=several(pairs),
        parts=shared.parts_of(Part, only),
        bundled=bundled,
        reranker=reranker,
        first=first,
        threads=threads,
        out=folder,
    )
    trained = trained_in(runs, threads) if runs else ()
    with stages() as show:
        result = run(settings, trained, show)
    shared.print_result(result, as_json)


def trained_in(folder: Path, threads: int | None = None) -> Sequence[TrainedRanker]:
    """The trained models of a folder and of those in it. Raises InputError where there is none."""
    try:
        from phrasemate.training.bicla import folders_in
        from phrasemate.training.trainer import chosen_device
    except ImportError as error:
        raise MissingExtra(error.name or "torch", "train") from error
    device = chosen_device("auto", threads)
    found = [_ranker(path, device) for path in folders_in(folder)]
    if not found:
        raise InputError(f"{folder}: no run of 'phrasemate train bicla' in it; leave --runs out to go without")
    return found


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

"""What ``phrasemate index`` does with ``--cluster``: an index of Lance tables, made by Ray workers."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phrasemate.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from phrasemate.index import AddReport, ProgressEvent
    from phrasemate.text import Corpus

Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Let Ray workers do it, on Lance tables at DIR (also s3://BUCKET/PATH): HOST:PORT, auto, or local.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", metavar="N", min=1, help="With --cluster: how many (default: one for each CPU of it)."),
]


def shown(directory: Path) -> str:
    """A place as it was given: a ``Path`` has lost a slash of ``s3://``."""
    from phrasemate.index.lance.uri import is_remote, place_of

    return place if is_remote(place := place_of(directory)) else str(directory)


def refuse_elsewhere(directory: Path) -> None:
    """Raise InputError for a place that is no folder, or none at all: what one machine makes is one."""
    from phrasemate.index.lance.uri import is_tables

    place = shown(directory)
    if (directory / "shards.lance").is_dir() and not is_tables(directory):
        raise InputError(
            f"{place}: Lance tables are being made there, or their making was stopped; to go on, give --cluster ADDRESS"
        )
    if is_tables(directory):
        raise InputError(f"no index at {place}; to make one there, give --cluster ADDRESS (or: local)")


def check(address: str | None, workers: int | None, threads: int | None) -> None:
    """Raises BadParameter for an option that would be passed over."""
    if address is None and workers is not None:
        raise typer.BadParameter("--workers needs --cluster ADDRESS (or: local)")
    if address is not None and threads is not None:
        raise typer.BadParameter("--threads is of one machine; with --cluster, give --workers")


def add_there(
    directory: Path,
    corpus: Corpus,
    address: str,
    workers: int | None,
    folder: Path | None,
    lang: str,
    segment: dict[str, Any],
    progress: Callable[[ProgressEvent], None],
) -> AddReport:
    """Make or extend the tables at ``directory``. Raises InputError for an index of another kind."""
    from phrasemate.encode import load_model
    from phrasemate.index.lance.uri import is_tables
    from phrasemate.index.ray import build

    if (directory / "index.json").exists() and not is_tables(directory):
        raise InputError(f"{directory}: is an index of one machine; add to it without --cluster, or make another")
    model = load_model(folder, threads=1) if folder else None
    return build(
        str(directory), corpus, address, model=model, lang=lang, workers=workers, segment=segment, progress=progress
    )


def optimize_there(directory: Path, address: str, workers: int | None, target_recall: float | None) -> tuple[int, int]:
    """Build the vector index of the tables on the cluster; the bytes before and after.

    Raises InputError for an index of one machine.
    """
    from phrasemate.index.lance.index import ClusterIndex
    from phrasemate.index.lance.uri import is_tables

    if (directory / "index.json").exists() and not is_tables(directory):
        raise InputError(f"{directory}: is an index of one machine; optimize it without --cluster")
    with closing(ClusterIndex.open(directory)) as index:
        before = sum(index.stats().files.values())
        index.optimize(address, workers, target_recall=target_recall)
        return before, sum(index.stats().files.values())

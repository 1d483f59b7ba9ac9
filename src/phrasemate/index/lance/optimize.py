"""Looking after the tables: small files are put together, and Lance's indexes of vectors and of text are built."""

from __future__ import annotations

import logging
from datetime import timedelta
from time import sleep
from typing import Any

from phrasemate.errors import ClusterError, IndexLocked, MissingExtra
from phrasemate.index.lance.commit import Writer
from phrasemate.index.lance.compact import compact
from phrasemate.index.lance.fulltext import update
from phrasemate.index.lance.tables import DATA, PHRASES, SHARDS, STATE, WORDS, Tables, translate_errors
from phrasemate.index.ray.workers import connected, cpus
from phrasemate.index.types import Settings

log = logging.getLogger("phrasemate.index")

KIND = "IVF_RQ"  # one bit a dimension; measured.md: recall@1 .98 on a million vectors
TRIES = 3  # of a build on the cluster: Lance's builder does not survive the loss of a worker
WAIT_SECONDS = 5.0
KEPT = timedelta(hours=1)  # old versions, for readers that have them open
_PER_LIST = 4096  # vectors of an inverted list that Lance recommends
_MOST_LISTS = 4096  # with more, building a billion's would cost more than encoding them (docs/scale.md)
_SAMPLE = 256  # of which it trains each list


def lists_for(phrases: int) -> int:
    """How many inverted lists: one for 4,096 phrases. Training costs their square, so there is an end to it."""
    return max(1, min(phrases // _PER_LIST, _MOST_LISTS))


def optimise(tables: Tables, settings: Settings, cluster: str | None, workers: int | None = None) -> None:
    """Raises IndexLocked, ClusterError, IndexError_. The old state is in force until all is done."""
    writer = Writer(tables)
    for name in DATA:
        compact(tables, name)
    if writer.head.phrases > settings.exact_below:
        if cluster is None:
            _build_here(tables, lists_for(writer.head.phrases))
        else:
            _build_there(tables, lists_for(writer.head.phrases), cluster, workers)
    with translate_errors(tables.place):
        tables.open(SHARDS).optimize.compact_files()  # the order of its rows says nothing
    writer.pin({name: _same(tables, name, writer.head.versions[name]) for name in DATA})
    update(tables, writer)
    for name in (STATE, SHARDS, *DATA, WORDS):
        with translate_errors(tables.place):
            # as of the version in force, which Lance leaves there with all that a worker may have committed since
            tables.open(name, writer.head.versions.get(name)).cleanup_old_versions(older_than=KEPT)


def _same(tables: Tables, name: str, version: int) -> int:
    """The last version of a table, which holds the rows of another one. Raises IndexLocked."""
    last, held = tables.open(name), tables.open(name, version)
    with translate_errors(tables.place):
        if last.count_rows() != held.count_rows():  # an overtaken driver's, which came after it was taken back
            raise IndexLocked(f"{tables.place}: another process has written to this index; give the same command again")
    return int(last.version)


def _recipe(lists: int) -> dict[str, Any]:
    return {"metric": "cosine", "num_partitions": lists, "num_bits": 1, "sample_rate": _SAMPLE, "replace": True}


def _build_here(tables: Tables, lists: int) -> None:
    with translate_errors(tables.place):
        tables.open(PHRASES).create_index("vector", KIND, name="vector_idx", **_recipe(lists))


def _build_there(tables: Tables, lists: int, address: str, workers: int | None) -> None:
    try:
        import lance_ray
    except ImportError as error:
        raise MissingExtra("lance-ray", "ray") from error

    with connected(address, workers):
        there = cpus()
        count = min(workers or there, there)  # lance-ray waits for those that have no CPU
        for attempt in range(1, TRIES + 1):
            try:
                lance_ray.create_index(
                    tables.uri(PHRASES),
                    "vector",
                    KIND,
                    name="vector_idx",
                    num_workers=count,
                    storage_options=tables.options or None,
                    **_recipe(lists),
                )
                return
            except Exception as error:  # whatever a lost worker makes of it: Lance, Ray and Python have their own names
                reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
                if attempt == TRIES:
                    raise ClusterError(
                        f"{tables.place}: the vector index could not be built in {TRIES} attempts, at last: {reason}; "
                        f"the index works without it; run: phrasemate index optimize"
                    ) from error
                log.warning("building the vector index failed (%s); trying again", reason)
                sleep(WAIT_SECONDS)

"""Plan an index in parts for very many phrases: core-hours, hours, bytes and money of each step, from unit costs.

    sentences    = phrases / phrases a sentence
    encoding     = sentences x encode                       all steps on all cores: each machine makes its own parts
    storing      = phrases x store
    search file  = phrases x search file
    wordings     = phrases x wordings
    bytes        = phrases x (bytes stored + bytes mapped)  the first include the vectors of sentences
    memory       = phrases of a machine x bytes mapped      search file, its 8-bit vectors, and the table of wordings
    a query      = ask + parts x (nearest + look up + merge)

The units are seconds of one core. ``--measure INDEX INDEX`` measures them on ordinary indexes, used as parts of one. It
measures ``nearest``, ``look up`` (everything else that an actor does) and ``merge`` of 100 queries. It also measures
``ask`` (encoding, and choosing among the candidates), and the cost of making a copy of the first index. Each unit can
also be given.

    python bench/plan.py --phrases 1e9 --machines 4 --cores 16
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import islice
from pathlib import Path
from typing import Any

from common import plain_parser

from phrasemate import Index, load_model
from phrasemate.evaluate.report import text_table
from phrasemate.index import IndexSettings, faiss_build, wordings
from phrasemate.index.shards import Place, Shard, ShardedIndex
from phrasemate.query import marked
from phrasemate.search import Searcher
from phrasemate.text import words
from phrasemate.types import Document

QUERIES, ENCODED = 100, 1_000  # queries and encoded sentences of a measurement


@dataclass(frozen=True)
class Units:
    """Unit costs, in seconds of one core unless the name says otherwise."""

    phrases_a_sentence: float = 20.75
    encode: float = 7.0e-3  # per sentence
    store: float = 4.6e-6  # per phrase
    search_file: float = 2.5e-5  # per phrase, in 2,048 lists; without lists 6e-6 (results/log/scale.md)
    wordings: float = 8.8e-6  # per phrase
    bytes_stored: float = 272.0  # per phrase, with its share of the sentence
    bytes_mapped: float = 261.0  # per phrase
    ask: float = 0.0218
    nearest: float = 1.9e-3  # in a part of ten million phrases (results/log/scale.md)
    look_up: float = 9.4e-4  # in a part
    merge: float = 0.0  # per part; too little to measure inside one process, which has no messages of Ray
    core_hour: float = 0.05  # price of a cloud, not measured
    gigabyte_month: float = 0.023  # price of a cloud, not measured


@dataclass(frozen=True)
class Step:
    """Step of the plan: ``core_hours`` of work, and the ``bytes`` that it leaves."""

    name: str
    core_hours: float
    bytes: float = 0.0


def steps(phrases: float, units: Units) -> list[Step]:
    """Return all steps in their order."""
    seconds = {
        "encode": phrases / units.phrases_a_sentence * units.encode,
        "store": phrases * units.store,
        "search file": phrases * units.search_file,
        "wordings": phrases * units.wordings,
    }
    sizes = {"store": phrases * units.bytes_stored, "search file": phrases * units.bytes_mapped}
    return [Step(name, value / 3600, sizes.get(name, 0.0)) for name, value in seconds.items()]


def table(phrases: float, units: Units, machines: int, cores: int) -> str:
    """Return the plan as text; each core of each machine has a part."""
    plan, parts = steps(phrases, units), machines * cores
    plan.append(Step("all", sum(step.core_hours for step in plan), sum(step.bytes for step in plan)))
    rows = [[s.name, s.core_hours, s.core_hours / parts, s.bytes / 1e9, s.core_hours * units.core_hour] for s in plan]
    header = ["step", "core-hours", "hours", "GB", "cost"]
    text = text_table(header, [[name, *(f"{number:,.1f}" for number in numbers)] for name, *numbers in rows])
    part = units.nearest + units.look_up
    query, latency = units.ask + parts * (part + units.merge), units.ask + part + parts * units.merge
    size, memory = plan[-1].bytes / 1e9, phrases / machines * units.bytes_mapped / 1e9
    return (
        f"{text}\n{parts} parts of {phrases / parts / 1e6:,.1f} million phrases; {memory:,.0f} GB of memory a machine\n"
        f"a query {1e3 * query:,.0f} core-ms, at least {1e3 * latency:,.0f} ms; "
        f"keeping {size:,.0f} GB {size * units.gigabyte_month:,.0f} a month"
    )


class Timed:
    """Caller that asks parts in this process, and counts the processor time of their answers by question."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._shards = [Shard(Index.open, str(folder), 1, None) for folder in folders]
        self.seconds: Counter[str] = Counter()

    def ask(self, question: str, arguments: Mapping[int, tuple[Any, ...]]) -> dict[int, tuple[int, Any]]:
        started = time.process_time()
        answers = {number: self._shards[number].answer(question, *values) for number, values in arguments.items()}
        self.seconds[question] += time.process_time() - started  # type: ignore[assignment]
        return answers

    def close(self) -> None: ...


class TimedModel:
    """Model that counts the processor time of finding and encoding phrases."""

    def __init__(self, model: Any) -> None:
        self._model, self.seconds = model, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def extract(self, *arguments: Any, **options: Any) -> Any:
        started = time.process_time()
        extracted = self._model.extract(*arguments, **options)
        self.seconds += time.process_time() - started
        return extracted


def timed(call: Callable[..., Any], *arguments: Any, **options: Any) -> float:
    """Return the processor seconds of a call."""
    started = time.process_time()
    call(*arguments, **options)
    return time.process_time() - started


def seconds_of(searcher: Searcher, queries: Sequence[str]) -> float:
    """Return the processor seconds of all queries, one after another."""
    return timed(lambda: [searcher.search(query) for query in queries])


def measure(folders: Sequence[Path]) -> Units:
    """Measure the units on indexes that serve as parts."""
    model = load_model(threads=1).warm_up()
    caller = Timed(folders)
    with ShardedIndex("parts", caller, [Place(str(folder)) for folder in folders], model, 1) as parts:
        texts = [row.text for row in islice(parts.store.all_sentences(), ENCODED)]
        searcher, stats = Searcher(parts, model), parts.stats()
        queries = [marked(text, *words(text)[0]) for text in texts if words(text) and "[" not in text][:QUERIES]
        count = len(queries)
        with Index.open(folders[0], model, readonly=True, threads=1) as index:
            whole = Searcher(index, model)
            seconds_of(searcher, queries)  # warm-up
            seconds_of(whole, queries)
            caller.seconds.clear()
            spent, alone = seconds_of(searcher, queries), seconds_of(whole, queries)
    nearest = caller.seconds["nearest"] / count / len(folders)
    actors = caller.seconds.total() / count / len(folders)
    ask = max(0.0, alone / count - actors)
    mapped = sum(size for name, size in stats.files.items() if name.startswith(("vectors", "wordings")))
    making = made_again(folders[0], model, texts)
    return Units(
        phrases_a_sentence=stats.phrases / stats.sentences,
        bytes_stored=(sum(stats.files.values()) - mapped) / stats.phrases,
        bytes_mapped=mapped / stats.phrases,
        ask=ask,
        nearest=nearest,
        look_up=actors - nearest,
        merge=max(0.0, (spent / count - ask) / len(folders) - actors),
        **making,
    )


def made_again(folder: Path, model: Any, texts: Sequence[str]) -> dict[str, float]:
    """Measure the processor seconds of each step of making an index: of its derived files, and of some sentences."""
    with tempfile.TemporaryDirectory() as work:
        shutil.copytree(folder, Path(work, "copy"))
        with Index.open(Path(work, "copy"), model, threads=1) as index:
            phrases = index.stats().phrases
            file = timed(faiss_build.build, index.store, IndexSettings(), 1) / phrases
            listing = timed(wordings.update, index.store, whole=True) / phrases
        encoder = TimedModel(model)
        with Index.create(Path(work, "new"), encoder, threads=1) as index:  # type: ignore[arg-type]
            added = timed(index.add, [Document.from_texts("texts", texts)], lang="en")
            store = (added - encoder.seconds) / index.stats().phrases - listing
    return {"encode": encoder.seconds / len(texts), "store": max(0.0, store), "search_file": file, "wordings": listing}


def main() -> None:
    options = plain_parser(__doc__)
    options.add_argument("--phrases", type=float, default=1e9)
    options.add_argument("--machines", type=int, default=4)
    options.add_argument("--cores", type=int, default=16, help="cores of each machine (default: %(default)s)")
    options.add_argument("--measure", type=Path, nargs="+", metavar="INDEX", help="measure the units on these parts")
    for unit in fields(Units):
        options.add_argument(f"--{unit.name.replace('_', '-')}", type=float)
    args = vars(options.parse_args())
    phrases, machines, cores, folders = (args.pop(name) for name in ("phrases", "machines", "cores", "measure"))
    units = asdict(measure(folders) if folders else Units()) | {k: v for k, v in args.items() if v is not None}
    if folders:
        print("\n".join(f"{name:20}{value:.6g}" for name, value in units.items()))
    print(table(phrases, Units(**units), machines, cores))


if __name__ == "__main__":
    main()

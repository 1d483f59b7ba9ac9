"""The lookup yardstick as one run: systems, collections, tables, signature."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from phrasemate.encode import Model, load_model
from phrasemate.errors import InputError, ReadError
from phrasemate.evaluate.ccpr import parse_row
from phrasemate.evaluate.data import digest
from phrasemate.evaluate.idioms import read_idioms
from phrasemate.evaluate.lookup import LookupQuery, answerable, lookup_tables, ranks, read_lookups
from phrasemate.evaluate.lookup_systems import DICTIONARY, SYSTEMS, Collection, Systems
from phrasemate.evaluate.report import Result, signature, write_json
from phrasemate.evaluate.significance import check_seed
from phrasemate.lexicon import bundled_lexicon
from phrasemate.text import split_sentences

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Settings:
    """What to ask, of which systems.

    ``folder``: what ``bench/lookup_set.py`` wrote. ``sizes``: of the collections, in sentences. ``langs``: none for
    all. ``models``: systems as ``NAME=FOLDER``. ``systems``: those to ask, none for all. ``against``: the system that p
    compares with, "" for the first. ``work``: where indexes are kept, None for a temporary folder. ``idioms``: a file
    of `phrasemate.evaluate.idioms`, to be asked, too, of the smallest collection and the file's sentences.
    """

    folder: Path
    sizes: tuple[int, ...] = (20_000,)
    half: str = "dev"
    langs: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    against: str = ""
    work: Path | None = None
    idioms: Path | None = None
    threads: int | None = None
    seed: int = 0
    out: Path | None = None


def run(settings: Settings, progress: Progress = lambda stage, count, total: None) -> Result:
    """Ask and count. Raises InputError before anything is computed where the set is not there, or not as expected."""
    check_seed(settings.seed)
    queries, files = _queries(settings)
    collections = [_collection(settings.folder / f"english-{size}.txt") for size in sorted(set(settings.sizes))]
    tasks = [(queries, collection) for collection in collections]
    if settings.idioms is not None:
        idioms, sentences = read_idioms(settings.idioms, seed=settings.seed)
        base = collections[0]
        tasks.append((idioms, Collection(f"idioms-{base.name}", [*base.sentences, *sentences], base)))
        files.append(settings.idioms)
    rows = {row.name: row.folder for row in map(parse_row, settings.models)}
    names = _names(settings, list(rows))
    bundled = load_model(None, settings.threads)
    models = {name: load_model(folder, settings.threads) for name, folder in rows.items() if name in names}
    result = Result()
    with ExitStack() as stack:
        work = settings.work or Path(stack.enter_context(TemporaryDirectory(prefix="phrasemate-")))
        work.mkdir(parents=True, exist_ok=True)
        systems = Systems(bundled, models, work, settings.threads)
        for questions, collection in tasks:
            _ask(settings, names, systems, questions, collection, result, progress)
    named: dict[str, Model] = models | {"bundled": bundled}
    facts = {"data": digest([*files, *(settings.folder / f"{collection.name}.txt" for collection in collections)])}
    result.signature = signature(named, **facts, half=settings.half, seed=settings.seed)
    if settings.out is not None:
        settings.out.mkdir(parents=True, exist_ok=True)
        path = settings.out / "lookup.json"
        write_json(path, result.tables, result.signature, result.more)
        result.written = [path]
    return result


def _queries(settings: Settings) -> tuple[list[LookupQuery], list[Path]]:
    """The queries of the languages, and the files that hold them."""
    paths = {path.stem: path for path in sorted(settings.folder.glob("*.jsonl"))}
    if not paths:
        raise InputError(f"{settings.folder}: no queries in it; expected XX.jsonl as bench/lookup_set.py writes them")
    unknown = [lang for lang in settings.langs if lang not in paths]
    if unknown:
        raise InputError(f"--langs: no queries of {', '.join(unknown)}; there are {', '.join(paths)}")
    files = [paths[lang] for lang in settings.langs or paths]
    return [query for path in files for query in read_lookups(path, settings.half)], files


def _collection(path: Path) -> Collection:
    """The sentences of a file, of which a line may hold several.

    Raises InputError where it is missing, ReadError where it is not UTF-8 or empty.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; expected English sentences, one a line") from error
    except UnicodeDecodeError as error:
        raise ReadError(str(path), 0, f"not UTF-8 ({error.reason})", "convert it to UTF-8") from error
    sentences = [line[start:end] for line in lines for start, end in split_sentences(line, "en")]
    if not sentences:
        raise ReadError(str(path), 0, "an empty file", "expected English sentences, one a line")
    return Collection(path.stem, sentences)


def _names(settings: Settings, models: list[str]) -> list[str]:
    """The systems that are asked, in the order of their rows. Raises InputError for an unknown one."""
    systems = [*models, *SYSTEMS]
    if len(set(systems)) < len(systems) or len(models) < len(settings.models):
        raise InputError(f"--model {', '.join(settings.models)}: two rows of one name; there are {', '.join(SYSTEMS)}")
    for name in [*settings.systems, *filter(None, [settings.against])]:
        if name not in systems:
            raise InputError(f"no system {name!r}; there are {', '.join(systems)}")
    names = [name for name in systems if not settings.systems or name in settings.systems]
    if not settings.systems and bundled_lexicon() is None:
        names.remove(DICTIONARY)
    if settings.against and settings.against not in names:
        raise InputError(f"--against {settings.against}: not among the systems asked, {', '.join(names)}")
    return names


def _ask(
    settings: Settings,
    names: list[str],
    systems: Systems,
    queries: list[LookupQuery],
    collection: Collection,
    result: Result,
    progress: Progress,
) -> None:
    """Add the tables of a collection, and each system's ranks, -1 for a query without a right answer."""
    able = answerable(queries, collection.sentences)
    queries = [query for query, yes in zip(queries, able, strict=True) if yes]
    if not queries:
        raise InputError(f"{collection.name}: no query with a right wording in it")
    systems_ranks = {name: ranks(queries, systems.answers(name, collection, queries, progress)) for name in names}
    what = f"{settings.half} half, {collection.name}" if collection.base is None else collection.name
    result.tables += lookup_tables(queries, systems_ranks, settings.against or names[0], what, settings.seed)
    places = {
        name: np.where(np.isinf(system.right), -1, system.right).astype(int).tolist()
        for name, system in systems_ranks.items()
    }
    result.more[f"ranks {collection.name}"] = places

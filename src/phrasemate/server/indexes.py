"""The indexes that are served: opened once, shared by all requests, opened again when their folder was rebuilt."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import numpy as np

from phrasemate.errors import IndexMissing, InputError, ModelError, PhraseIndexError, PhrasemateError, ReadError
from phrasemate.index import BaseIndex, Index
from phrasemate.index.lance.tables import is_remote, is_tables, place_of
from phrasemate.index.manifest import SHARDS_JSON, Manifest
from phrasemate.index.store import check_model
from phrasemate.lexicon import Lexicon
from phrasemate.lexicon.separable_verbs import separable_verbs
from phrasemate.results import SearchRequest
from phrasemate.search import Searcher
from phrasemate.server.batching import SharedModel, SharedSearcher
from phrasemate.server.errors import Refusal
from phrasemate.server.settings import Settings
from phrasemate.server.tokens import allowed, demand
from phrasemate.types import Phrase

CHECK_SECONDS = 1.0  # between two looks at the folder of an index
RETRY_SECONDS = 10.0  # until a folder that cannot be opened is tried again, if nothing has changed in it

_GERMAN = Phrase("Der Zug kommt heute an.", 4, 7)

log = logging.getLogger("phrasemate.server")

Answer = TypeVar("Answer")


class Library:
    """The indexes in ``folders``, each under the name of its folder.

    All that was built with one model shares it. What a writer commits is seen by the next search. A folder that was
    rebuilt is opened again, and the old one is closed when the last request has left it. Raises PhraseIndexError or
    ModelError for an index that cannot be used.

    Args:
        model: For tests: used instead of the one that an index names.
        views: As in `Searcher`.
        dictionaries: Propose candidates in all indexes.
    """

    def __init__(
        self,
        folders: Sequence[str | Path],
        settings: Settings | None = None,
        threads: int | None = None,
        model: Any = None,
        views: bool = True,
        dictionaries: Sequence[Lexicon] = (),
    ) -> None:
        self.settings = settings or Settings()
        self.dictionaries = tuple(dictionaries)
        self._models = _Models(self.settings, threads, model)
        self._workers = ThreadPoolExecutor(self.settings.threads, "worker")
        self._shelves: dict[str, _Shelf] = {}
        try:
            for name, folder in _named([Path(folder) for folder in folders]).items():
                self._shelves[name] = _Shelf(name, folder, self._models, threads, views, self.dictionaries)
        except BaseException:
            self.close()
            raise

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the indexes that the user may read, in the order in which they were given.

        Raises Refusal where there is none.
        """
        names = tuple(name for name in self._shelves if allowed("read", name))
        if not names:
            demand("read")
        return names

    @property
    def whole(self) -> bool:
        """Whether the user may read every index that is served."""
        return all(allowed("read", name) for name in self._shelves)

    @contextmanager
    def use(self, name: str = "") -> Iterator[Searcher]:
        """A searcher on the index of that name (default: the first). To be called in a worker's thread, see `ask`.

        Raises Refusal for a name that is not there, or an index that cannot be used any more.
        """
        shelf = self._shelves.get(name or self.names[0])
        if shelf is None:
            raise Refusal("unknown_index", f"there is no index {name[:100]!r}; there are: {', '.join(self.names)}")
        demand("read", shelf.name)
        with shelf.use() as searcher:
            yield searcher

    def ask(self, name: str, question: Callable[[Searcher], Answer]) -> Answer:
        """``question`` of a searcher on an index: call it as ``await app.work(library.ask, name, question)``."""
        with self.use(name) as searcher:
            return question(searcher)

    def submit(self, work: Callable[..., Answer], *arguments: Any) -> Any:
        """Have a worker's thread call ``work``: a `concurrent.futures.Future`."""
        return self._workers.submit(copy_context().run, work, *arguments)  # with the user of the request

    def problems(self) -> dict[str, str]:
        """Why indexes cannot be used, by their names; empty if all can."""
        reasons = {name: shelf.problem() for name, shelf in self._shelves.items()}
        return {name: reason for name, reason in reasons.items() if reason}

    def reload(self) -> dict[str, str]:
        """Open all indexes again; requests that run finish on what was open. Reasons of those that cannot be opened.

        An index that cannot be opened is served as it was.
        """
        reasons = {name: shelf.reload() for name, shelf in self._shelves.items()}
        return {name: reason for name, reason in reasons.items() if reason}

    @property
    def passes(self) -> tuple[int, int]:
        """Numbers of calls of the encoders, and of passes that these took."""
        return self._models.passes

    def close(self) -> None:
        """Close all, when what is being worked on is done."""
        self._workers.shutdown(cancel_futures=True)
        for shelf in self._shelves.values():
            shelf.close()
        self._models.close()


class _Models:
    """Models by their hash, each for as long as an open index uses it."""

    def __init__(self, settings: Settings, threads: int | None, model: Any) -> None:
        self._settings, self._threads, self._given = settings, threads, model
        self._loaded: dict[str, SharedModel] = {}
        self._users: Counter[str] = Counter()  # open indexes
        self._past = (0, 0)  # passes of those that are gone: what is counted never falls
        self._loading, self._lock = Lock(), Lock()

    def of(self, folder: Path, manifest: Manifest) -> SharedModel:
        """The model that the index was built with, until `release`. Raises ModelMismatch if another is in its place."""
        from phrasemate.encode import load_model

        with self._loading:
            with self._lock:  # `release` does not wait for a model to load
                if (common_model := self._loaded.get(manifest.model_hash)) is not None:
                    self._users[manifest.model_hash] += 1  # at once: the last index that uses it may just be closed
                    return common_model
            if (model := self._given) is None:
                model = load_model(manifest.model_path, threads=self._threads).warm_up()
                separable_verbs(_GERMAN.context, "de")  # loads the word list that the first German text needs
            check_model(folder, manifest, model)
            common_model = SharedModel(model, self._settings.vectors)
            with self._lock:
                self._loaded[manifest.model_hash] = common_model
                self._users[manifest.model_hash] += 1
            return common_model

    def release(self, model_hash: str) -> None:
        """One index less uses it; an index rebuilt with another model does not keep them all."""
        with self._lock:
            self._users[model_hash] -= 1
            if not self._users[model_hash] and (idle_model := self._loaded.pop(model_hash, None)) is not None:
                batches = idle_model.batches
                self._past = (self._past[0] + batches.calls, self._past[1] + batches.passes)
                idle_model.close()

    @property
    def passes(self) -> tuple[int, int]:
        with self._lock:
            batches = [model.batches for model in self._loaded.values()]
            requests, passes = self._past
        return requests + sum(item.calls for item in batches), passes + sum(item.passes for item in batches)

    def close(self) -> None:
        for model in self._loaded.values():
            model.close()


class _Stamp(NamedTuple):
    """Identity of a folder among others in its place: the store's file, index.json and the folder of dictionaries.

    The last two as they were last written. Of Lance tables it is the folder of their head, of an index in parts the
    file that names them.
    """

    store: tuple[int, int]
    manifest: tuple[int, int]
    dictionaries: tuple[int, int] = (0, 0)


class _OpenFailure(NamedTuple):
    """Index that could not be opened, and until when it is not tried again."""

    stamp: _Stamp
    error: PhrasemateError
    until: float


@dataclass(slots=True)
class _OpenIndex:
    """An open index; ``users`` requests are in it."""

    index: BaseIndex
    searcher: SharedSearcher
    stamp: _Stamp
    model_hash: str
    users: int = 0
    retired: bool = False


class _Shelf:
    """Place for an index."""

    def __init__(
        self,
        name: str,
        folder: Path,
        models: _Models,
        threads: int | None,
        views: bool,
        dictionaries: tuple[Lexicon, ...] = (),
    ) -> None:
        self._dictionaries = dictionaries
        self.name, self._folder, self._models, self._threads, self._views = name, folder, models, threads, views
        self._lock, self._opening = Lock(), Lock()
        self._looked = time.monotonic()
        self._refused: _OpenFailure | None = None
        self._open: _OpenIndex = self._opened()

    @contextmanager
    def use(self) -> Iterator[Searcher]:
        try:
            self._look()
        except (PhraseIndexError, ModelError) as error:
            log.error("index %s: %s", self.name, error)
            raise
        with self._lock:
            library_index = self._open
            library_index.users += 1
        try:
            yield library_index.searcher
        except (PhraseIndexError, ModelError):
            log.exception("index %s", self.name)
            raise
        except InputError as error:
            path = str(library_index.index.path)
            if isinstance(error, ReadError) or path not in str(error):
                raise
            raise InputError(
                str(error).replace(path, self.name)
            ) from error  # clients do not learn where the index lies
        finally:
            with self._lock:
                library_index.users -= 1
                if library_index.retired and not library_index.users:
                    self._close(library_index)

    def close(self) -> None:
        with self._lock:
            self._retire(self._open)

    def problem(self) -> str:
        """Why the index cannot be used; "" if it can."""
        try:
            self._look()
        except (PhraseIndexError, ModelError) as error:
            return str(error)
        return ""

    def reload(self) -> str:
        """Open the folder again, whether it has changed or not; why that is not possible, or ""."""
        with self._opening:
            try:
                self._replace(self._opened())
            except PhrasemateError as error:
                log.error("index %s: %s", self.name, error)
                return str(error)
        return ""

    def _replace(self, opened: _OpenIndex) -> None:
        with self._lock:
            old, self._open = self._open, opened
            self._retire(old)
        log.info("index %s: opened again", self.name)

    def _look(self) -> None:
        """Open the folder again if it is another one; who comes meanwhile takes the old one."""
        if time.monotonic() - self._looked < CHECK_SECONDS or not self._opening.acquire(blocking=False):
            return
        try:
            stamp = _stamp(self._folder)
            if stamp != self._open.stamp and self._is_another(stamp):
                self._replace(self._tried(stamp))
            self._looked = time.monotonic()
        finally:
            self._opening.release()

    def _is_another(self, stamp: _Stamp) -> bool:
        if (self._folder / SHARDS_JSON).is_file():
            return True
        manifest, old = _manifest(self._folder), self._open.stamp
        same_files = (stamp.store, stamp.dictionaries) == (old.store, old.dictionaries)
        if same_files and manifest.model_hash == self._open.index.manifest.model_hash:
            self._open.stamp = stamp  # only grown: the open one sees that by itself
            return False
        return True

    def _tried(self, stamp: _Stamp) -> _OpenIndex:
        """`_opened`, but what could not be opened, for which a model may be loaded, is not tried at each request."""
        if self._refused is not None and self._refused.stamp == stamp and time.monotonic() < self._refused.until:
            raise self._refused.error.with_traceback(None)
        try:
            new_index = self._opened()
        except PhrasemateError as error:
            self._refused = _OpenFailure(stamp, error, time.monotonic() + RETRY_SECONDS)
            raise
        self._refused = None
        return new_index

    def _opened(self) -> _OpenIndex:
        stamp = _stamp(self._folder)
        index = Index.open(self._folder, readonly=True, threads=self._threads)
        manifest = index.manifest
        try:
            model = self._models.of(self._folder, manifest)
            try:
                index.take(model.base)
                _warm_up(Searcher(index, model, self._views, self._dictionaries))
                searcher = SharedSearcher(index, model, self._views, self._dictionaries)
            except BaseException:
                self._models.release(manifest.model_hash)
                raise
        except BaseException:
            index.close()
            raise
        return _OpenIndex(index, searcher, stamp, manifest.model_hash)

    def _retire(self, old: _OpenIndex) -> None:
        old.retired = True
        if not old.users:
            self._close(old)

    def _close(self, old: _OpenIndex) -> None:
        old.searcher.close()
        old.index.close()
        self._models.release(old.model_hash)


def _warm_up(searcher: Searcher) -> None:
    """Have the first search load nothing: neither vectors nor wordings nor dictionaries."""
    zeros = np.zeros((1, searcher.index.manifest.dim), np.float32)
    if searcher.scorer is None:
        searcher.index.search(zeros, 1)
    else:
        searcher.search_vectors(zeros, SearchRequest(1), alone=zeros, phrases=[_GERMAN])


def _manifest(folder: Path) -> Manifest:
    if is_tables(folder):
        with Index.open(folder, readonly=True) as index:
            return index.manifest
    return Manifest.read(folder / "index.json")


def _stamp(folder: Path) -> _Stamp:
    if is_remote(place_of(folder)):  # the open index sees changes
        return _Stamp((0, 0), (0, 0))
    try:
        if is_tables(folder):
            return _stamp_of(Path(place_of(folder), "state.lance").stat())
        if (folder / SHARDS_JSON).is_file():
            return _stamp_of((folder / SHARDS_JSON).stat())
        store, manifest = (folder / "store.sqlite").stat(), (folder / "index.json").stat()
    except OSError as error:
        raise IndexMissing(f"no index at {folder}; make one with: phrasemate index TEXT -o DIR") from error
    return _Stamp(
        (store.st_dev, store.st_ino), (manifest.st_ino, manifest.st_mtime_ns), _written(folder / "dictionaries")
    )


def _written(folder: Path) -> tuple[int, int]:
    """Identity of a folder, and when a file was last added to it or removed; zeros if there is none."""
    try:
        status = folder.stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns


def _stamp_of(file: os.stat_result) -> _Stamp:
    return _Stamp((file.st_dev, file.st_ino), (file.st_ino, file.st_mtime_ns))


def _named(folders: Sequence[Path]) -> dict[str, Path]:
    """List each folder under its name; the second ``idx`` is ``idx-2``."""
    if not folders:
        raise InputError("no index was given; expected one folder or more")
    index_folders: dict[str, Path] = {}
    counts: Counter[str] = Counter()
    for folder in folders:
        name = base = folder.resolve().name or "index"
        while name in index_folders:
            counts[base] += 1
            name = f"{base}-{counts[base] + 1}"
        index_folders[name] = folder
    return index_folders

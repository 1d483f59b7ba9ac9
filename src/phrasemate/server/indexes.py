"""Indexes of the server: opened once, shared by all requests, and reopened when their folder is rebuilt."""

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

from phrasemate.errors import (
    IndexDamaged,
    IndexMissing,
    InputError,
    ModelError,
    PhraseIndexError,
    PhrasemateError,
    ReadError,
)
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

CHECK_SECONDS = 1.0  # minimum time between two checks of an index folder for changes
RETRY_SECONDS = 10.0  # time until a folder that could not be opened, and has not changed, is tried again

_GERMAN = Phrase("Der Zug kommt heute an.", 4, 7)

log = logging.getLogger("phrasemate.server")

Answer = TypeVar("Answer")


class Library:
    """The served indexes, each under the name of its folder.

    Indexes that were built with the same model share it. The next search sees what a writer has committed. A rebuilt
    folder is reopened, and the old index is closed after its last request. Raises PhraseIndexError or ModelError for an
    index that cannot be used.

    Args:
        folders: Folders of the indexes.
        settings: Limits of the server.
        threads: Threads of the encoder (None: all cores).
        model: For tests: used instead of the models of the indexes.
        views: As in `Searcher`.
        dictionaries: Dictionaries that propose candidates in all indexes.
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
        """Names of the indexes that the user may read, in the order of the folders. Raises Refusal if there is none."""
        names = tuple(name for name in self._shelves if allowed("read", name))
        if not names:
            raise Refusal("forbidden", "your token has the right 'read' for no index of this server")
        return names

    @property
    def whole(self) -> bool:
        """Whether the user may read every index."""
        return all(allowed("read", name) for name in self._shelves)

    @contextmanager
    def use(self, name: str = "") -> Iterator[Searcher]:
        """Yield a searcher on the index of this name (default: the first). Call it in a worker thread, as `ask` does.

        Raises Refusal for an unknown name, PhraseIndexError or ModelError for an index that cannot be used any more.
        """
        shelf = self._shelves.get(name or self.names[0])
        if shelf is None:
            raise Refusal("unknown_index", f"there is no index {name[:100]!r}; there are: {', '.join(self.names)}")
        demand("read", shelf.name)
        with shelf.use() as searcher:
            yield searcher

    def ask(self, name: str, question: Callable[[Searcher], Answer]) -> Answer:
        """Call ``question`` with a searcher on an index: ``await work(library, library.ask, name, question)``."""
        with self.use(name) as searcher:
            return question(searcher)

    def submit(self, work: Callable[..., Answer], *arguments: Any) -> Any:
        """Call ``work`` in a worker thread. Returns a `concurrent.futures.Future`."""
        return self._workers.submit(copy_context().run, work, *arguments)  # the context has the user of the request

    def problems(self) -> dict[str, str]:
        """Return index name -> reason for the indexes that cannot be used."""
        reasons = {name: shelf.problem() for name, shelf in self._shelves.items()}
        return {name: reason for name, reason in reasons.items() if reason}

    def reload(self) -> dict[str, str]:
        """Reopen all indexes. Returns index name -> reason for those that cannot be opened and are served as before.

        Running requests finish on the old indexes.
        """
        reasons = {name: shelf.reload() for name, shelf in self._shelves.items()}
        return {name: reason for name, reason in reasons.items() if reason}

    @property
    def passes(self) -> tuple[int, int]:
        """Number of calls of the encoders, and number of passes (batches) for them."""
        return self._models.passes

    def close(self) -> None:
        """Close all indexes and models after the running requests."""
        self._workers.shutdown(cancel_futures=True)
        for shelf in self._shelves.values():
            shelf.close()
        self._models.close()


class _Models:
    """Models by hash, each kept as long as an open index uses it."""

    def __init__(self, settings: Settings, threads: int | None, model: Any) -> None:
        self._settings, self._threads, self._given = settings, threads, model
        self._loaded: dict[str, SharedModel] = {}
        self._users: Counter[str] = Counter()  # model hash -> number of open indexes
        self._past = (0, 0)  # calls and passes of models that are gone: metrics must never decrease
        self._loading, self._lock = Lock(), Lock()

    def of(self, folder: Path, manifest: Manifest) -> SharedModel:
        """Return the model that an index was built with; call `release` after use. Raises ModelMismatch for another."""
        from phrasemate.encode import load_model

        with self._loading:
            with self._lock:  # not held while a model loads, so that `release` need not wait
                if (common_model := self._loaded.get(manifest.model_hash)) is not None:
                    self._users[manifest.model_hash] += 1  # under the lock: its last index may be closing
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
        """Give up one use of a model, and close the model after the last use."""
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
    """Fingerprint of an index folder, to notice changes: of its store, its index.json and its dictionaries.

    For index.json and dictionaries it includes the time of the last change. Lance tables have the fingerprint of their
    folder state.lance, an index in parts that of the file that lists the parts.
    """

    store: tuple[int, int]
    manifest: tuple[int, int]
    dictionaries: tuple[int, int] = (0, 0)


class _OpenFailure(NamedTuple):
    """Failed attempt to open an index, which is not repeated before the time ``until``."""

    stamp: _Stamp
    error: PhrasemateError
    until: float


@dataclass(slots=True)
class _OpenIndex:
    """An open index; ``users`` is the number of requests that use it."""

    index: BaseIndex
    searcher: SharedSearcher
    stamp: _Stamp
    model_hash: str
    users: int = 0
    retired: bool = False


class _Shelf:
    """One served index: the open index, reopened when its folder changes."""

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
        self._look()
        with self._lock:
            library_index = self._open
            library_index.users += 1
        try:
            yield library_index.searcher
        except (PhraseIndexError, ModelError) as error:
            log.exception("index %s", self.name)
            if isinstance(error, IndexDamaged):
                library_index.searcher.damage = str(error)
            raise
        except InputError as error:
            path = str(library_index.index.path)
            if isinstance(error, ReadError) or path not in str(error):
                raise
            # clients must not learn the path of the index
            raise InputError(str(error).replace(path, self.name)) from error
        finally:
            with self._lock:
                library_index.users -= 1
                if library_index.retired and not library_index.users:
                    self._close(library_index)

    def close(self) -> None:
        with self._lock:
            self._retire(self._open)

    def problem(self) -> str:
        """Return why the index cannot be used, or "". An open index is asked nothing, so this waits for no search."""
        try:
            self._look()
        except (PhraseIndexError, ModelError) as error:
            return str(error)
        return self._open.searcher.damage

    def reload(self) -> str:
        """Reopen the folder, even if it has not changed. Returns why it cannot be opened, or ""."""
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
        """Reopen the folder if it was rebuilt; other requests use the old index in the meantime.

        Logs and raises PhraseIndexError or ModelError if it cannot be opened.
        """
        if time.monotonic() - self._looked < CHECK_SECONDS or not self._opening.acquire(blocking=False):
            return
        try:
            stamp = _stamp(self._folder)
            if stamp != self._open.stamp and self._is_another(stamp):
                self._replace(self._tried(stamp))
            self._looked = time.monotonic()
        except (PhraseIndexError, ModelError) as error:
            log.error("index %s: %s", self.name, error)
            raise
        finally:
            self._opening.release()

    def _is_another(self, stamp: _Stamp) -> bool:
        if (self._folder / SHARDS_JSON).is_file():
            return True
        manifest, old = _manifest(self._folder), self._open.stamp
        same_files = (stamp.store, stamp.dictionaries) == (old.store, old.dictionaries)
        if same_files and manifest.model_hash == self._open.index.manifest.model_hash:
            self._open.stamp = stamp  # documents were added or deleted, which the open index sees by itself
            return False
        return True

    def _tried(self, stamp: _Stamp) -> _OpenIndex:
        """Open the folder, but repeat a failed attempt only after `RETRY_SECONDS`: it may load a model each time."""
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
    """Search once, to load vectors, wordings and dictionaries before the first request."""
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
    if is_remote(place_of(folder)):  # the open index sees changes by itself
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
    """Return the inode of a folder and the time when a file was last added or removed; zeros if it is missing."""
    try:
        status = folder.stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns


def _stamp_of(file: os.stat_result) -> _Stamp:
    return _Stamp((file.st_dev, file.st_ino), (file.st_ino, file.st_mtime_ns))


def _named(folders: Sequence[Path]) -> dict[str, Path]:
    """Map names to folders; the second folder named ``idx`` is ``idx-2``."""
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

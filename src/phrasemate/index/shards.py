"""One index in several parts: ordinary indexes, each opened by an actor of a Ray cluster, searched as one.

A folder with ``shards.json`` names the parts. The program that searches encodes the query, asks all parts at once, and
merges what they say. Ids of documents, sentences and phrases are those of the part, with its number in front. So
everything that reads an `Index` reads this one, and the same candidates get the same scores as in one index of all.

A part is read as it was when its actor opened it. docs/how-to/many-machines.md explains it.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import ClusterError, IndexDamaged, InputError, ModelMismatch, PhrasemateError, first_line
from phrasemate.index import row_codec
from phrasemate.index.base import BaseIndex
from phrasemate.index.exact import Runs, best
from phrasemate.index.fulltext import check
from phrasemate.index.manifest import SHARDS_JSON, Manifest
from phrasemate.index.ray import Failure, connect, ray
from phrasemate.index.store import SentenceRow, State, Store, check_model
from phrasemate.index.types import (
    ALL_IDS,
    DocumentInfo,
    IdRange,
    IndexModel,
    IndexSettings,
    IndexStats,
    Scope,
    VerifyReport,
)
from phrasemate.index.wordings import Wordings, WordingSearch
from phrasemate.utils.arrays import Floats, Ids

BITS = 40  # lower bits of an id: the id within the part; the upper bits are the number of the part
MOST = 1 << 13  # parts: ids stay exact as floats, as JavaScript has them
PATIENCE = 60.0  # seconds to wait for an answer; a part may have to be opened again first
_LOCAL = (1 << BITS) - 1
_PAGE = 1024  # sentences that a part sends at once


Opener = Callable[..., BaseIndex]  # `Index.open`


class Place(NamedTuple):
    """Location of a part: its folder, and the address of the machine that has it; "" if all machines have it."""

    folder: str
    node: str = ""


@dataclass(frozen=True, slots=True)
class ShardsFile:
    """Content of ``shards.json``: the address of the Ray cluster, and the places of the parts.

    >>> import json, pathlib
    >>> folder = pathlib.Path("corpus")
    >>> folder.mkdir()
    >>> _ = (folder / "shards.json").write_text(json.dumps({"cluster": "local", "shards": ["/srv/a", "/srv/b"]}))
    >>> ShardsFile.read(folder).places[1].folder
    '/srv/b'
    """

    cluster: str
    places: tuple[Place, ...]

    @classmethod
    def read(cls, folder: Path) -> ShardsFile:
        """Read ``shards.json`` of a folder. Raises InputError if it is absent or malformed."""
        path = folder / SHARDS_JSON
        example = '{"cluster": "HOST:PORT", "shards": ["FOLDER", {"folder": "FOLDER", "node": "ADDRESS"}]}'
        try:
            content = json.loads(path.read_text("utf-8"))
            shards = [{"folder": shard} if isinstance(shard, str) else shard for shard in content["shards"]]
            places = tuple(Place(**shard) for shard in shards)
            cluster = content.get("cluster", "local")
            if not places or not all(isinstance(text, str) for text in chain([cluster], *places)):
                raise TypeError
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise InputError(f"{path}: expected {example}") from error
        if len(places) > MOST:
            raise InputError(f"{path}: {len(places):,} parts; expected {MOST:,} at most")
        return cls(cluster, tuple(Place(str(folder.absolute() / place.folder), place.node) for place in places))


class Facts(NamedTuple):
    """Properties of a part that it reports when it is opened."""

    manifest: Manifest
    state: State
    documents: list[DocumentInfo]
    has_wordings: bool


def _of_wordings(index: BaseIndex, question: str, *arguments: Any) -> Any:
    with index.wordings() as search:
        return getattr(search.table, question)(*arguments)


# Questions to a part, and the functions of its index and of the opened state that answer them.
QUESTIONS: Mapping[str, Callable[..., Any]] = {
    "pid": lambda index, state: os.getpid(),
    "facts": lambda index, state: Facts(index.manifest, state, index.documents(), index.has_wordings),
    "nearest": lambda index, state, vectors, k, documents: index.nearest_in(vectors, k, documents),
    "codes": lambda index, state, phrases: index.store.vectors_of(phrases.tolist()),
    "codes_of_live": lambda index, state, phrases: index.codes(state, phrases),
    "of_phrases": lambda index, state, phrases: _of_wordings(index, "of_phrases", phrases.tolist()),
    "occurrences": lambda index, state, wordings: _of_wordings(index, "occurrences", wordings),
    "of_stems": lambda index, state, stems: _of_wordings(index, "of_stems", stems),
    "sentences_of": lambda index, state, phrases: index.store.sentences_of(phrases.tolist()),
    "sentences": lambda index, state, ids: list(index.store.sentences(ids.tolist())),
    "sentences_after": lambda index, state, first, document: index.store.sentences_after(first, _PAGE, document),
    "translated_after": lambda index, state, first, fragment: list(
        islice(index.store.translated_sentences(fragment, first), _PAGE)
    ),
    "near": lambda index, state, sentence, count: list(index.store.near(sentence, count)),
    "texts": lambda index, state, phrase, ids: index.texts.candidates(phrase, ids),
    "containing": lambda index, state, phrase, limit: index.containing(phrase, limit),
    "stats": lambda index, state: index.stats(),
    "verify": lambda index, state: index.verify(),
}


class Shard:
    """Part of an index inside its actor. It answers every question from the state that was opened."""

    def __init__(self, opener: Opener, folder: str, threads: int, settings: IndexSettings | None) -> None:
        self._open, self._folder, self._threads, self._settings = opener, folder, threads, settings
        self._opened: tuple[Any, State] | None = None
        self._snapshot = ExitStack()  # which ends with the process

    def answer(self, question: str, *arguments: Any) -> tuple[int, Any]:
        """Return the generation of the part, and the answer to one of `QUESTIONS` or a `Failure`."""
        try:
            index, state = self._index()
            return state.generation, QUESTIONS[question](index, state, *arguments)
        except PhrasemateError as error:
            return -1, Failure.of(error)

    def _index(self) -> tuple[Any, State]:
        if self._opened is None:
            index: Any = self._open(self._folder, readonly=True, threads=self._threads, settings=self._settings)
            if not isinstance(index.store, Store):
                raise InputError(f"{self._folder}: cannot be a part; expected an index of one machine")
            self._opened = index, self._snapshot.enter_context(index.store.snapshot())
        return self._opened


class Actors:
    """Ray actors, one for each part. An actor that dies is started and asked again; until then its questions wait."""

    def __init__(self, file: ShardsFile, opener: Opener, threads: int, settings: IndexSettings | None) -> None:
        connect(file.cluster, len(file.places))
        self._ray, self._places = ray(), file.places
        # no CPU is reserved: those of the next opening start while these run
        remote = self._ray.remote(max_restarts=-1, max_task_retries=-1, scheduling_strategy="SPREAD")(Shard)
        self._actors = []
        for place in file.places:
            resources = {f"node:{place.node}": 0.001} if place.node else None
            self._actors.append(remote.options(resources=resources).remote(opener, place.folder, threads, settings))

    def ask(self, question: str, arguments: Mapping[int, tuple[Any, ...]]) -> dict[int, tuple[int, Any]]:
        """Ask parts by their numbers, each with its own arguments, and return the answers; see `Shard.answer`.

        Raises ClusterError for a part that does not answer within `PATIENCE` seconds.
        """
        answers = {
            number: self._actors[number].answer.remote(question, *values) for number, values in arguments.items()
        }
        try:
            return dict(zip(answers, self._ray.get(list(answers.values()), timeout=PATIENCE), strict=True))
        except (self._ray.exceptions.RayError, TimeoutError) as error:
            pending = self._ray.wait(list(answers.values()), num_returns=len(answers), timeout=0)[1]
            silent = [self._places[number].folder for number, answer in answers.items() if answer in pending]
            raise ClusterError(
                f"{', '.join(silent) or 'a part'}: no answer from the Ray cluster within {PATIENCE:.0f} seconds "
                f"({first_line(error)}); see whether its machines are there: ray status"
            ) from error

    def close(self) -> None:
        for actor in self._actors:
            with suppress(Exception):
                self._ray.kill(actor)


class Parts:
    """Parts of an index: asks all of them, or those that have the given ids."""

    def __init__(self, caller: Actors, places: Sequence[Place]) -> None:
        self._caller, self._places = caller, places
        self.facts: list[Facts] = []
        self.facts = self.all("facts")

    def some(self, question: str, arguments: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        """Ask some parts, each with its own arguments, and return the answers. Raises what one of them raised.

        A part that was changed and opened again meanwhile, since its actor had died, tells its facts once more.
        """
        answers = self._caller.ask(question, arguments) if arguments else {}
        for number, (generation, answer) in answers.items():
            if isinstance(answer, Failure):
                raise answer.error()
            if self.facts and generation != self.facts[number].state.generation:
                self.facts[number] = self._caller.ask("facts", {number: ()})[number][1]
        return {number: answer for number, (_, answer) in answers.items()}

    def all(self, question: str, *arguments: Any) -> list[Any]:
        """Ask all parts; return the answers in the order of the parts."""
        answers = self.some(question, dict.fromkeys(range(len(self._places)), arguments))
        return [answers[number] for number in range(len(self._places))]

    def by_id(self, question: str, ids: Sequence[int] | Ids) -> list[tuple[int, Ids, Any]]:
        """Ask each part about its own ids; return its number, the positions of its ids in the input, and the answer."""
        every = np.asarray(ids, np.int64)
        owners = every >> BITS
        if len(every) and (owners.min() < 0 or owners.max() >= len(self._places)):
            raise InputError(f"no id {int(every.max())}: it is of none of the {len(self._places)} parts")
        places = {number: np.flatnonzero(owners == number) for number in np.unique(owners).tolist()}
        answers = self.some(question, {number: (every[at] & _LOCAL,) for number, at in places.items()})
        return [(number, places[number], answer) for number, answer in answers.items()]


def _shifted(row: SentenceRow, shard: int) -> SentenceRow:
    base = shard << BITS
    return row._replace(id=base + row.id, document=base + row.document, first_phrase=base + row.first_phrase)


class ShardedStore:
    """Rows of all parts, by the methods of `phrasemate.index.base.Reader`; safe for several threads."""

    def __init__(self, path: str, parts: Parts) -> None:
        self.path, self._parts = path, parts

    def state(self) -> State:
        counts = [sum(numbers) for numbers in zip(*(facts.state for facts in self._parts.facts), strict=True)]
        return State(*counts[:4], *[len(self._parts.facts) << BITS] * 3)

    @contextmanager
    def snapshot(self) -> Iterator[State]:
        """Yield the state of all parts, as they were opened; nothing is locked."""
        yield self.state()

    reading = snapshot

    def damaged(self, what: str) -> IndexDamaged:
        return IndexDamaged(f"{self.path}: {what}; run phrasemate index verify on its parts")

    def documents(self) -> Iterator[DocumentInfo]:
        for number, facts in enumerate(self._parts.facts):
            for document in facts.documents:
                yield replace(document, id=(number << BITS) + document.id)

    def sentences_of(self, phrases: Sequence[int]) -> list[SentenceRow | None]:
        """Return the sentence of each phrase id; None for deleted phrases."""
        rows: list[SentenceRow | None] = [None] * len(phrases)
        for shard, places, answer in self._parts.by_id("sentences_of", phrases):
            for place, row in zip(places.tolist(), answer, strict=True):
                rows[place] = None if row is None else _shifted(row, shard)
        return rows

    def sentences(self, ids: Iterable[int]) -> Iterator[SentenceRow]:
        """Return sentences by id, in the order of the ids."""
        stream = iter(ids)
        while page := list(islice(stream, _PAGE)):
            rows: dict[int, SentenceRow] = {}
            for shard, places, answer in self._parts.by_id("sentences", page):
                rows.update((place, _shifted(row, shard)) for place, row in zip(places.tolist(), answer, strict=True))
            yield from (rows[place] for place in range(len(page)))

    def all_sentences(self, document: int | None = None) -> Iterator[SentenceRow]:
        """Yield all sentences, or those of a document, by ascending id."""
        if document is None:
            for shard in range(len(self._parts.facts)):
                yield from self._pages(shard, "sentences_after", None)
        else:
            yield from self._pages(document >> BITS, "sentences_after", document & _LOCAL)

    def translated_sentences(self, fragment: str = "") -> Iterator[SentenceRow]:
        """Yield the sentences with a translation that may contain ``fragment``, by ascending id."""
        for shard in range(len(self._parts.facts)):
            yield from self._pages(shard, "translated_after", fragment)

    def _pages(self, shard: int, question: str, argument: Any) -> Iterator[SentenceRow]:
        last, size = -1, _PAGE
        while size == _PAGE:
            rows = self._parts.some(question, {shard: (last, argument)})[shard]
            size = len(rows)
            for row in rows:
                last = row.id
                yield _shifted(row, shard)

    def near(self, sentence: SentenceRow, count: int) -> Iterator[SentenceRow]:
        """Return the sentences of the same document that are at most ``count`` positions from a sentence."""
        shard = sentence.id >> BITS
        row = _shifted(sentence, -shard)
        for other in self._parts.some("near", {shard: (row, count)})[shard]:
            yield _shifted(other, shard)

    def vectors_of(self, phrases: Sequence[int]) -> NDArray[np.int8]:
        """Return the codes of phrase ids, (phrases, dim) int8. Raises InputError for a deleted phrase."""
        return self.codes("codes", np.asarray(phrases, np.int64))

    def codes(self, question: str, phrases: Ids) -> NDArray[np.int8]:
        """Gather the codes that the parts return to a question, (phrases, dim) int8."""
        codes = np.empty((len(phrases), self._parts.facts[0].manifest.dim), np.int8)
        for _, places, answer in self._parts.by_id(question, phrases):
            codes[places] = answer
        return codes


class ShardedView:
    """Vector search in all parts; the counterpart of `phrasemate.index.snapshot_search.View`."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def search(self, state: State, vectors: Floats, k: int, scope: Scope) -> tuple[Ids, Floats]:
        """Return the k best phrases of all parts, of the given documents only."""
        documents = scope.documents
        questions: dict[int, tuple[Any, ...]] = {}
        for shard in range(len(self._parts.facts)):
            chosen = None if documents is None else documents[documents >> BITS == shard] & _LOCAL
            if chosen is None or len(chosen):
                questions[shard] = (vectors, k, chosen)
        ids, scores = [np.zeros((len(vectors), 0), np.int64)], [np.zeros((len(vectors), 0), np.float32)]
        for shard, (nearest, values) in sorted(self._parts.some("nearest", questions).items()):
            ids.append(np.where(nearest < 0, -1, nearest + (shard << BITS)))
            scores.append(values)
        return best(np.concatenate(ids, 1), np.concatenate(scores, 1), k)


class ShardedTexts:
    """Search for substrings in all parts, one after the other."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def containing(self, phrase: str, limit: int) -> list[int]:
        """Return the ids of up to ``limit`` sentences that contain ``phrase``, ascending."""
        check(phrase, limit)
        return self._chained(limit, lambda shard, rest: ("containing", (phrase, rest)))

    def candidates(self, phrase: str, ids: IdRange = ALL_IDS) -> list[int]:
        """Return the ids of sentences that may contain ``phrase``, ascending."""

        def question(shard: int, rest: int) -> tuple[str, tuple[Any, ...]]:
            low, high = (min(max(bound - (shard << BITS), 0), 1 << BITS) for bound in (ids.first, ids.before))
            return "texts", (phrase, IdRange(low, high, rest))

        return self._chained(ids.limit, question)

    def _chained(self, limit: int, question: Callable[[int, int], tuple[str, tuple[Any, ...]]]) -> list[int]:
        ids: list[int] = []
        for shard in range(len(self._parts.facts)):
            if len(ids) >= limit:
                break
            name, arguments = question(shard, limit - len(ids))
            ids += [identity + (shard << BITS) for identity in self._parts.some(name, {shard: arguments})[shard]]
        return ids


class ShardedWordings(Wordings):
    """Tables of wordings of all parts as one, by the methods of `phrasemate.index.wordings.Wordings`."""

    def __init__(self, parts: Parts) -> None:
        super().__init__([], Runs(np.zeros((0, 2), np.int64)))
        self._parts = parts

    def of_phrases(self, ids: Sequence[int]) -> list[str]:
        """Return the wording of each phrase id."""
        texts = [""] * len(ids)
        for _, places, answer in self._parts.by_id("of_phrases", ids):
            for place, text in zip(places.tolist(), answer, strict=True):
                texts[place] = text
        return texts

    def occurrences(self, wordings: Sequence[str]) -> list[Ids]:
        """Return the ids of the phrases with each wording, ascending, without deleted ones."""
        shards = self._parts.all("occurrences", wordings) if wordings else []
        return [
            np.concatenate([ids[number] + (shard << BITS) for shard, ids in enumerate(shards)])
            for number in range(len(wordings))
        ]

    def of_stems(self, stemmed: Sequence[str]) -> list[list[str]]:
        """Return the wordings of each stemmed form."""
        shards = self._parts.all("of_stems", stemmed) if stemmed else []
        return [list(dict.fromkeys(chain(*lists))) for lists in zip(*shards, strict=True)]


class ShardedIndex(BaseIndex):
    """Index in several parts, opened by ``Index.open``. It is read-only; to change it, change a part.

    >>> import phrasemate as pm
    >>> with pm.Index.open("corpus") as index:  # doctest: +SKIP
    ...     pm.Searcher(index).search("Er sitzt auf der [[Bank]].").groups[0].text
    'bench'
    """

    _refusal = "is an index in parts; change one of these, and open it again"

    def __init__(
        self, path: str, caller: Actors, places: Sequence[Place], model: IndexModel | None, threads: int | None
    ):
        super().__init__(model, threads)
        self._caller, self._parts = caller, Parts(caller, places)
        self.path: str = path
        self.manifest = self._parts.facts[0].manifest
        for facts, place in zip(self._parts.facts, places, strict=True):
            if (other := facts.manifest).model_hash != self.manifest.model_hash or other.dim != self.manifest.dim:
                raise ModelMismatch(
                    f"{place.folder}: was built with the model {other.model_name} ({other.model_hash[:12]}), the first "
                    f"part with {self.manifest.model_name} ({self.manifest.model_hash[:12]}); parts need the same"
                )
        if model is not None:
            check_model(path, self.manifest, model)
        self.store: ShardedStore = ShardedStore(path, self._parts)
        self.texts: ShardedTexts = ShardedTexts(self._parts)
        self._view: ShardedView = ShardedView(self._parts)

    @classmethod
    def open(
        cls,
        path: str | Path,
        opener: Opener,
        model: IndexModel | None = None,
        *,
        threads: int | None = None,
        settings: IndexSettings | None = None,
    ) -> ShardedIndex:
        """Start an actor for each part that ``shards.json`` names.

        Args:
            path: Folder with ``shards.json``.
            opener: Opens a part: ``Index.open``.
            model: Model that the parts must have been built with; None loads it when it is first needed.
            threads: Threads of each actor; default: 1.
            settings: Numbers that steer the parts.

        Raises InputError, MissingExtra, ClusterError, and what opening a part raises.
        """
        file = ShardsFile.read(Path(path))
        caller = Actors(file, opener, threads or 1, settings)
        try:
            return cls(str(path), caller, file.places, model, threads)
        except BaseException:
            caller.close()
            raise

    def close(self) -> None:
        """End the actors."""
        self._caller.close()

    # -- reading

    @property
    def has_wordings(self) -> bool:
        """True if phrases of all parts can be looked up by their wording."""
        return all(facts.has_wordings for facts in self._parts.facts)

    @contextmanager
    def wordings(self) -> Iterator[WordingSearch]:
        """Look phrases up by their wording."""
        if not self.has_wordings:
            raise InputError(f"{self.path}: a part has no table of wordings; run phrasemate index optimize on it")
        table = ShardedWordings(self._parts)
        yield WordingSearch(table, lambda ids: row_codec.dequantise(self.store.codes("codes_of_live", ids)))

    def stats(self) -> IndexStats:
        """Return the sums of the sizes of all parts."""
        stats: list[IndexStats] = self._parts.all("stats")
        languages: Counter[str] = Counter()
        files: Counter[str] = Counter()
        for part in stats:
            languages.update(part.languages)
            files.update(part.files)
        return replace(
            stats[0],
            path=self.path,
            incomplete=tuple(chain(*(part.incomplete for part in stats))),
            languages=dict(languages),
            engine=f"{len(stats)} parts: " + ", ".join(dict.fromkeys(part.engine for part in stats)),
            files=dict(files),
            **{name: sum(getattr(part, name) for part in stats) for name in _SUMS},
        )

    def verify(self) -> VerifyReport:
        """Check every part. Problems are listed, not raised."""
        report = VerifyReport()
        for part in self._parts.all("verify"):
            report.problems.extend(part.problems)
            for name, count in part.checked.items():
                so_far = report.checked.get(name)
                adds_up = isinstance(count, int) and isinstance(so_far, int | None)
                report.checked[name] = count + (so_far or 0) if adds_up else count
        return report


_SUMS = ("generation", "documents", "sentences", "phrases", "deleted", "approximate", "exact", "dead")

"""Records that go into and come out of an index, its settings, and the interface of a model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Unpack

import numpy as np
from numpy.typing import NDArray

from phrasemate.types import text_tuple

if TYPE_CHECKING:
    from phrasemate.encode.segmenter import SegmentOptions


class PhraseSet(Protocol):
    """The phrases of one text, as a model extracts them (``phrasemate.encode.TextPhrases``)."""

    @property
    def starts(self) -> NDArray[np.int32]: ...  # (phrases,)
    @property
    def ends(self) -> NDArray[np.int32]: ...  # (phrases,)
    @property
    def scores(self) -> NDArray[np.float32]: ...  # (phrases,) 0 to 1
    @property
    def vectors(self) -> NDArray[np.float32]: ...  # (phrases, dim) unit length


class IndexModel(Protocol):
    """Interface of an index's model. ``extract`` must give the same bits for the same texts in the same call."""

    @property
    def name(self) -> str: ...
    @property
    def hash(self) -> str: ...
    @property
    def path(self) -> Path | None: ...
    @property
    def dim(self) -> int: ...

    def extract(
        self, texts: Sequence[str], frequent: Collection[str] = frozenset(), **options: Unpack[SegmentOptions]
    ) -> Sequence[PhraseSet]: ...


@dataclass(frozen=True, slots=True)
class Filters:
    """Which documents of an index are searched; None, the default, stands for all.

    Args:
        documents: Names of documents, or folders, or patterns with ``*``.
        languages: Languages of documents, whose varieties they take: "en" takes "en-GB".

    Raises InputError for one text where a list of them is meant.

    >>> Filters(languages=["en"]).pass_all
    False
    """

    documents: Sequence[str] | None = None
    languages: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name in ("documents", "languages"):
            if (values := getattr(self, name)) is not None:
                object.__setattr__(self, name, text_tuple(values, name))

    @property
    def pass_all(self) -> bool:
        """Whether every document is searched."""
        return self.documents is None and self.languages is None


class Scope(NamedTuple):
    """Filters in one state of an index: the ids of the documents searched, None for all, and their live phrases."""

    documents: NDArray[np.int64] | None
    phrases: int


class IdRange(NamedTuple):
    """Ids from ``first`` on, below ``before``, at most ``limit`` of them."""

    first: int = 0
    before: int = 1 << 62
    limit: int = 1 << 62


ALL_IDS = IdRange()


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Settings of an index. The figures behind the defaults are in results/log/index.md.

    >>> import phrasemate as pm
    >>> with pm.Index.create("settings", pm.load_model(), settings=IndexSettings(exact_below=10_000)) as index:
    ...     index.stats().engine
    'exact'
    """

    chunk: int = 1024  # sentences of one model call and one transaction: what a kill can lose
    learn: int = 20_000  # sentences from which a language's frequent words are learned
    exact_below: int = 50_000  # phrases: below, a NumPy product takes a few ms and needs no second file
    ivf_from: int = 1_000_000  # phrases: up to here a scan of all 4-bit codes takes under 3 ms
    rebuild_share: float = 0.2  # new or deleted rows, as a share of the FAISS file, that are worth a rebuild
    forced_rebuild: int = 200_000  # rows outside a FAISS file that make a search rebuild it (an interrupted add)
    exact_filtered: int = 200_000  # phrases that pass a filter: up to here they are scanned exactly
    k_factor: int = 4  # candidates of the 4-bit codes re-scored in 8 bits, per result
    nprobe: int = 128  # inverted lists read per query, at least; half as many cost a point of recall at 10
    train: int = 4_096  # vectors to train the 4-bit codes on (and at least 64 per inverted list)
    block: int = 16_384  # vectors held as float32 at once


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """Progress of an ``add``: what it has stored so far. ``bytes_total`` is 0 if unknown.

    >>> import phrasemate as pm
    >>> story, events = pm.Document.from_texts("story", ["She sat on the bench."]), []
    >>> with pm.Index.create("progress", pm.load_model()) as index:
    ...     _ = index.add([story], progress=events.append)
    >>> events[0].document, events[0].sentences
    ('story', 1)
    """

    sentences: int
    phrases: int
    bytes_done: int
    bytes_total: int
    document: str
    stage: str = ""  # what is done after the last chunk, such as "building the search file" ...
    share: float = 0.0  # ... and how much of that, 0 to 1


Progress = Callable[[ProgressEvent], None]


@dataclass(frozen=True, slots=True)
class AddReport:
    """Report of one ``add``. ``sentences`` and ``phrases`` count only what this call stored.

    >>> import phrasemate as pm
    >>> story = pm.Document.from_texts("story", ["She sat on the bench."])
    >>> with pm.Index.create("report", pm.load_model()) as index:
    ...     report = index.add([story], lang="en")
    >>> report.documents_added, report.sentences
    (1, 1)
    """

    documents_added: int
    replaced: int
    unchanged: int
    sentences: int
    phrases: int
    seconds: float
    encoder_seconds: float


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """A document in an index; ``complete`` is False after an interrupted ``add``.

    >>> import phrasemate as pm
    >>> story = pm.Document.from_texts("story", ["She sat on the bench."])
    >>> with pm.Index.create("documents", pm.load_model()) as index:
    ...     _ = index.add([story], lang="en")
    ...     [(document.name, document.language) for document in index.documents()]
    [('story', 'en')]
    """

    id: int
    name: str
    language: str
    digest: str
    complete: bool
    sentences: int
    phrases: int


@dataclass(frozen=True, slots=True)
class IndexStats:
    """The sizes of an index; ``files`` maps each file name to its bytes.

    >>> import phrasemate as pm
    >>> story = pm.Document.from_texts("story", ["She sat on the bench."])
    >>> with pm.Index.create("stats", pm.load_model()) as index:
    ...     _ = index.add([story], lang="en")
    ...     index.stats().sentences
    1
    """

    path: str
    model: str
    model_hash: str
    dim: int
    generation: int
    segment: Mapping[str, Any]  # how phrases are found, where that is not the model's own way
    documents: int
    incomplete: tuple[str, ...]
    languages: Mapping[str, int]  # documents per language
    sentences: int
    phrases: int
    deleted: int  # phrase ids that were deleted and are never used again
    engine: str
    approximate: int  # live phrases that the FAISS file covers
    exact: int  # live phrases searched exactly
    files: Mapping[str, int]
    dead: int = 0  # deleted phrases that the FAISS file still holds, until ``optimize``


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Result of ``Index.verify``: a line for each problem, and the number of items checked.

    >>> import phrasemate as pm
    >>> story = pm.Document.from_texts("story", ["She sat on the bench."])
    >>> with pm.Index.create("verify", pm.load_model()) as index:
    ...     _ = index.add([story], lang="en")
    ...     index.verify().ok
    True
    """

    problems: list[str] = field(default_factory=list)
    checked: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.problems


@dataclass(frozen=True, slots=True)
class TuneReport:
    """Settings chosen (``engine``, ``probes``, ``slack``, ``candidates``: see `faiss_search.Asking`) and measured.

    ``target`` is of recall@``at``. ``recall_at_1``, ``recall_at_10``: against exact search, of ``queries`` phrases;
    ``single_ms``: one query, the median; ``batch_ms``: all together, for each. ``trials``: the layouts that were tried
    on a sample, with what they cost there; those last that were given up as dearer. Where the index is small enough
    to be searched exactly, ``engine`` is "exact" and nothing else is said.

    >>> import phrasemate as pm
    >>> story = pm.Document.from_texts("story", ["She sat on the bench."])
    >>> with pm.Index.create("tune", pm.load_model()) as index:
    ...     _ = index.add([story], lang="en")
    ...     index.optimize(target_recall=0.95).engine
    'exact'
    """

    target: float
    phrases: int
    engine: str
    probes: int = 0
    slack: float = 0.0
    candidates: int = 0
    queries: int = 0
    recall_at_1: float = 1.0
    recall_at_10: float = 1.0
    single_ms: float = 0.0
    batch_ms: float = 0.0
    seconds: float = 0.0
    trials: tuple[dict[str, Any], ...] = ()
    at: int = 1

    @property
    def recall(self) -> float:
        return self.recall_at_1 if self.at == 1 else self.recall_at_10

    @property
    def reached(self) -> bool:
        return self.recall >= self.target

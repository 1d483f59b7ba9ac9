"""Settings, filters, reports and other records of an index, and the interface that its model must implement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Unpack

import numpy as np
from numpy.typing import NDArray

from phrasemate.types import check_fields, text_tuple

if TYPE_CHECKING:
    from phrasemate.encode.segmenter import SegmentOptions


class PhraseSet(Protocol):
    """Interface of the phrases that a model extracts from one text, such as ``phrasemate.encode.TextPhrases``."""

    @property
    def starts(self) -> NDArray[np.int32]: ...  # (phrases,) offsets of first characters
    @property
    def ends(self) -> NDArray[np.int32]: ...  # (phrases,) offsets after last characters
    @property
    def scores(self) -> NDArray[np.float32]: ...  # (phrases,) segmentation scores, 0 to 1
    @property
    def vectors(self) -> NDArray[np.float32]: ...  # (phrases, dim) of unit length


class IndexModel(Protocol):
    """Interface of the model of an index.

    ``extract`` must be deterministic: a call with the same list of texts must return bitwise equal vectors.
    """

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
    """Filters that select the documents to search. None, the default, selects all.

    Args:
        documents: Names of documents, or folders, or patterns with ``*``.
        languages: Languages of documents; each includes its varieties: "en" includes "en-GB".

    Raises InputError for a single string instead of a list.

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
        """True if the filters select every document."""
        return self.documents is None and self.languages is None


class Scope(NamedTuple):
    """Filters resolved for one state of an index: ids of the documents to search, and the number of their phrases.

    ``documents`` is None for all documents.
    """

    documents: NDArray[np.int64] | None
    phrases: int


class IdRange(NamedTuple):
    """Range of ids from ``first`` to below ``before``, of which at most ``limit`` are returned."""

    first: int = 0
    before: int = 1 << 62
    limit: int = 1 << 62


ALL_IDS = IdRange()


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Settings of an index. The measurements behind the defaults are in results/log/index.md.

    >>> import phrasemate as pm
    >>> with pm.Index.create("settings", pm.load_model(), settings=IndexSettings(exact_below=10_000)) as index:
    ...     index.stats().engine
    'exact'
    """

    chunk: int = 1024  # sentences of one model call and one transaction, which is the most that a kill can lose
    learn: int = 20_000  # sentences from which the frequent words of a language are learned
    exact_below: int = 50_000  # phrases below which all are searched exactly, in a few ms and without a FAISS file
    ivf_from: int = 1_000_000  # phrases from which inverted lists are used; scanning fewer codes takes under 3 ms
    rebuild_share: float = 0.2  # share of new and deleted rows in the FAISS file above which it is updated
    forced_rebuild: int = 200_000  # phrases outside the FAISS file above which a search rebuilds it
    exact_filtered: int = 200_000  # phrases that pass a filter up to which they are searched exactly
    k_factor: int = 4  # least number of candidates to re-score with 8-bit vectors, per result
    nprobe: int = 128  # least number of inverted lists to read for a query; half of it costs 0.01 recall@10
    train: int = 4_096  # vectors to train the 4-bit codes on, at least 64 for each inverted list
    block: int = 16_384  # vectors that are converted to float32 at once

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """Progress of one ``add``: the counts of all that it has stored so far. ``bytes_total`` is 0 if unknown.

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
    stage: str = ""  # work after the last chunk, such as "building the search file"; "" before
    share: float = 0.0  # finished share of the stage, 0 to 1


Progress = Callable[[ProgressEvent], None]


@dataclass(frozen=True, slots=True)
class AddReport:
    """Report of one ``add``. ``sentences`` and ``phrases`` count only those stored by this call.

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
    """Record of a document in an index. ``complete`` is False after an interrupted ``add``.

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
    """Statistics of an index. ``files`` maps each file name to its size in bytes.

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
    segment: Mapping[str, Any]  # segmentation options that differ from those of the model
    documents: int
    incomplete: tuple[str, ...]
    languages: Mapping[str, int]  # number of documents by language
    sentences: int
    phrases: int
    deleted: int  # number of deleted phrases; their ids are never reused
    engine: str
    approximate: int  # live phrases that the FAISS file covers
    exact: int  # live phrases that are searched exactly
    files: Mapping[str, int]
    dead: int = 0  # deleted phrases that the FAISS file still contains; ``optimize`` removes them


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Result of ``Index.verify``: a line for each problem, and the number of items checked of each kind.

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
        """True if no problem was found."""
        return not self.problems


@dataclass(frozen=True, slots=True)
class TuneReport:
    """Report of a tuning: the chosen settings, and their measured recall and speed.

    If the index is small enough to be searched exactly, ``engine`` is "exact" and the settings have their defaults.

    Attributes:
        target: Target of the recall@``at``.
        phrases: Number of phrases in the index.
        engine: "exact", or "FAISS" and the layout.
        probes: Inverted lists to read for a query (`faiss_search.Asking`).
        slack: Score difference beyond which a list is left out (`faiss_search.Asking`).
        candidates: Candidates to re-score (`faiss_search.Asking`).
        queries: Number of phrases used as queries.
        recall_at_1: Recall@1 against exact search.
        recall_at_10: Recall@10 against exact search.
        single_ms: Median time of a single query, in milliseconds.
        batch_ms: Time per query when all are searched together, in milliseconds.
        seconds: Duration of the tuning.
        trials: Layouts that were tried on a sample, with their recall and cost; last, without figures, those that
            cannot be cheaper than the best.
        at: Depth k of the recall@k.

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
        """Measured recall at the depth ``at``."""
        return self.recall_at_1 if self.at == 1 else self.recall_at_10

    @property
    def reached(self) -> bool:
        """True if the measured recall reaches the target."""
        return self.recall >= self.target

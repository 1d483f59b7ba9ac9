"""Small stand-ins for the library, so that the commands are tested without a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any

from phrasemate.errors import IndexMissing, QueryError
from phrasemate.index.types import AddReport, DocumentInfo, ProgressEvent, VerifyReport
from phrasemate.types import Hit, Phrase


@dataclass(frozen=True)
class FakeGroup:
    text: str
    score: float
    count: int
    hits: tuple[Hit, ...]
    probability: float | None = None
    source: str = ""
    language: str = ""
    evidence: Mapping[str, float] = field(default_factory=dict)
    reasons: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class FakeResult:
    query: str
    phrase: Phrase
    groups: tuple[FakeGroup, ...]
    doubtful: bool = False

    def as_dict(self, explain: bool = False) -> dict[str, Any]:
        return {"phrase": self.phrase.text, "groups": [group.text for group in self.groups]}


@dataclass
class FakeIndex:
    """Records what is asked of it; ``exists`` says whether there is an index to open."""

    exists: bool = True
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    interrupt_after: int | None = None
    manifest: Any = field(default_factory=lambda: SimpleNamespace(segment={}))

    def open(self, path: Path, model: object = None, readonly: bool = False, threads: int | None = None) -> FakeIndex:
        self.calls.append(("open", str(path), model, readonly))
        if not self.exists:
            raise IndexMissing(f"no index at {path}")
        return self

    def create(
        self, path: Path, model: object, threads: int | None = None, segment: dict[str, object] | None = None
    ) -> FakeIndex:
        self.calls.append(("create", str(path), model))
        self.manifest = SimpleNamespace(segment=segment or {})
        return self

    def close(self) -> None:
        self.calls.append(("close",))

    def add(self, documents: Any, lang: str = "", progress: Any = None) -> AddReport:
        sentences = [sentence for document in documents for sentence in document.sentences()]
        self.calls.append(("add", [sentence.text for sentence in sentences], lang))
        for number in range(1, len(sentences) + 1):
            progress(ProgressEvent(number, 2 * number, number, len(sentences), "a.txt"))
            if number == self.interrupt_after:
                raise KeyboardInterrupt
        return AddReport(1, 0, 0, len(sentences), 2 * len(sentences), 2.0, 1.5)

    def documents(self) -> list[DocumentInfo]:
        return [
            DocumentInfo(1, "a.txt", "en", "ab", True, 2, 4),
            DocumentInfo(2, "b.txt", "", "cd", False, 1, 1),
        ]

    def stats(self) -> Any:
        return FakeStats()

    def verify(self) -> VerifyReport:
        return VerifyReport(self.problems, {"sentences": 3})

    def optimize(self, target_recall: float | None = None, at: int = 1, seed: int = 0) -> None:
        self.calls.append(("optimize", target_recall, at, seed))

    def delete(self, *names: str) -> None:
        self.calls.append(("delete", *names))

    def __enter__(self) -> FakeIndex:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.calls.append(("close",))


@dataclass(frozen=True)
class FakeStats:
    documents: int = 1234
    languages: dict[str, int] = field(default_factory=lambda: {"en": 1234})
    phrases: int = 900
    files: dict[str, int] = field(default_factory=lambda: {"store.db": 4_000_000})
    dead: int = 99


@dataclass
class FakeSearcher:
    """Answers every ``[[marked]]`` query with one group, a query without marks with one result per word."""

    batches: list[list[str]] = field(default_factory=list)
    requests: dict[str, Any] = field(default_factory=dict)

    def search_all(self, queries: Sequence[str], **value: Any) -> list[FakeResult]:
        self.batches.append(list(queries))
        self.requests = value
        return [result for query in queries for result in self.answers(query)]

    def answers(self, query: str) -> Iterator[FakeResult]:
        if query.count("[[") != query.count("]]"):
            raise QueryError(f"unbalanced marks in {query!r}")
        text = query.replace("[[", "").replace("]]", "")
        if "[[" in query:
            start = query.index("[[")
            yield FakeResult(query, Phrase(text, start, query.index("]]") - 2), (bench(),))
            return
        for word in query.split():
            start = text.index(word)
            yield FakeResult(query, Phrase(text, start, start + len(word)), ())


def bench() -> FakeGroup:
    hit = Hit(Phrase("He sat on the bench all day.", 14, 19), 0.91, "park.txt", 7, "en")
    return FakeGroup("bench", 0.912, 3, (hit,))


@dataclass
class Library:
    """The stand-ins that are in place."""

    index: FakeIndex = field(default_factory=FakeIndex)
    searcher: FakeSearcher = field(default_factory=FakeSearcher)
    models: list[tuple[Any, Any]] = field(default_factory=list)
    views: list[bool] = field(default_factory=list)
    lexicons: list[tuple[list[str], bool]] = field(default_factory=list)

    def search(
        self, index: FakeIndex, views: bool = True, lexicons: Sequence[Any] = (), lexicon: bool = True
    ) -> FakeSearcher:
        self.views.append(views)
        self.lexicons.append(([dictionary.name for dictionary in lexicons], lexicon))
        return self.searcher

    def load_model(self, path: Path | None = None, threads: int | None = None) -> str:
        self.models.append((path, threads))
        return "a model"

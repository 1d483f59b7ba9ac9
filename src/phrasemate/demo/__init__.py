"""Demonstration on a bundled English sample: 40 marked queries in six languages, with the expected answers.

    index = build("demo-index")
    answers = ask(index)
    print(first(answers), "of", len(answers))

The sentences were written for this sample; see docs/results/data.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phrasemate.errors import IndexExists
from phrasemate.text import folded

if TYPE_CHECKING:
    from phrasemate.encode import Model
    from phrasemate.index import BaseIndex
    from phrasemate.results import Result

__all__ = ["Answer", "Question", "ask", "build", "first", "questions", "sample"]

LANGUAGE = "en"
SAMPLE = "english.txt"


@dataclass(frozen=True, slots=True)
class Question:
    """A marked query and its expected wordings; ``note`` says which sense of the phrase is meant."""

    language: str
    query: str
    expected: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A question and the result that an index gives."""

    question: Question
    result: Result

    @property
    def rank(self) -> int | None:
        """Rank of the first expected wording among the groups, from 1; None if no group has one."""
        answers = {folded(text) for text in self.question.expected}
        places = (place for place, group in enumerate(self.result.groups, 1) if folded(group.text) in answers)
        return next(places, None)

    def as_dict(self) -> dict[str, Any]:
        """Return the answer as plain data for JSON."""
        question = self.question
        return {
            "language": question.language,
            "query": question.query,
            "expected": list(question.expected),
            "note": question.note,
            "rank": self.rank,
            "groups": [{"text": g.text, "score": round(float(g.score), 4)} for g in self.result.groups],
        }


def sample() -> list[str]:
    """Return the English sentences of the sample, in order."""
    return _bundled(SAMPLE).splitlines()


def questions() -> list[Question]:
    """Return the marked queries with their expected wordings."""
    rows = [json.loads(line) for line in _bundled("queries.jsonl").splitlines() if line.strip()]
    return [Question(row["lang"], row["query"], tuple(row["expected"]), row.get("note", "")) for row in rows]


def build(path: str | Path, model: Model | None = None, progress: Callable[..., None] | None = None) -> BaseIndex:
    """Build an index of the sample in the folder ``path``.

    Raises IndexExists if the folder holds anything but an index without documents, as a stopped run leaves it.
    """
    from phrasemate.encode import load_model
    from phrasemate.text import read

    with ExitStack() as stack:
        index = stack.enter_context(_open_or_create(path, model or load_model()))
        with as_file(files(__name__) / "sample" / SAMPLE) as text:
            documents = [replace(document, name=SAMPLE) for document in read(text, lang=LANGUAGE)]
            index.add(documents, lang=LANGUAGE, progress=progress)
        stack.pop_all()
    return index


def _open_or_create(path: str | Path, model: Model) -> BaseIndex:
    from phrasemate.index import Index

    try:
        return Index.create(path, model)
    except IndexExists:
        if not (Path(path) / "index.json").is_file():
            raise
        with Index.open(path, readonly=True) as index:
            if index.documents():
                raise
        return Index.open(path, model)


def ask(index: BaseIndex, k: int = 3, question_list: Sequence[Question] | None = None) -> list[Answer]:
    """Search for all questions in one batch, with up to ``k`` groups for each. Default: the bundled questions."""
    from phrasemate.search import Searcher

    question_list = questions() if question_list is None else question_list
    results = Searcher(index).search_all([question.query for question in question_list], k=k, contexts=1)
    return [Answer(question, result) for question, result in zip(question_list, results, strict=True)]


def first(answers: Sequence[Answer], language: str | None = None) -> int:
    """Count the answers with an expected wording in first place, of all languages or of one."""
    return sum(a.rank == 1 for a in answers if language in (None, a.question.language))


def _bundled(name: str) -> str:
    return (files(__name__) / "sample" / name).read_text(encoding="utf-8")

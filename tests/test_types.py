"""The plain records: what tells documents apart, and what a language's code is."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from phrasemate.errors import InputError
from phrasemate.index.types import Filters
from phrasemate.results import Group, Result, SearchRequest
from phrasemate.text import Term
from phrasemate.types import Document, Hit, Phrase, Run, Sentence, check_language

TEXTS = [[], [""], ["", ""], ["a", "b"], ["a\nb"], ["a", "", "b"], ["a\n", "b"], ["a\n\nb"], ["a", "b\ud800"]]


@pytest.mark.parametrize(("one", "other"), list(combinations(TEXTS, 2)))
def test_other_sentences_are_another_document(one: list[str], other: list[str]) -> None:
    assert Document.from_texts("d", one).digest != Document.from_texts("d", other).digest


def test_a_document_in_memory_can_be_read_again() -> None:
    document = Document.from_texts("d", iter(["a", "b"]))
    assert document.digest == Document.from_texts("e", ["a", "b"]).digest
    for _ in range(2):
        assert [(sentence.text, sentence.line) for sentence in document.sentences()] == [("a", 1), ("b", 2)]


def test_one_text_is_not_a_list_of_texts() -> None:
    for make in (
        lambda: Document.from_texts("d", "It rained."),
        lambda: Filters(documents="d"),
        lambda: Filters(languages="en"),
        lambda: SearchRequest(languages="en"),
    ):
        with pytest.raises(InputError, match=r"expected a list of .*; put one alone in brackets"):
            make()


@pytest.mark.parametrize("code", ["", "de", "zh-Hant", "pt_BR", "x-own", "i-navajo"])
def test_codes_of_languages(code: str) -> None:
    check_language(code)


@pytest.mark.parametrize("code", ["d", "german", "de-", "de\n", "x", "dé", "de en", "*", None, ["de"]])
def test_what_is_not_code(code: Any) -> None:
    with pytest.raises(InputError, match="expected a code such as de or zh-Hant"):
        check_language(code)


@pytest.mark.parametrize(("ids", "scores"), [((2, 3), (2, 2)), ((2, 3), (3, 2)), ((3,), (3,)), ((1, 2, 3), (1, 2, 3))])
def test_every_result_has_one_score(ids: tuple[int, ...], scores: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"expected one shape \(queries, k\)"):
        Run(np.zeros(ids, np.int64), np.zeros(scores, np.float32))


@pytest.mark.parametrize(("start", "end"), [(-1, 1), (1, 1), (2, 1), (0, 4)])
def test_offsets_mark_something(start: int, end: int) -> None:
    with pytest.raises(InputError, match="expected 0 <= start < end <= length"):
        Phrase("abc", start, end)


def test_offsets_are_whole_numbers_of_python() -> None:
    phrase = Phrase("a bench", np.int64(2), np.int32(7))  # as a data frame gives them
    assert json.dumps(Result("", phrase, ()).as_dict()["start"]) == "2"
    assert phrase == Phrase("a bench", 2, 7)
    with pytest.raises(InputError, match=r"end 7\.0: expected a whole number"):
        Phrase("a bench", 2, 7.0)  # type: ignore[arg-type]


def test_records_with_metadata_can_be_in_a_set() -> None:
    phrase, more = Phrase("a bench", 2, 7), {"author": "me"}
    hit = Hit(phrase, 0.8, "story", 1, metadata=more)
    group = Group("bench", 0.8, 1, (hit,), evidence={"count": 1.0}, reasons={"count": 0.1})
    records = [
        (Sentence("a bench", 1, more), Sentence("a bench", 1, dict(more)), Sentence("a bench", 1)),
        (hit, replace(hit, metadata=dict(more)), replace(hit, metadata={})),
        (group, replace(group, evidence={"count": 1.0}), replace(group, evidence={})),
        (Term("bench", metadata=more), Term("bench", metadata=dict(more)), Term("bench")),
    ]
    for record, equal, other in records:
        assert {record, equal, other} == {record, other}
    assert len({Result("a [[bench]]", phrase, (group,), 0.9), Result("a [[bench]]", phrase, (group,), 0.9)}) == 1

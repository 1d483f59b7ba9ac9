from __future__ import annotations

import pytest
from index_fakes import FakeModel

from phrasemate.errors import InputError
from phrasemate.index import Index
from phrasemate.types import Document


def phrase_of(index: Index, text: str) -> int:
    return next(row.first_phrase for row in index.store.all_sentences() if row.text == text)


def test_neighbours_are_of_the_same_document_and_in_its_order(index: Index, model: FakeModel) -> None:
    index.add([Document.from_texts("a", ["one a", "two b", "three c", "four d", "five e"])], lang="en")
    index.add([Document.from_texts("b", ["six f", "seven g"])], lang="en")
    before, after = index.around(phrase_of(index, "three c"), 1)
    assert ([s.text for s in before], [s.text for s in after]) == (["two b"], ["four d"])
    before, after = index.around(phrase_of(index, "three c"), 9)
    assert ([s.text for s in before], [s.text for s in after]) == (["one a", "two b"], ["four d", "five e"])
    before, after = index.around(phrase_of(index, "six f"))
    assert (before, [(s.text, s.line) for s in after]) == ([], [("seven g", 2)])
    assert index.around(phrase_of(index, "two b"), 0) == ([], [])
    assert [len(sentence) for sentence in index.around(phrase_of(index, "two b"), 1 << 64)] == [1, 3]


def test_sentences_without_phrases_are_neighbours_too(index: Index) -> None:
    index.add([Document.from_texts("a", ["one a", "…", "two b"])], lang="en")
    assert [s.text for s in index.around(phrase_of(index, "one a"))[1]] == ["…", "two b"]


def test_an_empty_index_has_no_phrases(index: Index) -> None:
    with pytest.raises(InputError, match="no phrase 0: ids start at 0, and this index has used 0 of them"):
        index.around(0)


def test_a_phrase_that_is_gone(index: Index) -> None:
    index.add([Document.from_texts("a", ["one a"]), Document.from_texts("b", ["two b"])], lang="en")
    phrase_id = phrase_of(index, "one a")
    index.delete("a")
    with pytest.raises(InputError, match=f"phrase {phrase_id} was deleted"):
        index.around(phrase_id)
    with pytest.raises(InputError, match="no phrase 99"):
        index.around(99)

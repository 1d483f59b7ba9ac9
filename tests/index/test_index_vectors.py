"""The stored vectors of phrases: whose they are, in what order, of what is gone or damaged."""

from __future__ import annotations

import numpy as np
import pytest
from index_fakes import FakeModel, vector_of

from phrasemate.errors import IndexDamaged, InputError
from phrasemate.index import Index
from phrasemate.types import Document

TEXTS = ["one old bank", "two banks", "…", "three old banks here"]


def test_they_are_those_of_the_hits_in_the_order_asked_for(index: Index, model: FakeModel) -> None:
    index.add([Document.from_texts("a", TEXTS)], lang="en")
    run = index.search(np.stack([vector_of("old bank", model.dim), vector_of("here", model.dim)]), 5)
    ids = run.ids.ravel()[::-1]  # doubled and not ascending
    target = np.stack([vector_of(hit.text, model.dim) for hit in index.hits(ids, np.zeros(len(ids)))])
    vectors = index.vectors(ids)
    assert vectors.dtype == np.float32
    assert np.einsum("nd,nd->n", vectors, target).min() > 0.9995  # 8 bits
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(ids)), abs=1e-5)
    assert index.vectors(run.ids[0]) == pytest.approx(index.vectors(run.ids.ravel())[:5])
    assert index.vectors([]).shape == (0, model.dim)


def test_what_is_gone_or_never_was(index: Index) -> None:
    index.add([Document.from_texts("a", TEXTS[:1]), Document.from_texts("b", TEXTS[1:])], lang="en")
    index.delete("a")
    with pytest.raises(InputError, match="phrase 0 was deleted; search again"):
        index.vectors([0])
    with pytest.raises(InputError, match="no phrase 99"):
        index.vectors([99])


@pytest.mark.parametrize(
    "damage", ["DELETE FROM vectors", "UPDATE vectors SET codes = zeroblob(length(codes))"], ids=["missing", "altered"]
)
def test_damage_is_reported(index: Index, damage: str) -> None:
    index.add([Document.from_texts("a", TEXTS)], lang="en")
    index.store.connection.execute(damage)
    with pytest.raises(IndexDamaged, match="the vectors of sentence"):
        index.vectors([0])

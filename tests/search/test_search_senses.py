"""The feature of candidates that comes from sense vectors."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from phrasemate import Index, Searcher, load_model
from phrasemate.candidates import Candidate, CandidateSet, Listing, Wording, describe
from phrasemate.encode.scoring import FEATURES
from phrasemate.lexicon import bundled_senses
from phrasemate.lexicon.induced import NAME

SENSE = FEATURES.index("sense")


class Senses:
    """Sense vectors of *Bank*: one of "bench" and one of "money", for queries in German."""

    def nearness(self, phrase: str, language: str, translations: Sequence[str], vector: np.ndarray) -> np.ndarray:
        senses = {"bench": np.array([0.5, -0.5]), "money": np.array([-0.5, 0.5])}
        assert (phrase, language) == ("Bank", "de")
        return np.array([vector @ senses.get(text, np.full(2, np.nan)) for text in translations], np.float32)


class Vectors:
    """Search of an index whose phrases all have the vector (1, 0)."""

    def vectors(self, ids: np.ndarray) -> np.ndarray:
        return np.tile(np.array([1.0, 0.0], np.float32), (len(ids), 1))


def nearness(wordings: str, language: str, target: str) -> list[float]:
    """Return the feature "sense" of each wording, for *Bank* in a sentence with the vector (0.6, 0.8).

    Wordings with an asterisk are those of a user's dictionary.
    """
    candidates = [
        Candidate(text.strip("*"), Listing(0.5, "mine" if "*" in text else NAME), np.array([number]), 1)
        for number, text in enumerate(wordings.split())
    ]
    vector, wording, senses = np.array([[0.6, 0.8]], np.float32), Wording(language, [], {}), cast(Any, Senses())
    search = cast(Any, Vectors())
    row: CandidateSet
    (row,) = describe(search, ["Bank"], [candidates], vector, vector, target, [wording], senses)
    return row.features[:, SENSE].tolist()


@pytest.mark.parametrize(
    ("wordings", "language", "target", "values"),
    [
        ("bench money bank", "de", "en", [-0.2, 0, -0.2]),  # 0.3 - 0.4 = -0.1, 0.4 - 0.3 = 0.1
        ("benches money", "de", "en", [-0.2, 0]),  # stems are compared
        ("bank bench", "de", "en", [0, 0]),  # the only sense
        ("bench* money pen* bank", "de", "en", [-0.2, 0, 0, -0.2]),
        ("bank pen", "de", "en", [0, 0]),  # no sense
        ("bench money", "", "en", [0, 0]),  # an unknown language
        ("bench money", "de", "fr", [0, 0]),  # not English
    ],
)
def test_candidates_have_the_nearness_of_their_senses(
    wordings: str, language: str, target: str, values: list[float]
) -> None:
    np.testing.assert_allclose(nearness(wordings, language, target), values, atol=1e-6)


def test_sense_vectors_are_those_of_the_model(tmp_path: Path) -> None:
    model, other = load_model(), copy(load_model())
    other.hash = "0" * 64
    with Index.create(tmp_path / "idx", model) as index:
        assert Searcher(index)._senses is bundled_senses() is not None
        assert Searcher(index, other)._senses is None
        assert Searcher(index, lexicon=False)._senses is None

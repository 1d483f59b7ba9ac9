"""The feature of candidates that comes from sense vectors."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from phrasemate import Document, Index, Searcher, load_model
from phrasemate.candidates import Candidate, Listing, QueryWords
from phrasemate.encode.scoring import FEATURES
from phrasemate.features import CandidateSet, describe
from phrasemate.lexicon import bundled_senses, stemmed
from phrasemate.lexicon.induced import NAME

SENSE = FEATURES.index("sense")


SENSES = {
    ("de", "en"): {"bench": np.array([0.5, -0.5]), "money": np.array([-0.5, 0.5])},
    ("en", "fr"): {"banc": np.array([0.5, -0.5]), "argent": np.array([-0.5, 0.5])},
}


class Senses:
    """Sense vectors of *Bank*: of "bench" and "money" for queries in German, of "banc" and "argent" in English."""

    def nearness(
        self, phrase: str, language: str, translations: Sequence[str], vector: np.ndarray, target: str
    ) -> np.ndarray:
        assert phrase == "Bank"
        senses = SENSES.get((language, target), {})
        stems = [stemmed(text, target) for text in translations]
        return np.array([vector @ senses.get(stem, np.full(2, np.nan)) for stem in stems], np.float32)


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
    vector, wording = np.array([[0.6, 0.8]], np.float32), QueryWords(language, [], {}, senses=cast(Any, Senses()))
    search = cast(Any, Vectors())
    row: CandidateSet
    (row,) = describe(search, ["Bank"], [candidates], vector, vector, target, [wording])
    return row.features[:, SENSE].tolist()


@pytest.mark.parametrize(
    ("wordings", "language", "target", "values"),
    [
        ("bench money bank", "de", "en", [-0.2, 0, -0.2]),  # 0.3 - 0.4 = -0.1, 0.4 - 0.3 = 0.1
        ("benches money", "de", "en", [-0.2, 0]),  # stems are compared
        ("bank bench", "de", "en", [0, 0]),  # the only sense
        ("bench* money pen* bank", "de", "en", [-0.2, 0, 0, -0.2]),
        ("bank pen", "de", "en", [0, 0]),  # no sense
        ("bancs argent banque", "en", "fr", [-0.2, 0, -0.2]),
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
        for source, target in (("de", "en"), ("en", "de"), ("en", "fr"), ("de", "fr")):
            assert Searcher(index)._senses(source, target) is bundled_senses(source, target) is not None
            assert Searcher(index, other)._senses(source, target) is None
            assert Searcher(index, lexicon=False)._senses(source, target) is None
        assert Searcher(index)._senses("", "en") is None  # an unknown language
    assert bundled_senses("en", "de") is bundled_senses("en", "fr") is not bundled_senses("de", "en")
    assert bundled_senses("de", "fr") is bundled_senses("fr", "ru") is not bundled_senses("de", "en")
    assert bundled_senses("de", "de") is bundled_senses("en", "en") is None


@pytest.mark.parametrize(
    ("query", "german", "right"),
    [
        ("They sat on the [[bank]] of the river.", "Er wohnt am Ufer.|Er arbeitet in der Bank.", "Ufer"),
        ("I have no money in the [[bank]].", "Er wohnt am Ufer.|Er arbeitet in der Bank.", "Bank"),
        ("The leaves turn red in [[fall]].", "Der Sturz war schlimm.|Der Herbst ist schön.", "Herbst"),
        ("Dinner is on the [[table]].", "Der Tisch ist gedeckt.|Die Tabelle zeigt alles.", "Tisch"),
    ],
)
def test_english_phrases_in_german_text(tmp_path: Path, query: str, german: str, right: str) -> None:
    with Index.create(tmp_path / "idx", load_model()) as index:
        index.add([Document.from_texts("text", german.split("|"))], lang="de")
        best, *others = Searcher(index).search(query).groups
    assert best.text == right
    assert best.evidence["sense"] == 0  # the nearest sense
    (other,) = [group for group in others if group.text in ("Bank", "Ufer", "Sturz", "Tabelle")]
    assert other.evidence["sense"] < -0.02

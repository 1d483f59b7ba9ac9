"""Words without a vector get one: the formula against a plain loop, what is kept, what is refused, the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from phrasemate.cli import app
from phrasemate.encode import Model
from phrasemate.errors import InputError
from phrasemate.types import Phrase
from phrasemate.vectors import DistilSettings, WordVectors, cover, distil, distill

TEXTS = ["The old bank on the river was closed.", "A red house stands near the old river.", "He opened the window."] * 3
# "the" has a vector, one comes twice, one is blank
NEW = ["Fenster", "zzz", "mountain", "the", "zzz", " ", "river-bank"]


@pytest.fixture(scope="module")
def vectors(encoder: Model) -> WordVectors:
    return distil(encoder, TEXTS, DistilSettings(words=12, contexts=3, least=1), dim=5, language="xx")


def alone(model: Model, vectors: WordVectors, word: str) -> np.ndarray:
    assert vectors.projection is not None
    state = model.encode([Phrase(word, 0, len(word))], "mean")[0]
    flat = state.astype(np.float64) @ vectors.projection.kernel + vectors.projection.bias
    return flat / np.linalg.norm(flat)


@pytest.mark.parametrize("sample", [0, 7, 1_000])
def test_as_the_formula_says(
    encoder: Model, vectors: WordVectors, monkeypatch: pytest.MonkeyPatch, sample: int
) -> None:
    monkeypatch.setattr(distill, "SAMPLE", sample)
    monkeypatch.setattr(distill, "BATCH", 2)
    coverage = cover(vectors, encoder, NEW)
    added = ["Fenster", "zzz", "mountain", "river-bank"]
    assert list(coverage.words) == [*vectors.words, *added]
    others = {0: [], 7: vectors.words[:3], 1_000: vectors.words}[sample]
    mean = np.mean([alone(encoder, vectors, word) for word in (*added, *others)], axis=0)
    for word in added:
        expected = alone(encoder, vectors, word) - mean
        row = coverage.get(word)
        assert row is not None
        np.testing.assert_allclose(row, expected / np.linalg.norm(expected), atol=2e-2)  # bfloat16, other batches


def test_what_was_there_stays(encoder: Model, vectors: WordVectors, tmp_path: Path) -> None:
    coverage = cover(vectors, encoder, NEW)
    np.testing.assert_array_equal(coverage.matrix[: len(vectors)], vectors.matrix)
    assert coverage.counts is not None
    assert vectors.counts is not None
    assert coverage.counts.tolist() == [*vectors.counts.tolist(), 0, 0, 0, 0]
    assert (coverage.language, coverage.facts["covered"], coverage.projection) == ("xx", 4, vectors.projection)
    coverage.save(tmp_path / "wide")
    again = cover(WordVectors.load(tmp_path / "wide"), encoder, [*NEW, "more"])  # what was covered is not read again
    assert (len(again), again.facts["covered"]) == (len(coverage) + 1, 5)
    assert cover(coverage, encoder, NEW) is coverage


def test_vectors_of_another_making_are_refused(encoder: Model, vectors: WordVectors) -> None:
    with pytest.raises(InputError, match="no projection"):
        cover(vectors.using(vectors.matrix), encoder, NEW)
    other = replace(vectors, facts={**vectors.facts, "model": "0" * 64})
    with pytest.raises(InputError, match="of model 0000"):
        cover(other, encoder, NEW)


def test_the_command(encoder: Model, vectors: WordVectors, tmp_path: Path) -> None:
    vectors.save(tmp_path / "small")
    text = tmp_path / "text.txt"
    text.write_text("The MOUNTAIN and the window.\n\nA lake.\n", encoding="utf-8")
    arguments = [str(tmp_path / "small"), str(text), "-o", str(tmp_path / "wide"), "--model", str(encoder.folder)]
    result = CliRunner().invoke(app, ["vectors", "cover", *arguments, "--json"])
    assert result.exit_code == 0, result.output
    wide = WordVectors.load(tmp_path / "wide")
    assert json.loads(result.stdout)["words"] == len(wide)
    lacking = [word for word in ("the", "mountain", "and", "window", "a", "lake") if word not in vectors]
    assert set(wide.words) - set(vectors.words) == set(lacking)
    assert "lake" in lacking
    again = CliRunner().invoke(app, ["vectors", "cover", *arguments])
    assert again.exit_code == 1  # it already exists
    second_result = CliRunner().invoke(app, ["vectors", "cover", *arguments, "--force"])
    assert f"{len(lacking)} of them read without a sentence" in second_result.output

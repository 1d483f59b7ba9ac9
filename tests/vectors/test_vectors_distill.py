"""Distilled vectors against a plain loop on a tiny model; a stopped run resumes; languages share a space."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phrasemate.encode import Model
from phrasemate.errors import InputError
from phrasemate.types import Phrase
from phrasemate.vectors import DistilSettings, WordVectors, distil, learn_projection, mean_states, project, tokens
from phrasemate.vectors.vocabulary import sample_contexts

TEXTS = [
    "The old bank on the river was closed.",
    "She sat on the bank and read a book; the bank was old.",
    "He opened the window because it was hot.",
    "A red house stands near the old river.",
    "Das alte Haus am Fluss ist rot. " * 8,
    "",
    "...",
    "Er liest ein Buch auf der Bank.",
    "THE BANK",
] * 3
SETTINGS = DistilSettings(words=30, contexts=4, least=2)


def plain(model: Model, settings: DistilSettings) -> tuple[dict[str, int], np.ndarray]:
    """Words with their counts, and the mean of a word's vectors in its sentences, each encoded alone."""
    counts: dict[str, int] = {}
    for text in TEXTS:
        for word, _, _ in tokens(text):
            counts[word] = counts.get(word, 0) + 1
    words = sorted(counts, key=lambda word: (-counts[word], word))[: settings.words]
    rows: list[list[Any]] = [[] for _ in words]
    index = {word: row for row, word in enumerate(words)}
    chosen = sample_contexts(TEXTS, index, settings.contexts, settings.least, settings.seed)
    for row, sentence, start, end in zip(*(column.tolist() for column in chosen), strict=True):
        phrase = Phrase(TEXTS[sentence], start, end)
        rows[row].append(model.encode([phrase], settings.pooling, settings.layer)[0])
    return {word: counts[word] for word in words}, np.array([np.mean(item, axis=0) for item in rows])


@pytest.mark.parametrize("batch", [1, 100, 10**6])
@pytest.mark.parametrize(("pooling", "layer"), [("mean", None), ("ends", 1), ("head", None)])
def test_states_as_a_plain_loop(
    encoder: Model, monkeypatch: pytest.MonkeyPatch, batch: int, pooling: str, layer: int | None
) -> None:
    monkeypatch.setattr("phrasemate.vectors.distill.BATCH", batch)
    settings = replace(SETTINGS, pooling=pooling, layer=layer)
    words, expected = plain(encoder, settings)
    states = mean_states(encoder, TEXTS, settings, "xx")
    assert states.counts is not None
    assert dict(zip(states.words, states.counts.tolist(), strict=True)) == words
    np.testing.assert_allclose(states.matrix, expected, atol=5e-3)  # bfloat16, and other batches
    assert states.facts["model"] == encoder.hash


def test_projected_to_unit_length(encoder: Model) -> None:
    states = mean_states(encoder, TEXTS, SETTINGS)
    vectors = distil(encoder, TEXTS, SETTINGS, dim=6)
    assert vectors.projection is not None
    kernel, bias = vectors.projection.kernel, vectors.projection.bias
    assert (kernel.shape, bias.shape, vectors.dim) == ((encoder.width, 6), (6,), 6)
    for row, state in zip(vectors.matrix, states.matrix, strict=True):
        flat = np.array([sum(state[i] * kernel[i, j] for i in range(encoder.width)) + bias[j] for j in range(6)])
        np.testing.assert_allclose(row, flat / np.sqrt((flat**2).sum()), atol=1e-4)
    centred = states.matrix.astype(np.float64) @ kernel + bias
    np.testing.assert_allclose(centred.mean(0), 0, atol=1e-5)
    covariance = centred.T @ centred
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-4)
    assert (np.diff(np.diag(covariance)) <= 1e-6).all()


def test_one_space_for_two_languages(encoder: Model) -> None:
    english, german = TEXTS[:4] * 2, TEXTS[4:8] * 2
    sides = [mean_states(encoder, texts, SETTINGS) for texts in (english, german)]
    projection = learn_projection(sides, 5)
    mean = (sides[0].matrix.mean(0) + sides[1].matrix.mean(0)) / 2  # each language has the same weight
    np.testing.assert_allclose(mean @ projection.kernel + projection.bias, 0, atol=1e-4)
    first = project(sides[0], projection)
    second = distil(encoder, german, SETTINGS, space=first)
    np.testing.assert_allclose(second.matrix, project(sides[1], projection).matrix, atol=1e-6)
    assert second.projection is projection


class Stopped(Exception):
    pass


def test_a_stopped_run_continues(encoder: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("phrasemate.vectors.distill.BATCH", 60)
    whole = distil(encoder, TEXTS, SETTINGS, dim=5)
    batches: list[int] = []
    real = Model.encode

    def encode(self: Model, phrases: Any, *rest: Any) -> Any:
        batches.append(len(phrases))
        if len(batches) == 4:
            raise Stopped
        return real(self, phrases, *rest)

    monkeypatch.setattr(Model, "encode", encode)
    partial = tmp_path / "xx.part"
    with pytest.raises(Stopped):
        distil(encoder, TEXTS, SETTINGS, dim=5, partial=partial)
    assert partial.exists()
    again = distil(encoder, TEXTS, SETTINGS, dim=5, partial=partial)
    np.testing.assert_array_equal(again.matrix, whole.matrix)
    assert list(tmp_path.iterdir()) == [partial]
    monkeypatch.setattr(Model, "encode", lambda *_: pytest.fail("all is done"))
    np.testing.assert_array_equal(distil(encoder, TEXTS, SETTINGS, dim=5, partial=partial).matrix, whole.matrix)
    all_at_once: list[int] = []
    monkeypatch.setattr(
        Model, "encode", lambda self, phrases, *rest: (all_at_once.append(1), real(self, phrases, *rest))[1]
    )
    distil(encoder, TEXTS, SETTINGS, dim=5)
    assert len(batches) == len(all_at_once) + 1  # nothing was encoded twice but the batch that was stopped


def test_a_state_that_does_not_belong(encoder: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    partial = tmp_path / "xx.part"
    monkeypatch.setattr("phrasemate.utils.storage.SAVE_SECONDS", 0)
    monkeypatch.setattr("phrasemate.vectors.distill.BATCH", 60)
    calls = iter(range(99))
    real = Model.encode
    monkeypatch.setattr(
        Model,
        "encode",
        lambda *arguments: real(*arguments) if next(calls) < 2 else (_ for _ in ()).throw(KeyboardInterrupt),
    )
    with pytest.raises(KeyboardInterrupt):
        distil(encoder, TEXTS, SETTINGS, dim=5, partial=partial)
    monkeypatch.undo()
    for texts, settings in ((TEXTS[1:], SETTINGS), (TEXTS, replace(SETTINGS, seed=1))):
        with pytest.raises(InputError, match="was started with other texts or settings; delete it"):
            distil(encoder, texts, settings, dim=5, partial=partial)
    partial.write_bytes(partial.read_bytes()[:100])
    with pytest.raises(InputError, match="not a readable state"):
        distil(encoder, TEXTS, SETTINGS, dim=5, partial=partial)


def test_what_cannot_be_distilled(encoder: Model, few: WordVectors) -> None:
    with pytest.raises(InputError, match=f"dim 99; expected 1 to {encoder.width}"):
        distil(encoder, TEXTS, SETTINGS, dim=99)
    with pytest.raises(InputError, match="dim 40; expected 1 to 2, the number of words"):
        distil(encoder, ["one two"], SETTINGS, dim=40)
    with pytest.raises(InputError, match="pooling 'cls'; expected mean, ends, head"):
        distil(encoder, TEXTS, replace(SETTINGS, pooling="cls"))
    with pytest.raises(InputError, match="layer 9"):
        distil(encoder, TEXTS, replace(SETTINGS, layer=9), dim=5)
    with pytest.raises(InputError, match="no projection"):
        distil(encoder, TEXTS, SETTINGS, space=few)
    space = distil(encoder, TEXTS, SETTINGS, dim=5)
    with pytest.raises(InputError, match="of layer None, not 1; use the same for both"):
        distil(encoder, TEXTS, replace(SETTINGS, layer=1), space=space)
    with pytest.raises(InputError, match="least <= contexts"):
        DistilSettings(contexts=2, least=3)
    with pytest.raises(InputError, match="a seed from 0"):
        DistilSettings(seed=-1)

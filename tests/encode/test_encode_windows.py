"""Texts that are longer than the model: overlapping windows, of which each gives its middle."""

from __future__ import annotations

import numpy as np
import pytest
import tiny

from phrasemate.encode import Model
from phrasemate.encode import runtime as runtime_module
from phrasemate.encode.runtime import States
from phrasemate.types import Phrase

WINDOW = tiny.POSITIONS - 2  # tokens without the special ones
STEP = WINDOW - WINDOW // 2  # the overlap is half a window here
WORDS = ("river", "bank", "house", "old", "book", "red", "window", "hot")  # one token each in both families


def long_text(tokens: int) -> str:
    drawn = np.random.default_rng(tokens)
    return " ".join(WORDS[i] for i in drawn.integers(0, len(WORDS), tokens))


def states_of(model: Model, *texts: str) -> States:
    (states,) = model.token_states(texts)
    return states


@pytest.mark.parametrize("tokens", [1, WINDOW - 1, WINDOW, WINDOW + 1, WINDOW + STEP, WINDOW + STEP + 1, 5 * WINDOW])
def test_each_token_comes_from_one_window(model: Model, tokens: int) -> None:
    windows = list(model.runtime._windows(list(range(tokens)), row=0))
    rows = [row for w in windows for row in range(w.target, w.target + w.last - w.first)]
    assert rows == list(range(tokens + 2))
    kept = [number for w in windows for number in w.ids[w.first : w.last]]
    assert kept == [model.runtime.opening, *range(tokens), model.runtime.closing]
    assert all(len(w.ids) <= tiny.POSITIONS for w in windows)
    assert len(windows) == 1 + max(0, -(-(tokens - WINDOW) // STEP))


def test_every_character_keeps_a_state(model: Model) -> None:
    text = long_text(5 * WINDOW)
    states = states_of(model, text, "The bank.", text)
    assert states.bounds.tolist() == np.cumsum([0, 5 * WINDOW + 2, 3 + 2, 5 * WINDOW + 2]).tolist()
    assert np.isfinite(states.values).all()
    assert (np.linalg.norm(states.values, axis=1) > 0).all()
    for low, high in zip(states.bounds[:-1], states.bounds[1:], strict=True):
        assert (np.diff(states.starts[low:high]) >= 0).all()
        assert (np.diff(states.ends[low:high]) >= 0).all()
    covered = {i for a, b in zip(states.starts[: states.bounds[1]], states.ends, strict=False) for i in range(a, b)}
    assert covered == {i for i, character in enumerate(text) if not character.isspace()}


def test_a_window_alone_has_the_same_states(model: Model) -> None:
    """Rows that a window gives are those of its own tokens as a text of their own."""
    text = long_text(5 * WINDOW)
    words = text.split()
    whole = states_of(model, text).values
    overlap, half = WINDOW // 2, WINDOW // 4
    for number in (1, 2, 3):
        at = number * STEP
        alone = states_of(model, " ".join(words[at : at + WINDOW])).values[1:-1]
        kept = slice(half, WINDOW - (overlap - half))
        found = whole[1 + at : 1 + at + WINDOW][kept]
        similar = (found * alone[kept]).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(alone[kept], axis=1)
        assert similar.min() > 0.9999


def test_a_phrase_deep_inside(model: Model) -> None:
    text = long_text(5 * WINDOW)
    states = states_of(model, text)
    row = 3 * WINDOW
    start, end = int(states.starts[row]), int(states.ends[row])
    expected = states.values[row] / np.linalg.norm(states.values[row])
    np.testing.assert_allclose(model.encode([Phrase(text, start, end)], pooling="mean"), [expected], atol=1e-5)


def test_blocks_change_nothing(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are worked on in blocks, so that memory stays bounded; vectors do not depend on where a block ends."""
    texts = [long_text(number % 40 + 1) for number in range(600)]
    whole = model.encode_sentences(texts)
    parts = model.extract(texts)
    monkeypatch.setattr(runtime_module, "BLOCK_TOKENS", 3_000)
    blocks = [part for part, _ in model.runtime.blocks(texts)]
    assert len(blocks) > 1
    assert [i for part in blocks for i in range(part.start, part.stop)] == list(range(600))
    tokens = [sum(number % 40 + 1 for number in range(part.start, part.stop)) for part in blocks]
    assert max(tokens) < 3_000 + 40  # a block ends with the text that fills it
    assert (model.encode_sentences(texts) * whole).sum(1).min() > 0.9999
    for again, part in zip(model.extract(texts), parts, strict=True):
        np.testing.assert_array_equal(again.starts, part.starts)
        assert (again.vectors * part.vectors).sum(1).min(initial=1) > 0.9999

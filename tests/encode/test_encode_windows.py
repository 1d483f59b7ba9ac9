"""Texts that are longer than the model: overlapping windows, of which each gives its middle."""

from __future__ import annotations

import re

import encoders
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasemate.encode import Model
from phrasemate.encode import model as model_module
from phrasemate.encode import runtime as runtime_module
from phrasemate.encode.runtime import States, stretches
from phrasemate.errors import InputError
from phrasemate.types import Phrase

WINDOW = encoders.POSITIONS - 2  # tokens without the special ones
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
    ids = [number for w in windows for number in w.ids[w.first : w.last]]
    assert ids == [*model.runtime.opening, *range(tokens), *model.runtime.closing]
    assert all(len(w.ids) <= encoders.POSITIONS for w in windows)
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
        ids = slice(half, WINDOW - (overlap - half))
        result = whole[1 + at : 1 + at + WINDOW][ids]
        similar = (result * alone[ids]).sum(1) / np.linalg.norm(result, axis=1) / np.linalg.norm(alone[ids], axis=1)
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


def test_blank_texts_fill_a_block(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_module, "BLOCK_TOKENS", 100)
    assert [part for part, _ in model.runtime.blocks([""] * 250)] == [slice(0, 100), slice(100, 200), slice(200, 250)]


def few(model: Model, monkeypatch: pytest.MonkeyPatch, characters: int) -> None:
    """A stretch of so many characters."""
    monkeypatch.setattr(runtime_module, "STRETCH", characters)
    monkeypatch.setattr(model_module, "STRETCH", characters)


@given(text=st.text("ab \n\u00a0", max_size=60), most=st.integers(1, 9))
@settings(max_examples=200, deadline=None)
def test_stretches(text: str, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime_module, "STRETCH", most)
        parts = stretches(text)
    assert all(text[at : at + len(part)] == part and len(part) <= most for at, part in parts)
    assert "".join("".join(part.split()) for _, part in parts) == "".join(text.split())
    assert len(text) > most or parts == [(0, text)]
    assert len(text) <= most or len(parts) == 1 or all(part == part.lstrip() for _, part in parts)
    ends = [text[at + len(part) :][:1] for at, part in parts if any(c.isspace() for c in part.strip())]
    assert all(not end or end.isspace() for end in ends)  # a word is cut only where it is longer than a stretch


def test_tokens_of_a_long_text_are_those_of_its_stretches(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [long_text(300), "the bank", long_text(20)]
    whole = states_of(model, *texts)
    few(model, monkeypatch, 200)
    for one, other in zip(states_of(model, *texts), whole, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_text_of_too_many_tokens(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    few(model, monkeypatch, 200)
    monkeypatch.setattr(runtime_module, "MOST_TOKENS", 250)
    monkeypatch.setattr(model.runtime, "_run", lambda *_: pytest.fail("states are computed"))
    begins = re.escape(repr(long_text(300)[:40]))
    with pytest.raises(InputError, match=rf"a text of [\d,]+ characters, {begins} …; expected at most 250 tokens; cut"):
        list(model.token_states([long_text(300)]))


def test_what_is_found_in_a_long_text(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    text = long_text(300)
    few(model, monkeypatch, 200)
    monkeypatch.setattr(runtime_module, "MOST_TOKENS", 250)  # of the whole text: none can be had
    phrase, short = model.extract([text, "the old bank"])
    (alone,) = model.extract(["the old bank"])
    np.testing.assert_array_equal(short.ends, alone.ends)
    pieces = [text[start:end] for start, end in zip(phrase.starts, phrase.ends, strict=True)]
    assert len(pieces) > 300
    assert not [piece for piece in pieces if piece != piece.strip() or set(piece.split()) - set(WORDS)]
    some = [0, len(pieces) // 2, len(pieces) - 1]
    phrases = [Phrase(text, int(phrase.starts[i]), int(phrase.ends[i])) for i in some]
    assert (model.encode(phrases) * phrase.vectors[some]).sum(1).min() > 0.999
    across = Phrase(text, text.index(" ", 150) + 1, text.index(" ", 250))  # no stretch holds it
    assert np.linalg.norm(model.encode([across])) == pytest.approx(1, abs=1e-5)
    sentences = model.encode_sentences([text, "the old bank"])
    np.testing.assert_allclose(np.linalg.norm(sentences, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(sentences[1], model.encode_sentences(["the old bank"])[0], atol=1e-4)


def test_white_space_at_the_end_of_a_long_text_is_not_stretch(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    few(model, monkeypatch, 200)
    text = long_text(60)[:200].rstrip()
    one, *others = model.encode_sentences([text, text + " " * 300, text + "\n" * (201 - len(text))])
    for other in others:
        np.testing.assert_allclose(other, one, atol=1e-4)
    assert model.encode_sentences([" " * 300]).shape == (1, encoders.HIDDEN)


def test_the_tokenizer_takes_so_many_characters_at_once(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [long_text(number % 90) for number in range(600)]
    batches = list(runtime_module._batches(texts))
    assert [text for batch in batches for text in batch] == texts
    few(model, monkeypatch, 1_000)
    small = list(runtime_module._batches([*texts, "x" * 3_000, "y"]))
    assert [text for batch in small for text in batch] == [*texts, "x" * 3_000, "y"]
    assert max(sum(map(len, batch)) for batch in small if len(batch) > 1) <= 1_000
    assert max(map(len, batches)) <= 256
    assert list(runtime_module._batches([])) == []

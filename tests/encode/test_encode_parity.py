"""The exported folder against the very weights in transformers, torch and float32."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import encoders
import numpy as np
import pytest
from encoders import cosines
from safetensors.numpy import load_file

from phrasemate.encode import Model
from phrasemate.encode.runtime import States
from phrasemate.errors import InputError

LAYERS = range(encoders.DEPTH + 1)


def states_of(model: Model, layer: int | None = None) -> States:
    (states,) = model.token_states(encoders.SENTENCES, layer)
    return states


@pytest.mark.parametrize("layer", LAYERS)
def test_states_are_those_of_torch(folders: dict[str, Path], family: str, model: Model, layer: int) -> None:
    expected = np.concatenate(encoders.reference(folders[family], encoders.SENTENCES, layer))
    result = cosines(states_of(model, layer).values, expected)
    assert result.mean() >= 0.99
    assert result.min() >= 0.97  # what 4 bit for the tokens costs


@pytest.mark.parametrize("layer", LAYERS)
def test_what_is_left_is_rounding(folders: dict[str, Path], family: str, model: Model, layer: int) -> None:
    """With the same rounded weights in torch, only the arithmetic differs (int8 or bfloat16 activations)."""
    expected = np.concatenate(encoders.reference(folders[family], encoders.SENTENCES, layer, rounded=True))
    result = cosines(states_of(model, layer).values, expected)
    assert result.min() >= (0.999 if layer else 0.999999)


def test_the_comparison_sees_a_wrong_position(folders: dict[str, Path], models: dict[str, Model]) -> None:
    """With positions one further, as a mistake in the padding index would have it, the first test fails."""
    table = models["xlmr"].runtime.table
    right = table.additive
    try:
        table.additive = np.roll(right, -1, axis=0)
        wrong = states_of(models["xlmr"]).values
    finally:
        table.additive = right
    expected = np.concatenate(encoders.reference(folders["xlmr"], encoders.SENTENCES, encoders.DEPTH))
    assert cosines(wrong, expected).mean() < 0.9


@pytest.mark.parametrize(("family", "first"), [("bert", 0), ("xlmr", 1 + 1)])  # the padding's number is 1
def test_positions_count_from_the_padding(
    folders: dict[str, Path], models: dict[str, Model], family: str, first: int
) -> None:
    weights = load_file(folders[family] / "model.safetensors")
    positions = weights["embeddings.position_embeddings.weight"]
    kinds = weights["embeddings.token_type_embeddings.weight"][0]
    expected = [positions[first + i] + kinds for i in range(encoders.POSITIONS)]
    np.testing.assert_array_equal(models[family].runtime.table.additive, expected)
    assert models[family].runtime.window == encoders.POSITIONS - 2


def test_offsets(model: Model) -> None:
    states = states_of(model)
    words = [
        [text[a:b] for a, b in zip(states.starts[low:high], states.ends[low:high], strict=True)]
        for text, low, high in zip(encoders.SENTENCES, states.bounds[:-1], states.bounds[1:], strict=True)
    ]
    assert words[0] == ["", "The", "old", "bank", "on", "the", "river", "was", "closed", ".", ""]
    assert words[4] == ["", "Das", "alte", "Haus", "am", "Fluss", "ist", "rot", ".", ""]
    last = states.bounds[1] - 1
    assert (states.starts[last], states.ends[last]) == (len(encoders.SENTENCES[0]),) * 2


def test_offsets_count_characters_of_the_original(model: Model) -> None:
    text = "😀 Das  ﬁne  Éa bank"  # astral, two spaces, a ligature, an accent that BERT takes off
    (states,) = model.token_states([text])
    pieces = [text[a:b] for a, b in zip(states.starts, states.ends, strict=True)]
    assert pieces[-2] == "bank"
    assert {"😀", "Das"} <= set(pieces)
    assert not any(piece != piece.strip() for piece in pieces)
    assert set("".join(pieces)) >= set(text) - {" "}


def test_every_layer_is_there(model: Model) -> None:
    last = states_of(model, encoders.DEPTH).values
    np.testing.assert_array_equal(states_of(model).values, last)
    layers = [states_of(model, layer).values for layer in LAYERS]
    assert all(cosines(a, b).mean() < 0.999 for a, b in pairwise(layers))
    for layer in (-1, encoders.DEPTH + 1):
        with pytest.raises(InputError, match=rf"layer {layer}: this model carries \[0, 1, 2\].*--layer {layer}"):
            model.encode_sentences(["a"], layer=layer)

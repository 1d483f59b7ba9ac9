"""Phrases by their example sentences: the means of XPR's equations 1 and 2, against a plain loop."""

from __future__ import annotations

from collections.abc import Sequence

import encoders
import numpy as np
import pytest

from phrasemate.encode import Model, load_model
from phrasemate.encode.export.export import export_model
from phrasemate.encode.pooling import MeanHead, by_examples
from phrasemate.errors import InputError
from phrasemate.types import Phrase

BANK = [Phrase(encoders.SENTENCES[0], 8, 12), Phrase(encoders.SENTENCES[1], 15, 19)]
RIVER = [Phrase(encoders.SENTENCES[0], 20, 25)]
HOUSE = Phrase("red house", 0, 9)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    base = tmp_path_factory.mktemp("model")
    export_model(encoders.save_xlmr(base / "source"), base / "tiny", project=encoders.SENTENCES * 2, dim=16)
    return load_model(base / "tiny", threads=1)


def token_means(model: Model, examples: Sequence[Phrase]) -> np.ndarray:
    """(examples, width): eq. 1, an example and a token at a time; as in one call, for the last bits depend on that."""
    contexts = list(dict.fromkeys(example.context for example in examples))
    (states,) = model.token_states(contexts)
    results = []
    for example in examples:
        text = contexts.index(example.context)
        rows = range(*states.bounds[text : text + 2])
        inside = [row for row in rows if states.starts[row] < example.end and states.ends[row] > example.start]
        results.append(sum(states.values[row] for row in inside) / len(inside))
    return np.array(results)


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def test_the_mean_of_the_means(model: Model) -> None:
    vectors, counts = by_examples(model, ["bank", "river"], [BANK, RIVER])
    first, second, third = token_means(model, [*BANK, *RIVER])
    assert vectors[0] == pytest.approx(unit((first + second) / 2), abs=1e-5)  # eq. 2
    assert vectors[0] != pytest.approx(unit(unit(first) + unit(second)), abs=1e-5)
    assert vectors[1] == pytest.approx(unit(third), abs=1e-5)
    assert counts.tolist() == [2, 1]
    assert vectors.dtype == np.float32


def test_a_phrase_without_examples_is_its_own_context(model: Model) -> None:
    vectors, counts = by_examples(model, ["bank", " red house "], [BANK, []])
    assert counts.tolist() == [2, 0]
    assert vectors[1] == pytest.approx(unit(token_means(model, [*BANK, HOUSE])[2]), abs=1e-5)


def test_the_bare_phrase_is_mixed_in_at_unit_length(model: Model) -> None:
    vectors, counts = by_examples(model, ["bank", "red house"], [BANK, []], bare=0.6)
    first, second, bare, house = token_means(model, [*BANK, Phrase("bank", 0, 4), HOUSE])
    assert vectors[0] == pytest.approx(unit(unit(first + second) + 0.6 / np.sqrt(2) * unit(bare)), abs=1e-5)
    assert vectors[1] == pytest.approx(unit(house), abs=1e-5)
    assert counts.tolist() == [2, 0]


def test_poolings_side_by_side(model: Model) -> None:
    both = by_examples(model, ["bank"], [BANK], "mean+head")[0][0]
    mean, head = (by_examples(model, ["bank"], [BANK], pooling)[0][0] for pooling in ("mean", "head"))
    assert both == pytest.approx(np.concatenate([mean, head]) / np.sqrt(2), abs=1e-6)


def test_the_poolings_of_a_single_example_are_those_of_encode(model: Model) -> None:
    for pooling in ("cls", "ends", "head", "mean"):
        assert by_examples(model, ["river"], [RIVER], pooling)[0] == pytest.approx(
            model.encode(RIVER, pooling), abs=1e-5
        )


def test_a_projection_of_means_comes_after_the_averaging(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    inner, outer = (draw.standard_normal(s).astype(np.float32) for s in ((encoders.HIDDEN, 8), (8, 4)))
    head = MeanHead("pooled", inner, np.ones(8, np.float32), outer, np.ones(4, np.float32))
    monkeypatch.setattr(model, "head", head)
    vectors, _ = by_examples(model, ["bank"], [BANK], "head")
    mean = token_means(model, BANK).mean(0)
    assert vectors[0] == pytest.approx(unit(np.maximum(mean @ inner + 1, 0) @ outer + 1), abs=1e-5)


def test_a_sentence_of_two_phrases_is_encoded_once(model: Model) -> None:
    records = []
    by_examples(model, ["bank", "river"], [BANK, RIVER], progress=lambda *counts: records.append(counts))
    assert records == [(2, 2)]  # three examples in two sentences


def test_nothing_at_all(model: Model) -> None:
    vectors, counts = by_examples(model, [], [])
    assert (vectors.shape, counts.shape) == ((0, encoders.HIDDEN), (0,))


def test_errors(model: Model) -> None:
    with pytest.raises(InputError, match="2 phrases and examples for 1"):
        by_examples(model, ["bank", "river"], [BANK])
    with pytest.raises(InputError, match="is not a phrase"):
        by_examples(model, ["\u00a0"], [[]])
    with pytest.raises(InputError, match="pooling 'tail'"):
        by_examples(model, ["bank"], [BANK], "mean+tail")
    with pytest.raises(InputError, match=r"pooling 'mean\+'; expected one, or several"):
        by_examples(model, ["bank"], [BANK], "mean+")
    with pytest.raises(InputError, match="layer 7"):
        by_examples(model, ["bank"], [BANK], layer=7)

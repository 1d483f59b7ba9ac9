"""The projection of means (XPR): by hand, in a model folder, and its damage."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import encoders
import numpy as np
import pytest
from safetensors.numpy import save_file

from phrasemate import Phrase, load_model
from phrasemate.encode.export.export import add_projection, export_model
from phrasemate.encode.model_folder import HEADS
from phrasemate.encode.pooling import Head, MeanHead, pool_mean, unit
from phrasemate.errors import InputError, ModelError

VALUES = np.array([[1, 2], [3, 4], [5, 0], [0, 8]], np.float32)
FIRST, LAST = np.array([0, 1, 2]), np.array([3, 2, 2])
INNER = np.array([[1, -1, 0], [0, 1, -1]], np.float32)  # x -> x0, x1 - x0, -x1
INNER_BIAS, OUTER_BIAS = np.array([0, 1, 9], np.float32), np.array([0.5], np.float32)
OUTER = np.array([[2], [1], [1]], np.float32)


def by_hand(x: np.ndarray) -> np.ndarray:
    a, b, c = max(0, x[0]), max(0, x[1] - x[0] + 1), max(0, 9 - x[1])
    return np.array([2 * a + b + c + 0.5])


def head(place: str) -> MeanHead:
    return MeanHead(place, INNER, INNER_BIAS, OUTER, OUTER_BIAS)


def test_by_hand() -> None:
    means = [np.array([9 / 4, 14 / 4]), np.array([8 / 2, 4 / 2]), np.array([5.0, 0])]
    np.testing.assert_allclose(head("pooled")(VALUES, FIRST, LAST), [by_hand(mean) for mean in means])
    items = [by_hand(value) for value in VALUES]
    expected = [(items[0] + items[1] + items[2] + items[3]) / 4, (items[1] + items[2]) / 2, items[2]]
    np.testing.assert_allclose(head("tokens")(VALUES, FIRST, LAST), expected)
    np.testing.assert_allclose(head("tokens")(VALUES, FIRST[2:], LAST[2:]), expected[2:])
    np.testing.assert_array_equal(head("tokens").unit(VALUES, FIRST, LAST), np.ones((3, 1)))
    assert head("pooled")(VALUES, FIRST[:0], LAST[:0]).shape == (0, 1)
    assert head("tokens")(VALUES, FIRST[:0], LAST[:0]).shape == (0, 1)


def test_the_halves_leave_room_for_an_average_of_contexts() -> None:
    """A phrase in two contexts: the paper projects the mean of both, its code each token of both."""
    for place, expected in (
        ("pooled", by_hand(np.array([(8 / 2 + 5) / 2, (4 / 2 + 0) / 2]))),
        ("tokens", ((by_hand(VALUES[1]) + by_hand(VALUES[2])) / 2 + by_hand(VALUES[2])) / 2),
    ):
        tensors = head(place)
        result = tensors.after(tensors.before(VALUES, FIRST[1:], LAST[1:]).mean(0, keepdims=True))
        np.testing.assert_allclose(result, [expected])
        np.testing.assert_allclose(tensors.after(tensors.before(VALUES, FIRST, LAST)), tensors(VALUES, FIRST, LAST))
    linear = Head(INNER, INNER, INNER_BIAS)
    np.testing.assert_array_equal(linear.after(linear.before(VALUES, FIRST, LAST)), linear(VALUES, FIRST, LAST))
    assert (linear.dim, head("pooled").dim) == (3, 1)


def test_many_spans_are_those_of_a_plain_loop() -> None:
    draw = np.random.default_rng(1)
    values = draw.standard_normal((50, 2)).astype(np.float32)
    first = draw.integers(0, 40, 5_000)
    last = first + draw.integers(0, 9, 5_000)
    for place in ("pooled", "tokens"):
        result = head(place)(values, first, last)
        for span in range(0, 5_000, 97):
            rows = values[first[span] : last[span] + 1].astype(np.float64)
            expected = by_hand(rows.mean(0)) if place == "pooled" else np.mean([by_hand(row) for row in rows], 0)
            np.testing.assert_allclose(result[span], expected, rtol=1e-4, atol=1e-4)


def arrays(place: str = "pooled", dim: int = 5, hidden: int = 7) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(3)
    shapes: dict[str, tuple[int, ...]] = {"inner": (encoders.HIDDEN, hidden), "inner_bias": (hidden,)}
    shapes |= {"outer": (hidden, dim), "outer_bias": (dim,)}
    return {f"{place}_{name}": draw.standard_normal(shape).astype(np.float32) / 4 for name, shape in shapes.items()}


def saved(folders: dict[str, Path], out: Path, tensors: dict[str, np.ndarray], pooling: str | None = "mean") -> Path:
    shutil.copytree(folders["xlmr"], out)
    save_file(tensors, out / HEADS)
    (out / "training.json").write_text(json.dumps({"method": "xpr", **({"pooling": pooling} if pooling else {})}))
    return out


@pytest.mark.parametrize("place", ["pooled", "tokens"])
def test_a_model_with_it(folders: dict[str, Path], tmp_path: Path, place: str) -> None:
    tensors = arrays(place)
    source = saved(folders, tmp_path / "source", tensors)
    export_model(source, tmp_path / "out")
    model = load_model(tmp_path / "out", threads=1)
    assert (model.pooling, model.config["pooling"], model.dim, model.learned) == ("head", "mean", 5, None)
    assert (model.folder / HEADS).read_bytes() == (source / HEADS).read_bytes()
    phrases = [
        Phrase(encoders.SENTENCES[0], 4, 12),
        Phrase(encoders.SENTENCES[1], 15, 19),
        Phrase(encoders.SENTENCES[0], 0, 3),
    ]
    (first, second) = model.token_states([encoders.SENTENCES[0]]), model.token_states([encoders.SENTENCES[1]])
    states = [next(first), next(second)]
    for phrase, vector in zip(phrases, model.encode(phrases), strict=True):
        state = states[phrase.context == encoders.SENTENCES[1]]
        rows = state.values[(state.ends > phrase.start) & (state.starts < phrase.end) & (state.ends > state.starts)]

        def project(x: np.ndarray) -> np.ndarray:
            inner = np.maximum(x @ tensors[f"{place}_inner"] + tensors[f"{place}_inner_bias"], 0)
            result: np.ndarray = inner @ tensors[f"{place}_outer"] + tensors[f"{place}_outer_bias"]
            return result

        expected = project(rows.mean(0)) if place == "pooled" else project(rows).mean(0)
        np.testing.assert_allclose(vector, expected / np.linalg.norm(expected), atol=2e-2)  # other batches round
        mean = model.encode([phrase], pooling="mean")[0]
        np.testing.assert_allclose(mean, rows.mean(0) / np.linalg.norm(rows.mean(0)), atol=2e-2)
    some = model.extract([encoders.SENTENCES[0]])[0]
    np.testing.assert_allclose((some.vectors**2).sum(1), 1, atol=1e-5)


def test_what_a_phrase_is_comes_from_the_training(folders: dict[str, Path], tmp_path: Path) -> None:
    source = Path(shutil.copytree(folders["bert"], tmp_path / "source"))
    (source / "training.json").write_text('{"pooling": "mean"}')
    export_model(source, tmp_path / "told")
    assert load_model(tmp_path / "told", threads=1).pooling == "mean"
    export_model(source, tmp_path / "given", pooling="cls")
    assert load_model(tmp_path / "given", threads=1).pooling == "cls"
    (source / "training.json").unlink()
    hashes = {
        export_model(source, tmp_path / name / "out", pooling=pooling) for name, pooling in (("a", None), ("b", "ends"))
    }
    assert len(hashes) == 1  # as it always was
    (source / "training.json").write_text('{"pooling": "median"}')
    with pytest.raises(ModelError, match="trained with pooling 'median'; expected cls"):
        export_model(source, tmp_path / "new" / "out")


DAMAGES = [
    (
        {"pooled_outer_bias": None},
        "holds the arrays pooled_inner, pooled_inner_bias, pooled_outer, expected pooled_inner",
    ),
    ({"bias": np.zeros(5, np.float32)}, "holds the arrays bias, pooled_inner"),
    ({"tokens_inner": np.zeros((64, 7), np.float32)}, r"pooled_outer_bias, tokens_inner, expected pooled_inner, "),
    ({"pooled_inner": np.zeros((63, 7), np.float32)}, r"pooled_inner has the shape \(63, 7\), expected \(64, 7\)"),
    ({"pooled_outer": np.zeros((8, 5), np.float32)}, r"pooled_outer has the shape \(8, 5\), expected \(7, 5\)"),
    ({"pooled_inner_bias": np.zeros(7)}, "pooled_inner_bias is float64, expected float32"),
    ({"pooled_outer": np.full((7, 5), np.nan, np.float32)}, "pooled_outer holds a value that is not finite"),
]


@pytest.mark.parametrize(("changes", "expected"), DAMAGES)
def test_damaged_heads_are_not_exported(
    folders: dict[str, Path], tmp_path: Path, changes: dict[str, np.ndarray | None], expected: str
) -> None:
    tensors = {name: array for name, array in {**arrays(), **changes}.items() if array is not None}
    source = saved(folders, tmp_path / "source", tensors)
    with pytest.raises(ModelError, match=expected) as caught:
        export_model(source, tmp_path / "new" / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "new").exists()


def test_a_segmenter_may_lie_beside_it(folders: dict[str, Path], tmp_path: Path) -> None:
    segmenter = {name: array for name, array in encoders.heads().items() if name.startswith("segment")}
    export_model(saved(folders, tmp_path / "source", {**arrays(), **segmenter}), tmp_path / "out")
    model = load_model(tmp_path / "out", threads=1)
    assert model.learned is not None
    assert model.dim == 5


def test_it_is_not_replaced(folders: dict[str, Path], tmp_path: Path) -> None:
    source = saved(folders, tmp_path / "source", arrays())
    export_model(source, tmp_path / "out")
    with pytest.raises(InputError, match="has a trained projection"):
        add_projection(tmp_path / "out", encoders.SENTENCES, 4)
    with pytest.raises(InputError, match="has a trained projection, so none is learned"):
        export_model(source, tmp_path / "other", project=encoders.SENTENCES)


def test_the_length_of_vectors_is_that_of_unit() -> None:
    values = np.random.default_rng(0).standard_normal((6, 2)).astype(np.float32)
    first, last = np.array([0, 2]), np.array([1, 5])
    np.testing.assert_allclose(
        head("pooled").unit(values, first, last, threads=2), unit(head("pooled")(values, first, last))
    )
    np.testing.assert_array_equal(head("pooled").before(values, first, last), pool_mean(values, first, last))

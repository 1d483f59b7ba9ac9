"""What is rounded to int8 is evened out first, and nothing but the rounding changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import encoders
import numpy as np
import pytest
from encoders import cosines
from int8_rounding import rounded_copy
from safetensors.numpy import load_file

from phrasemate.encode import bundled_folder, load_model, runtime
from phrasemate.encode.export.export import export_model
from phrasemate.encode.export.onnx_graph import Smoothing, norms_of
from phrasemate.encode.export.to_hf import unpack_model

pytestmark = pytest.mark.slow

OUTLIER = 5  # a channel that is much larger than the others, as trained encoders have some
TEXTS = (
    "The old clock stopped at noon.",
    "Nach dem Regen roch der ganze Garten nach Erde und nassem Laub.",
    "Elle a perdu ses clés dans le train de nuit.",
    "Собака не хотела выходить на улицу.",
    "他把书放在窗边的桌子上。",
    "Please send the signed form (two copies) to the office by Friday, 5 p.m.",
)


def states_of(folder: Path, texts: tuple[str, ...] = encoders.SENTENCES, layer: int | None = None) -> np.ndarray:
    return np.concatenate([block.values for block in load_model(folder, threads=1).token_states(texts, layer)])


@pytest.fixture
def uneven(folders: dict[str, Path], family: str, tmp_path: Path) -> Path:
    """An encoder of which one channel is forty times as large as the others, far from 0, after every layer norm."""
    folder = Path(shutil.copytree(folders[family], tmp_path / "uneven"))
    weights = load_file(folder / "model.safetensors")
    for name in weights:
        if name.endswith("LayerNorm.weight"):
            weights[name][OUTLIER] = 40
        elif name.endswith("LayerNorm.bias"):
            weights[name][OUTLIER] = 20
        elif name.endswith(("query.weight", "key.weight", "value.weight", "intermediate.dense.weight")):
            weights[name][:, OUTLIER] /= 40  # or nothing else would count
    encoders.alter(folder, **{name.replace(".", "__"): weights[name] for name in weights})
    return folder


@pytest.fixture
def in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models compute in float32, on whatever processor: only what a graph says itself is rounded."""
    usual = runtime.options
    exact = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
    monkeypatch.setattr(runtime, "options", lambda core, threads, fp32: {**usual(core, threads), **exact})


def test_shift_and_scale_by_hand() -> None:
    """Spreads 1, 4, 4, 64 about 3, 0, -1.01, 10: roots of their ratio to the middle one, means to a 32nd."""
    waves = np.array([[-1.0, 1.0, 1.0, -1.0]]).T
    states = waves * [1, 4, 4, 64] + [3, 0, -1.01, 10]  # (4 tokens, 4)
    shift, scale = Smoothing.of(states.astype(np.float32))
    np.testing.assert_array_equal(scale, np.float32([0.5, 1, 1, 4]))
    np.testing.assert_array_equal(shift, np.float32([3, 0, -1, 10]))


def test_a_channel_that_never_changes_keeps_its_scale() -> None:
    states = np.float32([[7, 1, 0], [7, -1, 0]])
    shift, scale = Smoothing.of(states)
    np.testing.assert_array_equal(scale, [1, 1, 1])
    np.testing.assert_array_equal(shift, [7, 0, 0])
    np.testing.assert_array_equal(Smoothing.of(np.full((3, 2), 5, np.float32)).scale, [1, 1])
    hardly = np.float32([[1, 1e-6, -1], [-1, -1e-6, 1]])
    np.testing.assert_array_equal(Smoothing.of(hardly).scale, [1, 0.25, 1])  # not a thousandth


def test_the_norms_that_products_read() -> None:
    """Two of each layer; what the last one gives goes nowhere."""
    assert norms_of(2) == [
        "embeddings.LayerNorm",
        "encoder.layer.0.attention.output.LayerNorm",
        "encoder.layer.0.output.LayerNorm",
        "encoder.layer.1.attention.output.LayerNorm",
    ]


@pytest.mark.parametrize("layer", range(encoders.DEPTH + 1))
def test_all_outputs_stay_what_they_were(uneven: Path, tmp_path: Path, layer: int) -> None:
    """Also those within, which the graph itself no longer holds."""
    expected = np.concatenate(encoders.reference(uneven, encoders.SENTENCES, layer))
    export_model(uneven, tmp_path / "smooth", layers=range(encoders.DEPTH + 1), embedding_bits=8)
    assert cosines(states_of(tmp_path / "smooth", layer=layer), expected).min() > 0.999


def test_the_outlier_no_longer_costs_the_others_their_bits(in_float32: None, uneven: Path, tmp_path: Path) -> None:
    """The squared error of rounding is less than a fifth of what it was, against the same weights without it."""
    lost = {}
    for name, smooth in (("plain", False), ("smooth", True)):
        folder = tmp_path / name
        export_model(uneven, folder, smooth=smooth)
        unpack_model(folder, tmp_path / f"{name}-encoder")
        expected = np.concatenate(encoders.reference(tmp_path / f"{name}-encoder", encoders.SENTENCES, encoders.DEPTH))
        rounded_copy(folder, tmp_path / f"{name}-rounded", encoders.HIDDEN)
        states = states_of(tmp_path / f"{name}-rounded")
        others = np.arange(encoders.HIDDEN) != OUTLIER
        lost[name] = float(np.square(states - expected)[:, others].mean())
    assert lost["smooth"] < lost["plain"] / 5


def test_the_same_scales_from_other_threads_and_runs(uneven: Path, tmp_path: Path) -> None:
    assert export_model(uneven, tmp_path / "a", name="x") == export_model(uneven, tmp_path / "b", name="x")
    assert export_model(uneven, tmp_path / "c", name="x", smooth=False) != load_model(tmp_path / "a").hash


def test_the_bundled_model_keeps_its_cosines_in_int8(in_float32: None, tmp_path: Path) -> None:
    """.999 and more, with a scale for as many numbers as the runtime has."""
    folder = bundled_folder()
    rounded_copy(folder, tmp_path / "rounded", runtime.GROUP)
    assert cosines(states_of(tmp_path / "rounded", TEXTS), states_of(folder, TEXTS)).mean() >= 0.999

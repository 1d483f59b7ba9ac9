"""The projection that is learned from plain text: principal components, half way to whitened."""

from __future__ import annotations

import shutil
from pathlib import Path

import encoders
import numpy as np
import pytest

from phrasemate.encode import load_model
from phrasemate.encode.export.export import add_projection, export_model
from phrasemate.encode.heads import WHITENING, principal_axes
from phrasemate.encode.model_folder import CONFIG, HEADS, MANIFEST
from phrasemate.errors import InputError
from phrasemate.types import Phrase

pytestmark = pytest.mark.slow

DIM = 8


@pytest.fixture
def folder(folders: dict[str, Path], family: str, tmp_path: Path) -> Path:
    export_model(folders[family], tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("dim", [1, 3, 6])
def test_axes_against_numpy(dim: int) -> None:
    drawn = np.random.default_rng(0)
    x = drawn.standard_normal((500, 6)) @ drawn.standard_normal((6, 6)) + [5, 0, -3, 1, 1, 2]
    kernel, bias = principal_axes(x.mean(0), x.T @ x / len(x), dim)
    assert (kernel.shape, bias.shape, kernel.dtype) == ((6, dim), (dim,), np.float32)
    projected = x @ kernel + bias
    values = np.linalg.eigvalsh(np.cov(x.T, bias=True))[::-1][:dim]
    np.testing.assert_allclose(projected.mean(0), 0, atol=1e-4)
    # a component's variance is its eigenvalue v; divided by v ** 0.25 it is v / v ** 0.5
    np.testing.assert_allclose(np.cov(projected.T, bias=True), np.diag(values ** (1 - WHITENING)), atol=1e-3)


def test_axes_without_variance() -> None:
    kernel, bias = principal_axes(np.ones(4), np.ones((4, 4)), 2)
    assert np.isfinite(kernel).all()
    np.testing.assert_allclose(np.ones(4) @ kernel + bias, 0, atol=1e-2)


def test_a_model_with_a_projection(folder: Path) -> None:
    before = load_model(folder, threads=1)
    digest = add_projection(folder, encoders.SENTENCES, DIM, {"text": "made up"})
    model = load_model(folder, threads=1)
    assert (model.hash, model.dim, model.pooling) == (digest, DIM, "head")
    assert digest != before.hash
    count = sum(map(len, before.segment(encoders.SENTENCES)))
    table = {"projection": "principal components of phrase ends", "phrases": count, "dim": DIM, "text": "made up"}
    assert model.config["signature"] == table
    assert (folder / HEADS).stat().st_mode & 0o777 == 0o644


def test_it_is_learned_from_the_ends_of_the_phrases(folder: Path) -> None:
    before = load_model(folder, threads=1)
    add_projection(folder, encoders.SENTENCES, DIM)
    x = np.concatenate(list(before.ends(encoders.SENTENCES))).astype(np.float64)
    kernel, _ = principal_axes(x.mean(0), x.T @ x / len(x), DIM)
    model = load_model(folder, threads=1)
    assert model.head is not None
    values = np.concatenate([model.head.start, model.head.end])
    np.testing.assert_allclose(np.abs(values), np.abs(kernel), atol=1e-2)  # the sign of an axis is free
    expected = x @ np.concatenate([model.head.start, model.head.end]) + model.head.bias
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    vectors = np.concatenate([extraction.vectors for extraction in model.extract(encoders.SENTENCES)])
    assert (vectors * expected).sum(1).min() > 0.999
    assert np.abs(expected.mean(0)).max() < 0.5


def test_all_poolings_stay(folder: Path) -> None:
    phrase = Phrase("The old bank", 8, 12)
    before = load_model(folder, threads=1)
    add_projection(folder, encoders.SENTENCES, DIM)
    model = load_model(folder, threads=1)
    for pooling in ("cls", "ends", "mean"):
        np.testing.assert_array_equal(model.encode([phrase], pooling), before.encode([phrase], pooling))
    assert model.encode([phrase]).shape == model.encode([phrase], pooling="head").shape == (1, DIM)
    np.testing.assert_array_equal(model.encode_sentences(["The bank"]), before.encode_sentences(["The bank"]))


def test_errors_change_nothing(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    for texts, dim, expected in (
        (encoders.SENTENCES, 0, "dim 0: expected 1 to 128, twice the model's width"),
        (encoders.SENTENCES, 129, "dim 129: expected 1 to 128"),
        ((), 4, "0 phrases in the text, expected 8 or more for 4 dimensions; give more text"),
        (("", "…", "12"), 4, "0 phrases in the text"),
        (encoders.SENTENCES[:1], 100, "expected 200 or more for 100 dimensions"),
    ):
        with pytest.raises(InputError, match=expected):
            add_projection(copy, texts, dim)
    assert {p.name: p.read_bytes() for p in copy.iterdir()} == {p.name: p.read_bytes() for p in folder.iterdir()}
    assert not (copy / HEADS).exists()
    assert {CONFIG, MANIFEST} <= {path.name for path in copy.iterdir()}

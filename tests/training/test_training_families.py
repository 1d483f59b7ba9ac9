"""CCPR and XPR on encoders of every family: what is trained, what is saved, and where tokens stand."""

from __future__ import annotations

import random
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import hf_families
import numpy as np
import pytest
import torch
from example_data import settings, write_split
from pair_files import write_pairs
from safetensors.torch import load_file

from phrasemate.errors import InputError, ModelUnsupported
from phrasemate.training.ccpr import CCPRTask
from phrasemate.training.ccpr import Config as CCPRConfig
from phrasemate.training.frozen_states import Lower, WholeEncoder
from phrasemate.training.hf_encoder import Backbone, Tokenizer, longest_text, token_rows
from phrasemate.training.xpr import Config as XPRConfig
from phrasemate.training.xpr import XPRTask

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ccpr_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    write_pairs(folder / "en-xx.jsonl", 24, 1)
    return folder


@pytest.fixture(scope="module")
def xpr_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("xpr")
    write_split(folder / "xx-en" / "train.jsonl", 1, 6)
    write_split(folder / "xx-en" / "dev.jsonl", 2, 4)
    return folder


@pytest.fixture(scope="module", params=hf_families.FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hf_families.save_family(request.param, tmp_path_factory.mktemp("families") / request.param)


def ccpr_config(base: Path, **model: Any) -> CCPRConfig:
    return CCPRConfig.of(
        {
            "data": {"files": ["*.jsonl"], "batch": 4, "phrases": 4, "dev": 4},
            "model": {"base": str(base), "dropout": 0.1, **model},
            "loss": {"dim": 8, "sentence": 0.5, "normalise": True, "context": 0.5},
            "optimizer": {"chunk": 64},
            "loop": {"steps": 2, "precision": "fp32"},
        }
    )


def moved(task: Any, batch: Any, inner: Any) -> tuple[set[str], float]:
    """The names of the encoder's parameters that get a gradient other than zero, and the loss."""
    task.module.train()
    figures = task.backward(batch, nullcontext, 1.0)
    graded = {name for name, value in inner.named_parameters() if value.grad is not None and value.grad.any()}
    return graded, figures["loss"]


def test_ccpr_trains_every_family(folder: Path, ccpr_data: Path, tmp_path: Path) -> None:
    """All layers but the frozen ones get a gradient; what is saved is loaded again with the same states."""
    task = CCPRTask(ccpr_config(folder), ccpr_data)
    assert task.tokenizer.max_tokens == min(128, longest_text(folder))
    graded, loss = moved(task, task.batch(0), task.backbone.encoder)
    assert np.isfinite(loss)
    table = next(n for n, p in task.backbone.encoder.named_parameters() if p is _table(task.backbone))
    assert table not in graded
    assert len(graded) >= 8
    task.save(tmp_path / "model")
    texts = task.tokenizer(["The old bank", "a"])
    with torch.no_grad():
        expected = task.backbone.eval().states(texts, 64)
        states = Backbone(tmp_path / "model").eval().states(texts, 64)
    assert torch.allclose(states, expected, atol=1e-5)


def _table(backbone: Backbone) -> torch.Tensor:
    table: torch.Tensor = backbone.encoder.get_input_embeddings().weight
    return table


def test_xpr_trains_every_family(folder: Path, xpr_data: Path, tmp_path: Path) -> None:
    """With trained embeddings; the last layer is taken out, so that phrases are states of the first."""
    model = {"base": str(folder), "layer": 1, "embeddings": "trained"}
    task = XPRTask(XPRConfig.of(settings(folder, model=model)), xpr_data, tmp_path)
    graded, loss = moved(task, task.batch(0), task.backbone.encoder)
    assert np.isfinite(loss)
    name = next(n for n, p in task.backbone.encoder.named_parameters() if p is _table(task.backbone))
    assert name in graded
    task.save(tmp_path / "model")
    assert Backbone(tmp_path / "model").depth == 1


@pytest.mark.parametrize("name", ["modernbert", "qwen3"])
def test_frozen_layers_stay(name: str, tmp_path: Path, ccpr_data: Path) -> None:
    base = hf_families.save_family(name, tmp_path / "hf")
    task = CCPRTask(ccpr_config(base, frozen=1), ccpr_data)
    graded, _ = moved(task, task.batch(0), task.backbone.encoder)
    assert any("layers.1." in one for one in graded)
    assert not any("layers.0." in one for one in graded)


def test_albert_shares_its_layers(tmp_path: Path) -> None:
    base = hf_families.save_family("albert", tmp_path / "hf")
    with pytest.raises(ModelUnsupported, match="no list of 2 layers"):
        Backbone(base, frozen=1)


def test_only_written_families_are_cut(tmp_path: Path, xpr_data: Path) -> None:
    bert, modern = (hf_families.save_family(name, tmp_path / name) for name in ("bert", "modernbert"))
    halves = {
        (base.name, table): XPRTask(
            XPRConfig.of(settings(base, model={"base": str(base), "embeddings": table})), xpr_data, tmp_path
        )
        for base, table in ((bert, "frozen"), (bert, "trained"), (modern, "frozen"))
    }
    cut = {key for key, task in halves.items() if isinstance(task.feed.lower, Lower)}
    assert cut == {("bert", "frozen")}
    assert all(isinstance(task.module.upper, WholeEncoder) for key, task in halves.items() if key not in cut)
    with pytest.raises(ModelUnsupported, match=r"give model\.kept = false"):
        XPRTask(XPRConfig.of(settings(modern, model={"base": str(modern), "kept": True})), xpr_data, tmp_path)
    with pytest.raises(InputError, match=r"\[model\] embeddings: 'warm'; expected frozen or trained"):
        XPRConfig.of(settings(bert, model={"base": str(bert), "embeddings": "warm"}))


def test_the_whole_encoder_gives_what_the_cut_one_gives(tmp_path: Path, xpr_data: Path) -> None:
    base = hf_families.save_family("bert", tmp_path / "hf")
    vectors = []
    for table in ("frozen", "trained"):
        task = XPRTask(XPRConfig.of(settings(base, model={"base": str(base), "embeddings": table})), xpr_data, tmp_path)
        task.module.eval()
        vectors.append(task.held_out(0, nullcontext))
    assert torch.allclose(*vectors, atol=1e-5)


def test_a_tokenizer_that_only_closes(tmp_path: Path) -> None:
    """Of a decoder the first token of a text is its first word, and the window keeps the closing one."""
    from phrasemate import Phrase
    from phrasemate.dataset.wikixpr import ExamplePair
    from phrasemate.training.ccpr_data import token_rows
    from phrasemate.training.example_data import contexts_of, sampled

    tokenizer = Tokenizer(hf_families.save_family("qwen3", tmp_path / "hf"), max_tokens=8)
    assert tokenizer.edges == (0, 1)
    batch = tokenizer(["a b"])
    first, last, whole = token_rows(batch, 0, np.array([0]), np.array([1]))
    assert (first.tolist(), last.tolist(), whole.tolist()) == ([0], [0], [True])
    phrase = Phrase("x y z old bank x y z", 6, 9)
    contexts = contexts_of("xx-en", [ExamplePair("old", "old", (phrase,), (phrase,))], tokenizer, 0)
    some = sampled([contexts], [(0, 0)], 1, random.Random(0))
    closing = tokenizer([""]).ids.tolist()
    for low, high, at in zip(some.bounds, some.bounds[1:], some.first, strict=False):
        ids = some.ids[low:high].tolist()
        assert ids[-1:] == closing
        assert len(ids) <= 8
        assert ids[at] in tokenizer([" old"]).ids.tolist()


@pytest.mark.parametrize(("opening", "closing"), [("", ""), ("<s>", ""), ("", "</s>")])
def test_ccpr_and_xpr_train_whatever_special_tokens_there_are(
    opening: str, closing: str, ccpr_data: Path, xpr_data: Path, tmp_path: Path
) -> None:
    """What was trained is exported, and its phrase vectors are those of the training."""
    from phrasemate.encode import load_model
    from phrasemate.encode.export.export import export_model
    from phrasemate.types import Phrase

    base = hf_families.save_family("modernbert", tmp_path / "hf")
    hf_families.byte_bpe(opening, closing).save(str(base / "tokenizer.json"))
    task = CCPRTask(ccpr_config(base), ccpr_data)
    assert task.tokenizer.edges == (len(opening) > 0, len(closing) > 0)
    batch = task.batch(0)
    _, loss = moved(task, batch, task.backbone.encoder)
    assert np.isfinite(loss)
    task.save(tmp_path / "model")
    export_model(tmp_path / "model", tmp_path / "out", precision="fp32", embedding_bits=16, context_weight=0)
    text = "the old bank"
    tokens = task.tokenizer([text])
    with torch.no_grad():
        states = task.backbone.eval().states(tokens, 64).numpy()
    first, last, _ = token_rows(tokens, 0, np.array([4]), np.array([12]))
    heads = load_file(tmp_path / "model" / "heads.safetensors")
    expected = states[first] @ heads["start"].numpy() + states[last] @ heads["end"].numpy() + heads["bias"].numpy()
    vector = load_model(tmp_path / "out", threads=1).encode([Phrase(text, 4, 12)])
    assert (vector * expected).sum() / np.linalg.norm(expected) >= 0.999
    xpr = XPRTask(XPRConfig.of(settings(base, model={"base": str(base)})), xpr_data, tmp_path)
    _, loss = moved(xpr, xpr.batch(0), xpr.backbone.encoder)
    assert np.isfinite(loss)


def test_the_sentence_of_a_blank_text_after_an_opening_token(tmp_path: Path, ccpr_data: Path) -> None:
    """It has that token alone, which does not take one of the text that follows."""
    base = hf_families.save_family("modernbert", tmp_path / "hf")
    hf_families.byte_bpe("<s>", "").save(str(base / "tokenizer.json"))
    task = CCPRTask(ccpr_config(base), ccpr_data)
    tokens = task.tokenizer(["", "old", ""])
    halves = torch.randn(len(tokens.ids), 8), torch.randn(len(tokens.ids), 8)
    units = torch.nn.functional.normalize(halves[0] + halves[1], dim=1)
    contexts = task.objective.contexts(halves, tokens)
    expected = torch.stack([units[0], units[2 : len(units) - 1].mean(0), units[-1]])
    assert torch.allclose(contexts, expected, atol=1e-5)


def test_of_a_decoder_the_last_token_is_the_sentence(tmp_path: Path, ccpr_data: Path) -> None:
    task = CCPRTask(ccpr_config(hf_families.save_family("qwen3", tmp_path / "hf")), ccpr_data)
    batch = task.batch(0)
    states = torch.randn(len(batch.tokens.ids), task.backbone.width)
    vectors = task.objective.sentence_vectors(states, batch.tokens)
    expected = states[batch.tokens.bounds[1:] - 1]
    assert torch.allclose(vectors, expected / expected.norm(dim=1, keepdim=True), atol=1e-6)


def test_saved_weights_are_the_trained_ones(tmp_path: Path, ccpr_data: Path) -> None:
    task = CCPRTask(
        ccpr_config(hf_families.save_family("modernbert", tmp_path / "hf"), embeddings="trained"), ccpr_data
    )
    with torch.no_grad():
        _table(task.backbone)[7] = 1.5
    task.save(tmp_path / "model")
    saved = load_file(tmp_path / "model" / "model.safetensors")
    assert any(len(value) > 7 and (value[7] == 1.5).all() for value in saved.values() if value.ndim == 2)

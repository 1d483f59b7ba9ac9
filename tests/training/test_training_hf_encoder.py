"""The encoder in chunks against the encoder text by text; cached gradients against plain ones."""

from __future__ import annotations

import json
import logging
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from phrasemate.encode import load_model
from phrasemate.encode.export.export import export_model
from phrasemate.errors import InputError, ModelError
from phrasemate.training.gradcache import chunked_backward
from phrasemate.training.hf_encoder import Backbone, Tokenizer, longest_text, save_encoder, token_rows

TEXTS = ["The old bank", "", "He opened the window because it was hot.", "a \ud800 house", "好的"]


@pytest.fixture(scope="module")
def tokenizer(base: Path) -> Tokenizer:
    return Tokenizer(base)


def test_states_are_those_of_each_text_alone(base: Path, tokenizer: Tokenizer) -> None:
    backbone = Backbone(base, dropout=0.0).eval()
    batch = tokenizer(TEXTS)
    with torch.no_grad():
        states = backbone.states(batch, tokens=24)
        for text, (low, high) in enumerate(zip(batch.bounds, batch.bounds[1:], strict=False)):
            ids = torch.from_numpy(batch.ids[low:high])[None]
            alone = backbone.encoder(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state[0]
            assert torch.allclose(states[low:high], alone, atol=1e-5), TEXTS[text]


def test_chunks_hold_every_token_once_and_are_small(base: Path, tokenizer: Tokenizer) -> None:
    backbone, batch = Backbone(base), tokenizer(TEXTS * 3)
    chunks = list(backbone.chunks(batch, 24))
    assert sorted(np.concatenate([chunk.rows.numpy() for chunk in chunks])) == list(range(len(batch.ids)))
    assert all(chunk.ids.numel() <= 24 or len(chunk.ids) == 1 for chunk in chunks)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_cached_gradients_are_the_gradients(base: Path, tokenizer: Tokenizer, dropout: float) -> None:
    backbone, batch = Backbone(base, dropout=dropout).train(), tokenizer(TEXTS)
    weights = torch.randn(len(batch.ids), backbone.width)

    def objective(states: Tensor) -> Tensor:
        return (torch.tanh(states @ states.T).mean() + (states * weights).mean()) ** 2

    def gradients() -> list[Tensor]:
        return [p.grad.clone() for p in backbone.parameters() if p.grad is not None]

    torch.manual_seed(3)
    plain = objective(backbone.states(batch, 24))
    plain.backward()
    expected = gradients()
    backbone.zero_grad()
    torch.manual_seed(3)
    cached = chunked_backward(backbone, batch, 24, objective)
    assert cached.item() == pytest.approx(plain.item(), rel=1e-5)
    result = gradients()
    assert len(result) == len(expected) > 10
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(result, expected, strict=True))


def test_frozen_parts_get_no_gradient(base: Path, tokenizer: Tokenizer) -> None:
    backbone = Backbone(base, frozen=1)
    backbone.states(tokenizer(TEXTS), 64).sum().backward()
    trained = {name for name, p in backbone.named_parameters() if p.grad is not None}
    assert trained
    assert not any("embeddings" in name or "layer.0." in name for name in trained)
    with pytest.raises(InputError, match="frozen"):
        Backbone(base, frozen=2)


def test_rows_and_states_are_those_of_the_runtime(base: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    """What is trained is what is searched with: same tokens, same places, same states but for rounding."""
    export_model(base, tmp_path / "model", embedding_bits=8)
    text = "She sat on the bank and read a book."
    states = next(iter(load_model(tmp_path / "model", threads=1).token_states([text])))
    batch = tokenizer([text])
    assert states.starts.tolist() == [*batch.starts.tolist()[:-1], len(text)]  # the closing token's place is free
    assert states.ends[1:-1].tolist() == batch.ends.tolist()[1:-1]
    with torch.no_grad():
        single = Backbone(base).eval().states(batch, 64)
    cosines = torch.nn.functional.cosine_similarity(single, torch.from_numpy(states.values))
    assert cosines.min() > 0.99


def test_what_is_cut_off_has_no_rows(base: Path) -> None:
    batch = Tokenizer(base, max_tokens=6)(["the old house the old house"])
    starts, ends = np.array([0, 4, 23]), np.array([3, 13, 27])
    first, last, whole = token_rows(batch, 0, starts, ends)
    assert whole.tolist() == [True, True, False]
    assert (first[:2] >= 1).all()
    assert (last[:2] <= 4).all()


def test_an_encoder_without_some_of_its_weights_is_one_error(base: Path, tmp_path: Path) -> None:
    shutil.copytree(base, tmp_path / "short")
    weights = load_file(base / "model.safetensors")
    lost = [name for name in weights if "layer.0.output.dense" in name]
    save_file(
        {name: value for name, value in weights.items() if name not in lost}, tmp_path / "short/model.safetensors"
    )
    with pytest.raises(ModelError, match=f"{len(lost)} weights are not there, such as .*layer.0.output.dense.bias"):
        Backbone(tmp_path / "short")


def test_loading_without_a_pooler_says_nothing(
    base: Path, tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_encoder(Backbone(base).encoder, tokenizer, base, tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    assert weights
    assert not any("pooler" in name for name in weights)  # transformers lists it as missing
    messages: list[logging.LogRecord] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", messages.append)
    monkeypatch.setattr(logging.getLogger("transformers"), "handlers", [handler])
    Backbone(tmp_path)
    assert messages == []


def test_transformers_loads_what_was_saved_and_cuts_alike(base: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    backbone = Backbone(base)
    save_encoder(backbone.encoder, tokenizer, base, tmp_path)
    loaded, batch = transformers.AutoTokenizer.from_pretrained(tmp_path), tokenizer(TEXTS[:3])
    assert loaded.pad_token is not None
    assert loaded.model_max_length <= backbone.encoder.config.max_position_embeddings
    assert np.concatenate(loaded(TEXTS[:3])["input_ids"]).tolist() == batch.ids.tolist()


def test_a_tokenizer_without_special_tokens(base: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    """The tokens of the words alone; a text without any has one."""
    value = json.loads((base / "tokenizer.json").read_text())
    (tmp_path / "tokenizer.json").write_text(json.dumps(value | {"post_processor": None}))
    plain = Tokenizer(tmp_path)
    assert plain.edges == (0, 0)
    texts = [text for text in TEXTS if text][:2]
    batch, usual = plain([*texts, ""]), tokenizer(texts)
    for number in range(2):
        rows = slice(*batch.bounds[number : number + 2])
        inner = slice(usual.bounds[number] + 1, usual.bounds[number + 1] - 1)
        assert batch.ids[rows].tolist() == usual.ids[inner].tolist()
        assert batch.starts[rows].tolist() == usual.starts[inner].tolist()
    assert np.diff(batch.bounds)[-1] == 1


def test_the_tokenizer_of_a_base_of_other_files_is_saved_with_it(base: Path, tmp_path: Path) -> None:
    """A folder of an older transformers has a vocabulary and its settings alone."""
    old = tmp_path / "old"
    old.mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "bank", "ri", "##ver", *"abcdefghijklmnopqrstuvwxyz"]
    (old / "vocab.txt").write_text("\n".join(words) + "\n")
    (old / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
    (old / "config.json").write_text(json.dumps({"model_type": "bert"}))
    tokenizer = Tokenizer(old)
    save_encoder(Backbone(base).encoder, tokenizer, old, tmp_path)
    texts = ["the river bank", "unknown: 好"]
    first, second = (cut(texts) for cut in (tokenizer, Tokenizer(tmp_path)))
    assert first.ids.tolist() == second.ids.tolist()
    assert first.ids.tolist()[:6] == [words.index(word) for word in ("[CLS]", "the", "ri", "##ver", "bank", "[SEP]")]


def test_a_folder_without_an_encoder_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no fast tokenizer"):
        Tokenizer(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="expected the name of an architecture"):
        Backbone(tmp_path)


def test_a_text_is_never_longer_than_the_encoder_takes(base: Path) -> None:
    """The tiny one has 66 positions, of which XLM-R does not use the first two."""
    assert longest_text(base) == 66 - 2
    batch = Tokenizer(base, longest_text(base))(["one two " * 100])
    assert len(batch.ids) == 64
    assert Backbone(base).states(batch, 64).isfinite().all()
    with pytest.raises(ModelError, match="no such folder, and it could not be downloaded"):
        longest_text(base / "nothing")


def test_weights_are_not_unpickled(base: Path, tmp_path: Path) -> None:
    shutil.copytree(base, tmp_path / "base")
    weights = tmp_path / "base" / "model.safetensors"
    torch.save(load_file(weights), tmp_path / "base" / "pytorch_model.bin")
    weights.unlink()
    with pytest.raises(ModelError, match=r"no encoder that transformers loads .*safetensors"):
        Backbone(tmp_path / "base")


@pytest.mark.parametrize("dropout", [-0.1, 1.0, math.nan])
def test_a_senseless_dropout_is_named(base: Path, dropout: float) -> None:
    with pytest.raises(InputError, match=r"\[model\] dropout: .*; expected 0 to below 1"):
        Backbone(base, dropout=dropout)


def test_code_of_a_folder_is_never_run_and_nobody_is_asked(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "own"
    shutil.copytree(base, folder)
    config = json.loads((folder / "config.json").read_text())
    auto = {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "own", "auto_map": auto}))
    (folder / "own.py").write_text("raise SystemExit('was run')")
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("was asked"))
    for load in (Backbone, longest_text):
        with pytest.raises(ModelError, match="no encoder that transformers loads"):
            load(folder)

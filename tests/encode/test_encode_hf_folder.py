"""Folders that an export takes in, without an export: refusals by name, files of sentence-transformers, averages."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import encoders
import numpy as np
import pytest
from safetensors.numpy import load_file

from phrasemate.encode.export import traced_graph
from phrasemate.encode.export.export import export_model
from phrasemate.encode.export.hf_folder import read_config, read_sentence_folder, write_json, write_sentence_folder
from phrasemate.encode.heads import Layer, SentenceHead
from phrasemate.encode.runtime import import_openvino
from phrasemate.errors import ModelError, ModelUnsupported


def config_of(folder: Path, **values: Any) -> Path:
    folder.mkdir(exist_ok=True)
    write_json(folder / "config.json", values)
    return folder


def test_a_written_graph_is_of_few_families(tmp_path: Path) -> None:
    with pytest.raises(ModelUnsupported, match=r"model_type 'mpnet'; expected one of bert, camembert, roberta, xlm-"):
        read_config(config_of(tmp_path, model_type="mpnet"))


def test_what_transformers_does_not_load_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"a: no encoder that transformers loads \(.*`nonsense`"):
        traced_graph.encoder_config(config_of(tmp_path / "a", model_type="nonsense"))
    classes = {"architectures": ["NewModel"], "auto_map": {"AutoModel": "modeling.NewModel"}}
    folder = config_of(tmp_path / "b", model_type="new", **classes)
    with pytest.raises(ModelUnsupported, match=r"NewModel \(model_type 'new'\) needs code .* take gte-multilingual in"):
        traced_graph.encoder_config(folder)
    with pytest.raises(ModelUnsupported, match=r"'clip' is not an encoder of text alone \(sizes .*'hidden_size': None"):
        traced_graph.encoder_config(config_of(tmp_path / "c", model_type="clip"))


def test_a_head_of_sentence_transformers_comes_back_as_it_was_written(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    width, dim = 6, 3
    kernel, bias, gain, shift = (
        draw.standard_normal(shape).astype(np.float32) for shape in ((dim, 2 * width), dim, dim, dim)
    )
    layers = (
        Layer("dense", "GELU", kernel, bias),
        Layer("layer_norm", weight=gain, bias=shift),
        Layer("dense", "Identity", kernel[:, :dim]),
        Layer("normalize"),
    )
    head = SentenceHead(("mean", "cls"), False, {"query": "q: "}, "query", layers)  # not in the order of flags
    write_sentence_folder(tmp_path, head, width, 24)
    pooling = json.loads((tmp_path / "1_Pooling" / "config.json").read_text())
    assert pooling == {"word_embedding_dimension": 6, "pooling_mode": ["mean", "cls"], "include_prompt": False}
    assert json.loads((tmp_path / "3_LayerNorm" / "config.json").read_text()) == {"dimension": dim}
    folder = read_sentence_folder(tmp_path)
    assert folder is not None
    assert (folder.encoder, folder.max_tokens, folder.lower) == (tmp_path, 24, False)
    assert (folder.head.pooling, folder.head.include_prompt) == (("mean", "cls"), False)
    assert (folder.head.prompts, folder.head.default_prompt) == ({"query": "q: "}, "query")
    assert [(layer.kind, layer.activation) for layer in folder.head.layers] == [
        ("dense", "GELU"),
        ("layer_norm", "Identity"),
        ("dense", "Identity"),
        ("normalize", "Identity"),
    ]
    for first, second in zip(layers, folder.head.layers, strict=True):
        np.testing.assert_array_equal(first.weight, second.weight)
        np.testing.assert_array_equal(first.bias, second.bias)


def test_damage_of_a_folder_of_sentence_transformers_is_named(tmp_path: Path) -> None:
    head = SentenceHead(("mean",), layers=(Layer("dense", "Tanh", np.ones((2, 6), np.float32)),))
    write_sentence_folder(tmp_path, head, 6, 24)
    settings = json.loads((tmp_path / "config_sentence_transformers.json").read_text())
    write_json(tmp_path / "config_sentence_transformers.json", settings | {"model_type": "CrossEncoder"})
    with pytest.raises(ModelUnsupported, match="a CrossEncoder; expected a SentenceTransformer"):
        read_sentence_folder(tmp_path)
    (tmp_path / "2_Dense" / "model.safetensors").write_bytes(b"no header")
    with pytest.raises(ModelError, match=r"model\.safetensors: not readable \(.*\); download the folder again"):
        read_sentence_folder(tmp_path)
    write_json(tmp_path / "modules.json", [{"idx": 0, "type": "sentence_transformers.models.Transformer"}])
    with pytest.raises(ModelError, match=r"modules\.json: a module without type and path; download the folder again"):
        read_sentence_folder(tmp_path)


def test_the_weights_of_a_traced_encoder_are_mixed_with_those_of_its_base(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    """(share) x + (1 - share) y of each weight; what is equal in both stays so to the bit."""
    share = 0.3
    trained = Path(shutil.copytree(folders["bert"], tmp_path / "trained"))
    bias = load_file(trained / "model.safetensors")["encoder.layer.1.output.dense.bias"]
    encoders.alter(trained, encoder__layer__1__output__dense__bias=bias + 1)
    encoder, base = traced_graph.load_encoder(trained), traced_graph.load_encoder(folders["bert"])
    traced_graph.average_weights(encoder, base, share, folders["bert"])
    mixed = {name: value.detach().numpy() for name, value in encoder.named_parameters()}
    plain = {name: value.detach().numpy() for name, value in base.named_parameters()}
    changed = mixed.pop("encoder.layer.1.output.dense.bias")
    np.testing.assert_allclose(changed, share * (bias + 1) + (1 - share) * bias, rtol=1e-6)
    assert all((value == plain[name]).all() for name, value in mixed.items())


def test_a_traced_encoder_is_not_mixed_with_another_architecture(folders: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"xlmr: has no embeddings\.word_embeddings\.weight of shape .*; not its base"):
        export_model(folders["bert"], tmp_path / "out", graph="traced", base=folders["xlmr"], share=0.5)


def test_a_traced_encoder_with_a_token_that_is_no_number_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    source = Path(shutil.copytree(folders["bert"], tmp_path / "source"))
    table = load_file(source / "model.safetensors")["embeddings.word_embeddings.weight"]
    table[5, 7] = np.nan
    encoders.alter(source, embeddings__word_embeddings__weight=table)
    with pytest.raises(ModelError, match="source: a token vector holds NaN or infinity; train it again"):
        export_model(source, tmp_path / "out", graph="traced")


@pytest.mark.parametrize("tokens", [10, 11])
def test_a_trace_needs_some_tokens(folders: dict[str, Path], tmp_path: Path, tokens: int) -> None:
    encoder = traced_graph.load_encoder(folders["bert"])
    table = np.zeros((tokens, encoders.HIDDEN), np.float32)
    with pytest.raises(ModelUnsupported, match=rf"BertModel: {tokens} tokens; expected 12 or more"):
        traced_graph.trace_encoder(encoder, [encoders.DEPTH], table, "fp32", tmp_path, False)


def test_an_encoder_that_openvino_does_not_convert_is_named(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("No conversion rule for\naten::odd")

    monkeypatch.setattr(import_openvino(), "convert_model", refuse)
    encoder = traced_graph.load_encoder(folders["bert"])
    table = np.zeros((20, encoders.HIDDEN), np.float32)
    with pytest.raises(ModelUnsupported, match=r"BertModel: OpenVINO does not convert it \(No conversion rule for at"):
        traced_graph.trace_encoder(encoder, [encoders.DEPTH], table, "fp32", tmp_path, False)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("stored", [np.float16, np.float32])
def test_matrices_are_rounded_however_they_are_stored_and_small_ones_are_not(stored: Any) -> None:
    """Half numbers stand behind a conversion."""
    openvino = import_openvino()
    ops, draw = openvino.opset13, np.random.default_rng(0)
    large, small = (draw.standard_normal(shape).astype(stored) for shape in ((64, 64), (64, 4)))
    vectors = draw.standard_normal((3, 64)).astype(np.float32)
    source = ops.parameter([3, 64], np.float32)
    product = ops.matmul(source, ops.convert(ops.constant(large), "f32"), False, True)
    graph = openvino.Model([ops.matmul(product, ops.convert(ops.constant(small), "f32"), False, False)], [source], "x")
    assert traced_graph.round_matrices(graph) == 1
    exact = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
    compiled = openvino.Core().compile_model(graph, "CPU", exact)
    scales = np.abs(large).max(1, keepdims=True).astype(np.float32) / 127
    rounded = np.rint(large / scales) * scales
    np.testing.assert_allclose(compiled(vectors)[0], vectors @ rounded.T @ small, rtol=1e-4, atol=1e-3)

"""Model folders by a forger, sealed soundly: one ModelDamaged, when they are opened or when they are used."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from phrasemate.encode import load_model
from phrasemate.encode.export.export import export_model
from phrasemate.encode.export.to_hf import unpack_model
from phrasemate.encode.heads import Layer, SentenceHead, load_sentence_head
from phrasemate.encode.model_folder import (
    CONFIG,
    ENCODER,
    HEADS,
    MANIFEST,
    SENTENCE,
    TOKENIZER,
    TRACED,
    TRACED_WEIGHTS,
    folder_version,
    write_manifest,
)
from phrasemate.errors import ModelDamaged, ModelUnsupported


@pytest.fixture(scope="session")
def plain(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without heads; not to be changed."""
    out = tmp_path_factory.mktemp("forged") / "plain"
    export_model(folders["xlmr"], out)
    return out


@pytest.fixture
def folder(plain: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(plain, tmp_path / "model"))


def refused(folder: Path) -> str:
    write_manifest(folder)
    with pytest.raises(ModelDamaged) as caught:
        load_model(folder, threads=1).encode_sentences(["The old bank \u2603 \U0001f9ff."])
    assert "\n" not in str(caught.value)
    return str(caught.value)


def changed(folder: Path, change: Callable[[Any], object]) -> None:
    path = folder / TOKENIZER
    content = json.loads(gzip.decompress(path.read_bytes()))
    change(content)
    path.write_bytes(gzip.compress(json.dumps(content).encode()))


HEAD = SentenceHead(layers=(Layer("dense", "Tanh", np.ones((2, 4), np.float32)),))


def versioned(folder: Path) -> None:
    """Give the configuration the version that the files of its folder need."""
    config = json.loads((folder / CONFIG).read_text())
    version = folder_version(path.name for path in folder.iterdir())
    (folder / CONFIG).write_text(json.dumps(config | {"version": version}))
    write_manifest(folder)


UNKNOWN = {"SpecialToken": {"id": "zz", "type_id": 0}}


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["post_processor"].update(single=[UNKNOWN, UNKNOWN]),  # the library panics
        lambda content: content["post_processor"].update(single=[]),
        lambda content: content["model"].update(unk_id=None),
        lambda content: content.update(model={"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "zz"}),
    ],
)
def test_a_tokenizer_that_does_not_work(folder: Path, change: Callable[[Any], object]) -> None:
    changed(folder, change)
    assert "tokenizer" in refused(folder)


def test_a_tokenizer_that_pads_and_cuts(plain: Path, folder: Path) -> None:
    """To a hundred million tokens, and to one."""
    padding = {"strategy": {"Fixed": 10**8}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0}
    cut = {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}
    changed(folder, lambda c: c.update(padding=padding | {"pad_type_id": 0, "pad_token": "x"}, truncation=cut))
    write_manifest(folder)
    one, other = (load_model(item, threads=1).encode_sentences(["The old bank."]) for item in (plain, folder))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("depth", [101, *range(950, 1000, 3), 100_000])
@pytest.mark.parametrize("file", [CONFIG, MANIFEST])
def test_a_deep_file_is_refused_however_deep(folder: Path, file: str, depth: int) -> None:
    nested = "[" * depth + "]" * depth
    text = (folder / file).read_text()
    (folder / file).write_text(text.replace("{", f'{{"segmenter": {nested}, "files": {{"x": {nested}}},', 1))
    if file == CONFIG:
        assert "brackets" in refused(folder) or depth > 900
    with pytest.raises(ModelDamaged, match="not readable as JSON"):
        load_model(folder, threads=1)


@pytest.mark.parametrize("width", [1, 128, 10**12])
@pytest.mark.parametrize("pooling", ["cls", "ends", "mean"])
def test_another_width(folder: Path, width: int, pooling: str) -> None:
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(config | {"width": width, "pooling": pooling}))
    assert f"{width} in {CONFIG}" in refused(folder)


def test_a_projection_that_is_not_there(folder: Path) -> None:
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(config | {"pooling": "head"}))
    assert f"pooling is head, and there is no {HEADS}" in refused(folder)


def test_a_sentence_head_that_the_configuration_does_not_name(folder: Path) -> None:
    HEAD.save(folder)
    versioned(folder)
    assert f"sentence and {SENTENCE} do not belong together" in refused(folder)


@pytest.mark.parametrize("entry", [{"kind": "lstm"}, {"kind": "dense", "activation": "Softmax"}])
def test_a_layer_of_another_kind_is_not_computed(tmp_path: Path, entry: dict[str, str]) -> None:
    HEAD.save(tmp_path)
    config = {"width": 4, "sentence": HEAD.entry()}
    head = load_sentence_head(tmp_path, config)
    assert head is not None
    assert head.layers[0].weight.tolist() == [[1.0] * 4] * 2
    config["sentence"] |= {"layers": [entry]}
    with pytest.raises(ModelDamaged, match=rf"{SENTENCE}: does not fit the configuration \(layer {{'kind'"):
        load_sentence_head(tmp_path, config)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_of_a_sentence_head_are_finite(tmp_path: Path, value: float) -> None:
    head = SentenceHead(layers=(Layer("dense", weight=np.full((2, 4), value, np.float32)),))
    head.save(tmp_path)
    with pytest.raises(ModelDamaged, match=r"does not fit the configuration \(weights that are not finite\)"):
        load_sentence_head(tmp_path, {"width": 4, "sentence": head.entry()})


@pytest.mark.parametrize("options", [{"max_words": 1 << 80}, {"max_words": -1}, {"threshold": "x"}, {"threshold": 2}])
def test_options_of_the_segmenter(folders: dict[str, Path], tmp_path: Path, options: dict[str, Any]) -> None:
    import encoders

    export_model(encoders.save_trained(Path(shutil.copytree(folders["xlmr"], tmp_path / "base"))), tmp_path / "model")
    config = json.loads((tmp_path / "model" / CONFIG).read_text())
    (tmp_path / "model" / CONFIG).write_text(json.dumps(config | {"segmenter": options}))
    assert "segmenter" in refused(tmp_path / "model")


@pytest.mark.parametrize("kind", ["BF16", "F8_E4M3", "F8_E5M2", "F64", "BOOL"])
def test_heads_of_other_numbers(folder: Path, kind: str) -> None:
    size = {"BF16": 2, "F64": 8}.get(kind, 1)
    header = json.dumps({"bias": {"dtype": kind, "shape": [4], "data_offsets": [0, 4 * size]}}).encode()
    (folder / HEADS).write_bytes(len(header).to_bytes(8, "little") + header + bytes(4 * size))
    assert HEADS in refused(folder)


@pytest.mark.parametrize("content", ["[" * 100_000, '{"model": "x", "weights": [1, 2, 3], "bias": 1%s}' % ("0" * 400)])
def test_a_confidence_that_is_none(folder: Path, content: str) -> None:
    (folder / "confidence.json").write_text(content)
    assert "not a confidence file" in refused(folder)


# -- graphs


@pytest.fixture
def onnx() -> Any:
    return pytest.importorskip("onnx")


def rewritten(folder: Path, onnx: Any, change: Callable[[Any], object]) -> None:
    graph = onnx.load(folder / ENCODER)
    change(graph.graph)
    (folder / ENCODER).write_bytes(graph.SerializeToString())


def _other_input(graph: Any) -> None:
    graph.input[0].name = "other"
    for node in graph.node:
        for at, name in enumerate(node.input):
            node.input[at] = "other" if name == "embeddings" else name


def _few_tokens(graph: Any) -> None:
    for item in (*graph.input, *graph.output):
        item.type.tensor_type.shape.dim[1].dim_value = 4


def _one_number(graph: Any) -> None:
    graph.node[-1].op_type = "ReduceMean"
    graph.node[-1].attribute.add(name="keepdims", type=2, i=0)
    graph.output[-1].type.tensor_type.ClearField("shape")


@pytest.mark.parametrize("change", [_other_input, _few_tokens, _one_number])
def test_a_graph_of_another_form(folder: Path, onnx: Any, change: Callable[[Any], object]) -> None:
    rewritten(folder, onnx, change)
    assert ENCODER in refused(folder)


def test_weights_in_another_file(folder: Path, onnx: Any) -> None:
    """The manifest would not seal it, and it may lie anywhere."""

    def outside(graph: Any) -> None:
        tensor = next(item for item in graph.initializer if item.name.endswith("qkv.bias"))
        (folder / "other.bin").write_bytes(tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="other.bin")

    rewritten(folder, onnx, outside)
    assert "refers to weights in other files" in refused(folder)
    with pytest.raises(ModelDamaged, match="not a readable graph"):
        unpack_model(folder, folder / "out")


@pytest.mark.parametrize("depth", [None, "x", 0, 9, 10**15])
def test_a_depth_that_the_graph_has_not_is_not_unpacked(folder: Path, onnx: Any, depth: Any) -> None:
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(config | {"depth": depth}))
    write_manifest(folder)
    with pytest.raises(ModelDamaged, match="do not fit"):
        unpack_model(folder, folder / "out")
    assert not (folder / "out").exists()


@pytest.mark.parametrize("file", [ENCODER, TOKENIZER])
@pytest.mark.parametrize("content", [b"", b"xx", gzip.compress(b"[]", mtime=0)])
def test_nonsense_is_not_unpacked(folder: Path, onnx: Any, file: str, content: bytes) -> None:
    (folder / file).write_bytes(content)
    write_manifest(folder)
    with pytest.raises(ModelDamaged):
        unpack_model(folder, folder / "out")


def test_a_traced_graph_is_not_unpacked(folder: Path) -> None:
    (folder / ENCODER).rename(folder / TRACED)
    (folder / TRACED_WEIGHTS).write_bytes(b"")
    versioned(folder)
    with pytest.raises(ModelUnsupported, match="its graph was traced; name the encoder"):
        unpack_model(folder, folder / "out")


def test_the_whole_one_is_unpacked(folder: Path, onnx: Any) -> None:
    unpack_model(folder, folder / "out")
    assert "embeddings.word_embeddings.weight" in load_file(folder / "out" / "model.safetensors")

"""Encoders of fifteen families, traced: states and vectors are those of torch, offsets are characters."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import hf_families
import numpy as np
import pytest
from encoders import cosines
from safetensors.numpy import load_file
from typer.testing import CliRunner

from phrasemate.cli import app
from phrasemate.encode import Model, load_model
from phrasemate.encode.export import traced_graph
from phrasemate.encode.export.export import export_model
from phrasemate.encode.model_folder import CONFIG, EMBEDDINGS, TRACED, TRACED_WEIGHTS, write_manifest
from phrasemate.encode.runtime import import_openvino, quantise, turn_matrices
from phrasemate.errors import InputError, ModelUnsupported
from phrasemate.types import Phrase
from phrasemate.utils.storage import save_arrays

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=hf_families.FAMILIES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Model]:
    """A Hugging Face folder, and its model in float32 with layer 1 beside the last.

    The comparison within the export is left out: the tests here compare more.
    """
    base = tmp_path_factory.mktemp(request.param)
    folder = hf_families.save_family(request.param, base / "hf")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(traced_graph, "_compare", lambda *_: None)
        export_model(folder, base / "model", graph="traced", precision="fp32", embedding_bits=16, layers=[1])
    return folder, load_model(base / "model", threads=1)


def test_token_states_are_those_of_torch(pair: tuple[Path, Model]) -> None:
    folder, model = pair
    for layer, expected in enumerate(map(np.concatenate, hf_families.torch_states(folder, hf_families.TEXTS)), 1):
        (states,) = model.token_states(hf_families.TEXTS, layer)
        assert cosines(states.values, expected).min() >= 0.999


def test_nobody_is_told_of_an_export(pair: tuple[Path, Model]) -> None:
    """OpenVINO's converter would report each of its steps to its makers, over the network."""
    assert sys.modules["openvino.tools.ovc.convert_impl"].tm.__name__ == "openvino.tools.ovc.telemetry_stub"
    assert "openvino_telemetry" not in sys.modules


def test_pooled_vectors_are_those_of_torch(pair: tuple[Path, Model]) -> None:
    folder, model = pair
    _, states = hf_families.torch_states(folder, hf_families.TEXTS)
    causal = "qwen" in folder.parent.name
    sentences = np.stack([values[-1] if causal else values.mean(0) for values in states])
    assert cosines(model.encode_sentences(hf_families.TEXTS), sentences).min() >= 0.999
    phrase = Phrase(hf_families.TEXTS[0], 4, 12)  # old bank
    (tokens,) = model.token_states([phrase.context])
    rows = [row for row in range(len(tokens.values)) if tokens.ends[row] > 4 and tokens.starts[row] < 12]
    expected = np.concatenate([states[0][rows[0]], states[0][rows[-1]]])
    assert cosines(model.encode([phrase], pooling="ends"), expected[None]).min() >= 0.999


def test_offsets_are_characters(pair: tuple[Path, Model]) -> None:
    """Tokens stand in order, lie within the text, and leave out nothing but white space."""
    _, model = pair
    for text in hf_families.TEXTS:
        (states,) = model.token_states([text])
        assert (np.diff(states.starts) >= 0).all()
        assert (np.diff(states.ends) >= 0).all()
        assert states.ends.max() == len(text)
        covered = {at for a, b in zip(states.starts, states.ends, strict=True) for at in range(a, b)}
        lacking = {text[at] for at in range(len(text)) if at not in covered and not text[at].isspace()}
        assert lacking <= {"\u200d"}  # joins two emoji, is not seen


@pytest.mark.parametrize(
    ("precision", "kind", "bits", "least", "mean"),
    [("int8", "i8", 8, 0.98, 0.99), ("bf16", "bf16", 16, 0.999, 0.9999), ("fp16", "f16", 16, 0.999, 0.9999)],
)
def test_fewer_bits_stay_near(
    pair: tuple[Path, Model], tmp_path: Path, precision: str, kind: str, bits: int, least: float, mean: float
) -> None:
    """The graph in float32, its matrices rounded and its token table stored as the export does it."""
    _, model = pair
    shutil.copytree(model.folder, tmp_path / "out")
    core = import_openvino().Core()
    graph = core.read_model(model.folder / TRACED)
    rounded_matrices = traced_graph.save_graph(graph, tmp_path / "out", precision)
    kinds = [
        node.get_element_type().get_type_name()
        for node in core.read_model(tmp_path / "out" / TRACED).get_ordered_ops()
        if node.get_type_name() == "Constant" and len(node.shape) == 2
    ]
    # of each layer: queries with keys and values, output, two of the inner one
    assert kinds.count(kind) >= 2 * 4
    assert rounded_matrices == (0 if precision == "fp16" else kinds.count(kind))
    table = load_file(model.folder / EMBEDDINGS)
    save_arrays(tmp_path / "out" / EMBEDDINGS, {**table, **quantise(table["codes"].astype(np.float32), bits)})
    config = json.loads((model.folder / CONFIG).read_text())
    (tmp_path / "out" / CONFIG).write_text(json.dumps({**config, "precision": precision}))
    write_manifest(tmp_path / "out")
    (rounded,) = load_model(tmp_path / "out", threads=1).token_states(hf_families.TEXTS)
    (exact,) = model.token_states(hf_families.TEXTS)
    near = cosines(rounded.values, exact.values)
    assert near.min() >= least
    assert near.mean() >= mean
    assert not np.array_equal(rounded.values, exact.values)


def test_a_token_table_in_8_bits_stays_near(pair: tuple[Path, Model], tmp_path: Path) -> None:
    """The default of a traced graph, beside the same graph in float32 with 16 bits for a value."""
    _, model = pair
    shutil.copytree(model.folder, tmp_path / "out")
    table = load_file(model.folder / EMBEDDINGS)
    arrays = quantise(table["codes"].astype(np.float32), 8)
    rows, dim = table["codes"].shape
    assert sum(array.nbytes for array in arrays.values()) == rows * dim + 2 * rows * dim / 32
    save_arrays(tmp_path / "out" / EMBEDDINGS, {**table, **arrays})
    write_manifest(tmp_path / "out")
    (rounded,) = load_model(tmp_path / "out", threads=1).token_states(hf_families.TEXTS)
    (exact,) = model.token_states(hf_families.TEXTS)
    near = cosines(rounded.values, exact.values)
    assert near.mean() >= 0.999
    assert (near < 0.9999999).any()
    nodes = import_openvino().Core().read_model(model.folder / TRACED).get_ordered_ops()
    constants = [list(node.shape) for node in nodes if node.get_type_name() == "Constant"]
    assert [rows, dim] not in constants  # the graph holds no second table


def test_an_export_in_int8_is_the_rounded_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = hf_families.save_family("distilbert", tmp_path / "hf")
    with monkeypatch.context() as patch:
        patch.setattr(traced_graph, "SAME", 1.1)  # a cosine that no graph has
        with pytest.raises(ModelUnsupported, match=r"the converted graph is another: layer 2 has a cosine of 1\.0000"):
            export_model(folder, tmp_path / "model")
    assert not (tmp_path / "model").exists()
    export_model(folder, tmp_path / "model")
    model = load_model(tmp_path / "model", threads=1)
    assert model.runtime.table.codes.dtype == np.int8
    weights = (tmp_path / "model" / TRACED_WEIGHTS).stat().st_size
    assert weights < 1.5 * 2 * (4 * 64 * 64 + 2 * 64 * 128)  # bytes: of each layer, one for each weight, and a margin
    (states,) = model.token_states(hf_families.TEXTS)
    _, expected = hf_families.torch_states(folder, hf_families.TEXTS)
    assert cosines(states.values, np.concatenate(expected)).mean() >= 0.99


def test_an_export_in_bf16_has_half_the_bytes_and_stays_nearer_than_int8(tmp_path: Path) -> None:
    folder = hf_families.save_family("distilbert", tmp_path / "hf")
    export_model(folder, tmp_path / "model", precision="bf16", embedding_bits=16)
    weights = (tmp_path / "model" / TRACED_WEIGHTS).stat().st_size
    assert weights < 1.5 * 2 * 2 * (
        4 * 64 * 64 + 2 * 64 * 128
    )  # bytes: of each layer, two for each weight, and a margin
    nodes = import_openvino().Core().read_model(tmp_path / "model" / TRACED).get_ordered_ops()
    products = [node for node in nodes if node.get_type_name() == "MatMul" and len(node.input_value(1).shape) == 2]
    assert len(products) >= 2 * 4
    assert not any(node.get_attributes()["transpose_b"] for node in products)  # (inputs, outputs), see `turn_matrices`
    model = load_model(tmp_path / "model", threads=1)
    (states,) = model.token_states(hf_families.TEXTS)
    _, expected = hf_families.torch_states(folder, hf_families.TEXTS)
    near = cosines(states.values, np.concatenate(expected))
    assert near.min() >= 0.999
    assert (near < 0.9999999).any()  # something was rounded


def test_no_padding_is_beyond_the_last_position(pair: tuple[Path, Model]) -> None:
    """A text of as many tokens as the encoder has positions, 66 of most, which is not a multiple of 4."""
    folder, model = pair
    text = " ".join(hf_families.TEXTS[0].split() * 20)
    runtime = model.runtime
    ids = runtime.tokenizer.encode(text, add_special_tokens=False).ids
    assert len(ids) > runtime.window
    _, states = next(runtime.blocks([text], truncated=True))
    expected = hf_families.states_of(folder, [[*runtime.opening, *ids[: runtime.window], *runtime.closing]])
    assert cosines(states.values, expected[1][0]).min() >= 0.999


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_an_earlier_export_is_mended_when_it_is_loaded(
    precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its matrices are (outputs, inputs): with AMX, the process would end at a gated encoder."""
    folder = hf_families.save_family("eurobert", tmp_path / "hf")
    export_model(folder, tmp_path / "new", precision=precision)
    with monkeypatch.context() as patch:
        patch.setattr(traced_graph, "turn_matrices", lambda graph: None)
        export_model(folder, tmp_path / "old", precision=precision)
    graph = import_openvino().Core().read_model(tmp_path / "old" / TRACED)
    assert len(_float_matrices(graph)) == 2 * 7  # of each layer: four of the attention, three of the inner one
    turn_matrices(graph)
    assert not _float_matrices(graph)
    new, old = (load_model(tmp_path / name, threads=1) for name in ("new", "old"))
    states = [next(model.token_states(hf_families.TEXTS)).values for model in (new, old)]
    assert cosines(*states).min() >= 0.99999


def _float_matrices(graph: Any) -> list[Any]:
    """The products whose matrix is stored as (outputs, inputs), in floating point."""
    products = [node for node in graph.get_ordered_ops() if node.get_type_name() == "MatMul"]
    sources = [(node, node.input_value(1).get_node()) for node in products if node.get_attributes()["transpose_b"]]
    return [node for node, source in sources if source.get_type_name() in ("Constant", "Convert")]


@pytest.mark.parametrize(("kind", "spaces"), [("byte_bpe", {(2, 2)}), ("fallback_bpe", {(2, 2), (5, 5)})])
def test_a_character_of_several_tokens(kind: str, spaces: set[tuple[int, int]], tmp_path: Path) -> None:
    """Each token of a character has the whole character; a token of white space alone (``spaces``) is empty."""
    folder = hf_families.save_family("modernbert", tmp_path / "hf")
    getattr(hf_families, kind)().save(str(folder / "tokenizer.json"))
    config = json.loads((folder / "config.json").read_text())
    if kind == "fallback_bpe":  # it has more tokens
        import torch
        from transformers import AutoModel

        model = AutoModel.from_pretrained(folder)
        model.resize_token_embeddings(400, mean_resizing=False)
        torch.manual_seed(0)
        model.save_pretrained(folder)
    assert config["model_type"] == "modernbert"
    export_model(folder, tmp_path / "model", precision="fp32")
    text = "a 𠮷🙂 b"  # two characters of four bytes that no vocabulary holds
    (states,) = load_model(tmp_path / "model", threads=1).token_states([text])
    spans = list(zip(states.starts.tolist(), states.ends.tolist(), strict=True))
    assert spans.count((2, 3)) == 4
    assert spans.count((3, 4)) >= 2
    assert set(spans) == {(0, 0), (0, 1), (2, 3), (3, 4), (5, 6), (6, 6)} | spaces


def test_a_decoder_sees_nothing_that_follows(tmp_path: Path) -> None:
    folder = hf_families.save_family("qwen3", tmp_path / "hf")
    export_model(folder, tmp_path / "model", precision="fp32")
    model = load_model(tmp_path / "model", threads=1)
    first, second = (next(model.token_states([text])).values for text in ("The old bank", "The old bank was closed."))
    np.testing.assert_allclose(first[:3], second[:3], atol=1e-4)
    assert model.runtime.opening == []
    assert len(model.runtime.closing) == 1


def test_code_of_a_folder_is_refused_by_name(tmp_path: Path) -> None:
    """As gte-multilingual has it."""
    folder = hf_families.save_family("bert", tmp_path / "hf")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "new", "architectures": ["NewModel"], "auto_map": {"AutoModel": "modeling.NewModel"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "modeling.py").write_text("raise SystemExit('was run')")
    with pytest.raises(ModelUnsupported, match=r"NewModel \(model_type 'new'\) needs code .* never run"):
        export_model(folder, tmp_path / "model")


def test_options_that_do_not_go_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = hf_families.save_family("bert", tmp_path / "hf")
    with pytest.raises(InputError, match="a written graph in int8"):
        export_model(folder, tmp_path / "model", graph="written", precision="fp32")
    with pytest.raises(InputError, match="only sentence-transformers folders have prompts"):
        export_model(folder, tmp_path / "model", prompt="query")
    export_model(folder, tmp_path / "model")
    with pytest.raises(InputError, match="device GPU: OpenVINO has"):
        load_model(tmp_path / "model", device="GPU")
    monkeypatch.setenv("PHRASEMATE_DEVICE", "CPU")
    absent = CliRunner().invoke(app, ["--device", "GPU", "index", str(tmp_path), "-o", str(tmp_path / "idx")])
    assert absent.exit_code == 1
    with pytest.raises(InputError, match="device GPU: OpenVINO has"):  # the command left it in the environment
        load_model(tmp_path / "model")

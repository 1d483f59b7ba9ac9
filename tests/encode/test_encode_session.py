"""ONNX Runtime instead of OpenVINO: the same states, and errors that name what is wrong.

No card is needed: the processor's provider stands for that of CUDA. Where ONNX Runtime is not installed, a session of
OpenVINO takes its place, which shows that batches and outputs arrive.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hf_families
import numpy as np
import pytest
from encoders import cosines

from phrasemate.encode import load_model, runtime
from phrasemate.encode.export import traced_graph
from phrasemate.encode.export.export import export_model
from phrasemate.encode.model_folder import TRACED_ONNX
from phrasemate.errors import InputError, MissingExtra, ModelDamaged, ModelUnsupported

HERE = importlib.util.find_spec("onnxruntime") is not None


class Session:
    """What of ONNX Runtime's session is used, computed by OpenVINO."""

    def __init__(self, path: str, options: Any, providers: Any) -> None:
        assert providers == [("CPUExecutionProvider", {"device_id": "0"}), "CPUExecutionProvider"]
        self.compiled = runtime.import_openvino().Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        self.shapes: list[tuple[int, ...]] = []

    def get_providers(self) -> list[str]:
        return ["CPUExecutionProvider"]

    def get_outputs(self) -> list[Any]:
        return [SimpleNamespace(name=name) for port in self.compiled.outputs for name in port.names]

    def run(self, outputs: list[str], inputs: dict[str, Any]) -> list[Any]:
        self.shapes.append(inputs["mask"].shape)
        return [self.compiled(inputs)[name] for name in outputs]


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(runtime.PROVIDERS, "CUDA", "CPUExecutionProvider")
    if not HERE:
        fake = SimpleNamespace(
            __spec__=ModuleSpec("onnxruntime", None),  # torch asks for it when it is imported
            get_available_providers=lambda: ["CPUExecutionProvider"],
            SessionOptions=SimpleNamespace,
            InferenceSession=Session,
        )
        monkeypatch.setitem(sys.modules, "onnxruntime", fake)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("session")
    export_model(hf_families.save_family("bert", base / "hf"), base / "model", layers=[1])
    return base / "model"


@pytest.mark.usefixtures("package")
def test_states_are_those_of_openvino(folder: Path) -> None:
    usual, other = load_model(folder, threads=1), load_model(folder, threads=1, device="CUDA")
    texts = [*hf_families.TEXTS, "The old bank. " * 40, ""]  # one is cut into windows
    for layer in (1, 2):
        ((first,), (second,)) = (list(model.token_states(texts, layer)) for model in (usual, other))
        assert first.bounds.tolist() == second.bounds.tolist()
        assert cosines(first.values, second.values).min() >= 0.99  # products of int8 codes are rounded elsewhere
    assert cosines(usual.encode_sentences(texts[:3]), other.encode_sentences(texts[:3])).min() >= 0.995
    with pytest.raises(InputError, match="layer 0: this model carries"):
        list(other.token_states(texts, 0))


@pytest.mark.usefixtures("package")
def test_a_graph_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "encoder.onnx").write_bytes(b"no graph")
    with pytest.raises(ModelDamaged, match="not a graph that ONNX Runtime runs"):
        runtime.session_compiler(tmp_path / "encoder.onnx", ["layer_2"], "CUDA")()


@pytest.mark.usefixtures("package")
def test_traced_graphs_and_absent_outputs_are_refused(folder: Path) -> None:
    with pytest.raises(ModelUnsupported, match=r"OpenVINO's form of a traced graph, .* --graph onnx"):
        runtime.session_compiler(folder / "encoder.xml", ["layer_2"], "CUDA")
    with pytest.raises(ModelDamaged, match="no output layer_7"):
        runtime.session_compiler(folder / "encoder.onnx", ["layer_2", "layer_7"], "CUDA")()


@pytest.mark.usefixtures("package")
def test_a_card_whose_libraries_are_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime would compute on the processor without a word."""
    onnxruntime = sys.modules.get("onnxruntime") or importlib.import_module("onnxruntime")
    monkeypatch.setattr(onnxruntime.InferenceSession, "get_providers", lambda self: ["OtherProvider"])
    with pytest.raises(InputError, match=r"device CUDA: ONNX Runtime took OtherProvider instead; .* cuDNN"):
        load_model(folder, device="CUDA")


@pytest.mark.slow
@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("family", hf_families.FAMILIES)
def test_traced_graphs_of_onnx_give_the_states_of_torch(family: str, tmp_path: Path) -> None:
    """On both: OpenVINO reads the same file. One text has as many tokens as the encoder takes, another is cut."""
    source = hf_families.save_family(family, tmp_path / "hf")
    options: dict[str, Any] = {"graph": "onnx", "precision": "fp32", "embedding_bits": 16, "layers": [1]}
    export_model(source, tmp_path / "model", **options)
    assert (tmp_path / "model" / TRACED_ONNX).is_file()
    usual, other = (load_model(tmp_path / "model", threads=1, device=device) for device in ("CPU", "CUDA"))
    texts = [*hf_families.TEXTS, "The old bank. " * 40, ""]
    for layer, expected in enumerate(map(np.concatenate, hf_families.torch_states(source, hf_families.TEXTS)), 1):
        ((first,), (second,)) = (list(model.token_states(texts, layer)) for model in (usual, other))
        assert cosines(second.values[: len(expected)], expected).min() >= 0.9999
        assert cosines(first.values, second.values).min() >= 0.9999
    assert cosines(usual.encode_sentences(texts), other.encode_sentences(texts)).min() >= 0.9999


def test_what_onnx_does_not_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = hf_families.save_family("distilbert", tmp_path / "hf")
    with pytest.raises(InputError, match=r"'onnx' in 'int8'; expected .* onnx in fp32"):
        export_model(source, tmp_path / "model", graph="onnx")
    with monkeypatch.context() as patch:
        patch.setattr(traced_graph, "refers_to_files", lambda path: True)
        with pytest.raises(
            ModelUnsupported, match=r"DistilBertModel: torch\.onnx does not convert it .its weights take"
        ):
            export_model(source, tmp_path / "model", graph="onnx", precision="fp32")
    with monkeypatch.context() as patch:
        patch.setattr(traced_graph, "SAME", 1.1)  # a cosine that no graph has
        with pytest.raises(ModelUnsupported, match="the converted graph is another"):
            export_model(source, tmp_path / "model", graph="onnx", precision="fp32")
    assert not (tmp_path / "model").exists()
    export_model(source, tmp_path / "model", graph="onnx", precision="fp32")
    (tmp_path / "model" / "encoder.xml").write_text("<net/>")
    with pytest.raises(ModelDamaged, match=r"encoder\.xml: is not in MANIFEST\.json"):  # it would be read instead
        load_model(tmp_path / "model")


def test_a_card_that_is_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = SimpleNamespace(get_available_providers=lambda: ["CPUExecutionProvider"])
    monkeypatch.setitem(sys.modules, "onnxruntime", fake)
    with pytest.raises(InputError, match=r"device CUDA\.1: ONNX Runtime has CPUExecutionProvider"):
        load_model(folder, device="CUDA.1")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra, match=r"onnxruntime-gpu.*phrasemate\[cuda\]"):
        load_model(folder, device="CUDA")


def test_batches_of_a_card_are_larger(folder: Path, package: None) -> None:
    """Short texts of many lengths: a card takes them in fewer passes than the processor."""
    counts = []
    for device in ("CPU", "CUDA"):
        model = load_model(folder, threads=1, device=device)
        shapes: list[Any] = []
        submit = model.runtime._queue.submit

        def noted(inputs: Any, *rest: Any, submit: Any = submit, shapes: Any = shapes) -> None:
            shapes.append(inputs["mask"].shape)
            submit(inputs, *rest)

        model.runtime._queue.submit = noted
        vectors = model.encode_sentences(["bank " * (1 + number % 30) for number in range(600)])
        assert np.isfinite(vectors).all()
        counts.append(len(shapes))
    assert counts[1] * 3 < counts[0]

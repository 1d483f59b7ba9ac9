"""Turn a model folder back into a Hugging Face encoder, to train it further or to use it with other tools."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode import model_folder as names
from phrasemate.encode.export.hf_folder import TRAINING, line_of, tokenizer_settings, write_json, write_sentence_folder
from phrasemate.encode.export.onnx_graph import ACTIVATIONS, QKV, norms_of
from phrasemate.encode.heads import Layer, SentenceHead, load_sentence_head
from phrasemate.encode.runtime import EmbeddingTable
from phrasemate.encode.tokenizer import load_tokenizer, tokenizer_bytes
from phrasemate.errors import InputError, ModelDamaged, ModelUnsupported, needs_extra
from phrasemate.utils.storage import save_arrays, swap_folder

ROWS = 8_192  # rows of the token table at a time
Arrays = dict[str, NDArray[np.float32]]


def unpack_model(folder: str | Path, out: str | Path) -> None:
    """Write the encoder of a model folder as a Hugging Face folder (a BertModel in float32) with its heads.

    The weights are what the runtime multiplies by: the int8 codes and 4- or 8-bit token vectors, each times its scale.
    sentence-transformers loads the folder, too, with the model's pooling and prompts. Exporting the result again gives
    the same token table and, to a step of int8, the same weights. A model of the RoBERTa family becomes a BertModel
    that computes the same. ``training.json`` keeps how the weights were made.

    Raises ModelError and its kinds for a folder that is not a whole model, InputError when ``out`` exists.

    >>> from phrasemate.encode import bundled_folder
    >>> unpack_model(bundled_folder(), "e5-small-hf")  # doctest: +SKIP
    """
    folder, out = Path(folder), Path(out)
    if out.exists():
        raise InputError(f"{out}: exists; give another place")
    config, _ = names.check_folder(folder)
    if not (folder / names.ENCODER).exists():
        raise ModelUnsupported(f"{folder}: its graph was traced; take the encoder that it was exported from")
    constants, nodes = _graph(folder / names.ENCODER)
    table = EmbeddingTable(folder / names.EMBEDDINGS)
    library = load_tokenizer(folder / names.TOKENIZER)
    tokenizer = tokenizer_bytes(folder / names.TOKENIZER)
    try:
        weights = {**_embeddings(table), **_layers(constants, int(config["depth"]))}
        architecture = _config(config, constants, nodes, weights)
    except (KeyError, IndexError, StopIteration, ValueError, TypeError, AttributeError, OverflowError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ModelDamaged(f"{folder}: {names.CONFIG} and graph do not fit ({reason}); {names.REMEDY}") from error
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as scratch:
        partial = Path(scratch) / out.name
        partial.mkdir()
        save_arrays(partial / "model.safetensors", weights, {"format": "pt"})
        (partial / "tokenizer.json").write_bytes(tokenizer)
        settings = tokenizer_settings(tokenizer)
        write_json(partial / "tokenizer_config.json", settings | {"model_max_length": int(config["max_tokens"])})
        padding = {"pad_token_id": library.token_to_id(settings["pad_token"]) if "pad_token" in settings else 0}
        write_json(partial / "config.json", architecture | padding)
        write_json(partial / TRAINING, config.get("signature") or {})
        max_tokens = int(config["max_tokens"])
        head = load_sentence_head(folder, config) or _mean_head(str(config.get("sentence_prefix", "")))
        write_sentence_folder(partial, head, int(config["width"]), max_tokens)
        if (folder / names.HEADS).exists():
            shutil.copyfile(folder / names.HEADS, partial / names.HEADS)
        swap_folder(partial, out, Path(scratch) / "old")


def _mean_head(prefix: str) -> SentenceHead:
    """Head of a model without one of its own: the mean of all states, at unit length."""
    prompts, default = ({"sentence": prefix}, "sentence") if prefix else ({}, None)
    return SentenceHead(prompts=prompts, default_prompt=default, layers=(Layer("normalize"),))


def _graph(path: Path) -> tuple[dict[str, NDArray[Any]], list[Any]]:
    """The constants of the transformer by name, and its nodes."""
    with needs_extra("train", "onnx"):
        import onnx
    try:
        graph = onnx.load(path, load_external_data=False).graph
        return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}, list(graph.node)
    except Exception as error:  # of protobuf, of the checker, of NumPy
        raise ModelDamaged(f"{path}: not a readable graph ({line_of(error)}); {names.REMEDY}") from error


def _embeddings(table: EmbeddingTable) -> Arrays:
    """The token table in float32; positions hold the sum of position and token type."""
    rows = [table.rows(np.arange(at, min(at + ROWS, len(table.codes)))) for at in range(0, len(table.codes), ROWS)]
    return {
        "embeddings.word_embeddings.weight": np.concatenate(rows),
        "embeddings.position_embeddings.weight": np.array(table.additive, np.float32),
        "embeddings.token_type_embeddings.weight": np.zeros((1, table.dim), np.float32),
    }


def _layers(constants: dict[str, NDArray[Any]], depth: int) -> Arrays:
    """The transformer's weights under Hugging Face's names; undoes what `onnx_graph` folds together."""
    if depth > len(constants):
        raise ValueError(f"{depth} layers")
    weights: Arrays = {}
    norms = norms_of(depth)
    for norm in (*norms, f"encoder.layer.{depth - 1}.output.LayerNorm"):
        scale, shift = _smoothing(constants, norm)
        weights[norm + ".weight"] = constants[norm + ".weight"] * scale
        weights[norm + ".bias"] = constants[norm + ".bias"] * scale + shift
    heads, size = (int(number) for number in constants["split_heads"][2:])
    width = heads * size
    for layer in range(depth):
        name = f"encoder.layer.{layer}."
        before, within = norms[2 * layer : 2 * layer + 2]
        for dense, norm in (("attention.output.dense", before), ("output.dense", within)):
            kernel, shift = _product(constants, name + dense)
            weights[f"{name}{dense}.weight"] = kernel
            weights[f"{name}{dense}.bias"] = shift - _smoothing(constants, norm)[1]  # of what is added to the product
        dense = name + "intermediate.dense"
        weights[dense + ".weight"], weights[dense + ".bias"] = _product(constants, dense, within)
        qkv, shift = _product(constants, name + "attention.self.qkv", before)
        for place, part in enumerate(QKV):
            root = np.float32(1 if place else size**0.5)  # the graph's query is divided by it
            rows = slice(place * width, (place + 1) * width)
            weights[f"{name}attention.self.{part}.weight"] = qkv[rows] * root
            weights[f"{name}attention.self.{part}.bias"] = shift[rows] * root
    return {name: np.ascontiguousarray(value, np.float32) for name, value in weights.items()}


def _smoothing(constants: dict[str, NDArray[Any]], norm: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """(width,) scale and shift of what a layer norm gives; 1 and 0 where it is not smoothed."""
    plain = constants[norm + ".weight"]
    return constants.get(norm + ".scale", np.ones_like(plain)), constants.get(norm + ".shift", np.zeros_like(plain))


def _product(constants: dict[str, NDArray[Any]], name: str, norm: str = "") -> tuple[NDArray[Any], NDArray[Any]]:
    """W (out, in) and b (out,) of a product: W of int8 codes (in, out) and a scale for each output."""
    kernel = constants[name + ".codes"].astype(np.float64) * constants[name + ".scales"]
    bias = constants[name + ".bias"]
    if norm:
        scale, shift = _smoothing(constants, norm)
        kernel /= scale[:, None]
        bias = bias - shift @ kernel
    return kernel.T, bias


def _config(
    config: dict[str, Any], constants: dict[str, NDArray[Any]], nodes: list[Any], weights: Arrays
) -> dict[str, Any]:
    """Configuration that ``transformers`` needs of the architecture."""
    norm = next(node for node in nodes if node.op_type == "LayerNormalization")
    gelu = next((node for node in nodes if node.op_type == "Gelu"), None)
    form = gelu.attribute[0].s.decode() if gelu is not None else ""
    return {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "hidden_size": int(config["width"]),
        "num_hidden_layers": int(config["depth"]),
        "num_attention_heads": int(constants["split_heads"][2]),
        "intermediate_size": len(weights["encoder.layer.0.intermediate.dense.bias"]),
        "vocab_size": len(weights["embeddings.word_embeddings.weight"]),
        "max_position_embeddings": len(weights["embeddings.position_embeddings.weight"]),
        "type_vocab_size": 1,
        "layer_norm_eps": next(float(a.f) for a in norm.attribute if a.name == "epsilon"),
        "hidden_act": next(name for name, approximate in ACTIVATIONS.items() if approximate == form),
        "position_embedding_type": "absolute",
    }

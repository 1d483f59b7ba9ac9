"""Conversion of a model folder to a Hugging Face encoder, for further training or for other tools."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode import model_folder as names
from phrasemate.encode.export import traced_graph
from phrasemate.encode.export.hf_folder import (
    TRAINING,
    line_of,
    read_sentence_folder,
    read_training,
    tokenizer_settings,
    write_json,
    write_sentence_folder,
)
from phrasemate.encode.export.onnx_graph import ACTIVATIONS, QKV, TEXTS, norms_of
from phrasemate.encode.heads import Layer, SentenceHead, load_sentence_head
from phrasemate.encode.model import load_model
from phrasemate.encode.pooling import unit
from phrasemate.encode.runtime import EmbeddingTable
from phrasemate.encode.tokenizer import load_tokenizer, tokenizer_bytes
from phrasemate.errors import InputError, ModelDamaged, ModelUnsupported, needs_extra
from phrasemate.utils.storage import link_target, save_arrays, swap_folder, unlock

ROWS = 8_192  # rows of the token table converted at once
ALIKE, ALIKE_INT8 = 0.999, 0.98  # lowest mean cosine of a model's states with those of its source encoder
Arrays = dict[str, NDArray[np.float32]]


def unpack_model(
    folder: str | Path, out: str | Path, encoder: str | Path | None = None, base: str | Path | None = None
) -> None:
    """Write the encoder and heads of a model folder as a Hugging Face folder, in float32.

    sentence-transformers loads the folder, too, with the model's pooling, layers and prompts. ``training.json`` records
    the origin of the weights.

    The weights of a written graph are dequantised: int8 codes and 4- or 8-bit token vectors, times their scales. The
    result is a BertModel, also for the RoBERTa family. A new export of it gives the same token table and, within one
    step of int8, the same weights.

    Args:
        folder: Model folder.
        out: Folder to write; must not exist.
        encoder: Encoder from which the model was exported, to take the weights from it, without rounding. Required for
            a traced graph, in which the weights have lost their names.
        base: Encoder with which the export averaged it.

    Raises ModelError or a subclass for a folder that is not a complete model. Raises InputError if ``out`` exists, and
    for an encoder whose states differ from the model's.

    >>> from phrasemate.encode import bundled_folder
    >>> unpack_model(bundled_folder(), "e5-small-hf")  # doctest: +SKIP
    """
    folder, out = Path(folder), Path(out)
    if out.exists():
        raise InputError(f"{out}: exists; give another place")
    config, _ = names.check_folder(folder)
    if encoder is None and not (folder / names.ENCODER).exists():
        raise ModelUnsupported(f"{folder}: its graph was traced; name the encoder that it was made of, by --encoder")
    library, max_tokens = load_tokenizer(folder / names.TOKENIZER), int(config["max_tokens"])
    tokenizer = tokenizer_bytes(folder / names.TOKENIZER)
    module = _source(folder, config, Path(encoder), base) if encoder is not None else None
    architecture, weights = _unpacked(folder, config) if module is None else ({}, {})
    settings = tokenizer_settings(tokenizer, module.config.pad_token_id if module is not None else None)
    if "pad_token" not in settings:
        remedy = "add one, such as <pad>, to the encoder's, and export it again"
        raise ModelUnsupported(f"{folder}: its tokenizer has no token for padding; {remedy}")
    place = link_target(out)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}.") as scratch:
        partial = Path(scratch) / out.name
        partial.mkdir()
        if module is None:
            save_arrays(partial / "model.safetensors", weights, {"format": "pt"})
            padding = {"pad_token_id": library.token_to_id(settings["pad_token"])}
            write_json(partial / "config.json", architecture | padding)
        else:
            module.save_pretrained(partial)
            for path in partial.glob("*.safetensors"):
                unlock(path)
        (partial / "tokenizer.json").write_bytes(tokenizer)
        write_json(partial / "tokenizer_config.json", settings | {"model_max_length": max_tokens})
        write_json(partial / TRAINING, config.get("signature") or {})
        head = load_sentence_head(folder, config) or _mean_head(str(config.get("sentence_prefix", "")))
        write_sentence_folder(partial, head, int(config["width"]), max_tokens)
        if (folder / names.HEADS).exists():
            shutil.copyfile(folder / names.HEADS, partial / names.HEADS)
        swap_folder(partial, place, Path(scratch) / "old")


def _source(folder: Path, config: dict[str, Any], encoder: Path, base: str | Path | None) -> Any:
    """Load the torch encoder from which a model was exported. Raises InputError if its states differ."""
    import torch

    sentences, share = read_sentence_folder(encoder), (config.get("signature") or {}).get("share")
    if base is None and share not in (None, read_training(encoder).get("share")):
        raise InputError(f"{folder}: has {share} of the trained weights, the rest of their base; name that by --base")
    module = traced_graph.load_encoder(sentences.encoder if sentences else encoder).eval()
    if base is not None:
        if share is None:
            raise InputError(f"{folder}: was not averaged with a base; leave out --base")
        traced_graph.average_weights(module, traced_graph.load_encoder(base), share, Path(base))
    if getattr(module, "pooler", None) is not None:
        module.pooler = None  # not used for token states, and possibly random
    runtime, cosines = load_model(folder).runtime, []
    sizes = (runtime.width, len(runtime.table.codes))
    if sizes != (module.config.hidden_size, module.get_input_embeddings().weight.shape[0]):
        raise InputError(f"{encoder}: has other sizes than {folder}; name the encoder that this was exported from")
    for text in TEXTS:
        ids = runtime.tokenizer.encode(text, add_special_tokens=False).ids[: runtime.window]
        with torch.no_grad():
            inputs = torch.tensor([[*runtime.opening, *ids, *runtime.closing]])
            states = module(inputs).last_hidden_state[0].numpy()
        _, (values, *_) = next(runtime.blocks([text], truncated=True))
        cosines.append((unit(values) * unit(states)).sum(1))
    mean, least = (
        float(np.concatenate(cosines).mean()),
        ALIKE_INT8 if config.get("precision", "int8") == "int8" else ALIKE,
    )
    if not mean >= least:
        reason = f"its states have a mean cosine of {mean:.4f} with those of {folder}"
        raise InputError(f"{encoder}: {reason}, expected {least}; name the encoder that this was exported from")
    return module


def _unpacked(folder: Path, config: dict[str, Any]) -> tuple[dict[str, Any], Arrays]:
    """Return configuration and weights of a BertModel equivalent to a written graph."""
    constants, nodes = _graph(folder / names.ENCODER)
    try:
        weights = {**_embeddings(EmbeddingTable(folder / names.EMBEDDINGS)), **_layers(constants, int(config["depth"]))}
        return _config(config, constants, nodes, weights), weights
    except (KeyError, IndexError, StopIteration, ValueError, TypeError, AttributeError, OverflowError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ModelDamaged(f"{folder}: {names.CONFIG} and graph do not fit ({reason}); {names.REMEDY}") from error


def _mean_head(prefix: str) -> SentenceHead:
    """Return the sentence head of a model without one: mean of all states, scaled to unit length."""
    prompts, default = ({"sentence": prefix}, "sentence") if prefix else ({}, None)
    return SentenceHead(prompts=prompts, default_prompt=default, layers=(Layer("normalize"),))


def _graph(path: Path) -> tuple[dict[str, NDArray[Any]], list[Any]]:
    """Read the constants of a graph, by name, and its nodes."""
    with needs_extra("train", "onnx"):
        import onnx
    try:
        graph = onnx.load(path, load_external_data=False).graph
        return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}, list(graph.node)
    except Exception as error:  # of protobuf, of the checker, of NumPy
        raise ModelDamaged(f"{path}: not a readable graph ({line_of(error)}); {names.REMEDY}") from error


def _embeddings(table: EmbeddingTable) -> Arrays:
    """Convert the token table to float32; the token type vectors are part of the position vectors, and 0 themselves."""
    rows = [table.rows(np.arange(at, min(at + ROWS, len(table.codes)))) for at in range(0, len(table.codes), ROWS)]
    return {
        "embeddings.word_embeddings.weight": np.concatenate(rows),
        "embeddings.position_embeddings.weight": np.array(table.additive, np.float32),
        "embeddings.token_type_embeddings.weight": np.zeros((1, table.dim), np.float32),
    }


def _layers(constants: dict[str, NDArray[Any]], depth: int) -> Arrays:
    """Recover the weights under Hugging Face's names by undoing the folding and smoothing of `onnx_graph`."""
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
            weights[f"{name}{dense}.bias"] = shift - _smoothing(constants, norm)[1]  # of the residual input
        dense = name + "intermediate.dense"
        weights[dense + ".weight"], weights[dense + ".bias"] = _product(constants, dense, within)
        qkv, shift = _product(constants, name + "attention.self.qkv", before)
        for place, part in enumerate(QKV):
            root = np.float32(1 if place else size**0.5)  # folded into the query
            rows = slice(place * width, (place + 1) * width)
            weights[f"{name}attention.self.{part}.weight"] = qkv[rows] * root
            weights[f"{name}attention.self.{part}.bias"] = shift[rows] * root
    return {name: np.ascontiguousarray(value, np.float32) for name, value in weights.items()}


def _smoothing(constants: dict[str, NDArray[Any]], norm: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return (width,) scale and shift of a layer norm's smoothing; 1 and 0 without smoothing."""
    plain = constants[norm + ".weight"]
    return constants.get(norm + ".scale", np.ones_like(plain)), constants.get(norm + ".shift", np.zeros_like(plain))


def _product(constants: dict[str, NDArray[Any]], name: str, norm: str = "") -> tuple[NDArray[Any], NDArray[Any]]:
    """Dequantise a product: W (out, in) and b (out,), for the unsmoothed output of ``norm``."""
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
    """Make the configuration of the BertModel for transformers."""
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

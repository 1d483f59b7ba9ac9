"""Tracing of any transformers encoder to a graph of OpenVINO, by its converter, or of ONNX, by torch.

The graph has the inputs and outputs of `onnx_graph`: ``embeddings`` (batch, tokens, dim), ``mask`` (batch, tokens), and
``layer_N`` (batch, tokens, width) for each layer. But here ``embeddings`` are the token vectors alone; the graph adds
positions and token types and applies the layer norm. Its outputs are checked against torch's.

Code in a model's folder is never run: an architecture that transformers does not know is rejected.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from phrasemate.encode.export.hf_folder import family_of, line_of
from phrasemate.encode.export.onnx_graph import TEXTS
from phrasemate.encode.model_folder import TRACED, TRACED_ONNX, TRACED_WEIGHTS, output_name
from phrasemate.encode.runtime import import_openvino, refers_to_files, turn_matrices
from phrasemate.errors import ModelError, ModelUnsupported, needs_extra
from phrasemate.utils.arrays import Floats

SHIFTED = {
    "camembert",
    "mpnet",
    "roberta",
    "xlm-roberta",
    "xlm-roberta-xl",
}  # families whose positions begin after the padding token's id
NATIVE = {"new": "gte-multilingual in the form"}  # families first released with their own code, for an error message
SAME = 0.999  # lowest cosine of a token's state with torch's, before weights are rounded
MOST_TOKENS = 8_192  # of a window: the cost of attention is quadratic
LEAST_WEIGHTS = 4_096  # smaller matrices are not rounded
ROWS = 8_192  # rows of the token table computed at once
OPSET = 18  # of ONNX; has every operator that these encoders need
CHECKED = 4  # texts of the larger batch in the comparison with torch


@contextmanager
def as_model_error(folder: str | Path) -> Iterator[None]:
    """Turn the errors of transformers, when it cannot load a folder, into ModelError."""
    try:
        yield
    except Exception as error:  # from strict dataclasses, safetensors and torch
        if not Path(folder).exists():
            raise ModelError(
                f"{folder}: no such folder, and it could not be downloaded; give a folder. Without a network, train "
                "from the bundled model: phrasemate model unpack -o FOLDER, then --set model.base=FOLDER"
            ) from error
        raise ModelError(f"{folder}: no encoder that transformers loads ({line_of(error)})") from error


def encoder_config(folder: str | Path) -> Any:
    """Load the transformers configuration of an encoder, from a folder or by name.

    Raises ModelUnsupported for an architecture that needs its own code or is not a text encoder, and ModelError if
    transformers cannot read the configuration.
    """
    with needs_extra("train", "transformers"):
        from transformers import AutoConfig, PretrainedConfig
    if Path(folder).is_dir():
        family_of(Path(folder))
    with as_model_error(folder):
        plain, _ = PretrainedConfig.get_config_dict(str(folder))
    kind, classes = plain.get("model_type"), plain.get("auto_map")
    try:
        with as_model_error(folder):
            config = AutoConfig.from_pretrained(str(folder), trust_remote_code=False)
    except ModelError as error:
        if not classes:
            raise
        kinds = " ".join(dict.fromkeys(str(name) for name in plain.get("architectures") or [kind]))
        native = NATIVE.get(str(kind), "an encoder")
        raise ModelUnsupported(
            f"{folder}: no encoder that transformers loads: {kinds} (model_type {kind!r}) needs code that comes with "
            f"the weights, which is never run; take {native} that transformers knows"
        ) from error
    if getattr(config, "is_encoder_decoder", False):
        raise ModelUnsupported(f"{folder}: model_type {kind!r} translates (encoder and decoder); expected an encoder")
    sizes = {name: getattr(config, name, None) for name in ("hidden_size", "num_hidden_layers")}
    if not all(isinstance(size, int) for size in sizes.values()):
        raise ModelUnsupported(f"{folder}: model_type {kind!r} is not an encoder of text alone (sizes {sizes})")
    return config


def longest_text(config: Any) -> int:
    """Return the most tokens of a text, special tokens included; some families leave the first positions unused."""
    first_position = int(config.pad_token_id or 0) + 1 if config.model_type in SHIFTED else 0
    return int(getattr(config, "max_position_embeddings", MOST_TOKENS + first_position)) - first_position


def load_encoder(folder: str | Path, **changes: Any) -> Any:
    """Load an encoder in float32, from a Hugging Face folder or by name; ``changes`` override its configuration.

    Only safetensors are read. Raises ModelError for missing weights, which transformers would initialise at random, and
    the errors of `encoder_config`.
    """
    import torch
    from transformers import AutoModel
    from transformers.utils import logging

    config = encoder_config(folder)
    for name, value in changes.items():
        setattr(config, name, value)
    verbosity = logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        with as_model_error(folder):
            encoder, info = AutoModel.from_pretrained(
                str(folder),
                config=config,
                dtype=torch.float32,
                output_loading_info=True,
                use_safetensors=True,  # no pickles
                trust_remote_code=False,  # with None, transformers would ask on the terminal
            )
    finally:
        logging.set_verbosity(verbosity)
    lacking = sorted(name for name in info["missing_keys"] if not name.startswith("pooler."))
    if lacking:
        raise ModelError(f"{folder}: {len(lacking)} weights are not there, such as {lacking[0]}; download it again")
    return encoder


def layers_of(encoder: Any) -> Any:
    """Find the ModuleList of an encoder's layers, whose name differs by family. Raises ModelUnsupported without one."""
    from torch import nn

    depth = int(encoder.config.num_hidden_layers)
    lists = [part for part in encoder.modules() if isinstance(part, nn.ModuleList) and len(part) == depth]
    if not lists:
        raise ModelUnsupported(f"{type(encoder).__name__}: has no list of {depth} layers; expected one")
    return lists[0]


def keep_layers(encoder: Any, count: int) -> None:
    """Truncate an encoder and its configuration to the lowest ``count`` layers, in place."""
    config = encoder.config
    if count == config.num_hidden_layers:
        return
    if config.model_type != "albert":  # its layers share one module
        layers = layers_of(encoder)
        name = next(name for name, part in encoder.named_modules() if part is layers)
        parent, _, attribute = name.rpartition(".")
        setattr(encoder.get_submodule(parent), attribute, layers[:count])
    config.num_hidden_layers = count
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:count]


def is_causal(encoder: Any) -> bool:
    """Whether attention is causal: each token sees only earlier tokens, as in a decoder.

    Configurations are not uniform here, so this is tested: if the last token changes, no other state may change.
    """
    import torch

    rows = int(encoder.get_input_embeddings().weight.shape[0])
    ids = torch.arange(4, 10)[None].remainder(rows).to(encoder.device)
    other_ids = torch.cat([ids[:, :-1], (ids[:, -1:] + 1).remainder(rows)], 1)
    mode = encoder.training
    encoder.eval()
    with torch.no_grad():
        first, second = (encoder(input_ids=numbers).last_hidden_state[0, :-1] for numbers in (ids, other_ids))
    encoder.train(mode)
    return torch.allclose(first, second, atol=1e-5)


def average_weights(encoder: Any, base: Any, share: float, folder: Path) -> None:
    """Average weights in place: share x encoder + (1 - share) x base.

    Raises ModelError if ``base``, loaded from ``folder``, has another architecture.
    """
    import torch

    base_parameters = dict(base.named_parameters())
    with torch.no_grad():
        for name, value in encoder.named_parameters():
            old = base_parameters.get(name)
            if old is None or old.shape != value.shape:
                raise ModelError(f"{folder}: has no {name} of shape {tuple(value.shape)}; not its base")
            value.copy_(torch.where(value == old, value, share * value + (1 - share) * old))


def token_vectors(encoder: Any, tokens: int) -> Floats:
    """Compute the graph's input vector of each token, (tokens, dim), with the scaling of the family."""
    import torch

    lookup = encoder.get_input_embeddings()
    parts = [torch.arange(at, min(at + ROWS, tokens)) for at in range(0, tokens, ROWS)]
    with torch.no_grad():
        table: Floats = torch.cat([lookup(ids[None])[0] for ids in parts]).float().numpy()
    return table


def trace_encoder(
    encoder: Any,
    layers: Sequence[int],
    table: Floats,
    precision: str,
    folder: Path,
    causal: bool,
    as_onnx: bool = False,
) -> None:
    """Trace an encoder and write ``encoder.xml`` and ``encoder.bin``, or ``traced.onnx``, into a folder.

    Args:
        encoder: Encoder of transformers, in float32.
        layers: Layers whose states the graph outputs.
        table: Token vectors (tokens, dim), from which random test inputs are drawn.
        precision: "int8" (matrices only, one scale per output value), "bf16" (matrices only), "fp16" or "fp32".
        folder: Folder to write into.
        causal: Whether attention is causal (see `is_causal`).
        as_onnx: Whether to write ONNX, in float32, also for ONNX Runtime.

    Raises ModelUnsupported if the conversion fails, or if the graph's states differ from torch's.
    """
    import torch

    if len(table) < 12:
        raise ModelUnsupported(f"{type(encoder).__name__}: {len(table)} tokens; expected 12 or more")
    openvino = import_openvino()
    encoder.eval()
    if not encoder.config._attn_implementation.startswith("sdpa"):
        encoder.set_attn_implementation("eager")
    module = _states_module(encoder, layers, causal)
    example = {"embeddings": torch.from_numpy(table[:12]).reshape(2, -1, table.shape[1]), "mask": torch.ones(2, 6)}
    example["mask"][1, 4:] = 0
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the tracer's warnings; the comparison detects actual faults
            if as_onnx:
                _save_onnx(module, example, layers, folder / TRACED_ONNX)
                graph = openvino.Core().read_model(folder / TRACED_ONNX)
            else:
                graph = openvino.convert_model(module, example_input=example)
    except Exception as error:  # from the tracer or the converter
        tool = "torch.onnx" if as_onnx else "OpenVINO"
        raise ModelUnsupported(f"{type(encoder).__name__}: {tool} does not convert it ({line_of(error)})") from error
    if as_onnx:
        _compare(graph, module, layers, table)
        return
    for port, name in zip(graph.inputs, ("embeddings", "mask"), strict=True):
        port.get_tensor().set_names({name})
    for port, layer in zip(graph.outputs, layers, strict=True):
        port.get_tensor().set_names({output_name(layer)})
    _compare(graph, module, layers, table)
    save_graph(graph, folder, precision)


def _save_onnx(module: Any, example: dict[str, Any], layers: Sequence[int], path: Path) -> None:
    """Write an ONNX graph with torch's tracer. Raises ValueError if the weights do not fit into one file."""
    import torch

    inputs, outputs = list(example), [output_name(layer) for layer in layers]
    torch.onnx.export(
        module,
        tuple(example.values()),
        str(path),
        input_names=inputs,
        output_names=outputs,
        dynamic_axes={name: {0: "batch", 1: "tokens"} for name in (*inputs, *outputs)},
        opset_version=OPSET,
        dynamo=False,  # the newer exporter needs onnxscript
    )
    if refers_to_files(path):
        raise ValueError("its weights take more than 2 GB, which no file of ONNX holds; export with --graph traced")


def save_graph(graph: Any, folder: Path, precision: str) -> int:
    """Write ``encoder.xml`` and ``encoder.bin`` of a float32 graph; returns the number of matrices rounded."""
    if precision in ("bf16", "fp16"):
        turn_matrices(graph)
    count = round_matrices(graph, precision) if precision in ("int8", "bf16") else 0
    import_openvino().save_model(graph, folder / TRACED, compress_to_fp16=precision == "fp16")
    assert (folder / TRACED_WEIGHTS).is_file()
    return count


def _states_module(encoder: Any, layers: Sequence[int], causal: bool) -> Any:
    import torch
    from torch import Tensor, nn

    config = encoder.config
    window = getattr(config, "sliding_window", None)
    masks = config.model_type == "gemma3_text"  # the tracer fails on its own mask functions

    def attention(mask: Tensor) -> Any:
        """Convert the mask for the encoder: (batch, tokens), or per kind of layer (batch, 1, tokens, tokens)."""
        if not masks:
            return mask.long()
        places = torch.arange(mask.shape[1], device=mask.device)
        apart = places[:, None] - places[None, :]  # (tokens, tokens) query position - key position
        visible = (mask[:, None, None, :] > 0) & ((apart >= 0) if causal else (apart.abs() >= 0))
        near = visible & (apart.abs() < int(window)) if window else visible
        return {
            "full_attention": torch.where(visible, 0.0, -30_000.0),
            "sliding_attention": torch.where(near, 0.0, -30_000.0),
        }

    class States(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder

        def forward(self, embeddings: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
            layer_states = _layer_states(self.encoder, embeddings, attention(mask), layers)
            # multiplied by the mask, since OpenVINO crashes if an input is also an output
            return tuple(states * mask[:, :, None] for states in layer_states)

    if hasattr(config, "use_cache"):
        config.use_cache = False
    if masks:
        encoder.set_attn_implementation("eager")
    return States().eval()


def _layer_states(encoder: Any, embeddings: Any, mask: Any, layers: Sequence[int]) -> list[Any]:
    """Compute the states (batch, tokens, width) after each of ``layers``."""
    output = encoder(inputs_embeds=embeddings, attention_mask=mask, output_hidden_states=True, return_dict=True)
    depth = int(encoder.config.num_hidden_layers)
    return [output.last_hidden_state if n == depth else output.hidden_states[n] for n in layers]


def _compare(graph: Any, module: Any, layers: Sequence[int], table: Floats) -> None:
    """Compare a graph with torch at lengths other than the traced one. Raises ModelUnsupported if states differ."""
    import torch

    core = import_openvino().Core()
    compiled_model = core.compile_model(graph, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})
    draw = np.random.default_rng(0)
    for batch, tokens in ((1, 3), (CHECKED, len(TEXTS) + 5)):
        ids = draw.integers(0, len(table), (batch, tokens))
        embeddings, mask = table[ids], np.ones((batch, tokens), np.float32)
        mask[0, tokens - 1 :] = 0
        with torch.no_grad():
            # the encoder makes its own masks here, so that an error in those of the module is detected
            inputs = torch.from_numpy(embeddings), torch.from_numpy(mask).long()
            reference_states = _layer_states(module.encoder, *inputs, layers)
        result = compiled_model({"embeddings": embeddings, "mask": mask})
        for layer, states in zip(layers, reference_states, strict=True):
            least = _least_cosine(states.numpy()[mask > 0], result[output_name(layer)][mask > 0])
            if not least >= SAME:
                difference = f"layer {layer} has a cosine of {least:.4f} with torch's"
                raise ModelUnsupported(f"{type(module.encoder).__name__}: the converted graph is another: {difference}")


def _least_cosine(first: Floats, second: Floats) -> float:
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return float(((first * second).sum(1) / np.maximum(lengths, 1e-9)).min())


def round_matrices(graph: Any, precision: str = "int8") -> int:
    """Round the constant matrices of products to "int8", with one scale per output value, or to "bf16".

    Returns the number of matrices.
    """
    openvino = import_openvino()
    ops = openvino.opset13
    count = 0
    for node in graph.get_ordered_ops():
        if node.get_type_name() != "MatMul":
            continue
        source = node.input_value(1).get_node()
        if source.get_type_name() == "Convert":
            source = source.input_value(0).get_node()
        if source.get_type_name() != "Constant" or len(source.shape) != 2:
            continue
        matrix = np.array(source.data, np.float32)
        if matrix.size < LEAST_WEIGHTS:
            continue
        if precision == "bf16":
            values = ops.convert(ops.constant(matrix, openvino.Type.bf16), "f32")
        else:
            is_transposed = bool(node.get_attributes()["transpose_b"])
            axis = 1 if is_transposed else 0  # axis of the inputs
            scales = np.abs(matrix).max(axis, keepdims=True) / 127
            scales[scales == 0] = 1
            codes = np.rint(matrix / scales).astype(np.int8)
            wide = ops.convert(ops.constant(codes), "f32")
            values = ops.multiply(wide, ops.constant(scales.astype(np.float32)))
        node.input(1).replace_source_output(values.output(0))
        count += 1
    return count

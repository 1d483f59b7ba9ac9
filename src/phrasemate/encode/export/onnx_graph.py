"""ONNX graph of BERT's transformer, built node by node: without tracing, without torch, byte for byte reproducible.

BERT, RoBERTa, CamemBERT and XLM-R differ only before the first layer, in the numbering of positions, which the token
table handles. The rest is the same stack of post-norm layers.

Weights are int8 with one float32 scale per column (output value), a quarter of the size of float32. The runtime
chooses how to compute the products.

Activations can be smoothed, to lose less when they are rounded. The runtime rounds the inputs of a product to int8
in groups of numbers of a token, scaled by the largest number of the group. After a layer norm, a few channels are ten
times as large as the others, which then keep only two or three bits. So the norm outputs z = (x - shift) / scale, and
its consumers undo this. Products do so in their W and b, the residual sum by a factor and in the b of the added
product. Except for rounding, the results stay the same. Scales follow SmoothQuant (Xiao et al., 2023), shifts Outlier
Suppression+ (Wei et al., 2023). Both are fitted on a few sentences, here to the standard deviation of a channel and not
to its largest value: this works as well and needs less text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.model_folder import output_name
from phrasemate.encode.runtime import import_openvino
from phrasemate.errors import ModelUnsupported, needs_extra

OPSET = 20  # the first with Gelu
MASKED = -30_000.0  # added to the logits of padding: exp gives 0, and bfloat16 can represent it
ACTIVATIONS = {"gelu": "none", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh", "relu": ""}

Array = NDArray[np.float32]


def build_graph(
    config: Mapping[str, Any],
    weights: Mapping[str, Array],
    layers: Sequence[int],
    smoothing: Mapping[str, Smoothing] | None = None,
) -> bytes:
    """Build a serialised ONNX model.

    Inputs: ``embeddings`` (batch, tokens, dim) float32, the sum of token, position and type vectors, and ``mask``
    (batch, tokens) float32, 1 for a token and 0 for padding. Outputs: ``layer_N`` (batch, tokens, dim) float32 for
    each of ``layers``. ``config`` and the names in ``weights`` are those of Hugging Face, without the architecture's
    prefix. ``smoothing``: smoothing of layer norms, by their names; it does not change the outputs.

    Raises ModelUnsupported for an unknown activation function.
    """
    graph = _Graph(config, weights, smoothing or {})
    graph.stack(layers)
    return graph.serialise(layers)


class _States(NamedTuple):
    tensor: str  # (batch, tokens, dim)
    norm: str  # name of the layer norm that computed them
    smooth: Smoothing | None


class _Graph:
    def __init__(
        self, config: Mapping[str, Any], weights: Mapping[str, Array], smoothing: Mapping[str, Smoothing]
    ) -> None:
        with needs_extra("train", "onnx"):
            import onnx
        self.onnx, self.weights, self.smoothing = onnx, weights, smoothing
        self.dim, self.heads = int(config["hidden_size"]), int(config["num_attention_heads"])
        self.depth = int(config["num_hidden_layers"])
        self.epsilon = float(config.get("layer_norm_eps", 1e-12))
        self.activation = str(config.get("hidden_act", "gelu"))
        if self.activation not in ACTIVATIONS:
            raise ModelUnsupported(f"activation {self.activation!r}; expected one of {', '.join(ACTIVATIONS)}")
        self.nodes: list[Any] = []
        self.constants: dict[str, NDArray[Any]] = {}

    def stack(self, layers: Sequence[int]) -> None:
        """Add the nodes of the whole transformer, with outputs for ``layers``."""
        self._constant("split_heads", np.array([0, 0, self.heads, self.dim // self.heads]))
        self._constant("join_heads", np.array([0, 0, self.dim]))
        one_value, masked_value = self._constant("one", np.float32(1)), self._constant("masked", np.float32(MASKED))
        bias = self._op("Mul", self._op("Sub", one_value, "mask"), masked_value)  # (batch, tokens)
        bias = self._op("Unsqueeze", bias, self._constant("axes", np.array([1, 2])))  # (batch, 1, 1, tokens)
        x = self._norm("embeddings", "embeddings.LayerNorm")
        for number in range(self.depth + 1):
            if number:
                x = self._layer(x, bias, f"encoder.layer.{number - 1}.")
            if number in layers:
                self.nodes.append(self.onnx.helper.make_node("Identity", [self._plain(x)], [output_name(number)]))

    def serialise(self, layers: Sequence[int]) -> bytes:
        """Check and serialise the model."""
        helper, real = self.onnx.helper, self.onnx.TensorProto.FLOAT
        shape = ["batch", "tokens", self.dim]
        graph = helper.make_graph(
            self.nodes,
            "encoder",
            [
                helper.make_tensor_value_info("embeddings", real, shape),
                helper.make_tensor_value_info("mask", real, shape[:2]),
            ],
            [helper.make_tensor_value_info(output_name(layer), real, shape) for layer in layers],
            [self.onnx.numpy_helper.from_array(np.ascontiguousarray(a), name) for name, a in self.constants.items()],
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10, producer_name="phrasemate"
        )
        self.onnx.checker.check_model(model)
        data: bytes = model.SerializeToString(deterministic=True)
        return data

    def _layer(self, x: _States, bias: str, name: str) -> _States:
        attention = self._attention(x, bias, name + "attention.self.")
        x = self._norm(
            self._residual(attention, x, name + "attention.output.dense"), name + "attention.output.LayerNorm"
        )
        dense = name + "intermediate.dense"
        inner = self._product(x.tensor, dense, *self._dense(dense), x.smooth)  # (batch, tokens, 4 dim)
        approximate = ACTIVATIONS[self.activation]
        inner = self._op("Gelu", inner, approximate=approximate) if approximate else self._op("Relu", inner)
        return self._norm(self._residual(inner, x, name + "output.dense"), name + "output.LayerNorm")

    def _attention(self, x: _States, bias: str, name: str) -> str:
        """Add softmax(Q K' / sqrt(d) + bias) V: one product for Q, K and V, and 1 / sqrt(d) folded into Q's weights."""
        root = np.float32((self.dim // self.heads) ** -0.5)
        parts = [(self.weights[f"{name}{part}.weight"].T, self.weights[f"{name}{part}.bias"]) for part in QKV]
        parts[0] = (parts[0][0] * root, parts[0][1] * root)
        kernel, shift = (np.concatenate(arrays, axis=-1) for arrays in zip(*parts, strict=True))
        qkv = self._product(x.tensor, name + "qkv", kernel, shift, x.smooth)  # (batch, tokens, 3 dim)
        outputs = [name + part for part in QKV]
        self.nodes.append(self.onnx.helper.make_node("Split", [qkv], outputs, axis=2, num_outputs=3))
        q, k, v = (self._op("Reshape", part, "split_heads") for part in outputs)  # (batch, tokens, heads, d)
        q, v = (self._op("Transpose", part, perm=[0, 2, 1, 3]) for part in (q, v))  # (batch, heads, tokens, d)
        k = self._op("Transpose", k, perm=[0, 2, 3, 1])  # (batch, heads, d, tokens)
        scores = self._op("Softmax", self._op("Add", self._op("MatMul", q, k), bias), axis=-1)
        context = self._op("Transpose", self._op("MatMul", scores, v), perm=[0, 2, 1, 3])
        return self._op("Reshape", context, "join_heads")  # (batch, tokens, dim)

    def _dense(self, name: str) -> tuple[Array, Array]:
        return self.weights[name + ".weight"].T, self.weights[name + ".bias"]

    def _residual(self, inner: str, x: _States, name: str) -> str:
        """Add inner W + b + x."""
        kernel, shift = self._dense(name)
        if x.smooth is None:
            return self._op("Add", self._product(inner, name, kernel, shift), x.tensor)
        beside = self._op("Mul", x.tensor, x.norm + ".scale")
        return self._op("Add", self._product(inner, name, kernel, shift + x.smooth.shift), beside)

    def _product(self, x: str, name: str, kernel: Array, shift: Array, smooth: Smoothing | None = None) -> str:
        """Add X W + b, with W (in, out) in int8 and a scale per column; ``x`` is X, or its smoothed form Z."""
        if smooth is not None:
            kernel = kernel * smooth.scale[:, None]
        scales = np.maximum(np.abs(kernel).max(0) / 127, np.float32(1e-12)).astype(np.float32)
        codes = np.clip(np.rint(kernel / scales), -127, 127).astype(np.int8)
        if smooth is not None:  # X = scale Z + shift, so X W + b = Z (scale W) + (shift / scale) (scale W) + b
            middle = smooth.shift.astype(np.float64) / smooth.scale
            shift = (shift + middle @ (codes * scales)).astype(np.float32)
        factors = self._constant(name + ".codes", codes), self._constant(name + ".scales", scales)
        real = self._op("DequantizeLinear", *factors, axis=1)
        return self._op("Add", self._op("MatMul", x, real), self._constant(name + ".bias", shift))

    def _norm(self, x: str, name: str) -> _States:
        smooth = self.smoothing.get(name)
        scale, shift = self.weights[name + ".weight"], self.weights[name + ".bias"]
        if smooth is not None:
            scale, shift = scale / smooth.scale, (shift - smooth.shift) / smooth.scale
            self._constant(name + ".scale", smooth.scale)
            self._constant(name + ".shift", smooth.shift)
        inputs = x, self._constant(name + ".weight", scale), self._constant(name + ".bias", shift)
        tensor = self._op("LayerNormalization", *inputs, output=states_of(name), axis=-1, epsilon=self.epsilon)
        return _States(tensor, name, smooth)

    def _plain(self, x: _States) -> str:
        """Undo the smoothing of states."""
        if x.smooth is None:
            return x.tensor
        return self._op("Add", self._op("Mul", x.tensor, x.norm + ".scale"), x.norm + ".shift")

    def _constant(self, name: str, value: Any) -> str:
        self.constants[name] = np.asarray(value)
        return name

    def _op(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        output = output or f"{kind}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [output], **attributes))
        return output


QKV = ("query", "key", "value")

POWER = 0.5  # exponent of a channel's standard deviation in its scale (SmoothQuant's alpha)
# Shifts are rounded to multiples of SHIFT_STEP, and log2 of scales to multiples of 1 / SCALE_STEPS. Means differ
# between machines in the last bit, and the exported file should not.
SHIFT_STEP, SCALE_STEPS = 1 / 32, 4
LEAST = -2  # lowest log2 of a scale: a channel that is almost constant in these texts may vary in others

# Calibration texts for smoothing, in many scripts and lengths, so that many channels vary.
TEXTS = (
    "The committee met on Tuesday, but nobody could agree on who should pay for the new bridge.",
    "Press the green button, wait until the lamp stops blinking, and remove the cable.",
    "She laughed, put on her coat and walked out into the rain.",
    "Version 2.4 needs at least 512 MB of memory; see section 7.1 (page 38) for details.",
    "Es war schon dunkel, als wir endlich den Schlüssel fanden.",
    "Der Vertrag verlängert sich um ein Jahr, wenn er nicht bis zum 30. September gekündigt wird.",
    "Les enfants jouaient dans la cour pendant que leurs parents préparaient le repas.",
    "¿Sabes si la farmacia de la esquina abre los domingos por la tarde?",
    "A hajó hajnalban indult, és estére már a túlsó parton voltunk.",
    "Kočka spala na okně a vůbec si nevšimla, že venku začalo sněžit.",
    "Врач посоветовал ему больше гулять и меньше сидеть перед экраном.",
    "Yeni müdür, toplantıdan sonra bütün çalışanlarla tek tek konuştu.",
    "وصل القطار متأخرا نصف ساعة بسبب العاصفة.",
    "这家餐馆的面条很好吃，就是等的时间太长了。",
    "明日の朝は早く起きて、山の上から日の出を見るつもりです。",
    "그는 오래된 사진을 한참 바라보다가 조용히 상자를 닫았다.",
)


class Smoothing(NamedTuple):
    """Shift and scale of z = (x - shift) / scale; each (width,) float32."""

    shift: NDArray[np.float32]
    scale: NDArray[np.float32]

    @classmethod
    def of(cls, states: NDArray[np.float32]) -> Smoothing:
        """Fit to (tokens, width) states: the means of channels, and the roots of their standard deviations.

        Standard deviations are relative to their median. A constant channel has scale 1; the lowest scale is 1/4.
        """
        spread = states.std(0, dtype=np.float64)
        spread /= np.median(spread[spread > 0]) if spread.any() else 1
        steps = np.rint(SCALE_STEPS * POWER * np.log2(spread, where=spread > 0, out=np.zeros_like(spread)))
        steps = np.maximum(steps, LEAST * SCALE_STEPS)
        shift = SHIFT_STEP * np.rint(states.mean(0, dtype=np.float64) / SHIFT_STEP)
        return cls(shift.astype(np.float32), np.exp2(steps / SCALE_STEPS).astype(np.float32))


def smoothing_of(graph: bytes, depth: int, texts: Iterable[NDArray[np.float32]]) -> dict[str, Smoothing]:
    """Fit the smoothing of each layer norm that feeds a product; returns it by the norm's name.

    ``graph``: output of `build_graph` without smoothing. ``texts``: input vectors of texts, (tokens, dim) each.
    """
    norms = norms_of(depth)
    core = import_openvino().Core()
    model = core.read_model(graph)
    model.add_outputs([states_of(norm) for norm in norms])
    program = core.compile_model(
        model, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
    )
    states: dict[str, list[NDArray[np.float32]]] = {norm: [] for norm in norms}
    for text in texts:
        answer = program({"embeddings": text[None], "mask": np.ones((1, len(text)), np.float32)})
        for norm, blocks in states.items():
            blocks.append(answer[states_of(norm)][0].copy())
    return {norm: Smoothing.of(np.concatenate(blocks)) for norm, blocks in states.items()}


def norms_of(depth: int) -> list[str]:
    """Return the names of the layer norms that feed products: for each layer, its input's and its attention's."""
    before = ["embeddings.LayerNorm", *(f"encoder.layer.{layer}.output.LayerNorm" for layer in range(depth - 1))]
    within = [f"encoder.layer.{layer}.attention.output.LayerNorm" for layer in range(depth)]
    return [norm for pair in zip(before, within, strict=True) for norm in pair]


def states_of(norm: str) -> str:
    """Return the name of a layer norm's output tensor, smoothed or not."""
    return f"{norm}.states"

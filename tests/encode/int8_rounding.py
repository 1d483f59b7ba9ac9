"""Rounding to int8 in the graph itself: what the runtime does on a processor that multiplies int8, on any other."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.helper import make_node
from onnx.numpy_helper import from_array

from phrasemate.encode.model_folder import CONFIDENCE, ENCODER, write_manifest


def rounded_copy(folder: Path, out: Path, group: int) -> str:
    """A copy of a model folder with rounding in its graph; returns its hash."""
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns(CONFIDENCE))
    proto = onnx.load(folder / ENCODER)
    round_inputs(proto.graph, group)
    (out / ENCODER).write_bytes(proto.SerializeToString(deterministic=True))
    return write_manifest(out)


def round_inputs(graph: Any, group: int) -> None:
    """Round what goes into the products of an ONNX graph, ``group`` numbers of a token by their largest."""
    nodes, shapes = list(graph.node), {tensor.name: tensor.dims for tensor in graph.initializer}
    kernels = {node.output[0]: shapes[node.input[0]] for node in nodes if node.op_type == "DequantizeLinear"}
    for name, value in {"steps": np.float32(127), "least": np.float32(1e-12), "last": np.array([-1])}.items():
        graph.initializer.append(from_array(np.asarray(value), f"rounded.{name}"))
    del graph.node[:]
    for node in nodes:
        if node.op_type == "MatMul" and node.input[1] in kernels:
            width, target = kernels[node.input[1]][0], f"{node.output[0]}.rounded"
            if width % group:
                raise ValueError(f"{group} numbers with a scale, but {width} go into a product; expected a divisor")
            graph.initializer.append(from_array(np.array([0, 0, width // group, group]), f"{target}.groups"))
            graph.initializer.append(from_array(np.array([0, 0, width]), f"{target}.whole"))
            graph.node.extend(_steps(node.input[0], target))
            node.input[0] = target
        graph.node.append(node)


def _steps(source: str, target: str) -> Iterator[Any]:
    """From a tensor (batch, tokens, width) to the same as codes of int8 times a step for each group."""
    yield make_node("Reshape", [source, f"{target}.groups"], [f"{target}.parts"])
    yield make_node("Abs", [f"{target}.parts"], [f"{target}.sizes"])
    yield make_node("ReduceMax", [f"{target}.sizes", "rounded.last"], [f"{target}.largest"])
    yield make_node("Max", [f"{target}.largest", "rounded.least"], [f"{target}.some"])
    yield make_node("Div", [f"{target}.some", "rounded.steps"], [f"{target}.step"])
    yield make_node("Div", [f"{target}.parts", f"{target}.step"], [f"{target}.exact"])
    yield make_node("Round", [f"{target}.exact"], [f"{target}.codes"])
    yield make_node("Mul", [f"{target}.codes", f"{target}.step"], [f"{target}.again"])
    yield make_node("Reshape", [f"{target}.again", f"{target}.whole"], [target])

"""Activations that are rounded well: each channel shifted and scaled before a product, and the weights to match.

The runtime rounds what goes into a product to int8, some numbers of a token at a time, by the largest of them. After a
layer norm a few channels are ten times as large as the others, which then keep two or three bits. So the norm gives z =
(x - shift) / scale, and what reads it reverses that. The product does so in its W and b, the residual sum in a factor
and in the b of the summand. But for rounding nothing changes, and no step is added. Scales as in SmoothQuant (Xiao et
al., 2023), shifts as in Outlier Suppression+ (Wei et al., 2023), both learned from a few sentences. Here they come from
the spread of a channel, not from its largest value: that is as good, and needs less text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

POWER = 0.5  # of a channel's spread: that much of the difference goes into the weights
SHIFT_STEP, SCALE_STEPS = 1 / 32, 4  # shifts are multiples of the one, scales have so many steps to the double:
# machines differ in the last bit of a mean, and an exported file should not
LEAST = -2  # log2 of a scale: what hardly moves in these texts may do so in others

# What they are learned from; any text will do, but one of many scripts and lengths moves more channels.
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
    """z = (x - shift) / scale instead of x; each (width,) float32."""

    shift: NDArray[np.float32]
    scale: NDArray[np.float32]

    @classmethod
    def of(cls, states: NDArray[np.float32]) -> Smoothing:
        """What evens the channels of (tokens, width) states out: their means, and roots of their spreads.

        A channel that never changes keeps the scale of the middle one; none is scaled up more than four times.
        """
        spread = states.std(0, dtype=np.float64)
        spread /= np.median(spread[spread > 0]) if spread.any() else 1
        steps = np.rint(SCALE_STEPS * POWER * np.log2(spread, where=spread > 0, out=np.zeros_like(spread)))
        steps = np.maximum(steps, LEAST * SCALE_STEPS)
        shift = SHIFT_STEP * np.rint(states.mean(0, dtype=np.float64) / SHIFT_STEP)
        return cls(shift.astype(np.float32), np.exp2(steps / SCALE_STEPS).astype(np.float32))


def smoothing_of(graph: bytes, depth: int, texts: Iterable[NDArray[np.float32]]) -> dict[str, Smoothing]:
    """What to do to the states after each layer norm that a product reads, by the norm's name.

    ``graph`` is the plain one of `build_graph`; ``texts`` are what goes into it: (tokens, dim) for each text.
    """
    import openvino

    norms = norms_of(depth)
    core = openvino.Core()
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
    """The layer norms that products read, in the order of the graph: of each layer, what goes in and what is within."""
    before = ["embeddings.LayerNorm", *(f"encoder.layer.{layer}.output.LayerNorm" for layer in range(depth - 1))]
    within = [f"encoder.layer.{layer}.attention.output.LayerNorm" for layer in range(depth)]
    return [norm for pair in zip(before, within, strict=True) for norm in pair]


def states_of(norm: str) -> str:
    """The tensor that a layer norm gives, smoothed or not."""
    return f"{norm}.states"

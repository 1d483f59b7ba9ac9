"""Tokens a second of processor time by number format and length of text, and how faithful each format is to float32.

The bundled model in OpenVINO: "bfloat16" as OpenVINO does it without int8; "int8" with a scale for so many activations,
where a token has 384 or 1,536 of them, so "a token" is one scale for each token. All on one thread, in turns, with the
best of the rounds; cosines are those of token states to float32. "three words": of the first words of sentences.

    python bench/precision.py --rounds 3
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from common import cosines, interleaved, parser, report
from encode import sentences

from phrasemate import Model, load_model
from phrasemate.encode import runtime
from phrasemate.evaluate.report import signature

HEADER = ["format", "texts", "tokens", "tokens/s", "to bfloat16", "to long texts", "cosine mean", "cosine min"]
FORMATS: dict[str, dict[str, Any]] = {
    "float32": {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0},
    "bfloat16": {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 0},
    "int8, 32": {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 32},
    "int8, 128 (in force)": {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 128},
    "int8, 384": {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 384},
    "int8, a token": {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 1536},
}


def loaded(changes: dict[str, Any]) -> Model:
    """The bundled model, compiled with other options of OpenVINO."""
    usual: Callable[..., dict[str, Any]] = runtime.options
    runtime.options = lambda *arguments: usual(*arguments) | changes
    try:
        return load_model(threads=1)
    finally:
        runtime.options = usual


def states(model: Model, texts: list[str]) -> np.ndarray:
    """(tokens, width) states of all tokens."""
    return np.concatenate([block.values for block in model.token_states(texts)])


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--sentences", type=int, default=128)
    options.add_argument("--rounds", type=int, default=3)
    args = options.parse_args()
    whole = sentences(args.data, args.sentences, args.seed)
    texts = {
        "43 tokens": whole,
        "three words": [" ".join(text.split()[at : at + 3]) for text in whole for at in (0, 3, 6)],
    }
    models = {name: loaded(changes) for name, changes in FORMATS.items()}
    values = {(name, kind): states(model, some) for name, model in models.items() for kind, some in texts.items()}
    calls = {pair: partial(states, models[pair[0]], texts[pair[1]]) for pair in values}
    rates = {
        pair: len(values[pair]) / min(times)
        for pair, times in interleaved(calls, args.rounds, time.process_time).items()
    }
    rows = []
    for (name, kind), rate in rates.items():
        ours, exact = values[name, kind], values["float32", kind]
        near = cosines(ours, exact)
        shares = [rate / rates["bfloat16", kind], rate / rates[name, "43 tokens"]]
        rows.append([name, kind, len(ours), round(rate), *shares, float(near.mean()), float(near.min())])
    report("precision", HEADER, rows, signature(load_model(), rounds=args.rounds, seed=args.seed, threads=1))


if __name__ == "__main__":
    main()

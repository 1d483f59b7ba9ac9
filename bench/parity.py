"""Compare exported encoders of every family with transformers, by cosines of token states and of vectors.

The encoders are tiny and random, with tokenizers trained on five texts of six scripts and emoji, as in the tests. A
real encoder is compared on the same texts with --folder.

    python bench/parity.py
    python bench/parity.py --folder LaBSE/
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import common
import numpy as np

from phrasemate.encode import load_model
from phrasemate.encode.export.export import export_model
from phrasemate.encode.export.hf_folder import FAMILIES
from phrasemate.evaluate.report import signature

common.use_test_modules("encode")

import hf_families  # noqa: E402 (of the tests)

HEADER = ["family", "graph", "weights", "states, least", "states, mean", "sentence vectors, least"]


def main() -> None:
    """Measure and print a row for each family, graph and precision."""
    options = common.parser(__doc__)
    options.add_argument("--folder", type=Path, action="append", default=[], help="a Hugging Face encoder folder")
    options.add_argument("--only", nargs="*", default=[], help="families to compare")
    args = options.parse_args()
    rows: list[list[Any]] = []
    with tempfile.TemporaryDirectory(dir=common.RAM_DISK) as scratch:
        for folder in args.folder:
            rows += compared(folder.name, folder, Path(scratch) / folder.name, ())
        for name in args.only or ([] if args.folder else hf_families.FAMILIES):
            base = Path(scratch) / name
            folder = hf_families.save_family(name, base / "hf")
            rows += compared(name, folder, base, ("written",) if name in FAMILIES else ())
    common.report("parity", HEADER, rows, signature({}, texts=len(hf_families.TEXTS)))


def compared(name: str, folder: Path, base: Path, graphs: tuple[str, ...]) -> list[list[Any]]:
    """Return the rows of a folder: traced in float32, bfloat16 and int8, as ONNX, and with its written graphs."""
    _, states = hf_families.torch_states(folder, hf_families.TEXTS)
    causal = name.startswith("qwen")
    sentences = np.stack([values[-1] if causal else values.mean(0) for values in states])
    rows = []
    kinds = [("traced", "fp32"), ("onnx", "fp32"), ("traced", "bf16"), ("traced", "int8")]
    for graph, precision in [*kinds, *((graph, "int8") for graph in graphs)]:
        out = base / f"{graph}-{precision}"
        bits = None if precision == "int8" else 16
        export_model(folder, out, graph=graph, precision=precision, embedding_bits=bits)
        model = load_model(out, threads=1)
        (values,) = model.token_states(hf_families.TEXTS)
        near = common.cosines(values.values, np.concatenate(states))
        vectors = common.cosines(model.encode_sentences(hf_families.TEXTS), sentences)
        rows.append([name, graph, precision, *(f"{x:.5f}" for x in (near.min(), near.mean(), vectors.min()))])
        print(*rows[-1], flush=True)
    return rows


if __name__ == "__main__":
    main()

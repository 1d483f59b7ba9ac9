"""Alignment error rate of the aligners on gold word alignments (de, cs, ro, fr with English), and their speed.

The protocol is that of phrasemate.evaluate.alignment (docs/evaluate.md); here with other layers and temperatures.

    python bench/align.py --threads 1
"""

from __future__ import annotations

from typing import Any

from common import parser, report

from phrasemate import load_model
from phrasemate.evaluate.alignment import NEURAL, evaluate_alignment
from phrasemate.evaluate.data import LANGS
from phrasemate.evaluate.report import signature


def main() -> None:
    """Print and write the table."""
    options = parser(__doc__)
    options.add_argument("--cs", type=int, default=500, help="sentence pairs of the Czech set (it has 2,487)")
    options.add_argument("--extra", type=int, default=20_000, help="further sentence pairs for eflomal")
    options.add_argument("--layers", type=int, nargs="*", default=None, help="layers (default: the last)")
    options.add_argument("--temperature", type=float, default=None, help="of softmax (default: the aligner's)")
    args = options.parse_args()
    model = load_model(args.model, threads=args.threads)
    tried: dict[str, dict[str, Any]] = {
        f"{name} {layer}": arguments
        | {"layer": layer}
        | ({"temperature": args.temperature} if name == "softmax" else {})
        for layer in args.layers or [model.runtime.layers[-1]]
        for name, arguments in NEURAL.items()
    }
    table, remarks = evaluate_alignment({"": model}, args.data, LANGS, {"cs": args.cs}, args.extra, settings=tried)
    facts = signature(model, threads=args.threads or "all", carried_layers=model.runtime.layers, seed=args.seed)
    facts |= {"cs_pairs": args.cs, "extra": args.extra, "temperature": args.temperature, "links": "sure"} | remarks
    report("align", table.header, table.rows, facts)


if __name__ == "__main__":
    main()

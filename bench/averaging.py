"""How much of the base's weights to average into trained ones: figures on the held-out split for several shares.

    python bench/averaging.py .cache/run .cache/multilingual-e5-small --data .cache/ccpr

Share 1 is the trained model alone. The split is that of training (see docs/experiments.md); what the training text
lacks, such as everyday words, shows in bench/sentence_retrieval.py and the demo, not here.
"""

from __future__ import annotations

import argparse
import json
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from common import report

from phrasemate.encode.export.hf_folder import averaged, read_weights
from phrasemate.evaluate.report import signature
from phrasemate.training.ccpr import CCPRTask, Config


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("run", type=Path, help="folder of a training run")
    options.add_argument("base", type=Path, help="the encoder that the training began with")
    options.add_argument("--data", type=Path, required=True, help="its phrase pairs")
    options.add_argument("--shares", type=float, nargs="+", default=[0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    args = options.parse_args()
    tables: dict[str, Any] = json.loads((args.run / "config.json").read_text(encoding="utf-8"))
    tables.pop("method")
    tables["model"].update(base=str(args.run / "model"), head="base")
    tables["data"]["term_batch"] = 0
    task = CCPRTask(Config.of(tables), args.data)
    task.module.eval()
    encoder = task.backbone.encoder
    trained, base = read_weights(args.run / "model"), read_weights(args.base)
    rows = []
    for share in args.shares:
        mixed = averaged(trained, base, share, args.base)
        encoder.load_state_dict({name: torch.from_numpy(value) for name, value in mixed.items()})
        found = task.evaluate(_bf16)
        rows.append([share, found["score"], found["acc@1"], found["sentences"], found["f1"]])
        print(rows[-1], flush=True)
    facts = signature(None, run=args.run.name, step=json.loads((args.run / "model/training.json").read_text())["step"])
    report("averaging", ["share", "score", "acc@1", "sentences", "f1"], rows, facts)


@contextmanager
def _bf16() -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        yield


if __name__ == "__main__":
    main()

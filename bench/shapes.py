"""Memory of an encoder that meets ever new lengths of texts, as a server does: anonymous MB after each round.

    python bench/shapes.py
    ONEDNN_PRIMITIVE_CACHE_CAPACITY=1024 python bench/shapes.py  # as many kernels as oneDNN keeps by itself

A round: 150 batches of one to six texts of two to sixty words, lengths drawn; in one thread unless --threads says more.
OpenVINO's own cache of kernels keeps 256 in both (``phrasemate.encode.runtime.options``).
"""

from __future__ import annotations

import random
import time

from common import anonymous, parser, report

from phrasemate import load_model
from phrasemate.evaluate.report import signature

WORDS = [
    "der",
    "die",
    "das",
    "Haus",
    "Bank",
    "Minute",
    "Parlament",
    "schweigt",
    "gestern",
    "abend",
    "viele",
    "Leute",
    "gehen",
]
BATCHES, TEXTS, LONGEST = 150, 6, 60
HEADER = ["round", "anonymous MB", "CPU seconds"]


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=6)
    args = options.parse_args()
    model, draw, rows = load_model(args.model, args.threads or 1), random.Random(args.seed), []
    for number in range(1, args.rounds + 1):
        begun = time.process_time()
        for _ in range(BATCHES):
            count = draw.randint(1, TEXTS)
            model.extract([" ".join(draw.choices(WORDS, k=draw.randint(2, LONGEST))) for _ in range(count)])
        rows.append([number, round(anonymous()), time.process_time() - begun])
    report("shapes", HEADER, rows, signature(model, threads=args.threads or 1, seed=args.seed))


if __name__ == "__main__":
    main()

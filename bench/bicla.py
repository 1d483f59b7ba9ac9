"""What BiCLA costs: seconds for a step of training, and for scoring 1,000 x 1,000 sentence pairs.

    python bench/bicla.py --threads 1

Random word vectors of 300 dimensions, and the network of the paper (H = 100). Sentences have 16 words in the mean, some
up to 60, as content words of Europarl have; a step is 10 micro-batches of a true pair and four negatives.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from common import parser, report
from numpy.typing import NDArray

from phrasemate.evaluate.report import signature
from phrasemate.training.bicla import BiCLA, Settings, contrastive_loss, pad, score_matrix

DIM, COUNT, STEPS = 300, 1000, 20
HEADER = ["network", "seconds a step", "seconds for 1,000 x 1,000"]


def sentences(count: int, draw: np.random.Generator) -> list[NDArray[np.float32]]:
    """Word vectors of so many sentences."""
    lengths = np.clip(draw.gamma(4, 4, size=count).astype(int), 3, 60)
    return [draw.normal(size=(length, DIM)).astype(np.float32) for length in lengths]


def step_of(model: BiCLA, draw: np.random.Generator) -> Callable[[], None]:
    """One step: forward, backward, Adam."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0, fused=True)
    both = pad(sentences(10 + 50, draw))

    def step() -> None:
        encoded = model.encode(both)
        scores = model(encoded.rows(0, 10).each(5), encoded.rows(10, None)).view(10, 5)
        squares = torch.stack([parameter.square().sum() for parameter in model.parameters()]).sum()
        (contrastive_loss(scores, 1.0) + 1e-4 * squares).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def seconds(what: Callable[[], object], times: int) -> float:
    """The median of so many runs, after one that is not counted."""
    what()
    found = []
    for _ in range(times):
        started = time.perf_counter()
        what()
        found.append(time.perf_counter() - started)
    return float(np.median(found))


def main() -> None:
    """Print the table."""
    args = parser(__doc__).parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    rows = []
    for name, settings in (("BiCLA", Settings()), ("InAtt", Settings(cross=False))):
        draw = np.random.default_rng(args.seed)
        model = BiCLA(DIM, settings)
        a_step = seconds(step_of(model, draw), STEPS)
        sides = sentences(COUNT, draw), sentences(COUNT, draw)
        rows.append([name, a_step, seconds(lambda m=model, s=sides: score_matrix(m, *s), 3)])  # type: ignore[misc]
    report("bicla", HEADER, rows, signature(None, threads=torch.get_num_threads(), seed=args.seed))


if __name__ == "__main__":
    main()

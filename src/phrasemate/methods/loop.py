"""How long and how fast a training run goes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from phrasemate.errors import InputError
from phrasemate.methods.config import at_least, expect


@dataclass(frozen=True)
class LoopSettings:
    """See `phrasemate/configs/ccpr.toml` for each. Raises InputError for what makes no sense.

    ``warmup`` counts steps; ``schedule`` is "cosine" or "linear", both down to zero at ``steps``, or "constant";
    ``stop``: end at this step though the schedule goes on (0: at ``steps``), for a model that another run goes on from;
    ``clip``: largest norm of the gradient (0: none); ``precision`` "bf16" (autocast) or "fp32"; ``log``, ``evaluate``,
    ``checkpoint``: every so many steps (evaluate 0: at the end only); ``patience``: end when so many evaluations have
    passed without a better score, and keep the best model instead of the last (0: never).
    """

    steps: int = 20_000
    warmup: int = 1_000
    schedule: str = "cosine"
    stop: int = 0
    clip: float = 1.0
    weight_decay: float = 0.01
    accumulate: int = 1
    precision: str = "bf16"
    log: int = 10
    evaluate: int = 500
    checkpoint: int = 100
    seed: int = 0
    patience: int = 0

    def __post_init__(self) -> None:
        expect("[loop] schedule", self.schedule, ("cosine", "linear", "constant"))
        expect("[loop] precision", self.precision, ("bf16", "fp32"))
        for name in ("steps", "accumulate", "log", "checkpoint"):
            at_least(f"[loop] {name}", getattr(self, name), 1)
        for name in ("warmup", "stop", "clip", "weight_decay", "evaluate", "seed", "patience"):
            at_least(f"[loop] {name}", getattr(self, name), 0)
        if self.seed >= 1 << 63:
            raise InputError(f"[loop] seed: {self.seed}; expected less than 2**63")

    @property
    def end(self) -> int:
        """The last step."""
        return self.stop or self.steps


def learning_rate(step: int, settings: LoopSettings) -> float:
    """The share of the highest learning rate at a step, counted from 0."""
    if step < settings.warmup:
        return (step + 1) / settings.warmup
    done = (step - settings.warmup) / max(settings.steps - settings.warmup, 1)
    return {"cosine": (1 + math.cos(math.pi * done)) / 2, "linear": 1 - done, "constant": 1.0}[settings.schedule]

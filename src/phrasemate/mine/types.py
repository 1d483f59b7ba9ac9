"""What goes into mining and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.mine.collection import Counts, Place
from phrasemate.mine.language import CHECKS
from phrasemate.mine.select import PAIRING, Calibration
from phrasemate.rank import MARGINS
from phrasemate.utils.knn import ENGINES

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much is done, and of how much (0: not known)."""

FLOORS = {
    "absolute": 0.0,
    "csls": 0.0,
    "distance": 0.0,
    "quarter": 0.0,
    "ratio": 1.0,
}  # below it a pair is nearer to others
THRESHOLDS = {
    ("quarter", ""): (0.605, 0.025),
    ("quarter", "words"): (0.91, 0.045),
    ("quarter", "reranker"): (1.6, 0.06),
    ("ratio", ""): (1.125, 0.015),
}
"""Of a margin and what looks at pairs again: the default for `USUAL` sentences, and its growth for e times as many."""
USUAL, SMALLEST = 20_000, 5_000  # below the smallest the threshold stays
WEIGHTS = {"words": 0.5, "reranker": 1.5, "scorer": 0.5}  # of a second look's scores beside the margin
DOUBT = 0.065  # below the threshold without a second look, of the margin: from there on pairs are looked at again
RERANK = ("auto", "reranker", "words", "none")


def usual_threshold(margin: str, look: str, source: int, target: int) -> float | None:
    """The default for collections of so many sentences; None where it was not measured (docs/mine.md).

    How many wrong pairs reach a score by chance grows with the product of both sizes, and falls by the same factor
    with each step of the score: so the threshold grows with the logarithm of the product. Half as quickly where there
    are the more mates the more sentences there are; `THRESHOLDS` lie between that and always as many.
    """
    known = THRESHOLDS.get((margin, look.removeprefix("none")))
    if known is None:
        return None
    usual, growth = known
    return usual + growth * log(max(SMALLEST, sqrt(source * target)) / USUAL)


class SentenceEncoder(Protocol):
    """What mining needs of a `phrasemate.Model`."""

    @property
    def hash(self) -> str: ...

    @property
    def width(self) -> int: ...

    def encode_sentences(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(texts, width) float32, unit length."""
        ...


@dataclass(frozen=True, slots=True)
class Mining:
    """How mates are found.

    ``k`` neighbours each way; ``margin`` and ``pairing``: see `margin_of` and `one_to_one`. ``threshold``: the least
    score; None: what calibration says, or the default of the margins `quarter` and `ratio` (`usual_threshold`).
    ``length_ratio`` and ``copies``: see `length_filter` and `is_copy`; None: no such filter. ``languages`` (codes, or
    "") and ``check``: see `checker`. ``engine``: see `engine_for`. ``rerank``: how promising pairs are looked at again:
    by the `reranker` that comes with the bundled encoder (`Attention`, its scores divided by the highest there can be),
    by `words` (`WordMatch`), or not; `auto`: by the re-ranker where it belongs to the model, else by words where the
    model has them. ``weight``: how often its scores count beside the margin; None: as in `WEIGHTS`.
    """

    k: int = 4  # Artetxe and Schwenk (2019), section 4.1
    margin: str = "quarter"
    threshold: float | None = None
    pairing: str = "greedy"
    length_ratio: float | None = 2.5
    copies: float | None = 0.75
    languages: tuple[str, str] = ("", "")
    check: str = "script"
    engine: str = "auto"
    rerank: str = "auto"
    weight: float | None = None

    def __post_init__(self) -> None:
        words = {"margin": MARGINS, "pairing": PAIRING, "check": CHECKS, "engine": ENGINES, "rerank": RERANK}
        for name, known in words.items():
            if getattr(self, name) not in known:
                raise InputError(f"{name} {getattr(self, name)!r}; expected one of {', '.join(known)}")
        if self.k < 1:
            raise InputError(f"k {self.k}; expected 1 or more neighbours")
        if self.length_ratio is not None and not self.length_ratio > 1:
            raise InputError(f"length ratio {self.length_ratio}; expected more than 1, or none")
        if self.copies is not None and not 0 < self.copies <= 1:
            raise InputError(f"copies {self.copies}; expected a share above 0 and up to 1, or none")


class Mate(NamedTuple):
    """A sentence and its mate, with all places where each stands."""

    source: str
    target: str
    score: float
    cosine: float
    source_places: tuple[Place, ...]
    target_places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """What was done.

    Of the ``candidates`` (pairs of neighbours) ``unlike`` were dropped for their lengths; of those whose margin is
    ``promising``, ``copies`` were dropped and the others looked at again as ``rerank`` says (one of `RERANK`, or
    "scorer"); ``pairs`` were chosen at the ``threshold``.
    ``recall`` is that of the searches both ways, on a sample, against exact search (1 for exact ones). ``seconds`` of
    each stage of this run.
    """

    source: Counts
    target: Counts
    candidates: int
    unlike: int
    promising: int
    copies: int
    pairs: int
    threshold: float
    rerank: str
    calibration: Calibration | None
    engine: str
    recall: tuple[float, float]
    seconds: dict[str, float]

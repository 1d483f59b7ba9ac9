"""A phrase seen twice: in its sentence, and alone.

A vector in context tells what a phrase means where it stands, and a part of it tells where that is. The equivalent that
a search wants stands in other text. So the hits of a search are looked at again, with some of the phrase by itself, as
a dictionary has it, added on both sides::

    q' = unit(q + a q_alone)                                 the query
    v' = unit(v + b v_alone)                                 a hit
    support(wording) = t ln sum_hits exp(cos(q', v') / t)    over the hits of a wording

The support is a soft maximum: the best hit's cosine, and more where several hits agree, as neighbours vote in kNN
translation (Khandelwal et al., 2021). Votes alone (`VOTES`) take no pass of the encoder. The numbers were chosen with
``bench/views.py``, for the bundled model: the more of the phrase alone, the more answers are right, and the less does
the sentence tell the senses of a word apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.calibration import HITS
from phrasemate.encode.pooling import unit
from phrasemate.errors import InputError
from phrasemate.types import Encoder, Phrase

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Views:
    """How much of the phrase alone; the symbols are those of the module.

    ``query``: a. ``hit``: b. ``sharpness``: t, in cosines. ``first``: hits of a query that are looked at again, if they
    hold as many wordings as are asked for, else more. Raises InputError for a weight below 0, a sharpness that is not
    above it, and for no hits.
    """

    query: float = 0.2
    hit: float = 0.5
    sharpness: float = 0.05
    first: int = 32

    def __post_init__(self) -> None:
        if not (self.query >= 0 and self.hit >= 0 and self.sharpness > 0 and self.first > 0):
            raise InputError(f"{self}: expected weights of 0 or more, a sharpness above 0 and a hit or more")

    @property
    def mixed(self) -> bool:
        """Whether anything of the phrase alone is added, so that it has to be encoded."""
        return self.query > 0 or self.hit > 0

    @property
    def votes(self) -> Views:
        """The same without the phrase alone."""
        return replace(self, query=0.0, hit=0.0, first=HITS)

    def queries(self, model: Encoder, phrases: Sequence[Phrase]) -> tuple[Floats, Floats]:
        """The q and q' of queries, (phrases, dim) each, from one call of the encoder."""
        both = model.encode([*phrases, *(alone(phrase) for phrase in phrases if self.query)])
        vectors = both[: len(phrases)]
        return vectors, unit(vectors + self.query * both[len(phrases) :]) if self.query else vectors

    def hits(self, model: Encoder, phrases: Sequence[Phrase], vectors: Floats) -> Floats:
        """The v' of hits with the vectors v, (phrases, dim); each wording is encoded once."""
        if not self.hit or not len(phrases):
            return vectors
        texts = list(dict.fromkeys(map(alone, phrases)))
        places = {phrase: place for place, phrase in enumerate(texts)}
        return unit(vectors + self.hit * model.encode(texts)[[places[alone(phrase)] for phrase in phrases]])

    def support(self, scores: Sequence[float]) -> float:
        """The soft maximum of the cosines of a wording's hits, one or more."""
        return float(self.sharpness * np.logaddexp.reduce(np.asarray(scores, np.float64) / self.sharpness))


VOTES = Views().votes


def alone(phrase: Phrase) -> Phrase:
    """The phrase without its sentence."""
    return Phrase(phrase.text, 0, len(phrase.text))

"""Two languages' word vectors in one space: by a lexicon, without one, or from a small one by self-learning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.pooling import unit
from phrasemate.errors import InputError
from phrasemate.vectors.lexicon import Lexicon, pair_rows
from phrasemate.vectors.procrustes import procrustes, symmetric_maps
from phrasemate.vectors.vecmap import Learnt, SelfLearning, initial_pairs, self_learn
from phrasemate.vectors.word_vectors import WordVectors, begun, check_free, put

METHODS = ("procrustes", "symmetric")

Rows = NDArray[np.int64]
Progress = Callable[[int, float, float], None]
"""Called with the iteration, the share of similarities that is kept, and the objective."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """Both languages in one space, unit length; ``learnt`` where there was self-learning."""

    source: WordVectors
    target: WordVectors
    learnt: Learnt | None = None

    def save(self, folder: str | Path, force: bool = False) -> None:
        """Write ``folder/source`` and ``folder/target``; raises InputError if it is there, unless ``force``."""
        folder = Path(folder)
        check_free(folder, force)
        made = begun(folder)
        self.source.save(made / "source")
        self.target.save(made / "target")
        put(made, folder)


def map_supervised(source: WordVectors, target: WordVectors, lexicon: Lexicon, method: str = "procrustes") -> Mapped:
    """Map by a lexicon.

    ``procrustes``: the source is rotated onto the target, which only is prepared (Smith et al. 2017, on vectors that
    are centred too); ``symmetric``: both are mapped, with re-weighting (Artetxe et al. 2018, section 3.4).
    Raises InputError for another method, vectors of different length, a lexicon without a usable pair, or for
    ``symmetric`` where all paired vectors of a side are zeros, as they are of a single word once they are centred.
    """
    if method not in METHODS:
        raise InputError(f"method {method!r}; expected {' or '.join(METHODS)}")
    source, target = _prepared(source, target)
    rows = pair_rows(source, target, lexicon)
    return _mapped(source, target, rows, method, None, {"mapping": method, "pairs": len(rows[0])})


def map_unsupervised(
    source: WordVectors,
    target: WordVectors,
    settings: SelfLearning | None = None,
    lexicon: Lexicon | None = None,
    method: str = "symmetric",
    progress: Progress = lambda *_: None,
) -> Mapped:
    """Map without a lexicon (Artetxe et al. 2018), or from a small ``lexicon`` on, by self-learning.

    Both spaces need to be alike, as those of comparable texts are; otherwise the result is at random: look at the
    objective. Raises InputError as `map_supervised` does.
    """
    if method not in METHODS:
        raise InputError(f"method {method!r}; expected {' or '.join(METHODS)}")
    settings = settings or SelfLearning()
    source, target = _prepared(source, target)
    x, z = (side.matrix for side in (source, target))
    pairs = initial_pairs(x, z, settings) if lexicon is None else _known(source, target, lexicon, settings)
    learnt = self_learn(x, z, pairs, settings, progress)
    facts = {"mapping": f"self-learning, {method}", "settings": asdict(settings), "lexicon": lexicon is not None}
    facts |= {"objective": learnt.objective, "iterations": learnt.iterations}
    return _mapped(source, target, (learnt.source, learnt.target), method, learnt, facts)


def _prepared(source: WordVectors, target: WordVectors) -> tuple[WordVectors, WordVectors]:
    if source.dim != target.dim:
        raise InputError(f"vectors of {source.dim} and of {target.dim} dimensions; expected as many on both sides")
    return source.prepared(), target.prepared()


def _known(source: WordVectors, target: WordVectors, lexicon: Lexicon, settings: SelfLearning) -> tuple[Rows, Rows]:
    """The pairs of a lexicon among the words that are learnt from."""
    return pair_rows(source.first(settings.vocabulary), target.first(settings.vocabulary), lexicon)


def _mapped(
    source: WordVectors,
    target: WordVectors,
    rows: tuple[Rows, Rows],
    method: str,
    learnt: Learnt | None,
    facts: dict[str, object],
) -> Mapped:
    x, z = source.matrix, target.matrix
    if method == "procrustes":
        return Mapped(source.using(unit(x @ procrustes(x, z, *rows)), **facts), target.using(z, **facts), learnt)
    left, right = symmetric_maps(x[rows[0]], z[rows[1]])
    return Mapped(source.using(unit(x @ left), **facts), target.using(unit(z @ right), **facts), learnt)

"""Learn word vectors from monolingual text, by positive pointwise mutual information (PPMI) and a truncated SVD.

The method is that of Levy, Goldberg and Dagan 2015, "Improving distributional similarity with lessons learned from word
embeddings"; section numbers refer to this paper. No model is needed. Vectors of two languages have different spaces
until they are mapped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.types import Progress, check_fields, check_progress, to_settings
from phrasemate.utils import import_extra
from phrasemate.vectors.vocabulary import EVERY, count_words, tokens
from phrasemate.vectors.word_vectors import WordVectors

CHUNK = 1_000_000  # tokens of text whose co-occurrences are counted at once


@dataclass(frozen=True, slots=True)
class PPMISettings:
    """Settings of PPMI vectors, with the sections of Levy et al. 2015.

    Args:
        words: Maximum number of words.
        dim: Dimension of the vectors.
        window: Number of neighbours on each side. Nearer ones have a greater weight (3.1, dynamic windows).
        least: Minimum number of occurrences of a word.
        smoothing: Exponent of the neighbours' counts (3.2, context distribution smoothing).
        shift: Number with the logarithm that is subtracted from PMI (3.2, shifted PMI); 1 subtracts nothing.
        power: Exponent of the singular values (3.3, eigenvalue weighting).
        seed: Seed of the start vector of the SVD.
    """

    words: int = 50_000
    dim: int = 300
    window: int = 5
    least: int = 5
    smoothing: float = 0.75
    shift: float = 1.0
    power: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        if min(self.words, self.dim, self.window, self.least) < 1 or self.shift <= 0 or self.seed < 0:
            raise InputError(f"{self}: expected numbers of 1 or more, a seed from 0 and a shift above 0")


def train_ppmi(
    texts: Iterable[str], settings: PPMISettings | None = None, language: str = "", progress: Progress = lambda *_: None
) -> WordVectors:
    """Learn a unit vector for each of the most frequent words of a text, which is read twice.

    Memory: 12 bytes for each pair of words that occur together, which is about 2 GB for 50,000 words and a text of a
    billion words.

    Args:
        texts: Sentences, as an iterable that can be read several times, such as a list or `Sentences`.
        settings: Settings of the method; None for the defaults.
        language: Language of the texts.
        progress: Called with the name of the stage, the amount that is done, and the total (0 if unknown).

    Raises MissingExtra without SciPy, and InputError for texts that are too small for ``dim`` or can be read only once.
    """
    settings = to_settings(settings, PPMISettings)
    check_progress(progress)
    _scipy()
    vocabulary = count_words(texts, settings.words, settings.least, progress)
    if len(vocabulary.words) <= settings.dim:
        raise InputError(
            f"{len(vocabulary.words):,} words occur {settings.least} times or more; expected more than dim "
            f"{settings.dim}; give more text or a smaller dim"
        )
    index = {word: row for row, word in enumerate(vocabulary.words)}
    counts = _cooccurrences(texts, index, settings.window, vocabulary.sentences, progress)
    if not counts.nnz:
        raise InputError("no two words occur together in any sentence; give whole sentences")
    progress("reducing", 0, 0)
    matrix = _reduced(_positive_information(counts, settings), settings)
    facts = {**asdict(settings), "method": "PPMI and SVD", "sentences": vocabulary.sentences, "text": vocabulary.digest}
    facts |= {"words": len(index), "pairs": int(counts.nnz)}
    vectors = WordVectors(vocabulary.words, matrix, language, np.array(vocabulary.counts, np.int64), facts)
    return vectors.normalised()


def _cooccurrences(texts: Iterable[str], index: dict[str, int], window: int, total: int, progress: Progress) -> Any:
    """Count co-occurrences within a window: symmetric, sparse (words, words).

    A neighbour at distance d has the weight (window + 1 - d) / window.
    """
    sparse = _scipy()
    counts = sparse.csr_array((len(index), len(index)), dtype=np.float32)
    for rows in _rows(texts, index, window, total, progress):
        for distance in range(1, window + 1):
            left, right = rows[:-distance], rows[distance:]
            has_both = (left >= 0) & (right >= 0)
            weights = np.full(int(has_both.sum()), (window + 1 - distance) / window, np.float32)
            counts = counts + sparse.csr_array((weights, (left[has_both], right[has_both])), shape=counts.shape)
    return counts + counts.T


def _rows(
    texts: Iterable[str], index: dict[str, int], window: int, total: int, progress: Progress
) -> Iterator[NDArray[np.int32]]:
    """Yield the words of many sentences at once, as rows of ``index``; -1 for a word that is not in it.

    After each sentence come ``window`` entries of -1, so that words of different sentences are never neighbours.
    """
    gap = [-1] * window
    rows: list[int] = []
    for number, text in enumerate(texts, 1):
        rows += [index.get(word, -1) for word, _, _ in tokens(text)]
        rows += gap
        if len(rows) > CHUNK:
            yield np.array(rows, np.int32)
            rows = []
        if number % EVERY == 0:
            progress("counting neighbours", number, total)
    yield np.array(rows, np.int32)


def _positive_information(counts: Any, settings: PPMISettings) -> Any:
    """Return the shifted PPMI of co-occurrence counts, sparse (words, words).

    It is max(0, log(P(word, neighbour) / (P(word) P(neighbour))) - log shift). P(neighbour) is smoothed: it is
    proportional to the count to the power of ``smoothing``.
    """
    words = counts.sum(axis=1)  # (words,)
    neighbours = words**settings.smoothing
    neighbours /= max(neighbours.sum(), 1e-12)
    cells = counts.tocoo()
    row, column = cells.coords
    cells.data = np.log(cells.data / (words[row] * neighbours[column] * settings.shift))
    cells.data = np.maximum(cells.data, 0).astype(np.float32)
    cells = cells.tocsr()
    cells.eliminate_zeros()
    return cells


def _reduced(matrix: Any, settings: PPMISettings) -> NDArray[np.float32]:
    """Return the left singular vectors times the singular values to the ``power``, (words, dim), greatest first."""
    from scipy.sparse.linalg import ArpackError, svds

    start = np.random.default_rng(settings.seed).standard_normal(matrix.shape[0])
    try:
        u, values, _ = svds(matrix.astype(np.float64), k=settings.dim, v0=start)
    except ArpackError as error:
        raise InputError(
            f"the words have too few neighbours in common for {settings.dim} dimensions; give a smaller dim"
        ) from error
    return np.ascontiguousarray((u * values**settings.power)[:, ::-1], np.float32)


def _scipy() -> Any:
    """Import scipy.sparse. Raises MissingExtra without SciPy."""
    return import_extra("scipy.sparse", "scipy", "vectors")

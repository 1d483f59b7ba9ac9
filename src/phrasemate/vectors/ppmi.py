"""Word vectors of one language from nothing but its text: positive pointwise mutual information and a truncated SVD.

After Levy, Goldberg and Dagan 2015, "Improving distributional similarity with lessons learned from word embeddings";
sections are theirs. Two languages' vectors of this kind share nothing before a mapping.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.types import Progress
from phrasemate.utils import import_extra
from phrasemate.vectors.vocabulary import EVERY, count_words, tokens
from phrasemate.vectors.word_vectors import WordVectors

CHUNK = 1_000_000  # words whose neighbours are counted at once


@dataclass(frozen=True, slots=True)
class PPMISettings:
    """Settings of the vectors."""

    words: int = 50_000
    dim: int = 300
    window: int = 5  # neighbours on each side; a nearer one counts more, as in word2vec (3.1, dynamic windows)
    least: int = 5  # occurrences of a word
    smoothing: float = 0.75  # exponent of the neighbours' counts (3.2, context distribution smoothing)
    shift: float = 1.0  # log of it is taken off (3.2, shifted PMI); 1 takes off nothing
    power: float = 0.5  # of the singular values (3.3, eigenvalue weighting)
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.words, self.dim, self.window, self.least) < 1 or self.shift <= 0 or self.seed < 0:
            raise InputError(f"{self}: expected numbers from 1, a seed from 0 and a shift above 0")


def train_ppmi(
    texts: Iterable[str], settings: PPMISettings | None = None, language: str = "", progress: Progress = lambda *_: None
) -> WordVectors:
    """A vector of unit length for each of the most frequent words of some texts, which are read twice.

    Memory holds the pairs of words that occur together: 12 bytes each, so some 2 GB for 50,000 words of a billion-word
    text.

    Args:
        texts: Sentences, that can be read several times.
        settings: How many words, and the numbers of the method.
        language: Language of the texts.
        progress: Called with what is being done, how much of it is done, and of how much.

    Raises MissingExtra without scipy, InputError for texts too small for ``dim`` or that can be read only once.
    """
    settings = settings or PPMISettings()
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
        raise InputError("no two words stand together in any sentence; give whole sentences")
    progress("reducing", 0, 0)
    matrix = _reduced(_positive_information(counts, settings), settings)
    facts = {**asdict(settings), "method": "PPMI and SVD", "sentences": vocabulary.sentences, "text": vocabulary.digest}
    facts |= {"words": len(index), "pairs": int(counts.nnz)}
    vectors = WordVectors(vocabulary.words, matrix, language, np.array(vocabulary.counts, np.int64), facts)
    return vectors.normalised()


def _cooccurrences(texts: Iterable[str], index: dict[str, int], window: int, total: int, progress: Progress) -> Any:
    """(words, words) symmetric counts, sparse; a neighbour at distance d counts (window + 1 - d) / window."""
    sparse = _scipy()
    counts = sparse.csr_array((len(index), len(index)), dtype=np.float32)
    for rows in _rows(texts, index, window, total, progress):
        for distance in range(1, window + 1):
            before, right = rows[:-distance], rows[distance:]
            has_both = (before >= 0) & (right >= 0)
            weights = np.full(int(has_both.sum()), (window + 1 - distance) / window, np.float32)
            counts = counts + sparse.csr_array((weights, (before[has_both], right[has_both])), shape=counts.shape)
    return counts + counts.T


def _rows(
    texts: Iterable[str], index: dict[str, int], window: int, total: int, progress: Progress
) -> Iterator[NDArray[np.int32]]:
    """The words of many sentences as rows, -1 for others, and enough -1 between sentences to keep them apart."""
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
    """max(0, log(P(word, neighbour) / P(word) P(neighbour)^smoothing) - log shift), sparse."""
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
    """(words, dim) left singular vectors times the singular values to the ``power``, greatest first."""
    from scipy.sparse.linalg import ArpackError, svds

    start = np.random.default_rng(settings.seed).standard_normal(matrix.shape[0])
    try:
        u, values, _ = svds(matrix.astype(np.float64), k=settings.dim, v0=start)
    except ArpackError as error:
        raise InputError(
            f"the words have too few neighbours in common for {settings.dim} dimensions; lower it"
        ) from error
    return np.ascontiguousarray((u * values**settings.power)[:, ::-1], np.float32)


def _scipy() -> Any:
    return import_extra("scipy.sparse", "scipy", "vectors")

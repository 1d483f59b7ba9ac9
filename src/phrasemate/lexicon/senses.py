"""Bundled files that tell the senses of a phrase apart by its sentence: collocates and sense vectors.

**Collocates** are English words that occur in the same sentences more often than by chance. *Bank* is a bench in a
sentence with *sitzen*, because "bench" and "sit" are collocates. The file has the arrays::

    text      (bytes,) uint8      stems, sorted by their bytes, concatenated
    lengths   (stems,) uint8      bytes of each stem
    degrees   (stems,) uint16     number of its collocates that come later in the list
    gaps      (2, pairs) uint8    low and high bytes of the difference of each such row from the one before
    weights   (pairs,) uint8      association of each pair, in steps of 1 / `STEPS`

The association is the pointwise mutual information of two stems in a sentence. Context counts are smoothed by the power
3/4 (Levy, Goldberg & Dagan 2015, "Improving distributional similarity with lessons learned"). ``bench/collocates.py``
computes the file.

**Sense vectors** represent a phrase by the sentences in which it is translated in a certain way. *Bank* has one vector
for sentences in which it is "bench", and one for those in which it is "bank". A vector is the mean of the phrase's
vectors in these sentences, which come from parallel text. A phrase in a new sentence has the sense whose vector is
nearest. One file has phrases of all languages and their English translations, another English phrases and their
translations into each language. The arrays::

    counts     (65536,) uint8                          number of keys with each upper half
    keys       (senses,) uint16                        lower halves of the keys (`sense_key`), which are ascending
    codes      (senses, pieces) uint8                  the row of each piece of a vector in its codebook
    codebooks  (pieces, 256, dim / pieces) float16

A sense is stored as the difference of its vector from the mean over all senses of the phrase. The differences are
compressed by product quantization (Jégou, Douze and Schmid 2011). ``bench/senses.py`` computes the files.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import blake2b
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from phrasemate.errors import ModelDamaged
from phrasemate.lexicon.induced import InducedLexicon, bundled_lexicon
from phrasemate.lexicon.inflection import stemmed
from phrasemate.lexicon.wordings import damage_error, encoded, open_bundled
from phrasemate.utils.arrays import Floats, Rows
from phrasemate.utils.storage import save_arrays

COLLOCATES, SENSES = "phrasemate collocates 2", "phrasemate senses 2"  # formats
STEPS = 25  # an association of 1, as stored
MOST_STEMS = 1 << 16
ROWS = 256  # of a codebook
_COLLOCATES = ("text", "lengths", "degrees", "gaps", "weights")
_SENSES = ("counts", "keys", "codes", "codebooks")
HALF = 16  # bits of the half of a key


class Collocates:
    """Associations of pairs of English stems, from a file that `write_collocates` wrote.

    Raises ModelDamaged for a file that is missing or damaged, ModelUnsupported for one of another format. Example::

        bundled_collocates().associations([["bench"], ["bank"]], {"sit": 1.0})  # that of "bench" is higher
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        _, (text, lengths, degrees, gaps, weights) = _read(Path(path), COLLOCATES, _COLLOCATES)
        ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        shapes_fit = gaps.shape == (2, degrees.sum()) and weights.shape == gaps.shape[1:]
        if ends[-1] != len(text) or len(degrees) != len(lengths) or not shapes_fit:
            raise ModelDamaged(f"{path}: its parts do not fit together; install phrasemate again")
        blob = text.tobytes()
        spans = enumerate(pairwise(ends.tolist()))
        self._rows = {blob[start:end].decode(): row for row, (start, end) in spans}
        rows = np.repeat(np.arange(len(degrees)), degrees)
        sums = np.concatenate([[0], np.cumsum(gaps[0] + 256 * gaps[1].astype(np.int64))])
        firsts = np.cumsum(degrees, dtype=np.int64) - degrees
        self._pairs = _pair(rows, rows + sums[1:] - sums[firsts][rows])
        self._weights = weights.astype(np.float32) / STEPS

    def associations(self, wordings: Sequence[Sequence[str]], context: Mapping[str, float]) -> Floats:
        """Score how strongly each wording is associated with the words of a context.

        ``wordings``: the stems of each. ``context``: stem -> weight, for words in the same sentence. A wording's score
        is a sum over the context of weight times association (the mean over the wording's stems), divided by the square
        root of the sum of the weights. Returns (wordings,); 0 for wordings without collocates.
        """
        row_of = self._rows
        around = sorted([(row_of[stem], weight) for stem, weight in context.items() if stem in row_of])
        rows_of = [[row_of[stem] for stem in stems if stem in row_of] for stems in wordings]
        rows = sorted(set(chain.from_iterable(rows_of)))
        if not around or not rows:
            return np.zeros(len(wordings), np.float32)
        column, rows_around = np.array(rows)[:, None], np.array([row for row, _ in around])
        shares = np.array([weight for _, weight in around], np.float32)
        # all are in ascending order, so that searchsorted takes half the time
        pairs = _pair(np.minimum(column, rows_around), np.maximum(column, rows_around))
        places = np.minimum(self._pairs.searchsorted(pairs.ravel()), len(self._pairs) - 1).reshape(pairs.shape)
        weights = np.where(self._pairs[places] == pairs, self._weights[places], np.float32(0))
        scores = (weights * shares).sum(axis=1) / np.sqrt(shares.sum())
        score_of = dict(zip(rows, scores.tolist(), strict=True))
        means = [sum([score_of[row] for row in stem_rows]) / max(len(stem_rows), 1) for stem_rows in rows_of]
        return np.array(means, np.float32)


def _pair(first: Rows, second: Rows) -> NDArray[np.uint32]:
    """Combine two numbers below 65,536 into one, which sorts by the first, then by the second."""
    return first.astype(np.uint32) << np.uint32(HALF) | second.astype(np.uint32)


def write_collocates(
    path: str | os.PathLike[str], stems: Sequence[str], pairs: Mapping[tuple[int, int], float], facts: Mapping[str, str]
) -> None:
    """Write associations of pairs of stems to one file.

    ``stems``: at most `MOST_STEMS`, sorted by their bytes. ``pairs``: (lower row, higher row) -> association; values
    below half a step are omitted, values above 255 steps clipped. ``facts`` (sources, licence, ...) go into the
    metadata.
    """
    assert len(stems) <= MOST_STEMS
    rows = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    steps = np.rint(np.array([pairs[low, high] for low, high in rows.tolist()]) * STEPS).clip(0, 255).astype(np.uint8)
    rows, steps = rows[steps > 0], steps[steps > 0]
    parts = [encoded(stem) for stem in stems]
    is_first = np.diff(rows[:, 0], prepend=-1) > 0
    gaps = rows[:, 1] - np.where(is_first, rows[:, 0], np.roll(rows[:, 1], 1))
    tensors: dict[str, NDArray[Any]] = {
        "text": np.frombuffer(b"".join(parts), np.uint8),
        "lengths": np.array([len(part) for part in parts], np.uint8),
        "degrees": np.bincount(rows[:, 0], minlength=len(stems)).astype(np.uint16),
        "gaps": np.stack([gaps & 255, gaps >> 8]).astype(np.uint8),
        "weights": steps,
    }
    save_arrays(Path(path), tensors, {**facts, "format": COLLOCATES})


class SenseVectors:
    """Mean vectors of ambiguous phrases for each of their translations, from a file that `write_senses` wrote.

    ``model``: hash of the model that computed them; vectors of other models cannot be compared with them.
    ``codebooks``: vectors of the compression (product quantization), (pieces, 256, dim / pieces) float32. Raises
    ModelDamaged for a file that is missing or damaged, ModelUnsupported for one of another format. Example::

        query = model.encode([Phrase("Er sitzt auf der Bank.", 17, 21)])[0]
        bundled_senses("de").nearness("Bank", "de", ["bench", "bank"], query)  # that of "bench" is higher
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        facts, tensors = _read(Path(path), SENSES, _SENSES)
        counts, keys, self._codes, codebooks = tensors
        shape, self.model = (counts.sum(), len(codebooks)), facts.get("model", "")
        shapes_fit = len(counts) == 1 << HALF and keys.shape == shape[:1] and codebooks.shape[1:2] == (ROWS,)
        if not shapes_fit or self._codes.shape != shape or not self.model:
            raise ModelDamaged(f"{path}: its parts do not fit together; install phrasemate again")
        self._keys = _pair(np.repeat(np.arange(len(counts)), counts), keys)
        self.codebooks = codebooks.astype(np.float32)

    def nearness(
        self, phrase: str, language: str, translations: Sequence[str], vector: Floats, target: str = "en"
    ) -> Floats:
        """Compare a phrase in its sentence with its senses.

        Args:
            phrase: Phrase of the query.
            language: Language of the phrase.
            translations: Translations, folded.
            vector: Vector of the phrase in its sentence, (dim,) of unit length.
            target: Language of the translations.

        Returns (translations,) the cosine with the vector of each sense, less that with the mean of all senses of the
        phrase; NaN for a translation without a vector.
        """
        stems = stemmed(phrase, language)
        senses = [stemmed(translation, target, is_folded=True) for translation in translations]
        keys = np.array([sense_key(stems, language, sense, target) for sense in senses], np.uint32)
        rows = np.minimum(self._keys.searchsorted(keys), len(self._keys) - 1)
        values = np.full(len(keys), np.nan, np.float32)
        is_known = self._keys[rows] == keys
        pieces = np.arange(len(self.codebooks))
        vectors = self.codebooks[pieces, self._codes[rows[is_known]]]  # (translations with a vector, pieces, width)
        values[is_known] = vectors.reshape(-1, len(vector)) @ vector
        return values


class SensesThroughEnglish:
    """Sense vectors of phrases for translations into a third language, from those for their English equivalents.

    ``senses``: vectors for translations into English. ``lexicon``: gives the English equivalents of a translation.
    Example::

        senses = SensesThroughEnglish(bundled_senses("de"), bundled_lexicon())
        senses.nearness("Bank", "de", ["banc", "banque"], query, "fr")  # of "bench" and of "bank"
    """

    def __init__(self, senses: SenseVectors, lexicon: InducedLexicon) -> None:
        self._senses, self._lexicon, self.model = senses, lexicon, senses.model

    def nearness(self, phrase: str, language: str, translations: Sequence[str], vector: Floats, target: str) -> Floats:
        """Compare a phrase in its sentence with its senses, as `SenseVectors.nearness` does.

        Returns (translations,) the mean over the English equivalents of a translation that have a vector, weighted by
        their probabilities; NaN if none has.
        """
        equivalents = [self._lexicon.into_english(translation, target) for translation in translations]
        english = list(dict.fromkeys(text for row in equivalents for text, _ in row))
        values = self._senses.nearness(phrase, language, english, vector)
        value_of = {text: value for text, value in zip(english, values.tolist(), strict=True) if not math.isnan(value)}
        means = np.full(len(translations), np.nan, np.float32)
        for number, row in enumerate(equivalents):
            weights = {text: probability for text, probability in row if text in value_of}
            if weights:
                means[number] = sum(value_of[text] * weight for text, weight in weights.items()) / sum(weights.values())
        return means


def sense_key(phrase: str, language: str, translation: str, target: str) -> int:
    """Return the 32-bit hash of a sense: the stems of a phrase and of its translation, each with their language."""
    text = f"{language}\t{phrase}\t{translation}\t{target}"
    return int.from_bytes(blake2b(encoded(text), digest_size=4).digest(), "big")


def write_senses(
    path: str | os.PathLike[str],
    senses: Sequence[tuple[str, str, str, str]],
    differences: Floats,
    pieces: int,
    facts: Mapping[str, str],
    codebooks: Floats | None = None,
) -> None:
    """Compress sense vectors and write them to one file.

    Args:
        path: File to write.
        senses: Arguments of `sense_key` for each sense. Of those with equal keys, the first is written.
        differences: Vector of each sense less the mean over the senses of its phrase in the same language, (senses,
            dim); at least `ROWS`.
        pieces: Bytes of a compressed vector; a divisor of dim.
        facts: Metadata: ``model``, the hash of the model, and others.
        codebooks: `SenseVectors.codebooks` of another file to use; None to train new ones.
    """
    import faiss

    quantizer = faiss.ProductQuantizer(differences.shape[1], pieces, 8)
    if codebooks is None:
        quantizer.train(differences)
    else:
        faiss.copy_array_to_vector(codebooks.ravel(), quantizer.centroids)
    keys, rows = np.unique(np.array([sense_key(*sense) for sense in senses], np.uint32), return_index=True)
    counts = np.bincount(keys >> np.uint32(HALF), minlength=1 << HALF)
    assert counts.max() <= 255
    tensors: dict[str, NDArray[Any]] = {
        "counts": counts.astype(np.uint8),
        "keys": keys.astype(np.uint16),
        "codes": quantizer.compute_codes(differences[rows]),
        "codebooks": faiss.vector_to_array(quantizer.centroids).reshape(pieces, ROWS, -1).astype(np.float16),
    }
    save_arrays(Path(path), tensors, {**facts, "format": SENSES})


def _read(path: Path, expected: str, names: Sequence[str]) -> tuple[dict[str, str], list[NDArray[Any]]]:
    """Read the metadata and some arrays of a file in the ``expected`` format."""
    file, facts = open_bundled(path, expected)
    try:
        return facts, [file.get_tensor(name) for name in names]
    except SafetensorError as error:
        raise damage_error(path, expected, error) from None


FOLDER = Path(__file__).parent.parent / "models" / "lexicon"


@cache
def bundled_collocates() -> Collocates | None:
    """Return the collocates of the package, read once; None if they are not installed."""
    path = FOLDER / "collocates.safetensors"
    return Collocates(path) if path.exists() else None


def bundled_senses(source: str, target: str = "en") -> SenseVectors | SensesThroughEnglish | None:
    """Return the sense vectors for phrases of a language and their translations into another one.

    They are read once; None within one language, or if they are not installed.
    """
    if source == target:
        return None
    if "en" in (source, target):
        return _senses_of("senses-into-english" if target == "en" else "senses-from-english")
    return _senses_through_english()


@cache
def _senses_through_english() -> SensesThroughEnglish | None:
    senses, lexicon = _senses_of("senses-into-english"), bundled_lexicon()
    return SensesThroughEnglish(senses, lexicon) if senses is not None and lexicon is not None else None


@cache
def _senses_of(name: str) -> SenseVectors | None:
    path = FOLDER / f"{name}.safetensors"
    return SenseVectors(path) if path.exists() else None

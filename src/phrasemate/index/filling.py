"""A FAISS index in the making: trained, filled, packed.

Its inverted lists are learned so that they come out about equally long, for a query reads whole lists: the centre of a
long one is made shorter, so that vectors between two centres go to the other. Of many centres, only those are compared
with a vector whose own codes promise most; FAISS has that as a flat index that refines another.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from phrasemate.index import rows
from phrasemate.index.approximate import Layout, inverted
from phrasemate.index.coding import SAMPLE, WORDS, Coder, packed, rotation_of
from phrasemate.index.engine import Floats, Ids, Int8s

MANY = 256  # centres from which on their codes are looked at first
PER_LIST = 256  # vectors to learn a list from; with 128 a fifteenth more is read at the same recall, with 512 as much
_FILLING, _ASKING = 8.0, 3.0  # centres that are compared for each that is wanted
_ROUNDS = (4, 4, 4, 4, 4, 4, 1, 1, 1, 1)  # of k-means, each on every fourth vector or on all
_EVENNESS = 0.05  # of a centre's length, for each factor of e in the length of its list; .02 and .1 do as well
_QUICK = (1, 2, 4, 8)  # numbers in a part that FAISS is quick with: it takes 3 twice as long as 4
_TURNED = 1 << 18  # vectors whose principal components the rotation has
_AT_ONCE = 1 << 14  # vectors held as float32


class Filling:
    """Vectors go in, in the order of their rows; out comes a FAISS index, which needs nothing of this package."""

    def __init__(self, coder: Coder, held: Any) -> None:
        """``held``: an IndexIVFPQ, or an IndexPQFastScan where there are no lists; it knows the coder's words."""
        import faiss

        self._coder, self._held = coder, held
        self._source: Any = None
        self._workers = int(faiss.omp_get_max_threads())
        self._finder = faiss.downcast_index(held.quantizer) if isinstance(held, faiss.IndexIVF) else None

    @classmethod
    def train(cls, layout: Layout, sample: Int8s, coder: Coder | None = None) -> Self:
        """For vectors like the (n, dim) of the sample; ``coder``: fitted to them before, of as many parts."""
        coder = coder or fitting(sample, layout.parts)
        if not layout.lists:
            return cls(coder, _codes_only(coder))
        coarse = _for_centres(sample, coder) if layout.lists >= MANY else coder
        centres = _centres(sample, layout.lists, coarse)
        return cls(coder, _with_lists(_finder(centres, coarse), coder))

    @classmethod
    def of(cls, index: Any) -> Self:
        """To go on with what `finished` gave."""
        import faiss

        turned: Any = faiss.downcast_VectorTransform(index.chain.at(0))
        dim, lists = index.d, inverted(index)
        full: Any = faiss.downcast_index(index.index) if lists is None else lists
        coder = Coder(faiss.vector_to_array(turned.A).reshape(dim, dim).copy(), _words(full))
        if lists is None:
            made = cls(coder, full)
            made._source = index  # what is added to is a part of it
            return made
        finder: Any = faiss.downcast_index(lists.quantizer)
        many = isinstance(finder, faiss.IndexRefine)
        coarse = Coder(coder.rotation, _words(faiss.downcast_index(finder.base_index))) if many else coder
        held = _with_lists(_finder(finder.reconstruct_n(0, lists.nlist), coarse), coder)
        lists.orig_invlists = held.invlists
        lists.reconstruct_orig_invlists()
        lists.orig_invlists = None
        held.ntotal = lists.ntotal
        return cls(coder, held)

    def add(self, vectors: Floats) -> None:
        """(n, dim) unit vectors."""
        rotated = self._coder.rotate(vectors)
        codes = self._coder.encode(rotated, self._workers)
        if self._finder is None:
            self._held.add(self._coder.decode(codes))
            return
        lists = self._finder.search(rotated, 1)[1]  # (n, 1)
        size = self._held.coarse_code_size()
        numbers = lists.astype("<i8").view(np.uint8)[:, :size]  # as FAISS writes them before a code
        self._held.add_sa_codes(np.ascontiguousarray(np.concatenate([numbers, packed(codes)], axis=1)))

    def finished(self) -> Any:
        """The FAISS index; there is nothing more to be added then."""
        import faiss

        if self._finder is None:
            held = self._held
        else:
            if isinstance(self._finder, faiss.IndexRefine):
                self._finder.k_factor = _ASKING
            held = faiss.IndexIVFPQFastScan(self._held)  # laid out for reading 32 codes at once
            self._held.reset()
        dim = held.d
        turned: Any = faiss.LinearTransform(dim, dim, False)
        faiss.copy_array_to_vector(self._coder.rotation.ravel(), turned.A)
        turned.is_trained = turned.is_orthonormal = True
        made: Any = faiss.IndexPreTransform(turned, held)
        made.referenced_objects = [turned, held, self]  # FAISS does not keep what it points to
        return made


def fitting(sample: Int8s, parts: int, rotation: Floats | None = None) -> Coder:
    """A coder for vectors like the (n, dim) of the sample; ``rotation`` as `Coder.train` has it."""
    sample = rows.spread(sample, _TURNED)
    if rotation is None:
        pieces = (rows.dequantise(sample[at : at + _AT_ONCE]) for at in range(0, len(sample), _AT_ONCE))
        products = sum((piece.T @ piece for piece in pieces), np.zeros((sample.shape[1], sample.shape[1])))
        rotation = rotation_of(products, parts)
    return Coder.train(rows.dequantise(rows.spread(sample, SAMPLE)), parts, rotation)


def _for_centres(sample: Int8s, coder: Coder) -> Coder:
    """A coder of the same rotation for the centres of lists: another one where FAISS is slow with the coder's parts."""
    dim = len(coder.rotation)
    if dim // coder.parts in _QUICK or dim % 4:
        return coder
    return fitting(sample, dim // 4, coder.rotation)


def _with_lists(finder: Any, coder: Coder) -> Any:
    """Inverted lists whose codes are kept one after the other, so that there can be more of them."""
    import faiss

    made: Any = faiss.IndexIVFPQ(finder, finder.d, finder.ntotal, coder.parts, 4, faiss.METRIC_INNER_PRODUCT)
    made.by_residual = False
    return _knowing(made, coder)


def _centres(sample: Int8s, count: int, coder: Coder) -> Floats:
    """(count, dim) rotated centres of lists by k-means on the sphere; the shorter, the more vectors lie around them."""
    draw = np.random.default_rng(0)

    def rotated(part: Int8s) -> Floats:
        return coder.rotate(rows.dequantise(part))

    centres = rotated(sample[draw.choice(len(sample), count, len(sample) < count)])
    lengths = np.ones(count, np.float32)
    for stride in _ROUNDS:
        finder = _finder(centres * lengths[:, None], coder)
        sums, sizes = np.zeros_like(centres), np.zeros(count, np.int64)
        part = sample[::stride]
        usual = len(part) / count
        for start in range(0, len(part), _AT_ONCE):
            vectors = rotated(part[start : start + _AT_ONCE])
            lists = finder.search(vectors, 1)[1][:, 0]
            _added(sums, vectors, lists)
            sizes += np.bincount(lists, minlength=count)
        even = 1 - _EVENNESS * np.log((sizes + 0.02 * usual) / (1.02 * usual))
        lengths = np.asarray((lengths + even) / 2, np.float32)  # half of the way, or they swing
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        centres = np.where(norms > 0, sums / np.maximum(norms, 1e-12), centres)
        empty = np.flatnonzero(norms[:, 0] == 0)
        centres[empty] = rotated(sample[draw.integers(len(sample), size=len(empty))])
    return np.ascontiguousarray(centres * lengths[:, None])


def _added(sums: Floats, vectors: Floats, lists: Ids) -> None:
    """To each list's sum, the (n, dim) vectors that are in it."""
    order = np.argsort(lists, kind="stable")
    begins = np.flatnonzero(np.diff(lists[order], prepend=-1))
    sums[lists[order[begins]]] += np.add.reduceat(vectors[order], begins, axis=0)


def _finder(centres: Floats, coder: Coder) -> Any:
    """A FAISS index of (count, dim) rotated centres: of all for few, of those whose codes promise most for many."""
    import faiss

    count, dim = centres.shape
    centres = np.ascontiguousarray(centres)
    if count < MANY:
        every: Any = faiss.IndexFlatIP(dim)
        every.add(centres)
        return every
    coded = _codes_only(coder)
    coded.add(coder.decode(coder.encode(centres)))
    made: Any = faiss.IndexRefineFlat(coded, faiss.swig_ptr(centres))
    made.k_factor = _FILLING
    return made


def _codes_only(coder: Coder) -> Any:
    """A FAISS index of codes, to be filled with what the coder decodes."""
    import faiss

    made: Any = faiss.IndexPQFastScan(len(coder.rotation), coder.parts, 4, faiss.METRIC_INNER_PRODUCT)
    return _knowing(made, coder)


def _knowing(index: Any, coder: Coder) -> Any:
    """The FAISS index, with the coder's words."""
    import faiss

    faiss.copy_array_to_vector(coder.words.ravel(), index.pq.centroids)
    index.is_trained = True
    return index


def _words(index: Any) -> Floats:
    """The words that a FAISS index knows, (parts, 16, dim / parts)."""
    import faiss

    found: Floats = faiss.vector_to_array(index.pq.centroids).reshape(index.pq.M, WORDS, -1).copy()
    return found

"""FAISS file of an index: trained and filled from the store in bounded memory, with one swap at the end.

Inverted lists are learned so that they become about equally long, for a query reads whole lists. The centre of a
long list is made shorter, so that vectors between two centres go to the other. Of many centres, only those are compared
with a vector whose own codes promise most; FAISS has that as a flat index that refines another.

Codes of 4 bits a part that keep the order of high scores: what inverted lists hold of a vector.

A code is compared with queries by inner product, and only those queries matter that score high, which point nearly
where the vector does. So an error along the vector itself is weighted against the rest of it. This is the score-aware
loss of Guo et al., "Accelerating Large-Scale Inference with Anisotropic Vector Quantization" (2020), section 3. For a
unit vector x of d dimensions that is kept as x~, with the threshold T on the scores,

    |x - x~|^2 + (eta - 1) <x - x~, x>^2,    eta = (d - 1) T^2 / (1 - T^2)

Before, vectors are turned to their principal components, which are dealt out so that all parts hold the same product of
variances. This is the parametric solution of Ge et al., "Optimized Product Quantization" (2014), section 3.2. FAISS
keeps and compares the codes; it can read a file of them without this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import IndexDamaged, PhraseIndexError, first_line
from phrasemate.index import faiss_search, row_codec
from phrasemate.index.exact import Floats, Ids, Int8s, Runs, unpack
from phrasemate.index.faiss_search import Asking, Faiss, Layout, inverted
from phrasemate.index.manifest import VECTORS_JSON, Digest, VectorsManifest
from phrasemate.index.store import State, Store, VectorRow
from phrasemate.index.types import IndexSettings
from phrasemate.utils.machine import cores, load_faiss, trim_heap
from phrasemate.utils.storage import flush, install

Codes = NDArray[np.uint8]
SAMPLE = 20_000  # vectors that codewords are fitted to, at most ...
_LEAST_SAMPLE, _SAMPLE_SHARE = 5_000, 10  # ... and at least; between, one of so many: the loss is .6 % higher
WORDS = 16  # of a part: 4 bits
_THRESHOLD = 0.17  # T: eta is 5.7 for 192 dimensions; from 4 to 6 recall is the same, at 1 and 10 lower
_PASSES = 2  # over the parts of a code, each chosen with the others held; a third changes nothing
_FITTED_ROUNDS = 2  # of encoding a sample and fitting the codewords to it
_STEPS = 20  # of conjugate gradients
_CODED_AT_ONCE = 4_096  # vectors: with fewer, threads spend their time on waiting for each other
_NUMBERS = np.arange(WORDS, dtype=np.uint8)[:, None]


class Coder(NamedTuple):
    """``rotation`` (dim, dim): vectors @ rotation.T are coded; ``words`` (parts, 16, dim / parts): the codewords."""

    rotation: Floats
    words: Floats

    @classmethod
    def train(cls, vectors: Floats, parts: int, rotation: Floats | None = None) -> Self:
        """Train codes of ``parts`` parts for (n, dim) unit vectors; dim is a multiple of ``parts``.

        ``rotation``: one that is to be used, if there is any.
        """
        faiss = load_faiss()

        rotation = rotation_of(vectors.T @ vectors, parts) if rotation is None else rotation
        sample = np.ascontiguousarray(row_codec.spread(vectors, SAMPLE) @ rotation.T)
        plain: Any = faiss.ProductQuantizer(sample.shape[1], parts, 4)
        plain.cp.min_points_per_centroid = 1  # it warns otherwise
        plain.train(sample)
        words = faiss.vector_to_array(plain.centroids).reshape(parts, WORDS, -1).copy()
        coder = cls(rotation, words)
        for _ in range(_FITTED_ROUNDS):
            coder = cls(rotation, _fitted(sample, coder.encode(sample), coder.words))
        return coder

    @property
    def parts(self) -> int:
        return len(self.words)

    def rotate(self, vectors: Floats) -> Floats:
        """(n, dim) as they are coded."""
        return np.asarray(vectors @ self.rotation.T, np.float32)

    def encode(self, rotated: Floats, workers: int = 1) -> Codes:
        """(n, dim) rotated unit vectors -> (n, parts) numbers below 16."""
        pieces = [rotated[at : at + _CODED_AT_ONCE] for at in range(0, len(rotated), _CODED_AT_ONCE)]
        if workers > 1 and len(pieces) > 1:
            with ThreadPoolExecutor(workers) as pool:
                pieces_of_codes = list(pool.map(self._encoded, pieces))
        else:
            pieces_of_codes = [self._encoded(piece) for piece in pieces]
        return np.concatenate([np.zeros((0, self.parts), np.uint8), *pieces_of_codes])

    def _encoded(self, rotated: Floats) -> Codes:
        """The loss is lowered part by part; beginning with the nearest codewords, it ends below theirs."""
        weight = np.float32(eta(rotated.shape[1]) - 1)
        by_part = np.ascontiguousarray(rotated.T).reshape(self.parts, -1, len(rotated))
        sizes = np.square(self.words).sum(axis=2)[:, :, None]
        codes = np.empty((self.parts, len(rotated)), np.uint8)
        products = np.empty(codes.shape, np.float32)  # <word, x> of the word that each part has
        total = np.zeros(len(rotated), np.float32)  # <x, x~>
        inner = np.empty((WORDS, len(rotated)), np.float32)  # <word, x> of all words of a part: stays in the cache
        cost = np.empty_like(inner)
        places = np.arange(len(rotated))
        for number in range((1 + _PASSES) * self.parts):
            part = number % self.parts
            np.matmul(self.words[part], by_part[part], out=inner)
            if number < self.parts:  # |x - word|^2 less |x|^2
                np.multiply(inner, np.float32(-2), out=cost)
            else:  # + weight (r - inner)^2 less weight r^2, with r = 1 - <x, x~> of the other parts
                total -= products[part]
                np.multiply(inner, weight, out=cost)
                cost -= 2 + 2 * weight * (1 - total)
                cost *= inner
            cost += sizes[part]
            codes[part] = _least(cost)
            products[part] = inner.ravel().take(codes[part].astype(np.intp) * len(rotated) + places)
            total += products[part]
        return np.asarray(codes.T, np.uint8)

    def decode(self, codes: Codes) -> Floats:
        """(n, parts) -> (n, dim) rotated: x~, which FAISS encodes as these very codes."""
        return np.concatenate([words[codes[:, part]] for part, words in enumerate(self.words)], axis=1)


def _least(costs: Floats) -> Codes:
    """Argmin of (16, n) over the first axis -> (n,), the last of several equal, in a fraction of NumPy's time."""
    least: Codes = ((costs <= costs.min(axis=0)) * _NUMBERS).max(axis=0)
    return least


def eta(dim: int) -> float:
    """Weight of an error along the vector against one across it; never below 1."""
    return max(1.0, (dim - 1) * _THRESHOLD**2 / (1 - _THRESHOLD**2))


def packed(codes: Codes) -> Codes:
    """(n, parts) -> (n, ceil(parts / 2)), two parts a byte, the first one in its lower half: as FAISS has them."""
    even = np.pad(codes, ((0, 0), (0, codes.shape[1] % 2)))
    return np.asarray(even[:, ::2] | even[:, 1::2] << 4, np.uint8)


def rotation_of(products: NDArray[Any], parts: int) -> Floats:
    """(dim, dim) principal components in rows, those of a part side by side; ``products``: vectors.T @ vectors."""
    variances, components = np.linalg.eigh(np.asarray(products, np.float64))
    dim = len(variances)
    sizes = np.log(np.maximum(variances, variances[-1] * 1e-9))
    sizes -= sizes.min()
    dealt: list[list[int]] = [[] for _ in range(parts)]
    loads = np.zeros(parts)
    for component in range(dim - 1, -1, -1):  # eigh gives the smallest first
        part = int(loads.argmin())
        dealt[part].append(component)
        loads[part] = loads[part] + sizes[component] if len(dealt[part]) < dim // parts else np.inf
    return np.ascontiguousarray(components[:, [component for part in dealt for component in part]].T, np.float32)


def _fitted(sample: Floats, codes: Codes, words: Floats) -> Floats:
    """The codewords of least loss for (n, dim) rotated vectors with (n, parts) codes.

    Let y be a vector's numbers, each at the place of its part's codeword, and w the codewords there. The loss is the
    sum of |y - w|^2 + (eta - 1) (1 - <y, w>)^2: least squares in all codewords together, solved by conjugate gradients.
    """
    weight = eta(sample.shape[1]) - 1
    parts, _, width = words.shape
    first = (np.arange(parts) * WORDS + codes) * width  # (n, parts)
    places = (first[:, :, None] + np.arange(width)).reshape(len(sample), -1)  # (n, dim): where each number belongs

    def gathered(numbers: Any) -> Any:
        return np.bincount(places.ravel(), numbers.ravel(), words.size)

    counts = np.bincount(places.ravel(), minlength=words.size) + 1e-3  # codewords of nothing stay where they are

    def product(at: Any) -> Any:
        along = np.einsum("nd,nd->n", sample, at[places])
        return counts * at + weight * gathered(sample * along[:, None])

    target = (1 + weight) * gathered(sample) + 1e-3 * words.ravel()
    scale = counts + weight * gathered(np.square(sample))
    solution = words.ravel().astype(np.float64)
    rest = target - product(solution)
    step = rest / scale
    size = rest @ step
    for _ in range(_STEPS):
        if size <= 0:
            break
        through = product(step)
        length = size / (step @ through)
        solution += length * step
        rest -= length * through
        before, size = size, rest @ (rest / scale)
        step = rest / scale + size / before * step
    return np.asarray(solution.reshape(words.shape), np.float32)


MANY = 256  # centres from which on their codes are looked at first
PER_LIST = 256  # vectors to learn a list from; with 128 a fifteenth more is read at the same recall, with 512 as much
_FILLING, _ASKING = 8.0, 3.0  # centres that are compared for each that is wanted
_ROUNDS = (4, 4, 4, 4, 4, 4, 1, 1, 1, 1)  # of k-means, each on every fourth vector or on all
_EVENNESS = 0.05  # of a centre's length, for each factor of e in the length of its list; .02 and .1 do as well
_QUICK = (1, 2, 4, 8)  # numbers in a part that FAISS is quick with: it takes 3 twice as long as 4
_TURNED = 1 << 18  # vectors whose principal components the rotation has
_AT_ONCE = 1 << 14  # vectors held as float32


class Filling:
    """Builder of a FAISS index: train it, add vectors in the order of their rows, and take the finished index."""

    def __init__(self, coder: Coder, faiss_index: Any) -> None:
        """``faiss_index``: an IndexIVFPQ, or an IndexPQFastScan without lists; it knows the coder's words."""
        faiss = load_faiss()

        self._coder, self._held = coder, faiss_index
        self._source: Any = None
        self._workers = int(faiss.omp_get_max_threads())
        self._finder = faiss.downcast_index(faiss_index.quantizer) if isinstance(faiss_index, faiss.IndexIVF) else None

    @classmethod
    def train(cls, layout: Layout, sample: Int8s, coder: Coder | None = None) -> Self:
        """Train the index for vectors like the (n, dim) sample; ``coder``: one already fitted to them, of as many
        parts.
        """
        coder = coder or fitting(sample, layout.parts)
        if not layout.lists:
            return cls(coder, _codes_only(coder))
        coarse = _for_centres(sample, coder) if layout.lists >= MANY else coder
        centres = _centres(sample, layout.lists, coarse)
        return cls(coder, _with_lists(_finder(centres, coarse), coder))

    @classmethod
    def of(cls, index: Any) -> Self:
        """Reopen an index that `finished` returned, to add to it."""
        faiss = load_faiss()

        rotation: Any = faiss.downcast_VectorTransform(index.chain.at(0))
        dim, lists = index.d, inverted(index)
        full: Any = faiss.downcast_index(index.index) if lists is None else lists
        coder = Coder(faiss.vector_to_array(rotation.A).reshape(dim, dim).copy(), _words(full))
        if lists is None:
            filling = cls(coder, full)
            filling._source = index  # what is added to is a part of it
            return filling
        finder: Any = faiss.downcast_index(lists.quantizer)
        many = isinstance(finder, faiss.IndexRefine)
        coarse = Coder(coder.rotation, _words(faiss.downcast_index(finder.base_index))) if many else coder
        faiss_index = _with_lists(_finder(finder.reconstruct_n(0, lists.nlist), coarse), coder)
        lists.orig_invlists = faiss_index.invlists
        lists.reconstruct_orig_invlists()
        lists.orig_invlists = None
        faiss_index.ntotal = lists.ntotal
        return cls(coder, faiss_index)

    def add(self, vectors: Floats) -> None:
        """Add (n, dim) unit vectors."""
        rotations = self._coder.rotate(vectors)
        codes = self._coder.encode(rotations, self._workers)
        if self._finder is None:
            self._held.add(self._coder.decode(codes))
            return
        lists = self._finder.search(rotations, 1)[1]  # (n, 1)
        size = self._held.coarse_code_size()
        numbers = lists.astype("<i8").view(np.uint8)[:, :size]  # as FAISS writes them before a code
        self._held.add_sa_codes(np.ascontiguousarray(np.concatenate([numbers, packed(codes)], axis=1)))

    def finished(self) -> Any:
        """Return the finished FAISS index; nothing can be added after that."""
        faiss = load_faiss()

        if self._finder is None:
            inner = self._held
        else:
            if isinstance(self._finder, faiss.IndexRefine):
                self._finder.k_factor = _ASKING
            inner = faiss.IndexIVFPQFastScan(self._held)  # laid out for reading 32 codes at once
            self._held.reset()
        dim = inner.d
        rotation: Any = faiss.LinearTransform(dim, dim, False)
        faiss.copy_array_to_vector(self._coder.rotation.ravel(), rotation.A)
        rotation.is_trained = rotation.is_orthonormal = True
        index: Any = faiss.IndexPreTransform(rotation, inner)
        index.referenced_objects = [rotation, inner, self]  # FAISS does not keep what it points to
        return index


def fitting(sample: Int8s, parts: int, rotation: Floats | None = None) -> Coder:
    """A coder for vectors like the (n, dim) of the sample; ``rotation`` as `Coder.train` has it."""
    sample = row_codec.spread(sample, _TURNED)
    if rotation is None:
        pieces = (row_codec.dequantise(sample[at : at + _AT_ONCE]) for at in range(0, len(sample), _AT_ONCE))
        products = sum((piece.T @ piece for piece in pieces), np.zeros((sample.shape[1], sample.shape[1])))
        rotation = rotation_of(products, parts)
    count = max(_LEAST_SAMPLE, min(SAMPLE, len(sample) // _SAMPLE_SHARE))
    return Coder.train(row_codec.dequantise(row_codec.spread(sample, count)), parts, rotation)


def _for_centres(sample: Int8s, coder: Coder) -> Coder:
    """A coder of the same rotation for the centres of lists: another one where FAISS is slow with the coder's parts."""
    dim = len(coder.rotation)
    if dim // coder.parts in _QUICK or dim % 4:
        return coder
    return fitting(sample, dim // 4, coder.rotation)


def _with_lists(finder: Any, coder: Coder) -> Any:
    """Inverted lists whose codes are kept one after the other, so that there can be more of them."""
    faiss = load_faiss()

    lists: Any = faiss.IndexIVFPQ(finder, finder.d, finder.ntotal, coder.parts, 4, faiss.METRIC_INNER_PRODUCT)
    lists.by_residual = False
    return _knowing(lists, coder)


def _centres(sample: Int8s, count: int, coder: Coder) -> Floats:
    """(count, dim) rotated centres of lists by k-means on the sphere; the shorter, the more vectors lie around them."""
    draw = np.random.default_rng(0)

    def rotated(part: Int8s) -> Floats:
        return coder.rotate(row_codec.dequantise(part))

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
    """Add the (n, dim) vectors of each list to its sum."""
    order = np.argsort(lists, kind="stable")
    begins = np.flatnonzero(np.diff(lists[order], prepend=-1))
    sums[lists[order[begins]]] += np.add.reduceat(vectors[order], begins, axis=0)


def _finder(centres: Floats, coder: Coder) -> Any:
    """A FAISS index of (count, dim) rotated centres: of all for few, of those whose codes promise most for many."""
    faiss = load_faiss()

    count, dim = centres.shape
    centres = np.ascontiguousarray(centres)
    if count < MANY:
        every: Any = faiss.IndexFlatIP(dim)
        every.add(centres)
        return every
    code_index = _codes_only(coder)
    code_index.add(coder.decode(coder.encode(centres)))
    refinement: Any = faiss.IndexRefineFlat(code_index, faiss.swig_ptr(centres))
    refinement.k_factor = _FILLING
    return refinement


def _codes_only(coder: Coder) -> Any:
    """A FAISS index of codes, to be filled with what the coder decodes."""
    faiss = load_faiss()

    codes: Any = faiss.IndexPQFastScan(len(coder.rotation), coder.parts, 4, faiss.METRIC_INNER_PRODUCT)
    return _knowing(codes, coder)


def _knowing(index: Any, coder: Coder) -> Any:
    """Give a FAISS index the codewords of the coder."""
    faiss = load_faiss()

    faiss.copy_array_to_vector(coder.words.ravel(), index.pq.centroids)
    index.is_trained = True
    return index


def _words(index: Any) -> Floats:
    """Codewords of a FAISS index, (parts, 16, dim / parts)."""
    faiss = load_faiss()

    centroids: Floats = faiss.vector_to_array(index.pq.centroids).reshape(index.pq.M, WORDS, -1).copy()
    return centroids


_PARTIAL = "vectors.partial"  # a file while it is written
_GROWTH = 4  # codes trained on a quarter of the phrases still fit


class Plan(NamedTuple):
    """Layout and search settings of a FAISS file; ``tuned``: what was measured when they were chosen."""

    layout: Layout
    asking: Asking
    tuned: dict[str, Any]


def plan(store: Store, phrases: int, settings: IndexSettings) -> Plan:
    """Choose layout and search settings: as the present file was tuned for its size, or the default."""
    usual = Plan(Layout.of(phrases, store.dim, settings), Asking.by(settings), {})
    try:
        old = VectorsManifest.read(store.path / VECTORS_JSON)
        if not old.tuned:
            return usual
        # indexes made before the tuned layout was kept have that of their last training
        tuned_as = (old.tuned["layout"], old.tuned["phrases"]) if "layout" in old.tuned else (old.factory, old.trained)
        layout = Layout.parse(tuned_as[0]).for_rows(phrases, tuned_as[1])
        asking = Asking.of(old, settings)
    except (PhraseIndexError, ValueError, KeyError):
        return usual
    if store.dim % layout.parts:
        return usual
    if not layout.lists and usual.layout.lists:  # it was tuned when there were too few for lists
        layout = replace(layout, lists=usual.layout.lists)  # and tuning knows nothing of how many to read
        asking = replace(usual.asking, candidates=max(asking.candidates, usual.asking.candidates))
    return Plan(layout, asking, old.tuned)


Tell = Callable[[float], None]  # takes how much is ready, 0 to 1


def _say_nothing(share: float) -> None:
    """The default of ``tell``."""


def update(store: Store, settings: IndexSettings, threads: int | None, tell: Tell = _say_nothing) -> None:
    """Bring the FAISS file up to date if it is absent, damaged, or enough phrases came or went since it was made.

    New phrases are appended to it as long as its codes fit. They no longer fit when it has grown fourfold since they
    were trained, a fifth of it is deleted, or it is large enough for inverted lists.
    """
    with store.reading() as state:
        old = _intact(store, state)
        if old is not None:
            dead = Runs(store.tombstones())
            before = dead.below(old.covered)
            newer = _live_from(store, state, old.covered)
            deletions = old.rows - (old.covered - before)
            if newer < settings.exact_below and newer + deletions <= settings.rebuild_share * old.rows:
                _sweep(store.path, {old.file, old.codes})  # of a run that was killed before it came to this
                return
            grown = state.phrases > _GROWTH * old.trained
            lists = plan(store, state.phrases, settings).layout.lists
            older = not old.factory.startswith("OPQ")  # with FAISS's own codes
            has_new_layout = older or bool(lists) != bool(Layout.parse(old.factory).lists)
            if grown or has_new_layout or deletions > settings.rebuild_share * old.rows:
                old = None
        elif state.phrases < settings.exact_below and not (store.path / VECTORS_JSON).exists():
            _sweep(store.path, set())
            return
    trim_heap()  # of what came before, encoding above all: it takes much memory, too
    try:
        build(store, settings, threads, old, tell=tell)
    except _Unfit:
        build(store, settings, threads, tell=tell)
    trim_heap()


class _Unfit(Exception):
    """The FAISS file that was to be extended is damaged."""


def _intact(store: Store, state: State) -> VectorsManifest | None:
    """Read vectors.json if its file seems to be there."""
    try:
        manifest = VectorsManifest.read(store.path / VECTORS_JSON)
        fits = (store.path / manifest.file).stat().st_size == manifest.size
        fits &= (store.path / manifest.codes).stat().st_size == manifest.rows * store.dim
    except (PhraseIndexError, OSError):
        return None
    return manifest if fits and manifest.generation <= state.generation else None


def build(
    store: Store,
    settings: IndexSettings,
    threads: int | None,
    old: VectorsManifest | None = None,
    chosen: Plan | None = None,
    tell: Tell = _say_nothing,
) -> VectorsManifest | None:
    """Write a FAISS file over all phrases of the store; None, and none is kept, if they are few.

    It is trained and filled again, as ``chosen`` says or else `plan`, or, with ``old``, it is that file and the phrases
    that it lacks. It gets a name of its
    own and is in force once ``vectors.json`` names it, so a kill in between changes nothing. The caller holds the
    lock of the writer. Raises PhraseIndexError (no space), IndexDamaged.
    """
    load_faiss(threads or cores())
    with store.reading() as state:
        if state.phrases < settings.exact_below:
            _remove(store.path)
            return None
        chosen = chosen or plan(store, state.phrases, settings)
        if old is None:
            count = training_size(chosen.layout, settings)
            filling = Filling.train(chosen.layout, row_codec.spread(store.sampled_vectors(count), count))
        else:
            filling = Filling.of(_loaded(store, old, settings))
        first = 0 if old is None else old.covered
        row_count = (0 if old is None else old.rows) + _live_from(store, state, first)
        runs = [] if old is None else [list(run) for run in old.runs]
        size, fill_count = row_count - (0 if old is None else old.rows), 0
        with _written(store.path) as codes:
            if old is not None:
                codes.copy(store.path / old.codes)
            for block in _blocks(store, runs, first, settings.block):
                filling.add(row_codec.dequantise(block))
                codes.write(block.tobytes())
                fill_count += len(block)
                tell(fill_count / max(fill_count, size))
            index = filling.finished()
            if index.ntotal != row_count:
                raise store.damaged(f"{index.ntotal} vectors found, expected {row_count}")
            codes_file = codes.install(".codes")
    with _written(store.path) as file:
        faiss_search.write_faiss(index, file.path)
        file.copy(file.path, here=True)
        name = file.install(".faiss")
    manifest = VectorsManifest(
        file=name,
        size=(store.path / name).stat().st_size,
        sha256=file.digest.whole,
        parts=file.digest.parts,
        codes=codes_file,
        codes_sha256=codes.digest.whole,
        codes_parts=codes.digest.parts,
        rows=index.ntotal,
        generation=state.generation,
        covered=state.next_phrase,
        factory=chosen.layout.factory if old is None else old.factory,
        trained=state.phrases if old is None else old.trained,
        runs=runs,
        asking=chosen.asking.as_dict() if chosen.tuned else {},
        tuned=chosen.tuned,
    )
    manifest.write(store.path / VECTORS_JSON)
    _sweep(store.path, keep={manifest.file, manifest.codes})
    return manifest


def training_size(layout: Layout, settings: IndexSettings) -> int:
    """Number of vectors that a layout is trained on."""
    return max(settings.train, PER_LIST * layout.lists)


def _loaded(store: Store, old: VectorsManifest, settings: IndexSettings) -> Any:
    try:
        return Faiss.load(store.path, old, store.dim, settings, None).index
    except IndexDamaged as error:
        raise _Unfit from error


def _live_from(store: Store, state: State, first: int) -> int:
    """Count the live phrases with an id of ``first`` or above."""
    dead = Runs(store.tombstones())
    return state.next_phrase - first - (len(dead) - dead.below(first))


def _remove(folder: Path) -> None:
    (folder / VECTORS_JSON).unlink(missing_ok=True)
    _sweep(folder, keep=set())


def _sweep(folder: Path, keep: set[str]) -> None:
    """Remove all files of vectors but these."""
    for old in (*folder.glob("vectors-*"), folder / _PARTIAL):
        if old.name not in keep and old.exists():
            with suppress(OSError):  # another system may refuse while a reader has it open
                old.unlink()


def _blocks(store: Store, runs: list[list[int]], first: int, size: int) -> Iterator[Int8s]:
    """The (n, dim) vectors of phrases from ``first`` on, n about ``size``; appends their runs of ids to ``runs``."""
    rows: list[VectorRow] = []
    count = 0
    for batch in store.vectors(first):
        for row in batch:
            if runs and sum(runs[-1]) == row.first_phrase:
                runs[-1][1] += row.phrases
            else:
                runs.append([row.first_phrase, row.phrases])
            rows.append(row)
            count += row.phrases
        if count >= size:
            yield unpack(rows, store.dim)[0]
            rows, count = [], 0
    if rows:
        yield unpack(rows, store.dim)[0]


class _Partial:
    """File being written, and the SHA-256 of its content, which becomes its name."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self._file, self.digest = path, file, Digest()

    def write(self, content: bytes) -> None:
        self._file.write(content)
        self.digest.update(content)

    def copy(self, source: Path, here: bool = False) -> None:
        """Write the content of another file; ``here``: it stands in this file already, only its digest is taken."""
        with source.open("rb") as file:
            while block := file.read(1 << 20):
                self.digest.update(block) if here else self.write(block)

    def install(self, suffix: str) -> str:
        """Flush the file to the disk and rename it to its final name, which is returned."""
        flush(self._file)
        name = f"vectors-{self.digest.whole[:16]}{suffix}"
        install(self.path, self.path.with_name(name))
        return name


@contextmanager
def _written(folder: Path) -> Iterator[_Partial]:
    """Open a partial file to write; PhraseIndexError if there is no space, which FAISS reports as a RuntimeError."""
    path = folder / _PARTIAL
    try:
        with path.open("wb") as file:
            yield _Partial(path, file)
    except (OSError, RuntimeError) as error:
        raise PhraseIndexError(
            f"{path}: cannot be written ({first_line(error)}); free some space and run: phrasemate index optimize"
        ) from error
    finally:  # it has another name, if all went well
        with suppress(OSError):
            path.unlink(missing_ok=True)

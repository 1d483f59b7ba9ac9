"""Model: vectors of phrases and sentences, and segmentation into phrases, from one encoder."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.heads import head_of, load_heads, load_sentence_head, segmenter_of
from phrasemate.encode.model_folder import HEADS, REMEDY, bundled_folder, check_folder
from phrasemate.encode.pooling import (
    EXTRA,
    POOLINGS,
    for_inner_products,
    pool_cls,
    pool_ends,
    pool_mean,
    token_rows,
    unit,
)
from phrasemate.encode.runtime import STRETCH, Runtime, States, stretches
from phrasemate.encode.scoring import load_confidence, load_scorer
from phrasemate.encode.segmenter import NgramSegmenter, Segmenter, SegmentOptions
from phrasemate.errors import InputError, ModelDamaged
from phrasemate.types import Phrase, Span, check_path, check_text, phrase_list, text_tuple
from phrasemate.utils.arrays import Floats, Offsets, Rows
from phrasemate.utils.machine import single_blas


class TextPhrases(NamedTuple):
    """Phrases of a text: ``starts`` and ``ends`` (n,) int32, ``scores`` (n,) float32, ``vectors`` (n, dim) float32.

    Starts and ends are character offsets.
    """

    starts: Offsets
    ends: Offsets
    scores: Floats
    vectors: Floats


class _Stretches:
    """Texts cut into pieces that the encoder can take (see `stretches`).

    ``texts`` holds the pieces of all texts in order; text i has the pieces ``bounds[i]:bounds[i + 1]``.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        parts = [stretches(text) for text in text_tuple(texts, "texts")]
        self.bounds = np.cumsum([0, *map(len, parts)])
        self.texts = [text for part in parts for _, text in part]
        self._places = [at for part in parts for at, _ in part]

    def joined(self, extracts: Sequence[TextPhrases]) -> list[TextPhrases]:
        """Join the phrases of the pieces of each text, with offsets into the whole text."""
        text_extracts = [
            part._replace(starts=part.starts + at, ends=part.ends + at) for part, at in self._zipped(extracts)
        ]
        return [_one(text_extracts[low:high]) for low, high in pairwise(self.bounds.tolist())]

    def joined_spans(self, spans_of_texts: Sequence[Sequence[Span]]) -> list[list[Span]]:
        """Join the spans of the pieces of each text, with offsets into the whole text."""
        text_spans = [
            [Span(a + at, b + at, score) for a, b, score in spans] for spans, at in self._zipped(spans_of_texts)
        ]
        return [list(chain(*text_spans[low:high])) for low, high in pairwise(self.bounds.tolist())]

    def _zipped(self, parts: Sequence[Any]) -> Iterator[tuple[Any, int]]:
        return zip(parts, self._places, strict=True)


def _one(parts: Sequence[TextPhrases]) -> TextPhrases:
    return parts[0] if len(parts) == 1 else TextPhrases(*map(np.concatenate, zip(*parts, strict=True)))


def _near(phrases: Sequence[Phrase]) -> list[Phrase]:
    """Shorten contexts of more than `STRETCH` characters to the piece with the phrase, or to the text around it."""
    cuts = {phrase.context: stretches(phrase.context) for phrase in phrases if len(phrase.context) > STRETCH}
    return [_inside(phrase, cuts[phrase.context]) if phrase.context in cuts else phrase for phrase in phrases]


def _inside(phrase: Phrase, cut: Sequence[tuple[int, str]]) -> Phrase:
    context, start, end = phrase.context, phrase.start, phrase.end
    for at, text in cut:
        if at <= start and end <= at + len(text):
            return Phrase(text, start - at, end - at)
    low = max(0, start - STRETCH // 2)
    return Phrase(context[low : end + STRETCH // 2], start - low, end - low)


DEVICE = "PHRASEMATE_DEVICE"  # environment variable that names the encoder's device


def load_model(path: str | Path | None = None, threads: int | None = None, device: str | None = None) -> Model:
    """Load a model folder, by default the bundled one, after a check of every byte.

    Args:
        path: Model folder; None for the bundled model.
        threads: Threads to compute with; None for all that the process may use.
        device: An OpenVINO device, such as "GPU", or "CUDA" (NVIDIA cards, with ONNX Runtime). None: the value of the
            environment variable PHRASEMATE_DEVICE, or "CPU" if it is not set.

    Raises ModelError or a subclass (see `phrasemate.errors`), and InputError if the machine lacks the device.
    """
    if path is not None:
        check_path(path)
    if device is not None:
        check_text(device, "the name of a device, such as GPU or CUDA")
    device = device or os.environ.get(DEVICE) or "CPU"
    return Model(bundled_folder() if path is None else Path(path), threads, path is None, device)


class Model:
    """Encoder of phrases and sentences, with a segmenter that finds phrases; returned by `load_model`.

    ``segmenter`` is the learned segmenter ``learned``, or ``ngram`` if the model has none (``learned`` is None). To
    change it, assign: ``model.segmenter = model.ngram``. ``confidence`` is the calibration of search results, None if
    it was not fitted.

    >>> from phrasemate import Phrase, load_model
    >>> model = load_model()
    >>> model.encode([Phrase("Er sitzt auf der Bank.", 17, 21)]).shape == (1, model.dim)
    True
    """

    def __init__(self, folder: Path, threads: int | None = None, bundled: bool = False, device: str = "CPU") -> None:
        self.config, self.hash = check_folder(folder)
        self.folder, self.path = folder, None if bundled else folder.resolve()
        self.name = str(self.config["name"])
        self.width = int(self.config["width"])
        heads = load_heads(folder / HEADS, self.width, ModelDamaged, REMEDY) if (folder / HEADS).exists() else {}
        self.head = head_of(heads)
        self.learned = segmenter_of(heads, self.config, folder)
        self.confidence = load_confidence(folder, self.hash)
        self.scorer = load_scorer(folder, self.hash)
        self.ngram = NgramSegmenter(self.config.get("common_words", ()))
        self.segmenter: Segmenter = self.learned or self.ngram
        self.pooling = "head" if self.head else str(self.config["pooling"])
        self.context_weight = float(self.config.get("context_weight", 0.0))
        self.longest = float(self.config.get("longest", 0.0))
        self.sentence_head = load_sentence_head(folder, self.config)
        self.runtime = Runtime(folder, self.config, threads, device)

    def warm_up(self) -> Model:
        """Load the full tokenizer now, so that the first request of a server does not wait for it."""
        _ = self.runtime.tokenizer
        return self

    def __repr__(self) -> str:
        return f"Model({self.name!r}, dim={self.dim})"

    @property
    def dim(self) -> int:
        """Length of a phrase vector."""
        return self._dim(self.pooling)

    @property
    def sentence_dim(self) -> int:
        """Length of a sentence vector."""
        return self.width if self.sentence_head is None else self.sentence_head.dim(self.width)

    @single_blas
    def encode(self, phrases: Iterable[Phrase], pooling: str | None = None, layer: int | None = None) -> Floats:
        """Encode phrases in their contexts: (phrases, dim) float32, unit length.

        Args:
            phrases: Phrases. Each distinct context is encoded once; of a context of more than 20,000 characters, only
                the text around the phrase is read.
            pooling: "head" (the model's projection), "ends", "mean" or "cls" (the first token of the context); None
                for the model's default.
            layer: Layer of the encoder; None for the last.

        Raises InputError for a value that is not a Phrase, for a pooling or layer that the model lacks, and for a
        phrase of more than 200,000 tokens.
        """
        pooling, cut_phrases = self._pooling(pooling), _near(phrase_list(phrases))
        numbers = {context: i for i, context in enumerate(dict.fromkeys(phrase.context for phrase in cut_phrases))}
        texts = np.array([numbers[phrase.context] for phrase in cut_phrases], np.int64)  # (phrases,)
        offsets = np.array([(phrase.start, phrase.end) for phrase in cut_phrases], np.int32).reshape(-1, 2)
        order = np.argsort(texts, kind="stable")
        vectors = np.zeros((len(cut_phrases), self._dim(pooling)), np.float32)
        for part, states in self.runtime.blocks(list(numbers), layer):
            block_rows = order[slice(*np.searchsorted(texts[order], (part.start, part.stop)))]
            vectors[block_rows] = self._pool(
                states, texts[block_rows] - part.start, offsets[block_rows, 0], offsets[block_rows, 1], pooling
            )
        return vectors

    @single_blas
    def encode_sentences(self, texts: Iterable[str], layer: int | None = None, prompt: str | None = None) -> Floats:
        """Encode whole sentences: (texts, sentence_dim) float32, unit length.

        By default a vector is the mean of all token states, and of a text of more than 20,000 characters the mean over
        its pieces. A model exported from a sentence-transformers folder pools as that folder says (`SentenceHead`), and
        cuts a text off at its maximum length.

        Args:
            texts: Sentences.
            layer: Layer of the encoder; None for the last.
            prompt: Name of one of the model's prompts; None for the default.

        Raises InputError for a prompt that the model lacks, and for a single string instead of a list.
        """
        prefix, cut = self.sentence_prompt(prompt), _Stretches(texts)
        count = len(cut.bounds) - 1
        cuts_texts = self.sentence_head is not None
        vectors = np.zeros((len(cut.texts), self.sentence_dim), np.float32)
        for part, states in self.runtime.blocks([prefix + text for text in cut.texts], layer, cuts_texts):
            vectors[part] = self.sentence_vectors(states, prefix)
        if cuts_texts:
            return np.asarray(vectors[cut.bounds[:-1]])
        return vectors if len(vectors) == count else unit(np.add.reduceat(vectors, cut.bounds[:-1]))

    def sentence_prompt(self, name: str | None = None) -> str:
        """Return the text put before a sentence; ``name`` is a prompt's name, None for the default.

        Raises InputError for a name that the model lacks.
        """
        if self.sentence_head is not None:
            return self.sentence_head.prompt(name)
        if name is not None:
            raise InputError(f"prompt {name!r}: the model has no prompts by name")
        return str(self.config.get("sentence_prefix", ""))

    def sentence_vectors(self, states: States, prefix: str = "") -> Floats:
        """Compute (texts, sentence_dim) unit vectors from the states of texts that begin with the prompt ``prefix``."""
        if self.sentence_head is None:
            return unit(pool_mean(states.values, states.bounds[:-1], states.bounds[1:] - 1))
        skip_count = 0
        if prefix and not self.sentence_head.include_prompt:
            skip_count = len(self.runtime.opening) + self.runtime.token_count(prefix)
        return unit(self.sentence_head(states, skip_count))

    @single_blas
    def segment(
        self, texts: Iterable[str], frequent: Collection[str] = (), **options: Unpack[SegmentOptions]
    ) -> list[list[Span]]:
        """Find the phrases of each text, sorted by start, then end.

        Args:
            texts: Texts to segment.
            frequent: Case-folded words at which no phrase may begin or end; the learned segmenter ignores them.
            options: ``threshold``, ``max_words`` (None: no limit) and ``overlapping``, see `SegmentOptions`; defaults:
                the model's.
        """
        segmenter = self.segmenter.using(**options)
        if not segmenter.contextual:
            return segmenter.find(text_tuple(texts, "texts"), None, frequent).lists()
        cut = _Stretches(texts)
        blocks = self.runtime.blocks(cut.texts)
        segments = (segmenter.find(cut.texts[part], states, frequent) for part, states in blocks)
        return cut.joined_spans([spans for segment in segments for spans in segment.lists()])

    @single_blas
    def extract(
        self,
        texts: Sequence[str],
        frequent: Collection[str] = (),
        indexed: bool = False,
        **options: Unpack[SegmentOptions],
    ) -> list[TextPhrases]:
        """Segment texts (see `segment`) and encode their phrases in one pass of the encoder.

        Results are deterministic: the same texts in one call give the same bits. A text of more than 20,000 characters
        is processed in pieces, split at white space if possible; no phrase crosses the boundary of a piece.

        Args:
            texts: Texts to segment.
            frequent: Case-folded words at which no phrase may begin or end, for the n-gram segmenter.
            indexed: Whether the vectors are stored in an index (True) or used as queries (False); see `span_vectors`.
            options: ``threshold``, ``max_words`` and ``overlapping``, see `SegmentOptions`.
        """
        segmenter, cut = self.segmenter.using(**options), _Stretches(texts)
        results: list[TextPhrases] = []
        for part, states in self.runtime.blocks(cut.texts):
            segment = segmenter.find(cut.texts[part], states, frequent)
            vectors = self._pool(states, segment.texts, segment.starts, segment.ends, self.pooling, indexed)
            columns = [np.split(column, segment.bounds[1:-1]) for column in (*segment[1:], vectors)]
            results += map(TextPhrases, *columns)
        return cut.joined(results)

    def token_states(self, texts: Iterable[str], layer: int | None = None) -> Iterator[States]:
        """Yield token states with character offsets (`States`), block by block of consecutive texts.

        Raises InputError for a text of more than 200,000 tokens.
        """
        for _, states in self.runtime.blocks(text_tuple(texts, "texts"), layer):
            yield states

    def ends(self, texts: Iterable[str]) -> Iterator[Floats]:
        """Segment texts and yield the end states of their phrases, (phrases, 2 x width), to fit a projection on."""
        listed_texts = text_tuple(texts, "texts")
        for part, states in self.runtime.blocks(listed_texts):
            segment = self.segmenter.find(listed_texts[part], states)
            yield pool_ends(states.values, *token_rows(states, segment.texts, segment.starts, segment.ends))

    def _pool(
        self,
        states: States,
        texts: NDArray[np.int64],
        starts: Offsets,
        ends: Offsets,
        pooling: str,
        indexed: bool = False,
    ) -> Floats:
        """Compute (spans, dim) unit vectors of character spans; ``texts`` (spans,): each span's text in the block."""
        if pooling == "cls":
            return unit(pool_cls(states)[texts])
        return self.span_vectors(states, texts, *token_rows(states, texts, starts, ends), pooling, indexed)

    def span_vectors(
        self,
        states: States,
        texts: NDArray[np.int64],
        first: Rows,
        last: Rows,
        pooling: str | None = None,
        indexed: bool = False,
    ) -> Floats:
        """Compute (spans, dim) unit vectors of token spans in a block of texts.

        If the model has a ``context_weight`` w, a vector v of the head becomes v + w c, scaled to unit length. Here c
        is the mean of the head's unit vectors of all single tokens of the text.

        Args:
            states: Token states of the block.
            texts: (spans,) index of each span's text in the block.
            first: (spans,) row of each span's first token.
            last: (spans,) row of each span's last token.
            pooling: "head", "ends" or "mean"; None for the model's default.
            indexed: Whether the vectors are stored in an index. For a head trained on inner products, indexed vectors
                and query vectors differ (see `for_inner_products`).
        """
        pooling = pooling or self.pooling
        if pooling != "head" or self.head is None:
            vectors = {"ends": pool_ends, "mean": pool_mean}[pooling](states.values, first, last)
            return unit(vectors, out=vectors)
        if self.longest:
            return for_inner_products(self.head(states.values, first, last), self.longest, indexed)
        if not self.context_weight:
            return self.head.unit(states.values, first, last, threads=self.runtime.threads)
        tokens = np.arange(len(states.values))  # each also projected as a span of one token, for the contexts
        first_rows, last_rows = (np.concatenate([rows, tokens]) for rows in (first, last))
        projections = self.head.unit(states.values, first_rows, last_rows, threads=self.runtime.threads)
        vectors, token_vectors = projections[: len(first)], projections[len(first) :]
        text_ends = states.bounds[1:] - 1  # special tokens are excluded, except that a blank text keeps one
        opening = np.minimum(states.bounds[:-1] + len(self.runtime.opening), text_ends)
        closing = text_ends - len(self.runtime.closing)
        contexts = pool_mean(token_vectors, opening, np.maximum(closing, opening))
        vectors += np.float32(self.context_weight) * contexts[texts]
        return unit(vectors, out=vectors)

    def _pooling(self, pooling: str | None) -> str:
        pooling = pooling or self.pooling
        if pooling not in POOLINGS or (pooling == "head" and self.head is None):
            having = [name for name in POOLINGS if name != "head" or self.head is not None]
            raise InputError(f"pooling {pooling!r}: this model has {', '.join(having)}")
        return pooling

    def _dim(self, pooling: str) -> int:
        if pooling == "head" and self.head is not None:
            return self.head.dim + (EXTRA if self.longest else 0)
        return 2 * self.width if pooling == "ends" else self.width

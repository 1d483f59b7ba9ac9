"""Hugging Face encoders for training: tokenize texts, and compute the states of all their tokens, without padding.

Texts are sorted by length and encoded in chunks of similar numbers of tokens, which need little padding. The chunks are
computed as one graph, or one at a time with cached gradients (`phrasemate.training.gradcache`).
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from phrasemate.encode.export import traced_graph
from phrasemate.encode.export.hf_folder import fast_tokenizer, tokenizer_settings
from phrasemate.encode.export.traced_graph import encoder_config, is_causal, layers_of, load_encoder
from phrasemate.encode.model_folder import HEADS
from phrasemate.encode.tokenizer import BLANK, Tokens, special_tokens
from phrasemate.errors import InputError
from phrasemate.training.gradcache import gathered
from phrasemate.utils.arrays import Rows
from phrasemate.utils.storage import save_arrays, unlock

MAX_TOKENS = 160  # default maximum length of a text
EMBEDDINGS = ("frozen", "trained")  # values of the setting ``embeddings``
_SURROGATE = re.compile("[\ud800-\udfff]")


class Batch(NamedTuple):
    """Tokens of several texts in one array, special tokens included.

    Args:
        ids: Token ids, (tokens,); text i has ``ids[bounds[i]:bounds[i + 1]]``.
        bounds: First token of each text, and the total, (texts + 1,).
        starts: First character of each token in its text, (tokens,).
        ends: End of each token in its text, (tokens,); a special token is empty.
        edges: Numbers of special tokens before and after each text.
    """

    ids: Rows
    bounds: Rows
    starts: Rows
    ends: Rows
    edges: tuple[int, int] = (1, 1)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def subset(self, texts: Rows) -> Batch:
        """Return a batch of the texts with these numbers, in this order."""
        lengths = np.diff(self.bounds)[texts]
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.repeat(self.bounds[texts] - bounds[:-1], lengths) + np.arange(bounds[-1])
        return Batch(self.ids[rows], bounds, self.starts[rows], self.ends[rows], self.edges)


class Chunk(NamedTuple):
    """Padded texts: ``ids`` and ``mask`` (texts, longest); ``rows`` (tokens,) are the tokens' rows in the batch."""

    ids: Tensor
    mask: Tensor
    rows: Tensor


class Tokenizer:
    """Fast tokenizer of a Hugging Face folder (or name), with offsets of characters.

    Texts are truncated to ``max_tokens``. ``edges`` are the numbers of special tokens before and after a text.
    """

    def __init__(self, folder: str | Path, max_tokens: int = MAX_TOKENS) -> None:
        self._tokenizer = fast_tokenizer(folder)
        self.max_tokens = max_tokens
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        opening, closing = special_tokens(self._tokenizer)
        self.edges = len(opening), len(closing)
        self._tokenizer.enable_truncation(max_tokens)

    def __call__(self, texts: Sequence[str]) -> Batch:
        """Tokenize texts, with special tokens, truncated to ``max_tokens``."""
        return self._batch(texts, self._tokenizer)

    def uncut(self, texts: Sequence[str]) -> Batch:
        """Tokenize texts without truncation."""
        return self._batch(texts, self._unlimited)

    def _batch(self, texts: Sequence[str], tokenizer: Any) -> Batch:
        """Tokenize texts; offsets leave out white space at the start of a token."""
        encodings = tokenizer.encode_batch([_SURROGATE.sub("\ufffd", text) for text in texts])
        token_lists = [Tokens(encoding.ids, encoding.offsets) if encoding.ids else BLANK for encoding in encodings]
        bounds = np.concatenate([[0], np.cumsum([len(tokens.ids) for tokens in token_lists])]).astype(np.int64)
        ids = np.concatenate([tokens.ids for tokens in token_lists]).astype(np.int64)
        spans = np.array(
            [_trimmed(text, *pair) for text, e in zip(texts, token_lists, strict=True) for pair in e.offsets]
        )
        starts, ends = spans.reshape(-1, 2).T.astype(np.int64)
        return Batch(ids, bounds, starts, ends, self.edges)

    def save(self, path: Path) -> None:
        """Write the tokenizer as a file tokenizer.json."""
        self._unlimited.save(str(path))

    @cached_property
    def _unlimited(self) -> Any:
        """Return a copy without truncation; the original is not changed, because another thread may be using it."""
        tokenizer = type(self._tokenizer).from_str(self._tokenizer.to_str())
        tokenizer.no_truncation()
        return tokenizer


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Move the start of a span behind leading white space."""
    while start < end and text[start].isspace():
        start += 1
    return start, end


def token_rows(batch: Batch, text: int, starts: Rows, ends: Rows) -> tuple[Rows, Rows, NDArray[np.bool_]]:
    """Find the tokens of character spans of one text: rows of the first and last token, and a mask, (spans,) each.

    The mask is false for a span that was truncated, or that no token overlaps.
    """
    before, after = batch.edges
    low, high = int(batch.bounds[text]) + before, int(batch.bounds[text + 1]) - after
    first = np.searchsorted(batch.ends[low:high], starts, side="right")
    last = np.searchsorted(batch.starts[low:high], ends, side="left") - 1
    whole = (first <= last) & (last < high - low)
    whole &= batch.ends[low:high].max(initial=0) >= ends
    return first + low, last + low, whole


def longest_text(folder: str | Path) -> int:
    """Return the maximum number of tokens of an encoder, special ones included. Raises ModelError if there is none."""
    return traced_graph.longest_text(encoder_config(folder))


class Backbone(nn.Module):
    """Encoder loaded by `transformers` that returns the states of its last layer.

    ``width`` and ``depth`` are the size of a state and the number of layers. ``causal`` tells whether a token attends
    to earlier tokens only.

    Args:
        folder: Hugging Face folder, or name.
        frozen: Number of lowest layers that are not trained.
        dropout: Dropout rate; None for the encoder's own.
        embeddings: "frozen" or "trained". Frozen is safer: tokens that the training text lacks do not move when the
            others are trained, and the exported table has few bits.

    Raises InputError for invalid settings, and ModelError if the encoder cannot be loaded.
    """

    def __init__(
        self, folder: str | Path, frozen: int = 0, dropout: float | None = None, embeddings: str = "frozen"
    ) -> None:
        super().__init__()
        changes = {}
        if dropout is not None:
            if not 0 <= dropout < 1:
                raise InputError(f"[model] dropout: {dropout}; expected 0 to below 1")
            changes = dict.fromkeys(_dropouts(encoder_config(folder)), dropout)
        self.encoder: Any = load_encoder(folder, **changes)
        config = self.encoder.config
        self.width, self.depth = int(config.hidden_size), int(config.num_hidden_layers)
        self.causal = is_causal(self.encoder)
        if not 0 <= frozen < self.depth:
            raise InputError(f"frozen layers: {frozen}; expected 0 to {self.depth - 1}")
        if hasattr(config, "use_cache"):
            config.use_cache = False
        if getattr(self.encoder, "pooler", None) is not None:
            self.encoder.pooler = None
        if frozen:
            layers_of(self.encoder)[:frozen].requires_grad_(False)
        if embeddings == "frozen":
            table = getattr(self.encoder, "embeddings", None) or self.encoder.get_input_embeddings()
            table.requires_grad_(False)

    @property
    def device(self) -> torch.device:
        """Return the device of the encoder."""
        return next(self.parameters()).device

    def chunks(self, batch: Batch, tokens: int) -> Iterator[Chunk]:
        """Split a batch into chunks of at most ``tokens`` padded tokens; a longer text is a chunk by itself."""
        padding = int(self.encoder.config.pad_token_id or 0)
        for texts, mask in grouped(batch.bounds, tokens):
            ids, rows = padded(batch.ids, batch.bounds, texts, mask, padding)
            yield Chunk(*(torch.from_numpy(item).to(self.device) for item in (ids, mask, rows)))

    def forward(self, chunk: Chunk) -> Tensor:
        """Compute the states of a chunk's tokens without padding, (tokens, width), in the order of ``chunk.rows``."""
        states = self.encoder(input_ids=chunk.ids, attention_mask=chunk.mask.long()).last_hidden_state
        outputs: Tensor = states[chunk.mask]
        return outputs

    def states(self, batch: Batch, tokens: int) -> Tensor:
        """Compute the states of a batch, (tokens, width) float32, as one graph, in chunks of ``tokens``."""
        chunks = list(self.chunks(batch, tokens))
        return gathered([self(chunk) for chunk in chunks], [chunk.rows for chunk in chunks])


def _dropouts(config: Any) -> list[str]:
    """Return the names of the dropout rates of an encoder's layers and embeddings in its configuration."""
    other_parts = ("classif", "pooler", "qa_", "summary")
    return [name for name in config.to_dict() if "dropout" in name and not any(part in name for part in other_parts)]


def grouped(bounds: Rows, tokens: int) -> Iterator[tuple[Rows, NDArray[np.bool_]]]:
    """Group texts by length, with at most ``tokens`` padded tokens in a group; a longer text is a group by itself.

    The tokens of text i are ``bounds[i]:bounds[i + 1]``. Yields the numbers of the texts of each group, (texts,), and
    a mask of their tokens, (texts, longest).
    """
    lengths = np.diff(bounds)
    order = np.argsort(lengths, kind="stable")
    at = 0
    while at < len(order):
        last = at + 1
        while last < len(order) and (last + 1 - at) * lengths[order[last]] <= tokens:
            last += 1
        texts = order[at:last]
        yield texts, np.arange(lengths[texts].max()) < lengths[texts][:, None]
        at = last


def padded(ids: NDArray[Any], bounds: Rows, texts: Rows, mask: NDArray[np.bool_], padding: int) -> tuple[Rows, Rows]:
    """Pad a group of `grouped`: return its token ids, (texts, longest), and the rows of its tokens in ``ids``."""
    rows = (bounds[texts][:, None] + np.arange(mask.shape[1]))[mask]
    padded_ids = np.full(mask.shape, padding, np.int64)
    padded_ids[mask] = ids[rows]
    return padded_ids, rows


def save_encoder(
    encoder: Any, tokenizer: Tokenizer, base: str | Path, folder: Path, heads: Mapping[str, Tensor] | None = None
) -> None:
    """Write an encoder, its ``heads`` and its tokenizer into a Hugging Face folder.

    The file tokenizer.json is copied from the folder ``base``, if it has one.
    """
    encoder.save_pretrained(folder)
    for weights in folder.glob("*.safetensors"):
        unlock(weights)
    copy, original = folder / "tokenizer.json", Path(base) / "tokenizer.json"
    if original.is_file():
        shutil.copyfile(original, copy)
    else:
        tokenizer.save(copy)
    settings = tokenizer_settings(copy.read_bytes()) | {"model_max_length": traced_graph.longest_text(encoder.config)}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    if heads:
        arrays = {name: value.detach().float().cpu().numpy() for name, value in heads.items()}
        save_arrays(folder / HEADS, arrays)

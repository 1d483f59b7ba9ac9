"""A Hugging Face encoder as a training brick: texts in, the states of all their tokens out, without padding.

Texts are sorted by length and go through the encoder in chunks of about as many tokens, so that little is padded. The
chunks are one graph, or computed one at a time with cached gradients (`phrasemate.training.gradcache`).
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

MAX_TOKENS = 160
EMBEDDINGS = ("frozen", "trained")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Batch(NamedTuple):
    """Texts as tokens, one after another, special tokens included.

    ``ids`` (tokens,); text i has the tokens ``bounds[i]:bounds[i + 1]``; ``starts`` and ``ends`` (tokens,) are
    characters of its text (special tokens are empty). What a text has beyond the longest length is cut off.
    ``edges``: how many special tokens stand before each text and after it.
    """

    ids: Rows
    bounds: Rows
    starts: Rows
    ends: Rows
    edges: tuple[int, int] = (1, 1)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def subset(self, texts: Rows) -> Batch:
        """Select texts, in the order of their numbers."""
        lengths = np.diff(self.bounds)[texts]
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.repeat(self.bounds[texts] - bounds[:-1], lengths) + np.arange(bounds[-1])
        return Batch(self.ids[rows], bounds, self.starts[rows], self.ends[rows], self.edges)


class Chunk(NamedTuple):
    """Padded texts: ``ids`` and ``mask`` (texts, longest); ``rows`` are their tokens' places in the batch."""

    ids: Tensor
    mask: Tensor
    rows: Tensor


class Tokenizer:
    """The fast tokenizer of a Hugging Face folder (or name), with character offsets."""

    def __init__(self, folder: str | Path, max_tokens: int = MAX_TOKENS) -> None:
        self._tokenizer = fast_tokenizer(folder)
        self.max_tokens = max_tokens
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        opening, closing = special_tokens(self._tokenizer)
        self.edges = len(opening), len(closing)
        self._tokenizer.enable_truncation(max_tokens)

    def __call__(self, texts: Sequence[str]) -> Batch:
        """Tokenize; each text gets its special tokens."""
        return self._batch(texts, self._tokenizer)

    def uncut(self, texts: Sequence[str]) -> Batch:
        """Tokenize texts whole, whatever their lengths."""
        return self._batch(texts, self._unlimited)

    def _batch(self, texts: Sequence[str], tokenizer: Any) -> Batch:
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
        """Write it as tokenizer.json."""
        self._unlimited.save(str(path))

    @cached_property
    def _unlimited(self) -> Any:
        """A copy that cuts no text, for another thread may be cutting texts with this one."""
        tokenizer = type(self._tokenizer).from_str(self._tokenizer.to_str())
        tokenizer.no_truncation()
        return tokenizer


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    return start, end


def token_rows(batch: Batch, text: int, starts: Rows, ends: Rows) -> tuple[Rows, Rows, NDArray[np.bool_]]:
    """Rows of the first and last token of the character spans of one text, and whether the span is all there.

    A span is not there where it lies beyond the longest length, or has no token of its own.
    """
    before, after = batch.edges
    low, high = int(batch.bounds[text]) + before, int(batch.bounds[text + 1]) - after
    first = np.searchsorted(batch.ends[low:high], starts, side="right")
    last = np.searchsorted(batch.starts[low:high], ends, side="left") - 1
    whole = (first <= last) & (last < high - low)
    whole &= batch.ends[low:high].max(initial=0) >= ends
    return first + low, last + low, whole


def longest_text(folder: str | Path) -> int:
    """Count the tokens that an encoder takes, the special ones included. Raises ModelError where there is none."""
    return traced_graph.longest_text(encoder_config(folder))


class Backbone(nn.Module):
    """An encoder that `transformers` loads; the last layer's states.

    ``frozen``: how many of the lowest layers are not trained. ``dropout``: None keeps the encoder's own.
    ``embeddings``: whether what comes before the first layer is "frozen" or "trained". The exported token table has few
    bits, and a word that the training text lacks is left behind where the others move. ``causal``: whether a token sees
    only those before it.
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
        """Device that computes the states."""
        return next(self.parameters()).device

    def chunks(self, batch: Batch, tokens: int) -> Iterator[Chunk]:
        """The batch in pieces of at most ``tokens`` padded tokens (a longer text is a piece of its own)."""
        padding = int(self.encoder.config.pad_token_id or 0)
        for texts, mask in grouped(batch.bounds, tokens):
            ids, rows = padded(batch.ids, batch.bounds, texts, mask, padding)
            yield Chunk(*(torch.from_numpy(item).to(self.device) for item in (ids, mask, rows)))

    def forward(self, chunk: Chunk) -> Tensor:
        """(tokens, width): the states of a chunk's tokens, padding left out, as ``chunk.rows`` has them."""
        states = self.encoder(input_ids=chunk.ids, attention_mask=chunk.mask.long()).last_hidden_state
        outputs: Tensor = states[chunk.mask]
        return outputs

    def states(self, batch: Batch, tokens: int) -> Tensor:
        """(tokens, width) float32 states of a batch, in its order, as one graph."""
        chunks = list(self.chunks(batch, tokens))
        return gathered([self(chunk) for chunk in chunks], [chunk.rows for chunk in chunks])


def _dropouts(config: Any) -> list[str]:
    """The names of an architecture's rates of dropout within its layers and embeddings."""
    other_parts = ("classif", "pooler", "qa_", "summary")
    return [name for name in config.to_dict() if "dropout" in name and not any(part in name for part in other_parts)]


def grouped(bounds: Rows, tokens: int) -> Iterator[tuple[Rows, NDArray[np.bool_]]]:
    """Groups of texts by length, of at most ``tokens`` padded tokens each; a longer text is a group alone.

    The tokens of text i lie at ``bounds[i]`` to ``bounds[i + 1]``. Gives which texts, and (texts, longest) which tokens
    there are.
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
    """The token numbers of a group (texts, longest), and (tokens,) where in ``ids`` each that is there comes from."""
    rows = (bounds[texts][:, None] + np.arange(mask.shape[1]))[mask]
    padded_ids = np.full(mask.shape, padding, np.int64)
    padded_ids[mask] = ids[rows]
    return padded_ids, rows


def save_encoder(
    encoder: Any, tokenizer: Tokenizer, base: str | Path, folder: Path, heads: Mapping[str, Tensor] | None = None
) -> None:
    """Write the encoder and its ``heads`` into a Hugging Face folder, with the tokenizer of its base, unchanged where
    it can be.
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

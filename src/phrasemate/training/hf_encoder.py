"""A Hugging Face encoder as a training brick: texts in, the states of all their tokens out, without padding.

Texts are sorted by length and go through the encoder in chunks of about as many tokens, so that little is padded. The
chunks are one graph, or computed one at a time with cached gradients (`phrasemate.training.gradcache`).
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch import Tensor, nn

from phrasemate.encode.export.hf_folder import FAMILIES, tokenizer_settings
from phrasemate.errors import InputError, ModelError, ModelUnsupported
from phrasemate.training.gradcache import gathered
from phrasemate.utils.storage import unlock

MAX_TOKENS = 160
_SURROGATE = re.compile("[\ud800-\udfff]")
Rows = NDArray[np.int64]


class Batch(NamedTuple):
    """Texts as tokens, one after another, special tokens included.

    ``ids`` (tokens,); text i has the tokens ``bounds[i]:bounds[i + 1]``; ``starts`` and ``ends`` (tokens,) are
    characters of its text (special tokens are empty). What a text has beyond the longest length is cut off.
    """

    ids: Rows
    bounds: Rows
    starts: Rows
    ends: Rows

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def subset(self, texts: Rows) -> Batch:
        """Some of the texts, in the order of their numbers."""
        lengths = np.diff(self.bounds)[texts]
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.repeat(self.bounds[texts] - bounds[:-1], lengths) + np.arange(bounds[-1])
        return Batch(self.ids[rows], bounds, self.starts[rows], self.ends[rows])


class Chunk(NamedTuple):
    """Some texts, padded: ``ids`` and ``mask`` (texts, longest); ``rows`` are their tokens' places in the batch."""

    ids: Tensor
    mask: Tensor
    rows: Tensor


class Tokenizer:
    """The fast tokenizer of a Hugging Face folder (or name), with character offsets."""

    def __init__(self, folder: str | Path, max_tokens: int = MAX_TOKENS) -> None:
        self._tokenizer = _fast_tokenizer(folder)
        self.max_tokens = max_tokens
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)
        self._unlimited: Any = None

    def __call__(self, texts: Sequence[str]) -> Batch:
        """Tokenize; each text gets its special tokens."""
        return self._batch(texts, self._tokenizer)

    def uncut(self, texts: Sequence[str]) -> Batch:
        """The same, whatever the lengths."""
        return self._batch(texts, self._without_limit())

    def _batch(self, texts: Sequence[str], tokenizer: Any) -> Batch:
        encodings = tokenizer.encode_batch([_SURROGATE.sub("\ufffd", text) for text in texts])
        bounds = np.concatenate([[0], np.cumsum([len(each.ids) for each in encodings])]).astype(np.int64)
        ids = np.concatenate([each.ids for each in encodings]).astype(np.int64)
        spans = np.array(
            [_trimmed(text, *pair) for text, e in zip(texts, encodings, strict=True) for pair in e.offsets]
        )
        return Batch(ids, bounds, *spans.reshape(-1, 2).T.astype(np.int64))

    def save(self, path: Path) -> None:
        """Write it as tokenizer.json."""
        self._without_limit().save(str(path))

    def _without_limit(self) -> Any:
        """A copy, for another thread may be cutting texts with this one."""
        if self._unlimited is None:
            made = type(self._tokenizer).from_str(self._tokenizer.to_str())
            made.no_truncation()
            self._unlimited = made
        return self._unlimited


def _fast_tokenizer(folder: str | Path) -> Any:
    from tokenizers import Tokenizer as Fast

    path = Path(folder) / "tokenizer.json"
    try:
        if path.is_file():  # transformers would guess the kind from the architecture, wrongly for some folders
            return Fast.from_file(str(path))
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False).backend_tokenizer
    except Exception as error:  # tokenizers raises bare Exceptions
        raise ModelError(f"{folder}: no fast tokenizer ({_line(error)}); give a folder with tokenizer.json") from error


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    return start, end


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


def token_rows(batch: Batch, text: int, starts: Rows, ends: Rows) -> tuple[Rows, Rows, NDArray[np.bool_]]:
    """Rows of the first and last token of the character spans of one text, and whether the span is all there.

    A span is not there where it lies beyond the longest length, or has no token of its own.
    """
    low, high = int(batch.bounds[text]) + 1, int(batch.bounds[text + 1]) - 1  # between the special tokens
    first = np.searchsorted(batch.ends[low:high], starts, side="right")
    last = np.searchsorted(batch.starts[low:high], ends, side="left") - 1
    whole = (first <= last) & (last < high - low)
    whole &= batch.ends[low:high].max(initial=0) >= ends
    return first + low, last + low, whole


def longest_text(folder: str | Path) -> int:
    """How many tokens an encoder takes, the special ones included. Raises ModelError where there is none."""
    from transformers import AutoConfig

    with _as_model_error(folder):
        return _positions(AutoConfig.from_pretrained(str(folder), trust_remote_code=False))


def _positions(config: Any) -> int:
    """Of a text; some families do not use the first ones."""
    unused = (int(config.pad_token_id or 0) + 1) * FAMILIES.get(config.model_type, 0)
    return int(config.max_position_embeddings) - unused


@contextmanager
def _as_model_error(folder: str | Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, KeyError, AttributeError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"{folder}: no encoder that transformers loads ({_line(error)})") from error


def _loaded(folder: str | Path, options: dict[str, Any]) -> Any:
    """The encoder; ModelError where it is none or lacks weights, which transformers would draw at random."""
    from transformers import AutoConfig, AutoModel
    from transformers.utils import logging

    told = logging.get_verbosity()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    options = {**options, "output_loading_info": True, "use_safetensors": True}  # no pickles
    options["trust_remote_code"] = False  # of the folder; transformers would ask on the terminal whether to run it
    try:
        with _as_model_error(folder):
            family = AutoConfig.from_pretrained(str(folder), trust_remote_code=False).model_type
            if family not in FAMILIES:
                raise ModelUnsupported(f"{folder}: model_type {family!r}; expected one of {', '.join(FAMILIES)}")
            found = AutoModel.from_pretrained(str(folder), dtype=torch.float32, **options)
    finally:
        logging.set_verbosity(told)
    encoder, info = found
    lacking = sorted(name for name in info["missing_keys"] if not name.startswith("pooler."))
    if lacking:
        raise ModelError(f"{folder}: {len(lacking)} weights are not there, such as {lacking[0]}; download it again")
    return encoder


class Backbone(nn.Module):
    """An encoder of the BERT or XLM-R family that `transformers` loads; the last layer's states.

    ``frozen``: how many of the lowest layers are not trained (the token table never is: the exported one has 4 bit,
    and a word that the training text lacks would be left behind). ``dropout``: None keeps the encoder's own.
    """

    def __init__(self, folder: str | Path, frozen: int = 0, dropout: float | None = None) -> None:
        super().__init__()
        options: dict[str, Any] = {}
        if dropout is not None:
            if not 0 <= dropout < 1:
                raise InputError(f"[model] dropout: {dropout}; expected 0 to below 1")
            options = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
        self.encoder: Any = _loaded(folder, options)
        self.width = int(self.encoder.config.hidden_size)
        layers: Any = self.encoder.encoder.layer
        if not 0 <= frozen < len(layers):
            raise InputError(f"frozen layers: {frozen}; expected 0 to {len(layers) - 1}")
        self.encoder.pooler = None
        for part in (self.encoder.embeddings, *layers[:frozen]):
            part.requires_grad_(False)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.parameters()).device

    def chunks(self, batch: Batch, tokens: int) -> Iterator[Chunk]:
        """The batch in pieces of at most ``tokens`` padded tokens (a longer text is a piece of its own)."""
        padding = int(self.encoder.config.pad_token_id or 0)
        for texts, mask in grouped(batch.bounds, tokens):
            ids, rows = padded(batch.ids, batch.bounds, texts, mask, padding)
            yield Chunk(*(torch.from_numpy(each).to(self.device) for each in (ids, mask, rows)))

    def forward(self, chunk: Chunk) -> Tensor:
        """(tokens, width): the states of a chunk's tokens, padding left out, as ``chunk.rows`` has them."""
        states = self.encoder(input_ids=chunk.ids, attention_mask=chunk.mask.long()).last_hidden_state
        kept: Tensor = states[chunk.mask]
        return kept

    def states(self, batch: Batch, tokens: int) -> Tensor:
        """(tokens, width) float32 states of a batch, in its order, as one graph."""
        chunks = list(self.chunks(batch, tokens))
        return gathered([self(chunk) for chunk in chunks], [chunk.rows for chunk in chunks])


def grouped(bounds: Rows, tokens: int) -> Iterator[tuple[Rows, NDArray[np.bool_]]]:
    """The texts whose tokens begin and end at ``bounds``, by length, in groups of at most ``tokens`` padded tokens (a
    longer text alone): which texts, and (texts, longest) which tokens there are.
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
    made = np.full(mask.shape, padding, np.int64)
    made[mask] = ids[rows]
    return made, rows


def save_encoder(encoder: Any, tokenizer: Tokenizer, base: str | Path, folder: Path) -> None:
    """Write the encoder into a Hugging Face folder, with the tokenizer of its base, unchanged where it can be."""
    encoder.save_pretrained(folder)
    for weights in folder.glob("*.safetensors"):
        unlock(weights)
    made, known = folder / "tokenizer.json", Path(base) / "tokenizer.json"
    if known.is_file():
        shutil.copyfile(known, made)
    else:
        tokenizer.save(made)
    settings = tokenizer_settings(made.read_bytes()) | {"model_max_length": _positions(encoder.config)}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")

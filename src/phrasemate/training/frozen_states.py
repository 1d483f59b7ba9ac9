"""Split an encoder into frozen and trained layers, and cache the outputs of the frozen ones on disk.

The lower layers, `Lower`, are frozen; the upper ones, `Upper`, are trained. The last layer computes only the states of
the requested tokens, which takes about a sixth of the work; all other tokens are only keys and values. The layers are
those of `transformers` (BERT, RoBERTa, CamemBERT, XLM-R). Encoders of other families, and those with a trained token
table, are not split; `TokenNumbers` and `WholeEncoder` then replace the two parts.

`Feed` caches the outputs of `Lower` for contexts of phrases as float16, one row per token, memory-mapped. There is one
file for each split of a language pair. Its name is a hash of the weights of the lower layers, the tokens and the
precision, so several runs can share it. A file gets its name when it is complete. Its last four bytes are the CRC-32 of
the others; a file with a wrong checksum is computed again.

`sentence_states` caches the token states of whole sentences for a re-ranker, in three files: KEY.values.npy
(tokens, width) float16 without special tokens, KEY.bounds.npy and KEY.vectors.npy. KEY is a hash of the sentences and
the encoder. Each file ends with a checksum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn
from zlib import crc32

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from phrasemate.encode import Model
from phrasemate.encode.export.hf_folder import FAMILIES
from phrasemate.encode.export.traced_graph import keep_layers, layers_of
from phrasemate.errors import InputError, ModelUnsupported
from phrasemate.reranker import sentence_blocks
from phrasemate.training.example_data import ContextBatch, Contexts
from phrasemate.training.hf_encoder import Backbone, grouped, padded
from phrasemate.types import Progress
from phrasemate.utils.arrays import Halves, Integers
from phrasemate.utils.storage import atomic_file


def halves(backbone: Backbone, frozen: int, layer: int = 0) -> tuple[Lower | TokenNumbers, Upper | WholeEncoder]:
    """Split an encoder into its lower ``frozen`` layers and those above, up to ``layer`` (0: the last).

    With ``frozen`` 0, the lower part is the token embeddings. Layers above ``layer`` are removed from the encoder. An
    encoder of another family, or with a trained token table, is not split: the second part is the whole encoder.

    Raises InputError unless 0 <= frozen < layer.
    """
    encoder, depth = backbone.encoder, backbone.depth
    layer = layer or depth
    if not 0 <= frozen < layer <= depth:
        raise InputError(f"frozen {frozen}, layer {layer}; expected 0 <= frozen < layer <= {depth}")
    keep_layers(encoder, layer)
    trained_table = any(value.requires_grad for value in encoder.get_input_embeddings().parameters())
    if encoder.config.model_type not in FAMILIES or trained_table:
        if frozen:
            layers_of(encoder)[:frozen].requires_grad_(False)
        return TokenNumbers(encoder), WholeEncoder(encoder)
    layers = list(encoder.encoder.layer)
    return Lower(encoder.embeddings, layers[:frozen]), Upper(layers[frozen:])


class TokenNumbers:
    """Substitute for `Lower` that returns token ids (texts, tokens) unchanged, for an encoder that is not split."""

    def __init__(self, encoder: Any) -> None:
        self._parameter: Tensor = next(encoder.parameters())
        self._name, self.width = type(encoder).__name__, int(encoder.config.hidden_size)

    @property
    def device(self) -> torch.device:
        """Return the device of the encoder."""
        return self._parameter.device

    def __call__(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the token ids."""
        return ids

    def digest(self) -> NoReturn:
        """Raise ModelUnsupported: an encoder that is not split has no frozen states to cache."""
        raise ModelUnsupported(
            f"{self._name}: states of its lower layers cannot be kept; give model.kept = false (only BERT, RoBERTa, "
            "CamemBERT and XLM-R with frozen embeddings can keep them)"
        )


class WholeEncoder(nn.Module):
    """Substitute for `Upper` that runs the whole encoder on token ids (texts, tokens)."""

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, ids: Tensor, mask: Tensor, first: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the states of the last layer as `Upper.forward` does, from token ids."""
        states: Tensor = self.encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        rows, valid = _stretch(first, last)
        return states.gather(1, rows[:, :, None].expand(-1, -1, states.shape[2])), valid


def _stretch(first: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
    """List the tokens from ``first`` to ``last`` (texts,), included, of each text, (texts, longest), and their mask."""
    rows = first[:, None] + torch.arange(int((last - first).max()) + 1, device=first.device)
    return torch.minimum(rows, last[:, None]), rows <= last[:, None]


class Lower(nn.Module):
    """Frozen lower layers: token ids (texts, tokens) to states (texts, tokens, width), without gradient or dropout."""

    def __init__(self, embeddings: Any, layers: list[nn.Module]) -> None:
        super().__init__()
        self.embeddings, self.layers = embeddings, nn.ModuleList(layers)
        self.width = int(embeddings.LayerNorm.weight.shape[0])
        self.requires_grad_(False).eval()

    @property
    def device(self) -> torch.device:
        """Return the device of the layers."""
        return next(self.parameters()).device

    @torch.no_grad()
    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Compute the states of token ids; ``mask`` (texts, tokens) is true for tokens that are not padding."""
        states: Tensor = self.embeddings(input_ids=ids)
        for layer in self.layers:
            states = layer_states(layer, states, states, mask)
        return states

    def digest(self) -> str:
        """Return the SHA-256 of all weights, which identifies the states that they give."""
        hasher = sha256()
        for name, value in sorted(self.state_dict().items()):
            hasher.update(f"{name} {tuple(value.shape)}\n".encode())
            hasher.update(value.detach().cpu().float().contiguous().numpy().data)
        return hasher.hexdigest()


class Upper(nn.Module):
    """Trained upper layers: states (texts, tokens, width) to the last layer's states of a span of each text."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, states: Tensor, mask: Tensor, first: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the states of the tokens ``first`` to ``last`` (texts,), included, of each text.

        Returns them padded, (texts, longest, width), and their mask (texts, longest).
        """
        for layer in list(self.layers)[:-1]:
            states = layer_states(layer, states, states, mask)
        rows, valid = _stretch(first, last)
        queries = states.gather(1, rows[:, :, None].expand(-1, -1, states.shape[2]))
        return layer_states(self.layers[-1], queries, states, mask), valid


def layer_states(layer: Any, queries: Tensor, states: Tensor, mask: Tensor) -> Tensor:
    """Run one layer for some tokens of each text, and return their states (texts, n, width).

    ``queries`` (texts, n, width) are the states of these tokens before the layer, and ``states`` (texts, tokens, width)
    those of all tokens. ``mask`` (texts, tokens) is true for tokens that are not padding.
    """
    attention = layer.attention.self

    def split(values: Tensor) -> Tensor:  # (texts, heads, n, width of a head)
        return values.reshape(*values.shape[:2], int(attention.num_attention_heads), -1).transpose(1, 2)

    q, k, v = split(attention.query(queries)), split(attention.key(states)), split(attention.value(states))
    visible = mask[:, None, None, :]
    if q.is_cuda:
        share = attention.dropout.p if attention.training else 0.0
        mixture = functional.scaled_dot_product_attention(q, k, v, attn_mask=visible, dropout_p=share)
    else:  # faster on the CPU for short texts
        scores = (q @ k.transpose(2, 3)).float() * attention.attention_head_size**-0.5  # (texts, heads, n, tokens)
        mixture = attention.dropout(scores.masked_fill(~visible, -torch.inf).softmax(-1)).to(v.dtype) @ v
    attention_output = layer.attention.output(mixture.transpose(1, 2).flatten(2), queries)
    output: Tensor = layer.output(layer.intermediate(attention_output), attention_output)
    return output


BLOCK = 2_048  # contexts that are computed between two writes
_SUM = 4  # bytes of the checksum at the end of a file


class Piece(NamedTuple):
    """Padded contexts, a part of those of a step.

    Args:
        values: Token ids (texts, tokens), or cached states (texts, tokens, width).
        mask: Mask of tokens that are not padding, (texts, tokens).
        first, last: First and last token of each phrase, (texts,).
        places: Numbers of the contexts in the step, (texts,).
    """

    values: NDArray[Any]
    mask: NDArray[np.bool_]
    first: Integers
    last: Integers
    places: Integers


class Inputs(NamedTuple):
    """Piece on the device of the model, with ``states`` (texts, tokens, width) float32 of the lower layers.

    For an encoder that is not split, ``states`` are the token ids (texts, tokens).
    """

    states: Tensor
    mask: Tensor
    first: Tensor
    last: Tensor
    places: Tensor


class Feed:
    """Source of the inputs of `Upper`: splits the contexts of a step into pieces, and gives their lower states.

    Args:
        files: Contexts of all files.
        lower: Lower layers.
        padding: Id of the padding token.
        chunk: Maximum number of padded tokens in a piece.
        autocast: Context manager that sets the precision of the lower layers.
    """

    def __init__(
        self,
        files: Sequence[Contexts],
        lower: Lower | TokenNumbers,
        padding: int,
        chunk: int,
        autocast: Callable[[], Any],
    ) -> None:
        self.files, self.lower, self.padding, self.chunk, self.autocast = files, lower, padding, chunk, autocast
        self._kept: list[Halves] = []

    def keep(self, folder: Path, precision: str, show: Progress = lambda label, step, total: None) -> None:
        """Cache the lower states of all contexts in files in ``folder``; missing files are computed.

        ``precision`` is the name of the precision that ``autocast`` sets. Raises InputError if a file cannot be
        written.
        """
        folder.mkdir(parents=True, exist_ok=True)
        weights = f"{self.lower.digest()} {precision}\n".encode()
        for contexts in self.files:
            hasher = sha256(weights)
            for array in (contexts.ids, contexts.bounds):
                hasher.update(np.ascontiguousarray(array).data)
            path = folder / f"{contexts.name.replace(' ', '-')}-{hasher.hexdigest()[:16]}.npy"
            self._kept.append(self._opened(path, contexts, show))

    def pieces(self, sampled: ContextBatch) -> list[Piece]:
        """Split the contexts of a step into pieces of similar lengths, on the CPU."""
        pieces = []
        for places, mask in grouped(sampled.bounds, self.chunk):
            if self._kept:
                values: NDArray[Any] = self._gathered(sampled, places, mask)
            else:
                values = padded(sampled.ids, sampled.bounds, places, mask, self.padding)[0]
            pieces.append(Piece(values, mask, sampled.first[places], sampled.last[places], places))
        return pieces

    def inputs(self, piece: Piece) -> Inputs:
        """Move a piece to the device, and compute its lower states unless they are cached."""
        device = self.lower.device
        values, *further = (torch.from_numpy(array).to(device) for array in piece)
        if not values.is_floating_point():
            with self.autocast():
                values = self.lower(values, further[0])
        return Inputs(values.float() if values.is_floating_point() else values, *further)

    def _gathered(self, sampled: ContextBatch, places: Integers, mask: NDArray[np.bool_]) -> Halves:
        """Read the cached states of some contexts of a step, padded, (texts, tokens, width)."""
        values = np.zeros((*mask.shape, self._kept[0].shape[1]), np.float16)
        for row, (file, number) in enumerate(zip(sampled.file[places], sampled.number[places], strict=True)):
            low, high = self.files[file].bounds[number : number + 2]
            values[row, : high - low] = self._kept[file][low:high]
        return values

    def _opened(self, path: Path, contexts: Contexts, show: Progress) -> Halves:
        """Open the cached states of a file, computed first if they are missing."""
        shape = (len(contexts.ids), self.lower.width)
        states = _read(path, shape)
        if states is None:
            with FileLock(path.with_suffix(".lock")):  # another run may be writing the file
                states = _read(path, shape)
                if states is None:
                    self._write(path, shape, contexts, show)
                    states = np.lib.format.open_memmap(path, mode="r")
        return states

    def _write(self, path: Path, shape: tuple[int, int], contexts: Contexts, show: Progress) -> None:
        """Compute the lower states of a file's contexts, and write them."""
        total = len(contexts.first)
        with checked_file(path) as file:  # not memory-mapped: a full disk would then kill the process
            file.write(_header(shape))
            for at in range(0, total, BLOCK):
                show(f"states of {contexts.name}", at, total)
                file.write(self._computed(contexts, at, min(at + BLOCK, total)).data)
        show(f"states of {contexts.name}", total, total)

    def _computed(self, contexts: Contexts, start: int, stop: int) -> Halves:
        """Compute the lower states of the contexts ``start`` to ``stop``, (tokens, width)."""
        bounds = contexts.bounds[start : stop + 1]
        ids, bounds = contexts.ids[bounds[0] : bounds[-1]], bounds - bounds[0]
        states = np.empty((len(ids), self.lower.width), np.float16)
        for places, mask in grouped(bounds, self.chunk):
            values, rows = padded(ids, bounds, places, mask, self.padding)
            outputs = self.inputs(Piece(values, mask, places, places, places)).states
            states[rows] = outputs.cpu().numpy()[mask]
        return states


@contextmanager
def checked_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that gets its CRC-32 as its last bytes, and its name when it is complete.

    Raises InputError if it cannot be written; no part of it is left then.
    """
    try:
        with atomic_file(path, "wb+") as file:
            yield file
            size = file.tell()
            file.seek(0)
            checksum = _checksum(file, size)
            file.seek(size)
            file.write(checksum)
    except BrokenPipeError:  # raised by a callback that prints the progress
        raise
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{path}: cannot be written ({reason}); check free space and permissions") from error


def checksum_holds(path: Path) -> bool:
    """Return whether a file ends with the CRC-32 of its other bytes. Raises OSError if it cannot be read."""
    with path.open("rb") as file:
        size = path.stat().st_size - _SUM
        return size >= 0 and _checksum(file, size) == file.read(_SUM)


def _checksum(file: IO[bytes], size: int) -> bytes:
    """Return the CRC-32 of the next ``size`` bytes of a file."""
    value = 0
    while size and (block := file.read(min(size, 1 << 20))):
        value, size = crc32(block, value), size - len(block)
    return value.to_bytes(_SUM, "little")


def _read(path: Path, shape: tuple[int, int]) -> Halves | None:
    """Open cached states; return None if the file is missing, incomplete, or altered."""
    try:
        header = _header(shape)
        with path.open("rb") as file:  # the header is compared before NumPy interprets it
            if file.read(len(header)) != header or not checksum_holds(path):
                return None
        states: Halves = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError):
        return None
    return states


def _header(shape: tuple[int, int]) -> bytes:
    """Return the header of a .npy file of float16 numbers."""
    file = BytesIO()
    form = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.float16)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, form)
    return file.getvalue()


FORMAT = "2"  # version of the files of `sentence_states`
SentenceProgress = Callable[[int, int], None]  # called with the number of sentences that are done, and the total


class SentenceStates(NamedTuple):
    """Token states of sentences, without special tokens.

    Args:
        values: States (tokens, width) float16; sentence i has the rows ``bounds[i]:bounds[i + 1]``.
        bounds: First row of each sentence, and the total, (sentences + 1,).
        vectors: Unit sentence vectors of the encoder, (sentences, width) float32.
    """

    values: NDArray[np.float16]
    bounds: NDArray[np.int64]
    vectors: NDArray[np.float32]

    def tokens(self, sentence: int) -> NDArray[np.float16]:
        """Return the states of a sentence, (T, width)."""
        return self.values[self.bounds[sentence] : self.bounds[sentence + 1]]


def sentence_states(
    model: Model, texts: Sequence[str], folder: Path, progress: SentenceProgress = lambda step, total: None
) -> SentenceStates:
    """Return the states of sentences from the cache in ``folder``; missing or damaged files are computed and written.

    Raises InputError if a file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    key = sha256("\n".join([FORMAT, model.hash, *texts]).encode("utf-8", "replace")).hexdigest()[:24]
    paths = {name: folder / f"{key}.{name}.npy" for name in ("vectors", "bounds", "values")}
    cached_states = _read_sentence_states(paths)
    if cached_states is None:
        with FileLock(folder / f"{key}.lock"):  # another run may be writing the files
            cached_states = _read_sentence_states(paths)
            if cached_states is None:
                new_states = _compute_sentence_states(model, texts, progress)
                for name, path in paths.items():
                    with checked_file(path) as file:
                        np.save(file, getattr(new_states, name))
                cached_states = _read_sentence_states(paths) or new_states  # memory-mapped, which frees memory
    return cached_states


def _compute_sentence_states(model: Model, texts: Sequence[str], progress: SentenceProgress) -> SentenceStates:
    """Encode sentences, and return their states."""
    values, vectors = [], []
    progress(0, len(texts))
    for block, block_vectors in sentence_blocks(model, texts):
        values += [states.astype(np.float16) for states in block]
        vectors.append(block_vectors)
        progress(len(values), len(texts))
    bounds = np.concatenate([[0], np.cumsum([len(states) for states in values])]).astype(np.int64)
    return SentenceStates(np.concatenate(values), bounds, np.concatenate(vectors))


def _read_sentence_states(paths: dict[str, Path]) -> SentenceStates | None:
    """Read cached states of sentences; return None if a file is missing or altered."""
    try:
        if not all(checksum_holds(path) for path in paths.values()):
            return None
        return SentenceStates(
            **{name: np.load(path, mmap_mode="r" if name == "values" else None) for name, path in paths.items()}
        )
    except (OSError, ValueError):
        return None

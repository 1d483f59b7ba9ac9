"""The lower layers of an encoder, which training leaves as they are, and a cache of their outputs on disk.

An encoder is cut in two: `Lower` is frozen, `Upper` is trained. Of the topmost layer only the states of the wanted
tokens are computed: the others are keys and values, which is a sixth of the work. The layers are those of
`transformers` (BERT, RoBERTa, CamemBERT, XLM-R); only the way through them is ours. Encoders of other families, and
those whose token table is trained, are not cut: `TokenNumbers` and `WholeEncoder` take the two places.

`Feed` caches what `Lower` gives for contexts of phrases: half-precision floats, one row a token, mapped into memory.
There is one file for each split of a language pair. Its name is a hash of the weights of the lower layers, the tokens
and the precision, so that many runs share it. A file has its name only once it is complete; its last four bytes are the
CRC-32 of those before, and one that does not match is made again.

`sentence_states` caches the token states of whole sentences for a re-ranker, in three files: KEY.values.npy
(tokens, width) float16 without the special tokens, KEY.bounds.npy, KEY.vectors.npy. KEY is a hash of the sentences and
the encoder. Each file has a checksum at its end.
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
    """The layers up to ``frozen`` (0: the token vectors), and those from there to ``layer`` (0: the last).

    What is above is taken out of the encoder. An encoder of another family than those of the written graph, and one
    whose token table is trained, is not cut: the second part is all of it.

    Raises InputError where nothing is between the two.
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
    """Token numbers (texts, tokens), as they are: what an encoder that is not cut takes in."""

    def __init__(self, encoder: Any) -> None:
        self._parameter: Tensor = next(encoder.parameters())
        self._name, self.width = type(encoder).__name__, int(encoder.config.hidden_size)

    @property
    def device(self) -> torch.device:
        """Device of the encoder."""
        return self._parameter.device

    def __call__(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The numbers."""
        return ids

    def digest(self) -> NoReturn:
        """Raises ModelUnsupported: this method has no frozen states to store."""
        raise ModelUnsupported(
            f"{self._name}: states of its lower layers are not kept; give model.kept = false (BERT, RoBERTa, CamemBERT "
            "and XLM-R with frozen embeddings have them)"
        )


class WholeEncoder(nn.Module):
    """Token numbers (texts, tokens) -> states of the last layer, of one stretch of tokens in each text."""

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, ids: Tensor, mask: Tensor, first: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        """See `Upper.forward`."""
        states: Tensor = self.encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        rows, valid = _stretch(first, last)
        return states.gather(1, rows[:, :, None].expand(-1, -1, states.shape[2])), valid


def _stretch(first: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
    """(texts, longest) the tokens from ``first`` to ``last`` (texts,), inclusive, and which of these there are."""
    rows = first[:, None] + torch.arange(int((last - first).max()) + 1, device=first.device)
    return torch.minimum(rows, last[:, None]), rows <= last[:, None]


class Lower(nn.Module):
    """Token numbers (texts, tokens) -> states after the lower layers (texts, tokens, width), without gradient and
    dropout.
    """

    def __init__(self, embeddings: Any, layers: list[nn.Module]) -> None:
        super().__init__()
        self.embeddings, self.layers = embeddings, nn.ModuleList(layers)
        self.width = int(embeddings.LayerNorm.weight.shape[0])
        self.requires_grad_(False).eval()

    @property
    def device(self) -> torch.device:
        """Device that computes the states."""
        return next(self.parameters()).device

    @torch.no_grad()
    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """``mask`` (texts, tokens) bool: which are not padding."""
        states: Tensor = self.embeddings(input_ids=ids)
        for layer in self.layers:
            states = layer_states(layer, states, states, mask)
        return states

    def digest(self) -> str:
        """SHA-256 of all its weights: equal digests, equal states."""
        hasher = sha256()
        for name, value in sorted(self.state_dict().items()):
            hasher.update(f"{name} {tuple(value.shape)}\n".encode())
            hasher.update(value.detach().cpu().float().contiguous().numpy().data)
        return hasher.hexdigest()


class Upper(nn.Module):
    """States (texts, tokens, width) -> states of the last layer, of one stretch of tokens in each text."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, states: Tensor, mask: Tensor, first: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        """The states of the tokens ``first`` to ``last`` (texts,), inclusive: (texts, longest, width), and which of
        these there are (texts, longest) bool.
        """
        for layer in list(self.layers)[:-1]:
            states = layer_states(layer, states, states, mask)
        rows, valid = _stretch(first, last)
        queries = states.gather(1, rows[:, :, None].expand(-1, -1, states.shape[2]))
        return layer_states(self.layers[-1], queries, states, mask), valid


def layer_states(layer: Any, queries: Tensor, states: Tensor, mask: Tensor) -> Tensor:
    """(texts, n, width): the states after a layer of the tokens ``queries`` (texts, n, width) of the texts ``states``
    (texts, tokens, width), of which ``mask`` (texts, tokens) are not padding.
    """
    attention = layer.attention.self

    def split(values: Tensor) -> Tensor:  # (texts, heads, n, width of a head)
        return values.reshape(*values.shape[:2], int(attention.num_attention_heads), -1).transpose(1, 2)

    q, k, v = split(attention.query(queries)), split(attention.key(states)), split(attention.value(states))
    visible = mask[:, None, None, :]
    if q.is_cuda:
        share = attention.dropout.p if attention.training else 0.0
        mixture = functional.scaled_dot_product_attention(q, k, v, attn_mask=visible, dropout_p=share)
    else:  # faster there for short texts
        scores = (q @ k.transpose(2, 3)).float() * attention.attention_head_size**-0.5  # (texts, heads, n, tokens)
        mixture = attention.dropout(scores.masked_fill(~visible, -torch.inf).softmax(-1)).to(v.dtype) @ v
    attention_output = layer.attention.output(mixture.transpose(1, 2).flatten(2), queries)
    output: Tensor = layer.output(layer.intermediate(attention_output), attention_output)
    return output


BLOCK = 2_048  # contexts computed between two writes
_SUM = 4  # bytes of the checksum at the end


class Piece(NamedTuple):
    """Padded contexts of a step.

    Args:
        values: Token numbers (texts, tokens), or cached states (texts, tokens, width).
        mask: (texts, tokens) bool.
        first, last: (texts,) the phrase's tokens.
        places: (texts,) which contexts of the step they are.
    """

    values: NDArray[Any]
    mask: NDArray[np.bool_]
    first: Integers
    last: Integers
    places: Integers


class Inputs(NamedTuple):
    """A piece on the device: ``states`` (texts, tokens, width) float32, and the rest of it.

    For an encoder that is not cut, ``states`` are the token numbers (texts, tokens).
    """

    states: Tensor
    mask: Tensor
    first: Tensor
    last: Tensor
    places: Tensor


class Feed:
    """Cuts a step's contexts into pieces of at most ``chunk`` padded tokens, and gives their lower states.

    ``padding``: the number of the padding token; ``autocast``: the precision of the lower layers.
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
        """Read from now on the lower states of all contexts from files in ``folder``; those that lack are made.

        ``precision``: the name of what ``autocast`` computes in. Raises InputError where a file cannot be written.
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
        """The contexts of a step, by length; needs no device."""
        pieces = []
        for places, mask in grouped(sampled.bounds, self.chunk):
            if self._kept:
                values: NDArray[Any] = self._gathered(sampled, places, mask)
            else:
                values = padded(sampled.ids, sampled.bounds, places, mask, self.padding)[0]
            pieces.append(Piece(values, mask, sampled.first[places], sampled.last[places], places))
        return pieces

    def inputs(self, piece: Piece) -> Inputs:
        """A piece on the device, in the states after the lower layers."""
        device = self.lower.device
        values, *further = (torch.from_numpy(array).to(device) for array in piece)
        if not values.is_floating_point():
            with self.autocast():
                values = self.lower(values, further[0])
        return Inputs(values.float() if values.is_floating_point() else values, *further)

    def _gathered(self, sampled: ContextBatch, places: Integers, mask: NDArray[np.bool_]) -> Halves:
        values = np.zeros((*mask.shape, self._kept[0].shape[1]), np.float16)
        for row, (file, number) in enumerate(zip(sampled.file[places], sampled.number[places], strict=True)):
            low, high = self.files[file].bounds[number : number + 2]
            values[row, : high - low] = self._kept[file][low:high]
        return values

    def _opened(self, path: Path, contexts: Contexts, show: Progress) -> Halves:
        shape = (len(contexts.ids), self.lower.width)
        states = _read(path, shape)
        if states is None:
            with FileLock(path.with_suffix(".lock")):  # another run may be at it
                states = _read(path, shape)
                if states is None:
                    self._write(path, shape, contexts, show)
                    states = np.lib.format.open_memmap(path, mode="r")
        return states

    def _write(self, path: Path, shape: tuple[int, int], contexts: Contexts, show: Progress) -> None:
        total = len(contexts.first)
        with checked_file(path) as file:  # not a map: a full disk is an error here, and there the end of the process
            file.write(_header(shape))
            for at in range(0, total, BLOCK):
                show(f"states of {contexts.name}", at, total)
                file.write(self._computed(contexts, at, min(at + BLOCK, total)).data)
        show(f"states of {contexts.name}", total, total)

    def _computed(self, contexts: Contexts, start: int, stop: int) -> Halves:
        """(tokens, width) of some contexts."""
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
    """A file that is written beside its place, gets the CRC-32 of what is in it as its end, and is put there whole.

    Raises InputError if it cannot be written; nothing of it is left then.
    """
    try:
        with atomic_file(path, "wb+") as file:
            yield file
            size = file.tell()
            file.seek(0)
            checksum = _checksum(file, size)
            file.seek(size)
            file.write(checksum)
    except BrokenPipeError:  # of who listens to the progress
        raise
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{path}: cannot be written ({reason}); check free space and permissions") from error


def checksum_holds(path: Path) -> bool:
    """Whether a file ends with the CRC-32 of what is before. Raises OSError."""
    with path.open("rb") as file:
        size = path.stat().st_size - _SUM
        return size >= 0 and _checksum(file, size) == file.read(_SUM)


def _checksum(file: IO[bytes], size: int) -> bytes:
    """Checksum of the next so many bytes of a file."""
    value = 0
    while size and (block := file.read(min(size, 1 << 20))):
        value, size = crc32(block, value), size - len(block)
    return value.to_bytes(_SUM, "little")


def _read(path: Path, shape: tuple[int, int]) -> Halves | None:
    """The kept states; nothing where there are none, not all of them, or others than were written."""
    try:
        header = _header(shape)
        with path.open("rb") as file:  # NumPy would make of a header that is not ours whatever it says
            if file.read(len(header)) != header or not checksum_holds(path):
                return None
        states: Halves = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError):
        return None
    return states


def _header(shape: tuple[int, int]) -> bytes:
    file = BytesIO()
    form = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.float16)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, form)
    return file.getvalue()


FORMAT = "2"
SentenceProgress = Callable[[int, int], None]  # sentences done, of how many


class SentenceStates(NamedTuple):
    """Sentence i has the rows ``bounds[i]:bounds[i + 1]`` of ``values`` (tokens, width) float16; ``vectors``
    (sentences, width) float32 are the encoder's sentence vectors, of unit length.
    """

    values: NDArray[np.float16]
    bounds: NDArray[np.int64]
    vectors: NDArray[np.float32]

    def tokens(self, sentence: int) -> NDArray[np.float16]:
        """(T, width) states of a sentence."""
        return self.values[self.bounds[sentence] : self.bounds[sentence + 1]]


def sentence_states(
    model: Model, texts: Sequence[str], folder: Path, progress: SentenceProgress = lambda step, total: None
) -> SentenceStates:
    """The states of the sentences, read from the folder; made and written there where they are not, or not whole.

    Raises InputError where a file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    key = sha256("\n".join([FORMAT, model.hash, *texts]).encode("utf-8", "replace")).hexdigest()[:24]
    paths = {name: folder / f"{key}.{name}.npy" for name in ("vectors", "bounds", "values")}
    cached_states = _read_sentence_states(paths)
    if cached_states is None:
        with FileLock(folder / f"{key}.lock"):  # another run may be at it
            cached_states = _read_sentence_states(paths)
            if cached_states is None:
                new_states = _compute_sentence_states(model, texts, progress)
                for name, path in paths.items():
                    with checked_file(path) as file:
                        np.save(file, getattr(new_states, name))
                cached_states = _read_sentence_states(paths) or new_states  # mapped, not in memory
    return cached_states


def _compute_sentence_states(model: Model, texts: Sequence[str], progress: SentenceProgress) -> SentenceStates:
    values, vectors = [], []
    progress(0, len(texts))
    for block, block_vectors in sentence_blocks(model, texts):
        values += [states.astype(np.float16) for states in block]
        vectors.append(block_vectors)
        progress(len(values), len(texts))
    bounds = np.concatenate([[0], np.cumsum([len(states) for states in values])]).astype(np.int64)
    return SentenceStates(np.concatenate(values), bounds, np.concatenate(vectors))


def _read_sentence_states(paths: dict[str, Path]) -> SentenceStates | None:
    """Nothing where one is not there, or is not as it was written."""
    try:
        if not all(checksum_holds(path) for path in paths.values()):
            return None
        return SentenceStates(
            **{name: np.load(path, mmap_mode="r" if name == "values" else None) for name, path in paths.items()}
        )
    except (OSError, ValueError):
        return None

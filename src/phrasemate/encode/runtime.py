"""Inference without torch: text to token states with character offsets.

NumPy looks up the token vectors. The transformer runs in OpenVINO, or on NVIDIA cards, which OpenVINO does not support,
in ONNX Runtime. Texts of similar length share a batch; batches are small (about 512 tokens), so that a layer's
activations stay in the processor's cache. Texts longer than the model's maximum are cut into overlapping windows. One
thread computes each batch, so the result does not depend on the number of threads.

Most of a small multilingual encoder is its token table: 250,002 x 384 values take 384 MB in float32 and 54 MB here, in
4 bits. The file is memory-mapped, so only the rows in use are read.
"""

from __future__ import annotations

import json
import os
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from hashlib import sha256
from importlib import import_module
from math import gcd, prod
from mmap import ACCESS_READ, mmap
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode import model_folder as names
from phrasemate.encode.model_folder import output_name
from phrasemate.encode.tokenizer import BLANK, Tokens, open_tokenizer
from phrasemate.errors import InputError, ModelDamaged, ModelError, ModelUnsupported, first_line, needs_extra
from phrasemate.text.normalize import visible, visible_places
from phrasemate.types import thread_count
from phrasemate.utils.machine import cache_folder, check_memory, cores
from phrasemate.utils.storage import atomic_file, map_arrays

CONVERTER = "openvino.tools.ovc"
BLOCK = 32  # values that share one scale; 4.5 bits a value with a float16 scale


def quantise(table: NDArray[np.float32], bits: int) -> dict[str, NDArray[Any]]:
    """Quantise a (rows, dim) table to ``codes`` and float16 ``scales``, one scale for each block of 32 values.

    4 bits: value = scale x (code - 8), two codes a byte. The value of largest magnitude in a block gets code 0 (-8
    scales), so that a table quantised before is reproduced to the bit. 8 bits: value = scale x code, code -127 to 127.
    16 bits: the codes are float16 values, without scales. Raises ModelUnsupported if blocks do not divide the rows.
    """
    rows, dim = table.shape
    if bits == 16:
        return {"codes": table.astype(np.float16)}
    if dim % BLOCK:
        raise ModelUnsupported(f"token vectors of {dim} numbers, not a multiple of {BLOCK}; export with 16 bits")
    blocks = table.reshape(rows, dim // BLOCK, BLOCK)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(-1)[..., None], -1)[..., 0]
    scales = (largest / -8 if bits == 4 else np.abs(largest) / 127).astype(np.float16)
    inverse = np.divide(1, scales.astype(np.float32), where=scales != 0, out=np.zeros(scales.shape, np.float32))
    steps = np.rint(blocks * inverse[..., None])
    if bits == 8:
        return {"codes": np.clip(steps, -127, 127).astype(np.int8).reshape(rows, dim), "scales": scales}
    codes = np.clip(steps + 8, 0, 15).astype(np.uint8)
    half = BLOCK // 2
    byte_codes = codes[..., :half] | (codes[..., half:] << 4)
    return {"codes": byte_codes.reshape(rows, dim // 2), "scales": scales}


class EmbeddingTable:
    """Memory-mapped token table; ``table(ids)`` is the transformer's input: token plus position vectors.

    ``additive`` (positions, dim) is the sum of position and token type vectors; it has no rows if the graph adds them.
    """

    def __init__(self, path: Path) -> None:
        try:
            arrays = map_arrays(path)
        except (OSError, ValueError) as error:
            raise ModelDamaged(f"{path}: not a readable safetensors file ({error}); export the model again") from error
        try:
            self.codes = arrays["codes"]
            plain = self.codes.dtype == np.float16
            self.scales = np.zeros((len(self.codes), 0), np.float16) if plain else arrays["scales"]
            self.additive = arrays["additive"]
        except KeyError as error:
            raise ModelDamaged(f"{path}: holds no array {error}; export the model again") from error
        if not self._fits():
            shapes = ", ".join(f"{array.dtype} {array.shape}" for array in (self.codes, self.scales, self.additive))
            raise ModelDamaged(f"{path}: codes, scales and positions do not fit ({shapes}); export the model again")
        self.dim = int(self.additive.shape[1])
        self._path = path

    def _fits(self) -> bool:
        """Whether the shapes of codes, scales and position vectors agree."""
        if not self.codes.ndim == self.additive.ndim == 2:
            return False
        (rows, code_columns), (_, dim) = self.codes.shape, self.additive.shape
        if self.codes.dtype == np.float16:
            return bool(0 < dim == code_columns)
        codes_a_byte = {np.dtype(np.int8): 1, np.dtype(np.uint8): 2}.get(self.codes.dtype, 0)
        return (
            dim > 0
            and code_columns * codes_a_byte == dim
            and self.scales.shape == (rows, dim // BLOCK)
            and dim % BLOCK == 0
        )

    def __call__(self, ids: NDArray[np.int64], positions: NDArray[np.int64] | None = None) -> NDArray[np.float32]:
        """Look up (batch, tokens) ids, at ``positions`` (default: 0, 1, ...): (batch, tokens, dim) float32."""
        rows = self.rows(ids)
        if len(self.additive):
            rows += self.additive[: ids.shape[1]] if positions is None else self.additive[positions]
        return rows

    def rows(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Look up token vectors without positions: (...) ids -> (..., dim) float32.

        Raises ModelDamaged for an id outside the table.
        """
        if ids.size and not 0 <= ids.min() <= ids.max() < len(self.codes):
            reason = f"{len(self.codes)} tokens, but the tokenizer has number {ids.max()}"
            raise ModelDamaged(f"{self._path}: {reason}; export the model again")
        if self.codes.dtype == np.float16:
            vectors: NDArray[np.float32] = self.codes[ids].astype(np.float32)
            return vectors
        scales = self.scales[ids].astype(np.float32)[..., None]  # (..., blocks, 1)
        codes = self.codes[ids].reshape(*scales.shape[:-1], -1)  # (..., blocks, 16 or 32)
        if codes.dtype == np.int8:
            values = codes * scales  # (..., blocks, 32)
        else:
            values = np.empty((*codes.shape[:-1], BLOCK), np.float32)
            np.subtract(codes & 15, 8, out=values[..., : BLOCK // 2], dtype=np.float32)
            np.subtract(codes >> 4, 8, out=values[..., BLOCK // 2 :], dtype=np.float32)
            values *= scales
        return values.reshape(*ids.shape, self.dim)


BATCHES = 8  # a small input is split into about this many batches, so that all threads have work ...
BATCH_LEAST = 48  # ... but a batch gets at least this many tokens
_TEXTS_AT_ONCE = 256  # texts in one call of the tokenizer
STRETCH = 20_000  # characters in one call of the tokenizer: it takes 500 bytes a token, 4 tokens a character at worst
MOST_TOKENS = 200_000  # tokens of a text; its states are in memory together: 300 MB at a width of 384
BLOCK_TOKENS = 32_768  # token states in memory at once: 50 MB at a width of 384
_LIBRARIES, _COPIES = 700_000_000, 3  # address space of a model: bytes of the libraries, and a multiple of its files
ROW_TOKENS = 64  # short texts are packed into rows of this many tokens; rows of 128 are not faster
OVERLAP = 64  # tokens shared by adjacent windows; the first half keeps the earlier window's states
SURROGATE = re.compile("[\ud800-\udfff]")  # lone surrogates, which the tokenizer rejects
KERNELS = "256"  # size of oneDNN's kernel cache: with 1,024, the default, memory grows with every new shape
GROUP = 128  # activations that share a scale when they are rounded to int8 (docs/decisions)


class Grid(NamedTuple):
    """Batch shapes that a processor computes efficiently.

    Args:
        step: Padded lengths are multiples of it; a kernel is prepared for each length.
        tile: The tokens of a batch are padded to a multiple of it, except in batches of at most half a tile.
        start: Fixed cost of a batch, in tokens.
        most: Most tokens of a batch with more than one row.

    >>> TILES.shape(3, 40)  # three rows of 40 tokens
    (4, 64)
    """

    step: int
    tile: int
    start: int
    most: int

    def padded(self, tokens: int) -> int:
        """Return the padded length of a row of ``tokens`` tokens."""
        return -(-tokens // self.step) * self.step

    def shape(self, rows: int, tokens: int) -> tuple[int, int]:
        """Return (rows, length) of a padded batch for ``rows`` rows of up to ``tokens`` tokens."""
        length = self.padded(tokens)
        if 2 * rows * length <= self.tile:
            return rows, length
        lengths = range(length, -(-length // self.tile) * self.tile + 1, self.step)
        multiples = ((self.rows(length), length) for length in lengths)
        return min(((-(-rows // n) * n, length) for n, length in multiples), key=prod)

    def rows(self, tokens: int) -> int:
        """Return the smallest number of rows of ``tokens`` tokens that fills whole tiles."""
        return self.tile // gcd(self.tile, self.padded(tokens))


PLAIN = Grid(step=4, tile=1, start=12, most=512)  # measured: 256 to 640 tokens are equally fast, 2,600 are 25 % slower
TILES = Grid(step=16, tile=128, start=32, most=640)  # with AMX, 280 tokens take longer than 384
CARD = Grid(step=4, tile=1, start=1_024, most=16_384)  # smaller batches leave a graphics card idle


class States(NamedTuple):
    """Token states of several texts in flat arrays, special tokens included.

    Text i has the rows ``bounds[i]:bounds[i + 1]`` of ``values`` (tokens, width) float32. ``starts`` and ``ends``
    (tokens,) int32 are character offsets into the token's text, without leading white space. Special tokens have empty
    spans at the beginning or end of the text.
    """

    values: NDArray[np.float32]
    bounds: NDArray[np.int64]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]


class _Window(NamedTuple):
    ids: list[int]  # with special tokens
    first: int  # the states first:last of the window are kept
    last: int
    target: int  # row of the result for the first of them


class _Row(NamedTuple):
    """Windows packed into one sequence; the attention mask keeps them apart."""

    windows: list[_Window]
    tokens: int


class Runtime:
    """Tokenizer and transformer of a checked model folder; `blocks` turns texts into `States`."""

    def __init__(
        self, folder: Path, config: Mapping[str, Any], threads: int | None = None, device: str = "CPU"
    ) -> None:
        threads = thread_count(threads)
        self._process, self._lock = os.getpid(), Lock()
        check_memory(_LIBRARIES + _COPIES * sum(path.stat().st_size for path in folder.iterdir() if path.is_file()))
        self.threads = threads or cores()
        self.layers: list[int] = list(config["layers"])
        self.table = EmbeddingTable(folder / names.EMBEDDINGS)
        self.width = int(config["width"])
        forms = (folder / name for name in (names.TRACED, names.TRACED_ONNX))
        self._graph = next((path for path in forms if path.exists()), folder / names.ENCODER)
        is_traced = self._graph.name != names.ENCODER
        if not is_traced and self.width != self.table.dim:
            reason = f"vectors of {self.table.dim} numbers, {config['width']} in {names.CONFIG}"
            raise ModelDamaged(f"{folder / names.EMBEDDINGS}: {reason}; export the model again")
        exact = config.get("precision") == "fp32"
        outputs = [output_name(layer) for layer in self.layers]
        compiler: Callable[[], tuple[_Queue | SessionQueue, bool]]
        if is_session_device(device):
            self._batches, self._grid = 1, CARD
            compiler = session_compiler(self._graph, outputs, device)
        else:
            self._batches = BATCHES if self.threads > 1 else 1
            self._grid = TILES if device == "CPU" and not exact and has_tiles() else PLAIN
            compiler = _compiler(self._graph, self.threads, outputs, exact, device)
        with ThreadPoolExecutor(1) as executor:  # compile while the tokenizer loads; compilation releases the GIL
            compiling: Future[tuple[_Queue | SessionQueue, bool]] = executor.submit(compiler)
            self._tokenizer = open_tokenizer(folder / names.TOKENIZER)
            self._queue: _Queue | SessionQueue
            self._queue, self._shares_rows = compiling.result()
        self.opening, self.closing = self._tokenizer.opening, self._tokenizer.closing
        if not is_traced and config["max_tokens"] > len(self.table.additive):
            reason = f"{len(self.table.additive)} positions, {config['max_tokens']} in {names.CONFIG}"
            raise ModelDamaged(f"{folder / names.EMBEDDINGS}: {reason}; export the model again")
        self.window = int(config["max_tokens"]) - len(self.opening + self.closing)

    @property
    def tokenizer(self) -> Any:
        """The full tokenizer of the library ``tokenizers``, loaded on first use."""
        return self._tokenizer.reference

    def token_count(self, text: str) -> int:
        """Count the tokens of a text, without special ones."""
        return len(self._tokenizer.encode([text])[0].ids)

    def blocks(
        self, texts: Sequence[str], layer: int | None = None, truncated: bool = False
    ) -> Iterator[tuple[slice, States]]:
        """Yield (slice of the texts, their states), block by block of consecutive texts, so that memory stays bounded.

        ``layer`` None is the last. ``truncated``: cut texts longer than the model's maximum off, without windows.

        Raises InputError for a layer that the folder lacks, and for a text of more than 200,000 tokens. Raises
        ModelError in a process that was forked after the model was loaded, which lacks the parent's threads and would
        wait forever.
        """
        if os.getpid() != self._process:
            raise ModelError(
                "the model was loaded by another process; load it in this one, or start it by spawn, not fork"
            )
        layer = self.layers[-1] if layer is None else layer
        if layer not in self.layers:
            raise InputError(f"layer {layer}: this model carries {self.layers}; export it again with --layer {layer}")
        first, count, batch = 0, 0, []
        for last, tokens in enumerate(self._tokens(texts), 1):
            if truncated:
                tokens = Tokens(tokens.ids[: self.window], tokens.offsets[: self.window])
            batch.append(tokens if tokens.ids or self.opening + self.closing else BLANK)
            count += len(tokens.ids)
            if max(count, len(batch)) >= BLOCK_TOKENS or last == len(texts):  # blank texts add nothing to the count
                yield slice(first, last), self._states(texts[first:last], batch, output_name(layer))
                first, count, batch = last, 0, []

    def _tokens(self, texts: Sequence[str]) -> Iterator[Tokens]:
        """Tokenize texts; a long text goes through the tokenizer in pieces, to limit memory."""
        for batch in _batches(texts):
            clean_texts = [SURROGATE.sub("\ufffd", text) for text in batch]
            if len(clean_texts[0]) > STRETCH:
                yield self._tokenize_long(clean_texts[0])
            else:
                yield from self._tokenize(clean_texts)

    def _tokenize(self, texts: list[str]) -> Iterator[Tokens]:
        """Tokenize texts without their invisible characters; offsets refer to the texts with them."""
        clean = list(map(visible, texts))
        token_lists = self._tokenizer.encode(clean, parallel=1 < self.threads >= cores())
        for text, clean_text, tokens in zip(texts, clean, token_lists, strict=True):
            if clean_text is not text:
                tokens = Tokens(tokens.ids, _shift(tokens.offsets, [*visible_places(text), len(text)]))
            yield tokens

    def _tokenize_long(self, text: str) -> Tokens:
        tokens = Tokens([], [])
        for at, part in stretches(text):
            (part_tokens,) = self._tokenize([part])
            tokens.ids.extend(part_tokens.ids)
            tokens.offsets.extend((at + start, at + end) for start, end in part_tokens.offsets)
            if len(tokens.ids) > MOST_TOKENS:
                reason = f"a text of {len(text):,} characters, {text[:40]!r} …"
                raise InputError(f"{reason}; expected at most {MOST_TOKENS:,} tokens; cut it into sentences")
        return tokens

    def _states(self, texts: Sequence[str], tokenised: Sequence[Tokens], output: str) -> States:
        before = len(self.opening)
        lengths = np.array([len(tokens.ids) + before + len(self.closing) for tokens in tokenised])
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        starts, ends = np.zeros(bounds[-1], np.int32), np.zeros(bounds[-1], np.int32)
        windows: list[_Window] = []
        for text, (ids, offsets), row in zip(texts, tokenised, bounds.tolist(), strict=False):
            first, last = row + before, row + before + len(offsets)
            starts[first:last] = [_skip_space(text, *pair) for pair in offsets]
            ends[first:last] = [pair[1] for pair in offsets]
            after = slice(last, last + len(self.closing))
            starts[after] = ends[after] = len(text)
            windows += self._windows(ids, row)
        values = np.empty((int(bounds[-1]), self.width), np.float32)
        with self._lock:  # the queue serves one thread at a time
            self._run(windows, output, values)
        return States(values, bounds, starts, ends)

    def _windows(self, ids: list[int], row: int) -> Iterator[_Window]:
        """Cut a text into overlapping windows; each token's state comes from the window where it lies deeper inside.

        ``row``: row of the result for the text's first token.
        """
        step, half = self.window - self._overlap, self._overlap // 2
        count = 1 + max(0, -(-(len(ids) - self.window) // step))
        for number in range(count):
            at = number * step
            part = [*self.opening, *ids[at : at + self.window], *self.closing]
            first = half + len(self.opening) if number else 0
            last = len(part) if number == count - 1 else len(self.opening) + self.window - (self._overlap - half)
            yield _Window(part, first, last, row + at + first)

    @property
    def _overlap(self) -> int:
        return min(OVERLAP, self.window // 2)

    def _run(self, windows: Sequence[_Window], output: str, values: NDArray[np.float32]) -> None:
        """Batch the windows by length, compute them and write their states to ``values``."""
        order = sorted(windows, key=lambda window: len(window.ids))
        rows = _packed(order) if self._shares_rows else [_Row([window], len(window.ids)) for window in order]
        try:
            self._submit_rows(rows, output, values)
        finally:  # also after Ctrl-C: a request that ends while Python exits would abort the process
            with _mapped(self._graph):
                self._queue.wait()

    def _submit_rows(self, rows: Sequence[_Row], output: str, values: NDArray[np.float32]) -> None:
        """Batch rows, sorted by length, and submit the batches."""
        grid = self._grid
        share = sum(grid.padded(row.tokens) for row in rows) // self._batches
        most = max(BATCH_LEAST, min(grid.most, -(-share // grid.tile) * grid.tile))
        at = 0
        while at < len(rows):
            batch = [rows[at]]
            while at + len(batch) < len(rows):
                following = rows[at + len(batch)].tokens
                padding = len(batch) * (grid.padded(following) - grid.padded(batch[-1].tokens))
                if padding > grid.start or prod(grid.shape(len(batch) + 1, following)) > most:
                    break  # a new batch costs less than the padding
                batch.append(rows[at + len(batch)])
            count = grid.rows(batch[-1].tokens)
            batch = batch[: len(batch) // count * count] or batch  # the rest goes into the next batch
            at += len(batch)
            self._submit(batch, output, values)

    def _submit(self, batch: Sequence[_Row], output: str, values: NDArray[np.float32]) -> None:
        count, longest = self._grid.shape(len(batch), batch[-1].tokens)
        if not self._shares_rows:  # padding must not exceed the encoder's positions
            longest = min(longest, self.window + len(self.opening + self.closing))
        ids = np.zeros((count, longest), np.int64)  # (batch, tokens)
        positions = np.zeros(ids.shape, np.int64)
        mask = np.zeros(ids.shape, np.float32)  # the number of each token's text in its row; 0 for padding
        mask[len(batch) :] = 1  # a row of padding attends to itself, since a softmax over nothing is NaN
        places: list[tuple[int, int, _Window]] = []  # row and first token of each window
        for number, row in enumerate(batch):
            start = 0
            for text, window in enumerate(row.windows, 1):
                part = slice(start, start + len(window.ids))
                ids[number, part], mask[number, part] = window.ids, text
                positions[number, part] = np.arange(len(window.ids))
                places.append((number, start, window))
                start = part.stop

        def keep(states: NDArray[np.float32]) -> None:  # (batch, tokens, width)
            if states.shape != (*mask.shape, self.width) or states.dtype != np.float32:
                reason = f"gives {states.dtype} {states.shape} for {embeddings.shape}"
                raise ModelDamaged(f"{self._graph}: {reason}; export the model again")
            for number, start, (_, first, last, target) in places:
                values[target : target + last - first] = states[number, start + first : start + last]

        embeddings = self.table(ids, positions)
        with _mapped(self._graph):
            self._queue.submit({"embeddings": embeddings, "mask": mask}, output, keep)


def _packed(windows: Sequence[_Window]) -> list[_Row]:
    """Pack windows, sorted by length, into rows (best-fit decreasing); returns the rows, shortest first.

    The longest remaining window opens a row, whose capacity is its length rounded up to a multiple of `ROW_TOKENS`.
    The longest window that fits is added until nothing fits.
    """
    remaining, lengths = list(windows), [len(window.ids) for window in windows]
    rows = []
    while remaining:
        row, tokens = [remaining.pop()], lengths.pop()
        most = -(-tokens // ROW_TOKENS) * ROW_TOKENS
        while (place := bisect_right(lengths, most - tokens) - 1) >= 0:
            row.append(remaining.pop(place))
            tokens += lengths.pop(place)
        rows.append(_Row(row, tokens))
    return sorted(rows, key=lambda row: row.tokens)


def stretches(text: str) -> list[tuple[int, str]]:
    """Cut a text into (offset, piece) pairs of at most `STRETCH` characters; a shorter text is one piece.

    Pieces end before white space if possible. White space at the beginning of a piece is dropped.
    """
    if len(text) <= STRETCH:
        return [(0, text)]
    piece = re.compile(rf"\s*(.{{1,{STRETCH}}}(?!\S)|.{{1,{STRETCH}}})", re.DOTALL)
    end = len(text.rstrip()) or 1  # no last piece of white space alone
    return [(match.start(1), match[1]) for match in piece.finditer(text, 0, end)]


def _batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Group consecutive texts of `STRETCH` characters in all; a longer text is a group of its own."""
    first, size = 0, 0
    for at, text in enumerate(texts):
        if at - first == _TEXTS_AT_ONCE or (at > first and size + len(text) > STRETCH):
            yield texts[first:at]
            first, size = at, 0
        size += len(text)
    if first < len(texts):
        yield texts[first:]


def _shift(offsets: Sequence[tuple[int, int]], places: Sequence[int]) -> list[tuple[int, int]]:
    """Map (start, end) offsets in a text to those in the text where its character i is at ``places[i]``."""
    return [(places[start], places[end - 1] + 1 if end > start else places[start]) for start, end in offsets]


def _skip_space(text: str, start: int, end: int) -> int:
    while start < end and text[start].isspace():
        start += 1
    return start


class _Queue:
    """Asynchronous OpenVINO requests, one for each thread."""

    def __init__(self, compiled: Any, threads: int) -> None:
        from openvino import AsyncInferQueue

        self._requests = AsyncInferQueue(compiled, threads)
        self._requests.set_callback(_receive)
        self._failures: list[BaseException] = []

    def submit(
        self, inputs: dict[str, NDArray[np.float32]], output: str, keep: Callable[[NDArray[np.float32]], None]
    ) -> None:
        # the request does not copy the inputs; its user data keep them alive until the callback
        self._requests.start_async(inputs, userdata=(output, keep, self._failures, inputs), share_inputs=True)

    def wait(self) -> None:
        self._requests.wait_all()
        if self._failures:
            failures, self._failures[:] = list(self._failures), []
            raise failures[0]


def _receive(request: Any, userdata: Any) -> None:
    output, keep, failures, _ = userdata
    try:
        keep(request.get_tensor(output).data)
    except BaseException as error:  # an exception raised in a callback would end the process
        failures.append(error)


def has_tiles() -> bool:
    """Whether the processor has AMX with bfloat16; False if the system does not tell."""
    with suppress(OSError):
        return " amx_bf16 " in Path("/proc/cpuinfo").read_text("utf-8")
    return False


def options(core: Any, threads: int, exact: bool = False) -> dict[str, Any]:
    """Return OpenVINO's options for the CPU: a stream for each thread, int8 activations, bfloat16 if supported.

    ``exact``: compute everything in float32.
    """
    settings: dict[str, Any] = {
        "CPU_RUNTIME_CACHE_CAPACITY": KERNELS,
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": threads,
        "ENABLE_CPU_PINNING": False,
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0 if exact else GROUP,
    }
    if exact:
        settings["INFERENCE_PRECISION_HINT"] = "f32"
    elif "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        settings["INFERENCE_PRECISION_HINT"] = "bf16"
    return settings


def _compiler(
    path: Path, threads: int, outputs: Sequence[str], exact: bool = False, device: str = "CPU"
) -> Callable[[], tuple[_Queue, bool]]:
    """Check the device, and return a function that compiles the graph.

    The function returns the queue, and whether several texts may share a row. It raises ModelDamaged if the graph lacks
    one of ``outputs``. Raises InputError if the machine lacks the device.
    """
    openvino = import_openvino()
    core = openvino.Core()
    if device.split(".")[0] not in core.available_devices:
        raise InputError(f"device {device}: OpenVINO has {', '.join(core.available_devices)} on this machine")
    settings = options(core, threads, exact) if device == "CPU" else {}

    def compiled() -> tuple[_Queue, bool]:
        cache = _CompiledGraph(path, outputs, settings, core) if device == "CPU" else None
        if cache is not None and (content := cache.read()) is not None:
            network, apart = content
            return _Queue(network, threads), apart
        if path.suffix == ".onnx" and refers_to_files(path):
            raise ModelDamaged(f"{path}: refers to weights in other files; export the model again")
        with _mapped(path):
            graph = core.read_model(path)
            available = {name for output in graph.outputs for name in output.names}
            if not set(outputs) <= available:
                missing = ", ".join(sorted(set(outputs) - available))
                raise ModelDamaged(f"{path}: no output {missing}, which {names.CONFIG} names; export the model again")
            apart = path.name == names.ENCODER and _keep_texts_apart(graph)
            if path.name == names.TRACED and not exact:
                turn_matrices(graph)
            network = core.compile_model(graph, device, settings)
        if cache is not None:
            cache.write(network, apart)
        return _Queue(network, threads), apart

    return compiled


class _CompiledGraph:
    """Cached compilation of a graph: loading it takes a third of the time of compiling.

    The file holds the SHA-256 of the rest, a byte that says whether texts may share a row, and OpenVINO's export. Its
    name is a hash of the model's manifest, the version of OpenVINO, the processor and the options. If it cannot be
    read or written, the graph is compiled.
    """

    def __init__(self, path: Path, outputs: Sequence[str], settings: Mapping[str, Any], core: Any) -> None:
        options = sorted((name, value) for name, value in settings.items() if name not in _OF_THREADS)
        processor = [str(core.get_property("CPU", name)) for name in ("FULL_DEVICE_NAME", "OPTIMIZATION_CAPABILITIES")]
        manifest = path.with_name(names.MANIFEST).read_bytes()
        form = ["turned"] if path.name == names.TRACED else []  # a graph compiled before `turn_matrices` is another
        facts = json.dumps([import_openvino().get_version(), *processor, options, *outputs, *form]).encode()
        self._file: Path | None = None
        with suppress(InputError):  # no home folder
            self._file = cache_folder() / "graphs" / f"{sha256(manifest + facts).hexdigest()[:32]}.bin"
        self._core, self._settings = core, settings

    def read(self) -> tuple[Any, bool] | None:
        """Return the compiled graph and whether texts may share a row; None if there is no valid file."""
        with suppress(OSError, RuntimeError, MemoryError):
            content = self._file.read_bytes() if self._file is not None else b""
            if content and sha256(content[32:]).digest() == content[:32]:
                return self._core.import_model(content[33:], "CPU", self._settings), bool(content[32])
        return None

    def write(self, network: Any, apart: bool) -> None:
        """Write a compiled graph, and remove all but the latest `_GRAPHS` files."""
        if self._file is None:
            return
        with suppress(OSError, RuntimeError, MemoryError):
            content = bytes([apart]) + network.export_model().getvalue()
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(self._file, "wb", f".{os.getpid()}") as file:
                file.write(sha256(content).digest() + content)
            for old in sorted(self._file.parent.iterdir(), key=lambda path: path.stat().st_mtime)[:-_GRAPHS]:
                old.unlink()


_OF_THREADS = ("INFERENCE_NUM_THREADS", "NUM_STREAMS")  # options that do not change a compiled graph
_GRAPHS = 8  # compiled graphs in the cache folder


def refers_to_files(path: Path) -> bool:
    """Whether an ONNX graph keeps weights in external files, which the manifest does not cover."""
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return False  # an empty file cannot be mapped
        with mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            return content.find(b"\n\x08location") >= 0


def import_openvino() -> Any:
    """Import OpenVINO without its model converter and its telemetry.

    The converter is half of OpenVINO's import time; it is imported on first use. The telemetry would report imports and
    conversions over the network.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", KERNELS)  # read when OpenVINO is imported
    if "openvino" in sys.modules:
        import openvino

        return openvino
    with _without(CONVERTER):
        import openvino
    openvino.convert_model = _convert_model
    return openvino


def _convert_model(*args: Any, **options: Any) -> Any:
    with _without("openvino_telemetry"):
        return import_module(CONVERTER).convert_model(*args, **options)


@contextmanager
def _without(name: str) -> Iterator[None]:
    """Make the import of a module fail, unless it is loaded already; OpenVINO treats the module as optional."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


def _keep_texts_apart(graph: Any) -> bool:
    """Rewrite the attention mask so that a token attends only to tokens with its own number in the mask.

    The exported graph attends to all tokens whose mask is 1: bias = (1 - mask) x masked, (batch, 1, 1, tokens). The
    rewritten bias is 0 where two tokens have the same number, (batch, 1, tokens, tokens). Returns False, with the graph
    unchanged, if it uses the mask in another way.
    """
    from openvino import opset13 as operations

    chain = [graph.input("mask").get_node()]
    while chain[-1].get_type_name() != "Unsqueeze":
        consumers = list(chain[-1].output(0).get_target_inputs())
        if len(consumers) != 1 or len(chain) == 4:
            return False
        chain.append(consumers[0].get_node())
    if [node.get_type_name() for node in chain[1:]] != ["Subtract", "Multiply", "Unsqueeze"]:
        return False
    mask, difference, bias, wide_bias = chain
    columns, rows = (operations.unsqueeze(mask, np.array(axes)) for axes in ([1, 2], [1, 3]))
    alike = operations.convert(operations.equal(rows, columns), "f32")
    difference.input(1).replace_source_output(alike.output(0))
    for consumer in wide_bias.output(0).get_target_inputs():
        consumer.replace_source_output(bias.output(0))
    graph.validate_nodes_and_infer_types()
    return True


def turn_matrices(graph: Any) -> None:
    """Transpose the constant floating-point matrices of a graph's products from (outputs, inputs) to (inputs, outputs).

    Works around a fault of OpenVINO 2026.4 on processors with AMX. It fuses the inner layers of gated encoders (Gemma
    3, Qwen3, gte) if their matrices are (outputs, inputs), and then crashes with a division by zero. Exports store
    transposed matrices; those of earlier exports are transposed when they are loaded.
    """
    openvino = import_openvino()
    ops = openvino.opset13
    for node in graph.get_ordered_ops():
        if node.get_type_name() != "MatMul" or not (attributes := node.get_attributes())["transpose_b"]:
            continue
        source = node.input_value(1).get_node()
        is_converted = source.get_type_name() == "Convert"
        matrix = source.input_value(0).get_node() if is_converted else source
        if matrix.get_type_name() != "Constant" or len(matrix.shape) != 2 or not matrix.get_element_type().is_real():
            continue
        data = np.ascontiguousarray(matrix.data.T)  # OpenVINO shows bfloat16 as float16: the same 16 bits
        tensor = openvino.Tensor(data, openvino.Shape(data.shape), matrix.get_element_type())
        matrix = ops.constant(tensor, shared_memory=False)
        values = ops.convert(matrix, "f32") if is_converted else matrix
        product = ops.matmul(node.input_value(0), values, attributes["transpose_a"], False)
        for target in node.output(0).get_target_inputs():
            target.replace_source_output(product.output(0))


@contextmanager
def _mapped(path: Path, engine: str = "OpenVINO", kind: type[Exception] = RuntimeError) -> Iterator[None]:
    """Turn an engine's exceptions of a kind into ModelDamaged."""
    try:
        yield
    except kind as error:
        reason = f"not a graph that {engine} runs ({first_line(error)})"
        raise ModelDamaged(f"{path}: {reason}; export the model again") from error


PROVIDERS = {"CUDA": "CUDAExecutionProvider"}
_ERRORS_ALONE = 3  # ONNX Runtime's log level "error"
_OF_SESSIONS = "ONNX Runtime", Exception  # its exceptions have no base class other than Exception


def is_session_device(device: str) -> bool:
    """Whether a device, such as "CUDA" or "CUDA.1", runs in ONNX Runtime."""
    return device.split(".")[0] in PROVIDERS


class SessionQueue:
    """ONNX Runtime session with the interface of `_Queue`; batches are computed one after another."""

    def __init__(self, session: Any, path: Path) -> None:
        self._session, self._path = session, path

    def submit(
        self, inputs: dict[str, NDArray[np.float32]], output: str, keep: Callable[[NDArray[np.float32]], None]
    ) -> None:
        """Compute a batch and pass its output to ``keep``."""
        with _mapped(self._path, *_OF_SESSIONS):
            (states,) = self._session.run([output], inputs)
        keep(states)

    def wait(self) -> None:
        """Do nothing: every submitted batch is finished."""


def session_compiler(path: Path, outputs: Sequence[str], device: str) -> Callable[[], tuple[SessionQueue, bool]]:
    """Check the device, and return a function that opens the graph; see `_compiler`. Texts never share a row.

    Raises MissingExtra without ONNX Runtime, InputError if the machine lacks the device, and ModelUnsupported for a
    traced graph in OpenVINO's format.
    """
    with needs_extra("cuda", "onnxruntime-gpu"):
        import onnxruntime
    name, _, number = device.partition(".")
    available = onnxruntime.get_available_providers()
    if PROVIDERS[name] not in available or not (number or "0").isdecimal():
        raise InputError(f"device {device}: ONNX Runtime has {', '.join(available)} on this machine")
    if path.suffix != ".onnx":
        raise ModelUnsupported(
            f"{path}: OpenVINO's form of a traced graph, which ONNX Runtime does not read; export with --graph onnx "
            "--precision fp32, or with --graph written where that is possible, or take the CPU"
        )

    def opened() -> tuple[SessionQueue, bool]:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _ERRORS_ALONE
        providers = [(PROVIDERS[name], {"device_id": number or "0"}), "CPUExecutionProvider"]
        with _mapped(path, *_OF_SESSIONS):
            session = onnxruntime.InferenceSession(str(path), options, providers=providers)
            missing = sorted(set(outputs) - {item.name for item in session.get_outputs()})
        if PROVIDERS[name] not in (provider_names := session.get_providers()):  # silently dropped if it cannot load
            reason = "the libraries of CUDA and cuDNN that it needs are not there"
            raise InputError(f"device {device}: ONNX Runtime took {', '.join(provider_names)} instead; {reason}")
        if missing:
            raise ModelDamaged(f"{path}: no output {', '.join(missing)}; export the model again")
        return SessionQueue(session, path), False

    return opened

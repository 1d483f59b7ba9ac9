"""The token table: a quarter of a gigabyte of vectors kept in 4 or 8 bit and gathered by NumPy.

A multilingual vocabulary is most of a small encoder: 250,002 x 384 values are 384 MB in float32 and 54 MB here. The
file is mapped, so a process pays for the rows that it looks up.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import ModelDamaged, ModelUnsupported

BLOCK = 32  # values that share one scale; 4.5 bits a value with a float16 scale
_DTYPES = {"U8": np.uint8, "I8": np.int8, "F16": np.float16, "F32": np.float32}


def quantise(table: NDArray[np.float32], bits: int) -> dict[str, NDArray[Any]]:
    """Codes and float16 scales of a (rows, dim) table, in blocks of 32 values.

    In 4 bit, value = scale x (code - 8), and the value of largest magnitude in a block becomes code 0, that is -8
    scales: a table that was in this form before comes back to the bit. In 8 bit, value = scale x code, code -127..127.
    """
    rows, dim = table.shape
    if dim % BLOCK:
        raise ModelUnsupported(f"a width of {dim} is not a multiple of {BLOCK}, which the token table needs")
    blocks = table.reshape(rows, dim // BLOCK, BLOCK)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(-1)[..., None], -1)[..., 0]
    scales = (largest / -8 if bits == 4 else np.abs(largest) / 127).astype(np.float16)
    inverse = np.divide(1, scales.astype(np.float32), where=scales != 0, out=np.zeros(scales.shape, np.float32))
    steps = np.rint(blocks * inverse[..., None])
    if bits == 8:
        return {"codes": np.clip(steps, -127, 127).astype(np.int8).reshape(rows, dim), "scales": scales}
    codes = np.clip(steps + 8, 0, 15).astype(np.uint8)
    half = BLOCK // 2
    packed = codes[..., :half] | (codes[..., half:] << 4)
    return {"codes": packed.reshape(rows, dim // 2), "scales": scales}


class EmbeddingTable:
    """Rows of the token table plus their positions: ``table(ids)`` is what the transformer takes in.

    ``additive`` (positions, dim) is the sum of the position and the token type vectors.
    """

    def __init__(self, path: Path) -> None:
        arrays = _map_safetensors(path)
        try:
            self.codes, self.scales, self.additive = arrays["codes"], arrays["scales"], arrays["additive"]
        except KeyError as error:
            raise ModelDamaged(f"{path}: holds no array {error}; export the model again") from error
        if not self._fits():
            shapes = ", ".join(f"{array.dtype} {array.shape}" for array in (self.codes, self.scales, self.additive))
            raise ModelDamaged(f"{path}: codes, scales and positions do not fit ({shapes}); export the model again")
        self.dim = int(self.additive.shape[1])
        self._path = path

    def _fits(self) -> bool:
        """Whether there is a code, or half of one, for each number, and a scale for each block of them."""
        if not self.codes.ndim == self.additive.ndim == 2:
            return False
        (rows, stored), (_, dim) = self.codes.shape, self.additive.shape
        each = {np.dtype(np.int8): 1, np.dtype(np.uint8): 2}.get(self.codes.dtype, 0)
        return dim > 0 and stored * each == dim and self.scales.shape == (rows, dim // BLOCK) and dim % BLOCK == 0

    def __call__(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """(batch, tokens) token numbers -> (batch, tokens, dim) float32."""
        summed: NDArray[np.float32] = self.rows(ids) + self.additive[: ids.shape[1]]
        return summed

    def rows(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """(...) token numbers -> (..., dim) float32, no positions. Raises ModelDamaged for one beyond the table."""
        if ids.size and not 0 <= ids.min() <= ids.max() < len(self.codes):
            seen = f"{len(self.codes)} tokens, but the tokenizer has number {ids.max()}"
            raise ModelDamaged(f"{self._path}: {seen}; export the model again")
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


def _map_safetensors(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file as read-only maps (its own loader copies them)."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if 8 + length > path.stat().st_size:
                raise ValueError(f"a header of {length} bytes, which is longer than the file")
            header = json.loads(file.read(length))
        data = np.memmap(path, np.uint8, "r", offset=8 + length)
        return {
            name: data[slice(*entry["data_offsets"])].view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items()
            if name != "__metadata__"
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise ModelDamaged(f"{path}: not a readable safetensors file ({error}); export the model again") from error

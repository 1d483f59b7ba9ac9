"""Contexts as the trained layers take them in; what lies below those layers is computed once and kept in a file.

One file for each split of a language pair, named by a hash of all that decides about its content (the weights of the
lower layers, the tokens, the precision), so many runs can share it: half-precision floats, one row a token, mapped into
memory, of which a step reads the rows that it needs. A file is there only when it is whole; its last four bytes are the
CRC-32 of those before, and one that does not hold it is made again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from zlib import crc32

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray
from torch import Tensor

from phrasemate.errors import InputError
from phrasemate.methods.backbone import grouped, padded
from phrasemate.methods.contexts import Contexts, Integers, Sampled
from phrasemate.methods.halves import Lower

BLOCK = 2_048  # contexts computed between two writes
_SUM = 4  # bytes of the checksum at the end
Halves = NDArray[np.float16]
Progress = Callable[[str, int, int], None]  # what is computed, contexts done, of how many


class Piece(NamedTuple):
    """Some contexts of a step, padded: ``values`` are token numbers (texts, tokens) or kept states (texts, tokens,
    width); ``mask`` (texts, tokens) bool; ``first`` and ``last`` (texts,) the phrase's tokens; ``places`` (texts,):
    which contexts of the step they are.
    """

    values: NDArray[Any]
    mask: NDArray[np.bool_]
    first: Integers
    last: Integers
    places: Integers


class Inputs(NamedTuple):
    """A piece on the device: ``states`` (texts, tokens, width) float32, and the rest of it."""

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
        self, files: Sequence[Contexts], lower: Lower, padding: int, chunk: int, autocast: Callable[[], Any]
    ) -> None:
        self.files, self.lower, self.padding, self.chunk, self.autocast = files, lower, padding, chunk, autocast
        self._kept: list[Halves] = []

    def keep(self, folder: Path, precision: str, show: Progress = lambda what, done, total: None) -> None:
        """From now on read the lower states of all contexts from files in ``folder``; those that lack are made.

        ``precision``: the name of what ``autocast`` computes in. Raises InputError where a file cannot be written.
        """
        folder.mkdir(parents=True, exist_ok=True)
        weights = f"{self.lower.digest()} {precision}\n".encode()
        for contexts in self.files:
            found = hashlib.sha256(weights)
            for array in (contexts.ids, contexts.bounds):
                found.update(np.ascontiguousarray(array).data)
            path = folder / f"{contexts.name.replace(' ', '-')}-{found.hexdigest()[:16]}.npy"
            self._kept.append(self._opened(path, contexts, show))

    def pieces(self, sampled: Sampled) -> list[Piece]:
        """The contexts of a step, by length; needs no device."""
        made = []
        for places, mask in grouped(sampled.bounds, self.chunk):
            if self._kept:
                values: NDArray[Any] = self._gathered(sampled, places, mask)
            else:
                values = padded(sampled.ids, sampled.bounds, places, mask, self.padding)[0]
            made.append(Piece(values, mask, sampled.first[places], sampled.last[places], places))
        return made

    def inputs(self, piece: Piece) -> Inputs:
        """A piece on the device, in the states after the lower layers."""
        device = self.lower.device
        values, *others = (torch.from_numpy(array).to(device) for array in piece)
        if not values.is_floating_point():
            with self.autocast():
                values = self.lower(values, others[0])
        return Inputs(values.float(), *others)

    def _gathered(self, sampled: Sampled, places: Integers, mask: NDArray[np.bool_]) -> Halves:
        values = np.zeros((*mask.shape, self._kept[0].shape[1]), np.float16)
        for row, (file, number) in enumerate(zip(sampled.file[places], sampled.number[places], strict=True)):
            low, high = self.files[file].bounds[number : number + 2]
            values[row, : high - low] = self._kept[file][low:high]
        return values

    def _opened(self, path: Path, contexts: Contexts, show: Progress) -> Halves:
        shape = (len(contexts.ids), self.lower.width)
        kept = _read(path, shape)
        if kept is None:
            with FileLock(path.with_suffix(".lock")):  # another run may be at it
                kept = _read(path, shape)
                if kept is None:
                    self._write(path, shape, contexts, show)
                    kept = np.lib.format.open_memmap(path, mode="r")
        return kept

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
            found = self.inputs(Piece(values, mask, places, places, places)).states
            states[rows] = found.cpu().numpy()[mask]
        return states


@contextmanager
def checked_file(path: Path) -> Iterator[BinaryIO]:
    """A file that is written beside its place, gets the CRC-32 of what is in it as its end, and is put there whole.

    Raises InputError if it cannot be written; nothing of it is left then.
    """
    made = path.with_name(f"{path.name}.part")
    try:
        with made.open("wb+") as file:
            yield file
            _add_checksum(file)
        made.replace(path)
    except BrokenPipeError:  # of who listens to the progress
        raise
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{path}: cannot be written ({reason}); check free space and permissions") from error
    finally:
        made.unlink(missing_ok=True)


def _add_checksum(file: BinaryIO) -> None:
    """Write the CRC-32 of a file, which is open for both, to its end."""
    size = file.tell()
    file.seek(0)
    checksum = _checksum(file, size)
    file.seek(size)
    file.write(checksum)


def checksum_holds(path: Path) -> bool:
    """Whether a file ends with the CRC-32 of what is before. Raises OSError."""
    with path.open("rb") as file:
        size = path.stat().st_size - _SUM
        return size >= 0 and _checksum(file, size) == file.read(_SUM)


def _checksum(file: BinaryIO, size: int) -> bytes:
    """Of the next so many bytes of a file."""
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
        kept: Halves = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError):
        return None
    return kept


def _header(shape: tuple[int, int]) -> bytes:
    file = BytesIO()
    form = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.float16)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, form)
    return file.getvalue()

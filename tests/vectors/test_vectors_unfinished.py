"""States of sums that somebody has altered and sealed again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.utils.storage import ResumableSum, save_arrays

FACTS = '{"a": 1}'


@pytest.mark.parametrize(
    ("number", "sums"),
    [
        (-7, np.zeros((3, 2), np.float32)),
        (1 << 70, np.zeros((3, 2), np.float32)),
        (1, np.full((3, 2), np.nan, np.float32)),
        (1, np.zeros((3, 2), np.int64)),
    ],
)
def test_what_makes_no_sense_is_not_gone_on_from(tmp_path: Path, number: int, sums: NDArray[np.float32]) -> None:
    path = tmp_path / "vectors.part"
    about = {"done": str(number), "facts": FACTS, "crc": ResumableSum._checksum(number, sums, FACTS)}
    save_arrays(path, {"sums": sums}, about)
    with pytest.raises(InputError, match="is corrupted; delete it to start again"):
        ResumableSum(path, {"a": 1}, np.zeros((3, 2), np.float32))


@pytest.mark.parametrize("kind", ["F8_E4M3", "BF16"])
def test_numbers_that_numpy_lacks(tmp_path: Path, kind: str) -> None:
    path, size = tmp_path / "vectors.part", 2 if kind == "BF16" else 1
    header = json.dumps({"sums": {"dtype": kind, "shape": [2], "data_offsets": [0, 2 * size]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(2 * size))
    with pytest.raises(InputError, match="delete it to start again"):
        ResumableSum(path, {"a": 1}, np.zeros((3, 2), np.float32))

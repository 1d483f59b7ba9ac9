"""States of sums that somebody has altered and sealed again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.sealed import save_arrays
from phrasemate.vectors.unfinished import Unfinished

FACTS = '{"a": 1}'


@pytest.mark.parametrize(
    ("done", "sums"),
    [
        (-7, np.zeros((3, 2), np.float32)),
        (1, np.full((3, 2), np.nan, np.float32)),
        (1, np.zeros((3, 2), np.int64)),
    ],
)
def test_what_makes_no_sense_is_not_gone_on_from(tmp_path: Path, done: int, sums: NDArray[np.float32]) -> None:
    path = tmp_path / "vectors.part"
    about = {"done": str(done), "facts": FACTS, "crc": Unfinished._checksum(done, sums, FACTS)}
    save_arrays(path, {"sums": sums}, about)
    with pytest.raises(InputError, match="makes no sense; delete it to start anew"):
        Unfinished(path, {"a": 1}, np.zeros((3, 2), np.float32))

"""Type aliases for NumPy arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]  # vectors, cosines
Doubles = NDArray[np.float64]
Halves = NDArray[np.float16]
Ids = NDArray[np.int64]  # ids of phrases, sentences or documents
Rows = NDArray[np.int64]  # row numbers of an array
Integers = NDArray[np.int64]  # integers of any meaning
Offsets = NDArray[np.int32]  # offsets in characters
Int8s = NDArray[np.int8]  # vectors as 8-bit codes (`phrasemate.index.row_codec`)
Flags = NDArray[np.bool_]

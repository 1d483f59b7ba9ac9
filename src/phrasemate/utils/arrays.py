"""Names for arrays of one type, as annotations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]  # vectors, cosines
Doubles = NDArray[np.float64]
Halves = NDArray[np.float16]
Ids = NDArray[np.int64]  # of phrases, sentences, documents
Rows = NDArray[np.int64]  # places in an array
Integers = NDArray[np.int64]  # of any kind
Offsets = NDArray[np.int32]  # in characters
Flags = NDArray[np.bool_]

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "encode"))  # for `encoders`, the model that is made in-process

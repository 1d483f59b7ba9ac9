"""A copy of a model folder whose graph itself rounds what goes into its products to int8, as the runtime does.

So every benchmark can be run on any processor as on one that multiplies int8 (where the copy would round twice): what
the runtime rounds there is rounded by the graph, and all else is float32. Slow, and nothing to search with.

    python bench/rounded_model.py src/phrasemate/models/e5-small .cache/rounded --group 128
    python bench/encode.py --model .cache/rounded --hf .cache/e5-small --threads-list 2 --rounds 1
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from phrasemate.encode.model_folder import check_folder
from phrasemate.encode.runtime import GROUP

sys.path.append(str(Path(__file__).parents[1] / "tests" / "encode"))
from rounded import rounded_copy


def main() -> None:
    """Write the folder."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", type=Path)
    options.add_argument("out", type=Path)
    options.add_argument("--group", type=int, default=GROUP, help="numbers with one scale (default: %(default)s)")
    args = options.parse_args()
    check_folder(args.model)
    print(rounded_copy(args.model, args.out, args.group))


if __name__ == "__main__":
    main()

"""Make the bundled model: multilingual-e5-small, and a projection learned from plain text of 12 languages.

python bench/base_model.py .cache/e5-small
python bench/bundled_model.py .cache/e5-small src/phrasemate/models/e5-small
"""

from __future__ import annotations

import gzip
import random
from pathlib import Path

from common import parser

from phrasemate.encode.export import export_model

LANGS = ("cs", "de", "es", "fi", "fr", "hu", "ja", "ko", "ru", "tr", "zh")
FIRST = 15_000  # lines before it give the distractors of bench/phrase_retrieval.py
EACH = 220  # sentence pairs of each corpus, both sides: 4,840 sentences


def sentences(data: Path, seed: int) -> list[str]:
    """Sentences of every language, as many of English as of all the others together."""
    draw, found = random.Random(seed), []
    for lang in LANGS:
        with gzip.open(data / "parallel" / f"en-{lang}.tsv.gz", "rt", encoding="utf-8") as file:
            rows = [line.rstrip("\n").split("\t") for line in file][FIRST:]
        for english, other, *_ in draw.sample(rows, EACH):
            found += [english, other]
    return found


def main() -> None:
    """Write the model folder."""
    options = parser(__doc__)
    options.add_argument("hf", type=Path)
    options.add_argument("out", type=Path)
    options.add_argument("--licence", type=Path, default=Path(__file__).parent / "LICENSE.e5-small.txt")
    args = options.parse_args()
    digest = export_model(
        args.hf,
        args.out,
        name="e5-small",
        sentence_prefix="query: ",
        project=sentences(args.data, args.seed),
        signature={
            "base": "multilingual-e5-small (4 bit, dequantised)",
            "text": "parallel, both sides",
            "seed": args.seed,
        },
        licence=args.licence,
        force=True,
    )
    print(digest)


if __name__ == "__main__":
    main()

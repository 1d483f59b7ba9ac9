"""Write a look-up set of medical terms, from the Covid terms of TICO-19 and the sentences of MedQuAD.

    python bench/medical_terms.py medical
    phrasemate evaluate lookup medical --half dev --size 10000

Each query is a term of one of 28 languages, without a sentence. Right is the English term of the list alone, so a
synonym such as "trouble breathing" counts as wrong. The collection is a random sample of MedQuAD. The text that the
lexicon was counted in has some 3,000 sentences of TICO-19 in nine languages (ar, es, fa, fr, hi, id, pt, ru, zh), and
little of this domain in the others. Terms with odd numbers in the list are the dev half.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
from pathlib import Path

from common import parser, write_lines

from phrasemate.evaluate.lookup import lemmas
from phrasemate.text import folded


def queries(path: Path, language: str) -> list[str]:
    """Return the terms of a language as lines of JSON; a term with several English ones is one query."""
    terms: dict[str, tuple[str, str, set[str]]] = {}
    with path.open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            if text := row["targetString"].strip():
                half = "dev" if int(row["id"]) % 2 else "test"
                terms.setdefault(folded(text), (text, half, set()))[2].add(lemmas(row["sourceString"]))
    shared = {"language": language, "source": "tico19", "domain": "medicine", "sense": None, "function_start": False}
    return [
        json.dumps(
            {"text": text, "start": 0, "end": len(text), "half": half, "right": sorted(right), **shared},
            ensure_ascii=False,
        )
        for text, half, right in terms.values()
    ]


def main() -> None:
    """Write the queries of each language, and the collection."""
    options = parser(__doc__)
    options.add_argument("out", type=Path)
    options.add_argument("--size", type=int, default=10_000, help="sentences of the collection (default: %(default)s)")
    args = options.parse_args()
    for path in sorted((args.data / "terms_general" / "tico19").glob("*.csv")):
        language = path.stem.partition("en-")[2].partition("_")[0]
        write_lines(args.out / f"{language}.jsonl", queries(path, language))
    with gzip.open(args.data / "collections" / "en_medicine_medquad.txt.gz", "rt", encoding="utf-8") as file:
        sentences = sorted({line.strip() for line in file if line.strip()})
    write_lines(args.out / f"en-{args.size}.txt", random.Random(args.seed).sample(sentences, args.size))


if __name__ == "__main__":
    main()

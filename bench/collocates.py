"""Count the bundled collocates: associations of English words in the sentences of the general corpora.

    python bench/collocates.py .cache/general --out src/phrasemate/models/lexicon/collocates.safetensors

The script reads the XX.tsv of bench/general_data.py: the English sides of the pairs of class "free" that are not held
out for the lookup yardstick. A sentence of n content words counts each pair of them 1 / sqrt(n - 1) times. A pair is
written if it counts `--least` or more and both stems occur in `--sentences` or more sentences.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
from common import plain_parser
from phrase_table import held_out
from scipy import sparse

from phrasemate.lexicon.inflection import ENGLISH_FUNCTION_WORDS, stemmed
from phrasemate.lexicon.senses import MOST_STEMS, write_collocates
from phrasemate.text import folded

WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")  # ICU's word boundaries are ten times slower
POWER = 0.75  # exponent that smooths the counts of context words


def sentences(folder: Path) -> list[set[str]]:
    """Return the stems of the content words of each distinct sentence that has two or more."""
    stem_of: dict[str, str] = {}
    distinct: set[str] = set()
    stems = []
    for path in sorted(folder.glob("??.tsv")):
        with path.open(encoding="utf-8", newline="\n") as file:
            for line in file:
                _, english, _, licence = line.rstrip("\n").split("\t")
                if licence != "free" or english in distinct:
                    continue
                distinct.add(english)
                if held_out(english):
                    continue
                forms = set(WORD.findall(folded(english)))
                for form in (form for form in forms if form not in stem_of):
                    content = form not in ENGLISH_FUNCTION_WORDS and len(form) > 1
                    stem_of[form] = stemmed(form, "en") if content else ""
                some = {stem_of[form] for form in forms} - {""}
                if len(some) > 1:
                    stems.append(some)
    return stems


def associations(counts: sparse.csr_matrix, least: float) -> dict[tuple[int, int], float]:
    """Return (lower row, higher row) -> smoothed pointwise mutual information above 0, the mean of both directions."""
    upper = sparse.triu(counts, 1).tocoo()
    frequent = upper.data >= least
    one, two, both = upper.row[frequent], upper.col[frequent], upper.data[frequent]
    totals = np.asarray(counts.sum(1)).ravel()
    smoothed = totals**POWER / (totals**POWER).sum()
    values = np.log(both) - (np.log(totals[one] * smoothed[two]) + np.log(totals[two] * smoothed[one])) / 2
    return {(a, b): value for a, b, value in zip(one.tolist(), two.tolist(), values.tolist(), strict=True) if value > 0}


def main() -> None:
    """Count the pairs and write the file."""
    options = plain_parser(__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--least", type=float, default=0.4)
    options.add_argument("--sentences", type=int, default=8)
    args = options.parse_args()
    texts = sentences(args.folder)
    frequencies = Counter(stem for text in texts for stem in text)
    usual = [stem for stem, count in frequencies.most_common(MOST_STEMS) if count >= args.sentences]
    stems = sorted(usual, key=str.encode)
    row_of = {stem: row for row, stem in enumerate(stems)}
    rows = [[row_of[stem] for stem in text if stem in row_of] for text in texts]
    ends = np.concatenate([[0], np.cumsum([len(some) for some in rows])])
    places = np.concatenate([np.array(some, np.int32) for some in rows])
    present = sparse.csr_matrix((np.ones(len(places), np.float32), places, ends), (len(rows), len(stems)))
    shares = sparse.diags(1 / np.sqrt(np.maximum(np.diff(ends) - 1, 1)).astype(np.float32))
    counts = (present.T @ (shares @ present)).tocsr()
    counts.setdiag(0)
    pairs = associations(counts, args.least)
    facts = {"sentences": str(len(texts)), "licence": "LICENSE.md", "source": "bench/collocates.py"}
    write_collocates(args.out, stems, pairs, facts)
    print(f"{len(texts):,} sentences, {len(stems):,} stems, {len(pairs):,} pairs, {args.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()

"""How many hints sentences get, and how many of them are right, by the least cosine and the least confidence.

    python bench/translation_domains.py .cache/mt
    phrasemate index .cache/mt/law/index.en -o .cache/mt/law/en --lang en
    python bench/hint_limits.py .cache/mt/law

Reads the dev sentences of a domain and its index ``en``. A hint is right if an equivalent is in the reference word for
word, which is a lower bound. A term of the term base that the reference uses has a right hint, wrong ones or none.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from common import parser, report

from phrasemate import Index
from phrasemate.evaluate.report import signature
from phrasemate.lexicon import open_dictionaries
from phrasemate.mt import Hinter, Hints
from phrasemate.mt.scores import HINT_KINDS, hint_counts, kind_of_hint, terms_of

LIMITS = ((0.7, 0.9), (0.0, 0.9), (0.0, 0.8), (0.0, 0.7), (0.0, 0.6))
HEADER = ["domain", "cosine", "confidence", "hints", "right", "terms", *(f"hint {kind}" for kind in HINT_KINDS)]


def main() -> None:
    """Print a row for each domain and pair of limits."""
    options = parser(__doc__)
    options.add_argument("folders", type=Path, nargs="+")
    options.add_argument("--most", type=int, default=40, help="sentences of a domain")
    args = options.parse_args()
    rows, models = [], {}
    for folder in args.folders:
        sources, references = (
            (folder / f"dev.{side}").read_text(encoding="utf-8").splitlines()[: args.most] for side in ("fr", "en")
        )
        terms = terms_of(sources, references, open_dictionaries([folder / "terms.tsv"]), "fr", "en")
        with Index.open(folder / "en", readonly=True, threads=args.threads) as index:
            models["bundled"] = index.model
            for floor, confidence in LIMITS:
                retrieved = Hinter(index, Hints(floor=floor, per_word=0.0, confidence=confidence))(sources)
                records = [
                    {"translation": "", "phrases": list(item.phrases), "hints": [hint.as_dict() for hint in item.hints]}
                    for item in retrieved
                ]
                counts = hint_counts(records, references)
                kinds = Counter(kind_of_hint(term, records[term.line]["hints"], "en") for term in terms)
                share = f"{counts.in_reference / max(1, counts.hinted):.3f}"
                row = [folder.name, floor, confidence, counts.hinted, share, len(terms)]
                rows.append([*row, *(kinds[kind] for kind in HINT_KINDS)])
                print(*rows[-1], flush=True)
    report("hint-limits", HEADER, rows, signature(models, most=args.most))


if __name__ == "__main__":
    main()

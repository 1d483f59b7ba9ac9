"""Write a look-up set of German verbs whose particle stands apart, such as "nahm … teil", from a dictionary.

    python bench/separable_verbs.py lookup verbs
    phrasemate evaluate lookup verbs --half dev --systems search

The phrase of a query is the finite verb, in a sentence of the held-out pairs. Right are the English equivalents that
the dictionary has for the infinitive, in any of its senses, so other good answers count as wrong. The collections are
those of the set that bench/lookup_set.py wrote, without the translations of these sentences.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from common import parser, table_rows, write_lines
from lookup_set import dictionary, domains_of
from phrase_table import held_out

from phrasemate.evaluate.lookup import lemmas
from phrasemate.lexicon import bundled_lexicon
from phrasemate.lexicon.separable_verbs import separable_verbs

LONGEST = 200  # characters of a sentence


def queries(data: Path, mates: set[str]) -> Iterator[str]:
    """Yield the verbs of the dictionary in held-out German sentences as lines of JSON, dev and test in turns.

    The English sides of the sentences are added to ``mates``.
    """
    lexicon, entries, domains = bundled_lexicon(), dictionary(data, "de"), domains_of(data)
    assert lexicon is not None
    number = 0
    for english, german, source, *_ in table_rows(data / "parallel_general" / "en-de.tsv.gz"):
        if len(german) > LONGEST or not held_out(english):
            continue
        for verb in separable_verbs(german, lexicon.language_of(german)):
            right = {lemmas(wording) for wording in entries.get(verb.infinitive, ())} - {""}
            if right:
                mates.add(english)
                start, end = verb.verb
                row = {"text": german, "start": start, "end": end, "language": "de", "right": sorted(right)}
                row |= {"half": ("dev", "test")[number % 2], "source": source, "domain": domains[source]}
                yield json.dumps(row | {"sense": None, "function_start": False}, ensure_ascii=False)
                number += 1


def main() -> None:
    """Write the queries, and the collections."""
    options = parser(__doc__)
    options.add_argument("lookup", type=Path)
    options.add_argument("out", type=Path)
    args = options.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    mates: set[str] = set()
    lines = list(queries(args.data, mates))
    write_lines(args.out / "de.jsonl", lines)
    for path in sorted(args.lookup.glob("en-*.txt")):
        sentences = path.read_text(encoding="utf-8").splitlines()
        write_lines(args.out / path.name, (line for line in sentences if line not in mates))
    print(f"{len(lines)} verbs")


if __name__ == "__main__":
    main()

"""Write a look-up set of words that are rare in the text which the lexicon is counted in, from dictionaries.

    python bench/dictionary_words.py .cache/general lookup words
    phrasemate evaluate lookup words --half dev

Each query is a word of a dictionary, without a sentence. Right are the English words that the dictionary has for it, so
other good answers count as wrong. The word is linked --fewest to --most times in the tables of bench/phrase_table.py.
The collections are those of the set that bench/lookup_set.py wrote. The links of that set's answers come from the same
kind of alignment as the lexicon; dictionaries are independent of it.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from common import parser, table_rows, write_lines
from phrase_table import linked

from phrasemate.evaluate.lookup import lemmas
from phrasemate.text import folded, words


def rare_words(table: Path, fewest: int, most: int) -> set[str]:
    """Return the words with this number of links in free sentence pairs."""
    links: Counter[str] = Counter()
    for word, _, _, count in linked(table):
        if len(words(word)) == 1:
            links[folded(word)] += count
    return {word for word, count in links.items() if fewest <= count <= most}


def queries(dictionary: Path, table: Path, language: str, limits: tuple[int, int, int], seed: int) -> Iterator[str]:
    """Yield a sample of words as lines of JSON; ``limits``: fewest and most links of a word, most words."""
    fewest, most, number = limits
    rare = rare_words(table, fewest, most)
    right_of: dict[str, set[str]] = {}
    for english, other, *_ in table_rows(dictionary):
        if (word := folded(other)) in rare and len(words(english.removeprefix("to "))) == 1:
            right_of.setdefault(word, set()).add(lemmas(english))
    shared = {"language": language, "source": "terms", "domain": "words", "sense": None, "function_start": False}
    sample = random.Random(seed).sample(sorted(right_of), min(number, len(right_of)))
    for at, word in enumerate(sample):
        row = {"text": word, "start": 0, "end": len(word), "half": ("dev", "test")[at % 2]}
        row |= {"right": sorted(right_of[word])}
        yield json.dumps(row | shared, ensure_ascii=False)


def main() -> None:
    """Write the queries of each language that has a dictionary and a table, and copy the collections."""
    options = parser(__doc__)
    options.add_argument("tables", type=Path)
    options.add_argument("lookup", type=Path)
    options.add_argument("out", type=Path)
    options.add_argument("--fewest", type=int, default=1)
    options.add_argument("--most", type=int, default=20)
    options.add_argument("--words", type=int, default=1_000, help="words of a language (default: %(default)s)")
    args = options.parse_args()
    for path in sorted((args.data / "terms").glob("en-*.tsv.gz")):
        language = path.name[len("en-") :].partition(".")[0]
        table = args.tables / f"{language}.phrases.tsv"
        if table.exists():
            limits = args.fewest, args.most, args.words
            write_lines(args.out / f"{language}.jsonl", list(queries(path, table, language, limits, args.seed)))
    for path in args.lookup.glob("en-*.txt"):
        shutil.copy(path, args.out)


if __name__ == "__main__":
    main()

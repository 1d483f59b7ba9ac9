"""Word vectors of two languages mapped onto each other: how good a lexicon comes out, by which method.

    python bench/word_mapping.py                                PPMI vectors of both sides of the German corpus
    python bench/word_mapping.py --english other                English text without a line that is translated there
    python bench/word_mapping.py --distilled OUT                vectors of bench/word_vectors.py, which share a space

PPMI vectors share nothing before they are mapped. "Same" text is the two sides of one parallel corpus, each by itself:
that they are translations is never used, but such texts are as comparable as texts can be. "Other" is English of the
French and Spanish corpora, without the lines that the German one has too. Learnt from: the words 1 to 5,000 of the MUSE
lexicon de-en (25 where it says so), or nothing; asked: the words 5,001 to 6,500.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import parser, report
from word_vectors import HEADER, Side, show, told

from phrasemate.evaluate.report import signature
from phrasemate.vectors import (
    Mapped,
    SelfLearning,
    WordVectors,
    entries,
    induce,
    map_supervised,
    map_unsupervised,
    read_lexicon,
)
from phrasemate.vectors.ppmi import PPMISettings, train_ppmi

Lexicon = list[tuple[str, str]]


class Other:
    """English lines of other corpora that are not translated in the German one."""

    def __init__(self, folder: Path) -> None:
        self.known, self.texts = Side(folder, "en", ("de",)), Side(folder, "en", ("fr", "es"))

    def __iter__(self) -> Iterator[str]:
        known = set(self.known)
        return (text for text in self.texts if text not in known)


def ways(source: WordVectors, target: WordVectors, lexicon: Lexicon, args: Any) -> Iterator[tuple[str, Mapped]]:
    """Every way of mapping, by name."""
    settings = SelfLearning(vocabulary=args.vocabulary, initial=args.initial, seed=args.seed)
    yield "procrustes, 5,000 words", map_supervised(source, target, lexicon)
    yield "symmetric, 5,000 words", map_supervised(source, target, lexicon, "symmetric")
    few = entries(lexicon, 1, 25)
    yield "procrustes, 25 words", map_supervised(source, target, few)
    if not args.quick:
        yield "self-learning, 25 words", map_unsupervised(source, target, settings, few, progress=told)
        yield "self-learning, no lexicon", map_unsupervised(source, target, settings, progress=told)


def trained(args: Any) -> tuple[WordVectors, WordVectors]:
    """PPMI vectors of German and English."""
    folder = args.data / "parallel"
    english = Side(folder, "en", ("de",)) if args.english == "same" else Other(folder)
    settings = PPMISettings(words=args.words, least=3, seed=args.seed)
    german = train_ppmi(Side(folder, "de"), settings, "de", show)
    return german, train_ppmi(english, settings, "en", show)


def main() -> None:
    """Train, map, print the table."""
    options = parser(__doc__)
    options.add_argument("--english", choices=("same", "other"), default="same")
    options.add_argument("--distilled", type=Path, metavar="OUT", help="folder of bench/word_vectors.py")
    options.add_argument("--words", type=int, default=20_000)
    options.add_argument("--vocabulary", type=int, default=6_000, help="words that self-learning looks at")
    options.add_argument("--initial", type=int, default=4_000, help="words that it begins with")
    options.add_argument("--quick", action="store_true", help="without self-learning")
    args = options.parse_args()
    lexicon = read_lexicon(args.data / "dictionaries" / "en-de.tsv.gz", (2, 1))
    asked, known = entries(lexicon, 5001, 6500), entries(lexicon, 1, 5000)
    rows = []
    if args.distilled:
        kind, sides = "distilled", tuple(WordVectors.load(args.distilled / language) for language in ("de", "en"))
        plain = Mapped(*sides)
        rows.append([kind, "as they are", 0.0, *induce(plain.source, plain.target, asked).as_dict().values()])
        plain = Mapped(*(side.prepared() for side in sides))
        rows.append([kind, "each centred", 0.0, *induce(plain.source, plain.target, asked).as_dict().values()])
    else:
        kind, sides = f"PPMI, {args.english} text", trained(args)
    started = time.perf_counter()
    for name, mapped in ways(*sides, known, args):
        seconds = time.perf_counter() - started
        rows.append([kind, name, seconds, *induce(mapped.source, mapped.target, asked).as_dict().values()])
        print(rows[-1], file=sys.stderr)
        started = time.perf_counter()
    facts = signature(None, words=args.words, vocabulary=args.vocabulary, initial=args.initial, seed=args.seed)
    name = "word_mapping_" + ("distilled" if args.distilled else args.english)
    report(name, ["vectors", "mapping", "seconds", *HEADER[1:]], rows, facts)


if __name__ == "__main__":
    main()

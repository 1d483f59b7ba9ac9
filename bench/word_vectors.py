"""Word vectors distilled from the model for several languages in one space, and how good a lexicon they are.

    python bench/word_vectors.py OUT
    python bench/word_vectors.py OUT --languages en de cs --words 30000

Text: the sides of the parallel corpora, each by itself, repeated lines once; English from those with German, French and
Spanish. One projection is learnt from all languages together. OUT/LANG are the vectors, OUT/states/LANG the mean states
before the projection; what is there already is kept, and a run that was stopped goes on. The table: accuracy at 1 of
English words' nearest neighbours in the other language and back, by default for the words 5,001 to 6,500 of the MUSE
lexicons, which is where tests are usually taken from.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from common import parser, report

from phrasemate import load_model
from phrasemate.evaluate.report import signature
from phrasemate.vectors import (
    DistilSettings,
    WordVectors,
    entries,
    induce,
    learn_projection,
    mean_states,
    project,
    read_lexicon,
)
from phrasemate.vectors.lexicon import parse_range

LANGUAGES = ("en", "de", "cs", "hu", "fr", "es", "ru", "ja", "zh", "ko")
ENGLISH = ("de", "fr", "es")
HEADER = ["languages", "words asked", "missing", "acc@1 nearest", "acc@1 csls"]


class Side:
    """One side of parallel files, each line once, again and again."""

    def __init__(self, folder: Path, language: str, others: Sequence[str] = ENGLISH) -> None:
        others = others if language == "en" else (language,)
        self.files = [folder / f"en-{other}.tsv.gz" for other in others]
        self.column = 0 if language == "en" else 1

    def __iter__(self) -> Iterator[str]:
        seen = set()
        for file in self.files:
            with gzip.open(file, "rt", encoding="utf-8", newline="\n") as lines:
                for line in lines:
                    text = line.rstrip("\n").split("\t")[self.column]
                    if (key := hash(text)) not in seen:
                        seen.add(key)
                        yield text


def show(what: str, done: int, total: int) -> None:
    """Progress on one line of standard error, where somebody looks at it."""
    if sys.stderr.isatty():
        print(f"\r{what} {done:,}{f' of {total:,}' if total else ''}    ", end="", file=sys.stderr, flush=True)


def told(iteration: int, keep: float, objective: float) -> None:
    """Progress of self-learning."""
    show(f"p {keep:.1f}, objective {objective:.4f}, iteration", iteration, 0)


def rows(vectors: dict[str, WordVectors], folder: Path, asked: tuple[int, int | None]) -> Iterable[list[Any]]:
    """English to each language and back."""
    for language, other in vectors.items():
        if language == "en":
            continue
        for name, columns, pair in (("en-{}", (1, 2), ("en", language)), ("{}-en", (2, 1), (language, "en"))):
            lexicon = entries(read_lexicon(folder / f"en-{language}.tsv.gz", columns), *asked)
            found = induce(vectors[pair[0]], vectors[pair[1]], lexicon).as_dict()
            yield [name.format(other.language), *found.values()]


def main() -> None:
    """Distil, project, print the table."""
    options = parser(__doc__)
    options.add_argument("out", type=Path, metavar="OUT")
    options.add_argument("--languages", nargs="+", default=LANGUAGES, metavar="LANG")
    options.add_argument("--words", type=int, default=20_000)
    options.add_argument("--contexts", type=int, default=8)
    options.add_argument("--least", type=int, default=2)
    options.add_argument("--dim", type=int, default=300)
    options.add_argument("--pooling", default="mean", help="mean, ends or head (default: %(default)s)")
    options.add_argument("--entries", default="5001:6500", help="words of the lexicon that are asked (%(default)s)")
    args = options.parse_args()
    (args.out / "states").mkdir(parents=True, exist_ok=True)
    model = load_model(args.model, args.threads)
    settings = DistilSettings(args.words, args.contexts, args.least, args.pooling, None, args.seed)
    states = {}
    for language in args.languages:
        folder = args.out / "states" / language
        if not folder.exists():
            texts, partial = Side(args.data / "parallel", language), folder.with_name(language + ".part")
            mean_states(model, texts, settings, language, partial, show).save(folder)
        states[language] = WordVectors.load(folder)
        print(f"\r{language}: {len(states[language]):,} words", file=sys.stderr)
    projection = learn_projection(list(states.values()), args.dim)
    vectors = {language: project(side, projection) for language, side in states.items()}
    for language, side in vectors.items():
        side.save(args.out / language, force=True)
    facts = signature(model, **asdict(settings), dim=args.dim, entries=args.entries)
    report("word_vectors", HEADER, list(rows(vectors, args.data / "dictionaries", parse_range(args.entries))), facts)


if __name__ == "__main__":
    main()

"""Word vectors for BiCLA in which no word of the training text and of the test sets is without one.

    python bench/word_vectors.py .cache/vectors --languages en de cs hu
    python bench/bicla_data.py .cache/bicla --most 20000 --joined 16000
    python bench/bicla_vectors.py .cache/vectors .cache/bicla .cache/wide

Of the test sets and the training pairs only the words are taken, each read by itself (`phrasemate.vectors.cover`). The
table: how many of the test sets' words (stop-words aside) have a vector before. For other sets than Europarl's give a
folder that has them in sentence_bench/europarl as --data, and --pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from common import parser, report

from phrasemate import load_model
from phrasemate.evaluate.bicla import PAIRS, SETS
from phrasemate.evaluate.report import signature
from phrasemate.evaluate.sentences import read_set
from phrasemate.text.stopwords import content_words, stop_words
from phrasemate.vectors import WordVectors, cover

HEADER = ["language", "words", "added", "words of the tests", "without a vector", "share of running words"]


def sides(data: Path, trained: Path, pairs: Sequence[str]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The sentences of each language: of the test sets, and of the training pairs."""
    tests: dict[str, list[str]] = {}
    training: dict[str, list[str]] = {}
    for pair in pairs:
        each = read_set(data / SETS, pair)
        for language, texts in zip(each.languages, (each.queries, each.documents), strict=True):
            tests.setdefault(language, []).extend(texts)
        for name in ("train", "dev"):
            lines = (trained / pair / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
            for column, language in enumerate(each.languages):
                training.setdefault(language, []).extend(line.split("\t")[column] for line in lines)
    return tests, training


def main() -> None:
    """Cover, print the table."""
    options = parser(__doc__)
    options.add_argument("vectors", type=Path, metavar="VECTORS", help="of bench/word_vectors.py")
    options.add_argument("training", type=Path, metavar="PAIRS", help="of bench/bicla_data.py")
    options.add_argument("out", type=Path, metavar="OUT")
    options.add_argument("--pairs", nargs="+", default=list(PAIRS), metavar="XX-YY", help="(default: all six)")
    args = options.parse_args()
    model, rows = load_model(args.model, args.threads), []
    args.out.mkdir(parents=True, exist_ok=True)
    tests, training = sides(args.data, args.training, args.pairs)
    for language, texts in tests.items():
        stop, space = stop_words(language), WordVectors.load(args.vectors / language)
        running = [word for text in texts for word in content_words(text, stop)]
        other = (word for text in training[language] for word in content_words(text, stop))
        wide = cover(space, model, [*running, *other])
        wide.save(args.out / language, force=True)
        lacking = [word for word in running if word not in space]
        rows.append([language, len(space), len(wide) - len(space), len(set(running)), len(set(lacking))])
        rows[-1].append(round(len(lacking) / len(running), 3))
    report("bicla_vectors", HEADER, rows, signature(model))


if __name__ == "__main__":
    main()

"""Word vectors for the CLWE rows of phrasemate evaluate xpr: of each side's own text, plain and mapped without lexicon.

    python bench/xpr_vectors.py .cache/xpr .cache/xpr-runs/vectors
    python bench/xpr_runs.py .cache/xpr .cache/xpr-runs --base .cache/multilingual-e5-small --vectors vectors

Text: what bench/xpr_data.py took the example sentences from (SET/.work). PPMI vectors, so that the two languages share
nothing before they are mapped. OUT/supervised/PAIR/LANG are the vectors as they are: the evaluation learns an
orthogonal mapping from the training pairs. OUT/unsupervised/PAIR/LANG are mapped by self-learning (VecMap). What is
there is not made again.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from word_vectors import show, told

from phrasemate.vectors import SelfLearning, WordVectors, map_unsupervised
from phrasemate.vectors.ppmi import PPMISettings, train_ppmi


class Lines:
    """The lines of a file, again and again."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[str]:
        with self.path.open(encoding="utf-8") as file:
            for line in file:
                yield line.rstrip("\n")


def learnt(text: Path, lang: str, out: Path, settings: PPMISettings) -> Path:
    """The vectors of a text, learnt unless a file of the same bytes has been before: OUT/texts/DIGEST."""
    folder = out / "texts" / blake2b(text.read_bytes(), digest_size=8).hexdigest()
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        train_ppmi(Lines(text), settings, lang, show).save(folder)
    return folder


def main() -> None:
    """Learn, map, save."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("dataset", type=Path)
    options.add_argument("out", type=Path)
    options.add_argument("--pairs", default="de-en,fr-en,es-en,cs-en,ru-en,ja-en,zh-en,ko-en")
    options.add_argument("--words", type=int, default=30_000)
    options.add_argument("--vocabulary", type=int, default=5_000, help="words that self-learning looks at")
    options.add_argument("--plain", action="store_true", help="do not map any")
    options.add_argument("--seed", type=int, default=0)
    args = options.parse_args()
    settings = PPMISettings(words=args.words, least=3, seed=args.seed)
    for pair in args.pairs.split(","):
        started, (lang, _) = time.perf_counter(), pair.split("-")
        files = {lang: args.dataset / ".work" / f"{lang}.txt", "en": args.dataset / ".work" / f"{lang}-en.txt"}
        for each, text in files.items():
            plain = args.out / "supervised" / pair / each
            if not plain.exists():
                shutil.copytree(learnt(text, each, args.out, settings), plain)
        folders = [args.out / "unsupervised" / pair / each for each in files]
        if not args.plain and not all(folder.exists() for folder in folders):
            sides = [WordVectors.load(args.out / "supervised" / pair / each) for each in files]
            learning = SelfLearning(vocabulary=args.vocabulary, initial=min(args.vocabulary, 4_000), seed=args.seed)
            mapped = map_unsupervised(*sides, learning, progress=told)
            folders[0].parent.mkdir(parents=True, exist_ok=True)
            for folder, side in zip(folders, (mapped.source, mapped.target), strict=True):
                shutil.rmtree(folder, ignore_errors=True)
                side.save(folder)
        print(f"\n{pair}: {time.perf_counter() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()

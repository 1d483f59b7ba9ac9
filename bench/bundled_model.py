"""Make the bundled model: multilingual-e5-small, trained by CCPR on the phrase pairs of 13 languages with English.

    python bench/bundled_model.py RUN/model src/phrasemate/models/e5-small

All commands, from the base model and the training data on: docs/model-card.md.
The base model comes with its table in 4 bit, and training leaves the table alone, so 4 bit lose nothing.

    phrasemate model unpack -o .cache/bundled
    python bench/bundled_model.py .cache/bundled src/phrasemate/models/e5-small --same

writes the same weights again, where the way of writing them has got better. What was fitted to the folder before, its
confidence and the re-ranker, stays with it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from phrasemate.encode.calibration import CONFIDENCE
from phrasemate.encode.export.export import export_model
from phrasemate.encode.model_folder import check_folder
from phrasemate.reranker import bundled_reranker, load_reranker, save_reranker


def main() -> None:
    """Write the model folder."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("trained", type=Path, help="the folder model/ of a training run")
    options.add_argument("out", type=Path)
    options.add_argument("--licence", type=Path, default=Path(__file__).parent / "LICENSE.e5-small.txt")
    options.add_argument("--base", type=Path, help="average with these weights")
    options.add_argument("--share", type=float, default=1.0, help="of the trained weights (default: %(default)s)")
    options.add_argument("--sentence-prefix", default="")
    options.add_argument("--same", action="store_true", help="the weights of OUT itself: keep what was fitted to them")
    args = options.parse_args()
    fitted = json.loads((args.out / CONFIDENCE).read_text(encoding="utf-8")) if args.same else {}
    _, before = check_folder(args.out) if args.same else ({}, "")
    digest = export_model(
        args.trained,
        args.out,
        base=args.base,
        share=args.share,
        name="e5-small-ccpr",
        sentence_prefix=args.sentence_prefix,
        licence=args.licence,
        force=True,
    )
    if args.same:
        keep(args.out, fitted, before, digest)
    print(digest)


def keep(out: Path, fitted: dict[str, object], before: str, digest: str) -> None:
    """Let the confidence and the bundled re-ranker name the new hash, if they named that of before."""
    if fitted["model"] == before:
        text = json.dumps({**fitted, "model": digest}, indent=1, ensure_ascii=False)
        (out / CONFIDENCE).write_text(text + "\n", encoding="utf-8")
    trained = load_reranker()
    if trained.encoder == before:
        save_reranker(trained.network, bundled_reranker(), digest, trained.facts)


if __name__ == "__main__":
    main()

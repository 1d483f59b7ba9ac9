"""Make the bundled model: multilingual-e5-small, trained by CCPR on the phrase pairs of 13 languages with English.

    python bench/bundled_model.py RUN/model src/phrasemate/models/e5-small

All commands, from the base model and the training data on: results/log/model-card.md.
The base model comes with its table in 4 bit, and training leaves the table alone, so 4 bit lose nothing.
"""

from __future__ import annotations

from pathlib import Path

from common import plain_parser

from phrasemate.encode.export.export import export_model


def main() -> None:
    """Write the model folder."""
    options = plain_parser(__doc__)
    options.add_argument("trained", type=Path, help="the folder model/ of a training run")
    options.add_argument("out", type=Path)
    options.add_argument("--licence", type=Path, default=Path(__file__).parent / "LICENSE.e5-small.txt")
    options.add_argument("--base", type=Path, help="average with these weights")
    options.add_argument("--share", type=float, default=1.0, help="of the trained weights (default: %(default)s)")
    options.add_argument("--sentence-prefix", default="")
    options.add_argument("--context-weight", type=float, help="of its sentence in a phrase's vector")
    args = options.parse_args()
    digest = export_model(
        args.trained,
        args.out,
        base=args.base,
        share=args.share,
        name="e5-small-ccpr",
        sentence_prefix=args.sentence_prefix,
        context_weight=args.context_weight,
        licence=args.licence,
        force=True,
    )
    print(digest)


if __name__ == "__main__":
    main()

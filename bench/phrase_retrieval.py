"""Contextual phrase retrieval after CCPR, section 6.2, of all poolings of one model: is the very gold span first?

The protocol is that of phrasemate.evaluate.phrases (docs/evaluate.md); `phrasemate evaluate ccpr --only phrases` has
intervals, significance and other models beside.

    python bench/phrase_retrieval.py --pooling ends head
"""

from __future__ import annotations

from itertools import islice

from common import parser, report

from phrasemate import load_model
from phrasemate.evaluate.data import LANGS
from phrasemate.evaluate.distractors import distractor_sentences, spans_of
from phrasemate.evaluate.phrases import MEASURES, evaluate_phrases
from phrasemate.evaluate.report import signature
from phrasemate.evaluate.systems import ModelSource


def spans(text: str) -> list[tuple[int, int]]:
    """Spans of one to six white-space words that begin and end in a letter or digit."""
    return [(start, end) for start, end in spans_of(text).tolist()]


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--pooling", nargs="+", default=None, help="ends, mean, head (default: all that there are)")
    options.add_argument("--sentences", type=int, default=12_000, help="distractor sentences")
    args = options.parse_args()
    model = load_model(args.model, args.threads)
    poolings = args.pooling or ["mean", "ends", *(["head"] if model.head else [])]
    wanted = sum(len(spans_of(text)) for text in islice(distractor_sentences(args.data), args.sentences))
    figures = evaluate_phrases([ModelSource(model, {name: name for name in poolings})], args.data, wanted)
    rows = [
        [name, measure, *(float(score(figures.rankings[name][lang]).mean()) for lang in LANGS)]
        for name in poolings
        for measure, score in MEASURES.items()
    ]
    facts = signature(model, distractor_spans=figures.spans)
    report("phrase_retrieval", ["vectors", "measure", *LANGS], rows, facts)


if __name__ == "__main__":
    main()

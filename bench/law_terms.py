"""The terms that laws define: how many of them are among the first 50, 100 and 200 that are extracted from each law.

Laws: consolidated acts of Canada, whose defined terms are in ``terms_general/canada_law_defined_terms``. The text of an
act is read from its XML (justicecanada/laws-lois-xml: ``eng/acts/NAME.xml``, ``fra/lois/NAME.xml``) in the folder
``--laws``: headings, marginal notes and paragraphs, without repealed text and history. Without the folder a document
is made of the definitions alone, which is easier. Right is a term one of whose forms is a defined term (same words,
cases folded); recall is over all different defined terms of the act.

The acts of ``--part dev`` were looked at while choosing features; the weights in `phrasemate.termhood` are fitted on
them (``--part fit`` prints them). ``--part test`` is the rest. Each is measured twice: as it is, and without the
feature that knows definitions ("share means ..."), as if the law named its terms nowhere.

    python bench/law_terms.py --part test --laws laws-lois-xml
    python bench/law_terms.py --part fit --laws laws-lois-xml
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
from common import logistic, parser, report, table_rows

from phrasemate import Document, Model, load_model
from phrasemate.evaluate.report import signature
from phrasemate.termhood import WEIGHTS, PhraseStatistics, fold_parts
from phrasemate.terms import TermSettings, find_phrases, prepare_phrases, wording

ACTS = {
    "dev": {
        "en": "C-21 C-23.4 F-11.6 F-27 F-8 N-27.05 O-5 P-1.3 P-8.6 P-9.01 R-11 Y-2.2",
        "fr": "F-8 O-5 P-1.3 P-8.6 P-9.01 Y-2.2",
    },
    "test": {
        "en": "C-18.3 C-29.7 C-36 G-10 I-21.8 N-11 N-28.8 O-9 R-2 S-12.55 T-11.5",
        "fr": "C-18.3 C-29.7 C-36 I-21.8 R-2",
    },
}
FIRST = (50, 100, 200)
BLOCKS = {"Text", "MarginalNote", "TitleText", "LongTitle", "ShortTitle"}
LEFT_OUT = {"RelatedOrNotInForce", "HistoricalNote", "BillHistory", "RecentAmendments"}
IN_BLOCKS = {"HistoricalNote", "Repealed", "Footnote"}
OTHER_TERM = {"en": "DefinedTermFr", "fr": "DefinedTermEn"}


class Law(NamedTuple):
    """The described phrases of a law, and the terms that it defines."""

    language: str
    name: str
    phrases: dict[str, PhraseStatistics]
    defined: set[str]

    def right(self, key: str) -> set[str]:
        """The defined terms among the forms of a phrase."""
        return self.defined.intersection(self.phrases[key].forms or (key,))


def laws(args: argparse.Namespace, part: str, model: Model) -> Iterator[Law]:
    rows = list(table_rows(args.data / "terms_general" / "canada_law_defined_terms.en-fr.tsv.gz"))
    for language, names in ACTS[part].items():
        side = ("en", "fr").index(language)
        for name in names.split():
            chosen = [row for row in rows if row[4] == f"eng/acts/{name}.xml"]
            if args.laws is None:
                lines = list(dict.fromkeys(row[side + 2] for row in chosen))
            else:
                folder = ("eng/acts", "fra/lois")[side]
                lines = list(paragraphs(ElementTree.parse(args.laws / folder / f"{name}.xml").getroot(), language))
            settings = TermSettings(language=language, most=None)
            phrases = find_phrases([Document.from_texts(name, lines)], model, settings)
            yield Law(language, name, prepare_phrases(phrases, model, settings), {wording(row[side]) for row in chosen})


def paragraphs(element: ElementTree.Element, language: str) -> Iterator[str]:
    if element.tag in BLOCKS:
        text = " ".join(text_of(element, {*IN_BLOCKS, OTHER_TERM[language]}).split())
        if text := re.sub(r"\s*\(\s*\)", "", text):
            yield text
    elif element.tag not in LEFT_OUT:
        for child in element:
            yield from paragraphs(child, language)


def text_of(element: ElementTree.Element, left_out: set[str]) -> str:
    parts = [element.text or ""]
    for child in element:
        parts += ["" if child.tag in left_out else text_of(child, left_out), child.tail or ""]
    return "".join(parts)


def recall(law: Law, weights: Mapping[str, float]) -> list[float]:
    """The shares of the defined terms among the first phrases."""
    scores = {
        key: sum(weights[name] * value for name, value in statistics.features.items())
        for key, statistics in law.phrases.items()
    }
    order = fold_parts(law.phrases, sorted(scores, key=lambda key: (-scores[key], -law.phrases[key].count)))
    return [len(set().union(*map(law.right, order[:first]))) / len(law.defined) for first in FIRST]


def fit(some: list[Law]) -> tuple[dict[str, float], float]:
    """Weights and bias of a logistic regression over all features but "defined"."""
    names = [name for name in WEIGHTS if name != "defined"]
    rows = [(law, key, law.phrases[key].features) for law in some for key in law.phrases]
    table = np.array([[features[name] for name in names] for _, _, features in rows])  # (phrases, features)
    right = np.array([bool(law.right(key)) for law, key, _ in rows])
    weights, constant = logistic(table, right)
    return dict(zip(names, weights.round(2).tolist(), strict=True)), constant


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--part", choices=("dev", "test", "fit"), default="test")
    options.add_argument("--laws", type=Path, help="folder with eng/acts and fra/lois (default: definitions alone)")
    args = options.parse_args()
    model = load_model(args.model, threads=args.threads)
    part = "dev" if args.part == "fit" else args.part
    some = list(laws(args, part, model))
    if args.part == "fit":
        print(*fit(some))
        return
    table: list[list[Any]] = []
    for language in ACTS[part]:
        spoken = [law for law in some if law.language == language]
        for name, weights in (("termhood", WEIGHTS), ("without definitions", {**WEIGHTS, "defined": 0.0})):
            figures = [recall(law, weights) for law in spoken]
            for law, shares in zip(spoken, figures, strict=True):
                table.append([language, name, law.name, len(law.defined), *shares])
            table.append([language, name, "mean", "", *np.mean(figures, axis=0).tolist()])
    facts = signature(model, part=part, text="definitions" if args.laws is None else "whole acts")
    report(f"law_terms_{part}", ["language", "ranking", "act", "terms", *map(str, FIRST)], table, facts)


if __name__ == "__main__":
    main()

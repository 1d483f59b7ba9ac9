"""Measure term extraction on laws: how many of the terms that a law defines are among its first 50, 100 and 200 terms.

The laws are consolidated acts of Canada, and ``terms_general/canada_law_defined_terms`` has the terms that they define.
The text of an act is read from its XML (justicecanada/laws-lois-xml: ``eng/acts/NAME.xml``, ``fra/lois/NAME.xml``) in
the folder ``--laws``: headings, marginal notes and paragraphs, without repealed text and history. Without this folder,
a document consists of the definitions alone, which is easier. A term is right if one of its forms is a defined term
(the same words, ignoring case). Recall is over all distinct defined terms of the act.

Features were chosen on the acts of ``--part dev``, and the weights in `phrasemate.termhood` are fitted on them
(``--part fit`` prints them). ``--part test`` has the other acts. Each act is measured twice: normally, and without the
feature that recognises definitions ("share means ..."), as if the law defined its terms nowhere.

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
FIRST = (50, 100, 200)  # numbers of first terms
BLOCKS = {"Text", "MarginalNote", "TitleText", "LongTitle", "ShortTitle"}
LEFT_OUT = {"RelatedOrNotInForce", "HistoricalNote", "BillHistory", "RecentAmendments"}
IN_BLOCKS = {"HistoricalNote", "Repealed", "Footnote"}
OTHER_TERM = {"en": "DefinedTermFr", "fr": "DefinedTermEn"}


class Law(NamedTuple):
    """Law with its described phrases and the terms that it defines."""

    language: str
    name: str
    phrases: dict[str, PhraseStatistics]
    defined: set[str]

    def right(self, key: str) -> set[str]:
        """Return the defined terms among the forms of a phrase."""
        return self.defined.intersection(self.phrases[key].forms or (key,))


def laws(args: argparse.Namespace, part: str, model: Model) -> Iterator[Law]:
    """Yield the laws of a part."""
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
    """Yield the texts of headings, marginal notes and paragraphs in an element."""
    if element.tag in BLOCKS:
        text = " ".join(text_of(element, {*IN_BLOCKS, OTHER_TERM[language]}).split())
        if text := re.sub(r"\s*\(\s*\)", "", text):
            yield text
    elif element.tag not in LEFT_OUT:
        for child in element:
            yield from paragraphs(child, language)


def text_of(element: ElementTree.Element, left_out: set[str]) -> str:
    """Return the text of an element without that of the elements in ``left_out``."""
    parts = [element.text or ""]
    for child in element:
        parts += ["" if child.tag in left_out else text_of(child, left_out), child.tail or ""]
    return "".join(parts)


def recall(law: Law, weights: Mapping[str, float]) -> list[float]:
    """Return the shares of the defined terms among the first phrases, for each of `FIRST`."""
    scores = {
        key: sum(weights[name] * value for name, value in statistics.features.items())
        for key, statistics in law.phrases.items()
    }
    order = fold_parts(law.phrases, sorted(scores, key=lambda key: (-scores[key], -law.phrases[key].count)))
    return [len(set().union(*map(law.right, order[:first]))) / len(law.defined) for first in FIRST]


def fit(some: list[Law]) -> tuple[dict[str, float], float]:
    """Return weights and bias of a logistic regression over all features except those that are set by hand."""
    names = [name for name in WEIGHTS if name not in ("defined", "small letter")]
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

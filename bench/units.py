"""Units of the reading view: how many of those that a translator wants are shown as one.

A small list of our own: sentences with the units of several words, or of one compound, that should be one. Reported is
how many of them `phrasemate.concordance.read` shows exactly so, and by the segmenter alone.

    python bench/units.py
"""

from __future__ import annotations

from common import parser, report

from phrasemate import load_model
from phrasemate.concordance import choose_disjoint, read
from phrasemate.evaluate.report import signature

SENTENCES = {
    "de": [
        ("Das Betreten der Baustelle geschieht auf eigene Gefahr.", ["auf eigene Gefahr"]),
        ("Der Vertrag tritt mit sofortiger Wirkung in Kraft.", ["mit sofortiger Wirkung", "in Kraft"]),
        ("Im Großen und Ganzen war er mit dem Ergebnis zufrieden.", ["Im Großen und Ganzen"]),
        ("Die Kfz-Versicherung zahlt den Schaden.", ["Kfz-Versicherung"]),
        ("Er hat die E-Mail-Adresse zur Verfügung gestellt.", ["E-Mail-Adresse", "zur Verfügung"]),
        ("Der Mieter haftet nach den gesetzlichen Bestimmungen.", ["gesetzlichen Bestimmungen"]),
        ("Das Online-Banking steht nach wie vor bereit.", ["Online-Banking", "nach wie vor"]),
        ("Wir nehmen das Schreiben zur Kenntnis.", ["zur Kenntnis"]),
    ],
    "fr": [
        ("Le contrat entre en vigueur le premier janvier.", ["en vigueur"]),
        ("Il faut tenir compte des frais de port.", ["tenir compte", "frais de port"]),
        ("La mise en œuvre du règlement a commencé.", ["mise en œuvre"]),
        ("Tout à coup, le chemin de fer s'arrêta.", ["Tout à coup", "chemin de fer"]),
        ("Le porte-parole a démenti la nouvelle.", ["porte-parole"]),
    ],
    "es": [
        ("Sin embargo, el derecho de autor es complejo.", ["Sin embargo", "derecho de autor"]),
        ("La empresa tiene un plan de pensiones.", ["plan de pensiones"]),
    ],
    "en": [
        ("The agreement shall remain in force.", ["in force"]),
        ("He spoke on behalf of his client.", ["on behalf of"]),
        ("They visited the site at their own risk.", ["at their own risk"]),
        ("The long-term contract was signed in good faith.", ["long-term", "in good faith"]),
    ],
    "ja": [
        ("彼は運転免許証を持っています。", ["運転免許証"]),
        ("東京証券取引所は明日休みです。", ["東京証券取引所"]),
        ("彼女は国際連合で働いている。", ["国際連合"]),
    ],
}


def main() -> None:
    args = parser(__doc__).parse_args()
    model = load_model(args.model, threads=args.threads)
    table: list[list[object]] = []
    for language, items in SENTENCES.items():
        now = alone = total = 0
        for sentence, units in items:
            visible = {sentence[span.start : span.end] for span in read(sentence, model).shown}
            proposed = {sentence[s.start : s.end] for s in choose_disjoint(sentence, model.segment([sentence])[0])}
            now, alone, total = now + len(visible & {*units}), alone + len(proposed & {*units}), total + len(units)
        table.append([language, total, alone, now])
    table.append(["all", *(sum(int(str(row[column])) for row in table) for column in (1, 2, 3))])
    report("units", ["language", "units", "segmenter alone", "shown"], table, signature(model))


if __name__ == "__main__":
    main()

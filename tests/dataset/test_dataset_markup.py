"""Wikitext to text."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from phrasemate.dataset.dump import pages
from phrasemate.dataset.markup import paragraphs
from phrasemate.errors import MissingExtra

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "data" / "wikipedia_dump_samples"


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        ("Der '''Hund''' ist ein ''Tier''.", ["Der Hund ist ein Tier."]),
        ("Ein [[Haus]], zwei [[Haus|Häuser]], [[Haus#Dach|Dächer]].", ["Ein Haus, zwei Häuser, Dächer."]),
        ("A [[:Kategorie:Tiere]] b [[Kategorie:Tiere]] c", ["A Kategorie:Tiere b c"]),
        ("[[Datei:Hund.jpg|mini|Ein [[Hund]] läuft]]Der Hund.", ["Der Hund."]),
        ("[[File:Dog.jpg|thumb|A dog]]\nThe dog.[[de:Hund]] [[zh-min-nan:Káu]]", ["The dog."]),
        ("[[Star Trek: Picard]] läuft.", ["Star Trek: Picard läuft."]),
        ("Ein Satz.<ref>Quelle, 1999.</ref> Noch einer.<ref name=a /> Ende.", ["Ein Satz. Noch einer. Ende."]),
        ("Wort{{sfn|A|1999}} geht weiter.{{ref}} Ende.", ["Wort geht weiter. Ende."]),
        ("Es ist {{convert|5|km}} lang.", ["Es ist \ufffc lang."]),
        ("{{Infobox\n| name = x\n| text = [[y]]\n}}\nDer Text.", ["Der Text."]),
        ("Vorher.\n{| class=wikitable\n! Kopf\n|-\n| Zelle\n|}\nNachher.", ["Vorher.", "Nachher."]),
        ("== Titel ==\nText.\n* eins\n* zwei\n# drei", ["Text.", "eins", "zwei", "drei"]),
        ("A&nbsp;b &amp; c &lt; d &#233;", ["A b & c < d é"]),
        ("Siehe [http://a.b Seite] und [http://a.c].", ["Siehe Seite und ."]),
        ("Für <math>a^2</math> gilt<!-- nichts -->.", ["Für \ufffc gilt."]),
        ("Man schreibt <nowiki>[[y]]</nowiki>.", []),
        ("Eine Zeile\ngeht weiter.\nNeue Zeile.", ["Eine Zeile geht weiter.", "Neue Zeile."]),
        ("Aristoteles ({{lang|x}}) lebte. () Ende", ["Aristoteles (\ufffc) lebte. Ende"]),
        ("Offen {{Vorlage|a\nweiter [[kaputt\n\nGut.", ["Gut."]),
        ("__NOTOC__\n\n", []),
        ("", []),
    ],
)
def test_text_of_a_page(wikitext: str, expected: list[str]) -> None:
    assert list(paragraphs(wikitext, {"Datei", "Kategorie", ""})) == expected


def test_deep_nesting_ends() -> None:
    assert list(paragraphs("{{a|" * 3000 + "x" + "}}" * 3000)) == []
    assert list(paragraphs("[[a|" * 3000 + "x" + "]]" * 3000)) == []
    assert list(paragraphs("<div>" * 3000 + "Text." + "</div>" * 3000))[-1:] in (["Text."], [])


def test_without_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mwparserfromhell", None)
    with pytest.raises(MissingExtra, match=r"phrasemate\[dataset\]"):
        list(paragraphs("a"))


@pytest.mark.data
def test_real_pages() -> None:
    path = SAMPLES / "enwiki-table-markup.xml.bz2"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    names: set[str] = set()
    lines = [line for page in pages(path, names) for line in paragraphs(page.text, names)]
    assert len(lines) > 100
    assert not [line for line in lines if "[[" in line or "{{" in line or "''" in line or "<ref" in line]
    assert lines[0].startswith("The constructive vote of no confidence (in German: konstruktives Misstrauensvotum,")

"""Wikitext to text."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasemate.dataset.dump import pages, paragraphs
from phrasemate.errors import MissingExtra

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "data" / "wikipedia_dump_samples"


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        ("Der '''Hund''' ist ein ''Tier''.", ["Der Hund ist ein Tier."]),
        ("Ein [[Haus]], zwei [[Haus|Häuser]], [[Haus#Dach|Dächer]].", ["Ein Haus, zwei Häuser, Dächer."]),
        ("A [[:Kategorie:Tiere]] b [[Kategorie:Tiere]] c", ["A Kategorie:Tiere b c"]),
        ("[[Datei:Hund.jpg|mini|Ein [[Hund]] läuft]]Der Hund.", ["Der Hund."]),
        ("[[Bild:Hund.JPG|mini|Ein Hund]]Der [[:Datei:Hund.jpg|Hund]].", ["Der Hund."]),
        ("Frag [[Hilfe:Links|die Hilfe]] und [[Benutzer:Ute|Ute]].", ["Frag die Hilfe und Ute."]),
        ("[[File:Dog.jpg|thumb|A dog]]\nThe dog.[[de:Hund]] [[zh-min-nan:Káu]]", ["The dog."]),
        ("[[Star Trek: Picard]] läuft.", ["Star Trek: Picard läuft."]),
        ("Sie sah [[NCIS: Hawaii]] und [[Re:Mind]] gern.", ["Sie sah NCIS: Hawaii und Re:Mind gern."]),
        ("Es [[Media:a.pdf|steht hier]], [[Datei:a.pdf|x]] so.", ["Es steht hier, so."]),
        ("Am [[Aa: der Fluss|Fluss]], [[doi:10.1/2|Text]], [[Pro:Idee]].", ["Am Fluss, Text, Pro:Idee."]),
        ("Der Hund.[[pt:Cão]] [[Simple:Dog]][[be-x-old:Сабака]][[gsw:Hund]]", ["Der Hund."]),
        (
            "<ruby>漢字<rp>（</rp><rt>かんじ</rt><rp>）</rp></ruby>を<ruby><rb>読</rb><rt>よ</rt></ruby>む。",
            ["漢字を読む。"],
        ),
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


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        ("他用-{zh-hans:计算机; zh-hant:電腦}-写作。", ["他用\ufffc写作。"]),
        ("-{H|zh-cn:打印;zh-tw:列印}-\n他在-{[[北京]]}-。", ["他在北京。"]),
        ("Фирма -{Microsoft}- ради.", ["Фирма Microsoft ради."]),
        ("Ein -{offenes", ["Ein -{offenes"]),
        ("-{" * 100_000, ["-{" * 100_000]),
    ],
    ids=["both", "rule", "as it is", "open", "many"],
)
def test_variants_of_a_wiki_in_several_scripts(wikitext: str, expected: list[str]) -> None:
    assert list(paragraphs(wikitext, variants=True)) == expected


def test_braces_of_other_wikis_are_text() -> None:
    assert list(paragraphs("Man nimmt 2-{4-Chlorphenyl}-ethanol.")) == ["Man nimmt 2-{4-Chlorphenyl}-ethanol."]


def test_deep_nesting_ends() -> None:
    assert list(paragraphs("{{a|" * 3000 + "x" + "}}" * 3000)) == []
    assert list(paragraphs("[[a|" * 3000 + "x" + "]]" * 3000)) == []
    assert list(paragraphs("<div>" * 3000 + "Text." + "</div>" * 3000))[-1:] in (["Text."], [])


PARAGRAPH = "Der '''Hund''' ist ein [[Tier]].\n\n"
READ = "Der Hund ist ein Tier."


@pytest.mark.parametrize(
    "never_closed",
    [
        *("{{a|", "{{{a|", "[[a|", "<div>", "<ref>", '<a b="', "<a ", "<a [[", "<!--", "<nowiki>", "{|\n", "[//a "),
        *("{{a|[[b}}]]", "[[a|{{b]]}}", "{{a|<b>}}</b>", '[[//a<b c="]]', "}}'''{{{''"),
    ],
)
def test_a_page_of_what_is_never_closed_is_left_out(never_closed: str) -> None:
    start = process_time()
    assert list(paragraphs(PARAGRAPH + never_closed * (30_000 // len(never_closed)))) == []
    assert process_time() - start < 0.8


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{|\n|{{a|\n", "\n}}|x\n|}"),
        ("{|\n|<b>\n", "\n</b>|x\n|}"),
        ('[[//<a b="', "]"),
        ("'''</div>]<div><\n{|", ""),
        ("</math>[[//a </ref>/>{|;", "</><>]]--><>"),
    ],
)
def test_a_page_that_would_take_for_ever_is_left_out(before: str, after: str) -> None:
    """Each level doubles the time; the end of those of 40 nobody lives to see."""
    assert list(paragraphs(PARAGRAPH + before * 40 + "x" + after * 40)) == []
    assert list(paragraphs(PARAGRAPH * 9 + before * 2 + "x" + after * 2))[:9] == [READ] * 9


def test_a_few_things_that_are_not_closed_cost_no_page() -> None:
    broken = "{{a|b\n\n[[c|d\n\n<ref>e\n\n<a b=\n\n<!-- f\n\n"
    assert list(paragraphs(PARAGRAPH * 20 + broken))[:20] == [READ] * 20
    hidden = "<!-- {{a [[b {| -->" * 50 + "<math>{{a}^{{b}</math>" * 50 + "<nowiki>[[</nowiki>" * 50
    assert list(paragraphs(f"{hidden}\n\n{PARAGRAPH}"))[-1:] == [READ]


@pytest.mark.parametrize("text", ["x" + " " * 200_000 + "y", "x(" + " " * 200_000 + "y", "x" + "( ;" * 30_000 + "y"])
def test_gaps_cost_their_length(text: str) -> None:
    start = process_time()
    assert len(list(paragraphs(text))) == 1
    assert process_time() - start < 0.8


@given(st.text("b(;, \t\u00a0\u2003)", max_size=12))
@settings(max_examples=200, deadline=None)
def test_empty_brackets(text: str) -> None:
    expected = " ".join(re.sub(r"\s*\(\s*[;,:]*\s*\)", "", f"a{text}").split())
    assert list(paragraphs(f"a{text}")) == [expected]


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

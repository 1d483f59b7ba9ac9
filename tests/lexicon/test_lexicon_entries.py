"""How cells and definitions are split into equivalents, and what is stripped of them."""

from __future__ import annotations

import pytest

from phrasemate.lexicon.formats import alternatives, definition_equivalents, plain_markup


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("house; building", ["house", "building"]),
        ("Haus (n)", ["Haus"]),
        ("Haus {n} [bauw.]; Gebäude {n}", ["Haus", "Gebäude"]),
        ("Haus n.", ["Haus"]),
        ("Haus, das", ["Haus"]),
        ("house, building", ["house", "building"]),
        ("first come, first served", ["first come", "first served"]),
        ("as far as I know, at least", ["as far as I know, at least"]),
        ("colo(u)r", ["colour"]),
        ("Lehrer(in)", ["Lehrer"]),
        ("(sich) erinnern", ["erinnern"]),
        ("(formal)", ["formal"]),
        ("(seat; furniture)", ["seat; furniture"]),  # a separator within brackets is part of the note
        ("[seat, furniture]", ["seat, furniture"]),
        ("（座位；家具）", ["座位；家具"]),
        ("(seat); (bench)", ["seat", "bench"]),
        ("追って；やがて", ["追って", "やがて"]),
        ("a (b (c) d) e", ["a e"]),
        ("km/h", ["km/h"]),
        ("house; House; house", ["house", "House"]),
        (" ; ;", []),
        ("x" * 121, []),
        ("Bank, f; Ufer, n.", ["Bank", "Ufer"]),
        ("Ferien, f pl", ["Ferien"]),
        ("Abgeordnete, m/f, Deputierte", ["Abgeordnete", "Deputierte"]),
        ("bench (seat; furniture); bank", ["bench", "bank"]),
        ('"salt; pepper"; spice', ["salt; pepper", "spice"]),
        ('"salt, pepper", spice', ["salt, pepper", "spice"]),
        ("«sel; poivre»; épice", ["sel; poivre", "épice"]),
        ("„Salz; Pfeffer“; Gewürz", ["Salz; Pfeffer", "Gewürz"]),
        ('the "cut; paste" menu; edit', ['the "cut; paste" menu', "edit"]),
        ('5" disk; 3" disk', ['5" disk', '3" disk']),  # inches
        ("f", ["f"]),
        ("Volt, V", ["Volt", "V"]),  # no class of words
    ],
)
def test_cells(cell: str, expected: list[str]) -> None:
    assert alternatives(cell) == expected


def test_at_most_fifty_equivalents_of_a_cell() -> None:
    assert alternatives(";".join(map(str, range(60)))) == [str(number) for number in range(50)]


def test_lines_of_a_definition() -> None:
    definition = (
        'bench /bentʃ/ <n>\n 1. Bank <fem>, Sitzbank\n 2. Werkbank\n   "on the bench" - auf der Bank\n'
        "  Note: im Garten\n  Synonyms: {seat}\n"
        " a long explanation of what people do when they sit down on it together, for hours"
    )
    assert definition_equivalents(definition, "bench") == ["Bank", "Sitzbank", "Werkbank"]


def test_markup_becomes_text() -> None:
    page = "<k>bench</k><div>Bank &amp; <b>Sitz</b>bank</div><ex>on the bench</ex><br/>Werkbank"
    assert definition_equivalents(plain_markup(page), "bench") == ["Bank & Sitzbank", "Werkbank"]

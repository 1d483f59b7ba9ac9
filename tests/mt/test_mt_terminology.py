"""Terms of a term base in sources, references and translations."""

from __future__ import annotations

from pathlib import Path

from phrasemate.lexicon import Dictionary
from phrasemate.mt.scores import Term, stems_of, terms_of, uses

ENTRIES = [
    [("de", "Bank"), ("en", "bank"), ("en", "bench")],
    [("de", "Bank für Tiere"), ("en", "animal bank")],
    [("de", "Haus"), ("en", "house")],
    [("de", "das Gericht"), ("en", "the court of justice")],
]


def terms(source: str, reference: str) -> list[Term]:
    return terms_of([source], [reference], [Dictionary("base", ENTRIES)], "de", "en")


def test_terms_count_where_the_reference_uses_them() -> None:
    result = terms("Die Bank hat Häuser.", "The bank owns houses.")
    assert [(term.line, term.wording) for term in result] == [(0, "Bank"), (0, "Häuser")]
    assert [term.wording for term in terms("Die Bank hat Häuser.", "The shore has buildings.")] == []
    assert [term.wording for term in terms("Die Bank am Haus", "The bench by the cottage")] == ["Bank"]


def test_the_longest_of_overlapping_terms_counts() -> None:
    result = terms("Eine Bank für Tiere, eine Bank.", "An animal bank, a bank.")
    assert [term.wording for term in result] == ["Bank für Tiere", "Bank"]


def test_function_words_do_not_hide_a_term() -> None:
    assert [term.wording for term in terms("Das Gericht tagt.", "The court of justice sits.")] == ["Gericht"]


def test_forms_of_an_equivalent_are_uses_of_it() -> None:
    (term,) = terms("Das Haus.", "The house.")
    for text, expected in (
        ("Two HOUSES stood there.", True),
        ("A household", False),
        ("", False),
        ("the green house", True),
    ):
        assert uses(stems_of(text, "en"), term) is expected
    (term,) = terms("Das Gericht", "Court of Justice")
    assert not uses(stems_of("the justice of the court", "en"), term)


def test_wordings_of_an_unsegmented_script(tmp_path: Path) -> None:
    base = Dictionary("base", [[("de", "Hund"), ("ja", "犬")]])
    (term,) = terms_of(["Der Hund schläft."], ["犬が寝ています。"], [base], "de", "ja")
    assert uses(stems_of("あの犬は大きい。", "ja"), term)
    assert not uses(stems_of("猫です。", "ja"), term)

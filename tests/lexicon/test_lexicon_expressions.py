"""Candidates for fixed expressions, counted in aligned sentences where links miss them."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / "bench")]

from phrase_table import (  # noqa: E402
    expressions,
    lemma_expressions,
    places_with_gap,
    runs,
    stretches,
    unlinked,
    usual_forms,
)

from phrasemate.align.pairs import TokenizedSentence  # noqa: E402


def test_stretches_do_not_run_over_punctuation() -> None:
    wordings = stretches(TokenizedSentence.of("Er kam, sah Rom"), "de", 3)
    assert set(wordings.values()) == {"er", "er kam", "kam", "sah", "sah rom", "rom"}
    assert wordings[2, 4] == "sah rom"
    assert set(stretches(TokenizedSentence.of("a b c"), "zh", 2).values()) == {"a", "ab", "b", "bc", "c"}


def test_runs_of_words_without_a_link() -> None:
    assert runs(5, {2}, 2) == [(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5)]


def test_unlinked_stretches_of_several_words() -> None:
    # words 0 1 2 3 and 0 1 2; 1 and 2 have no link, and no link has 1
    assert unlinked([(0, 0), (3, 2)], 4, 3, 5) == {
        (1, 3, 1, 2),  # both sides without a link
        *((0, end, 0, other) for end in (2, 3) for other in (1, 2)),  # a link and words without one after it
        *((start, 4, other, 3) for start in (1, 2) for other in (1, 2)),
    }
    assert unlinked([(0, 0), (1, 1)], 2, 2, 5) == set()  # every border has a link


def write_pairs(folder: Path, lang: str, rows: list[tuple[str, str, str]]) -> None:
    """Write sentence pairs of class "free" with their links."""
    (folder / f"{lang}.tsv").write_text("".join(f"{one}\t{other}\ttest\tfree\n" for one, other, _ in rows), "utf-8")
    (folder / f"{lang}.links").write_text("".join(f"{links}\n" for *_, links in rows), "utf-8")


def test_forms_of_a_phrase_are_counted_together(tmp_path: Path) -> None:
    rows = [
        ("Il fait semblant de dormir", "He pretends to sleep", "0-0 2-1 3-2 4-3"),
        ("Tu fais semblant", "You pretend", "0-0 2-1"),
        ("Nous faisons semblant ici", "We pretended here", "0-0 2-1 3-2"),
        ("Elle fait du pain", "She makes bread", "0-0 1-1 3-2"),
        ("Le chat dort", "The cat sleeps", "0-0 1-1 2-2"),
        ("Un chat mange", "A cat eats", "0-0 1-1 2-2"),
        ("Ce chat joue", "This cat plays", "0-0 1-1 2-2"),
    ]
    write_pairs(tmp_path, "fr", rows)
    table = {row[:2]: row[2:] for row in lemma_expressions(tmp_path, "fr")}
    wordings = ("fait semblant", "fais semblant", "faisons semblant")
    assert table == {(wording, "pretends"): (3, 3, 3) for wording in wordings}  # "pretend" has the same stem


def test_an_english_phrase_may_have_a_gap() -> None:
    # "nous en tenons compte", "we take this into account"
    links = [(0, 0), (1, 2), (2, 1), (3, 4)]
    english = ["we", "take", "this", "into", "account"]
    assert places_with_gap(links, (2, 4), english, 4) == [1, 3, 4]
    assert places_with_gap(links, (1, 4), english, 4) == []  # "this" belongs to it and fills the gap
    assert places_with_gap([*links, (0, 4)], (2, 4), english, 4) == []  # "account" is linked with another word
    assert places_with_gap(links, (2, 4), english, 2) == []  # three words
    assert places_with_gap([(0, 0), (2, 1), (3, 4)], (2, 4), english, 4) == []  # "this" may belong to it


def test_usual_forms_have_different_stems() -> None:
    counts = Counter({"took part": 2, "takes part": 5, "take part": 4, "taken part": 1})
    assert usual_forms(counts) == ["takes part", "took part", "taken part"]


def test_the_table_counts_sentences_with_a_pair_and_with_its_sides(tmp_path: Path) -> None:
    rows = [  # German, English, links
        ("Er ist nach wie vor krank", "He is still sick", "0-0 1-1 5-3"),
        ("Sie bleibt nach wie vor hier", "She still stays here", "0-0 1-2 5-3"),
        ("Das gilt nach wie vor", "That still holds", "0-0 1-2"),
        ("Nach wie vor schweigt er", "He remains silent", "3-1 3-2 4-0"),
        ("Wir warten", "We still wait", "0-0 1-2"),
    ]
    write_pairs(tmp_path, "de", rows)
    table = {row[:2]: row[2:] for row in expressions(tmp_path, "de", 5)}
    assert table["nach wie vor", "still"] == (3, 4, 4)
    assert ("nach wie", "still") not in table  # "vor" always follows, so it is a piece


def test_sentences_of_other_licences_do_not_count(tmp_path: Path) -> None:
    lines = [f"{word} nach wie vor {other}\t{word} still {other}\ttest\tnc\n" for word, other in ("ab", "cd", "ef")]
    (tmp_path / "de.tsv").write_text("".join(lines), "utf-8")
    (tmp_path / "de.links").write_text("0-0 4-2\n" * 3, "utf-8")
    assert list(expressions(tmp_path, "de", 5)) == []
    (tmp_path / "de.tsv").write_text("".join(lines).replace("\tnc", "\tfree"), "utf-8")
    assert ("nach wie vor", "still", 3, 3, 3) in list(expressions(tmp_path, "de", 5))

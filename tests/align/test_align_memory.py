from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_align_files import Diagonal, pairs_of

from phrasemate.align import ParallelText, align_files, pair_files
from phrasemate.errors import InputError, ReadError
from phrasemate.text.formats.bilingual import write_units
from phrasemate.text.formats.units import Side, Unit


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """Five units, of which three have both sides."""
    sides = [("Das Haus.", "The house."), ("Nur hier.", ""), ("Ein\nBaum", "a tree"), ("Tür", "door")]
    units = [Unit((Side(german, "de-AT"), Side(english, "en-GB"))) for german, english in sides]
    write_units(tmp_path / "a.tmx", [*units, Unit((Side("Allein.", "de-AT"),))])
    return tmp_path / "a.tmx"


def test_the_units_of_a_memory_are_aligned(memory: Path, tmp_path: Path) -> None:
    text = ParallelText(memory)
    assert (text.count(), list(text)) == (3, [("Das Haus.", "The house."), ("Ein Baum", "a tree"), ("Tür", "door")])
    report = align_files(text, tmp_path / "links", Diagonal())
    assert (report.lines, report.blank) == (3, 0)
    assert (tmp_path / "links").read_text() == "0-0 1-1\n0-0 1-1\n0-0\n"
    pair_files(text, tmp_path / "links", tmp_path / "pairs")
    assert ("Baum", "tree") in pairs_of(tmp_path / "pairs")


def test_the_languages_decide_which_side_is_the_source(memory: Path, tmp_path: Path) -> None:
    text = ParallelText(memory, languages=("en", "de"))
    assert next(iter(text)) == ("The house.", "Das Haus.")
    with pytest.raises(ReadError, match="no pair of texts in en and fr; the languages here are de-AT, en-GB"):
        ParallelText(memory, languages=("en", "fr")).count()
    with pytest.raises(InputError, match="expected them with"):
        ParallelText(tmp_path / "a.tsv", languages=("en", "de"))


def test_links_of_another_length(memory: Path, tmp_path: Path) -> None:
    (tmp_path / "links").write_text("0-0\n")
    with pytest.raises(ReadError, match=r"1 lines, but .*a\.tmx has 3 sentence pairs; give files that belong together"):
        pair_files(ParallelText(memory), tmp_path / "links", tmp_path / "pairs")


def test_a_run_with_other_languages_is_not_continued(memory: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        align_files(ParallelText(memory), tmp_path / "links", Diagonal(stop_after=1))
    facts = json.loads((tmp_path / "links.part.json").read_text())
    assert "languages" not in facts
    with pytest.raises(InputError):
        align_files(ParallelText(memory, languages=("en", "de")), tmp_path / "links", Diagonal())

"""Examples whose two sides come from different sentence pairs, and which wordings are not negatives of a phrase."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "utils"))

from unreliable_disk import UnreliableDisk

from phrasemate.errors import InputError
from phrasemate.training.ccpr_data import CrossContextSampling, Example, KnownPairs, PairFile, crossed, word_hash

NOTHING = np.zeros((0, 2), np.int64)
ROWS = [
    ("die alte Bank dort", "the old bench there", [("Bank", "bench"), ("alte", "old")]),
    ("eine Bank im Park", "a bench in the park", [("Bank", "bench"), ("Park", "park")]),
    ("die Bank zahlt", "the bank pays", [("Bank", "bank"), ("zahlt", "pays")]),
    ("meine Bank hilft", "my bank helps", [("Bank", "bank")]),
    ("ein Vogel singt", "a bird sings", [("Vogel", "bird")]),
]


def place(text: str, part: str) -> tuple[int, int]:
    start = text.index(part)
    return start, start + len(part)


def pair_file(path: Path, rows: Sequence[tuple[str, str, list[tuple[str, str]]]] = ROWS) -> PairFile:
    lines = [
        {"source": s, "target": t, "pairs": [[*place(s, a), *place(t, b)] for a, b in pairs]} for s, t, pairs in rows
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return PairFile(path)


def contrast_table(folder: Path, lines: str = "bank\tbench\tbank\nvogel\tbird\tfowl\n") -> Path:
    path = folder / "contrasts.tsv"
    path.write_text(lines, "utf-8")
    return path


@pytest.fixture
def sampling(tmp_path: Path) -> CrossContextSampling:
    return CrossContextSampling([pair_file(tmp_path / "pairs.jsonl")], NOTHING, contrasts=[contrast_table(tmp_path)])


def marked(example: Example) -> list[tuple[str, str]]:
    return [(example.source[a:b], example.target[c:d]) for a, b, c, d in example.pairs]


def test_crossed_examples_have_a_sentence_of_two_pairs_with_one_wording(sampling: CrossContextSampling) -> None:
    examples = sampling.crossed(40, random.Random(0))
    translations = {source: target for source, target, _ in ROWS}
    assert all(translations[example.source] != example.target for example in examples)
    assert {pair for example in examples for pair in marked(example)} == {("Bank", "bench"), ("Bank", "bank")}
    assert len({(example.source, example.target) for example in examples}) == 4  # two wordings, either way


def test_senses_come_in_pairs_that_oppose_each_other(sampling: CrossContextSampling) -> None:
    examples, opposed = sampling.senses(3, random.Random(1))
    assert len(examples) == 6
    assert opposed == {("bank", "bench"), ("bank", "bank")}
    for one, two in zip(examples[::2], examples[1::2], strict=True):
        assert {marked(one)[0], marked(two)[0]} == {("Bank", "bench"), ("Bank", "bank")}
        assert len(one.pairs) == len(two.pairs) == 1


def test_a_table_of_contrasts_of_which_no_line_recurs_is_refused(tmp_path: Path) -> None:
    table = contrast_table(tmp_path, "bank\tbench\tshore\n")
    with pytest.raises(InputError, match="no wording of a table of contrasts has both translations twice"):
        CrossContextSampling([pair_file(tmp_path / "pairs.jsonl")], NOTHING, contrasts=[table])


def test_half_alone_examples_go_either_way(sampling: CrossContextSampling) -> None:
    examples = sampling.half_alone(40, random.Random(2))
    sources, targets = {row[0] for row in ROWS}, {row[1] for row in ROWS}
    for number, example in enumerate(examples):
        ((start, end, first, last),) = example.pairs
        if number % 2:
            assert example.target in targets
            assert (start, end) == (0, len(example.source))
        else:
            assert example.source in sources
            assert (first, last) == (0, len(example.target))
    assert ("Vogel", "bird") in {marked(example)[0] for example in examples}  # what occurs once has an example, too


def test_held_out_rows_are_never_drawn(tmp_path: Path) -> None:
    sampling = CrossContextSampling([pair_file(tmp_path / "pairs.jsonl")], np.array([[0, 0], [0, 4]]))
    drawn = sampling.crossed(20, random.Random(0)) + sampling.half_alone(40, random.Random(0))
    texts = {example.source for example in drawn} | {example.target for example in drawn}
    assert texts.isdisjoint({*ROWS[0][:2], *ROWS[4][:2], "Vogel", "bird"})


def test_text_in_which_nothing_occurs_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no phrase pair occurs in two sentence pairs"):
        CrossContextSampling([pair_file(tmp_path / "pairs.jsonl", ROWS[4:])], NOTHING)


def test_the_cache_gives_the_same_examples_and_is_made_again_for_other_text(tmp_path: Path) -> None:
    path, cache = tmp_path / "pairs.jsonl", tmp_path / "occurrences.npz"
    plain = CrossContextSampling([pair_file(path)], NOTHING).crossed(9, random.Random(5))
    for _ in range(2):
        assert CrossContextSampling([pair_file(path)], NOTHING, cache).crossed(9, random.Random(5)) == plain
    other = CrossContextSampling([pair_file(path, ROWS[2:])], NOTHING, cache).crossed(9, random.Random(5))
    assert {pair for example in other for pair in marked(example)} == {("Bank", "bank")}


def test_a_power_cut_leaves_a_whole_cache_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").mkdir()
    file = pair_file(tmp_path / "pairs.jsonl")
    with monkeypatch.context() as patch:
        disk = UnreliableDisk(tmp_path / "disk", patch)
        plain = CrossContextSampling([file], NOTHING, tmp_path / "disk" / "cache").crossed(9, random.Random(5))
    states = 0
    for place, _ in disk.power_cuts(tmp_path / "cut"):
        assert CrossContextSampling([file], NOTHING, place / "cache").crossed(9, random.Random(5)) == plain
        states += 1
    assert states > 3


def test_crossed_sentences_share_all_wordings_that_both_have() -> None:
    left = Example("Bank im Park", "bench in the park", [(0, 4, 0, 5), (8, 12, 13, 17)])
    right = Example("Park mit BANK", "a park with a Bench", [(0, 4, 2, 6), (9, 13, 14, 19)])
    assert marked(crossed(left, right)) == [("Bank", "Bench"), ("Park", "park")]


def test_known_pairs_are_found_from_both_sides(tmp_path: Path) -> None:
    table = tmp_path / "known.tsv"
    table.write_text("bank\tbench\nbank\tbank\nufer\tbank\n", "utf-8")
    for _ in range(2):  # made, then from the cache
        known_pairs = KnownPairs([table], tmp_path / "known.npz")
        bank, bench, ufer, unknown = (word_hash(word) for word in ("bank", "bench", "ufer", "unknown"))

        def rows(words: list[int], side: int, known_pairs: KnownPairs = known_pairs) -> set[tuple[int, int]]:
            owners, right = known_pairs.of(np.array(words, np.uint64), side)
            assert len(owners) == len(right) == len(set(zip(owners.tolist(), right.tolist(), strict=True)))
            return set(zip(owners.tolist(), right.tolist(), strict=True))

        assert rows([unknown, bank, ufer], 0) == {(1, bench), (1, bank), (2, bank)}
        assert rows([bank, bench], 1) == {(0, bank), (0, ufer), (1, bank)}
        assert rows([unknown], 0) == rows([], 0) == set()

"""Reading, drawing, altering and collating phrase pairs."""

from __future__ import annotations

import json
import random
import tracemalloc
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasemate.errors import InputError, ReadError
from phrasemate.text import words
from phrasemate.training.ccpr_data import Alteration, Example, PairFile, Schedule, collate, crossed
from phrasemate.training.hf_encoder import Tokenizer


def test_a_file_is_read_by_line_number(pairs: Path) -> None:
    file = PairFile(pairs / "en-xx.jsonl")
    assert len(file) == 40
    first = file[0]
    assert first.pairs[0] == (0, len(first.source.split()[0]), 0, len(first.target.split()[0]))


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("block", [1, 7, 10_000])
def test_lines_are_found_block_by_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, end: str) -> None:
    monkeypatch.setattr("phrasemate.training.ccpr_data.BLOCK", block)
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(f'{{"source":"{"a" * n}","target":"b"}}' for n in range(9)) + end)
    file = PairFile(path)
    assert [file[row].source for row in range(len(file))] == ["a" * n for n in range(9)]


def test_only_the_places_of_a_files_lines_are_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    with path.open("wb") as sparse:
        sparse.truncate(1 << 27)  # 134 MB in one line
    tracemalloc.start()
    try:
        assert len(PairFile(path)) == 1
        assert tracemalloc.get_traced_memory()[1] < 30e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("content", ['{"source": "a"}\n', "no json\n", '{"source":"a","target":"b","pairs":[[1,2]]}\n'])
def test_a_line_that_is_none_names_file_and_line(tmp_path: Path, content: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"source":"a","target":"b","pairs":[]}\n' + content)
    with pytest.raises(ReadError, match=r"bad\.jsonl, line 2"):
        PairFile(path)[1]


def test_an_empty_or_absent_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    for name, reason in (("empty.jsonl", "an empty file; expected phrase pairs"), ("absent.jsonl", "cannot be read")):
        with pytest.raises(ReadError, match=rf"{name}: {reason}.*; make it with phrasemate pairs"):
            PairFile(tmp_path / name)


def test_the_schedule_depends_on_the_seed_alone_and_holds_out_the_same() -> None:
    one, same = (Schedule([100, 60], 20, 8, 0.5, 4, 10, seed=1) for _ in range(2))
    other = Schedule([100, 60], 20, 8, 0.5, 4, 10, seed=2)
    assert (one.train == same.train).all()
    assert (one.train != other.train).any()
    assert (one.dev == other.dev).all()
    assert len(one.dev) == 20
    dev_rows = set(map(tuple, one.dev.tolist()))
    assert not dev_rows & set(map(tuple, one.train.reshape(-1, 2).tolist()))
    blocks = one.train.reshape(-1, 4, 2)
    assert (np.diff(blocks[..., 1], axis=1) == 1).all()
    assert (blocks[..., 0] == blocks[:, :1, 0]).all()


def test_the_schedule_uses_all_before_it_repeats_and_draws_by_the_power_of_length() -> None:
    schedule = Schedule([4040, 440], 500, 8, 0.5, 4, 40, seed=1)  # weights 63.6 and 21.0
    rows = schedule.train.reshape(-1, 2)
    assert (rows[:, 0] == 1).mean() == pytest.approx(21.0 / 84.6, abs=0.03)
    for file, length in ((0, 4000), (1, 400)):
        counts = np.bincount(rows[rows[:, 0] == file, 1])
        assert counts.max() - counts[counts > 0].min() <= 1
        assert (counts > 0).sum() == min(length, (rows[:, 0] == file).sum())


def test_senseless_schedules_are_errors() -> None:
    dev_rows = (
        r"b.jsonl: 12 lines; expected more than 12: data.dev \(4\) are held out, in blocks of data.neighbours \(2\)"
    )
    with pytest.raises(InputError, match=dev_rows):
        Schedule([13, 12], 1, 4, 1.0, 2, 4, 0, ["a.jsonl", "b.jsonl"])
    with pytest.raises(InputError, match=r"^file 1: 2 lines; expected more than 2$"):
        Schedule([2], 1, 4, 1.0, 1, 0, 0)
    with pytest.raises(InputError, match="multiple"):
        Schedule([100], 1, 5, 1.0, 2, 4, 0)


def test_alterations_are_these() -> None:
    text, draw = "Die Häuser (groß), 3.5 km!", random.Random(0)
    assert Alteration(lower=1)(text, draw)[0] == "die häuser (groß), 3.5 km!"
    assert Alteration(plain=1)(text, draw)[0] == "Die Hauser (groß), 3.5 km!"
    assert Alteration(apart=1)(text, draw)[0] == "Die Häuser ( groß ) , 3.5 km !"
    assert Alteration()(text, draw)[0] == text
    assert Alteration(plain=1)("が й", draw)[0] == "が й"  # a mark that makes another letter stays


@given(st.text(alphabet="aÄß .,(İ好\u0301x", max_size=30), st.integers(0, 100))
def test_alterations_carry_the_words_along(text: str, seed: int) -> None:
    new, starts, ends = Alteration(0.5, 0.5, 0.5)(text, random.Random(seed))
    assert len(starts) == len(ends) == len(text)
    for start, end in words(text):
        moved = new[starts[start] : ends[end - 1]]
        assert _bare(moved) == _bare(text[start:end])
    assert _bare(new) == _bare(text)


def _bare(text: str) -> str:
    """What no alteration changes: letters without case, marks and white space."""
    apart = unicodedata.normalize("NFD", text.lower())
    return "".join(char for char in apart if not char.isspace() and not unicodedata.combining(char))


def test_collated_spans_are_those_of_a_plain_loop(base: Path, pairs: Path) -> None:
    tokenizer, file = Tokenizer(base), PairFile(pairs / "en-xx.jsonl")
    examples = [file[i] for i in range(5)]
    batch = collate(examples, tokenizer, Alteration(), 3, 100, random.Random(0))
    for side, texts in ((batch.source, [e.source for e in examples]), (batch.target, [e.target for e in examples])):
        expected = [(t, i, j) for t in range(5) for i in range(4) for j in range(i, min(4, i + 3))]
        assert len(side.first) == len(expected)
        wordings: dict[int, str] = {}
        for number, (text, i, j) in enumerate(expected):
            parts = texts[text].split()
            wording = " ".join(parts[i : j + 1])
            assert wordings.setdefault(int(side.wording[number]), wording) == wording
            first, last = int(side.first[number]), int(side.last[number])
            row = int(side.text[number])
            assert batch.tokens.bounds[row] < first <= last < batch.tokens.bounds[row + 1] - 1
            start, end = int(batch.tokens.starts[first]), int(batch.tokens.ends[last])
            assert texts[text][start:end] == wording
        assert len(set(wordings.values())) == len(wordings)
    assert len(batch.pairs) == sum(len(e.pairs) for e in examples)
    assert (batch.source.text[batch.pairs[:, 0]] + 5 == batch.target.text[batch.pairs[:, 1]]).all()
    assert batch.source.phrase.sum() == len(batch.pairs)


def test_at_most_so_many_phrases_of_a_sentence_pair(base: Path, pairs: Path) -> None:
    file = PairFile(pairs / "en-xx.jsonl")
    batch = collate([file[i] for i in range(6)], Tokenizer(base), Alteration(), 6, 2, random.Random(0))
    assert np.bincount(batch.source.text[batch.pairs[:, 0]]).tolist() == [2] * 6
    assert batch.source.phrase.sum() == 6 * 7  # the segmenter still sees all


def test_pairs_beyond_the_longest_length_are_left_out(base: Path, pairs: Path) -> None:
    file = PairFile(pairs / "en-xx.jsonl")
    batch = collate([file[0]], Tokenizer(base, max_tokens=4), Alteration(), 6, 9, random.Random(0))
    assert len(batch.pairs) < 7
    assert (batch.tokens.bounds == [0, 4, 8]).all()


def test_crossed_pairs_share_their_wording() -> None:
    left = Example("das Haus brennt", "the house burns", [(4, 8, 4, 9), (9, 15, 10, 15)])
    right = Example("ein haus steht", "a house stands", [(4, 8, 2, 7), (9, 14, 8, 14)])
    assert crossed(left, right) == Example("das Haus brennt", "a house stands", [(4, 8, 2, 7)])


def test_pairs_with_function_words_are_drawn_but_no_phrases(base: Path) -> None:
    example = Example("das haus", "the house", [(4, 8, 4, 9)], [(0, 3, 0, 3), (0, 8, 0, 9)])
    tokenizer = Tokenizer(base)
    none = collate([example], tokenizer, Alteration(), 3, 9, random.Random(0))
    assert none.source.phrase.tolist() == [False, False, True]  # das, das haus, haus
    assert none.pairs.tolist() == [[2, 2]]
    both = collate([example], tokenizer, Alteration(), 3, 9, random.Random(0), others=9)
    assert both.source.phrase.tolist() == [False, False, True]
    assert sorted(both.pairs.tolist()) == [[0, 0], [1, 1], [2, 2]]
    one = collate([example], tokenizer, Alteration(), 3, 9, random.Random(0), others=1)
    assert len(one.pairs) == 2


BAD_LINES = [
    {"source": 5, "target": "b", "pairs": []},
    {"source": "a", "target": "b", "pairs": [[[0], 1, 0, 1]]},
    {"source": "a", "target": "b", "pairs": ["abcd"]},
    {"source": "a", "target": "b", "pairs": [], "others": [[0.5, 1, 0, 1]]},
]


@pytest.mark.parametrize("line", [*map(json.dumps, BAD_LINES), "[" * 100_000])
def test_a_line_of_other_types_names_file_and_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "bad.jsonl").write_text(line + "\n")
    with pytest.raises(ReadError, match=r"bad\.jsonl, line 1: not a line of phrase pairs"):
        PairFile(tmp_path / "bad.jsonl")[0]


def test_any_power_of_the_lengths_is_a_share() -> None:
    assert set(Schedule([100, 60], 20, 4, 1e4, 1, 0, seed=1).train[..., 0].ravel().tolist()) == {0}

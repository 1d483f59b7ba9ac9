"""Lexicons, and how many of their words are found."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from spaces import two_languages

from phrasemate.errors import InputError, ReadError
from phrasemate.vectors import WordVectors, entries, induce, map_supervised, pair_rows, read_lexicon
from phrasemate.vectors.bilingual_lexicon import parse_range


def test_accuracy_as_a_plain_loop() -> None:
    source, target, lexicon = two_languages(120, 6, noise=0.4)
    mapped = map_supervised(source, target, lexicon)
    source, target = mapped.source, mapped.target
    lexicon = [*lexicon[:50], ("s3", "t7"), ("s3", "none"), ("s60", "none"), ("none", "t1")]
    entries = induce(source, target, lexicon, k=3)
    assert (entries.words, entries.missing) == (tuple(f"s{i}" for i in range(50)), 2)
    unit = {side: [v / np.linalg.norm(v) for v in side.matrix.astype(np.float64)] for side in (source, target)}
    cosine = np.array([[a @ b for b in unit[target]] for a in unit[source]])
    r_z = [sum(sorted(cosine[:, j])[-3:]) / 3 for j in range(120)]
    for i, word in enumerate(entries.words):
        gold = {b for a, b in lexicon if a == word}
        row = cosine[source.index[word]]
        assert entries.nearest[i] == (target.words[max(range(120), key=lambda j: row[j])] in gold)
        assert entries.csls[i] == (target.words[max(range(120), key=lambda j: 2 * row[j] - r_z[j])] in gold)
    assert entries.as_dict() == {
        "words": 50,
        "missing": 2,
        "acc@1 nearest": entries.nearest.sum() / 50,
        "acc@1 csls": entries.csls.sum() / 50,
    }


def test_any_translation_is_right() -> None:
    source = WordVectors(("a", "b"), np.array([[1, 0], [0, 1]], np.float32))
    target = WordVectors(("x", "y", "z"), np.array([[1, 0.1], [1, 0.2], [0, 1]], np.float32))
    assert induce(source, target, [("a", "y"), ("b", "y")]).nearest.tolist() == [False, False]
    assert induce(source, target, [("a", "y"), ("a", "x"), ("b", "z")]).nearest.tolist() == [True, True]


def test_words_that_are_not_there(few: WordVectors) -> None:
    with pytest.raises(InputError, match="check the languages, the columns, and upper and lower case"):
        induce(few, few, [("the", "das")])
    rows = pair_rows(few, few, [("haus", "das"), ("the", "das"), ("東京", "größe")])
    assert [row.tolist() for row in rows] == [[1, 3], [0, 2]]


@pytest.mark.parametrize("packed", [False, True])
def test_a_lexicon_is_read(tmp_path: Path, packed: bool) -> None:
    content = b"the\tdas\nthe\tdie\n\nice cream\tEis\nhouse Haus\n"
    path = tmp_path / ("a.tsv.gz" if packed else "a.tsv")
    path.write_bytes(gzip.compress(content) if packed else content)
    assert read_lexicon(path) == [("the", "das"), ("the", "die"), ("ice cream", "Eis"), ("house", "Haus")]
    assert read_lexicon(path, (2, 1))[2] == ("Eis", "ice cream")


@pytest.mark.parametrize(
    ("content", "line", "expected"),
    [
        (b"a b\nc\n", 2, "1 column, or a blank one; expected words in columns 1 and 2"),
        (b"a\tb\n\tc\n", 2, "2 columns, or a blank one"),
        (b"a b\n\xe4 c\n", 2, "is not UTF-8"),
        (b" \n", 0, "no pair of words in it"),
    ],
)
def test_a_damaged_lexicon(tmp_path: Path, content: bytes, line: int, expected: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(content)
    with pytest.raises(ReadError) as caught:
        read_lexicon(path)
    assert caught.value.line == line
    assert expected in str(caught.value)


def test_entries_are_source_words() -> None:
    lexicon = [("a", "1"), ("b", "2"), ("a", "3"), ("c", "4"), ("b", "5")]
    assert entries(lexicon, 1, 1) == [("a", "1"), ("a", "3")]
    assert entries(lexicon, 2) == [("b", "2"), ("c", "4"), ("b", "5")]
    assert entries(lexicon, 2, 3) == entries(lexicon, 2)
    with pytest.raises(InputError, match="entries 4 to the last of a lexicon of 3 words: none exist"):
        entries(lexicon, 4)


@pytest.mark.parametrize(
    ("text", "expected"), [("1:50", (1, 50)), ("51:", (51, None)), (":9", (1, 9)), (":", (1, None))]
)
def test_ranges(text: str, expected: tuple[int, int | None]) -> None:
    assert parse_range(text) == expected


@pytest.mark.parametrize("text", ["", "5", "0:5", "5:0", "9:3", "a:b", "1-5", "１:２", "9" * 5_000 + ":"])
def test_senseless_ranges(text: str) -> None:
    with pytest.raises(InputError, match="expected two numbers from 1"):
        parse_range(text)


def test_senseless_columns(tmp_path: Path) -> None:
    for columns in ((0, 1), (2, 2)):
        with pytest.raises(InputError, match="expected two different numbers from 1"):
            read_lexicon(tmp_path / "a.tsv", columns)

from __future__ import annotations

import re
import sys
from pathlib import Path

import corpora
import numpy as np
import pytest

from phrasemate.align import TokenizedSentence
from phrasemate.align.pairs import parse_links
from phrasemate.encode import Model
from phrasemate.errors import InputError, ReadError
from phrasemate.evaluate import alignment
from phrasemate.evaluate.alignment import HEADER, counts, difference, evaluate_alignment, quality
from phrasemate.evaluate.data import links_of


def test_quality_is_counted_over_all_links_of_a_set() -> None:
    right = [[(0, 0), (1, 1), (2, 2)], [(0, 1)]]
    results = [[(0, 0), (1, 2)], [(0, 1), (1, 1), (0, 1)]]  # 2 right of 4; the same link again is one link
    result = quality(counts(results, right, right))
    assert result.precision == 2 / 4
    assert result.recall == 2 / 4
    assert result.aer == 1 - 2 * 2 / (4 + 4)
    assert result.links == 4


def test_a_possible_link_is_no_error_and_need_not_be_found() -> None:
    sure, acceptable = [[(0, 0), (1, 1)]], [[(0, 0), (1, 1), (1, 2), (2, 2)]]
    result = quality(counts([[(0, 0), (1, 2), (3, 3)]], sure, acceptable))
    assert result == (1 - (1 + 2) / (3 + 2), 2 / 3, 1 / 2, 3)


def test_no_links_found_are_all_missed() -> None:
    assert quality(counts([[]], [[(0, 0)]], [[(0, 0)]])) == (1, 1, 0, 0)
    with pytest.raises(InputError, match="has no sure link"):
        counts([[]], [[]], [[]])


def test_the_difference_is_that_of_the_same_sentence_pairs() -> None:
    random = np.random.default_rng(0)
    gold = random.integers(1, 9, 40).astype(np.float64)
    hits = np.minimum(gold, random.integers(0, 9, 40))
    table = np.stack([hits, hits, gold, gold], 1)  # each finds as many links as there are
    worse = table - np.where(np.arange(40)[:, None] % 2, [1, 1, 0, 0], [0, 0, 0, 0]) * (hits > 0)[:, None]
    result = difference(worse, table)
    assert result.value == pytest.approx((hits[1::2] > 0).sum() / gold.sum())
    draws = np.random.default_rng(1).integers(0, 40, (4000, 40))  # each pair drawn for both
    samples = (table - worse)[:, 0][draws].sum(1) / gold[draws].sum(1)
    assert (result.low, result.high) == pytest.approx(np.quantile(samples, [0.025, 0.975]), abs=0.005)
    assert difference(table, table) == (0, 0, 0)


def test_sides_given_as_texts_have_the_words_that_align_finds(data: Path) -> None:
    row = {"source": "Der Hund, er bellt.", "target": "The dog barks!", "links": [[3, 2], [0, 0]], "possible": [[2, 2]]}
    corpora.lines(data / "gold_alignments" / "de-en.jsonl", [row, {"source": ["a."], "target": ["b"], "links": []}])
    pairs, sure, acceptable = links_of(data, "de")
    assert pairs[0] == (TokenizedSentence.of(row["source"]), TokenizedSentence.of(row["target"]))
    assert pairs[1][0].words() == ["a."]
    assert sure == [[(0, 0), (3, 2)], []]
    assert acceptable == [[(0, 0), (2, 2), (3, 2)], []]


def test_gold_links_are_read_as_words_of_the_set(data: Path) -> None:
    pairs, right, _ = links_of(data, "de", first=2)
    assert [source.words() for source, _ in pairs] == [pair[0].split() for pair in corpora.PAIRS[:2]]
    assert right[0] == [tuple(map(int, link.split("-"))) for link in corpora.PAIRS[0][2].split()]


def test_every_method_has_a_row_and_eflomal_is_named_where_it_is_absent(
    model: Model, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "eflomal", None)
    table, remarks = evaluate_alignment({"a": model, "b": model}, data, ("de", "cs"), {"cs": 2}, 5)
    assert table.header == HEADER
    names = [f"{name} {method}" for name in "ab" for method in alignment.NEURAL]
    assert [row[1] for row in table.rows] == names * 2
    for row in table.rows:
        _, _, aer, precision, recall, links, rate, _ = row
        sure = sum(len(item[2].split()) for item in (corpora.PAIRS if row[0] == "de-en" else corpora.PAIRS[:2]))
        assert aer == pytest.approx(1 - 2 * precision * links / (links + sure))
        assert recall == pytest.approx(precision * links / sure)
        assert rate > 0
    first, second = table.rows[:2]
    assert first[-1] is None
    assert second[-1].value == pytest.approx(second[2] - first[2])
    assert "eflomal" in remarks["not measured"]


def test_a_method_whose_package_is_absent_is_named_and_the_others_are_measured(
    model: Model, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("scipy.optimize", "eflomal"):
        monkeypatch.setitem(sys.modules, package, None)
    table, remarks = evaluate_alignment({"a": model}, data, ("de",), {}, 0)
    assert [row[1] for row in table.rows] == [method for method in alignment.NEURAL if method != "mwmf"]
    assert list(remarks) == ["not measured, mwmf", "not measured"]
    assert "pip install 'phrasemate[match]'" in remarks["not measured, mwmf"]


def test_eflomal_learns_from_more_pairs_which_count_in_its_rate(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = []

    class Fake:
        def __init__(self, languages: tuple[str, str]) -> None:
            assert languages == ("de", "en")

        def directions(self, pairs: list) -> list:
            records.append([source.text for source, _ in pairs])
            return [([(0, 0), (1, 1)], [(0, 0)]) for _ in pairs]

    monkeypatch.setattr(alignment, "EflomalAligner", Fake)
    table, remarks = evaluate_alignment({}, data, ("de",), {}, 3)
    assert remarks == {}
    assert records[0] == [*(pair[0] for pair in corpora.PAIRS), *["something de"] * 3]
    rows = {row[1]: row for row in table.rows}
    assert rows["eflomal intersection"][5] == len(corpora.PAIRS)  # one link each, in both directions
    assert rows["eflomal grow-diag"][5] == 2 * len(corpora.PAIRS)


def test_a_damaged_gold_line_is_named(data: Path) -> None:
    path = data / "gold_alignments" / "de-en.jsonl"
    corpora.lines(path, [{"source": ["a"], "target": ["b"], "links": [[0, 0]]}, {"source": ["a"]}])
    with pytest.raises(ReadError, match=r"de-en\.jsonl, line 2: no target, links"):
        links_of(data, "de")


def test_our_own_links_are_between_words_that_are_there() -> None:
    """They count words as `TokenizedSentence.of` finds them, so another segmentation would shift them."""
    path = Path(__file__).parents[2] / "bench" / "gold_links.tsv"
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    texts = [row for row in rows if row[2]]
    assert (len(rows), len(texts)) == (300, 180)
    for _, source, target, sure, possible in texts:
        lengths = [len(TokenizedSentence.of(side).spans) for side in (source, target)]
        links = parse_links(sure) + parse_links(possible)
        assert len(set(links)) == len(links)
        assert all(link < length for pair in links for link, length in zip(pair, lengths, strict=True))
        assert len({word for word, _ in links}) >= lengths[0] / 2
    assert all(re.fullmatch("[0-9a-f]{16}", row[1]) for row in rows if not row[2])

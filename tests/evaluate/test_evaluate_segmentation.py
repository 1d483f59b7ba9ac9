from __future__ import annotations

from pathlib import Path

import corpora
import numpy as np
import pytest

from phrasemate.encode import Model, NgramSegmenter
from phrasemate.evaluate import segmentation
from phrasemate.evaluate.phrases import distractor_sentences, read_set, spans_of
from phrasemate.evaluate.segmentation import (
    NGRAMS,
    Counts,
    Ngram,
    Side,
    _RankedSpans,
    evaluate_index_sizes,
    evaluate_segmenters,
    gold_sides,
    learned_spans,
    ngram_lengths,
    ngram_spans,
)
from phrasemate.text import words
from phrasemate.types import Phrase


def test_gold_phrases_of_a_worked_example(data: Path) -> None:
    rows = [{"source": ["Das", "Haus", "."], "target": ["The", "house", "."], "links": [[0, 0], [1, 1], [2, 2]]}]
    corpora.lines(data / "gold_alignments" / "de-en.jsonl", rows)
    german, english = gold_sides(data, "de")
    assert (german.name, english.name) == ("de-en de", "de-en en")
    assert german.texts == ["Das Haus ."]
    assert german.gold == [{(0, 3), (4, 8), (0, 8)}]  # the full stop is not a word
    assert english.gold == [{(0, 3), (4, 9), (0, 9)}]


def test_a_token_of_several_words_gives_its_links_to_each(data: Path) -> None:
    rows = [
        {"source": ["EU-Haushalt", "sinkt"], "target": ["EU", "budget", "falls"], "links": [[0, 0], [0, 1], [1, 2]]}
    ]
    corpora.lines(data / "gold_alignments" / "de-en.jsonl", rows)
    german, english = gold_sides(data, "de")
    assert german.gold == [{(0, 11), (12, 17), (0, 17)}]  # never "EU" alone: both words share both links
    assert english.gold == [{(0, 9), (10, 15), (0, 15)}]


def test_a_link_to_a_token_that_is_not_there_leads_to_no_word(data: Path) -> None:
    row = {"source": ["Das", "Haus"], "target": ["The", "house"], "links": [[0, 0], [1, 1]]}
    golds = []
    for more in ([], [[1, 2]], [[2, 1]]):
        corpora.lines(data / "gold_alignments" / "de-en.jsonl", [row | {"links": row["links"] + more}])
        golds.append([side.gold for side in gold_sides(data, "de")])
    assert golds[1:] == [golds[0]] * 2
    assert golds[0][0] == [{(0, 3), (4, 8), (0, 8)}]


def test_frequent_words_border_no_gold_phrase(data: Path) -> None:
    row = {"source": ["das", "x{}"], "target": ["the", "y{}"], "links": [[0, 0], [1, 1]]}
    rows = [{**row, "source": ["das", f"x{i}"], "target": ["the", f"y{i}"]} for i in range(6)]
    corpora.lines(data / "gold_alignments" / "de-en.jsonl", rows)
    assert gold_sides(data, "de")[0].gold == [{(4, 6)}] * 6  # "das" occurs 6 times, more than 5 and 0.06 x 6
    corpora.lines(data / "gold_alignments" / "de-en.jsonl", rows[:5])
    assert gold_sides(data, "de")[0].gold == [{(0, 3), (4, 6), (0, 6)}] * 5


def test_counts() -> None:
    counts = Counts(proposed=8, right=2, gold=4)
    assert (counts.precision, counts.recall) == (2 / 8, 2 / 4)
    assert counts.f1 == pytest.approx(2 * (1 / 4) * (1 / 2) / (1 / 4 + 1 / 2))
    assert Counts(0, 0, 0).f1 == 0


def test_thresholds_and_sizes_count_as_a_plain_loop() -> None:
    draw = np.random.default_rng(0)
    spans = [np.array([(i, i + 1) for i in range(30)], np.int32) for _ in range(2)]
    scores = [(draw.integers(0, 10, 30) / 10).astype(np.float32) for _ in range(2)]
    gold = [{(i, i + 1) for i in draw.integers(0, 40, 12).tolist()} for _ in range(2)]
    pooled = _RankedSpans.of(segmentation.SpanScores(spans, scores), Side("x", ["", ""], gold))
    for threshold in (0.0, 0.3, 0.55, 0.9, 1.0):
        short_spans = [
            (text, int(start), int(end))
            for text in range(2)
            for (start, end), score in zip(spans[text], scores[text], strict=True)
            if score >= np.float32(threshold)
        ]
        right = sum((start, end) in gold[text] for text, start, end in short_spans)
        assert pooled.at(threshold) == Counts(len(short_spans), right, len(gold[0]) + len(gold[1]))
    assert pooled.first(10**6) == pooled.at(0)
    order = sorted(np.concatenate(scores), reverse=True)
    assert pooled.first(7).proposed == 7
    assert pooled.scores.tolist() == order


def test_learned_spans_are_all_of_six_words_or_fewer_with_the_segmenters_scores(model: Model) -> None:
    texts = ["The old house on the river is red .", "He read 42 .", "."]
    result = learned_spans(model, texts)
    for text, spans, scores in zip(texts, result.spans, result.scores, strict=True):
        bounds = words(text)
        every = [
            (bounds[i][0], bounds[j][1])
            for i in range(len(bounds))
            for j in range(i, min(i + 6, len(bounds)))
            if any(map(str.isalpha, text[bounds[i][0] : bounds[j][1]]))
        ]
        assert list(map(tuple, spans.tolist())) == every
        assert len(scores) == len(every)
    at_half = model.segment(texts, threshold=0.5)
    assert [len(item) for item in at_half] == [int((scores >= 0.5).sum()) for scores in result.scores]


def test_ngram_lengths_give_every_limit_at_once(model: Model) -> None:
    texts = [*corpora.ENGLISH, "one two, three-four five 6 seven eight nine"]
    frequent = frozenset({"the", "two"})
    for limit in (1, 3, 6):
        plain = NgramSegmenter(model.config.get("common_words", ()), limit).find(texts, None, frequent).lists()
        expected = [{(span.start, span.end) for span in spans} for spans in plain]
        result = ngram_lengths(model, texts, frequent)
        assert [{span for span, size in item.items() if size <= limit} for item in result] == expected
    assert ngram_spans(model, texts, Ngram(2, None)) == [
        {(s.start, s.end) for s in spans}
        for spans in NgramSegmenter(model.config.get("common_words", ()), 2).find(texts).lists()
    ]


def test_tables_of_the_whole(model: Model, data: Path) -> None:
    tables, more = evaluate_segmenters({"tiny": model}, data, ("de", "cs"), {"cs": 2})
    assert [table.name for table in tables] == ["segmenter", "segmenter sizes"]
    sides = [side for lang, most in (("de", None), ("cs", 2)) for side in gold_sides(data, lang, most)]
    assert [row[1] for row in tables[0].rows] == [*(side.name for side in sides), "all"]
    assert tables[0].rows[-1][2] == sum(len(gold) for side in sides for gold in side.gold)
    sizes = {row[0]: row for row in tables[1].rows}
    assert len(sizes) == len(NGRAMS)
    row = sizes[Ngram(3, None).name]
    proposed = [spans for side in sides for spans in ngram_spans(model, side.texts, Ngram(3, None))]
    assert row[1] == sum(map(len, proposed))
    right = sum(len(spans & gold) for spans, gold in zip(proposed, (g for s in sides for g in s.gold), strict=True))
    assert row[2] == right / row[1]
    curve = more["segmenter_curves"]["learned"]["tiny"]
    assert curve["spans"][0] == sum(len(spans) for side in sides for spans in learned_spans(model, side.texts).spans)
    assert curve["spans"] == sorted(curve["spans"], reverse=True)
    assert "of 30 sizes" in tables[1].note


def test_a_model_without_a_learned_segmenter_has_ngram_columns_only(
    model: Model, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "learned", None)
    tables, more = evaluate_segmenters({"tiny": model}, data, ("de",), {})
    assert [table.name for table in tables] == ["segmenter sizes"]
    assert more["segmenter_curves"]["learned"] == {}
    table, points = evaluate_index_sizes(model, data, 20, ("de",))
    assert {point["segmenter"] for point in points} == {"ngram"}
    assert len(table.header) == len(table.rows[0]) == 4


def test_retrieval_in_an_index_is_that_of_brute_force(
    model: Model, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segmentation, "CHUNK", 2)
    table, points = evaluate_index_sizes(model, data, 60, ("de",))
    one = read_set(data, "de")
    golds = [
        (row["target"], row["target_start"], row["target_end"])
        for row in (corpora.phrase(*phrase) for phrase in corpora.PHRASES)
    ]
    distractors, total = [], 0
    for text in distractor_sentences(data):
        if total >= 60:
            break
        distractors.append(text)
        total += len(spans_of(text))
    texts = [*one.targets.texts, *distractors]
    queries = model.encode(one.queries)
    for row, size in zip(table.rows, segmentation.SIZES, strict=True):
        spans = [(text, *span) for text in texts for span in ngram_lengths(model, [text], frozenset())[0]]
        short_spans = [item for item in spans if len(words(item[0][item[1] : item[2]])) <= size]
        assert row[1] == len(short_spans)
        assert row[2] == sum(gold in short_spans for gold in golds) / len(golds)
        scores = queries @ model.encode([Phrase(*entry) for entry in short_spans]).T
        hits = [
            gold in short_spans and scores[i, short_spans.index(gold)] >= scores[i].max() - 2e-3
            for i, gold in enumerate(golds)
        ]
        assert row[3].value <= sum(hits) / len(golds)
        learned = learned_spans(model, texts)
        every = sorted((float(score) for scores in learned.scores for score in scores), reverse=True)
        assert row[4] == pytest.approx(row[1], abs=2)
        assert (
            row[4] == sum(score >= every[row[1] - 1] for score in every)
            or abs(every[row[1] - 1] - every[row[1]]) < 1e-3
        )
        assert row[6].value <= row[5] <= 1
    assert len(points) == 2 * len(segmentation.SIZES)

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import corpora
import numpy as np
import pytest

from phrasemate.encode import Model
from phrasemate.errors import InputError, ReadError
from phrasemate.evaluate import phrases as protocol
from phrasemate.evaluate.phrases import (
    Block,
    ModelSource,
    Tally,
    chunks,
    distractor_sentences,
    evaluate_phrases,
    phrase_tables,
    read_set,
    spans_of,
)
from phrasemate.types import Phrase


def plain_spans(text: str) -> list[tuple[int, int]]:
    """As the README of the data says it, word by word."""
    words, at = [], 0
    for word in text.split():
        at = text.index(word, at)
        words.append((at, at + len(word)))
        at += len(word)
    results = []
    for i in range(len(words)):
        for j in range(i, min(i + 6, len(words))):
            span = text[words[i][0] : words[j][1]]
            if span[0].isalnum() and span[-1].isalnum():
                results.append((words[i][0], words[j][1]))
    return results


@pytest.mark.parametrize(
    "text",
    ["The old house , it 's red .", "a b c d e f g h", "", " . , ", "one  two\tdrei(s) 4", "naïve Ｗörter 中文 x"],
)
def test_spans_are_those_of_the_protocol(text: str) -> None:
    assert list(map(tuple, spans_of(text).tolist())) == plain_spans(text)


def test_spans_have_at_most_six_words() -> None:
    text = "a b c d e f g h"
    assert len(spans_of(text)) == 8 + 7 + 6 + 5 + 4 + 3


def test_distractors_are_the_protocols_then_all_others(data: Path) -> None:
    texts = list(distractor_sentences(data))
    first = {text.lower() for text in corpora.ENGLISH}
    first |= {f"the old bank on the river was closed {word} times." for word in ("one", "two", "three")}
    expected = sorted(first)
    random.Random(1).shuffle(expected)
    assert texts == expected  # ja has nothing that fr has not
    with gzip.open(data / "parallel" / "en-ko.tsv.gz", "wt", encoding="utf-8") as file:
        file.write("A sentence of another language.\tx\ty\n")
    assert list(distractor_sentences(data)) == [*expected, "a sentence of another language."]


def test_chunks_stop_at_the_sentence_that_has_enough() -> None:
    texts = ["one two", "three", "four five", "six"]  # 3, 1, 3, 1 spans
    assert [chunk.texts for chunk in chunks(texts, 4)] == [["one two", "three"]]
    assert [chunk.texts for chunk in chunks(texts, 5)] == [["one two", "three", "four five"]]
    assert list(chunks(texts, 0)) == []
    with pytest.raises(InputError, match="the corpora have 8 distractor spans, fewer than 9"):
        list(chunks(texts, 9))


def test_a_tally_counts_as_a_plain_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "COLUMNS", 7)
    draw = np.random.default_rng(0)
    queries, vectors = (draw.integers(-2, 3, size=(n, 3)).astype(np.float32) for n in (5, 40))
    gold_scores = np.array([queries[i] @ vectors[i] for i in range(5)], np.float32)
    tally, weighted = Tally(queries, gold_scores), Tally(queries, gold_scores, columns=2)
    weights = draw.integers(0, 4, size=(40, 2)).astype(np.float32)
    tally.count(vectors)
    weighted.count(vectors, weights)
    for i in range(5):
        scores = [float(queries[i] @ vector) for vector in vectors]
        assert tally.higher[i, 0] == sum(score > gold_scores[i] for score in scores)
        assert tally.tied[i, 0] == sum(score == gold_scores[i] for score in scores)
        for k in range(2):
            assert weighted.higher[i, k] == sum(
                w for w, s in zip(weights[:, k], scores, strict=True) if s > gold_scores[i]
            )
            assert weighted.tied[i, k] == sum(
                w for w, s in zip(weights[:, k], scores, strict=True) if s == gold_scores[i]
            )


ROUNDING = 2e-3  # of cosines, where a sentence shares its batch with others


def brute_force(model: Model, data: Path, pooling: str, distractors: list[str]) -> list[list[int]]:
    """Every candidate of every query: how many are surely higher, surely not lower, and the same."""
    sentence_set = read_set(data, "de")
    rows = [corpora.phrase(*phrase) for phrase in corpora.PHRASES]
    golds = [Phrase(row["target"], row["target_start"], row["target_end"]) for row in rows]
    texts = list(dict.fromkeys([*(gold.context for gold in golds), *distractors]))
    candidates = {Phrase(text, *span) for text in texts for span in plain_spans(text)} | set(golds)
    listed = sorted(candidates, key=lambda item: (item.context, item.start, item.end))
    if pooling == "sentence":
        encode = lambda phrases: model.encode_sentences([entry.context for entry in phrases])  # noqa: E731
    else:
        encode = lambda phrases: model.encode(phrases, pooling=pooling)  # noqa: E731
    scores = encode(sentence_set.queries) @ encode(listed).T
    gold_scores = np.array([row[listed.index(gold)] for row, gold in zip(scores, golds, strict=True)])[:, None]
    counts = (scores > gold_scores + ROUNDING, scores >= gold_scores - ROUNDING, abs(scores - gold_scores) <= 1e-6)
    return [count.sum(1).tolist() for count in counts]


@pytest.mark.parametrize("pooling", ["head", "ends", "mean", "sentence"])
def test_ranks_are_those_of_brute_force(model: Model, data: Path, pooling: str) -> None:
    source = ModelSource(model, {"a": pooling, "other": "ends"})
    distractors = list(distractor_sentences(data))
    figures = evaluate_phrases([source], data, 60, ("de", "cs"))
    used = distractors[: figures.sentences]
    assert figures.spans == sum(len(plain_spans(text)) for text in used) >= 60
    least, most, same = brute_force(model, data, pooling, used)
    for lang in ("de", "cs"):  # the same queries
        ranking = figures.rankings["a"][lang]
        assert (ranking.higher >= least).all()
        assert (ranking.higher < most).all()
        assert pooling == "sentence" or np.subtract(most, least).mean() < 20, "the bounds say something"
        if pooling == "sentence":
            assert (ranking.tied + 1).tolist() == same
            assert min(same) > 1


class Wording:
    """A source that gives equal wordings equal vectors."""

    names = ("wording",)

    def queries(self, phrases: Sequence[Phrase]) -> dict[str, np.ndarray]:
        return {"wording": np.array([[1.0, 0.0]] * len(phrases), np.float32)}

    def blocks(self, texts: Sequence[str], spans: Sequence[np.ndarray]) -> Iterator[tuple[str, Block]]:
        for text, item in zip(texts, spans, strict=True):
            words = [text[start:end] for start, end in item.tolist()]
            place = {word: i for i, word in enumerate(dict.fromkeys(words))}
            vectors = [[1.0, 0.0] if word == "bank" else [0.5, 0.0] for word in place]
            yield "wording", Block(np.array(vectors, np.float32), np.array([place[word] for word in words], np.int64))


def test_the_same_wording_elsewhere_is_wrong_and_ties(data: Path) -> None:
    """The word bank stands in two target sentences and in distractors: right is the very one, at even odds."""
    figures = evaluate_phrases([Wording()], data, 0, ("de",))
    ranking = figures.rankings["wording"]["de"]
    assert ranking.higher.tolist() == [2, 2, 0, 2]  # gold spans: old house, book, bank, old bank
    assert ranking.tied[2] == 1
    assert ranking.hits(1).tolist() == [0, 0, 1 / 2, 0]
    more = evaluate_phrases([Wording()], data, 60, ("de",))
    with_bank = sum(text.split().count("bank") for text in list(distractor_sentences(data))[: more.sentences])
    assert more.rankings["wording"]["de"].tied[2] == 1 + with_bank


def test_tables_have_a_row_for_each_system(model: Model, data: Path) -> None:
    source = ModelSource(model, {"mean": "mean", "head": "head"})
    tables = phrase_tables(evaluate_phrases([source], data, 20, ("de", "cs")), against="head")
    assert [table.name for table in tables] == ["phrases acc@1", "phrases acc@10", "phrases MRR"]
    for table in tables:
        assert table.header == ("system", "de", "cs", "mean de cs", "p")
        assert [row[0] for row in table.rows] == ["mean", "head"]
        assert table.rows[0][3].value == pytest.approx((table.rows[0][1].value + table.rows[0][2].value) / 2)
        assert all(0 <= row[1].low <= row[1].value <= row[1].high <= 1 for row in table.rows)
        assert 0 < table.rows[0][4] <= 1
        assert table.rows[1][4] is None


def test_progress_ends_at_its_total(model: Model, data: Path) -> None:
    records: list[tuple[str, int, int]] = []
    evaluate_phrases([ModelSource(model, {"head": "head"})], data, 30, ("de",), lambda *event: records.append(event))
    assert records[-1] == ("distractors", 30, 30)


def test_a_pooling_that_is_not_there_is_refused(model: Model) -> None:
    with pytest.raises(InputError, match="x: pooling 'cls'; this model has ends, mean, head, sentence"):
        ModelSource(model, {"x": "cls"})


def test_damaged_sets_name_file_and_line(data: Path) -> None:
    path = data / "phrase_bench" / "de-en.jsonl"
    rows = [corpora.phrase(*phrase) for phrase in corpora.PHRASES]
    corpora.lines(path, [rows[0], rows[1] | {"end": 10_000}])
    with pytest.raises(ReadError, match=r"de-en\.jsonl, line 2: offsets"):
        read_set(data, "de")
    path.write_text('{"source": "x"}\n')
    with pytest.raises(ReadError, match="line 1: no start, end"):
        read_set(data, "de")
    path.write_text("{\n")
    with pytest.raises(ReadError, match="line 1: not a JSON object"):
        read_set(data, "de")
    path.unlink()
    with pytest.raises(InputError, match="no such file"):
        read_set(data, "de")


def test_a_parallel_file_that_is_absent_or_damaged_is_named(data: Path) -> None:
    path = data / "parallel" / "en-es.tsv.gz"
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(InputError, match=r"en-es.tsv.gz: .*expected English and es"):
        list(distractor_sentences(data))
    path.unlink()
    with pytest.raises(InputError, match=r"en-es\.tsv\.gz: No such file"):
        list(distractor_sentences(data))

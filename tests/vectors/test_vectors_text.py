"""Words of a text, counted; and the sentences that show them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from phrasemate.errors import InputError
from phrasemate.text import read
from phrasemate.vectors import Sentences, tokens
from phrasemate.vectors.vocabulary import count_words, sample_contexts


def test_words_of_any_script() -> None:
    assert [word for word, _, _ in tokens("Die GRÖSSE, die größe: 3.14 m!")] == [
        "die",
        "grösse",
        "die",
        "größe",
        "3.14",
        "m",
    ]
    assert [word for word, _, _ in tokens("我们学习中文。")] == ["我们", "学习", "中文"]
    assert [word for word, _, _ in tokens("Он читает КНИГУ")] == ["он", "читает", "книгу"]
    assert tokens("Größe") == [("größe", 0, 5)]
    assert tokens("Gro\u0308ße") == [("größe", 0, 6)]  # composed as it is counted; where it stands is in the text
    text = "İki 🙂 İstanbul"
    assert [text[start:end] for _, start, end in tokens(text)] == ["İki", "İstanbul"]


def test_counts_as_a_plain_loop() -> None:
    texts = ["b a a", "c, B. A?", "d", ""]
    table = count_words(texts, 3)
    assert (table.words, table.counts) == (("a", "b", "c"), (3, 2, 1))  # of c and d, which are as frequent, the first
    assert (table.sentences, table.total) == (4, 7)
    assert count_words(texts, 9, least=2).words == ("a", "b")
    assert table.digest == count_words(iter_again(texts), 1).digest != count_words(texts[:3], 3).digest


class iter_again:  # noqa: N801
    """Something that can be gone through again, but is not a list."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self.texts)


def test_a_bound_on_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phrasemate.vectors.vocabulary.HELD", 50)
    draw = np.random.default_rng(0)
    texts = [f"often seldom{i} rare{draw.integers(10**9)}" + " usual" * (i % 3 == 0) for i in range(500)]
    table = count_words(texts, 2)
    assert table.words == ("often", "usual")
    assert table.counts == (500, 167)


def test_texts_that_cannot_be_counted() -> None:
    with pytest.raises(InputError, match="read only once; give a list"):
        count_words(iter(["a b"]), 3)
    with pytest.raises(InputError, match="2 sentences, but no word occurs 2 times"):
        count_words(["a b", "!"], 3, least=2)
    with pytest.raises(InputError, match="0 words of at least 1"):
        count_words(["a b"], 0)


def test_sentences_of_files_again_and_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One. Two.\nThree.\n")
    sentences = Sentences(read(tmp_path / "a.txt"))
    assert list(sentences) == list(sentences) == ["One.", "Two.", "Three."]


def corpus(count: int = 300) -> list[str]:
    """Sentences with frequent and rare words, some of them twice."""
    draw = np.random.default_rng(1)
    return [" ".join(f"w{int(w)}" for w in draw.zipf(1.4, 6) if w < 200) + " w1 w1." for _ in range(count)]


@pytest.mark.parametrize("chunk", [5, 10**6])
@pytest.mark.parametrize("least", [1, 2, None])
def test_contexts_as_a_plain_loop(monkeypatch: pytest.MonkeyPatch, chunk: int, least: int | None) -> None:
    monkeypatch.setattr("phrasemate.vectors.vocabulary.CHUNK", chunk)
    texts, most = corpus(), 4
    index = {word: row for row, word in enumerate(count_words(texts, 60).words)}
    numbers = np.random.default_rng(7).random(len(texts))
    stands: dict[str, list[tuple[float, int]]] = {}
    for sentence, text in enumerate(texts):
        for word in {word for word, _, _ in tokens(text)} & index.keys():
            stands.setdefault(word, []).append((numbers[sentence], sentence))
    chosen = {sentence for places in stands.values() for _, sentence in sorted(places)[: least or most]}
    expected = {(index[word], s) for word, places in stands.items() for _, s in sorted(places)[:most] if s in chosen}
    contexts = sample_contexts(texts, index, most, least, seed=7)
    rows = list(zip(*(column.tolist() for column in contexts), strict=True))
    assert {(word, sentence) for word, sentence, _, _ in rows} == expected
    assert len(rows) == len(expected)
    assert [(s, start) for _, s, start, _ in rows] == sorted((s, start) for _, s, start, _ in rows)
    words = list(index)
    for word, sentence, start, end in rows:
        place = next(t for t in tokens(texts[sentence]) if t.word == words[word])
        assert (start, end) == (place.start, place.end)
    per_word = Counter(word for word, _, _, _ in rows)
    assert all(per_word[index[word]] >= min(least or most, len(places)) for word, places in stands.items())


def test_progress_of_choosing_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phrasemate.vectors.vocabulary.EVERY", 4)
    events: list[tuple[str, int, int]] = []
    sample_contexts(["a b"] * 9, {"a": 0}, 2, total=9, progress=lambda *event: events.append(event))
    assert events == [("choosing contexts", 4, 9), ("choosing contexts", 8, 9)]


def test_fewer_sentences_where_words_share_them() -> None:
    texts = corpus()
    index = {word: row for row, word in enumerate(count_words(texts, 25).words)}
    apart = sum(len({*sample_contexts(texts, {word: 0}, 4, seed=row).sentence.tolist()}) for word, row in index.items())
    shared = len({*sample_contexts(texts, index, 4).sentence.tolist()})
    assert shared < 0.7 * apart


def test_every_sentence_has_the_same_chance() -> None:
    texts = ["a"] * 20
    drawn = Counter(s for seed in range(400) for s in sample_contexts(texts, {"a": 0}, 5, seed=seed).sentence.tolist())
    assert sum(drawn.values()) == 400 * 5
    assert all(abs(drawn[s] - 100) < 5 * (400 * 0.25 * 0.75) ** 0.5 for s in range(20))  # five standard deviations

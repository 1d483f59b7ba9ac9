"""The parts of mining: sentences on disk, languages, neighbours, word matches."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from phrasemate.errors import InputError, MissingExtra, ReadError
from phrasemate.lexicon import Equivalent
from phrasemate.mine import collection, mining
from phrasemate.mine.collection import Collection, LanguageCheck, checker, collect, normal, script_of
from phrasemate.mine.mining import language_offset, shift
from phrasemate.mine.neighbours import LEAST_RECALL, ApproximateSearch, ExactSearch, engine_for, nearest_in_blocks
from phrasemate.mine.select import Candidates
from phrasemate.mine.word_match import LexiconMatch, WordMatch, low_quarter
from phrasemate.mine.work_folder import Blocks, checked, seal
from phrasemate.rank import whole
from phrasemate.text import read
from phrasemate.types import Document, PhrasePair, Run

SIDES = ("source", "target")


def test_a_collection(tmp_path: Path) -> None:
    texts = ["Ein Satz.", "", "Noch  einer,\u2028zum Beispiel.", "Ein Satz.", "x" * 2001, "12.", "Schlu\u0308ssel"]
    documents = [Document.from_texts("a", texts), Document.from_texts("b", ["Ein\tSatz."])]
    collection = collect(tmp_path, "source", documents, ["Verborgen.", "Ein Satz."], checker("de"))
    assert [collection.text(n) for n in range(len(collection))] == [
        "Ein Satz.", "Noch einer, zum Beispiel.", "Schlüssel", "Verborgen.",
    ]  # fmt: skip
    assert collection.texts(slice(1, 3)) == ["Noch einer, zum Beispiel.", "Schlüssel"]
    assert collection.lengths.tolist() == [9, 25, 9, 10]
    assert collection.hidden == 3
    counts = collection.counts
    assert (counts.read, counts.long, counts.foreign, counts.distinct) == (8, 1, 2, 3)
    assert collection.places(0) == (("a", 1), ("a", 4), ("b", 1))
    assert collection.places(3) == ()
    assert collection.find({"Schlüssel", "Schlüs\u00adsel", "nichts"}) == {"Schlüssel": 2, "Schlüs\u00adsel": 2}
    again = collect(tmp_path, "source", documents, ["Verborgen.", "Ein Satz."], lambda text: pytest.fail("was read"))
    assert (again.key, again.counts) == (collection.key, collection.counts)


def test_text_with_damage_is_read_once_but_again_where_damage_is_not_allowed(tmp_path: Path) -> None:
    path, work = tmp_path / "a.txt", tmp_path / "work"
    path.write_bytes(b"Ein Satz.\n\xff\nNoch einer.\n")
    work.mkdir()

    def collected(keep: LanguageCheck, on_error: str = "skip") -> Collection:
        corpus = read(path, on_error=on_error)
        return collect(work, "source", corpus, [], keep, corpus=corpus)

    first = collected(checker("de"))
    assert [(item.line, item.whole) for item in first.skipped] == [(2, False)]
    again = collected(lambda text: pytest.fail("was read"))
    assert (again.key, again.skipped) == (first.key, first.skipped)
    with pytest.raises(ReadError, match=r"a\.txt, line 2: byte 0xFF"):
        collected(checker("de"), on_error="raise")
    sealed = checked(work / "source.json")
    assert sealed is not None
    for skipped in (None, 3, [3], [["a.txt", 2, "damaged"]], [["a.txt", "2", "damaged", False]]):
        seal(work / "source.json", sealed | {"skipped": skipped}, sorted(work.glob("source.[!j]*")))
        assert collected(checker("de")).skipped == first.skipped, skipped


def test_progress_of_reading_is_told_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "_PROGRESS_STEP", 2)
    events: list[int] = []
    documents = [Document.from_texts("a", ["Ein Satz."] * 5), Document.from_texts("b", ["Noch einer."] * 2)]
    collect(tmp_path, "source", documents, [], checker("de"), events.append)
    assert events == [2, 4, 5, 6, 7]  # after two, and at the end of a document


def test_half_characters_do_not_stop_a_collection(tmp_path: Path) -> None:
    assert normal("half \ud83d here") == "half ? here"
    collection = collect(tmp_path, "source", [Document.from_texts("a", ["half \ud83d here"])], [], checker(""))
    assert collection.text(0) == "half ? here"


@pytest.mark.parametrize(
    ("code", "text", "stays"),
    [
        ("ru", "Откройте окно настроек LibreOffice Writer.", True),
        ("ru", "Open the settings window.", False),
        ("uk_UA", "Це речення.", True),
        ("sr", "Ovo je rečenica.", True),
        ("zh-CN", "打开 settings 窗口", True),
        ("zh", "설정 창을 엽니다", False),
        ("ja", "設定ウィンドウを開く", True),
        ("ko", "설정", True),
        ("ar", "افتح النافذة", True),
        ("el", "Άνοιξε το παράθυρο", True),
        ("de", "Öffne das Fenster", True),
        ("de", "Открой окно", False),
        ("grc", "ἐν ἀρχῇ ἦν ὁ λόγος", True),
        ("os", "Ирон æвзаг", True),
        ("dv", "ދިވެހި", True),
        ("arz", "افتح الشباك", True),
        ("bho", "हम घरे जात बानी", True),
        ("uz", "Ойнани оч", True),
        ("uz", "Oynani och", True),
        ("ber", "Tom yettwasen aṭas", True),
        ("hak", "Ngài chhṳ̂n", True),
        ("uz", "افتح", False),
        ("xx", "Any language that is not listed is written in Latin", True),
        ("de", "12 + 34 = 46", False),
        ("", "1234", False),
        ("", "Щ", True),
    ],
)
def test_scripts(code: str, text: str, stays: bool) -> None:
    assert checker(code)(text) is stays


def test_scripts_of_letters() -> None:
    assert [script_of(letter) for letter in "aéЖ中あ한ج1 "] == [
        "LATIN", "LATIN", "CYRILLIC", "CJK", "HIRAGANA", "HANGUL", "ARABIC", "", "",
    ]  # fmt: skip


def test_a_language_identifier() -> None:
    pytest.importorskip("py3langid")
    german = checker("de", "language")
    assert german("Der Hund schläft heute Nacht im Haus meiner Großmutter.")
    assert not german("The dog sleeps in the house of my grandmother tonight.")
    assert german("OK")  # too little to tell
    assert not german("Собака спит в доме моей бабушки.")
    with pytest.raises(InputError, match="'xx' is unknown to py3langid"):
        checker("xx", "language")


def test_checks_that_make_no_sense(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checker("de", "none")("1234")
    with pytest.raises(InputError, match="check 'all'; expected one of none, script, language"):
        checker("de", "all")
    with pytest.raises(InputError, match="expected a code such as de"):
        checker("German")
    with pytest.raises(InputError, match="no language to check for"):
        checker("", "language")
    collection._identifier.cache_clear()
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    with pytest.raises(MissingExtra, match=r"phrasemate\[identify\]"):
        checker("de", "language")


def vectors(count: int, dim: int = 16, seed: int = 0) -> Any:
    """Unit vectors in clusters."""
    draw = np.random.default_rng(seed)
    centres = draw.standard_normal((50, dim))
    result = centres[draw.integers(0, 50, count)] + draw.standard_normal((count, dim)) * 0.7
    return (result / np.linalg.norm(result, axis=1, keepdims=True)).astype(np.float16)


def test_exact_neighbours_against_a_plain_loop() -> None:
    database, queries = vectors(60), vectors(7, seed=1).astype(np.float32)
    ids, cosines = ExactSearch(database).search(queries, 4)
    for query, result, scores in zip(queries, ids, cosines, strict=True):
        every = [float(query @ item.astype(np.float32)) for item in database]
        assert result.tolist() == sorted(range(60), key=lambda row: -every[row])[:4]
        assert scores == pytest.approx(sorted(every, reverse=True)[:4], abs=1e-5)
    assert ExactSearch(database[:2]).search(queries, 4)[0].shape == (7, 2)


def test_neighbours_block_by_block_are_the_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    database, queries = vectors(60), vectors(7, seed=1).astype(np.float32)
    monkeypatch.setattr("phrasemate.mine.neighbours._BLOCK", 13)
    for k in (1, 4, 20, 90):  # more than a block has, and more than there are
        ids, cosines = nearest_in_blocks(queries, database, k)
        expected_ids, expected = ExactSearch(database).search(queries, k)
        assert ids.tolist() == expected_ids.tolist()
        assert cosines == pytest.approx(expected, abs=1e-6)
    events: list[int] = []
    nearest_in_blocks(queries, database, 4, events.append)
    assert events == [13, 26, 39, 52, 60]


def orthogonal(count: int) -> tuple[Any, Any]:
    """Vectors of German sentences, which have a part in common, and of their English translations."""
    english = np.eye(count, count + 1, dtype=np.float32)
    return english + np.eye(1, count + 1, count, dtype=np.float32) * 0.5, english


def test_the_part_that_source_vectors_have_in_common() -> None:
    german, english = orthogonal(100)
    offset = language_offset(german, english)
    # ten of a hundred are sure, each 0.5 away from its translation: 1.5 times that, with twenty that are not away
    assert offset[:100] == pytest.approx(np.zeros(100), abs=1e-6)
    assert offset[100] == pytest.approx(1.5 * 10 * 0.5 / (10 + 20))
    assert not language_offset(*orthogonal(9)).any()  # a tenth of nine is none
    german[1] = english[0] + np.eye(1, 101, 100, dtype=np.float32) * 0.1
    again = language_offset(german, english)  # a second sentence with the same nearest one does not count
    assert again == pytest.approx(offset, abs=1e-6)


def test_the_offset_is_taken_off_the_source(tmp_path: Path) -> None:
    german, _ = orthogonal(5)
    offset = np.array([0, 0, 0, 0, 0, 0.5], np.float32)
    source = (german / np.linalg.norm(german, axis=1, keepdims=True)).astype(np.float16)
    expected = source.astype(np.float32) - offset
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert shift(tmp_path, source, offset, "a key") == pytest.approx(expected, abs=1e-3)
    assert shift(tmp_path, source, offset * 0, "another") == pytest.approx(source, abs=1e-3)


def test_without_the_offset_more_mates_are_nearest(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    meanings, language = draw.standard_normal((3000, 32)), draw.standard_normal(32) * 0.8
    sides = [meanings + language, meanings + draw.standard_normal((3000, 32)) * 0.9]
    source, target = ((side / np.linalg.norm(side, axis=1, keepdims=True)).astype(np.float16) for side in sides)

    def nearest_mates(vectors: Any) -> int:
        ids, _ = ExactSearch(target).search(vectors.astype(np.float32), 1)
        return int((ids[:, 0] == np.arange(3000)).sum())

    shifted = shift(tmp_path, source, language_offset(source, target), "key")
    assert nearest_mates(shifted) > nearest_mates(source) + 100


def test_approximate_neighbours_reach_the_recall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phrasemate.mine.neighbours._BLOCK", 1000)
    database, queries = vectors(3000), vectors(200, seed=1).astype(np.float32)
    events: list[int] = []
    search = ApproximateSearch(database, queries[:100], 4, events.append)
    exact = ExactSearch(database).search(queries, 4)
    ids, cosines = search.search(queries, 4)
    recall = np.mean([len(set(one) & set(other)) / 4 for one, other in zip(ids, exact[0], strict=True)])
    assert search.recall >= LEAST_RECALL
    assert recall >= 0.95
    assert cosines[:, 0] == pytest.approx(exact[1][:, 0], abs=0.01)
    assert np.median(np.abs(cosines - exact[1])) < 1e-3  # compared in float16, the common part put back
    assert events == [0, 1000, 2000, 3000]


def test_the_work_folder_keeps_approximate_neighbours(tmp_path: Path) -> None:
    database, queries = vectors(3000), vectors(200, seed=1)
    events: list[tuple[str, int, int]] = []

    def tell(what: str, number: int, total: int) -> None:
        events.append((what, number, total))

    def search(engine: str) -> tuple[Run, float]:
        (tmp_path / engine).mkdir(exist_ok=True)
        return mining.neighbours(tmp_path / engine, "forward", queries, database, 4, engine, "key", tell)

    exact, whole_recall = search("exact")
    assert not [event for event in events if event[0] == "indexing"]
    approximate, recall = search("approximate")
    shared = [len(set(one) & set(other)) / 4 for one, other in zip(approximate.ids, exact.ids, strict=True)]
    assert whole_recall == 1.0
    assert recall == pytest.approx(np.mean(shared))  # all queries are the sample
    assert LEAST_RECALL <= recall <= 1
    assert ("indexing", 3000, 3000) in events
    events.clear()
    again, noted = search("approximate")
    assert events == []
    assert (again.ids.tolist(), noted) == (approximate.ids.tolist(), recall)


class OddScorer:
    """Gives the pairs prepared scores, or too few."""

    def __init__(self, score: float, missing: int = 0) -> None:
        self.value, self.missing = score, missing

    def score(self, pairs: Sequence[PhrasePair]) -> np.ndarray:
        return np.full(len(pairs) - self.missing, self.value)


@pytest.mark.parametrize("scorer", [OddScorer(float("nan")), OddScorer(float("inf")), OddScorer(0.5, missing=1)])
def test_scores_that_are_not_one_number_of_every_pair_are_refused(tmp_path: Path, scorer: OddScorer) -> None:
    sides = [collect(tmp_path, side, [Document.from_texts("a", ["Ein Satz."])], [], checker("")) for side in SIDES]
    pairs = Candidates(np.zeros(2, np.int64), np.zeros(2, np.int64), np.ones(2), np.ones(2), np.zeros(2))
    expected = rf"scores of shape \({2 - scorer.missing},\) from the scorer for 2 pairs; expected finite numbers"
    with pytest.raises(InputError, match=expected):
        mining.scores(tmp_path, scorer, pairs, sides, lambda *_: None)


def test_blocks_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="2 keys for 3 blocks of x; expected one for each"):
        Blocks(tmp_path, "x", (7, 2), np.float32, 3, ["a", "b"])
    assert not list(tmp_path.iterdir())


def test_a_log_that_cannot_be_read_says_of_no_block_that_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = Blocks(tmp_path, "x", (2, 1), np.float32, 1, ["a", "b"])
    blocks.write(0, np.ones((1, 1), np.float32))
    usual = Path.read_text

    def refuse(path: Path, *arguments: Any) -> str:
        if path.suffix == ".log":
            raise OSError(5, "Input/output error")
        return usual(path, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", refuse)
        assert Blocks(tmp_path, "x", (2, 1), np.float32, 1, ["a", "b"]).missing == [0, 1]
    assert Blocks(tmp_path, "x", (2, 1), np.float32, 1, ["a", "b"]).missing == [1]


def test_which_engine() -> None:
    assert engine_for("auto", 100_000, 100_000, 384) == "exact"
    assert engine_for("auto", 200_000, 100_000, 384) == "approximate"
    assert engine_for("auto", 10_000_000, 10_000, 384) == "exact"  # too few to learn codes from
    assert engine_for("auto", 200_000, 200_000, 383) == "exact"
    assert engine_for("exact", 10**6, 10**6, 384) == "exact"
    with pytest.raises(InputError, match="approximate search needs 20,000"):
        engine_for("approximate", 1000, 1000, 384)
    with pytest.raises(InputError, match="engine 'fast'; expected one of"):
        engine_for("fast", 1, 1, 2)


def test_the_worst_quarter_of_the_words() -> None:
    assert low_quarter(np.array([0.9, 0.8, 0.4, 0.6, 0.7], np.float32)) == pytest.approx(0.4)  # a quarter of 5 is one
    assert low_quarter(np.arange(8, 0, -1, dtype=np.float32) / 10) == pytest.approx((0.1 + 0.2) / 2)
    assert low_quarter(np.zeros(0, np.float32)) == 0.5


def test_words_that_do_not_match(monkeypatch: pytest.MonkeyPatch) -> None:
    space = {"hund": 0, "dog": 0, "katze": 1, "cat": 1, "schläft": 2, "sleeps": 2, "der": 3, "die": 3, "the": 3}
    calls: list[str] = []

    def word_vectors(model: Any, sentences: Any, layer: Any, pooling: str) -> list[Any]:
        calls.extend(sentence.text for sentence in sentences)
        return [5 * np.eye(4, dtype=np.float32)[[space[w.lower()] for w in item.words()]] for item in sentences]

    monkeypatch.setattr("phrasemate.mine.word_match.word_vectors", word_vectors)

    class Model:
        hash = "h"

    scorer = WordMatch(Model())  # type: ignore[arg-type]
    texts = [("Der Hund schläft", "The dog sleeps"), ("Der Hund schläft", "The cat sleeps"), ("Der Hund", "!!")]
    score = scorer.score([PhrasePair(whole(one), whole(other)) for one, other in texts])
    assert score.tolist() == pytest.approx([1.0, 0.0, 0.0])
    assert sorted(calls) == sorted({text for pair in texts for text in pair})  # each once
    assert scorer.signature == "words h"


def test_words_match_by_the_lexicon_or_by_their_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cosine of Haus and house is 0.2, and the lexicon pairs them; roof is not listed, and its cosine is 0.6.

    The articles have the lowest cosines and do not count.
    """
    vectors = {
        "das": [1.0, 0, 0, 0, 0, 0],
        "haus": [0, 1.0, 0, 0, 0, 0],
        "dach": [0, 0, 1.0, 0, 0, 0],
        "the": [0, 0, 0, 1.0, 0, 0],
        "house": [0, 0.2, 0, 0, 0.96**0.5, 0],
        "roof": [0, 0, 0.6, 0, 0, 0.8],
    }

    def word_vectors(model: Any, sentences: Any, layer: Any, pooling: str) -> list[Any]:
        return [np.array([vectors[word.lower()] for word in item.words()], np.float32) for item in sentences]

    monkeypatch.setattr("phrasemate.mine.word_match.word_vectors", word_vectors)
    equivalents = {"das": ["the"], "haus": ["house"], "dach": ["ceiling"]}
    lexicon = SimpleNamespace(
        equivalents=lambda form, *_: [Equivalent(text, 1.0, "", "en") for text in equivalents.get(form, [])]
    )
    model: Any = SimpleNamespace(hash="h")
    pair = PhrasePair(whole("Das Haus das Dach"), whole("The house the roof"))
    with_lexicon = WordMatch(model, LexiconMatch(cast(Any, lexicon), ("de", "en")))
    assert with_lexicon.score([pair]).tolist() == pytest.approx([0.6])  # the others: 1 for Haus and house
    assert WordMatch(model).score([pair]).tolist() == [0.0]
    assert with_lexicon.score([PhrasePair(whole("Das"), whole("The house"))]).tolist() == pytest.approx([(0.5 + 0) / 2])
    assert with_lexicon.signature != WordMatch(model).signature
    assert with_lexicon.score([]).shape == (0,)


def test_a_sentence_is_one_whatever_is_not_seen_in_it(tmp_path: Path) -> None:
    texts = ["Der Gar\u00adten blüht.", "Der Garten blüht.", "C\u2019est l'été.", "C'est l\u02bcété."]
    collection = collect(tmp_path, "source", [Document.from_texts("a", texts)], [], checker(""))
    assert [collection.text(n) for n in range(len(collection))] == [texts[0], texts[2]]
    assert collection.places(0) == (("a", 1), ("a", 2))

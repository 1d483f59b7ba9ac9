from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from index_fakes import SMALL, FakeModel, sentences, vector_of

from phrasemate.errors import IndexExists, IndexMissing, InputError, ModelError, ModelMismatch
from phrasemate.index import Index
from phrasemate.index.manifest import read_json, write_json
from phrasemate.index.types import Filters
from phrasemate.text import read
from phrasemate.types import Document, Sentence


def rows(index: Index) -> list[tuple[int, int, str]]:
    return [(row.id, row.document, row.text) for row in index.store.all_sentences()]


def test_the_same_document_twice_changes_nothing(index: Index, model: FakeModel) -> None:
    documents = [Document.from_texts("a", sentences(50)), Document.from_texts("b", ["one two three"])]
    first = index.add(documents, lang="en")
    before, generation, calls = rows(index), index.stats().generation, len(model.calls)
    second = index.add(iter(documents), lang="en")
    assert (first.documents_added, first.sentences, first.unchanged) == (2, 51, 0)
    assert (second.documents_added, second.sentences, second.unchanged) == (0, 0, 2)
    assert (rows(index), index.stats().generation, len(model.calls)) == (before, generation, calls)


def test_a_language_that_is_not_code_changes_nothing(index: Index) -> None:
    with pytest.raises(InputError, match="language 'english'; expected a code such as de or zh-Hant"):
        index.add([Document.from_texts("a", ["some words"])], lang="english")
    assert (index.documents(), index.stats().generation) == ([], 0)


@pytest.mark.parametrize("texts", ["notes.txt", ["some words"], ("some words",)])
def test_texts_are_not_documents(index: Index, texts: Any) -> None:
    with pytest.raises(InputError, match=r"'(notes.txt|some words)': expected documents, as read\(\) and"):
        index.add(texts)
    assert (index.documents(), index.stats().generation) == ([], 0)


def test_a_changed_document_replaces_its_old_version(index: Index) -> None:
    index.add([Document.from_texts("a", ["old words here"]), Document.from_texts("b", ["kept words"])], lang="en")
    report = index.add([Document.from_texts("a", ["new words there", "and more"])], lang="en")
    assert (report.documents_added, report.replaced) == (0, 1)
    assert rows(index) == [(1, 1, "kept words"), (2, 2, "new words there"), (3, 2, "and more")]
    assert [(d.id, d.name) for d in index.documents()] == [(1, "b"), (2, "a")]
    assert index.stats().deleted == 5  # old, words, here, old words, words here
    assert index.containing("old words") == []
    assert index.containing("WORDS") == [1, 2]
    assert index.verify().ok


def test_another_language_replaces_too(index: Index) -> None:
    index.add([Document.from_texts("a", ["gift"])], lang="en")
    assert index.add([Document.from_texts("a", ["gift"])], lang="de").replaced == 1
    assert index.stats().languages == {"de": 1}


def test_chunks_cross_documents(index: Index, model: FakeModel) -> None:
    index.add([Document.from_texts(str(at), sentences(20, at)) for at in range(5)], lang="en")
    assert [len(call) for call in model.calls] == [32, 32, 32, 4]


def test_delete(index: Index) -> None:
    index.add([Document.from_texts("a", ["one two"]), Document.from_texts("b", ["three four five"])], lang="en")
    index.delete("a")
    assert rows(index) == [(1, 1, "three four five")]
    stats = index.stats()
    assert (stats.documents, stats.sentences, stats.phrases, stats.deleted) == (1, 1, 5, 3)
    with pytest.raises(InputError, match="no document 'a'; it has 'b'"):
        index.delete("a")
    index.optimize()
    assert index.verify().ok


def test_a_document_that_is_resumed_and_given_twice(index: Index) -> None:
    document = Document.from_texts("a", sentences(64))

    def stop(event: Any) -> None:
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        index.add([document], lang="en", progress=stop)
    assert index.stats().incomplete == ("a",)
    report = index.add([document, document], lang="en")
    assert (report.documents_added, report.unchanged) == (1, 1)
    assert index.stats().sentences == 64
    assert index.verify().ok


def test_two_different_documents_of_one_name_are_refused(index: Index) -> None:
    with pytest.raises(InputError, match="two documents are named 'a' and differ"):
        index.add([Document.from_texts("a", ["x"]), Document.from_texts("a", ["y"])])


def test_frequent_words_are_learned_once_per_language(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    class Learner:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def update(self, text: str) -> None:
            self.seen += text.split()

        def words(self) -> list[str]:
            return [w for w in sorted(set(self.seen)) if self.seen.count(w) > 60]

    monkeypatch.setattr("phrasemate.encode.segmenter.FrequentWords", Learner)
    index.add([Document.from_texts("small", ["of sand"] * 10)], lang="en")
    assert index.stats().phrases == 10 * 3
    index.add([Document.from_texts("big", ["of sand", "bank of"] * 70)], lang="en")  # a larger sample: "of" is frequent
    assert index.stats().phrases == 10 * 3 + 140 * 1
    index.add([Document.from_texts("late", ["of", "bank"])], lang="en")
    assert index.stats().phrases == 10 * 3 + 140 * 1 + 1
    index.add([Document.from_texts("german", ["of sand"])], lang="de")
    assert index.stats().phrases == 10 * 3 + 140 * 1 + 1 + 3


def test_everything_about_a_sentence_comes_back(index: Index, model: FakeModel) -> None:
    sentences = [Sentence("Ein Café \U0001f600 am Ufer!", 17, {"id": 5, "tags": ["a", "ü"]}), Sentence("", 18)]
    index.add([Document("näme\udce9.txt", "d1", lambda: iter(sentences))], lang="de")
    run = index.search(model.extract(["Ufer"])[0].vectors, 1)
    (hit,) = index.hits(run.ids[0], run.scores[0])
    assert (hit.text, hit.context, hit.start, hit.line) == ("Ufer", sentences[0].text, 14, 17)
    assert (hit.document, hit.language, hit.metadata) == ("näme\udce9.txt", "de", {"id": 5, "tags": ["a", "ü"]})
    assert hit.score == pytest.approx(1, abs=1e-3)
    assert index.containing("UFER!") == [0]


@pytest.mark.parametrize(
    ("phrase", "expected"), [("銀行", [0, 2]), ("行", [0, 2]), ("BANK", [1]), ("50%", [3]), ('"q', [4]), ("é", [])]
)
def test_containing(index: Index, phrase: str, expected: list[int]) -> None:
    texts = ["銀行に行く", "The Bank", "中国銀行です", "50% off_", 'say "quoted"']
    index.add([Document.from_texts("a", texts)])
    assert index.containing(phrase) == expected
    assert index.containing(phrase, limit=1) == expected[:1]


def test_a_final_sigma_is_the_sigma_of_a_longer_word(index: Index) -> None:
    index.add([Document.from_texts("a", ["ΟΔΟΣΤΡΩΜΑ ΕΔΩ ΤΩΡΑ", "μια οδός εδώ", "η ΟΔΟΣ"])])
    assert index.containing("ΟΔΟΣ") == [0, 2]
    assert index.containing("οδοσ") == [0, 2]


def test_containing_refuses_nothing(index: Index) -> None:
    with pytest.raises(InputError, match="cannot look for ''"):
        index.containing("")


def test_progress_says_what_is_stored(index: Index) -> None:
    events = []
    texts = sentences(70)
    document = Document("a", "x", lambda: (Sentence(text) for text in texts), size=700, consumed=lambda: 5)
    report = index.add([document], lang="en", progress=events.append)
    chunks, last = [event for event in events if not event.stage], events[-1]
    assert [(e.sentences, e.bytes_done, e.bytes_total) for e in chunks] == [(32, 5, 700), (64, 5, 700), (70, 700, 700)]
    assert (chunks[-1].phrases, chunks[-1].document) == (report.phrases, "a")
    stages = [(event.stage, event.share) for event in events if event.stage]
    names = ("building the search file", "listing the wordings")
    assert stages == [(name, share) for name in names for share in (0.0, 1.0)]
    assert last.sentences == 70
    assert report.seconds >= report.encoder_seconds > 0


def test_progress_says_how_much_of_the_search_file_is_ready(index: Index) -> None:
    events = []
    report = index.add([Document.from_texts("a", sentences(400))], lang="en", progress=events.append)
    assert report.phrases > 2 * SMALL.block
    shares = [event.share for event in events if event.stage == "building the search file"]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert len(shares) >= report.phrases // (2 * SMALL.block)


def test_the_time_of_the_search_file_counts(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_derive", lambda tell: time.sleep(0.3))
    assert index.add([Document.from_texts("a", sentences(3))], lang="en").seconds >= 0.3


def test_deleted_phrases_of_the_search_file_are_counted(index: Index) -> None:
    index.add([Document.from_texts(name, sentences(400, n)) for n, name in enumerate("abcdefghij")], lang="en")
    index.optimize()
    before = index.stats()
    index.delete("a")
    stats = index.stats()
    assert stats.engine.startswith("FAISS")
    assert stats.dead == before.phrases - stats.phrases == stats.deleted > 0
    index.optimize()
    assert index.stats().dead == 0


def test_another_model_is_refused_by_name(index: Index) -> None:
    with pytest.raises(ModelMismatch, match=r"built with the model fake \(.{12}\), not with other \("):
        Index.open(index.path, FakeModel(name="other"))


def test_create_and_open_say_what_is_there(index: Index, model: FakeModel, tmp_path) -> None:
    with pytest.raises(IndexExists, match="already holds an index"):
        Index.create(index.path, model)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(IndexExists, match="is neither empty nor an index"):
        Index.create(tmp_path / "other", model)
    with pytest.raises(IndexExists, match="is a file"):
        Index.create(tmp_path / "other" / "file", model)
    with pytest.raises(IndexMissing, match="no index at"):
        Index.open(tmp_path / "nowhere")
    with pytest.raises(IndexMissing, match="the index comes before the query"):
        Index.open("Er sitzt auf der [[Bank]].")


def test_a_model_that_errs_is_found_out(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(FakeModel):
        def extract(self, texts, frequent=frozenset()):  # type: ignore[no-untyped-def]
            phrases = super().extract(texts, frequent)
            phrases[0].ends[0] = 99
            return phrases

    with Index.open(index.path, Wrong(), settings=SMALL, threads=1) as wrong:
        with pytest.raises(ModelError, match="phrases outside the text 'one two'"):
            wrong.add([Document.from_texts("a", ["one two"])])
        assert wrong.stats().sentences == 0


class Short(FakeModel):
    """Gives one text less than it has."""

    def extract(self, texts, frequent=frozenset(), **options):  # type: ignore[no-untyped-def]
        return super().extract(texts, frequent)[1:]


class Narrow(FakeModel):
    """Gives vectors that lack a number."""

    def extract(self, texts, frequent=frozenset(), **options):  # type: ignore[no-untyped-def]
        phrases = super().extract(texts, frequent)
        phrases[0].vectors = phrases[0].vectors[:, 1:]
        return phrases


class Uneven(FakeModel):
    """Gives one score less than it has phrases."""

    def extract(self, texts, frequent=frozenset(), **options):  # type: ignore[no-untyped-def]
        phrases = super().extract(texts, frequent)
        phrases[0].scores = phrases[0].scores[1:]
        return phrases


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Short, r"^the model gave phrases for 0 texts, expected 1$"),
        (Narrow, r"of unequal lengths, or vectors that are not \(3, 16\), for 'one two'$"),
        (Uneven, r"of unequal lengths, or vectors that are not \(3, 16\), for 'one two'$"),
    ],
)
def test_a_model_that_gives_too_little_is_found_out(index: Index, kind: type[FakeModel], message: str) -> None:
    """Two words and their pair are three phrases."""
    with Index.open(index.path, kind(), settings=SMALL, threads=1) as wrong:
        with pytest.raises(ModelError, match=message):
            wrong.add([Document.from_texts("a", ["one two"])])
        assert wrong.stats().sentences == 0


def test_all_phrases_are_in_all_documents(index: Index) -> None:
    index.add([Document.from_texts("a", ["one two"]), Document.from_texts("b", ["three"])])
    phrases = [0, 3, 0]
    assert index.in_documents(phrases, Filters()).tolist() == [True, True, True]
    assert index.in_documents(phrases, Filters(["b"])).tolist() == [False, True, False]


def test_the_generation_grows_with_each_change(index: Index) -> None:
    before = index.generation
    index.add([Document.from_texts("a", ["one two"])])
    after = index.generation
    assert after > before
    index.add([])
    assert index.generation == after == index.stats().generation


def test_an_index_keeps_how_it_segments(tmp_path: Path) -> None:
    """Options given when it is made hold for all text that comes in, in later processes too."""
    records: list[dict[str, object]] = []

    class Watched(FakeModel):
        def extract(self, texts, frequent=frozenset(), **options):  # type: ignore[no-untyped-def]
            records.append(options)
            return super().extract(texts, frequent)

    with Index.create(tmp_path / "idx", Watched(), segment={"threshold": 0.5}) as index:
        assert index.stats().segment == {"threshold": 0.5}
    with Index.open(tmp_path / "idx", Watched()) as index:
        index.add([Document.from_texts("a", ["one two"])])
    assert records == [{"threshold": 0.5}]


def test_an_index_of_before_segment_options_opens(tmp_path: Path) -> None:
    with Index.create(tmp_path / "idx", FakeModel()):
        pass
    path = tmp_path / "idx" / "index.json"
    content = {k: v for k, v in read_json(path).items() if k not in ("segment", "format", "version")}
    write_json(path, content)
    with Index.open(tmp_path / "idx", FakeModel()) as index:
        assert index.stats().segment == {}


def deep(brackets: int) -> Any:
    results: Any = "x"
    for _ in range(brackets):
        results = [results]
    return results


@pytest.mark.parametrize("metadata", [{("a", "b"): 1}, {"a": deep(100)}, {"a": deep(900)}, {"a": deep(100_000)}])
def test_metadata_that_could_not_be_read_again_are_refused(index: Index, metadata: dict[Any, Any]) -> None:
    texts = [Sentence("one two"), Sentence("three four", 5, metadata)]
    with pytest.raises(
        InputError, match=r"document 'a', sentence 2 \(line 5\): its metadata cannot be stored \(.*JSON"
    ):
        index.add([Document("a", "d", lambda: iter(texts))])
    assert index.documents() == []


def test_metadata_may_be_nested_as_those_of_json_lines(index: Index) -> None:
    index.add([Document("a", "d", lambda: iter([Sentence("one two", 0, {"a": deep(99)})]))])
    assert next(index.store.all_sentences()).metadata == {"a": deep(99)}


def test_a_filter_is_not_gone_through_for_each_document(index: Index) -> None:
    class Named(list[str]):
        def __contains__(self, name: object) -> bool:
            raise AssertionError("a list is compared one by one")

    index.add([Document.from_texts(name, ["one two"]) for name in "abc"], lang="en")
    run = index.search(vector_of("one two", 16)[None], 5, documents=Named("ca"), languages=Named(["en"]))
    assert {hit.document for hit in index.hits(run.ids[0], run.scores[0])} == {"a", "c"}


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        (["EN"], {"en", "en-GB"}),
        (["eng"], {"en", "en-GB"}),
        (["en_gb"], {"en-GB"}),
        (["iw", "NB"], {"he", "nb"}),
        ([""], {""}),
    ],
)
def test_a_language_takes_its_other_codes_and_its_varieties(index: Index, tags: list[str], expected: set[str]) -> None:
    for language in ("en", "en-GB", "he", "nb", ""):
        index.add([Document.from_texts(f"in {language}", ["one two"])], lang=language)
    language_of = {document.id: document.language for document in index.documents()}
    assert {language_of[number] for number in index.documents_in(Filters(languages=tags))} == expected


def test_an_index_without_a_variety_says_so(index: Index) -> None:
    index.add([Document.from_texts("a", ["one two"])], lang="en")
    with pytest.raises(InputError, match="has no language 'en-GB'; it has 'en'"):
        index.documents_in(Filters(languages=["en-GB"]))


def test_a_file_without_text_is_skipped_like_an_empty_file(index: Index, tmp_path: Path) -> None:
    contents = {"blank.txt": "\n \n\n", "empty.txt": "", "good.txt": "It rained.\n", "image.txt": "\x00\x01" * 50}
    for name, content in contents.items():
        (tmp_path / name).write_text(content, "utf-8")
    for run in range(2):
        corpus = read(tmp_path, on_error="skip")
        report = index.add(corpus, lang="en")
        assert [Path(item.file).name for item in corpus.skipped] == ["blank.txt", "empty.txt", "image.txt"]
        assert (report.documents_added, report.replaced, report.unchanged) == (1 - run, 0, run)
        assert [Path(document.name).name for document in index.documents()] == ["good.txt"]
    (tmp_path / "good.txt").write_text("\n", "utf-8")  # the version with text stays
    report = index.add(read(tmp_path, on_error="skip"), lang="en")
    assert (report.documents_added, report.replaced, report.unchanged) == (0, 0, 0)
    assert [document.sentences for document in index.documents()] == [1]
    (tmp_path / "image.txt").write_text("It snowed.", "utf-8")
    index.add(read(tmp_path, on_error="skip"), lang="en")
    assert [Path(document.name).name for document in index.documents()] == ["good.txt", "image.txt"]
    assert index.verify().ok


def test_a_document_in_memory_may_be_empty(index: Index) -> None:
    report = index.add([Document.from_texts("a", []), Document.from_texts("b", ["It rained."])], lang="en")
    assert report.documents_added == 2
    assert [(document.name, document.sentences) for document in index.documents()] == [("a", 0), ("b", 1)]
    index.add([Document.from_texts("b", [])], lang="en")
    assert [(document.name, document.sentences) for document in index.documents()] == [("a", 0), ("b", 0)]

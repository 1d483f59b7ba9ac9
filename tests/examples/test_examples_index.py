from __future__ import annotations

from pathlib import Path

import pytest
from example_texts import SENTENCES, TEXTS, Silent, phrases_of, plainly

from phrasemate.errors import IndexDamaged, InputError
from phrasemate.examples import ExampleIndex
from phrasemate.examples.sources import IndexSource
from phrasemate.index import Index, fulltext, row_codec
from phrasemate.index.fulltext import TextSearch
from phrasemate.index.types import IdRange
from phrasemate.types import Document

ORDER = [*TEXTS["en"], *TEXTS["ja"], *(text for text in SENTENCES if text not in TEXTS["en"] + TEXTS["ja"])]  # by id
PHRASES = sorted({phrase for text in SENTENCES for phrase in phrases_of(text)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("index") / "idx"
    with Index.create(path, Silent()) as index:
        for languages in (["en"], ["ja"], [language for language in TEXTS if language not in ("en", "ja")]):
            documents = [Document.from_texts(f"{language}.txt", TEXTS[language]) for language in languages]
            index.add(documents, lang=languages[0])
    return path


@pytest.mark.parametrize("readonly", [True, False])
def test_every_phrase_finds_what_reading_finds(folder: Path, readonly: bool) -> None:
    with Index.open(folder, readonly=readonly) as index, ExampleIndex.from_index(index) as source:
        assert source.sentences == len(SENTENCES)
        for phrase in PHRASES:
            examples = source.find(phrase, 1000, extra=0)
            assert sorted(one.context for one in examples) == sorted(plainly(phrase)), phrase


@pytest.mark.parametrize(
    "phrase", ["art", "strasse", "istanbul", "水", "印刷", "eu", "설정", "設定", "ßen", "DİYARBAKIR"]
)
def test_a_phrase_in_another_form(folder: Path, phrase: str) -> None:
    with Index.open(folder, readonly=True) as index:
        examples = ExampleIndex.from_index(index).find(phrase, extra=0)
    assert {one.context for one in examples} == plainly(phrase)


def test_it_answers_as_a_store_of_the_same_text_does(folder: Path) -> None:
    documents = [Document.from_texts(f"{language}.txt", texts) for language, texts in TEXTS.items()]
    with Index.open(folder) as index, ExampleIndex.build(documents) as other:
        source = ExampleIndex.from_index(index)
        for phrase in PHRASES[::7]:
            assert {e.phrase for e in source.examples(phrase)} == {e.phrase for e in other.examples(phrase)}


def test_turkish_words_are_found_however_they_are_written(tmp_path: Path) -> None:
    texts = ["İzmir ilinin en iyi yeri", "İZMİR İLİNİN EN İYİ YERİ", "izmir ilinin en iyi yeri", "Izmir, Isparta"]
    texts += ["Bugün İstanbul'daki evde", "bugün istanbul'daki evde", "Isparta ılıca", "ALİ GELDİ", "ali geldi"]
    documents = [Document.from_texts("tr", texts)]
    phrases = ["izmir", "IZMIR", "İZMİR", "İzmir ilinin", "istanbul'daki", "İSTANBUL'DAKİ", "ısparta ılıca", "ALI"]
    with Index.create(tmp_path / "idx", Silent()) as index, ExampleIndex.build(documents) as other:
        index.add(documents)
        source = ExampleIndex.from_index(index)
        for phrase in phrases:
            expected = {example.context for example in other.find(phrase, extra=0)}
            assert {result.context for result in source.find(phrase, extra=0)} == expected != set(), phrase


def test_white_space_is_a_single_space_or_that_of_the_phrase(tmp_path: Path) -> None:
    texts = ["We like open source.", "They use open\u00a0source too.", "Is that open  source?"]
    with Index.create(tmp_path / "idx", Silent()) as index:
        index.add([Document.from_texts("a", texts)])
        source = ExampleIndex.from_index(index)
        for phrase, count in (("open source", 1), ("open\u00a0source", 2), (" open  source ", 2)):
            results = {example.context for example in source.find(phrase, extra=0)}
            assert (len(results), texts[0] in results, any(phrase.strip() in text for text in results)) == (
                count,
                True,
                True,
            )


def test_languages(folder: Path) -> None:
    with Index.open(folder) as index:
        for tag in ("ja", "JA", "jpn"):
            source = ExampleIndex.from_index(index, [tag])
            assert {example.language for example in source.examples("水", extra=0)} == {"ja"}
        assert source.find("party") == []
        with pytest.raises(InputError, match="has no text in xx; it has de, en, ja"):
            ExampleIndex.from_index(index, ["xx", "en"])


def test_marks_alone_are_no_phrase(folder: Path) -> None:
    with Index.open(folder) as index:
        source = IndexSource(index)
        for phrase in ("?", " ... ", "\u2019"):
            assert source.candidates(phrase, IdRange()) == []
            assert ExampleIndex.from_index(index).find(phrase, extra=0) == []


def test_words_that_hold_the_phrase_are_not_likely(folder: Path) -> None:
    with Index.open(folder) as index:
        source = IndexSource(index)
        likely = source.likely("  art ", IdRange())
        assert {ORDER[number] for number in likely} == {text for text in ORDER if " art " in text.lower()} != set()
        assert set(likely) < set(source.candidates("art", IdRange()))  # a party, too
        assert source.likely("水", IdRange()) == source.candidates("水", IdRange()) != []  # no spaces in that script


def test_a_changed_index(tmp_path: Path) -> None:
    with Index.create(tmp_path / "idx", Silent()) as index:
        source = ExampleIndex.from_index(index)
        assert (source.sentences, source.find("水", extra=0)) == (0, [])
        index.add([Document.from_texts("a", ["ここに水", "水がある"]), Document.from_texts("b", ["あの水"])])
        assert len(source.find("水", extra=0)) == 3
        index.delete("a")
        assert [one.context for one in source.find("水", extra=0)] == ["あの水"]
        assert source.examples("水", extra=0)[0].document == "b"
        with index.snapshot():
            assert source.find_all(["水", "あの"], extra=0) == [
                source.find("水", extra=0),
                source.find("あの", extra=0),
            ]


def test_candidates_in_pieces_are_the_candidates(folder: Path) -> None:
    with Index.open(folder) as index:
        search = TextSearch(index.store)
        for phrase in ("e", "er", "art", "水", "设"):
            all_of_them = search.candidates(phrase)
            pieces = [i for low in range(0, 40, 5) for i in search.candidates(phrase, IdRange(low, low + 5))]
            assert pieces == all_of_them
            assert search.candidates(phrase, IdRange(limit=2)) == all_of_them[:2]
            assert {ORDER[i] for i in all_of_them} >= plainly(phrase)
        with pytest.raises(InputError, match="cannot look for ''"):
            search.candidates("")


def test_frequent_short_phrases(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fulltext, "_FREQUENT", 3)
    with Index.open(folder) as index:
        search = TextSearch(index.store)
        candidates = search.candidates("is")
        assert {ORDER[i] for i in candidates} >= plainly("is")  # 32 continuations are all there are
        assert len(candidates) < len(SENTENCES)
        monkeypatch.setattr(fulltext, "_TRIGRAMS", 1)
        assert 0 < len(TextSearch(index.store).candidates("is")) < len(candidates)
        assert search.containing("is", 1000) == [i for i, text in enumerate(ORDER) if "is" in text.lower()]


def test_without_a_text_index_the_sentences_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TextSearch, "_usable", lambda *_: False)  # as after an interrupted add
    with Index.open(folder) as index:
        source = ExampleIndex.from_index(index)
        for phrase in ("strasse", "水", "party"):
            assert {one.context for one in source.find(phrase, extra=0)} == plainly(phrase) != set()


@pytest.mark.parametrize("phrase", ["い", "い。", "家", "ab", "b"])
def test_containing_reads_what_trigrams_cannot_show(tmp_path: Path, phrase: str) -> None:
    texts = ["家", "白い家", "家は白い。", "ab", "x ab", "ABC", "", "い"]
    with Index.create(tmp_path / "idx", Silent()) as index:
        index.add([Document.from_texts("a", texts)])
        assert index.containing(phrase) == [i for i, text in enumerate(texts) if phrase in text.lower()]


def test_a_sentence_of_a_document_that_is_not_there(tmp_path: Path) -> None:
    with Index.create(tmp_path / "idx", Silent()) as index:
        index.add([Document.from_texts("a", ["the art of it, and more"])])
        (row,) = index.store.all_sentences()
        numbers = (row.id, 7, row.position, row.line, row.first_phrase, row.phrases)
        crc = row_codec.checksum(b"sentence", numbers, row.text.encode(), b"", row.spans)
        index.store.connection.execute("UPDATE sentences SET document = 7, crc = ?", (crc,))
        with pytest.raises(IndexDamaged, match="document 7 of sentence 0 is missing"):
            ExampleIndex.from_index(index).find("art")

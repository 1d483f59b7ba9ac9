"""The table of wordings: against a plain count, over adds, deletes, segments, damage, and in older indexes."""

from __future__ import annotations

import errno
from collections import defaultdict
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from index_fakes import SMALL, FakeModel, sentences, vector_of

from phrasemate.errors import IndexDamaged, PhraseIndexError
from phrasemate.index import Index, wordings
from phrasemate.index.row_codec import unpack_spans
from phrasemate.index.wordings import WORDINGS_JSON, WordingsManifest
from phrasemate.lexicon import stemmed
from phrasemate.text import folded
from phrasemate.types import Document


def counted(index: Index) -> dict[str, list[int]]:
    """Wording -> ids of its phrases, read one sentence after another."""
    ids: dict[str, list[int]] = defaultdict(list)
    with index.store.reading():
        for row in index.store.all_sentences():
            starts, ends, _ = unpack_spans(row.spans, row.phrases)
            for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
                ids[folded(row.text[start:end])].append(row.first_phrase + number)
    return dict(ids)


def assert_whole(index: Index) -> None:
    expected = counted(index)
    with index.wordings() as search:
        for wording, ids in expected.items():
            assert search.table.occurrences([wording])[0].tolist() == ids
            assert search.table.of_phrases(ids) == [wording] * len(ids)
        assert not len(search.table.occurrences(["no such wording"])[0])
        if expected:
            some = np.array([ids[-1] for ids in expected.values()])
            names = [search.table.of_phrases([phrase])[0] for phrase in some.tolist()]
            drawn = np.stack([vector_of(name, index.manifest.dim) for name in names])
            assert (search.vectors(some) * drawn).sum(1).min() > 0.99  # the stored vectors have 8 bits
    assert index.verify().problems == []


def test_every_phrase_is_under_its_wording_after_adds_and_deletes(index: Index) -> None:
    for number in range(5):
        index.add([Document.from_texts(f"d{number}", sentences(60, seed=number))])
        assert_whole(index)
    index.delete("d1", "d3")
    assert_whole(index)
    index.add([Document.from_texts("d0", sentences(30, seed=9))])  # another version of it
    assert_whole(index)
    index.optimize()
    assert_whole(index)


def test_a_segment_is_sorted_by_the_bytes_of_its_wordings() -> None:
    texts = ["zebra", "ähre", "\U00010348", "\uffff", "\ud800", "b", "a b"]
    ids, numbers = np.array([5, 6, 8, 9, 10, 12, 13, 14]), np.array([0, 1, 2, 3, 4, 5, 6, 0])
    segment = wordings.segment_of(texts, ["en"] * len(texts), numbers, ids, 5, 15)
    encoded = [text.encode("utf-8", "surrogatepass") for text in map(segment.wording, range(len(segment)))]
    assert encoded == sorted(text.encode("utf-8", "surrogatepass") for text in texts)
    rows = segment.rows_of(texts)
    assert [segment.phrases(row).tolist() for row in rows] == [[5, 14], [6], [8], [9], [10], [12], [13]]
    absent = 2**32 - 1
    assert segment.rows.tolist() == [*rows[:2], absent, *rows[2:5], absent, rows[5], rows[6], rows[0]]


def test_small_segments_are_joined_and_large_ones_are_cut(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordings, "SEGMENT", 400)
    for number in range(8):
        index.add([Document.from_texts(f"d{number}", sentences(40, seed=number))])
        segments = WordingsManifest.read(index.path).segments
        assert [s.low for s in segments[1:]] == [s.high for s in segments[:-1]]  # without gaps
        assert all(s.high - s.low <= 400 for s in segments)
        assert len(segments) <= 2 + segments[-1].high // 200
    files = {path.name for path in index.path.glob("wordings-*")}
    assert files == {segment.file for segment in segments}
    assert_whole(index)


def test_what_a_killed_run_left_goes_with_the_next_one(index: Index) -> None:
    """Killed after the manifest was written, before the old segment went; or while a segment was written."""
    index.add([Document.from_texts("d", sentences(40))])
    files = {path.name for path in index.path.iterdir()}
    for name in ("wordings-0123456789abcdef.safetensors", "wordings.partial", "wordings.partial.77.part"):
        (index.path / name).touch()
    index.add([])
    assert {path.name for path in index.path.iterdir()} == files


def test_a_long_text_becomes_segments_of_whole_sentences(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordings, "SEGMENT", 97)  # most cuts would fall into a sentence
    index.add([Document.from_texts("long", sentences(200))])
    segments = WordingsManifest.read(index.path).segments
    assert len(segments) > 5
    with index.store.reading():
        starts = {row.first_phrase for row in index.store.all_sentences() if row.phrases}
    assert {segment.low for segment in segments} <= starts
    assert_whole(index)


def test_inflected_wordings_have_equal_stems(index: Index) -> None:
    index.add([Document.from_texts("park", ["The benches stood there.", "A bench, two benches."])], lang="en")
    with index.wordings() as search:
        assert set(search.table.of_stems([stemmed("bench", "en")])[0]) == {"benches", "the benches", "bench", "a bench"}
        assert search.table.of_stems([stemmed("nothing", "en")]) == [[]]


SYLLABLE = "\ud55c", "\u1112\u1161\u11ab"  # composed and decomposed


def test_composed_and_decomposed_letters_are_one_wording(index: Index) -> None:
    texts = [f"un {syllable}" for syllable in SYLLABLE]
    index.add([Document.from_texts("two", texts)], lang="ko")
    with index.store.reading():
        assert [row.text for row in index.store.all_sentences()] == texts  # as the caller has them
    with index.wordings() as search:
        assert len(search.table.occurrences([SYLLABLE[0]])[0]) == 2
        assert not len(search.table.occurrences([SYLLABLE[1]])[0])
    assert index.verify().problems == []


def test_a_table_that_was_made_when_folding_did_not_compose_is_in_order(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(wordings, "folded_parts", lambda text, spans: [text[a:b].casefold() for a, b in spans])
        index.add([Document.from_texts("two", SYLLABLE)], lang="ko")
    assert index.verify().problems == []
    with index.wordings() as search:
        assert len(search.table.occurrences([SYLLABLE[0]])[0]) == 1
    index.optimize()
    with index.wordings() as search:
        assert len(search.table.occurrences([SYLLABLE[0]])[0]) == 2


def test_an_index_without_the_table_has_it_in_memory_and_gets_it_with_its_next_change(index: Index) -> None:
    index.add([Document.from_texts("old", sentences(50))])
    (index.path / WORDINGS_JSON).unlink()
    with Index.open(index.path, FakeModel(), readonly=True, settings=SMALL) as reader:
        assert_whole(reader)
        assert not (index.path / WORDINGS_JSON).exists()
    index.add([Document.from_texts("new", sentences(5, seed=1))])
    assert WordingsManifest.read(index.path).segments
    assert_whole(index)


def test_a_large_index_of_an_earlier_version_has_no_table_until_it_is_optimized(
    index: Index, caplog: pytest.LogCaptureFixture
) -> None:
    index.add([Document.from_texts("old", sentences(500))])
    (index.path / WORDINGS_JSON).unlink()
    with Index.open(index.path, FakeModel(), settings=SMALL) as opened:
        assert opened.stats().phrases > SMALL.forced_rebuild
        assert not opened.has_wordings
        assert "the table of wordings lacks" in caplog.text
        opened.optimize()
        assert opened.has_wordings
        assert_whole(opened)


def test_a_damaged_segment_is_noticed_and_made_again(index: Index) -> None:
    index.add([Document.from_texts("text", sentences(80))])
    (segment,) = index.path.glob("wordings-*.safetensors")
    content = bytearray(segment.read_bytes())
    content[-40] ^= 1
    segment.write_bytes(content)
    with Index.open(index.path, FakeModel(), settings=SMALL) as opened:
        assert any("SHA-256" in problem for problem in opened.verify().problems)
        with opened.wordings() as search:  # from the sentences
            wording, ids = next(iter(counted(opened).items()))
            assert search.table.occurrences([wording])[0].tolist() == ids
        opened.optimize()
        assert_whole(opened)


def test_a_table_that_disagrees_with_the_sentences_is_a_problem(index: Index) -> None:
    index.add([Document.from_texts("text", sentences(80))])
    manifest = WordingsManifest.read(index.path)
    low, high = manifest.segments[0].low, manifest.segments[0].high
    with index.store.reading():
        rows = [row._replace(text=row.text.replace("w1", "v1")) for row in index.store.sentences_of_phrases(low, high)]
    forged = wordings._write(index.path, wordings.build_segment(rows, low, high, {}))
    WordingsManifest(manifest.generation, (forged,)).write(index.path)
    with Index.open(index.path, FakeModel(), settings=SMALL) as opened:
        assert any("does not match the sentences" in problem for problem in opened.verify().problems)


def test_a_snapshot_keeps_its_wordings(index: Index) -> None:
    index.add([Document.from_texts("one", ["green apples grow"])])
    with Index.open(index.path, FakeModel(), readonly=True, settings=SMALL) as reader, reader.snapshot():
        with reader.wordings() as search:
            before = search.table.occurrences(["apples"])[0].tolist()
        index.add([Document.from_texts("two", ["red apples fell"])])
        with reader.wordings() as search:
            assert search.table.occurrences(["apples"])[0].tolist() == before
    assert len(before) == 1


@pytest.mark.parametrize("content", [{"segments": [["../x", 1, "0", 0, 1, 1]]}, {"segments": 3}, {"segments": [[1]]}])
def test_a_manifest_that_is_not_one_is_refused(index: Index, content: dict[str, object], tmp_path: Path) -> None:
    from phrasemate.index.manifest import write_json

    write_json(index.path / WORDINGS_JSON, {"generation": 1, **content})
    with pytest.raises(IndexDamaged, match="not a table of wordings"):
        WordingsManifest.read(index.path)


def test_a_full_disk_while_the_table_is_written(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(wordings, "save_arrays", full)
        message = r"wordings\.partial: cannot be written \(No space left on device\); free some space and run: phrase"
        with pytest.raises(PhraseIndexError, match=message):
            index.add([Document.from_texts("a", sentences(20))])
    assert index.stats().sentences == 20
    index.optimize()
    assert_whole(index)


@pytest.mark.parametrize(
    ("content", "phrases", "message"),
    [
        (b"no arrays", 0, r"cannot be read \(a header of .* bytes, which is longer than the file\)"),
        (b"\x02\0\0\0\0\0\0\0{}", 0, r"cannot be read \('text'\)"),
        (None, 1, r"holds other phrases than wordings\.json says"),
    ],
)
def test_a_segment_by_a_forger_is_one_error(
    index: Index, content: bytes | None, phrases: int, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its checksum is sound; the wordings are then those of the sentences."""
    index.add([Document.from_texts("text", sentences(80))])
    manifest = WordingsManifest.read(index.path)
    (segment,) = manifest.segments
    path = index.path / segment.file
    if content is not None:
        path.write_bytes(content)
    facts = {"size": path.stat().st_size, "sha256": sha256(path.read_bytes()).hexdigest()}
    forged = segment._replace(**facts, phrases=segment.phrases + phrases)
    with pytest.raises(IndexDamaged, match=message):
        wordings.load_segment(index.path, forged)
    WordingsManifest(manifest.generation, (forged,)).write(index.path)
    with Index.open(index.path, FakeModel(), settings=SMALL) as opened:
        assert any("run phrasemate index optimize" in problem for problem in opened.verify().problems)
        with opened.wordings() as search:
            wording, ids = next(iter(counted(opened).items()))
            assert search.table.occurrences([wording])[0].tolist() == ids
        assert path.name in caplog.text


def test_a_turkish_text_in_capitals_has_the_wordings_of_small_letters(index: Index) -> None:
    index.add([Document.from_texts("signs", ["SINIR KAPISI", "Sınır kapısı"])], lang="tr-TR")
    with index.wordings() as search:
        assert len(search.table.occurrences(["sınır"])[0]) == 2
        assert not len(search.table.occurrences(["sinir"])[0])
    assert index.verify().problems == []


def test_a_table_of_an_older_version_with_other_turkish_letters_is_in_order(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(wordings, "folded_parts", lambda text, spans: [text[a:b].casefold() for a, b in spans])
        patch.setattr(wordings, "dotless", lambda text, language: text)
        index.add([Document.from_texts("signs", ["SINIR KAPISI", "İnsan ve iş"])], lang="tr")
    with index.wordings() as search:
        assert len(search.table.occurrences(["sinir"])[0]) == 1
    assert index.verify().problems == []
    index.optimize()
    with index.wordings() as search:
        assert [len(ids) for ids in search.table.occurrences(["sınır", "insan", "sinir"])] == [1, 1, 0]

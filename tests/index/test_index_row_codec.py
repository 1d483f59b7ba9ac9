from __future__ import annotations

import struct
from unicodedata import normalize
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index_fakes import sentences

from phrasemate.errors import IndexDamaged, InputError
from phrasemate.index import Index, row_codec
from phrasemate.index.types import Filters
from phrasemate.types import Document


def test_a_vector_is_scaled_to_127_and_comes_back_with_unit_length() -> None:
    codes = row_codec.quantise(np.array([[0.6, -0.8, 0.0]], np.float32))
    assert codes.tolist() == [[round(0.6 * 127 / 0.8), -127, 0]]
    length = (95**2 + 127**2) ** 0.5
    assert row_codec.dequantise(codes)[0] == pytest.approx([95 / length, -127 / length, 0])


def test_quantised_vectors_keep_their_direction() -> None:
    vectors = np.random.default_rng(0).standard_normal((500, 128)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    back = row_codec.dequantise(row_codec.quantise(vectors))
    assert np.einsum("nd,nd->n", vectors, back).min() > 0.9998
    assert np.linalg.norm(back, axis=1) == pytest.approx(1, abs=1e-6)


def test_spans_are_ten_bytes_each() -> None:
    packed = row_codec.pack_spans(
        np.array([0, 7], np.int32), np.array([5, 70_000], np.int32), np.array([1, 0.25], np.float32)
    )
    assert packed == struct.pack("<4i2e", 0, 7, 5, 70_000, 1, 0.25)
    starts, ends, scores = row_codec.unpack_spans(packed, 2)
    assert (starts.tolist(), ends.tolist(), scores.tolist()) == ([0, 7], [5, 70_000], [1, 0.25])
    assert [row_codec.unpack_span(packed, 2, at) for at in (0, 1)] == [(0, 5), (7, 70_000)]
    with pytest.raises(IndexDamaged, match="20 bytes, expected 30"):
        row_codec.unpack_spans(packed, 3)
    with pytest.raises(IndexDamaged, match="20 bytes, expected 30"):
        row_codec.unpack_span(packed, 3, 0)


def test_the_checksum_covers_kind_numbers_lengths_and_bytes() -> None:
    assert row_codec.checksum(b"x", (1, 2), b"ab") == crc32(struct.pack("<3q", 1, 2, 2) + b"ab", crc32(b"x"))
    assert row_codec.same(row_codec.checksum(b"x", (1,), b"a", b"bc"), b"x", (1,), b"a", b"bc")
    assert not row_codec.same(row_codec.checksum(b"x", (1,), b"a", b"bc"), b"x", (1,), b"ab", b"c")
    assert not row_codec.same(row_codec.checksum(b"x", (1,)), b"y", (1,))
    assert not row_codec.same(0, b"x", (None,))
    assert not row_codec.same(0, b"x", (1,), "text")


@settings(max_examples=50, deadline=None)
@given(st.text(), st.dictionaries(st.text(), st.integers() | st.text() | st.none(), max_size=3))
def test_texts_and_metadata_come_back(text: str, metadata: dict[str, object]) -> None:
    assert row_codec.decode_text(row_codec.encode_text(text)) == text
    assert row_codec.decode_metadata(row_codec.encode_metadata(metadata)) == metadata


def test_lone_surrogates_come_back() -> None:
    assert row_codec.decode_text(row_codec.encode_text("caf\udce9.txt")) == "caf\udce9.txt"


@pytest.mark.parametrize("rows", [range(40), range(36, 40), range(4), range(0, 40, 10)])
def test_a_sample_of_what_was_not_deleted(index: Index, rows: range) -> None:
    """As many as are wanted are drawn, wherever in the store they are left."""
    index.add([Document.from_texts(str(n), sentences(25, n)) for n in range(40)], lang="en")
    index.delete(*map(str, set(range(40)) - set(rows)))
    phrases = index.stats().phrases
    count = min(phrases, 500)
    drawn = index.store.sampled_rows(count, pieces=100)
    assert count * 0.9 <= sum(row.phrases for row in drawn) <= max(count * 2, phrases)
    assert len({row.id for row in drawn}) == len(drawn)
    assert {row.document for row in drawn} == {document.id for document in index.documents()}
    whole = index.store.sampled_rows(phrases, pieces=100)
    assert sum(row.phrases for row in whole) >= 0.7 * phrases


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["law/a.txt"], ["law/a.txt"]),
        (["law/"], ["law/a.txt", "law/b.md"]),
        (["law"], ["law/a.txt", "law/b.md"]),
        (["./law//"], ["law/a.txt", "law/b.md"]),
        (["./law/a.txt"], ["law/a.txt"]),
        (["./law/*.md"], ["law/b.md"]),
        (["news"], ["news"]),
        (["*.txt"], ["law/a.txt", "lawyer.txt"]),
        (["*a*"], ["law/a.txt", "law/b.md", "lawyer.txt"]),
        (["law/", "news"], ["law/a.txt", "law/b.md", "news"]),
    ],
)
def test_a_filter_takes_names_folders_and_patterns(index: Index, names: list[str], expected: list[str]) -> None:
    documents = ["law/a.txt", "law/b.md", "lawyer.txt", "news", "news2"]
    index.add([Document.from_texts(name, sentences(3, n)) for n, name in enumerate(documents)], lang="en")
    chosen = index.documents_in(Filters(names))
    assert [document.name for document in index.documents() if document.id in chosen] == expected
    for unknown in ("x", "*.pdf", "", "law/a", "new", "./", "/law", "news/"):
        with pytest.raises(InputError, match="has no document"):
            index.documents_in(Filters([unknown]))
    with pytest.raises(InputError, match="has no document 'law/'"):
        index.delete("law/")


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("other_form", ["NFC", "NFD"])
@pytest.mark.parametrize("wording", ["./é/à.txt", "é/à.txt", ".//é//à.txt", "é/", "é", "./é", "é/*"])
def test_names_of_documents_are_paths_in_any_form(index: Index, form: str, other_form: str, wording: str) -> None:
    names = [normalize(form, name) for name in ("é/à.txt", "é2/à.txt", "e/a.txt")]
    index.add([Document.from_texts(name, sentences(3, n)) for n, name in enumerate(names)], lang="en")
    name = normalize(other_form, wording)
    chosen = index.documents_in(Filters([name]))
    assert [document.name for document in index.documents() if document.id in chosen] == names[:1]
    if wording.endswith(".txt"):
        index.delete(name)
        assert [document.name for document in index.documents()] == names[1:]


def test_the_name_as_it_is_comes_before_its_path(index: Index) -> None:
    names = ["a", "./a", "a/b"]
    index.add([Document.from_texts(name, sentences(3, n)) for n, name in enumerate(names)], lang="en")
    for wording, expected in (("a", ["a"]), ("./a", ["./a"]), (".//a", ["a"]), ("a/", ["a/b"])):
        chosen = index.documents_in(Filters([wording]))
        assert [document.name for document in index.documents() if document.id in chosen] == expected
    index.delete("./a")
    assert [document.name for document in index.documents()] == ["a", "a/b"]


def test_documents_are_deleted_all_or_none(index: Index) -> None:
    index.add([Document.from_texts(name, sentences(3, n)) for n, name in enumerate("abc")], lang="en")
    before = index.stats().generation
    with pytest.raises(InputError, match="has no document 'x'"):
        index.delete("a", "x")
    index.delete()
    assert ([document.name for document in index.documents()], index.stats().generation) == (["a", "b", "c"], before)
    index.delete("a", "c", "a")
    assert ([item.name for item in index.documents()], index.stats().generation) == (["b"], before + 1)
    assert index.verify().ok


def test_a_sample_of_nothing(index: Index) -> None:
    assert index.store.sampled_rows(10, pieces=4) == []

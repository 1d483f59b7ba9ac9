"""An index in parts answers like one index of all: by vector, by wording, by text, and in its rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from index_fakes import SMALL, FakeModel, sentences, vector_of

from phrasemate.errors import InputError, ModelMismatch, PhraseIndexError
from phrasemate.index import Index, IndexSettings
from phrasemate.index.ray import Failure
from phrasemate.index.shards import BITS, MOST, Place, Shard, ShardedIndex, ShardsFile
from phrasemate.index.types import IdRange
from phrasemate.types import Document, Sentence

EXACT = IndexSettings(chunk=32, learn=100, exact_below=10**6)


class Here:
    """Asks the parts in this process."""

    def __init__(self, places: Sequence[Place], settings: IndexSettings) -> None:
        self.shards = [Shard(Index.open, place.folder, 1, settings) for place in places]
        self.questions = 0

    def ask(self, question: str, arguments: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        self.questions += 1
        return {number: self.shards[number].answer(question, *values) for number, values in arguments.items()}

    def close(self) -> None: ...


def documents() -> list[Document]:
    texts = [[f"{text} d{number}" for text in sentences(40 + number, seed=number)] for number in range(6)]
    return [Document.from_texts(f"doc{number}", lines) for number, lines in enumerate(texts)]


class Pair:
    """The index of all, and the same documents in three parts."""

    def __init__(self, folder: Path, settings: IndexSettings) -> None:
        self.model, self.exact = FakeModel(dim=64), settings is EXACT
        self.whole = Index.create(folder / "whole", self.model, settings=settings, threads=1)
        self.whole.add(documents(), lang="en")
        self.whole.delete("doc3")
        self.places = [Place(str(folder / f"part{number}")) for number in range(3)]
        for number, place in enumerate(self.places):
            with Index.create(place.folder, self.model, settings=settings, threads=1) as part:
                part.add(documents()[2 * number : 2 * number + 2], lang="en")
                if number == 1:
                    part.delete("doc3")
        self.caller = Here(self.places, settings)
        self.parts = ShardedIndex("parts", self.caller, self.places, self.model, 1)
        with self.whole.store.reading(), self.parts.store.reading():
            rows = zip(self.whole.store.all_sentences(), self.parts.store.all_sentences(), strict=True)
            self.ids = {
                ours.first_phrase + number: theirs.first_phrase + number
                for ours, theirs in rows
                for number in range(ours.phrases)
            }

    def translated(self, ids: Any) -> list[int]:
        """Ids of the parts for those of the whole."""
        return [self.ids.get(identity, identity) for identity in np.asarray(ids).ravel().tolist()]


def ties(ids: Any, scores: Any) -> list[set[int]]:
    """Hits with the same score, which a matrix product may round by their place; not the last ones, which are cut."""
    ends = np.flatnonzero(np.diff(scores) < -1e-5) + 1
    return [set(part.tolist()) for part in np.split(ids, ends)[:-1]]


@pytest.fixture(scope="module", params=[EXACT, SMALL], ids=["exact", "quantised"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    pair = Pair(tmp_path_factory.mktemp("shards"), request.param)
    yield pair
    pair.whole.close()


def test_rows_are_those_of_one_index(pair: Pair) -> None:
    with pair.whole.store.reading(), pair.parts.store.reading():
        whole, parts = list(pair.whole.store.all_sentences()), list(pair.parts.store.all_sentences())
    assert [row[3:4] + row[5:] for row in whole] == [row[3:4] + row[5:] for row in parts]
    assert [row.id for row in parts] == sorted(row.id for row in parts)
    assert [info.name for info in pair.parts.documents()] == [info.name for info in pair.whole.documents()]
    stats, both = pair.whole.stats(), pair.parts.stats()
    counts = ("documents", "sentences", "phrases", "deleted", "languages")
    assert [getattr(stats, name) for name in counts] == [getattr(both, name) for name in counts]
    assert pair.parts.verify().ok


def test_nearest_phrases_are_those_of_one_index(pair: Pair) -> None:
    queries = np.stack([vector_of(text, 64) for text in ("w1", "w2 w5", "w17", "nothing of this")])
    filters: list[dict[str, list[str]]] = [{}, {"documents": ["doc2"]}, {"documents": ["doc0", "doc5"]}]
    for some in (*filters, {"languages": ["en"]}):
        whole, parts = (index.search(queries, 20, **some) for index in (pair.whole, pair.parts))
        if pair.exact or "documents" in some:  # so few are read one by one
            assert np.allclose(whole.scores, parts.scores, atol=1e-6)
            translated = np.reshape(pair.translated(whole.ids), whole.ids.shape)
            for row in range(len(queries)):
                assert ties(parts.ids[row], parts.scores[row]) == ties(translated[row], whole.scores[row])
            equal = [(one.context, one.start, one.document) for one in pair.whole.hits(whole.ids, whole.scores)]
            hits = pair.parts.hits(translated, whole.scores)
            assert [(one.context, one.start, one.document) for one in hits] == equal
        else:  # parts have codes of their own: each proposes other phrases, of which the 8-bit vectors choose
            assert np.allclose(whole.scores[:3, 0], parts.scores[:3, 0], atol=1e-6)
            assert (parts.scores >= whole.scores - 0.05).mean() > 0.9


def test_wordings_are_those_of_one_index(pair: Pair) -> None:
    names = ["w1", "w2", "w3 w1", "no such wording"]
    with pair.whole.wordings() as whole, pair.parts.wordings() as parts:
        expected = whole.table.occurrences(names)
        assert [ids.tolist() for ids in parts.table.occurrences(names)] == [pair.translated(ids) for ids in expected]
        every = pair.translated(expected[0])
        assert parts.table.of_phrases(every[::-1]) == ["w1"] * len(every)
        assert np.array_equal(parts.vectors(np.array(every[::-1])), whole.vectors(expected[0][::-1]))
        by_stem = [[set(texts) for texts in search.table.of_stems(names)] for search in (whole, parts)]
        assert by_stem[0] == by_stem[1]


def test_texts_and_neighbours_are_those_of_one_index(pair: Pair) -> None:
    for text, limit in (("w1 ", 7), ("w1 ", 10**6), ("d4", 50), ("nowhere", 5)):
        whole, parts = (index.containing(text, limit) for index in (pair.whole, pair.parts))
        with pair.whole.store.reading(), pair.parts.store.reading():
            texts = [row.text for row in pair.whole.store.sentences(whole)]
            assert [row.text for row in pair.parts.store.sentences(parts)] == texts
            assert len(pair.parts.texts.candidates(text, IdRange(limit=limit))) >= len(texts)
    ours, theirs = max(pair.ids.items())
    assert pair.parts.around(theirs, 3) == pair.whole.around(ours, 3)
    some = sorted(pair.ids)[::40]
    assert np.array_equal(pair.parts.vectors(pair.translated(some)), pair.whole.vectors(some))


def test_translations_come_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phrasemate.index.shards._PAGE", 4)
    model, place = FakeModel(), Place(str(tmp_path / "part"))
    lines = [Sentence(f"w{number} w1.", number, {"translation": f"t{number}."}) for number in range(9)]
    with Index.create(place.folder, model, threads=1) as index:
        index.add([Document("pairs", "0", lambda: iter(lines))], lang="en")
        expected = [row.metadata for row in index.store.translated_sentences()]
    with ShardedIndex("parts", Here([place], EXACT), [place], model, 1) as parts:
        assert [row.metadata for row in parts.store.translated_sentences()] == expected
        assert [metadata["translation"] for metadata in expected] == [f"t{number}." for number in range(9)]
        assert [row.metadata for row in parts.store.translated_sentences("t7")] == expected[7:8]
        assert len(list(islice(parts.store.all_sentences(), 6))) == 6
        assert [row.id for row in parts.store.all_sentences(0)] == list(range(9))


def documents_of(index: ShardedIndex, query: np.ndarray) -> list[str]:
    """Documents of the two best hits that are equal to a query."""
    run = index.search(query, 2)
    return [hit.document for hit in index.hits(run.ids, run.scores) if hit.score > 0.9]


def test_a_part_stays_as_it_was_opened(tmp_path: Path) -> None:
    model, place = FakeModel(), Place(str(tmp_path / "part"))
    query = np.stack([vector_of("w1", 16)])
    with Index.create(place.folder, model, threads=1) as index:
        index.add([Document.from_texts("a", ["w1 w2."])], lang="en")
        caller = Here([place], EXACT)
        with ShardedIndex("parts", caller, [place], model, 1) as parts:
            index.add([Document.from_texts("b", ["w1 w3."])], lang="en")
            assert documents_of(parts, query) == ["a"]
            assert len(list(parts.store.all_sentences())) == 1
            caller.shards[0] = Shard(Index.open, place.folder, 1, EXACT)  # as if the first one had died
            assert documents_of(parts, query) == ["a", "b"]
            assert parts.store.state().documents == 2


def test_what_is_refused(pair: Pair, tmp_path: Path) -> None:
    with pytest.raises(PhraseIndexError, match="change one of these"):
        pair.parts.add(documents())
    with pytest.raises(InputError, match="of none of the 3 parts"):
        pair.parts.store.sentences_of([3 << BITS])
    with pytest.raises(InputError, match="no phrase"):
        pair.parts.store.sentences_of([(1 << BITS) + 10**9])
    Index.create(tmp_path / "other", FakeModel(dim=64, name="other")).close()
    places = [*pair.places, Place(str(tmp_path / "other"))]
    with pytest.raises(ModelMismatch, match="parts need the same"):
        ShardedIndex("parts", Here(places, EXACT), places, None, 1)


def test_a_part_of_parts_is_refused(pair: Pair) -> None:
    part = Shard(lambda folder, **options: pair.parts, "inner", 1, EXACT)
    message = "inner: cannot be a part; expected an index of one machine"
    assert part.answer("facts") == (-1, Failure("InputError", message))


def test_parts_are_deleted_from_one_by_one(pair: Pair) -> None:
    with pytest.raises(PhraseIndexError, match=r"parts: .*change one of these"):
        pair.parts.delete("doc1")
    assert "doc1" in [info.name for info in pair.parts.documents()]


def test_a_part_without_a_table_of_wordings(tmp_path: Path) -> None:
    """It has so many phrases that the table is not made in memory."""
    model, place = FakeModel(), Place(str(tmp_path / "part"))
    with Index.create(place.folder, model, settings=SMALL, threads=1) as index:
        index.add([Document.from_texts("a", sentences(500))], lang="en")
        assert index.stats().phrases > SMALL.forced_rebuild
        (index.path / "wordings.json").unlink()
    with ShardedIndex("parts", Here([place], SMALL), [place], model, 1) as parts:
        assert not parts.has_wordings
        message = "parts: a part has no table of wordings; run phrasemate index optimize on it"
        with pytest.raises(InputError, match=message), parts.wordings():
            pass


def test_more_parts_than_ids_can_tell_apart(tmp_path: Path) -> None:
    (tmp_path / "shards.json").write_text(json.dumps({"shards": ["part"] * (MOST + 1)}), "utf-8")
    with pytest.raises(InputError, match=r"shards\.json: 8,193 parts; expected 8,192 at most"):
        ShardsFile.read(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"shards": []}',
        '{"shards": [1]}',
        '{"shards": ["a"], "cluster": 1}',
        '{"shards": [{"f": "a"}]}',
    ],
)
def test_a_file_of_parts_that_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "shards.json").write_text(content, "utf-8")
    with pytest.raises(InputError, match=r"shards.json: expected \{"):
        Index.open(tmp_path)


def test_places_are_beside_the_file(tmp_path: Path) -> None:
    shards = ["a", "/srv/b", {"folder": "c", "node": "10.0.0.2"}]
    (tmp_path / "shards.json").write_text(json.dumps({"cluster": "auto", "shards": shards}), "utf-8")
    file = ShardsFile.read(tmp_path)
    assert file.cluster == "auto"
    assert file.places == (Place(str(tmp_path / "a")), Place("/srv/b"), Place(str(tmp_path / "c"), "10.0.0.2"))

"""The text index: what it would take in only in part, after interruptions, and before a change that never comes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from index_fakes import FakeModel, sentences

from phrasemate.errors import IndexDamaged, InputError, ModelError
from phrasemate.index import Index, ingest, schema
from phrasemate.index.types import IdRange
from phrasemate.types import Document, Sentence

NUL = ["hello\0 world of light", "another world"]


def test_text_that_the_text_index_would_cut_short_is_refused(index: Index) -> None:
    with pytest.raises(InputError, match=r"document 'b', sentence 2 \(line 7\): holds the character U\+0000.*remove"):
        index.add([Document.from_texts("a", ["one two"]), Document("b", "d", with_nul)])
    assert (index.documents(), index.stats().generation) == ([], 0)


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("თბილისი", "ქალაქი ᲗᲑᲘᲚᲘᲡᲘ"),
        ("ᲗᲑᲘᲚᲘᲡᲘ", "ქალაქი თბილისი"),
        ("𞤢𞤣𞤤𞤢𞤥", "a 𞤀𞤣𞤤𞤢𞤥 b"),
        ("ꮳꮃꭹ", "Ꮳꮃꭹ, ᏣᎳᎩ"),
        ("σ", "ο λόγος"),
        ("ος", "ΛΌΓΟΣ ΚΑΙ"),
        ("I", "x İ"),
        ("İstanbul".lower(), "Bugün İstanbul'da"),
        ("\uffff", "a\uffffbcd"),
        ("a", "a\U0010ffffbcd"),
    ],
)
def test_upper_and_lower_case_are_alike_in_every_script(index: Index, phrase: str, text: str) -> None:
    index.add([Document.from_texts("a", ["another sentence", text])])
    assert index.containing(phrase)[-1:] == [1]


def with_nul() -> Iterator[Sentence]:
    yield Sentence("three four", 6)
    yield Sentence(NUL[0], 7)


def test_an_index_that_holds_such_text_keeps_working(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(ingest, "sound", lambda document: document)
        index.add([Document.from_texts("a", NUL)])
    assert index.containing("hello\0 w") == [0]
    assert index.add([Document.from_texts("a", NUL)]).unchanged == 1
    assert index.verify().ok
    index.delete("a")
    assert index.verify().ok


def test_a_text_index_that_was_fixed_is_in_use_though_nothing_was_added(index: Index) -> None:
    class Wrong(FakeModel):
        def extract(self, texts: Any, frequent: Any = frozenset(), **options: object) -> Any:
            phrases = super().extract(texts, frequent)
            for item in phrases:
                item.vectors = item.vectors * np.nan
            return phrases

    index.add([Document.from_texts("a", sentences(100))])
    index.store.connection.execute("DELETE FROM words_data WHERE id = (SELECT max(id) FROM words_data)")
    index._model = Wrong()
    with pytest.raises(ModelError):
        index.add([Document.from_texts("b", ["one two"])])
    assert schema.words_match(index.store.connection)
    assert len(index.containing("w1 w")) > 0
    assert index.texts._checked == (index.store.state().generation, True)


def test_the_text_index_is_in_use_again_after_optimize(index: Index) -> None:
    def stop(event: object) -> None:
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        index.add([Document.from_texts("a", sentences(100))], progress=stop)
    result = index.containing("w1 w")
    assert not index.texts._checked[1]
    index.optimize()
    assert index.containing("w1 w") == result
    assert index.texts._checked[1]


def test_a_sentence_that_is_too_long_for_a_row_is_named(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "VALUE_BYTES", 4096)
    with pytest.raises(InputError, match=r"the sentence 'far far .* takes \d+ bytes with its phrases.*split it"):
        index.add([Document.from_texts("a", ["one two", "far " * 500])])
    assert index.stats().sentences == 0


def test_ids_and_counts_may_be_those_of_numpy(index: Index) -> None:
    index.add([Document.from_texts("a", ["one two", "three four", "five six"])])
    run = index.search(FakeModel().extract(["three"])[0].vectors, 1)
    before, after = index.around(run.ids[0, 0], np.int64(1))
    assert ([s.text for s in before], [s.text for s in after]) == (["one two"], ["five six"])
    assert index.containing("three", limit=np.int64(1)) == [1]
    assert index.texts.candidates("three", IdRange(*np.array([0, 3, 2]))) == [1]
    assert index.hits(run.ids, run.scores)[0].text == "three"
    assert len(index.vectors(run.ids)) == 1


def test_samples_leave_no_sentence_out(index: Index) -> None:
    """Phrases only in sentences of even numbers, and one piece less than two sentences."""
    index.add([Document.from_texts("a", ["…" if at % 2 else f"x{at}" for at in range(399)])])
    assert len(index.store.sampled_rows(1, 200)) > 100


@pytest.mark.parametrize("block", ["NULL", "'text'", "CAST(x'EDA080' AS TEXT)", "7", "1.5"])
def test_blocks_of_another_kind_are_damage(index: Index, block: str) -> None:
    index.add([Document.from_texts("a", sentences(100))])
    index.store.connection.execute(f"UPDATE words_data SET block = {block} WHERE id = (SELECT max(id) FROM words_data)")
    assert [problem.split(":")[0] for problem in index.verify().problems] == ["text index"]
    with Index.open(index.path, FakeModel(), readonly=True) as again, pytest.raises(IndexDamaged):
        again.containing("w1 w")


GARDEN = [
    "Der Garten blüht.",
    "Ein Gar\u00adten blüht.",
    "Mein G\u00ada\u00adr\u00adt\u00ade\u00adn\u200e blüht.",
    "Viele Gärten blühen.",
    "Der Gar\u200bten\u2060 blüht.",
    "Im Gar ten.",
]


@pytest.mark.parametrize("phrase", ["Garten", "garten blüht", "Gar\u00adten", "arte", "ga"])
def test_what_is_not_seen_is_looked_over(index: Index, phrase: str) -> None:
    index.add([Document.from_texts("a", GARDEN)])
    for intact in (True, False):
        if not intact:
            index.store.connection.execute("DELETE FROM words_data WHERE id = (SELECT max(id) FROM words_data)")
            index.store.connection.execute("DELETE FROM extras WHERE key = 'words'")
            index.texts.reset()
        assert index.containing(phrase) == ([0, 1, 2, 4, 5] if phrase == "ga" else [0, 1, 2, 4])
        assert set(index.texts.candidates(phrase)) >= {0, 1, 2, 4}


@pytest.mark.parametrize("apostrophe", "'\u2019\u02bc\uff07")
@pytest.mark.parametrize("phrase", ["l'{}été", "d'", "qu'il l'a d'abord d'"])
def test_apostrophes_are_found_in_each_of_their_forms(index: Index, apostrophe: str, phrase: str) -> None:
    phrase = phrase.replace("{}", "")
    texts = [phrase.replace("'", sign) + " dit" for sign in "'\u2019\u02bc\uff07"]
    index.add([Document.from_texts("a", [*texts, "un été sans", "«l ́été»"])])
    assert index.containing(phrase.replace("'", apostrophe)) == [0, 1, 2, 3]
    assert set(index.texts.candidates(phrase.replace("'", apostrophe))) >= {0, 1, 2, 3}


@pytest.mark.parametrize("hyphen", "-\u2010\u2011")
def test_hyphens_are_found_in_each_of_their_forms(index: Index, hyphen: str) -> None:
    texts = ["an up-to-date list", "an up\u2010to\u2010date list", "an up\u2011to\u2011date list", "up–to–date"]
    index.add([Document.from_texts("a", texts)])
    assert index.containing(f"up{hyphen}to{hyphen}date") == [0, 1, 2]


@pytest.mark.parametrize("phrase", ["\u00ad", "\u200e\u2060"])
def test_a_phrase_of_nothing_that_is_seen_is_refused(index: Index, phrase: str) -> None:
    with pytest.raises(InputError, match="cannot look for"):
        index.containing(phrase)

"""Collocates and sense vectors: scores by arithmetic, the files and their damage, and what they tell apart."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from safetensors.numpy import save_file

from phrasemate import load_model
from phrasemate.candidates import surroundings
from phrasemate.errors import ModelDamaged
from phrasemate.lexicon import (
    Collocates,
    InducedLexicon,
    SensesThroughEnglish,
    SenseVectors,
    bundled_collocates,
    bundled_lexicon,
    bundled_senses,
)
from phrasemate.lexicon.induced import Pair, write_lexicon
from phrasemate.lexicon.senses import MOST_STEMS, STEPS, write_collocates, write_senses
from phrasemate.query import parse_query
from phrasemate.types import Phrase

STEMS = ("bank", "bench", "money", "sit")
PAIRS = {(0, 2): 2.0, (1, 3): 3.0, (0, 3): 0.4, (2, 3): 0.001}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_collocates(tmp_path / "collocates.safetensors", STEMS, PAIRS, {"source": "test"})
    return tmp_path / "collocates.safetensors"


def test_a_value_is_a_weighted_sum(path: Path) -> None:
    values = Collocates(path).associations([["bank"], ["bench"], ["bench", "bank"]], {"sit": 0.5, "money": 0.25})
    bank = (0.5 * 0.4 + 0.25 * 2.0) / math.sqrt(0.5 + 0.25)
    bench = (0.5 * 3.0 + 0.25 * 0.0) / math.sqrt(0.5 + 0.25)
    np.testing.assert_allclose(values, [bank, bench, (bank + bench) / 2], rtol=1e-6)


def test_the_order_of_a_pair_does_not_matter(path: Path) -> None:
    collocates = Collocates(path)
    assert collocates.associations([["sit"]], {"bench": 1.0}) == collocates.associations([["bench"]], {"sit": 1.0}) == 3


@pytest.mark.parametrize(
    ("wordings", "context"),
    [([], {"sit": 1.0}), ([["bench"]], {}), ([["bench"]], {"unknown": 1.0}), ([["unknown"], []], {"sit": 1.0})],
)
def test_unknown_words_have_no_collocates(path: Path, wordings: list[list[str]], context: dict[str, float]) -> None:
    assert Collocates(path).associations(wordings, context).tolist() == [0.0] * len(wordings)


def test_a_word_is_not_its_own_collocate(path: Path) -> None:
    assert Collocates(path).associations([["sit"]], {"sit": 1.0}).tolist() == [0.0]


def test_associations_are_rounded_to_steps(path: Path) -> None:
    assert STEPS == 25  # so 0.4 is 10 steps, and 0.001 none
    assert Collocates(path).associations([["money"]], {"sit": 1.0}).tolist() == [0.0]
    write_collocates(path, STEMS, {(0, 1): 0.6 / STEPS}, {})
    assert Collocates(path).associations([["bank"]], {"bench": 1.0}).tolist() == [np.float32(1 / STEPS)]


def test_rows_take_sixteen_bits(tmp_path: Path) -> None:
    """With one bit less for a row, the pairs of rows 0 and 32,768 would be one."""
    stems = [f"{number:05}" for number in range(MOST_STEMS)]
    write_collocates(tmp_path / "file", stems, {(0, 40_000): 1.0, (32_768, 40_000): 2.0}, {})
    values = Collocates(tmp_path / "file").associations([["00000"], ["32768"], ["40000"]], {"40000": 1.0})
    assert values.tolist() == [1.0, 2.0, 0.0]


def test_parts_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    parts = {"text": 3, "lengths": 1, "degrees": 1, "weights": 0}
    tensors = {name: np.ones(size, np.uint8) for name, size in parts.items()} | {"gaps": np.ones((2, 0), np.uint8)}
    save_file(tensors, tmp_path / "file", {"format": "phrasemate collocates 2"})
    with pytest.raises(ModelDamaged, match="do not fit together"):
        Collocates(tmp_path / "file")


def test_surroundings_are_the_equivalents_of_the_other_words(tmp_path: Path) -> None:
    pairs = [Pair("sitzt", "sits", 0.6, 1.0), Pair("sitzt", "sitting", 0.2, 1.0), Pair("dort", "there", 1.0, 1.0)]
    write_lexicon(tmp_path / "lexicon", {"de": pairs})
    sentence = "Er sitzt dort, sitzt auf der Bank."
    phrase = Phrase(sentence, sentence.index("Bank"), sentence.index("Bank") + 4)
    assert surroundings(phrase, InducedLexicon(tmp_path / "lexicon"), "de") == {"sit": 0.6 + 0.6}


def test_english_words_stand_for_themselves(path: Path) -> None:
    lexicon = bundled_lexicon()
    assert lexicon is not None
    assert surroundings(Phrase("He sat on the bench.", 14, 19), lexicon, "en") == {"sat": 1.0}


def test_the_bundled_collocates_tell_senses_apart() -> None:
    collocates = bundled_collocates()
    assert collocates is not None
    for word, near, far in [("sit", "bench", "bank"), ("money", "bank", "bench"), ("court", "lawyer", "avocado")]:
        one, other = collocates.associations([[near], [far]], {word: 1.0})
        assert one > other + 0.5, word
    assert sys.getsizeof(collocates._pairs) < 8 << 20  # memory of every search


@pytest.fixture
def senses(tmp_path: Path) -> tuple[SenseVectors, np.ndarray]:
    """Senses of 300 phrases in German and others in French and English; the first four are of *Bank* and "bank"."""
    names = [("bank", "de", "bench", "en"), ("bank", "de", "bank", "en"), ("bank", "fr", "bench", "en")]
    names += [("bank", "en", "ufer", "de"), *((f"wort{number}", "de", "word", "en") for number in range(297))]
    differences = np.random.default_rng(0).normal(size=(len(names), 4)).astype(np.float32) / 4
    facts = {"model": "abc", "source": "test"}
    write_senses(tmp_path / "senses.safetensors", names, differences, 2, facts)
    return SenseVectors(tmp_path / "senses.safetensors"), differences


def test_nearness_is_the_product_with_the_sense(senses: tuple[SenseVectors, np.ndarray]) -> None:
    vectors, differences = senses
    query = differences[0] - differences[2]
    query /= np.linalg.norm(query)
    values = vectors.nearness("die Bank", "de", ["bank", "river", "benches"], query)
    assert np.isnan(values[1])
    np.testing.assert_allclose(values[[2, 0]], differences[:2] @ query, atol=0.03)  # two pieces of one byte each
    (french,) = vectors.nearness("bank", "fr", ["bench"], query)
    assert french == pytest.approx(differences[2] @ query, abs=0.03)
    assert (differences[0] - differences[2]) @ query > 0.1  # so the languages are told apart
    (german,) = vectors.nearness("banks", "en", ["ufer"], query, "de")
    assert german == pytest.approx(differences[3] @ query, abs=0.03)
    assert np.isnan(vectors.nearness("banks", "en", ["ufer"], query, "nl")).all()
    assert vectors.model == "abc"


def test_codebooks_of_another_file_are_used(senses: tuple[SenseVectors, np.ndarray], tmp_path: Path) -> None:
    vectors, differences = senses
    names, facts = [("schloss", "de", "lock", "en"), ("schloss", "de", "key", "en")], {"model": "abc"}
    write_senses(tmp_path / "more", names, differences[:2], 2, facts, vectors.codebooks)  # fewer than can be trained on
    more = SenseVectors(tmp_path / "more")
    np.testing.assert_array_equal(more.codebooks, vectors.codebooks)
    query = np.array([0.5, 0.5, 0.5, 0.5], np.float32)
    expected = vectors.nearness("Bank", "de", ["bench", "bank"], query)  # the same vectors
    np.testing.assert_allclose(more.nearness("Schloss", "de", ["lock", "key"], query), expected)


class English:
    """Lexicon of two French words."""

    def into_english(self, form: str, lang: str) -> tuple[tuple[str, float], ...]:
        assert lang == "fr"
        return {"banc": (("bench", 0.6), ("river", 0.2), ("bank", 0.2)), "fleuve": (("river", 1.0),)}.get(form, ())


def test_a_third_language_has_the_senses_of_its_english_equivalents(senses: tuple[SenseVectors, np.ndarray]) -> None:
    vectors, differences = senses
    query = differences[0] / np.linalg.norm(differences[0])
    bench, bank = vectors.nearness("Bank", "de", ["bench", "bank"], query)
    through = SensesThroughEnglish(vectors, cast(Any, English()))
    values = through.nearness("Bank", "de", ["banc", "fleuve", "guichet"], query, "fr")
    assert values[0] == pytest.approx((0.6 * bench + 0.2 * bank) / 0.8)  # "river" has no vector
    assert np.isnan(values[1:]).all()
    assert through.nearness("Bank", "de", [], query, "fr").shape == (0,)
    assert through.model == "abc"


@pytest.mark.parametrize(("phrase", "translations"), [("Bank", []), ("Wort", ["word"]), ("", [""])])
def test_unknown_senses_are_not_numbers(
    senses: tuple[SenseVectors, np.ndarray], phrase: str, translations: list[str]
) -> None:
    values = senses[0].nearness(phrase, "de", translations, np.ones(4, np.float32) / 2)
    assert len(values) == len(translations)
    assert np.isnan(values).all()


def test_damaged_senses_are_one_clear_error(tmp_path: Path) -> None:
    counts = np.zeros(1 << 16, np.uint8)
    counts[[0, 7]] = 1, 2
    tensors = {
        "counts": counts,
        "keys": np.zeros(3, np.uint16),
        "codes": np.zeros((3, 2), np.uint8),
        "codebooks": np.zeros((2, 256, 2), np.float16),
    }
    facts = {"format": "phrasemate senses 2", "model": "abc"}
    save_file(tensors, tmp_path / "whole", facts)
    assert SenseVectors(tmp_path / "whole").nearness("x", "de", ["y"], np.ones(4, np.float32)).shape == (1,)
    for name, change in [
        ("counts", counts[:-1]),
        ("counts", counts // 2),
        ("keys", np.zeros(2, np.uint16)),
        ("codes", np.zeros((2, 2), np.uint8)),
        ("codebooks", np.zeros((1, 256, 2), np.float16)),
        ("codebooks", np.zeros(2, np.float16)),
    ]:
        save_file(tensors | {name: change}, tmp_path / "part", facts)
        with pytest.raises(ModelDamaged, match="do not fit together"):
            SenseVectors(tmp_path / "part")
    save_file(tensors, tmp_path / "part", {"format": "phrasemate senses 2"})  # no model
    with pytest.raises(ModelDamaged, match="do not fit together"):
        SenseVectors(tmp_path / "part")


@pytest.mark.parametrize(
    ("query", "language", "near", "far"),
    [
        ("Er sitzt auf der [[Bank]] im Park.", "de", "bench", "bank"),
        ("Sie überwies das Geld an ihre [[Bank]].", "de", "bank", "bench"),
        ("Er steckte den Schlüssel in das [[Schloss]].", "de", "lock", "castle"),
        ("Das [[Schloss]] des Königs steht auf dem Berg.", "de", "castle", "lock"),
        ("Le [[temps]] est mauvais, il pleut.", "fr", "weather", "time"),
        ("Je n'ai pas le [[temps]] de venir.", "fr", "time", "weather"),
        ("Él se sentó en el [[banco]] del parque.", "es", "bench", "bank"),
        ("Abrió una cuenta en el [[banco]].", "es", "bank", "bench"),
    ],
)
def test_the_bundled_sense_vectors_tell_senses_apart(query: str, language: str, near: str, far: str) -> None:
    (phrase,), model, senses = parse_query(query).phrases, load_model(), bundled_senses(language)
    assert senses is not None
    assert senses.model == model.hash
    one, other = senses.nearness(phrase.text, language, [near, far], model.encode([phrase])[0], "en")
    assert one > other

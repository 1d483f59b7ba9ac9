"""Words that the lexicon knows as translations, in mining: the score by arithmetic, its languages, what it changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mine_fakes import NumberEncoder, document, english, german

from phrasemate.lexicon import InducedLexicon, bundled_lexicon
from phrasemate.lexicon.induced import Pair, write_lexicon
from phrasemate.mine import Mate, Mining, mine
from phrasemate.mine.word_match import LexiconMatch, lexicon_match

SLEEPS = "Der Hund Xylo schläft.", "The hound sleeps."
SETTINGS: dict[str, Any] = {"threshold": 0.0, "pairing": "all"}


@pytest.fixture
def lexicon(tmp_path: Path) -> InducedLexicon:
    german_pairs = [
        Pair("der", "the", 0.9, 0.5),
        Pair("hund", "dog", 0.8, 0.9),
        Pair("hund", "hound", 0.05, 0.9),
        Pair("schläft", "sleeps", 0.5, 0.5),
    ]
    czech_pairs = [Pair("pes", "dog", 0.5, 0.5), Pair("spí", "is sleeping", 0.4, 0.5)]
    path = tmp_path / "lexicon.safetensors"
    write_lexicon(path, {"de": german_pairs, "cs": czech_pairs})
    return InducedLexicon(path)


def test_the_score_is_the_mean_match_of_the_words(lexicon: InducedLexicon) -> None:
    """Hound has .05 / .8 = 1/16 of the likeliest, to the power of 1/4: 1/2. Xylo is unknown; articles do not count."""
    scores = LexiconMatch(lexicon, ("de", "en")).score([SLEEPS])
    source, target = (1 / 2 + 1 / 2 + 1) / 3, (1 / 2 + 1) / 2
    assert scores.dtype == np.float32
    assert scores.tolist() == pytest.approx([(source + target) / 2])
    assert LexiconMatch(lexicon, ("en", "de")).score([SLEEPS[::-1]]).tolist() == scores.tolist()


def test_a_name_stands_for_itself_and_a_side_without_words_is_no_evidence(lexicon: InducedLexicon) -> None:
    match = LexiconMatch(lexicon, ("de", "en"))
    with_name, without_words, nothing = match.score([("Xylo schläft.", "Xylo sleeps."), ("…", "The."), ("Hund", "?")])
    assert with_name == 1
    assert without_words == pytest.approx(0.5)
    assert nothing == pytest.approx((0 + 0.5) / 2)
    assert match.score([]).shape == (0,)


def test_the_match_of_each_word(lexicon: InducedLexicon) -> None:
    """Articles have none; Xylo, which is in no list, has no equal."""
    source, target = LexiconMatch(lexicon, ("de", "en")).matches(*SLEEPS)
    assert source.tolist() == pytest.approx([np.nan, 0.5, 0, 1], nan_ok=True)
    assert target.tolist() == pytest.approx([np.nan, 0.5, 1], nan_ok=True)


def test_two_other_languages_meet_in_english(lexicon: InducedLexicon) -> None:
    scores = LexiconMatch(lexicon, ("de", "cs")).score([("Hund schläft", "Pes spí"), ("Hund", "spí")])
    assert scores.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("languages", "samples", "expected"),
    [
        (("de", "en"), ([], []), ("de", "en")),
        (("deu", "en-GB"), ([], []), ("de", "en")),
        (("", ""), (["Das Haus ist alt.", "Der Hund schläft."], ["The house is old.", "x"]), None),
        (("", "en"), (["Das Haus ist alt.", "Der Hund schläft."], []), ("de", "en")),
        (("de", "de"), ([], []), None),
        (("eu", "en"), ([], []), None),
        (("", "en"), (["12 + 3"], []), None),
    ],
)
def test_languages_are_given_or_recognised(
    languages: tuple[str, str], samples: tuple[list[str], list[str]], expected: tuple[str, str] | None
) -> None:
    """A language counts if most sentences of the sample are of it; Basque is not in the bundled lexicon."""
    match = lexicon_match(bundled_lexicon(), languages, samples)
    assert (match.languages if match else None) == expected


def test_no_lexicon_no_comparison() -> None:
    assert lexicon_match(None, ("de", "en"), ([], [])) is None


def mates_of(settings: Mining) -> dict[tuple[str, str], Mate]:
    sides = [document("de", [german(n) for n in range(12)]), document("en", [english(n) for n in range(6, 18)])]
    with mine(*sides, NumberEncoder(), settings=settings) as mates:
        assert bool(mates.report.lexicon) == settings.lexicon
        return {mate[:2]: mate for mate in mates}


def test_words_that_fit_make_a_pair_likelier() -> None:
    """Vectors of numbers know nothing of words: of two pairs with one margin, that with the same words is likelier."""
    sides = document("de", ["Der Hund 7.", "Das Haus 8."]), document("en", ["The dog 7.", "The garden 8."])
    scores = []
    for lexicon in (True, False):
        with mine(*sides, NumberEncoder(), settings=Mining(**SETTINGS, lexicon=lexicon)) as mates:
            assert mates.report.lexicon == (("de", "en") if lexicon else ())
            table = {mate[:2]: mate.score for mate in mates}
        scores.append([table[pair] for pair in (("Der Hund 7.", "The dog 7."), ("Das Haus 8.", "The garden 8."))])
    (fitting, other), without = scores
    assert 0 <= other < fitting <= 1
    assert without[0] == pytest.approx(without[1], abs=0.01)


def test_a_higher_threshold_gives_the_beginning() -> None:
    """The same pairs are compared at every threshold, so their leads and scores stay."""
    everything = mates_of(Mining(**SETTINGS))
    for threshold in np.quantile([mate.score for mate in everything.values()], [0.3, 0.6, 0.9, 0.97]).tolist():
        mates = mates_of(Mining(**{**SETTINGS, "threshold": threshold}))
        assert mates.keys() == {pair for pair, mate in everything.items() if mate.score >= np.float32(threshold)}


@pytest.mark.parametrize(
    "settings",
    [
        Mining(threshold=0.0, margin="ratio"),
        Mining(threshold=0.0, margin="quarter"),
        Mining(threshold=0.0, lexicon=False),
    ],
)
def test_where_the_lexicon_does_not_count(settings: Mining) -> None:
    with mine(document("de", [german(1)]), document("en", [english(1)]), NumberEncoder(), settings=settings) as mates:
        assert mates.report.lexicon == ()

"""English verbs: irregular forms, and phrasal verbs."""

from __future__ import annotations

import pytest

from phrasemate.text.english_verbs import PARTICLES, is_phrasal_verb, regular


@pytest.mark.parametrize(
    "phrasal",
    [
        *("give up", "gives up", "giving up", "gave up", "given up"),
        *("carry out", "carries out", "carried out", "carrying out"),
        *("stopped off", "stopping off"),
        *("tie up", "tying up", "cut off", "cutting off", "go on", "went on", "woke up", "die down", "dying down"),
    ],
)
def test_phrasal_verbs_in_all_forms(phrasal: str) -> None:
    assert is_phrasal_verb(*phrasal.split())


@pytest.mark.parametrize("words", ["hands up", "water out", "way back", "give with", "Give up", "interest in"])
def test_other_words_before_a_particle(words: str) -> None:
    assert not is_phrasal_verb(*words.split())


def test_particles_are_those_of_the_list() -> None:
    assert {"up", "out", "off", "down", "away", "back"} <= PARTICLES
    assert "to" not in PARTICLES


def test_irregular_forms() -> None:
    assert [regular(form) for form in ("gave", "given", "men said", "torn", "house")] == [
        *("give", "give", "man say", "tear", "house")
    ]

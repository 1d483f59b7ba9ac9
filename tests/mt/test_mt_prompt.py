"""Prompts: the forms word by word, examples, templates of one's own, names of languages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from phrasemate.errors import InputError
from phrasemate.mt import FORMS, Example, Form, Hint, Prompter, language_name, read_form
from phrasemate.mt.hints import Equivalent, Place
from phrasemate.mt.prompt import translation_of

PLACE = Place("at a small [[bank]] near...", "english.txt", 2)
BANK = Hint("Bank", 3, 7, (Equivalent("bank", 0.81, 5, (PLACE,)), Equivalent("bench", 0.8, 1, ())))
SHOT = Example("Das ist gut.", "That is good.", (BANK,), "It is good.", (("gut", "good"), ("ist", "is")))


def test_plain() -> None:
    prompt = Prompter(FORMS["plain"], "de", "en").prompt("Eine Bank.")
    assert prompt.text == (
        "Translate from German into English. Be faithful and do not alter the meaning.\n\nGerman: Eine Bank.\nEnglish:"
    )
    assert prompt.messages == [{"role": "user", "content": prompt.text}]


def test_phrases_with_contexts_and_without_any() -> None:
    prompter = Prompter(FORMS["phrases"], "de", "en")
    assert prompter.prompt("Eine Bank.", [BANK]).ask == (
        'Bank = bank ("at a small [[bank]] near..."); bench\nGerman: Eine Bank.\nEnglish:'
    )
    assert prompter.prompt("Eine Bank.").ask == "German: Eine Bank.\nEnglish:"  # the line of the hints is gone


def test_a_related_sentence() -> None:
    prompter = Prompter(FORMS["sentence"], "de", "en")
    assert prompter.prompt("Eine Bank.", related="A bank.").ask.startswith("Related English sentence: A bank.\nGerman:")
    assert prompter.prompt("Eine Bank.").ask == "German: Eine Bank.\nEnglish:"


@pytest.mark.parametrize("name", ["plain", "sentence", "phrases"])
def test_few_shot_as_a_text_and_as_a_chat(name: str) -> None:
    prompt = Prompter(FORMS[name], "de", "en", [SHOT, SHOT]).prompt("Eine Bank.", [BANK], "A bank.")
    (request, answered), _ = prompt.turns
    assert answered == "That is good."
    assert prompt.text.split("\n\n") == [
        prompt.instruction,
        f"{request} {answered}",
        f"{request} {answered}",
        prompt.ask,
    ]
    assert [message["role"] for message in prompt.messages] == ["user", "assistant"] * 2 + ["user"]
    assert prompt.messages[0]["content"] == f"{prompt.instruction}\n\n{request}"
    assert prompt.messages[-1]["content"] == prompt.ask
    expected_texts = {
        "plain": "Das ist",
        "sentence": "Related English sentence: It is good.",
        "phrases": "Bank = bank",
    }[name]
    assert expected_texts in request


def test_chain_of_thought_asks_for_the_phrases_then_shows_what_was_said() -> None:
    prompter = Prompter(FORMS["cot"], "de", "en", [SHOT, Example("Ja.", "Yes.")])
    first = prompter.prompt("Eine kleine Bank am Fluss.", phrases=["kleine Bank", "Fluss"])
    assert first.turns == (("German: Das ist gut.\nGerman phrases: gut; ist\nEnglish phrases:", "good; is"),)
    assert first.ask.endswith("German phrases: kleine Bank; Fluss\nEnglish phrases:")
    assert first.follow is not None
    last = first.follow(" small bank;  river\nGerman: and so on")
    assert last.ask == "kleine Bank = small bank\nFluss = river\nGerman: Eine kleine Bank am Fluss.\nEnglish:"
    assert last.turns[0][0].startswith("gut = good\nist = is\nGerman: Das ist gut.")
    assert last.turns[1] == ("German: Ja.\nEnglish:", "Yes.")
    assert last.follow is None
    assert first.follow("small bank").ask.count("=") == 1  # it said less than was asked
    thought = "<think>\nfirst; small; then\n</think>\nsmall bank; river"
    assert first.follow(thought).ask == last.ask  # what it thinks is not a hint
    assert prompter.prompt("Ja!").follow is None  # no phrase: nothing to ask for first


def test_dollars_and_braces_of_the_text_stay_as_they_are() -> None:
    odd = "Es kostet $5 oder ${source} {hints} $$."
    hint = Hint("$5", 10, 12, (Equivalent("$to 5", 0.9, 1, ()),))
    assert Prompter(FORMS["phrases"], "de", "en").prompt(odd, [hint]).ask == f"$5 = $to 5\nGerman: {odd}\nEnglish:"


def test_a_template_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "form.toml"
    path.write_text("task = '''<$hints>\n$source ->'''\nhint = '$phrase:$equivalents '\nmarker = '$to|'\n")
    form = read_form(path, FORMS["phrases"])
    assert form.instruction == FORMS["phrases"].instruction
    prompter = Prompter(form, "cs", "en")
    assert prompter.prompt("banka", [BANK]).ask.startswith("<Bank:bank")
    assert prompter.prompt("banka").ask == "banka ->"
    assert prompter.marker == "English|"
    braces = Prompter(replace(form, task="${hints}\n$from: $source"), "de", "en")
    assert braces.prompt("banka").ask == "German: banka"
    assert braces.form.shows_hints
    assert not FORMS["cot"].shows_hints
    assert not FORMS["plain"].shows_hints


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tusk = 'x'", "tusk = 'x'; expected texts named instruction, task"),
        ("task = 5", "task = 5; expected texts"),
        ("task = ", "not TOML"),
        ("task = " + "[" * 20_000, "not TOML"),
    ],
)
def test_a_template_that_makes_no_sense_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "form.toml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_form(path, FORMS["plain"])
    assert message in str(error.value)


@pytest.mark.parametrize("task", ["$nothing: $source", "$source costs $ 5"])
def test_a_template_names_only_what_there_is(task: str) -> None:
    with pytest.raises(InputError, match=r"it may use \$from, \$to, \$source"):
        Prompter(Form(task=task), "de", "en").prompt("x")


@pytest.mark.parametrize(
    ("code", "name"),
    [("de", "German"), ("pt-BR", "Brazilian Portuguese"), ("zh_Hant", "Traditional Chinese"), ("ar-EG", "Arabic"),
     ("gsw", "Swiss German"), ("sr-Latn-RS", "Serbian"), ("yue", "Cantonese")],
)  # fmt: skip
def test_names_of_languages(code: str, name: str) -> None:
    assert language_name(code) == name


@pytest.mark.parametrize("code", ["", "klingon", "xq", "d", "12", "de\n"])
def test_a_language_without_a_name_is_refused(code: str) -> None:
    with pytest.raises(InputError, match="expected a code such as de"):
        language_name(code)


@pytest.mark.parametrize(
    ("answer", "translation"),
    [
        ("Let me think.\nA bank?</think>\n\nA bench.", "A bench."),  # the server has put <think> into the prompt
        ("<think>one</think><think>two</think>A bench.", "A bench."),
        ("<think>one</think>two</think>A bench.", "A bench."),
        ("only thoughts</think>\n", ""),
        ("<think>cut off", ""),
        ("a < b > c", "a < b > c"),
    ],
)
def test_thoughts_are_not_translation(answer: str, translation: str) -> None:
    assert translation_of(answer)[0] == translation


def test_a_template_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml: cannot be read \(No such file"):
        read_form(tmp_path / "none.toml", FORMS["plain"])

"""Prompts for a translating model: a form (a small template), the sentence, and what was retrieved for it.

The forms come from CCPR (Li et al. 2024), section 6.3: ``phrases`` is its figure 2, ``sentence`` its table 6, ``cot``
its table 9, where the model first translates the phrases itself. A form becomes few-shot by examples, which show what
was retrieved for them.

There are two deviations. The retrieved text comes before the sentence, so that the sentence stands directly before the
answer for a model that continues text. ``cot`` takes two requests, because small models do not return from the phrases
to the sentence.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain, cycle
from pathlib import Path
from string import Template

from phrasemate.errors import InputError
from phrasemate.mt.hints import Equivalent, Hint
from phrasemate.utils import import_extra

FAITHFUL = "Translate from $from into $to. Be faithful and do not alter the meaning."
TASK = "$from: $source\n$to:"
THOUGHT = "</think>"
THOUGHTS = re.compile(r"<think>.*?(</think>|\Z)", re.DOTALL)  # text of reasoning models before their answer


@dataclass(frozen=True, slots=True)
class Form:
    """Prompt form; each text is a template with ``$names`` (``string.Template``).

    A form with a ``first`` takes two requests. The first one asks for translations of the phrases, and these become the
    hints of the second one.

    Args:
        instruction: Text at the top of the prompt ($from, $to).
        task: A sentence up to where its answer begins ($from, $to, $source, $hints, $related). A line is left out if
            its $hints or $related are empty.
        hint: Line of a phrase in the hints ($phrase, $equivalents).
        equivalent: One equivalent in this line ($text, $contexts).
        context: One place where the equivalent was found ($context).
        marker: Text in the answer that the translation follows ($to); "" if the whole answer is the translation.
        stop: Text that ends the answer of a model that continues text.
        first_instruction: Text at the top of the first request.
        first: First request ($from, $to, $source, $phrases); "" for none.
    """

    instruction: str = FAITHFUL
    task: str = TASK
    hint: str = "$phrase = $equivalents"
    equivalent: str = "$text$contexts"
    context: str = ' ("$context")'
    marker: str = ""
    stop: str = "\n"
    first_instruction: str = ""
    first: str = ""

    @property
    def shows_hints(self) -> bool:
        """Return whether the prompt shows retrieved hints and not the model's answer to ``first``."""
        return not self.first and "hints" in Template(self.task).get_identifiers()


FORMS = {
    "plain": Form(),
    "sentence": Form(
        instruction=FAITHFUL + " A related $to sentence is given first; use its wording where it fits.",
        task="Related $to sentence: $related\n" + TASK,
    ),
    "phrases": Form(
        instruction=FAITHFUL + " Possible translations of phrases are given first; use those that fit.",
        task="$hints\n" + TASK,
    ),
    "cot": Form(
        instruction=FAITHFUL + " Possible translations of phrases are given first; use those that fit.",
        task="$hints\n" + TASK,
        first_instruction="Translate the phrases of a $from text into $to, in their order, "
        "with semicolons between them.",
        first="$from: $source\n$from phrases: $phrases\n$to phrases:",
    ),
}


def read_form(path: str | Path, base: Form) -> Form:
    """Return ``base`` with the texts of a TOML file in it.

    Raises InputError if the file cannot be read, is not TOML or has an unknown name.
    """
    try:
        table = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    except (ValueError, RecursionError) as error:  # invalid TOML, invalid UTF-8, or too many nested levels
        raise InputError(f"{path}: not TOML ({error}); expected lines such as task = '...'") from None
    names = [item.name for item in fields(Form)]
    for name, value in table.items():
        if name not in names or not isinstance(value, str):
            raise InputError(f"{path}: {name} = {repr(value)[:80]}; expected texts named {', '.join(names)}")
    return Form(**{name: table.get(name, getattr(base, name)) for name in names})


@dataclass(frozen=True, slots=True)
class Example:
    """Sentence with its translation for a few-shot prompt, and what was retrieved for it.

    ``translations``: phrases of the sentence with their translations, which ``cot`` shows.
    """

    source: str
    translation: str
    hints: Sequence[Hint] = ()
    related: str = ""
    translations: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Prompt:
    """Instruction, examples as (question, answer), and the question ``ask``.

    ``stop``: text that ends the answer of a model that continues text. ``marker``: text in the answer that the
    translation follows; "" if the whole answer is the translation. ``follow``: function that returns the next prompt
    for the answer to this one; None if there is no next prompt.
    """

    instruction: str
    turns: tuple[tuple[str, str], ...]
    ask: str
    stop: str = "\n"
    marker: str = ""
    follow: Callable[[str], Prompt] | None = field(default=None, compare=False)

    def answered(self, answer: str) -> bool:
        """Return whether an answer contains a translation."""
        return not translation_of(answer, self.marker)[1]

    @property
    def text(self) -> str:
        """Return the prompt as one text to continue."""
        lines = [f"{question} {answer}" for question, answer in self.turns]
        return "\n\n".join([self.instruction, *lines, self.ask])

    @property
    def messages(self) -> list[dict[str, str]]:
        """Return the prompt as a chat.

        The first question contains the instruction, since some models do not accept a system message.
        """
        contents = [*chain.from_iterable(self.turns), self.ask]
        contents[0] = f"{self.instruction}\n\n{contents[0]}"
        roles = cycle(("user", "assistant"))
        return [{"role": role, "content": content} for role, content in zip(roles, contents, strict=False)]


class Prompter:
    """Builder of prompts in one form for one language pair (codes such as ``de``; see `language_name`).

    Raises InputError for a template with an unknown name.

    >>> print(Prompter(FORMS["plain"], "de", "en").prompt("Guten Morgen.").ask)
    German: Guten Morgen.
    English:
    """

    def __init__(self, form: Form, source: str, target: str, examples: Sequence[Example] = ()) -> None:
        self.form = form
        self.names = {"from": language_name(source), "to": language_name(target)}
        self.instruction, self.marker = self._fill(form.instruction), self._fill(form.marker)
        if form.first:
            tasks = [self._task(example.source, hints_of(example.translations)) for example in examples]
        else:
            tasks = [self._task(example.source, example.hints, example.related) for example in examples]
        self._turns = tuple(zip(tasks, (example.translation for example in examples), strict=True))
        self._first_turns = tuple(
            (self._first(example.source, [phrase for phrase, _ in pairs]), "; ".join(text for _, text in pairs))
            for example in examples
            if form.first and (pairs := example.translations)
        )

    def prompt(self, source: str, hints: Sequence[Hint] = (), related: str = "", phrases: Sequence[str] = ()) -> Prompt:
        """Return the prompt for one sentence.

        Args:
            source: Sentence to translate.
            hints: Phrases of it with their equivalents.
            related: Related sentence of the target language; "" for none.
            phrases: Phrases of ``source`` that a form with a ``first`` asks for.
        """
        if not self.form.first or not phrases:
            return self._last_prompt(self._task(source, hints, related))

        def follow(answer: str) -> Prompt:
            equivalents = [part.strip() for part in translation_of(answer)[0].split(";")]
            return self._last_prompt(
                self._task(source, hints_of([pair for pair in zip(phrases, equivalents, strict=False) if pair[1]]))
            )

        instruction = self._fill(self.form.first_instruction)
        return Prompt(instruction, self._first_turns, self._first(source, phrases), self.form.stop, follow=follow)

    def _last_prompt(self, ask: str) -> Prompt:
        return Prompt(self.instruction, self._turns, ask, self.form.stop, self.marker)

    def _first(self, source: str, phrases: Sequence[str]) -> str:
        return self._fill(self.form.first, source=source, phrases="; ".join(phrases))

    def _task(self, source: str, hints: Sequence[Hint] = (), related: str = "") -> str:
        """Return the task for a sentence, up to where its answer begins."""
        optional = {"hints": "\n".join(map(self.hint, hints)), "related": related}
        empty = {name for name, value in optional.items() if not value}
        lines = [line for line in self.form.task.split("\n") if empty.isdisjoint(Template(line).get_identifiers())]
        return self._fill("\n".join(lines), source=source, **optional)

    def hint(self, hint: Hint) -> str:
        """Return the line of one phrase."""
        equivalents = "; ".join(map(self._equivalent, hint.equivalents))
        return self._fill(self.form.hint, phrase=hint.phrase, equivalents=equivalents)

    def _equivalent(self, equivalent: Equivalent) -> str:
        contexts = "".join(self._fill(self.form.context, context=place.context) for place in equivalent.places)
        return self._fill(self.form.equivalent, text=equivalent.text, contexts=contexts)

    def _fill(self, template: str, **values: str) -> str:
        try:
            return Template(template).substitute(self.names | values)
        except (KeyError, ValueError) as error:
            having = ", ".join(f"${name}" for name in self.names | values)
            raise InputError(f"the template {template!r}: {error}; it may use {having}; write $$ for $") from None


def hints_of(pairs: Sequence[tuple[str, str]]) -> list[Hint]:
    """Return phrases with translations from elsewhere as hints."""
    return [Hint(phrase, 0, len(phrase), (Equivalent(text, 1.0, 1, ()),)) for phrase, text in pairs]


def language_name(code: str) -> str:
    """Return the English name of a language from CLDR: ``de`` German, ``pt-BR`` Brazilian Portuguese.

    Raises InputError for an unknown code, MissingExtra if babel is not installed.
    """
    core = import_extra("babel.core", "babel", "mt")
    names = core.Locale("en").languages
    try:
        parts = core.parse_locale(code.replace("-", "_"))
        for locale in (core.get_locale_identifier(parts[:3]), core.get_locale_identifier(parts[:2]), parts[0]):
            if name := names.get(locale):
                return str(name)
    except (ValueError, core.UnknownLocaleError):
        pass
    raise InputError(f"the language {code!r} is not known; expected a code such as de, zh-Hant or pt-BR")


def translation_of(answer: str, marker: str = "") -> tuple[str, str]:
    """Return (translation, "") or ("", reason why there is none).

    The translation is the first line with a text, after ``marker`` if it is given.
    """
    text = THOUGHTS.sub("", answer).rpartition(THOUGHT)[2]  # some servers leave out the opening <think>
    if marker:
        _, marker_text, text = text.partition(marker)
        if not marker_text:
            return "", f"the answer holds no {marker!r}"
    lines = [" ".join(line.split()) for line in text.split("\n") if line.strip()]
    return (lines[0], "") if lines else ("", "the answer is empty")

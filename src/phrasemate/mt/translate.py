"""Lines in, translations out: what is retrieved for each line, how the model is asked, and what it answered."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from phrasemate.mt.client import Answer
from phrasemate.mt.hints import Found, Hint, Hinter
from phrasemate.mt.prompt import Example, Prompt, Prompter, translation_of

BATCH = 64  # lines that are looked up together

NONE = Found((), ())
NOTHING = Answer("")


class Answers(Protocol):
    """What answers prompts, in order (`phrasemate.mt.client.Client`)."""

    def answers(self, prompts: Iterable[Prompt]) -> Iterator[Answer]: ...


@dataclass(frozen=True, slots=True)
class Asked:
    """A line (from 1), what was retrieved for it, and the prompt; None for a blank line, which is not asked."""

    number: int
    source: str
    prompt: Prompt | None
    found: Found = NONE
    related: tuple[str, float] = ("", 0.0)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the hints carry the documents and lines that they come from."""
        facts: dict[str, Any] = {"number": self.number, "source": self.source, "phrases": list(self.found.phrases)}
        facts["hints"] = [hint.as_dict() for hint in self.found.hints]
        if self.related[0]:
            facts["related"] = {"text": self.related[0], "score": round(self.related[1], 4)}
        return facts | {"prompt": self.prompt.text if self.prompt else ""}


@dataclass(frozen=True, slots=True)
class Translation:
    """A line's translation, "" with the reason in ``failure`` where there is none."""

    asked: Asked
    text: str
    failure: str = ""
    answer: Answer = NOTHING

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        facts = self.asked.as_dict() | {"translation": self.text, "answer": self.answer.text}
        facts |= {"cached": self.answer.cached, "cut": self.answer.cut}
        if self.answer.steps:
            facts["steps"] = [{"prompt": prompt, "answer": answer} for prompt, answer in self.answer.steps]
        return facts | ({"failure": self.failure} if self.failure else {})


class Retrieval:
    """What is looked up for sentences: hints, a related sentence, both or nothing."""

    def __init__(
        self,
        hinter: Hinter | None = None,
        related: Callable[[Sequence[str], Sequence[str] | None], list[tuple[str, float]]] | None = None,
        cost: Callable[[Hint], int] = lambda hint: 0,
    ) -> None:
        self.hinter, self.related, self.cost = hinter, related, cost

    def __call__(
        self, sentences: Sequence[str], without: Sequence[str] | None = None
    ) -> list[tuple[Found, tuple[str, float]]]:
        """The phrases and hints, and the related sentence with its cosine, of each sentence.

        ``without``: for each a sentence of the target language that must not be found, such as its reference.
        """
        found = self.hinter(sentences, self.cost, without) if self.hinter else [NONE] * len(sentences)
        related = self.related(sentences, without) if self.related else [("", 0.0)] * len(sentences)
        return list(zip(found, related, strict=True))

    def examples(self, pairs: Sequence[tuple[str, str]]) -> list[Example]:
        """Sentences with their translations, and what is retrieved for them."""
        looked_up = self([source for source, _ in pairs], [translation for _, translation in pairs])
        known = self.hinter.known(pairs) if self.hinter else [()] * len(pairs)
        return [
            Example(*pair, found.hints, related[0], phrases)
            for pair, (found, related), phrases in zip(pairs, looked_up, known, strict=True)
        ]


class Translator:
    """Asks a model for the translation of each line."""

    def __init__(self, prompter: Prompter, retrieval: Retrieval) -> None:
        self.prompter, self.retrieval = prompter, retrieval

    def asked(self, lines: Iterable[str]) -> Iterator[Asked]:
        """The prompt of each line, and why it is what it is; sends nothing."""
        numbered = enumerate(lines, 1)
        while batch := [(number, " ".join(line.split())) for number, line in islice(numbered, BATCH)]:
            looked_up = iter(self.retrieval([text for _, text in batch if text]))
            for number, text in batch:
                if not text:
                    yield Asked(number, text, None)
                    continue
                found, related = next(looked_up)
                prompt = self.prompter.prompt(text, found.hints, related[0], found.apart or apart(found.phrases))
                form = self.prompter.form
                used = found if form.shows_hints else found._replace(hints=())
                yield Asked(number, text, prompt, used, related)

    def translate(self, lines: Iterable[str], model: Answers) -> Iterator[Translation]:
        """A translation for each line, in order. Raises what ``model`` raises."""
        waiting: deque[Asked] = deque()

        def prompts() -> Iterator[Prompt]:
            for each in self.asked(lines):
                waiting.append(each)
                if each.prompt is not None:
                    yield each.prompt

        for answer in model.answers(prompts()):
            while (each := waiting.popleft()).prompt is None:
                yield Translation(each, "")
            yield _translation(each, self.prompter.marker, answer)
        yield from (Translation(each, "") for each in waiting)


def apart(phrases: Sequence[str], most: int = 8) -> list[str]:
    """Up to ``most`` phrases, the longest first, none of which is part of another; in the order given."""
    kept: list[str] = []
    for phrase in sorted(dict.fromkeys(phrases), key=len, reverse=True):
        if len(kept) < most and not any(phrase in other for other in kept):
            kept.append(phrase)
    return [phrase for phrase in dict.fromkeys(phrases) if phrase in kept]


def _translation(asked: Asked, marker: str, answer: Answer) -> Translation:
    if answer.failure:
        return Translation(asked, "", answer.failure, answer)
    text, failure = translation_of(answer.text, marker)
    return Translation(asked, text, failure, answer)

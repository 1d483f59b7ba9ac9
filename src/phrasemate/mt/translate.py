"""Translation of lines, and lessons: prompts with references that fine-tune a model on a form (CCPR, appendix C.3).

If the parallel text was also indexed, a sentence would find its own translation. Hints and related sentences of an
example or a lesson are therefore searched as if the index lacked it (`phrasemate.text.sentences.is_of`).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from heapq import heappush, heappushpop
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from phrasemate.errors import InputError
from phrasemate.mt.client import Answer
from phrasemate.mt.hints import Hint, Hinter, SentenceHints
from phrasemate.mt.prompt import Example, Prompt, Prompter, translation_of
from phrasemate.types import Progress, check_list
from phrasemate.utils.storage import NewFile

BATCH = 64  # lines that are searched together

NONE = SentenceHints((), ())
NOTHING = Answer("")


class Answers(Protocol):
    """Source of answers to prompts, such as `phrasemate.mt.client.Client`."""

    def answers(self, prompts: Iterable[Prompt]) -> Iterator[Answer]: ...


@dataclass(frozen=True, slots=True)
class PromptedLine:
    """Line with its number (from 1), what was retrieved for it, and its prompt; the prompt of a blank line is None.

    ``related`` is a related sentence with its cosine, or ("", 0).
    """

    number: int
    source: str
    prompt: Prompt | None
    retrieved: SentenceHints = NONE
    related: tuple[str, float] = ("", 0.0)

    def as_dict(self) -> dict[str, Any]:
        """Return a mapping for JSON; the hints have the documents and lines that they come from."""
        facts: dict[str, Any] = {"number": self.number, "source": self.source, "phrases": list(self.retrieved.phrases)}
        facts["hints"] = [hint.as_dict() for hint in self.retrieved.hints]
        if self.related[0]:
            facts["related"] = {"text": self.related[0], "score": round(self.related[1], 4)}
        return facts | {"prompt": self.prompt.text if self.prompt else ""}


@dataclass(frozen=True, slots=True)
class Translation:
    """Translation of a line; it is "", with the reason in ``failure``, if there is none.

    >>> Translation(PromptedLine(1, "Guten Morgen.", None), "Good morning.").text
    'Good morning.'
    """

    request: PromptedLine
    text: str
    failure: str = ""
    answer: Answer = NOTHING

    def as_dict(self) -> dict[str, Any]:
        """Return a mapping for JSON."""
        facts = self.request.as_dict() | {"translation": self.text, "answer": self.answer.text}
        facts |= {"cached": self.answer.cached, "cut": self.answer.cut}
        if self.answer.steps:
            facts["steps"] = [{"prompt": prompt, "answer": answer} for prompt, answer in self.answer.steps]
        return facts | ({"failure": self.failure} if self.failure else {})


class Retrieval:
    """Retriever for sentences: of hints, of related sentences, of both or of nothing.

    >>> hints, related = Retrieval()(["Guten Morgen."])[0]
    >>> hints.hints, related
    ((), ('', 0.0))
    """

    def __init__(
        self,
        hinter: Hinter | None = None,
        related: Callable[[Sequence[str], Sequence[str] | None], list[tuple[str, float]]] | None = None,
        cost: Callable[[Hint], int] = lambda hint: 0,
    ) -> None:
        self.hinter, self.related, self.cost = hinter, related, cost

    def __call__(
        self, sentences: Sequence[str], without: Sequence[str] | None = None
    ) -> list[tuple[SentenceHints, tuple[str, float]]]:
        """Return for each sentence its phrases and hints, and its related sentence with the cosine.

        ``without``: for each sentence a sentence of the target language that must not be found, such as its reference.
        """
        hints = self.hinter(sentences, self.cost, without) if self.hinter else [NONE] * len(sentences)
        related_sentences = self.related(sentences, without) if self.related else [("", 0.0)] * len(sentences)
        return list(zip(hints, related_sentences, strict=True))

    def examples(self, pairs: Sequence[tuple[str, str]]) -> list[Example]:
        """Return the sentence pairs as examples, with what is retrieved for them."""
        looked_up = self([source for source, _ in pairs], [translation for _, translation in pairs])
        translations = self.hinter.translated_phrases(pairs) if self.hinter else [()] * len(pairs)
        return [
            Example(*pair, hints.hints, related_sentence[0], phrases)
            for pair, (hints, related_sentence), phrases in zip(pairs, looked_up, translations, strict=True)
        ]


class Translator:
    """Translator of lines by a language model.

    >>> from phrasemate.mt import FORMS
    >>> translator = Translator(Prompter(FORMS["plain"], "de", "en"), Retrieval())
    >>> [request.source for request in translator.requests(["Guten Morgen.", "Gute Nacht."])]
    ['Guten Morgen.', 'Gute Nacht.']
    """

    def __init__(self, prompter: Prompter, retrieval: Retrieval) -> None:
        self.prompter, self.retrieval = prompter, retrieval

    def requests(self, lines: Iterable[str]) -> Iterator[PromptedLine]:
        """Yield the prompt of each line with what was retrieved for it; nothing is sent."""
        check_list(lines, "lines")
        numbered_lines = enumerate(lines, 1)
        while batch := [(number, " ".join(line.split())) for number, line in islice(numbered_lines, BATCH)]:
            looked_up = iter(self.retrieval([text for _, text in batch if text]))
            for number, text in batch:
                if not text:
                    yield PromptedLine(number, text, None)
                    continue
                hints, related_sentence = next(looked_up)
                prompt = self.prompter.prompt(
                    text, hints.hints, related_sentence[0], hints.apart or apart(hints.phrases)
                )
                form = self.prompter.form
                shown_hints = hints if form.shows_hints else hints._replace(hints=())
                yield PromptedLine(number, text, prompt, shown_hints, related_sentence)

    def translate(self, lines: Iterable[str], model: Answers) -> Iterator[Translation]:
        """Yield a translation for each line, in order. Raises the errors of ``model``."""
        waiting: deque[PromptedLine] = deque()

        def prompts() -> Iterator[Prompt]:
            for item in self.requests(lines):
                waiting.append(item)
                if item.prompt is not None:
                    yield item.prompt

        for answer in model.answers(prompts()):
            while (request := waiting.popleft()).prompt is None:
                yield Translation(request, "")
            yield _translation(request, self.prompter.marker, answer)
        yield from (Translation(item, "") for item in waiting)


def apart(phrases: Sequence[str], most: int = 8) -> list[str]:
    """Select the longest phrases, at most ``most``, none of which is part of another; their order is kept."""
    parts: list[str] = []
    for phrase in sorted(dict.fromkeys(phrases), key=len, reverse=True):
        if len(parts) < most and not any(phrase in part for part in parts):
            parts.append(phrase)
    return [phrase for phrase in dict.fromkeys(phrases) if phrase in parts]


def _translation(request: PromptedLine, marker: str, answer: Answer) -> Translation:
    if answer.failure:
        return Translation(request, "", answer.failure, answer)
    text, failure = translation_of(answer.text, marker)
    return Translation(request, text, failure, answer)


COUNT = 1_800  # number of lessons in the paper, appendix C.3
LENGTHS = 20, 400  # least and most characters of a side, which exclude headings and paragraphs
RATIO = 3.0  # largest ratio of the lengths; pairs above it are rarely translations


class Lesson(NamedTuple):
    """Prompt and the answer that a model should give."""

    prompt: Prompt
    reference: str

    def chat(self) -> dict[str, object]:
        """Return the lesson as messages; the last one is the reference."""
        return {"messages": [*self.prompt.messages, {"role": "assistant", "content": self.reference}]}

    def plain(self) -> dict[str, object]:
        """Return the lesson as a prompt and its continuation."""
        return {"prompt": self.prompt.text, "completion": f" {self.reference}"}


def sampled(pairs: Iterable[tuple[str, str]], count: int = COUNT, seed: int = 0) -> list[tuple[str, str]]:
    """Draw ``count`` different sentence pairs of sensible lengths from a stream; the same seed draws the same pairs.

    The pairs with the smallest digests are drawn. Each pair has the same chance, even if it is repeated, and memory
    holds only the drawn pairs. Raises InputError if no pair has sensible lengths.
    """
    heap: list[tuple[int, tuple[str, str]]] = []  # of negated digests, the largest digest first
    digests: set[int] = set()
    for source, target in pairs:
        pair = " ".join(source.split()), " ".join(target.split())
        if not _is_sensible(*pair) or (number := _digest(pair, seed)) in digests:
            continue
        if len(heap) < count:
            heappush(heap, (-number, pair))
            digests.add(number)
        elif heap and number < -heap[0][0]:
            digests.add(number)
            digests.discard(-heappushpop(heap, (-number, pair))[0])
    if not heap:
        raise InputError(f"no sentence pairs of {LENGTHS[0]} to {LENGTHS[1]} characters; expected source, tab, target")
    return [pair for _, pair in sorted(heap, reverse=True)]


def _digest(pair: tuple[str, str], seed: int) -> int:
    """Return the digest of a pair, a number as good as a random one."""
    text = "\t".join([str(seed), *pair])
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest(), "big")


def _is_sensible(source: str, target: str) -> bool:
    short, long = sorted((len(source), len(target)))
    return LENGTHS[0] <= short and long <= LENGTHS[1] and long <= RATIO * short and source != target


def lessons(
    pairs: Sequence[tuple[str, str]],
    prompter: Prompter,
    retrieval: Retrieval,
    progress: Progress = lambda label, step, total: None,
) -> Iterator[Lesson]:
    """Yield the prompt of each source sentence, as a model would be asked, with its translation as reference.

    Raises InputError for a form that takes two requests.
    """
    if prompter.form.first:
        raise InputError("the second prompt of this form depends on the answer to the first; use another --form")
    for low in range(0, len(pairs), BATCH):
        pair_batch = pairs[low : low + BATCH]
        looked_up = retrieval([source for source, _ in pair_batch], [target for _, target in pair_batch])
        for (source, target), (hints, related_sentence) in zip(pair_batch, looked_up, strict=True):
            yield Lesson(prompter.prompt(source, hints.hints, related_sentence[0]), target)
        progress("examples", min(low + BATCH, len(pairs)), len(pairs))


def write_lessons(lessons: Iterable[Lesson], chat: Path, plain: Path) -> int:
    """Write both files, one JSON object on each line, and return the number of lessons.

    If the run is stopped, neither file is changed.
    """
    number = 0
    with NewFile(chat) as first, NewFile(plain) as second:
        for number, lesson in enumerate(lessons, 1):  # noqa: B007 (counted here)
            first.write(json.dumps(lesson.chat(), ensure_ascii=False) + "\n")
            second.write(json.dumps(lesson.plain(), ensure_ascii=False) + "\n")
    return number

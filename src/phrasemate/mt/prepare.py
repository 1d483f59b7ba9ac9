"""Examples for teaching a model the form of a prompt (CCPR, appendix C.3): prompts with their references.

If the parallel text was indexed too, a sentence would find its own translation: hints and related sentences are those
of an index without it (`phrasemate.search.is_of`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from heapq import heappush, heappushpop
from pathlib import Path
from typing import NamedTuple

from phrasemate.errors import InputError
from phrasemate.mt.prompt import Prompt, Prompter
from phrasemate.mt.translate import BATCH, Retrieval
from phrasemate.utils.storage import NewFile

COUNT = 1_800  # paper, appendix C.3
LENGTHS = 20, 400  # characters of either side: neither headings nor paragraphs
RATIO = 3.0  # of the lengths: pairs beyond it are rarely translations

Progress = Callable[[str, int, int], None]


class Lesson(NamedTuple):
    """A prompt and what a model should answer."""

    prompt: Prompt
    reference: str

    def chat(self) -> dict[str, object]:
        """As messages, the reference the last of them."""
        return {"messages": [*self.prompt.messages, {"role": "assistant", "content": self.reference}]}

    def plain(self) -> dict[str, object]:
        """As a text and how it goes on."""
        return {"prompt": self.prompt.text, "completion": f" {self.reference}"}


def sampled(pairs: Iterable[tuple[str, str]], count: int = COUNT, seed: int = 0) -> list[tuple[str, str]]:
    """``count`` different pairs of a stream, of sensible lengths; the same each time. Raises InputError for none.

    Those whose digests are the least: each pair has the same chance, however often it comes, and memory holds no more
    than are drawn.
    """
    kept: list[tuple[int, tuple[str, str]]] = []  # a heap, the greatest digest first
    there: set[int] = set()
    for source, target in pairs:
        pair = " ".join(source.split()), " ".join(target.split())
        if not _sensible(*pair) or (number := _drawn(pair, seed)) in there:
            continue
        if len(kept) < count:
            heappush(kept, (-number, pair))
            there.add(number)
        elif kept and number < -kept[0][0]:
            there.add(number)
            there.discard(-heappushpop(kept, (-number, pair))[0])
    if not kept:
        raise InputError(f"no sentence pairs of {LENGTHS[0]} to {LENGTHS[1]} characters; expected source, tab, target")
    return [pair for _, pair in sorted(kept, reverse=True)]


def _drawn(pair: tuple[str, str], seed: int) -> int:
    """A number that chance might have drawn for a pair."""
    text = "\t".join([str(seed), *pair])
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest(), "big")


def _sensible(source: str, target: str) -> bool:
    short, long = sorted((len(source), len(target)))
    return LENGTHS[0] <= short and long <= LENGTHS[1] and long <= RATIO * short and source != target


def lessons(
    pairs: Sequence[tuple[str, str]],
    prompter: Prompter,
    retrieval: Retrieval,
    progress: Progress = lambda what, done, total: None,
) -> Iterator[Lesson]:
    """The prompt of each pair's source, as a model would be asked, with its translation."""
    if prompter.form.first:
        raise InputError("this form asks twice and decides the second prompt by the answer; use another --form")
    for low in range(0, len(pairs), BATCH):
        some = pairs[low : low + BATCH]
        looked_up = retrieval([source for source, _ in some], [target for _, target in some])
        for (source, target), (found, related) in zip(some, looked_up, strict=True):
            yield Lesson(prompter.prompt(source, found.hints, related[0]), target)
        progress("examples", min(low + BATCH, len(pairs)), len(pairs))


def write_lessons(made: Iterable[Lesson], chat: Path, plain: Path) -> int:
    """Both files, a JSON object on each line; how many there are. Nothing is left of a run that was stopped."""
    number = 0
    with NewFile(chat) as first, NewFile(plain) as second:
        for number, lesson in enumerate(made, 1):  # noqa: B007 (counted here)
            first.write(json.dumps(lesson.chat(), ensure_ascii=False) + "\n")
            second.write(json.dumps(lesson.plain(), ensure_ascii=False) + "\n")
    return number

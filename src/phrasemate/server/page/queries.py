"""What a page needs from the indexes, gathered by the workers."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from zlib import crc32

from phrasemate.concordance import Column, Reading, arranged, column, in_sentence, merged, read
from phrasemate.errors import PhrasemateError
from phrasemate.index import Index
from phrasemate.query import marked
from phrasemate.search import Searcher
from phrasemate.server.cancellation import work
from phrasemate.server.errors import Refusal, refusal_of
from phrasemate.server.indexes import Library
from phrasemate.server.page.url_state import State
from phrasemate.types import Hit, Phrase, Sentence, Span

log = logging.getLogger("phrasemate.server")

LISTED = 500  # documents that are offered for a filter; another name can still be typed


@dataclass(frozen=True, slots=True)
class Facts:
    """What is in an index; ``documents`` at most `LISTED` names, ``problem`` what keeps it from being used."""

    name: str
    sentences: int = 0
    documents: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    model: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """A column of the answer, or why there is none."""

    name: str
    column: Column | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """All about one phrase: ``others`` are longer, shorter and crossing phrases; ``remark`` what was done otherwise."""

    phrase: Phrase
    panels: tuple[Panel, ...]
    others: tuple[Span, ...] = ()
    remark: str = ""

    @property
    def longest(self) -> int:
        """The number of candidates in the longest column."""
        return max((len(panel.column.candidates) for panel in self.panels if panel.column), default=0)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A hit's whole sentence between its neighbours."""

    index: str
    hit: Hit
    before: list[Sentence] = field(default_factory=list)
    after: list[Sentence] = field(default_factory=list)


class Readings:
    """The texts that were read lately, so that a click on a phrase does not segment its text again."""

    def __init__(self, most: int = 64) -> None:
        self._most, self._kept, self._lock = most, OrderedDict[tuple[str, str], Reading](), Lock()

    def of(self, text: str, searcher: Searcher) -> Reading:
        """The text, read by the model of the searcher's index."""
        key = (searcher.index.manifest.model_hash, text)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = read(text, searcher.model)
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return made


async def reading_of(library: Library, state: State, known: Sequence[Facts], readings: Readings) -> Reading:
    """The text in the model of the first index that is asked and can be used."""
    if not state.text.strip():
        return Reading(state.text, (), ())
    usable = [fact.name for fact in known if fact.name in state.indexes and not fact.problem]
    name = (usable or state.indexes)[0]
    made: Reading = await work(library, library.ask, name, lambda searcher: readings.of(state.text, searcher))
    if not state.marked:
        return made
    shown = [span for span in made.shown if not any(span.start < b and a < span.end for a, b in state.marked)]
    return replace(made, shown=tuple(sorted([*shown, *(Span(*pair) for pair in state.marked)])))


class Catalogue:
    """What the indexes hold, looked at again when they have changed."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._kept: dict[str, tuple[Index, int, Facts]] = {}

    async def facts(self) -> list[Facts]:
        """Of every index, in their order."""
        return list(await asyncio.gather(*map(self._asked, self._library.names)))

    async def _asked(self, name: str) -> Facts:
        try:
            found: Facts = await work(self._library, self._library.ask, name, lambda searcher: self._of(name, searcher))
        except Exception as error:
            return Facts(name, problem=_reason(name, error))
        return found

    def _of(self, name: str, searcher: Searcher) -> Facts:
        index = searcher.index
        with index.store.reading() as state:
            kept = self._kept.get(name)
            if kept is not None and kept[0] is index and kept[1] == state.generation:
                return kept[2]
            documents = index.documents()
        made = Facts(
            name,
            sum(document.sentences for document in documents),
            tuple(document.name for document in documents[:LISTED]),
            tuple(sorted({document.language for document in documents})),
            index.manifest.model_hash,
        )
        self._kept[name] = (index, state.generation, made)
        return made


async def answer(library: Library, state: State, known: Sequence[Facts], reading: Reading) -> Answer:
    """The phrase of the state, in each of its indexes. Raises InputError for a phrase that is none."""
    assert state.at is not None
    phrase = in_sentence(state.text, *state.at)
    asked = [fact for fact in known if fact.name in state.indexes]
    panels = list(await asyncio.gather(*(_panel(library, state, fact, phrase) for fact in asked)))
    remark = ""
    if state.together and len(asked) > 1:
        if len({fact.model for fact in asked if not fact.problem}) > 1:
            remark = "These indexes were built with different models, whose scores do not compare: here side by side."
        else:
            panels = _together(panels)
    panels = await work(library, _arranged, panels, state.order)
    return Answer(phrase, tuple(panels), tuple(reading.others(*state.at)), remark)


def _arranged(panels: Sequence[Panel], order: str) -> list[Panel]:
    return [replace(each, column=each.column and arranged(each.column, order)) for each in panels]


def _together(panels: Sequence[Panel]) -> list[Panel]:
    columns = [panel.column for panel in panels if panel.column is not None]
    if not columns:
        return list(panels)
    return [Panel(" + ".join(column.name for column in columns), merged(columns))] + [
        panel for panel in panels if panel.column is None
    ]


async def _panel(library: Library, state: State, fact: Facts, phrase: Phrase) -> Panel:
    if problem := fact.problem or _nothing(state, fact):
        return Panel(fact.name, problem=problem)

    def ask(searcher: Searcher) -> Column:
        documents = list(state.documents) or None
        languages = [language for language in state.languages if language in fact.languages] or None
        result = searcher.search(
            marked(phrase.context, phrase.start, phrase.end), state.groups, state.lines, documents, languages
        )
        return column(fact.name, result)

    try:
        found: Column = await work(library, library.ask, fact.name, ask)
    except Exception as error:  # the other indexes still answer
        return Panel(fact.name, problem=_reason(fact.name, error))
    return Panel(fact.name, found)


def _reason(name: str, error: Exception) -> str:
    """What is said of an index that does not answer; what nobody foresaw is logged."""
    if not isinstance(error, PhrasemateError):
        log.error("index %s", name, exc_info=error)
    return refusal_of(error).message


def _nothing(state: State, fact: Facts) -> str:
    """Why nothing can be found in an index, without asking it."""
    if not fact.sentences:
        return "This index holds no text yet. Fill it with: phrasemate index TEXT -o DIR --lang LANGUAGE"
    if state.languages and not set(state.languages) & set(fact.languages):
        return f"No document here is in {' or '.join(state.languages)}; there is {', '.join(fact.languages)}."
    return ""


def same(hit: Hit) -> str:
    """What tells a hit from another that has its id later: in an index made anew, or where documents were deleted."""
    return f"{crc32(f'{hit.start}-{hit.end} {hit.context}'.encode('utf-8', 'surrogatepass')):08x}"


async def excerpt(library: Library, index: str, phrase: int, expected: str = "", count: int = 2) -> Excerpt:
    """The sentence of a phrase id with ``count`` neighbours on each side, if it is `same` as ``expected``.

    Raises InputError if it is gone, Refusal if another has its id.
    """

    def of(searcher: Searcher) -> Excerpt:
        with searcher.index.snapshot():
            before, after = searcher.index.around(phrase, count)
            (hit,) = searcher.index.hits([phrase], [1.0])
        if expected not in ("", same(hit)):
            raise Refusal("not_found", f"{index} has changed since it was asked: ask again")
        return Excerpt(index, hit, before, after)

    found: Excerpt = await work(library, library.ask, index, of)
    return found

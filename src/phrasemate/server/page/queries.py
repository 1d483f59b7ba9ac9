"""Answers of the web page: the state in its address, the searches in worker threads, and the HTML.

The templates escape all values.
"""

from __future__ import annotations

import asyncio
import logging
import re
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from hashlib import sha256
from importlib.resources import files
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlencode
from zlib import crc32

from cachetools import LRUCache, cachedmethod
from starlette.datastructures import QueryParams
from starlette.responses import HTMLResponse, Response

from phrasemate.concordance import ORDERS, Column, Reading, arranged, clip, column, in_sentence, merged, of_verb, read
from phrasemate.errors import PhrasemateError, QueryError, needs_extra
from phrasemate.index import BaseIndex
from phrasemate.lexicon import Equivalent, Lexicon, bundled_lexicon
from phrasemate.lexicon.separable_verbs import SeparableVerb
from phrasemate.lookup import Lookup, lookup
from phrasemate.query import parse_query
from phrasemate.results import DOUBT, Result, SearchRequest
from phrasemate.search import Searcher
from phrasemate.server.cancellation import go_on, work
from phrasemate.server.errors import Refusal, refusal_of
from phrasemate.server.indexes import Library
from phrasemate.server.settings import Settings
from phrasemate.server.tokens import allowed
from phrasemate.text import words
from phrasemate.types import Hit, Phrase, Sentence, Span
from phrasemate.utils.hyphens import without_line_hyphens

_HOME = files("phrasemate.server.page")
_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
STATIC = {
    name: ((_HOME / "static" / name).read_bytes(), _TYPES[name.rpartition(".")[2]])
    for name in ("glossary.js", "icon.svg", "page.css", "page.js", "terms.js", "tools.js")
}
_DOWNLOADS = {
    "groovy": "application/octet-stream",
    "tbx": "application/x-tbx+xml",
    "tmx": "application/x-tmx+xml",
    "tsv": "text/tab-separated-values; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "xml": "application/xml",
    "zip": "application/octet-stream",
}  # any other suffix: text/SUFFIX
_VERSIONS = {name: sha256(body).hexdigest()[:12] for name, (body, _) in STATIC.items()}
_UNSHOWABLE = re.compile("[\0-\x08\x0b\x0e-\x1f\x7f\ud800-\udfff]")
_SEPARATOR = re.compile(r"[/\\]")
_WITHIN = re.compile(r"(?<=\w)(?=\w)")  # a place between two letters
CONTEXT = 140  # characters of context on each side of a match: more than the widest window shows
EVIDENCE = 60  # the same for a sentence in a list of terms


def html(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Render a template as a page; characters that cannot be shown or encoded become U+FFFD."""
    text = environment().get_template(template).render(values)
    return HTMLResponse(_UNSHOWABLE.sub("\ufffd", text), status)


def refusal_page(template: str, refusal: Refusal, **values: Any) -> HTMLResponse:
    """Render a template as the page of a refused request."""
    page = html(template, refusal.status, refusal=refusal, **values)
    page.headers.update(refusal.headers)
    return page


def file_content(name: str, save: Callable[[Path], object]) -> bytes:
    """Call ``save`` with the path of a temporary file of this name, and return the bytes that it writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        save(path)
        return path.read_bytes()


def attachment(name: str, body: bytes) -> Response:
    """Make a response that the browser saves as a file; the suffix of the name gives its media type."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    suffix = name.rpartition(".")[2]
    return Response(body, headers=headers, media_type=_DOWNLOADS.get(suffix, f"text/{suffix}; charset=utf-8"))


def direction(texts: Iterable[str] | str) -> str:
    """Return the direction of a text: "rtl" if most letters are of a right-to-left script, else "ltr"."""
    balance = 0
    for character in "".join([texts] if isinstance(texts, str) else texts)[:2_000]:
        kind = unicodedata.bidirectional(character)
        balance += (kind in ("R", "AL")) - (kind == "L")
    return "rtl" if balance > 0 else "ltr"


def pieces(text: str, wordings: Sequence[str]) -> list[tuple[str, bool]]:
    """Split a text at the wordings, ignoring case. Returns (piece, whether it is a wording) in order.

    A wording begins and ends where a word does: in Chinese or Japanese, also between letters.
    """
    edges = {edge for span in words(text) for edge in span} if wordings else set()
    places: list[tuple[int, int]] = []
    for wording in sorted(wordings, key=len, reverse=True):
        for match in re.finditer(re.escape(wording), text, re.IGNORECASE):
            start, end = match.span()
            is_whole = all(edge in edges or not _WITHIN.match(text, edge) for edge in (start, end))
            if is_whole and not any(start < last and first < end for first, last in places):
                places.append((start, end))
    parts, at = [], 0
    for start, end in sorted(places):
        parts += [(text[at:start], False), (text[start:end], True)]
        at = end
    return [piece for piece in [*parts, (text[at:], False)] if piece[0]]


def link_query(values: Mapping[str, object]) -> str:
    """Encode the query of a link by `urllib.parse.urlencode`; characters that cannot be encoded become U+FFFD."""
    return urlencode({name: _UNSHOWABLE.sub("\ufffd", str(value)) for name, value in values.items()})


@lru_cache(maxsize=1)
def environment() -> Any:
    """Load the templates and their filters, once. Raises MissingExtra without Jinja2."""
    with needs_extra("serve", "jinja2"):
        from jinja2 import Environment, PackageLoader, StrictUndefined
    templates = Environment(
        loader=PackageLoader("phrasemate.server.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,  # looking for changes would read each file's time for each page
    )
    templates.globals |= {"DOUBT": DOUBT, "may_write": partial(allowed, "write")}
    templates.filters |= {
        "base": lambda name: _SEPARATOR.split(name)[-1] or name,
        "dir": direction,
        "is_space": str.isspace,
        "left": lambda line: clip(line.left, CONTEXT, "end"),
        "pieces": pieces,
        "place": lambda piece: place_of(*piece.verb[:2]) if piece.verb else place_of((piece.start, piece.end)),
        "kept": lambda fields: {name: value for name, value in fields.items() if value},
        "checksum": checksum_of,
        "right": lambda line: clip(line.right, CONTEXT, "start"),
        "grouped": lambda number: f"{number:,}",
        "urlencode": link_query,
        "tail": lambda text: clip(text, EVIDENCE, "end"),
        "head": lambda text: clip(text, EVIDENCE, "start"),
        "times": lambda number, noun: f"{number:,} {noun}{'' if number == 1 else 's'}",
        "close": lambda score: f"{max(score, 0):.2f}",
        "percent": lambda share: f"{100 * min(max(share, 0), 1):.0f} %",
        "upper_first": capitalise,
        "wide": lambda score: f"{100 * min(max(score, 0), 1):.0f}%",
    }
    templates.globals["static"] = lambda name: f"/static/{name}?v={_VERSIONS[name]}"
    return templates


def capitalise(message: str) -> str:
    """Capitalise a message and drop its full stop. A leading name, as in ``idx: ...``, stays as it is."""
    named = re.match(r"\S*[:=]", message)
    return (message if named else message[:1].upper() + message[1:]).removesuffix(".")


GROUPS, LINES = 8, 5  # numbers of candidates, and of lines for each, that are shown at first


@dataclass(frozen=True, slots=True)
class State:
    """State of the page, as its address encodes it. Spans are (start, end) in characters of ``text``.

    ``text`` has LF line ends and no marks. ``at`` is the chosen phrase, ``particle`` the other part of a separable
    verb, ``marked`` the spans that were in marks. ``indexes`` has at least one name; ``together`` shows several indexes
    as one. ``speaks`` is the language of the text that the user set.
    """

    text: str
    indexes: tuple[str, ...]
    at: tuple[int, int] | None = None
    marked: tuple[tuple[int, int], ...] = field(default=(), compare=False)
    together: bool = False
    order: str = "score"
    documents: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    speaks: str = ""
    groups: int = GROUPS
    lines: int = LINES
    particle: tuple[int, int] | None = None

    @property
    def place(self) -> str:
        """The chosen phrase in the form of the parameter ``at``; "" if there is none."""
        return "" if self.at is None else place_of(self.at, self.particle)

    def fields(self, *without: str) -> Iterator[tuple[str, str]]:
        """Yield the names and values of the query parameters, except defaults and those in ``without``."""
        fields: dict[str, Sequence[str]] = {
            "q": [self.text] * bool(self.text),
            "at": [self.place] * bool(self.place),
            "in": self.indexes,
            "view": ["one"] * self.together,
            "sort": [self.order] * (self.order != "score"),
            "doc": self.documents,
            "lang": self.languages,
            "from": [self.speaks] * bool(self.speaks),
            "k": [str(self.groups)] * (self.groups != GROUPS),
            "lines": [str(self.lines)] * (self.lines != LINES),
        }
        return ((name, value) for name, values in fields.items() if name not in without for value in values)

    def query(self, **changes: Any) -> str:
        """Encode the query of an address, with some fields of the state changed."""
        return urlencode(list(replace(self, **changes).fields()))


def parse(parameters: QueryParams, names: Sequence[str], settings: Settings) -> State:
    """Parse the query parameters of the page. Raises Refusal for a text over the limit and for invalid values."""
    text = "\n".join(parameters.get("q", "").replace("\r\n", "\n").split("\r"))
    if len(text) > settings.characters:
        raise Refusal("too_long", f"the text has {len(text):,} characters; {settings.characters:,} is the limit")
    at, particle = _places_of(parameters.get("at", ""))
    text, marks = (text, ()) if at else _unmarked(text)  # "at" counts characters of a text without marks
    at = at or (marks[0] if marks else None)
    if at is not None and max(at[1], particle[1] if particle else 0) > len(text):
        raise Refusal("invalid", f"at={place_of(at, particle)} is outside the text, which has {len(text):,} characters")
    index_names = tuple(dict.fromkeys(parameters.getlist("in")))
    for name in index_names:
        if name not in names:
            raise Refusal("unknown_index", f"there is no index {name[:100]!r}; there are: {', '.join(names)}")
    order = parameters.get("sort") or "score"
    if order not in ORDERS:
        raise Refusal("invalid", f"sort={order[:40]!r}; expected one of {', '.join(ORDERS)}")
    return State(
        text,
        tuple(name for name in names if name in index_names) or tuple(names[:1]),
        at,
        marks,
        parameters.get("view") == "one",
        order,
        _several(parameters, "doc", settings.filters),
        _several(parameters, "lang", settings.filters),
        parameters.get("from", "").strip()[:35],
        _number(parameters, "k", GROUPS, settings.k),
        _number(parameters, "lines", LINES, settings.contexts),
        particle,
    )


def place_of(at: tuple[int, int], particle: tuple[int, int] | None = None) -> str:
    """Format the parameter ``at``: "12-31", or "3-7.40-44" for the two parts of a separable verb."""
    return f"{at[0]}-{at[1]}" + (f".{particle[0]}-{particle[1]}" if particle else "")


def _unmarked(text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Remove ``[[ ]]`` from a text, and hyphens that split a word at the end of a line.

    Returns the text with the marked spans; unchanged, without spans, for invalid marks.
    """
    if "[[" not in text:
        return without_line_hyphens(text), ()
    try:
        query_parts = parse_query(text)
    except QueryError:
        return text, ()
    return query_parts.text, tuple((phrase.start, phrase.end) for phrase in query_parts.phrases)


def _places_of(value: str) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    first, dot, second = value.partition(".")
    return _pair(first) if value else None, _pair(second) if dot else None


def _pair(value: str) -> tuple[int, int]:
    start, dash, end = value.partition("-")
    if not (dash and start.isascii() and start.isdigit() and end.isascii() and end.isdigit() and len(value) < 20):
        raise Refusal("invalid", f"at={value[:40]!r}; expected the first and the last character, as 12-31")
    if int(start) >= int(end):
        raise Refusal("invalid", f"at={value!r} marks nothing")
    return int(start), int(end)


def _several(parameters: QueryParams, name: str, most: int) -> tuple[str, ...]:
    values = tuple(dict.fromkeys(value for value in parameters.getlist(name) if value))
    if len(values) > most:
        raise Refusal("too_long", f"{len(values)} values of {name}; {most} is the limit")
    return values


def _number(parameters: QueryParams, name: str, default: int, most: int) -> int:
    value = parameters.get(name, "")
    if not value:
        return default
    if not (value.isascii() and value.isdigit() and len(value) < 9 and 1 <= int(value) <= most):
        raise Refusal("invalid", f"{name}={value[:20]!r}; expected a number from 1 to {most}")
    return int(value)


log = logging.getLogger("phrasemate.server")

EQUIVALENTS = 12  # maximum number of equivalents from the user's dictionaries
PLACES, BRIEFLY = 3, 0.1  # lines, and seconds to search, for occurrences of the phrase itself in an index
LIKELY = 0.2  # minimum probability of a candidate to be highlighted in translations of aligned text
LISTED = 500  # maximum number of names offered for the document filter; others can be typed


@dataclass(frozen=True, slots=True)
class Facts:
    """Contents of an index, for the page. ``documents`` has at most `LISTED` names, folders first.

    ``aligned`` tells whether some of its text has translations. ``problem`` says why it cannot be used, else "".
    """

    name: str
    sentences: int = 0
    documents: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    model: str = ""
    problem: str = ""
    aligned: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """The answer from one index: a column of candidates, or the problem why there is none."""

    name: str
    column: Column | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """Everything that the page shows about one phrase.

    Attributes:
        phrase: The phrase of the query.
        panels: A column of candidates, or a problem, for each index.
        others: Longer, shorter and overlapping phrases to choose instead.
        remark: Note to the user about a request that was not followed exactly.
        listed: Equivalents from the user's dictionaries.
        itself: Index, occurrences and way of look-up, if the phrase itself occurs in the texts of an index.
        aligned: Index and occurrences, for each index with the phrase in the translations of its texts.
        language: Language of the text, from the state or identified; "" if it is unknown.
        verb: The separable verb, if the phrase is its infinitive.
        sentence: The sentence of the phrase in the text.
    """

    phrase: Phrase
    panels: tuple[Panel, ...]
    others: tuple[Span, ...] = ()
    remark: str = ""
    listed: tuple[Equivalent, ...] = ()
    itself: tuple[str, Lookup, str] | None = None
    aligned: tuple[tuple[str, Lookup], ...] = ()
    language: str = ""
    verb: SeparableVerb | None = None
    sentence: str = ""

    @property
    def same_language(self) -> bool:
        """Whether the phrase itself occurs in the texts, and has several words or a ``*``."""
        return self.itself is not None and (len(words(self.phrase.text)) > 1 or "*" in self.itself[1].query)

    @property
    def likely(self) -> list[str]:
        """Wordings of dictionaries and of candidates with a probability of at least `LIKELY`."""
        candidates = [candidate for panel in self.panels if panel.column for candidate in panel.column.candidates]
        likely = [candidate.text for candidate in candidates if (candidate.probability or 0) >= LIKELY]
        return [*(candidate.text for candidate in self.listed), *likely]

    @property
    def longest(self) -> int:
        """Number of candidates in the longest column."""
        return max((len(panel.column.candidates) for panel in self.panels if panel.column), default=0)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A hit with its whole sentence and the sentences before and after it."""

    index: str
    hit: Hit
    before: list[Sentence] = field(default_factory=list)
    after: list[Sentence] = field(default_factory=list)


class Readings:
    """Cache of recent texts with their phrases, so that a click on a phrase does not segment the text again."""

    def __init__(self, most: int = 64) -> None:
        self._cache: LRUCache[tuple[str, str], Reading] = LRUCache(most)
        self._lock = Lock()

    @cachedmethod(
        attrgetter("_cache"),
        key=lambda _, text, searcher: (searcher.index.manifest.model_hash, text),
        lock=attrgetter("_lock"),
    )
    def of(self, text: str, searcher: Searcher) -> Reading:
        """Read a text with the model of the searcher's index."""
        return read(text, searcher.model)


async def reading_of(library: Library, state: State, facts: Sequence[Facts], readings: Readings) -> Reading:
    """Read the text of the state with the model of its first usable index; marked spans become phrases."""
    if not state.text.strip():
        return Reading(state.text, (), ())
    usable = [fact.name for fact in facts if fact.name in state.indexes and not fact.problem]
    name = (usable or state.indexes)[0]
    reading: Reading = await work(library, library.ask, name, lambda searcher: readings.of(state.text, searcher))
    if not state.marked:
        return reading
    spans = [span for span in reading.shown if not any(span.start < b and a < span.end for a, b in state.marked)]
    underlines = tuple(sorted([*spans, *(Span(*pair) for pair in state.marked)]))
    ends = ((verb.verb[0], verb.particle[1], verb) for verb in reading.verbs)
    verbs = tuple(verb for start, end, verb in ends if not any(start < b and a < end for a, b in state.marked))
    return replace(reading, shown=underlines, verbs=verbs)


class Catalogue:
    """Cache of the `Facts` of all indexes, renewed for an index that has changed."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._kept: dict[str, tuple[BaseIndex, int, Facts]] = {}

    async def facts(self) -> list[Facts]:
        """Return the facts of every index, in the order of the library."""
        return list(await asyncio.gather(*map(self._fetch, self._library.names)))

    async def _fetch(self, name: str) -> Facts:
        try:
            facts: Facts = await work(self._library, self._library.ask, name, lambda searcher: self._of(name, searcher))
        except Exception as error:
            return Facts(name, problem=_reason(name, error))
        return facts

    def _of(self, name: str, searcher: Searcher) -> Facts:
        index = searcher.index
        entry, generation = self._kept.get(name), index.generation
        if entry is not None and entry[0] is index and entry[1] == generation:
            return entry[2]
        with index.store.reading() as state:
            documents = index.documents()
        facts = Facts(
            name,
            sum(document.sentences for document in documents),
            _offered([document.name for document in documents]),
            tuple(sorted({document.language for document in documents})),
            index.manifest.model_hash,
            aligned=next(index.store.translated_sentences(), None) is not None,
        )
        self._kept[name] = (index, state.generation, facts)
        return facts


def _offered(names: Sequence[str]) -> tuple[str, ...]:
    """Return the folders of the documents, then the documents, at most `LISTED` in all."""
    folders = sorted({name[: at + 1] for name in names for at, sign in enumerate(name[:-1]) if sign == "/" and at})
    return tuple([*folders, *names][:LISTED])


async def answer(library: Library, state: State, facts: Sequence[Facts], reading: Reading) -> Answer:
    """Look up the phrase of the state in each of its indexes. Raises InputError for an invalid phrase."""
    assert state.at is not None
    verb = _verb_of(state, reading)
    phrase = of_verb(state.text, verb) if verb else in_sentence(state.text, *state.at)
    chosen = [fact for fact in facts if fact.name in state.indexes]
    panels = list(await asyncio.gather(*(_panel(library, state, fact, phrase) for fact in chosen)))
    remark = ""
    if state.together and len(chosen) > 1:
        if len({fact.model for fact in chosen if not fact.problem}) > 1:
            remark = "These indexes have different models, whose scores cannot be compared: they stay side by side."
        else:
            panels = _together(panels)
    panels = await work(library, _arranged, panels, state.order)
    languages = {language for fact in chosen for language in fact.languages if language}
    names = [fact.name for fact in chosen if not fact.problem]
    listed = await work(library, _listed, library, names, phrase.text, languages, state.speaks)
    query = state.text.strip().rstrip("?.!")
    itself = await _itself(library, state, query) if phrase.text.strip() == query.strip("* ") else None
    aligned = [await _aligned(library, state, fact.name, phrase) for fact in chosen if fact.aligned]
    language = state.speaks or await work(library, _language_of, phrase.context)
    places = tuple(one for one in aligned if one is not None)
    others = tuple(reading.others(*state.at)) + (tuple(reading.others(*verb.particle)) if verb else ())
    sentence = in_sentence(state.text, *state.at).context
    return Answer(phrase, tuple(panels), others, remark, listed, itself, places, language, verb, sentence)


def _verb_of(state: State, reading: Reading) -> SeparableVerb | None:
    """Find the separable verb of the state, if it has a particle. Raises Refusal if the two places are not a verb."""
    if state.particle is None:
        return None
    verb = next((one for one in reading.verbs if (one.verb, one.particle) == (state.at, state.particle)), None)
    if verb is None:
        raise Refusal("invalid", f"at={state.place}: expected the two parts of one verb")
    return verb


def _language_of(text: str) -> str:
    lexicon = bundled_lexicon()
    return lexicon.language_of(text) if lexicon is not None else ""


async def _itself(library: Library, state: State, text: str) -> tuple[str, Lookup, str] | None:
    """Find the first chosen index that contains a text: exactly ("words") or, failing that, inflected ("forms").

    Returns its name, the occurrences, and which of the two ways found them.
    """
    for way in ("words", "forms"):
        for name in state.indexes:
            if (places := await _places(library, name, text, way)) is not None:
                return name, places, way
    return None


async def _aligned(library: Library, state: State, name: str, phrase: Phrase) -> tuple[str, Lookup] | None:
    """Find a phrase, also inflected, in the translations of an index. Returns its name and the occurrences."""
    places = await _places(library, name, phrase.text, "forms", "translation", list(state.documents) or None)
    return None if places is None else (name, places)


async def _places(
    library: Library, name: str, text: str, way: str, side: str = "text", documents: list[str] | None = None
) -> Lookup | None:
    """Look up a text in an index for at most `BRIEFLY` seconds; None if it does not occur or the look-up fails."""
    if len(text) > library.settings.sentence_characters:
        return None

    def ask(searcher: Searcher) -> Lookup:
        options: dict[str, Any] = {"documents": documents, "name": name, "progress": go_on, "seconds": BRIEFLY}
        return lookup(searcher.index, text, way, limit=PLACES, side=side, **options)

    try:
        places: Lookup = await work(library, library.ask, name, ask)
    except PhrasemateError:
        return None  # the panel of that index shows the problem
    return places if places.count else None


def _dictionaries(library: Library, names: Sequence[str]) -> list[Lexicon]:
    """Collect the dictionaries of the server and those stored in indexes; of equal names, the first."""
    dictionaries: dict[str, Lexicon] = {dictionary.name: dictionary for dictionary in library.dictionaries}
    for name in names:
        with suppress(PhrasemateError), library.use(name) as searcher:  # the panel of that index shows the problem
            for dictionary in searcher.index.dictionaries:
                dictionaries.setdefault(dictionary.name, dictionary)
    return list(dictionaries.values())


def _listed(
    library: Library, names: Sequence[str], wording: str, languages: set[str], spoken: str
) -> tuple[Equivalent, ...]:
    """Look up a wording in the dictionaries: equivalents in the languages of the indexes, all if these are unknown."""
    dictionaries = _dictionaries(library, names)
    equivalents = (equivalent for dictionary in dictionaries for equivalent in dictionary.equivalents(wording, spoken))
    fitting = [
        equivalent
        for equivalent in equivalents
        if not equivalent.language or not languages or equivalent.language in languages
    ]
    return tuple(fitting[:EQUIVALENTS])


def _arranged(panels: Sequence[Panel], order: str) -> list[Panel]:
    return [replace(panel, column=panel.column and arranged(panel.column, order)) for panel in panels]


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
        request = SearchRequest(state.groups, state.lines, documents, languages)
        (answer,) = searcher.search_phrases([phrase], request)
        return column(fact.name, Result(phrase.context, phrase, *answer))

    try:
        column_result: Column = await work(library, library.ask, fact.name, ask)
    except Exception as error:  # the other indexes still answer
        return Panel(fact.name, problem=_reason(fact.name, error))
    return Panel(fact.name, column_result)


def _reason(name: str, error: Exception) -> str:
    """Return the message for an index that fails to answer; unexpected errors are logged."""
    if not isinstance(error, PhrasemateError):
        log.error("index %s", name, exc_info=error)
    return refusal_of(error).message


def _nothing(state: State, fact: Facts) -> str:
    """Return why an index cannot have an answer, or "" if it may have one."""
    if not fact.sentences:
        return "This index holds no text yet. Add text with: phrasemate index TEXT -o DIR --lang LANGUAGE"
    if state.languages and not set(state.languages) & set(fact.languages):
        return f"No document here is in {' or '.join(state.languages)}; the index has {', '.join(fact.languages)}."
    return ""


def checksum_of(hit: Hit) -> str:
    """Compute a checksum of a hit, which shows whether its id is still of the same phrase in a changed index."""
    return f"{crc32(f'{hit.start}-{hit.end} {hit.context}'.encode('utf-8', 'surrogatepass')):08x}"


async def excerpt(library: Library, index: str, phrase: int, expected: str = "", count: int = 2) -> Excerpt:
    """Fetch the sentence of a phrase id with ``count`` sentences on each side.

    Raises InputError if the phrase is gone, Refusal if its checksum (`checksum_of`) is not ``expected``.
    """

    def of(searcher: Searcher) -> Excerpt:
        with searcher.index.snapshot():
            before, after = searcher.index.around(phrase, count)
            (hit,) = searcher.index.hits([phrase], [1.0])
        if expected not in ("", checksum_of(hit)):
            raise Refusal("not_found", f"{index} has changed since this search: search again")
        return Excerpt(index, hit, before, after)

    result: Excerpt = await work(library, library.ask, index, of)
    return result

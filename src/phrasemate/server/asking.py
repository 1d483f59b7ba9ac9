"""A query of a program: what it may ask for at once, and its answer by portions."""

from __future__ import annotations

from collections.abc import Sequence

from phrasemate.encode.rescoring import alone
from phrasemate.marks import parse_query
from phrasemate.search import Result, Searcher
from phrasemate.server.effort import go_on
from phrasemate.server.refusal import Refusal
from phrasemate.server.schemas import Search
from phrasemate.server.settings import Settings
from phrasemate.types import Phrase, Span

AT_ONCE = 8  # phrases that are searched together: each looks at up to 1,600 hits, of which few are kept


def searched(searcher: Searcher, asked: Search, settings: Settings) -> list[Result]:
    """As `Searcher.search_all` for one query, a portion of its phrases after another. Raises Refusal, GivenUp."""
    phrases = searcher.phrases(asked.query)
    limit_phrases(len(phrases), settings)
    limit_hits(len(phrases), asked.k, asked.contexts, settings)
    if not phrases:
        return []
    views = searcher.views
    again = [alone(phrase) for phrase in phrases] if views is not None and views.mixed else []
    vectors = searcher.model.encode([*phrases, *again])
    found: list[Result] = []
    for at in range(0, len(phrases), AT_ONCE):
        go_on()
        some = slice(at, min(at + AT_ONCE, len(phrases)))
        by_itself = vectors[len(phrases) + some.start : len(phrases) + some.stop] if again else None
        answers = searcher.search_vectors(
            vectors[some], asked.k, asked.contexts, asked.documents, asked.languages, by_itself
        )
        found += [Result(asked.query, phrase, *each) for phrase, each in zip(phrases[some], answers, strict=True)]
    return found


def marked_phrases(queries: Sequence[str], settings: Settings) -> list[tuple[int, Phrase]]:
    """The marked phrases of queries, each with its query's number. Raises Refusal, QueryError."""
    marked = [parse_query(query).phrases for query in queries]
    limit_phrases(max(map(len, marked), default=0), settings)
    if (total := sum(map(len, marked))) > settings.encoded:
        raise Refusal("too_long", f"{total:,} phrases in all; expected at most {settings.encoded:,}: mark fewer")
    return [(number, phrase) for number, phrases in enumerate(marked) for phrase in phrases]


def limit_phrases(found: int, settings: Settings) -> None:
    """Raises Refusal if more phrases are marked, or proposed, than are answered at once."""
    if found > settings.phrases:
        raise Refusal("too_long", f"the query has {found} phrases; expected at most {settings.phrases}: mark fewer")


def limit_hits(phrases: int, k: int, contexts: int, settings: Settings) -> None:
    """Raises Refusal for more sentences than one answer holds."""
    if phrases * k * max(contexts, 1) > settings.hits:
        what = f"{phrases} phrases or terms with {k} groups of {contexts} sentences"
        raise Refusal("too_long", f"{what}; expected at most {settings.hits:,} sentences in all: ask for less of each")


def limit_spans(found: Sequence[Sequence[Span]], settings: Settings) -> None:
    """Raises Refusal for more phrases than one answer holds."""
    if (total := sum(map(len, found))) > settings.spans:
        most = settings.spans
        raise Refusal(
            "too_long", f"{total:,} phrases; expected at most {most:,}: raise the threshold or send less text"
        )


def limit_total(texts: Sequence[str], settings: Settings) -> None:
    """Raises Refusal for more text than is encoded for one request."""
    if (total := sum(map(len, texts))) > settings.total_characters:
        most = settings.total_characters
        raise Refusal("too_long", f"{total:,} characters in all; expected at most {most:,}: send several requests")

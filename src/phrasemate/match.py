"""Match two term lists by sentences that contain the terms.

A term's vector comes from example sentences (XPR, Zheng et al., ACL 2022; `phrasemate.encode.pooling`). The score of
two terms is the cosine of their vectors. A margin lowers the score of terms that are similar to everything (CSLS,
Conneau et al., ICLR 2018; or the ratio of Artetxe and Schwenk, ACL 2019).

With the margin "probability", the scorer of searches rates the pairs (`phrasemate.encode.scoring`): a source term is
the query, target terms are candidates, and their sentences the occurrences. The result is the pair's lead over the
other pairs of its two terms. This is the default if the lexicon has the languages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite, log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate import candidates as proposals
from phrasemate.candidates import Dictionaries
from phrasemate.encode import Model
from phrasemate.encode.pooling import by_examples, unit
from phrasemate.encode.scoring import CandidateScorer
from phrasemate.errors import InputError
from phrasemate.examples import Finder, occurrences
from phrasemate.index.exact import Runs
from phrasemate.index.wordings import Wordings, WordingSearch, segment_of
from phrasemate.lexicon import Lexicon, bundled_lexicon
from phrasemate.query import marked
from phrasemate.rank import numbered
from phrasemate.text import folded
from phrasemate.text.formats.units import Term, TermPair
from phrasemate.text.languages import primary
from phrasemate.types import Phrase, Progress, Run
from phrasemate.utils import import_extra
from phrasemate.utils.arrays import Floats, Ids
from phrasemate.utils.knn import nearest, neighbour_means
from phrasemate.utils.margin import lead, margin_of, neighbour_pairs

AUTO = "auto"
# margin -> the least that is a match (docs/how-to/match-term-lists.md)
THRESHOLDS = {"csls": 0.2, "ratio": 1.15, "probability": 0.4}
READABLE = 80  # characters: of many sentences, those of about this length are shown


@dataclass(frozen=True, slots=True)
class MatchSettings:
    """Settings of the comparison and of what counts as a match. Raises InputError for invalid values.

    ``examples``: sentences a term; ``bare``, ``pooling``, ``layer`` as in `by_examples` ("": `pooling_of` the model).
    ``margin``: csls or ratio, over the ``neighbours`` nearest; probability, by the scorer; or auto, see `resolved`.
    ``threshold``: the minimum margin (None: that of `THRESHOLDS`), ``least_score``: the minimum cosine. ``candidates``:
    maximum number of matches of a source term. ``mutual``: only terms that are each other's best match. ``one_to_one``:
    the assignment with the greatest sum of margins that uses no term twice. ``evidence``: sentences that are kept of
    each side.

    >>> MatchSettings(margin="ratio").least_margin
    1.15
    """

    examples: int = 8
    bare: float = 1.5  # bench/match.py, development pairs
    pooling: str = ""
    layer: int | None = None
    margin: str = AUTO
    neighbours: int = 10  # Conneau et al. (2018)
    threshold: float | None = None
    least_score: float = -1.0
    candidates: int = 1
    mutual: bool = False
    one_to_one: bool = False
    evidence: int = 1

    def __post_init__(self) -> None:
        if self.margin not in (AUTO, *THRESHOLDS):
            raise InputError(f"margin {self.margin!r}; expected one of {', '.join((AUTO, *THRESHOLDS))}")
        for name, least in (("examples", 0), ("neighbours", 1), ("candidates", 1), ("evidence", 0), ("bare", 0)):
            if not getattr(self, name) >= least:
                raise InputError(f"{name} {getattr(self, name)}; expected {least} or more")
        for name, value in (("threshold", self.least_margin), ("least_score", self.least_score), ("bare", self.bare)):
            if not isfinite(value):
                raise InputError(f"{name} {value}; expected a number")
        if self.one_to_one and self.candidates > 1:
            raise InputError(f"{self.candidates} matches per term contradict one to one; leave one of them out")

    @property
    def least_margin(self) -> float:
        return THRESHOLDS.get(self.margin, 0.0) if self.threshold is None else self.threshold

    def resolved(self, model: Model, languages: tuple[str, str]) -> MatchSettings:
        """Return these settings with "auto" resolved.

        It is "probability" where the model has a scorer and the bundled lexicon has the two languages, of which one is
        English; else "csls". Raises InputError for "probability" without a scorer.
        """
        has_scorer = getattr(model, "scorer", None) is not None
        if self.margin == "probability" and not has_scorer:
            raise InputError(f"margin probability, but {model.name} has no scorer; choose csls or ratio")
        if self.margin != AUTO:
            return self
        lexicon = bundled_lexicon()
        has_lexicon = lexicon is not None and "en" in languages and {*languages} - {"en"} <= {*lexicon.languages}
        return replace(self, margin="probability" if has_scorer and has_lexicon and len({*languages}) > 1 else "csls")


class MatchSide(NamedTuple):
    """A term list and the source of its example sentences (None: only the terms' own contexts).

    >>> len(MatchSide([Term("Hund", "de"), Term("Haus", "de")]).terms)
    2
    """

    terms: Sequence[Term]
    finder: Finder | None = None


Side = MatchSide  # the former name, which other modules have too


@dataclass(frozen=True, slots=True)
class Match:
    """A source term and its target term: ``score`` is the cosine, ``rank`` that of the target for the source.

    ``source_examples``, ``target_examples``: number of sentences that each was compared by (0: by its wording alone);
    ``source_evidence``, ``target_evidence``: some of them.

    >>> from phrasemate import load_model
    >>> source = MatchSide([Term("Hund", "de"), Term("Haus", "de")])
    >>> target = MatchSide([Term("house", "en"), Term("dog", "en")])
    >>> match = match_terms(source, target, load_model()).matches[0]
    >>> match.source.text, match.target.text
    ('Hund', 'dog')
    """

    source: Term
    target: Term
    score: float
    margin: float
    rank: int
    mutual: bool
    source_examples: int
    target_examples: int
    source_evidence: tuple[Phrase, ...]
    target_evidence: tuple[Phrase, ...]

    def as_dict(self) -> dict[str, Any]:
        """Mapping for JSON; start and end are characters of the sentence."""
        figures = {"score": round(self.score, 4), "margin": round(self.margin, 4)}
        counts = {"source_examples": self.source_examples, "target_examples": self.target_examples}
        evidence_of = {"source_evidence": self.source_evidence, "target_evidence": self.target_evidence}
        sentences = {
            name: [{"text": phrase.context, "start": phrase.start, "end": phrase.end} for phrase in phrases]
            for name, phrases in evidence_of.items()
        }
        place = {"mutual": self.mutual, "rank": self.rank}
        return {"source": self.source.text, "target": self.target.text, **figures, **place, **counts, **sentences}


@dataclass(frozen=True, slots=True)
class Matching:
    """Result of two lists: ``matches`` in the order of the source list, and the terms of each side without one.

    ``repeated``: number of duplicate terms of each side, which were skipped. ``alone``: number of terms without a
    sentence that contains them.

    >>> from phrasemate import load_model
    >>> source = MatchSide([Term("Hund", "de"), Term("Haus", "de")])
    >>> target = MatchSide([Term("house", "en"), Term("dog", "en")])
    >>> matching = match_terms(source, target, load_model())
    >>> [(match.source.text, match.target.text) for match in matching.matches]
    [('Hund', 'dog'), ('Haus', 'house')]
    """

    matches: tuple[Match, ...]
    source_unmatched: tuple[Term, ...]
    target_unmatched: tuple[Term, ...]
    repeated: tuple[int, int]
    alone: tuple[int, int]
    settings: MatchSettings

    def as_dict(self) -> dict[str, Any]:
        """Mapping of the whole result for JSON."""
        names = ("source", "target")
        return {
            "matches": len(self.matches),
            "mutual": sum(match.mutual for match in self.matches),
            "source_unmatched": [term.text for term in self.source_unmatched],
            "target_unmatched": [term.text for term in self.target_unmatched],
            "in_no_sentence": dict(zip(names, self.alone, strict=True)),
            "repeated": dict(zip(names, self.repeated, strict=True)),
            "margin": self.settings.margin,
            "threshold": self.settings.least_margin,
        }


def match_terms(
    source: MatchSide,
    target: MatchSide,
    model: Model,
    settings: MatchSettings | None = None,
    progress: Progress = lambda *_: None,
    lexicons: Sequence[Lexicon] = (),
) -> Matching:
    """Match the terms of two lists.

    Args:
        source: Terms of one language, and where their example sentences come from.
        target: Terms of the other language.
        model: Model that encodes the terms.
        settings: How pairs are scored and chosen.
        progress: Called with what is being done, how much of it is done, and of how much.
        lexicons: Dictionaries to use in addition to the bundled lexicon, with the margin "probability".

    Raises InputError for a list without terms and for dictionaries with another margin, MissingExtra where an
    assignment one to one needs a package that is absent.
    """
    settings = settings or MatchSettings()
    if settings.one_to_one:
        matching_function()
    lists = _different(source.terms, "source"), _different(target.terms, "target")
    languages = _language(source), _language(target)
    settings = settings.resolved(model, languages)
    if lexicons and settings.margin != "probability":
        raise InputError(f"dictionaries do not count with the margin {settings.margin}; expected probability")
    first = _prepared(lists[0], source.finder, "source", model, settings, progress)
    second = _prepared(lists[1], target.finder, "target", model, settings, progress)
    if settings.margin == "probability":
        assert model.scorer is not None
        occurrences = _occurrences(first, model), _occurrences(second, model)
        pairs = likely_pairs(*occurrences, model.scorer, languages, lexicons)
        pairs = weigh_pairs(pairs, first.vectors, second.vectors, settings.neighbours)
    else:
        pairs = candidates(first.vectors, second.vectors, settings.neighbours, settings.margin, settings.candidates)
    best_matches = select(pairs, settings)
    return Matching(
        tuple(_matches(best_matches, first, second, settings.evidence)),
        _without(first.terms, best_matches.sources),
        _without(second.terms, best_matches.targets),
        (len(source.terms) - len(first.terms), len(target.terms) - len(second.terms)),
        (first.alone, second.alone),
        settings,
    )


class _TermVectors(NamedTuple):
    """The terms of a list, each wording once, with their sentences and vectors (terms, dim)."""

    terms: list[Term]
    examples: list[list[Phrase]]
    vectors: NDArray[np.float32]

    @property
    def alone(self) -> int:
        """Number of terms without a sentence."""
        return sum(not sentences for sentences in self.examples)


def _prepared(
    terms: list[Term], finder: Finder | None, name: str, model: Model, settings: MatchSettings, progress: Progress
) -> _TermVectors:
    title = f"{name} {terms[0].language}".strip()
    examples = _examples(terms, finder, title, settings.examples, progress)
    texts, pooling = [term.text for term in terms], settings.pooling or pooling_of(model)
    show = partial(progress, f"encoding, {title}")
    vectors, _ = by_examples(model, texts, examples, pooling, settings.layer, settings.bare, show)
    return _TermVectors(terms, examples, vectors)


def pooling_of(model: Model) -> str:
    """Name of the pooling of term vectors: the mean of token states, with the model's trained projection if any."""
    return "mean" if model.head is None else "mean+head"


def select(pairs: Candidates, settings: MatchSettings) -> Candidates:
    """Select the candidates that are matches."""
    mask = (pairs.margins >= settings.least_margin) & (pairs.scores >= settings.least_score)
    if settings.mutual:
        mask &= pairs.mutual
    if settings.one_to_one:
        eligible = pairs.only(mask)
        return eligible.only(assign(eligible))
    return pairs.only(mask & (pairs.ranks <= settings.candidates))


def term_pairs(matching: Matching, contexts: bool = False) -> Iterable[TermPair]:
    """The matches as rows for `phrasemate.text.term_lists.write_pairs`; evidence has its term in ``[[ ]]``.

    ``contexts``: the evidence becomes contexts of the terms, and the figures a note of the target (for a term base).
    """
    for match in matching.matches:
        source, target = match.source, match.target
        if contexts:
            figures = f"margin {match.margin:.3f}, {'mutual best' if match.mutual else f'rank {match.rank}'}"
            source = replace(source, contexts=_with(match.source_evidence, source.contexts))
            note = f"{target.note}; {figures}" if target.note else figures
            target = replace(target, contexts=_with(match.target_evidence, target.contexts), note=note)
        yield TermPair(source, target, match.score, {} if contexts else _facts(match, matching.settings.evidence))


def _with(evidence: Sequence[Phrase], contexts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*contexts, *(phrase.context for phrase in evidence)]))


def _facts(match: Match, evidence: int) -> dict[str, Any]:
    facts: dict[str, Any] = {"margin": round(match.margin, 6), "mutual": "yes" if match.mutual else "no"}
    facts |= {"rank": match.rank, "target_id": match.target.id}
    facts |= {"source_examples": match.source_examples, "target_examples": match.target_examples}
    for name, phrases in (("source", match.source_evidence), ("target", match.target_evidence)):
        contexts = [marked(phrase.context, phrase.start, phrase.end) for phrase in phrases[:evidence]]
        for number, text in enumerate([*contexts, *[""] * (evidence - len(contexts))], 1):
            facts[f"{name}_evidence_{number}"] = text
    return facts


def _different(terms: Iterable[Term], name: str) -> list[Term]:
    """The terms, each wording once. Raises InputError where there is none."""
    different: dict[str, Term] = {}
    for term in terms:
        text = " ".join(term.text.split())
        if text:
            different.setdefault(text, replace(term, text=text))
    if not different:
        raise InputError(f"no term in the {name} list; expected at least one")
    return list(different.values())


def _examples(
    terms: Sequence[Term], finder: Finder | None, name: str, limit: int, progress: Progress
) -> list[list[Phrase]]:
    """Up to ``limit`` sentences for each term: its own contexts first, then those of the text."""
    examples = []
    for count, term in enumerate(terms, 1):
        marked_phrases = [Phrase(text, *spans[0]) for text in term.contexts if (spans := occurrences(term.text, text))]
        more = finder.find(term.text, limit) if finder is not None and limit > len(marked_phrases) else []
        examples.append(list({phrase.context: phrase for phrase in [*marked_phrases, *more]}.values())[:limit])
        progress(f"examples, {name}", count, len(terms))
    return examples


def _matches(pairs: Candidates, first: _TermVectors, second: _TermVectors, evidence: int) -> Iterable[Match]:
    for source, target, *figures in zip(*(column.tolist() for column in pairs), strict=True):
        examples = first.examples[source], second.examples[target]
        sentences = (_evidence(side, evidence) for side in examples)
        yield Match(first.terms[source], second.terms[target], *figures, *map(len, examples), *sentences)


def _evidence(examples: Sequence[Phrase], count: int) -> tuple[Phrase, ...]:
    """Take the examples whose length is nearest to a line."""
    return tuple(sorted(examples, key=lambda phrase: abs(len(phrase.context) - READABLE))[:count])


def _without(terms: Sequence[Term], ids: Ids) -> tuple[Term, ...]:
    match_ids = set(ids.tolist())
    return tuple(term for number, term in enumerate(terms) if number not in match_ids)


DEPTH = 20  # nearest terms of each term, both ways, that are looked at
LEAST = 1e-4  # probability of a pair, at least, and of its contrary
RIVAL = 0.05  # probability of the best other pair of a term, at least
WEIGHTS = (-1.74, 4.63, 0.43)  # constant, CSLS, lead: a logistic regression (bench/match.py --fit)
UNLISTED = 0.5  # "no lexicon" of a term: it has an unlisted equivalent more often than a phrase of a text has


class Candidates(NamedTuple):
    """Pairs of a source and a target term that may match, (pairs,) each: by source, then by margin, highest first.

    ``ranks`` count from 1 within a source term; ``mutual``: each is the other's best by margin.
    """

    sources: Ids
    targets: Ids
    scores: Floats
    margins: Floats
    ranks: Ids
    mutual: NDArray[np.bool_]

    def only(self, mask: NDArray[np.bool_]) -> Candidates:
        """Candidates of a mask."""
        return Candidates._make(column[mask] for column in self)


def candidates(source: Floats, target: Floats, k: int = 10, how: str = "csls", depth: int = DEPTH) -> Candidates:
    """The pairs that are among the nearest of either side by cosine, with their margins.

    Needs n x m products and holds but a block of them.

    Args:
        source: Vectors (n, dim) of unit length.
        target: Vectors (m, dim) of unit length.
        k: Neighbours of the other side whose mean cosine a margin compares with.
        how: Name of the margin (`phrasemate.utils.margin.margin_of`).
        depth: Nearest of each term that become pairs.
    """
    depth = max(depth, DEPTH, k)
    near, cosines = nearest(source, target, depth)  # (n, depth) each
    back, back_cosines = nearest(target, source, depth)  # (m, depth)
    source_means, target_means = cosines[:, :k].mean(1), back_cosines[:, :k].mean(1)
    rows, columns, scores = neighbour_pairs(Run(near, cosines), Run(back, back_cosines))
    return _ordered(rows, columns, scores, margin_of(scores, source_means[rows], target_means[columns], how))


def _ordered(rows: Ids, columns: Ids, scores: Floats, margins: Floats) -> Candidates:
    order = np.lexsort((columns, -margins, rows))
    rows, columns, scores, margins = rows[order], columns[order], scores[order], margins[order]
    ranks = np.arange(len(rows)) - np.searchsorted(rows, rows) + 1
    leads = np.zeros(len(rows), np.bool_)  # the best pair of its target
    by_target = np.lexsort((rows, -margins, columns))
    leads[by_target[np.unique(columns[by_target], return_index=True)[1]]] = True
    return Candidates(rows, columns, scores, margins, ranks, leads & (ranks == 1))


class Occurrences(NamedTuple):
    """Terms as they are compared by a scorer.

    ``counts`` (terms,) sentences of each, at least one; ``vectors`` (sentences, dim) of the terms there, in their
    order; ``alone`` (terms, dim) of the terms by themselves. A term without sentences stands there by itself.
    """

    terms: list[str]
    counts: Ids
    vectors: Floats
    alone: Floats

    @property
    def types(self) -> Floats:
        """(terms, dim) the mean of each term's vectors, of unit length."""
        return unit(np.add.reduceat(self.vectors, np.cumsum(self.counts) - self.counts))


def _occurrences(side: _TermVectors, model: Model) -> Occurrences:
    bare = [Phrase(term.text, 0, len(term.text)) for term in side.terms]
    sentences = [examples or [phrase] for examples, phrase in zip(side.examples, bare, strict=True)]
    vectors = model.encode([*(phrase for examples in sentences for phrase in examples), *bare])
    counts = np.array([len(examples) for examples in sentences], np.int64)
    return Occurrences([phrase.text for phrase in bare], counts, vectors[: -len(bare)], vectors[-len(bare) :])


def likely_pairs(
    source: Occurrences,
    target: Occurrences,
    scorer: CandidateScorer,
    languages: tuple[str, str],
    lexicons: Sequence[Lexicon] = (),
) -> Candidates:
    """The pairs that a scorer finds among the terms, with its probabilities as margins and cosines of means as scores.

    The scorer was fitted to phrases of a text, of which each is looked up for itself; see `weigh_pairs` for lists.

    The terms that are not English ask, whichever side they are on, as the scorer was fitted. ``lexicons``:
    dictionaries that are asked beside the bundled lexicon.
    """
    if languages[0] == "en" != languages[1]:
        mirror = likely_pairs(target, source, scorer, languages[::-1], lexicons)
        return _ordered(mirror.targets, mirror.sources, mirror.scores, mirror.margins)
    texts = [*map(folded, target.terms)]
    place_of = {text: place for place, text in reversed([*enumerate(texts)])}  # of the first term with a wording
    distinct, count = list(dict.fromkeys(texts)), len(target.vectors)
    numbers = np.repeat(numbered(texts), target.counts)
    segment = segment_of(distinct, [languages[1] or "en"] * len(distinct), numbers, np.arange(count), 0, count)
    table = Wordings([segment], Runs(np.zeros((0, 2), np.int64)))
    source_keys, target_keys = (
        np.concatenate([side.types, side.alone], 1) / np.float32(2**0.5) for side in (source, target)
    )
    near = nearest(source_keys.astype(np.float32), target_keys.astype(np.float32), min(DEPTH, len(target.terms)))[0]
    firsts = np.cumsum(target.counts) - target.counts
    lexicon = bundled_lexicon()
    dictionaries = Dictionaries([*lexicons, *([] if lexicon is None else [lexicon])], [languages[1]])
    no_lexicon = UNLISTED if dictionaries.has_lexicon(languages[0]) else 1.0
    proposed, wordings = [], []
    for term, row in zip(source.terms, near, strict=True):
        parts = proposals.parts(term, dictionaries, languages[0])
        equivalents = proposals.equivalents(table, term, dictionaries, languages[0])
        compositions = proposals.compositions(table, parts)
        proposed.append(proposals.gather(table, term, firsts[row[row >= 0]].tolist(), equivalents, compositions))
        wordings.append(proposals.Wording(parts, {}, no_lexicon))
    search = WordingSearch(table, lambda ids: target.vectors[ids])
    descriptions = proposals.describe(
        search, source.terms, proposed, source.types, source.alone, languages[1] or "en", wordings
    )
    pairs = [
        (row, place_of[candidate.wording], probability)
        for row, item in enumerate(descriptions)
        if item.candidates
        for candidate, probability in zip(item.candidates, scorer.probabilities(item.features).tolist(), strict=True)
    ]
    rows, columns = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    scores = np.einsum("nd,nd->n", source.types[rows], target.types[columns])
    return _ordered(rows, columns, scores, np.array([probability for _, _, probability in pairs], np.float32))


def weigh_pairs(pairs: Candidates, source: Floats, target: Floats, k: int = 10) -> Candidates:
    """Give the pairs of `likely_pairs` a probability that heeds the other pairs of their terms, and cosines.

    It is 1 / (1 + exp -(a + b CSLS + c lead)), with the constants of `WEIGHTS`. Arguments as of `measure_pairs`.
    """
    scores, *standings = measure_pairs(pairs, source, target, k)
    constant, *weights = WEIGHTS
    log_odds = constant + sum(weight * values for weight, values in zip(weights, standings, strict=True))
    margins = (1 / (1 + np.exp(-log_odds))).astype(np.float32)
    return _ordered(pairs.sources, pairs.targets, scores, margins)


def measure_pairs(pairs: Candidates, source: Floats, target: Floats, k: int = 10) -> tuple[Floats, Floats, Floats]:
    """Compare pairs with the others of their terms: cosines, CSLS, and the lead of the scorer's log odds.

    A term's best other pair has a probability of `RIVAL` at least.

    Args:
        pairs: Pairs with a scorer's probabilities as margins.
        source: Vectors of the source terms (n, dim), of unit length.
        target: Vectors of the target terms (m, dim), of unit length.
        k: Nearest terms of the other list that CSLS compares with.
    """
    rows, columns = pairs.sources, pairs.targets
    cosines = np.einsum("nd,nd->n", source[rows], target[columns])
    means = neighbour_means(source, target, k)[rows], neighbour_means(target, source, k)[columns]
    probabilities = np.clip(pairs.margins, LEAST, 1 - LEAST)
    log_odds = np.log(probabilities / (1 - probabilities))
    return cosines, margin_of(cosines, *means, "csls"), lead(rows, columns, log_odds, log(RIVAL / (1 - RIVAL)))


def _language(side: MatchSide) -> str:
    """The language that all terms of a list have; "" if they do not say it or differ."""
    languages = {primary(term.language) for term in side.terms}
    return languages.pop() if len(languages) == 1 else ""


def assign(pairs: Candidates) -> NDArray[np.bool_]:
    """(pairs,) which pairs to take so that no term comes twice and the sum of margins is the greatest.

    Margins count from a little below the least one among the pairs, so that each pair is worth more than none. Exact,
    on the sparse graph of the candidates: scipy's min_weight_full_bipartite_matching (LAPJVsp: Jonker and Volgenant
    1987), with a column for each source term that stands for "no match". Raises MissingExtra without scipy.
    """
    solve = matching_function()
    from scipy.sparse import csr_array

    if not len(pairs.sources):
        return np.zeros(0, np.bool_)
    rows, row = np.unique(pairs.sources, return_inverse=True)
    columns, column = np.unique(pairs.targets, return_inverse=True)
    worth = pairs.margins.astype(np.float64) - pairs.margins.min()
    step = 1e-6 + float(worth.max()) * 1e-6
    costs = worth.max() - worth + step  # no cost may be 0: it would be no edge
    dummy_worth = np.full(len(rows), worth.max() + 2 * step)
    values = np.concatenate([costs, dummy_worth])
    places = np.concatenate([row, np.arange(len(rows))]), np.concatenate([column, len(columns) + np.arange(len(rows))])
    graph = csr_array((values, places), shape=(len(rows), len(columns) + len(rows)))
    partners = np.full(len(rows), -1)
    mates = solve(graph)
    partners[mates[0]] = mates[1]
    return partners[row] == column  # type: ignore[no-any-return]


def matching_function() -> Any:
    """Load the solver of an assignment. Raises MissingExtra without scipy."""
    return import_extra("scipy.sparse.csgraph", "scipy", "match").min_weight_full_bipartite_matching

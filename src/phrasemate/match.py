"""Match the terms of two lists, each in one language, by sentences that contain the terms.

A term's vector comes from its example sentences (XPR, Zheng et al., ACL 2022; `phrasemate.encode.pooling`). The score
of two terms is the cosine of their vectors. The margin corrects the score for terms that are similar to everything
(CSLS, Conneau et al., ICLR 2018; or the ratio of Artetxe and Schwenk, ACL 2019).

With the margin "probability", the scorer of searches rates the pairs (`phrasemate.encode.scoring`). A term that is not
English is the query, terms of the other list are its candidates, and their sentences are the occurrences. The
probability of a pair also depends on its lead over the other pairs of its two terms (`weigh_pairs`). This margin is the
default if the bundled lexicon has both languages.
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
from phrasemate.features import describe
from phrasemate.index.exact import Runs
from phrasemate.index.wordings import Wordings, WordingSearch, segment_of
from phrasemate.lexicon import Lexicon, bundled_lexicon
from phrasemate.query import marked
from phrasemate.rank import numbered
from phrasemate.text import folded
from phrasemate.text.formats.units import Term, TermPair
from phrasemate.text.languages import primary
from phrasemate.types import Phrase, Progress, Run, check_fields, check_opened, check_progress, to_settings
from phrasemate.utils import import_extra
from phrasemate.utils.arrays import Floats, Ids
from phrasemate.utils.knn import nearest, neighbour_means
from phrasemate.utils.margin import lead, margin_of, neighbour_pairs

AUTO = "auto"
# name of a margin -> lowest margin of a match (docs/how-to/match-term-lists.md)
THRESHOLDS = {"csls": 0.2, "ratio": 1.15, "probability": 0.4}
READABLE = 80  # characters: evidence consists of the sentences whose lengths are nearest to this one


@dataclass(frozen=True, slots=True)
class MatchSettings:
    """Settings for comparing terms and for choosing the matches.

    Args:
        examples: Maximum number of example sentences per term.
        bare: Weight of the term without a sentence, as in `by_examples`.
        pooling: Name of the pooling, as in `by_examples`; "" for `pooling_of` the model.
        layer: Layer of the encoder, as in `by_examples`.
        margin: "csls" or "ratio"; "probability", by the model's scorer; or "auto", see `resolved`.
        neighbours: Number of nearest neighbours that csls and ratio compare with.
        threshold: Lowest margin of a match; None for that of `THRESHOLDS`.
        least_score: Lowest cosine of a match.
        candidates: Maximum number of matches per source term.
        mutual: Match only terms that are each other's best candidate.
        one_to_one: Choose the assignment with the greatest sum of margins that uses no term twice.
        evidence: Number of sentences kept with a match, for each side.

    Raises InputError for invalid values.

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
        check_fields(self)
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
        """Lowest margin of a match: the threshold, or the default for the margin."""
        return THRESHOLDS.get(self.margin, 0.0) if self.threshold is None else self.threshold

    def resolved(self, model: Model, languages: tuple[str, str]) -> MatchSettings:
        """Replace the margin "auto" by the margin that suits the model and the languages.

        That is "probability" if the model has a scorer, one language is English, and the bundled lexicon has the other;
        else it is "csls". Raises InputError for the margin "probability" if the model has no scorer.
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
    """One term list and where to find its example sentences.

    Without a ``finder``, only the contexts that the terms bring along are examples.

    >>> len(MatchSide([Term("Hund", "de"), Term("Haus", "de")]).terms)
    2
    """

    terms: Sequence[Term]
    finder: Finder | None = None


Side = MatchSide  # former name; other modules have classes of this name, too


@dataclass(frozen=True, slots=True)
class Match:
    """A source term and a target term that match.

    Attributes:
        source: Term of the source list.
        target: Term of the target list.
        score: Cosine of the terms' vectors.
        margin: Margin of the pair, see `MatchSettings`.
        rank: Rank of the target among the candidates of the source, from 1.
        mutual: Whether each is the other's best candidate.
        source_examples: Number of sentences from which the source's vector was made; 0 if from the wording alone.
        target_examples: The number for the target.
        source_evidence: Some of the source's sentences.
        target_evidence: Some of the target's sentences.

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
        """Convert to a mapping for JSON; start and end are character offsets in the sentence."""
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
    """The matches of two term lists, and the terms without a match.

    Attributes:
        matches: Matches, in the order of the source list.
        source_unmatched: Source terms without a match.
        target_unmatched: Target terms without a match.
        repeated: Numbers of duplicate terms of the source and of the target list, which were skipped.
        alone: Numbers of source and of target terms for which no sentence was found.
        settings: Settings of the comparison, with the margin resolved.

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
        """Convert to a mapping for JSON: counts, settings and unmatched terms, without the matches themselves."""
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
        source: Source terms, and where their example sentences come from.
        target: Target terms in another language, and where their example sentences come from.
        model: Model that encodes the terms.
        settings: How pairs are scored and chosen.
        progress: Called with the name of the current step, the number of items done, and their total.
        lexicons: Dictionaries to use in addition to the bundled lexicon; only with the margin "probability".

    Raises InputError for texts instead of terms, for a list without terms, and for dictionaries with another margin.
    Raises MissingExtra if one-to-one matching needs a package that is not installed.
    """
    check_opened(model, "a model, such as load_model(path)")
    settings = to_settings(settings, MatchSettings)
    check_progress(progress)
    if settings.one_to_one:
        matching_function()
    for side in (source, target):
        if not isinstance(side, MatchSide) or not all(isinstance(term, Term) for term in side.terms):
            raise InputError(f"{repr(side)[:40]}: expected terms, as MatchSide([Term(text)])")
    lists = _distinct(source.terms, "source"), _distinct(target.terms, "target")
    languages = _language(source), _language(target)
    settings = settings.resolved(model, languages)
    if lexicons and settings.margin != "probability":
        raise InputError(f"dictionaries do not count with the margin {settings.margin}; expected probability")
    first = _encode(lists[0], source.finder, "source", model, settings, progress)
    second = _encode(lists[1], target.finder, "target", model, settings, progress)
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
        _unmatched_terms(first.terms, best_matches.sources),
        _unmatched_terms(second.terms, best_matches.targets),
        (len(source.terms) - len(first.terms), len(target.terms) - len(second.terms)),
        (first.alone, second.alone),
        settings,
    )


class _TermVectors(NamedTuple):
    """The terms of a list, each wording once, with their example sentences and their vectors (terms, dim)."""

    terms: list[Term]
    examples: list[list[Phrase]]
    vectors: NDArray[np.float32]

    @property
    def alone(self) -> int:
        """Number of terms without an example sentence."""
        return sum(not sentences for sentences in self.examples)


def _encode(
    terms: list[Term], finder: Finder | None, name: str, model: Model, settings: MatchSettings, progress: Progress
) -> _TermVectors:
    """Find example sentences of terms and make the terms' vectors; ``name`` of the list is shown as progress."""
    title = f"{name} {terms[0].language}".strip()
    examples = _examples(terms, finder, title, settings.examples, progress)
    texts, pooling = [term.text for term in terms], settings.pooling or pooling_of(model)
    show = partial(progress, f"encoding, {title}")
    vectors, _ = by_examples(model, texts, examples, pooling, settings.layer, settings.bare, show)
    return _TermVectors(terms, examples, vectors)


def pooling_of(model: Model) -> str:
    """Name the pooling for the vectors of terms: the mean of token states, with the trained head if the model has one.

    The names are those of `phrasemate.encode.pooling.by_examples`.
    """
    return "mean" if model.head is None else "mean+head"


def select(pairs: Candidates, settings: MatchSettings) -> Candidates:
    """Select the candidates that are matches under the settings, in their order."""
    mask = (pairs.margins >= settings.least_margin) & (pairs.scores >= settings.least_score)
    if settings.mutual:
        mask &= pairs.mutual
    if settings.one_to_one:
        eligible = pairs.only(mask)
        return eligible.only(assign(eligible))
    return pairs.only(mask & (pairs.ranks <= settings.candidates))


def term_pairs(matching: Matching, contexts: bool = False) -> Iterable[TermPair]:
    """Convert matches to pairs for `phrasemate.text.term_lists.write_pairs`, in their order.

    By default, the pair's metadata are its figures and the evidence, with the term in ``[[ ]]``. With ``contexts``, as
    a term base needs it, the evidence is added to the contexts of the terms, and the figures to the target's note.
    """
    for match in matching.matches:
        source, target = match.source, match.target
        if contexts:
            figures = f"margin {match.margin:.3f}, {'mutual best' if match.mutual else f'rank {match.rank}'}"
            source = replace(source, contexts=_add_evidence(source.contexts, match.source_evidence))
            note = f"{target.note}; {figures}" if target.note else figures
            target = replace(target, contexts=_add_evidence(target.contexts, match.target_evidence), note=note)
        yield TermPair(source, target, match.score, {} if contexts else _facts(match, matching.settings.evidence))


def _add_evidence(contexts: tuple[str, ...], evidence: Sequence[Phrase]) -> tuple[str, ...]:
    """Return the contexts of a term, followed by the sentences of the evidence, each once."""
    return tuple(dict.fromkeys([*contexts, *(phrase.context for phrase in evidence)]))


def _facts(match: Match, evidence: int) -> dict[str, Any]:
    """Return the metadata of a match by column name, always with ``evidence`` sentences per side, "" if missing."""
    facts: dict[str, Any] = {"margin": round(match.margin, 6), "mutual": "yes" if match.mutual else "no"}
    facts |= {"rank": match.rank, "target_id": match.target.id}
    facts |= {"source_examples": match.source_examples, "target_examples": match.target_examples}
    for name, phrases in (("source", match.source_evidence), ("target", match.target_evidence)):
        contexts = [marked(phrase.context, phrase.start, phrase.end) for phrase in phrases[:evidence]]
        for number, text in enumerate([*contexts, *[""] * (evidence - len(contexts))], 1):
            facts[f"{name}_evidence_{number}"] = text
    return facts


def _distinct(terms: Iterable[Term], name: str) -> list[Term]:
    """Return the first term of each wording, with white space normalised. Raises InputError if there is no term."""
    term_of: dict[str, Term] = {}
    for term in terms:
        text = " ".join(term.text.split())
        if text:
            term_of.setdefault(text, replace(term, text=text))
    if not term_of:
        raise InputError(f"no term in the {name} list; expected at least one")
    return list(term_of.values())


def _examples(
    terms: Sequence[Term], finder: Finder | None, name: str, limit: int, progress: Progress
) -> list[list[Phrase]]:
    """Find up to ``limit`` sentences for each term: first its own contexts that contain it, then those of the finder.

    ``name``: the list, for ``progress``.
    """
    examples = []
    for count, term in enumerate(terms, 1):
        marked_phrases = [Phrase(text, *spans[0]) for text in term.contexts if (spans := occurrences(term.text, text))]
        more = finder.find(term.text, limit) if finder is not None and limit > len(marked_phrases) else []
        examples.append(list({phrase.context: phrase for phrase in [*marked_phrases, *more]}.values())[:limit])
        progress(f"examples, {name}", count, len(terms))
    return examples


def _matches(pairs: Candidates, first: _TermVectors, second: _TermVectors, evidence: int) -> Iterable[Match]:
    """Make a `Match` of each pair; ``first`` and ``second`` are the source and the target terms."""
    for source, target, *figures in zip(*(column.tolist() for column in pairs), strict=True):
        examples = first.examples[source], second.examples[target]
        sentences = (_evidence(side, evidence) for side in examples)
        yield Match(first.terms[source], second.terms[target], *figures, *map(len, examples), *sentences)


def _evidence(examples: Sequence[Phrase], count: int) -> tuple[Phrase, ...]:
    """Choose the ``count`` examples whose lengths are nearest to `READABLE`."""
    return tuple(sorted(examples, key=lambda phrase: abs(len(phrase.context) - READABLE))[:count])


def _unmatched_terms(terms: Sequence[Term], ids: Ids) -> tuple[Term, ...]:
    """Return the terms whose numbers are not among ``ids``, the numbers of terms with a match."""
    match_ids = set(ids.tolist())
    return tuple(term for number, term in enumerate(terms) if number not in match_ids)


DEPTH = 20  # nearest terms of each term that become candidates, in both directions
LEAST = 1e-4  # lowest probability of a pair; the highest is 1 - LEAST, so that the log odds are finite
RIVAL = 0.05  # lower bound for the probability of the best other pair of a term
WEIGHTS = (-1.74, 4.63, 0.43)  # constant, CSLS, lead: a logistic regression (bench/match.py --fit)
UNLISTED = 0.5  # feature "no lexicon" if there is a lexicon: terms have unlisted equivalents more often than phrases


class Candidates(NamedTuple):
    """Pairs of a source and a target term that may match, sorted by source, then by margin, highest first.

    Attributes:
        sources: Numbers of the source terms, (pairs,).
        targets: Numbers of the target terms, (pairs,).
        scores: Cosines, (pairs,).
        margins: Margins, (pairs,).
        ranks: Ranks among the pairs of the source term, from 1, (pairs,).
        mutual: Whether each term is the other's best candidate by margin, (pairs,).
    """

    sources: Ids
    targets: Ids
    scores: Floats
    margins: Floats
    ranks: Ids
    mutual: NDArray[np.bool_]

    def only(self, mask: NDArray[np.bool_]) -> Candidates:
        """Return the candidates for which the mask (pairs,) is True."""
        return Candidates._make(column[mask] for column in self)


def candidates(source: Floats, target: Floats, k: int = 10, how: str = "csls", depth: int = DEPTH) -> Candidates:
    """Return the pairs where either term is among the other's nearest by cosine, with their margins.

    All n x m cosines are computed, but only a block of them is in memory at a time.

    Args:
        source: Vectors of the source terms (n, dim), of unit length.
        target: Vectors of the target terms (m, dim), of unit length.
        k: Number of nearest terms of the other list whose mean cosine a margin compares with.
        how: Name of the margin (`phrasemate.utils.margin.margin_of`).
        depth: Number of nearest terms of each term that become pairs, at least `DEPTH` and k.
    """
    depth = max(depth, DEPTH, k)
    near, cosines = nearest(source, target, depth)  # (n, depth) each
    back, back_cosines = nearest(target, source, depth)  # (m, depth)
    source_means, target_means = cosines[:, :k].mean(1), back_cosines[:, :k].mean(1)
    rows, columns, scores = neighbour_pairs(Run(near, cosines), Run(back, back_cosines))
    return _sort_pairs(rows, columns, scores, margin_of(scores, source_means[rows], target_means[columns], how))


def _sort_pairs(rows: Ids, columns: Ids, scores: Floats, margins: Floats) -> Candidates:
    """Sort pairs by source and margin, and compute their ranks and which are mutual.

    ``rows`` and ``columns``: numbers of the source and the target terms.
    """
    order = np.lexsort((columns, -margins, rows))
    rows, columns, scores, margins = rows[order], columns[order], scores[order], margins[order]
    ranks = np.arange(len(rows)) - np.searchsorted(rows, rows) + 1
    is_best_of_target = np.zeros(len(rows), np.bool_)
    by_target = np.lexsort((rows, -margins, columns))
    is_best_of_target[by_target[np.unique(columns[by_target], return_index=True)[1]]] = True
    return Candidates(rows, columns, scores, margins, ranks, is_best_of_target & (ranks == 1))


class Occurrences(NamedTuple):
    """Terms with their occurrences in sentences, as a scorer compares them.

    A term without sentences has one occurrence: the term itself, without a context.

    Attributes:
        terms: Wordings of the terms.
        counts: Number of occurrences of each term, at least one, (terms,).
        vectors: Vectors of the occurrences, in the order of the terms, (sum of counts, dim).
        alone: Vectors of the terms without a context, (terms, dim).
    """

    terms: list[str]
    counts: Ids
    vectors: Floats
    alone: Floats

    @property
    def types(self) -> Floats:
        """Mean vector of each term's occurrences, (terms, dim), of unit length."""
        return unit(np.add.reduceat(self.vectors, np.cumsum(self.counts) - self.counts))


def _occurrences(side: _TermVectors, model: Model) -> Occurrences:
    """Encode the terms of a list in their sentences and alone, as searches do."""
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
    """Let a scorer of searches rate pairs of terms, as if the target terms were the wordings of an index.

    The margins of the pairs are the scorer's probabilities, and their scores the cosines of the terms' mean vectors.
    The scorer was fitted on single queries, so these probabilities ignore the other terms; see `weigh_pairs`. It was
    also fitted on queries that are not English, so if the source terms are English, the target terms are the queries.

    Args:
        source: Source terms.
        target: Target terms.
        scorer: Scorer of candidates.
        languages: Codes of the source and of the target language; "" if unknown.
        lexicons: Dictionaries that propose candidates, in addition to the bundled lexicon.
    """
    if languages[0] == "en" != languages[1]:
        mirror = likely_pairs(target, source, scorer, languages[::-1], lexicons)
        return _sort_pairs(mirror.targets, mirror.sources, mirror.scores, mirror.margins)
    texts = [*map(folded, target.terms)]
    table = _wording_table(texts, target.counts, languages[1] or "en")
    near = _nearest_terms(source, target)
    firsts = np.cumsum(target.counts) - target.counts
    lexicon = bundled_lexicon()
    dictionaries = Dictionaries([*lexicons, *([] if lexicon is None else [lexicon])], [languages[1]])
    no_lexicon = UNLISTED if dictionaries.has_lexicon(languages[0]) else 1.0
    proposed, query_words = [], []
    for term, row in zip(source.terms, near, strict=True):
        parts = proposals.parts(term, dictionaries, languages[0])
        equivalents = proposals.equivalents(table, term, dictionaries, languages[0])
        compositions = proposals.compositions(table, parts, languages[1] or "en")
        nearest = table.by_wording(firsts[row[row >= 0]].tolist())
        proposed.append(proposals.gather(table, term, nearest, equivalents, compositions))
        query_words.append(proposals.QueryWords(languages[0], parts, {}, no_lexicon))
    search = WordingSearch(table, lambda ids: target.vectors[ids])
    descriptions = describe(
        search, source.terms, proposed, source.types, source.alone, languages[1] or "en", query_words
    )
    term_of = {text: number for number, text in reversed([*enumerate(texts)])}  # the first term with a wording
    pairs = [
        (row, term_of[candidate.wording], probability)
        for row, item in enumerate(descriptions)
        if item.candidates
        for candidate, probability in zip(item.candidates, scorer.probabilities(item.features).tolist(), strict=True)
    ]
    rows, columns = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    scores = np.einsum("nd,nd->n", source.types[rows], target.types[columns])
    return _sort_pairs(rows, columns, scores, np.array([probability for _, _, probability in pairs], np.float32))


def _wording_table(texts: Sequence[str], counts: Ids, language: str) -> Wordings:
    """Make the table of wordings that an index of the terms' occurrences would have.

    Args:
        texts: Folded wordings of the terms.
        counts: Number of occurrences of each term, (terms,).
        language: Language of the terms.
    """
    distinct, count = list(dict.fromkeys(texts)), int(counts.sum())
    numbers = np.repeat(numbered(texts), counts)
    segment = segment_of(distinct, [language] * len(distinct), numbers, np.arange(count), 0, count)
    return Wordings([segment], Runs(np.zeros((0, 2), np.int64)))


def _nearest_terms(source: Occurrences, target: Occurrences) -> Ids:
    """Return the up to `DEPTH` nearest target terms of each source term, -1 for none, (source terms, depth).

    Terms are compared by their mean vectors and by their vectors without a context, with equal weights.
    """
    source_keys, target_keys = (
        np.concatenate([side.types, side.alone], 1) / np.float32(2**0.5) for side in (source, target)
    )
    depth = min(DEPTH, len(target.terms))
    return nearest(source_keys.astype(np.float32), target_keys.astype(np.float32), depth)[0]


def weigh_pairs(pairs: Candidates, source: Floats, target: Floats, k: int = 10) -> Candidates:
    """Replace the probabilities of `likely_pairs` by ones that depend on the other pairs of the same terms, too.

    The probability is 1 / (1 + exp -(a + b CSLS + c lead)), with a, b and c from `WEIGHTS`. The scores become the
    cosines of ``source`` and ``target``. The arguments are those of `measure_pairs`.
    """
    scores, *standings = measure_pairs(pairs, source, target, k)
    constant, *weights = WEIGHTS
    log_odds = constant + sum(weight * values for weight, values in zip(weights, standings, strict=True))
    margins = (1 / (1 + np.exp(-log_odds))).astype(np.float32)
    return _sort_pairs(pairs.sources, pairs.targets, scores, margins)


def measure_pairs(pairs: Candidates, source: Floats, target: Floats, k: int = 10) -> tuple[Floats, Floats, Floats]:
    """Compare pairs with the other pairs of their terms: return cosines, CSLS and leads, (pairs,) each.

    The lead is that of the scorer's log odds over the best other pair of the source, plus that over the best other pair
    of the target (`phrasemate.utils.margin.lead`). The best other pair counts with a probability of at least `RIVAL`.

    Args:
        pairs: Pairs with a scorer's probabilities as margins.
        source: Vectors of the source terms (n, dim), of unit length.
        target: Vectors of the target terms (m, dim), of unit length.
        k: Number of nearest terms of the other list that CSLS compares with.
    """
    rows, columns = pairs.sources, pairs.targets
    cosines = np.einsum("nd,nd->n", source[rows], target[columns])
    means = neighbour_means(source, target, k)[rows], neighbour_means(target, source, k)[columns]
    probabilities = np.clip(pairs.margins, LEAST, 1 - LEAST)
    log_odds = np.log(probabilities / (1 - probabilities))
    return cosines, margin_of(cosines, *means, "csls"), lead(rows, columns, log_odds, log(RIVAL / (1 - RIVAL)))


def _language(side: MatchSide) -> str:
    """Return the language that all terms of a list share; "" if it is not given or they differ."""
    languages = {primary(term.language) for term in side.terms}
    return languages.pop() if len(languages) == 1 else ""


def assign(pairs: Candidates) -> NDArray[np.bool_]:
    """Choose pairs so that no term is used twice and the sum of margins is greatest; return a mask (pairs,).

    Margins are shifted so that the lowest one is slightly above 0 and every pair is worth more than none. The solution
    is exact, on the sparse graph of the candidates. The solver is scipy's min_weight_full_bipartite_matching (LAPJVsp:
    Jonker and Volgenant 1987), with one extra column per source term that stands for "no match".

    Raises MissingExtra without scipy.
    """
    solve = matching_function()
    from scipy.sparse import csr_array

    if not len(pairs.sources):
        return np.zeros(0, np.bool_)
    rows, row = np.unique(pairs.sources, return_inverse=True)
    columns, column = np.unique(pairs.targets, return_inverse=True)
    worth = pairs.margins.astype(np.float64) - pairs.margins.min()
    step = 1e-6 + float(worth.max()) * 1e-6
    costs = worth.max() - worth + step  # costs of 0 would be missing edges
    dummy_worth = np.full(len(rows), worth.max() + 2 * step)
    values = np.concatenate([costs, dummy_worth])
    places = np.concatenate([row, np.arange(len(rows))]), np.concatenate([column, len(columns) + np.arange(len(rows))])
    graph = csr_array((values, places), shape=(len(rows), len(columns) + len(rows)))
    partners = np.full(len(rows), -1)
    mates = solve(graph)
    partners[mates[0]] = mates[1]
    return partners[row] == column  # type: ignore[no-any-return]


def matching_function() -> Any:
    """Import scipy's solver of the assignment problem. Raises MissingExtra without scipy."""
    return import_extra("scipy.sparse.csgraph", "scipy", "match").min_weight_full_bipartite_matching

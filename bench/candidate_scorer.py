"""Fits the scorer of a model's candidates on the dev half of the lookup yardstick, and writes it into its folder.

    python bench/candidate_scorer.py .cache/lookup --index .cache/lookup-20000 --index .cache/lookup-100000

Each index holds one of the yardstick's collections, built with the model. One query in `WITHOUT` is asked once more
without the lexicon, so that there are enough to fit the weights for queries without a listed candidate on. Queries
without a right candidate count for the probability, which so tells when there is no equivalent. Prints the share of dev
queries whose first candidate is right, and of ambiguous ones whose first candidate has the right sense, with weights
fitted on the other half of them.

The ambiguous phrases of senses.jsonl teach it to choose by meaning. Of their candidates, those of the right sense are
right; wrong are those of another sense and those that no dictionary lists. The others are left out. One in `FORGOTTEN`
is asked once more with a lexicon that lacks the right sense: the bundled one was counted in text like that of the
yardstick, so it knows more there than elsewhere. From these the scorer learns when to distrust what is listed. For the
same reason one query in `WITHOUT` is asked with a lexicon that lacks the phrase and has only other forms of its words.

Where the set tells which right wordings are usual, the share `USUAL` of the fit asks for one of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import parser
from scipy.optimize import minimize
from torch import nn

from phrasemate import Index, Searcher, load_model
from phrasemate.candidates import Described
from phrasemate.encode import Model
from phrasemate.encode.model_folder import bundled_folder
from phrasemate.encode.scoring import FEATURES, LISTED, CandidateScorer, HiddenUnit, alone
from phrasemate.evaluate.lookup import LookupQuery, SenseQuery, lemmas, read_lookups, read_senses
from phrasemate.lexicon import Equivalent, bundled_lexicon
from phrasemate.lexicon.wordings import Keys
from phrasemate.search import SearchRequest
from phrasemate.text import folded

AT_ONCE = 64
CALIBRATED = 5  # candidates of a query that probabilities are fitted on
UNITS, PENALTY = 16, 3e-3  # hidden units, and the weight of half the sum of all squared weights in the loss
STEPS, RATE = 300, 1e-2  # of Adam, over all queries at once; the rate falls to nothing
WITHOUT = 2
FORGOTTEN = 4
USUAL = 0.5


class ForgetfulLexicon:
    """The bundled lexicon without some English wordings (``forgotten``, lemmas) and without one ``absent`` wording."""

    name = "lexicon"
    forgotten: frozenset[str] = frozenset()
    absent = ""

    def equivalents(self, wording: str, lang: str = "", target: str = "") -> list[Equivalent]:
        """What the bundled lexicon gives, less what is forgotten; for the absent wording, by other forms."""
        lexicon, text = bundled_lexicon(), folded(wording)
        assert lexicon is not None
        if text != self.absent:
            every = lexicon.equivalents(wording, lang, target)
            return [equivalent for equivalent in every if lemmas(equivalent.text) not in self.forgotten]
        weights: dict[tuple[str, str], int] = {}
        for name, row in lexicon._listed(Keys.stemmed, lang, text, lang) if lang in lexicon.languages else []:
            if lexicon._keys_of(name).wordings[row] != text:
                lexicon._into_english(name, row, weights)
        return [Equivalent(text, weight / 100, self.name, "en", exact=False) for (_, text), weight in weights.items()]


def encoded(model: Model, queries: Sequence[LookupQuery | SenseQuery]) -> tuple[np.ndarray, np.ndarray]:
    """Vectors (queries, dim) of the phrases in their sentences, and by themselves."""
    phrases = [query.phrase for query in queries]
    return model.encode(phrases), model.encode(list(map(alone, phrases)))


def described(
    searcher: Searcher, queries: Sequence[LookupQuery | SenseQuery], vectors: np.ndarray, bare: np.ndarray
) -> list[Described]:
    """The candidates of all queries; a mate is left out."""
    rows: list[Described] = []
    for start in range(0, len(queries), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        mates = [query.mate if isinstance(query, SenseQuery) else "" for query in queries[part]]
        phrases = [query.phrase for query in queries[part]]
        with searcher.index.snapshot():
            rows += searcher.candidates(phrases, vectors[part], bare[part], SearchRequest(), mates)
    return rows


def described_by_less(
    index: Index, model: Model, queries: Sequence[LookupQuery | SenseQuery], vectors: np.ndarray, bare: np.ndarray
) -> list[Described]:
    """The candidates of each query, by a lexicon that lacks its right wordings, or the phrase of a look-up."""
    lexicon = ForgetfulLexicon()
    searcher = Searcher(index, model, lexicons=[lexicon], lexicon=False)
    rows: list[Described] = []
    for number, query in enumerate(queries):
        if isinstance(query, SenseQuery):
            lexicon.forgotten = frozenset(query.right)
        else:
            lexicon.absent = folded(query.phrase.text)
        one = slice(number, number + 1)
        rows += described(searcher, queries[one], vectors[one], bare[one])
    return rows


@dataclass
class Lookups:
    """Queries, the features of their candidates, which of these are right, of the right sense, and usual."""

    features: list[np.ndarray] = field(default_factory=list)  # (candidates, len(FEATURES)) of each query
    right: list[np.ndarray] = field(default_factory=list)  # (candidates,) bool
    sense: list[np.ndarray] = field(default_factory=list)  # the same; ``right`` where a phrase is not ambiguous
    usual: list[np.ndarray] = field(default_factory=list)  # the same; ``right`` where the set does not tell
    ambiguous: list[bool] = field(default_factory=list)
    lexicon: list[bool] = field(default_factory=list)  # whether the lexicon was asked
    numbers: list[int] = field(default_factory=list)  # of the queries in their set

    def add(self, queries: list[LookupQuery], rows: list[Described], lexicon: bool) -> None:
        """Add what a searcher proposed."""
        for number, (query, row) in enumerate(zip(queries, rows, strict=True)):
            self.numbers.append(number)
            compared = [lemmas(candidate.wording) for candidate in row.candidates]
            self.features.append(row.features.astype(float))
            self.right.append(np.array([wording in query.right for wording in compared], bool))
            sense = query.right if query.sense is None else query.sense
            self.sense.append(np.array([wording in sense for wording in compared], bool))
            usual = query.right if query.usual is None else query.usual
            self.usual.append(np.array([wording in usual for wording in compared], bool))
            self.ambiguous.append(query.sense is not None)
            self.lexicon.append(lexicon)

    def add_senses(self, queries: Sequence[SenseQuery], rows: Sequence[Described]) -> None:
        """Add ambiguous phrases: what was proposed of their right sense, of another one, and what is not listed."""
        for number, (query, row) in enumerate(zip(queries, rows, strict=True)):
            compared = [lemmas(candidate.wording) for candidate in row.candidates]
            right = np.array([wording in query.right for wording in compared], bool)
            other = np.array([wording in query.other for wording in compared], bool)
            if not (right.any() and other.any()):
                continue
            self.numbers.append(number)
            labelled = right | other | (row.features[:, LISTED] == 0)
            self.features.append(row.features[labelled].astype(float))
            self.right.append(right[labelled])
            self.sense.append(right[labelled])
            self.usual.append(right[labelled])
            self.ambiguous.append(True)
            self.lexicon.append(True)

    def chosen(self, numbers: np.ndarray) -> Lookups:
        """Some of the queries."""
        return Lookups(*([column[number] for number in numbers] for column in self._columns()))

    def joined(self, other: Lookups) -> Lookups:
        """These queries and others."""
        return Lookups(*(list(one) + list(two) for one, two in zip(self._columns(), other._columns(), strict=True)))

    def _columns(self) -> tuple[list[Any], ...]:
        return self.features, self.right, self.sense, self.usual, self.ambiguous, self.lexicon, self.numbers

    def first(self, scorer: CandidateScorer) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Whether the likeliest candidate of each query is right, of the right sense, and usual."""
        best = [int(scorer.probabilities(labelled).argmax()) if len(labelled) else -1 for labelled in self.features]
        right, sense, usual = (
            np.array([place >= 0 and bool(labelled[place]) for place, labelled in zip(best, column, strict=True)])
            for column in (self.right, self.sense, self.usual)
        )
        return right, sense, usual


def fitted(lookups: Lookups) -> CandidateScorer:
    """The scorer of some queries: of those with a listed candidate, and one for those without."""
    listed = np.array([bool(rows[:, LISTED].any()) for rows in lookups.features])
    unlisted = fitted_on(lookups.chosen(np.flatnonzero(~listed)))
    return replace(fitted_on(lookups.chosen(np.flatnonzero(listed))), unlisted=unlisted)


def fitted_on(lookups: Lookups) -> CandidateScorer:
    """Weights for some queries that rank, then a scale and a bias that make probabilities of their scores.

    Probabilities: logistic regression over each query's first `CALIBRATED` candidates, queries without a right one too.
    """
    features, hit = np.concatenate(lookups.features), np.concatenate(lookups.right)
    owner = np.repeat(np.arange(len(lookups.features)), [len(labelled) for labelled in lookups.right])
    scorer = ranking(features, owner, [(1 - USUAL, hit), (USUAL, np.concatenate(lookups.usual))])
    scores = scorer.log_odds(features)
    order = np.lexsort((-scores, owner))
    place = np.arange(len(order)) - np.searchsorted(owner, owner)  # owner is sorted: rank of each within its query
    ranked = order[place < CALIBRATED]

    def calibration(values: np.ndarray) -> tuple[float, np.ndarray]:
        logits = values[0] * scores[ranked] + values[1]
        off = 1 / (1 + np.exp(-logits)) - hit[ranked]
        value = (np.logaddexp(0, logits) - hit[ranked] * logits).mean()
        return float(value), np.array([(off * scores[ranked]).mean(), off.mean()])

    slope, bias = minimize(calibration, np.array([1.0, 0.0]), jac=True, method="L-BFGS-B").x
    return CandidateScorer(
        float(bias + slope * scorer.bias),
        tuple((slope * np.array(scorer.weights)).tolist()),
        units=tuple(unit._replace(output=float(slope * unit.output)) for unit in scorer.units),
    )


def ranking(features: np.ndarray, owner: np.ndarray, goals: Sequence[tuple[float, np.ndarray]]) -> CandidateScorer:
    """A scorer that puts candidates of each goal first; its probabilities mean nothing yet.

    The loss is the mean over the queries of -log of the softmax's share of a goal's candidates; a query counts for the
    goals that it has a candidate of.

    Args:
        features: Of the candidates of all queries (candidates, len(FEATURES)).
        owner: Number of the query of each candidate (candidates,), ascending.
        goals: Weight in the loss, and which candidates are meant (candidates,) bool.
    """
    torch.manual_seed(0)
    count, owners = int(owner[-1]) + 1, torch.from_numpy(owner)
    mean, scale = features.mean(0), features.std(0) + 1e-9
    x = torch.from_numpy((features - mean) / scale).float()
    linear, layer = nn.Linear(len(FEATURES), 1, bias=False), nn.Linear(len(FEATURES), UNITS)
    output = nn.Linear(UNITS, 1, bias=False)
    with torch.no_grad():
        output.weight.mul_(0.1)
    weights = [*linear.parameters(), *layer.parameters(), *output.parameters()]
    optimizer = torch.optim.Adam(weights, RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 1e-3, STEPS)
    for _ in range(STEPS):
        scores = (linear(x) + output(torch.relu(layer(x))))[:, 0]
        highest = torch.full((count,), -torch.inf).scatter_reduce(0, owners, scores.detach(), "amax")
        exponentials = torch.exp(scores - highest[owners])
        total = torch.zeros(count).index_add(0, owners, exponentials)
        loss = PENALTY / 2 * sum((weight**2).sum() for weight in weights)
        for share, good in goals:
            part = torch.zeros(count).index_add(0, owners, exponentials * torch.from_numpy(good))
            has_answer = part > 0
            loss = loss + share * torch.log(total[has_answer] / part[has_answer]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    slopes = linear.weight.detach().double().numpy()[0] / scale
    rows = layer.weight.detach().double().numpy() / scale
    biases = layer.bias.detach().double().numpy() - rows @ mean
    outputs = output.weight.detach().double().numpy()[0]
    columns = zip(outputs.tolist(), biases.tolist(), rows.tolist(), strict=True)
    units = tuple(HiddenUnit(value, bias, tuple(row)) for value, bias, row in columns)
    return CandidateScorer(float(-slopes @ mean), tuple(slopes.tolist()), units=units)


def main() -> None:
    """Fit, print, write."""
    options = parser(__doc__)
    options.add_argument("queries", type=Path)
    options.add_argument("--index", type=Path, action="append", required=True)
    args = options.parse_args()
    model = load_model(args.model, threads=args.threads)
    queries = [query for path in sorted(args.queries.glob("??.jsonl")) for query in read_lookups(path, "dev")]
    senses = read_senses(args.queries / "senses.jsonl", "dev")
    of_senses = encoded(model, senses)
    lookups, meanings, forgotten, absent = (Lookups() for _ in range(4))
    encodings, sparse, absentees = encoded(model, queries), slice(None, None, WITHOUT), slice(1, None, WITHOUT)
    some, rest = ([vectors[part] for vectors in encodings] for part in (sparse, absentees))
    for folder in args.index:
        with Index.open(folder, model, readonly=True) as index:
            lookups.add(queries, described(Searcher(index, model), queries, *encodings), True)
            without = described(Searcher(index, model, lexicon=False), queries[sparse], *some)
            lookups.add(queries[sparse], without, False)
            absent.add(queries[absentees], described_by_less(index, model, queries[absentees], *rest), True)
            meanings.add_senses(senses, described(Searcher(index, model), senses, *of_senses))
            forgotten.add_senses(senses, described_by_less(index, model, senses, *of_senses))
    count = len(lookups.right)
    answered = np.array([candidates.any() for candidates in lookups.right])
    meant = np.array(lookups.ambiguous) & np.array([candidates.any() for candidates in lookups.sense])
    right, sense, usual = (np.zeros(count, bool) for _ in range(3))
    numbers = np.arange(len(queries))
    halves = np.concatenate([numbers, numbers[sparse]] * len(args.index)) // 2 % 2 == 0  # a query is in one half alone
    parted = np.array(meanings.numbers) % 2 == 0
    meant_first = np.zeros(len(parted), bool)
    lacking = np.array(forgotten.numbers)
    unlisted_first = np.zeros(len(lacking), bool)
    some_lacking = lacking // 2 % FORGOTTEN == 0
    halves_of_absent = np.concatenate([numbers[absentees]] * len(args.index)) // 2 % 2 == 0
    absent_first = np.zeros(len(halves_of_absent), bool)
    for half, part, number in ((halves, parted, 0), (~halves, ~parted, 1)):
        examples = lookups.chosen(np.flatnonzero(half)).joined(meanings.chosen(np.flatnonzero(part)))
        examples = examples.joined(forgotten.chosen(np.flatnonzero(some_lacking & (lacking % 2 == number))))
        in_half = halves_of_absent == (number == 0)
        scorer = fitted(examples.joined(absent.chosen(np.flatnonzero(in_half))))
        absent_first[~in_half] = absent.chosen(np.flatnonzero(~in_half)).first(scorer)[0]
        right[~half], sense[~half], usual[~half] = lookups.chosen(np.flatnonzero(~half)).first(scorer)
        meant_first[~part] = meanings.chosen(np.flatnonzero(~part)).first(scorer)[1]
        others = np.flatnonzero(lacking % 2 != number)
        unlisted_first[others] = forgotten.chosen(others).first(scorer)[1]
    for name, rows in (("with", np.array(lookups.lexicon)), ("without", ~np.array(lookups.lexicon))):
        print(
            f"{name} lexicon: {rows.sum()} look-ups, a right candidate for {answered[rows].mean():.3f}, "
            f"of those right first {right[rows & answered].mean():.3f}, "
            f"usual first {usual[rows & answered].mean():.3f}; "
            f"of {(rows & meant).sum()} ambiguous ones the right sense first {sense[rows & meant].mean():.3f}"
        )
    ambiguous = np.array(meanings.ambiguous)
    has_right = np.array([candidates.any() for candidates in absent.right])
    print(f"the lexicon lacks the phrase: {len(has_right)} look-ups, right first {absent_first[has_right].mean():.3f}")
    print(
        f"of {ambiguous.sum()} phrases with several senses among their candidates the right one first "
        f"{meant_first[ambiguous].mean():.3f}; of {len(lacking)} whose right sense the lexicon lacks "
        f"{unlisted_first.mean():.3f}"
    )
    scorer = fitted(lookups.joined(meanings).joined(forgotten.chosen(np.flatnonzero(some_lacking))).joined(absent))
    facts = {"queries": count, "indexes": [folder.name for folder in args.index], "senses": len(senses)}
    facts["right first"] = right.mean()
    scorer.save(model.path or bundled_folder(), model.hash, facts)


if __name__ == "__main__":
    main()

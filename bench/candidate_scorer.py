"""Fit the scorer of a model's candidates on the dev half of the lookup yardstick, and write it into the model's folder.

    python bench/candidate_scorer.py .cache/lookup --index .cache/lookup-20000 --index .cache/lookup-100000 \
        --set .cache/lookup-de .cache/index-de --set .cache/lookup-fr .cache/index-fr

Each --set names look-ups in text of another language (`bench/lookup_set.py --into`) and the index of their collection.
They take part in the fit, too. The bundled scorer was fitted with sets of all 27 languages.

With --calibrate, the weights that rank candidates are kept. Only the probabilities of queries without a listed
candidate are fitted. With --rare, the words of `bench/lookup_set.py --unlisted`, which the lexicon lacks, take part in
the fit. The bundled scorer was fitted without them.

The weight of the feature "sense" outside the hidden units is not fitted, but set to `SENSE`. With --senses, only this
weight is set, and figures for several weights are printed.

Each index holds one of the yardstick's collections, and was built with the model. One query in `WITHOUT` is asked again
without the lexicon, so that there are enough queries without a listed candidate to fit their weights. Queries without a
right candidate count in the fit of the probability, so that it says when there is no equivalent. The script prints the
share of dev queries whose first candidate is right, and of ambiguous ones whose first candidate has the right sense.
For this, the weights are fitted on the other half of the dev queries.

The ambiguous phrases of senses.jsonl teach the scorer to choose by meaning. Each counts `SENSES` times. Candidates of
the right sense are right. Candidates of another sense, and those that no dictionary lists, are wrong. All others are
left out. One ambiguous phrase in `FORGOTTEN` is asked again with a lexicon that lacks the right sense. The bundled
lexicon was counted in text like that of the yardstick, so the scorer learns from these phrases when to distrust what is
listed. For the same reason, one query in `WITHOUT` is asked with a lexicon that has only other forms of the phrase's
words.

If the set says which right wordings are usual, the share `USUAL` of the loss asks for one of these.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from common import parser
from scipy.optimize import minimize
from torch import nn

from phrasemate import Index, Searcher, load_model
from phrasemate.encode import Model
from phrasemate.encode.model_folder import SCORER, bundled_folder
from phrasemate.encode.scoring import FEATURES, LISTED, CandidateScorer, HiddenUnit, alone, load_scorer
from phrasemate.evaluate.lookup import LookupQuery, SenseQuery, confidence_table, lemmas, read_lookups, read_senses
from phrasemate.features import CandidateSet
from phrasemate.lexicon import Equivalent, bundled_lexicon
from phrasemate.lexicon.wordings import Keys
from phrasemate.results import SearchRequest
from phrasemate.text import folded
from phrasemate.text.languages import primary

AT_ONCE = 64  # queries whose candidates are found together
NO_LEXICON = FEATURES.index("no lexicon")
CALIBRATED = 5  # first candidates of a query that probabilities are fitted on
UNITS, PENALTY = 16, 3e-3  # hidden units, and the weight of half the sum of all squared weights in the loss
STEPS, RATE = (
    300,
    1e-2,
)  # steps of Adam, over all queries at once, and its first learning rate, which falls to 0.001 of it
WITHOUT, FORGOTTEN, SENSES = 2, 4, 2
FORGETFUL = "the lexicon lacks the right sense"
SEVERAL = "several senses"
WITH_LEXICON, WITHOUT_LEXICON = "with lexicon", "without lexicon"
RARE, ABSENT = "words that the lexicon lacks", "the lexicon lacks the phrase"
KINDS = (WITH_LEXICON, WITHOUT_LEXICON, RARE, ABSENT, SEVERAL, FORGETFUL)
BANDS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.1)  # of the probabilities that --calibrate prints
USUAL = 0.5  # share of the loss that asks for usual wordings
SENSE = 10.0  # weight of the feature "sense"


class ForgetfulLexicon:
    """Bundled lexicon without some English wordings and without one source wording.

    ``forgotten`` are the English wordings, as lemmas; ``absent`` is the source wording.
    """

    name = "lexicon"
    forgotten: frozenset[str] = frozenset()
    absent = ""

    def equivalents(self, wording: str, lang: str = "", target: str = "") -> list[Equivalent]:
        """Return the equivalents of the bundled lexicon that are not forgotten.

        The equivalents of the absent wording are those of other forms of its words.
        """
        lexicon, text = bundled_lexicon(), folded(wording)
        assert lexicon is not None
        if text != self.absent:
            every = lexicon.equivalents(wording, lang, target)
            return [equivalent for equivalent in every if lemmas(equivalent.text) not in self.forgotten]
        weights: dict[tuple[str, str], int] = {}
        for name, row in lexicon._listed(Keys.stemmed, lang, text) if lang in lexicon.languages else []:
            if lexicon._keys_of(name).wordings[row] != text:
                lexicon._into_english(name, row, weights)
        return [Equivalent(text, weight / 100, self.name, "en", exact=False) for (_, text), weight in weights.items()]


def encoded(model: Model, queries: Sequence[LookupQuery | SenseQuery]) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors (queries, dim) of the phrases in their sentences, and of the phrases alone."""
    phrases = [query.phrase for query in queries]
    return model.encode(phrases), model.encode(list(map(alone, phrases)))


def described(
    searcher: Searcher, queries: Sequence[LookupQuery | SenseQuery], vectors: np.ndarray, bare: np.ndarray
) -> list[CandidateSet]:
    """Return the candidates of all queries; a sense query's mate is excluded."""
    rows: list[CandidateSet] = []
    for start in range(0, len(queries), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        mates = [query.mate if isinstance(query, SenseQuery) else "" for query in queries[part]]
        phrases = [query.phrase for query in queries[part]]
        with searcher.index.snapshot():
            rows += searcher.candidates(phrases, vectors[part], bare[part], SearchRequest(), mates)
    return rows


def described_by_less(
    index: Index, model: Model, queries: Sequence[LookupQuery | SenseQuery], vectors: np.ndarray, bare: np.ndarray
) -> list[CandidateSet]:
    """Return the candidates of each query by a lexicon that lacks the right wordings or, for a look-up, the phrase."""
    lexicon = ForgetfulLexicon()
    searcher = Searcher(index, model, lexicons=[lexicon], lexicon=False)
    rows: list[CandidateSet] = []
    for number, query in enumerate(queries):
        if isinstance(query, SenseQuery):
            lexicon.forgotten = frozenset(query.right)
        else:
            lexicon.absent = folded(query.phrase.text)
        one = slice(number, number + 1)
        rows += described(searcher, queries[one], vectors[one], bare[one])
        rows[-1].features[:, NO_LEXICON] = 0  # the bundled lexicon has these languages
    return rows


class Example(NamedTuple):
    """Query with the features of its candidates, and which of these are right, of the right sense, and usual.

    ``language`` is that of the index.
    ``features`` is (candidates, len(FEATURES)). ``sense`` equals ``right`` if the phrase is not ambiguous, ``usual``
    equals it if the set does not say. ``number`` is that of the query in its set. ``half`` is 0 or 1, and the same for
    all examples of a query.
    """

    kind: str
    language: str
    number: int
    half: int
    features: np.ndarray
    right: np.ndarray
    sense: np.ndarray
    usual: np.ndarray
    ambiguous: bool


def examples_of(
    queries: Sequence[LookupQuery], rows: Sequence[CandidateSet], kind: str, numbers: range, language: str = "en"
) -> list[Example]:
    """Return the candidates of look-ups as examples.

    ``numbers`` are the numbers of the queries, ``language`` is that of the index.
    """
    examples = []
    for number, query, row in zip(numbers, queries, rows, strict=True):
        compared = [lemmas(candidate.wording, language) for candidate in row.candidates]
        goals = (query.right, *(query.right if goal is None else goal for goal in (query.sense, query.usual)))
        labels = [np.array([wording in goal for wording in compared], bool) for goal in goals]
        features, ambiguous = row.features.astype(float), query.sense is not None
        examples.append(Example(kind, language, number, number // 2 % 2, features, *labels, ambiguous))
    return examples


def sense_examples(
    queries: Sequence[SenseQuery], rows: Sequence[CandidateSet], kind: str, language: str = "en"
) -> list[Example]:
    """Return the candidates of ambiguous phrases that are of the right sense, of another sense, or unlisted.

    ``language`` is that of the index.
    """
    examples = []
    for number, (query, row) in enumerate(zip(queries, rows, strict=True)):
        compared = [lemmas(candidate.wording, language) for candidate in row.candidates]
        right = np.array([wording in query.right for wording in compared], bool)
        other = np.array([wording in query.other for wording in compared], bool)
        if right.any() and other.any():
            labelled = right | other | (row.features[:, LISTED] == 0)
            features, labels = row.features[labelled].astype(float), [right[labelled]] * 3
            examples.append(Example(kind, language, number, number % 2, features, *labels, True))
    return examples


def is_unlisted(example: Example) -> bool:
    """Return whether no candidate is listed."""
    return not example.features[:, LISTED].any()


def first(example: Example, scorer: CandidateScorer) -> list[bool]:
    """Return whether the likeliest candidate is right, of the right sense, and usual."""
    best = int(scorer.probabilities(example.features).argmax()) if len(example.right) else None
    return [best is not None and bool(labels[best]) for labels in (example.right, example.sense, example.usual)]


def fitted(examples: Sequence[Example]) -> CandidateScorer:
    """Return the scorer fitted on queries with a listed candidate, and inside it the one for queries without."""
    examples = [one for one in examples if one.kind != FORGETFUL or one.number // 2 % FORGOTTEN == 0]
    examples += [one for one in examples if one.kind == SEVERAL] * (SENSES - 1)
    unlisted = fitted_on([example for example in examples if is_unlisted(example)])
    return replace(fitted_on([example for example in examples if not is_unlisted(example)]), unlisted=unlisted)


def fitted_on(examples: Sequence[Example]) -> CandidateScorer:
    """Fit the weights that rank candidates, then the probabilities of their scores."""
    features, owner, right = table_of(examples)
    goals = [(1 - USUAL, right), (USUAL, np.concatenate([example.usual for example in examples]))]
    return calibrated(ranking(features, owner, goals), examples)


def table_of(examples: Sequence[Example]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the features of all candidates, the numbers of their queries, and whether they are right."""
    owner = np.repeat(np.arange(len(examples)), [len(example.right) for example in examples])
    features, right = [example.features for example in examples], [example.right for example in examples]
    return np.concatenate(features), owner, np.concatenate(right)


def calibrated(scorer: CandidateScorer, examples: Sequence[Example]) -> CandidateScorer:
    """Return the scorer with a scale, a bias and a weight of "no lexicon" that give probabilities; it ranks as before.

    They come from logistic regression over the first `CALIBRATED` candidates of each query, with or without a right
    one.
    """
    features, owner, hit = table_of(examples)
    scores = scorer.log_odds(features)
    order = np.lexsort((-scores, owner))
    place = np.arange(len(order)) - np.searchsorted(owner, owner)  # owner is sorted: rank of each within its query
    ranked = order[place < CALIBRATED]
    inputs = np.column_stack([scores, np.ones(len(scores)), features[:, NO_LEXICON]])[ranked]

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        logits = inputs @ values
        off = 1 / (1 + np.exp(-logits)) - hit[ranked]
        return float((np.logaddexp(0, logits) - hit[ranked] * logits).mean()), (off @ inputs) / len(off)

    slope, bias, shift = minimize(loss, np.array([1.0, 0.0, 0.0]), jac=True, method="L-BFGS-B").x
    weights = slope * np.array(scorer.weights)
    weights[NO_LEXICON] += shift
    return CandidateScorer(
        float(bias + slope * scorer.bias),
        tuple(weights.tolist()),
        units=tuple(unit._replace(output=float(slope * unit.output)) for unit in scorer.units),
    )


def ranking(features: np.ndarray, owner: np.ndarray, goals: Sequence[tuple[float, np.ndarray]]) -> CandidateScorer:
    """Fit a scorer that puts candidates of each goal first; its probabilities are not calibrated.

    The loss is the mean over the queries of -log of the softmax's share of a goal's candidates. A query counts for the
    goals that it has a candidate of.

    Args:
        features: Features of the candidates of all queries (candidates, len(FEATURES)).
        owner: Number of the query of each candidate (candidates,), ascending.
        goals: Weight of each goal in the loss, and which candidates fulfil it (candidates,) bool.
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
    varies = features.std(0) > 0
    slopes = linear.weight.detach().double().numpy()[0] / scale * varies
    rows = layer.weight.detach().double().numpy() / scale * varies
    biases = layer.bias.detach().double().numpy() - rows @ mean
    outputs = output.weight.detach().double().numpy()[0]
    columns = zip(outputs.tolist(), biases.tolist(), rows.tolist(), strict=True)
    units = tuple(HiddenUnit(value, bias, tuple(row)) for value, bias, row in columns)
    return CandidateScorer(float(-slopes @ mean), tuple(slopes.tolist()), units=units)


def recalibrate(model: Model, examples: Sequence[Example], indexes: Sequence[str]) -> None:
    """Write the model's scorer again, with other probabilities for queries without a listed candidate."""
    folder = model.path or bundled_folder()
    scorer, facts = load_scorer(folder, model.hash), json.loads((folder / SCORER).read_text("utf-8"))["signature"]
    if scorer is None or scorer.unlisted is None:
        raise SystemExit(f"{folder}: no scorer to calibrate")
    unlisted = [example for example in examples if is_unlisted(example)]
    halves = [calibrated(scorer.unlisted, [one for one in unlisted if one.half != half]) for half in (0, 1)]
    print_confidence(unlisted, {"before": [scorer.unlisted] * 2, "fitted on the other half": halves})
    facts["calibration"] = {"queries": len(unlisted), "indexes": indexes}
    replace(scorer, unlisted=calibrated(scorer.unlisted, unlisted)).save(folder, model.hash, facts)


def weigh_senses(model: Model, examples: Sequence[Example]) -> None:
    """Write the model's scorer again with the weight `SENSE`, and print the shares of right answers for others."""
    folder = model.path or bundled_folder()
    scorer, facts = load_scorer(folder, model.hash), json.loads((folder / SCORER).read_text("utf-8"))["signature"]
    if scorer is None or scorer.unlisted is None:
        raise SystemExit(f"{folder}: no scorer to change")
    for weight in (0.0, SENSE / 2, SENSE, 2 * SENSE):
        weighed = with_sense(scorer, weight)
        for kind in (WITH_LEXICON, SEVERAL):
            of_kind = [example for example in examples if example.kind == kind and example.right.any()]
            right, _, usual = np.mean([first(example, weighed) for example in of_kind], axis=0)
            print(f"weight {weight:g}, {kind}: right first {right:.3f}, usual first {usual:.3f}")
    with_sense(scorer, SENSE).save(folder, model.hash, {**facts, "sense": SENSE})


def with_sense(scorer: CandidateScorer, weight: float) -> CandidateScorer:
    """Return the scorer with another weight of the feature "sense", for listed and unlisted queries."""
    weights = tuple(weight if name == "sense" else old for name, old in zip(FEATURES, scorer.weights, strict=True))
    unlisted = None if scorer.unlisted is None else with_sense(scorer.unlisted, weight)
    return replace(scorer, weights=weights, unlisted=unlisted)


def print_confidence(examples: Sequence[Example], scorers: Mapping[str, Sequence[CandidateScorer]]) -> None:
    """Print how often first candidates of similar probability are right; ``scorers``: by name, one for each half."""
    sure, right = {}, {}
    for kind in dict.fromkeys(example.kind for example in examples):
        of_kind = [example for example in examples if example.kind == kind and len(example.right)]
        for name, of_halves in scorers.items():
            likely = [of_halves[example.half].probabilities(example.features) for example in of_kind]
            sure[f"{kind}, {name}"] = np.array([values.max() for values in likely])
            hits = [example.right[values.argmax()] for example, values in zip(of_kind, likely, strict=True)]
            right[f"{kind}, {name}"] = np.array(hits)
    table = confidence_table(sure, right, "no candidate listed", BANDS)
    for row in (table.header, *table.rows):
        print(*(round(cell, 3) if isinstance(cell, float) else cell for cell in row), sep="\t")


def report(examples: Sequence[Example]) -> None:
    """Print how often each kind of query has the right candidate first, with the scorer fitted on the other half."""
    scorers = [with_sense(fitted([one for one in examples if one.half != half]), SENSE) for half in (0, 1)]
    kinds = {(example.kind, example.language == "en") for example in examples}
    for kind, into_english in ((name, flag) for flag in (True, False) for name in KINDS if (name, flag) in kinds):
        of_kind = [one for one in examples if one.kind == kind and (one.language == "en") == into_english]
        hits = np.array([first(example, scorers[example.half]) for example in of_kind])
        has_right = np.array([example.right.any() for example in of_kind])
        meant = np.array([example.ambiguous and example.sense.any() for example in of_kind])
        right, _, usual = hits[has_right].mean(0)
        print(
            f"{'into' if into_english else 'from'} English, {kind}: {len(of_kind)} queries, a right candidate for "
            f"{has_right.mean():.3f}, of those right first "
            f"{right:.3f}, usual first {usual:.3f}; of {meant.sum()} ambiguous ones the right sense first "
            f"{hits[meant, 1].mean():.3f}"
        )


def examples_of_set(folder: Path, index: Index, model: Model) -> list[Example]:
    """Return the look-ups and ambiguous phrases of a set as examples, with and without the lexicon."""
    queries, senses = dev_queries(folder), read_senses(folder / "senses.jsonl", "dev")
    encodings, of_senses, language = encoded(model, queries), encoded(model, senses), primary(index.languages()[0])
    sparse, numbers = slice(None, None, WITHOUT), range(len(queries))
    some = [vectors[sparse] for vectors in encodings]
    searcher, bare = Searcher(index, model), Searcher(index, model, lexicon=False)
    examples = examples_of(queries, described(searcher, queries, *encodings), WITH_LEXICON, numbers, language)
    without = described(bare, queries[sparse], *some)
    examples += examples_of(queries[sparse], without, WITHOUT_LEXICON, numbers[sparse], language)
    return examples + sense_examples(senses, described(searcher, senses, *of_senses), SEVERAL, language)


def dev_queries(folder: Path) -> list[LookupQuery]:
    """Read the dev half of the look-ups of all languages."""
    return [query for path in sorted(folder.glob("??.jsonl")) for query in read_lookups(path, "dev")]


def main() -> None:
    """Fit the scorer, print its figures and write it."""
    options = parser(__doc__)
    options.add_argument("queries", type=Path)
    options.add_argument("--index", type=Path, action="append", required=True)
    options.add_argument("--set", type=Path, nargs=2, action="append", default=[], metavar=("QUERIES", "INDEX"))
    options.add_argument("--calibrate", action="store_true")
    options.add_argument("--senses", action="store_true")
    options.add_argument("--rare", action="store_true")
    args = options.parse_args()
    model = load_model(args.model, threads=args.threads)
    queries = dev_queries(args.queries)
    rare = dev_queries(args.queries / "unlisted") if args.rare else []
    senses = [] if args.calibrate else read_senses(args.queries / "senses.jsonl", "dev")
    encodings, numbers = encoded(model, queries), range(len(queries))
    sparse, absentees = slice(None, None, WITHOUT), slice(1, None, WITHOUT)
    some, rest = ([vectors[part] for vectors in encodings] for part in (sparse, absentees))
    of_senses, of_rare = encoded(model, senses), encoded(model, rare)
    examples: list[Example] = []
    for folder in args.index:
        with Index.open(folder, model, readonly=True) as index:
            searcher, bare = Searcher(index, model), Searcher(index, model, lexicon=False)
            examples += examples_of(queries, described(searcher, queries, *encodings), WITH_LEXICON, numbers)
            if args.senses:
                examples += sense_examples(senses, described(searcher, senses, *of_senses), SEVERAL)
                continue
            without = described(bare, queries[sparse], *some)
            examples += examples_of(queries[sparse], without, WITHOUT_LEXICON, numbers[sparse])
            examples += examples_of(rare, described(searcher, rare, *of_rare), RARE, range(len(rare)))
            if args.calibrate:
                continue
            by_less = described_by_less(index, model, queries[absentees], *rest)
            examples += examples_of(queries[absentees], by_less, ABSENT, numbers[absentees])
            examples += sense_examples(senses, described(searcher, senses, *of_senses), SEVERAL)
            examples += sense_examples(senses, described_by_less(index, model, senses, *of_senses), FORGETFUL)
    if args.calibrate:
        recalibrate(model, examples, [folder.name for folder in args.index])
        return
    if args.senses:
        weigh_senses(model, examples)
        return
    for folder, path in args.set:
        with Index.open(path, model, readonly=True) as index:
            examples += examples_of_set(folder, index, model)
    report(examples)
    facts = {"queries": len(examples), "indexes": [folder.name for folder in args.index], "senses": len(senses)}
    facts |= {"sets": [folder.name for folder, _ in args.set], "sense": SENSE}
    with_sense(fitted(examples), SENSE).save(model.path or bundled_folder(), model.hash, facts)


if __name__ == "__main__":
    main()

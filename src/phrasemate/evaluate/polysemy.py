"""Ambiguous phrases: whether vectors in context find the English of the right sense, where vectors alone cannot.

The set (polysemy.jsonl) was made for this package. It has phrases of six languages, each with two senses or more. Each
sense has source sentences with the phrase marked (contexts), and marked English sentences that are not their
translations (mates). Two measures are taken for each context:

- sense: is the best mate of the right sense above the best mates of the phrase's other senses? If n senses tie for
  the best and the right one is among them, the context counts 1/n.
- acc@1: is the best of the mates of all phrases one of the right sense? If several mates tie, the context counts as
  the share of them that is right.

A phrase vector encodes mainly what the words mean, and only weakly which sense is meant. The view "less alone"
subtracts from the vector in context `LESS` times the vector of the phrase alone. The remainder is what the sentence
adds: it separates senses better, and finds the phrase among all others worse. "Two steps" uses both vectors and the
similarity of the whole sentences (`choose_by_shift`).

Intervals and p come from the bootstrap over phrases, because the contexts of a phrase are not independent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.scoring import alone
from phrasemate.errors import QueryError, ReadError
from phrasemate.evaluate.data import json_lines
from phrasemate.evaluate.metrics import bootstrap, bootstrap_test, check_numbers
from phrasemate.evaluate.report import Table
from phrasemate.query import parse_query
from phrasemate.types import Encoder, Phrase
from phrasemate.utils.arrays import Doubles, Floats
from phrasemate.utils.margin import csls

BUNDLED_SET = Path(__file__).with_name("polysemy.jsonl")
EPSILON = 2e-6  # cosines that differ by less are tied; the rounding of float32
LESS = 0.8  # chosen on the phrases with even numbers
# Weight of the source vector in context, weight of the source vector alone, and whether mates are encoded alone.
VIEWS = {
    "in context": (1.0, 0.0, False),
    "less alone": (1.0, -LESS, False),
    "source alone": (0.0, 1.0, False),
    "both alone": (0.0, 1.0, True),
}
SENTENCE = 0.2  # weight of the whole sentences' similarity in "two steps"; chosen like `LESS`
WITHIN = 0.01  # the first step proposes mates whose CSLS is at most this much below the best; chosen like `LESS`


class Sense(NamedTuple):
    """Sense of a phrase: its usual English, marked source sentences (contexts), marked English sentences (mates)."""

    english: str
    contexts: list[Phrase]
    mates: list[Phrase]


class AmbiguousPhrase(NamedTuple):
    """Ambiguous phrase of a language with its senses."""

    lang: str
    phrase: str
    senses: list[Sense]


class Scores(NamedTuple):
    """Scores (n,) of contexts: the probabilities that the sense is right and that the best of all mates is right."""

    sense: Doubles
    first: Doubles


def read_polysemy(path: Path = BUNDLED_SET) -> list[AmbiguousPhrase]:
    """Read the ambiguous phrases of a file. Raises ReadError for a line that does not follow the format."""
    entries = []
    for number, row in enumerate(json_lines(path, ("lang", "phrase", "senses")), 1):
        try:
            senses = [
                Sense(item["english"], [*map(_phrase_of, item["contexts"])], [*map(_phrase_of, item["mates"])])
                for item in row["senses"]
            ]
        except (KeyError, TypeError, QueryError) as error:
            raise ReadError(str(path), number, f"{error!s}", "expected senses with contexts and mates") from error
        if len(senses) < 2 or not all(sense.contexts and sense.mates for sense in senses):
            reason = "fewer than two senses, or a sense without contexts or mates"
            raise ReadError(str(path), number, reason, "expected two senses, each with a context and a mate")
        entries.append(AmbiguousPhrase(row["lang"], row["phrase"], senses))
    return entries


def _phrase_of(text: str) -> Phrase:
    phrases = parse_query(text).phrases
    if len(phrases) != 1:
        raise QueryError(f"{len(phrases)} marks in {text!r}, expected one")
    return phrases[0]


def score_senses(phrases: Sequence[AmbiguousPhrase], similar: Floats) -> Scores:
    """Score each context by its similarities to all mates.

    Args:
        phrases: Ambiguous phrases.
        similar: Similarities (contexts, mates), both in the order of the phrases and their senses.

    Raises InputError for NaN among the similarities.
    """
    check_numbers(similar)
    context_phrase, context_sense = _numbers(phrases, "contexts")
    mate_phrase, mate_sense = _numbers(phrases, "mates")
    sense, first = np.zeros(len(similar)), np.zeros(len(similar))
    for i, row in enumerate(similar):
        right = mate_sense == context_sense[i]
        best = row >= row.max() - EPSILON
        first[i] = (best & right).sum() / best.sum()
        is_gold = mate_phrase == context_phrase[i]
        best = is_gold & (row >= row[is_gold].max() - EPSILON)
        ties = len(np.unique(mate_sense[best]))
        sense[i] = (best & right).any() / ties
    return Scores(sense, first)


def _numbers(phrases: Sequence[AmbiguousPhrase], side: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return two arrays (sentences,): the number of each sentence's phrase, and of its sense counted over all phrases.

    ``side`` is "contexts" or "mates".
    """
    owners = np.repeat(np.arange(len(phrases)), [len(phrase.senses) for phrase in phrases])
    sizes = [len(getattr(sense, side)) for phrase in phrases for sense in phrase.senses]
    return np.repeat(owners, sizes), np.repeat(np.arange(len(sizes)), sizes)


def choose_by_shift(similar: Floats, similar_alone: Floats) -> Floats:
    """Rank mates in two steps: propose those near the context, then order these by what the context adds.

    Step one proposes the mates whose CSLS is within `WITHIN` of the best. Step two ranks all mates by the CSLS of the
    similarity in context minus `LESS` times the similarity of the phrase alone. Proposed mates come before all others.
    CSLS compares a mate with its ten nearest contexts, so the result for one context depends on the other contexts.

    Args:
        similar: (contexts, mates) similarities of phrases in their sentences.
        similar_alone: (contexts, mates) similarities of the contexts' phrases alone with mates in their sentences.

    Returns scores (contexts, mates), comparable only within a row.
    """
    near = csls(similar)
    left = csls(similar - np.float32(LESS) * similar_alone)
    proposed = near >= near.max(1, keepdims=True) - WITHIN
    ranked: Floats = np.where(proposed, left + np.ptp(left) + 1, left)  # every proposed mate is above all others
    return ranked


def evaluate_senses(model: Encoder, phrases: Sequence[AmbiguousPhrase]) -> dict[str, Scores]:
    """Return the scores of each of `VIEWS`, and of the two steps (`choose_by_shift`)."""
    contexts = [context for phrase in phrases for sense in phrase.senses for context in sense.contexts]
    mates = [mate for phrase in phrases for sense in phrase.senses for mate in sense.mates]
    source, source_alone = model.encode(contexts), model.encode([alone(context) for context in contexts])
    targets = {bare: model.encode([alone(mate) for mate in mates] if bare else mates) for bare in (False, True)}
    sentences, mate_sentences = (model.encode([*map(_sentence, side)]) for side in (contexts, mates))
    scores = {
        name: score_senses(phrases, (share * source + share_alone * source_alone) @ targets[bare].T)
        for name, (share, share_alone, bare) in VIEWS.items()
    }
    similar = source @ targets[False].T + np.float32(SENTENCE) * (sentences @ mate_sentences.T)
    ranked = choose_by_shift(similar, source_alone @ targets[False].T)
    return {**scores, "two steps": score_senses(phrases, ranked)}


def _sentence(phrase: Phrase) -> Phrase:
    """Return the whole sentence of a phrase as a phrase."""
    return Phrase(phrase.context, 0, len(phrase.context))


def polysemy_tables(models: Mapping[str, Encoder], phrases: Sequence[AmbiguousPhrase], seed: int = 0) -> list[Table]:
    """Return the table of scores by model and view, with a row for guessing, and the table of right senses by language.

    Intervals and p come from the bootstrap over phrases with this seed.
    """
    owners = _numbers(phrases, "contexts")[0]
    langs = np.array([phrases[number].lang for number in owners])
    chance = np.array([1 / len(phrases[number].senses) for number in owners])
    rows: list[tuple[Any, ...]] = []
    by_lang: list[tuple[Any, ...]] = []
    for name, model in models.items():
        scores = evaluate_senses(model, phrases)
        whole = scores["in context"]
        for view, score in scores.items():
            differences = [100 * (first - second) for first, second in zip(whole, score, strict=True)]
            apart = [bootstrap(d, owners, seed=seed) if score is not whole else None for d in differences]
            p = None if score is whole else bootstrap_test(whole.sense, score.sense, owners, seed=seed)
            rows.append((name, view, *(bootstrap(s, owners, seed=seed) for s in score), *apart, p))
            by_lang.append((name, view, *(float(score.sense[langs == lang].mean()) for lang in np.unique(langs))))
    rows.append(("chance", "", bootstrap(chance, owners, seed=seed), None, None, None, None))
    header = ("model", "vectors", "sense", "acc@1", "points lost, sense", "points lost, acc@1", "p")
    title = f"Ambiguous phrases: {len(phrases)} phrases, {len(owners)} contexts"
    note = "[95 % interval of the bootstrap over phrases]; lost: against the same model in context; p: of the sense"
    columns = ("model", "vectors", *np.unique(langs))
    by_language = Table("polysemy languages", "Right senses by language", columns, tuple(by_lang))
    return [Table("polysemy", title, header, tuple(rows), note), by_language]

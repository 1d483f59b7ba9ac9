"""Scores of translations: BLEU, chrF and TER by sacrebleu, BERTScore by a local encoder, use of hints and terms.

BLEU (Papineni et al. 2002), chrF (Popović 2015) and TER (Snover et al. 2006) are corpus scores with sacrebleu's
signatures (Post 2018). Intervals and tests resample sentences (Koehn 2004). BERTScore (Zhang et al. 2020, eq. 1 to 3)
is computed without idf weights and without rescaling by a baseline; special tokens are left out.

A term of a term base counts if the reference uses one of its equivalents, because otherwise the sentence may mean
something else. Of overlapping terms the longest counts, of equally long ones the first. Wordings are compared by stems
if the language has a stemmer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode import Model
from phrasemate.encode.pooling import unit
from phrasemate.errors import InputError
from phrasemate.examples import occurrences
from phrasemate.lexicon import Dictionary
from phrasemate.lexicon.dictionary import terms_in
from phrasemate.lexicon.inflection import stemmed_all, without_function_words
from phrasemate.text import words
from phrasemate.utils import import_extra
from phrasemate.utils.arrays import Doubles

METRICS = ("BLEU", "chrF", "TER")
SAMPLES, SEED = 1_000, 12_345  # sacrebleu's defaults
ROUNDING = 1e-9  # rounding error of a sum, which depends on the order of its terms
BATCH = 256  # sentences whose token states are in memory at once


class ScoreComparison(NamedTuple):
    """Corpus score with its 95 % interval, and p of the paired bootstrap against the baseline.

    p is None for the baseline itself.
    """

    score: float
    low: float
    high: float
    p: float | None


def metric(name: str, target: str = "") -> Any:
    """Return a metric of sacrebleu with its default settings.

    ``target`` selects BLEU's tokenizer for zh, ja, ko and th. Raises InputError for an unknown metric, MissingExtra if
    sacrebleu is not installed.
    """
    metrics = import_extra("sacrebleu.metrics", "sacrebleu", "mt")
    if name not in METRICS:
        raise InputError(f"metric {name!r}; expected {', '.join(METRICS)}")
    if name == "BLEU":
        special = {"zh": "zh", "ja": "char", "ko": "char", "th": "char"}.get(target.split("-")[0])
        return metrics.BLEU(tokenize=special) if special else metrics.BLEU()
    return metrics.CHRF() if name == "chrF" else metrics.TER()


def corpus_statistics(measure: Any, outputs: Sequence[str], references: Sequence[str]) -> Doubles:
    """Return (sentences, n) the counts of a metric for each sentence; a corpus score is a function of their sums.

    Raises InputError for unequal numbers of translations and references, or none.
    """
    if not outputs or len(outputs) != len(references):
        raise InputError(f"{len(outputs)} translations and {len(references)} references; expected equal numbers")
    statistics = measure._extract_corpus_statistics(list(outputs), [list(references)])
    return np.array(statistics, np.float64)


def compare(
    name: str,
    systems: Mapping[str, Sequence[Doubles]],
    baseline: str,
    target: str = "",
    samples: int = SAMPLES,
) -> dict[str, ScoreComparison]:
    """Compare systems by a metric; the score of a system is the mean over several corpora.

    Each corpus is resampled separately, by sacrebleu's way of drawing, with the same draws for all systems. p is the
    share of resamples whose difference deviates from the mean difference by at least the absolute value of the measured
    one. sacrebleu itself uses the absolute differences minus their mean and one tail, which finds differences between
    equal systems.

    Args:
        name: Name of the metric, one of `METRICS`.
        systems: Statistics (sentences, n) of each corpus, for each system; the corpora are the same for all systems.
        baseline: System that the others are compared with.
        target: Target language.
        samples: Number of resamples.
    """
    measure = metric(name, target)
    sizes = [len(corpus) for corpus in systems[baseline]]
    draws = [_draws(size, samples, SEED + number) for number, size in enumerate(sizes)]
    scores = {system: _mean(measure, corpora, None) for system, corpora in systems.items()}
    resampled_means = {system: _mean(measure, corpora, draws) for system, corpora in systems.items()}
    comparisons = {}
    for system, values in resampled_means.items():
        low, high = np.quantile(values, [0.025, 0.975])
        p = None
        if system != baseline:
            differences = values - resampled_means[baseline]
            deviations = np.abs(differences - differences.mean())
            difference = abs(scores[system][0] - scores[baseline][0])
            p = float((1 + (deviations >= difference - ROUNDING).sum()) / (1 + samples))
        comparisons[system] = ScoreComparison(float(scores[system][0]), float(low), float(high), p)
    return comparisons


def _mean(measure: Any, corpora: Sequence[Doubles], draws: Sequence[NDArray[np.int64]] | None) -> Doubles:
    """Return (samples,) the mean over corpora of the scores of resampled corpora.

    Without ``draws`` the result is (1,), from the corpora themselves.
    """
    scores = []
    for number, corpus in enumerate(corpora):
        sums = corpus.sum(0)[None] if draws is None else np.stack([corpus[rows].sum(0) for rows in draws[number]])
        scores.append([measure._compute_score_from_stats(_plain(row)).score for row in sums])
    means: Doubles = np.mean(np.array(scores, np.float64), axis=0)
    return means


def _plain(row: Doubles) -> list[Any]:
    """Return a row of statistics with whole numbers as int, since sacrebleu divides by them and formats them."""
    return [int(value) if value == int(value) else float(value) for value in row]


@lru_cache(maxsize=16)
def _draws(size: int, samples: int, seed: int) -> NDArray[np.int64]:
    """Return (samples, size) numbers of sentences, drawn with replacement."""
    return np.random.default_rng(seed).choice(size, size=(samples, size), replace=True)


def bert_scores(
    model: Model, outputs: Sequence[str], references: Sequence[str], layer: int | None = None
) -> tuple[Doubles, Doubles, Doubles]:
    """Return (precision, recall, F1) of BERTScore, (sentences,) each, with the token states of a model.

    With unit states x of the reference and y of the output: R = mean_i max_j x_i.y_j, P = mean_j max_i x_i.y_j, F = 2PR
    / (P + R). An empty output scores 0. ``layer`` is the layer of the states; None for the last. Raises InputError for
    unequal numbers of translations and references.
    """
    if len(outputs) != len(references):
        raise InputError(f"{len(outputs)} translations but {len(references)} references; the numbers must be equal")
    rows = np.zeros((len(outputs), 3))
    for low in range(0, len(outputs), BATCH):
        side_states = [_states(model, texts[low : low + BATCH], layer) for texts in (outputs, references)]
        for number, (output, reference) in enumerate(zip(*side_states, strict=True), low):
            if len(output) and len(reference):
                rows[number] = _match(output @ reference.T)
    return rows[:, 0], rows[:, 1], rows[:, 2]


def _match(similarities: NDArray[np.float32]) -> tuple[float, float, float]:
    """Return precision, recall and F1 of cosines (output tokens, reference tokens)."""
    precision, recall = float(similarities.max(1).mean()), float(similarities.max(0).mean())
    total = precision + recall
    return precision, recall, 2 * precision * recall / total if total else 0.0


def _states(model: Model, texts: Sequence[str], layer: int | None) -> list[NDArray[np.float32]]:
    """Return (tokens, width) unit states of each text, without those of the opening and closing tokens."""
    arrays = []
    opening, closing = len(model.runtime.opening), len(model.runtime.closing)
    for states in model.token_states([text if text.strip() else "" for text in texts], layer):
        values = unit(states.values)
        arrays += [values[low + opening : high - closing] for low, high in pairwise(states.bounds)]
    return arrays


def hint_counts(records: Sequence[Mapping[str, Any]], references: Sequence[str]) -> Counter[str]:
    """Count what became of the hints of a run; ``records`` are as `phrasemate.mt.Translation.as_dict` gives them.

    ``phrases`` counts the phrases of the segmenter, ``hinted`` those with a hint, ``equivalents`` the equivalents of
    the hints. ``in_reference`` and ``in_output`` count the hints with an equivalent that occurs there as whole words.
    ``both`` counts the hints with an equivalent that occurs in both.
    """
    counts: Counter[str] = Counter()
    for record, reference in zip(records, references, strict=True):
        hints = record.get("hints", [])
        counts.update(phrases=len(record.get("phrases", [])), hinted=len(hints))
        for hint in hints:
            texts = [item["text"] for item in hint["equivalents"]]
            right = {text for text in texts if occurrences(text, reference)}
            used_texts = {text for text in texts if occurrences(text, record["translation"])}
            counts.update(equivalents=len(texts), in_reference=bool(right), in_output=bool(used_texts))
            counts.update(both=bool(right & used_texts))
    return counts


Stems = tuple[str, ...]


class Term(NamedTuple):
    """Occurrence of a term: number of its sentence, its wording and place there, stems of each equivalent."""

    line: int
    wording: str
    equivalents: tuple[Stems, ...]
    start: int
    end: int


def stems_of(text: str, lang: str) -> Stems:
    """Return the words of a text, folded and cut to their stems."""
    return tuple(stemmed_all([text[start:end] for start, end in words(text)], lang))


def uses(stems: Stems, term: Term) -> bool:
    """Return whether a text with these stems contains an equivalent of a term."""
    return any(
        equivalent == stems[at : at + len(equivalent)]
        for equivalent in term.equivalents
        for at in range(len(stems) - len(equivalent) + 1)
    )


def terms_of(
    sources: Sequence[str],
    references: Sequence[str],
    dictionaries: Sequence[Dictionary],
    lang: str,
    target: str,
) -> list[Term]:
    """Return the terms of the source sentences that the references use, in order of sentences."""
    terms = []
    for line, (source, reference) in enumerate(zip(sources, references, strict=True)):
        stems = stems_of(reference, target)
        terms += [term for term in _terms_in_sentence(line, source, dictionaries, lang, target) if uses(stems, term)]
    return terms


def _terms_in_sentence(line: int, text: str, dictionaries: Sequence[Dictionary], lang: str, target: str) -> list[Term]:
    terms = []
    for occurrence in terms_in(text, dictionaries, lang, target):
        stems = [stems_of(without_function_words(wording, target), target) for wording in occurrence.equivalents]
        if stems := list(dict.fromkeys(filter(None, stems))):
            start, end, _ = occurrence
            terms.append(Term(line, text[start:end], tuple(stems), start, end))
    return terms


HINT_KINDS = ("right", "wrong", "none")  # kinds of hints that a term may have


def kind_of_hint(term: Term, hints: Sequence[Mapping[str, Any]], target: str) -> str:
    """Return what the hints of its sentence give for a term: the right wording, only others, or nothing (`HINT_KINDS`).

    A hint belongs to a term if its phrase shares a character with the term, or if it has no place. ``hints`` are as
    `phrasemate.mt.Hint.as_dict` gives them.
    """
    near = [hint for hint in hints if hint.get("start", 0) < term.end and term.start < hint.get("end", term.end)]
    texts = [str(equivalent["text"]) for hint in near for equivalent in hint["equivalents"]]
    if any(uses(stems_of(text, target), term) for text in texts):
        return "right"
    return "wrong" if near else "none"

"""Induced inflection rules: pairs of endings that relate the forms of a word.

The lexicon has "navrhuje" (he proposes) but not "navrhoval" (he proposed). Yet it has many pairs such as "opakuje" and
"opakoval", which share a beginning, these two endings and an English equivalent. So a word in -oval is likely to mean
the same as the one in -uje. In German and Dutch, a verb may also have an infix after its particle: "ab-zu-nehmen".

`learn_endings` counts for each pair of endings how many pairs of words differ in just these endings, and how many of
them share an equivalent. The ratio is the reliability of the pair. Compounds are not forms of their first part, so
"Spielhalle" and "Spiel" do not count. Soricut and Och (2015, "Unsupervised morphology induction using word embeddings")
learn such rules from text, and validate them by word vectors instead of equivalents.

``bench/endings.py`` computes the file from the bundled lexicon. It is a safetensors file with these arrays for each
language::

    XX.endings      (bytes,) uint8    pairs of endings, sorted, one pair per line, separated by a tab
    XX.reliability  (pairs,) uint8    reliability of each pair, in hundredths
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from phrasemate.lexicon.inflection import common_beginning
from phrasemate.lexicon.spelling import without_accents
from phrasemate.lexicon.wordings import Wordings, damage_error, encoded, open_bundled
from phrasemate.utils.storage import save_arrays

FORMAT = "phrasemate endings 1"
STEPS = 100  # a reliability of 1, as stored
LEAST = 8  # pairs of words, at least, that a reliability is estimated from
RELIABLE = 0.4  # least reliability of a pair of endings
CERTAIN = 0.8  # least reliability of a pair whose two words are nearly always forms of one word
COMMON = 3  # letters, at least, of the beginning that two forms share; also at least half of the longer form
SYLLABLES = 2  # the same for scripts in which a letter is a syllable
ENOUGH = 5  # shared letters that suffice for words of any length
MOST = 4  # forms of a word that are returned, at most
TAIL = 5  # letters of the last part of a compound, at least
LONGEST = 100  # letters of a word that is looked up, at most
COMPARED = 5_000  # wordings with the same beginning that are compared, at most
SHARED = 0.1  # least probability mass of equivalents that two forms of a word share
INFIX = 0.75  # reliability of a listed word that equals the word without its infix
PARTICLE, PARTICLES = 2, 8  # letters before an infix, at least and at most; at least two follow it
_INFIXES = {"de": ("zu", "ge"), "nl": ("ge",)}
_SYLLABIC = frozenset({"ko"})


class Form(NamedTuple):
    """Row of a wording that is probably another form of a word, and the reliability of the pair of endings."""

    row: int
    reliability: float


class Endings:
    """Pairs of endings of each language, from a file that `write_endings` wrote.

    Raises ModelDamaged for a file that is missing or damaged, ModelUnsupported for one of another format.

    >>> from phrasemate.lexicon.wordings import Wordings
    >>> wordings = Wordings.of(["narval", "navrhuje", "návrh"])
    >>> [wordings[form.row] for form in bundled_endings().forms("navrhoval", "cs", wordings)]
    ['navrhuje']
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path, self._rules = Path(path), dict[str, dict[tuple[str, str], float]]()
        self._file, facts = open_bundled(self._path, FORMAT)
        self.languages = frozenset(facts["languages"].split())

    def rules(self, language: str) -> Mapping[tuple[str, str], float]:
        """Return the reliability of each pair of endings of a language."""
        if language not in self._rules and language in self.languages:
            try:
                text, steps = (self._file.get_tensor(f"{language}.{part}") for part in ("endings", "reliability"))
                pairs = [line.split("\t") for line in text.tobytes().decode().split("\n")]
                shares = (steps / STEPS).tolist()
                self._rules[language] = {
                    (ending, partner): share for (ending, partner), share in zip(pairs, shares, strict=True)
                }
            except (SafetensorError, ValueError) as error:
                raise damage_error(self._path, FORMAT, error) from None
        return self._rules.get(language, {})

    def forms(self, word: str, language: str, wordings: Wordings) -> list[Form]:
        """Find other forms of a word, or of the last word of a wording: at most `MOST`, most reliable first.

        Args:
            word: Word or wording, folded.
            language: Its language, such as "cs".
            wordings: Wordings of this language, sorted by their bytes.
        """
        rules, least = self.rules(language), _least(language)
        if not rules or len(word) > LONGEST or not word.replace(" ", "").isalpha():
            return []
        forms: dict[int, float] = {}
        for base in (word, *_without_infix(word, language)):
            opening = base[: max(least, min(ENOUGH, (len(base) + 1) // 2))]  # that of each of its forms, by `_common`
            rows = wordings.beginning_with(opening)[:COMPARED] if len(base) >= least else range(0)
            for row, wording in zip(rows, wordings.texts(rows) if rows else (), strict=True):
                if wording == word:
                    continue
                reliability = INFIX if base == wording else _reliability(base, wording, rules, least)
                if reliability:
                    forms[row] = max(forms.get(row, 0.0), reliability)
        best = sorted(forms.items(), key=lambda form: -form[1])[:MOST]
        return [Form(row, reliability) for row, reliability in best]


def _reliability(one: str, other: str, rules: Mapping[tuple[str, str], float], least: int) -> float:
    """Return the reliability of the pair of endings in which two words differ, 0 without a common beginning."""
    common = _common(one, other, least)
    return rules.get((one[common:], other[common:]), 0.0) if common else 0.0


def _without_infix(word: str, language: str) -> list[str]:
    """Remove possible infixes between the particle and the verb: "abnehmen" for "abzunehmen"."""
    return [
        word[:place] + word[place + len(infix) :]
        for infix in _INFIXES.get(language, ())
        for place in range(PARTICLE, min(PARTICLES, len(word) - len(infix) - PARTICLE) + 1)
        if word.startswith(infix, place)
    ]


def _least(language: str) -> int:
    return SYLLABLES if language in _SYLLABIC else COMMON


def _common(word: str, partner: str, least: int) -> int:
    """Return the length of the common prefix of two words, or 0 if it is too short for forms of one word."""
    common = common_beginning(word, partner)
    return common if common >= least and (common >= ENOUGH or 2 * common >= max(len(word), len(partner))) else 0


def learn_endings(words: Mapping[str, Mapping[str, float]], language: str) -> dict[tuple[str, str], float]:
    """Estimate the reliability of pairs of endings: (ending of a word, ending of another form) -> reliability.

    Args:
        words: Words of a language, each with the probabilities of its English equivalents, or of their stems.
        language: The language of the words.
    """
    least, tally = _least(language), defaultdict[tuple[str, str], list[int]](lambda: [0, 0])
    for _, group in groupby(sorted(words), key=lambda word: word[:least]):
        for word, partner, common in _alike(list(group), least):
            if len(word) == common and _is_compound(partner, common, words):
                continue
            is_alike = overlap(words[word], words[partner]) >= SHARED
            for pair in ((word[common:], partner[common:]), (partner[common:], word[common:])):
                tally[pair][0] += is_alike
                tally[pair][1] += 1
    return {pair: good / count for pair, (good, count) in tally.items() if count >= LEAST and good >= RELIABLE * count}


def _is_compound(word: str, common: int, words: Container[str]) -> bool:
    """Whether the rest of a word after its first ``common`` letters is a word, give or take a linking letter."""
    tails = [word[start:] for start in (common - 1, common, common + 1)]
    return any(len(tail) >= TAIL and tail in words for tail in tails)


def _alike(words: Sequence[str], least: int) -> Iterator[tuple[str, str, int]]:
    """Iterate over pairs of words that may be forms of one word, with the length of their common prefix."""
    for number, word in enumerate(words):
        for partner in words[number + 1 :]:
            if common := _common(word, partner, least):
                yield word, partner, common


def overlap(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Return the probability mass that two distributions of equivalents share."""
    return sum([min(probability, other.get(equivalent, 0.0)) for equivalent, probability in one.items()])


def write_endings(
    path: str | os.PathLike[str],
    languages: Mapping[str, Mapping[tuple[str, str], float]],
    facts: Mapping[str, str] | None = None,
) -> None:
    """Write the pairs of endings of several languages, with their reliabilities; ``facts`` go into the metadata."""
    tensors: dict[str, NDArray[Any]] = {}
    for language, rules in languages.items():
        pairs = sorted(rules)
        text = "\n".join(map("\t".join, pairs))
        tensors[f"{language}.endings"] = np.frombuffer(encoded(text), np.uint8)
        steps = np.array([rules[pair] for pair in pairs]) * STEPS
        tensors[f"{language}.reliability"] = np.rint(steps).astype(np.uint8)
    save_arrays(Path(path), tensors, {**(facts or {}), "format": FORMAT, "languages": " ".join(sorted(languages))})


PATH = Path(__file__).parent.parent / "models" / "lexicon" / "endings.safetensors"


@cache
def bundled_endings() -> Endings | None:
    """Return the inflection rules of the package, read once; None if they are not installed."""
    return Endings(PATH) if PATH.exists() else None


def reliability_of_endings(one: str, other: str, language: str) -> float:
    """Return the reliability of the pair of endings in which two folded wordings differ, 0 if they are not related.

    The letters that the wordings share may differ in accents: "pokój" and "pokoju" (room) differ in -u.

    >>> [reliability_of_endings("proje", form, "tr") >= CERTAIN for form in ("projesi", "projektör")]
    [True, False]
    """
    endings = bundled_endings()
    rules, least = endings.rules(language) if endings else {}, _least(language)
    length = _common(without_accents(one), without_accents(other), least) if rules else 0
    if not length:
        return 0.0
    return max(rules.get((one[length:], other[length:]), 0.0), _reliability(one, other, rules, least))

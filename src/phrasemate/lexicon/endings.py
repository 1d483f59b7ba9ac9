"""Forms of words that a lexicon does not list: it lists other forms of them, with other endings.

The lexicon has "navrhuje" (he proposes) and not "navrhoval" (he proposed). But it has many pairs of words such as
"opakuje" and "opakoval", which begin alike, end as these two do, and have an English equivalent in common. So a word
in -oval is likely to mean what the one in -uje means. In German and Dutch, a verb may have an infix behind its
particle: "ab-zu-nehmen".

`learn_endings` counts for each pair of endings how many words have a word beside them that differs from them so, and
how many of these have an equivalent in common. The share of the latter is the reliability of the pair. A compound is
not a form of its first part, so "Spielhalle" and "Spiel" do not count. Soricut and Och (2015, "Unsupervised morphology
induction using word embeddings") learn such rules from a text, and test them by vectors instead of equivalents.

The file, which ``bench/endings.py`` makes of the bundled lexicon, is a safetensors file. It has for each language::

    XX.endings      (bytes,) uint8    pairs of endings, sorted: two endings with a tab between them, each pair a line
    XX.reliability  (pairs,) uint8    of each, in hundredths
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from phrasemate.errors import ModelDamaged, ModelUnsupported
from phrasemate.lexicon.wordings import Wordings, encoded
from phrasemate.utils.storage import save_arrays

FORMAT = "phrasemate endings 1"
STEPS = 100  # of a reliability of 1
LEAST = 8  # pairs of words that tell how reliable a pair of endings is
RELIABLE = 0.4  # at least, for a pair of endings to be kept
COMMON = 3  # letters with which forms of one word begin at least, and half of the longer one's
SYLLABLES = 2  # the same where a letter is a syllable
ENOUGH = 5  # letters that are enough, however long the words are
MOST = 4  # forms of a word
TAIL = 5  # letters of the last part of a compound
LONGEST = 100  # letters of a word that has forms
COMPARED = 5_000  # wordings with one beginning that are looked at
SHARED = 0.1  # probability that the equivalents of two words have in common, at least, if these are forms of one word
INFIX = 0.75  # reliability of a listed word that is the word without its infix
PARTICLE, PARTICLES = 2, 8  # letters before an infix, at least and at most; behind it there are two or more
_INFIXES = {"de": ("zu", "ge"), "nl": ("ge",)}
_SYLLABIC = frozenset({"ko"})


class Form(NamedTuple):
    """Row of a wording that is likely to be another form of a word, and the reliability of their endings."""

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
        try:
            self._file = cast(Any, safe_open(self._path, "numpy"))
            facts = self._file.metadata() or {}
        except (OSError, SafetensorError) as error:
            raise self._damaged(str(error)) from None
        if facts.get("format") != FORMAT:
            raise ModelUnsupported(f"{path}: format {facts.get('format')!r}; expected {FORMAT!r}")
        self.languages = frozenset(facts["languages"].split())

    def rules(self, language: str) -> Mapping[tuple[str, str], float]:
        """The reliability of each pair of endings of a language."""
        if language not in self._rules and language in self.languages:
            try:
                text, steps = (self._file.get_tensor(f"{language}.{part}") for part in ("endings", "reliability"))
                pairs = [line.split("\t") for line in text.tobytes().decode().split("\n")]
                shares = (steps / STEPS).tolist()
                self._rules[language] = {
                    (ending, partner): share for (ending, partner), share in zip(pairs, shares, strict=True)
                }
            except (SafetensorError, ValueError) as error:
                raise self._damaged(str(error)) from None
        return self._rules.get(language, {})

    def _damaged(self, why: str) -> ModelDamaged:
        return ModelDamaged(f"{self._path}: no endings can be read ({why}); install phrasemate again")

    def forms(self, word: str, language: str, wordings: Wordings) -> list[Form]:
        """Other forms of a word, or of the last word of a wording, the most reliable one first, at most `MOST`.

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
            rows = wordings.beginning_with(base[:least])[:COMPARED] if len(base) >= least else range(0)
            for row, wording in zip(rows, wordings.texts(rows) if rows else (), strict=True):
                if wording == word:
                    continue
                common = _common(base, wording, least)
                reliability = INFIX if base == wording else rules.get((base[common:], wording[common:]), 0.0)
                if common and reliability:
                    forms[row] = max(forms.get(row, 0.0), reliability)
        best = sorted(forms.items(), key=lambda form: -form[1])[:MOST]
        return [Form(row, reliability) for row, reliability in best]


def _without_infix(word: str, language: str) -> list[str]:
    """A word without what stands between its particle and its verb: "abzunehmen" is "abnehmen"."""
    return [
        word[:place] + word[place + len(infix) :]
        for infix in _INFIXES.get(language, ())
        for place in range(PARTICLE, min(PARTICLES, len(word) - len(infix) - PARTICLE) + 1)
        if word.startswith(infix, place)
    ]


def _least(language: str) -> int:
    return SYLLABLES if language in _SYLLABIC else COMMON


def _common(word: str, partner: str, least: int) -> int:
    """How many letters two words begin with alike; 0 if these are too few for forms of one word."""
    common = 0
    for letter, its_partner in zip(word, partner, strict=False):
        if letter != its_partner:
            break
        common += 1
    return common if common >= least and (common >= ENOUGH or 2 * common >= max(len(word), len(partner))) else 0


def learn_endings(words: Mapping[str, Mapping[str, float]], language: str) -> dict[tuple[str, str], float]:
    """The reliability of pairs of endings, (ending of a word, ending of another form of it).

    Args:
        words: Words of a language, each with its English equivalents, or their stems, and their probabilities.
        language: The language of the words.
    """
    least, tally = _least(language), defaultdict[tuple[str, str], list[int]](lambda: [0, 0])
    for _, group in groupby(sorted(words), key=lambda word: word[:least]):
        for word, partner, common in _alike(list(group), least):
            if len(word) == common and _is_compound(partner, common, words):
                continue
            is_alike = _shared(words[word], words[partner]) >= SHARED
            for pair in ((word[common:], partner[common:]), (partner[common:], word[common:])):
                tally[pair][0] += is_alike
                tally[pair][1] += 1
    return {pair: good / count for pair, (good, count) in tally.items() if count >= LEAST and good >= RELIABLE * count}


def _is_compound(word: str, common: int, words: Container[str]) -> bool:
    """Whether what stands behind so many letters of a word is a word, perhaps with or without a linking letter."""
    tails = [word[start:] for start in (common - 1, common, common + 1)]
    return any(len(tail) >= TAIL and tail in words for tail in tails)


def _alike(words: Sequence[str], least: int) -> Iterator[tuple[str, str, int]]:
    """Pairs of words that may be forms of one word, and how many letters they begin with alike."""
    for number, word in enumerate(words):
        for partner in words[number + 1 :]:
            if common := _common(word, partner, least):
                yield word, partner, common


def _shared(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    return sum(min(probability, other.get(equivalent, 0.0)) for equivalent, probability in one.items())


def write_endings(
    path: str | os.PathLike[str],
    languages: Mapping[str, Mapping[tuple[str, str], float]],
    facts: Mapping[str, str] | None = None,
) -> None:
    """Write pairs of endings of some languages, with their reliabilities; ``facts`` go into the metadata."""
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
    """The endings of the package; None where it was installed without them. They are read once."""
    return Endings(PATH) if PATH.exists() else None

"""The pairs of a phrase table that are worth keeping in a lexicon.

What a phrase table counts is mostly noise and composition. A pair stays if

- both wordings are words: letters, spaces, hyphens and apostrophes, no digits;
- its co-occurrence is significant by the log-likelihood ratio of its counts (Dunning 1993). Johnson, Martin, Foster &
  Kuhn (2007), "Improving translation quality by discarding most of the phrasetable", use Fisher's exact test for it.
  Pairs that were counted once stay only where a dictionary has them;
- p(English | wording), discounted, is at least `Pruning.least`, and the pair is among the `Pruning.most` best ones;
- neither side consists of function words, or is a better pair with function words around it ("the house"); single
  function words of both sides stay ("auf", "on"), so that phrases with them are translated word by word;
- neither side is a part of a better pair ("opener" of "can opener");
- a wording of several words has only words that translate one another, none of them a function word at an end; or it
  means something else than its words do ("in due course"), and that more than twice, in many of its occurrences.

Function words need no list for the other languages: they are the wordings whose translations are English ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import NamedTuple
from unicodedata import category

from phrasemate.lexicon.induced import Pair
from phrasemate.lexicon.inflection import stemmed_all
from phrasemate.text.sentences import words

Counts = Mapping[tuple[str, str], int]
"""How often a wording and an English one are linked."""

_FUNCTION_WORDS = """
a an the and or but nor so yet if than that as of to in into on onto at by for with without from about under between
among during before after above below against within upon per via is are was were be been being am do does did done
has have had having will would shall should can could may might must not no i you he she it we they me him her us them
my your his its our their mine yours hers ours theirs this these those there here who whom whose which what when where
why how all any some each every both such only also just then too very more most much many one ones other another same
own itself himself herself themselves myself yourself ourselves let get got while because though although until since
whether either neither again once ever 's n't 'll 've 're 'd 'm don't doesn't didn't isn't aren't wasn't i'm it's
you're we're they're
"""
ENGLISH_FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())  # without particles of verbs, such as "up"
_JOINERS = frozenset("'’-‐־״׳·\u200c\u200d")  # within words: apostrophes, hyphens, joiners of Persian
_UNSPACED = frozenset({"ja", "zh"})
_FREQUENT = 20  # links of a function word
_MOSTLY = 0.6  # of its links are to English function words
_SHARE = 0.3  # of a pair's links with which a shorter or longer one takes its place
_TRANSLATED = 0.05  # probability of a word of one side as the translation of a word of the other


@dataclass(frozen=True)
class Pruning:
    """What stays of a phrase table.

    ``significance`` is the least log-likelihood ratio of a pair; that of a pair of several words each of which is
    translated by itself must be ``composed`` times as high. ``idiomatic`` is the least probability of other pairs of
    several words, ``rare`` that of a pair that was counted twice. With ``hapaxes``, pairs of single words stay too that
    were counted once, if the wording was; about half of them are right, so this is for languages with little text.
    """

    significance: float = 10.0
    composed: float = 15.0
    idiomatic: float = 0.3
    rare: float = 0.15
    hapaxes: bool = False
    least: float = 0.03
    most: int = 6


class Scored(NamedTuple):
    """A pair and what it is worth: its log-likelihood ratio, as a pair of composed wordings weighs it."""

    pair: Pair
    worth: float


def likelihood_ratio(both: int, one: int, other: int, total: int) -> float:
    """Twice the log-likelihood ratio of two events that happen ``one`` and ``other`` times, ``both`` together.

    Of ``total`` trials; 0 if they happen together no more often than by chance.
    """
    if both * total <= one * other:
        return 0.0
    table = (
        (both, one * other),
        (one - both, one * (total - other)),
        (other - both, (total - one) * other),
        (total - one - other + both, (total - one) * (total - other)),
    )
    return 2 * sum(count * log(count * total / expected) for count, expected in table if count > 0)


def attested_pairs(counts: Counts, entries: Collection[tuple[str, str]], lang: str) -> set[tuple[str, str]]:
    """The pairs of a table that a dictionary has too, compared by stems: its entries are (wording, English wording)."""
    one_side = _stems((one for one, _ in (*counts, *entries)), lang)
    english_side = _stems((english for _, english in (*counts, *entries)), "en")
    known_pairs = {(one_side[one], english_side[english]) for one, english in entries}
    return {(one, english) for one, english in counts if (one_side[one], english_side[english]) in known_pairs}


def _stems(wordings: Iterable[str], lang: str) -> dict[str, str]:
    distinct = list(dict.fromkeys(wordings))
    return dict(zip(distinct, stemmed_all(distinct, lang), strict=True))


def select_pairs(
    counts: Counts, total: int, lang: str, attested: Collection[tuple[str, str]] = (), pruning: Pruning | None = None
) -> list[Scored]:
    """The pairs of a language that stay, the ones that are worth most first.

    ``total`` is the number of sentence pairs that were counted; ``attested`` are pairs that a dictionary has too.
    """
    return _Selection(counts, total, lang, frozenset(attested), pruning or Pruning()).pairs()


class _Selection:
    """One language's table while its pairs are chosen."""

    def __init__(
        self, counts: Counts, total: int, lang: str, attested: frozenset[tuple[str, str]], pruning: Pruning
    ) -> None:
        self.counts, self.total, self.attested, self.pruning = counts, total, attested, pruning
        self.links: Counter[str] = Counter()
        self.english_links: Counter[str] = Counter()
        for (one, english), count in counts.items():
            self.links[one] += count
            self.english_links[english] += count
        self.words = {one: _words(one, lang) for one in self.links}
        self.english_words = {english: tuple(english.split()) for english in self.english_links}
        self.join = "" if lang in _UNSPACED else " "
        self.function_words = self._function_words()
        self.wholes = self._wholes()

    def pairs(self) -> list[Scored]:
        by_wording: dict[str, list[tuple[str, int]]] = {}
        for (one, english), count in self.counts.items():
            if is_wording(one) and is_wording(english):
                by_wording.setdefault(one, []).append((english, count))
        scored = []
        for one, links in by_wording.items():
            links.sort(key=lambda link: (-link[1], link[0]))
            chosen = [pair for english, count in links if (pair := self._scored(one, english, count))]
            if [pair.pair.english for pair in chosen] != [one]:  # the same wording needs no dictionary
                scored += chosen[: self.pruning.most]
        scored += self._grammar(by_wording)
        return sorted(scored, key=lambda pair: -pair.worth)

    def _grammar(self, by_wording: Mapping[str, Sequence[tuple[str, int]]]) -> list[Scored]:
        """The function words with the English ones that they usually stand for, so that phrases with them translate."""
        return [
            Scored(Pair(one, english, count / self.links[one], count / self.english_links[english]), worth)
            for one in self.function_words & by_wording.keys()
            for english, count in by_wording[one][: self.pruning.most]
            if english in ENGLISH_FUNCTION_WORDS and count >= _TRANSLATED * self.links[one]
            for worth in [likelihood_ratio(count, self.links[one], self.english_links[english], self.total)]
            if worth >= self.pruning.significance
        ]

    def _scored(self, one: str, english: str, count: int) -> Scored | None:
        """The pair with its probabilities and worth, or None if it does not stay."""
        attested = (one, english) in self.attested
        forward = (count + attested) / (self.links[one] + attested + 1)
        least = self.pruning.rare if count + attested == 2 else self.pruning.least
        counted_once = count + attested < 2 and not (self.pruning.hapaxes and self._hapax(one, english))
        if forward < least or counted_once or self._redundant(one, english, count):
            return None
        ratio = likelihood_ratio(count, self.links[one], self.english_links[english], self.total)
        worth = ratio * (2 if attested else 1)
        backward = (count + attested) / (self.english_links[english] + attested + 1)
        edged = self._edged(one, english)
        if len(self.words[one]) > 1 and self._composed(one, english):
            worth /= self.pruning.composed
            if edged:
                return None
        elif len(self.words[one]) > 1 and not attested:
            if count < 3 + edged or forward < self.pruning.idiomatic or backward < self.pruning.least:
                return None
        elif edged and count < 3 and not attested:
            return None
        if worth < self.pruning.significance:
            return None
        return Scored(Pair(one, english, forward, backward), worth)

    def _hapax(self, one: str, english: str) -> bool:
        """Whether the two are single words of some length, and the wording has no other link."""
        long = len(one) > 2 or self.join == ""
        return self.links[one] == 1 and long and len(self.words[one]) == len(self.english_words[english]) == 1

    def _redundant(self, one: str, english: str, count: int) -> bool:
        """Whether function words make up a side or surround a better pair, or the pair is a part of a better one."""
        core, english_core = self._core(one), self._english_core(english)
        if not core or not english_core:
            return True
        if (core, english_core) != (one, english) and any(
            self.counts.get(pair, 0) >= _SHARE * count
            for pair in ((core, english_core), (one, english_core), (core, english))
            if pair != (one, english)
        ):
            return True
        return self.wholes.get((one, english), 0) >= 0.5 * count

    def _core(self, one: str) -> str:
        return self.join.join(_trimmed(self.words[one], self.function_words))

    def _english_core(self, english: str) -> str:
        return " ".join(_trimmed(self.english_words[english], ENGLISH_FUNCTION_WORDS))

    def _edged(self, one: str, english: str) -> bool:
        """Whether a wording of the two begins or ends with a function word."""
        ends, english_ends = ({words[0], words[-1]} for words in (self.words[one], self.english_words[english]))
        return not (self.function_words.isdisjoint(ends) and ENGLISH_FUNCTION_WORDS.isdisjoint(english_ends))

    def _composed(self, one: str, english: str) -> bool:
        """Whether every content word of one side translates one of the other side."""
        ones = [word for word in self.words[one] if word not in self.function_words]
        others = [word for word in self.english_words[english] if word not in ENGLISH_FUNCTION_WORDS]
        links = [(a, b) for a in ones for b in others if self._translates(a, b)]
        return {a for a, _ in links} == set(ones) and {b for _, b in links} == set(others)

    def _translates(self, one: str, english: str) -> bool:
        count = self.counts.get((one, english), 0)
        return count >= _TRANSLATED * min(self.links[one], self.english_links[english]) > 0

    def _function_words(self) -> frozenset[str]:
        """The words whose translations mostly are function words of English."""
        to_function_words: Counter[str] = Counter()
        for (one, english), count in self.counts.items():
            if len(self.words[one]) == 1 and ENGLISH_FUNCTION_WORDS.issuperset(self.english_words[english]):
                to_function_words[one] += count
        return frozenset(
            one for one, count in to_function_words.items() if count >= max(_MOSTLY * self.links[one], _FREQUENT)
        )

    def _wholes(self) -> Counter[tuple[str, str]]:
        """For each pair that is a part of longer ones, with content words left out, the links of the most frequent."""
        wholes: Counter[tuple[str, str]] = Counter()
        for (one, english), count in self.counts.items():
            for part in _parts(self.words[one], self.function_words):
                pair = self.join.join(part), english
                if pair in self.counts:
                    wholes[pair] = max(wholes[pair], count)
            for part in _parts(self.english_words[english], ENGLISH_FUNCTION_WORDS):
                pair = one, " ".join(part)
                if pair in self.counts:
                    wholes[pair] = max(wholes[pair], count)
        return wholes


def is_wording(text: str) -> bool:
    """Whether a text consists of words that begin with a letter and hold letters, marks, hyphens and apostrophes."""
    return all(word[:1].isalpha() and _spelt(word) for word in text.split(" "))


def _spelt(word: str) -> bool:
    return word.isalpha() or all(char.isalpha() or char in _JOINERS or category(char)[0] == "M" for char in word)


def _words(text: str, lang: str) -> tuple[str, ...]:
    if lang in _UNSPACED:
        return tuple(text[start:end] for start, end in words(text))
    return tuple(text.split())


def _trimmed(words: tuple[str, ...], function_words: frozenset[str]) -> tuple[str, ...]:
    """The words without function words at both ends."""
    start, end = 0, len(words)
    while start < end and words[start] in function_words:
        start += 1
    while end > start and words[end - 1] in function_words:
        end -= 1
    return words[start:end]


def _parts(words: tuple[str, ...], function_words: frozenset[str]) -> list[tuple[str, ...]]:
    """The shorter stretches of the words that lack at least one content word."""
    content = sum(word not in function_words for word in words)
    stretches = [words[a:b] for a in range(len(words)) for b in range(a + 1, len(words) + 1) if b - a < len(words)]
    return [part for part in stretches if 0 < sum(word not in function_words for word in part) < content]

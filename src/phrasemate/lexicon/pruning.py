"""Selection of the pairs of a phrase table that a lexicon keeps.

Most pairs of a phrase table are noise or compositional. `select_pairs` keeps the pairs that meet these conditions:

- Both wordings consist of words: letters, spaces, hyphens and apostrophes, no digits.
- The co-occurrence is significant by the log-likelihood ratio of its counts (Dunning 1993; Johnson et al. 2007 use
  Fisher's exact test). Pairs with a count of 1 are kept only if a dictionary has them.
- p(English | wording), discounted, is at least `Pruning.least`, and the pair is among the `Pruning.most` best ones.
- Neither side consists of several function words. Single ones are kept ("auf", "on"), so that phrases with them can be
  translated word by word.
- For a single word, no side has needless function words around it ("the house"), and no side is a part of a better pair
  ("opener" of "can opener").
- A wording of several words has a count of 2 or more, and `Pruning.phrase` of its links are to this English wording.
  Without its article it is a worse pair. If it has a negation, the English wording has one ("nicht gehen" is not "to
  go").

Word alignment misses many fixed expressions: hardly a word of "в конце концов" translates one of "in the end". So a
phrase table may be complemented by `Expression`s, which are counted in sentence pairs. They must pass the same
thresholds. They must not be compositional, part of a better expression, or a more frequent expression with further
words around it.

Most wordings of several words are compositional: "in meinem Zimmer". Others are units. A unit has a meaning that its
words do not have ("in due course"), in more than two and in a large share of its occurrences. A compositional wording
is also a unit if it is frequent and has no function word at either end. An English wording that translates a single
word is a unit, too.

Function words of the other languages need no list: they are the words that are mostly translated by English ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import NamedTuple
from unicodedata import category

from phrasemate.lexicon.induced import Pair
from phrasemate.lexicon.inflection import ARTICLES, ENGLISH_FUNCTION_WORDS, NEGATIONS, stemmed_all
from phrasemate.lexicon.wordings import UNSPACED, wording_of, words_of

Counts = Mapping[tuple[str, str], int]
"""(wording, English wording) -> number of their links."""

_JOINERS = frozenset("'’-‐־״׳·\u200c\u200d")  # within words: apostrophes, hyphens, joiners of Persian
_FREQUENT = 20  # links of a function word, at least
_MOSTLY = 0.6  # share of its links that are to English function words, at least
_SHARE = 0.3  # share of a pair's links that a pair without its function words needs to replace it
_WHOLE = 0.5  # share of an expression's links that a longer one needs to replace it
_OFTENER = 1.5  # how many times as frequent an expression is than the same with further words around it, at least
_TRANSLATED = 0.05  # share of either word's links that a translation has, at least


@dataclass(frozen=True)
class Pruning:
    """Thresholds for the pairs of a phrase table.

    ``significance``: least log-likelihood ratio of a pair. ``least``: least probability of a pair; ``rare``: of a word
    with a count of 2; ``phrase``: of a wording of several words. ``share``: divisor of the log-likelihood ratio in the
    worth of a wording of several words. ``composed``: factor of ``significance`` at which a compositional wording is a
    unit. ``idiomatic``: least probability of other units. ``hapaxes``: also keep pairs of single words with a count of
    1 if the word itself occurs once. About half of these are right, so this is for languages with little text.
    ``most``: pairs of a wording, at most.
    """

    significance: float = 10.0
    phrase: float = 0.1
    share: float = 3.0
    composed: float = 15.0
    idiomatic: float = 0.3
    rare: float = 0.15
    hapaxes: bool = False
    least: float = 0.03
    most: int = 6


class RatedPair(NamedTuple):
    """A pair and its worth: the log-likelihood ratio, or for a wording of several words a share of it."""

    pair: Pair
    worth: float


class Expression(NamedTuple):
    """A wording of several words and an English one, with counts of sentence pairs.

    ``together``: pairs with both. ``wordings``: those with the wording. ``englishes``: those with the English wording.

    >>> Expression("nach wie vor", "still", together=12, wordings=20, englishes=900).together
    12
    """

    wording: str
    english: str
    together: int
    wordings: int
    englishes: int


def likelihood_ratio(both: int, one: int, other: int, total: int) -> float:
    """Compute twice the log-likelihood ratio of the co-occurrence of two events (Dunning 1993).

    Of ``total`` trials, one event occurs in ``one``, the other in ``other``, both in ``both``. Returns 0 if they
    co-occur no more often than by chance.
    """
    if both * total <= one * other:
        return 0.0
    table = (
        (both, one * other),
        (one - both, one * (total - other)),
        (other - both, (total - one) * other),
        (total - one - other + both, (total - one) * (total - other)),
    )
    return 2 * sum(count * log(count * total / expected_count) for count, expected_count in table if count > 0)


def attested_pairs(counts: Counts, entries: Collection[tuple[str, str]], lang: str) -> set[tuple[str, str]]:
    """Return the pairs of a table that match an entry (wording, English wording) of a dictionary by stems."""
    one_side = _stems((wording for wording, _ in (*counts, *entries)), lang)
    english_side = _stems((english for _, english in (*counts, *entries)), "en")
    known_pairs = {(one_side[wording], english_side[english]) for wording, english in entries}
    return {
        (wording, english) for wording, english in counts if (one_side[wording], english_side[english]) in known_pairs
    }


def _stems(wordings: Iterable[str], lang: str) -> dict[str, str]:
    distinct = list(dict.fromkeys(wordings))
    return dict(zip(distinct, stemmed_all(distinct, lang), strict=True))


def select_pairs(
    counts: Counts,
    total: int,
    lang: str,
    attested: Collection[tuple[str, str]] = (),
    pruning: Pruning | None = None,
    expressions: Iterable[Expression] = (),
) -> list[RatedPair]:
    """Select the pairs of a language to keep, by worth, highest first.

    Args:
        counts: Phrase table.
        total: Number of sentence pairs that it was counted in.
        lang: The language that is not English.
        attested: Pairs that a dictionary has, too.
        pruning: Thresholds.
        expressions: Candidates for fixed expressions.
    """
    selection = _Selection(counts, total, lang, frozenset(attested), pruning or Pruning())
    pairs = selection.pairs()
    stay = {(entry.pair.wording, entry.pair.english) for entry in pairs}
    pairs += [
        entry for entry in selection.expressions(expressions) if (entry.pair.wording, entry.pair.english) not in stay
    ]
    return sorted(pairs, key=lambda pair: -pair.worth)


class _Selection:
    """Phrase table of one language during the selection of its pairs."""

    def __init__(
        self, counts: Counts, total: int, lang: str, attested: frozenset[tuple[str, str]], pruning: Pruning
    ) -> None:
        self.counts, self.total, self.attested, self.pruning = counts, total, attested, pruning
        self.lang = lang
        self.links: Counter[str] = Counter()
        self.english_links: Counter[str] = Counter()
        for (wording, english), count in counts.items():
            self.links[wording] += count
            self.english_links[english] += count
        self.words = {wording: words_of(wording, lang) for wording in self.links}
        self.english_words = {english: tuple(english.split()) for english in self.english_links}
        self.lang = lang
        self.function_words = self._function_words()
        self.articles, self.negations = self._translating(ARTICLES), self._translating(NEGATIONS)
        self.wholes = self._wholes()

    def pairs(self) -> list[RatedPair]:
        """Select pairs of the table."""
        by_wording: dict[str, list[tuple[str, int]]] = {}
        for (wording, english), count in self.counts.items():
            if is_wording(wording) and is_wording(english):
                by_wording.setdefault(wording, []).append((english, count))
        pair_scores = []
        for wording, links in by_wording.items():
            links.sort(key=lambda link: (-link[1], link[0]))
            top_pairs = [pair for english, count in links if (pair := self._scored(wording, english, count))]
            if [pair.pair.english for pair in top_pairs] != [wording]:  # the same wording needs no dictionary
                pair_scores += top_pairs[: self.pruning.most]
        pair_scores += self._grammar(by_wording)
        return pair_scores

    def expressions(self, candidates: Iterable[Expression]) -> list[RatedPair]:
        """Select pairs of fixed expressions."""
        by_wording: dict[str, list[Expression]] = {}
        for candidate in candidates:
            wording, english = candidate.wording, candidate.english
            if candidate.together < self.pruning.phrase * (candidate.wordings + 1):
                continue
            if is_wording(wording) and is_wording(english):
                self.words.setdefault(wording, words_of(wording, self.lang))
                self.english_words.setdefault(english, tuple(english.split()))
                if self._is_fixed(wording, english):
                    by_wording.setdefault(wording, []).append(candidate)
        best = [link for links in by_wording.values() for link in self._best(links)]
        pairs = [self._expression(link) for link in best if not self._surrounded(link, by_wording)]
        return [pair for pair in pairs if pair]

    def _is_fixed(self, wording: str, english: str) -> bool:
        """Whether a pair may be a fixed expression: not compositional, no article or stray function word at an end."""
        first, *_, last = self.english_words[english] * 2
        if first in ARTICLES or not self._english_core(english) or not self._negates(wording, english):
            return False
        loose = last in ENGLISH_FUNCTION_WORDS and self.words[wording][-1] not in self.function_words
        return not loose and last not in ARTICLES and not self._composed(wording, english)

    def _best(self, links: Sequence[Expression]) -> list[Expression]:
        """Select the most frequent translations of a wording.

        Translations that are part of a frequent longer one, or that extend a more frequent one, are omitted.
        """
        best: list[Expression] = []
        for link in sorted(links, key=lambda link: (-link.together, -len(link.english))):
            words_of_link = f" {link.english} "
            longer = [more for more in links if words_of_link in f" {more.english} " and more.english != link.english]
            is_part = any(more.together >= _WHOLE * link.together for more in longer)
            if not is_part and not any(f" {less.english} " in words_of_link for less in best):
                best.append(link)
        return best[: self.pruning.most]

    def _surrounded(self, link: Expression, links: Mapping[str, Sequence[Expression]]) -> bool:
        """Whether a shorter and more frequent part of the wording has the same translation, as in "and in the end"."""
        form_words = self.words[link.wording]
        shorter = [form_words[a:b] for a in range(len(form_words)) for b in range(a + 2, len(form_words) + 1)]
        return any(
            other.english == link.english
            and other.wordings >= _OFTENER * link.wordings
            and other.together * link.wordings >= _WHOLE * link.together * other.wordings
            for part in shorter
            for other in links.get(wording_of(part, self.lang), ())
        )

    def _expression(self, link: Expression) -> RatedPair | None:
        """Rate the pair of a link; None if it is not significant."""
        forward, backward = link.together / (link.wordings + 1), link.together / (link.englishes + 1)
        worth = likelihood_ratio(link.together, link.wordings, link.englishes, self.total)
        often = link.together >= 3 + self._edged(link.wording, link.english) and forward >= self.pruning.idiomatic
        pair = Pair(link.wording, link.english, forward, backward, often and backward >= self.pruning.least)
        return RatedPair(pair, worth) if worth >= self.pruning.significance else None

    def _grammar(self, by_wording: Mapping[str, Sequence[tuple[str, int]]]) -> list[RatedPair]:
        """Select the usual English function words for each function word, for word-by-word translation of phrases."""
        return [
            RatedPair(Pair(wording, english, count / self.links[wording], count / self.english_links[english]), worth)
            for wording in self.function_words & by_wording.keys()
            for english, count in by_wording[wording][: self.pruning.most]
            if english in ENGLISH_FUNCTION_WORDS and count >= _TRANSLATED * self.links[wording]
            for worth in [likelihood_ratio(count, self.links[wording], self.english_links[english], self.total)]
            if worth >= self.pruning.significance
        ]

    def _scored(self, wording: str, english: str, count: int) -> RatedPair | None:
        """Rate a pair with its probabilities; None if it is not kept."""
        is_attested = (wording, english) in self.attested
        forward = (count + is_attested) / (self.links[wording] + is_attested + 1)
        backward = (count + is_attested) / (self.english_links[english] + is_attested + 1)
        ratio = likelihood_ratio(count, self.links[wording], self.english_links[english], self.total)
        worth = ratio * (2 if is_attested else 1)
        several = len(self.words[wording]) > 1
        if several:
            stays = forward >= self.pruning.phrase and count + is_attested > 1 and self._negates(wording, english)
            stays = stays and bool(self._core(wording)) and bool(self._english_core(english))
            stays = stays and not self._only_articles(wording, english, count)
        else:
            stays = self._stays(wording, english, count, forward, is_attested)
        if not stays or worth < self.pruning.significance:
            return None
        unit = several and self._is_unit(Pair(wording, english, forward, backward), count, is_attested, worth)
        return RatedPair(
            Pair(wording, english, forward, backward, unit), worth / (self.pruning.share if several else 1)
        )

    def _is_unit(self, pair: Pair, count: int, is_attested: bool, worth: float) -> bool:
        """Whether the wording of several words in a pair that is kept is a unit."""
        wording, english = pair.wording, pair.english
        if self._redundant(wording, english, count):
            return False
        has_edges = self._edged(wording, english)
        if self._composed(wording, english):
            return not has_edges and worth >= self.pruning.composed * self.pruning.significance
        often = count >= 3 + has_edges and pair.forward >= self.pruning.idiomatic
        return is_attested or (often and pair.backward >= self.pruning.least)

    def _stays(self, wording: str, english: str, count: int, forward: float, is_attested: bool) -> bool:
        """Whether the pair of a single word is kept, provided it is significant."""
        least = self.pruning.rare if count + is_attested == 2 else self.pruning.least
        counted_once = count + is_attested < 2 and not (self.pruning.hapaxes and self._hapax(wording, english))
        if forward < least or counted_once or self._redundant(wording, english, count):
            return False
        return count > 2 or is_attested or not self._edged(wording, english)

    def _negates(self, wording: str, english: str) -> bool:
        """Whether the English wording has a negation if the other one has."""
        return self.negations.isdisjoint(self.words[wording]) or not NEGATIONS.isdisjoint(self.english_words[english])

    def _only_articles(self, wording: str, english: str, count: int) -> bool:
        """Whether a wording begins with an article and is about as good a pair without it."""
        first, *rest = self.words[wording]
        english_words = self.english_words[english]
        bare = wording_of(rest, self.lang), " ".join(english_words[english_words[0] in ARTICLES :])
        return first in self.articles and self.counts.get(bare, 0) >= _SHARE * count

    def _translating(self, english_words: Collection[str]) -> frozenset[str]:
        """Return the words whose most frequent translation is among some English words."""
        most: dict[str, tuple[int, str]] = {}
        for (wording, english), count in self.counts.items():
            if len(self.words[wording]) == 1:
                most[wording] = max(most.get(wording, (0, "")), (count, english))
        return frozenset(word for word, (_, english) in most.items() if english in english_words)

    def _hapax(self, wording: str, english: str) -> bool:
        """Whether both are single words, and the wording has no other link and is long enough."""
        long = len(wording) > 2 or self.lang in UNSPACED
        return self.links[wording] == 1 and long and len(self.words[wording]) == len(self.english_words[english]) == 1

    def _redundant(self, wording: str, english: str, count: int) -> bool:
        """Whether a side consists of function words, adds some to a better pair, or is a part of a better pair."""
        core, english_core = self._core(wording), self._english_core(english)
        if not core or not english_core:
            return True
        if (core, english_core) != (wording, english) and any(
            self.counts.get(pair, 0) >= _SHARE * count
            for pair in ((core, english_core), (wording, english_core), (core, english))
            if pair != (wording, english)
        ):
            return True
        return self.wholes.get((wording, english), 0) >= 0.5 * count

    def _core(self, wording: str) -> str:
        return wording_of(_trimmed(self.words[wording], self.function_words), self.lang)

    def _english_core(self, english: str) -> str:
        return " ".join(_trimmed(self.english_words[english], ENGLISH_FUNCTION_WORDS))

    def _edged(self, wording: str, english: str) -> bool:
        """Whether either wording begins or ends with a function word."""
        ends, english_ends = ({words[0], words[-1]} for words in (self.words[wording], self.english_words[english]))
        return not (self.function_words.isdisjoint(ends) and ENGLISH_FUNCTION_WORDS.isdisjoint(english_ends))

    def _composed(self, wording: str, english: str) -> bool:
        """Whether every content word of each side translates one of the other side."""
        wording_words = [word for word in self.words[wording] if word not in self.function_words]
        english_parts = [word for word in self.english_words[english] if word not in ENGLISH_FUNCTION_WORDS]
        links = [(a, b) for a in wording_words for b in english_parts if self._translates(a, b)]
        return {a for a, _ in links} == set(wording_words) and {b for _, b in links} == set(english_parts)

    def _translates(self, wording: str, english: str) -> bool:
        count = self.counts.get((wording, english), 0)
        return count >= _TRANSLATED * min(self.links[wording], self.english_links[english]) > 0

    def _function_words(self) -> frozenset[str]:
        """Return the words that are mostly translated by English function words."""
        to_function_words: Counter[str] = Counter()
        for (wording, english), count in self.counts.items():
            if len(self.words[wording]) == 1 and ENGLISH_FUNCTION_WORDS.issuperset(self.english_words[english]):
                to_function_words[wording] += count
        return frozenset(
            wording
            for wording, count in to_function_words.items()
            if count >= max(_MOSTLY * self.links[wording], _FREQUENT)
        )

    def _wholes(self) -> Counter[tuple[str, str]]:
        """Count for each pair the links of the most frequent pair that extends one side by a content word or more."""
        wholes: Counter[tuple[str, str]] = Counter()
        for (wording, english), count in self.counts.items():
            parts = _parts(self.words[wording], self.function_words)
            english_parts = _parts(self.english_words[english], ENGLISH_FUNCTION_WORDS)
            pairs = [(wording_of(part, self.lang), english) for part in parts]
            for pair in [*pairs, *((wording, " ".join(part)) for part in english_parts)]:
                if pair in self.counts:
                    wholes[pair] = max(wholes[pair], count)
        return wholes


def is_wording(text: str) -> bool:
    """Whether each word of a text begins with a letter and has only letters, marks, hyphens and apostrophes."""
    return all(word[:1].isalpha() and _spelt(word) for word in text.split(" "))


def _spelt(word: str) -> bool:
    return word.isalpha() or all(char.isalpha() or char in _JOINERS or category(char)[0] == "M" for char in word)


def _trimmed(words: tuple[str, ...], function_words: frozenset[str]) -> tuple[str, ...]:
    """Remove function words at both ends."""
    content = [place for place, word in enumerate(words) if word not in function_words]
    return words[content[0] : content[-1] + 1] if content else ()


def _parts(words: tuple[str, ...], function_words: frozenset[str]) -> list[tuple[str, ...]]:
    """List the proper parts of a wording with some of its content words, but not all."""
    content = sum(word not in function_words for word in words)
    stretches = [words[a:b] for a in range(len(words)) for b in range(a + 1, len(words) + 1) if b - a < len(words)]
    return [part for part in stretches if 0 < sum(word not in function_words for word in part) < content]

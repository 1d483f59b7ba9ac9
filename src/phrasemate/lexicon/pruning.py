"""Choice of the pairs of a phrase table that a lexicon keeps.

`select_pairs` chooses the pairs of a phrase table, which is mostly noise and composition. A pair stays if

- both wordings are words: letters, spaces, hyphens and apostrophes, no digits;
- its co-occurrence is significant by the log-likelihood ratio of its counts (Dunning 1993; Johnson et al. 2007 use
  Fisher's exact test). Pairs that were counted once stay only where a dictionary has them;
- p(English | wording), discounted, is at least `Pruning.least`, and the pair is among the `Pruning.most` best ones;
- neither side consists of function words; single ones stay ("auf", "on"), so that phrases with them are translated
  word by word;
- for a single word, no side has needless function words around it ("the house"), and no side is a part of a better
  pair ("opener" of "can opener");
- a wording of several words was counted twice or more, `Pruning.phrase` of its links are to this English wording, it is
  a worse pair without its article, and its negation is in the English wording, too ("nicht gehen" is not "to go").

Word links miss many fixed expressions: hardly a word of "в конце концов" translates one of "in the end". So a phrase
table may come with `Expression`s, counted in sentences. These follow the same thresholds. None is composed, none is a
part of a better one, and none is a more frequent expression with words around it.

Most wordings of several words are composed: "in meinem Zimmer". Others are units. These mean something else than their
words do ("in due course"), and that more than twice, in many of their occurrences. A unit may also be composed, if it
is frequent and has no function word at an end. In English, what translates a single word is a unit, too.

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
from phrasemate.lexicon.inflection import ARTICLES, ENGLISH_FUNCTION_WORDS, NEGATIONS, stemmed_all
from phrasemate.lexicon.wordings import UNSPACED, words_of

Counts = Mapping[tuple[str, str], int]
"""How often a wording and an English one are linked."""

_JOINERS = frozenset("'’-‐־״׳·\u200c\u200d")  # within words: apostrophes, hyphens, joiners of Persian
_FREQUENT = 20  # links of a function word
_MOSTLY = 0.6  # of its links are to English function words
_SHARE = 0.3  # of a pair's links with which a shorter or longer one takes its place
_WHOLE = 0.5  # of an expression's links with which a longer one takes its place
_OFTENER = 1.5  # times as frequent is an expression than the same with words around it
_TRANSLATED = 0.05  # least share of a word's links, or of an English word's, that are to a translation of it


@dataclass(frozen=True)
class Pruning:
    """Thresholds for the pairs of a phrase table.

    ``significance`` is the least log-likelihood ratio of a pair. ``least`` is the least probability of a pair, ``rare``
    that of a word that was counted twice, ``phrase`` that of a wording of several words. What such a wording is worth
    is its ratio divided by ``share``. ``composed`` times the significance makes a unit of words that translate one
    another, ``idiomatic`` is the least probability of other units. With ``hapaxes``, pairs of single words stay too
    that were counted once, if the wording was; about half of them are right, so this is for languages with little text.
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
    """A pair and what it is worth: its log-likelihood ratio; a share of it for a wording of several words."""

    pair: Pair
    worth: float


class Expression(NamedTuple):
    """A wording of several words and an English one, and the sentence pairs with both, sentences with one, the other.

    >>> Expression("nach wie vor", "still", together=12, wordings=20, englishes=900).together
    12
    """

    wording: str
    english: str
    together: int
    wordings: int
    englishes: int


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
    return 2 * sum(count * log(count * total / expected_count) for count, expected_count in table if count > 0)


def attested_pairs(counts: Counts, entries: Collection[tuple[str, str]], lang: str) -> set[tuple[str, str]]:
    """The pairs of a table that a dictionary has too, compared by stems: its entries are (wording, English wording)."""
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
    """The pairs of a language that stay, the ones that are worth most first.

    Args:
        counts: A phrase table.
        total: Number of sentence pairs that were counted.
        lang: The language that is not English.
        attested: Pairs that a dictionary has too.
        pruning: Thresholds.
        expressions: Candidates for fixed expressions.
    """
    selection = _Selection(counts, total, lang, frozenset(attested), pruning or Pruning())
    pairs = selection.pairs()
    stay = {(one.pair.wording, one.pair.english) for one in pairs}
    pairs += [one for one in selection.expressions(expressions) if (one.pair.wording, one.pair.english) not in stay]
    return sorted(pairs, key=lambda pair: -pair.worth)


class _Selection:
    """Table of one language while its pairs are chosen."""

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
        self.join = "" if lang in UNSPACED else " "
        self.function_words = self._function_words()
        self.articles, self.negations = self._translating(ARTICLES), self._translating(NEGATIONS)
        self.wholes = self._wholes()

    def pairs(self) -> list[RatedPair]:
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
        """The pairs of fixed expressions."""
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

    def _is_fixed(self, one: str, english: str) -> bool:
        """Whether a pair may be one of fixed expressions: not composed, no article or loose word at an end."""
        first, *_, last = self.english_words[english] * 2
        if first in ARTICLES or not self._english_core(english) or not self._negates(one, english):
            return False
        loose = last in ENGLISH_FUNCTION_WORDS and self.words[one][-1] not in self.function_words
        return not loose and last not in ARTICLES and not self._composed(one, english)

    def _best(self, links: Sequence[Expression]) -> list[Expression]:
        """The most frequent of a wording's links without those to a part of a better English wording, or to more."""
        best: list[Expression] = []
        for link in sorted(links, key=lambda link: (-link.together, -len(link.english))):
            words_of_link = f" {link.english} "
            longer = [more for more in links if words_of_link in f" {more.english} " and more.english != link.english]
            is_part = any(more.together >= _WHOLE * link.together for more in longer)
            if not is_part and not any(f" {less.english} " in words_of_link for less in best):
                best.append(link)
        return best[: self.pruning.most]

    def _surrounded(self, link: Expression, links: Mapping[str, Sequence[Expression]]) -> bool:
        """Whether a shorter wording, which is more frequent, has the same English one: "and in the end"."""
        form_words = self.words[link.wording]
        shorter = [form_words[a:b] for a in range(len(form_words)) for b in range(a + 2, len(form_words) + 1)]
        return any(
            other.english == link.english
            and other.wordings >= _OFTENER * link.wordings
            and other.together * link.wordings >= _WHOLE * link.together * other.wordings
            for part in shorter
            for other in links.get(self.join.join(part), ())
        )

    def _expression(self, link: Expression) -> RatedPair | None:
        """The pair of a link, if it is significant."""
        forward, backward = link.together / (link.wordings + 1), link.together / (link.englishes + 1)
        worth = likelihood_ratio(link.together, link.wordings, link.englishes, self.total)
        often = link.together >= 3 + self._edged(link.wording, link.english) and forward >= self.pruning.idiomatic
        pair = Pair(link.wording, link.english, forward, backward, often and backward >= self.pruning.least)
        return RatedPair(pair, worth) if worth >= self.pruning.significance else None

    def _grammar(self, by_wording: Mapping[str, Sequence[tuple[str, int]]]) -> list[RatedPair]:
        """The function words with the English ones that they usually stand for, so that phrases with them translate."""
        return [
            RatedPair(Pair(wording, english, count / self.links[wording], count / self.english_links[english]), worth)
            for wording in self.function_words & by_wording.keys()
            for english, count in by_wording[wording][: self.pruning.most]
            if english in ENGLISH_FUNCTION_WORDS and count >= _TRANSLATED * self.links[wording]
            for worth in [likelihood_ratio(count, self.links[wording], self.english_links[english], self.total)]
            if worth >= self.pruning.significance
        ]

    def _scored(self, one: str, english: str, count: int) -> RatedPair | None:
        """The pair with its probabilities and worth, or None if it does not stay."""
        is_attested = (one, english) in self.attested
        forward = (count + is_attested) / (self.links[one] + is_attested + 1)
        backward = (count + is_attested) / (self.english_links[english] + is_attested + 1)
        ratio = likelihood_ratio(count, self.links[one], self.english_links[english], self.total)
        worth = ratio * (2 if is_attested else 1)
        several = len(self.words[one]) > 1
        if several:
            stays = forward >= self.pruning.phrase and count + is_attested > 1 and self._negates(one, english)
            stays = stays and bool(self._core(one)) and bool(self._english_core(english))
            stays = stays and not self._only_articles(one, english, count)
        else:
            stays = self._stays(one, english, count, forward, is_attested)
        if not stays or worth < self.pruning.significance:
            return None
        unit = several and self._is_unit(Pair(one, english, forward, backward), count, is_attested, worth)
        return RatedPair(Pair(one, english, forward, backward, unit), worth / (self.pruning.share if several else 1))

    def _is_unit(self, pair: Pair, count: int, is_attested: bool, worth: float) -> bool:
        """Whether the words of a pair that stays are a unit."""
        one, english = pair.wording, pair.english
        if self._redundant(one, english, count):
            return False
        has_edges = self._edged(one, english)
        if self._composed(one, english):
            return not has_edges and worth >= self.pruning.composed * self.pruning.significance
        often = count >= 3 + has_edges and pair.forward >= self.pruning.idiomatic
        return is_attested or (often and pair.backward >= self.pruning.least)

    def _stays(self, one: str, english: str, count: int, forward: float, is_attested: bool) -> bool:
        """Whether the pair of a single word stays, if it is significant."""
        least = self.pruning.rare if count + is_attested == 2 else self.pruning.least
        counted_once = count + is_attested < 2 and not (self.pruning.hapaxes and self._hapax(one, english))
        if forward < least or counted_once or self._redundant(one, english, count):
            return False
        return count > 2 or is_attested or not self._edged(one, english)

    def _negates(self, one: str, english: str) -> bool:
        """Whether the English wording has a word of negation, if the other one has."""
        return self.negations.isdisjoint(self.words[one]) or not NEGATIONS.isdisjoint(self.english_words[english])

    def _only_articles(self, one: str, english: str, count: int) -> bool:
        """Whether a wording begins with an article without which it is as good a pair."""
        first, *rest = self.words[one]
        english_words = self.english_words[english]
        bare = self.join.join(rest), " ".join(english_words[english_words[0] in ARTICLES :])
        return first in self.articles and self.counts.get(bare, 0) >= _SHARE * count

    def _translating(self, english_words: Collection[str]) -> frozenset[str]:
        """The words whose most frequent translation is one of some English words."""
        most: dict[str, tuple[int, str]] = {}
        for (wording, english), count in self.counts.items():
            if len(self.words[wording]) == 1:
                most[wording] = max(most.get(wording, (0, "")), (count, english))
        return frozenset(word for word, (_, english) in most.items() if english in english_words)

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
        wording_words = [word for word in self.words[one] if word not in self.function_words]
        english_parts = [word for word in self.english_words[english] if word not in ENGLISH_FUNCTION_WORDS]
        links = [(a, b) for a in wording_words for b in english_parts if self._translates(a, b)]
        return {a for a, _ in links} == set(wording_words) and {b for _, b in links} == set(english_parts)

    def _translates(self, one: str, english: str) -> bool:
        count = self.counts.get((one, english), 0)
        return count >= _TRANSLATED * min(self.links[one], self.english_links[english]) > 0

    def _function_words(self) -> frozenset[str]:
        """The words whose translations mostly are function words of English."""
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
        """For each pair that is a part of longer ones, with content words left out, the links of the most frequent."""
        wholes: Counter[tuple[str, str]] = Counter()
        for (wording, english), count in self.counts.items():
            parts = _parts(self.words[wording], self.function_words)
            english_parts = _parts(self.english_words[english], ENGLISH_FUNCTION_WORDS)
            pairs = [(self.join.join(part), english) for part in parts]
            for pair in [*pairs, *((wording, " ".join(part)) for part in english_parts)]:
                if pair in self.counts:
                    wholes[pair] = max(wholes[pair], count)
        return wholes


def is_wording(text: str) -> bool:
    """Whether a text consists of words that begin with a letter and hold letters, marks, hyphens and apostrophes."""
    return all(word[:1].isalpha() and _spelt(word) for word in text.split(" "))


def _spelt(word: str) -> bool:
    return word.isalpha() or all(char.isalpha() or char in _JOINERS or category(char)[0] == "M" for char in word)


def _trimmed(words: tuple[str, ...], function_words: frozenset[str]) -> tuple[str, ...]:
    """The words without function words at both ends."""
    content = [place for place, word in enumerate(words) if word not in function_words]
    return words[content[0] : content[-1] + 1] if content else ()


def _parts(words: tuple[str, ...], function_words: frozenset[str]) -> list[tuple[str, ...]]:
    """The shorter stretches of the words that lack at least one content word."""
    content = sum(word not in function_words for word in words)
    stretches = [words[a:b] for a in range(len(words)) for b in range(a + 1, len(words) + 1) if b - a < len(words)]
    return [part for part in stretches if 0 < sum(word not in function_words for word in part) < content]

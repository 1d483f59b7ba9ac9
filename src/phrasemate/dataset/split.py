"""Which phrase pairs are taken, and into which split each goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b

from phrasemate.dataset.jsonl import SPLITS, ExamplePair
from phrasemate.dataset.rouge import UNITS, is_copy
from phrasemate.dataset.time_expressions import is_time
from phrasemate.errors import InputError
from phrasemate.text import words
from phrasemate.text.normalize import composed, plain

Pair = tuple[str, str]
Split = dict[str, list[ExamplePair]]

SHARES = dict(zip(SPLITS, (3, 1, 1), strict=True))  # paper, section 4
REASONS = {
    "no word": "a side holds no letter",
    "long": "a side has more words than wanted",
    "copy": "ROUGE-L is above the threshold in both directions",
    "time": "a year, a date, a month",
    "repeated": "the same pair came before",
    "few examples": "a side has too few example sentences",
    "ambiguous": "one of its phrases is in an earlier pair",
    "surplus": "more pairs than wanted",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The filters, and how many examples and pairs are wanted.

    Raises InputError for a value that makes no sense.
    """

    examples: int = 32  # paper, section 4: at most, for each phrase
    extra: int = 10  # paper, section 4: characters by which a sentence is longer than its phrase
    least: int = 1  # examples of each side, or the pair is left out
    longest: int = 500  # characters of a sentence
    copies: float = 0.5  # paper, section 4: ROUGE-L of a copy; 1 keeps all
    unit: str = "words"  # of ROUGE-L: words or characters
    times: bool = False  # keep time expressions
    max_words: int = 0  # of a phrase; 0: any number
    most: int = 0  # pairs; 0: all
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.copies <= 1:
            raise InputError(f"copies={self.copies}; expected a share from 0 to 1 (1 keeps all)")
        if self.unit not in UNITS:
            raise InputError(f"unit={self.unit!r}; expected one of {', '.join(UNITS)}")
        if self.examples < 1 or not 0 <= self.least <= self.examples:
            reason = f"examples={self.examples}, least={self.least}"
            raise InputError(f"{reason}; expected at least one example, and no more needed than are taken")
        if self.extra < 0 or self.longest < 1 or self.max_words < 0:
            reason = f"extra={self.extra}, longest={self.longest}, max_words={self.max_words}"
            raise InputError(f"{reason}; expected 0 or more characters, a sentence of at least one, 0 or more words")
        if self.most and self.most < sum(SHARES.values()):
            raise InputError(f"most={self.most}; expected 0 (all) or at least {sum(SHARES.values())} pairs")


def candidates(pairs: Iterable[Pair], languages: Pair, settings: Settings, removed: Counter[str]) -> list[Pair]:
    """The pairs that pass the filters on their wording, in order; ``removed`` counts the others by `REASONS`."""
    seen: set[Pair] = set()
    taken = []
    for source, target in pairs:
        pair = " ".join(source.split()), " ".join(target.split())
        reason = "repeated" if _keys(pair) in seen else _reason(pair, languages, settings)
        if reason:
            removed[reason] += 1
            continue
        seen.add(_keys(pair))
        taken.append(pair)
    return taken


def divided(pairs: Iterable[ExamplePair], settings: Settings, removed: Counter[str]) -> Split:
    """Train, dev and test, 3:1:1, with no phrase in two pairs and hence none in two splits.

    Of pairs that share a phrase the first is taken. A pair's split is drawn by a hash of seed and target phrase, so
    that a phrase of the target language is in the same split whatever the source language: nothing that was trained
    on for one language pair is tested on in another. The shares are therefore exact only on average, unless ``most``
    cuts each split to its share.
    """
    taken: tuple[set[str], set[str]] = set(), set()
    found: dict[str, list[tuple[int, ExamplePair]]] = {split: [] for split in SPLITS}
    for pair in pairs:
        keys = _keys((pair.source, pair.target))
        if keys[0] in taken[0] or keys[1] in taken[1]:
            removed["ambiguous"] += 1
            continue
        taken[0].add(keys[0])
        taken[1].add(keys[1])
        split, order = _drawn(keys[1], settings.seed)
        found[split].append((order, pair))
    whole = {split: [pair for _, pair in sorted(drawn, key=lambda one: one[0])] for split, drawn in found.items()}
    return _cut(whole, settings.most, removed)


def _cut(splits: Split, most: int, removed: Counter[str]) -> Split:
    """At most ``most`` pairs, each split its share of them."""
    if not most:
        return splits
    shares = {split: most * share // sum(SHARES.values()) for split, share in SHARES.items()}
    removed["surplus"] += sum(max(0, len(pairs) - shares[split]) for split, pairs in splits.items())
    return {split: pairs[: shares[split]] for split, pairs in splits.items()}


def _drawn(target: str, seed: int) -> tuple[str, int]:
    """The split of a target phrase, and its place in a random order."""
    number = int.from_bytes(blake2b(f"{seed}\t{target}".encode(), digest_size=8).digest(), "big")
    point, order = number % sum(SHARES.values()), number // sum(SHARES.values())
    for split, share in SHARES.items():
        if point < share:
            return split, order
        point -= share
    raise AssertionError(point)


def _reason(pair: Pair, languages: Pair, settings: Settings) -> str:
    """Why a pair is not taken; "" if it is."""
    rules: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("no word", lambda: not all(any(map(str.isalnum, side)) for side in pair)),
        ("long", lambda: bool(settings.max_words) and max(len(words(side)) for side in pair) > settings.max_words),
        ("time", lambda: not settings.times and is_time(*pair, languages)),
        ("no word", lambda: not all(any(map(str.isalpha, side)) for side in pair)),
        ("copy", lambda: settings.copies < 1 and is_copy(*pair, settings.copies, settings.unit)),
    )
    return next((reason for reason, holds in rules if holds()), "")


def _keys(pair: Pair) -> Pair:
    return composed(plain(pair[0])).casefold(), composed(plain(pair[1])).casefold()

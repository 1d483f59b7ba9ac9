"""Example sentences for many phrases in one pass over the text (Aho and Corasick 1975).

An index answers a query in milliseconds, but it must be built first, and tens of thousands of phrases would be as many
queries. Here every sentence is read once and matched with all phrases together. Only places in the files are stored, so
that memory depends on the numbers of phrases and examples, and not on the text.
"""

from __future__ import annotations

import heapq
import mmap
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import lru_cache
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from unicodedata import category

from phrasemate.dataset.split import SPACELESS
from phrasemate.errors import InputError, needs_extra
from phrasemate.examples.matching import Matcher
from phrasemate.text.normalize import composed, plain
from phrasemate.types import Phrase

Progress = Callable[[int, int], None]
_Text = mmap.mmap | BytesIO

_PLACE = 48  # bits of an offset in a file: 256 TB
_FILE = 16  # bits of the number of a file
_SELECTOR = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")  # variation selectors
_OFTEN = 1 << 20  # bytes between two reports of progress


class SentenceFiles:
    """Files of sentences, one on each line (UTF-8), in which phrases are found.

    The class fulfils the ``Finder`` protocol of `phrasemate.examples`. Sentences of more than ``longest`` characters
    are skipped. The result is a uniform sample of the sentences with a phrase, in random order: those with the smallest
    hash of seed and text. Sentences that differ only in case, punctuation and digits count once.
    """

    def __init__(self, *paths: str | Path, longest: int = 500) -> None:
        self.paths, self.longest = [Path(path) for path in paths], longest

    def find(self, phrase: str, limit: int = 32, extra: int = 10, seed: int = 0) -> list[Phrase]:
        """Find at most ``limit`` sentences with the phrase, each at least ``extra`` characters longer than it."""
        return self.find_all([phrase], limit, extra, seed)[0]

    def find_all(
        self,
        phrases: Sequence[str],
        limit: int = 32,
        extra: int = 10,
        seed: int = 0,
        progress: Progress = lambda step, total: None,
    ) -> list[list[Phrase]]:
        """Find examples of each phrase, as `find` does; ``progress`` gets the bytes read and the bytes in all.

        Raises InputError for a blank phrase, MissingExtra if the matcher (ahocorasick-rs) is not installed.
        """
        if not phrases:
            return []
        samples = _Samples(phrases, limit, extra, str(seed).encode())
        with ExitStack() as stack:
            texts = [_map_file(path) for path in self.paths]
            for text in texts:
                stack.callback(text.close)
            for place, line in self._lines(texts, progress):
                samples.offer(place, line)
            return [[_example(phrase, texts, place) for place in samples.places(phrase)] for phrase in phrases]

    def _lines(self, texts: Sequence[_Text], progress: Progress) -> Iterator[tuple[int, str]]:
        """Yield place and text of each line that is not too long."""
        total, bytes_read, reported_at = sum(path.stat().st_size for path in self.paths), 0, 0
        for number, text in enumerate(texts):
            place = number << _PLACE
            for raw in iter(text.readline, b""):
                line = raw.decode().rstrip("\n")
                if len(line) <= self.longest:
                    yield place, line
                place, bytes_read = place + len(raw), bytes_read + len(raw)
                if bytes_read - reported_at >= _OFTEN:
                    reported_at = bytes_read
                    progress(bytes_read, total)
        progress(bytes_read, total)


class _Samples:
    """Samples of sentences for each phrase: those with the smallest hashes.

    A sentence is stored as one integer: its hash, then the number of its file, then its offset.
    """

    def __init__(self, phrases: Sequence[str], limit: int, extra: int, seed: bytes) -> None:
        self._limit, self._extra, self._seed = limit, extra, seed
        if not all(map(str.strip, phrases)):
            raise InputError("cannot look for an empty phrase; expected at least one character")
        spellings: dict[str, list[str]] = defaultdict(list)
        for phrase in dict.fromkeys(phrases):
            spellings[_fold(phrase)].append(phrase)
        self._spellings = list(spellings.values())
        with needs_extra("dataset", "ahocorasick-rs"):
            from ahocorasick_rs import AhoCorasick
        self._matcher = AhoCorasick(list(spellings))
        self._heaps: dict[str, list[int]] = {phrase: [] for phrase in phrases}  # heaps of negated numbers

    def offer(self, place: int, line: str) -> None:
        """Add the sentence to the samples of the phrases that it contains, if its hash is small enough."""
        matches = self._matches(line)
        if not matches:
            return
        hash_ = self._hash(line)
        for number, sure in matches.items():
            for phrase in self._spellings[number]:
                if self._is_selected(phrase, hash_, line) and (
                    (sure and "ı" not in phrase) or _first_span(phrase, line)
                ):
                    self._keep(self._heaps[phrase], hash_ << (_PLACE + _FILE) | place)

    def _matches(self, line: str) -> dict[int, bool]:
        """Return the numbers of the phrases that may be in a sentence, with True for those that surely are.

        A phrase is surely in the sentence if it stands between spaces there.
        """
        folded_line, matches = _fold(line), dict[int, bool]()
        keeps_places = line.isascii() or folded_line == line.casefold()  # folding has only changed the case
        padded_line = f" {folded_line} "
        for number, start, end in self._matcher.find_matches_as_indexes(folded_line, overlapping=True):
            before, after = padded_line[start], padded_line[end + 1]
            if before == after == " " and keeps_places:
                matches[number] = True
            elif number not in matches and not _is_inside_word(folded_line, start, end):
                matches[number] = False
        return matches

    def places(self, phrase: str) -> list[int]:
        """Return the places where the sentences of a phrase begin, in order of their hashes."""
        return [-number & ((1 << _PLACE + _FILE) - 1) for number in sorted(self._heaps[phrase], reverse=True)]

    def _is_selected(self, phrase: str, hash_: int, line: str) -> bool:
        samples = self._heaps[phrase]
        if len(line) < len(phrase) + self._extra or not self._limit:
            return False
        if len(samples) >= self._limit and hash_ >= -samples[0] >> _PLACE + _FILE:
            return False
        return all(-number >> _PLACE + _FILE != hash_ for number in samples)

    def _keep(self, samples: list[int], number: int) -> None:
        if len(samples) < self._limit:
            heapq.heappush(samples, -number)
        else:
            heapq.heappushpop(samples, -number)

    def _hash(self, line: str) -> int:
        key = _letters(_fold(line))
        return int.from_bytes(blake2b(key.encode(), digest_size=8, key=self._seed).digest(), "big")


def _letters(text: str) -> str:
    """Return the letters of a text with their combining marks, without variation selectors."""
    if text.isascii():
        return "".join(filter(str.isalpha, text))
    letters, belongs = [], False
    for char in text:
        mark = belongs and category(char) in ("Mn", "Mc")
        belongs = char.isalpha() or (mark and not _SELECTOR.match(char))
        if belongs:
            letters.append(char)
    return "".join(letters)


def _fold(text: str) -> str:
    """Return the text without case, with single spaces and one kind of i.

    All wordings that `Matcher` considers equal are equal after folding.
    """
    text = " ".join(text.split())
    if text.isascii():
        return text.lower()
    return composed(plain(text)).replace("İ", "i").replace("ı", "i").casefold()


def _is_inside_word(text: str, start: int, end: int) -> bool:
    """Return whether a match begins or ends inside a word of a script with spaces; `Matcher` need not check it then."""
    return _is_joined(text[start - 1 : start + 1]) or _is_joined(text[end - 1 : end + 1])


def _is_joined(two: str) -> bool:
    """Return whether both characters are letters or digits of scripts with spaces."""
    return len(two) == 2 and all(char.isalpha() or char.isdecimal() for char in two) and max(two) < SPACELESS


def _first_span(phrase: str, line: str) -> tuple[int, int] | None:
    """Return start and end of the first occurrence of a phrase in a sentence; None if there is none."""
    return next(_matcher_of(phrase).spans(line), None)


_matcher_of = lru_cache(maxsize=1 << 14)(Matcher)


def _map_file(path: Path) -> _Text:
    """Return the bytes of a file as a memory map, or as a buffer for an empty file, which cannot be mapped."""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else BytesIO()


def _example(phrase: str, texts: Sequence[_Text], place: int) -> Phrase:
    """Return the phrase in the sentence at a place."""
    text = texts[place >> _PLACE]
    text.seek(place & ((1 << _PLACE) - 1))
    line = text.readline().decode().rstrip("\n")
    return Phrase(line, *(_first_span(phrase, line) or (0, len(line))))

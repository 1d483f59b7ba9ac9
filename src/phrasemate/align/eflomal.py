"""Align words with eflomal (Östling and Tiedemann 2016, "Efficient Word Alignment with Markov Chain Monte Carlo").

eflomal is an optional package. It needs no model, because it learns from the text that it aligns. The text is aligned
in chunks to bound the memory. Statistics of the first chunk are the priors of all later chunks.

A statistical aligner needs several occurrences of a word. If the languages are known, it therefore gets stems, and the
parts of rare compounds (Koehn and Knight 2003, "Empirical Methods for Compound Splitting"). The links of the parts are
then links of the word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from phrasemate.align.pairs import TokenizedSentence, check_pair, parse_links
from phrasemate.align.symmetrise import Links, symmetrise
from phrasemate.errors import InputError
from phrasemate.lexicon.inflection import LINKING, LONGEST_COMPOUND, STEMS, compound, stem
from phrasemate.text.languages import primary
from phrasemate.text.normalize import folded
from phrasemate.types import check_language_pair, to_whole
from phrasemate.utils import import_extra

CHUNK = 200_000  # sentence pairs per chunk: enough to learn from; about 1 GB of memory
LONGEST = 1_000  # words of a sentence; eflomal silently drops sentences of more than 1,023 words
RARE = 100  # occurrences of a compound that is split, at most
KNOWN = 4  # a part of a compound occurs more often than this, and more often than the compound
MODELS = (1, 2, 3)  # eflomal's models: IBM model 1, the HMM model, the HMM model with fertilities


class EflomalAligner:
    """Word aligner that runs eflomal in both directions and symmetrises the links.

    Words are compared in lower case, or by their stems if the languages are given. eflomal draws random samples, so
    links differ slightly from run to run.

    Args:
        symmetrisation: One of `SYMMETRISATIONS`; see `symmetrise`.
        chunk: Sentence pairs that are aligned at once. A larger chunk gives better links but needs more memory.
        model: 1 (IBM model 1), 2 (HMM) or 3 (HMM with fertilities).
        languages: Source and target language, such as ("de", "en"), or "" for an unknown one.

    Raises MissingExtra if the package eflomal is not installed, and InputError for invalid settings.

    >>> from phrasemate.align import EflomalAligner
    >>> aligner = EflomalAligner(symmetrisation="intersection", languages=("de", "en"))  # doctest: +SKIP
    """

    def __init__(
        self,
        symmetrisation: str = "grow-diag-final-and",
        chunk: int = CHUNK,
        model: int = 3,
        languages: tuple[str, str] = ("", ""),
    ) -> None:
        symmetrise([], [], symmetrisation)  # raises InputError for an unknown name
        if model not in MODELS:
            raise InputError(f"model {model!r}; expected 1, 2 or 3")
        check_language_pair(languages)
        self._eflomal = import_extra("eflomal", "eflomal", "align")
        self.chunk, self.model = to_whole("chunk", chunk), model
        self.symmetrisation, self.languages = symmetrisation, languages
        self._priors: _Priors | None = None

    @property
    def signature(self) -> dict[str, str]:
        """Return the settings that affect the links, by name."""
        facts = {"method": "eflomal", "symmetrisation": self.symmetrisation}
        facts |= {"chunk": str(self.chunk), "eflomal model": str(self.model)}
        return facts | ({"languages": ",".join(self.languages)} if any(self.languages) else {})

    def align(self, pairs: Sequence[tuple[TokenizedSentence, TokenizedSentence]]) -> list[Links]:
        """Return the links of each sentence pair: an empty list if a side has no words or more than 1,000."""
        return [symmetrise(*pair, self.symmetrisation) for pair in self._directions(pairs)]

    def directions(self, pairs: Sequence[tuple[TokenizedSentence, TokenizedSentence]]) -> list[tuple[Links, Links]]:
        """Return forward and reverse links of each sentence pair, both as (source word, target word)."""
        return list(self._directions(pairs))

    def learn(self, aligned: Iterable[tuple[TokenizedSentence, TokenizedSentence, Links]]) -> None:
        """Compute the priors from sentence pairs that an earlier, stopped run has aligned."""
        rows = list(aligned)
        priors = _Priors()
        sides = zip(*self._split([(source, target) for source, target, _ in rows]), strict=True)
        for (source, target), (_, _, links) in zip(sides, rows, strict=True):
            part_links = [
                (s, t) for word, other in links for s in source.parts_of(word) for t in target.parts_of(other)
            ]
            priors.add(source, target, part_links, part_links)
        self._priors = priors if priors.has_links else None

    def _directions(
        self, pairs: Sequence[tuple[TokenizedSentence, TokenizedSentence]]
    ) -> Iterator[tuple[Links, Links]]:
        """Yield forward and reverse links of each sentence pair, and keep the priors of the first chunk with links."""
        for start in range(0, len(pairs), self.chunk):
            batch = pairs[start : start + self.chunk]
            priors = _Priors()
            sides = self._split(batch)
            for source, target, links in zip(*sides, self._run(*sides), strict=True):
                if self._priors is None:
                    priors.add(source, target, *links)
                yield _of_words(links[0], source, target), _of_words(links[1], source, target)
            if self._priors is None and priors.has_links:  # a chunk of blank lines has none
                self._priors = priors

    def _split(self, pairs: Sequence[tuple[TokenizedSentence, TokenizedSentence]]) -> tuple[list[_Parts], list[_Parts]]:
        """Return what eflomal gets of both sides of each pair."""
        for pair in pairs:
            check_pair(pair)
        sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
        return _parts_of_all(sources, self.languages[0]), _parts_of_all(targets, self.languages[1])

    def _run(self, sources: Sequence[_Parts], targets: Sequence[_Parts]) -> Iterator[tuple[Links, Links]]:
        """Run eflomal on one chunk; yield forward and reverse links of parts, empty for an unusable pair."""
        pairs = list(zip(sources, targets, strict=True))
        usable = [all(0 < len(side.texts) <= LONGEST for side in pair) for pair in pairs]
        if not any(usable):
            yield from (([], []) for _ in pairs)
            return
        with TemporaryDirectory(prefix="phrasemate-") as folder:
            files = Path(folder) / "forward", Path(folder) / "reverse"
            self._eflomal.Aligner(model=self.model).align(
                (" ".join(source.texts) for source, use in zip(sources, usable, strict=True) if use),
                (" ".join(target.texts) for target, use in zip(targets, usable, strict=True) if use),
                links_filename_fwd=str(files[0]),
                links_filename_rev=str(files[1]),
                priors_input=None if self._priors is None else self._priors.lines(),
            )
            with files[0].open(encoding="ascii") as forward, files[1].open(encoding="ascii") as reverse:
                for use in usable:
                    yield (parse_links(_next_line(forward)), parse_links(_next_line(reverse))) if use else ([], [])


class _Parts(NamedTuple):
    """What eflomal gets of one sentence: words or parts of words, and the number of the word that each belongs to."""

    texts: list[str]
    words: Sequence[int]

    def parts_of(self, word: int) -> list[int]:
        """Return the numbers of the parts of a word."""
        return [part for part, whole in enumerate(self.words) if whole == word]


def _next_line(file: Iterator[str]) -> str:
    """Read one complete line. Raises InputError if it is missing because the process of eflomal ended early."""
    line = next(file, "")
    if not line.endswith("\n"):
        raise InputError("eflomal ended before all links were written; free memory or disk, then run the command again")
    return line


class _Priors:
    """Counts from linked sentence pairs that eflomal accepts as priors: word pairs, fertilities, jumps.

    A fertility is the number of links of a word. A jump is the distance between the links of two successive words.
    """

    def __init__(self) -> None:
        self._pairs: Counter[tuple[str, str]] = Counter()
        self._fertilities: tuple[Counter[tuple[str, int]], ...] = Counter(), Counter()
        self._jumps: tuple[Counter[int], ...] = Counter(), Counter()

    def add(self, source: _Parts, target: _Parts, forward: Links, reverse: Links) -> None:
        """Count the links of one sentence pair."""
        self._pairs.update((source.texts[s], target.texts[t]) for s, t in forward)
        self._fertilities[0].update((source.texts[s], n) for s, n in Counter(s for s, _ in forward).items())
        self._fertilities[1].update((target.texts[t], n) for t, n in Counter(t for _, t in reverse).items())
        self._jumps[0].update(_jumps([(t, s) for s, t in forward], len(source.texts)))
        self._jumps[1].update(_jumps(reverse, len(target.texts)))

    @property
    def has_links(self) -> bool:
        """Return whether any link was counted."""
        return bool(self._pairs)

    def lines(self) -> Iterator[str]:
        """Yield the counts as lines of a priors file, in the format of eflomal-makepriors."""
        yield from (f"LEX\t{source}\t{target}\t{n}" for (source, target), n in self._pairs.items())
        for kind, table in zip(("FERF", "FERR"), self._fertilities, strict=True):
            yield from (f"{kind}\t{word}\t{fertility}\t{n}" for (word, fertility), n in table.items())
        for kind, jumps in zip(("HMMF", "HMMR"), self._jumps, strict=True):
            yield from (f"{kind}\t{jump}\t{n}" for jump, n in jumps.items())


def _of_words(links: Links, source: _Parts, target: _Parts) -> Links:
    """Return the links of words, by the links of their parts."""
    return sorted({(source.words[s], target.words[t]) for s, t in links})


def _parts_of_all(sentences: Sequence[TokenizedSentence], lang: str) -> list[_Parts]:
    """Return what eflomal gets of the sentences of one language; "" for an unknown language."""
    if not lang:
        token = cache(lambda word: _token(word.lower()))  # equal words share one string: a chunk has millions of words
        token_lists = ([token(word) for word in sentence.words()] for sentence in sentences)
        return [_Parts(words, range(len(words))) for words in token_lists]
    fold = cache(folded)
    folded_words = [[fold(word) for word in sentence.words()] for sentence in sentences]
    parts = _compound_parts(Counter(word for of_sentence in folded_words for word in of_sentence), primary(lang))
    stem_once = cache(lambda part: _token(stem(part, lang) or part))
    sides = []
    for of_sentence in folded_words:
        parts_of_words = list(map(parts, of_sentence))
        texts = [stem_once(part) for parts_of_word in parts_of_words for part in parts_of_word]
        words = [number for number, parts_of_word in enumerate(parts_of_words) for _ in parts_of_word]
        sides.append(_Parts(texts, words))
    return sides


def _compound_parts(counts: Counter[str], lang: str) -> Callable[[str], Sequence[str]]:
    """Return the function that splits a rare compound into more frequent words, and leaves every other word whole."""

    @cache
    def parts(word: str) -> Sequence[str]:
        count = counts[word]
        if lang not in LINKING or count > RARE or not word.isalpha() or len(word) > LONGEST_COMPOUND:
            return [word]
        least = max(count, KNOWN) + 1  # also excludes the word itself
        return compound(word, lambda part: counts[part] >= least, LINKING[lang], STEMS.get(lang, ())) or [word]

    return parts


def _token(text: str) -> str:
    """Return a text as one token: valid in UTF-8, with "_" for white space."""
    return "_".join(text.split()).encode("utf-8", "replace").decode("utf-8") or "_"


def _jumps(links: Sequence[tuple[int, int]], length: int) -> Iterable[int]:
    """Yield the jumps of the HMM as eflomal counts them: from the last link of a word to the first of the next word.

    ``links`` are (word, position in the other sentence), and ``length`` is the number of words of the other sentence.
    The jump from its beginning (position -1) and the jump to its end (position ``length``) are included.
    """
    last_word = last_position = -1
    for word, position in sorted(links):
        if word != last_word:
            yield position - last_position
        last_word, last_position = word, position
    yield length - last_position

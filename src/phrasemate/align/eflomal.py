"""Align words with eflomal (Östling and Tiedemann 2016, "Efficient Word Alignment with Markov Chain Monte Carlo").

eflomal is an optional package. It needs no model, because it learns from the text that it aligns. The text is aligned
in chunks to bound the memory. Statistics of the first chunk are the priors of all later chunks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from phrasemate.align.pairs import TokenizedSentence, parse_links
from phrasemate.align.symmetrise import Links, symmetrise
from phrasemate.errors import InputError
from phrasemate.utils import import_extra

CHUNK = 200_000  # sentence pairs per chunk: enough to learn from; about 1 GB of memory
LONGEST = 1_000  # words of a sentence; eflomal silently drops sentences of more than 1,023 words
MODELS = (1, 2, 3)  # eflomal's models: IBM model 1, the HMM model, the HMM model with fertilities


class EflomalAligner:
    """Word aligner that runs eflomal in both directions and symmetrises the links.

    Words are compared in lower case. eflomal draws random samples, so links differ slightly from run to run.

    Args:
        symmetrisation: One of `SYMMETRISATIONS`; see `symmetrise`.
        chunk: Sentence pairs that are aligned at once. A larger chunk gives better links but needs more memory.
        model: 1 (IBM model 1), 2 (HMM) or 3 (HMM with fertilities).

    Raises MissingExtra if the package eflomal is not installed, and InputError for invalid settings.

    >>> from phrasemate.align import EflomalAligner
    >>> aligner = EflomalAligner(symmetrisation="intersection")  # doctest: +SKIP
    """

    def __init__(self, symmetrisation: str = "grow-diag-final-and", chunk: int = CHUNK, model: int = 3) -> None:
        symmetrise([], [], symmetrisation)  # raises InputError for an unknown name
        if chunk < 1 or model not in MODELS:
            raise InputError(f"chunk {chunk}, model {model}; expected a chunk of 1 or more and model 1, 2 or 3")
        self._eflomal = import_extra("eflomal", "eflomal", "align")
        self.symmetrisation, self.chunk, self.model = symmetrisation, chunk, model
        self._priors: _Priors | None = None

    @property
    def signature(self) -> dict[str, str]:
        """Return the settings that affect the links, by name."""
        facts = {"method": "eflomal", "symmetrisation": self.symmetrisation}
        return facts | {"chunk": str(self.chunk), "eflomal model": str(self.model)}

    def align(self, pairs: Sequence[tuple[TokenizedSentence, TokenizedSentence]]) -> list[Links]:
        """Return the links of each sentence pair: an empty list if a side has no words or more than 1,000."""
        return [symmetrise(*pair, self.symmetrisation) for pair in self._directions(pairs)]

    def directions(self, pairs: Sequence[tuple[TokenizedSentence, TokenizedSentence]]) -> list[tuple[Links, Links]]:
        """Return forward and reverse links of each sentence pair, both as (source word, target word)."""
        return list(self._directions(pairs))

    def learn(self, aligned: Iterable[tuple[TokenizedSentence, TokenizedSentence, Links]]) -> None:
        """Compute the priors from sentence pairs that an earlier, stopped run has aligned."""
        priors = _Priors()
        for source, target, links in aligned:
            priors.add(source, target, links, links)
        self._priors = priors if priors.has_links else None

    def _directions(
        self, pairs: Sequence[tuple[TokenizedSentence, TokenizedSentence]]
    ) -> Iterator[tuple[Links, Links]]:
        """Yield forward and reverse links of each sentence pair, and keep the priors of the first chunk with links."""
        for start in range(0, len(pairs), self.chunk):
            batch = pairs[start : start + self.chunk]
            priors = _Priors()
            for (source, target), links in zip(batch, self._run(batch), strict=True):
                if self._priors is None:
                    priors.add(source, target, *links)
                yield links
            if self._priors is None and priors.has_links:  # a chunk of blank lines has none
                self._priors = priors

    def _run(self, pairs: Sequence[tuple[TokenizedSentence, TokenizedSentence]]) -> Iterator[tuple[Links, Links]]:
        """Run eflomal on one chunk; yield forward and reverse links of each pair, empty for an unusable one."""
        usable = [all(0 < len(side.spans) <= LONGEST for side in pair) for pair in pairs]
        if not any(usable):
            yield from (([], []) for _ in pairs)
            return
        with TemporaryDirectory(prefix="phrasemate-") as folder:
            files = Path(folder) / "forward", Path(folder) / "reverse"
            self._eflomal.Aligner(model=self.model).align(
                _lines(pair[0] for pair, use in zip(pairs, usable, strict=True) if use),
                _lines(pair[1] for pair, use in zip(pairs, usable, strict=True) if use),
                links_filename_fwd=str(files[0]),
                links_filename_rev=str(files[1]),
                priors_input=None if self._priors is None else self._priors.lines(),
            )
            with files[0].open(encoding="ascii") as forward, files[1].open(encoding="ascii") as reverse:
                for use in usable:
                    yield (parse_links(_next_line(forward)), parse_links(_next_line(reverse))) if use else ([], [])


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

    def add(self, source: TokenizedSentence, target: TokenizedSentence, forward: Links, reverse: Links) -> None:
        """Count the links of one sentence pair."""
        source_words, target_words = _words(source), _words(target)
        self._pairs.update((source_words[s], target_words[t]) for s, t in forward)
        self._fertilities[0].update((source_words[s], n) for s, n in Counter(s for s, _ in forward).items())
        self._fertilities[1].update((target_words[t], n) for t, n in Counter(t for _, t in reverse).items())
        self._jumps[0].update(_jumps([(t, s) for s, t in forward], len(source_words)))
        self._jumps[1].update(_jumps(reverse, len(target_words)))

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


def _lines(sentences: Iterable[TokenizedSentence]) -> Iterable[str]:
    """Yield each sentence as eflomal reads it: its words, separated by spaces."""
    return (" ".join(_words(sentence)) for sentence in sentences)


def _words(sentence: TokenizedSentence) -> list[str]:
    """Return the words of a sentence in lower case, valid in UTF-8 and with "_" for white space inside a word."""
    return [
        "_".join(word.lower().split()).encode("utf-8", "replace").decode("utf-8") or "_" for word in sentence.words()
    ]


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

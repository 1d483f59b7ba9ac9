"""Word links by eflomal (Östling and Tiedemann 2016, "Efficient Word Alignment with Markov Chain Monte Carlo").

An optional package that learns from the very text that it aligns. Memory stays bounded: the text goes through in
chunks, and the statistics of the first one (its priors) are given to all that follow.
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

CHUNK = 200_000  # sentence pairs: enough to learn from, and about 1 GB
LONGEST = 1_000  # words; eflomal leaves a sentence of more than 1,023 without a word
MODELS = (1, 2, 3)  # IBM model 1; and HMM; and fertility


class EflomalAligner:
    """Word aligner with eflomal in both directions, symmetrised.

    ``chunk``: sentence pairs at once; the more, the better it learns and the more memory it takes. Words are compared
    in lower case. Each run draws its own samples: links differ a little from run to run.
    Raises MissingExtra where the package eflomal is not installed, InputError for invalid settings.

    >>> from phrasemate.align import EflomalAligner
    >>> aligner = EflomalAligner(symmetrisation="intersection")  # doctest: +SKIP
    """

    def __init__(self, symmetrisation: str = "grow-diag-final-and", chunk: int = CHUNK, model: int = 3) -> None:
        symmetrise([], [], symmetrisation)  # refuses an unknown name
        if chunk < 1 or model not in MODELS:
            raise InputError(f"chunk {chunk}, model {model}; expected a chunk of 1 or more and model 1, 2 or 3")
        self._eflomal = import_extra("eflomal", "eflomal", "align")
        self.symmetrisation, self.chunk, self.model = symmetrisation, chunk, model
        self._priors: _Priors | None = None

    @property
    def signature(self) -> dict[str, str]:
        """Name the settings that decide about the links."""
        facts = {"method": "eflomal", "symmetrisation": self.symmetrisation}
        return facts | {"chunk": str(self.chunk), "eflomal model": str(self.model)}

    def align(self, pairs: Sequence[tuple[TokenizedSentence, TokenizedSentence]]) -> list[Links]:
        """The links of each sentence pair; none where a side has no words or more than 1,000."""
        return [symmetrise(*pair, self.symmetrisation) for pair in self._directions(pairs)]

    def directions(self, pairs: Sequence[tuple[TokenizedSentence, TokenizedSentence]]) -> list[tuple[Links, Links]]:
        """Align each sentence pair in both directions, as (source word, target word)."""
        return list(self._directions(pairs))

    def learn(self, aligned: Iterable[tuple[TokenizedSentence, TokenizedSentence, Links]]) -> None:
        """Take the priors from sentence pairs that are aligned already (a run that resumes where another stopped)."""
        priors = _Priors()
        for source, target, links in aligned:
            priors.add(source, target, links, links)
        self._priors = priors if priors.some else None

    def _directions(
        self, pairs: Sequence[tuple[TokenizedSentence, TokenizedSentence]]
    ) -> Iterator[tuple[Links, Links]]:
        for start in range(0, len(pairs), self.chunk):
            batch = pairs[start : start + self.chunk]
            priors = _Priors()
            for (source, target), links in zip(batch, self._run(batch), strict=True):
                if self._priors is None:
                    priors.add(source, target, *links)
                yield links
            if self._priors is None and priors.some:  # of blank lines there is nothing to learn
                self._priors = priors

    def _run(self, pairs: Sequence[tuple[TokenizedSentence, TokenizedSentence]]) -> Iterator[tuple[Links, Links]]:
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
                    yield (parse_links(_next(forward)), parse_links(_next(reverse))) if use else ([], [])


def _next(file: Iterator[str]) -> str:
    """A whole line. Raises InputError where eflomal, a program of its own, has written no more."""
    line = next(file, "")
    if not line.endswith("\n"):
        raise InputError("eflomal stopped before its end; free some memory or disk, and give the command again")
    return line


class _Priors:
    """Counts of what was linked, as eflomal takes them in: word pairs, fertilities, jumps."""

    def __init__(self) -> None:
        self._pairs: Counter[tuple[str, str]] = Counter()
        self._fertilities: tuple[Counter[tuple[str, int]], ...] = Counter(), Counter()
        self._jumps: tuple[Counter[int], ...] = Counter(), Counter()

    def add(self, source: TokenizedSentence, target: TokenizedSentence, forward: Links, reverse: Links) -> None:
        source_words, right = _words(source), _words(target)
        self._pairs.update((source_words[s], right[t]) for s, t in forward)
        self._fertilities[0].update((source_words[s], n) for s, n in Counter(s for s, _ in forward).items())
        self._fertilities[1].update((right[t], n) for t, n in Counter(t for _, t in reverse).items())
        self._jumps[0].update(_jumps([(t, s) for s, t in forward], len(source_words)))
        self._jumps[1].update(_jumps(reverse, len(right)))

    @property
    def some(self) -> bool:
        """Whether anything was linked."""
        return bool(self._pairs)

    def lines(self) -> Iterator[str]:
        """The format of eflomal-makepriors."""
        yield from (f"LEX\t{source}\t{target}\t{n}" for (source, target), n in self._pairs.items())
        for kind, table in zip(("FERF", "FERR"), self._fertilities, strict=True):
            yield from (f"{kind}\t{word}\t{fertility}\t{n}" for (word, fertility), n in table.items())
        for kind, jumps in zip(("HMMF", "HMMR"), self._jumps, strict=True):
            yield from (f"{kind}\t{jump}\t{n}" for jump, n in jumps.items())


def _lines(sentences: Iterable[TokenizedSentence]) -> Iterable[str]:
    return (" ".join(_words(sentence)) for sentence in sentences)


def _words(sentence: TokenizedSentence) -> list[str]:
    """Words as eflomal takes them: no white space inside, in UTF-8."""
    return [
        "_".join(word.lower().split()).encode("utf-8", "replace").decode("utf-8") or "_" for word in sentence.words()
    ]


def _jumps(links: Sequence[tuple[int, int]], length: int) -> Iterable[int]:
    """Distance that the linked word moves from one word to the next, ends included, as eflomal counts it.

    ``links``: (word, linked word of the other side, whose sentence has ``length`` words).
    """
    last_word = last_linked = -1
    for word, column in sorted(links):
        if word != last_word:
            yield column - last_linked
        last_word, last_linked = word, column
    yield length - last_linked

"""Word links by eflomal (Östling and Tiedemann 2016, "Efficient Word Alignment with Markov Chain Monte Carlo").

An optional package that learns from the very text that it aligns. Memory stays bounded: the text goes through in
chunks, and the statistics of the first one (its priors) are given to all that follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from phrasemate.align.links import Links, parse_links, symmetrise
from phrasemate.align.worded import Worded
from phrasemate.errors import InputError, MissingExtra

__all__ = ["EflomalAligner"]

CHUNK = 500_000  # sentence pairs: what they share is learned, and they fit into a few GB
LONGEST = 1_000  # words; eflomal leaves a sentence of more than 1,023 without a word
MODELS = (1, 2, 3)  # IBM model 1; and HMM; and fertility


class EflomalAligner:
    """Links words with eflomal, both directions, then symmetrised.

    ``chunk``: sentence pairs at once; the more, the better it learns and the more memory it takes. Words are compared
    in lower case. Each run draws its own samples: links differ a little from run to run.
    Raises MissingExtra where the package eflomal is not installed, InputError for settings that make no sense.
    """

    def __init__(self, symmetrisation: str = "grow-diag-final-and", chunk: int = CHUNK, model: int = 3) -> None:
        symmetrise([], [], symmetrisation)  # refuses an unknown name
        if chunk < 1 or model not in MODELS:
            raise InputError(f"chunk {chunk}, model {model}; expected a chunk of 1 or more and model 1, 2 or 3")
        try:
            self._eflomal: Any = import_module("eflomal")
        except ImportError as error:
            raise MissingExtra("eflomal", "train") from error
        self.symmetrisation, self.chunk, self.model = symmetrisation, chunk, model
        self._priors: list[str] = []

    @property
    def signature(self) -> dict[str, str]:
        """What decides about the links."""
        return {"method": "eflomal", "symmetrisation": self.symmetrisation, "chunk": str(self.chunk)}

    def align(self, pairs: Sequence[tuple[Worded, Worded]]) -> list[Links]:
        """The links of each sentence pair; none where a side has no words or more than 1,000."""
        return [symmetrise(*each, self.symmetrisation) for each in self.directions(pairs)]

    def directions(self, pairs: Sequence[tuple[Worded, Worded]]) -> list[tuple[Links, Links]]:
        """Both directions of each sentence pair, as (source word, target word)."""
        found: list[tuple[Links, Links]] = []
        for start in range(0, len(pairs), self.chunk):
            some = pairs[start : start + self.chunk]
            links = self._run(some)
            if not self._priors:
                self._learn(some, links)
            found += links
        return found

    def learn(self, pairs: Sequence[tuple[Worded, Worded]], links: Sequence[Links]) -> None:
        """Take the priors from sentence pairs that are aligned already (a run that goes on where another stopped)."""
        self._learn(pairs, [(each, each) for each in links])

    def _learn(self, pairs: Sequence[tuple[Worded, Worded]], links: Sequence[tuple[Links, Links]]) -> None:
        counts = [Counter[tuple[str, ...]]() for _ in range(3)]
        jumps = Counter[int](), Counter[int]()
        for (source, target), (forward, reverse) in zip(pairs, links, strict=True):
            left, right = _words(source), _words(target)
            counts[0].update((left[s], right[t]) for s, t in forward)
            fertilities = Counter(s for s, _ in forward), Counter(t for _, t in reverse)
            counts[1].update((left[s], str(n)) for s, n in fertilities[0].items())
            counts[2].update((right[t], str(n)) for t, n in fertilities[1].items())
            jumps[0].update(_jumps([(t, s) for s, t in forward], len(left)))
            jumps[1].update(_jumps(reverse, len(right)))
        self._priors = [
            "\t".join((kind, *words, str(n)))
            for kind, table in zip(("LEX", "FERF", "FERR"), counts, strict=True)
            for words, n in table.items()
        ]
        for kind, jump in zip(("HMMF", "HMMR"), jumps, strict=True):
            self._priors += [f"{kind}\t{length}\t{n}" for length, n in jump.items()]

    def _run(self, pairs: Sequence[tuple[Worded, Worded]]) -> list[tuple[Links, Links]]:
        usable = [i for i, pair in enumerate(pairs) if all(0 < len(side.spans) <= LONGEST for side in pair)]
        found: list[tuple[Links, Links]] = [([], []) for _ in pairs]
        if not usable:
            return found
        with TemporaryDirectory(prefix="phrasemate-") as folder:
            files = Path(folder) / "forward", Path(folder) / "reverse"
            self._eflomal.Aligner(model=self.model).align(
                _lines(pairs[i][0] for i in usable),
                _lines(pairs[i][1] for i in usable),
                links_filename_fwd=str(files[0]),
                links_filename_rev=str(files[1]),
                priors_input=self._priors or None,
            )
            with files[0].open(encoding="ascii") as forward, files[1].open(encoding="ascii") as reverse:
                for i, one, other in zip(usable, forward, reverse, strict=True):
                    found[i] = parse_links(one, "eflomal"), parse_links(other, "eflomal")
        return found


def _lines(sentences: Iterable[Worded]) -> Iterable[str]:
    return (" ".join(_words(sentence)) for sentence in sentences)


def _words(sentence: Worded) -> list[str]:
    """Words as eflomal takes them: no white space inside, in UTF-8."""
    return [
        "_".join(word.lower().split()).encode("utf-8", "replace").decode("utf-8") or "_" for word in sentence.words()
    ]


def _jumps(links: Sequence[tuple[int, int]], length: int) -> Iterable[int]:
    """How far the linked word moves from one word to the next, ends included, as eflomal counts it.

    ``links``: (word, linked word of the other side, whose sentence has ``length`` words).
    """
    last_word = last_linked = -1
    for word, linked in sorted(links):
        if word != last_word:
            yield linked - last_linked
        last_word, last_linked = word, linked
    yield length - last_linked

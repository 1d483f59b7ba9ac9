"""The spans that are ranked: which parts of a sentence, and the distractor sentences of phrase_bench."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.evaluate.data import parallel

MAX_WORDS = 6
CHUNK = 1_000  # sentences, some 50,000 spans
SHORTEST, LONGEST = 21, 199  # characters
FIRST = 15_000  # lines of each file of the protocol
PROTOCOL = ("de", "fr", "cs", "es")
_WORD = re.compile(r"\S+")

Offsets = NDArray[np.int32]


class Chunk(NamedTuple):
    """Some sentences, and for each its spans: (n, 2) starts and ends in characters."""

    texts: list[str]
    spans: list[Offsets]


def spans_of(text: str, max_words: int = MAX_WORDS) -> Offsets:
    """(n, 2) runs of one to ``max_words`` white-space words that begin and end in a letter or digit, by start."""
    words = [match.span() for match in _WORD.finditer(text)]
    first = [text[start].isalnum() for start, _ in words]
    last = [text[end - 1].isalnum() for _, end in words]
    found = [
        (words[i][0], words[j][1])
        for i in range(len(words))
        if first[i]
        for j in range(i, min(i + max_words, len(words)))
        if last[j]
    ]
    return np.array(found, np.int32).reshape(-1, 2)


def distractor_sentences(data: Path) -> Iterator[str]:
    """English sentences, lower-cased, of 21 to 199 characters, each once.

    First those of the protocol: from the first 15,000 lines of de, fr, cs and es, sorted, shuffled with
    ``random.Random(1)``. When they are used up, those of all other lines of all languages, in the same way.
    Raises InputError where a file is absent.
    """
    texts = _usable(text for lang in PROTOCOL for text, _ in parallel(data, lang, FIRST))
    yield from _shuffled(texts)
    langs = sorted(path.name.removeprefix("en-").removesuffix(".tsv.gz") for path in data.glob("parallel/en-*.tsv.gz"))
    yield from _shuffled(_usable(text for lang in langs for text, _ in parallel(data, lang)) - texts)


def chunks(sentences: Iterable[str], least: int) -> Iterator[Chunk]:
    """Sentences in their order until they have ``least`` spans; the last one is taken whole.

    Raises InputError where there are not enough.
    """
    rest, total = iter(sentences), 0
    while total < least:
        texts, spans = list(islice(rest, CHUNK)), []
        if not texts:
            raise InputError(f"{total:,} distractor spans in all of the text, {least:,} wanted; ask for fewer")
        for text in texts:
            if total >= least:
                break
            spans.append(spans_of(text))
            total += len(spans[-1])
        yield Chunk(texts[: len(spans)], spans)


def _usable(texts: Iterable[str]) -> set[str]:
    lower = (text.lower() for text in texts)
    return {text for text in lower if SHORTEST <= len(text) <= LONGEST}


def _shuffled(texts: Iterable[str]) -> list[str]:
    found = sorted(texts)
    random.Random(1).shuffle(found)
    return found

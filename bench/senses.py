"""Compute the bundled sense vectors: an ambiguous phrase in the sentences in which it is translated in a certain way.

    python bench/senses.py .cache/general --languages de        # and each other language
    python bench/senses.py .cache/general --out src/phrasemate/models/lexicon/senses.safetensors

The first command reads the XX.tsv and XX.links of bench/general_data.py and the XX.phrases.tsv of
bench/phrase_table.py. It takes the phrases of the bundled lexicon that are linked to several English wordings of
different stems, each `LEAST` times or more. Sentences are read in random order. One is encoded if it has a translation
with fewer than --most occurrences so far. XX.senses.npz holds the mean vector of each translation's occurrences. Only
pairs of class "free" are read that are not held out. The second command compresses the means of all languages that have
such a file.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from common import LANGS, parser
from phrase_table import held_out, linked, rows, spans

from phrasemate import Model, load_model
from phrasemate.align.pairs import TokenizedSentence
from phrasemate.lexicon import InducedLexicon, bundled_lexicon
from phrasemate.lexicon.inflection import ENGLISH_FUNCTION_WORDS, stemmed
from phrasemate.lexicon.senses import write_senses
from phrasemate.text import folded
from phrasemate.types import Phrase

LONGEST = 500  # characters of a sentence
WORDS = 5  # words of a phrase, at most
LEAST = 2  # links of a sense
OFTEN = 3  # links of a sense that the file has
FREQUENT = 20  # links of a phrase of which the file has all senses
AT_ONCE = 8_192  # phrases that are encoded together

Sense = tuple[str, str]  # stems of a phrase, and of its English equivalent


def ambiguous(table: Path, lang: str, lexicon: InducedLexicon) -> dict[str, dict[str, int]]:
    """Map the stems of each ambiguous phrase to the stems of its English translations, with their links.

    The phrase is in the lexicon. Its translations may be others; each is linked at least `LEAST` times.
    """
    links: dict[str, Counter[str]] = {}
    for wording, english, _, free in linked(table):
        if free and not ENGLISH_FUNCTION_WORDS.issuperset(english.split()):
            links.setdefault(wording, Counter())[stemmed(english, "en")] += free
    by_stems: dict[str, Counter[str]] = {}
    for wording, counts in links.items():
        if lexicon.into_english(wording, lang):
            by_stems.setdefault(stemmed(wording, lang), Counter()).update(counts)
    senses = {
        stems: {english: count for english, count in counts.items() if count >= LEAST}
        for stems, counts in by_stems.items()
    }
    return {stems: counts for stems, counts in senses.items() if len(counts) > 1}


class Occurrence(NamedTuple):
    """A phrase in its sentence and the number of its sense."""

    phrase: Phrase
    sense: int


def occurrences(
    folder: Path, lang: str, number_of: Mapping[Sense, int], most: int, seed: int
) -> Iterator[list[Occurrence]]:
    """Yield the occurrences in each sentence that has a sense with fewer than ``most`` occurrences so far."""
    texts = [
        (other, english, links)
        for other, english, _, licence, links in rows(folder, lang)
        if licence == "free" and len(other) <= LONGEST and not held_out(english)
    ]
    random.Random(seed).shuffle(texts)
    phrases = {phrase for phrase, _ in number_of}
    stems_of: dict[str, str] = {}
    counts = Counter[int]()
    for other, english, links in texts:
        inside = []
        for a, b, c, d in spans(TokenizedSentence.of(other), TokenizedSentence.of(english), links, WORDS):
            wording = folded(other[a:b])
            if wording not in stems_of:
                stems = stemmed(wording, lang)
                stems_of[wording] = stems if stems in phrases else ""
            if stems_of[wording]:
                number = number_of.get((stems_of[wording], stemmed(folded(english[c:d]), "en")))
                if number is not None:
                    inside.append(Occurrence(Phrase(other, a, b), number))
        if any(counts[one.sense] < most for one in inside):
            counts.update(one.sense for one in inside)
            yield inside


def gather(folder: Path, lang: str, lexicon: InducedLexicon, model: Model, most: int, seed: int) -> None:
    """Write XX.senses.npz: the senses, their links, and their mean vectors, (senses, dim) float16."""
    counts = ambiguous(folder / f"{lang}.phrases.tsv", lang, lexicon)
    senses = [(phrase, english) for phrase, links in counts.items() for english in links]
    number_of = {sense: number for number, sense in enumerate(senses)}
    sums = np.zeros((len(senses), model.dim), np.float32)
    numbers = np.zeros(len(senses), np.int64)
    batch: list[Occurrence] = []

    def add() -> None:
        where = np.array([one.sense for one in batch])
        np.add.at(sums, where, model.encode([one.phrase for one in batch]))
        np.add.at(numbers, where, 1)
        batch.clear()

    sentences = 0
    for inside in occurrences(folder, lang, number_of, most, seed):
        batch += inside
        sentences += 1
        if len(batch) >= AT_ONCE:
            add()
    if batch:
        add()
    links = np.array([counts[phrase][english] for phrase, english in senses])
    means = (sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)).astype(np.float16)
    names = np.array(["\t".join(sense) for sense in senses])
    np.savez(folder / f"{lang}.senses.npz", senses=names, links=links, occurrences=numbers, vectors=means)
    print(f"{lang}: {len(counts):,} phrases, {len(senses):,} senses, {sentences:,} sentences", flush=True)


def write(folder: Path, out: Path, pieces: int, model: Model) -> None:
    """Compress the senses that are linked `OFTEN` times or more, and all senses of frequent phrases."""
    names: list[tuple[str, str, str]] = []
    differences = []
    for path in sorted(folder.glob("??.senses.npz")):
        file, lang = np.load(path), path.name[:2]
        senses = [sense.split("\t") for sense in file["senses"].tolist()]
        links, vectors = file["links"].tolist(), file["vectors"].astype(np.float32)
        totals = Counter[str]()
        for (phrase, _), count in zip(senses, links, strict=True):
            totals[phrase] += count
        rows_of: dict[str, list[int]] = {}
        for row in np.flatnonzero(file["occurrences"]).tolist():
            phrase = senses[row][0]
            if links[row] >= OFTEN or totals[phrase] >= FREQUENT:
                rows_of.setdefault(phrase, []).append(row)
        for phrase, of_phrase in rows_of.items():
            if len(of_phrase) > 1:
                names += [(phrase, lang, senses[row][1]) for row in of_phrase]
                differences.append(vectors[of_phrase] - vectors[of_phrase].mean(axis=0))
    facts = {"model": model.hash, "licence": "LICENSE.md", "source": "bench/senses.py"}
    write_senses(out, names, np.concatenate(differences), pieces, facts)
    print(f"{len(names):,} senses of {len(differences):,} phrases, {out.stat().st_size:,} bytes")


def main() -> None:
    """Gather the senses of some languages, or write the file."""
    options = parser(__doc__)
    options.add_argument("folder", type=Path, help="tables and links of bench/general_data.py and phrase_table.py")
    options.add_argument("--languages", default=",".join(LANGS), help="codes, with commas (default: all)")
    options.add_argument("--most", type=int, default=24, help="enough occurrences of a sense (default: %(default)s)")
    options.add_argument("--out", type=Path, help="file to write; without it, senses are gathered")
    options.add_argument("--pieces", type=int, default=12, help="bytes of a sense in the file (default: %(default)s)")
    args = options.parse_args()
    lexicon, model = bundled_lexicon(), load_model(args.model, args.threads)
    assert lexicon is not None
    if args.out is not None:
        write(args.folder, args.out, args.pieces, model)
        return
    for lang in args.languages.split(","):
        gather(args.folder, lang, lexicon, model, args.most, args.seed)


if __name__ == "__main__":
    main()

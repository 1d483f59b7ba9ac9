"""Compute the bundled sense vectors: an ambiguous phrase in the sentences in which it is translated in a certain way.

    python bench/senses.py .cache/general --languages de              # and each other language, into English
    python bench/senses.py .cache/general --languages en --most 12    # English phrases, into all of them
    python bench/senses.py .cache/general --out LEXICON/senses-into-english.safetensors
    python bench/senses.py .cache/general --out LEXICON/senses-from-english.safetensors --languages en --pieces 8

With --codebooks FILE, the codebooks of an earlier file are used. So languages that were not gathered again stay as they
are.

The first two commands read the XX.tsv and XX.links of bench/general_data.py and the XX.phrases.tsv of
bench/phrase_table.py. They take the phrases of the bundled lexicon that are linked to several wordings of different
stems, each `LEAST` times or more (from English: `OFTEN` times). A sentence is encoded if it has a translation with
fewer than --most occurrences so far. Sentences are read in random order; English ones are ordered by the number of
translations in them, as many have been translated into several languages. XX.senses.npz holds the mean vector of each
translation's occurrences. Only pairs of class "free" are read that are not held out. The last two commands compress the
means of these languages; LEXICON is src/phrasemate/models/lexicon.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from common import LANGS, parser
from phrase_table import held_out, linked, rows, spans

from phrasemate import Model, load_model
from phrasemate.align.pairs import TokenizedSentence
from phrasemate.lexicon import InducedLexicon, bundled_lexicon
from phrasemate.lexicon.inflection import ENGLISH_FUNCTION_WORDS, stemmed
from phrasemate.lexicon.senses import SenseVectors, write_senses
from phrasemate.text import folded
from phrasemate.types import Phrase
from phrasemate.utils.arrays import Floats

LONGEST = 500  # characters of a sentence
WORDS = 5  # words of a phrase, at most
LEAST = 2  # links of a sense
OFTEN = 3  # links of a sense that the file has
FREQUENT = 20  # links of a phrase of which the file has all senses
FROM_ENGLISH = 5  # links of a sense of an English phrase that the file has
AT_ONCE = 8_192  # phrases that are encoded together

Sense = tuple[str, str, str]  # stems of a phrase and of its translation, and the language of the translation
Occurrence = tuple[int, int, int]  # start and end of a phrase in its sentence, and the number of its sense


def ambiguous(table: Path, lang: str, lexicon: InducedLexicon, from_english: bool) -> dict[Sense, int]:
    """Map the senses of the ambiguous phrases of a language, or of English, to their links.

    The phrase is in the lexicon. Its translations may be others; each is linked at least `LEAST` times, or `OFTEN`.
    """
    links: dict[str, Counter[str]] = {}
    source, target = ("en", lang) if from_english else (lang, "en")
    for other, english, _, free in linked(table):
        if free and not ENGLISH_FUNCTION_WORDS.issuperset(english.split()):
            phrase, wording = (english, other) if from_english else (other, english)
            links.setdefault(phrase, Counter())[stemmed(wording, target)] += free
    by_stems: dict[str, Counter[str]] = {}
    for phrase, counts in links.items():
        if lexicon.equivalents(phrase, "en", lang) if from_english else lexicon.into_english(phrase, lang):
            by_stems.setdefault(stemmed(phrase, source), Counter()).update(counts)
    least = OFTEN if from_english else LEAST
    senses = [
        {(stems, wording, target): count for wording, count in counts.items() if count >= least}
        for stems, counts in by_stems.items()
    ]
    return {sense: count for counts in senses if len(counts) > 1 for sense, count in counts.items()}


def occurrences(
    folder: Path, lang: str, number_of: Mapping[Sense, int], from_english: bool
) -> Iterator[tuple[str, list[Occurrence]]]:
    """Yield each sentence of a language, or each English one, with its occurrences of senses."""
    source, target = ("en", lang) if from_english else (lang, "en")
    phrases = {phrase for phrase, *_ in number_of}
    stems_of: dict[str, str] = {}
    for other, english, _, licence, links in rows(folder, lang):
        if licence != "free" or len(english if from_english else other) > LONGEST or held_out(english):
            continue
        inside = []
        for a, b, c, d in spans(TokenizedSentence.of(other), TokenizedSentence.of(english), links, WORDS):
            start, end, phrase, wording = (
                (c, d, english[c:d], other[a:b]) if from_english else (a, b, other[a:b], english[c:d])
            )
            phrase = folded(phrase)
            if phrase not in stems_of:
                stems = stemmed(phrase, source)
                stems_of[phrase] = stems if stems in phrases else ""
            if stems_of[phrase]:
                number = number_of.get((stems_of[phrase], stemmed(folded(wording), target), target))
                if number is not None:
                    inside.append((start, end, number))
        if inside:
            yield english if from_english else other, inside


def select(sentences: Iterable[tuple[str, list[Occurrence]]], most: int) -> Iterator[tuple[str, list[Occurrence]]]:
    """Select the sentences that have a sense with fewer than ``most`` occurrences in those selected before."""
    counts = Counter[int]()
    for text, inside in sentences:
        if any(counts[number] < most for _, _, number in inside):
            counts.update(number for _, _, number in inside)
            yield text, inside


def gather(folder: Path, lang: str, lexicon: InducedLexicon, model: Model, most: int, seed: int) -> None:
    """Write XX.senses.npz: the senses, their links, and their mean vectors, (senses, dim) float16."""
    languages = sorted(path.stem for path in folder.glob("??.links")) if lang == "en" else [lang]
    counts: dict[Sense, int] = {}
    for one in languages:
        counts |= ambiguous(folder / f"{one}.phrases.tsv", one, lexicon, lang == "en")
    number_of = {sense: number for number, sense in enumerate(counts)}
    by_sentence: dict[str, list[Occurrence]] = {}
    for one in languages:
        for text, inside in occurrences(folder, one, number_of, lang == "en"):
            by_sentence.setdefault(text, []).extend(inside)
    sentences = list(by_sentence.items())
    random.Random(seed).shuffle(sentences)
    if lang == "en":
        sentences.sort(key=lambda sentence: -len(sentence[1]))
    sums = np.zeros((len(counts), model.dim), np.float32)
    numbers = np.zeros(len(counts), np.int64)
    batch: dict[Phrase, list[int]] = {}

    def add() -> None:
        owners = np.repeat(np.arange(len(batch)), [len(senses) for senses in batch.values()])
        where = np.concatenate([*batch.values()])
        np.add.at(sums, where, model.encode([*batch])[owners])
        np.add.at(numbers, where, 1)
        batch.clear()

    encoded = 0
    for text, inside in select(sentences, most):
        encoded += 1
        for start, end, number in inside:
            batch.setdefault(Phrase(text, start, end), []).append(number)
        if len(batch) >= AT_ONCE:
            add()
    if batch:
        add()
    means = (sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)).astype(np.float16)
    names = np.array(["\t".join(sense) for sense in counts])
    links = np.array([*counts.values()])
    np.savez(folder / f"{lang}.senses.npz", senses=names, links=links, occurrences=numbers, vectors=means)
    phrases = len({phrase for phrase, *_ in counts})
    print(f"{lang}: {phrases:,} phrases, {len(counts):,} senses, {encoded:,} sentences", flush=True)


def write(
    folder: Path, languages: Sequence[str], out: Path, pieces: int, model: Model, codebooks: Floats | None
) -> None:
    """Compress the senses that are linked often enough, and all senses of frequent phrases.

    Those of English phrases are linked `FROM_ENGLISH` times, all others `OFTEN` times.
    """
    names: list[tuple[str, str, str, str]] = []
    differences = []
    for lang in sorted(languages):
        file = np.load(folder / f"{lang}.senses.npz")
        senses = [sense.split("\t") for sense in file["senses"].tolist()]
        links, vectors = file["links"].tolist(), file["vectors"].astype(np.float32)
        totals = Counter[tuple[str, str]]()
        for (phrase, _, target), count in zip(senses, links, strict=True):
            totals[phrase, target] += count
        rows_of: dict[tuple[str, str], list[int]] = {}
        for row in np.flatnonzero(file["occurrences"]).tolist():
            phrase, _, target = senses[row]
            is_frequent = lang != "en" and totals[phrase, target] >= FREQUENT
            if is_frequent or links[row] >= (FROM_ENGLISH if lang == "en" else OFTEN):
                rows_of.setdefault((phrase, target), []).append(row)
        for (phrase, target), of_phrase in rows_of.items():
            if len(of_phrase) > 1:
                names += [(phrase, lang, senses[row][1], target) for row in of_phrase]
                differences.append(vectors[of_phrase] - vectors[of_phrase].mean(axis=0))
    facts = {"model": model.hash, "licence": "LICENSE.md", "source": "bench/senses.py"}
    write_senses(out, names, np.concatenate(differences), pieces, facts, codebooks)
    print(f"{len(names):,} senses of {len(differences):,} phrases, {out.stat().st_size:,} bytes")


def main() -> None:
    """Gather the senses of some languages, or write the file."""
    options = parser(__doc__)
    options.add_argument("folder", type=Path, help="tables and links of bench/general_data.py and phrase_table.py")
    options.add_argument("--languages", default=",".join(LANGS), help="codes, with commas (default: all)")
    options.add_argument("--most", type=int, default=24, help="enough occurrences of a sense (default: %(default)s)")
    options.add_argument("--out", type=Path, help="file to write; without it, senses are gathered")
    options.add_argument("--pieces", type=int, default=12, help="bytes of a sense in the file (default: %(default)s)")
    options.add_argument("--codebooks", type=Path, help="file whose codebooks are used; without it, they are trained")
    args = options.parse_args()
    lexicon, model = bundled_lexicon(), load_model(args.model, args.threads)
    assert lexicon is not None
    if args.out is not None:
        codebooks = SenseVectors(args.codebooks).codebooks if args.codebooks else None
        write(args.folder, args.languages.split(","), args.out, args.pieces, model, codebooks)
        return
    for lang in args.languages.split(","):
        gather(args.folder, lang, lexicon, model, args.most, args.seed)


if __name__ == "__main__":
    main()

"""Look-up of phrases and idioms in text that is not their translation: how often the first answer is right.

The systems are the search with each of its switches, sentence search, and a dictionary alone.

A query is a phrase in its sentence. The collection holds sentences of another language, usually English, none of them
the translation of a query's sentence. An answer is right if the phrase is linked to its wording anywhere in a large
parallel text, or if a dictionary lists it. Wordings are compared as lemmas, in English without articles and "to". Only
queries with a right wording in the collection count. Confidences are measured on all queries, because a user does not
know which queries have an answer. ``bench/lookup_set.py`` makes queries and collections; docs/results/lookup.md
explains them.

Idioms are a harder test, since hardly any word of an idiom means the same as a word of the answer. Their file has one
JSON object on each line with the keys de, en (a sentence pair), idiom_de, idiom_en, direction. In the direction "en-de"
the two idioms are swapped. The words of the German idiom are matched with the sentence by their lemmas, in any order.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, compress, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from phrasemate.encode import Model, load_model
from phrasemate.encode.scoring import Views, alone
from phrasemate.errors import InputError, ReadError
from phrasemate.evaluate.ccpr import parse_row
from phrasemate.evaluate.data import digest, json_lines
from phrasemate.evaluate.metrics import bootstrap, check_seed, randomisation_test
from phrasemate.evaluate.report import Result, Table, signature
from phrasemate.index import BaseIndex, Index
from phrasemate.lexicon import Lexicon, bundled_lexicon
from phrasemate.lexicon.inflection import stem
from phrasemate.lexicon.spelling import respell
from phrasemate.results import Answer, SearchRequest
from phrasemate.search import Searcher
from phrasemate.text import folded, split_sentences, words
from phrasemate.text.japanese import PARTICLES
from phrasemate.types import Document, Phrase, Progress
from phrasemate.utils.storage import save_arrays

HALVES = ("dev", "test")
DEPTH = 10  # number of first answers that count
LEADING = {"en": frozenset({"a", "an", "the", "to"}), "ja": PARTICLES}  # words removed from the beginning of a wording
TRAILING = {"ja": PARTICLES}  # and from its end
NOTHING = frozenset[str]()
UNLISTED = frozenset({"ar", "he", "ja", "ko", "th", "vi", "zh"})  # languages without lemmas in simplemma


class LookupQuery(NamedTuple):
    """Phrase to look up.

    ``right``: right wordings, in the form of `lemmas`. ``sense``: the right wordings with the meaning that the phrase
    has in its sentence; None if the phrase is not ambiguous. ``function_start``: whether the phrase begins with a
    function word. ``mate``: the translation of the sentence, if the collection may hold it. ``usual``: the right
    wordings that are usual ones; None if the set does not say. ``part_of_speech``: that of the translation, "" if
    unknown.
    """

    phrase: Phrase
    language: str
    domain: str
    right: frozenset[str]
    sense: frozenset[str] | None
    function_start: bool
    mate: str = ""
    usual: frozenset[str] | None = None
    part_of_speech: str = ""


class SenseQuery(NamedTuple):
    """Ambiguous phrase to look up.

    ``right``: wordings with the meaning that the phrase has in its sentence, in the form of `lemmas`; ``other``:
    wordings of its other meanings. ``mate``: the translation of the sentence, which is excluded from the search.
    """

    phrase: Phrase
    language: str
    right: frozenset[str]
    other: frozenset[str]
    mate: str


AnyQuery = TypeVar("AnyQuery", LookupQuery, SenseQuery)


class Ranks(NamedTuple):
    """Ranks (queries,) of the first right answer, the first answer of the right sense, and the first usual answer.

    Rank 0 is the first answer; inf means that no answer is right.
    """

    right: NDArray[np.float64]
    sense: NDArray[np.float64]  # NaN if the phrase is not ambiguous
    usual: NDArray[np.float64]  # NaN if the set does not say which wordings are usual


def read_lookups(path: Path, half: str) -> list[LookupQuery]:
    """Read the queries of one half ("dev" or "test") of a file of ``bench/lookup_set.py``.

    Raises InputError for another half, ReadError for a line that is not a query.
    """
    fields = ("language", "domain", "right", "sense", "function_start")
    return _read(path, half, fields, _lookup)


def _lookup(phrase: Phrase, row: dict[str, Any]) -> LookupQuery:
    sense = None if row["sense"] is None else frozenset(row["sense"])
    usual = frozenset(row["usual"]) if "usual" in row else None
    return LookupQuery(
        *(phrase, row["language"], row["domain"], frozenset(row["right"]), sense, row["function_start"]),
        usual=usual,
        part_of_speech=row.get("part_of_speech", ""),
    )


def read_senses(path: Path, half: str) -> list[SenseQuery]:
    """Read the ambiguous phrases of one half of a senses.jsonl of ``bench/lookup_set.py``.

    Raises InputError for another half, ReadError for a line that is not an ambiguous phrase.
    """
    return _read(path, half, SenseQuery._fields[1:], _sense)


def _sense(phrase: Phrase, row: dict[str, Any]) -> SenseQuery:
    return SenseQuery(phrase, row["language"], frozenset(row["right"]), frozenset(row["other"]), row["mate"])


def _read(
    path: Path, half: str, fields: Sequence[str], make: Callable[[Phrase, dict[str, Any]], AnyQuery]
) -> list[AnyQuery]:
    """Read one half of a file with a marked phrase in each line.

    ``fields``: what a line has besides the phrase and its half. ``make``: makes a query of a phrase and its line.
    """
    if half not in HALVES:
        raise InputError(f"half {half!r}; expected {' or '.join(HALVES)}")
    queries = []
    for number, row in enumerate(json_lines(path, ("text", "start", "end", "half", *fields)), 1):
        try:
            query = make(Phrase(row["text"], row["start"], row["end"]), row)
        except (InputError, TypeError) as error:
            raise ReadError(str(path), number, str(error), "make it again with bench/lookup_set.py") from error
        if row["half"] == half:
            queries.append(query)
    return queries


def lemmas(wording: str, language: str = "en") -> str:
    """Return the lemmas of a wording, without case and punctuation.

    English articles and "to" at its beginning are removed, and Japanese particles at its ends, which do the work of
    cases. The lemmas are those of the package simplemma, for languages that it lacks the stems of
    `phrasemate.lexicon.inflection.stem`. So traditional Chinese equals simplified.
    """
    parts = _folded_words(wording, language)
    while len(parts) > 1 and parts[0] in LEADING.get(language, NOTHING):
        parts = parts[1:]
    while len(parts) > 1 and parts[-1] in TRAILING.get(language, NOTHING):
        parts = parts[:-1]
    return " ".join(_word(part, language) for part in parts)


def _folded_words(text: str, language: str) -> list[str]:
    """Split a text into case-folded words, traditional Chinese as simplified: the words of both would differ."""
    text = respell(text.casefold(), language) if language == "zh" else text
    return [text[start:end].casefold() for start, end in words(text)]


@lru_cache(1 << 18)
def lemma(word: str, language: str = "en") -> str:
    """Return the case-folded lemma of a word."""
    from simplemma import lemmatize

    return lemmatize(word, language).casefold()


def _word(word: str, language: str) -> str:
    """Return the lemma of a case-folded word, in English without the genitive 's."""
    if language in UNLISTED:
        return stem(word, language)
    if language == "en":
        return lemma(word.removesuffix("'s").removesuffix("’s"))
    base = lemma(word, language)
    if language == "de" and base in (word, f"{word}n", f"{word}en"):  # "ufer" is not a form of the verb "ufern"
        return lemma(word.capitalize(), language)
    return base


def answerable(queries: Sequence[LookupQuery], sentences: Iterable[str], language: str = "en") -> list[bool]:
    """Return for each query whether a sentence contains one of its right wordings as whole words."""
    wordings = present({wording for query in queries for wording in query.right}, sentences, language)
    return [not query.right.isdisjoint(wordings) for query in queries]


def present(wordings: set[str], sentences: Iterable[str], language: str = "en") -> set[str]:
    """Return the wordings (in the form of `lemmas`) that occur in some sentence as whole words."""
    longest = max((wording.count(" ") + 1 for wording in wordings), default=0)
    subset: set[str] = set()
    for sentence in sentences:
        parts = [_word(part, language) for part in _folded_words(sentence, language)]
        for start in range(len(parts)):
            ends = range(start + 1, min(start + longest, len(parts)) + 1)
            subset.update(wordings.intersection(" ".join(parts[start:end]) for end in ends))
    return subset


def ranks(queries: Sequence[LookupQuery], answers: Sequence[Sequence[str]], language: str = "en") -> Ranks:
    """Return the ranks of the first right wordings in each query's answers, which are in order of quality.

    Only the first `DEPTH` answers count.
    """
    ranks = np.empty((3, len(queries)))
    for number, (query, wordings) in enumerate(zip(queries, answers, strict=True)):
        answer = [lemmas(wording, language) for wording in wordings[:DEPTH]]
        ranks[:, number] = [_first(answer, right) for right in (query.right, query.sense, query.usual)]
    return Ranks(*ranks)


def _first(wordings: Sequence[str], right: frozenset[str] | None) -> float:
    """Return the index of the first right wording, inf if there is none; NaN if ``right`` is None."""
    if right is None:
        return np.nan
    return next((float(place) for place, wording in enumerate(wordings) if wording in right), np.inf)


def strata(query: LookupQuery) -> dict[str, str]:
    """Return the strata of a query: its language, domain, number of words and kind, for instance."""
    length = len(words(query.phrase.text))
    return {
        "language": query.language,
        "domain": query.domain,
        "words": f"{min(length, 3)}{'+' if length > 2 else ''}",
        "kind": "ambiguous" if query.sense is not None else "one meaning",
        "begins with": "function word" if query.function_start else "content word",
        **({"part of speech": query.part_of_speech} if query.part_of_speech else {}),
    }


def lookup_tables(
    queries: Sequence[LookupQuery], systems: Mapping[str, Ranks], against: str, what: str, seed: int = 0
) -> list[Table]:
    """Return the table of all systems, and the table of each system's share of right first answers by stratum.

    Args:
        queries: Queries.
        systems: Ranks of each system.
        against: System that the others are compared with, by the paired randomisation test.
        what: Name of the collection.
        seed: Seed of the resampling.
    """
    first = {name: (ranks.right < 1).astype(float) for name, ranks in systems.items()}
    rows: list[tuple[Any, ...]] = []
    for name, ranks in systems.items():
        ambiguous, has_usual = ~np.isnan(ranks.sense), ~np.isnan(ranks.usual)
        p = None if name == against else randomisation_test(first[name], first[against], seed=seed)
        rows.append(
            (
                name,
                bootstrap(first[name], seed=seed),
                float((ranks.right < 5).mean()),
                float((1 / (ranks.right + 1)).mean()),
                bootstrap((ranks.usual[has_usual] < 1).astype(float), seed=seed) if has_usual.any() else None,
                bootstrap((ranks.sense[ambiguous] < 1).astype(float), seed=seed) if ambiguous.any() else None,
                p,
            )
        )
    header = ("system", "first", "first five", "MRR", "usual first", "right sense first", "p")
    title = f"Look-ups: {len(queries):,} phrases, {what}"
    tables = [Table(f"lookup {what}", title, header, tuple(rows), f"[95 % bootstrap interval]; p: against {against}")]
    kinds = [strata(query) for query in queries]
    by_stratum: list[tuple[Any, ...]] = []
    for kind in dict.fromkeys(kind for row in kinds for kind in row):
        for value in sorted({row[kind] for row in kinds if kind in row}):
            query_mask = np.array([row.get(kind) == value for row in kinds])
            by_stratum.append(
                (f"{kind}: {value}", int(query_mask.sum()), *(float(s[query_mask].mean()) for s in first.values()))
            )
    tables.append(Table(f"strata {what}", f"Right first, {what}", ("phrases", "number", *first), tuple(by_stratum), ""))
    return tables


def sense_table(queries: Sequence[LookupQuery], systems: Mapping[str, Ranks], against: str, what: str) -> Table:
    """Return the table of how often the first answer to an ambiguous phrase has the right sense or a wrong one.

    Args:
        queries: Ambiguous phrases.
        systems: Ranks of each system.
        against: System that the others are compared with, by the paired randomisation test.
        what: Name of the collection.
    """
    first = {name: (ranks.sense < 1).astype(float) for name, ranks in systems.items()}
    rows = tuple(
        (
            name,
            bootstrap(first[name]),
            float(((ranks.right < 1) & ~(ranks.sense < 1)).mean()),
            None if name == against else randomisation_test(first[name], first[against]),
        )
        for name, ranks in systems.items()
    )
    title = f"Senses: {len(queries):,} ambiguous phrases, {what}"
    header = ("system", "right sense first", "another sense first", "p")
    return Table(f"senses {what}", title, header, rows, f"[95 % bootstrap interval]; p: against {against}")


BANDS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 1.1)  # limits of the bands of confidence; a band excludes its upper limit


def confidence_table(
    sure: Mapping[str, NDArray[np.float64]],
    first: Mapping[str, NDArray[np.bool_]],
    what: str,
    bands: Sequence[float] = BANDS,
) -> Table:
    """Return the table of how often answers of similar confidence are right.

    Args:
        sure: For each system the confidence in the first answer of each query, (queries,).
        first: For each system whether that answer is right, (queries,).
        what: Name of the collection.
        bands: Edges of the bands of confidence, ascending; the last one is above 1.
    """
    rows: list[tuple[Any, ...]] = []
    for name, confidence in sure.items():
        for low, high in pairwise(bands):
            band = (confidence >= low) & (confidence < high)
            if band.any():
                label = f"below {high}" if not low else f"{low} to {high}" if high <= 1 else f"{low} or more"
                means = float(confidence[band].mean()), float(first[name][band].mean())
                rows.append((name, label, int(band.sum()), *means))
    header = ("system", "confidence", "phrases", "mean", "right first")
    note = "also of phrases without a right wording in the collection"
    return Table(f"confidence {what}", f"Confidence, {what}", header, tuple(rows), note)


COUNT = 200  # number of idioms that are asked
WIDEST = 3  # longest match of an idiom in a sentence, as a multiple of the idiom's number of words
GERMAN_FUNCTION_WORDS = frozenset(
    """
    der die das den dem des ein eine einen einem einer eines kein keine keinen keinem keiner und oder
    in im ins an am ans auf aus bei beim mit nach von vom vor zu zum zur um über unter durch für gegen bis
    ich du er sie es wir ihr sich mich dich uns euch ihm ihn ihnen mir dir sein seine seinen seinem seiner
    ihre ihren ihrem ihrer mein dein unser euer jemand jemanden jemandem etwas man nicht
    ist sind war haben hat hatte werden wird wurde worden wie als so auch noch nur
    """.split()  # noqa: SIM905
)


def read_idioms(path: Path, count: int = COUNT, seed: int = 0) -> tuple[list[LookupQuery], list[str]]:
    """Draw at most ``count`` queries from a file of idioms, and return them with English sentences to search.

    These are the English sentences of the file without the mates of the queries. Raises InputError if no idiom occurs
    in its sentence, ReadError for a line that is not a sentence pair with its idioms.
    """
    rows = json_lines(path, ("de", "en", "idiom_de", "idiom_en", "direction"))
    random.Random(seed).shuffle(rows)
    queries: list[LookupQuery] = []
    mates: set[str] = set()
    for row in rows:
        german, english = row["idiom_de"], row["idiom_en"]
        if row["direction"] == "en-de":
            german, english = english, german
        place = place_of(german, row["de"]) if len(queries) < count else None
        if place is not None:
            whole = lemmas(english)
            right = frozenset({whole, whole.removeprefix("be ")})
            queries.append(LookupQuery(Phrase(row["de"], *place), "de", "idioms", right, None, False))
            mates.add(row["en"])
    if not queries:
        raise InputError(f"{path}: no idiom occurs in its sentence; expected German sentences with their idioms")
    return queries, sorted({row["en"] for row in rows} - mates)


def place_of(idiom: str, sentence: str) -> tuple[int, int] | None:
    """Return start and end of the shortest run of words with all content words of an idiom; None if there is none.

    A run that is too long or has a single word does not count. Words of the idiom directly before the run are added to
    it, as in "in den Kinderschuhen". A part of the idiom may list alternatives with ``|`` between them, one of which
    must occur.
    """
    content_words = [choice for part in idiom.split() if (choice := _choice(part.split("|")))]
    every = _german(idiom.replace("|", " ").split())
    spans = words(sentence)
    having = [_german([sentence[start:end]]) for start, end in spans]
    most = WIDEST * len(idiom.split())
    for length in range(len(content_words), min(most, len(spans)) + 1):
        for first in range(len(spans) - length + 1):
            inside = frozenset().union(*having[first : first + length])
            if content_words and all(choice & inside for choice in content_words):
                last = first + length - 1
                while first and not every.isdisjoint(having[first - 1]):
                    first -= 1
                return (spans[first][0], spans[last][1]) if first < last else None
    return None


def _choice(part: Iterable[str]) -> frozenset[str]:
    """Return the lemmas of the alternatives for one word of an idiom; empty for a function word."""
    return _german(word for word in part if words(word) and word.casefold() not in GERMAN_FUNCTION_WORDS)


def _german(parts: Iterable[str]) -> frozenset[str]:
    """Return words and their lemmas, case-folded.

    An idiom may be listed without its capital letters, and lemmas depend on these, so both spellings are looked up.
    """
    forms = [form for part in parts for form in (part, part.casefold(), part.capitalize())]
    return frozenset(form.casefold() for form in forms) | {lemma(form, "de") for form in forms}


SWITCHES: dict[str, dict[str, Any]] = {  # arguments of the `Searcher` with the bundled model
    "search": {},
    "without lexicon": {"lexicon": False},
    "views": {"views": Views()},
    "quick": {"views": False},
}
PHRASES = "phrases alone"  # the search with vectors of the phrases without their sentences
VECTORS = "vectors alone"  # such vectors only, without the lexicon and the second look
SENTENCES, DICTIONARY = "sentences", "dictionary"
SYSTEMS = (*SWITCHES, PHRASES, VECTORS, SENTENCES, DICTIONARY)
NEAR = 50  # number of nearest sentences whose phrases are the candidates of sentence search
BATCH = 256  # queries that are searched together


class Answers(NamedTuple):
    """Answers of a system to each query: distinct wordings in order of quality, and the confidence in the first one.

    ``confidence`` is None if the system has none.
    """

    wordings: list[list[str]]
    confidence: list[float] | None = None


@dataclass(frozen=True)
class Collection:
    """Sentences of a language to search; ``base`` is a collection with the first of these sentences, or None."""

    name: str
    sentences: list[str]
    language: str
    base: Collection | None = None

    @property
    def document(self) -> Document:
        """Return a document with the sentences that the base does not hold."""
        return Document.from_texts(self.name, self.sentences[len(self.base.sentences) if self.base else 0 :])

    def folder(self, work: Path, model: Model) -> Path:
        """Return the folder of the index; its name differs for other sentences and other models."""
        return work / f"{self.name}-{self.document.digest[:8]}-{model.hash[:8]}"

    def indexed(self, work: Path, model: Model, threads: int | None, progress: Progress) -> Path:
        """Return the folder of the index, which is made first if it does not exist.

        The folder appears only when the index is complete.
        """
        folder = self.folder(work, model)
        if folder.exists():
            return folder
        partial_folder = folder.with_suffix(".unfinished")
        shutil.rmtree(partial_folder, ignore_errors=True)
        if self.base:
            shutil.copytree(self.base.indexed(work, model, threads, progress), partial_folder)
        else:
            Index.create(partial_folder, model, threads=threads).close()
        progress(f"index of {self.name}, {model.name}", 0, 1)
        with Index.open(partial_folder, model, threads=threads) as index:
            index.add([self.document], lang=self.language)
        progress(f"index of {self.name}, {model.name}", 1, 1)
        partial_folder.rename(folder)
        return folder


def search_answers(searcher: Searcher, queries: Sequence[LookupQuery], progress: Callable[[int], None]) -> Answers:
    """Return the wordings of the groups that a search finds; the mates of the queries are excluded."""
    request = SearchRequest(DEPTH, contexts=1)
    answers: list[Answer] = []
    for batch in _batches(queries):
        phrases = [query.phrase for query in batch]
        answers += searcher.search_phrases(phrases, request, without=[query.mate for query in batch])
        progress(len(answers))
    confidence = [value for _, value in answers if value is not None]
    wordings = [[group.text for group in groups] for groups, _ in answers]
    return Answers(wordings, confidence if len(confidence) == len(answers) else None)


def _batches(queries: Sequence[LookupQuery]) -> Iterator[Sequence[LookupQuery]]:
    return (queries[start : start + BATCH] for start in range(0, len(queries), BATCH))


def sentence_answers(
    index: BaseIndex, model: Model, queries: Sequence[LookupQuery], progress: Callable[[int], None]
) -> Answers:
    """Return the phrases nearest the query among those of the `NEAR` sentences nearest the query's sentence."""
    sentence_vectors, phrases = _sentences(index, model)
    answers: list[list[str]] = []
    for batch in _batches(queries):
        vectors = model.encode([query.phrase for query in batch])
        nearness = model.encode_sentences([query.phrase.context for query in batch]) @ sentence_vectors.T
        for vector, near in zip(vectors, nearness, strict=True):
            nearest_rows = np.argsort(-near, kind="stable")[:NEAR]
            ids = np.fromiter(chain.from_iterable(phrases[row] for row in nearest_rows), np.int64)
            answers.append(_wordings(index, ids, vector))
        progress(len(answers))
    return Answers(answers)


def _sentences(index: BaseIndex, model: Model) -> tuple[NDArray[np.float32], list[range]]:
    """Return the vectors (n, dim) of an index's sentences, and the phrase ids of each sentence.

    The vectors are stored in a file beside the folder of the index.
    """
    rows = list(index.store.all_sentences())
    path = Path(index.path).with_suffix(".sentences")
    if not path.exists():
        save_arrays(path, {"vectors": model.encode_sentences([row.text for row in rows])})
    return load_file(path)["vectors"], [range(row.first_phrase, row.first_phrase + row.phrases) for row in rows]


def _wordings(index: BaseIndex, ids: NDArray[np.int64], vector: NDArray[np.float32]) -> list[str]:
    """Return the first `DEPTH` distinct wordings of phrases, by cosine, highest first."""
    if not len(ids):
        return []
    cosines = index.vectors(ids) @ vector
    order = np.argsort(-cosines, kind="stable")
    texts: dict[str, str] = {}
    for part in np.array_split(order, range(4 * DEPTH, len(order), 4 * DEPTH)):
        for hit in index.hits(ids[part], cosines[part]):
            texts.setdefault(folded(hit.text), hit.text)
        if len(texts) >= DEPTH:
            break
    return list(texts.values())[:DEPTH]


def dictionary_answers(lexicon: Lexicon, queries: Sequence[LookupQuery], collection: Collection) -> Answers:
    """Return the equivalents of a dictionary that occur in the collection, in the dictionary's order."""
    language = collection.language
    listed_answers = [
        [equivalent.text for equivalent in lexicon.equivalents(query.phrase.text, query.language, language)]
        for query in queries
    ]
    wordings = {lemmas(text, language) for texts in listed_answers for text in texts}
    standing = present(wordings, collection.sentences, language)
    return Answers([[text for text in texts if lemmas(text, language) in standing] for texts in listed_answers])


class Systems:
    """Systems to compare: those of `SYSTEMS`, which use the bundled model, and the default search of each of
    ``models``.

    ``work`` is the folder for the indexes and vectors of collections; what it already holds is used again.
    """

    def __init__(self, bundled: Model, models: Mapping[str, Model], work: Path, threads: int | None) -> None:
        self.bundled, self.models, self.work, self.threads = bundled, dict(models), work, threads

    def answers(self, name: str, collection: Collection, queries: Sequence[LookupQuery], progress: Progress) -> Answers:
        """Return the answers of the system ``name``. Raises InputError for "dictionary" if no lexicon is installed."""
        if name == DICTIONARY:
            lexicon = bundled_lexicon()
            if lexicon is None:
                raise InputError("no lexicon comes with this installation; leave dictionary out of --systems")
            return dictionary_answers(lexicon, queries, collection)
        model = self.models.get(name, self.bundled)
        folder = collection.indexed(self.work, model, self.threads, progress)

        def tell(count: int) -> None:
            progress(f"{name}, {collection.name}", count, len(queries))

        with Index.open(folder, model, readonly=True, threads=self.threads) as index:
            if name == SENTENCES:
                return sentence_answers(index, model, queries, tell)
            if name in (PHRASES, VECTORS):
                queries = [query._replace(phrase=alone(query.phrase)) for query in queries]
            switches = SWITCHES["quick"] if name == VECTORS else SWITCHES.get(name, {})
            return search_answers(Searcher(index, model, **switches), queries, tell)


Ask = Callable[[str, Collection, Sequence[LookupQuery]], Answers]  # gives the answers of a system, by its name


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the look-up evaluation.

    Args:
        folder: Folder that ``bench/lookup_set.py`` wrote.
        sizes: Sizes of the collections, in sentences.
        half: Half of the queries, "dev" or "test".
        langs: Languages of the queries; empty for all.
        models: Further systems, each ``NAME=FOLDER`` of a model.
        systems: Systems to ask; empty for all.
        against: System that the others are compared with; "" for the first.
        work: Folder for indexes; None for a temporary folder.
        idioms: File of idioms, which are looked up in the smallest collection and the file's own sentences; None for
            none.
        threads: Threads of the encoder and the search; None for the default.
        seed: Seed of draws and resampling.
        out: Folder for results; None to write nothing.
    """

    folder: Path
    sizes: tuple[int, ...] = (20_000,)
    half: str = "dev"
    langs: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    against: str = ""
    work: Path | None = None
    idioms: Path | None = None
    threads: int | None = None
    seed: int = 0
    out: Path | None = None


def run(settings: Settings, progress: Progress = lambda stage, count, total: None) -> Result:
    """Ask all systems and measure their answers.

    Raises InputError or ReadError before anything is computed if the set is missing or not as expected.
    """
    check_seed(settings.seed)
    queries, files = _queries(settings)
    collections = [_collection(settings.folder, size) for size in sorted(set(settings.sizes))]
    tasks = [(queries, collection) for collection in collections]
    senses_path = settings.folder / "senses.jsonl"
    senses = read_senses(senses_path, settings.half) if senses_path.exists() else []
    if senses:
        files.append(senses_path)
    if settings.idioms is not None:
        base = collections[0]
        if base.language != "en":
            raise InputError(
                f"--idioms: {base.name} is not English, as the answers to idioms are; leave the option out"
            )
        idioms, sentences = read_idioms(settings.idioms, seed=settings.seed)
        tasks.append((idioms, Collection(f"idioms-{base.name}", [*base.sentences, *sentences], "en", base)))
        files.append(settings.idioms)
    rows = {row.name: row.folder for row in map(parse_row, settings.models)}
    names = _names(settings, list(rows))
    bundled_model = load_model(None, settings.threads)
    models = {name: load_model(folder, settings.threads) for name, folder in rows.items() if name in names}
    result = Result()
    with ExitStack() as stack:
        work = settings.work or Path(stack.enter_context(TemporaryDirectory(prefix="phrasemate-")))
        work.mkdir(parents=True, exist_ok=True)
        ask = partial(Systems(bundled_model, models, work, settings.threads).answers, progress=progress)
        for questions, collection in tasks:
            _ask(settings, names, ask, questions, collection, result)
        sense_queries = [query for query in senses if not settings.langs or query.language in settings.langs]
        if sense_queries:
            _ask_senses(settings, names, ask, sense_queries, collections[0], result)
    models_by_name: dict[str, Model] = models | {"bundled": bundled_model}
    facts = {"data": digest([*files, *(settings.folder / f"{collection.name}.txt" for collection in collections)])}
    result.signature = signature(models_by_name, **facts, half=settings.half, seed=settings.seed)
    if settings.out is not None:
        settings.out.mkdir(parents=True, exist_ok=True)
    result.write(settings.out, "lookup")
    return result


def _queries(settings: Settings) -> tuple[list[LookupQuery], list[Path]]:
    """Return the queries of the languages, and the files that hold them.

    Raises InputError if the folder has no queries, or none of a language.
    """
    paths = {path.stem: path for path in sorted(settings.folder.glob("??.jsonl"))}
    if not paths:
        raise InputError(f"{settings.folder}: no queries in it; expected XX.jsonl as bench/lookup_set.py writes them")
    unknown = [lang for lang in settings.langs if lang not in paths]
    if unknown:
        raise InputError(f"--langs: no queries of {', '.join(unknown)}; there are {', '.join(paths)}")
    files = [paths[lang] for lang in settings.langs or paths]
    return [query for path in files for query in read_lookups(path, settings.half)], files


def _collection(folder: Path, size: int) -> Collection:
    """Read the collection of a size, whose file begins with its language, as in en-20000.txt; a line may hold several
    sentences.

    Raises InputError unless there is exactly one such file, ReadError if it is not UTF-8 or empty.
    """
    paths = sorted(folder.glob(f"??-{size}.txt"))
    if len(paths) != 1:
        names = ", ".join(path.name for path in paths) or "none"
        raise InputError(f"{folder}: expected one file XX-{size}.txt of sentences of the language XX; there is {names}")
    (path,) = paths
    language = path.name[:2]
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ReadError(str(path), 0, f"not UTF-8 ({error.reason})", "convert it to UTF-8") from error
    sentences = [line[start:end] for line in lines for start, end in split_sentences(line, language)]
    if not sentences:
        raise ReadError(str(path), 0, "an empty file", "expected sentences, one per line")
    return Collection(path.stem, sentences, language)


def _names(settings: Settings, models: list[str]) -> list[str]:
    """Return the systems to ask, in the order of the table's rows.

    Raises InputError for an unknown system, or for models with the same name.
    """
    systems = [*models, *SYSTEMS]
    if len(set(systems)) < len(systems) or len(models) < len(settings.models):
        reserved = f"a name must be new and not one of {', '.join(SYSTEMS)}"
        raise InputError(f"--model {', '.join(settings.models)}: two rows of one name; {reserved}")
    for name in [*settings.systems, *filter(None, [settings.against])]:
        if name not in systems:
            raise InputError(f"no system {name!r}; there are {', '.join(systems)}")
    names = [name for name in systems if not settings.systems or name in settings.systems]
    if not settings.systems and bundled_lexicon() is None:
        names.remove(DICTIONARY)
    if settings.against and settings.against not in names:
        raise InputError(f"--against {settings.against}: not among the systems asked, {', '.join(names)}")
    return names


def _ask(
    settings: Settings, names: list[str], ask: Ask, queries: list[LookupQuery], collection: Collection, result: Result
) -> None:
    """Add the tables of a collection, and each system's ranks, -1 for a query without a right answer.

    All queries are asked. Queries without a right wording in the collection count only in the table of confidences.
    """
    able = np.array(answerable(queries, collection.sentences, collection.language), np.bool_)
    if not able.any():
        raise InputError(f"{collection.name}: it holds no right wording of any query")
    answers = {name: ask(name, collection, queries) for name in names}
    ranks_by_system = {name: ranks(queries, system.wordings, collection.language) for name, system in answers.items()}
    title = f"{settings.half} half, {collection.name}" if collection.base is None else collection.name
    able_ranks = {name: Ranks(*(part[able] for part in system)) for name, system in ranks_by_system.items()}
    able_queries = list(compress(queries, able))
    result.tables += lookup_tables(able_queries, able_ranks, settings.against or names[0], title, settings.seed)
    sure = {name: np.array(system.confidence) for name, system in answers.items() if system.confidence is not None}
    if sure:
        first = {name: ranks_by_system[name].right < 1 for name in sure}
        result.tables.append(confidence_table(sure, first, title))
    places = {
        name: np.where(np.isinf(system.right), -1, system.right).astype(int).tolist()
        for name, system in able_ranks.items()
    }
    result.more[f"ranks {collection.name}"] = places


def _ask_senses(
    settings: Settings, names: list[str], ask: Ask, senses: list[SenseQuery], collection: Collection, result: Result
) -> None:
    """Add the table of the ambiguous phrases whose right sense and another sense both occur in the collection.

    Sentence search is not asked, since it cannot exclude the mates.
    """
    language = collection.language
    wordings = present({word for query in senses for word in query.right | query.other}, collection.sentences, language)
    queries = [
        LookupQuery(query.phrase, query.language, "", query.right | query.other, query.right, False, query.mate)
        for query in senses
        if not wordings.isdisjoint(query.right) and not wordings.isdisjoint(query.other)
    ]
    without_mates = [name for name in names if name != SENTENCES]
    if queries and without_mates:
        answers = {name: ask(name, collection, queries).wordings for name in without_mates}
        ranks_by_system = {name: ranks(queries, rows, language) for name, rows in answers.items()}
        against = settings.against if settings.against in without_mates else without_mates[0]
        result.tables.append(sense_table(queries, ranks_by_system, against, f"{settings.half} half, {collection.name}"))

"""Term extraction: rank the phrases of a document by termhood and find candidate translations in an index.

    from phrasemate import Index, Searcher, read
    from phrasemate.terms import document_terms, write_document_terms

    searcher = Searcher(Index.open("idx"))
    terms = document_terms(read("manual.docx", lang="de"), searcher)
    write_document_terms("terms.tbx", terms, language="de")

`phrasemate.text` reads and writes existing term lists.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode import FrequentWords, Model
from phrasemate.encode.model import TextPhrases
from phrasemate.encode.pooling import by_examples
from phrasemate.encode.segmenter import JOINT
from phrasemate.errors import InputError
from phrasemate.lexicon import bundled_lexicon
from phrasemate.lexicon.forms import are_inflections
from phrasemate.lexicon.induced import elided_article, grammatical_words
from phrasemate.lexicon.inflection import stemmed
from phrasemate.results import Group, SearchRequest, usual_spelling
from phrasemate.search import Searcher
from phrasemate.termhood import (
    Occurrence,
    PhraseStatistics,
    Reference,
    describe,
    fold_parts,
    is_code,
    is_phrase_of,
    merge_inflected,
    parts_of,
    termhood,
    tokenizer_reference,
)
from phrasemate.text import Term, TermPair, words, write_pairs, write_terms
from phrasemate.text.formats.tables import write_lines
from phrasemate.text.korean import without_particles
from phrasemate.text.normalize import composed, folded
from phrasemate.types import (
    Document,
    Hit,
    Phrase,
    Progress,
    Span,
    check_fields,
    check_progress,
    iterate_documents,
    to_settings,
)
from phrasemate.utils.hyphens import without_compound_parts

RANKINGS = ("termhood", "expected", "frequency", "cvalue")


@dataclass(frozen=True, slots=True)
class DocumentTerm:
    """A phrase of a document that may be a term, with its candidate translations.

    Attributes:
        text: Most frequent wording, in Korean without particles at its end.
        score: Value that terms are ranked by, see `TermSettings`.
        count: Number of occurrences.
        belief: Mean of the segmenter's probabilities that an occurrence is a phrase.
        variants: All wordings with their frequencies, most frequent first.
        places: All occurrences, in the order of the documents.
        groups: Candidate translations, best first.
        confidence: Probability that the first translation is right; None without a search or a calibrated model.
        in_glossary: Whether the term is in a given glossary, see `mark_known`.

    >>> import phrasemate as pm
    >>> text = ["The hard disk is full.", "Format the hard disk.", "A hard disk has platters."]
    >>> document = pm.Document.from_texts("manual", text)
    >>> terms = extract_terms([document], pm.load_model())
    >>> terms[0].text, terms[0].count
    ('hard disk', 3)
    """

    text: str
    score: float
    count: int
    belief: float = 1.0
    variants: tuple[tuple[str, int], ...] = ()
    places: tuple[Occurrence, ...] = ()
    groups: tuple[Group, ...] = ()
    confidence: float | None = None
    in_glossary: bool = False

    def as_dict(self, contexts: int | None = 3) -> dict[str, Any]:
        """Convert to a mapping for JSON.

        At most ``contexts`` places, and hits of each translation, are included (None: all).
        """
        term = {
            "text": self.text,
            "score": round(self.score, 4),
            "count": self.count,
            "belief": round(self.belief, 3),
            "variants": [{"text": text, "count": count} for text, count in self.variants],
            "places": [place.as_dict() for place in self.places[:contexts]],
        }
        confidence = None if self.confidence is None else round(self.confidence, 3)
        groups = [replace(group, hits=group.hits[:contexts]).as_dict() for group in self.groups]
        mark = {"known": True} if self.in_glossary else {}
        return {**term, **mark, "confidence": confidence, "groups": groups}


@dataclass(frozen=True, slots=True)
class TermSettings:
    """Settings for finding, ranking and translating the terms of a document.

    Inflected forms count as one phrase. Placeholders and code are excluded. The ranking "termhood" also excludes
    phrases that rarely occur outside one longer phrase.

    Args:
        ranking: "termhood" (`phrasemate.termhood`), "expected" (frequency times mean probability), "frequency", or
            "cvalue" (Frantzi, Ananiadou and Mima 2000).
        max_words: Maximum number of words of a term.
        belief: Lowest probability, by the segmenter, of a phrase's most probable occurrence.
        least: Minimum number of occurrences.
        most: Maximum number of terms; None for all.
        k: Maximum number of translations per term.
        contexts: Maximum number of sentences per translation.
        examples: Maximum number of occurrences from which a term's vector is made.
        language: Language of the documents, for the rules of inflection; "" to guess it.

    Raises InputError for invalid values.

    >>> import phrasemate as pm
    >>> text = ["The hard disk is full.", "Format the hard disk.", "A hard disk has platters."]
    >>> document = pm.Document.from_texts("manual", text)
    >>> terms = extract_terms([document], pm.load_model(), TermSettings(least=3))
    >>> [term.text for term in terms]
    ['hard disk']
    """

    ranking: str = "termhood"
    max_words: int = 6
    belief: float = 0.5
    least: int = 1
    most: int | None = 500
    k: int = 5
    contexts: int = 3
    examples: int = 16  # bench/terms.py: eight are as good, one is worse than four
    language: str = ""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.ranking not in RANKINGS:
            raise InputError(f"ranking {self.ranking!r}; expected one of {', '.join(RANKINGS)}")
        if not 0 <= self.belief <= 1:
            raise InputError(f"belief {self.belief}; expected a probability, 0 to 1")
        numbers = {"max_words": self.max_words, "least": self.least, "k": self.k, "examples": self.examples}
        for name, number in numbers.items() | {("most", 1 if self.most is None else self.most)}:
            if number < 1:
                raise InputError(f"{name} {number}; expected 1 or more")
        if self.contexts < 0:
            raise InputError(f"contexts {self.contexts}; expected 0 or more")


SAMPLE = 100  # sentences from which the language of a document is guessed
SENTENCES_AT_ONCE = 256  # sentences that are segmented between two calls of ``progress``


def wording(text: str) -> str:
    """Normalize the spelling of a phrase: its words, case-folded and composed, with one space between them."""
    whole = composed(text)
    return " ".join(folded(whole[start:end]) for start, end in words(whole))


def extract_terms(
    documents: Iterable[Document],
    model: Model,
    settings: TermSettings | None = None,
    progress: Progress = lambda what, count, total: None,
    reference: Reference | None = None,
) -> list[DocumentTerm]:
    """Extract the terms of documents, best first, without translations. Takes about 2 KB of memory per word.

    Args:
        documents: Documents (``phrasemate.read``).
        model: Model whose segmenter finds the phrases.
        settings: Which phrases are terms, and how they are ranked.
        progress: Called with the name of the current step, the number of sentences done, and their total. An exception
            that it raises ends the extraction.
        reference: Frequencies of words in general language; None for those of the tokenizer.

    Raises the errors of reading the documents, such as ReadError.
    """
    settings = to_settings(settings, TermSettings)
    phrases = find_phrases(documents, model, replace(settings, least=1), progress)
    phrases = prepare_phrases(phrases, model, settings, reference)
    return [_term(phrase, score) for phrase, score in rank_phrases(phrases, settings)]


def prepare_phrases(
    phrases: Mapping[str, PhraseStatistics], model: Model, settings: TermSettings, reference: Reference | None = None
) -> dict[str, PhraseStatistics]:
    """Merge inflected forms, drop phrases that cannot be terms and elided articles, and compute features of termhood.

    This drops code, runs of words that are not phrases (`is_phrase_of`), and phrases with fewer than
    ``settings.least`` occurrences.

    Args:
        phrases: Phrases as `find_phrases` returns them.
        model: Model whose tokenizer gives the frequencies without a reference.
        settings: Language and minimum number of occurrences.
        reference: Frequencies of words in general language; None for those of the tokenizer.
    """
    language = settings.language or _language(phrases)
    folded_phrases = merge_inflected(phrases, language)
    grammatical = grammatical_words(language)
    term_candidates = {
        key: statistics
        for key, statistics in folded_phrases.items()
        if statistics.count >= settings.least
        and is_phrase_of(language, key.split(" "), statistics.places, grammatical)
        and 2 * sum(is_code(place.phrase) for place in statistics.places) <= len(statistics.places)
    }
    tokenizer = getattr(getattr(model, "runtime", None), "tokenizer", None)
    if reference is None and tokenizer is not None:
        reference = tokenizer_reference(tokenizer)
    describe(
        term_candidates, language, reference, grammatical or (model.ngram.common if hasattr(model, "ngram") else ())
    )
    for statistics in term_candidates.values():
        statistics.places = [_without_article(place, language) for place in statistics.places]
    return term_candidates


def _without_article(place: Occurrence, language: str) -> Occurrence:
    """Shorten an occurrence that begins with an elided article or preposition: "l'école" becomes "école"."""
    phrase = place.phrase
    length = elided_article(phrase.text, language)
    return place._replace(phrase=replace(phrase, start=phrase.start + length)) if length else place


def _language(phrases: Mapping[str, PhraseStatistics]) -> str:
    """Guess the language of the phrases from a sample of their sentences; "" if it is not clear."""
    lexicon = bundled_lexicon()
    sentences = dict.fromkeys(
        place.phrase.context for statistics in phrases.values() for place in statistics.places[:1]
    )
    sample = " ".join(islice(sentences, SAMPLE))
    return lexicon.language_of(sample) if lexicon is not None and sample else ""


def find_phrases(
    documents: Iterable[Document],
    model: Model,
    settings: TermSettings,
    progress: Progress = lambda what, count, total: None,
) -> dict[str, PhraseStatistics]:
    """Find the phrases of documents that pass the settings; return their statistics by wording, not ranked.

    They are in the order of their first occurrences. Parts of compounds with hyphens are left out
    (`without_compound_parts`).
    """
    check_progress(progress)
    # sentence -> its places: document, line, translation; a repeated sentence is segmented once
    places: defaultdict[str, list[tuple[str, int, str]]] = defaultdict(list)
    order: dict[str, int] = {}
    for document in iterate_documents(documents):
        order.setdefault(document.name, len(order))
        for sentence in document.sentences():
            translation = str(sentence.metadata.get("translation", ""))
            places[sentence.text].append((document.name, sentence.line, translation))
    phrases: dict[str, PhraseStatistics] = {}
    for text, spans in _segment(list(places), model, settings, progress):
        for key, size, span in _whole_word_spans(text, without_compound_parts(text, spans, settings.belief)):
            _add_occurrences(phrases.setdefault(key, PhraseStatistics(size)), span, text, places[text])
    passing = {
        key: statistics
        for key, statistics in phrases.items()
        if statistics.greatest >= settings.belief and statistics.count >= settings.least
    }
    for statistics in passing.values():
        statistics.places.sort(key=lambda place: (order[place.document], place.line))
    return passing


def rank_phrases(
    phrases: Mapping[str, PhraseStatistics], settings: TermSettings
) -> list[tuple[PhraseStatistics, float]]:
    """Rank prepared phrases, and return the best with their scores.

    Of phrases with equal scores, the more frequent one comes first, then the earlier one.
    """
    scores = SCORES[settings.ranking](phrases)
    order = sorted(phrases, key=lambda key: (-scores[key], -phrases[key].count))
    if settings.ranking == "termhood":
        order = fold_parts(phrases, order)
    return [(phrases[key], scores[key]) for key in order[: settings.most]]


def _segment(
    texts: Sequence[str], model: Model, settings: TermSettings, progress: Progress
) -> Iterator[tuple[str, list[Span]]]:
    """Yield each text with all its spans of up to ``max_words`` words and their probabilities."""
    frequencies = FrequentWords()
    for text in () if model.segmenter.contextual else texts:
        frequencies.update(text)
    frequent = frequencies.words()
    for at in range(0, len(texts), SENTENCES_AT_ONCE):
        batch = texts[at : at + SENTENCES_AT_ONCE]
        spans = model.segment(batch, frequent, threshold=0.0, max_words=settings.max_words, overlapping=True)
        yield from zip(batch, spans, strict=True)
        progress("finding phrases", at + len(batch), len(texts))


def _whole_word_spans(text: str, spans: Sequence[Span]) -> Iterator[tuple[str, int, Span]]:
    """Yield wording, number of words, and span, for the spans of whole words without punctuation between these.

    Other spans exist because the encoder splits a long text into parts, possibly within a word.
    """
    word_spans = words(text)
    first, last = ({pair[side]: at for at, pair in enumerate(word_spans)} for side in (0, 1))
    spellings = [folded(text[start:end]) for start, end in word_spans]
    is_joint = [JOINT.fullmatch(text, word[1], follower[0]) is not None for word, follower in pairwise(word_spans)]
    for span in spans:
        low, high = first.get(span.start), last.get(span.end)
        if low is not None and high is not None and all(is_joint[low:high]):
            yield " ".join(spellings[low : high + 1]), high + 1 - low, span


def _add_occurrences(
    statistics: PhraseStatistics, span: Span, text: str, places: Sequence[tuple[str, int, str]]
) -> None:
    """Add the occurrences of a span in a sentence, one for each place of the sentence (document, line, translation)."""
    statistics.count += len(places)
    statistics.total += span.score * len(places)
    statistics.greatest = max(statistics.greatest, span.score)
    phrase = Phrase(text, span.start, span.end)
    statistics.places += [Occurrence(phrase, name, line, span.score, translation) for name, line, translation in places]


def _term(statistics: PhraseStatistics, score: float) -> DocumentTerm:
    """Make a term of a phrase.

    Its text is the usual wording (`usual_spelling`), without Korean particles at its end.
    """
    variants = Counter(place.phrase.text for place in statistics.places)
    text = without_particles(usual_spelling([(place.phrase, place.score) for place in statistics.places]))
    return DocumentTerm(
        text, score, statistics.count, statistics.belief, tuple(variants.most_common()), tuple(statistics.places)
    )


# -- rankings


def _expected(phrases: Mapping[str, PhraseStatistics]) -> dict[str, float]:
    """Return for each wording the expected number of occurrences that are phrases: the sum of their probabilities."""
    return {key: statistics.total for key, statistics in phrases.items()}


def _frequency(phrases: Mapping[str, PhraseStatistics]) -> dict[str, float]:
    """Return for each wording the number of its occurrences."""
    return {key: float(statistics.count) for key, statistics in phrases.items()}


def _cvalue(phrases: Mapping[str, PhraseStatistics]) -> dict[str, float]:
    """Return the C-value of each wording (Frantzi, Ananiadou and Mima 2000, section 2.2), adapted to single words.

    It is log2(n + 1) (f - mean frequency of the longer phrases that contain it), for a phrase of n words and frequency
    f. The paper has log2(n), which is 0 for single words.
    """
    longer: defaultdict[str, list[int]] = defaultdict(list)
    for key, statistics in phrases.items():
        for inside in parts_of(key) - {key}:
            longer[inside].append(statistics.count)
    scores = {}
    for key, statistics in phrases.items():
        containers = longer[key]
        alone = statistics.count - (sum(containers) / len(containers) if containers else 0)
        scores[key] = math.log2(statistics.words + 1) * alone
    return scores


SCORES: Mapping[str, Callable[[Mapping[str, PhraseStatistics]], dict[str, float]]] = {
    "cvalue": _cvalue,
    "expected": _expected,
    "frequency": _frequency,
    "termhood": termhood,
}


NEAREST = 5  # phrases in the translation of a sentence that may be equivalents of a term
QUERIES_AT_ONCE = 64  # terms per search


def translate_terms(
    terms: Sequence[DocumentTerm],
    searcher: Searcher,
    settings: TermSettings | None = None,
    progress: Progress = lambda what, count, total: None,
    documents: Sequence[str] | None = None,
    languages: Sequence[str] | None = None,
) -> list[DocumentTerm]:
    """Add candidate translations from the searcher's index to terms.

    The query vector is the mean over some of the term's occurrences (XPR, eq. 2; see `by_examples`). A term without
    occurrences is encoded alone. Candidates are ranked as in a search.

    Args:
        terms: Terms to translate.
        searcher: Searcher on an index in the target language.
        settings: Maximum numbers of translations, of their sentences, and of occurrences of a term.
        progress: Called with the name of the current step, the number of items done, and their total.
        documents: Names of the documents to search, or folders, or patterns with ``*``; None for all.
        languages: Languages of the documents to search; None for all.

    Raises InputError for an unknown document or language.
    """
    settings = to_settings(settings, TermSettings)
    check_progress(progress)
    request = SearchRequest(settings.k, settings.contexts, documents, languages)
    model: Model = searcher.model
    examples = [representative(term, settings.examples) for term in terms]
    texts = [term.text for term in terms]
    vectors, _ = by_examples(model, texts, examples, model.pooling, progress=partial(progress, "encoding terms"))
    wordings = model.encode([Phrase(text, 0, len(text)) for text in texts]) if searcher.encodes_alone else None
    results = []
    for at in range(0, len(terms), QUERIES_AT_ONCE):
        batch = slice(at, at + QUERIES_AT_ONCE)
        phrases = [
            Phrase(" ".join([term.text, *(example.context for example in sentences)]), 0, len(term.text))
            for term, sentences in zip(terms[batch], examples[batch], strict=True)
        ]
        alone = None if wordings is None else wordings[batch]
        answers = searcher.search_vectors(vectors[batch], request, alone, phrases)
        for term, (groups, confidence) in zip(terms[batch], answers, strict=True):
            results.append(replace(term, groups=groups, confidence=confidence))
        progress("searching", len(results), len(terms))
    return results


def translate_beside(
    terms: Sequence[DocumentTerm], model: Model, settings: TermSettings | None = None
) -> list[DocumentTerm]:
    """Add candidate translations from the other language of a bilingual file to its terms, before those of an index.

    Candidates are the phrases in the translations of a term's sentences. The score of a candidate is its mean cosine
    with the term over these sentences, counting 0 for a sentence that lacks it. Terms whose sentences have no
    translation are returned unchanged.
    """
    settings = to_settings(settings, TermSettings)
    beside = [[place for place in term.places if place.translation][: settings.examples] for term in terms]
    texts = list(dict.fromkeys(place.translation for places in beside for place in places))
    if not texts:
        return list(terms)
    phrases = dict(zip(texts, model.extract(texts), strict=True))
    vectors, _ = by_examples(
        model, [term.text for term in terms], [representative(term, settings.examples) for term in terms], model.pooling
    )
    results = []
    for term, vector, places in zip(terms, vectors, beside, strict=True):
        if groups := _groups_beside(vector, places, phrases, settings):
            wordings = {wording(group.text) for group in groups}
            rest = [group for group in term.groups if wording(group.text) not in wordings]
            term = replace(term, groups=(*groups, *rest)[: settings.k], confidence=None)
        results.append(term)
    return results


def _groups_beside(
    vector: NDArray[np.float32],
    places: Sequence[Occurrence],
    phrases: Mapping[str, TextPhrases],
    settings: TermSettings,
) -> tuple[Group, ...]:
    """Find candidates for a term in the translations of its sentences, best first, as `translate_beside` says.

    Args:
        vector: Vector of the term, (dim,).
        places: Occurrences of the term in sentences with a translation.
        phrases: Phrases of each translation, with their vectors.
        settings: Maximum numbers of candidates and of their sentences.
    """
    hits: defaultdict[str, list[Hit]] = defaultdict(list)
    for place in places:
        counterpart = phrases[place.translation]
        nearest: dict[str, Hit] = {}
        for row in np.argsort(-(counterpart.vectors @ vector), kind="stable")[:NEAREST].tolist():
            phrase = Phrase(place.translation, int(counterpart.starts[row]), int(counterpart.ends[row]))
            hit = Hit(phrase, float(counterpart.vectors[row] @ vector), place.document, place.line)
            nearest.setdefault(wording(phrase.text), hit)
        for key, hit in nearest.items():
            hits[key].append(hit)
    scores = {key: sum(hit.score for hit in key_hits) / len(places) for key, key_hits in hits.items()}
    best = sorted(scores, key=lambda key: -scores[key])[: settings.k]
    return tuple(
        Group(
            usual_spelling([(hit.phrase, hit.score) for hit in hits[key]]),
            scores[key],
            len(hits[key]),
            tuple(hits[key][: settings.contexts]),
            source="document",
        )
        for key in best
    )


def mark_known(terms: Iterable[DocumentTerm], glossary: Iterable[Term]) -> list[DocumentTerm]:
    """Set ``in_glossary`` for the terms that are in a glossary, regardless of case, hyphens and inflection."""
    entries = list(glossary)
    languages = {term.language for term in entries}
    wordings, terms_with = {wording(term.text) for term in entries}, defaultdict[tuple[str, str], set[str]](set)
    for term in entries:
        terms_with[term.language, stemmed(term.text, term.language)].add(folded(term.text))

    def is_listed(form: str) -> bool:
        return wording(form) in wordings or any(
            are_inflections(term, folded(form), language)
            for language in languages
            for term in terms_with.get((language, stemmed(form, language)), ())
        )

    return [replace(term, in_glossary=any(is_listed(form) for form, _ in term.variants)) for term in terms]


def representative(term: DocumentTerm, count: int) -> list[Phrase]:
    """Choose up to ``count`` occurrences of a term in different sentences, the most probable ones first.

    Of equally probable ones, the earlier comes first.
    """
    phrase_of: dict[str, Phrase] = {}
    for place in sorted(term.places, key=lambda place: -place.score):
        phrase_of.setdefault(place.phrase.context, place.phrase)
    return list(phrase_of.values())[:count]


def document_terms(
    document: Document | Iterable[Document],
    searcher: Searcher | None = None,
    settings: TermSettings | None = None,
    *,
    model: Model | None = None,
    documents: Sequence[str] | None = None,
    languages: Sequence[str] | None = None,
    progress: Progress = lambda what, count, total: None,
    reference: Reference | None = None,
    glossary: Iterable[Term] = (),
) -> list[DocumentTerm]:
    """Extract and translate the terms of a document (or of several together), best first.

    Args:
        document: Document or documents; for text in memory ``Document.from_texts(name, sentences)``.
        searcher: Searcher. Its model finds the phrases, and its index has the translations.
        settings: Which phrases are terms, and how they are ranked and translated.
        model: Model that finds the phrases if there is no searcher.
        documents: Names of the documents to search, or folders, or patterns with ``*``; None for all.
        languages: Languages of the documents to search; None for all.
        progress: Called with the name of the current step, the number of items done, and their total.
        reference: Frequencies of words in general language; None for those of the tokenizer.
        glossary: Terms of a glossary (`phrasemate.text.read_terms`); extracted terms that it has are marked.

    Raises InputError without a searcher and a model, and for a document or language that the index does not have. The
    errors of reading the documents are raised, too.
    """
    if searcher is not None:
        model = searcher.model
    if model is None:
        raise InputError("neither a searcher nor a model is given; give one of them")
    inputs = [document] if isinstance(document, Document) else document
    terms = extract_terms(inputs, model, settings, progress, reference)
    terms = mark_known(terms, glossary)
    if searcher is not None:
        terms = translate_terms(terms, searcher, settings, progress, documents, languages)
    return translate_beside(terms, model, settings)


WRITTEN = (".tbx", ".tsv", ".csv", ".xlsx", ".jsonl")  # file name extensions of `write_document_terms`
CONTEXTS = 3  # sentences of the document that are written with a term


def write_document_terms(
    path: str | os.PathLike[str],
    terms: Iterable[DocumentTerm],
    language: str = "",
    target_language: str = "",
    contexts: int = CONTEXTS,
) -> None:
    """Write terms in the format of the file's extension. The file appears when it is complete.

    A term base (.tbx) has a concept for each term and its translations, with sentences. A table (.tsv, .csv, .xlsx) has
    a row for each translation, with at most one sentence of the term and one of the translation. A term without
    translations has one row with an empty target. JSON lines have an object for each term (`DocumentTerm.as_dict`).

    Args:
        path: File to write: .tbx, .tsv, .csv, .xlsx or .jsonl.
        terms: Terms to write.
        language: Language of the document.
        target_language: Language of translations from documents without a language.
        contexts: Maximum number of sentences for a term, and for each translation.

    Raises InputError for another extension or a file that cannot be written, and MissingExtra for .xlsx without its
    package.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".tbx":
        write_terms(path, _concepts(terms, language, target_language, contexts))
    elif suffix == ".jsonl":
        write_lines(path, (json.dumps(term.as_dict(contexts), ensure_ascii=False) for term in terms))
    elif suffix in WRITTEN:
        write_pairs(path, term_rows(terms, language, target_language, min(contexts, 1)))
    else:
        raise InputError(f"{path}: the name of the file must end in {', '.join(WRITTEN)}")


def term_rows(
    terms: Iterable[DocumentTerm], language: str = "", target_language: str = "", contexts: int = 1
) -> Iterator[TermPair]:
    """Convert terms to the rows of a table, one for each translation.

    A term without translations has one row, with an empty target and no score. The ``metadata`` of a pair are rank,
    termhood, count, belief, variants, known, places, confidence (only for the first translation of a term),
    target_count and target_context.

    Args:
        terms: Terms of a document, best first.
        language: Language of the document.
        target_language: Language of translations from documents without a language.
        contexts: Maximum number of sentences for a term, and for each translation; tables show the first.
    """
    for rank, term in enumerate(terms, 1):
        source = Term(term.text, language, f"t{rank}", contexts=_own_contexts(term, contexts))
        facts: dict[str, Any] = {
            "rank": rank,
            "termhood": round(term.score, 4),
            "count": term.count,
            "belief": round(term.belief, 3),
            "variants": " | ".join(text for text, _ in term.variants),
            "known": "yes" if term.in_glossary else "",
            "places": " | ".join(dict.fromkeys(f"{place.document}:{place.line}" for place in term.places)),
        }
        for number, group in enumerate(term.groups):
            target = _target(group, f"t{rank}", target_language, contexts)
            confidence = "" if term.confidence is None or number else round(term.confidence, 3)
            target_facts = {"target_count": group.count, "target_context": "".join(target.contexts[:1])}
            yield TermPair(source, target, group.score, {**facts, "confidence": confidence, **target_facts})
        if not term.groups:
            empty_row = {"confidence": "", "target_count": "", "target_context": ""}
            yield TermPair(source, Term("", target_language), None, {**facts, **empty_row})


def _concepts(terms: Iterable[DocumentTerm], language: str, target_language: str, contexts: int) -> Iterator[Term]:
    """Convert terms and their translations to the entries of a term base; those with one id are one concept."""
    for rank, term in enumerate(terms, 1):
        concept, note = f"t{rank}", f"{_times(term.count)} in the document, termhood {term.score:.3f}"
        yield Term(term.text, language, concept, note=note, contexts=_own_contexts(term, contexts))
        for group in term.groups:
            yield _target(group, concept, target_language, contexts)


def _target(group: Group, concept: str, language: str, contexts: int) -> Term:
    """Convert a translation to a term with the id ``concept``; ``language`` is that of hits without one."""
    sentences = tuple(hit.context for hit in group.hits[:contexts])
    metadata = {"source": f"phrasemate, score {group.score:.3f}, {_times(group.count)} among the hits"}
    return Term(group.text, group.language or language, concept, contexts=sentences, metadata=metadata)


def _times(count: int) -> str:
    """Write a frequency, such as "1 time" or "3 times"."""
    return f"{count} time{'s' * (count != 1)}"


def _own_contexts(term: DocumentTerm, contexts: int) -> tuple[str, ...]:
    """Return up to ``contexts`` different sentences of the document that contain a term, in their order."""
    return tuple(dict.fromkeys(place.phrase.context for place in term.places))[:contexts]

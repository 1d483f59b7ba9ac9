"""Rankers of sentences across languages without training: the three baselines of the paper on BiCLA.

Glavaš and Vulić, "Zero-Shot Language Transfer for Cross-Lingual Sentence Retrieval Using Bidirectional Attention Model"
(ECIR 2019), section 3.2. Sentences are lists of words (`phrasemate.text.sentences.content_words`); each ranker gives
the (queries, documents) float32 matrix of its scores, of which `phrasemate.rank.run_of` makes a run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.pooling import unit
from phrasemate.errors import InputError
from phrasemate.utils.knn import nearest
from phrasemate.vectors.word_vectors import WordVectors

MU = 0.95  # the paper, section 4.1
AT_ONCE = 1_000_000  # scores that are added up together

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ids = NDArray[np.int64]
Sentences = Sequence[Sequence[str]]


def qlm(queries: Sentences, documents: Sentences, mu: float = MU) -> Floats:
    """QLM, the query likelihood under a unigram model of each document, with Jelinek-Mercer smoothing (eq. 8)::

        P(q | d) = prod over words t of q of  mu tf(t, d) / |d| + (1 - mu) cf(t) / |C|

    tf counts t in the document, cf in the collection C of all documents, |.| all words. The scores are log P(q | d)
    less the log of all second terms, which is the same for all documents. So a document that shares no word with the
    query has 0. Words that no document has are left out, being 0 for all.

    Raises InputError for a mu not between 0 and 1.
    """
    if not 0 < mu < 1:
        raise InputError(f"mu {mu}; expected a weight between 0 and 1")
    number = {word: i for i, word in enumerate(dict.fromkeys(word for sentence in documents for word in sentence))}
    document, term, tf = _counted(documents, number)
    sizes = np.array([len(sentence) for sentence in documents], np.float64)
    frequency = np.bincount(term, tf, minlength=len(number)) / max(sizes.sum(), 1)  # cf / |C|
    weights = np.log1p(mu * tf / sizes[document] / ((1 - mu) * frequency[term]))
    order = np.argsort(term, kind="stable")  # postings: the documents of each term, one term after the other
    bounds = np.searchsorted(term[order], np.arange(len(number) + 1))
    return _added(_counted(queries, number), (document[order], weights[order], bounds), len(queries), len(documents))


def _counted(sentences: Sentences, number: dict[str, int]) -> tuple[Ids, Ids, Doubles]:
    """(row, term, count) of the words of each sentence that have a number."""
    pairs = [(row, number[word]) for row, sentence in enumerate(sentences) for word in sentence if word in number]
    cells, counts = np.unique(np.array(pairs, np.int64).reshape(-1, 2), axis=0, return_counts=True)
    return cells[:, 0], cells[:, 1], counts.astype(np.float64)


def _added(
    query_counts: tuple[Ids, Ids, Doubles], postings: tuple[Ids, Doubles, Ids], rows: int, columns: int
) -> Floats:
    """(rows, columns): for each word of a query, times its count, the weights of the documents that hold it."""
    query, term, count = query_counts
    document, weights, bounds = postings
    scores, size = np.zeros((rows, columns), np.float32), max(1, AT_ONCE // max(columns, 1))
    for at in range(0, rows, size):
        part_of_query = slice(*np.searchsorted(query, [at, at + size]))
        lengths = bounds[term[part_of_query] + 1] - bounds[term[part_of_query]]
        ends = np.cumsum(lengths)
        places = np.arange(lengths.sum()) + np.repeat(bounds[term[part_of_query]] - ends + lengths, lengths)
        cells = np.repeat(query[part_of_query] - at, lengths) * columns + document[places]
        block = np.bincount(cells, weights[places] * np.repeat(count[part_of_query], lengths), minlength=size * columns)
        scores[at : at + size] = block.reshape(size, columns)[: rows - at]
    return scores


def agg(queries: Sentences, documents: Sentences, source: WordVectors, target: WordVectors) -> Floats:
    """AGG, the cosine of summed word vectors (eq. 6)::

        cos(sum over words t of q of v(t), sum over words u of d of v(u))

    ``source`` and ``target`` hold the vectors of the queries' and the documents' words, of one space; words without a
    vector are left out. A sentence without any has a cosine of 0 with everything. Raises InputError for vectors of
    other dimensions.
    """
    if source.dim != target.dim:
        raise InputError(f"vectors of {source.dim} and of {target.dim} dimensions; the numbers must be equal")
    return sums(queries, source) @ sums(documents, target).T


def sums(sentences: Sentences, vectors: WordVectors) -> Floats:
    """(sentences, dim) the sum of the vectors of each sentence's words, at unit length (zeros where it has none)."""
    sentence_vectors = np.zeros((len(sentences), vectors.dim), np.float32)
    for row, sentence in zip(sentence_vectors, sentences, strict=True):
        row[:] = vectors.matrix[vectors.rows(sentence)].sum(0)
    return unit(sentence_vectors)


def tbt(queries: Sentences, documents: Sentences, source: WordVectors, target: WordVectors, mu: float = MU) -> Floats:
    """TbT, term by term: `qlm` of the query in which each word is replaced by its nearest target word::

    P(q | d) = prod over words t of q of  P(argmax over target words u of cos(v(t), v(u)) | d)
    """
    return qlm(translated(queries, source, target), documents, mu)


def translated(queries: Sentences, source: WordVectors, target: WordVectors) -> list[list[str]]:
    """The nearest of all words of ``target`` for each word, by cosine; a word without a vector (a name) stays."""
    distinct = list(dict.fromkeys(word for sentence in queries for word in sentence if word in source))
    if not distinct:
        return [list(sentence) for sentence in queries]
    rows, _ = nearest(unit(source.matrix[source.rows(distinct)]), unit(target.matrix))
    translations = {word: target.words[row] for word, row in zip(distinct, rows[:, 0], strict=True)}
    return [[translations.get(word, word) for word in sentence] for sentence in queries]

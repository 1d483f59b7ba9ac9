"""Tell whether two wordings are forms of the same words, such as the Polish "kraj" and "krajów" (country).

The Finnish stemmer gives kirja (book) and kirje (letter) one stem, but the Polish one gives kraj and krajów two. So two
signs are needed. The wordings must have the same stem, known endings or known affixes. And if the lexicon has both,
they must share an English equivalent, unless their endings are a very reliable pair. Stemmers that know the words of
their language need no second sign, nor do Hebrew and Arabic proclitics.

For a language without a stemmer, such as Ukrainian, less reliable endings suffice. Where there is one, words with
different stems are often derived words. Without one, they are mostly forms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache

from phrasemate.lexicon.endings import CERTAIN, overlap, reliability_of_endings
from phrasemate.lexicon.induced import bundled_lexicon
from phrasemate.lexicon.inflection import (
    ENGLISH_FUNCTION_WORDS,
    PROCLITICS,
    are_english_inflections,
    common_beginning,
    content_words,
    has_rough_stemmer,
    has_stemmer,
    have_same_base,
    same_words,
    stem,
)
from phrasemate.text.english_verbs import regular
from phrasemate.text.languages import primary

RELATED = 0.7  # least reliability of the endings of two forms with a common English equivalent
SURE = 0.92  # the same of two forms of one stem without one: a rare form may be listed with an equivalent of its own
SURE_OF_LONG = 0.87  # the same if the forms begin with `LONG` common letters
LONG = 7
UNSTEMMED = 0.6, 0.7  # `RELATED` and `CERTAIN` for a language without a stemmer
ALIKE = 0.1  # probability mass of English equivalents, at least, that two forms share
LITTLE = 0.01  # the same of an inflected form that is looked up: a missing form is worse than one too many


def are_forms(one: str, other: str, stems: str, other_stems: str, language: str) -> bool:
    """Whether two folded wordings are forms of the same words.

    Args:
        one: First wording.
        other: Second wording.
        stems: Stemmed form of the first wording.
        other_stems: Stemmed form of the second wording.
        language: Their language, such as "fi".

    >>> are_forms("kraj", "krajów", "kraj", "krajów", "pl"), are_forms("kirja", "kirje", "kirj", "kirj", "fi")
    (True, False)
    >>> are_forms("essai clinique", "essais cliniques", "essai cliniqu", "essais cliniqu", "fr")
    True
    """
    if stems == other_stems and same_words(one, other, language):
        return _agree(one, other, language, ALIKE)
    words, other_words = content_words(one, language), content_words(other, language)
    if max(len(words), len(other_words)) > 1:
        return are_forms_by_words(words, other_words, language)
    differ_in_affixes = stems != other_stems and have_same_base(stems, other_stems, language)
    if differ_in_affixes and language in PROCLITICS:
        return True
    is_stemmed = has_stemmer(language)
    related, certain = (RELATED, CERTAIN) if is_stemmed else UNSTEMMED
    reliability = reliability_of_endings(one, other, language)
    if not (differ_in_affixes or reliability >= related):
        return False
    mass = _shared_meaning(one, other, language)
    if mass is None:
        return differ_in_affixes or reliability >= certain
    return mass >= ALIKE or (not is_stemmed and reliability >= certain)


def are_forms_by_words(words: Sequence[str], other_words: Sequence[str], language: str) -> bool:
    """Whether two phrases, given as folded words, have equal words or forms of one word in each place."""
    return len(words) == len(other_words) and all(
        word == other or are_forms(word, other, stem(word, language), stem(other, language), language)
        for word, other in zip(words, other_words, strict=True)
    )


def are_inflections(one: str, other: str, language: str) -> bool:
    """Whether two folded wordings with the same stems are inflected forms of the same words, also of different tenses.

    One common English equivalent suffices, however rare: the Italian "persona" and "persone" have only "person".

    >>> are_inflections("talks", "talked", "en"), are_inflections("küche", "kuchen", "de")
    (True, False)
    """
    language = primary(language)
    if language == "en":
        return are_english_inflections(one, other)
    first, second = (" ".join(content_words(wording, language)) for wording in (one, other))  # without articles
    return _agree(first, second, language, LITTLE)


def _agree(one: str, other: str, language: str, least: float) -> bool:
    """Whether two wordings with the same stems share ``least`` of their equivalents, or need no common equivalent."""
    if not has_rough_stemmer(language) or (language in PROCLITICS and have_same_base(one, other, language)):
        return True
    mass = _shared_meaning(one, other, language)
    if mass is None or mass >= least:
        return True
    threshold = SURE_OF_LONG if common_beginning(one, other) >= LONG else SURE
    return reliability_of_endings(one, other, language) >= threshold


def _shared_meaning(one: str, other: str, language: str) -> float | None:
    """Return the probability mass of English equivalents that two wordings share, None unless both are listed."""
    meanings, other_meanings = _meanings(one, language), _meanings(other, language)
    return overlap(meanings, other_meanings) if meanings and other_meanings else None


@lru_cache(1 << 14)
def _meanings(wording: str, language: str) -> Mapping[str, float]:
    """Map the stemmed English equivalents of exactly this wording to their shares of its probability."""
    lexicon = bundled_lexicon()
    sums: dict[str, float] = defaultdict(float)
    for english, probability in lexicon.into_english(wording, language) if lexicon else ():
        words = regular(english).split()
        content = [word for word in words if word not in ENGLISH_FUNCTION_WORDS] or words
        sums[" ".join([stem(word, "en") for word in content])] += probability
    total = sum(sums.values())
    return {english: probability / total for english, probability in sums.items()}

"""Normalise wordings for look-up: remove leading function words and inflection, and split compounds.

Leading function words are dropped, and the other words are reduced to stems by Snowball stemmers. So "the benches"
matches "bench", and "sich erinnern" "erinnert". Japanese and Korean have stemmers here (`phrasemate.text.japanese` and
`phrasemate.text.korean`). Two wordings match if their stemmed forms are equal; these forms are look-up keys, not text
to show. Words of languages without a stemmer (Chinese, Vietnamese, Hebrew, Bulgarian, ...) are not reduced, but written
in one spelling (`phrasemate.lexicon.spelling`).
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache

import Stemmer

from phrasemate.lexicon.spelling import respell, without_accents
from phrasemate.text import japanese, korean
from phrasemate.text.languages import language_code, primary
from phrasemate.text.normalize import APOSTROPHES, composed, folded

ENGLISH_FUNCTION_WORDS = frozenset(  # without verb particles such as "up"
    """
    a an the and or but nor so yet if than that as of to in into on onto at by for with without from about under
    between among during before after above below against within upon per via is are was were be been being am do
    does did done has have had having will would shall should can could may might must not no i you he she it we
    they me him her us them my your his its our their mine yours hers ours theirs this these those there here who
    whom whose which what when where why how all any some each every both such only also just then too very more
    most much many one ones other another same own itself himself herself themselves myself yourself ourselves let
    get got while because though although until since whether either neither again once ever 's n't 'll 've 're 'd
    'm don't doesn't didn't isn't aren't wasn't i'm it's you're we're they're
    """.split()  # noqa: SIM905
)
ARTICLES = frozenset({"a", "an", "the"})
GOVERNED = frozenset({"about", "at", "by", "for", "from", "in", "of", "on", "that", "to", "with"})
"""Words that a verb or noun governs, such as "of" in "afraid of"."""
PRONOUNS_AND_AUXILIARIES = frozenset({"i", "you", "he", "she", "it", "we", "they", "me", "him", "her", "us", "them"})
PRONOUNS_AND_AUXILIARIES |= {"my", "your", "his", "its", "our", "their", "myself", "yourself", "himself", "herself"}
PRONOUNS_AND_AUXILIARIES |= {"itself", "ourselves", "yourselves", "themselves", "oneself", "am", "is", "are", "was"}
PRONOUNS_AND_AUXILIARIES |= {"were", "be", "been", "have", "has", "had", "will"}
NEGATIONS = frozenset(
    """
    not no never none nothing nobody nowhere neither nor without cannot n't can't don't doesn't didn't isn't aren't
    wasn't weren't won't wouldn't couldn't shouldn't mustn't needn't hasn't haven't hadn't
    """.split()  # noqa: SIM905
)
_OWN_SCRIPTS = {"HIRAGANA": "ja", "KATAKANA": "ja", "HANGUL": "ko"}  # scripts of a single language


_SNOWBALL = """
    arabic armenian basque catalan czech danish dutch english esperanto estonian finnish french german greek hindi
    hungarian indonesian irish italian lithuanian nepali norwegian persian polish portuguese romanian russian serbian
    spanish swedish tamil turkish yiddish
    """.split()  # noqa: SIM905
OWN_STEMMERS: dict[str, Callable[[str], str]] = {"ja": japanese.stem, "ko": korean.stem}
_STEMMERS = {language_code(name): name for name in _SNOWBALL}
# Articles, infinitive markers and reflexive pronouns that dictionaries write before a headword.
_FUNCTION_WORDS = {
    "da": "en et den det de at sig",
    "de": "der die das den dem des ein eine einen einem einer eines sich zu",
    "el": "ο η το οι τα του της των τον την τις τους ένας μια μία ένα να",
    "en": "the a an to",
    "es": "el la los las un una unos unas se",
    "fr": "le la les un une des du de se",
    "he": "ה",
    "hu": "a az egy",
    "it": "il lo la i gli le un uno una si",
    "nl": "de het een te zich",
    "no": "en ei et den det de å seg",
    "pl": "się",
    "cs": "se si",
    "pt": "o a os as um uma uns umas se",
    "ro": "un o a se",
    "sv": "en ett den det de att sig",
}
_WORDS = {lang: frozenset(text.split()) for lang, text in _FUNCTION_WORDS.items()}
_ELIDED = {"fr": ("l'", "d'", "s'"), "it": ("l'", "un'", "dell'", "nell'", "all'", "dall'", "sull'", "s'")}
# Elided words: they have lost their last letter and are joined to the next word by an apostrophe.
_JOINED = {
    "ca": "d l m n s t",
    "fr": "c d j jusqu l lorsqu m n puisqu qu quoiqu s t",
    "it": "all anch bell c coll d dall degl dell l m mezz n nell quant quell quest s sant senz sull t tutt un v",
}
_ELISIONS = {lang: frozenset(text.split()) for lang, text in _JOINED.items()}
ELIDED_ARTICLES = {  # articles and prepositions among them
    "ca": frozenset({"d", "l"}),
    "fr": frozenset({"d", "l"}),
    "it": frozenset({"all", "coll", "d", "dall", "dell", "l", "nell", "sull", "un"}),
}
_APOSTROPHE = re.compile(f"[{APOSTROPHES}]")
PROCLITICS = {  # conjunctions, prepositions and articles that are joined to the next word
    "ar": "[وف]?(?:[بكل]?(?:ال)?|لل)",
    "he": "ו?[בכל]?ה?",  # without "מ", with which many nouns begin
}
_LEAST_AFTER = 3  # letters after proclitics, at least
_AFFIXES = {  # patterns of what may stand before and after a word, and the least length of the word
    **{lang: (proclitics, "", _LEAST_AFTER) for lang, proclitics in PROCLITICS.items()},
    "ja": ("[お御ご]?", "(?:さん|さま|様)?", 1),  # honorific
    "zh": ("(?:一?[座条棵把封栋幢辆艘匹张枚颗朵套件间]|的)?", "[们的了]?", 1),  # measure words, particles
}
_EDGE = re.compile(r"^[\W_]+|[\W_]+$")
SHORTEST_PART = 4  # characters of a part of a compound, at least
LONGEST_COMPOUND = 80  # characters of a word that is split, at most
LINKING = {  # linking elements of closed compounds, for the languages whose compounds are split
    "da": ("s", "e"),
    "de": ("s", "es", "n", "en", "er", "e"),
    "et": (),
    "fi": ("n",),
    "hu": (),
    "nl": ("s", "en", "e"),
    "no": ("s", "e"),
    "sv": ("s",),
}
STEMS = {"de": ("en", "n"), "nl": ("en",)}  # endings that a word loses as the first part: Grenzen, "Grenzgebiet"
_PLURALS = (("ies", "y"), ("ies", "ie"), ("es", ""), ("s", ""), ("'s", ""), ("s'", ""))  # ending -> its base
_VERBAL = (("ied", "y"), ("ed", ""), ("ed", "e"), ("ing", ""), ("ing", "e"), ("ying", "ie"))
_WITH_SHORT_ENDINGS = frozenset({"ca", "de", "es", "fr", "it", "pt"})
_ENDING = 3  # letters of the endings in which two forms of a word of these languages differ, at most
_ACCENTED_E, _ANY_E = re.compile("ée?s?$"), re.compile("[eé]s?$")  # at the end of a French word
_LOCAL = threading.local()  # stemmers are not thread-safe


def has_rough_stemmer(lang: str) -> bool:
    """Whether the stemmer for a language, such as "fi", knows no words, so that different words may have one stem."""
    return lang in _STEMMERS and lang not in OWN_STEMMERS


def has_stemmer(lang: str) -> bool:
    """Whether there is a stemmer for the language of a tag such as "de" or "pt-BR"."""
    return _stemmer(primary(lang)) is not None


def stemmed(wording: str, lang: str, is_folded: bool = False) -> str:
    """Stem a wording: fold it, drop leading function words, and reduce each other word to its stem."""
    return " ".join(words_and_stems(wording if is_folded else folded(wording), primary(lang))[1])


@lru_cache(1 << 16)
def words_and_stems(wording: str, lang: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of a folded wording, without leading function words, and the stem of each.

    ``lang``: as `primary` returns it.

    >>> words_and_stems("the running dogs", "en")
    (('running', 'dogs'), ('run', 'dog'))
    """
    content = tuple(content_words(wording, lang))
    return content, tuple([stem(word, lang) for word in content])


@lru_cache(1 << 16)
def stem(word: str, lang: str) -> str:
    """Reduce one folded word to its stem."""
    cut, word = _stemmer(primary(lang)), respell(word, primary(lang))
    return cut(word) if cut else word


def beginnings(stem: str, lang: str) -> set[str]:
    """Return strings of which each form of a stem begins with one, for languages whose stems change in many ways."""
    return korean.beginnings(stem) if primary(lang) == "ko" else set()


def stemmed_all(wordings: Iterable[str], lang: str, are_folded: bool = False) -> list[str]:
    """Stem many wordings of one language, see `stemmed`; faster if they ``are_folded`` already."""
    lang = primary(lang)
    cut = _stemmer(lang)
    contents = (content_words(wording if are_folded else folded(wording), lang) for wording in wordings)
    if cut is None:
        return [respell(" ".join(words), lang) for words in contents]
    stem_once = cache(lambda word: cut(respell(word, lang)))
    return [" ".join(map(stem_once, words)) for words in contents]


@lru_cache(1 << 16)
def _english_bases(word: str, endings: tuple[tuple[str, str], ...]) -> frozenset[str]:
    """Return the words from which an English word may be formed by one of some endings, including itself."""
    bases = {word[: -len(ending)] + instead for ending, instead in endings if word.endswith(ending)}
    single = {base[:-1] for base in bases if base[-1:] == base[-2:-1]}  # "stopp" of "stopped"
    return frozenset({word, *bases, *single})


def same_words(one: str, other: str, lang: str) -> bool:
    """Whether two folded wordings with the same stems are forms of the same words.

    In English, only forms in -s count as the same: "bench" and "benches", but not "exciting" and "excited". In German
    and Romance languages, the endings have at most `_ENDING` letters: "assurance" is not "assuré". In French, a word in
    -é is not one in -e: "élevé" is not "élève".
    """
    lang = primary(lang)
    if lang == "en":
        return _share_bases(one.split(), other.split(), _PLURALS)
    if lang not in _WITH_SHORT_ENDINGS:
        return True
    pairs = zip(content_words(one, lang), content_words(other, lang), strict=False)
    return all(_has_short_endings(*pair) and not (lang == "fr" and _differs_in_e(*pair)) for pair in pairs)


def _has_short_endings(one: str, other: str) -> bool:
    """Whether two words differ only in endings of at most `_ENDING` letters; accents are ignored."""
    return max(map(len, endings(without_accents(one), without_accents(other)))) <= _ENDING


def endings(one: str, other: str) -> tuple[str, str]:
    """Return the endings in which two words differ: what follows their common beginning."""
    length = common_beginning(one, other)
    return one[length:], other[length:]


def common_beginning(one: str, other: str) -> int:
    """Return the number of letters with which both words begin."""
    length = 0
    for letter, its_partner in zip(one, other, strict=False):
        if letter != its_partner:
            break
        length += 1
    return length


def _differs_in_e(one: str, other: str) -> bool:
    """Whether one of two French words ends in -é, -és, -ée or -ées, and the other one in -e or -es."""
    ends_in_accent = [_ACCENTED_E.search(word) is not None for word in (one, other)]
    return any(ends_in_accent) and not all(ends_in_accent) and all(map(_ANY_E.search, (one, other)))


def are_english_inflections(one: str, other: str) -> bool:
    """Whether two folded English wordings with the same stems are inflected forms, also of different tenses.

    Derived words have the same stem too, such as "evidence" and "evidently", or "witness" and "wit".
    """
    return _share_bases(content_words(one, "en"), content_words(other, "en"), _PLURALS + _VERBAL)


def without_proclitics(wording: str, lang: str) -> list[str]:
    """List what remains of a folded wording without one or more of its proclitics, the longest first.

    >>> without_proclitics("והמלך", "he"), without_proclitics("מלך", "he")
    (['המלך', 'מלך'], [])
    """
    return list(without_affixes(wording, lang)[1:]) if lang in PROCLITICS else []


@lru_cache(1 << 14)
def without_affixes(wording: str, lang: str) -> tuple[str, ...]:
    """Return a folded wording, and what remains of it without one or more of what may be its affixes.

    >>> without_affixes("孩子们", "zh"), without_affixes("kids", "en")
    (('孩子们', '孩子'), ('kids',))
    """
    if lang not in _AFFIXES:
        return (wording,)
    before, after, least = _AFFIXES[lang]
    length = len(wording)
    starts = [start for start in range(length) if re.fullmatch(before, wording[:start])]
    ends = [end for end in range(length, 0, -1) if re.fullmatch(after, wording[end:])]
    rests = [wording[start:end] for start in starts for end in ends if end - start >= least]
    return tuple(dict.fromkeys([wording, *rests]))


def have_same_base(one: str, other: str, lang: str) -> bool:
    """Whether two wordings, or their stems, differ only in short words or particles that are joined to them.

    >>> have_same_base("למלך", "והמלך", "he"), have_same_base("מלך", "מלכה", "he")
    (True, False)
    >>> have_same_base("部屋", "お部屋", "ja"), have_same_base("변호사", "변호사인", "ko")
    (True, True)
    """
    if lang == "ko":
        shorter, longer = sorted((one, other), key=len)
        return longer.startswith(shorter) and korean.particles_only(shorter, longer[len(shorter) :])
    return not set(without_affixes(one, lang)).isdisjoint(without_affixes(other, lang))


def _share_bases(one: Sequence[str], other: Sequence[str], endings: tuple[tuple[str, str], ...]) -> bool:
    """Whether the English words of two wordings have common bases, word by word."""
    pairs = zip(one, other, strict=False)
    return not any(_english_bases(a, endings).isdisjoint(_english_bases(b, endings)) for a, b in pairs)


def by_script(forms: Iterable[str]) -> list[str]:
    """Identify languages by a script that no other language uses: Japanese and Korean."""
    scripts = {unicodedata.name(form[-1], "").split(" ")[0] for form in forms if form[-1:].isalpha()}
    return [language for script, language in _OWN_SCRIPTS.items() if script in scripts]


def without_function_words(wording: str, lang: str) -> str:
    """Fold a wording and drop leading function words of its language, except the last word."""
    return " ".join(content_words(folded(wording), primary(lang)))


def content_words(text: str, lang: str) -> list[str]:
    """Split a folded wording into words, without leading function words; ``lang`` as `primary` returns it."""
    if not text.isascii():
        text = composed(text.encode("utf-8", "replace").decode())  # stemmers reject lone surrogates
    if text.isalnum():
        return [text]
    for article in _ELIDED.get(lang, ()):
        if text.startswith(article) and len(text) > len(article):
            text = text[len(article) :]
            break
    words = text.split()
    if not all(map(str.isalnum, words)):
        words = [word for part in words if (word := _EDGE.sub("", part))] or words
    start = 0
    while start < len(words) - 1 and words[start] in function_words(lang):
        start += 1
    return words[start:]


def elision(word: str, lang: str, elided: Mapping[str, frozenset[str]] = _ELISIONS) -> int:
    """Return the length of an elided word at the beginning of a word: 2 for "l'école", 3 for "qu’elle", else 0.

    ``elided``: language -> the elided words to recognize, without apostrophe.
    """
    elided_words = elided.get(primary(lang), ())
    match = _APOSTROPHE.search(word) if elided_words else None
    return match.end() if match is not None and folded(word[: match.start()]) in elided_words else 0


def function_words(lang: str) -> frozenset[str]:
    """Return the words that dictionaries of a language write before headwords: articles, "to", "sich"."""
    return _WORDS.get(lang, frozenset())


@cache
def leading(lang: str) -> tuple[str, ...]:
    """List the prefixes that are dropped from wordings of a language, such as "the " and "l'"; the first is ""."""
    lang = primary(lang)
    return ("", *(f"{word} " for word in sorted(_WORDS.get(lang, ()))), *_ELIDED.get(lang, ()))


def _stemmer(lang: str) -> Callable[[str], str] | None:
    """Return the function that stems a word of a language in this thread, or None."""
    if lang in OWN_STEMMERS:
        return OWN_STEMMERS[lang]
    if lang not in _STEMMERS:
        return None
    stemmers: dict[str, Callable[[str], str]] = _LOCAL.__dict__.setdefault("stemmers", {})
    if lang not in stemmers:  # without the stemmer's cache, which costs more than it saves
        stemmers[lang] = Stemmer.Stemmer(_STEMMERS[lang], 0).stemWord
    return stemmers[lang]


def compound(word: str, knows: Callable[[str], bool], linking: Sequence[str], stems: Sequence[str] = ()) -> list[str]:
    """Split a compound into known parts: "haus", "tür", "schlüssel". Return an empty list if that is impossible.

    The last part is the longest known suffix that leaves a split of the rest.

    Args:
        word: Folded word.
        knows: Whether a word is known.
        linking: Strings that may join two parts.
        stems: Endings that the first part may have lost. With "en", "grenzgebiet" is "grenzen" and "gebiet".
    """

    @cache  # without it, repeated parts would take exponential time
    def split(length: int) -> tuple[str, ...]:
        """Split the first ``length`` letters."""
        start = word[:length]
        for at in range(SHORTEST_PART, length - SHORTEST_PART + 1):
            last = start[at:]
            if not knows(last):
                continue
            for link in ("", *linking):
                first = start[: at - len(link)]
                if len(first) >= SHORTEST_PART and start[:at].endswith(link):
                    parts_before = (first,) if knows(first) else split(len(first))
                    if parts_before:
                        return *parts_before, last
            for ending in stems:
                if knows(start[:at] + ending):
                    return start[:at] + ending, last
        return ()

    return list(split(len(word)))

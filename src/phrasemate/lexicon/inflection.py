"""Wordings without inflection, separable verbs, fixed expressions, and codes of languages.

Leading function words are left out; the other words are cut to their stems by Snowball stemmers.

So "the benches" meets "bench", and "sich erinnern" "erinnert". Two wordings match if their stemmed forms are equal;
the forms are keys to compare, not text to show. Languages without a stemmer (Chinese, Japanese, Korean, Vietnamese,
Hebrew, Bulgarian, Ukrainian, ...) keep their words as they are, in one spelling (`phrasemate.lexicon.spelling`).

Fixed expressions that begin with a preposition or belong to a verb (`locutions`) are proposed by no segmenter; those of
four languages are listed here, chosen by hand.

Separable verbs of German: "nahm … teil" is one verb, whose infinitive is "teilnehmen". The particle stands at the end
of its clause, the finite verb before it. Neither is listed here. A word at the end of a clause is a particle if a verb
before it makes a known infinitive with it, by the word list of simplemma. Where simplemma is not installed, no such
verb is recognised. `joined` puts the infinitive in the place of the finite verb, so that a search can take it as one
phrase.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import Stemmer

from phrasemate.errors import InputError
from phrasemate.lexicon.spelling import respell
from phrasemate.text import words
from phrasemate.text.normalize import composed, folded
from phrasemate.text.sentences import stop_words
from phrasemate.types import Phrase

_TABLE = """
ar ara arabic|bg bul bulgarian|ca cat catalan|cs ces cze czech|cy cym wel welsh|da dan danish|de deu ger german|
el ell gre greek|en eng english|eo epo esperanto|es spa spanish|et est estonian|eu eus baq basque|
fa fas per persian|fi fin finnish|fr fra fre french|ga gle irish|he heb hebrew|hi hin hindi|hr hrv croatian|
hu hun hungarian|hy hye arm armenian|id ind indonesian|is isl ice icelandic|it ita italian|ja jpn japanese|
ko kor korean|la lat latin|lt lit lithuanian|lv lav latvian|ne nep nepali|nl nld dut dutch|no nor norwegian nb nn|
pl pol polish|pt por portuguese|ro ron rum romanian|ru rus russian|sk slk slo slovak|sl slv slovenian slovene|
sq sqi alb albanian|sr srp serbian|sv swe swedish|sw swa swahili|ta tam tamil|th tha thai|tr tur turkish|
uk ukr ukrainian|ur urd urdu|vi vie vietnamese|yi yid yiddish|zh zho chi chinese
"""
ENGLISH_FUNCTION_WORDS = frozenset(  # without particles of verbs, such as "up"
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
NEGATIONS = frozenset(
    """
    not no never none nothing nobody nowhere neither nor without cannot n't can't don't doesn't didn't isn't aren't
    wasn't weren't won't wouldn't couldn't shouldn't mustn't needn't hasn't haven't hadn't
    """.split()  # noqa: SIM905
)
_CODES = {name: names[0] for names in map(str.split, _TABLE.split("|")) for name in names}
_TAG = re.compile(r"([a-z]{2,3})(?:[-_][a-z0-9]{1,8})*", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")
_OWN_SCRIPTS = {"HIRAGANA": "ja", "KATAKANA": "ja", "HANGUL": "ko"}  # of one language each


@lru_cache(1 << 10)
def primary(tag: str) -> str:
    """The language of a tag without region and script, with two letters where there are: "deu-AT" gives "de"."""
    first = tag.strip().lower().replace("_", "-").split("-")[0]
    return _CODES.get(first, first)


def language_code(text: str) -> str:
    """The code of a language from its tag ("de", "pt-BR", "deu") or English name ("German"); "" for anything else."""
    text = text.strip()
    match = _TAG.fullmatch(text)
    code = _CODES.get(match[1].lower() if match else text.lower(), "")
    return code if match is None or match[1].lower() == text.lower() else code and text.replace("_", "-")


def languages_in(name: str) -> tuple[str, str]:
    """The two languages that stand one after the other in the name of a dictionary: "freedict-eng-deu" gives en, de.

    ("", "") where no two different ones do.
    """
    codes = [_CODES.get(word.lower(), "") for word in _WORD.findall(name) if word.lower() not in ("to", "and")]
    for first, second in pairwise(codes):
        if first and second and first != second:
            return first, second
    return "", ""


_SNOWBALL = """
    arabic armenian basque catalan czech danish dutch english esperanto estonian finnish french german greek hindi
    hungarian indonesian irish italian lithuanian nepali norwegian persian polish portuguese romanian russian serbian
    spanish swedish tamil turkish yiddish
    """.split()  # noqa: SIM905
_STEMMERS = {_CODES[name]: name for name in _SNOWBALL}
# Articles, marks of the infinitive and reflexive pronouns, as dictionaries write them before a word.
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
_EDGE = re.compile(r"^[\W_]+|[\W_]+$")
_PLURALS = (("ies", "y"), ("ies", "ie"), ("es", ""), ("s", ""), ("'s", ""), ("s'", ""))  # and what they stand for
_LOCAL = threading.local()  # a stemmer serves one thread at a time


def has_stemmer(lang: str) -> bool:
    """Whether there is a stemmer for the language of a tag such as "de" or "pt-BR"."""
    return primary(lang) in _STEMMERS


def stemmed(wording: str, lang: str) -> str:
    """The wording in a language, folded, without leading function words, each word cut to its stem."""
    lang = primary(lang)
    return " ".join([stem(word, lang) for word in content_words(folded(wording), lang)])


@lru_cache(1 << 16)
def stem(word: str, lang: str) -> str:
    """The stem of one folded word."""
    stemmer, word = _stemmer(primary(lang)), respell(word, primary(lang))
    return str(stemmer.stemWord(word)) if stemmer else word


def stemmed_all(wordings: Iterable[str], lang: str, are_folded: bool = False) -> list[str]:
    """The stemmed form of each of many wordings in one language; quicker if they ``are_folded`` already."""
    lang = primary(lang)
    stemmer = _stemmer(lang)
    contents = (content_words(wording if are_folded else folded(wording), lang) for wording in wordings)
    if stemmer is None:
        return [respell(" ".join(words), lang) for words in contents]
    stem_once = cache(lambda word: stemmer.stemWord(respell(word, lang)))
    return [" ".join(map(stem_once, words)) for words in contents]


@lru_cache(1 << 16)
def _english_bases(word: str) -> frozenset[str]:
    """What an English word may be the plural, genitive or third person of; itself is one of these."""
    bases = {word[: -len(ending)] + instead for ending, instead in _PLURALS if word.endswith(ending)}
    return frozenset({word, *bases})


def same_words(one: str, other: str, lang: str) -> bool:
    """Whether two folded wordings with the same stems are forms of the same words.

    In English only the ending -s counts: "bench" and "benches" are, "exciting" and "excited" are not.
    """
    if primary(lang) != "en":
        return True
    pairs = zip(one.split(), other.split(), strict=False)
    return not any(_english_bases(a).isdisjoint(_english_bases(b)) for a, b in pairs)


def by_script(forms: Iterable[str]) -> list[str]:
    """The languages that words show by a script which no other language has: Japanese and Korean."""
    scripts = {unicodedata.name(form[-1], "").split(" ")[0] for form in forms if form[-1:].isalpha()}
    return [language for script, language in _OWN_SCRIPTS.items() if script in scripts]


def without_function_words(wording: str, lang: str) -> str:
    """The wording, folded, without leading function words of its language, unless it consists of nothing else."""
    return " ".join(content_words(folded(wording), primary(lang)))


def content_words(text: str, lang: str) -> list[str]:
    """The words of a folded wording without leading function words; ``lang`` as `primary` gives it."""
    if not text.isascii():
        text = composed(text.encode("utf-8", "replace").decode())  # stemmers take no half of a surrogate pair
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


def function_words(lang: str) -> frozenset[str]:
    """The words that dictionaries of a language write before others: articles, "to", "sich"."""
    return _WORDS.get(lang, frozenset())


@cache
def leading(lang: str) -> tuple[str, ...]:
    """List what may stand before a wording of a language and is left out: "the ", "l'"; first of all nothing."""
    lang = primary(lang)
    return ("", *(f"{word} " for word in sorted(_WORDS.get(lang, ()))), *_ELIDED.get(lang, ()))


def _stemmer(lang: str) -> Any:
    """The stemmer of a language for this thread, or None."""
    if lang not in _STEMMERS:
        return None
    stemmers: dict[str, Any] = _LOCAL.__dict__.setdefault("stemmers", {})
    if lang not in stemmers:
        stemmers[lang] = Stemmer.Stemmer(_STEMMERS[lang], 0)  # its own cache costs more than it saves
    return stemmers[lang]


_LOCUTIONS = {
    "de": """auf eigene gefahr|auf eigene rechnung|auf eigene kosten|in kraft|außer kraft|in betracht|außer betracht
in frage|im großen und ganzen|im falle|in der regel|in bezug auf|im hinblick auf|im rahmen|im namen|im auftrag|im voraus
in anspruch|in verzug|in rechnung|in höhe|in abrede|in zukunft|mit sofortiger wirkung|mit rücksicht auf|mit ausnahme
unter anderem|unter umständen|unter vorbehalt|vor allem|vor gericht|von amts wegen|von vornherein|zu lasten|zu gunsten
zur verfügung|zur kenntnis|zur folge|zum beispiel|zum teil|zu ende|an stelle|auf grund|auf verlangen|auf antrag
nach maßgabe|ohne weiteres|bei bedarf|gegen entgelt|so bald wie möglich|nach wie vor""",
    "en": """in force|into force|in accordance with|in respect of|in relation to|in the event of|in good faith
in due course
in addition to|in favour of|in lieu of|in writing|in particular|in question|in advance|in case of|in view of|in spite of
on behalf of|on demand|on account of|on the basis of|at one's own risk|at their own risk|at your own risk|at least
at the request of|by virtue of|by means of|by way of|for the time being|for the purposes of|for example|of course
subject to|pursuant to|as well as|as soon as possible|with respect to|with regard to|with immediate effect
with effect from|without prejudice to|under the terms of|take part in|took part in
take into account|taken into account|as usual|at all costs|at first|at first sight|at hand|at last|at least|at length
at most|at once|at random|at risk|at stake|at the expense of|at will|by accident|by chance|by contrast|by hand|by heart
by mistake|for instance|for lack of|for sale|for the sake of|for want of|in accord with|in advance of|in common
in comparison with|in conjunction with|in connection with|in contrast|in contrast to|in detail|in fact|in front of
in general|in need of|in order|in order to|in part|in person|in practice|in private|in public|in search of|in short
in time|in total|in turn|in vain|on average|on board|on fire|on foot|on purpose|on the contrary|on the verge of
on time|out of date|to some extent|under way|with the exception of""",
    "fr": """en vigueur|en cas de|en vertu de|en raison de|en outre|en effet|en matière de|en fonction de|en cours
en général|en particulier|en question|en œuvre|mise en œuvre|mettre en œuvre|tenir compte|tenir compte de|tout à coup
tout de suite|tout à fait|au cours de|au moins|au nom de|au sein de|au titre de|à titre gratuit|à ses risques et périls
à compter de|à la suite de|à l'égard de|à l'exception de|afin de|d'office|d'abord|de bonne foi|par exemple|par la suite
par rapport à|par voie de|par défaut|sans préjudice de|sous réserve de|sur demande|dans le cadre de|dans la mesure où
faire partie de|prendre en compte|avoir lieu|frais de port""",
    "es": """en vigor|en caso de|en virtud de|en relación con|en cuanto a|en lugar de|en particular|en general|en marcha
en cuenta|tener en cuenta|sin embargo|sin perjuicio de|por ejemplo|por lo tanto|por lo menos|por cuenta propia
por escrito|de acuerdo con|de conformidad con|de buena fe|de oficio|a cargo de|a partir de|a través de|a favor de
a pesar de|al menos|con respecto a|con arreglo a|bajo su propia responsabilidad|llevar a cabo|formar parte de""",
}
OF = {  # what stands for "of" within a term
    "en": frozenset({"of"}),
    "es": frozenset({"de", "del"}),
    "fr": frozenset({"de", "du", "des"}),
    "it": frozenset({"di", "del", "dei", "della"}),
    "pt": frozenset({"de", "do", "da", "dos", "das"}),
}


@lru_cache(maxsize=32)
def general_words(lang: str) -> frozenset[str]:
    """The stop words of a language, folded; none where stopwordsiso has no list."""
    try:
        return frozenset(map(folded, stop_words(primary(lang))))
    except InputError:
        return frozenset()


_LISTS = {language: frozenset(text.replace("\n", "|").split("|")) for language, text in _LOCUTIONS.items()}


def locutions(lang: str) -> frozenset[str]:
    """The fixed expressions of a language, folded; none where nobody has listed them."""
    return _LISTS.get(primary(lang), frozenset())


_GERMAN = "de"
_CLAUSE_END = re.compile(r"\s*(?:[.,;:!?)\]»«”“\"„–—]|$|(?:und|oder|sondern|aber|denn|doch|bis|als|wenn|weil|dass)\b)")
_CLAUSE_STOP = re.compile(r"\s*[.,;:!?]")
_CLAUSE_BREAK = re.compile(r"[,;:()–—]")
_AUXILIARIES = frozenset({"haben", "sein", "werden"})  # "das Haus ist alt": "Altsein" is a word, too
_INFINITIVE = ("en", "eln", "ern")
_NEGATION = "nicht"

Place = tuple[int, int]


class SeparableVerb(NamedTuple):
    """Places of the finite verb and of its particle in a text, and the infinitive."""

    verb: Place
    particle: Place
    infinitive: str

    def moved(self, by: int) -> SeparableVerb:
        """The same verb in a text in which its sentence begins at ``by``."""
        (a, b), (c, d), infinitive = self
        return SeparableVerb((a + by, b + by), (c + by, d + by), infinitive)


def separable_verbs(sentence: str, language: str) -> list[SeparableVerb]:
    """The separable verbs of a sentence whose two parts stand apart, in their order."""
    compound = _compounds() if language == _GERMAN else None
    if compound is None:
        return []
    places, verbs, first = words(sentence), list[SeparableVerb](), 0
    for number, (start, end) in enumerate(places):
        particle = sentence[start:end]
        if not number or not particle.islower() or particle == _NEGATION or not _CLAUSE_END.match(sentence, end):
            continue
        for place in _words_before(sentence, places[first : number + 1]):
            finite = sentence[slice(*place)]
            if (finite.islower() or place == places[0]) and (infinitive := compound(particle, finite.lower())):
                verbs.append(SeparableVerb(place, (start, end), infinitive))
                first = number + 1  # a particle closes its clause
                break
    return verbs


def joined(sentence: str, verb: SeparableVerb) -> Phrase:
    """The infinitive of a verb as a phrase of its sentence, from which the particle is left out."""
    (start, end), (first, last), infinitive = verb
    between = sentence[end:first].rstrip()
    if _CLAUSE_STOP.match(
        sentence, last
    ):  # after a clause within this one: "nahm an der Sitzung, die gestern begann, teil."
        between = between.rstrip(" ,")
    context = f"{sentence[:start]}{infinitive}{between}{sentence[last:]}"
    return Phrase(context, start, start + len(infinitive))


def _words_before(sentence: str, places: list[Place]) -> list[Place]:
    """The words before the last one: those of its clause in their order, then those of the clause before, and so on."""
    clauses: list[list[Place]] = [[]]
    for place, following in zip(places[-2::-1], places[:0:-1], strict=True):
        if _CLAUSE_BREAK.search(sentence, place[1], following[0]):
            clauses.append([])
        clauses[-1].append(place)
    return [place for clause in clauses for place in reversed(clause)]


@cache
def _compounds() -> Callable[[str, str], str] | None:
    """A function that gives the infinitive of a particle and a finite verb, "" where they are not one verb."""
    try:
        from simplemma import is_known, lemmatize
    except ImportError:
        return None

    def infinitive(particle: str, finite: str) -> str:
        base = lemmatize(finite, _GERMAN)
        if base in _AUXILIARIES or not base.endswith(_INFINITIVE):
            return ""
        whole = particle + finite  # as in a clause that ends with the verb; "fällt" alone may be "fällen", too
        compound = lemmatize(whole, _GERMAN) if is_known(whole, _GERMAN) else particle + base
        return compound if compound.endswith(_INFINITIVE) and is_known(compound, _GERMAN) else ""

    return infinitive

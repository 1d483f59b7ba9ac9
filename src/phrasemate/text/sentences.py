"""Words and sentences with character offsets, in spaced and unspaced scripts.

Both stand on ICU: UAX #29 boundaries, with its dictionaries for Chinese, Japanese, Thai, Lao, Khmer and Burmese (chosen
by ``bench/segmentation.py``). ICU breaks a sentence after most full stops that a capital follows; a few rules here
join what belongs together. ICU counts UTF-16 units, everything here counts characters.

Abbreviations after which a sentence continues are listed by language, in lower case, without the final full stop. Only
those that hardly ever end a sentence are: "etc." or "usw." may, so the case of the next letter decides about them. ICU
brings the suppressions of CLDR for some languages. The lists add what these lack, and name what else they would join.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import accumulate, pairwise
from unicodedata import category

from icu4py.breakers import SentenceBreaker, WordBreaker

from phrasemate.text.icu import suppressions
from phrasemate.text.normalize import visible, visible_places

_BEFORE_WORD = {
    "af": "bv dr mej mev mnr prof",
    "bg": "акад бул гр доц инж напр проф св ул",
    "bs": "dr npr prof sv tzv",
    "ca": "av avda dr dra prof sr sra srta sta",
    "cs": "dr ing mgr mudr např prof resp srov sv tj tzn tzv",
    "da": "dr f.eks hr prof",
    "de": "bspw bzw d.h dipl dr evtl ggf hr fr i.d.r inkl insb prof s.o s.u sog st vgl z.b z.t z.zt zzgl u.u",
    "el": "αγ βλ δρ κ κ.κ καθ λεωφ π.χ",
    "en": "approx capt cf cmdr col dr e.g esp gen gov hon i.e lt maj messrs mr mrs ms mt prof rep rev sen sgt st vs",
    "es": "arq av avda cía ctra d.ª dr dra exc excmo ing lic p.ej pdte prof profa pza sr sra srta sto uds ud",
    "et": "dr hr nt pr prl prof",
    "fi": "esim ns prof tri toht",
    "fr": "cf dr env m mgr mlle mme p.ex prof",
    "hi": "डॉ प्रो",
    "hr": "dr npr prof sv tzv",
    "hu": "dr ifj ill pl prof ún",
    "id": "bpk dr drs ir jl prof sdr yth",
    "is": "dr hr prof t.d",
    "it": "ad.es arch avv comm dott dott.ssa dr ecc.mo egr geom ing prof prof.ssa rag sig sig.ra sigg spett st",
    "lt": "doc dr gerb prof pvz vad šv",
    "lv": "dr piem prof",
    "nb": "bl.a dr f.eks hr jf prof",
    "nl": "bijv bv d.w.z dhr dr drs ds ing ir jhr mej mevr mr mw o.a prof resp",
    "nn": "bl.a dr f.eks hr jf prof",
    "no": "bl.a dr f.eks hr jf prof",
    "pl": "al dr hab im inż mgr np prof św tj tzn tzw ul",
    "pt": "arq av dr dra eng exma exmo prof profa sr sra sta sto",
    "ro": "de.ex dl dna dr prof sf",
    "ru": "акад гр доц ул им напр проф св см ср т.е т.н тов",
    "sk": "dr ing mgr mudr napr prof resp sv tzn tzv",
    "sl": "dr npr prof sv",
    "sr": "dr npr prof sv tzv др нпр проф св",
    "sv": "bl.a dr dvs fr hr prof s.k st t.ex",
    "tr": "bkz doç dr örn prof sn",
    "uk": "акад вул ім напр просп проф св",
    "vi": "bs gs nxb pgs ths tp ts",
}
_BEFORE_NUMBER = {
    "cs": "č čl obr odst s str tab",
    "da": "art ca fig kl nr s stk",
    "de": "abb abs art bd ca kap nr s tab tel ziff",
    "en": "apr art aug ca ch chap dec eq eqs feb fig figs jan jul jun mar no nos nov oct p para pp sec sep sept vol",
    "es": "art cap fig n.º núm p pág págs tel vol",
    "fi": "kuva n:o nro s",
    "fr": "art chap fig n° p pp tél vol",
    "hu": "ábra sz",
    "it": "art cap fig n p pag pagg vol",
    "nl": "afb art blz fig nr p",
    "pl": "art nr poz rys s str tab tel ust",
    "pt": "art cap fig n.º núm p pág vol",
    "ro": "alin art cap fig nr p pag",
    "ru": "гл д кв п пп рис ст стр табл",
    "sv": "art bild ca kap kl nr s sid tel",
    "tr": "no s sf",
    "vi": "đt q tr",
}
# What CLDR suppresses though it is a word, too, or the usual end of a sentence.
_WORDS_TOO = {
    "de": "am art best chin dat di do int max mi min mo pin port rel sa so std test",
    "en": "act ad all am as by card do etc ex go hat id in is jam job joe link long mart min ok on or pc pro to up",
    "es": "all bien da dc em etc kit mar may ram rol sa sol",
    "fr": "all cam etc fig mer sam syst voit",
    "it": "all on ver",
    "pt": "cat com cont des dez etc fil lin long mar ob out pal port set sup",
    "ru": "н.э отд руб",
}
_ORDINAL_DOT = frozenset(
    ("bs", "cs", "da", "de", "et", "eu", "fi", "fo", "hr", "hu", "is", "lv", "nb", "nn", "no", "sk", "sl", "sr")
)


def _listed(table: dict[str, str], lang: str) -> frozenset[str]:
    """The entries of a language; of all of them when it is unknown or has no list."""
    return frozenset(" ".join([table[lang]] if lang in table else table.values()).split())


@cache
def before_word(lang: str) -> frozenset[str]:
    """Abbreviations after which the sentence goes on, whatever follows: "Dr. Müller", "z. B. Berlin"."""
    return _listed(_BEFORE_WORD, lang)


@cache
def before_number(lang: str) -> frozenset[str]:
    """Abbreviations after which the sentence goes on if a number follows: "No. 5", but "No. He left."."""
    return _listed(_BEFORE_NUMBER, lang)


@cache
def _suppressions(lang: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """CLDR's abbreviations of a language: those of one word, and those with spaces ("n. Chr.")."""
    entries = suppressions(lang) - {entry for entry in suppressions(lang) if entry[:-1].lower() in _other_words(lang)}
    spaced = tuple(sorted(entry for entry in entries if " " in entry))
    return frozenset(entry for entry in entries if len(entry) > 2) - set(spaced), spaced


def _other_words(lang: str) -> frozenset[str]:
    return _MAY_END | frozenset(_WORDS_TOO.get(lang, "").split())


def ordinal_dot(lang: str) -> bool:
    """Whether the language writes ordinal numbers with a full stop: "am 5. Mai"."""
    return lang in _ORDINAL_DOT


Offsets = list[tuple[int, int]]

_SURROGATE = re.compile("[\ud800-\udfff]")
_BREAKER_LOCALE = re.compile(r"[a-z]{2,3}")
_DOUBLED = re.compile(r"\b([^\W\d_])\1\.")  # the plural of initials: "EE. UU.", "RR. HH."
_SHADS = re.compile("[\u0f0d-\u0f12\u0f14][\u0f0d-\u0f12\u0f14\\s]*")  # end a sentence in Tibetan, unknown to UAX #29
_LINE_END = re.compile("[\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")
_CLOSERS = "\"'”’“‘»«›‹)]}」』）】》〉"
_LAST_WORD = re.compile(r"[^\s(\[{\"'“”„‘’«»‹›\-–—/]+$")
_SPACED_DOTS = re.compile(r"(?:(?<=\s)|(?<=[(\[\"'“„«])|^)(?:\w{1,2}\.\s){1,3}\w{1,2}\.$")
_DOTTED_LETTERS = re.compile(r"[^\W\d_](?:\.[^\W\d_]){1,4}")
_LIST_MARK = re.compile(r"[(\[]?(?:\d{1,3}|[^\W\d_]|[ivxIVX]{1,5})[.)\]]{1,2}")
_CLOSED_APART = re.compile(r"([»”)\]}]+)\s+")
_SPACE = re.compile(r"\s")
_LETTER = re.compile(r"[^\W\d_]")
_LETTER_DOT = re.compile(r"[^\W\d_]{1,3}\.")
_ROMAN = re.compile(r"[IVXLC]+\b")
_NEAR = 100  # characters on each side of a break that the rules look at: it keeps their time linear
_UNSPACED = "\u1100"  # Hangul and the scripts beyond have no initials
_LAST_ORDINAL = 31  # days and centuries; larger numbers before a full stop mostly end a sentence
_MAY_END = frozenset({"a.m", "p.m", "u.s", "u.k", "u.s.a", "n.e", "e.kr", "н.э"})


def words(text: str) -> Offsets:
    """The spans of the words: the UAX #29 segments that hold a letter or digit; no punctuation, no white space.

    Offsets are characters of ``text``, end exclusive, in order and without overlap.
    """
    clean = visible(text)
    spans = [
        (start, end)
        for start, end in _segments(WordBreaker, clean, "en")
        if clean[start].isalnum() or (end - start > 1 and any(map(str.isalnum, clean[start:end])))
    ]
    if clean is text:
        return spans
    places = visible_places(text)
    return [(places[start], places[end - 1] + 1) for start, end in spans]


def split_sentences(text: str, lang: str = "") -> Offsets:
    """The spans of the sentences, trimmed of white space; together they cover every other character.

    ``lang`` (a code such as "de") picks the abbreviations; without it those of all languages hold, and ordinal
    numbers ("am 5. Mai") are not known. A line break always ends a sentence.
    """
    lang = lang.lower().replace("_", "-").split("-")[0]
    locale = lang if _BREAKER_LOCALE.fullmatch(lang) else "en"
    found: Offsets = []
    for start, end in _trimmed(text, _sentences(text, locale)):
        if found and not _LINE_END.search(text, found[-1][1], start):
            start = _closed(text, found, start, end)
        if found and _goes_on(text, found[-1], (start, end), lang):
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def _sentences(text: str, locale: str) -> Iterator[tuple[int, int]]:
    """ICU's sentences, cut further after the shads of Tibetan."""
    for start, end in _segments(SentenceBreaker, text, locale):
        for shads in _SHADS.finditer(text, start, end):
            yield start, shads.end()
            start = shads.end()
        if start < end:
            yield start, end


def _segments(breaker: type[SentenceBreaker] | type[WordBreaker], text: str, locale: str) -> Iterator[tuple[int, int]]:
    """What ICU finds, as characters: its own offsets are UTF-16 units, so the lengths of the pieces are summed."""
    try:
        pieces = breaker(text, locale)
    except UnicodeEncodeError:  # ICU takes no unpaired surrogates
        pieces = breaker(_SURROGATE.sub("\ufffd", text), locale)
    return pairwise(accumulate(map(len, pieces), initial=0))


def _trimmed(text: str, segments: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The segments without white space at their ends; an opening bracket at the end of one goes to the next."""
    carried = -1
    for start, end in segments:
        start, carried = (carried if carried >= 0 else start), -1
        cut = end
        while end < len(text) and cut > start and category(text[cut - 1]) in ("Ps", "Pi"):
            cut -= 1
        if start < cut < end:
            carried, end = cut, cut
        piece = text[start:end]
        start += len(piece) - len(piece.lstrip())
        end = start + len(piece.strip())
        if start < end:
            yield start, end


def _closed(text: str, found: Offsets, start: int, end: int) -> int:
    """Gives a mark that closes and stands apart, as in "Quoi ? » Il", to the last sentence; where the next begins."""
    apart = _CLOSED_APART.match(text, start, end)
    if apart is None:
        return start
    found[-1] = (found[-1][0], apart.end(1))
    return apart.end()


def _goes_on(text: str, left: tuple[int, int], right: tuple[int, int], lang: str) -> bool:
    """Whether the sentence ``left`` goes on in ``right``."""
    if _LINE_END.search(text, left[1], right[0]):
        return False
    before = text[max(left[0], left[1] - _NEAR) : left[1]]
    after = text[right[0] : min(right[1], right[0] + _NEAR)]
    return any(rule(before, after, lang) for rule in _RULES)


def _no_word(before: str, after: str, lang: str) -> bool:
    """One of the two holds neither letter nor digit: "Really ?" + "!"."""
    return not (any(map(str.isalnum, after)) and any(map(str.isalnum, before)))


def _list_mark(before: str, after: str, lang: str) -> bool:
    """A number or letter of a list stands alone: "1." + "Open the file."."""
    return len(before) < 9 and _LIST_MARK.fullmatch(before) is not None


def _lower_case(before: str, after: str, lang: str) -> bool:
    """The next letter is small, after a full stop or a closing quote: "(ca.)" + "and so on", '"Go!"' + "he said"."""
    first = after.lstrip(_CLOSERS + "„“‚‘([{¿¡-–—,;: ")[:1]
    begins_small = first.islower() and first.title() != first  # Georgian has no capital at the beginning
    return begins_small and (before[-1] in _CLOSERS or before.rstrip(_CLOSERS).endswith("."))


def _quoted(before: str, after: str, lang: str) -> bool:
    """A Japanese quotation, and the particle that binds it: 「…。」 + と言った."""
    return before[-1] in "」』" and after.startswith(("と", "って"))


def _abbreviation(before: str, after: str, lang: str) -> bool:
    """The last word is an abbreviation, an initial or, where the language writes it so, an ordinal number."""
    if not before.endswith("."):
        return False
    if _DOUBLED.fullmatch(before, max(0, len(before) - 3)) and _DOUBLED.match(after):
        return True
    spaced, last = _SPACED_DOTS.search(before), _LAST_WORD.search(before)
    for found in filter(None, (spaced, last)):  # "z. B." is one abbreviation, "Dr. H." are two
        word = _SPACE.sub("", found[0])[:-1]
        small = word.lower()
        if small in _MAY_END:
            return False
        if small in before_word(lang) or _initial(word, after, found.start(), lang):
            return True
        if small in before_number(lang):
            if after[:1].isdigit() or _ROMAN.match(after):
                return True
        elif f"{word}." in _suppressions(lang)[0]:
            return True
    spaced_out = next((entry for entry in _suppressions(lang)[1] if before.endswith(entry)), "")
    if spaced_out and not before[: -len(spaced_out)][-1:].isalnum():
        return True
    number = last[0][:-1] if last and (spaced is None or not _LETTER.search(spaced[0])) else ""
    return ordinal_dot(lang) and number.isdecimal() and len(number) < 3 and int(number) <= _LAST_ORDINAL


def _initial(word: str, after: str, start: int, lang: str) -> bool:
    """Whether it is "J." or "J.R.R." of a name, or "z." of "z. B."; not "I" at an English end, nor "5 p.m."."""
    if len(word) == 1 and word.isalpha():
        without_case = word.lower() == word.upper() or word.title() == word.lower()
        capital = word.isupper() or (without_case and word < _UNSPACED)
        capital = capital and not (word == "I" and start and lang in ("", "en"))
        return capital or _LETTER_DOT.match(after) is not None
    return _DOTTED_LETTERS.fullmatch(word) is not None


_RULES: tuple[Callable[[str, str, str], bool], ...] = (_no_word, _list_mark, _lower_case, _quoted, _abbreviation)

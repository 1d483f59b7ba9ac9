"""Word and sentence segmentation with character offsets, in spaced and unspaced scripts; stop words.

Both use ICU: boundaries of UAX #29, with dictionaries for Chinese, Japanese, Thai, Lao, Khmer and Burmese (chosen in
``results/log/text.md``). ICU breaks a sentence after most full stops before a capital; rules in this module join the
parts again after abbreviations and the like. ICU counts UTF-16 units; all offsets here count characters.

Abbreviations after which a sentence continues are listed by language, in lower case, without the final full stop.
Abbreviations that may end a sentence, such as "etc." and "usw.", are not listed: the case of the next letter decides.
Other lists are CLDR's suppressions in ICU for seven languages, and the non-breaking prefixes of Moses in the package
sacremoses for twenty. The tables here add missing entries and exclude wrong ones.

The lists of stop words are those of the package stopwordsiso (MIT; 57 languages).

Abbreviations and likely subtags of CLDR come through ICU's C interface, because icu4py does not bind them. If its
libraries cannot be found, the lists are empty.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache, lru_cache
from importlib.util import find_spec
from itertools import accumulate, pairwise
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any, cast
from unicodedata import category

from icu4py.breakers import SentenceBreaker, WordBreaker

from phrasemate.errors import InputError
from phrasemate.text.japanese import KANA, join_words
from phrasemate.text.normalize import composed, plain, visible, visible_places
from phrasemate.types import check_text

_PLACES = ("../icu4py.libs", ".dylibs", "../icu4py.dylibs", ".")  # folders of the libraries in the wheels
_TAG = re.compile(r"[A-Za-z]{2,8}(?:[-_][A-Za-z0-9]{1,8})*")
_NAMED = (0, -128)  # ICU's status of a name in the language asked for, or in its parent; -127: of another language
_LONGEST = 157  # maximum bytes of a locale's name (ULOC_FULLNAME_CAPACITY)
UTF_16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"  # encoding of ICU's strings


def icu_functions(name: str, windows: str, signatures: Mapping[str, Sequence[Any]]) -> SimpleNamespace | None:
    """Load functions of an ICU library as attributes, with its ``version``; None if the library is missing.

    ``name`` is the start of the file name on Linux and macOS, ``windows`` that on Windows. ``signatures``: function ->
    type of the result, types of the arguments.
    """
    try:
        import icu4py.messageformat  # loads the libraries and their dependencies into the process
        from icu4py._version import icu_version_info

        home = Path(icu4py.messageformat.__file__).parent
        files = (
            file for place in _PLACES for start in (name, windows) for file in sorted((home / place).glob(f"{start}*"))
        )
        library, functions = ctypes.CDLL(str(next(files))), SimpleNamespace(version=icu_version_info[0])
        for label, (result, *arguments) in signatures.items():
            function = getattr(library, f"{label}_{functions.version}")
            function.restype, function.argtypes = result, arguments
            setattr(functions, label, function)
    except (ImportError, OSError, AttributeError, StopIteration):
        return None
    return functions


@cache
def _common() -> SimpleNamespace | None:
    """Load ICU's functions for resource bundles and locale names."""
    pointer, text, number, status = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_int)
    signatures = {
        "ures_openDirect": (pointer, text, text, status),
        "ures_close": (None, pointer),
        "ures_getByKey": (pointer, pointer, text, pointer, status),
        "ures_getSize": (number, pointer),
        "ures_getStringByIndex": (pointer, pointer, number, ctypes.POINTER(number), status),
        "uloc_addLikelySubtags": (number, text, text, number, status),
        "uloc_toLanguageTag": (number, text, text, number, ctypes.c_int8, status),
        "uloc_getDisplayLanguage": (number, text, text, pointer, number, status),
    }
    return icu_functions("libicuuc", "icuuc", signatures)


@lru_cache(maxsize=64)
def suppressions(language: str) -> frozenset[str]:
    """Return the abbreviations, with full stops, after which a sentence continues in CLDR, for a language like "de"."""
    if not _TAG.fullmatch(language) or (icu := _common()) is None:
        return frozenset()
    status, data = ctypes.c_int(0), f"icudt{icu.version}{sys.byteorder[0]}-brkitr"
    resources = [icu.ures_openDirect(data.encode("ascii"), language.encode("ascii"), ctypes.byref(status))]
    for key in (b"exceptions", b"SentenceBreak"):
        resources.append(icu.ures_getByKey(resources[-1], key, None, ctypes.byref(status)))
    entries = range(icu.ures_getSize(resources[-1])) if status.value <= 0 else range(0)
    abbreviations = frozenset(_string(icu, resources[-1], number) for number in entries)
    for resource in filter(None, reversed(resources)):
        icu.ures_close(resource)
    return abbreviations


def _string(icu: SimpleNamespace, entries: Any, number: int) -> str:
    length, status = ctypes.c_int32(0), ctypes.c_int(0)
    place = icu.ures_getStringByIndex(entries, number, ctypes.byref(length), ctypes.byref(status))
    return ctypes.string_at(place, 2 * length.value).decode(UTF_16)


@lru_cache(maxsize=1 << 12)
def full_tag(tag: str) -> str:
    """Add the likely script and country to a language tag: "zh-TW" gives "zh-Hant-TW".

    An unknown tag is returned unchanged.
    """
    icu = _common()
    tag = tag.strip().replace("_", "-")
    if icu is None or len(tag) > _LONGEST - 20 or not _TAG.fullmatch(tag):
        return tag
    status, name = ctypes.c_int(0), ctypes.create_string_buffer(_LONGEST)
    icu.uloc_addLikelySubtags(tag.encode("ascii"), name, _LONGEST, ctypes.byref(status))
    whole = ctypes.create_string_buffer(_LONGEST)
    icu.uloc_toLanguageTag(name.value, whole, _LONGEST, 1, ctypes.byref(status))
    return whole.value.decode("ascii") if status.value <= 0 and whole.value else tag


def name_in(tag: str, language: str) -> str:
    """Return the name of the language of a tag in another language, such as "Englisch" for "en" and "de".

    Returns "" without ICU, and for a tag that it has no name for.
    """
    icu = _common()
    if icu is None or len(tag) > _LONGEST - 20 or not _TAG.fullmatch(tag):
        return ""
    status, name = ctypes.c_int(0), ctypes.create_string_buffer(2 * _LONGEST)
    locales = tag.replace("-", "_").encode("ascii"), language.encode("ascii")
    length = icu.uloc_getDisplayLanguage(*locales, name, _LONGEST, ctypes.byref(status))
    return name.raw[: 2 * length].decode(UTF_16) if status.value in _NAMED else ""


_BEFORE_WORD = {
    "af": "bv dr mej mev mnr prof",
    "az": "akad dos küç prof",
    "be": "акад вул праф св ім",
    "bg": "акад бул гл гр доц жк инж напр пл проф св ул обл",
    "bn": "মো ডা",
    "bs": "dr kpt mr npr prof sv tzv ul",
    "ca": "av avda dr dra prof sr sra srta sta",
    "cs": "dr ing kpt mgr mjr mudr např por prof resp srov sv tj tzn tzv",
    "cy": "dr mr mrs parch",
    "da": "adv afd dr f.eks fhv hhv hr kpt obs prof sct skt bl.a dir dvs frk",
    "de": "bspw bzw d.h dipl dr evtl fr frl ggf habil hr hrn i.d.r inkl insb iur jur med nat phil prof rer s.o s.u"
    " sog st theol u.u vgl z.b z.t z.zt zzgl dipl.-ing dres fam frhr gebr gesch hptm vors",
    "el": "αγ βλ δρ κ κ.κ καθ λεωφ π.χ οδ",
    "en": "approx capt cf cmdr col dr e.g esp gen gov hon i.e lt maj messrs mr mrs ms mt prof rep rev sen sgt shri"
    " smt st vs adm atty bros capts cllr cpt fr insp mmes msgr ofc sgts supt",
    "eo": "ekz prof",
    "es": "arq av avda cía ctra d.ª dr dra exc excmo ing lic p.ej pdte prof profa pza sr sra srta sto uds ud admon"
    " atte ayto brig cdad cdte cgo cmdte cnel depto dpto edif excma fdo gob gral hnos ilma ilmo mtro sgto sres"
    " tte urb",
    "et": "dr hr nt pr prl prof",
    "eu": "dr jn prof",
    "fi": "esim ns prof tri toht",
    "fr": "bd cf dr env m mgr mlle mme p.ex prof cdt cne drs éd gén mgrs mlles mmes ste sts vve",
    "gl": "av dr dra prof sr sra srta",
    "gu": "પ્રો",
    "hi": "डॉ प्रो श्री सुश्री",
    "hr": "dipl dr gđa gđica kpt mr npr prof sv tzv ul ing sc",
    "hu": "dr ifj ill pl prof ún özv szt",
    "hy": "դոկ պրոֆ",
    "id": "bpk dr drs ir jl prof sdr yth hj kab kec kel pt",
    "is": "dr hr prof t.d",
    "it": "ad.es arch avv comm dott dott.ssa dr ecc.mo egr geom ing prof prof.ssa rag sig sig.ra sigg spett st"
    " dr.ssa f.lli gent.ma gent.mo ill.mo p.zza sig.na sigg.ri spett.le",
    "kk": "акад көш проф",
    "kn": "ಡಾ ಪ್ರೊ",
    "lt": "doc dr gerb prof pvz vad šv",
    "lv": "dr piem prof",
    "mk": "бул проф св ул",
    "ml": "ഡോ പ്രൊഫ",
    "mr": "प्रा श्रीमती",
    "ms": "dr jln pn prof",
    "nb": "adv bl.a dr f.eks fr hr jf kap prof",
    "ne": "डा प्रा श्री",
    "nl": "bijv bv d.w.z dhr dr drs ds ing ir jhr mej mevr mr mw o.a prof resp dra fam fr kol lt luit maj mgr prov"
    " secr st weled z.em",
    "nn": "bl.a dr f.eks hr jf prof",
    "no": "adv bl.a dr f.eks fr hr jf prof",
    "pl": "al dr gen hab im inż ks mgr mjr np ppłk prof tj tzn tzw ul św",
    "pt": "arq av dr dra eng exma exmo prof profa sr sra sta sto exmos ilmo maj mons srs srta",
    "ro": "bd cal de.ex dl dna dr prof sf str şos șos ing jud dvs",
    "ru": "акад гр доц ул им напр проф св см ср т.е т.н тов",
    "sk": "dr ing kpt mgr mjr mudr napr prof resp sv tzn tzv",
    "sl": "dr npr prof sv",
    "sq": "dr prof znj",
    "sr": "dr kpt npr prof sv tzv ul г гђа др нпр проф св ул",
    "sv": "bl.a dr dvs fr hd hr kapt prof s.k st t.ex överste",
    "ta": "திரு திருமதி பேரா",
    "te": "డా ప్రొ",
    "tl": "bb dr dra gng sta sto",
    "tr": "alb av bkz bul bşk cad doç dr mah org prof sn sok yrd örn uzm",
    "uk": "акад бульв вул напр пл пр пров просп проф св смт ім зв обл",
    "vi": "bs cn gs gv ks nsnd nxb pgs ths tp ts đc đd đh hđnd kts ls mr mrs ms nsưt pcn st tsk tt tx ubnd",
}
_BEFORE_NUMBER = {
    "bg": "чл",
    "cs": "č čl obr odst s str tab",
    "da": "art ca fig kl nr s stk",
    "de": "abb abs art bd ca kap nr s tab tel ziff",
    "en": "apr art aug ca ch chap dec eq eqs feb fig figs jan jul jun mar no nos nov oct p para pp sec sep sept vol",
    "es": "art cap fig n.º núm p pág págs tel vol",
    "fi": "kuva n:o nro s klo",
    "fr": "art chap fig n° p pp tél vol",
    "hr": "br čl str",
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
# Initials of two letters, and titles: the sentence continues after them if they are capitalised.
_BEFORE_NAME = {
    "bs": "dž lj nj",
    "cs": "ch ul bc",
    "cy": "ch ll ph rh th",
    "da": "fr",
    "de": "ch chr ph th hl mag maj rev",
    "en": "const det gens pres profs reps sens",
    "es": "ch ll cap col min pto",
    "fi": "ks mm",
    "fr": "ch chr ph th col lt pr st av",
    "hr": "dž lj nj",
    "hu": "cs dz dzs gy ly ny sz ty zs id",
    "id": "ny tn",
    "it": "cap cav col on rep sen ten pres",
    "nl": "ch chr ij ph th burg gem kapt kon min wed",
    "pl": "ch cz dz rz sz",
    "pt": "fr pe alm brig cap cel des emb min rod sarg ten trav",
    "ro": "av",
    "sk": "ch dz dž",
    "sq": "dh gj ll nj rr sh th xh zh",
    "sr": "dž lj nj",
    "sv": "kap",
    "tr": "op apt",
    "uz": "ch sh",
}
# The list of Estonian is left out: it is a copy of the Finnish one. Those on the first line were checked against texts.
_MOSES = frozenset(("ca", "cs", "de", "el", "en", "es", "fi", "fr", "hu", "it", "lv", "nl", "pl", "pt", "ro"))
_MOSES |= {"ru", "sk", "sl", "sv", "as", "bn", "ga", "gu", "hi", "kn", "lt", "ml", "mr", "or", "pa", "ta", "te"}
# Entries of CLDR that are also words or often end a sentence, which are not used; and those of Moses, counted in texts.
_WORDS_TOO = {
    "de": "am art best chin dat di do int max mi min mo pin port rel sa so std test",
    "en": "act ad all am as by card do etc ex go hat id in is jam job joe link long mart min ok on or pc pro to up",
    "es": "all bien da dc em etc kit mar may ram rol sa sol",
    "fr": "all cam etc fig mer sam syst voit",
    "it": "all on ver",
    "pt": "cat com cont des dez etc fil lin long mar ob out pal port set sup",
    "ru": "н.э отд руб",
}
_WORDS_TOO_OF_MOSES = {
    "ca": "al dg dj dl ds ed emm fra i.e maj min nre pl pta ptes s.a s.l sta",
    "cs": "ad aj akt apod arch arg atd atp aut bc bot br cca cit csc dat doc ed event film form hod hor hovor ie imp"
    " ind instr it kol les lid log lék mat meteor mga ml mod mp ms mysl než no něm odd odp opt part pas pl po port"
    " pozn práv pt před red rum seš sg sign sl slang slov spec sport srv st tech tis var vedl voj vol vč čas",
    "de": "adj adm am art bart best brig bros bse bzgl chin chr co col con corp cpl dat di do ens etc ff gen hon int"
    " k.o lt ltd maj max mi min mm mme mo mrd mrs ms mwst no o.ä op ord ph pin port pp rel rep res rev rt sa sen"
    " so sr std test u.s.w u.ä usw",
    "el": "αν αντ απ αργκ εις εκ εν ενεργ εξ ευρατόμ κ.λπ καλ καν κατ κλπ μα να νε νικ ον παν παρ πόλη στ τον χιλ",
    "en": "act ad adj adm all am as bart brig bros by card con corp cpl do drs ens etc ex go hat hr id in is jam job"
    " joe link long mart min mm mme nr ok on op or ord pc ph pro pvt res rs rt sens sr to up",
    "es": "all bien c.f cm da dc dn doc ee.uu ej em etc gr izq kg kit km let mar may mg mm pts ram rol s.a sa sol vid",
    "fi": "dos huom mm ms res san ups",
    "fr": "al all ann apr av ca cam dir e.g etc ex fig fr id inf lib mer mm ms pl s.a s.m sam sec sing sq ss suiv sup"
    " syst voit vs",
    "hu": "de dec du fax feb jan max min máj st tel",
    "it": "all bart cc co col con corp ecc es hon id lt mm mo ms no nr on op post s.a soc u.s ver",
    "lv": "folkl galv hum soc spec vad vec virz",
    "nl": "jr tint",
    "pl": "am cd dot em farm gen gr gram hot id kat lek par pt wył zew",
    "pt": "cat com con cont corp des dez etc ex fil hosp lin long mar mm ms no nos nr ob out pal ph port pp set sup",
    "ro": "dvs etc",
    "ru": "вв гг др зам кг км кол куб лиц макс мин мл млн млрд мм н.э обр ок отд пр ред руб тел тех тыс хор шт",
    "sk": "ad aj akt al apod arch arg atd atp aut bc bot br bud cca cest cit csc dat doc duš ed els event fa fam farm"
    " filat film form fraz fut gen hebr hist hod hor hosp hovor ie imp ind instr it kapit kart knih kol kr lat les"
    " lid lit litur log lék mat max mest meteor metr mga mil min ml mod mp ms mysl nar nasl než niekt no něm odd"
    " odp opt os osob ot ovoc par part pas pers pl po podst pol por port použ pozn poľ práv pt publ před red rep"
    " roč rum rím seš sg sign skl sl slang slov spec sport srv st star stol tal tech tis ukaz univ var vedl veter"
    " vin vod voj vol vys vysl vč zar záhr účt čas čast čes živ",
    "sl": "avg dec feb gl itd itn jan jul jun mar nov okt op oz sep sept",
    "sv": "etc fil jul mar mm osv tom",
    "as": "কে হে",
    "bn": "কে হে",
    "gu": "કે જી",
    "hi": "जी टीवी के",
    "mr": "जी के",
    "pa": "ਕੇ ਜੀ ਸੀ",
    "lt": "al el kt pan",
}
# Languages that write ordinal numbers with a full stop: "am 5. Mai".
_ORDINAL_DOT = frozenset(
    ("bs", "cs", "da", "de", "et", "eu", "fi", "fo", "hr", "hu", "is", "lv", "nb", "nn", "no", "sk", "sl", "sr")
)


def _listed(table: dict[str, str], lang: str) -> frozenset[str]:
    """Return the entries of a language; those of all languages if it is unknown or has no list."""
    return frozenset(" ".join([table[lang]] if lang in table else table.values()).split())


@cache
def before_word(lang: str) -> frozenset[str]:
    """Return the abbreviations after which a sentence always continues: "Dr. Müller", "z. B. Berlin"."""
    return (_listed(_BEFORE_WORD, lang) | _prefixes(lang, numeric=False)) - before_number(lang)


@cache
def before_number(lang: str) -> frozenset[str]:
    """Return the abbreviations after which a sentence continues before a number: "No. 5", but "No. He left."."""
    return _listed(_BEFORE_NUMBER, lang) | _prefixes(lang, numeric=True)


def _prefixes(lang: str, numeric: bool) -> frozenset[str]:
    """Return the non-breaking prefixes of Moses for a language, in lower case; ``numeric``: those before a number."""
    if lang not in _MOSES:
        return frozenset()
    entries = (prefix.split() for prefix in _moses_lists()[f"nonbreaking_prefix.{lang}"].splitlines())
    prefixes = {entry[0].rstrip(".").lower() for entry in entries if entry and (entry[-1] == _NUMERIC) == numeric}
    return frozenset(filter(_ABBREVIATED.fullmatch, prefixes)) - frozenset(_WORDS_TOO_OF_MOSES.get(lang, "").split())


@cache
def _moses_lists() -> Mapping[str, str]:
    """Load the prefix files of sacremoses without importing its tokenizers, which takes a second."""
    home = find_spec("sacremoses")
    assert home is not None
    assert home.submodule_search_locations is not None
    lists = run_path(str(Path(home.submodule_search_locations[0]) / "_data_nonbreaking_prefixes.py"))
    return cast(Mapping[str, str], lists["NONBREAKING_PREFIXES"])


@cache
def _suppressions(lang: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return CLDR's abbreviations of a language: single words, and those with spaces ("n. Chr.")."""
    words_too = _MAY_END.union(_WORDS_TOO.get(lang, "").split())
    entries = {entry for entry in suppressions(lang) if entry[:-1].lower() not in words_too}
    several_words = tuple(sorted(entry for entry in entries if " " in entry))
    return frozenset(entry for entry in entries if len(entry) > 2) - set(several_words), several_words


Offsets = list[tuple[int, int]]

_NUMERIC = "#NUMERIC_ONLY#"
# An abbreviation, but not a single letter or a Roman numeral; the vowels of Indic scripts are combining marks.
_ABBREVIATED = re.compile(r"(?![ivxl]+$)[^\W\d_](?:[^\W\d_]|[\u0900-\u0dff]|[.'’/-](?=[^\W\d_]))+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_BREAKER_LOCALE = re.compile(r"[a-z]{2,3}")
_DOUBLED = re.compile(r"\b([^\W\d_])\1\.")  # the plural of initials: "EE. UU.", "RR. HH."
# Marks that end a sentence in Tibetan and Marchen, which UAX #29 does not know.
_SHADS = re.compile("[\u0f0d-\u0f12\u0f14\U00011c71][\u0f0d-\u0f12\u0f14\U00011c71\\s]*")
# Small letters of Coptic and Cherokee, in which sentences need no capital. ICU knows this only of Georgian.
_ONE_CASE = re.compile(
    "[\u03e3\u03e5\u03e7\u03e9\u03eb\u03ed\u03ef\u13f8-\u13fd\uab70-\uabbf]|(?=[\u2c80-\u2cf3])[^\\W\\d_]"
)
_WITHOUT_CASE = "\u10d0"
# Ends of sentences that UAX #29 does not know: the Greek question mark, also typed as a semicolon, the Armenian full
# stop typed as a colon, the Hebrew sof pasuq, two wordspaces of Ethiopic, section marks.
_STOPS = re.compile(
    "\u037e|(?<=[\u0370-\u03ff\u1f00-\u1fff]);(?=\\s)|(?<=[\u0561-\u0587]):(?=\\s+[\u0531-\u0556])"
    "|\u05c3|(?<=\u1361)\u1361|[\u0e5a\u0e5b\u10fb\u1360\u1a1f](?=\\s)"
)
_STOP = "?"
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
_NEAR = 100  # characters on each side of a break that the rules see, which keeps their time linear
_UNSPACED = "\u1100"  # scripts from Hangul on have no initials
_LAST_ORDINAL = 31  # for days and centuries; larger numbers before a full stop mostly end a sentence
_MAY_END = frozenset({"a.m", "p.m", "u.s", "u.k", "u.s.a", "n.e", "e.kr", "н.э"})


def words(text: str) -> Offsets:
    """Find the words of a text: the spans of UAX #29 segments with a letter or digit.

    Parts of Japanese words that ICU separates are joined (`join_words`).
    Offsets are characters of ``text``, end exclusive, in order and without overlap.
    """
    check_text(text)
    if text.isascii() and text.replace(" ", "").isalnum():  # words are separated by spaces only
        spans, start = [], 0
        for run in text.split(" "):
            if run:
                spans.append((start, start + len(run)))
            start += len(run) + 1
        return spans
    clean = visible(text)
    spans = _dictionary_words(clean)
    if KANA.search(clean):
        spans = join_words(clean, spans, _dictionary_words)
    if clean is text:
        return spans
    places = visible_places(text)
    return [(places[start], places[end - 1] + 1) for start, end in spans]


def _dictionary_words(text: str) -> Offsets:
    """Find the words of a text without invisible characters by ICU alone."""
    return [
        (start, end)
        for start, end in _segments(WordBreaker, text, "en")
        if text[start].isalnum() or (end - start > 1 and any(map(str.isalnum, text[start:end])))
    ]


def split_sentences(text: str, lang: str = "") -> Offsets:
    """Split a text into sentences: spans without surrounding white space that cover all other characters.

    ``lang`` is a code such as "de", which selects the abbreviations and whether ordinal numbers have a full stop ("am
    5. Mai"). Without it, the abbreviations of all languages count, and no ordinal numbers. A line break always ends a
    sentence.
    """
    check_text(text)
    check_text(lang)
    lang = lang.lower().replace("_", "-").split("-")[0]
    locale = lang if _BREAKER_LOCALE.fullmatch(lang) else "en"
    spans: Offsets = []
    for start, end in _trimmed(text, _sentences(text, locale)):
        if spans and not _LINE_END.search(text, spans[-1][1], start):
            start = _closed(text, spans, start, end)
        if spans and _goes_on(text, spans[-1], (start, end), lang):
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans


def _sentences(text: str, locale: str) -> Iterator[tuple[int, int]]:
    """Yield ICU's sentences, split further after Tibetan shads and other marks that ICU does not know."""
    plain = text if text.isascii() else _STOPS.sub(_STOP, _ONE_CASE.sub(_WITHOUT_CASE, text))
    for start, end in _segments(SentenceBreaker, plain, locale):
        for shads in _SHADS.finditer(text, start, end):
            yield start, shads.end()
            start = shads.end()
        if start < end:
            yield start, end


def _segments(breaker: type[SentenceBreaker] | type[WordBreaker], text: str, locale: str) -> Iterator[tuple[int, int]]:
    """Yield ICU's segments with character offsets: sums of their lengths, as ICU's own offsets are UTF-16 units."""
    try:
        pieces = breaker(text, locale)
    except UnicodeEncodeError:  # ICU does not accept unpaired surrogates
        pieces = breaker(_SURROGATE.sub("\ufffd", text), locale)
    return pairwise(accumulate(map(len, pieces), initial=0))


def _trimmed(text: str, segments: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Strip white space from the segments, and move an opening bracket at the end of one to the next."""
    next_start = -1
    for start, end in segments:
        start, next_start = (next_start if next_start >= 0 else start), -1
        cut = end
        while end < len(text) and cut > start and category(text[cut - 1]) in ("Ps", "Pi"):
            cut -= 1
        if start < cut < end:
            next_start, end = cut, cut
        piece = text[start:end]
        start += len(piece) - len(piece.lstrip())
        end = start + len(piece.strip())
        if start < end:
            yield start, end


def _closed(text: str, spans: Offsets, start: int, end: int) -> int:
    """Move a closing mark after a space, as in "Quoi ? » Il", to the last sentence. Returns the start of the next."""
    apart = _CLOSED_APART.match(text, start, end)
    if apart is None:
        return start
    spans[-1] = (spans[-1][0], apart.end(1))
    return apart.end()


def _goes_on(text: str, first: tuple[int, int], second: tuple[int, int], lang: str) -> bool:
    """Tell whether the sentence ``first`` continues in ``second``."""
    if _LINE_END.search(text, first[1], second[0]):
        return False
    before = text[max(first[0], first[1] - _NEAR) : first[1]]
    after = text[second[0] : min(second[1], second[0] + _NEAR)]
    return any(rule(before, after, lang) for rule in _RULES)


def _no_word(before: str, after: str, lang: str) -> bool:
    """Rule: one of the two has neither a letter nor a digit, as in "Really ?" + "!"."""
    return not (any(map(str.isalnum, after)) and any(map(str.isalnum, before)))


def _list_mark(before: str, after: str, lang: str) -> bool:
    """Rule: the first is only the number or letter of a list item, as in "1." + "Open the file."."""
    return len(before) < 9 and _LIST_MARK.fullmatch(before) is not None


def _lower_case(before: str, after: str, lang: str) -> bool:
    """Rule: a small letter follows a full stop or closing quote, as in "(ca.)" + "and so on", '"Go!"' + "he said"."""
    first = after.lstrip(_CLOSERS + "„“‚‘([{¿¡-–—,;: ")[:1]
    begins_small = first.islower() and first.title() != first and not _ONE_CASE.match(first)
    return begins_small and (before[-1] in _CLOSERS or before.rstrip(_CLOSERS).endswith("."))


def _quoted(before: str, after: str, lang: str) -> bool:
    """Rule: a Japanese quotation is followed by its particle, as in 「…。」 + と言った."""
    return before[-1] in "」』" and after.startswith(("と", "って"))


def _abbreviation(before: str, after: str, lang: str) -> bool:
    """Rule: the last word is an abbreviation, an initial or, in some languages, an ordinal number with a full stop."""
    if not before.endswith("."):
        return False
    if _DOUBLED.fullmatch(before, max(0, len(before) - 3)) and _DOUBLED.match(after):
        return True
    dots_match, last = _SPACED_DOTS.search(before), _LAST_WORD.search(before)
    for match in filter(None, (dots_match, last)):  # "z. B." is one abbreviation, "Dr. H." are two
        word = _SPACE.sub("", match[0])[:-1]
        small = word.lower()
        if small in _MAY_END:
            return False
        if small in before_word(lang) or _initial(word, after, match.start(), lang):
            return True
        if small in before_number(lang):
            if after[:1].isdigit() or _ROMAN.match(after):
                return True
        elif f"{word}." in _suppressions(lang)[0]:
            return True
    spaced_out = next((entry for entry in _suppressions(lang)[1] if before.endswith(entry)), "")
    if spaced_out and not before[: -len(spaced_out)][-1:].isalnum():
        return True
    number = last[0][:-1] if last and (dots_match is None or not _LETTER.search(dots_match[0])) else ""
    return lang in _ORDINAL_DOT and number.isdecimal() and len(number) < 3 and int(number) <= _LAST_ORDINAL


def _initial(word: str, after: str, start: int, lang: str) -> bool:
    """Tell whether a word is an initial, as in "J." and "J.R.R.", or a part of "z. B."; not "I" in English."""
    if word.istitle() and word.lower() in _BEFORE_NAME.get(lang, "").split():
        return True
    if len(word) == 1 and word.isalpha():
        without_case = word.lower() == word.upper() or word.title() == word.lower()
        capital = word.isupper() or (without_case and word < _UNSPACED)
        capital = capital and not (word == "I" and start and lang in ("", "en"))
        return capital or _LETTER_DOT.match(after) is not None
    return _DOTTED_LETTERS.fullmatch(word) is not None


_RULES: tuple[Callable[[str, str, str], bool], ...] = (_no_word, _list_mark, _lower_case, _quoted, _abbreviation)


def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of a language such as "de", in lower case. Raises InputError if it has no list."""
    import stopwordsiso

    if not stopwordsiso.has_lang(language):
        languages = ", ".join(sorted(stopwordsiso.langs()))
        raise InputError(f"no stop-words of language {language!r}; there are lists for {languages}")
    return frozenset(_plain(word) for word in stopwordsiso.stopwords(language))


def content_words(text: str, stop: AbstractSet[str] = frozenset()) -> list[str]:
    """Return the words of a text in order, lower-cased and composed (NFC), without those in ``stop``."""
    content = (_plain(text[start:end]) for start, end in words(text))
    return [word for word in content if word not in stop]


def _plain(word: str) -> str:
    return composed(visible(word).lower())


_END = re.compile("[.!?…。！？｡؟۔।॥։።។။།]+[\"'”’»)\\]」』]*")  # marks that end a sentence


def is_of(text: str) -> Callable[[str], bool]:
    """Make a predicate that tells whether a sentence consists of consecutive sentences of ``text``, or contains it all.

    Case, white space and Unicode form are ignored. A sentence may begin and end at any mark that can end a sentence,
    because it may have been split by other rules.
    """
    whole = _squeezed(text)
    ends = {0, len(whole), *(match.end() for match in _END.finditer(whole))}
    ends |= set(accumulate(len(_squeezed(text[start:end])) for start, end in split_sentences(text)))

    def contains(sentence: str) -> bool:
        plain_sentence = _squeezed(sentence)
        if not plain_sentence or not whole:
            return False
        at = whole.find(plain_sentence)
        while at >= 0:
            if at in ends and at + len(plain_sentence) in ends:
                return True
            at = whole.find(plain_sentence, at + 1)
        return whole in plain_sentence

    return contains


def _squeezed(text: str) -> str:
    return "".join(composed(plain(text)).casefold().split())

"""Whether a sentence is in the language that it should be in: by its script, or by an optional language identifier."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any
from unicodedata import name

from phrasemate.errors import InputError, MissingExtra

CHECKS = ("none", "script", "language")
LanguageCheck = Callable[[str], bool]
"""Whether a sentence may stay."""

CONFIDENCE = 0.8  # below it an identifier is not believed: of true sentences it then drops at most 0.2 in a hundred
SHARE = 0.3  # of the letters: Russian text about programs may be half Latin, a whole English sentence has none
_CODE = re.compile(r"[a-z]{2,3}")
_SCRIPTS = {
    "ARABIC": (
        "acm acq aeb afb ajp apc ar arb arq ary arz ayl azb bal bqi ckb fa glk ks lrc mzn pnb prs ps sd skr sdh ug ur"
    ),
    "ARMENIAN": "hy",
    "BENGALI": "as bn bpy mni rkt syl",
    "CANADIAN": "cr iu ojb",
    "CHEROKEE": "chr",
    "CJK": "cdo cjy cmn cpx gan hak hsn ja ko lzh mnp nan wuu yue zh",
    "COPTIC": "cop",
    "CYRILLIC": (
        "ab abq ady alt ava av az ba be bg bua bxr ce chm crh cu cv dar inh kaa kbd kjh kk koi kpv krc krl "
        "kum kv ky lbe lez mdf mhr mk mn mns mrj myv nog os ru rue sah sr tab tg tt tyv udm uk uz xal"
    ),
    "DEVANAGARI": (
        "anp awa bgc bh bho brx bra dgo doi dty gom hi hne kfy kok kru ks mag mai mr mwr ne new npi pi raj sa "
        "sat sck sd"
    ),
    "ETHIOPIC": "am gez ti tig",
    "GEORGIAN": "ka lzz sva xmf",
    "GOTHIC": "got",
    "GREEK": "el grc pnt tsd",
    "GUJARATI": "gu",
    "GURMUKHI": "pa",
    "HANGUL": "ko",
    "HEBREW": "arc he hbo lad yi ydd",
    "HIRAGANA": "ja",
    "KANNADA": "kn",
    "KATAKANA": "ja",
    "KHMER": "km",
    "LAO": "lo",
    # beside another one; and of every language that is not named here at all
    "LATIN": (
        "az bal ber cdo cpx cr crh gom hak iu kaa kk kok krl lad lzz mn mni nan ojb pi pnt rif rue sat shi sr tg tmh "
        "tt tzm ug uz zgh"
    ),
    "MALAYALAM": "ml",
    "MEETEI": "mni",
    "MYANMAR": "blk kht ksw mnw my shn",
    "NKO": "nqo",
    "OL": "sat",
    "ORIYA": "or",
    "SINHALA": "pi si",
    "SYRIAC": "aii arc syc syr",
    "TAMIL": "ta",
    "TELUGU": "te",
    "THAANA": "dv",
    "THAI": "th",
    "TIBETAN": "adx bo dz lbj",
    "TIFINAGH": "ber rif shi tmh tzm zgh",
    "YI": "ii",
}


def checker(language: str, check: str = "script") -> LanguageCheck:
    """What tells whether a sentence is in ``language``, a code such as "de"; without one, all that hold a letter stay.

    `script`: at least three tenths of the letters are in a script of the language. `language`: also, no other
    language is at least 0.8 likely (py3langid). `none`: all stay, sentences without a letter too. Raises InputError
    for another word or no code of a language, MissingExtra without py3langid.
    """
    if check not in CHECKS:
        raise InputError(f"check {check!r}; expected one of {', '.join(CHECKS)}")
    code = language.lower().replace("_", "-").split("-")[0]
    if code and not _CODE.fullmatch(code):
        raise InputError(f"language {language!r}; expected a code such as de or zh")
    if check == "none":
        return lambda text: True
    if not code:
        if check == "language":
            raise InputError("no language to check for; give the codes of both languages, such as de and en")
        return lambda text: any(map(str.isalpha, text))
    if check == "script":
        return lambda text: in_scripts(text, scripts_of(code))
    identify = identifier(code)
    return lambda text: in_scripts(text, scripts_of(code)) and identify(text)


@cache
def scripts_of(code: str) -> frozenset[str]:
    """The scripts that a language is written in."""
    found = frozenset(script for script, codes in _SCRIPTS.items() if code in codes.split())
    return found or frozenset({"LATIN"})


@cache
def script_of(character: str) -> str:
    """The script of a letter, as the first word of its Unicode name: LATIN, CYRILLIC, CJK; "" for all else."""
    return name(character, "").split(" ")[0] if character.isalpha() else ""


def in_scripts(text: str, wanted: frozenset[str]) -> bool:
    """Whether the text has letters, and enough of them in the wanted scripts."""
    letters = [script for script in map(script_of, text) if script]
    return bool(letters) and sum(script in wanted for script in letters) >= SHARE * len(letters)


def identifier(code: str) -> LanguageCheck:
    """Language identification by py3langid (a multinomial naive Bayes over byte n-grams; Lui and Baldwin 2012)."""
    known = _identifier()
    if code not in known.nb_classes:
        raise InputError(f"language {code!r} is unknown to py3langid; use the check 'script'")

    def same(text: str) -> bool:
        found, probability = known.classify(text)
        return bool(found == code or probability < CONFIDENCE)

    return same


@cache
def _identifier() -> Any:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError as error:
        raise MissingExtra("py3langid", "identify") from error
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)

"""Abbreviations after which a sentence goes on, by language; the rules that use them are in ``segmentation``.

Only those that hardly ever end a sentence are listed: "etc." or "usw." may, so they are left to the rule that looks
at the case of the next letter. Written in lower case, without the final full stop.
"""

from __future__ import annotations

from functools import cache

_BEFORE_WORD = {
    "cs": "dr ing mgr mudr např prof resp srov sv tj tzn tzv",
    "da": "dr f.eks hr prof",
    "de": "bspw bzw d.h dipl dr evtl ggf hr fr i.d.r inkl insb prof s.o s.u sog st vgl z.b z.t z.zt zzgl u.u",
    "en": "approx capt cf cmdr col dr e.g esp gen gov hon i.e lt maj messrs mr mrs ms mt prof rep rev sen sgt st vs",
    "es": "arq dr dra lic p.ej prof profa sr sra srta ud uds",
    "fi": "esim ns prof tri toht",
    "fr": "cf dr env m mgr mlle mme p.ex prof",
    "hu": "dr ifj ill pl prof ún",
    "it": "ad.es dott dr ecc.mo ing prof sig sigg st",
    "nl": "bijv bv d.w.z dhr dr drs ing mevr mr o.a prof",
    "pl": "al dr hab im inż mgr np prof św tj tzn tzw ul",
    "pt": "dr dra prof profa sr sra",
    "ro": "de.ex dl dna dr prof sf",
    "ru": "акад гр доц ул им напр проф св см ср т.е т.н тов",
    "sv": "bl.a dr dvs fr hr prof s.k st t.ex",
    "tr": "bkz doç dr örn prof sn",
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


def ordinal_dot(lang: str) -> bool:
    """Whether the language writes ordinal numbers with a full stop: "am 5. Mai"."""
    return lang in _ORDINAL_DOT

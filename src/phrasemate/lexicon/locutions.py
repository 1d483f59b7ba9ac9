"""Fixed expressions that begin with a preposition or belong to a verb, which no segmenter proposes as one.

Folded wordings of four languages, chosen by hand; `locutions` gives those of one language.
"""

from __future__ import annotations

from phrasemate.lexicon.inflection import primary

_TABLE = {
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
take into account|taken into account""",
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
_LISTS = {language: frozenset(text.replace("\n", "|").split("|")) for language, text in _TABLE.items()}


def locutions(lang: str) -> frozenset[str]:
    """The fixed expressions of a language, folded; none where nobody has listed them."""
    return _LISTS.get(primary(lang), frozenset())

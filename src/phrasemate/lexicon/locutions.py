"""Fixed expressions, stop words, and words for "of" within a term.

The segmenter never proposes a fixed expression that begins with a preposition or belongs to a verb. Those of four
languages are listed here by hand.
"""

from __future__ import annotations

from functools import lru_cache

from phrasemate.errors import InputError
from phrasemate.text.languages import primary
from phrasemate.text.normalize import folded
from phrasemate.text.sentences import stop_words

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
on time|out of date|to some extent|under way|with the exception of
all of a sudden|as a matter of fact|as a result of|as a rule|as a whole|at any rate|at first glance|at the latest
at the moment|at the same time|by all means|by and large|by far|by no means|by the way|for a while|for free
for the first time|for the most part|from now on|from then on|from time to time|in a hurry|in any case|in no time
in other words|in the course of|in the first place|in the long run|in the meantime|on the one hand|on the other hand
on the whole|once and for all|once in a while|once upon a time|out of breath|out of control|out of reach|out of sight
out of the question|out of work|to a certain extent|under arrest|under control|under oath|under pressure|up to date
with pleasure|without delay|without doubt|without exception|without fail""",
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
OF = {  # words for "of" within a term
    "en": frozenset({"of"}),
    "es": frozenset({"de", "del"}),
    "fr": frozenset({"de", "du", "des"}),
    "it": frozenset({"di", "del", "dei", "della"}),
    "pt": frozenset({"de", "do", "da", "dos", "das"}),
}
_FORMS = {  # forms of auxiliary verbs and prepositions that stopwordsiso lacks or lists in parts
    "ja": """した して します しました している しています していた していました していない しない しません
しなければ しよう しましょう したい される された されて されます されました されている
されています させる させた できます できた できない できません できました だった でした だろう
でしょう あった あって あれば ありました ありません なかった なければ なくて いた いて いました
いない いません なった なって なります なりました なっている なっています ならない なりません
ください くれる くれた しまう しまった""",
    "ko": """있는 있다 있습니다 있었다 있었습니다 있을 있고 있어 있어요 있지만 있으며 없는 없다 없습니다 없이
하는 한 할 한다 합니다 했다 했습니다 하고 하지 하며 하면 해 해서 해야 하지만 않는 않은 않다 않습니다 않았다 않고
되는 된 될 된다 됩니다 되었다 되었습니다 되어 되고 이다 입니다 이었다 아닌 아니다 아닙니다 싶다 싶은
것을 것은 것이 것이다 것입니다 수가 때문에 대한 대해 대하여 위한 위해 위하여 통해 관한""",
    "uk": """в у на і й або за з зі із до о об при по під над між через після перед без для про від крізь серед біля
проти замість завдяки крім поруч разом навколо протягом щодо поза заради""",
}


@lru_cache(maxsize=32)
def general_words(lang: str) -> frozenset[str]:
    """Return the stop words of a language, folded; an empty set if stopwordsiso does not cover it."""
    try:
        return frozenset(map(folded, stop_words(primary(lang)))).union(_FORMS.get(primary(lang), "").split())
    except InputError:
        return frozenset()


_LISTS = {language: frozenset(text.replace("\n", "|").split("|")) for language, text in _LOCUTIONS.items()}


def locutions(lang: str) -> frozenset[str]:
    """Return the fixed expressions of a language, folded; an empty set for a language that is not listed here."""
    return _LISTS.get(primary(lang), frozenset())

"""Fonts of symbols, such as Symbol and Wingdings: the characters of Unicode that they show."""

from __future__ import annotations

import re

# Places 0x20 to 0xFF. Symbol is Adobe's encoding of that name; 0x6D, mu, is mostly written before a unit.
_SYMBOL = (
    " !∀#∃%&∍()∗+,−./0123456789:;<=>?"
    "≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_"
    "‾αβχδεφγηιϕκλµνοπθρστυϖωξψζ{|}∼�"
    "��������������������������������"
    "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵"
    "ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓"
    "⋄⟨®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪�⟩∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭�"
)
# As in the proposal by which Unicode 7 took these characters (L2/11-052R).
_WINGDINGS = (
    " 🖉✂✁👓🕭🕮🕯🕿✆🖂🖃📪📫📬📭📁📂📄🗏🗐🗄⌛🖮🖰🖲🖳🖴🖫🖬✇✍"
    "🖎✌👌👍👎☜☞☝☟🖐☺😐☹💣☠🏳🏱✈☼💧❄🕆✞🕈✠✡☪☯🕉☸♈♉"
    "♊♋♌♍♎♏♐♑♒♓🙰🙵●🔾■🞏🞐❑❒🞟⧫◆❖⬥⮽⮹⌘🏵🏶🙶🙷�"
    "🄋①②③④⑤⑥⑦⑧⑨⑩🄌❶❷❸❹❺❻❼❽❾❿🙢🙠🙡🙣🙞🙜🙝🙟·•"
    "⬝⭘🞆🞈◉◎🔿▪◻🟂✦★✶✴✹✵⯐⌖⟡⌑⯑✪✰🕐🕑🕒🕓🕔🕕🕖🕗🕘"
    "🕙🕚🕛⮰⮱⮲⮳⮴⮵⮶⮷🙪🙫🙕🙔🙗🙖🙐🙑🙒🙓⌫⌦⮘⮚⮙⮛⮈⮊⮉⮋🡨"
    "🡪🡩🡫🡬🡭🡯🡮🡸🡺🡹🡻🡼🡽🡿🡾⇦⇨⇧⇩⬄⇳⬁⬀⬃⬂🢬🢭🗶✔🗷🗹�"
)
_ZAPF_DINGBATS = (
    " ✁✂✃✄☎✆✇✈✉☛☞✌✍✎✏✐✑✒✓✔✕✖✗✘✙✚✛✜✝✞✟"
    "✠✡✢✣✤✥✦✧★✩✪✫✬✭✮✯✰✱✲✳✴✵✶✷✸✹✺✻✼✽✾✿"
    "❀❁❂❃❄❅❆❇❈❉❊❋●❍■❏❐❑❒▲▼◆❖◗❘❙❚❛❜❝❞�"
    "❨❩❪❫❬❭❮❯❰❱❲❳❴❵������������������"
    "�❡❢❣❤❥❦❧♣♦♥♠①②③④⑤⑥⑦⑧⑨⑩❶❷❸❹❺❻❼❽❾❿"
    "➀➁➂➃➄➅➆➇➈➉➊➋➌➍➎➏➐➑➒➓➔→↔↕➘➙➚➛➜➝➞➟"
    "➠➡➢➣➤➥➦➧➨➩➪➫➬➭➮➯�➱➲➳➴➵➶➷➸➹➺➻➼➽➾�"
)
_FONTS = {
    **dict.fromkeys(("symbol", "symbolmt", "symbolps", "symbolstd", "standardsymbolsl", "standardsymbolsps"), _SYMBOL),
    **dict.fromkeys(("zapfdingbats", "itczapfdingbats", "itczapfdingbatsstd", "dingbats", "d050000l"), _ZAPF_DINGBATS),
    "wingdings": _WINGDINGS,
    # fonts of symbols without a table here
    **dict.fromkeys(
        ("bookshelfsymbol7", "marlett", "monotypesorts", "msoutlook", "msreferencespecialty", "mtextra"), ""
    ),
    **dict.fromkeys(("webdings", "wingdings2", "wingdings3"), ""),
}
_SIGNS_OF_NAMES = re.compile(r"[\s_-]+|,.*")


def in_symbols(font: str, text: str) -> str:
    """A text in Unicode that is written in a symbol font, such as "m" in Symbol; others stay as they are."""
    if is_symbolic(font):
        return "".join(symbol(font, ord(character)) for character in text)
    return text


def is_symbolic(font: str) -> bool:
    """Whether it is a font whose letters show as other signs."""
    return _plain_name(font) in _FONTS


def _plain_name(font: str) -> str:
    return _SIGNS_OF_NAMES.sub("", font.strip().lower())


def symbol(font: str, place: int) -> str:
    """The character at a place of a font; U+FFFD where that is not known.

    ``place``: as in ``w:char`` of Word (0xF06D); those of symbol fonts may have 0xF000 added.
    """
    table = _FONTS.get(_plain_name(font))
    if table is not None and (0x20 <= place <= 0xFF or 0xF020 <= place <= 0xF0FF):
        code = place % 0x1000 - 0x20
        return table[code] if table else "\ufffd" if code else " "
    outside = 0xD800 <= place < 0xF900 or not 0x20 <= place < 0x110000  # halves of pairs, private places of a font
    return "\ufffd" if outside else chr(place)

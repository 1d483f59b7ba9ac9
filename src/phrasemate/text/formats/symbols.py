"""Characters of symbol fonts, which Word stores by their places in the font, as Unicode has them."""

from __future__ import annotations

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
_FONTS = {"symbol": _SYMBOL, "wingdings": _WINGDINGS}


def symbol(font: str, code: str) -> str:
    """The character at a place of a font; U+FFFD where that is not known.

    ``code``: hexadecimal, as in ``w:char`` of Word ("F06D"); places of symbol fonts may have 0xF000 added.
    """
    try:
        place = int(code, 16)
    except ValueError:
        return "\ufffd"
    table = _FONTS.get(font.strip().lower(), "")
    if table and (0x20 <= place <= 0xFF or 0xF020 <= place <= 0xF0FF):
        return table[place % 0x1000 - 0x20]
    outside = 0xD800 <= place < 0xF900 or not 0x20 <= place < 0x110000  # halves of pairs, private places of a font
    return "\ufffd" if outside else chr(place)

"""Normal forms of text: Unicode's forms, characters that are not seen, the several apostrophes and hyphens.

Letters in fonts of symbols, such as Symbol and Wingdings, are read as the characters of Unicode that they show.

NFC and NFD take a time that grows with the text alone. Python puts the marks of one letter in order by insertion: a
million of them would take an hour.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import chain
from unicodedata import category, combining, is_normalized, normalize

_MARKS = 30  # in a row are more than any language writes (UAX #15, section 13, Stream-Safe Text Format)
_RUN = re.compile(rf"[^\w\x00-\x7f]{{{_MARKS + 1},}}")  # no mark is a letter or a digit
ZERO_SPACE = "\u200b"
APOSTROPHES, HYPHENS = "'\u2019\u02bc\uff07", "-\u2010\u2011"  # the first of each stands for all
# The soft hyphen, marks of direction, the word joiner, operators that are not seen, variation selectors, the byte-order
# mark: what Unicode says may be ignored, but fillers, tags and the marks of Mongolian, music and shorthand. The joiners
# of letters (U+200C, U+200D) are spelling, and stay.
INVISIBLE = (
    "\u00ad\u034f\u061c\u17b4\u17b5\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufe00-\ufe0f\ufeff"
    "\U000e0100-\U000e01ef"
)
_UNSEEN = re.compile(f"[{INVISIBLE}{ZERO_SPACE}]+")
_UNPLAIN = re.compile(f"[{INVISIBLE}{ZERO_SPACE}{APOSTROPHES[1:]}{HYPHENS[1:]}]")
_SIGNS = str.maketrans({sign: alike[0] for alike in (APOSTROPHES, HYPHENS) for sign in alike[1:]})


@cache
def unseen_signs() -> list[str]:
    """The characters that are not seen and mean nothing, in the order of their codes."""
    return re.findall(f"[{INVISIBLE}{ZERO_SPACE}]", "".join(map(chr, range(0xE01F0))))


def visible(text: str) -> str:
    """The text without the characters that are not seen and mean nothing.

    A space of no width (U+200B) within a word of a script with capitals is one of them. Elsewhere it parts words.
    """
    if text.isascii() or not _UNSEEN.search(text):
        return text
    return "".join(text[start:end] for start, end in _visible_spans(text))


def visible_places(text: str) -> list[int]:
    """The place in the text of each character of ``visible(text)``; those of ``plain(text)`` are the same."""
    return list(chain.from_iterable(range(start, end) for start, end in _visible_spans(text)))


def plain(text: str) -> str:
    """The text as it is compared: what is not seen is left out, apostrophes are U+0027 and hyphens U+002D."""
    if text.isascii() or not _UNPLAIN.search(text):
        return text
    return visible(text).translate(_SIGNS)


def folded(text: str) -> str:
    """Fold a wording: texts that differ in case, white space, apostrophes, hyphens or unseen characters become one.

    So do composed and decomposed letters.
    """
    whole = text.lower() if text.isascii() else composed(plain(text)).casefold()
    return " ".join(whole.split())


def folded_parts(text: str, spans: Iterable[tuple[int, int]]) -> list[str]:
    """Fold the parts of a text, from start to end each, as `folded` does; the text at once where that is the same."""
    if text.isascii() and text == " ".join(text.split()):  # then folding moves no character
        lower = text.lower()
        return [lower[start:end].strip() for start, end in spans]
    return [folded(text[start:end]) for start, end in spans]


def _visible_spans(text: str) -> Iterator[tuple[int, int]]:
    """The stretches of a text that stay."""
    begin = 0
    for run in _UNSEEN.finditer(text):
        start, end = run.span()
        within = start and _has_capital(text[start - 1]) and _has_capital(text[end : end + 1])
        for at in range(start, end):
            if within or text[at] != ZERO_SPACE:
                yield begin, at
                begin = at + 1
    yield begin, len(text)


def _has_capital(character: str) -> bool:
    """Whether it is a letter of a script with capitals: those have spaces between words."""
    return character.lower() != character.upper()


def composed(text: str) -> str:
    """The text with each letter and its marks as one character, where there is one (NFC)."""
    return text if is_normalized("NFC", text) else normalize("NFC", _in_order(text))


def decomposed(text: str) -> str:
    """The text with each letter apart from its marks (NFD)."""
    return normalize("NFD", _in_order(text))


def _in_order(text: str) -> str:
    """The text with more marks than are written in canonical order, which no form of it depends on."""
    if len(text) <= _MARKS or text.isascii():
        return text
    return _RUN.sub(lambda run: "".join(_ordered(run[0])), text)


def _ordered(text: str) -> Iterator[str]:
    """The decomposed characters in canonical order: marks by class, those of one class as they came."""
    marks: list[str] = []
    for character in text:
        for part in normalize("NFD", character):
            if combining(part):
                marks.append(part)
                continue
            yield from sorted(marks, key=combining)
            marks.clear()
            yield part
    yield from sorted(marks, key=combining)


class Alignment:
    """A text as it is compared, and where its parts stand in the text.

    ``plain`` is the text without what counts for nothing, ``text`` the form of that.

    Args:
        text: Text as it is.
        plain: Leaves out what is not seen, as `plain` and `visible` do.
        form: Composes characters, and may fold their case.
    """

    def __init__(self, text: str, plain: Callable[[str], str] = plain, form: Callable[[str], str] = composed) -> None:
        self.plain = plain(text)
        self.text = form(self.plain)
        self._places = None if len(self.plain) == len(text) else visible_places(text)
        # where a character of the form begins and ends one of the plain text; -1 stands inside such a character
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._is_same = len(self.text) == len(self.plain) and is_normalized("NFC", self.plain)
        if not self._is_same:
            self._align(form)

    def _align(self, form: Callable[[str], str]) -> None:
        pieces: list[str] = []
        for start, end in _clusters(self.plain):
            piece = form(self.plain[start:end])
            inside = [-1] * (len(piece) - 1)
            pieces.append(piece)
            self._starts += [start, *inside]
            self._ends += [*inside, end]
        self.text = "".join(pieces)

    def plain_span(self, start: int, end: int) -> tuple[int, int] | None:
        """The span of the plain text that ``text[start:end]`` stands for; None if it cuts a character of that."""
        if self._is_same:
            return start, end
        span = self._starts[start], self._ends[end - 1]
        return span if min(span) >= 0 else None

    def original(self, start: int, end: int) -> tuple[int, int]:
        """The span of the text as it is that ``plain[start:end]`` stands for."""
        return (start, end) if self._places is None else (self._places[start], self._places[end - 1] + 1)


def _clusters(text: str) -> Iterator[tuple[int, int]]:
    """Split a text into characters with the marks (and the vowels and finals of Hangul) that compose with it."""
    start = 0
    for at in range(1, len(text)):
        if category(text[at])[0] != "M" and not "\u1160" <= text[at] <= "\u11ff":
            yield start, at
            start = at
    if text:
        yield start, len(text)


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
_SYMBOL_FONTS = {
    **dict.fromkeys(("symbol", "symbolmt", "symbolps", "symbolstd", "standardsymbolsl", "standardsymbolsps"), _SYMBOL),
    **dict.fromkeys(("zapfdingbats", "itczapfdingbats", "itczapfdingbatsstd", "dingbats", "d050000l"), _ZAPF_DINGBATS),
    "wingdings": _WINGDINGS,
    # fonts of symbols without a table here
    **dict.fromkeys(
        ("bookshelfsymbol7", "marlett", "monotypesorts", "msoutlook", "msreferencespecialty", "mtextra"), ""
    ),
    **dict.fromkeys(("webdings", "wingdings2", "wingdings3"), ""),
}
_FONT_SEPARATORS = re.compile(r"[\s_-]+|,.*")


def symbols_in_unicode(font: str, text: str) -> str:
    """A text in Unicode that is written in a symbol font, such as "m" in Symbol; others stay as they are."""
    if is_symbol_font(font):
        return "".join(symbol_character(font, ord(character)) for character in text)
    return text


def is_symbol_font(font: str) -> bool:
    """Whether it is a font whose letters show as other signs."""
    return _font_name(font) in _SYMBOL_FONTS


def _font_name(font: str) -> str:
    return _FONT_SEPARATORS.sub("", font.strip().lower())


def symbol_character(font: str, place: int) -> str:
    """The character at a place of a font; U+FFFD where that is not known.

    ``place``: as in ``w:char`` of Word (0xF06D); those of symbol fonts may have 0xF000 added.
    """
    table = _SYMBOL_FONTS.get(_font_name(font))
    if table is not None and (0x20 <= place <= 0xFF or 0xF020 <= place <= 0xF0FF):
        code = place % 0x1000 - 0x20
        return table[code] if table else "\ufffd" if code else " "
    outside = 0xD800 <= place < 0xF900 or not 0x20 <= place < 0x110000  # halves of pairs, private places of a font
    return "\ufffd" if outside else chr(place)

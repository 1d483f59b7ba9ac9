"""Normalization of text: NFC and NFD, invisible characters, variants of apostrophes and hyphens, symbol fonts.

Characters of symbol fonts, such as Symbol and Wingdings, are mapped to the Unicode characters that they show.

NFC and NFD run in linear time here. Python sorts the combining marks of a letter by insertion, so a million marks on
one letter would take an hour.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import chain
from string import ascii_lowercase, digits
from unicodedata import category, combining, is_normalized, normalize

_MARKS = 30  # no language writes more combining marks in a row (UAX #15, section 13, Stream-Safe Text Format)
_RUN = re.compile(rf"[^\w\x00-\x7f]{{{_MARKS + 1},}}")  # combining marks are not in \w
CUT = "-"  # stands for the ending in a stem
ZERO_SPACE = "\u200b"
APOSTROPHES, HYPHENS = "'\u2019\u02bc\uff07", "-\u2010\u2011"  # the first of each replaces the others
# Default-ignorable characters of Unicode: soft hyphen, direction marks, word joiner, invisible operators, variation
# selectors, byte-order mark. Not among them: fillers, tags, marks of Mongolian, music and shorthand, and the joiners
# U+200C and U+200D, which belong to the spelling.
INVISIBLE = (
    "\u00ad\u034f\u061c\u17b4\u17b5\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufe00-\ufe0f\ufeff"
    "\U000e0100-\U000e01ef"
)
_DOT = "i\u0307"  # what case folding makes of the capital \u0130
_TWO_IS = frozenset({"az", "tr"})  # languages in which I is the capital of ı
_UNSEEN = re.compile(f"[{INVISIBLE}{ZERO_SPACE}]+")
_UNPLAIN = re.compile(f"[{INVISIBLE}{ZERO_SPACE}{APOSTROPHES[1:]}{HYPHENS[1:]}]")
_COMPATIBLE = re.compile("[\ufb00-\ufb06\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]+")  # ligatures, full width
_WIDE = {ord(sign): ord(sign) + 0xFEE0 for sign in ascii_lowercase + digits}
_SIGNS = str.maketrans({sign: alike[0] for alike in (APOSTROPHES, HYPHENS) for sign in alike[1:]})


@cache
def unseen_signs() -> list[str]:
    """List the invisible characters, in the order of their code points."""
    return re.findall(f"[{INVISIBLE}{ZERO_SPACE}]", "".join(map(chr, range(0xE01F0))))


def visible(text: str) -> str:
    """Remove invisible characters.

    A zero-width space (U+200B) is removed only within a word of a script with capitals. Elsewhere it separates words.
    """
    if text.isascii() or not _UNSEEN.search(text):
        return text
    return "".join(text[start:end] for start, end in _visible_spans(text))


def visible_places(text: str) -> list[int]:
    """Return the offset in the text of each character of ``visible(text)``, which are also those of ``plain(text)``."""
    return list(chain.from_iterable(range(start, end) for start, end in _visible_spans(text)))


def plain(text: str) -> str:
    """Normalize a text for comparison: remove invisible characters, make apostrophes U+0027 and hyphens U+002D."""
    if text.isascii() or not _UNPLAIN.search(text):
        return text
    return visible(text).translate(_SIGNS)


def without_compatibles(text: str) -> str:
    """Write ligatures and full-width letters and digits as usual ones: "ﬁle" as "file", "ＵＳＢ" as "USB"."""
    return text if text.isascii() else _COMPATIBLE.sub(lambda signs: normalize("NFKC", signs[0]), text)


def with_compatibles(text: str) -> list[str]:
    """List how a text in small letters is written in ligatures, in those that most fonts have, and in full width."""
    common = text.replace("fi", "ﬁ").replace("fl", "ﬂ")
    full = text.replace("ffi", "ﬃ").replace("ffl", "ﬄ").replace("ff", "ﬀ").replace("fi", "ﬁ").replace("fl", "ﬂ")
    return [full, common, text.translate(_WIDE)]


def folded(text: str) -> str:
    """Fold a wording for comparison: case, white space, apostrophes, hyphens, invisible characters and Unicode form.

    Texts that differ only in these have the same folded form. That of İ is i.
    """
    whole = text.lower() if text.isascii() else composed(plain(text)).casefold().replace(_DOT, "i")
    return " ".join(whole.split())


def dotless(text: str, lang: str) -> str:
    """Replace I by ı in a Turkish text that is all in capitals; other texts stay as they are.

    ``lang``: such as "tr".

    >>> dotless("SINIR", "tr"), dotless("SINIR", "fr")
    ('SıNıR', 'SINIR')
    """
    return text.replace("I", "ı") if lang in _TWO_IS and "I" in text and text.isupper() else text


def folded_parts(text: str, spans: Iterable[tuple[int, int]]) -> list[str]:
    """Fold the spans (start, end) of a text, each as `folded` does; in one step if folding keeps all offsets."""
    if text.isascii() and text == " ".join(text.split()):  # folding keeps all offsets
        lower = text.lower()
        return [lower[start:end].strip() for start, end in spans]
    return [folded(text[start:end]) for start, end in spans]


def _visible_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of a text between its invisible characters."""
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
    """Tell whether a character is a letter of a script with capitals; these scripts have spaces between words."""
    return character.lower() != character.upper()


def composed(text: str) -> str:
    """Compose each letter with its marks (NFC)."""
    return text if is_normalized("NFC", text) else normalize("NFC", _in_order(text))


def decomposed(text: str) -> str:
    """Decompose each letter and its marks (NFD)."""
    return normalize("NFD", _in_order(text))


def _in_order(text: str) -> str:
    """Sort excessive runs of combining marks into canonical order, which leaves NFC and NFD of the text unchanged."""
    if len(text) <= _MARKS or text.isascii():
        return text
    return _RUN.sub(lambda run: "".join(_ordered(run[0])), text)


def _ordered(text: str) -> Iterator[str]:
    """Yield the decomposed characters in canonical order: marks sorted by combining class, stably."""
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
    """A normalized text, with the offsets of its parts in the original.

    Attributes:
        plain: The original after the function ``plain``.
        text: ``plain`` after the function ``form``.

    Args:
        text: The original text.
        plain: Removes invisible characters, as `plain` and `visible` do.
        form: Composes characters, and may fold their case.
    """

    def __init__(self, text: str, plain: Callable[[str], str] = plain, form: Callable[[str], str] = composed) -> None:
        self.plain = plain(text)
        self.text = form(self.plain)
        self._places = None if len(self.plain) == len(text) else visible_places(text)
        # offsets in ``plain`` where each character of ``text`` starts and ends; -1 within a character of ``plain``
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
        """Map a span of ``text`` to one of ``plain``; None if it cuts a character of ``plain``."""
        if self._is_same:
            return start, end
        span = self._starts[start], self._ends[end - 1]
        return span if min(span) >= 0 else None

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Map a span of ``plain`` to one of the original text."""
        return (start, end) if self._places is None else (self._places[start], self._places[end - 1] + 1)


def _clusters(text: str) -> Iterator[tuple[int, int]]:
    """Split a text into spans of one character with its combining marks (for Hangul, its vowels and finals)."""
    start = 0
    for at in range(1, len(text)):
        if category(text[at])[0] != "M" and not "\u1160" <= text[at] <= "\u11ff":
            yield start, at
            start = at
    if text:
        yield start, len(text)


# Codes 0x20 to 0xFF. Symbol is Adobe's encoding of that name; 0x6D is mu, mostly the prefix of a unit.
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
    # symbol fonts without a table here: their characters become U+FFFD
    **dict.fromkeys(
        ("bookshelfsymbol7", "marlett", "monotypesorts", "msoutlook", "msreferencespecialty", "mtextra"), ""
    ),
    **dict.fromkeys(("webdings", "wingdings2", "wingdings3"), ""),
}
_FONT_SEPARATORS = re.compile(r"[\s_-]+|,.*")


def symbols_in_unicode(font: str, text: str) -> str:
    """Convert a text in a symbol font to Unicode, such as "m" in Symbol; text in other fonts stays as it is."""
    if is_symbol_font(font):
        return "".join(symbol_character(font, ord(character)) for character in text)
    return text


def is_symbol_font(font: str) -> bool:
    """Tell whether a font is a symbol font, whose letters show as other signs."""
    return _font_name(font) in _SYMBOL_FONTS


def _font_name(font: str) -> str:
    return _FONT_SEPARATORS.sub("", font.strip().lower())


def symbol_character(font: str, place: int) -> str:
    """Return the Unicode character for a code of a font; U+FFFD if it is unknown.

    ``place`` is a code as in ``w:char`` of Word, such as 0xF06D; codes of symbol fonts may have 0xF000 added.
    """
    table = _SYMBOL_FONTS.get(_font_name(font))
    if table is not None and (0x20 <= place <= 0xFF or 0xF020 <= place <= 0xF0FF):
        code = place % 0x1000 - 0x20
        return table[code] if table else "\ufffd" if code else " "
    outside = 0xD800 <= place < 0xF900 or not 0x20 <= place < 0x110000  # surrogates, private use
    return "\ufffd" if outside else chr(place)

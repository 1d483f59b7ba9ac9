"""Join Japanese words that ICU cuts: 知っています is one word, where ICU has 知, って and います.

ICU's dictionary lists few inflected forms, so it cuts after the Chinese characters, and often within the ending. The
rules here are those of school grammar. A stem ends in a Chinese character (書-く) or has a letter of its own (動か-す,
見つ-ける). Its ending is that of a five-step verb, a one-step verb or an adjective, with auxiliaries of negation, past,
politeness, wish, passive, causative and duration. Rules that would also match a noun and a particle are limited to the
characters that need them: 泳-がない, but 水-が-ない. After several characters する is a word of its own: 勉強-する.

Verbs that are mostly written in hiragana are joined in the same way: していました, できない, わかりません. So are the
parts of foreign words in katakana: ペ and テロ.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from functools import cache, lru_cache

from phrasemate.text.normalize import CUT

Offsets = list[tuple[int, int]]

_NEGATIVE = "(?:な(?:い|かった|くて?|ければ|きゃ)|ねば|ず(?!つ)|ぬ)"
_POLITE = "ま(?:す|した|せん(?:でした)?|しょう|して)"
_WISH = "た(?:い(?!へ)|く(?:て|な(?:い|かった))?|かった|が(?:る|って))"
_DURATION = (
    "(?:い(?:る|た(?!だ)|て|ます|ました|ません|ない|なかった|なければ|れば)|る|ます|ました|た|ない)?"  # after て or で
)
_CONDITION = "(?:ら|り)?"  # after た or だ
_SUFFIX = "(?:そう|ながら|すぎ(?:る|た|て|ない|ます)?|やす(?:い|く|さ)|にく(?:い|く|さ)|がち)"
_ACTIVE = (  # endings of a one-step verb in the active voice
    f"(?:る|れば|よう|{_NEGATIVE}|{_POLITE}|{_WISH}|て{_DURATION}|た{_CONDITION}|{_SUFFIX})"
)
_ONE_STEP = f"(?:(?:られ|させ(?:られ)?)?{_ACTIVE}|ろ(?!う))"
_ALONE = (
    "(?=[^ぁ-ゖー]|[をがはにのもとでへやなよね]|から|まで|など|だけ|だ|し[てたま]|$)"  # after a stem that is a word
)
_ADJECTIVE = (
    "(?:い(?!る|ま[すせし]|な[いかく]|つも|くつ|[ろわっちずきけこえた])|かった(?:ら|り)?|ければ"
    "|く(?:て|な(?:い|かった|ければ))?(?!らい|だ)|さ(?![れせんえ])|そう|すぎ(?:る|た|て|ます)?)"
)


def _five_step(a: str, past: str, i: str, u: str, e: str, o: str) -> str:
    """Return the pattern of the endings of a five-step verb from its six sounds: か, いた, き, く, け, こ for 書く."""
    before, voice = past[:-1], past[-1]
    te_forms = {
        "た": f"て{_DURATION}|た{_CONDITION}|ちゃ(?:った|う)",
        "だ": f"で(?![すしは]){_DURATION}|だ{_CONDITION}|じゃ(?:った|う)",
    }[voice]
    passive = f"(?:れ|せ(?:られ)?|され)(?:{_ACTIVE}|{_ALONE})"
    return (
        f"(?:{a}(?:{_NEGATIVE}|ん(?![でだ])|{passive})|{i}(?:{_POLITE}|{_WISH}|{_SUFFIX}|なさい|{_ALONE})"
        f"|{before}(?:{te_forms})|{u}|{e}(?:ば|{_ONE_STEP}|{_ALONE})|{o}う)"
    )


_K = _five_step("か", "いた", "き", "く(?!らい)", "け", "こ")
_G = _five_step("が", "いだ", "ぎ", "ぐ", "げ", "ご")
_S = _five_step("さ", "した", "し", "す(?!ぐ|べて|っか|ご|ぎ)", "せ", "そ")
_T = _five_step("た", "った", "ち", "つ(?!い|も|ま|く)", "て", "と")
_N = _five_step("な", "んだ", "に", "ぬ", "ね", "の")
_B = _five_step("ば", "んだ", "び", "ぶ", "べ(?!き)", "ぼ")
_M = _five_step("ま", "んだ", "み", "む", "め", "も(?<![^読飲込住進頼組積休編望]も)")
_R = _five_step("ら", "った", "り", "る", "れ", "ろ")
_W = _five_step("わ", "った", "い", "う(?!ち|え|ん|そ)", "え", "お")

_AFTER_CHARACTER = (  # endings of stems that end in a Chinese character
    rf"(?<![何誰幾]){_K}",
    rf"(?<=[泳急防騒継稼脱塞仰注嗅剥漕繋嫁研漱]){_G}",
    rf"が(?:る|って{_DURATION}|った{_CONDITION}|り(?:{_POLITE}|{_WISH}|{_ALONE})|らない|れば)",
    rf"[きぎちびみりじ]{_ONE_STEP}|げ(?:{_ONE_STEP}|{_ALONE})|じ{_ALONE}",
    _S,
    "す(?:る|れば)|(?<=下)さ(?:い|る|った|れば)",
    rf"(?<=[持待勝打立育放保経断満討撃朽絶裁]){_T}|(?<=[捨育建充果当立慌企隔棄])て(?:{_ONE_STEP}|{_ALONE})",
    rf"(?<=死){_N}|(?<=[重尋訪兼束跳委損連])ね(?:{_ONE_STEP}|{_ALONE})",
    rf"{_B}|{_M}|{_R}|{_W}",
    rf"(?<=[用率強老悔報])い{_ONE_STEP}|(?<=[見来出着寝居得似煮経診観看干射])て{_DURATION}",
    rf"(?<=[見来出着寝居得似煮経診観看干射]){_ONE_STEP}",
    _ADJECTIVE,
    rf"(?<=[少危切汚])な{_ADJECTIVE}|(?<=大)き(?:な|{_ADJECTIVE})|(?<=小)さ(?:な|{_ADJECTIVE})",
    "(?<=[静豊確僅遥密厳愚微仄])か|らか|やか|(?<=[暖温])た?か|(?<=新)た",
)
_AFTER_OWN_LETTER = (  # the last letter of the stem, and the ending
    rf"[わま](?:{_R})|(?<![何誰幾人])か(?!らか?(?!な))(?:{_R})|(?<=[起残怒])こ(?:{_R})|(?<=当)た(?:{_R})|(?<=刺)さ(?:{_R})",
    rf"(?<![何誰])か(?:{_S})|[ばらわや](?:{_S})|(?<=[起残])こ(?:{_S})|(?<=落)と(?:{_S})|(?<=[及滅])ぼ(?:{_S})|(?<=尽)く(?:{_S})",
    rf"し(?:{_M})|(?:し|ずかし|らし|かし|らか|(?<=[暖温細短])か|(?<=明)る|(?<=[冷重])た){_ADJECTIVE}",
    rf"(?<=[見傷])つ(?:け{_ONE_STEP}|か(?:{_R}))|づ(?:{_K}|け{_ONE_STEP})|(?<=捕)[まら]え{_ONE_STEP}",
)
_HIRAGANA = (  # words without a Chinese character
    rf"し(?:{_POLITE}|{_WISH}|{_NEGATIVE}|て{_DURATION}|た{_CONDITION}|よう|ながら|ろ)|する|すれば"
    rf"|(?:され|させ)(?:られ)?{_ACTIVE}|せ(?:よ|ず|ぬ)|しれ(?:{_NEGATIVE}|{_POLITE}|ん)",
    rf"(?:でき|くれ|あげ|みせ|いけ|つけ|かけ|みえ|いれ|こえ|やめ|はじめ|つづけ|すぎ|い|み){_ONE_STEP}",
    rf"(?:あ|な|わか|や|かか|かわ|おわ|はじま|のこ|はい|い|お|おこ|つく|と|かえ){_R}|き(?:{_POLITE}|て{_DURATION}|た{_CONDITION})",
    rf"(?:もら|しま|い|おも|つか|ちが|あ){_W}|(?:い|お|き|ひ|つ|いただ){_K}|(?:もと|た){_M}|(?:はな|だ|わた){_S}",
    rf"だ(?:った(?:ら|り)?|ろう)|で(?:し(?:た|ょう)|す)|(?:な|よ|ほし){_ADJECTIVE}|いい|なさい|ください(?:ませ|ます)?|くれ|べき",
)
_CHARACTER = re.compile("[\u3400-\u9fff々〆]")
_LETTERS = "".join(map(chr, range(ord("ぁ"), ord("ゖ") + 1)))
PARTICLES = frozenset("をがはにへとでもの")  # of one letter; they follow a noun
KANA = re.compile("[ぁ-ゖァ-ヺ]")
_KATAKANA = re.compile("[ァ-ヺー]+")
_SHORT_WORDS = (  # foreign words of two letters, which are also parts of compounds: サブ|クラス
    "ガス|ガム|ガン|キー|ゴム|サブ|ジム|ゾウ|タブ|デモ|ドア|ネコ|バー|バグ|バス|パス|ピザ|ピン|ビル|フル|プロ|ベル|ペン|ボス|ミス"
    "|メタ|メモ|ログ"
)
_FRAGMENT = re.compile(f"(?!(?:{_SHORT_WORDS})$)[ァ-ヺー]{{1,2}}|[ァィゥェォッャュョヮンー][ァ-ヺー]*|ション|ジャー")
_RUN = re.compile("[ぁ-ゖー]+")
_LONGEST = 16  # letters after a word in which its ending is looked for
_SURU = re.compile("[しすせさそ](?!い|く|かっ|さ|げ|け)")  # する after a noun, not an adjective in しい


@lru_cache(1 << 14)
def _ending(character: str, tail: str, is_noun: bool) -> tuple[int, int]:
    """Measure the ending that ``tail`` begins with: its length, and how much of it belongs to the stem.

    Args:
        character: Last character of the stem.
        tail: The hiragana after it, and the next letter.
        is_noun: Whether the word has several characters, so that する after it is a word of its own.
    """
    if is_noun and _SURU.match(tail):
        return 0, 0
    text = character + tail
    length = _longest(_AFTER_CHARACTER, text, 1)
    length_of_longer_stem = _longest(_AFTER_OWN_LETTER, text, 1)
    return (length_of_longer_stem, 1) if length_of_longer_stem > length else (length, 0)


@lru_cache(1 << 12)
def _hiragana_word(text: str) -> int:
    """Return the length of the verb, adjective or copula in hiragana that a text begins with, or 0."""
    return _longest(_HIRAGANA, text, 0)


def _longest(rules: tuple[str, ...], text: str, start: int) -> int:
    return max([match.end() - start for rule in _compiled(rules) if (match := rule.match(text, start))], default=0)


@cache
def _compiled(rules: tuple[str, ...]) -> list[re.Pattern[str]]:
    """Compile rules when they are first used, which takes a quarter of a second."""
    return [re.compile(rule) for rule in rules]


def join_words(text: str, spans: Offsets, split: Callable[[str], Offsets]) -> Offsets:
    """Join stems with their endings, and the parts of foreign words in katakana.

    Args:
        text: Text in any language.
        spans: Its words: (start, end) in characters.
        split: Function that splits a text into words. What is left of a word that an ending cuts is split again.

    >>> text = "彼は約束を守らなかった"
    >>> spans = [(0, 1), (1, 2), (2, 4), (4, 5), (5, 6), (6, 8), (8, 11)]
    >>> [text[start:end] for start, end in join_words(text, spans, lambda rest: [])]
    ['彼', 'は', '約束', 'を', '守らなかった']
    """
    queue, words = deque(_join_katakana(text, spans)), Offsets()
    while queue:
        start, word_end = queue.popleft()
        end = max(word_end, _inflected_end(text, start, word_end))
        words.append((start, end))
        while queue and queue[0][1] <= end:
            queue.popleft()
        if queue and queue[0][0] < end:
            rest_end = queue.popleft()[1]
            while queue and queue[0][0] == rest_end < end + _LONGEST and _RUN.fullmatch(text, *queue[0]):
                rest_end = queue.popleft()[1]
            rest = split(text[end:rest_end])
            queue.extendleft((end + first, end + last) for first, last in reversed(rest))
    return words


def _join_katakana(text: str, spans: Offsets) -> Offsets:
    """Join the parts of a foreign word: a part of one or two letters with the part before or after it."""
    words: Offsets = []
    after_katakana = after_short = False
    for start, end in spans:
        is_katakana = _KATAKANA.fullmatch(text, start, end) is not None
        is_short = _FRAGMENT.fullmatch(text, start, end) is not None
        if is_katakana and after_katakana and words[-1][1] == start and (is_short or after_short):
            words[-1], after_short = (words[-1][0], end), False
        else:
            words.append((start, end))
            after_short = is_short
        after_katakana = is_katakana
    return words


def _inflected_end(text: str, start: int, end: int) -> int:
    """Return the end of the verb or adjective that begins with the word from ``start`` to ``end``, or 0."""
    word = text[start:end]
    if _RUN.fullmatch(word):
        return start + _hiragana_word(text[start : start + _LONGEST])
    base = word.rstrip(_LETTERS)
    tail = _RUN.match(text, start + len(base), end + _LONGEST)
    if tail is None or not _is_character(base, -1):
        return 0
    return start + len(base) + _ending(base[-1], text[tail.start() : tail.end() + 1], _is_character(base, -2))[0]


def stem(word: str) -> str:
    """Replace the ending of a verb or an adjective by a hyphen. So 分かる (understand) differs from 分 (minute).

    >>> stem("知っています"), stem("見つけた"), stem("楽しい"), stem("勉強した"), stem("分")
    ('知-', '見つ-', '楽し-', '勉強-', '分')
    """
    length = stem_length(word)
    return f"{word[:length]}{CUT}" if length < len(word) else word


def stem_length(word: str) -> int:
    """Return the number of letters before the ending of a verb or an adjective, or of all letters of another word."""
    base = word.rstrip(_LETTERS)
    tail = word[len(base) :]
    if not tail or len(tail) > _LONGEST or not _is_character(base, -1):
        return len(word)
    length, of_stem = _ending(base[-1], tail, _is_character(base, -2))
    if not length and _SURU.match(tail):
        length = _hiragana_word(tail)
    return len(base) + of_stem if length == len(tail) else len(word)


def _is_character(word: str, place: int) -> bool:
    """Whether a word has a Chinese character at a place, counted from the end: -1 for the last letter."""
    return _CHARACTER.match(word[place:]) is not None if len(word) >= -place else False

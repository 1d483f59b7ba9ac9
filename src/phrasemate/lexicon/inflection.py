"""Wordings without inflection: leading function words left out, the others cut to their stems by Snowball stemmers.

So "the benches" meets "bench", and "sich erinnern" "erinnert". Two wordings match if their stemmed forms are equal;
the forms are keys to compare, not text to show. Languages without a stemmer (Chinese, Japanese, Korean, Vietnamese,
Hebrew, Bulgarian, Ukrainian, ...) keep their words as they are.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from typing import Any

import Stemmer

from phrasemate.lexicon.languages import primary
from phrasemate.text.normalize import composed, folded

_STEMMERS = {
    **{"ar": "arabic", "hy": "armenian", "eu": "basque", "ca": "catalan", "cs": "czech", "da": "danish"},
    **{"nl": "dutch", "en": "english", "eo": "esperanto", "et": "estonian", "fi": "finnish", "fr": "french"},
    **{"de": "german", "el": "greek", "hi": "hindi", "hu": "hungarian", "id": "indonesian", "ga": "irish"},
    **{"it": "italian", "lt": "lithuanian", "ne": "nepali", "no": "norwegian", "fa": "persian", "pl": "polish"},
    **{"pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "es": "spanish", "sv": "swedish"},
    **{"ta": "tamil", "tr": "turkish", "yi": "yiddish"},
}
# Articles, marks of the infinitive and reflexive pronouns, as dictionaries write them before a word.
_FUNCTION_WORDS = {
    "da": "en et den det de at sig",
    "de": "der die das den dem des ein eine einen einem einer eines sich zu",
    "el": "ο η το οι τα του της των τον την τις τους ένας μια μία ένα να",
    "en": "the a an to",
    "es": "el la los las un una unos unas se",
    "fr": "le la les un une des du de se",
    "he": "ה",
    "hu": "a az egy",
    "it": "il lo la i gli le un uno una si",
    "nl": "de het een te zich",
    "no": "en ei et den det de å seg",
    "pl": "się",
    "cs": "se si",
    "pt": "o a os as um uma uns umas se",
    "ro": "un o a se",
    "sv": "en ett den det de att sig",
}
_WORDS = {lang: frozenset(text.split()) for lang, text in _FUNCTION_WORDS.items()}
_ELIDED = {"fr": ("l'", "d'", "s'"), "it": ("l'", "un'", "dell'", "nell'", "all'", "dall'", "sull'", "s'")}
_EDGE = re.compile(r"^[\W_]+|[\W_]+$")
_LOCAL = threading.local()  # a stemmer serves one thread at a time


def has_stemmer(lang: str) -> bool:
    """Whether there is a stemmer for the language of a tag such as "de" or "pt-BR"."""
    return primary(lang) in _STEMMERS


def stemmed(wording: str, lang: str) -> str:
    """The wording in a language, folded, without leading function words, each word cut to its stem."""
    return stemmed_all([wording], lang)[0]


def stemmed_all(wordings: Iterable[str], lang: str) -> list[str]:
    """The stemmed form of each of many wordings in one language."""
    lang = primary(lang)
    stemmer = _stemmer(lang)
    forms = []
    for wording in wordings:
        words = _content(wording, lang)
        forms.append(" ".join(stemmer.stemWords(words) if stemmer else words))
    return forms


def without_function_words(wording: str, lang: str) -> str:
    """The wording, folded, without leading function words of its language, unless it consists of nothing else."""
    return " ".join(_content(wording, primary(lang)))


def leading(lang: str) -> list[str]:
    """What may stand before a wording of a language and is left out: "the ", "l'"; first of all nothing."""
    lang = primary(lang)
    return ["", *(f"{word} " for word in sorted(_WORDS.get(lang, ()))), *_ELIDED.get(lang, ())]


def _content(wording: str, lang: str) -> list[str]:
    text = folded(wording)
    if not text.isascii():
        text = composed(text.encode("utf-8", "replace").decode())  # stemmers take no half of a surrogate pair
    for article in _ELIDED.get(lang, ()):
        if text.startswith(article) and len(text) > len(article):
            text = text[len(article) :]
            break
    words = [word if word.isalnum() else _EDGE.sub("", word) for word in text.split()]
    words = [word for word in words if word] or text.split()
    leading = _WORDS.get(lang, frozenset())
    start = 0
    while start < len(words) - 1 and words[start] in leading:
        start += 1
    return words[start:]


def _stemmer(lang: str) -> Any:
    """The stemmer of a language for this thread, or None."""
    if lang not in _STEMMERS:
        return None
    stemmers: dict[str, Any] = _LOCAL.__dict__.setdefault("stemmers", {})
    if lang not in stemmers:
        stemmers[lang] = Stemmer.Stemmer(_STEMMERS[lang], 0)  # its own cache costs more than it saves
    return stemmers[lang]

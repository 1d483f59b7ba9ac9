"""Sentences of many scripts, a model that proposes no phrases, and the plain way to find examples."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np

from phrasemate.examples import occurrences
from phrasemate.text import words

TEXTS = {
    "en": [
        "The party paid for the art of the whole street.",
        "ART is long, and life is short; so is this party.",
        "The dog's bowl stood by the door, but the dogs didn't care.",
        "She can't print the file, because the printer's tray is empty.",
        "He plays the part of an artist in a smart way.",
        "Start the print job from the e-mail client (version 3.5).",
        "Go home and go to bed, they said at the EU summit",
    ],
    "de": [
        "Die Straße nach Gießen ist gesperrt.",
        "In der STRASSE wohnt niemand mehr.",
        "Große Maße, kleine Masse: das passt nicht zusammen.",
        "Über den Drucker laufen alle Druckaufträge.",
    ],
    "fr": ["L’ordinateur de l'école n'est pas allumé.", "Aujourd'hui, un ordinateur coûte moins cher qu’une auto."],
    "tr": ["İstanbul'da yağmur yağıyor.", "ISPARTA ve DİYARBAKIR uzak.", "Diyarbakır ve Isparta yakın değil, ışık az."],
    "zh": ["我买了一部新手机和一台打印机。", "水和火都很重要", "请在打印之前检查手机", "自由软件基金会成立于美国。"],
    "ja": [
        "水曜日に東京都で水を飲みました。",
        "プリンターで文書を印刷する",
        "印刷の設定を開いてください。",
        "これは日本語の設定",
    ],
    "ko": [
        "프린터에서 문서를 인쇄합니다.",
        "새 프린터가 도착했다",
        "이 지도는 낡았고 물은 차갑다.",
        "프린터공장 옆에 집이 있다.",
    ],
    "th": ["น้ำตาลและน้ำอยู่บนโต๊ะ", "เขาดื่มน้ำ"],
    "ru": ["Принтер стоит у окна.", "На ПРИНТЕРЕ нет бумаги, а принтер новый."],
    "hi": ["हिन्दी में लिखी किताब मेज़ पर है।"],
}
SENTENCES = [text for texts in TEXTS.values() for text in texts]


class Silent:
    """Proposes no phrases, so that an index of it is its text."""

    name, hash, path, dim = "silent", "0" * 64, None, 8

    def extract(self, texts: Sequence[str], *_: object, **__: object) -> list[SimpleNamespace]:
        none = np.empty(0, np.int32)
        vectors = np.empty((0, self.dim), np.float32)
        return [SimpleNamespace(starts=none, ends=none, scores=none.astype(np.float32), vectors=vectors)] * len(texts)


def phrases_of(text: str, longest: int = 3) -> list[str]:
    """Every run of up to ``longest`` words."""
    spans = words(text)
    return [text[spans[i][0] : spans[j][1]] for i in range(len(spans)) for j in range(i, min(i + longest, len(spans)))]


def plainly(phrase: str, texts: Sequence[str] = SENTENCES) -> set[str]:
    """The sentences with the phrase, each of them looked at."""
    return {text for text in texts if occurrences(phrase, text)}

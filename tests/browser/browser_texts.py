"""What the served indexes hold, written for these tests; among it what tries to get out of a page."""

from __future__ import annotations

NEWS = """\
The members of parliament observed a minute of silence for the victims of the earthquake.
The Speaker asked everybody to rise for a minute's silence before the debate began.
Parliament adopted the budget after a debate that lasted until midnight.
The opposition called for a vote of no confidence in the government.
The minister refused to answer the question and left the chamber.
A moment of silence was held at the beginning of the session.
They honoured the dead with a minute of silence in the great hall.
The president of the central bank warned of rising prices.
She opened a savings account at a small bank near the station.
The old man sat down on a bench in the park and read the newspaper.
Two members abstained from voting."""
LAW = """\
Freedom of expression is one of the foundations of a democratic society.
The court observed a minute of silence in memory of the late judge.
A bank must not lend more than its reserves allow."""
ARABIC = """\
وقف النواب دقيقة صمت حدادا على ضحايا الزلزال.
رفض الوزير الإجابة عن السؤال وغادر القاعة.
حذر رئيس البنك المركزي من ارتفاع الأسعار."""
CHINESE = """\
议员们为地震遇难者默哀一分钟。
老人坐在公园的长椅上看报纸。
中央银行行长警告说物价正在上涨。"""
JAPANESE = """\
議員たちは地震の犠牲者に一分間の黙祷を捧げた。
老人は公園のベンチに座って新聞を読んでいた。"""
THAI = """\
สมาชิกสภายืนสงบนิ่งหนึ่งนาทีเพื่อไว้อาลัยแก่ผู้เสียชีวิตจากแผ่นดินไหว
ชายชรานั่งอ่านหนังสือพิมพ์บนม้านั่งในสวนสาธารณะ"""
HOSTILE = """\
A minute of silence <script>document.title = "taken"</script> followed.
The silence <img src=x onerror="document.title = 'taken'"> & "quotes" 'stood' there."""

GERMAN = "Am Montag hielten die Abgeordneten eine Schweigeminute für die Opfer ab. Danach ging er zur Bank."
INDEXES = {
    "news": {"en": {"news.txt": NEWS, "hostile.txt": HOSTILE}},
    "law": {"en": {"law.txt": LAW}},
    "world": {
        "ar": {"arabic.txt": ARABIC},
        "zh": {"chinese.txt": CHINESE},
        "ja": {"japanese.txt": JAPANESE},
        "th": {"thai.txt": THAI},
    },
    "empty": {},
}

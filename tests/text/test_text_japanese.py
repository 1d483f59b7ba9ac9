"""Japanese words: verbs and adjectives with their endings, and their stems."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasemate.lexicon import bundled_lexicon, stemmed
from phrasemate.lexicon.inflection import stem
from phrasemate.lexicon.locutions import general_words
from phrasemate.lexicon.wordings import Keys, Wordings
from phrasemate.text import words
from phrasemate.text.japanese import join_words

WRITE = """
    書く 書かない 書かなかった 書きます 書きません 書きたい 書いて 書いている 書いた 書いたら 書けば 書ける 書けない
    書こう 書かれた 書かせる
"""
EAT = """
    食べる 食べない 食べなければ 食べます 食べました 食べたい 食べて 食べています 食べた 食べれば 食べられる 食べさせる
    食べよう
"""
READ = "読む 読まない 読みます 読んで 読んでいた 読んだ 読めば 読もう 読まれる"
HIGH = "高い 高くて 高くない 高かった 高ければ 高さ 高すぎる"


def split(text):
    return " ".join(text[start:end] for start, end in words(text))


@pytest.mark.parametrize(
    "sentence",
    [
        "彼 は 窓 を 開けて 外 を 見た",
        "私 は その 歌 を 知っています",
        "早く 走らなければ ならない",
        "彼 は 約束 を 守らなかった",
        "食べられない 物 が ある",
        "電車 が 遅れた ので",
        "庭 に 美しい 花 が 咲いていた",
        "財布 が まだ 見つからない",
        "船 が 静か に 動いている",
        "姉 は 先週 会社 を 辞めました",
        "冬 の 朝 は 暗くて 寒かった",
        "答え が 全然 分かりません",
        "映画 が 終わる まで 待とう",
        "子ども たち は 川 で 泳がない",
        "何 も できませんでした",
        "早く 寝て ください",
    ],
)
def test_verbs_and_adjectives_are_one_word_with_their_endings(sentence):
    assert split(sentence.replace(" ", "")) == sentence


@pytest.mark.parametrize(
    "sentence",
    [
        "水 が ない",  # not as in 泳がない
        "駅 から 遠い",  # not as in 分からない
        "何 か したい",  # not as in 動かしたい
        "母 は 教師 です",
        "弟 は 毎晩 勉強 する",  # する after a noun of two characters
        "村 は 去年 破壊 された",
        "今 すぐ 来て",
        "十分 くらい 待った",
        "人 の 話 を 聞く",
    ],
)
def test_particles_and_the_copula_are_words_of_their_own(sentence):
    assert split(sentence.replace(" ", "")) == sentence


@pytest.mark.parametrize(("forms", "expected"), [(WRITE, "書-"), (EAT, "食-"), (READ, "読-"), (HIGH, "高-")])
def test_all_forms_have_the_same_stem_and_are_one_word(forms, expected):
    assert {form: stem(form, "ja") for form in forms.split()} == dict.fromkeys(forms.split(), expected)
    for form in forms.split():
        assert split(f"毎日{form}、人が") == f"毎日 {form} 人 が"


def test_stems_of_other_words_differ():
    assert [stem(word, "ja") for word in ("分", "分かる", "見る", "見つける", "楽しい", "楽", "カメラ")] == [
        "分",
        "分か-",
        "見-",
        "見つ-",
        "楽し-",
        "楽",
        "カメラ",
    ]
    assert stem("勉強しました", "ja") == stem("勉強する", "ja") == "勉強-" != stem("勉強", "ja")
    assert stemmed("約束を守らなかった", "ja") == stemmed("約束を守る", "ja")


def test_the_lexicon_knows_every_form_of_a_listed_verb():
    for form in ("知っています", "知らなかった", "知りません", "知れば"):
        likeliest = bundled_lexicon().equivalents(form, "ja", "en")[0].text
        assert {"know", "known", "knew"} & set(likeliest.split())


def test_a_form_that_is_not_listed_is_looked_up_by_its_stem():
    keys = Keys(Wordings.of(["知", "知る", "知事"]))
    assert keys.stemmed("知っています", "ja") == [1]
    assert keys.stemmed("知", "ja") == [0]


def test_forms_of_auxiliary_verbs_are_function_words():
    assert {"する", "していました", "でした"} <= general_words("ja")
    assert "知っています" not in general_words("ja")


def test_an_ending_that_cuts_a_word_leaves_the_rest():
    text, spans = "働いたことが", [(0, 1), (1, 4), (4, 5), (5, 6)]  # as ICU cuts it: 働 いたこ と が
    rests = []

    def split_rest(rest):
        rests.append(rest)
        return [(0, 2), (2, 3)]

    assert join_words(text, spans, split_rest) == [(0, 3), (3, 5), (5, 6)]
    assert rests == ["ことが"]


@given(st.text(alphabet="書読食分見出人本かがけこさしたってでとないのはまるれんわをー、 aé漢々", max_size=40))
def test_words_are_in_order_and_cover_all_letters(text):
    spans = words(text)
    assert all(start < end for start, end in spans)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    covered = {place for start, end in spans for place in range(start, end)}
    assert {place for place, letter in enumerate(text) if letter.isalnum()} <= covered


@pytest.mark.parametrize(
    "words_of_text",
    [
        "サンフ ランシスコ",
        "ペテロ は 来た",
        "ディストリビューション",
        "オープン ソース",
        "サブ クラス",
        "ヘクス マップ",
    ],
)
def test_parts_of_foreign_words_are_joined(words_of_text):
    assert split(words_of_text.replace(" ", "")) == words_of_text


def test_other_languages_are_not_changed():
    for text in ("他们在看书", "the 3 old benches", "Die Bank im Park", "우리는 책을 읽는다"):
        spans = words(text)
        assert join_words(text, spans, words) == spans


def test_long_runs_take_linear_time():
    start = time.process_time()
    for text in ("していた" * 20_000, "書かない" * 20_000, "漢" * 40_000 + "を", "カ" * 40_000, "か" * 40_000):
        words(text)
        stem(text, "ja")
    assert time.process_time() - start < 5

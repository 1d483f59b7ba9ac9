"""Korean stems: nouns with particles, verbs and adjectives with endings."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasemate.lexicon import stemmed
from phrasemate.lexicon.inflection import has_stemmer, stem
from phrasemate.lexicon.locutions import general_words
from phrasemate.lexicon.wordings import Keys, Wordings
from phrasemate.text.korean import LONGEST, particles_only

FORMS = {  # one verb for each way in which bases are formed
    "먹-": "먹는 먹은 먹을 먹고 먹지 먹습니다 먹으면 먹으려고 먹으세요 먹어 먹어서 먹었다 먹었지만 먹겠다 먹기로",
    "잡-": "잡는 잡은 잡고 잡으면 잡아 잡았다 잡았어요",
    "가르치-": "가르치는 가르친 가르칩니다 가르치면 가르쳐 가르쳤다 가르치시는 가르치셨습니다",
    "바꾸-": "바꾸는 바꾼 바꿀 바꿉니다 바꾸며 바꿔 바꾸어 바꿨다 바꾸었다",
    "보내-": "보내는 보낸 보낼 보냅니다 보내 보내요 보냈다",
    "떠나-": "떠나는 떠난 떠납니다 떠나자 떠나서 떠났다 떠났던",
    "만들-": "만들고 만드는 만든 만들면 만듭니다 만드세요 만들어 만들었다 만들지만",
    "모르-": "모르는 모른다 모르지만 모릅니다 몰라 몰라요 몰랐다 몰랐습니다",
    "따르-": "따르는 따르면 따릅니다 따라 따랐다",
    "바쁘-": "바쁜 바쁘지 바쁩니다 바빠요 바빴다",
    "춥-": "춥고 춥다 춥습니다 추운 추우면 추워 추웠다",
    "돕-": "돕는 도운 도우려고 도와 도왔다",
    "듣-": "듣는 듣고 듣습니다 들으면 들은 들으니까",
    "짓-": "짓는 짓고 지으려면 지은",
    "하얗-": "하얗고 하얀 하얗습니다 하얘서",
    "공부하-": "공부하는 공부한 공부할 공부합니다 공부하면 공부해 공부했다 공부하였다 공부하셨어요",
    "발견되-": "발견되는 발견된 발견됩니다 발견돼 발견되어 발견되었다 발견됐습니다",
    "자연스럽-": "자연스럽게 자연스러운 자연스러웠다",
    "찾아오-": "찾아오는 찾아온 찾아왔다 찾아오면",
    "읽-": "읽어보세요 읽어주는 읽어버렸다",  # with an auxiliary
    "들어가-": "들어가는 들어갔다 들어가",  # of two verbs
    "기다리-": "기다리고있다 기다릴거야 기다릴때 기다리는것이 기다리지않는다 기다리게되었다",  # without the usual space
}
PARTICLES = {
    "치즈": "치즈가 치즈는 치즈를 치즈의 치즈와 치즈로 치즈에 치즈에서는 치즈만 치즈도 치즈까지",
    "지붕": "지붕이 지붕은 지붕을 지붕과 지붕으로 지붕에서도 지붕부터 지붕보다",
    "연필": "연필이 연필로 연필을",
    "학생": "학생들이 학생들에게 학생들의 학생입니다 학생이었다 학생이지만 학생이에요",
    "의사": "의사다 의사였습니다 의사입니다 의사예요",
    "XML": "XML을 XML로 XML에서",
}
WORDS = "고양이 회의 도로 결과 속도 아이 나이 바로 정말로 하지만 하나 바다 국가 감자 가게 그림 도움 아들 커피 여자 무기"
EQUALS = {"치즈가": ["치즈를"], "모르는": ["몰랐다"], "잡았다": ["잡다"], "춥습니다": ["추운"], "갔다": ["갑니다"]}


@pytest.mark.parametrize(("expected", "forms"), [*FORMS.items(), *PARTICLES.items()])
def test_all_forms_of_a_word_have_the_same_stem(expected: str, forms: str) -> None:
    assert {form: stem(form, "ko") for form in forms.split()} == dict.fromkeys(forms.split(), expected)


@pytest.mark.parametrize("word", WORDS.split())
def test_words_that_end_like_an_inflected_word_are_whole(word: str) -> None:
    assert stem(word, "ko") == word
    particle = "을" if unicodedata.normalize("NFD", word)[-1] >= "\u11a8" else "를"
    assert stem(word + particle, "ko") == word


def test_a_verb_differs_from_a_noun_that_is_written_like_its_stem() -> None:
    assert [stem(word, "ko") for word in ("신", "신고", "신었다", "신발을")] == ["신", "신고", "신-", "신발"]
    assert [stem(word, "ko") for word in ("사람은", "먹는", "좋은", "물은")] == ["사람", "먹-", "좋-", "물"]


@pytest.mark.parametrize(
    ("word", "noun"), [("내가", "내"), ("길을", "길"), ("여기", "여기"), ("날것으로", "날것"), ("접시는", "접시")]
)
def test_a_noun_is_not_a_form_of_a_verb(word: str, noun: str) -> None:
    assert stem(word, "ko") == noun  # not of 내다 and 가다, 긷다, 열다, 날다, 접다


def test_forms_of_auxiliary_verbs_are_function_words() -> None:
    assert {"있습니다", "했다", "않는"} <= general_words("ko")
    assert "치즈를" not in general_words("ko")


def test_wordings_of_several_words_are_equal_in_all_their_forms() -> None:
    assert has_stemmer("ko")
    assert stemmed("약속을 지켰다", "ko") == stemmed("약속은 지키는", "ko") == "약속 지키-"


def test_a_form_that_is_not_listed_is_looked_up_by_its_stem() -> None:
    wordings = sorted(["치즈를", "치마", "몰랐다", "잡다", "잡지", "추운", "갑니다", "보여"])
    keys = Keys(Wordings.of(wordings))
    looked_up = {form: [wordings[row] for row in keys.stemmed(form, "ko")] for form in EQUALS}
    assert looked_up == EQUALS


@given(st.text(alphabet="가각간갈는을를다고했었습니에서들의로 a1", min_size=1, max_size=12))
def test_the_stem_of_a_noun_is_its_beginning_and_has_no_particle(word: str) -> None:
    noun = stem(word, "ko")
    if not noun.endswith("-"):
        assert word.startswith(noun) or word.endswith("니다")
        assert stem(noun, "ko") == noun or stem(noun, "ko").endswith("-")


def test_long_runs_without_spaces_are_whole_and_cost_no_time() -> None:
    start = time.perf_counter()
    assert stem("에서" * 5_000, "ko") == "에서" * 5_000
    assert stem("가" * LONGEST, "ko").startswith("가")
    assert not particles_only("코카", "라도" * 2_000 + "뷁")
    assert time.perf_counter() - start < 1

"""Stem Korean words: 치즈가 and 치즈를 are forms of 치즈 (cheese), 몰랐다 and 모르는 of 모르다 (not to know).

Korean writes particles and the copula behind a noun, and endings behind a verb or an adjective, without a space. The
stem of a noun is the noun. The stem of a verb has a hyphen instead of its ending, so 신- (put on shoes) differs from
신 (god).

Many endings look like particles: 먹는 is a form of 먹다 (eat), but 사람은 a noun with a particle. So verbs are known by
a list of frequent stems. Each stem has up to three bases, which the endings follow: 듣- (hear) has 듣, 들으 and 들어.
Verbs of a noun and 하다, 되다 and the like need no list, nor do compounds of two listed verbs. A second list has the
nouns and adverbs that end like an inflected word: 고양이 (cat), 바로 (at once).
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from typing import NamedTuple

from phrasemate.text.normalize import CUT

LONGEST = 30  # syllables of a word that is stemmed, at most
_REGULAR = """
    가 가꾸 가두 가라앉 가라앉히 가로막 가로지르 가로채 가르치 가르키 가리 가리키 가엾 가지 가파르 갇히 갈 갈라지 감
    감기 감돌 감싸 감싸안 감추 값싸 값지 갖 갖추 같 같잖 갚 거닐 거두 거들 거르 거세 거스르 거슬리 거치 거칠 건너
    건너뛰 건네 건드리 걸 걸리 걸맞 걸치 검 겁나 겁먹 겉돌 게으르 겪 견디 겸연쩍 겹치 곁들 곁들이 계시 고르 고장나
    고장내 고치 고프 곧 곪 곱씹 괜찮 괴롭히 구르 구부러지 구부리 굳 굴 굴리 굵 굶 굶주리 궂 귀담 귀찮 그러 그리 그만두
    그을리 그치 긁 긁히 기다리 기르 기름지 기쁘 기울 기울이 길 길들 길들이 깃들 깊 까 까불 깎 깎이 깔 깔리 깜빡이 깨
    깨뜨리 깨물 깨어나 깨우 깨지 꺼내 꺼리 꺼지 꺾 껴안 꼬 꼽 꽂 꾸 꾸리 꾸미 꾸짖 꿈꾸 꿰뚫 꿰매 끄 끄덕이 끈적이 끊
    끊기 끊어지 끌 끌리 끌어안 끓 끓이 끝나 끝내 끝장내 끼 끼어들 끼얹 끼우 끼치 나 나누 나뉘 나돌 나쁘 나서 나타나
    나타내 낚 날 날뛰 날리 날쌔 낡 남 남기 남다르 낮 낮추 낯설 낳 내 내놓 내려놓 내리 내밀 내버리 내뿜 내세우 냄새나
    넓 넓히 넘 넘기 넘어지 넘치 넣 노닐 노려보 노리 녹 녹슬 녹이 놀 놀라 높 높이 놓 놓아주 놓이 놓치 누르 누리 눈감
    눈뜨 눈부시 느끼 느리 늘 늘리 늘어나 늘어놓 늘어지 늘이 늙 늦 늦추 다가서 다그치 다니 다다르 다독이 다듬 다루 다르
    다물 다스리 다지 다치 다투 닥치 닦 닫 닫히 달 달라지 달래 달리 달아나 닮 닳 담 담그 담기 당기 닿 대 더럽히 더불
    던지 덜 덤비 덧대 덧붙이 덮 덮어쓰 덮이 덮치 데리 데우 도망가 도망치 도맡 도와주 도지 돋 돋우 돌 돌려주 돌리 돌보
    돌아보 돌아서 되 되돌리 되살리 되살아나 되새기 되씹 되찾 두 두드러지 두드리 두들기 두르 둘러보 둘러싸 둘러싸이
    둥글 둥글리 뒤덮 뒤덮이 뒤따르 뒤지 뒤집 뒤처지 뒤쳐지 뒤틀리 드넓 드러나 드러내 드리 드물 드시 들 들끓 들뜨 들르
    들리 들여다보 들이 들이닥치 들이마시 들추 들키 딛 따 따라잡 따르 딸리 때리 때우 떠나 떠돌 떠들 떠맡 떠받치 떨 떨리
    떨어뜨리 떨어지 떼 똑같 뚫 뚫리 뛰 뛰어나 뛰어넘 뛰어들 뜨 뜯 띄 띄우 띠 마땅찮 마르 마시 마음먹 마주치 마치 막
    막히 만나 만들 만만찮 만지 많 말 말리 맑 맛보 망가뜨리 망가지 망치 맞 맞서 맞추 맞히 맡 맡기 매 매기 매달 매달리
    맴돌 맺 머나멀 머무르 머물 먹 먹이 먹히 멀 멈추 멈춰서 멋지 멋쩍 멍들 메 메마르 메우 모르 모시 모여들 모으 모이
    모자라 목마르 몰 몰려들 몰리 무너뜨리 무너지 무디 무르 무릅쓰 무찌르 묶 묶이 묻히 물 물들 물들이 물러나 물러서
    물리 물리치 물어뜯 물어보 묽 뭉개 뭉치 미끄러지 미루 미심쩍 미치 믿 믿기 밀 밀려나 밀리 밀치 바꾸 바뀌 바라 바라보
    바래 바르 바쁘 바치 박 박히 반짝이 받 받들 받쳐들 받치 밝 밝혀지 밝히 밟 배 배고프 배부르 배우 뱉 버리 버티 번지
    번쩍이 벌 벌리 벌어지 벌이 벗 벗겨지 벗기 벗어나 베 베풀 별다르 병들 보 보내 보살피 보이 볶 뵈 부둥켜안 부딪
    부딪치 부딪히 부러뜨리 부러지 부르 부리 부서지 부수 부추기 부치 부풀 부풀리 북돋 불 불나 불러일으키 불리 불타
    불태우 붉 붐비 붙 붙들 붙이 붙잡 붙잡히 비 비비 비싸 비우 비웃 비추 비치 비키 비틀 빌 빌리 빗 빚 빛나 빠뜨리 빠르
    빠져들 빠지 빨 빨리 빻 빼 빼놓 빼앗 빼앗기 뺏 뻗 뽑 뽑히 뿌리 뿜 사 사귀 사라지 사로잡 사로잡히 살 살리 살펴보
    살피 삶 삼 삼키 새 새기 생각나 생겨나 생기 서 서두르 서투르 서툴 섞 섞이 선보이 섬기 성가시 세 세우 소리나 소리치
    속삭이 속이 속타 손꼽 손대 솟 솟구치 수많 숙이 숨 숨기 숨지 쉬 스며들 스치 슬프 시달리 시들 시원찮 시키 식 식히 신
    신경쓰 신나 실리 싫 심 싶 싸 싸우 싸이 쌓 쌓이 썩 썰 쏘 쏘아보 쏟 쏟아지 쏠리 쐬 쑤시 쓰 쓰러뜨리 쓰러지 쓰이 쓸
    씌우 씹 씻 아끼 아니 아물 아프 안 안기 앉 앉히 않 알 알려지 알리 알맞 알아보 알아차리 알아채 앓 앗 앞두 앞서
    앞세우 애쓰 애타 야위 얇 얕 어기 어리 어리석 어울리 억누르 억눌리 언짢 얹 얻 얼 얼리 얼싸안 얼어붙 얽히 엄청나 없
    없애 엉키 엎드리 여기 여물 여위 엮 열 열나 열리 엿보 옅 예쁘 오 오가 오르 올라타 올려놓 올리 올바르 옮기 옳 외우
    외치 우기 울 울리 울부짖 움직이 움츠리 움켜쥐 웃 웃기 웅크리 의심쩍 이기 이끌 이루 이루어지 이뤄지 이어지 익 익히
    일구 일어나 일어서 일으키 읽 읽히 잃 잃어버리 입 입히 잇따르 있 잊 잊히 자 자라 자라나 자르 작 잘나 잘리 잘생기
    잠그 잠기 잠들 잠자 잠재우 잡 잡히 잦 재 재밌 재빠르 재우 저물 저버리 저지르 적 적시 적잖 적히 절이 젊 점잖 접
    접어들 접히 정들 젖 제치 조르 조이 졸 졸리 좁 좁히 좋 죄이 주 주무르 주어지 주저앉 죽 죽이 줄 줄어들 줄이 쥐 즐기
    지 지나 지나치 지내 지니 지르 지우 지치 지켜보 지키 지피 질기 질리 짊어지 집 짓궂 짓누르 짓밟 짖 짙 짜 짧 쪼 쪼개
    쫓 쫓겨나 쫓기 쬐 찌 찌들 찌르 찍 찍히 찢 찢기 찢어지 차 차리 차이 참 찾 찾아보 채우 책임지 챙기 철들 쳐다보
    쳐부수 추 춤추 치 치르 치솟 치우 캐 커지 켜 켜지 크 키우 타 태어나 태우 터뜨리 터지 털 튀 튀기 튕기 트 트이 틀
    틀리 파 파고들 파묻히 파헤치 팔 팔리 패 퍼뜨리 퍼지 펴 편찮 펼쳐지 펼치 폭넓 푸르 풀 풀려나 풀리 품 풍기 피 피우
    하찮 핥 합치 해내 해치 해치우 허물 허물어지 헐 헐떡이 헐뜯 헤매 헤아리 헤어지 헤엄치 헤집 헤치 헷갈리 혼나 화나
    훔치 휘 휘두르 휘말리 휘어지 휩싸이 휩쓸 흐르 흐리 흔들 흔들리 흘리 흩어지 희 힘들 힘세 힘쓰 힘입
"""  # verbs and adjectives with bases by the rules for the last sounds of the stem
_B_VERBS = """
    가깝 가렵 가볍 가소롭 가엽 간지럽 갑작스럽 거추장스럽 고맙 곱 괴롭 굽 귀엽 그립 까다롭 까칠하 날카롭 놀랍 눈물겹
    눕 다정스럽 더럽 덥 돕 두껍 두렵 두텁 뜨겁 매끄럽 맵 메스껍 무겁 무덥 무섭 미끄럽 미덥 밉 반갑 버겁 번거롭 뵙
    부끄럽 부드럽 부럽 사납 새롭 서럽 손쉽 쉽 시끄럽 싱겁 쑥스럽 아깝 아름답 아쉽 안타깝 얄밉 어둡 어렵 어지럽 여쭙
    역겹 외롭 우습 이롭 자유롭 정답 줍 즐겁 지겹 징그럽 차갑 춥 해롭 흥겹 힘겹
"""  # ㅂ becomes 우: 춥다, 추워
_D_VERBS = "걷 긷 깨닫 되묻 듣 묻 붇 싣 알아듣 엿듣 일컫"  # ㄷ becomes ㄹ: 듣다, 들어
_S_VERBS = "긋 낫 뒤잇 붓 쏟아붓 잇 젓 짓 퍼붓 휘젓"  # ㅅ is dropped: 짓다, 지어
_H_VERBS = """
    그렇 까맣 노랗 누렇 동그랗 빨갛 뻘겋 새하얗 시커멓 아무렇 어떻 이렇 저렇 조그맣 커다랗 파랗 하얗 허옇
"""  # ㅎ is dropped: 그렇다, 그런
_NOT_DOUBLED = "치르 따르 들르 다다르 우러르 뒤따르 잇따르"  # 따라, but 몰라 of 모르
_AFTER_NOUNS = "하 되 시키 당하 받 스럽 롭 답 거리 없 있 짓"  # verbs that follow a noun: 공부하다
_SECOND = "가 오 들 들이 다니 보내 넣 올리 내리 서 앉 붙이 붙 남 받 먹 입 오르 나가 나오 들어가 들어오"  # 찾아-오다
_AUXILIARY = "주 보 버리 지 있 드리 놓 두 대 달 내"  # behind a verb, whose stem they leave: 읽어-보다
_WORDS = """
    가게 가끔씩 가로 가르침 가지 각도 간 감기 감소 감자 감지 강도 강원도 강의 같이 개구쟁이 개인주의 거북이 거의
    거짓말쟁이 걸음 검도 겁쟁이 게다가 겨우살이 결과 결의 결함 경과 경기도 경도 경상도 경의 계란 고가 고강도 고도 고랑
    고밀도 고속도로 고양이 고유가 고의 곡괭이 곳곳이 공산주의 과로 관계없이 관할 괴로움 교만 구덩이 구름 국제유가 굳이
    굼벵이 권한 궤도 귀걸이 귀퉁이 그대로 그래 그래도 그래서 그러나 그러면 그러므로 그런 그런데 그럼 그렇지만 그리고
    그리움 그림 그만 그만큼 극도 극한 기도 기름 기쁨 기와 기울기 기한 길 길거리 길이 깊이 까지 깎이 깔때기 깨끗이
    꽃송이 꿈 끊임없이 나 나날이 나들이 나라 난이도 날 날것 날로 남 남자 남한 낭만 낱낱이 내내 냉이 넓이 노랑 노래
    논의 놀이 농도 높이 눈송이 느긋이 느낌 늙은이 다른 다시 단지 달러 달리기 달팽이 대가 대기 대로 대만 대선 대소 대신
    대장장이 대체로 더 더욱이 더하기 도도 도랑 도로 도시 도움 독도 돈벌이 돌연변이 동의 두려움 드롭다운 듯이 따뜻이
    따라서 따로 딸 때때로 때로 떡볶이 또는 또한 똑바로 라는 로부터 마음대로 마이크로 막내둥이 만족도 많이 맏이 말
    맞벌이 맞춤 매크로 머신 먹이 먼지 멍청이 메시지 명함 모든 모음 모임 모퉁이 목걸이 몰래 몽둥이 무한 무한궤도 묶음
    문 물 물건 물음 물질 미닫이 미로 미만 민주주의 믿음 밀도 바다 바람 바로 반대 반도 반듯이 밝기 밤송이 방해 배
    배고픔 배달 배려 백만 뱀 버들 버젓이 번 벼랑 변이 별도 별로 보고서 보다 보도 복도 볶음 볶이 봄 부가 부들 부시
    부엉이 북한 분 분할 불 불만 비단 비만 비빔 빈도 빌어먹을 빚 사건 사고 사랑 사본 사서함 사실 사자 사진 사회주의 산
    산부인과 살림살이 살해 삶 상관없이 상대 상수도 상한 새로 새로움 서로 서면 선 선호도 섬 성과 세기 세로 셀 소다 소란
    속도 손잡이 송이 숨 스스로 슬픔 습니다 습도 시가 시도 시야 신고 신뢰도 실제로 심도 심의 심지어 십만 싸움 쌍둥이
    쓰임 아니 아들 아마도 아무래도 아무런 아픔 악의 안 안건 안과 알갱이 알맞이 압도 애로 양도 어김없이 어떤 어려움
    어린이 억지로 없이 엉덩이 여가 여기 여한 역할 연도 열 예의 오만 오메가 오해 온도 올챙이 올해 옷걸이 완성도
    왜냐하면 외가 외로움 요가 요란 요한 용도 움직임 웃음 웅덩이 원숭이 위도 유가 유도 유로 유의 유한 유해 으로 의도
    이대로 이라고 이란 이런 이해 이해도 인도 인지도 인프라 일일이 일찍이 임의 입니다 자가 자기 자랑 자본주의 자신 작음
    잠 잠금 잡지 재고 재단 재떨이 재야 저 저가 저런 저절로 적 적어도 전라도 절대로 젊은이 젊음 정도 정말로 정밀도
    정상회의 정의 정치가 정확도 제대로 제도 제로 제주도 제한 조금씩 종이 주가 주도 주둥이 주로 주소 주의 죽음 줄 줄기
    중요도 즐거움 지난달 지난해 지네 지도 지름 지면 지지 지지도 지침 지팡이 진단 진도 진실로 짐 집 집단 차단 차도 차이
    참고 참으로 처가 천만 철도 최대한 최소한 추가 추진 춤 충청도 침 카메라 캐나다 코브라 크기 타입 타자 탄 탈것 탐
    태권도 태도 태만 토네이도 토대 토로 토박이 토의 통과 투명도 튀김 틀림없이 틈틈이 파도 파랑 판다 팬 팽이 편 편의
    편지 포도 포로 포함 품질 프로 피고 피란 피로 피자 필수 필요 하나 하나씩 하루살이 하수도 하의 하지만 하한 학과
    한반도 함께 함부로 합의 항의 항해 해돋이 해상도 핸들 허가 헌것 혐의 협의 호랑이 호의 혹은 홀로 화로 활주로 회로
    회의 효도 휴가 흐름
"""  # nouns, adverbs and pronouns that end like an inflected word
_SHORT_FORMS = "큰 할 온 될 된 쓸 쓴 해 돼 봐 줘 빈 긴 먼 흰 볼 갈 올"  # of verbs; other syllables are nouns

_PARTICLES = (
    "(?:들)?(?:에(?:서|게서?)?|께서?|한테서?|(?<![ᅡ-ᅵᆯ])으로(?:서|써|부터)?|(?<![ᆨ-ᆮᆰ-ᇂ])로(?:서|써|부터)?|까지|부터|마저"
    "|조차|처럼|같이|보다|만큼|대로|뿐|밖에|마다|만|씩|들|이?라도|(?<![ᅡ-ᅵ])이나마?|이?야말로|커녕)*"
    "(?:(?<![ᅡ-ᅵ])(?:은|이|을|과|이란|이랑|이든지?)|(?<![ᆨ-ᇂ])(?:는|가|를|와|란|랑|든지?)|의|도)?"
)  # from the case to the topic; some depend on whether the noun ends in a vowel: 은 or 는
_ENDINGS = (
    "(?:시)?(?:겠(?:어(?:요|도)?|음)|(?:겠)?(?:"
    "ᆫ(?:가|지|데|다|들)?(?:요|에|를|ᆯ|은|는|도|고|면|만)?"
    "|ᆯ(?:까|게|지|래|걸|수록|지라도|뿐)?(?:요|에|를|ᆯ|은|는|도)?"
    "|(?:ᆫ|는)?다(?:고|는|면|며|니|거나|던가|가|ᆫ다?|지만)?(?:요|도|는)?"
    "|(?:는|던)(?:가|지|데|군|구나|바|걸|거)?(?:요|에|를|ᆯ|은|는|도|만)?"
    "|ᆸ(?:니다|니까|시오|시다|시요)(?:만|고)?|습(?:니다|니까)(?:만)?|소|오|십시오"
    "|고(?:서|자|도|는|요|만)?|곤|지(?:만|는|도|를|ᆯ|ᆫ|요|마|만은)?|죠|게(?:도|끔|요|는)?"
    "|거나|거든(?:요)?|건|거라|도록|듯이?|길래"
    f"|기(?:에|가|를|ᆯ|도|는|ᆫ|만|까지|로|보다|나|란)?(?:는|도|ᆫ)?|ᆷ{_PARTICLES}"
    "|네(?:요)?|니(?:까|까요)?|냐(?:고|는)?|느(?:냐|니|라)|나(?:요)?|노라|구나|군(?:요)?|더(?:라|라도|니|군)"
    "|면(?:서|서도|은)?|며|므로|려(?:고|면|는|던|ᆫ다)?|러|라(?:고|는|며|면|도)?|자(?:고|마자|면|는|꾸나)?|든(?:지|가)?"
    "|(?:ᆫ|ᆯ|는|던)것.*|(?:는|던)(?:거|겁|건|게|걸).*|(?:ᆯ|는)(?:거[야다라예]|겁니|테|텐).*"  # written without a space
    "|ᆯ때.*|ᆯ수(?:있|없).*|ᆯ수(?:도|가|는)?"
    "|게(?:되|돼|하|해).*|고(?:있|싶).*|지(?:않|못|마|말).*|기(?:위하|위해|때문|전에|시작).*"
    "))"
)  # of all bases but those in 아 or 어
_AFTER_PAST = f"(?:었)?(?:겠)?(?:으?{_ENDINGS}|어(?:요|도|야|서)?|음{_PARTICLES})"  # after 았 or 었
_VOWEL_ENDINGS = (
    "|서(?:는|도|요|만|야|ᆫ|인지)?|요|도(?:요)?|야(?:만|지|겠어|죠|겠다|합니다|한다)?|라(?:고|는)?|다(?:가)?"
    f"|ᆻ{_AFTER_PAST}"
)  # of the bases in 아 or 어
_HONORIFIC = f"(?:셔|시어)(?:{_VOWEL_ENDINGS})|세요"
_COPULA = (
    "(?:(?:(?<![ᆨ-ᇂ])|이)(?:다|라는?|라고|라면|라서)"
    f"|이(?:고|며|면|지만|거나|ᆸ니다|ᆸ니까|었{_AFTER_PAST}|므로|니까?|네|야|죠|에요|어요|어서|ᆫ가|ᆫ지|ᆫ데|어야)"
    f"|(?<=적)인){_PARTICLES}|(?<![ᆨ-ᇂ])(?:야|였{_AFTER_PAST}|예요|여서)"
)
_SOFT = "면|며|므로|려|러|라|니까|ᆫ|ᆯ|ᆸ|ᆷ|시|세|셔|오"  # endings that follow a vowel, or 으 after a consonant
_DROPPING = "ᆫ|ᆯ|ᆸ|시|세|셔|오|는|네|나|니|냐"  # endings before which a stem loses its ㄹ
_CONTRACTED = {"ᅩ": "ᅪ", "ᅮ": "ᅯ", "ᅵ": "ᅧ", "ᅬ": "ᅫ"}  # vowel of a stem -> with 아 or 어
_SYLLABLE = 3  # letters of a syllable, at most


class _Base(NamedTuple):
    """A form of a stem that endings follow."""

    letters: str
    endings: str  # key of `_PATTERNS`


def _letters(text: str) -> str:
    """Decompose syllables into letters, so that an ending may begin with the last letter of a syllable."""
    return unicodedata.normalize("NFD", text)


def _syllables(letters: str) -> str:
    return unicodedata.normalize("NFC", letters)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern for decomposed text, in which 이? is an optional syllable, when it is first used."""
    return re.compile(_letters(re.sub("([가-힣])[?]", r"(?:\1)?", pattern)))


_BARE = _letters("가"), _letters("오")  # a particle after one syllable: 내가 is "I", but 들어가 "go in"
_PATTERNS = {
    "vowel": f"{_ENDINGS}|{_HONORIFIC}",  # after a vowel or ㄹ
    "consonant": f"(?!{_SOFT}){_ENDINGS}",
    "without ㄹ": f"(?={_DROPPING})(?:{_ENDINGS}|{_HONORIFIC})",
    "어": _VOWEL_ENDINGS,
}
_AFTER_KNOWN_NOUN = f"{_PARTICLES}|{_COPULA}|(?:이|(?<![ᆨ-ᇂ]))(?:나|며|면|ᆫ|ᆫ데|고|지만|라|므로|든가){_PARTICLES}"
_DOUBTFUL = re.compile("의|도|만(?!큼)|과|나|라|란|며|인|들|로(?![부서써])")  # 지도 is a map


@cache
def _split(*lists: str) -> frozenset[str]:
    return frozenset(" ".join(lists).split())


_NOUNS, _FORMS = _split(_WORDS), _split(_SHORT_FORMS)


def _bases(verb: str) -> list[_Base]:
    """List the bases of a verb.

    >>> [_syllables(base.letters) for base in _bases("듣")]
    ['듣', '들으', '들어']
    """
    letters, vowel = _letters(verb), _vowel(_letters(verb[-1]))
    before = letters[:-1]
    if verb in _split(_B_VERBS) or verb.endswith(("스럽", "롭", "답")):
        ending = "와" if verb in ("돕", "곱") else "워"
        soft, open_base = before + _letters("우"), before + _letters(ending)
    elif verb in _split(_D_VERBS):
        soft, open_base = before + "ᆯ" + _letters("으"), f"{before}ᆯᄋ{vowel}"
    elif verb in _split(_S_VERBS):
        soft, open_base = before + _letters("으"), f"{before}ᄋ{vowel}"
    elif verb in _split(_H_VERBS):
        soft, open_base = before, before[:-1] + ("ᅤ" if before[-1] == "ᅣ" else "ᅢ")
    elif letters[-1] == "ᆯ":
        return [_Base(letters, "vowel"), _Base(before, "without ㄹ"), _Base(f"{letters}ᄋ{vowel}", "어")]
    elif letters[-1] >= "ᆨ":
        soft, open_base = letters + _letters("으"), f"{letters}ᄋ{vowel}"
    else:
        return [_Base(letters, "vowel"), *(_Base(base, "어") for base in _open_bases(verb))]
    return [_Base(letters, "consonant"), _Base(soft, "vowel"), _Base(open_base, "어")]


def _open_bases(verb: str) -> set[str]:
    """Return the bases in 아 or 어 of a verb whose stem ends in a vowel, in letters."""
    letters = _letters(verb)
    before, last = letters[:-1], letters[-1]
    if verb.endswith("하"):
        return {f"{before}ᅢ", letters + _letters("여")}
    if verb in ("이르", "푸르"):
        return {letters + _letters("러")}
    if verb.endswith("르") and verb not in _split(_NOT_DOUBLED):
        return {f"{letters[:-2]}ᆯᄅ{_vowel(letters[:-2])}"}
    if last == "ᅳ":
        return {before + _vowel(before)}
    if last in "ᅡᅥᅧ":
        return {letters}
    full = letters + _letters("아" if last == "ᅩ" else "어")
    return {full, letters} if last in "ᅢᅦ" else {full, before + _CONTRACTED[last]} if last in _CONTRACTED else {full}


def _vowel(letters: str) -> str:
    """Return the vowel of an ending after some letters: ㅏ after ㅏ or ㅗ, else ㅓ."""
    vowels = [letter for letter in letters if "ᅡ" <= letter <= "ᅵ"]
    return "ᅡ" if vowels and vowels[-1] in "ᅡᅩᅣ" else "ᅥ"


_Table = dict[str, list[tuple[str, str]]]  # letters of a base -> verbs, and the keys of their endings


@cache
def _table(*lists: str) -> _Table:
    """Index the verbs of some lists by their bases."""
    table: _Table = {}
    for verb in " ".join(lists).split():
        for base in _bases(verb):
            table.setdefault(base.letters, []).append((verb, base.endings))
    return table


def _verb(letters: str, start: int, table: _Table, is_first: bool = True) -> str:
    """Return the stem of the verb of a table that the letters from ``start`` on are a form of, or "".

    The first verb may have a second one behind it, as in 찾아오다, or an auxiliary, as in 읽어보다.
    """
    for end in range(len(letters), start, -1):
        for verb, endings in table.get(letters[start:end], ()):
            if _compiled(_PATTERNS[endings]).fullmatch(letters, end):
                return verb
            if is_first and endings == "어":
                second = _verb(letters, end, _table(_SECOND), is_first=False)
                if second and (end - start > _SYLLABLE or not letters.endswith(_BARE)):
                    return _syllables(letters[start:end]) + second
                if _verb(letters, end, _table(_AUXILIARY), is_first=False):
                    return verb
    return ""


def beginnings(stem: str) -> set[str]:
    """Return the strings of which each form of a word begins with one.

    >>> sorted(beginnings("치즈")), "몰랐" in beginnings("모르-")
    (['치즈'], True)
    """
    if not stem.endswith(CUT):
        return {stem}
    bases = {base.letters for base in _bases(stem.removesuffix(CUT))}
    closed = {base + final for base in bases if base[-1] < "ᆨ" for final in "ᆫᆯᆷᆸᆻ"}
    return set(map(_syllables, bases | closed))


def is_syllable(character: str) -> bool:
    """Return whether a character is a precomposed Hangul syllable."""
    return "가" <= character <= "힣"


def particles_only(noun: str, rest: str) -> bool:
    """Return whether ``rest``, which follows ``noun`` in the same word, consists of Korean particles.

    A noun of one syllable takes no particle that would often make another word.

    >>> particles_only("프린터", "에서는"), particles_only("파", "이")
    (True, False)
    """
    if not noun or (len(noun) == 1 and _DOUBTFUL.match(rest)):
        return False
    return _compiled(_AFTER_KNOWN_NOUN).fullmatch(_letters(noun + rest), len(_letters(noun))) is not None


@lru_cache(1 << 16)
def stem(word: str) -> str:
    """Cut particles and the copula off a noun, and replace the ending of a verb or an adjective by a hyphen.

    >>> [stem(word) for word in ("치즈가", "사람들에게", "먹는", "몰랐다", "추워요", "공부했습니다", "고양이")]
    ['치즈', '사람', '먹-', '모르-', '춥-', '공부하-', '고양이']
    """
    if not is_syllable(word[-1:]) or len(word) > LONGEST or word in _NOUNS or (len(word) == 1 and word not in _FORMS):
        return word
    letters = _letters(word)
    tails = [(word[:length], len(_letters(word[:length]))) for length in range(1, len(word))]
    for noun, start in reversed(tails):
        if noun in _NOUNS and _compiled(_PARTICLES).fullmatch(letters, start):
            return noun
    if verb := _verb(letters, 0, _table(_REGULAR, _B_VERBS, _D_VERBS, _S_VERBS, _H_VERBS, "하 시키")):
        return verb + CUT
    for noun, start in tails:
        if verb := _verb(letters, start, _table(_AFTER_NOUNS)):
            return noun + verb + CUT
    for noun, start in tails:
        if _compiled(_PARTICLES).fullmatch(letters, start) or _compiled(_COPULA).fullmatch(letters, start):
            return noun if stem(noun).endswith(CUT) else stem(noun)
    return _syllables(letters.removesuffix(_letters("ᆸ니다")))


def without_particles(wording: str) -> str:
    """Return a wording without the particles behind its last noun; other text is returned as it is.

    >>> without_particles("백금 촉매의"), without_particles("약속을 지켰다")
    ('백금 촉매', '약속을 지켰다')
    """
    before, space, last = wording.rpartition(" ")
    noun = stem(last)
    return before + space + noun if last.startswith(noun) else wording

"""Korean particles: what may follow a noun without a space and leave it the same word.

Korean is written with spaces, but particles and the copula are joined to the noun: 프린터가, 프린터에서는,
프린터입니다. Many have two forms, one after a vowel and one after a final consonant, which tells 파가 from
파이 (a pie).
"""

from __future__ import annotations

_FIRST, _LAST = "가", "힣"  # the precomposed syllables
_FINALS = 28  # final consonants of a syllable, "none" among them
_RIEUL = 8  # the final consonant after which 로 stands as after a vowel: 파일로


def _set(particles: str) -> frozenset[str]:
    return frozenset(particles.split())


_ANY = _set(
    "의 에 에서 에게 에게서 께 께서 한테 한테서 도 만 까지 부터 마다 처럼 같이 보다 밖에 조차 마저 뿐 들 하고 대로 만큼"
    " 이다 입니다 이고 이며 인 인데 이지만 이라는 이라고 이므로 이었다 이면"
)
_AFTER_VOWEL = _set("가 는 를 와 라 라는 라고 라도 라면 나 나마 란 랑 든지 든가 며 였다")
_AFTER_CONSONANT = _set(
    "이 은 을 과 으로 으로서 으로써 으로부터 이나 이나마 이란 이랑 이라 이라도 이라면 이든지 이든가"
)
_RO = _set("로 로서 로써 로부터")
_EVERY = sorted(_ANY | _AFTER_VOWEL | _AFTER_CONSONANT | _RO)

# After a noun of one syllable these make other words too often: 지 + 도 is 지도 (map), 회 + 의 is 회의 (meeting).
_DOUBTFUL = _set("의 도 만 과 나 라 란 며 인 들 로")


def is_syllable(character: str) -> bool:
    """Whether it is a Hangul syllable."""
    return _FIRST <= character <= _LAST


def particles_only(noun: str, rest: str) -> bool:
    """Whether ``rest``, which follows ``noun`` without a space, is particles alone.

    ``noun`` is what stands before it in the same word; of one syllable, it takes no particle that would likely make
    another word.
    """
    ends = [True] + [False] * len(rest)  # whether rest[:at] is particles alone
    for at in range(len(rest)):
        if ends[at]:
            before = rest[at - 1] if at else noun[-1]
            for particle in _EVERY:
                doubtful = not at and len(noun) == 1 and particle in _DOUBTFUL
                if rest.startswith(particle, at) and not doubtful and _fits(before, particle):
                    ends[at + len(particle)] = True
    return bool(noun) and ends[-1]


def _fits(last: str, particle: str) -> bool:
    """Whether the particle has the form that stands after ``last``."""
    if particle in _ANY or not is_syllable(last):
        return True
    final = (ord(last) - ord(_FIRST)) % _FINALS
    if particle in _RO:
        return final in (0, _RIEUL)
    return (final == 0) == (particle in _AFTER_VOWEL)

"""A data set of the WikiXPR form from term lists and monolingual text: eight languages with English.

    python bench/xpr_data.py .cache/xpr
    python bench/xpr_data.py .cache/xpr-hard --dictionaries --apart

Phrases: interface strings, kinds of places, names of countries, languages and currencies (CLDR), of one to four words;
with `--dictionaries` their entries too. Text: the sides of the parallel corpora, each by itself; that they are parallel
is not used. With `--apart` no example sentence has its translation among those of the other side: the English side of a
line is left out where the other one is taken. Left out always: sentences of the test sets, and the first 15,000 lines
of a file that bench/phrase_retrieval.py takes its distractors from.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

from common import parser
from training_data import _EXPLAINED, DISTRACTORS, FIRST, key, tested

from phrasemate.cli.dataset import statistics
from phrasemate.dataset import SentenceFiles, Settings, build
from phrasemate.text import split_sentences, words

LANGS = ("de", "fr", "es", "cs", "ru", "ja", "zh", "ko")
SMALL = ("ru", "ko", "ja", "zh")  # with little text
LISTS, DICTIONARIES = ("libreoffice_ui", "osm", "cldr"), ("freedict", "ding", "edict")
MEANINGS = 6  # translations of a word in a dictionary, at most
THEIRS = 0.75  # share of the lines of which the other side is taken, not the English one
WORDS = 4  # of a phrase, at most
LEAST = 2  # examples of each side; with dictionaries, one more for languages with much text
SETTINGS = {"examples": 8, "max_words": WORDS, "most": 5000}
_KEYBOARD = re.compile(r"\s*\([A-Z]\)$")  # the key of a menu entry: 追加(A)
_TOKENISED = ("small_enja", "kyoto")
_APART = re.compile(r"(?<=[^\x00-\x7f]) (?=[^\x00-\x7f])")


def entries(data: Path, lang: str, dictionaries: bool) -> Iterator[tuple[str, str]]:
    """The plain entries of a language's lists, (other, English): the surest source first, dictionaries last, if wanted.

    Of a dictionary only what has few translations, the words with the fewest first.
    """
    found: dict[str, list[tuple[str, str]]] = {source: [] for source in (*LISTS, *DICTIONARIES)}
    with gzip.open(data / "terms" / f"en-{lang}.tsv.gz", "rt", encoding="utf-8") as file:
        for line in file:
            english, other, source = line.rstrip("\n").split("\t")
            found[source].append((_plain(other).rstrip("."), _plain(english).removeprefix("to ")))
    found["cldr"] = list(names(lang))
    for source in LISTS:
        yield from filter(_usable, found[source])
    if dictionaries:
        yield from clear(filter(_usable, (sides for source in DICTIONARIES for sides in found[source])))


def clear(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The pairs whose sides have at most `MEANINGS` translations, the fewest first."""
    once = list(dict.fromkeys(pairs))
    counts = [Counter(pair[side].casefold() for pair in once) for side in (0, 1)]
    meanings = {pair: max(counts[side][pair[side].casefold()] for side in (0, 1)) for pair in once}
    return sorted((pair for pair in once if meanings[pair] <= MEANINGS), key=meanings.__getitem__)


def _usable(sides: tuple[str, str]) -> bool:
    """One to four words without explanations; no names of functions, such as MONTH."""
    if sides[1].isupper() or any(_EXPLAINED.search(side) or side.count(" ") >= WORDS for side in sides):
        return False
    return all(1 <= len(words(side)) <= WORDS for side in sides)


def _plain(text: str) -> str:
    return _KEYBOARD.sub("", text.strip().removesuffix("...").removesuffix(":"))


def names(lang: str) -> Iterator[tuple[str, str]]:
    """The names of countries, languages, scripts and currencies, (other, English)."""
    from babel import Locale

    other, english = Locale.parse(lang), Locale.parse("en")
    for kind in ("territories", "languages", "scripts", "currencies"):
        theirs, ours = getattr(other, kind), getattr(english, kind)
        yield from ((theirs[code], ours[code]) for code in sorted(ours) if code in theirs and not code.isdigit())


def rows(data: Path, lang: str, unwanted: set[str]) -> Iterator[tuple[str, str]]:
    """The usable (other, English) lines of a corpus."""
    with gzip.open(data / "parallel" / f"en-{lang}.tsv.gz", "rt", encoding="utf-8") as file:
        for number, line in enumerate(file):
            english, other, source = line.rstrip("\n").split("\t")
            keys = key(english), key(other)
            if (number >= FIRST or lang not in DISTRACTORS) and all(keys) and unwanted.isdisjoint(keys):
                yield _APART.sub("", other) if source in _TOKENISED else other, english


def write_texts(data: Path, work: Path, lang: str, english: set[str], unwanted: set[str], apart: bool) -> None:
    """The sentences of a language, and the English ones that go with them: of ``english``, but no translations."""
    kept = {key(other) for other, mate in rows(data, lang, unwanted) if not apart or _drawn(mate)}
    mates = {key(mate) for other, mate in rows(data, lang, unwanted) if apart and key(other) in kept}
    write(work / f"{lang}.txt", (o for o, _ in rows(data, lang, unwanted) if key(o) in kept), lang)
    write(work / f"{lang}-en.txt", (text for text in sorted(english) if key(text) not in mates), "en")


def _drawn(english: str) -> bool:
    """Whether the translation of a line is taken, not the line."""
    return blake2b(key(english).encode(), digest_size=1).digest()[0] < THEIRS * 256


def write(path: Path, lines: Iterable[str], lang: str) -> None:
    """One sentence a line."""
    with path.open("w", encoding="utf-8") as file:
        for line in lines:
            file.writelines(" ".join(line[a:b].split()) + "\n" for a, b in split_sentences(line, lang))


def main() -> None:
    """Write the data set; texts that are there are not made again."""
    options = parser(__doc__)
    options.add_argument("out", type=Path)
    options.add_argument("--langs", default=",".join(LANGS))
    options.add_argument("--apart", action="store_true", help="take one side of every sentence pair")
    options.add_argument("--dictionaries", action="store_true", help="take dictionary entries too")
    args = options.parse_args()
    work = args.out / ".work"
    work.mkdir(parents=True, exist_ok=True)
    unwanted = tested(args.data)
    english = {text for lang in LANGS for _, text in rows(args.data, lang, unwanted)}
    for lang in args.langs.split(","):
        if not (work / f"{lang}-en.txt").exists():
            write_texts(args.data, work, lang, english, unwanted, args.apart)
        least = LEAST + (args.dictionaries and lang not in SMALL)
        settings = Settings(**SETTINGS, least=least, seed=args.seed)
        sides = SentenceFiles(work / f"{lang}.txt"), SentenceFiles(work / f"{lang}-en.txt")
        report = build(args.out, (lang, "en"), entries(args.data, lang, args.dictionaries), *sides, settings)
        print(statistics(report), end="\n\n", flush=True)


if __name__ == "__main__":
    main()

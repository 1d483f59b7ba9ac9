"""Distinct sentences of one side of the mining, on disk with all their places, and the check of their language.

The language is checked by its scripts alone, or by an optional language identifier.
"""

from __future__ import annotations

import mmap
import re
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any, NamedTuple
from unicodedata import name

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.mine.work_folder import checked, seal
from phrasemate.text.normalize import composed, plain
from phrasemate.text.text_file import SkippedInput
from phrasemate.types import Document
from phrasemate.utils import import_extra
from phrasemate.utils.storage import is_entry

CHECKS = ("none", "script", "language")
LanguageCheck = Callable[[str], bool]
"""Function that returns whether a sentence passes the check."""

CONFIDENCE = 0.8  # minimum probability of another language; at most 0.2 % of correct sentences are then dropped
SHARE = 0.3  # minimum share of letters in the language's scripts: Russian text about programs may be half Latin
_CODE = re.compile(r"[a-z]{2,3}")
_SCRIPTS = {  # script, by the first word of its letters' Unicode names -> languages
    "ARABIC": (
        "acm acq aeb afb ajp apc ar arb arq ary arz ayl azb bal bqi ckb fa glk ks lrc mzn pnb prs ps sd skr sdh ug ur"
    ),
    "ARMENIAN": "hy",
    "BENGALI": "as bn bpy mni rkt syl",
    "CANADIAN": "cr iu ojb",
    "CHEROKEE": "chr",
    "CJK": "cdo cjy cmn cpx gan hak hsn ja ko lzh mnp nan wuu yue zh",
    "COPTIC": "cop",
    "CYRILLIC": (
        "ab abq ady alt ava av az ba be bg bua bxr ce chm crh cu cv dar inh kaa kbd kjh kk koi kpv krc krl "
        "kum kv ky lbe lez mdf mhr mk mn mns mrj myv nog os ru rue sah sr tab tg tt tyv udm uk uz xal"
    ),
    "DEVANAGARI": (
        "anp awa bgc bh bho brx bra dgo doi dty gom hi hne kfy kok kru ks mag mai mr mwr ne new npi pi raj sa "
        "sat sck sd"
    ),
    "ETHIOPIC": "am gez ti tig",
    "GEORGIAN": "ka lzz sva xmf",
    "GOTHIC": "got",
    "GREEK": "el grc pnt tsd",
    "GUJARATI": "gu",
    "GURMUKHI": "pa",
    "HANGUL": "ko",
    "HEBREW": "arc he hbo lad yi ydd",
    "HIRAGANA": "ja",
    "KANNADA": "kn",
    "KATAKANA": "ja",
    "KHMER": "km",
    "LAO": "lo",
    # languages that also have another script; a language that is not in this table has Latin alone
    "LATIN": (
        "az bal ber cdo cpx cr crh gom hak iu kaa kk kok krl lad lzz mn mni nan ojb pi pnt rif rue sat shi sr tg tmh "
        "tt tzm ug uz zgh"
    ),
    "MALAYALAM": "ml",
    "MEETEI": "mni",
    "MYANMAR": "blk kht ksw mnw my shn",
    "NKO": "nqo",
    "OL": "sat",
    "ORIYA": "or",
    "SINHALA": "pi si",
    "SYRIAC": "aii arc syc syr",
    "TAMIL": "ta",
    "TELUGU": "te",
    "THAANA": "dv",
    "THAI": "th",
    "TIBETAN": "adx bo dz lbj",
    "TIFINAGH": "ber rif shi tmh tzm zgh",
    "YI": "ii",
}


def checker(language: str, check: str = "script") -> LanguageCheck:
    """Make a function that checks whether a sentence is in a language.

    Args:
        language: Code such as "de"; "" if unknown, then every sentence with a letter passes.
        check: "script": at least 30 % of the letters are in a script of the language. "language": in addition, no
            other language has a probability of 0.8 or more (py3langid). "none": every sentence passes.

    Raises InputError for another check or an invalid code, MissingExtra without py3langid.
    """
    if check not in CHECKS:
        raise InputError(f"check {check!r}; expected one of {', '.join(CHECKS)}")
    code = language.lower().replace("_", "-").split("-")[0]
    if code and not _CODE.fullmatch(code):
        raise InputError(f"language {language!r}; expected a code such as de or zh")
    if check == "none":
        return lambda text: True
    if not code:
        if check == "language":
            raise InputError("no language to check for; give the codes of both languages, such as de and en")
        return lambda text: any(map(str.isalpha, text))
    if check == "script":
        return lambda text: in_scripts(text, scripts_of(code))
    identify = identifier(code)
    return lambda text: in_scripts(text, scripts_of(code)) and identify(text)


@cache
def scripts_of(code: str) -> frozenset[str]:
    """Return the scripts that a language is written in, by its code."""
    scripts = frozenset(script for script, codes in _SCRIPTS.items() if code in codes.split())
    return scripts or frozenset({"LATIN"})


@cache
def script_of(character: str) -> str:
    """Return the script of a letter: the first word of its Unicode name, such as LATIN or CJK; "" for non-letters."""
    return name(character, "").split(" ")[0] if character.isalpha() else ""


def in_scripts(text: str, scripts: frozenset[str]) -> bool:
    """Whether the text has letters, at least `SHARE` of them in the given scripts."""
    letters = [script for script in map(script_of, text) if script]
    return bool(letters) and sum(script in scripts for script in letters) >= SHARE * len(letters)


def identifier(code: str) -> LanguageCheck:
    """Make a function that checks a language with py3langid (naive Bayes over byte n-grams; Lui and Baldwin 2012).

    A sentence fails if another language has a probability of `CONFIDENCE` or more. Raises InputError for a language
    that py3langid does not know, MissingExtra without the package.
    """
    identifier = _identifier()
    if code not in identifier.nb_classes:
        raise InputError(f"language {code!r} is unknown to py3langid; use the check 'script'")

    def passes(text: str) -> bool:
        language, probability = identifier.classify(text)
        return bool(language == code or probability < CONFIDENCE)

    return passes


@cache
def _identifier() -> Any:
    langid = import_extra("py3langid.langid", "py3langid", "identify")
    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)


_PROGRESS_STEP = 10_000  # sentences between two calls of progress, and sentences read together
LONGEST = 2_000  # characters of a sentence; longer texts are dropped, since one vector describes them badly
_SUFFIXES = ("txt", "starts.npy", "lengths.npy", "places.npy", "first.npy")  # of the files of a collection
_FACTS = {"made_of": str, "key": str, "counts": dict, "documents": list, "hidden": int, "places": int}
_SKIPPED = [str, int, str, bool]  # types of the fields of a skipped input (`SkippedInput`)


class Place(NamedTuple):
    """Place of a sentence: name of the document and line in it, from 1."""

    document: str
    line: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of sentences of one side.

    ``read`` counts all sentences, ``long`` those dropped for their length. ``foreign`` were dropped as they failed the
    language check or have no text. ``distinct`` counts the sentences that are left, repeated ones once.
    """

    read: int
    long: int
    foreign: int
    distinct: int


class Collection:
    """Distinct sentences of one side, numbered from 0; `collect` opens it.

    Sentences are NFC-normalised, on one line, with single spaces (`normal`). Sentences with numbers from ``hidden`` on
    are in no document: they were added for the calibration. ``key`` is a hash of all sentences, ``lengths`` (n,) are
    characters, and ``skipped`` lists the inputs that could not be read.
    """

    def __init__(self, folder: Path, side: str, content: dict[str, Any]) -> None:
        paths = {kind: folder / f"{side}.{kind}" for kind in _SUFFIXES}
        self.counts = Counts(**content["counts"])
        self.documents: list[str] = content["documents"]
        self.key: str = content["key"]
        self.hidden: int = content["hidden"]
        self.skipped = [SkippedInput(*item) for item in content["skipped"]]
        self.starts: NDArray[np.int64] = np.load(paths["starts.npy"])  # (n + 1,) bytes
        self.lengths: NDArray[np.int32] = np.load(paths["lengths.npy"])  # (n,)
        self._places = np.load(paths["places.npy"], mmap_mode="r") if content["places"] else np.zeros((0, 2), np.int64)
        self._first: NDArray[np.int64] = np.load(paths["first.npy"])  # (n + 1,) first row in _places
        with paths["txt"].open("rb") as file:
            self._text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if len(self) else b""

    def __len__(self) -> int:
        return len(self.lengths)

    def text(self, number: int) -> str:
        """Return a sentence by number."""
        return self._text[self.starts[number] : self.starts[number + 1] - 1].decode("utf-8")

    def texts(self, numbers: slice) -> list[str]:
        """Return consecutive sentences; the slice needs a start and a stop."""
        return self._text[self.starts[numbers.start] : self.starts[numbers.stop]].decode("utf-8").split("\n")[:-1]

    def find(self, texts: set[str]) -> dict[str, int]:
        """Map texts to their numbers, ignoring variants of apostrophes and hyphens; missing texts are left out."""
        keys = set(map(plain, texts))
        blocks = (slice(at, min(at + _PROGRESS_STEP, len(self))) for at in range(0, len(self), _PROGRESS_STEP))
        places = (pair for block in blocks for pair in enumerate(self.texts(block), block.start))
        numbers = {key: number for number, text in places if (key := plain(text)) in keys}
        return {text: numbers[key] for text in texts if (key := plain(text)) in numbers}

    def places(self, number: int) -> tuple[Place, ...]:
        """Return the places of a sentence, in the order of reading."""
        rows = self._places[self._first[number] : self._first[number + 1]]
        return tuple(Place(self.documents[document], line) for document, line in rows.tolist())


def collect(
    folder: Path,
    side: str,
    documents: Iterable[Document],
    more: Sequence[str],
    keep: LanguageCheck,
    progress: Any = lambda count: None,
    corpus: Iterable[Document] = (),
) -> Collection:
    """Collect the distinct sentences of one side, or reuse those in the work folder.

    Args:
        folder: Work folder.
        side: Name of the side, "source" or "target".
        documents: Documents to read.
        more: Sentences that are added although they are in no document, for the calibration.
        keep: Check that a sentence must pass.
        progress: Called with the number of sentences read so far.
        corpus: Origin of the documents, such as a `Corpus`. If a former run skipped inputs, and the corpus does not
            allow that, the documents are read again.

    Raises ReadError for an unreadable document, InputError if no sentence is left.
    """
    facts, documents = folder / f"{side}.json", list(documents)
    content = checked(facts, **_FACTS)
    key = sha256("\n".join([*(text.digest for text in documents), "", *more]).encode("utf-8", "replace")).hexdigest()
    if content is not None and not (content["made_of"] == key and _is_whole(content, len(documents))):
        content = None
    if content is None or (content["skipped"] and not getattr(corpus, "skips", True)):
        collection = _DistinctSentences(keep)
        for document in documents:
            collection.read(document, progress)
        content = collection.write(folder, side, more) | {
            "made_of": key,
            "skipped": list(getattr(corpus, "skipped", ())),
        }
        seal(facts, content, [folder / f"{side}.{kind}" for kind in _SUFFIXES])
    if not content["counts"]["distinct"]:
        read = content["counts"]["read"]
        raise InputError(f"{side}: none of {read:,} sentences can be used; check the text, --{side}-lang and --check")
    return Collection(folder, side, content)


def _is_whole(content: dict[str, Any], documents: int) -> bool:
    """Whether the facts of a stored collection have the right types and are consistent."""
    counts = content["counts"]
    if not is_entry(counts, dict.fromkeys(Counts.__slots__, int)) or min(counts.values()) < 0:
        return False
    skipped = content.get("skipped")
    if not isinstance(skipped, list):
        return False
    if not all(isinstance(item, list) and [*map(type, item)] == _SKIPPED for item in skipped):
        return False
    return content["hidden"] == counts["distinct"] and len(content["documents"]) == documents


def normal(text: str) -> str:
    """Normalise a sentence: NFC, single spaces, on one line, lone surrogates replaced."""
    return composed(" ".join(text.split())).encode("utf-8", "replace").decode("utf-8")


class _DistinctSentences:
    """Sentences in memory while documents are read: each distinct one once, with its places."""

    def __init__(self, keep: LanguageCheck) -> None:
        self._keep = keep
        self._numbers: dict[bytes, int] = {}  # hash of a sentence -> its number, -1 for a dropped one
        self._texts: list[bytes] = []
        self._lengths = array("i")
        self._places = array("q")  # triples: sentence, document, line
        self._documents: list[str] = []
        self._read = self._long = self._foreign = 0

    def read(self, document: Document, progress: Any) -> None:
        """Add the sentences of a document."""
        self._documents.append(document.name)
        for sentence in document.sentences():
            self._read += 1
            number = self._number(sentence.text)
            if number >= 0:
                self._places.extend((number, len(self._documents) - 1, sentence.line))
            if not self._read % _PROGRESS_STEP:
                progress(self._read)
        progress(self._read)

    def _number(self, raw: str) -> int:
        """Return the number of a sentence, a new one if it is new; -1 if it is dropped."""
        text = normal(raw)
        digest = blake2b(plain(text).encode(), digest_size=12).digest()
        number = self._numbers.get(digest)
        if number is None:
            number = self._numbers[digest] = self._new(text)
        elif number == -1:
            self._count(text)
        return number

    def _new(self, text: str) -> int:
        """Add a new sentence and return its number; -1 if it is dropped."""
        if not self._count(text):
            return -1
        self._texts.append(text.encode())
        self._lengths.append(len(text))
        return len(self._texts) - 1

    def _count(self, text: str) -> bool:
        """Return whether a sentence passes; count it as too long or foreign if not."""
        if len(text) > LONGEST:
            self._long += 1
        elif not (text and self._keep(text)):
            self._foreign += 1
        else:
            return True
        return False

    def write(self, folder: Path, side: str, more: Sequence[str]) -> dict[str, Any]:
        """Write the sentences, with ``more`` hidden ones at the end, to files; return the facts for `Collection`."""
        counts = Counts(self._read, self._long, self._foreign, len(self._texts))
        for text in more:
            self._number(text)
        starts = np.concatenate([[0], np.cumsum([len(text) + 1 for text in self._texts])]).astype(np.int64)
        places = np.array(self._places, np.int64).reshape(-1, 3)
        places = places[np.argsort(places[:, 0], kind="stable")]
        first = np.searchsorted(places[:, 0], np.arange(len(self._texts) + 1))
        digest = sha256()
        with (folder / f"{side}.txt").open("wb") as file:
            for sentence in self._texts:
                line = sentence + b"\n"
                digest.update(line)
                file.write(line)
        arrays: tuple[NDArray[Any], ...] = (starts, np.array(self._lengths, np.int32), places[:, 1:], first)
        for kind, values in zip(_SUFFIXES[1:], arrays, strict=True):
            np.save(folder / f"{side}.{kind}", values, allow_pickle=False)
        facts = {"counts": asdict(counts), "documents": self._documents, "hidden": counts.distinct}
        return facts | {"key": digest.hexdigest(), "places": len(places)}

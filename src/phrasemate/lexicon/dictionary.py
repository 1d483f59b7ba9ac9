"""A user's own dictionaries and term bases, read into memory and looked up in both directions."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from glob import escape
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, cast
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from phrasemate.errors import IndexDamaged, InputError, ReadError
from phrasemate.lexicon.endings import bundled_endings
from phrasemate.lexicon.formats import (
    Entry,
    book_name,
    ending,
    memory_entries,
    plain_text_entries,
    read_dictd,
    read_stardict,
    table_entries,
    term_base_entries,
)
from phrasemate.lexicon.inflection import elision, without_function_words
from phrasemate.lexicon.wordings import BY_SPELLING, LOOKUPS, Equivalent, Keys, Wordings, encoded, in_readings
from phrasemate.text import words
from phrasemate.text.languages import language_code, languages_in, primary
from phrasemate.text.normalize import composed, folded
from phrasemate.text.text_file import without_options
from phrasemate.types import check_list
from phrasemate.utils.arrays import Rows
from phrasemate.utils.storage import install, save_arrays, sync

PAIRS = 4_000_000  # pairs of wordings in a dictionary, at most
FORMAT = "phrasemate dictionary 1"  # ``origin`` of the dictionaries stored in an index
CACHE_BYTES = 500_000  # least size of the files of a dictionary that is cached
CACHE_VERSION = 5  # raise it when the same file is parsed differently
TERM_WORDS = 6  # words of a term that `terms_in` looks up, at most
_READ = (
    ".tsv, .csv, .txt, .tbx, .xml (MultiTerm), .tmx, .xlf (each also with .gz), .xlsx, .ifo (StarDict) and "
    ".index (dictd)"
)
_OF_SETS = (".idx", ".dict", ".syn", ".dz")  # companions of an .ifo or .index file


class _Side(NamedTuple):
    """The wordings of one language or column of a dictionary, folded and sorted, with links to their equivalents."""

    language: str
    keys: Keys
    bounds: Rows  # (keys + 1,): where the links of each key begin
    links: Rows  # (links,): numbers of wordings of other sides, best first for each key


class Dictionary:
    """Equivalents of wordings, from entries such as ``[("de", "Haus"), ("en", "house"), ("en", "building")]``.

    An entry lists wordings with the same meaning, each with its language, or with the number of its column if the
    language is unknown. ``name`` is the source of the equivalents. Raises InputError for more than 4,000,000 pairs, or
    for none.

    >>> dictionary = Dictionary("mine", [[("de", "Haus"), ("en", "house"), ("en", "building")]])
    >>> [equivalent.text for equivalent in dictionary.equivalents("das Haus", "de", "en")]
    ['house', 'building']
    """

    has_ranks = True  # weights are derived from ranks; those of other lexicons are probabilities

    def __init__(self, name: str, entries: Iterable[Entry]) -> None:
        self.name = name
        self._texts, self._sides, self._side_of = _indexed(name, entries)

    @classmethod
    def load(cls, path: str | Path, origin: str) -> Dictionary | None:
        """Read a file that `save` wrote; None if it is missing, damaged or of another ``origin``."""
        dictionary = cls.__new__(cls)
        try:
            with cast(Any, safe_open(path, "numpy")) as file:
                about = file.metadata() or {}
                if about.get("origin") != origin:
                    return None
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is not a mapping)
        except (OSError, SafetensorError):
            return None
        if about.get("crc") != _checksum(arrays):
            return None
        dictionary.name, dictionary._side_of = about["name"], arrays["side of"]
        dictionary._texts = Wordings(arrays["texts"], arrays["ends of texts"])
        dictionary._sides = [
            _Side(
                language,
                Keys(Wordings(arrays[f"{place} keys"], arrays[f"{place} ends of keys"])),
                arrays[f"{place} bounds"],
                arrays[f"{place} links"],
            )
            for place, language in enumerate(json.loads(about["languages"]))
        ]
        return dictionary

    def save(self, path: str | Path, origin: str) -> None:
        """Write the dictionary to a file for `load`. ``origin``: identifies its source. Raises OSError."""
        arrays: dict[str, NDArray[Any]] = {
            "side of": self._side_of,
            "texts": self._texts.blob,
            "ends of texts": self._texts.ends,
        }
        for place, side in enumerate(self._sides):
            keys = side.keys.wordings
            arrays |= {f"{place} keys": keys.blob, f"{place} ends of keys": keys.ends}
            arrays |= {f"{place} bounds": side.bounds, f"{place} links": side.links}
        about = {"name": self.name, "origin": origin, "languages": json.dumps(self.languages), "crc": _checksum(arrays)}
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}.part")  # another process may cache the same dictionary
        try:
            save_arrays(partial, arrays, about)
            sync(partial)
            install(partial, path)
        finally:
            partial.unlink(missing_ok=True)

    @property
    def languages(self) -> list[str]:
        """The language of each side; "" if unknown."""
        return [side.language for side in self._sides]

    def __len__(self) -> int:
        """Count the distinct wordings of all sides."""
        return sum(len(side.keys.wordings) for side in self._sides)

    def equivalents(self, wording: str, lang: str = "", target: str = "") -> list[Equivalent]:
        """Return the equivalents of a wording, best first, with weights proportional to 1 / rank that sum to 1.

        The wording is looked up folded (case, white space), then without leading function words, then with accents,
        then by its stems, then by other forms of its last word. The first look-up that succeeds is used. A side of
        unknown language matches any language.

        Args:
            wording: Word or phrase to look up.
            lang: Language of the wording; "" for any.
            target: Language of the equivalents; "" for any.
        """
        return in_readings(wording, lang, lambda reading: self._of_reading(reading, lang, target))

    def _of_reading(self, wording: str, lang: str, target: str) -> list[Equivalent]:
        """Return the equivalents of a folded wording, as `equivalents` does."""
        sides = [side for side in self._sides if _fits(side.language, lang)]
        for lookup in (*LOOKUPS, _other_forms):
            weights: dict[int, float] = {}
            for side in sides:
                for row in lookup(side.keys, wording, side.language or lang):
                    links = side.links[side.bounds[row] : side.bounds[row + 1]].tolist()
                    for rank, number in enumerate(links, 1):
                        weights[number] = max(weights.get(number, 0.0), 1 / rank)
            if weights:
                return self._equivalents(weights, target, lookup in BY_SPELLING)
        return []

    def _equivalents(self, weights: dict[int, float], target: str, exact: bool) -> list[Equivalent]:
        ranking = sorted(weights.items(), key=lambda item: -item[1])
        languages = {number: self._sides[int(self._side_of[number])].language for number, _ in ranking}
        fitting = [(number, weight) for number, weight in ranking if _fits(languages[number], target)]
        total = sum(weight for _, weight in fitting)
        return [
            Equivalent(self._texts[number], weight / total, self.name, languages[number], exact)
            for number, weight in fitting
        ]


def _other_forms(keys: Keys, wording: str, language: str) -> list[int]:
    """Return the rows of the most reliable other forms of a wording (`Endings.forms`)."""
    endings = bundled_endings()
    forms = endings.forms(wording, primary(language), keys.wordings) if endings else []
    return [form.row for form in forms if form.reliability == forms[0].reliability]


def _checksum(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Compute the CRC-32 of arrays, in the order of their names."""
    value = 0
    for name in sorted(arrays):
        value = crc32(memoryview(np.ascontiguousarray(arrays[name])).cast("B"), value)  # type: ignore[arg-type]
    return f"{value:08x}"


class DictionaryFolder:
    """The dictionaries stored in an index: one file for each in its folder ``dictionaries``.

    >>> folder = DictionaryFolder("idx")
    >>> folder.add(Dictionary("mine.tsv", [[("de", "Haus"), ("en", "house")]]))
    >>> folder.names()
    ['mine.tsv']
    """

    def __init__(self, index: str | Path) -> None:
        self.path = Path(index) / "dictionaries"

    def names(self) -> list[str]:
        """List the names of the dictionaries in alphabetical order."""
        return sorted(file.stem for file in self.path.glob("*.safetensors"))

    def read(self) -> list[Dictionary]:
        """Read all dictionaries. Raises IndexDamaged for one that is damaged or of another format."""
        dictionaries = []
        for name in self.names():
            dictionary = Dictionary.load(self._file(name), FORMAT)
            if dictionary is None:
                raise IndexDamaged(f"{self._file(name)}: is damaged; remove the dictionary and give it again")
            dictionaries.append(dictionary)
        return dictionaries

    def add(self, dictionary: Dictionary) -> None:
        """Store a dictionary, replacing one of the same name. Raises OSError."""
        dictionary.save(self._file(dictionary.name), FORMAT)

    def remove(self, name: str) -> None:
        """Remove a dictionary. Raises InputError for an unknown name."""
        if name not in self.names():
            raise InputError(f"no dictionary {name!r}; this index has: {', '.join(self.names()) or 'none'}")
        self._file(name).unlink()

    def _file(self, name: str) -> Path:
        return self.path / f"{name}.safetensors"


def _indexed(name: str, entries: Iterable[Entry]) -> tuple[Wordings, list[_Side], Rows]:
    """Build the wordings of the entries, the look-up table of each side, and the side of each wording, (wordings,)."""
    numbers: dict[tuple[int | str, str], int] = {}
    rows_here, rows_there = array("q"), array("q")
    for entry in entries:
        wordings = [(side, composed(text)) for side, text in entry]
        rows = {wording: numbers.setdefault(wording, len(numbers)) for wording in wordings}
        for (side, _), row in rows.items():
            links = [row_there for (language, _), row_there in rows.items() if language != side]
            rows_here.extend([row] * len(links))
            rows_there.extend(links)
        if len(rows_here) > 2 * PAIRS:
            raise InputError(f"{name}: more than {PAIRS:,} pairs of wordings; expected a smaller dictionary")
    if not rows_here:
        raise InputError(f"{name}: no pair of wordings in two languages; expected a dictionary")
    names = list(dict.fromkeys(side for side, _ in numbers))
    places = {side: place for place, side in enumerate(names)}
    side_of = np.fromiter((places[side] for side, _ in numbers), np.int64, len(numbers))
    texts = [text for _, text in numbers]
    numbers.clear()
    pairs = np.stack([np.frombuffer(rows_here, np.int64), np.frombuffer(rows_there, np.int64)])
    sides = [
        _side(side if isinstance(side, str) else "", place, texts, side_of, pairs) for place, side in enumerate(names)
    ]
    return Wordings.of(texts), sides, side_of


def _fits(language: str, expected: str) -> bool:
    return not expected or not language or primary(language) == primary(expected)


def _side(language: str, place: int, texts: list[str], side_of: Rows, pairs: Rows) -> _Side:
    """Build the look-up table of one side; duplicate links are removed.

    ``pairs`` (2, links): numbers of linked wordings, this side's in the first row.
    """
    pair_rows = np.flatnonzero(side_of == place)
    keys = [folded(texts[number]) for number in pair_rows]
    distinct = sorted(set(keys), key=encoded)
    place_of = {key: row for row, key in enumerate(distinct)}
    row_of = np.zeros(len(texts), np.int64)
    row_of[pair_rows] = [place_of[key] for key in keys]
    rows_here, rows_there = pairs[:, side_of[pairs[0]] == place]
    rows = row_of[rows_here]
    order = np.argsort(rows, kind="stable")
    rows, rows_there = rows[order], rows_there[order]
    _, first = np.unique(rows * len(texts) + rows_there, return_index=True)
    first.sort()
    rows, rows_there = rows[first], rows_there[first]
    return _Side(language, Keys(Wordings.of(distinct)), np.searchsorted(rows, np.arange(len(distinct) + 1)), rows_there)


def open_dictionaries(
    paths: Iterable[str | os.PathLike[str]],
    languages: Sequence[str] = (),
    cache: str | Path | None = None,
    show: Callable[[Path], object] = lambda path: None,
) -> list[Dictionary]:
    """Open dictionaries in any supported format, recognised by the name and content of each file.

    Args:
        paths: Files, and folders of which all dictionaries are opened.
        languages: Languages of the first and the second side, for dictionaries that do not state them.
        cache: Folder that caches parsed large dictionaries, as half a million entries take many seconds to parse. They
            are parsed again when one of their files changes.
        show: Called with each large dictionary that is not cached, before it is read.

    Raises ReadError for a file that is not a dictionary, is damaged, or is too large.
    """
    check_list(paths, "files")
    files = [file for path in paths for file in _files(Path(path))]
    folder = None if cache is None else Path(cache)
    return [_opened(file, tuple(languages), folder, show) for file in dict.fromkeys(files)]


def _opened(path: Path, languages: tuple[str, ...], cache: Path | None, show: Callable[[Path], object]) -> Dictionary:
    """Open one dictionary, from the cache if it is large and cached."""
    facts = [file.stat() for file in sorted(path.parent.glob(f"{escape(path.stem)}.*"))] if cache else []
    if cache is None or sum(fact.st_size for fact in facts) < CACHE_BYTES:
        return _read(path, languages)
    key = json.dumps([str(path.resolve()), languages])
    origin = json.dumps([CACHE_VERSION, key, [(fact.st_size, fact.st_mtime_ns) for fact in facts]])
    place = cache / f"{sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.safetensors"
    dictionary = Dictionary.load(place, origin)
    if dictionary is None:
        show(path)
        dictionary = _read(path, languages)
        with suppress(OSError):  # a cache that cannot be written
            dictionary.save(place, origin)
    return dictionary


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [_main_file(path)]
    files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    sets = {file.stem for file in files if file.suffix in (".ifo", ".index")}
    selection = [file for file in files if file.suffix not in _OF_SETS or file.name.split(".")[0] not in sets]
    selection = [file for file in selection if ending(file) in _READERS]
    if not selection:
        raise ReadError(str(path), 0, f"no dictionary in this folder; expected {_READ}", "give the path of a file")
    return selection


def _main_file(path: Path) -> Path:
    """Return the .ifo or .index file if the path is a companion of one."""
    if path.suffix.lower() not in _OF_SETS:
        return path
    stem = path.with_suffix("") if path.suffix.lower() == ".dz" else path
    return next((main for end in (".ifo", ".index") if (main := stem.with_suffix(end)).is_file()), path)


def _headword_entries(path: Path) -> Iterator[Entry]:
    """Read the headwords of a StarDict or dictd dictionary; languages are taken from its title or file name."""
    is_stardict = ending(path) == ".ifo"
    first, second = languages_in(f"{path.name} {book_name(path)}" if is_stardict else path.name)
    for word, texts in read_stardict(path) if is_stardict else read_dictd(path):
        yield [(first or 0, word), *((second or 1, text) for text in texts)]


_READERS: dict[str, Callable[[Path], Iterator[Entry]]] = {
    **dict.fromkeys((".tmx", ".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff"), memory_entries),
    **dict.fromkeys((".tsv", ".csv", ".xlsx"), table_entries),
    **dict.fromkeys((".tbx", ".xml"), term_base_entries),
    **dict.fromkeys((".ifo", ".index"), _headword_entries),
    ".txt": plain_text_entries,
}


def _read(path: Path, languages: tuple[str, ...]) -> Dictionary:
    reader = _READERS.get(ending(path))
    if reader is None:
        raise ReadError(str(path), 0, f"no dictionary by its name; expected {_READ}", "convert or rename it")
    try:
        with without_options():
            return Dictionary(path.name, _in_languages(reader(path), languages))
    except ReadError:
        raise
    except InputError as error:
        raise ReadError(str(path), 0, str(error).partition(": ")[2].partition("; ")[0], "check the file") from None


def _in_languages(entries: Iterator[Entry], languages: tuple[str, ...]) -> Iterator[Entry]:
    """Assign languages to the sides that have none."""
    codes = [language_code(language) or language for language in languages]
    for entry in entries:
        yield [
            (codes[side], text) if isinstance(side, int) and side < len(codes) else (side, text) for side, text in entry
        ]


class TermOccurrence(NamedTuple):
    """A term in a sentence, ``sentence[start:end]``, and its equivalents, best of each dictionary first."""

    start: int
    end: int
    equivalents: tuple[str, ...]


def terms_in(
    sentence: str, dictionaries: Sequence[Dictionary], lang: str = "", target: str = ""
) -> list[TermOccurrence]:
    """List the terms of a sentence that the dictionaries list, in order, without overlaps.

    Of overlapping terms the longest is taken, then the first. A term may follow an elided word: "école" in "l'école".
    ``lang`` and ``target``: languages of the sentence and of the equivalents, "" for any.
    """
    spans = [(a + elision(sentence[a:b], lang), b) for a, b in words(sentence)] if dictionaries else []
    covered_words = [False] * len(spans)
    terms = []
    for size in range(min(TERM_WORDS, len(spans)), 0, -1):
        for first in range(len(spans) - size + 1):
            if any(covered_words[first : first + size]):
                continue
            start, end = spans[first][0], spans[first + size - 1][1]
            wording = sentence[start:end]
            if without_function_words(wording, lang) != folded(wording):  # a shorter span omits these words
                continue
            equivalents = dict.fromkeys(
                str(equivalent.text)
                for dictionary in dictionaries
                for equivalent in dictionary.equivalents(wording, lang, target)
            )
            if equivalents:
                terms.append(TermOccurrence(start, end, tuple(equivalents)))
                covered_words[first : first + size] = [True] * size
    return sorted(terms)

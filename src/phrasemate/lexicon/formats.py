"""Parsers of dictionary files: tables, term bases, translation memories, StarDict, dictd.

Tables that phrasemate wrote have one term in a cell, which is kept as it is. Cells of other tables and definitions are
cleaned by a few cautious rules; any other text is kept.

- Notes in brackets are removed: "(...)", "[...]", "{...}", "<...>". The text of a note is kept if a cell has nothing
  else. Letters in brackets within a word are part of it: "colo(u)r" gives "colour".
- A pronunciation between slashes is removed: "bench /bentʃ/".
- Semicolons, bars and the ideographic comma separate equivalents: "house; building". A comma does so only if each part
  has one or two words; a part that is an article ("Haus, das") is a note. No separator counts inside brackets or
  quotation marks. Both are removed if they enclose an equivalent: '"salt; pepper"; spice' gives "salt; pepper" and
  "spice".
- A grammatical abbreviation with a full stop at the end is removed: "Haus n.", "to go v.".

StarDict files are parsed as its documentation "Format for StarDict dictionary files" describes.
"""

from __future__ import annotations

import gzip
import html
import re
import zlib
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path

from phrasemate.errors import ReadError
from phrasemate.text.formats.bilingual import one_line, stream_units
from phrasemate.text.formats.tables import csv_rows, meant, sheet_rows, tsv_rows
from phrasemate.text.formats.units import UNKNOWN
from phrasemate.text.languages import language_code, languages_in
from phrasemate.text.term_lists import PAIR_COLUMNS, stream_terms
from phrasemate.text.text_file import Damage, TextFile

_MOST = 50  # equivalents of one cell, at most
_LONGEST = 120  # characters of an equivalent; longer texts are explanations
_MOST_WORDS = 8  # words of an equivalent in a definition, at most
_NOTES = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}|<[^<>]*>|（[^（）]*）|【[^【】]*】")
_OPTIONAL = re.compile(r"(?<=\w)\((\w+)\)(?=\w)")
_BRACKETS = re.compile(r"[()\[\]{}<>（）【】]")
_PRONOUNCED = re.compile(r"\s/[^/]{1,100}/(?=\s|$)")
_QUOTATION = rf"""(?<!\w)(?:"[^"]{{1,{_LONGEST}}}"|[“„][^“”]{{1,{_LONGEST}}}[“”]|«[^«»]{{1,{_LONGEST}}}»)(?!\w)"""
_PARTS = re.compile(rf"(?:{_QUOTATION}|{_NOTES.pattern}|[^;|；、])+")
_PIECES = re.compile(rf"(?:{_QUOTATION}|{_NOTES.pattern}|[^,，،])+")
_ENCLOSED = re.compile(_QUOTATION)
_SEPARATOR, _COMMA = re.compile("[;|；、]"), re.compile("[,，،]")
_ARTICLES = {
    *("der", "die", "das", "le", "la", "les", "l'", "un", "une", "el", "los", "las", "il", "lo", "gli", "the", "to")
}
_CLASSES = "n|m|f|nt|neut|masc|fem|pl|sg|sing|adj|adv|v|vt|vi|vr|prep|conj|pron|interj|num"
_GRAMMAR = re.compile(rf"\s+(?:(?:{_CLASSES})\.\s*)+$", re.IGNORECASE)
_GRAMMAR_ALONE = re.compile(rf"(?:(?:{_CLASSES}|Pl|Sg)\b\.?[\s/]*)+")  # "f", "m/f", "f pl." after a comma
_NUMBER = re.compile(r"^\s*(?:\(?\d{1,3}[.)]|\(?[a-z]\)|[ivx]{1,4}\.|[①-⑳•▪◦*·-]\s)\s*", re.IGNORECASE)
_LABEL = re.compile(
    r"^\s*(?:note|synonyms?|antonyms?|see(?: also)?|usage|example|etym\w*|cf\.?|vgl\.?|z\.\s?b\.)\s*:", re.I
)
_QUOTED = re.compile(r"^\s*[\"“„«]")
_BREAK_TAG = re.compile(r"<\s*(?:/?(?:p|div|li|ol|ul|tr|table|def|dtrn|blockquote)|br\s*/?)\b[^<>]*>", re.IGNORECASE)
_HIDDEN_TAG = re.compile(
    r"<\s*(style|script|k|ex|tr|abr|co|c|kref|iref|rref|su|pos|gr)\b[^<>]*>[^<]*<\s*/\s*\1\s*>", re.IGNORECASE
)
_TAG = re.compile(r"<[^<>]*>")


def alternatives(cell: str) -> list[str]:
    """Split a cell into its equivalents, in order: at most 50, each of at most 120 characters."""
    return _distinct(_split(_bare(cell), 2))


def definition_equivalents(definition: str, headword: str = "") -> list[str]:
    """Extract the equivalents from the definition of a dictionary, in order.

    Notes, cross-references, quoted examples, numbers of senses and a first line that repeats the headword are removed.
    Commas separate equivalents of up to eight words; longer texts are explanations and are omitted.
    """
    texts = []
    lines = definition.splitlines()
    for number, line in enumerate(lines):
        if _LABEL.match(line) or _QUOTED.match(line):
            continue
        bare = _bare(_NUMBER.sub("", line, count=1))
        if number == 0 and len(lines) > 1 and bare.casefold() == _bare(headword).casefold():
            continue
        texts += [text for text in _split(bare, _MOST_WORDS) if text.count(" ") < _MOST_WORDS]
    return _distinct(iter(texts))


def plain_markup(text: str) -> str:
    """Convert HTML, Pango or XDXF markup to plain text: one line per block, no headwords, examples or labels."""
    text = _HIDDEN_TAG.sub(" ", text)
    return html.unescape(_TAG.sub("", _BREAK_TAG.sub("\n", text)))


def _bare(cell: str) -> str:
    """Remove the notes from a cell, unless it has nothing else."""
    text = cell
    if _BRACKETS.search(text):
        text = _OPTIONAL.sub(r"\1", text)
        for _ in range(3):  # notes within notes
            text = _NOTES.sub(" ", text)
    text = _tidy(_PRONOUNCED.sub(" ", text) if "/" in text else text)
    return text if any(map(str.isalnum, text)) else _tidy(cell)


def _split(text: str, words: int) -> Iterator[str]:
    for part in _PARTS.findall(text) if _SEPARATOR.search(text) else [text]:
        pieces = [_tidy(piece) for piece in _PIECES.findall(part)] if _COMMA.search(part) else [_tidy(part)]
        pieces = pieces[:1] + [piece for piece in pieces[1:] if not _GRAMMAR_ALONE.fullmatch(piece)]
        pieces = [piece for piece in pieces if piece and piece.casefold() not in _ARTICLES]
        if all(piece.count(" ") < words for piece in pieces):
            yield from pieces
        else:
            yield part


def _distinct(texts: Iterator[str]) -> list[str]:
    distinct: dict[str, None] = {}
    for text in texts:
        text = _tidy(_GRAMMAR.sub("", text) if "." in text else text)
        text = text[1:-1].strip() if _ENCLOSED.fullmatch(text) else text
        text = _tidy(_BRACKETS.sub(" ", text)) if _NOTES.search(text) else text
        if text and len(text) <= _LONGEST and any(map(str.isalnum, text)):
            distinct.setdefault(text)
        if len(distinct) == _MOST:
            break
    return list(distinct)


def _tidy(text: str) -> str:
    return " ".join(text.split()).strip(" ,;:=·–—")


Entry = list[tuple[int | str, str]]
"""Wordings with the same meaning, each with its language, or its column number if the language is unknown."""

_SHORT = 80  # characters of a translation-memory segment that is used as an entry, at most
_SHORT_WORDS = 8
_SOURCE = frozenset({"source", "term", "headword", "word", "source term", "lemma"})
_TARGET = frozenset({"target", "translation", "equivalent", "target term"})
_BARS = re.compile(r"\s*\|\s*")
_DING = " :: "


def text_file(path: Path) -> TextFile:
    """Describe the file at a path as UTF-8 text, compressed if its name ends in .gz."""
    return TextFile(path, str(path), path.suffix.lower() == ".gz", "utf-8", Damage(skip=False))


def ending(path: Path) -> str:
    """Return the suffix of a file name in lower case, such as ".tsv", without ".gz"."""
    return (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()


def memory_entries(path: Path) -> Iterator[Entry]:
    """Read the units of a translation memory (TMX, XLIFF) that have short segments, unchanged."""
    for unit in stream_units(text_file(path), "tmx" if ".tmx" in path.name.lower() else "xliff"):
        sides = [(side.language, one_line(side.text)) for side in unit.sides]
        short = [
            (lang, text) for lang, text in sides if text and len(text) <= _SHORT and text.count(" ") < _SHORT_WORDS
        ]
        if len(short) > 1:
            known_sides = [_side(language) for language, _ in short]
            yield [(number if side == "" else side, short[number][1]) for number, side in enumerate(known_sides)]


def term_base_entries(path: Path) -> Iterator[Entry]:
    """Read the concepts of a TBX file, with the terms of all languages, unchanged."""
    for _, terms in groupby(stream_terms(text_file(path), "*"), lambda term: term.id):
        yield [(_side(term.language), one_line(term.text)) for term in terms]


_SIDES: dict[str, int | str] = {**{tag: side for side, tag in enumerate(UNKNOWN)}, "source": 0, "target": 1, "und": ""}


def _side(language: str) -> int | str:
    """Return the language of a wording, or its side (0 or 1) if only this is known, or "" if nothing is known."""
    return _SIDES.get(language.lower(), language)


def table_entries(path: Path) -> Iterator[Entry]:
    """Read the rows of a table: .tsv, .csv or .xlsx.

    A first row with names of languages ("de", "German", "Deutsch"), or with "source" and "target" (or "term" and
    "translation"), or with one of each, selects the columns. Otherwise the first two columns are used, and the file
    name may give the languages. A table that `write_pairs` or `write_glossary` wrote has one wording in a cell.
    """
    file = text_file(path)
    suffix = ending(path)
    if suffix == ".xlsx":
        rows: Iterable[tuple[str, int, list[str]]] = sheet_rows(file)
    else:
        read = csv_rows if suffix == ".csv" else tsv_rows
        rows = (("", line, list(map(meant, cells))) for line, cells in _after_comment(read(file)))
    for _, sheet in groupby(rows, itemgetter(0)):
        yield from _sheet_entries(path, sheet)


def plain_text_entries(path: Path) -> Iterator[Entry]:
    """Read lines such as "Haus {n} | Häuser :: house | houses" (the format of ding), or wordings separated by tabs."""
    names = languages_in(path.name)
    for number, cells in _after_comment(tsv_rows(text_file(path))):
        sides = cells if len(cells) > 1 else cells[0].split(_DING)
        if len(sides) < 2:
            reason = "no two wordings with ' :: ' or a tab between them"
            raise ReadError(str(path), number, reason, "give a dictionary with one entry per line")
        left, right = (_BARS.split(side) for side in sides[:2])
        parts = zip(left, right, strict=True) if len(left) == len(right) else [(" ; ".join(left), " ; ".join(right))]
        for first, second in parts:
            yield [
                *((names[0] or 0, text) for text in alternatives(first)),
                *((names[1] or 1, text) for text in alternatives(second)),
            ]


def _after_comment(rows: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    """Skip comments: initial lines that begin with #, and such lines without a pair of wordings anywhere."""
    at_beginning = True
    for number, cells in rows:
        is_comment = cells[0].startswith("#") and (at_beginning or (len(cells) == 1 and _DING not in cells[0]))
        at_beginning &= is_comment
        if not is_comment and any(cells):
            yield number, cells


def _sheet_entries(path: Path, rows: Iterator[tuple[str, int, list[str]]]) -> Iterator[Entry]:
    first = next(rows)
    wordings = _whole if _is_written(first[2]) else alternatives
    sides = _header(first[2])
    if not sides:
        names = languages_in(path.name)
        sides = [(0, names[0] or 0), (1, names[1] or 1)]
        rows = chain([first], rows)
    pairs, start = 0, first[1]
    for _, _, cells in rows:
        entry = [(lang, text) for column, lang in sides if column < len(cells) for text in wordings(cells[column])]
        pairs += len({lang for lang, _ in entry}) > 1
        yield entry
    if not pairs:
        raise ReadError(str(path), start, "no row with two wordings", "give a table with one entry per row")


def _whole(cell: str) -> list[str]:
    """Return a cell as one wording, unchanged; no wording for a blank cell."""
    text = one_line(cell)
    return [text] if text else []


def _is_written(header: list[str]) -> bool:
    """Tell whether a table has the header row that `write_pairs` or `write_glossary` writes."""
    return tuple(header[: len(PAIR_COLUMNS)]) == PAIR_COLUMNS or header[-2:-1] == ["Term_Example"]


def _header(cells: list[str]) -> list[tuple[int, int | str]]:
    """Return the columns that a header row selects, each with its language or number; empty without a header."""
    names = [cell.strip().lower() for cell in cells]
    is_glossary = names[-2:-1] == ["term_example"]  # as `phrasemate.glossary` writes it
    if is_glossary:
        names[-1] = "origin"  # in files of earlier versions "source"
    codes = [(column, language_code(cell)) for column, cell in enumerate(cells)]
    if names[0] == "id" and sum(bool(code) for _, code in codes) != 2:  # entry numbers, not Indonesian
        codes = codes[1:]
    languages: list[tuple[int, int | str]] = [(column, code) for column, code in codes if code]
    if len(languages) > 1 and not is_glossary:
        is_entry = len({code for _, code in languages}) == 1 < len({names[column] for column, _ in languages})
        return [] if is_entry else languages  # an entry is such as Deutsch, German
    columns = [next((at for at, name in enumerate(names) if name in words), -1) for words in (_SOURCE, _TARGET)]
    sides: list[tuple[int, int | str]] = [(column, side) for side, column in enumerate(columns) if column >= 0]
    sides += languages if is_glossary or len(sides) == 1 else []
    return sides if len(sides) > 1 else []


SIZE = 400_000_000  # bytes of one file, decompressed, at most
TEXT = 800_000_000  # bytes of all definitions, at most; entries may share one
ENTRIES = 3_000_000  # headwords of a dictionary, at most
DEFINITION = 20_000  # bytes of a definition that are read, at most


def read_whole(path: Path) -> bytes:
    """Read a file, decompressed if it is gzip or dictzip. Raises ReadError."""
    try:
        with path.open("rb") as file:
            is_gzip = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            if is_gzip:
                with gzip.GzipFile(fileobj=file) as stream:
                    content = stream.read(SIZE + 1)
            else:
                content = file.read(SIZE + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ReadError(str(path), 0, f"damaged gzip data ({error})", "copy or download the file again") from None
    except OSError as error:
        reason = f"cannot be read ({error.strerror or error})"
        raise ReadError(str(path), 0, reason, "check the path and its permissions") from None
    if len(content) > SIZE:
        raise ReadError(str(path), 0, f"more than {SIZE:,} bytes; expected a dictionary", "split it")
    return content


def beside(path: Path, suffixes: Iterable[str]) -> Path:
    """Find the file of the same name with one of the suffixes. Raises ReadError if there is none."""
    names = [path.with_name(path.stem + suffix) for suffix in suffixes]
    for name in names:
        if name.is_file():
            return name
    choices = " or ".join(name.name for name in names)
    raise ReadError(str(path), 0, f"no file {choices} beside it", "copy all files of the dictionary into one folder")


def defined(path: Path, content: bytes, start: int, size: int, read: int) -> bytes:
    """Return the first `DEFINITION` bytes of an entry.

    ``read``: bytes of definitions that were read before. Raises ReadError for a position outside the content, and for
    more than `TEXT` bytes in total.
    """
    if start + size > len(content):
        reason = f"an entry ends at byte {start + size:,} of {len(content):,} bytes of definitions"
        raise ReadError(str(path), 0, reason, "copy or download the files again")
    if read > TEXT:
        raise ReadError(str(path), 0, f"definitions of more than {TEXT:,} bytes", "split the dictionary")
    return content[start : start + min(size, DEFINITION)]


_MAGIC = "StarDict's dict ifo file"
_TEXT, _MARKUP = "ml", "hgxkw"  # field types with equivalents; t and y are pronunciations, r files
_COPY = "copy or download the files again"


def book_name(path: Path) -> str:
    """Return the title of a StarDict dictionary. Raises ReadError."""
    return _facts(path).get("bookname", "") or path.stem


def read_stardict(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Read the headwords and equivalents of a StarDict dictionary, given the path of its .ifo file.

    Raises ReadError for files that are missing, damaged or too large.
    """
    facts = _facts(path)
    index_path = beside(path, (".idx", ".idx.gz"))
    index = read_whole(index_path)
    dict_path = beside(path, (".dict.dz", ".dict"))
    content = read_whole(dict_path)
    width = 8 if facts.get("idxoffsetbits") == "64" else 4
    types = facts.get("sametypesequence", "")
    synonyms = _synonyms(path)
    read = 0
    for number, (_, word, place) in enumerate(_records(index_path, index, width + 4)):
        if number == ENTRIES:
            raise ReadError(str(index_path), 0, f"more than {ENTRIES:,} entries", "split the dictionary")
        start, size = (int.from_bytes(digits, "big") for digits in (place[:width], place[width:]))
        entry = defined(dict_path, content, start, size, read)
        read += len(entry)
        equivalents = [text for field in _fields(entry, types) for text in definition_equivalents(field, word)]
        for headword in (word, *synonyms.get(number, ())):
            yield headword, equivalents


def _records(path: Path, content: bytes, size: int) -> Iterator[tuple[int, str, bytes]]:
    """Iterate over records of a headword, a zero byte and ``size`` bytes of data: (position, headword, data)."""
    at = 0
    while at < len(content):
        end = content.find(b"\0", at, at + 2048)
        if end < 0 or end + 1 + size > len(content):
            raise ReadError(str(path), 0, f"no entry at byte {at:,}", _COPY)
        yield at, content[at:end].decode("utf-8", "replace"), content[end + 1 : end + 1 + size]
        at = end + 1 + size


def _facts(path: Path) -> dict[str, str]:
    lines = read_whole(path)[:100_000].decode("utf-8-sig", "replace").splitlines()
    if not lines or lines[0].strip() != _MAGIC:
        raise ReadError(str(path), 1, f"does not begin with {_MAGIC!r}", "give the .ifo file of a StarDict dictionary")
    return {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines[1:])}


def _synonyms(path: Path) -> dict[int, list[str]]:
    """Read alternative headwords, by entry number."""
    file = next((path.with_suffix(end) for end in (".syn", ".syn.dz") if path.with_suffix(end).is_file()), None)
    words: dict[int, list[str]] = {}
    if file is None:
        return words
    for count, (_, word, number) in enumerate(_records(file, read_whole(file), 4)):
        if count == ENTRIES:
            raise ReadError(str(file), 0, f"more than {ENTRIES:,} entries", "split the dictionary")
        words.setdefault(int.from_bytes(number, "big"), []).append(word)
    return words


def _fields(entry: bytes, types: str) -> Iterator[str]:
    """Iterate over the fields of an entry that may have equivalents, without markup."""
    at, number = 0, 0
    while at < len(entry) and (not types or number < len(types)):
        number += 1
        if types:
            kind = types[number - 1]
        else:
            kind, at = chr(entry[at]), at + 1
        if types and number == len(types):  # the last field has neither a size nor a final zero byte
            raw, at = entry[at:], len(entry)
        elif kind.isupper():
            size = int.from_bytes(entry[at : at + 4], "big")
            raw, at = entry[at + 4 : at + 4 + size], at + 4 + size
        else:
            end = entry.find(b"\0", at)
            end = len(entry) if end < 0 else end
            raw, at = entry[at:end], end + 1
        if kind in _TEXT:
            yield raw.decode("utf-8", "replace")
        elif kind in _MARKUP:
            yield plain_markup(raw.decode("utf-8", "replace"))


_DIGITS = {
    digit: value for value, digit in enumerate(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
}


def read_dictd(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Read the headwords and equivalents of a dictd dictionary, given the path of its .index file.

    The index omits punctuation. So the headword is taken from the first line of the definition if both agree otherwise.
    Raises ReadError for files that are missing, damaged or too large.
    """
    dict_path = beside(path, (".dict.dz", ".dict"))
    content = read_whole(dict_path)
    read = 0
    for number, line in enumerate(BytesIO(read_whole(path)), 1):
        cells = line.rstrip(b"\r\n").split(b"\t")
        if number > ENTRIES:
            raise ReadError(str(path), number, f"more than {ENTRIES:,} entries", "split the dictionary")
        if len(cells) < 3:
            raise ReadError(str(path), number, "no headword, position and length between tabs", "check the file")
        start, size = (_number(path, number, cell) for cell in cells[1:3])
        if cells[0].startswith((b"00-database", b"00database")):
            continue
        entry = defined(dict_path, content, start, size, read)
        read += len(entry)
        text = entry.decode("utf-8", "replace")
        word = (cells[3] if len(cells) > 3 else cells[0]).decode("utf-8", "replace")
        first, _, rest = text.partition("\n")
        heading = first.split(" /")[0].split(" <")[0].strip()
        if _letters(heading) == _letters(word):
            word, text = heading, rest
        yield word, definition_equivalents(text, word)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _number(path: Path, line: int, digits: bytes) -> int:
    """Parse a base-64 number, most significant digit first."""
    value = 0
    for digit in digits.strip()[:12]:
        if digit not in _DIGITS:
            raise ReadError(
                str(path), line, f"no number: {digits[:20]!r}", "give the .index file of a dictd dictionary"
            )
        value = value * 64 + _DIGITS[digit]
    return value

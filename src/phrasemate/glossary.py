"""Glossary of equivalents that a translator has chosen: its file, and exports to the formats of translation tools."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from threading import RLock
from typing import Any

from phrasemate.errors import GlossaryDamaged, GlossaryUnwritable, InputError
from phrasemate.lexicon import stemmed
from phrasemate.lexicon.forms import are_inflections
from phrasemate.text import Term, folded
from phrasemate.text.formats.bilingual import write_units
from phrasemate.text.formats.tables import harmless
from phrasemate.text.formats.units import Side, Unit, pair_tags
from phrasemate.text.formats.xml import XmlFile
from phrasemate.text.languages import english_name
from phrasemate.text.term_lists import write_terms
from phrasemate.utils.storage import NewFile, atomic_file, flush

STATUSES = ("preferred", "admitted", "deprecated")
FORMATS = {  # name of a format, as in URLs -> file name extension, title
    "tbx": ("tbx", "TBX v3 (DCT)"),
    "tbx2": ("tbx", "TBX v2"),
    "omegat": ("txt", "OmegaT"),
    "multiterm": ("xml", "MultiTerm XML"),
    "csv": ("csv", "memoQ, Trados CSV"),
    "tmx": ("tmx", "TMX"),
}
ENTRIES = 20_000  # maximum number of entries of a glossary
CHARACTERS = 2_000  # maximum length of a field
STEPS = 100  # maximum number of changes that can be undone


@dataclass(frozen=True, slots=True)
class Entry:
    """A term and its chosen equivalent.

    Attributes:
        source: The term.
        target: The equivalent.
        source_language: Language code of the term, or "".
        target_language: Language code of the equivalent, or "".
        status: One of `STATUSES`.
        domain: Subject field, or "".
        note: Remark of the user, or "".
        example: Sentence with the equivalent, or "".
        origin: Document and line of the example, or "".
        context: Sentence in which the term was looked up, or "".
        id: Number in the glossary, from 1; 0 for an entry that is in none.
    """

    source: str
    target: str
    source_language: str = ""
    target_language: str = ""
    status: str = "preferred"
    domain: str = ""
    note: str = ""
    example: str = ""
    origin: str = ""
    context: str = ""
    id: int = 0

    def same(self, other: Entry) -> bool:
        """Return whether both entries have the same term and equivalent, regardless of case, in the same languages."""
        return _key(self) == _key(other) and (folded(self.target), self.target_language) == (
            folded(other.target),
            other.target_language,
        )


FIELDS = tuple(field.name for field in fields(Entry) if field.name != "id")


class Glossary:
    """Glossary in a file of JSON lines, saved after each change; without a path, it is in memory only.

    If another program changes the file, it is read again before the entries are next used. Safe to use from several
    threads. Raises GlossaryDamaged for a file that is not a glossary, and InputError if its folder does not exist.

    >>> glossary = Glossary()
    >>> glossary.add(Entry("Bank", "bench", "de", "en")).id
    1
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(path) if path is not None else None
        if self.path is not None and not self.path.parent.is_dir():
            raise InputError(f"{self.path}: its folder does not exist; make it, or give another file for the glossary")
        self._lock, self._past = RLock(), list[tuple[Entry, ...]]()
        self._stamp: tuple[int, int] | None = None
        self._entries: tuple[Entry, ...] = ()
        self._terms = _TermIndex(self._entries)
        self._refresh()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Entries in the order in which they were added."""
        with self._lock:
            self._refresh()
            return self._entries

    @property
    def undoable(self) -> bool:
        """Whether there is a change that `undo` can revert."""
        return bool(self._past)

    def add(self, entry: Entry) -> Entry:
        """Add an entry, and return it with its new number; if the pair exists already, return the existing entry.

        Raises InputError for invalid fields, for a full glossary, and if the file cannot be written.
        """
        _check(entry)
        with self._lock:
            entries = self.entries
            duplicate = next((old for old in entries if old.same(entry)), None)
            if duplicate is not None:
                return duplicate
            if len(entries) >= ENTRIES:
                raise InputError(f"the glossary has {ENTRIES:,} entries, which is the limit; start another file")
            new_entry = replace(entry, id=max((old.id for old in entries), default=0) + 1)
            self._change((*entries, new_entry))
            return new_entry

    def change(self, number: int, **values: str) -> Entry:
        """Change fields of the entry with a number, and return the new entry.

        Raises InputError for an unknown number, for invalid fields, and if the file cannot be written.
        """
        with self._lock:
            new_entry = replace(self._entry(number), **values)  # type: ignore[arg-type]
            _check(new_entry)
            self._change(tuple(new_entry if old.id == number else old for old in self._entries))
            return new_entry

    def remove(self, number: int) -> None:
        """Remove the entry with a number. Raises InputError for an unknown number or if the file cannot be written."""
        with self._lock:
            self._entry(number)
            self._change(tuple(old for old in self._entries if old.id != number))

    def undo(self) -> bool:
        """Revert the last change made by this object. Returns False if there is none, or if the file changed since."""
        with self._lock:
            self._refresh()
            if not self._past:
                return False
            self._replace(self._past[-1])
            self._past.pop()
            return True

    def of(self, source: str) -> list[Entry]:
        """Return the entries of a term, regardless of case, and of inflection for entries with a language."""
        with self._lock:
            if (entries := self.entries) is not self._terms.entries:
                self._terms = _TermIndex(entries)
            return self._terms.of(source)

    def conflicts(self) -> set[int]:
        """Return the numbers of preferred entries that have a rival.

        A rival is another preferred equivalent for the same term in the same languages and domain.
        """
        rivals = _concepts([entry for entry in self.entries if entry.status == "preferred"])
        return {entry.id for several in rivals if len(several) > 1 for entry in several}

    def _entry(self, number: int) -> Entry:
        """Return the entry with a number. Raises InputError for an unknown number."""
        entry = next((old for old in self.entries if old.id == number), None)
        if entry is None:
            raise InputError(f"the glossary has no entry {number}")
        return entry

    def _change(self, entries: tuple[Entry, ...]) -> None:
        """Replace all entries in a way that `undo` can revert."""
        before = self._entries
        self._replace(entries)
        self._past = [*self._past, before][-STEPS:]

    def _replace(self, entries: tuple[Entry, ...]) -> None:
        """Replace all entries, first in the file, then in memory.

        Raises GlossaryUnwritable if the file cannot be written; then nothing has changed.
        """
        try:
            self._save(entries)
        except UnicodeError as error:  # half a surrogate pair cannot be encoded
            raise InputError(f"the glossary cannot be saved: {error}") from error
        except OSError as error:
            raise GlossaryUnwritable(f"the glossary cannot be saved: {error.strerror}") from error
        self._entries = entries

    def _save(self, entries: tuple[Entry, ...]) -> None:
        """Write entries to the file, if there is one."""
        if self.path is None:
            return
        with atomic_file(self.path, encoding="utf-8") as file:
            for entry in entries:
                file.write(json.dumps(asdict(entry), ensure_ascii=False) + "\n")
            flush(file)
        self._stamp = self._file_stamp()

    def _file_stamp(self) -> tuple[int, int] | None:
        """Return inode and time of change of the file, by which other programs' changes are noticed; None without."""
        if self.path is None or not self.path.exists():
            return None
        stat = self.path.stat()
        return stat.st_ino, stat.st_mtime_ns

    def _refresh(self) -> None:
        """Read the file again if another program has changed it; changes before that cannot be undone."""
        if self.path is not None and (stamp := self._file_stamp()) != self._stamp:
            self._entries = tuple(_read(self.path)) if stamp is not None else ()
            self._stamp, self._past = stamp, []


_stem = lru_cache(maxsize=2 * ENTRIES)(stemmed)


class _TermIndex:
    """Index of entries by their terms: by the folded wording, and by the stems if the language is known."""

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self.entries = entries
        self._languages = {entry.source_language for entry in entries}
        self._places: dict[tuple[str, str], list[int]] = {}
        for place, entry in enumerate(entries):
            for key in self._keys(entry.source, {entry.source_language}):
                self._places.setdefault(key, []).append(place)

    def of(self, source: str) -> list[Entry]:
        """Return the entries of a term and of its inflected forms (`are_inflections`), in the order of the glossary."""
        places = {
            place
            for key in self._keys(source, self._languages)
            for place in self._places.get(key, ())
            if are_inflections(folded(self.entries[place].source), folded(source), key[0])
        }
        return [self.entries[place] for place in sorted(places)]

    @staticmethod
    def _keys(term: str, languages: set[str]) -> set[tuple[str, str]]:
        """Return the keys of a term: "" with the folded wording, and each language with the stems in it."""
        return {("", folded(term)), *((language, _stem(term, language)) for language in languages if language)}


def _key(entry: Entry) -> tuple[str, str]:
    """Return the folded term and its language."""
    return folded(entry.source), entry.source_language


def _check(entry: Entry) -> None:
    """Raise InputError for a field that is not a text or too long, an empty term or equivalent, or a wrong status."""
    for name in FIELDS:
        value = getattr(entry, name)
        if not isinstance(value, str) or len(value) > CHARACTERS:
            raise InputError(f"{name} of an entry: expected text of at most {CHARACTERS:,} characters")
    if not entry.source.strip() or not entry.target.strip():
        raise InputError("an entry needs a term and an equivalent")
    if entry.status not in STATUSES:
        raise InputError(f"status {entry.status[:20]!r}; expected one of {', '.join(STATUSES)}")


def _read(path: Path) -> Iterator[Entry]:
    """Read the entries of a file. Raises GlossaryDamaged for a file that cannot be read or is not one."""
    try:
        with path.open(encoding="utf-8") as file:  # not splitlines(), which also splits at U+2028 in a field
            lines = file.readlines()
    except (OSError, UnicodeError) as error:
        raise GlossaryDamaged(
            str(path), 0, f"cannot be read ({error})", "give a glossary file, or a new name"
        ) from None
    for number, line in enumerate(lines, 1):
        try:
            values: dict[str, Any] = json.loads(line)
            entry = Entry(**values)
            _check(entry)
        except (ValueError, TypeError, InputError):
            raise GlossaryDamaged(str(path), number, "not an entry of a glossary", "give another file") from None
        yield entry if entry.id else replace(entry, id=number)


def write_glossary(path: str | os.PathLike[str], entries: Sequence[Entry], format_: str) -> None:
    """Write the entries to a file in one of `FORMATS`.

    In TBX and MultiTerm XML, entries with the same term, languages and domain are one concept. If neither language of
    an entry is known, TBX and TMX have the tags und-x-source and und-x-target, MultiTerm XML and CSV have the names
    Source and Target. By these, `phrasemate.lexicon.open_dictionaries` reads the entry as a pair. The formats "omegat"
    and "tmx" omit deprecated equivalents. Raises InputError for an unknown format.
    """
    valid_entries = [entry for entry in entries if entry.status != "deprecated"]
    if format_ == "tbx":
        _write_dct(path, entries)
    elif format_ == "tbx2":
        write_terms(path, (term for concept in _concepts(entries) for term in _terms(concept)), version=2)
    elif format_ == "omegat":
        with NewFile(path) as file:
            for entry in valid_entries:
                comment = "; ".join(filter(None, (entry.note, entry.domain, entry.example)))
                file.write("\t".join(_line(cell) for cell in (entry.source, entry.target, comment)) + "\n")
    elif format_ == "multiterm":
        _write_multiterm(path, entries)
    elif format_ == "csv":
        _write_csv(path, entries)
    elif format_ == "tmx":
        write_units(path, map(_unit, valid_entries))
    else:
        raise InputError(f"format {format_[:20]!r}; expected one of {', '.join(FORMATS)}")


def _concepts(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Group the entries with the same term, languages and domain."""
    concepts: dict[tuple[str, ...], list[Entry]] = {}
    for entry in entries:
        concepts.setdefault((*_key(entry), entry.target_language, folded(entry.domain)), []).append(entry)
    return list(concepts.values())


def _terms(concept: Sequence[Entry]) -> Iterator[Term]:
    """Convert a concept to entries of a term base: the source term, then each equivalent."""
    first, number = concept[0], f"c{concept[0].id}"
    field = {"subjectField": first.domain} if first.domain else {}
    contexts = (first.context,) if first.context else ()
    source_tag, target_tag = pair_tags(first.source_language, first.target_language)
    yield Term(first.source, source_tag, number, contexts=contexts, metadata=field)
    for entry in concept:
        facts = {"administrativeStatus": f"{entry.status}Term-admn-sts", **field}
        facts |= {"source": entry.origin} if entry.origin else {}
        contexts = (entry.example,) if entry.example else ()
        yield Term(entry.target, target_tag, number, "", entry.note, contexts, facts)


def _write_dct(path: str | os.PathLike[str], entries: Sequence[Entry]) -> None:
    """Write TBX-Basic, version 3, in the DCT style, with elements named after the data categories."""
    with XmlFile(path) as file:
        text, quote = file.text, file.attribute
        file.write(
            '<tbx type="TBX-Basic" style="dct" xml:lang="en" xmlns="urn:iso:std:iso:30042:ed-2"'
            ' xmlns:min="http://www.tbxinfo.net/ns/min" xmlns:basic="http://www.tbxinfo.net/ns/basic">\n'
            "<tbxHeader><fileDesc><sourceDesc><p>written by phrasemate</p></sourceDesc></fileDesc></tbxHeader>\n"
            "<text><body>\n"
        )
        for concept in _concepts(entries):
            file.write(f'<conceptEntry id="c{concept[0].id}">\n')
            if concept[0].domain:
                file.write(f"<min:subjectField>{text(concept[0].domain)}</min:subjectField>\n")
            source, *targets = _terms(concept)
            for terms in ([source], targets):
                file.write(f"<langSec xml:lang={quote(terms[0].language or 'und')}>\n")
                for term in terms:
                    file.write(f"<termSec><term>{text(term.text)}</term>")
                    if status := term.metadata.get("administrativeStatus"):
                        file.write(f"<min:administrativeStatus>{text(status)}</min:administrativeStatus>")
                    for context in term.contexts:
                        file.write(f"<basic:context>{text(context)}</basic:context>")
                    if origin := term.metadata.get("source"):
                        file.write(f"<basic:source>{text(origin)}</basic:source>")
                    file.write(f"<note>{text(term.note)}</note>" if term.note else "")
                    file.write("</termSec>\n")
                file.write("</langSec>\n")
            file.write("</conceptEntry>\n")
        file.write("</body></text>\n</tbx>\n")


def _write_multiterm(path: str | os.PathLike[str], entries: Sequence[Entry]) -> None:
    """Write the XML format of MultiTerm."""
    with XmlFile(path) as file:

        def description(kind: str, value: str) -> str:
            """Return a descriptive field, or "" for an empty value."""
            body = f"<descrip type={file.attribute(kind)}>{file.text(value)}</descrip>"
            return f"<descripGrp>{body}</descripGrp>" if value else ""

        def language(tag: str, side: str) -> str:
            """Return the element that names the language of a group of terms."""
            return f"<language type={file.attribute(_language_name(tag, side))} lang={file.attribute(tag.upper())}/>"

        file.write("<mtf>\n")
        for concept in _concepts(entries):
            first = concept[0]
            file.write(f"<conceptGrp><concept>{first.id}</concept>{description('Subject', first.domain)}\n")
            head = language(first.source_language, "Source")
            body = f"<term>{file.text(first.source)}</term>{description('Context', first.context)}"
            file.write(f"<languageGrp>{head}<termGrp>{body}</termGrp></languageGrp>\n")
            file.write(f"<languageGrp>{language(first.target_language, 'Target')}")
            for entry in concept:
                facts = (("Status", entry.status), ("Context", entry.example), ("Source", entry.origin))
                body = "".join(description(kind, value) for kind, value in (*facts, ("Note", entry.note)))
                file.write(f"<termGrp><term>{file.text(entry.target)}</term>{body}</termGrp>")
            file.write("</languageGrp></conceptGrp>\n")
        file.write("</mtf>\n")


def _write_csv(path: str | os.PathLike[str], entries: Sequence[Entry]) -> None:
    """Write a table with a column of terms for each language, as memoQ and the converter of Trados import it.

    The columns of terms without a language are Source and Target; the place of an example is in the column Origin.
    """
    import csv

    def cells_of(entry: Entry) -> dict[tuple[str, bool], str]:
        """Return the terms by column; a column is a language's name, and whether it is the second with this name."""
        source = _language_name(entry.source_language, "Source")
        target = _language_name(entry.target_language, "Target")
        return {(source, False): entry.source, (target, source == target): entry.target}

    columns = list(dict.fromkeys(column for entry in entries or [Entry("", "")] for column in cells_of(entry)))
    names = [name for name, _ in columns]
    with NewFile(path) as file:
        file.write("\ufeff")  # byte order mark; without it spreadsheets assume another encoding
        rows = csv.writer(file, lineterminator="\r\n")
        rows.writerow(["Entry_ID", "Entry_Subject", "Entry_Note", *names, "Status", "Term_Example", "Origin"])
        for entry in entries:
            cells = cells_of(entry)
            terms = (cells.get(column, "") for column in columns)
            facts = (entry.domain, entry.note, *terms, entry.status, entry.example, entry.origin)
            rows.writerow([entry.id, *map(harmless, facts)])


def _unit(entry: Entry) -> Unit:
    """Convert an entry to a unit of a translation memory."""
    facts = {"status": entry.status, "note": entry.note, "subject": entry.domain, "context": entry.example}
    tags = pair_tags(entry.source_language, entry.target_language)
    sides = Side(entry.source, tags[0]), Side(entry.target, tags[1])
    return Unit(sides, {name: value for name, value in facts.items() if value})


def _line(text: str) -> str:
    """Replace each run of white space by a space, so that a text fits on one line."""
    return " ".join(text.split())


def _language_name(tag: str, side: str) -> str:
    """Return the English name of a language, as term bases use it; for an unknown one the tag, or ``side`` for ""."""
    return english_name(tag) or tag or side

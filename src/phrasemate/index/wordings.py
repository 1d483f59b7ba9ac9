"""Table of wordings: the distinct wordings of the phrases of an index, with the ids of the phrases of each.

A wording is the folded text of a phrase (`phrasemate.text.folded`). With the table, a search finds candidates by
wording as well as by vector, and groups its hits without reading a sentence. Like the FAISS file, the table is derived
from the sentences. It consists of segments: safetensors files that cover a range of phrase ids each.
``wordings.json`` lists the segments with their checksums. An index without the table works, and its next change builds
it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import IndexDamaged, IndexMissing, PhraseIndexError
from phrasemate.index import row_codec
from phrasemate.index.exact import Runs
from phrasemate.index.manifest import differing, read_json, sweep, write_json
from phrasemate.index.store import SentenceRow, State, Store
from phrasemate.index.types import VerifyReport
from phrasemate.lexicon.inflection import stemmed_all
from phrasemate.lexicon.wordings import Wordings as Texts
from phrasemate.text.languages import primary
from phrasemate.text.normalize import dotless, folded, folded_parts
from phrasemate.utils.arrays import Floats, Ids
from phrasemate.utils.storage import install, map_arrays, save_arrays, sha256_of, sync

WORDINGS_JSON = "wordings.json"
# Phrases per segment, rounded up to whole sentences. It limits the memory that building a segment takes.
SEGMENT = 1_000_000
_PARTIAL = "wordings.partial"
_FILES = ("wordings-*.safetensors", f"{_PARTIAL}*")
_CHECKED = 16_384  # occurrences of a wording that `FilteredWordings` checks, at most
_ABSENT = 0xFFFFFFFF  # stands for the row of a phrase that was deleted before the segment was built


class SegmentFile(NamedTuple):
    """Entry of a segment in ``wordings.json``: its file, and the phrase ids from ``low`` to below ``high``.

    ``phrases``: number of these that were live when the segment was built. ``size``: bytes of the file.
    """

    file: str
    size: int
    sha256: str
    low: int
    high: int
    phrases: int


@dataclass(frozen=True, slots=True)
class WordingsManifest:
    """Content of ``wordings.json``: the segments, ascending, and the generation of the store they were built from."""

    generation: int
    segments: tuple[SegmentFile, ...]

    def write(self, folder: Path) -> None:
        write_json(folder / WORDINGS_JSON, {**asdict(self), "segments": [list(segment) for segment in self.segments]})

    @classmethod
    def read(cls, folder: Path) -> WordingsManifest:
        """Read ``wordings.json``. Raises IndexMissing, IndexDamaged or IndexUnsupported."""
        path = folder / WORDINGS_JSON
        content = read_json(path)
        try:
            segments = tuple(SegmentFile(*segment) for segment in content["segments"])
            manifest = cls(content["generation"], segments)
            numbers = [manifest.generation, *(n for s in segments for n in (s.size, s.low, s.high, s.phrases))]
            edges = [edge for s in segments for edge in (s.low, s.high)]
            names = all(type(s.file) is str and Path(s.file).name == s.file for s in segments)
            sound = all(type(number) is int and number >= 0 for number in numbers) and edges == sorted(edges) and names
        except (TypeError, KeyError):
            sound = False
        if not sound:
            raise IndexDamaged(f"{path}: not a table of wordings; run phrasemate index optimize")
        return manifest


class Segment:
    """Wordings of a range of phrase ids, sorted by their UTF-8 bytes. The row of a wording is its place in this order.

    Row r has the UTF-8 bytes ``text[bounds[r] : bounds[r + 1]]`` and the phrase ids
    ``ids[occurrences[r] : occurrences[r + 1]]``.

    Attributes:
        text: Wordings in UTF-8, one after the other, (bytes,) uint8.
        bounds: Start of each wording in ``text``, and the end of the last one, (wordings + 1,) int64.
        ids: Phrase ids, by row, (phrases,) int64.
        occurrences: Start of each row in ``ids``, and the end of the last one, (wordings + 1,) int64.
        rows: Row of each phrase id from ``low`` to below ``high``, (high - low,) uint32.
        stems: Hashes of the stemmed wordings, ascending, (wordings,) uint64.
        stem_rows: Row that each hash belongs to, (wordings,) uint32.
    """

    def __init__(self, low: int, arrays: dict[str, NDArray[Any]]) -> None:
        self.low, self.arrays = low, arrays  # by name, as in its file
        self.text, self.bounds = arrays["text"], arrays["bounds"]
        self.ids, self.occurrences = arrays["ids"], arrays["occurrences"]
        self.rows, self.stems, self.stem_rows = arrays["rows"], arrays["stems"], arrays["stem_rows"]

    @cached_property
    def _texts(self) -> Texts:
        return Texts(self.text, self.bounds)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def high(self) -> int:
        return self.low + len(self.rows)

    def wording(self, row: int) -> str:
        """Return the wording of a row."""
        return self._texts[row]

    def rows_of(self, wordings: Sequence[str]) -> list[int]:
        """Return the row of each wording, or -1 if the segment does not have it."""
        return self._texts.find_all(wordings)

    def phrases(self, row: int) -> Ids:
        """Return the phrase ids of a row, ascending; some may have been deleted after the segment was built."""
        return self.ids[int(self.occurrences[row]) : int(self.occurrences[row + 1])]

    def rows_of_stems(self, stems: NDArray[np.uint64]) -> list[list[int]]:
        """Return for each hash the rows with a stemmed wording of this hash."""
        places = (self.stems.searchsorted(stems, side).tolist() for side in ("left", "right"))
        return [self.stem_rows[first:last].tolist() for first, last in zip(*places, strict=True)]


class Wordings:
    """Table of wordings of an index, searched across its segments. ``dead``: runs of deleted phrase ids."""

    def __init__(self, segments: Sequence[Segment], dead: Runs) -> None:
        self._segments, self._dead = list(segments), dead

    def of_phrases(self, ids: Sequence[int]) -> list[str]:
        """Return the wording of each phrase id, or "" if no segment has it."""
        places = np.asarray(ids, np.int64)
        texts = [""] * len(places)
        for segment in self._segments:
            inside = np.flatnonzero((places >= segment.low) & (places < segment.high))
            rows = segment.rows[places[inside] - segment.low].tolist()
            wording_of = {row: segment.wording(row) for row in {*rows} - {_ABSENT}}
            for place, row in zip(inside.tolist(), rows, strict=True):
                texts[place] = wording_of.get(row, "")
        return texts

    def by_wording(self, ids: Sequence[int]) -> dict[str, list[int]]:
        """Group phrase ids by their wording, in the given order. Ids that no segment has are omitted."""
        groups: dict[str, list[int]] = {}
        for phrase_id, wording in zip(ids, self.of_phrases(ids), strict=True):
            groups.setdefault(wording, []).append(phrase_id)
        groups.pop("", None)
        return groups

    def occurrences(self, wordings: Sequence[str]) -> list[Ids]:
        """Return for each wording the ids of the live phrases that have it, ascending."""
        parts: list[list[Ids]] = [[] for _ in wordings]
        for segment in self._segments if wordings else []:
            for part, row in zip(parts, segment.rows_of(wordings), strict=True):
                if row >= 0:
                    part.append(segment.phrases(row))
        ids_of = [part[0] if len(part) == 1 else joined(part) for part in parts]
        return [ids[~self._dead.contains(ids)] for ids in ids_of] if len(self._dead) else ids_of

    def of_stems(self, stemmed: Sequence[str]) -> list[list[str]]:
        """Return for each stemmed form (`phrasemate.lexicon.stemmed`) the wordings with this stemmed form."""
        hashes = _hashes(stemmed)
        wordings: list[dict[str, None]] = [{} for _ in stemmed]
        for segment in self._segments:
            for wordings_of_stem, rows in zip(wordings, segment.rows_of_stems(hashes), strict=True):
                wordings_of_stem.update(dict.fromkeys(map(segment.wording, rows)))
        return [*map(list, wordings)]


class FilteredWordings(Wordings):
    """Table of wordings that counts only some phrases.

    ``allowed``: maps phrase ids (n,) to a mask. Of a very frequent wording, `_CHECKED` occurrences are checked, at
    equal distances.
    """

    def __init__(self, table: Wordings, allowed: Callable[[Ids], NDArray[np.bool_]]) -> None:
        self._table, self._allowed = table, allowed

    def of_phrases(self, ids: Sequence[int]) -> list[str]:
        """Return the wording of each phrase id, or "" if no segment has it."""
        return self._table.of_phrases(ids)

    def of_stems(self, stemmed: Sequence[str]) -> list[list[str]]:
        """Return for each stemmed form the wordings with this stemmed form, in all documents."""
        return self._table.of_stems(stemmed)

    def occurrences(self, wordings: Sequence[str]) -> list[Ids]:
        """Return for each wording the ids of the allowed phrases that have it, ascending."""
        every = [ids[:: math.ceil(len(ids) / _CHECKED) or 1] for ids in self._table.occurrences(wordings)]
        mask, bounds = self._allowed(joined(every)), accumulate(map(len, every), initial=0)
        return [ids[mask[start:end]] for ids, (start, end) in zip(every, pairwise(bounds), strict=True)]


def joined(parts: Sequence[Ids]) -> Ids:
    """Concatenate arrays of phrase ids; there may be none."""
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _hashes(stems: Iterable[str]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each stemmed wording, (stems,) uint64."""
    digests = (blake2b(row_codec.encode_text(stem), digest_size=8).digest() for stem in stems)
    return np.frombuffer(b"".join(digests), "<u8")


def build_segment(sentences: Iterable[SentenceRow], low: int, high: int, languages: dict[int, str]) -> Segment:
    """Build the segment of the phrase ids from ``low`` to below ``high``.

    Args:
        sentences: Sentences with these phrases, ascending.
        low: First id of the segment.
        high: One more than its last id.
        languages: Language of each document by its id; "" counts as English.
    """
    number_of: dict[str, int] = {}
    language_of: list[str] = []
    numbers: list[int] = []
    ranges: list[Ids] = []
    for row in sentences:
        starts, ends = (column.tolist() for column in row_codec.unpack_spans(row.spans, row.phrases)[:2])
        language = languages.get(row.document, "") or "en"
        wordings = folded_parts(dotless(row.text, primary(language)), zip(starts, ends, strict=True))
        numbers += [number_of.setdefault(wording, len(number_of)) for wording in wordings]
        ranges.append(np.arange(row.first_phrase, row.first_phrase + row.phrases))
        language_of += [language] * (len(number_of) - len(language_of))
    return segment_of(list(number_of), language_of, np.array(numbers, np.int64), joined(ranges), low, high)


def segment_of(
    wordings: Sequence[str], languages: Sequence[str], numbers: Ids, ids: Ids, low: int, high: int
) -> Segment:
    """Build the segment of the phrase ids from ``low`` to below ``high`` from its distinct wordings.

    Args:
        wordings: Distinct folded wordings in any order.
        languages: Language of each wording.
        numbers: Position in ``wordings`` of the wording of each phrase, (phrases,).
        ids: Id of each phrase, ascending, (phrases,).
        low: First id of the segment.
        high: One more than its last id.
    """
    places = sorted(range(len(wordings)), key=wordings.__getitem__)  # code points sort as UTF-8 does
    row_of = np.empty(len(wordings), np.uint32)
    row_of[places] = np.arange(len(wordings), dtype=np.uint32)
    phrase_rows = row_of[numbers]
    rows = np.full(high - low, _ABSENT, np.uint32)
    rows[ids - low] = phrase_rows
    blobs = [row_codec.encode_text(wordings[place]) for place in places]
    stems = _stem_hashes([wordings[place] for place in places], [languages[place] for place in places])
    order = np.argsort(stems, kind="stable")
    return Segment(
        low,
        {
            "text": np.frombuffer(b"".join(blobs), np.uint8),
            "bounds": np.cumsum([0, *map(len, blobs)], dtype=np.int64),
            "ids": ids[np.argsort(phrase_rows, kind="stable")],
            "occurrences": np.cumsum([0, *np.bincount(phrase_rows, minlength=len(wordings))], dtype=np.int64),
            "rows": rows,
            "stems": stems[order],
            "stem_rows": order.astype(np.uint32),
        },
    )


def _stem_hashes(wordings: Sequence[str], languages: Sequence[str]) -> NDArray[np.uint64]:
    """Stem each wording by the rules of its language, and return the hash of each, (wordings,) uint64."""
    hashes = np.zeros(len(wordings), np.uint64)
    places: dict[str, list[int]] = {}
    for place, language in enumerate(languages):
        places.setdefault(language, []).append(place)
    for language, of_language in places.items():
        stems = stemmed_all([wordings[place] for place in of_language], language, are_folded=True)
        hashes[of_language] = _hashes(stems)
    return hashes


def update(store: Store, whole: bool = False, tell: Callable[[float], None] = lambda share: None) -> None:
    """Bring the table of wordings up to date with the store. The caller holds the write lock.

    New phrases become a new segment, up to `SEGMENT` phrases each. It also takes over the segments before it that are
    less than twice as large, as far as this limit allows, so there are few segments. Once more than half of the phrases
    of a segment are deleted, it and all later ones are rebuilt.

    Args:
        store: Store of the index.
        whole: Rebuild all segments.
        tell: Called with the share of the phrase ids that are done, 0 to 1.

    Raises PhraseIndexError (no space) and IndexDamaged.
    """
    with store.reading() as state:
        old: tuple[SegmentFile, ...] = ()
        if not whole:
            with suppress(IndexMissing, IndexDamaged):
                manifest = WordingsManifest.read(store.path)
                old = manifest.segments if manifest.generation <= state.generation else ()
        dead = Runs(store.tombstones())
        valid = _valid(old, state, dead)
        if valid == old and (not state.next_phrase or (old and old[-1].high == state.next_phrase)):
            sweep(store.path, _FILES, {file.file for file in old})  # files that an interrupted call left
            return
        languages = {document.id: document.language for document in store.documents()}
        files = list(valid)
        high = valid[-1].high if valid else 0
        while high < state.next_phrase:  # a segment ends with a sentence
            low, high = high, min(store.next_sentence_start(high + SEGMENT), state.next_phrase)
            segment = build_segment(store.sentences_of_phrases(low, high), low, high, languages)
            files.append(_write(store.path, segment))
            tell(high / state.next_phrase)
        files.sort(key=lambda file: file.low)
        WordingsManifest(state.generation, tuple(files)).write(store.path)
    sweep(store.path, _FILES, {file.file for file in files})


def _valid(old: Sequence[SegmentFile], state: State, dead: Runs) -> tuple[SegmentFile, ...]:
    """Return the segments that need not be rebuilt: the first ones, up to the first that `update` replaces."""
    sound = []
    for file in old:
        live = file.high - file.low - (dead.below(file.high) - dead.below(file.low))
        if file.high > state.next_phrase or 2 * live < file.phrases:
            break
        sound.append(file)
    while sound:
        new = state.next_phrase - sound[-1].high
        size = sound[-1].high - sound[-1].low
        if not new or size >= 2 * new or size + new > SEGMENT:
            break
        sound.pop()
    return tuple(sound)


def _write(folder: Path, segment: Segment) -> SegmentFile:
    """Write a segment to a file with a name from its SHA-256, and flush it to the disk. Raises PhraseIndexError."""
    partial = folder / _PARTIAL
    try:
        save_arrays(partial, segment.arrays)
        sync(partial)
        digest, size = sha256_of(partial), partial.stat().st_size
        name = f"wordings-{digest[:16]}.safetensors"
        install(partial, folder / name)
    except OSError as error:
        reason = error.strerror or error
        remedy = "free some space and run: phrasemate index optimize"
        raise PhraseIndexError(f"{partial}: cannot be written ({reason}); {remedy}") from error
    return SegmentFile(name, size, digest, segment.low, segment.high, len(segment.ids))


def load_segment(folder: Path, file: SegmentFile, whole: bool = False) -> Segment:
    """Map the file of a segment into memory, after comparing it with its SHA-256.

    ``whole``: compare even if the file has not changed since the last comparison. Raises IndexDamaged.
    """
    path = folder / file.file
    try:
        if differing([(path, file.size, file.sha256, [])], whole=whole):
            raise IndexDamaged(f"{path}: does not match its SHA-256; run phrasemate index optimize")
        segment = Segment(file.low, map_arrays(path))
    except (OSError, ValueError, KeyError) as error:
        raise IndexDamaged(f"{path}: cannot be read ({error}); run phrasemate index optimize") from error
    if segment.high != file.high or len(segment.ids) != file.phrases:
        raise IndexDamaged(f"{path}: holds other phrases than {WORDINGS_JSON} says; run phrasemate index optimize")
    return segment


def check(store: Store, state: State, report: VerifyReport) -> None:
    """Compare every segment with the sentences it was built from, as a part of ``Index.verify``."""
    try:
        manifest = WordingsManifest.read(store.path)
    except IndexMissing:
        report.checked["wordings"] = "none"
        return
    if manifest.generation > state.generation:
        report.checked["wordings"] = "not checked: another process has rebuilt it meanwhile"
        return
    languages = {document.id: document.language for document in store.documents()}
    dead = Runs(store.tombstones())
    for file in manifest.segments:
        segment = load_segment(store.path, file, whole=True)
        reference = build_segment(store.sentences_of_phrases(file.low, file.high), file.low, file.high, languages)
        live = segment.ids[~dead.contains(segment.ids)]
        names = np.repeat(np.arange(len(segment)), np.diff(segment.occurrences))[~dead.contains(segment.ids)]
        texts = [segment.wording(row) for row in names.tolist()]
        right = [reference.wording(row) for row in reference.rows[live - file.low].tolist()] if len(live) else []
        is_right = texts == right or [*map(_comparable, texts)] == [*map(_comparable, right)]
        if len(live) != len(reference.ids) or not is_right:
            report.problems.append(f"{file.file}: does not match the sentences; run: phrasemate index optimize")
    report.checked["wordings"] = sum(file.phrases for file in manifest.segments)


def _comparable(wording: str) -> str:
    """Fold a wording of any version: older ones compose other letters, and have i for ı in Turkish capitals."""
    return folded(wording).replace("ı", "i")


class WordingSearch(NamedTuple):
    """Access to phrases by their wording, within one snapshot of an index.

    ``table``: the table of wordings. ``vectors``: function that returns the unit vectors of phrase ids, (ids, dim).
    """

    table: Wordings
    vectors: Callable[[Ids], Floats]

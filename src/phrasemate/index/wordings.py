"""The table of wordings: which phrases of an index read the same, and where each wording occurs.

A search proposes candidates by wording as well as by vector, and groups what it finds without reading a sentence. The
table is derived from the sentences, like the FAISS file. It consists of segments, each a sealed safetensors file over
a range of phrase ids; ``wordings.json`` names those in force. An index without it works, and its next change makes
it. A wording is folded text (`phrasemate.text.folded`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import blake2b
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
from phrasemate.text.normalize import folded, folded_parts
from phrasemate.utils.arrays import Floats, Ids
from phrasemate.utils.storage import install, map_arrays, save_arrays, sha256_of, sync

WORDINGS_JSON = "wordings.json"
# Phrases of a segment, to the end of the last one's sentence: bounds the memory that making one takes.
SEGMENT = 1_000_000
_PARTIAL = "wordings.partial"
_FILES = ("wordings-*.safetensors", f"{_PARTIAL}*")
_ABSENT = 0xFFFFFFFF  # row of a phrase id that was deleted before the segment was made


class SegmentFile(NamedTuple):
    """A segment as ``wordings.json`` names it: its file with size and SHA-256, and its phrase ids, ``low`` to below
    ``high``, of which ``phrases`` were live when it was made.
    """

    file: str
    size: int
    sha256: str
    low: int
    high: int
    phrases: int


@dataclass(frozen=True, slots=True)
class WordingsManifest:
    """``wordings.json``: the segments in ascending order, and the generation of the store they were made from."""

    generation: int
    segments: tuple[SegmentFile, ...]

    def write(self, folder: Path) -> None:
        write_json(folder / WORDINGS_JSON, {**asdict(self), "segments": [list(segment) for segment in self.segments]})

    @classmethod
    def read(cls, folder: Path) -> WordingsManifest:
        """Raises IndexMissing, IndexDamaged or IndexUnsupported."""
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
    """The wordings of a range of phrase ids, sorted by their UTF-8 bytes.

    ``text`` (bytes,) and ``bounds`` (wordings + 1,) hold the wordings. ``ids`` (phrases,) int64 and ``occurrences``
    (wordings + 1,) hold the phrases of each. ``rows`` (high - low,) uint32 is the wording of each phrase id. ``stems``
    (wordings,) uint64 are ascending hashes of stemmed wordings, and ``stem_rows`` (wordings,) the wording of each.
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
        """The wording of a row."""
        return self._texts[row]

    def rows_of(self, wordings: Sequence[str]) -> list[int]:
        """The row of each of some wordings; -1 for one that is not there."""
        return self._texts.find_all(wordings)

    def phrases(self, row: int) -> Ids:
        """The phrase ids of a row, ascending; some may have been deleted since."""
        return self.ids[int(self.occurrences[row]) : int(self.occurrences[row + 1])]

    def rows_of_stems(self, stems: NDArray[np.uint64]) -> list[list[int]]:
        """The rows whose stemmed wording has each of some hashes."""
        places = (self.stems.searchsorted(stems, side).tolist() for side in ("left", "right"))
        return [self.stem_rows[first:last].tolist() for first, last in zip(*places, strict=True)]


class Wordings:
    """The segments of an index, searched as one table; ``dead``: phrase ids that were deleted."""

    def __init__(self, segments: Sequence[Segment], dead: Runs) -> None:
        self._segments, self._dead = list(segments), dead

    def of_phrases(self, ids: Sequence[int]) -> list[str]:
        """The wording of each phrase id; "" for one that no segment has."""
        places = np.asarray(ids, np.int64)
        texts = [""] * len(places)
        for segment in self._segments:
            inside = np.flatnonzero((places >= segment.low) & (places < segment.high))
            rows = segment.rows[places[inside] - segment.low].tolist()
            wording_of = {row: segment.wording(row) for row in {*rows} - {_ABSENT}}
            for place, row in zip(inside.tolist(), rows, strict=True):
                texts[place] = wording_of.get(row, "")
        return texts

    def occurrences(self, wordings: Sequence[str]) -> list[Ids]:
        """The live phrases with each of some wordings, ascending ids."""
        parts: list[list[Ids]] = [[] for _ in wordings]
        for segment in self._segments if wordings else []:
            for part, row in zip(parts, segment.rows_of(wordings), strict=True):
                if row >= 0:
                    part.append(segment.phrases(row))
        ids_of = [part[0] if len(part) == 1 else joined(part) for part in parts]
        return [ids[~self._dead.contains(ids)] for ids in ids_of] if len(self._dead) else ids_of

    def of_stems(self, stemmed: Sequence[str]) -> list[list[str]]:
        """The wordings of each of some stemmed forms (`phrasemate.lexicon.stemmed`)."""
        hashes = _hashes(stemmed)
        wordings: list[dict[str, None]] = [{} for _ in stemmed]
        for segment in self._segments:
            for wordings_of_stem, rows in zip(wordings, segment.rows_of_stems(hashes), strict=True):
                wordings_of_stem.update(dict.fromkeys(map(segment.wording, rows)))
        return [*map(list, wordings)]


def joined(parts: Sequence[Ids]) -> Ids:
    """Arrays of phrase ids, one after the other."""
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _hashes(stems: Iterable[str]) -> NDArray[np.uint64]:
    """(stems,) 64 bits that stand for each stemmed wording."""
    digests = (blake2b(row_codec.encode_text(stem), digest_size=8).digest() for stem in stems)
    return np.frombuffer(b"".join(digests), "<u8")


def build_segment(sentences: Iterable[SentenceRow], low: int, high: int, languages: dict[int, str]) -> Segment:
    """The segment of phrase ids ``low`` to below ``high``; ``languages``: of documents by id ("" counts as English)."""
    number_of: dict[str, int] = {}
    language_of: list[str] = []
    numbers: list[int] = []
    ranges: list[Ids] = []
    for row in sentences:
        starts, ends = (column.tolist() for column in row_codec.unpack_spans(row.spans, row.phrases)[:2])
        wordings = folded_parts(row.text, zip(starts, ends, strict=True))
        numbers += [number_of.setdefault(wording, len(number_of)) for wording in wordings]
        ranges.append(np.arange(row.first_phrase, row.first_phrase + row.phrases))
        language_of += [languages.get(row.document, "") or "en"] * (len(number_of) - len(language_of))
    return segment_of(list(number_of), language_of, np.array(numbers, np.int64), joined(ranges), low, high)


def segment_of(
    wordings: Sequence[str], languages: Sequence[str], numbers: Ids, ids: Ids, low: int, high: int
) -> Segment:
    """Return the segment of phrase ids ``low`` to below ``high`` with these distinct, folded wordings.

    Args:
        wordings: Wordings in any order.
        languages: Language of each wording.
        numbers: Place of each phrase's wording among them (phrases,).
        ids: Id of each phrase (phrases,), ascending.
        low: First id of the segment.
        high: One more than its last id.
    """
    places = sorted(range(len(wordings)), key=wordings.__getitem__)  # UTF-8 sorts as its characters do
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
    """(wordings,) the hash of each stemmed wording."""
    hashes = np.zeros(len(wordings), np.uint64)
    places: dict[str, list[int]] = {}
    for place, language in enumerate(languages):
        places.setdefault(language, []).append(place)
    for language, of_language in places.items():
        stems = stemmed_all([wordings[place] for place in of_language], language, are_folded=True)
        hashes[of_language] = _hashes(stems)
    return hashes


def update(store: Store, whole: bool = False, tell: Callable[[float], None] = lambda share: None) -> None:
    """Bring the table up to date with the store; ``whole``: make all of it again. The caller holds the writer's lock.
    ``tell`` takes how much is ready, 0 to 1.

    New phrases become a segment; it is joined with the one before while that is not twice as large, so that there are
    few. A segment with more deleted phrases than live ones is made again. Raises PhraseIndexError (no space),
    IndexDamaged.
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
            sweep(store.path, _FILES, {file.file for file in old})  # of a run that was killed before it came to this
            return
        languages = {document.id: document.language for document in store.documents()}
        files = list(valid)
        high = valid[-1].high if valid else 0
        while high < state.next_phrase:  # segments of whole sentences
            low, high = high, min(store.next_sentence_start(high + SEGMENT), state.next_phrase)
            segment = build_segment(store.sentences_of_phrases(low, high), low, high, languages)
            files.append(_write(store.path, segment))
            tell(high / state.next_phrase)
        files.sort(key=lambda file: file.low)
        WordingsManifest(state.generation, tuple(files)).write(store.path)
    sweep(store.path, _FILES, {file.file for file in files})


def _valid(old: Sequence[SegmentFile], state: State, dead: Runs) -> tuple[SegmentFile, ...]:
    """The segments that stay as they are."""
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
    """Write a segment and flush it to the disk; its name is its hash. Raises PhraseIndexError."""
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
    """Raises IndexDamaged unless the file is the one that the manifest names; ``whole`` as in `differing`."""
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
    """Compare every segment with the sentences it was made from; a part of ``Index.verify``."""
    try:
        manifest = WordingsManifest.read(store.path)
    except IndexMissing:
        report.checked["wordings"] = "none"
        return
    if manifest.generation > state.generation:
        report.checked["wordings"] = "made since; a writer was at work"
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
        # a table may be older than the composing of letters in `folded`
        is_right = texts == right or [*map(folded, texts)] == right
        if len(live) != len(reference.ids) or not is_right:
            report.problems.append(f"{file.file}: does not match the sentences; run: phrasemate index optimize")
    report.checked["wordings"] = sum(file.phrases for file in manifest.segments)


class WordingSearch(NamedTuple):
    """Phrases by wording, within one snapshot: the ``table``, and ``vectors`` of phrase ids, (ids, dim) unit length."""

    table: Wordings
    vectors: Callable[[Ids], Floats]

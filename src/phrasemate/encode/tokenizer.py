"""Tokenizer of a model folder: text to token ids with character offsets.

The library ``tokenizers`` takes long to load a multilingual vocabulary of 250,000 pieces, longer than the rest of the
model. For short texts this is avoided. A Unigram segmentation depends only on the pieces that occur in the text and on
the lowest score, so a tokenizer built from these pieces gives the same tokens. The full tokenizer is loaded when more
text arrives.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import ModelDamaged, ModelUnsupported, first_line

_LARGEST = 150_000_000  # bytes, unpacked; XLM-R's tokenizer, with 250,002 pieces, has 17 million
_GZIP = 31  # window bits of zlib for a gzip file
FEW = 20_000  # characters tokenized before the full tokenizer is loaded, which takes as long as 100,000 characters
_latest: list[Tokenizer] = []  # of the last model; models of the same base share it


class Tokens(NamedTuple):
    """Tokens of a text, without special tokens: ids and (start, end) offsets in characters."""

    ids: list[int]
    offsets: list[tuple[int, int]]


BLANK = Tokens([0], [(0, 0)])  # for a text without tokens and without special tokens: every text needs a state


def open_tokenizer(path: Path) -> Tokenizer:
    """Open a packed ``tokenizer.json``. Raises ModelDamaged for an invalid file."""
    file_bytes = _read(path)
    digest = sha256(file_bytes).digest()
    for tokenizer in _latest:
        if tokenizer.digest == digest:
            return tokenizer
    _latest[:] = [Tokenizer(path, _unpack(path, file_bytes), digest)]
    return _latest[0]


class Tokenizer:
    """Tokenizer that loads its full vocabulary only when it is needed (see the module).

    ``opening`` and ``closing`` are the ids of the special tokens before and after a text.
    """

    def __init__(self, path: Path, content: bytes, digest: bytes) -> None:
        self.path, self.digest = path, digest
        self._content, self._library = content, None
        self._remaining = FEW  # characters
        self._lock = Lock()
        self._pieces: _Pieces | None = None
        with suppress(ModelDamaged), reading(path):  # for another kind, or an invalid file, the library is used
            self._pieces = _Pieces(*_parsed(content))
        if self._pieces is None:
            with reading(path):
                self.opening, self.closing = special_tokens(self.reference)
        else:
            self.opening, self.closing = self._pieces.special_tokens

    @property
    def reference(self) -> Any:
        """The full tokenizer of the library ``tokenizers``, loaded on first use."""
        with self._lock:
            if self._library is None:
                from tokenizers import Tokenizer as Library

                with reading(self.path):
                    library: Any = Library.from_buffer(self._content)
                    library.no_padding()  # the file may set both
                    library.no_truncation()
                self._library = library
                self._content, self._pieces = b"", None
            return self._library

    def encode(self, texts: Sequence[str], parallel: bool = False) -> list[Tokens]:
        """Tokenize texts without surrogates. ``parallel``: the library uses all cores, however many threads are set."""
        pieces = self._pieces
        self._remaining -= sum(map(len, texts))
        if pieces is not None and self._remaining >= 0:
            with reading(self.path):
                tokens = pieces.encode(texts)
            if tokens is not None:
                return tokens
        library = self.reference
        with reading(self.path):
            if parallel:
                encodings = library.encode_batch(texts, add_special_tokens=False)
            else:
                encodings = [library.encode(text, add_special_tokens=False) for text in texts]
        return [Tokens(encoding.ids, encoding.offsets) for encoding in encodings]


class _Vocabulary:
    """Lookup of Unigram pieces directly in the JSON text ``[["piece",-3.5],["next",-4.25]]``.

    Building a dictionary of 250,000 pieces would take longer than loading the rest of the model. Instead, a piece is
    compared with those of the same 16-bit hash (`_buckets`). Raises ValueError for JSON of another form.
    """

    def __init__(self, table: bytes) -> None:
        marks = np.frombuffer(table, np.uint8)
        characters = [at + 1 for at in _escapes(table)]
        if any(table[at] not in b'"\\' for at in characters):
            raise ValueError("an escape of another kind")
        is_quote = marks == ord('"')
        is_quote[characters] = False
        quotes = np.flatnonzero(is_quote)
        self._starts, self._ends = quotes[::2] + 1, quotes[1::2]
        if len(self._starts) != len(self._ends) or not len(self._starts):
            raise ValueError("a string that does not end")
        self._score_ends = np.append(self._starts[1:] - len('],["'), len(table) - len("]]"))
        before = marks[self._starts - 2] == ord("[")
        after = (marks[self._ends + 1] == ord(",")) & (marks[self._score_ends] == ord("]"))
        if not (before & after & (self._score_ends > self._ends + 2)).all():
            raise ValueError("not pieces and scores")
        self._table = table
        lengths = self._ends - self._starts
        self._lookup = _buckets(table, self._starts, lengths)
        self.longest = int(lengths.max())  # bytes, so no less than characters
        self.lowest = self._lowest(marks)

    def _lowest(self, marks: NDArray[np.uint8]) -> int:
        """Find the index of a piece with the lowest score; only scores with the lowest integer part are parsed."""
        if any((marks[self._score_ends - place] == ord("e")).any() for place in (2, 3, 4)):
            raise ValueError("scores with exponents")
        points = [marks[self._ends + 4] == ord("."), marks[self._ends + 5] == ord(".")]  # "-1.5" and "-11.5"
        tens = np.where(points[0], 0, marks[self._ends + 3])
        ones = np.where(points[0], marks[self._ends + 3], marks[self._ends + 4])
        whole = np.where(marks[self._ends + 2] == ord("-"), 256 * tens.astype(np.int32) + ones, 0)
        is_read = (whole == whole.max()) | ~(points[0] | points[1])
        rows = np.flatnonzero(is_read).tolist()
        return min(rows, key=lambda row: float(self._score(row)))

    def _score(self, number: int) -> bytes:
        return self._table[self._ends[number] + 2 : self._score_ends[number]]

    def entry(self, number: int) -> bytes:
        """Return the JSON of a piece and its score."""
        return self._table[self._starts[number] - 2 : self._score_ends[number] + 1]

    def numbers(self, pieces: Iterable[str]) -> dict[str, int]:
        """Map the strings that are pieces to their indices."""
        strings = {json.dumps(piece, ensure_ascii=False)[1:-1].encode(): piece for piece in pieces}
        ends = np.cumsum([len(piece) for piece in strings], dtype=np.int64)
        starts = np.append(0, ends)[:-1]
        is_bucket = np.zeros(1 << 16, bool)
        is_bucket[_buckets(b"".join(strings), starts, ends - starts)] = True
        rows = np.flatnonzero(is_bucket[self._lookup])
        places = zip(rows.tolist(), self._starts[rows].tolist(), self._ends[rows].tolist(), strict=True)
        pairs = ((strings.get(self._table[start:end]), row) for row, start, end in places)
        return {piece: row for piece, row in pairs if piece is not None}


def _escapes(content: bytes) -> Iterator[int]:
    """Yield the positions of backslashes that escape the following byte."""
    at = content.find(b"\\")
    while at >= 0:
        yield at
        at = content.find(b"\\", at + 2)


def _buckets(content: bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint16]:
    """Hash substrings to 16 bits by their length and first eight bytes: (n,) starts and lengths in bytes -> (n,)."""
    beginnings: NDArray[np.uint64] = np.ndarray(len(content) + 1, "<u8", content + bytes(8), strides=(1,))[starts]
    beginnings = beginnings & _FIRST_BYTES[np.minimum(lengths, 8)]
    return (((beginnings ^ lengths.astype(np.uint64)) * _MULTIPLIER) >> np.uint64(48)).astype(np.uint16)


_FIRST_BYTES = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio (Fibonacci hashing)


class _Pieces:
    """Factory of library tokenizers reduced to the pieces that occur in given texts."""

    def __init__(self, settings: dict[str, Any], vocabulary: _Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._settings = settings
        added_tokens = [token["content"] for token in settings["added_tokens"]]
        places = vocabulary.numbers(added_tokens)
        self._added: dict[str, int] = {token: places[token] for token in added_tokens}
        self._needed = dict.fromkeys([settings["model"]["unk_id"], vocabulary.lowest, *self._added.values()])
        self._plain = self._with([])[0]
        numbers = list(self._needed)
        before, after = special_tokens(self._plain)
        self.special_tokens = [numbers[place] for place in before], [numbers[place] for place in after]

    def encode(self, texts: Sequence[str]) -> list[Tokens] | None:
        """Tokenize texts; None if one of them contains the text of an added token, such as "<s>"."""
        normal = texts if self._plain.normalizer is None else list(map(self._plain.normalizer.normalize_str, texts))
        if any(wording in text for text_list in (texts, normal) for text in text_list for wording in self._added):
            return None
        tokenizer, numbers = self._with(self._occurring(normal))
        encodings = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
        return [Tokens([numbers[place] for place in encoding.ids], encoding.offsets) for encoding in encodings]

    def _occurring(self, texts: Sequence[str]) -> list[int]:
        """Find the indices of all pieces that occur in normalised texts."""
        words = set(texts)
        if self._plain.pre_tokenizer is not None:
            words = {word for text in words for word, _ in self._plain.pre_tokenizer.pre_tokenize_str(text)}
        lengths = range(1, self._vocabulary.longest + 1)
        parts = {
            word[at : at + length] for word in words for at in range(len(word)) for length in lengths[: len(word) - at]
        }
        return list(self._vocabulary.numbers(parts).values())

    def _with(self, pieces: Sequence[int]) -> tuple[Any, list[int]]:
        """Build a tokenizer of these pieces and the required ones; also returns its pieces' original indices."""
        from tokenizers import Tokenizer as Library

        numbers = list(self._needed | dict.fromkeys(pieces))
        places = {number: place for place, number in enumerate(numbers)}
        added_tokens = [
            token | {"id": places[self._added[token["content"]]]} for token in self._settings["added_tokens"]
        ]
        settings = self._settings | {
            "model": self._settings["model"] | {"unk_id": places[self._settings["model"]["unk_id"]]},
            "added_tokens": added_tokens,
            "post_processor": _renumbered(self._settings["post_processor"], places),
        }
        entries = b",".join(map(self._vocabulary.entry, numbers)).decode()
        return Library.from_str(json.dumps(settings).replace(_HOLE, f"[{entries}]")), numbers


_HOLE = '"the vocabulary"'


def _parsed(content: bytes) -> tuple[dict[str, Any], _Vocabulary]:
    """Split the JSON of a Unigram tokenizer into its parsed settings and its unparsed vocabulary.

    Parsing all of it would take four times as long. Raises ValueError, KeyError or similar for another kind of
    tokenizer.
    """
    begin = content.index(b"[", content.index(b'"vocab"'))
    end = content.rindex(b"]]") + 2
    settings = json.loads(content[:begin] + _HOLE.encode() + content[end:])
    model = settings["model"]
    if model["type"] != "Unigram" or model.get("byte_fallback"):
        raise ValueError("a vocabulary that is read in another way")
    return settings | {"padding": None, "truncation": None}, _Vocabulary(content[begin:end])


def _renumbered(template: Mapping[str, Any] | None, places: Mapping[int, int]) -> Mapping[str, Any] | None:
    """Replace the ids of a post-processor's special tokens by those in the reduced vocabulary."""
    if template is None:
        return None
    if template["type"] != "TemplateProcessing":
        raise ValueError(f"a post-processor of type {template['type']}, expected TemplateProcessing")
    tokens = {
        name: token | {"ids": [places[number] for number in token["ids"]]}
        for name, token in template["special_tokens"].items()
    }
    return {**template, "special_tokens": tokens}


def load_tokenizer(path: Path) -> Any:
    """Load the full tokenizer of the library ``tokenizers``; it is shared and must not be modified."""
    return open_tokenizer(path).reference


def tokenizer_bytes(path: Path) -> bytes:
    """Unpack ``tokenizer.json.gz``. Raises ModelDamaged for an invalid or too large file."""
    return _unpack(path, _read(path))


def _read(path: Path) -> bytes:
    with reading(path):
        return path.read_bytes()


def _unpack(path: Path, packed: bytes) -> bytes:
    with reading(path):
        stream = zlib.decompressobj(_GZIP)
        content = stream.decompress(packed, _LARGEST + 1)
        if len(content) > _LARGEST:
            raise ValueError(f"more than {_LARGEST:,} bytes, unpacked")
        if not stream.eof:
            raise ValueError("the file ends within its data")
        return content


def special_tokens(library: Any) -> tuple[list[int], list[int]]:
    """Find the ids of the special tokens that a library tokenizer puts before and after a text.

    Raises ModelUnsupported if no text yields a token.
    """
    added_tokens = {token.content for token in library.get_added_tokens_decoder().values()}
    texts = chain(["a"], (piece for piece in library.get_vocab() if piece not in added_tokens))
    text = next((text for text in texts if library.encode(text, add_special_tokens=False).ids), None)
    if text is None:
        raise ModelUnsupported("a tokenizer that makes no token of any text; give another tokenizer.json")
    plain, whole = (library.encode(text, add_special_tokens=special).ids for special in (False, True))
    places = range(len(whole) - len(plain) + 1)
    before = next((at for at in places if whole[at : at + len(plain)] == plain), len(whole))
    return whole[:before], whole[before + len(plain) :]


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn the library's errors into ModelDamaged: plain Exceptions, and panics, which derive from BaseException."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, MemoryError | ModelDamaged) or not (
            isinstance(error, Exception) or type(error).__name__ == "PanicException"
        ):
            raise
        raise ModelDamaged(f"{path}: not a readable tokenizer ({first_line(error)}); export the model again") from error

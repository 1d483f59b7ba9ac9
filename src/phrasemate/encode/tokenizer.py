"""The tokenizer of a model folder: text to token numbers with character offsets.

A multilingual vocabulary has 250,000 pieces, and most of what loading a model takes would be the library's tree of
them. Short texts do without it. A Unigram segmentation depends on the pieces that occur in the text, and on the lowest
score. So the library's tokenizer is made with these pieces alone, and gives the same tokens. The whole one is made when
there is more to read.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from phrasemate.errors import ModelDamaged, first_line

_LARGEST = 150_000_000  # bytes, unpacked: the tokenizer of XLM-R, with 250,002 pieces, has 17 million
_GZIP = 31  # window bits of zlib for a gzip file
FEW = 20_000  # characters in all that are read with the pieces of each text; loading all takes as long as 100,000
_latest: list[Tokenizer] = []  # that of the last model: models of the same base share it


class Tokens(NamedTuple):
    """A text's tokens, without special ones: their numbers, and their (start, end) in characters."""

    ids: list[int]
    offsets: list[tuple[int, int]]


def open_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a model folder. Raises ModelDamaged for a file that holds none."""
    file_bytes = _read(path)
    digest = sha256(file_bytes).digest()
    for tokenizer in _latest:
        if tokenizer.digest == digest:
            return tokenizer
    _latest[:] = [Tokenizer(path, _unpack(path, file_bytes), digest)]
    return _latest[0]


class Tokenizer:
    """A tokenizer that reads little text with few pieces, and much text with all of them; the tokens are the same.

    ``opening`` and ``closing`` are the special tokens that it puts before and after a text.
    """

    def __init__(self, path: Path, content: bytes, digest: bytes) -> None:
        self.path, self.digest = path, digest
        self._content, self._library = content, None
        self._remaining = FEW  # characters
        self._lock = Lock()
        self._pieces = _pieces_of(path, content)
        if self._pieces is None:
            with reading(path):
                self.opening, self.closing = special_tokens(self.reference)
        else:
            self.opening, self.closing = self._pieces.special_tokens

    @property
    def reference(self) -> Any:
        """The whole tokenizer of the library ``tokenizers``; made when it is first asked for."""
        with self._lock:
            if self._library is None:
                self._library = _whole(self.path, self._content)
                self._content, self._pieces = b"", None
            return self._library

    def encode(self, texts: Sequence[str], parallel: bool = False) -> list[Tokens]:
        """The tokens of each text, which holds no surrogates; ``parallel``: on all cores, which nothing limits."""
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


class _Vocabulary(NamedTuple):
    """The pieces of a Unigram tokenizer and their scores, as they stand in its JSON."""

    pieces: list[bytes]  # _ESCAPED for what JSON escapes
    scores: list[bytes]  # each with the marks around it: ",-7.5],["
    lowest: int  # the number of a piece with the lowest score


class _Pieces:
    """Tokenizers that know those pieces of a vocabulary which occur in some texts."""

    def __init__(self, settings: dict[str, Any], vocabulary: _Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._numbers = dict(zip(vocabulary.pieces, range(len(vocabulary.pieces)), strict=True))
        self._longest = max(map(len, vocabulary.pieces))  # bytes, so no less than characters
        self._settings = settings
        self._added: list[str] = [token["content"] for token in settings["added_tokens"]]
        added_numbers = [self._numbers[_escaped(token).encode()] for token in self._added]
        self._needed = dict.fromkeys([settings["model"]["unk_id"], vocabulary.lowest, *added_numbers])
        self._plain = self._with([])[0]
        numbers = list(self._needed)
        before, after = special_tokens(self._plain)
        self.special_tokens = [numbers[place] for place in before], [numbers[place] for place in after]

    def encode(self, texts: Sequence[str]) -> list[Tokens] | None:
        """The tokens of the texts; None where one holds the wording of an added token, such as "<s>"."""
        normal = texts if self._plain.normalizer is None else list(map(self._plain.normalizer.normalize_str, texts))
        special_wordings = [*self._added, *_ESCAPED.values()]
        if any(wording in text for text_list in (texts, normal) for text in text_list for wording in special_wordings):
            return None
        tokenizer, numbers = self._with(self._occurring(normal))
        encodings = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
        return [Tokens([numbers[place] for place in encoding.ids], encoding.offsets) for encoding in encodings]

    def _occurring(self, texts: Sequence[str]) -> list[int]:
        """The numbers of the pieces that occur in normalised texts."""
        words = set(texts)
        if self._plain.pre_tokenizer is not None:
            words = {word for text in words for word, _ in self._plain.pre_tokenizer.pre_tokenize_str(text)}
        lengths = range(1, self._longest + 1)
        parts = {
            word[at : at + length]
            for word in map(_escaped, words)
            for at in range(len(word))
            for length in lengths[: len(word) - at]
        }
        return [self._numbers[part] for part in map(str.encode, parts) if part in self._numbers]

    def _with(self, pieces: Sequence[int]) -> tuple[Any, list[int]]:
        """A tokenizer that knows these pieces and those that every text needs, and the numbers of its pieces."""
        from tokenizers import Tokenizer as Library

        numbers = list(self._needed | dict.fromkeys(pieces))
        places = {number: place for place, number in enumerate(numbers)}
        added_tokens = [
            token | {"id": places[self._numbers[_escaped(token["content"]).encode()]]}
            for token in self._settings["added_tokens"]
        ]
        settings = self._settings | {
            "model": self._settings["model"] | {"unk_id": places[self._settings["model"]["unk_id"]]},
            "added_tokens": added_tokens,
            "post_processor": _renumbered(self._settings["post_processor"], places),
        }
        entries = b",".join(
            b'["%s",%s]' % (self._vocabulary.pieces[number], self._vocabulary.scores[number].strip(b",[]"))
            for number in numbers
        )
        return Library.from_str(json.dumps(settings).replace(_HOLE, f"[{_unescaped(entries).decode()}]")), numbers


_ESCAPED = {
    "\\": "\x02",
    '"': "\x01",
}  # what stands for what JSON writes with a backslash; JSON allows neither as it is
_HOLE = '"the vocabulary"'


def _escaped(text: str) -> str:
    for plain, stand_in in _ESCAPED.items():
        text = text.replace(plain, stand_in)
    return text


def _unescaped(content: bytes) -> bytes:
    """JSON with stand-ins -> JSON."""
    for plain, stand_in in _ESCAPED.items():
        content = content.replace(stand_in.encode(), b"\\" + plain.encode())
    return content


def _pieces_of(path: Path, content: bytes) -> _Pieces | None:
    """The pieces of a tokenizer.json; None where it is of another kind, or none: the library tells what is wrong."""
    try:
        with reading(path):
            return _Pieces(*_parsed(content))
    except ModelDamaged:
        return None


def _parsed(content: bytes) -> tuple[dict[str, Any], _Vocabulary]:
    """The settings of a Unigram tokenizer, and its vocabulary; JSON's own reader would take three times as long.

    With stand-ins for the marks that are escaped, all quotation marks that are left begin or end a string. Raises
    ValueError, KeyError and the like for another kind of tokenizer.
    """
    for plain, stand_in in _ESCAPED.items():
        content = content.replace(b"\\" + plain.encode(), stand_in.encode())
    parts = content.split(b'"')
    begin = parts.index(b"vocab") + 2
    end = next(place for place in range(len(parts) - 1, begin, -1) if _END.search(parts[place])) + 1
    outer = [*parts[: begin - 1], parts[begin - 1].replace(b"[[", _HOLE.encode()) + _END.split(parts[end - 1])[-1]]
    settings = json.loads(_unescaped(b'"'.join([*outer, *parts[end:]])))
    pieces, scores = parts[begin:end:2], parts[begin + 1 : end : 2]
    values = np.fromstring(b"".join(scores).translate(None, b"[]").strip(b",").replace(b",,", b","), sep=",")
    model = settings["model"]
    if model["type"] != "Unigram" or model.get("byte_fallback") or len(pieces) != len(values) or b"\\" in content:
        raise ValueError("a vocabulary that is read in another way")
    return settings | {"padding": None, "truncation": None}, _Vocabulary(pieces, scores, int(values.argmin()))


_END = re.compile(rb"\]\]")


def _renumbered(template: Mapping[str, Any] | None, places: Mapping[int, int]) -> Mapping[str, Any] | None:
    """A post-processor with the numbers of its special tokens in a smaller vocabulary."""
    if template is None:
        return None
    if template["type"] != "TemplateProcessing":
        raise ValueError(f"a post-processor of type {template['type']}, expected TemplateProcessing")
    tokens = {
        name: token | {"ids": [places[number] for number in token["ids"]]}
        for name, token in template["special_tokens"].items()
    }
    return {**template, "special_tokens": tokens}


def _whole(path: Path, content: bytes) -> Any:
    from tokenizers import Tokenizer as Library

    with reading(path):
        library = Library.from_buffer(content)
        library.no_padding()  # an export has neither, and a text may be padded to any length
        library.no_truncation()
    return library


def load_tokenizer(path: Path) -> Any:
    """The whole tokenizer of a folder, of the library ``tokenizers``. Nothing here changes one."""
    return open_tokenizer(path).reference


def tokenizer_bytes(path: Path) -> bytes:
    """``tokenizer.json`` of a folder. Raises ModelDamaged where it does not unpack to some megabytes."""
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
    """The tokens that a tokenizer of the library puts before a text and after it."""
    plain, whole = (library.encode("a", add_special_tokens=special).ids for special in (False, True))
    places = range(len(whole) - len(plain) + 1)
    before = next((at for at in places if whole[at : at + len(plain)] == plain), len(whole))
    return whole[:before], whole[before + len(plain) :]


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise ModelDamaged for what the library raises: a bare Exception, or a panic, which is none."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, MemoryError | ModelDamaged) or not (
            isinstance(error, Exception) or type(error).__name__ == "PanicException"
        ):
            raise
        raise ModelDamaged(f"{path}: not a readable tokenizer ({first_line(error)}); export the model again") from error

"""The tokenizer of few pieces against the whole one of the library: the same tokens and offsets, in every language."""

from __future__ import annotations

import gzip
import json
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasemate.encode import bundled_folder
from phrasemate.encode.tokenizer import FEW, Tokenizer, Tokens, open_tokenizer, tokenizer_bytes
from phrasemate.errors import ModelDamaged
from phrasemate.lexicon.induced import bundled_lexicon

PATH = bundled_folder() / "tokenizer.json.gz"
CONTENT = tokenizer_bytes(PATH)


@pytest.fixture(scope="module")
def fresh() -> Tokenizer:
    """The tokenizer of the bundled model before it has read anything; not to be used itself, only copies of it."""
    return Tokenizer(PATH, CONTENT, b"")


@pytest.fixture(scope="module")
def library(fresh: Tokenizer) -> Any:
    return copy(fresh).reference


@pytest.fixture(scope="module")
def pieces(fresh: Tokenizer) -> Any:
    """What reads short texts; without a limit to how many."""
    assert fresh._pieces is not None
    return fresh._pieces


@pytest.fixture
def tokenizer(fresh: Tokenizer, library: Any) -> Tokenizer:
    """A tokenizer that has read nothing, and need not load the whole one again."""
    tokenizer = copy(fresh)
    tokenizer._library = library
    return tokenizer


def whole(library: Any, text: str) -> Tokens:
    encoding = library.encode(text, add_special_tokens=False)
    return Tokens(encoding.ids, encoding.offsets)


def lexicon_text(language: str) -> str:
    """Words of a language, from all over the alphabet."""
    lexicon = bundled_lexicon()
    assert lexicon is not None
    wordings = lexicon._keys_of(language).wordings
    step = max(1, len(wordings) // 40)
    return " ".join(wordings[row] for row in range(0, len(wordings), step))


def test_every_language(library: Any, pieces: Any) -> None:
    lexicon = bundled_lexicon()
    assert lexicon is not None
    texts = [lexicon_text(language) for language in lexicon.languages]
    assert len(texts) > 20
    for text in texts:
        assert pieces.encode([text]) == [whole(library, text)]
    assert pieces.encode(texts) == [whole(library, text) for text in texts]


UNUSUAL = [
    "",
    " ",
    "\n\t",
    "a",
    "▁",
    "▁ ▁a",
    '"',
    '\\"',
    '["a",-3.5],["',
    "\\u0041 \\n \\\\",
    "ﬁne ﬀ ½ ㌔ ①",
    "e\u0301 é",
]
UNUSUAL += ["\U0001f469\u200d\U0001f52c", "\x00\x7f\x85\u2028", "\ufffd", "x" * 300, "a\x01b", '"\x02', "\uff1cs\uff1e"]
UNUSUAL += [
    "東京都の天気は晴れです。",
    "ไทยไม่เว้นวรรค",
    "مرحبا بالعالم",
    "नमस्ते दुनिया",
    "<s>",
    "a </s> b",
    "<unk>",
    "<pad>",
    "<mask>",
]


@pytest.mark.parametrize("text", UNUSUAL)
def test_unusual_texts(tokenizer: Tokenizer, library: Any, text: str) -> None:
    assert tokenizer.encode([text]) == [whole(library, text)]
    assert tokenizer.encode(["one", text, "two"])[1] == whole(library, text)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), min_size=1, max_size=3))
def test_any_text(library: Any, pieces: Any, texts: list[str]) -> None:
    added_tokens = {token.content for token in library.get_added_tokens_decoder().values()}
    forms = [form for text in texts for form in (text, library.normalizer.normalize_str(text))]
    has_added_token = any(token in form for form in forms for token in added_tokens)
    assert pieces.encode(texts) == (None if has_added_token else [whole(library, text) for text in texts])


def test_much_text_is_read_with_the_whole_tokenizer(library: Any) -> None:
    tokenizer = Tokenizer(PATH, CONTENT, b"")
    text = "Die Bank am Ufer. " * (FEW // 36)  # half of it
    results = [tokenizer.encode([text]) for _ in range(3)]
    assert results == [[whole(library, text)]] * 3
    assert tokenizer._pieces is None
    assert tokenizer.opening == [library.token_to_id("<s>")]
    assert tokenizer.closing == [library.token_to_id("</s>")]


WITHOUT_PIECES = b'{"model": {"type": "Unigram", "vocab": [[]]}}'


def packed(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content, 1))
    return path


@cache
def _few() -> str:
    content = json.loads(CONTENT)
    content["model"]["vocab"] = content["model"]["vocab"][:3000]
    return json.dumps(content)


def compact(content: dict[str, Any]) -> bytes:
    """As an export writes it, so that its pieces are left where they stand."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def small(**changes: Any) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(_few())
    content["model"].update(changes)
    return content


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("ascii_alone", [True, False])
def test_a_file_written_by_another_program(tmp_path: Path, ascii_alone: bool, indent: int | None) -> None:
    content = json.dumps(small(), ensure_ascii=ascii_alone, indent=indent, sort_keys=True)
    tokenizer = open_tokenizer(packed(tmp_path / "t.gz", content.encode()))
    texts = ["Die Bank am Ufer", "где 東 \x1b"]
    tokens = tokenizer.encode(texts)
    assert tokens == [whole(tokenizer.reference, text) for text in texts]


@pytest.mark.parametrize("changes", [{"byte_fallback": True}, {"unk_id": 2}])
def test_other_settings(tmp_path: Path, changes: dict[str, Any]) -> None:
    tokenizer = open_tokenizer(packed(tmp_path / "t.gz", json.dumps(small(**changes), ensure_ascii=False).encode()))
    tokens = tokenizer.encode(["Die 東 Bank"])
    assert tokens == [whole(tokenizer.reference, "Die 東 Bank")]


def test_scores_with_exponents_are_read_with_the_whole_tokenizer(tmp_path: Path) -> None:
    content = small()
    assert open_tokenizer(packed(tmp_path / "t.gz", compact(content)))._pieces is not None
    content["model"]["vocab"][2000][1] = -1e-05  # as JSON has it
    tokenizer = open_tokenizer(packed(tmp_path / "t.gz", compact(content)))
    assert tokenizer._pieces is None
    assert tokenizer.encode(["Die Bank"]) == [whole(tokenizer.reference, "Die Bank")]


@pytest.mark.parametrize(("template", "opening", "closing"), [(None, [], []), ("BertProcessing", ["<s>"], ["</s>"])])
def test_other_special_tokens(tmp_path: Path, template: str | None, opening: list[str], closing: list[str]) -> None:
    """None, and as BERT's own form of a template puts them."""
    from tokenizers import Tokenizer as Library

    content = small()
    numbers = {piece: number for number, (piece, _) in enumerate(content["model"]["vocab"])}
    bert = {"type": template, "sep": ["</s>", numbers["</s>"]], "cls": ["<s>", numbers["<s>"]]}
    content["post_processor"] = bert if template else None
    raw = compact(content)
    tokenizer = open_tokenizer(packed(tmp_path / "t.gz", raw))
    assert tokenizer.opening == [numbers[piece] for piece in opening]
    assert tokenizer.closing == [numbers[piece] for piece in closing]
    plain = whole(Library.from_buffer(raw), "Die Bank")
    assert tokenizer.encode(["Die Bank"]) == [plain]


@pytest.mark.parametrize("content", [b"", b"{}", b"[[]]", CONTENT[:-9], b'"vocab"', WITHOUT_PIECES])
def test_damage(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ModelDamaged, match="not a readable tokenizer"):
        open_tokenizer(packed(tmp_path / "t.gz", content))


def test_a_file_that_ends_early(tmp_path: Path) -> None:
    path = tmp_path / "t.gz"
    path.write_bytes(PATH.read_bytes()[:-10])
    with pytest.raises(ModelDamaged, match="ends within its data"):
        open_tokenizer(path)

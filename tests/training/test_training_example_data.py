"""Example sentences as tokens: windows around the phrase, bare phrases, what is drawn; kept states."""

from __future__ import annotations

import random
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from phrasemate.dataset.wikixpr import ExamplePair
from phrasemate.errors import InputError
from phrasemate.training.example_data import Contexts, contexts_of, sampled
from phrasemate.training.frozen_states import Feed, Lower, halves
from phrasemate.training.hf_encoder import Backbone, Tokenizer
from phrasemate.types import Phrase

LONG = "the old bank on the river was closed and he sat on the bank and read a book at the window"


def marked(text: str) -> Phrase:
    start, end = text.index("["), text.index("]") - 1
    return Phrase(text.replace("[", "").replace("]", ""), start, end)


PAIRS = [
    ExamplePair("Bank", "bank", (marked("a [bank] here"), marked("the [bank]")), (marked("[bank] of a river"),)),
    ExamplePair("BANK", "river"),
    ExamplePair("Buch", "book", tuple(marked(f"{'a ' * n}[buch]") for n in range(6)), (marked("a [book]"),)),
]


def tokens_of(contexts: Contexts, number: int, tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """A context's token numbers, and those of its phrase."""
    low, high = contexts.bounds[number : number + 2]
    ids = contexts.ids[low:high].tolist()
    return ids, ids[contexts.first[number] : contexts.last[number] + 1]


def alone(tokenizer: Tokenizer, text: str) -> list[int]:
    return [int(x) for x in tokenizer([text]).ids[1:-1]]


def test_phrases_are_found_among_the_tokens(base: Path) -> None:
    tokenizer = Tokenizer(base, 16)
    contexts = contexts_of("xx-en train", PAIRS, tokenizer, 4)
    assert contexts.owned.tolist() == [0, 2, 3, 7, 8, 9, 10]  # of six examples the first four; one without any
    assert (contexts.bare, contexts.pairs) == (2, 3)
    assert contexts.wordings[0] == contexts.wordings[1] == contexts.wordings[3] != contexts.wordings[2]
    first = tokenizer(["a bank here"]).ids.tolist()
    assert tokens_of(contexts, 0, tokenizer) == (first, alone(tokenizer, "bank"))
    assert tokens_of(contexts, 2, tokenizer) == (tokenizer(["BANK"]).ids.tolist(), alone(tokenizer, "BANK"))


def test_a_blank_phrase_is_one_error(base: Path) -> None:
    with pytest.raises(InputError, match="xx-en train: 'Bank' and ' '; expected two phrases, neither blank"):
        contexts_of("xx-en train", [ExamplePair("Bank", " ", (marked("[bank]"),))], Tokenizer(base), 4)


def test_every_phrase_bare(base: Path) -> None:
    contexts = contexts_of("xx-en train", PAIRS, Tokenizer(base, 16), 4, bare=True)
    assert contexts.owned.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert contexts.bare == 6


@pytest.mark.parametrize("most", [5, 8, 12, 100])
def test_a_long_sentence_is_cut_around_its_phrase(base: Path, most: int) -> None:
    """Against a plain loop that takes a token from the longer side until it fits."""
    tokenizer = Tokenizer(base, most)
    words = [(i, i + len(word)) for word in set(LONG.split()) for i in range(len(LONG)) if LONG.startswith(word, i)]
    phrases = [Phrase(LONG, start, end) for start, end in words] + [Phrase(LONG, 4, 24)]
    contexts = contexts_of("xx-en train", [ExamplePair("x", "y", tuple(phrases))], tokenizer, 0)
    whole = tokenizer.uncut([LONG])
    for number, phrase in enumerate(phrases):
        overlap = (whole.ends > phrase.start) & (whole.starts < phrase.end) & (whole.ends > whole.starts)
        inside = np.flatnonzero(overlap).tolist()
        before, after = list(range(1, inside[0])), list(range(inside[-1] + 1, len(whole.ids) - 1))
        inside = inside[: most - 2]
        while len(before) + len(inside) + len(after) > most - 2:
            if len(before) > len(after):
                before = before[1:]
            else:
                after = after[:-1]
        ids, result = tokens_of(contexts, number, tokenizer)
        tokens = [0, *before, *inside, *after, len(whole.ids) - 1]
        assert result == whole.ids[inside].tolist()
        assert len(tokens) <= most
        assert ids == whole.ids[tokens].tolist()


@pytest.mark.parametrize("text", ["[\u200b]", "a [\u200b]", "[ ] a"])
def test_a_phrase_without_a_token_of_its_own(base: Path, text: str) -> None:
    contexts = contexts_of("xx-en train", [ExamplePair("x", "y", (marked(text),))], Tokenizer(base, 8), 0)
    assert 0 <= contexts.first[0] <= contexts.last[0] < contexts.bounds[1]


def test_drawing(base: Path) -> None:
    tokenizer = Tokenizer(base, 16)
    files = [contexts_of("xx-en train", PAIRS, tokenizer, 0), contexts_of("yy-en train", PAIRS[2:], tokenizer, 0)]
    names: set[tuple[int, ...]] = set()
    for seed in range(20):
        sample = sampled(files, [(0, 2), (1, 0), (0, 0)], 3, random.Random(seed))
        assert sample.owner.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 3, 4, 5]  # those that have fewer have those they have
        assert sample.file.tolist() == [0] * 3 + [1] * 3 + [0] * 3 + [1, 0]
        assert len(set(sample.number[:3].tolist())) == 3
        assert set(sample.number[:3].tolist()) <= set(range(3, 9))
        names.add(tuple(sample.number[:3].tolist()))
        for i, (file, number) in enumerate(zip(sample.file, sample.number, strict=True)):
            expected = tokens_of(files[file], number, tokenizer)
            ids = sample.ids[sample.bounds[i] : sample.bounds[i + 1]].tolist()
            assert (ids, ids[sample.first[i] : sample.last[i] + 1]) == expected
    assert len(names) > 10
    every = sampled(files, [(0, 2)], 0, None)
    assert every.number.tolist() == [*range(3, 9), 11]


@pytest.fixture
def lower(base: Path) -> Lower:
    return halves(Backbone(base, dropout=0.0), 1)[0]


def states(feed: Feed, files: list[Contexts]) -> list[torch.Tensor]:
    sample = sampled(files, [(0, 2), (0, 0)], 2, random.Random(1))
    return [feed.inputs(piece).states * torch.from_numpy(piece.mask)[:, :, None] for piece in feed.pieces(sample)]


def test_kept_states_are_the_states(base: Path, lower: Lower, tmp_path: Path) -> None:
    files = [contexts_of("xx-en train", PAIRS, Tokenizer(base, 16), 0)]
    feed, plain = (Feed(files, lower, 1, 40, nullcontext) for _ in range(2))
    messages: list[Any] = []
    feed.keep(tmp_path, "fp32", lambda *what: messages.append(what))
    assert messages == [("states of xx-en train", 0, 12), ("states of xx-en train", 12, 12)]
    for a, b in zip(states(feed, files), states(plain, files), strict=True):
        assert torch.allclose(a, b, atol=2e-3)  # half precision
    again = Feed(files, lower, 1, 40, nullcontext)
    again.keep(tmp_path, "fp32", lambda *what: pytest.fail("computed again"))
    assert all(torch.equal(a, b) for a, b in zip(states(feed, files), states(again, files), strict=True))
    other = halves(Backbone(base, dropout=0.0), 0)[0]  # other layers, or another precision: another file
    Feed(files, other, 1, 40, nullcontext).keep(tmp_path, "fp32")
    feed.keep(tmp_path, "bf16")
    assert len(list(tmp_path.glob("xx-en-train-*.npy"))) == 3


@pytest.mark.parametrize("damage", ["truncated", "empty", "other"])
def test_kept_states_that_are_not_whole_are_made_again(base: Path, lower: Lower, tmp_path: Path, damage: str) -> None:
    files = [contexts_of("xx-en train", PAIRS, Tokenizer(base, 16), 0)]
    feed, again = (Feed(files, lower, 1, 40, nullcontext) for _ in range(2))
    feed.keep(tmp_path, "fp32")
    expected = [state.clone() for state in states(feed, files)]
    (path,) = tmp_path.glob("*.npy")
    content = path.read_bytes()
    path.unlink()
    path.write_bytes({"truncated": content[:-7], "empty": b"", "other": b"\x93NUMPY nonsense"}[damage])
    again.keep(tmp_path, "fp32")
    assert all(torch.equal(a, b) for a, b in zip(states(again, files), expected, strict=True))
    assert path.read_bytes() == content

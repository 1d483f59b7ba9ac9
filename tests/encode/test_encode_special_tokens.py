"""Tokenizers of every kind that put a token before a text, after it, both or none: offsets, states, blank texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hf_families
import numpy as np
import pytest
from encoders import cosines
from tokenizers import Tokenizer

from phrasemate.encode import load_model
from phrasemate.encode.export.export import export_model
from phrasemate.encode.tokenizer import special_tokens
from phrasemate.types import Phrase

pytestmark = pytest.mark.slow

EDGES = {"none": ("", ""), "opening": ("<s>", ""), "closing": ("", "</s>"), "both": ("<s>", "</s>")}
KINDS = ("wordpiece", "unigram", "byte_bpe", "gpt2", "fallback_bpe")
DROPPED = {"\u200d"}  # joins two emoji, is not seen
BLANK = ("", " ", "\u200b")


def tokenizer_with(kind: str, edges: str) -> Any:
    """A tokenizer of a kind, which adds these special tokens."""
    from tokenizers import pre_tokenizers, processors

    tokenizer = getattr(hf_families, "byte_bpe" if kind == "gpt2" else kind)()
    if kind == "gpt2":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    value = json.loads(tokenizer.to_str())
    value["post_processor"] = None
    if kind == "gpt2" and edges == "none":
        value["post_processor"] = {
            "type": "ByteLevel",
            "add_prefix_space": True,
            "trim_offsets": True,
            "use_regex": True,
        }
    tokenizer = Tokenizer.from_str(json.dumps(value))
    names = {"<s>": "[CLS]", "</s>": "[SEP]"} if kind == "wordpiece" else {}
    pair = [names.get(token, token) for token in EDGES[edges]]
    if any(pair):
        template = " ".join(filter(None, [pair[0], "$A", pair[1]]))
        numbers = [(token, tokenizer.token_to_id(token)) for token in pair if token]
        tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=numbers)
    return tokenizer


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT with room for each vocabulary and for texts of 128 tokens; only its tokenizer is replaced."""
    import torch
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(1)
    BertModel(BertConfig(**{**hf_families.SIZES, "max_position_embeddings": 128}, vocab_size=420)).save_pretrained(
        folder
    )
    return folder


@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("kind", KINDS)
def test_states_and_offsets(kind: str, edges: str, encoder: Path, tmp_path: Path) -> None:
    tokenizer = tokenizer_with(kind, edges)
    tokenizer.save(str(encoder / "tokenizer.json"))
    export_model(encoder, tmp_path / "model", embedding_bits=16)
    model = load_model(tmp_path / "model", threads=1)
    before, after = (bool(token) for token in EDGES[edges])
    assert (len(model.runtime.opening), len(model.runtime.closing)) == (before, after)
    hf_families.torch_states.cache_clear()  # the folder is the same
    _, expected = hf_families.torch_states(encoder, hf_families.TEXTS)
    texts = [*hf_families.TEXTS, *BLANK]
    (states,) = model.token_states(texts)
    for number, text in enumerate(hf_families.TEXTS):
        rows = slice(*states.bounds[number : number + 2])
        assert cosines(states.values[rows], expected[number]).min() >= 0.98  # of weights in int8
        starts, ends = states.starts[rows], states.ends[rows]
        assert (np.diff(starts) >= 0).all()
        assert (np.diff(ends) >= 0).all()
        inner = slice(before, len(starts) - after)
        covered = {at for a, b in zip(starts[inner], ends[inner], strict=True) for at in range(a, b)}
        assert {text[at] for at in range(len(text)) if at not in covered and not text[at].isspace()} <= DROPPED
    phrase = Phrase(texts[0], 4, 12)  # old bank
    rows = [row for row in range(int(states.bounds[1])) if states.ends[row] > 4 and states.starts[row] < 12]
    assert texts[0][states.starts[rows[0]] : states.ends[rows[-1]]] == "old bank"
    ends = np.concatenate([expected[0][rows[0]], expected[0][rows[-1]]])
    assert cosines(model.encode([phrase], pooling="ends"), ends[None]).min() >= 0.98
    assert (np.diff(states.bounds)[-len(BLANK) :] >= max(1, before + after)).all()
    together = model.encode_sentences(texts)
    alone = np.concatenate([model.encode_sentences([text]) for text in texts])
    assert cosines(together, alone).min() >= 0.999
    assert cosines(together[: len(expected)], np.stack([values.mean(0) for values in expected])).min() >= 0.98


@pytest.mark.parametrize("edges", EDGES)
def test_a_sentence_in_the_vector_of_a_phrase(edges: str, encoder: Path, tmp_path: Path) -> None:
    """Gives v + w c, c the mean of the words' tokens, beside a blank text, which may have none but a special token."""
    from phrasemate.utils.storage import save_arrays

    tokenizer_with("byte_bpe", edges).save(str(encoder / "tokenizer.json"))
    draw = np.random.default_rng(0)
    head = {name: draw.normal(size=(64, 8)).astype(np.float32) for name in ("start", "end")}
    save_arrays(encoder / "heads.safetensors", {**head, "bias": np.zeros(8, np.float32)})
    try:
        export_model(encoder, tmp_path / "model", context_weight=0.5)
    finally:
        (encoder / "heads.safetensors").unlink()
    model = load_model(tmp_path / "model", threads=1)
    texts = ["old bank", "", "a", ""]
    phrases = model.extract(texts)
    assert [len(extract.starts) > 0 for extract in phrases] == [True, False, True, False]
    (states,) = model.token_states(["old bank"])
    inner = states.values[len(model.runtime.opening) : len(states.values) - len(model.runtime.closing)]
    tokens = inner @ (head["start"] + head["end"])
    context = (tokens / np.linalg.norm(tokens, axis=1, keepdims=True)).mean(0)
    whole = inner[0] @ head["start"] + inner[-1] @ head["end"]
    vector = model.encode([Phrase("old bank", 0, 8)])
    assert cosines(vector, (whole / np.linalg.norm(whole) + 0.5 * context)[None]).min() >= 0.9999


def test_index_and_search_without_special_tokens(encoder: Path, tmp_path: Path) -> None:
    tokenizer_with("gpt2", "none").save(str(encoder / "tokenizer.json"))
    query = "The old [[bank]] on the river was closed for a year."
    answer = hf_families.search_by_command(encoder, tmp_path, hf_families.TEXTS, query)
    assert answer["text"] == "bank"
    assert answer["score"] > 0.99


def test_a_decoder_without_special_tokens(tmp_path: Path) -> None:
    """As GPT-2 has it: the state of a text's last token stands for the text."""
    import torch
    from transformers import GPT2Config, GPT2Model

    torch.manual_seed(1)
    sizes = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 66, "initializer_range": 0.1}
    GPT2Model(GPT2Config(**sizes, vocab_size=300, bos_token_id=0, eos_token_id=2)).save_pretrained(tmp_path / "hf")
    tokenizer_with("gpt2", "none").save(str(tmp_path / "hf" / "tokenizer.json"))
    export_model(tmp_path / "hf", tmp_path / "model", precision="fp32", embedding_bits=16)
    model = load_model(tmp_path / "model", threads=1)
    _, states = hf_families.torch_states(tmp_path / "hf", hf_families.TEXTS)
    expected = np.stack([values[-1] for values in states])
    assert cosines(model.encode_sentences(hf_families.TEXTS), expected).min() >= 0.999


def test_what_is_special_is_told_without_the_letter_a() -> None:
    """A vocabulary of other scripts, and no token for what is unknown."""
    from tokenizers import models, pre_tokenizers, processors

    tokenizer = Tokenizer(models.BPE({"<s>": 0, "</s>": 1, "銀": 2, "行": 3, "銀行": 4}, [("銀", "行")]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    assert tokenizer.encode("a").ids == [0, 1]
    assert special_tokens(tokenizer) == ([0], [1])

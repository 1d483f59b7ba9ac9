"""Tiny random Hugging Face folders, made in-process: a BERT with WordPiece and an XLM-R with a Unigram."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

SENTENCES = (
    "The old bank on the river was closed.",
    "She sat on the bank and read a book.",
    "He opened the window because it was hot.",
    "A red house stands near the old river.",
    "Das alte Haus am Fluss ist rot.",
    "Er liest ein Buch auf der Bank.",
)
HIDDEN, DEPTH, HEADS = 64, 2, 4
POSITIONS = 64  # tokens with the two special ones, in both families

_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_WORDS = sorted({word.strip(".").lower() for text in SENTENCES for word in text.split()})


def wordpiece() -> Any:
    """A WordPiece tokenizer as BERT's: lower-cased, accents taken off, pieces inside a word begin with ##."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        *_WORDS,
        *_LETTERS,
        *(f"##{x}" for x in _LETTERS),
        *".,!?-",
        *"好的中",
    ]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"]))
    return tokenizer


def unigram() -> Any:
    """A Unigram tokenizer as XLM-R's: a word begins with the mark U+2581."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    special = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    capitals = [word.strip(".") for text in SENTENCES for word in text.split()]
    common = [("▁the", -4.5), ("▁The", -6.0), ("▁", -4.0), ("的", -7.0), ("好", -9.5), ("中", -8.0)]
    whole = [(f"▁{word}", -10.0) for word in [*_WORDS, *capitals]]
    letters = [(x, -11.0) for x in [*_LETTERS, *_LETTERS[:26].upper(), *".,!?-"]]
    vocabulary = list(dict([*whole, *letters, *common]).items())
    tokenizer = Tokenizer(models.Unigram([*special, *vocabulary], unk_id=3))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()  # a token's offsets take in the space before it
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


def save_bert(folder: Path) -> Path:
    """A folder as transformers saves it, of the class BertModel."""
    from transformers import BertConfig, BertModel

    return _save(folder, wordpiece(), BertConfig, BertModel, POSITIONS, {"pad_token_id": 0, "type_vocab_size": 2})


def save_xlmr(folder: Path) -> Path:
    """A folder as transformers saves it, of the class XLMRobertaModel: positions count from 2."""
    from transformers import XLMRobertaConfig, XLMRobertaModel

    extra = {"pad_token_id": 1, "type_vocab_size": 1}
    return _save(folder, unigram(), XLMRobertaConfig, XLMRobertaModel, POSITIONS + 2, extra)


def _save(folder: Path, tokenizer: Any, config: Any, kind: Any, positions: int, extra: Mapping[str, Any]) -> Path:
    import torch

    torch.manual_seed(0)
    result = kind(
        config(
            vocab_size=tokenizer.get_vocab_size(),
            hidden_size=HIDDEN,
            num_hidden_layers=DEPTH,
            num_attention_heads=HEADS,
            intermediate_size=2 * HIDDEN,
            max_position_embeddings=positions,
            initializer_range=0.2,  # large, so that attention is not flat and a wrong position shows
            **extra,
        )
    )
    with torch.no_grad():  # biases and norms that do something
        for name, value in result.named_parameters():
            if value.ndim == 1:
                value.copy_(torch.randn_like(value) * 0.1 + ("LayerNorm.weight" in name))
    result.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def reference(folder: Path, texts: tuple[str, ...], layer: int, rounded: bool = False) -> list[np.ndarray]:
    """States after ``layer`` of each text alone, by transformers with torch in float32: (tokens, width) each.

    ``rounded``: with the weights that the export keeps (matrices in int8, the token table in 4 bit).
    """
    import torch
    from tokenizers import Tokenizer
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    if rounded:
        state = {name: torch.from_numpy(_rounded(name, value.numpy())) for name, value in model.state_dict().items()}
        model.load_state_dict(state)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    with torch.no_grad():
        ids = [torch.tensor([tokenizer.encode(text).ids]) for text in texts]
        return [model(item, output_hidden_states=True).hidden_states[layer][0].numpy() for item in ids]


def _rounded(name: str, value: np.ndarray) -> np.ndarray:
    if name.endswith("word_embeddings.weight"):
        return four_bits(value)
    if value.ndim != 2 or "embeddings" in name or "pooler" in name:
        return value
    scales = np.abs(value).max(1, keepdims=True) / 127  # one for each output: a row, as torch keeps a matrix
    return (np.rint(value / scales) * scales).astype(np.float32)


def four_bits(table: np.ndarray) -> np.ndarray:
    """The formula of the token table, value by value: scale x (code - 8) in blocks of 32."""
    values = np.empty_like(table)
    for row in range(table.shape[0]):
        for at in range(0, table.shape[1], 32):
            block = [float(x) for x in table[row, at : at + 32]]
            scale = float(np.float16(np.float32(max(block, key=abs)) / np.float32(-8)))
            for i, x in enumerate(block):
                code = min(15, max(0, math.floor(x / scale + 8.5))) if scale else 8
                values[row, at + i] = scale * (code - 8)
    return values


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(rows,) cosine of each row of one with that of the other, (rows, width) both."""
    assert a.shape == b.shape
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def alter(folder: Path, **changes: np.ndarray | None) -> None:
    """Change tensors of model.safetensors; None takes one away. Names have "__" for "."."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for name, value in changes.items():
        key = name.replace("__", ".")
        if value is None:
            del tensors[key]
        else:
            tensors[key] = value
    save_file(tensors, path)


def heads(dim: int = 5, width: int = HIDDEN, seed: int = 7) -> dict[str, np.ndarray]:
    """What training leaves in heads.safetensors; with this seed the segmenter finds some of all spans."""
    draw = np.random.default_rng(seed)
    shapes = {"start": (width, dim), "end": (width, dim), "bias": (dim,)}
    shapes |= {"segment_start": (width,), "segment_end": (width,), "segment_bias": (1,)}
    return {name: draw.standard_normal(shape).astype(np.float32) / 4 for name, shape in shapes.items()}


def save_trained(folder: Path, training: Mapping[str, Any] | None = None, **changes: np.ndarray | None) -> Path:
    """Put heads into a Hugging Face folder, with some arrays changed (None: without it)."""
    arrays = {**heads(), **changes}
    save_file({name: array for name, array in arrays.items() if array is not None}, folder / "heads.safetensors")
    (folder / "training.json").write_text(json.dumps(training or {"steps": 3, "data": "tiny"}))
    return folder

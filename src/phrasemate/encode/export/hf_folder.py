"""What a Hugging Face encoder folder holds, read and checked for the export; and what our training puts beside it.

``config.json``, ``tokenizer.json`` and ``model.safetensors`` (one file or shards) of the BERT and RoBERTa families,
which XLM-R, multilingual BERT, LaBSE and multilingual E5 belong to. Trained weights have ``heads.safetensors`` and
``training.json`` (how they were made) beside them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from phrasemate.encode.heads import Arrays, load_heads
from phrasemate.encode.model_folder import HEADS
from phrasemate.encode.runtime import special_tokens
from phrasemate.encode.segmenter import common_pieces
from phrasemate.errors import InputError, ModelError, ModelUnsupported

FAMILIES = {"bert": 0, "camembert": 1, "roberta": 1, "xlm-roberta": 1}  # 1: positions count from the padding's number
TRAINING = "training.json"
SPECIAL = {  # how transformers calls the special tokens, and what they may look like
    "bos_token": ("<s>",),
    "eos_token": ("</s>",),
    "cls_token": ("[CLS]", "<s>"),
    "sep_token": ("[SEP]", "</s>"),
    "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>"),
    "mask_token": ("[MASK]", "<mask>"),
}
KINDS = "embeddings.token_type_embeddings.weight"
POSITIONS = "embeddings.position_embeddings.weight"
LEAST = 3  # positions: a token between two special ones
Floats = NDArray[np.float32]
Weights = dict[str, Floats]


def family_of(folder: Path) -> str:
    """The ``model_type`` of a folder.

    Raises ModelError where no configuration says it, ModelUnsupported for a BERT with relative positions, which
    transformers has given up.
    """
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{path}: not found; expected a Hugging Face encoder folder") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not readable ({error}); download the folder again") from error
    family = config.get("model_type") if isinstance(config, dict) else None
    if not isinstance(family, str):
        raise ModelUnsupported(f"{path}: model_type {family!r}; expected the name of an architecture")
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise ModelUnsupported(f"{path}: relative positions; expected position_embedding_type 'absolute'")
    return family


def read_config(folder: Path) -> dict[str, Any]:
    """The configuration; ModelUnsupported for other families, ModelError when it is not whole."""
    path, family = folder / "config.json", family_of(folder)
    if family not in FAMILIES:
        raise ModelUnsupported(f"{path}: model_type {family!r}; expected one of {', '.join(FAMILIES)}")
    config = json.loads(path.read_text(encoding="utf-8"))
    least = {"hidden_size": 1, "num_attention_heads": 1, "num_hidden_layers": 1}
    if FAMILIES[family]:
        least["pad_token_id"] = 0
    for key in least:
        value = config.get(key, 1 if key == "pad_token_id" else None)
        if not isinstance(value, int) or value < least[key]:
            raise ModelError(f"{path}: {key} is {value!r}, expected a number; download the folder again")
    if config["hidden_size"] % config["num_attention_heads"]:
        sizes = f"hidden_size {config['hidden_size']} and num_attention_heads {config['num_attention_heads']}"
        raise ModelError(f"{path}: {sizes}; expected a multiple of the heads; download the folder again")
    if not isinstance(config.get("layer_norm_eps", 0.0), float | int):
        raise ModelError(f"{path}: layer_norm_eps is {config['layer_norm_eps']!r}, expected a number")
    return dict(config)


def averaged(weights: Weights, base: Weights, share: float, folder: Path) -> Weights:
    """``share`` of the weights and the rest of the base's, one by one; what is equal in both stays so to the bit.

    Raises InputError for a share outside 0 to 1, ModelError where the base (of ``folder``) is another architecture.
    """
    if not 0 <= share <= 1:
        raise InputError(f"share {share}; expected 0 (the base alone) to 1 (the trained weights alone)")
    weights, base = _one_kind(weights), _Complete(_one_kind(base), folder)
    for name, value in weights.items():
        if base[name].shape != value.shape:
            raise ModelError(f"{folder}: {name} has the shape {base[name].shape}, expected {value.shape}; not its base")
    mixed = {name: _mixed(value, base[name], share) for name, value in weights.items()}
    return _Complete(mixed, folder)


def _mixed(value: Floats, base: Floats, share: float) -> Floats:
    mixed: Floats = np.where(value == base, value, share * value + (1 - share) * base).astype(np.float32)
    return mixed


def _one_kind(weights: Weights) -> Weights:
    """The same with the first token type alone, the only one in use: some folders carry more of them than others."""
    return {**weights, KINDS: weights[KINDS][:1]} if KINDS in weights else dict(weights)


def read_weights(folder: Path) -> Weights:
    """All tensors in float32, named without the architecture's prefix ("bert.", "roberta.")."""
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        raise ModelError(
            f"{folder}: no model.safetensors; if it holds a pytorch_model.bin, convert it first with transformers: "
            "AutoModel.from_pretrained(FOLDER).save_pretrained(OUT)"
        )
    try:
        tensors = {key: value for file in files for key, value in load_file(file).items()}
    except (OSError, SafetensorError, ValueError, TypeError, KeyError, AttributeError) as error:  # of float8
        raise ModelError(
            f"{folder}: weights not readable ({error}); expected float32 or float16 safetensors"
        ) from error
    anchor = next((key for key in tensors if key.endswith("embeddings.word_embeddings.weight")), None)
    if anchor is None:
        raise ModelUnsupported(f"{folder}: no embeddings.word_embeddings.weight among the weights")
    prefix = anchor.removesuffix("embeddings.word_embeddings.weight")
    weights = {key.removeprefix(prefix): value.astype(np.float32, copy=False) for key, value in tensors.items()}
    return _Complete(weights, folder)


class _Complete(Weights):
    """Weights whose absent members are a ModelError, not a KeyError."""

    def __init__(self, weights: Weights, folder: Path) -> None:
        super().__init__(weights)
        self.folder = folder

    def __missing__(self, key: str) -> NDArray[np.float32]:
        raise ModelError(f"{self.folder}: the weights lack {key}; the file is not whole, or of another architecture")


def check_weights(config: Mapping[str, Any], weights: Weights, folder: Path) -> None:
    """Raise ModelError for a tensor whose shape differs from the configuration, or that holds NaN or infinity."""
    for name, shape in _shapes(config, weights):
        value = weights[name]
        if value.shape != shape:
            raise ModelError(f"{folder}: {name} has the shape {value.shape}, expected {shape}; not of one model")
        if not np.isfinite(value.sum(dtype=np.float64)):
            raise ModelError(f"{folder}: {name} holds a value that is not finite, expected numbers; train it again")


def _shapes(config: Mapping[str, Any], weights: Weights) -> Iterator[tuple[str, tuple[int, ...]]]:
    """What each tensor must be; tables may have any number of rows, the inner layers any width."""
    width, wide = int(config["hidden_size"]), max(1, weights["encoder.layer.0.intermediate.dense.bias"].size)
    rows = {"embeddings.word_embeddings.weight": 1, POSITIONS: _first(config) + LEAST, KINDS: 1}
    for name, least in rows.items():
        yield name, (max(least, *weights[name].shape[:1], 0), width)
    products = {
        f"attention.{name}": (width, width) for name in ("self.query", "self.key", "self.value", "output.dense")
    }
    products |= {"intermediate.dense": (wide, width), "output.dense": (width, wide)}
    yield from _norm("embeddings.", width)
    for layer in (f"encoder.layer.{number}." for number in range(int(config["num_hidden_layers"]))):
        for name, shape in products.items():
            yield f"{layer}{name}.weight", shape
            yield f"{layer}{name}.bias", shape[:1]
        yield from _norm(f"{layer}attention.output.", width)
        yield from _norm(f"{layer}output.", width)


def _norm(name: str, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    return ((f"{name}LayerNorm.{part}", (width,)) for part in ("weight", "bias"))


def _first(config: Mapping[str, Any]) -> int:
    """The number of a text's first position."""
    return int(config.get("pad_token_id", 1)) + 1 if FAMILIES[str(config["model_type"])] else 0


def additive(config: Mapping[str, Any], weights: Weights) -> NDArray[np.float32]:
    """(positions, dim): the vectors of positions and of token type 0, for a text that is not padded on its left."""
    positions: NDArray[np.float32] = weights[POSITIONS][_first(config) :] + weights[KINDS][0]
    return np.ascontiguousarray(positions)


def read_tokenizer(folder: Path, rows: int, lower: bool = False) -> tuple[bytes, list[str]]:
    """tokenizer.json, compact and compressed, and the words that its scores tell to be frequent.

    A Unigram's scores are written as the float32 numbers that they are. ``rows``: how many tokens have a vector;
    ``lower``: lower-case texts first.
    """
    path = folder / "tokenizer.json"
    try:
        text = path.read_text(encoding="utf-8")
        value = json.loads(text)
    except FileNotFoundError:
        raise ModelUnsupported(
            f"{folder}: no tokenizer.json; make one with transformers: "
            "AutoTokenizer.from_pretrained(FOLDER, use_fast=True).save_pretrained(FOLDER)"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not readable ({error}); download the folder again") from error
    _check_tokenizer(path, text, rows)
    value.update(truncation=None, padding=None)
    if lower:
        normalizers = [{"type": "Lowercase"}, *([value["normalizer"]] if value.get("normalizer") else [])]
        value["normalizer"] = {"type": "Sequence", "normalizers": normalizers}
    common: set[str] = set()
    if value.get("model", {}).get("type") == "Unigram":
        common = common_pieces(value["model"]["vocab"])
        for entry in value["model"]["vocab"]:
            entry[1] = float(str(np.float32(entry[1])))
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return gzip.compress(text.encode(), 9, mtime=0), sorted(common)


def tokenizer_settings(tokenizer: bytes) -> dict[str, str]:
    """tokenizer_config.json for a tokenizer.json; without it, transformers guesses the kind from the architecture."""
    from tokenizers import Tokenizer

    loaded = Tokenizer.from_buffer(tokenizer)
    settings = {"tokenizer_class": "PreTrainedTokenizerFast"}
    for name, looks in SPECIAL.items():
        present = [look for look in looks if loaded.token_to_id(look) is not None]
        settings |= {name: present[0]} if present else {}
    return settings


def _check_tokenizer(path: Path, text: str, rows: int) -> None:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(text)
    except Exception as error:  # the library raises a bare Exception
        raise ModelError(f"{path}: not a tokenizer ({error}); download the folder again") from error
    tokenizer.no_padding()  # some folders pad every text
    largest = max(tokenizer.get_vocab().values(), default=0)
    opening, closing = special_tokens(tokenizer)
    if largest >= rows:
        raise ModelError(f"{path}: has token {largest}, the weights hold {rows} vectors; both must be of one model")
    if not opening + closing:
        raise ModelUnsupported(f"{path}: adds no special token to a text, expected one at least")


def read_heads(folder: Path, width: int) -> Arrays:
    """The trained heads, nothing where there are none; ModelError when they do not fit the encoder."""
    path = folder / HEADS
    return load_heads(path, width, ModelError, "train again, or remove it to do without") if path.exists() else {}


def read_training(folder: Path) -> dict[str, Any]:
    """How the weights were trained, nothing where it is not told; ModelError when it is not a JSON object."""
    path = folder / TRAINING
    if not path.exists():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not readable as JSON ({error}); train again, or remove it") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path}: a JSON {type(value).__name__}, expected an object; train again, or remove it")
    return value

"""A Hugging Face encoder folder -> a model folder that searches without torch.

Takes ``config.json``, ``tokenizer.json`` and ``model.safetensors`` (one file or shards) of the BERT and RoBERTa
families, which XLM-R, multilingual BERT, LaBSE and multilingual E5 belong to.
"""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from phrasemate.encode import folder as names
from phrasemate.encode.embedding import quantise
from phrasemate.encode.graph import build_graph
from phrasemate.encode.project import add_projection
from phrasemate.encode.segment import common_pieces
from phrasemate.errors import InputError, ModelError, ModelUnsupported

__all__ = ["export_model"]

FAMILIES = {"bert": 0, "camembert": 1, "roberta": 1, "xlm-roberta": 1}  # 1: positions count from the padding's number
DIM = 192  # the smallest at which retrieval is as good as with the two ends in full (docs/decisions.md)
DEFAULTS = ("cls", "ends", "mean")  # what a phrase may be without a projection
Weights = dict[str, NDArray[np.float32]]


def export_model(
    folder: str | Path,
    out: str | Path,
    *,
    layers: Sequence[int] = (),
    pooling: str = "ends",
    sentence_prefix: str = "",
    embedding_bits: int = 4,
    project: Iterable[str] | None = None,
    dim: int = DIM,
    name: str = "",
    signature: Mapping[str, Any] | None = None,
    licence: str | Path | None = None,
    force: bool = False,
) -> str:
    """Write the model folder ``out``; returns its hash.

    ``layers``: which layers' states the file gives (1 to depth, or 0 for the input of the first; the last is always
    there). ``pooling``: what a phrase is by default, when there are no ``heads`` (see `phrasemate.encode.project`).
    ``embedding_bits``: 4 or 8 for each value of the token table. ``signature``: how the weights were made, kept in
    the configuration. ``licence``: a file to put beside the weights.

    Raises ModelError when the folder is not usable, ModelUnsupported for other architectures, InputError for bad
    options; an existing ``out`` is replaced only with ``force``. Nothing is left behind when it fails.
    """
    folder, out = Path(folder), Path(out)
    if pooling not in DEFAULTS or embedding_bits not in (4, 8):
        raise InputError(f"pooling {pooling!r} in {embedding_bits} bits; expected {'|'.join(DEFAULTS)} and 4 or 8")
    if out.exists() and not force:
        raise InputError(f"{out}: exists; give another place, or --force to replace it")
    if folder.resolve().is_relative_to(out.resolve()):
        raise InputError(f"{out}: is where the weights come from; give another place")
    if out.exists() and not (out / names.MANIFEST).is_file():
        raise InputError(f"{out}: exists and is not a model folder, so it is not replaced; give another place")
    if licence is not None and not Path(licence).is_file():
        raise InputError(f"{licence}: no such file; expected the licence of the weights")
    source, weights = _read_config(folder), _read_weights(folder)
    kept = _layers(layers, int(source["num_hidden_layers"]))
    table, positions = weights["embeddings.word_embeddings.weight"], _additive(source, weights)
    tokenizer, common = _read_tokenizer(folder, len(table))
    graph, arrays = build_graph(source, weights, kept), quantise(table, embedding_bits)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as scratch:
        made = Path(scratch) / out.name
        made.mkdir()
        (made / names.ENCODER).write_bytes(graph)
        (made / names.TOKENIZER).write_bytes(tokenizer)
        save_file({**arrays, "additive": positions}, made / names.EMBEDDINGS)
        if licence is not None:
            shutil.copyfile(licence, made / Path(licence).name)
        config = {
            "format": names.FORMAT,
            "version": names.VERSION,
            "name": name or out.name,
            "width": int(source["hidden_size"]),
            "depth": int(source["num_hidden_layers"]),
            "layers": kept,
            "max_tokens": len(positions),
            "pooling": pooling,
            "sentence_prefix": sentence_prefix,
            "common_words": common,
            "signature": dict(signature or {}),
        }
        (made / names.CONFIG).write_text(json.dumps(config, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        digest = names.write_manifest(made)
        for path in made.iterdir():
            path.chmod(0o644)  # safetensors leaves its files private
        if project is not None:
            digest = add_projection(made, project, dim)
        if out.exists():
            shutil.rmtree(out)
        made.rename(out)
    return digest


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{path}: not found; expected a Hugging Face encoder folder") from None
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: not readable ({error}); download the folder again") from error
    family = config.get("model_type") if isinstance(config, dict) else None
    if family not in FAMILIES:
        raise ModelUnsupported(f"{path}: model_type {family!r}; expected one of {', '.join(FAMILIES)}")
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise ModelUnsupported(f"{path}: relative positions; expected position_embedding_type 'absolute'")
    for key in ("hidden_size", "num_attention_heads", "num_hidden_layers"):
        if not isinstance(config.get(key), int):
            raise ModelError(f"{path}: {key} is {config.get(key)!r}, expected a number; download the folder again")
    return dict(config)


def _read_weights(folder: Path) -> Weights:
    """All tensors in float32, named without the architecture's prefix ("bert.", "roberta.")."""
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        raise ModelError(
            f"{folder}: no model.safetensors; if it holds a pytorch_model.bin, convert it first with transformers: "
            "AutoModel.from_pretrained(FOLDER).save_pretrained(OUT)"
        )
    try:
        tensors = {key: value for file in files for key, value in load_file(file).items()}
    except (OSError, SafetensorError, ValueError, TypeError) as error:
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


def _layers(layers: Iterable[int], depth: int) -> list[int]:
    kept = sorted({*layers, depth})
    if kept[0] < 0 or kept[-1] > depth:
        raise InputError(f"layers {kept}: expected numbers from 0 to {depth}")
    return kept


def _additive(config: Mapping[str, Any], weights: Weights) -> NDArray[np.float32]:
    """(positions, dim): the vectors of positions and of token type 0, for a text that is not padded on its left."""
    first = int(config.get("pad_token_id", 1)) + 1 if FAMILIES[str(config["model_type"])] else 0
    kinds = weights["embeddings.token_type_embeddings.weight"][0]
    positions: NDArray[np.float32] = weights["embeddings.position_embeddings.weight"][first:] + kinds
    return np.ascontiguousarray(positions)


def _read_tokenizer(folder: Path, rows: int) -> tuple[bytes, list[str]]:
    """tokenizer.json, compact and compressed, and the words that its scores tell to be frequent.

    A Unigram's scores are written as the float32 numbers that they are. ``rows``: how many tokens have a vector.
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
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: not readable ({error}); download the folder again") from error
    _check_tokenizer(path, text, rows)
    value.update(truncation=None, padding=None)
    common: set[str] = set()
    if value.get("model", {}).get("type") == "Unigram":
        common = common_pieces(value["model"]["vocab"])
        for entry in value["model"]["vocab"]:
            entry[1] = float(str(np.float32(entry[1])))
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return gzip.compress(text.encode(), 9, mtime=0), sorted(common)


def _check_tokenizer(path: Path, text: str, rows: int) -> None:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(text)
    except Exception as error:  # the library raises a bare Exception
        raise ModelError(f"{path}: not a tokenizer ({error}); download the folder again") from error
    tokenizer.no_padding()  # some folders pad every text
    largest, special = max(tokenizer.get_vocab().values(), default=0), len(tokenizer.encode("").ids)
    if largest >= rows:
        raise ModelError(f"{path}: has token {largest}, the weights hold {rows} vectors; both must be of one model")
    if special != 2:
        raise ModelUnsupported(f"{path}: adds {special} special tokens to a text, expected 2, one at each end")

"""A Hugging Face encoder folder, plain or trained by us -> a model folder that searches without torch."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode import model_folder as names
from phrasemate.encode.export.hf_folder import (
    additive,
    averaged,
    check_weights,
    read_config,
    read_heads,
    read_tokenizer,
    read_training,
    read_weights,
)
from phrasemate.encode.export.onnx_graph import build_graph
from phrasemate.encode.export.smoothquant import TEXTS, smoothing_of
from phrasemate.encode.heads import Arrays, segmenter_of
from phrasemate.encode.pca_projection import add_projection
from phrasemate.encode.runtime import load_tokenizer
from phrasemate.encode.segmenter import MAX_WORDS_LEARNED, THRESHOLD, check_options
from phrasemate.encode.token_table import EmbeddingTable, quantise
from phrasemate.errors import InputError, ModelError
from phrasemate.utils.storage import save_arrays, swap_folder

DIM = 192  # the smallest at which retrieval is as good as with the two ends in full (docs/decisions.md)
DEFAULTS = ("cls", "ends", "mean")  # what a phrase may be without a projection


def export_model(
    folder: str | Path,
    out: str | Path,
    *,
    base: str | Path | None = None,
    share: float = 1.0,
    layers: Sequence[int] = (),
    pooling: str | None = None,
    sentence_prefix: str = "",
    embedding_bits: int = 4,
    smooth: bool = True,
    project: Iterable[str] | None = None,
    dim: int = DIM,
    segment_threshold: float = THRESHOLD,
    max_words: int | None = MAX_WORDS_LEARNED,
    name: str = "",
    signature: Mapping[str, Any] | None = None,
    licence: str | Path | None = None,
    force: bool = False,
) -> str:
    """Write the model folder ``out``; returns its hash.

    A ``heads.safetensors`` in ``folder`` comes along (see `phrasemate.encode.heads`), and its ``training.json`` becomes
    part of the signature.

    ``base`` and ``share``: average the weights, ``share`` of ``folder`` and the rest of ``base``, the encoder that its
    training began with (Wortsman et al. 2022, "Robust fine-tuning of zero-shot models"): what the training text lacks
    is not forgotten. The heads are not averaged. ``layers``: which layers' states the file gives (1 to depth, or 0 for
    the input of the first; the last is always there). ``pooling``: what a phrase is by default, when there are no
    ``heads`` (see `pca_projection`); None: what ``training.json`` says, else "ends". ``embedding_bits``: 4
    or 8 for each value of the token table. ``smooth``: even out what goes into the products before it is rounded to
    int8 (see `smoothquant`); it costs seconds. ``project``: plain text from which `add_projection`
    learns one to ``dim`` numbers. ``segment_threshold``, ``max_words``: what the trained segmenter does by default (see
    `SegmentOptions`). ``signature``: how the weights were made, kept in the configuration. ``licence``: a file to put
    beside the weights.

    Raises ModelError when the folder is not usable, ModelUnsupported for other architectures, InputError for bad
    options; an existing ``out`` is replaced only with ``force``. Nothing is left behind when it fails.
    """
    folder, out = Path(folder), Path(out)
    if pooling not in (None, *DEFAULTS) or embedding_bits not in (4, 8):
        raise InputError(f"pooling {pooling!r} in {embedding_bits} bits; expected {'|'.join(DEFAULTS)} and 4 or 8")
    if out.exists() and not force:
        raise InputError(f"{out}: exists; give another place, or --force to replace it")
    if folder.resolve().is_relative_to(out.resolve()):
        raise InputError(f"{out}: is where the weights come from; give another place")
    if out.exists() and not (out / names.MANIFEST).is_file():
        raise InputError(f"{out}: exists and is not a model folder, so it is not replaced; give another place")
    if licence is not None and not Path(licence).is_file():
        raise InputError(f"{licence}: no such file; expected the licence of the weights")
    source, weights = read_config(folder), read_weights(folder)
    if base is not None:
        weights = averaged(weights, read_weights(Path(base)), share, Path(base))
    elif share != 1:
        raise InputError(f"share {share} without a base; name the encoder that the training began with")
    width, depth = int(source["hidden_size"]), int(source["num_hidden_layers"])
    table = weights["embeddings.word_embeddings.weight"]
    if table.shape[1:] != (width,):
        raise ModelError(f"{folder}: hidden_size {width}, and token vectors of shape {table.shape}; not of one model")
    check_weights(source, weights, folder)
    kept, heads = _layers(layers, depth), read_heads(folder, width)
    if heads and project is not None:
        raise InputError(f"{folder / names.HEADS}: has a trained projection, so none is learned; leave out --project")
    segmenter = _segmenter(heads, folder, segment_threshold, max_words)
    training = read_training(folder)
    made_how = {**training, **({"share": share} if base is not None else {}), **(signature or {})}
    positions = additive(source, weights)
    tokenizer, common = read_tokenizer(folder, len(table))
    graph, arrays = build_graph(source, weights, kept), quantise(table, embedding_bits)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as scratch:
        made = Path(scratch) / out.name
        made.mkdir()
        (made / names.TOKENIZER).write_bytes(tokenizer)
        save_arrays(made / names.EMBEDDINGS, {**arrays, "additive": positions})
        if smooth:
            graph = build_graph(source, weights, kept, smoothing_of(graph, depth, _inputs(made)))
        (made / names.ENCODER).write_bytes(graph)
        if heads:
            shutil.copyfile(folder / names.HEADS, made / names.HEADS)
        if licence is not None:
            shutil.copyfile(licence, made / Path(licence).name)
        config = {
            "format": names.FORMAT,
            "version": names.VERSION,
            "name": name or out.name,
            "width": width,
            "depth": depth,
            "layers": kept,
            "max_tokens": len(positions),
            "pooling": pooling or _pooling(training, folder),
            "sentence_prefix": sentence_prefix,
            **segmenter,
            "common_words": common,
            "signature": made_how,
        }
        (made / names.CONFIG).write_text(json.dumps(config, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        digest = names.write_manifest(made)
        if project is not None:
            digest = add_projection(made, project, dim)
        swap_folder(made, out, Path(scratch) / "old")
    return digest


def _inputs(folder: Path) -> Iterator[NDArray[np.float32]]:
    """(tokens, width) of each text that smoothing is learned from, as the folder's tokenizer and table have them."""
    tokenizer, table = load_tokenizer(folder / names.TOKENIZER), EmbeddingTable(folder / names.EMBEDDINGS)
    for encoding in tokenizer.encode_batch(TEXTS):
        yield table(np.array([encoding.ids[: len(table.additive)]]))[0]


def _layers(layers: Iterable[int], depth: int) -> list[int]:
    kept = sorted({*layers, depth})
    if kept[0] < 0 or kept[-1] > depth:
        raise InputError(f"layers {kept}: expected numbers from 0 to {depth}")
    return kept


def _pooling(training: Mapping[str, Any], folder: Path) -> str:
    """What a phrase was in the training."""
    pooling = training.get("pooling", "ends")
    if pooling not in DEFAULTS:
        raise ModelError(f"{folder}: trained with pooling {pooling!r}; expected {'|'.join(DEFAULTS)}; train again")
    return str(pooling)


def _segmenter(heads: Arrays, folder: Path, threshold: float, max_words: int | None) -> dict[str, Any]:
    """The entry of the configuration; none without a trained segmenter, which unusual options would need."""
    check_options(threshold, max_words)
    if segmenter_of(heads, {}, folder) is not None:
        return {"segmenter": {"threshold": threshold, "max_words": max_words}}
    if (threshold, max_words) != (THRESHOLD, MAX_WORDS_LEARNED):
        raise InputError(f"{folder}: has no trained segmenter; leave out the options for it")
    return {}

"""Export of a Hugging Face encoder, untrained or trained with phrasemate, to a model folder that needs no torch."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode import model_folder as names
from phrasemate.encode.export import traced_graph
from phrasemate.encode.export.hf_folder import (
    FAMILIES,
    SentenceFolder,
    additive,
    averaged,
    check_weights,
    family_of,
    read_config,
    read_heads,
    read_sentence_folder,
    read_tokenizer,
    read_training,
    read_weights,
    write_json,
)
from phrasemate.encode.export.onnx_graph import TEXTS, build_graph, smoothing_of
from phrasemate.encode.heads import Arrays, SentenceHead, principal_axes, segmenter_of
from phrasemate.encode.model import Model, load_model
from phrasemate.encode.pooling import MeanHead
from phrasemate.encode.runtime import EmbeddingTable, quantise
from phrasemate.encode.segmenter import MAX_WORDS_LEARNED, THRESHOLD, check_options
from phrasemate.encode.tokenizer import load_tokenizer
from phrasemate.errors import InputError, ModelError
from phrasemate.utils.storage import link_target, save_arrays, swap_folder

DIM = 192  # the smallest projection with which retrieval is as good as with the full end states (docs/decisions)
DEFAULTS = ("cls", "ends", "mean")  # poolings that need no projection
GRAPHS = ("auto", "written", "traced", "onnx")
ONLY = {"written": "int8", "onnx": "fp32"}  # the only precision of these graphs
BITS = (4, 8, 16)
MARGIN = 1.1  # factor over the longest phrase vector of held-out text
SENTENCES = 5_000  # to fit a projection on: about 100,000 phrases, far more than the covariance needs


class _Encoder(NamedTuple):
    """Encoder to export: its sizes, and ``write(folder, layers)``, which writes its graph and token table."""

    width: int
    depth: int
    tokens: int
    positions: int
    causal: bool
    write: Callable[[Path, list[int]], None]


def export_model(
    folder: str | Path,
    out: str | Path,
    *,
    base: str | Path | None = None,
    share: float = 1.0,
    layers: Sequence[int] = (),
    pooling: str | None = None,
    sentence_prefix: str = "",
    context_weight: float | None = None,
    prompt: str | None = None,
    graph: str = "auto",
    precision: str = "int8",
    embedding_bits: int | None = None,
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
    """Export an encoder to the model folder ``out``; returns the model's hash.

    ``folder`` is a Hugging Face encoder or a sentence-transformers folder. The pooling, layers, prompts and maximum
    length of the latter are exported too, and so is a ``heads.safetensors`` (see `phrasemate.encode.heads`). The
    content of ``training.json`` becomes part of the model's signature.

    Args:
        folder: Folder of the encoder.
        out: Folder to write.
        base: Encoder from which ``folder`` was fine-tuned. The weights of both are averaged (Wortsman et al. 2022,
            "Robust fine-tuning of zero-shot models"), against forgetting what the training text lacks.
        share: Share of the weights of ``folder`` in that average, 0 to 1. The heads are not averaged.
        layers: Layers whose states the graph gives, besides the last: 1 to depth, or 0 for the input of the first.
        pooling: Default pooling of phrases without ``heads``: "cls", "ends" or "mean". None: the one in
            ``training.json``, or "ends".
        sentence_prefix: Text put before a sentence; not allowed with a sentence-transformers folder.
        context_weight: Weight of the sentence in the phrase vectors of a trained head (see `Model.span_vectors`).
            None: as in training.
        prompt: Name of the default prompt, one of those of a sentence-transformers folder.
        graph: "written" by phrasemate (`onnx_graph`: BERT, RoBERTa, CamemBERT, XLM-R), "traced" from torch for
            OpenVINO (`traced_graph`: any encoder of transformers), or "onnx", traced to ONNX in "fp32", for NVIDIA
            cards, too. "auto": written if the architecture allows it and ``precision`` is "int8", else traced.
        precision: Precision of the weights: "int8", "bf16", "fp16", or "fp32", with activations in float32, too.
        embedding_bits: Bits of a value of the token table: 4, 8 or 16. None: 4, or 8 with a traced graph.
        smooth: Whether to smooth the activations of a written graph before they are rounded to int8.
        project: Plain text on which `add_projection` fits a projection to ``dim`` numbers.
        dim: Dimension of that projection.
        segment_threshold: Default threshold of the trained segmenter (see `SegmentOptions`).
        max_words: Default longest phrase of the trained segmenter, in words.
        name: Name of the model; default: the name of ``out``.
        signature: Facts about the origin of the weights, stored in the configuration.
        licence: Licence file to copy into the folder.
        force: Whether to replace an existing ``out``.

    Raises ModelError for an unusable folder, ModelUnsupported for an unsupported architecture, and InputError for
    invalid options, or if ``out`` exists and ``force`` is not set. After an error, nothing is left behind.

    >>> from phrasemate.encode.export import export_model
    >>> export_model("multilingual-e5-small", "my-model", pooling="mean")  # doctest: +SKIP
    """
    folder, out = Path(folder), Path(out)
    _check_options(pooling, embedding_bits, graph, precision, base, share)
    training = read_training(folder)
    context_weight = _context(training) if context_weight is None else context_weight
    if context_weight < 0 or (context_weight and not (folder / names.HEADS).is_file()):
        raise InputError(f"context weight {context_weight}: expected 0 or more, and {names.HEADS} in {folder}")
    _check_places(folder, out, force, licence)
    sentences = read_sentence_folder(folder)
    source = sentences.encoder if sentences else folder
    mixture = (Path(base), share) if base is not None else None
    is_written = graph == "written" or (graph == "auto" and precision == "int8" and family_of(source) in FAMILIES)
    encoder = (
        _written(source, mixture, embedding_bits or 4, smooth)
        if is_written
        else _traced(source, mixture, embedding_bits or 8, precision, graph == "onnx")
    )
    layer_numbers, heads = _layers(layers, encoder.depth), read_heads(folder, encoder.width)
    if heads and project is not None:
        raise InputError(f"{folder / names.HEADS}: has a trained projection, so none is learned; leave out --project")
    segmenter = _segmenter(heads, folder, segment_threshold, max_words)
    history = {**training, **({"share": share} if base is not None else {}), **(signature or {})}
    tokenizer, common = read_tokenizer(source, encoder.tokens, sentences is not None and sentences.lower)
    head, max_tokens = _sentence_head(sentences, encoder, prompt, sentence_prefix)
    place = link_target(out)
    with _folder(place.parent), tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}.") as scratch:
        target = Path(scratch) / out.name
        target.mkdir()
        (target / names.TOKENIZER).write_bytes(tokenizer)
        encoder.write(target, layer_numbers)
        if heads:
            shutil.copyfile(folder / names.HEADS, target / names.HEADS)
        if head is not None:
            head.save(target)
        if licence is not None:
            shutil.copyfile(licence, target / Path(licence).name)
        config = {
            "format": names.FORMAT,
            "version": names.folder_version(path.name for path in target.iterdir()),
            "name": name or out.name,
            "width": encoder.width,
            "depth": encoder.depth,
            "layers": layer_numbers,
            "max_tokens": max_tokens,
            "pooling": pooling or _pooling(training, folder),
            "sentence_prefix": sentence_prefix,
            **({"context_weight": context_weight} if context_weight else {}),
            **({"longest": longest} if heads and (longest := _longest(training)) else {}),
            **({"sentence": head.entry()} if head is not None else {}),
            **({"precision": precision} if not is_written else {}),
            **segmenter,
            "common_words": common,
            "signature": history,
        }
        write_json(target / names.CONFIG, config)
        digest = names.write_manifest(target)
        if project is not None:
            digest = add_projection(target, project, dim)
        swap_folder(target, place, Path(scratch) / "old")
    return digest


def _check_options(
    pooling: str | None,
    embedding_bits: int | None,
    graph: str,
    precision: str,
    base: str | Path | None,
    share: float,
) -> None:
    """Raise InputError for invalid or conflicting options of `export_model`."""
    if pooling not in (None, *DEFAULTS) or embedding_bits not in (None, *BITS):
        raise InputError(f"pooling {pooling!r} in {embedding_bits} bits; expected {'|'.join(DEFAULTS)} and 4, 8 or 16")
    if graph not in GRAPHS or precision not in names.PRECISIONS or ONLY.get(graph, precision) != precision:
        requirement = f"{'|'.join(GRAPHS)} and {'|'.join(names.PRECISIONS)}, a written graph in int8, onnx in fp32"
        raise InputError(f"graph {graph!r} in {precision!r}; expected {requirement}")
    if base is None and share != 1:
        raise InputError(f"share {share} without a base; name the encoder that the training began with")
    if not 0 <= share <= 1:
        raise InputError(f"share {share}; expected 0 (the base alone) to 1 (the trained weights alone)")


def _check_places(folder: Path, out: Path, force: bool, licence: str | Path | None) -> None:
    """Raise InputError for an ``out`` that must not be replaced, and for a missing licence file."""
    if out.exists() and not force:
        raise InputError(f"{out}: exists; give another place, or --force to replace it")
    if folder.resolve().is_relative_to(out.resolve()):
        raise InputError(f"{out}: is where the weights come from; give another place")
    if out.exists() and not (out / names.MANIFEST).is_file():
        raise InputError(f"{out}: exists and is not a model folder, so it is not replaced; give another place")
    if licence is not None and not Path(licence).is_file():
        raise InputError(f"{licence}: no such file; expected the licence of the weights")


@contextmanager
def _folder(path: Path) -> Iterator[None]:
    """Create a folder and its parents; if the body fails, remove the new folders that are empty."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            for folder in missing:
                folder.rmdir()
        raise


def _written(folder: Path, base: tuple[Path, float] | None, bits: int, smooth: bool) -> _Encoder:
    """Read an encoder whose graph `onnx_graph` writes."""
    source, weights = read_config(folder), read_weights(folder)
    if base is not None:
        weights = averaged(weights, read_weights(base[0]), base[1], base[0])
    width, depth = int(source["hidden_size"]), int(source["num_hidden_layers"])
    table = weights["embeddings.word_embeddings.weight"]
    if table.shape[1:] != (width,):
        raise ModelError(f"{folder}: hidden_size {width}, and token vectors of shape {table.shape}; not of one model")
    check_weights(source, weights, folder)
    positions, arrays = additive(source, weights), quantise(table, bits)

    def write(target: Path, carried: list[int]) -> None:
        graph = build_graph(source, weights, carried)
        save_arrays(target / names.EMBEDDINGS, {**arrays, "additive": positions})
        if smooth:
            graph = build_graph(source, weights, carried, smoothing_of(graph, depth, _inputs(target)))
        (target / names.ENCODER).write_bytes(graph)

    return _Encoder(width, depth, len(table), len(positions), False, write)


def _traced(folder: Path, base: tuple[Path, float] | None, bits: int, precision: str, as_onnx: bool) -> _Encoder:
    """Load an encoder whose graph OpenVINO's converter or torch's ONNX exporter traces."""
    encoder = traced_graph.load_encoder(folder)
    if base is not None:
        traced_graph.average_weights(encoder, traced_graph.load_encoder(base[0]), base[1], base[0])
    config = encoder.config
    table = traced_graph.token_vectors(encoder, int(encoder.get_input_embeddings().weight.shape[0]))
    if not np.isfinite(table.sum(dtype=np.float64)):
        raise ModelError(f"{folder}: a token vector holds NaN or infinity; train it again")
    arrays, causal = quantise(table, bits), traced_graph.is_causal(encoder)

    def write(target: Path, carried: list[int]) -> None:
        save_arrays(target / names.EMBEDDINGS, {**arrays, "additive": np.zeros((0, table.shape[1]), np.float32)})
        traced_graph.trace_encoder(encoder, carried, table, precision, target, causal, as_onnx)

    positions = min(traced_graph.longest_text(config), traced_graph.MOST_TOKENS)
    return _Encoder(int(config.hidden_size), int(config.num_hidden_layers), len(table), positions, causal, write)


def _sentence_head(
    sentences: SentenceFolder | None, encoder: _Encoder, prompt: str | None, prefix: str
) -> tuple[SentenceHead | None, int]:
    """Return the sentence head, and the longest text in tokens. A decoder without its own head pools the last token."""
    if sentences is None:
        if prompt is not None:
            raise InputError(f"prompt {prompt!r}: only sentence-transformers folders have prompts by name")
        if not encoder.causal:
            return None, encoder.positions
        prompts = {"sentence": prefix} if prefix else {}
        head = SentenceHead(("lasttoken",), prompts=prompts, default_prompt="sentence" if prefix else None)
        return head, encoder.positions
    if prefix:
        raise InputError(f"sentence prefix {prefix!r} beside the prompts of {sentences.encoder}; name one by --prompt")
    head = sentences.head if prompt is None else replace(sentences.head, default_prompt=prompt)
    return head, min(encoder.positions, sentences.max_tokens or encoder.positions)


def _inputs(folder: Path) -> Iterator[NDArray[np.float32]]:
    """Yield the input vectors (tokens, width) of each calibration text for smoothing."""
    tokenizer, table = load_tokenizer(folder / names.TOKENIZER), EmbeddingTable(folder / names.EMBEDDINGS)
    for encoding in tokenizer.encode_batch(TEXTS):
        yield table(np.array([encoding.ids[: len(table.additive)]]))[0]


def _layers(layers: Iterable[int], depth: int) -> list[int]:
    layer_numbers = sorted({*layers, depth})
    if layer_numbers[0] < 0 or layer_numbers[-1] > depth:
        raise InputError(f"layers {layer_numbers}: expected numbers from 0 to {depth}")
    return layer_numbers


def _context(training: Mapping[str, Any]) -> float:
    """Return the context weight used in training; 0 if none is recorded."""
    loss = training.get("loss")
    weight = loss.get("context", 0.0) if isinstance(loss, dict) else 0.0
    return float(weight) if isinstance(weight, int | float) else 0.0


def _longest(training: Mapping[str, Any]) -> float:
    """Return a length that few phrase vectors of a head trained on inner products exceed; 0 for other heads."""
    loss, dev = (training.get(name) for name in ("loss", "dev"))
    if not isinstance(loss, dict) or not isinstance(dev, dict) or loss.get("normalise", True):
        return 0.0
    length = dev.get("longest", 0.0)
    return round(MARGIN * float(length), 4) if isinstance(length, int | float) else 0.0


def _pooling(training: Mapping[str, Any], folder: Path) -> str:
    """Return the phrase pooling used in training, "ends" if none is recorded."""
    pooling = training.get("pooling", "ends")
    if pooling not in DEFAULTS:
        raise ModelError(f"{folder}: trained with pooling {pooling!r}; expected {'|'.join(DEFAULTS)}; train again")
    return str(pooling)


def _segmenter(heads: Arrays, folder: Path, threshold: float, max_words: int | None) -> dict[str, Any]:
    """Return the ``segmenter`` entry of the configuration; empty without a trained segmenter.

    Raises InputError for options other than the defaults without a trained segmenter.
    """
    check_options(threshold, max_words)
    if segmenter_of(heads, {}, folder) is not None:
        return {"segmenter": {"threshold": threshold, "max_words": max_words}}
    if (threshold, max_words) != (THRESHOLD, MAX_WORDS_LEARNED):
        raise InputError(f"{folder}: has no trained segmenter; leave out the options for it")
    return {}


def add_projection(folder: Path, texts: Iterable[str], dim: int, signature: Mapping[str, Any] | None = None) -> str:
    """Fit a projection to ``dim`` numbers on sentences and add it to a model folder; returns the new hash.

    Raises InputError for a model with a trained projection, for a ``dim`` of more than twice the model's width, and for
    texts with fewer than 2 x dim phrases.
    """
    model = load_model(folder)
    if model.learned is not None or isinstance(model.head, MeanHead):
        raise InputError(f"{folder}: has a trained projection; export the untrained encoder to learn another")
    if not 0 < dim <= 2 * model.width:
        raise InputError(f"dim {dim}: expected 1 to {2 * model.width}, twice the model's width")
    mean, moment, count = _moments(model, islice(texts, SENTENCES))
    if count < 2 * dim:
        raise InputError(
            f"{count} phrases in the text, expected {2 * dim} or more for {dim} dimensions; give more text"
        )
    kernel, bias = principal_axes(mean, moment, dim)
    halves = {"start": kernel[: model.width], "end": kernel[model.width :], "bias": bias}
    save_arrays(folder / names.HEADS, halves)
    config = dict(model.config)
    facts = {"projection": "principal components of phrase ends", "phrases": count, "dim": dim, **(signature or {})}
    config["signature"] = {**config["signature"], **facts}
    write_json(folder / names.CONFIG, config)
    return names.write_manifest(folder)


def _moments(model: Model, texts: Iterable[str]) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Compute E[x], E[x x'] and the number of x, the concatenated end states of phrases, not normalised."""
    iterator = iter(texts)
    total, square, count = np.zeros(2 * model.width), np.zeros((2 * model.width,) * 2), 0
    while chunk := list(islice(iterator, 512)):
        for ends in model.ends(chunk):
            wide = ends.astype(np.float64)
            total, square, count = total + wide.sum(0), square + wide.T @ wide, count + len(wide)
    return total / max(count, 1), square / max(count, 1), count

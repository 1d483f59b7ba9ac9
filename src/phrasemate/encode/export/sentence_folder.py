"""Folders of sentence-transformers, read whole and written: the encoder, pooling, layers, prompts, longest text.

``modules.json`` lists the modules in order: one Transformer, one Pooling, then any of Dense, LayerNorm, Dropout (which
does nothing in use) and Normalize. What else there may be (an LSTM, a bag of words, a router ...) is refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from phrasemate.encode.sentence_head import ACTIVATIONS, Layer, SentenceHead
from phrasemate.errors import InputError, ModelError, ModelUnsupported
from phrasemate.utils.storage import save_arrays

MODULES, SETTINGS = "modules.json", "config_sentence_transformers.json"
LEGACY = {  # how older versions say which modes there are, in the order in which vectors are joined
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
VECTOR = "sentence_embedding"
PLAIN = {"transformer_task": "feature-extraction", "module_output_name": "token_embeddings"}
HARMLESS = {"modality_config", "unpad_inputs", "max_seq_length", "do_lower_case", *PLAIN}
CLASSES = "sentence_transformers.models."  # every version reads these names


class SentenceFolder(NamedTuple):
    """``encoder``: the folder of the Hugging Face encoder; ``max_tokens``: its longest text, None where not said;
    ``lower``: whether texts are lower-cased first.
    """

    encoder: Path
    head: SentenceHead
    max_tokens: int | None
    lower: bool


def read_sentence_folder(folder: Path) -> SentenceFolder | None:
    """What a folder with ``modules.json`` says; None for a folder without.

    Raises ModelUnsupported for a module or a setting that cannot be computed here, and ModelError for a damaged file.
    """
    if not (folder / MODULES).exists():
        return None
    modules = _json(folder / MODULES, list)
    try:
        kinds = [(str(module["type"]).rpartition(".")[2], folder / str(module["path"])) for module in modules]
    except (KeyError, TypeError) as error:
        raise ModelError(f"{folder / MODULES}: a module without type and path; download the folder again") from error
    names = [kind for kind, _ in kinds]
    if names[:2] != ["Transformer", "Pooling"]:
        raise ModelUnsupported(f"{folder / MODULES}: {', '.join(names)}; expected Transformer, Pooling and more")
    encoder = kinds[0][1]
    max_tokens, lower = _transformer(encoder)
    pooling, include_prompt = _pooling(kinds[1][1])
    layers = [_layer(kind, path) for kind, path in kinds[2:] if kind != "Dropout"]
    prompts, default = _prompts(folder, "Normalize" in names)
    try:
        head = SentenceHead(pooling, include_prompt, prompts, default, tuple(layers))
    except InputError as error:
        raise ModelUnsupported(f"{folder}: {error}") from error
    return SentenceFolder(encoder, head, max_tokens, lower)


def _json(path: Path, kind: type) -> Any:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not readable as JSON ({error}); download the folder again") from error
    if not isinstance(value, kind):
        raise ModelError(f"{path}: a JSON {type(value).__name__}, expected {kind.__name__}; download the folder again")
    return value


def _transformer(folder: Path) -> tuple[int | None, bool]:
    """The longest text, None where it is not limited, and whether texts are lower-cased."""
    settings: dict[str, Any] = {}
    for path in sorted(folder.glob("sentence_*_config.json")):  # bert, roberta, ... in older versions
        settings |= _json(path, dict)
    _expect(folder, settings, PLAIN)
    if unknown := sorted(name for name, value in settings.items() if name not in HARMLESS and value is not None):
        raise ModelUnsupported(f"{folder}: Transformer with {', '.join(unknown)}, which phrasemate does not compute")
    text = settings.get("modality_config", {}).get("text", {"method_output_name": "last_hidden_state"})
    _expect(folder, text, {"method": "forward", "method_output_name": "last_hidden_state"})
    longest = settings.get("max_seq_length")
    if longest is None and (folder / "tokenizer_config.json").exists():
        longest = _json(folder / "tokenizer_config.json", dict).get("model_max_length")
    return (int(longest) if longest and longest < 1 << 31 else None), bool(settings.get("do_lower_case"))


def _expect(folder: Path, settings: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    for name, value in expected.items():
        if settings.get(name, value) != value:
            raise ModelUnsupported(f"{folder}: {name} {settings[name]!r}; expected {value!r}")


def _pooling(folder: Path) -> tuple[tuple[str, ...], bool]:
    config = _json(folder / "config.json", dict)
    settings = {"embedding_dimension", "word_embedding_dimension", "pooling_mode", "include_prompt", *LEGACY}
    if unknown := sorted(set(config) - settings):
        raise ModelUnsupported(f"{folder}: Pooling with {', '.join(unknown)}; expected {', '.join(sorted(settings))}")
    modes = config.get("pooling_mode")
    if modes is None:
        modes = [mode for name, mode in LEGACY.items() if config.get(name)] or ["mean"]
    return (modes,) if isinstance(modes, str) else tuple(modes), bool(config.get("include_prompt", True))


def _layer(kind: str, folder: Path) -> Layer:
    path = folder / "config.json"
    config = _json(path, dict) if path.exists() else {}
    _expect(folder, config, {"module_input_name": VECTOR, "module_output_name": VECTOR, "use_residual": False})
    if kind == "Normalize":
        return Layer("normalize")
    if kind == "LayerNorm":
        arrays = _weights(folder)
        return Layer("layer_norm", weight=arrays["norm.weight"], bias=arrays["norm.bias"])
    if kind != "Dense":
        raise ModelUnsupported(f"{folder}: a {kind}, which phrasemate does not compute; expected Dense or Normalize")
    activation = str(config.get("activation_function", "torch.nn.modules.activation.Tanh"))
    name = activation.rpartition(".")[2]
    if not activation.startswith("torch.nn.") or name not in ACTIVATIONS:
        raise ModelUnsupported(f"{folder}: activation {activation}; expected torch's {', '.join(ACTIVATIONS)}")
    arrays = _weights(folder)
    bias = {"bias": arrays["linear.bias"]} if config.get("bias", True) else {}
    return Layer("dense", name, arrays["linear.weight"], **bias)


class _Arrays(dict[str, Any]):
    """Weights whose absent members are a ModelError."""

    def __init__(self, arrays: Mapping[str, Any], path: Path) -> None:
        super().__init__(arrays)
        self.path = path

    def __missing__(self, key: str) -> Any:
        raise ModelError(f"{self.path}: lacks {key}; download the folder again")


def _weights(folder: Path) -> _Arrays:
    path = folder / "model.safetensors"
    if not path.exists():
        raise ModelError(
            f"{path}: not found; where there is a pytorch_model.bin, convert the folder first: "
            "SentenceTransformer(FOLDER).save(OUT)"
        )
    try:
        arrays = {name: array.astype(np.float32) for name, array in load_file(path).items()}
    except (OSError, SafetensorError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelError(f"{path}: not readable ({error}); download the folder again") from error
    return _Arrays(arrays, path)


def _prompts(folder: Path, normalised: bool) -> tuple[dict[str, str], str | None]:
    if not (folder / SETTINGS).exists():
        return {}, None
    settings = _json(folder / SETTINGS, dict)
    if settings.get("model_type", "SentenceTransformer") != "SentenceTransformer":
        raise ModelUnsupported(f"{folder}: a {settings['model_type']}; expected a SentenceTransformer")
    measure = settings.get("similarity_fn_name")
    if measure not in (None, "cosine") and not (normalised and measure in ("dot", "euclidean")):
        raise ModelUnsupported(
            f"{folder}: similarity_fn_name {measure!r} of vectors not normalised; phrasemate compares by cosine"
        )
    prompts = {str(name): str(text or "") for name, text in (settings.get("prompts") or {}).items()}
    return prompts, settings.get("default_prompt_name")


def write_sentence_folder(folder: Path, head: SentenceHead, width: int, max_tokens: int) -> None:
    """Put the files of sentence-transformers beside an encoder of a Hugging Face folder, which it then loads."""
    kinds = [("Transformer", ""), ("Pooling", "1_Pooling")]
    modes: dict[str, Any] = {name: mode in head.pooling for name, mode in LEGACY.items()}
    if tuple(mode for name, mode in LEGACY.items() if modes[name]) != head.pooling:  # another order
        modes = {"pooling_mode": list(head.pooling)}
    pooling = {"word_embedding_dimension": width, **modes, "include_prompt": head.include_prompt}
    _write(folder / "1_Pooling" / "config.json", pooling)
    names = {"dense": "Dense", "layer_norm": "LayerNorm", "normalize": "Normalize"}
    size = width * len(head.pooling)
    for number, layer in enumerate(head.layers, 2):
        place = folder / f"{number}_{names[layer.kind]}"
        kinds.append((names[layer.kind], place.name))
        place.mkdir()
        if layer.kind == "dense":
            path = "linear" if layer.activation == "Identity" else "activation"
            config: dict[str, Any] = {
                "in_features": size,
                "out_features": len(layer.weight),
                "bias": bool(layer.bias.size),
            }
            config |= {"activation_function": f"torch.nn.modules.{path}.{layer.activation}"}
            _write(place / "config.json", config)
            arrays = {"linear.weight": layer.weight} | ({"linear.bias": layer.bias} if layer.bias.size else {})
            save_arrays(place / "model.safetensors", arrays, {"format": "pt"})
            size = len(layer.weight)
        elif layer.kind == "layer_norm":
            _write(place / "config.json", {"dimension": size})
            arrays = {"norm.weight": layer.weight, "norm.bias": layer.bias}
            save_arrays(place / "model.safetensors", arrays, {"format": "pt"})
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": CLASSES + kind}
        for number, (kind, path) in enumerate(kinds)
    ]
    _write(folder / MODULES, modules)
    _write(folder / "sentence_bert_config.json", {"max_seq_length": max_tokens, "do_lower_case": False})
    prompts = {"prompts": dict(head.prompts or {}), "default_prompt_name": head.default_prompt}
    _write(folder / SETTINGS, {**prompts, "similarity_fn_name": "cosine"})


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

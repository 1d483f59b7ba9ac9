"""Hugging Face and sentence-transformers folders, read and checked for the export.

A Hugging Face folder has ``config.json``, ``tokenizer.json`` and ``model.safetensors`` (one file or shards). Weights
are read for the BERT and RoBERTa families, to which XLM-R, multilingual BERT, LaBSE and multilingual E5 belong.
Training with phrasemate adds ``heads.safetensors`` and ``training.json``, the record of the training.

Of a sentence-transformers folder, the encoder, pooling, layers, prompts and maximum length are read and written. Its
``modules.json`` lists the modules in order: a Transformer, a Pooling, then any of Dense, LayerNorm, Normalize and
Dropout, which is inactive at inference. Other modules are rejected.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from phrasemate.encode.heads import ACTIVATIONS, Arrays, Layer, SentenceHead, load_heads
from phrasemate.encode.model_folder import HEADS
from phrasemate.encode.segmenter import common_pieces
from phrasemate.encode.tokenizer import special_tokens
from phrasemate.errors import InputError, ModelError, ModelUnsupported, needs_extra
from phrasemate.utils.arrays import Floats
from phrasemate.utils.storage import save_arrays

FAMILIES = {
    "bert": 0,
    "camembert": 1,
    "roberta": 1,
    "xlm-roberta": 1,
}  # 1: positions begin after the padding token's id
TRAINING = "training.json"
SPECIAL = {  # names of the special tokens in transformers, and their usual forms
    "bos_token": ("<s>", "<bos>", "<|begin_of_text|>"),
    "eos_token": ("</s>", "<eos>", "<|endoftext|>", "<|end_of_text|>"),
    "cls_token": ("[CLS]", "<s>"),
    "sep_token": ("[SEP]", "</s>"),
    "pad_token": ("[PAD]", "<pad>", "<|pad|>", "<|endoftext|>", "<|end_of_text|>", "<eos>", "</s>"),
    "unk_token": ("[UNK]", "<unk>"),
    "mask_token": ("[MASK]", "<mask>"),
}
KINDS = "embeddings.token_type_embeddings.weight"
POSITIONS = "embeddings.position_embeddings.weight"
LEAST_VOCABULARY = 32  # tokens; without tokenizer files, transformers returns one of special tokens only
LEAST = 3  # positions: one token between two special ones
Weights = dict[str, Floats]


def family_of(folder: Path) -> str:
    """Read the ``model_type`` of a folder.

    Raises ModelError for a path that is not a folder, and for a missing or unreadable configuration. Raises
    ModelUnsupported for a BERT with relative positions, which transformers no longer supports.
    """
    if not folder.is_dir():
        raise ModelError(f"{folder}: no such folder; expected a Hugging Face encoder folder")
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
    """Read ``config.json``. Raises ModelUnsupported for other families, ModelError for missing or invalid entries."""
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
    """Average weights: share x weights + (1 - share) x base; equal values stay equal to the bit.

    Raises ModelError if the base, read from ``folder``, has another architecture.
    """
    weights, base = _one_kind(weights), _of_encoder(_one_kind(base), folder)
    for name, value in weights.items():
        if base[name].shape != value.shape:
            raise ModelError(f"{folder}: {name} has the shape {base[name].shape}, expected {value.shape}; not its base")
    mixture = {
        name: np.where(value == base[name], value, share * value + (1 - share) * base[name]).astype(np.float32)
        for name, value in weights.items()
    }
    return _of_encoder(mixture, folder)


def _one_kind(weights: Weights) -> Weights:
    """Drop all token types but the first, the only one in use; folders differ in their number."""
    return {**weights, KINDS: weights[KINDS][:1]} if KINDS in weights else dict(weights)


def read_weights(folder: Path) -> Weights:
    """Read the tensors in float32, named without the architecture's prefix ("bert.", "roberta.")."""
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
    return _of_encoder(weights, folder)


class _CheckedWeights(Weights):
    """Weights that raise ModelError, with the message "``lack`` NAME; ``remedy``", for a missing name."""

    def __init__(self, weights: Weights, lack: str, remedy: str) -> None:
        super().__init__(weights)
        self.lack, self.remedy = lack, remedy

    def __missing__(self, key: str) -> Floats:
        raise ModelError(f"{self.lack} {key}; {self.remedy}")


def _of_encoder(weights: Weights, folder: Path) -> Weights:
    return _CheckedWeights(weights, f"{folder}: the weights lack", "the file is not whole, or of another architecture")


def check_weights(config: Mapping[str, Any], weights: Weights, folder: Path) -> None:
    """Raise ModelError for a tensor whose shape differs from the configuration, or that holds NaN or infinity."""
    for name, shape in _shapes(config, weights):
        value = weights[name]
        if value.shape != shape:
            raise ModelError(f"{folder}: {name} has the shape {value.shape}, expected {shape}; not of one model")
        if not np.isfinite(value.sum(dtype=np.float64)):
            raise ModelError(f"{folder}: {name} holds NaN or infinity; train it again")


def _shapes(config: Mapping[str, Any], weights: Weights) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the name and required shape of each tensor; tables may have any number of rows, inner layers any width."""
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
    """Return the row of a text's first position in the position table."""
    return int(config.get("pad_token_id", 1)) + 1 if FAMILIES[str(config["model_type"])] else 0


def additive(config: Mapping[str, Any], weights: Weights) -> NDArray[np.float32]:
    """Add position vectors and the vector of token type 0: (positions, dim)."""
    positions: NDArray[np.float32] = weights[POSITIONS][_first(config) :] + weights[KINDS][0]
    return np.ascontiguousarray(positions)


def line_of(error: BaseException) -> str:
    """Shorten another library's error message to one line."""
    return " ".join(str(error).split())[:200]


def fast_tokenizer(folder: str | Path) -> Any:
    """Load the fast tokenizer of a Hugging Face folder or name; without tokenizer.json, transformers converts it.

    Raises ModelError if there is no usable vocabulary.
    """
    from tokenizers import Tokenizer

    path = Path(folder) / "tokenizer.json"
    if path.is_file():  # transformers would choose the class by the architecture, wrongly for some folders
        with _as_tokenizer_error(folder):
            return Tokenizer.from_file(str(path))
    with needs_extra("train", "transformers"):
        from transformers import AutoTokenizer
    with _as_tokenizer_error(folder):
        tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False).backend_tokenizer
    if (tokens := tokenizer.get_vocab_size()) < LEAST_VOCABULARY:
        raise ModelError(f"{folder}: no fast tokenizer ({tokens} tokens, no file); give a folder with tokenizer.json")
    return tokenizer


@contextmanager
def _as_tokenizer_error(folder: str | Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # tokenizers raises bare Exceptions
        reason = line_of(error)
        raise ModelError(f"{folder}: no fast tokenizer ({reason}); give a folder with tokenizer.json") from error


def read_tokenizer(folder: Path, rows: int, lower: bool = False) -> tuple[bytes, list[str]]:
    """Read a tokenizer; returns its compressed tokenizer.json, and frequent words by its scores (`common_pieces`).

    Unigram scores are written with the digits of float32. ``rows``: number of token vectors, checked against the
    vocabulary. ``lower``: add lower-casing. Raises ModelError or ModelUnsupported for an unusable tokenizer.
    """
    path = folder / "tokenizer.json"
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else fast_tokenizer(folder).to_str()
        value = json.loads(text)
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


def tokenizer_settings(tokenizer: bytes, padding: int | None = None) -> dict[str, str]:
    """Make tokenizer_config.json for a tokenizer.json, so that transformers need not guess the tokenizer's class.

    ``padding``: id of the encoder's padding token, if it is known.
    """
    from tokenizers import Tokenizer

    library = Tokenizer.from_buffer(tokenizer)
    settings = {"tokenizer_class": "PreTrainedTokenizerFast"}
    for name, looks in SPECIAL.items():
        present = [look for look in looks if library.token_to_id(look) is not None]
        settings |= {name: present[0]} if present else {}
    added_tokens = library.get_added_tokens_decoder()
    return settings | ({"pad_token": added_tokens[padding].content} if padding in added_tokens else {})


def _check_tokenizer(path: Path, text: str, rows: int) -> None:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(text)
    except Exception as error:  # the library raises a bare Exception
        raise ModelError(f"{path}: not a tokenizer ({error}); download the folder again") from error
    vocabulary = tokenizer.get_vocab()
    if not vocabulary:
        raise ModelUnsupported(f"{path}: holds no token; download the folder again")
    if (largest := max(vocabulary.values())) >= rows:
        raise ModelError(f"{path}: has token {largest}, the weights hold {rows} vectors; both must be of one model")
    tokenizer.no_padding()  # the file may set it
    special_tokens(tokenizer)  # raises if no text yields a token


def read_heads(folder: Path, width: int) -> Arrays:
    """Read trained heads; empty if there are none. Raises ModelError if they do not fit the encoder's width."""
    path = folder / HEADS
    return load_heads(path, width, ModelError, "train again, or remove it to do without") if path.exists() else {}


def read_training(folder: Path) -> dict[str, Any]:
    """Read ``training.json``; empty if there is none. Raises ModelError if it is not a JSON object."""
    path = folder / TRAINING
    return _json(path, dict, "an object", "train again, or remove it") if path.exists() else {}


MODULES, SETTINGS = "modules.json", "config_sentence_transformers.json"
LEGACY = {  # pooling flags of older versions, in the order of concatenation
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
CLASSES = "sentence_transformers.models."  # module path that all versions accept


class SentenceFolder(NamedTuple):
    """Content of a sentence-transformers folder.

    ``encoder``: folder of the Hugging Face encoder. ``max_tokens``: longest text, None if not limited. ``lower``:
    whether texts are lower-cased.
    """

    encoder: Path
    head: SentenceHead
    max_tokens: int | None
    lower: bool


def read_sentence_folder(folder: Path) -> SentenceFolder | None:
    """Read a sentence-transformers folder; None for a folder without ``modules.json``.

    Raises ModelUnsupported for an unsupported module or setting, and ModelError for a damaged file.
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


def _json(path: Path, kind: type, wording: str = "", remedy: str = "download the folder again") -> Any:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not readable as JSON ({error}); {remedy}") from error
    if not isinstance(value, kind):
        raise ModelError(f"{path}: a JSON {type(value).__name__}, expected {wording or kind.__name__}; {remedy}")
    return value


def _transformer(folder: Path) -> tuple[int | None, bool]:
    """Read a Transformer module: longest text in tokens, None if not limited, and whether texts are lower-cased."""
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


def _weights(folder: Path) -> Weights:
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
    return _CheckedWeights(arrays, f"{path}: lacks", "download the folder again")


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
    """Add the files of sentence-transformers to a Hugging Face folder, so that it loads the folder with this head."""
    kinds = [("Transformer", ""), ("Pooling", "1_Pooling")]
    modes: dict[str, Any] = {name: mode in head.pooling for name, mode in LEGACY.items()}
    if tuple(mode for name, mode in LEGACY.items() if modes[name]) != head.pooling:  # another order
        modes = {"pooling_mode": list(head.pooling)}
    pooling = {"word_embedding_dimension": width, **modes, "include_prompt": head.include_prompt}
    write_json(folder / "1_Pooling" / "config.json", pooling)
    names = {"dense": "Dense", "layer_norm": "LayerNorm", "normalize": "Normalize"}
    size = width * len(head.pooling)
    config: dict[str, Any]
    for number, layer in enumerate(head.layers, 2):
        place = folder / f"{number}_{names[layer.kind]}"
        kinds.append((names[layer.kind], place.name))
        place.mkdir()
        if layer.kind == "dense":
            path = "linear" if layer.activation == "Identity" else "activation"
            config = {"in_features": size, "out_features": len(layer.weight), "bias": bool(layer.bias.size)}
            config |= {"activation_function": f"torch.nn.modules.{path}.{layer.activation}"}
            arrays = {"linear.weight": layer.weight} | ({"linear.bias": layer.bias} if layer.bias.size else {})
            size = len(layer.weight)
        elif layer.kind == "layer_norm":
            config, arrays = {"dimension": size}, {"norm.weight": layer.weight, "norm.bias": layer.bias}
        if layer.kind != "normalize":
            write_json(place / "config.json", config)
            save_arrays(place / "model.safetensors", arrays, {"format": "pt"})
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": CLASSES + kind}
        for number, (kind, path) in enumerate(kinds)
    ]
    write_json(folder / MODULES, modules)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": max_tokens, "do_lower_case": False})
    prompts = {"prompts": dict(head.prompts), "default_prompt_name": head.default_prompt}
    write_json(folder / SETTINGS, {**prompts, "similarity_fn_name": "cosine"})


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON; create the file's folder if it does not exist."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

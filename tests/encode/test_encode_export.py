"""What an export says when it cannot be done, and that it leaves nothing behind then."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import encoders
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from phrasemate.encode import load_model
from phrasemate.encode.export.export import export_model
from phrasemate.encode.model_folder import CONFIG, MANIFEST
from phrasemate.errors import InputError, ModelError, ModelUnsupported, PhrasemateError

pytestmark = pytest.mark.slow


@pytest.fixture
def source(folders: dict[str, Path], family: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folders[family], tmp_path / "source"))


def refusal(source: Path, kind: type[PhrasemateError], **options: Any) -> str:
    """The message of the refusal; one line, and no file has come or gone."""
    base = source.parent
    before = sorted(base.rglob("*"))
    with pytest.raises(kind) as caught:
        export_model(source, base / "new" / "out", **options)
    assert sorted(base.rglob("*")) == before
    message = str(caught.value)
    assert "\n" not in message
    return message


def configure(source: Path, **changes: Any) -> None:
    path = source / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_what_it_makes(source: Path, tmp_path: Path) -> None:
    licence = tmp_path / "LICENSE.txt"
    licence.write_text("do as you like")
    out = tmp_path / "a" / "b" / "out"
    digest = export_model(source, out, layers=[1], pooling="mean", name="tiny", signature={"seed": 3}, licence=licence)
    model = load_model(out, threads=1)
    assert (model.hash, model.name, model.pooling, model.dim) == (digest, "tiny", "mean", encoders.HIDDEN)
    assert (model.config["layers"], model.config["signature"]) == ([1, 2], {"seed": 3})
    assert (out / "LICENSE.txt").read_text() == "do as you like"
    assert "LICENSE.txt" in json.loads((out / MANIFEST).read_text())["files"]
    assert {path.stat().st_mode & 0o777 for path in out.iterdir()} == {0o644}
    assert [path.name for path in out.parent.iterdir()] == ["out"]


def test_the_same_bytes_every_time(source: Path, tmp_path: Path) -> None:
    options = {"name": "x", "project": encoders.SENTENCES * 2, "dim": 8}
    assert export_model(source, tmp_path / "a", **options) == export_model(source, tmp_path / "b", **options)
    assert export_model(source, tmp_path / "c", **options, embedding_bits=8) != load_model(tmp_path / "a").hash


def test_eight_bits_are_nearer(folders: dict[str, Path], tmp_path: Path, family: str) -> None:
    expected = np.concatenate(encoders.reference(folders[family], encoders.SENTENCES, encoders.DEPTH))
    table = {}
    for bits in (4, 8):
        export_model(folders[family], tmp_path / str(bits), embedding_bits=bits)
        (states,) = load_model(tmp_path / str(bits), threads=1).token_states(encoders.SENTENCES)
        table[bits] = float(np.abs(states.values - expected).mean())
    assert table[8] < table[4] / 3  # 16 times finer in the table, the rounding elsewhere stays


def test_weights_of_a_larger_model_and_in_shards(folders: dict[str, Path], source: Path, tmp_path: Path) -> None:
    """A prefix as of a model with a head, two files: the same as the plain folder."""
    plain = export_model(folders["bert"], tmp_path / "plain")
    source = Path(shutil.copytree(folders["bert"], tmp_path / "prefixed"))
    tensors = load_file(source / "model.safetensors")
    (source / "model.safetensors").unlink()
    names = sorted(tensors)
    for number, part in enumerate((names[:20], names[20:]), 1):
        save_file({f"bert.{name}": tensors[name] for name in part}, source / f"model-0000{number}-of-00002.safetensors")
    assert export_model(source, tmp_path / "other", name="plain") == plain


def test_an_existing_place(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = export_model(source, out)
    with pytest.raises(InputError, match=r"out: exists; give another place, or --force to replace it"):
        export_model(source, out, pooling="mean")
    assert load_model(out, threads=1).hash == first
    assert export_model(source, out, pooling="mean", force=True) == load_model(out, threads=1).hash != first


def test_the_folder_behind_a_link_is_replaced(source: Path, tmp_path: Path) -> None:
    export_model(source, tmp_path / "disk" / "out")
    (tmp_path / "link").symlink_to("disk/out")
    digest = export_model(source, tmp_path / "link", pooling="mean", force=True)
    assert (tmp_path / "link").readlink() == Path("disk/out")
    assert load_model(tmp_path / "disk" / "out", threads=1).hash == digest
    assert sorted(path.name for path in (tmp_path / "disk").iterdir()) == ["out"]


def test_only_a_model_folder_is_replaced(source: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(InputError, match="thesis: exists and is not a model folder, so it is not replaced"):
        export_model(source, tmp_path / "thesis", force=True)
    assert (tmp_path / "thesis" / "chapter.txt").is_file()


def test_a_failure_keeps_what_was_there(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = export_model(source, out)
    (source / "tokenizer.json").unlink()
    with pytest.raises(ModelError):
        export_model(source, out, force=True)
    assert load_model(out, threads=1).hash == first


def test_never_over_the_source(source: Path) -> None:
    for out in (source, source.parent, source / "." / ".." / source.name):
        with pytest.raises(InputError, match="is where the weights come from"):
            export_model(source, out, force=True)
    assert (source / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"layers": [3]}, r"layers \[2, 3\]: expected numbers from 0 to 2"),
        ({"layers": [-1]}, r"layers \[-1, 2\]: expected numbers from 0 to 2"),
        ({"pooling": "max"}, "pooling 'max' in None bits; expected cls|ends|mean and 4, 8 or 16"),
        ({"embedding_bits": 2}, "in 2 bits"),
        ({"licence": "no/such/file"}, "no/such/file: no such file"),
        ({"project": ["A short text."]}, "expected 384 or more for 192 dimensions|dim 192: expected 1 to 128"),
        ({"project": encoders.SENTENCES, "dim": 0}, "dim 0: expected 1 to 128"),
        ({"project": [], "dim": 8}, "0 phrases in the text, expected 16 or more for 8 dimensions; give more text"),
    ],
)
def test_options(source: Path, options: dict[str, Any], expected: str) -> None:
    base = source.parent
    before = sorted(base.rglob("*"))
    with pytest.raises(InputError, match=expected):
        export_model(source, base / "out", **options)
    assert sorted(base.rglob("*")) == before


def test_other_architectures(source: Path) -> None:
    configure(source, model_type="t5", classifier_dropout=0.0)
    assert "model_type 't5' translates (encoder and decoder); expected an encoder" in refusal(source, ModelUnsupported)
    configure(source, model_type="bert", position_embedding_type="relative_key")
    assert "relative positions" in refusal(source, ModelUnsupported)
    configure(source, position_embedding_type="absolute", hidden_act="silu")
    assert "activation 'silu'; expected one of gelu" in refusal(source, ModelUnsupported)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "null", "\xff"])
def test_a_configuration_that_is_none(source: Path, content: str) -> None:
    (source / "config.json").write_bytes(content.encode("latin-1"))
    assert "config.json: " in refusal(source, ModelError)


@pytest.mark.parametrize("key", ["hidden_size", "num_attention_heads", "num_hidden_layers"])
def test_a_configuration_without(source: Path, key: str) -> None:
    configure(source, **{key: None})
    assert f"{key} is None, expected a number" in refusal(source, ModelError)


@pytest.mark.parametrize(
    ("tokenizer", "expected"),
    [
        (None, "no fast tokenizer"),
        ("", "not readable"),
        ("[]", "not a tokenizer"),
        ("{}", "not a tokenizer"),
    ],
)
def test_no_tokenizer(source: Path, tokenizer: str | None, expected: str) -> None:
    path = source / "tokenizer.json"
    path.unlink()
    if tokenizer is not None:
        path.write_text(tokenizer)
    assert expected in refusal(source, ModelError)


def test_a_tokenizer_of_other_files(source: Path, tmp_path: Path) -> None:
    """A folder of an older transformers has a vocabulary and its settings alone."""
    from tokenizers import Tokenizer

    path = source / "tokenizer.json"
    pieces = sorted(Tokenizer.from_file(str(path)).get_vocab(), key=len)[:60]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = list(dict.fromkeys([*special, "the", "bank", "ri", "##ver", *pieces]))
    (source / "vocab.txt").write_text("\n".join(vocabulary) + "\n", "utf-8")
    (source / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
    path.unlink()
    export_model(source, tmp_path / "out")
    (states,) = load_model(tmp_path / "out", threads=1).token_states(["The river bank"])
    assert list(zip(states.starts.tolist(), states.ends.tolist(), strict=True))[1:-1] == [
        (0, 3),
        (4, 6),
        (6, 9),
        (10, 14),
    ]


def retokenise(source: Path, change: Callable[[dict[str, Any]], object]) -> None:
    value = json.loads((source / "tokenizer.json").read_text())
    change(value)
    (source / "tokenizer.json").write_text(json.dumps(value))


def test_a_tokenizer_of_another_model(source: Path) -> None:
    rows = len(load_file(source / "model.safetensors")["embeddings.word_embeddings.weight"])
    token = {"id": rows, "content": "<new>", "special": True}
    token |= dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    retokenise(source, lambda value: value.update(added_tokens=[*value["added_tokens"], token]))
    assert f"has token {rows}, the weights hold {rows} vectors" in refusal(source, ModelError)


def test_a_tokenizer_without_tokens(source: Path) -> None:
    retokenise(source, lambda value: value.update(added_tokens=[], post_processor=None))
    retokenise(source, lambda value: value["model"].update(type="BPE", vocab={}, merges=[], unk_token=None))
    assert "holds no token" in refusal(source, ModelUnsupported)


def test_a_tokenizer_that_leaves_out_the_text(source: Path) -> None:
    template = {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}}
    retokenise(source, lambda value: value.update(post_processor=template))
    assert "a tokenizer that makes no token of any text" in refusal(source, ModelUnsupported)


def test_truncation_and_padding_are_not_taken_over(source: Path, tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8)
    tokenizer.save(str(source / "tokenizer.json"))
    export_model(source, tmp_path / "out")
    (states,) = load_model(tmp_path / "out", threads=1).token_states(["the bank", ("the " * 100).strip()])
    assert np.diff(states.bounds).tolist() == [2 + 2, 100 + 2]


@pytest.mark.parametrize(
    "name",
    [
        "embeddings__word_embeddings__weight",
        "embeddings__position_embeddings__weight",
        "embeddings__LayerNorm__bias",
        "encoder__layer__1__attention__self__query__weight",
        "encoder__layer__0__output__dense__bias",
    ],
)
def test_a_missing_tensor(source: Path, name: str) -> None:
    encoders.alter(source, **{name: None})
    assert name.replace("__", ".") in refusal(source, ModelError)


def test_weights_that_are_invalid(source: Path) -> None:
    path = source / "model.safetensors"
    content = path.read_bytes()
    for damaged in (b"", content[:100], content[:-1], b"\xff" * 100):
        path.write_bytes(damaged)
        assert "weights not readable" in refusal(source, ModelError)
    path.rename(source / "pytorch_model.bin")
    message = refusal(source, ModelError)
    assert "no model.safetensors; if it holds a pytorch_model.bin, convert it first with transformers" in message


@pytest.mark.parametrize("kind", ["F8_E4M3", "F8_E5M2"])
def test_weights_of_other_numbers(source: Path, kind: str) -> None:
    header = json.dumps({"x": {"dtype": kind, "shape": [4], "data_offsets": [0, 4]}}).encode()
    (source / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    assert "weights not readable" in refusal(source, ModelError)


@pytest.mark.parametrize(
    "name",
    [
        "embeddings__position_embeddings__weight",
        "embeddings__token_type_embeddings__weight",
        "encoder__layer__1__attention__self__key__bias",
        "encoder__layer__1__output__LayerNorm__weight",
        "encoder__layer__0__intermediate__dense__weight",
    ],
)
def test_a_tensor_of_another_shape_or_of_no_numbers(source: Path, name: str) -> None:
    value = load_file(source / "model.safetensors")[name.replace("__", ".")]
    for changed in (value[:0], value.reshape(1, *value.shape), value.reshape(-1)[:3]):
        encoders.alter(source, **{name: np.ascontiguousarray(changed)})
        assert f"{name.replace('__', '.')} has the shape {changed.shape}, expected (" in refusal(source, ModelError)
    encoders.alter(source, **{name: np.full_like(value, np.nan)})
    assert f"{name.replace('__', '.')} holds NaN or infinity" in refusal(source, ModelError)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("text")
    assert "config.json: not found; expected a Hugging Face encoder folder" in refusal(tmp_path / "empty", ModelError)
    for name in ("file", "none"):
        message = refusal(tmp_path / name, ModelError)
        assert message == f"{tmp_path / name}: no such folder; expected a Hugging Face encoder folder"


def test_a_width_that_does_not_divide(source: Path) -> None:
    table = np.zeros((300, 40), np.float32)
    encoders.alter(source, embeddings__word_embeddings__weight=table)
    assert "token vectors of shape (300, 40); not of one model" in refusal(source, ModelError)
    path = source / "model.safetensors"
    shapes = {
        name: [40 if size == encoders.HIDDEN else size for size in value.shape]
        for name, value in load_file(path).items()
    }
    save_file({name: np.zeros(shape, np.float32) for name, shape in shapes.items()}, path)
    configure(source, hidden_size=40)
    assert "token vectors of 40 numbers, not a multiple of 32; export with 16 bits" in refusal(source, ModelUnsupported)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"num_attention_heads": 0}, "num_attention_heads is 0, expected a number"),
        ({"num_attention_heads": 5}, "num_attention_heads 5; expected a multiple of the heads"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0, expected a number"),
        ({"layer_norm_eps": None}, "layer_norm_eps is None, expected a number"),
    ],
)
def test_a_configuration_of_nonsense(source: Path, changes: dict[str, Any], expected: str) -> None:
    configure(source, **changes)
    assert expected in refusal(source, ModelError)


def test_a_family_that_is_not_name(source: Path) -> None:
    configure(source, model_type=["bert"])
    assert "model_type ['bert']; expected the name of an architecture" in refusal(source, ModelUnsupported)


def test_a_padding_that_is_not_number(folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(folders["xlmr"], tmp_path / "model")
    configure(tmp_path / "model", pad_token_id=None)
    assert "pad_token_id is None, expected a number" in refusal(tmp_path / "model", ModelError)


def test_the_configuration_tells_how_it_was_made(folders: dict[str, Path], tmp_path: Path) -> None:
    export_model(folders["xlmr"], tmp_path / "out", sentence_prefix="query: ", project=encoders.SENTENCES * 2, dim=8)
    config = json.loads((tmp_path / "out" / CONFIG).read_text())
    assert config["signature"]["dim"] == 8
    assert {"the", "的", "中"} <= set(config["common_words"])
    plain, prefixed = load_model(tmp_path / "out", threads=1), "query: The bank"
    config_without = plain.config | {"sentence_prefix": ""}
    expected = plain.encode_sentences(["The bank"])
    plain.config = config_without
    np.testing.assert_array_equal(plain.encode_sentences([prefixed]), expected)

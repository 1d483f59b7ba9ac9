"""Folders of sentence-transformers, read whole and written: the same vectors as that library, or a refusal by name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import encoders
import hf_families
import numpy as np
import pytest
from encoders import cosines
from safetensors.numpy import load_file, save_file
from typer.testing import CliRunner

from phrasemate.cli import app
from phrasemate.encode import load_model
from phrasemate.encode.export.export import export_model
from phrasemate.encode.export.hf_folder import FAMILIES, read_sentence_folder
from phrasemate.encode.export.to_hf import unpack_model
from phrasemate.encode.heads import MODES, Layer, SentenceHead
from phrasemate.encode.runtime import States
from phrasemate.errors import InputError, ModelDamaged, ModelError, ModelUnsupported

pytestmark = pytest.mark.slow

TEXTS = [*hf_families.TEXTS, "The old bank on the river was closed. " * 5]  # the last is longer than 24 tokens
PROMPTS = {"query": "query: ", "passage": "the text: "}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hf_families.save_family("bert", tmp_path_factory.mktemp("encoder") / "bert")


@pytest.fixture(scope="module")
def with_layer(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the library with a dense layer; not to be changed."""
    from sentence_transformers.base.modules import Dense

    folder = tmp_path_factory.mktemp("dense") / "st"
    write(folder, encoder, "cls", Dense(64, 8))
    return folder


def write(folder: Path, encoder: Path, modes: Any, *layers: Any, **options: Any) -> Any:
    """The library's own folder of these modules; returns its model."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    transformer = Transformer(str(encoder), max_seq_length=options.pop("longest", 24))
    pooling = Pooling(64, pooling_mode=modes, include_prompt=options.pop("include_prompt", True))
    built = SentenceTransformer(modules=[transformer, pooling, *layers], device="cpu", **options)
    built.save(str(folder), create_model_card=False)
    return SentenceTransformer(str(folder), device="cpu")


def export(folder: Path, out: Path, **options: Any) -> Any:
    export_model(folder, out, precision="fp32", embedding_bits=16, **options)
    return load_model(out, threads=1)


@pytest.mark.parametrize("modes", [*MODES, ("cls", "max", "mean"), ("lasttoken", "weightedmean")], ids=str)
def test_every_pooling_is_the_library_s(modes: Any, encoder: Path, tmp_path: Path) -> None:
    library = write(tmp_path / "st", encoder, modes)
    model = export(tmp_path / "st", tmp_path / "model")
    assert model.sentence_dim == 64 * (1 if isinstance(modes, str) else len(modes))
    assert cosines(model.encode_sentences(TEXTS), library.encode(TEXTS)).min() >= 0.9999
    alone = model.encode_sentences(TEXTS[-1:])
    assert cosines(alone, library.encode([TEXTS[-1][:60]])).min() < 0.9999  # what lies beyond 60 characters counts


def test_labse_end_to_end(encoder: Path, tmp_path: Path) -> None:
    """BERT, the opening token, a dense layer with tanh, unit length."""
    import torch
    from sentence_transformers.base.modules import Dense, Normalize

    torch.manual_seed(3)
    library = write(tmp_path / "st", encoder, "cls", Dense(64, 64, activation_function=torch.nn.Tanh()), Normalize())
    exact = export(tmp_path / "st", tmp_path / "model")
    assert cosines(exact.encode_sentences(TEXTS), library.encode(TEXTS)).min() >= 0.9999
    means = export(encoder, tmp_path / "means").encode_sentences(TEXTS)
    assert cosines(means, library.encode(TEXTS)).max() < 0.9  # what a token mean would give
    export_model(tmp_path / "st", tmp_path / "int8")  # the written graph
    rounded = load_model(tmp_path / "int8", threads=1)
    assert (tmp_path / "int8" / "encoder.onnx").exists()
    assert cosines(rounded.encode_sentences(TEXTS), library.encode(TEXTS)).min() >= 0.98


@pytest.mark.parametrize("kind", ["LaBSE", "ModernBERT"])
def test_export_index_and_search_by_command(kind: str, encoder: Path, tmp_path: Path) -> None:
    """What a user does with a folder of an encoder: each sentence is nearest to itself."""
    if kind == "LaBSE":
        import torch
        from sentence_transformers.base.modules import Dense, Normalize

        dense = Dense(64, 64, activation_function=torch.nn.Tanh())
        write(tmp_path / "hf", encoder, "cls", dense, Normalize())
    else:
        hf_families.save_family("modernbert", tmp_path / "hf")
    query = "The old [[bank]] on the river was closed."
    answer = hf_families.search_by_command(tmp_path / "hf", tmp_path, encoders.SENTENCES, query)
    assert answer["text"] == "bank"
    assert answer["score"] > 0.99


def test_prompts_by_name(encoder: Path, tmp_path: Path) -> None:
    library = write(
        tmp_path / "st", encoder, "mean", prompts=PROMPTS, default_prompt_name="query", include_prompt=False, longest=60
    )
    model = export(tmp_path / "st", tmp_path / "model")
    for name in ("query", "passage"):
        expected = library.encode(TEXTS, prompt_name=name)
        assert cosines(model.encode_sentences(TEXTS, prompt=name), expected).min() >= 0.9999
    np.testing.assert_array_equal(model.encode_sentences(TEXTS), model.encode_sentences(TEXTS, prompt="query"))
    passage = export(tmp_path / "st", tmp_path / "passage", prompt="passage")
    np.testing.assert_array_equal(passage.encode_sentences(TEXTS), model.encode_sentences(TEXTS, prompt="passage"))
    with pytest.raises(InputError, match="prompt 'poem': the model has document, passage, query"):
        model.encode_sentences(TEXTS, prompt="poem")
    with pytest.raises(InputError, match="name one by --prompt"):
        export_model(tmp_path / "st", tmp_path / "x", sentence_prefix="query: ")


def test_a_decoder_with_its_last_token(tmp_path: Path) -> None:
    """As Qwen3-Embedding."""
    from sentence_transformers.base.modules import Normalize

    folder = hf_families.save_family("qwen3", tmp_path / "hf")
    names = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    library = write(tmp_path / "st", folder, "lasttoken", Normalize(), longest=60)
    model = export(tmp_path / "st", tmp_path / "model")
    texts = hf_families.TEXTS[:2]
    assert cosines(model.encode_sentences(texts), library.encode(texts)).min() >= 0.9999


@pytest.mark.parametrize("family", ["gemma3_text", "modernbert", "xlm-roberta", "gte"])
def test_other_families_with_two_dense_layers(family: str, tmp_path: Path) -> None:
    """The mean of the tokens, two dense layers, unit length, and prompts: as EmbeddingGemma has them."""
    import torch
    from sentence_transformers.base.modules import Dense, Normalize

    torch.manual_seed(5)
    folder = hf_families.save_family(family, tmp_path / "hf")
    names = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    layers = [
        Dense(64, 96, bias=False, activation_function=torch.nn.Identity()),
        Dense(96, 48, bias=False),
        Normalize(),
    ]
    library = write(tmp_path / "st", folder, "mean", *layers, longest=100, prompts=PROMPTS)
    model = export(tmp_path / "st", tmp_path / "model")
    texts = hf_families.TEXTS
    for name in ("query", "passage"):
        expected = library.encode(list(texts), prompt_name=name, batch_size=1)
        assert cosines(model.encode_sentences(texts, prompt=name), expected).min() >= 0.9999


def test_older_folders(encoder: Path, tmp_path: Path) -> None:
    """The encoder in 0_Transformer, flags for the modes, the longest text in sentence_bert_config.json."""
    folder = tmp_path / "st"
    shutil.copytree(encoder, folder / "0_Transformer")
    kinds = ("Transformer", "Pooling")
    modules = [
        {"idx": i, "name": str(i), "path": f"{i}_{kind}", "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "0_Transformer" / "sentence_bert_config.json").write_text('{"max_seq_length": 24, "do_lower_case": true}')
    (folder / "1_Pooling").mkdir()
    flags = {"word_embedding_dimension": 64, "pooling_mode_cls_token": True, "pooling_mode_max_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(flags))
    model = export(folder, tmp_path / "model")
    assert model.config["sentence"]["pooling"] == ["cls", "max"]
    assert model.runtime.window == 24 - 2
    same = model.encode_sentences(["THE OLD BANK", "the old bank"])
    np.testing.assert_allclose(same[0], same[1], atol=1e-6)


@pytest.mark.parametrize(
    ("place", "change", "error", "expected"),
    [
        ("modules.json", [{"type": "x.WordEmbeddings", "path": ""}], ModelUnsupported, "WordEmbeddings; expected"),
        ("modules.json", "LSTM", ModelUnsupported, "a LSTM, which phrasemate does not compute"),
        ("1_Pooling/config.json", {"pooling_mode": "median"}, ModelUnsupported, "pooling median; expected some of cls"),
        ("1_Pooling/config.json", {"attention": True}, ModelUnsupported, "Pooling with attention; expected"),
        ("2_Dense/config.json", {"use_residual": True}, ModelUnsupported, "use_residual True; expected False"),
        ("2_Dense/config.json", {"activation_function": "own.Tanh"}, ModelUnsupported, "activation own.Tanh"),
        ("2_Dense/model.safetensors", None, ModelError, r"pytorch_model.bin, convert the folder first"),
        ("sentence_bert_config.json", {"query_length": 32}, ModelUnsupported, "Transformer with query_length"),
        (
            "sentence_bert_config.json",
            {"transformer_task": "fill-mask"},
            ModelUnsupported,
            "transformer_task 'fill-mask'",
        ),
        ("config_sentence_transformers.json", {"similarity_fn_name": "dot"}, ModelUnsupported, "'dot' of vectors not"),
        ("config_sentence_transformers.json", {"default_prompt_name": "x"}, ModelUnsupported, "prompt 'x': the model"),
    ],
)
def test_what_cannot_be_read_is_named(
    place: str, change: Any, error: type[Exception], expected: str, with_layer: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(with_layer, tmp_path / "st")
    path = folder / place
    if change is None:
        path.unlink()
    elif isinstance(change, dict):
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    else:
        modules = json.loads(path.read_text())
        path.write_text(json.dumps([*modules, {"type": "a.LSTM", "path": "3"}] if change == "LSTM" else change))
    with pytest.raises(error, match=expected):
        read_sentence_folder(folder)


def test_a_plain_folder_is_none(encoder: Path) -> None:
    assert read_sentence_folder(encoder) is None


def test_pooling_by_hand() -> None:
    """Two texts of three tokens and one; the first token is skipped where there is another."""
    values = np.array([[1, 0], [2, 4], [4, -2], [5, 7]], np.float32)
    states = States(values, np.array([0, 3, 4]), np.zeros(4, np.int32), np.zeros(4, np.int32))
    expected = {
        "cls": [[2, 4], [5, 7]],
        "lasttoken": [[4, -2], [5, 7]],
        "max": [[4, 4], [5, 7]],
        "mean": [[(2 + 4) / 2, (4 - 2) / 2], [5, 7]],
        "mean_sqrt_len_tokens": [[(2 + 4) / 2**0.5, (4 - 2) / 2**0.5], [5, 7]],
        "weightedmean": [[(2 * 2 + 3 * 4) / (2 + 3), (2 * 4 - 3 * 2) / (2 + 3)], [5, 7]],
    }
    for mode, rows in expected.items():
        np.testing.assert_allclose(SentenceHead((mode,))(states, skipped=1), rows, rtol=1e-6)


def test_layers_by_hand() -> None:
    vectors = np.array([[3, -4]], np.float32)
    np.testing.assert_allclose(Layer("normalize")(vectors), [[3 / 5, -4 / 5]])
    dense = Layer("dense", "ReLU", np.array([[1, 1], [2, 0], [0, 1]], np.float32), np.array([0, 1, 0], np.float32))
    np.testing.assert_allclose(dense(vectors), [[0, 2 * 3 + 1, 0]])
    normed = Layer("layer_norm", weight=np.array([2, 2], np.float32), bias=np.array([0, 1], np.float32))
    np.testing.assert_allclose(normed(vectors), [[2 * 1, 2 * -1 + 1]], atol=1e-5)  # mean -0.5, spread 3.5


def test_damaged_layers(with_layer: Path, tmp_path: Path) -> None:
    from phrasemate.encode.model_folder import write_manifest

    export_model(with_layer, tmp_path / "model")
    path = tmp_path / "model" / "sentence.safetensors"
    save_file({name: array[:, :5] for name, array in load_file(path).items() if array.ndim == 2}, path)
    write_manifest(tmp_path / "model")
    with pytest.raises(ModelDamaged, match=r"sentence.safetensors: does not fit"):
        load_model(tmp_path / "model")
    path.unlink()
    write_manifest(tmp_path / "model")
    with pytest.raises(ModelDamaged, match=r"do not belong together|does not belong"):
        load_model(tmp_path / "model")


def test_unpacked_folders_load_in_the_library(encoder: Path, tmp_path: Path) -> None:
    """With pooling, layers and prompts; and of a plain model the token mean with its prefix."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense, Normalize

    dense = Dense(64, 32, activation_function=torch.nn.Tanh())
    write(tmp_path / "st", encoder, ("cls", "max"), Dense(128, 64), dense, Normalize(), prompts=PROMPTS)
    export_model(tmp_path / "st", tmp_path / "model")
    export_model(encoders.save_xlmr(tmp_path / "xlmr"), tmp_path / "plain", sentence_prefix="query: ")
    for name in ("model", "plain"):
        unpack_model(tmp_path / name, tmp_path / f"{name}-st")
        library = SentenceTransformer(str(tmp_path / f"{name}-st"), device="cpu")
        model = load_model(tmp_path / name, threads=1)
        assert library.max_seq_length == model.config["max_tokens"]
        near = cosines(model.encode_sentences(list(encoders.SENTENCES)), library.encode(list(encoders.SENTENCES)))
        assert near.min() >= 0.995  # activations are rounded here and not there


TRACED = [name for name in hf_families.FAMILIES if name not in FAMILIES]


@pytest.mark.parametrize("family", TRACED)
def test_traced_models_load_in_the_library(family: str, tmp_path: Path) -> None:
    """The weights of the encoder, and the model's tokenizer, pooling and longest text; texts of many lengths."""
    from sentence_transformers import SentenceTransformer

    folder = hf_families.save_family(family, tmp_path / "hf")
    model = export(folder, tmp_path / "model", graph="traced", sentence_prefix="the ")
    with pytest.raises(ModelUnsupported, match=r"its graph was traced; name the encoder .* by --encoder"):
        unpack_model(tmp_path / "model", tmp_path / "st")
    arguments = ("model", "unpack", tmp_path / "model", "-o", tmp_path / "st", "--encoder", folder)
    run = CliRunner().invoke(app, [*map(str, arguments)])
    assert run.exit_code == 0, run.output
    library = SentenceTransformer(str(tmp_path / "st"), device="cpu")
    assert library.max_seq_length == model.config["max_tokens"]
    texts = list(hf_families.TEXTS)
    assert cosines(model.encode_sentences(texts), library.encode(texts)).min() >= 0.9999
    assert cosines(model.encode_sentences(texts), library.encode(texts, batch_size=1)).min() >= 0.9999


def test_a_traced_model_with_layers_and_an_averaged_encoder(tmp_path: Path) -> None:
    """Dense layers and prompts become modules; what is not the encoder that the model was made of is refused."""
    import torch
    from safetensors.torch import load_file as load_tensors
    from safetensors.torch import save_file as save_tensors
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense, Normalize

    base = hf_families.save_family("modernbert", tmp_path / "base")
    names = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "eos_token": "</s>"}
    (base / "tokenizer_config.json").write_text(json.dumps(names))
    trained, other = (shutil.copytree(base, tmp_path / name) for name in ("trained", "other"))
    torch.manual_seed(4)
    for folder in (trained, other):
        weights = load_tensors(folder / "model.safetensors")
        moved = {name: value + 0.03 * torch.randn_like(value) for name, value in weights.items()}
        save_tensors(moved, folder / "model.safetensors", {"format": "pt"})
    dense = Dense(64, 32, activation_function=torch.nn.Tanh())
    write(tmp_path / "st", trained, ("cls", "mean"), Dense(128, 64), dense, Normalize(), prompts=PROMPTS, longest=40)
    model = export(tmp_path / "st", tmp_path / "model", base=base, share=0.8)
    unpack_model(tmp_path / "model", tmp_path / "out", tmp_path / "st", base)
    library = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    for name in PROMPTS:
        expected = library.encode(TEXTS, prompt_name=name)
        assert cosines(model.encode_sentences(TEXTS, prompt=name), expected).min() >= 0.9999
    with pytest.raises(InputError, match=r"has 0\.8 of the trained weights, the rest of their base"):
        unpack_model(tmp_path / "model", tmp_path / "again", trained)
    with pytest.raises(
        InputError, match=r"other: its states have a mean cosine of 0\.\d+ with those of .*expected 0.999"
    ):
        unpack_model(tmp_path / "model", tmp_path / "again", other, base)
    export_model(base, tmp_path / "plain", graph="traced")
    with pytest.raises(InputError, match="has other sizes"):
        unpack_model(tmp_path / "plain", tmp_path / "again", hf_families.save_family("bert", tmp_path / "bert"))
    with pytest.raises(InputError, match="was not averaged with a base"):
        unpack_model(tmp_path / "plain", tmp_path / "again", base, trained)
    assert not (tmp_path / "again").exists()


def test_a_tokenizer_that_cannot_pad(tmp_path: Path) -> None:
    folder = hf_families.save_family("modernbert", tmp_path / "hf")
    text = (folder / "tokenizer.json").read_text()
    for token in ("<pad>", "</s>"):
        text = text.replace(json.dumps(token), json.dumps(token.replace(">", "!>")))
    (folder / "tokenizer.json").write_text(text)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"pad_token_id": 270}))
    export_model(folder, tmp_path / "model", precision="fp32")
    with pytest.raises(ModelUnsupported, match="its tokenizer has no token for padding; add one"):
        unpack_model(tmp_path / "model", tmp_path / "st", folder)

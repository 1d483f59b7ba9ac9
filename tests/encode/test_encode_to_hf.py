"""A model folder becomes a Hugging Face encoder again: the same states, the same table, the same heads."""

from __future__ import annotations

import json
from pathlib import Path

import encoders
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer
from typer.testing import CliRunner

from phrasemate.cli import app
from phrasemate.encode import load_model
from phrasemate.encode.export.export import export_model
from phrasemate.encode.export.to_hf import unpack_model
from phrasemate.errors import InputError, ModelDamaged

pytestmark = pytest.mark.slow

HEADS = {
    "start": np.full((encoders.HIDDEN, 3), 0.25, np.float32),
    "end": np.full((encoders.HIDDEN, 3), -0.5, np.float32),
    "bias": np.arange(3, dtype=np.float32),
}


@pytest.fixture
def unpacked_folder(folders: dict[str, Path], family: str, tmp_path: Path) -> Path:
    """The model folder of a tiny encoder with heads, and what came of it unpacked beside it."""
    save_file(HEADS, folders[family] / "heads.safetensors")
    try:
        export_model(folders[family], tmp_path / "model", signature={"steps": 7})
    finally:
        (folders[family] / "heads.safetensors").unlink()
    unpack_model(tmp_path / "model", tmp_path / "encoder")
    return tmp_path


def test_transformers_computes_the_same_states(unpacked_folder: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    encoder, info = transformers.AutoModel.from_pretrained(unpacked_folder / "encoder", output_loading_info=True)
    assert not set(info["unexpected_keys"])
    assert all(key.startswith("pooler.") for key in info["missing_keys"])  # which no state passes through
    model = load_model(unpacked_folder / "model", threads=1)
    for text in encoders.SENTENCES:
        ids = torch.tensor([model.runtime.tokenizer.encode(text).ids])
        with torch.no_grad():
            expected = encoder.eval()(input_ids=ids).last_hidden_state[0].numpy()
        (states,) = model.token_states([text])
        cosines = (states.values * expected).sum(1) / np.linalg.norm(states.values, axis=1)
        cosines /= np.linalg.norm(expected, axis=1)
        assert cosines.min() > 0.999


def test_transformers_cuts_texts_alike(unpacked_folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    loaded = transformers.AutoTokenizer.from_pretrained(unpacked_folder / "encoder")
    ours = load_model(unpacked_folder / "model").runtime.tokenizer
    batch = loaded([*encoders.SENTENCES, "The old bank"], padding=True)  # which needs the padding token
    for text, ids, mask in zip(
        [*encoders.SENTENCES, "The old bank"], batch["input_ids"], batch["attention_mask"], strict=True
    ):
        assert ids[: sum(mask)] == ours.encode(text).ids


@pytest.mark.parametrize(("smooth", "steps"), [(False, 0.5), (True, 1)])
def test_exported_again_the_table_is_the_same_and_weights_are_within_a_step(
    unpacked_folder: Path, smooth: bool, steps: float
) -> None:
    export_model(unpacked_folder / "encoder", unpacked_folder / "again", smooth=smooth)
    one, two = (load_file(unpacked_folder / name / "embeddings.safetensors") for name in ("model", "again"))
    assert all((one[name] == two[name]).all() for name in ("codes", "scales", "additive"))
    unpack_model(unpacked_folder / "again", unpacked_folder / "twice")
    first, second = (load_file(unpacked_folder / name / "model.safetensors") for name in ("encoder", "twice"))
    assert first.keys() == second.keys()
    for name, value in first.items():
        step = np.abs(value).max() / 127 if value.ndim > 1 else 0
        assert np.abs(value - second[name]).max() <= steps * step + 1e-6, name


def test_heads_tokenizer_and_history_come_along(unpacked_folder: Path, family: str) -> None:
    heads = load_file(unpacked_folder / "encoder" / "heads.safetensors")
    assert heads.keys() == HEADS.keys()
    assert all((heads[name] == value).all() for name, value in HEADS.items())
    assert json.loads((unpacked_folder / "encoder" / "training.json").read_text()) == {"steps": 7}
    assert (
        json.loads((unpacked_folder / "encoder" / "config.json").read_text())["pad_token_id"]
        == {"bert": 0, "xlmr": 1}[family]
    )
    assert load_model(unpacked_folder / "model").runtime.tokenizer.encode("The old bank").ids == (
        Tokenizer.from_file(str(unpacked_folder / "encoder" / "tokenizer.json")).encode("The old bank").ids
    )


def test_with_its_encoder_the_weights_are_those_before_rounding(
    unpacked_folder: Path, folders: dict[str, Path], family: str
) -> None:
    unpack_model(unpacked_folder / "model", unpacked_folder / "exact", folders[family])
    original, exact = (
        load_file(folder / "model.safetensors") for folder in (folders[family], unpacked_folder / "exact")
    )
    assert set(exact) == {name for name in original if not name.startswith("pooler.")}
    assert all((original[name] == value).all() for name, value in exact.items())
    assert (unpacked_folder / "exact" / "heads.safetensors").is_file()


def test_what_exists_is_not_replaced_and_damage_is_reported(unpacked_folder: Path) -> None:
    with pytest.raises(InputError, match="exists"):
        unpack_model(unpacked_folder / "model", unpacked_folder / "encoder")
    (unpacked_folder / "model" / "encoder.onnx").write_bytes(b"no")
    before = sorted(unpacked_folder.rglob("*"))
    with pytest.raises(ModelDamaged, match=r"encoder\.onnx"):
        unpack_model(unpacked_folder / "model", unpacked_folder / "more")
    assert sorted(unpacked_folder.rglob("*")) == before


def test_a_link_to_a_new_folder_stays(unpacked_folder: Path) -> None:
    (unpacked_folder / "link").symlink_to("disk/again")
    unpack_model(unpacked_folder / "model", unpacked_folder / "link")
    assert (unpacked_folder / "link").readlink() == Path("disk/again")
    assert (unpacked_folder / "disk" / "again" / "model.safetensors").is_file()


def test_the_command(unpacked_folder: Path) -> None:
    result = CliRunner().invoke(
        app, ["model", "unpack", str(unpacked_folder / "model"), "-o", str(unpacked_folder / "by-command")]
    )
    assert result.exit_code == 0, result.output
    assert "a Hugging Face encoder" in result.output
    assert (unpacked_folder / "by-command" / "config.json").is_file()

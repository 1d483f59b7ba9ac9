"""LoRA on a tiny random causal model: the loss falls, only the adapter changes, and it is loaded again."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from phrasemate.cli import app
from phrasemate.errors import InputError, ModelError
from phrasemate.training.lora import (
    IGNORED,
    LoraSettings,
    TokenizedPrompt,
    encoded,
    padded,
    read_lessons,
    summed_loss,
    train_lora,
)

TEXTS = [(f"German: satz {n}\nEnglish:", f" sentence {n}") for n in range(8)]
QUICK = LoraSettings(steps=12, batch=4, rate=2e-2, warmup=2, rank=4)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of 2 layers and 32 numbers a token, with a tokenizer of characters."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("causal")
    characters = sorted({c for pair in TEXTS for text in pair for c in text} | set("<|user>a"))
    vocabulary = {token: number for number, token in enumerate(["<unk>", "</s>", *characters])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", unk_token="<unk>").save_pretrained(
        str(folder)
    )
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2
    )
    LlamaForCausalLM(config).save_pretrained(str(folder))
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "x.plain.jsonl"
    path.write_text("".join(json.dumps({"prompt": a, "completion": b}) + "\n" for a, b in TEXTS))
    return path


def tokenizer(base: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(base))


def test_the_adapter_learns_is_saved_and_changes_the_model_when_loaded(base: Path, data: Path, tmp_path: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    before = (base / "model.safetensors").read_bytes()
    events: list[int] = []
    losses = train_lora(data, base, tmp_path / "adapter", QUICK, progress=lambda step, steps, loss: events.append(step))
    assert len(losses) == 12
    assert events == list(range(1, 13))
    assert (
        np.mean(losses[-3:]) < np.mean(losses[:3]) - 0.2
    )  # the untrained output layer, which is frozen, allows no more
    assert (base / "model.safetensors").read_bytes() == before
    assert (tmp_path / "adapter" / "adapter_model.safetensors").is_file()
    logged = [json.loads(line) for line in (tmp_path / "adapter" / "metrics.jsonl").read_text().splitlines()]
    assert [item["loss"] for item in logged] == losses
    assert json.loads((tmp_path / "adapter" / "lora.json").read_text())["examples"] == 8

    ids = torch.tensor([tokenizer(base)(TEXTS[0][0])["input_ids"]])
    plain = AutoModelForCausalLM.from_pretrained(str(base)).eval()
    with torch.no_grad():
        untouched = plain(input_ids=ids).logits
        adapted = PeftModel.from_pretrained(plain, str(tmp_path / "adapter")).eval()(input_ids=ids).logits
    assert (adapted - untouched).abs().max() > 0.01


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("cut short", "no causal language model that transformers reads"),
        ("another shape", "no causal language model that transformers reads"),
        ("no tokenizer", "no causal language model that transformers reads"),
        ("pickled", "no causal language model that transformers reads"),
        ("lacking", "1 weights of a causal language model are missing, such as model.layers.1.self_attn.q_proj"),
    ],
)
def test_weights_that_are_not_whole(base: Path, data: Path, tmp_path: Path, damage: str, message: str) -> None:
    """What a model lacks would be drawn at random, and the adapter trained on that."""
    folder, name = tmp_path / "damaged", "model.layers.1.self_attn.q_proj.weight"
    shutil.copytree(base, folder)
    path = folder / "model.safetensors"
    weights = load_file(path)
    if damage == "cut short":
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "no tokenizer":
        (folder / "tokenizer.json").write_text('{"model": {}}')
    elif damage == "pickled":
        path.unlink()
        torch.save(weights, folder / "pytorch_model.bin")
    else:
        value = {name: torch.zeros(3, 3)} if damage == "another shape" else {}
        others = {key: array for key, array in weights.items() if key != name}
        save_file(others | value, path, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=message) as caught:
        train_lora(data, folder, tmp_path / "adapter", QUICK)
    assert "\n" not in str(caught.value)


def test_tied_weights_are_not_lack(base: Path, data: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    folder = tmp_path / "tied"
    config = LlamaConfig.from_pretrained(str(base), tie_word_embeddings=True)
    LlamaForCausalLM(config).save_pretrained(str(folder))
    AutoTokenizer.from_pretrained(str(base)).save_pretrained(str(folder))
    assert "lm_head.weight" not in load_file(folder / "model.safetensors")
    assert len(train_lora(data, folder, tmp_path / "adapter", LoraSettings(steps=1, batch=2))) == 1


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SafetensorError("I/O error:\nNo space"), r"adapter: cannot be written \(I/O error: No space\); check free"),
        (OSError(28, "No space left"), r"adapter: cannot be written \(.*No space left\); check free space"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried."), r"the training stopped \(CUDA out of memory\); give"),
    ],
)
def test_no_room(
    base: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    from peft import PeftModel

    def full(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(PeftModel, "save_pretrained", full)
    with pytest.raises(InputError, match=message):
        train_lora(data, base, tmp_path / "adapter", LoraSettings(steps=1, batch=2))


def test_memory_that_is_short_while_a_model_is_loaded_is_no_damage(
    base: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried.")

    monkeypatch.setattr("transformers.AutoModelForCausalLM.from_pretrained", full)
    with pytest.raises(InputError, match=r"the training stopped \(CUDA out of memory\); give"):
        train_lora(data, base, tmp_path / "adapter", QUICK)


def test_a_run_that_diverges_is_one_error_that_names_the_step(base: Path, data: Path, tmp_path: Path) -> None:
    settings = replace(QUICK, rate=1e30, warmup=0)
    with pytest.raises(ModelError, match=r"adapter: the loss of step \d+ is (nan|inf); try a lower rate"):
        train_lora(data, base, tmp_path / "adapter", settings)
    rows = [json.loads(line) for line in (tmp_path / "adapter" / "metrics.jsonl").read_text().splitlines()]
    assert all(math.isfinite(row["loss"]) for row in rows)


def test_the_same_seed_gives_the_same_losses(base: Path, data: Path, tmp_path: Path) -> None:
    quick = LoraSettings(steps=3, batch=2)
    first, second = (train_lora(data, base, tmp_path / name, quick) for name in "ab")
    assert first == second
    assert train_lora(data, base, tmp_path / "c", LoraSettings(steps=3, batch=2, seed=1)) != first


def test_the_loss_is_that_of_the_reference_alone(base: Path) -> None:
    items = [{"prompt": "German:", "completion": " s"}, {"prompt": "G", "completion": " sentence"}]
    (first, second), left_out = encoded(items, tokenizer(base), max_tokens=100)
    assert left_out == 0
    assert (len(first.ids), first.first) == (len("German: s") + 1, len("German:"))  # and the end of the text
    ids, mask, labels = padded([first, second], pad=0)
    assert ids.shape == (2, 11)
    assert labels[0].tolist() == [IGNORED] * 8 + first.ids[7:]
    assert mask.sum(1).tolist() == [10, 11]
    assert labels[1, 0] == IGNORED
    assert labels[1, 1:].tolist() == second.ids[1:]


def test_padding_by_hand() -> None:
    ids, mask, labels = padded([TokenizedPrompt([5, 6, 7], 1), TokenizedPrompt([8, 4], 0)], pad=9)
    assert ids.tolist() == [[5, 6, 7], [9, 8, 4]]
    assert mask.tolist() == [[1, 1, 1], [0, 1, 1]]
    assert labels.tolist() == [[IGNORED, 6, 7], [IGNORED, IGNORED, 4]]  # nothing foretells the first token


def test_the_summed_loss_is_that_of_each_example_alone(base: Path) -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(str(base)).eval()
    items = [TokenizedPrompt([5, 6, 7, 8], 2), TokenizedPrompt([8, 4], 1), TokenizedPrompt([3, 9, 5, 2, 2, 7], 5)]
    expected = 0.0
    for ids, first in items:
        logits = model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
        expected -= sum(float(logits[place - 1, ids[place]]) for place in range(first, len(ids)))
    assert float(summed_loss(model, *padded(items, pad=1)).detach()) == pytest.approx(expected, rel=1e-5)


def test_chunks_change_nothing_but_memory(base: Path, data: Path, tmp_path: Path) -> None:
    """Without dropout, whose draws depend on the chunks."""
    settings = LoraSettings(steps=3, batch=4, dropout=0.0)
    whole, cut = (train_lora(data, base, tmp_path / str(chunk), replace(settings, chunk=chunk)) for chunk in (4, 1))
    assert cut == pytest.approx(whole, rel=1e-5)


def test_frozen_weights_in_16_bits_learn_the_same(base: Path, data: Path, tmp_path: Path) -> None:
    losses = train_lora(data, base, tmp_path / "a", replace(QUICK, dropout=0.0))
    rounded = train_lora(data, base, tmp_path / "b", replace(QUICK, dropout=0.0, precision="bf16"))
    assert rounded == pytest.approx(losses, rel=0.03)
    weights = load_file(tmp_path / "b" / "adapter_model.safetensors")
    assert {value.dtype for value in weights.values()} == {torch.float32}


def test_messages_go_through_the_models_own_template(base: Path) -> None:
    vocabulary = tokenizer(base)
    messages = [{"role": "user", "content": "satz"}, {"role": "assistant", "content": " sentence"}]
    with pytest.raises(InputError, match="has no chat template; use the plain file"):
        encoded([{"messages": messages}], vocabulary, 100)
    vocabulary.chat_template = "{% for m in messages %}<{{ m.role }}|{{ m.content }}{% endfor %}"
    ((ids, first),), _ = encoded([{"messages": messages}], vocabulary, 100)
    assert first == len("<user|satz")
    assert len(ids) == len("<user|satz sentence") + 1


def test_what_is_too_long_is_left_out(base: Path) -> None:
    items = [{"prompt": "G" * 50, "completion": " s"}, {"prompt": "G", "completion": " s"}]
    examples, left_out = encoded(items, tokenizer(base), max_tokens=10)
    assert (len(examples), left_out) == (1, 1)
    with pytest.raises(InputError, match="all 2 examples are longer than 2 tokens"):
        encoded(items, tokenizer(base), max_tokens=2)


NO_LESSONS = [
    "",
    "{}\n",
    "nonsense\n",
    '{"prompt": "x"}\n',
    '{"prompt": "x", "completion": null}\n',
    '{"messages": []}\n',
    '{"messages": ["x"]}\n',
    '{"messages": [{"role": "user"}]}\n',
]


@pytest.mark.parametrize("text", NO_LESSONS)
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match="phrasemate mt prepare"):
        read_lessons(path)


def test_a_folder_without_a_model_is_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no causal language model"):
        train_lora(data, tmp_path / "nothing", tmp_path / "out", QUICK)


def test_the_command(base: Path, data: Path, tmp_path: Path) -> None:
    values = ["mt", "tune", str(data), "--base", str(base), "-o", str(tmp_path / "out"), "--steps", "2", "--batch", "2"]
    result = CliRunner().invoke(app, [*values, "--json", "--device", "cpu"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["steps"] == 2
    assert (tmp_path / "out" / "adapter_config.json").is_file()


def test_what_can_be_told_before_the_model_is_looked_for(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is not a folder's is one of Hugging Face, where transformers looks with patience."""

    def looked_for(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("phrasemate.training.lora.train_lora", looked_for)
    lessons, nothing, somewhere = str(data), str(tmp_path / "nothing"), str(tmp_path / "no" / "model")
    Path(nothing).write_text("{}\n")
    for value, base, message in (
        (lessons, somewhere, f"{somewhere}: no such folder"),
        (lessons, "./model", "./model: no such folder"),
        (lessons, "a/b/c", "a/b/c: no such folder"),
        (lessons, lessons, f"{lessons}: no config.json"),
        (lessons, str(tmp_path), f"{tmp_path}: no config.json"),
        (nothing, "a/b", f"{nothing}, line 1: neither messages"),
    ):
        result = CliRunner().invoke(app, ["mt", "tune", value, "--base", base, "-o", str(tmp_path / "out")])
        assert (result.exit_code, message in result.stderr) == (1, True), result.stderr


@pytest.mark.parametrize(
    "change",
    [{"rate": math.nan}, {"precision": "fp8"}, {"chunk": 0}, {"rate": math.inf}, {"norm": math.nan}, {"dropout": 2.0}],
)
def test_senseless_settings_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(InputError, match="expected"):
        LoraSettings(**change)

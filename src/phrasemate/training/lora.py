"""Teach a causal language model the form of a prompt: LoRA on a frozen model (CCPR, appendix C.3: 100 steps).

Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", by the library peft. Each linear layer W becomes
W + (alpha / rank) B A with A (rank, in) and B (out, rank); only A and B are trained. The loss is the mean cross-entropy
of the reference's tokens alone; those of the prompt carry none.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from phrasemate.errors import InputError, ModelError, needs_extra
from phrasemate.text.text_file import numbered_lines
from phrasemate.training.trainer import faults_explained, short_of_memory
from phrasemate.utils.storage import unlock

IGNORED = -100  # label of a token without a loss, as torch's cross-entropy has it
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}

Progress = Callable[[int, int, float], None]


@dataclass(frozen=True, slots=True)
class LoraSettings:
    """Settings of the training; ``rate`` rises over ``warmup`` steps and falls linearly to zero.

    Args:
        chunk: Examples that are computed together; a step's examples are sorted by length and cut into such chunks.
            The gradient does not depend on it, memory and padding do.
        precision: "fp32" or "bf16", which holds the frozen weights in 16 bits. The added matrices have 32 bits.
    """

    steps: int = 100  # paper, appendix C.3
    batch: int = 16
    chunk: int = 4
    rate: float = 2e-4  # usual for LoRA
    warmup: int = 10
    rank: int = 8
    alpha: int = 16
    dropout: float = 0.05
    max_tokens: int = 1_024  # of a prompt with its reference; longer ones are left out
    norm: float = 1.0
    seed: int = 0
    precision: str = "fp32"

    def __post_init__(self) -> None:
        if self.precision not in DTYPES or self.chunk < 1:
            raise InputError(f"{asdict(self)}; expected precision fp32 or bf16, and chunk from 1")
        if min(self.steps, self.batch, self.rank, self.alpha, self.max_tokens) < 1 or not 0 < self.rate < math.inf:
            raise InputError(f"{asdict(self)}; expected steps, batch, rank, alpha, max_tokens and rate above 0")
        if self.warmup < 0 or not 0 <= self.dropout < 1 or not self.norm > 0 or not 0 <= self.seed < 1 << 63:
            raise InputError(
                f"{asdict(self)}; expected warmup from 0, dropout from 0 to below 1, norm above 0, seed from 0 to "
                "below 2**63"
            )


class TokenizedPrompt(NamedTuple):
    """Token ids of a prompt and its reference, and from which of them on there is a loss."""

    ids: list[int]
    first: int


def train_lora(
    data: Path,
    base: str | Path,
    out: Path,
    settings: LoraSettings | None = None,
    device: str = "cpu",
    progress: Progress = lambda step, steps, loss: None,
) -> list[float]:
    """Train on a file of `phrasemate mt prepare` and save the adapter in ``out``; the loss of each step.

    ``base``: a Hugging Face folder (or name) of a causal model. Writes ``metrics.jsonl`` and
    ``lora.json``, the settings, beside the adapter. Raises InputError, ModelError, MissingExtra.
    """
    settings = settings or LoraSettings()
    with needs_extra("train", "peft"):
        from peft import LoraConfig, get_peft_model
    lessons = read_lessons(data)
    torch.manual_seed(settings.seed)
    config = LoraConfig(
        task_type="CAUSAL_LM",
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules="all-linear",
    )
    with faults_explained(
        (f"{out}: cannot be written", "check free space and permissions"),
        (f"{base}: the training stopped", "give smaller batches, a lower max_tokens or a smaller model"),
    ):
        tokenizer, model = _loaded(base, DTYPES[settings.precision])
        items, left_out = encoded(lessons, tokenizer, settings.max_tokens)
        adapter = get_peft_model(model, config).to(device).train()
        losses = _trained(adapter, items, settings, out, tokenizer.pad_token_id or 0, device, progress)
        adapter.save_pretrained(str(out))  # as safetensors
        for weights in out.glob("*.safetensors"):
            unlock(weights)
        facts = asdict(settings) | {"base": str(base), "examples": len(items), "left out": left_out}
        (out / "lora.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return losses


def _trained(
    adapted: Any,
    items: Sequence[TokenizedPrompt],
    settings: LoraSettings,
    out: Path,
    pad: int,
    device: str,
    progress: Progress,
) -> list[float]:
    """The loss of each step."""
    weights = [parameter for parameter in adapted.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(weights, lr=settings.rate)
    out.mkdir(parents=True, exist_ok=True)
    losses = []
    with (out / "metrics.jsonl").open("w", encoding="utf-8") as log:
        for step, batch in enumerate(_batches(items, settings), 1):
            for group in optimiser.param_groups:
                group["lr"] = settings.rate * _share(step, settings)
            optimiser.zero_grad(set_to_none=True)
            losses.append(_backward(adapted, batch, settings.chunk, pad, device))
            torch.nn.utils.clip_grad_norm_(weights, settings.norm)
            optimiser.step()
            if not math.isfinite(losses[-1]):
                raise ModelError(f"{out}: the loss of step {step} is {losses[-1]}; try a lower rate")
            print(json.dumps({"step": step, "loss": losses[-1]}), file=log, flush=True)
            progress(step, settings.steps, losses[-1])
    return losses


def _backward(adapted: Any, batch: Sequence[TokenizedPrompt], chunk: int, pad: int, device: str) -> float:
    """Add the gradients of a batch, chunk by chunk; its loss, the mean over all tokens of the references."""
    items = sorted(batch, key=lambda item: len(item.ids))
    count = sum(_with_loss(item) for item in items)
    loss = 0.0
    for low in range(0, len(items), chunk):
        ids, mask, labels = (item.to(device) for item in padded(items[low : low + chunk], pad))
        part = summed_loss(adapted, ids, mask, labels) / max(1, count)
        part.backward()  # type: ignore[no-untyped-call]
        loss += float(part.detach())
    return loss


def summed_loss(model: Any, ids: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
    """Sum of the cross-entropies of the labels, as `padded` gives them.

    The output layer is by far the widest of a small model, so it is computed only where some example has a loss.
    """
    size = ids.shape[1]
    first = int((labels != IGNORED).any(0).nonzero().min())
    keep = size - first + 1  # with the token before the first
    options = {"position_ids": (mask.cumsum(1) - 1).clamp(min=0), "logits_to_keep": keep}
    parameters = signature(getattr(model, "get_base_model", lambda: model)().forward).parameters
    options = {name: value for name, value in options.items() if name in parameters}
    logits = model(input_ids=ids, attention_mask=mask, **options).logits[:, -keep:-1]
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1).float(), labels[:, first:].flatten(), ignore_index=IGNORED, reduction="sum"
    )


def _with_loss(item: TokenizedPrompt) -> int:
    """Number of tokens of an example that have a loss; the first token of a text never has."""
    return len(item.ids) - max(1, item.first)


def read_lessons(path: Path) -> list[dict[str, Any]]:
    """The objects of a file, each with messages or with prompt and completion. Raises InputError."""
    lessons = []
    for number, line in numbered_lines(path):
        try:
            item = json.loads(line)
        except (ValueError, RecursionError):
            item = None
        if not _is_lesson(item):
            raise InputError(
                f"{path}, line {number}: no messages, nor prompt and completion; use phrasemate mt prepare"
            )
        lessons.append(item)
    if not lessons:
        raise InputError(f"{path}: is empty; expected what phrasemate mt prepare writes")
    return lessons


def _is_lesson(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    messages = item.get("messages")
    if messages is None:
        return isinstance(item.get("prompt"), str) and isinstance(item.get("completion"), str)
    if not isinstance(messages, list) or not messages:
        return False
    return all(isinstance(message, dict) and isinstance(message.get("content"), str) for message in messages)


def encoded(items: Sequence[dict[str, Any]], tokenizer: Any, max_tokens: int) -> tuple[list[TokenizedPrompt], int]:
    """Items as tokens, the reference closed by the end-of-text token; and how many were too long and left out.

    Raises InputError where messages meet a tokenizer without a chat template, or nothing is short enough.
    """
    lessons = []
    for item in items:
        prompt, reference = _parts(item, tokenizer)
        before = tokenizer(prompt, add_special_tokens=item.get("messages") is None)["input_ids"]
        after = tokenizer(reference, add_special_tokens=False)["input_ids"]
        end = [tokenizer.eos_token_id] if tokenizer.eos_token_id is not None else []
        lessons.append(TokenizedPrompt([*before, *after, *end], len(before)))
    short = [element for element in lessons if len(element.ids) <= max_tokens and _with_loss(element) > 0]
    if not short:
        raise InputError(f"all {len(lessons)} examples are longer than {max_tokens} tokens; raise max_tokens")
    return short, len(lessons) - len(short)


def _parts(item: dict[str, Any], tokenizer: Any) -> tuple[str, str]:
    """Prompt and reference; of messages, the prompt is what the model's own template makes of all but the last."""
    if item.get("messages") is None:
        return item["prompt"], item["completion"]
    if not getattr(tokenizer, "chat_template", None):
        raise InputError("the model's tokenizer has no chat template; use the plain file instead of the chat one")
    *before, last = item["messages"]
    prompt = tokenizer.apply_chat_template(before, tokenize=False, add_generation_prompt=True)
    return prompt, last["content"]


def padded(batch: Sequence[TokenizedPrompt], pad: int) -> tuple[Tensor, Tensor, Tensor]:
    """(ids, mask, labels), (items, longest) int64 each; labels are the ids where there is a loss.

    Padded on the left, so that the references of all examples end together.
    """
    longest = max(len(item.ids) for item in batch)
    ids = torch.full((len(batch), longest), pad)  # (items, longest)
    mask = torch.zeros_like(ids)
    labels = torch.full_like(ids, IGNORED)
    for row, (sequence, first) in enumerate(batch):
        before = longest - len(sequence)
        ids[row, before:] = torch.tensor(sequence)
        mask[row, before:] = 1
        labels[row, before + max(1, first) :] = ids[row, before + max(1, first) :]
    return ids, mask, labels


def _batches(items: Sequence[TokenizedPrompt], settings: LoraSettings) -> Iterator[list[TokenizedPrompt]]:
    """Yield as many batches as there are steps; all items are seen before one is again."""
    draw, waiting = random.Random(settings.seed), list[TokenizedPrompt]()
    for _ in range(settings.steps):
        while len(waiting) < settings.batch:
            waiting += draw.sample(list(items), len(items))
        yield waiting[: settings.batch]
        del waiting[: settings.batch]


def _share(step: int, settings: LoraSettings) -> float:
    """Share of the learning rate at a step, from 1."""
    if step <= settings.warmup:
        return step / settings.warmup
    return (settings.steps - step + 1) / max(1, settings.steps - settings.warmup)


def _loaded(base: str | Path, dtype: torch.dtype = torch.float32) -> tuple[Any, Any]:
    """Tokenizer and model; ModelError where there is none, or weights lack, which would be drawn at random."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    options: dict[str, Any] = {"dtype": dtype, "output_loading_info": True, "use_safetensors": True}
    options["trust_remote_code"] = False  # transformers would ask on the terminal whether to run what the folder brings
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(base), trust_remote_code=False)
        loaded_model: Any = AutoModelForCausalLM.from_pretrained(str(base), **options)
    except Exception as error:  # tokenizers raises bare Exceptions
        if short_of_memory(error):
            raise
        reason = " ".join(str(error).split())[:300]
        raise ModelError(f"{base}: no causal language model that transformers reads ({reason})") from None
    model, info = loaded_model
    lacking = sorted(info["missing_keys"])
    if lacking:
        raise ModelError(
            f"{base}: {len(lacking)} weights of a causal language model are not there, such as {lacking[0]}; download "
            "it again, or give another model"
        )
    return tokenizer, model

"""Fine-tune a causal language model with LoRA, to teach it the form of a prompt (CCPR, appendix C.3: 100 steps).

The method is that of Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", by the library peft. Each
linear layer W becomes W + (alpha / rank) B A with A (rank, in) and B (out, rank). Only A and B are trained. The loss is
the mean cross-entropy of the tokens of the reference, without those of the prompt.
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
from phrasemate.types import check_fields, to_settings
from phrasemate.utils.storage import unlock

IGNORED = -100  # label of a token without a loss, the default of torch's cross-entropy
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}

Progress = Callable[[int, int, float], None]


@dataclass(frozen=True, slots=True)
class LoraSettings:
    """Settings of the training with LoRA.

    Args:
        steps: Number of steps; CCPR, appendix C.3, has 100.
        batch: Examples per step.
        chunk: Examples that are computed together: those of a step, sorted by length. It affects memory and padding,
            but not the gradient.
        rate: Learning rate; it rises over the warm-up, then falls linearly to zero.
        warmup: Steps of the warm-up.
        rank: Rank of the added matrices.
        alpha: Numerator of alpha / rank, the scale of the added matrices.
        dropout: Dropout rate before the added matrices.
        max_tokens: Maximum length of a prompt with its reference; longer examples are left out.
        norm: Maximum norm of the gradients, which are clipped to it.
        seed: Seed of the initial weights, of dropout and of the order of the examples.
        precision: Precision of the frozen weights, "fp32" or "bf16". The added matrices have 32 bits.
    """

    steps: int = 100
    batch: int = 16
    chunk: int = 4
    rate: float = 2e-4
    warmup: int = 10
    rank: int = 8
    alpha: int = 16
    dropout: float = 0.05
    max_tokens: int = 1_024
    norm: float = 1.0
    seed: int = 0
    precision: str = "fp32"

    def __post_init__(self) -> None:
        check_fields(self)
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
    """Token ids of a prompt and its reference; ``first`` is the position of the first token of the reference."""

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
    """Train an adapter, save it, and return the loss of each step.

    The folder also gets ``metrics.jsonl`` (the losses) and ``lora.json`` (the settings).

    Args:
        data: File of examples from `phrasemate mt prepare`.
        base: Hugging Face folder, or name, of a causal language model.
        out: Folder to write.
        settings: Settings of the training; None for the defaults.
        device: Device of torch, such as "cuda".
        progress: Called with the step, the number of steps and the loss.

    Raises InputError for unusable data, ModelError for an unusable model or a loss that is not finite, and MissingExtra
    without the extra "train".
    """
    settings = to_settings(settings, LoraSettings)
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
    """Run the training loop, write the loss of each step to ``metrics.jsonl``, and return the losses."""
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
    """Backpropagate the loss of a batch, chunk by chunk, and return it: the mean over all tokens of the references."""
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
    """Return the sum of the cross-entropies of the labels; the arguments are the tensors of `padded`.

    The output layer is by far the widest of a small model, so it is only computed from the first label on.
    """
    size = ids.shape[1]
    first = int((labels != IGNORED).any(0).nonzero().min())
    keep = size - first + 1  # the token before the first label predicts it
    options = {"position_ids": (mask.cumsum(1) - 1).clamp(min=0), "logits_to_keep": keep}
    parameters = signature(getattr(model, "get_base_model", lambda: model)().forward).parameters
    options = {name: value for name, value in options.items() if name in parameters}
    logits = model(input_ids=ids, attention_mask=mask, **options).logits[:, -keep:-1]
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1).float(), labels[:, first:].flatten(), ignore_index=IGNORED, reduction="sum"
    )


def _with_loss(item: TokenizedPrompt) -> int:
    """Count the tokens of an example that have a loss; the first token of a text never has one."""
    return len(item.ids) - max(1, item.first)


def read_lessons(path: Path) -> list[dict[str, Any]]:
    """Read the examples of a JSONL file, each with messages, or with prompt and completion.

    Raises InputError for a line of another form, and for an empty file.
    """
    lessons = []
    for number, line in numbered_lines(path):
        try:
            item = json.loads(line)
        except (ValueError, RecursionError):
            item = None
        if not _is_lesson(item):
            raise InputError(
                f"{path}, line {number}: neither messages, nor prompt and completion; use phrasemate mt prepare"
            )
        lessons.append(item)
    if not lessons:
        raise InputError(f"{path}: is empty; expected what phrasemate mt prepare writes")
    return lessons


def _is_lesson(item: Any) -> bool:
    """Return whether a value has the form of an example."""
    if not isinstance(item, dict):
        return False
    messages = item.get("messages")
    if messages is None:
        return isinstance(item.get("prompt"), str) and isinstance(item.get("completion"), str)
    if not isinstance(messages, list) or not messages:
        return False
    return all(isinstance(message, dict) and isinstance(message.get("content"), str) for message in messages)


def encoded(items: Sequence[dict[str, Any]], tokenizer: Any, max_tokens: int) -> tuple[list[TokenizedPrompt], int]:
    """Tokenize examples; return those that are short enough, and the number of the others, which are left out.

    The end-of-text token follows the reference. Raises InputError for messages if the tokenizer has no chat template,
    and if no example is short enough.
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
    """Return prompt and reference; all messages but the last make the prompt, by the model's chat template."""
    if item.get("messages") is None:
        return item["prompt"], item["completion"]
    if not getattr(tokenizer, "chat_template", None):
        raise InputError("the model's tokenizer has no chat template; use the plain file instead of the chat one")
    *before, last = item["messages"]
    prompt = tokenizer.apply_chat_template(before, tokenize=False, add_generation_prompt=True)
    return prompt, last["content"]


def padded(batch: Sequence[TokenizedPrompt], pad: int) -> tuple[Tensor, Tensor, Tensor]:
    """Pad examples on the left, so that all references end at the same position.

    Returns ids, mask and labels, (items, longest) int64 each. Labels are the ids of the reference, and `IGNORED` for
    all other tokens.
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
    """Yield a batch for each step, in random order; no item comes again before all items have come."""
    draw, waiting = random.Random(settings.seed), list[TokenizedPrompt]()
    for _ in range(settings.steps):
        while len(waiting) < settings.batch:
            waiting += draw.sample(list(items), len(items))
        yield waiting[: settings.batch]
        del waiting[: settings.batch]


def _share(step: int, settings: LoraSettings) -> float:
    """Return the factor of the learning rate at a step; steps are counted from 1."""
    if step <= settings.warmup:
        return step / settings.warmup
    return (settings.steps - step + 1) / max(1, settings.steps - settings.warmup)


def _loaded(base: str | Path, dtype: torch.dtype = torch.float32) -> tuple[Any, Any]:
    """Load tokenizer and model. Raises ModelError if they cannot be read, or if weights are missing.

    transformers would initialise missing weights at random.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    options: dict[str, Any] = {"dtype": dtype, "output_loading_info": True, "use_safetensors": True}
    options["trust_remote_code"] = (
        False  # otherwise transformers asks on the terminal whether to run code of the folder
    )
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(base), trust_remote_code=False)
        loaded_model: Any = AutoModelForCausalLM.from_pretrained(str(base), **options)
    except Exception as error:  # the library tokenizers raises plain Exceptions
        if short_of_memory(error):
            raise
        reason = " ".join(str(error).split())[:300]
        raise ModelError(f"{base}: no causal language model that transformers reads ({reason})") from None
    model, info = loaded_model
    lacking = sorted(info["missing_keys"])
    if lacking:
        raise ModelError(
            f"{base}: {len(lacking)} weights of a causal language model are missing, such as {lacking[0]}; download it "
            "again, or give another model"
        )
    return tokenizer, model

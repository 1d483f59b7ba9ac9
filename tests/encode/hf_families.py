"""Tiny random encoders of the families that transformers loads, each with a tokenizer trained on our own sentences."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,  # OpenVINO 2026.4 dies of 128 with AMX (qwen3, gemma3)
    "max_position_embeddings": 66,
    "initializer_range": 0.1,
}
TEXTS = (
    "The old bank on the river was closed for a year.",
    "Das alte Haus am Fluss ist rot, und der Garten ist groß.",
    "Она читает книгу у окна. La maison est près de la rivière.",
    "東京の天気は晴れです。 这家银行今天不开门。",
    "Emoji 🙂🇫🇷👩‍👩‍👧 between words, and 한국어 문장도 있습니다.",
)


def wordpiece(padding: int = 0) -> Any:
    """BERT's kind, trained; the number of the padding is 0, or 1 as that of MPNet has to be."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    special.insert(padding, "[PAD]")
    tokenizer.train_from_iterator(
        TEXTS, trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    )
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def _mpnet() -> Any:
    return wordpiece(padding=1)


def unigram() -> Any:
    """XLM-R's kind, trained: the padding has the number 1."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=250, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


def byte_bpe(opening: str = "<s>", closing: str = "</s>") -> Any:
    """RoBERTa's, ModernBERT's and Qwen's kind: bytes, so that a character may be several tokens."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    template = f"{opening} $A {closing}".strip()
    numbers = [(token, special.index(token)) for token in (opening, closing) if token]
    tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=numbers)
    return tokenizer


def fallback_bpe() -> Any:
    """Gemma's kind: characters, and bytes for those that are not in the vocabulary."""
    from tokenizers import Tokenizer, decoders, models, normalizers, processors

    special = ["<s>", "<pad>", "</s>", "<unk>"]
    letters = sorted(set("".join(TEXTS[:2]).replace(" ", "▁")))
    vocabulary = [*special, *(f"<0x{byte:02X}>" for byte in range(256)), *letters, "▁t", "▁th", "▁the"]
    numbers = {piece: number for number, piece in enumerate(dict.fromkeys(vocabulary))}
    merges = [("▁", "t"), ("▁t", "h"), ("▁th", "e")]
    tokenizer = Tokenizer(models.BPE(numbers, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.ByteFallback()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


def _last() -> Any:
    return byte_bpe(opening="")


def _configs() -> dict[str, tuple[Callable[[], Any], Any, dict[str, Any]]]:
    import transformers as t

    decoder = {"num_key_value_heads": 2, "head_dim": 16, "pad_token_id": 1}
    gemma = {"max_position_embeddings": 128}  # its bytes make up to 91 tokens of a text, and a longer one is cut
    gemma |= {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"], "query_pre_attn_scalar": 16}
    modern = {"local_attention": 8, "global_attn_every_n_layers": 2, "cls_token_id": 0, "sep_token_id": 2}
    modern |= {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1}
    distil = {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128}
    deberta = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "pad_token_id": 0}
    second = {
        "position_buckets": 8,
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "position_biased_input": False,
    }
    return {
        "bert": (wordpiece, t.BertConfig, {}),
        "roberta": (byte_bpe, t.RobertaConfig, {"pad_token_id": 1}),
        "xlm-roberta": (unigram, t.XLMRobertaConfig, {"pad_token_id": 1}),  # BGE-M3, multilingual E5, too
        "camembert": (unigram, t.CamembertConfig, {"pad_token_id": 1}),
        "distilbert": (wordpiece, t.DistilBertConfig, distil),
        "mpnet": (_mpnet, t.MPNetConfig, {"pad_token_id": 1}),
        "electra": (wordpiece, t.ElectraConfig, {"embedding_size": 32}),
        "albert": (unigram, t.AlbertConfig, {"embedding_size": 32, "pad_token_id": 1}),
        "deberta": (byte_bpe, t.DebertaConfig, deberta),
        "deberta-v2": (unigram, t.DebertaV2Config, {**deberta, **second}),
        "modernbert": (byte_bpe, t.ModernBertConfig, modern),  # mmBERT, too
        "gemma3_text": (fallback_bpe, t.Gemma3TextConfig, {**decoder, **gemma, "use_bidirectional_attention": True}),
        "eurobert": (byte_bpe, t.EuroBertConfig, {**decoder, "bos_token_id": 0, "eos_token_id": 2, "mask_token_id": 3}),
        "gte": (unigram, t.GteConfig, {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}),  # gte-multilingual
        "qwen3": (_last, t.Qwen3Config, decoder),
    }


FAMILIES = (
    *("bert", "roberta", "xlm-roberta", "camembert", "distilbert", "mpnet", "electra", "albert", "deberta"),
    *("deberta-v2", "modernbert", "gemma3_text", "eurobert", "gte", "qwen3"),
)


def save_family(name: str, folder: Path) -> Path:
    """A folder as transformers saves it."""
    import torch
    from transformers import AutoModel

    trained, config, extra = _configs()[name]
    tokenizer = trained()
    shared = {key: value for key, value in SIZES.items() if name != "distilbert" or key not in _RENAMED}
    torch.manual_seed(1)
    AutoModel.from_config(config(vocab_size=tokenizer.get_vocab_size(), **{**shared, **extra})).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


_RENAMED = {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"}


@lru_cache
def torch_states(folder: Path, texts: tuple[str, ...]) -> list[list[Any]]:
    """(tokens, width) states of each text alone, as transformers gives them in float32: those of layer 1, the last."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return states_of(folder, [tokenizer.encode(text).ids for text in texts])


def states_of(folder: Path, texts: list[list[int]]) -> list[list[Any]]:
    """The same of texts as numbers of tokens."""
    import torch
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    states: list[list[Any]] = [[], []]
    with torch.no_grad():
        for ids in texts:
            output = model(torch.tensor([ids]), output_hidden_states=True)
            for layer, values in enumerate((output.hidden_states[1], output.last_hidden_state)):
                states[layer].append(values[0].numpy())
    return states


def search_by_command(encoder: Path, folder: Path, texts: Iterable[str], query: str) -> dict[str, Any]:
    """Export, index and search as a user does; the first answer to a query with one phrase."""
    from typer.testing import CliRunner

    from phrasemate.cli import app

    def run(*arguments: object) -> str:
        result = CliRunner().invoke(app, [*map(str, arguments)])
        assert result.exit_code == 0, result.output
        return result.stdout

    model, index, text = folder / "model", folder / "idx", folder / "text.txt"
    text.write_text("\n".join(texts) + "\n", "utf-8")
    run("model", "export", encoder, "-o", model)
    run("index", text, "-o", index, "--lang", "en", "--model", model, "--threads", 1)
    (phrase,) = json.loads(run("search", index, query, "--json"))["results"]
    answer: dict[str, Any] = phrase["groups"][0]
    return answer

"""Measure tokens per second and faithfulness of the runtime against transformers with torch float32.

Both encode the same sentences in the same run, in turns, torch in batches of 32 sentences. "of a length" are sentences
of some 43 tokens, sorted by length for torch. "of all lengths" are those of a corpus in random order. Torch has them
sorted, or in this order and padded to the longest of a batch. The time of the runtime includes tokenisation; torch gets
tokens. The figure of each engine is the best of its rounds. Cosines are between token states. The script needs the
extra [dev] and the Hugging Face folder of the same model (phrasemate model unpack -o .cache/bundled).

    python bench/encode.py --hf .cache/bundled --threads-list 1 2
"""

from __future__ import annotations

import argparse
import itertools
import random
from pathlib import Path

import numpy as np
import torch
from common import cosines, interleaved, parallel, parser, report
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModel

from phrasemate import Model, load_model
from phrasemate.evaluate.report import signature


def sentences(data: Path, count: int, seed: int, shortest: int = 120, longest: int = 260) -> list[str]:
    """Return random English sentences of so many characters (by default some 43 tokens each)."""
    texts = {pair.english for pair in parallel(data, "de") if shortest <= len(pair.english) <= longest}
    return random.Random(seed).sample(sorted(texts), count)


SAME = 0.98  # least mean cosine of the token states of one model in both engines; rounding alone leaves 0.995


class Peer:
    """Engine to compare with: transformers with torch float32, in batches."""

    def __init__(self, folder: Path, model: Model, texts: list[str]) -> None:
        self.encoder = AutoModel.from_pretrained(folder, add_pooling_layer=False).eval()
        encodings = model.runtime.tokenizer.encode_batch(texts)
        self.ids = [encoding.ids for encoding in encodings]
        self.tokens = sum(len(ids) for ids in self.ids)

    def states(self, by_length: bool = True) -> list[np.ndarray]:
        """Return the token states of each text, including special tokens."""
        order = list(range(len(self.ids)))
        if by_length:
            order.sort(key=lambda i: len(self.ids[i]))
        states_of: list[np.ndarray] = [np.empty(0)] * len(order)
        for at in range(0, len(order), 32):
            batch = order[at : at + 32]
            rows = [torch.tensor(self.ids[i]) for i in batch]
            ids = pad_sequence(rows, batch_first=True)  # (batch, tokens)
            mask = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
            with torch.inference_mode():
                states = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state.numpy()
            for row, i in enumerate(batch):
                states_of[i] = states[row, : len(self.ids[i])]
        return states_of


def main() -> None:
    """Measure and print the table."""
    options = parser(__doc__)
    options.add_argument("--hf", type=Path, help="Hugging Face folder of the same model")
    options.add_argument("--threads-list", type=int, nargs="+", default=[1, 2])
    options.add_argument("--sentences", type=int, default=256)
    options.add_argument("--rounds", type=int, default=5)
    args = options.parse_args()
    if not args.hf:
        options.error("--hf is missing; name the Hugging Face folder of the same model")
    if args.threads:
        options.error("--threads is not used here; give --threads-list")
    kinds = {
        "of a length": sentences(args.data, args.sentences, args.seed),
        "of all lengths": sentences(args.data, args.sentences, args.seed, 1, 1_000),
    }
    rows: list[list[object]] = []
    for threads, (kind, texts) in itertools.product(args.threads_list, kinds.items()):
        rows += compared(args, threads, kind, texts)
    header = ["threads", "sentences", "tokens", "torch", "torch tok/s", "phrasemate tok/s", "ratio", "median ratio"]
    header += ["cosine mean", "cosine min"]
    facts = signature(load_model(args.model, 1), sentences=args.sentences, seed=args.seed)
    report("encode", header, rows, facts)


def compared(args: argparse.Namespace, threads: int, kind: str, texts: list[str]) -> list[list[object]]:
    """Return a row for each order in which torch gets the texts."""
    torch.set_num_threads(threads)
    model = load_model(args.model, threads)
    peer = Peer(args.hf, model, texts)
    states = np.concatenate([block.values for block in model.token_states(texts)])
    like = cosines(states, np.concatenate(peer.states()))  # (tokens,)
    if like.mean() < SAME:
        raise SystemExit(f"{args.hf}: token states have a mean cosine of {like.mean():.3f}; it is another model")
    rows: list[list[object]] = []
    for order in ("sorted", "as they come") if kind == "of all lengths" else ("sorted",):
        calls = {"ours": lambda: list(model.token_states(texts)), "theirs": lambda o=order: peer.states(o == "sorted")}
        ours, theirs = interleaved(calls, args.rounds).values()
        rate, base = peer.tokens / min(ours), peer.tokens / min(theirs)
        ratios = sorted(b / a for a, b in zip(ours, theirs, strict=True))
        speeds = [base, rate, rate / base, ratios[len(ratios) // 2]]
        rows.append([threads, kind, peer.tokens, order, *speeds, float(like.mean()), float(like.min())])
    return rows


if __name__ == "__main__":
    main()

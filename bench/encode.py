"""Tokens a second and faithfulness of the runtime against transformers with torch float32.

Both encode the same sentences in the same run, in turns, batches sorted by length (torch: 32 sentences). The figure of
each engine is the best of its rounds; cosines are between token states. Needs the extra [dev] and the Hugging Face
folder that the model was exported from (python bench/base_model.py makes it).

    python bench/encode.py --hf .cache/e5-small --threads-list 1 2
"""

from __future__ import annotations

import gzip
import random
import time
from pathlib import Path

import numpy as np
import torch
from common import parser, report, signature
from transformers import AutoModel

from phrasemate import Model, load_model


def sentences(data: Path, count: int, seed: int) -> list[str]:
    """English sentences of 120 to 260 characters: some 43 tokens each."""
    with gzip.open(data / "parallel" / "en-de.tsv.gz", "rt", encoding="utf-8") as file:
        found = [line.split("\t")[0] for line in file]
    found = sorted({text for text in found if 120 <= len(text) <= 260})
    return random.Random(seed).sample(found, count)


class Peer:
    """transformers with torch float32, as a careful user would run it."""

    def __init__(self, folder: Path, model: Model, texts: list[str]) -> None:
        self.encoder = AutoModel.from_pretrained(folder, add_pooling_layer=False).eval()
        encodings = model.runtime.tokenizer.encode_batch(texts)
        self.ids = [encoding.ids for encoding in encodings]
        self.tokens = sum(len(ids) for ids in self.ids)

    def states(self) -> list[np.ndarray]:
        """Token states of each text, special tokens included."""
        order = sorted(range(len(self.ids)), key=lambda i: len(self.ids[i]))
        found: list[np.ndarray] = [np.empty(0)] * len(order)
        for at in range(0, len(order), 32):
            batch = order[at : at + 32]
            ids = torch.zeros(len(batch), len(self.ids[batch[-1]]), dtype=torch.long)  # (batch, tokens)
            mask = torch.zeros_like(ids)
            for row, i in enumerate(batch):
                ids[row, : len(self.ids[i])] = torch.tensor(self.ids[i])
                mask[row, : len(self.ids[i])] = 1
            with torch.inference_mode():
                states = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state.numpy()
            for row, i in enumerate(batch):
                found[i] = states[row, : len(self.ids[i])]
        return found


def cosines(model: Model, peer: Peer, texts: list[str]) -> np.ndarray:
    """(tokens,) cosine of each token's state to torch's."""
    ours = np.concatenate([block.values for block in model.token_states(texts)])
    theirs = np.concatenate(peer.states())
    return (ours * theirs).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--hf", type=Path, required=True, help="Hugging Face folder of the same model")
    options.add_argument("--threads-list", type=int, nargs="+", default=[1, 2])
    options.add_argument("--sentences", type=int, default=256)
    options.add_argument("--rounds", type=int, default=5)
    args = options.parse_args()
    texts = sentences(args.data, args.sentences, args.seed)
    rows = []
    for threads in args.threads_list:
        torch.set_num_threads(threads)
        model = load_model(args.model, threads)
        peer = Peer(args.hf, model, texts)
        like = cosines(model, peer, texts)
        ours, theirs = [], []
        for _ in range(args.rounds):
            ours.append(_seconds(lambda m=model: list(m.token_states(texts))))
            theirs.append(_seconds(peer.states))
        rate, base = peer.tokens / min(ours), peer.tokens / min(theirs)
        ratios = sorted(b / a for a, b in zip(ours, theirs, strict=True))
        rows.append([threads, base, rate, rate / base, ratios[len(ratios) // 2], float(like.mean()), float(like.min())])
    header = ["threads", "torch tok/s", "phrasemate tok/s", "ratio", "median ratio", "cosine mean", "cosine min"]
    report("encode", header, rows, signature(model, sentences=len(texts), tokens=peer.tokens, seed=args.seed))


def _seconds(call) -> float:  # type: ignore[no-untyped-def]
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()

"""A server of a causal language model of Hugging Face and of adapters of it, for `phrasemate mt --api completions`.

    python bench/causal_server.py my-model plain=adapters/plain phrases=adapters/phrases --port 8080

The name of an adapter is the name of a model (``--llm-model``); another name is the model without any. Requests that
wait together are answered together. Answers are those of greedy decoding in 16 bits, up to the first line break.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from concurrent.futures import Future
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import torch
from common import plain_parser

WAIT = 0.5  # seconds in which further requests are collected


class Request(NamedTuple):
    """What is asked: the adapter's name, the prompt, the greatest number of tokens; and where its answer goes."""

    adapter: str
    prompt: str
    tokens: int
    answer: Future[dict[str, Any]]


class Completer:
    """Continues prompts, those of one adapter together."""

    def __init__(self, folder: str, adapters: dict[str, str]) -> None:
        from peft import PeftModel
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
        for name, path in adapters.items():
            if isinstance(self.model, PeftModel):
                self.model.load_adapter(path, adapter_name=name)
            else:
                self.model = PeftModel.from_pretrained(self.model, path, adapter_name=name).eval()
        self.adapters = set(adapters)
        size = len(self.tokenizer)
        pieces = self.tokenizer.batch_decode([[number] for number in range(size)])
        ends = [number for number, piece in enumerate(pieces) if "\n" in piece]
        self._ends = torch.tensor([*ends, self.tokenizer.eos_token_id])  # nothing after the first line counts

    @torch.inference_mode()
    def __call__(self, adapter: str, prompts: list[str], tokens: int) -> list[dict[str, Any]]:
        """Text, reason of the end and numbers of tokens for each prompt, as the OpenAI interface has them."""
        rows = self.tokenizer(prompts)["input_ids"]
        if adapter in self.adapters:
            self.model.set_adapter(adapter)
        with nullcontext() if adapter in self.adapters or not self.adapters else self.model.disable_adapter():
            output = self._generated(rows, tokens)
        answers = []
        for row, prompt in zip(output.tolist(), rows, strict=True):
            end = next((place for place, token in enumerate(row) if token in self._ends), len(row))
            text = self.tokenizer.decode(row[: end + 1], skip_special_tokens=True)
            line = text[: len(text) - len(text.lstrip())] + text.lstrip().partition("\n")[0]
            choice = {"text": line, "finish_reason": "stop" if end < len(row) else "length"}
            usage = {"prompt_tokens": len(prompt), "completion_tokens": end}
            answers.append({"choices": [choice], "usage": usage})
        return answers

    def _generated(self, rows: list[list[int]], tokens: int) -> torch.Tensor:
        """(prompts, tokens) what follows each prompt; what all prompts begin with is computed once."""
        shared = 0
        while all(len(row) > shared + 1 and row[shared] == rows[0][shared] for row in rows):
            shared += 1
        longest = max(map(len, rows))
        gaps = [longest - len(row) for row in rows]
        pad = self.tokenizer.pad_token_id or 0
        ids = torch.tensor([row[:shared] + [pad] * gap + row[shared:] for row, gap in zip(rows, gaps, strict=True)])
        mask = torch.ones_like(ids)
        for number, gap in enumerate(gaps):
            mask[number, shared : shared + gap] = 0
        cache = self.model(ids[:1, :shared], use_cache=True).past_key_values
        cache.batch_repeat_interleave(len(rows))
        output: torch.Tensor = self.model.generate(
            ids,
            attention_mask=mask,
            past_key_values=cache,
            max_new_tokens=tokens,
            do_sample=False,
            eos_token_id=self._ends.tolist(),
            pad_token_id=pad,
        )
        return output[:, longest:]


def work(completer: Completer, requests: queue.Queue[Request], most: int) -> None:
    """Answer what waits, for ever."""
    waiting: list[Request] = []
    while True:
        if not waiting:
            waiting.append(requests.get())
            time.sleep(WAIT)
        while not requests.empty():
            waiting.append(requests.get())
        adapter = waiting[0].adapter
        batch = [request for request in waiting if request.adapter == adapter][:most]
        waiting = [request for request in waiting if request not in batch]
        try:
            answers = completer(adapter, [item.prompt for item in batch], max(item.tokens for item in batch))
        except RuntimeError as error:  # short of memory, above all
            for item in batch:
                item.answer.set_exception(error)
            continue
        for item, answer in zip(batch, answers, strict=True):
            item.answer.set_result(answer)


def main() -> None:
    """Serve until stopped."""
    options = plain_parser(__doc__)
    options.add_argument("base", help="folder of the model")
    options.add_argument("adapters", nargs="*", metavar="NAME=FOLDER")
    options.add_argument("--port", type=int, default=8080)
    options.add_argument("--batch", type=int, default=32, help="requests that are answered together at most")
    options.add_argument("--threads", type=int)
    args = options.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    requests: queue.Queue[Request] = queue.Queue()
    completer = Completer(args.base, dict(item.split("=", 1) for item in args.adapters))

    class Handler(BaseHTTPRequestHandler):
        """Takes ``/v1/completions``."""

        def do_POST(self) -> None:
            """Put a prompt into the queue and send what comes."""
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = Request(body.get("model", ""), body["prompt"], body.get("max_tokens", 128), Future())
            requests.put(request)
            content = json.dumps(request.answer.result()).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", args.port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"listening on port {args.port}", flush=True)
    work(completer, requests, args.batch)


if __name__ == "__main__":
    main()

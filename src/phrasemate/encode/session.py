"""The written graph in ONNX Runtime, for graphics cards of NVIDIA, which OpenVINO does not know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError, MissingExtra, ModelDamaged, ModelUnsupported

PROVIDERS = {"CUDA": "CUDAExecutionProvider"}
BATCH_TOKENS = 16_384  # a card is busy with no less
PASS_TOKENS = 1_024  # padding of a batch that costs a card less than another pass
_ERRORS_ALONE = 3  # of what ONNX Runtime logs


def is_session_device(device: str) -> bool:
    """Whether ONNX Runtime computes on a device of this name, such as "CUDA" or "CUDA.1"."""
    return device.split(".")[0] in PROVIDERS


class SessionQueue:
    """Batches, one after the other, in an ONNX Runtime session; called as OpenVINO's queue is."""

    def __init__(self, session: Any, path: Path) -> None:
        self._session, self._path = session, path

    def submit(
        self, inputs: dict[str, NDArray[np.float32]], output: str, keep: Callable[[NDArray[np.float32]], None]
    ) -> None:
        """Compute a batch, and hand its output on."""
        try:
            (states,) = self._session.run([output], inputs)
        except Exception as error:  # of its own kinds, none of which is a RuntimeError
            raise _damaged(self._path, error) from error
        keep(states)

    def wait(self) -> None:
        """Nothing is ever under way."""


def session_compiler(path: Path, outputs: Sequence[str], device: str) -> Callable[[], tuple[SessionQueue, bool]]:
    """Checks that the device is there; what is returned opens a graph that has these outputs.

    It gives False beside it: texts do not share a row. Raises MissingExtra without ONNX Runtime, InputError for an
    absent device, ModelUnsupported for a traced graph.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtra("onnxruntime-gpu", "cuda") from error
    name, _, number = device.partition(".")
    available = onnxruntime.get_available_providers()
    if PROVIDERS[name] not in available or not (number or "0").isdecimal():
        raise InputError(f"device {device}: ONNX Runtime has {', '.join(available)} on this machine")
    if path.suffix != ".onnx":
        raise ModelUnsupported(
            f"{path}: a traced graph, which ONNX Runtime does not read; export with --graph written, or take the CPU"
        )

    def opened() -> tuple[SessionQueue, bool]:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _ERRORS_ALONE
        try:
            providers = [(PROVIDERS[name], {"device_id": number or "0"}), "CPUExecutionProvider"]
            session = onnxruntime.InferenceSession(str(path), options, providers=providers)
            missing = sorted(set(outputs) - {item.name for item in session.get_outputs()})
        except Exception as error:
            raise _damaged(path, error) from error
        if missing:
            raise ModelDamaged(f"{path}: no output {', '.join(missing)}; export the model again")
        return SessionQueue(session, path), False

    return opened


def _damaged(path: Path, error: BaseException) -> ModelDamaged:
    reason = next(iter(str(error).splitlines()), type(error).__name__)
    return ModelDamaged(f"{path}: not a graph that ONNX Runtime runs ({reason}); export the model again")

"""Make a model folder from a Hugging Face encoder, and the reverse: ONNX graph, SmoothQuant, tokenizer, tables."""

from __future__ import annotations

from phrasemate.encode.export.export import export_model

__all__ = ["export_model"]

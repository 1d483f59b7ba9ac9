"""Export of Hugging Face encoders to model folders, and the reverse."""

from __future__ import annotations

from phrasemate.encode.export.export import export_model

__all__ = ["export_model"]

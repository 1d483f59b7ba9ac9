"""The translators' formats and documents: each a stream of records, with limits on what a stranger's file may cost."""

from __future__ import annotations

__all__: list[str] = []

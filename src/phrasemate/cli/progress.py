"""The progress bar of indexing: share of the bytes, sentences, rate, remaining time; on standard error."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from phrasemate.cli.shell import err

if TYPE_CHECKING:
    from rich.console import Console

    from phrasemate.index import ProgressEvent

__all__ = ["IndexingBar"]


class IndexingBar:
    """``show`` is the ``progress`` of ``Index.add``; ``sentences`` counts what is stored. Draws on terminals only."""

    def __init__(self, console: Console | None = None) -> None:
        console = console or err()
        self.sentences = 0
        self._bar = Progress(
            TextColumn("{task.fields[document]}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[done]}"),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=None, document="reading", done="")

    def show(self, event: ProgressEvent) -> None:
        self.sentences = event.sentences
        elapsed = self._bar.tasks[self._task].elapsed or 0.0
        rate = f", {event.sentences / elapsed:,.0f}/s" if elapsed > 0 else ""
        self._bar.update(
            self._task,
            completed=event.bytes_done,
            total=event.bytes_total or None,
            document=_short(event.document),
            done=f"{event.sentences:,} sentences{rate}",
        )

    def stop(self) -> None:
        self._bar.stop()

    def __enter__(self) -> IndexingBar:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _short(name: str, cells: int = 24) -> str:
    from phrasemate.cli.render import clean

    name = clean(name).replace("[", "(").replace("]", ")")  # rich would read [x] as markup
    return name if len(name) <= cells else "…" + name[-(cells - 1) :]

"""Progress on standard error: bars on a terminal, else a line each minute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

import typer

from phrasemate.cli.shell import EXIT_INTERRUPTED, clean, err

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from phrasemate.index import ProgressEvent

LINE_SECONDS = 60
RESUMABLE = "keeps what is done; run the same command again to resume"


class _Lines:
    """Progress lines for output that is not a terminal: at most one each `LINE_SECONDS`."""

    def __init__(self, console: Console) -> None:
        self._console, self._said = console, monotonic()

    def say(self, text: str) -> None:
        """Print the text if the last line is at least `LINE_SECONDS` old."""
        if not self._console.is_terminal and monotonic() - self._said >= LINE_SECONDS:
            self._said = monotonic()
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _bar(console: Console) -> Progress:
    """Make a progress bar, shown on a terminal only; its tasks need the field ``count``."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[count]}"),
        TimeRemainingColumn(compact=True),
    )
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def stages(remainder: Callable[[], str] | None = None) -> Iterator[Callable[[str, int, int], None]]:
    """Yield ``show(what, done, total)``, which draws a bar for each stage; total is 0 if it is unknown.

    If the user presses Ctrl-C, prints ``remainder()``, which says what is left and how to continue, and exits.
    """
    console = err()
    bar = _bar(console)
    tasks: dict[str, Any] = {}
    lines = _Lines(console)

    def show(what: str, completed: int, total: int) -> None:
        if what not in tasks:
            for old, _ in tasks.values():
                bar.update(old, visible=False)
            # an earlier run may have done a part, which does not count in the rate
            tasks[what] = bar.add_task(what, total=None, completed=completed, count=""), completed
        task, first = tasks[what]
        seconds = bar.tasks[task].elapsed or 0.0
        rate = f", {(completed - first) / seconds:,.0f}/s" if seconds > 0 and completed > first else ""
        count = f"{completed:,}{f' of {total:,}' if total else ''}{rate}"
        bar.update(task, completed=completed, total=total or None, count=count, visible=True)
        lines.say(f"{what}: {count}")

    try:
        with bar:
            yield show
    except KeyboardInterrupt:
        if remainder is None:
            raise
        typer.echo(f"stopped; {remainder()}", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None


class IndexingBar:
    """Progress bar for ``Index.add``: pass ``show`` as ``progress``. ``sentences`` is the number stored so far."""

    def __init__(self, console: Console | None = None) -> None:
        console = console or err()
        self.sentences = 0
        self._bar = _bar(console)
        self._task = self._bar.add_task("reading", total=None, count="")
        self._lines = _Lines(console)

    def show(self, event: ProgressEvent) -> None:
        if event.stage:
            if event.share:
                self._bar.update(self._task, completed=event.share, total=1)
            else:
                self._bar.reset(self._task, total=None, description=event.stage, count="")
            self._lines.say(f"{event.stage} ({100 * event.share:.0f} %)" if event.share else event.stage)
            return
        self.sentences = event.sentences
        seconds = self._bar.tasks[self._task].elapsed or 0.0
        rate = f", {event.sentences / seconds:,.0f}/s" if seconds > 0 else ""
        self._bar.update(
            self._task,
            completed=event.bytes_done,
            total=event.bytes_total or None,
            description=_short(event.document),
            count=f"{event.sentences:,} sentences{rate}",
        )
        share = f" ({100 * event.bytes_done / event.bytes_total:.0f} %)" if event.bytes_total else ""
        self._lines.say(f"{clean(event.document)}: {event.sentences:,} sentences{rate}{share}")

    def __enter__(self) -> IndexingBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def _short(name: str, cells: int = 24) -> str:
    name = clean(name).replace("[", "(").replace("]", ")")  # rich reads [x] as markup
    return name if len(name) <= cells else "…" + name[-(cells - 1) :]

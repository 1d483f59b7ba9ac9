"""What all commands share: errors become exit codes, and the two consoles."""

from __future__ import annotations

import logging
import os
import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperGroup

from phrasemate.errors import PhrasemateError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "EXIT_ERROR",
    "EXIT_INTERRUPTED",
    "EXIT_PIPE",
    "DefaultGroup",
    "RootGroup",
    "err",
    "fail",
    "out",
    "settle_streams",
]

EXIT_ERROR = 1
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
EXIT_PIPE = 141  # 128 + SIGPIPE

log = logging.getLogger(__name__)


def out() -> Console:
    """The console on standard output: coloured on a terminal, plain in a pipe."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


def err() -> Console:
    """The console on standard error, for progress and remarks."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def fail(message: str, code: int = EXIT_ERROR) -> NoReturn:
    """Print one line ``error: ...`` to standard error and leave with ``code``."""
    typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
    typer.echo(" ".join(message.split()), err=True)
    raise typer.Exit(code)


class RootGroup(TyperGroup):
    """The group of all commands: what they raise on purpose leaves as one line and an exit code."""

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order in which a newcomer needs them."""
        text = ["index", "search", "serve", "terms", "align", "pairs", "examples", "dataset", "match", "mine", "mt"]
        return [*text, "vectors", "train", "evaluate", "model", "demo"]

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except PhrasemateError as error:
            log.debug("raised here:", exc_info=True)
            fail(str(error))
        except KeyboardInterrupt:
            typer.echo("stopped", err=True)
            raise typer.Exit(EXIT_INTERRUPTED) from None
        except BrokenPipeError:
            _close_stdout()
            raise typer.Exit(EXIT_PIPE) from None
        except MemoryError:
            log.debug("raised here:", exc_info=True)
            fail("there is not enough memory; free some, or raise the limit, and give the command again")
        except OSError as error:
            log.debug("raised here:", exc_info=True)
            fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))


class DefaultGroup(TyperGroup):
    """A group whose command ``add`` may be left unsaid: ``index TEXT...`` means ``index add TEXT...``."""

    default = "add"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] != "--help" and args[0] not in self.commands:
            args = [self.default, *args]
        return super().parse_args(ctx, args)


def settle_streams() -> None:
    """UTF-8 in a pipe, whatever the locale; on a terminal, a question mark for what it cannot show."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            if stream.isatty():
                stream.reconfigure(errors="replace")
            else:
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _close_stdout() -> None:
    """Point standard output at nothing, so that the interpreter's last flush does not complain."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)

"""Base classes of all commands: exit codes, consoles, groups of options in help, former names of options."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections import UserDict, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from phrasemate.errors import PhrasemateError, plain_reason

if TYPE_CHECKING:
    from rich.console import Console

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
EXIT_PIPE = 141  # 128 + SIGPIPE

log = logging.getLogger(__name__)

UsageError: Any = typer.BadParameter.__base__  # typer brings its own; it has no public name

# A corpus must not control the terminal (escape sequences) or break a line; one space for each keeps all offsets.
_CONTROLS = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029], " ")

Offer = typer.Typer | Callable[..., Any]  # a group of commands, or the function of one command


def out() -> Console:
    """Return a console on standard output: coloured on a terminal, plain in a pipe."""
    return _console()


def err() -> Console:
    """Return a console on standard error, for progress and remarks."""
    return _console(stderr=True)


def _console(**options: Any) -> Console:
    from rich.console import Console

    class PipeConsole(Console):
        def on_broken_pipe(self) -> None:
            """Raise the error again for `_leaving`: rich would exit."""
            raise

    return PipeConsole(highlight=False, soft_wrap=True, emoji=False, **options)


def clean(text: str) -> str:
    """Replace each control character by a space, which keeps all offsets."""
    return text.translate(_CONTROLS)


def is_unicode(text: str) -> bool:
    """Tell whether an argument was UTF-8: Python decodes other bytes to lone surrogates."""
    return not re.search("[\ud800-\udfff]", text)


def count(number: int, noun: str) -> str:
    """Format a number with its noun: ``count(1, "hit") == "1 hit"``, ``count(1200, "hit") == "1,200 hits"``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def fail(message: str, code: int = EXIT_ERROR) -> NoReturn:
    """Print one line ``error: ...`` to standard error and exit with ``code``."""
    typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
    typer.echo(clean(" ".join(message.split())), err=True)
    raise typer.Exit(code)


class _Commands(UserDict[str, Any]):
    """Commands by name, each built from its `Offer` when it is first looked up: building all of them is slow."""

    def __getitem__(self, name: str) -> Any:
        if not isinstance(self.data[name], TyperCommand | TyperGroup):
            self.data[name] = _command(name, self.data[name])
        return self.data[name]


def _command(name: str, offer: Offer) -> Any:
    typer_app = typer.Typer(add_completion=False, rich_markup_mode=None)  # rich would read [[marks]] as its own markup
    if isinstance(offer, typer.Typer):
        for command_info in offer.registered_commands:
            command_info.cls = Command
        if not isinstance(offer.info.cls, type):  # no class was given
            offer.info.cls = Group
        typer_app.add_typer(offer, name=name)
        group: Any = get_command(typer_app)
        return group.commands[name]
    typer_app.command(name, cls=Command)(offer)
    return get_command(typer_app)


_INDENTED = re.compile(r"(?:^|(?<=\n\n))(?=  )")  # start of an indented paragraph, which help must not re-wrap


def _help_of(settings: dict[str, Any]) -> dict[str, Any]:
    """Split the help of a command or group into the text and the examples, which become the epilog."""
    text, _, examples = (settings["help"] or "").partition("\n\nExamples:\n")
    epilog = "Examples:\n\n" + _INDENTED.sub("\b\n", examples) if examples else settings["epilog"]
    return {"help": _INDENTED.sub("\b\n", text), "epilog": epilog}


class Group(TyperGroup):
    """Group of commands whose help lists each command with its full summary, under the headings of ``sections``.

    The help ends with examples, as that of a `Command` does.
    """

    sections: ClassVar[dict[str, str]] = {}  # heading -> names of its commands, separated by spaces

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | _help_of(settings) | {"no_args_is_help": True})

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        names = self.list_commands(ctx)
        for heading, members in (self.sections or {"Commands": " ".join(names)}).items():
            with formatter.section(heading):
                rows = [(name, self.get_command(ctx, name)) for name in members.split()]
                formatter.write_dl([(name, offer.get_short_help_str(limit=200)) for name, offer in rows if offer])


class RootGroup(Group):
    """The group of all commands, which turns their errors into one line and an exit code."""

    offers: ClassVar[dict[str, Offer]] = {}  # name -> command or group

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands(self.offers | dict(self.commands))

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Make the context of a call; ``--help`` and ``--version`` print here, so errors are caught here, too."""
        with _leaving():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        with _leaving():
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result


_LEAST = 130_000_000  # bytes of memory that the libraries of any command take
_UNLOADED = re.compile("failed to map segment|annot allocate memory")  # in errors of a library that did not fit


@contextmanager
def _leaving() -> Iterator[None]:
    """Turn expected errors and errors of the system into one line and an exit code; bugs keep their traceback."""
    from phrasemate.utils.machine import check_memory

    try:
        check_memory(_LEAST)
        yield
    except PhrasemateError as error:
        log.debug("raised here:", exc_info=True)
        fail(str(error))
    except UsageError as error:
        if error.message.startswith("Usage:"):  # without arguments, the message is the help
            raise
        fail(_usage(error), EXIT_USAGE)
    except KeyboardInterrupt:
        typer.echo("stopped", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except BrokenPipeError:
        _close_stdout()
        raise typer.Exit(EXIT_PIPE) from None
    except (MemoryError, ImportError) as error:
        if isinstance(error, ImportError) and not _UNLOADED.search(str(error)):
            raise
        log.debug("raised here:", exc_info=True)
        fail("there is not enough memory; free some, or raise the limit, and give the command again")
    except OSError as error:
        log.debug("raised here:", exc_info=True)
        fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def _usage(error: Any) -> str:
    """Format an error of the arguments in the style of all other errors, with the command whose help explains them."""
    if isinstance(error, typer.BadParameter):
        error.message = plain_reason(error.message)
    message = error.format_message().removesuffix(".")
    if match := re.fullmatch(r"Invalid value(?: for (.+?))?: (.*)", message, re.DOTALL):
        names = (match[1] or "").replace("'", "").replace(" / ", " or ")
        message = f"{names}: {match[2]}" if names else match[2]
    else:
        message = re.sub(r"\.? (?:Did you mean (.*)\?|\(Possible options: (.*)\))$", r" (did you mean \1\2?)", message)
        message = message[0].lower() + message[1:]
    return f"{message}; see {error.ctx.command_path} --help" if error.ctx else message


class DefaultGroup(Group):
    """Group with a default command, which may be left out: ``index TEXT...`` means ``index add TEXT...``."""

    default = "add"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] != "--help" and args[0] not in self.commands:
            args = [self.default, *args]
        return super().parse_args(ctx, args)


def settle_streams() -> None:
    """Set up the standard streams: UTF-8 in a pipe whatever the locale, "?" for what a terminal cannot show.

    A stream that the caller closed is replaced by the null device.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            if stream.isatty():
                stream.reconfigure(errors="replace")
            else:
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _close_stdout() -> None:
    """Redirect standard output to the null device, so that the last flush of the interpreter does not fail."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


# command -> former name of an option -> present name
_SIDES = {"--from": "--source-lang", "--to": "--target-lang"}
_HINTS = {"--confidence": "--min-confidence", "--floor": "--min-score", "--threshold": "--min-belief"}
RENAMED: dict[str, dict[str, str]] = {
    "index add": {"--threshold": "--min-belief"},
    "terms": {
        "--k": "--translations",
        "--most": "--limit",
        "--least": "--min-count",
        "--belief": "--min-belief",
        "--lang": "--source-lang",
        "--language": "--target-lang",
    },
    "pairs": {"--frequent-least": "--min-frequent"},
    "dataset xpr": {"--most": "--limit", "--least": "--min-examples", "--longest": "--max-characters"},
    "match": {"--least-score": "--min-score", "--threshold": "--min-margin", "--candidates": "--limit"},
    "mine": {"--threshold": "--min-score"},
    "mt translate": _SIDES | _HINTS,
    "mt prepare": _SIDES | _HINTS,
    "vectors distil": {"--least": "--min-contexts"},
    "evaluate xpr": {"--most": "--limit"},
    "evaluate bicla": {"--first": "--limit"},
    "model export": {"--segment-threshold": "--min-belief"},
}

_OUTPUT = "--out --json --jsonl --force --unmatched --cache --work --scores --show-prompt --dry-run --explain"
_INPUT = (
    "--lang --language --source-lang --target-lang --column --columns --source-column --target-column --text-field "
    "--lines --on-error --encoding --index --text --store --source-text --target-text --source-index --target-index "
    "--langs --data --phrases --document --dictionary --lexicon --tokenised"
)
_RUN = (
    "--model --threads --cluster --workers --seed --device --minutes --layer --pooling --quick --concurrency --timeout"
)
PANELS = {"Input": _INPUT.split(), "Output": _OUTPUT.split(), "Model and machine": _RUN.split()}
OTHER = "Options"
FEW = 8  # up to so many options stay in one list


def panel(name: str) -> str:
    """Return the heading of an option in help."""
    return next((panel for panel, names in PANELS.items() if name in names), OTHER)


class Command(TyperCommand):
    """Command that accepts former names of its options and lists options under headings.

    The help is the docstring of the function, which ends with examples.
    """

    def __init__(self, *names: Any, **settings: Any) -> None:
        super().__init__(*names, **settings | _help_of(settings))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        former_names = RENAMED.get(ctx.command_path.partition(" ")[2], {})
        return super().parse_args(ctx, current_names(args, former_names))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options into the help: under one heading if there are at most `FEW`, else under several."""
        groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
        options = [option for option in self.get_params(ctx) if option.param_type_name == "option"]
        for param in self.get_params(ctx):
            if (record := param.get_help_record(ctx)) is not None:
                heading = panel(param.opts[0]) if len(options) > FEW else OTHER
                groups[heading if param in options else "Arguments"].append(record)
        for name in ("Arguments", OTHER, *PANELS):
            if groups[name]:
                with formatter.section(name):
                    formatter.write_dl(groups[name])


def current_names(args: list[str], renamed: dict[str, str]) -> list[str]:
    """Replace former names of options, with a warning for each. Arguments after ``--`` are left alone."""
    current = list(args)
    for number, argument in enumerate(args):
        if argument == "--":
            break
        name, equals, value = argument.partition("=")
        if name in renamed:
            typer.echo(f"warning: {name} is now called {renamed[name]}", err=True)
            current[number] = renamed[name] + equals + value
    return current

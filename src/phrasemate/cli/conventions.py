"""Names and groups of options: one name for one thing, former names that still work, and help in groups."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import typer
from typer.core import TyperCommand

# By command: the former name of an option, and its name now.
_SIDES = {"--from": "--source-lang", "--to": "--target-lang"}
_HINTS = {"--confidence": "--min-confidence", "--floor": "--min-score"}
RENAMED: dict[str, dict[str, str]] = {
    "terms": {
        "--most": "--limit",
        "--least": "--min-count",
        "--belief": "--min-belief",
        "--lang": "--source-lang",
        "--language": "--target-lang",
    },
    "pairs": {"--frequent-least": "--min-frequent"},
    "dataset xpr": {"--most": "--limit", "--least": "--min-examples"},
    "match": {"--least-score": "--min-score"},
    "mt translate": _SIDES | _HINTS,
    "mt prepare": _SIDES | _HINTS,
    "vectors distil": {"--least": "--min-contexts"},
    "evaluate xpr": {"--most": "--limit"},
}

_OUTPUT = (
    "--out --json --jsonl --force --unmatched --cache --work --scores --show-prompt --dry-run --explain --examples"
)
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
FEW = 8  # options or fewer stay in one list


def panel(name: str) -> str:
    """The group of an option in help."""
    return next((panel for panel, names in PANELS.items() if name in names), OTHER)


class Command(TyperCommand):
    """A command that knows the former names of its options, and lists options in groups."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        renamed = RENAMED.get(ctx.command_path.partition(" ")[2], {})
        return super().parse_args(ctx, current_names(args, renamed))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options into help: under one heading if there are few, else group by group."""
        groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
        options = [option for option in self.get_params(ctx) if option.param_type_name == "option"]
        for option in options:
            record = option.get_help_record(ctx)
            if record is not None:
                groups[panel(option.opts[0]) if len(options) > FEW else OTHER].append(record)
        arguments = [option.get_help_record(ctx) for option in self.get_params(ctx) if option not in options]
        if any(arguments):
            groups["Arguments"] = [record for record in arguments if record is not None]
        for name in ("Arguments", OTHER, *PANELS):
            if groups[name]:
                with formatter.section(name):
                    formatter.write_dl(groups[name])


def current_names(args: list[str], renamed: dict[str, str]) -> list[str]:
    """Arguments with the present names of options; each former name is warned of. All after ``--`` stays."""
    current = list(args)
    for number, argument in enumerate(args):
        if argument == "--":
            break
        name, equals, value = argument.partition("=")
        if name in renamed:
            typer.echo(f"warning: {name} is now called {renamed[name]}", err=True)
            current[number] = renamed[name] + equals + value
    return current

"""The command line: each command is a thin shell over one public call.

Exit codes:
    0: done
    1: an error that the user can fix (one line on standard error)
    2: wrong usage
    130: stopped with Ctrl-C
    141: the reader of a pipe went away
"""

from __future__ import annotations

import os
from typing import Annotated, ClassVar

import typer

from phrasemate.cli import (
    align,
    dataset,
    demo,
    evaluate,
    examples,
    index,
    match,
    mine,
    model,
    mt,
    search,
    serve,
    terms,
    train,
    vectors,
)
from phrasemate.cli.options import flag, option
from phrasemate.cli.shell import Offer, RootGroup, settle_streams

__all__ = ["app", "main"]


class _Phrasemate(RootGroup):
    sections: ClassVar[dict[str, str]] = {
        "Search": "index search serve concordance examples watch demo",
        "Terms, sentences, translation": "terms match mine align pairs mt",
        "Models and research": "model train evaluate dataset vectors",
    }
    offers: ClassVar[dict[str, Offer]] = {
        "index": index.app,
        "search": search.search,
        "serve": serve.serve,
        "concordance": search.concordance,
        "watch": search.watch,
        "terms": terms.terms,
        "align": align.align,
        "pairs": align.pairs,
        "examples": examples.examples,
        "dataset": dataset.app,
        "match": match.match,
        "mine": mine.mine,
        "mt": mt.app,
        "vectors": vectors.app,
        "train": train.app,
        "evaluate": evaluate.app,
        "model": model.app,
        "demo": demo.demo,
    }


app = typer.Typer(
    name="phrasemate",
    cls=_Phrasemate,
    help="""Find phrases in text of another language that mean the same as your phrase in its context.

Examples:
  phrasemate demo                                      try it on a bundled sample
  phrasemate index corpus/ -o idx --lang en            index a folder of English text
  phrasemate search idx "Er sitzt auf der [[Bank]]."   search with a marked phrase
  phrasemate search idx --json < queries.txt           answer many queries in JSON
  phrasemate index stats idx                           show what an index holds""",
    rich_markup_mode=None,  # rich would read [[marks]] in the examples as its own markup
    pretty_exceptions_enable=False,
)


def _print_version(value: bool) -> None:
    if value:
        from phrasemate import __version__

        typer.echo(f"phrasemate {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, flag("--version", "Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
    verbose: Annotated[bool, flag("--verbose", "Write a detailed log to standard error.")] = False,
    device: Annotated[
        str | None,
        option(
            "--device", "NAME", "Device that runs the encoder: an OpenVINO device such as GPU, or CUDA (default: CPU)."
        ),
    ] = None,
) -> None:
    if device:
        os.environ["PHRASEMATE_DEVICE"] = device
    if verbose:
        import logging

        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
        logging.getLogger("phrasemate").setLevel(logging.DEBUG)


def main() -> None:
    """Run the command line."""
    settle_streams()
    app(prog_name="phrasemate")

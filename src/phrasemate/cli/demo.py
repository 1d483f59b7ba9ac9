"""``phrasemate demo``: index a bundled sample and answer 40 queries."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from phrasemate.cli.options import Json, option, print_json
from phrasemate.cli.shell import err, out

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from phrasemate.demo import Answer

LANGUAGES = {"de": "German", "fr": "French", "es": "Spanish", "zh": "Chinese", "ru": "Russian", "tr": "Turkish"}


def demo(
    directory: Annotated[Path | None, option("--dir", "DIR", "Keep the index here (default: it is deleted).")] = None,
    as_json: Json = False,
) -> None:
    """Try phrasemate on a bundled English sample.

    Indexes the sample and answers 40 marked queries in six languages. Prints the best answers to each query, with a
    tick if an expected answer comes first, and the number of ticks.

    Examples:
      phrasemate demo
      phrasemate demo --dir demo-index      keep the index for phrasemate search
      phrasemate demo --json
    """
    from phrasemate import demo as public

    with ExitStack() as stack:
        path = directory or Path(stack.enter_context(TemporaryDirectory())) / "index"
        start_time = time.perf_counter()
        index = stack.enter_context(public.build(path))
        index_time = time.perf_counter()
        if not as_json:
            err().print(f"{len(public.sample())} English sentences indexed in {index_time - start_time:.1f} s\n")
        answers = public.ask(index)
        answer_time = time.perf_counter()
    seconds = {"index": round(index_time - start_time, 2), "search": round(answer_time - index_time, 2)}
    _print_json(answers, seconds) if as_json else _print(out(), answers, seconds, directory)


def _print_json(answers: Sequence[Answer], seconds: dict[str, float]) -> None:
    from phrasemate.demo import first

    print_json(
        {
            "answers": [answer.as_dict() for answer in answers],
            "first": {language: first(answers, language) for language in _languages(answers)},
            "first_in_all": first(answers),
            "asked": len(answers),
            "seconds": seconds,
        }
    )


def _print(console: Console, answers: Sequence[Answer], seconds: dict[str, float], folder: Path | None) -> None:
    from phrasemate.demo import first

    for language in _languages(answers):
        mine = [answer for answer in answers if answer.question.language == language]
        console.print(f"[bold]{LANGUAGES.get(language, language)}[/bold]: {first(mine)} of {len(mine)} first\n")
        for answer in mine:
            for line in _lines(answer, console.is_terminal):
                console.print(line)
        console.print()
    console.print(
        f"[bold]{first(answers)} of {len(answers)}[/bold] answered with an expected phrase in first place; "
        f"{seconds['index']:.1f} s to index, {seconds['search']:.1f} s to answer"
    )
    if folder is not None:
        typer.echo(f'ask more: phrasemate search {quote(str(folder))} "Er sitzt auf der [[Bank]]."')


def _lines(answer: Answer, coloured: bool) -> list[Text]:
    from rich.text import Text

    from phrasemate.cli.render import marked

    mark = ("✓ ", "bold green") if answer.rank == 1 else ("✗ ", "bold red")
    lines = [Text("  ").append(*mark).append_text(marked(answer.result.phrase, "bold yellow" if coloured else None))]
    fits = [f"{g.score:.2f}" if g.probability is None else f"{g.probability:.0%}" for g in answer.result.groups]
    texts = [f"{group.text} ({fit})" for group, fit in zip(answer.result.groups, fits, strict=True)]
    lines.append(Text("      " + (" · ".join(texts) or "nothing found"), "cyan" if answer.rank == 1 else ""))
    if answer.rank != 1:
        lines.append(Text(f"      expected: {' / '.join(answer.question.expected)}", "dim"))
    return lines


def _languages(answers: Sequence[Answer]) -> list[str]:
    return list(dict.fromkeys(answer.question.language for answer in answers))

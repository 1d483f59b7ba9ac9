"""What ``phrasemate mt translate`` and ``prepare`` share: the options of prompts and hints, and how those are found."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phrasemate.errors import InputError

if TYPE_CHECKING:
    from phrasemate.mt import Form, Prompter, Retrieval


class FormName(StrEnum):
    """The prompt forms."""

    PLAIN = "plain"
    SENTENCE = "sentence"
    PHRASES = "phrases"
    COT = "cot"


class Segmenter(StrEnum):
    """What finds the phrases."""

    LEARNED = "learned"
    NGRAM = "ngram"


HintIndex = Annotated[Path | None, typer.Option("--index", metavar="DIR", help="Index of text in the target language.")]
Template = Annotated[
    Path | None, typer.Option("--template", metavar="FILE", help="TOML file whose texts replace the form's.")
]
Threshold = Annotated[float, typer.Option("--threshold", metavar="X", min=0, max=1, help="Least score of a phrase.")]
SegmenterName = Annotated[
    Segmenter, typer.Option("--segmenter", metavar="learned|ngram", help="What finds the phrases.")
]
Equivalents = Annotated[int, typer.Option("-k", metavar="N", min=1, help="Equivalents of a phrase.")]
Contexts = Annotated[int, typer.Option("--contexts", metavar="N", min=0, help="Contexts of an equivalent.")]
Confidence = Annotated[
    float, typer.Option("--confidence", metavar="X", min=0, max=1, help="Least confidence, if the model tells it.")
]
Budget = Annotated[
    int, typer.Option("--budget", metavar="N", min=0, help="Tokens that the hints of a sentence may take.")
]
IndexModel = Annotated[
    Path | None, typer.Option("--model", metavar="FOLDER", help="Model folder (default: that of the index).")
]


def cache_folder() -> Path:
    """Where answers and vectors of sentences are kept for later runs. Raises InputError for a user without a home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "phrasemate"
    except RuntimeError as error:
        raise InputError("there is no home folder to keep answers in; set XDG_CACHE_HOME to a folder") from error


def chosen_form(form: FormName, template: Path | None, index: Path | None) -> Form:
    """The texts of a form, which those of the template replace; all forms but the plain one need an index."""
    from phrasemate.mt import FORMS, read_form

    if form is not FormName.PLAIN and index is None:
        raise typer.BadParameter(f"--form {form.value} needs --index DIR")
    return read_form(template, FORMS[form.value]) if template else FORMS[form.value]


def opened_retrieval(
    index: Path | None,
    model: Path | None,
    threads: int | None,
    form: FormName,
    settings: Any,
    bare: Prompter,
    stack: ExitStack,
    show: Callable[[str, int, int], None],
) -> Retrieval:
    """What the form looks up; nothing is opened for the plain one."""
    from phrasemate.mt import Hinter, RelatedSentences, Retrieval

    if form is FormName.PLAIN or index is None:
        return Retrieval()
    from phrasemate.encode import load_model
    from phrasemate.index import Index

    given = load_model(model, threads=threads) if model else None
    opened = stack.enter_context(Index.open(index, given, readonly=True, threads=threads))
    if form is FormName.SENTENCE:
        return Retrieval(related=RelatedSentences(opened, cache_folder(), show))
    hinter = Hinter(opened, settings, apart=bool(bare.form.first))
    tokenizer = hinter.model.runtime.tokenizer
    return Retrieval(hinter, cost=lambda hint: len(tokenizer.encode(bare.hint(hint)).ids))

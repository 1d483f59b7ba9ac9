"""``phrasemate vectors distil``, ``cover`` and ``train``: word vectors out of text."""

from __future__ import annotations

import json
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phrasemate.cli.given import check_apart
from phrasemate.cli.options import (
    Column,
    Encoding,
    Lines,
    Model,
    OnError,
    OrList,
    SplitLines,
    TextField,
    Threads,
    say_skipped,
)
from phrasemate.cli.progress import stages

if TYPE_CHECKING:
    from phrasemate.text import Corpus
    from phrasemate.vectors import WordVectors

DISTIL_EXAMPLES = """Examples:

\b
  phrasemate vectors distil english.txt -o vectors/en --lang en
  phrasemate vectors distil deutsch.txt.gz -o vectors/de --lang de --space vectors/en
  phrasemate vectors distil both.tsv -o vectors/cs --column 2 --words 20000 --contexts 16

A run that was stopped goes on where it was: give the same command again."""

TRAIN_EXAMPLES = """Examples:

\b
  phrasemate vectors train english.txt -o plain/en --lang en
  phrasemate vectors train both.tsv.gz -o plain/de --column 2 --lines sentence --words 20000 --min-count 3"""


COVER_EXAMPLES = """Examples:

\b
  phrasemate vectors cover vectors/de collection.txt -o wide/de
  phrasemate vectors cover vectors/cs both.tsv more/ -o wide/cs --column 2"""


class Pooling(StrEnum):
    """What becomes of a word's token states."""

    MEAN = "mean"
    ENDS = "ends"
    HEAD = "head"


Texts = Annotated[
    list[str], typer.Argument(metavar="TEXT", help="Files (.txt, .jsonl, .tsv, gzip of any), folders; - is stdin.")
]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The folder of word vectors to make.")]
Words = Annotated[int, typer.Option("--words", metavar="N", min=1, help="The most frequent words that get a vector.")]
Dim = Annotated[int, typer.Option("--dim", metavar="N", min=1, help="Numbers of a vector.")]
Lang = Annotated[str, typer.Option("--lang", metavar="LANG", help="Language of the texts, e.g. en or zh.")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of what is drawn by chance.")]
Force = Annotated[bool, typer.Option("--force", help="Write over what is there.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def distil(
    texts: Texts,
    out: Out,
    lang: Lang = "",
    words: Words = 50_000,
    dim: Annotated[
        int | None, typer.Option("--dim", metavar="N", min=1, help="Numbers of a vector (default: 300; as in --space).")
    ] = None,
    contexts: Annotated[
        int,
        typer.Option("--contexts", metavar="N", min=1, help="Sentences that a word's vector is the mean of, at most."),
    ] = 8,
    least: Annotated[
        int | None,
        typer.Option(
            "--least",
            metavar="N",
            min=1,
            help="Sentences that are encoded for a word's sake (default: 2), not for other words (more: slower).",
        ),
    ] = None,
    space: Annotated[
        Path | None,
        typer.Option("--space", metavar="DIR", help="Word vectors of an earlier run whose space these shall share."),
    ] = None,
    pooling: Annotated[
        Pooling,
        typer.Option("--pooling", metavar="mean|ends|head", help="How token states become a word in its sentence."),
    ] = Pooling.MEAN,
    layer: Annotated[
        int | None, typer.Option("--layer", metavar="N", min=0, help="Layer of the model (default: the last).")
    ] = None,
    model: Model = None,
    threads: Threads = None,
    column: Column = None,
    text_field: TextField = "text",
    lines: SplitLines = Lines.PARAGRAPH,
    on_error: OrList = OnError.RAISE,
    encoding: Encoding = "utf-8",
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Take a static vector for each frequent word of a text out of the encoder.

    The mean over several sentences of the word's token states, reduced to --dim numbers. Words are found in any script
    and lower-cased. All languages share the encoder's space; give --space so that they share the reduction, too.
    """
    from phrasemate.encode import load_model
    from phrasemate.vectors import DistilSettings, Sentences, WordVectors
    from phrasemate.vectors import distil as distilled
    from phrasemate.vectors.word_vectors import check_free

    if space is not None and dim is not None:
        raise typer.BadParameter(
            "--dim and --space: vectors have as many numbers as those of --space; give one of them"
        )
    if least is not None and least > contexts:
        raise typer.BadParameter(f"--least {least}: a word has {contexts} sentences at most (--contexts)")
    check_free(out, force)
    check_apart(out, *([] if space is None else [space]))
    started = time.perf_counter()
    corpus = _corpus(texts, column, text_field, lines, lang, on_error, encoding)
    known = None if space is None else WordVectors.load(space)
    settings = DistilSettings(words, contexts, least or min(2, contexts), pooling.value, layer, seed)
    whole = out if out.name else out.resolve()  # "." has no name
    partial = whole.with_name(whole.name + ".part")
    with stages(lambda: _left(partial)) as show:
        encoder = load_model(model, threads=threads)
        found = distilled(encoder, Sentences(corpus), settings, dim or 300, known, lang, partial, show)
    found.save(out, force)
    partial.unlink(missing_ok=True)
    report(out, found, started, as_json, corpus)


def cover(
    vectors: Annotated[Path, typer.Argument(metavar="DIR", help="Word vectors that phrasemate vectors distil made.")],
    texts: Texts,
    out: Out,
    model: Model = None,
    threads: Threads = None,
    column: Column = None,
    text_field: TextField = "text",
    lines: SplitLines = Lines.PARAGRAPH,
    on_error: OrList = OnError.RAISE,
    encoding: Encoding = "utf-8",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Add a vector for every word of a text that has none: names, rare inflections, compounds.

    The encoder reads each such word by itself; what all that stand alone have in common is taken off.
    """
    from phrasemate.encode import load_model
    from phrasemate.vectors import Sentences, WordVectors, tokens
    from phrasemate.vectors import cover as covered
    from phrasemate.vectors.word_vectors import check_free

    check_free(out, force)
    check_apart(out, vectors)
    started = time.perf_counter()
    space = WordVectors.load(vectors)
    corpus = _corpus(texts, column, text_field, lines, space.language, on_error, encoding)
    with stages(lambda: "nothing was written") as show:
        words = (token.word for text in Sentences(corpus) for token in tokens(text))
        found = covered(space, load_model(model, threads=threads), words, show)
    found.save(out, force)
    report(out, found, started, as_json, corpus)


def train(
    texts: Texts,
    out: Out,
    lang: Lang = "",
    words: Words = 50_000,
    dim: Dim = 300,
    window: Annotated[
        int, typer.Option("--window", metavar="N", min=1, help="Neighbours on each side that say what a word means.")
    ] = 5,
    least: Annotated[
        int, typer.Option("--min-count", metavar="N", min=1, help="Occurrences that a word needs to get a vector.")
    ] = 5,
    column: Column = None,
    text_field: TextField = "text",
    lines: SplitLines = Lines.PARAGRAPH,
    on_error: OrList = OnError.RAISE,
    encoding: Encoding = "utf-8",
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Learn word vectors from nothing but a text of one language.

    Positive pointwise mutual information of neighbouring words, reduced by a singular value decomposition. The vectors
    of two languages have nothing in common until they are mapped: phrasemate vectors map. Needs
    pip install 'phrasemate[vectors]'.
    """
    from phrasemate.vectors import Sentences
    from phrasemate.vectors.ppmi import PPMISettings, train_ppmi
    from phrasemate.vectors.word_vectors import check_free

    check_free(out, force)
    started = time.perf_counter()
    corpus = _corpus(texts, column, text_field, lines, lang, on_error, encoding)
    with stages(lambda: "nothing was written") as show:
        found = train_ppmi(Sentences(corpus), PPMISettings(words, dim, window, least, seed=seed), lang, show)
    found.save(out, force)
    report(out, found, started, as_json, corpus)


def _corpus(
    texts: list[str], column: str | None, field: str, lines: Lines, lang: str, on_error: OnError, encoding: str
) -> Corpus:
    from phrasemate.text import read

    return read(
        *texts,
        column=column,
        text_field=field,
        lines=lines.value,
        lang=lang,
        on_error=on_error.value,
        encoding=encoding,
    )


def _left(partial: Path) -> str:
    kept = f"{partial} keeps what is done; give the same command again to go on"
    return kept if partial.exists() else "nothing was written"


def report(out: Path, found: WordVectors, started: float, as_json: bool, corpus: Corpus) -> None:
    """What was made, in one line; before it what was skipped."""
    seconds = time.perf_counter() - started
    if as_json:
        facts = {"out": str(out), "words": len(found), "dim": found.dim, "language": found.language, "seconds": seconds}
        facts["skipped"] = [item._asdict() for item in corpus.skipped]
        typer.echo(json.dumps(facts, ensure_ascii=False))
        return
    say_skipped(corpus.skipped, " (all are in --json)")
    last = f", the rarest {found.counts[-1]:,} times in the text" if found.counts is not None else ""
    if covered := found.facts.get("covered"):
        last = f", {covered:,} of them read without a sentence"
    typer.echo(f"{out}: {len(found):,} words of {found.dim} numbers{last}, in {seconds:.1f} s")

"""``phrasemate vectors``: word vectors distilled, learnt, extended, mapped, evaluated, described and exported."""

from __future__ import annotations

import json
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
from phrasemate.cli.shell import out as console
from phrasemate.cli.validators import check_apart, two_columns

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


app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Static word vectors: make them, map two languages onto each other, measure them.",
    epilog="""Examples:

\b
  phrasemate vectors distil english.txt -o vectors/en --lang en
  phrasemate vectors map wiki.de.vec wiki.en.vec -o mapped --unsupervised
  phrasemate vectors evaluate mapped/source mapped/target --lexicon de-en.txt""",
)
app.command("distil", epilog=DISTIL_EXAMPLES)(distil)
app.command("cover", epilog=COVER_EXAMPLES)(cover)
app.command("train", epilog=TRAIN_EXAMPLES)(train)


class Method(StrEnum):
    """What a mapping does with the pairs it has."""

    PROCRUSTES = "procrustes"
    SYMMETRIC = "symmetric"


Columns = Annotated[
    str, typer.Option("--columns", metavar="N,N", help="Columns of source and target word in the lexicon, from 1.")
]
Entries = Annotated[
    str, typer.Option("--entries", metavar="A:B", help="Only the lexicon's source words number A to B, such as 1:5000.")
]
Limit = Annotated[
    int | None, typer.Option("--limit", metavar="N", min=1, help="Read the first N words of each side (default: all).")
]
Skip = Annotated[
    OnError,
    typer.Option("--on-error", metavar="raise|skip", help="Stop at a row of a .vec file that is damaged, or skip it."),
]
Side = "A .vec or .vec.gz file of fastText, or a folder of word vectors"

MAP_EXAMPLES = """Examples:

\b
  phrasemate vectors map wiki.de.vec wiki.en.vec.gz -o mapped --lexicon de-en.txt --limit 200000
  phrasemate vectors map plain/de plain/en -o mapped --unsupervised
  phrasemate vectors map plain/de plain/en -o mapped --lexicon de-en.txt --entries 1:100 --self-learning"""


@app.command("map", epilog=MAP_EXAMPLES)
def map_(
    source: Annotated[Path, typer.Argument(metavar="SRC", help=f"{Side}, most frequent words first.")],
    target: Annotated[Path, typer.Argument(metavar="TGT", help="The same of the other language.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Gets the folders source and target.")],
    lexicon: Annotated[
        Path | None, typer.Option("--lexicon", metavar="FILE", help="Pairs of words to learn from, one a line.")
    ] = None,
    unsupervised: Annotated[
        bool, typer.Option("--unsupervised", help="Learn from the vectors alone (VecMap; a long computation).")
    ] = False,
    self_learning: Annotated[
        bool, typer.Option("--self-learning", help="Begin with the lexicon and go on as --unsupervised does.")
    ] = False,
    method: Annotated[
        Method | None,
        typer.Option(
            "--method",
            metavar="procrustes|symmetric",
            help="Rotate the source onto the target, or re-weight both (default: procrustes with a lexicon, "
            "symmetric with self-learning).",
        ),
    ] = None,
    columns: Columns = "1,2",
    entries: Entries = ":",
    limit: Limit = None,
    on_error: Skip = OnError.RAISE,
    vocabulary: Annotated[
        int, typer.Option("--vocabulary", metavar="N", min=2, help="Most frequent words that self-learning looks at.")
    ] = 20_000,
    initial: Annotated[
        int, typer.Option("--initial", metavar="N", min=2, help="Those that --unsupervised begins with.")
    ] = 4_000,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of self-learning.")] = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Map the word vectors of two languages into one space.

    With a lexicon by a rotation (Smith et al. 2017), or without one by self-learning (Artetxe et al. 2018), which needs
    vectors of comparable texts; its objective, the mean similarity of a word and its best counterpart, tells a failure.
    """
    from phrasemate.vectors import SelfLearning, map_supervised, map_unsupervised
    from phrasemate.vectors.word_vectors import check_free

    if unsupervised == (lexicon is not None) or (self_learning and lexicon is None):
        raise typer.BadParameter("give either --lexicon FILE (and --self-learning, if you like) or --unsupervised")
    if unsupervised and (columns, entries) != ("1,2", ":"):
        raise typer.BadParameter("--columns and --entries choose within a lexicon; leave them out")
    learning = SelfLearning()
    for option, value, usual in (
        ("--vocabulary", vocabulary, learning.vocabulary),
        ("--initial", initial, learning.initial),
        ("--seed", seed, learning.seed),
    ):
        if value != usual and not (unsupervised or self_learning):
            raise typer.BadParameter(f"{option} is of self-learning; leave it out")
    if initial != learning.initial and not unsupervised:
        raise typer.BadParameter("--initial is of --unsupervised; leave it out")
    check_free(out, force)
    read = (source, target, source.resolve().parent, target.resolve().parent)  # out/source may be one of them
    check_apart(out, *read)
    pairs = None if lexicon is None else _lexicon(lexicon, columns, entries)
    sides = _vectors(source, limit, on_error), _vectors(target, limit, on_error)
    if pairs is not None and not self_learning:
        mapped = map_supervised(*sides, pairs, (method or Method.PROCRUSTES).value)
        how = f"{mapped.source.facts['pairs']:,} pairs of the lexicon"
    else:
        settings = SelfLearning(vocabulary=vocabulary, initial=initial, seed=seed)
        with stages(lambda: "nothing was written") as show:

            def told(iteration: int, keep: float, objective: float) -> None:
                show(f"self-learning, p {keep:.1f}, objective {objective:.4f}, iteration", iteration, 0)

            mapped = map_unsupervised(*sides, settings, pairs, (method or Method.SYMMETRIC).value, told)
        assert mapped.learnt is not None
        how = f"self-learning, {mapped.learnt.iterations:,} iterations, objective {mapped.learnt.objective:.4f}"
    mapped.save(out, force)
    if as_json:
        typer.echo(json.dumps({"out": str(out), **mapped.source.facts}, ensure_ascii=False))
    else:
        typer.echo(f"{out}/source and {out}/target: {len(sides[0]):,} and {len(sides[1]):,} words, by {how}")


EVALUATE_EXAMPLES = """Examples:

\b
  phrasemate vectors evaluate mapped/source mapped/target --lexicon de-en.txt
  phrasemate vectors evaluate vectors/de vectors/en --lexicon en-de.tsv.gz --columns 2,1 --entries 5001:6500 --json"""


@app.command("evaluate", epilog=EVALUATE_EXAMPLES)
def evaluate(
    source: Annotated[Path, typer.Argument(metavar="SRC", help=f"{Side}: the words that are asked.")],
    target: Annotated[Path, typer.Argument(metavar="TGT", help="The same of the other language, in the same space.")],
    lexicon: Annotated[Path, typer.Option("--lexicon", metavar="FILE", help="Words and translations, a pair a line.")],
    columns: Columns = "1,2",
    entries: Entries = ":",
    limit: Limit = None,
    on_error: Skip = OnError.RAISE,
    neighbours: Annotated[int, typer.Option("--neighbours", metavar="K", min=1, help="Neighbours of CSLS.")] = 10,
    as_json: Json = False,
) -> None:
    """Measure how often the nearest word of the other language is a translation.

    Accuracy at 1 among all target words, by cosine and by CSLS, of the lexicon's words that have a vector and a
    translation with one. Without --entries, words that a mapping was learnt from are asked, too.
    """
    from phrasemate.vectors import induce

    pairs = _lexicon(lexicon, columns, entries)
    found = induce(_vectors(source, limit, on_error), _vectors(target, limit, on_error), pairs, neighbours).as_dict()
    if as_json:
        typer.echo(json.dumps(found))
        return
    typer.echo(
        f"{found['words']:,} words asked, {found['missing']:,} have no vector: accuracy at 1 "
        f"{found['acc@1 nearest']:.4f} by cosine, {found['acc@1 csls']:.4f} by CSLS"
    )


INFO_EXAMPLES = """Examples:

\b
  phrasemate vectors info vectors/en
  phrasemate vectors info wiki.de.vec --json"""


@app.command("info", epilog=INFO_EXAMPLES)
def info(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help=f"{Side}.")],
    on_error: Skip = OnError.RAISE,
    as_json: Json = False,
) -> None:
    """Say what word vectors are and how they were made; every byte is verified."""
    found = _vectors(folder, None, on_error)
    about = {"folder": str(folder), "language": found.language, "words": len(found), "dim": found.dim}
    about |= {"first": list(found.words[:10]), "counts": found.counts is not None, **found.facts}
    about["words"] = len(found)
    if as_json:
        typer.echo(json.dumps(about, ensure_ascii=False))
        return
    from phrasemate.cli.render import facts

    console().print(facts(about))


EXPORT_EXAMPLES = """Examples:

\b
  phrasemate vectors export vectors/en -o en.vec
  phrasemate vectors export mapped/source -o de.vec.gz"""


@app.command("export", epilog=EXPORT_EXAMPLES)
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of word vectors.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The file to write: .vec or .vec.gz.")],
    force: Force = False,
) -> None:
    """Write word vectors in the text format of fastText, which other programs read."""
    from phrasemate.vectors import WordVectors, write_fasttext

    check_apart(out, *folder.glob("*"))
    found = WordVectors.load(folder)
    write_fasttext(found, out, force)
    typer.echo(f"{out}: {len(found):,} words of {found.dim} numbers")


def _vectors(path: Path, limit: int | None, on_error: OnError) -> WordVectors:
    """A folder, or a .vec file with its progress on standard error."""
    from phrasemate.vectors import WordVectors, read_fasttext

    if path.is_dir():
        found = WordVectors.load(path)
        return found if limit is None else found.first(limit)
    skipped: list[Any] | None = [] if on_error is OnError.SKIP else None
    with stages(lambda: "nothing was written") as show:
        found = read_fasttext(path, limit, skipped=skipped, progress=lambda *done: show(f"reading {path.name}", *done))
    say_skipped(skipped or ())
    return found


def _lexicon(path: Path, columns: str, numbers: str) -> list[tuple[str, str]]:
    from phrasemate.vectors import entries, read_lexicon
    from phrasemate.vectors.lexicon import parse_range

    return entries(read_lexicon(path, two_columns(columns)), *parse_range(numbers))

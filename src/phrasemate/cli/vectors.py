"""``phrasemate vectors``: distil, extend, train, map, evaluate, describe and export word vectors."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from phrasemate.cli import options
from phrasemate.cli.options import argument, flag, option
from phrasemate.cli.progress import RESUMABLE, stages
from phrasemate.cli.shell import count

if TYPE_CHECKING:
    from phrasemate.text import Corpus
    from phrasemate.vectors import WordVectors


Pooling = Literal["mean", "ends", "head"]
Texts = Annotated[list[str], argument("TEXT", "Files in any supported format, or folders; - is stdin.")]
Out = Annotated[Path, option("--out", "-o", "DIR", "The folder of word vectors to write.")]
Words = Annotated[int, option("--words", "N", "Number of words that get a vector, the most frequent first.", min=1)]
Dim = Annotated[int, option("--dim", "N", "Dimensions of a vector.", min=1)]
Lang = Annotated[str, option("--lang", "LANG", "Language of the texts, e.g. en or zh.")]
Seed = Annotated[int, option("--seed", "N", "Random seed.", min=0)]
Force = Annotated[bool, flag("--force", "Overwrite what exists.")]


def distil(
    texts: Texts,
    out: Out,
    lang: Lang = "",
    words: Words = 50_000,
    dim: Annotated[
        int | None, option("--dim", "N", "Dimensions of a vector (default: 300, or those of --space).", min=1)
    ] = None,
    contexts: Annotated[
        int, option("--contexts", "N", "Maximum number of sentences to average for a word.", min=1)
    ] = 8,
    least: Annotated[
        int | None,
        option(
            "--min-contexts",
            "N",
            "Minimum number of sentences to encode for a word (default: 2; more is slower).",
            min=1,
        ),
    ] = None,
    space: Annotated[
        Path | None, option("--space", "DIR", "Word vectors of an earlier run, whose space the new ones share.")
    ] = None,
    pooling: Annotated[
        Pooling, option("--pooling", "mean|ends|head", "How to pool the token states of a word.")
    ] = "mean",
    layer: options.Layer = None,
    model: options.Model = None,
    threads: options.Threads = None,
    column: options.Column = None,
    text_field: options.TextField = "text",
    lines: options.SplitLines = "paragraph",
    on_error: options.OrList = "raise",
    encoding: options.Encoding = "utf-8",
    seed: Seed = 0,
    force: Force = False,
    as_json: options.Json = False,
) -> None:
    """Distil word vectors from the encoder, one for each frequent word of a text.

    A vector is the mean of the word's token states over several sentences, reduced to --dim dimensions. Words are
    lower-cased. To get vectors of several languages in one space, give the vectors of the first with --space.

    Examples:
      phrasemate vectors distil english.txt -o vectors/en --lang en
      phrasemate vectors distil deutsch.txt.gz -o vectors/de --lang de --space vectors/en
      phrasemate vectors distil both.tsv -o vectors/cs --column 2 --words 20000 --contexts 16

    To resume a stopped run, give the same command again.
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
        raise typer.BadParameter(f"--min-contexts {least}: a word has {contexts} sentences at most (--contexts)")
    check_free(out, force)
    options.check_apart(out, *([] if space is None else [space]))
    start_time = time.perf_counter()
    corpus = options.read_texts(texts, column, text_field, lines, on_error, encoding, lang)
    space_vectors = None if space is None else WordVectors.load(space)
    settings = DistilSettings(words, contexts, least or min(2, contexts), pooling, layer, seed)
    whole = out if out.name else out.resolve()  # "." has no name
    partial = whole.with_name(whole.name + ".part")

    with stages(lambda: f"{partial} {RESUMABLE}" if partial.exists() else "nothing was written") as show:
        encoder = load_model(model, threads=threads)
        vectors = distilled(encoder, Sentences(corpus), settings, dim or 300, space_vectors, lang, partial, show)
    vectors.save(out, force)
    partial.unlink(missing_ok=True)
    report(out, vectors, start_time, as_json, corpus)


def cover(
    vectors: Annotated[Path, argument("DIR", "Word vectors that phrasemate vectors distil made.")],
    texts: Texts,
    out: Out,
    model: options.Model = None,
    threads: options.Threads = None,
    column: options.Column = None,
    text_field: options.TextField = "text",
    lines: options.SplitLines = "paragraph",
    on_error: options.OrList = "raise",
    encoding: options.Encoding = "utf-8",
    force: Force = False,
    as_json: options.Json = False,
) -> None:
    """Add vectors for the words of a text that have none: names, rare inflections, compounds.

    Each of these words is encoded without context; the mean of these vectors is subtracted from each.

    Examples:
      phrasemate vectors cover vectors/de collection.txt -o wide/de
      phrasemate vectors cover vectors/cs both.tsv more/ -o wide/cs --column 2
    """
    from phrasemate.encode import load_model
    from phrasemate.vectors import Sentences, WordVectors, tokens
    from phrasemate.vectors import cover as covered
    from phrasemate.vectors.word_vectors import check_free

    check_free(out, force)
    options.check_apart(out, vectors)
    start_time = time.perf_counter()
    space = WordVectors.load(vectors)
    corpus = options.read_texts(texts, column, text_field, lines, on_error, encoding, space.language)
    with options.rename_options(lang=""), stages(lambda: "nothing was written") as show:
        words = (token.word for text in Sentences(corpus) for token in tokens(text))
        wider_space = covered(space, load_model(model, threads=threads), words, show)
    wider_space.save(out, force)
    report(out, wider_space, start_time, as_json, corpus)


def train(
    texts: Texts,
    out: Out,
    lang: Lang = "",
    words: Words = 50_000,
    dim: Dim = 300,
    window: Annotated[int, option("--window", "N", "Neighbours on each side that say what a word means.", min=1)] = 5,
    least: Annotated[int, option("--min-count", "N", "Occurrences that a word needs to get a vector.", min=1)] = 5,
    column: options.Column = None,
    text_field: options.TextField = "text",
    lines: options.SplitLines = "paragraph",
    on_error: options.OrList = "raise",
    encoding: options.Encoding = "utf-8",
    seed: Seed = 0,
    force: Force = False,
    as_json: options.Json = False,
) -> None:
    """Learn word vectors from plain text of one language.

    Positive pointwise mutual information of neighbouring words, reduced by a singular value decomposition. The vectors
    of two languages have nothing in common until they are mapped: phrasemate vectors map. Needs
    pip install 'phrasemate[vectors]'.

    Examples:
      phrasemate vectors train english.txt -o plain/en --lang en
      phrasemate vectors train both.tsv.gz -o plain/de --column 2 --lines sentence --words 20000 --min-count 3
    """
    from phrasemate.vectors import Sentences
    from phrasemate.vectors.ppmi import PPMISettings, train_ppmi
    from phrasemate.vectors.word_vectors import check_free

    check_free(out, force)
    start_time = time.perf_counter()
    corpus = options.read_texts(texts, column, text_field, lines, on_error, encoding, lang)
    with stages(lambda: "nothing was written") as show:
        vectors = train_ppmi(Sentences(corpus), PPMISettings(words, dim, window, least, seed=seed), lang, show)
    vectors.save(out, force)
    report(out, vectors, start_time, as_json, corpus)


def report(out: Path, vectors: WordVectors, started: float, as_json: bool, corpus: Corpus) -> None:
    """Print what was made, in one line; before it what was skipped."""
    seconds = time.perf_counter() - started
    facts = {"out": str(out), "words": len(vectors), "dim": vectors.dim, "language": vectors.language}
    last = f", the rarest {count(vectors.counts[-1], 'time')} in the text" if vectors.counts is not None else ""
    if coverage := vectors.facts.get("covered"):
        last = f", {coverage:,} of them read without a sentence"
    text = f"{out}: {len(vectors):,} words of {vectors.dim} numbers{last}, in {seconds:.1f} s"
    options.print_report(facts | {"seconds": seconds}, corpus.skipped, text, as_json)


app = typer.Typer(
    help="""Make, map and evaluate word vectors.

Examples:
  phrasemate vectors distil english.txt -o vectors/en --lang en
  phrasemate vectors map wiki.de.vec wiki.en.vec -o mapped --unsupervised
  phrasemate vectors evaluate mapped/source mapped/target --lexicon de-en.txt""",
)
app.command("distil")(distil)
app.command("cover")(cover)
app.command("train")(train)


Method = Literal["procrustes", "symmetric"]
Columns = Annotated[str, option("--columns", "N,N", "Columns of source and target word in the lexicon, from 1.")]
Entries = Annotated[str, option("--entries", "A:B", "Only source words A to B of the lexicon, such as 1:5000.")]
Limit = Annotated[int | None, option("--limit", "N", "Read the first N words of each side (default: all).", min=1)]
Skip = Annotated[
    options.OnError, option("--on-error", "raise|skip", "Stop at a row of a .vec file that is damaged, or skip it.")
]
Side = "A fastText file (.vec or .vec.gz) or a folder of word vectors"


@app.command("map")
def map_(
    source: Annotated[Path, argument("SRC", f"{Side}, most frequent words first.")],
    target: Annotated[Path, argument("TGT", "The same for the other language.")],
    out: Annotated[Path, option("--out", "-o", "DIR", "The folder to write, with the folders source and target.")],
    lexicon: Annotated[Path | None, option("--lexicon", "FILE", "Pairs of words to learn from, one per line.")] = None,
    unsupervised: Annotated[bool, flag("--unsupervised", "Learn from the vectors alone (VecMap; takes long).")] = False,
    self_learning: Annotated[
        bool, flag("--self-learning", "Start with the lexicon and continue as --unsupervised does.")
    ] = False,
    method: Annotated[
        Method | None,
        option(
            "--method",
            "procrustes|symmetric",
            "Rotate the source onto the target, or re-weight both (default: procrustes with a lexicon, "
            "symmetric with self-learning).",
        ),
    ] = None,
    columns: Columns = "1,2",
    entries: Entries = ":",
    limit: Limit = None,
    on_error: Skip = "raise",
    vocabulary: Annotated[
        int, option("--vocabulary", "N", "Number of frequent words that self-learning uses.", min=2)
    ] = 20_000,
    initial: Annotated[
        int, option("--initial", "N", "Number of frequent words that --unsupervised starts with.", min=2)
    ] = 4_000,
    seed: Annotated[int, option("--seed", "N", "Seed of self-learning.", min=0)] = 0,
    force: Force = False,
    as_json: options.Json = False,
) -> None:
    """Map the word vectors of two languages into one space.

    With a lexicon, learns a rotation (Smith et al. 2017). Without one, uses self-learning (Artetxe et al. 2018), which
    needs vectors of comparable texts. If self-learning fails, its objective stays low: the mean similarity of a word
    and its best counterpart.

    Examples:
      phrasemate vectors map wiki.de.vec wiki.en.vec.gz -o mapped --lexicon de-en.txt --limit 200000
      phrasemate vectors map plain/de plain/en -o mapped --unsupervised
      phrasemate vectors map plain/de plain/en -o mapped --lexicon de-en.txt --entries 1:100 --self-learning
    """
    from phrasemate.vectors import SelfLearning, map_supervised, map_unsupervised
    from phrasemate.vectors.word_vectors import check_free

    if unsupervised == (lexicon is not None) or (self_learning and lexicon is None):
        raise typer.BadParameter("give either --lexicon FILE (and --self-learning, if you like) or --unsupervised")
    if unsupervised and (columns, entries) != ("1,2", ":"):
        raise typer.BadParameter("--columns and --entries apply to a lexicon; leave them out")
    learning = SelfLearning()
    for name, value, usual in (
        ("--vocabulary", vocabulary, learning.vocabulary),
        ("--initial", initial, learning.initial),
        ("--seed", seed, learning.seed),
    ):
        if value != usual and not (unsupervised or self_learning):
            raise typer.BadParameter(f"{name} applies to self-learning; leave it out")
    if initial != learning.initial and not unsupervised:
        raise typer.BadParameter("--initial applies to --unsupervised; leave it out")
    check_free(out, force)
    read = (source, target, source.resolve().parent, target.resolve().parent)  # out/source may be one of them
    options.check_apart(out, *read)
    pairs = None if lexicon is None else _lexicon(lexicon, columns, entries)
    sides = _vectors(source, limit, on_error), _vectors(target, limit, on_error)
    if pairs is not None and not self_learning:
        mapping = map_supervised(*sides, pairs, method or "procrustes")
        how = f"{mapping.source.facts['pairs']:,} pairs of the lexicon"
    else:
        settings = SelfLearning(vocabulary=vocabulary, initial=initial, seed=seed)
        with stages(lambda: "nothing was written") as show:

            def report_iteration(iteration: int, keep: float, objective: float) -> None:
                show(f"self-learning, p {keep:.1f}, objective {objective:.4f}, iteration", iteration, 0)

            mapping = map_unsupervised(*sides, settings, pairs, method or "symmetric", report_iteration)
        assert mapping.learnt is not None
        how = f"self-learning, {mapping.learnt.iterations:,} iterations, objective {mapping.learnt.objective:.4f}"
    mapping.save(out, force)
    if as_json:
        options.print_json({"out": str(out), **mapping.source.facts})
    else:
        typer.echo(f"{out}/source and {out}/target: {len(sides[0]):,} and {len(sides[1]):,} words, by {how}")


@app.command("evaluate")
def evaluate(
    source: Annotated[Path, argument("SRC", f"{Side}: the words to translate.")],
    target: Annotated[Path, argument("TGT", "The same for the other language, in the same space.")],
    lexicon: Annotated[Path, option("--lexicon", "FILE", "Words and translations, one pair per line.")],
    columns: Columns = "1,2",
    entries: Entries = ":",
    limit: Limit = None,
    on_error: Skip = "raise",
    neighbours: Annotated[int, option("--neighbours", "K", "Number of nearest neighbours in CSLS.", min=1)] = 10,
    as_json: options.Json = False,
) -> None:
    """Measure how often the nearest word of the other language is a translation.

    Prints the accuracy at 1 among all target words, by cosine and by CSLS. Words of the lexicon count if they have a
    vector and a translation with a vector. Use --entries to exclude words that a mapping was learnt from.

    Examples:
      phrasemate vectors evaluate mapped/source mapped/target --lexicon de-en.txt
      phrasemate vectors evaluate vectors/de vectors/en --lexicon en-de.tsv.gz --columns 2,1 --entries 5001:6500 --json
    """
    from phrasemate.vectors import induce

    pairs = _lexicon(lexicon, columns, entries)
    figures = induce(_vectors(source, limit, on_error), _vectors(target, limit, on_error), pairs, neighbours).as_dict()
    if as_json:
        typer.echo(json.dumps(figures))
        return
    typer.echo(
        f"{figures['words']:,} words asked, {figures['missing']:,} have no vector: accuracy at 1 "
        f"{figures['acc@1 nearest']:.4f} by cosine, {figures['acc@1 csls']:.4f} by CSLS"
    )


@app.command("info")
def info(
    folder: Annotated[Path, argument("DIR", f"{Side}.")], on_error: Skip = "raise", as_json: options.Json = False
) -> None:
    """Describe word vectors and how they were made, and verify their files.

    Examples:
      phrasemate vectors info vectors/en
      phrasemate vectors info wiki.de.vec --json
    """
    vectors = _vectors(folder, None, on_error)
    about = {"folder": str(folder), "language": vectors.language, "words": len(vectors), "dim": vectors.dim}
    about |= {"first": list(vectors.words[:10]), "counts": vectors.counts is not None}
    about |= {**vectors.facts, "words": len(vectors)}
    options.print_facts(about, as_json)


@app.command("export")
def export(
    folder: Annotated[Path, argument("DIR", "A folder of word vectors.")],
    out: Annotated[Path, option("--out", "-o", "FILE", "The file to write: .vec or .vec.gz.")],
    force: Force = False,
) -> None:
    """Write word vectors in the text format of fastText, for other programs.

    Examples:
      phrasemate vectors export vectors/en -o en.vec
      phrasemate vectors export mapped/source -o de.vec.gz
    """
    from phrasemate.vectors import WordVectors, write_fasttext

    options.check_apart(out, *folder.glob("*"))
    vectors = WordVectors.load(folder)
    write_fasttext(vectors, out, force)
    typer.echo(f"{out}: {len(vectors):,} words of {vectors.dim} numbers")


def _vectors(path: Path, limit: int | None, on_error: options.OnError) -> WordVectors:
    """Load word vectors from a folder, or read a .vec file with progress on standard error."""
    from phrasemate.vectors import WordVectors, read_fasttext

    if path.is_dir():
        vectors = WordVectors.load(path)
        return vectors if limit is None else vectors.first(limit)
    skipped_lines: list[Any] | None = [] if on_error == "skip" else None
    with stages(lambda: "nothing was written") as show:
        vectors = read_fasttext(
            path, limit, skipped=skipped_lines, progress=lambda *counts: show(f"reading {path.name}", *counts)
        )
    options.say_skipped(skipped_lines or ())
    return vectors


def _lexicon(path: Path, columns: str, numbers: str) -> list[tuple[str, str]]:
    from phrasemate.vectors import entries, read_lexicon
    from phrasemate.vectors.bilingual_lexicon import parse_range

    return entries(read_lexicon(path, options.two_columns(columns)), *parse_range(numbers))

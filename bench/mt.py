"""Translation with retrieved phrases, for real and offline: newstest2021 by a small model on this machine.

CCPR (Li et al. 2024), section 6.3 and appendix C, with a far smaller model. Index: text of the target language, the
sides of the parallel corpora and newstest sources of other pairs, never a reference under test. Examples of the
few-shot prompts: lines from 301 on; dev part: lines 201 to 300; test part: the first 200.

    python bench/mt_model.py --port 8089 &                                       # any other server does as well
    python bench/mt.py --llm http://127.0.0.1:8089/v1                            # all; can be stopped and goes on
    python bench/mt.py --llm URL --only de-en --systems plain phrases --count 50 --part dev
    phrasemate evaluate mt bench/out/mt/test                                     # the tables, without a server

Systems: plain, sentence (one related sentence), phrases, cot; floors (phrases by floors for the cosine and one look, in
place of the confidence); ngram (phrases by the n-gram segmenter) against the learned one (the paper's table 4);
training (phrases from the target side of the direction's own parallel text only, table 3).
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from common import OUT, parser

from phrasemate import Document, Index, Model, load_model
from phrasemate.mt import (
    FORMS,
    Cache,
    Client,
    Endpoint,
    Hinter,
    Hints,
    Prompter,
    RelatedSentences,
    Retrieval,
    Translation,
    Translator,
)

DIRECTIONS = ("de-en", "cs-en", "ru-en", "en-de")
# system: form, segmenter, whose text is indexed
SYSTEMS = {
    "plain": ("plain", "learned", "all"),
    "sentence": ("sentence", "learned", "all"),
    "phrases": ("phrases", "learned", "all"),
    "cot": ("cot", "learned", "all"),
    "floors": ("phrases", "learned", "all"),
    "ngram": ("phrases", "ngram", "all"),
    "training": ("phrases", "learned", "own"),
}
HINTS = Hints(threshold=0.5, k=2, contexts=0, budget=150)  # chosen on the dev part (docs/mt.md)
FLOORS = {"floor": 0.8, "per_word": 0.05, "confidence": 0.0, "quick": True}  # the system of that name
SHOTS = 4
FIRST_EXAMPLE = 300
EXAMPLE = 50, 120  # characters of either side
PARTS = {"dev": 200, "test": 0}  # where each begins
LEAST, MOST = 20, 300  # characters of a sentence that is indexed


def lines(data: Path, direction: str, side: int) -> list[str]:
    """Sources (0) or references (1) of a direction."""
    return (data / "mt" / f"{direction}.{direction.split('-')[side]}").read_text("utf-8").splitlines()


def corpus(data: Path, lang: str, other: str | None) -> list[str]:
    """Sentences of ``lang`` in the parallel corpora, of the pair with ``other`` alone if given; no test reference."""
    column = 0 if lang == "en" else 1
    names = [f"en-{other if lang == 'en' else lang}.tsv.gz"] if other else ["en-*.tsv.gz"]
    names = names if lang == "en" or other else [f"en-{lang}.tsv.gz"]
    found: set[str] = set()
    for path in (path for name in names for path in sorted((data / "parallel").glob(name))):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            found |= {text for line in file if LEAST <= len(text := line.split("\t")[column].strip()) <= MOST}
    return sorted(found - forbidden(data, lang))


def forbidden(data: Path, lang: str) -> set[str]:
    """The references in a language, of all directions."""
    paths = (data / "mt").glob(f"*-{lang}.{lang}")
    return {line.strip() for path in paths for line in path.read_text("utf-8").splitlines()}


def news(data: Path, lang: str) -> list[str]:
    """Newstest sources in a language: none of them is a reference."""
    paths = (data / "mt").glob(f"{lang}-*.{lang}")
    return sorted({line for path in paths for line in path.read_text("utf-8").splitlines()} - forbidden(data, lang))


def index_of(args: argparse.Namespace, model: Model, direction: str, kind: str) -> Index:
    """The index for a direction: of all text of the target language, or of its own pair's parallel text alone."""
    source, target = direction.split("-")
    name = f"{target}-all" if kind == "all" else f"{target}-from-{source}"
    path = args.work / f"index-{name}-{args.sentences}"
    if not (path / "done").exists():
        other = None if kind == "all" else (source if target == "en" else "en")
        texts = corpus(args.data, target, other)
        random.Random(args.seed).shuffle(texts)
        documents = [Document.from_texts("parallel", texts[: args.sentences])]
        documents += [Document.from_texts("newstest sources", news(args.data, target))] if kind == "all" else []
        index = Index.open(path) if (path / "index.json").exists() else Index.create(path, model, threads=args.threads)
        with index:
            report = index.add(documents, lang=target)
            print(f"{path.name}: {report.sentences:,} sentences, {report.phrases:,} phrases, {report.seconds:.0f} s")
        (path / "done").touch()
    return Index.open(path, model, readonly=True, threads=args.threads)


def translator(args: argparse.Namespace, model: Model, index: Index, direction: str, system: str) -> Translator:
    """A system for a direction; its examples are looked up like the sentences."""
    name, segmenter, _ = SYSTEMS[system]
    source, target = direction.split("-")
    settings = replace(
        HINTS,
        segmenter=segmenter,
        floor=args.floor,
        per_word=args.per_word,
        confidence=args.confidence,
        k=args.k,
        contexts=args.contexts,
        budget=args.budget,
        threshold=args.threshold,
    )
    settings = replace(settings, **FLOORS) if system == "floors" else settings
    hinter = Hinter(index, settings, apart=bool(FORMS[name].first)) if name in ("phrases", "cot") else None
    related = RelatedSentences(index, args.work) if name == "sentence" else None
    bare = Prompter(FORMS[name], source, target)
    tokenizer = model.runtime.tokenizer
    retrieval = Retrieval(hinter, related, lambda hint: len(tokenizer.encode(bare.hint(hint)).ids))
    pairs = examples(args.data, direction, args.shots)
    return Translator(Prompter(FORMS[name], source, target, retrieval.examples(pairs)), retrieval)


def examples(data: Path, direction: str, shots: int) -> list[tuple[str, str]]:
    """The first pairs from line 301 on that are neither headings nor long: the same for all systems."""
    pairs = list(zip(lines(data, direction, 0), lines(data, direction, 1), strict=True))[FIRST_EXAMPLE:]
    return [pair for pair in pairs if all(EXAMPLE[0] <= len(text) <= EXAMPLE[1] for text in pair)][:shots]


def run(args: argparse.Namespace, model: Model, client: Client, direction: str, system: str) -> None:
    """Translate the part by one system and write DIRECTION/SYSTEM.jsonl."""
    begin, folder = PARTS[args.part], args.out / direction
    part = slice(begin, begin + args.count)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reference.txt").write_text("\n".join(lines(args.data, direction, 1)[part]) + "\n", "utf-8")
    with index_of(args, model, direction, SYSTEMS[system][2]) as index:
        made = translator(args, model, index, direction, system)
        started = time.perf_counter()
        found = list(_counted(made.translate(lines(args.data, direction, 0)[part], client), f"{direction} {system}"))
    temporary = folder / f"{system}.jsonl.new"
    with temporary.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(each.as_dict(), ensure_ascii=False) + "\n" for each in found)
    temporary.replace(folder / f"{system}.jsonl")
    failed, known = sum(bool(each.failure) for each in found), sum(each.answer.cached for each in found)
    seconds = time.perf_counter() - started
    print(
        f"{direction} {system}: {len(found)} lines, {failed} failed, {known} known before, {seconds:.0f} s", flush=True
    )


def _counted(found: Iterator[Translation], name: str) -> Iterator[Translation]:
    for number, each in enumerate(found, 1):
        if number % 50 == 0:
            print(f"  {name}: {number}", flush=True)
        yield each


def wanted(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What to run: one direction after the other, within it one system after the other."""
    return [(direction, system) for direction in args.only for system in args.systems]


def tables(args: argparse.Namespace) -> None:
    """Print the tables of what has been written."""
    from phrasemate.cli.evaluate import print_result
    from phrasemate.evaluate.mt import Settings, run

    print_result(run(Settings(args.out, bertscore=args.bertscore, out=args.out)), as_json=False)


def main(given: Sequence[str] | None = None) -> None:
    """Run what is wanted, then print the tables."""
    options = parser(__doc__)
    options.add_argument("--llm", metavar="URL", required=True, help="an OpenAI-compatible server, up to /v1")
    options.add_argument("--llm-model", default="", help="its name there (default: the server's own choice)")
    options.add_argument("--api", choices=["chat", "completions"], default="completions")
    options.add_argument("--concurrency", type=int, default=4)
    options.add_argument("--part", choices=list(PARTS), default="test")
    options.add_argument("--count", type=int, default=None, help="sentences (default: 200 of test, 100 of dev)")
    options.add_argument("--sentences", type=int, default=60_000, help="sentences of each index")
    options.add_argument("--only", nargs="+", choices=DIRECTIONS, default=DIRECTIONS, metavar="XX-YY")
    options.add_argument("--systems", "--forms", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    options.add_argument("--shots", type=int, default=SHOTS)
    for name in ("floor", "per_word", "confidence", "threshold"):
        options.add_argument(f"--{name.replace('_', '-')}", type=float, default=getattr(HINTS, name))
    for name in ("k", "contexts", "budget"):
        options.add_argument(f"--{name}", type=int, default=getattr(HINTS, name))
    options.add_argument("--max-tokens", type=int, default=200)
    options.add_argument("--work", type=Path, default=OUT / "mt", help="indexes and answers")
    options.add_argument("--out", type=Path, default=None, help="translations (default: WORK/PART)")
    options.add_argument("--bertscore", type=Path, default=None, help="model folder for BERTScore ('bundled': ours)")
    args = options.parse_args(given)
    args.count = args.count or {"dev": 100, "test": 200}[args.part]
    args.out = args.out or args.work / args.part
    model = load_model(args.model, args.threads)
    args.work.mkdir(parents=True, exist_ok=True)
    endpoint = Endpoint(
        args.llm, args.llm_model, args.api, max_tokens=args.max_tokens, concurrency=args.concurrency, timeout=600
    )
    with Cache(args.work / "answers.sqlite") as cache, Client(endpoint, cache) as client:
        for direction, system in wanted(args):
            run(args, model, client, direction, system)
        print(f"requests sent: {client.requests} ({client.repeats} again); answers kept: {len(cache)}")
    tables(args)


if __name__ == "__main__":
    main()
